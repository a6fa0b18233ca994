//! What a scoreboard keeps of the run that represents an experiment, in addition to its claims.

use super::RunFacts;
use senesce_core::Analysis;
use serde::{Deserialize, Serialize};

/// Maximum number of rows of a kept table; longer ones are data rather than results.
const MOST_ROWS: usize = 60;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResult {
    pub experiment: String,
    pub run: RunFacts,
    /// Without claims and machine-readable result; with the leading figures and short tables.
    pub analysis: Analysis,
}

impl ExperimentResult {
    pub(super) fn new(experiment: &str, run: RunFacts, analysis: Analysis) -> Self {
        let leading = analysis.leading_figures().into_iter().filter(|figure| !figure.series().is_empty());
        let figures = leading.cloned().collect();
        let tables = analysis.tables.into_iter().filter(|table| (1..=MOST_ROWS).contains(&table.rows.len())).collect();
        let Analysis { title, summary, caveats, .. } = analysis;
        let analysis = Analysis { title, summary, caveats, figures, tables, ..Analysis::default() };
        Self { experiment: experiment.into(), run, analysis }
    }
}

/// Adds a result, unless there is one at a larger scale, or a later one at the same scale.
pub(super) fn keep(results: &mut Vec<ExperimentResult>, new: ExperimentResult) {
    let order = |one: &ExperimentResult| (one.run.scale, one.run.date.clone());
    match results.iter_mut().find(|known| known.experiment == new.experiment) {
        Some(known) if order(known) <= order(&new) => *known = new,
        Some(_) => {}
        None => results.push(new),
    }
}

/// Removes results of experiments that this version does not have, because their names become file names, and returns the reasons.
pub(super) fn discard_unknown(results: &mut Vec<ExperimentResult>, experiments: &[&str]) -> Vec<String> {
    let (known, unknown) = results.drain(..).partition(|result| experiments.contains(&result.experiment.as_str()));
    *results = known;
    unknown.into_iter().map(|result| format!("{:?}: this version has no such experiment", result.experiment)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::analysis::{Figure, FigureKind};
    use senesce_core::{Better, Level, Table};
    use serde_json::json;

    fn result(scale: Level, date: &str) -> ExperimentResult {
        let run = RunFacts { scale: Some(scale), date: Some(date.into()), ..RunFacts::default() };
        ExperimentResult { experiment: "e".into(), run, analysis: Analysis::default() }
    }

    #[test]
    fn latest_result_at_the_largest_scale_is_kept() {
        let mut results = Vec::new();
        for (scale, date) in
            [(Level::Quick, "2026-02"), (Level::Smoke, "2026-04"), (Level::Quick, "2026-03"), (Level::Quick, "2026-01")]
        {
            keep(&mut results, result(scale, date));
        }
        assert_eq!(results, [result(Level::Quick, "2026-03")]);
    }

    #[test]
    fn archived_names_of_unknown_experiments_are_discarded() {
        let named = |name: &str| ExperimentResult { experiment: name.into(), ..result(Level::Quick, "2026-01") };
        let mut results = vec![named("../../etc/cron.d/a"), named("e"), named("/etc/passwd")];
        assert_eq!(discard_unknown(&mut results, &["e", "f"]).len(), 2);
        assert_eq!(results, [named("e")]);
    }

    #[test]
    fn long_tables_and_maps_are_left_out() {
        let table = |rows: usize| {
            let mut table = Table::new(&rows.to_string(), "", &["n"]);
            (0..rows).for_each(|row| table.row([row]));
            table
        };
        let cells = FigureKind::Cells { rows: vec![], heads: vec![], legend: vec![], unit: String::new() };
        let figure = |kind| Figure {
            id: "f".into(),
            title: String::new(),
            caption: String::new(),
            device: String::new(),
            better: Better::Neither,
            kind,
        };
        let analysis = Analysis {
            tables: vec![table(0), table(60), table(61)],
            figures: vec![figure(cells)],
            result: json!({ "a": 1 }),
            ..Analysis::default()
        };
        let kept = ExperimentResult::new("e", RunFacts::default(), analysis).analysis;
        assert_eq!(kept, Analysis { tables: vec![table(60)], ..Analysis::default() });
    }
}
