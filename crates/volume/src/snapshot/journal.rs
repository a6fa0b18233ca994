//! The journal of a restore that may have been interrupted: the name of the snapshot, and on the next line the target.

use super::manifest::check_name;
use crate::error::TargetError;
use crate::image_file::replace;
use senesce_core::input;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Journal {
    pub name: String,
    /// The identity of its target; `None` if an old version wrote the journal.
    pub identity: Option<String>,
}

impl Journal {
    pub(super) fn save(&self, journal: &Path) -> Result<(), TargetError> {
        let text = match &self.identity {
            Some(identity) => format!("{}\n{identity}", self.name),
            None => self.name.clone(),
        };
        replace(journal, |to| {
            to.file.write_all_at(text.as_bytes(), 0).map_err(TargetError::io("write the journal", to.path))
        })
    }
}

/// Reads an interrupted restore. Does not print the content of an invalid file. The folder may belong to another user,
/// and its journal may be a link to a file that only root may read.
pub(super) fn read(journal: &Path) -> Result<Option<Journal>, TargetError> {
    if journal.is_symlink() {
        let remedy = "remove it, or name another folder with --store";
        return Err(TargetError::refused(journal.display(), "it is a symbolic link", remedy));
    }
    let text = match input::regular_text(journal) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(TargetError::io("read the journal of an interrupted restore,", journal)(error)),
    };
    let (name, identity) = match text.split_once('\n') {
        Some((name, identity)) => (name, Some(identity.to_string())),
        None => (text.as_str(), None),
    };
    match check_name(name) {
        Ok(()) if identity.as_deref() != Some("") => Ok(Some(Journal { name: name.into(), identity })),
        _ => {
            let problem = "the journal of an interrupted restore does not name a snapshot; remove it if no restore was interrupted";
            Err(TargetError::damaged(journal, problem))
        }
    }
}
