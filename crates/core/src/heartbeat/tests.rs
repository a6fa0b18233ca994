use super::*;
use rustix::process::{Pid, Signal, kill_process};
use senesce_sys::usage::ThreadTimes;
use std::process::{Child, Command, Stdio};

const MS: Duration = Duration::from_millis(1);

fn beat(monotonic: u32, boot: u32, ran: u32, waited: Option<u32>) -> Beat {
    let times = ThreadTimes {
        ran: MS * ran,
        waited: waited.map(|waited| MS * waited),
        switches: u64::from(monotonic > 1000) * 2,
    };
    let read_until = MS * monotonic;
    Beat { read_from: read_until, read_until, boot: MS * boot, times }
}

fn gaps(earlier: Beat, later: Beat) -> Vec<(Cause, Duration)> {
    earlier.gaps_until(&later, Rest::Sleeping(TICK)).into_iter().flatten().map(|gap| (gap.cause, gap.lost)).collect()
}

#[test]
fn leap_is_more_than_one_percent_of_the_pace() {
    let leaped =
        |elapsed, allots| leap(Duration::from_secs(elapsed), Duration::from_secs(allots)).map(|lost| lost.lost_us);
    for (elapsed, allots, expected) in [
        (1000, 1000, None),
        (1010, 1000, None),
        (1020, 1000, Some(20_000_000)),
        (900, 1000, Some(100_000_000)),
        (1, 0, None),
    ] {
        assert_eq!(leaped(elapsed, allots), expected, "{elapsed} {allots}");
    }
}

#[test]
fn late_beat_after_waiting_for_a_processor_is_not_a_loss() {
    let begin = beat(1000, 1000, 5, Some(70));
    assert_eq!(gaps(begin, beat(1018, 1018, 5, Some(70))), []);
    assert_eq!(gaps(begin, beat(2010, 2010, 5, Some(1070))), []);
    assert_eq!(gaps(begin, beat(2010, 2010, 1005, Some(70))), []);
    assert_eq!(gaps(begin, beat(2010, 2010, 5, Some(70))), [(Cause::Stopped, MS * 1005)]);
    assert_eq!(gaps(begin, beat(2010, 2010, 5, Some(570))), [(Cause::Stopped, MS * 505)]);
    assert_eq!(gaps(begin, beat(1900, 1900, 5, None)), [], "the kernel does not count waits");
    assert_eq!(gaps(begin, beat(4000, 4000, 5, None)), [(Cause::Stopped, MS * 2995)]);
}

#[test]
fn wait_for_a_processor_while_the_times_are_read_is_not_a_loss() {
    let begin = beat(1000, 1000, 5, Some(70));
    let read_slowly = Beat { read_from: MS * 1010, ..beat(1120, 1120, 5, Some(70)) };
    assert_eq!(gaps(begin, read_slowly), []);
    // The next times include the wait.
    assert_eq!(gaps(read_slowly, beat(1130, 1130, 5, Some(180))), []);
    let stopped = Beat { read_from: MS * 1120, ..read_slowly };
    assert_eq!(gaps(begin, stopped), [(Cause::Stopped, MS * 115)]);
}

#[test]
fn phase_begins_with_the_first_beat_of_its_thread() {
    let beats = Beats::default();
    *lock(&beats.ended) = true;
    let (begins, first) = std::sync::mpsc::sync_channel(1);
    let before = clock::monotonic();
    beats.watch(&begins, Rhythm::Constant);
    assert!((before..=clock::monotonic()).contains(&first.recv().unwrap()));
}

#[test]
fn a_beat_is_at_most_the_limit_of_a_whole_phase() {
    let ticks = |rhythm: Rhythm| [0, 1, 2, 3600].map(|seconds| rhythm.tick(Duration::from_secs(seconds)));
    assert_eq!(ticks(Rhythm::SlowerWithTime), [MS * 10, MS * 10, MS * 20, MS * 50]);
    assert_eq!(ticks(Rhythm::Constant), [TICK; 4]);
}

#[test]
fn a_long_sleep_is_no_stop() {
    let begin = beat(1000, 1000, 5, Some(70));
    let slept = |ms: u32| begin.gaps_until(&beat(1000 + ms, 1000 + ms, 5, Some(70)), Rest::Sleeping(MS * 50));
    assert_eq!(slept(55), [None; 2]);
    assert_eq!(slept(90)[0].map(|gap| (gap.cause, gap.lost)), Some((Cause::Stopped, MS * 65)));
}

#[test]
fn only_a_long_late_beat_without_a_switch_is_a_paused_guest() {
    let begin = beat(1000, 1000, 5, Some(70));
    let without_switch = |monotonic| {
        let later = beat(monotonic, monotonic, 5, Some(70));
        gaps(begin, Beat { times: ThreadTimes { switches: 1, ..later.times }, ..later })
    };
    assert_eq!(without_switch(2000), []);
    assert_eq!(without_switch(2300), [(Cause::Stopped, MS * 1295)]);
}

