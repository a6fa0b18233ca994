//! `senesce age`: takes a file system to a profile's old age and proves that it got there.

mod course;
mod events;
mod execution;
mod figures;
mod parts;
mod ranks;
mod rehearse;
mod run;
mod space;
mod spec;
mod unasked;
mod verify;

pub use ranks::{check_target, run_by_ranks};
pub use run::{plan_only, resume};
pub(crate) use space::metadata_bytes;
pub use spec::{AgeSpec, Limits, parse_shard, parse_until, profile_hash};
pub use verify::{Verification, verify};

use course::Course;
use events::{Event, Executed, LayoutSeen, Rehearsal, Sample};
use run::Start;
use senesce_aging::Clock;
use senesce_core::{Analysis, Better, Bytes, ExitCode, Failure, Finite, Measurement, Plan, Seed};
use senesce_runs::run::{Context, Planned, Recorded, Run, new_plan};
use senesce_runs::write_order::Recording;
use senesce_volume::MountedTarget;
use serde_json::{Value, json};
use unasked::Unasked;

/// An aging in execution.
pub struct Age {
    course: Course,
    start: Start,
    /// None: it is closed.
    target: Option<MountedTarget>,
    /// The recording of the order of writes, if there is to be one.
    recording: Option<Recording>,
}

impl Run for Age {
    const KIND: &'static str = "age";
    const PUBLISHED: &'static str = include_str!("../../data/published/verbs/age.csv");
    const CLAIMS: &'static str = include_str!("../../data/published/verbs/age.claims.toml");
    type Spec = AgeSpec;
    type Event = Event;
    /// How often the run was given new limits, or time to go on; each time the plan is played until one of them ends it.
    type Step = usize;

    fn steps(spec: &AgeSpec, _seed: Seed) -> Result<Vec<Planned<usize>>, Failure> {
        let plan = spec.describe(Plan::default_of(Self::KIND, spec.seed), &spec.summary()?);
        let target = spec.target.clone().unwrap_or_else(|| "-".into());
        Ok(vec![Planned::new(0, "age", target).costing(Bytes(plan.bytes_to_write), plan.estimated_seconds)])
    }

    fn plan(spec: &AgeSpec, seed: Seed) -> Result<Plan, Failure> {
        spec.check_recording()?;
        Ok(spec.describe(new_plan::<Self>(spec, seed)?, &spec.summary()?))
    }

    fn next(spec: &AgeSpec, recorded: &Recorded<Self>) -> Result<Vec<Planned<usize>>, Failure> {
        let (step, _) = run::rounds(recorded);
        match recorded.is_done(&step) {
            true => Ok(Vec::new()),
            false => Ok(Self::steps(spec, spec.seed)?.into_iter().map(|planned| Planned { step, ..planned }).collect()),
        }
    }

    fn begin(spec: &AgeSpec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        run::begin(spec, context)
    }

    fn step(&mut self, _spec: &AgeSpec, _step: &usize, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        run::age(self, context)
    }

    fn end(self, _spec: &AgeSpec, _context: &mut Context<'_, Self>) -> Result<(), Failure> {
        self.target.map_or(Ok(()), |target| Ok(target.close()?))
    }

    fn analyse(spec: &AgeSpec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let found = Found::of(recorded.events());
        let rehearsal = found.rehearsal.ok_or_else(|| {
            let words =
                format!("{} ended before its plan was made; run the same command again", recorded.path.display());
            Failure::new(ExitCode::RunFailed, words)
        })?;
        let (executed, seen) = (found.executed, found.layout);
        let device = device_words(spec, recorded);
        let measures = executed.map_or(&rehearsal.measures, |executed| &executed.measures);
        let mut analysis = Analysis {
            title: format!("{device} aged by the profile {}", rehearsal.summary.profile),
            summary: summary_words(rehearsal, executed),
            result: result(recorded, rehearsal, executed, seen),
            caveats: caveats(spec, seen, &found.warnings)
                .into_iter()
                .chain(clock_words(rehearsal.summary.clock, spec.pace, Unasked::of(recorded.events())))
                .chain(rehearsal.course.as_ref().and_then(|course| course.limits().missed(&rehearsal.summary)))
                .collect(),
            ..Analysis::default()
        };
        analysis.tables.push(figures::summary_table(rehearsal, executed));
        if let Some(table) = executed.and_then(figures::ranks_table) {
            analysis.tables.push(table);
        }
        if let Some(layout) = seen.and_then(|seen| seen.layout.as_ref()) {
            analysis.tables.push(figures::layout_table(layout));
        }
        if executed.is_some() {
            analysis.figures = figures::distributions(measures, &device);
        }
        if found.samples.len() > 1 {
            analysis.figures.extend(figures::course(&found.samples, rehearsal.measures.fullness.target, &device));
        }
        analysis.figures.extend(figures::layout_figures(seen, &device));
        Ok(analysis)
    }

