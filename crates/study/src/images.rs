//! The images of a study: made once, kept in the store by a key of their inputs, restored before every run.

mod content;

use crate::command::Program;
use crate::matrix::{ImageId, aging_plan, image_seed, is_planned};
use crate::spec::{FileSystemSpec, StateKind, StudySpec};
use crate::zoned::ZonedDrives;
use content::content;
use senesce_aging::execute::{PlanExecutor, PlanTarget};
use senesce_aging::{
    AgingPlan, DirectoryTarget, ExecuteOptions, Operation, OperationKind, Planner, Stop, WorkUnit, execute,
};
use senesce_core::failure::errno_message;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, ExitCode, Failure, Progress};
use senesce_layout::{FreeSpace, Layout};
use senesce_runner::interrupted;
use senesce_runs::kernel_log::fail_on;
use senesce_volume::{Guest, ImageStore, MountedTarget, OpenOptions, ScratchDirectory, TargetSpec, open};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Facts about an image; stored as an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageFacts {
    /// The image.
    pub id: ImageId,
    /// Key of the image in the store.
    pub key: String,
    /// Kernel of the guest for which it was made or fetched; none: this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
    /// Whether the store had it.
    pub from_store: bool,
    /// Seconds to make it or to fetch it.
    pub seconds: f64,
    /// Bytes created over the size; 0 for a fresh one, and unknown (0) if a command aged it.
    pub overwrites: f64,
    /// Files.
    pub files: u64,
    /// Share of consecutive blocks inside files.
    pub static_layout_score: Option<f64>,
    /// The same over all files in tree order.
    pub tree_layout_score: Option<f64>,
    /// Extents over files.
    pub extents_per_file: Option<f64>,
    /// Free space; `None` if the file system does not report it.
    pub free_space: Option<FreeSpace>,
}

pub struct Images {
    /// Kept between studies. In a guest it would use its memory and end with it.
    store: Option<ImageStore>,
    near: ImageStore,
    directory: ScratchDirectory,
    pub in_memory: bool,
}

const MEMORY_FOLDER: &str = "/dev/shm";

impl Images {
    /// Makes images in memory if `needed` bytes leave half of the free memory, else in `fallback`.
    pub fn open(needed: u64, fallback: &Path) -> Result<Self, Failure> {
        // In the guest all memory is ours, and its other storage is slow.
        let in_guest = Guest::here().is_some();
        let share = if in_guest { 0.8 } else { 0.5 };
        let in_memory = memory_available().is_some_and(|free| needed as f64 <= free as f64 * share);
        let parent = if in_memory { Path::new(MEMORY_FOLDER) } else { fallback };
        let directory = ScratchDirectory::create(parent, "study")?;
        let near = ImageStore::open(&directory.path().join("near"), Bytes(u64::MAX))?;
        let store = (!in_guest).then(ImageStore::open_default).transpose()?;
        Ok(Self { store, near, directory, in_memory })
    }

    pub(crate) fn working(&self) -> PathBuf {
        self.directory.path().join("working.img")
    }

    pub(crate) fn is_stored(&self, spec: &StudySpec, id: ImageId) -> Result<bool, Failure> {
        let key = ImageStore::key(&content(spec, id)?);
        let found = self.store_for(&spec.file_system[id.fs]).map_or(Ok(None), |store| store.get(&key))?;
        Ok(found.is_some())
    }

    /// Returns `None` for a custom file system: its version is unknown, so its images are made for every study.
    fn store_for(&self, fs: &FileSystemSpec) -> Option<&ImageStore> {
        self.store.as_ref().filter(|_| fs.custom().is_none())
    }

    pub(crate) fn restore(&self, key: &str) -> Result<(), Failure> {
        match self.near.restore(key, &self.working())? {
            true => Ok(()),
            false => Err(Failure::new(
                ExitCode::RunFailed,
                format!("image {key} vanished from {}", self.near.folder().display()),
            )),
        }
    }

