//! Agings and loads on several ranks in this process: the same files as one process, continuation by others, a directory that
//! is not shared, more ranks than directories.

use senesce_aging::Profile;
use senesce_aging::parts::whole_sha256;
use senesce_cluster::{Cluster, Hello, Timing, simulated};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, ExitCode, Failure, Progress, Record, Seed, Silent};
use senesce_exp_aging::age::{Age, AgeSpec, Limits, plan_only, profile_hash, resume, run_by_ranks, verify};
use senesce_runner::{Conduct, Outcome, Recorded, Run, State, conduct};
use senesce_runs::bench::ranks::{self as by_ranks, RankRepetitions};
use senesce_runs::bench::{self, Ranks};
use senesce_volume::TargetSpec;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub fn spec(target: &Path) -> AgeSpec {
    let flags = ["--size", "24M", "--fullness", "50%", "--seed", "7", "--truncate-sizes", "drop", "--data", "sparse"];
    let spec = AgeSpec::of_flags(&[&flags[..], &["--max-operations", "6000"]].concat()).unwrap();
    spec.on(Some(TargetSpec::Directory(target.into()))).unwrap()
}

pub fn make_target(spec: &AgeSpec) {
    std::fs::create_dir_all(spec.target.as_ref().and_then(TargetSpec::path).unwrap()).unwrap();
}

