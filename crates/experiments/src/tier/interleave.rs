//! Measurements under many conditions on file systems that are all mounted and take turns, so that what disturbs the
//! machine disturbs all of them.

use super::results::Value;
use super::shuffle;
use super::subject::{Kind, Setup, Subject};
use senesce_core::{Failure, RunContext, Seed};
use serde_json::json;

/// Bpfs mode measured a second time: what it differs from itself, this machine cannot tell apart.
pub const AGAIN: &str = "bpfs again";

/// What takes turns, under which conditions, how often.
pub struct Turns<'a> {
    /// The file systems.
    pub kinds: &'a [Kind],
    /// How they are made.
    pub setup: &'a Setup,
    /// Names of the conditions.
    pub conditions: &'a [String],
    /// Times that everything is measured, each on fresh file systems.
    pub rounds: u64,
    /// Feeds the orders.
    pub seed: Seed,
}

/// Values of one turn: the kind of their event, and the value.
pub type Measured = Vec<(&'static str, f64)>;

/// What is measured in each turn: a subject by its place, and the name of its values.
pub fn turns(kinds: &[Kind]) -> Vec<(usize, &'static str)> {
    let mut turns: Vec<_> = kinds.iter().enumerate().map(|(index, kind)| (index, kind.name())).collect();
    if kinds.contains(&Kind::Anticache) {
        turns.extend(kinds.iter().position(|kind| *kind == Kind::Bpfs).map(|index| (index, AGAIN)));
    }
    turns
}

impl Turns<'_> {
    /// Calls `measure` with a subject and the place of a condition, and records the values of every completed round;
    /// rounds that an earlier part of this run completed are left out.
    pub fn run(
        &self,
        context: &mut RunContext<'_>,
        measure: impl Fn(&Subject, usize, &RunContext<'_>) -> Result<Measured, Failure>,
    ) -> Result<(), Failure> {
        let earlier = context.directory.earlier_events().iter().filter(|event| event.kind == "round");
        let done: Vec<u64> = earlier.filter_map(|event| serde_json::from_value(event.data.clone()).ok()).collect();
        for round in (0..self.rounds).filter(|round| !done.contains(round)) {
            let subjects =
                self.kinds.iter().map(|kind| Subject::start(*kind, self.setup)).collect::<Result<Vec<_>, _>>()?;
            let name = format!("round {} of {}", round + 1, self.rounds);
            context.progress.phase(&name, self.conditions.len() as u64, "conditions");
            let values = self.round(round, &subjects, context, &measure)?;
            for (event, value) in values {
                context.directory.append(event, &value)?;
            }
            for subject in subjects {
                if let Some(fs) = subject.tier() {
                    let stats = json!({"subject": subject.kind.name(), "round": round, "stats": fs.stats()});
                    context.directory.append("stats", &stats)?;
                }
                subject.stop()?;
            }
            context.directory.append("round", &round)?;
        }
        Ok(())
    }

    /// All conditions; the order of the turns is drawn anew for each.
    fn round(
        &self,
        round: u64,
        subjects: &[Subject],
        context: &RunContext<'_>,
        measure: &impl Fn(&Subject, usize, &RunContext<'_>) -> Result<Measured, Failure>,
    ) -> Result<Vec<(&'static str, Value)>, Failure> {
        let mut values = Vec::new();
        for (index, condition) in self.conditions.iter().enumerate() {
            context.progress.position(index as u64, condition);
            let mut order = turns(self.kinds);
            shuffle(&mut order, self.seed, &format!("tier/order/{round}/{condition}"));
            for (place, name) in order {
                context.check_interrupt()?;
                for (event, value) in measure(&subjects[place], index, context)? {
                    let (subject, condition) = (name.to_string(), condition.clone());
                    values.push((event, Value { subject, condition, round, value }));
                }
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bpfs_mode_takes_a_second_turn_beside_anticache() {
        assert_eq!(turns(&[Kind::Anticache, Kind::Bpfs]), [(0, "anticache"), (1, "bpfs"), (1, AGAIN)]);
        assert_eq!(turns(&[Kind::Bpfs, Kind::Ext4]), [(0, "bpfs"), (1, "ext4")]);
    }
}
