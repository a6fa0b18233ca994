//! Tests that every option with an output file goes through the function that destroys nothing.

use crate::common::{ends, json_of, run_line, senesce, stderr, succeeds, temporary_directory, words};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

/// A folder with a record at `run`.
fn with_a_record() -> tempfile::TempDir {
    let directory = temporary_directory();
    let ended = run_line(directory.path(), "zoned measure sim:zn540 --op write --time 1ms --out run");
    assert!(directory.path().join("run/summary.json").exists(), "{}", stderr(&ended));
    directory
}

const VERBS: &[&str] = &[
    "report run --out FILE",
    "report run --format zip --out FILE",
    "report run --format csv --out FILE",
    "report run --format json --out FILE",
    "compare run run --markdown FILE",
    "compare run run --junit FILE",
    "compare run run --ktap FILE",
    "zoned list sim:zn540 --svg FILE",
    "layout . --svg FILE",
    "profile capture . --out FILE",
    "vm run --json FILE -- true",
    "trace . --json FILE -- true",
    "trace . --save FILE -- true",
];

/// The fast ones that run on any machine.
const QUICK: [usize; 7] = [0, 1, 2, 3, 4, 7, 9];

#[derive(Clone, Copy, PartialEq)]
enum ExpectedOutcome {
    Refuse,
    Keep,
    WriteInto,
}

