//! The guest's kernel: fetched once from Debian without installing anything, or given as files; kept in the cache.

use crate::error::{GuestError, io_error};
use crate::fetch::Apt;
use crate::image;
use crate::modules::{ModuleIndex, read_module};
use senesce_core::machine::{KERNEL_ADVICE, VIRTUAL_TIME_ADVICE};
use senesce_volume::ScratchDirectory;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[derive(Debug, Clone)]
pub enum KernelSource {
    /// Debian's `linux-image` package for the release of this host, backports first.
    Debian,
    /// An image (`vmlinuz` or `vmlinux`) and its modules folder (`lib/modules/VERSION`).
    Files { image: PathBuf, modules: PathBuf },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its release (`6.12.38+deb12-amd64`).
    pub version: String,
    /// Has `vmlinux` or `linux`, `modules.json` and `modules/`.
    pub folder: PathBuf,
}

/// Name of the program that is a user-mode kernel, and of its configuration.
pub(crate) const USER_MODE: &str = "linux";
pub(crate) const CONFIG: &str = "config";

/// Line of the configuration of a kernel whose memory does not depend on the addresses of its process.
pub(crate) const FIXED_MEMORY_LINE: &str = "# memory at fixed addresses";

impl Kernel {
    pub(crate) fn image(&self) -> PathBuf {
        self.folder.join(if self.is_user_mode() { USER_MODE } else { "vmlinux" })
    }

    /// Returns whether the kernel is user-mode Linux, a program of the host.
    pub fn is_user_mode(&self) -> bool {
        self.folder.join(USER_MODE).exists()
    }

    /// Returns whether the kernel's clock can be virtual.
    pub fn has_virtual_time(&self) -> bool {
        self.has_option("CONFIG_UML_TIME_TRAVEL_SUPPORT=y")
    }

    /// Returns whether size and addresses of its memory are the same in all starts, wherever the host places its process.
    pub(crate) fn has_fixed_memory(&self) -> bool {
        self.has_option(FIXED_MEMORY_LINE)
    }

    fn has_option(&self, wanted: &str) -> bool {
        fs::read_to_string(self.folder.join(CONFIG)).is_ok_and(|options| options.lines().any(|line| line == wanted))
    }

    pub(crate) fn modules(&self) -> PathBuf {
        self.folder.join("modules")
    }

    pub(crate) fn index(&self) -> Result<ModuleIndex, GuestError> {
        let path = self.folder.join("modules.json");
        let text = fs::read(&path).map_err(io_error("read", &path))?;
        serde_json::from_slice(&text).map_err(|error| GuestError::Kernel { path, problem: error.to_string() })
    }
}

/// Returns `$XDG_CACHE_HOME/senesce/vm`, or `~/.cache/senesce/vm` if the variable is empty or missing.
pub(crate) fn cache_folder() -> Result<PathBuf, GuestError> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()).map(PathBuf::from).or_else(home);
    base.map(|base| base.join("senesce/vm")).ok_or_else(|| GuestError::Missing {
        what: "no location for the guest's kernel".into(),
        remedy: "set HOME or XDG_CACHE_HOME".into(),
    })
}

/// Returns the folder of all kernels, and makes it if it is missing.
pub(crate) fn kernels_folder() -> Result<PathBuf, GuestError> {
    let kernels = cache_folder()?.join("kernels");
    fs::create_dir_all(&kernels).map_err(io_error("make folder", &kernels))?;
    Ok(kernels)
}

/// Kernels of the package senesce-kernel.
const PACKAGED: &str = "/usr/lib/senesce/kernels";

/// Kernels of the package senesce-kernel and of the cache, newest first: by release, then by the time of the build.
pub fn cached_kernels() -> Result<Vec<Kernel>, GuestError> {
    let folders = [PathBuf::from(PACKAGED), cache_folder()?.join("kernels")];
    let mut kernels: Vec<Kernel> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
        .filter(|entry| entry.path().join("modules.json").exists())
        .map(|entry| Kernel { version: entry.file_name().to_string_lossy().into_owned(), folder: entry.path() })
        .collect();
    kernels.sort_by_cached_key(|kernel| std::cmp::Reverse(age_key(kernel)));
    Ok(kernels)
}

