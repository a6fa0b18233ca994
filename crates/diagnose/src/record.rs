//! Stores prognoses and computes their trend.

use crate::error::PrognosisError;
use crate::estimate::Prognosis;
use crate::headroom::{CreatableFiles, NAME_BYTES, User};
use crate::reading::Order;
use senesce_core::output;
use senesce_volume::BlockDevice;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const FILE: &str = "prognoses.jsonl";
const DAY: f64 = 86_400.0;
/// Days; later dates are not reported.
const HORIZON: f64 = 3650.0;

/// The stored part of a prognosis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredPrognosis {
    /// Seconds since 1970.
    pub time: f64,
    /// The target.
    pub target: String,
    /// The identity of the target, whatever its name. Empty in old lines.
    #[serde(default)]
    pub place: String,
    /// The order of reading. None in old lines.
    #[serde(default)]
    pub order: Option<Order>,
    /// The drive of the seconds.
    pub drive: String,
    /// Seconds of one full read.
    pub now_seconds: f64,
    /// After an ideal defragmentation.
    pub ideal_seconds: f64,
    /// After copying out and back.
    pub rewritten_seconds: f64,
    /// Files.
    pub files: u64,
    pub bytes: u64,
    /// Pieces of files.
    pub pieces: u64,
    pub free_bytes: u64,
    /// Number of free extents with at least 2^k and less than 2^(k+1) blocks.
    pub free_extents: Vec<u64>,
    /// Bytes of their names.
    #[serde(default = "default_name_length")]
    pub name_length: u64,
    /// Files that could be created.
    pub creatable: Vec<CreatableFiles>,
    /// A journal was not replayed, or metadata are damaged: the prognosis is not used for a trend.
    #[serde(default)]
    pub incomplete: bool,
}

fn default_name_length() -> u64 {
    NAME_BYTES
}

/// A value over time, by a least-squares line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    pub value: String,
    /// Change of the value per day.
    pub per_day: f64,
    /// Days until it reaches its threshold; none if it does not within ten years.
    pub days_left: Option<f64>,
    /// The threshold in words.
    pub threshold: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct History {
    pub kept: Vec<StoredPrognosis>,
    pub unreadable: usize,
}

impl History {
    pub fn note(&self) -> Option<String> {
        let lines = if self.unreadable == 1 { "line" } else { "lines" };
        (self.unreadable > 0)
            .then(|| format!("{} {lines} of {FILE} cannot be read and were left out of the trend", self.unreadable))
    }
}

pub fn keep(directory: &Path, found: &Prognosis) -> Result<History, PrognosisError> {
    output::directory(directory)?;
    append(&directory.join(FILE), StoredPrognosis::of(found))
}

fn append(path: &Path, kept: StoredPrognosis) -> Result<History, PrognosisError> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(PrognosisError::io("open", path))?;
    let mut before = Vec::new();
    file.read_to_end(&mut before).map_err(PrognosisError::io("read", path))?;
    let line = serde_json::to_string(&kept).map_err(|error| PrognosisError::io("write", path)(error.into()))?;
    // A crash may have truncated the last line: start a new one.
    let begin = if before.last().is_some_and(|last| *last != b'\n') { "\n" } else { "" };
    file.write_all(format!("{begin}{line}\n").as_bytes()).map_err(PrognosisError::io("write", path))?;
    let lines = before.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let (read, unreadable): (Vec<_>, Vec<_>) =
        lines.map(serde_json::from_slice::<StoredPrognosis>).partition(|line| line.is_ok());
    let mut all: Vec<StoredPrognosis> = read.into_iter().flatten().filter(|one| one.is_comparable(&kept)).collect();
    all.push(kept);
    all.retain(|one| !one.incomplete);
    Ok(History { kept: all, unreadable: unreadable.len() })
}

/// Returns the identity of a target, whatever its name: its path without links. For a device it is the UUID of its file
/// system if udev lists it, because names of devices change. For a directory it is both.
fn place_of(target: &Path) -> String {
    let path = target.canonicalize().unwrap_or_else(|_| target.into());
    let device = BlockDevice::open(&path).ok();
    let is_device = device.is_some();
    let below = device.or_else(|| BlockDevice::below(&path).filter(|_| path.is_dir()));
    match below.and_then(|device| uuid(device.path())) {
        Some(uuid) if is_device => format!("UUID={uuid}"),
        Some(uuid) => format!("{} on UUID={uuid}", path.display()),
        None => path.display().to_string(),
    }
}

