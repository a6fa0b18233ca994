//! Table, figure and findings of the file server.

use super::Played;
use crate::tier::interleave::AGAIN;
use crate::tier::subject::SubjectKind;
use senesce_core::analysis::Better;
use senesce_core::{Analysis, Axis, Figure, FigureKind, Finding, Mark, Seed, Series, Table, Verdict};
use senesce_stats::bootstrap::{Estimate, bootstrap};
use senesce_stats::describe::{mean, median};
use serde_json::json;

/// Everything from the runs.
pub fn analyse(runs: &[Played], latency: &str, seed: Seed) -> Analysis {
    let names = names(runs);
    let columns = ["file system", "operations/s", "MB/s", "evicted (blocks)", "fetched (blocks)", "runs"];
    let mut table = Table::new("fileserver", "The fileserver personality, means over the rounds", &columns);
    for name in &names {
        let of = |value: &dyn Fn(&Played) -> f64| average(runs, name, value);
        table.row(vec![
            json!(name),
            json!(of(&|run| run.ops_per_second)),
            json!(of(&|run| run.mb_per_second)),
            json!(of(&|run| run.evicted as f64)),
            json!(of(&|run| run.fetched as f64)),
            json!(runs.iter().filter(|run| run.condition == **name).count()),
        ]);
    }
    let hot = ratio_to_bpfs(runs, HOT, seed);
    let again = ratio_to_bpfs(runs, AGAIN, seed);
    Analysis {
        title: "A file server by the share of its data that stays in memory".into(),
        summary: "Operations per second as Filebench counts them.".into(),
        figures: vec![figure(runs, latency)],
        tables: vec![table],
        findings: vec![Finding {
            claim: "with a threshold that holds the workload, anti-caching costs nothing".into(),
            published: "a figure without readable values".into(),
            measured: hot.map_or("not measured".into(), |hot| {
                let again =
                    again.map_or(String::new(), |again| format!("; bpfs mode against itself {}", in_words(again)));
                format!("{} of the operations per second of bpfs mode at a threshold of 100 %{again}", in_words(hot))
            }),
            verdict: costs_nothing(hot, again),
            note: "the workload grows a little while it runs: at 100 % some blocks are evicted".into(),
            ..Finding::default()
        }],
        caveats: vec![format!("modelled: latency of the cold store: {latency}")],
        result: json!({
            "runs": runs,
            "ratio_when_hot": hot.map(|hot| hot.value),
            "ratio_of_bpfs_to_itself": again.map(|again| again.value),
            "cold_latency": latency,
        }),
    }
}

/// The condition that holds the workload.
const HOT: &str = "anticache 100 %";
/// A share of the speed from which on anti-caching costs nothing; a machine that differs more from itself cannot tell.
const NO_COST: f64 = 0.97;

/// The median over the rounds of a condition's speed over that of bpfs mode in the same round.
fn ratio_to_bpfs(runs: &[Played], condition: &str, seed: Seed) -> Option<Estimate> {
    let ratios = runs.iter().filter(|run| run.condition == condition).filter_map(|run| {
        let base = runs.iter().find(|base| base.condition == "bpfs" && base.round == run.round)?;
        (base.ops_per_second > 0.0).then(|| run.ops_per_second / base.ops_per_second)
    });
    bootstrap(&ratios.collect::<Vec<_>>(), median, &mut seed.stream(&format!("tier/fileserver/ratio/{condition}")))
}

fn in_words(ratio: Estimate) -> String {
    format!("{:.1} % ({:.1} to {:.1})", 100.0 * ratio.value, 100.0 * ratio.low, 100.0 * ratio.high)
}

fn costs_nothing(hot: Option<Estimate>, again: Option<Estimate>) -> Verdict {
    let Some(hot) = hot else { return Verdict::NotTestable };
    match again {
        Some(again) if (again.value - 1.0).abs() > 1.0 - NO_COST => Verdict::Invalid,
        _ if hot.high < NO_COST => Verdict::NotSeen,
        _ if hot.value >= NO_COST => Verdict::Seen,
        _ => Verdict::Invalid,
    }
}

fn names(runs: &[Played]) -> Vec<String> {
    let mut keys: Vec<(bool, u64, String)> = runs
        .iter()
        .map(|run| {
            let percent = run.threshold_percent.map_or(0, |percent| (percent * 1000.0) as u64);
            (run.threshold_percent.is_none(), percent, run.condition.clone())
        })
        .collect();
    keys.sort();
    keys.dedup();
    keys.into_iter().map(|(_, _, name)| name).collect()
}

fn average(runs: &[Played], name: &str, value: &dyn Fn(&Played) -> f64) -> Option<f64> {
    mean(&runs.iter().filter(|run| run.condition == name).map(value).collect::<Vec<_>>())
}

fn figure(runs: &[Played], latency: &str) -> Figure {
    let percents: Vec<f64> = names(runs)
        .iter()
        .filter_map(|name| runs.iter().find(|run| run.condition == *name)?.threshold_percent)
        .collect();
    let line = |name: &str| {
        let rate = average(runs, name, &|run| run.ops_per_second)?;
        let points = percents.iter().map(|percent| (*percent, rate)).collect();
        Some(Series { name: SubjectKind::label(name).into(), mark: Mark::Measured, points, ..Series::default() })
    };
    let points = percents
        .iter()
        .filter_map(|percent| {
            let of = runs.iter().filter(|run| run.threshold_percent == Some(*percent));
            Some((*percent, mean(&of.map(|run| run.ops_per_second).collect::<Vec<_>>())?))
        })
        .collect();
    let anticache =
        Series { name: SubjectKind::label("anticache").into(), mark: Mark::Measured, points, ..Series::default() };
    Figure {
        id: "fileserver".into(),
        title: "Fileserver by threshold".into(),
        caption: "Means over the rounds; the baselines have no threshold.".into(),
        device: format!("memory; cold store modelled: {latency}"),
        better: Better::Higher,
        kind: FigureKind::Lines {
            x: Axis::linear("threshold (% of the workload)").from_zero(),
            y: Axis::linear("operations/s").from_zero(),
            series: [Some(anticache), line("bpfs"), line("ext4"), line("ext4-disk")].into_iter().flatten().collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_listed_by_threshold() {
        let run = |condition: &str, threshold_percent| Played {
            round: 0,
            condition: condition.into(),
            threshold_percent,
            ops_per_second: 1.0,
            mb_per_second: 1.0,
            evicted: 0,
            fetched: 0,
            read_percent: None,
        };
        let runs = [run("bpfs", None), run("anticache 100 %", Some(100.0)), run("anticache 20 %", Some(20.0))];
        assert_eq!(names(&runs), ["anticache 20 %", "anticache 100 %", "bpfs"]);
    }

    #[test]
    fn a_machine_that_differs_from_itself_cannot_tell() {
        let estimate = |value: f64| Some(Estimate { value, low: value - 0.01, high: value + 0.01 });
        assert_eq!(costs_nothing(estimate(0.99), estimate(1.01)), Verdict::Seen);
        assert_eq!(costs_nothing(estimate(0.90), estimate(1.01)), Verdict::NotSeen);
        assert_eq!(costs_nothing(estimate(1.71), estimate(1.30)), Verdict::Invalid);
        assert_eq!(costs_nothing(None, None), Verdict::NotTestable);
    }
}
