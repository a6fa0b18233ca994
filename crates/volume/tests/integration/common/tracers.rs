//! Other users of the kernel's tracing.

use senesce_volume::BlockDevice;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

pub struct TraceFs(tempfile::TempDir);

impl TraceFs {
    pub fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new("mount").args(["-t", "tracefs", "tracefs"]).arg(folder.path()).status().unwrap();
        assert!(status.success());
        Self(folder)
    }

    pub fn recording(&self, device: &BlockDevice) -> PathBuf {
        let number = u64::from(device.number().0) << 20 | u64::from(device.number().1);
        let instances = fs::read_dir(self.0.path().join("instances")).unwrap().flatten().map(|entry| entry.path());
        let records = |path: &PathBuf| {
            let filter = fs::read_to_string(path.join("events/block/block_rq_issue/filter")).unwrap_or_default();
            filter.trim() == format!("dev == {number}")
        };
        instances.into_iter().find(records).expect("a recording")
    }
}

impl Drop for TraceFs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Another instance that records timers and system calls through filters. The kernel assembles filtered events in one
/// page per CPU, which keeps old bytes: the arguments of system calls lie at the position of our letters.
pub struct OtherTracer {
    instance: PathBuf,
    _tracefs: TraceFs,
}

impl OtherTracer {
    pub fn start() -> Self {
        let tracefs = TraceFs::mount();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("other-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let instance = tracefs.0.path().join("instances").join(name);
        fs::create_dir(&instance).unwrap();
        for (event, filter) in [("timer/hrtimer_start", "expires > 0"), ("raw_syscalls/sys_enter", "id > 0")] {
            let folder = instance.join("events").join(event);
            fs::write(folder.join("filter"), filter).unwrap();
            fs::write(folder.join("enable"), "1").unwrap();
        }
        Self { instance, _tracefs: tracefs }
    }
}

impl Drop for OtherTracer {
    fn drop(&mut self) {
        let _ = fs::write(self.instance.join("tracing_on"), "0");
        let _ = fs::remove_dir(&self.instance);
    }
}
