//! Recorded state of a volume, and its reads.

use senesce_core::analysis::Better;
use senesce_core::{Finite, Measurement};
use senesce_runs::cold::ColdAccount;
use senesce_stats::mean;
use serde::{Deserialize, Serialize};

/// One state of one volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// File system.
    pub fs: String,
    /// Round, number of pulls or number of cycles.
    pub round: u64,
    /// Number of the independent volume of this round.
    #[serde(default)]
    pub image: u32,
    /// How the files were written, if the run compares several modes.
    #[serde(default)]
    pub mode: Option<String>,
    /// Whether the experiment laid out the files; otherwise they were copied in order to a fresh volume.
    pub aged: bool,
    /// Whether the processor was emulated, which makes the volume's own seconds invalid.
    #[serde(default)]
    pub emulated: bool,
    /// Kind of the drive below, if it is a physical one whose own seconds are evidence.
    #[serde(default)]
    pub real_drive: Option<RealDrive>,
    /// Number of files.
    pub files: u64,
    /// Bytes allocated to the files.
    pub allocated_bytes: u64,
    /// Seconds to write the files, including write-back.
    pub write_seconds: f64,
    /// Share of blocks that follow their predecessor inside files; `null` if the file system does not report extents.
    pub static_layout_score: Option<f64>,
    /// The same share over all files in directory order.
    pub tree_layout_score: Option<f64>,
    /// Jumps in that sequence by length: element k counts those of at least 2^k blocks of 4 KiB.
    pub tree_log2_blocks: Vec<u64>,
    /// Extents of all files; `null` if the file system does not report them.
    pub extents: Option<u64>,
    /// Device requests between mount and first read; `null` without a pause or a device of its own.
    pub requests_after_mounting: Option<u64>,
    /// Cold reads, of each repetition one per read-ahead setting.
    pub readings: Vec<Reading>,
}

/// One cold read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Read-ahead in KiB; `null` if unchanged.
    pub read_ahead_kib: Option<u64>,
    /// Number of the read with this setting.
    #[serde(default)]
    pub repetition: u32,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Bytes read.
    pub bytes: u64,
    /// Data read from the device.
    pub account: ColdAccount,
    /// Values from the trace; `null` if requests cannot be traced.
    pub traced: Option<TracedRead>,
}

/// Values from the trace of a cold read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TracedRead {
    /// 1 - discontinuities / 4 KiB blocks read; `null` if nothing was read from the device.
    pub dynamic_layout_score: Option<f64>,
    /// Requests that do not start at the end of the previous one.
    pub discontinuities: u64,
    /// Their number by length, as in [`Point::tree_log2_blocks`].
    pub log2_blocks: Vec<u64>,
    /// Total length of the discontinuities.
    pub seek_distance_bytes: u64,
    /// Read requests.
    pub requests: u64,
    /// Modelled seconds on the disk drive.
    pub hdd_seconds: f64,
    /// Modelled seconds on the solid-state drive.
    pub ssd_seconds: f64,
    /// Seconds to compute these values from the trace.
    pub analysis_seconds: f64,
}

/// Kinds of drives that claims distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RealDrive {
    /// A disk drive.
    Hdd,
    /// A solid-state drive.
    Ssd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Clock {
    Wall,
    Hdd,
    Ssd,
}

impl Clock {
    pub(crate) const ALL: [Self; 3] = [Self::Hdd, Self::Ssd, Self::Wall];

    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Wall => "volume",
            Self::Hdd => "hdd",
            Self::Ssd => "ssd",
        }
    }
}

impl Clock {
    pub(crate) fn stated(self, one: Option<Measurement>) -> Option<Measurement> {
        if self == Self::Wall { one } else { one.map(|one| one.modelled().under("drive", "model")) }
    }
}

impl Point {
    /// Returns the seconds per GiB of [`Self::gib`]; `None` for times of an emulator.
    pub(crate) fn cost(&self, reading: &Reading, clock: Clock) -> Option<f64> {
        if self.emulated && clock == Clock::Wall { None } else { self.stated_cost(reading, clock) }
    }

    fn stated_cost(&self, reading: &Reading, clock: Clock) -> Option<f64> {
        let seconds = match clock {
            Clock::Wall => reading.seconds,
            Clock::Hdd => reading.traced.as_ref()?.hdd_seconds,
            Clock::Ssd => reading.traced.as_ref()?.ssd_seconds,
        };
        Finite::per(seconds, self.gib(reading)?).ok().map(Finite::get)
    }

