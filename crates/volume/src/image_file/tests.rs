use super::*;
use std::fs;

const NEW: ImageOptions = ImageOptions {
    size: Some(Bytes::mib(8)),
    writes: None,
    erase: None,
    keep: false,
    read_only: false,
    in_memory: false,
};

fn image_path() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.img");
    (directory, path)
}

#[test]
fn an_image_in_memory_reaches_its_file_only_when_kept() {
    use std::os::unix::fs::FileExt;
    let (directory, path) = image_path();
    let image = ImageFile::open(&path, ImageOptions { in_memory: true, ..NEW }).unwrap();
    image.active().write_all_at(b"aged", 4 << 20).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    image.keep_result().unwrap();
    drop(image);
    let kept = fs::read(&path).unwrap();
    assert_eq!((kept.len(), &kept[4 << 20..(4 << 20) + 4]), (8 << 20, &b"aged"[..]));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no partial file is left");
}

#[test]
fn empty_image_to_read_needs_no_size() {
    let (_directory, path) = image_path();
    fs::write(&path, "").unwrap();
    let refused = |keep| ImageFile::open(&path, ImageOptions { size: None, keep, ..NEW }).err().unwrap();
    assert!(matches!(refused(true), TargetError::Damaged { path: named, .. } if named == path));
    assert!(matches!(refused(false), TargetError::Usage(_)));
}

#[test]
fn file_that_takes_the_image_name_meanwhile_stays() {
    let (directory, path) = image_path();
    fs::write(&path, "image").unwrap();
    let file = File::open(&path).unwrap();
    let written = |to: NamedFile, come: bool| {
        if come {
            fs::rename(&path, directory.path().join("moved")).unwrap();
            fs::write(&path, "diary").unwrap();
        }
        std::os::unix::fs::FileExt::write_all_at(to.file, b"result", 0).map_err(TargetError::io("write", to.path))
    };
    put_in_place_of(&file, &path, |to| written(to, false)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"result");
    let file = File::open(&path).unwrap();
    let error = put_in_place_of(&file, &path, |to| written(to, true)).unwrap_err();
    assert!(error.to_string().contains("another file took its name"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"diary");
    assert_eq!(fs::read(directory.path().join("a.img.result")).unwrap(), b"result");
}

#[test]
fn too_little_space_or_memory_is_refused_before_creation() {
    let (_directory, path) = image_path();
    for (in_memory, size) in [(false, 1 << 58), (true, 1 << 50)] {
        let huge = ImageOptions { in_memory, size: Some(Bytes(size)), ..NEW };
        assert!(matches!(ImageFile::open(&path, huge), Err(TargetError::Missing { .. })), "{in_memory}");
        assert!(!path.exists());
    }
}

#[test]
fn space_check_ignores_holes() {
    let (_directory, path) = image_path();
    let huge = |writes| ImageOptions { size: Some(Bytes(1 << 43)), writes: Some(writes), ..NEW };
    assert!(matches!(ImageFile::open(&path, huge(Bytes(1 << 43))), Err(TargetError::Missing { .. })));
    let image = ImageFile::open(&path, huge(Bytes::mib(1))).unwrap();
    assert_eq!(image.size(), Bytes(1 << 43));
    let in_memory = ImageFile::scratch(Bytes(1 << 50), Some(Bytes::mib(1))).unwrap();
    let [in_memory, on_disk] = [&in_memory, &image].map(|image| image.growth_space(Some(Bytes::mib(1))).unwrap());
    assert_eq!((in_memory.missing(), on_disk.missing()), (None, None));
}

#[test]
fn image_beyond_its_limit_may_grow_to_its_size() {
    use std::os::unix::fs::FileExt;
    let (_directory, path) = image_path();
    let image = ImageFile::open(&path, ImageOptions { writes: Some(Bytes::mib(2)), ..NEW }).unwrap();
    let growth = || image.growth_space(Some(Bytes::mib(2))).unwrap().growth;
    assert_eq!(growth(), Bytes::mib(2));
    image.active().write_all_at(&vec![1; 3 << 20], 0).unwrap();
    image.active().sync_all().unwrap();
    assert!((Bytes::mib(4)..=Bytes::mib(5)).contains(&growth()), "{}", growth());
}

#[test]
fn a_second_run_on_one_image_is_refused() {
    let (_directory, path) = image_path();
    let _first = ImageFile::open(&path, NEW).unwrap();
    assert!(matches!(ImageFile::open(&path, NEW), Err(TargetError::Refused { .. })));
}
