//! Tests prognoses and twins from the command line.

use crate::common::{assert_keys, ends, json, json_of, leftovers, temporary_directory};
use std::path::Path;
use std::process::Command;

fn image(directory: &Path) -> String {
    let tree = directory.join("tree/deep");
    std::fs::create_dir_all(&tree).unwrap();
    for number in 0..40 {
        std::fs::write(tree.join(format!("{number}")), vec![1u8; 3000 * number]).unwrap();
    }
    let image = directory.join("disk.img");
    std::fs::File::create(&image).unwrap().set_len(48 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F", "-d"]).arg(directory.join("tree")).arg(&image).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfs.ext4");
    image.to_string_lossy().into_owned()
}

const KEYS: &str = "now_seconds ideal_seconds rewritten_seconds remedies plan creatable worst unseen_share";

#[test]
#[ignore = "needs loop devices"]
fn prognosis_has_the_documented_fields_and_changes_nothing() {
    let directory = temporary_directory();
    let image = image(directory.path());
    let before = std::fs::read(&image).unwrap();
    let diagnose = "diagnose disk.img --model 850-evo --json --record kept";
    let found = json_of(directory.path(), &format!("{diagnose} --html page.html --prometheus m.prom"));
    assert_keys(&found, KEYS);
    assert_keys(&found, "sentence");
    assert_keys(&found["creatable"][0], "size files low high ends_by as");
    assert_keys(&found["remedies"][0], "command seconds_after bytes_written");
    assert_eq!(found["files"], 40);
    let page = std::fs::read_to_string(directory.path().join("page.html")).unwrap();
    assert!(page.contains("to read it all now") && page.contains("Files that can still be created"));
    let metrics = std::fs::read_to_string(directory.path().join("m.prom")).unwrap();
    assert!(metrics.contains("senesce_read_seconds{target="), "{metrics}");
    for _ in 0..2 {
        assert!(json_of(directory.path(), diagnose)["trend"].is_array());
    }
    assert_eq!(std::fs::read_to_string(directory.path().join("kept/prognoses.jsonl")).unwrap().lines().count(), 3);
    assert!(std::fs::read(&image).unwrap() == before, "the image was altered");
    assert!(leftovers(directory.path()).is_empty());
}

#[test]
#[ignore = "needs loop devices"]
fn twin_is_private_and_its_trial_is_reported() {
    use std::os::unix::fs::MetadataExt;
    let directory = temporary_directory();
    let image = image(directory.path());
    let before = std::fs::read(&image).unwrap();
    assert_eq!(json_of(directory.path(), "image twin disk.img twin.img --json")["file_system"], "ext4");
    assert_eq!(directory.path().join("twin.img").metadata().unwrap().mode() & 0o777, 0o600);
    // Nothing is replaced.
    ends(directory.path(), "image twin disk.img twin.img", 3);
    let twin = json_of(directory.path(), "diagnose disk.img --try --passes 1 --json -- touch {}/new")["twin"].clone();
    assert_keys(&twin, KEYS);
    assert_keys(&twin, "fills");
    let kept = json(&ends(directory.path(), "diagnose disk.img --try --only remedies --passes 1 --json -- false", 5));
    let failed = &kept["twin"]["failed"][0];
    assert_eq!((&failed["part"], &failed["status"]), (&"command".into(), &1.into()));
    assert!(kept["now_seconds"].is_number() && !kept["twin"]["remedies"].as_array().unwrap().is_empty(), "{kept}");
    assert!(std::fs::read(&image).unwrap() == before, "the image was altered");
    assert!(leftovers(directory.path()).is_empty());
}

/// In every stage at which it may be full: while the twin is copied, and while a trial writes.
#[test]
#[ignore = "needs root, loop devices"]
fn full_temporary_directory_is_named() {
    let directory = temporary_directory();
    let image = image(directory.path());
    let place = directory.path().join("small");
    std::fs::create_dir(&place).unwrap();
    for (size, is_made) in [("64K", false), ("2M", true), ("4M", true)] {
        let script = format!(
            "mount -t tmpfs -o size={size} none small && TMPDIR=$PWD/small exec \"$0\" diagnose \"$1\" --try --only creations --json"
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]).arg(env!("CARGO_BIN_EXE_senesce"));
        let output = command.arg(&image).current_dir(directory.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{size}");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(&place.display().to_string()) && text.contains("TMPDIR"), "{size}: {text}");
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let creatable = &found["twin"]["creatable"];
        assert!(!is_made || creatable.as_array().is_none_or(Vec::is_empty), "{size}: {creatable}");
    }
    assert!(leftovers(directory.path()).is_empty());
}

#[test]
fn bad_input_is_reported_with_its_exit_code() {
    let directory = temporary_directory();
    for words in ["no-such-target", "no-such-target -- true", ". --model no-such-drive", ". --passes 2"] {
        ends(directory.path(), &format!("diagnose {words}"), 2);
    }
}
