//! Watches a guest from boot to end: forwards its output and enforces its limits.

use crate::control;
use crate::ending::{console_output, last_lines};
use crate::error::{GuestEnd, GuestError, io_error};
use crate::space;
use crate::uml::GuestTime;
use rustix::process::{Pid, Signal};
use senesce_core::input::InputFolder;
use senesce_core::interrupt::Interrupt;
use senesce_sys::usage;
use senesce_volume::{Guardian, TargetError};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(10);

/// A boot needs about five seconds of CPU time on any host; one that needs much more spins.
const BOOT_CPU_LIMIT: Duration = Duration::from_secs(60);

/// A sleeping guest uses no CPU time, so this is wall-clock time, enough for a host with a load of 40.
const BOOT_LIMIT: Duration = Duration::from_secs(300);

/// The user's time limit over all boots. Time without a processor, because of other processes on the host, does not count: the
/// limit should end a guest that hangs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub since: Instant,
    pub length: Duration,
    pub waited: Duration,
}

impl Limit {
    /// Returns whether `elapsed`, minus the time for which guests `waited` for a processor, exceeds the limit.
    fn is_over(&self, elapsed: Duration, waited: impl FnOnce() -> Duration) -> bool {
        elapsed > self.length && elapsed.saturating_sub(self.waited + waited()) > self.length
    }
}

pub(crate) enum WatchEnd {
    /// The guest ended, or reported the command's exit status.
    ByItself,
    /// The reader of the command's output is gone (`senesce vm run ... | head`).
    ReaderGone,
}

/// The process of the host that is the guest.
pub(crate) struct GuestProcess {
    pub child: Child,
    /// Whether it ends other processes before itself, so that it must not be killed.
    pub is_supervisor: bool,
}

impl GuestProcess {
    /// Ends the guest if this process is killed.
    ///
    /// # Errors
    /// That cannot be recorded; the guest is ended.
    pub(crate) fn guard(&mut self) -> Result<Guardian, TargetError> {
        match self.is_supervisor {
            true => Guardian::of_supervisor(&self.child).inspect_err(|_| {
                self.end();
            }),
            false => Guardian::of_child(&mut self.child),
        }
    }

    /// Ends the guest, if it has not ended. Returns its status.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        if !self.is_supervisor {
            let _ = self.child.kill();
        } else if matches!(self.child.try_wait(), Ok(None)) {
            let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        self.child.wait().ok()
    }
}

pub(crate) struct WatchedGuest<'a> {
    pub guest: GuestProcess,
    pub control: &'a Path,
    pub console: &'a Path,
    pub begin: Instant,
    pub boot_seconds: Option<f64>,
    pub user_mode: bool,
    pub time: GuestTime,
    /// Seconds of the host that the guest in virtual time was last sent.
    pub host_seconds: u64,
    pub places: &'a [PathBuf],
    pub was_full: Option<PathBuf>,
}

