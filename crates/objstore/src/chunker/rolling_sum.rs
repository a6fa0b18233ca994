//! The rolling-sum chunker of the DMV study (M. Murphy, master's thesis 2017): the sum of the last `window` bytes, with a cut
//! after every byte at which it is divisible by `divisor`.

use super::{Chunker, ZeroChunks};

#[derive(Debug, Clone)]
pub(crate) struct RollingSum {
    /// The last `window` bytes, a ring buffer initialised with zeros.
    ring: Vec<u8>,
    head: usize,
    /// Whether the ring has been filled since the start (or the reset).
    filled: bool,
    sum: u32,
    divisor: Divisibility,
    reset: bool,
    longest: usize,
    /// Bytes of `pending` that were already scanned.
    scanned: usize,
}

impl RollingSum {
    /// Takes a `window` of 1 to 2^24, so that the sum fits 32 bits, and a `divisor` > 0. `reset` empties the window
    /// after every cut, as a bug in versions of the study before March 2017 did.
    pub(crate) fn new(window: usize, divisor: u32, reset: bool) -> Self {
        Self {
            ring: vec![0; window],
            head: 0,
            filled: false,
            sum: 0,
            divisor: Divisibility::by(divisor),
            reset,
            longest: usize::MAX,
            scanned: 0,
        }
    }

    /// Forces cuts after `longest` bytes, for stores with bounded buffers. The study has no such limit.
    pub(crate) fn limited(mut self, longest: usize) -> Self {
        self.longest = longest.max(1);
        self
    }

    /// Reads `data` up to and including the next cut and returns the number of bytes; `None` without a cut, with all of
    /// `data` consumed.
    pub(crate) fn next_flag(&mut self, data: &[u8]) -> Option<usize> {
        let mut consumed = 0;
        while consumed < data.len() {
            let run = (self.ring.len() - self.head).min(data.len() - consumed);
            let incoming = &data[consumed..consumed + run];
            let old = &self.ring[self.head..self.head + run];
            let (flag, sum) = self.divisor.scan(self.sum, incoming, old, self.first_candidate(run));
            let read = flag.map_or(run, |index| index + 1);
            self.ring[self.head..self.head + read].copy_from_slice(&incoming[..read]);
            self.sum = sum;
            self.head += read;
            consumed += read;
            if self.head == self.ring.len() {
                self.head = 0;
                self.filled = true;
            }
            if flag.is_some() {
                if self.reset {
                    self.clear();
                }
                return Some(consumed);
            }
        }
        None
    }

    /// Returns the first index of a run that may have a cut: before the window is full, only the byte that fills it
    /// can.
    fn first_candidate(&self, run: usize) -> usize {
        if self.filled {
            0
        } else if self.head + run == self.ring.len() {
            run - 1
        } else {
            run
        }
    }

    fn clear(&mut self) {
        self.ring.fill(0);
        self.head = 0;
        self.filled = false;
        self.sum = 0;
    }
}

impl Chunker for RollingSum {
    fn cut(&mut self, pending: &[u8], at_end: bool) -> Option<usize> {
        let reach = pending.len().min(self.longest);
        let start = self.scanned;
        let cut = match self.next_flag(&pending[start..reach]) {
            Some(read) => Some(start + read),
            None if reach == self.longest || (at_end && reach > 0) => Some(reach),
            None => None,
        };
        self.scanned = if cut.is_some() { 0 } else { reach };
        cut
    }

    /// Cuts zeros without reading them: their sum is 0, which is always divisible. A cut follows as soon as the window
    /// is full, then at every byte, or at every window with the reset.
    fn zeros(&mut self, length: u64) -> Option<ZeroChunks> {
        // The sum of a full window is 0 if all of its bytes are.
        let between = self.scanned == 0 && self.sum == 0;
        let bytes = match (self.filled, self.head) {
            (true, _) => 1,
            (false, 0) if self.reset => self.ring.len(),
            _ => return None,
        };
        if !between || bytes > self.longest { None } else { ZeroChunks::new(bytes, length / bytes as u64) }
    }
}

/// Divisibility test without division: a mask for a power of two. Otherwise, with `d = odd * 2^k`, `n` is divisible if `n *
/// odd^-1` rotated right by `k` is at most `(2^32 - 1) / d` (Granlund and Montgomery, PLDI 1994, section 9).
#[derive(Debug, Clone, Copy)]
enum Divisibility {
    Mask(u32),
    Inverse { inverse: u32, shift: u32, limit: u32 },
}

