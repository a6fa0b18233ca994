//! Tables and figures of a study.

use super::figures;
use super::order::{NamedFlip, flips, flips_table, ranks_table};
use super::results::{Cell, Results};
use senesce_core::Seed;
use senesce_core::analysis::*;
use senesce_stats::{Outcome, bootstrap, drift, hierarchical_mean, outliers, pearson, spearman};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The analysis of what was read, for experiments that add their own.
pub fn of(results: &Results) -> Analysis {
    let flips = flips(results);
    let mut tables = vec![cells_table(results), ranks_table(results), flips_table(results, &flips)];
    tables.extend([
        correlations(results),
        noise_table(results),
        images_table(results),
        others_table(results),
        failed_table(results),
    ]);
    Analysis {
        title: results.spec.name.clone(),
        summary: summary(results, &flips),
        figures: figures::of(results),
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
        findings: findings(results, &flips),
        caveats: caveats(results),
        result: result(results, &flips),
    }
}

fn caveats(results: &Results) -> Vec<String> {
    let mut caveats = Vec::new();
    if results.judged.iter().any(Results::is_modelled) {
        caveats.push(
            "modelled: results named so are computed from block traces by models of devices, whose flash translation layers \
             and caches are not modelled; the image's addresses are taken as the device's"
                .into(),
        );
    }
    for (workload, model) in &results.idle_models {
        caveats.push(format!(
            "{}: the modelled {model} keeps up with the processor in every run, so throughput on it is the measured one; it is \
             judged by the time that the drive works for an operation",
            results.spec.workload[*workload].name
        ));
    }
    if !results.spec.noise {
        caveats.push("measured without a noise floor: the study switched it off".into());
    }
    caveats.extend(results.lab.iter().map(|cells| {
        let emulated = if cells.accelerator == "tcg" {
            ": emulated (TCG), so order, limits and layout hold and times are the emulator's"
        } else {
            ""
        };
        format!("{} runs were done in the lab on kernel {} ({}){emulated}", cells.runs, cells.kernel, cells.accelerator)
    }));
    if results.spec.repetitions < 2 {
        caveats.push("measured without repetition: nothing can be judged".into());
    }
    if !results.failed.is_empty() {
        caveats.push(format!("{} runs failed; the table of failed runs says why", results.failed.len()));
        let names = |cell| {
            let (fs, state, workload) = results.spec.names(cell);
            format!("{fs} / {state} / {workload}")
        };
        let lost: Vec<String> = failed_cells(results).into_iter().map(names).collect();
        if !lost.is_empty() {
            caveats.push(format!("without any result, and so in no figure and no finding: {}", lost.join(", ")));
        }
    }
    let (done, planned) = results.progress;
    if done < planned {
        caveats.push(format!("{done} of {planned} runs are done"));
    }
    caveats
}

fn summary(results: &Results, flips: &[NamedFlip]) -> String {
    let counted = |word: &str| results.judged.iter().filter(|cell| outcome(cell).as_deref() == Some(word)).count();
    let invalid =
        results.judged.iter().filter(|cell| outcome(cell).is_some_and(|word| word.starts_with("invalid"))).count();
    let sure = flips.iter().filter(|flip| flip.observed && flip.probability >= 0.95).count();
    let floor = results
        .judged
        .iter()
        .filter(|_| results.spec.noise)
        .map(|cell| results.noise_of(cell))
        .fold(f64::NAN, f64::max);
    let floor =
        if floor.is_nan() { String::new() } else { format!(" The noise floor reaches {:.1} %.", floor * 100.0) };
    format!(
        "Against '{}': {} slower, {} faster, {} without a difference, {invalid} invalid. {sure} changes of rank are sure \
         (95 %).{floor}",
        results.spec.state[0].name,
        counted("slower"),
        counted("faster"),
        counted("no difference"),
    )
}

pub(super) fn outcome(cell: &Cell) -> Option<String> {
    Some(cell.judgement.as_ref()?.outcome.words())
}

fn cells_table(results: &Results) -> Table {
    let columns = [
        "workload",
        "file system",
        "state",
        "metric",
        "unit",
        "images",
        "values",
        "mean",
        "95 % from",
        "to",
        "median",
        "variation (%)",
        "ratio",
        "ratio 95 %",
        "p",
        "verdict",
        "flags",
    ];
    let mut table =
        Table::new("cells", "Cells: every file system, state and workload against the first state", &columns);
    for cell in &results.judged {
        let (fs, state, workload) = results.names(cell);
        let mut rng = Seed(0).stream(&format!("study/cell/{workload}/{fs}/{state}/{}", cell.what.metric));
        let Some(mean) = hierarchical_mean(&cell.groups, &mut rng) else { continue };
        let ratio = cell.judgement.as_ref().and_then(|judgement| judgement.ratio);
        let variation = senesce_stats::coefficient_of_variation(&cell.in_order);
        table.row(vec![
            json!(workload),
            json!(fs),
            json!(state),
            json!(cell.what.metric),
            json!(cell.what.unit),
            json!(cell.groups.len()),
            json!(cell.in_order.len()),
            json!(mean.value),
            json!(mean.low),
            json!(mean.high),
            json!(senesce_stats::median(&cell.in_order)),
            json!(variation.map(|share| share * 100.0)),
            json!(ratio.map(|ratio| ratio.value)),
            ratio.map_or(Value::Null, |ratio| json!(format!("{:.3} to {:.3}", ratio.low, ratio.high))),
            json!(cell.judgement.as_ref().and_then(|judgement| judgement.p)),
            json!(outcome(cell).unwrap_or_else(|| "reference".into())),
            json!(flags(results, cell)),
        ]);
    }
    for cell in failed_cells(results) {
        let (fs, state, workload) = results.spec.names(cell);
        let mut row = vec![Value::Null; columns.len()];
        row[..3].clone_from_slice(&[json!(workload), json!(fs), json!(state)]);
        row[columns.len() - 2] = json!("failed");
        table.row(row);
    }
    table
}

