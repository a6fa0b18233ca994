//! Tests experiments and gates in guests of kernels that `vm build` makes.

use super::senesce;
use crate::common::{interrupt, json, stderr};
use serde_json::Value;
use std::process::{Command, Stdio};

#[test]
#[ignore = "long: minutes; needs the user-mode kernel, a kernel of vm build"]
fn time_scale_compares_agings_of_virtual_time() {
    let folder = tempfile::tempdir().unwrap();
    let result = json(&senesce(folder.path(), &["reproduce", "time-scale", "--scale", "smoke", "--json"]));
    let cells = result["cells"].as_array().unwrap();
    // Two rates, without a clock, and with the default clock.
    assert_eq!(cells.len(), 4, "{result}");
    for cell in cells {
        assert_eq!((&cell["agings"], &cell["kept_pace"]), (&2.into(), &2.into()), "{cell}");
    }
    assert_eq!(result["answers"][0]["slowest"], 10.0);
    let reversed =
        ["reproduce", "time-scale", "--scale", "smoke", "--rates", "1000,10", "--shares", "5%,none", "--json"];
    let reversed = json(&senesce(folder.path(), &reversed));
    for cell in cells {
        let other = reversed["cells"].as_array().unwrap().iter().find(|other| other["pace"] == cell["pace"]).unwrap();
        assert_eq!(other["values"], cell["values"], "an aging depends on those before it");
    }
}

#[test]
#[ignore = "long: minutes; needs the user-mode kernel, a kernel of vm build"]
fn kernel_and_defragmentation_experiments_use_separate_guests() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["reproduce", "kernels", "--scale", "smoke", "--kernels", "6.12", "--json", "--out", "kernels"];
    let result = json(&senesce(folder.path(), &words));
    let layouts = result["layouts"].as_array().unwrap();
    assert_eq!((layouts.len(), result["comparisons"].as_array().unwrap().len()), (10, 0), "{result}");
    assert!(layouts.iter().all(|one| one["digest"].is_string()), "{layouts:?}");
    let lasting = ["reproduce", "defragmentation-lasts", "--scale", "smoke", "--arms", "none,copy,tool", "--json"];
    let result = json(&senesce(folder.path(), &lasting));
    let systems = result["systems"].as_array().unwrap();
    assert_eq!(systems.len(), 2, "{result}");
    for system in systems {
        assert_eq!(system["images"], 1, "its control began with the same layout: {result}");
    }
    assert!(result["holds"].is_null(), "one system decides nothing: {result}");
    let left = systems[0]["points"][0]["surviving"]["files"].as_f64().unwrap();
    assert!(0.0 < left && left < 1.0, "{left}");
    let words = ["reproduce", "files-or-free-space", "--scale", "smoke", "--json"];
    let proof = &json(&senesce(folder.path(), &words))["proofs"][0];
    let (identical_files, identical_free) = (&proof["identical_files"], &proof["identical_free"]);
    assert_eq!([&proof["proven"], identical_files, identical_free], [1; 3], "{proof}");
}

#[test]
#[ignore = "long: minutes; needs the user-mode kernel, a kernel of vm build"]
fn virtual_time_gives_the_same_layout_again() {
    let folder = tempfile::tempdir().unwrap();
    let layout = |file_system: &str, name: &str| -> Value {
        let words = format!(
            "age image:{name}.img,size=320M --fs {file_system} --fullness 0.5 --overwrites 1 --writers 8 --time-scale 10/s \
             --no-cost --out senesce-runs/{name} --json"
        );
        let aged = json(&senesce(folder.path(), &words.split(' ').collect::<Vec<_>>()));
        let paced = aged["operations"].as_f64().unwrap() / 10.0;
        let seconds = aged["execute_seconds"].as_f64().unwrap();
        assert!((seconds - paced).abs() < 1.0, "{seconds} s for {paced}");
        assert_eq!((&aged["timing_valid"], &aged["environment"]["vm.clock"]), (&true.into(), &"virtual".into()));
        aged["layout_digest"].clone()
    };
    let start = "age image:r.img,size=128M --overwrites 4 --time-scale 10/s --max-time 1s --no-cost --out senesce-runs/r --json";
    let stopped = json(&senesce(folder.path(), &start.split(' ').collect::<Vec<_>>()));
    let words = ["age", "--resume", "senesce-runs/r", "--max-time", "10h", "--json"];
    let resumed = json(&senesce(folder.path(), &words));
    assert_eq!((&stopped["stopped_by"], &resumed["stopped_by"]), (&"time".into(), &"overwrites".into()));
    assert_eq!((&resumed["environment"]["vm.clock"], &resumed["timing_valid"]), (&"virtual".into(), &true.into()));
    for file_system in ["ext4", "xfs", "btrfs", "f2fs"] {
        assert_eq!(layout(file_system, "a"), layout(file_system, "b"), "{file_system}");
        for name in ["a", "b"] {
            std::fs::remove_file(folder.path().join(format!("{name}.img"))).unwrap();
            std::fs::remove_dir_all(folder.path().join(format!("senesce-runs/{name}"))).unwrap();
        }
    }
}

