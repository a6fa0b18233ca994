//! Shared by the ten experiments on zoned drives: points, records of their values, and the comparison with published
//! values.

pub mod compare;
pub(crate) mod condition;
pub mod drives;
pub(crate) mod figures;
pub mod measure;
pub(crate) mod parameters;
mod run;
pub mod values;

use clap::ValueEnum;
use compare::Comparison;
use drives::Drives;
use measure::{DeviceValues, Point};
pub use parameters::{GridSpec, Parameters};
pub(crate) use parameters::{LoadSpec, once};
pub use run::{Event, Zns, facts_of, measurements_of};
use senesce_core::{Bytes, Failure, Figure, Level, Span};
use senesce_runner::Context;
use senesce_zoned::survey::Survey;
use senesce_zoned::{Geometry, ZonedDevice};
use serde::{Deserialize, Serialize};
use values::{Derived, Values};

pub(crate) const ZONED: &str = "sim:zn540";
pub(crate) const CONVENTIONAL: &str = "sim:nvme-a";

/// The share of a published grid to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Grid {
    Few,
    /// The points of the study's figure.
    Figure,
    /// All published points.
    Study,
    /// All published points and more.
    Wide,
}

impl Grid {
    pub(crate) fn of(level: Level) -> Self {
        level.of([Self::Few, Self::Study, Self::Study])
    }
}

pub(crate) fn time(level: Level) -> Span {
    Span::from_millis(level.of([50, 2000, 180_000]))
}

pub(crate) fn ramp(level: Level) -> Span {
    Span::from_millis(level.of([10, 200, 10_000]))
}

pub trait ZnsStudy: 'static {
    const ID: &'static str;
    const TITLE: &'static str;
    const SUMMARY: &'static str;
    const PAGE: &'static str;
    const PUBLISHED: &'static str;
    const CLAIMS: &'static str;
    type Spec: Parameters;

    /// Plans one job per point on these drives. Points that a drive cannot run are removed later.
    fn points(spec: &Self::Spec, drives: &Drives) -> Result<Vec<Point>, Failure>;

    /// Work on the zoned drive outside jobs, in a few words.
    const SCRIPT: Option<&'static str> = None;

    /// Returns the bytes that the script writes and its seconds, on a real drive with these zones.
    fn script_cost(_spec: &Self::Spec, _survey: &Survey, _geometry: &Geometry) -> (Bytes, f64) {
        (Bytes(0), 0.0)
    }

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

    fn derived(_measured: &DeviceValues) -> Vec<Derived> {
        Vec::new()
    }

    fn figures(measured: &DeviceValues, comparison: &[Comparison]) -> Vec<Figure>;
}
