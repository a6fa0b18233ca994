use crate::control::PROGRAMS;
use crate::modules::{ModuleIndex, canonical};
use crate::uml::HostTree;
use rustix::fs::{CWD, FileType, Mode, makedev};
use rustix::mount::{MountFlags, mount};
use senesce_core::virtual_time::DROP_CACHES;
use senesce_volume::guest::CONTROL;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

pub(crate) const JOB: &str = "/guest/job.json";
/// Variable of the kernel's command line with the path of the job, if it is not [`JOB`].
pub(crate) const JOB_VARIABLE: &str = "senesce_job";

/// The task of the guest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Only boot and power off, to probe the accelerator.
    pub probe: bool,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Its working directory.
    pub directory: PathBuf,
    pub environment: Vec<(String, String)>,
    /// Shared folders: tag and path in the guest.
    pub shares: Vec<(String, PathBuf)>,
    /// Folder of the kernel modules to load first.
    pub boot_modules: PathBuf,
    /// Whether the kernel is user-mode Linux, whose root is a tree of the host.
    pub user_mode: bool,
    /// Set if that tree is the host's own root.
    pub host_tree: Option<HostTree>,
    /// Whether every run of the guest has the same random numbers. Its kernel then has no other entropy.
    pub fixed_entropy: bool,
    /// Whether programs run until they wait, before background threads of the kernel.
    pub programs_first: bool,
    /// Whether drives are kept, so that the guest's cache must be written to them.
    pub sync: bool,
}

/// Runs as the guest's first process or as its module loader if this process is one of them; otherwise returns.
pub fn enter_if_guest() {
    crate::uml::enter_if_confined();
    let name = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    if std::process::id() == 1 && job_path().exists() {
        first_process();
    }
    if Path::new(CONTROL).join("modules.json").exists() {
        crate::uml::userland::enter_if_named(&Path::new(CONTROL).join(PROGRAMS));
    }
    let by_the_command = name == Path::new("modprobe") && Path::new(CONTROL).join("modules.json").exists();
    if by_the_command || name == Path::new(CONTROL).join("modprobe") {
        std::process::exit(load_on_demand());
    }
}

fn job_path() -> PathBuf {
    std::env::var_os(JOB_VARIABLE).map_or_else(|| JOB.into(), PathBuf::from)
}

fn first_process() -> ! {
    if let Err(problem) = serve() {
        eprintln!("senesce-guest: {problem}");
        report_exit(125);
    }
    rustix::fs::sync();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
    // Without power management the guest ends by a panic, on which QEMU exits.
    std::process::exit(0);
}

fn serve() -> Result<(), String> {
    let path = job_path();
    let text = fs::read(&path).map_err(|error| format!("read {}: {error}", path.display()))?;
    let job: Job = serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    if job.probe {
        return Ok(());
    }
    load_boot_modules(&job.boot_modules)?;
    match &job.host_tree {
        Some(tree) => tree.enter(),
        None if job.user_mode => enter_shown_tree(),
        None => enter_host_tree(),
    }?;
    mount_rest();
    if job.fixed_entropy {
        seed()?;
        limit_unwritten()?;
        // Dropping caches is not logged: an aging does it at each commit, and its lines would displace warnings.
        fs::write(DROP_CACHES, "4").map_err(|error| format!("write {DROP_CACHES}: {error}"))?;
    }
    // After the file systems in memory: a share may be below /dev/shm or /mnt.
    job.shares.iter().try_for_each(|(tag, path)| match job.user_mode {
        true => attach_shown(tag, path, job.host_tree.as_ref()),
        false => attach_share(tag, path),
    })?;
    make_static_nodes();
    if job.programs_first {
        senesce_sys::deterministic::run_until_waiting().map_err(|errno| format!("set the scheduler: {errno}"))?;
    }
    let status = run_job(&job);
    // Data of background processes in the guest's cache must be in the shares before the guest ends.
    for (_, path) in &job.shares {
        let _ = File::open(path).map(|folder| rustix::fs::syncfs(&folder));
    }
    if job.sync {
        rustix::fs::sync();
    }
    report_exit(status);
    Ok(())
}

fn load_boot_modules(folder: &Path) -> Result<(), String> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).map_err(|error| format!("list modules: {error}"))?.flatten().map(|e| e.path()).collect();
    files.sort();
    files.iter().try_for_each(|file| load(file))
}

