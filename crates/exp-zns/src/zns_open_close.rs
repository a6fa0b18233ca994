//! What opening and closing cost, explicitly and implicitly.

use crate::zns::compare::Comparison;
use crate::zns::measure::{Measured, Point, Values};
use crate::zns::{ZONED, Zns, ZnsStudy, judged};
use clap::Args;
use senesce_core::{Axis, Better, Failure, Figure, FigureKind, Finding, Level, Mark, Series};
use senesce_runs::run::Context;
use senesce_zoned::run::open;
use senesce_zoned::script::{Opening, Timed, open_close_round};
use senesce_zoned::{Operation, ZoneState};
use serde::{Deserialize, Serialize};

/// Open and close.
pub struct ZnsOpenClose;

fn mean(measured: &Measured, name: &str) -> Option<f64> {
    measured.get(name, "lat_mean_us")
}

/// Its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// zoned drive: sim:zn540, null, or a device such as /dev/ng0n1
    #[arg(long)]
    pub device: String,
    /// zones that are opened, one after the other
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub zones: u32,
    /// how often each zone is opened in each way
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub rounds: u64,
}

impl ZnsStudy for ZnsOpenClose {
    const ID: &'static str = "zns-open-close";
    const TITLE: &'static str = "Zoned drive: cost of opening and closing zones";
    const SUMMARY: &'static str = "Each zone is opened by command or by its first write or append, written up to its last block, closed, and written \
         again; every single command is timed.";
    const PAGE: &'static str = include_str!("../../../docs/experiments/zns-open-close.md");
    const PUBLISHED: &'static str = include_str!("../../../data/published/zns-open-close.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/zns-open-close.claims.toml");
    type Spec = Spec;

    fn defaults(level: Level) -> Spec {
        Spec { device: ZONED.into(), zones: level.of([4, 40, 452]), rounds: level.of([1, 1, 4]) }
    }

    fn points(_spec: &Spec) -> Result<Vec<Point>, Failure> {
        Ok(Vec::new())
    }

    fn script(spec: &Spec) -> Option<(&str, &'static str)> {
        Some((&spec.device, "open and close"))
    }

    fn run_script(spec: &Spec, erase: Option<&str>, context: &Context<'_, Zns<Self>>) -> Result<Vec<Values>, Failure> {
        let mut device = open(&spec.device.parse()?, Some(4096), erase, context.seed)?;
        let zones = spec.zones.min(device.geometry().zones);
        let appends = device.geometry().append_limit > 0;
        let mut timed = Timed::new();
        context.progress.phase("open and close", u64::from(zones) * spec.rounds, "zones");
        for round in 0..spec.rounds {
            for zone in 0..zones {
                context.check_interrupt()?;
                make_empty(&mut *device, zone)?;
                for opening in Opening::ALL {
                    let appending = matches!(opening, Opening::ImplicitAppend | Opening::ExplicitAppend);
                    if appends || !appending {
                        open_close_round(&mut *device, zone, opening, &mut timed, context.interrupt)?;
                    }
                }
                context.progress.position(round * u64::from(zones) + u64::from(zone) + 1, "");
            }
        }
        Ok(timed.iter().map(|(name, latency)| Values::of_latency(name, latency)).collect())
    }

    fn findings(measured: &Measured) -> Vec<Finding> {
        let cheap = || {
            let (open, close) = (mean(measured, "open")?, mean(measured, "close after explicit open")?);
            let write = mean(measured, "write, opened explicitly")?;
            let words = format!("open {open:.2} us, close {close:.2} us, write {write:.2} us");
            Some((open < 2.0 * write && close < 2.0 * write, words))
        };
        let first = || {
            let write = mean(measured, "first write, opens implicitly")? - mean(measured, "write, opened implicitly")?;
            let append =
                mean(measured, "first append, opens implicitly")? - mean(measured, "append, opened implicitly")?;
            Some((write > 0.5 && append > 0.5, format!("+{write:.2} us for a write, +{append:.2} us for an append")))
        };
        let steady = || {
            let implicit = mean(measured, "write, opened implicitly")?;
            let explicit = mean(measured, "write, opened explicitly")?;
            Some(((implicit / explicit - 1.0).abs() < 0.03, format!("{implicit:.2} against {explicit:.2} us")))
        };
        let reopen = || {
            let again = mean(measured, "write to a closed zone, opened explicitly before")?;
            let write = mean(measured, "write, opened explicitly")?;
            Some((again > write + 1.0, format!("{again:.2} against {write:.2} us")))
        };
        vec![
            judged("Opening and closing cost about as much as a small write", "9.55, 10.96 and 11.57 us", cheap()),
            judged("The first write or append to an empty zone pays for opening it", "+2.1 and +2.9 us", first()),
            judged("Later writes do not care how the zone was opened", "11.58 and 11.57 us", steady()),
            judged("Writing to a closed zone pays for opening it again", "15.19 and 11.57 us", reopen()),
        ]
    }

    fn figures(measured: &Measured, comparison: &[Comparison]) -> Vec<Figure> {
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

/// A name that fits below a bar.
fn label(name: &str) -> String {
    let shorter = name.replace("write to a closed zone, opened", "write after close,").replace(" before", "");
    shorter.replace("opens implicitly", "implicit open")
}

fn make_empty(device: &mut dyn senesce_zoned::ZonedDevice, zone: u32) -> Result<(), Failure> {
    let Some(info) = device.report(zone, 1)?.into_iter().next() else { return Ok(()) };
    if info.state == ZoneState::Empty || device.preset(zone, None)? {
        return Ok(());
    }
    let reset =
        senesce_zoned::Command { tag: 0, queue: 0, operation: Operation::Reset, zone, block: info.start, blocks: 0 };
    device.execute(reset)?;
    Ok(())
}
