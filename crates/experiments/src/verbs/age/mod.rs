//! `senesce age`: takes a file system to a profile's old age and proves that it got there.

mod course;
mod crew;
mod events;
mod execution;
mod figures;
mod parts;
mod rehearse;
mod room;
mod run;
mod spec;
mod verify;

pub use crew::{check_target, run_by_ranks};
pub use run::{Hooks, Place, plan_only, resume, run};
pub use spec::{AgeSpec, Limits, parse_shard, parse_until, profile_hash};
pub use verify::{Verification, verify};

use events::{Checkpoint, Executed, LayoutSeen, Rehearsal, Sample};
use senesce_core::{Analysis, ExitCode, Failure, Finding, Record, RunKind, Verdict};
use serde_json::{Value, json};

/// The kind of record that `senesce age` leaves.
pub struct Age;

impl RunKind for Age {
    fn kind(&self) -> &'static str {
        "age"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let rehearsal: Rehearsal = record.events_of("rehearsal").last().ok_or_else(|| {
            let words = format!("{} ended before its plan was made; run the same command again", record.path.display());
            Failure::new(ExitCode::RunFailed, words)
        })?;
        let samples: Vec<Sample> = record.events_of("sample").collect();
        let executed: Option<Executed> = record.events_of("executed").last();
        let seen: Option<LayoutSeen> = record.events_of("layout").last();
        let warnings: Vec<String> = record.events_of("kernel-warning").collect();
        let device = device_words(record);
        let measures = executed.as_ref().map_or(&rehearsal.measures, |executed| &executed.measures);
        let mut analysis = Analysis {
            title: format!("{} aged by the profile {}", device_words(record), rehearsal.summary.profile),
            summary: summary_words(&rehearsal, executed.as_ref()),
            result: result(record, &rehearsal, executed.as_ref(), seen.as_ref()),
            caveats: caveats(record, seen.as_ref(), &warnings),
            ..Analysis::default()
        };
        analysis.tables.push(figures::summary_table(&rehearsal, executed.as_ref()));
        if let Some(table) = executed.as_ref().and_then(figures::ranks_table) {
            analysis.tables.push(table);
        }
        if let Some(layout) = seen.as_ref().and_then(|seen| seen.layout.as_ref()) {
            analysis.tables.push(figures::layout_table(layout));
        }
        if executed.is_some() {
            analysis.figures = figures::distributions(measures, &device);
        }
        if samples.len() > 1 {
            analysis.figures.extend(figures::course(&samples, rehearsal.measures.fullness.target, &device));
        }
        analysis.figures.extend(figures::layout_figures(seen.as_ref(), &device));
        if let Some(executed) = &executed {
            analysis.findings.push(convergence(&rehearsal, executed));
        }
        Ok(analysis)
    }
}

fn device_words(record: &Record) -> String {
    let setting = |name: &str| record.plan.settings.get(name).map_or("", String::as_str);
    let target = setting("target");
    let file_system = record.environment.0.get("fs.name").and_then(Value::as_str).unwrap_or("");
    match (file_system, setting("in_memory")) {
        ("", _) => target.to_string(),
        (name, "true") => format!("{name} on {target}, held in memory"),
        (name, _) => format!("{name} on {target}"),
    }
}

fn summary_words(rehearsal: &Rehearsal, executed: Option<&Executed>) -> String {
    let summary = &rehearsal.summary;
    let planned = format!(
        "{} files, {} operations, {:.1} overwrites of {}.",
        summary.files, summary.t_end, summary.overwrites, summary.capacity
    );
    match executed {
        None => format!("Planned: {planned} The execution has not ended."),
        Some(executed) => format!(
            "Planned: {planned} Stopped by {} with {} files after {} operations in {:.1} s ({:.0} operations per second); fullness {:.1} %.",
            executed.stopped_by,
            executed.measures.files_live,
            executed.measures.operations,
            executed.execute_seconds,
            executed.ops_per_second,
            executed.measures.fullness.end * 100.0
        ),
    }
}

