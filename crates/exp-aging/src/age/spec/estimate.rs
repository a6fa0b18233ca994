//! The bytes and the time of an aging, estimated in advance.

use super::AgeSpec;
use senesce_aging::{Data, Summary};
use senesce_core::{Bytes, Plan};
use senesce_volume::{FileSystem, TargetSpec};

/// Assumed bytes per second of written files. Agings of image files on shared disks reached 130 to 190 MiB/s; one of an
/// image in memory was not faster.
pub(super) const WRITE_RATE: Bytes = Bytes::mib(150);

/// Bytes per second of the few overwrites of preallocated files in memory.
const MEMORY_RATE: f64 = 1e9;

impl AgeSpec {
    /// Adds the estimates to a plan, and the assumed rate as a note.
    pub(super) fn add_estimates(&self, plan: &mut Plan, summary: &Summary) {
        let (content, metadata) = self.bytes_to_write(summary);
        plan.bytes_to_write = content + metadata;
        plan.estimated_seconds = self.estimate_seconds(summary, content);
        if content > 0 && self.has_write_rate() {
            plan.note(format!("the estimated time assumes that files are written at {WRITE_RATE}/s"));
        }
    }

    fn has_write_rate(&self) -> bool {
        let is_in_memory = self.in_memory || matches!(self.target, None | Some(TargetSpec::Memory { .. }));
        self.data == Data::Write || !is_in_memory
    }

    /// Returns the bytes of content and metadata to write. An overwrite in place or a punch also writes content that
    /// was not written before, and a truncated file is longer at first.
    fn bytes_to_write(&self, summary: &Summary) -> (u64, u64) {
        let changes = &summary.changes_expected;
        match self.data {
            Data::Write => {
                let again = changes.bytes_overwritten + changes.bytes_punched;
                (summary.bytes_created.0 + changes.bytes_truncated + again, 0)
            }
            _ => (changes.bytes_overwritten, (summary.creates + changes.all()) * 4096),
        }
    }

    /// Assumes ext4 if the file system is unknown; at least the time that the pace requires.
    fn estimate_seconds(&self, summary: &Summary, content: u64) -> f64 {
        let file_system = self.file_system.unwrap_or(FileSystem::Ext4);
        let operations = summary.t_end + summary.changes_expected.all();
        let rate = if self.has_write_rate() { WRITE_RATE.0 as f64 } else { MEMORY_RATE };
        let own = file_system.seconds_of_operations(operations) + content as f64 / rate;
        self.pace().map_or(own, |pace| own.max(summary.t_end as f64 / pace))
    }
}
