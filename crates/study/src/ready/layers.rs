//! `container-layers`: the work of a container host. It unpacks image layers, combines them into root directories by
//! hard links, replaces some files by copies, makes manifests durable and removes old layers.

use super::{ReadySetup, failed, wrong};
use rand::Rng;
use senesce_core::analysis::Better;
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{Failure, Measurement};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// Layers at scale 1, their directories, and files of each.
const LAYERS: f64 = 24.0;
const DIRECTORIES: u32 = 16;
const FILES: u32 = 20;

const STACK: u32 = 4;
const KEPT: u32 = 8;

/// One file in this number is replaced by a copy with other content.
const COPIED_UP: u32 = 10;

/// Sizes of files: most are small, one in sixteen is large.
const SMALL: u64 = 4 << 10;
const LARGE: u64 = 64 << 10;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct LayerWork {
    written: u64,
    linked: u64,
    replaced: u64,
    removed: u64,
}

pub(super) fn run(place: &ReadySetup<'_>) -> Result<Vec<Measurement>, Failure> {
    let layers = place.count(LAYERS, KEPT + 1);
    let content = content();
    place.progress.phase("container-layers", u64::from(layers), "layers");
    let (mut done, begun) = (LayerWork::default(), Instant::now());
    for layer in 0..layers {
        place.check_interrupt()?;
        unpack(place.folder, layer, &content, &mut done)?;
        start(place.folder, layer, &content, &mut done)?;
        if layer >= KEPT {
            remove(place.folder, layer - KEPT, &mut done)?;
        }
        place.progress.position(u64::from(layer), "");
    }
    let seconds = begun.elapsed().as_secs_f64();
    let (found, expected) = (files_in(place.folder)?, expected_files(layers));
    if found != expected {
        return Err(wrong(format!("{found} files exist at the end instead of {expected}")));
    }
    let operations = (done.written + done.linked + done.replaced + done.removed) as f64;
    Ok(vec![
        Measurement::new("layer operations", "operations/s", Better::Higher, operations / seconds)?,
        Measurement::new("layers time", "s", Better::Lower, seconds)?,
    ])
}

fn content() -> Vec<u8> {
    let mut rng = DEFAULT_SEED.stream("study/ready/container-layers");
    let mut bytes = vec![0; LARGE as usize];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn layer_of(folder: &Path, layer: u32) -> std::path::PathBuf {
    folder.join(format!("layer{layer:05}"))
}

fn root_of(folder: &Path, layer: u32) -> std::path::PathBuf {
    folder.join(format!("root{layer:05}"))
}

fn size_of(layer: u32, number: u32) -> usize {
    let size = if number.is_multiple_of(16) { LARGE } else { SMALL };
    (size - u64::from((layer * 31 + number * 17) % 1024)) as usize
}

/// Writes the files of a layer and its manifest, which is durable before it gets its name.
fn unpack(folder: &Path, layer: u32, content: &[u8], done: &mut LayerWork) -> Result<(), Failure> {
    let root = layer_of(folder, layer);
    for directory in 0..DIRECTORIES {
        let inner = root.join(format!("d{directory:02}"));
        fs::create_dir_all(&inner).map_err(failed("make directory", &inner))?;
        for number in 0..FILES {
            let path = inner.join(format!("f{number:02}"));
            fs::write(&path, &content[..size_of(layer, number)]).map_err(failed("write", &path))?;
            done.written += 1;
        }
    }
    let (draft, name) = (folder.join("manifest.new"), folder.join(format!("manifest{layer:05}")));
    let written = File::create(&draft).and_then(|mut file| {
        file.write_all(format!("layer {layer}\n").as_bytes())?;
        file.sync_all()
    });
    written.map_err(failed("write", &draft))?;
    fs::rename(&draft, &name).map_err(failed("rename", &draft))
}

/// Combines the newest layers; of two files with the same name, the upper one wins. Then copies up some files.
fn start(folder: &Path, newest: u32, content: &[u8], done: &mut LayerWork) -> Result<(), Failure> {
    let root = root_of(folder, newest);
    let oldest = newest.saturating_sub(STACK - 1);
    for directory in 0..DIRECTORIES {
        let inner = root.join(format!("d{directory:02}"));
        fs::create_dir_all(&inner).map_err(failed("make directory", &inner))?;
        for number in 0..FILES {
            let layer = oldest + (number + directory) % (newest - oldest + 1);
            let name = format!("f{number:02}");
            let (from, to) = (layer_of(folder, layer).join(format!("d{directory:02}/{name}")), inner.join(&name));
            fs::hard_link(&from, &to).map_err(failed("link", &from))?;
            done.linked += 1;
            if (number + directory) % COPIED_UP == 0 {
                let copy = inner.join("copy");
                let size = size_of(layer, number);
                fs::write(&copy, &content[content.len() - size..]).map_err(failed("write", &copy))?;
                fs::rename(&copy, &to).map_err(failed("rename over", &to))?;
                done.replaced += 1;
            }
        }
    }
    Ok(())
}

fn remove(folder: &Path, layer: u32, done: &mut LayerWork) -> Result<(), Failure> {
    for tree in [layer_of(folder, layer), root_of(folder, layer)] {
        fs::remove_dir_all(&tree).map_err(failed("remove", &tree))?;
        done.removed += u64::from(DIRECTORIES * FILES);
    }
    let manifest = folder.join(format!("manifest{layer:05}"));
    fs::remove_file(&manifest).map_err(failed("remove", &manifest))
}

fn expected_files(layers: u32) -> u64 {
    u64::from(layers.min(KEPT)) * (2 * u64::from(DIRECTORIES * FILES) + 1)
}

fn files_in(folder: &Path) -> Result<u64, Failure> {
    let mut count = 0;
    for entry in fs::read_dir(folder).map_err(failed("list", folder))? {
        let entry = entry.map_err(failed("list", folder))?;
        let kind = entry.file_type().map_err(failed("inspect", folder))?;
        count += if kind.is_dir() { files_in(&entry.path())? } else { 1 };
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Silent;
    use senesce_core::interrupt::Interrupt;

    #[test]
    fn layers_are_stacked_replaced_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::new();
        let place = ReadySetup { folder: directory.path(), scale: 0.01, progress: &Silent, interrupt: &interrupt };
        let found = run(&place).unwrap();
        assert!(found.iter().all(|one| one.value.get() > 0.0));
        assert_eq!(files_in(directory.path()).unwrap(), expected_files(KEPT + 1));
        // A copied-up file is not a link any more.
        use std::os::unix::fs::MetadataExt;
        let links = |name: &str| fs::metadata(root_of(directory.path(), KEPT).join(name)).unwrap().nlink();
        assert_eq!(links("d00/f00"), 1);
        assert!(links("d00/f01") > 1);
    }
}