    fn measurements(_spec: &AgeSpec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        let found = Found::of(recorded.events());
        found.rehearsal.zip(found.executed).map_or(Vec::new(), |(rehearsal, executed)| errors(rehearsal, executed))
    }
}

/// What a record holds; the last of each.
#[derive(Default)]
struct Found<'a> {
    rehearsal: Option<&'a Rehearsal>,
    executed: Option<&'a Executed>,
    layout: Option<&'a LayoutSeen>,
    samples: Vec<Sample>,
    warnings: Vec<&'a str>,
}

impl<'a> Found<'a> {
    fn of(events: impl Iterator<Item = &'a Event>) -> Self {
        let mut found = Self::default();
        for event in events {
            match event {
                Event::Rehearsal(rehearsal) => found.rehearsal = Some(rehearsal),
                Event::Executed(executed) => found.executed = Some(executed),
                Event::Layout(layout) => found.layout = Some(layout),
                Event::Sample(sample) => found.samples.push(sample.clone()),
                // The run begins: of what was aged before, in memory, nothing is left.
                Event::Checkpoint(checkpoint) if checkpoint.operation == 0 => {
                    (found.executed, found.layout) = (None, None);
                    found.samples.clear();
                }
                Event::KernelWarning(line) => found.warnings.push(line),
                _ => {}
            }
        }
        found
    }
}

