//! How a side gets the values that its verdicts lack. Kinds without repetitions need other advice than benchmarks.

use super::Row;
use senesce_core::Plan;
use senesce_stats::arm::Untestable;
use senesce_stats::verdict::Verdict;

/// The kind of agings: each has a single image, that of its seed.
const AGING: &str = "age";

/// Returns how runs of this plan get more values; `None`: by more repetitions.
fn of(plan: &Plan) -> Option<&'static str> {
    match (plan.spec.contains_key("gate"), plan.kind.as_str()) {
        (true, _) => Some("raise pairs and max_pairs in the file of the gate"),
        (false, AGING) => Some(
            "age both sides with several seeds (--seed), and compare all: senesce compare RUN... --against BASE...",
        ),
        _ => None,
    }
}

/// Replaces the advice of rows with too few values.
pub(super) fn give(rows: &mut [Row], plan: &Plan) {
    let Some(advice) = of(plan) else { return };
    for decision in rows.iter_mut().filter_map(|row| row.decision.as_mut()) {
        if let Verdict::NotTestable { why } = &mut decision.verdict
            && let Untestable::TooFew { have, need } = *why
        {
            *why = Untestable::Other(format!("too few: {have} of at least {need}; {advice}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::analysis::Better;
    use senesce_core::{Measurement, Seed};
    use senesce_stats::Decision;

    fn row(why: Untestable) -> Row {
        let what = Measurement::new("discontinuities", "", Better::Lower, 1.0).unwrap();
        let decision = Some(Decision { interval: None, unit: None, verdict: Verdict::NotTestable { why } });
        let (sample, reference) = (vec![vec![1.0]], vec![vec![1.0]]);
        Row { what, sample, reference, runs: [1, 1], between_runs: 0.0, decision, described: None, gate: None }
    }

    fn given(plan: &Plan, why: Untestable) -> Untestable {
        let mut rows = [row(why)];
        give(&mut rows, plan);
        match rows.into_iter().next().and_then(|row| row.decision).map(|decision| decision.verdict) {
            Some(Verdict::NotTestable { why }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn kinds_without_repetitions_get_their_own_advice() {
        let few = || Untestable::TooFew { have: 1, need: 5 };
        let bench = Plan::default_of("bench", Seed(1));
        assert_eq!(given(&bench, few()), few());
        let age = Plan::default_of("age", Seed(1));
        assert!(matches!(given(&age, few()), Untestable::Other(words) if words.contains("--against BASE...")));
        assert_eq!(given(&age, Untestable::NotFinite), Untestable::NotFinite);
        let mut gate = Plan::default_of("gate", Seed(1));
        gate.spec.insert("gate".into(), toml::Value::Table(toml::Table::new()));
        assert!(matches!(given(&gate, few()), Untestable::Other(words) if words.contains("max_pairs")));
    }
}
