//! Write amplification of uniform random writes: Desnoyers' formula, compared with the model's garbage collection.

use super::map::Map;
use super::parameters::{Collection, Firmware, Flash, Geometry, PAGE, Placement, Policy, Timing};
use rand_pcg::rand_core::Rng;
use senesce_core::Seed;

/// Returns the write amplification of first-in-first-out cleaning under uniform random writes. `ratio` = physical /
/// logical size above 1. The formula is a / (a + W(-a e^-a)) with Lambert's function W. Source: Desnoyers, "Analytic
/// models of SSD write performance", ACM Transactions on Storage 10(2), 2014. Infinite for a ratio of 1 or below.
pub fn desnoyers(ratio: f64) -> f64 {
    if ratio.is_nan() || ratio <= 1.0 {
        return f64::INFINITY;
    }
    let target = -ratio * (-ratio).exp();
    // x e^x increases from -1/e to 0 on the principal branch.
    let (mut low, mut high) = (-1.0f64, 0.0f64);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        match middle * middle.exp() < target {
            true => low = middle,
            false => high = middle,
        }
    }
    ratio / (ratio + (low + high) / 2.0)
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uniform {
    /// Physical over logical size, minus one; above 0.01. The free block kept in reserve does not count as physical.
    pub spare_share: f64,
    /// At least 2.
    pub pages_per_block: u32,
    /// Blocks, without the one kept in reserve; the spare area must be several blocks.
    pub blocks: u32,
    pub policy: Policy,
    /// Writes before the measurement and in it, in multiples of the logical size.
    pub rounds: (u32, u32),
    pub seed: Seed,
}

/// Returns the write amplification of the model: the drive is filled in order, then overwritten randomly. Moved pages
/// go to the same blocks as the host's, as in the formula.
pub fn measured(uniform: &Uniform) -> f64 {
    let flash = one_die(uniform);
    let (mut map, logical) = (Map::new(&flash), flash.logical_pages());
    let mut random = uniform.seed.stream("devmodel/amplification");
    for page in 0..logical {
        map.write(page, 0, &mut ());
    }
    let mut overwrite = |map: &mut Map, rounds: u32| {
        for _ in 0..u64::from(rounds) * logical {
            // The high half of the product with a random number is uniform below the other factor.
            let page = (u128::from(random.next_u64()) * u128::from(logical)) >> 64;
            map.write(page as u64, 0, &mut ());
        }
        map.counters()
    };
    let before = overwrite(&mut map, uniform.rounds.0);
    let after = overwrite(&mut map, uniform.rounds.1);
    let host = after.host_pages - before.host_pages;
    1.0 + (after.moved_pages - before.moved_pages) as f64 / host.max(1) as f64
}

/// Returns a drive of a single die; its times are irrelevant.
fn one_die(uniform: &Uniform) -> Flash {
    let physical = u64::from(uniform.blocks) * u64::from(uniform.pages_per_block);
    Flash {
        capacity_bytes: (physical as f64 / (1.0 + uniform.spare_share)) as u64 * PAGE,
        spare_share: uniform.spare_share,
        largest_command_bytes: PAGE,
        write_buffer_bytes: 2 * PAGE,
        placement: Placement::RoundRobin,
        geometry: Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: uniform.blocks + 1,
            pages_per_block: uniform.pages_per_block,
            page_bytes: PAGE,
            pages_per_program: 1,
        },
        timing: Timing {
            read_us: vec![1.0],
            read_4k_us: vec![1.0],
            program_us: 1.0,
            erase_us: 0.0,
            channel_mib_per_s: 1000.0,
            channel_transfer_bytes: PAGE,
            interface_mib_per_s: 1000.0,
        },
        firmware: Firmware { read_us: 0.0, read_4k_us: 0.0, write_us: 0.0, write_page_us: 0.0 },
        collection: Collection {
            policy: uniform.policy,
            separate_stream: false,
            ready_blocks: 1,
            idle_ready_blocks: 0,
            idle_after_ms: 0.0,
        },
        slc_cache: None,
        mapping_cache_bytes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Solves the formula in another way. With v the share of valid pages in the cleaned block, v = exp(-a (1 - v)).
    /// Then WA = 1 / (1 - v).
    #[test]
    fn the_formula_agrees_with_its_fixed_point() {
        for spare in [0.05, 0.07, 0.15, 0.28, 0.4] {
            let a = 1.0 + spare;
            let mut valid = 0.5;
            for _ in 0..100_000 {
                valid = f64::exp(-a * (1.0 - valid));
            }
            let expected = 1.0 / (1.0 - valid);
            assert!((desnoyers(a) / expected - 1.0).abs() < 1e-9, "{spare}: {} against {expected}", desnoyers(a));
        }
        assert!(desnoyers(1.0).is_infinite() && desnoyers(f64::NAN).is_infinite());
    }

    fn error(policy: Policy, spare_share: f64, pages_per_block: u32, blocks: u32) -> f64 {
        let rounds = (3, 2);
        let uniform = Uniform { spare_share, pages_per_block, blocks, policy, rounds, seed: Seed(1) };
        let error = measured(&uniform) / desnoyers(1.0 + spare_share) - 1.0;
        println!("{policy:?} spare {spare_share} pages {pages_per_block} blocks {blocks}: {:+.2} %", error * 100.0);
        error
    }

    #[test]
    fn cleaning_in_order_follows_the_formula_and_greedy_cleaning_stays_below() {
        for spare in [0.07, 0.28] {
            let fifo = error(Policy::Fifo, spare, 64, 4096);
            let greedy = error(Policy::Greedy, spare, 64, 4096);
            assert!(fifo.abs() < 0.01, "{spare}: {fifo}");
            assert!(greedy < fifo && greedy > -0.2, "{spare}: {greedy}");
        }
    }

    #[test]
    #[ignore = "long: 36 drives of 2 million pages"]
    fn write_amplification_over_spare_areas_and_block_sizes() {
        for spare in [0.05, 0.07, 0.1, 0.15, 0.28, 0.4] {
            for pages in [64, 128, 512] {
                let blocks = (1 << 21) / pages;
                let fifo = error(Policy::Fifo, spare, pages, blocks);
                let greedy = error(Policy::Greedy, spare, pages, blocks);
                let least = if pages == 512 { 0.02 } else { 0.01 };
                assert!(fifo.abs() < least, "{spare}, {pages} pages: first in, first out {fifo}");
                assert!(greedy < fifo, "{spare}, {pages} pages: greedy {greedy} above {fifo}");
                assert!(pages < 512 || spare < 0.07 || greedy.abs() < 0.03, "{spare}, {pages} pages: greedy {greedy}");
            }
        }
    }
}
