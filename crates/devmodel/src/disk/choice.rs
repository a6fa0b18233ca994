//! Finds the position that the head reaches first: estimates all candidates in integers, and computes exact times for the few
//! possible winners.
//!
//! Estimates are in steps, 2^20 per rotation, and never exceed the exact times: the arm needs at least the shortest seek over
//! about its distance or longer, and a head that is ready earlier does not meet a sector later.

use super::HeadPosition;
use super::layout::{Layout, SectorPosition};
use std::ops::Range;

const ROTATION: u32 = 1 << 20;
/// Maximum number of cylinder bands: 4 KiB of minimum times stay in the processor's cache.
const BANDS: usize = 1024;
/// Upper bound of seek and settle times in steps.
const LONGEST: f64 = (1u32 << 29) as f64;
/// Beyond this stream coordinate the rounding error approaches a step.
const FARTHEST_NS: f64 = (1u64 << 50) as f64;
/// Estimates compared at once.
const CHUNK: usize = 8;
/// More steps than any estimate: a seek, a settling and a rotation.
const BEHIND_ALL: i32 = i32::MAX;
const PAGE: u64 = 4096;

#[derive(Debug, Clone)]
pub(super) struct StepEstimates {
    steps_per_ns: f64,
    /// Steps by which estimates are early, so that rounding never makes them late.
    early: u32,
    /// Shift from cylinder to band.
    shift: u32,
    /// Minimum seek steps by distance in bands; 0 within a band, where there may be no seek.
    least: Box<[u32; BANDS]>,
    /// Steps of settling before a write.
    settle: u32,
}

/// State from which the drive evaluates candidates.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    band: u32,
    commanded_ns: f64,
    angle: u32,
    /// Angle of the next position of the stream if it can be served without a pause.
    behind: Option<u32>,
    near: Pages,
}

/// Consecutive pages; their numbers are truncated to the low bits.
#[derive(Debug, Clone, Copy)]
struct Pages {
    first: u32,
    count: u32,
}

impl Pages {
    fn of(range: &Range<u64>) -> Self {
        let count = if range.is_empty() { 0 } else { range.end.div_ceil(PAGE) - range.start / PAGE };
        Self { first: (range.start / PAGE) as u32, count: u32::try_from(count).unwrap_or(u32::MAX) }
    }

    /// Returns all bits set for one of these pages, and possibly for another.
    fn mask(self, page: u32) -> u32 {
        mask(page.wrapping_sub(self.first) < self.count)
    }
}

fn mask(is_set: bool) -> u32 {
    if is_set { u32::MAX } else { 0 }
}

impl StepEstimates {
    pub(crate) fn of(layout: &Layout, write_settle_ns: f64) -> Self {
        let steps_per_ns = f64::from(ROTATION) / layout.rotation_ns;
        let last = layout.cylinders.saturating_sub(1);
        let shift = (0..64).find(|shift| last >> shift < BANDS as u64).unwrap_or(63);
        // This distance in bands is more cylinders than the bands in between.
        let least = |bands: usize| match bands as u64 {
            0 => 0,
            bands => (layout.minimum_seek_ns(((bands - 1) << shift) + 1) * steps_per_ns).min(LONGEST) as u32,
        };
        // See `wait` for the tolerance of two nanoseconds; three steps exceed all rounding errors.
        let early = (4.0 * steps_per_ns).ceil().min(LONGEST) as u32 + 3;
        let settle = (write_settle_ns * steps_per_ns).min(LONGEST) as u32;
        Self { steps_per_ns, early, shift, least: Box::new(std::array::from_fn(least)), settle }
    }

    fn angle(&self, ns: f64) -> u32 {
        (ns * self.steps_per_ns) as i64 as u32 % ROTATION
    }

    /// Returns the view of the window from this head position. `near`: addresses that need an exact time.
    pub(crate) fn view(&self, here: &HeadPosition, head_ns: f64, near: &Range<u64>) -> View {
        View {
            band: (here.cylinder >> self.shift) as u32,
            commanded_ns: here.commanded,
            angle: self.angle(here.commanded).wrapping_sub(self.early),
            behind: here.goes_on.then(|| self.angle(head_ns)),
            near: Pages::of(near),
        }
    }

    /// Returns the maximum steps of a candidate that may be reached at or before a time.
    fn until(&self, view: &View, ns: f64) -> i32 {
        let steps = ((ns - view.commanded_ns) * self.steps_per_ns) as u32;
        // The padding of the last chunk is later than all of these.
        steps.saturating_add(self.early + 3).min(BEHIND_ALL as u32 - 1) as i32
    }
}

/// Flag next to the band of a position: the head settles there.
const SETTLES: u32 = 1 << 31;
/// Flag next to the band of a position: no estimate, because the request may not need the arm.
const EXACTLY: u32 = 1 << 30;

