//! Tables and figures of the fills.

use super::{Fill, Spec, error, holds};
use senesce_core::Table;
use senesce_core::analysis::{Analysis, Axis, Better, Figure, FigureKind, Mark as Drawn, Series};
use serde_json::json;

pub(super) fn analysis(spec: &Spec, fills: &[Fill]) -> Analysis {
    let early = fills.iter().filter(|fill| fill.used_share < 0.95).count();
    let held: usize = fills.iter().map(|fill| fill.marks.iter().filter(|mark| holds(mark)).count()).sum();
    let marks: usize = fills.iter().map(|fill| fill.marks.len()).sum();
    let same = fills.iter().filter(|fill| fill.twin_files == fill.files && fill.twin_ends_by == fill.ends_by).count();
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
        tables: vec![table(fills), marks_table(fills)],
        result: json!({ "fills": fills }),
        ..Analysis::default()
    }
}

fn table(fills: &[Fill]) -> Table {
    let columns = [
        "file system",
        "punched out",
        "files",
        "ended by",
        "used (%)",
        "free (MiB)",
        "rule",
        "from",
        "to",
        "error (%)",
        "twin",
        "error (%) of the twin",
    ];
    let mut table =
        Table::new("fills", "Files until the first failure, and the predictions before the first file", &columns);
    for fill in fills {
        let Some(first) = fill.marks.first() else { continue };
        table.row((
            fill.step.fs.name(),
            fill.step.punched.name(),
            &fill.files,
            fill.ends_by.text(),
            fill.used_share * 100.0,
            fill.free_bytes >> 20,
            &first.said.files,
            &first.said.low,
            &first.said.high,
            error(first.said.files, fill.files),
            fill.twin_files,
            error(fill.twin_files, fill.files),
        ));
    }
    table
}

fn marks_table(fills: &[Fill]) -> Table {
    let columns = ["file system", "punched out", "used (%)", "still came", "rule", "from", "to", "ends by", "held"];
    let mut table = Table::new("marks", "Predictions of the rule at every fullness", &columns);
    for fill in fills {
        for mark in &fill.marks {
            table.row((
                fill.step.fs.name(),
                fill.step.punched.name(),
                mark.used_share * 100.0,
                mark.came,
                &mark.said.files,
                &mark.said.low,
                &mark.said.high,
                mark.said.ends_by.text(),
                if holds(mark) { "yes" } else { "no" },
            ));
        }
    }
    table
}

fn figure(fill: &Fill) -> Figure {
    let line = |name: &str, mark, number: &dyn Fn(&super::Mark) -> u64| {
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
