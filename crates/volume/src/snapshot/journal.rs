//! The journal of a way back that may have been interrupted: the name of its snapshot.

use super::manifest::check_name;
use crate::error::TargetError;
use senesce_core::input;
use std::path::Path;

/// The snapshot of an interrupted way back; `None`: none was. What is no journal is not shown: the folder may be somebody else's,
/// and its journal a link to what only root may read.
pub(super) fn read(journal: &Path) -> Result<Option<String>, TargetError> {
    if journal.is_symlink() {
        let remedy = "remove it, or name another folder with --store";
        return Err(TargetError::refused(journal.display(), "it is a symbolic link", remedy));
    }
    let name = match input::regular_text(journal) {
        Ok(name) => name,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(TargetError::io("read the journal of an interrupted way back,", journal)(error)),
    };
    match check_name(&name) {
        Ok(()) => Ok(Some(name)),
        Err(_) => {
            let problem = "the journal of an interrupted way back names no snapshot; remove it if none was interrupted";
            Err(TargetError::damaged(journal, problem))
        }
    }
}
