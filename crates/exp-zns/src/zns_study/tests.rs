use super::*;
use senesce_core::Record;
use std::io::Write;

fn fio(direction: &str, iops: f64, mean_ns: f64, p95_ns: u64) -> String {
    format!(
        r#"{{"fio version": "fio-3.32", "jobs": [{{"jobname": "j", "error": 0, "{direction}": {{"total_ios": {iops}, "io_bytes": {bw},
        "bw_bytes": {bw}, "iops": {iops}, "runtime": 1000, "clat_ns": {{"mean": {mean_ns}, "percentile": {{"95.000000": {p95_ns}}}}},
        "lat_ns": {{"mean": {total}}}}}}}]}}"#,
        bw = iops * 4096.0,
        total = mean_ns + 500.0
    )
}

fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

#[test]
fn tree_with_archives_becomes_points_with_published_values() {
    let temporary = tempfile::tempdir().unwrap();
    let tree = temporary.path().join("artifact");
    write(&tree, "data/spdk/zns-a/lbaf2/append/4096bs/1zone/1.json", &fio("write", 65679.7, 14334.0, 15000));
    let reads = fio("read", 109232.9, 145464.0, 436224);
    write(&tree, "data/custom/zns-a/rate_inteference/zns_250_16", &reads);
    write(&tree, "data/custom/zns-a/heavy_inteference/zns_bw.1.log", "1000, 1024, 1, 4096\n2000, 2048, 1, 4096\n");
    write(&tree, "data/custom/zns-a/heavy_inteference/zns_bw.2.log", "1000, 1024, 1, 4096\n2000, 2048, 1, 4096\n");
    write(&tree, "README.md", "hello\n");
    let mut archive =
        zip::ZipWriter::new(std::fs::File::create(tree.join("data/custom/zns-a/partial_reset.zip")).unwrap());
    archive.start_file("run1/reset_137856", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(b"reset,11600000,0\nreset,0,1\nreset,11620000,2\n").unwrap();
    archive.finish().unwrap();

    let out = temporary.path().join("run");
    ZnsStudyImport.import(&tree, &out).unwrap();
    let record = Record::open(&out).unwrap();
    let analysis = senesce_runner::analyse::<ZnsStudyImport>(&record).unwrap();
    let recorded = Recorded::<ZnsStudyImport>::of(&record).unwrap();
    let points =
        recorded.events().filter_map(|event| if let Event::Point(values) = event { Some(values) } else { None });
    let measured = crate::zns::measure::DeviceValues::of(&record.environment, points, std::iter::empty());
    let append = "op=append,bs=4096,qd=1,zones=1,path=direct,lbaf=4096";
    assert_eq!(measured.get(append, "lat_mean_us"), Some(14.834));
    assert_eq!(measured.get("drive=zoned,op=write,rate=250,qd=16", "iops"), Some(109232.9));
    assert_eq!(measured.get("op=reset,blocks=137856", "count"), Some(2.0));
    assert_eq!(measured.by_second("drive=zoned,rate=0"), [2.0, 4.0]);
    let devices = analysis.result["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 1, "all below zns-a");
    let groups = devices[0]["groups"].as_array().unwrap();
    assert!(groups.iter().all(|group| group["worst_error"].as_f64().unwrap() < 0.01), "{groups:?}");
    assert!(analysis.tables.iter().any(|table| table.id == "skipped" && table.rows.len() == 1));
    assert!(record.summary.is_some());
}

/// Checks that the same condition on two devices is two points, and every file is read or listed.
#[test]
fn devices_are_separated_and_every_file_is_listed() {
    let temporary = tempfile::tempdir().unwrap();
    let tree = temporary.path().join("artifact");
    for (device, iops) in [("zns-a", 100.0), ("nvme-a", 200.0), ("nvme-b", 300.0)] {
        write(
            &tree,
            &format!("data/io_uring/{device}/lbaf0/write/4096bs/1zone/1.json"),
            &fio("write", iops, 9000.0, 9500),
        );
    }
    write(&tree, "data/custom/zns-a/long2/zns_append_128_250.json", &fio("read", 5.0, 9000.0, 9500));
    let reset = fio("ZNS Reset", 30.0, 1e7, 20_000_000);
    write(&tree, "benchmarks/reset-on-write/data/data-write_iod_2-wflow_50.json", &reset);
    let printed =
        "fillrandom   :   9.622 micros/op 103926 ops/sec 12508.842 seconds 1300000000 operations;   81.3 MB/s\n";
    write(&tree, "data/zbdbench/xfs/fillrandom.txt", printed);
    write(&tree, "data/zbdbench/xfs/overwrite.txt", "it stopped\n");
    write(&tree, "data/custom/zns-a/open_close/fill_opens", "empty_open,9500,4\n");
    write(&tree, "data/empty.json", "");
    write(&tree, "plot.py", "import sys\n");
    let out = temporary.path().join("run");
    ZnsStudyImport.import(&tree, &out).unwrap();
    let recorded = Recorded::<ZnsStudyImport>::of(&Record::open(&out).unwrap()).unwrap();
    let value = |device: &str, key: &str, name: &str| {
        recorded.events().find_map(|event| match event {
            Event::Point(values) if values.device == device && values.key == key => values.values.get(name).copied(),
            _ => None,
        })
    };
    let key = "op=write,bs=4096,qd=1,zones=1,path=none,lbaf=512";
    let rates = ["zns-a", "nvme-a", "nvme-b"].map(|device| value(device, key, "iops"));
    assert_eq!(rates, [Some(100.0), Some(200.0), Some(300.0)]);
    assert_eq!(value("zns-a", "drive=zoned,rate=250,qd=128", "iops"), Some(5.0));
    let key = "file=benchmarks/reset-on-write/data/data-write_iod_2-wflow_50,job=j,does=zone reset";
    assert_eq!(value("", key, "iops"), Some(30.0));
    assert_eq!(value("", "xfs-conventional fillrandom", "operations per second"), Some(103_926.0));
    assert_eq!(value("zns-a", "open", "count"), Some(1.0));
    let why = |name: &str| {
        recorded.events().find_map(|event| match event {
            Event::Skipped { path, why } if path.ends_with(name) => Some(why.clone()),
            _ => None,
        })
    };
    assert!(why("overwrite.txt").unwrap().contains("did not complete"));
    assert_eq!(why("empty.json").unwrap(), "it is empty");
    assert_eq!(why("plot.py").unwrap(), "a program, not a result");
    let files = recorded.events().find_map(|event| match event {
        Event::Imported { files, .. } => Some(*files),
        _ => None,
    });
    assert_eq!(files, Some(7), "of ten");
}

/// Checks that a value published in the tables of several experiments is compared once.
#[test]
fn shared_point_is_compared_once() {
    let temporary = tempfile::tempdir().unwrap();
    let path = "data/spdk/zns-a/lbaf2/append/4096bs/1zone/1.json";
    write(temporary.path(), path, &fio("write", 65679.7, 14334.0, 15000));
    let out = temporary.path().join("run");
    ZnsStudyImport.import(&temporary.path().join("data"), &out).unwrap();
    let analysis = senesce_runner::analyse::<ZnsStudyImport>(&Record::open(&out).unwrap()).unwrap();
    let device = &analysis.result["devices"][0];
    let counted: Vec<_> = device["groups"].as_array().unwrap().iter().map(|group| group["points"].clone()).collect();
    assert_eq!(counted, [1]);
    let compared = device["comparison"].as_array().unwrap();
    let means = compared.iter().filter(|one| one["metric"] == "lat_mean_us").count();
    assert_eq!(means, 1, "{compared:?}");
}

#[test]
fn import_without_valid_results_is_kept_and_fails() {
    let temporary = tempfile::tempdir().unwrap();
    let path = "data/spdk/zns-a/lbaf2/append/4096bs/1zone/1.json";
    let five_at_depth_one = fio("write", 99_999.0, 49_700.0, 50_000);
    for (at, text) in [five_at_depth_one, fio("trim", 5.0, 9000.0, 9500)].iter().enumerate() {
        let (tree, out) = (temporary.path().join(format!("tree{at}")), temporary.path().join(format!("run{at}")));
        write(&tree, path, text);
        let failure = ZnsStudyImport.import(&tree, &out).unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::RunFailed);
        let recorded = Recorded::<ZnsStudyImport>::of(&Record::open(&out).unwrap()).unwrap();
        assert!(recorded.events().all(|event| !matches!(event, Event::Point(_))));
        let named = recorded.events().any(|event| matches!(event, Event::Skipped { path: named, .. } if named == path));
        assert!(named, "{text}");
    }
}

#[test]
fn truncated_line_is_reported_and_ignored() {
    let temporary = tempfile::tempdir().unwrap();
    write(temporary.path(), "custom/zns-a/partial_finish/run1", "finish_1,900\nfinish_1,8");
    let out = temporary.path().join("run");
    ZnsStudyImport.import(&temporary.path().join("custom"), &out).unwrap();
    let recorded = Recorded::<ZnsStudyImport>::of(&Record::open(&out).unwrap()).unwrap();
    let count = recorded.events().find_map(|event| match event {
        Event::Point(values) => values.values.get("count").copied(),
        _ => None,
    });
    assert_eq!(count, Some(1.0));
    assert!(recorded.events().any(|event| matches!(event, Event::Skipped { why, .. } if why.contains("is cut off"))));
}

#[test]
fn tree_without_results_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    write(temporary.path(), "notes.txt", "nothing here\n");
    let error = ZnsStudyImport.import(temporary.path(), &temporary.path().join("run")).unwrap_err();
    assert!(error.to_string().contains("1 file found"), "{error}");
}