#[test]
fn time_only_in_the_boot_clock_is_suspension() {
    assert_eq!(gaps(beat(1000, 5000, 0, Some(0)), beat(1010, 65_010, 0, Some(0))), [(Cause::Suspended, MS * 60_000)]);
}

fn watched(gaps: &[(Cause, u32, u32)], stolen: Option<StealTime>) -> MonitoredPhase {
    let gap = |(cause, from, to): &(Cause, u32, u32)| Gap {
        cause: *cause,
        from: MS * *from,
        to: MS * *to,
        lost: MS * (*to - *from),
    };
    let gaps = gaps.iter().map(gap).collect();
    MonitoredPhase { begun: MS * 1000, ended: MS * 11_000, gaps, stolen, watched: true }
}

fn cause(lost: Option<LostTime>) -> Option<Cause> {
    lost.map(|lost| lost.cause)
}

#[test]
fn phase_that_lost_over_one_percent_is_invalid() {
    assert_eq!(watched(&[], None).lost(), None);
    assert_eq!(watched(&[(Cause::Stopped, 2000, 2100)], None).lost(), None);
    let lost = watched(&[(Cause::Stopped, 2000, 2101)], None).lost().unwrap();
    assert_eq!(lost, LostTime { cause: Cause::Stopped, lost_us: 101_000, length_us: 10_000_000 });
    let tiny: Vec<_> = (0..20).map(|number| (Cause::Stopped, 2000 + number * 100, 2015 + number * 100)).collect();
    assert_eq!(cause(watched(&tiny, None).lost()), Some(Cause::Stopped));
    assert_eq!(cause(watched(&[(Cause::ThreadStopped, 2000, 3000)], None).lost()), Some(Cause::ThreadStopped));
    assert_eq!(cause(watched(&[(Cause::Suspended, 2000, 2200)], None).lost()), Some(Cause::Suspended));
    let unwatched = MonitoredPhase { watched: false, ..watched(&[], None) };
    assert_eq!(cause(unwatched.lost()), Some(Cause::Unwatched));
}

#[test]
fn stop_outside_measured_part_is_not_a_loss() {
    let stopped = watched(&[(Cause::Stopped, 2000, 5000)], None);
    assert_eq!(stopped.lost_between(MS * 5000, MS * 11_000), None);
    let lost = stopped.lost_between(MS * 4000, MS * 10_000).unwrap();
    assert_eq!((lost.lost_us, lost.length_us), (1_000_000, 6_000_000));
}

#[test]
fn warm_up_and_measured_part_each_have_the_limit() {
    let lost = |from, to| {
        let one = watched(
            &[(Cause::Stopped, from, to)],
            Some(StealTime { seconds: 0.05, busy_seconds: 5.0, own_seconds: 5.0 }),
        );
        cause(one.lost_in_warm_up_or_between(MS * 3000, MS * 3000, MS * 11_000))
    };
    assert_eq!(lost(1500, 1515), None);
    assert_eq!(lost(1500, 1530), Some(Cause::Stopped), "in the warm-up of 2 s");
    assert_eq!((lost(4000, 4070), lost(4000, 4090)), (None, Some(Cause::Stopped)), "in the measured 8 s");
    assert_eq!(lost(2900, 3100), Some(Cause::Stopped), "across both");
}

/// Simulates two clocks over a phase in which the machine sleeps once.
#[test]
fn machine_that_sleeps_makes_a_phase_invalid() {
    let beats: Vec<Beat> = (0..500u32)
        .map(|number| {
            beat(1000 + number * 10, 1000 + number * 10 + if number < 250 { 0 } else { 4000 }, number, Some(0))
        })
        .collect();
    let found = beats.windows(2).flat_map(|pair| pair[0].gaps_until(&pair[1], Rest::Sleeping(TICK))).flatten();
    let phase =
        |gaps: Vec<Gap>| MonitoredPhase { begun: MS * 1000, ended: MS * 5990, gaps, stolen: None, watched: true };
    let lost = phase(found.collect()).lost().unwrap();
    assert_eq!((lost.cause, lost.lost_us), (Cause::Suspended, 4_000_000));
    assert_eq!(phase(Vec::new()).lost(), None);
}

