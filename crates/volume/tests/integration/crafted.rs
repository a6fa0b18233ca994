//! Damaged or malicious snapshots and packed images: nothing is written except the named target, nothing blocks, and
//! nothing crashes.

use crate::common::{existing, image_path, temporary_directory};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};
use senesce_volume::TargetSpec;
use senesce_volume::images::{pack, unpack};
use senesce_volume::snapshot::{Method, Snapshots};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

const SIZE: u64 = 4 << 20;

fn below(random: &mut Pcg64, most: usize) -> usize {
    (random.next_u64() % most.max(1) as u64) as usize
}

fn image(path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(SIZE).unwrap();
    for (at, byte) in [(4096, 7), (1 << 20, 8), (SIZE - 4096, 9)] {
        file.write_all_at(&[byte; 4096], at).unwrap();
    }
}

fn state(folder: &Path) -> Vec<(PathBuf, u64, u64, i64, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let facts = entry.path().symlink_metadata().unwrap();
        let content = if facts.is_file() { fs::read(entry.path()).unwrap() } else { Vec::new() };
        found.push((entry.path(), facts.ino(), facts.len(), facts.ctime_nsec(), content));
        if facts.is_dir() {
            found.extend(state(&entry.path()));
        }
    }
    found.sort();
    found
}

fn damage(whole: &[u8], random: &mut Pcg64) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    match below(random, 5) {
        0 => bytes.truncate(below(random, whole.len())),
        1 => {
            for _ in 0..1 + below(random, 6) {
                let at = below(random, whole.len());
                bytes[at] = random.next_u64() as u8;
            }
        }
        2 => bytes.extend((0..1 + below(random, 40)).map(|number| number as u8)),
        3 => {
            let (from, to, length) = (below(random, whole.len()), below(random, whole.len()), below(random, 100));
            let piece = whole[from..(from + length).min(whole.len())].to_vec();
            bytes.splice(to..to, piece);
        }
        _ => change_number(&mut bytes, random),
    }
    bytes
}

fn change_number(bytes: &mut Vec<u8>, random: &mut Pcg64) {
    const NUMBERS: [&str; 8] =
        ["0", "1", "4096", "4194304", "18446744073709551615", "9223372036854775807", "-1", "1e30"];
    let text = bytes.iter().take(400).position(u8::is_ascii_digit).unwrap_or(0);
    let places: Vec<usize> = (text..bytes.len().min(400)).filter(|at| bytes[*at].is_ascii_digit()).collect();
    let Some(start) = places.get(below(random, places.len())).copied() else { return };
    let end =
        bytes[start..].iter().position(|byte| !byte.is_ascii_digit()).map_or(bytes.len(), |length| start + length);
    bytes.splice(start..end, NUMBERS[below(random, NUMBERS.len())].bytes());
}

