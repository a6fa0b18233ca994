//! Which of several places the head reaches first: a rough look at all of them in whole numbers, an exact one at the few that
//! may be it.
//!
//! Rough times are in steps, 2^20 to a rotation, and never above the exact ones: the arm moves at least as long as the shortest
//! seek over about its distance or a longer one, and a head that is there sooner does not meet a sector later.

use super::Here;
use super::layout::{Layout, SectorPosition};
use std::ops::Range;

const ROTATION: u32 = 1 << 20;
/// Cylinders are grouped into at most so many bands: 4 KiB of least times stay in the processor's cache.
const BANDS: usize = 1024;
/// Neither a seek nor a settling counts for more steps than this.
const LONGEST: f64 = (1u32 << 29) as f64;
/// Behind this stream coordinate rounding comes near to a step.
const FARTHEST_NS: f64 = (1u64 << 50) as f64;
/// Rough times compared at once.
const CHUNK: usize = 8;
/// Bytes of a page, in which addresses are compared.
const PAGE: u64 = 4096;

/// Rough times of a drive.
#[derive(Debug, Clone)]
pub(super) struct Rough {
    steps_per_ns: f64,
    /// How much sooner the rough look has the head ready than it is, so that no rounding makes it later: steps.
    early: u32,
    /// A cylinder is cut by so many bits to give its band.
    shift: u32,
    /// Steps that no seek over so many bands falls below; none within a band, which may be no seek.
    least: Box<[u32; BANDS]>,
}

/// What the drive looks at the candidates from.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    band: u32,
    commanded_ns: f64,
    /// Angle of the head, early.
    angle: u32,
    /// Angle at which the next place of the stream is, where it can be served without a pause.
    behind: Option<u32>,
    near: Pages,
}

/// Pages one behind the other; their numbers are cut to their low bits.
#[derive(Debug, Clone, Copy)]
struct Pages {
    first: u32,
    count: u32,
}

impl Pages {
    /// Those that a range of addresses touches.
    fn of(range: &Range<u64>) -> Self {
        let count = if range.is_empty() { 0 } else { range.end.div_ceil(PAGE) - range.start / PAGE };
        Self { first: (range.start / PAGE) as u32, count: u32::try_from(count).unwrap_or(u32::MAX) }
    }

    /// All bits set for one of them, and perhaps for another page.
    fn mask(self, page: u32) -> u32 {
        mask(page.wrapping_sub(self.first) < self.count)
    }
}

fn mask(is_set: bool) -> u32 {
    if is_set { u32::MAX } else { 0 }
}

impl Rough {
    pub fn of(layout: &Layout) -> Self {
        let steps_per_ns = f64::from(ROTATION) / layout.rotation_ns;
        let last = layout.cylinders.saturating_sub(1);
        let shift = (0..64).find(|shift| last >> shift < BANDS as u64).unwrap_or(63);
        // So many bands apart are more cylinders than those of the bands between.
        let least = |bands: usize| match bands as u64 {
            0 => 0,
            bands => (layout.least_seek_ns(((bands - 1) << shift) + 1) * steps_per_ns).min(LONGEST) as u32,
        };
        // Less than two nanoseconds too late are in time, see `wait`; three steps are more than all rounding.
        let early = (4.0 * steps_per_ns).ceil().min(LONGEST) as u32 + 3;
        Self { steps_per_ns, early, shift, least: Box::new(std::array::from_fn(least)) }
    }

    fn angle(&self, ns: f64) -> u32 {
        (ns * self.steps_per_ns) as i64 as u32 % ROTATION
    }

    /// `near`: addresses that are looked at exactly.
    pub fn view(&self, here: &Here, head_ns: f64, near: &Range<u64>) -> View {
        View {
            band: (here.cylinder >> self.shift) as u32,
            commanded_ns: here.commanded,
            angle: self.angle(here.commanded).wrapping_sub(self.early),
            behind: here.goes_on.then(|| self.angle(head_ns)),
            near: Pages::of(near),
        }
    }

    /// The most steps of a candidate that may be reached at a time or before.
    fn until(&self, view: &View, ns: f64) -> u32 {
        (((ns - view.commanded_ns) * self.steps_per_ns) as u32).saturating_add(self.early + 3)
    }
}

