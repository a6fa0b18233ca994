//! Runs an aging: claims the target, rehearses, executes, reads the layout, closes.

use super::events::{Event, Rehearsal, Replanned, TimeLimit};
use super::execution::{self, Execution};
use super::extended_spec::ExtendedSpec;
use super::own_target::{self, RecordedTarget};
use super::parts::{Memory, memory_words};
use super::recorded_aging::has_only_a_request_since;
use super::rehearse::rehearse;
use super::space::{check_space, watch, with_fullness, writes};
use super::spec::{AgeSpec, Limits};
use super::start::Start;
use super::{Age, copies, final_layout, ranks};
use senesce_aging::{Data, Leftover, Summary, WorkUnit, leftovers};
use senesce_cluster::Cluster;
use senesce_core::interrupt::Interrupt;
use senesce_core::record::files::EVENTS;
use senesce_core::resume;
use senesce_core::{Environment, ExitCode, Failure, Plan, Progress, Record, RunDirectory};
use senesce_devmodel::last_write::LastWrites;
use senesce_runner::{Conduct, Context, Outcome, Recorded, Run, conduct, interrupted, spec_of};
use senesce_runs::write_order::{self, Recording};
use senesce_volume::guest::kernel_faults;
use senesce_volume::{ClaimedDirectory, MountedTarget, OpenOptions, TargetSpec, holds_only_ours, open};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

pub fn plan_only(spec: &AgeSpec, progress: &dyn Progress, interrupt: &Interrupt) -> Result<Value, Failure> {
    let course = ExtendedSpec::new(spec.clone());
    // Parts are planned one at a time, as with one rank per part.
    report_memory(&spec.summary()?, spec.parts, 1, progress);
    let parts: Vec<u32> = (0..spec.parts).collect();
    let rehearsed = rehearse(&course, &parts, progress, &|| interrupt.requested())?;
    let rehearsal = Rehearsal::of(&course, vec![rehearsed])?;
    let missed = spec.limits.missed(&rehearsal.summary);
    missed.into_iter().chain(spec.limits.unmet(&rehearsal.measures)).for_each(|words| progress.say(&words));
    let mut value = super::result::measures_json(&rehearsal, None);
    value["stopped_by"] = json!(rehearsal.ends_by);
    value["seed"] = json!(spec.seed);
    value["profile"] = json!(rehearsal.summary.profile);
    value["environment"] = json!(Environment::capture());
    Ok(value)
}

/// Continues the run in `path`. Given limits replace its own; a time limit replaces only its time limit. A run that stopped at
/// its time limit continues. A record stays as it is if its target is not there, or is another one.
///
/// # Errors
/// Those of a run with the same specification; limits that no plan can satisfy.
pub fn resume(path: &Path, limits: &Limits, how: &Conduct<'_>) -> Result<Outcome, Failure> {
    let (record, spec) = recorded(path)?;
    spec.check_clock()?;
    let recorded = Recorded::<Age>::of(&record)?;
    let mut spec = own_target::locate(spec, &recorded, path);
    let course = ExtendedSpec::of(&spec, recorded.events());
    let Some(event) = extended_by(course, limits, &recorded, record.is_partial())? else {
        return conduct::<Age>(&spec, spec.seed, how);
    };
    spec.check_recording()?;
    own_target::check_once(&mut spec, &recorded)?;
    let modified = path.join(EVENTS).metadata().and_then(|found| found.modified()).ok();
    let mut directory = RunDirectory::resume(path)?;
    directory.reopen_finished()?;
    directory.append_named(&[event])?;
    drop(directory);
    let outcome = conduct::<Age>(&spec, spec.seed, how);
    if outcome.is_err() && has_only_a_request_since(&record) {
        let taken_back = RunDirectory::resume(path).and_then(|mut run| run.take_back(&record, modified));
        if let Err(error) = taken_back {
            how.progress.say(&format!("the record could not be restored: {error}"));
        }
    }
    outcome
}

/// Reads the specification of the run in `path`, with the absolute path of its target.
///
/// # Errors
/// It is not the record of an aging.
pub fn spec_of_run(path: &Path) -> Result<AgeSpec, Failure> {
    let (record, spec) = recorded(path)?;
    Ok(own_target::locate(spec, &Recorded::of(&record)?, path))
}

/// Returns whether `path` is the run directory of an aging.
pub fn is_aging(path: &Path) -> bool {
    Plan::of_run(path).is_ok_and(|plan| plan.kind == Age::KIND)
}

