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

fn parsed(text: &str) -> Result<StudySpec, String> {
    StudySpec::parse("s.toml", text).map_err(|error| error.to_string())
}

/// Asserts that each of these changes makes the study invalid, with a message that contains these words.
fn are_refused(changes: &[(&str, &str, &str)]) {
    for (from, to, words) in changes {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD);
        let problem = parsed(&text).unwrap_err();
        assert!(problem.contains(words), "{to}: {problem}");
    }
}

#[test]
fn a_good_study_is_read_and_names_are_filled_in() {
    let spec = parsed(GOOD).unwrap();
    let names: Vec<&str> = spec.workload.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["webserver", "cold-read"]);
    assert!(spec.exception(1, 0, "cold-read").skip);
    assert!(!spec.exception(1, 1, "cold-read").skip);
}

#[test]
fn unknown_names_get_the_nearest() {
    are_refused(&[
        ("fullness", "fulness", "`fullness`"),
        ("\"xfs\"", "\"xsf\"", "'xfs'"),
        ("\"agrawal\"", "\"agraval\"", "'agrawal'"),
        ("\"webserver\"", "\"webservr\"", "'webserver'"),
        ("workload = \"cold-read\"", "workload = \"cold-raed\"", "'cold-read'"),
    ]);
}

#[test]
fn invalid_values_and_contradictions_are_refused() {
    are_refused(&[
        // Files that are read cold were written.
        ("data = \"write\"", "data = \"fallocate\"", "never written"),
        ("skip = true", "", "contains no files"),
        ("256M", "4M", "at least 8 MiB"),
        ("256M\"", "256M\"\nrepetitions = 4000000000", "at most 10000"),
        ("256M\"", "256M\"\nimages = 0", "at least 1"),
        ("256M\"", "256M\"\nuntil_decided = true", "max_time"),
        ("256M\"", "256M\"\nmax_time = \"1h\"", "until_decided"),
        ("256M\"", "256M\"\nuntil_decided = true\nmax_time = \"1h\"\nmodels = [\"850-evo\"]", "models"),
        ("kind = \"fresh\"", "kind = \"fresh\"\nprofile = \"agrawal\"", "do not apply"),
        ("cold_read = true", "cold_read = true\nfile = \"x.f\"", "exactly one"),
        ("name = \"xfs small log\"", "name = \"ext4\"", "two [[file_system]]"),
    ]);
}

#[test]
fn kind_without_its_key_is_refused_by_name() {
    are_refused(&[
        ("profile = \"agrawal\"\n", "", "needs profile"),
        ("kind = \"fresh\"", "kind = \"write-once\"", "needs profile"),
        ("kind = \"fresh\"", "kind = \"copy\"", "needs of"),
        ("kind = \"fresh\"", "kind = \"image\"", "needs path"),
    ]);
}

#[test]
fn aging_command_has_its_own_keys() {
    are_refused(&[
        ("kind = \"fresh\"", "kind = \"command\"", "needs command"),
        ("kind = \"fresh\"", "kind = \"fresh\"\ncommand = [\"true\"]", "command is for kind"),
        ("kind = \"fresh\"", "kind = \"fresh\"\ntimeout = \"1m\"", "timeout is for kind"),
        ("kind = \"fresh\"", "kind = \"fresh\"\nspace = \"1M\"", "space is for kind"),
        ("kind = \"fresh\"", "kind = \"command\"\ncommand = [\"true\"]\nfullness = 0.5", "do not apply"),
        ("kind = \"fresh\"", "kind = \"command\"\ncommand = [\"true\"]\nfolder = \"/\"", "leave it out"),
    ]);
    let text = GOOD.replacen("kind = \"fresh\"", "kind = \"command\"\ncommand = [\"cat\", \"$SENESCE_STUDY\"]", 1);
    let state = parsed(&text.replace("state = \"fresh\"", "state = \"command\"")).unwrap().state.remove(0);
    assert_eq!(state.folder.map(|folder| folder.display().to_string()), Some(state.command[1].clone()));
}

#[test]
fn trace_with_unmeasured_parts_is_refused_for_models() {
    let modelled = GOOD.replacen("size = \"256M\"", "size = \"256M\"\nmodels = [\"850-evo\"]", 1);
    let with = |study: &str, workload: &str| {
        parsed(&study.replacen("personality = \"webserver\"\nscale = 0.1\nseconds = 5", workload, 1)).is_ok()
    };
    assert!(with(&modelled, "personality = \"webserver\"") && with(GOOD, "microbenchmark = \"create\""));
    assert!(!with(&modelled, "microbenchmark = \"create\""));
}

#[test]
fn sequential_study_does_not_run_in_the_guest() {
    let text = GOOD.replacen("size", "until_decided = true\nmax_time = \"1h\"\nsize", 1);
    assert!(parsed(&text).is_ok());
    let in_guest = format!("{text}\n[[cell]]\nfile_system = \"ext4\"\nvm = true\n");
    assert!(parsed(&in_guest).unwrap_err().contains("runs in the guest"));
}
