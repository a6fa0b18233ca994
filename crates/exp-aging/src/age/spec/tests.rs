use super::*;
use senesce_aging::profile::{ChangeRow, SizeRow};
use senesce_core::ExitCode;

fn planned(name: &str, mib: u64, limits: &Limits) -> Result<Arc<AgingPlan>, Failure> {
    let profile = Profile::builtin(name).unwrap();
    let base = PlanSpec { truncate: Truncate::Drop, ..PlanSpec::new(profile, Bytes::mib(mib), Seed(1)) };
    let make = |limit| AgingPlan::new(&PlanSpec { limit, ..base.clone() }).map(Arc::new);
    limits.plan(1, &make)
}

fn plan_of(name: &str, mib: u64, limits: &Limits) -> Arc<AgingPlan> {
    planned(name, mib, limits).unwrap()
}

#[test]
fn maximum_bounds_created_bytes_with_any_other_limit() {
    for (name, mib) in [("meyer", 300), ("meyer", 250), ("grundman", 1024), ("pramod", 700), ("agrawal", 100)] {
        for (most, max_operations) in [(0.3, None), (1.0, None), (1.0, Some(2000)), (1.7, None), (1.7, Some(5001))] {
            let limits = Limits { max_overwrites: Some(most), max_operations, ..Limits::default() };
            let plan = plan_of(name, mib, &limits);
            let summary = plan.summary();
            assert!(summary.overwrites <= most, "{name}, {mib} MiB: {} of {most}", summary.overwrites);
            assert!(max_operations.is_none_or(|most| summary.t_end <= most));
        }
    }
}

#[test]
fn nan_maximum_is_refused() {
    let limits = Limits { max_overwrites: Some(f64::NAN), ..Limits::default() };
    let refused = planned("agrawal", 100, &limits).unwrap_err().to_string();
    assert!(refused.contains("NaN overwrites cannot be planned"), "{refused}");
}

#[test]
fn missed_overwrites_are_reported() {
    let limits = Limits { overwrites: Some(1.0), ..Limits::default() };
    let plan = plan_of("agrawal", 100, &limits);
    assert_eq!(limits.missed(plan.summary()), None);
    let far = Summary { overwrites: 1.8, ..plan.summary().clone() };
    let words = limits.missed(&far).unwrap();
    assert!(words.contains("overwrites requested: 1, planned: 1.800;"), "{words}");
    assert_eq!(Limits::default().missed(&far), None);
    assert_eq!(limits.missed(&Summary { largest_file: Bytes(0), ..far }), None);
}

pub(crate) fn age_spec(data: Data, pace: Option<f64>) -> AgeSpec {
    let spec = AgeSpec::of_flags(&["--seed", "1", "--truncate-sizes", "drop"]).unwrap();
    AgeSpec { data, pace, ..spec.on(Some("memory:1G".parse().unwrap())).unwrap() }
}

fn described(spec: &AgeSpec, summary: &Summary) -> Plan {
    spec.describe(Plan::default_of("age", spec.seed), summary)
}

#[test]
fn pace_bounds_the_estimated_time() {
    let summary = age_spec(Data::Fallocate, None).summary().unwrap();
    let free = described(&age_spec(Data::Fallocate, None), &summary).estimated_seconds;
    let paced = described(&age_spec(Data::Fallocate, Some(100.0)), &summary).estimated_seconds;
    assert_eq!(paced, summary.t_end as f64 / 100.0);
    assert_eq!(described(&age_spec(Data::Fallocate, Some(1e9)), &summary).estimated_seconds, free);
}

#[test]
fn written_content_is_estimated_at_the_assumed_rate() {
    let summary = age_spec(Data::Write, None).summary().unwrap();
    let plan_on = |target: &str, data| {
        let spec = AgeSpec { target: Some(target.parse().unwrap()), ..age_spec(data, None) };
        described(&spec, &summary)
    };
    let (memory, disk) = (plan_on("memory:1G", Data::Write), plan_on("image:a.img,size=1G", Data::Write));
    assert!(disk.estimated_seconds >= disk.bytes_to_write as f64 / estimate::WRITE_RATE.0 as f64);
    assert_eq!(memory.estimated_seconds, disk.estimated_seconds);
    let preallocated = plan_on("memory:1G", Data::Fallocate);
    assert!(preallocated.estimated_seconds < memory.estimated_seconds);
    for plan in [&memory, &disk] {
        assert_eq!(plan.notes.len(), preallocated.notes.len() + 1, "the rate is named");
    }
    assert_eq!(plan_on("image:a.img,size=1G", Data::Fallocate).notes, preallocated.notes, "no content is written");
}