fn together<T: Send>(
    ranks: u32,
    interrupt: &Interrupt,
    body: impl Fn(&Cluster) -> Result<Option<T>, Failure> + Sync,
) -> Result<T, Failure> {
    let results: Vec<Result<Option<T>, Failure>> = std::thread::scope(|scope| {
        let start = |(rank, transport): (usize, _)| {
            let (body, interrupt) = (&body, if rank == 0 { interrupt.clone() } else { Interrupt::new() });
            // Separate host names, because the ranks of one process cannot be distinguished by process.
            let hello = Hello { host: format!("node{rank}"), ..Hello::of_this_process("1", "test") };
            scope.spawn(move || {
                let timing = Timing { grace: Duration::from_secs(20), ..Timing::default() };
                body(&Cluster::join(move || Ok(transport), hello, timing, interrupt)?)
            })
        };
        let threads: Vec<_> = simulated(ranks).into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut results = results.into_iter();
    let first = results.next().unwrap();
    assert!(results.all(|other| other.map_or(true, |value| value.is_none())));
    first.map(|outcome| outcome.unwrap())
}

fn age(ranks: u32, spec: &AgeSpec, out: &Path, interrupt: &Interrupt) -> Result<Outcome, Failure> {
    make_target(spec);
    together(ranks, interrupt, |cluster| {
        let how = Conduct { interrupt, peers: Some(cluster), ..Conduct::quietly(out) };
        run_by_ranks(cluster, || conduct::<Age>(spec, spec.seed, &how))
    })
}

fn age_single_rank(spec: &AgeSpec, out: &Path) -> Outcome {
    make_target(spec);
    conduct::<Age>(spec, spec.seed, &Conduct::quietly(out)).unwrap()
}

struct StopWithin {
    phase: &'static str,
    begun: AtomicBool,
    interrupt: Interrupt,
}

impl StopWithin {
    fn new(phase: &'static str) -> Self {
        Self { phase, begun: AtomicBool::new(false), interrupt: Interrupt::new() }
    }
}

impl Progress for StopWithin {
    fn phase(&self, name: &str, _total: u64, _unit: &str) {
        self.begun.store(name == self.phase, Ordering::Relaxed);
    }

    fn position(&self, done: u64, _note: &str) {
        if done > 0 && self.begun.load(Ordering::Relaxed) {
            self.interrupt.request();
        }
    }
}

fn digest(result: &Value) -> String {
    result["namespace_sha256"].as_str().unwrap().to_string()
}

fn is_as_recorded(run: &Path) {
    let found = verify(run, None, &Silent).unwrap();
    assert!(found.good, "{:?}", found.files);
}

#[test]
fn any_number_of_ranks_makes_the_files_of_one_process() {
    let temporary = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::new();
    let one = age_single_rank(&spec(&temporary.path().join("one")), &temporary.path().join("run1"));
    for ranks in [1, 3, 8] {
        let out = temporary.path().join(format!("run-by-{ranks}"));
        let many = age(ranks, &spec(&temporary.path().join(format!("by{ranks}"))), &out, &interrupt).unwrap();
        assert_eq!(digest(&many.analysis.result), digest(&one.analysis.result), "{ranks} ranks");
        let rows = many.analysis.result["ranks"].as_array().unwrap();
        assert_eq!(rows.len(), ranks as usize);
        let operations: u64 = rows.iter().map(|row| row["operations"].as_u64().unwrap()).sum();
        assert_eq!(operations, one.analysis.result["operations"].as_u64().unwrap());
        is_as_recorded(&out);
    }
}

#[test]
fn plan_in_parts_has_the_same_files_for_any_ranks_threads_and_separate_plans() {
    let temporary = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::new();
    let divided = |target: &Path, threads| {
        let limits = Limits { max_operations: Some(3000), ..Limits::default() };
        AgeSpec { parts: 4, size: Some(Bytes::mib(80)), threads, limits, ..spec(target) }
    };
    let planned = plan_only(&divided(temporary.path(), 1), &Silent, &interrupt).unwrap();
    let parts: Vec<String> = serde_json::from_value(planned["part_sha256"].clone()).unwrap();
    assert_eq!((parts.len(), digest(&planned)), (4, whole_sha256(&parts)));
    for (ranks, threads) in [(0, 2), (1, 1), (3, 2), (6, 1)] {
        let name = format!("{ranks}-{threads}");
        let (aged, out) = (temporary.path().join(format!("aged-{name}")), temporary.path().join(format!("run-{name}")));
        let spec = divided(&aged, threads);
        let outcome = match ranks {
            0 => age_single_rank(&spec, &out),
            ranks => age(ranks, &spec, &out, &interrupt).unwrap(),
        };
        let result = outcome.analysis.result.clone();
        for key in ["namespace_sha256", "part_sha256", "operations", "creates", "rmse", "fullness", "created_size_tv"] {
            assert_eq!(result[key], planned[key], "{key} with {name}");
        }
        assert!(aged.join("part-0003").is_dir());
        is_as_recorded(&out);
        let idle = "6 ranks share 4 parts: ranks 4 to 5 have nothing to do".to_string();
        assert_eq!(outcome.analysis.caveats.contains(&idle), ranks == 6);
        std::fs::write(aged.join("part-0002/stranger"), "x").unwrap();
        let found = verify(&out, None, &Silent).unwrap();
        assert_eq!((found.good, found.files.strangers), (false, 1));
    }
}

#[test]
fn volume_too_small_for_its_parts_is_refused_with_the_minimum_size() {
    let planned = |size| AgeSpec { size: Some(size), parts: 5, ..spec(Path::new("/tmp/aged")) }.summary();
    let refused = planned(Bytes::mib(5)).unwrap_err().to_string();
    assert!(refused.starts_with("cannot plan: each of 5 parts: "), "{refused}");
    let least = refused.split("must have at least ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(planned(Bytes(least.parse().unwrap())).is_ok(), "{refused}");
}

#[test]
fn interrupted_run_is_resumed_by_another_number_of_ranks() {
    resume_by_others(1);
}

#[test]
fn interrupted_run_in_parts_is_resumed_by_another_number_of_ranks() {
    resume_by_others(5);
}

fn resume_by_others(parts: u32) {
    let temporary = tempfile::tempdir().unwrap();
    let (aged, out) = (temporary.path().join("aged"), temporary.path().join("run"));
    let size = Some(Bytes::mib(24 * u64::from(parts)));
    let limits = Limits { overwrites: Some(400.0), ..Limits::default() };
    let wanted = AgeSpec { limits, parts, size, ..spec(&aged) };
    make_target(&wanted);
    let stop = StopWithin::new("aging");
    let first = together(4, &stop.interrupt, |cluster| {
        let how =
            Conduct { interrupt: &stop.interrupt, progress: &stop, peers: Some(cluster), ..Conduct::quietly(&out) };
        run_by_ranks(cluster, || conduct::<Age>(&wanted, wanted.seed, &how))
    });
    let first = first.unwrap();
    assert_eq!(first.state, State::Interrupted);
    is_as_recorded(&out);
    let stopped = first.analysis.result["operations"].as_u64().unwrap();

    // An earlier end than the first one, as with --resume --max-operations.
    let limits = Limits { max_operations: Some(stopped + 3000), ..Limits::default() };
    let interrupt = Interrupt::new();
    let resumed = together(3, &interrupt, |cluster| {
        let how = Conduct { peers: Some(cluster), ..Conduct::quietly(&out) };
        run_by_ranks(cluster, || resume(&out, &limits, &how))
    });
    let resumed = resumed.unwrap();
    assert_eq!(resumed.state, State::Done);
    assert!(resumed.analysis.result["operations"].as_u64().unwrap() > stopped);
    is_as_recorded(&out);
}

#[test]
fn ranks_beyond_the_directories_are_idle_and_reported() {
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("run");
    let profile = temporary.path().join("flat.toml");
    let text = "name = \"flat\"\nsource = \"test\"\nsizes = [{ bytes = 4096, weight = 1 }]\n\
                depths = [{ depth = 1, weight = 1, subdirectories = 0 }]\nages = [{ edge = 1.0, weight = 1 }]\n";
    std::fs::write(&profile, text).unwrap();
    let loaded = Profile::load(&profile.to_string_lossy()).unwrap();
    let flat = AgeSpec {
        profile: profile.to_string_lossy().into_owned(),
        profile_hash: profile_hash(&loaded),
        size: Some(Bytes::mib(4)),
        ..spec(&temporary.path().join("aged"))
    };
    let outcome = age(5, &flat, &out, &Interrupt::new()).unwrap();
    let said = "5 ranks share 2 directories: ranks 2 to 4 have nothing to do";
    assert!(outcome.analysis.caveats.iter().any(|words| words == said), "{:?}", outcome.analysis.caveats);
    is_as_recorded(&out);
}

struct Obstacle(PathBuf);

impl Progress for Obstacle {
    fn phase(&self, name: &str, _total: u64, _unit: &str) {
        if name == "aging" {
            std::fs::create_dir_all(self.0.parent().unwrap()).unwrap();
            std::fs::write(&self.0, "in the way").unwrap();
        }
    }
}

#[test]
fn error_on_one_rank_ends_all_and_is_recorded_with_its_host() {
    let temporary = tempfile::tempdir().unwrap();
    let (aged, out) = (temporary.path().join("aged"), temporary.path().join("run"));
    // An obstacle at the first file of a directory that rank 0 does not execute.
    let plan = spec(&aged).planner(0).unwrap();
    let file = plan.clone().find(|operation| operation.file.directory % 3 == 2).unwrap().file;
    let path = aged.join(plan.plan().directories().path(file.directory));
    make_target(&spec(&aged));
    let obstacle = Obstacle(path.join(senesce_aging::plan::file_name(file.birth)));
    let interrupt = Interrupt::new();
    let played = together(3, &interrupt, |cluster| {
        let how = Conduct { progress: &obstacle, peers: Some(cluster), ..Conduct::quietly(&out) };
        run_by_ranks(cluster, || conduct::<Age>(&spec(&aged), Seed(7), &how))
    });
    let failure = played.err().unwrap();
    assert_eq!(failure.exit_code(), ExitCode::RunFailed);
    assert!(failure.to_string().starts_with("rank 2 on node2: cannot create "), "{failure}");
    let record = Record::open(&out).unwrap();
    assert!(record.is_partial());
    let recorded = Recorded::<Age>::of(&record).unwrap();
    let reasons: Vec<&str> = recorded.failures().into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons, [failure.to_string()]);
}

fn load(target: &Path, ranks: Ranks) -> bench::Spec {
    #[derive(clap::Parser)]
    struct BenchArguments {
        #[command(flatten)]
        how: bench::spec::BenchOptions,
    }
    let words = ["bench", "--scale", "0.01", "--time", "400ms", "--reps", "2", "--keep-caches"];
    let how = <BenchArguments as clap::Parser>::parse_from(words).how;
    let target = target.to_string_lossy().parse().unwrap();
    bench::Spec { target, workload: "webserver".into(), text: None, ranks: Some(ranks), how }
}

fn measure(spec: &bench::Spec, out: &Path) -> Result<Outcome, Failure> {
    let (interrupt, ranks) = (Interrupt::new(), spec.ranks.unwrap());
    std::fs::create_dir_all(spec.target.path().unwrap()).unwrap();
    together(ranks.count, &interrupt, |cluster| by_ranks::run(spec, Seed(3), &Conduct::quietly(out), out, cluster))
}

fn rows_of(out: &Path) -> Vec<RankRepetitions> {
    bench::results::read(out).unwrap().ranks
}

#[test]
fn load_by_ranks_begins_together_and_is_summed() {
    for shared in [false, true] {
        let temporary = tempfile::tempdir().unwrap();
        let (target, out) = (temporary.path().join("files"), temporary.path().join("run"));
        measure(&load(&target, Ranks { count: 3, shared }), &out).unwrap();
        let results = bench::results::read(&out).unwrap();
        assert_eq!(results.repetitions.len(), 2);
        for (whole, rows) in results.repetitions.iter().zip(&results.ranks) {
            // A phase this short can lose a hundredth of its length to locks or other guests on a busy machine.
            let is_lost = whole
                .reason
                .as_deref()
                .is_some_and(|reason| reason.contains("was stopped") || reason.contains("steal"));
            assert!(whole.valid || is_lost, "{:?}", whole.reason);
            assert_eq!(rows.ranks.iter().map(|row| row.result.ops).sum::<u64>(), whole.ops);
            assert!(rows.ranks.iter().all(|row| row.result.ops > 0 && row.end_seconds > row.begin_seconds));
        }
        assert_eq!(target.join("rank-0002").exists(), !shared);
        let record = Record::open(&out).unwrap();
        let recorded = Recorded::<bench::Bench>::of(&record).unwrap();
        let written =
            |event: &bench::Event| !matches!(event, bench::Event::Prepared(facts) if facts.populate_seconds <= 0.0);
        assert!(recorded.events().all(written), "shared {shared}");
    }
}

#[test]
fn plan_of_a_load_by_ranks_includes_writes_of_all_ranks() {
    let plan =
        |count, shared| bench::Bench::plan(&load(Path::new("/tmp/files"), Ranks { count, shared }), Seed(3)).unwrap();
    let (one, four, shared) = (plan(1, false), plan(4, false), plan(4, true));
    assert_eq!(four.bytes_to_write, 4 * one.bytes_to_write);
    assert_eq!(shared.bytes_to_write, one.bytes_to_write);
    assert!(four.steps[0].action.ends_with("on each of 4 ranks"), "{:?}", four.steps);
    assert_eq!(four.spec["ranks"]["count"].as_integer(), Some(4));
}

/// Signs lines again: their checksums continue each other.
fn signed(lines: &[&str]) -> String {
    let mut sum = 0;
    let line = |line: &&str| {
        let body = line.split_once("\"event\":").unwrap().1.trim_end().strip_suffix('}').unwrap();
        let mut hasher = crc32fast::Hasher::new_with_initial(sum);
        hasher.update(body.as_bytes());
        sum = hasher.finalize();
        format!("{{\"crc\":\"{sum:08x}\",\"event\":{body}}}\n")
    };
    lines.iter().map(line).collect()
}

#[test]
fn load_by_ranks_continues_with_the_remaining_repetitions() {
    let temporary = tempfile::tempdir().unwrap();
    let (target, out) = (temporary.path().join("files"), temporary.path().join("run"));
    let spec = load(&target, Ranks { count: 2, shared: false });
    measure(&spec, &out).unwrap();
    // As if the run had been killed after its first repetition.
    std::fs::remove_file(out.join("summary.json")).unwrap();
    let events = std::fs::read_to_string(out.join("events.jsonl")).unwrap();
    let lines: Vec<&str> = events.split_inclusive('\n').collect();
    let first = lines.iter().position(|line| line.contains("\"repetition\":2")).unwrap();
    // The later events with the checksum of the environment stay: its file does too.
    let is_identity = |line: &&str| line.contains("\"kind\":\"identity\"");
    let later = lines[first..].iter().copied().filter(is_identity);
    // Without those of an incomplete step.
    let whole = lines[..first].iter().rposition(|line| !line.contains("\"more\":true")).unwrap();
    let kept: Vec<&str> = lines[..=whole].iter().copied().chain(later).collect();
    assert!(kept.iter().any(|line| line.contains("\"kind\":\"repetition\"")));
    std::fs::write(out.join("events.jsonl"), signed(&kept)).unwrap();
    measure(&spec, &out).unwrap();
    assert_eq!(rows_of(&out).iter().map(|row| row.repetition).collect::<Vec<_>>(), [1, 2]);
}

#[test]
#[ignore = "needs control groups"]
fn limits_apply_to_ranks_and_are_recorded() {
    // The limits apply to the whole process, and other tests run in this one.
    const ALONE: &str = "SENESCE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let own = std::env::current_exe().unwrap();
        let words = ["--exact", "ranks::limits_apply_to_ranks_and_are_recorded", "--nocapture", "--include-ignored"];
        let output = Command::new(own).args(words).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let (target, out) = (temporary.path().join("files"), temporary.path().join("run"));
    // A single rank, because several ranks of one process would share a control group.
    let mut spec = load(&target, Ranks { count: 1, shared: false });
    spec.how.memory = Some(senesce_core::Size(Bytes::gib(1)));
    measure(&spec, &out).unwrap();
    assert_eq!(Record::open(&out).unwrap().environment.0["limits.memory_bytes"], Bytes::gib(1).0.to_string());
}

#[test]
fn nothing_remains_when_a_rank_ends_during_the_directory_check() {
    let temporary = tempfile::tempdir().unwrap();
    let (target, out) = (temporary.path().join("files"), temporary.path().join("run"));
    let spec = load(&target, Ranks { count: 2, shared: false });
    std::fs::create_dir(&target).unwrap();
    let interrupt = Interrupt::new();
    let failure = together(2, &interrupt, |cluster| {
        if !cluster.is_first() {
            let failure = Failure::new(ExitCode::RunFailed, "gone");
            cluster.fail(&failure);
            return Err(failure);
        }
        by_ranks::run(&spec, Seed(3), &Conduct::quietly(&out), &out, cluster)
    });
    assert!(failure.err().unwrap().to_string().contains("gone"));
    let ours = |name: &str| name.starts_with(".senesce-");
    let names = std::fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| ours(name)).collect::<Vec<_>>(), Vec::<String>::new());
}