/// Checks that a point measured twice is two repetitions. Logs of two runs, and of reads and writes, are not added up.
#[test]
fn runs_of_one_point_are_repetitions() {
    let temporary = tempfile::tempdir().unwrap();
    let tree = temporary.path().join("artifact");
    let written = "1000, 1024, 1, 4096\n2000, 2048, 1, 4096\n";
    let read = "1000, 512, 0, 4096\n2000, 512, 0, 4096\n";
    for (at, run) in ["long/finally_b", "long/finally_bw", "long2/finally_bw"].iter().enumerate() {
        for (job, log) in [written, written, read].iter().enumerate() {
            // Two runs never write the same bytes.
            let differs = "\n".repeat(3 * at + job);
            write(&tree, &format!("custom/zns-a/{run}.{}.log", job + 1), &format!("{log}{differs}"));
        }
    }
    write(&tree, "custom/zns-a/partial_finish/run1", "finish_1,900\n");
    write(&tree, "custom/zns-a/partial_finish/run1.old/run1", "finish_1,900\n");
    write(&tree, "custom/zns-a/partial_finish/run2", "finish_1,900\n");
    for (folder, iops) in [("long2", 5.0), ("long3", 7.0)] {
        write(&tree, &format!("custom/zns-a/{folder}/zns_append_8_250.json"), &fio("read", iops, 9000.0, 9500));
    }
    std::fs::copy(tree.join("custom/zns-a/long/finally_bw.1.log"), tree.join("custom/zns-a/long3/finally_bw.1.log"))
        .unwrap();
    let out = temporary.path().join("run");
    ZnsStudyImport.import(&tree, &out).unwrap();
    let recorded = Recorded::<ZnsStudyImport>::of(&Record::open(&out).unwrap()).unwrap();
    let of = |key: &str| -> Vec<Values> {
        let points =
            recorded.events().filter_map(|event| if let Event::Point(v) = event { Some(v.clone()) } else { None });
        points.filter(|values| values.key == key).collect()
    };
    let logged: Vec<(u32, Vec<f64>)> =
        of("drive=conventional,rate=0").into_iter().map(|values| (values.repetition, values.by_second)).collect();
    assert_eq!(logged, [(0, vec![2.0, 4.0]), (1, vec![2.0, 4.0]), (2, vec![2.0, 4.0])]);
    let rates: Vec<f64> = of("drive=zoned,rate=250,qd=8").iter().map(|values| values.values["iops"]).collect();
    assert_eq!(rates, [5.0, 7.0]);
    assert_eq!(of("op=finish,blocks=1")[0].values["count"], 2.0, "a copy of a run is not a repetition");
    let copies =
        recorded.events().filter(|event| matches!(event, Event::Skipped { why, .. } if why.contains("a copy of")));
    assert_eq!(copies.count(), 2);
}

