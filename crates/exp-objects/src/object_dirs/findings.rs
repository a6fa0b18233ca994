//! The study's claims against what was measured.

use super::analysis::{Row, mean, percent};
use senesce_core::{Finding, Verdict};
use senesce_objstore::occupancy::Limit;

pub(super) fn findings(rows: &[Row], writes: u64, slow: u64) -> Vec<Finding> {
    let mut findings = vec![naive_finding(rows), constant_finding(rows), quick_writes_finding(writes, slow)];
    findings.extend(reproduction_finding(rows));
    findings.extend(git_finding(rows));
    findings
}

fn naive_finding(rows: &[Row]) -> Finding {
    let by_inodes: Vec<&Row> = rows.iter().filter(|row| row.filled.full.ended_by == Some(Limit::Inodes)).collect();
    let errors: Vec<f64> =
        by_inodes.iter().map(|row| percent(row.prediction.files as f64, row.filled.full.files as f64).abs()).collect();
    let negative = by_inodes.iter().filter(|row| row.naive_files() < 0.0).count();
    let largest = errors.iter().copied().fold(0.0, f64::max);
    Finding {
        claim: "the number of objects is the inodes less all directories the scheme can have".into(),
        published: "f = i - (16^h)^n, later i - sum of 16^(hk)".into(),
        measured: format!(
            "negative for {negative} of {} schemes that inodes ended; the occupancy law is off by at most {largest:.2} %",
            by_inodes.len()
        ),
        verdict: match (by_inodes.len(), negative) {
            (0, _) => Verdict::NotTestable,
            (_, 0) => Verdict::Seen,
            _ => Verdict::NotSeen,
        },
        note: "the formula counts directories that no object ever touched".into(),
        ..Finding::default()
    }
}

fn constant_finding(rows: &[Row]) -> Finding {
    let sums: Vec<f64> = rows
        .iter()
        .filter(|row| row.filled.full.ended_by == Some(Limit::Inodes))
        .map(|row| (row.filled.full.files + row.filled.full.directories) as f64)
        .collect();
    let shallow = rows.iter().filter(|row| row.filled.full.ended_by == Some(Limit::Bytes)).count();
    let (least, most) = sums.iter().fold((f64::MAX, 0.0f64), |(least, most), sum| (least.min(*sum), most.max(*sum)));
    let constant = most - least < 0.002 * most;
    Finding {
        claim: "files and directories together are constant when full".into(),
        published: "25,662 to 25,676 in the 130 runs that can be read".into(),
        measured: if sums.is_empty() {
            "no scheme was ended by inodes".into()
        } else {
            format!("{least} to {most} where inodes end the fill; {shallow} schemes run out of bytes before")
        },
        verdict: match (sums.is_empty(), constant) {
            (true, _) => Verdict::NotTestable,
            (_, true) => Verdict::Seen,
            _ => Verdict::NotSeen,
        },
        note: "true for schemes limited by inodes only".into(),
        ..Finding::default()
    }
}

fn quick_writes_finding(writes: u64, slow: u64) -> Finding {
    let share = 100.0 * (writes - slow) as f64 / writes.max(1) as f64;
    Finding {
        claim: "nearly all writes take less than 1 ms".into(),
        published: "99.1 % of 315,601 on a hard disk".into(),
        measured: format!("{share:.2} % of {writes}"),
        verdict: if writes == 0 {
            Verdict::NotTestable
        } else if share >= 99.0 {
            Verdict::Seen
        } else {
            Verdict::NotSeen
        },
        note: "writes are not synced: the rest are stalls of the page cache and the journal, not seeks".into(),
        ..Finding::default()
    }
}

fn reproduction_finding(rows: &[Row]) -> Option<Finding> {
    let compared: Vec<&Row> = rows.iter().filter(|row| !row.published.is_empty()).collect();
    let from_mean = |row: &&Row| percent(row.filled.full.files as f64, mean(&row.published).unwrap_or(f64::NAN)).abs();
    let from_each = |row: &&Row| {
        let files = row.filled.full.files as f64;
        row.published.iter().map(|host| percent(files, *host).abs()).fold(0.0, f64::max)
    };
    let worst_mean = compared.iter().map(from_mean).fold(0.0, f64::max);
    let worst_host = compared.iter().map(from_each).fold(0.0, f64::max);
    let worst = compared.iter().max_by(|a, b| from_mean(a).total_cmp(&from_mean(b)))?;
    Some(Finding {
        claim: "objects when full depend on the scheme and the inodes alone, not on the machine".into(),
        published: "three hosts, hard disks, Linux 3.16".into(),
        measured: format!(
            "{} schemes: at most {worst_mean:.2} % from the mean of the hosts ({}), {worst_host:.2} % from any host",
            compared.len(),
            worst.filled.scheme
        ),
        verdict: if worst_mean <= 0.5 && worst_host <= 1.0 { Verdict::Seen } else { Verdict::NotSeen },
        note: String::new(),
        ..Finding::default()
    })
}

fn git_finding(rows: &[Row]) -> Option<Finding> {
    let files = |text: &str| {
        let row = rows.iter().find(|row| row.filled.scheme.to_string() == text)?;
        Some(row.filled.full.files as f64)
    };
    let (flat, git, two) = (files("0x0")?, files("2x1")?, files("2x2")?);
    let (one_level, two_levels) = (percent(git, flat), percent(two, flat));
    Some(Finding {
        claim: "git's scheme 2x1 costs no room on this partition, 2x2 does".into(),
        published: "2x2 ends at 13,345 files (mean); the runs of 2x1 are not in the stored data".into(),
        measured: format!("against a flat store: 2x1 {one_level:+.1} %, 2x2 {two_levels:+.1} %"),
        verdict: if one_level > -2.0 && two_levels < -10.0 { Verdict::Seen } else { Verdict::NotSeen },
        note: String::new(),
        ..Finding::default()
    })
}
