//! The measured quantities of an aged image. Each is declared here only.

use crate::aged::{Aged, DISK, SSD};
use senesce_core::Measurement;
use senesce_core::analysis::Better;

pub struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
    pub better: Better,
    /// The modelled drive of a time.
    pub drive: Option<&'static str>,
    /// Whether it decides the gate.
    pub primary: bool,
    /// Whether its value follows from the addresses of all extents, so that equal layouts have equal values.
    pub of_layout: bool,
    pub value: fn(&Aged) -> Option<f64>,
}

impl Metric {
    /// Makes a measurement of a value; none if it is not a finite number.
    pub fn measurement(&self, value: f64) -> Option<Measurement> {
        let measured = Measurement::new(self.name, self.unit, self.better, value).ok()?;
        Some(match self.drive {
            Some(drive) => measured.under("drive", drive).modelled(),
            None => measured,
        })
    }
}

const fn primary(name: &'static str, unit: &'static str, value: fn(&Aged) -> Option<f64>) -> Metric {
    Metric { name, unit, better: Better::Lower, drive: None, primary: true, of_layout: true, value }
}

const fn secondary(name: &'static str, unit: &'static str, value: fn(&Aged) -> Option<f64>) -> Metric {
    Metric { primary: false, ..primary(name, unit, value) }
}

/// A quantity of the work done by the file system.
const fn of_work(metric: Metric) -> Metric {
    Metric { of_layout: false, ..metric }
}

fn per_operation(aged: &Aged, count: u64) -> Option<f64> {
    aged.operations.filter(|operations| *operations > 0).map(|operations| count as f64 / operations as f64)
}

/// Primary ones first. Modelled times are of reading all files in path order.
pub const METRICS: [Metric; 12] = [
    primary("discontinuities", "", |aged| Some(aged.discontinuities as f64)),
    primary("free extents", "", |aged| aged.free_extents.map(|count| count as f64)),
    Metric { drive: Some(DISK), ..primary("disk read (s)", "s", |aged| Some(aged.disk_seconds)) },
    of_work(primary("extents of a slow append", "", |aged| Some(aged.append_extents))),
    secondary("extents per file", "", |aged| Some(aged.extents as f64 / aged.files.max(1) as f64)),
    Metric {
        better: Better::Higher,
        ..secondary("mean free extent (KiB)", "", |aged| Some(aged.mean_free_bytes? / 1024.0))
    },
    Metric { drive: Some(SSD), ..secondary("SSD read (s)", "s", |aged| Some(aged.ssd_seconds)) },
    of_work(secondary("requests per operation", "", |aged| per_operation(aged, aged.requests))),
    of_work(secondary("KiB written per operation", "", |aged| Some(per_operation(aged, aged.written_bytes)? / 1024.0))),
    of_work(secondary("flushes per operation", "", |aged| per_operation(aged, aged.flushes))),
    of_work(secondary("commits per operation", "", |aged| per_operation(aged, aged.commits?))),
    of_work(secondary("metadata (MiB)", "", |aged| Some(aged.metadata_bytes as f64 / f64::from(1 << 20)))),
];

pub(crate) fn primaries() -> usize {
    METRICS.iter().filter(|metric| metric.primary).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_of_a_modelled_time_is_its_condition() {
        let times = METRICS.iter().filter(|metric| metric.name.ends_with("(s)"));
        let measured: Vec<Measurement> = times.filter_map(|metric| metric.measurement(1.5)).collect();
        assert_eq!(
            measured.iter().map(Measurement::condition_text).collect::<Vec<_>>(),
            [DISK, SSD].map(|name| format!("drive={name}"))
        );
        assert!(measured.iter().all(|one| one.unit == "s" && !one.is_timing()), "the model needs no clock");
    }
}
