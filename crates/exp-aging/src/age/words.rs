//! Readers of the values of `senesce age`'s flags.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use senesce_aging::{Churn, Data, Truncate};
use senesce_core::Seed;
use senesce_core::units::parse_duration;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads one of `words`, the names that records use.
fn word<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    words: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value(Value::String(word)))
}

pub(crate) fn churn() -> impl TypedValueParser<Value = Churn> {
    word(&["profile", "bins"])
}

pub fn truncate() -> impl TypedValueParser<Value = Truncate> {
    word(&["refuse", "drop", "clamp"])
}

pub(crate) fn data() -> impl TypedValueParser<Value = Data> {
    word(&["fallocate", "write", "sparse"])
}

/// [`senesce_core::seed::DEFAULT_SEED`] as a word.
pub const SEED: &str = "42";

/// Reads a seed that can be stored: TOML has no larger number.
pub fn seed() -> impl TypedValueParser<Value = Seed> {
    clap::value_parser!(u64).range(..=i64::MAX as u64).map(Seed)
}

pub fn share(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a share: write 80% or 0.8");
    let (number, of) = text.trim().strip_suffix('%').map_or((text.trim(), 1.0), |percent| (percent.trim(), 100.0));
    let share = number.parse::<f64>().map_err(|_| wrong())? / of;
    if share.is_finite() { Ok(share) } else { Err(wrong()) }
}

pub(crate) fn locality(text: &str) -> Result<f64, String> {
    share(text).and_then(|share| match share {
        0.0..=1.0 => Ok(share),
        _ => Err("write a locality from 0 to 1, such as 0.6".into()),
    })
}

pub(crate) fn pace(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(pace) if pace >= 0.01 && pace.is_finite() => Ok(pace),
        _ => Err("write operations per second, at least 0.01".into()),
    }
}

/// Formats `10 operations per second`, or `one operation per 60 s`.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        slow if slow > 0.0 && slow < 1.0 => format!("one operation per {} s", (10.0 / slow).round() / 10.0),
        few if few < 10.0 => format!("{} operations per second", (10.0 * few).round() / 10.0),
        many => format!("{many:.0} operations per second"),
    }
}

/// Operations per second of a time scale.
pub(crate) fn time_scale(text: &str) -> Result<f64, String> {
    let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
    let seconds = match unit {
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "day" => 86_400.0,
        _ => f64::NAN,
    };
    match number.parse::<f64>().map(|number| number / seconds) {
        Ok(pace) if pace >= 1e-6 && pace.is_finite() => Ok(pace),
        _ => Err("write operations per time, such as 10/s, 1/min, 60/h or 500/day".into()),
    }
}

pub(crate) fn probability(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(p) if p > 0.0 && p < 1.0 => Ok(p),
        _ => Err("write a probability above 0 and below 1, such as 0.95".into()),
    }
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    parse_duration(text).map(|time| time.as_secs_f64()).map_err(|error| error.to_string())
}

/// Reads `--shard`: `I/N` with I from 0 to N-1.
pub(crate) fn shard(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((part, of)) if part < of => Ok((part, of)),
        _ => Err("write I/N with I from 0 to N-1, such as 0/4".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn read<T: Clone + Send + Sync>(parser: impl TypedValueParser<Value = T>, word: &str) -> Option<T> {
        parser.parse_ref(&clap::Command::new("age"), None, OsStr::new(word)).ok()
    }

    #[test]
    fn options_accept_the_words_of_records() {
        assert_eq!(read(churn(), "bins"), Some(Churn::Bins));
        assert_eq!(read(truncate(), "clamp"), Some(Truncate::Clamp));
        assert_eq!(read(data(), "fallocate"), Some(Data::Fallocate));
        assert_eq!(read(data(), "null"), None);
    }

    #[test]
    fn seeds_fit_a_plan() {
        assert_eq!(read(seed(), "9223372036854775807"), Some(Seed(i64::MAX as u64)));
        assert_eq!(read(seed(), SEED), Some(senesce_core::seed::DEFAULT_SEED));
        assert_eq!([read(seed(), "9223372036854775808"), read(seed(), "-1")], [None, None]);
    }

    #[test]
    fn fullness_is_a_share_or_a_percentage() {
        assert_eq!([share("80%"), share(" 12.5 % "), share("0.8")], [Ok(0.8), Ok(0.125), Ok(0.8)]);
        for wrong in ["", "%", "80 percent", "NaN", "inf%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn probabilities_and_shards_have_ranges() {
        assert_eq!(probability("0.95"), Ok(0.95));
        assert!(["1.5", "0", "confidence=0.9"].iter().all(|text| probability(text).is_err()));
        assert_eq!(shard("1/4"), Ok((1, 4)));
        assert!(["4/4", "1", "a/b", "0/0"].iter().all(|text| shard(text).is_err()));
    }
}
