//! The runs of a study, their order and their estimated cost.

use crate::command::{Program, files};
use crate::estimate;
use crate::spec::{FileSystemSpec, StateKind, StateSpec, StudySpec};
use crate::subject::Subject;
use senesce_aging::{AgingPlan, Clock, Limit, PlanSpec, Profile};
use senesce_core::{Bytes, Failure, Plan, Seed};
use senesce_runner::Planned;
use senesce_runs::thread_memory::OWN_MEMORY;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An image: one file system in one state, aged once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ImageId {
    /// Index of the file system.
    pub fs: usize,
    /// Index of the state.
    pub state: usize,
    /// Number of the independent aging.
    pub image: u32,
}

/// One measurement to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId {
    /// The image.
    pub on: ImageId,
    /// Index of the workload.
    pub workload: usize,
    /// Number of the repetition.
    pub repetition: u32,
    /// Whether it is the second half of an A/A pair.
    pub twin: bool,
}

/// Returns the number of images of a state. Reproducible images need no second one.
fn images_of(spec: &StudySpec, state: &StateSpec) -> u32 {
    match state.kind {
        StateKind::Fresh | StateKind::Image => 1,
        _ => spec.images,
    }
}

/// Repetitions on each image of a state, if states with several images have `repetitions`: a state with a single image
/// gets as many values as the others.
pub(crate) fn repetitions_of(spec: &StudySpec, state: usize, repetitions: u32) -> u32 {
    repetitions * (spec.images / images_of(spec, &spec.state[state]))
}

/// Returns all runs in their order: shuffled, so that drift of the machine affects all cells alike.
pub fn runs(spec: &StudySpec) -> Vec<RunId> {
    let mut runs = Vec::new();
    for (fs, state, workload) in spec.combinations() {
        if spec.exception(fs, state, &spec.workload[workload].name).skip {
            continue;
        }
        for image in 0..images_of(spec, &spec.state[state]) {
            for repetition in 0..repetitions_of(spec, state, spec.repetitions) {
                runs.push(RunId { on: ImageId { fs, state, image }, workload, repetition, twin: false });
            }
        }
    }
    runs.extend(twins(spec, &runs));
    shuffle(&mut runs, Seed(spec.seed));
    runs
}

/// Repeats every file system and workload on the first image of the first state that is not skipped.
fn twins(spec: &StudySpec, runs: &[RunId]) -> Vec<RunId> {
    if !spec.noise {
        return Vec::new();
    }
    let mut first: BTreeMap<(usize, usize), ImageId> = BTreeMap::new();
    for run in runs {
        let on = first.entry((run.on.fs, run.workload)).or_insert(run.on);
        *on = (*on).min(run.on);
    }
    let is_first = |run: &&RunId| first.get(&(run.on.fs, run.workload)) == Some(&run.on);
    runs.iter().filter(is_first).map(|run| RunId { twin: true, ..*run }).collect()
}

fn shuffle(runs: &mut [RunId], seed: Seed) {
    use rand::Rng;
    let mut rng = seed.stream("study/order");
    for last in (1..runs.len()).rev() {
        let other = (u128::from(rng.next_u64()) * (last as u128 + 1)) >> 64;
        runs.swap(last, other as usize);
    }
}

/// Returns the seed of the aging of an image. It is the same for all file systems.
pub(crate) fn image_seed(spec: &StudySpec, image: u32) -> Seed {
    Seed(spec.seed).child(&format!("study/image/{image}"))
}

pub fn aging_plan(spec: &StudySpec, state: &StateSpec, image: u32) -> Result<AgingPlan, Failure> {
    let source = spec.source(state);
    let profile = Profile::load(&source.profile)?;
    let seed = image_seed(spec, image);
    Ok(AgingPlan::new(&PlanSpec {
        fullness: source.fullness,
        churn: source.churn,
        truncate: source.truncate,
        clock: Clock { commit_share: source.commit_share, sync_every: 0 },
        limit: source.overwrites.map_or(Limit::Bound, Limit::Overwrites),
        locality: source.locality.or(profile.locality),
        ..PlanSpec::new(profile, spec.size, seed)
    })?)
}

pub(crate) fn is_planned(state: &StateSpec) -> bool {
    matches!(state.kind, StateKind::Aged | StateKind::Copy | StateKind::WriteOnce)
}

