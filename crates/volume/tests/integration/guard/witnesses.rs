//! The sources of the guard's knowledge, each of them missing, empty, of another namespace, or false. Targets in use
//! are never taken, and targets with data never without `--erase`. A child runs the checks in a mount namespace with
//! the spoiled source.

use super::{image, losetup, mkfs, mount, state, text};
use crate::common::{Process, existing, is_child, process};
use senesce_core::failure::{Classify, ExitCode};
use senesce_volume::images::{self, Extent};
use senesce_volume::snapshot::{Method, Snapshots};
use senesce_volume::{ClaimedDevice, OpenOptions, TargetError, TargetSpec, guard, open};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

const WAYS: [&str; 4] = ["missing", "empty", "other", "lying"];

/// Files and folders that the guard reads, in shell words: `$B` is the name of the busy loop device, `$F` of a free
/// one, `$H` a process with an open image and device, and `$$` the checking process. The second word names the
/// namespace that is replaced.
const SOURCES: [(&str, &str); 42] = [
    ("/proc", "pid"),
    ("/proc/$$", "pid"),
    ("/proc/$$/task", "pid"),
    ("/proc/$$/fd", "pid"),
    ("/proc/$$/fdinfo", "pid"),
    ("/proc/$$/ns", "pid"),
    ("/proc/$$/mountinfo", "chroot"),
    ("/proc/$H", "pid"),
    ("/proc/$H/fd", "pid"),
    ("/proc/$H/fdinfo", "pid"),
    ("/proc/$H/maps", "pid"),
    ("/proc/$H/map_files", "pid"),
    ("/proc/1", "pid"),
    ("/proc/1/ns", "pid"),
    ("/proc/swaps", "pid"),
    ("/proc/partitions", "pid"),
    ("/proc/locks", "pid"),
    ("/proc/sys/kernel/random", "pid"),
    ("/proc/sys/kernel/random/boot_id", "pid"),
    ("/sys", "net"),
    ("/sys/block", "net"),
    ("/sys/class/block", "net"),
    ("/sys/dev/block", "net"),
    ("/sys/devices/virtual/block", "net"),
    ("/sys/devices/virtual/block/$B", "net"),
    ("/sys/devices/virtual/block/$B/loop", "net"),
    ("/sys/devices/virtual/block/$B/loop/backing_file", "net"),
    ("/sys/devices/virtual/block/$B/dev", "net"),
    ("/sys/devices/virtual/block/$B/size", "net"),
    ("/sys/devices/virtual/block/$B/stat", "net"),
    ("/sys/devices/virtual/block/$B/diskseq", "net"),
    ("/sys/devices/virtual/block/$B/holders", "net"),
    ("/sys/devices/virtual/block/$B/slaves", "net"),
    ("/sys/devices/virtual/block/$B/queue", "net"),
    ("/sys/devices/virtual/block/$B/queue/zoned", "net"),
    ("/sys/fs", "net"),
    ("/dev", "dev"),
    ("/dev/$B", "dev"),
    ("/dev/$F", "dev"),
    ("/dev/loop-control", "dev"),
    ("/run", "dev"),
    ("/run/senesce", "dev"),
];

const FEW: [&str; 6] = ["/proc", "/proc/$H/fd", "/proc/swaps", "/sys", "/sys/block", "/dev"];