/// Candidate positions, oldest first, stored by columns for vectorised comparison.
#[derive(Debug, Clone)]
pub(super) struct Window {
    most: usize,
    bands: Vec<u32>,
    angles: Vec<u32>,
    pages: Vec<u32>,
    /// Estimates, padded to full chunks with maximum values.
    steps: Vec<i32>,
    least: i32,
}

impl Window {
    /// Returns an empty window of at most `most` candidates.
    pub(crate) fn of(most: u32) -> Self {
        let [bands, angles, pages] = Default::default();
        Self { most: most.max(1) as usize, bands, angles, pages, steps: Vec::new(), least: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.bands.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.most
    }

    /// Adds the position of a request at a byte address; `exactly`: it does not need the arm.
    pub(crate) fn push(
        &mut self,
        rough: &StepEstimates,
        place: &SectorPosition,
        address: u64,
        settles: bool,
        exactly: bool,
    ) {
        let exactly = exactly || place.stream_ns > FARTHEST_NS;
        let marks = (SETTLES & mask(settles)) | (EXACTLY & mask(exactly));
        self.bands.push((place.cylinder >> rough.shift) as u32 | marks);
        self.angles.push(rough.angle(place.stream_ns));
        self.pages.push((address / PAGE) as u32);
    }

    pub(crate) fn remove(&mut self, number: usize) {
        for column in [&mut self.bands, &mut self.angles, &mut self.pages] {
            column.remove(number);
        }
    }

    /// Marks those of the first `count` that may not need the arm because they are in a range of addresses.
    pub(crate) fn may_need_none(&mut self, count: usize, range: &Range<u64>) {
        let held = Pages::of(range);
        for (band, page) in self.bands.iter_mut().zip(&self.pages).take(count) {
            *band |= held.mask(*page) & EXACTLY;
        }
    }

    pub(crate) fn needs_none(&mut self, number: usize) {
        self.bands[number] |= EXACTLY;
    }

    pub(crate) fn is_exact(&self, number: usize) -> bool {
        self.bands[number] & EXACTLY != 0
    }

    /// Estimates the steps until the head reaches each of the first `count` candidates.
    pub(crate) fn estimate_steps(&mut self, rough: &StepEstimates, view: &View, count: usize) {
        let (bands, angles, pages) = (&self.bands[..count], &self.angles[..count], &self.pages[..count]);
        let seek = |band: &u32| rough.least[(band % EXACTLY).abs_diff(view.band) as usize % BANDS] as i32;
        self.steps.clear();
        self.steps.extend(bands.iter().map(seek));
        let behind = view.behind.unwrap_or(u32::MAX);
        let mut least = BEHIND_ALL;
        for (((steps, band), angle), page) in self.steps.iter_mut().zip(bands).zip(angles).zip(pages) {
            let settles = rough.settle & mask(band & SETTLES != 0) & mask(*steps != 0);
            let moved = *steps as u32 + settles;
            let wait = angle.wrapping_sub(view.angle.wrapping_add(moved)) % ROTATION;
            let exactly = mask(band & EXACTLY != 0) | view.near.mask(*page) | mask(*angle == behind);
            *steps = ((moved + wait) & !exactly) as i32;
            least = least.min(*steps);
        }
        self.least = least;
        self.steps.resize(count.next_multiple_of(CHUNK), BEHIND_ALL);
    }

    /// Returns the estimated candidate that is reached first (the oldest if tied) and its time. `reached` returns exact
    /// times.
    pub(crate) fn first(&self, rough: &StepEstimates, view: &View, reached: impl Fn(usize) -> f64) -> (usize, f64) {
        let guess = self.until(self.least).next().unwrap_or(0);
        let (mut best, mut soonest) = (guess, reached(guess));
        for number in self.until(rough.until(view, soonest)) {
            // An earlier candidate lowers the bound.
            if number == guess || self.steps[number] > rough.until(view, soonest) {
                continue;
            }
            let ns = reached(number);
            if ns < soonest || (ns == soonest && number < best) {
                (best, soonest) = (number, ns);
            }
        }
        (best, soonest)
    }

    /// Candidates with an estimate of at most this number of steps.
    fn until(&self, steps: i32) -> impl Iterator<Item = usize> {
        let (chunks, _) = self.steps.as_chunks::<CHUNK>();
        chunks.iter().enumerate().flat_map(move |(number, chunk)| {
            // One bit per candidate: most chunks have none and are compared without a branch.
            let mut bits = chunk.iter().rev().fold(0u32, |bits, of| bits << 1 | u32::from(*of <= steps));
            std::iter::from_fn(move || {
                let first = bits.trailing_zeros() as usize;
                bits &= bits.wrapping_sub(1);
                (first < CHUNK).then_some(number * CHUNK + first)
            })
        })
    }
}
