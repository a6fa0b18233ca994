//! The drives of an experiment, as surveyed before planning and as stored in its record.

use super::measure::Point;
use senesce_core::{Environment, Failure};
use senesce_zoned::job::{CheckedJob, Zones, check};
use senesce_zoned::survey::{DriveNature, Survey};
use senesce_zoned::{Geometry, ZonedError};
use std::collections::BTreeMap;

/// Claims' name of the published zoned drive and its model.
pub(crate) const PUBLISHED_ZONED: &str = "WD ZN540";
/// Claims' name of the published conventional drive and its model.
pub(crate) const PUBLISHED_CONVENTIONAL: &str = "nvme-a";

#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    pub zoned: &'a str,
    pub conventional: Option<&'a str>,
}

#[derive(Debug)]
pub struct Drives {
    pub zoned: Survey,
    pub conventional: Option<Survey>,
}

impl Drives {
    /// Surveys both drives.
    ///
    /// # Errors
    /// A drive that cannot be read, and two drives whose times are not comparable.
    pub fn find(names: Names<'_>) -> Result<Self, Failure> {
        let zoned = Survey::of(&names.zoned.parse()?)?;
        let conventional = names.conventional.map(|name| Survey::of(&name.parse()?)).transpose()?;
        if !zoned.geometry.zoned {
            return Err(Failure::usage(format!("{} has no zones: --device names the zoned drive", zoned.name)));
        }
        if let Some(other) = &conventional
            && (other.nature == DriveNature::Simulated) != (zoned.nature == DriveNature::Simulated)
        {
            return Err(Failure::usage(format!(
                "{} is {} and {} is {}: their times are not comparable; use another --conventional, or none",
                zoned.name,
                zoned.nature.name(),
                other.name,
                other.nature.name()
            )));
        }
        Ok(Self { zoned, conventional })
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Survey> {
        self.all().find(|survey| survey.name == name)
    }

    fn all(&self) -> impl Iterator<Item = &Survey> {
        std::iter::once(&self.zoned).chain(&self.conventional)
    }

    pub fn facts(&self) -> Environment {
        facts(self.all())
    }
}

pub(crate) fn facts<'a>(drives: impl Iterator<Item = &'a Survey>) -> Environment {
    let mut facts = Environment::default();
    for (number, drive) in drives.enumerate() {
        let mut put = |what: &str, value: &str| facts.put(&format!("zns.device.{number}{what}"), value);
        let geometry = &drive.geometry;
        put("", &drive.name);
        put(".model", &drive.model);
        put(".nature", drive.nature.name());
        put(".called", drive.published_name().unwrap_or_default());
        put(".zones", &format!("{} of {} B", geometry.zones, geometry.capacity_bytes()));
        put(".limits", &format!("{} open, {} active (0: none)", geometry.max_open, geometry.max_active));
        put(".block", &format!("{} B", geometry.block_bytes));
    }
    facts
}

/// Selects usable zones of a drive: `count` zones from number `from`.
pub(crate) fn zones(drive: &Survey, from: u32, count: u32) -> Zones {
    let first = drive.usable().start + from;
    Zones::Range(first, first + count.max(1))
}

/// Selects two adjacent groups of usable zones, each of `most` zones or half of the drive.
pub(crate) fn halves(drive: &Survey, most: u32) -> Result<(Zones, Zones, u32), Failure> {
    let half = most.min(drive.usable().len() as u32 / 2);
    if half == 0 {
        return Err(Failure::usage(format!("{} has {}; this experiment needs two", drive.name, drive.usable_words())));
    }
    Ok((zones(drive, 0, half), zones(drive, half, half), half))
}

/// Points that their drives can run, and the reasons against the others.
pub(crate) struct Fitting {
    pub points: Vec<Point>,
    pub left_out: BTreeMap<String, Vec<String>>,
}