fn age_key(kernel: &Kernel) -> (Vec<u64>, Option<SystemTime>) {
    (release_key(&kernel.version), fs::metadata(kernel.image()).and_then(|found| found.modified()).ok())
}

/// What runs the guest's kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The kernel itself: user-mode Linux.
    Uml,
    /// An emulated machine with drives.
    Qemu,
}

impl Engine {
    /// Returns the engine that [`choose`] uses by default: user-mode Linux, unless only QEMU has a kernel.
    fn preferred(kernels: &[Kernel]) -> Option<Self> {
        match kernels.iter().any(Kernel::is_user_mode) {
            true => Some(Self::Uml),
            false => (!kernels.is_empty()).then_some(Self::Qemu),
        }
    }
}

/// Chooses the kernel of this release; otherwise that of the package senesce-kernel, or the newest one of the engine.
///
/// # Errors
/// No kernel is cached for this engine, or with this release.
pub fn choose(release: Option<&str>, engine: Option<Engine>) -> Result<Kernel, GuestError> {
    let mut kernels = cached_kernels()?;
    let engine = engine.or_else(|| release.map_or_else(|| Engine::preferred(&kernels), |_| None));
    kernels.retain(|kernel| engine.is_none_or(|engine| kernel.is_user_mode() == (engine == Engine::Uml)));
    // The package's kernel, built ones, then Debian's, which has no virtual time.
    kernels.sort_by_key(|kernel| kernel.is_user_mode() && !kernel.has_virtual_time());
    kernels.sort_by_key(|kernel| !kernel.folder.starts_with(PACKAGED));
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.version.clone()).collect();
    let found = kernels.into_iter().find(|kernel| release.is_none_or(|wanted| kernel.version == wanted));
    found.ok_or_else(|| match release {
        Some(wanted) if !names.is_empty() => {
            GuestError::Usage(format!("kernel {wanted} not found in the cache; available: {}", names.join(", ")))
        }
        _ => without_kernel(engine),
    })
}

fn without_kernel(engine: Option<Engine>) -> GuestError {
    let what = "the guest has no kernel yet".into();
    match (engine, crate::uml::check_processor()) {
        (Some(Engine::Uml), Err(error)) => error,
        (None | Some(Engine::Uml), Ok(())) => GuestError::Missing { what, remedy: KERNEL_ADVICE.into() },
        _ => GuestError::Missing { what, remedy: "senesce vm setup --engine qemu".into() },
    }
}

/// Returns whether a kernel has this name or belongs to this series.
pub fn is_of(version: &str, name: &str) -> bool {
    version.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

/// Finds the latest build of the user-mode kernel with virtual time of a release (`6.12.95-uml-d0191f96`) or a series
/// (`6.12`).
///
/// # Errors
/// No such kernel is installed.
pub fn with_virtual_time(name: &str) -> Result<Kernel, GuestError> {
    let mut kernels = cached_kernels()?;
    kernels.retain(|kernel| kernel.is_user_mode() && kernel.has_virtual_time());
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.version.clone()).collect();
    kernels.retain(|kernel| is_of(&kernel.version, name));
    kernels.into_iter().max_by_key(|kernel| age_key(kernel).1).ok_or_else(|| without_virtual_time(name, &names))
}

/// Builds the error for a name that is not a kernel with virtual time.
fn without_virtual_time(name: &str, others: &[String]) -> GuestError {
    let what = format!("no kernel {name} with virtual time");
    match others {
        [] => GuestError::Missing { what, remedy: VIRTUAL_TIME_ADVICE.into() },
        others => GuestError::Missing {
            what: format!("{what} among {}", others.join(", ")),
            remedy: "set kernel to a name of senesce vm list".into(),
        },
    }
}

