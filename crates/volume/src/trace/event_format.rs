//! Offsets of the fields of recorded events, from the kernel's format files.

use super::pairing::{Event, ZoneCommand};
use super::request::ZoneAction;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventFormat {
    pub id: u16,
    pub sector: usize,
    pub nr_sector: usize,
    pub rwbs: usize,
    pub rwbs_length: usize,
    /// A negative errno; only in completion events.
    pub error: Option<usize>,
}

impl EventFormat {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| field(text, name);
        let ((sector, _), (nr_sector, _), (rwbs, rwbs_length)) =
            (field("sector")?, field("nr_sector")?, field("rwbs")?);
        let error = field("error").filter(|(_, size)| *size == 4).map(|(offset, _)| offset);
        Some(Self { id: number_of(text)?, sector, nr_sector, rwbs, rwbs_length, error })
    }
}

fn number_of(text: &str) -> Option<u16> {
    text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()
}

fn field(text: &str, name: &str) -> Option<(usize, usize)> {
    let line = text.lines().find(|line| {
        let declaration = line.trim().strip_prefix("field:").and_then(|rest| rest.split(';').next());
        let word = declaration.and_then(|text| text.split_whitespace().last());
        word.and_then(|word| word.split('[').next()) == Some(name)
    })?;
    let number = |key: &str| line.split(';').find_map(|part| part.trim().strip_prefix(key)?.parse().ok());
    Some((number("offset:")?, number("size:")?))
}

/// Offsets of a command made by the NVMe driver (`events/nvme/nvme_setup_cmd/format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandFormat {
    pub id: u16,
    pub opcode: usize,
    /// Double words 10 to 15 of the command.
    pub words: usize,
    /// Sectors of 512 bytes per logical block.
    pub block_sectors: u64,
}

/// Opcode of the NVMe Zoned Namespace Command Set (nvme_cmd_zone_mgmt_send of the kernel's include/linux/nvme.h).
pub(crate) const ZONE_MANAGEMENT_SEND: u8 = 0x79;
pub(crate) const ZONE_APPEND: u8 = 0x7D;

impl CommandFormat {
    pub(crate) fn parse(text: &str, block_sectors: u64) -> Option<Self> {
        let ((opcode, _), (words, length)) = (field(text, "opcode")?, field(text, "cdw10")?);
        (length == 24).then_some(Self { id: number_of(text)?, opcode, words, block_sectors })
    }

    pub(crate) fn event(&self, data: &[u8], now_ns: u64) -> Option<Event> {
        let opcode = *data.get(self.opcode)?;
        let words = data.get(self.words..self.words + 24)?;
        let block = u64::from_le_bytes(words[..8].try_into().ok()?);
        // struct nvme_zone_mgmt_send_cmd and enum nvme_zone_mgmt_action, ibid.: block, a double word, action, select
        // all.
        let command = match (opcode, words[12]) {
            (ZONE_APPEND, _) => ZoneCommand::Append,
            (ZONE_MANAGEMENT_SEND, 1) => ZoneCommand::Action(ZoneAction::Close),
            (ZONE_MANAGEMENT_SEND, 2) => ZoneCommand::Action(ZoneAction::Finish),
            (ZONE_MANAGEMENT_SEND, 3) => ZoneCommand::Action(ZoneAction::Open),
            (ZONE_MANAGEMENT_SEND, 4) if words[13] & 1 == 1 => ZoneCommand::Action(ZoneAction::ResetAll),
            (ZONE_MANAGEMENT_SEND, 4) => ZoneCommand::Action(ZoneAction::Reset),
            _ => return None,
        };
        Some(Event::Made { now_ns, sector: block.saturating_mul(self.block_sectors), command })
    }
}
