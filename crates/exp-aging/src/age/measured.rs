//! The measured cold read of an aged target.

use super::Age;
use senesce_core::{Bytes, Failure};
use senesce_runner::Context;
use senesce_runs::bench::MeasuredColdRead;
use senesce_runs::cold;
use senesce_volume::{MountedTarget, Remounted};

/// Makes the target cold and reads every file in directory order.
pub(super) fn read(target: &mut MountedTarget, context: &mut Context<'_, Age>) -> Result<MeasuredColdRead, Failure> {
    if target.remount()? == Remounted::CachesDropped {
        context.caveat("the target is a directory: caches were dropped, the file system was not remounted");
    }
    let (read, account) = cold::read(target, target.mount_point(), context.progress, context.interrupt)?;
    let judged = account.judge(&read);
    if let Ok(Some(message)) = &judged {
        context.caveat(*message);
    }
    let invalid = judged.err().map(|reason| reason.to_string());
    Ok(MeasuredColdRead { read, account: Some(account), invalid, trace: None })
}

pub(super) fn words(measured: &MeasuredColdRead) -> String {
    let read = &measured.read;
    match &measured.invalid {
        Some(reason) => format!("The measured read of all files is not valid: {reason}."),
        None if read.interrupted => "The measured read of all files was interrupted.".into(),
        None => format!(
            "Measured on this target: a cold read of all files takes {:.1} s ({}, in directory order).",
            read.seconds,
            Bytes(read.bytes_read)
        ),
    }
}