/// Puts a kernel into the cache with the modules that the guest knows, those `wanted`, and those that were wanted before. A
/// cached kernel with all of these is kept unless `again`.
///
/// # Errors
/// The kernel cannot be fetched, unpacked or cached, or lacks a module.
pub fn setup(
    source: &KernelSource,
    wanted: &[String],
    again: bool,
    announce: &dyn Fn(&str),
) -> Result<Kernel, GuestError> {
    let kernels = kernels_folder()?;
    if let (KernelSource::Debian, false) = (source, again)
        && let Some(kernel) = cached_kernels()?.into_iter().find(|kernel| !kernel.is_user_mode())
        && kernel.index().is_ok_and(|index| index.has(wanted))
    {
        return Ok(kernel);
    }
    // On the same file system, so that the result can be renamed into the cache.
    let work = ScratchDirectory::create(&kernels, "setup")?;
    fetch_and_unpack(source, wanted, &kernels, work.path(), announce)
}

fn fetch_and_unpack(
    source: &KernelSource,
    wanted: &[String],
    kernels: &Path,
    work: &Path,
    announce: &dyn Fn(&str),
) -> Result<Kernel, GuestError> {
    let (image, modules) = match source {
        KernelSource::Files { image, modules } => (image.clone(), modules.clone()),
        KernelSource::Debian => unpack_debian(work, announce)?,
    };
    let version = version_of(&modules);
    announce(&format!("unpacking kernel {version}"));
    let (staged, folder) = (work.join("staged"), kernels.join(&version));
    stage(&image, &modules, (wanted, &previous_modules(source, &folder)), &staged)?;
    let _ = fs::remove_dir_all(&folder);
    fs::rename(&staged, &folder).map_err(io_error("rename into place", &folder))?;
    Ok(Kernel { version, folder })
}

/// Returns the modules that a user requested for the kernel in this folder of the cache, or for the one that Debian's
/// replaces.
fn previous_modules(source: &KernelSource, folder: &Path) -> BTreeSet<String> {
    let same = Kernel { version: String::new(), folder: folder.into() }.index();
    let newest = || cached_kernels().unwrap_or_default().into_iter().find_map(|kernel| kernel.index().ok());
    match (same, source) {
        (Ok(index), _) => index.wanted,
        (Err(_), KernelSource::Debian) => newest().map(|index| index.wanted).unwrap_or_default(),
        (Err(_), KernelSource::Files { .. }) => BTreeSet::new(),
    }
}

fn version_of(modules: &Path) -> String {
    modules.file_name().unwrap_or(OsStr::new("kernel")).to_string_lossy().into_owned()
}

fn stage(
    image: &Path,
    modules: &Path,
    wanted: (&[String], &BTreeSet<String>),
    staged: &Path,
) -> Result<(), GuestError> {
    let target = staged.join("modules");
    fs::create_dir_all(&target).map_err(io_error("make folder", &target))?;
    let bytes = fs::read(image).map_err(io_error("read kernel image", image))?;
    let major = release_key(&version_of(modules)).first().copied();
    let kernel = image::bootable(bytes, major).map_err(|problem| GuestError::Kernel { path: image.into(), problem })?;
    let path = staged.join("vmlinux");
    fs::write(&path, kernel).map_err(io_error("write", &path))?;
    let mut index = ModuleIndex::resolve(modules, wanted.0, wanted.1)?;
    for files in index.load.values_mut() {
        for file in files {
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let flat = PathBuf::from(format!("{}.ko", name.split('.').next().unwrap_or_default()));
            if !target.join(&flat).exists() {
                let bytes = read_module(&modules.join(&*file))?;
                fs::write(target.join(&flat), bytes).map_err(io_error("write", target.join(&flat)))?;
            }
            *file = flat;
        }
    }
    let path = staged.join("modules.json");
    let text = serde_json::to_vec_pretty(&index).unwrap_or_default();
    fs::write(&path, text).map_err(io_error("write", &path))
}

