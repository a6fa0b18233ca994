//! Real and damaged documents.

use super::*;
use proptest::prelude::*;

const PLAIN: &str = include_str!("../../../../../../fuzz/corpus/fio_json/plain.json");
const PLUS: &str = include_str!("../../../../../../fuzz/corpus/fio_json/plus.json");

#[test]
fn real_results_are_read() {
    let output = parse(PLAIN).unwrap();
    assert!(output.version.starts_with("fio-3"));
    let names: Vec<(&str, usize)> = output.jobs.iter().map(|job| (job.name.as_str(), job.directions.len())).collect();
    assert_eq!(names, [("rr", 1), ("sw", 1), ("mix", 2)]);
    assert!(output.jobs[0].directions[0].bins.is_empty());
    let plus = parse(&format!("fio: a warning\n{PLUS}")).unwrap();
    let read = &plus.jobs[0].directions[0];
    assert_eq!(read.bins.iter().map(|bin| bin.1).sum::<u64>(), PLUS_READS);
    assert!(read.percentiles.iter().any(|(percent, latency)| *percent == 99.0 && *latency > 0.0));
}

const PLUS_READS: u64 = 13967;

#[test]
fn parsing_the_committed_corpus_never_panics() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/fio_json");
    for entry in std::fs::read_dir(corpus).unwrap().flatten() {
        let _ = parse(&String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()));
    }
}

#[test]
fn input_that_is_not_fio_is_an_error() {
    for (text, word) in [
        ("", "no JSON"),
        ("{}", "fio version"),
        ("{\"fio version\":\"fio-3\",\"jobs\":[]}", "no jobs"),
        (
            "{\"fio version\":\"fio-2\",\"jobs\":[{\"jobname\":\"a\",\"read\":{\"total_ios\":1,\"clat\":{}}}]}",
            "before version 3",
        ),
    ] {
        let problem = parse(text).unwrap_err();
        assert!(problem.contains(word), "{problem}");
    }
}

proptest! {
    #[test]
    fn damage_is_an_error_and_not_a_panic(at in 0usize..20_000, byte in any::<u8>()) {
        let mut bytes = PLAIN.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }
}
