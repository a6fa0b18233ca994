//! Decides every claim of every file on data made from its own rule. A true claim must be supported, a false one not supported,
//! a noisy one undecided, an empty one not testable. A rule without a negative result fails here.

mod coverage;
mod null;
mod synthetic;

use senesce_claims::row::Row;
use senesce_claims::{Claim, ClaimSet, Condition, Control, Facts, Judgement, Rule, Selection, judge};
use senesce_core::{Finite, Level, Measurement, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use synthetic::World;

const ALL_KINDS: &str = include_str!("all-kinds.claims.toml");
const ALL_KINDS_TABLE: &str = include_str!("all-kinds.csv");

fn published() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/published")
}

fn sets() -> Vec<(String, ClaimSet)> {
    static SETS: LazyLock<Vec<(String, ClaimSet)>> = LazyLock::new(read_sets);
    SETS.clone()
}

fn read_sets() -> Vec<(String, ClaimSet)> {
    let mut found = vec![("all-kinds".to_string(), ClaimSet::parse(ALL_KINDS, ALL_KINDS_TABLE).unwrap())];
    let verbs = std::fs::read_dir(published().join("verbs")).unwrap();
    for entry in std::fs::read_dir(published()).unwrap().chain(verbs).flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(id) = name.strip_suffix(".claims.toml") else { continue };
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let table = std::fs::read_to_string(entry.path().with_file_name(format!("{id}.csv"))).unwrap();
        found.push((id.to_string(), ClaimSet::parse(&text, &table).unwrap_or_else(|error| panic!("{id}: {error}"))));
    }
    found
}

fn testable() -> Vec<(String, ClaimSet, Claim)> {
    let of_set = |(id, set): (String, ClaimSet)| {
        let claims: Vec<Claim> =
            set.claims.iter().filter(|claim| !matches!(claim.rule, Rule::NotTestable { .. })).cloned().collect();
        claims.into_iter().map(move |claim| (format!("{id}/{}", claim.id), set.clone(), claim)).collect::<Vec<_>>()
    };
    sets().into_iter().flat_map(of_set).collect()
}

fn judged(set: &ClaimSet, claim: &Claim, measurements: &[Measurement]) -> Judgement {
    let facts = Facts {
        model: claim.fitted.then(|| "the model".to_string()),
        drives: claim.drive.iter().cloned().collect(),
        ..Facts::of(Level::Paper)
    };
    judge(claim, set, measurements, &facts)
}

fn expect(name: &str, world: &str, found: &Judgement, wanted: Verdict) {
    assert_eq!(found.verdict, wanted, "{name} in a {world} world: {found:?}");
}

/// Whether no input of the claim has a random error, so that noise cannot hide it.
fn is_exact(set: &ClaimSet, claim: &Claim) -> bool {
    let selections = claim.rule.selections();
    let metrics = selections.iter().map(|selection| &selection.metric);
    match &claim.rule {
        Rule::Table { rows, .. } => set.exact.contains(&rows.metric),
        Rule::Correlation { .. } | Rule::Linear { .. } => false,
        _ => metrics.clone().count() > 0 && metrics.clone().all(|metric| set.exact.contains(metric)),
    }
}

#[test]
fn true_data_is_supported() {
    for (name, set, claim) in testable() {
        let wanted = if claim.fitted { Verdict::ModelAgrees } else { Verdict::Supported };
        let world = synthetic::measurements(&claim, &set, World::True);
        expect(&name, "true", &judged(&set, &claim, &world), wanted);
    }
}

#[test]
fn false_data_is_not_supported() {
    for (name, set, claim) in testable() {
        let wanted = if claim.fitted { Verdict::ModelDiffers } else { Verdict::NotSupported };
        let world = synthetic::measurements(&claim, &set, World::False);
        expect(&name, "false", &judged(&set, &claim, &world), wanted);
    }
}

#[test]
fn noisy_data_is_undecided_with_the_required_repetitions() {
    for (name, set, claim) in testable() {
        if is_exact(&set, &claim) {
            continue;
        }
        let world = synthetic::measurements(&claim, &set, World::Noisy);
        let found = judged(&set, &claim, &world);
        expect(&name, "noisy", &found, Verdict::Undecided);
        let why = format!("{} {}", found.reason, found.note);
        assert!(why.contains("take") || why.contains("repetitions"), "{name}: {found:?}");
    }
}

#[test]
fn empty_data_is_not_testable_with_the_reason() {
    for (name, set, claim) in testable() {
        let found = judged(&set, &claim, &[]);
        expect(&name, "empty", &found, Verdict::NotTestable);
        assert!(found.reason.contains("did not measure"), "{name}: {found:?}");
    }
}

