//! Answers on simulated records of known truth.

use super::*;
use crate::matrix::{ImageId, RunId, runs};
use crate::matrix_run::RunEvent;
use crate::past_events::PastEvent;
use crate::results::Results;
use rand::Rng;
use senesce_core::analysis::Better;
use senesce_core::{ExitCode, Seed};

fn spec(head: &str, tail: &str) -> StudySpec {
    let text = format!(
        "name = 't'\nsize = '1G'\n{head}\n[[file_system]]\nkind = 'ext4'\n[[file_system]]\nkind = 'xfs'\n\
         [[file_system]]\nkind = 'btrfs'\n[[file_system]]\nkind = 'f2fs'\n[[state]]\nkind = 'fresh'\n[[state]]\n\
         kind = 'aged'\nprofile = 'agrawal'\nfullness = 0.5\n[[workload]]\nname = 'a'\npersonality = 'webserver'\n\
         scale = 0.1\n[[workload]]\nname = 'b'\npersonality = 'varmail'\nscale = 0.1\n[[workload]]\nname = 'c'\n\
         personality = 'webproxy'\nscale = 0.1\n{tail}\n"
    );
    StudySpec::parse("t", &text).unwrap()
}

/// Approximates a standard normal number by twelve uniform ones.
fn normal(rng: &mut impl Rng) -> f64 {
    (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
}

/// Simulates a clean record: throughput around `centre(cell)` at a variation of 5 %, from `guest(fs)`.
fn measured(
    spec: &StudySpec,
    centre: impl Fn(RunId) -> f64,
    guest: impl Fn(usize) -> Option<&'static str>,
    seed: u64,
) -> Results {
    let mut rng = Seed(seed).stream("noise");
    let events = runs(spec).into_iter().map(|id| {
        let value = centre(id) * (0.05 * normal(&mut rng)).exp();
        event(id, value, guest(id.on.fs))
    });
    Results::gather(spec.clone(), &events.map(PastEvent::Run).collect::<Vec<_>>(), Vec::new(), Vec::new())
}

fn event(id: RunId, value: f64, guest: Option<&str>) -> RunEvent {
    let metrics = vec![Measurement::new("throughput", "operations/s", Better::Higher, value).unwrap()];
    RunEvent { id, metrics, overhead_seconds: 0.0, seconds: 1.0, guest: guest.map(str::to_string) }
}

fn word(results: &Results, a: (usize, usize), b: (usize, usize)) -> &'static str {
    let is_it = |answer: &&Answer| {
        let Question { sample, reference } = answer.question;
        sample.workload == 0 && (sample.fs, sample.state) == a && (reference.fs, reference.state) == b
    };
    results.answers.iter().find(is_it).unwrap().decision.verdict.word()
}

#[test]
fn equal_systems_rarely_get_a_verdict() {
    // 5 % of 60 are 3; more than 7 has a probability of 1 %.
    assert!(alarms(60) <= 7, "{} of 60", alarms(60));
}

/// Counts the studies of equal systems with any verdict.
fn alarms(studies: u64) -> usize {
    let spec = spec("", "");
    let is_alarm = |seed: &u64| {
        let results = measured(&spec, |_| 100.0, |_| None, *seed);
        results.answers.iter().any(|answer| answer.decision.verdict.is_difference())
    };
    (0..studies).filter(is_alarm).count()
}

#[test]
#[ignore = "long: a minute; 2000 whole studies"]
fn equal_systems_get_a_verdict_in_at_most_a_twentieth_of_studies() {
    let alarms = alarms(2000);
    assert!(alarms <= 114, "{alarms} of 2000, which is 5 % and three standard errors");
}

#[test]
fn the_default_repetitions_find_a_tenth_nine_times_in_ten() {
    let found = share_found(20);
    assert!(found >= 0.88, "{found}, which may be less than 0.9 by chance");
}

#[test]
#[ignore = "long: half a minute; 500 whole studies"]
fn the_default_repetitions_find_a_tenth_nine_times_in_ten_at_length() {
    let found = share_found(500);
    println!("{:.1} % of {} pairs", found * 100.0, 500 * 18);
    assert!(found >= 0.9, "{found}");
}

/// Returns the share of true differences of a tenth that is found, at a variation of 5 %.
fn share_found(studies: u64) -> f64 {
    let spec = spec("", "");
    let slow = |id: RunId| if id.on.fs == 3 { 100.0 / 1.1 } else { 100.0 };
    let (mut found, mut asked) = (0.0, 0.0);
    for seed in 0..studies {
        let results = measured(&spec, slow, |_| None, seed);
        let of_it =
            results.answers.iter().filter(|answer| answer.question.is_pair() && answer.question.reference.fs == 3);
        for answer in of_it {
            asked += 1.0;
            found += f64::from(u8::from(answer.decision.verdict.word() == "better"));
            assert!(!["worse", "equivalent"].contains(&answer.decision.verdict.word()));
        }
    }
    found / asked
}

