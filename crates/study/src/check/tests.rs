//! Error messages for invalid studies.

use super::*;

const GOOD: &str = r#"
name = "does age matter"
size = "256M"
[[file_system]]
kind = "ext4"
[[file_system]]
kind = "xfs"
name = "xfs small log"
mkfs = "-l size=16m"
[[state]]
kind = "fresh"
[[state]]
kind = "aged"
profile = "agrawal"
fullness = 0.7
data = "write"
[[workload]]
personality = "webserver"
scale = 0.1
seconds = 5
[[workload]]
cold_read = true
[[cell]]
state = "fresh"
workload = "cold-read"
skip = true
"#;

fn problem(from: &str, to: &str) -> String {
    let text = GOOD.replacen(from, to, 1);
    assert_ne!(text, GOOD);
    StudySpec::parse("s.toml", &text).unwrap_err().to_string()
}

#[test]
fn a_good_study_is_read_and_names_are_filled_in() {
    let spec = StudySpec::parse("s.toml", GOOD).unwrap();
    let names: Vec<&str> = spec.workload.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["webserver", "cold-read"]);
    assert!(spec.exception(1, 0, "cold-read").skip);
    assert!(!spec.exception(1, 1, "cold-read").skip);
}

#[test]
fn unknown_names_get_the_nearest() {
    assert!(problem("fullness", "fulness").contains("did you mean `fullness`"));
    assert!(problem("\"xfs\"", "\"xsf\"").contains("did you mean 'xfs'"));
    assert!(problem("\"agrawal\"", "\"agraval\"").contains("did you mean 'agrawal'"));
    assert!(problem("\"webserver\"", "\"webservr\"").contains("did you mean 'webserver'"));
    assert!(problem("workload = \"cold-read\"", "workload = \"cold-raed\"").contains("did you mean 'cold-read'"));
}

#[test]
fn a_cold_read_of_files_that_were_never_written_is_refused() {
    assert!(problem("data = \"write\"", "").contains("never written"));
    assert!(problem("skip = true", "").contains("holds no files"));
}

#[test]
fn counts_out_of_range_are_refused() {
    assert!(problem("256M", "4M").contains("at least 8 MiB"));
    assert!(problem("256M\"", "256M\"\nrepetitions = 4000000000").contains("at most 10000"));
    assert!(problem("256M\"", "256M\"\nimages = 0").contains("at least 1"));
}

#[test]
fn trace_with_unmeasured_parts_is_refused_for_models() {
    let modelled = GOOD.replacen("size = \"256M\"", "size = \"256M\"\nmodels = [\"850-evo\"]", 1);
    let with = |workload: &str| {
        let text = modelled.replacen("personality = \"webserver\"\nscale = 0.1\nseconds = 5", workload, 1);
        StudySpec::parse("s.toml", &text).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(with("personality = \"webserver\""), Ok(()));
    let refused = with("microbenchmark = \"create\"").unwrap_err();
    assert!(refused.contains("workload 'create'") && refused.contains("leave out models"), "{refused}");
    let alone = GOOD.replacen("personality = \"webserver\"\nscale = 0.1", "microbenchmark = \"create\"", 1);
    assert!(StudySpec::parse("s.toml", &alone).is_ok());
}

#[test]
fn sequential_study_requires_a_time_limit() {
    let with = |keys: &str| problem("size = \"256M\"", &format!("size = \"256M\"\n{keys}"));
    assert!(with("until_decided = true").contains("max_time"));
    assert!(with("max_time = \"1h\"").contains("until_decided"));
    assert!(with("until_decided = true\nmax_time = \"1h\"\nmodels = [\"850-evo\"]").contains("models"));
    let text = GOOD.replacen("size", "until_decided = true\nmax_time = \"1h\"\nsize", 1);
    assert!(StudySpec::parse("s.toml", &text).is_ok());
    let in_guest = format!("{text}\n[[cell]]\nfile_system = \"ext4\"\nvm = true\n");
    assert!(StudySpec::parse("s.toml", &in_guest).unwrap_err().to_string().contains("runs in the guest"));
}

#[test]
fn contradictions_are_refused() {
    assert!(problem("kind = \"fresh\"", "kind = \"fresh\"\nprofile = \"agrawal\"").contains("mean nothing"));
    assert!(problem("cold_read = true", "cold_read = true\nfile = \"x.f\"").contains("exactly one"));
    assert!(problem("name = \"xfs small log\"", "name = \"ext4\"").contains("two [[file_system]]"));
}
