//! Kernel modules in load order, resolved from their `.modinfo`.

use crate::error::{GuestError, io_error};
use crate::payload::{unpack_gzip, unpack_xz, unpack_zstd};
use object::{Object, ObjectSection};
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules that the guest needs before it can access the host's files and its drives.
pub(crate) const BOOT: &[&str] = &["virtio_pci", "9p", "9pnet_virtio", "overlay", "nvme"];

/// Modules that the guest's kernel may request later, in addition to the file systems of the table; missing ones are skipped.
pub(crate) const ON_DEMAND: &[&str] = &[
    "zonefs",
    "fuse",
    "loop",
    "null_blk",
    "dm_mod",
    "dm_linear",
    "brd",
    "zram",
    "bfq",
    "kyber_iosched",
    "mq_deadline",
    "crc32c_generic",
    "crc32_generic",
    "crc32c_intel",
    "xxhash_generic",
    "sha256_generic",
    "blake2b_generic",
    "lzo",
    "lz4",
    "zstd",
    "deflate",
    "nfs",
    "nfsd",
    "bcachefs",
];

/// The files of each module or alias, dependencies first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModuleIndex {
    /// Module name or alias (`fs-f2fs`) to files relative to the modules folder, in load order.
    pub load: BTreeMap<String, Vec<PathBuf>>,
    /// The modules that a user wanted: each has a file, or is built in.
    #[serde(default)]
    pub wanted: BTreeSet<String>,
    /// Modules built into the kernel.
    #[serde(default)]
    pub built_in: BTreeSet<String>,
}

impl ModuleIndex {
    pub(crate) fn has(&self, wanted: &[String]) -> bool {
        wanted
            .iter()
            .map(|name| canonical(name))
            .all(|name| self.load.contains_key(&name) || self.built_in.contains(&name))
    }

    /// Resolves [`BOOT`], [`ON_DEMAND`] and the modules `wanted` from the tree below `folder` (`lib/modules/VERSION`), and
    /// those of `earlier` setups if available.
    ///
    /// # Errors
    /// A module or its list of dependencies cannot be read; the kernel lacks a module that is wanted or needed to
    /// boot.
    pub(crate) fn resolve(folder: &Path, wanted: &[String], earlier: &BTreeSet<String>) -> Result<Self, GuestError> {
        let mut files = HashMap::new();
        collect(folder, &mut files)?;
        let wanted: Vec<String> = wanted.iter().map(|name| canonical(name)).collect();
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let built_in = built_in(folder);
        let is_there = |name: &str| files.contains_key(name) || built_in.contains(name);
        refuse_lacking(folder, &wanted, is_there)?;
        let earlier: Vec<&str> = earlier.iter().map(String::as_str).collect();
        let wanted: Vec<&str> = wanted.iter().chain(&earlier).copied().filter(|name| is_there(name)).collect();
        let mut resolver = Resolver { files, known: HashMap::new() };
        let wanted_names = wanted.iter().map(ToString::to_string).collect();
        let mut index = Self { load: BTreeMap::new(), wanted: wanted_names, built_in };
        let file_systems = FileSystem::ALL.map(FileSystem::name);
        for name in BOOT.iter().chain(&file_systems).chain(ON_DEMAND).chain(&wanted) {
            // A built-in driver has no file and needs none.
            if !resolver.files.contains_key(*name) {
                continue;
            }
            let mut order = Vec::new();
            resolver.order(name, &mut order)?;
            let relative: Vec<PathBuf> = order
                .iter()
                .map(|module| {
                    resolver.files[module].strip_prefix(folder).unwrap_or(&resolver.files[module]).to_path_buf()
                })
                .collect();
            for alias in resolver.known[*name].aliases.clone() {
                index.load.insert(alias, relative.clone());
            }
            index.load.insert((*name).to_string(), relative);
        }
        Ok(index)
    }

    /// Resolves only modules to load at boot; those that the folder lacks are taken as built in.
    pub(crate) fn resolve_for_boot(folder: &Path, names: &[&str]) -> Result<Self, GuestError> {
        let mut files = HashMap::new();
        collect(folder, &mut files)?;
        let mut resolver = Resolver { files, known: HashMap::new() };
        let mut index = Self::default();
        for name in names.iter().filter(|name| resolver.files.contains_key(**name)).collect::<Vec<_>>() {
            let mut order = Vec::new();
            resolver.order(name, &mut order)?;
            let file = |module: &String| resolver.files[module].strip_prefix(folder).map(Path::to_path_buf);
            let relative: Result<Vec<PathBuf>, _> = order.iter().map(file).collect();
            index.load.insert((*name).to_string(), relative.unwrap_or_default());
        }
        Ok(index)
    }

    /// Returns the name below /dev, major and minor number of each device file that a module in the index declares
    /// (`devname:` and `char-major-` aliases).
    pub(crate) fn static_nodes(&self) -> Vec<(String, u32, u32)> {
        let number = |files: &Vec<PathBuf>| {
            let same = self.load.iter().filter(|(_, others)| *others == files);
            same.filter_map(|(alias, _)| alias.strip_prefix("char-major-")?.split_once('-'))
                .find_map(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
        };
        let nodes = self.load.iter().filter_map(|(alias, files)| {
            let (major, minor) = number(files)?;
            Some((alias.strip_prefix("devname:")?.to_string(), major, minor))
        });
        nodes.collect()
    }

    pub(crate) fn files(&self, names: &[&str]) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = Vec::new();
        for path in names.iter().filter_map(|name| self.load.get(*name)).flatten() {
            if !files.contains(path) {
                files.push(path.clone());
            }
        }
        files
    }
}