#[test]
fn pack_larger_than_free_space_is_refused_at_once() {
    let directory = temporary_directory();
    let (from, packed) = (directory.path().join("a.img"), directory.path().join("a.pack"));
    image(&from);
    pack(&from, &packed).unwrap();
    let whole = fs::read(&packed).unwrap();
    let end = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0;
    let head = String::from_utf8(whole[..end].to_vec()).unwrap();
    let huge = head.replace("\"size_bytes\":4194304", "\"size_bytes\":4611686018427387904");
    let huge = huge.replace("\"ranges\":[[4096,", "\"ranges\":[[0,4611686018427383000],[4611686018427383001,");
    let huge = huge.split("],[1048576").next().unwrap().to_string() + "]]}";
    fs::write(&packed, [huge.as_bytes(), &whole[end..]].concat()).unwrap();
    let error = unpack(&packed, &directory.path().join("b.img")).unwrap_err();
    assert!(error.to_string().contains("space for"), "{error}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn pipe_instead_of_pack_or_snapshot_does_not_block() {
    let (directory, path) = image_path();
    image(&path);
    let pipe = |path: &Path| {
        let _ = fs::remove_file(path);
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    pipe(&directory.path().join("pipe"));
    assert!(unpack(&directory.path().join("pipe"), &directory.path().join("b.img")).is_err());
    let spec = existing(&path);
    Snapshots::of(&spec, None).unwrap().create("one", Method::Copy).unwrap();
    for name in ["one.blake3", "one.img", "one.json", "journal"] {
        pipe(&directory.path().join("a.img.snapshots").join(name));
        let result = Snapshots::of(&spec, None).and_then(|mut snapshots| snapshots.rollback("one", false));
        assert!(result.is_err(), "{name}: {result:?}");
    }
}

#[test]
fn damaged_snapshots_change_only_their_image() {
    let (directory, path) = image_path();
    let folder = directory.path().join("a.img.snapshots");
    let outside = directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "precious").unwrap();
    image(&path);
    let spec = existing(&path);
    Snapshots::of(&spec, None).unwrap().create("one", Method::Copy).unwrap();
    let files: Vec<PathBuf> = ["one.json", "one.blake3", "one.img"].map(|name| folder.join(name)).to_vec();
    let whole: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    let original = fs::read(&path).unwrap();
    let before = state(&outside);
    let mut random = Pcg64::seed_from_u64(0x5eed);
    for round in 0..300 {
        files.iter().zip(&whole).for_each(|(path, whole)| fs::write(path, whole).unwrap());
        let which = round % files.len();
        fs::write(&files[which], damage(&whole[which], &mut random)).unwrap();
        if round % 5 == 0 {
            let names = ["one", "../outside/precious", "/etc/passwd", "", "one\n", "\u{1b}[31m"];
            fs::write(folder.join("journal"), names[below(&mut random, names.len())]).unwrap();
        }
        let result = Snapshots::of(&spec, None).and_then(|mut snapshots| snapshots.rollback("one", round % 2 == 0));
        // Whatever the files contain: a restore that reports itself as verified gave the bytes of the digests.
        if which != 0 && result.is_ok_and(|report| report.verified) && which == 1 {
            assert_eq!(fs::read(&path).unwrap(), original);
        }
        assert_eq!(state(&outside), before);
        assert_eq!(path.metadata().unwrap().len(), SIZE);
        let _ = fs::remove_file(folder.join("journal"));
        fs::write(&path, &original).unwrap();
    }
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

/// A folder of snapshots may also be a user's folder with images.
#[test]
fn snapshot_name_of_existing_file_is_refused() {
    let directory = temporary_directory();
    let (path, folder) = (directory.path().join("a.img"), directory.path().join("images"));
    image(&path);
    fs::create_dir(&folder).unwrap();
    let spec = existing(&path);
    for name in ["one.img", "two.blake3"] {
        fs::write(folder.join(name), "precious").unwrap();
    }
    std::os::unix::fs::symlink("nowhere", folder.join("three.img")).unwrap();
    let before = state(&folder);
    for name in ["one", "two", "three"] {
        let error = Snapshots::of(&spec, Some(&folder)).unwrap().create(name, Method::Copy).unwrap_err();
        assert!(error.to_string().contains("the file exists"), "{error}");
        assert_eq!(state(&folder).len(), before.len());
    }
    assert_eq!(fs::read(folder.join("one.img")).unwrap(), b"precious");
}

#[test]
fn file_instead_of_snapshot_folder_is_a_usage_error() {
    use senesce_core::failure::{Classify, ExitCode};
    let directory = temporary_directory();
    let (path, file) = (directory.path().join("a.img"), directory.path().join("letter"));
    image(&path);
    fs::write(&file, "precious").unwrap();
    let spec = existing(&path);
    for folder in [file.clone(), file.join("below")] {
        let error = Snapshots::of(&spec, Some(&folder)).err().unwrap();
        assert_eq!(error.exit_code(), ExitCode::Usage, "{error}");
        assert!(error.to_string().contains("letter is a file"), "{error}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

/// Of an unmounted drive, for example.
#[test]
#[ignore = "needs loop devices"]
fn dangling_image_link_is_refused_and_stays() {
    let directory = temporary_directory();
    let link = directory.path().join("a.img");
    std::os::unix::fs::symlink(directory.path().join("unmounted/a.img"), &link).unwrap();
    let spec = TargetSpec::Image { path: link.clone(), size: Some(senesce_core::Bytes(64 << 20)) };
    let error = senesce_volume::open(&spec, &senesce_volume::OpenOptions::default()).err().unwrap();
    assert!(error.to_string().contains("to a missing file"), "{error}");
    assert!(link.symlink_metadata().unwrap().is_symlink());
}

#[test]
fn planted_journal_reveals_nothing() {
    let directory = temporary_directory();
    let (path, secret) = (directory.path().join("a.img"), directory.path().join("secret"));
    image(&path);
    fs::write(&secret, "root:$6$hash").unwrap();
    let spec = existing(&path);
    let folder = directory.path().join("a.img.snapshots");
    let mut snapshots = Snapshots::of(&spec, None).unwrap();
    snapshots.create("one", Method::Copy).unwrap();
    let mut refused = || snapshots.rollback("one", false).err().unwrap().to_string();
    std::os::unix::fs::symlink(&secret, folder.join("journal")).unwrap();
    assert!(refused().contains("symbolic link") && !refused().contains("hash"), "{}", refused());
    fs::remove_file(folder.join("journal")).unwrap();
    fs::hard_link(&secret, folder.join("journal")).unwrap();
    assert!(refused().contains("does not name a snapshot") && !refused().contains("hash"), "{}", refused());
}
