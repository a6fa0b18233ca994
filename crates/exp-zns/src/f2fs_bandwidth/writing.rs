//! Makes F2FS, fills it and overwrites the files. In the guest it records the requests to the drives.

use super::overwriting::{self, WriteProgress, WriterFiles};
use super::{DriveResult, Event, F2fsBandwidth, Recorded, Sample, Spec};
use crate::on_model::{HostSpeed, MachineRole, Recording, Role, now_ns};
use senesce_core::failure::failed;
use senesce_core::heartbeat::Heartbeat;
use senesce_core::{Bytes, Failure};
use senesce_runner::Context;
use senesce_volume::guest::Guest;
use senesce_volume::{BlockDevice, ClaimedDevice, FileSystem, MountedTarget, OpenOptions, TargetSpec, open};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Makes F2FS on drives that are empty or listed in `ours`, the drives that this process claimed before. Adds newly
/// claimed drives to `ours`.
pub(crate) fn write_on(
    (name, repeat): (&str, u32),
    device: &Path,
    zoned: Option<&Path>,
    spec: &Spec,
    ours: &mut Vec<PathBuf>,
    context: &mut Context<'_, F2fsBandwidth>,
) -> Result<(), Failure> {
    let size = BlockDevice::open(zoned.unwrap_or(device))?.size();
    let known = |path: &Path| ours.iter().any(|known| known == path).then(|| path.display().to_string());
    let claimed = zoned.map(|path| ClaimedDevice::claim(path, known(path).as_deref())).transpose()?;
    let mut options = OpenOptions { erase: known(device), ..OpenOptions::fresh(FileSystem::F2fs) };
    if let Some(zoned) = &claimed {
        options.mkfs_options = format!("-m -c {}", zoned.path().display());
    }
    // mkfs and mount open the zoned drive exclusively.
    drop(claimed);
    let target = open(&TargetSpec::Device(device.into()), &options)?;
    ours.extend([Some(device), zoned].into_iter().flatten().map(Path::to_path_buf));
    let drives = match zoned {
        Some(zoned) => vec![(Role::Metadata, device.to_path_buf()), (Role::Zoned, zoned.to_path_buf())],
        None => vec![(Role::Conventional, device.to_path_buf())],
    };
    // Only drives of the guest need a recording: the times of real drives are valid.
    let recording = Guest::here().map(|_| Recording::start(&drives)).transpose()?;
    let outcome = overwrite((name, repeat), &target, size, spec, context);
    let outcome = outcome.and_then(|measured| {
        let Some(recording) = recording else { return Ok(()) };
        let traced = recording.stop(context, &format!("{name}-{repeat}"), measured)?;
        context.record(Event::Speed(HostSpeed::of_overwriting(MachineRole::Guest)?));
        context.record(Event::Recorded(Recorded { drive: name.into(), repeat, traced }));
        Ok(())
    });
    target.close()?;
    outcome
}

/// Lays out the files, runs all writers and records the bandwidth. Returns the start and end of the overwriting
/// ([`now_ns`]).
fn overwrite(
    (name, repeat): (&str, u32),
    target: &MountedTarget,
    drive_size: Bytes,
    spec: &Spec,
    context: &mut Context<'_, F2fsBandwidth>,
) -> Result<(u64, u64), Failure> {
    let root = target.directory().path().to_path_buf();
    let shape = WriterFiles::of(spec, drive_size);
    let stat = rustix::fs::statvfs(&root).map_err(|errno| failed("inspect", &root)(errno.into()))?;
    let available = Bytes(stat.f_bavail * stat.f_frsize);
    if shape.bytes() > available {
        let words = format!(
            "files of {} do not fit on the {name} drive, where F2FS has {available} free: lower fullness ({}) or \
             raise size",
            shape.bytes(),
            spec.fullness
        );
        return Err(Failure::usage(words));
    }
    context.progress.say(&format!("{name}: lay out files of {}", shape.bytes()));
    let writers = shape.lay_out(&root, context)?;
    target.sync()?;
    let wanted = shape.bytes_for(spec.overwrites);
    context.progress.phase(&format!("writing on the {name} drive"), wanted, "bytes");
    let heartbeat = Heartbeat::begin();
    let (begin, begin_ns) = (Instant::now(), now_ns());
    let mut last = WriteProgress { seconds: 0.0, bytes: 0 };
    let outcome = overwriting::run(&writers, shape, wanted, begin, context.seed, |course| {
        context.check_interrupt()?;
        let Some(course) = course else { return Ok(()) };
        let before = std::mem::replace(&mut last, course);
        context.record(Event::Sample(Sample {
            drive: name.into(),
            repeat,
            seconds: course.seconds - before.seconds,
            bytes: course.bytes - before.bytes,
            elapsed: course.seconds,
        }));
        context.progress.position(course.bytes, "");
        Ok(())
    });
    outcome?;
    target.sync()?;
    let (seconds, end_ns) = (begin.elapsed().as_secs_f64(), now_ns());
    heartbeat.end().check()?;
    context.record(Event::Drive(DriveResult {
        drive: name.into(),
        repeat,
        bytes: wanted,
        laid_bytes: shape.bytes().0,
        seconds,
        overwrites: wanted as f64 / shape.bytes().0 as f64,
        mean_mib_s: wanted as f64 / seconds / 1_048_576.0,
    }));
    Ok((begin_ns, end_ns))
}
