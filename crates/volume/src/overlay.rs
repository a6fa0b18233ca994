//! Overlays (Documentation/filesystems/overlayfs.rst). A file in an overlay has two identities, its own and that of the
//! layer file. A search for users by one does not find users by the other.

use crate::error::TargetError;
use crate::guard::{self, MountLine, unescape};
use crate::witness::UnavailableWitness;
use crate::witness::kernel_files::{Tree, is_of_type};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// OVERLAYFS_SUPER_MAGIC (include/uapi/linux/magic.h).
const OVERLAY_MAGIC: u64 = 0x794c_7630;

const MOST_NAMES: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OverlayFile {
    /// File system and inode numbers, as in stat(2).
    pub numbers: Vec<(u64, u64)>,
    /// Paths in layers that are not accessible here, such as those of a container.
    pub hidden: Vec<PathBuf>,
    pub unseen: Option<UnavailableWitness>,
}

impl OverlayFile {
    pub(crate) fn of(file: &File, path: &Path) -> Result<Self, TargetError> {
        let found = file.metadata().map_err(TargetError::io("inspect", path))?;
        let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let missing =
            |error| TargetError::missing(format!("{} ({error})", link.display()), "mount it: mount -t proc proc /proc");
        let name = fs::read_link(&link).map_err(missing)?;
        let known = Self::by((found.dev(), found.ino()), &name);
        known.map_err(|silent| silent.refusal(path, "an overlay shows it under another name"))
    }

    /// Finds the file with these numbers, if `path` leads to it; else by its numbers only.
    pub(crate) fn by(numbers: (u64, u64), path: &Path) -> Result<Self, UnavailableWitness> {
        match numbers_of(path) == Some(numbers) {
            true => Ok(Overlays::mounted()?.known(path)),
            false => Ok(Self { numbers: vec![numbers], ..Self::default() }),
        }
    }
}

/// Returns the path in the layer of an overlay; new files go to the upper layer. `None`: not in an overlay, or the
/// layer is not accessible.
pub(crate) fn layer_below(path: &Path) -> Option<PathBuf> {
    let (overlays, mut at) = (Overlays::mounted().ok()?, path.canonicalize().ok()?);
    let mut found = None;
    // An overlay may lie over another.
    for _ in 0..MOST_NAMES {
        let Some(below) = overlays.step_down(&at) else { break };
        (at, found) = (below.clone(), Some(below));
    }
    found
}

/// Explains why a directory must not be changed directly: changes in the layers of a mounted overlay are undefined. Our
/// own files in a lower layer are safe.
pub(crate) fn use_of_directory(path: &Path) -> Result<Option<String>, UnavailableWitness> {
    let Ok(whole) = path.canonicalize() else { return Ok(None) };
    let overlays = Overlays::mounted()?;
    Ok(overlays.0.iter().find_map(|overlay| {
        let point = overlay.line.mount_point.display();
        let own = overlay.upper.iter().chain(&overlay.work).find(|layer| inside(&whole, layer).is_some());
        if let Some(layer) = own {
            return Some(format!("it is in {}, which belongs to the overlay on {point}", layer.display()));
        }
        let is_below =
            |layer: &&PathBuf| overlays.in_layer(overlay, layer).is_some_and(|real| real.starts_with(&whole));
        let below = overlay.layers().chain(&overlay.work).find(is_below);
        below.map(|layer| format!("{} is a layer of the overlay on {point}", layer.display()))
    }))
}

struct Overlays(Vec<Overlay>, Vec<MountLine>);

struct Overlay {
    line: MountLine,
    upper: Option<PathBuf>,
    work: Option<PathBuf>,
    lower: Vec<PathBuf>,
}

impl Overlays {
    fn mounted() -> Result<Self, UnavailableWitness> {
        let lines = guard::mounted()?;
        Ok(Self(lines.iter().filter(|line| line.file_system == "overlay").map(Overlay::of).collect(), lines))
    }

    fn over(&self, path: &Path) -> Option<&Overlay> {
        let covering = self.1.iter().filter(|line| path.starts_with(&line.mount_point));
        let line = covering.max_by_key(|line| line.mount_point.components().count())?;
        self.0.iter().find(|overlay| overlay.line == *line)
    }

    /// Returns a name in a layer. `None` if the name means another file here: a layer cannot be in its own overlay.
    fn in_layer(&self, overlay: &Overlay, name: &Path) -> Option<PathBuf> {
        let real = name.canonicalize().ok()?;
        let over = self.over(&real);
        (over.is_none_or(|over| over.line != overlay.line)).then_some(real)
    }

    fn step_down(&self, path: &Path) -> Option<PathBuf> {
        let overlay = self.over(path)?;
        let inner = overlay.inner(path)?;
        let found = overlay.layers().find_map(|layer| self.in_layer(overlay, &layer.join(&inner)));
        found.or_else(|| self.in_layer(overlay, overlay.upper.as_ref()?))
    }

    fn down(&self, name: &Path) -> Option<Down> {
        let overlay = self.over(name)?;
        let inner = overlay.inner(name)?;
        let names: Vec<PathBuf> = overlay.layers().map(|layer| layer.join(&inner)).collect();
        let seen = names.iter().filter_map(|name| self.in_layer(overlay, name)).find(|name| name.is_file());
        Some(seen.map_or(Down::Hidden(names), Down::Seen))
    }

