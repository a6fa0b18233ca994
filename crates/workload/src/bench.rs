//! Prepares a workload on a claimed directory, and runs it.

use crate::engine::account::missing_files;
use crate::engine::clock::Clock;
use crate::engine::conduct::{Length, Measure, conduct};
use crate::engine::file_calls::{FileCalls, Null, System};
use crate::engine::latency::Latencies;
use crate::engine::program::{Program, Programs, Target};
use crate::engine::shared::{ActiveFileset, Shared, Totals};
use crate::engine::synchronize::{EventGenerator, Waits};
use crate::engine::threads::semaphores;
use crate::error::WorkloadError;
use crate::fileset::populate::{PopulateOptions, Populated, populate, root_of};
use crate::fileset::{Layout, Population};
use crate::model::{FlowopKind, Step, Workload};
use crate::result::{FilesetSummary, Repetition};
use crate::trusted::{check_files, check_tree};
use hdrhistogram::Histogram;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Progress;
use senesce_core::{Bytes, Seed};
use senesce_volume::{ClaimedDirectory, CommandGroup};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    #[default]
    System,
    /// No execution: measures the engine itself. Writes nothing.
    Null,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Seed of every random choice of the workload.
    pub seed: Seed,
    /// Seed of a population other than Filebench's.
    pub populate_seed: Option<u64>,
    /// Run length; `None`: as in the workload, otherwise 60 s.
    pub length: Option<Length>,
    /// Time before counting begins, in addition to the workload's.
    pub warm_up: Duration,
    /// Length of recorded intervals; `None`: as in the workload, otherwise 1 s.
    pub interval: Option<Duration>,
    /// Choose files randomly instead of in rotation.
    pub random_choice: bool,
    pub populate_threads: usize,
    /// A longer system call is reported.
    pub stuck_after: Duration,
    pub execution: Execution,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: senesce_core::seed::DEFAULT_SEED,
            populate_seed: None,
            length: None,
            warm_up: Duration::ZERO,
            interval: None,
            random_choice: false,
            populate_threads: std::thread::available_parallelism().map_or(4, |count| usize::from(count).clamp(2, 32)),
            stuck_after: Duration::from_secs(60),
            execution: Execution::System,
        }
    }
}

const DEFAULT_SECONDS: u64 = 60;

/// A prepared workload with populated file sets. Holds no descriptors, so the file system can be remounted before [`Bench::run`].
#[derive(Debug)]
pub struct Bench {
    workload: Workload,
    layouts: Vec<Layout>,
    roots: Vec<PathBuf>,
    options: Options,
    pub populated: Vec<Populated>,
    pub populate_seconds: f64,
    /// Background commands of the workload, ended on drop.
    commands: Vec<CommandGroup>,
}

pub struct FinishedBench {
    pub repetition: Repetition,
    /// Latency histograms in ns, by flowop.
    pub histograms: Vec<(String, Histogram<u64>)>,
}

