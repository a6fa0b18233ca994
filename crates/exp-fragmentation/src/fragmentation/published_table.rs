//! Lists published values with measured ones. Claims decide whether they are supported.

use super::analysis::RoundData;
use super::correlations::overall;
use super::figures;
use super::point::Clock;
use senesce_core::published::PublishedValue;
use senesce_core::{Rows, Table};

pub fn table(data: &RoundData, published: &[PublishedValue]) -> Table {
    Rows::of(published)
        .column("metric", |one| &one.metric)
        .column("condition", |one| &one.condition)
        .column("published", |one| &one.value)
        .column("here, modelled", |one| ours(data, one))
        .column("unit", |one| &one.unit)
        .column("source", |one| &one.source)
        .column("note", |one| &one.note)
        .table("published", "Published and measured values")
}

fn ours(data: &RoundData, theirs: &PublishedValue) -> Option<f64> {
    let condition = theirs.condition.as_str();
    let clock = if condition.contains("ssd") { Clock::Ssd } else { Clock::Hdd };
    let fs = condition.split(' ').next()?;
    let lowest = condition.ends_with("lowest");
    match theirs.metric.as_str() {
        "correlation" => overall(&data.correlations, clock, figures::usual(data, clock)).map(|found| found.value),
        "slowdown" => data.slowdown(fs, clock),
        "cost" => data.last_cost(fs, true, clock),
        "cost against the sequential bandwidth" => {
            let sequential = figures::sequential(data, clock)?;
            extreme(data.costs(fs, clock).map(|cost| cost / sequential), lowest)
        }
        "slowdown of the slowest" | "slowdown of any" | "slowdown by creation order" => {
            extreme(data.systems.iter().filter_map(|fs| data.slowdown(fs, clock)), lowest)
        }
        _ => None,
    }
}

fn extreme(values: impl Iterator<Item = f64>, lowest: bool) -> Option<f64> {
    values.reduce(if lowest { f64::min } else { f64::max })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragmentation::point::{Point, tests};
    use senesce_core::published::parse;

    #[test]
    fn known_metrics_have_a_measured_value() {
        // Twice the size in the same time: the aged files take twice as long per GiB.
        let (aged, copy) = (tests::read_of_a_gib(1 << 30), tests::read_of_a_gib(1 << 31));
        let data = tests::round_data(vec![aged, Point { aged: false, ..copy }]);
        let text = "metric,condition,value,unit,source,note\nslowdown,zfs hdd,30,times,T,quoted\n\
                    slowdown of any,hdd lowest,3,times,T,\nslowdown of the moon,hdd,2,times,T,\n\
                    slowdown,betrfs hdd,2,times,T,\n";
        let found = table(&data, &parse(text).unwrap());
        let ours: Vec<Option<f64>> = found.rows.iter().map(|row| row[3].as_f64()).collect();
        assert_eq!(ours, [Some(2.0), Some(2.0), None, None]);
        assert_eq!(found.rows[0][2].as_f64(), Some(30.0));
    }
}
