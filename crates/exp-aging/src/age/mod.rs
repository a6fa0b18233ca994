//! `senesce age`: ages a file system by a profile and checks the result.

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

use events::{Event, ExecutionEnd, Rehearsal};
use extended_spec::ExtendedSpec;
use own_target::RecordedTarget;
use recorded_aging::RecordedAging;
use senesce_aging::plan::PlannedLocality;
use senesce_aging::{Clock, Data};
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

fn caveats(spec: &AgeSpec, found: &RecordedAging<'_>) -> Vec<String> {
    let mut caveats: Vec<String> =
        found.warnings.iter().map(|line| format!("the kernel warned during the run: {line}")).collect();
    let lost = found.executed.and_then(|executed| executed.lost);
    caveats.extend(lost.map(|lost| format!("seconds and operations per second of the execution are invalid: {lost}")));
    match spec.data {
        Data::Fallocate => caveats.push(
            "files were preallocated, not written: reading them costs no device I/O; use --data write for an \
             image that will be read"
                .into(),
        ),
        Data::Sparse => caveats.push("files are sparse: only names and sizes are aged, not extents".into()),
        Data::Write => {}
    }
    if spec.writers > 1 && spec.data == Data::Write {
        caveats.push(
            "data of several writers waited in the page cache, and a file system with delayed allocation received \
             whole files, as from a single writer; use --data fallocate for fragmented files"
                .into(),
        );
    }
    if let Some(executed) = found.executed.filter(|executed| executed.has_settled()) {
        let overwrites = executed.measures.overwrites;
        caveats.push(format!(
            "ended after {overwrites:.1} overwrites, when the extents of files had settled; ages, sizes and depths match the \
             profile only at the end of the plan"
        ));
    }
    if found.is_continued && found.layout.is_some_and(|examined| examined.digest.is_some()) {
        caveats.push("the run was resumed: an uninterrupted run of this plan has another layout digest".into());
    }
    if let Some(examined) = found.layout.filter(|examined| !examined.problem.is_empty()) {
        caveats.push(format!("measured without layout: {}", examined.problem.lines().next().unwrap_or_default()));
    }
    let locality = found.rehearsal.and_then(|rehearsal| rehearsal.summary.locality);
    caveats.extend(locality.and_then(PlannedLocality::limited));
    caveats.extend(spec.compression.map(|_| compressed_words(whole(found.executed)).into()));
    if spec.shard.is_none() {
        let examined = found.layout.and_then(|examined| examined.layout.as_ref());
        let both = found.executed.zip(examined);
        caveats.extend(both.and_then(|(executed, examined)| other_files(executed.measures.files_live, examined.files)));
    }
    if let Some((part, parts)) = spec.shard {
        caveats.push(format!(
            "only the directories of shard {part}/{parts} were executed here; the values are those of the whole plan"
        ));
    }
    caveats
}

fn compressed_words(ended: Option<&ExecutionEnd>) -> &'static str {
    match ended {
        Some(_) => {
            "compressed: the layout is proven equal to that of a full aging on the measured volumes (senesce help \
             compressed-aging), not on this one"
        }
        None => "compressed and not complete: an intermediate layout was never compared with that of a full aging",
    }
}

/// Returns a warning if the layout covers other files than the plan's `made` files and our marker.
fn other_files(made: u64, examined: u64) -> Option<String> {
    (examined != made + 1).then(|| {
        format!(
            "{made} files of the plan and the marker of the directory are expected, but {examined} files were found: \
             the layout includes other files (senesce verify lists them)"
        )
    })
}

const RANDOM_ADDRESSES: &str = "the host forbids fixed addresses (as Docker does), and this kernel does not fix those of its memory: \
                                another aging may give another layout (senesce vm build 6.12 makes one that does)";

