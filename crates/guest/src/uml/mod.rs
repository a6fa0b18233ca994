//! User-mode Linux: the guest's kernel is an ordinary program of the host (Documentation/virt/uml of the kernel). It needs no
//! root, no KVM and no drives. Its file `/` is what [`confine`] shows to it.

mod changes;
mod confine;
mod kernel;
mod landlock;
mod objects;
mod other_user;
mod processor;
mod start;
mod tree;
pub(crate) mod userland;
mod view;

pub(crate) use confine::{CANNOT_CONFINE, Method, enter_if_confined};
pub use kernel::{BUILD_PROGRAMS, SOURCE_PROGRAMS, build, fetch, of_tree};
pub(crate) use start::{Started, start};
pub(crate) use tree::HostTree;
pub use userland::packaged_programs;

use crate::error::{GuestError, scratch_error};
use crate::guest::{JOB, JOB_VARIABLE, Job};
use crate::kernel::Kernel;
use confine::{BindMount, Confinement};
use senesce_core::machine::host_user_parameter;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Path of the kernel in the guest's tree.
const KERNEL: &str = "/guest/linux";
pub(crate) const MODULES: &str = "/guest/modules";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GuestTime {
    /// The clock of the host.
    #[default]
    Real,
    /// Processing takes no time. If the guest is idle, its clock goes to the next timer.
    Virtual,
    /// Virtual, for programs without a pace. Background threads of the kernel run only while programs wait. The fair scheduler would
    /// choose by their past processor time, which differs between builds.
    Still,
}

impl GuestTime {
    pub fn is_virtual(self) -> bool {
        self != Self::Real
    }
}

/// Returns the reason why a kernel was not started, from its console.
pub(crate) fn refusal(console: &Path) -> String {
    let text = fs::read_to_string(console).unwrap_or_default();
    let last = text.lines().last().unwrap_or("cannot confine the user-mode kernel");
    last.trim_start_matches("senesce: cannot confine the user-mode kernel: ").trim().into()
}

/// Returns the method to try after those that were refused, whose reasons are `refusals`.
///
/// # Errors
/// No method is left. A kernel never runs unconfined.
pub(crate) fn method_after(refusals: &[String]) -> Result<Method, GuestError> {
    match refusals {
        [] => Ok(Method::Namespaces),
        [_] => Ok(Method::Landlock),
        reasons => Err(GuestError::Missing {
            what: format!("cannot confine the user-mode kernel: {}", reasons.join("; ")),
            remedy:
                "allow user namespaces (sysctl user.max_user_namespaces; a chroot cannot make them), boot a kernel \
                     with Landlock (Linux 6.7), or use --engine qemu"
                    .into(),
        }),
    }
}

/// Returns the working directory, which the guest may read, unless it is the root. The root would show everything.
pub(crate) fn readable_directory(directory: &Path) -> Option<PathBuf> {
    (directory != Path::new("/") && directory.is_dir()).then(|| directory.to_path_buf())
}

/// Checks that the processor can run user-mode Linux.
///
/// # Errors
/// The processor is not one of x86-64.
pub(crate) fn check_processor() -> Result<(), GuestError> {
    check_architecture(std::env::consts::ARCH)
}

fn check_architecture(name: &str) -> Result<(), GuestError> {
    if name == "x86_64" {
        return Ok(());
    }
    Err(GuestError::Missing {
        what: "user-mode Linux exists for x86-64 only".into(),
        remedy: "senesce vm setup --engine qemu".into(),
    })
}

struct UmlMachine<'a> {
    kernel: &'a Kernel,
    job: &'a Job,
    memory_mib: u64,
    time: GuestTime,
    fixed_addresses: bool,
    processor: Option<usize>,
    console: &'a Path,
    method: Method,
    /// The kernel's folder for the file of its memory.
    temporary: PathBuf,
    /// This program on the host.
    program: PathBuf,
    /// Folders of the host that the guest may write: path on the host, and in the guest.
    shares: Vec<(PathBuf, PathBuf)>,
    /// Files and folders that it may read, at the same paths.
    readable: Vec<PathBuf>,
}

