//! Tests a hundred `kill -9` at random moments over all verbs with leftovers: the next start removes all of them and spares
//! live runs.

use crate::common::{Started, leftovers, run, start_until, temporary_directory};
use crate::kill::{guardian_of, kill, started, traces_of};
use crate::ledger::{self, CleanupEntry};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A small generator with a seed, so that a failure can be repeated: xorshift64 (Marsaglia, 2003).
struct XorShift(u64);

impl XorShift {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below.max(1)
    }
}

const VERBS: &[&str] = &[
    "age image:a.img,size=128M --profile agrawal --fullness 0.5 --truncate-sizes=drop --overwrites 40 --out new-age",
    "age memory:128M --profile agrawal --fullness 0.5 --truncate-sizes=drop --overwrites 40 --out new-memory",
    "age image:a.img,size=128M --in-memory --profile agrawal --fullness 0.3 --truncate-sizes=drop --out new-held",
    "bench image:a.img,size=128M fileserver --time 2s --scale 0.01 --out new-bench",
    "bench image:a.img,size=128M fileserver --time 2s --scale 0.01 --memory 1G --cpus 1 --out new-limits",
    "demo --out new-demo",
    "study study.toml --out new-study",
    "layout kept.img",
    "trace kept.img --json new.json -- sleep 1",
    "trace kept.img --out new-trace -- sh -c 'sync; sleep 1'",
    "snapshot create kept.img two",
    "snapshot restore kept.img one",
    "snapshot run kept.img one --json new.json -- sleep 1",
    "diagnose kept.img --try",
    "image twin kept.img new.img",
    "image copy kept.img new.img",
    "image pack kept.img new.pack",
    "image unpack kept.pack new.img",
    "device simulate kept.trace --model hdd:st500dm002",
    "tier mount --nvm n --cold c mnt --foreground",
    "objects commit store tree",
    "objects checkout store new-tree",
    "reproduce tier-sweep --scale smoke --out new-sweep",
    "reproduce tier-fileserver --scale smoke --out new-tierfs",
    "reproduce append --scale smoke --out new-append",
    "reproduce coldness --scale smoke --out new-coldness",
    "reproduce io-scheduler --scale smoke --out new-sched",
    "reproduce object-dirs --scale smoke --out new-dirs",
    "reproduce vcs-scaling --scale smoke --out new-vcs",
    "reproduce chunk-size --scale smoke --out new-chunks",
    "reproduce early-enospc --scale smoke --out new-enospc",
    "reproduce aged-image-copy --scale smoke --out new-copy",
    "reproduce frag-intra --scale smoke --out new-intra",
    "vm run --drive nvme,size=1G --memory 512M -- sleep 1000",
];

const STUDY: &str = r#"
name = "kills"
size = "64M"
file_system = [{ kind = "ext4" }]
state = [{ kind = "fresh" }, { kind = "aged", profile = "agrawal", fullness = 0.4, overwrites = 1 }]
workload = [{ personality = "webserver", scale = 0.005, seconds = 1 }]
"#;

fn words(line: &str) -> Vec<&str> {
    // One verb has a command in quotes.
    let mut quoted = line.split('\'');
    let mut words: Vec<&str> = quoted.next().unwrap_or_default().split_whitespace().collect();
    words.extend(quoted.next());
    words
}