#[test]
fn groups_ages_and_changes_of_order_are_reported() {
    // Fresh: ext4 = xfs > btrfs = f2fs; age halves ext4.
    let centre = |id: RunId| match (id.on.fs, id.on.state) {
        (0, 1) => 40.0,
        (0 | 1, _) => 100.0,
        _ => 70.0,
    };
    let results = measured(&spec("", ""), centre, |_| None, 5);
    let groups = |state: usize| {
        let order = results.orders.iter().find(|order| order.workload == 0 && order.state == state).unwrap();
        let mut groups = order.groups(&results.spec, &order.pairwise.classes[0]);
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups
    };
    assert_eq!(groups(0), [vec!["ext4", "xfs"], vec!["btrfs", "f2fs"]]);
    assert_eq!(groups(1), [vec!["xfs"], vec!["btrfs", "f2fs"], vec!["ext4"]]);
    assert_eq!((word(&results, (0, 1), (0, 0)), word(&results, (0, 0), (2, 0))), ("worse", "better"));
    let changed: Vec<_> = results.changes.iter().filter(|change| change.change == OrderChange::Changes).collect();
    assert_eq!(changed.len(), 6, "ext4 with btrfs and f2fs, under three workloads");
    assert!(changed.iter().all(|change| change.probability.unwrap() > 0.99));
    let analysis = crate::analysis_of(&results);
    let answer = analysis.result["answer"].as_str().unwrap();
    assert!(answer.contains("> ") && answer.contains("'aged' changes the order of ext4 and btrfs"), "{answer}");
    assert!(answer.contains("the answer holds for this one image only"), "{answer}");
    let pair = &analysis.result["pairs"][0];
    for name in ["workload", "state", "a", "b", "metric", "ratio", "low", "high", "verdict"] {
        assert!(!pair[name].is_null(), "{name} of {pair}");
    }
}

#[test]
fn runs_too_noisy_for_a_verdict_are_reported() {
    let results = measured(&spec("", ""), |id| [30.0, 300.0][id.repetition as usize % 2], |_| None, 10);
    assert!(results.answers.iter().all(|answer| answer.decision.verdict.is_too_noisy()));
    let text = crate::answer::sentence(&results);
    assert!(text.contains("the runs are too noisy: more than 100 repetitions of a cell would be needed"), "{text}");
}

#[test]
fn emulated_cells_get_no_verdict_and_virtualised_ones_do() {
    let centre = |id: RunId| if id.on.state == 1 { 50.0 } else { 100.0 };
    let guests = |fs: usize| [None, Some("kvm"), Some("tcg"), Some("kvm")][fs];
    let results = measured(&spec("", ""), centre, guests, 6);
    let ages: Vec<&str> = (0..4).map(|fs| word(&results, (fs, 1), (fs, 0))).collect();
    assert_eq!(ages, ["worse", "worse", "not-testable", "worse"]);
    assert_ne!(word(&results, (1, 0), (3, 0)), "not-testable", "two guests with hardware virtualisation");
    assert_eq!(word(&results, (0, 0), (1, 0)), "not-testable", "a guest against this machine");
}

#[test]
fn several_images_are_the_units_despite_a_single_fresh_image() {
    // Every image is 8 % faster or slower than another, and aging costs nothing.
    let centre = |id: RunId| if id.on.state == 1 { 100.0 * [0.92, 1.08][id.on.image as usize % 2] } else { 100.0 };
    let results = measured(&spec("images = 6\nrepetitions = 4", ""), centre, |_| None, 7);
    let age = results.answers.iter().find(|answer| !answer.question.is_pair()).unwrap();
    assert_eq!((age.decision.unit, age.one_image), (Some(senesce_stats::arm::Unit::Image), false));
    assert!(!results.answers.iter().any(|answer| answer.decision.verdict.is_difference()));
}

#[test]
fn answer_names_its_measured_images() {
    let spec = spec("images = 3\nrepetitions = 5", "");
    let events =
        runs(&spec).into_iter().filter(|id| id.on.fs != 0 || id.on.image == 0).map(|id| event(id, 100.0, None));
    let results =
        Results::gather(spec.clone(), &events.map(PastEvent::Run).collect::<Vec<_>>(), Vec::new(), Vec::new());
    let alone = |fs: usize| {
        let is_it = |answer: &&Answer| !answer.question.is_pair() && answer.question.sample.fs == fs;
        results.answers.iter().find(is_it).unwrap().one_image
    };
    assert_eq!((alone(0), alone(1)), (true, false), "two images of the first were not measured");
}

#[test]
fn guests_are_ordered_among_themselves() {
    let centre = |id: RunId| [100.0, 50.0, 10.0, 10.0][id.on.fs];
    let guests = |fs: usize| [None, None, Some("kvm"), Some("kvm")][fs];
    let results = measured(&spec("", ""), centre, guests, 6);
    let analysis = crate::analysis_of(&results);
    let words: Vec<&str> = analysis.result["groups"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|group| group["workload"] == "a" && group["state"] == "fresh")
        .map(|group| group["words"].as_str().unwrap())
        .collect();
    assert_eq!(words.len(), 2, "{words:?}");
    assert_eq!(words[0], "ext4 > xfs");
    assert!(["btrfs ~ f2fs", "f2fs ~ btrfs"].contains(&words[1]), "{words:?}");
    assert!(analysis.summary.contains("ext4 > xfs, not comparable with "), "{}", analysis.summary);
}

