//! What the user wrote to name a target.

use crate::error::TargetError;
use senesce_core::Bytes;
use std::fmt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The forms of a target: `image:FILE[,size=1G]`, `memory:1G`, `/dev/...`, `auto` (the only NVMe drive), a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSpec {
    /// An image file, attached to a loop device.
    Image {
        /// The file.
        path: PathBuf,
        /// Its size, if it is to be made.
        size: Option<Bytes>,
    },
    /// An image in memory that is gone when it is closed.
    Memory {
        /// Its size.
        size: Bytes,
    },
    /// A block device.
    Device(PathBuf),
    /// A directory of a mounted file system.
    Directory(PathBuf),
}

impl TargetSpec {
    /// The path it names, if any.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Image { path, .. } | Self::Device(path) | Self::Directory(path) => Some(path),
            Self::Memory { .. } => None,
        }
    }

    /// Reads the name of something that exists already, where a plain FILE means an image.
    pub fn existing(text: &str) -> Result<Self, TargetError> {
        match Path::new(text).is_file() {
            true => Ok(Self::Image { path: text.into(), size: None }),
            false => text.parse(),
        }
    }

    /// Whether a loop device or a mount, and so root, is needed to use it.
    pub fn needs_root(&self) -> bool {
        !matches!(self, Self::Directory(_))
    }
}

impl FromStr for TargetSpec {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if let Some(rest) = text.strip_prefix("image:") {
            let (path, options) = rest.split_once(',').map_or((rest, None), |(path, options)| (path, Some(options)));
            let size = options.map(|options| image_size(text, options)).transpose()?;
            return match path {
                "" => Err(TargetError::Usage(format!("'{text}' names no file: write image:FILE[,size=1G]"))),
                path => Ok(Self::Image { path: path.into(), size }),
            };
        }
        if let Some(rest) = text.strip_prefix("memory:") {
            return Ok(Self::Memory { size: parse_size(text, rest.strip_prefix("size=").unwrap_or(rest))? });
        }
        if text.is_empty() {
            return Err(TargetError::Usage(
                "the target is empty: write a directory, image:FILE[,size=1G], memory:1G or a block device".into(),
            ));
        }
        if text == "auto" && !Path::new(text).exists() {
            return only_drive(Path::new("/sys/block")).map(Self::Device);
        }
        let path = PathBuf::from(text);
        let is_block = path.metadata().is_ok_and(|found| found.file_type().is_block_device());
        if is_block || path.starts_with("/dev") && !path.is_dir() && !path.starts_with("/dev/shm") {
            return Ok(Self::Device(path));
        }
        if path.is_file() {
            return Err(TargetError::Usage(format!("{text} is a file: to use it as an image write image:{text}")));
        }
        Ok(Self::Directory(path))
    }
}

/// The only NVMe namespace, as in the lab's guest, where names change between boots.
fn only_drive(blocks: &Path) -> Result<PathBuf, TargetError> {
    let entries = std::fs::read_dir(blocks).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.starts_with("nvme"));
    names.sort();
    match names.as_slice() {
        [only] => Ok(Path::new("/dev").join(only)),
        [] => Err(TargetError::missing(
            "auto: an NVMe drive",
            "name a device, or run in the guest: senesce lab run --drive nvme",
        )),
        several => {
            Err(TargetError::Usage(format!("auto stands for the only NVMe drive; name one of {}", several.join(", "))))
        }
    }
}

fn image_size(text: &str, options: &str) -> Result<Bytes, TargetError> {
    match options.split_once('=') {
        Some(("size", value)) => parse_size(text, value),
        _ => Err(TargetError::Usage(format!("'{options}' in '{text}' is not known: the only option is size=SIZE"))),
    }
}

fn parse_size(text: &str, value: &str) -> Result<Bytes, TargetError> {
    let size: Bytes = value.parse().map_err(|error| TargetError::Usage(format!("in '{text}': {error}")))?;
    if size.0 == 0 {
        return Err(TargetError::Usage(format!("in '{text}': the size must be above zero")));
    }
    Ok(size)
}

impl fmt::Display for TargetSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image { path, size: Some(size) } => write!(formatter, "image:{},size={}", path.display(), size.0),
            Self::Image { path, size: None } => write!(formatter, "image:{}", path.display()),
            Self::Memory { size } => write!(formatter, "memory:{}", size.0),
            Self::Device(path) | Self::Directory(path) => write!(formatter, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_the_only_nvme_drive() {
        let blocks = tempfile::tempdir().unwrap();
        assert!(matches!(only_drive(blocks.path()), Err(TargetError::Missing { .. })));
        for name in ["vda", "nvme0n1"] {
            std::fs::create_dir(blocks.path().join(name)).unwrap();
        }
        assert_eq!(only_drive(blocks.path()).unwrap(), Path::new("/dev/nvme0n1"));
        std::fs::create_dir(blocks.path().join("nvme1n1")).unwrap();
        assert!(only_drive(blocks.path()).unwrap_err().to_string().contains("nvme0n1, nvme1n1"));
    }

    #[test]
    fn the_forms_are_told_apart_and_printed_back() {
        let sized = TargetSpec::Image { path: "a.img".into(), size: Some(Bytes::gib(1)) };
        assert_eq!("image:a.img,size=1G".parse::<TargetSpec>().unwrap(), sized);
        assert_eq!(sized.to_string().parse::<TargetSpec>().unwrap(), sized);
        assert_eq!("memory:512M".parse::<TargetSpec>().unwrap(), TargetSpec::Memory { size: Bytes::mib(512) });
        assert_eq!("/dev/sdz9".parse::<TargetSpec>().unwrap(), TargetSpec::Device("/dev/sdz9".into()));
        assert_eq!("/dev/shm/x".parse::<TargetSpec>().unwrap(), TargetSpec::Directory("/dev/shm/x".into()));
        assert_eq!("some/dir".parse::<TargetSpec>().unwrap(), TargetSpec::Directory("some/dir".into()));
    }

    #[test]
    fn a_plain_file_that_exists_is_an_image() {
        let image = TargetSpec::Image { path: "Cargo.toml".into(), size: None };
        assert_eq!(TargetSpec::existing("Cargo.toml").unwrap(), image);
        assert_eq!(TargetSpec::existing("image:Cargo.toml").unwrap(), image);
    }

    #[test]
    fn wrong_words_are_usage_errors() {
        for text in ["", "image:", "image:a,size=1g5", "image:a,sise=1G", "image:a,size=0", "memory:", "Cargo.toml"] {
            assert!(matches!(text.parse::<TargetSpec>(), Err(TargetError::Usage(_))), "{text}");
        }
    }
}
