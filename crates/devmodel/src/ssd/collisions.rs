//! Collisions of consecutive reads on the same die.

/// Flash reads of a group per die: with 32 KiB pages on eight dies a group is 1 MiB, the data that a reader has in flight.
const READS_PER_DIE: u32 = 4;

/// Flash reads in order, in groups that could be in flight together.
#[derive(Debug, Clone)]
pub(crate) struct Collisions {
    per_die: Vec<u32>,
    reads: u32,
    busiest: u64,
    even: u64,
}

impl Collisions {
    pub(crate) fn new(dies: u32) -> Self {
        Self { per_die: vec![0; dies.max(1) as usize], reads: 0, busiest: 0, even: 0 }
    }

    pub(crate) fn read(&mut self, die: u32) {
        self.per_die[die as usize] += 1;
        self.reads += 1;
        if self.reads == READS_PER_DIE * self.per_die.len() as u32 {
            (self.busiest, self.even) = self.sums();
            self.per_die.fill(0);
            self.reads = 0;
        }
    }

    /// Reads of the busiest die of each group over their even share: 1 if reads are spread evenly, the number of dies if one die
    /// has them all.
    pub(crate) fn index(&self) -> Option<f64> {
        let (busiest, even) = self.sums();
        (even > 0).then(|| busiest as f64 / even as f64)
    }

    fn sums(&self) -> (u64, u64) {
        let busiest = self.per_die.iter().copied().max().unwrap_or(0);
        let even = self.reads.div_ceil(self.per_die.len() as u32);
        (self.busiest + u64::from(busiest), self.even + u64::from(even))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collision_index_is_one_for_even_reads_and_maximal_on_one_die() {
        let index = |die: fn(u32) -> u32| {
            let mut collisions = Collisions::new(8);
            (0..320).for_each(|read| collisions.read(die(read)));
            collisions.index()
        };
        assert_eq!(index(|read| read % 8), Some(1.0));
        assert_eq!(index(|_| 3), Some(8.0));
        assert_eq!(index(|read| read % 2), Some(4.0));
        assert_eq!(Collisions::new(8).index(), None);
    }
}
