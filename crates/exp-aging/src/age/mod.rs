//! `senesce age`: ages a file system by a profile and checks the result.

mod caveats;
mod copies;
pub mod demo;
mod events;
mod execution;
mod extended_spec;
mod extents;
mod figures;
mod final_layout;
mod limits;
mod measured;
mod new_file;
mod own_target;
mod parts;
mod ranks;
mod recorded_aging;
mod rehearse;
mod result;
mod run;
mod space;
mod spec;
mod start;
mod unrequested_commits;
mod verify;
pub mod words;

pub use ranks::{check_target, run_by_ranks};
pub use run::{is_aging, plan_only, resume, spec_of_run};
pub(crate) use space::written_bytes;
pub use spec::{AgeSpec, Limits, profile_hash};
pub use verify::{Verification, verify};

use caveats::{RANDOM_ADDRESSES, caveats, clock_words};
use events::{Event, ExecutionEnd, Rehearsal};
use extended_spec::ExtendedSpec;
use own_target::RecordedTarget;
use recorded_aging::RecordedAging;
use senesce_core::resume::{self, continue_with};
use senesce_core::{Analysis, Better, Bytes, ExitCode, Failure, Finite, Measurement, Plan, Seed, Table, number_of};
use senesce_runner::{Context, Contradiction, Planned, Recorded, Run, Special, new_plan};
use senesce_runs::write_order::Recording;
use senesce_volume::MountedTarget;
use serde_json::Value;
use start::Start;
use unrequested_commits::{UnrequestedCommits, unused_commit_time};

/// The verb that continues an aging by its run directory.
pub const RESUME: &str = "age --resume";

pub struct Age {
    course: ExtendedSpec,
    start: Start,
    /// The target if it is new or has moved, until it is recorded.
    new_target: Option<RecordedTarget>,
    /// `None` once it is closed.
    target: Option<MountedTarget>,
    recording: Option<Recording>,
    /// Faults of the guest's kernel before the target was opened.
    earlier_faults: Vec<String>,
}

/// Values of the machine and of the plan. An aging that did not reach its end has no comparable values.
const NOT_MEASURED: &[&str] = &[
    "environment",
    "layout",
    "layout_digest",
    "layout_numbers",
    "new_file",
    "cost",
    "copies",
    "extents",
    "measured_read",
    "plan",
    "plan_cpu_seconds",
    "plan_ops_per_cpu_second",
    "execute_seconds",
    "estimated_seconds",
    "ops_per_second",
    "peak_rss_bytes",
];

impl Run for Age {
    const KIND: &'static str = "age";
    const PUBLISHED: &'static str = include_str!("../../data/published/verbs/age.csv");
    const CLAIMS: &'static str = include_str!("../../data/published/verbs/age.claims.toml");
    type Spec = AgeSpec;
    type Event = Event;
    /// Number of times that the run was given new limits or more time. In each step the plan runs until a limit ends it.
    type Step = usize;

    const SPECIAL: Special<Self> = Special {
        starts_over: |spec, recorded| !Start::of(spec, recorded).continues,
        prepares: Event::prepares,
        resumed_by: Some(RESUME),
        lists_untestable: false,
        not_measured: NOT_MEASURED,
        ..Special::NONE
    };

