//! Each published value beside ours.

use super::analysis::Seen;
use super::figures;
use super::point::Clock;
use senesce_core::published::PublishedValue;
use senesce_core::{Finding, Verdict};

/// All published values but correlations, each with ours or the reason why there is none.
pub fn findings(seen: &Seen<'_>, published: &[PublishedValue]) -> Vec<Finding> {
    published.iter().filter(|one| one.metric != "correlation").map(|one| finding(seen, one)).collect()
}

fn finding(seen: &Seen<'_>, theirs: &PublishedValue) -> Finding {
    let ours = Ours::of(seen, theirs);
    Finding {
        claim: match theirs.metric.as_str() {
            "slowdown" => format!("slowdown of the aged files against their copy: {}", theirs.condition),
            metric => format!("{metric}: {}", theirs.condition),
        },
        published: format!("{} {} ({})", theirs.value, theirs.unit, theirs.source),
        measured: ours.as_ref().map_or_else(
            || "not run here: published only".into(),
            |ours| format!("{} {}, modelled", digits(ours.value), theirs.unit),
        ),
        verdict: match &ours {
            None => Verdict::NotTestable,
            Some(ours) if ours.holds => Verdict::Seen,
            Some(_) => Verdict::NotSeen,
        },
        note: theirs.note.clone(),
    }
}

fn digits(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Our value for a published one, and whether it says the same.
struct Ours {
    value: f64,
    holds: bool,
}

impl Ours {
    fn of(seen: &Seen<'_>, theirs: &PublishedValue) -> Option<Self> {
        let condition = theirs.condition.as_str();
        let clock = if condition.contains("ssd") { Clock::Ssd } else { Clock::Hdd };
        let fs = condition.split(' ').next()?;
        let lowest = condition.ends_with("lowest");
        match theirs.metric.as_str() {
            // How many times it is depends on how long a volume aged; that it ages does not.
            "slowdown" => {
                seen.slowdown(fs, clock).map(|value| Self { value, holds: (value >= 1.5) == (theirs.value >= 1.5) })
            }
            "cost" => Some(Self::near(seen.last_cost(fs, true, clock)?, theirs.value)),
            "cost against the sequential bandwidth" => {
                let sequential = figures::sequential(seen, clock)?;
                let costs = seen.costs(fs, clock).map(|cost| cost / sequential);
                Some(Self::near(extreme(costs, lowest)?, theirs.value))
            }
            _ => {
                let slowdowns = seen.systems.iter().filter_map(|fs| seen.slowdown(fs, clock));
                Some(Self::near(extreme(slowdowns, lowest)?, theirs.value))
            }
        }
    }

    /// The same within a factor of two.
    fn near(value: f64, theirs: f64) -> Self {
        Self { value, holds: (0.5..=2.0).contains(&(value / theirs)) }
    }
}

fn extreme(values: impl Iterator<Item = f64>, lowest: bool) -> Option<f64> {
    values.reduce(if lowest { f64::min } else { f64::max })
}
