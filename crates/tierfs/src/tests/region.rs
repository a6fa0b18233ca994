//! Compares the unsafe copies of a region with a model of safe slices: equal bytes after any calls, and a panic outside.

use crate::format::BLOCK;
use crate::nvm::MappedNvm;
use crate::region::Region;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const BLOCKS: usize = 3;
const LEN: usize = BLOCKS * BLOCK;

#[derive(Debug, Clone)]
enum Call {
    Read(usize, usize),
    Write(usize, Vec<u8>),
    Zero(usize, usize),
    Copy(u32, u32, usize, usize),
    Store(usize, u64),
    Load(usize),
    Block(u32),
    Fresh(u32, u8),
}

/// Offsets inside, at the end, past it, and close to overflow.
fn place() -> impl Strategy<Value = usize> {
    // Most are word-aligned.
    prop_oneof![12 => (0..LEN / 8).prop_map(|word| word * 8), 6 => 0..LEN - 2 * BLOCK, 1 => LEN - 16..=LEN + 16, 1 => usize::MAX - 16..=usize::MAX]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![20 => 0..BLOCK, 1 => LEN - 8..=LEN + 8, 1 => usize::MAX - 8..=usize::MAX]
}

fn call() -> impl Strategy<Value = Call> {
    let block = || prop_oneof![20 => 0..BLOCKS as u32, 1 => BLOCKS as u32..10, 1 => Just(u32::MAX)];
    prop_oneof![
        (place(), 0..BLOCK).prop_map(|(at, length)| Call::Read(at, length)),
        (place(), prop::collection::vec(any::<u8>(), 0..300)).prop_map(|(at, bytes)| Call::Write(at, bytes)),
        (place(), length()).prop_map(|(at, length)| Call::Zero(at, length)),
        (block(), block(), 0..=BLOCK, 0..=BLOCK)
            .prop_map(|(from, to, start, length)| Call::Copy(from, to, start, length)),
        (place(), any::<u64>()).prop_map(|(at, value)| Call::Store(at, value)),
        place().prop_map(Call::Load),
        block().prop_map(Call::Block),
        (block(), any::<u8>()).prop_map(|(block, value)| Call::Fresh(block, value)),
    ]
}

fn to_region(region: &Region, call: &Call) -> Vec<u8> {
    // SAFETY: only this thread uses the region, and slices live no longer than a call.
    unsafe {
        match call {
            Call::Read(at, length) => {
                let mut into = vec![0; *length];
                region.read(*at, &mut into);
                return into;
            }
            Call::Write(at, bytes) => region.write(*at, bytes),
            Call::Zero(at, length) => region.zero(*at, *length),
            Call::Copy(from, to, start, length) => region.copy_within_blocks(*from, *to, *start..start + length),
            Call::Store(at, value) => region.store(*at, *value),
            Call::Load(at) => return region.load(*at).to_le_bytes().to_vec(),
            Call::Block(block) => return region.block(*block).to_vec(),
            Call::Fresh(block, value) => region.fresh_block(*block).fill(*value),
        }
    }
    Vec::new()
}

/// The same on a slice; `None`: out of bounds or unaligned.
fn to_model(model: &mut [u8], call: &Call) -> Option<Vec<u8>> {
    let range = |at: usize, length: usize| Some(at..at.checked_add(length)?);
    let word = |at: usize| if at.is_multiple_of(8) { range(at, 8) } else { None };
    let block_at = |block: u32| range(block as usize * BLOCK, BLOCK);
    match call {
        Call::Read(at, length) => return Some(model.get(range(*at, *length)?)?.to_vec()),
        Call::Write(at, bytes) => model.get_mut(range(*at, bytes.len())?)?.copy_from_slice(bytes),
        Call::Zero(at, length) => model.get_mut(range(*at, *length)?)?.fill(0),
        Call::Copy(from, to, start, length) => {
            let source = model.get(range(*from as usize * BLOCK + start, *length)?)?.to_vec();
            model.get_mut(range(*to as usize * BLOCK + start, *length)?)?.copy_from_slice(&source);
        }
        Call::Store(at, value) => model.get_mut(word(*at)?)?.copy_from_slice(&value.to_le_bytes()),
        Call::Load(at) => return Some(model.get(word(*at)?)?.to_vec()),
        Call::Block(block) => return Some(model.get(block_at(*block)?)?.to_vec()),
        Call::Fresh(block, value) => model.get_mut(block_at(*block)?)?.fill(*value),
    }
    Some(Vec::new())
}

proptest! {
    // Miri takes seconds for each.
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 60 }))]

    #[test]
    fn copies_match_slices(calls in prop::collection::vec(call(), 1..40)) {
        let region = Region::new(Box::new(MappedNvm::anonymous(LEN as u64).unwrap()));
        let mut model = vec![0; LEN];
        for call in calls {
            let expected = to_model(&mut model, &call);
            let found = catch_unwind(AssertUnwindSafe(|| to_region(&region, &call))).ok();
            prop_assert_eq!(found, expected, "{:?}", call);
        }
        let whole: Vec<u8> = (0..BLOCKS as u32).flat_map(|block| to_region(&region, &Call::Block(block))).collect();
        prop_assert!(whole == model);
    }
}