fn device_words(spec: &AgeSpec, recorded: &Recorded<Age>) -> String {
    let target = spec.target.as_deref().unwrap_or_default();
    let file_system = recorded.environment.0.get("fs.name").and_then(Value::as_str).unwrap_or("");
    match (file_system, spec.in_memory) {
        ("", _) => target.to_string(),
        (name, true) => format!("{name} on {target}, held in memory"),
        (name, false) => format!("{name} on {target}"),
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

fn caveats(spec: &AgeSpec, seen: Option<&LayoutSeen>, warnings: &[&str]) -> Vec<String> {
    let mut caveats: Vec<String> =
        warnings.iter().map(|line| format!("the kernel warned during the run: {line}")).collect();
    match spec.data.as_str() {
        "fallocate" => caveats.push(
            "files were preallocated, not written: their extents are unwritten and read as nothing; use --data write for an image that will be read"
                .into(),
        ),
        "sparse" => caveats.push("files are sparse: only names and sizes age, no extents".into()),
        _ => {}
    }
    if spec.writers > 1 && spec.data == "write" {
        caveats.push(
            "what the writers wrote in turn waited in the page cache: a file system that allocates late saw whole files, as by one writer; \
             use --data fallocate for files in pieces"
                .into(),
        );
    }
    if let Some(seen) = seen.filter(|seen| !seen.problem.is_empty()) {
        caveats.push(format!("measured without layout: {}", seen.problem));
    }
    if spec.compression.is_some() {
        caveats.push(
            "compressed: the layout is proven equal to that of a full aging on the volumes that were measured (senesce doc \
             compressed-aging), not on this one"
                .into(),
        );
    }
    if let Some((part, parts)) = spec.shard {
        caveats.push(format!(
            "only the directories of shard {part}/{parts} were executed here; the measures are those of the whole plan"
        ));
    }
    caveats
}

/// What there is to say of the time scale.
fn clock_words(clock: Clock, pace: Option<f64>, unasked: Unasked) -> Option<String> {
    if !clock.is_none() {
        return unasked.caveat();
    }
    Some(match pace {
        Some(pace) => format!(
            "aged at {pace} operations per second or fewer: freed blocks came free when the file system committed by its own timers; the \
             layout is that of this pace and these timers, and block addresses need not repeat (see --pace)"
        ),
        None => "aged without a clock: freed blocks came free when the file system committed by itself, so that the layout is that of a \
                 fuller volume, depends on the speed of the machine and does not repeat (see --commit-share)"
            .into(),
    })
}

/// What the claims are decided on: how far the live files are from the profile. An interrupted run has not come to its end and
/// measures nothing.
fn errors(rehearsal: &Rehearsal, executed: &Executed) -> Vec<Measurement> {
    if executed.stopped_by == "interrupt" {
        return Vec::new();
    }
    let rmse = &executed.measures.rmse;
    let histograms = [("age", rmse.age), ("size", rmse.size), ("depth", rmse.depth)];
    let worst = histograms.iter().map(|(_, error)| *error).fold(0.0, f64::max);
    let over = Finite::per(worst, rehearsal.summary.rounding_bound());
    let over = over.ok().and_then(|over| Measurement::new("error over rounding", "", Better::Lower, over.get()).ok());
    let of_histogram = |(name, error): (&str, f64)| {
        Some(Measurement::new("RMSE", "%", Better::Lower, error * 100.0).ok()?.under("histogram", name))
    };
    histograms.into_iter().filter_map(of_histogram).chain(over).collect()
}

/// The machine-readable result; also of a plan without a target.
fn result(
    recorded: &Recorded<Age>,
    rehearsal: &Rehearsal,
    executed: Option<&Executed>,
    seen: Option<&LayoutSeen>,
) -> Value {
    let mut value = measures_json(rehearsal, executed);
    value["unasked_commits"] = json!(Unasked::of(recorded.events()).commits());
    value["seed"] = json!(recorded.seed);
    value["profile"] = json!(rehearsal.summary.profile);
    value["run"] = json!(recorded.path);
    value["layout"] = json!(seen.and_then(|seen| seen.layout.as_ref()));
    value["last_checkpoint"] = json!(run::last_checkpoint(recorded).map(|checkpoint| checkpoint.operation));
    value["environment"] = json!(recorded.environment);
    value
}

fn measures_json(rehearsal: &Rehearsal, executed: Option<&Executed>) -> Value {
    let measures = executed.map_or(&rehearsal.measures, |executed| &executed.measures);
    let digest = executed.map_or(&rehearsal.namespace_sha256, |executed| &executed.namespace_sha256);
    json!({
        "operations": measures.operations,
        "creates": measures.creates,
        "deletes": measures.deletes,
        "commit_share": rehearsal.summary.clock.commit_share.share(),
        "sync_every": rehearsal.summary.clock.sync_every,
        "commits": measures.commits,
        "unasked_commits": null,
        "changes": measures.changes,
        "changes_under_way": measures.changes_under_way,
        "changes_executed": executed.and_then(|executed| executed.changes),
        "writers": rehearsal.course.as_ref().map(|course| course.spec.writers),
        "files_live": measures.files_live,
        "t_bound": rehearsal.summary.t_bound,
        "t_end": rehearsal.summary.t_end,
        "virtual_t": rehearsal.summary.virtual_t,
        "saved_factor": rehearsal.summary.saved_factor(),
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
        "estimated_seconds": executed.and_then(|executed| executed.estimated_seconds),
        "ops_per_second": executed.map(|executed| executed.ops_per_second),
        "cpu_seconds": executed.map(|executed| executed.cpu_seconds),
        "ranks": executed.map(|executed| &executed.ranks),
        "window": executed.map(|executed| executed.window),
        "peak_rss_bytes": executed.map_or_else(run::peak_rss_bytes, |executed| executed.peak_rss_bytes),
        "plan": rehearsal.summary,
    })
}

#[cfg(test)]
mod tests {
    use super::events::Checkpoint;
    use super::*;

    #[test]
    fn a_pace_is_a_time_scale_of_its_own() {
        let words = |clock, pace| clock_words(clock, pace, Unasked::Of(0));
        assert!(words(Clock::NONE, None).unwrap().starts_with("aged without a clock"));
        let paced = words(Clock::NONE, Some(500.0)).unwrap();
        assert!(paced.starts_with("aged at 500 operations per second or fewer") && paced.contains("--pace"), "{paced}");
        assert!(!paced.contains("speed of the machine"), "{paced}");
        assert_eq!((words(Clock::default(), Some(500.0)), words(Clock::default(), None)), (None, None));
    }

    #[test]
    fn a_run_that_begins_anew_has_the_course_of_its_last_beginning() {
        let sample = |operations| {
            Event::Sample(Sample { operations, seconds: 1.0, fullness: 0.5, overwrites: 1.0, distance: None })
        };
        let checkpoint = |operation| Event::Checkpoint(Checkpoint { operation, seconds: 1.0 });
        let operations = |events: &[Event]| -> Vec<u64> {
            Found::of(events.iter()).samples.iter().map(|sample| sample.operations).collect()
        };
        let lost = [checkpoint(0), sample(10), checkpoint(700), sample(700)];
        let anew = [checkpoint(0), sample(20), checkpoint(300)];
        assert_eq!(operations(&[&lost[..], &anew[..]].concat()), [20]);
        let went_on = [checkpoint(700), sample(900)];
        assert_eq!(operations(&[&lost[..], &went_on[..]].concat()), [10, 700, 900]);
    }
}
