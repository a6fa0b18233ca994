//! A run that does not cover a claim decides nothing: stopped, cut to some systems, short, or limited by rounding.

use crate::synthetic::{World, measurements};
use crate::{expect, sets, testable};
use senesce_claims::{Claim, ClaimSet, ConditionScope, Facts, Rule, judge};
use senesce_core::{Better, Level, Measurement, Verdict};

fn facts(claim: &Claim) -> Facts {
    Facts {
        model: claim.fitted.then(|| "the model".to_string()),
        drives: claim.drive.iter().cloned().collect(),
        ..Facts::of(Level::Quick)
    }
}

fn of_kinds(id: &str) -> (ClaimSet, Claim) {
    let (_, set) = sets().into_iter().find(|(name, _)| name == "all-kinds").unwrap();
    let claim = set.claims.iter().find(|claim| claim.id == id).unwrap().clone();
    (set, claim)
}

#[test]
fn stopped_runs_contradict_nothing() {
    for (name, set, claim) in testable() {
        let stopped = Facts { stopped: true, ..facts(&claim) };
        let found = judge(&claim, &set, &measurements(&claim, &set, World::False), &stopped);
        expect(&name, "stopped and false", &found, Verdict::Undecided);
        let found = judge(&claim, &set, &measurements(&claim, &set, World::True), &stopped);
        assert!(is_certain(&claim) || found.verdict == Verdict::Undecided, "{name}: {found:?}");
    }
}

/// Whether one example is enough to support the claim.
fn is_certain(claim: &Claim) -> bool {
    claim.holds == ConditionScope::Any || matches!(claim.rule, Rule::Rank { changes: true, .. })
}

#[test]
fn short_runs_contradict_nothing_and_smoke_supports_only_examples() {
    for (name, set, claim) in testable() {
        let smoke = Facts { level: Level::Smoke, ..facts(&claim) };
        let found = judge(&claim, &set, &measurements(&claim, &set, World::True), &smoke);
        let wanted = match (claim.fitted, is_certain(&claim)) {
            (true, _) => Verdict::ModelAgrees,
            (false, true) => Verdict::Supported,
            (false, false) => Verdict::Undecided,
        };
        expect(&name, "smoke and true", &found, wanted);
        let world = measurements(&claim, &set, World::False);
        for short in [Facts { level: Level::Smoke, ..facts(&claim) }, Facts { short: true, ..facts(&claim) }] {
            expect(&name, "short and false", &judge(&claim, &set, &world, &short), Verdict::Undecided);
        }
    }
}

/// "All five" needs five: without one of the named systems, no claim about all of them is supported.
#[test]
fn claims_about_named_systems_need_all_of_them() {
    let mut cut = 0;
    for (name, set, claim) in testable() {
        let world = measurements(&claim, &set, World::True);
        let named = |text: &str| text.split(['|', ',']).next().map(|word| word.trim().to_string());
        let rule = claim.rule.to_string();
        let Some((key, word)) = ["fs=", "profile=", "operation="].iter().find_map(|key| {
            let list = rule.split(key).nth(1)?;
            let list = list.split([']', ',']).next().filter(|list| list.contains('|'))?;
            Some((key.trim_end_matches('='), named(list)?))
        }) else {
            continue;
        };
        let rest: Vec<Measurement> =
            world.iter().filter(|one| one.condition.get(key) != Some(&word)).cloned().collect();
        if claim.holds != ConditionScope::Every || rest.len() == world.len() || matches!(claim.rule, Rule::Table { .. })
        {
            continue;
        }
        let found = judge(&claim, &set, &rest, &facts(&claim));
        let is_open = matches!(found.verdict, Verdict::Undecided | Verdict::NotTestable);
        assert!(is_open, "{name} without {key}={word}: {found:?}");
        cut += 1;
    }
    assert!(cut > 10, "{cut} claims");
}

fn costs(quotient: f64) -> Vec<Measurement> {
    let one = |subject: &str, value: f64, repetition: u32| {
        let noise = 1.0 + 0.002 * f64::from(repetition % 3);
        let one = Measurement::new("cost", "s", Better::Lower, value * noise).unwrap().under("subject", subject);
        Measurement { repetition, ..one }
    };
    (0..6).flat_map(|round| [one("anticache", quotient, round), one("bpfs", 1.0, round)]).collect()
}

#[test]
fn results_between_the_bounds_and_the_unclear_ones_are_undecided() {
    let (set, claim) = of_kinds("unclear");
    for (quotient, wanted) in [(1.0, Verdict::Supported), (1.09, Verdict::Undecided), (1.3, Verdict::NotSupported)] {
        expect("unclear", "ratio", &judge(&claim, &set, &costs(quotient), &facts(&claim)), wanted);
    }
}

#[test]
fn noise_of_a_control_decides_nothing() {
    let (set, claim) = of_kinds("controlled");
    let again = |noise: f64| {
        let one = |round: u32| {
            let value = if round.is_multiple_of(2) { 1.0 + noise } else { 1.0 - noise };
            let one = Measurement::new("cost", "s", Better::Lower, value).unwrap().under("subject", "bpfs again");
            Measurement { repetition: round, ..one }
        };
        (0..6).map(one).collect::<Vec<_>>()
    };
    for (noise, wanted) in [(0.002, Verdict::Supported), (0.3, Verdict::Undecided)] {
        let world = [costs(1.0), again(noise)].concat();
        expect("controlled", "noisy", &judge(&claim, &set, &world, &facts(&claim)), wanted);
    }
}

#[test]
fn claims_that_rounding_makes_impossible_are_not_refuted() {
    let (set, claim) = of_kinds("limited");
    let value = |metric: &str, profile: &str, repetition: u32, value: f64| {
        let one = Measurement::new(metric, "%", Better::Lower, value).unwrap().under("profile", profile);
        Measurement { repetition, ..one }
    };
    let world = |error: f64, rounding: f64| -> Vec<Measurement> {
        let of = |round| {
            [
                value("error", "a", round, 0.002),
                value("error", "b", round, error),
                value("rounding", "a", round, 0.001),
                value("rounding", "b", round, rounding),
            ]
        };
        (0..5).flat_map(of).collect()
    };
    let judged = |error, rounding| judge(&claim, &set, &world(error, rounding), &facts(&claim));
    expect("limited", "possible and true", &judged(0.003, 0.002), Verdict::Supported);
    expect("limited", "possible and false", &judged(0.03, 0.002), Verdict::NotSupported);
    let found = judged(0.03, 0.023);
    expect("limited", "impossible", &found, Verdict::NotTestable);
    assert!(found.reason.contains("impossible") && found.note.contains("0.023"), "{found:?}");
    assert!(found.measured.contains("0.03"), "the measured value is shown: {found:?}");
}
