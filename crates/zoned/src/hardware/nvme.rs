//! `nvme`: passthrough on /dev/ngXnY with io_uring commands or ioctls; zone reports with ioctls.

use super::buffers::Buffers;
use super::nvme_commands::{Identity, decode, encode, number, report};
use super::ring::{Ring, RingOptions, Submission};
use crate::command::{Command, Completion, Operation};
use crate::device::{Clock, ZonedDevice};
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneInfo, ZoneState};
use io_uring::{cqueue, opcode, squeue, types};
use senesce_sys::nvme::{self, NVME_URING_CMD_IO, Passthrough};
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const REGIONS: u64 = 64;

pub(crate) struct NvmeDevice {
    file: File,
    path: String,
    identity: Identity,
    geometry: Geometry,
    epoch: Instant,
    options: RingOptions,
    ring: Option<Ring<squeue::Entry128, cqueue::Entry32>>,
    buffers: Option<Buffers>,
    in_flight: Vec<(u64, Command)>,
    done: VecDeque<Completion>,
}

/// Limits and zones from identify data.
pub(crate) fn geometry(path: &str, identity: &Identity, capacity_blocks: u64) -> Geometry {
    let block_bytes = identity.block_bytes();
    let limit = |bytes: u64| {
        // A command transfers at most 65536 blocks.
        let most = u64::from(block_bytes) * 65536;
        (if bytes == 0 { most } else { bytes.min(most) }) as u32
    };
    let region = (identity.blocks / REGIONS).max(1);
    let zone_blocks = identity.zoned.map_or(region, |zoned| zoned.zone_blocks);
    Geometry {
        name: format!("{path} ({} {})", identity.model, identity.serial),
        zoned: identity.zoned.is_some(),
        zones: (identity.blocks / zone_blocks) as u32,
        block_bytes,
        zone_blocks,
        capacity_blocks,
        max_open: identity.zoned.map_or(0, |zoned| zoned.max_open),
        max_active: identity.zoned.map_or(0, |zoned| zoned.max_active),
        transfer_limit: limit(identity.transfer_limit),
        append_limit: identity.zoned.map_or(0, |zoned| limit(zoned.append_limit)),
        formats: identity.formats.iter().copied().filter(|format| format.metadata_bytes == 0).collect(),
    }
}

impl NvmeDevice {
    pub(crate) fn new(file: File, path: &str, epoch: Instant, options: RingOptions) -> Result<Self, ZonedError> {
        let identity = Identity::read(&file, path)?;
        let capacity = match &identity.zoned {
            None => (identity.blocks / REGIONS).max(1),
            Some(zoned) => report(&file, path, &identity, zoned, 0, 1)?.first().map_or(0, |zone| zone.capacity),
        };
        let geometry = geometry(path, &identity, capacity);
        Ok(Self {
            file,
            path: path.into(),
            identity,
            geometry,
            epoch,
            options,
            ring: None,
            buffers: None,
            in_flight: Vec::new(),
            done: VecDeque::new(),
        })
    }

    fn ring(&mut self) -> Result<&mut Ring<squeue::Entry128, cqueue::Entry32>, ZonedError> {
        self.ring.as_mut().ok_or_else(|| ZonedError::Usage("the ring was not set up".into()))
    }
}

impl ZonedDevice for NvmeDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn clock(&self) -> Clock {
        Clock::Real
    }

    fn now_ns(&mut self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn reserve(&mut self, commands: u32, transfer_bytes: u32) -> Result<(), ZonedError> {
        let used = self.identity.formats.iter().find(|format| format.index == self.identity.format);
        if used.is_some_and(|format| format.metadata_bytes > 0) {
            return Err(ZonedError::Usage(format!(
                "{path} is formatted with metadata, which senesce does not support; format it without, for example with \
                     `senesce zoned format {path} --lbaf 4096`",
                path = self.path
            )));
        }
        match self.options.submission {
            Submission::IoUring => self.ring = Some(Ring::new(commands, &self.path, self.options)?),
            Submission::Ioctl => self.done.reserve(commands as usize),
        }
        self.buffers = Some(Buffers::new(commands, transfer_bytes)?);
        let idle = Command { tag: 0, queue: 0, operation: Operation::Read, zone: 0, block: 0, blocks: 0 };
        self.in_flight = vec![(0, idle); commands as usize];
        Ok(())
    }

    fn submit(&mut self, command: Command) -> Result<(), ZonedError> {
        if self.buffers.is_none() {
            self.reserve(1, 128 << 10)?;
        }
        let address = self.buffers.as_ref().map_or(0, |buffers| buffers.address(command.tag) as u64);
        let body = encode(&command, self.identity.namespace, address, self.geometry.block_bytes);
        if self.options.submission == Submission::Ioctl {
            self.run_now(command, body);
            return Ok(());
        }
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, NVME_URING_CMD_IO)
            .cmd(body.to_uring())
            .build()
            .user_data(u64::from(command.tag));
        self.in_flight[command.tag as usize] = (self.now_ns(), command);
        self.ring()?.push(entry)
    }

    fn next(&mut self, until_ns: u64) -> Result<Option<Completion>, ZonedError> {
        if self.options.submission == Submission::Ioctl {
            return Ok(self.next_done(until_ns));
        }
        let now = self.now_ns();
        let Some(entry) = self.ring()?.next(until_ns.saturating_sub(now))? else { return Ok(None) };
        let tag = entry.user_data() as u32;
        let (submitted_ns, command) = self.in_flight[tag as usize];
        let block = if command.operation == Operation::Append { entry.big_cqe()[0] } else { command.block };
        let completed_ns = self.now_ns();
        Ok(Some(Completion { tag, submitted_ns, completed_ns, result: decode(entry.result(), block) }))
    }

    fn report(&mut self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZonedError> {
        let count = count.min(self.geometry.zones.saturating_sub(first));
        match &self.identity.zoned {
            Some(zoned) => report(&self.file, &self.path, &self.identity, zoned, first, count),
            None => Ok(super::regions(&self.geometry, first, count)),
        }
    }
}

