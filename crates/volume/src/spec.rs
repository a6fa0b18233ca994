//! Parses target names.

use crate::error::TargetError;
use crate::guest::{self, DriveChoice};
use senesce_core::{Bytes, Size};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The forms of a target: `image:FILE[,size=1G]`, `memory:1G`, `/dev/...`, a directory; in the guest also `auto`, its
/// only NVMe drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSpec {
    Image { path: PathBuf, size: Option<Bytes> },
    Memory { size: Bytes },
    Device(PathBuf),
    Directory(PathBuf),
}

impl TargetSpec {
    pub fn image(&self) -> Option<&Path> {
        match self {
            Self::Image { path, .. } => Some(path),
            _ => None,
        }
    }

    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Image { path, .. } | Self::Device(path) | Self::Directory(path) => Some(path),
            Self::Memory { .. } => None,
        }
    }

    pub fn existing(text: &str) -> Result<Self, TargetError> {
        match Path::new(text).is_file() {
            true => Ok(Self::Image { path: text.into(), size: None }),
            false => text.parse(),
        }
    }

    pub fn needs_root(&self) -> bool {
        !matches!(self, Self::Directory(_))
    }
}

impl Serialize for TargetSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TargetSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::of_form(&text).map_err(serde::de::Error::custom)
    }
}

impl FromStr for TargetSpec {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        match Self::of_form(text)? {
            Self::Directory(path) if path.is_file() => Err(TargetError::Usage(format!(
                "cannot use {text} as a directory: it is a file\nhint: to use it as an image, write image:{text}"
            ))),
            target => Ok(target),
        }
    }
}

impl TargetSpec {
    fn of_form(text: &str) -> Result<Self, TargetError> {
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
            return guest::find(text, DriveChoice::Only).map(Self::Device);
        }
        let path = PathBuf::from(text);
        let is_block = path.metadata().is_ok_and(|found| found.file_type().is_block_device());
        if is_block || path.starts_with("/dev") && !path.is_dir() && !path.starts_with("/dev/shm") {
            return Ok(Self::Device(path));
        }
        Ok(Self::Directory(path))
    }
}

fn image_size(text: &str, options: &str) -> Result<Bytes, TargetError> {
    match options.split_once('=') {
        Some(("size", value)) => parse_size(text, value),
        _ => Err(TargetError::Usage(format!("unknown option '{options}' in '{text}': the only option is size=SIZE"))),
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
            Self::Image { path, size: Some(size) } => {
                write!(formatter, "image:{},size={}", path.display(), Size(*size))
            }
            Self::Image { path, size: None } => write!(formatter, "image:{}", path.display()),
            Self::Memory { size } => write!(formatter, "memory:{}", Size(*size)),
            Self::Device(path) | Self::Directory(path) => write!(formatter, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_refused_outside_the_guest() {
        let refused = "auto".parse::<TargetSpec>().unwrap_err();
        assert!(matches!(refused, TargetError::Refused { .. }), "{refused}");
        assert_eq!("./auto".parse::<TargetSpec>().unwrap(), TargetSpec::Directory("./auto".into()));
    }

    #[test]
    fn target_forms_parse_and_print_back() {
        let sized = TargetSpec::Image { path: "a.img".into(), size: Some(Bytes::gib(1)) };
        assert_eq!("image:a.img,size=1G".parse::<TargetSpec>().unwrap(), sized);
        assert_eq!(sized.to_string().parse::<TargetSpec>().unwrap(), sized);
        assert_eq!("memory:512M".parse::<TargetSpec>().unwrap(), TargetSpec::Memory { size: Bytes::mib(512) });
        assert_eq!("/dev/sdz9".parse::<TargetSpec>().unwrap(), TargetSpec::Device("/dev/sdz9".into()));
        assert_eq!("/dev/shm/x".parse::<TargetSpec>().unwrap(), TargetSpec::Directory("/dev/shm/x".into()));
        assert_eq!("some/dir".parse::<TargetSpec>().unwrap(), TargetSpec::Directory("some/dir".into()));
    }

    #[test]
    fn recorded_directory_is_read_even_if_path_is_a_file() {
        let recorded = serde_json::from_str::<TargetSpec>("\"Cargo.toml\"").unwrap();
        assert_eq!(recorded, TargetSpec::Directory("Cargo.toml".into()));
        assert!(matches!("Cargo.toml".parse::<TargetSpec>(), Err(TargetError::Usage(_))));
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
