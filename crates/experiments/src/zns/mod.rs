//! What the ten experiments on zoned drives share: points, the record of their values, the comparison with what was
//! published.

pub mod compare;
pub mod condition;
pub mod figures;
pub mod measure;

use compare::Comparison;
use measure::{Measured, Point};
use senesce_core::{
    Analysis, Experiment, Failure, Figure, Finding, Parameter, ParameterKind, Plan, Record, RunContext, RunKind,
    Settings, Verdict,
};
use senesce_zoned::run::DeviceName;
use serde_json::json;

/// `--device`.
pub const DEVICE: Parameter = Parameter {
    name: "device",
    help: "zoned drive: sim:zn540, null, or a device such as /dev/ng0n1",
    kind: ParameterKind::Text,
    defaults: ["sim:zn540"; 3],
};

/// `--conventional`.
pub const CONVENTIONAL: Parameter = Parameter {
    name: "conventional",
    help: "conventional drive to compare with; none leaves it out",
    kind: ParameterKind::Text,
    defaults: ["sim:nvme-a"; 3],
};

/// `--grid`.
pub const GRID: Parameter = Parameter {
    name: "grid",
    help: "points: few, figure (those of the study's figure), study (all that were published) or wide (beyond them)",
    kind: ParameterKind::Choice(&["few", "figure", "study", "wide"]),
    defaults: ["few", "study", "study"],
};

/// `--time`.
pub const TIME: Parameter = Parameter {
    name: "time",
    help: "how long each point is measured",
    kind: ParameterKind::Duration,
    defaults: ["50ms", "2s", "3min"],
};

/// `--ramp`.
pub const RAMP: Parameter = Parameter {
    name: "ramp",
    help: "how long each point runs before counting begins",
    kind: ParameterKind::Duration,
    defaults: ["10ms", "200ms", "10s"],
};

/// `--erase`.
pub const ERASE: Parameter = Parameter {
    name: "erase",
    help: "path or serial number of a real drive whose data may be lost",
    kind: ParameterKind::Text,
    defaults: [""; 3],
};

/// How many points of a published grid are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The grid of these settings.
    pub fn of(settings: &Settings) -> Self {
        match settings.text("grid") {
            "few" => Self::Few,
            "figure" => Self::Figure,
            "wide" => Self::Wide,
            _ => Self::Study,
        }
    }
}

/// One experiment of the study: what differs between the ten.
pub trait ZnsStudy: Sync {
    /// Its id.
    fn id(&self) -> &'static str;
    /// One line.
    fn title(&self) -> &'static str;
    /// A few sentences above the results.
    fn summary(&self) -> &'static str;
    /// Its parameters.
    fn parameters(&self) -> &'static [Parameter];
    /// Its page.
    fn doc(&self) -> &'static str;
    /// Its published values.
    fn published(&self) -> &'static str;
    /// What is run, one job per point.
    fn points(&self, settings: &Settings) -> Result<Vec<Point>, Failure>;
    /// The claims, judged on what was measured.
    fn findings(&self, measured: &Measured) -> Vec<Finding>;
    /// The figures, with the published values.
    fn figures(&self, measured: &Measured, comparison: &[Comparison]) -> Vec<Figure>;

    /// Runs what is not a job.
    fn run_more(&self, _settings: &Settings, _context: &mut RunContext<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

/// An experiment of the study as the registry knows it.
pub struct Zns<S>(pub S);

impl<S: ZnsStudy> RunKind for Zns<S> {
    fn kind(&self) -> &'static str {
        self.0.id()
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let measured = Measured::from_record(record);
        let comparison = compare::compare(&measured, self.0.published())?;
        let groups = compare::groups(&comparison);
        let mut findings = self.0.findings(&measured);
        findings.extend(compare::group_findings(&groups));
        let mut tables = Vec::new();
        if !groups.is_empty() {
            tables.push(compare::group_table(&groups));
        }
        tables.push(compare::table(&comparison, &measured));
        Ok(Analysis {
            title: self.0.title().into(),
            summary: self.0.summary().into(),
            figures: self.0.figures(&measured, &comparison),
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
    fn title(&self) -> &'static str {
        self.0.title()
    }

    fn parameters(&self) -> &'static [Parameter] {
        self.0.parameters()
    }

    fn doc(&self) -> &'static str {
        self.0.doc()
    }

    fn published(&self) -> &'static str {
        self.0.published()
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let points = self.0.points(settings)?;
        let mut plan = Plan::new(self.0.id(), settings.seed(), settings.to_map());
        for point in &points {
            let name: DeviceName = point.device.parse()?;
            let checked = senesce_zoned::run::plan_job(&name, &point.job);
            let (checked, geometry) = checked.map_err(|error| measure::at_point(&point.key, error))?;
            let seconds = point.seconds();
            plan.step(point.key.clone(), point.device.clone());
            if matches!(name, DeviceName::Path(_)) {
                plan.estimated_seconds += seconds;
                plan.bytes_to_write += checked.preparation_bytes(&geometry);
            }
        }
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        measure::run_points(&self.0.points(settings)?, settings, context)?;
        self.0.run_more(settings, context)
    }
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
    Finding { claim: claim.into(), published: published.into(), measured, verdict, note }
}