    fn steps(spec: &AgeSpec, _seed: Seed) -> Result<Vec<Planned<usize>>, Failure> {
        let plan = spec.describe(Plan::default_of(Self::KIND, spec.seed), &spec.summary()?);
        Ok(vec![
            Planned::new(0, "age", spec.target_words()).costing(Bytes(plan.bytes_to_write), plan.estimated_seconds),
        ])
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

    fn check(spec: &AgeSpec, recorded: &Recorded<Self>, _is_partial: bool) -> Result<(), Contradiction> {
        let problems = recorded.own_lines().filter_map(|(line, event)| match event {
            Event::Layout(examined) => Some((line, final_layout::contradiction(examined)?)),
            Event::MeasuredRead(measured) => Some((line, measured.read.contradiction()?)),
            Event::Executed(executed) if spec.shard.is_none() => Some((line, executed.contradiction()?)),
            _ => None,
        });
        let mut problems = problems.map(|(line, problem)| Contradiction::new(line, problem));
        problems.next().map_or(Ok(()), Err)
    }

    fn analyse(spec: &AgeSpec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let found = RecordedAging::of(recorded.events());
        let rehearsal = found.rehearsal.ok_or_else(|| {
            let hint = continue_with(&resume::command(RESUME, &recorded.path));
            let words = format!("{} ended before its plan was made\nhint: {hint}", recorded.path.display());
            Failure::new(ExitCode::RunFailed, words)
        })?;
        let (executed, examined) = (found.executed, found.layout);
        let device = device_words(spec, recorded);
        let limits = rehearsal.course.as_ref().map(ExtendedSpec::limits);
        let has_virtual_clock = recorded.environment.has_virtual_clock();
        let has_random_addresses = recorded.environment.has_random_addresses();
        let unasked =
            if has_virtual_clock { UnrequestedCommits::Of(0) } else { UnrequestedCommits::of(recorded.events()) };
        let mut analysis = Analysis {
            title: title(&device, rehearsal, executed),
            summary: answer(spec, recorded, &found).map(|words| words + "\n\n").unwrap_or_default()
                + &found.measured.map(|read| measured::words(read) + "\n\n").unwrap_or_default()
                + &summary_words(rehearsal, &found),
            result: result::result(recorded, rehearsal, &found),
            caveats: caveats(spec, &found)
                .into_iter()
                .chain(clock_words(rehearsal.summary.clock, spec, unasked))
                .chain(unused_commit_time(spec, rehearsal.summary.clock, has_virtual_clock))
                .chain(has_random_addresses.then(|| RANDOM_ADDRESSES.into()))
                .chain(limits.and_then(|limits| limits.missed(&rehearsal.summary)))
                .chain(whole(executed).zip(limits).and_then(|(executed, limits)| limits.unmet(&executed.measures)))
                .collect(),
            ..Analysis::default()
        };
        analysis.tables.extend(answer_table(&found));
        analysis.tables.extend(examined.and_then(figures::cost_table));
        analysis.tables.extend(examined.and_then(|examined| examined.layout.as_ref()).map(figures::layout_table));
        analysis.tables.push(match executed {
            Some(executed) => figures::summary_table(rehearsal, executed),
            None => figures::plan_table(rehearsal, found.reached),
        });
        analysis.tables.extend(executed.and_then(figures::ranks_table));
        analysis.figures.extend(found.copies.map(|copies| copies.map.clone()));
        analysis.figures.extend(figures::layout_figures(examined, &device));
        if let Some(executed) = executed {
            analysis.figures.extend(figures::distributions(&executed.measures, &device));
        }
        if found.samples.len() > 1 {
            analysis.figures.push(figures::fullness(&found.samples, rehearsal.measures.fullness.target, &device));
            if executed.is_none_or(ExecutionEnd::is_timed) {
                analysis.figures.push(figures::time_per_operation(&found.samples, &device));
            }
        }
        if found.extents.len() > 1 {
            analysis.figures.push(figures::extents(&found.extents, &device));
        }
        Ok(analysis)
    }

    fn measurements(_spec: &AgeSpec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        let found = RecordedAging::of(recorded.events());
        let Some((rehearsal, executed)) = found.rehearsal.zip(whole(found.executed)) else { return Vec::new() };
        let layout = found.layout.map(final_layout::measurements).unwrap_or_default();
        errors(rehearsal, executed).into_iter().chain(layout).collect()
    }
}

fn device_words(spec: &AgeSpec, recorded: &Recorded<Age>) -> String {
    let target = spec.target_words();
    let file_system = recorded.environment.0.get("fs.name").and_then(Value::as_str).unwrap_or("");
    match (file_system, spec.in_memory) {
        ("", _) => target,
        (name, true) => format!("{name} on {target}, held in memory"),
        (name, false) if let Some(size) = target.strip_prefix("memory:") => format!("{name}, {size} in memory"),
        (name, false) => format!("{name} on {target}"),
    }
}

/// Answers what age costs: with copies of the files as measured, otherwise modelled.
fn answer(spec: &AgeSpec, recorded: &Recorded<Age>, found: &RecordedAging<'_>) -> Option<String> {
    let examined = found.layout?;
    let ranges = demo::ranges_of(spec, recorded.environment.is_emulated());
    let measured = found.copies.and_then(|copies| figures::answer_words(copies, examined, ranges));
    measured.or_else(|| figures::cost_words(examined))
}

fn whole(executed: Option<&ExecutionEnd>) -> Option<&ExecutionEnd> {
    executed.filter(|executed| executed.is_whole())
}

fn answer_table(found: &RecordedAging<'_>) -> Option<Table> {
    let examined = found.layout?;
    match found.copies {
        Some(copies) => Some(figures::answer_table(copies, examined.layout.as_ref()?.files)),
        None => figures::modelled_answer_table(examined, found.new_file()),
    }
}

fn title(device: &str, rehearsal: &Rehearsal, executed: Option<&ExecutionEnd>) -> String {
    let profile = &rehearsal.summary.profile;
    let Some(executed) = executed else {
        return format!("{device}: an aging to profile {profile} that has not ended");
    };
    let measures = &executed.measures;
    let overwrites = (measures.overwrites * 10.0).round() / 10.0;
    let full = fullness_words(measures.fullness.end, measures.fullness.target);
    let state = format!("{device}, {full}, overwritten {overwrites} times ({profile})");
    if executed.is_whole() { state } else { format!("{state}, stopped before the end of the plan") }
}

/// Returns both shares, if they differ: whole files do not fit a small volume exactly.
fn fullness_words(reached: f64, requested: f64) -> String {
    let [reached, requested] = [reached, requested].map(|share| format!("{:.0} %", share * 100.0));
    match reached == requested {
        true => format!("{reached} full"),
        false => format!("{reached} full (requested: {requested})"),
    }
}

fn summary_words(rehearsal: &Rehearsal, found: &RecordedAging<'_>) -> String {
    let summary = &rehearsal.summary;
    let planned = format!(
        "{}, {}, {:.1} overwrites of {}.",
        number_of(summary.files, "file"),
        number_of(summary.t_end, "operation"),
        summary.overwrites,
        summary.capacity
    );
    let Some(executed) = found.executed else {
        let reached = found.reached.map_or_else(
            || "Not started.".to_string(),
            |reached| format!("Its last checkpoint was after {}.", number_of(reached.operation, "operation")),
        );
        return format!(
            "Planned: {planned} The execution has not ended, so its final state was not measured. {reached}"
        );
    };
    let time = if executed.is_timed() {
        format!(" in {:.1} s ({})", executed.execute_seconds, words::rate(executed.ops_per_second))
    } else if executed.is_timeless {
        " in virtual time".into()
    } else {
        String::new()
    };
    let digest = found.layout.and_then(|examined| examined.digest.as_ref());
    let digest = digest.map_or(String::new(), |digest| format!(" Layout digest: {digest}."));
    format!(
        "Planned: {planned} Stopped by {} with {} after {}{time}; fullness {:.1} %.{digest}",
        executed.stopped_by,
        number_of(executed.measures.files_live, "file"),
        number_of(executed.measures.operations, "operation"),
        executed.measures.fullness.end * 100.0
    )
}

fn errors(rehearsal: &Rehearsal, executed: &ExecutionEnd) -> Vec<Measurement> {
    let rmse = &executed.measures.rmse;
    let histograms = [("age", rmse.age), ("size", rmse.size), ("depth", rmse.depth)];
    let worst = histograms.iter().map(|(_, error)| *error).fold(0.0, f64::max);
    let over = Finite::per(worst, rehearsal.summary.rounding_bound());
    let over = over.ok().and_then(|over| Measurement::new("error over rounding", "", Better::Neither, over.get()).ok());
    let (plan, rounding) = (plan_length(rehearsal, executed), rounding_words(rehearsal));
    let of_histogram = |(name, error): (&str, f64)| {
        let one = Measurement::new("RMSE", "%", Better::Neither, error * 100.0).ok()?;
        Some(one.under("histogram", name).under("plan", plan).under("rounding", rounding))
    };
    let over = over.map(|over| over.under("plan", plan));
    histograms.into_iter().filter_map(of_histogram).chain(over).collect()
}

/// Describes whether the plan reaches the ages of the profile. Limits of the user may end it earlier.
fn plan_length(rehearsal: &Rehearsal, executed: &ExecutionEnd) -> &'static str {
    if rehearsal.summary.below_bound || executed.has_settled() { "shortened" } else { "to the exact ages" }
}

/// Error that the published bound of the RMSE allows.
const PUBLISHED_RMSE: f64 = 1e-4;

fn rounding_words(rehearsal: &Rehearsal) -> &'static str {
    if rehearsal.summary.rounding_bound() > PUBLISHED_RMSE { "above 0.01 %" } else { "below 0.01 %" }
}

#[cfg(test)]
mod tests;