    /// Mounts the result of [`Self::restore`]: the image, or the drives that are filled from it.
    pub(crate) fn open_restored(&self, fs: &FileSystemSpec) -> Result<MountedTarget, Failure> {
        let options = OpenOptions { keep_existing: true, ..fs.open_options("").map_err(Failure::usage)? };
        let target = match ZonedDrives::of(fs)? {
            Some(drives) => {
                drives.load(&self.working())?;
                // The superblock of a zoned btrfs has another position.
                drives.open(OpenOptions { file_system: Some(drives.file_system()), ..options })?
            }
            None => {
                let erase = Some(self.working().to_string_lossy().into_owned());
                let image = TargetSpec::Image { path: self.working(), size: None };
                open(&image, &OpenOptions { erase, ..options })?
            }
        };
        fs.run_hook(&target)?;
        Ok(target)
    }

    pub fn forget(&self, key: &str) -> Result<(), Failure> {
        self.near.remove(key)?;
        Ok(())
    }

    /// Fetches an image from the store, or makes and stores it; then measures its layout if the file system reports it.
    pub fn provide(
        &self,
        spec: &StudySpec,
        id: ImageId,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<ImageFacts, Failure> {
        let begun = std::time::Instant::now();
        let key = ImageStore::key(&content(spec, id)?);
        let name = format!("{} {}, image {}", spec.file_system[id.fs].name, spec.state[id.state].name, id.image);
        let path = self.working();
        let store = self.store_for(&spec.file_system[id.fs]);
        let from_store = store.map_or(Ok(false), |store| store.restore(&key, &path))?;
        if !from_store {
            self.make(spec, id, &name, progress, interrupt)?;
            if let Some(store) = store {
                store.put(&key, &format!("study: {name}, {}", spec.size), &path)?;
            }
        }
        self.near.put(&key, &name, &path)?;
        let mut facts = match spec.file_system[id.fs].is_zoned() || spec.file_system[id.fs].custom().is_some() {
            true => {
                let fs = &spec.file_system[id.fs];
                let target = self.open_restored(fs)?;
                let seen = examine(target.mount_point(), id, key.clone());
                // A custom file system may not report where its files lie.
                let unseen = ImageFacts { key, ..ImageFacts::unexamined(id) };
                let facts = if fs.custom().is_some() { seen.or(Ok(unseen)) } else { seen }?;
                target.close()?;
                facts
            }
            false => examine(&path, id, key)?,
        };
        if is_planned(&spec.state[id.state]) {
            let plan = aging_plan(spec, &spec.state[id.state], id.image)?;
            let summary = plan.summary();
            facts.overwrites = match spec.state[id.state].kind {
                StateKind::Aged => summary.overwrites,
                _ => summary.bytes_live.0 as f64 / spec.size.0 as f64,
            };
        }
        Ok(ImageFacts { guest: guest_kernel(), from_store, seconds: begun.elapsed().as_secs_f64(), ..facts })
    }

    fn make(
        &self,
        spec: &StudySpec,
        id: ImageId,
        name: &str,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let (state, fs) = (&spec.state[id.state], &spec.file_system[id.fs]);
        let path = self.working();
        remove(&path)?;
        if state.kind == StateKind::Image {
            senesce_volume::images::copy(Path::new(&state.path), &path, senesce_volume::images::Extent::Used, None)?;
            return Ok(());
        }
        let drives = ZonedDrives::of(fs)?;
        let before = drives.as_ref().map_or_else(String::new, |drives| drives.mkfs_options(""));
        let options = fs.open_options(&before).map_err(Failure::usage)?;
        let mut target = match &drives {
            Some(drives) => drives.open(options)?,
            None => open(&TargetSpec::Image { path: path.clone(), size: Some(spec.size) }, &options)?,
        };
        fs.run_hook(&target)?;
        if let Some(program) = Program::of_state(state) {
            program.age(&target, image_seed(spec, id.image), progress, interrupt)?;
        }
        if is_planned(state) {
            let plan = Arc::new(aging_plan(spec, state, id.image)?);
            let made = ImageCreation { spec, plan: &plan, target: &target, name, progress, interrupt };
            match state.kind {
                StateKind::Aged => made.age(spec.source(state).data)?,
                StateKind::Copy => made.create(spec.source(state).data, survivors(&plan))?,
                _ => made.create(spec.source(state).data, plan.operations().take(plan.summary().files as usize))?,
            }
        }
        target.sync()?;
        fail_on(target.kernel_warnings())?;
        if fs.custom().is_some() {
            check(&mut target)?;
        }
        target.close()?;
        drives.map_or(Ok(()), |drives| drives.save(&path))
    }
}

fn check(target: &mut MountedTarget) -> Result<(), Failure> {
    match target.check_file_system()? {
        Some(report) if !report.clean => {
            let words = format!("{} finds it damaged: {}", report.command, report.output);
            Err(Failure::new(ExitCode::RunFailed, words))
        }
        _ => Ok(()),
    }
}

fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(ExitCode::RunFailed, format!("remove {}: {}", path.display(), errno_message(&error))))
        }
        _ => Ok(()),
    }
}

