//! Foreign studies: the committed corpus of the fuzz target, and mutations of it.

use std::path::Path;

#[path = "../../../../fuzz/shared/study.rs"]
mod study;
#[path = "../../../../fuzz/shared/toml_mutator.rs"]
mod toml_mutator;

fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/study");
    std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn studies_of_the_corpus_are_read_or_refused() {
    let texts = corpus();
    assert!(texts.iter().any(|text| study::exercise(text)), "a sound study is in the corpus");
    let huge = texts.iter().find(|text| text.contains("name = \"huge\"")).unwrap();
    let refused = senesce_study::StudySpec::parse("huge", huge).unwrap_err().to_string();
    assert!(refused.contains("30000000 runs"), "{refused}");
}

#[test]
fn mutated_studies_are_read_or_refused() {
    let texts = corpus();
    let sound = texts.iter().find(|text| study::exercise(text)).unwrap();
    let (mut typed, mut accepted) = (0, 0);
    for seed in 0..1000 {
        let changed = toml_mutator::mutate(sound, seed).expect("a changed study is TOML");
        typed += u32::from(toml::from_str::<senesce_study::StudySpec>(&changed).is_ok());
        accepted += u32::from(study::exercise(&changed));
    }
    println!("{typed} of 1000 have the types of a study, {accepted} are studies");
    assert!(typed > 500 && accepted > 100, "{typed} of 1000 have the types of a study, {accepted} are studies");
}

#[test]
fn invalid_numbers_are_refused_before_planning() {
    let texts = corpus();
    let sound = texts.iter().find(|text| study::exercise(text)).unwrap();
    for (number, other) in [
        ("fullness = 0.5", "fullness = nan"),
        ("fullness = 0.5", "fullness = 1.5"),
        ("overwrites = 2.0", "overwrites = inf"),
        ("scale = 0.01", "scale = -1.0"),
        ("seconds = 1.0", "seconds = nan"),
        ("cpus = 1.5", "cpus = nan"),
    ] {
        assert!(sound.contains(number));
        let refused = senesce_study::StudySpec::parse("s", &sound.replace(number, other)).unwrap_err().to_string();
        assert!(refused.contains(number.split(' ').next().unwrap()), "{other}: {refused}");
    }
}
