//! Runs the parsers of packs and snapshots on the corpus of the fuzz targets.

use senesce_objstore::HashAlgorithm;
use senesce_objstore::store::{pack, snapshot};
use std::path::{Path, PathBuf};

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn packs_of_the_corpus_are_read_or_explained() {
    let files = corpus("object_pack");
    assert!(files.len() >= 5);
    for (path, bytes) in files {
        let (entries, problem) = pack::decode(&bytes, HashAlgorithm::Sha1);
        assert_eq!(problem.is_none(), path.ends_with("whole"), "{}: {problem:?}", path.display());
        let inside = |entry: &pack::PackEntry| entry.offset + u64::from(entry.length) <= bytes.len() as u64;
        assert!(entries.iter().all(inside), "{}", path.display());
    }
}

#[test]
fn snapshots_of_the_corpus_are_read_or_explained() {
    let files = corpus("snapshot");
    assert!(files.len() >= 5);
    for (path, bytes) in files {
        let read = snapshot::decode(1, &bytes);
        assert_eq!(read.problems.is_empty(), path.ends_with("whole"), "{}: {:?}", path.display(), read.problems);
        assert!(read.entries.iter().filter_map(snapshot::SnapshotEntry::safe_path).all(|path| path.is_relative()));
    }
}
