//! One run of a command in a guest, from boot to exit status.

use crate::drive::Drive;
use crate::error::{LabError, io_error};
use crate::guest::{CONTROL, Job};
use crate::initramfs;
use crate::kernel::Kernel;
use crate::qemu::{Accelerator, Machine, probe_accelerator};
use crate::scratch::Scratch;
use senesce_core::Bytes;
use senesce_core::interrupt::Interrupt;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// What is to be run and on what.
#[derive(Debug, Clone)]
pub struct LabRun {
    /// The kernel.
    pub kernel: Kernel,
    /// Drives to emulate.
    pub drives: Vec<Drive>,
    /// Guest memory.
    pub memory: Bytes,
    /// Virtual processors.
    pub cpus: u32,
    /// Force an accelerator instead of probing.
    pub accelerator: Option<Accelerator>,
    /// The command.
    pub command: Vec<String>,
    /// Folders of the host that the guest may write, seen at the same paths.
    pub shares: Vec<PathBuf>,
    /// Ends the guest after this long.
    pub time_limit: Option<Duration>,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct LabOutcome {
    /// Seconds from start to the command's first instruction.
    pub boot_seconds: f64,
    /// Seconds from start to the end of the guest.
    pub total_seconds: f64,
    /// The command's exit status.
    pub exit_status: u8,
    /// How the guest ran.
    pub accelerator: Accelerator,
    /// The guest's kernel release.
    pub kernel: String,
    /// Its drives.
    pub drives: Vec<Drive>,
}

const POLL: Duration = Duration::from_millis(10);

/// A boot takes seconds, on a crowded machine a minute; one that takes longer hangs.
const BOOT_LIMIT: Duration = Duration::from_secs(180);

impl LabRun {
    /// Boots, runs, forwards the command's output to `out` and `errors`, and returns its exit status.
    pub fn run(
        &self,
        interrupt: &Interrupt,
        out: &mut dyn Write,
        errors: &mut dyn Write,
    ) -> Result<LabOutcome, LabError> {
        self.check()?;
        let scratch = Scratch::new()?;
        let accelerator = match self.accelerator {
            Some(chosen) => chosen,
            None => self.probe(scratch.path())?,
        };
        match self.boot(&scratch, accelerator, interrupt, out, errors) {
            // Emulated processors crash now and then while they start; nothing has happened in such a guest.
            Err(LabError::Guest { what, .. }) if what.contains("panic") && !started(&scratch) => {
                let _ = writeln!(errors, "senesce: the guest {what} before it started the command; booted once more");
                self.boot(&scratch, accelerator, interrupt, out, errors)
            }
            ended => ended,
        }
    }

    fn boot(
        &self,
        scratch: &Scratch,
        accelerator: Accelerator,
        interrupt: &Interrupt,
        out: &mut dyn Write,
        errors: &mut dyn Write,
    ) -> Result<LabOutcome, LabError> {
        let control = scratch.control();
        self.prepare_control(&control)?;
        let initramfs = scratch.path().join("initramfs");
        initramfs::write(&initramfs, &self.kernel, &self.job(accelerator))?;
        let machine = self.machine(scratch, &initramfs, accelerator, &control)?;
        let begin = Instant::now();
        let child = machine.start()?;
        let mut watched = Watched { child, control: &control, console: machine.console, begin, boot_seconds: None };
        let ended = watched.watch(interrupt, self.time_limit, out, errors);
        let _ = watched.child.kill();
        let _ = watched.child.wait();
        ended?;
        let exit_status = read_exit(&control, machine.console)?;
        Ok(LabOutcome {
            boot_seconds: watched.boot_seconds.unwrap_or_else(|| begin.elapsed().as_secs_f64()),
            total_seconds: begin.elapsed().as_secs_f64(),
            exit_status,
            accelerator,
            kernel: self.kernel.version.clone(),
            drives: self.drives.clone(),
        })
    }

