//! Makes the prognosis of a target by reading it.

mod advice;
mod costed_layout;
mod parts;

use crate::drive::{Drive, RANGE};
use crate::error::PrognosisError;
use crate::headroom::{self, CreatableFiles, LongestFree, User};
use crate::plan::{self, Step};
use crate::reading::{self, Cost, Order, Seconds};
use crate::sentence;
pub(crate) use advice::Advice;
pub use costed_layout::CostedLayout;
pub(crate) use parts::worst;
use parts::{beyond, breaks, changed_share, directories, notes, remedies, unexamined_share};
use rayon::prelude::*;
use senesce_devmodel::{DeviceModel, ModelError};
use senesce_layout::ExtentKind;
use senesce_layout::names::{shell_word, shown};
use senesce_layout::score::Tally;
use senesce_layout::{Condition, FileRuns, FileSystemSpace, LayoutSummary, ShownDirectory, space};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

pub(crate) const WORST: usize = 100;
const EXAMPLES: usize = 5;

#[derive(Debug, Clone)]
pub struct Options {
    /// The drive: `auto`, a built-in model or a device file.
    pub model: String,
    pub order: Order,
    /// Threads; 0: one per CPU.
    pub threads: usize,
    /// Bytes of the names of files that could be created.
    pub name_length: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { model: "auto".into(), order: Order::default(), threads: 0, name_length: headroom::NAME_BYTES }
    }
}

/// The result on one drive model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Modelled {
    /// Its name.
    pub model: String,
    /// The three placements.
    #[serde(flatten)]
    pub seconds: Seconds,
}

/// Files below one entry of the target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Directory {
    /// Its name; `.` for files in the target itself.
    pub path: String,
    /// Files.
    pub files: u64,
    /// Bytes on the device.
    pub bytes: u64,
    /// Pieces of files.
    pub pieces: u64,
    /// Seconds as they lie.
    pub now_seconds: f64,
    /// After an ideal defragmentation of files.
    pub ideal_seconds: f64,
    /// After copying everything out and back.
    pub rewritten_seconds: f64,
}

/// A file that costs more than it would in one piece.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstFile {
    /// Path below the target.
    pub path: String,
    /// Bytes on the device.
    pub bytes: u64,
    /// Pieces.
    pub pieces: u64,
    /// Seconds as it lies.
    pub now_seconds: f64,
    /// In one piece after the previous file.
    pub ideal_seconds: f64,
}

/// A remedy with its effect; without a twin it is an upper bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remedy {
    /// The command; it is printed and never run on the original.
    pub command: String,
    /// Number of its pass.
    pub pass: u32,
    /// Seconds of a full read after it.
    pub seconds_after: f64,
    /// Bytes that it writes.
    pub bytes_written: u64,
    /// Whether the seconds are a bound (no real tool does better) and not a result on a twin.
    pub bound: bool,
    /// Number of full reads after which it has paid off: seconds of writing and reading over seconds saved; none if it
    /// saves less than a tenth of a full read, and so is not worth it.
    pub pays_after_reads: Option<f64>,
    /// In words.
    pub verdict: String,
}

