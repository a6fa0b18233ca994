//! Runs a command in a guest, from boot to exit status.

use crate::control::{self, PROGRAMS};
use crate::drive::{Drive, DriveKind};
use crate::ending::{keep_console, read_exit};
use crate::error::{GuestEnd, GuestError, io_error, scratch_error};
use crate::guest::Job;
use crate::guest_space::{GuestSpace, with_full_path};
use crate::initramfs;
use crate::keep::{KeptDrives, KeptFiles};
use crate::kernel::Kernel;
use crate::qemu::{Accelerator, Image, Machine, kvm_refused, probe_accelerator};
use crate::scratch::Scratch;
use crate::slow_drive::SlowDrive;
use crate::space::{self, Growth};
use crate::uml::{self, GuestTime, Method, Started, userland};
use crate::watch::{GuestProcess, Limit, WatchEnd, WatchedGuest, started};
use senesce_core::circumstances::date_of;
use senesce_core::interrupt::Interrupt;
use senesce_core::machine::VIRTUAL_TIME_ADVICE;
use senesce_core::record::random_for_guest;
use senesce_core::{Bytes, machine};
use senesce_volume::KeptDrive;
use senesce_volume::guest::{CONTROL, CONTROL_TAG};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

#[derive(Debug, Clone)]
pub struct GuestRun {
    pub kernel: Kernel,
    pub drives: Vec<Drive>,
    pub keep: KeptFiles,
    pub memory: Bytes,
    pub cpus: u32,
    pub accelerator: Option<Accelerator>,
    /// Clock of user-mode Linux; QEMU's guests have real time.
    pub time: GuestTime,
    pub command: Vec<String>,
    /// Existing folders of the host that the guest may write, at the same paths.
    pub shares: Vec<PathBuf>,
    pub time_limit: Option<Duration>,
    /// Columns of the terminal that shows the output of a program of senesce.
    pub columns: Option<usize>,
}

/// Result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct GuestOutcome {
    /// Seconds from start to the command's first instruction.
    pub boot_seconds: f64,
    pub total_seconds: f64,
    pub exit_status: u8,
    pub accelerator: Accelerator,
    /// Kernel release of the guest.
    pub kernel: String,
    pub drives: Vec<Drive>,
    /// The files of kept drives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<PathBuf>,
}

struct PreparedGuest {
    scratch: Scratch,
    accelerator: Accelerator,
    /// Confinement of a user-mode kernel.
    method: uml::Method,
    kept: KeptDrives,
}

const BOOTS: u32 = 3;

/// Both methods confine the kernel, so the user need not act.
const WITHOUT_NAMESPACES: &str = "note: namespaces are not permitted here; Landlock confines the user-mode kernel";

/// Returns whether the guest may be booted again. Emulated processors sometimes crash or spin during boot, before
/// anything has happened in the guest. Other early ends would repeat.
fn may_boot_again(end: GuestEnd, accelerator: Accelerator, command_started: bool) -> bool {
    accelerator == Accelerator::Tcg && !command_started && matches!(end, GuestEnd::Panic | GuestEnd::SlowBoot)
}

/// A shell's status for a command whose reader is gone: 128 plus SIGPIPE.
const READER_GONE: u8 = 141;

impl GuestRun {
    /// Boots, runs, forwards the command's output to `out` and `errors`, and returns its exit status.
    ///
    /// # Errors
    /// The guest does not boot, ends without an exit status, or exceeds its time limit; the user interrupts the run.
    pub fn run(
        &self,
        interrupt: &Interrupt,
        out: &mut dyn Write,
        errors: &mut dyn Write,
    ) -> Result<GuestOutcome, GuestError> {
        self.check()?;
        // First cleans up after killed processes.
        senesce_volume::guardian::sweep();
        let mut limit = self.time_limit.map(|length| Limit { since: Instant::now(), length, waited: Duration::ZERO });
        let scratch = Scratch::new()?;
        let accelerator = match self.accelerator {
            _ if self.kernel.is_user_mode() => Accelerator::Uml,
            Some(chosen) => chosen,
            None => self.probe(scratch.path(), errors)?,
        };
        let (method, kept) = (uml::method_after(&[])?, self.keep.open(&self.drives)?);
        let mut prepared = PreparedGuest { scratch, accelerator, method, kept };
        let places: Vec<PathBuf> = self.growth()?.into_iter().map(|growth| growth.folder).collect();
        let mut room = GuestSpace { places: &places, was_full: None };
        let ended = self.boot_until_it_ends(&mut prepared, &mut limit, &mut room, interrupt, out, errors);
        let ended = with_full_path(ended, &room, errors);
        let synced = prepared.kept.values().try_for_each(KeptDrive::sync);
        let synced = synced.map_err(Into::into).and_then(|()| self.sync_shares());
        ended.and_then(|outcome| synced.map(|()| outcome))
    }