impl Bench {
    /// Draws and populates the file sets of `workload` in `directory`, and runs its preparation steps.
    pub fn prepare(
        workload: &Workload,
        directory: &ClaimedDirectory,
        options: Options,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<Self, WorkloadError> {
        let mut bench = Self::adopt(workload, directory, options, options.seed)?;
        let target = directory.path();
        if options.execution == Execution::System {
            bench.check_space(target)?;
        }
        for step in &workload.steps {
            if interrupt.requested() {
                return Err(WorkloadError::Interrupted("preparing".into()));
            }
            match step {
                Step::CreateFiles => bench.create_files(progress, interrupt)?,
                Step::Echo(text) => progress.say(text),
                Step::Sleep(seconds) => std::thread::sleep(Duration::from_secs(*seconds)),
                Step::System(command) => bench.commands.push(shell(command, target, progress)?),
            }
        }
        Ok(bench)
    }

    /// Uses the file sets that another process has populated in `directory` by [`Bench::prepare`] with the seed `drawn`.
    pub fn adopt(
        workload: &Workload,
        directory: &ClaimedDirectory,
        options: Options,
        drawn: Seed,
    ) -> Result<Self, WorkloadError> {
        let layouts = Population::new(workload, drawn, options.populate_seed).draw(&workload.filesets)?;
        let roots = layouts.iter().map(|layout| root_of(layout, directory.path())).collect::<Result<Vec<_>, _>>()?;
        for (root, layout) in roots.iter().zip(&layouts) {
            // An old tree is removed and created again; a reused one is opened.
            let entered = layout.spec.reuse || layout.spec.trusttree;
            directory.check_beneath(&if entered { root.join("any") } else { root.clone() })?;
        }
        let workload = workload.clone();
        Ok(Self {
            workload,
            layouts,
            roots,
            options,
            populated: Vec::new(),
            populate_seconds: 0.0,
            commands: Vec::new(),
        })
    }

    /// Returns the name of the first flowop that creates or deletes files or directories. Several processes cannot run
    /// it on one file set, because each only knows its own changes.
    pub fn changes_names(workload: &Workload) -> Option<String> {
        use FlowopKind as K;
        let programs = Programs::compile(workload);
        let changes = |kind| matches!(kind, K::CreateFile | K::DeleteFile | K::MakeDirectory | K::RemoveDirectory);
        let found = programs.flowops.iter().find(|(_, kind)| changes(*kind));
        found.map(|(name, _)| name.clone())
    }

    /// Warns about flowops whose `directio` has no effect, because an `openfile` or `createfile` without it opened
    /// their descriptor before.
    pub fn directio_warning(workload: &Workload) -> Option<String> {
        use FlowopKind as K;
        let opens = |kind| matches!(kind, K::OpenFile | K::CreateFile);
        let programs = Programs::compile(workload);
        let mut names: Vec<String> = Vec::new();
        for program in &programs.list {
            let is_buffered =
                |fd| program.flowops().any(|one| opens(one.spec.kind) && one.spec.fd == fd && !one.spec.directio);
            let found =
                program.flowops().filter(|one| one.spec.directio && !opens(one.spec.kind) && is_buffered(one.spec.fd));
            names.extend(found.map(|one| one.spec.name.clone()));
        }
        (!names.is_empty()).then(|| {
            format!(
                "directio=1 has no effect on {}: the flowop that opens the file decides; add directio=1 there",
                names.join(", ")
            )
        })
    }

    pub fn filesets(&self) -> Vec<FilesetSummary> {
        self.layouts.iter().map(summary).collect()
    }

    fn check_space(&self, target: &Path) -> Result<(), WorkloadError> {
        let needed: u64 = self.layouts.iter().map(Layout::existing_bytes).sum();
        let reused = self.workload.filesets.iter().any(|fileset| fileset.reuse || fileset.trusttree);
        let found = rustix::fs::statvfs(target).map_err(WorkloadError::io("determine the free space of", target))?;
        // Space of earlier file sets, which are removed first, counts as free.
        let free = found.f_bavail * found.f_frsize;
        let total = found.f_blocks * found.f_frsize;
        if !reused && needed > total || needed > free && !self.roots.iter().any(|root| root.exists()) {
            return Err(WorkloadError::Missing {
                what: format!(
                    "space for the file sets ({}) in {} ({} free)",
                    Bytes(needed),
                    target.display(),
                    Bytes(free)
                ),
                remedy: "make them smaller with --scale or --set, or use a larger target".into(),
            });
        }
        Ok(())
    }

    fn create_files(&mut self, progress: &dyn Progress, interrupt: &Interrupt) -> Result<(), WorkloadError> {
        if self.options.execution == Execution::Null || !self.populated.is_empty() {
            return Ok(());
        }
        self.layouts.iter().zip(&self.roots).try_for_each(|(layout, root)| check_tree(layout, root))?;
        check_files(&self.workload, &self.layouts)?;
        let content = crate::engine::memory::filled(1 << 20, 0x5e).map_err(WorkloadError::io(
            "allocate the content of files for",
            &self.roots[..].first().cloned().unwrap_or_default(),
        ))?;
        let begin = Instant::now();
        let options = PopulateOptions { threads: self.options.populate_threads };
        for (layout, root) in self.layouts.iter().zip(&self.roots).rev() {
            self.populated.push(populate(layout, root, &content, options, progress, interrupt)?);
        }
        self.populated.reverse();
        self.populate_seconds = begin.elapsed().as_secs_f64();
        Ok(())
    }

    /// Runs the workload once. `directory` is claimed again if the file system was remounted. Errors prevent a start; later
    /// failures make the result invalid, with a reason.
    pub fn run(
        self,
        directory: &ClaimedDirectory,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<FinishedBench, WorkloadError> {
        match self.options.execution {
            Execution::System => self.run_on(System, directory, progress, interrupt),
            Execution::Null => self.run_on(Null, directory, progress, interrupt),
        }
    }

    fn measure(&self) -> Measure {
        let written = Duration::from_secs(self.workload.run.seconds.unwrap_or(DEFAULT_SECONDS));
        Measure {
            length: self.options.length.unwrap_or(Length::Time(written)),
            warm_up: self.options.warm_up + Duration::from_secs(self.workload.run.warm_up),
            interval: self
                .options
                .interval
                .or(self.workload.run.interval.map(Duration::from_secs))
                .unwrap_or(Duration::from_secs(1)),
            stuck_after: self.options.stuck_after,
        }
    }

    fn run_on<B: FileCalls>(
        self,
        backend: B,
        directory: &ClaimedDirectory,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<FinishedBench, WorkloadError> {
        if self.workload.processes.is_empty() {
            return Err(WorkloadError::Usage(format!("{} defines no process: nothing to run", self.workload.name)));
        }
        let programs = Programs::compile(&self.workload);
        check_memory(&programs)?;
        let notes = raise_descriptor_limit(&programs);
        let measure = self.measure();
        let mut waits = Waits::new(programs.blocks.len());
        let semaphores = semaphores(&programs, &mut waits);
        let shared = Arc::new(Shared {
            backend,
            clock: Clock::new(),
            filesets: self.open_filesets(directory)?,
            randoms: self.workload.randoms.clone(),
            latencies: Latencies::new(programs.flowops.len()),
            count_from: AtomicU64::new(u64::MAX),
            count_until: AtomicU64::new(u64::MAX),
            operations_wanted: match measure.length {
                Length::Operations(count) => count,
                _ => u64::MAX,
            },
            places_taken: AtomicU64::new(0),
            waits,
            events: self.workload.event_rate.filter(|rate| *rate > 0).map(EventGenerator::new),
            totals: Totals { kept: needs_totals(&programs), ..Totals::default() },
            quit_mode: self.workload.quit_mode,
            random_choice: self.options.random_choice,
            seed: self.options.seed,
            ready: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            ending: Mutex::new(None),
            messages: Mutex::new(notes),
            programs,
        });
        let (mut repetition, sample) = conduct(shared.clone(), semaphores, &measure, progress, interrupt)?;
        if self.options.execution == Execution::System && repetition.valid && !self.has_foreign_files() {
            let found = missing_files(&shared.programs, &shared.filesets);
            repetition.refute(found.map_err(WorkloadError::io("count the files of", directory.path()))?);
        }
        let names = shared.programs.flowops.iter().enumerate();
        let histograms =
            names.map(|(index, (name, _))| (name.clone(), sample.latencies.flowop(index).to_histogram())).collect();
        Ok(FinishedBench { repetition, histograms })
    }

    /// Returns whether a file set may contain files that no operation created.
    fn has_foreign_files(&self) -> bool {
        self.workload.filesets.iter().any(|fileset| fileset.reuse || fileset.trusttree)
    }

    fn open_filesets(&self, directory: &ClaimedDirectory) -> Result<Vec<ActiveFileset>, WorkloadError> {
        let open = |(layout, root): (&Layout, &PathBuf)| {
            // The null back end has no directories of its own.
            let place = if self.options.execution == Execution::Null { directory.path() } else { root };
            let handle = File::open(place).map_err(WorkloadError::io("open directory", place))?;
            Ok(ActiveFileset::new(layout, root.clone(), OwnedFd::from(handle)))
        };
        self.layouts.iter().zip(&self.roots).map(open).collect()
    }
}

fn summary(layout: &Layout) -> FilesetSummary {
    FilesetSummary {
        name: layout.spec.name.clone(),
        files: layout.files.len() as u64,
        directories: layout.directories.len() as u64,
        bytes: layout.bytes,
        existing_files: layout.existing.len() as u64,
        existing_bytes: layout.existing_bytes(),
    }
}

/// Draws the file sets of a workload without writing.
pub fn draw(workload: &Workload, options: &Options) -> Result<Vec<FilesetSummary>, WorkloadError> {
    let layouts = Population::new(workload, options.seed, options.populate_seed).draw(&workload.filesets)?;
    Ok(layouts.iter().map(summary).collect())
}

/// Returns whether a flowop depends on totals over all threads.
fn needs_totals(programs: &Programs) -> bool {
    use FlowopKind as K;
    programs.each().any(|flowop| {
        let looks = matches!(
            flowop.spec.kind,
            K::BandwidthLimit | K::IopsLimit | K::OpsLimit | K::FinishOnCount | K::FinishOnBytes
        );
        looks && !matches!(flowop.target, Target::Own(_))
    })
}

/// Checks that thread memory fits; otherwise the run would measure swapping.
fn check_memory(programs: &Programs) -> Result<(), WorkloadError> {
    let of_one = |program: &Program| program.instances.saturating_mul(program.memsize);
    let wanted = programs.list.iter().map(of_one).fold(0, u64::saturating_add);
    match senesce_core::machine::memory_available() {
        Some(available) if wanted > available.0 => Err(WorkloadError::Missing {
            what: format!("{} of thread memory (memsize of all threads; {available} available)", Bytes(wanted)),
            remedy: "lower memsize or the number of threads".into(),
        }),
        _ => Ok(()),
    }
}

/// Raises the descriptor limit, because every slot of every thread may be open at the same time.
fn raise_descriptor_limit(programs: &Programs) -> Vec<String> {
    let slots = |program: &crate::engine::program::Program| {
        let mut slots: Vec<usize> = program.flowops().map(|flowop| flowop.spec.fd).collect();
        slots.sort_unstable();
        slots.dedup();
        let rotating = if program.flowops().any(|flowop| flowop.spec.opennext) { 64 } else { 0 };
        program.instances * (slots.len() as u64 + rotating)
    };
    let wanted = 256 + programs.list.iter().map(slots).sum::<u64>();
    let limit = getrlimit(Resource::Nofile);
    let (current, maximum) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if wanted <= current {
        return Vec::new();
    }
    let raised = Rlimit { current: Some(wanted.min(maximum)), maximum: limit.maximum };
    let failed = setrlimit(Resource::Nofile, raised).is_err() || wanted > maximum;
    let note = format!(
        "the workload may need {wanted} open files, but the limit is {}; raise `ulimit -n`",
        maximum.min(wanted)
    );
    if failed { vec![note] } else { Vec::new() }
}

fn shell(command: &str, target: &Path, progress: &dyn Progress) -> Result<CommandGroup, WorkloadError> {
    progress.say(&format!("running '{command}'"));
    let group = CommandGroup::of(target)?;
    let mut shell = std::process::Command::new("/bin/sh");
    let status = group.run(shell.args(["-c", command]).stdin(std::process::Stdio::null()));
    let status = status.map_err(WorkloadError::io("run /bin/sh for", target))?;
    if !status.success() {
        progress.say(&format!("'{command}' ended with {status}"));
    }
    Ok(group)
}
