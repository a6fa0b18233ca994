//! What anti-caching costs: ratios of values of one round, which the machine disturbed alike.

use super::interleave::AGAIN;
use super::results::Value;
use senesce_core::{Mark, Seed, Series, Table, Verdict};
use senesce_stats::bootstrap::{Estimate, bootstrap};
use senesce_stats::describe::median;
use serde_json::json;

/// A ratio up to this counts as no cost.
const NO_COST: f64 = 1.05;

/// Ratios of anticache to bpfs mode, and of bpfs mode to itself.
pub struct Costs {
    /// What was measured, in order.
    pub conditions: Vec<String>,
    /// By condition: anticache over bpfs mode.
    pub ratios: Vec<Option<Estimate>>,
    /// By condition: bpfs mode over itself.
    pub again: Vec<Option<Estimate>>,
    /// Median of `ratios` with its interval over the conditions.
    pub overall: Option<Estimate>,
    /// The same of `again`.
    pub noise: Option<Estimate>,
    /// What a condition is, in plural: "operations".
    noun: &'static str,
}

impl Costs {
    /// Compares the values of `conditions`.
    pub fn new(conditions: Vec<String>, values: &[Value], seed: Seed, noun: &'static str) -> Self {
        let paired = |subject| -> Vec<_> {
            conditions.iter().map(|condition| paired(condition, subject, values, seed)).collect()
        };
        let (ratios, again) = (paired("anticache"), paired(AGAIN));
        let middle = |list: &[Option<Estimate>]| {
            let values: Vec<f64> = list.iter().flatten().map(|estimate| estimate.value).collect();
            bootstrap(&values, median, &mut seed.stream("tier/overall"))
        };
        Self { overall: middle(&ratios), noise: middle(&again), conditions, ratios, again, noun }
    }

    /// The ratios in words.
    pub fn words(&self) -> String {
        let Some(overall) = self.overall else { return "anticache and bpfs mode were not both measured".into() };
        let mut words = format!(
            "median ratio of anticache to bpfs mode {:.2} ({:.2} to {:.2}) over {} {}, {} of them slower by more than 5 %",
            overall.value,
            overall.low,
            overall.high,
            self.ratios.iter().flatten().count(),
            self.noun,
            self.slower()
        );
        if let Some(noise) = self.noise {
            words += &format!("; bpfs mode against itself {:.2}, {} slower", noise.value, self.slower_than_itself());
        }
        words
    }

    /// Conditions that are slower by more than 5 %, beyond their intervals and beyond what bpfs mode differs from itself.
    pub fn slower(&self) -> usize {
        let beyond = |ratio: &Estimate, again: &Option<Estimate>| again.is_none_or(|again| ratio.value > again.value);
        let pairs = self.ratios.iter().zip(&self.again);
        pairs.filter(|(ratio, again)| ratio.is_some_and(|ratio| ratio.low > NO_COST && beyond(&ratio, again))).count()
    }

    /// The same of bpfs mode against itself: what the machine alone does.
    pub fn slower_than_itself(&self) -> usize {
        self.again.iter().flatten().filter(|estimate| estimate.low > NO_COST).count()
    }

    /// Whether it costs nothing: not in the middle, and not in more conditions than bpfs mode is slower than itself.
    /// Invalid where the machine cannot tell.
    pub fn free(&self) -> Verdict {
        match self.overall {
            None => Verdict::Invalid,
            Some(overall) if overall.low > NO_COST => Verdict::NotSeen,
            Some(_) if self.slower() > self.slower_than_itself() => Verdict::NotSeen,
            Some(overall) if overall.high <= NO_COST => Verdict::Seen,
            Some(_) => Verdict::Invalid,
        }
    }

    /// Whether it costs something in the middle, beyond the interval.
    pub fn dear(&self) -> bool {
        self.overall.is_some_and(|overall| overall.low > NO_COST)
    }

    /// A row per condition.
    pub fn table(&self, condition: &str) -> Table {
        let columns = [condition, "anticache / bpfs", "95 % interval", "bpfs again / bpfs", "95 % interval again"];
        let mut table = Table {
            id: "ratio".into(),
            title: "Ratios within a round".into(),
            columns: columns.map(String::from).into(),
            rows: Vec::new(),
        };
        for ((name, ratio), again) in self.conditions.iter().zip(&self.ratios).zip(&self.again) {
            let cells = |estimate: &Option<Estimate>| {
                let interval = estimate.map(|estimate| format!("{:.2} to {:.2}", estimate.low, estimate.high));
                [json!(estimate.map(|estimate| estimate.value)), json!(interval)]
            };
            table.row([vec![json!(name)], cells(ratio).into(), cells(again).into()].concat());
        }
        table
    }

    /// The ratios and the noise over the places of the conditions.
    pub fn series(&self) -> [Series; 2] {
        let series = |name: &str, ratios: &[Option<Estimate>]| {
            let mut series = Series { name: name.into(), mark: Mark::Measured, ..Series::default() };
            for (index, estimate) in ratios.iter().enumerate() {
                let Some(estimate) = estimate else { continue };
                series.points.push((index as f64, estimate.value));
                series.intervals.push((estimate.low, estimate.high));
            }
            series
        };
        [series("here", &self.ratios), series("bpfs mode against itself", &self.again)]
    }
}

/// The median over the rounds of the ratio of `subject` to bpfs mode within a round.
fn paired(condition: &str, subject: &str, values: &[Value], seed: Seed) -> Option<Estimate> {
    let here: Vec<&Value> = values.iter().filter(|value| value.condition == condition).collect();
    let ratio = |value: &Value| {
        let reference = here.iter().find(|other| other.subject == "bpfs" && other.round == value.round)?;
        (reference.value > 0.0).then(|| value.value / reference.value)
    };
    let ratios: Vec<f64> =
        here.iter().filter(|value| value.subject == subject).filter_map(|value| ratio(value)).collect();
    bootstrap(&ratios, median, &mut seed.stream(&format!("tier/ratio/{condition}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(anticache: f64, again: f64) -> Costs {
        let names: Vec<String> = ["create", "read", "link"].map(String::from).into();
        let values =
            [("anticache", anticache), ("bpfs", 1.0), (AGAIN, again)].into_iter().flat_map(|(name, factor)| {
                let of = move |condition: &String, round: u64| Value {
                    subject: name.into(),
                    condition: condition.clone(),
                    round,
                    // Rounds differ widely; what is compared is within a round.
                    value: factor * 10.0 * (1.0 + round as f64),
                };
                names.iter().flat_map(move |condition| (0..5).map(move |round| of(condition, round)))
            });
        let values: Vec<Value> = values.collect();
        Costs::new(names, &values, Seed(1), "operations")
    }

    #[test]
    fn the_verdict_compares_within_a_round() {
        assert_eq!(costs(1.01, 1.0).free(), Verdict::Seen);
        assert_eq!(costs(1.2, 1.0).free(), Verdict::NotSeen);
        assert!(costs(1.2, 1.0).dear() && !costs(1.01, 1.0).dear());
        assert_eq!(Costs::new(Vec::new(), &[], Seed(1), "").free(), Verdict::Invalid);
    }

    #[test]
    fn conditions_beyond_what_the_machine_does_alone_are_counted() {
        let costs = costs(1.2, 1.1);
        assert_eq!((costs.slower(), costs.slower_than_itself()), (3, 3));
        assert_eq!(costs.table("operation").rows.len(), 3);
        assert_eq!(costs.series()[0].points, [(0.0, 1.2), (1.0, 1.2), (2.0, 1.2)]);
    }
}
