//! The sequence of rand() of the GNU C library without a seed: r(i) = r(i-3) + r(i-31) modulo 2^32, shifted right by one
//! (stdlib/random_r.c, TYPE_3).

const DEGREE: usize = 31;
const SEPARATION: usize = 3;
/// Outputs that srandom_r discards: ten for each word of state.
const DISCARDED: u64 = 310;

#[derive(Debug, Clone)]
pub(crate) struct GlibcRand {
    /// The last 31 values, oldest first from `next`.
    state: [u32; DEGREE],
    next: usize,
}

impl GlibcRand {
    /// Returns the generator of a program that never called srand(), after `calls` calls of rand().
    pub(crate) fn after(calls: u64) -> Self {
        let mut state = [0; DEGREE];
        let mut word = 1i64;
        for value in &mut state {
            *value = word as u32;
            // The minimal standard generator 16807 x modulo 2^31 - 1 (Park and Miller, CACM 1988).
            word = 16807 * word % 0x7FFF_FFFF;
        }
        // The first sum is of words 3 and 0, so word 3 is the oldest of the sequence.
        state.rotate_left(SEPARATION);
        Self { state: jump(&state, DISCARDED + calls), next: 0 }
    }

    pub(crate) fn rand(&mut self) -> u32 {
        let value = self.state[self.next].wrapping_add(self.state[(self.next + DEGREE - SEPARATION) % DEGREE]);
        self.state[self.next] = value;
        self.next = (self.next + 1) % DEGREE;
        value >> 1
    }
}

/// Returns the state `steps` values later. For one step the factor is x; x^steps modulo x^31 - x^28 - 1 expresses the
/// values there by those here.
fn jump(state: &[u32; DEGREE], steps: u64) -> [u32; DEGREE] {
    let mut power = [0u32; DEGREE];
    power[0] = 1;
    for bit in (0..64 - steps.leading_zeros()).rev() {
        power = product(&power, &power);
        if steps >> bit & 1 == 1 {
            power = times_x(&power);
        }
    }
    std::array::from_fn(|_| {
        let sum = power.iter().zip(state).fold(0u32, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(*b)));
        power = times_x(&power);
        sum
    })
}

fn times_x(power: &[u32; DEGREE]) -> [u32; DEGREE] {
    let mut next = [0; DEGREE];
    next[1..].copy_from_slice(&power[..DEGREE - 1]);
    let carry = power[DEGREE - 1];
    next[0] = carry;
    next[DEGREE - SEPARATION] = next[DEGREE - SEPARATION].wrapping_add(carry);
    next
}

fn product(a: &[u32; DEGREE], b: &[u32; DEGREE]) -> [u32; DEGREE] {
    let (mut shifted, mut sum) = (*a, [0u32; DEGREE]);
    for factor in b {
        for (total, value) in sum.iter_mut().zip(shifted) {
            *total = total.wrapping_add(value.wrapping_mul(*factor));
        }
        shifted = times_x(&shifted);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_values_match_glibc() {
        let mut random = GlibcRand::after(0);
        let values: Vec<u32> = (0..5).map(|_| random.rand()).collect();
        assert_eq!(values, [1_804_289_383, 846_930_886, 1_681_692_777, 1_714_636_915, 1_957_747_793]);
    }

    #[test]
    fn jump_equals_repeated_calls() {
        for calls in [1, 30, 31, 32, 1000, 12_345] {
            let mut called = GlibcRand::after(0);
            for _ in 0..calls {
                called.rand();
            }
            let mut jumped = GlibcRand::after(calls);
            for _ in 0..100 {
                assert_eq!(called.rand(), jumped.rand(), "after {calls} calls");
            }
        }
    }
}