#[test]
fn only_unmeasured_selections_are_reported_missing() {
    let mut looked_at = 0;
    for (name, set, claim) in testable() {
        let Rule::Ratio { of, to, .. } = &claim.rule else { continue };
        let mut world = synthetic::measurements(&claim, &set, World::True);
        world.retain(|one| of.admits(&one.metric, &one.condition));
        if of == to || !to.of(&world).is_empty() {
            continue;
        }
        let found = judged(&set, &claim, &world);
        expect(&name, "half", &found, Verdict::NotTestable);
        assert!(found.note.contains("needs ") && !found.note.contains(&format!("[{of}]")), "{name}: {found:?}");
        looked_at += 1;
    }
    assert!(looked_at > 10, "{looked_at} claims");
}

#[test]
fn single_repetition_of_a_noisy_value_is_undecided() {
    for (name, set, claim) in testable() {
        if is_exact(&set, &claim) || matches!(claim.rule, Rule::Correlation { .. } | Rule::Linear { .. }) {
            continue;
        }
        let mut world = synthetic::measurements(&claim, &set, World::True);
        world.retain(|one| one.repetition == 0);
        expect(&name, "single", &judged(&set, &claim, &world), Verdict::Undecided);
    }
}

#[test]
fn times_of_an_emulated_processor_decide_nothing() {
    for (name, set, claim) in testable() {
        let world = synthetic::measurements(&claim, &set, World::True);
        let facts = Facts { emulated: true, drives: claim.drive.iter().cloned().collect(), ..Facts::of(Level::Paper) };
        // Values are made in the published unit, which need not be a time.
        if !matches!(claim.rule, Rule::Table { .. } | Rule::Value { .. }) {
            expect(&name, "emulated", &judge(&claim, &set, &world, &facts), Verdict::NotTestable);
        }
        let of_a_clock = world.iter().position(Measurement::is_timing);
        if let Some(one) = of_a_clock.filter(|_| matches!(claim.rule, Rule::Table { .. })) {
            let mut mixed = world.clone();
            mixed[one] = mixed[one].clone().under_emulation();
            let facts = Facts { emulated: false, ..facts };
            expect(&name, "one row emulated", &judge(&claim, &set, &mixed, &facts), Verdict::NotTestable);
        }
    }
}

/// If a guest measured some file systems, only values of its clock are omitted.
#[test]
fn emulation_and_model_marks_apply_to_single_values() {
    let (mut marked, mut modelled) = (0, 0);
    for (name, set, claim) in testable() {
        let world = synthetic::measurements(&claim, &set, World::True);
        if !world.iter().any(Measurement::is_timing) || matches!(claim.rule, Rule::Table { .. }) {
            continue;
        }
        let facts = Facts { drives: claim.drive.iter().cloned().collect(), ..Facts::of(Level::Paper) };
        let guests: Vec<Measurement> = world.iter().cloned().map(Measurement::under_emulation).collect();
        let found = judge(&claim, &set, &guests, &facts);
        if guests.iter().all(Measurement::is_timing) {
            expect(&name, "marked", &found, Verdict::NotTestable);
            assert!(found.reason.contains("emulated"), "{name}: {found:?}");
            marked += 1;
        }
        let stated: Vec<Measurement> = world.iter().cloned().map(Measurement::modelled).collect();
        let emulated = Facts { emulated: true, ..facts.clone() };
        let (here, there) = (judge(&claim, &set, &world, &facts), judge(&claim, &set, &stated, &emulated));
        expect(&name, "modelled", &there, here.verdict);
        modelled += 1;
    }
    assert!(marked > 10 && modelled > 10, "{marked} {modelled}");
}

#[test]
fn value_in_another_unit_decides_nothing() {
    for (name, set, claim) in testable() {
        let tolerance = matches!(&claim.rule, Rule::Value { within, .. } if within.of_published());
        if (tolerance && !claim.published.unit(&set.rows).is_empty()) || matches!(claim.rule, Rule::Table { .. }) {
            let mut world = synthetic::measurements(&claim, &set, World::True);
            world.iter_mut().for_each(|one| one.unit = "furlongs".into());
            expect(&name, "foreign", &judged(&set, &claim, &world), Verdict::NotTestable);
        }
    }
}

#[test]
fn claim_about_one_drive_needs_that_drive() {
    let of_a_drive = |(_, _, claim): &(String, ClaimSet, Claim)| claim.drive.is_some();
    for (name, set, claim) in testable().into_iter().filter(of_a_drive) {
        let world = synthetic::measurements(&claim, &set, World::True);
        let facts = Facts::of(Level::Paper);
        expect(&name, "foreign", &judge(&claim, &set, &world, &facts), Verdict::NotTestable);
    }
}

