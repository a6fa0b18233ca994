//! A private instance of tracefs (Documentation/trace/ftrace.rst, section Instances) that records one device's requests.

use super::ring_buffer::{EventFormat, Formats};
use crate::error::TargetError;
use crate::guardian::Guardian;
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// tracefs, mounted privately when the machine has it nowhere.
#[derive(Debug)]
struct TraceFs {
    path: PathBuf,
    private: Option<Guardian>,
}

impl TraceFs {
    fn find() -> Result<Self, TargetError> {
        if let Some(place) = PLACES.iter().find(|place| Path::new(place).join("instances").exists()) {
            return Ok(Self { path: place.into(), private: None });
        }
        let path = PathBuf::from(format!("/run/senesce/tracefs-{}", unique_name()));
        fs::create_dir_all(&path).map_err(|_| locked("the right to mount tracefs"))?;
        let private = Some(Guardian::of_mount(&path, None)?);
        let tracefs = Self { path, private };
        rustix::mount::mount("tracefs", &tracefs.path, "tracefs", MountFlags::empty(), None)
            .map_err(|errno| locked(&format!("tracefs ({errno})")))?;
        Ok(tracefs)
    }
}

impl Drop for TraceFs {
    fn drop(&mut self) {
        if let Some(guardian) = &mut self.private {
            let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
            let _ = fs::remove_dir(&self.path);
            guardian.dismiss();
        }
    }
}

/// What an instance records and how much it buffers.
#[derive(Debug, Clone)]
pub(crate) struct InstanceOptions {
    /// The filter of both events.
    pub filter: String,
    /// Buffer per CPU.
    pub buffer_kib: u64,
}

/// A private instance; removed when dropped, or by its guardian when the process is killed.
#[derive(Debug)]
pub(crate) struct Instance {
    path: PathBuf,
    guardian: Guardian,
    _tracefs: TraceFs,
    /// Where the fields of the events lie.
    pub formats: Formats,
    /// Size of the pages that are read.
    pub page_size: usize,
}

impl Instance {
    pub(crate) fn new(options: &InstanceOptions) -> Result<Self, TargetError> {
        let tracefs = TraceFs::find()?;
        let formats = Formats {
            issue: read_format(&tracefs.path, "block_rq_issue")?,
            complete: read_format(&tracefs.path, "block_rq_complete")?,
        };
        let path = tracefs.path.join("instances").join(format!("senesce-{}", unique_name()));
        let named = ProcessNames::off(&tracefs.path);
        fs::create_dir(&path).map_err(|error| locked(&format!("a tracefs instance ({error})")))?;
        let guardian = Guardian::of_directory(&path)?;
        drop(named);
        let mut instance = Self { path, guardian, _tracefs: tracefs, formats, page_size: 4096 };
        instance.set_up(options)?;
        Ok(instance)
    }

    fn set_up(&mut self, options: &InstanceOptions) -> Result<(), TargetError> {
        self.write("tracing_on", "0")?;
        self.write("trace_clock", "mono")?;
        // Full buffers drop new events and count them, so that what is kept has no hole in its middle.
        self.write("options/overwrite", "0")?;
        self.write("buffer_size_kb", &options.buffer_kib.to_string())?;
        for event in ["block_rq_issue", "block_rq_complete"] {
            self.write(&format!("events/block/{event}/filter"), &options.filter)?;
            self.write(&format!("events/block/{event}/enable"), "1")?;
        }
        let subbuffer = fs::read_to_string(self.path.join("buffer_subbuf_size_kb")).ok();
        let kib = subbuffer.and_then(|text| text.trim().parse::<usize>().ok());
        self.page_size = kib.map_or_else(rustix::param::page_size, |kib| kib * 1024);
        Ok(())
    }

    /// Turns recording on or off.
    pub(crate) fn record(&self, on: bool) -> Result<(), TargetError> {
        self.write("tracing_on", if on { "1" } else { "0" })
    }

    /// The buffers of all CPUs, for non-blocking reads of whole pages.
    pub(crate) fn pipes(&self) -> Result<Vec<File>, TargetError> {
        let mut pipes = Vec::new();
        for cpu in self.cpus()? {
            let path = cpu.join("trace_pipe_raw");
            let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
            pipes.push(file.map_err(TargetError::io("open", &path))?);
        }
        Ok(pipes)
    }

    /// Events that the buffers could not take.
    pub(crate) fn lost_events(&self) -> Result<u64, TargetError> {
        let mut lost = 0;
        for cpu in self.cpus()? {
            let path = cpu.join("stats");
            let text = fs::read_to_string(&path).map_err(TargetError::io("read", &path))?;
            lost +=
                ["overrun:", "commit overrun:", "dropped events:"].iter().map(|name| counter(&text, name)).sum::<u64>();
        }
        Ok(lost)
    }

    fn cpus(&self) -> Result<Vec<PathBuf>, TargetError> {
        let folder = self.path.join("per_cpu");
        let entries = fs::read_dir(&folder).map_err(TargetError::io("list", &folder))?;
        Ok(entries.flatten().map(|entry| entry.path()).collect())
    }

    fn write(&self, name: &str, value: &str) -> Result<(), TargetError> {
        let path = self.path.join(name);
        fs::write(&path, value).map_err(TargetError::io(&format!("write {value} to"), &path))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.record(false);
        let _ = fs::remove_dir(&self.path);
        self.guardian.dismiss();
    }
}

/// The recording of process names, which an instance inherits when it is made and cannot change: it would hook every
/// context switch of the machine. It is off while this lives.
struct ProcessNames {
    path: PathBuf,
}

impl ProcessNames {
    fn off(tracefs: &Path) -> Option<Self> {
        let path = tracefs.join("options/record-cmd");
        let is_on = fs::read_to_string(&path).is_ok_and(|text| text.trim() == "1");
        (is_on && fs::write(&path, "0").is_ok()).then_some(Self { path })
    }
}

impl Drop for ProcessNames {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, "1");
    }
}

fn read_format(tracefs: &Path, event: &str) -> Result<EventFormat, TargetError> {
    let path = tracefs.join("events/block").join(event).join("format");
    let text = fs::read_to_string(&path).map_err(|error| locked(&format!("the event block:{event} ({error})")))?;
    EventFormat::parse(&text)
        .ok_or_else(|| TargetError::damaged(&path, "the event has not the fields of a block request"))
}

fn counter(text: &str, name: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix(name)).and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
}

fn locked(what: &str) -> TargetError {
    TargetError::missing(
        what,
        "block traces need root and tracefs (CONFIG_EVENT_TRACING, CONFIG_BLK_DEV_IO_TRACE), not locked down by the kernel; \
         traces recorded elsewhere come in with `senesce import blktrace`",
    )
}

fn unique_name() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}
