//! Reads all objects and compares them with their names.

use super::Store;
use super::loose::{self, LooseFile};
use super::snapshot::EntryKind;
use crate::error::StoreError;
use crate::object_id::ObjectId;
use rayon::prelude::*;
use senesce_core::failure::errno_message;
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Progress;
use serde::Serialize;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// An object whose content does not match its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamagedObject {
    pub object: ObjectId,
    /// File and position.
    pub place: String,
    pub problem: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AffectedFile {
    pub snapshot: u64,
    pub path: String,
    /// The first of its objects that is damaged or missing.
    pub object: ObjectId,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VerifyReport {
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    pub snapshots: u64,
    pub damaged: Vec<DamagedObject>,
    /// Objects that a snapshot needs and the store does not have.
    pub missing: Vec<ObjectId>,
    pub affected_files: Vec<AffectedFile>,
    /// Problems of packs, snapshots and other files.
    pub problems: Vec<String>,
    /// Bytes on disk staged by a running or failed commit. The next commit removes them.
    pub staging_bytes: u64,
    /// Damaged packs whose intact objects were copied to others.
    pub set_aside: Vec<String>,
    /// Wall-clock time.
    pub elapsed_seconds: f64,
}

impl VerifyReport {
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.missing.is_empty() && self.problems.is_empty()
    }
}

pub fn verify(store: &Store, progress: &dyn Progress, interrupt: &Interrupt) -> Result<VerifyReport, StoreError> {
    let started = Instant::now();
    let mut report = VerifyReport::default();
    for pack in &store.packs {
        report.problems.extend(pack.problem.iter().map(|problem| format!("{}: {problem}", pack.path.display())));
    }
    report.staging_bytes = store.staged_bytes()?;
    report.set_aside = store.set_aside()?.iter().map(|path| path.display().to_string()).collect();
    let places = places(store, &mut report, interrupt)?;
    progress.phase("verify", places.len() as u64, "objects");
    let (done, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let check = |place: &CopyLocation| {
        if interrupt.requested() {
            return None;
        }
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_multiple_of(1000) {
            progress.position(count, "");
        }
        place.check(store, &bytes)
    };
    let findings: Vec<Option<Finding>> = places.par_iter().map(check).collect();
    if interrupt.requested() {
        return Err(StoreError::Interrupted);
    }
    report.objects = places.len() as u64;
    report.bytes = bytes.into_inner();
    let mut whole = HashSet::new();
    for (place, finding) in places.iter().zip(findings) {
        match finding {
            Some(Finding::Damaged(copy)) => {
                report.damaged.push(copy);
                continue;
            }
            Some(Finding::Problem(problem)) => report.problems.push(problem),
            None => {}
        }
        whole.insert(place.id());
    }
    let damaged: HashSet<ObjectId> = report.damaged.iter().map(|copy| copy.object).collect();
    check_snapshots(store, &whole, &damaged, &mut report, interrupt)?;
    report.elapsed_seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

enum Finding {
    Damaged(DamagedObject),
    Problem(String),
}

enum CopyLocation {
    Packed { pack: usize, entry: super::pack::PackEntry },
    Loose(ObjectId, std::path::PathBuf),
}

fn places(store: &Store, report: &mut VerifyReport, interrupt: &Interrupt) -> Result<Vec<CopyLocation>, StoreError> {
    let mut places = Vec::new();
    for (number, pack) in store.packs.iter().enumerate() {
        places.extend(pack.entries.iter().map(|entry| CopyLocation::Packed { pack: number, entry: *entry }));
    }
    for found in loose::list(&store.path.join("objects"), store.settings.scheme, interrupt)? {
        match found {
            LooseFile::Object(id, path) => places.push(CopyLocation::Loose(id, path)),
            LooseFile::Other(path) => report.problems.push(format!("{} is not an object", path.display())),
        }
    }
    Ok(places)
}

impl CopyLocation {
    fn id(&self) -> ObjectId {
        match self {
            Self::Packed { entry, .. } => entry.id,
            Self::Loose(id, _) => *id,
        }
    }

    fn check(&self, store: &Store, bytes: &AtomicU64) -> Option<Finding> {
        let data = match self {
            Self::Packed { pack, entry } => store.packs[*pack].read(entry),
            Self::Loose(_, path) => super::read_loose(path),
        };
        let problem = match data {
            Err(error) => format!("cannot be read: {}", errno_message(&error)),
            Ok(data) => {
                bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                if store.settings.hash.name(&data) == self.id() {
                    return self.damaged_header(store);
                }
                format!("its name is not the hash of its {} bytes", data.len())
            }
        };
        Some(Finding::Damaged(DamagedObject { object: self.id(), place: self.words(store), problem }))
    }

    /// Reports an object that is readable only while the index of its pack is intact.
    fn damaged_header(&self, store: &Store) -> Option<Finding> {
        let Self::Packed { pack, entry } = self else { return None };
        let problem = || Finding::Problem(format!("{}: the header of the object is damaged", self.words(store)));
        (!store.packs[*pack].has_header(entry)).then(problem)
    }

    fn words(&self, store: &Store) -> String {
        match self {
            Self::Packed { pack, entry } => format!("{}, offset {}", store.packs[*pack].path.display(), entry.offset),
            Self::Loose(_, path) => path.display().to_string(),
        }
    }
}

fn check_snapshots(
    store: &Store,
    whole: &HashSet<ObjectId>,
    damaged: &HashSet<ObjectId>,
    report: &mut VerifyReport,
    interrupt: &Interrupt,
) -> Result<(), StoreError> {
    let mut missing = HashSet::new();
    for number in store.snapshot_numbers()? {
        if interrupt.requested() {
            return Err(StoreError::Interrupted);
        }
        let snapshot = store.snapshot(Some(number))?;
        report.snapshots += 1;
        report.problems.extend(snapshot.problems.iter().map(|problem| format!("snapshot {number}: {problem}")));
        let settings = store.settings();
        if snapshot.header.is_some_and(|header| (header.hash, header.chunker) != (settings.hash, settings.chunker)) {
            report.problems.push(format!("snapshot {number}: it belongs to a store with other settings"));
        }
        for entry in &snapshot.entries {
            let EntryKind::File { objects, .. } = &entry.kind else { continue };
            let mut lost = objects.iter().map(|run| run.object).filter(|object| !whole.contains(object)).peekable();
            let Some(object) = lost.peek().copied() else { continue };
            report.affected_files.push(AffectedFile { snapshot: number, path: entry.path.clone(), object });
            missing.extend(lost.filter(|object| !damaged.contains(object)));
        }
    }
    report.missing = missing.into_iter().collect();
    report.missing.sort();
    Ok(())
}
