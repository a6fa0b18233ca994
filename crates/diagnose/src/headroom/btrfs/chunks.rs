//! Chunks of data and of metadata that grow into the ranges of devices which belong to none.

use super::EndsBy;
use super::devices::{Devices, Stripes};
use senesce_layout::space::Profile;

/// Another metadata chunk is made once this share of them is used, but for so many bytes. What is promised does not count while
/// something is unallocated (fs/btrfs/block-group.c, should_alloc_chunk; fs/btrfs/space-info.c, btrfs_can_overcommit).
const FULL_SHARE: f64 = 0.8;
const FULL_SLACK: f64 = 2_097_152.0;
const LEAST_CHUNK: u64 = 1 << 20;
/// Part of what is unallocated that may be promised before a chunk is made of it, once the next chunk of data has its place (fs/btrfs/
/// space-info.c, calc_available_free_space).
const OVERCOMMIT: f64 = 1.0 / 8.0;

const HALVINGS: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Once most of theirs is used, or what is promised exceeds what may be.
    Due,
    /// As when due, and another one as soon as they have little room and data want their chunk of at least this number, counted from
    /// 1.
    Before(u64),
}

/// Chunks of one use while files are created.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Growing {
    pub total: f64,
    pub used: f64,
    /// Bytes that are held back.
    pub held_back: f64,
    /// Bytes promised beside when no further file fits.
    pub promised: f64,
    /// The same while others still do.
    pub promised_before: f64,
    /// With less room another chunk may be made at any time.
    pub little_room: f64,
    /// Bytes of a file.
    pub each: f64,
    pub profile: Profile,
    /// Bytes of a chunk at most, and of a stripe of it.
    pub chunk: u64,
    pub stripe: u64,
}

impl Growing {
    /// The same where a file takes so many times the bytes.
    pub(super) fn scaled(&self, times: f64) -> Self {
        Self { each: self.each * times, ..self.clone() }
    }

    /// The same where so many bytes more are promised.
    pub(super) fn promising(&self, bytes: f64) -> Self {
        Self { promised: self.promised + bytes, ..self.clone() }
    }

    /// Bytes that so many files want beyond the chunks there are.
    fn wanted(&self, files: f64) -> f64 {
        (self.used + self.held_back + self.promised + files * self.each - self.total).max(0.0)
    }

    /// Files until so many bytes are used.
    fn files_until(&self, end: f64) -> f64 {
        if self.each > 0.0 { ((end - self.used) / self.each).max(0.0) } else { f64::INFINITY }
    }

    fn files_until_full(&self) -> f64 {
        self.files_until(self.total - self.held_back - self.promised)
    }

    /// Files until another chunk is made although the last is not full.
    fn files_until_early(&self) -> f64 {
        self.files_until(self.total * FULL_SHARE - FULL_SLACK)
    }

    fn take(&mut self, files: f64) {
        self.used += files * self.each;
    }

    fn next(&self, devices: &Devices) -> Option<Stripes> {
        devices.place(self.profile, self.chunk, self.stripe).filter(|stripes| stripes.bytes >= LEAST_CHUNK)
    }

    /// Makes another chunk; `false` if there is no space for one.
    fn grow(&mut self, devices: &mut Devices) -> bool {
        let Some(stripes) = self.next(devices) else { return false };
        devices.take(&stripes);
        self.total += stripes.bytes as f64;
        true
    }

    fn has_little_room(&self) -> bool {
        self.total - self.used - self.held_back - self.promised < self.little_room
    }

    /// Whether more is promised than the chunks hold, beyond what may be promised of what is unallocated.
    fn is_short(&self, devices: &Devices, kept_for_data: u64) -> bool {
        let short = self.used + self.held_back + self.promised_before - self.total;
        let spare = (devices.unallocated() / self.profile.copies).saturating_sub(kept_for_data);
        short > spare as f64 * OVERCOMMIT
    }
}

/// A file system while files are created.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FillState {
    pub data: Growing,
    pub metadata: Growing,
    pub devices: Devices,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    pub files: f64,
    pub ends_by: EndsBy,
    pub data_chunks: u64,
}

impl FillState {
    /// Creates files until none fits.
    pub(super) fn filled(mut self, mut turn: Turn) -> Outcome {
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

    /// Files that fit at most: chunks of any size, made for what wants them when it wants them.
    pub(super) fn at_best(&self) -> f64 {
        let (data, metadata) = (self.devices.reach(self.data.profile), self.devices.reach(self.metadata.profile));
        let unallocated = data.on_devices.max(metadata.on_devices);
        let fits = |files: f64| {
            let (of_data, of_metadata) = (self.data.wanted(files), self.metadata.wanted(files));
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

    /// Makes a chunk for data, after metadata have taken theirs; gives whether that ends it.
    fn grow_data(&mut self, turn: &mut Turn, number: u64) -> bool {
        let kept_for_data = self.data.chunk;
        if self.metadata.is_short(&self.devices, kept_for_data) {
            self.metadata.grow(&mut self.devices);
        }
        if matches!(turn, Turn::Before(first) if *first <= number) && self.metadata.has_little_room() {
            *turn = Turn::Due;
            self.metadata.grow(&mut self.devices);
        }
        !self.data.grow(&mut self.devices)
    }
}