struct ImageCreation<'a> {
    spec: &'a StudySpec,
    plan: &'a Arc<AgingPlan>,
    target: &'a MountedTarget,
    name: &'a str,
    progress: &'a dyn Progress,
    interrupt: &'a Interrupt,
}

impl ImageCreation<'_> {
    fn age(&self, data: senesce_aging::Data) -> Result<(), Failure> {
        let back_end = DirectoryTarget::new(self.plan.clone(), self.target.directory(), data);
        let unit = WorkUnit::of(data, self.plan.summary(), self.plan.len());
        let (total, name) = unit.total();
        self.progress.phase(&format!("age {}", self.name), total, name);
        let options = ExecuteOptions { threads: self.spec.threads, ..ExecuteOptions::default() };
        let mut planner = self.plan.operations();
        let outcome = execute(&mut planner, &back_end, &options, self.interrupt, &mut |planner, done| {
            let overwrites = planner.overwrites();
            self.progress.position(unit.done(done, overwrites), &format!("{overwrites:.1} overwrites"));
            ControlFlow::Continue(())
        });
        match outcome.result? {
            Stop::Finished => Ok(()),
            _ => Err(interrupted()),
        }
    }

    fn create(&self, data: senesce_aging::Data, operations: impl Iterator<Item = Operation>) -> Result<(), Failure> {
        let back_end = DirectoryTarget::new(self.plan.clone(), self.target.directory(), data);
        self.progress.phase(&format!("fill {}", self.name), self.plan.summary().files, "files");
        back_end.prepare()?;
        let mut hand = back_end.hand(1)?;
        for (index, operation) in (0u64..).zip(operations) {
            hand.apply(&operation, false)?;
            if index % 256 == 0 {
                self.progress.position(index, "");
                if self.interrupt.requested() {
                    return Err(interrupted());
                }
            }
        }
        Ok(())
    }
}

fn survivors(plan: &Arc<AgingPlan>) -> impl Iterator<Item = Operation> + use<> {
    let mut planner: Planner = plan.operations();
    planner.skip_to(plan.len());
    let files: Vec<_> = planner.namespace().files().map(|live| live.file).collect();
    files.into_iter().map(|file| Operation { kind: OperationKind::Create, file })
}

fn examine(path: &Path, id: ImageId, key: String) -> Result<ImageFacts, Failure> {
    let summary = Layout::of(path)?;
    Ok(ImageFacts {
        id,
        key,
        guest: None,
        from_store: false,
        seconds: 0.0,
        overwrites: 0.0,
        files: summary.files,
        static_layout_score: summary.static_layout_score,
        tree_layout_score: summary.tree_layout_score,
        extents_per_file: (summary.files > 0).then(|| summary.extents as f64 / summary.files as f64),
        free_space: summary.free_space,
    })
}

fn guest_kernel() -> Option<String> {
    senesce_core::machine::guest_accelerator()?;
    Some(rustix::system::uname().release().to_string_lossy().into_owned())
}

impl ImageFacts {
    /// Identifies an image together with its guest: a study may make the same one here and in a guest.
    pub(crate) fn place(&self) -> (ImageId, Option<&str>) {
        (self.id, self.guest.as_deref())
    }

    pub(crate) fn unexamined(id: ImageId) -> Self {
        Self {
            id,
            key: String::new(),
            guest: None,
            from_store: false,
            seconds: 0.0,
            overwrites: 0.0,
            files: 0,
            static_layout_score: None,
            tree_layout_score: None,
            extents_per_file: None,
            free_space: None,
        }
    }
}

pub(crate) fn memory_available() -> Option<u64> {
    let space = rustix::fs::statvfs(MEMORY_FOLDER).ok()?;
    Some(senesce_core::machine::memory_available()?.0.min(space.f_bavail * space.f_frsize))
}
