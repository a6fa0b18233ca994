//! The run itself: claim the target, rehearse, execute, look at the layout, close.

use super::course::Course;
use super::crew;
use super::events::{Checkpoint, LayoutSeen, Rehearsal, Replanned};
use super::execution::{self, Execution};
use super::parts::{Memory, memory_words};
use super::rehearse::rehearse;
use super::room::check_room;
use super::spec::{AgeSpec, Limits};
use crate::conduct::{Outcome, default_path};
use crate::own_image;
use crate::registry;
use senesce_aging::{Leftover, Summary, leftovers};
use senesce_cluster::Cluster;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Environment, ExitCode, Failure, Progress, Record, RunDirectory};
use senesce_layout::Layout;
use senesce_target::{ClaimedDirectory, MountedTarget, OpenOptions, TargetSpec, open};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What a run is given beside its specification.
pub struct Hooks<'a> {
    /// Whom it tells how far it is.
    pub progress: &'a dyn Progress,
    /// Whether it should stop.
    pub interrupt: &'a Interrupt,
    /// The ranks that play the plan together, where there are several.
    pub cluster: Option<&'a Cluster>,
}

/// Where its record is kept.
pub struct Place {
    /// The run directory, if the user named one.
    pub out: Option<PathBuf>,
    /// Where run directories are kept otherwise.
    pub runs: PathBuf,
    /// Run anew although the same plan was run before.
    pub again: bool,
}

/// Plans and measures without a target or a record; the JSON of the contract.
pub fn plan_only(spec: &AgeSpec, hooks: &Hooks<'_>) -> Result<Value, Failure> {
    let course = Course::new(spec.clone());
    // One part after the other, as if there were a rank for each.
    say_memory(&spec.summary()?, spec.parts, 1, hooks.progress);
    let parts: Vec<u32> = (0..spec.parts).collect();
    let rehearsed = rehearse(&course, &parts, hooks.progress, &|| hooks.interrupt.requested())?;
    let rehearsal = Rehearsal::of(&course, vec![rehearsed])?;
    let mut value = super::measures_json(&rehearsal, None);
    value["stopped_by"] = json!(rehearsal.ends_by);
    value["seed"] = json!(spec.seed);
    value["profile"] = json!(rehearsal.summary.profile);
    value["environment"] = json!(Environment::capture());
    Ok(value)
}

/// Ages the target of `spec`, or continues where an interrupted run of the same specification stopped.
pub fn run(spec: &AgeSpec, place: &Place, erase: Option<String>, hooks: &Hooks<'_>) -> Result<Outcome, Failure> {
    let document = spec.plan(&spec.summary()?);
    let path = place.out.clone().unwrap_or_else(|| default_path(&place.runs, &document, place.again));
    let environment = Environment::capture();
    if path.join("plan.toml").exists() {
        let directory = RunDirectory::open(&path, &document, &environment)?;
        let course = Course::of(directory.earlier_events()).unwrap_or_else(|| Course::new(spec.clone()));
        return proceed(course, directory, erase, hooks);
    }
    // A target that is refused leaves no run directory behind.
    let target = open_target(spec, false, erase)?;
    let mut directory = RunDirectory::open(&path, &document, &environment)?;
    directory.append("spec", spec)?;
    if let Some(Ok(image)) = spec.target.as_deref().map(str::parse) {
        own_image::remember(&image, &mut directory)?;
    }
    age(&Course::new(spec.clone()), directory, target, Start::default(), hooks)
}

/// Continues the run in `path`. Limits that are given replace its own; without any, its own hold.
pub fn resume(path: &Path, limits: &Limits, erase: Option<String>, hooks: &Hooks<'_>) -> Result<Outcome, Failure> {
    let record = Record::open(path)?;
    let words =
        || Failure::usage(format!("{} is no ageing that could be continued; repeat its command", path.display()));
    let mut course = Course::of(&record.events).ok_or_else(words)?;
    let mut directory = RunDirectory::resume(path)?;
    if *limits != Limits::default() && limits != course.limits() {
        let reached = Start::of(&course.spec, &directory);
        if reached.continues && reached.operation > 0 {
            let replanned = Replanned { operation: reached.operation, limits: limits.clone() };
            course.replans.push(replanned.clone());
            // Limits that cannot be planned for are refused before they enter the record.
            course.planner(0)?;
            directory.reopen_finished()?;
            directory.append("replanned", &replanned)?;
        } else {
            course.spec.limits = limits.clone();
            course = Course::new(course.spec);
            course.spec.summary()?;
            directory.reopen_finished()?;
        }
    }
    proceed(course, directory, erase, hooks)
}

