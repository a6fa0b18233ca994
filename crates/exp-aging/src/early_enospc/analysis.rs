//! Tables and figures of the fills.

use super::{Fill, Spec, error, holds};
use senesce_core::analysis::{Analysis, Axis, Better, Figure, FigureKind, Mark as Drawn, Series};
use senesce_core::{Rows, Table};
use serde_json::json;

pub(super) fn analysis(spec: &Spec, fills: &[Fill]) -> Analysis {
    let early = fills.iter().filter(|fill| fill.used_share < 0.95).count();
    let held: usize = fills.iter().map(|fill| fill.marks.iter().filter(|mark| holds(mark)).count()).sum();
    let marks: usize = fills.iter().map(|fill| fill.marks.len()).sum();
    let same = fills.iter().filter(|fill| fill.twin_files == fill.files && fill.twin_ends_by == fill.ends_by).count();
    let marked = fills.iter().filter(|fill| !fill.marks.is_empty());
    let title = "Files until the first failure, and the predictions before the first file";
    Analysis {
        title: "No space left on a file system that is not full".into(),
        summary: format!(
            "{} volumes of {} were filled with files of {}; {early} of them failed with more than 5 % of their \
             blocks free. {held} of {marks} prognoses included the true number. The twin predicted the exact number \
             and the cause of the failure for {same}.",
            fills.len(),
            spec.size,
            spec.file_size
        ),
        figures: fills.iter().map(figure).collect(),
        tables: vec![quantities(marked).table("fills", title), marks_table(fills)],
        result: json!({ "fills": fills }),
        ..Analysis::default()
    }
}

/// Returns the values of all fills.
pub(super) fn quantities<'a>(fills: impl IntoIterator<Item = &'a Fill>) -> Rows<&'a Fill> {
    let neither = Better::Neither;
    let first = |fill: &Fill| fill.marks.first().map(|mark| mark.said);
    Rows::of(fills)
        .condition("fs", |fill| fill.step.fs.name())
        .condition("punched", |fill| fill.step.punched.name())
        .column("file system", |fill| fill.step.fs.name())
        .column("punched out", |fill| fill.step.punched.name())
        .measured("files created", "", neither, |fill| fill.files)
        .shown("files")
        .column("ended by", |fill| fill.ends_by.text())
        .measured("used at the first failure", "%", neither, |fill| fill.used_share * 100.0)
        .shown("used (%)")
        .measured("free at the first failure", "MiB", neither, |fill| fill.free_bytes as f64 / f64::from(1 << 20))
        .column("free (MiB)", |fill| fill.free_bytes >> 20)
        .column("rule", |fill| first(fill).map(|said| said.files))
        .column("from", |fill| first(fill).map(|said| said.low))
        .column("to", |fill| first(fill).map(|said| said.high))
        .measured("error of the rule", "%", neither, |fill| first(fill).map(|said| error(said.files, fill.files)))
        .shown("error (%)")
        .column("twin", |fill| fill.twin_files)
        .measured("error of the twin", "%", neither, |fill| error(fill.twin_files, fill.files).abs())
        .column("error (%) of the twin", |fill| error(fill.twin_files, fill.files))
        .measured("prognoses that held", "%", Better::Higher, |fill| {
            fill.marks.iter().filter(|mark| holds(mark)).count() as f64 * 100.0 / fill.marks.len() as f64
        })
}

fn marks_table(fills: &[Fill]) -> Table {
    Rows::of(fills.iter().flat_map(|fill| fill.marks.iter().map(move |mark| (fill, mark))))
        .column("file system", |(fill, _)| fill.step.fs.name())
        .column("punched out", |(fill, _)| fill.step.punched.name())
        .column("used (%)", |(_, mark)| mark.used_share * 100.0)
        .column("still came", |(_, mark)| mark.came)
        .column("rule", |(_, mark)| &mark.said.files)
        .column("from", |(_, mark)| &mark.said.low)
        .column("to", |(_, mark)| &mark.said.high)
        .column("ends by", |(_, mark)| mark.said.ends_by.text())
        .column("held", |(_, mark)| if holds(mark) { "yes" } else { "no" })
        .table("marks", "Predictions of the rule at every fullness")
}

fn figure(fill: &Fill) -> Figure {
    let line = |name: &str, mark, number: &dyn Fn(&super::PredictionMark) -> u64| {
        let points = fill.marks.iter().map(|mark| (mark.used_share * 100.0, number(mark) as f64)).collect();
        Series::new(name, mark, points)
    };
    let series = vec![
        line("files that still came", Drawn::Measured, &|mark| mark.came),
        line("rule", Drawn::Predicted, &|mark| mark.said.files),
        line("rule, at least", Drawn::Predicted, &|mark| mark.said.low),
        line("rule, at most", Drawn::Predicted, &|mark| mark.said.high),
    ];
    Figure {
        id: format!("fill-{}-{}", fill.step.fs.name(), fill.step.punched.name().replace(' ', "-")),
        title: format!("{}, {} blocks punched out", fill.step.fs.name(), fill.step.punched.name()),
        caption: "Files that could still be created at every fullness, and the prediction of the rule.".into(),
        device: "image in memory".into(),
        better: Better::Neither,
        kind: FigureKind::Lines {
            x: Axis::linear("blocks used (%)"),
            y: Axis::linear("files to come").from_zero(),
            series,
        },
    }
}
