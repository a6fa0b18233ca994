//! Content of writes: incompressible noise that this program recognises later.

use senesce_core::Seed;

/// Each sector holds a random number and its keyed BLAKE3 hash.
const SECTOR: usize = 512;
const NUMBER: usize = 32;
const MARK: usize = NUMBER + 32;
const KEY: &[u8; 32] = b"senesce writes noise into zones.";

fn mark(number: &[u8]) -> [u8; 32] {
    *blake3::keyed_hash(KEY, number).as_bytes()
}

/// Sectors begin at multiples of 512 bytes.
pub(crate) fn fill(memory: &mut [u8]) {
    rand::Rng::fill_bytes(&mut Seed(0).stream("zoned/buffers"), memory);
    for sector in memory.chunks_exact_mut(SECTOR) {
        let of_number = mark(&sector[..NUMBER]);
        sector[NUMBER..MARK].copy_from_slice(&of_number);
    }
}

/// Returns whether `content` consists of noise sectors only.
pub(crate) fn is_noise(content: &[u8]) -> bool {
    let is_marked = |sector: &[u8]| mark(&sector[..NUMBER]) == sector[NUMBER..MARK];
    !content.is_empty() && content.len().is_multiple_of(SECTOR) && content.chunks_exact(SECTOR).all(is_marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_recognised_sector_by_sector() {
        let mut noise = vec![0; 1 << 20];
        assert!(!is_noise(&noise) && !is_noise(&[]));
        fill(&mut noise);
        assert!(noise.chunks(4096).all(is_noise));
        assert!(is_noise(&noise[512..1024]) && !is_noise(&noise[..511]) && !is_noise(&noise[1..513]));
        noise[1024 + 40] ^= 1;
        assert!(!is_noise(&noise[..4096]) && is_noise(&noise[..1024]));
        let mut other = vec![0; 4096];
        rand::Rng::fill_bytes(&mut Seed(1).stream("zoned/buffers"), &mut other);
        assert!(!is_noise(&other));
    }

    #[test]
    fn no_two_sectors_are_equal() {
        let mut noise = vec![0; 1 << 20];
        fill(&mut noise);
        let sectors: std::collections::BTreeSet<&[u8]> = noise.chunks(SECTOR).collect();
        assert_eq!(sectors.len(), noise.len() / SECTOR);
    }
}
