//! A private instance of tracefs (Documentation/trace/ftrace.rst, section Instances) that records one device's
//! requests.

use super::event_format::{CommandFormat, EventFormat};
use super::ring_buffer::Formats;
use crate::error::TargetError;
use crate::guardian::Guardian;
use crate::scratch_directory;
use crate::setting::ChangedSetting;
use rustix::mount::{MountFlags, UnmountFlags};
use senesce_core::environment::remedy_of_right;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The recorded events of a request. A driver that cannot take a request requeues it.
const EVENTS: [&str; 3] = ["block_rq_issue", "block_rq_complete", "block_rq_requeue"];

const COMMAND: &str = "events/nvme/nvme_setup_cmd";

/// Settings that decide which events are recorded; read back at the end.
const SETTINGS: [&str; 7] = [
    "tracing_on",
    "trace_clock",
    "options/overwrite",
    "buffer_size_kb",
    "tracing_cpumask",
    "set_event_pid",
    "set_event_notrace_pid",
];

const REMOVAL_LIMIT: Duration = Duration::from_secs(2);

const TRIES: u32 = 5;

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// tracefs, mounted privately if the machine has no mount of it.
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
        let (path, guardian) = scratch_directory::mount_point("tracefs", Guardian::of_mount)
            .map_err(|_| locked("the right to mount tracefs"))?;
        let tracefs = Self { path, private: Some(guardian) };
        rustix::mount::mount(
            "tracefs",
            &tracefs.path,
            "tracefs",
            MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC,
            None,
        )
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

