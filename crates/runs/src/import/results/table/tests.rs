//! Tables in the formats of real tools, with the maps of the documentation.

use super::*;
use senesce_core::ExitCode;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables");
const PAGE: &str = include_str!("../../../../../../docs/verbs/import-table.md");

fn values(maps: &[&str], text: &str, extension: &str) -> Result<Vec<(String, f64, String, Better)>, String> {
    let maps: Vec<Map> = maps.iter().map(|map| Map::parse(map)).collect::<Result<_, _>>()?;
    let found = read(&maps, text, extension)?;
    let shown = |one: &Measurement| (one.metric.clone(), one.value.get(), one.unit.clone(), one.better);
    Ok(found.measurements.iter().map(shown).collect())
}

fn examples() -> Vec<(String, Vec<String>)> {
    let lines = PAGE.lines().map(str::trim).filter_map(|line| line.strip_prefix("senesce runs import table "));
    let read = |line: &str| {
        let file = line.split(' ').next().unwrap().to_string();
        let maps = line.split("--map ").skip(1).map(|rest| match rest.strip_prefix('"') {
            Some(rest) => rest.split('"').next().unwrap().to_string(),
            None => rest.split(' ').next().unwrap().to_string(),
        });
        (file, maps.collect())
    };
    lines.map(read).collect()
}

#[test]
fn documented_examples_read_their_samples() {
    let examples = examples();
    assert!(examples.len() >= 6, "{examples:?}");
    for (file, maps) in examples {
        let directory = tempfile::tempdir().unwrap();
        let source = Path::new(SAMPLES).join(&file);
        let options = Options { map: maps.clone(), pattern: None };
        let importer = Tables.with(&options).unwrap().unwrap();
        let out = directory.path().join("run");
        importer.import(&source, &out).unwrap_or_else(|problem| panic!("{file} {maps:?}: {problem}"));
        let analysis =
            senesce_runner::analyse::<super::super::Results>(&senesce_core::Record::open(&out).unwrap()).unwrap();
        let values = analysis.result["values"].as_array().unwrap();
        assert!(values.len() >= maps.len(), "{file}: {values:?}");
        let undirected = analysis.caveats.iter().any(|one| one.contains("better="));
        assert!(!undirected, "{file}: {:?}", analysis.caveats);
    }
}

#[test]
fn rates_and_times_have_their_directions() {
    let text = std::fs::read_to_string(Path::new(SAMPLES).join("benchstat.txt")).unwrap();
    let found = values(&["name=1,value=3,unit=4", "name=1,value=5,unit=6"], &text, "txt").unwrap();
    let one = |value: f64, unit: &str, better| ("BenchmarkWrite-2".to_string(), value, unit.to_string(), better);
    assert_eq!(found[0], one(12345.0, "ns/op", Better::Lower));
    assert_eq!(found[2], one(331.23, "MB/s", Better::Higher));
}

#[test]
fn invalid_value_is_refused_with_its_line() {
    for wrong in ["NaN", "inf", "-1", "1e999", "1,5x", "abc"] {
        let text = format!("name,value\na,1\nb,\"{wrong}\"\n");
        let problem = values(&["name=name,value=value,unit='s'"], &text, "csv").unwrap_err();
        assert!(problem.contains("line 3") && problem.contains("cannot be"), "{wrong}: {problem}");
    }
    assert!(values(&["name=1,value=2,unit='s'"], "a nan\n", "").unwrap_err().contains("line 1"));
    let json = r#"[{"name":"a","unit":"s","value":-1}]"#;
    let problem = values(&["name=name,value=value,unit=unit"], json, "json").unwrap_err();
    assert!(problem.contains("document 1, row 1"), "{problem}");
    let cut = values(&["name=name,value=value,unit=unit"], &json[..20], "json").unwrap_err();
    assert!(cut.contains("line 1"), "{cut}");
}

#[test]
fn elements_of_json_keep_their_own_labels() {
    let json = r#"{"runs":[{"id":"a","m":{"p50":{"v":1},"p99":{"v":2}}},{"id":"b","m":{"p50":{"v":3}}}]}"#;
    let found = values(&["name=runs[].id,value=runs[].m.*.v,unit='ms',level=runs[].m.*"], json, "json").unwrap();
    let shown: Vec<_> = found.iter().map(|(name, value, ..)| (name.as_str(), *value)).collect();
    assert_eq!(shown, [("a", 1.0), ("a", 2.0), ("b", 3.0)]);
    let lines = "{\"id\":\"a\",\"mean\":{\"estimate\":5}}\n{\"reason\":\"group-complete\"}\n";
    let map = Map::parse("name=id,value=mean.estimate,unit='ns'").unwrap();
    let found = read(&[map], lines, "json").unwrap();
    assert_eq!(found.measurements.len(), 1);
    assert!(found.caveats[0].contains("document 2"), "{:?}", found.caveats);
}

#[test]
fn map_without_required_column_is_refused() {
    for (map, word) in [
        ("name=1,value=2", "no unit="),
        ("name=1,value=2,unit", "is not KEY=COL"),
        ("name=1,name=2,value=2,unit='s'", "twice"),
        ("name=0,value=2,unit='s'", "count from 1"),
        ("name=1,value=2,unit='s", "quote is not closed"),
        ("name=1,value=2,unit='s',separator=dot", "separator"),
    ] {
        assert!(Map::parse(map).unwrap_err().contains(word), "{map}");
    }
    let missing = values(&["name=bench,value=value,unit='s'"], "name,value\na,1\n", "csv").unwrap_err();
    assert!(missing.contains("no line has the columns"), "{missing}");
    let twice = values(&["name=a,value=b,unit='s'"], "a,b,b\nx,1,2\n", "csv").unwrap_err();
    assert!(twice.contains("two columns have the name 'b'"), "{twice}");
    let failure = Tables.import(Path::new("x"), Path::new("y")).unwrap_err();
    assert_eq!(failure.exit_code(), ExitCode::Usage);
}

#[test]
fn rows_with_other_names_are_omitted() {
    let text = "reads/s: 12\nwrites/s: 8\n95th percentile: 3\n";
    let found = values(&["name=1,value=2,unit='1/s',rows=reads/s|writes/s"], text, "txt").unwrap();
    assert_eq!(found.iter().map(|one| one.1).collect::<Vec<_>>(), [12.0, 8.0]);
}

#[test]
fn control_characters_are_escaped_and_long_names_truncated() {
    let text = format!("\u{1b}[2Ja 1\n{} 2\n", "n".repeat(5000));
    let found = values(&["name=1,value=2,unit='s'"], &text, "").unwrap();
    assert_eq!(found[0].0, "\\u001b[2Ja");
    assert!(found[1].0.len() < 500 && found[1].0.contains("CRC-32"), "{}", found[1].0);
    let many = "a 1\n".repeat(MOST_ROWS + 1);
    assert!(values(&["name=1,value=2,unit='s'"], &many, "").unwrap_err().contains("more than 100000 rows"));
}
