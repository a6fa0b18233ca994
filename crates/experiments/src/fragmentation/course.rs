//! The course of an experiment in which one volume ages on and on: at some rounds it is read, and so is a copy of it.

use super::Common;
use super::read::{State, read};
use super::rounds::{Recorder, Round, in_lab, sequential, unaged};
use super::sketch::Sketch;
use super::tree::Tree;
use super::volume::{Place, Volume};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Failure, RunContext, Settings};
use std::path::Path;
use std::time::Instant;

/// Something that ages the files of a volume.
pub trait Ager {
    /// Goes on to a round; round 0 only fills. The folder may have moved since the last call.
    fn advance(&mut self, folder: &Path, round: u64, interrupt: &Interrupt) -> Result<(), Failure>;
}

/// Begins to age one volume.
pub type Start<'a> = dyn Fn() -> Result<Box<dyn Ager + 'a>, Failure> + 'a;

/// Ages one volume per file system through all rounds. A volume whose aging was cut off is aged anew: it is gone.
pub fn run(
    kind: &str,
    common: &Common,
    rounds: &[u64],
    settings: &Settings,
    context: &mut RunContext<'_>,
    start: &Start<'_>,
) -> Result<(), Failure> {
    let copies = Common { place: common.place.second(context.directory.path())?, ..common.clone() };
    let mut recorder = Recorder::new(context);
    recorder.place(common)?;
    let total = (common.file_systems.len() * rounds.len()) as u64;
    recorder.context.progress.phase("aging", total, "readings");
    for (number, fs) in (0u64..).zip(&common.file_systems) {
        sequential(common, fs, &mut recorder)?;
        if rounds.iter().all(|round| recorder.has(fs, *round, false)) {
            continue;
        }
        let room = recorder.context.directory.path().to_path_buf();
        let mut volume = common.fresh(fs, "aged", &room)?;
        recorder.environment(&volume)?;
        let mut ager = start()?;
        for (index, &round) in rounds.iter().enumerate() {
            let done = number * rounds.len() as u64 + index as u64;
            recorder.context.progress.position(done, &format!("{fs}, to {round}"));
            recorder.context.check_interrupt()?;
            let one = Round { common: &copies, fs, round, draw: true };
            age_and_read(&one, common, &mut volume, ager.as_mut(), &mut recorder)?;
        }
        volume.close()?;
    }
    in_lab(kind, common, settings, context)
}

fn age_and_read(
    one: &Round<'_>,
    common: &Common,
    volume: &mut Volume,
    ager: &mut dyn Ager,
    recorder: &mut Recorder<'_, '_>,
) -> Result<(), Failure> {
    let interrupt = recorder.context.interrupt;
    let begin = Instant::now();
    ager.advance(volume.folder(), one.round, interrupt)?;
    volume.sync()?;
    let state = State { fs: one.fs, round: one.round, aged: true, write_seconds: begin.elapsed().as_secs_f64() };
    let seen = read(volume, &state, common, interrupt)?;
    let drawn = Sketch::of(volume, &seen)?;
    let files = Tree::below(volume.folder())?.contents(volume.folder())?;
    recorder.record(seen, Some(drawn))?;
    unaged(one, &files, recorder)
}

impl Place {
    /// Where the copies are made while the aging volume is in use; `room` is the run directory.
    pub fn second(&self, room: &Path) -> Result<Self, Failure> {
        match self {
            Self::Made { spec: senesce_target::TargetSpec::Memory { .. }, .. } => Ok(self.clone()),
            Self::Made { spec, .. } => Err(Failure::usage(format!(
                "target: {spec} has room for one volume, and the copy needs a second; use memory or a directory"
            ))),
            Self::Directory(Some(path)) => {
                let mut name = path.clone().into_os_string();
                name.push("-copy");
                Ok(Self::Directory(Some(name.into())))
            }
            Self::Directory(None) => Ok(Self::Directory(Some(room.join("copy")))),
        }
    }
}
