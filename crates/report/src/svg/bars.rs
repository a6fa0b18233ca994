//! Grouped bars with their values written on them.

use super::frame::{self, ExtraSpace, Frame, Sample};
use super::paint::{self, SeriesStyle};
use super::scale::AxisScale;
use super::{Anchor, Canvas, lines, text};
use crate::number;
use senesce_core::analysis::{Axis, Figure, Scale, Series};

/// Maximum number of values behind a bar that are drawn individually.
const SINGLE: usize = 12;

struct Bar<'a> {
    series: &'a Series,
    index: usize,
    look: &'a SeriesStyle,
    left: f64,
    width: f64,
}

pub(super) fn draw(canvas: &mut Canvas, figure: &Figure, x: &Axis, y: &Axis, series: &[Series]) -> Vec<String> {
    let looks = paint::series_styles(series);
    if frame::needs_legend(series, &looks) {
        let entries: Vec<(String, SeriesStyle)> =
            series.iter().zip(&looks).map(|(one, look)| (frame::legend_name(one, look), look.clone())).collect();
        frame::legend(canvas, &entries, Sample::Fill);
    }
    let x = &with_categories(x, series);
    let labels = value_labels(canvas, x, y, series);
    let frame = frame::frame(
        canvas,
        figure,
        (x, y),
        scales(x, y, series),
        ExtraSpace { right: 0.0, headroom: labels.headroom },
    );
    let slot = frame.width / x.categories.len().max(1) as f64;
    let width = bar_width(slot, series.len());
    let mut missing = 0;
    for (order, (one, look)) in series.iter().zip(&looks).enumerate() {
        canvas.series = Some(order);
        for index in 0..one.points.len() {
            let category = one.points[index].0;
            if !(0.0..x.categories.len() as f64 - 0.5).contains(&category) {
                missing += 1;
                continue;
            }
            let group = frame.left + (category.round() + 0.5) * slot - width * series.len() as f64 / 2.0;
            let bar = Bar { series: one, index, look, left: group + width * order as f64, width };
            missing += usize::from(!draw_bar(canvas, &frame, (x, y), &bar, &labels));
        }
    }
    canvas.series = None;
    baseline(canvas, &frame);
    match missing {
        0 => Vec::new(),
        count => vec![format!("Marked ×: {count} without a valid value, therefore without a bar.")],
    }
}

/// Gives a numeric axis a category for every whole number from 0 to the maximum x value, at most 999.
fn with_categories(x: &Axis, series: &[Series]) -> Axis {
    let mut x = x.clone();
    if x.categories.is_empty() {
        let last = series.iter().flat_map(|one| one.points.iter().map(|point| point.0)).fold(0.0, f64::max);
        x.categories = (0..=last.clamp(0.0, 999.0) as usize).map(|place| place.to_string()).collect();
    }
    x
}

fn scales(x: &Axis, y: &Axis, series: &[Series]) -> (AxisScale, AxisScale) {
    let heights = series.iter().flat_map(|one| {
        let ends =
            (0..one.points.len()).filter_map(|index| frame::interval(one, index)).flat_map(|(low, high)| [low, high]);
        let shown = one.values.iter().filter(|values| values.len() <= SINGLE).flatten().copied();
        one.points.iter().map(|point| point.1).chain(ends).chain(shown)
    });
    (AxisScale::fit(x, std::iter::empty(), false, 5), AxisScale::fit(y, heights, y.min.is_none(), 5))
}

fn bar_width(slot: f64, bars: usize) -> f64 {
    slot * 0.8 / bars.max(1) as f64
}

struct ValueLabels {
    size: f64,
    shown: Option<bool>,
    headroom: f64,
}

fn value_labels(canvas: &Canvas, x: &Axis, y: &Axis, series: &[Series]) -> ValueLabels {
    let em = canvas.em();
    let size = em * 0.85;
    let width = bar_width((canvas.format.width - em * 4.0) / x.categories.len().max(1) as f64, series.len());
    let longest = series
        .iter()
        .flat_map(|one| (0..one.points.len()).map(|index| text::width(&label(one, index, y), size)))
        .fold(0.0, f64::max);
    if longest <= width * 1.15 || (series.len() == 1 && longest <= width * 1.25) {
        ValueLabels { size, shown: Some(false), headroom: em * 1.3 }
    } else if width >= size * 0.95 {
        ValueLabels { size, shown: Some(true), headroom: longest + em * 0.6 }
    } else {
        ValueLabels { size, shown: None, headroom: em * 0.4 }
    }
}

