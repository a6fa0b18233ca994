//! What the ten experiments on zoned drives share: points, the record of their values, the comparison with what was
//! published.

pub mod compare;
pub mod condition;
pub mod drives;
pub mod figures;
pub mod measure;
pub mod parameters;
mod run;
pub mod values;

use clap::ValueEnum;
use compare::Comparison;
use drives::Drives;
use measure::{Measured, Point};
pub use parameters::{GridSpec, LoadSpec, Parameters, once};
pub use run::{Event, Zns, facts_of, measurements_of};
use senesce_core::{Bytes, Failure, Figure, Level, Span};
use senesce_runner::Context;
use senesce_zoned::survey::Survey;
use senesce_zoned::{Geometry, ZonedDevice};
use serde::{Deserialize, Serialize};
use values::{Derived, Values};

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
    pub fn of(level: Level) -> Self {
        level.of([Self::Few, Self::Study, Self::Study])
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
    const ID: &'static str;
    const TITLE: &'static str;
    /// A few sentences above the results.
    const SUMMARY: &'static str;
    const PAGE: &'static str;
    const PUBLISHED: &'static str;
    const CLAIMS: &'static str;
    type Spec: Parameters;

    /// What is run on these drives, one job per point. Points that a drive cannot run are left out later.
    fn points(spec: &Self::Spec, drives: &Drives) -> Result<Vec<Point>, Failure>;

    /// What is run on the zoned drive that is no job, in a few words.
    const SCRIPT: Option<&'static str> = None;

    /// Bytes that this writes and seconds that it takes, on a drive of these zones that is not simulated.
    fn script_cost(_spec: &Self::Spec, _survey: &Survey, _geometry: &Geometry) -> (Bytes, f64) {
        (Bytes(0), 0.0)
    }

    /// Runs what is no job.
    fn run_script(
        _spec: &Self::Spec,
        _survey: &Survey,
        _device: &mut dyn ZonedDevice,
        _context: &Context<'_, Zns<Self>>,
    ) -> Result<Vec<Values>, Failure>
    where
        Self: Sized,
    {
        Ok(Vec::new())
    }

    /// What follows from several values, for claims.
    fn derived(_measured: &Measured) -> Vec<Derived> {
        Vec::new()
    }

    fn figures(measured: &Measured, comparison: &[Comparison]) -> Vec<Figure>;
}