/// Returns an upper bound of a file system's own space in an image. It is a share (a 64 MiB log or journal in 1 GiB;
/// btrfs keeps metadata twice). For btrfs, its reserves are added regardless of the size.
fn overhead(kind: &str, size: Bytes) -> u64 {
    match kind {
        "btrfs" => (size.0 as f64 * 0.06) as u64 + Bytes::mib(64).0,
        _ => (size.0 as f64 * 0.1) as u64,
    }
}

fn space_for_files(fs: &FileSystemSpec, size: Bytes) -> Result<u64, Failure> {
    match fs.is_zoned() {
        true => Ok(crate::zoned::space_for_files(fs.kind().map_err(Failure::usage)?, size)),
        false => Ok(size.0.saturating_sub(overhead(&fs.kind, size))),
    }
}

pub fn steps(spec: &StudySpec) -> Result<Vec<Planned<RunId>>, Failure> {
    spec.count()?;
    crate::support::check(spec)?;
    crate::guest::check(spec)?;
    planned_runs(spec)
}

pub(crate) fn seconds_of(spec: &StudySpec) -> Result<f64, Failure> {
    Ok(planned_runs(spec)?.iter().map(|planned| planned.seconds).sum())
}

pub(crate) fn planned_runs(spec: &StudySpec) -> Result<Vec<Planned<RunId>>, Failure> {
    let live = Live::of(spec)?;
    let mut costs: BTreeMap<(usize, usize, usize), (Bytes, f64)> = BTreeMap::new();
    let mut planned = Vec::new();
    for run in runs(spec) {
        let cell = (run.on.fs, run.on.state, run.workload);
        let (bytes, seconds) = match costs.get(&cell) {
            Some(cost) => *cost,
            None => *costs.entry(cell).or_insert(cost(spec, &run, live.bytes(run.on))?),
        };
        let text = format!("image {}, repetition {}", run.on.image, run.repetition);
        planned.push(Planned::new(run, text, cell_text(spec, &run)).costing(bytes, seconds));
    }
    let (_, in_guest) = crate::guest::split(spec, runs(spec));
    let in_guest: std::collections::BTreeSet<RunId> = in_guest.into_values().flatten().collect();
    planned.sort_by_key(|planned| in_guest.contains(&planned.step));
    Ok(planned)
}

fn cost(spec: &StudySpec, run: &RunId, used: u64) -> Result<(Bytes, f64), Failure> {
    let subject = Subject::of(&spec.workload_of(run.on.fs, run.on.state, run.workload))?;
    let needed = subject.bytes_needed(Seed(spec.seed))?;
    check_space(spec, run, used, needed)?;
    let exception = spec.exception(run.on.fs, run.on.state, &spec.workload[run.workload].name);
    check_memory(spec, run, exception.memory, subject.thread_memory())?;
    let rewritten = exception.device_state.unwrap_or_default().bytes_written(spec.size);
    let written = if spec.file_system[run.on.fs].device.is_some() { used as f64 / DEVICE_RATE } else { 0.0 };
    let seconds = subject.seconds(used as f64) + RUN_SECONDS + needed as f64 / 5e8 + rewritten / 3e8 + written;
    Ok((Bytes(needed + used + rewritten as u64), seconds))
}

/// Seconds of restoring an image in memory, two mounts, and the end of a run.
const RUN_SECONDS: f64 = 0.6;

/// Bytes a second at which an image is copied to a device and compared; a middling drive.
const DEVICE_RATE: f64 = 1e8;

struct Live(BTreeMap<(usize, usize), u64>);

impl Live {
    fn of(spec: &StudySpec) -> Result<Self, Failure> {
        let mut live = BTreeMap::new();
        for id in images(spec) {
            let state = &spec.state[id.state];
            let bytes = match is_planned(state) {
                true => aging_plan(spec, state, id.image)?.summary().bytes_live,
                false => state.space.unwrap_or_default(),
            };
            live.insert((id.fs, id.state), bytes.0);
        }
        Ok(Self(live))
    }

    fn bytes(&self, id: ImageId) -> u64 {
        self.0.get(&(id.fs, id.state)).copied().unwrap_or(0)
    }
}

fn images(spec: &StudySpec) -> Vec<ImageId> {
    let mut images: Vec<ImageId> = runs(spec).iter().map(|run| run.on).collect();
    images.sort();
    images.dedup();
    images
}