/// Cells of which no run came to an end.
fn failed_cells(results: &Results) -> BTreeSet<(usize, usize, usize)> {
    let measured = |&(fs, state, workload): &(usize, usize, usize)| {
        results.judged.iter().any(|cell| (cell.fs, cell.state, cell.workload) == (fs, state, workload))
    };
    let failed = results.failed.iter().map(|failure| (failure.id.on.fs, failure.id.on.state, failure.id.workload));
    failed.filter(|cell| !measured(cell)).collect()
}

/// Outliers and drift are said and stay in.
fn flags(results: &Results, cell: &Cell) -> String {
    let mut words = Vec::new();
    let far = outliers(&cell.in_order).len();
    if far > 0 {
        words.push(format!("{far} outlying"));
    }
    if drift(&cell.in_order, results.noise_of(cell)).is_some() {
        words.push("drifts".into());
    }
    words.join(", ")
}

/// Layout score of an image against what the image costs: the mean of a cell on it over the mean of the reference.
pub(super) fn layout_pairs(results: &Results, cells: &[&Cell]) -> Vec<(usize, f64, f64)> {
    let reference = |fs: usize| {
        let of = cells.iter().filter(|cell| cell.fs == fs).min_by_key(|cell| cell.state)?;
        bootstrap::mean_of_means(&of.groups)
    };
    let mut pairs = Vec::new();
    for cell in cells {
        let Some(base) = reference(cell.fs) else { continue };
        for (id, values) in cell.images.iter().zip(&cell.groups) {
            let score = results.images.get(id).and_then(|facts| facts.tree_layout_score);
            if let (Some(score), Some(mean)) = (score, senesce_stats::mean(values)) {
                pairs.push((cell.fs, score, mean / base));
            }
        }
    }
    pairs
}

fn correlations(results: &Results) -> Table {
    let columns = ["workload", "metric", "images", "Pearson", "95 %", "p", "Spearman", "95 % ", "p "];
    let mut table =
        Table::new("correlations", "Tree layout score of an image against its ratio to the first state", &columns);
    for cells in results.by_metric() {
        let pairs = layout_pairs(results, &cells);
        let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().map(|(_, score, ratio)| (*score, *ratio)).unzip();
        let (Some(linear), Some(ranked)) = (pearson(&x, &y), spearman(&x, &y)) else { continue };
        let interval = |one: &senesce_stats::Correlation| format!("{:.2} to {:.2}", one.low, one.high);
        table.row(vec![
            json!(results.spec.workload[cells[0].workload].name),
            json!(cells[0].what.metric),
            json!(linear.count),
            json!(linear.value),
            json!(interval(&linear)),
            json!(linear.p),
            json!(ranked.value),
            json!(interval(&ranked)),
            json!(ranked.p),
        ]);
    }
    table
}

fn noise_table(results: &Results) -> Table {
    let title = "Noise floor: how far two measurements of the same, in the first state, lie apart";
    let mut table = Table::new("noise", title, &["workload", "file system", "metric", "noise floor (%)"]);
    for ((workload, fs, metric), floor) in &results.noise {
        let (workload, fs) = (&results.spec.workload[*workload].name, &results.spec.file_system[*fs].name);
        table.row(vec![json!(workload), json!(fs), json!(metric), json!(floor * 100.0)]);
    }
    table
}

fn images_table(results: &Results) -> Table {
    let columns = [
        "file system",
        "state",
        "image",
        "overwrites",
        "files",
        "extents per file",
        "static layout score",
        "tree layout score",
        "free extents",
        "mean free extent (bytes)",
        "made in (s)",
        "from the store",
    ];
    let mut table = Table::new("images", "Images", &columns);
    for facts in results.images.values() {
        table.row(vec![
            json!(results.spec.file_system[facts.id.fs].name),
            json!(results.spec.state[facts.id.state].name),
            json!(facts.id.image),
            json!(facts.overwrites),
            json!(facts.files),
            json!(facts.extents_per_file),
            json!(facts.static_layout_score),
            json!(facts.tree_layout_score),
            json!(facts.free_space.as_ref().map(|free| free.extents)),
            json!(facts.free_space.as_ref().map(|free| free.avg_bytes)),
            json!(facts.seconds),
            json!(facts.from_store),
        ]);
    }
    table
}

