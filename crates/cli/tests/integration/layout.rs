//! Tests layout, traces, snapshots and images from the command line.

use crate::common::{
    assert_keys, ends, json, json_of, leftovers, run, run_line, stderr, succeeds, temporary_directory,
};
use serde_json::Value;
use std::path::Path;

fn aged_image(directory: &Path) -> String {
    let line = "age image:old.img,size=256M --profile wang_os --truncate-sizes=drop --fullness 0.4 --data write \
                --max-overwrites 1 --out run --json";
    json_of(directory, line);
    directory.join("old.img").to_string_lossy().into_owned()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("read")).expect("JSON")
}

#[test]
#[ignore = "needs loop devices"]
fn layout_does_not_change_the_image() {
    let directory = temporary_directory();
    let image = aged_image(directory.path());
    let before = std::fs::read(&image).expect("read");
    let seen = json_of(directory.path(), "layout old.img --json --svg map.svg");
    let keys = "files extents fragmented_files static_layout_score tree_layout_score elapsed_seconds peak_rss_bytes";
    assert_keys(&seen, keys);
    assert_keys(&seen["discontinuities"], "count log2_blocks");
    assert_keys(&seen["free_space"], "free_blocks block_size extents buckets");
    assert_keys(&seen["free_space"]["buckets"][0], "from_bytes to_bytes extents blocks");
    assert!(seen["files"].as_u64() > Some(100), "{seen}");
    assert!(std::fs::read_to_string(directory.path().join("map.svg")).expect("map").starts_with("<svg"));
    assert!(before == std::fs::read(&image).expect("read"), "the image was altered");
    let written = succeeds(directory.path(), "layout old.img --svg other.svg");
    assert!(stderr(&written).contains("other.svg"), "{}", stderr(&written));
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs loop devices"]
fn trace_has_the_fields_of_the_contract_and_its_text_round_trips() {
    let directory = temporary_directory();
    aged_image(directory.path());
    let script = "find {} -type f | xargs cat | wc -c; exit 7";
    let words = ["trace", "image:old.img", "--json=traced.json", "--text", "traced.txt", "--", "sh", "-c", script];
    let traced = run(directory.path(), &words);
    assert_eq!(traced.status.code(), Some(7), "the command's status is ours");
    let stated: u64 = String::from_utf8_lossy(&traced.stdout).trim().parse().expect("only the command's output");
    let value = read_json(&directory.path().join("traced.json"));
    assert_keys(&value, "dynamic_layout_score discontinuities requests lost_events");
    assert_eq!(value["only_command"], true);
    assert_keys(&value["bytes"], "read write discard");
    assert_keys(&value["modelled_seconds"], "hdd ssd");
    assert!(value["bytes"]["read"].as_u64() >= Some(stated), "{stated} bytes of files were read: {value}");
    succeeds(directory.path(), "runs import blkparse traced.txt --out foreign");
    let score = json_of(directory.path(), "report foreign --format json").to_string();
    let expected = value["dynamic_layout_score"].as_f64().expect("score");
    assert!(score.contains(&format!("{expected}")[..9]), "{expected} in {score}");
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs loop devices"]
fn trace_ends_processes_left_by_its_command() {
    let directory = temporary_directory();
    let image = format!("image:{}", aged_image(directory.path()));
    let held = "exec 9<{}; sleep 60 >&- 2>&- & echo $! >held; find {} -type f | xargs cat >/dev/null";
    let traced = run(directory.path(), &["trace", &image, "--json=traced.json", "--", "bash", "-c", held]);
    let holder = std::fs::read_to_string(directory.path().join("held")).expect("the command began");
    // Nothing, or a zombie that its new parent has not waited for.
    assert!(std::fs::read(Path::new("/proc").join(holder.trim()).join("cmdline")).unwrap_or_default().is_empty());
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    let value = read_json(&directory.path().join("traced.json"));
    assert_eq!(value["valid"], true, "{value}");
    assert!(value["requests"].as_u64() > Some(0), "{value}");
    succeeds(directory.path(), "doctor --sweep");
    // The guardian of the ended run may be active, and the kernel detaches a moment later.
    crate::common::wait_until(|| leftovers(directory.path()).is_empty());
}

#[test]
#[ignore = "needs loop devices"]
fn changes_of_a_command_are_rolled_back_exactly() {
    let directory = temporary_directory();
    let image = aged_image(directory.path());
    let before = std::fs::read(&image).expect("read");
    succeeds(directory.path(), "snapshot create old.img before");
    let disturb = "rm -rf {}/*; dd if=/dev/zero of={}/new bs=1M count=20 2>/dev/null";
    let words = ["snapshot", "run", "image:old.img", "before", "--json=undone.json", "--", "sh", "-c", disturb];
    let undone = run(directory.path(), &words);
    assert_eq!(undone.status.code(), Some(0), "{}", crate::common::stderr(&undone));
    assert!(before == std::fs::read(&image).expect("read"), "not as before");
    let first = std::fs::File::options().write(true).open(&image).expect("open");
    std::os::unix::fs::FileExt::write_at(&first, &[7; 100_000], 50_000_000).expect("write");
    // It may still be written.
    ends(directory.path(), "snapshot restore old.img before", 3);
    drop(first);
    let value = json_of(directory.path(), "snapshot restore old.img before --verify --json");
    assert_keys(&value, "restored_bytes extents method verified elapsed_seconds");
    assert_eq!(value["verified"], true);
    assert!(before == std::fs::read(&image).expect("read"), "not as before");
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}

#[test]
#[ignore = "needs loop devices"]
fn copied_and_unpacked_images_are_identical() {
    let directory = temporary_directory();
    let before = std::fs::read(aged_image(directory.path())).expect("read");
    for words in
        ["copy old.img used.img", "copy old.img full.img --full", "pack old.img packed", "unpack packed unpacked.img"]
    {
        succeeds(directory.path(), &format!("image {words}"));
    }
    for copy in ["used.img", "full.img", "unpacked.img"] {
        assert!(before == std::fs::read(directory.path().join(copy)).expect("read"), "{copy}");
    }
    let mut packed = std::fs::read(directory.path().join("packed")).expect("read");
    let middle = packed.len() / 2;
    packed[middle] ^= 0x55;
    std::fs::write(directory.path().join("packed"), packed).expect("write");
    let damaged = run_line(directory.path(), "image unpack packed damaged.img");
    assert_ne!(damaged.status.code(), Some(0));
    assert!(!directory.path().join("damaged.img").exists(), "a damaged pack leaves no image");
}

#[test]
fn unsupported_input_is_reported_and_nothing_is_written() {
    let directory = temporary_directory();
    std::fs::write(directory.path().join("foreign"), [0x5au8; 1000]).expect("write");
    for (line, code) in [
        ("layout /proc", 4),
        ("layout /nowhere", 2),
        ("runs import blktrace foreign --out made", 2),
        ("runs import blkparse foreign --out made", 2),
        ("snapshot restore foreign never", 2),
        ("image unpack foreign made", 2),
    ] {
        ends(directory.path(), line, code);
        assert!(!directory.path().join("made").exists(), "{line} wrote something");
    }
}

struct BindMount(std::path::PathBuf);

impl BindMount {
    fn new(from: &Path, to: &Path) -> Self {
        let mounted = std::process::Command::new("mount").arg("--bind").args([from, to]).status().expect("mount");
        assert!(mounted.success());
        Self(to.into())
    }
}

impl Drop for BindMount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs loop devices"]
fn bind_mount_is_not_entered() {
    let directory = tempfile::tempdir().expect("a folder");
    let root = directory.path().join("root");
    for folder in ["kept", "mounted"] {
        std::fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    for name in ["kept/one", "kept/two", "covered"] {
        std::fs::write(root.join(name), vec![1; 8192]).expect("a file");
    }
    let _folder = BindMount::new(&root.join("kept"), &root.join("mounted"));
    let _file = BindMount::new(&root.join("kept/one"), &root.join("covered"));
    let value = json(&run(directory.path(), &["layout", "root", "--json"]));
    assert_eq!((&value["files"], &value["extra_links"]), (&2.into(), &0.into()), "{value}");
}
