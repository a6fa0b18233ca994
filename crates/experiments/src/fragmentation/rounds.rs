//! The course of an experiment in rounds: per file system and round a fresh volume, the files laid out, read, and read again
//! as an unaged copy.

use super::Common;
use super::point::{self, Point};
use super::read::{Seen, State, read};
use super::sketch::{self, Sketch};
use super::tree::{Tree, Writer};
use super::volume::{Volume, failed};
use crate::lab_cell::{LabCell, run_in_lab};
use senesce_core::interrupt::Interrupt;
use senesce_core::measurement;
use senesce_core::{Bytes, ExitCode, Failure, RunContext, Settings};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Kind of the events that hold a [`Sequential`].
pub const SEQUENTIAL: &str = "sequential";
/// Kind of the events that say in words what was not done.
pub const WITHOUT: &str = "without";

/// Kind of the events that say on what was measured.
pub const PLACE: &str = "place";

/// Most rounds of which figures of single rounds are made.
const DRAWN: usize = 11;

/// How fast one large file in one piece is read from a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sequential {
    /// File system.
    pub fs: String,
    /// Wall-clock seconds per GiB.
    pub seconds_per_gib: f64,
}

/// Lays out the files of a round below an empty directory.
pub type Write<'a> = dyn Fn(&Path, u64, &Interrupt) -> Result<(), Failure> + 'a;

/// Runs all rounds on all file systems; what an earlier run recorded is not done again.
pub fn run(
    kind: &str,
    common: &Common,
    rounds: &[u64],
    settings: &Settings,
    context: &mut RunContext<'_>,
    write: &Write<'_>,
) -> Result<(), Failure> {
    let common = &Common { place: common.place.own(context.directory)?, ..common.clone() };
    let mut recorder = Recorder::new(context);
    recorder.place(common)?;
    let total = (common.file_systems.len() * rounds.len()) as u64;
    recorder.context.progress.phase("rounds", total, "rounds");
    let mut done = 0;
    for fs in &common.file_systems {
        sequential(common, fs, &mut recorder)?;
        let draw_every = rounds.len().div_ceil(DRAWN).max(1);
        for (index, &round) in rounds.iter().enumerate() {
            recorder.context.progress.position(done, &format!("{fs}, round {round}"));
            recorder.context.check_interrupt()?;
            if !recorder.has(fs, round, false) {
                let draw = index % draw_every == 0 || index + 1 == rounds.len();
                one_round(&Round { common, fs, round, draw }, &mut recorder, write)?;
            }
            done += 1;
        }
    }
    in_lab(kind, common, settings, context)
}

/// Records in words what is missing, once.
pub fn say(context: &mut RunContext<'_>, words: Option<&str>) -> Result<(), Failure> {
    words.map_or(Ok(()), |words| Recorder::new(context).without(words.into()))
}

/// Rounds from 0 to the last one, which is always among them.
pub fn steps(last: u64, step: u64) -> Vec<u64> {
    let mut rounds: Vec<u64> = (0..=last).step_by(step.max(1) as usize).collect();
    if rounds.last() != Some(&last) {
        rounds.push(last);
    }
    rounds
}

/// One round on one file system.
#[derive(Clone, Copy)]
pub struct Round<'a> {
    /// Parameters.
    pub common: &'a Common,
    /// File system.
    pub fs: &'a str,
    /// Its number.
    pub round: u64,
    /// Whether to keep what figures of single rounds need.
    pub draw: bool,
}

fn one_round(one: &Round<'_>, recorder: &mut Recorder<'_, '_>, write: &Write<'_>) -> Result<(), Failure> {
    let Round { common, fs, round, draw } = *one;
    let interrupt = recorder.context.interrupt;
    let begin = Instant::now();
    let mut volume = common.fresh(fs, &format!("aged/{round}"), recorder.context.directory.path())?;
    write(volume.folder(), round, interrupt)?;
    volume.sync()?;
    let state = State { fs, round, aged: true, write_seconds: begin.elapsed().as_secs_f64() };
    let seen = read(&mut volume, &state, common, interrupt)?;
    let drawn = draw.then(|| Sketch::of(&volume, &seen)).transpose()?;
    let files = Tree::below(volume.folder())?.contents(volume.folder())?;
    recorder.environment(&volume)?;
    volume.close()?;
    recorder.record(seen, drawn)?;
    unaged(one, &files, recorder)
}

/// Copies files in their order onto a fresh volume and reads it.
pub fn unaged(one: &Round<'_>, files: &[(PathBuf, Vec<u8>)], recorder: &mut Recorder<'_, '_>) -> Result<(), Failure> {
    let Round { common, fs, round, draw } = *one;
    let interrupt = recorder.context.interrupt;
    let begin = Instant::now();
    let mut volume = common.fresh(fs, &format!("unaged/{round}"), recorder.context.directory.path())?;
    let mut writer = Writer::new(volume.folder(), interrupt);
    for (path, content) in files {
        writer.write(path, content)?;
    }
    drop(writer);
    volume.sync()?;
    let state = State { fs, round, aged: false, write_seconds: begin.elapsed().as_secs_f64() };
    let seen = read(&mut volume, &state, common, interrupt)?;
    let drawn = draw.then(|| Sketch::of(&volume, &seen)).transpose()?;
    volume.close()?;
    recorder.record(seen, drawn)
}