fn proceed(
    mut course: Course,
    mut directory: RunDirectory,
    erase: Option<String>,
    hooks: &Hooks<'_>,
) -> Result<Outcome, Failure> {
    let path = directory.path().to_path_buf();
    if directory.is_finished() {
        let analysis = registry::analyse(&Record::open(&path)?)?;
        return Ok(Outcome { path, analysis, was_finished: true, interrupted: false });
    }
    let start = Start::of(&course.spec, &directory);
    let target = open_own(&course.spec, start.continues, erase, &mut directory)?;
    if start.continues {
        hooks.progress.say(&format!("continuing after operation {}", start.operation));
    } else {
        // What earlier parts did is gone with its memory: the run begins anew under its last limits.
        course.spec.limits = course.limits().clone();
        course = Course::new(course.spec);
        directory.append("spec", &course.spec)?;
    }
    age(&course, directory, target, start, hooks)
}

/// Where an execution begins.
#[derive(Debug, Clone, Copy, Default)]
struct Start {
    /// The target holds the state of an earlier part of the run.
    continues: bool,
    /// Every operation below this one is done.
    operation: u64,
    /// Seconds of execution so far.
    seconds: f64,
}

impl Start {
    fn of(spec: &AgeSpec, directory: &RunDirectory) -> Self {
        let Some(checkpoint) = last::<Checkpoint>(directory, "checkpoint") else { return Self::default() };
        let is_memory = matches!(spec.target.as_deref().map(str::parse), Some(Ok(TargetSpec::Memory { .. })));
        // An image held in memory is in its file only once it was closed.
        let closed = directory.earlier_events().last().is_some_and(|event| event.kind == "closed");
        if is_memory || (spec.in_memory && !closed) {
            return Self::default();
        }
        Self { continues: true, operation: checkpoint.operation, seconds: checkpoint.seconds }
    }
}

fn last<T: DeserializeOwned>(directory: &RunDirectory, kind: &str) -> Option<T> {
    let event = directory.earlier_events().iter().rev().find(|event| event.kind == kind)?;
    T::deserialize(&event.data).ok()
}

/// Opens the target. An image that this run makes is its own from then on, also when it ends before it has aged anything.
fn open_own(
    spec: &AgeSpec,
    continues: bool,
    erase: Option<String>,
    directory: &mut RunDirectory,
) -> Result<MountedTarget, Failure> {
    let image = match spec.target.as_deref().map(str::parse) {
        Some(Ok(image @ TargetSpec::Image { size, .. })) if !continues && size.or(spec.size).is_some() => image,
        _ => return open_target(spec, continues, erase),
    };
    let path = image.path().map(Path::to_path_buf).unwrap_or_default();
    let is_new = !path.exists();
    let erase = own_image::erase(&image, erase.as_deref().unwrap_or_default(), directory)?;
    let opened = open_target(spec, continues, erase);
    if opened.is_err() && is_new {
        let _ = std::fs::remove_file(&path);
    }
    opened
}

fn open_target(spec: &AgeSpec, continues: bool, erase: Option<String>) -> Result<MountedTarget, Failure> {
    let words = spec
        .target
        .as_deref()
        .ok_or_else(|| Failure::usage("name a target: image:FILE,size=1G, memory:1G, a device or a directory"))?;
    let options = OpenOptions {
        file_system: spec.file_system,
        mkfs_options: spec.mkfs_options.clone(),
        mount_options: spec.mount_options.clone(),
        in_memory: spec.in_memory,
        size: spec.size,
        erase: erase.clone(),
        keep_existing: continues,
        read_only: false,
    };
    let target = open(&words.parse::<TargetSpec>()?, &options)?;
    // Other shards of the plan may have begun.
    if !continues && spec.shard.is_none() {
        clear(target.directory(), erase.as_deref())?;
    }
    Ok(target)
}

/// Deletes what an earlier plan left in a directory, if its loss was allowed.
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

