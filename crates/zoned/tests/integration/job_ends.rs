//! Ends of jobs: invalid durations, counts, and warnings about missing measurements.

use super::jobs::{has_warning, planned, refused, run};

#[test]
fn endless_actor_needs_a_time_or_a_count() {
    for op in ["open-close", "write", "randread", "reset\"\noccupancy = 0.5\n#", "finish\"\noccupancy = 0.5\n#"] {
        let actor = format!("[[actor]]\nzones = \"0..4\"\nop = \"{op}\"");
        refused(&actor, &["neither time nor count", "give one of them"]);
        planned(&actor.replace("zones", "count = 4\nzones")).unwrap();
    }
    for op in ["reset", "finish"] {
        planned(&format!("[[actor]]\nzones = \"0..4\"\nop = \"{op}\"")).unwrap();
    }
}

#[test]
fn count_excludes_commands_within_the_ramp() {
    let actors = [
        "op = 'write'",
        "op = 'append'\nqd = 4",
        "op = 'randread'\nqd = 64",
        "op = 'write'\nrate = '1MiB/s'",
        "op = 'reset'\noccupancy = 0.5\nzones = '0..4'",
        "op = 'open-close'\nzones = '0..4'",
    ];
    for actor in actors {
        let timed = format!("ramp = '300ms'\n[[actor]]\n{actor}\ncount = 10\ntime = '20s'");
        let (ramped, alone) = (run(&timed), run(&timed.replace("ramp = '300ms'", "")));
        for result in [&ramped, &alone] {
            assert_eq!(result.actors[0].tally.commands, 10, "{actor}: {:?}", result.warnings);
            assert_eq!(result.actors[0].latency().count(), 10, "{actor}");
        }
        assert!(ramped.simulated_seconds.unwrap() > 0.3, "{actor}: the ramp is not cut short");
        assert!(ramped.simulated_seconds.unwrap() < 2.0, "{actor}: the count ends it");
    }
}

#[test]
fn refused_commands_give_no_result() {
    let text = "[[actor]]\nop = 'write'\nzones = '0..1'\ncount = 5\nstart = '10ms'\n\
                [[fault]]\nzone = 0\nstate = 'offline'\nat = '1ms'";
    let result = run(text);
    assert_eq!((result.actors[0].tally.commands, result.actors[0].tally.error_count()), (0, 1));
    assert!(
        has_warning(&result, "the drive refused all its commands (1 x the zone is offline)"),
        "{:?}",
        result.warnings
    );
    assert!(has_warning(&result, "nothing was measured"), "{:?}", result.warnings);
}

/// Commands in flight at the end of the time are the slowest.
#[test]
fn cut_off_latencies_are_reported() {
    let deep = |time: &str| run(&format!("[[actor]]\nop = 'randread'\nqd = 1024\njobs = 1\ntime = '{time}'"));
    let (short, long) = (deep("3ms"), deep("500ms"));
    assert!(has_warning(&short, "latencies are too small"), "{:?}", short.warnings);
    assert!(short.actors[0].latency().mean_us() < 0.9 * long.actors[0].latency().mean_us());
    assert!(!has_warning(&long, "latencies are too small"), "{:?}", long.warnings);
    let one = run("[[actor]]\nop = 'finish'\nzones = '0..8'\noccupancy = 0.1\ntime = '3s'");
    assert!(!has_warning(&one, "latencies are too small"), "few in flight cut off little: {:?}", one.warnings);
}

#[test]
fn unreached_count_is_reported() {
    let once = "[[actor]]\nop = 'reset'\nzones = '0..2'\ncount = 9\n";
    let result = run(once);
    assert!(has_warning(&result, "counted 2 commands of 9"), "{:?}", result.warnings);
    assert!(has_warning(&result, "each zone only once"), "{:?}", result.warnings);
    assert!(run(&once.replace('9', "2")).warnings.is_empty());
    assert!(has_warning(&run(&format!("{once}time = '5s'\n")), "counted 2 commands of 9"));
    // The requested time ended it, so there is no warning.
    let timed = "[[actor]]\nop = 'write'\nzones = '0..2'\ncount = 1000000\ntime = '10ms'\n";
    assert!(run(timed).warnings.is_empty());
    let lost = "[[actor]]\nop = 'write'\nzones = '0..2'\ncount = 100000\n\
                [[fault]]\nzone = 1\nstate = 'offline'\nat = '1ms'";
    let result = run(lost);
    assert!(has_warning(&result, "commands of 200000"), "two workers count: {:?}", result.warnings);
}
