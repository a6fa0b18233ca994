//! Common text and JSON fields of verdicts.

use senesce_core::analysis::Better;
use senesce_stats::decimals::places;
use senesce_stats::ratio::Interval;
use senesce_stats::verdict::MARGIN;
use senesce_stats::{Decision, Direction, Unit, Verdict};
use serde_json::{Map, Value, json};

/// Ratios on which verdicts at the default margin depend.
const BOUNDS: [f64; 3] = [1.0, 1.0 + MARGIN, 1.0 / (1.0 + MARGIN)];

/// Returns the direction of verdicts, or `None` if no direction is better.
pub fn direction(better: Better) -> Option<Direction> {
    match better {
        Better::Higher => Some(Direction::HigherIsBetter),
        Better::Lower => Some(Direction::LowerIsBetter),
        Better::Neither => None,
    }
}

/// Fields of a decision at the default margin: `ratio`, `low`, `high`, `confidence`, `verdict`, `words`, `detectable`,
/// `repetitions_needed`, and as `counted` the unit of that number; null if missing.
pub fn fields(decision: &Decision) -> Map<String, Value> {
    fields_at(decision, MARGIN)
}

/// Returns the [`fields`] of a decision at another margin (a fraction).
pub(crate) fn fields_at(decision: &Decision, margin: f64) -> Map<String, Value> {
    let (detectable, needed) = match &decision.verdict {
        Verdict::Undecided { detectable, repetitions_needed } => (json!(detectable), json!(repetitions_needed)),
        _ => (Value::Null, Value::Null),
    };
    let mut fields = interval_fields(decision.interval.as_ref());
    fields.insert("verdict".into(), json!(decision.verdict.word()));
    fields.insert("words".into(), json!(decision.text_at(margin)));
    fields.insert("detectable".into(), detectable);
    fields.insert("repetitions_needed".into(), needed);
    fields.insert("counted".into(), json!(decision.unit.map(Unit::plural)));
    fields
}

pub(crate) fn interval_fields(interval: Option<&Interval>) -> Map<String, Value> {
    let of = |pick: fn(&Interval) -> f64| interval.map_or(Value::Null, |interval| json!(pick(interval)));
    [
        ("ratio", of(|interval| interval.value)),
        ("low", of(|interval| interval.low)),
        ("high", of(|interval| interval.high)),
        ("confidence", of(|interval| interval.confidence)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_string(), value))
    .collect()
}

/// Formats the interval of a ratio: "0.812 to 0.934 (99.9 %)", or "too wide to say (99.9 %)".
pub fn interval_text(interval: &Interval) -> String {
    let ends = interval.ends_text(|end| format!("{end:.0$}", places(end, &BOUNDS, 3)));
    format!("{ends} ({} %)", confidence_text(interval.confidence))
}

/// Maximum number of decimal places of a confidence.
const PLACES: usize = 6;

/// Formats a confidence in percent, with the decimal places that distinguish it from 100: "99.9", "99.98".
pub fn confidence_text(confidence: f64) -> String {
    let percent = confidence * 100.0;
    let is_below = |text: &String| confidence >= 1.0 || !text.starts_with("100");
    let text = (1..=PLACES).map(|places| format!("{percent:.places$}")).find(is_below);
    text.unwrap_or_else(|| percent.to_string())
}

/// Formats a ratio as a change: "-18.0 % (-20.7 to -15.2)", or "-18.0 % (too wide to say)".
pub fn change_text(interval: &Interval) -> String {
    let bounds = BOUNDS.map(|bound| (bound - 1.0) * 100.0);
    let percent = |ratio: f64| {
        let change = (ratio - 1.0) * 100.0;
        format!("{change:+.0$}", places(change, &bounds, 1))
    };
    format!("{} % ({})", percent(interval.value), interval.ends_text(percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_ratio_does_not_contradict_the_verdict() {
        let interval = |value, low, high| Interval { value, low, high, confidence: 0.95 };
        assert_eq!(change_text(&interval(1.1, 1.05, 1.2)), "+10.0 % (+5.0 to +20.0)");
        assert_eq!(change_text(&interval(1.0197, 1.0004, 1.0403)), "+1.97 % (+0.04 to +4.0)");
        assert!(interval_text(&interval(1.01, 0.9997, 1.0203)).starts_with("0.9997 to 1.0203"));
    }

    #[test]
    fn confidence_below_one_is_not_shown_as_100_percent() {
        for (confidence, text) in [(0.95, "95.0"), (0.999, "99.9"), (0.9998, "99.98"), (0.999_996, "99.9996")] {
            assert_eq!(confidence_text(confidence), text);
        }
        assert_eq!(confidence_text(1.0), "100.0");
        assert_ne!(confidence_text(1.0 - 1e-12), "100.0");
    }
}