fn clock_words(clock: Clock, spec: &AgeSpec, unasked: UnrequestedCommits) -> Option<String> {
    if !clock.is_none() {
        return unasked.caveat();
    }
    let bursts = if spec.burst() > 1 { format!(" in bursts of {}", spec.burst()) } else { String::new() };
    if let Some(pace) = spec.time_scale {
        return Some(format!(
            "aged at {} of virtual time{bursts}: freed blocks became available when the file system committed by its own timers \
             (see --time-scale)",
            words::rate(pace)
        ));
    }
    Some(match spec.pace {
        Some(pace) => format!(
            "aged at {pace} operations per second or fewer{bursts}: freed blocks became available when the file system \
             committed by its own timers; the layout depends on this pace and these timers, and block addresses \
             need not repeat (see --pace)"
        ),
        None => "aged without a clock: freed blocks became available when the file system committed by itself; \
            the layout resembles that of a fuller volume, depends on the speed of the machine and does not repeat \
            (see --commit-share)"
            .into(),
    })
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
mod tests {
    use super::*;
    use senesce_core::heartbeat::{Cause, LostTime};

    #[test]
    fn requested_fullness_is_named_if_another_was_reached() {
        assert_eq!(fullness_words(0.802, 0.8), "80 % full");
        assert_eq!(fullness_words(0.731, 0.7), "73 % full (requested: 70 %)");
    }

    #[test]
    fn locality_that_the_directories_do_not_allow_is_a_caveat() {
        let spec = super::spec::tests::age_spec(Data::Write, None);
        let mut rehearsal = space::tests::rehearsed(Data::Write);
        let mut caveats_at_most = |most| {
            rehearsal.summary.locality = Some(PlannedLocality { asked: 0.6, most });
            caveats(&spec, &RecordedAging { rehearsal: Some(&rehearsal), ..RecordedAging::default() }).len()
        };
        assert_eq!(caveats_at_most(0.4), caveats_at_most(0.9) + 1);
    }

    #[test]
    fn seconds_and_rate_are_omitted_if_the_run_lost_time() {
        let rehearsal = space::tests::rehearsed(Data::Write);
        let Event::Executed(executed) = events::tests::executed("overwrites", 0) else { panic!("not an end") };
        let mut executed = *executed;
        let shown = |executed: &ExecutionEnd| {
            let found = RecordedAging { executed: Some(executed), ..RecordedAging::default() };
            let rows = figures::summary_table(&rehearsal, executed).rows.len();
            (summary_words(&rehearsal, &found).contains(" in 1.0 s ("), rows)
        };
        let (has_seconds, rows) = shown(&executed);
        executed.lost = Some(LostTime { cause: Cause::Stopped, lost_us: 8_000_000, length_us: 16_300_000 });
        assert_eq!((has_seconds, shown(&executed)), (true, (false, rows - 2)));
    }

    #[test]
    fn warning_about_the_clock_names_the_pace() {
        let spec = |pace| super::spec::tests::age_spec(Data::Write, pace);
        let words = |clock, pace| clock_words(clock, &spec(pace), UnrequestedCommits::Of(0));
        assert!(words(Clock::NONE, None).unwrap().starts_with("aged without a clock"));
        let paced = words(Clock::NONE, Some(500.0)).unwrap();
        assert!(paced.starts_with("aged at 500 operations per second or fewer") && paced.contains("--pace"), "{paced}");
        assert!(!paced.contains("speed of the machine"), "{paced}");
        let in_bursts = AgeSpec { time_scale: Some(0.5), burst: Some(50), ..spec(None) };
        let virtual_time = clock_words(Clock::NONE, &in_bursts, UnrequestedCommits::Of(0)).unwrap();
        let expected = "aged at one operation per 2 s of virtual time in bursts of 50";
        assert!(virtual_time.starts_with(expected), "{virtual_time}");
        assert_eq!((words(Clock::default(), Some(500.0)), words(Clock::default(), None)), (None, None));
    }

    #[test]
    fn files_outside_the_plan_are_reported() {
        assert_eq!(other_files(100, 101), None, "the marker");
        for examined in [100, 107] {
            assert!(other_files(100, examined).unwrap().contains(&format!("{examined} files were found")));
        }
    }

    #[test]
    fn compressed_layout_is_known_only_at_its_end() {
        let of = |stopped_by| match events::tests::executed(stopped_by, 0) {
            Event::Executed(executed) => compressed_words(whole(Some(&executed))),
            _ => "",
        };
        assert!(of("convergence").contains("proven equal"));
        for stopped_by in ["time", "interrupt"] {
            assert!(of(stopped_by).contains("not complete") && !of(stopped_by).contains("proven"), "{stopped_by}");
        }
        assert!(compressed_words(None).contains("not complete"));
    }
}