/// Files on which a remedy has side effects.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SideEffects {
    /// Files with some shared extents (reflinks, snapshots): moving them takes new space.
    pub shared_files: u64,
    /// Some of them.
    pub shared_examples: Vec<String>,
    /// Files with compressed or encrypted data.
    pub encoded_files: u64,
    /// Some of them.
    pub encoded_examples: Vec<String>,
    /// Hard links beyond the first of each file: a copy makes separate files of them.
    pub extra_links: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Prognosis {
    /// The examined target.
    pub target: String,
    /// Its file system.
    pub file_system: String,
    /// How it was read.
    pub view: String,
    /// Its journal and damage.
    #[serde(flatten)]
    pub condition: Option<Condition>,
    /// How extents were read.
    pub method: String,
    /// The result in plain words.
    pub sentence: String,
    /// The drive.
    pub drive: Drive,
    /// Order of reading.
    pub order: Order,
    /// Files.
    pub files: u64,
    /// Bytes of their data on the device.
    pub bytes: u64,
    /// Pieces of files.
    pub pieces: u64,
    /// Space that was preallocated and not written: reading it costs no device I/O.
    pub unwritten: Tally,
    /// Seconds of one full read of the files at their present addresses.
    pub now_seconds: f64,
    /// After an ideal defragmentation of files: a bound that no tool beats.
    pub ideal_seconds: f64,
    /// After copying everything out and back in the order of reading.
    pub rewritten_seconds: f64,
    /// The same on every model of the range, if the drive is unknown.
    pub models: Vec<Modelled>,
    /// By entry of the target, the most expensive first.
    pub directories: Vec<Directory>,
    /// The most expensive files, worst first.
    pub worst: Vec<WorstFile>,
    /// The tool that defragments, and whether it is advised.
    pub defragmenter: Advice,
    /// Possible remedies.
    pub remedies: Vec<Remedy>,
    /// The fewest files worth moving.
    pub plan: Vec<Step>,
    /// The first of them, best first.
    pub plan_files: Vec<String>,
    /// Bytes of the names of files that could be created.
    pub name_length: u64,
    /// Numbers of files that can be created.
    pub creatable: Vec<CreatableFiles>,
    /// The longest free extents together.
    pub longest_free: Vec<LongestFree>,
    /// The space of the file system.
    #[serde(rename = "room")]
    pub space: FileSystemSpace,
    /// Side effects of a remedy.
    pub breaks: SideEffects,
    /// Share of the contents that was not accessible, 0 to 1.
    pub unseen_share: f64,
    /// Share of the used blocks by which the file system changed meanwhile.
    pub changed_share: f64,
    /// Caveats.
    pub notes: Vec<String>,
    /// Seconds that the examination took.
    pub elapsed_seconds: f64,
    /// Most memory that the process used, bytes.
    pub peak_rss_bytes: u64,
    /// The result on the twin, if one was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twin: Option<crate::twin::TrialResult>,
}

pub fn prognosis(target: &Path, options: &Options) -> Result<Prognosis, PrognosisError> {
    let begun = Instant::now();
    let place = ShownDirectory::of(target)?;
    let mut found = examine(target, &place, options)?;
    found.elapsed_seconds = begun.elapsed().as_secs_f64();
    Ok(found)
}

fn examine(target: &Path, place: &ShownDirectory, options: &Options) -> Result<Prognosis, PrognosisError> {
    let directory = place.directory();
    let drive = Drive::choose(&options.model, if target.is_dir() { directory } else { target })?;
    let drive = if target.is_file() && options.model == "auto" { drive.of_image() } else { drive };
    let model = drive.parameters()?;
    space::write_back(directory)?;
    let (costed, space) =
        rayon::join(|| CostedLayout::of(directory, &model, options), || FileSystemSpace::of(directory));
    let (mut costed, mut space) = (costed?, space?);
    let mut is_predictable = true;
    if let Some(condition) = &mut costed.summary.condition {
        condition.add_complaints(place);
        is_predictable = !condition.free_space_damaged;
    }
    // Both calls request the free extents. If a bitmap is damaged, ext4 answers only the first call.
    space.free = space.free.filter(|_| costed.summary.free_space.is_some());
    let CostedLayout { summary, files, order, costs } = &costed;
    let [now, ideal, rewritten] = costs;
    let advice = Advice::of(place, summary.file_system.parse().ok(), &costed, &space);
    let moves = match advice.refused {
        Some(_) => Vec::new(),
        None => costed.ideal_moves(|file| advice.moves(file)),
    };
    let models = if drive.known { Vec::new() } else { range(files, order)? };
    let mut found = Prognosis {
        target: target.display().to_string(),
        file_system: summary.file_system.clone(),
        view: place.view(),
        condition: summary.condition.clone(),
        method: summary.method.name().into(),
        sentence: String::new(),
        drive,
        order: options.order,
        files: summary.files,
        bytes: costed.all_bytes(),
        pieces: (0..files.len()).map(|file| files.of(file).len() as u64).sum(),
        unwritten: summary.unwritten,
        now_seconds: now.seconds,
        ideal_seconds: ideal.seconds,
        rewritten_seconds: rewritten.seconds,
        models,
        directories: directories(&costed),
        worst: worst(&costed),
        defragmenter: advice,
        remedies: Vec::new(),
        plan: plan::steps(&moves),
        plan_files: moves.iter().take(WORST).map(|one| shown(&files.path(one.file as usize))).collect(),
        name_length: options.name_length,
        creatable: match is_predictable {
            true => headroom::creatable(&space, options.name_length),
            false => Vec::new(),
        },
        longest_free: headroom::longest_free(&space),
        breaks: breaks(&costed),
        unseen_share: unexamined_share(place, &costed, &space),
        changed_share: 0.0,
        notes: notes(summary, &space),
        elapsed_seconds: 0.0,
        peak_rss_bytes: summary.peak_rss_bytes,
        twin: None,
        space,
    };
    // A read-only file system after an error counts less space as free.
    if !found.space.read_only && summary.is_sound() {
        found.changed_share = changed_share(&found.space, space::free_blocks(directory)?);
    }
    if found.changed_share > 0.0 {
        let percent = found.changed_share * 100.0;
        found.notes.push(format!("the file system changed meanwhile, by {percent:.2} % of its used blocks"));
    }
    if let ShownDirectory::Part { root, .. } = place {
        found.notes.push(format!("only {root} of the file system is mounted; the rest of it was not examined"));
    }
    let reach = costed.reach();
    found.notes.extend(beyond(reach, &found.drive.name, &model));
    for one in found.models.iter().filter(|one| one.model != found.drive.name) {
        found.notes.extend(beyond(reach, &one.model, &DeviceModel::builtin(&one.model)?));
    }
    found.remedies = remedies(&found, &costed, &model)?;
    found.sentence = sentence::of(&found);
    Ok(found)
}

