//! The margin of verdicts.

use senesce_core::Plan;
use senesce_stats::verdict::MARGIN;

/// Returns the minimum effect of gates of layouts if all plans state the same, otherwise the default margin.
pub(super) fn of_plans<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> f64 {
    let mut stated = plans.into_iter().map(minimum_effect);
    let first = stated.next().flatten();
    first.filter(|_| stated.all(|other| other == first)).unwrap_or(MARGIN)
}

/// Returns the smallest difference that matters to a gate of layouts, as a fraction.
fn minimum_effect(plan: &Plan) -> Option<f64> {
    let effect = plan.spec.get("gate")?.get("minimum_effect")?.as_float()?;
    (effect > 0.0 && effect < 1.0).then_some(effect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Seed;

    #[test]
    fn margin_is_the_common_minimum_effect_of_gates() {
        let plain = Plan::default_of("bench", Seed(1));
        let gate = |effect: f64| {
            let mut plan = Plan::default_of("gate", Seed(1));
            let mut rules = toml::Table::new();
            rules.insert("minimum_effect".into(), toml::Value::Float(effect));
            plan.spec.insert("gate".into(), toml::Value::Table(rules));
            plan
        };
        assert_eq!(of_plans([&gate(0.3), &gate(0.3)]), 0.3);
        for others in [[gate(0.3), gate(0.03)], [gate(0.3), plain.clone()], [plain.clone(), gate(0.3)]] {
            assert_eq!(of_plans(&others), MARGIN);
        }
        assert_eq!(of_plans([&plain, &plain]), MARGIN);
        assert_eq!(of_plans([&gate(f64::NAN), &gate(-1.0)]), MARGIN);
    }
}