#[test]
fn cell_whose_fast_runs_filled_the_volume_gets_no_verdict() {
    let spec = spec("", "");
    let whole = measured(&spec, |_| 100.0, |_| None, 8);
    assert_ne!(word(&whole, (0, 1), (0, 0)), "not-testable");
    let id = RunId { on: ImageId { fs: 0, state: 1, image: 0 }, workload: 0, repetition: 0, twin: false };
    let reason =
        senesce_core::failure::failed("write", std::path::Path::new("/x"))(std::io::Error::from_raw_os_error(28));
    assert_eq!(reason.exit_code(), ExitCode::RunFailed);
    let said = of_the_cell(&spec, &whole, &[FailedRun { id, reason: reason.to_string() }]);
    assert_eq!(said.len(), 4, "its age and its three pairs");
    assert!(said.iter().all(|message| message.contains("1 run of a cell ran out of space")), "{said:?}");
    let reason = format!("sh job: it failed with exit code 1{SAID}write /elsewhere: No space left on device (ENOSPC)");
    assert!(censored(&[FailedRun { id, reason }]).is_empty(), "another device was full");
}

#[test]
fn cell_whose_slow_runs_timed_out_gets_no_verdict() {
    let spec = spec("", "");
    let whole = measured(&spec, |_| 100.0, |_| None, 8);
    let id = |repetition| RunId { on: ImageId { fs: 0, state: 1, image: 0 }, workload: 0, repetition, twin: false };
    let slow = |repetition| {
        let reason = "sh job: it did not end within 600 s and was ended; raise its timeout if it needs longer".into();
        FailedRun { id: id(repetition), reason }
    };
    let said = of_the_cell(&spec, &whole, &[slow(0), slow(1)]);
    assert_eq!(said.len(), 4, "its age and its three pairs");
    assert!(said.iter().all(|message| message.contains("2 runs of a cell did not end within the timeout")), "{said:?}");
    let full = FailedRun { id: id(2), reason: "write /x: No space left on device (ENOSPC)".into() };
    let both = of_the_cell(&spec, &whole, &[slow(0), full]);
    assert!(both[0].contains("ran out of space") && both[0].contains("did not end"), "{}", both[0]);
    let stated = FailedRun { id: id(0), reason: format!("sh job: exit code 1{SAID}fetch: did not end within 3 s") };
    assert!(censored(&[stated]).is_empty(), "a time limit of the program's own");
}

fn of_the_cell(spec: &StudySpec, whole: &Results, failed: &[FailedRun]) -> Vec<String> {
    let answers = judge_all(spec, &whole.judged, &censored(failed)).into_iter();
    let here = answers.filter(|answer| answer.question.sample == CellId { workload: 0, fs: 0, state: 1 });
    here.map(|answer| answer.decision.text()).collect()
}

#[test]
fn difference_only_on_modelled_drives_is_in_the_answer() {
    let text = "name = 't'\nsize = '1G'\nmodels = ['850-evo']\n[[file_system]]\nkind = 'ext4'\n[[state]]\nkind = 'fresh'\n\
                [[state]]\nkind = 'aged'\nprofile = 'agrawal'\nfullness = 0.5\n[[workload]]\npersonality = 'webserver'\n\
                scale = 0.1\n";
    let spec = StudySpec::parse("t", text).unwrap();
    let mut rng = Seed(9).stream("noise");
    let events = runs(&spec).into_iter().map(|id| {
        let mut one = event(id, 100.0 * (0.2 * normal(&mut rng)).exp(), None);
        let modelled = if id.on.state == 1 { 20.0 } else { 40.0 } * (0.01 * normal(&mut rng)).exp();
        let metric = format!("throughput{}850-evo", senesce_runs::measurements::MODELLED);
        one.metrics.push(Measurement::new(&metric, "operations/s", Better::Higher, modelled).unwrap());
        one
    });
    let past: Vec<PastEvent> = events.map(PastEvent::Run).collect();
    let results = Results::gather(spec.clone(), &past, Vec::new(), Vec::new());
    let words: Vec<&str> = results.answers.iter().map(|answer| answer.decision.verdict.word()).collect();
    assert_eq!(words, ["undecided", "worse"]);
    let analysis = crate::analysis_of(&results);
    let answer = analysis.result["answer"].as_str().unwrap();
    let (measured, modelled) = answer.split_once("; on modelled drives, ").unwrap();
    assert!(measured.contains("undecided") && !measured.contains("850-evo"), "{answer}");
    let interval = results.answers[1].decision.interval.unwrap();
    let change = senesce_runs::decided::change_text(&interval);
    assert!(modelled.contains("850-evo") && modelled.contains("worse") && modelled.contains(&change), "{answer}");
}
