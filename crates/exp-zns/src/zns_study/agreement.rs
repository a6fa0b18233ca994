//! Checks that a result belongs to the point that its path names, and is plausible.

use super::keys::{FileContent, PointParameters, PublishedFile};
use senesce_runs::import::fio::format::{Direction, Job, Output};
use senesce_runs::import::fio::impossible;

/// Operations in flight at the end make the transferred bytes differ a little from the request size.
const SIZE_TOLERANCE: f64 = 0.25;
const DEPTH_TOLERANCE: f64 = 1.2;

/// Refuses a result whose options differ from its path, or whose values are impossible.
pub(crate) fn check(place: &PublishedFile, output: &Output) -> Result<(), String> {
    impossible(output).map_or(Ok(()), Err)?;
    let Some(stated) = place.stated else { return Ok(()) };
    for (value, what) in [(stated.bs, "bytes a request"), (stated.zones, "zones"), (stated.depth, "requests in flight")]
    {
        if value == 0 {
            return Err(format!("its path gives 0 {what}, which is impossible"));
        }
    }
    let is_alone = place.kind == FileContent::Grid;
    option(output, "bs", stated.bs, is_alone, bytes)?;
    option(output, "iodepth", stated.depth, is_alone, |text| text.parse().ok())
}

pub(crate) fn check_single(stated: PointParameters, directions: &[&Direction]) -> Result<(), String> {
    let sum = |of: fn(&Direction) -> f64| directions.iter().map(|direction| of(direction)).sum::<f64>();
    let (moved, operations) = (sum(|one| one.bytes), sum(|one| one.operations));
    let each = moved / operations;
    if moved > 0.0 && (each / stated.bs as f64 - 1.0).abs() > SIZE_TOLERANCE {
        return Err(format!("its path gives bs {}, but its operations moved {each:.0} bytes each", stated.bs));
    }
    let in_flight = sum(|one| one.iops * one.total_mean_ns.unwrap_or(0.0) / 1e9);
    let allowed = stated.depth as f64 * stated.zones as f64;
    if in_flight > DEPTH_TOLERANCE * allowed {
        return Err(format!(
            "throughput x latency is {in_flight:.1} requests in flight, but its path allows {allowed}"
        ));
    }
    Ok(())
}

/// Compares an option with the path. For mixed operations the path names the options of one job; the other jobs have
/// their own.
fn option(
    output: &Output,
    name: &str,
    wanted: u64,
    is_alone: bool,
    read: fn(&str) -> Option<u64>,
) -> Result<(), String> {
    let of = |job: &Job| job.options.get(name).or(output.options.get(name)).cloned();
    let said: Vec<String> = output.jobs.iter().filter_map(of).collect();
    let is_it = |text: &String| read(text).is_none_or(|value| value == wanted);
    let fits = if is_alone { said.iter().all(is_it) } else { said.is_empty() || said.iter().any(is_it) };
    if fits { Ok(()) } else { Err(format!("its path gives {name} {wanted}, but its options give {}", said.join(", "))) }
}

/// Parses a size in fio's notation; `None` for forms that are not compared, such as one size per direction.
fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[end..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "ki" | "kib" => 1 << 10,
        "m" | "mb" | "mi" | "mib" => 1 << 20,
        _ => return None,
    };
    text[..end].parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::super::keys::place;
    use super::*;
    use senesce_runs::import::fio::format::parse;

    fn checked(path: &str, jobs: &[(&str, &str)]) -> Result<(), String> {
        let job = |(bs, depth): &(&str, &str)| {
            format!(
                r#"{{"jobname": "j", "job options": {{"bs": "{bs}", "iodepth": "{depth}"}}, "write": {{"total_ios": 1000,
                "io_bytes": 4096000, "bw_bytes": 4096000, "iops": 1000, "runtime": 1000, "clat_ns": {{"mean": 900000}}}}}}"#
            )
        };
        let all: Vec<String> = jobs.iter().map(job).collect();
        let output = parse(&format!(r#"{{"fio version": "fio-3.32", "jobs": [{}]}}"#, all.join(","))).unwrap();
        let place = place(path);
        check(&place, &output)?;
        let directions: Vec<&Direction> = output.jobs.iter().flat_map(|job| &job.directions).collect();
        if place.kind == FileContent::Grid { check_single(place.stated.unwrap(), &directions) } else { Ok(()) }
    }

    #[test]
    fn result_must_match_its_path() {
        let path = |bs: &str, zones: u32, depth: u32| format!("spdk/zns-a/lbaf2/write/{bs}bs/{zones}zone/{depth}.json");
        for (path, options) in [
            (path("4096", 1, 1), ("4096", "1")),
            (path("4096", 1, 8), ("4k", "8")),
            (path("4K", 1, 1), ("4KiB", "1")),
            (path("4096", 1, 1), ("4k,8k", "1")),
        ] {
            assert_eq!(checked(&path, &[options]), Ok(()), "{path} {options:?}");
        }
        for (path, options, why) in [
            (path("8192", 1, 1), ("4096", "1"), "its path gives bs 8192, but its options give 4096"),
            (path("8192", 1, 1), ("8192", "1"), "its operations moved 4096 bytes each"),
            (path("4096", 1, 64), ("4096", "1"), "its path gives iodepth 64, but its options give 1"),
            (path("4096", 0, 1), ("4096", "1"), "its path gives 0 zones"),
            (path("4096", 1, 0), ("4096", "1"), "its path gives 0 requests in flight"),
            (path("0", 1, 1), ("4096", "1"), "its path gives 0 bytes"),
        ] {
            let refused = checked(&path, &[options]).unwrap_err();
            assert!(refused.contains(why), "{path}: {refused}");
        }
    }

    #[test]
    fn more_requests_in_flight_than_the_path_allows_are_refused() {
        let path = "spdk/zns-a/lbaf2/write/4096bs/1zone/1.json";
        let two = checked(path, &[("4096", "1"); 2]).unwrap_err();
        assert!(two.contains("is 1.8 requests in flight, but its path allows 1"), "{two}");
        assert_eq!(checked(&path.replace("1zone", "2zones"), &[("4096", "1"); 2]), Ok(()));
    }

    #[test]
    fn one_job_of_mixed_operations_matches_the_path() {
        let path = "spdk/zns-a/lbaf2/write_read_5_95/16384bs/1zone/8.json";
        assert_eq!(checked(path, &[("4096", "1"), ("16384", "8")]), Ok(()));
        let refused = checked(path, &[("4096", "8"), ("8192", "8")]).unwrap_err();
        assert!(refused.contains("its path gives bs 16384, but its options give 4096, 8192"), "{refused}");
    }
}