impl Fitting {
    /// Checks every point against its drive.
    ///
    /// # Errors
    /// Problems of a drive or of the parameters, and a grid without any runnable point.
    pub(crate) fn of(points: Vec<Point>, drives: &Drives) -> Result<Self, Failure> {
        let mut fitting = Self { points: Vec::new(), left_out: BTreeMap::new() };
        for point in points {
            match judge(&point, drives)? {
                None => fitting.points.push(point),
                Some(why) => fitting.left_out.entry(why).or_default().push(point.key),
            }
        }
        if fitting.points.is_empty() && !fitting.left_out.is_empty() {
            let reasons: Vec<&str> = fitting.left_out.keys().map(String::as_str).collect();
            return Err(Failure::usage(format!("the drive supports none of the points: {}", reasons.join("; "))));
        }
        Ok(fitting)
    }

    pub(crate) fn caveats(&self) -> impl Iterator<Item = String> {
        self.left_out.iter().map(|(why, keys)| {
            let first = keys.first().map_or("", String::as_str);
            match keys.len() {
                1 => format!("one point is omitted ({first}): {why}"),
                count => format!("{count} points are omitted ({first}, ...): {why}"),
            }
        })
    }
}

/// Returns the reason why a drive cannot run a point, or `None`.
fn judge(point: &Point, drives: &Drives) -> Result<Option<String>, Failure> {
    let Some(drive) = drives.named(&point.device) else { return Ok(Some(format!("{} not found", point.device))) };
    if !drive.ways.contains(&point.job.path) {
        return Ok(Some(format!("{} does not support the path {}", drive.name, point.job.path.name())));
    }
    match checked(point, drive) {
        Ok(_) => Ok(None),
        Err(ZonedError::Job { problem, .. }) => Ok(Some(problem)),
        Err(error) => Err(super::measure::at_point(&point.key, error)),
    }
}

pub(super) fn checked(point: &Point, drive: &Survey) -> Result<(CheckedJob, Geometry), ZonedError> {
    let wanted = point.job.lbaf.filter(|bytes| drive.block_sizes().contains(bytes));
    let (geometry, zones) = drive.in_blocks(wanted.unwrap_or(drive.geometry.block_bytes));
    Ok((check(&point.job, &geometry, &zones)?, geometry))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    pub name: String,
    pub nature: String,
    /// The claims' name; empty: claims do not cover it.
    pub called: String,
}

pub fn used(environment: &Environment) -> Vec<Used> {
    let word = |key: String| environment.0.get(&key).and_then(|value| value.as_str()).map(str::to_string);
    let device = |number: usize| {
        let key = format!("zns.device.{number}");
        let name = word(key.clone())?;
        let simulated = name.starts_with("sim:");
        let nature =
            word(format!("{key}.nature")).unwrap_or_else(|| if simulated { "simulated" } else { "real" }.into());
        Some(Used { nature, called: word(format!("{key}.called")).unwrap_or_default(), name })
    };
    (0..).map_while(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_restores_the_drives() {
        let names = Names { zoned: "sim:zn540", conventional: Some("sim:nvme-a") };
        let drives = Drives::find(names).unwrap();
        let used = used(&drives.facts());
        assert_eq!((used[0].called.as_str(), used[1].called.as_str()), (PUBLISHED_ZONED, PUBLISHED_CONVENTIONAL));
        assert!(used.iter().all(|drive| drive.nature == "simulated"));
    }

    #[test]
    fn drives_of_different_kind_are_not_compared() {
        let names = Names { zoned: "null", conventional: Some("sim:nvme-a") };
        assert!(Drives::find(names).unwrap_err().to_string().contains("not comparable"));
        let names = Names { zoned: "sim:nvme-a", conventional: None };
        assert!(Drives::find(names).unwrap_err().to_string().contains("has no zones"));
    }

    #[test]
    fn halves_are_adjacent_and_within_the_drive() {
        let mut drive = Drives::find(Names { zoned: "null", conventional: None }).unwrap().zoned;
        assert_eq!(halves(&drive, 400).unwrap(), (Zones::Range(0, 400), Zones::Range(400, 800), 400));
        drive.zones.truncate(7);
        assert_eq!(halves(&drive, 400).unwrap(), (Zones::Range(0, 3), Zones::Range(3, 6), 3));
        drive.zones.truncate(1);
        assert!(
            halves(&drive, 400).unwrap_err().to_string().ends_with("has one usable zone; this experiment needs two")
        );
    }
}
