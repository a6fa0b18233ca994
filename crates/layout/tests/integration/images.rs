//! Images are never altered; invalid input is reported.

use crate::common::{Image, grow_tree, run};
use senesce_core::failure::{Classify, ExitCode};
use senesce_layout::{Layout, LayoutError, Method, Options};
use std::path::Path;

fn content(image: &Image) -> String {
    run(&format!("b2sum < {}", image.path().display()))
}

#[test]
#[ignore = "needs loop devices, XFS, btrfs"]
fn image_with_a_dirty_journal_is_not_altered() {
    for mkfs in ["mkfs.ext4 -qF", "mkfs.xfs -qf -m rmapbt=1", "mkfs.btrfs -qf"] {
        let mut image = Image::new(mkfs, 320);
        grow_tree(&image.mount_point(), 300);
        std::fs::write(image.mount_point().join("last"), vec![1u8; 20_000]).unwrap();
        // A copy of the frozen file system still has its journal to replay.
        let (point, path) = (image.mount_point(), image.path());
        run(&format!(
            "fsfreeze -f {0}; cp --sparse=always {1} {1}.copy; fsfreeze -u {0}",
            point.display(),
            path.display()
        ));
        image.unmount();
        std::fs::rename(image.path().with_extension("copy"), image.path()).unwrap();
        let before = content(&image);
        let layout = Layout::of(&image.path()).unwrap();
        assert!(layout.files > 200, "{mkfs}: {}", layout.files);
        assert!(layout.free_space.is_some());
        assert_eq!(content(&image), before, "{mkfs}: the image was altered");
        run("udevadm settle 2>/dev/null || true");
        let loops = run(&format!("losetup -j {}", image.path().display()));
        assert_eq!(loops, "", "{mkfs}: the loop device is left");
    }
}

#[test]
#[ignore = "needs loop devices"]
fn mounted_image_is_examined_at_its_mount_point() {
    let image = Image::new("mkfs.ext4 -qF", 64);
    std::fs::write(image.mount_point().join("file"), "not on the device yet").unwrap();
    let by_image = Layout::of(&image.path()).unwrap();
    let by_path = Layout::of(&image.mount_point()).unwrap();
    assert_eq!((by_image.files, by_image.extents), (1, 1));
    assert_eq!(by_image.free_space, by_path.free_space);
}

#[test]
#[ignore = "needs loop devices"]
fn hidden_mount_is_refused_and_partial_mount_is_reported() {
    let image = Image::new("mkfs.ext4 -qF", 64);
    let point = image.mount_point();
    std::fs::create_dir(point.join("sub")).unwrap();
    std::fs::write(point.join("file"), "not in the part").unwrap();
    run(&format!("mount -t tmpfs none {}", point.display()));
    let hidden = Layout::of(&image.path());
    run(&format!("umount {0} && mount --bind {0}/sub {0}", point.display()));
    let part = Layout::of(&image.path());
    run(&format!("umount {}", point.display()));
    assert_eq!(hidden.unwrap_err().exit_code(), ExitCode::Refused);
    let part = part.unwrap();
    assert!(part.view.contains("shows only /sub of the file system") && part.files == 0, "{}", part.view);
}

#[test]
#[ignore = "needs loop devices"]
fn holes_inline_data_unwritten_and_links_are_distinguished() {
    let image = Image::new("mkfs.ext4 -qF -O inline_data -I 256", 64);
    let root = image.mount_point();
    run(&format!(
        "cd {} && echo tiny > tiny && truncate -s 1M hole && fallocate -l 64K reserved && ln tiny same && mkdir sub \
         && dd if=/dev/zero of=sub/gap bs=4K count=1 seek=9 status=none && touch empty && sync -f .",
        root.display()
    ));
    let options = Options { per_file: true, map: true, ..Options::default() };
    let layout = Layout::examine(&root, &options).unwrap();
    let summary = &layout.summary;
    assert_eq!((summary.files, summary.extra_links, summary.inline.extents), (5, 1, 1));
    assert_eq!((summary.unwritten.extents, summary.unwritten.bytes), (1, 64 << 10));
    let of = |path: &str| layout.files.iter().find(|file| file.path == path).map(|file| (file.extents, file.blocks));
    assert_eq!(of("hole"), Some((0, 0)));
    assert_eq!(of("reserved"), Some((1, 16)));
    assert_eq!(of("sub/gap"), Some((1, 1)));
    assert_eq!(of("empty"), Some((0, 0)));
    assert_eq!(summary.blocks, 17);
    assert!(layout.map.is_some());
}