    /// Synchronises the shares on the host. In virtual time, synchronising in the guest has no effect there.
    fn sync_shares(&self) -> Result<(), GuestError> {
        let shares = self.shares.iter().filter(|_| self.time.is_virtual());
        shares.into_iter().try_for_each(|share| {
            let folder = File::open(share).map_err(io_error("open", share))?;
            rustix::fs::syncfs(&folder).map_err(|errno| io_error("synchronise", share)(errno.into()))
        })
    }

    fn boot_until_it_ends(
        &self,
        prepared: &mut PreparedGuest,
        limit: &mut Option<Limit>,
        room: &mut GuestSpace<'_>,
        interrupt: &Interrupt,
        out: &mut dyn Write,
        errors: &mut dyn Write,
    ) -> Result<GuestOutcome, GuestError> {
        let (mut boots, mut refusals) = (1, Vec::new());
        loop {
            match self.boot(prepared, limit, room, interrupt, out, errors) {
                Err(GuestError::Guest { end, what, .. })
                    if boots < BOOTS
                        && may_boot_again(end, prepared.accelerator, started(&prepared.scratch.control())) =>
                {
                    boots += 1;
                    let _ = writeln!(
                        errors,
                        "senesce: the guest {what} before it started the command; booted \
                        again"
                    );
                }
                Err(GuestError::NotConfined(reason)) => {
                    refusals.push(reason);
                    prepared.method = uml::method_after(&refusals)?;
                    let _ = writeln!(errors, "{WITHOUT_NAMESPACES}");
                }
                ended => return ended,
            }
        }
    }

    fn boot(
        &self,
        prepared: &PreparedGuest,
        limit: &mut Option<Limit>,
        room: &mut GuestSpace<'_>,
        interrupt: &Interrupt,
        out: &mut dyn Write,
        errors: &mut dyn Write,
    ) -> Result<GuestOutcome, GuestError> {
        let PreparedGuest { scratch, accelerator, method, .. } = prepared;
        let control = scratch.control();
        let userland = if self.kernel.is_user_mode() { userland::installed()? } else { None };
        control::prepare(&control, &self.kernel, userland.as_ref())?;
        control::put_facts(&control, self.time, self.columns)?;
        let begin = Instant::now();
        let job = self.job(*accelerator)?;
        let Started { child, memory: _memory, processor: _processor } = match accelerator {
            Accelerator::Uml => uml::start(self, job, scratch, *method, userland)?,
            Accelerator::Kvm | Accelerator::Tcg => {
                let initramfs = scratch.path().join("initramfs");
                initramfs::write(&initramfs, &self.kernel, &job)?;
                Started { child: self.machine(prepared, &initramfs, &control)?.start()?, memory: None, processor: None }
            }
        };
        let mut guest =
            GuestProcess { child, is_supervisor: *accelerator == Accelerator::Uml && *method == Method::Landlock };
        let _guardian = guest.guard()?;
        let (console, places) = (scratch.console(), room.places);
        let user_mode = *accelerator == Accelerator::Uml;
        let mut watched = WatchedGuest {
            guest,
            control: &control,
            console,
            user_mode,
            time: self.time,
            host_seconds: 0,
            begin,
            boot_seconds: None,
            places,
            was_full: None,
        };
        let ended = watched.watch(interrupt, *limit, out, errors);
        if let Some(limit) = limit {
            limit.waited += watched.waited();
        }
        let status = watched.guest.end().and_then(|status| status.code());
        room.was_full = watched.was_full.take().or(room.was_full.take());
        let keep = |error| keep_console(error, console);
        let exit_status = match ended.map_err(keep)? {
            WatchEnd::ByItself if user_mode && status == Some(uml::CANNOT_CONFINE) && !started(&control) => {
                return Err(GuestError::NotConfined(uml::refusal(console)));
            }
            WatchEnd::ByItself => read_exit(&control, console).map_err(keep)?,
            WatchEnd::ReaderGone => READER_GONE,
        };
        Ok(GuestOutcome {
            boot_seconds: watched.boot_seconds.unwrap_or_else(|| begin.elapsed().as_secs_f64()),
            total_seconds: begin.elapsed().as_secs_f64(),
            exit_status,
            accelerator: *accelerator,
            kernel: self.kernel.version.clone(),
            drives: self.drives.clone(),
            kept: self.keep.files.clone(),
        })
    }

