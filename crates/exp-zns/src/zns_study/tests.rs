use super::*;
use senesce_core::Record;
use std::io::Write;

fn fio(direction: &str, iops: f64, mean_ns: f64, p95_ns: u64) -> String {
    format!(
        r#"{{"fio version": "fio-3.32", "jobs": [{{"jobname": "j", "error": 0, "{direction}": {{"total_ios": 10, "io_bytes": 1,
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
fn a_tree_with_archives_becomes_points_beside_the_published_values() {
    let room = tempfile::tempdir().unwrap();
    let tree = room.path().join("artifact");
    write(&tree, "data/spdk/zns-a/lbaf2/append/4096bs/1zone/1.json", &fio("write", 65679.7, 14334.0, 15000));
    let reads = fio("read", 109232.9, 145464.0, 436224);
    write(&tree, "data/custom/zns-a/rate_inteference/zns_250_16", &reads);
    write(&tree, "data/custom/zns-a/heavy_inteference/zns_bw.1.log", "1000, 1024, 1, 4096\n2000, 2048, 1, 4096\n");
    write(&tree, "data/custom/zns-a/heavy_inteference/zns_bw.2.log", "1000, 1024, 1, 4096\n2000, 2048, 1, 4096\n");
    write(&tree, "README.md", "hello\n");
    let mut archive = zip::ZipWriter::new(std::fs::File::create(tree.join("data/custom/partial_reset.zip")).unwrap());
    archive.start_file("run1/reset_137856", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(b"reset,11600000,0\nreset,0,1\nreset,11620000,2\n").unwrap();
    archive.finish().unwrap();

    let out = room.path().join("run");
    ZnsStudyImport.import(&tree, &out).unwrap();
    let record = Record::open(&out).unwrap();
    let analysis = senesce_runs::run::analyse::<ZnsStudyImport>(&record).unwrap();
    let recorded = Recorded::<ZnsStudyImport>::of(&record).unwrap();
    let points =
        recorded.events().filter_map(|event| if let Event::Point(values) = event { Some(values) } else { None });
    let measured = Measured::of(&record.environment, points, std::iter::empty());
    let append = "op=append,bs=4096,qd=1,zones=1,path=direct,lbaf=4096";
    assert_eq!(measured.get(append, "lat_mean_us"), Some(14.834));
    assert_eq!(measured.get("drive=zoned,op=write,rate=250,qd=16", "iops"), Some(109232.9));
    assert_eq!(measured.get("op=reset,blocks=137856", "count"), Some(2.0));
    assert_eq!(measured.by_second("drive=zoned,rate=0"), [2.0, 4.0]);
    let groups = analysis.result["groups"].as_array().unwrap();
    assert!(groups.iter().all(|group| group["worst_error"].as_f64().unwrap() < 0.01), "{groups:?}");
    assert!(analysis.tables.iter().any(|table| table.id == "skipped" && table.rows.len() == 1));
    assert!(record.summary.is_some());
}

#[test]
fn a_tree_without_results_is_refused() {
    let room = tempfile::tempdir().unwrap();
    write(room.path(), "notes.txt", "nothing here\n");
    let error = ZnsStudyImport.import(room.path(), &room.path().join("run")).unwrap_err();
    assert!(error.to_string().contains("none of its 1 files"), "{error}");
}