#[test]
#[ignore = "needs loop devices, XFS"]
fn files_deleted_during_the_walk_are_counted_as_vanished() {
    for (mkfs, method) in [
        ("mkfs.ext4 -qF", Method::Fiemap),
        ("mkfs.ext4 -qF", Method::InodeTables),
        ("mkfs.xfs -qf -m rmapbt=0", Method::Fiemap),
        ("mkfs.xfs -qf -m rmapbt=1", Method::ReverseMap),
    ] {
        let image = Image::new(mkfs, 320);
        grow_tree(&image.mount_point(), 3000);
        let root = image.mount_point();
        let deleter = std::thread::spawn(move || run(&format!("find {} -type f -delete", root.display())));
        let options = Options { method: Some(method), ..Options::default() };
        while !deleter.is_finished() {
            let summary = Layout::examine(&image.mount_point(), &options).unwrap().summary;
            assert!(summary.files <= 3000);
        }
        deleter.join().unwrap();
        assert_eq!(Layout::of(&image.mount_point()).unwrap().files, 0);
    }
}

#[test]
fn paths_without_extents_are_refused_with_the_name_of_their_file_system() {
    for path in ["/proc", "/sys", "/dev/shm"] {
        let error = Layout::of(Path::new(path)).unwrap_err();
        assert!(matches!(error, LayoutError::NoExtents { .. }), "{path}: {error}");
        assert_eq!(error.exit_code(), ExitCode::Missing);
    }
    let tmpfs = Layout::of(Path::new("/dev/shm")).unwrap_err().to_string();
    assert!(tmpfs.contains("tmpfs"), "{tmpfs}");
    let missing = Layout::of(Path::new("/no/such/place")).unwrap_err();
    assert_eq!(missing.exit_code(), ExitCode::Usage);
}

#[test]
fn file_that_is_not_an_image_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("poem.txt");
    std::fs::write(&path, "no file system in here\n".repeat(100)).unwrap();
    let error = Layout::of(&path).unwrap_err();
    assert!(error.to_string().contains("poem.txt") || error.to_string().contains("root"), "{error}");
}

#[test]
#[ignore = "needs loop devices"]
fn wrong_images_are_usage_errors_with_their_name_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wrong.img");
    std::fs::File::create(&path).unwrap().set_len(32 << 20).unwrap();
    run(&format!("mkfs.ext4 -qF {}", path.display()));
    let cut = std::fs::read(&path).unwrap()[..8 << 20].to_vec();
    for (content, names_device) in [(Vec::new(), false), (b"no file system".repeat(10_000), false), (cut, true)] {
        std::fs::write(&path, &content).unwrap();
        let error = Layout::of(&path).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Usage, "{error}");
        let text = error.to_string();
        assert_eq!(text.matches("wrong.img").count(), 1, "{text}");
        assert_eq!(text.contains("/dev/loop"), names_device, "{text}");
    }
}

#[test]
#[ignore = "needs loop devices"]
fn unsupported_method_is_a_usage_error() {
    let image = Image::new("mkfs.ext4 -qF", 64);
    let options = Options { method: Some(Method::TreeSearch), ..Options::default() };
    let error = Layout::examine(&image.mount_point(), &options).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Usage, "{error}");
}
