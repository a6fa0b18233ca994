//! The text of an aging by `senesce demo`.

use crate::display::{print_table, terminal_width};
use crate::experiment_text::TEXT_WIDTH;
use crate::text_table::wrap;
use senesce_core::{Analysis, Table};
use std::io::{self, Write};

/// Writes the table that answers what age costs, and how to read it.
pub(super) fn write_answer(out: &mut impl Write, analysis: &Analysis, answer: &Table) -> io::Result<()> {
    let words = analysis.summary.lines().next().unwrap_or_default();
    let width = terminal_width().unwrap_or(TEXT_WIDTH);
    writeln!(out, "{}", wrap(&format!("{}: {}", answer.title, analysis.title), width).join("\n"))?;
    print_table(out, answer)?;
    writeln!(out, "{}", wrap(words, width).join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_aging::{AgingPlan, Limit, PlanSpec, Profile, Truncate};
    use senesce_core::{Bytes, Environment, Record, RunDirectory, Seed};
    use senesce_exp_aging::age::{Age, demo};
    use senesce_runner::{analyse, new_plan};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    /// Maximum number of lines; the last one names the report.
    const MOST_LINES: usize = 15;

    /// Returns the measures of a short plan, with the fullness and overwrites of the demo on a small volume.
    fn measures() -> Value {
        let spec = PlanSpec::new(Profile::builtin("agrawal").unwrap(), Bytes::mib(24), Seed(1));
        let spec = PlanSpec { truncate: Truncate::Drop, limit: Limit::Operations(3000), ..spec };
        let mut planner = Arc::new(AgingPlan::new(&spec).unwrap()).operations();
        planner.skip_to(u64::MAX);
        let mut measures = json!(planner.measures());
        measures["overwrites"] = json!(8.1);
        measures["fullness"] = json!({"target": 0.7, "min": 0.69, "max": 0.74, "end": 0.731});
        measures
    }

    fn layout() -> Value {
        let none = json!({"extents": 0, "bytes": 0});
        let layout = json!({
            "target": "t", "file_system": "ext4", "view": "mounted", "method": "inode-tables", "files": 1728, "extents": 1730,
            "fragmented_files": 2, "static_layout_score": 0.9, "tree_layout_score": 0.8,
            "discontinuities": {"count": 0, "log2_blocks": []}, "free_space": null, "free_space_note": "none",
            "elapsed_seconds": 0.0, "peak_rss_bytes": 0, "blocks": 40,
            "discontinuities_inside_files": {"count": 0, "log2_blocks": []}, "size_classes": [],
            "extents_per_file": [{"extents": 1, "files": 1726}, {"extents": 2, "files": 2}],
            "unwritten": none, "shared": none, "encoded": none, "inline": none, "delayed": none, "extra_links": 0,
            "vanished": 0, "other_file_systems": 0, "directories": 1, "denied": 0,
        });
        let times = json!({"drive": "st500dm002", "in_order": 4.12, "created": 5.45, "whole": 8.5, "aged": 15.9});
        json!({"layout": layout, "problem": "", "read_times": [times]})
    }

    fn copies() -> Value {
        let copy = |name: &str, seconds: [f64; 3], pieces: u64| {
            json!({
                "name": name, "read_seconds": seconds, "fragmented_files": 2, "largest_free": 16_777_216,
                "new_file_pieces": pieces,
            })
        };
        let layouts = [
            copy("ordered copy", [4.123, 1.234, 0.234], 1),
            copy("unaged", [5.456, 1.345, 0.245], 1),
            copy("aged", [56.789, 1.456, 0.345], 1303),
        ];
        let cells = json!({"Cells": {"rows": [], "heads": [], "legend": [], "unit": ""}});
        let map = json!({"id": "m", "title": "", "caption": "", "device": "", "better": "Neither", "kind": cells});
        json!({"drives": ["disk", "sata", "nvme"], "new_file": 8_388_608, "layouts": layouts, "map": map})
    }

    /// Analyses a made-up record of the demo on `target`.
    fn analysed(target: &str, accelerator: &str) -> Analysis {
        let folder = tempfile::tempdir().unwrap();
        let spec = demo::spec(target).unwrap();
        let plan = new_plan::<Age>(&spec, spec.seed).unwrap();
        let facts = [("fs.name", "ext4"), ("vm.accelerator", accelerator)];
        let facts: BTreeMap<String, Value> = facts.map(|(name, value)| (name.to_string(), json!(value))).into();
        let path = folder.path().join("run");
        let mut run = RunDirectory::open(&path, &plan, &Environment(facts)).unwrap();
        let measures = measures();
        let rehearsal = json!({
            "summary": spec.summary().unwrap(), "plan_cpu_seconds": 1.0, "plan_ops_per_cpu_second": 1.0, "measures": measures,
            "namespace_sha256": "",
        });
        let executed = json!({
            "stopped_by": "overwrites", "execute_seconds": 1.0, "ops_per_second": measures["operations"],
            "cpu_seconds": [0.0, 0.0], "peak_rss_bytes": 0, "measures": measures, "namespace_sha256": "",
        });
        for (kind, event) in
            [("rehearsal", rehearsal), ("executed", executed), ("layout", layout()), ("copies", copies())]
        {
            run.append(kind, &event).unwrap();
        }
        run.finish(&json!({})).unwrap();
        drop(run);
        analyse::<Age>(&Record::open(&path).unwrap()).unwrap()
    }

    #[test]
    fn text_of_each_size_fits_in_fifteen_lines() {
        let smallest = demo::target_for(Bytes::mib(256)).unwrap();
        assert!(![demo::TARGET, demo::SMALL].contains(&smallest));
        for (target, accelerator) in
            [(demo::TARGET, "none"), (demo::SMALL, "none"), (smallest, "none"), (demo::SMALL, "uml")]
        {
            let analysis = analysed(target, accelerator);
            let answer = analysis.tables.first().filter(|table| table.id == "answer").unwrap();
            let has_ranges = accelerator != "uml" || target == demo::SMALL;
            assert_eq!(analysis.summary.contains("95 %"), has_ranges, "{target} {accelerator}");
            let mut out = Vec::new();
            write_answer(&mut out, &analysis, answer).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().count() < MOST_LINES, "{target} {accelerator}:\n{text}");
            assert!(text.lines().all(|line| line.chars().count() <= TEXT_WIDTH), "{text}");
        }
    }
}