    /// Returns the GiB that values refer to: allocated bytes, or [read ones](Self::is_by_bytes_read). `None` for no
    /// bytes.
    pub(crate) fn gib(&self, reading: &Reading) -> Option<f64> {
        let bytes = if self.is_by_bytes_read(reading) { reading.bytes } else { self.allocated_bytes };
        (bytes > 0).then(|| bytes as f64 / f64::from(1u32 << 30))
    }

    /// Returns whether the read bytes count because the file system reports less than half of them as allocated. ZFS
    /// does so until its transaction group is written.
    pub(crate) fn is_by_bytes_read(&self, reading: &Reading) -> bool {
        self.allocated_bytes < reading.bytes / 2
    }

    /// Returns the first reading with a read-ahead setting.
    pub(crate) fn reading(&self, read_ahead_kib: Option<u64>) -> Option<&Reading> {
        self.readings.iter().find(|one| one.read_ahead_kib == read_ahead_kib)
    }

    /// Returns the mean over the readings with a read-ahead setting that have the value.
    pub(crate) fn mean(&self, read_ahead_kib: Option<u64>, value: impl Fn(&Reading) -> Option<f64>) -> Option<f64> {
        let chosen = self.readings.iter().filter(|one| one.read_ahead_kib == read_ahead_kib);
        mean(&chosen.filter_map(value).collect::<Vec<_>>())
    }

    /// Returns the score of a reading: from the trace, or from the tree without a trace.
    pub(crate) fn score(&self, reading: &Reading) -> Option<f64> {
        match &reading.traced {
            Some(traced) => traced.dynamic_layout_score,
            None => self.tree_layout_score,
        }
    }

    pub(crate) fn state(&self) -> &'static str {
        if self.aged { "aged" } else { "unaged" }
    }

    pub(crate) fn measurements(&self) -> Vec<Measurement> {
        let bytes = self.extents.map(|extents| Finite::per(self.allocated_bytes as f64, extents as f64));
        let bytes = bytes.and_then(Result::ok).map(Finite::get);
        let requests = self.requests_after_mounting.map(|count| count as f64);
        let of_layout = [
            measured("bytes per extent", "bytes", Better::Higher, bytes),
            measured("device requests after mounting", "", Better::Neither, requests),
        ];
        let of_reads = self.readings.iter().flat_map(|reading| self.measurements_of(reading));
        let under = |one: Measurement| {
            let one = one.under("fs", &self.fs).under("round", self.round.to_string()).under("state", self.state());
            Measurement { image: self.image, ..one }
        };
        of_layout.into_iter().flatten().chain(of_reads).map(under).collect()
    }

    fn measurements_of(&self, reading: &Reading) -> Vec<Measurement> {
        let traced = reading.traced.as_ref();
        let costs = Clock::ALL.map(|clock| {
            let metric = format!("cold read, {}", clock.key());
            clock.stated(measured(&metric, "s/GiB", Better::Lower, self.stated_cost(reading, clock)))
        });
        let real = self.real_drive.and_then(|drive| {
            let metric = if drive == RealDrive::Hdd { "cold read, hdd" } else { "cold read, ssd" };
            measured(metric, "s/GiB", Better::Lower, self.stated_cost(reading, Clock::Wall))
        });
        let real = real.map(|one| one.under("drive", "real"));
        let per_file = |traced: &TracedRead| Finite::per(traced.discontinuities as f64, self.files as f64).ok();
        let score = traced.and_then(|traced| traced.dynamic_layout_score);
        let of_trace = [
            measured("dynamic layout score", "", Better::Higher, score),
            measured("discontinuities per file", "", Better::Lower, traced.and_then(per_file).map(Finite::get)),
        ];
        let under = |one: Measurement| {
            let one = one.under("read_ahead", read_ahead_text(reading.read_ahead_kib));
            Measurement { repetition: reading.repetition, ..one }
        };
        costs.into_iter().chain([real]).chain(of_trace).flatten().map(under).collect()
    }
}

pub(crate) fn measured(metric: &str, unit: &str, better: Better, value: Option<f64>) -> Option<Measurement> {
    Measurement::new(metric, unit, better, value?).ok()
}

