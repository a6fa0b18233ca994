use super::*;
use proptest::prelude::*;

fn pack_of(objects: &[Vec<u8>]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = PackWriter::create(directory.path().join("part")).unwrap();
    for object in objects {
        writer.append(HashAlgorithm::Sha1.name(object), object).unwrap();
    }
    std::fs::read(writer.finish(directory.path()).unwrap()).unwrap()
}

/// Flips each bit of a pack: objects read are intact, or damage is reported.
#[test]
fn flipped_bits_are_detected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pack");
    let objects = [b"one".to_vec(), b"".to_vec(), b"three".to_vec()];
    let whole = pack_of(&objects);
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bytes).unwrap();
        let pack = Pack::open(&path, HashAlgorithm::Sha1).unwrap();
        let intact = |entry: &&PackEntry| {
            HashAlgorithm::Sha1.name(&pack.read(entry).unwrap()) == entry.id && pack.has_header(entry)
        };
        let sound = pack.problem.is_none() && pack.entries.iter().filter(intact).count() == 3;
        assert!(!sound, "bit {bit}");
    }
}

#[test]
fn the_format_is_fixed() {
    let bytes = pack_of(&[b"one".to_vec(), b"two".to_vec()]);
    assert_eq!(blake3::hash(&bytes).to_hex()[..16], *"d0873e4e43ca91ed");
}

fn sparse_pack(path: &Path, length: u32) {
    let file = File::create(path).unwrap();
    let id = HashAlgorithm::Sha1.name(&vec![0; (length as usize).min(2 * LONGEST_STORED)]);
    let start = (MAGIC.len() + RECORD_HEADER) as u64;
    let header = [RECORD.as_slice(), &length.to_le_bytes(), id.padded()].concat();
    file.write_all_at(&[MAGIC.as_slice(), &header].concat(), 0).unwrap();
    let index = encode_index(&[PackEntry { id, offset: start, length }]);
    let trailer = [1u64.to_le_bytes().as_slice(), blake3::hash(&index).as_bytes().as_slice(), END].concat();
    file.write_all_at(&[index, trailer].concat(), start + u64::from(length)).unwrap();
}

#[test]
fn objects_longer_than_a_chunk_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pack");
    sparse_pack(&path, LONGEST_STORED as u32);
    let pack = Pack::open(&path, HashAlgorithm::Sha1).unwrap();
    assert_eq!((pack.problem.as_deref(), pack.entries.len()), (None, 1));
    assert_eq!(pack.read(&pack.entries[0]).unwrap().len(), LONGEST_STORED);
    for length in [LONGEST_STORED as u32 + 1, u32::MAX] {
        sparse_pack(&path, length);
        let pack = Pack::open(&path, HashAlgorithm::Sha1).unwrap();
        assert!(pack.problem.unwrap().contains("more than 16777216 bytes"));
        assert_eq!(pack.entries, [], "nor is it found again");
    }
}

proptest! {
    #[test]
    fn truncation_keeps_earlier_objects(
        objects in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..8),
        cut in 0.0..1.0f64,
    ) {
        let whole = pack_of(&objects);
        let length = (whole.len() as f64 * cut) as usize;
        let (entries, problem) = decode(&whole[..length], HashAlgorithm::Sha1);
        prop_assert!(problem.is_some());
        let mut end = MAGIC.len();
        let intact = objects.iter().take_while(|object| { end += RECORD_HEADER + object.len(); end <= length }).count();
        prop_assert_eq!(entries.len(), intact);
    }

    #[test]
    fn a_changed_byte_loses_at_most_one_object(
        objects in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..100), 2..8),
        place in 0.0..1.0f64,
    ) {
        let mut bytes = pack_of(&objects);
        let at = 8 + ((bytes.len() - 8) as f64 * place) as usize;
        bytes[at] ^= 0x55;
        let (entries, _) = decode(&bytes, HashAlgorithm::Sha1);
        let intact = entries.iter().filter(|entry| {
            let start = entry.offset as usize;
            HashAlgorithm::Sha1.name(&bytes[start..start + entry.length as usize]) == entry.id
        }).count();
        prop_assert!(intact + 1 >= objects.len(), "{} of {}", intact, objects.len());
    }

    #[test]
    fn objects_recovered_without_an_index_match_their_names(
        objects in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..100), 2..8),
        place in 0.0..1.0f64,
    ) {
        let mut bytes = pack_of(&objects);
        bytes.pop();
        let records: usize = objects.iter().map(|object| RECORD_HEADER + object.len()).sum();
        bytes[MAGIC.len() + (records as f64 * place) as usize] ^= 0x55;
        let (entries, problem) = decode(&bytes, HashAlgorithm::Sha1);
        prop_assert!(problem.is_some() && entries.len() + 1 >= objects.len(), "{} of {}", entries.len(), objects.len());
        for entry in entries {
            let start = entry.offset as usize;
            prop_assert_eq!(HashAlgorithm::Sha1.name(&bytes[start..start + entry.length as usize]), entry.id);
        }
    }

    #[test]
    fn garbage_is_reported_as_a_problem(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        let (entries, problem) = decode(&bytes, HashAlgorithm::Blake3);
        prop_assert!(problem.is_some() && entries.is_empty());
    }
}
