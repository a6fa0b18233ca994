//! The QEMU process: its arguments, and whether KVM boots.

use crate::drive::{Drive, DriveKind};
use crate::error::{GuestError, io_error, scratch_error};
use crate::kernel::{Kernel, cache_folder};
use crate::slow_drive::SlowDrive;
use senesce_core::machine::host_user_parameter;
use senesce_core::output::NewFile;
use senesce_volume::guest::{SERIAL, SERIAL_OF_KEPT};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const QEMU: &str = "qemu-system-x86_64";

/// Execution of the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// By the processor.
    Kvm,
    /// By translation: correct, several times slower, with latencies of the emulator.
    Tcg,
    /// By a kernel that is a program of the host: user-mode Linux.
    Uml,
}

impl Accelerator {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
            Self::Uml => "uml",
        }
    }
}

pub(crate) struct Machine<'a> {
    pub kernel: &'a Kernel,
    pub initramfs: &'a Path,
    pub memory_mib: u64,
    pub cpus: u32,
    pub accelerator: Accelerator,
    pub console: &'a Path,
    /// Shared folders: tag, path, whether the guest may write.
    pub shares: Vec<(String, PathBuf, bool)>,
    pub drives: Vec<(&'a Drive, Image)>,
}

#[derive(Debug)]
pub(crate) enum Image {
    Scratch(PathBuf),
    /// An open file that is kept. QEMU gets the descriptor, because its name could refer to another file by then.
    Kept(RawFd),
    /// A file served with a time per request, and whether it is kept.
    Slow(SlowDrive, bool),
}

impl Image {
    fn source(&self) -> String {
        match self {
            Self::Scratch(path) => format!("file={},aio=threads", escape(path)),
            Self::Kept(descriptor) => format!("file=/proc/self/fd/{descriptor},aio=threads"),
            Self::Slow(slow, _) => {
                format!("file.driver=nbd,file.server.type=fd,file.server.str={}", slow.descriptor())
            }
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        match self {
            Self::Scratch(_) => None,
            Self::Kept(descriptor) => Some(*descriptor),
            Self::Slow(slow, _) => Some(slow.descriptor()),
        }
    }

    fn stays(&self) -> bool {
        matches!(self, Self::Kept(_) | Self::Slow(_, true))
    }
}

impl Machine<'_> {
    /// Starts QEMU. The kernel kills it when the calling thread ends, so call this from the main thread.
    pub(crate) fn start(&self) -> Result<Child, GuestError> {
        let errors = self.console.with_extension("qemu");
        let log = File::create(&errors).map_err(scratch_error("create", &errors))?;
        let mut command = Command::new(QEMU);
        command.args(self.arguments()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let passed: Vec<RawFd> = self.drives.iter().filter_map(|(_, image)| image.descriptor()).collect();
        senesce_sys::process::ends_with_parent(&mut command);
        // SAFETY: fcntl is async-signal-safe and touches no memory of the parent.
        unsafe {
            command.pre_exec(move || {
                for descriptor in &passed {
                    libc::fcntl(*descriptor, libc::F_SETFD, 0);
                }
                Ok(())
            });
        }
        command.spawn().map_err(|error| GuestError::Missing {
            what: format!("{QEMU} cannot be run ({error})"),
            remedy: "apt-get install qemu-system-x86, or as root: senesce vm setup --engine qemu".into(),
        })
    }

    fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> =
            ["-M", "q35", "-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot", "-no-user-config"]
                .map(str::to_string)
                .to_vec();
        let mut pair = |flag: &str, value: String| words.extend([flag.to_string(), value]);
        pair("-serial", format!("file:{}", self.console.display()));
        pair("-m", self.memory_mib.to_string());
        pair("-smp", self.cpus.to_string());
        match self.accelerator {
            Accelerator::Kvm => {
                pair("-accel", "kvm".into());
                pair("-cpu", "host".into());
            }
            Accelerator::Tcg | Accelerator::Uml => {
                // QEMU's default for translated code, up to 1 GiB, would add too much to the guest's memory.
                pair("-accel", "tcg,thread=multi,tb-size=160".into());
                pair("-cpu", "max".into());
            }
        }
        pair("-kernel", self.kernel.image().display().to_string());
        pair("-initrd", self.initramfs.display().to_string());
        // A busy host delivers ticks too late for the kernel's timer check, which then panics (kernel-parameters.txt,
        // no_timer_check).
        let parameters =
            "console=ttyS0 panic=-1 quiet no_timer_check mitigations=off nokaslr raid=noautodetect random.trust_cpu=on";
        let user = host_user_parameter();
        pair("-append", std::iter::once(parameters).chain(user.as_deref()).collect::<Vec<_>>().join(" "));
        for (tag, path, writable) in &self.shares {
            let access = if *writable { "" } else { ",readonly=on" };
            pair(
                "-virtfs",
                format!("local,path={},mount_tag={tag},security_model=none,multidevs=remap{access}", escape(path)),
            );
        }
        let (mut controller, mut namespaces) = (0, 0);
        for (number, (drive, image)) in self.drives.iter().enumerate() {
            let name = format!("{}{number}", drive.word());
            // Flushes need not reach the host's disk: an image is deleted with the guest, or synced at its end.
            pair("-drive", format!("{},id={name},format=raw,if=none,cache=unsafe,discard=unmap", image.source()));
            if !drive.same_controller {
                (controller, namespaces) = (number, 0);
                pair("-device", format!("nvme,serial={}{name},id=ctrl{number}", self.serial(number)));
            }
            namespaces += 1;
            let place = format!("bus=ctrl{controller},nsid={namespaces}");
            pair("-device", format!("nvme-ns,drive={name},{place},{}", namespace(drive)));
        }
        words
    }
}