fn caveats(record: &Record, seen: Option<&LayoutSeen>, warnings: &[String]) -> Vec<String> {
    let setting = |name: &str| record.plan.settings.get(name).map_or("", String::as_str);
    let mut caveats: Vec<String> =
        warnings.iter().map(|line| format!("the kernel warned during the run: {line}")).collect();
    match setting("data") {
        "fallocate" => caveats.push(
            "files were preallocated, not written: their extents are unwritten and read as nothing; use --data write for an image that will be read"
                .into(),
        ),
        "sparse" => caveats.push("files are sparse: only names and sizes age, no extents".into()),
        _ => {}
    }
    if let Some(seen) = seen.filter(|seen| !seen.problem.is_empty()) {
        caveats.push(format!("measured without layout: {}", seen.problem));
    }
    if let Some(shard) = record.plan.settings.get("shard") {
        caveats.push(format!(
            "only the directories of shard {shard} were executed here; the measures are those of the whole plan"
        ));
    }
    caveats.extend(record.events_of::<String>("note"));
    caveats
}

fn convergence(rehearsal: &Rehearsal, executed: &Executed) -> Finding {
    let rmse = &executed.measures.rmse;
    let worst = rmse.age.max(rmse.size).max(rmse.depth);
    let bound = rehearsal.summary.rounding_bound();
    let converged = worst <= bound;
    let interrupted = executed.stopped_by == "interrupt";
    Finding {
        claim: "ages, sizes and depths of the live files equal the profile up to rounding to whole files".into(),
        published: "RMSE below 0.01 % (technical report CMU-PDL-16-105, for its aged 1 GB images)".into(),
        measured: format!("largest RMSE {:.4} % (rounding allows {:.4} %)", worst * 100.0, bound * 100.0),
        verdict: match converged {
            true => Verdict::Seen,
            false if interrupted => Verdict::Invalid,
            false => Verdict::NotSeen,
        },
        note: if converged { String::new() } else { format!("stopped by {} before the bound", executed.stopped_by) },
    }
}

/// The machine-readable result; also of a plan without a target.
fn result(record: &Record, rehearsal: &Rehearsal, executed: Option<&Executed>, seen: Option<&LayoutSeen>) -> Value {
    let mut value = measures_json(rehearsal, executed);
    value["seed"] = json!(record.plan.seed);
    value["profile"] = json!(rehearsal.summary.profile);
    value["run"] = json!(record.path);
    value["layout"] = json!(seen.and_then(|seen| seen.layout.as_ref()));
    let checkpoint: Option<Checkpoint> = record.events_of("checkpoint").last();
    value["last_checkpoint"] = json!(checkpoint.map(|checkpoint| checkpoint.operation));
    value["environment"] = json!(record.environment);
    value
}

fn measures_json(rehearsal: &Rehearsal, executed: Option<&Executed>) -> Value {
    let measures = executed.map_or(&rehearsal.measures, |executed| &executed.measures);
    let digest = executed.map_or(&rehearsal.namespace_sha256, |executed| &executed.namespace_sha256);
    json!({
        "operations": measures.operations,
        "creates": measures.creates,
        "deletes": measures.deletes,
        "files_live": measures.files_live,
        "t_bound": rehearsal.summary.t_bound,
        "t_end": rehearsal.summary.t_end,
        "overwrites": measures.overwrites,
        "rmse": measures.rmse,
        "fullness": measures.fullness,
        "created_size_tv": measures.created_size_tv,
        "chi_square": measures.chi_square,
        "stopped_by": executed.map_or("not executed", |executed| executed.stopped_by.as_str()),
        "namespace_sha256": digest,
        "parts": rehearsal.summary.parts,
        "part_sha256": executed.map_or(&rehearsal.part_sha256, |executed| &executed.part_sha256),
        "plan_cpu_seconds": rehearsal.plan_cpu_seconds,
        "plan_ops_per_cpu_second": rehearsal.plan_ops_per_cpu_second,
        "execute_seconds": executed.map(|executed| executed.execute_seconds),
        "ops_per_second": executed.map(|executed| executed.ops_per_second),
        "cpu_seconds": executed.map(|executed| executed.cpu_seconds),
        "ranks": executed.map(|executed| &executed.ranks),
        "window": executed.map(|executed| executed.window),
        "peak_rss_bytes": executed.map_or_else(run::peak_rss_bytes, |executed| executed.peak_rss_bytes),
        "plan": rehearsal.summary,
    })
}
