//! Sound, foreign, swapped and planted pairs.

use super::*;
use std::fs;

struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn make(&self, nvm: &str, cold: &str) -> Result<CreatedPair, TierError> {
        make(&self.request(nvm, cold))
    }

    fn request(&self, nvm: &str, cold: &str) -> MakeRequest {
        let (nvm, cold, nvm_size) = (self.path(nvm), self.path(cold), Some(Bytes::mib(1)));
        MakeRequest { nvm, nvm_size, cold, cold_size: None, erase: Vec::new() }
    }

    fn open(&self, nvm: &str, cold: &str) -> Result<OpenPair, TierError> {
        open(&self.path(nvm), &self.path(cold), false)
    }
}

#[test]
fn a_pair_is_made_checked_and_opened_once() {
    let scratch = Scratch::new();
    let made = scratch.make("n", "c").unwrap();
    assert_eq!((made.nvm_bytes, made.cold_bytes), (1 << 20, 8 << 20));
    let report = check_pair(&scratch.path("n"), &scratch.path("c")).unwrap();
    assert!(report.clean && report.problems.is_empty(), "{report:?}");
    let held = scratch.open("n", "c").unwrap();
    assert!(matches!(scratch.open("n", "c"), Err(TierError::InUse { .. })));
    assert!(matches!(check_pair(&scratch.path("n"), &scratch.path("c")), Err(TierError::InUse { .. })));
    drop(held);
    assert!(scratch.open("n", "c").is_ok());
}

#[test]
fn only_the_owner_may_read_the_halves() {
    let scratch = Scratch::new();
    fs::write(scratch.path("n"), "").unwrap();
    fs::set_permissions(scratch.path("n"), Permissions::from_mode(0o666)).unwrap();
    scratch.make("n", "c").unwrap();
    for name in ["n", "c"] {
        let mode = fs::metadata(scratch.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{name}");
    }
    std::os::unix::fs::symlink(scratch.path("nowhere"), scratch.path("link")).unwrap();
    assert!(scratch.make("link", "c2").is_err());
    assert!(!scratch.path("nowhere").exists());
}

#[test]
fn claimed_file_is_written_even_if_its_name_is_replaced() {
    let scratch = Scratch::new();
    let (path, precious) = (scratch.path("c"), scratch.path("precious"));
    fs::write(&precious, vec![b'p'; 1 << 20]).unwrap();
    let mut created = Created(Vec::new());
    let claim = ColdClaim::take(&path, None, &mut created).unwrap();
    claim.prepare(&path, 1 << 20).unwrap();
    fs::rename(&path, scratch.path("moved")).unwrap();
    std::os::unix::fs::symlink(&precious, &path).unwrap();
    write_cold_header(&claim, &path, &Identity { pair: [7; 16], blocks: 0, slots: 256 }).unwrap();
    assert_eq!(fs::read(&precious).unwrap(), vec![b'p'; 1 << 20]);
    assert!(fs::read(scratch.path("moved")).unwrap().starts_with(b"SNSCCOLD"));
}

#[test]
fn foreign_and_mixed_halves_are_refused_unchanged() {
    let scratch = Scratch::new();
    scratch.make("n", "c").unwrap();
    scratch.make("n2", "c2").unwrap();
    fs::write(scratch.path("foreign"), vec![b'x'; 1 << 20]).unwrap();
    fs::write(scratch.path("empty"), b"").unwrap();
    let before = fs::read(scratch.path("n")).unwrap();
    let message = |result: Result<OpenPair, TierError>| result.err().unwrap().to_string();
    assert!(message(scratch.open("n", "c2")).contains("two different file systems"));
    assert!(message(scratch.open("c", "n")).contains("swapped"));
    assert!(message(scratch.open("foreign", "c")).contains("not the region"));
    assert!(message(scratch.open("n", "foreign")).contains("not the cold store"));
    assert!(message(scratch.open("n", "empty")).contains("shorter than a header"));
    assert!(message(scratch.open("empty", "c")).contains("0 bytes"));
    assert!(message(scratch.open("missing", "c")).contains("ENOENT"));
    assert_eq!(fs::read(scratch.path("n")).unwrap(), before);
}

#[test]
fn a_mount_refuses_what_a_check_refuses() {
    use crate::format::superblock;
    use std::os::unix::fs::FileExt;
    let scratch = Scratch::new();
    scratch.make("n", "c").unwrap();
    let region = File::options().write(true).open(scratch.path("n")).unwrap();
    region.write_all_at(&7u64.to_le_bytes(), superblock::STATE as u64).unwrap();
    let report = check_pair(&scratch.path("n"), &scratch.path("c")).unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains("state word")), "{report:?}");
    let pair = scratch.open("n", "c").unwrap();
    let options = crate::Options { mode: crate::Mode::Bpfs, ..Default::default() };
    let mounted = crate::TierFs::open(Box::new(pair.nvm), Box::new(pair.cold), &scratch.path("n"), &options);
    assert!(matches!(mounted.err(), Some(TierError::Damaged { .. })));
}

