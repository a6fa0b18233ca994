//! Cost of opening and closing zones, explicitly and implicitly.

use crate::job::cost::of_singles;
use crate::zns::compare::Comparison;
use crate::zns::drives::{Drives, Names};
use crate::zns::measure::{DeviceValues, Point};
use crate::zns::values::Values;
use crate::zns::{Parameters, ZONED, Zns, ZnsStudy, once};
use clap::Args;
use senesce_core::{Axis, Better, Bytes, Failure, Figure, FigureKind, Level, Mark, Series};
use senesce_runner::Context;
use senesce_zoned::script::{OpenMethod, TimedLatencies, cost_of_round, open_close_round};
use senesce_zoned::survey::Survey;
use senesce_zoned::{Geometry, Operation, ZoneState, ZonedDevice};
use serde::{Deserialize, Serialize};

pub struct ZnsOpenClose;

fn mean(measured: &DeviceValues, name: &str) -> Option<f64> {
    measured.get(name, "lat_mean_us")
}

/// Parameters of this experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// zoned drive: sim:zn540, null, or a device such as /dev/ng0n1
    #[arg(long)]
    pub device: String,
    /// zones to open, one after the other
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub zones: u32,
    /// openings of each zone with each method
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub rounds: u64,
    /// measurements of each point; verdicts on a real drive need 5
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[serde(default = "once")]
    pub repetitions: u32,
}

impl Parameters for Spec {
    fn defaults(level: Level) -> Self {
        Self { device: ZONED.into(), zones: level.of([4, 40, 452]), rounds: level.of([1, 1, 4]), repetitions: 1 }
    }

    fn drives(&self) -> Names<'_> {
        Names { zoned: &self.device, conventional: None }
    }

    fn repetitions(&self) -> u32 {
        self.repetitions
    }
}

impl ZnsStudy for ZnsOpenClose {
    const ID: &'static str = "zns-open-close";
    const TITLE: &'static str = "Zoned drive: cost of opening and closing zones";
    const SUMMARY: &'static str = "Each zone is opened by command or by its first write or append, written up to its last block, closed, and written \
         again; each command is timed.";
    const PAGE: &'static str = include_str!("../docs/experiments/zns-open-close.md");
    const PUBLISHED: &'static str = include_str!("../data/published/zns-open-close.csv");
    const CLAIMS: &'static str = include_str!("../data/published/zns-open-close.claims.toml");
    type Spec = Spec;

    fn points(_spec: &Spec, _drives: &Drives) -> Result<Vec<Point>, Failure> {
        Ok(Vec::new())
    }

    const SCRIPT: Option<&'static str> = Some("open and close");

    fn script_cost(spec: &Spec, survey: &Survey, geometry: &Geometry) -> (Bytes, f64) {
        let rounds = u64::from(zones(spec, survey)) * spec.rounds;
        let (mut bytes, mut seconds) = (0, 0.0);
        for (blocks, commands) in openings(geometry).map(|opening| cost_of_round(geometry, opening)) {
            let written = blocks * u64::from(geometry.block_bytes);
            bytes += rounds * written;
            seconds += rounds as f64 * of_singles(commands - 1, written, 1);
        }
        (Bytes(bytes), seconds)
    }

    fn run_script(
        spec: &Spec,
        survey: &Survey,
        device: &mut dyn ZonedDevice,
        context: &Context<'_, Zns<Self>>,
    ) -> Result<Vec<Values>, Failure> {
        let (usable, zones) = (survey.usable(), zones(spec, survey));
        if zones == 0 || device.geometry().capacity_blocks < 3 {
            return Err(Failure::usage(format!("{} has no usable zone of at least three blocks", survey.name)));
        }
        let openings: Vec<OpenMethod> = openings(device.geometry()).collect();
        let mut timed = TimedLatencies::new();
        context.progress.phase("open and close", u64::from(zones) * spec.rounds, "zones");
        for round in 0..spec.rounds {
            for (number, zone) in usable.clone().take(zones as usize).enumerate() {
                context.check_interrupt()?;
                make_empty(device, zone)?;
                for opening in &openings {
                    open_close_round(device, zone, *opening, &mut timed, context.interrupt)?;
                }
                context.progress.position(round * u64::from(zones) + number as u64 + 1, "");
            }
        }
        Ok(timed.iter().map(|(name, latency)| Values::of_latency(name, latency)).collect())
    }

    fn figures(measured: &DeviceValues, comparison: &[Comparison]) -> Vec<Figure> {
        let names: Vec<String> = measured.all().map(|values| values.key.clone()).collect();
        let place = |name: &str| names.iter().position(|known| known == name);
        let ours = names.iter().enumerate().filter_map(|(x, name)| Some((x as f64, mean(measured, name)?)));
        let published = comparison.iter().filter(|point| point.metric == "lat_mean_us");
        let published = published.filter_map(|point| Some((place(&point.condition)? as f64, point.published)));
        let mark = if measured.simulated { Mark::Modelled } else { Mark::Measured };
        let series = vec![
            Series::new("here", mark, ours.collect()),
            Series::new("published", Mark::Published, published.collect()),
        ];
        let labels = names.iter().map(|name| label(name)).collect();
        let (x, y) = (Axis::categories("command", labels), Axis::linear("mean latency (us)").from_zero());
        vec![Figure {
            id: "latency".into(),
            title: "Opening, closing and the transfers around them".into(),
            caption: "One block of 4 KiB per transfer, one command in flight.".into(),
            device: measured.device.clone(),
            better: Better::Lower,
            kind: FigureKind::Bars { x, y, series },
        }]
    }
}

fn zones(spec: &Spec, survey: &Survey) -> u32 {
    spec.zones.min(survey.usable().len() as u32)
}

fn openings(geometry: &Geometry) -> impl Iterator<Item = OpenMethod> + use<> {
    let appends = geometry.append_limit > 0;
    OpenMethod::ALL.into_iter().filter(move |opening| appends || !opening.appends())
}

/// Shortens a name for the label of a bar.
fn label(name: &str) -> String {
    let shorter = name.replace("write to a closed zone, opened", "write after close,").replace(" before", "");
    shorter.replace("opens implicitly", "implicit open")
}

fn make_empty(device: &mut dyn ZonedDevice, zone: u32) -> Result<(), Failure> {
    let Some(info) = device.report(zone, 1)?.into_iter().next() else { return Ok(()) };
    if info.state == ZoneState::Empty || device.preset(zone, None)? {
        return Ok(());
    }
    let reset =
        senesce_zoned::Command { tag: 0, queue: 0, operation: Operation::Reset, zone, block: info.start, blocks: 0 };
    device.execute(reset)?;
    Ok(())
}
