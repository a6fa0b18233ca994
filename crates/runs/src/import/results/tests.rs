use super::*;
use senesce_core::{ExitCode, Record};
use serde_json::json;

const IOR_TEXT: &str = "IOR-4.0.0: MPI Coordinated Test of Parallel I/O
Began               : Thu Mar 19 17:47:55 2026
Machine             : Linux node1

Options:
api                 : POSIX
tasks               : 8
xfersize            : 262144 bytes
blocksize           : 1 MiB

Results:

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----
write     900.00     3600       0.001868    1024.00    256.00     0.001203   0.007473   0.000973   0.008768   0
read      5429       21716      0.000031    1024.00    256.00     0.015838   0.014163   0.014007   0.001637   0
write     1000.00    4000       0.001868    1024.00    256.00     0.001203   0.007473   0.000973   0.008000   1
read      5431       21724      0.000031    1024.00    256.00     0.015838   0.014163   0.014007   0.001637   1
remove    -          -          -           -          -          -          -          -          0.006066   1
Max Write: 1000.00 MiB/sec (1048.58 MB/sec)

Summary of all tests:
Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     StdDev    Mean(s)
write        1000.00     900.00     950.00      50.00    4000.00    3600.00    3800.00     200.00    0.00838
read         5431.20    5429.38    5430.29       0.91   21724.80   21717.52   21721.16       3.64    0.00164
Finished            : Thu Mar 19 17:48:00 2026
";

const MDTEST_TEXT: &str = "-- started at 03/19/2026 17:55:06 --

mdtest-4.0.0 was launched with 10 total task(s) on 2 node(s)
10 tasks, 33340 files

SUMMARY rate: (of 1 iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
   File creation                2568.636       2568.636       2568.636          0.000
   File stat                       0.000          0.000          0.000          0.000
   Tree creation                 496.015        496.015        496.015          0.000
-- finished at 03/19/2026 17:55:20 --
";

fn hyperfine(mean: f64, codes: [i32; 3]) -> String {
    let parameters = json!({"size": "4k"});
    let times = [1.0, 2.0, 3.0];
    let one = json!({"command": "sleep 2", "mean": mean, "stddev": 1.0, "median": 2.0, "user": 0.5, "system": 0.25,
        "min": 1.0, "max": 3.0, "times": times, "exit_codes": codes, "parameters": parameters});
    json!({"results": [one]}).to_string()
}

fn values(found: &Found, metric: &str) -> Vec<(String, f64)> {
    let of = found.measurements.iter().filter(|one| one.metric == metric);
    of.map(|one| (one.condition_words(), one.value.get())).collect()
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
    assert!(wrong.contains("mean is 2.5 s, that of its times is 2 s"), "{wrong}");
}

#[test]
fn times_of_commands_that_failed_do_not_count() {
    let found = (HYPERFINE.read)(&hyperfine(2.0, [0, 1, 0])).unwrap();
    assert_eq!(values(&found, "time").len(), 2);
    assert!(values(&found, "user time, mean").is_empty());
    assert!(found.caveats[0].contains("failed 1 times"), "{:?}", found.caveats);
}

#[test]
fn ior_gives_every_repetition_and_its_table_is_checked() {
    let found = (IOR.read)(IOR_TEXT).unwrap();
    let rates = values(&found, "bandwidth");
    assert_eq!(rates.len(), 4);
    assert!(
        rates.iter().any(|(condition, rate)| condition.contains("operation=write") && *rate == 900.0 * 1_048_576.0)
    );
    assert!(rates[0].0.contains("tasks=8"), "{}", rates[0].0);
    assert_eq!(values(&found, "operations").len(), 4);
    let altered = IOR_TEXT.replace("950.00      50.00", "990.00      50.00");
    let wrong = (IOR.read)(&altered).unwrap_err();
    assert!(wrong.contains("Mean of write is 990 MiB/s, that of its rows is 950"), "{wrong}");
    let lost = IOR_TEXT.replace("write     1000.00", "wrote     1000.00");
    assert!((IOR.read)(&lost).is_err(), "a row is missing");
    let (cut, _) = IOR_TEXT.split_once("Summary").unwrap();
    assert!((IOR.read)(cut).unwrap().caveats[0].contains("cut off"));
    assert!((IOR.read)("something else").unwrap_err().contains("Options:"));
}

#[test]
fn mdtest_gives_what_ran_and_its_numbers_must_be_possible() {
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
    assert!((MDTEST.read)(&wrong).unwrap_err().contains("cannot be"));
}

#[test]
fn an_import_is_a_run_and_a_foreign_file_leaves_none() {
    for (format, text) in
        [(&HYPERFINE, hyperfine(2.0, [0, 0, 0])), (&IOR, IOR_TEXT.into()), (&MDTEST, MDTEST_TEXT.into())]
    {
        let room = tempfile::tempdir().unwrap();
        let (source, out) = (room.path().join("file"), room.path().join("run"));
        std::fs::write(&source, "{}").unwrap();
        let refused = format.import(&source, &out).unwrap_err();
        assert_eq!((refused.exit_code(), out.exists()), (ExitCode::Usage, false), "{refused}");
        std::fs::write(&source, text).unwrap();
        format.import(&source, &out).unwrap();
        let analysis = crate::run::analyse::<Results>(&Record::open(&out).unwrap()).unwrap();
        assert_eq!(analysis.result["format"], format.name);
        assert!(!analysis.tables[0].rows.is_empty() && analysis.caveats[0].contains("imported"));
    }
}
