//! Tables and figures of a study.

use crate::answer;
use crate::figures;
use crate::matrix::RunId;
use crate::results::{Cell, Results};
use crate::spec::StateKind;
use senesce_core::analysis::*;
use senesce_core::machine::has_no_real_times;
use senesce_core::{Rows, number_of};
use senesce_runner::group_by_reason;
use senesce_runs::decided::{change_text, interval_text};
use senesce_stats::verdict::MARGIN;
use senesce_stats::{drift, mean_of_means, outliers, pearson, spearman};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub fn of(results: &Results) -> Analysis {
    let tables = [
        cells_table(results),
        answer::groups_table(results),
        answer::pairs_table(results),
        answer::changes_table(results),
        correlations(results),
        controls_table(results),
        images_table(results),
        others_table(results),
        failed_table(results),
    ];
    Analysis {
        title: results.spec.name.clone(),
        summary: summary(results),
        figures: figures::of(results),
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
        findings: Vec::new(),
        caveats: caveats(results),
        result: result(results),
    }
}

fn caveats(results: &Results) -> Vec<String> {
    let mut caveats = Vec::new();
    if results.judged.iter().any(Results::is_modelled) {
        caveats.push(
            "modelled: such results are computed from block traces by device models, without flash translation layers \
             and caches; the image's addresses count as the device's"
                .into(),
        );
    }
    for (workload, model) in &results.idle_models {
        caveats.push(format!(
            "{}: the modelled {model} keeps up with the CPU in every run, so its throughput is the measured one; it \
             is compared by drive time per operation",
            results.spec.workload[*workload].name
        ));
    }
    caveats.extend(results.controls.iter().filter(|one| one.decision.verdict.is_difference()).map(|one| {
        let (fs, workload) = (&results.spec.file_system[one.fs].name, &results.spec.workload[one.workload].name);
        let change = one.decision.interval.map_or_else(String::new, |interval| change_text(&interval));
        format!("{fs}, {workload}: a control (the same cell measured twice) differs by {change}; trust no smaller difference")
    }));
    caveats.extend(results.guests.iter().map(|cells| {
        let emulated = if has_no_real_times(&cells.accelerator) {
            ": emulated, so order, limits and layout are valid, but times are not compared"
        } else {
            ""
        };
        format!(
            "{} done in the guest on kernel {} ({}){emulated}",
            number_of(cells.runs, "run"),
            cells.kernel,
            cells.accelerator
        )
    }));
    if results.guests.len() > 1 {
        caveats.push(
            "guests ran one after the other: effects of time cannot be distinguished from effects of their kernels"
                .into(),
        );
    }
    if results.answers.iter().any(|answer| answer.one_image && answer.decision.interval.is_some()) {
        caveats.push(
            "one image of a state: its verdicts hold for that image only, not for another aging; see images".into(),
        );
    }
    let asked = (results.spec.repetitions * results.spec.images) as usize;
    if asked < senesce_stats::arm::LEAST_VALUES {
        caveats.push(format!("{} per cell: too few for any verdict", number_of(asked, "value")));
    }
    if !results.remade.is_empty() {
        let name = |id: &crate::matrix::ImageId| {
            let (fs, state) = (&results.spec.file_system[id.fs].name, &results.spec.state[id.state].name);
            format!("image {} of {fs}, {state}", id.image)
        };
        let names: Vec<String> = results.remade.iter().map(name).collect();
        caveats.push(format!(
            "made again when the study continued, so runs of two images count as runs of one: {}",
            names.join("; ")
        ));
    }
    if !results.failed.is_empty() {
        caveats.push(format!("{} failed; see the table of failed runs", number_of(results.failed.len(), "run")));
        let names = |cell| {
            let (fs, state, workload) = results.spec.names(cell);
            format!("{fs} / {state} / {workload}")
        };
        let lost: Vec<String> = failed_cells(results).into_iter().map(names).collect();
        if !lost.is_empty() {
            caveats.push(format!(
                "without any result, and therefore missing from figures and findings: {}",
                lost.join(", ")
            ));
        }
    }
    let (done, planned) = results.progress;
    if done < planned {
        caveats.push(format!("done: {done} of {}", number_of(planned, "run")));
    }
    caveats
}

fn summary(results: &Results) -> String {
    let count = |word: &str| results.answers.iter().filter(|answer| answer.decision.verdict.word() == word).count();
    if results.answers.is_empty() {
        return answer::sentence(results);
    }
    format!(
        "{} Of {}, corrected together: {} better, {} worse, {} equivalent, {} undecided, {} not testable.",
        answer::sentence(results),
        number_of(results.answers.len(), "comparison"),
        count("better"),
        count("worse"),
        count("equivalent"),
        count("undecided"),
        count("not-testable"),
    )
}