fn refuse_lacking(folder: &Path, wanted: &[&str], is_there: impl Fn(&str) -> bool) -> Result<(), GuestError> {
    let lacks = |names: &[&str]| {
        let lacks: Vec<&str> = names.iter().copied().filter(|name| !is_there(name)).collect();
        (!lacks.is_empty()).then(|| lacks.join(", "))
    };
    let nowhere = "as a file or in modules.builtin";
    if let Some(names) = lacks(BOOT) {
        let problem = format!("{names} not found {nowhere}, and the guest cannot boot without them");
        return Err(GuestError::Kernel { path: folder.into(), problem });
    }
    match lacks(wanted) {
        None => Ok(()),
        Some(names) => {
            let release = folder.file_name().unwrap_or_default().to_string_lossy();
            Err(GuestError::Usage(format!("--module: {names} of kernel {release} not found {nowhere}")))
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ModuleInfo {
    depends: Vec<String>,
    aliases: Vec<String>,
}

struct Resolver {
    files: HashMap<String, PathBuf>,
    known: HashMap<String, ModuleInfo>,
}

impl Resolver {
    fn order(&mut self, name: &str, order: &mut Vec<String>) -> Result<(), GuestError> {
        if order.iter().any(|done| done == name) {
            return Ok(());
        }
        if !self.known.contains_key(name) {
            let info = read_info(&self.files[name])?;
            self.known.insert(name.to_string(), info);
        }
        for dependency in self.known[name].depends.clone() {
            if self.files.contains_key(&dependency) {
                self.order(&dependency, order)?;
            }
        }
        order.push(name.to_string());
        Ok(())
    }
}

/// Reads the names of built-in modules from `modules.builtin` (kernel documentation, kbuild).
fn built_in(folder: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
    let name = |line: &str| Some(canonical(Path::new(line.trim()).file_stem()?.to_str()?));
    text.lines().filter_map(name).collect()
}

fn collect(folder: &Path, files: &mut HashMap<String, PathBuf>) -> Result<(), GuestError> {
    for entry in fs::read_dir(folder).map_err(io_error("list modules in", folder))?.flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            collect(&path, files)?;
        } else if let Some((stem, "ko" | "ko.xz" | "ko.zst" | "ko.gz")) =
            entry.file_name().to_string_lossy().split_once('.')
        {
            files.insert(canonical(stem), path);
        }
    }
    Ok(())
}

/// Replaces `-` by `_`, because the kernel treats both as the same character in module names.
pub(crate) fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

/// Reads and unpacks a module file.
///
/// # Errors
/// The file cannot be read, or its compression is unknown.
pub(crate) fn read_module(path: &Path) -> Result<Vec<u8>, GuestError> {
    let bytes = fs::read(path).map_err(io_error("read module", path))?;
    let damaged = |problem: String| GuestError::Kernel { path: path.into(), problem };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => unpack_xz(&bytes).map_err(damaged),
        Some("zst") => unpack_zstd(&bytes).map_err(damaged),
        Some("gz") => unpack_gzip(&bytes).map_err(damaged),
        _ => Ok(bytes),
    }
}

fn read_info(path: &Path) -> Result<ModuleInfo, GuestError> {
    let bytes = read_module(path)?;
    parse_info(&bytes).map_err(|problem| GuestError::Kernel { path: path.into(), problem })
}

fn parse_info(bytes: &[u8]) -> Result<ModuleInfo, String> {
    let file = object::File::parse(bytes).map_err(|error| format!("not an ELF module: {error}"))?;
    let section = file.section_by_name(".modinfo").ok_or("no .modinfo section")?;
    let data = section.data().map_err(|error| error.to_string())?;
    let mut info = ModuleInfo::default();
    for line in data.split(|byte| *byte == 0) {
        let text = String::from_utf8_lossy(line);
        if let Some(list) = text.strip_prefix("depends=") {
            info.depends.extend(list.split(',').filter(|name| !name.is_empty()).map(canonical));
        } else if let Some(alias) = text.strip_prefix("alias=") {
            info.aliases.push(alias.to_string());
        } else if let Some(names) = text.strip_prefix("softdep=pre: ") {
            info.depends.extend(names.split_whitespace().map(canonical));
        }
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_modules_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let lacks = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_string()).collect();
            ModuleIndex::resolve(folder.path(), &wanted, &BTreeSet::new()).unwrap_err().to_string()
        };
        assert!(lacks(&[]).contains("virtio_pci, 9p, 9pnet_virtio, overlay, nvme"), "{}", lacks(&[]));
        let lines: Vec<String> = BOOT.iter().map(|name| format!("kernel/drivers/x/{name}.ko\n")).collect();
        fs::write(folder.path().join("modules.builtin"), lines.concat()).unwrap();
        let earlier = ["overlay", "gone"].map(String::from).into();
        let index = ModuleIndex::resolve(folder.path(), &["virtio-pci".into()], &earlier).unwrap();
        assert_eq!(index.load, BTreeMap::new(), "all are built in");
        assert_eq!(
            index.wanted,
            ["overlay", "virtio_pci"].map(String::from).into(),
            "missing earlier modules are skipped"
        );
        assert!(index.has(&["virtio-pci".into(), "nvme".into()]) && !index.has(&["loop".into()]));
        assert!(lacks(&["dm-log-writes"]).contains("dm_log_writes"), "{}", lacks(&["dm-log-writes"]));
    }

    #[test]
    fn module_with_a_device_file_gets_one() {
        let mut index = ModuleIndex::default();
        let lines = [("char-major-10-237", "loop.ko"), ("devname:loop-control", "loop.ko"), ("devname:odd", "odd.ko")];
        for (alias, file) in lines {
            index.load.insert(alias.into(), vec![file.into()]);
        }
        assert_eq!(index.static_nodes(), [("loop-control".to_string(), 10, 237)]);
    }
}