fn age(
    course: &Course,
    mut directory: RunDirectory,
    mut target: MountedTarget,
    start: Start,
    hooks: &Hooks<'_>,
) -> Result<Outcome, Failure> {
    directory.add_environment(&target.environment())?;
    if let Some(cluster) = hooks.cluster {
        crew::share(cluster, target.directory(), course, &mut directory, hooks)?;
    }
    let rehearsal = rehearsal(course, &mut directory, hooks)?;
    if !start.continues {
        check_room(&rehearsal, target.directory().path())?;
    }
    let execution = Execution {
        course,
        continues: start.continues,
        from: start.operation,
        len: rehearsal.positions,
        seconds_before: start.seconds,
    };
    let outcome = execution::run(&execution, target.directory(), &mut directory, hooks);
    let executed = match outcome {
        Ok(executed) => executed,
        Err(failure) => {
            record_kernel_warnings(&mut target, &mut directory)?;
            // An end that all ranks know is in the record already.
            if hooks.cluster.is_none_or(|cluster| cluster.ending().is_none()) {
                directory.append("failed", &failure.to_string())?;
            }
            return Err(failure);
        }
    };
    let interrupted = executed.stopped_by == "interrupt";
    directory.append("executed", &executed)?;
    if !interrupted {
        directory.append("layout", &see_layout(&target))?;
    }
    let warned = record_kernel_warnings(&mut target, &mut directory)?;
    hooks.progress.phase("writing back", 0, "");
    target.close()?;
    directory.append("closed", &executed.measures.operations)?;
    finish(directory, interrupted, warned)
}

/// The rehearsal of an earlier part of the run, or a new one.
fn rehearsal(course: &Course, directory: &mut RunDirectory, hooks: &Hooks<'_>) -> Result<Rehearsal, Failure> {
    let earlier = last::<Rehearsal>(directory, "rehearsal");
    if let Some(earlier) = earlier.filter(|earlier| earlier.course.as_ref() == Some(course)) {
        return Ok(earlier);
    }
    let members = hooks.cluster.map(Cluster::members).unwrap_or_default();
    let here = members.iter().filter(|member| member.host == members[0].host).count();
    say_memory(&course.spec.summary()?, members.len().max(1) as u32, here.max(1) as u32, hooks.progress);
    let rehearsed = match hooks.cluster {
        Some(cluster) => crew::rehearse(cluster, course, hooks)?,
        None => {
            let parts: Vec<u32> = (0..course.spec.parts).collect();
            vec![rehearse(course, &parts, hooks.progress, &|| hooks.interrupt.requested())?]
        }
    };
    let rehearsal = Rehearsal::of(course, rehearsed)?;
    directory.append("rehearsal", &rehearsal)?;
    Ok(rehearsal)
}

/// Says how much memory `here` of the `ranks` that play a plan will take, where it is much.
fn say_memory(summary: &Summary, ranks: u32, here: u32, progress: &dyn Progress) {
    let words = Memory::here().and_then(|memory| memory_words(summary, ranks, here, memory));
    if let Some(words) = words {
        progress.say(&words);
    }
}

fn finish(mut directory: RunDirectory, interrupted: bool, warned: bool) -> Result<Outcome, Failure> {
    let path = directory.path().to_path_buf();
    if interrupted {
        directory.sync()?;
    }
    let analysis = registry::analyse(&Record::open(&path)?)?;
    if warned {
        let words =
            format!("the kernel warned about the target during the run; the record {} says what", path.display());
        return Err(Failure::new(ExitCode::RunFailed, words));
    }
    if !interrupted {
        directory.finish(&analysis.result)?;
    }
    Ok(Outcome { path, analysis, was_finished: false, interrupted })
}

fn record_kernel_warnings(target: &mut MountedTarget, directory: &mut RunDirectory) -> Result<bool, Failure> {
    let warnings = target.kernel_warnings();
    for warning in &warnings {
        directory.append("kernel-warning", warning)?;
    }
    Ok(!warnings.is_empty())
}

fn see_layout(target: &MountedTarget) -> LayoutSeen {
    let seen = target.sync().map_err(|error| error.to_string());
    match seen.and_then(|()| Layout::of(target.mount_point()).map_err(|error| error.to_string())) {
        Ok(layout) => LayoutSeen { layout: Some(layout), problem: String::new() },
        Err(problem) => LayoutSeen { layout: None, problem },
    }
}

/// Most memory of this process so far, in bytes.
pub fn peak_rss_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let words = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    words.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}
