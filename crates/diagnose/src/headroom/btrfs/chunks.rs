//! Chunks of data and metadata that grow into the unallocated ranges of devices.

use super::EndsBy;
use super::devices::{Devices, Stripes};
use senesce_layout::space::Profile;

/// The next metadata chunk is made when this share of them is used, except for a number of bytes. Reservations do not
/// count while some space is unallocated (fs/btrfs/block-group.c, should_alloc_chunk; fs/btrfs/space-info.c,
/// btrfs_can_overcommit).
const FULL_SHARE: f64 = 0.8;
const FULL_SLACK: f64 = 2_097_152.0;
const LEAST_CHUNK: u64 = 1 << 20;
/// Share of the unallocated space that may be reserved before a chunk is made of it, without the next data chunk
/// (fs/btrfs/space-info.c, calc_available_free_space).
const OVERCOMMIT: f64 = 1.0 / 8.0;

const HALVINGS: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetadataAllocation {
    /// Once most of theirs is used, or reservations exceed their limit.
    Due,
    /// As when due, and another one as soon as they have little space and data need their chunk of at least this
    /// number, counted from 1.
    Before(u64),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChunkSpace {
    pub total: f64,
    pub used: f64,
    /// Bytes that are held back.
    pub held_back: f64,
    /// Bytes reserved in addition when no further file fits.
    pub promised: f64,
    pub promised_before: f64,
    /// With less free space another chunk may be made at any time.
    pub little_room: f64,
    pub each: f64,
    pub profile: Profile,
    /// Maximum bytes of a chunk, and of a stripe of it.
    pub chunk: u64,
    pub stripe: u64,
}

impl ChunkSpace {
    /// Returns the same with this multiple of bytes per file.
    pub(super) fn scaled(&self, times: f64) -> Self {
        Self { each: self.each * times, ..self.clone() }
    }

    /// Returns the same with these bytes reserved in addition.
    pub(super) fn promising(&self, bytes: f64) -> Self {
        Self { promised: self.promised + bytes, ..self.clone() }
    }

    fn bytes_needed(&self, files: f64) -> f64 {
        (self.used + self.held_back + self.promised + files * self.each - self.total).max(0.0)
    }

    fn files_until(&self, end: f64) -> f64 {
        if self.each > 0.0 { ((end - self.used) / self.each).max(0.0) } else { f64::INFINITY }
    }

    fn files_until_full(&self) -> f64 {
        self.files_until(self.total - self.held_back - self.promised)
    }

    /// Returns the number of files until another chunk is made although the last is not full.
    fn files_until_early(&self) -> f64 {
        self.files_until(self.total * FULL_SHARE - FULL_SLACK)
    }

    fn take(&mut self, files: f64) {
        self.used += files * self.each;
    }

    fn next(&self, devices: &Devices) -> Option<Stripes> {
        devices.place(self.profile, self.chunk, self.stripe).filter(|stripes| stripes.bytes >= LEAST_CHUNK)
    }

    /// Makes another chunk; `false` without space for one.
    fn grow(&mut self, devices: &mut Devices) -> bool {
        let Some(stripes) = self.next(devices) else { return false };
        devices.take(&stripes);
        self.total += stripes.bytes as f64;
        true
    }

    fn has_little_space(&self) -> bool {
        self.total - self.used - self.held_back - self.promised < self.little_room
    }

    fn is_short(&self, devices: &Devices, kept_for_data: u64) -> bool {
        let short = self.used + self.held_back + self.promised_before - self.total;
        let spare = (devices.unallocated() / self.profile.copies).saturating_sub(kept_for_data);
        short > spare as f64 * OVERCOMMIT
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct FillState {
    pub data: ChunkSpace,
    pub metadata: ChunkSpace,
    pub devices: Devices,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    pub files: f64,
    pub ends_by: EndsBy,
    pub data_chunks: u64,
}

impl FillState {
    pub(super) fn filled(mut self, mut turn: MetadataAllocation) -> Outcome {
        let (mut files, mut data_chunks) = (0.0, 0);
        loop {
            let may_grow = self.metadata.next(&self.devices).is_some();
            let by_data = self.data.files_until_full();
            let by_metadata = match may_grow {
                true => self.metadata.files_until_early(),
                false => self.metadata.files_until_full(),
            };
            let step = by_data.min(by_metadata);
            files += step;
            self.data.take(step);
            self.metadata.take(step);
            let ends_by = match by_data <= by_metadata {
                true => {
                    data_chunks += 1;
                    self.grow_data(&mut turn, data_chunks).then_some(EndsBy::Bytes)
                }
                false => (!self.metadata.grow(&mut self.devices)).then_some(EndsBy::Metadata),
            };
            if let Some(ends_by) = ends_by {
                return Outcome { files, ends_by, data_chunks };
            }
        }
    }

    /// Returns the maximum number of files that fit: with chunks of any size, made for the use that needs them.
    pub(super) fn at_best(&self) -> f64 {
        let (data, metadata) = (self.devices.reach(self.data.profile), self.devices.reach(self.metadata.profile));
        let unallocated = data.on_devices.max(metadata.on_devices);
        let fits = |files: f64| {
            let (of_data, of_metadata) = (self.data.bytes_needed(files), self.metadata.bytes_needed(files));
            let taken = of_data * data.on_devices_per_byte() + of_metadata * metadata.on_devices_per_byte();
            of_data <= data.bytes && of_metadata <= metadata.bytes && taken <= unallocated
        };
        let (mut low, mut high) = (0.0, (self.metadata.total + metadata.bytes) / self.metadata.each);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            *(if fits(middle) { &mut low } else { &mut high }) = middle;
        }
        high
    }

    /// Makes a data chunk, after metadata have taken theirs. Returns whether that ends the fill.
    fn grow_data(&mut self, turn: &mut MetadataAllocation, number: u64) -> bool {
        let kept_for_data = self.data.chunk;
        if self.metadata.is_short(&self.devices, kept_for_data) {
            self.metadata.grow(&mut self.devices);
        }
        if matches!(turn, MetadataAllocation::Before(first) if *first <= number) && self.metadata.has_little_space() {
            *turn = MetadataAllocation::Due;
            self.metadata.grow(&mut self.devices);
        }
        !self.data.grow(&mut self.devices)
    }
}
