//! NVMe commands for the kernel's passthrough, and the structures of their results (NVMe Base Specification 2.0, Zoned
//! Namespace Command Set 1.1).

use crate::command::{Command, Operation, ZoneFault};
use crate::error::ZonedError;
use crate::geometry::{LbaFormat, ZoneInfo, ZoneState};
use senesce_core::IoFailure;
use senesce_sys::nvme::{self, Passthrough};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

pub(crate) fn encode(command: &Command, namespace: u32, address: u64, block_bytes: u32) -> Passthrough {
    let (opcode, action) = match command.operation {
        Operation::Write => (0x01, 0),
        Operation::Read => (0x02, 0),
        Operation::Append => (0x7D, 0),
        Operation::Close => (0x79, 0x01),
        Operation::Finish => (0x79, 0x02),
        Operation::Open => (0x79, 0x03),
        Operation::Reset => (0x79, 0x04),
    };
    let moves = command.operation.moves_data();
    let (low, high) = (command.block as u32, (command.block >> 32) as u32);
    let count = if moves { command.blocks.wrapping_sub(1) & 0xffff } else { 0 };
    Passthrough {
        opcode,
        namespace,
        address: if moves { address } else { 0 },
        data_len: if moves { command.blocks * block_bytes } else { 0 },
        dwords: [low, high, count, action, 0, 0],
        ..Passthrough::default()
    }
}

/// Decodes the result of a passthrough call: an NVMe status above 0, a negative errno, or success.
pub(crate) fn decode(result: i32, block: u64) -> Result<u64, ZoneFault> {
    match result {
        0 => Ok(block),
        status if status > 0 => Err(ZoneFault::from_status(status as u16)),
        errno => Err(ZoneFault::Errno(-errno)),
    }
}

/// Returns an NVMe status, or a negative errno, as io_uring reports it.
pub(crate) fn number(result: senesce_sys::Result<nvme::Status>) -> i32 {
    result.map_or_else(|errno| -errno.raw_os_error(), i32::from)
}

fn failed(operation: &'static str, path: &str, result: i32) -> ZonedError {
    let source = match result {
        errno if errno < 0 => io::Error::from_raw_os_error(-errno),
        status => io::Error::other(format!("NVMe status {status:#06x}")),
    };
    ZonedError::Io(IoFailure::new(operation, path, source).with_remedy("passthrough needs root and an NVMe namespace"))
}

#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub namespace: u32,
    pub blocks: u64,
    pub format: u8,
    pub formats: Vec<LbaFormat>,
    pub serial: String,
    pub model: String,
    /// Maximum bytes of a transfer; 0: no limit.
    pub transfer_limit: u64,
    /// Controller supports Format NVM (OACS, bit 1).
    pub can_format: bool,
    /// Formatting one namespace formats all (FNA, bit 0).
    pub formats_all: bool,
    /// Controller lists unattached namespaces (OACS, bit 3: namespace management).
    manages_namespaces: bool,
    pub zoned: Option<ZonedIdentity>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ZonedIdentity {
    pub zone_blocks: u64,
    /// 0: no limit.
    pub max_active: u32,
    /// 0: no limit.
    pub max_open: u32,
    pub append_limit: u64,
}

fn identify(file: &File, path: &str, namespace: u32, selector: u32, set: u32) -> Result<Vec<u8>, ZonedError> {
    let mut data = vec![0u8; 4096];
    let command =
        Passthrough { opcode: 0x06, namespace, dwords: [selector, set << 24, 0, 0, 0, 0], ..Passthrough::default() };
    match number(nvme::run_admin_on(file, command, &mut data)) {
        0 => Ok(data),
        result => Err(failed("identify", path, result)),
    }
}

