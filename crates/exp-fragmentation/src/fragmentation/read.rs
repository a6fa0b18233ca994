//! Reads volumes cold: seconds, layout scores, modelled seconds.

use super::models::{self, Models};
use super::parameters::Common;
use super::point::{Point, Reading, TracedRead, read_ahead_text};
use super::volume::Volume;
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_core::{Failure, machine};
use senesce_layout::{Layout, LayoutSummary};
use senesce_runs::cold::{self, ColdAccount, NotCold};
use senesce_runs::tree::check;
use senesce_volume::trace::Measures;
use senesce_volume::{BlockTrace, DeviceStat, Operation, TraceSession};
use senesce_workload::micro::ColdRead;
use std::time::{Duration, Instant};

/// A point, with data that is too large to be kept for every point.
pub(crate) struct Reads {
    pub point: Point,
    /// 4 KiB block addresses of the requests of the last reading, in issue order.
    pub requests: Vec<u64>,
    pub without: Vec<String>,
    pub invalid: Option<NotCold>,
}

#[derive(Clone, Copy)]
pub(crate) struct State<'a> {
    pub fs: &'a str,
    pub round: u64,
    pub image: u32,
    pub mode: Option<&'a str>,
    pub aged: bool,
    pub write_seconds: f64,
}

/// Reads a volume cold, in each repetition once per read-ahead setting, and reads its layout. A reading that was not cold, or whose trace is
/// incomplete, is reported and omitted.
///
/// # Errors
/// The volume cannot be made cold, read or traced, or the user interrupts the run.
pub(crate) fn read(
    volume: &mut Volume,
    state: &State<'_>,
    common: &Common,
    interrupt: &Interrupt,
) -> Result<Reads, Failure> {
    let (mut readings, mut requests, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let (mut cold, mut invalid, mut requests_after_mounting) = (ColdRead::default(), None, None);
    let settings = || common.read_ahead.iter().copied();
    for (repetition, kib) in (0..common.repetitions).flat_map(|repetition| settings().map(move |kib| (repetition, kib)))
    {
        without.extend(volume.make_cold()?.map(str::to_string));
        let quiesced = requests_in(volume, common.settle.0, interrupt)?;
        requests_after_mounting = requests_after_mounting.or(quiesced);
        let set = volume.set_read_ahead(kib);
        if let Err(failure) = &set {
            without.push(format!("measured with the existing read-ahead instead of {kib} KiB: {failure}"));
            // One reading with unchanged read-ahead is enough.
            if readings.iter().any(|one: &Reading| one.read_ahead_kib.is_none() && one.repetition == repetition) {
                continue;
            }
        }
        let read_ahead_kib = set.ok().map(|()| kib);
        let (found, account, trace) = traced(volume, interrupt, &mut without)?;
        cold = found;
        check(interrupt)?;
        match judge(&cold, &account, trace.as_ref()) {
            Ok(words) => without.extend(words.map(str::to_string)),
            Err(reason) => {
                without.push(format!(
                    "a cold read is invalid ({}, round {}, image {}, {}, read-ahead {}): {reason}",
                    state.fs,
                    state.round,
                    state.image,
                    if state.aged { "aged" } else { "unaged" },
                    read_ahead_text(read_ahead_kib)
                ));
                invalid = Some(reason);
                continue;
            }
        }
        requests = trace.as_ref().map(addresses).unwrap_or_default();
        readings.push(Reading {
            read_ahead_kib,
            repetition,
            seconds: cold.seconds,
            bytes: cold.bytes_read,
            account,
            traced: trace.as_ref().map(|trace| analyse(trace, volume, &common.models(), &mut without)).transpose()?,
        });
    }
    let layout = layout(volume, &mut without)?;
    let point = Point {
        fs: state.fs.into(),
        round: state.round,
        image: state.image,
        mode: state.mode.map(str::to_string),
        aged: state.aged,
        emulated: machine::is_emulated(),
        real_drive: volume.real_drive(),
        files: cold.files,
        allocated_bytes: cold.allocated_bytes,
        write_seconds: state.write_seconds,
        static_layout_score: layout.as_ref().and_then(|layout| layout.static_layout_score),
        tree_layout_score: layout.as_ref().and_then(|layout| layout.tree_layout_score),
        extents: layout.as_ref().map(|layout| layout.extents),
        requests_after_mounting,
        tree_log2_blocks: layout.map(|layout| layout.discontinuities.log2_blocks).unwrap_or_default(),
        readings,
    };
    Ok(Reads { point, requests, without, invalid })
}

fn judge(cold: &ColdRead, account: &ColdAccount, trace: Option<&BlockTrace>) -> Result<Option<&'static str>, NotCold> {
    let message = account.judge(cold)?;
    trace.map_or(Ok(()), |trace| account.judge_trace(trace))?;
    Ok(message)
}