fn cells_table(results: &Results) -> Table {
    let low_high = |cell: &Cell| cell.middle().and_then(|(_, interval)| interval);
    let ratio = |cell: &Cell| results.age_of(cell).and_then(|decision| decision.interval);
    let mut table = Rows::of(results.judged.iter().filter(|cell| cell.middle().is_some()))
        .column("workload", |cell| results.names(cell).2)
        .column("file system", |cell| results.names(cell).0)
        .column("state", |cell| results.names(cell).1)
        .column("metric", |cell| &cell.what.metric)
        .column("unit", |cell| &cell.what.unit)
        .column("images", |cell| cell.groups.len())
        .column("values", |cell| cell.in_order.len())
        .column("mean", |cell| cell.middle().map(|(middle, _)| middle))
        .column("95 % from", |cell| low_high(cell).map(|interval| interval.low))
        .column("to", |cell| low_high(cell).map(|interval| interval.high))
        .column("median", |cell| senesce_stats::median(&cell.in_order))
        .column("variation (%)", variation_percent)
        .column("ratio", |cell| ratio(cell).map(|ratio| ratio.value))
        .column("interval", |cell| ratio(cell).map(|ratio| interval_text(&ratio)))
        .column("verdict", |cell| verdict_text(results, cell))
        .column("flags", flags)
        .table("cells", &format!("Cells against the first state {}", answer::verdicts_text()));
    for cell in failed_cells(results) {
        let (fs, state, workload) = results.spec.names(cell);
        let mut row = vec![Value::Null; table.columns.len()];
        row[..3].clone_from_slice(&[json!(workload), json!(fs), json!(state)]);
        row[table.columns.len() - 2] = json!("failed");
        table.row(row);
    }
    table
}

fn failed_cells(results: &Results) -> BTreeSet<(usize, usize, usize)> {
    let measured = |&(fs, state, workload): &(usize, usize, usize)| {
        let is_it = |cell: &&Cell| (cell.id.fs, cell.id.state, cell.id.workload) == (fs, state, workload);
        results.judged.iter().any(|cell| is_it(&cell))
    };
    let failed = results.failed.iter().map(|failure| (failure.id.on.fs, failure.id.on.state, failure.id.workload));
    failed.filter(|cell| !measured(cell)).collect()
}

fn verdict_text(results: &Results, cell: &Cell) -> String {
    let is_it = |answer: &&crate::verdicts::Answer| {
        !answer.question.is_pair() && answer.question.sample == cell.id && answer.what.metric == cell.what.metric
    };
    results.answers.iter().find(is_it).map_or_else(|| "reference".into(), |answer| answer.decision.short_text())
}

/// Outliers and drift are reported and stay in the data.
fn flags(cell: &Cell) -> String {
    let mut words = Vec::new();
    let far = outliers(&cell.in_order).len();
    if far > 0 {
        words.push(format!("{far} outlying"));
    }
    if drift(&cell.in_order, MARGIN).is_some() {
        words.push("drifts".into());
    }
    words.join(", ")
}

/// Pairs the layout score of an image with its cost: the mean of a cell on it over the mean of the reference.
pub(crate) fn layout_pairs(results: &Results, cells: &[&Cell]) -> Vec<(usize, f64, f64)> {
    let reference = |fs: usize| {
        let of = cells.iter().filter(|cell| cell.id.fs == fs).min_by_key(|cell| cell.id.state)?;
        mean_of_means(&of.groups)
    };
    let mut pairs = Vec::new();
    for cell in cells {
        let Some(base) = reference(cell.id.fs) else { continue };
        for (id, values) in cell.images.iter().zip(&cell.groups) {
            let score = results.image_of(cell, *id).and_then(|facts| facts.tree_layout_score);
            if let (Some(score), Some(mean)) = (score, senesce_stats::mean(values)) {
                pairs.push((cell.id.fs, score, mean / base));
            }
        }
    }
    pairs
}

/// Minimum number of images of a correlation: with fewer, interval and p may contradict each other.
const LEAST_CORRELATED: usize = 6;

fn correlations(results: &Results) -> Table {
    let columns = ["workload", "metric", "images", "Pearson", "95 %", "p", "Spearman", "95 % ", "p "];
    let mut table = Table::new(
        "correlations",
        "Tree layout score of an image against its ratio to the first state (6 or more images)",
        &columns,
    );
    for cells in results.by_metric() {
        let pairs = layout_pairs(results, &cells);
        let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().map(|(_, score, ratio)| (*score, *ratio)).unzip();
        if pairs.len() < LEAST_CORRELATED {
            continue;
        }
        let (Some(linear), Some(ranked)) = (pearson(&x, &y), spearman(&x, &y)) else { continue };
        let interval = |one: &senesce_stats::Correlation| format!("{:.2} to {:.2}", one.low, one.high);
        table.row((
            &results.spec.workload[cells[0].id.workload].name,
            &cells[0].what.metric,
            &linear.count,
            &linear.value,
            interval(&linear),
            &linear.p,
            &ranked.value,
            interval(&ranked),
            &ranked.p,
        ));
    }
    table
}

fn controls_table(results: &Results) -> Table {
    let title = format!("Controls: the same cell measured twice, interleaved {}", answer::verdicts_text());
    Rows::of(&results.controls)
        .column("workload", |one| &results.spec.workload[one.workload].name)
        .column("file system", |one| &results.spec.file_system[one.fs].name)
        .column("metric", |one| &one.what.metric)
        .column("second over first", |one| one.decision.interval.map(|interval| interval.value))
        .column("interval", |one| one.decision.interval.map(|interval| interval_text(&interval)))
        .column("verdict", |one| one.decision.short_text())
        .table("controls", &title)
}

