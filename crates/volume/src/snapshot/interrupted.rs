//! Ways back that were interrupted: written down when they begin, completed by the next call on the same target.

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
                "go back there first, or name another folder with --store; if it is this one, which was moved, senesce rollback {path} \
                 {name} --erase {path}; remove the journal if the other is gone"
            ),
        )
    }

    /// Completes the way back that a killed process began.
    pub(super) fn complete_interrupted(&mut self) -> Result<(), TargetError> {
        let Some(journal) = self.interrupted()? else { return Ok(()) };
        let name = journal.name.clone();
        let mut manifest = self.manifest(&name)?;
        let is_told = journal.identity.is_some() || manifest.identity.is_some() || self.medium.is_nameless();
        if !is_told && !self.medium.is_own(&self.folder) && !self.medium.is_named(self.erase.as_deref()) {
            return Err(self.of_another(&journal));
        }
        let report = self.go_back(&name, &mut manifest, false)?;
        if !report.verified {
            let snapshot = self.image_path(&name);
            let problem =
                "the snapshot is damaged: an interrupted way back to it was completed, but the content differs";
            return Err(TargetError::damaged(&snapshot, problem));
        }
        self.note = Some(format!("an interrupted way back to {name} was completed first"));
        Ok(())
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
        refused(of("b.img").unwrap_err());
        assert_eq!(fs::read(directory.path().join("b.img")).unwrap(), vec![b'b'; 1 << 20]);
        drop(of("a.img").unwrap());
        drop(of("b.img").unwrap());
    }
}
