//! Runs a fragmentation experiment: its steps, its events, and the guests.

use super::analysis;
use super::parameters::{Common, Spec, seed_of_image};
use super::point::Point;
use super::rounds::{Aging, Sequential, large_file};
use super::sketch::Sketch;
use super::volume::VolumeSource;
use super::{Procedure, Round};
use senesce_claims::Facts;
use senesce_core::{Analysis, Bytes, ExitCode, Failure, Level, Seed};
use senesce_guest::GuestTime;
use senesce_guest::carry::{GuestSpec, run_in_guest};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run, Special};
use senesce_runs::cold::NotCold;
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

pub struct Fragmentation<P: Procedure> {
    pub(super) procedure: P,
    /// The image that the procedure prepares.
    pub(super) image: u32,
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
    Round(RoundStep),
    /// All rounds on a file system in a guest.
    Guest(FileSystem),
}

/// A round on one volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundStep {
    /// File system.
    pub fs: String,
    pub round: u64,
    /// Number of the volume.
    #[serde(default)]
    pub image: u32,
    /// How the files are written, if the run compares several modes.
    #[serde(default)]
    pub mode: Option<String>,
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
    const SPECIAL: Special<Self> = Special { left_out: |spec| spec.common.left_out(), ..Special::NONE };
    type Spec = Spec<P::Parameters>;
    type Event = Event;
    type Step = Step;

    fn needs(spec: &Self::Spec) -> Needs {
        let mut needs = P::needs(&spec.own);
        if spec.common.needs_root() {
            let why = "its file systems are mounted, and their requests are traced";
            needs.root = Some(format!("without root, {} decides none of its claims: {why}", P::ID));
        }
        match spec.common.place() {
            Ok(VolumeSource::Made(_)) => needs.and_programs(spec.common.fs.iter().map(|fs| fs.maker())),
            _ => needs,
        }
    }

    fn steps(spec: &Self::Spec, seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        let (common, rounds) = (&spec.common, P::rounds(&spec.own, seed)?);
        let place = common.place()?;
        if P::AGES_ON {
            place.second(Path::new(""))?;
        }
        rounds.iter().try_for_each(|round| common.check_space(&place, round.data))?;
        let mut steps = Vec::new();
        for image in 0..common.images {
            for fs in common.file_systems(&place) {
                let target = format!("{fs}, {}", place.text(common.size.0));
                if image == 0 {
                    let large = "read one large file cold";
                    let step = Planned::new(Step::Sequential(fs.clone()), large, &target);
                    steps.push(step.costing(large_file(common), 1.0));
                }
                let of_image = rounds_of_modes::<P>(&spec.own, &rounds);
                steps.extend(of_image.map(|(mode, round)| planned::<P>(spec, (&fs, &target), (image, mode), round)));
            }
        }
        for fs in &common.guest.0 {
            let action = format!("the same on {fs}, {} rounds", rounds.len());
            // Emulation is slower by a factor of 10 to 30.
            let of_image = rounds_of_modes::<P>(&spec.own, &rounds);
            let of_image: f64 = of_image.map(|(mode, round)| seconds::<P>(&spec.own, common, mode, round)).sum();
            let seconds = 20.0 + 20.0 * f64::from(common.images) * of_image;
            steps.push(Planned::new(Step::Guest(*fs), action, "the guest").costing(Bytes(0), seconds));
        }
        Ok(steps)
    }

    fn begin(spec: &Self::Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        let place = spec.common.place()?;
        if let Some(warning) = spec.common.warning() {
            context.progress.say(warning);
        }
        let scratch = context.path().join(SCRATCH);
        let procedure = P::begin(&spec.own, context.seed, &scratch.join("0"), context.interrupt)?;
        Ok(Self { procedure, image: 0, place, aging: None, invalid: None })
    }

    fn step(&mut self, spec: &Self::Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        match step {
            Step::Sequential(fs) => self.sequential(&spec.common, fs, context),
            Step::Round(step) => {
                self.prepare(&spec.own, step.image, context)?;
                self.round(spec, step, context)
            }
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

    fn facts(spec: &Self::Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        Facts { images: true, changed: changed::<P>(spec, facts.level), ..facts }
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

impl<P: Procedure> Fragmentation<P> {
    /// Prepares the files of an image, whose seed differs from that of others.
    fn prepare(&mut self, own: &P::Parameters, image: u32, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        if self.image != image {
            let scratch = context.path().join(SCRATCH).join(image.to_string());
            self.procedure = P::begin(own, seed_of_image(context.seed, image), &scratch, context.interrupt)?;
            self.image = image;
        }
        Ok(())
    }
}

/// Returns all rounds in the first mode, and the first and last round in each other mode.
fn rounds_of_modes<'r, P: Procedure>(
    own: &P::Parameters,
    rounds: &'r [Round],
) -> impl Iterator<Item = (Option<&'static str>, &'r Round)> {
    let modes = P::modes(own);
    let (first, others) = (modes.first().copied(), modes.into_iter().skip(1));
    let ends = || rounds.first().into_iter().chain(rounds.last());
    let others = others.flat_map(move |mode| ends().map(move |round| (Some(mode), round)));
    rounds.iter().map(move |round| (first, round)).chain(others)
}

fn planned<P: Procedure>(
    Spec { common, own }: &Spec<P::Parameters>,
    (fs, target): (&str, &str),
    (image, mode): (u32, Option<&'static str>),
    round: &Round,
) -> Planned<Step> {
    let step = RoundStep { fs: fs.into(), round: round.number, image, mode: mode.map(Into::into) };
    let mut action = round.action.clone();
    mode.into_iter().for_each(|mode| action.push_str(&format!(", {mode}")));
    if common.images > 1 {
        action.push_str(&format!(", image {image}"));
    }
    let bytes = Bytes(round.written.0 + round.data.0);
    Planned::new(Step::Round(step), action, target).costing(bytes, seconds::<P>(own, common, mode, round))
}

/// Returns the parameters of a specification that no scale from quick on has, without those that claims name.
fn changed<P: Procedure>(spec: &Spec<P::Parameters>, level: Level) -> Vec<String> {
    const NAMED: [&str; 6] = ["fs", "images", "repetitions", "read-ahead", "target", "guest"];
    let fields = |spec: &Spec<P::Parameters>| match serde_json::to_value(spec) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let levels = if level == Level::Smoke { vec![level] } else { vec![Level::Quick, Level::Paper] };
    let scales: Vec<_> = levels.into_iter().map(|level| fields(&Fragmentation::<P>::defaults(level))).collect();
    let is_named = |name: &str| NAMED.contains(&name) || P::NAMED.contains(&name);
    let is_changed = |name: &str, value: &serde_json::Value| scales.iter().all(|scale| scale.get(name) != Some(value));
    let all = fields(spec).into_iter().filter(|(name, value)| !is_named(name) && is_changed(name, value));
    all.map(|(name, _)| name).collect()
}

/// The folder in the run directory in which a procedure prepares its files.
const SCRATCH: &str = "source";

fn seconds<P: Procedure>(own: &P::Parameters, common: &Common, mode: Option<&str>, round: &Round) -> f64 {
    round.seconds + P::pauses(own, mode, round.number) + common.seconds_of_round(round.data)
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

#[cfg(test)]
mod tests {
    use super::super::{point, volume};
    use super::*;
    use crate::copy_order::CopyOrder;
    use crate::frag_inter::FragInter;
    use crate::frag_intra::{FragIntra, InTurn, Sync};
    use crate::git_aging::GitAging;
    use crate::mail_aging::MailAging;
    use senesce_claims::{ClaimSet, Rule, untested};
    use senesce_core::Measurement;

    fn rounds(change: impl Fn(&mut <FragIntra as Run>::Spec)) -> Vec<RoundStep> {
        let mut spec = FragIntra::defaults(Level::Smoke);
        change(&mut spec);
        let steps = FragIntra::steps(&spec, Seed(1)).unwrap().into_iter();
        steps.filter_map(|planned| if let Step::Round(step) = planned.step { Some(step) } else { None }).collect()
    }

    #[test]
    fn images_take_turns_and_other_modes_have_the_first_and_last_round() {
        let found = rounds(|spec| {
            spec.common.images = 2;
            spec.own.sync = vec![Sync::Fsync, Sync::Rare];
        });
        let of_image = |image: u32| found.iter().filter(move |step| step.image == image);
        let modes = |image| of_image(image).map(|step| (step.mode.clone().unwrap(), step.round)).collect::<Vec<_>>();
        let wanted = [("fsync", 0), ("fsync", 1), ("fsync", 2), ("rare", 0), ("rare", 2)];
        assert_eq!(modes(0), wanted.map(|(mode, round)| (mode.to_string(), round)));
        assert_eq!(modes(0), modes(1));
        assert_eq!(found.iter().map(|step| step.image).collect::<Vec<_>>(), [[0; 5], [1; 5]].concat());
    }

    #[test]
    fn programs_that_make_volumes_are_needed_from_the_start() {
        let mut spec = FragIntra::defaults(Level::Quick);
        spec.common.target = "image:volume.img".parse().unwrap();
        let programs: Vec<_> = FragIntra::needs(&spec).programs.into_iter().map(|(program, _)| program).collect();
        assert_eq!(programs, ["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]);
        let folder = tempfile::tempdir().unwrap();
        spec.common.target = folder.path().to_str().unwrap().parse().unwrap();
        assert_eq!(FragIntra::needs(&spec).programs, []);
    }

    #[test]
    fn root_is_needed_unless_a_directory_or_a_guest_is_measured() {
        let of = |change: &dyn Fn(&mut Common)| {
            let mut spec = FragIntra::defaults(Level::Quick);
            change(&mut spec.common);
            (FragIntra::needs(&spec).root.is_some(), spec.common.warning().is_some())
        };
        let guest = |common: &mut Common| common.guest = "f2fs".parse().unwrap();
        let directory = |common: &mut Common| common.target = "/tmp".parse().unwrap();
        assert_eq!(of(&|_| ()), (true, false), "no claim is decided without root");
        assert_eq!(of(&|common| common.target = "image:volume.img".parse().unwrap()), (true, false));
        assert_eq!(of(&guest), (false, false), "the guest decides claims");
        assert_eq!(of(&directory), (false, true));
        let both = |common: &mut Common| {
            directory(common);
            guest(common);
        };
        assert_eq!(of(&both), (false, false));
    }

    /// Returns the number of claims that values of a file system leave untested, and of all that can be tested.
    fn untested_by<R: Run>(fs: &str) -> (usize, usize) {
        let rounds = (0_u64..=100).step_by(10).chain([300, 1000, 10_000]);
        let states = rounds.flat_map(|round| [(round, true), (round, false)]);
        let point = |(round, aged)| point::Point { fs: fs.into(), round, aged, ..point::tests::read_of_a_gib(1 << 30) };
        let values = states.flat_map(|state| point(state).measurements());
        let values: Vec<Measurement> = values.map(|one| one.under("sync", "fsync").under("gc", "off")).collect();
        let set = ClaimSet::parse(R::CLAIMS, R::PUBLISHED).unwrap();
        let testable = set.claims.iter().filter(|claim| !matches!(claim.rule, Rule::NotTestable { .. })).count();
        (untested(&set, &values).len(), testable)
    }

    #[test]
    fn values_of_a_directory_test_no_claim() {
        type Counted = fn(&str) -> (usize, usize);
        let all: [Counted; 5] = [
            untested_by::<FragIntra>,
            untested_by::<FragInter>,
            untested_by::<CopyOrder>,
            untested_by::<GitAging>,
            untested_by::<MailAging>,
        ];
        for of in all {
            let (untested, testable) = of(volume::AS_FOUND);
            assert_eq!(untested, testable);
        }
        let (untested, testable) = untested_by::<FragInter>("ext4");
        assert!(untested < testable, "the values test claims about ext4");
    }

    #[test]
    fn steps_of_older_records_are_read() {
        let step: Step = serde_json::from_str(r#"{"round": {"fs": "ext4", "round": 3}}"#).unwrap();
        assert_eq!(step, Step::Round(RoundStep { fs: "ext4".into(), round: 3, image: 0, mode: None }));
    }

    #[test]
    fn parameters_that_no_scale_has_are_listed_unless_claims_name_them() {
        let of = |change: &dyn Fn(&mut <FragIntra as Run>::Spec)| {
            let mut spec = FragIntra::defaults(Level::Quick);
            change(&mut spec);
            changed::<InTurn>(&spec, Level::Quick)
        };
        assert_eq!(of(&|_| ()), [""; 0]);
        assert_eq!(of(&|spec| spec.own.step = 3), [""; 0], "claims name rounds");
        assert_eq!(of(&|spec| spec.common.images = 7), [""; 0]);
        assert_eq!(of(&|spec| spec.own.files = 1), ["files"]);
        assert_eq!(of(&|spec| spec.common.size = senesce_core::Size(Bytes::mib(64))), ["size"], "that of smoke");
        assert_eq!(of(&|spec| spec.common.disk = "hdd:other".into()), ["disk"]);
    }
}
