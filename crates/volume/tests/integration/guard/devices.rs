//! Devices with data, and devices in use: from above, from the side and from below.

use super::{Answer, Free, Holds, MIB, Never, SIZE, Situation, attach, image, losetup, mkfs, mount, run, text, undo};
use std::any::Any;
use std::path::{Path, PathBuf};

pub fn signatures(directory: &Path, list: &mut Vec<Situation>) {
    let known: &[(&'static str, u64, &[u8], &'static str)] = &[
        ("ext4", 1080, &[0x53, 0xEF], "ext4"),
        ("xfs", 0, b"XFSB", "xfs"),
        ("btrfs", 0x10040, b"_BHRfS_M", "btrfs"),
        ("f2fs", 1024, &[0x10, 0x20, 0xF5, 0xF2], "f2fs"),
        ("ntfs", 3, b"NTFS    ", "ntfs"),
        ("zfs", 128 << 10, &[0x0c, 0xb1, 0xba, 0x00], "zfs"),
        ("LUKS", 0, b"LUKS\xba\xbe", "LUKS"),
        ("LVM", 512, b"LABELONE", "LVM"),
        ("md", 4096, &[0xfc, 0x4e, 0x2b, 0xa9], "md RAID"),
        ("swap space", 4086, b"SWAPSPACE2", "swap space"),
        ("GPT", 512, b"EFI PART", "GUID partition table"),
        ("GPT at the end", SIZE - 512, b"EFI PART", "GUID partition table at its end"),
        ("unknown data at the beginning", 77, b"diary", "unknown kind"),
        ("unknown data at the end", SIZE - 9, b"diary", "unknown kind"),
        ("a partition behind a zeroed MiB", MIB + 1080, &[0x53, 0xEF], "where a partition may have begun"),
        ("an old partition behind 63 sectors", 63 * 512, b"XFSB", "xfs"),
        ("a backup superblock alone", 128 * MIB + 56, &[0x53, 0xEF], "copy of a superblock"),
        ("a btrfs mirror alone", 64 * MIB + 64, b"_BHRfS_M", "copy of a superblock of btrfs"),
        ("unknown data in the middle", (SIZE / 1024 * 513) & !4095, b"diary", "unknown kind between"),
    ];
    for (number, (name, at, bytes, said)) in known.iter().enumerate() {
        let device = attach(&image(directory, &format!("signature-{number}"), &[(*at, bytes)]));
        let target = device.path().to_path_buf();
        list.push(Situation { name, target, answer: Holds, said, _held: vec![Box::new(device)] });
    }
}

pub fn devices_in_use(directory: &Path, list: &mut Vec<Situation>) {
    let mut push = |name, target: PathBuf, answer, said, held| {
        list.push(Situation { name, target, answer, said, _held: held });
    };
    let empty = attach(&image(directory, "empty", &[]));
    push("an empty device", empty.path().to_path_buf(), Free, "", vec![Box::new(empty)]);

    for (name, options) in [("mounted", "rw"), ("mounted for reading", "ro")] {
        let device = attach(&image(directory, name, &[]));
        mkfs(device.path());
        let mounted = mount(device.path(), directory, &format!("{name}-point"), options);
        push(name, device.path().to_path_buf(), Never, "is mounted on", vec![mounted, Box::new(device)]);
    }

    let lower = attach(&image(directory, "lower", &[]));
    mkfs(lower.path());
    let (upper, detach) = losetup(lower.path(), 0);
    push("below another loop device", lower.path().to_path_buf(), Never, "is attached to", vec![]);
    push("over a loop device in no other use", upper.clone(), Holds, "ext4", vec![detach, Box::new(lower)]);

    let device = attach(&image(directory, "under-mounted-upper", &[]));
    mkfs(device.path());
    let (upper, detach) = losetup(device.path(), 0);
    let mounted = mount(&upper, directory, "upper-point", "ro");
    push(
        "below a mounted loop device",
        device.path().to_path_buf(),
        Never,
        "is attached to",
        vec![mounted, detach, Box::new(device)],
    );

    let file = image(directory, "shared", &[]);
    let first = attach(&file);
    mkfs(first.path());
    let mounted = mount(first.path(), directory, "shared-point", "ro");
    let (second, detach) = losetup(&file, 0);
    let (third, detach_third) = losetup(&file, 64 * MIB);
    push("over a file that is mounted through another loop device", second.clone(), Never, "is attached to", vec![]);
    push(
        "the same with an offset",
        third,
        Never,
        "is mounted on",
        vec![detach_third, detach, mounted, Box::new(first)],
    );

    let file = image(directory, "twice", &[]);
    let (first, detach) = losetup(&file, 0);
    let (_, detach_second) = losetup(&file, 0);
    push("over a file that is attached twice", first.clone(), Never, "is attached to", vec![detach_second, detach]);

    let mounted_below = attach(&image(directory, "mounted-below", &[]));
    mkfs(mounted_below.path());
    let mounted = mount(mounted_below.path(), directory, "below-point", "ro");
    let (above, detach) = losetup(mounted_below.path(), 64 * MIB);
    push(
        "over a mounted device, with an offset",
        above,
        Never,
        "is mounted on",
        vec![detach, mounted, Box::new(mounted_below)],
    );

    let device = attach(&image(directory, "swap", &[]));
    // 64 KiB: the kernel cannot end a swap in memory that holds its own pages, and a killed test leaves it.
    assert!(run(&["mkswap", text(device.path()), "64"]));
    if run(&["swapon", text(device.path())]) {
        let off = undo(&["swapoff", text(device.path())]);
        push("swapped to", device.path().to_path_buf(), Never, "swap space", vec![off, Box::new(device)]);
    }
    partitions(directory, &mut push);
}

type Push<'a> = dyn FnMut(&'static str, PathBuf, Answer, &'static str, Vec<Box<dyn Any>>) + 'a;

fn partitions(directory: &Path, push: &mut Push) {
    // One partition of type 0x83 from 1 MiB on (a DOS partition table).
    let mut sector = [0u8; 512];
    sector[446 + 4] = 0x83;
    sector[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
    sector[446 + 12..446 + 16].copy_from_slice(&131_072u32.to_le_bytes());
    sector[510] = 0x55;
    sector[511] = 0xAA;
    let table = attach(&image(directory, "table", &[(0, &sector)]));
    push("a partition table", table.path().to_path_buf(), Holds, "DOS partition table", vec![Box::new(table)]);

    let disk = attach(&image(directory, "disk", &[(0, &sector)]));
    let partition = PathBuf::from(format!("{}p1", disk.path().display()));
    if !run(&["partx", "-a", text(disk.path())]) || !partition.exists() {
        return eprintln!("skipped: partitions of loop devices cannot be made here");
    }
    let parts = undo(&["partx", "-d", text(disk.path())]);
    mkfs(&partition);
    let mounted = mount(&partition, directory, "partition-point", "ro");
    let (above, detach) = losetup(&partition, 0);
    let (beside, detach_beside) = losetup(disk.path(), 80 * MIB);
    push("a disk with a mounted partition, below a loop device", disk.path().to_path_buf(), Never, "/dev/loop", vec![]);
    push("a mounted partition", partition.clone(), Never, "is mounted on", vec![]);
    push("over a mounted partition", above.clone(), Never, "is mounted on", vec![]);
    let held = vec![detach_beside, detach, mounted, parts, Box::new(disk) as Box<dyn Any>];
    push("over another part of a disk with a mounted partition", beside.clone(), Never, "is mounted on", held);
}
