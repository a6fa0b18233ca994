//! The flash translation layer without timing: mapping of logical to physical pages, and garbage collection.
//!
//! Physical pages are numbered in the order of writing: blocks of all dies of an allocation unit are filled together, row by row
//! (a row is one program on each die), on each die one program after the other. Each mapped page takes four bytes per direction,
//! zero if unmapped, so that a large, mostly unused drive takes little memory.

use super::closed::Closed;
use super::parameters::{Flash, PAGE, Placement};
use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MapGeometry {
    /// Allocation units: the whole drive, or each die.
    pub units: u32,
    pub dies: u32,
    /// Blocks of a unit, each over all its dies and their planes.
    pub blocks: u32,
    /// Programs of a block on each die.
    pub rows: u32,
    pub slots: u32,
    /// Programs of a block written with one bit per cell.
    pub slc_rows: u32,
}

impl MapGeometry {
    pub(crate) fn of(flash: &Flash) -> Self {
        let geometry = &flash.geometry;
        let units = if flash.placement == Placement::RoundRobin { 1 } else { geometry.dies() };
        let rows = geometry.pages_per_block / geometry.pages_per_program;
        Self {
            units,
            dies: geometry.dies() / units,
            blocks: geometry.blocks_per_plane,
            rows,
            slots: (flash.program_bytes() / PAGE) as u32,
            slc_rows: flash.slc_cache.as_ref().map_or(rows, |cache| rows / cache.bits_per_cell),
        }
    }

    pub(crate) fn block_pages(&self) -> u32 {
        self.rows * self.dies * self.slots
    }

    fn pages(&self) -> u64 {
        u64::from(self.units) * u64::from(self.blocks) * u64::from(self.block_pages())
    }

    /// Returns the number of the program of a physical page, counted over the drive.
    pub(crate) fn program(&self, physical: u32) -> u32 {
        physical / self.slots
    }

    /// Returns the block of a physical page, counted over all units.
    pub(crate) fn block(&self, physical: u32) -> u32 {
        physical / self.block_pages()
    }

    /// Returns the die of a physical page, counted over all units; neighbours are on different channels.
    pub(crate) fn die(&self, physical: u32) -> u32 {
        self.block(physical) / self.blocks * self.dies + self.program(physical) % self.dies
    }

    pub(crate) fn row(&self, physical: u32) -> u32 {
        self.program(physical) / self.dies % self.rows
    }
}

pub(crate) trait Work {
    /// Counts a program whose last page has been filled. `physical` is any of its pages. `host_pages` came from
    /// the host, the others were moved.
    fn program(&mut self, _shape: &MapGeometry, _physical: u32, _slc: bool, _host_pages: u32) {}
    /// Accounts for reads of `pages` of the program of `physical`, to be moved.
    fn read(&mut self, _shape: &MapGeometry, _physical: u32, _pages: u32, _slc: bool) {}
    fn erase(&mut self, _shape: &MapGeometry, _block: u32) {}
}

impl Work for () {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Host,
    Moved,
    Slc,
}

/// One block over the dies of its unit.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    valid: u32,
    written: u32,
    erases: u32,
    slc: bool,
    full: bool,
    /// Pages from the host in the current program.
    host_pages: u32,
    /// Host pages written to the drive when it was filled.
    filled_at: u64,
}

#[derive(Debug, Clone)]
struct Unit {
    valid: u64,
    free: VecDeque<u32>,
    open: [Option<u32>; 3],
    closed: Closed,
    /// Full blocks with one bit per cell, oldest first.
    slc: VecDeque<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub host_pages: u64,
    pub moved_pages: u64,
    /// Blocks erased, each over all dies of its unit.
    pub erases: u64,
}

#[derive(Debug, Clone)]
pub struct Map {
    shape: MapGeometry,
    /// Physical page + 1 of each logical page.
    forward: Vec<u32>,
    /// Logical page + 1 of each physical page.
    back: Vec<u32>,
    blocks: Vec<Block>,
    units: Vec<Unit>,
    separate_stream: bool,
    ready: usize,
    /// Number of valid pages of a unit up to which cleaning always gains.
    most_valid: u64,
    slc_blocks: u32,
    counters: Counters,
}