fn recorded(path: &Path) -> Result<(Record, AgeSpec), Failure> {
    let record = Record::open(path)?;
    if record.plan.kind != Age::KIND {
        let repeat = resume::command("runs repeat", path);
        return Err(Failure::usage(format!("{} is not an aging\nhint: to continue it, use {repeat}", path.display())));
    }
    let spec = spec_of::<Age>(&record)?;
    Ok((record, spec))
}

/// Returns the new request that given limits make; `None` if they change nothing.
fn extended_by(
    course: ExtendedSpec,
    limits: &Limits,
    recorded: &Recorded<Age>,
    is_partial: bool,
) -> Result<Option<Event>, Failure> {
    let limits = limits.given_to(course.limits());
    if !limits.plan_as(course.limits()) {
        return replanned(course, &limits, recorded).map(Some);
    }
    let has_other_time = limits.max_seconds != course.limits().max_seconds;
    // An aging in memory is lost, so it would get no further in the same time.
    let goes_on = was_out_of_time(recorded) && (has_other_time || Start::of(&course.spec, recorded).continues);
    let asks = goes_on || is_partial && has_other_time;
    Ok(asks.then_some(Event::TimeLimit(TimeLimit { max_seconds: limits.max_seconds })))
}

/// Returns the new limits as an event. Limits that no plan can satisfy are refused before they are recorded.
fn replanned(mut course: ExtendedSpec, limits: &Limits, recorded: &Recorded<Age>) -> Result<Event, Failure> {
    let reached = Start::of(&course.spec, recorded);
    if reached.continues && reached.operation > 0 {
        let replanned = Replanned { operation: reached.operation, limits: limits.clone() };
        course.replans.push(replanned.clone());
        // Each part has already created files of its own.
        for part in 0..course.spec.parts {
            course.planner(part)?;
        }
        return Ok(Event::Replanned(replanned));
    }
    course.spec.limits = limits.clone();
    course.spec.summary()?;
    Ok(Event::Spec(Box::new(course.spec)))
}

fn was_out_of_time(recorded: &Recorded<Age>) -> bool {
    rounds(recorded).1
}

/// Returns the number of requests (other limits, or more time), and whether the time limit has expired now.
pub(crate) fn rounds(recorded: &Recorded<Age>) -> (usize, bool) {
    recorded.events().fold((0, false), |(rounds, is_over), event| match event {
        Event::Replanned(_) | Event::Spec(_) => (rounds + 1, false),
        Event::TimeLimit(_) if is_over => (rounds + 1, false),
        Event::Executed(executed) => (rounds, executed.stopped_by == "time"),
        _ => (rounds, is_over),
    })
}

/// Opens the target where the run stopped, or from the start. From then on an image made by this run belongs to it, even if the
/// run ends before it ages anything.
pub(crate) fn begin(spec: &AgeSpec, context: &mut Context<'_, Age>) -> Result<Age, Failure> {
    let located = own_target::locate(spec.clone(), context.recorded(), context.path());
    let mut course = ExtendedSpec::of(&located, context.recorded().events());
    let start = Start::of(&course.spec, context.recorded());
    own_target::check_once(&mut course.spec, context.recorded())?;
    let earlier = earlier_order(&course.spec, start.continues)?;
    // A continued run needs it if its marker was lost.
    let identity = match start.continues {
        true => RecordedTarget::in_record(context.recorded()).and_then(|known| known.identity.clone()),
        false => own_target::new_identity(&course.spec, context.identity()),
    };
    let earlier_faults = kernel_faults();
    let target = open_own(&course.spec, start.continues, identity.clone(), context)?;
    let new_target = match start.continues {
        true => RecordedTarget::moved(&target, context.recorded(), context.path()),
        false => RecordedTarget::of(&target, identity, context.path()),
    };
    if start.continues {
        own_target::check_mounted(&target, &course.spec, context.recorded())?;
        context.progress.say(&format!("continuing after operation {}", start.operation));
    } else if !course.replans.is_empty() {
        // The state of earlier parts is lost with the memory: the run starts from operation 0 under its last limits.
        course.spec.limits = course.limits().clone();
        course = ExtendedSpec::new(course.spec);
        context.record_now(Event::Spec(Box::new(course.spec.clone())))?;
    }
    let recording = course.spec.record_order.then(|| Recording::begin(&target, earlier)).transpose()?;
    Ok(Age { course, start, new_target, target: Some(target), recording, earlier_faults })
}

/// Returns the write order recorded by an earlier part of the run; incomplete if a part was killed.
fn earlier_order(spec: &AgeSpec, continues: bool) -> Result<Option<LastWrites>, Failure> {
    match spec.local_target() {
        Some(TargetSpec::Image { path, .. }) if spec.record_order && continues => write_order::load(path).map(Some),
        _ => Ok(None),
    }
}

