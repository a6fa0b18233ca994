//! Stored latency histograms.

use super::error::{RecordError, io_error};
use super::files::HISTOGRAMS;
use super::limits::MOST_HISTOGRAM;
use crate::input::InputFolder;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use std::io::{self, Read};
use std::path::Path;

/// Reads histogram `NAME` of the run directory `path`.
///
/// # Errors
/// If it does not exist, is damaged, or exceeds its limit.
pub fn read_histogram(path: &Path, name: &str) -> Result<Histogram<u64>, RecordError> {
    let file = Path::new(HISTOGRAMS).join(format!("{name}.hdr"));
    let bytes = InputFolder::open(path).and_then(|folder| folder.read_at_most(&file, MOST_HISTOGRAM));
    let path = path.join(file);
    let too_large = || RecordError::TooLarge { path: path.clone(), most: MOST_HISTOGRAM };
    let bytes = bytes.map_err(io_error("read", &path))?.ok_or_else(too_large)?;
    if stated_bytes(&bytes).is_ok_and(|stated| stated > MOST_HISTOGRAM.0) {
        return Err(too_large());
    }
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| RecordError::Damaged {
        path,
        line: 1,
        problem: format!("not a histogram: {error:?}"),
    })
}

/// Reads the size of the counts from the header; the library allocates it before it reads them. The plain form (V2)
/// begins with a cookie and this size. The compressed form has a cookie and its own length before a deflated plain
/// form.
fn stated_bytes(bytes: &[u8]) -> io::Result<u64> {
    const COMPRESSED: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
    let mut head = [0; 8];
    match bytes.strip_prefix(&COMPRESSED) {
        Some(rest) => ZlibDecoder::new(rest.get(4..).unwrap_or_default()).read_exact(&mut head)?,
        None => bytes.take(8).read_exact(&mut head)?,
    }
    Ok(u64::from(u32::from_be_bytes([head[4], head[5], head[6], head[7]])))
}