#[test]
fn plan_includes_bytes_written_by_changes() {
    let sizes = vec![SizeRow { bytes: Bytes::mib(1), weight: 1.0 }];
    let changes = vec![ChangeRow { bytes: Bytes::mib(1), truncations: 0.5, overwrites: 0.5, ..ChangeRow::default() }];
    let profile = Profile { sizes, changes, ..Profile::builtin("agrawal").unwrap() };
    let limit = Limit::Overwrites(20.0);
    let plan = AgingPlan::new(&PlanSpec { limit, ..PlanSpec::new(profile, Bytes::gib(1), Seed(1)) }).unwrap();
    let plan = Arc::new(plan);
    let mut planner = plan.operations();
    planner.skip_to(u64::MAX);
    let (done, summary) = (planner.changes_done(), plan.summary());
    let expected = summary.changes_expected;
    assert!(done.bytes_overwritten > Bytes::gib(1).0 && done.bytes_truncated > Bytes::mib(64).0);
    assert!(done.bytes_overwritten <= expected.bytes_overwritten && done.bytes_truncated <= expected.bytes_truncated);
    assert!(done.all() <= expected.all() && done.all() > expected.all() / 5 * 4);
    let allocated = described(&age_spec(Data::Fallocate, None), summary);
    assert!(allocated.bytes_to_write >= done.bytes_overwritten + summary.creates * 4096);
    assert!(allocated.estimated_seconds >= done.bytes_overwritten as f64 / 1e9);
    let written = described(&age_spec(Data::Write, None), summary);
    assert!(written.bytes_to_write >= summary.bytes_created.0 + done.bytes_overwritten + done.bytes_truncated);
}

#[test]
fn only_whole_volumes_are_compressed() {
    let plain = AgeSpec { locality: Some(0.0), ..age_spec(Data::Fallocate, None) };
    let spec = |target: &str, size| AgeSpec { target: Some(target.parse().unwrap()), size, ..plain.clone() };
    let refused = |spec: AgeSpec| spec.compressed().map(drop).unwrap_err().to_string();
    assert!(spec("memory:1G", None).compressed().is_ok());
    assert!(spec("memory:1G", Some(Bytes::gib(1))).compressed().is_ok());
    let words = refused(spec("memory:8G", Some(Bytes::gib(1))));
    assert!(words.contains("a plan for 1 GiB on a target of 8 GiB"), "{words}");
    assert!(refused(spec("image:/none/at-all,size=8G", Some(Bytes::gib(1)))).contains("a plan for 1 GiB"));
}

#[test]
fn unnamed_values_follow_from_the_target_and_the_other_flags() {
    let spec = |flags: &[&str], target: &str| AgeSpec::of_flags(flags).unwrap().on(Some(target.parse().unwrap()));
    let image = spec(&[], "memory:1G").unwrap();
    assert_eq!((image.file_system, image.commit_share), (Some(FileSystem::Ext4), Some(CommitShare::DEFAULT)));
    let directory = spec(&["--sync-every", "9"], "/tmp").unwrap();
    assert_eq!((directory.file_system, directory.commit_share), (None, Some(CommitShare::NONE)));
    let both = spec(&["--pace", "10", "--commit-share", "2%"], "/tmp").unwrap();
    assert_eq!(both.clock().commit_share, "2%".parse().unwrap());
    assert_eq!(spec(&["--fs", "xfs"], "/tmp").unwrap_err().exit_code(), ExitCode::Usage);
    let of = |flags: &[&str]| spec(flags, "memory:1G").map(|spec| (spec.data, spec.locality)).unwrap();
    assert_eq!(of(&[]), (Data::Write, None));
    assert_eq!(of(&["--compress"]), (Data::Fallocate, Some(0.0)), "as it was certified");
}

#[test]
fn record_of_a_specification_is_read_back() {
    let spec = AgeSpec::of_flags(&["--shard", "1/4", "--max-time", "90s", "--truncate-sizes"]).unwrap();
    let spec = spec.on(Some("memory:1G".parse().unwrap())).unwrap();
    let plan = serde_json::to_value(&spec).unwrap();
    assert_eq!((&plan["truncate"], &plan["max_seconds"]), (&"clamp".into(), &90.0.into()));
    assert_eq!(serde_json::from_value::<AgeSpec>(plan).unwrap(), spec);
}

#[test]
fn bursts_default_to_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mail.toml");
    let mail = Profile { burst: Some(20), ..Profile::builtin("agrawal").unwrap() };
    std::fs::write(&path, mail.to_toml()).unwrap();
    let path = path.to_string_lossy().into_owned();
    let burst = |flags: &[&str]| AgeSpec::of_flags(flags).unwrap().on(None).unwrap().burst();
    assert_eq!(burst(&["--profile", &path, "--time-scale", "10/s"]), 20);
    assert_eq!(burst(&["--profile", &path, "--pace", "10", "--burst", "1"]), 1);
    assert_eq!(burst(&["--profile", &path]), 1, "nothing arrives without a pace");
    assert_eq!(burst(&["--time-scale", "10/s"]), 1);
    assert!(Profile::parse("none", &mail.to_toml().replace("burst = 20", "burst = 0")).is_err());
    let one = mail.to_toml().replace("burst = 20", "burst = 1");
    assert_eq!(
        profile_hash(&Profile::parse("one", &one).unwrap()),
        profile_hash(&Profile::builtin("agrawal").unwrap())
    );
}
