//! POSIX rules that the kernel leaves to the file system.

use super::*;

#[test]
fn unlinked_files_live_until_they_are_forgotten() {
    let (fs, _, _) = small(200, 100);
    let ino = filled(&fs, "a", 10, 1);
    fs.unlink(ROOT_INO, b"a").unwrap();
    assert_eq!(fs.get_attr(ino).unwrap().links, 0);
    assert_eq!(read_all(&fs, ino), Ok(pattern(10 * BLOCK, 1)));
    assert_eq!(fs.link(ino, ROOT_INO, b"b"), Err(Errno::NOENT));
    fs.forget(ino, 1);
    assert_eq!(fs.get_attr(ino), Err(Errno::STALE));
    assert_eq!(fs.stats().resident_blocks, 0);
}

#[test]
fn reused_inode_number_has_a_new_generation() {
    let (fs, _, _) = small(200, 100);
    let first = fs.create(ROOT_INO, b"a", &new(FILE)).unwrap();
    remove(&fs, "a", first.ino);
    let second = fs.create(ROOT_INO, b"a", &new(FILE)).unwrap();
    assert_eq!(first.ino, second.ino);
    assert_ne!(first.generation, second.generation);
}

#[test]
fn set_id_bits_are_cleared_as_required() {
    let (fs, _, _) = small(200, 100);
    let ino = fs.create(ROOT_INO, b"a", &new(libc::S_IFREG | 0o6755)).unwrap().ino;
    fs.write(ino, 0, b"x", false).unwrap();
    assert_eq!(fs.get_attr(ino).unwrap().mode & 0o7777, 0o6755);
    fs.write(ino, 0, b"x", true).unwrap();
    assert_eq!(fs.get_attr(ino).unwrap().mode & 0o7777, 0o755);
    fs.set_attr(ino, &SetAttr { mode: Some(0o6745), ..Default::default() }).unwrap();
    fs.set_attr(ino, &SetAttr { uid: Some(5), ..Default::default() }).unwrap();
    let attr = fs.get_attr(ino).unwrap();
    assert_eq!((attr.mode & 0o7777, attr.uid), (0o2745, 5), "group cannot execute: mandatory locking");
    fs.set_attr(ino, &SetAttr { mode: Some(0o4755), ..Default::default() }).unwrap();
    fs.set_attr(ino, &SetAttr { size: Some(0), clear_setid: true, ..Default::default() }).unwrap();
    assert_eq!(fs.get_attr(ino).unwrap().mode & 0o7777, 0o755);
}

#[test]
fn new_files_inherit_the_group_of_a_set_group_id_directory() {
    let (fs, _, _) = small(200, 100);
    let top = fs.create(ROOT_INO, b"d", &NewInode { gid: 7, ..new(DIRECTORY | 0o2000) }).unwrap();
    let file = fs.create(top.ino, b"f", &new(FILE)).unwrap();
    let below = fs.create(top.ino, b"e", &new(DIRECTORY)).unwrap();
    assert_eq!((file.gid, below.gid, below.mode & 0o2000), (7, 7, 0o2000));
    assert_eq!(fs.get_attr(top.ino).unwrap().links, 3);
}

#[test]
fn holes_are_found() {
    let (fs, _, _) = small(400, 1000);
    let ino = file(&fs, ROOT_INO, "a");
    let block = BLOCK as u64;
    fs.write(ino, 10 * block, &[1; BLOCK], false).unwrap();
    fs.write(ino, 600 * block, &[1; 10], false).unwrap();
    fs.evict(100);
    assert_eq!(fs.seek(ino, 0, true), Ok(10 * block));
    assert_eq!(fs.seek(ino, 0, false), Ok(0));
    assert_eq!(fs.seek(ino, 10 * block + 5, false), Ok(11 * block));
    assert_eq!(fs.seek(ino, 11 * block, true), Ok(600 * block));
    assert_eq!(fs.seek(ino, 600 * block + 1, false), Ok(600 * block + 10));
    assert_eq!(fs.seek(ino, 600 * block + 10, true), Err(Errno::NXIO));
    assert_eq!(fs.get_attr(ino).unwrap().blocks, 2 + 3);
    fs.punch(ino, 0, 601 * block).unwrap();
    assert_eq!(fs.seek(ino, 0, true), Err(Errno::NXIO));
    fs.preallocate(ino, 0, 3 * block, true).unwrap();
    assert_eq!(fs.seek(ino, 0, false), Ok(3 * block));
}

#[test]
fn bytes_past_the_end_never_reappear() {
    let (fs, _, _) = small(400, 1000);
    let ino = file(&fs, ROOT_INO, "a");
    fs.write(ino, 0, &[9; 3 * BLOCK], false).unwrap();
    for evicted in [false, true] {
        if evicted {
            fs.evict(1000);
        }
        fs.set_attr(ino, &SetAttr { size: Some(100), ..Default::default() }).unwrap();
        fs.preallocate(ino, 0, 5 * BLOCK as u64, true).unwrap();
        fs.set_attr(ino, &SetAttr { size: Some(4 * BLOCK as u64), ..Default::default() }).unwrap();
        assert_eq!(read_all(&fs, ino), Ok([&[9; 100][..], &[0; 4 * BLOCK - 100]].concat()));
    }
}

