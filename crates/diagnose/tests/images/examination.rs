//! Examination without a trial: messages, and that nothing is changed.

use crate::common::{Image, grow, mkfs, run, scatter};
use senesce_diagnose::estimate::{Options, prognosis};
use senesce_diagnose::headroom::User;
use senesce_diagnose::reading::Order;

const FILE_SYSTEMS: [(&str, u64); 3] = [("ext4", 64), ("xfs", 304), ("btrfs", 128)];

fn hdd() -> Options {
    Options { model: "st500dm002".into(), ..Options::default() }
}

#[test]
#[ignore = "needs loop devices, XFS, btrfs"]
fn image_is_unchanged_and_its_numbers_agree() {
    for (name, mib) in FILE_SYSTEMS {
        let mut image = Image::new(name, mib);
        image.mount("");
        grow(&image.point(), 0.2, 0.0, 1);
        scatter(&image.point(), 12, 6);
        image.unmount();
        let before = image.digest();
        let found = prognosis(&image.path(), &hdd()).unwrap();
        assert_eq!(image.digest(), before, "{name}: the image was altered");
        let (now, ideal, rewritten) = (found.now_seconds, found.ideal_seconds, found.rewritten_seconds);
        assert!(now > ideal && ideal >= rewritten * 0.99 && rewritten > 0.0, "{name}: {now} {ideal} {rewritten}");
        let sum = |of: fn(&senesce_diagnose::estimate::Directory) -> f64| found.directories.iter().map(of).sum::<f64>();
        assert!((sum(|one| one.now_seconds) - now).abs() < 1e-6 && (sum(|one| one.ideal_seconds) - ideal).abs() < 1e-6);
        assert_eq!(found.directories.iter().map(|one| one.files).sum::<u64>(), found.files);
        assert!(found.worst[0].path.starts_with("scattered"), "{name}: {:?}", found.worst[0]);
        assert_eq!(found.plan.last().unwrap().share_of_gain, 1.0);
        assert!(found.plan.windows(2).all(|pair| pair[0].bytes <= pair[1].bytes));
        assert_eq!(found.creatable.len(), 8, "{name}");
        assert!((found.unseen_share, found.drive.known) == (0.0, true) && !found.sentence.is_empty());
        run("udevadm settle 2>/dev/null || true");
        assert_eq!(run(&format!("losetup -j {}", image.path().display())), "", "{name}: a loop device is left");
    }
}

/// Names that are not UTF-8 are shown as words from which a shell makes their bytes.
#[test]
#[ignore = "needs loop devices"]
fn non_utf8_names_are_printed_without_loss() {
    use std::os::unix::ffi::OsStrExt;
    let mut image = Image::new("ext4", 64);
    image.mount("");
    scatter(&image.point(), 4, 6);
    let odd = image.point().join(std::ffi::OsStr::from_bytes(b"scattered/od d\xff"));
    std::fs::rename(image.point().join("scattered/0000"), odd).unwrap();
    image.unmount();
    let found = prognosis(&image.path(), &hdd()).unwrap();
    let shown = r"$'scattered/od d\377'";
    assert!(found.worst.iter().any(|one| one.path == shown), "{:?}", found.worst);
    assert!(found.plan_files.iter().any(|one| one == shown), "{:?}", found.plan_files);
}

/// ext3 as mke2fs fills it: the block of the map of every file lies after the first twelve blocks, and a reader reads
/// it there.
#[test]
#[ignore = "needs loop devices"]
fn ext3_map_blocks_do_not_fragment_files() {
    let image = Image::new("ext3", 64);
    let content = image.directory().join("content");
    std::fs::create_dir(&content).unwrap();
    (0..8).for_each(|file| std::fs::write(content.join(format!("{file}")), vec![1u8; 1 << 20]).unwrap());
    run(&format!("{} -d {} {}", mkfs("ext3"), content.display(), image.path().display()));
    let found = prognosis(&image.path(), &hdd()).unwrap();
    assert_eq!((found.files, found.pieces), (8, 8));
    assert_eq!(found.now_seconds, found.ideal_seconds, "no file is in pieces");
    assert!(
        found.worst.is_empty() && found.longest_free.is_empty() && found.remedies.len() == 1,
        "{:?}",
        found.remedies
    );
    assert!(found.sentence.contains("no tool does that here"), "{}", found.sentence);
}

