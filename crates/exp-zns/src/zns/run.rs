//! Runs an experiment of the study: its drives, points and repetitions.

use super::compare;
use super::drives::{Drives, Fitting, Used, checked, used};
use super::measure::{self, DeviceValues, Point};
use super::values::{Values, measurement};
use super::{Parameters, ZnsStudy};
use crate::job::cost::of_job;
use senesce_claims::Facts;
use senesce_core::{Analysis, Bytes, ExitCode, Failure, Level, Measurement, Seed, Span};
use senesce_runner::{Context, Experiment, Planned, Recorded, Run};
use senesce_zoned::hardware::Leftover;
use senesce_zoned::session::Session;
use senesce_zoned::survey::{DriveNature, Survey};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::path::Path;

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The values of one key.
    Point(Values),
    /// A warning of a job.
    Warning { point: String, text: String },
    /// Data on a real drive before the run wrote to it, then the state that the run left: it may be overwritten when
    /// the run continues.
    Left {
        /// The drive as named by the user.
        device: String,
        /// Written length of each zone.
        zones: Leftover,
    },
}

pub struct Zns<S> {
    points: BTreeMap<String, Point>,
    zoned: Survey,
    sessions: BTreeMap<String, Session>,
    study: PhantomData<S>,
}

fn step_words(key: &str, repetition: u32) -> String {
    if repetition == 0 { key.into() } else { format!("{key} #{}", repetition + 1) }
}

fn point_of(words: &str) -> (&str, u32) {
    let numbered = words.rsplit_once(" #").and_then(|(key, number)| Some((key, number.parse::<u32>().ok()? - 1)));
    numbered.unwrap_or((words, 0))
}

/// Returns an upper bound of the bytes that a point writes on a real drive, and an estimate of its seconds.
fn cost(point: &Point, drive: &Survey) -> (Bytes, f64) {
    if drive.nature == DriveNature::Simulated {
        return (Bytes(0), 0.0);
    }
    checked(point, drive).map_or((Bytes(0), 0.0), |(checked, geometry)| of_job(&checked, &geometry))
}

fn script_cost<S: ZnsStudy>(spec: &S::Spec, drive: &Survey) -> (Bytes, f64) {
    match drive.nature {
        DriveNature::Simulated => (Bytes(0), 0.0),
        _ => S::script_cost(spec, drive, &drive.in_blocks(script_block_bytes(drive)).0),
    }
}

/// Selects blocks of 4 KiB if the drive has such a format, otherwise its own.
fn script_block_bytes(drive: &Survey) -> u32 {
    if drive.block_sizes().contains(&4096) { 4096 } else { drive.geometry.block_bytes }
}

impl<S: ZnsStudy> Run for Zns<S> {
    const KIND: &'static str = S::ID;
    const PUBLISHED: &'static str = S::PUBLISHED;
    const CLAIMS: &'static str = S::CLAIMS;
    type Spec = S::Spec;
    type Event = Event;
    type Step = String;

    fn facts(spec: &S::Spec, recorded: &Recorded<Self>, facts: Facts) -> Facts {
        Facts { short: is_short(spec), ..facts_of(&used(&recorded.environment), facts) }
    }

    fn steps(spec: &S::Spec, _seed: Seed) -> Result<Vec<Planned<String>>, Failure> {
        let drives = Drives::find(spec.drives())?;
        let fitting = Fitting::of(S::points(spec, &drives)?, &drives)?;
        let mut steps = Vec::new();
        for repetition in 0..spec.repetitions() {
            for point in &fitting.points {
                let words = step_words(&point.key, repetition);
                let (bytes, seconds) = drives.named(&point.device).map_or((Bytes(0), 0.0), |drive| cost(point, drive));
                steps.push(Planned::new(words.clone(), words, point.device.clone()).costing(bytes, seconds));
            }
            if let Some(script) = S::SCRIPT {
                let words = step_words(script, repetition);
                let (bytes, seconds) = script_cost::<S>(spec, &drives.zoned);
                steps.push(Planned::new(words.clone(), words, drives.zoned.name.clone()).costing(bytes, seconds));
            }
        }
        Ok(steps)
    }

