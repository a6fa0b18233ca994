//! Parameters that several of the experiments share.

use super::drives::Names;
use super::{CONVENTIONAL, Grid, ZONED, ramp, time};
use clap::Args;
use senesce_core::{Level, Span};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

pub trait Parameters: Args + Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync {
    fn defaults(level: Level) -> Self;

    fn drives(&self) -> Names<'_>;

    fn repetitions(&self) -> u32;
}

/// Returns the default number of measurements of a point.
pub(crate) fn once() -> u32 {
    1
}

/// Parameters of the experiments on a grid of request sizes, depths and zones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GridSpec {
    /// zoned drive: sim:zn540, null, or a device such as /dev/ng0n1
    #[arg(long)]
    pub device: String,
    /// points: few, figure (the study's figure), study (all published ones) or wide (beyond them)
    #[arg(long)]
    pub grid: Grid,
    /// measured time of each point
    #[arg(long)]
    pub time: Span,
    /// warm-up of each point, not counted
    #[arg(long)]
    pub ramp: Span,
    /// measurements of each point; verdicts on a real drive need 5
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[serde(default = "once")]
    pub repetitions: u32,
}

impl Parameters for GridSpec {
    fn defaults(level: Level) -> Self {
        Self { device: ZONED.into(), grid: Grid::of(level), time: time(level), ramp: ramp(level), repetitions: 1 }
    }

    fn drives(&self) -> Names<'_> {
        Names { zoned: &self.device, conventional: None }
    }

    fn repetitions(&self) -> u32 {
        self.repetitions
    }
}

/// Parameters of the experiments that apply the same load to a zoned and a conventional drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LoadSpec {
    /// zoned drive, grid, times
    #[command(flatten)]
    pub points: GridSpec,
    /// conventional drive to compare with; none leaves it out
    #[arg(long)]
    pub conventional: String,
}

impl Parameters for LoadSpec {
    fn defaults(level: Level) -> Self {
        Self { points: GridSpec::defaults(level), conventional: CONVENTIONAL.into() }
    }

    fn drives(&self) -> Names<'_> {
        let conventional = (self.conventional != "none").then_some(&*self.conventional);
        Names { conventional, ..self.points.drives() }
    }

    fn repetitions(&self) -> u32 {
        self.points.repetitions
    }
}
