//! F2FS made anew, filled, and overwritten; in the guest with a recording of what its drives are given.

use super::{DriveResult, Event, F2fsBandwidth, Recorded, Sample, Spec};
use crate::on_model::{HostSpeed, Place, Recording, Role, now_ns};
use senesce_core::failure::failed;
use senesce_core::{Bytes, Failure};
use senesce_runs::run::Context;
use senesce_volume::guest::Guest;
use senesce_volume::{BlockDevice, ClaimedDevice, FileSystem, MountedTarget, OpenOptions, TargetSpec, open};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Makes F2FS anew on drives that are empty, or in `ours`: what an earlier step of this very process made. Those that it
/// takes are added.
pub fn write_on(
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
    // mkfs and mount take the zoned drive themselves.
    drop(claimed);
    let target = open(&TargetSpec::Device(device.into()), &options)?;
    ours.extend([Some(device), zoned].into_iter().flatten().map(Path::to_path_buf));
    let drives = match zoned {
        Some(zoned) => vec![(Role::Metadata, device.to_path_buf()), (Role::Zoned, zoned.to_path_buf())],
        None => vec![(Role::Conventional, device.to_path_buf())],
    };
    // Drives of this machine have times of their own.
    let recording = Guest::here().map(|_| Recording::start(&drives)).transpose()?;
    let outcome = overwrite((name, repeat), &target, size, spec, context);
    let outcome = outcome.and_then(|measured| {
        let Some(recording) = recording else { return Ok(()) };
        let traced = recording.stop(context.path(), &format!("{name}-{repeat}"), measured)?;
        context.record(Event::Speed(HostSpeed::of_replacing(Place::Guest, spec.file_size.bytes())?));
        context.record(Event::Recorded(Recorded { drive: name.into(), repeat, traced }));
        Ok(())
    });
    target.close()?;
    outcome
}

/// Fills to the fullness, then replaces files in random order; records bandwidth per sync interval. Returns when it began
/// and ended ([`now_ns`]).
fn overwrite(
    (name, repeat): (&str, u32),
    target: &MountedTarget,
    drive_size: Bytes,
    spec: &Spec,
    context: &mut Context<'_, F2fsBandwidth>,
) -> Result<(u64, u64), Failure> {
    use rand::RngExt;
    let file_size = spec.file_size.bytes();
    let root = target.directory().path().to_path_buf();
    let stat = rustix::fs::statvfs(&root).map_err(|errno| failed("look at", &root)(errno.into()))?;
    let space = (stat.f_bavail * stat.f_frsize) as f64 * spec.fullness;
    let slots = ((space / file_size as f64) as u64).max(4);
    let wanted = (drive_size.0 as f64 * spec.overwrites) as u64;
    let mut random = context.seed.stream("f2fs-bandwidth/victims");
    let mut content = vec![0u8; file_size as usize];
    rand::Rng::fill_bytes(&mut context.seed.stream("f2fs-bandwidth/content"), &mut content);
    context.progress.phase(&format!("writing on the {name} drive"), wanted, "bytes");
    // A sync every 32 MiB bounds what the page cache hides.
    let files_per_sync = (32 << 20) / file_size.max(1) + 1;
    let (begin, begin_ns) = (Instant::now(), now_ns());
    let (mut written, mut number) = (0u64, 0u64);
    while written < wanted {
        context.check_interrupt()?;
        let interval = Instant::now();
        for _ in 0..files_per_sync {
            let slot = if number < slots { number } else { random.random_range(0..slots) };
            replace(&root.join(format!("{slot:08}")), &content)?;
            number += 1;
        }
        target.sync()?;
        let bytes = files_per_sync * file_size;
        written += bytes;
        let sample = Sample {
            drive: name.into(),
            repeat,
            seconds: interval.elapsed().as_secs_f64(),
            bytes,
            elapsed: begin.elapsed().as_secs_f64(),
        };
        context.record(Event::Sample(sample));
        context.progress.position(written, "");
    }
    let (seconds, end_ns) = (begin.elapsed().as_secs_f64(), now_ns());
    let result = DriveResult {
        drive: name.into(),
        repeat,
        bytes: written,
        seconds,
        overwrites: written as f64 / drive_size.0 as f64,
        mean_mib_s: written as f64 / seconds / 1_048_576.0,
    };
    context.record(Event::Drive(result));
    Ok((begin_ns, end_ns))
}

fn replace(path: &Path, content: &[u8]) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed("remove", path)(error)),
        _ => {}
    }
    let mut file = File::create(path).map_err(failed("create", path))?;
    file.write_all(content).map_err(failed("write", path))
}