#[test]
fn truncated_halves_are_refused() {
    let scratch = Scratch::new();
    scratch.make("n", "c").unwrap();
    File::options().write(true).open(scratch.path("c")).unwrap().set_len(1 << 20).unwrap();
    assert!(matches!(scratch.open("n", "c"), Err(TierError::Truncated { expected: 8388608, .. })));
    File::options().write(true).open(scratch.path("n")).unwrap().set_len(1 << 19).unwrap();
    assert!(matches!(scratch.open("n", "c"), Err(TierError::Truncated { found: 524288, .. })));
}

#[test]
fn data_are_only_overwritten_if_named() {
    let scratch = Scratch::new();
    fs::write(scratch.path("thesis"), b"precious").unwrap();
    assert!(matches!(scratch.make("thesis", "c"), Err(TierError::Target(_))));
    assert!(matches!(scratch.make("n", "thesis"), Err(TierError::Target(_))));
    assert_eq!(fs::read(scratch.path("thesis")).unwrap(), b"precious");
    assert!(!scratch.path("n").exists() && !scratch.path("c").exists(), "what was begun is removed");
    scratch.make("n", "c").unwrap();
    assert!(scratch.make("n", "c").is_err(), "it holds a file system");
    let (erase, cold_size) = (vec![scratch.path("thesis").display().to_string()], Some(Bytes::kib(32)));
    let request = MakeRequest { cold_size, erase, ..scratch.request("thesis", "c3") };
    assert!(matches!(make(&request), Err(TierError::Usage(_))), "the cold store is too small");
    assert_eq!(fs::read(scratch.path("thesis")).unwrap(), b"precious");
    make(&MakeRequest { cold_size: Some(Bytes::mib(4)), ..request.clone() }).unwrap();
    let both = ["thesis", "c3"].map(|name| scratch.path(name).display().to_string());
    for half in &both {
        let one = MakeRequest { erase: vec![half.clone()], ..request.clone() };
        assert!(matches!(make(&one), Err(TierError::Target(_))), "the other half is not named");
    }
    make(&MakeRequest { cold_size: Some(Bytes::mib(4)), erase: both.into(), ..request }).unwrap();
}

#[test]
fn anonymous_memory_only_overwrites_its_own_cold_store() {
    let scratch = Scratch::new();
    let fresh = |name: &str| fresh_cold(&scratch.path(name), 1 << 20).map(|(cold, _)| drop(cold));
    fresh("own").unwrap();
    fresh("own").unwrap();
    let before = fs::read(scratch.path("own")).unwrap();
    std::os::unix::fs::symlink(scratch.path("own"), scratch.path("link")).unwrap();
    assert!(fresh("link").is_err(), "a link may lead anywhere by the time it is followed");
    assert_eq!(fs::read(scratch.path("own")).unwrap(), before);
    fs::write(scratch.path("thesis"), b"precious").unwrap();
    assert!(matches!(fresh("thesis"), Err(TierError::Target(_))));
    scratch.make("n", "c").unwrap();
    assert!(matches!(fresh("c"), Err(TierError::Target(_))), "the region of this one is in a file");
    assert_eq!(fs::read(scratch.path("thesis")).unwrap(), b"precious");
}

#[test]
fn pipe_is_refused_without_waiting_for_its_writer() {
    let scratch = Scratch::new();
    let path = scratch.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    assert!(matches!(fresh_cold(&path, 1 << 20), Err(TierError::Target(_))));
    assert!(path.exists());
}

#[test]
#[ignore = "needs root"]
fn halves_planted_by_another_user_are_refused() {
    let scratch = Scratch::new();
    fs::set_permissions(scratch.folder.path(), Permissions::from_mode(0o1777)).unwrap();
    let give = |name: &str, user| std::os::unix::fs::chown(scratch.path(name), Some(user), None).unwrap();
    let refused = |error: TierError| assert!(error.to_string().contains("belongs to user 1234"), "{error}");
    fs::write(scratch.path("planted"), "").unwrap();
    give("planted", 1234);
    refused(scratch.make("planted", "c").unwrap_err());
    refused(scratch.make("n", "planted").unwrap_err());
    refused(fresh_cold(&scratch.path("planted"), 1 << 20).err().unwrap());
    assert_eq!(fs::metadata(scratch.path("planted")).unwrap().len(), 0);
    fs::write(scratch.path("other"), "").unwrap();
    fs::hard_link(scratch.path("other"), scratch.path("name")).unwrap();
    assert!(scratch.make("name", "c").unwrap_err().to_string().contains("several names"));
    scratch.make("n", "c").unwrap();
    for name in ["n", "c"] {
        give(name, 1234);
        refused(scratch.open("n", "c").err().unwrap());
        assert!(check_pair(&scratch.path("n"), &scratch.path("c")).is_ok(), "a check writes nothing");
        give(name, 0);
    }
    // In the other user's own folder, it is the file that the user named.
    std::os::unix::fs::chown(scratch.folder.path(), Some(1234), None).unwrap();
    fs::set_permissions(scratch.folder.path(), Permissions::from_mode(0o755)).unwrap();
    ["n", "c"].into_iter().for_each(|name| give(name, 1234));
    assert!(scratch.open("n", "c").is_ok());
}
