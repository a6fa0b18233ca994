//! How long a report takes from the record of a study of 500 cells: 5 file systems, 10 states, 10 workloads, 2 images, 3
//! repetitions and the pairs for the noise, with made-up values. Each part is timed on its own, best of several rounds.
//! Usage: `report_cells [ROUNDS [RUNDIR]]`; a RUNDIR keeps the record, for `senesce report`.

use senesce_core::{Environment, Measurement, Record, RunDirectory, Seed};
use senesce_runner::{analyse, new_plan};
use senesce_study::matrix::{self, RunId};
use senesce_study::{Study, StudySpec};
use serde_json::json;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const FILE_SYSTEMS: usize = 5;
const STATES: usize = 10;
const WORKLOADS: usize = 10;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let kept = arguments.next();
    let directory = tempfile::tempdir()?;
    let path = kept.map_or_else(|| directory.path().join("run"), Into::into);
    let runs = write_record(&path)?;
    let mut best = [f64::INFINITY; 3];
    let mut bytes = 0;
    for _ in 0..rounds {
        let begun = Instant::now();
        let record = Record::open(&path)?;
        let read = begun.elapsed().as_secs_f64();
        let analysis = analyse::<Study>(&record).map_err(|failure| failure.to_string())?;
        let analysed = begun.elapsed().as_secs_f64();
        bytes = senesce_report::render_html(&analysis, &record).len();
        let drawn = begun.elapsed().as_secs_f64();
        for (best, time) in best.iter_mut().zip([read, analysed - read, drawn - analysed]) {
            *best = best.min(time);
        }
    }
    let cells = FILE_SYSTEMS * STATES * WORKLOADS;
    println!("| cells | runs | read (s) | analyse (s) | lay out (s) | all (s) | page (KiB) |\n|-|-|-|-|-|-|-|");
    let [read, analyse, lay_out] = best;
    let all: f64 = best.iter().sum();
    println!("| {cells} | {runs} | {read:.3} | {analyse:.3} | {lay_out:.3} | {all:.3} | {} |", bytes >> 10);
    Ok(())
}

fn study() -> Outcome<StudySpec> {
    let mut text = String::from("name = \"500 cells\"\nsize = \"1G\"\nimages = 2\nrepetitions = 3\n");
    for number in 0..FILE_SYSTEMS {
        writeln!(text, "[[file_system]]\nkind = \"ext4\"\nname = \"system {number}\"")?;
    }
    text += "[[state]]\nkind = \"fresh\"\n";
    for number in 1..STATES {
        writeln!(text, "[[state]]\nkind = \"aged\"\nname = \"state {number}\"\nprofile = \"agrawal\"\nfullness = 0.5")?;
    }
    for number in 0..WORKLOADS {
        writeln!(text, "[[workload]]\npersonality = \"webserver\"\nname = \"workload {number}\"\nscale = 0.01")?;
    }
    StudySpec::parse("made up", &text).map_err(|failure| failure.to_string().into())
}

fn write_record(path: &Path) -> Outcome<usize> {
    let spec = study()?;
    let plan = new_plan::<Study>(&spec, Seed(1)).map_err(|failure| failure.to_string())?;
    let mut directory = RunDirectory::open(path, &plan, &Environment::default())?;
    let runs = matrix::runs(&spec);
    let mut images: Vec<_> = runs.iter().map(|run| run.on).collect();
    images.sort();
    images.dedup();
    for id in images {
        let score = 1.0 - id.state as f64 / 20.0 - f64::from(id.image) / 100.0;
        directory.append(
            "image",
            &json!({
                "id": id, "key": "none", "from_store": false, "seconds": 1.0, "overwrites": 2.0, "files": 1000,
                "static_layout_score": score, "tree_layout_score": score, "extents_per_file": 1.5, "free_space": null,
            }),
        )?;
    }
    for run in &runs {
        let metrics = metrics(&spec, *run);
        directory.append("run", &json!({"id": run, "metrics": metrics, "overhead_seconds": 0.5, "seconds": 10.0}))?;
    }
    directory.finish(&json!({}))?;
    Ok(runs.len())
}

/// Age costs a tenth a state, and every run is off by up to two percent.
fn metrics(spec: &StudySpec, run: RunId) -> Vec<Measurement> {
    use rand::Rng;
    use senesce_core::analysis::Better;
    let mut rng = Seed(1).stream(&format!("report/{run:?}"));
    let off = (rng.next_u32() as f64 / f64::from(u32::MAX) - 0.5) * 0.04;
    let factor = (1.0 - run.on.state as f64 / 10.0 * 0.5) * (1.0 + off);
    [
        ("throughput", "operations/s", Better::Higher, 1e4 * factor),
        ("bandwidth", "MiB/s", Better::Higher, 300.0 * factor),
        ("mean latency", "us", Better::Lower, 100.0 / factor),
    ]
    .into_iter()
    .map(|(name, unit, better, value)| {
        let one = Measurement::new(name, unit, better, value)
            .expect("made-up values are finite")
            .under("fs", &spec.file_system[run.on.fs].name)
            .under("state", &spec.state[run.on.state].name)
            .under("workload", &spec.workload[run.workload].name);
        Measurement { image: run.on.image, repetition: run.repetition, ..one }
    })
    .collect()
}