const SHELL: &str = r#"
cover() { mount -t tmpfs none "$1"; }
missing() {
  case $1 in
    /proc | /sys | /dev | /run) umount -l "$1" 2>/dev/null || cover "$1" ;;
    *) cover "${1%/*}" ;;
  esac
}
empty() { if [ -d "$1" ]; then cover "$1"; else : >"$D/blank"; mount --bind "$D/blank" "$1"; fi; }
lying() {
  case $1 in
    /proc) mkdir -p "$D/proc/self/fd" "$D/proc/thread-self" && cp /proc/self/mountinfo "$D/proc/thread-self" &&
      cp /proc/partitions /proc/swaps "$D/proc" && mount --bind "$D/proc" /proc ;;
    /proc/[0-9]*) mount --bind "$(echo "$1" | sed "s|/proc/[0-9]*|/proc/$I|")" "$1" ;;
    /sys) mkdir -p "$D/sys/block/$F" "$D/sys/dev/block" && echo 7:0 >"$D/sys/block/$F/dev" && mount --bind "$D/sys" /sys ;;
    /sys/devices/virtual/block) mkdir -p "$D/virtual" && cp -r "$1/$F" "$D/virtual" 2>/dev/null; mount --bind "$D/virtual" "$1" ;;
    /sys/devices/virtual/block/*) mount --bind "$(echo "$1" | sed "s/$B/$F/")" "$1" ;;
    /dev/loop*) mount --bind /dev/loop-control "$1" ;;
    *) if [ -d "$1" ]; then mkdir -p "$D/other/folder" && mount --bind "$D/other" "$1"
      else head -1 "$1" >"$D/line" && mount --bind "$D/line" "$1"; fi ;;
  esac
}
"#;

fn surroundings(way: &str, source: &str, namespace: &str) -> String {
    match (way, namespace) {
        ("other", "pid") => "exec unshare --pid --fork --mount-proc \"$@\"".into(),
        ("other", "net") => "exec unshare --net sh -c 'mount -t sysfs none /sys && exec \"$@\"' sh \"$@\"".into(),
        ("other", "chroot") => {
            // The mount table of a process in a chroot lacks mounts outside.
            "mkdir -p $D/root && mount --bind / $D/root && for at in proc sys dev tmp run; do mount --rbind /$at $D/root/$at; done\n\
             exec chroot $D/root \"$@\""
                .into()
        }
        ("other", _) => {
            // As in a container: few nodes, and a ledger of its own.
            "mount -t tmpfs none /run && mkdir $D/dev && mount -t tmpfs none $D/dev && cp -a /dev/null /dev/zero /dev/urandom /dev/$F $D/dev\n\
             mount --rbind $D/dev /dev && exec \"$@\""
                .into()
        }
        _ => format!("{way} \"{source}\" && exec \"$@\""),
    }
}

/// The questions of the child: a name, and whether it is in use or holds data.
fn questions(folder: &Path) -> Vec<(&'static str, bool, Result<(), TargetError>)> {
    let at = |name: &str| folder.join(name);
    let device = |name: &str| std::fs::read_to_string(at(name)).unwrap();
    let spec = |name: &str| TargetSpec::Image { path: at(name), size: None };
    let (busy, held, data, free) = (device("busy"), device("held"), device("data"), device("free"));
    let formatted = |name: &str| {
        let erase = Some(at(name).display().to_string());
        open(&spec(name), &OpenOptions { erase, ..OpenOptions::default() })?.close()
    };
    let copy = |name: &str| images::copy(&at("source.img"), &at(name), Extent::Used, Some(text(&at(name)))).map(drop);
    let back = |name: &str| Snapshots::of(&spec(name), None)?.rollback("s0", true).map(drop);
    let claim = |name: &str, erase: bool| ClaimedDevice::claim(Path::new(name), erase.then_some(name)).map(drop);
    let look = |name: &str| {
        let file = File::options().read(true).write(true).open(at(name)).unwrap();
        guard::check_image(&file, &at(name), None)
    };
    vec![
        ("a mounted image made again", true, formatted("busy.img")),
        ("a mounted image copied over", true, copy("busy.img")),
        ("a mounted image rolled back", true, back("busy.img")),
        ("a mounted device", true, claim(&busy, true)),
        ("an image in another process", true, back("held.img")),
        ("a device in another process", true, claim(&held, true)),
        ("an image with data", true, look("data.img")),
        ("a device with data", true, claim(&data, false)),
        ("a free image", false, look("free.img")),
        ("a free device", false, claim(&free, false)),
    ]
}

#[test]
#[ignore = "needs loop devices"]
fn asked() {
    let Some(folder) = is_child() else { return };
    for (name, is_never, answer) in questions(&folder) {
        let code = answer.as_ref().map_or_else(|error| error.exit_code() as u8, |()| 0);
        let said = answer.err().map_or_else(String::new, |error| error.to_string().replace('\n', " "));
        println!("answer\t{}\t{code}\t{name}\t{said}", u8::from(is_never));
    }
}

struct Scene {
    folder: tempfile::TempDir,
    names: BTreeMap<&'static str, String>,
    _held: Vec<Box<dyn std::any::Any>>,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let mut held: Vec<Box<dyn std::any::Any>> = Vec::new();
        for name in ["busy.img", "held.img"] {
            let path = image(at, name, &[(1 << 20, b"diary")]);
            let spec = existing(&path);
            Snapshots::of(&spec, None).unwrap().create("s0", Method::Copy).unwrap();
        }
        image(at, "source.img", &[(0, b"source")]);
        image(at, "data.img", &[(1 << 20, b"diary")]);
        image(at, "free.img", &[]);
        let (busy, detach) = losetup(&at.join("busy.img"), 0);
        mkfs(&busy);
        held.extend([mount(&busy, at, "point", "rw"), detach]);
        std::fs::write(at.join("point/file"), "content\n".repeat(1 << 17)).unwrap();
        let mut names: BTreeMap<&str, String> = BTreeMap::new();
        let mut device = |name: &'static str, content: &[(u64, &[u8])]| {
            let (device, detach) = losetup(&image(at, &format!("{name}.device"), content), 0);
            std::fs::write(at.join(name), text(&device)).unwrap();
            names.insert(name, text(&device).to_string());
            detach
        };
        let (in_process, data, free) =
            (device("held", &[]), device("data", &[(1 << 20, b"diary")]), device("free", &[]));
        std::fs::write(at.join("busy"), text(&busy)).unwrap();
        let script = "exec 3<>\"$1\" 4<>\"$2\"; echo ready; exec sleep 3600";
        let holder: Box<Process> = process(&["sh", "-c", script, "sh", text(&at.join("held.img")), &names["held"]]);
        let idle: Box<Process> = process(&["sh", "-c", "echo ready; exec sleep 3600"]);
        let name = |path: &str| path.trim_start_matches("/dev/").to_string();
        let short = BTreeMap::from([
            ("B", name(text(&busy))),
            ("F", name(&names["free"])),
            ("H", holder.id().to_string()),
            ("I", idle.id().to_string()),
            ("D", at.join("spoilt").display().to_string()),
        ]);
        held.splice(0..0, [holder as Box<dyn std::any::Any>, idle, in_process, data, free]);
        rustix::fs::sync();
        Self { folder, names: short, _held: held }
    }

    /// Contents of all targets. The kernel may write to the mounted image at any time, so its file and identity stand
    /// for it.
    fn contents(&self) -> Vec<(PathBuf, u64, String)> {
        let mut contents = state(self.folder.path());
        let image = self.folder.path().join("busy.img");
        let read = |program: &str, words: &[&str]| {
            let output = Command::new(program).args(words).arg(&image).output().unwrap();
            assert!(output.status.success(), "{program} reads the mounted image");
            output.stdout
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&read("debugfs", &["-R", "cat file"]));
        hasher.update(&read("blkid", &["-p", "-o", "value", "-s", "UUID"]));
        let (.., content) = contents.iter_mut().find(|(path, ..)| *path == image).unwrap();
        *content = hasher.finalize().to_string();
        contents
    }

    /// The exit codes of a child with this source: of the questions that must be refused, then of the free targets.
    fn ask(&self, script: &str) -> Result<[Vec<u8>; 2], String> {
        let own = std::env::current_exe().unwrap();
        // All files for this lie in a file system of their own.
        let script = format!("{SHELL}\nmkdir -p $D && mount -t tmpfs none $D || exit 99\n{script}\n");
        let words = ["--mount", "--propagation", "private", "sh", "-c", &script, "sh", own.to_str().unwrap()];
        let test = ["--exact", "guard::witnesses::asked", "--nocapture", "--include-ignored"];
        let output = Command::new("unshare")
            .args(words)
            .args(test)
            .envs(self.names.iter())
            .env("SENESCE_TEST_CHILD", self.folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut codes = [Vec::new(), Vec::new()];
        for line in said.lines().filter_map(|line| line.split_once("answer\t").map(|(_, line)| line)) {
            let words: Vec<&str> = line.split('\t').collect();
            let code: u8 = words[1].parse().unwrap();
            // Without its node a device is not a target.
            let failed = [ExitCode::Usage as u8, ExitCode::RunFailed as u8];
            let is_absent = failed.contains(&code) && words[3].contains("(ENOENT)");
            let is_other = code == ExitCode::Usage as u8 && words[3].contains("is not a block device");
            let is_refusal =
                [ExitCode::Refused as u8, ExitCode::Missing as u8].contains(&code) || is_absent || is_other;
            if words[0] == "1" && !is_refusal {
                return Err(format!("{}: exit {code}, {}", words[2], words[3]));
            }
            codes[usize::from(words[0] == "0")].push(code);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        match codes[0].len() {
            8 => Ok(codes),
            // The program does not even start there, so it writes nothing.
            0 if !output.status.success() => Ok(codes),
            _ => Err(format!("not all was asked: {said}{errors}")),
        }
    }
}

/// `3,4 / 0`: exit codes of the questions that must be refused, then those of the free targets.
fn cell([refused, free]: &[Vec<u8>; 2]) -> String {
    if refused.is_empty() {
        return "does not start".into();
    }
    let distinct = |codes: &[u8]| {
        let codes: std::collections::BTreeSet<u8> = codes.iter().copied().collect();
        codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    format!("{} / {}", distinct(refused), distinct(free))
}

fn table(sources: &[(&str, &str)]) -> Vec<String> {
    let scene = Scene::new();
    let before = scene.contents();
    let whole = scene.ask("exec \"$@\"").unwrap();
    assert_eq!(whole[1], [0, 0], "with nothing spoilt, what is free is given");
    let mut known: BTreeMap<String, Result<String, String>> = BTreeMap::new();
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    for (source, namespace) in sources {
        let mut row = format!("| `{source}` |");
        for way in WAYS {
            let script = surroundings(way, source, namespace);
            let found = known.entry(script.clone()).or_insert_with(|| scene.ask(&script).map(|codes| cell(&codes)));
            match found {
                Ok(cell) => row.push_str(&format!(" {cell} |")),
                Err(why) => wrong.push(format!("{source}, {way}: {why}")),
            }
        }
        println!("{row}");
        rows.push(row);
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(scene.contents(), before, "nothing was written");
    rows
}

#[test]
#[ignore = "needs root, loop devices"]
fn lost_witness_never_allows_a_write() {
    let few: Vec<_> = SOURCES.into_iter().filter(|(source, _)| FEW.contains(source)).collect();
    assert_eq!(table(&few).len(), FEW.len());
}

/// The table of benches/results/guard.md; SENESCE_TABLE names a file for the rows.
#[test]
#[ignore = "long: needs root, loop devices"]
fn every_source_may_be_lost() {
    let rows = table(&SOURCES);
    if let Some(path) = std::env::var_os("SENESCE_TABLE") {
        std::fs::write(path, rows.join("\n")).unwrap();
    }
}
