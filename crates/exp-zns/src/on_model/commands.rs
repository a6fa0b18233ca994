//! Converts the block traces of several drives to the commands of the simulated drive.

use super::recording::{Role, TracedDrive, TracedDrives};
use senesce_core::{ExitCode, Failure};
use senesce_volume::BlockTrace;
use senesce_volume::trace::{Operation as RequestedEnd, Request, ZoneAction};
use senesce_zoned::replay::{Recorded, Work};
use senesce_zoned::{Geometry, Operation};
use std::collections::BTreeMap;

/// Recorded commands in the order of issue, and requests that the model does not cover.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Commands {
    pub list: Vec<Recorded>,
    /// Indexes of the two commands that mark the start and the end of the measurement.
    pub measured: (usize, usize),
    /// Commands and bytes by operation, as recorded: the cross-check of what the simulated drive receives.
    pub asked: BTreeMap<&'static str, (u64, u64)>,
    /// Requests to that drive that take no time on the model: flushes, discards, write-zeroes and commands of the
    /// driver.
    pub unmodelled: BTreeMap<&'static str, u64>,
    /// Bytes written to drives that take no time on the model.
    pub elsewhere_bytes: u64,
}

/// Merges the traces of all drives. Times count from the earliest start.
///
/// # Errors
/// A trace with missing requests, or a command to the zoned drive of unknown kind.
pub(crate) fn commands(traced: &TracedDrives, traces: &[BlockTrace], geometry: &Geometry) -> Result<Commands, Failure> {
    let mut all = Commands::default();
    let origin_ns = traced.drives.iter().map(|drive| drive.start_ns).min().unwrap_or(0);
    for (drive, trace) in traced.drives.iter().zip(traces) {
        let offset_ns = drive.start_ns.saturating_sub(origin_ns);
        for request in trace.valid()?.iter() {
            let issue_ns = offset_ns.saturating_add(request.issue_ns);
            let completed_ns = request.latency_ns.map(|latency| issue_ns.saturating_add(latency));
            all.add(drive, &request, geometry, Recorded { issue_ns, completed_ns, work: Work::Nothing })?;
        }
    }
    // Commands of length 0 mark the start and the end of the measurement.
    let [begin, end] = [traced.begin_ns, traced.end_ns].map(|at_ns| at_ns.saturating_sub(origin_ns));
    for at_ns in [begin, end.max(begin)] {
        all.list.push(Recorded { issue_ns: at_ns, completed_ns: Some(at_ns), work: Work::Nothing });
    }
    let (first, last) = (all.list.len() - 2, all.list.len() - 1);
    let mut order: Vec<usize> = (0..all.list.len()).collect();
    order.sort_by_key(|index| all.list[*index].issue_ns);
    let place = |index| order.iter().position(|other| *other == index).unwrap_or(0);
    all.measured = (place(first), place(last));
    all.list = order.into_iter().map(|index| all.list[index]).collect();
    Ok(all)
}

impl Commands {
    fn add(
        &mut self,
        drive: &TracedDrive,
        request: &Request,
        geometry: &Geometry,
        times: Recorded,
    ) -> Result<(), Failure> {
        if drive.role == Role::Metadata {
            self.elsewhere_bytes += if request.operation == RequestedEnd::Write { request.bytes() } else { 0 };
            self.list.push(times);
            return Ok(());
        }
        let operation = match (request.operation, drive.role) {
            (RequestedEnd::Read, _) => Operation::Read,
            (RequestedEnd::Write, Role::Zoned) if request.append => Operation::Append,
            (RequestedEnd::Write, _) => Operation::Write,
            (RequestedEnd::Zone(action), _) => return self.zone(action, request, geometry, times),
            // Commands of the driver itself, such as a zone report. An unrecorded zone action shows up as a refused
            // command of the model or in the final zones.
            (RequestedEnd::Other, Role::Zoned) if request.sectors == 0 => return self.nothing("command", times),
            (RequestedEnd::Other, Role::Zoned) => return Err(unknown(request)),
            (RequestedEnd::Flush, _) => return self.nothing("flush", times),
            (RequestedEnd::Discard, _) => return self.nothing("discard", times),
            (RequestedEnd::Other, _) => return self.nothing("other", times),
        };
        // Some kernels record a flush with a sector.
        if request.sectors == 0 {
            return self.nothing("flush", times);
        }
        let size = u64::from(geometry.block_bytes);
        if !(request.sector * 512).is_multiple_of(size) || !request.bytes().is_multiple_of(size) {
            let words = format!("a request at sector {} is not aligned to blocks of {size} bytes", request.sector);
            return Err(Failure::new(ExitCode::RunFailed, words));
        }
        let (mut block, end) = (request.sector * 512 / size, request.end_sector() * 512 / size);
        let most = u64::from(geometry.transfer_limit) / size;
        while block < end {
            let zone = geometry.zone_of(block);
            let blocks = (end - block).min(most).min(geometry.start(zone + 1) - block);
            let first = if operation == Operation::Append { geometry.start(zone) } else { block };
            self.push(Work::Drive(operation, zone, first, blocks as u32), blocks * size, times);
            block += blocks;
        }
        Ok(())
    }

    fn zone(
        &mut self,
        action: ZoneAction,
        request: &Request,
        geometry: &Geometry,
        times: Recorded,
    ) -> Result<(), Failure> {
        let zone = geometry.zone_of(request.sector * 512 / u64::from(geometry.block_bytes));
        let (operation, zones) = match action {
            ZoneAction::Reset => (Operation::Reset, zone..zone + 1),
            ZoneAction::ResetAll => (Operation::Reset, 0..geometry.zones),
            ZoneAction::Open => (Operation::Open, zone..zone + 1),
            ZoneAction::Close => (Operation::Close, zone..zone + 1),
            ZoneAction::Finish => (Operation::Finish, zone..zone + 1),
        };
        for zone in zones {
            self.push(Work::Drive(operation, zone, geometry.start(zone), 0), 0, times);
        }
        Ok(())
    }

    fn push(&mut self, work: Work, bytes: u64, times: Recorded) {
        if let Work::Drive(operation, ..) = work {
            let asked = self.asked.entry(operation.name()).or_default();
            *asked = (asked.0 + 1, asked.1 + bytes);
        }
        self.list.push(Recorded { work, ..times });
    }

    fn nothing(&mut self, what: &'static str, times: Recorded) -> Result<(), Failure> {
        *self.unmodelled.entry(what).or_default() += 1;
        self.list.push(times);
        Ok(())
    }
}

fn unknown(request: &Request) -> Failure {
    let words = format!(
        "request of {} sectors at {} to the zoned drive is neither a read nor a write, and the guest's kernel \
         does not report its operation; boot Linux 6.19 or later, or a kernel whose nvme module has the event \
         nvme_setup_cmd",
        request.sectors, request.sector
    );
    Failure::new(ExitCode::RunFailed, words)
}