#[test]
fn differing_control_decides_nothing() {
    let (id, set, claim) = testable().into_iter().find(|(name, ..)| name == "all-kinds/controlled").unwrap();
    let Control { of, .. } = claim.control.clone().unwrap();
    let world = synthetic::measurements(&claim, &set, World::True);
    for (factor, wanted) in [(1.0, Verdict::Supported), (3.0, Verdict::Undecided)] {
        let again = |one: &Measurement| {
            let value = Finite::new(one.value.get() * factor).unwrap();
            let one = Measurement { value, ..one.clone() };
            one.under("subject", "bpfs again")
        };
        let twice = world.iter().filter(|one| one.condition["subject"] == "bpfs").map(again);
        let all: Vec<Measurement> = world.iter().cloned().chain(twice).collect();
        assert!(all.iter().any(|one| of.admits(&one.metric, &one.condition)));
        let found = judged(&set, &claim, &all);
        expect(&id, "controlled", &found, wanted);
        assert!(format!("{} {}", found.reason, found.note).contains("twice"), "{found:?}");
    }
    let alone = judged(&set, &claim, &world);
    assert!(alone.note.contains("the noise of the machine is unknown"), "{alone:?}");
}

/// An opposite line, or constant values, do not support a claim about a line.
#[test]
fn opposite_and_constant_lines_are_not_supported() {
    let lines = testable().into_iter().filter(|(.., claim)| matches!(claim.rule, Rule::Linear { .. }));
    let mut judgements = 0;
    for (name, set, claim) in lines {
        let wanted = if claim.fitted { Verdict::ModelDiffers } else { Verdict::NotSupported };
        let world = synthetic::measurements(&claim, &set, World::True);
        let most = world.iter().map(|one| one.value.get()).fold(0.0, f64::max);
        let changed = |value: &dyn Fn(f64) -> f64| -> Vec<Measurement> {
            let one =
                |one: &Measurement| Measurement { value: Finite::new(value(one.value.get())).unwrap(), ..one.clone() };
            world.iter().map(one).collect()
        };
        expect(&name, "mirrored", &judged(&set, &claim, &changed(&|value| most - value)), wanted);
        expect(&name, "level", &judged(&set, &claim, &changed(&|_| most)), wanted);
        judgements += 2;
    }
    assert!(judgements >= 10, "{judgements}");
}

/// The inputs of a user's model are unknown, so its agreement is never evidence.
#[test]
fn users_model_only_agrees_or_differs() {
    for (name, set, claim) in testable().into_iter().filter(|(.., claim)| claim.drive.is_none()) {
        let facts = Facts { own_model: Some("sim:mine.toml".to_string()), ..Facts::of(Level::Paper) };
        for (world, wanted) in [(World::True, Verdict::ModelAgrees), (World::False, Verdict::ModelDiffers)] {
            let found = judge(&claim, &set, &synthetic::measurements(&claim, &set, world), &facts);
            expect(&name, "modelled", &found, wanted);
            assert!(found.reason.contains("sim:mine.toml is your own model"), "{name}: {found:?}");
        }
    }
}

/// A model that knows one value of an operating point is not tested by another value of the point in any table.
#[test]
fn operating_points_are_fitted_or_held_out_as_a_whole() {
    let mut fitted: BTreeMap<&Condition, BTreeSet<bool>> = BTreeMap::new();
    let sets = sets();
    for (_, set) in sets.iter().filter(|(id, _)| id.starts_with("zns-")) {
        for row in &set.rows {
            fitted.entry(&row.condition).or_default().insert(row.is_fitted());
        }
    }
    let torn: Vec<_> = fitted.iter().filter(|(_, marks)| marks.len() > 1).map(|(condition, _)| condition).collect();
    assert!(torn.is_empty(), "{torn:?}");
}

/// Claims on fitted values cannot be supported by the model.
#[test]
fn claims_on_fitted_points_are_marked_fitted() {
    for (id, set) in sets().iter().filter(|(id, _)| id.starts_with("zns-")) {
        for claim in &set.claims {
            let on_fitted = |row: &&Row| {
                let by_table = matches!(&claim.rule, Rule::Table { rows, .. } if rows.admits(&row.published.metric, &row.conditions()));
                let admits = |one: &&Selection| one.admits(&one.metric, &row.condition) && !one.when.is_empty();
                row.is_fitted() && (by_table || claim.rule.selections().iter().any(admits))
            };
            let row = set.rows.iter().find(on_fitted);
            assert!(claim.fitted || row.is_none(), "{id}/{}: {row:?}", claim.id);
        }
    }
}

#[test]
fn untestable_claims_have_a_reason() {
    for (id, set) in sets() {
        for claim in &set.claims {
            if let Rule::NotTestable { why } = &claim.rule {
                assert!(why.len() > 20, "{id}/{}: '{why}'", claim.id);
                expect(&id, "any", &judged(&set, claim, &[]), Verdict::NotTestable);
            }
        }
    }
}