#[test]
#[ignore = "long: a minute; needs the user-mode kernel, a kernel of vm build"]
fn ctrl_c_ends_virtual_time_and_the_run_continues() {
    let folder = tempfile::tempdir().unwrap();
    let words = "age image:a.img,size=128M --overwrites 100 --time-scale 10/s --no-cost --out senesce-runs/a";
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("senesce"));
    command.current_dir(folder.path()).args(words.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    crate::common::wait_for_event(&folder.path().join("senesce-runs/a"), "sample");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let words = "age --resume senesce-runs/a --overwrites 2 --json";
    let resumed = json(&senesce(folder.path(), &words.split(' ').collect::<Vec<_>>()));
    assert_eq!((&resumed["stopped_by"], &resumed["timing_valid"]), (&"overwrites".into(), &true.into()));
    let verified = senesce(folder.path(), &["--vm", "verify", "senesce-runs/a"]);
    assert!(verified.status.success(), "{}", stderr(&verified));
}

#[test]
#[ignore = "long: a minute; needs the user-mode kernel, a kernel of vm build"]
fn deadlock_ends_the_guest() {
    let folder = tempfile::tempdir().unwrap();
    let script = "PATH=$PATH:/sbin:/usr/sbin; cd /dev/shm && truncate -s 64M image && mkfs.ext4 -q image && mkdir -p /mnt/x && \
                  mount -o loop image /mnt/x && fsfreeze -f /mnt/x && touch /mnt/x/file";
    let words = ["vm", "run", "--engine", "uml", "--virtual-time", "--", "sh", "-c", script];
    let output = senesce(folder.path(), &words);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains("blocked"), "{}", stderr(&output));
}

const GATE: &str = "name = 't'\nsize = '64M'\n[gate]\npairs = 3\nmax_pairs = 3\n[aging]\nfullness = 0.5\noverwrites = 1\n\
     [[file_system]]\nname = 'a'\nkind = 'ext4'\n[[file_system]]\nname = 'b'\nkind = 'ext4'\n";

#[test]
#[ignore = "long: a minute; needs the user-mode kernel, a kernel of vm build"]
fn gate_detects_a_worse_variant_and_reports_failures() {
    let folder = tempfile::tempdir().unwrap();
    let gate = |variant: &str| -> (Option<i32>, Value) {
        std::fs::write(folder.path().join("gate.toml"), format!("{GATE}{variant}\n")).unwrap();
        let output = senesce(folder.path(), &["study", "gate.toml", "--json", "--ktap", "k", "--force"]);
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
    };
    // Files with gaps between them, made before the aging.
    let gaps = "after_mount = '[ -e $MNT/x ] || { mkdir $MNT/x; for i in $(seq 400); do head -c 8192 /dev/zero >$MNT/x/$i; \
                done; sync; rm $MNT/x/*[02468]; sync; }'";
    let (code, worse) = gate(gaps);
    assert_eq!((code, &worse["answer"], &worse["pairs"]), (Some(1), &"worse".into(), &3.into()), "{worse}");
    let ktap = std::fs::read_to_string(folder.path().join("k")).unwrap();
    assert!(ktap.starts_with("KTAP version 1\n1..5\n") && ktap.contains("\nnot ok "), "{ktap}");
    let (code, same) = gate("mount = 'noatime'");
    assert_eq!((code, &same["answer"]), (Some(0), &"not-worse".into()), "{same}");
    let digests = |side: u64| -> Vec<&Value> {
        let all = same["agings"].as_array().unwrap().iter();
        all.filter(|one| one["step"]["side"] == side && one["step"]["sham"] == false)
            .map(|one| &one["aged"]["digest"])
            .collect()
    };
    assert_eq!(digests(0), digests(1), "an option without effect gives equal layouts");
    for broken in ["mount = 'nosuchoption'", "after_mount = 'false'", "after_mount = 'echo c >/proc/sysrq-trigger'"] {
        let (code, failed) = gate(broken);
        assert_eq!((code, &failed["answer"]), (Some(125), &"no-verdict".into()), "{failed}");
        assert_eq!(failed["failed"].as_array().map(Vec::len), Some(3), "only the variant fails: {failed}");
    }
}

#[test]
fn build_without_a_verdict_is_skipped_by_git() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gate.toml"), format!("{GATE}kernel = './'\n")).unwrap();
    for (build, reached) in [("false", false), ("touch built", true)] {
        let ended = senesce(folder.path(), &["study", "gate.toml", "--build", build]);
        assert_eq!(ended.status.code(), Some(125), "{}", stderr(&ended));
        assert_eq!(folder.path().join("built").exists(), reached);
    }
    // 4 where no kernel is installed for the other side.
    let without = senesce(folder.path(), &["study", "gate.toml"]);
    assert!(matches!(without.status.code(), Some(2 | 4)), "no kernel was built: {}", stderr(&without));
}
