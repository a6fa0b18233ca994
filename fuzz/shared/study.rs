//! A study is read or refused; one that is read is written and read again, and expands to as many runs as it counts.

use senesce_study::StudySpec;
use senesce_study::matrix::runs;
use std::collections::BTreeSet;

const EXPANDED: u64 = 20_000;

pub fn exercise(text: &str) -> bool {
    let Ok(study) = StudySpec::parse("fuzz", text) else { return false };
    let cells = study.combinations().count() as u64 * u64::from(study.images) * u64::from(study.repetitions);
    assert!(cells <= senesce_core::plan::MOST_RUNS, "a study of {cells} runs is not expanded");
    if cells <= EXPANDED {
        let all = runs(&study);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "every run once");
    }
    let again = toml::to_string(&study).expect("a study is TOML");
    assert_eq!(StudySpec::parse("again", &again).expect("what was read is read again"), study);
    true
}
