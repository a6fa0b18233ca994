//! Cold reads of a volume: seconds, layout scores, modelled seconds.

use super::Common;
use super::point::{Point, Reading, Traced};
use super::tree::check;
use super::volume::Volume;
use crate::verbs::trace::Summary;
use senesce_core::Failure;
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_layout::{Layout, LayoutSummary};
use senesce_target::{BlockTrace, Operation, TraceSession};
use senesce_workload::micro::{ColdRead, cold_read};
use std::time::{Duration, Instant};

/// A point with what is too large to be kept for every one of them.
pub struct Seen {
    /// The point.
    pub point: Point,
    /// 4 KiB block addresses of the requests of the last reading, in issue order.
    pub requests: Vec<u64>,
    /// What could not be done, in words.
    pub without: Vec<String>,
}

/// Which state of which volume is read.
pub struct State<'a> {
    /// File system.
    pub fs: &'a str,
    /// Round.
    pub round: u64,
    /// Whether the experiment laid it out.
    pub aged: bool,
    /// Seconds it took to write.
    pub write_seconds: f64,
}

/// Reads a volume cold, once per read-ahead setting, and looks at its layout.
pub fn read(volume: &mut Volume, state: &State<'_>, common: &Common, interrupt: &Interrupt) -> Result<Seen, Failure> {
    let (mut readings, mut requests, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let mut cold = ColdRead {
        seconds: 0.0,
        bytes_read: 0,
        allocated_bytes: 0,
        files: 0,
        directories: 0,
        seconds_per_gib: 0.0,
        interrupted: false,
    };
    for &kib in &common.read_ahead_kib {
        without.extend(volume.make_cold()?.map(str::to_string));
        pause(common.settle, interrupt)?;
        let set = volume.set_read_ahead(kib);
        if let Err(failure) = &set {
            without.push(format!("measured without setting read-ahead to {kib} KiB, but as it was: {failure}"));
            // One reading with read-ahead as it is says all there is to say.
            if readings.iter().any(|one: &Reading| one.read_ahead_kib.is_none()) {
                continue;
            }
        }
        let (found, trace) = traced(volume, interrupt, &mut without)?;
        cold = found;
        check(interrupt)?;
        requests = trace.as_ref().map(addresses).unwrap_or_default();
        readings.push(Reading {
            read_ahead_kib: set.ok().map(|()| kib),
            seconds: cold.seconds,
            bytes: cold.bytes_read,
            traced: trace.as_ref().map(analyse).transpose()?,
        });
    }
    let layout = layout(volume, &mut without)?;
    let point = Point {
        fs: state.fs.into(),
        round: state.round,
        aged: state.aged,
        files: cold.files,
        allocated_bytes: cold.allocated_bytes,
        write_seconds: state.write_seconds,
        static_layout_score: layout.as_ref().and_then(|layout| layout.static_layout_score),
        tree_layout_score: layout.as_ref().and_then(|layout| layout.tree_layout_score),
        tree_log2_blocks: layout.map(|layout| layout.discontinuities.log2_blocks).unwrap_or_default(),
        readings,
    };
    Ok(Seen { point, requests, without })
}

/// Sleeps in short pieces, so that an interrupt is seen.
pub fn pause(length: Duration, interrupt: &Interrupt) -> Result<(), Failure> {
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
) -> Result<(ColdRead, Option<BlockTrace>), Failure> {
    let session = match volume.device() {
        None => Err("measured without a block trace: there is no block device below".to_string()),
        Some(device) => {
            TraceSession::start(&device).map_err(|error| format!("measured without a block trace: {error}"))
        }
    };
    let cold = cold_read(volume.folder(), &Silent, interrupt)?;
    let session = match session {
        Ok(session) => session,
        Err(reason) => {
            without.push(format!("{reason}; scores are those of the tree, and nothing is modelled"));
            return Ok((cold, None));
        }
    };
    let trace = session.stop()?;
    if trace.lost_events() > 0 {
        without.push(format!(
            "measured without the block trace of a read: {} of its events were lost",
            trace.lost_events()
        ));
        return Ok((cold, None));
    }
    Ok((cold, Some(trace)))
}

/// What a trace tells, with the time it takes to compute.
fn analyse(trace: &BlockTrace) -> Result<Traced, Failure> {
    let begin = Instant::now();
    let Summary { measures, hdd, ssd, .. } = Summary::of(trace)?;
    let layout = measures.layout;
    Ok(Traced {
        dynamic_layout_score: layout.score,
        discontinuities: layout.discontinuities,
        log2_blocks: layout.log2_blocks,
        seek_distance_bytes: layout.seek_distance_bytes,
        requests: measures.reads,
        hdd_seconds: hdd.seconds,
        ssd_seconds: ssd.seconds,
        analysis_seconds: begin.elapsed().as_secs_f64(),
    })
}

fn addresses(trace: &BlockTrace) -> Vec<u64> {
    trace.iter().filter(|request| request.operation == Operation::Read).map(|request| request.sector / 8).collect()
}

/// The layout of the files; a file system that does not tell it is no error.
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
