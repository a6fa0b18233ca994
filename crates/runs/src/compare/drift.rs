//! Detects drift while the runs of a comparison were made. It is reported, not corrected: a ratio between two sides
//! that were measured one after the other includes it.

use super::side::{Side, date};
use super::{Row, Values, key, units};
use senesce_core::Record;
use senesce_stats::{mean, trend};
use std::collections::BTreeSet;

/// Significance level for a drift over all series of the comparison (Bonferroni) ...
const ERROR: f64 = 0.05;

/// ... and its minimum size.
const MARGIN: f64 = 0.02;

pub(super) fn caveats(sides: &[Side<'_>; 2], rows: &[Row]) -> Vec<String> {
    let of_side = |row: &Row, side: usize| {
        let (_, values) = sides[side].groups.get(&key(&row.what))?;
        Some(series(&row.name(), ["sample", "reference"][side], values))
    };
    let judged = rows.iter().filter(|row| row.described.is_none());
    let series: Vec<Series> =
        judged.flat_map(|row| [0, 1].map(|side| of_side(row, side))).flatten().flatten().collect();
    let tested: Vec<_> = series.iter().filter_map(|one| Some((one, trend(&one.values)?))).collect();
    let error = ERROR / tested.len().max(1) as f64;
    let drifts = tested.into_iter().filter_map(|(one, trend)| {
        let found = trend.text(error, MARGIN)?;
        Some(format!("{} {} {found}: the drift is part of every ratio with the other side", one.name, one.over))
    });
    one_after_the_other(&sides[0].records, &sides[1].records).into_iter().chain(drifts).collect()
}

struct Series {
    name: String,
    over: String,
    values: Vec<f64>,
}

/// Returns the repetitions of each run and image of a side, and its runs; for a single run its images.
fn series(name: &str, side: &str, values: &Values) -> Vec<Series> {
    let of = |over: String, values: Vec<f64>| Series { name: name.into(), over, values };
    let images: BTreeSet<u32> = values.keys().map(|(_, image)| *image).collect();
    let (runs, counted) = units(values);
    let within = values.iter().map(|((run, image), of_image)| {
        let which = match (runs > 1, images.len() > 1) {
            (false, false) => String::new(),
            (true, false) => format!(" (run {})", run + 1),
            (false, true) => format!(" (image {image})"),
            (true, true) => format!(" (run {}, image {image})", run + 1),
        };
        of(format!("within the {side}{which}"), of_image.clone())
    });
    let what = if runs > 1 { "runs" } else { "images" };
    let between = of(format!("over the {what} of the {side}"), counted.iter().filter_map(|one| mean(one)).collect());
    within.chain([between]).collect()
}

/// Returns a caveat if one side ran after the other: then the effect of time cannot be separated from the difference.
/// For one run against one another caveat covers this, unless days lie between.
fn one_after_the_other(sample: &[&Record], reference: &[&Record]) -> Option<String> {
    let span = |side: &[&Record]| Some((date(side.first()?)?.to_string(), date(side.last()?)?.to_string()));
    let (ours, theirs) = (span(sample)?, span(reference)?);
    let (before, after, words) = match () {
        () if ours.1 < theirs.0 => (ours.1, theirs.0, ["sample", "reference"]),
        () if theirs.1 < ours.0 => (theirs.1, ours.0, ["reference", "sample"]),
        () => return None,
    };
    let single = sample.len() == 1 && reference.len() == 1;
    let is_same_day = before.get(..10) == after.get(..10);
    (!single || !is_same_day).then(|| {
        format!(
            "all of the {} was measured before the {} ({before} against {after}): changes of the machine in between \
             are part of every ratio; measuring both sides in turn (--until-decided) avoids that",
            words[0], words[1]
        )
    })
}