/// Waits, and counts the requests of the device in that time; `None` without a pause or a device of its own.
fn requests_in(volume: &Volume, length: Duration, interrupt: &Interrupt) -> Result<Option<u64>, Failure> {
    let device = volume.device().filter(|_| !length.is_zero() && volume.is_made());
    let before = device.as_ref().map(DeviceStat::of).transpose()?;
    pause(length, interrupt)?;
    let after = device.as_ref().map(DeviceStat::of).transpose()?;
    let found = before.zip(after).map(|(before, after)| after.since(&before));
    Ok(found.map(|found| found.reads + found.writes))
}

/// Sleeps in short pieces, so that an interrupt is noticed.
pub(crate) fn pause(length: Duration, interrupt: &Interrupt) -> Result<(), Failure> {
    let end = Instant::now() + length;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        check(interrupt)?;
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
    check(interrupt)
}

fn traced(
    volume: &Volume,
    interrupt: &Interrupt,
    without: &mut Vec<String>,
) -> Result<(ColdRead, ColdAccount, Option<BlockTrace>), Failure> {
    let session = match volume.device() {
        None => Err("measured without a block trace: no block device below".to_string()),
        Some(device) => {
            TraceSession::start(&device).map_err(|error| format!("measured without a block trace: {error}"))
        }
    };
    let (read, account) = cold::read(volume.target(), volume.folder(), &Silent, interrupt)?;
    match session {
        Ok(session) => Ok((read, account, Some(session.stop()?))),
        Err(reason) => {
            without.push(format!("{reason}; scores are those of the tree, and modelled times are missing"));
            Ok((read, account, None))
        }
    }
}

fn analyse(
    trace: &BlockTrace,
    volume: &Volume,
    drives: &Models,
    without: &mut Vec<String>,
) -> Result<TracedRead, Failure> {
    let begin = Instant::now();
    let requests = trace.valid()?.for_models();
    let Measures { reads, layout, .. } = Measures::of(trace);
    let written = volume.history().unwrap_or_else(|reason| {
        without.push(format!(
            "measured without the history of the flash drive ({reason}): it holds the blocks in the order of their addresses"
        ));
        &[]
    });
    Ok(TracedRead {
        dynamic_layout_score: layout.score,
        discontinuities: layout.discontinuities,
        log2_blocks: layout.log2_blocks,
        seek_distance_bytes: layout.seek_distance_bytes,
        requests: reads,
        hdd_seconds: drives.disk()?.seconds(&requests)?,
        ssd_seconds: drives.flash()?.seconds_after(&models::history(written, &requests), &requests)?,
        analysis_seconds: begin.elapsed().as_secs_f64(),
    })
}

fn addresses(trace: &BlockTrace) -> Vec<u64> {
    trace.iter().filter(|request| request.operation == Operation::Read).map(|request| request.sector / 8).collect()
}

/// Reads the layout of the files; a file system that does not report it is not an error.
fn layout(volume: &Volume, without: &mut Vec<String>) -> Result<Option<LayoutSummary>, Failure> {
    match Layout::of(volume.folder()) {
        Ok(layout) => Ok(Some(layout)),
        Err(error @ senesce_layout::LayoutError::NoExtents { .. }) => {
            without.push(format!("measured without the layout of files: {error}"));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
