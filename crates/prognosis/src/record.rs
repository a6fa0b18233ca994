//! Keeping prognoses, and what several of them say together.

use crate::error::PrognosisError;
use crate::estimate::Prognosis;
use crate::headroom::{Creatable, User};
use senesce_core::output;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The file in the directory of records: one JSON object per line.
const FILE: &str = "prognoses.jsonl";
/// Seconds of a day.
const DAY: f64 = 86_400.0;
/// Dates further away than this are not told, days.
const HORIZON: f64 = 3650.0;

/// What is kept of a prognosis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// When, seconds since 1970.
    pub time: f64,
    /// Of what.
    pub target: String,
    /// The drive that the seconds are of.
    pub drive: String,
    /// Seconds of one full read.
    pub now_seconds: f64,
    /// After an ideal defragmentation.
    pub ideal_seconds: f64,
    /// After copying out and back.
    pub rewritten_seconds: f64,
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
    /// Pieces of files.
    pub pieces: u64,
    /// Free bytes.
    pub free_bytes: u64,
    /// Free extents: how many have at least 2^k and less than 2^(k+1) blocks.
    pub free_extents: Vec<u64>,
    /// Files that could be created.
    pub creatable: Vec<Creatable>,
}

/// A value over time, by a line of least squares.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// What.
    pub value: String,
    /// Its change per day.
    pub per_day: f64,
    /// Days until it reaches its threshold; none if it does not within ten years.
    pub days_left: Option<f64>,
    /// What the threshold is, in words.
    pub threshold: String,
}

/// Adds a prognosis to the directory and gives all that are kept there of the same target and drive, oldest first.
///
/// # Errors
/// The directory cannot be made, or its file not be read or written.
pub fn keep(directory: &Path, found: &Prognosis) -> Result<Vec<Kept>, PrognosisError> {
    output::directory(directory)?;
    let path = directory.join(FILE);
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .map_err(PrognosisError::io("open", &path))?;
    let kept = Kept::of(found);
    let line = serde_json::to_string(&kept).map_err(|error| PrognosisError::io("write", &path)(error.into()))?;
    writeln!(file, "{line}").map_err(PrognosisError::io("write", &path))?;
    let reader = BufReader::new(std::fs::File::open(&path).map_err(PrognosisError::io("open", &path))?);
    let lines = reader.lines().map_while(Result::ok);
    // A line that was torn by a crash is left out.
    let all = lines.filter_map(|line| serde_json::from_str::<Kept>(&line).ok());
    Ok(all.filter(|one| one.target == kept.target && one.drive == kept.drive).collect())
}

impl Kept {
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
            drive: found.drive.name.clone(),
            now_seconds: found.now_seconds,
            ideal_seconds: found.ideal_seconds,
            rewritten_seconds: found.rewritten_seconds,
            files: found.files,
            bytes: found.bytes,
            pieces: found.pieces,
            free_bytes: found.space.free_blocks * found.space.block_size,
            free_extents,
            creatable: found.creatable.clone(),
        }
    }
}

/// What changes, and when it will be too much: from three prognoses on.
pub fn trends(kept: &[Kept]) -> Vec<Trend> {
    if kept.len() < 3 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut one = |value: &str, threshold: f64, text: &str, of: &dyn Fn(&Kept) -> Option<f64>| {
        let points: Vec<(f64, f64)> = kept.iter().filter_map(|one| Some((one.time / DAY, of(one)?))).collect();
        if let Some((slope, last)) = line(&points) {
            let days = (threshold - last) / slope;
            let is_passed = (threshold - last) * (threshold - points[0].1) < 0.0;
            let days_left = match is_passed {
                true => Some(0.0),
                false => (days.is_finite() && (0.0..=HORIZON).contains(&days)).then_some(days),
            };
            found.push(Trend { value: value.into(), per_day: slope, days_left, threshold: text.into() });
        }
    };
    let first = kept.iter().map(|one| one.now_seconds).next().unwrap_or(0.0);
    one("seconds of a full read", 2.0 * first, "twice what it was at first", &|one| Some(one.now_seconds));
    one("free bytes", 0.0, "none is left", &|one| Some(one.free_bytes as f64));
    let creatable = |one: &Kept| {
        let of = |found: &&Creatable| found.size == 4096 && found.user == User::User;
        one.creatable.iter().find(of).map(|found| found.files as f64)
    };
    one("files of 4 KiB that can be created", 0.0, "none can be created", &creatable);
    found
}

/// Slope of the line of least squares, and its value at the last point; none where all points have one time.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / count, sum.1 + point.1 / count));
    let (mut across, mut along) = (0.0, 0.0);
    for point in points {
        across += (point.0 - x) * (point.1 - y);
        along += (point.0 - x).powi(2);
    }
    let last = points.last()?.0;
    (along > 0.0).then(|| (across / along, y + across / along * (last - x)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(day: f64, free_bytes: u64, now_seconds: f64) -> Kept {
        Kept {
            time: day * DAY,
            target: "t".into(),
            drive: "d".into(),
            now_seconds,
            ideal_seconds: 1.0,
            rewritten_seconds: 1.0,
            files: 1,
            bytes: 1,
            pieces: 1,
            free_bytes,
            free_extents: Vec::new(),
            creatable: Vec::new(),
        }
    }

    #[test]
    fn a_steady_loss_has_its_date() {
        let all: Vec<Kept> =
            (0..4).map(|day| kept(f64::from(day), 1000 - 100 * day as u64, 10.0 + f64::from(day))).collect();
        let found = trends(&all);
        assert!(
            (found[1].per_day + 100.0).abs() < 1e-6 && (found[1].days_left.unwrap() - 7.0).abs() < 1e-6,
            "{found:?}"
        );
        assert!((found[0].days_left.unwrap() - 7.0).abs() < 1e-6, "{found:?}");
        assert!(trends(&all[..2]).is_empty(), "two points say nothing of their error");
    }

    #[test]
    fn a_threshold_that_is_passed_has_no_days_left() {
        let all: Vec<Kept> = (0..4).map(|day| kept(f64::from(day), 1000, 10.0 + 5.0 * f64::from(day))).collect();
        assert_eq!(trends(&all)[0].days_left, Some(0.0));
    }

    #[test]
    fn what_does_not_change_has_no_date() {
        let all: Vec<Kept> = (0..4).map(|day| kept(f64::from(day), 1000, 10.0)).collect();
        assert!(trends(&all).iter().all(|trend| trend.days_left.is_none()));
    }
}