#[test]
fn large_sparse_files_reach_their_limit() {
    let (fs, _, _) = small(200, 100);
    let ino = file(&fs, ROOT_INO, "a");
    let most = crate::format::MAX_FILE_BYTES;
    assert_eq!(fs.write(ino, most - 1, b"xy", false), Err(Errno::FBIG));
    fs.write(ino, most - 1, b"x", false).unwrap();
    let mut tail = [7; 2];
    assert_eq!(fs.read(ino, most - 2, &mut tail), Ok(2));
    assert_eq!(tail, [0, b'x']);
    fs.write(ino, 1 << 40, b"middle", false).unwrap();
    fs.set_attr(ino, &SetAttr { size: Some(5), ..Default::default() }).unwrap();
    assert_eq!(fs.get_attr(ino).unwrap().blocks, 1, "the root, with holes below");
    fs.set_attr(ino, &SetAttr { size: Some(0), ..Default::default() }).unwrap();
    assert_eq!(fs.get_attr(ino).unwrap().blocks, 0);
}

#[test]
fn directories_with_many_names_keep_cookies_and_space() {
    let (fs, _, _) = small(2000, 10);
    let d = folder(&fs, ROOT_INO, "d");
    for n in 0..5000 {
        fs.create(d, format!("file-{n}").as_bytes(), &new(FILE)).unwrap();
    }
    let (mut cookie, mut seen) = (0, std::collections::BTreeSet::new());
    loop {
        let mut count = 0;
        fs.read_directory(d, cookie, &mut |_, name, next| {
            count += 1;
            cookie = next;
            assert!(seen.insert(name.to_vec()), "{name:?} twice");
            count < 7
        })
        .unwrap();
        if count == 0 {
            break;
        }
        // Removal between two calls does not move entries.
        if let Some(last) = seen.iter().next_back().filter(|name| name.starts_with(b"file-")).cloned() {
            let _ = fs.unlink(d, &last);
        }
    }
    assert_eq!(seen.len(), 5002);
    let blocks = fs.get_attr(d).unwrap().size;
    for n in 0..5000 {
        let _ = fs.unlink(d, format!("file-{n}").as_bytes());
    }
    for n in 0..5000 {
        fs.create(d, format!("name-{n}").as_bytes(), &new(FILE)).unwrap();
    }
    assert_eq!(fs.get_attr(d).unwrap().size, blocks, "freed space is used again");
    assert_eq!(fs.rmdir(ROOT_INO, b"d"), Err(Errno::NOTEMPTY));
    assert_eq!(resolve(&fs, "/d/name-4999").map(|ino| ino > 0), Ok(true));
}

#[test]
fn long_names_and_slashes_are_refused() {
    let (fs, _, _) = small(200, 10);
    let long = [b'n'; 256];
    assert_eq!(fs.create(ROOT_INO, &long, &new(FILE)), Err(Errno::NAMETOOLONG));
    assert_eq!(fs.lookup(ROOT_INO, &long), Err(Errno::NAMETOOLONG));
    assert_eq!(fs.create(ROOT_INO, b"a/b", &new(FILE)), Err(Errno::INVAL));
    fs.create(ROOT_INO, &long[..255], &new(FILE)).unwrap();
    assert!(fs.lookup(ROOT_INO, &long[..255]).is_ok());
}

#[test]
fn mapped_page_does_not_undo_uncached_writes() {
    let (fs, _, _) = small(200, 100);
    let ino = file(&fs, ROOT_INO, "a");
    let content = || read_all(&fs, ino).unwrap()[..BLOCK].to_vec();
    fs.write_past_cache(ino, 0, &[1; BLOCK], false).unwrap();
    let mut page = [0; BLOCK];
    fs.read_into_cache(ino, 0, &mut page).unwrap();
    fs.write_past_cache(ino, 8, &[2; 8], false).unwrap();
    page[..8].fill(3);
    fs.write_back(ino, 0, &page, false).unwrap();
    let mut expected = [1; BLOCK];
    expected[..8].fill(3);
    expected[8..16].fill(2);
    assert_eq!(content(), expected, "the page was older than the write past the cache");

    fs.read_into_cache(ino, 0, &mut page).unwrap();
    page[8..12].fill(4);
    fs.write_back(ino, 0, &page, false).unwrap();
    assert_eq!(content(), page, "the page was newer");

    fs.write_past_cache(ino, 0, &[5; 3 * BLOCK], false).unwrap();
    fs.read_into_cache(ino, 2 * BLOCK as u64, &mut [0; BLOCK]).unwrap();
    fs.write_back(ino, 0, &[4; BLOCK], false).unwrap();
    assert_eq!(content(), [5; BLOCK], "all of the page was older");

    fs.write_through_cache(ino, 0, &[6; BLOCK], false).unwrap();
    fs.write_back(ino, 0, &[7; BLOCK], false).unwrap();
    assert_eq!(content(), [7; BLOCK], "a write through the cache made the page new");
}

#[test]
fn cache_state_is_forgotten_with_the_file() {
    let (fs, _, _) = small(200, 100);
    let first = file(&fs, ROOT_INO, "a");
    fs.write_through_cache(first, 0, &[1; BLOCK], false).unwrap();
    fs.write_past_cache(first, 0, &[2; BLOCK], false).unwrap();
    remove(&fs, "a", first);
    let second = file(&fs, ROOT_INO, "a");
    assert_eq!(first, second);
    fs.write_back(second, 0, &[3; BLOCK], false).unwrap();
    assert_eq!(read_all(&fs, second), Ok(vec![3; BLOCK]));
}