impl Divisibility {
    fn by(divisor: u32) -> Self {
        let divisor = divisor.max(1);
        if divisor.is_power_of_two() {
            return Self::Mask(divisor - 1);
        }
        let shift = divisor.trailing_zeros();
        let odd = divisor >> shift;
        // Newton's iteration doubles the number of correct low bits; `odd` itself is correct in three.
        let inverse = (0..4).fold(odd, |x, _| x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x))));
        Self::Inverse { inverse, shift, limit: u32::MAX / divisor }
    }

    /// Rolls `sum` over `incoming` and returns the index of the first cut at or after `first`, with the sum after that (or the
    /// last) byte.
    fn scan(self, sum: u32, incoming: &[u8], old: &[u8], first: usize) -> (Option<usize>, u32) {
        match self {
            Self::Mask(mask) => scan(sum, incoming, old, first, |sum| sum & mask == 0),
            Self::Inverse { inverse, shift, limit } => {
                scan(sum, incoming, old, first, |sum| sum.wrapping_mul(inverse).rotate_right(shift) <= limit)
            }
        }
    }
}

const STEP: usize = 16;

#[inline(always)]
fn scan(
    mut sum: u32,
    incoming: &[u8],
    old: &[u8],
    first: usize,
    divides: impl Fn(u32) -> bool,
) -> (Option<usize>, u32) {
    for (new, gone) in incoming[..first].iter().zip(&old[..first]) {
        sum = sum.wrapping_add(u32::from(*new)).wrapping_sub(u32::from(*gone));
    }
    let (incoming, old) = (&incoming[first..], &old[first..]);
    let mut index = first;
    let mut new_steps = incoming.chunks_exact(STEP);
    let mut old_steps = old.chunks_exact(STEP);
    for (new, gone) in (&mut new_steps).zip(&mut old_steps) {
        // Vectorised differences first: the serial chain is then one addition per byte.
        let deltas: [i32; STEP] = std::array::from_fn(|step| i32::from(new[step]) - i32::from(gone[step]));
        for (step, delta) in deltas.iter().enumerate() {
            sum = sum.wrapping_add(*delta as u32);
            if divides(sum) {
                return (Some(index + step), sum);
            }
        }
        index += STEP;
    }
    for (new, gone) in new_steps.remainder().iter().zip(old_steps.remainder()) {
        sum = sum.wrapping_add(u32::from(*new)).wrapping_sub(u32::from(*gone));
        if divides(sum) {
            return (Some(index), sum);
        }
        index += 1;
    }
    (None, sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunker::lengths;
    use proptest::prelude::*;

    fn reference(data: &[u8], window: usize, divisor: u32, reset: bool) -> Vec<usize> {
        let mut lengths = Vec::new();
        let (mut start, mut window_start) = (0, 0);
        for index in 0..data.len() {
            let seen = index + 1 - window_start;
            let from = (index + 1).saturating_sub(window).max(window_start);
            let sum: u32 = data[from..=index].iter().map(|byte| u32::from(*byte)).sum();
            if seen >= window && sum.is_multiple_of(divisor) {
                lengths.push(index + 1 - start);
                start = index + 1;
                if reset {
                    window_start = start;
                }
            }
        }
        if start < data.len() {
            lengths.push(data.len() - start);
        }
        lengths
    }

    proptest! {
        #[test]
        fn cuts_match_the_definition(
            data in prop::collection::vec(any::<u8>(), 0..3000),
            window in 1usize..200,
            divisor in 1u32..300,
            reset: bool,
        ) {
            let mut chunker = RollingSum::new(window, divisor, reset);
            prop_assert_eq!(lengths(&mut chunker, &data), reference(&data, window, divisor, reset));
        }

        #[test]
        fn cuts_do_not_depend_on_buffer_boundaries(
            data in prop::collection::vec(any::<u8>(), 1..3000),
            window in 1usize..100,
            divisor in 1u32..300,
            piece in 1usize..500,
        ) {
            let mut chunker = RollingSum::new(window, divisor, false).limited(700);
            let whole = lengths(&mut chunker.clone(), &data);
            let (mut cuts, mut start, mut end) = (Vec::new(), 0, 0);
            loop {
                match chunker.cut(&data[start..end], end == data.len()) {
                    Some(length) => { cuts.push(length); start += length; }
                    None if end == data.len() => break,
                    None => end = (end + piece).min(data.len()),
                }
            }
            prop_assert_eq!(cuts, whole);
        }

        #[test]
        fn divisibility_is_exact(number: u32, divisor in 1u32..) {
            let flagged = match Divisibility::by(divisor) {
                Divisibility::Mask(mask) => number & mask == 0,
                Divisibility::Inverse { inverse, shift, limit } =>
                    number.wrapping_mul(inverse).rotate_right(shift) <= limit,
            };
            prop_assert_eq!(flagged, number % divisor == 0);
        }
    }
}
