//! The guard in more than forty situations, on images and loop devices. Refused targets keep their bytes and inodes,
//! and targets in use are refused with `--erase` too.

use crate::common::{attach, existing, temporary_directory};
use senesce_core::failure::{Classify, ExitCode};
use senesce_volume::{ClaimedDevice, ClaimedDirectory, OpenOptions, TargetError, TargetSpec, open};
use std::any::Any;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

mod devices;
mod exchanged;
mod formatted;
mod hidden_users;
mod others;
mod witnesses;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 160 * MIB;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    Free,
    Holds,
    Never,
}
use Answer::{Free, Holds, Never};

struct Situation {
    name: &'static str,
    target: PathBuf,
    answer: Answer,
    said: &'static str,
    /// Dropped in order after the check.
    _held: Vec<Box<dyn Any>>,
}

struct Undo(Vec<String>);

impl Drop for Undo {
    fn drop(&mut self) {
        let words: Vec<&str> = self.0.iter().map(String::as_str).collect();
        assert!(run(&words), "{words:?}");
    }
}

fn run(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn undo(words: &[&str]) -> Box<dyn Any> {
    Box::new(Undo(words.iter().map(|word| (*word).to_string()).collect()))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn image(directory: &Path, name: &str, content: &[(u64, &[u8])]) -> PathBuf {
    let path = directory.join(name);
    let file = File::create(&path).unwrap();
    file.set_len(SIZE).unwrap();
    content.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
    path
}

fn losetup(path: &Path, offset: u64) -> (PathBuf, Box<dyn Any>) {
    let output = Command::new("losetup").args(["-f", "--show", "-o", &offset.to_string()]).arg(path).output().unwrap();
    let name = String::from_utf8(output.stdout).unwrap().trim().to_string();
    assert!(name.starts_with("/dev/loop"), "{}", String::from_utf8_lossy(&output.stderr));
    let undo = undo(&["losetup", "-d", &name]);
    (name.into(), undo)
}

fn mount(device: &Path, directory: &Path, name: &str, options: &str) -> Box<dyn Any> {
    let point = directory.join(name);
    fs::create_dir(&point).unwrap();
    assert!(run(&["mount", "-o", options, text(device), text(&point)]), "mount {}", device.display());
    undo(&["umount", text(&point)])
}

fn mkfs(device: &Path) {
    // Leaves no initialisation to the kernel after the mount.
    let lazy = "lazy_itable_init=0,lazy_journal_init=0";
    assert!(run(&["mkfs.ext4", "-q", "-F", "-E", lazy, text(device)]), "mkfs.ext4 {}", device.display());
}

fn claim_device(path: &Path, erase: Option<&str>) -> Result<(), TargetError> {
    ClaimedDevice::claim(path, erase).map(drop)
}

fn hash_of_data(path: &Path) -> String {
    let file = File::open(path).unwrap();
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    while let Ok(start) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
        at = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(start)).unwrap();
        let mut bytes = vec![0; (at - start) as usize];
        file.read_exact_at(&mut bytes, start).unwrap();
        hasher.update(&start.to_le_bytes()).update(&bytes);
    }
    hasher.finalize().to_hex().to_string()
}

fn state(directory: &Path) -> Vec<(PathBuf, u64, String)> {
    let mut found: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .flatten()
        // The kernel writes to its swap space at any time.
        .filter(|entry| entry.file_type().unwrap().is_file() && entry.file_name() != "swap")
        .map(|entry| (entry.path(), entry.metadata().unwrap().ino(), hash_of_data(&entry.path())))
        .collect();
    found.sort();
    found
}

fn judge(situation: &Situation, claim: impl Fn(&Path, Option<&str>) -> Result<(), TargetError>) {
    let Situation { name, target, answer, said, .. } = situation;
    let erase = target.to_string_lossy().into_owned();
    for word in [None, Some("/dev/another"), Some(&*erase)] {
        let allowed = match *answer {
            Free => word != Some("/dev/another"),
            Holds => word == Some(&*erase),
            Never => false,
        };
        match claim(target, word) {
            Ok(()) => assert!(allowed, "{name}: taken with --erase {word:?}"),
            Err(error) => {
                assert!(!allowed, "{name}: refused with --erase {word:?}: {error}");
                let code = error.exit_code();
                assert!(matches!(code, ExitCode::Refused | ExitCode::Usage | ExitCode::RunFailed), "{name}: {error}");
                let is_wrong = word == Some("/dev/another");
                assert!(is_wrong || error.to_string().contains(said), "{name}: {error} (should say: {said})");
            }
        }
    }
}

#[test]
#[ignore = "needs loop devices"]
fn devices() {
    let directory = temporary_directory();
    let mut list = Vec::new();
    devices::signatures(directory.path(), &mut list);
    devices::devices_in_use(directory.path(), &mut list);
    rustix::fs::sync();
    let before = state(directory.path());
    list.iter().for_each(|situation| judge(situation, claim_device));
    let changed: Vec<_> =
        state(directory.path()).into_iter().filter(|one| !before.contains(one)).map(|one| one.0).collect();
    assert_eq!(changed, Vec::<PathBuf>::new(), "a claim writes nothing");
    println!("{} situations of devices", list.len());
    assert!(list.len() >= 30, "{}", list.len());
    list.into_iter().for_each(drop);
}

/// Opens an image and discards the result.
fn claim_image(path: &Path, erase: Option<&str>) -> Result<(), TargetError> {
    open(&existing(path), &OpenOptions { erase: erase.map(str::to_string), ..OpenOptions::default() })?.close()
}