impl WatchedGuest<'_> {
    /// Forwards output until the guest ends, the user or a limit ends it, or the reader is gone.
    ///
    /// # Errors
    /// The guest cannot be waited for, or its output cannot be forwarded.
    pub(crate) fn watch(
        &mut self,
        interrupt: &Interrupt,
        limit: Option<Limit>,
        out: &mut dyn Write,
        errors: &mut dyn Write,
    ) -> Result<WatchEnd, GuestError> {
        let mut streams = [Tail::new(self.control, "stdout", out), Tail::new(self.control, "stderr", errors)];
        loop {
            if self.boot_seconds.is_none() && started(self.control) {
                self.boot_seconds = Some(self.begin.elapsed().as_secs_f64());
            }
            let ended = self.guest.child.try_wait().map_err(io_error("wait for the guest of", self.control))?.is_some();
            // User-mode Linux does not end by a panic.
            let ended = ended || (self.user_mode && console_output(self.console).contains("Kernel panic"));
            let reported = self.control.join("exit").exists();
            // After the end of the guest all its output is available: forward the rest.
            let forwarded = streams.iter_mut().try_for_each(|stream| stream.forward(ended || reported));
            if let Err(error) = forwarded {
                return match error.kind() {
                    io::ErrorKind::BrokenPipe => Ok(WatchEnd::ReaderGone),
                    _ => Err(io_error("forward the output of", self.control)(error)),
                };
            }
            if ended || reported {
                return Ok(WatchEnd::ByItself);
            }
            if interrupt.requested() {
                return Err(GuestError::Interrupted);
            }
            self.send_host_seconds()?;
            self.check_space();
            self.check_limits(limit)?;
            std::thread::sleep(POLL);
        }
    }

    fn send_host_seconds(&mut self) -> Result<(), GuestError> {
        let seconds = self.begin.elapsed().as_secs();
        if self.time.is_virtual() && seconds > self.host_seconds {
            self.host_seconds = seconds;
            control::put_host_seconds(self.control, seconds)?;
        }
        Ok(())
    }

    /// Records a full file system. Output that the guest could not write is missing even if there is space again at its
    /// end.
    fn check_space(&mut self) {
        if self.was_full.is_none() {
            self.was_full = space::full(self.places.iter().map(PathBuf::as_path)).map(Path::to_path_buf);
        }
    }

    pub(crate) fn waited(&self) -> Duration {
        usage::longest_wait_of(self.guest.child.id()).unwrap_or_default()
    }

    fn check_limits(&self, limit: Option<Limit>) -> Result<(), GuestError> {
        let ended = |end, what: String, remedy: &str| {
            Err(GuestError::Guest {
                end,
                what,
                console: last_lines(&console_output(self.console)),
                remedy: remedy.into(),
            })
        };
        if let Some(limit) = limit.filter(|limit| limit.is_over(limit.since.elapsed(), || self.waited())) {
            let what = format!("did not end within {:.0} s and was ended", limit.length.as_secs_f64());
            return ended(
                GuestEnd::TimeLimit,
                what,
                "give it more time with --time-limit of vm run, or --max-time of age",
            );
        }
        if self.boot_seconds.is_some() {
            return Ok(());
        }
        let (used, past) = (processor_time(self.guest.child.id()), self.begin.elapsed());
        if used > BOOT_CPU_LIMIT || past > BOOT_LIMIT {
            let (used, past) = (used.as_secs(), past.as_secs());
            let what = format!("did not boot within {past} s ({used} s of processor time) and was ended");
            let remedy = "try --accelerator tcg, or another kernel with --kernel RELEASE";
            return ended(GuestEnd::SlowBoot, what, remedy);
        }
        Ok(())
    }
}

/// Opens a file of the control share. The guest can write the share, so it may be a link, a pipe or a device.
pub(crate) fn open_shared(control: &Path, name: &str) -> io::Result<File> {
    InputFolder::open(control)?.file(Path::new(name))
}

struct Tail<'a> {
    control: &'a Path,
    name: &'static str,
    file: Option<File>,
    at: u64,
    to: &'a mut dyn Write,
}

impl<'a> Tail<'a> {
    fn new(control: &'a Path, name: &'static str, to: &'a mut dyn Write) -> Self {
        Self { control, name, file: None, at: 0, to }
    }