impl UmlMachine<'_> {
    /// Starts the kernel. It ends with the calling thread, so call this from the main thread.
    fn start(&self, scratch: &Path) -> Result<Child, GuestError> {
        let root = scratch.join("tree");
        fs::create_dir_all(&root).map_err(scratch_error("make folder", &root))?;
        let (job, text) = (scratch.join("job.json"), serde_json::to_string(self.job).unwrap_or_default());
        fs::write(&job, &text).map_err(scratch_error("write", &job))?;
        let confinement = Confinement {
            method: self.method,
            root,
            temporary: self.temporary.clone(),
            shown: self.shown(&job),
            files: vec![(JOB.into(), text)],
            kernel: self.arguments(&job)?,
            deterministic: self.time.is_virtual(),
            fixed_addresses: self.fixed_addresses,
            processor: self.processor,
        };
        let config = scratch.join("confinement.json");
        let text = serde_json::to_vec(&confinement).unwrap_or_default();
        fs::write(&config, text).map_err(scratch_error("write", &config))?;
        let log = File::create(self.console).map_err(scratch_error("create", self.console))?;
        let errors = log.try_clone().map_err(scratch_error("open", self.console))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(confine::FIRST).arg(&config).env_clear();
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        match self.method {
            Method::Namespaces => senesce_sys::process::ends_with_parent(&mut command),
            Method::Landlock => senesce_sys::process::terminates_with_parent(&mut command),
        }
        command.spawn().map_err(|error| GuestError::Missing {
            what: format!("the user-mode kernel cannot be started ({error})"),
            remedy: "senesce doctor".into(),
        })
    }

    fn shown(&self, job: &Path) -> Vec<BindMount> {
        let read = |path: &PathBuf| BindMount { from: path.clone(), to: path.clone(), writable: false };
        let kernel = BindMount { from: self.kernel.image(), to: KERNEL.into(), writable: false };
        let modules = BindMount { from: self.kernel.folder.join("boot"), to: MODULES.into(), writable: false };
        let write = |(from, to): &(PathBuf, PathBuf)| BindMount { from: from.clone(), to: to.clone(), writable: true };
        let job = (self.method == Method::Landlock).then(|| read(&job.to_path_buf()));
        let readable = self.readable.iter().map(read).chain(job);
        readable.chain([kernel, modules]).chain(self.shares.iter().map(write)).collect()
    }

    fn arguments(&self, job: &Path) -> Result<Vec<String>, GuestError> {
        let host_kernel = self.kernel.image().to_string_lossy().into_owned();
        let (kernel, program) = match self.method {
            Method::Namespaces => (KERNEL.to_string(), Path::new(confine::PROGRAM)),
            Method::Landlock => (host_kernel, self.program.as_path()),
        };
        let mut words = vec![
            kernel,
            format!("mem={}M", self.memory_mib),
            "root=/dev/root".into(),
            "rootfstype=hostfs".into(),
            "rootflags=/".into(),
            "ro".into(),
            parameter("init", program)?,
            "con=null".into(),
            "con0=null,fd:1".into(),
            "ssl=null".into(),
            "panic=-1".into(),
            "sysctl.kernel.hung_task_panic=1".into(),
            "quiet".into(),
        ];
        if self.method == Method::Landlock {
            words.push(parameter(JOB_VARIABLE, job)?);
            words.extend(host_user_parameter());
        }
        if self.time.is_virtual() {
            // A fixed start, so that equal runs have equal times: 2026-01-01.
            words.extend(["time-travel=inf-cpu".into(), "time-travel-start=1767225600".into()]);
        }
        Ok(words)
    }
}

/// Formats a kernel parameter (Documentation/admin-guide/kernel-parameters.rst). Quotes protect spaces, and nothing
/// protects quotes.
fn parameter(name: &str, path: &Path) -> Result<String, GuestError> {
    match path.to_str().filter(|text| !text.contains(['"', '\n'])) {
        Some(text) if text.contains(char::is_whitespace) => Ok(format!("{name}=\"{text}\"")),
        Some(text) => Ok(format!("{name}={text}")),
        None => Err(GuestError::Usage(format!("a kernel parameter cannot contain the path {}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::failure::{Classify, ExitCode};

    #[test]
    fn kernel_is_refused_after_both_methods() {
        let reasons = ["make namespaces: EPERM".to_string(), "Landlock: not supported".into()];
        assert_eq!(method_after(&[]).unwrap(), Method::Namespaces);
        assert_eq!(method_after(&reasons[..1]).unwrap(), Method::Landlock);
        let refused = method_after(&reasons).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::Missing);
        for part in [&reasons[0], &reasons[1], "max_user_namespaces", "Linux 6.7"] {
            assert!(refused.to_string().contains(part), "{refused}");
        }
    }

    #[test]
    fn other_processors_are_referred_to_qemu() {
        assert!(check_architecture("x86_64").is_ok());
        let Err(GuestError::Missing { remedy, .. }) = check_architecture("aarch64") else { panic!("accepted") };
        assert!(remedy.ends_with("--engine qemu"), "{remedy}");
    }

    #[test]
    fn paths_in_kernel_parameters_are_quoted() {
        assert_eq!(parameter("init", Path::new("/a/b")).unwrap(), "init=/a/b");
        assert_eq!(parameter("init", Path::new("/a b")).unwrap(), "init=\"/a b\"");
        assert!(parameter("init", Path::new("/a\"b")).is_err());
    }
}