    fn check(&self) -> Result<(), LabError> {
        if self.command.is_empty() {
            return Err(LabError::Usage("name a command after `--`: senesce lab run -- uname -r".into()));
        }
        if self.memory < Bytes::mib(256) {
            return Err(LabError::Usage(format!(
                "--memory {} is too small for a guest; give at least 256M",
                self.memory
            )));
        }
        let available = memory_available();
        if self.memory.0 + Bytes::mib(300).0 > available.0 {
            return Err(LabError::Missing {
                what: format!(
                    "the guest needs {} and 300 MiB for QEMU, the host has {available} available",
                    self.memory
                ),
                remedy: "give less with --memory".into(),
            });
        }
        if self.accelerator == Some(Accelerator::Kvm)
            && let Err(error) = File::options().read(true).write(true).open("/dev/kvm")
        {
            return Err(LabError::Missing {
                what: format!("/dev/kvm cannot be used ({error})"),
                remedy: "let yourself into the group kvm, or leave out --accelerator kvm".into(),
            });
        }
        let wanted: u64 = self.drives.iter().map(|drive| drive.size.0).sum();
        let place = std::env::temp_dir();
        let free = rustix::fs::statvfs(&place)
            .map(|stat| stat.f_bavail * stat.f_frsize)
            .map_err(|errno| io_error("look at", &place)(errno.into()))?;
        if wanted > free {
            return Err(LabError::Missing {
                what: format!("the drives take {}, {} has {} free", Bytes(wanted), place.display(), Bytes(free)),
                remedy: "make them smaller, or set TMPDIR to a larger place".into(),
            });
        }
        Ok(())
    }

    fn probe(&self, work: &Path) -> Result<Accelerator, LabError> {
        let initramfs = work.join("probe.initramfs");
        initramfs::write(&initramfs, &self.kernel, &Job { probe: true, ..Job::default() })?;
        probe_accelerator(&self.kernel, &initramfs, work)
    }

    fn job(&self, accelerator: Accelerator) -> Job {
        let own = std::env::current_exe().ok().and_then(|path| path.parent().map(|p| p.display().to_string()));
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/sbin:/usr/bin:/sbin:/bin".into());
        let mut environment: Vec<(String, String)> = ["HOME", "LANG", "USER", "XDG_CACHE_HOME", "RUST_BACKTRACE"]
            .iter()
            .filter_map(|name| std::env::var(name).ok().map(|value| ((*name).to_string(), value)))
            .collect();
        environment.push(("PATH".into(), own.map_or(path.clone(), |own| format!("{own}:{path}"))));
        environment.push(("SENESCE_LAB".into(), accelerator.word().into()));
        let shares = self.shares.iter().enumerate().map(|(number, path)| (format!("share{number}"), path.clone()));
        Job {
            probe: false,
            command: self.command.clone(),
            directory: std::env::current_dir().unwrap_or_else(|_| "/".into()),
            environment,
            shares: [("control".to_string(), PathBuf::from(CONTROL))].into_iter().chain(shares).collect(),
            modules: self.kernel.modules(),
        }
    }

    fn prepare_control(&self, control: &Path) -> Result<(), LabError> {
        let _ = fs::remove_dir_all(control);
        fs::create_dir_all(control).map_err(io_error("make folder", control))?;
        let link = |target: &Path, name: &str| {
            std::os::unix::fs::symlink(target, control.join(name)).map_err(io_error("link", control.join(name)))
        };
        let program = std::env::current_exe().map_err(io_error("find", "/proc/self/exe"))?;
        link(&program, "modprobe")?;
        link(&self.kernel.modules(), "modules")?;
        link(&self.kernel.folder.join("modules.json"), "modules.json")
    }

    fn machine<'a>(
        &'a self,
        scratch: &'a Scratch,
        initramfs: &'a Path,
        accelerator: Accelerator,
        control: &Path,
    ) -> Result<Machine<'a>, LabError> {
        let mut drives = Vec::new();
        for (number, drive) in self.drives.iter().enumerate() {
            let file = scratch.path().join(format!("drive{number}"));
            let open = File::create(&file).map_err(io_error("create drive", &file))?;
            open.set_len(drive.size.0).map_err(io_error("size drive", &file))?;
            drives.push((drive, file));
        }
        let mut shares =
            vec![("root".to_string(), PathBuf::from("/"), false), ("control".to_string(), control.into(), true)];
        for (number, share) in self.shares.iter().enumerate() {
            fs::create_dir_all(share).map_err(io_error("make folder", share))?;
            shares.push((format!("share{number}"), share.clone(), true));
        }
        Ok(Machine {
            kernel: &self.kernel,
            initramfs,
            memory_mib: self.memory.0 >> 20,
            cpus: self.cpus,
            accelerator,
            console: scratch.console(),
            shares,
            drives,
        })
    }
}

