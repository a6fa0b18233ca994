//! Tables and figures of an imported fio result.

use super::{Event, Fio, ImportedFile, JobEvent};
use senesce_core::Rows;
use senesce_core::analysis::*;
use senesce_runner::Recorded;
use serde_json::{Value, json};

pub(super) fn analysis(spec: &ImportedFile, recorded: &Recorded<Fio>) -> Analysis {
    let jobs: Vec<JobEvent> = recorded.events().map(|Event::FioJob(job)| job.clone()).collect();
    let version = recorded.environment.0.get("fio.version").and_then(Value::as_str).unwrap_or("fio");
    Analysis {
        title: format!("fio: {}", spec.source),
        summary: format!("{} job directions of {version}.", jobs.len()),
        figures: figures(recorded, &jobs),
        tables: vec![table(&jobs)],
        findings: Vec::new(),
        caveats: vec![format!(
            "imported: measured by {version}, not by senesce; the environment has only the facts in the file"
        )],
        result: json!({"fio_version": version, "jobs": jobs}),
    }
}

fn label(job: &JobEvent) -> String {
    format!("{} {}", job.name, job.direction)
}

fn percentile(job: &JobEvent, wanted: f64) -> f64 {
    job.percentiles.iter().find(|(percent, _)| *percent == wanted).map_or(f64::NAN, |(_, value)| value / 1000.0)
}

fn table(jobs: &[JobEvent]) -> Table {
    let options = |job: &JobEvent| {
        job.options.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    Rows::of(jobs)
        .column("job", |job| &job.name)
        .column("direction", |job| &job.direction)
        .column("clones", |job| job.clones)
        .column("options", options)
        .column("bandwidth (MiB/s)", |job| job.bandwidth_bytes_per_second / 1048576.0)
        .column("operations (1/s)", |job| job.iops)
        .column("mean latency (us)", |job| job.latency_mean_ns.map(|mean| mean / 1000.0))
        .column("p50 (us)", |job| percentile(job, 50.0))
        .column("p99 (us)", |job| percentile(job, 99.0))
        .column("p99.9 (us)", |job| percentile(job, 99.9))
        .column("runtime (s)", |job| job.runtime_ms / 1000.0)
        .column("valid", |job| job.counts)
        .table("jobs", "Jobs")
}

fn latency_name(jobs: &[JobEvent]) -> &'static str {
    let has =
        |of_total: bool| jobs.iter().any(|job| !job.percentiles.is_empty() && job.percentiles_of_total == of_total);
    match (has(false), has(true)) {
        (true, true) => "Completion or total latency",
        (false, true) => "Total latency",
        _ => "Completion latency",
    }
}

fn figures(recorded: &Recorded<Fio>, jobs: &[JobEvent]) -> Vec<Figure> {
    let names: Vec<String> = jobs.iter().map(label).collect();
    let series = |name: &str, value: &dyn Fn(&JobEvent) -> f64| {
        let points =
            jobs.iter().enumerate().map(|(index, job)| (index as f64, if job.counts { value(job) } else { f64::NAN }));
        Series::new(name, Mark::Measured, points.collect())
    };
    let device = recorded
        .environment
        .0
        .get("fio.disks")
        .and_then(Value::as_str)
        .map_or("the machine of the file".into(), |disks| format!("disk {disks} of another machine"));
    let figure = |id: &str, title: &str, caption: &str, better, kind| Figure {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        device: device.clone(),
        better,
        kind,
    };
    let bars = |y: Axis, series| FigureKind::Bars { x: Axis::categories("Job", names.clone()), y, series };
    let latency = latency_name(jobs);
    let mut figures = vec![
        figure(
            "bandwidth",
            "Bandwidth of each job",
            "As fio reports it.",
            Better::Higher,
            bars(
                Axis::linear("Bandwidth (MiB/s)"),
                vec![series("bandwidth", &|job| job.bandwidth_bytes_per_second / 1048576.0)],
            ),
        ),
        figure(
            "latency",
            &format!("{latency} of each job"),
            "Median and two high percentiles; the axis is logarithmic.",
            Better::Lower,
            bars(
                Axis::linear(&format!("{latency} (us)")).log10(),
                vec![
                    series("median", &|job| percentile(job, 50.0)),
                    series("99 %", &|job| percentile(job, 99.0)),
                    series("99.9 %", &|job| percentile(job, 99.9)),
                ],
            ),
        ),
    ];
    let curves: Vec<Series> =
        jobs.iter().filter(|job| job.counts).filter_map(|job| distribution(recorded, job)).collect();
    if !curves.is_empty() {
        let kind = FigureKind::Lines {
            x: Axis::linear("Completion latency (us)").log10(),
            y: Axis::linear("Share of operations (%)").from_zero(),
            series: curves,
        };
        figures.push(figure(
            "distribution",
            "Distribution of completion latencies",
            "Share of operations that completed within the time.",
            Better::Neither,
            kind,
        ));
    }
    figures
}

fn distribution(recorded: &Recorded<Fio>, job: &JobEvent) -> Option<Series> {
    let histogram = recorded
        .histogram(&job.histogram)
        .ok()
        .filter(|histogram| !job.histogram.is_empty() && !histogram.is_empty())?;
    let total = histogram.len() as f64;
    let mut seen = 0;
    let points = histogram.iter_recorded().map(|step| {
        seen += step.count_at_value();
        (step.value_iterated_to() as f64 / 1000.0, seen as f64 / total * 100.0)
    });
    Some(Series::new(label(job), Mark::Measured, points.collect()))
}
