//! Ways back that were interrupted: written down when they begin, ended by a way back that the user asks for and by nothing
//! else. A journal is no order: somebody may have put it there.

use super::Snapshots;
use super::journal::{self, Journal};
use crate::error::TargetError;

impl Snapshots {
    /// Writes down that a way back is under way.
    pub(super) fn begin(&self, name: &str) -> Result<(), TargetError> {
        // Another target may share the folder.
        self.interrupted()?;
        Journal { name: name.into(), identity: Some(self.medium.identity(&self.folder)) }.save(&self.journal_path())
    }

    /// The way back that was begun in this folder; one of another target is refused.
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
                "{} tells of a way back to {name} of another target{target}, which runs or was interrupted",
                self.journal_path().display()
            ),
            format!(
                "go back there first, or name another folder with --store; if it is this one, which was moved, senesce snapshot restore {path} \
                 {name} --erase {path}; remove the journal if the other is gone"
            ),
        )
    }

    /// The same before this target is brought back. One that does not tell its target may be that of another in the same folder.
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
            format!("a way back to {name} was interrupted, and its content is of neither state"),
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
    fn a_journal_tells_its_target() {
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
            assert!(error.to_string().contains("go back there first"), "{error}");
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
