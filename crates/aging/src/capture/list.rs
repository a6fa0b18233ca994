//! Counts files from a list with one line "SIZE TIME PATH" each, such as the output of `find . -type f -printf '%s %T@ %P\n'`.

use super::tally::Tally;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead};

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error("line {line}: {problem}; expected bytes, seconds since 1970 and a path, separated by spaces")]
    Line { line: u64, problem: String },
}

/// Maximum length of a line; longer ones are not paths.
const LINE_LIMIT: usize = 64 << 10;
/// Maximum depth of a path.
const DEPTH_LIMIT: usize = 400;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line<'a> {
    /// Bytes.
    pub size: u64,
    /// Seconds since 1970.
    pub time: f64,
    /// Path, without a leading `/` or `./`.
    pub path: &'a [u8],
}

pub(crate) fn parse(line: &[u8]) -> Result<Line<'_>, String> {
    let (size, rest) = word(line).ok_or("a size is missing")?;
    let (time, rest) = word(rest).ok_or("a time is missing")?;
    let number = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let size_text = number(size);
    let time_text = number(time);
    let size = size_text.parse().map_err(|_| format!("'{size_text}' is not a number of bytes"))?;
    let time: f64 = time_text.parse().map_err(|_| format!("'{time_text}' is not a time"))?;
    if !(time.is_finite() && time.abs() < 1e15) {
        return Err(format!("'{time_text}' is not a time"));
    }
    let start = rest.iter().position(|byte| !byte.is_ascii_whitespace()).ok_or("a path is missing")?;
    let mut path = &rest[start..];
    loop {
        path = match path {
            [b'/', rest @ ..] | [b'.', b'/', rest @ ..] => rest,
            _ => break,
        };
    }
    if path.is_empty() { Err("a path is missing".into()) } else { Ok(Line { size, time, path }) }
}

fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = line.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let rest = &line[start..];
    let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    Some(rest.split_at(end))
}

/// Returns the latest time of a list, to which ages are relative.
///
/// # Errors
/// [`ListError`] with the number of an invalid line, or an I/O error.
pub fn newest(mut list: impl BufRead) -> Result<f64, ListError> {
    let mut newest = f64::NEG_INFINITY;
    each_line(&mut list, |line| newest = newest.max(line.time))?;
    Ok(newest)
}

pub fn tally(mut list: impl BufRead, newest: f64) -> Result<Tally, ListError> {
    let mut tally = Tally::default();
    let mut known = HashSet::new();
    each_line(&mut list, |line| {
        let parts = line.path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).count();
        let depth = (parts - 1).min(DEPTH_LIMIT);
        let above = parent(line.path);
        tally.births.add(Some(in_order(line.time)), tally.files, above);
        tally.name(line.path.len() - above.len() - usize::from(!above.is_empty()));
        tally.file(line.size, ((newest - line.time).max(0.0) as u64).saturating_add(1), depth);
        count_directories(line.path, &mut known, &mut tally);
    })?;
    tally.by_modification = tally.files;
    Ok(tally)
}

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |cut| &path[..cut])
}

/// Maps a time to a number that sorts in the order of times. Negative times are before 1970.
fn in_order(time: f64) -> u64 {
    let bits = time.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn count_directories(path: &[u8], known: &mut HashSet<u64>, tally: &mut Tally) {
    let mut above = path;
    while let Some(cut) = above.iter().rposition(|byte| *byte == b'/') {
        above = &above[..cut];
        let level = above.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).count();
        let mut hasher = DefaultHasher::new();
        above.hash(&mut hasher);
        if level == 0 || level > DEPTH_LIMIT || !known.insert(hasher.finish()) {
            return;
        }
        tally.directory(level);
    }
}

fn each_line(list: &mut impl BufRead, mut take: impl FnMut(Line<'_>)) -> Result<(), ListError> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = io::Read::take(&mut *list, LINE_LIMIT as u64).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if read == LINE_LIMIT && line.last() != Some(&b'\n') {
            return Err(ListError::Line { line: number, problem: format!("longer than {LINE_LIMIT} bytes") });
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if text.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        take(parse(text).map_err(|problem| ListError::Line { line: number, problem })?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_gives_sizes_depths_and_directories() {
        let list = b"10 1000.5 ./a/b/c\n0 900 a/d\n\n5 100 /top file\n" as &[u8];
        let newest = newest(list).unwrap();
        assert_eq!(newest, 1000.5);
        let (profile, _) = tally(list, newest).unwrap().profile("x", "", None, 1e9).unwrap();
        let depths: Vec<_> = profile.depths.iter().map(|row| (row.depth, row.weight, row.subdirectories)).collect();
        assert_eq!(depths, [(0, 1.0, 1), (1, 1.0, 1), (2, 1.0, 0)]);
        assert_eq!(profile.ages.last().unwrap().edge, 901.0);
    }

    #[test]
    fn bad_line_is_reported_with_its_number() {
        for (list, word) in [("x 1 a", "'x'"), ("1 y a", "'y'"), ("1 2", "path"), ("1", "time"), ("1 inf a", "'inf'")] {
            let text = format!("1 1 a\n{list}\n");
            let error = newest(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("line 2") && error.contains(word), "{error}");
        }
    }
}
