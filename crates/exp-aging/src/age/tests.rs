use super::caveats::{compressed_words, other_files};
use super::*;
use senesce_aging::plan::PlannedLocality;
use senesce_aging::{Clock, Data};
use senesce_core::heartbeat::{Cause, LostTime};

#[test]
fn requested_fullness_is_named_if_another_was_reached() {
    assert_eq!(fullness_words(0.802, 0.8), "80 % full");
    assert_eq!(fullness_words(0.731, 0.7), "73 % full (requested: 70 %)");
}

#[test]
fn locality_that_the_directories_do_not_allow_is_a_caveat() {
    let spec = super::spec::tests::age_spec(Data::Write, None);
    let mut rehearsal = space::tests::rehearsed(Data::Write);
    let mut caveats_at_most = |most| {
        rehearsal.summary.locality = Some(PlannedLocality { asked: 0.6, most });
        caveats(&spec, &RecordedAging { rehearsal: Some(&rehearsal), ..RecordedAging::default() }).len()
    };
    assert_eq!(caveats_at_most(0.4), caveats_at_most(0.9) + 1);
}

#[test]
fn seconds_and_rate_are_omitted_if_the_run_lost_time() {
    let rehearsal = space::tests::rehearsed(Data::Write);
    let Event::Executed(executed) = events::tests::executed("overwrites", 0) else { panic!("not an end") };
    let mut executed = *executed;
    let shown = |executed: &ExecutionEnd| {
        let found = RecordedAging { executed: Some(executed), ..RecordedAging::default() };
        let rows = figures::summary_table(&rehearsal, executed).rows.len();
        (summary_words(&rehearsal, &found).contains(" in 1.0 s ("), rows)
    };
    let (has_seconds, rows) = shown(&executed);
    executed.lost = Some(LostTime { cause: Cause::Stopped, lost_us: 8_000_000, length_us: 16_300_000 });
    assert_eq!((has_seconds, shown(&executed)), (true, (false, rows - 2)));
}

#[test]
fn warning_about_the_clock_names_the_pace() {
    let spec = |pace| super::spec::tests::age_spec(Data::Write, pace);
    let words = |clock, pace| clock_words(clock, &spec(pace), UnrequestedCommits::Of(0));
    assert!(words(Clock::NONE, None).unwrap().starts_with("aged without a clock"));
    let paced = words(Clock::NONE, Some(500.0)).unwrap();
    assert!(paced.starts_with("aged at 500 operations per second or fewer") && paced.contains("--pace"), "{paced}");
    assert!(!paced.contains("speed of the machine"), "{paced}");
    let in_bursts = AgeSpec { time_scale: Some(0.5), burst: Some(50), ..spec(None) };
    let virtual_time = clock_words(Clock::NONE, &in_bursts, UnrequestedCommits::Of(0)).unwrap();
    let expected = "aged at one operation per 2 s of virtual time in bursts of 50";
    assert!(virtual_time.starts_with(expected), "{virtual_time}");
    assert_eq!((words(Clock::default(), Some(500.0)), words(Clock::default(), None)), (None, None));
}

#[test]
fn files_outside_the_plan_are_reported() {
    assert_eq!(other_files(100, 101), None, "the marker");
    for examined in [100, 107] {
        assert!(other_files(100, examined).unwrap().contains(&format!("{examined} files were found")));
    }
}

#[test]
fn compressed_layout_is_known_only_at_its_end() {
    let of = |stopped_by| match events::tests::executed(stopped_by, 0) {
        Event::Executed(executed) => compressed_words(whole(Some(&executed))),
        _ => "",
    };
    assert!(of("convergence").contains("proven equal"));
    for stopped_by in ["time", "interrupt"] {
        assert!(of(stopped_by).contains("not complete") && !of(stopped_by).contains("proven"), "{stopped_by}");
    }
    assert!(compressed_words(None).contains("not complete"));
}
