//! The study's claims against what came out.

use super::analysis::{Known, law_mean};
use super::{Cell, Deduplicated};
use senesce_core::{Finding, Verdict};
use senesce_objstore::ChunkerSpec;

pub(super) fn findings(cells: &[Cell], history: &[Deduplicated], known: &Known) -> Vec<Finding> {
    let all = [
        reproduction_finding(cells, known),
        window_finding(cells),
        divisor_finding(cells),
        law_finding(cells),
        history_finding(history),
    ];
    all.into_iter().flatten().collect()
}

/// Whether a value prints as published, a tie in the last digit counting as equal.
fn prints_as(value: f64, printed: f64) -> bool {
    (value - printed).abs() <= 0.05 + 1e-9
}

fn reproduction_finding(cells: &[Cell], known: &Known) -> Option<Finding> {
    let compared: Vec<(&Cell, (f64, f64))> = cells.iter().filter_map(|cell| Some((cell, known.of(cell)?))).collect();
    let equal = compared
        .iter()
        .filter(|(cell, (mean, sd))| {
            cell.mean.is_some_and(|ours| prints_as(ours, *mean)) && cell.sd.is_some_and(|ours| prints_as(ours, *sd))
        })
        .count();
    (!compared.is_empty()).then(|| Finding {
        claim: "mean and deviation of the rolling sum are as published, to the printed digit".into(),
        published: "160 cells, windows 2^8 to 2^17, divisors 2^8 to 2^15, with and without window reset".into(),
        measured: format!("{equal} of {} cells agree", compared.len()),
        verdict: if equal == compared.len() { Verdict::Seen } else { Verdict::NotSeen },
        note: "one published value, 300.8, is a rounding tie (300.85)".into(),
        ..Finding::default()
    })
}

/// Median and largest relative error in percent.
fn errors(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let errors: Vec<f64> = values.map(|error| 100.0 * error.abs()).collect();
    Some((senesce_stats::median(&errors)?, errors.iter().copied().fold(0.0, f64::max)))
}

fn window_finding(cells: &[Cell]) -> Option<Finding> {
    let of = |wanted: bool| {
        errors(cells.iter().filter_map(move |cell| match cell.chunker {
            ChunkerSpec::RollingSum { window, divisor, reset } if reset == wanted && (divisor as usize) < window => {
                Some(cell.mean? / (window as f64 + f64::from(divisor)) - 1.0)
            }
            _ => None,
        }))
    };
    let (with, without) = (of(true)?, of(false)?);
    Some(Finding {
        claim: "the mean chunk size is about window + divisor when the divisor is the smaller one".into(),
        published: "said of the rolling hash in general".into(),
        measured: format!(
            "median error {:.0} % with the window reset after every chunk, {:.0} % without",
            with.0, without.0
        ),
        verdict: if without.0 < 10.0 { Verdict::Seen } else { Verdict::NotSeen },
        note: "true only of the version with the reset mistake; without it the mean is about the divisor".into(),
        ..Finding::default()
    })
}

fn divisor_finding(cells: &[Cell]) -> Option<Finding> {
    let mut grows = (0, 0);
    for pair in cells.windows(2) {
        let (Some(first), Some(second)) = (pair[0].mean, pair[1].mean) else { continue };
        match (pair[0].chunker, pair[1].chunker) {
            (
                ChunkerSpec::RollingSum { window: a, divisor: d, reset: r },
                ChunkerSpec::RollingSum { window: b, divisor: e, reset: s },
            ) if a == b && r == s && d < e => {
                grows.0 += usize::from(second >= first);
                grows.1 += 1;
            }
            _ => {}
        }
    }
    (grows.1 > 0).then(|| Finding {
        claim: "larger divisors result in smaller chunks".into(),
        published: "a conclusion of the thesis, against its own data".into(),
        measured: format!("doubling the divisor did not shrink chunks in {} of {} steps", grows.0, grows.1),
        verdict: if grows.0 * 2 < grows.1 { Verdict::Seen } else { Verdict::NotSeen },
        note: "it is the other way round".into(),
        ..Finding::default()
    })
}

fn law_finding(cells: &[Cell]) -> Option<Finding> {
    let (median, largest) = errors(
        cells
            .iter()
            .filter(|cell| !cell.gave_up && matches!(cell.chunker, ChunkerSpec::RollingSum { reset: false, .. }))
            .filter_map(|cell| Some(cell.mean? / law_mean(cell)? - 1.0)),
    )?;
    Some(Finding {
        claim: "the flat tops are chance".into(),
        published: "said of divisors beyond which the mean no longer grows".into(),
        measured: format!(
            "the normal law of the sum predicts every mean: median error {median:.0} %, largest {largest:.0} %"
        ),
        verdict: if median < 10.0 { Verdict::NotSeen } else { Verdict::Seen },
        note: "100 chunks alone scatter by about 10 %; the law has no free parameter".into(),
        ..Finding::default()
    })
}

fn history_finding(history: &[Deduplicated]) -> Option<Finding> {
    let best = |name: &str| {
        let ratios = history.iter().filter(|one| one.chunker.algorithm() == name).map(|one| one.totals.ratio());
        ratios.max_by(f64::total_cmp)
    };
    let (fastcdc, fixed) = (best("fastcdc")?, best("fixed")?);
    Some(Finding {
        claim: "cutting by content saves more than cutting at fixed places".into(),
        published: String::new(),
        measured: format!("best deduplication: FastCDC {fastcdc:.2}, fixed size {fixed:.2}"),
        verdict: if fastcdc > 1.02 * fixed {
            Verdict::Seen
        } else if fixed > 1.02 * fastcdc {
            Verdict::NotSeen
        } else {
            Verdict::NoDifference
        },
        note: "depends on the data: fixed sizes suit files that are overwritten in place".into(),
        ..Finding::default()
    })
}