pub fn describe(spec: &StudySpec, mut plan: Plan) -> Result<Plan, Failure> {
    let steps = steps(spec)?;
    for id in images(spec) {
        let state = &spec.state[id.state];
        let name = format!("{} {}, image {}", spec.file_system[id.fs].name, state.name, id.image);
        let (written, seconds) = estimate::image_cost(spec, id)?;
        plan.estimated_seconds += seconds;
        plan.bytes_to_write += written;
        if state.kind == StateKind::Command {
            plan.step(format!("aged by {}", state.command.join(" ")), name);
            continue;
        }
        if !is_planned(state) {
            plan.step(state.kind.word(), name);
            continue;
        }
        let planned = aging_plan(spec, state, id.image)?;
        let operations = match state.kind {
            StateKind::Aged => planned.summary().t_end,
            _ => planned.summary().files,
        };
        plan.step(format!("{} by {operations} operations", state.kind.word()), name);
    }
    let mut counts: BTreeMap<(usize, usize, usize), u64> = BTreeMap::new();
    for Planned { step: run, .. } in &steps {
        *counts.entry((run.on.fs, run.on.state, run.workload)).or_default() += 1;
    }
    for (fs, state, workload) in spec.combinations() {
        let count = counts.get(&(fs, state, workload)).copied().unwrap_or(0);
        let names = [&spec.file_system[fs].name, &spec.state[state].name, &spec.workload[workload].name];
        if count > 0 {
            let most = if spec.until_decided { "at most " } else { "" };
            plan.step(
                format!("run {most}{count} times, interleaved"),
                format!("{} / {} / {}", names[0], names[1], names[2]),
            );
        }
    }
    plan.note(format!("sensitivity: {}", crate::questions::reach_text(spec)));
    for warning in warnings(spec)? {
        plan.note(warning);
    }
    let drive: u64 = steps.iter().map(|planned| planned.bytes_to_write.0).sum();
    plan.note(format!(
        "restoring images and running workloads write about {} of the total, to memory if the images fit there, else \
         to the drive of the run directory",
        Bytes(drive)
    ));
    plan.bytes_to_write += drive;
    let seconds = steps.iter().map(|planned| planned.seconds).sum::<f64>();
    plan.estimated_seconds += estimate::guest_seconds(spec);
    plan.estimated_seconds += if spec.until_decided { seconds.min(spec.most_seconds()) } else { seconds };
    Ok(plan)
}

pub(crate) fn warnings(spec: &StudySpec) -> Result<Vec<String>, Failure> {
    let mut cells: Vec<(usize, usize)> = runs(spec).iter().map(|run| (run.on.fs, run.on.state)).collect();
    cells.sort_unstable();
    cells.dedup();
    let mut found = Vec::new();
    for workload in &spec.workload {
        let missing = Subject::of(workload)?.missing();
        found.extend(missing.map(|words| format!("workload '{}' is not testable here: {words}", workload.name)));
        let left = files::left_behind([&workload.prepare, &workload.command], &spec.folder).into_iter();
        found.extend(left.map(|words| format!("workload '{}': {words}", workload.name)));
    }
    for state in &spec.state {
        let missing =
            Program::of_state(state).and_then(|program| Some(format!("{} is not installed", program.missing()?)));
        let left = files::left_behind([&state.command], &spec.folder);
        found.extend(missing.into_iter().chain(left).map(|words| format!("state '{}': {words}", state.name)));
    }
    for (fs, state) in cells.into_iter().map(|(fs, state)| (&spec.file_system[fs], &spec.state[state])) {
        if fs.is_zoned() && state.kind == StateKind::Aged {
            let plan = aging_plan(spec, state, 0)?;
            let (live, created) = (plan.summary().bytes_live, plan.summary().bytes_created);
            let kind = fs.kind().map_err(Failure::usage)?;
            let words = crate::zoned::may_run_full(kind, spec.size, live, created);
            found.extend(words.map(|words| format!("{} {}: {words}", fs.name, state.name)));
        }
    }
    Ok(found)
}

fn check_space(spec: &StudySpec, run: &RunId, used: u64, needed: u64) -> Result<(), Failure> {
    let space = space_for_files(&spec.file_system[run.on.fs], spec.size)?;
    if used + needed <= space {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}: its workload needs {} in addition to {} of files, but an image of {} has about {} for both; use a larger \
         size, a smaller fullness, or scale the workload down",
        cell_text(spec, run),
        Bytes(needed),
        Bytes(used),
        spec.size,
        Bytes(space),
    )))
}

