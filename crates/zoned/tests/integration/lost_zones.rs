//! Zones that become read-only or offline during zone commands.

use super::jobs::{has_warning, run};
use senesce_zoned::ZoneFault;
use senesce_zoned::job::{ActorResult, JobResult};

/// Zones 0 to 3, of which `lost` become offline or read-only 1 ms after the start.
fn losing(actor: &str, lost: &[u32], state: &str, rule: &str) -> JobResult {
    let mut text = format!("on-lost-zone = '{rule}'\n[[actor]]\nzones = '0..4'\n{actor}\n");
    for zone in lost {
        text += &format!("[[fault]]\nzone = {zone}\nstate = '{state}'\nat = '1ms'\n");
    }
    run(&text)
}

const ZONE_COMMANDS: [&str; 5] = [
    "op = 'open-close'\ncount = 40\npause = '1ms'",
    "op = 'reset'\noccupancy = 0.5\ncount = 40",
    "op = 'finish'\noccupancy = 0.9\ncount = 8",
    "op = 'reset'\npause = '1ms'",
    "op = 'finish'\npause = '1ms'",
];

fn dropped(actor: &ActorResult) -> Vec<(u32, ZoneFault)> {
    let mut lost = actor.tally.lost.clone();
    lost.sort_by_key(|(zone, _)| *zone);
    lost
}

#[test]
fn zone_commands_drop_lost_zones() {
    for (state, fault) in [("offline", ZoneFault::Offline), ("read-only", ZoneFault::ReadOnly)] {
        for actor in ZONE_COMMANDS {
            for lost in [vec![2], vec![3], vec![1, 2]] {
                let result = losing(actor, &lost, state, "drop");
                let found = &result.actors[0];
                let expected: Vec<_> = lost.iter().map(|zone| (*zone, fault)).collect();
                assert_eq!(dropped(found), expected, "{actor}: {:?}", found.tally.errors);
                assert!(found.tally.error_count() <= lost.len() as u64, "{actor}: {:?}", found.tally.errors);
                let words = format!("left zone {}, the zone is {state}", found.tally.lost[0].0);
                assert!(has_warning(&result, &words), "{actor}: {:?}", result.warnings);
                assert!(!result.stopped);
                let zones = 4 - lost.len() as u64;
                let least = if actor.contains("count") { 6 } else { zones };
                assert!(found.tally.commands >= least, "{actor}: {} commands", found.tally.commands);
                assert!(actor.contains("count") || found.tally.commands == zones, "{actor}: each zone once");
            }
        }
    }
}

#[test]
fn zone_lost_by_zone_commands_stops_the_job_if_requested() {
    for actor in ZONE_COMMANDS {
        let result = losing(actor, &[2], "offline", "stop");
        assert!(result.stopped && has_warning(&result, "a zone was lost"), "{actor}: {:?}", result.warnings);
        assert_eq!(dropped(&result.actors[0]), [(2, ZoneFault::Offline)], "{actor}");
    }
    let beside = "op = 'reset'\noccupancy = 0.5\ncount = 40\n[[actor]]\nop = 'randread'\nzones = '9..10'\ntime = '60s'";
    let result = losing(beside, &[2], "offline", "stop");
    assert!(result.stopped && result.simulated_seconds.unwrap() < 1.0, "{:?}", result.simulated_seconds);
}

#[test]
fn a_job_whose_zones_are_all_lost_ends() {
    for actor in ZONE_COMMANDS {
        let result = losing(actor, &[0, 1, 2, 3], "read-only", "drop");
        let zones = result.actors[0].tally.lost.len();
        assert!(zones == 4 || !actor.contains("count") && zones >= 3, "{actor}: {:?}", result.actors[0].tally.lost);
    }
}
