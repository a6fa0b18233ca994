//! Each published value beside ours.

use super::analysis::Seen;
use super::figures;
use super::point::Clock;
use senesce_core::published::PublishedValue;
use senesce_core::{Finding, Verdict};

/// All published values but correlations, each with ours or the reason why there is none.
pub fn findings(seen: &Seen, published: &[PublishedValue]) -> Vec<Finding> {
    published.iter().filter(|one| one.metric != "correlation").map(|one| finding(seen, one)).collect()
}

fn finding(seen: &Seen, theirs: &PublishedValue) -> Finding {
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
            Some(ours) if ours.rule.holds(ours.value, theirs.value) => Verdict::Seen,
            Some(_) => Verdict::NotSeen,
        },
        note: note(theirs, ours.as_ref()),
        ..Finding::default()
    }
}

/// What is noted of the published value, and by which rule ours was judged.
fn note(theirs: &PublishedValue, ours: Option<&Ours>) -> String {
    let words = [theirs.note.as_str(), ours.map_or("", |ours| ours.rule.words())];
    words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ")
}

fn digits(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// When our value says the same as a published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// How many times slower a volume becomes depends on how long it ages; that it ages does not.
    Ages,
    /// Within a factor of two.
    Near,
}

impl Rule {
    fn holds(self, ours: f64, theirs: f64) -> bool {
        match self {
            Self::Ages => (ours >= 1.5) == (theirs >= 1.5),
            Self::Near => (0.5..=2.0).contains(&(ours / theirs)),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Ages => "the same when both are 1.5 times or more, or neither is",
            Self::Near => "the same when within a factor of two",
        }
    }
}

/// Our value for a published one.
struct Ours {
    value: f64,
    rule: Rule,
}

impl Ours {
    /// None for a metric that is not known here, or without a run of what it is about.
    fn of(seen: &Seen, theirs: &PublishedValue) -> Option<Self> {
        let condition = theirs.condition.as_str();
        let clock = if condition.contains("ssd") { Clock::Ssd } else { Clock::Hdd };
        let fs = condition.split(' ').next()?;
        let lowest = condition.ends_with("lowest");
        let near = |value| Self { value, rule: Rule::Near };
        match theirs.metric.as_str() {
            "slowdown" => seen.slowdown(fs, clock).map(|value| Self { value, rule: Rule::Ages }),
            "cost" => seen.last_cost(fs, true, clock).map(near),
            "cost against the sequential bandwidth" => {
                let sequential = figures::sequential(seen, clock)?;
                extreme(seen.costs(fs, clock).map(|cost| cost / sequential), lowest).map(near)
            }
            "slowdown of the slowest" | "slowdown of any" | "slowdown by creation order" => {
                extreme(seen.systems.iter().filter_map(|fs| seen.slowdown(fs, clock)), lowest).map(near)
            }
            _ => None,
        }
    }
}

fn extreme(values: impl Iterator<Item = f64>, lowest: bool) -> Option<f64> {
    values.reduce(if lowest { f64::min } else { f64::max })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragmentation::point::{Point, tests};
    use senesce_core::published::parse;

    #[test]
    fn each_metric_has_its_rule_and_an_unknown_one_no_value_of_ours() {
        // Twice as large for the same time: the aged files take twice as long.
        let (aged, copy) = (tests::read_of_a_gib(1 << 30), tests::read_of_a_gib(1 << 31));
        let seen = tests::seen(vec![aged, Point { aged: false, ..copy }]);
        let text = "metric,condition,value,unit,source,note\nslowdown,zfs hdd,30,times,T,quoted\n\
                    slowdown of any,hdd lowest,3,times,T,\nslowdown of any,hdd highest,15,times,T,\n\
                    slowdown of the moon,hdd,2,times,T,\nslowdown,betrfs hdd,2,times,T,\n";
        let found = findings(&seen, &parse(text).unwrap());
        let is = |place: usize| (found[place].verdict, found[place].note.as_str());
        assert_eq!(is(0), (Verdict::Seen, "quoted; the same when both are 1.5 times or more, or neither is"));
        assert_eq!(is(1), (Verdict::Seen, "the same when within a factor of two"));
        assert_eq!(is(2), (Verdict::NotSeen, "the same when within a factor of two"));
        assert_eq!((is(3), is(4)), ((Verdict::NotTestable, ""), (Verdict::NotTestable, "")));
        assert!(found[3].measured.starts_with("not run here"));
    }
}