impl Map {
    /// Creates an empty drive; its parameters must have been checked.
    pub(crate) fn new(flash: &Flash) -> Self {
        let shape = MapGeometry::of(flash);
        let unit = |unit: u32| Unit {
            valid: 0,
            free: (unit * shape.blocks..(unit + 1) * shape.blocks).collect(),
            open: [None; 3],
            closed: Closed::new(flash.collection.policy, shape.blocks, shape.block_pages()),
            slc: VecDeque::new(),
        };
        let slc_block_bytes = u64::from(shape.slc_rows * shape.dies * shape.slots) * PAGE;
        let slc_bytes = flash.slc_cache.as_ref().map_or(0, |cache| cache.bytes) / u64::from(shape.units);
        Self {
            forward: vec![0; flash.logical_pages() as usize],
            back: vec![0; shape.pages() as usize],
            blocks: vec![Block::default(); (shape.units * shape.blocks) as usize],
            units: (0..shape.units).map(unit).collect(),
            separate_stream: flash.collection.separate_stream,
            ready: flash.collection.ready() as usize,
            most_valid: u64::from(shape.blocks.saturating_sub(flash.kept_blocks())) * u64::from(shape.block_pages()),
            slc_blocks: u32::try_from(slc_bytes / slc_block_bytes).unwrap_or(u32::MAX),
            counters: Counters::default(),
            shape,
        }
    }

