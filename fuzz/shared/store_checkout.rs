//! A store that somebody made or damaged: its checkout writes nothing outside of the destination and ends.

use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_objstore::store::checkout::{CheckoutOptions, checkout};
use senesce_objstore::store::commit::{CommitOptions, commit};
use senesce_objstore::store::snapshot::{EntryKind, Header, SnapshotEntry, decode, encode};
use senesce_objstore::store::verify::verify;
use senesce_objstore::{Layout, Store, StoreSettings};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const PARTS: [&str; 16] = [
    "a",
    "b",
    "link",
    "..",
    ".",
    "",
    "/",
    "outside",
    "sub",
    "%2E%2E",
    "%00",
    "precious",
    "\u{1b}[31m",
    "a/b",
    "link/x",
    "sub/../..",
];
const TARGETS: [&str; 8] = ["..", "/", ".", "a", "../outside", "../../outside", "/proc/self/cwd", "/dev/null"];

/// A store with one snapshot, and beside it what nobody may touch.
pub struct Scene {
    path: PathBuf,
    header: Header,
    file: EntryKind,
    files: Vec<(PathBuf, Vec<u8>)>,
    before: Vec<(PathBuf, u64, u32, i64, i64)>,
}

impl Scene {
    pub fn new(path: &Path) -> Self {
        fs::create_dir_all(path.join("outside/sub")).expect("a directory");
        fs::write(path.join("outside/precious"), "precious").expect("a file");
        fs::create_dir(path.join("work")).expect("a directory");
        fs::write(path.join("work/file"), "planted").expect("a file");
        let mut store = Store::create(&path.join("store"), StoreSettings::default()).expect("a store");
        let options = CommitOptions { layout: Layout::Pack, threads: 1, log_slower_than: None };
        commit(&mut store, &path.join("work"), &options, &Silent, &Interrupt::new()).expect("a commit");
        let pack = fs::read_dir(path.join("store/packs")).expect("packs").flatten().next().expect("a pack").path();
        let names = [path.join("store/snapshots/000001"), path.join("store/store.json"), pack];
        let files = names.map(|name| (name.clone(), fs::read(name).expect("a file"))).to_vec();
        let snapshot = decode(1, &files[0].1);
        let file = snapshot.entries[0].kind.clone();
        let mut scene =
            Self { path: path.into(), header: snapshot.header.expect("a header"), file, files, before: Vec::new() };
        scene.before = scene.outside();
        scene
    }

    /// What must stay as it is.
    fn outside(&self) -> Vec<(PathBuf, u64, u32, i64, i64)> {
        let mut found = Vec::new();
        for folder in ["outside", "outside/sub", "."] {
            for entry in fs::read_dir(self.path.join(folder)).expect("a directory").flatten() {
                let path = entry.path();
                if path.ends_with("back") || path.ends_with("store") {
                    continue;
                }
                let facts = path.symlink_metadata().expect("facts");
                found.push((path, facts.ino(), facts.mode(), facts.mtime(), facts.mtime_nsec()));
            }
        }
        found.sort();
        found
    }

    /// The first byte says whether entries of a snapshot are made of the others, or bytes of the store are changed.
    pub fn exercise(&self, bytes: &[u8]) {
        self.files.iter().for_each(|(path, whole)| fs::write(path, whole).expect("a file"));
        let Some((how, rest)) = bytes.split_first() else { return };
        match how % 2 {
            0 => fs::write(&self.files[0].0, encode(&self.header, &self.entries(rest))).expect("a snapshot"),
            _ => self.damage(rest),
        }
        self.check_out(CheckoutOptions { special_bits: how / 2 % 2 == 0 });
        assert_eq!(self.outside(), self.before, "something outside of the destination changed");
    }

    fn check_out(&self, options: CheckoutOptions) {
        let back = self.path.join("back");
        let _ = fs::remove_dir_all(&back);
        if let Ok(store) = Store::open(&self.path.join("store")) {
            let _ = checkout(&store, None, &back, options, &Silent, &Interrupt::new());
            let _ = verify(&store, &Silent, &Interrupt::new());
        }
    }

    /// An entry of every five bytes: kind, two parts of its path, mode, target.
    fn entries(&self, bytes: &[u8]) -> Vec<SnapshotEntry> {
        let part = |byte: u8| PARTS[usize::from(byte) % PARTS.len()];
        let entry = |five: &[u8]| SnapshotEntry {
            path: match five[1] {
                first if first % 3 == 0 => part(first / 3).to_string(),
                first => format!("{}/{}", part(first / 3), part(five[2])),
            },
            mode: u32::from(five[3]) << 4 | u32::from(five[2]),
            uid: 0,
            gid: 0,
            modified: (i64::from(five[4]) << (five[3] % 56), u32::from(five[3]) << 24),
            kind: match five[0] % 3 {
                0 => self.file.clone(),
                1 => EntryKind::Directory,
                _ => EntryKind::Link { to: TARGETS[usize::from(five[4]) % TARGETS.len()].into() },
            },
        };
        bytes.chunks_exact(5).take(40).map(entry).collect()
    }

    /// A changed byte of every four: which file, where (two bytes), what. The sign 255 cuts the file there.
    fn damage(&self, bytes: &[u8]) {
        for four in bytes.chunks_exact(4).take(60) {
            let (path, whole) = &self.files[usize::from(four[0]) % self.files.len()];
            let mut content = fs::read(path).expect("a file");
            let at = usize::from(u16::from_le_bytes([four[1], four[2]])) % whole.len();
            match (four[3], content.get_mut(at)) {
                (255, Some(_)) => content.truncate(at),
                (value, Some(byte)) => *byte = value,
                _ => {}
            }
            fs::write(path, content).expect("a file");
        }
    }
}
