//! Kernels for user-mode Linux: Debian's package, or built from a kernel tree.

use super::changes;
use super::objects::{Objects, compile};
use crate::error::{GuestError, io_error};
use crate::fetch::{Apt, run_program};
use crate::kernel::{CONFIG, FIXED_MEMORY_LINE, Kernel, USER_MODE, cache_folder, kernels_folder};
use crate::modules::{ModuleIndex, read_module};
use senesce_core::{Bytes, Progress};
use senesce_volume::ScratchDirectory;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of the kernel in addition to its default configuration.
const OPTIONS: &str = include_str!("../../../../data/kernel/user-mode.config");
/// Compiled in front of [`SIZES_OF_MEMORY`].
const FIXED_MEMORY: &str = include_str!("../../../../data/kernel/fixed-memory.h");
/// Files of the kernel (arch/um/kernel) that place its memory behind the data segment of its process.
const SIZES_OF_MEMORY: [&str; 2] = ["um_arch", "mem"];
/// Begins the text that [`FIXED_MEMORY`] leaves in a program, once for each file that uses it.
const MARK: &str = "senesce: memory at fixed addresses in ";
/// The same source and compiler give the same program, and so the same name.
const SAME_BYTES: [(&str, &str); 4] = [
    ("KBUILD_BUILD_TIMESTAMP", "2026-01-01"),
    ("KBUILD_BUILD_USER", "senesce"),
    ("KBUILD_BUILD_HOST", "senesce"),
    ("KBUILD_BUILD_VERSION", "1"),
];
/// The kernel saves the registers on its stacks, so wide registers need larger stacks.
const WIDE_STACKS: &str = "CONFIG_KERNEL_STACK_ORDER=4\n";
const PACKAGE: &str = "user-mode-linux";
/// Modules that Debian's kernel needs and does not have built in.
const BOOT: [&str; 4] = ["overlay", "loop", "crc32_generic", "f2fs"];
/// Space for the tree and the objects of one kernel.
const BUILD_SPACE: Bytes = Bytes::gib(4);

/// Programs that compile a kernel, with their Debian packages (Documentation/process/changes.rst of the kernel). gcc only
/// recommends the headers of the C library.
pub const BUILD_PROGRAMS: [(&str, &str); 5] =
    [("gcc", "gcc libc6-dev"), ("make", "make"), ("flex", "flex"), ("bison", "bison"), ("bc", "bc")];
/// Programs that unpack Debian's package of the sources, in addition.
pub const SOURCE_PROGRAMS: [(&str, &str); 3] = [("apt-get", "apt"), ("dpkg-deb", "dpkg"), ("xz", "xz-utils")];

/// Puts Debian's kernel into the cache, without installing it. It has no virtual time.
///
/// # Errors
/// The package cannot be fetched or unpacked.
pub fn fetch(announce: &dyn Fn(&str)) -> Result<Kernel, GuestError> {
    super::check_processor()?;
    let kernels = kernels_folder()?;
    let work = ScratchDirectory::create(&kernels, "setup")?;
    let root = Apt::prepare(work.path())?.unpack(PACKAGE, announce)?;
    let modules = fs::read_dir(root.join("usr/lib/uml/modules")).into_iter().flatten().flatten().next();
    install(&root.join("usr/bin/linux.uml"), modules.map(|entry| entry.path()).as_deref(), work.path())
}

