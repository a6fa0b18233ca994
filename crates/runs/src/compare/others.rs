//! What other programs did to runs: a clock cannot tell it from what was changed.

use super::{Options, Row};
use senesce_core::Record;
use senesce_core::circumstances::share_of_others;

/// The largest share (fraction) of the processors' time that other programs and guests took during one of these runs.
pub(super) fn share(records: &[&Record]) -> f64 {
    records.iter().map(|record| share_of_others(&record.environment)).fold(0.0, f64::max)
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