impl Prognosis {
    /// Adds the result on the twin, which overrides the rules' expectation of the tool.
    pub fn take_trial(&mut self, tried: crate::twin::TrialResult) {
        if let (Some(verdict), Some(advice)) = (tried.verdict_on_tool(), self.advised_remedy()) {
            (advice.verdict, advice.pays_after_reads) = (verdict.into(), tried.tool_pays_after_reads());
        }
        self.notes.extend(tried.failed.iter().map(ToString::to_string));
        self.twin = Some(tried);
        if let Some(twin) = self.replayed_twin() {
            self.creatable = twin.creatable.clone();
            self.notes.push("only the twin has its journal replayed: its numbers replace those of the rules".into());
        }
        self.sentence = sentence::of(self);
    }

    /// Returns the twin, if the target itself was read without its journal.
    pub(crate) fn replayed_twin(&self) -> Option<&crate::twin::TrialResult> {
        let is_replayed = self.condition.as_ref().is_none_or(|condition| condition.journal.replayed == Some(true));
        self.twin.as_ref().filter(|_| !is_replayed)
    }

    fn advised_remedy(&mut self) -> Option<&mut Remedy> {
        self.defragmenter.advised()?;
        self.remedies.first_mut()
    }

    pub(crate) fn suggested_by_df(&self, size: u64, user: User) -> Option<u64> {
        headroom::suggested_by_df(&self.space, size, user)
    }
}

fn range(files: &FileRuns, order: &[u32]) -> Result<Vec<Modelled>, PrognosisError> {
    let of = |name: &&str| {
        let model = DeviceModel::builtin(name)?;
        Ok(Modelled { model: name.to_string(), seconds: reading::seconds(&model, files, order) })
    };
    RANGE.par_iter().map(of).collect()
}

pub(crate) fn denied_share(summary: &LayoutSummary) -> f64 {
    summary.denied as f64 / (summary.denied + summary.directories + summary.files).max(1) as f64
}

/// Returns the number of full reads until a worthwhile remedy that takes `cost` seconds has paid off.
pub(crate) fn pays(now: f64, after: f64, cost: f64) -> Option<f64> {
    sentence::is_worth(now, after).then(|| cost / (now - after))
}

/// Returns the directory for the tools, quoted for a shell. They need a mount, which the user must make for an image or
/// a device.
pub(crate) fn place_of_commands(target: &str) -> String {
    match Path::new(target).is_dir() {
        true => shell_word(target),
        false => "MOUNTPOINT".into(),
    }
}

/// Returns the bytes per second of a long sequential read on the model.
pub(crate) fn sequential_rate(model: &DeviceModel) -> Result<f64, ModelError> {
    let bytes = 64u64 << 20;
    let requests = (0..bytes / reading::READ_AHEAD)
        .map(|index| {
            let request = senesce_devmodel::Request::read_bytes(index * reading::READ_AHEAD, reading::READ_AHEAD);
            senesce_devmodel::Request { queue_depth: 2, ..request }
        })
        .collect::<Vec<_>>();
    Ok(bytes as f64 / model.seconds(&requests)?.max(1e-9))
}