    fn begin(spec: &S::Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        let drives = Drives::find(spec.drives())?;
        let fitting = Fitting::of(S::points(spec, &drives)?, &drives)?;
        fitting.caveats().for_each(|words| context.caveat(words));
        let points = fitting.points.into_iter().map(|point| (point.key.clone(), point)).collect();
        context.add_environment(&drives.facts())?;
        let mut sessions = BTreeMap::new();
        let names: Vec<String> =
            std::iter::once(&drives.zoned).chain(&drives.conventional).map(|drive| drive.name.clone()).collect();
        let paths: Vec<&Path> = names.iter().map(Path::new).collect();
        for drive in std::iter::once(&drives.zoned).chain(&drives.conventional) {
            let left = context.recorded().events().rev().find_map(|event| match event {
                Event::Left { device, zones } if *device == drive.name => Some(zones.clone()),
                _ => None,
            });
            let erase = senesce_volume::guard::word_for(context.erase(), Path::new(&drive.name), &paths);
            sessions.insert(drive.name.clone(), Session::new(drive.name.parse()?, erase, left));
        }
        Ok(Self { points, zoned: drives.zoned, sessions, study: PhantomData })
    }

    fn step(&mut self, spec: &S::Spec, words: &String, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let (key, repetition) = point_of(words);
        let seed = match repetition {
            0 => context.seed,
            number => context.seed.child(&format!("repetition/{number}")),
        };
        let found = match self.points.get(key) {
            None => self.run_script(spec, seed, context)?,
            Some(point) => {
                let Some(session) = self.sessions.get_mut(&point.device) else {
                    return Err(Failure::new(
                        ExitCode::RunFailed,
                        format!("point {key}: the drive {} was not found", point.device),
                    ));
                };
                let held = session.claim(Some(&point.job)).map_err(|error| measure::at_point(key, error))?;
                record_held(&point.device, held, context)?;
                let (values, warnings) = measure::run_on(session, point, seed, context.interrupt)?;
                context.check_interrupt()?;
                for text in warnings {
                    context.record(Event::Warning { point: key.to_string(), text });
                }
                values
            }
        };
        found.into_iter().for_each(|values| context.record(Event::Point(Values { repetition, ..values })));
        match self.leftovers() {
            Ok(left) => left.into_iter().for_each(|(device, zones)| context.record(Event::Left { device, zones })),
            // Measured values stay valid; a later part of the run asks before it writes.
            Err(failure) => context.caveat(format!(
                "after point {key} senesce could not read the drive's zones, so this run needs --erase to continue: \
                 {failure}"
            )),
        }
        Ok(())
    }

    fn end(self, _spec: &S::Spec, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        for (device, zones) in self.leftovers()? {
            context.record_now(Event::Left { device, zones })?;
        }
        Ok(())
    }