#[test]
#[ignore = "needs loop devices"]
fn images() {
    let directory = temporary_directory();
    let directory = directory.path();
    let mut list = Vec::new();
    let mut push = |name, target: PathBuf, answer, said, held| {
        list.push(Situation { name, target, answer, said, _held: held });
    };
    push("an image with data", image(directory, "data", &[(100 * MIB, b"diary")]), Holds, "it holds data", vec![]);
    push("an image with a file system", image(directory, "fs", &[(1080, &[0x53, 0xEF])]), Holds, "ext4", vec![]);
    let hard = directory.join("hard");
    fs::hard_link(image(directory, "linked", &[(0, b"diary")]), &hard).unwrap();
    push("a second name of an image with data", hard, Holds, "unknown kind", vec![]);
    let link = directory.join("link");
    symlink(image(directory, "linked-to", &[(0, b"diary")]), &link).unwrap();
    push("a link to an image with data", link, Holds, "unknown kind", vec![]);
    symlink("nowhere", directory.join("dangling")).unwrap();
    push("a link that leads nowhere", directory.join("dangling"), Never, "", vec![]);
    fs::create_dir(directory.join("folder")).unwrap();
    push("a directory", directory.join("folder"), Never, "", vec![]);
    push("a device node", "/dev/null".into(), Never, "regular file", vec![]);
    push("an image that is not there, without a size", directory.join("missing"), Never, "does not exist", vec![]);

    let attached = image(directory, "attached", &[]);
    let (_, detach) = losetup(&attached, 0);
    push("an empty image that is attached", attached, Never, "is attached to", vec![detach]);
    let mounted = image(directory, "mounted", &[]);
    let device = attach(&mounted);
    mkfs(device.path());
    let point = mount(device.path(), directory, "mounted-point", "ro");
    push("a mounted image", mounted, Never, "is attached to", vec![point, Box::new(device)]);
    let part = image(directory, "part", &[]);
    let (device, detach) = losetup(&part, 64 * MIB);
    mkfs(&device);
    let point = mount(&device, directory, "part-point", "ro");
    push("an image of which a part is mounted", part, Never, "is attached to", vec![point, detach]);
    let locked = image(directory, "locked", &[]);
    let lock = File::open(&locked).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    push("an image that another run has", locked, Never, "is using it", vec![Box::new(lock)]);

    rustix::fs::sync();
    let before = state(directory);
    let images: Vec<_> = list.iter().filter(|one| one.answer == Never).collect();
    images.iter().for_each(|situation| judge(situation, claim_image));
    let refused = |one: &&Situation| one.answer == Holds;
    for situation in list.iter().filter(refused) {
        for word in [None, Some("/another")] {
            let error = claim_image(&situation.target, word).unwrap_err();
            assert!(word.is_some() || error.to_string().contains(situation.said), "{}: {error}", situation.name);
            assert_eq!(error.exit_code(), ExitCode::Refused);
        }
    }
    assert_eq!(state(directory), before);
    list.iter().filter(refused).for_each(|situation| judge(situation, claim_image));
    assert!(!directory.join("nowhere").exists());
    println!("{} situations of images", list.len());
}

#[test]
#[ignore = "needs swap files"]
fn swap_file_is_refused_despite_erase() {
    // Swap files cannot lie in memory.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("swap file");
    fs::write(&path, vec![0; 8 << 20]).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert!(run(&["mkswap", text(&path)]) && run(&["swapon", text(&path)]));
    let off = undo(&["swapoff", text(&path)]);
    let before = fs::read(&path).unwrap();
    for word in [None, Some(text(&path))] {
        let error = claim_image(&path, word).unwrap_err();
        assert!(error.to_string().contains("swap space"), "{error}");
        assert_eq!(error.exit_code(), ExitCode::Refused);
    }
    let (device, detach) = losetup(&path, 0);
    let error = ClaimedDevice::claim(&device, Some(text(&device))).unwrap_err();
    assert!(error.to_string().contains("swap file"), "{error}");
    drop(detach);
    assert_eq!(fs::read(&path).unwrap(), before);
    drop(off);
}

#[test]
fn directories() {
    let directory = temporary_directory();
    let directory = directory.path();
    let take = |path: &Path, erase: Option<&str>| {
        let spec = TargetSpec::Directory(path.into());
        open(&spec, &OpenOptions { erase: erase.map(str::to_string), ..OpenOptions::default() })?.close()
    };
    let made = |name: &str, file: Option<&str>| {
        fs::create_dir(directory.join(name)).unwrap();
        file.iter().for_each(|file| fs::write(directory.join(name).join(file), "precious").unwrap());
        directory.join(name)
    };
    let file = directory.join("file");
    fs::write(&file, "precious").unwrap();
    let held = made("held", None);
    let lock = File::open(&held).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let situations: Vec<(&str, PathBuf, Answer, &str)> = vec![
        ("missing", directory.join("not/there"), Never, "directory not found"),
        ("empty", made("empty", None), Free, ""),
        ("with files of others", made("full", Some("thesis")), Holds, "is not empty"),
        ("with our marker", made("ours", Some(".senesce")), Free, ""),
        ("a fresh ext4", made("fresh", Some("lost+found")), Free, ""),
        ("a file", file.clone(), Never, ""),
        ("held by another run", held, Never, "is using it"),
    ];
    for (name, target, answer, said) in situations {
        let situation = Situation { name, target, answer, said, _held: vec![] };
        judge(&situation, take);
    }
    assert_eq!(fs::read(directory.join("full/thesis")).unwrap(), b"precious");
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    assert!(!directory.join("not").exists());
    ClaimedDirectory::claim(&directory.join("empty"), None).unwrap();
}
