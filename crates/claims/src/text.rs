//! Formats numbers, intervals and conditions.

use crate::claim::Claim;
use crate::contrast::{Cause, Interval, MissingInterval};
use crate::holds::ConditionScope;
use crate::selection::Condition;
use senesce_stats::ratio::TOO_WIDE;

/// Numbers from here on are written with an exponent.
const MOST_DIGITS: f64 = 1e12;

/// Half-width, in multiples of the value, and size of an end above which an interval carries no information.
const MOST_HALF_WIDTHS: f64 = 1000.0;
const MOST_END: f64 = 1e6;

/// Formats a number with three significant digits, or all digits of its integer part; near 1 with four digits after the
/// point.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    if value.abs() >= MOST_DIGITS {
        return format!("{value:.2e}");
    }
    let digits = match (value.abs() - 1.0).abs() < 0.005 {
        true => 4,
        false => (2 - value.abs().log10().floor() as i32).clamp(0, 9) as usize,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Formats value, ends and number of independent values: `0.82 times (0.79 to 0.85, n 5)`; without ends for exact
/// values.
pub(crate) fn interval(found: &Interval, unit: &str) -> String {
    let value = format!("{} {unit}", number(found.value)).trim().to_string();
    if found.units == 0 {
        return value;
    }
    let end = found.low.abs().max(found.high.abs());
    if (found.high - found.low) / 2.0 > MOST_HALF_WIDTHS * found.value.abs() && end > MOST_END {
        return format!("{value} ({TOO_WIDE}, n {})", found.units);
    }
    format!("{value} ({} to {}, n {})", number(found.low), number(found.high), found.units)
}

/// Formats an estimate without an interval: `0.82 times (one value)`.
pub(crate) fn estimate(value: f64, lack: &MissingInterval, unit: &str) -> String {
    let stated = format!("{} {unit}", number(value));
    match lack.cause {
        Cause::TooFew(0 | 1) => format!("{} (one value)", stated.trim()),
        Cause::TooFew(count) => format!("{} ({count} values)", stated.trim()),
        Cause::NotPositive => stated.trim().to_string(),
    }
}

pub(crate) fn condition(condition: &Condition) -> String {
    let words: Vec<String> = condition.iter().map(|(key, value)| format!("{key}={value}")).collect();
    words.join(" ")
}

impl Claim {
    /// Formats the rule with the conditions for which it must hold.
    pub fn rule_text(&self) -> String {
        match self.holds {
            ConditionScope::Every => self.rule.to_string(),
            _ => format!("{}, {}", self.rule, self.holds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_significant_digits() {
        let words: Vec<String> =
            [0.0, 719.311, -0.93, 0.012345, 12345.6, 30.0, 1.5, 1.0, 1.0002].iter().map(|one| number(*one)).collect();
        assert_eq!(words, ["0", "719", "-0.93", "0.0123", "12346", "30", "1.5", "1", "1.0002"]);
        assert_eq!(interval(&Interval { value: 2.0, low: 1.0, high: 4.0, units: 5 }, "times"), "2 times (1 to 4, n 5)");
        assert_eq!(interval(&Interval { value: 2.0, low: 2.0, high: 2.0, units: 0 }, ""), "2");
        let wide = Interval { value: 2.0, low: 1e-47, high: 4e48, units: 2 };
        assert_eq!(interval(&wide, "times"), "2 times (too wide to say, n 2)");
        let around_zero = Interval { value: 1e-5, low: -1.5, high: 1.5, units: 5 };
        assert_eq!(interval(&around_zero, "%"), "0.00001 % (-1.5 to 1.5, n 5)");
        assert_eq!(number(3.71e20), "3.71e20");
    }
}