    fn known(&self, path: &Path) -> OverlayFile {
        let (mut names, mut next) = (vec![path.to_path_buf()], 0);
        let mut known = OverlayFile::default();
        while let Some(name) = names.get(next).cloned().filter(|_| next < MOST_NAMES) {
            next += 1;
            known.numbers.extend(numbers_of(&name));
            match self.down(&name) {
                Some(Down::Seen(below)) => names.push(below),
                Some(Down::Hidden(below)) => known.hide(below),
                None if is_of_type(&name, OVERLAY_MAGIC) => {
                    known.unseen =
                        Some(UnavailableWitness("the mount table does not list the overlay around it".into()));
                }
                None => {}
            }
            names.extend(self.0.iter().filter_map(|overlay| self.up(overlay, &name)));
            let mut seen = BTreeSet::new();
            names.retain(|name| seen.insert(name.clone()));
        }
        known.numbers.sort_unstable();
        known.numbers.dedup();
        known
    }

    fn up(&self, overlay: &Overlay, name: &Path) -> Option<PathBuf> {
        let layers: Vec<&PathBuf> = overlay.layers().collect();
        let (at, inner) = layers.iter().enumerate().find_map(|(at, layer)| Some((at, inside(name, layer)?)))?;
        let is_covered = layers[..at].iter().any(|above| above.join(&inner).symlink_metadata().is_ok());
        let shown = overlay.line.mount_point.join(inner.strip_prefix(overlay.line.root.trim_start_matches('/')).ok()?);
        let is_it = !is_covered && shown.is_file() && self.over(&shown).is_some_and(|over| over.line == overlay.line);
        is_it.then_some(shown)
    }
}

impl OverlayFile {
    /// Adds names in layers that are not accessible here; they may be accessible from the machine's root.
    fn hide(&mut self, names: Vec<PathBuf>) {
        let whole = Tree::proc().and_then(|proc| proc.shows_whole_machine());
        let from_root =
            |name: &PathBuf| numbers_of(&Path::new("/proc/1/root").join(name.strip_prefix("/").unwrap_or(name)));
        match whole {
            Ok(()) => self.numbers.extend(names.iter().find_map(from_root)),
            Err(silent) => {
                self.unseen =
                    Some(UnavailableWitness(format!("its layer of the overlay is not accessible here; {silent}")))
            }
        }
        self.hidden.extend(names);
    }
}

enum Down {
    Seen(PathBuf),
    Hidden(Vec<PathBuf>),
}

impl Overlay {
    fn of(line: &MountLine) -> Self {
        let of = |name: &str| {
            let words = line.options.split(',').filter_map(|word| word.split_once('='));
            words.filter(|(known, _)| *known == name).map(|(_, value)| unescape(value)).collect::<Vec<String>>()
        };
        let one = |name: &str| of(name).pop().map(PathBuf::from);
        let mut lower: Vec<PathBuf> = of("lowerdir").iter().flat_map(|value| parts(value)).collect();
        // Since Linux 6.5 they may be listed one by one.
        lower.extend(of("lowerdir+").into_iter().map(PathBuf::from));
        Self { line: line.clone(), upper: one("upperdir"), work: one("workdir"), lower }
    }

    fn layers(&self) -> impl Iterator<Item = &PathBuf> {
        self.upper.iter().chain(&self.lower)
    }

    fn inner(&self, name: &Path) -> Option<PathBuf> {
        let below = name.strip_prefix(&self.line.mount_point).ok()?;
        Some(Path::new(self.line.root.trim_start_matches('/')).join(below))
    }
}

fn inside(path: &Path, directory: &Path) -> Option<PathBuf> {
    let wanted = numbers_of(directory)?;
    let above = path.ancestors().find(|above| numbers_of(above) == Some(wanted))?;
    path.strip_prefix(above).ok().map(Path::to_path_buf)
}

fn numbers_of(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Layers separated by colons; a backslash escapes one.
fn parts(value: &str) -> Vec<PathBuf> {
    let (mut found, mut part, mut signs) = (Vec::new(), String::new(), value.chars());
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => part.extend(signs.next()),
            ':' => found.push(std::mem::take(&mut part)),
            sign => part.push(sign),
        }
    }
    found.push(part);
    // Two colons precede a data-only layer.
    found.into_iter().filter(|part| !part.is_empty()).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_read_with_escapes() {
        let text =
            "36 1 0:40 /sub /m rw - overlay overlay rw,lowerdir=/a\\134:b:/c\\040d::/e,upperdir=/u\\054x,workdir=/w\n";
        let overlay = Overlay::of(&guard::parse_mounts(text)[0]);
        assert_eq!(overlay.lower, ["/a:b", "/c d", "/e"].map(PathBuf::from));
        assert_eq!(
            (overlay.upper.as_deref(), overlay.work.as_deref()),
            (Some(Path::new("/u,x")), Some(Path::new("/w")))
        );
        assert_eq!(overlay.inner(Path::new("/m/f")).unwrap(), Path::new("sub/f"));
        let text = "36 1 0:40 / /m rw - overlay none ro,lowerdir+=/a,lowerdir+=/b\n";
        assert_eq!(Overlay::of(&guard::parse_mounts(text)[0]).lower, ["/a", "/b"].map(PathBuf::from));
    }
}