/// Builds a kernel from a tree, or from Debian's package of the sources of a version (`6.12`), and puts it into the cache. Objects are
/// kept in the cache, so that the next build of the same tree compiles changed files only.
///
/// # Errors
/// [`GuestError::Program`] with the last lines of the compiler; the tree or package was not found. [`GuestError::Missing`]
/// before anything is fetched if a program is missing. [`GuestError::Target`] if another build of the same tree is running.
pub fn build(source: &str, progress: &dyn Progress) -> Result<Kernel, GuestError> {
    super::check_processor()?;
    let tree = Path::new(source).canonicalize().ok().filter(|tree| tree.join("Kbuild").exists());
    match &tree {
        Some(_) => check_programs(&BUILD_PROGRAMS)?,
        None if is_version(source) => check_programs(&[&BUILD_PROGRAMS[..], &SOURCE_PROGRAMS].concat())?,
        None => {
            let problem = format!(
                "cannot build '{source}': neither a kernel tree nor a version\nhint: give a directory, or 6.12"
            );
            return Err(GuestError::Usage(problem));
        }
    }
    let kernels = kernels_folder()?;
    let builds = kernels.with_file_name("build");
    fs::create_dir_all(&builds).map_err(io_error("make folder", &builds))?;
    let tree = match tree {
        Some(tree) => tree,
        None => unpack_source(source, &builds, &|message| progress.say(message))?,
    };
    let locked = Objects::lock(objects_of(&tree, &builds))?;
    let objects = locked.folder();
    let make = |words: &[&str]| {
        let mut command = Command::new("make");
        command.current_dir(&tree).args(["ARCH=um", &format!("O={}", objects.display())]).args(words).envs(SAME_BYTES);
        command
    };
    let options = objects.join("senesce.config");
    let wanted = options_of(&tree);
    if fs::read_to_string(&options).ok().as_deref() != Some(&wanted) {
        progress.say("configuring the kernel");
        run_program(&mut make(&["x86_64_defconfig"]))?;
        let merge = tree.join("scripts/kconfig/merge_config.sh");
        fs::write(&options, &wanted).map_err(io_error("write", &options))?;
        let mut command = Command::new(merge);
        run_program(command.current_dir(objects).env("ARCH", "um").args(["-m", ".config", "senesce.config"]))?;
        run_program(&mut make(&["olddefconfig"]))?;
    }
    progress.say(&format!("compiling the kernel in {}; this takes minutes the first time", objects.display()));
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = make(&[&format!("-j{jobs}"), "linux"]);
    command.args(with_fixed_memory(objects)?);
    compile(&mut command, progress)?;
    let work = ScratchDirectory::create(&kernels, "setup")?;
    install(&objects.join("linux"), None, work.path())
}

/// Writes the header into the folder of the objects, if it differs. Returns the words of make that include it.
fn with_fixed_memory(objects: &Path) -> Result<[String; 2], GuestError> {
    let header = objects.join("senesce-fixed-memory.h");
    if fs::read_to_string(&header).ok().as_deref() != Some(FIXED_MEMORY) {
        fs::write(&header, FIXED_MEMORY).map_err(io_error("write", &header))?;
    }
    Ok(SIZES_OF_MEMORY.map(|file| format!("CFLAGS_{file}.o=-include {}", header.display())))
}

/// Puts the kernel of a tree into the cache: that of `make ARCH=um` in the tree, else the last one of [`build`].
///
/// # Errors
/// No kernel was built, or it does not run.
pub fn of_tree(tree: &Path) -> Result<Kernel, GuestError> {
    super::check_processor()?;
    let tree = tree.canonicalize().map_err(|error| {
        let path = tree.display();
        GuestError::Usage(format!("cannot find the kernel tree {path}: {error}\nhint: give the tree's directory"))
    })?;
    let built = [tree.clone(), objects_of(&tree, &cache_folder()?.join("build"))];
    let program = built.into_iter().map(|folder| folder.join("linux")).find(|program| program.is_file());
    let program = program.ok_or_else(|| {
        let tree = tree.display();
        GuestError::Usage(format!("no kernel was built from {tree}\nhint: senesce vm build {tree}"))
    })?;
    let work = ScratchDirectory::create(&kernels_folder()?, "setup")?;
    install(&program, None, work.path())
}

/// Returns the folder of the objects that were compiled from a tree.
fn objects_of(tree: &Path, builds: &Path) -> PathBuf {
    builds.join(format!("objects-{}", &digest(tree.as_os_str().as_encoded_bytes())[..12]))
}

