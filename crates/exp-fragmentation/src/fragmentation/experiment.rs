//! Runs a fragmentation experiment: its steps, its events, and the guests.

use super::analysis;
use super::parameters::{Common, Spec};
use super::point::Point;
use super::rounds::{Aging, Sequential, large_file};
use super::sketch::Sketch;
use super::volume::VolumeSource;
use super::{Procedure, Round};
use senesce_claims::Facts;
use senesce_core::{Analysis, Bytes, ExitCode, Failure, Level, Seed};
use senesce_guest::GuestTime;
use senesce_guest::carry::{GuestSpec, run_in_guest};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_runs::cold::NotCold;
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

pub struct Fragmentation<P: Procedure> {
    pub(super) procedure: P,
    pub(super) place: VolumeSource,
    pub(super) aging: Option<Aging<P::State>>,
    pub(super) invalid: Option<NotCold>,
}

/// A unit of work that completes or is repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Read one large file from a file system.
    Sequential(String),
    /// A round on a file system, and its copy.
    Round {
        /// File system.
        fs: String,
        round: u64,
    },
    /// All rounds on a file system in a guest.
    Guest(FileSystem),
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Description of the measured device.
    VolumeSource(String),
    /// Read speed of one large file.
    Sequential(Sequential),
    /// Data for figures of a single point.
    Sketch(Sketch),
    /// A state of a volume, and its reads.
    Point(Point),
}

impl<P: Procedure> Run for Fragmentation<P> {
    const KIND: &'static str = P::ID;
    const PUBLISHED: &'static str = P::PUBLISHED;
    const CLAIMS: &'static str = P::CLAIMS;
    type Spec = Spec<P::Parameters>;
    type Event = Event;
    type Step = Step;

    fn needs(spec: &Self::Spec) -> Needs {
        P::needs(&spec.own)
    }

    fn steps(spec: &Self::Spec, seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        let (common, rounds) = (&spec.common, P::rounds(&spec.own, seed)?);
        let place = common.place()?;
        if P::AGES_ON {
            place.second(Path::new(""))?;
        }
        rounds.iter().try_for_each(|round| common.check_space(&place, round.data))?;
        let mut steps = Vec::new();
        for fs in common.file_systems(&place) {
            let target = format!("{fs}, {}", place.text(common.size.0));
            let large = "read one large file cold";
            let step = Planned::new(Step::Sequential(fs.clone()), large, &target);
            steps.push(step.costing(large_file(common), 1.0));
            for round in &rounds {
                let step = Step::Round { fs: fs.clone(), round: round.number };
                let bytes = Bytes(round.written.0 + round.data.0);
                steps.push(Planned::new(step, &round.action, &target).costing(bytes, seconds(common, round)));
            }
        }
        for fs in &common.guest.0 {
            let action = format!("the same on {fs}, {} rounds", rounds.len());
            // Emulation is slower by a factor of 10 to 30.
            let seconds = 20.0 + 20.0 * rounds.iter().map(|round| seconds(common, round)).sum::<f64>();
            steps.push(Planned::new(Step::Guest(*fs), action, "the guest").costing(Bytes(0), seconds));
        }
        Ok(steps)
    }

    fn begin(spec: &Self::Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        let place = spec.common.place()?;
        let scratch = context.path().join(SCRATCH);
        let procedure = P::begin(&spec.own, context.seed, &scratch, context.interrupt)?;
        Ok(Self { procedure, place, aging: None, invalid: None })
    }

    fn step(&mut self, spec: &Self::Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        match step {
            Step::Sequential(fs) => self.sequential(&spec.common, fs, context),
            Step::Round { fs, round } => self.round(spec, fs, *round, context),
            Step::Guest(fs) => match in_guest(spec, *fs, context) {
                // A file system that fails in the guest does not affect the others.
                Err(failure) if failure.exit_code() != ExitCode::Interrupted && !context.interrupt.requested() => {
                    context.caveat(format!("measured without {fs}: skipped in the guest: {failure}"));
                    Ok(())
                }
                other => other,
            },
        }
    }

    fn end(self, _spec: &Self::Spec, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let closed = self.aging.map_or(Ok(()), |aging| aging.volume.close());
        // Its content follows from the seed, so it need not be kept.
        let _ = std::fs::remove_dir_all(context.path().join(SCRATCH));
        closed
    }

    fn facts(_spec: &Self::Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        Facts { images: true, ..facts }
    }

    fn analyse(spec: &Self::Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        analysis::analyse::<P>(spec, recorded)
    }
}

impl<P: Procedure> Experiment for Fragmentation<P> {
    const TITLE: &'static str = P::TITLE;
    const PAGE: &'static str = P::PAGE;

    fn defaults(level: Level) -> Self::Spec {
        Spec { common: Common::defaults(level), own: P::defaults(level) }
    }
}

/// The folder in the run directory in which a procedure prepares its files.
const SCRATCH: &str = "source";

fn seconds(common: &Common, round: &Round) -> f64 {
    round.seconds + common.seconds_of_round(round.data)
}

fn in_guest<P: Procedure>(
    spec: &Spec<P::Parameters>,
    fs: FileSystem,
    context: &mut Context<'_, Fragmentation<P>>,
) -> Result<(), Failure> {
    let guest = GuestSpec {
        kernel: None,
        drives: Vec::new(),
        memory: Bytes(spec.common.size.bytes() * 3 + (1 << 30)),
        time: GuestTime::Real,
        time_limit: Duration::from_secs(6 * 3600),
        events_name_guest: true,
    };
    let inside = Spec { common: spec.common.in_guest(fs), own: spec.own.clone() };
    run_in_guest::<Fragmentation<P>, _>(&guest, &inside, context)
}