/// Formats `128 KiB`, `off` or `as it was`.
pub(crate) fn read_ahead_text(kib: Option<u64>) -> String {
    match kib {
        None => "as it was".into(),
        Some(0) => "off".into(),
        Some(kib) => format!("{kib} KiB"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::fragmentation::analysis::RoundData;
    use senesce_core::measurement::Seconds;

    pub(crate) fn round_data(points: Vec<Point>) -> RoundData {
        RoundData {
            round: "round",
            points,
            others: Vec::new(),
            sketches: Vec::new(),
            sequential: Vec::new(),
            systems: vec!["zfs".into()],
            settings: vec![Some(128)],
            correlations: Vec::new(),
            device: String::new(),
            models: crate::fragmentation::models::Models::default(),
        }
    }

    pub(crate) fn read_of_a_gib(allocated_bytes: u64) -> Point {
        let traced = TracedRead {
            dynamic_layout_score: Some(0.5),
            discontinuities: 3,
            log2_blocks: Vec::new(),
            seek_distance_bytes: 3 << 20,
            requests: 3,
            hdd_seconds: 8.0,
            ssd_seconds: 8.0,
            analysis_seconds: 0.0,
        };
        let account = ColdAccount {
            device_bytes: None,
            device_requests: None,
            extent_bytes: None,
            content_bytes: None,
            in_memory: false,
            image_cached_bytes: None,
            device_busy_ms: None,
            counted_ms: None,
            lost: None,
        };
        let reading = Reading {
            read_ahead_kib: Some(128),
            repetition: 0,
            seconds: 8.0,
            bytes: 1 << 30,
            account,
            traced: Some(traced),
        };
        Point {
            fs: "zfs".into(),
            round: 0,
            image: 0,
            mode: None,
            aged: true,
            emulated: false,
            real_drive: None,
            files: 10,
            allocated_bytes,
            write_seconds: 1.0,
            static_layout_score: None,
            tree_layout_score: None,
            tree_log2_blocks: Vec::new(),
            extents: Some(2),
            requests_after_mounting: None,
            readings: vec![reading],
        }
    }

    #[test]
    fn read_bytes_count_if_allocation_is_not_reported() {
        for (allocated, gib, by_bytes_read) in
            [(1 << 30, 1.0, false), (1 << 31, 2.0, false), (5120, 1.0, true), (0, 1.0, true)]
        {
            let point = read_of_a_gib(allocated);
            let reading = &point.readings[0];
            assert_eq!((point.gib(reading), point.is_by_bytes_read(reading)), (Some(gib), by_bytes_read));
            assert_eq!(point.cost(reading, Clock::Hdd), Some(8.0 / gib));
        }
        let mut nothing = read_of_a_gib(0);
        nothing.readings[0].bytes = 0;
        assert_eq!(nothing.cost(&nothing.readings[0], Clock::Wall), None);
    }

    #[test]
    fn only_clock_times_are_marked_as_emulated() {
        let point = Point { emulated: true, ..read_of_a_gib(1 << 30) };
        let cost = |clock| point.cost(&point.readings[0], clock);
        assert_eq!([Clock::Hdd, Clock::Ssd, Clock::Wall].map(cost), [Some(8.0), Some(8.0), None]);
        let found: Vec<Measurement> = point.measurements().into_iter().map(Measurement::under_emulation).collect();
        let timings: Vec<&str> = found.iter().filter(|one| one.is_timing()).map(|one| one.metric.as_str()).collect();
        assert_eq!(timings, ["cold read, volume"], "recorded and marked");
    }

    #[test]
    fn seconds_of_a_real_drive_are_next_to_those_of_the_model() {
        let point = Point { real_drive: Some(RealDrive::Ssd), ..read_of_a_gib(1 << 31) };
        let found = point.measurements().into_iter().filter(|one| one.metric == "cold read, ssd");
        let drives = found.map(|one| (one.condition["drive"].clone(), one.value.get(), one.seconds));
        let wanted = [("model", Seconds::Model), ("real", Seconds::Machine)];
        assert_eq!(drives.collect::<Vec<_>>(), wanted.map(|(drive, seconds)| (drive.to_string(), 4.0, seconds)));
    }

    #[test]
    fn every_value_of_a_point_is_a_measurement() {
        let found = read_of_a_gib(1 << 30).measurements();
        let said: Vec<String> = found
            .iter()
            .map(|one| format!("{} {} {} {}", one.metric, one.condition_text(), one.value.get(), one.unit))
            .collect();
        assert!(
            said.contains(&"cold read, hdd drive=model fs=zfs read_ahead=128 KiB round=0 state=aged 8 s/GiB".into())
        );
        assert!(
            said.contains(&"discontinuities per file fs=zfs read_ahead=128 KiB round=0 state=aged 0.3 ".into()),
            "{said:?}"
        );
        assert_eq!(found.len(), 6, "unreported layout scores are missing");
    }
}
