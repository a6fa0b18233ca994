//! Walks all files of a tree, including those in zip archives.

use senesce_core::failure::errno_message;
use senesce_core::{ExitCode, Failure};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

const MOST_BYTES: u64 = 1 << 30;

/// A file and its path in the tree; an archive counts as a folder.
pub(crate) struct ArtifactFile {
    pub path: String,
    /// The content, or the reason why it could not be read.
    pub content: Result<Vec<u8>, String>,
}

/// Folders of the artifacts whose subpaths name the contents of files.
const MEANING: [&str; 4] = ["spdk", "io_uring", "custom", "zbdbench"];

/// Returns the meaningful part of the path to the tree, with a trailing `/`; empty for whole artifacts.
pub(crate) fn above(root: &Path) -> String {
    let Ok(full) = root.canonicalize() else { return String::new() };
    let folder = if full.is_dir() { full.as_path() } else { full.parent().unwrap_or(&full) };
    let parts: Vec<_> = folder.iter().map(|part| part.to_string_lossy()).collect();
    let from = parts.iter().rposition(|part| MEANING.contains(&part.as_ref()));
    from.map_or(String::new(), |from| parts[from..].iter().fold(String::new(), |path, part| path + part + "/"))
}

fn failed(operation: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(ExitCode::Usage, format!("{operation} {}: {}; check the path", path.display(), errno_message(error)))
}

/// Calls `take` with every file below `root`, sorted by name.
pub(crate) fn walk(root: &Path, take: &mut dyn FnMut(ArtifactFile) -> Result<(), Failure>) -> Result<(), Failure> {
    let metadata = root.metadata().map_err(|error| failed("inspect", root, &error))?;
    let mut paths = Vec::new();
    if metadata.is_dir() {
        collect(root, &mut paths)?;
    } else {
        paths.push(root.to_path_buf());
    }
    paths.sort();
    for path in paths {
        let name = path.strip_prefix(root).unwrap_or(&path);
        let name = if name.as_os_str().is_empty() { Path::new(root.file_name().unwrap_or_default()) } else { name };
        let name = name.to_string_lossy().into_owned();
        if let Some(why) = unread(root, &path) {
            take(ArtifactFile { path: name, content: Err(why) })?;
        } else if name.to_ascii_lowercase().ends_with(".zip") {
            walk_archive(&path, &name[..name.len() - 4], take)?;
        } else {
            take(ArtifactFile { path: name, content: read_file(&path) })?;
        }
    }
    Ok(())
}

/// Returns the reason to skip a file below `root`. A link may leave the tree or form a loop, and a pipe never ends.
fn unread(root: &Path, path: &Path) -> Option<String> {
    if path == root {
        return None;
    }
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_symlink() => Some("a symbolic link, which is not followed".into()),
        Ok(metadata) if !metadata.is_file() => Some("not a regular file".into()),
        Ok(_) => None,
        Err(error) => Some(errno_message(&error)),
    }
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let entries = std::fs::read_dir(folder).map_err(|error| failed("list", folder, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed("list", folder, &error))?;
        let kind = entry.file_type().map_err(|error| failed("inspect", &entry.path(), &error))?;
        if kind.is_dir() {
            collect(&entry.path(), paths)?;
        } else {
            paths.push(entry.path());
        }
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| errno_message(&error))?;
    read_limited(file)
}

fn read_limited(reader: impl Read) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let read = reader.take(MOST_BYTES + 1).read_to_end(&mut content).map_err(|error| error.to_string())?;
    if read as u64 > MOST_BYTES { Err("larger than 1 GiB".into()) } else { Ok(content) }
}

fn walk_archive(
    path: &Path,
    name: &str,
    take: &mut dyn FnMut(ArtifactFile) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let broken = |problem: String| ArtifactFile { path: format!("{name}.zip"), content: Err(problem) };
    let file = File::open(path).map_err(|error| failed("open", path, &error))?;
    let mut archive = match zip::ZipArchive::new(file) {
        Ok(archive) => archive,
        Err(error) => return take(broken(format!("not a zip archive: {error}"))),
    };
    for index in 0..archive.len() {
        let found = match archive.by_index(index) {
            Err(error) => broken(format!("entry {index}: {error}")),
            Ok(entry) if entry.is_dir() => continue,
            Ok(entry) => match entry.name().map(|inner| format!("{name}/{inner}")) {
                Ok(path) => ArtifactFile { path, content: read_limited(entry) },
                Err(error) => broken(format!("entry {index}: {error}")),
            },
        };
        take(found)?;
    }
    Ok(())
}