#[derive(Debug, Clone)]
pub(crate) struct InstanceOptions {
    pub issue_filter: String,
    pub complete_filter: String,
    pub commands: Option<CommandOptions>,
    pub buffer_kib: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct CommandOptions {
    pub filter: String,
    /// Sectors of 512 bytes per logical block.
    pub block_sectors: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EventCounters {
    pub lost: u64,
    pub recorded: u64,
}

/// A private instance; removed when dropped, or by its guardian when the process is killed.
#[derive(Debug)]
pub(crate) struct Instance {
    path: PathBuf,
    guardian: Guardian,
    _tracefs: TraceFs,
    pub formats: Formats,
    pub page_size: usize,
}

impl Instance {
    pub(crate) fn new(options: &InstanceOptions) -> Result<Self, TargetError> {
        let tracefs = TraceFs::find()?;
        let formats = Formats {
            issue: read_format(&tracefs.path, "block_rq_issue")?,
            complete: read_format(&tracefs.path, "block_rq_complete")?,
            requeue: read_format(&tracefs.path, "block_rq_requeue")?,
            // A kernel without this event may show the commands by its letters; otherwise they stay unknown.
            command: options.commands.as_ref().and_then(|commands| {
                let text = fs::read_to_string(tracefs.path.join(COMMAND).join("format")).ok()?;
                CommandFormat::parse(&text, commands.block_sectors)
            }),
        };
        let path = tracefs.path.join("instances").join(format!("senesce-{}", unique_name()));
        let named = without_process_names(&tracefs.path);
        let guardian = Guardian::of_directory(&path)?;
        fs::create_dir(&path).map_err(|error| locked(&format!("a tracefs instance ({error})")))?;
        drop(named);
        let mut instance = Self { path, guardian, _tracefs: tracefs, formats, page_size: 4096 };
        instance.set_up(options)?;
        Ok(instance)
    }

    fn set_up(&mut self, options: &InstanceOptions) -> Result<(), TargetError> {
        self.write("tracing_on", "0")?;
        self.write("trace_clock", "mono")?;
        // Full buffers drop new events and count them, so that the recorded events have no gap.
        self.write("options/overwrite", "0")?;
        self.write("buffer_size_kb", &options.buffer_kib.to_string())?;
        for event in EVENTS {
            let filter = if event == "block_rq_complete" { &options.complete_filter } else { &options.issue_filter };
            self.write(&format!("events/block/{event}/filter"), filter)?;
            self.write(&format!("events/block/{event}/enable"), "1")?;
        }
        if let (Some(commands), Some(_)) = (&options.commands, &self.formats.command) {
            self.write(&format!("{COMMAND}/filter"), &commands.filter)?;
            self.write(&format!("{COMMAND}/enable"), "1")?;
        }
        let subbuffer = fs::read_to_string(self.path.join("buffer_subbuf_size_kb")).ok();
        let kib = subbuffer.and_then(|text| text.trim().parse::<usize>().ok());
        self.page_size = kib.map_or_else(rustix::param::page_size, |kib| kib * 1024);
        Ok(())
    }

    pub(crate) fn record(&self, on: bool) -> Result<(), TargetError> {
        self.write("tracing_on", if on { "1" } else { "0" })
    }

    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let events = EVENTS.map(|event| format!("events/block/{event}"));
        let command = self.formats.command.map(|_| COMMAND.to_string());
        let of_events = events
            .into_iter()
            .chain(command)
            .flat_map(|event| ["enable", "filter", "trigger"].map(|setting| format!("{event}/{setting}")));
        let names = SETTINGS.iter().map(|name| name.to_string()).chain(of_events);
        // A kernel that lacks one of them lacks it at the end, too.
        let read = |name: String| {
            let value = fs::read_to_string(self.path.join(&name)).unwrap_or_default();
            (name, value.trim().to_string())
        };
        names.map(read).collect()
    }

    pub(crate) fn pipes(&self) -> Result<Vec<File>, TargetError> {
        let mut pipes = Vec::new();
        for cpu in self.cpus()? {
            let path = cpu.join("trace_pipe_raw");
            let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
            pipes.push(file.map_err(TargetError::io("open", &path))?);
        }
        Ok(pipes)
    }

    pub(crate) fn counters(&self) -> Result<EventCounters, TargetError> {
        let mut counters = EventCounters::default();
        for cpu in self.cpus()? {
            let path = cpu.join("stats");
            let text = fs::read_to_string(&path).map_err(TargetError::io("read", &path))?;
            let sum = |names: &[&str]| names.iter().map(|name| counter(&text, name)).sum::<u64>();
            counters.lost += sum(&["overrun:", "commit overrun:", "dropped events:"]);
            counters.recorded += sum(&["entries:", "read events:"]);
        }
        Ok(counters)
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
        // Busy while a process has a file of it open, also a starting child that briefly inherits ours.
        let deadline = Instant::now() + REMOVAL_LIMIT;
        while let Err(error) = fs::remove_dir(&self.path) {
            if error.kind() == ErrorKind::NotFound {
                break;
            }
            if Instant::now() >= deadline {
                // The guardian keeps trying, because it is not dismissed.
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.guardian.dismiss();
    }
}

/// Turns off the recording of process names, which an instance inherits and cannot change: it would hook every context
/// switch of the machine.
fn without_process_names(tracefs: &Path) -> Option<ChangedSetting> {
    let path = tracefs.join("options/record-cmd");
    let is_on = || fs::read_to_string(&path).is_ok_and(|text| text.trim() == "1");
    for _ in 0..TRIES {
        if !is_on() {
            return None;
        }
        // Another tracer may set it back at any moment, and so may senesce at the end of its own trace.
        match ChangedSetting::set(path.clone(), "0") {
            Ok(setting) => return Some(setting),
            Err(error) => tracing::debug!("{error}"),
        }
    }
    tracing::warn!("another tracer keeps {} enabled, which slows down every context switch", path.display());
    None
}

fn read_format(tracefs: &Path, event: &str) -> Result<EventFormat, TargetError> {
    let path = tracefs.join("events/block").join(event).join("format");
    let text = fs::read_to_string(&path).map_err(|error| locked(&format!("the event block:{event} ({error})")))?;
    EventFormat::parse(&text)
        .ok_or_else(|| TargetError::damaged(&path, "the event lacks the fields of a block request"))
}

fn counter(text: &str, name: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix(name)).and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
}

fn locked(what: &str) -> TargetError {
    TargetError::missing(
        what,
        remedy_of_right(
            "block traces need tracefs (CONFIG_EVENT_TRACING, CONFIG_BLK_DEV_IO_TRACE), not locked down by the kernel; import \
             traces recorded elsewhere with `senesce runs import blktrace`",
        ),
    )
}

fn unique_name() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_setting_is_recorded_while_off() {
        let tracefs = tempfile::tempdir().unwrap();
        let file = tracefs.path().join("options/record-cmd");
        fs::create_dir(tracefs.path().join("options")).unwrap();
        fs::write(&file, "1\n").unwrap();
        let off = without_process_names(tracefs.path());
        assert_eq!(fs::read_to_string(&file).unwrap(), "0");
        assert!(crate::setting::is_in_ledger(&file), "a killed process would leave it");
        drop(off);
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), crate::setting::is_in_ledger(&file)), ("1", false));
        fs::write(&file, "0\n").unwrap();
        assert!(without_process_names(tracefs.path()).is_none(), "another tracer turned it off");
    }
}
