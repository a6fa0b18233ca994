//! Records that were made to exhaust memory.

use super::*;
use std::fs::File;
use std::io::{Seek, Write};

/// Writes `events.jsonl` until it has `bytes`, with events that `body` makes of their number.
fn filled(path: &Path, bytes: u64, body: impl Fn(u64) -> String) {
    let mut file = io::BufWriter::new(File::create(path.join("events.jsonl")).unwrap());
    let (mut number, mut sum) = (0, 0);
    while file.stream_position().unwrap() < bytes {
        number += 1;
        let (line, next) = signed(sum, &[body(number)]);
        file.write_all(line.as_bytes()).unwrap();
        sum = next;
    }
}

/// Peak of the resident memory while `read` runs, above what was there before, in bytes.
fn peak_of(read: impl FnOnce()) -> u64 {
    let field = |name: &str| {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = field("VmRSS");
    read();
    field("VmHWM").saturating_sub(before)
}

#[test]
fn repeated_line_is_refused_at_once_in_a_file_of_any_size() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(open(&path, "1G").unwrap());
    let (line, _) = signed(0, &["{\"t\":7.5,\"kind\":\"sample\",\"data\":[1,2,3]}".into()]);
    fs::write(path.join("events.jsonl"), line.repeat(1 << 14)).unwrap();
    File::options().write(true).open(path.join("events.jsonl")).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(damaged_line(&path), 2);
}

/// In a process of its own: other tests use memory too.
#[test]
fn events_beyond_the_limit_are_refused_with_their_line_within_bounded_memory() {
    const CHILD: &str = "SENESCE_TEST_BOUNDED_MEMORY";
    if std::env::var_os(CHILD).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let test = "record::tests::hostile::events_beyond_the_limit_are_refused_with_their_line_within_bounded_memory";
        let output = child.args(["--exact", test]).env(CHILD, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(open(&path, "1G").unwrap());
    let text = "x".repeat(4000);
    filled(&path, 256 << 20, |number| format!("{{\"t\":{number}.5,\"kind\":\"sample\",\"data\":\"{text}\"}}"));
    let peak = peak_of(|| {
        let refused = Record::open(&path).unwrap_err();
        assert!(matches!(refused, RecordError::TooLong { line: 40_000..50_000, .. }), "{refused}");
        assert_eq!(Failure::from(refused).exit_code(), ExitCode::RunFailed);
    });
    assert!(peak < 256 << 20, "{peak}");
}

#[test]
fn line_without_an_end_is_refused_within_bounded_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = open(&path, "1G").unwrap();
    run.append("sample", &json!(1)).unwrap();
    drop(run);
    File::options().write(true).open(path.join("events.jsonl")).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(Record::open(&path), Err(RecordError::TooLong { line: 3, .. })));
}

#[test]
fn event_whose_values_take_far_more_memory_than_its_text_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(open(&path, "1G").unwrap());
    let data = format!("[{}0]", "{\"\":0},".repeat(1 << 20));
    let body = format!("{{\"t\":1.5,\"kind\":\"sample\",\"data\":{data}}}");
    fs::write(path.join("events.jsonl"), signed(0, &[body.clone(), body]).0).unwrap();
    assert_eq!(damaged_line(&path), 1);
    let summary = format!(
        "{{\"t\":1.5,\"kind\":\"checksum\",\"data\":{{\"file\":\"summary.json\",\"bytes\":1,\"crc\":\"{}\"}}}}",
        sum(data.as_bytes())
    );
    fs::write(path.join("events.jsonl"), signed(0, &[summary]).0).unwrap();
    fs::write(path.join("summary.json"), data).unwrap();
    assert!(matches!(Record::open(&path), Err(RecordError::NotARun { .. })));
}

#[test]
fn other_files_beyond_their_limits_are_refused_unread() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(open(&path, "1G").unwrap());
    for name in ["format", "plan.toml", "env.json", "summary.json"] {
        let file = path.join(name);
        let before = fs::read(&file).ok();
        File::options().write(true).create(true).truncate(false).open(&file).unwrap().set_len(1 << 40).unwrap();
        for refused in [Record::open(&path).map(drop), Overview::read(&path).map(drop)] {
            assert!(matches!(refused, Err(RecordError::TooLarge { .. })), "{name}: {refused:?}");
        }
        fs::remove_file(&file).unwrap();
        before.into_iter().for_each(|bytes| fs::write(&file, bytes).unwrap());
    }
    fs::create_dir_all(path.join("histograms")).unwrap();
    File::create(path.join("histograms/one.hdr")).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(read_histogram(&path, "one"), Err(RecordError::TooLarge { .. })));
    Record::open(&path).unwrap();
}

#[test]
fn histogram_that_states_more_counts_than_it_has_is_refused_before_they_are_allocated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(open(&path, "1G").unwrap());
    fs::create_dir_all(path.join("histograms")).unwrap();
    let plain = [&0x1c84_9313u32.to_be_bytes()[..], &u32::MAX.to_be_bytes(), &[0; 64]].concat();
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&plain).unwrap();
    let deflated = encoder.finish().unwrap();
    let packed = [&0x1c84_9314u32.to_be_bytes()[..], &(deflated.len() as u32).to_be_bytes(), &deflated].concat();
    for bytes in [plain, packed] {
        fs::write(path.join("histograms/one.hdr"), bytes).unwrap();
        assert!(matches!(read_histogram(&path, "one"), Err(RecordError::TooLarge { .. })));
    }
}

#[test]
fn writer_refuses_values_that_cannot_be_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = open(&path, "1G").unwrap();
    assert!(matches!(run.append("sample", &"x".repeat(200 << 20)), Err(RecordError::TooLong { line: 2, .. })));
    assert!(matches!(run.finish(&"x".repeat(20 << 20)), Err(RecordError::TooLarge { .. })));
    let many_values = vec![0; 3_000_000];
    assert!(matches!(run.append("sample", &many_values), Err(RecordError::TooLong { line: 2, .. })));
    assert!(matches!(run.finish(&many_values), Err(RecordError::TooLarge { .. })));
    run.append("sample", &json!(1)).unwrap();
}
