//! What the ten experiments on zoned drives share: points, the record of their values, the comparison with what was
//! published.

pub mod compare;
pub mod condition;
pub mod figures;
pub mod measure;

use clap::{Args, ValueEnum};
use compare::Comparison;
use measure::{Measured, Point, Values};
use senesce_core::{Analysis, Bytes, Environment, Failure, Figure, Finding, Level, Seed, Span, Verdict};
use senesce_runs::run::{Context, Experiment, Planned, Recorded, Run};
use senesce_zoned::run::DeviceName;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::marker::PhantomData;

/// The zoned drive unless another is named.
pub const ZONED: &str = "sim:zn540";
/// The conventional drive unless another is named.
pub const CONVENTIONAL: &str = "sim:nvme-a";

/// How many points of a published grid are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Grid {
    /// A handful.
    Few,
    /// Those of the study's figure.
    Figure,
    /// All that were published.
    Study,
    /// Beyond them.
    Wide,
}

impl Grid {
    /// The grid of a level.
    pub fn of(level: Level) -> Self {
        level.of([Self::Few, Self::Study, Self::Study])
    }
}

/// Parameters of the experiments on a grid of request sizes, depths and zones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GridSpec {
    /// zoned drive: sim:zn540, null, or a device such as /dev/ng0n1
    #[arg(long)]
    pub device: String,
    /// points: few, figure (those of the study's figure), study (all that were published) or wide (beyond them)
    #[arg(long)]
    pub grid: Grid,
    /// how long each point is measured
    #[arg(long)]
    pub time: Span,
    /// how long each point runs before counting begins
    #[arg(long)]
    pub ramp: Span,
}

impl GridSpec {
    /// The parameters of a level.
    pub fn defaults(level: Level) -> Self {
        Self { device: ZONED.into(), grid: Grid::of(level), time: time(level), ramp: ramp(level) }
    }
}

/// How long a point is measured at a level.
pub fn time(level: Level) -> Span {
    Span::from_millis(level.of([50, 2000, 180_000]))
}

/// How long a point runs before counting begins at a level.
pub fn ramp(level: Level) -> Span {
    Span::from_millis(level.of([10, 200, 10_000]))
}

/// One experiment of the study: what differs between the ten.
pub trait ZnsStudy: 'static {
    /// Its id.
    const ID: &'static str;
    /// One line.
    const TITLE: &'static str;
    /// A few sentences above the results.
    const SUMMARY: &'static str;
    /// Its page.
    const PAGE: &'static str;
    /// Its published values.
    const PUBLISHED: &'static str;
    /// The claims about it.
    const CLAIMS: &'static str;
    /// Its parameters.
    type Spec: Args + Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync;

    /// The parameters of a level.
    fn defaults(level: Level) -> Self::Spec;

    /// What is run, one job per point.
    ///
    /// # Errors
    /// What is wrong with the parameters.
    fn points(spec: &Self::Spec) -> Result<Vec<Point>, Failure>;

    /// What is run that is no job: the drive and what it is called.
    fn script(_spec: &Self::Spec) -> Option<(&str, &'static str)> {
        None
    }

    /// Runs what is no job.
    ///
    /// # Errors
    /// What the drive answered.
    fn run_script(
        _spec: &Self::Spec,
        _erase: Option<&str>,
        _context: &Context<'_, Zns<Self>>,
    ) -> Result<Vec<Values>, Failure>
    where
        Self: Sized,
    {
        Ok(Vec::new())
    }

    /// The claims, judged on what was measured.
    fn findings(measured: &Measured) -> Vec<Finding>;
    /// The figures, with the published values.
    fn figures(measured: &Measured, comparison: &[Comparison]) -> Vec<Figure>;
}

/// What happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "kebab-case")]
pub enum Event {
    /// The values of one key.
    Point(Values),
    /// A warning of a job.
    Warning {
        /// The point.
        point: String,
        /// In words.
        text: String,
    },
}

/// An experiment of the study in execution: its points by key.
pub struct Zns<S>(BTreeMap<String, Point>, PhantomData<S>);