    fn analyse(_spec: &S::Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let warnings = recorded.events().filter_map(|event| match event {
            Event::Warning { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let measured = DeviceValues::of(&recorded.environment, points(recorded), warnings);
        let comparison = compare::compare(&measured, S::PUBLISHED)?;
        let groups = compare::groups(&comparison);
        let mut tables = Vec::new();
        if !groups.is_empty() {
            tables.push(compare::group_table(&groups));
        }
        tables.push(compare::table(&comparison, &measured));
        Ok(Analysis {
            title: S::TITLE.into(),
            summary: S::SUMMARY.into(),
            figures: S::figures(&measured, &comparison),
            tables,
            caveats: measured.caveats(),
            result: json!({
                "device": measured.device,
                "points": measured.to_json(),
                "groups": groups,
                "comparison": comparison,
            }),
            ..Analysis::default()
        })
    }

    fn measurements(_spec: &S::Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        let values: Vec<Values> = points(recorded).cloned().collect();
        measurements_of::<S>(&used(&recorded.environment), &values)
    }
}

fn points<S: ZnsStudy>(recorded: &Recorded<Zns<S>>) -> impl Iterator<Item = &Values> {
    recorded.events().filter_map(|event| match event {
        Event::Point(values) => Some(values),
        _ => None,
    })
}

/// Returns all values of a record, and those derived from each repetition, for claims, comparisons and exports.
pub fn measurements_of<S: ZnsStudy>(drives: &[Used], points: &[Values]) -> Vec<Measurement> {
    let is_simulated = !drives.is_empty() && drives.iter().all(|drive| drive.nature == "simulated");
    let mut found: Vec<Measurement> = points.iter().flat_map(Values::measurements).collect();
    let repetitions: BTreeSet<u32> = points.iter().map(|values| values.repetition).collect();
    for repetition in repetitions {
        let of_it = points.iter().filter(|values| values.repetition == repetition);
        let measured = DeviceValues::on(drives.to_vec(), of_it, std::iter::empty());
        let derived = S::derived(&measured).into_iter();
        found.extend(
            derived
                .filter_map(|one| measurement(&one.key, one.metric, one.unit, one.better, one.value, repetition))
                // A ratio of rates is a timing like the rates, which its unit does not show.
                .map(|one| if is_simulated { one } else { one.timing(true) }),
        );
    }
    if is_simulated { found.into_iter().map(Measurement::modelled).collect() } else { found }
}

/// Returns whether a point is measured for less time than at the quick scale.
fn is_short(spec: &impl Serialize) -> bool {
    let values = serde_json::to_value(spec).unwrap_or_default();
    let time = values.get("time").and_then(|time| time.as_str()?.parse::<Span>().ok());
    time.is_some_and(|time| time < super::time(Level::Quick))
}

pub fn facts_of(drives: &[Used], facts: Facts) -> Facts {
    let simulated = |drive: &&Used| drive.nature == "simulated";
    let model = |own: bool| drives.iter().filter(simulated).find(|drive| drive.called.is_empty() == own);
    Facts {
        model: model(false).map(|drive| drive.name.clone()).or(facts.model),
        own_model: model(true).map(|drive| drive.name.clone()).or(facts.own_model),
        deterministic: !drives.is_empty() && drives.iter().all(|drive| simulated(&drive)),
        emulated: facts.emulated && !drives.iter().all(|drive| simulated(&drive))
            || drives.iter().any(|drive| drive.nature == "emulated"),
        drives: drives.iter().filter(|drive| !drive.called.is_empty()).map(|drive| drive.called.clone()).collect(),
        ..facts
    }
}

/// Records the data of a newly claimed drive, so that an interrupted run recognizes it.
fn record_held<S: ZnsStudy>(
    device: &str,
    held: Option<Leftover>,
    context: &mut Context<'_, Zns<S>>,
) -> Result<(), Failure> {
    match held {
        Some(zones) => context.record_now(Event::Left { device: device.into(), zones }),
        None => Ok(()),
    }
}

impl<S: ZnsStudy> Zns<S> {
    fn run_script(
        &mut self,
        spec: &S::Spec,
        seed: Seed,
        context: &mut Context<'_, Self>,
    ) -> Result<Vec<Values>, Failure> {
        let block_bytes = script_block_bytes(&self.zoned);
        let Some(session) = self.sessions.get_mut(&self.zoned.name) else {
            return Err(Failure::new(ExitCode::RunFailed, format!("the drive {} was not found", self.zoned.name)));
        };
        record_held(&self.zoned.name, session.claim(None)?, context)?;
        let mut device = session.open(block_bytes, seed)?;
        let found = S::run_script(spec, &self.zoned, &mut *device, context);
        if found.is_err() {
            session.distrust();
        }
        found
    }

    fn leftovers(&self) -> Result<Vec<(String, Leftover)>, Failure> {
        let mut found = Vec::new();
        for (device, session) in &self.sessions {
            found.extend(session.leftover()?.map(|zones| (device.clone(), zones)));
        }
        Ok(found)
    }
}

impl<S: ZnsStudy> Experiment for Zns<S> {
    const TITLE: &'static str = S::TITLE;
    const PAGE: &'static str = S::PAGE;

    fn defaults(level: Level) -> S::Spec {
        S::Spec::defaults(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zns::GridSpec;
    use crate::zns_bandwidth::ZnsBandwidth;
    use crate::zns_open_close::{Spec as OpenCloseSpec, ZnsOpenClose};
    use crate::zns_reset::{FillSpec, ZnsReset};
    use senesce_core::Record;
    use senesce_core::plan::BY_TIME_ALONE;
    use senesce_runner::Registry;
    use senesce_runner::{Conduct, conduct};
    use senesce_runs::compare::{Options, compare};

    const REGISTRY: Registry = Registry { experiments: &[crate::EXPERIMENTS], verbs: &[crate::VERBS] };

    #[test]
    fn step_name_has_point_and_repetition() {
        for (key, repetition) in [("op=write,qd=1", 0), ("write with resets", 4)] {
            assert_eq!(point_of(&step_words(key, repetition)), (key, repetition));
        }
    }

    #[test]
    fn unpublished_model_belongs_to_the_user() {
        let drive =
            |name: &str, called: &str| Used { name: name.into(), nature: "simulated".into(), called: called.into() };
        let published = drive("sim:nvme-a", "nvme-a");
        let facts = facts_of(&[published, drive("sim:./mine.toml", "")], Facts::of(Level::Quick));
        assert_eq!(facts.own_model.as_deref(), Some("sim:./mine.toml"));
        assert_eq!(facts.model.as_deref(), Some("sim:nvme-a"), "claims still name it");
    }

    #[test]
    fn cost_on_a_real_drive_is_estimated_in_advance() {
        let plan = |spec: &FillSpec| Zns::<ZnsReset>::plan(spec, Seed(1)).unwrap();
        let spec = FillSpec { device: "null".into(), ..FillSpec::defaults(Level::Smoke) };
        let zone = Drives::find(spec.drives()).unwrap().zoned.geometry.capacity_bytes();
        assert_eq!(plan(&spec).bytes_to_write, 30 * zone, "twenty zones empty, half full and full");
        assert!(plan(&spec).estimated_seconds > 20.0);
        assert_eq!(plan(&FillSpec::defaults(Level::Smoke)).bytes_to_write, 0, "a model writes nothing");
        let opened = OpenCloseSpec { device: "null".into(), rounds: 3, ..OpenCloseSpec::defaults(Level::Smoke) };
        let plan = Zns::<ZnsOpenClose>::plan(&opened, Seed(1)).unwrap();
        assert_eq!(plan.bytes_to_write, 3 * 4 * (2 * zone + 2 * 33 * 4096), "appends end behind the first 32 blocks");
        assert!((25.0..30.0).contains(&plan.estimated_seconds), "{plan:?}");
        let writers = GridSpec { device: "null".into(), ..GridSpec::defaults(Level::Smoke) };
        let plan = Zns::<ZnsBandwidth>::plan(&writers, Seed(1)).unwrap();
        assert_eq!(plan.bytes_to_write, BY_TIME_ALONE);
        assert!((0.06 * plan.steps.len() as f64 - plan.estimated_seconds).abs() < 1e-6, "{plan:?}");
    }

    #[test]
    fn machine_load_does_not_matter_to_a_simulation() {
        let room = tempfile::tempdir().unwrap();
        let run = |seed: u64| {
            // Enough values for an interval.
            let spec = OpenCloseSpec { repetitions: 6, ..OpenCloseSpec::defaults(Level::Smoke) };
            let out = room.path().join(seed.to_string());
            conduct::<Zns<ZnsOpenClose>>(&spec, Seed(seed), &Conduct::quietly(&out)).unwrap();
            let mut record = Record::open(&out).unwrap();
            let busy = ["run.before.cpu_pressure_percent", "run.during.others_percent"]
                .map(|name| (name.to_string(), json!(50.0)));
            record.environment.0.extend(busy);
            record.environment.0.insert("machine.virtual".into(), json!(true));
            record
        };
        let (one, other) = (run(1), run(2));
        let caveats = REGISTRY.analyse(&one).unwrap().caveats.join("\n");
        assert!(!caveats.contains("busy") && !caveats.contains("other programs"), "{caveats}");
        let found = compare(&REGISTRY, &[one], &[other], &Options::default()).unwrap();
        assert!(!found.caveats.join("\n").contains("took up to"), "{:?}", found.caveats);
        assert!(!found.caveats.join("\n").contains("assumed to be 20"), "{:?}", found.caveats);
    }

    #[test]
    fn simulator_is_deterministic_and_emulated_times_are_not_compared() {
        let drive =
            |nature: &str, called: &str| Used { name: "x".into(), nature: nature.into(), called: called.into() };
        let facts = |drives: &[Used]| facts_of(drives, Facts::of(Level::Quick));
        let simulated = facts(&[drive("simulated", "WD ZN540")]);
        assert!(
            simulated.deterministic
                && !simulated.emulated
                && simulated.model.is_some()
                && simulated.own_model.is_none()
        );
        assert_eq!(simulated.drives, ["WD ZN540"]);
        let emulated = facts(&[drive("emulated", "")]);
        assert!(emulated.emulated && !emulated.deterministic && emulated.model.is_none() && emulated.drives.is_empty());
        assert!(!facts(&[drive("real", "")]).emulated);
        // A simulator computes the same values on an emulated processor.
        let within = facts_of(&[drive("simulated", "")], Facts { emulated: true, ..Facts::of(Level::Quick) });
        assert!(!within.emulated);
    }
}