/// Refuses a limit below the threads' own memory, because the kernel would kill them.
fn check_memory(spec: &StudySpec, run: &RunId, limit: Option<Bytes>, threads: u64) -> Result<(), Failure> {
    let least = Bytes(threads.saturating_add(OWN_MEMORY.0));
    match limit {
        Some(limit) if limit < least => Err(Failure::usage(format!(
            "{}: memory = {limit} is less than the {least} that the threads of its workload and the program need; \
             raise it, or reduce the memory of the threads, for example with set = {{ memsize = \"1m\" }} for a \
             personality",
            cell_text(spec, run),
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn cell_text(spec: &StudySpec, run: &RunId) -> String {
    let (fs, state) = (&spec.file_system[run.on.fs].name, &spec.state[run.on.state].name);
    format!("cell {fs} / {state} / {}", spec.workload[run.workload].name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> StudySpec {
        let text = r#"
name = "t"
size = "512M"
images = 2
repetitions = 3
noise = true
file_system = [{ kind = "ext4" }, { kind = "xfs" }]
state = [{ kind = "fresh" }, { kind = "aged", profile = "agrawal", fullness = 0.5 }]
workload = [{ personality = "webserver", scale = 0.1, seconds = 1 }]
"#;
        StudySpec::parse("t", text).unwrap()
    }

    #[test]
    fn every_cell_has_its_runs_in_a_fixed_random_order() {
        let all = runs(&spec());
        let twins = all.iter().filter(|run| run.twin).count();
        assert_eq!((all.len(), twins), (2 * 2 * 6 + 2 * 6, 2 * 6));
        assert_eq!(all, runs(&spec()));
        let mut sorted = all.clone();
        sorted.sort();
        assert_ne!(all, sorted);
        sorted.dedup();
        assert_eq!(sorted.len(), all.len());
    }

    #[test]
    fn file_next_to_the_study_gives_a_warning_in_any_directory() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("run.sh"), "").unwrap();
        let text = "name = 't'\nsize = '64M'\n[[file_system]]\nkind = 'ext4'\n[[state]]\nkind = 'fresh'\n[[workload]]\n\
                    name = 'mine'\ncommand = ['sh', 'run.sh']\n";
        let spec = StudySpec::parse(&directory.path().join("my.toml").to_string_lossy(), text).unwrap();
        let said = warnings(&spec).unwrap();
        assert!(said.len() == 1 && said[0].contains("'mine': run.sh is a file next to the study"), "{said:?}");
        assert!(
            !senesce_core::Plan::of_spec("t", Seed(1), &spec).unwrap().spec.contains_key("folder"),
            "it does not affect the run"
        );
    }

    #[test]
    fn aging_by_a_command_is_planned_and_its_space_counts() {
        let with = |space: &str| {
            let text = format!(
                "name = 't'\nsize = '64M'\nimages = 2\n[[file_system]]\nkind = 'ext4'\n[[state]]\nkind = 'fresh'\n[[state]]\n\
                 kind = 'command'\ncommand = ['no-such-program']\nspace = '{space}'\n[[workload]]\ncommand = ['true']\n\
                 space = '20M'\n"
            );
            StudySpec::parse("t", &text).unwrap()
        };
        let plan = describe(&with("20M"), Plan::of_spec("t", Seed(1), &with("20M")).unwrap()).unwrap();
        let aged = plan.steps.iter().filter(|step| format!("{step:?}").contains("aged by no-such-program"));
        assert_eq!(aged.count(), 2, "one for each image");
        assert_eq!(warnings(&with("20M")).unwrap(), ["state 'command': no-such-program is not installed"]);
        assert!(planned_runs(&with("50M")).unwrap_err().to_string().contains("ext4 / command / true"));
    }

    #[test]
    fn oversized_workload_is_reported_before_the_start() {
        let mut large = spec();
        large.workload[0].scale = Some(40.0);
        assert!(planned_runs(&large).unwrap_err().to_string().contains("ext4 / fresh / webserver"));
        let planned = planned_runs(&spec()).unwrap();
        assert!(planned.iter().all(|planned| planned.seconds > 1.0 && planned.bytes_to_write.0 > 0));
    }
}
