//! Where one thread of a commit writes its objects.

use super::commit::CommitOptions;
use super::loose::{self, LooseWriter};
use super::pack::{self, PackWriter};
use super::{Layout, Store};
use crate::error::StoreError;
use crate::object_id::ObjectId;
use std::path::PathBuf;

/// Where one thread writes its objects.
pub(super) enum Sink {
    Loose(LooseWriter),
    Pack(PackSink),
}

impl Sink {
    pub fn new(store: &Store, number: usize, options: &CommitOptions) -> Result<Self, StoreError> {
        let look_for_old = loose::any(&store.path.join("objects"))?;
        let loose = LooseWriter::new(&store.path, number, options.threads, store.settings.scheme, look_for_old)?;
        Ok(match options.layout {
            Layout::Loose => Self::Loose(loose),
            Layout::Pack => {
                Self::Pack(PackSink { store: store.path.clone(), number, loose, open: None, full: Vec::new() })
            }
        })
    }

    pub fn has(&self, id: &ObjectId, length: usize) -> bool {
        match self {
            Self::Loose(loose) => loose.has(id, length),
            Self::Pack(sink) => sink.loose.has(id, length),
        }
    }

    pub fn put(&mut self, id: ObjectId, data: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::Loose(loose) => loose.put(id, data),
            Self::Pack(sink) => sink.put(id, data),
        }
    }
}

/// One thread's packs; every thread writes its own, each from front to end.
pub(super) struct PackSink {
    store: PathBuf,
    number: usize,
    loose: LooseWriter,
    open: Option<PackWriter>,
    full: Vec<PathBuf>,
}

impl PackSink {
    fn put(&mut self, id: ObjectId, data: &[u8]) -> Result<(), StoreError> {
        let writer = match &mut self.open {
            Some(writer) => writer,
            None => {
                let name = format!("pack-{}-{}", self.number, self.full.len());
                self.open.insert(PackWriter::create(self.store.join("staging").join(name))?)
            }
        };
        writer.append(id, data)?;
        if writer.bytes() >= pack::FULL_BYTES { self.close() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if let Some(writer) = self.open.take() {
            self.full.push(writer.finish(&self.store.join("packs"))?);
        }
        Ok(())
    }

    /// Its packs, durable and in place.
    pub fn finish(mut self) -> Result<Vec<PathBuf>, StoreError> {
        self.close()?;
        Ok(self.full)
    }
}