/// Closes the target. The order of its writes is complete after the unmount and is stored next to the image.
fn close(target: MountedTarget, recording: Option<Recording>, context: &mut Context<'_, Age>) -> Result<(), Failure> {
    // umount(2) does not report data that it could not write.
    target.sync()?;
    let (Some(recording), Some(image)) = (recording, target.spec().path().map(Path::to_path_buf)) else {
        return Ok(target.close()?);
    };
    // The aging is valid without it.
    match target.close_with(|_| Ok(recording.end()))? {
        Ok(order) => {
            let path = write_order::save(&order, &image)?;
            context.progress.say(&format!("{}: the order of the last writes of all blocks", path.display()));
        }
        Err(invalid) => context.caveat(format!("aged without a record of the order of writes: {invalid}")),
    }
    Ok(())
}

fn open_own(
    spec: &AgeSpec,
    continues: bool,
    identity: Option<String>,
    context: &mut Context<'_, Age>,
) -> Result<MountedTarget, Failure> {
    let image = match spec.local_target() {
        Some(image @ TargetSpec::Image { size, .. }) if !continues && size.or(spec.size).is_some() => image,
        _ => return open_target(spec, continues, identity, context.erase().map(str::to_string)),
    };
    let path = image.path().map(Path::to_path_buf).unwrap_or_default();
    // A dangling link also exists and must not be removed.
    let is_new = path.symlink_metadata().is_err();
    let erase = context.may_erase(image.image(), holds_only_ours)?;
    let opened = open_target(spec, continues, identity, erase);
    if opened.is_err() && is_new {
        let _ = std::fs::remove_file(&path);
    }
    opened
}

fn open_target(
    spec: &AgeSpec,
    continues: bool,
    identity: Option<String>,
    erase: Option<String>,
) -> Result<MountedTarget, Failure> {
    let target = spec
        .local_target()
        .ok_or_else(|| Failure::usage("name a target: image:FILE,size=1G, memory:1G, a device or a directory"))?;
    let target =
        open(target, &OpenOptions { identity: identity.clone(), ..open_options(spec, erase.clone(), continues) })?;
    // Other shards of the plan may have started.
    if !continues && spec.shard.is_none() {
        clear(target.directory(), erase.as_deref())?;
    }
    // A directory keeps the marker of an earlier run until the files of that run are gone.
    if let (Some(identity), TargetSpec::Directory(_), false) = (&identity, target.spec(), continues) {
        target.directory().mark(identity)?;
    }
    Ok(target)
}

pub(super) fn open_options(spec: &AgeSpec, erase: Option<String>, continues: bool) -> OpenOptions {
    let writes = spec.summary().ok().and_then(|summary| writes(spec, &summary));
    OpenOptions {
        file_system: spec.file_system,
        mkfs_options: spec.mkfs_options.clone(),
        mount_options: spec.mount_options.clone(),
        in_memory: spec.in_memory,
        writes,
        skips_tables: spec.data != Data::Write && writes.is_some(),
        size: spec.size,
        erase,
        keep_existing: continues,
        ..OpenOptions::default()
    }
}

fn clear(directory: &ClaimedDirectory, erase: Option<&str>) -> Result<(), Failure> {
    let path = directory.path().display();
    let left = leftovers(directory)?;
    if left.is_empty() {
        return Ok(());
    }
    if erase != Some(&*path.to_string()) {
        let words = format!(
            "refused to use {path}: it holds the files of an earlier run; choose an empty directory, continue that run with \
             --resume, or allow the loss of its files with --erase {path}"
        );
        return Err(Failure::new(ExitCode::Refused, words));
    }
    Ok(left.iter().try_for_each(Leftover::remove)?)
}