fn done(folder: &Path, line: &str) {
    let output = run(folder, &words(line));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

fn set_scene(folder: &Path) {
    fs::create_dir_all(folder.join("mnt")).unwrap();
    fs::write(folder.join("study.toml"), STUDY).unwrap();
    // The guest's kernel and the cached accelerator; everything else is in the folder.
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"))).unwrap();
    fs::create_dir_all(folder.join(".cache/senesce")).unwrap();
    let _ = symlink(cache.join("senesce/vm"), folder.join(".cache/senesce/vm"));
    done(folder, "tier mkfs --nvm n --nvm-size 4M --cold c");
    done(
        folder,
        "age image:kept.img,size=128M --profile agrawal --fullness 0.5 --truncate-sizes=drop --overwrites 1 --out tree",
    );
    done(folder, "image pack kept.img kept.pack");
    done(folder, "snapshot create kept.img one");
    done(folder, "trace kept.img --read-only --save kept.trace -- ls -R {}");
    done(folder, "snapshot restore kept.img one");
    done(folder, "objects commit store tree");
}

fn live_runs(folder: &Path) -> Vec<Started> {
    fs::create_dir_all(folder.join("mnt")).unwrap();
    done(folder, "tier mkfs --nvm n --nvm-size 4M --cold c");
    let aged =
        "age image:live.img,size=64M --profile agrawal --fullness 0.3 --truncate-sizes=drop --overwrites 1 --out r";
    done(folder, aged);
    let served = start_until(folder, &words("tier mount --nvm n --cold c mnt --foreground"), "mounted on");
    let command = "trace live.img -- sh -c 'echo begun >&2; exec sleep 100000'";
    vec![served, start_until(folder, &words(command), "begun")]
}

/// Ends these runs. The traced command shares the pipes and ends too.
fn end(living: Vec<Started>) {
    living.iter().for_each(|run| kill(run.id()));
    living.into_iter().for_each(|run| drop(run.wait()));
}

fn clean(folder: &Path) {
    let names: Vec<PathBuf> = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    for path in names {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("new") || name == "a.img" || name == "senesce-runs" {
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
    }
    let _ = fs::remove_dir_all(folder.join(".cache/senesce/images"));
    for end in ["img", "json", "blake3"] {
        let _ = fs::remove_file(folder.join(format!("kept.img.snapshots/two.{end}")));
    }
    if folder.join("kept.img.snapshots/one.json").exists() {
        run(folder, &["snapshot", "restore", "kept.img", "one"]);
    }
}

const LONGEST: Duration = Duration::from_secs(6);

fn duration(folder: &Path, line: &str) -> Duration {
    let begin = Instant::now();
    let mut child = started(folder, &words(line));
    while child.try_wait().unwrap().is_none() && begin.elapsed() < LONGEST {
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = begin.elapsed();
    let _ = child.kill();
    let _ = child.wait();
    run(folder, &["doctor", "--sweep"]);
    clean(folder);
    took
}

#[derive(Default)]
struct Tally {
    alive: u32,
    holding: u32,
    with_guardian: u32,
    held: BTreeMap<String, u32>,
}

impl Tally {
    fn count(&mut self, held: &[CleanupEntry], was_alive: bool, guardian: bool) {
        self.alive += u32::from(was_alive);
        self.holding += u32::from(!held.is_empty());
        self.with_guardian += u32::from(guardian);
        held.iter().for_each(|owed| *self.held.entry(owed.kind().into()).or_default() += 1);
    }
}

#[test]
#[ignore = "long: a hundred runs, killed at random moments; needs loop devices, FUSE"]
fn hundred_killed_runs_leave_no_resources() {
    let (directory, other) = (temporary_directory(), temporary_directory());
    let (folder, rounds) = (directory.path(), number("KILLS", 100) as usize);
    set_scene(folder);
    let mut living = live_runs(other.path());
    let lived: Vec<Vec<CleanupEntry>> = living.iter().map(|run| ledger::of(run.id())).collect();
    assert!(lived.iter().all(|owed| !owed.is_empty()), "{lived:?}");
    let longest: Vec<Duration> = VERBS.iter().map(|line| duration(folder, line)).collect();
    let mut moments = XorShift(number("SEED", 0x5eed_5eed));
    let mut tally = Tally::default();
    for round in 0..rounds {
        let verb = round % VERBS.len();
        // Uniform over the verb's duration.
        let moment = longest[verb].mul_f64(moments.next(1000) as f64 / 1000.0);
        // In every other round of a verb the guardian is killed too.
        let both = (round / VERBS.len() + round).is_multiple_of(2);
        let name = format!("round {round}, after {moment:?}, {both}: {}", VERBS[verb]);
        kill_one(folder, VERBS[verb], moment, both, &mut tally, &name);
        for (run, owed) in living.iter_mut().zip(&lived) {
            assert!(run.is_running(), "{name}: a live run ended");
            owed.iter().for_each(|one| assert!(one.is_there(), "{name}: {one:?} of a live run is gone"));
        }
        clean(folder);
    }
    end(living);
    run(folder, &["doctor", "--sweep"]);
    assert_eq!(leftovers(other.path()), Vec::<String>::new());
    let Tally { alive, holding, with_guardian, held } = tally;
    println!(
        "{} verbs, {rounds} kills: {alive} ran, {holding} held something, {with_guardian} with the guardian",
        VERBS.len()
    );
    println!("held: {held:?}");
    assert!(holding * 2 > rounds as u32, "most kills must hit a run that holds something: {holding}");
}

fn kill_one(folder: &Path, line: &str, moment: Duration, both: bool, tally: &mut Tally, name: &str) {
    let mut child = started(folder, &words(line));
    std::thread::sleep(moment);
    let process = child.id();
    let was_alive = child.try_wait().unwrap().is_none();
    let guardian = if both { guardian_of(process) } else { None };
    guardian.into_iter().for_each(kill);
    let before = ledger::of(process);
    let _ = child.kill();
    // Entries written between the two readings count too, until they are cleaned up.
    let mut held = before;
    held.extend(ledger::of(process).into_iter().filter(|owed| !held.contains(owed)).collect::<Vec<_>>());
    tally.count(&held, was_alive, guardian.is_some());
    // One start is enough, also while the process still ends, or waits for its own server and has no guardian.
    run(folder, &["doctor", "--sweep"]);
    let _ = child.wait();
    let left: Vec<&CleanupEntry> = held.iter().filter(|owed| owed.is_there()).collect();
    assert!(left.is_empty(), "{name}: {left:?}");
    let left = (traces_of(process), leftovers(folder), ledger::of(process), servants(process));
    assert_eq!(left, (vec![], vec![], vec![], vec![]), "{name}");
}

/// Processes that serve an ended one: their command lines or names of loop devices contain its number.
fn servants(process: u32) -> Vec<String> {
    let names = [format!("-{process}-"), format!("senesce-image-{process}-")];
    let is_its = |text: &str| names.iter().any(|name| text.contains(name)) && text.contains("senesce-");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // The guardian of another process may match by chance; it has its own word.
        if is_its(&line) && !line.contains("__guardian") {
            found.push(line);
        }
    }
    for entry in fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        found.extend(is_its(&backing).then_some(backing));
    }
    found
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