fn load(file: &Path) -> Result<(), String> {
    let message = |error: io::Error| format!("load module {}: {error}", file.display());
    let open = File::open(file).map_err(message)?;
    match rustix::system::finit_module(&open, c"", 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(errno) => Err(message(errno.into())),
    }
}

fn enter_host_tree() -> Result<(), String> {
    ["/host", "/memory", "/root"].iter().try_for_each(|folder| folder_at(Path::new(folder)))?;
    attach("9p", "root", "/host", MountFlags::RDONLY, "trans=virtio,version=9p2000.L,msize=512000,cache=loose")?;
    attach("tmpfs", "tmpfs", "/memory", MountFlags::empty(), "size=90%")?;
    enter_overlay()
}

/// Enters the tree like [`enter_host_tree`], but in user-mode Linux, whose root is already the tree of the host.
fn enter_shown_tree() -> Result<(), String> {
    mount("/", "/host", "", MountFlags::BIND, None).map_err(|errno| format!("bind the root: {errno}"))?;
    attach("tmpfs", "tmpfs", "/memory", MountFlags::empty(), "size=90%")?;
    enter_overlay()
}

fn seed() -> Result<(), String> {
    let message = |error: io::Error| format!("seed /dev/random: {error}");
    let random = File::options().write(true).open("/dev/random").map_err(message)?;
    senesce_sys::deterministic::seed_kernel(&random, *b"senesce: the same in every guest")
        .map_err(|errno| message(errno.into()))
}

/// Limits data that is not yet written by shares of the guest's memory. The kernel takes shares of what programs leave free, so that
/// another build of a program would write back at other times, and files lie elsewhere.
fn limit_unwritten() -> Result<(), String> {
    let memory = senesce_sys::memory::total_bytes().ok_or("the memory of the guest is unknown")?;
    // dirty_background_ratio and dirty_ratio are 10 and 20 % by default; about half of the memory holds the image.
    for (name, share) in [("dirty_background_bytes", 20), ("dirty_bytes", 10)] {
        let path = format!("/proc/sys/vm/{name}");
        fs::write(&path, (memory / share).to_string()).map_err(|error| format!("write {path}: {error}"))?;
    }
    Ok(())
}

fn enter_overlay() -> Result<(), String> {
    ["/memory/upper", "/memory/work"].iter().try_for_each(|folder| folder_at(Path::new(folder)))?;
    let data = "lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work";
    // Owners on the host may be others in a user namespace, and a set-user-ID program would run as one of them.
    attach("overlay", "overlay", "/root", MountFlags::NOSUID, data)?;
    enter(Path::new("/root"))
}

pub(crate) fn enter(root: &Path) -> Result<(), String> {
    std::os::unix::fs::chroot(root).map_err(|error| format!("change root: {error}"))?;
    std::env::set_current_dir("/").map_err(|error| format!("enter the root: {error}"))
}

pub(crate) fn folder_at(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("make {}: {error}", path.display()))
}

fn attach_share(tag: &str, path: &Path) -> Result<(), String> {
    folder_at(path)?;
    // Output reaches the host immediately; SQLite and others need mmap in the shares.
    let cache = if path == Path::new(CONTROL) { "none" } else { "mmap" };
    let data = format!("trans=virtio,version=9p2000.L,msize=512000,cache={cache}");
    attach("9p", tag, &path.to_string_lossy(), MountFlags::empty(), &data)
}

/// Mounts a share of user-mode Linux. It has the same path in the kernel's tree, except the control folder in the
/// host's tree. Output reaches the host immediately.
fn attach_shown(tag: &str, path: &Path, tree: Option<&HostTree>) -> Result<(), String> {
    folder_at(path)?;
    let is_control = path == Path::new(CONTROL);
    let sync = if is_control { MountFlags::SYNCHRONOUS } else { MountFlags::empty() };
    let source = tree.filter(|_| is_control).map_or(path, |tree| tree.control.as_path());
    attach("hostfs", tag, &path.to_string_lossy(), sync | MountFlags::NOSUID, &source.to_string_lossy())
}

