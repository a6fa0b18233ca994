//! Lines with marks, and scatter plots.

use super::frame::{self, ExtraSpace, Frame, Sample};
use super::item::Paint;
use super::paint::{self, SeriesStyle};
use super::scale::AxisScale;
use super::{Anchor, Canvas, n, text};
use senesce_core::analysis::{Axis, Figure, Series};

/// Maximum points of a series with individual marks in a line figure; denser lines get occasional marks.
const MARKED: usize = 32;
/// Maximum points with tooltips.
const HOVERED: usize = 160;
/// Maximum points of a series drawn as individual marks in a scatter figure.
const SINGLE: usize = 400;

pub(super) fn draw(
    canvas: &mut Canvas,
    figure: &Figure,
    x: &Axis,
    y: &Axis,
    series: &[Series],
    joined: bool,
) -> Vec<String> {
    let em = canvas.em();
    let looks = paint::series_styles(series);
    let entries: Vec<(String, SeriesStyle)> =
        series.iter().zip(&looks).map(|(one, look)| (frame::legend_name(one, look), look.clone())).collect();
    let named = frame::needs_legend(series, &looks);
    let at_ends = joined && named && fits_next_to(canvas, &entries);
    if named && !at_ends {
        frame::legend(canvas, &entries, if joined { Sample::Line } else { Sample::Mark });
    }
    let right = if at_ends {
        entries.iter().map(|(name, _)| text::width(name, em)).fold(0.0, f64::max) + em * 2.3
    } else {
        0.0
    };
    let scales = scales(canvas, x, y, series);
    let frame = frame::frame(canvas, figure, (x, y), scales, ExtraSpace { right, headroom: 0.0 });
    let mut omitted = 0;
    for (index, (one, look)) in series.iter().zip(&looks).enumerate() {
        canvas.series = Some(index);
        omitted += draw_series(canvas, &frame, (x, y), one, look, joined);
    }
    canvas.series = None;
    if at_ends {
        end_labels(canvas, &frame, series, &entries);
    }
    frame::omitted_note(omitted)
}

fn fits_next_to(canvas: &Canvas, entries: &[(String, SeriesStyle)]) -> bool {
    let longest = entries.iter().map(|(name, _)| text::width(name, canvas.em())).fold(0.0, f64::max);
    entries.len() <= 7 && canvas.format.width >= canvas.em() * 50.0 && longest <= canvas.format.width * 0.24
}

pub(super) fn scales(canvas: &Canvas, x: &Axis, y: &Axis, series: &[Series]) -> (AxisScale, AxisScale) {
    let target = (canvas.format.width / canvas.em() / 7.5).clamp(3.0, 9.0) as usize;
    let xs = series.iter().flat_map(|one| one.points.iter().map(|point| point.0));
    let ys = series.iter().flat_map(|one| {
        let ends = one.intervals.iter().flat_map(|&(low, high)| [low, high]);
        one.points.iter().map(|point| point.1).chain(ends)
    });
    let mut x = x.clone();
    if x.categories.is_empty() && x.scale == senesce_core::Scale::Linear {
        tighten(&mut x, series);
    }
    (AxisScale::fit(&x, xs, false, target), AxisScale::fit(y, ys, false, 5))
}

/// Ends a horizontal linear axis with its data instead of the next round number.
fn tighten(axis: &mut Axis, series: &[Series]) {
    let xs = || series.iter().flat_map(|one| one.points.iter().map(|point| point.0)).filter(|x| x.is_finite());
    let (low, high) = xs().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    if high > low {
        let from = if low > 0.0 && low < 0.25 * high { 0.0 } else { low };
        axis.min = axis.min.or(Some(from));
        axis.max = axis.max.or(Some(high));
    }
}

fn draw_series(
    canvas: &mut Canvas,
    frame: &Frame,
    axes: (&Axis, &Axis),
    series: &Series,
    look: &SeriesStyle,
    joined: bool,
) -> usize {
    let places: Vec<Option<(f64, f64)>> =
        series.points.iter().map(|&(x, y)| Some((frame.at_x(x)?, frame.at_y(y)?))).collect();
    draw_intervals(canvas, frame, series, look, joined);
    if joined {
        let paint = frame::line_paint(canvas, look);
        canvas.path(&format!("{} l", look.class), &paint, &line_path(&places), "");
        draw_line_marks(canvas, axes, series, look, &places);
    } else {
        draw_scatter_marks(canvas, axes, series, look, &places);
    }
    places.iter().filter(|place| place.is_none()).count()
}

/// Returns the path of a polyline. Many points in one pixel column are reduced to the first, lowest, highest and last,
/// which looks the same.
fn line_path(places: &[Option<(f64, f64)>]) -> String {
    let mut path = String::new();
    for part in places.split(|place| place.is_none()) {
        let points: Vec<(f64, f64)> = part.iter().flatten().copied().collect();
        for (index, (x, y)) in thin(&points).into_iter().enumerate() {
            path += &format!("{}{} {}", if index == 0 { "M" } else { "L" }, n(x), n(y));
        }
    }
    path
}

fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 1200 {
        return points.to_vec();
    }
    let same_column = |a: &(f64, f64), b: &(f64, f64)| a.0.floor() == b.0.floor();
    let mut kept = Vec::new();
    for column in points.chunk_by(same_column) {
        let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let ends = [column.first(), column.iter().min_by(by_height), column.iter().max_by(by_height), column.last()];
        for point in ends.into_iter().flatten() {
            if kept.last() != Some(point) {
                kept.push(*point);
            }
        }
    }
    kept
}

fn draw_line_marks(
    canvas: &mut Canvas,
    axes: (&Axis, &Axis),
    series: &Series,
    look: &SeriesStyle,
    places: &[Option<(f64, f64)>],
) {
    let em = canvas.em();
    let unmarked = look.provenance == "target";
    let mark_every = places.len().div_ceil(MARKED).max(if places.len() > MARKED { places.len() / 9 } else { 1 });
    let hover_every = places.len().div_ceil(HOVERED);
    for (index, place) in places.iter().enumerate() {
        let Some((x, y)) = *place else { continue };
        let marked = !unmarked && index % mark_every == mark_every / 2;
        if !marked && index % hover_every != 0 {
            continue;
        }
        let text = frame::hover(series, index, axes);
        if marked {
            frame::draw_mark(canvas, look, x, y, em * 0.27, &text);
        } else {
            canvas.path("hit", &Paint::default(), &paint::mark_path(1, x, y, em * 0.4), &text);
        }
    }
}

fn draw_scatter_marks(
    canvas: &mut Canvas,
    axes: (&Axis, &Axis),
    series: &Series,
    look: &SeriesStyle,
    places: &[Option<(f64, f64)>],
) {
    let em = canvas.em();
    if places.len() <= SINGLE {
        for (index, place) in places.iter().enumerate() {
            if let Some((x, y)) = *place {
                frame::draw_mark(canvas, look, x, y, em * 0.24, &frame::hover(series, index, axes));
            }
        }
        return;
    }
    let dots: String = places.iter().flatten().map(|&(x, y)| paint::mark_path(1, x, y, em * 0.1)).collect();
    canvas.path(&look.class, &Paint::filled(Some(0.55)), &dots, "");
    for index in (0..places.len()).step_by(places.len().div_ceil(HOVERED)) {
        if let Some((x, y)) = places[index] {
            canvas.path(
                "hit",
                &Paint::default(),
                &paint::mark_path(1, x, y, em * 0.4),
                &frame::hover(series, index, axes),
            );
        }
    }
}

/// Intervals: whiskers for few points, a band along a dense line.
fn draw_intervals(canvas: &mut Canvas, frame: &Frame, series: &Series, look: &SeriesStyle, joined: bool) {
    let ends: Vec<(f64, f64, f64)> = (0..series.points.len())
        .filter_map(|index| {
            let (low, high) = frame::interval(series, index)?;
            Some((frame.at_x(series.points[index].0)?, frame.at_y(low)?, frame.at_y(high)?))
        })
        .collect();
    if ends.is_empty() {
        return;
    }
    if joined && ends.len() > MARKED {
        let upper = ends.iter().map(|(x, _, high)| format!("{} {}", n(*x), n(*high)));
        let lower = ends.iter().rev().map(|(x, low, _)| format!("{} {}", n(*x), n(*low)));
        let band = format!("M{}z", upper.chain(lower).collect::<Vec<_>>().join("L"));
        canvas.path(&look.class, &Paint::filled(Some(0.16)), &band, "");
        return;
    }
    let half = canvas.em() * 0.25;
    let whiskers: String = ends.iter().map(|&(x, low, high)| whisker(x, low, high, half)).collect();
    let stroke = canvas.stroke(0.9);
    canvas.path(&format!("{} l", look.class), &stroke, &whiskers, "");
}

pub(super) fn whisker(x: f64, low: f64, high: f64, half: f64) -> String {
    let (left, width) = (n(x - half), n(2.0 * half));
    format!("M{left} {l}h{width}M{left} {h}h{width}M{x} {l}V{h}", l = n(low), h = n(high), x = n(x))
}

/// Draws names at the ends of their lines, moved apart if they would touch.
fn end_labels(canvas: &mut Canvas, frame: &Frame, series: &[Series], entries: &[(String, SeriesStyle)]) {
    let em = canvas.em();
    let gap = em * 1.25;
    let mut labels: Vec<(f64, usize)> = series
        .iter()
        .enumerate()
        .map(|(index, one)| {
            let last = one.points.iter().rev().find_map(|&(x, y)| frame.at_x(x).and(frame.at_y(y)));
            (last.unwrap_or(frame.bottom()), index)
        })
        .collect();
    labels.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for index in 1..labels.len() {
        labels[index].0 = labels[index].0.max(labels[index - 1].0 + gap);
    }
    let overshoot = labels.last().map_or(0.0, |last| (last.0 - frame.bottom()).max(0.0));
    if overshoot > 0.0 {
        let mut limit = frame.bottom();
        for label in labels.iter_mut().rev() {
            label.0 = label.0.min(limit);
            limit = label.0 - gap;
        }
    }
    let x = frame.left + frame.width + em * 0.9;
    for (y, index) in labels {
        canvas.series = Some(index);
        frame::draw_sample(canvas, &entries[index].1, Sample::Line, x, y, em * 0.9);
        canvas.text(x + em * 1.2, y + em * 0.34, Anchor::Start, "", em, &entries[index].0);
    }
    canvas.series = None;
}
