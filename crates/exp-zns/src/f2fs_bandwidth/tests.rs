use super::*;
use crate::on_model::Host;
use senesce_claims::{ClaimSet, decide, untested};
use senesce_core::Verdict;

#[test]
fn drives_too_small_for_f2fs_are_refused() {
    let small = Spec { size: Size(Bytes::mib(256)), ..F2fsBandwidth::defaults(Level::Smoke) };
    assert!(F2fsBandwidth::steps(&small, Seed(1)).unwrap_err().to_string().contains("512 MiB or more"));
}

#[test]
fn published_means_are_found_by_drive() {
    let rounded =
        |metric| ["conventional", "zoned"].map(|drive| analysis::published_mean(metric, drive).map(f64::round));
    assert_eq!(rounded(MEAN), [Some(719.0), Some(637.0)]);
    assert_eq!(rounded(analysis::OF_JOB), [Some(710.0), Some(461.0)]);
}

fn values(repeats: u32) -> Vec<Measurement> {
    let result = |drive: &str, mean_mib_s, repeat| {
        Event::Drive(DriveResult {
            drive: drive.into(),
            repeat,
            bytes: 1,
            laid_bytes: 0,
            seconds: 1.0,
            overwrites: 1.0,
            mean_mib_s,
        })
    };
    let round = |repeat| {
        let more = f64::from(repeat) * 0.1;
        [result("conventional", 700.0 + more, repeat), result("zoned", 620.0 + more, repeat)]
    };
    (0..repeats).flat_map(round).filter_map(|event| measurement(&event, false)).collect()
}

#[test]
fn every_claim_finds_its_values() {
    let set = ClaimSet::parse(F2fsBandwidth::CLAIMS, F2fsBandwidth::PUBLISHED).unwrap();
    assert_eq!(untested(&set, &values(1)), Vec::<String>::new());
}

fn on_model(drive: &str, host: Host, mean_mib_s: f64, repeat: u32) -> Event {
    let timed = TimedReplay {
        host,
        host_share: 0.0,
        seconds: 1.0,
        recording_seconds: 1.0,
        busy_seconds: 1.0,
        host_seconds: 0.0,
        kinds: Default::default(),
        unmodelled: Default::default(),
        elsewhere_bytes: 0,
        moments: Vec::new(),
        problems: Vec::new(),
    };
    let (drive, write_amplification) = (drive.to_string(), 1.0);
    Event::OnModel(OnModel { drive, repeat, bytes: 1, mean_mib_s: Some(mean_mib_s), write_amplification, timed })
}

/// Checks that the guest's own bandwidth is shown and decides nothing. Neither does a model that disagrees with the
/// guest's counts.
#[test]
fn model_results_are_compared_with_published_values() {
    let set = ClaimSet::parse(F2fsBandwidth::CLAIMS, F2fsBandwidth::PUBLISHED).unwrap();
    let guest = Event::Drive(DriveResult {
        drive: "zoned".into(),
        repeat: 0,
        bytes: 1,
        laid_bytes: 0,
        seconds: 1.0,
        overwrites: 1.0,
        mean_mib_s: 50.0,
    });
    assert_eq!(measurement(&guest, true).unwrap().metric, "mean write bandwidth in the guest");
    let found = |zoned: f64| {
        let round = |repeat: u32| {
            let more = f64::from(repeat);
            [
                guest.clone(),
                on_model("zoned", Host::Guest, 50.0, repeat),
                on_model("zoned", Host::None, zoned + more, repeat),
                on_model("conventional", Host::None, 700.0 + more, repeat),
            ]
        };
        let values: Vec<Measurement> = (0..5).flat_map(round).filter_map(|event| measurement(&event, true)).collect();
        let facts = crate::on_model::facts(Facts { emulated: true, ..Facts::of(Level::Quick) });
        decide(&set, &values, &facts).into_iter().map(|finding| (finding.id, finding.verdict)).collect::<Vec<_>>()
    };
    let verdicts = |zoned: f64| found(zoned).into_iter().map(|(_, verdict)| verdict).collect::<Vec<_>>();
    let (seen, not) = (Verdict::Supported, Verdict::NotSupported);
    assert_eq!(verdicts(620.0), [seen, seen, seen, seen, not, not], "the mean of logged seconds");
    assert_eq!(verdicts(450.0), [seen, not, not, seen, seen, seen], "that of the whole job");
    let Event::OnModel(mut differs) = on_model("zoned", Host::None, 620.0, 0) else { return };
    differs.timed.problems.push("the model refused 1 commands".into());
    assert_eq!(measurement(&Event::OnModel(differs), true), None);
}

#[test]
fn single_values_and_emulated_drives_decide_nothing() {
    let set = ClaimSet::parse(F2fsBandwidth::CLAIMS, F2fsBandwidth::PUBLISHED).unwrap();
    let verdict = |repeats, facts: &Facts| {
        let found = decide(&set, &values(repeats), facts);
        found.into_iter().find(|finding| finding.id == "zoned-is-slower").unwrap().verdict
    };
    let real = Facts::of(Level::Paper);
    assert_eq!(verdict(1, &real), Verdict::Undecided);
    assert_eq!(verdict(5, &real), Verdict::Supported);
    let mut environment = senesce_core::Environment::default();
    environment.put("vm.accelerator", "kvm");
    assert_eq!(verdict(5, &crate::guest_drives::facts(&environment, real)), Verdict::NotTestable);
}
