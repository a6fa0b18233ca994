//! Object writer of one thread of a commit.

use super::commit::CommitOptions;
use super::loose::{self, LooseObjectState, LooseWriter};
use super::pack::{self, PackWriter};
use super::staging::PublishedFiles;
use super::{Layout, Store};
use crate::error::StoreError;
use crate::object_id::ObjectId;
use std::path::PathBuf;

pub(super) enum Sink<'a> {
    Loose(LooseWriter<'a>),
    Pack(PackSink<'a>),
}

impl<'a> Sink<'a> {
    pub(crate) fn new(
        store: &Store,
        number: usize,
        options: &CommitOptions,
        placed: &'a PublishedFiles,
    ) -> Result<Self, StoreError> {
        let look_for_old = loose::any(&store.path.join("objects"))?;
        let (threads, scheme) = (options.threads, store.settings.scheme);
        let loose = LooseWriter::new(&store.path, number, threads, scheme, look_for_old, placed)?;
        Ok(match options.layout {
            Layout::Loose => Self::Loose(loose),
            Layout::Pack => {
                Self::Pack(PackSink { store: store.path.clone(), number, loose, open: None, full: Vec::new(), placed })
            }
        })
    }

    pub(crate) fn holds(&self, id: &ObjectId, data: &[u8]) -> LooseObjectState {
        match self {
            Self::Loose(loose) => loose.holds(id, data),
            Self::Pack(sink) => sink.loose.holds(id, data),
        }
    }

    /// Stores an object; `replaces`: a damaged loose one exists.
    pub(crate) fn put(&mut self, id: ObjectId, data: &[u8], replaces: bool) -> Result<(), StoreError> {
        match self {
            Self::Loose(loose) => loose.put(id, data, replaces),
            Self::Pack(sink) if replaces => sink.loose.put(id, data, replaces),
            Self::Pack(sink) => sink.put(id, data),
        }
    }
}

/// Packs of one thread, each written sequentially.
pub(super) struct PackSink<'a> {
    store: PathBuf,
    number: usize,
    loose: LooseWriter<'a>,
    open: Option<PackWriter>,
    full: Vec<PathBuf>,
    placed: &'a PublishedFiles,
}

impl PackSink<'_> {
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
            let pack = writer.finish(&self.store.join("packs"))?;
            PublishedFiles::add(&self.placed.packs, [pack.clone()]);
            self.full.push(pack);
        }
        Ok(())
    }

    /// Returns its packs, durable and in place.
    pub(crate) fn finish(mut self) -> Result<Vec<PathBuf>, StoreError> {
        self.close()?;
        if !self.loose.is_empty() {
            self.loose.sync()?;
            self.loose.publish()?;
            self.loose.sync()?;
        }
        Ok(self.full)
    }
}