fn uuid(device: &Path) -> Option<String> {
    let device = device.canonicalize().ok()?;
    let mut links = std::fs::read_dir("/dev/disk/by-uuid").ok()?.flatten();
    let link = links.find(|link| link.path().canonicalize().is_ok_and(|leads_to| leads_to == device))?;
    Some(link.file_name().to_string_lossy().into_owned())
}

impl StoredPrognosis {
    fn is_comparable(&self, other: &Self) -> bool {
        let of = |kept: &Self| (kept.order, kept.name_length);
        (&self.place, &self.drive, of(self)) == (&other.place, &other.drive, of(other))
    }

    fn of(found: &Prognosis) -> Self {
        let mut free_extents = Vec::new();
        for extent in found.space.free.iter().flatten().filter(|extent| extent.blocks > 0) {
            let power = extent.blocks.ilog2() as usize;
            if free_extents.len() <= power {
                free_extents.resize(power + 1, 0);
            }
            free_extents[power] += 1;
        }
        Self {
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            target: found.target.clone(),
            place: place_of(Path::new(&found.target)),
            order: Some(found.order),
            drive: found.drive.name.clone(),
            now_seconds: found.now_seconds,
            ideal_seconds: found.ideal_seconds,
            rewritten_seconds: found.rewritten_seconds,
            files: found.files,
            bytes: found.bytes,
            pieces: found.pieces,
            free_bytes: found.space.free_blocks * found.space.block_size,
            free_extents,
            name_length: found.name_length,
            creatable: found.creatable.clone(),
            incomplete: found.condition.as_ref().is_some_and(|condition| !condition.reservations().is_empty()),
        }
    }
}

/// Changes from three prognoses on, with the time of reaching the threshold if they span a day.
pub fn trends(kept: &[StoredPrognosis]) -> Vec<Trend> {
    if kept.len() < 3 {
        return Vec::new();
    }
    let times = || kept.iter().map(|one| one.time);
    let seconds = times().fold(f64::NEG_INFINITY, f64::max) - times().fold(f64::INFINITY, f64::min);
    let mut found = Vec::new();
    let mut one = |value: &str, threshold: f64, text: &str, of: &dyn Fn(&StoredPrognosis) -> Option<f64>| {
        let points: Vec<(f64, f64)> = kept.iter().filter_map(|one| Some((one.time / DAY, of(one)?))).collect();
        if let (Some(slope), [first, .., last]) = (slope(&points), points.as_slice()) {
            // From the last value: the line itself may have passed a threshold that is not reached yet.
            let left = threshold - last.1;
            let is_reached = left == 0.0 && last.1 != first.1 || left * (threshold - first.1) < 0.0;
            let days = left / slope;
            let days_left = match is_reached {
                _ if seconds < DAY => None,
                true => Some(0.0),
                false => (days.is_finite() && (0.0..=HORIZON).contains(&days)).then_some(days),
            };
            found.push(Trend { value: value.into(), per_day: slope, days_left, threshold: text.into() });
        }
    };
    let first = kept.iter().map(|one| one.now_seconds).next().unwrap_or(0.0);
    one("seconds of a full read", 2.0 * first, "twice the first value", &|one| Some(one.now_seconds));
    one("free bytes", 0.0, "none is left", &|one| Some(one.free_bytes as f64));
    let creatable = |one: &StoredPrognosis| {
        let of = |found: &&CreatableFiles| found.size == 4096 && found.user == User::User;
        one.creatable.iter().find(of).map(|found| found.files as f64)
    };
    one("files of 4 KiB that can be created", 0.0, "none can be created", &creatable);
    found
}

