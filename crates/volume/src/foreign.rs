//! Entry points to all parsers of foreign data, for the fuzz targets in `fuzz/` and the test of their corpus.

use crate::images::PackManifest;
use crate::trace::{BlockTrace, blkparse as text, blktrace as binary, columns};
use std::path::Path;

pub fn blktrace(bytes: &[u8]) {
    let _ = binary::parse(bytes, Path::new("fuzz"), &mut Default::default());
}

pub fn blkparse(bytes: &[u8]) {
    if let Ok(content) = std::str::from_utf8(bytes) {
        let _ = text::parse(content, Path::new("fuzz"), None);
    }
}

pub fn trace_columns(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    if let (Some(Ok(pattern)), Some(lines)) = (parts.next().map(std::str::from_utf8), parts.next()) {
        let _ = columns::parse(lines, Path::new("fuzz"), pattern, None);
    }
}

/// Reads a trace file of senesce. Panics if the number of requests differs from the header's, which is a defect that
/// the fuzzer searches.
pub fn block_trace(bytes: &[u8]) {
    if let Ok(trace) = BlockTrace::from_bytes(bytes, Path::new("fuzz")) {
        let requests = trace.iter().count();
        assert_eq!(requests, trace.len());
    }
}

pub fn image_pack(bytes: &[u8]) {
    let _ = PackManifest::read(&mut &*bytes, Path::new("fuzz"));
}

pub fn trace_page(bytes: &[u8]) {
    crate::trace::judge_page(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    type Target = (&'static str, fn(&[u8]));

    #[test]
    fn targets_accept_the_committed_corpus() {
        let targets: [Target; 6] = [
            ("blktrace", blktrace),
            ("blkparse", blkparse),
            ("block_trace", block_trace),
            ("trace_columns", trace_columns),
            ("image_pack", image_pack),
            ("trace_page", trace_page),
        ];
        for (name, target) in targets {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
            let files: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().collect();
            assert!(!files.is_empty(), "{name} has a corpus");
            files.iter().for_each(|file| target(&std::fs::read(file.path()).unwrap()));
        }
    }
}