fn unpack_debian(work: &Path, announce: &dyn Fn(&str)) -> Result<(PathBuf, PathBuf), GuestError> {
    let apt = Apt::prepare(work)?;
    apt.update(announce)?;
    let listing = apt.run("apt-cache", &["show", "linux-image-amd64"])?;
    let package = choose_package(&listing).ok_or_else(|| GuestError::Missing {
        what: "no linux-image package in the package lists".into(),
        remedy: "give a kernel with --kernel FILE --modules DIR".into(),
    })?;
    let root = apt.unpack_known(&package, announce)?;
    let version = package.trim_start_matches("linux-image-").to_string();
    let merged = root.join("usr/lib/modules").join(&version);
    let modules = if merged.is_dir() { merged } else { root.join("lib/modules").join(&version) };
    Ok((root.join(format!("boot/vmlinuz-{version}")), modules))
}

/// Chooses the package of the preferred release: 6.12 if available, else the newest.
fn choose_package(listing: &str) -> Option<String> {
    let mut packages: Vec<String> = listing
        .lines()
        .filter_map(|line| line.strip_prefix("Depends: "))
        .filter_map(|line| line.split_whitespace().next())
        .map(|word| word.trim_end_matches(',').to_string())
        .filter(|name| name.starts_with("linux-image-"))
        .collect();
    packages.sort_by_key(|name| release_key(name.trim_start_matches("linux-image-")));
    packages.iter().rev().find(|name| name.starts_with("linux-image-6.12.")).or(packages.last()).cloned()
}

fn release_key(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn previously_wanted_modules_are_kept() {
        let cache = tempfile::tempdir().unwrap();
        let source = KernelSource::Files { image: PathBuf::new(), modules: PathBuf::new() };
        let before = || previous_modules(&source, cache.path());
        assert_eq!(before(), BTreeSet::new(), "not created yet");
        fs::write(cache.path().join("modules.json"), r#"{"load":{}}"#).unwrap();
        assert_eq!(before(), BTreeSet::new(), "an index without these modules");
        fs::write(cache.path().join("modules.json"), r#"{"load":{},"wanted":["dm_flakey"]}"#).unwrap();
        assert_eq!(before(), ["dm_flakey".to_string()].into());
    }

    #[test]
    fn later_build_of_a_release_is_newer() {
        let cache = tempfile::tempdir().unwrap();
        let kernel = |version: &str, built: u64| {
            let folder = cache.path().join(version);
            fs::create_dir(&folder).unwrap();
            let image = fs::File::create(folder.join(USER_MODE)).unwrap();
            image.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(built)).unwrap();
            age_key(&Kernel { version: version.into(), folder })
        };
        let (first, second) = (kernel("6.12.95-uml-94b59b76", 1), kernel("6.12.95-uml-1361d2c8", 2));
        let (older, newer) = (kernel("6.1.176-uml-ffffffff", 3), kernel("7.2.1-uml-00000000", 0));
        assert!(older < first && first < second && second < newer);
    }

    #[test]
    fn unknown_name_is_not_a_missing_package() {
        let remedy = |others: &[String]| match without_virtual_time("6.99", others) {
            GuestError::Missing { remedy, .. } => remedy,
            other => panic!("{other}"),
        };
        assert_eq!(remedy(&[]), VIRTUAL_TIME_ADVICE);
        assert!(remedy(&["6.12.95-uml-d0191f96".into()]).contains("senesce vm list"));
    }

    #[test]
    fn release_6_12_is_preferred_and_6_1_accepted() {
        let both = "Depends: linux-image-6.1.0-40-amd64 (= 6.1.153-1)\n\nDepends: linux-image-6.12.38+deb12-amd64 (= 6.12.38-1~bpo12+1)\n\nDepends: linux-image-7.2.1+deb12-amd64 (= 7)\n";
        assert_eq!(choose_package(both).as_deref(), Some("linux-image-6.12.38+deb12-amd64"));
        assert_eq!(
            choose_package("Depends: linux-image-6.1.0-40-amd64 (= 6.1.153-1)\n").as_deref(),
            Some("linux-image-6.1.0-40-amd64")
        );
        assert_eq!(choose_package(""), None);
        assert!(release_key("6.12.38+deb12-amd64") > release_key("6.1.0-40-amd64"));
    }
}