impl Machine<'_> {
    /// Returns the prefix of the serial number of the drive's controller, shared by all its namespaces.
    fn serial(&self, number: usize) -> &'static str {
        let others = self.drives[number + 1..].iter().take_while(|(drive, _)| drive.same_controller);
        let mut namespaces = std::iter::once(&self.drives[number]).chain(others);
        if namespaces.any(|(_, image)| image.stays()) { SERIAL_OF_KEPT } else { SERIAL }
    }
}

fn namespace(drive: &Drive) -> String {
    let blocks = format!("logical_block_size={0},physical_block_size={0}", drive.lba);
    match &drive.kind {
        DriveKind::Nvme => blocks,
        DriveKind::Zns { zone, capacity, open, active } => format!(
            "{blocks},zoned=true,zoned.zone_size={},zoned.zone_capacity={},zoned.max_open={open},zoned.max_active={active}",
            zone.0, capacity.0
        ),
    }
}

/// Doubles commas, as QEMU's option syntax requires inside values.
fn escape(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// Maximum time for a KVM guest to boot and power off; otherwise KVM counts as broken.
const PROBE_LIMIT: Duration = Duration::from_secs(6);

const KVM: &str = "/dev/kvm";

/// Returns the reason and remedy if this process cannot open `/dev/kvm`; otherwise `None`.
pub(crate) fn kvm_refused() -> Option<String> {
    let error = File::options().read(true).write(true).open(KVM).err()?;
    let remedy = match error.kind() {
        std::io::ErrorKind::NotFound => "enable virtualization in the firmware and load kvm_intel or kvm_amd",
        _ => "as root: usermod -aG kvm USER, then log in again",
    };
    Some(format!("{KVM} cannot be used: {}; {remedy}", senesce_core::failure::errno_message(&error)))
}

/// Checks whether KVM boots here, and caches the answer per host kernel. `initramfs` must power off immediately. A
/// fallback to translation is reported the first time, and always when the user can fix it.
///
/// # Errors
/// QEMU cannot be started. A failed boot under KVM is an answer, not an error.
pub(crate) fn probe_accelerator(
    kernel: &Kernel,
    initramfs: &Path,
    work: &Path,
    announce: &mut dyn FnMut(&str),
) -> Result<Accelerator, GuestError> {
    if !Path::new(KVM).exists() {
        return Ok(Accelerator::Tcg);
    }
    if let Some(why) = kvm_refused() {
        announce(&format!("{why}; until then QEMU translates the guest's instructions, which is slower"));
        return Ok(Accelerator::Tcg);
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cache = cache_folder()?.join(format!("accelerator-{}", release.trim()));
    match fs::read_to_string(&cache).as_deref() {
        Ok("kvm") => return Ok(Accelerator::Kvm),
        Ok("tcg") => return Ok(Accelerator::Tcg),
        _ => {}
    }
    let console = work.join("probe.console");
    let machine = Machine {
        kernel,
        initramfs,
        memory_mib: 256,
        cpus: 1,
        accelerator: Accelerator::Kvm,
        console: &console,
        shares: Vec::new(),
        drives: Vec::new(),
    };
    let works = boots(machine.start()?);
    let found = if works { Accelerator::Kvm } else { Accelerator::Tcg };
    if !works {
        announce(&format!(
            "a guest under {KVM} did not boot within {} s: QEMU translates its instructions, which is slower; remove \
             {} to try KVM again",
            PROBE_LIMIT.as_secs(),
            cache.display()
        ));
    }
    remember(&cache, found.word()).map_err(io_error("write", &cache))?;
    Ok(found)
}

/// Writes a word to the cache. The cache belongs to the user, and this may run as root: a link there is replaced, not
/// followed.
fn remember(path: &Path, word: &str) -> io::Result<()> {
    let new = NewFile::next_to(path)?;
    new.file().write_all(word.as_bytes())?;
    new.replace()
}

fn boots(mut child: Child) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < PROBE_LIMIT {
        if let Ok(Some(status)) = child.try_wait() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

pub fn version() -> Option<String> {
    let output = Command::new(QEMU).arg("--version").output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_string)
}

/// Installs QEMU with apt as root on a Debian system; otherwise names the package.
///
/// # Errors
/// This is not a Debian system, the user is not root, or apt fails.
pub fn install(announce: &dyn Fn(&str)) -> Result<(), GuestError> {
    if version().is_some() {
        return Ok(());
    }
    let missing =
        |what: &str| GuestError::Missing { what: what.into(), remedy: "apt-get install qemu-system-x86".into() };
    if !senesce_core::environment::is_root() {
        return Err(missing("QEMU is not installed"));
    }
    announce("installing qemu-system-x86");
    let words = ["install", "-y", "-qq", "--no-install-recommends", "qemu-system-x86"];
    let mut command = Command::new("apt-get");
    command.args(words).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(missing("QEMU could not be installed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_and_scratch_drives_differ() {
        let drives = ["nvme", "nvme", "nvme,controller=same", "nvme"].map(|text| Drive::parse(text).unwrap());
        let images = [Image::Kept(7), Image::Scratch("/a".into()), Image::Kept(8), Image::Scratch("/b,c".into())];
        let kernel = Kernel { version: "6.1".into(), folder: "/k".into() };
        let machine = Machine {
            kernel: &kernel,
            initramfs: Path::new("/i"),
            memory_mib: 256,
            cpus: 1,
            accelerator: Accelerator::Tcg,
            console: Path::new("/c"),
            shares: Vec::new(),
            drives: drives.iter().zip(images).collect(),
        };
        let words = machine.arguments();
        let with = |beginning: &str| -> Vec<&str> {
            words
                .iter()
                .filter_map(|word| word.strip_prefix(beginning)?.split(",id").next()?.split(",aio").next())
                .collect()
        };
        assert_eq!(with("nvme,serial="), ["senesce-kept-nvme0", "senesce-kept-nvme1", "senesce-nvme3"]);
        assert_eq!(with("file="), ["/proc/self/fd/7", "/a", "/proc/self/fd/8", "/b,,c"]);
    }

    #[test]
    fn zoned_namespace_has_its_limits() {
        let drive = Drive::parse("zns,size=1G,zone=64M,cap=62M,open=14,active=14").unwrap();
        let text = namespace(&drive);
        assert!(text.contains("zoned.zone_capacity=65011712"), "{text}");
        assert!(text.contains("zoned.max_active=14"), "{text}");
        assert_eq!(escape(Path::new("/a,b")), "/a,,b");
    }
}