/// The same files, examined while mounted and afterwards in the image.
#[test]
#[ignore = "needs loop devices"]
fn mounted_directory_and_image_agree() {
    let mut image = Image::new("ext4", 64);
    image.mount("");
    grow(&image.point(), 0.3, 0.0, 2);
    let mounted = prognosis(&image.point(), &hdd()).unwrap();
    image.unmount();
    let unmounted = prognosis(&image.path(), &hdd()).unwrap();
    assert_eq!(mounted.now_seconds, unmounted.now_seconds);
    let root = |found: &senesce_diagnose::Prognosis| {
        found.creatable.iter().filter(|one| one.user == User::Root).map(|one| one.files).collect::<Vec<_>>()
    };
    assert_eq!(root(&mounted), root(&unmounted));
}

#[test]
#[ignore = "needs loop devices"]
fn unknown_drive_gives_a_range_and_read_order_changes_the_time() {
    let mut image = Image::new("ext4", 64);
    image.mount("");
    grow(&image.point(), 0.3, 0.0, 3);
    image.unmount();
    let found = prognosis(&image.path(), &Options::default()).unwrap();
    assert!(!found.drive.known && found.sentence.contains("--model"), "{}", found.sentence);
    let models: Vec<f64> = found.models.iter().map(|model| model.seconds.now).collect();
    assert_eq!(models.len(), 3);
    assert_eq!(models[0], found.now_seconds, "the first of the range stands for it");
    let by_path = prognosis(&image.path(), &Options { order: Order::Path, ..hdd() }).unwrap();
    assert_eq!(by_path.bytes, found.bytes);
    assert_ne!(by_path.now_seconds, found.now_seconds);
    let same = |one: f64, other: f64| (one - other).abs() <= 1e-6 * one;
    assert!(same(by_path.rewritten_seconds, found.rewritten_seconds) || by_path.rewritten_seconds > 0.0);
}

/// An unreadable directory: the rest is examined, and the unreadable share is reported.
#[test]
fn unreadable_share_is_counted_and_the_rest_examined() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(directory.path().join("closed")).unwrap();
    std::fs::write(directory.path().join("closed/secret"), vec![1u8; 8192]).unwrap();
    std::fs::write(directory.path().join("open"), vec![1u8; 8192]).unwrap();
    std::fs::write(directory.path().join("shut"), vec![1u8; 8192]).unwrap();
    std::fs::set_permissions(directory.path().join("shut"), std::fs::Permissions::from_mode(0o000)).unwrap();
    std::fs::set_permissions(directory.path().join("closed"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let look = || prognosis(directory.path(), &hdd());
    let found = match rustix::process::geteuid().is_root() {
        false => look(),
        true => std::thread::scope(|scope| {
            // Threads that are started in it have its identity too.
            let thread = scope.spawn(|| {
                // SAFETY: setresuid takes three numbers; the raw call changes this thread only.
                assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) }, 0);
                // Not in the threads of all tests, which are root's.
                rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap().install(look)
            });
            thread.join().unwrap()
        }),
    };
    std::fs::set_permissions(directory.path().join("closed"), std::fs::Permissions::from_mode(0o755)).unwrap();
    match found {
        Ok(found) => {
            assert!(found.unseen_share > 0.0 && found.files == 1, "{} {}", found.unseen_share, found.files);
            assert_eq!(found.directories.iter().map(|one| one.files).sum::<u64>(), 1, "{:?}", found.directories);
            assert!(found.notes.iter().any(|note| note.contains("may not be opened")), "{:?}", found.notes);
        }
        // A temporary directory in memory has no extents.
        Err(error) => assert!(error.to_string().contains("does not report"), "{error}"),
    }
}

/// The kernel answers the first call for the free extents and refuses the second.
#[test]
#[ignore = "needs loop devices"]
fn damaged_block_bitmap_has_the_same_result_in_every_run() {
    use std::os::unix::fs::FileExt;
    let image = Image::new("ext4", 64);
    let groups = run(&format!("dumpe2fs {} 2>/dev/null", image.path().display()));
    let number = |word: &str| -> u64 {
        let rest = groups.split(word).nth(1).unwrap().trim_start();
        rest.split(|digit: char| !digit.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let at = number("Block bitmap at ") * number("Block size:");
    std::fs::File::options().write(true).open(image.path()).unwrap().write_all_at(&[0x5A; 1024], at).unwrap();
    for _ in 0..8 {
        let found = prognosis(&image.path(), &hdd()).unwrap();
        assert!(!found.condition.unwrap().damage.is_empty());
        assert!(found.space.free.is_none() && found.creatable.is_empty(), "{:?}", found.creatable);
    }
}