/// Creates one entry of each kind in `folder`; returns its name and the expected treatment.
fn kinds(folder: &Path) -> Vec<(&'static str, ExpectedOutcome)> {
    use ExpectedOutcome::{Keep, Refuse, WriteInto};
    let at = |name: &str| folder.join(name);
    fs::write(at("disk.img"), [vec![0; 1080], vec![0x53, 0xEF], vec![7; 4096]].concat()).unwrap();
    fs::write(at("zeros.img"), vec![0; 8192]).unwrap();
    fs::write(at("letter.txt"), "Dear diary, ").unwrap();
    fs::write(at("program"), b"\x7fELF\x02\x01\x01").unwrap();
    fs::write(at("picture.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    fs::write(at("archive.tar"), [&b"name"[..], &[0; 508], b"ustar"].concat()).unwrap();
    fs::write(at("read-only"), "mine").unwrap();
    fs::set_permissions(at("read-only"), fs::Permissions::from_mode(0o400)).unwrap();
    fs::write(at("program-s"), "mine").unwrap();
    fs::set_permissions(at("program-s"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::hard_link(at("disk.img"), at("second-name")).unwrap();
    symlink("disk.img", at("link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("/dev/null", at("to-null")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    symlink("folder", at("to-folder")).unwrap();
    drop(UnixListener::bind(at("socket")).unwrap());
    let kept = words("disk.img zeros.img letter.txt program picture.png archive.tar read-only program-s second-name");
    let refused = ["link", "dangling", "folder", "to-folder", "socket", "missing/folder/file"];
    let all = kept.into_iter().map(|name| (name, Keep)).chain(refused.map(|name| (name, Refuse)));
    let mut all: Vec<_> = all.chain(["to-null", "/dev/null"].map(|name| (name, WriteInto))).collect();
    let node = |name: &str, kind, major, minor| {
        let (mode, device) = (rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR, rustix::fs::makedev(major, minor));
        rustix::fs::mknodat(rustix::fs::CWD, at(name), kind, mode, device).is_ok()
    };
    // An unused loop device: an error does no harm.
    if node("block-device", rustix::fs::FileType::BlockDevice, 7, 250) {
        all.push(("block-device", Refuse));
    }
    if node("null-node", rustix::fs::FileType::CharacterDevice, 1, 3) {
        all.push(("null-node", WriteInto));
    }
    all
}

/// The name in a refusal: the file, or its missing folder.
fn named(file: &str) -> &str {
    file.rsplit_once('/').map_or(file, |(folder, _)| folder)
}

/// Kind, inode, mode, owner, device and bytes of everything in `folder` and of /dev/null.
fn state(folder: &Path) -> Vec<(String, [u64; 5], Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = entries.filter(|path| !path.ends_with("run") && !path.ends_with(".cache")).collect();
    paths.push("/dev/null".into());
    paths.sort();
    let facts = |path: std::path::PathBuf| {
        let found = path.symlink_metadata().unwrap();
        let numbers = [found.ino(), found.mode().into(), found.uid().into(), found.rdev(), found.nlink()];
        let bytes = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        (path.display().to_string(), numbers, bytes)
    };
    paths.into_iter().map(facts).collect()
}

#[test]
fn no_verb_replaces_data_by_its_output() {
    let directory = with_a_record();
    let folder = directory.path();
    let kinds = kinds(folder);
    assert!(kinds.len() >= 17, "{}", kinds.len());
    let before = state(folder);
    for (number, verb) in VERBS.iter().enumerate() {
        for (file, must) in &kinds {
            // Slow verbs are tried only with refused outputs, which are checked before any work.
            if *must == ExpectedOutcome::WriteInto && !QUICK.contains(&number) {
                continue;
            }
            let line = verb.replace("FILE", file);
            let ended = run_line(folder, &line);
            let (code, said) = (ended.status.code(), stderr(&ended));
            match must {
                ExpectedOutcome::WriteInto => assert!(matches!(code, Some(0 | 1)), "{line}: {said}"),
                _ => assert!(matches!(code, Some(2 | 3)) && said.contains(named(file)), "{line}: {code:?} {said}"),
            }
            assert_eq!(state(folder), before, "{line}");
        }
    }
    println!("{} verbs, {} kinds of targets", VERBS.len(), kinds.len());
    for (file, _) in kinds.iter().filter(|(_, must)| *must == ExpectedOutcome::Refuse) {
        let ended = run_line(folder, &format!("report run --force --out {file}"));
        assert!(matches!(ended.status.code(), Some(2 | 3)), "{file}: --force does not allow everything");
    }
    assert_eq!(state(folder), before);
}

#[test]
fn planted_names_of_temporary_files_are_not_followed() {
    let directory = with_a_record();
    let folder = directory.path();
    fs::write(folder.join("precious"), "precious").unwrap();
    for number in QUICK {
        let file = format!("out-{number}");
        for planted in [format!("{file}.part"), format!(".{file}.part"), format!("{file}.tmp"), format!("{file}~")] {
            symlink("precious", folder.join(planted)).unwrap();
        }
        let ended = run_line(folder, &VERBS[number].replace("FILE", &file));
        assert!(folder.join(&file).is_file(), "{file}: {}", stderr(&ended));
    }
    assert_eq!(fs::read(folder.join("precious")).unwrap(), b"precious");
    let parts = fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.file_type().unwrap().is_file());
    assert_eq!(parts.count(), 1 + QUICK.len(), "only the outputs remain");
}

#[test]
fn pipe_is_written_into_and_stays_a_pipe() {
    let directory = with_a_record();
    let folder = directory.path();
    let pipe = folder.join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for (verb, begin) in [(0, "<!doctype html>"), (1, "PK"), (3, "{")] {
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        succeeds(folder, &VERBS[verb].replace("FILE", "pipe"));
        assert!(reader.join().unwrap().starts_with(begin.as_bytes()), "{verb}");
        assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo());
    }
}

#[test]
fn standard_output_and_devices_are_written_into() {
    let directory = with_a_record();
    let folder = directory.path();
    let before = fs::symlink_metadata("/dev/stdout").unwrap().ino();
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let exported = json_of(folder, &format!("report run --format json --out {name}"));
        assert_eq!(exported["schema"], "senesce-export/1", "{name}");
    }
    assert_eq!(fs::symlink_metadata("/dev/stdout").unwrap().ino(), before);
    let null = fs::metadata("/dev/null").unwrap();
    succeeds(folder, "report run -o /dev/null");
    let after = fs::metadata("/dev/null").unwrap();
    assert_eq!((after.ino(), after.rdev()), (null.ino(), null.rdev()));
    ends(folder, "report run -o /dev/full", 5);
}

#[test]
fn same_format_is_replaced_and_force_replaces_the_rest() {
    let directory = with_a_record();
    let folder = directory.path();
    for _ in 0..2 {
        // Also over earlier ones.
        for line in ["report run", "report run --format figures --out out", "report run --format zip"] {
            succeeds(folder, line);
        }
    }
    fs::write(folder.join("page.html"), "a letter").unwrap();
    ends(folder, "report run --out page.html", 3);
    succeeds(folder, "report run --out page.html --force");
    assert!(fs::read_to_string(folder.join("page.html")).unwrap().starts_with("<!doctype html>"));
}

/// Every verb with much output notices a closed pipe by the error of the write.
#[test]
fn closed_pipe_ends_the_program_quietly() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for line in ["help age", "reproduce --list --json", "help --man age", "completions bash"] {
        let (reader, writer) = std::io::pipe().expect("pipe");
        drop(reader);
        let mut command = senesce(directory.path());
        let output = command.args(words(line)).stdout(writer).stderr(Stdio::piped()).output().expect("senesce");
        assert_eq!((output.status.code(), &stderr(&output)[..]), (Some(141), ""), "{line}");
    }
}

const DIRECTORIES: &[&str] = &[
    "zoned measure sim:zn540 --op write --time 1ms --out FILE",
    "reproduce append --scale smoke --out FILE",
    "report run --site FILE",
    "report run --format figures --out FILE",
    "help --man-pages FILE",
    "objects commit FILE run",
    "objects checkout store FILE",
];

#[test]
fn non_directory_is_reported_where_a_directory_is_needed() {
    let directory = with_a_record();
    let folder = directory.path();
    succeeds(folder, "objects commit store run");
    fs::write(folder.join("letter"), "Dear diary, ").unwrap();
    symlink("nowhere", folder.join("dangling")).unwrap();
    symlink("letter", folder.join("link")).unwrap();
    for verb in DIRECTORIES {
        for place in ["letter", "letter/below", "dangling", "link", "/dev/null"] {
            ends(folder, &verb.replace("FILE", place), 2);
        }
    }
    assert_eq!(fs::read(folder.join("letter")).unwrap(), b"Dear diary, ");
    assert!(!folder.join("nowhere").exists() && fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn manual_pages_replace_only_their_own_kind() {
    let directory = temporary_directory();
    let at = |name: &str| directory.path().join("man").join(name);
    fs::create_dir(directory.path().join("man")).unwrap();
    fs::write(directory.path().join("precious"), "precious").unwrap();
    symlink(directory.path().join("precious"), at("senesce.1")).unwrap();
    let written = |code| ends(directory.path(), "help --man-pages man", code);
    written(3);
    fs::remove_file(at("senesce.1")).unwrap();
    written(0);
    // Its own pages are replaced.
    written(0);
    fs::write(at("senesce-age.1"), "Dear diary, ").unwrap();
    written(3);
    assert_eq!(fs::read(at("senesce-age.1")).unwrap(), b"Dear diary, ");
    assert_eq!(fs::read(directory.path().join("precious")).unwrap(), b"precious");
}

#[test]
#[ignore = "needs loop devices"]
fn image_behind_a_dangling_link_is_refused_and_the_link_stays() {
    let directory = temporary_directory();
    let link = directory.path().join("a.img");
    symlink("unmounted/a.img", &link).unwrap();
    ends(directory.path(), "age image:a.img,size=64M --profile agrawal --fullness 0.3 --out run", 3);
    assert!(link.symlink_metadata().unwrap().is_symlink());
}

#[test]
fn files_are_not_exported_through_a_planted_folder() {
    let directory = with_a_record();
    for folder in ["precious", "files"] {
        fs::create_dir(directory.path().join(folder)).unwrap();
    }
    symlink(directory.path().join("precious"), directory.path().join("files/run")).unwrap();
    ends(directory.path(), "report run --format figures --out files", 3);
    assert_eq!(fs::read_dir(directory.path().join("precious")).unwrap().count(), 0);
}
