//! Parses shares: the limit of a gate, and the assumed difference of runs.

use super::Row;
use senesce_core::Failure;
use senesce_core::analysis::Better;

const MOST: f64 = 10.0;

/// Reads `5%` or `0.05` as a fraction. Refuses values of 1 or more without `%`, and values outside 0 to 1000 %.
pub fn parse_share(text: &str) -> Result<f64, Failure> {
    let wrong = |why: String| Failure::usage(format!("'{text}' is not a share{why}: write 5% or 0.05"));
    let (number, divisor) = text.trim().strip_suffix('%').map_or((text.trim(), 1.0), |number| (number.trim(), 100.0));
    let share = number.parse::<f64>().map_err(|_| wrong(String::new()))? / divisor;
    match share {
        share if divisor == 1.0 && (1.0..f64::INFINITY).contains(&share) => {
            Err(Failure::usage(format!("'{text}' would be {} %: write {number}%", percent(share))))
        }
        share if (0.0..=MOST).contains(&share) => Ok(share),
        _ => Err(wrong(format!(" of 0 to {} %", percent(MOST)))),
    }
}

fn percent(share: f64) -> f64 {
    (share * 1e4).round() / 100.0
}

/// Returns a caveat for a gate of 100 % and more: a metric whose larger values are better cannot lose more than 100 %.
pub(super) fn caveat(rows: &[Row], limit: Option<f64>) -> Option<String> {
    let limit = limit.filter(|limit| *limit >= 1.0)?;
    let held = rows.iter().filter(|row| row.described.is_none() && row.what.better == Better::Higher);
    let names: Vec<String> = held.map(Row::name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the gate of {} % can never fail for metrics that lose at most 100 %: {}",
            percent(limit),
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_fraction_or_a_percentage() {
        let read = |text: &str| parse_share(text).map_err(|failure| failure.to_string());
        for (text, share) in [("5%", 0.05), ("0.05", 0.05), (" 2 % ", 0.02), ("0", 0.0), ("500%", 5.0), ("1000%", 10.0)]
        {
            assert_eq!(read(text), Ok(share), "{text}");
        }
        assert_eq!(read("5").unwrap_err(), "'5' would be 500 %: write 5%");
        assert!(read("1").unwrap_err().contains("write 1%"), "{:?}", read("1"));
        assert!(read("50").unwrap_err().contains("would be 5000 %"), "{:?}", read("50"));
        for text in ["", "%", "five", "nan", "nan%", "-5%", "1001%", "inf"] {
            assert!(read(text).unwrap_err().contains("is not a share"), "{text}: {:?}", read(text));
        }
    }
}
