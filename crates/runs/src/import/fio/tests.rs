//! Imports of synthetic results.

mod real;

use super::*;
use senesce_core::Record;

const CLAT: &str = r#""min":10,"max":300,"mean":100,"percentile":{"50.000000":90,"99.000000":200}"#;

fn part(iops: u32, clat: &str) -> String {
    format!(
        r#"{{"total_ios":{iops},"io_bytes":{bytes},"bw_bytes":{bytes},"iops":{iops},"runtime":1000,"clat_ns":{{{clat}}}}}"#,
        bytes = iops * 4096
    )
}

fn job(error: u32, direction: &str, part: &str) -> String {
    format!(r#"{{"jobname":"a","groupid":0,"error":{error},"{direction}":{part}}}"#)
}

fn document(jobs: &[String]) -> String {
    format!("{{\"fio version\":\"fio-3.33\",\"jobs\":[\n{}]}}\n", jobs.join(",\n"))
}

fn import(text: &str) -> Result<(Vec<Measurement>, Vec<String>), Failure> {
    let directory = tempfile::tempdir().unwrap();
    let (source, out) = (directory.path().join("fio.json"), directory.path().join("run"));
    std::fs::write(&source, text).unwrap();
    // Invalid numbers are reported after the record is written.
    Fio.import(&source, &out)
        .or_else(|failure| if out.join("summary.json").exists() { Ok(()) } else { Err(failure) })?;
    let record = Record::open(&out).unwrap();
    let analysis = senesce_runner::analyse::<Fio>(&record).unwrap();
    assert_eq!(analysis.result, *record.summary.as_ref().unwrap());
    Ok((Recorded::<Fio>::of(&record)?.measurements().cloned().collect(), analysis.caveats))
}

/// Requires that the import fails with all of these words.
#[track_caller]
fn refuses(text: &str, words: &[&str]) {
    let refused = import(text).unwrap_err().to_string();
    assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
}

#[track_caller]
fn assert_caveat(caveats: &[String], words: &str) {
    assert!(caveats.iter().any(|caveat| caveat.contains(words)), "{caveats:?}");
}

fn operations(values: &[Measurement]) -> Vec<(String, f64)> {
    let all = values.iter().filter(|one| one.metric == "operations");
    all.map(|one| (one.condition["direction"].clone(), one.value.get())).collect()
}

#[test]
fn clones_are_one_measurement_with_their_sum() {
    let clones = [job(0, "read", &part(100, CLAT)), job(0, "read", &part(50, CLAT))];
    let (values, _) = import(&document(&clones)).unwrap();
    assert_eq!(operations(&values), [("read".to_string(), 150.0)]);
}

#[test]
fn mixed_operations_are_read_and_unknown_directions_named() {
    let (values, _) = import(&document(&[job(0, "mixed", &part(70, CLAT))])).unwrap();
    assert_eq!(operations(&values), [("mixed".to_string(), 70.0)]);
    refuses(&document(&[job(0, "append", &part(70, CLAT))]), &["job 'a': unknown direction 'append'"]);
}

#[test]
fn a_direction_without_its_count_or_rate_is_named_with_the_field() {
    for (field, key) in [("iops", "\"iops\":"), ("total_ios", "\"total_ios\":")] {
        let lacking = part(70, CLAT).replace(key, "\"nothing\":");
        refuses(&document(&[job(0, "read", &lacking)]), &["job 'a', read", &format!("no field {field}")]);
    }
}

#[test]
fn contradicting_counts_and_rates_are_refused() {
    let sound = part(1000, CLAT);
    let with = |field: &str, value: &str| {
        let (before, after) = sound.split_once(&format!("\"{field}\":")).unwrap();
        format!("{before}\"{field}\":{value}{}", &after[after.find(',').unwrap()..])
    };
    for (field, value, message) in [
        ("bw_bytes", "1", "bw_bytes is 1, but io_bytes and runtime"),
        ("iops", "99999", "iops is 99999, but total_ios and runtime"),
        ("io_bytes", "1", "rule 'byte rate'"),
        ("runtime", "0", "iops is 1000, but total_ios and runtime"),
        ("total_ios", "1e30", "rule 'counts'"),
    ] {
        refuses(&document(&[job(0, "read", &with(field, value))]), &["job 'a', read", message]);
    }
    // Rounded as fio rounds.
    import(&document(&[job(0, "read", &with("bw_bytes", "4095999"))])).unwrap();
}

#[test]
fn io_shorter_than_a_millisecond_has_no_rate() {
    let short =
        part(3, CLAT).replace(r#""bw_bytes":12288,"iops":3,"runtime":1000"#, r#""bw_bytes":0,"iops":0,"runtime":0"#);
    let (values, caveats) = import(&document(&[job(0, "read", &short)])).unwrap();
    assert!(values.is_empty(), "{values:?}");
    assert_caveat(&caveats, "job 'a' (read): it took less than");
}

#[test]
fn bins_that_contradict_latencies_are_refused() {
    for (clat, message) in [
        (r#""min":10,"max":100,"mean":50,"N":2,"bins":{"50":1,"900":1}"#, "clat_ns.bins is 900, but min and max"),
        (r#""min":10,"max":100,"mean":50,"N":2,"bins":{"2":1,"90":1}"#, "clat_ns.bins is 2, but min and max"),
        (r#""min":10,"max":100,"mean":50,"N":100,"bins":{"90":1}"#, "clat_ns.N is 100, but the bins allow 1"),
    ] {
        refuses(&document(&[job(0, "read", &part(100, clat))]), &["job 'a', read", message]);
    }
    for half_a_bin in [r#""N":100,"bins":{"129":100}"#, r#""percentile":{"99.000000":129}"#] {
        let clat = format!(r#""min":128,"max":128,"mean":128,{half_a_bin}"#);
        import(&document(&[job(0, "read", &part(100, &clat))])).unwrap();
    }
}

#[test]
fn latencies_of_few_operations_give_a_caveat() {
    let of = |samples: u32| part(1000, &format!(r#""min":9,"max":9,"mean":9,"N":{samples},"bins":{{"9":{samples}}}"#));
    let (_, caveats) = import(&document(&[job(0, "read", &of(1))])).unwrap();
    assert_caveat(&caveats, "are those of 1 of 1000 operations");
    let (_, caveats) = import(&document(&[job(0, "read", &of(1000))])).unwrap();
    assert!(caveats.iter().all(|message| !message.contains("are those of")), "{caveats:?}");
}

#[test]
fn missing_clones_give_a_caveat() {
    let of = |clones: usize, more: &str| {
        let options = format!(r#"{{"job options":{{"numjobs":"4"{more}}},"#);
        let one = job(0, "read", &part(100, CLAT)).replacen('{', &options, 1);
        import(&document(&vec![one; clones])).unwrap()
    };
    for clones in [3, 5] {
        let (values, caveats) = of(clones, "");
        let message = format!("numjobs is 4, and the file holds {clones}: it is incomplete");
        assert!(values.is_empty());
        assert_caveat(&caveats, &message);
    }
    let (values, caveats) = of(1, "");
    assert!(!values.is_empty());
    assert_caveat(&caveats, "the file holds 1: a group");
    for (clones, more) in [(4, ""), (8, ""), (1, r#","group_reporting":"""#)] {
        let (values, caveats) = of(clones, more);
        assert!(!values.is_empty() && caveats.iter().all(|one| !one.contains("numjobs is")), "{caveats:?}");
    }
}

/// Uses times from fio 3.33 for four clones without and with `--group_reporting`, which is not among the options in the
/// file.
#[test]
fn total_runtime_distinguishes_group_from_single_clone() {
    let of = |options: &str, runtime: u32| {
        let more = format!(r#"{{"job options":{{{options}}},"job_runtime":{runtime},"#);
        let one = job(0, "read", &part(100, CLAT)).replacen('{', &more, 1);
        let directory = tempfile::tempdir().unwrap();
        let (source, out) = (directory.path().join("fio.json"), directory.path().join("run"));
        std::fs::write(&source, document(&[one])).unwrap();
        let counts = Fio.import(&source, &out).is_ok();
        let analysis = senesce_runner::analyse::<Fio>(&Record::open(&out).unwrap()).unwrap();
        (counts, analysis.tables[0].rows[0][2].as_u64().unwrap(), analysis.caveats.join("\n"))
    };
    let four = r#""numjobs":"4""#;
    let (counts, clones, caveats) = of(four, 4000);
    assert!(counts && clones == 4 && !caveats.contains("numjobs"), "{clones} {caveats}");
    let (counts, clones, caveats) = of(four, 3200);
    assert!(counts && clones == 4 && !caveats.contains("numjobs"), "some ended before: {clones} {caveats}");
    let (counts, clones, caveats) = of(four, 1000);
    assert!(!counts && clones == 1, "{clones} {caveats}");
    assert!(caveats.contains("numjobs is 4, and the file holds 1: the others are missing"), "{caveats}");
    let (counts, clones, caveats) = of(r#""numjobs":"2""#, 6000);
    assert!(counts && clones == 6, "{clones} {caveats}");
    assert!(caveats.contains("job 'a': the sum of 6 jobs that were reported as one"), "{caveats}");
    let (counts, _, caveats) = of(four, 1300);
    assert!(counts && caveats.contains("a group that was reported as one, or"), "{caveats}");
    let (counts, clones, caveats) = of(four, 2_000_000_000);
    assert!(counts && clones == 1 && caveats.contains("or the others are missing"), "{clones} {caveats}");
    let (counts, clones, caveats) = of("", 1000);
    assert!(counts && clones == 1 && !caveats.contains("reported as one"), "{caveats}");
}

#[test]
fn job_that_wrote_then_read_is_one_job() {
    let both = format!(
        r#"{{"jobname":"a","groupid":0,"error":0,"job_runtime":2000,"write":{0},"read":{0}}}"#,
        part(100, CLAT)
    );
    let (values, caveats) = import(&document(&[both])).unwrap();
    assert!(!values.is_empty() && !caveats.iter().any(|one| one.contains("reported as one")), "{caveats:?}");
}

/// Imports results of a fork of fio that reports zone commands in sections of their own; some versions write finishes
/// twice.
#[test]
fn zone_commands_of_a_fork_are_directions() {
    let clat = part(30, CLAT);
    let both =
        format!(r#"{{"jobname":"a","groupid":0,"error":0,"ZNS Reset":{clat},"ZNS finish":{clat},"finish":{clat}}}"#);
    let (values, _) = import(&document(&[both])).unwrap();
    let mut found = operations(&values);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found, [("zone finish".to_string(), 30.0), ("zone reset".to_string(), 30.0)]);
}

#[test]
fn impossible_latencies_are_refused_with_job_and_field() {
    for (clat, message) in [
        (r#""mean":-5"#, "clat_ns.mean is -5"),
        (r#""min":9,"max":8,"mean":8.5"#, "clat_ns.min is 9, but min and max"),
        (r#""max":100,"mean":50,"percentile":{"99.000000":200}"#, "clat_ns.percentile 99 is 200, but min and max"),
        (r#""mean":50,"percentile":{"50.0":20,"99.0":10}"#, "clat_ns.percentile 99 is 10, but those below it"),
        (r#""min":9,"max":80,"mean":1e11"#, "clat_ns.mean is 100000000000, but min, max and N allow 9 to 80"),
        (r#""min":9,"max":80,"mean":3"#, "clat_ns.mean is 3, but"),
        (r#""mean":50,"percentile":{"99.0":-1}"#, "clat_ns.percentile 99 is -1"),
    ] {
        refuses(&document(&[job(0, "read", &part(100, clat))]), &["job 'a', read", message]);
    }
    let not_a_number = "{\"fio version\":\"fio-3.33\",\"jobs\":[\n{\"jobname\" : \"a\",\n\"read\" : {\n\"clat_ns\" : {\n\
                        \"mean\" : -nan,\n\"N\" : 1}}}]}";
    refuses(not_a_number, &["job 'a', clat_ns, \"mean\" : -nan: this is not a number"]);
}

#[test]
fn throughput_and_latency_must_fit_the_requests_in_flight() {
    let with_depth = |iops: u32| {
        let one = job(0, "read", &part(iops, r#""mean":1000000"#));
        document(&[one.replacen("{", r#"{"job options":{"iodepth":"4"},"#, 1)])
    };
    let (values, caveats) = import(&with_depth(4000)).unwrap();
    assert!(!values.is_empty() && caveats.iter().all(|message| !message.contains("in flight")), "{caveats:?}");
    let (values, caveats) = import(&with_depth(8000)).unwrap();
    assert!(!values.is_empty());
    assert_caveat(&caveats, "8.0 requests in flight");
    let (values, caveats) = import(&with_depth(80_000)).unwrap();
    assert!(values.is_empty());
    assert_caveat(&caveats, "do not count");
}

#[test]
fn latencies_without_samples_are_not_measured() {
    for clat in [r#""min":0,"max":0,"mean":0,"N":0"#, r#""min":0,"max":0,"mean":0,"percentile":{"0.00":0}"#] {
        let one = job(0, "read", &part(100, clat)).replacen("{", r#"{"job options":{"iodepth":"4"},"#, 1);
        let (values, caveats) = import(&document(&[one])).unwrap();
        assert!(values.iter().all(|one| !one.metric.contains("latency")), "{values:?}");
        assert_eq!(operations(&values), [("read".to_string(), 100.0)]);
        assert_caveat(&caveats, "job 'a' (read): fio measured no");
    }
}

#[test]
fn percentiles_of_total_latencies_keep_their_name() {
    let total = r#""clat_ns":{"mean":90,"N":5},"lat_ns":{"mean":100,"N":5,"percentile":{"99.0":200}}"#;
    let one = part(100, "").replace(r#""clat_ns":{}"#, total);
    let (values, _) = import(&document(&[job(0, "read", &one)])).unwrap();
    let names: Vec<&str> = values.iter().map(|one| one.metric.as_str()).filter(|name| name.contains("lat")).collect();
    assert_eq!(names, ["completion latency, mean", "total latency, percentile 99"]);
}

#[test]
fn jobs_with_the_same_name_are_distinguished_by_options() {
    let of = |group: u32, options: &str| {
        let one = job(0, "read", &part(100, CLAT)).replace(r#""groupid":0"#, &format!(r#""groupid":{group}"#));
        one.replacen("{", &format!(r#"{{"job options":{{{options}}},"#), 1)
    };
    let (first, second) = (of(0, r#""bs":"4k""#), of(1, r#""stonewall":"","bs":"1m""#));
    let (values, _) = import(&document(&[first, second, of(2, r#""stonewall":"","bs":"4k""#)])).unwrap();
    let all = values.iter().filter(|one| one.metric == "operations");
    let found: Vec<_> = all.map(|one| (one.condition_text(), one.repetition)).collect();
    let under = |bs: &str, repetition: u32| (format!("bs={bs} direction=read job=a"), repetition);
    assert_eq!(found, [under("4k", 0), under("1m", 0), under("4k", 1)]);
}

#[test]
fn result_without_valid_numbers_is_kept_and_fails() {
    let directory = tempfile::tempdir().unwrap();
    let one = job(0, "read", &part(80_000, r#""mean":1000000"#)).replacen("{", r#"{"job options":{"iodepth":"4"},"#, 1);
    let (file, out) = (directory.path().join("fio.json"), directory.path().join("run"));
    std::fs::write(&file, document(&[one])).unwrap();
    let failed = Fio.import(&file, &out).unwrap_err();
    assert_eq!(failed.exit_code(), ExitCode::RunFailed);
    let analysis = senesce_runner::analyse::<Fio>(&senesce_core::Record::open(&out).unwrap()).unwrap();
    assert_eq!(analysis.tables[0].rows[0].last(), Some(&serde_json::json!(false)));
    let drawn = |figure: &senesce_core::Figure| format!("{figure:?}").contains("78.125");
    assert!(!analysis.figures.iter().any(drawn), "{:?}", analysis.figures);
}

#[test]
fn last_complete_of_several_results_counts() {
    let of = |iops| document(&[job(0, "read", &part(iops, CLAT))]);
    let (values, caveats) = import(&format!("{}fio: a warning\n{}", of(10), of(20))).unwrap();
    assert_eq!(operations(&values), [("read".to_string(), 20.0)]);
    assert_caveat(&caveats, "holds 2 complete results (--status-interval)");
    let (values, caveats) = import(&format!("{}{}", of(10), &of(20)[..60])).unwrap();
    assert_eq!(operations(&values), [("read".to_string(), 10.0)]);
    assert_caveat(&caveats, "cut off");
}

#[test]
fn a_job_that_failed_is_named_and_does_not_count() {
    let idle = part(0, "");
    let (values, caveats) = import(&document(&[job(5, "read", &idle)])).unwrap();
    assert!(values.is_empty());
    assert_caveat(&caveats, "job 'a' ended with error 5");
    let clones = [job(0, "read", &part(100, CLAT)), job(28, "read", &part(50, CLAT))];
    let (values, caveats) = import(&document(&clones)).unwrap();
    assert!(values.is_empty());
    assert_caveat(&caveats, "job 'a' (2 clones) ended with error 28");
}

#[test]
fn interrupted_import_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let (source, out) = (directory.path().join("fio.json"), directory.path().join("run"));
    std::fs::write(&source, document(&[job(0, "read", &part(100, CLAT))])).unwrap();
    Fio.import(&source, &out).unwrap();
    Fio.import(&source, &out).unwrap();
    std::fs::remove_file(out.join("summary.json")).unwrap();
    let refused = Fio.import(&source, &out).unwrap_err().to_string();
    assert!(refused.contains("interrupted"), "{refused}");
}