fn images_table(results: &Results) -> Table {
    Rows::of(&results.images)
        .column("file system", |facts| &results.spec.file_system[facts.id.fs].name)
        .column("state", |facts| &results.spec.state[facts.id.state].name)
        .column("image", |facts| &facts.id.image)
        .column("guest's kernel", |facts| &facts.guest)
        .column("overwrites", |facts| {
            (results.spec.state[facts.id.state].kind != StateKind::Command).then_some(facts.overwrites)
        })
        .column("files", |facts| &facts.files)
        .column("extents per file (empty ones count)", |facts| &facts.extents_per_file)
        .column("static layout score", |facts| &facts.static_layout_score)
        .column("tree layout score", |facts| &facts.tree_layout_score)
        .column("free extents", |facts| facts.free_space.as_ref().map(|free| free.extents))
        .column("mean free extent (bytes)", |facts| facts.free_space.as_ref().map(|free| free.avg_bytes))
        .column("made in (s)", |facts| &facts.seconds)
        .column("from the store", |facts| &facts.from_store)
        .table("images", "Images")
}

fn others_table(results: &Results) -> Table {
    Rows::of(&results.others)
        .column("workload", |cell| results.names(cell).2)
        .column("file system", |cell| results.names(cell).0)
        .column("state", |cell| results.names(cell).1)
        .column("metric", |cell| &cell.what.metric)
        .column("unit", |cell| &cell.what.unit)
        .column("mean", |cell| senesce_stats::mean(&cell.in_order))
        .column("median", |cell| senesce_stats::median(&cell.in_order))
        .column("variation (%)", variation_percent)
        .table("others", "Further metrics, not compared in this study")
}

fn variation_percent(cell: &Cell) -> Option<f64> {
    senesce_stats::coefficient_of_variation(&cell.in_order).map(|share| share * 100.0)
}

fn failed_table(results: &Results) -> Table {
    let title = "Failed runs, by reason (those that differ only in numbers are one)";
    let mut table = Table::new("failed", title, &["runs", "reason", "cells"]);
    let mut groups = group_by_reason(results.failed.iter().map(|failure| (failure.reason.as_str(), failure.id)));
    groups.sort_by_key(|(_, runs)| std::cmp::Reverse(runs.len()));
    for (reason, runs) in groups {
        table.row((runs.len(), reason.replace('\n', "; "), cells_text(results, &runs)));
    }
    table
}

/// Names the cells of runs, and if they are several, the number of runs of each.
fn cells_text(results: &Results, runs: &[RunId]) -> String {
    let mut counts: BTreeMap<(usize, usize, usize), usize> = BTreeMap::new();
    runs.iter().for_each(|run| *counts.entry((run.on.fs, run.on.state, run.workload)).or_default() += 1);
    let cell = |(cell, count): (&(usize, usize, usize), &usize)| {
        let (fs, state, workload) = results.spec.names(*cell);
        let count = if counts.len() > 1 { format!(" ({count})") } else { String::new() };
        format!("{fs} / {state} / {workload}{count}")
    };
    counts.iter().map(cell).collect::<Vec<_>>().join(", ")
}

fn result(results: &Results) -> Value {
    let cell = |cell: &Cell| {
        let (fs, state, workload) = results.names(cell);
        let middle = cell.middle();
        let interval = middle.and_then(|(_, interval)| interval);
        json!({
            "file_system": fs, "state": state, "workload": workload, "metric": cell.what.metric, "unit": cell.what.unit,
            "values": cell.groups, "mean": middle.map(|(value, _)| value),
            "low": interval.map(|interval| interval.low), "high": interval.map(|interval| interval.high),
            "emulated": cell.emulated,
        })
    };
    let control = |one: &crate::controls::Control| {
        let (fs, workload) = (&results.spec.file_system[one.fs].name, &results.spec.workload[one.workload].name);
        let mut row = senesce_runs::decided::fields(&one.decision);
        row.extend([("workload".into(), json!(workload)), ("file_system".into(), json!(fs))]);
        row.insert("metric".into(), json!(one.what.metric));
        Value::Object(row)
    };
    let mut all = json!({
        "study": results.spec.name,
        "runs_done": results.progress.0 - results.failed.len(),
        "runs_planned": results.progress.1,
        "runs_failed": results.failed.len(),
        "interrupted": results.interrupted,
        "overhead_seconds": {
            "median": senesce_stats::median(&results.overhead_seconds),
            "largest": results.overhead_seconds.iter().copied().fold(0.0, f64::max),
        },
        "estimated_seconds": results.times.map(|(estimated, _)| estimated),
        "took_seconds": results.times.map(|(_, took)| took),
        "controls": results.controls.iter().map(control).collect::<Vec<_>>(),
        "cells": results.judged.iter().map(cell).collect::<Vec<_>>(),
        "images": results.images,
    });
    if let Some(all) = all.as_object_mut() {
        all.extend(answer::json(results));
    }
    all
}
