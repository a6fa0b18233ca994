//! Interrupted restores. A restore is recorded when it begins, and completed only by a restore that the user requests.
//! A journal proves nothing: another user may have written it.

use super::Snapshots;
use super::journal::{self, Journal};
use crate::error::TargetError;

impl Snapshots {
    pub(super) fn begin(&self, name: &str) -> Result<(), TargetError> {
        // Another target may share the folder.
        self.interrupted()?;
        Journal { name: name.into(), identity: Some(self.medium.identity(&self.folder)) }.save(&self.journal_path())
    }

    /// Returns the restore that was begun in this folder; refuses one of another target.
    fn interrupted(&self) -> Result<Option<Journal>, TargetError> {
        let Some(journal) = journal::read(&self.journal_path())? else { return Ok(None) };
        let is_ours = journal.identity.as_ref().is_none_or(|theirs| *theirs == self.medium.identity(&self.folder));
        match is_ours || self.medium.is_named(self.erase.as_deref()) {
            true => Ok(Some(journal)),
            false => Err(self.of_another(&journal)),
        }
    }

    fn of_another(&self, journal: &Journal) -> TargetError {
        let (path, name) = (self.medium.path().display(), &journal.name);
        let target = journal.identity.as_ref().map_or_else(String::new, |theirs| format!(" ({theirs})"));
        TargetError::refused(
            &path,
            format!(
                "{} records a restore of {name} on another target{target}, which is running or was interrupted",
                self.journal_path().display()
            ),
            format!(
                "restore that target first, or name another folder with --store; if this target was moved: senesce \
                 snapshot restore {path} {name} --erase {path}; if that target no longer exists: remove the journal"
            ),
        )
    }

    /// Returns the interrupted restore before a restore of this target. A journal without a target may belong to
    /// another one in the same folder.
    pub(super) fn interrupted_here(&self) -> Result<Option<Journal>, TargetError> {
        let Some(journal) = self.interrupted()? else { return Ok(None) };
        let is_told = || {
            journal.identity.is_some()
                || self.medium.is_nameless()
                || self.manifest(&journal.name).is_ok_and(|manifest| manifest.identity.is_some())
        };
        match self.medium.is_own(&self.folder) || self.medium.is_named(self.erase.as_deref()) || is_told() {
            true => Ok(Some(journal)),
            false => Err(self.of_another(&journal)),
        }
    }

    pub(super) fn refuse_interrupted(&self) -> Result<(), TargetError> {
        let Some(Journal { name, .. }) = self.interrupted()? else { return Ok(()) };
        let path = self.medium.path().display();
        Err(TargetError::refused(
            &path,
            format!("a restore of {name} was interrupted, and its content is a mix of two states"),
            format!("complete it first: senesce snapshot restore {path} {name} (with the same --store)"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::TargetSpec;
    use crate::snapshot::{Method, Snapshots};
    use std::fs;

    #[test]
    fn journal_names_its_target() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store");
        let of = |name: &str| {
            let path = directory.path().join(name);
            fs::write(&path, vec![name.as_bytes()[0]; 1 << 20]).unwrap();
            Snapshots::of(&TargetSpec::Image { path, size: None }, Some(&store))
        };
        let (first, second) = (of("a.img").unwrap(), of("b.img").unwrap());
        first.create("one", Method::Copy).unwrap();
        second.create("two", Method::Copy).unwrap();
        first.begin("one").unwrap();
        let refused = |error: crate::TargetError| {
            assert!(matches!(error, crate::TargetError::Refused { .. }), "{error}");
            assert!(error.to_string().contains("restore that target first"), "{error}");
        };
        refused(second.begin("two").unwrap_err());
        drop((first, second));
        let mut second = of("b.img").unwrap();
        refused(second.rollback("two", true).unwrap_err());
        refused(second.create("three", Method::Copy).unwrap_err());
        assert_eq!(fs::read(directory.path().join("b.img")).unwrap(), vec![b'b'; 1 << 20]);
        of("a.img").unwrap().rollback("one", false).unwrap();
        second.rollback("two", false).unwrap();
    }
}