    fn check(&self) -> Result<(), GuestError> {
        if self.kernel.is_user_mode() && !self.drives.is_empty() {
            return Err(GuestError::Usage(format!(
                "cannot emulate drives under user-mode Linux (kernel {})\nhint: --engine qemu",
                self.kernel.version
            )));
        }
        if self.time.is_virtual() && !self.kernel.has_virtual_time() {
            return Err(GuestError::Missing {
                what: format!("kernel {} has no virtual time", self.kernel.version),
                remedy: VIRTUAL_TIME_ADVICE.into(),
            });
        }
        if self.command.is_empty() {
            return Err(GuestError::Usage("name a command after `--`: senesce vm run -- uname -r".into()));
        }
        if self.memory < Bytes::mib(256) {
            return Err(GuestError::Usage(format!(
                "--memory {} is too small for a guest; give at least 256M",
                self.memory
            )));
        }
        let available = machine::memory_available().unwrap_or(Bytes(u64::MAX / 2));
        if self.memory.0 + Bytes::mib(300).0 > available.0 {
            return Err(GuestError::Missing {
                what: format!(
                    "the guest needs {} and 300 MiB for QEMU, but the host has {available} available",
                    self.memory
                ),
                remedy: "give less with --memory".into(),
            });
        }
        if self.accelerator == Some(Accelerator::Kvm)
            && let Some(what) = kvm_refused()
        {
            return Err(GuestError::Missing { what, remedy: "or leave out --accelerator kvm".into() });
        }
        if let Some(share) = self.shares.iter().find(|share| !share.is_dir()) {
            return Err(GuestError::Usage(format!("folder {} for the guest's writes not found", share.display())));
        }
        if self.drives.first().is_some_and(|drive| drive.same_controller) {
            let message = "--drive: the first drive needs its own controller; use controller=same only for later ones";
            return Err(GuestError::Usage(message.into()));
        }
        space::check(&self.growth()?)
    }

    /// Returns the maximum growth of the images of the drives, by location.
    fn growth(&self) -> Result<Vec<Growth>, GuestError> {
        let kept = self.keep.growth(&self.drives)?;
        // The first conventional drives are kept.
        let mut to_keep = kept.len();
        let is_scratch = |drive: &&Drive| {
            let keeps = drive.kind == DriveKind::Nvme && to_keep > 0;
            to_keep -= usize::from(keeps);
            !keeps
        };
        let scratch = self.drives.iter().filter(is_scratch).map(|drive| drive.size.0).sum();
        let temporary = Growth {
            folder: std::env::temp_dir(),
            bytes: scratch,
            remedy: "set TMPDIR to a directory with more space",
        };
        let of_kept =
            |(folder, bytes)| Growth { folder, bytes, remedy: "name a path with more space with --keep-drive" };
        Ok(std::iter::once(temporary).chain(kept.into_iter().map(of_kept)).collect())
    }

    fn probe(&self, work: &Path, errors: &mut dyn Write) -> Result<Accelerator, GuestError> {
        let initramfs = work.join("probe.initramfs");
        initramfs::write(&initramfs, &self.kernel, &Job { probe: true, ..Job::default() })?;
        probe_accelerator(&self.kernel, &initramfs, work, &mut |message| {
            let _ = writeln!(errors, "senesce: {message}");
        })
    }

