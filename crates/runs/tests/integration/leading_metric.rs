//! Agings, five images a side: the leading metric has most of the error, and decides.

use crate::compare::REGISTRY;
use senesce_core::analysis::Better;
use senesce_core::{Environment, ExitCode, Measurement, Record};
use senesce_runner::{Imported, import};
use senesce_runs::compare::{Options, compare};
use senesce_runs::import::ImportedFile;
use senesce_runs::import::fio::Fio;
use std::path::Path;

/// [`METRICS`] of ext4 aged with seeds 1 to 5 (benches/results/compare.md).
const DEFAULT: [[f64; 5]; 5] = [
    [2435.0, 1.3137, 35507.0, 14.0011, 0.5783],
    [2274.0, 1.2264, 34316.0, 13.3261, 0.575],
    [2089.0, 1.1272, 33241.0, 12.3761, 0.5717],
    [2475.0, 1.3348, 38408.0, 14.2344, 0.5794],
    [2377.0, 1.2825, 35382.0, 13.9844, 0.5763],
];

/// The same with bigalloc, which varies much less.
const BIGALLOC: [[f64; 5]; 5] = [
    [3019.0, 1.6286, 37995.0, 16.2632, 0.5911],
    [3110.0, 1.6771, 49870.0, 16.7466, 0.5924],
    [3042.0, 1.6404, 43256.0, 16.3716, 0.5901],
    [3038.0, 1.6383, 37022.0, 16.4799, 0.5919],
    [2934.0, 1.5822, 37771.0, 15.8216, 0.5877],
];

const METRICS: [(&str, Better); 5] = [
    ("discontinuities", Better::Lower),
    ("extents per file", Better::Lower),
    ("mean free extent", Better::Higher),
    ("disk read time", Better::Lower),
    ("SSD read time", Better::Lower),
];

fn runs(directory: &Path, name: &str, images: [[f64; 5]; 5], has_lead: bool) -> Vec<Record> {
    let run = |(number, image): (usize, [f64; 5])| {
        let mut measurements: Vec<Measurement> = METRICS
            .into_iter()
            .zip(image)
            .map(|((metric, better), value)| Measurement::new(metric, "", better, value).unwrap().primary())
            .collect();
        measurements[0].lead = has_lead;
        let spec = ImportedFile { source: "fio.json".into(), crc32: "00000000".into() };
        let environment = Environment::default();
        let imported = Imported { spec, environment, events: Vec::new(), measurements, caveats: Vec::new() };
        let path = directory.join(format!("{name}{number}"));
        import::<Fio>(&path, imported).unwrap();
        Record::open(&path).unwrap()
    };
    images.into_iter().enumerate().map(run).collect()
}

#[test]
fn five_images_of_bigalloc_fail_the_gate_and_equal_ones_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let base = runs(directory.path(), "base", DEFAULT, true);
    let bigalloc = runs(directory.path(), "bigalloc", BIGALLOC, true);
    let options = Options { fail_on_regression: Some(0.03), ..Options::default() };
    let found = compare(&REGISTRY, &bigalloc, &base, &options).unwrap();
    assert_eq!(found.exit_code(), ExitCode::Negative);
    let confidence = |metric: &str| {
        let row = found.rows.iter().find(|row| row.what.metric == metric).unwrap();
        (row.judged().unwrap().interval.unwrap().confidence * 1e4).round()
    };
    assert_eq!(METRICS.map(|(metric, _)| confidence(metric)), [9920.0, 9995.0, 9995.0, 9995.0, 9995.0]);

    let scaled = DEFAULT.map(|image| image.map(|value| value * 1.001));
    let equal = runs(directory.path(), "equal", scaled, true);
    assert_eq!(compare(&REGISTRY, &equal, &base, &options).unwrap().exit_code(), ExitCode::CannotTell);
}

#[test]
fn metrics_without_a_leading_one_share_the_error_equally() {
    let directory = tempfile::tempdir().unwrap();
    let [base, bigalloc] =
        [("base", DEFAULT), ("bigalloc", BIGALLOC)].map(|(name, images)| runs(directory.path(), name, images, false));
    let found = compare(&REGISTRY, &bigalloc, &base, &Options::default()).unwrap();
    let confidences = found.rows.iter().map(|row| row.judged().unwrap().interval.unwrap().confidence);
    assert!(confidences.into_iter().all(|confidence| (confidence - (1.0 - 0.01 / 5.0)).abs() < 1e-12));
}
