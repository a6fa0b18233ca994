//! Simulates how long ranks wait for each other: no rank starts a round before all have ended the one before the last.

use senesce_core::Seed;

/// Ranks and their load. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    pub ranks: u32,
    /// Operations of each rank per round (half a window).
    pub operations: u32,
    pub rounds: u32,
    /// Mean time of an operation; times are exponentially distributed.
    pub operation_seconds: f64,
    /// Share of operations that take [`Self::slow_seconds`] longer (a busy server, a journal commit).
    pub slow_share: f64,
    pub slow_seconds: f64,
    /// Time from the end of a round on one rank until rank 0 knows it, and from there until all know it.
    pub message_seconds: f64,
    /// Time of rank 0 to handle one message.
    pub handling_seconds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stalls {
    /// Mean share of time that ranks wait.
    pub waiting: f64,
    pub operations_per_second: f64,
    /// Share of time in which the coordinator of rank 0 handles messages.
    pub coordinator: f64,
}

/// Deterministic for equal load and seed.
pub fn simulate(load: &Load, seed: Seed) -> Stalls {
    let ranks = load.ranks as usize;
    let mut random = seed.stream("cluster/scaling");
    let mut ends = vec![0.0f64; ranks];
    let mut waited = 0.0;
    // When all ranks know that the last round, and the one before, has ended everywhere.
    let (mut last, mut before_last) = (0.0f64, 0.0f64);
    for _ in 0..load.rounds {
        for end in &mut ends {
            let begin = end.max(before_last);
            waited += begin - *end;
            *end = begin + round_seconds(load, &mut random);
        }
        let slowest = ends.iter().copied().fold(0.0, f64::max);
        let known = slowest + 2.0 * load.message_seconds + 2.0 * load.handling_seconds * f64::from(load.ranks);
        (before_last, last) = (last, known);
    }
    let total = ends.iter().copied().fold(0.0, f64::max);
    let operations = f64::from(load.operations) * f64::from(load.rounds) * ranks as f64;
    let handled = 2.0 * load.handling_seconds * f64::from(load.ranks) * f64::from(load.rounds);
    Stalls {
        waiting: waited / (total * ranks as f64),
        operations_per_second: operations / total,
        coordinator: handled / total,
    }
}

/// The sum of many exponential times is nearly normal: mean n m, deviation m sqrt(n).
fn round_seconds(load: &Load, random: &mut impl Uniform) -> f64 {
    let count = f64::from(load.operations);
    let usual = load.operation_seconds * (count + count.sqrt() * normal(random)).max(0.0);
    // The number of slow operations is nearly Poisson; drawn by the times between them (Knuth 1969).
    let mut step = || -(1.0 - random.unit()).ln() / load.slow_share;
    let mut slow = 0u32;
    let mut place = if load.slow_share > 0.0 { step() } else { f64::INFINITY };
    while place <= count {
        slow += 1;
        place += step();
    }
    usual + f64::from(slow) * load.slow_seconds
}

/// Box and Muller 1958.
fn normal(random: &mut impl Uniform) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Uniform numbers in [0, 1).
trait Uniform {
    fn unit(&mut self) -> f64;
}

impl<R: rand::Rng> Uniform for R {
    fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load {
        ranks: 16,
        operations: 2048,
        rounds: 100,
        operation_seconds: 50e-6,
        slow_share: 0.0,
        slow_seconds: 0.0,
        message_seconds: 1e-3,
        handling_seconds: 2e-6,
    };

    #[test]
    fn single_rank_never_waits_and_equal_ranks_rarely_do() {
        let alone = simulate(&Load { ranks: 1, ..LOAD }, Seed(1));
        assert_eq!(alone.waiting, 0.0);
        assert!((alone.operations_per_second - 20_000.0).abs() < 300.0, "{alone:?}");
        assert!(simulate(&LOAD, Seed(1)).waiting < 0.05);
    }

    #[test]
    fn more_ranks_and_slower_messages_wait_longer() {
        let uneven = Load { slow_share: 1e-3, slow_seconds: 20e-3, ..LOAD };
        let even = simulate(&LOAD, Seed(1)).waiting;
        let few = simulate(&uneven, Seed(1)).waiting;
        let many = simulate(&Load { ranks: 512, ..uneven }, Seed(1)).waiting;
        let slow = simulate(&Load { message_seconds: 0.2, ..LOAD }, Seed(1)).waiting;
        assert!(many > 2.0 * few && few > 2.0 * even, "{even} {few} {many}");
        assert!(slow > 0.5, "{slow}");
    }

    #[test]
    fn the_same_seed_gives_the_same_stalls() {
        assert_eq!(simulate(&LOAD, Seed(7)), simulate(&LOAD, Seed(7)));
        assert_ne!(simulate(&LOAD, Seed(7)), simulate(&LOAD, Seed(8)));
    }
}