/// The places that the head may go to next, oldest first; a table by columns, so that several are looked at at once.
#[derive(Debug, Clone)]
pub(super) struct Window {
    most: usize,
    bands: Vec<u32>,
    /// Steps.
    angles: Vec<u32>,
    settles: Vec<u32>,
    pages: Vec<u32>,
    /// All bits are set where the rough look does not tell: the request may need no arm at all.
    exactly: Vec<u32>,
    /// The rough times.
    steps: Vec<u32>,
}

impl Window {
    /// None, of at most so many.
    pub fn of(most: u32) -> Self {
        let [bands, angles, settles, pages, exactly, steps] = Default::default();
        Self { most: most.max(1) as usize, bands, angles, settles, pages, exactly, steps }
    }

    pub fn len(&self) -> usize {
        self.bands.len()
    }

    pub fn is_full(&self) -> bool {
        self.len() == self.most
    }

    /// A place that a request at a byte address needs; `exactly`: it needs none.
    pub fn push(&mut self, rough: &Rough, place: &SectorPosition, address: u64, settle_ns: f64, exactly: bool) {
        self.bands.push((place.cylinder >> rough.shift) as u32);
        self.angles.push(rough.angle(place.stream_ns));
        self.settles.push((settle_ns * rough.steps_per_ns).min(LONGEST) as u32);
        self.pages.push((address / PAGE) as u32);
        self.exactly.push(mask(exactly || place.stream_ns > FARTHEST_NS));
    }

    pub fn remove(&mut self, number: usize) {
        for column in [&mut self.bands, &mut self.angles, &mut self.settles, &mut self.pages, &mut self.exactly] {
            column.remove(number);
        }
    }

    /// The first `count` of these need no arm if they lie in a range of addresses.
    pub fn may_need_none(&mut self, count: usize, range: &Range<u64>) {
        let held = Pages::of(range);
        for (exactly, page) in self.exactly.iter_mut().zip(&self.pages).take(count) {
            *exactly |= held.mask(*page);
        }
    }

    pub fn needs_none(&mut self, number: usize) {
        self.exactly[number] = u32::MAX;
    }

    pub fn is_exact(&self, number: usize) -> bool {
        self.exactly[number] != 0
    }

    /// Notes the steps until the head has each of the first `count`, or fewer.
    pub fn look(&mut self, rough: &Rough, view: &View, count: usize) {
        let seek = |band: &u32| rough.least[band.abs_diff(view.band) as usize % BANDS];
        self.steps.clear();
        self.steps.extend(self.bands[..count].iter().map(seek));
        let (angles, settles) = (&self.angles[..count], &self.settles[..count]);
        let (pages, exactly) = (&self.pages[..count], &self.exactly[..count]);
        let behind = view.behind.unwrap_or(u32::MAX);
        for (number, steps) in self.steps.iter_mut().enumerate() {
            let moved = *steps + (settles[number] & mask(*steps != 0));
            let wait = angles[number].wrapping_sub(view.angle.wrapping_add(moved)) % ROTATION;
            let exactly = exactly[number] | view.near.mask(pages[number]) | mask(angles[number] == behind);
            *steps = (moved + wait) & !exactly;
        }
    }

    /// The place that is reached first of those looked at, of several the first one, and when; `reached` gives the exact time of one.
    pub fn first(&self, rough: &Rough, view: &View, reached: impl Fn(usize) -> f64) -> (usize, f64) {
        let least = self.steps.iter().copied().min().unwrap_or(0);
        let guess = self.steps.iter().position(|steps| *steps == least).unwrap_or(0);
        let (mut best, mut soonest) = (guess, reached(guess));
        let mut until = rough.until(view, soonest);
        for (chunk, steps) in self.steps.chunks(CHUNK).enumerate() {
            // Most chunks have none: they are compared without a branch first.
            if !steps.iter().fold(false, |any, steps| any | (*steps <= until)) {
                continue;
            }
            for (number, steps) in (chunk * CHUNK..).zip(steps) {
                if *steps <= until && number != guess {
                    let ns = reached(number);
                    if ns < soonest || (ns == soonest && number < best) {
                        (best, soonest) = (number, ns);
                        until = rough.until(view, soonest);
                    }
                }
            }
        }
        (best, soonest)
    }
}