fn u16_at(data: &[u8], at: usize) -> u16 {
    data.get(at..at + 2).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn u32_at(data: &[u8], at: usize) -> u32 {
    u32::from(u16_at(data, at)) | u32::from(u16_at(data, at + 2)) << 16
}

fn u64_at(data: &[u8], at: usize) -> u64 {
    u64::from(u32_at(data, at)) | u64::from(u32_at(data, at + 4)) << 32
}

fn text_at(data: &[u8], at: usize, length: usize) -> String {
    String::from_utf8_lossy(data.get(at..at + length).unwrap_or_default()).trim().to_string()
}

impl Identity {
    pub(crate) fn read(file: &File, path: &str) -> Result<Self, ZonedError> {
        let namespace = nvme::namespace(file.as_fd()).map_err(|errno| {
            ZonedError::Io(
                IoFailure::new("identify the namespace of", path, errno)
                    .with_remedy("it must be an NVMe namespace such as /dev/ng0n1"),
            )
        })?;
        // Identify Namespace (CNS 00h), Identify Controller (CNS 01h): NVMe Base Specification 2.0, section 5.17.
        let space = identify(file, path, namespace, 0x00, 0)?;
        let controller = identify(file, path, 0, 0x01, 0)?;
        let format = space[26] & 0x0f | (space[26] >> 5 & 0x3) << 4;
        let formats: Vec<LbaFormat> = (0..=space[25].min(63)).filter_map(|index| lba_format(&space, index)).collect();
        let transfer_limit = match controller[77] {
            0 => 0,
            // In units of the smallest page, 4 KiB on every platform Linux supports NVMe on.
            shift => 4096u64 << shift.min(20),
        };
        let mut identity = Self {
            namespace,
            blocks: u64_at(&space, 0),
            format,
            formats,
            serial: text_at(&controller, 4, 20),
            model: text_at(&controller, 24, 40),
            transfer_limit,
            can_format: u16_at(&controller, 256) & 2 != 0,
            formats_all: formats_all(&controller),
            manages_namespaces: u16_at(&controller, 256) & 8 != 0,
            zoned: None,
        };
        identity.zoned = identity.read_zoned(file, path);
        Ok(identity)
    }

    /// Reads Identify Namespace for the Zoned Namespace Command Set (CNS 05h, CSI 02h), figure 48; conventional
    /// namespaces refuse it.
    fn read_zoned(&self, file: &File, path: &str) -> Option<ZonedIdentity> {
        let space = identify(file, path, self.namespace, 0x05, 0x02).ok()?;
        let zone_blocks = u64_at(&space, 2816 + 16 * usize::from(self.format));
        if zone_blocks == 0 {
            return None;
        }
        let controller = identify(file, path, 0, 0x06, 0x02).unwrap_or_default();
        let append_limit = match controller.first() {
            None | Some(0) => self.transfer_limit,
            Some(shift) => 4096u64 << (*shift).min(20),
        };
        // Both limits are 0-based; all ones mean no limit.
        let limit = |at| u32_at(&space, at).wrapping_add(1);
        Some(ZonedIdentity { zone_blocks, max_active: limit(4), max_open: limit(8), append_limit })
    }

    /// Numbers of other namespaces that formatting this one would format too.
    pub(crate) fn formatted_too(&self, file: &File, path: &str) -> Result<Vec<u32>, ZonedError> {
        if !self.formats_all {
            return Ok(Vec::new());
        }
        // Active namespaces (CNS 02h); with namespace management also those attached elsewhere or nowhere (CNS 10h).
        let mut lists = vec![identify(file, path, 0, 0x02, 0)?];
        if self.manages_namespaces {
            lists.push(identify(file, path, 0, 0x10, 0)?);
        }
        Ok(others_in(&lists, self.namespace))
    }

    pub(crate) fn block_bytes(&self) -> u32 {
        self.formats.iter().find(|format| format.index == self.format).map_or(512, |format| format.block_bytes)
    }
}

/// Returns whether a format affects all namespaces: bit 0 of Format NVM Attributes, byte 524 of Identify Controller
/// (Base Specification 2.0, figure 275).
fn formats_all(controller: &[u8]) -> bool {
    controller.get(524).is_some_and(|attributes| attributes & 1 != 0)
}

/// Namespaces in zero-terminated lists, without `own`.
fn others_in(lists: &[Vec<u8>], own: u32) -> Vec<u32> {
    let numbers =
        lists.iter().flat_map(|list| (0..list.len() / 4).map(|at| u32_at(list, 4 * at)).take_while(|id| *id != 0));
    let others: std::collections::BTreeSet<u32> = numbers.filter(|id| *id != own).collect();
    others.into_iter().collect()
}

fn lba_format(space: &[u8], index: u8) -> Option<LbaFormat> {
    let at = 128 + 4 * usize::from(index);
    let shift = *space.get(at + 2)?;
    (9..=16).contains(&shift).then(|| LbaFormat { index, block_bytes: 1 << shift, metadata_bytes: u16_at(space, at) })
}

/// Reads zone descriptors (Zone Management Receive, report zones) from zone `first` on.
pub(crate) fn report(
    file: &File,
    path: &str,
    identity: &Identity,
    zoned: &ZonedIdentity,
    first: u32,
    count: u32,
) -> Result<Vec<ZoneInfo>, ZonedError> {
    const CHUNK: u32 = 256;
    let mut zones = Vec::with_capacity(count as usize);
    let mut data = vec![0u8; 64 + 64 * CHUNK as usize];
    let mut next = first;
    while next < first + count {
        let wanted = CHUNK.min(first + count - next);
        let bytes = 64 + 64 * wanted;
        let start = u64::from(next) * zoned.zone_blocks;
        let command = Passthrough {
            opcode: 0x7A,
            namespace: identity.namespace,
            // Partial report: the count in the header is of the descriptors returned.
            dwords: [start as u32, (start >> 32) as u32, bytes / 4 - 1, 1 << 16, 0, 0],
            ..Passthrough::default()
        };
        match number(nvme::run_io_on(file, command, &mut data[..bytes as usize])) {
            0 => {}
            result => return Err(failed("report the zones of", path, result)),
        }
        let found = u64_at(&data, 0).min(u64::from(wanted)) as u32;
        if found == 0 {
            break;
        }
        zones.extend((0..found).map(|index| descriptor(&data[64 + 64 * index as usize..], next + index)));
        next += found;
    }
    Ok(zones)
}

/// Decodes a zone descriptor (figure 38 of the Zoned Namespace Command Set Specification). Drives report all ones for a
/// write pointer without meaning.
fn descriptor(data: &[u8], zone: u32) -> ZoneInfo {
    let state = ZoneState::from_code(data[1] >> 4).unwrap_or(ZoneState::Offline);
    let (start, capacity) = (u64_at(data, 16), u64_at(data, 8));
    let pointer = match state {
        ZoneState::Full => start.saturating_add(capacity),
        ZoneState::ReadOnly | ZoneState::Offline | ZoneState::Conventional => start,
        _ => u64_at(data, 24),
    };
    ZoneInfo { zone, state, start, capacity, pointer }
}

/// Sends Format NVM, section 5.14: destroys all data.
pub(crate) fn format(file: &File, path: &str, namespace: u32, index: u8) -> Result<(), ZonedError> {
    let command = Passthrough {
        opcode: 0x80,
        namespace,
        dwords: [u32::from(index & 0x0f) | u32::from(index >> 4 & 0x3) << 12, 0, 0, 0, 0, 0],
        timeout_ms: 600_000,
        ..Passthrough::default()
    };
    match number(nvme::run_admin_on(file, command, &mut [])) {
        0 => Ok(()),
        result => Err(not_formatted(path, result)),
    }
}

/// Explains a failed format. A drive that supports the command may still refuse it for a zoned namespace or for this
/// format.
fn not_formatted(path: &str, result: i32) -> ZonedError {
    // Status code type and code without the bits "more" and "do not retry" (Base Specification 2.0, figures 92 to 94).
    let why = match result {
        status if status > 0 => match status & 0x7ff {
            0x001 => "it does not support the command",
            0x002 => "it does not accept these parameters for this namespace",
            0x10a => "it does not allow this format for this namespace",
            _ => return failed("format", path, result),
        },
        _ => return failed("format", path, result),
    };
    ZonedError::Missing {
        what: format!("cannot format {path}: {why} (NVMe status {result:#06x})"),
        remedy: "use its current block size; nothing was changed".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_match_the_kernel_structure() {
        let command =
            Command { tag: 0, queue: 0, operation: Operation::Append, zone: 3, block: 0x1_0000_0003, blocks: 32 };
        let bytes = encode(&command, 7, 0x1000, 4096).to_uring();
        assert_eq!(bytes[0], 0x7D);
        assert_eq!(u32_at(&bytes, 4), 7);
        assert_eq!(u64_at(&bytes, 24), 0x1000);
        assert_eq!(u32_at(&bytes, 36), 32 * 4096);
        assert_eq!((u32_at(&bytes, 40), u32_at(&bytes, 44), u32_at(&bytes, 48)), (3, 1, 31));
    }

    #[test]
    fn unsupported_format_differs_from_failure() {
        for status in [0x4001, 0x4002, 0x410a] {
            let error = not_formatted("/dev/ng0n1", status);
            assert!(matches!(&error, ZonedError::Missing { what, .. } if what.contains("/dev/ng0n1")), "{error}");
        }
        assert!(matches!(not_formatted("/dev/ng0n1", -libc::EACCES), ZonedError::Io(_)));
    }

    #[test]
    fn format_affecting_all_namespaces_lists_them() {
        let mut controller = vec![0u8; 4096];
        controller[524] = 0b110;
        assert!(!formats_all(&controller), "erasing and the crypto erase are other bits");
        controller[524] = 0b001;
        assert!(formats_all(&controller));
        let list = |numbers: &[u32]| {
            let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            bytes.resize(4096, 0);
            bytes
        };
        assert!(others_in(&[list(&[1])], 1).is_empty());
        assert_eq!(others_in(&[list(&[1, 2, 7]), list(&[1, 2, 3, 7])], 2), [1, 3, 7]);
    }

    #[test]
    fn meaningless_write_pointer_is_ignored() {
        let of = |state: u8, pointer: u64| {
            let mut data = [0u8; 64];
            data[1] = state << 4;
            for (at, value) in [(8, 100u64), (16, 4096), (24, pointer)] {
                data[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            descriptor(&data, 2)
        };
        assert_eq!((of(0x2, 4100).state, of(0x2, 4100).pointer), (ZoneState::ImplicitlyOpen, 4100));
        assert_eq!((of(0xE, u64::MAX).state, of(0xE, u64::MAX).pointer), (ZoneState::Full, 4196));
        assert_eq!((of(0xF, u64::MAX).state, of(0xF, u64::MAX).pointer), (ZoneState::Offline, 4096));
    }

    #[test]
    fn statuses_become_faults() {
        assert_eq!(decode(0x41be, 0), Err(ZoneFault::TooManyOpen));
        assert_eq!(decode(0x41bd, 0), Err(ZoneFault::TooManyActive));
        assert_eq!(decode(0x4002, 0), Err(ZoneFault::InvalidField));
        assert_eq!(decode(-libc::EINVAL, 0), Err(ZoneFault::Errno(libc::EINVAL)));
        assert_eq!(decode(0, 9), Ok(9));
    }
}
