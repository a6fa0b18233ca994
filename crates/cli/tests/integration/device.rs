//! Tests device models and traces on them from the command line.

use crate::common::{ends, json, json_of, printed, run_line, succeeds, temporary_directory};

fn text(reads: u64) -> String {
    let line = |number: u64, action: char, micros: u64| {
        format!("  8,0    0 {number:8} 0.{:09}   697  {action}   R {} + 64 [grep]\n", micros * 1000, number * 64)
    };
    (0..reads).map(|read| line(read, 'D', read * 100) + &line(read, 'C', read * 100 + 50)).collect()
}

#[test]
fn models_are_listed_with_their_sources() {
    let directory = temporary_directory();
    let models = json_of(directory.path(), "device list --json");
    for name in ["ssd:fast24", "hdd:st500dm002", "850-evo"] {
        let found = models.as_array().unwrap().iter().find(|model| model["name"] == name).expect(name);
        assert!(!found["sources"].as_array().unwrap().is_empty(), "{found}");
    }
    // Names of any length are separated from the words in one column.
    let lines = printed(directory.path(), "device list");
    let words = |line: &str| line.len() - line.split_once("  ").unwrap().1.trim_start().len();
    let columns: std::collections::BTreeSet<usize> = lines.lines().map(words).collect();
    assert!(lines.lines().count() > 10 && columns.len() == 1, "{lines}");
}

#[test]
fn blkparse_trace_is_timed_on_every_kind_of_model() {
    let directory = temporary_directory();
    std::fs::write(directory.path().join("trace.txt"), text(300)).unwrap();
    for (model, is_flash) in [("ssd:fast24", true), ("hdd:atlas-10k", false), ("850-evo", false)] {
        let outcome = json_of(directory.path(), &format!("device simulate {model} trace.txt --json"));
        let positive = |name: &str| outcome[name].as_f64().is_some_and(|value| value > 0.0);
        assert!(positive("seconds") && positive("mib_per_s"), "{outcome}");
        assert_eq!(outcome["collision_index"].is_number(), is_flash, "{outcome}");
        assert!(outcome["write_amplification"].is_null(), "nothing is written: {outcome}");
        assert_eq!(outcome["requests"], 300);
    }
    let paced = json_of(directory.path(), "device simulate ssd:fast24 trace.txt --issue-times --json");
    assert!((paced["seconds"].as_f64().unwrap() - 0.03).abs() < 0.001, "{paced}");
}

#[test]
fn invalid_traces_are_reported_and_nothing_is_printed() {
    let directory = temporary_directory();
    let write = |content: &str| std::fs::write(directory.path().join("trace.txt"), content).unwrap();
    let backwards = text(2).lines().rev().collect::<Vec<_>>().join("\n");
    let far = "8,0 0 1 0.5 697 D R 999999999999 + 8 [a]\n";
    let unissued = "8,0 0 1 0.5 697 C R 8 + 8 [a]\n8,0 0 2 0.6 697 D R 16 + 8 [a]\n";
    let skipped = format!("{}CPU0 (8,0):\nSkips: 1 forward (9 -   0.1%)\n", text(2));
    for (content, code) in [(&*backwards, 2), (far, 2), (unissued, 2), (&*skipped, 5), ("hello world\n", 2), ("", 2)] {
        write(content);
        let output = ends(directory.path(), "device simulate ssd:fast24 trace.txt --json", code);
        assert!(output.stdout.is_empty(), "{content}");
    }
    write(&skipped);
    ends(directory.path(), "runs import blkparse trace.txt --out invalid", 5);
    write(&text(2));
    ends(directory.path(), "device simulate ssd:fast24 none.txt", 2);
    ends(directory.path(), "device simulate ssd:none trace.txt", 2);
    for option in ["--before half", "--before overwritten:-1", "--depth 0"] {
        ends(directory.path(), &format!("device simulate ssd:fast24 trace.txt {option}"), 2);
    }
    succeeds(directory.path(), "device simulate ssd:fast24 trace.txt --depth 8");
}

#[test]
fn wrong_geometry_and_zero_spare_area_are_reported() {
    let directory = temporary_directory();
    let write = |text: &str| std::fs::write(directory.path().join("drive.toml"), text).unwrap();
    std::fs::write(directory.path().join("trace.txt"), text(2)).unwrap();
    let file = printed(directory.path(), "device show ssd:fast24");
    for (from, to) in [("channels = 4", "channels = 5"), ("spare_share = 0.07", "spare_share = 0.0")] {
        assert!(file.contains(from), "{file}");
        write(&file.replace(from, to));
        ends(directory.path(), "device simulate ./drive.toml trace.txt", 2);
        ends(directory.path(), "device show ./drive.toml", 2);
    }
    write(&file);
    assert_eq!(printed(directory.path(), "device show ./drive.toml"), file, "a file is shown as it is read");
}

#[test]
#[ignore = "needs loop devices"]
fn aged_image_is_copied_in_the_order_of_its_last_writes() {
    let directory = temporary_directory();
    let age = "age image:old.img,size=256M --profile wang_os --truncate-sizes=drop --fullness 0.4 --max-overwrites 1 \
               --record-order --out run --json --data";
    ends(directory.path(), &format!("{age} fallocate"), 2);
    succeeds(directory.path(), &format!("{age} write"));
    let order = std::fs::metadata(directory.path().join("old.img.order")).unwrap().len();
    assert!((order as i64 - (256 << 20) / 4096 * 4).abs() < 1024, "four bytes a block: {order}");
    let image = std::fs::read(directory.path().join("old.img")).unwrap();
    for words in [
        "last.img --order last-write",
        "address.img --order address",
        "steady.img --order last-write --steady-state 7%",
    ] {
        let report = json(&run_line(directory.path(), &format!("image copy old.img --json {words}")));
        let name = words.split(' ').next().unwrap();
        assert!(std::fs::read(directory.path().join(name)).unwrap() == image, "{name} is the same image");
        let (copied, written) = (report["copied_bytes"].as_u64().unwrap(), report["written_bytes"].as_u64().unwrap());
        let is_steady = name == "steady.img";
        assert!(if is_steady { written as f64 > 1.06 * (256u64 << 20) as f64 } else { written == copied }, "{report}");
    }
    std::fs::write(directory.path().join("old.img"), vec![0; 256 << 20]).unwrap();
    let output = run_line(directory.path(), "image copy old.img late.img --order last-write");
    assert!(!output.status.success(), "it was changed after its order: {output:?}");
}