fn others_table(results: &Results) -> Table {
    let columns = ["workload", "file system", "state", "metric", "unit", "mean", "median", "variation (%)"];
    let mut table = Table::new("others", "Further metrics, not judged", &columns);
    for cell in &results.others {
        let (fs, state, workload) = results.names(cell);
        table.row(vec![
            json!(workload),
            json!(fs),
            json!(state),
            json!(cell.what.metric),
            json!(cell.what.unit),
            json!(senesce_stats::mean(&cell.in_order)),
            json!(senesce_stats::median(&cell.in_order)),
            json!(senesce_stats::coefficient_of_variation(&cell.in_order).map(|share| share * 100.0)),
        ]);
    }
    table
}

/// Failed runs, those with the same reason together.
fn failed_table(results: &Results) -> Table {
    let mut table = Table::new("failed", "Failed runs", &["file system", "state", "workload", "runs", "reason"]);
    let mut counts: BTreeMap<(usize, usize, usize, &str), u64> = BTreeMap::new();
    for failure in &results.failed {
        let on = failure.id.on;
        *counts.entry((on.fs, on.state, failure.id.workload, &failure.reason)).or_default() += 1;
    }
    for ((fs, state, workload, reason), count) in counts {
        table.row(vec![
            json!(results.spec.file_system[fs].name),
            json!(results.spec.state[state].name),
            json!(results.spec.workload[workload].name),
            json!(count),
            json!(reason),
        ]);
    }
    table
}

fn findings(results: &Results, flips: &[NamedFlip]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = results.judged.iter().filter_map(|cell| finding(results, cell)).collect();
    findings.extend(flips.iter().filter(|flip| flip.observed).map(|flip| Finding {
        claim: format!(
            "{} {}: '{}' changes the order of {} and {}.",
            flip.workload, flip.metric, flip.state, flip.first, flip.second
        ),
        published: String::new(),
        measured: format!("the order flips, probability {:.2}", flip.probability),
        verdict: if flip.probability >= 0.95 { Verdict::Seen } else { Verdict::NoDifference },
        note: if flip.probability >= 0.95 { String::new() } else { "not sure enough (95 %)".into() },
        ..Finding::default()
    }));
    findings
}

fn finding(results: &Results, cell: &Cell) -> Option<Finding> {
    let judgement = cell.judgement.as_ref()?;
    let (fs, state, workload) = results.names(cell);
    let change = judgement.ratio.map_or_else(
        || "–".into(),
        |ratio| {
            let percent = |ratio: f64| (ratio - 1.0) * 100.0;
            format!("{:+.1} % ({:+.1} to {:+.1})", percent(ratio.value), percent(ratio.low), percent(ratio.high))
        },
    );
    let (verdict, note) = match &judgement.outcome {
        Outcome::Faster => (Verdict::Faster, String::new()),
        Outcome::Slower => (Verdict::Slower, String::new()),
        Outcome::NoDifference => (Verdict::NoDifference, format!("noise floor {:.1} %", judgement.noise_floor * 100.0)),
        Outcome::Invalid(reason) => (Verdict::Invalid, reason.clone()),
    };
    Some(Finding {
        claim: format!(
            "{fs}, {workload}: {} in state '{state}' against '{}'",
            cell.what.metric, results.spec.state[0].name
        ),
        published: String::new(),
        measured: change,
        verdict,
        note,
        ..Finding::default()
    })
}

fn result(results: &Results, flips: &[NamedFlip]) -> Value {
    let cell = |cell: &Cell| {
        let (fs, state, workload) = results.names(cell);
        json!({
            "file_system": fs, "state": state, "workload": workload, "metric": cell.what.metric, "unit": cell.what.unit,
            "values": cell.groups, "mean": bootstrap::mean_of_means(&cell.groups),
            "judgement": cell.judgement, "verdict": outcome(cell),
        })
    };
    let flip = |flip: &NamedFlip| {
        json!({
            "workload": flip.workload, "metric": flip.metric, "pair": [flip.first, flip.second], "state": flip.state,
            "observed": flip.observed, "probability": flip.probability,
        })
    };
    let floor = |((workload, fs, metric), floor): (&(usize, usize, String), &f64)| {
        let (workload, fs) = (&results.spec.workload[*workload].name, &results.spec.file_system[*fs].name);
        json!({"workload": workload, "file_system": fs, "metric": metric, "fraction": floor})
    };
    json!({
        "study": results.spec.name,
        "runs_done": results.progress.0,
        "runs_planned": results.progress.1,
        "runs_failed": results.failed.len(),
        "overhead_seconds": {
            "median": senesce_stats::median(&results.overhead_seconds),
            "largest": results.overhead_seconds.iter().copied().fold(0.0, f64::max),
        },
        "noise_floor": results.noise.iter().map(floor).collect::<Vec<_>>(),
        "cells": results.judged.iter().map(cell).collect::<Vec<_>>(),
        "flips": flips.iter().map(flip).collect::<Vec<_>>(),
        "images": results.images.values().collect::<Vec<_>>(),
    })
}