#[test]
fn links_pipes_and_failed_jobs_are_reported() {
    let temporary = tempfile::tempdir().unwrap();
    let tree = temporary.path().join("artifact");
    let one = fio("read", 5.0, 9000.0, 9500);
    let failed = r#"{"jobname": "gone", "error": 5}, {"jobname": "j", "error": 0"#;
    write(&tree, "results/half.json", &one.replace(r#"{"jobname": "j", "error": 0"#, failed));
    write(&tree, "results/\u{1b}[31m\n.txt", "hello\n");
    std::os::unix::fs::symlink("half.json", tree.join("results/link.json")).unwrap();
    std::os::unix::fs::symlink("..", tree.join("results/circle")).unwrap();
    std::os::unix::net::UnixListener::bind(tree.join("results/socket")).unwrap();
    let out = temporary.path().join("run");
    ZnsStudyImport.import(&tree, &out).unwrap();
    let recorded = Recorded::<ZnsStudyImport>::of(&Record::open(&out).unwrap()).unwrap();
    let why = |name: &str| {
        recorded.events().find_map(|event| match event {
            Event::Skipped { path, why } if path.ends_with(name) => Some(why.clone()),
            _ => None,
        })
    };
    assert!(why("half.json").unwrap().contains("job gone ended with an error"));
    assert!(why("link.json").unwrap().contains("symbolic link"));
    assert!(why("circle").unwrap().contains("symbolic link"));
    assert!(why("\\u{1b}[31m\\n.txt").unwrap().contains("neither"), "control characters are words");
    assert_eq!(why("socket").unwrap(), "not a regular file");
}

/// Checks that a folder of an artifact has the same meaning on its own.
#[test]
fn single_folder_is_read_like_the_artifact() {
    let temporary = tempfile::tempdir().unwrap();
    let tree = temporary.path().join("data");
    write(&tree, "spdk/nvme-a/lbaf0/write/4096bs/1zone/1.json", &fio("write", 5.0, 9000.0, 9500));
    write(&tree, "custom/zns-a/long2/zns_append_8_250.json", &fio("read", 5.0, 9000.0, 9500));
    write(
        &tree,
        "zbdbench/xfs/overwrite.txt",
        "overwrite   :   9.622 micros/op 103926 ops/sec 12.8 seconds 1300000 operations;   81.3 MB/s\n",
    );
    let cases = [
        ("spdk", "nvme-a", "op=write,bs=4096,qd=1,zones=1,path=direct,lbaf=512"),
        ("spdk/nvme-a/lbaf0", "nvme-a", "op=write,bs=4096,qd=1,zones=1,path=direct,lbaf=512"),
        ("custom/zns-a/long2", "zns-a", "drive=zoned,rate=250,qd=8"),
        ("zbdbench", "", "xfs-conventional overwrite"),
    ];
    for (at, (folder, device, key)) in cases.into_iter().enumerate() {
        let out = temporary.path().join(format!("run{at}"));
        ZnsStudyImport.import(&tree.join(folder), &out).unwrap();
        let recorded = Recorded::<ZnsStudyImport>::of(&Record::open(&out).unwrap()).unwrap();
        let found = recorded
            .events()
            .any(|event| matches!(event, Event::Point(values) if values.device == device && values.key == key));
        assert!(found, "{folder}");
    }
}
