//! What other programs did to runs: a clock cannot tell it from what was changed.

use super::{Options, Row};
use senesce_core::Record;
use senesce_core::circumstances::share_of_others;

/// The largest share (fraction) of the processors' time that other programs and guests took during one of these runs, as far as it
/// is told.
pub(super) fn share(records: &[&Record]) -> f64 {
    records.iter().filter_map(|record| share_of_others(&record.environment)).fold(0.0, f64::max)
}

/// Runs of this program of which it is not told; what others measured never tells it.
pub(super) fn unknown(records: &[&Record]) -> Option<String> {
    let watched = records.iter().filter(|record| record.environment.0.contains_key("run.during.busy_percent"));
    let count = watched.filter(|record| share_of_others(&record.environment).is_none()).count();
    (count > 0).then(|| {
        format!("of {count} of these runs it is not known what other programs took of the processors: nothing is added for it")
    })
}

/// Where single runs are taken to differ by that, and not by what is assumed.
pub(super) fn caveat(rows: &[Row], options: &Options, others: f64) -> Option<String> {
    let is_widened = |row: &Row| row.between_runs > options.between_runs && row.runs.contains(&1);
    rows.iter().any(is_widened).then(|| {
        format!(
            "other programs took up to {:.0} % of the processors' time during a run: times and rates of single runs are taken to \
             differ by as much; measure with nothing else at work, in turns (--until-decided), or several runs of each",
            others * 100.0
        )
    })
}