impl NvmeDevice {
    /// Runs one command by ioctl; the completion is queued.
    fn run_now(&mut self, command: Command, mut body: Passthrough) {
        let submitted_ns = self.now_ns();
        // SAFETY: the address is that of the tag's own buffer, which holds the largest transfer and lives as long as
        // `self`.
        let result = number(unsafe { nvme::run_io(&self.file, &mut body) });
        let completed_ns = self.now_ns();
        let block = if command.operation == Operation::Append { body.result } else { command.block };
        let result = decode(result, block);
        self.done.push_back(Completion { tag: command.tag, submitted_ns, completed_ns, result });
    }

    /// Returns a completed ioctl, or waits until `until_ns`.
    fn next_done(&mut self, until_ns: u64) -> Option<Completion> {
        let found = self.done.pop_front();
        if found.is_none() {
            std::thread::sleep(Duration::from_nanos(until_ns.saturating_sub(self.now_ns())));
        }
        found
    }

    /// Changes the LBA format, destroying the namespace's data. The caller holds the claim.
    pub(crate) fn format(&mut self, block_bytes: u32) -> Result<(), ZonedError> {
        if !self.identity.can_format {
            return Err(ZonedError::Missing {
                what: format!("{} cannot be formatted: its controller does not support Format NVM", self.path),
                remedy: format!("use it with its blocks of {} B", self.geometry.block_bytes),
            });
        }
        let wanted = self.geometry.formats.iter().find(|format| format.block_bytes == block_bytes);
        let Some(format) = wanted else {
            let known: Vec<String> = self.geometry.formats.iter().map(|f| format!("{} B", f.block_bytes)).collect();
            return Err(ZonedError::Usage(format!(
                "{} has no format of {block_bytes} B without metadata; it has {}",
                self.path,
                known.join(", ")
            )));
        };
        let too = self.identity.formatted_too(&self.file, &self.path)?;
        check_reach(&self.path, &too)?;
        super::nvme_commands::format(&self.file, &self.path, self.identity.namespace, format.index)
    }
}

/// Refuses a format that would destroy namespaces which were not claimed and allowed.
fn check_reach(path: &str, others: &[u32]) -> Result<(), ZonedError> {
    if others.is_empty() {
        return Ok(());
    }
    let numbers: Vec<String> = others.iter().map(u32::to_string).collect();
    Err(ZonedError::Refused {
        target: path.into(),
        found: format!(
            "its controller formats all namespaces at once, but there are others (namespace {})",
            numbers.join(", ")
        ),
        remedy: "use its current block size, or delete the others first (nvme delete-ns); no option allows it".into(),
    })
}

/// Returns the first zone that the guard must assume to hold data.
pub(crate) fn first_with_data(zones: &[ZoneInfo]) -> Option<&ZoneInfo> {
    zones.iter().find(|zone| zone.may_hold_data() && zone.state != ZoneState::Conventional)
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::failure::{Classify, ExitCode};

    #[test]
    fn format_affecting_other_namespaces_is_refused() {
        assert!(check_reach("/dev/ng0n1", &[]).is_ok());
        let error = check_reach("/dev/ng0n1", &[2, 3]).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Refused);
        assert!(error.to_string().contains("namespace 2, 3"), "{error}");
    }
}