#[test]
fn only_our_share_of_stolen_time_counts() {
    let cause_of = |seconds, busy_seconds, own_seconds| {
        cause(watched(&[], Some(StealTime { seconds, busy_seconds, own_seconds })).lost())
    };
    assert_eq!(cause_of(0.11, 5.0, 5.0), Some(Cause::Stolen));
    assert_eq!(cause_of(0.09, 5.0, 5.0), None);
    assert_eq!(cause_of(0.4, 20.0, 5.0), None, "a quarter of it was stolen from us");
    assert_eq!(cause_of(0.5, 20.0, 5.0), Some(Cause::Stolen));
    assert_eq!(cause_of(0.12, 640.0, 640.0), None, "of 64 busy processors");
    let usage = |ticks, own_seconds| ProcessorUsage { ticks, own_seconds };
    let stolen = StealTime::between(usage([1000.0, 10.0, 500.0], 1.0), usage([3000.0, 22.0, 1500.0], 3.0));
    assert_eq!(stolen, StealTime { seconds: 0.11, busy_seconds: 9.88, own_seconds: 2.0 });
}

#[test]
fn only_ticks_that_were_stolen_for_certain_count() {
    let cause_of = |stolen: f64, length_ms: u32| {
        let busy = f64::from(length_ms) / 1e3;
        let ticks = busy * rustix::param::clock_ticks_per_second() as f64;
        let usage = |ticks, own_seconds| ProcessorUsage { ticks, own_seconds };
        let stolen = StealTime::between(usage([0.0; 3], 0.0), usage([2.0 * ticks, stolen, ticks], busy));
        let phase = MonitoredPhase { ended: MS * (1000 + length_ms), ..watched(&[], Some(stolen)) };
        cause(phase.lost())
    };
    assert_eq!((cause_of(0.0, 1500), cause_of(1.0, 1500)), (None, None));
    assert_eq!(cause_of(3.0, 1500), None, "perhaps only 20 ms");
    assert_eq!(cause_of(4.0, 1500), Some(Cause::Stolen), "more than 30 ms");
    assert_eq!((cause_of(11.0, 10_000), cause_of(12.0, 10_000)), (None, Some(Cause::Stolen)));
}

/// Runs this test program again with only `phase_of_a_child`.
fn phase(milliseconds: u64) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", "heartbeat::tests::phase_of_a_child", "--nocapture"]);
    command
        .env("HEARTBEAT_PHASE_MS", milliseconds.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Watches a phase in a process that may be stopped. It ends when its standard input closes, so no test depends on timing.
#[test]
fn phase_of_a_child() {
    let Some(length) = std::env::var("HEARTBEAT_PHASE_MS").ok().and_then(|text| text.parse().ok()) else { return };
    let heartbeat = Heartbeat::begin();
    println!("\nbegun");
    let end = clock::monotonic() + Duration::from_millis(length);
    let mut work = 0u64;
    while clock::monotonic() < end {
        work = std::hint::black_box(work + 1);
    }
    let lost = heartbeat.end().lost();
    println!("\nlost {}", serde_json::to_string(&lost.map(|lost| lost.cause)).unwrap());
}

fn wait_for(lines: &mut impl Iterator<Item = std::io::Result<String>>, word: &str) -> String {
    lines.find_map(|line| line.unwrap().strip_prefix(word).map(str::to_string)).unwrap()
}

/// Returns the cause reported by a child that was stopped and continued `times` times.
fn cause_after_stops(times: u32, stop: Duration, between: Duration) -> String {
    use std::io::BufRead;
    let mut child = phase(1000);
    let pid = Pid::from_child(&child);
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    wait_for(&mut lines, "begun");
    for _ in 0..times {
        kill_process(pid, Signal::STOP).unwrap();
        std::thread::sleep(stop);
        kill_process(pid, Signal::CONT).unwrap();
        std::thread::sleep(between);
    }
    let said = wait_for(&mut lines, "lost ");
    child.wait().unwrap();
    said
}

#[test]
fn stopped_process_is_detected() {
    assert_eq!(cause_after_stops(1, MS * 300, Duration::ZERO), "\"stopped\"");
    assert_eq!(cause_after_stops(8, MS * 15, MS * 60), "\"stopped\"");
}

#[test]
fn load_is_not_a_stop() {
    let burn = || {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).spawn().unwrap()
    };
    let mut burners: Vec<Child> = (0..6).map(|_| burn()).collect();
    let said = cause_after_stops(0, MS, MS);
    burners.iter_mut().for_each(|burner| {
        burner.kill().unwrap();
        burner.wait().unwrap();
    });
    assert_ne!(said, "\"stopped\"");
}

#[test]
fn only_external_causes_are_reasons_of_lost_time() {
    let is_reason = |cause| {
        let lost = LostTime { cause, lost_us: 1000, length_us: 2000 };
        LostTime::is_reason(&format!("repetition 2: {lost}"))
    };
    assert!(Cause::EXTERNAL.into_iter().all(is_reason));
    assert!(!is_reason(Cause::Leaped) && !is_reason(Cause::Unwatched));
    assert!(!LostTime::is_reason("cannot write x: No space left on device (ENOSPC)"));
}