    fn job(&self, accelerator: Accelerator) -> Result<Job, GuestError> {
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/sbin:/usr/bin:/sbin:/bin".into());
        let mut environment: Vec<(String, String)> = ["HOME", "LANG", "USER", "XDG_CACHE_HOME", "RUST_BACKTRACE"]
            .iter()
            .filter_map(|name| std::env::var(name).ok().map(|value| ((*name).to_string(), value)))
            .collect();
        environment.push(("PATH".into(), format!("{CONTROL}/{PROGRAMS}:{path}")));
        environment.push((machine::GUEST.into(), accelerator.word().into()));
        environment.push((machine::GUEST_KERNEL.into(), self.kernel.version.clone()));
        // Their lengths are always the same: layouts in virtual time must not depend on them.
        environment.push((machine::GUEST_DATE.into(), date_of(SystemTime::now())));
        let random = random_for_guest().map_err(io_error("draw random bits for", &self.kernel.folder))?;
        environment.push((machine::GUEST_RANDOM.into(), random));
        let shares = self.shares.iter().enumerate().map(|(number, path)| (format!("share{number}"), path.clone()));
        Ok(Job {
            probe: false,
            command: self.command.clone(),
            directory: std::env::current_dir().unwrap_or_else(|_| "/".into()),
            environment,
            user_mode: self.kernel.is_user_mode(),
            shares: [(CONTROL_TAG.to_string(), PathBuf::from(CONTROL))].into_iter().chain(shares).collect(),
            boot_modules: uml::MODULES.into(),
            host_tree: None,
            fixed_entropy: self.time.is_virtual(),
            programs_first: self.time == GuestTime::Still,
            sync: !self.keep.files.is_empty(),
        })
    }

    fn machine<'a>(
        &'a self,
        prepared: &'a PreparedGuest,
        initramfs: &'a Path,
        control: &Path,
    ) -> Result<Machine<'a>, GuestError> {
        let PreparedGuest { scratch, accelerator, kept, .. } = prepared;
        let mut drives = Vec::new();
        for (number, drive) in self.drives.iter().enumerate() {
            drives.push((drive, image(scratch, number, drive, kept.get(&number))?));
        }
        let mut shares =
            vec![("root".to_string(), PathBuf::from("/"), false), (CONTROL_TAG.to_string(), control.into(), true)];
        for (number, share) in self.shares.iter().enumerate() {
            shares.push((format!("share{number}"), share.clone(), true));
        }
        Ok(Machine {
            kernel: &self.kernel,
            initramfs,
            memory_mib: self.memory.0 >> 20,
            cpus: self.cpus,
            accelerator: *accelerator,
            console: scratch.console(),
            shares,
            drives,
        })
    }
}

fn scratch_image(scratch: &Scratch, number: usize, drive: &Drive) -> Result<PathBuf, GuestError> {
    let file = scratch.path().join(format!("drive{number}"));
    let open = File::create(&file).map_err(scratch_error("create drive", &file))?;
    open.set_len(drive.size.0).map_err(scratch_error("size drive", &file))?;
    Ok(file)
}

fn image(scratch: &Scratch, number: usize, drive: &Drive, kept: Option<&KeptDrive>) -> Result<Image, GuestError> {
    let scratch = || scratch_image(scratch, number, drive);
    let Some(latency) = drive.latency else {
        return Ok(match kept {
            Some(kept) => Image::Kept(kept.as_fd().as_raw_fd()),
            None => Image::Scratch(scratch()?),
        });
    };
    let path = PathBuf::from(format!("drive{number}"));
    let content = match kept {
        Some(kept) => kept.as_fd().try_clone_to_owned().map(File::from),
        None => File::options().read(true).write(true).open(scratch()?),
    };
    let serve = |content| SlowDrive::serve(content, drive.size, latency.0);
    let slow = content.and_then(serve).map_err(io_error("serve", path))?;
    Ok(Image::Slow(slow, kept.is_some()))
}

#[cfg(test)]
mod tests;
