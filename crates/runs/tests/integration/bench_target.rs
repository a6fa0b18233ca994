//! A continued benchmark measures only the target of its first repetition.

use clap::Parser;
use senesce_core::{ExitCode, Failure, Seed};
use senesce_runner::{Conduct, Outcome, conduct};
use senesce_runs::bench::spec::BenchOptions;
use senesce_runs::bench::{Bench, Spec};
use senesce_volume::TargetSpec;
use serde_json::json;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    how: BenchOptions,
}

fn spec(image: &Path) -> Spec {
    let words = "bench --keep --reps 2 --sizes 4K --calls 2".split(' ');
    let target = TargetSpec::Image { path: image.into(), size: None };
    Spec { target, workload: "append".into(), text: None, ranks: None, how: Words::parse_from(words).how }
}

fn make(image: &Path, uuid: &str) -> Vec<u8> {
    File::create(image).unwrap().set_len(16 << 20).unwrap();
    assert!(Command::new("mkfs.ext4").args(["-qF", "-U", uuid]).arg(image).status().unwrap().success());
    fs::read(image).unwrap()
}

#[test]
#[ignore = "needs loop devices"]
fn another_image_at_the_same_path_is_refused_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let (image, out) = (directory.path().join("a.img"), directory.path().join("run"));
    let repetition = |number: u64| -> Result<Outcome, Failure> {
        let erase = Some(image.display().to_string());
        let how = Conduct { only: Some(vec![json!(number)]), erase, ..Conduct::quietly(&out) };
        conduct::<Bench>(&spec(&image), Seed(1), &how)
    };
    make(&image, "11111111-1111-4111-8111-111111111111");
    repetition(0).unwrap();
    let own = fs::read(&image).unwrap();
    let other = make(&image, "22222222-2222-4222-8222-222222222222");
    assert_eq!(repetition(1).unwrap_err().exit_code(), ExitCode::Refused);
    assert!(fs::read(&image).unwrap() == other, "the image was changed");
    fs::write(&image, own).unwrap();
    repetition(1).unwrap();
}
