//! User-mode Linux: the guest's kernel is an ordinary program of the host (Documentation/virt/uml of the kernel). It needs no
//! root, no KVM and no drives. Its file `/` is what [`confine`] shows to it.

mod confine;
mod kernel;
pub(crate) mod userland;

pub(crate) use confine::{CANNOT_CONFINE, enter_if_confined};
pub use kernel::{build, fetch};

use crate::error::{GuestError, scratch_error};
use crate::guest::Job;
use crate::kernel::Kernel;
use confine::{Confinement, Shown};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Path of the kernel in the guest's tree.
const KERNEL: &str = "/guest/linux";

/// Clock of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GuestTime {
    /// That of the host.
    #[default]
    Real,
    /// Processing takes no time. If the guest is idle, its clock goes to the next timer.
    Virtual,
}

/// The error of a kernel that was not started, from its console.
pub(crate) fn cannot_confine(console: &Path) -> GuestError {
    let text = fs::read_to_string(console).unwrap_or_default();
    let last = text.lines().last().unwrap_or("cannot confine the user-mode kernel");
    GuestError::Missing {
        what: last.trim_start_matches("senesce: ").into(),
        remedy:
            "allow user namespaces (sysctl user.max_user_namespaces; a chroot cannot make them), or use --engine qemu"
                .into(),
    }
}

/// The working directory, which the guest may read. The root would show everything.
pub(crate) fn readable_directory(directory: &Path) -> Option<PathBuf> {
    (directory != Path::new("/") && directory.is_dir()).then(|| directory.to_path_buf())
}

/// # Errors
/// The processor is not one of x86-64.
fn check_processor() -> Result<(), GuestError> {
    if cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    Err(GuestError::Missing {
        what: "user-mode Linux exists for x86-64 only".into(),
        remedy: "senesce vm setup --engine qemu".into(),
    })
}

pub(crate) struct UmlMachine<'a> {
    pub kernel: &'a Kernel,
    pub job: &'a Job,
    pub memory_mib: u64,
    pub time: GuestTime,
    pub console: &'a Path,
    /// Folders of the host that the guest may write: path on the host, and in the guest.
    pub shares: Vec<(PathBuf, PathBuf)>,
    /// Files and folders that it may read, at the same paths.
    pub readable: Vec<PathBuf>,
}

impl UmlMachine<'_> {
    /// Starts the kernel. It ends with the calling thread, so call this from the main thread.
    pub(crate) fn start(&self, scratch: &Path) -> Result<Child, GuestError> {
        let root = scratch.join("tree");
        fs::create_dir_all(&root).map_err(scratch_error("make folder", &root))?;
        let confinement = Confinement {
            root,
            shown: self.shown(),
            files: vec![(crate::guest::JOB.into(), serde_json::to_string(self.job).unwrap_or_default())],
            kernel: self.arguments(),
            deterministic: self.time == GuestTime::Virtual,
        };
        let config = scratch.join("confinement.json");
        let text = serde_json::to_vec(&confinement).unwrap_or_default();
        fs::write(&config, text).map_err(scratch_error("write", &config))?;
        let log = File::create(self.console).map_err(scratch_error("create", self.console))?;
        let errors = log.try_clone().map_err(scratch_error("open", self.console))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(confine::FIRST).arg(&config).env_clear();
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        senesce_sys::process::ends_with_parent(&mut command);
        command.spawn().map_err(|error| GuestError::Missing {
            what: format!("the user-mode kernel cannot be started ({error})"),
            remedy: "senesce doctor".into(),
        })
    }

    fn shown(&self) -> Vec<Shown> {
        let read = |path: &PathBuf| Shown { from: path.clone(), to: path.clone(), writable: false };
        let kernel = Shown { from: self.kernel.image(), to: KERNEL.into(), writable: false };
        let modules = Shown { from: self.kernel.folder.join("boot"), to: "/guest/modules".into(), writable: false };
        let write = |(from, to): &(PathBuf, PathBuf)| Shown { from: from.clone(), to: to.clone(), writable: true };
        let readable = self.readable.iter().map(read);
        readable.chain([kernel, modules]).chain(self.shares.iter().map(write)).collect()
    }

    fn arguments(&self) -> Vec<String> {
        let mut words = vec![
            KERNEL.to_string(),
            format!("mem={}M", self.memory_mib),
            "root=/dev/root".into(),
            "rootfstype=hostfs".into(),
            "rootflags=/".into(),
            "ro".into(),
            format!("init={}", confine::PROGRAM),
            "con=null".into(),
            "con0=null,fd:1".into(),
            "ssl=null".into(),
            "panic=-1".into(),
            "quiet".into(),
        ];
        if self.time == GuestTime::Virtual {
            // A fixed start, so that equal runs have equal times: 2026-01-01.
            words.extend(["time-travel=inf-cpu".into(), "time-travel-start=1767225600".into()]);
        }
        words
    }
}