/// Checks that all programs are installed.
///
/// # Errors
/// [`GuestError::Missing`] with all missing programs and their packages.
fn check_programs(programs: &[(&str, &str)]) -> Result<(), GuestError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let missing = missing_programs(programs, &folders);
    if missing.is_empty() {
        return Ok(());
    }
    let (names, packages): (Vec<&str>, Vec<&str>) = missing.into_iter().unzip();
    Err(GuestError::Missing {
        what: format!("cannot build a kernel: programs not found: {}", names.join(", ")),
        remedy: format!("apt-get install {}", packages.join(" ")),
    })
}

fn missing_programs<'a>(programs: &[(&'a str, &'a str)], folders: &[PathBuf]) -> Vec<(&'a str, &'a str)> {
    let is_found = |name: &str| folders.iter().any(|folder| folder.join(name).is_file());
    programs.iter().filter(|(name, _)| !is_found(name)).copied().collect()
}

fn is_version(text: &str) -> bool {
    !text.is_empty() && text.split('.').all(|part| part.parse::<u32>().is_ok())
}

fn unpack_source(version: &str, builds: &Path, announce: &dyn Fn(&str)) -> Result<PathBuf, GuestError> {
    let tree = builds.join(format!("linux-source-{version}"));
    if tree.join("Kbuild").exists() {
        return changes::apply(&tree, announce).map(|()| tree);
    }
    let found = rustix::fs::statvfs(builds).map_err(|errno| io_error("check", builds)(errno.into()))?;
    let free = Bytes(found.f_bavail.saturating_mul(found.f_frsize));
    if free < BUILD_SPACE {
        let what = format!("a kernel build needs {BUILD_SPACE}, and {} has {free} free", builds.display());
        return Err(GuestError::Missing { what, remedy: "set XDG_CACHE_HOME to a directory with more space".into() });
    }
    let work = ScratchDirectory::create(builds, "source")?;
    let package = format!("linux-source-{version}");
    let root = match Apt::prepare(work.path())?.unpack(&package, announce) {
        Err(GuestError::Program { .. }) => {
            announce(&format!("{package} is not in this Debian release: searching newer ones"));
            Apt::prepare_newer(work.path())?.unpack(&package, announce)?
        }
        other => other?,
    };
    let archive = root.join(format!("usr/src/{package}.tar.xz"));
    run_program(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(work.path()))?;
    let unpacked = work.path().join(format!("linux-source-{version}"));
    changes::apply(&unpacked, announce)?;
    fs::rename(&unpacked, &tree).map_err(io_error("rename into place", &tree))?;
    Ok(tree)
}

fn options_of(tree: &Path) -> String {
    format!("{OPTIONS}{}", if changes::REGISTERS.is_applied(tree) { WIDE_STACKS } else { "" })
}

/// Copies a kernel into the cache. Its name has its release and the digest of the program, which contains its configuration.
fn install(program: &Path, modules: Option<&Path>, work: &Path) -> Result<Kernel, GuestError> {
    let bytes = fs::read(program).map_err(io_error("read", program))?;
    let release = run_program(Command::new(program).arg("--version"))?;
    let version = format!("{}-uml-{}", release.trim(), &digest(&bytes)[..8]);
    let (staged, folder) = (work.join("staged"), kernels_folder()?.join(&version));
    for part in ["modules", "boot"] {
        let path = staged.join(part);
        fs::create_dir_all(&path).map_err(io_error("make folder", &path))?;
    }
    let path = staged.join(USER_MODE);
    fs::copy(program, &path).map_err(io_error("copy to", &path))?;
    let mut options = run_program(Command::new(program).arg("--showconfig"))?;
    if has_fixed_memory(&bytes) {
        options.push_str(&format!("\n{FIXED_MEMORY_LINE}\n"));
    }
    let path = staged.join(CONFIG);
    fs::write(&path, options).map_err(io_error("write", &path))?;
    let index = modules.map_or(Ok(ModuleIndex::default()), |modules| stage_modules(modules, &staged))?;
    let path = staged.join("modules.json");
    fs::write(&path, serde_json::to_vec_pretty(&index).unwrap_or_default()).map_err(io_error("write", &path))?;
    let _ = fs::remove_dir_all(&folder);
    fs::rename(&staged, &folder).map_err(io_error("rename into place", &folder))?;
    Ok(Kernel { version, folder })
}