fn label(series: &Series, index: usize, y: &Axis) -> String {
    match series.labels.get(index) {
        Some(text) => text.clone(),
        None => {
            let value = series.points[index].1;
            if y.bytes { number::size(value) } else { short(value) }
        }
    }
}

/// Formats a value with three significant digits and a suffix.
fn short(value: f64) -> String {
    let (divisor, suffix) = match value.abs() {
        large if large >= 1e9 => (1e9, "G"),
        large if large >= 1e6 => (1e6, "M"),
        large if large >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let scaled = value / divisor;
    let decimals = if scaled == 0.0 { 0 } else { (2 - scaled.abs().log10().floor() as i32).clamp(0, 4) as usize };
    let text = format!("{scaled:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.replace('-', "\u{2212}") + suffix
}

/// Draws one bar; false if it has no valid height.
fn draw_bar(canvas: &mut Canvas, frame: &Frame, axes: (&Axis, &Axis), bar: &Bar<'_>, labels: &ValueLabels) -> bool {
    let em = canvas.em();
    let value = bar.series.points[bar.index].1;
    let middle = bar.left + bar.width / 2.0;
    let Some(y) = frame.at_y(value) else {
        canvas.text(middle, frame.base() - em * 0.3, Anchor::Middle, "soft", em, "×");
        return false;
    };
    let (top, bottom) = (y.min(frame.base()), y.max(frame.base()));
    let inset = (bar.width * 0.06).min(em * 0.15);
    let text = frame::hover(bar.series, bar.index, axes);
    let mut above = top;
    // The start of a logarithmic axis, and so the length of a bar, is arbitrary: values are drawn as marks.
    if axes.1.scale == Scale::Linear {
        let area = (bar.left + inset, top, bar.width - 2.0 * inset, (bottom - top).max(0.5));
        frame::fill(canvas, bar.look, area, &text);
    } else {
        frame::draw_mark(canvas, bar.look, middle, y, em * 0.3, &text);
        above = y - em * 0.3;
    }
    above = above.min(single_values(canvas, frame, bar).unwrap_or(above));
    if let Some((low, high)) = frame::interval(bar.series, bar.index)
        && let (Some(low), Some(high)) = (frame.at_y(low), frame.at_y(high))
    {
        let stroke = canvas.stroke(1.0);
        canvas.path("ink l", &stroke, &lines::whisker(middle, low, high, (bar.width * 0.22).min(em * 0.4)), &text);
        above = above.min(high);
    }
    match labels.shown {
        Some(false) => canvas.text(
            middle,
            above - em * 0.3,
            Anchor::Middle,
            "",
            labels.size,
            &label(bar.series, bar.index, axes.1),
        ),
        Some(true) => {
            let place = (middle + labels.size * 0.35, above - em * 0.3);
            canvas.turned_text(
                place.0,
                place.1,
                Anchor::Start,
                -90.0,
                labels.size,
                &label(bar.series, bar.index, axes.1),
            );
        }
        None => {}
    }
    true
}

/// Draws the values behind a bar as dots next to its middle, if there are few; returns the height of the highest.
fn single_values(canvas: &mut Canvas, frame: &Frame, bar: &Bar<'_>) -> Option<f64> {
    let values = bar.series.values.get(bar.index).filter(|values| (2..=SINGLE).contains(&values.len()))?;
    let places: Vec<f64> = values.iter().filter_map(|value| frame.at_y(*value)).collect();
    let (em, space) = (canvas.em(), bar.width * 0.5);
    let step = space / places.len() as f64;
    let left = bar.left + (bar.width - space + step) / 2.0;
    let dot = |(index, y): (usize, &f64)| paint::mark_path(0, left + step * index as f64, *y, em * 0.14);
    let dots: String = places.iter().enumerate().map(dot).collect();
    let stroke = canvas.stroke(0.5);
    canvas.path("halo ink", &stroke, &dots, "");
    places.into_iter().reduce(f64::min)
}

fn baseline(canvas: &mut Canvas, frame: &Frame) {
    let stroke = canvas.stroke(0.7);
    let path = format!("M{} {}h{}", super::n(frame.left), super::n(frame.base()), super::n(frame.width));
    canvas.path("axis", &stroke, &path, "");
}
