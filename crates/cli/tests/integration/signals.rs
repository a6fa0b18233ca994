//! Tests that SIGINT and SIGTERM end every verb soon, in any phase.

use crate::common::{senesce, temporary_directory, wait_until};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The documented limit is one second; a busy machine may take longer.
const LIMIT: Duration = Duration::from_secs(15);

/// CPU time after which a verb is in its long phase, in clock ticks.
const WORK_TICKS: u64 = 15;

fn ticks(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    // Fields 14 and 15 of proc_pid_stat(5).
    fields.get(11..13).map_or(0, |ticks| ticks.iter().filter_map(|text| text.parse::<u64>().ok()).sum())
}

fn started(folder: &Path, words: &[&str]) -> Child {
    senesce(folder).args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends a signal and checks that the exit code is 130 within the limit.
fn stops(mut child: Child, signal: &str, what: &str) {
    let begun = Instant::now();
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(130), "{what}: {said}");
    assert!(begun.elapsed() < LIMIT, "{what} took {:?}: {said}", begun.elapsed());
}

/// Starts a verb that works for a minute or more, and stops it during the work.
fn stops_at_work(folder: &Path, words: &[&str], signal: &str) {
    let child = started(folder, words);
    wait_until(|| ticks(&child) >= WORK_TICKS);
    stops(child, signal, &words.join(" "));
}

#[test]
fn verbs_that_only_compute_and_copy_stop() {
    let directory = temporary_directory();
    let folder = directory.path();
    // Bytes that do not compress.
    let mut random = vec![0; 1 << 20];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
    let image = fs::File::create(folder.join("big.img")).unwrap();
    (0..256).for_each(|number| {
        std::os::unix::fs::FileExt::write_all_at(&image, &random, number << 20).unwrap();
    });
    stops_at_work(folder, &["image", "pack", "big.img", "big.pack"], "-INT");
    assert!(!folder.join("big.pack").exists());
    let plan = ["age", "image:z.img,size=8T", "--plan-only", "--profile", "agrawal"];
    stops_at_work(folder, &plan, "-TERM");
}

#[test]
fn verb_that_waits_for_its_input_stops() {
    let directory = temporary_directory();
    let fifo = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let child = started(directory.path(), &["runs", "import", "blkparse", "pipe", "--out", "run"]);
    // Opening returns once the verb reads, and no data ever comes.
    let _writer = fs::File::options().write(true).open(&fifo).unwrap();
    stops(child, "-INT", "import");
}

#[test]
#[ignore = "needs loop devices"]
fn verbs_that_fill_a_volume_stop() {
    let directory = temporary_directory();
    for signal in ["-INT", "-TERM"] {
        let words = ["bench", "memory:2G", "fileserver", "--time", "60s", "--out", &format!("run{signal}")];
        stops_at_work(directory.path(), &words, signal);
    }
    let made = "age image:a.img,size=256M --fullness 0.5 --truncate-sizes=drop --overwrites 1 --out aged";
    crate::common::succeeds(directory.path(), made);
    stops_at_work(directory.path(), &["diagnose", "a.img", "--try"], "-INT");
}

/// A file of holes and some data is read for minutes; both signals end the commit soon, and the next commit succeeds.
#[test]
fn a_commit_of_a_huge_sparse_file_stops() {
    let directory = temporary_directory();
    let folder = directory.path();
    fs::create_dir(folder.join("tree")).unwrap();
    let file = fs::File::create(folder.join("tree/huge")).unwrap();
    file.set_len(4 << 40).unwrap();
    // A page every 16 MiB: as many pieces of data as the file system takes without filling memory.
    for number in 0..(16u64 << 10) {
        std::os::unix::fs::FileExt::write_all_at(&file, &number.to_le_bytes(), number << 24).unwrap();
    }
    for signal in ["-INT", "-TERM"] {
        stops_at_work(folder, &["objects", "commit", "store", "tree"], signal);
    }
    assert_eq!(fs::read_dir(folder.join("store/staging")).map_or(0, Iterator::count), 0, "nothing is left");
}
