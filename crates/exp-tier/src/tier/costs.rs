//! Cost of anti-caching: ratios of values of one round, which share the same background load.

use super::interleave::AGAIN;
use super::results::Value;
use senesce_core::{Mark, Series, Table};
use senesce_stats::verdict::FAMILY_ERROR;
use senesce_stats::{
    Decision, Direction, Mean, MedianEstimate, Ratio, Rule, Unit, Verdict, decide_all, median, middle,
};
use serde_json::json;

/// A cost up to this share counts as no cost.
const NO_COST: f64 = 0.05;

pub(crate) struct Cost {
    pub condition: String,
    /// Anticache over bpfs mode, within a round.
    pub ratio: Option<MedianEstimate>,
    pub decision: Decision,
    /// Bpfs mode over itself: the noise of the machine.
    pub again: Option<MedianEstimate>,
    pub again_decision: Decision,
}

pub(crate) struct Costs {
    pub all: Vec<Cost>,
    /// Plural noun for conditions, such as "operations".
    noun: &'static str,
}

impl Costs {
    pub(crate) fn new(conditions: Vec<String>, values: &[Value], noun: &'static str) -> Self {
        let rule = Rule { direction: Direction::LowerIsBetter, margin: NO_COST };
        let judged = |subject: &str| -> (Vec<Option<MedianEstimate>>, Vec<Decision>) {
            let pairs: Vec<_> = conditions.iter().map(|condition| pairs(condition, subject, values)).collect();
            let family: Vec<_> =
                pairs.iter().map(|pairs| (Ratio::paired(pairs, Mean::Geometric, Unit::Round), rule)).collect();
            let ratios =
                pairs.iter().map(|pairs| middle(&pairs.iter().map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>()));
            (ratios.collect(), decide_all(&family, FAMILY_ERROR))
        };
        let ((ratios, decisions), (again, again_decisions)) = (judged("anticache"), judged(AGAIN));
        let sides = ratios.into_iter().zip(decisions).zip(again.into_iter().zip(again_decisions));
        let cost = |(condition, ((ratio, decision), (again, again_decision)))| Cost {
            condition,
            ratio,
            decision,
            again,
            again_decision,
        };
        Self { all: conditions.into_iter().zip(sides).map(cost).collect(), noun }
    }

    pub(crate) fn overall(&self) -> Option<f64> {
        median(&self.all.iter().filter_map(|cost| Some(cost.ratio?.value)).collect::<Vec<_>>())
    }

    /// Returns the median ratio of bpfs mode to itself.
    pub(crate) fn overall_again(&self) -> Option<f64> {
        median(&self.all.iter().filter_map(|cost| Some(cost.again?.value)).collect::<Vec<_>>())
    }

    pub(crate) fn text(&self) -> String {
        let Some(overall) = self.overall() else { return "anticache and bpfs mode were not both measured".into() };
        let measured = self.all.iter().filter(|cost| cost.ratio.is_some()).count();
        let mut text = format!(
            "median ratio of anticache to bpfs mode {overall:.2} over {measured} {}, {} of them worse by more than 5 %",
            self.noun,
            self.worse()
        );
        if let Some(again) = self.overall_again() {
            text += &format!("; bpfs mode against itself {again:.2}, {} worse", self.worse_than_itself());
        }
        text
    }

    /// Returns the number of conditions in which anticache is worse by more than 5 %.
    pub(crate) fn worse(&self) -> usize {
        self.all.iter().filter(|cost| cost.decision.verdict == Verdict::Worse).count()
    }

    pub(crate) fn worse_than_itself(&self) -> usize {
        self.all.iter().filter(|cost| cost.again_decision.verdict == Verdict::Worse).count()
    }

    pub(crate) fn table(&self, condition: &str) -> Table {
        let columns = [
            condition,
            "anticache / bpfs",
            "interval",
            "verdict",
            "bpfs again / bpfs",
            "interval again",
            "verdict again",
        ];
        let mut table = Table::new("ratio", "Ratios within a round, compared together", &columns);
        for cost in &self.all {
            let cells = |ratio: &Option<MedianEstimate>, decision: &Decision| {
                let interval = decision.interval.map(|one| one.ends_text(|end| format!("{end:.2}")));
                [json!(ratio.map(|ratio| ratio.value)), json!(interval), json!(decision.text())]
            };
            let (ours, again) = (cells(&cost.ratio, &cost.decision), cells(&cost.again, &cost.again_decision));
            table.row([vec![json!(cost.condition)], ours.into(), again.into()].concat());
        }
        table
    }

    pub(crate) fn series(&self) -> [Series; 2] {
        let series = |name: &str, pick: fn(&Cost) -> Option<MedianEstimate>| {
            let mut series = Series { name: name.into(), mark: Mark::Measured, ..Series::default() };
            for (index, ratio) in self.all.iter().map(pick).enumerate() {
                let Some(ratio) = ratio else { continue };
                series.points.push((index as f64, ratio.value));
                series.intervals.push(ratio.ends());
            }
            series
        };
        [series("here", |cost| cost.ratio), series("bpfs mode against itself", |cost| cost.again)]
    }
}

fn pairs(condition: &str, subject: &str, values: &[Value]) -> Vec<(f64, f64)> {
    let here: Vec<&Value> = values.iter().filter(|value| value.condition == condition).collect();
    let pair = |value: &&&Value| {
        let reference = here.iter().find(|other| other.subject == "bpfs" && other.round == value.round)?;
        (reference.value > 0.0).then_some((value.value, reference.value))
    };
    here.iter().filter(|value| value.subject == subject).filter_map(|value| pair(&value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(anticache: f64, again: f64, rounds: u64) -> Costs {
        let names: Vec<String> = ["create", "read", "link"].map(String::from).into();
        let values =
            [("anticache", anticache), ("bpfs", 1.0), (AGAIN, again)].into_iter().flat_map(|(name, factor)| {
                let of = move |condition: &String, round: u64| Value {
                    subject: name.into(),
                    condition: condition.clone(),
                    round,
                    // Rounds differ widely; values are compared within a round.
                    value: factor * 10.0 * (1.0 + round as f64),
                };
                names.iter().flat_map(move |condition| (0..rounds).map(move |round| of(condition, round)))
            });
        let values: Vec<Value> = values.collect();
        Costs::new(names, &values, "operations")
    }

    #[test]
    fn ratios_are_compared_within_a_round() {
        assert_eq!((costs(1.2, 1.0, 5).worse(), costs(1.01, 1.0, 5).worse()), (3, 0));
        assert!(costs(1.01, 1.0, 5).all.iter().all(|cost| cost.decision.verdict == Verdict::Equivalent));
        assert_eq!(costs(1.2, 1.1, 5).worse_than_itself(), 3);
        assert_eq!(Costs::new(Vec::new(), &[], "").overall(), None);
    }

    #[test]
    fn few_rounds_have_ratios_and_no_verdict() {
        let costs = costs(1.2, 1.0, 2);
        assert_eq!((costs.worse(), costs.all[0].decision.verdict.word()), (0, "not-testable"));
        assert_eq!(costs.table("operation").rows.len(), 3);
        assert_eq!(costs.series()[0].points, [(0.0, 1.2), (1.0, 1.2), (2.0, 1.2)]);
        assert!(costs.series()[0].intervals[0].0.is_nan());
    }
}