pub(crate) fn attach(kind: &str, source: &str, place: &str, flags: MountFlags, data: &str) -> Result<(), String> {
    let text = std::ffi::CString::new(data).map_err(|error| error.to_string())?;
    mount(source, place, kind, flags, Some(text.as_c_str()))
        .map_err(|errno| format!("mount {kind} {source} on {place}: {errno}"))
}

fn mount_rest() {
    let wanted = [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/run/lock"),
        ("tmpfs", "/mnt"),
        ("devpts", "/dev/pts"),
        ("tmpfs", "/dev/shm"),
        ("tracefs", "/sys/kernel/tracing"),
        ("debugfs", "/sys/kernel/debug"),
        ("configfs", "/sys/kernel/config"),
        ("cgroup2", "/sys/fs/cgroup"),
    ];
    for (kind, place) in wanted {
        // Directories below /sys appear with their module and are mounted on demand.
        if fs::create_dir_all(place).is_err() {
            continue;
        }
        // Images are created and used there.
        let data = if place == "/dev/shm" { "size=90%" } else { "" };
        if let Err(problem) = attach(kind, kind, place, MountFlags::empty(), data) {
            eprintln!("senesce-guest: {problem}");
        }
    }
    for (name, target) in
        [("/dev/fd", "/proc/self/fd"), ("/dev/stdin", "fd/0"), ("/dev/stdout", "fd/1"), ("/dev/stderr", "fd/2")]
    {
        let _ = std::os::unix::fs::symlink(target, name);
    }
    if let Err(error) = fs::write("/proc/sys/kernel/modprobe", format!("{CONTROL}/modprobe")) {
        eprintln!("senesce-guest: modules on demand: {error}");
    }
}

/// Makes the device files of drivers that are loaded on first use, as in `kmod static-nodes`.
fn make_static_nodes() {
    for (name, major, minor) in module_index().map(|index| index.static_nodes()).unwrap_or_default() {
        let path = Path::new("/dev").join(name);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            let mode = Mode::RUSR | Mode::WUSR;
            Ok(rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, mode, makedev(major, minor))?)
        });
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                eprintln!("senesce-guest: make {}: {error}", path.display());
            }
            _ => {}
        }
    }
}

fn module_index() -> Option<ModuleIndex> {
    serde_json::from_slice(&fs::read(Path::new(CONTROL).join("modules.json")).ok()?).ok()
}

fn run_job(job: &Job) -> u8 {
    let (Ok(out), Ok(errors)) = (create("stdout"), create("stderr")) else { return 125 };
    let mut say = errors.try_clone().ok();
    let Some((program, arguments)) = job.command.split_first() else { return 125 };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(job.environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(out).stderr(errors);
    if job.directory.is_dir() {
        command.current_dir(&job.directory);
    }
    if let Err(error) = fs::write(Path::new(CONTROL).join("started"), b"") {
        eprintln!("senesce-guest: {error}");
    }
    match command.spawn() {
        Ok(mut child) => child.wait().map_or(125, exit_status),
        Err(error) => {
            if let Some(stream) = &mut say {
                let _ = writeln!(stream, "senesce vm: cannot run {program} in the guest: {error}");
            }
            if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
        }
    }
}

fn create(name: &str) -> io::Result<File> {
    File::create(Path::new(CONTROL).join(name))
}

fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.wrapping_add(signal as u8),
        _ => 125,
    }
}

fn report_exit(status: u8) {
    let part = Path::new(CONTROL).join("exit.part");
    let written =
        fs::write(&part, status.to_string()).and_then(|()| fs::rename(&part, Path::new(CONTROL).join("exit")));
    if let Err(error) = written {
        eprintln!("senesce-guest: report exit status: {error}");
    }
}

/// Does the work of `modprobe -q -- NAME`, as the kernel calls it.
fn load_on_demand() -> i32 {
    let Some(name) = std::env::args().next_back() else { return 1 };
    let folder = Path::new(CONTROL).join("modules");
    let Some(index) = module_index() else { return 1 };
    let name = if index.load.contains_key(&name) { name } else { canonical(&name) };
    let Some(files) = index.load.get(&name) else { return i32::from(!index.built_in.contains(&name)) };
    for file in files {
        if let Err(problem) = load(&folder.join(file)) {
            eprintln!("senesce-guest: {problem}");
            return 1;
        }
    }
    0
}