pub(crate) fn age(age: &mut Age, context: &mut Context<'_, Age>) -> Result<(), Failure> {
    // Planning and restoring count towards the time limit.
    let begun = Instant::now();
    let (course, start) = (&age.course, age.start);
    let Some(target) = &mut age.target else { return Ok(()) };
    context.add_environment(&target.environment())?;
    if let Some(cluster) = Cluster::among(context.peers) {
        ranks::share(cluster, target.directory(), course, context)?;
    }
    let rehearsal = rehearsal(course, context)?;
    if let Some(known) = age.new_target.take() {
        context.record_now(Event::Target(known))?;
    }
    if start.continues {
        let space = target.growth_space(writes(&course.spec, &rehearsal.summary));
        watch(context.path(), space, (start.operation, rehearsal.positions))?;
        context.record_now(Event::Continued)?;
    }
    if !start.continues {
        let (progress, interrupt) = (context.progress, context.interrupt);
        let rehearse = |fullness| with_fullness(course, fullness, progress, &|| interrupt.requested());
        check_space(&rehearsal, target.directory().path(), &rehearse)?;
    }
    let execution = Execution {
        course,
        restores: start.continues.then_some(start.comparison),
        from: start.operation,
        len: rehearsal.positions,
        seconds_before: start.seconds,
        begun,
        fill: rehearsal.summary.files,
        unit: WorkUnit::of(course.spec.data, &rehearsal.summary, rehearsal.positions),
        space: &|| target.growth_space(writes(&course.spec, &rehearsal.summary)),
    };
    let executed = execution::run(&execution, target.directory(), context);
    let executed = match executed {
        Ok(executed) => executed,
        Err(failure) => {
            record_kernel_warnings(target, &age.earlier_faults, context)?;
            return Err(failure);
        }
    };
    // Before the layout is examined: a later sync does not report the same failed write again.
    target.sync()?;
    let is_whole = executed.stopped_by != "interrupt";
    let operations = executed.measures.operations;
    context.record_now(Event::Executed(Box::new(executed)))?;
    if is_whole {
        context.record_now(Event::Layout(Box::new(final_layout::examine(target, &age.course.spec))))?;
        if age.course.spec.copies {
            let made = copies::make(&age.course.spec, target, context.progress)?;
            context.record_now(Event::Copies(Box::new(made)))?;
        }
    }
    if is_whole && age.course.spec.measure {
        let read = super::measured::read(target, context)?;
        context.record_now(Event::MeasuredRead(Box::new(read)))?;
    }
    let warned = record_kernel_warnings(target, &age.earlier_faults, context)?;
    target.kernel_log_caveat().into_iter().for_each(|words| context.caveat(words));
    context.progress.phase("writing back", 0, "");
    if let Some(target) = age.target.take() {
        close(target, age.recording.take(), context)?;
    }
    context.record_now(Event::Closed(operations))?;
    if warned {
        let words =
            format!("the kernel warned about the target during the run; see the record {}", context.path().display());
        return Err(Failure::new(ExitCode::RunFailed, words));
    }
    if is_whole { Ok(()) } else { Err(interrupted()) }
}

fn rehearsal(course: &ExtendedSpec, context: &mut Context<'_, Age>) -> Result<Rehearsal, Failure> {
    let earlier = context.recorded().events().rev().find_map(|event| match event {
        Event::Rehearsal(rehearsal) => Some(rehearsal.clone()),
        _ => None,
    });
    if let Some(earlier) = earlier.filter(|earlier| earlier.course.as_ref().is_some_and(|of| of.plans_as(course))) {
        return Ok(*earlier);
    }
    let members = Cluster::among(context.peers).map(Cluster::members).unwrap_or_default();
    let here = members.iter().filter(|member| member.host == members[0].host).count();
    report_memory(&course.spec.summary()?, members.len().max(1) as u32, here.max(1) as u32, context.progress);
    let rehearsed = match Cluster::among(context.peers) {
        Some(cluster) => ranks::rehearse(cluster, course, context)?,
        None => {
            let parts: Vec<u32> = (0..course.spec.parts).collect();
            vec![rehearse(course, &parts, context.progress, &|| context.interrupt.requested())?]
        }
    };
    let rehearsal = Rehearsal::of(course, rehearsed)?;
    context.record_now(Event::Rehearsal(Box::new(rehearsal.clone())))?;
    Ok(rehearsal)
}

fn report_memory(summary: &Summary, ranks: u32, here: u32, progress: &dyn Progress) {
    let words = Memory::here().and_then(|memory| memory_words(summary, ranks, here, memory));
    if let Some(words) = words {
        progress.say(&words);
    }
}

fn record_kernel_warnings(
    target: &MountedTarget,
    earlier_faults: &[String],
    context: &mut Context<'_, Age>,
) -> Result<bool, Failure> {
    let mut warnings = target.kernel_warnings();
    let is_new = |line: &String| !warnings.contains(line) && !earlier_faults.contains(line);
    let faults: Vec<String> = kernel_faults().into_iter().filter(is_new).collect();
    warnings.extend(faults);
    let warned = !warnings.is_empty();
    warnings.into_iter().try_for_each(|warning| context.record_now(Event::KernelWarning(warning)))?;
    Ok(warned)
}

pub(crate) fn peak_rss_bytes() -> u64 {
    senesce_sys::memory::peak_resident_bytes().unwrap_or(0)
}