/// Unpacks the modules to load at boot, in their order.
fn stage_modules(modules: &Path, staged: &Path) -> Result<ModuleIndex, GuestError> {
    let index = ModuleIndex::resolve_for_boot(modules, &BOOT)?;
    for (number, file) in index.files(&BOOT).into_iter().enumerate() {
        let path = staged.join(format!("boot/{number:02}.ko"));
        fs::write(&path, read_module(&modules.join(&file))?).map_err(io_error("write", &path))?;
    }
    // All modules are loaded at boot, so the kernel requests none later.
    Ok(ModuleIndex::default())
}

/// Returns whether all files that place the memory used [`FIXED_MEMORY`].
fn has_fixed_memory(program: &[u8]) -> bool {
    let has = |text: String| program.windows(text.len()).any(|part| part == text.as_bytes());
    SIZES_OF_MEMORY.iter().all(|file| has(format!("{MARK}{file}\0")))
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_with_dots() {
        for (text, expected) in [("6.1", true), ("7.3", true), ("6", true), ("", false), ("6.x", false), ("..", false)]
        {
            assert_eq!(is_version(text), expected, "{text}");
        }
    }

    #[test]
    fn wide_registers_get_wide_stacks() {
        let tree = tempfile::tempdir().unwrap();
        assert_eq!(options_of(tree.path()), OPTIONS);
        let path = tree.path().join(changes::REGISTERS.file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, changes::REGISTERS.from).unwrap();
        assert_eq!(options_of(tree.path()), OPTIONS);
        changes::apply(tree.path(), &|_| {}).unwrap();
        assert_eq!(options_of(tree.path()), format!("{OPTIONS}{WIDE_STACKS}"));
    }

    #[test]
    fn all_missing_build_programs_are_found_with_their_packages() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().join("nonexistent"), folder.path().into()];
        assert_eq!(missing_programs(&BUILD_PROGRAMS, &folders), BUILD_PROGRAMS);
        for name in ["gcc", "make", "bison"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(missing_programs(&BUILD_PROGRAMS, &folders), [("flex", "flex"), ("bc", "bc")]);
    }

    #[test]
    fn tree_without_a_kernel_is_a_usage_error() {
        let tree = tempfile::tempdir().unwrap();
        for tree in [tree.path(), &tree.path().join("missing")] {
            let refused = of_tree(tree).unwrap_err();
            assert!(matches!(refused, GuestError::Usage(_)), "{refused}");
        }
    }

    #[test]
    fn header_marks_programs_and_is_written_once() {
        assert!(FIXED_MEMORY.contains(MARK));
        let program = |files: &[&str]| files.iter().map(|file| format!("x{MARK}{file}\0")).collect::<String>();
        let has = |files: &[&str]| has_fixed_memory(program(files).as_bytes());
        assert!(has(&["mem", "um_arch"]) && !has(&["mem"]) && !has(&["um_arch"]) && !has(&["um_arch", "memory"]));
        let objects = tempfile::tempdir().unwrap();
        let words = with_fixed_memory(objects.path()).unwrap();
        let header = objects.path().join("senesce-fixed-memory.h");
        assert!(words.iter().all(|word| word.ends_with(&format!("=-include {}", header.display()))));
        let written = || header.metadata().unwrap().modified().unwrap();
        let before = written();
        with_fixed_memory(objects.path()).unwrap();
        assert_eq!(written(), before, "make compiles again what includes a newer file");
    }

    #[test]
    fn missing_tree_is_a_usage_error() {
        let refused = build("/nonexistent-kernel-tree", &senesce_core::Silent).unwrap_err();
        assert!(matches!(refused, GuestError::Usage(_)), "{refused}");
    }
}
