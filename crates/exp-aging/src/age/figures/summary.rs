//! Tables of single values: the result, or the plan.

use super::super::events::{Checkpoint, ExecutionEnd, Rehearsal};
use senesce_aging::Summary;
use senesce_aging::measure::Measures;
use senesce_core::Table;
use serde::Serialize;

pub(crate) fn summary_table(rehearsal: &Rehearsal, executed: &ExecutionEnd) -> Table {
    let mut lines = Lines::new("result", "Result", "");
    lines.measures(&rehearsal.summary, &executed.measures);
    if executed.is_timed() {
        lines.add("execution (s)", executed.execute_seconds, "");
        lines.add("operations per second", executed.ops_per_second, "");
    }
    lines.table
}

pub(crate) fn plan_table(rehearsal: &Rehearsal, reached: Option<Checkpoint>) -> Table {
    let mut lines = Lines::new("plan", "Plan, not measured", "planned ");
    lines.measures(&rehearsal.summary, &rehearsal.measures);
    if let Some(Checkpoint { operation, seconds }) = reached {
        lines.whose = "";
        lines.add("operations done", operation, "by the last checkpoint");
        lines.add("execution (s)", seconds, "up to the last checkpoint");
    }
    lines.table
}

struct Lines {
    table: Table,
    whose: &'static str,
}

impl Lines {
    fn new(id: &str, title: &str, whose: &'static str) -> Self {
        Self { table: Table::new(id, title, &["measure", "value", "meaning"]), whose }
    }

    fn add(&mut self, name: &str, value: impl Serialize, meaning: &str) {
        self.table.row((format!("{}{name}", self.whose), value, meaning));
    }

    fn measures(&mut self, summary: &Summary, measures: &Measures) {
        self.add("operations", measures.operations, "creates and deletes; age is counted in these");
        self.add(
            "bound",
            summary.t_bound.ceil(),
            "minimum number of operations that reaches the ages \
            exactly",
        );
        if summary.virtual_t > summary.t_end {
            let meaning = "operations that the plan represents; ages are relative to these";
            self.add("virtual operations", summary.virtual_t, meaning);
            let meaning = "of the whole plan, compressed as far as certified";
            self.add("times fewer operations", summary.saved_factor(), meaning);
        }
        self.add("commits", measures.commits, &summary.clock.to_string());
        self.add("live files", measures.files_live, "files at the end");
        if let (Some(planned), Some(reached)) = (summary.locality, measures.locality) {
            self.add("temporal locality", reached, &planned.to_string());
        }
        if summary.changes {
            self.changes(measures);
        }
        if summary.parts > 1 {
            let meaning = "separate plans in part-NNNN; the values are totals of all parts";
            self.add("parts", summary.parts, meaning);
        }
        self.add("overwrites", measures.overwrites, "bytes created over the raw size");
        self.fullness(summary.parts, measures);
        self.errors(summary, measures);
    }

    fn changes(&mut self, measures: &Measures) {
        let changes = &measures.changes;
        self.add("appends", changes.appends, "times a file grew");
        self.add("truncations", changes.truncations, "times a file was truncated");
        self.add("overwrites in place", changes.overwrites, "times a part of a file was written again");
        self.add("renames", changes.renames, "times a file was renamed");
        self.add("punches", changes.punches, "times blocks of a file were freed and written again");
    }

    fn fullness(&mut self, parts: u32, measures: &Measures) {
        let fullness = &measures.fullness;
        let meaning = "allocated bytes of files over the raw size";
        self.add("fullness at the end (%)", fullness.end * 100.0, meaning);
        // The parts reach their minimum and maximum at different times.
        let [least, most] = match parts {
            1 => ["since the end of the fill"; 2],
            _ => [
                "since the end of the fill; mean of the minima of the parts, not above the minimum of the whole",
                "since the end of the fill; mean of the maxima of the parts, not below the maximum of the whole",
            ],
        };
        self.add("minimum fullness (%)", fullness.min * 100.0, least);
        self.add("maximum fullness (%)", fullness.max * 100.0, most);
    }

    fn errors(&mut self, summary: &Summary, measures: &Measures) {
        let rmse = &measures.rmse;
        self.add("RMSE of ages (%)", rmse.age * 100.0, "distance from the profile; rounding alone can cause 0.5/K");
        self.add("RMSE of sizes (%)", rmse.size * 100.0, "");
        self.add("RMSE of depths (%)", rmse.depth * 100.0, "");
        let bound = if summary.parts > 1 { "the rounding bound; K: files of one part" } else { "the rounding bound" };
        self.add("0.5/K (%)", summary.rounding_bound() * 100.0, bound);
        let meaning = "probability that a sample of the profile deviates more";
        self.add("chi-square p", measures.chi_square.all.p, meaning);
    }
}