impl<S: ZnsStudy> Run for Zns<S> {
    const KIND: &'static str = S::ID;
    const PUBLISHED: &'static str = S::PUBLISHED;
    const CLAIMS: &'static str = S::CLAIMS;
    type Spec = S::Spec;
    type Event = Event;
    type Step = String;

    fn steps(spec: &S::Spec, _seed: Seed) -> Result<Vec<Planned<String>>, Failure> {
        let mut steps = Vec::new();
        for point in S::points(spec)? {
            let name: DeviceName = point.device.parse()?;
            let checked = senesce_zoned::run::plan_job(&name, &point.job);
            let (checked, geometry) = checked.map_err(|error| measure::at_point(&point.key, error))?;
            let step = Planned::new(point.key.clone(), point.key.clone(), point.device.clone());
            steps.push(match name {
                DeviceName::Path(_) => step.costing(Bytes(checked.preparation_bytes(&geometry)), point.seconds()),
                _ => step,
            });
        }
        if let Some((device, name)) = S::script(spec) {
            device.parse::<DeviceName>()?;
            steps.push(Planned::new(name.to_string(), name, device));
        }
        Ok(steps)
    }

    fn begin(spec: &S::Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        let points = S::points(spec)?;
        let devices = points.iter().map(|point| point.device.as_str()).chain(S::script(spec).map(|(device, _)| device));
        context.add_environment(&device_facts(devices))?;
        Ok(Self(points.into_iter().map(|point| (point.key.clone(), point)).collect(), PhantomData))
    }

    fn step(&mut self, spec: &S::Spec, key: &String, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let erase = context.erase().map(str::to_string);
        let Some(point) = self.0.get(key) else {
            let values = S::run_script(spec, erase.as_deref(), context)?;
            values.into_iter().for_each(|values| context.record(Event::Point(values)));
            return Ok(());
        };
        let (values, warnings) = measure::run_point(point, erase.as_deref(), context.seed, context.interrupt)?;
        context.check_interrupt()?;
        for text in warnings {
            context.record(Event::Warning { point: key.clone(), text });
        }
        values.into_iter().for_each(|values| context.record(Event::Point(values)));
        Ok(())
    }

    fn analyse(_spec: &S::Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let points = recorded.events().filter_map(|event| match event {
            Event::Point(values) => Some(values),
            Event::Warning { .. } => None,
        });
        let warnings = recorded.events().filter_map(|event| match event {
            Event::Warning { text, .. } => Some(text.as_str()),
            Event::Point(_) => None,
        });
        let measured = Measured::of(&recorded.environment, points, warnings);
        let comparison = compare::compare(&measured, S::PUBLISHED)?;
        let groups = compare::groups(&comparison);
        let mut findings = S::findings(&measured);
        findings.extend(compare::group_findings(&groups));
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
            findings,
            caveats: measured.caveats(),
            result: json!({
                "device": measured.device,
                "points": measured.to_json(),
                "groups": groups,
                "comparison": comparison,
            }),
        })
    }
}

impl<S: ZnsStudy> Experiment for Zns<S> {
    const TITLE: &'static str = S::TITLE;
    const PAGE: &'static str = S::PAGE;

    fn defaults(level: Level) -> S::Spec {
        S::defaults(level)
    }
}

/// The drives that were measured, as the record knows them.
fn device_facts<'a>(devices: impl Iterator<Item = &'a str>) -> Environment {
    let mut facts = Environment::default();
    let devices: BTreeSet<&str> = devices.collect();
    for (number, device) in devices.iter().enumerate() {
        facts.put(&format!("zns.device.{number}"), device);
    }
    facts
}

/// A finding from a yes or no; `None`: its points were not measured.
pub fn judged(claim: &str, published: &str, outcome: Option<(bool, String)>) -> Finding {
    let (verdict, measured, note) = match outcome {
        Some((true, measured)) => (Verdict::Seen, measured, String::new()),
        Some((false, measured)) => (Verdict::NotSeen, measured, String::new()),
        None => {
            let note = "its points are not in this grid, or the device cannot run them";
            (Verdict::NotTestable, "-".into(), note.to_string())
        }
    };
    let (claim, published) = (claim.into(), published.into());
    Finding { claim, published, measured, verdict, note, ..Finding::default() }
}
