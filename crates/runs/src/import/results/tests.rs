use super::*;
use senesce_core::{ExitCode, Record};
use serde_json::json;

const IOR_TEXT: &str = include_str!("../../../../../fuzz/corpus/results/ior");

const MDTEST_TEXT: &str = include_str!("../../../../../fuzz/corpus/results/mdtest");

fn hyperfine(mean: f64, codes: [i32; 3]) -> String {
    let parameters = json!({"size": "4k"});
    let times = [1.0, 2.0, 3.0];
    let one = json!({"command": "sleep 2", "mean": mean, "stddev": 1.0, "median": 2.0, "user": 0.5, "system": 0.25,
        "min": 1.0, "max": 3.0, "times": times, "exit_codes": codes, "parameters": parameters});
    json!({"results": [one]}).to_string()
}

fn values(found: &ParsedResults, metric: &str) -> Vec<(String, f64)> {
    let of = found.measurements.iter().filter(|one| one.metric == metric);
    of.map(|one| (one.condition_text(), one.value.get())).collect()
}

#[test]
fn hyperfine_gives_every_time_and_its_sums_are_checked() {
    let found = (HYPERFINE.read)(&hyperfine(2.0, [0, 0, 0])).unwrap();
    let times = values(&found, "time");
    assert_eq!(times.iter().map(|(_, time)| *time).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    assert_eq!(times[0].0, "command=sleep 2 size=4k");
    let repetitions: Vec<u32> = found.measurements.iter().map(|one| one.repetition).take(3).collect();
    assert_eq!(repetitions, [0, 1, 2]);
    let wrong = (HYPERFINE.read)(&hyperfine(2.5, [0, 0, 0])).unwrap_err();
    assert!(wrong.contains("mean is 2.5, but times allow 2"), "{wrong}");
}

#[test]
fn repeated_results_of_a_command_continue_its_repetitions() {
    let mut document: serde_json::Value = serde_json::from_str(&hyperfine(2.0, [0, 0, 0])).unwrap();
    let one = document["results"][0].clone();
    document["results"] = json!([one, one]);
    let found = (HYPERFINE.read)(&document.to_string()).unwrap();
    let times = found.measurements.iter().filter(|one| one.metric == "time");
    assert_eq!(times.map(|one| one.repetition).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn times_of_commands_that_failed_do_not_count() {
    let found = (HYPERFINE.read)(&hyperfine(2.0, [0, 1, 0])).unwrap();
    assert_eq!(values(&found, "time").len(), 2);
    assert!(values(&found, "user time, mean").is_empty());
    assert!(found.caveats[0].contains("failed 1 time:"), "{:?}", found.caveats);
}

#[test]
fn ior_gives_every_repetition_and_its_table_is_checked() {
    let found = (IOR.read)(IOR_TEXT).unwrap();
    let rates = values(&found, "bandwidth");
    assert_eq!(rates.len(), 4);
    let is_written = |condition: &str, rate| condition.contains("operation=write") && rate == 900.0 * 1_048_576.0;
    assert!(rates.iter().any(|(condition, rate)| is_written(condition, *rate)));
    assert!(rates[0].0.contains("tasks=8"), "{}", rates[0].0);
    assert_eq!(values(&found, "operations").len(), 4);
    let altered = IOR_TEXT.replace("950.00      50.00", "990.00      50.00");
    let wrong = (IOR.read)(&altered).unwrap_err();
    assert!(wrong.contains("Mean(MiB) of write is 990, but the rows allow"), "{wrong}");
    let lost = IOR_TEXT.replace("write     1000.00", "wrote     1000.00");
    assert!((IOR.read)(&lost).is_err(), "a row is missing");
    let (cut, _) = IOR_TEXT.split_once("Summary").unwrap();
    assert!((IOR.read)(cut).unwrap().caveats[0].contains("cut off"));
    assert!((IOR.read)("something else").unwrap_err().contains("Options:"));
}

#[test]
fn mdtest_imports_executed_operations_with_possible_numbers() {
    let found = (MDTEST.read)(MDTEST_TEXT).unwrap();
    let rates = values(&found, "rate");
    let expected = [("operation=file creation tasks=10", 2568.636), ("operation=tree creation tasks=10", 496.015)];
    assert_eq!(rates, expected.map(|(condition, rate)| (condition.to_string(), rate)));
    let old =
        MDTEST_TEXT.replace("File creation                2568.636", "File creation             :       2568.636");
    assert_eq!(values(&(MDTEST.read)(&old).unwrap(), "rate"), rates, "as versions before 4 print it");
    let several = MDTEST_TEXT.replace("(of 1", "(of 3");
    assert!((MDTEST.read)(&several).unwrap().caveats[0].contains("mean of 3 iterations"));
    let wrong =
        MDTEST_TEXT.replacen("2568.636       2568.636       2568.636", "2568.636       9999.000       2568.636", 1);
    assert!((MDTEST.read)(&wrong).unwrap_err().contains("rule 'mean of iterations'"));
}

#[test]
fn an_import_is_a_run_and_a_foreign_file_leaves_none() {
    for (format, text) in
        [(&HYPERFINE, hyperfine(2.0, [0, 0, 0])), (&IOR, IOR_TEXT.into()), (&MDTEST, MDTEST_TEXT.into())]
    {
        let directory = tempfile::tempdir().unwrap();
        let (source, out) = (directory.path().join("file"), directory.path().join("run"));
        std::fs::write(&source, "{}").unwrap();
        let refused = format.import(&source, &out).unwrap_err();
        assert_eq!((refused.exit_code(), out.exists()), (ExitCode::Usage, false), "{refused}");
        std::fs::write(&source, text).unwrap();
        format.import(&source, &out).unwrap();
        let analysis = senesce_runner::analyse::<Results>(&Record::open(&out).unwrap()).unwrap();
        assert_eq!(analysis.result["format"], format.name);
        assert!(!analysis.tables[0].rows.is_empty() && analysis.caveats[0].contains("imported"));
    }
}

#[test]
fn truncated_file_is_read_or_refused() {
    for text in [hyperfine(2.0, [0, 0, 0]), IOR_TEXT.into(), MDTEST_TEXT.into()] {
        for (end, _) in text.char_indices() {
            check(&text[..end]);
            check(&text[end..]);
        }
    }
}

const SLOW: &str = include_str!("../../../tests/imports/ior-slow.out");
const EARLY: &str = include_str!("../../../tests/imports/ior-early.out");
const ITERATIONS: &str = include_str!("../../../tests/imports/mdtest-4.1.out");

fn imported(format: &Format, text: &str) -> (Option<ExitCode>, usize, String) {
    let directory = tempfile::tempdir().unwrap();
    let (source, out) = (directory.path().join("file"), directory.path().join("run"));
    std::fs::write(&source, text).unwrap();
    let code = format.import(&source, &out).err().map(|failure| failure.exit_code());
    let analysis = senesce_runner::analyse::<Results>(&Record::open(&out).unwrap()).unwrap();
    (code, analysis.result["values"].as_array().unwrap().len(), analysis.caveats.join("\n"))
}

#[test]
fn numbers_after_a_tool_error_do_not_count() {
    for (format, text, word) in [
        (&IOR, include_str!("../../../tests/imports/ior-incorrect.out"), "Incorrect data on read"),
        (&MDTEST, include_str!("../../../tests/imports/mdtest-error.out"), "verifying the data on read"),
    ] {
        let (code, values, caveats) = imported(format, text);
        assert_eq!((code, values), (Some(ExitCode::RunFailed), 0));
        assert!(caveats.contains(word), "{caveats}");
    }
    let mut two = IOR_TEXT.to_string();
    two.insert_str(two.find("Max Write").unwrap(), "ior ERROR: write() failed, errno 28, No space left on device\n");
    assert_eq!(imported(&IOR, &two).1, 0);
}

#[test]
fn early_end_of_ior_and_rounded_means_are_accepted() {
    let (code, values, caveats) = imported(&IOR, EARLY);
    assert_eq!((code, values), (None, 6));
    assert!(caveats.contains("2 of 5 repetitions of write") && caveats.contains("no numbers"), "{caveats}");
    let (code, values, caveats) = imported(&IOR, SLOW);
    assert_eq!((code, values), (None, 18), "{caveats}");
}

#[test]
fn contradicted_ior_number_is_refused() {
    for (text, from, to) in [
        (SLOW, "6.79       0   ", "679.00     0   "),
        (SLOW, "write     1.18 ", "write     2.18 "),
        (SLOW, "301.69 ", "401.69 "),
        (SLOW, "1.70       0.54", "2.70       0.54"),
        (SLOW, "1.70       0.54", "1.70       0.84"),
        (SLOW, "435.92 ", "535.92 "),
        (SLOW, "5.16745", "6.16745"),
        (SLOW, "aggregate filesize  : 8 MiB", "aggregate filesize  : 80 MiB"),
        (SLOW, "repetitions         : 6", "repetitions         : 5"),
        (EARLY, "Max Write: 1280.00", "Max Write: 1380.00"),
        (EARLY, "0.125000   1", "0.225000   1"),
        (EARLY, "1034.00 ", "-1034.0 "),
        (EARLY, "1024.00    1034.00", "nan        1034.00"),
    ] {
        assert!(text.contains(from), "{from}");
        assert!((IOR.read)(&text.replacen(from, to, 1)).is_err(), "{from} -> {to}");
    }
    let negative = (IOR.read)(&EARLY.replace("1034.00 ", "-1034.0 ")).unwrap_err();
    assert!(negative.contains("line 35: IOPS of write is '-1034.0'"), "{negative}");
    assert!((IOR.read)(&format!("{EARLY}{EARLY}")).unwrap_err().contains("another run of IOR"));
}

#[test]
fn mdtest_of_several_iterations_and_of_ranks_names_its_operations() {
    let names = |text: &str| {
        let found = (MDTEST.read)(text).unwrap();
        values(&found, "rate").into_iter().map(|(condition, _)| condition).collect::<Vec<_>>()
    };
    assert_eq!(names(ITERATIONS).len(), 10);
    let ranks = names(include_str!("../../../tests/imports/mdtest-ranks.out"));
    let expected = ["creation", "removal", "stat"].map(|one| format!("operation=directory {one} tasks=2"));
    assert_eq!(ranks, expected);
}

#[test]
fn contradicted_mdtest_number_is_refused() {
    for (from, to) in [
        ("1788.305", "178830.500"),
        ("1788.305", "-1788.305"),
        ("1788.305", "nan"),
        ("880.355", "1880.355"),
        ("2410.811", "3410.811"),
        ("(of 2 iterations)", "(of 1 iterations)"),
        ("(of 2 iterations)", ""),
        ("   Tree removal                   35.742", "   Tree removal"),
    ] {
        assert!((MDTEST.read)(&ITERATIONS.replacen(from, to, 1)).is_err(), "{from} -> {to}");
    }
    let twice = format!("{ITERATIONS}{}", &ITERATIONS[ITERATIONS.find("SUMMARY").unwrap()..]);
    assert!((MDTEST.read)(&twice).unwrap_err().contains("import each run separately"));
}

#[test]
fn all_rules_are_documented() {
    let page = include_str!("../../../../../docs/statistics.md");
    let all =
        crate::import::fio::rules().into_iter().chain(ior::rules()).chain(mdtest::rules()).chain(hyperfine::rules());
    for name in all {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}