    fn forward(&mut self, everything: bool) -> io::Result<()> {
        if self.file.is_none() {
            self.file = match open_shared(self.control, self.name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                opened => Some(opened?),
            };
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.seek(SeekFrom::Start(self.at))?;
        let copied = io::copy(&mut file.take(if everything { u64::MAX } else { 1 << 20 }), self.to)?;
        self.at += copied;
        if copied > 0 { self.to.flush() } else { Ok(()) }
    }
}

/// Returns the user and system time of a process; zero for a process that is gone.
fn processor_time(pid: u32) -> Duration {
    usage::of_process(pid).map_or(Duration::ZERO, |(user, system)| user + system)
}

pub(crate) fn started(control: &Path) -> bool {
    control.join("started").exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::exit_status;
    use std::fs;

    fn ended(ago: Duration, boot_seconds: Option<f64>, limit: Option<Limit>) -> Option<GuestEnd> {
        let temporary = tempfile::tempdir().unwrap();
        let child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let begin = Instant::now().checked_sub(ago).unwrap();
        let console = temporary.path().join("console");
        let mut watched = WatchedGuest {
            guest: GuestProcess { child, is_supervisor: false },
            control: temporary.path(),
            console: &console,
            begin,
            boot_seconds,
            user_mode: false,
            time: GuestTime::Real,
            host_seconds: 0,
            places: &[],
            was_full: None,
        };
        let checked = watched.check_limits(limit);
        watched.guest.end().unwrap();
        match checked {
            Ok(()) => None,
            Err(GuestError::Guest { end, .. }) => Some(end),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn time_limit_counts_from_the_start_of_the_run_not_of_the_boot() {
        let limit = |length| {
            Some(Limit { since: Instant::now().checked_sub(BOOT_CPU_LIMIT).unwrap(), length, waited: Duration::ZERO })
        };
        assert_eq!(ended(Duration::ZERO, None, limit(BOOT_CPU_LIMIT / 2)), Some(GuestEnd::TimeLimit));
        assert_eq!(ended(Duration::ZERO, None, limit(BOOT_CPU_LIMIT * 2)), None);
    }

    #[test]
    fn time_limit_excludes_time_without_a_processor() {
        let seconds = Duration::from_secs;
        let limit = Limit { since: Instant::now(), length: seconds(60), waited: seconds(0) };
        assert!(!limit.is_over(seconds(59), || panic!("not asked before")));
        assert!(limit.is_over(seconds(61), || seconds(0)));
        assert!(!limit.is_over(seconds(100), || seconds(50)));
        assert!(limit.is_over(seconds(120), || seconds(50)));
        let again = Limit { waited: seconds(20), ..limit };
        assert!(!again.is_over(seconds(120), || seconds(50)), "an earlier boot waited too");
    }

    #[test]
    fn links_in_place_of_output_and_status_are_not_followed() {
        use std::os::unix::fs::symlink;
        let room = tempfile::tempdir().unwrap();
        let (control, secret) = (room.path().join("control"), room.path().join("secret"));
        fs::create_dir(&control).unwrap();
        fs::write(&secret, "7").unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        for name in ["stdout", "exit"] {
            let path = control.join(name);
            for planted in [secret.as_path(), Path::new("/dev/zero")] {
                symlink(planted, &path).unwrap();
                assert!(Tail::new(&control, "stdout", &mut Vec::new()).forward(true).is_err() || name == "exit");
                assert_eq!(exit_status(&control), None, "{}", planted.display());
                fs::remove_file(&path).unwrap();
            }
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
            assert!(Tail::new(&control, "stdout", &mut Vec::new()).forward(true).is_err() || name == "exit");
            assert_eq!(exit_status(&control), None);
            fs::remove_file(&path).unwrap();
        }
        let mut out = Vec::new();
        Tail::new(&control, "stdout", &mut out).forward(true).unwrap();
        fs::write(control.join("stdout"), "said").unwrap();
        Tail::new(&control, "stdout", &mut out).forward(true).unwrap();
        fs::write(control.join("exit"), "3\n").unwrap();
        assert_eq!((out.as_slice(), exit_status(&control)), (&b"said"[..], Some(3)));
    }

    #[test]
    fn boot_has_limits_and_a_command_has_none() {
        let long = BOOT_LIMIT + Duration::from_secs(1);
        assert_eq!(ended(long, None, None), Some(GuestEnd::SlowBoot));
        assert_eq!(ended(long, Some(3.0), None), None);
    }
}
