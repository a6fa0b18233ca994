//! Number of syncs per request: on a disk each one flushes the cache.

use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn syncs_do_not_depend_on_request_size() {
    let nvm = SimNvm::new(&empty_image(4000, 9000));
    let fs = TierFs::open(Box::new(nvm.clone()), Box::new(SimCold::default()), Path::new("image"), &Options::default())
        .unwrap();
    let syncs = Arc::new(AtomicUsize::new(0));
    let count = syncs.clone();
    nvm.set_hook(Box::new(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    let of = |request: &dyn Fn()| {
        let before = syncs.load(Ordering::Relaxed);
        request();
        syncs.load(Ordering::Relaxed) - before
    };
    let ino = file(&fs, ROOT_INO, "a");
    let data = pattern(MIB as usize, 1);
    let write = |at: u64, length: usize| assert_eq!(fs.write(ino, at, &data[..length], false), Ok(length));
    assert_eq!(of(&|| write(0, MIB as usize)), 2, "a new file");
    assert_eq!(of(&|| write(MIB, MIB as usize)), 2, "an append");
    assert_eq!(of(&|| write(2 * MIB, 4 * BLOCK - 20)), 3, "an append that needs a new node");
    assert_eq!(of(&|| write(2 * MIB + 4 * BLOCK as u64 - 20, 10)), 2, "an append to the last block");
    assert_eq!(of(&|| write(0, MIB as usize)), 3, "data are replaced");
    assert_eq!(of(&|| write(16, 8)), 2, "a word");
    assert_eq!(of(&|| write(2 * MIB - 100, BLOCK)), 2, "data of two nodes: the root is replaced");
    assert_eq!(of(&|| write(9 * MIB + 5, MIB as usize)), 3, "data behind a gap");
    assert!(of(&|| fs.punch(ino, 3 * BLOCK as u64, MIB).unwrap()) <= 3);
    assert!(of(&|| assert_eq!(fs.evict(200), 200)) <= 1 + 200usize.div_ceil(64) * 2);
    let size = fs.get_attr(ino).unwrap().size as usize;
    assert!(of(&|| assert_eq!(fs.read(ino, 0, &mut vec![0; size]), Ok(size))) < 40);
    assert_eq!(fs.stats().promoted, 200);
}
