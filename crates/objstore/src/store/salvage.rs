//! Copies the intact objects of damaged packs into new packs, and renames the damaged packs.

use super::pack::{Pack, PackWriter};
use super::{Store, names, sync_directory};
use crate::error::{StoreError, io};
use senesce_core::interrupt::Interrupt;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Suffix of a damaged pack whose intact objects were copied.
const DAMAGED: &str = "damaged";

impl Store {
    /// Salvages the packs with these numbers and those with a damaged index; `fresh` ones were written by this commit. Returns
    /// the renamed packs.
    pub(super) fn salvage(
        &mut self,
        mut damaged: BTreeSet<usize>,
        fresh: &[PathBuf],
        interrupt: &Interrupt,
    ) -> Result<Vec<PathBuf>, StoreError> {
        damaged.extend((0..self.packs.len()).filter(|number| self.packs[*number].problem.is_some()));
        // A new pack of the same name has replaced a damaged one.
        damaged.retain(|number| fresh.iter().filter(|path| **path == self.packs[*number].path).count() == 0);
        let mut kept = Vec::new();
        for number in &damaged {
            let old = self.packs[*number].path.clone();
            let new = self.copy_whole(*number, &damaged, interrupt)?;
            if new.as_ref() != Some(&old) {
                kept.push(set_aside(&old)?);
            }
        }
        if !damaged.is_empty() {
            sync_directory(&self.path.join("packs"))?;
            *self = Self::open(&self.path)?;
        }
        Ok(kept)
    }

    /// Copies the intact objects of a damaged pack that no sound pack holds into a new pack, if there are any.
    fn copy_whole(
        &self,
        number: usize,
        damaged: &BTreeSet<usize>,
        interrupt: &Interrupt,
    ) -> Result<Option<PathBuf>, StoreError> {
        let pack = &self.packs[number];
        let mut writer = PackWriter::create(self.path.join("staging").join(format!("salvaged-{number}")))?;
        for entry in &pack.entries {
            if interrupt.requested() {
                return Err(StoreError::Interrupted);
            }
            let elsewhere = self.copies(&entry.id).any(|(other, _)| other != number && !damaged.contains(&other));
            if let Some(data) = self.whole(pack, entry).filter(|_| !elsewhere) {
                writer.append(entry.id, &data)?;
            }
        }
        if writer.is_empty() { Ok(None) } else { writer.finish(&self.path.join("packs")).map(Some) }
    }

    pub(super) fn set_aside(&self) -> Result<Vec<PathBuf>, StoreError> {
        let is_aside =
            |path: &PathBuf| path.to_string_lossy().rsplit('.').next().is_some_and(|end| end.starts_with(DAMAGED));
        Ok(names(&self.path.join("packs"))?.into_iter().filter(is_aside).collect())
    }

    fn whole(&self, pack: &Pack, entry: &super::pack::PackEntry) -> Option<Vec<u8>> {
        pack.read(entry).ok().filter(|data| self.settings.hash.name(data) == entry.id)
    }
}

/// Renames a damaged pack to a name that stores ignore.
fn set_aside(pack: &Path) -> Result<PathBuf, StoreError> {
    let aside = (1..)
        .map(|number| {
            pack.with_extension(if number == 1 {
                format!("pack.{DAMAGED}")
            } else {
                format!("pack.{DAMAGED}-{number}")
            })
        })
        .find(|path| path.symlink_metadata().is_err())
        .unwrap_or_else(|| pack.to_path_buf());
    fs::rename(pack, &aside).map_err(io("rename", pack))?;
    Ok(aside)
}
