//! Replays the guest's recordings on simulated drives.

use super::analysis::published_rate;
use super::{Event, OnModel, Recorded, Spec, ZnsRocksdb, bench};
use crate::on_model::{Host, HostSpeed, MachineRole, NAMES, hosts, time};
use senesce_core::Rows;
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series};
use senesce_core::{Analysis, ExitCode, Failure, Table, published};
use senesce_guest::carry::guest_records;
use senesce_runner::{Context, Run};
use serde_json::json;

pub(crate) fn time_setup(
    setup: &str,
    repeat: u32,
    spec: &Spec,
    context: &mut Context<'_, ZnsRocksdb>,
) -> Result<(), Failure> {
    let events: Vec<Event> = context.recorded().events().cloned().collect();
    let recordings = events.iter().filter_map(|event| match event {
        Event::Recorded(recorded) if (recorded.setup.as_str(), recorded.repeat) == (setup, repeat) => Some(recorded),
        _ => None,
    });
    let recordings: Vec<&Recorded> = recordings.collect();
    if recordings.is_empty() {
        let words = format!("the guest recorded no requests of {setup}, so its drives cannot be timed");
        return Err(Failure::new(ExitCode::RunFailed, words));
    }
    let speeds = speeds(&events, spec, context)?;
    for recorded in recordings {
        context.check_interrupt()?;
        time_one(recorded, &events, &speeds, context)?;
    }
    Ok(())
}

fn speeds(events: &[Event], spec: &Spec, context: &mut Context<'_, ZnsRocksdb>) -> Result<Vec<HostSpeed>, Failure> {
    let known = events.iter().filter_map(|event| match event {
        Event::Speed(speed) => Some(speed.clone()),
        _ => None,
    });
    let mut speeds: Vec<HostSpeed> = known.collect();
    if !speeds.iter().any(|speed| speed.place == MachineRole::Host) {
        let own = bench::speeds(MachineRole::Host, spec, context)?;
        own.iter().for_each(|speed| context.record(Event::Speed(speed.clone())));
        speeds.extend(own);
    }
    Ok(speeds)
}

fn time_one(
    recorded: &Recorded,
    events: &[Event],
    speeds: &[HostSpeed],
    context: &mut Context<'_, ZnsRocksdb>,
) -> Result<(), Failure> {
    let Recorded { setup, benchmark, repeat, traced } = recorded;
    let operations = events.iter().find_map(|event| match event {
        Event::Measured(one) if (&one.setup, &one.benchmark, one.repeat) == (setup, benchmark, *repeat) => {
            Some(one.operations)
        }
        _ => None,
    });
    let operations =
        operations.ok_or_else(|| Failure::new(ExitCode::RunFailed, "the guest did not report its operations"))?;
    let hosts = hosts(HostSpeed::share(speeds, bench::work_of(benchmark)));
    for timed in time(traced, &traced.folder(guest_records(context))?, &hosts, &[], context.seed)? {
        timed
            .problems
            .iter()
            .for_each(|problem| context.caveat(format!("{setup}, {benchmark} on the model: {problem}")));
        context.record(Event::OnModel(OnModel {
            setup: setup.clone(),
            benchmark: benchmark.clone(),
            repeat: *repeat,
            ops_per_second: timed.rate(operations as f64),
            timed,
        }));
    }
    Ok(())
}

pub(crate) fn show(recorded: &senesce_runner::Recorded<ZnsRocksdb>, analysis: &mut Analysis) {
    let found = recorded.events().filter_map(|event| match event {
        Event::OnModel(found) => Some(found),
        _ => None,
    });
    let found: Vec<&OnModel> = found.collect();
    if found.is_empty() {
        return;
    }
    analysis.tables.insert(0, table(&found));
    analysis.figures.insert(0, figure(&found));
    if let Some(result) = analysis.result.as_object_mut() {
        result.insert("on_models".into(), json!(found));
    }
}

fn table(found: &[&OnModel]) -> Table {
    let published = published::parse(ZnsRocksdb::PUBLISHED).unwrap_or_default();
    let percent = |one: &OnModel, seconds: f64| 100.0 * seconds / one.timed.recording_seconds;
    Rows::of(found.iter().copied())
        .column("setup", |one| &one.setup)
        .column("benchmark", |one| &one.benchmark)
        .column("repeat", |one| one.repeat + 1)
        .column("host takes", |one| one.timed.host_words())
        .column("rate (operations/s)", |one| one.ops_per_second)
        .column("published rate (operations/s)", |one| published_rate(&published, &one.setup, &one.benchmark))
        .column("drive busy (%)", |one| percent(one, one.timed.busy_seconds))
        .column("host alone (%)", |one| percent(one, one.timed.host_seconds))
        .column("read (MiB)", |one| one.timed.bytes("read") >> 20)
        .column("written (MiB)", |one| (one.timed.bytes("write") + one.timed.bytes("append")) >> 20)
        .column("zone resets", |one| one.timed.commands("reset"))
        .column("accounts", |one| one.timed.accounts())
        .table("on-models", "The same requests on simulated drives")
}

fn figure(found: &[&OnModel]) -> Figure {
    let scaled: Vec<&&OnModel> = found.iter().filter(|one| one.timed.host == Host::Scaled).collect();
    let mut setups: Vec<&str> = scaled.iter().map(|one| one.setup.as_str()).collect();
    setups.dedup();
    setups.sort_unstable();
    setups.dedup();
    let rate = |setup: &str, benchmark: &str| {
        let own = scaled.iter().filter(|one| one.setup == setup && one.benchmark == benchmark);
        let rates: Vec<f64> = own.filter_map(|one| one.ops_per_second).collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64 / 1000.0)
    };
    let series = |setup: &str| {
        let points = bench::BENCHMARKS.iter().enumerate();
        let points = points.filter_map(|(index, benchmark)| Some((index as f64, rate(setup, benchmark)?)));
        Series::new(setup, Mark::Modelled, points.collect())
    };
    Figure {
        id: "modelled-rates".into(),
        title: "Operations of RocksDB on simulated drives".into(),
        caption: "The requests to the drives of the guest, timed on models of the published ones; the host's own time \
                  is the guest's time divided by the speedup of this machine."
            .into(),
        device: NAMES.into(),
        better: Better::Higher,
        kind: FigureKind::Bars {
            x: Axis::categories("benchmark", bench::BENCHMARKS.map(String::from).to_vec()),
            y: Axis::linear("rate (1000 operations/s)").from_zero(),
            series: setups.into_iter().map(series).collect(),
        },
    }
}