/// Measures what the volume gives at best: one large file in one piece.
pub fn sequential(common: &Common, fs: &str, recorder: &mut Recorder<'_, '_>) -> Result<(), Failure> {
    let known = recorder.context.directory.earlier_events().iter();
    if known.clone().any(|event| event.kind == SEQUENTIAL && event.data["fs"] == *fs) {
        return Ok(());
    }
    let mut volume = common.fresh(fs, "sequential", recorder.context.directory.path())?;
    let path = volume.folder().join("large");
    let piece = vec![0xa5u8; 1 << 20];
    let mut file = File::create(&path).map_err(failed("create", &path))?;
    for _ in 0..(common.size.0 / 8).min(64 << 20) >> 20 {
        std::io::Write::write_all(&mut file, &piece).map_err(failed("write", &path))?;
    }
    drop(file);
    volume.make_cold()?;
    let cold = senesce_workload::micro::cold_read(
        volume.folder(),
        &senesce_core::progress::Silent,
        recorder.context.interrupt,
    )?;
    volume.close()?;
    let found = Sequential { fs: fs.into(), seconds_per_gib: cold.seconds_per_gib };
    Ok(recorder.context.directory.append(SEQUENTIAL, &found)?)
}

/// Writes points into the record, each reason for a missing measure once.
pub struct Recorder<'a, 'b> {
    /// The run.
    pub context: &'a mut RunContext<'b>,
    done: BTreeSet<(String, u64, bool)>,
    said: BTreeSet<String>,
    described: BTreeSet<String>,
}

impl<'a, 'b> Recorder<'a, 'b> {
    /// Knows what an earlier run recorded.
    pub fn new(context: &'a mut RunContext<'b>) -> Self {
        let mut recorder = Self { context, done: BTreeSet::new(), said: BTreeSet::new(), described: BTreeSet::new() };
        for event in recorder.context.directory.earlier_events() {
            if event.kind == point::EVENT
                && let Ok(point) = serde_json::from_value::<Point>(event.data.clone())
            {
                recorder.done.insert((point.fs, point.round, point.aged));
            } else if event.kind == WITHOUT {
                recorder.said.extend(event.data.as_str().map(str::to_string));
            }
        }
        recorder
    }

    /// Whether a point is recorded.
    pub fn has(&self, fs: &str, round: u64, aged: bool) -> bool {
        self.done.contains(&(fs.to_string(), round, aged))
    }

    /// Says where volumes are made, and what is missing without root.
    pub fn place(&mut self, common: &Common) -> Result<(), Failure> {
        self.context.directory.append(PLACE, &common.place.words(common.size))?;
        match senesce_core::environment::is_root() {
            true => Ok(()),
            false => self.without(
                "measured without root: in a directory instead of fresh file systems, with the trace-free layout score"
                    .into(),
            ),
        }
    }

    /// Records in words what was not done, once.
    pub fn without(&mut self, words: String) -> Result<(), Failure> {
        if self.said.insert(words.clone()) {
            self.context.directory.append(WITHOUT, &words)?;
        }
        Ok(())
    }

    /// Records the environment of the first volume of each file system.
    pub fn environment(&mut self, volume: &Volume) -> Result<(), Failure> {
        let name = volume.file_system();
        if self.described.insert(name.clone()) {
            let mut facts = senesce_core::Environment::default();
            facts.extend(&name, &volume.environment());
            self.context.directory.add_environment(&facts)?;
        }
        Ok(())
    }

    /// Records a point.
    pub fn record(&mut self, seen: Seen, drawn: Option<Sketch>) -> Result<(), Failure> {
        for words in seen.without {
            self.without(words)?;
        }
        for one in seen.point.measurements() {
            self.context.directory.append(measurement::EVENT, &one)?;
        }
        if let Some(drawn) = drawn {
            self.context.directory.append(sketch::EVENT, &drawn)?;
        }
        self.context.directory.append(point::EVENT, &seen.point)?;
        self.done.insert((seen.point.fs, seen.point.round, seen.point.aged));
        Ok(())
    }
}

/// Runs the same in the guest for file systems that this kernel may not have, each in a guest of its own, so that one that
/// fails there loses no other's points. What goes wrong is recorded and does not end the run; an interrupt does.
pub fn in_lab(kind: &str, common: &Common, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
    for fs in &common.lab {
        let mut earlier = context.directory.earlier_events().iter();
        if earlier.any(|event| event.kind == point::EVENT && event.data["fs"] == *fs) {
            continue;
        }
        match one_in_lab(kind, fs, common, settings, context) {
            Err(failure) if failure.exit_code() != ExitCode::Interrupted => {
                let words = format!("measured without {fs}: skipped in the lab: {failure}");
                context.directory.append(WITHOUT, &words)?;
            }
            other => other?,
        }
    }
    Ok(())
}

fn one_in_lab(
    kind: &str,
    fs: &str,
    common: &Common,
    settings: &Settings,
    context: &mut RunContext<'_>,
) -> Result<(), Failure> {
    let mut arguments = vec!["reproduce".to_string(), kind.to_string()];
    let own = [("fs", fs), ("lab", ""), ("target", "memory")];
    for (name, value) in &settings.to_map() {
        let value = own.iter().find(|(known, _)| known == name).map_or(value.as_str(), |(_, value)| value);
        match name.as_str() {
            "scale" => arguments.extend(["--scale".to_string(), value.to_string()]),
            _ => arguments.extend(["--set".to_string(), format!("{name}={value}")]),
        }
    }
    let memory = Bytes(common.size.0 * 3 + (1 << 30));
    let cell = LabCell { drives: Vec::new(), memory, time_limit: Duration::from_secs(6 * 3600), arguments };
    run_in_lab(&cell, context)
}