    pub(crate) fn shape(&self) -> &MapGeometry {
        &self.shape
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    pub fn physical(&self, logical: u64) -> Option<u32> {
        self.forward.get(usize::try_from(logical).ok()?)?.checked_sub(1)
    }

    /// Erases of each block, counted over all units.
    pub(crate) fn erases(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().map(|block| block.erases)
    }

    /// Returns the memory per mapped page over all tables, in bytes.
    pub fn bytes_per_mapped_page(&self) -> f64 {
        let tables = (self.forward.len() + self.back.len()) * size_of::<u32>();
        let blocks = self.blocks.len() * (size_of::<Block>() + 3 * size_of::<u32>());
        (tables + blocks) as f64 / self.forward.len().max(1) as f64
    }

    /// Returns whether the program of a page is still being filled, so that its pages are in memory.
    pub(crate) fn is_buffered(&self, physical: u32) -> bool {
        let block = &self.blocks[self.shape.block(physical) as usize];
        let within = physical % self.shape.block_pages();
        !block.full && within / self.shape.slots == block.written / self.shape.slots
    }

    /// Returns whether a page is in a block with one bit per cell.
    pub(crate) fn is_slc(&self, physical: u32) -> bool {
        self.blocks[self.shape.block(physical) as usize].slc
    }

    /// Writes a page of the host to a unit; a unit full of valid data passes it on to the emptiest one.
    pub(crate) fn write(&mut self, logical: u64, unit: u32, work: &mut impl Work) -> u32 {
        self.counters.host_pages += 1;
        let unit = self.with_space(unit);
        let stream = self.make_space(unit, work);
        self.invalidate(self.forward[logical as usize]);
        self.units[unit as usize].valid += 1;
        self.append(logical as u32, unit, stream, true, work)
    }

    pub(crate) fn discard(&mut self, logical: u64) {
        let old = std::mem::take(&mut self.forward[logical as usize]);
        self.invalidate(old);
    }

    /// Cleans one block of a unit; `false` if there is nothing to gain.
    pub(crate) fn clean(&mut self, unit: u32, work: &mut impl Work) -> bool {
        let Some(victim) = self.victim(unit) else { return false };
        let stream = if self.separate_stream { Stream::Moved } else { Stream::Host };
        let first = victim * self.shape.block_pages();
        let written = self.blocks[victim as usize].written;
        let slc = self.blocks[victim as usize].slc;
        // Moved pages stay in the unit and are not counted individually: the whole block is empty at the end.
        for program in (first..first + written).step_by(self.shape.slots as usize) {
            let pages = program..program + self.shape.slots;
            let valid = pages.clone().filter(|page| self.back[*page as usize] != 0).count() as u32;
            if valid == 0 {
                continue;
            }
            work.read(&self.shape, program, valid, slc);
            self.counters.moved_pages += u64::from(valid);
            for page in pages {
                let Some(logical) = std::mem::take(&mut self.back[page as usize]).checked_sub(1) else { continue };
                self.append(logical, unit, stream, false, work);
            }
        }
        let block = &mut self.blocks[victim as usize];
        *block = Block { erases: block.erases + 1, ..Block::default() };
        self.counters.erases += 1;
        work.erase(&self.shape, victim);
        self.units[unit as usize].free.push_back(victim);
        true
    }

    /// Returns whether to clean in idle time: too few erased blocks, or blocks with one bit per cell to empty.
    pub(crate) fn wants_cleaning(&self, unit: u32, erased: usize) -> bool {
        let unit = &self.units[unit as usize];
        unit.free.len() < erased || !unit.slc.is_empty()
    }

    /// Returns the unit itself, or the one with the fewest valid pages if cleaning would no longer find space in it.
    fn with_space(&self, unit: u32) -> u32 {
        let valid = |unit: &u32| self.units[*unit as usize].valid;
        if valid(&unit) < self.most_valid {
            return unit;
        }
        (0..self.shape.units).min_by_key(valid).unwrap_or(unit)
    }

    /// Returns the stream of the host's next page; cleans if a block had to be opened for it.
    fn make_space(&mut self, unit: u32, work: &mut impl Work) -> Stream {
        let stream = self.host_stream(unit);
        if self.units[unit as usize].open[stream as usize].is_none() {
            self.open(unit, stream);
            while self.units[unit as usize].free.len() < self.ready && self.clean(unit, work) {}
        }
        stream
    }

    /// Uses one bit per cell while that cache has space.
    fn host_stream(&self, unit: u32) -> Stream {
        let unit = &self.units[unit as usize];
        let begins = (unit.slc.len() as u32) < self.slc_blocks && unit.free.len() > self.ready;
        if unit.open[Stream::Slc as usize].is_some() || begins { Stream::Slc } else { Stream::Host }
    }

    fn victim(&mut self, unit: u32) -> Option<u32> {
        let (now, pages) = (self.counters.host_pages, self.shape.block_pages());
        let first = unit * self.shape.blocks;
        let blocks = &self.blocks[first as usize..(first + self.shape.blocks) as usize];
        let unit = &mut self.units[unit as usize];
        if let Some(oldest) = unit.slc.pop_front() {
            return Some(oldest);
        }
        let victim = unit.closed.take(|block| {
            let block = &blocks[block as usize];
            (block.valid, pages, now - block.filled_at)
        })?;
        if blocks[victim as usize].valid == pages {
            unit.closed.add(victim, pages);
            return None;
        }
        Some(first + victim)
    }

    fn open(&mut self, unit: u32, stream: Stream) -> Option<u32> {
        let unit = &mut self.units[unit as usize];
        let block = unit.free.pop_front()?;
        unit.open[stream as usize] = Some(block);
        self.blocks[block as usize].slc = stream == Stream::Slc;
        Some(block)
    }

    /// Appends a page to a stream; it must be unmapped.
    fn append(&mut self, logical: u32, unit: u32, stream: Stream, host: bool, work: &mut impl Work) -> u32 {
        let block = self.units[unit as usize].open[stream as usize].or_else(|| self.open(unit, stream));
        // Checked parameters and ready blocks guarantee a block for every stream.
        let block = block.unwrap_or_default();
        let entry = &mut self.blocks[block as usize];
        let physical = block * self.shape.block_pages() + entry.written;
        entry.written += 1;
        entry.valid += 1;
        entry.host_pages += u32::from(host);
        let slc = entry.slc;
        let rows = if slc { self.shape.slc_rows } else { self.shape.rows };
        let full = entry.written == rows * self.shape.dies * self.shape.slots;
        let programmed = entry.written.is_multiple_of(self.shape.slots);
        let host_pages = if programmed { std::mem::take(&mut entry.host_pages) } else { 0 };
        self.forward[logical as usize] = physical + 1;
        self.back[physical as usize] = logical + 1;
        if programmed {
            work.program(&self.shape, physical, slc, host_pages);
        }
        if full {
            self.close(block, unit, stream);
        }
        physical
    }

    fn close(&mut self, block: u32, unit: u32, stream: Stream) {
        let entry = &mut self.blocks[block as usize];
        entry.full = true;
        entry.filled_at = self.counters.host_pages;
        let unit = &mut self.units[unit as usize];
        unit.open[stream as usize] = None;
        if entry.slc {
            unit.slc.push_back(block);
        } else {
            unit.closed.add(block % self.shape.blocks, entry.valid);
        }
    }

    fn invalidate(&mut self, old: u32) {
        let Some(physical) = old.checked_sub(1) else { return };
        self.back[physical as usize] = 0;
        let number = self.shape.block(physical);
        let block = &mut self.blocks[number as usize];
        block.valid -= 1;
        let unit = &mut self.units[(number / self.shape.blocks) as usize];
        unit.valid -= 1;
        if block.full && !block.slc {
            unit.closed.lost_a_page(number % self.shape.blocks, block.valid);
        }
    }
}
