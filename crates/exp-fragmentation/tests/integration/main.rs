//! The experiments on fragmentation at smoke scale: interrupted and continued, and without any cold read.

use senesce_core::interrupt::Interrupt;
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{Analysis, ExitCode, Level, Progress, Record};
use senesce_exp_fragmentation::copy_order::CopyOrder;
use senesce_exp_fragmentation::frag_inter::FragInter;
use senesce_exp_fragmentation::frag_intra::FragIntra;
use senesce_exp_fragmentation::git_aging::GitAging;
use senesce_exp_fragmentation::mail_aging::MailAging;
use senesce_runner::{Conduct, Experiment, State, analyse, conduct};
use serde_json::Value;

struct StopAt<'a>(usize, &'a Interrupt);

impl Progress for StopAt<'_> {
    fn step(&self, number: usize, _count: usize, _words: &str, _seconds_left: f64) {
        if number == self.0 {
            self.1.request();
        }
    }
}

fn points(analysis: &Analysis) -> Vec<Value> {
    analysis.result["points"].as_array().unwrap().clone()
}

/// Runs an experiment at smoke scale, once interrupted in step `stop` and continued, once in full: the points must have the
/// same files in the same layout.
fn in_two_parts<E: Experiment>(stop: usize, change: impl Fn(&mut E::Spec)) {
    let (temporary, interrupt) = (tempfile::tempdir().unwrap(), Interrupt::new());
    let mut spec = E::defaults(Level::Smoke);
    change(&mut spec);
    let out = temporary.path().join("parts");
    let progress = StopAt(stop, &interrupt);
    let stopped = Conduct { progress: &progress, interrupt: &interrupt, ..Conduct::quietly(&out) };
    let first = conduct::<E>(&spec, DEFAULT_SEED, &stopped).unwrap();
    assert_eq!(first.state, State::Interrupted);
    let second = conduct::<E>(&spec, DEFAULT_SEED, &Conduct::quietly(&out)).unwrap();
    assert_eq!(second.state, State::Done);
    let whole = conduct::<E>(&spec, DEFAULT_SEED, &Conduct::quietly(&temporary.path().join("whole"))).unwrap();
    let (first, second, whole) = (points(&first.analysis), points(&second.analysis), points(&whole.analysis));
    assert_eq!(first.len(), 2 * (stop - 2), "a file is read in one run, then each round and its copy");
    assert!(first.iter().all(|point| second.contains(point)), "measured values stay");
    assert_eq!(second.len(), whole.len());
    for (ours, theirs) in second.iter().zip(&whole) {
        for name in ["fs", "round", "aged", "files"] {
            assert_eq!(ours[name], theirs[name], "{name}");
        }
        for name in ["static_layout_score", "tree_layout_score"] {
            // Files of one block have no static score.
            let far =
                ours[name].as_f64().zip(theirs[name].as_f64()).map_or(0.0, |(ours, theirs)| (ours - theirs).abs());
            assert!(far <= 0.02 && ours[name].is_null() == theirs[name].is_null(), "{name}: {ours} {theirs}");
        }
    }
}

#[test]
#[ignore = "needs loop devices"]
fn run_on_fresh_volumes_continues_where_it_stopped() {
    in_two_parts::<FragIntra>(3, |_| ());
}

#[test]
#[ignore = "needs loop devices"]
fn aging_volume_is_aged_again_to_where_it_stopped() {
    in_two_parts::<MailAging>(4, |_| ());
}

#[test]
#[ignore = "long: half a minute; needs loop devices, git"]
fn every_other_experiment_continues_where_it_stopped() {
    in_two_parts::<FragInter>(3, |_| ());
    in_two_parts::<CopyOrder>(3, |_| ());
    in_two_parts::<GitAging>(3, |_| ());
}

#[test]
#[ignore = "needs /dev/shm"]
fn run_without_valid_reading_fails_and_has_no_value() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("run");
    let mut spec = FragIntra::defaults(Level::Smoke);
    spec.common.target = memory.path().display().to_string().parse().unwrap();
    // The same command repeats invalid reads.
    for _ in 0..2 {
        let failure = conduct::<FragIntra>(&spec, DEFAULT_SEED, &Conduct::quietly(&out)).unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::RunFailed);
        assert!(failure.to_string().contains("this run has no valid cold read"), "{failure}");
    }
    let record = Record::open(&out).unwrap();
    assert!(record.is_partial());
    assert!(!record.events.iter().any(|event| ["point", "sketch", "sequential"].contains(&event.kind.as_str())));
    let measured = record.events.iter().filter(|event| event.kind == "measurement");
    let metrics: Vec<String> =
        measured.map(|event| event.data.value()["metric"].as_str().unwrap().to_string()).collect();
    // The cost of a sequential read of a reference drive needs no reading.
    assert!(metrics.iter().all(|metric| metric.starts_with("sequential read, ")), "{metrics:?}");
    let analysis = analyse::<FragIntra>(&record).unwrap();
    assert!(analysis.caveats.iter().any(|message| message.contains("a cold read is invalid")));
}