/// Fits a line to the points; `None` if all points have the same time.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / count, sum.1 + point.1 / count));
    let (mut across, mut along) = (0.0, 0.0);
    for point in points {
        across += (point.0 - x) * (point.1 - y);
        along += (point.0 - x).powi(2);
    }
    (along > 0.0).then(|| across / along)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(day: f64, free_bytes: u64, now_seconds: f64) -> StoredPrognosis {
        StoredPrognosis {
            time: day * DAY,
            target: "t".into(),
            place: "/t".into(),
            order: Some(Order::Readdir),
            drive: "d".into(),
            now_seconds,
            ideal_seconds: 1.0,
            rewritten_seconds: 1.0,
            files: 1,
            bytes: 1,
            pieces: 1,
            free_bytes,
            free_extents: Vec::new(),
            name_length: NAME_BYTES,
            creatable: Vec::new(),
            incomplete: false,
        }
    }

    #[test]
    fn prognosis_without_journal_replay_is_not_in_a_trend() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        append(&path, StoredPrognosis { incomplete: true, ..kept(1.0, 10, 1.0) }).unwrap();
        append(&path, kept(2.0, 10, 1.0)).unwrap();
        let history = append(&path, StoredPrognosis { incomplete: true, ..kept(3.0, 10, 1.0) }).unwrap();
        assert_eq!((history.kept.len(), history.unreadable), (1, 0));
    }

    #[test]
    fn steady_loss_has_a_date() {
        let all: Vec<StoredPrognosis> =
            (0..4).map(|day| kept(f64::from(day), 1000 - 100 * day as u64, 10.0 + f64::from(day))).collect();
        let found = trends(&all);
        assert!(
            (found[1].per_day + 100.0).abs() < 1e-6 && (found[1].days_left.unwrap() - 7.0).abs() < 1e-6,
            "{found:?}"
        );
        assert!((found[0].days_left.unwrap() - 7.0).abs() < 1e-6, "{found:?}");
        assert!(trends(&all[..2]).is_empty(), "two points give no error estimate");
    }

    #[test]
    fn passed_threshold_has_zero_days_left() {
        let all: Vec<StoredPrognosis> =
            (0..4).map(|day| kept(f64::from(day), 1000, 10.0 + 5.0 * f64::from(day))).collect();
        assert_eq!(trends(&all)[0].days_left, Some(0.0));
    }

    /// Checks a target that was mostly written on the first day: the line is below zero while space is still free.
    #[test]
    fn free_space_is_not_reported_as_used_up() {
        let free = [1000u64, 100, 90, 80];
        let all: Vec<StoredPrognosis> =
            free.iter().zip(0..).map(|(free, day)| kept(f64::from(day), *free, 10.0)).collect();
        let found = &trends(&all)[1];
        assert!((found.per_day + 277.0).abs() < 1e-6 && found.days_left.is_some_and(|days| days > 0.2), "{found:?}");
        let none = [kept(0.0, 200, 10.0), kept(1.0, 100, 10.0), kept(2.0, 0, 10.0)];
        assert_eq!(trends(&none)[1].days_left, Some(0.0));
    }

    #[test]
    fn constant_value_has_no_date() {
        let all: Vec<StoredPrognosis> = (0..4).map(|day| kept(f64::from(day), 1000, 10.0)).collect();
        assert!(trends(&all).iter().all(|trend| trend.days_left.is_none()));
    }

    #[test]
    fn hours_of_data_give_no_date() {
        let all: Vec<StoredPrognosis> =
            (0..4).map(|hour| kept(f64::from(hour) / 24.0, 1000 - 100 * hour as u64, 10.0)).collect();
        let found = trends(&all);
        assert!((found[1].per_day + 2400.0).abs() < 1e-6 && found[1].days_left.is_none(), "{found:?}");
    }

    #[test]
    fn trend_needs_equal_target_order_and_name_length() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let by_path = StoredPrognosis { order: Some(Order::Path), ..kept(1.0, 10, 1.0) };
        let elsewhere = StoredPrognosis { place: "/u".into(), ..kept(2.0, 10, 1.0) };
        let longer = StoredPrognosis { name_length: 64, ..kept(2.5, 10, 1.0) };
        let mut without_order = serde_json::to_value(kept(0.0, 10, 1.0)).unwrap();
        without_order.as_object_mut().unwrap().retain(|key, _| key != "order" && key != "place");
        std::fs::write(&path, format!("{without_order}\n")).unwrap();
        for other in [by_path, elsewhere, longer, kept(3.0, 10, 1.0)] {
            assert_eq!(append(&path, other.clone()).unwrap().kept, [other]);
        }
        assert_eq!(append(&path, kept(4.0, 10, 1.0)).unwrap().kept, [kept(3.0, 10, 1.0), kept(4.0, 10, 1.0)]);
    }

    #[test]
    fn link_has_the_identity_of_its_target() {
        let directory = tempfile::tempdir().unwrap();
        let (link, own) = (directory.path().join("link"), directory.path().join("own"));
        std::fs::create_dir(&own).unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert_eq!(place_of(&link), place_of(&own));
    }

    #[test]
    fn damaged_lines_lose_no_other_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        append(&path, kept(1.0, 10, 1.0)).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let whole = bytes.clone();
        bytes.extend([0xFF, 0xFE, b'\n']);
        bytes.extend(&whole);
        bytes.extend(&whole[..whole.len() / 2]);
        std::fs::write(&path, bytes).unwrap();
        let history = append(&path, kept(2.0, 10, 1.0)).unwrap();
        assert_eq!((history.kept.len(), history.unreadable), (3, 2));
        assert_eq!(history.note().unwrap(), "2 lines of prognoses.jsonl cannot be read and were left out of the trend");
        assert_eq!(append(&path, kept(3.0, 10, 1.0)).unwrap().kept.len(), 4);
    }
}