struct Watched<'a> {
    child: Child,
    control: &'a Path,
    console: &'a Path,
    begin: Instant,
    boot_seconds: Option<f64>,
}

impl Watched<'_> {
    fn watch(
        &mut self,
        interrupt: &Interrupt,
        limit: Option<Duration>,
        out: &mut dyn Write,
        errors: &mut dyn Write,
    ) -> Result<(), LabError> {
        let mut streams = [Tail::new(self.control.join("stdout"), out), Tail::new(self.control.join("stderr"), errors)];
        loop {
            if self.boot_seconds.is_none() && self.control.join("started").exists() {
                self.boot_seconds = Some(self.begin.elapsed().as_secs_f64());
            }
            let ended = self.child.try_wait().map_err(io_error("wait for", crate::qemu::QEMU))?.is_some();
            let reported = self.control.join("exit").exists();
            streams.iter_mut().try_for_each(Tail::forward)?;
            if ended || reported {
                return streams.iter_mut().try_for_each(Tail::forward);
            }
            if interrupt.requested() {
                return Err(LabError::Interrupted);
            }
            self.check_limits(limit)?;
            std::thread::sleep(POLL);
        }
    }

    fn check_limits(&self, limit: Option<Duration>) -> Result<(), LabError> {
        let late = |limit: &Duration| self.begin.elapsed() > *limit;
        let error = |what: String, remedy: &str| {
            Err(LabError::Guest { what, console: last_lines(&said(self.console)), remedy: remedy.into() })
        };
        if let Some(limit) = limit.filter(late) {
            let what = format!("did not end within {:.0} s and was ended", limit.as_secs_f64());
            return error(what, "give it more time with --time-limit");
        }
        if self.boot_seconds.is_none() && late(&BOOT_LIMIT) {
            let what = format!("did not boot within {} s and was ended", BOOT_LIMIT.as_secs());
            return error(what, "try --accelerator tcg, or another kernel with --kernel RELEASE");
        }
        Ok(())
    }
}

struct Tail<'a> {
    path: PathBuf,
    file: Option<File>,
    at: u64,
    to: &'a mut dyn Write,
}

impl<'a> Tail<'a> {
    fn new(path: PathBuf, to: &'a mut dyn Write) -> Self {
        Self { path, file: None, at: 0, to }
    }

    fn forward(&mut self) -> Result<(), LabError> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let wrong = || io_error("forward", &self.path);
        file.seek(SeekFrom::Start(self.at)).map_err(wrong())?;
        let copied = io::copy(&mut file.take(1 << 20), self.to).map_err(wrong())?;
        self.at += copied;
        if copied > 0 {
            self.to.flush().map_err(wrong())?;
        }
        Ok(())
    }
}

fn started(scratch: &Scratch) -> bool {
    scratch.control().join("started").exists()
}

/// The command's exit status, or why there is none.
fn read_exit(control: &Path, console: &Path) -> Result<u8, LabError> {
    let said = said(console);
    // The kernel's own words; a limit that a command set itself reads "Memory cgroup out of memory".
    let out_of_memory = said.lines().any(|line| line.contains("Out of memory") && !line.contains("cgroup"));
    let started = control.join("started").exists();
    let status = fs::read_to_string(control.join("exit")).ok().filter(|_| started);
    let status = status.and_then(|text| text.trim().parse::<u8>().ok());
    let panic = said.lines().find_map(|line| line.find("Kernel panic").map(|at| &line[at..]));
    let (what, remedy) = match (status, panic) {
        (Some(status), _) if status == 0 || !out_of_memory => return Ok(status),
        _ if out_of_memory => ("ran out of memory".into(), "give it more with --memory"),
        (_, Some(words)) => (
            format!("panicked ({words})"),
            "if the command did not ask for it, try another kernel: senesce lab setup --kernel FILE --modules DIR",
        ),
        _ if !started => ("could not start the command".into(), "`senesce lab status` says what is set up"),
        _ => ("ended before the command did".into(), "`senesce lab status` says what is set up"),
    };
    Err(LabError::Guest { what, console: last_lines(&said), remedy: remedy.into() })
}

/// What the guest's console and QEMU itself printed.
fn said(console: &Path) -> String {
    let mut said = fs::read(console).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    said.push_str(&fs::read_to_string(console.with_extension("qemu")).unwrap_or_default());
    said
}

fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

fn memory_available() -> Bytes {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Bytes(kib.map_or(u64::MAX / 2, |kib| kib << 10))
}
