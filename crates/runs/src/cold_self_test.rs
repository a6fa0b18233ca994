//! Self-test of cold reads on this machine, with an image in memory.

use crate::cold::{self, NotCold};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, ExitCode, Failure, Silent};
use senesce_volume::{FileSystem, OpenOptions, TargetSpec, open};
use std::io::Write;

const IMAGE: Bytes = Bytes::mib(64);
const FILE: Bytes = Bytes::mib(8);
/// Allowance for other reads of the device: the mount and the inode, with read-ahead.
const METADATA: Bytes = Bytes::mib(1);

/// Writes a file of known size, makes it cold and reads it twice. The device must deliver it once, and the second read
/// must be refused as warm. Returns the counts, or exit code 5 if the check fails.
pub(crate) fn cold_self_test() -> Result<String, Failure> {
    let failed = |reason: String| Failure::new(ExitCode::RunFailed, reason);
    let mut target = open(&TargetSpec::Memory { size: IMAGE }, &OpenOptions::fresh(FileSystem::Ext4))?;
    let folder = target.mount_point().join("self-test");
    let written = std::fs::create_dir(&folder).and_then(|()| {
        let mut file = std::fs::File::create(folder.join("file"))?;
        file.write_all(&vec![0x5a; FILE.0 as usize])
    });
    written.map_err(|error| {
        failed(format!("write into {}: {}", folder.display(), senesce_core::failure::errno_message(&error)))
    })?;
    target.remount()?;
    let (read, account) = cold::read(&target, &folder, &Silent, &Interrupt::new())?;
    account.judge(&read)?;
    let (delivered, requests) = (account.device_bytes.unwrap_or(0), account.device_requests.unwrap_or(0));
    if account.extent_bytes != Some(FILE.0) || delivered > FILE.0 + METADATA.0 {
        return Err(failed(format!(
            "of a file of {FILE}, extents of {} were found and {} were delivered",
            Bytes(account.extent_bytes.unwrap_or(0)),
            Bytes(delivered)
        )));
    }
    let (read, account) = cold::read(&target, &folder, &Silent, &Interrupt::new())?;
    let Err(NotCold::Cached { delivered: again, .. }) = account.judge(&read) else {
        return Err(failed("a warm read of a file was taken for cold".into()));
    };
    target.close()?;
    Ok(format!("{FILE} read cold: {} in {requests} requests; read again: {again}", Bytes(delivered)))
}

#[cfg(test)]
mod tests {
    #[test]
    #[ignore = "needs loop devices"]
    fn a_file_is_read_from_the_device_once() {
        let message = super::cold_self_test().unwrap();
        assert!(message.starts_with("8 MiB read cold: 8"), "{message}");
        assert!(message.ends_with("read again: 0 B"), "{message}");
    }
}
