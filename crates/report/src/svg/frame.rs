//! Common parts of figures with two axes: labels, legend, margins, grid, ticks.

use super::item::Paint;
use super::paint::{self, SeriesStyle};
use super::scale::AxisScale;
use super::{Anchor, Canvas, better_mark, n, text};
use senesce_core::analysis::{Axis, Figure, Series};

pub(crate) struct Frame {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
    pub x: AxisScale,
    pub y: AxisScale,
    pub headroom: f64,
}

impl Frame {
    pub(crate) fn at_x(&self, value: f64) -> Option<f64> {
        self.x.place(value).map(|share| self.left + share * self.width)
    }

    pub(crate) fn at_x_clamped(&self, value: f64) -> f64 {
        self.left + self.x.place_clamped(value) * self.width
    }

    /// Returns the vertical position of a value, clamped to the frame.
    pub(crate) fn at_y(&self, value: f64) -> Option<f64> {
        self.y.place(value).map(|share| self.level(share.clamp(-0.02, 1.02)))
    }

    pub(crate) fn base(&self) -> f64 {
        self.level(self.y.base())
    }

    fn level(&self, share: f64) -> f64 {
        self.top + self.headroom + (1.0 - share) * (self.height - self.headroom)
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample {
    Line,
    Plain,
    Mark,
    Fill,
}

pub(crate) struct ExtraSpace {
    /// To the right, for labels at the ends of lines.
    pub right: f64,
    pub headroom: f64,
}

/// Draws label, legend, grid and ticks; returns the plotting area.
pub(crate) fn frame(
    canvas: &mut Canvas,
    figure: &Figure,
    axes: (&Axis, &Axis),
    scales: (AxisScale, AxisScale),
    wanted: ExtraSpace,
) -> Frame {
    let em = canvas.em();
    let (x, y) = scales;
    axis_head(canvas, &axes.1.label, better_mark(figure.better));
    let widest = y.ticks.iter().map(|tick| text::width(&tick.label, em * 0.92)).fold(0.0, f64::max);
    let left = (widest + em * 0.6).max(slant_space(canvas, &x, axes.0));
    let width = (canvas.format.width - left - wanted.right.max(em * 0.9)).max(em * 4.0);
    let height = canvas.format.width * canvas.format.aspect;
    let frame = Frame { left, top: canvas.height + em * 0.7, width, height, x, y, headroom: wanted.headroom };
    horizontal_grid(canvas, &frame);
    canvas.height = frame.bottom();
    bottom_axis(canvas, &frame, axes.0);
    frame
}

fn axis_head(canvas: &mut Canvas, label: &str, direction: &str) {
    let em = canvas.em();
    let space = canvas.format.width - text::width(direction, em) - em * 1.5;
    let mut lines = text::wrap(label, em, space.max(canvas.format.width * 0.5));
    if lines.is_empty() {
        lines.push(String::new());
    }
    for (index, line) in lines.iter().enumerate() {
        canvas.height += em * 1.3;
        let y = canvas.height - em * 0.3;
        canvas.text(0.0, y, Anchor::Start, "", em, line);
        if index == 0 && !direction.is_empty() {
            canvas.text(canvas.format.width, y, Anchor::End, "soft", em, direction);
        }
    }
}

fn horizontal_grid(canvas: &mut Canvas, frame: &Frame) {
    let em = canvas.em();
    let mut path = String::new();
    for tick in &frame.y.ticks {
        let Some(y) = frame.at_y(tick.value) else { continue };
        path += &format!("M{} {}h{}", n(frame.left), n(y), n(frame.width));
        canvas.text(frame.left - em * 0.5, y + em * 0.32, Anchor::End, "soft", em * 0.92, &tick.label);
    }
    let stroke = canvas.stroke(0.6);
    canvas.path("grid", &stroke, &path, "");
}

fn bottom_axis(canvas: &mut Canvas, frame: &Frame, axis: &Axis) {
    let em = canvas.em();
    let base = frame.bottom();
    let mut path = format!("M{} {}h{}", n(frame.left), n(base), n(frame.width));
    if axis.categories.is_empty() {
        for tick in &frame.x.ticks {
            if let Some(x) = frame.at_x(tick.value) {
                path += &format!("M{} {}v{}", n(x), n(base), n(em * 0.35));
            }
        }
    }
    let stroke = canvas.stroke(0.7);
    canvas.path("axis", &stroke, &path, "");
    if axis.categories.is_empty() {
        numeric_labels(canvas, frame);
    } else {
        category_labels(canvas, frame);
    }
    if !axis.label.is_empty() {
        for line in text::wrap(&axis.label, em, frame.width) {
            canvas.height += em * 1.3;
            let y = canvas.height - em * 0.2;
            canvas.text(frame.left + frame.width / 2.0, y, Anchor::Middle, "", em, &line);
        }
    }
    canvas.height += em * 0.5;
}

/// Draws the labels of a numeric axis, without those that would touch their neighbour.
fn numeric_labels(canvas: &mut Canvas, frame: &Frame) {
    let (em, size) = (canvas.em(), canvas.em() * 0.92);
    let mut free_from = f64::NEG_INFINITY;
    for tick in &frame.x.ticks {
        let Some(x) = frame.at_x(tick.value) else { continue };
        let half = text::width(&tick.label, size) / 2.0;
        let middle = x.min(canvas.format.width - half);
        if middle - half < free_from {
            continue;
        }
        free_from = middle + half + em * 0.5;
        canvas.text(middle, frame.bottom() + em * 1.4, Anchor::Middle, "soft", size, &tick.label);
    }
    canvas.height += em * 1.7;
}

/// Draws category names: level and wrapped if they fit, otherwise slanted.
fn category_labels(canvas: &mut Canvas, frame: &Frame) {
    let (em, size) = (canvas.em(), canvas.em() * 0.92);
    let slot = frame.width / frame.x.ticks.len().max(1) as f64;
    let wrapped: Vec<Vec<String>> =
        frame.x.ticks.iter().map(|tick| text::wrap(&tick.label, size, (slot - em * 0.4).max(em))).collect();
    let level = lies_level(&frame.x.ticks, size, slot - em * 0.4);
    let centre = |index: usize| frame.left + (index as f64 + 0.5) * slot;
    if level {
        for (index, lines) in wrapped.iter().enumerate() {
            for (row, line) in lines.iter().enumerate() {
                let y = frame.bottom() + em * (1.35 + 1.15 * row as f64);
                canvas.text(centre(index), y, Anchor::Middle, "", size, line);
            }
        }
        let most = wrapped.iter().map(Vec::len).max().unwrap_or(1).max(1);
        canvas.height += em * (0.6 + 1.15 * most as f64);
        return;
    }
    let stride = (size * 1.1 / slot).ceil().max(1.0) as usize;
    let limit = em * 12.0;
    let mut longest: f64 = 0.0;
    for index in (0..frame.x.ticks.len()).step_by(stride) {
        let space = limit.min((centre(index) + em * 0.2) / 0.73);
        let label = text::shorten(&frame.x.ticks[index].label, size, space);
        longest = longest.max(text::width(&label, size));
        canvas.turned_text(centre(index) + em * 0.3, frame.bottom() + em * 1.1, Anchor::End, -45.0, size, &label);
    }
    canvas.height += em * 1.2 + longest * 0.72;
}

/// Returns the space on the left for the slanted name of the first category.
fn slant_space(canvas: &Canvas, x: &AxisScale, axis: &Axis) -> f64 {
    let (em, size) = (canvas.em(), canvas.em() * 0.92);
    let slot = canvas.format.width * 0.9 / x.ticks.len().max(1) as f64;
    if axis.categories.is_empty() || lies_level(&x.ticks, size, slot - em * 0.4) {
        return 0.0;
    }
    text::width(&x.ticks[0].label, size).min(em * 12.0) * 0.73 - slot / 2.0
}

/// Returns whether all names fit into `space` on at most three lines each.
fn lies_level(ticks: &[super::scale::Tick], size: f64, space: f64) -> bool {
    ticks.iter().all(|tick| {
        text::wrap(&tick.label, size, space.max(size)).len() <= 3
            && tick.label.split_whitespace().all(|word| text::width(word, size) <= space)
    })
}

/// Returns the name of a series with its provenance, unless the name contains it.
pub(crate) fn legend_name(series: &Series, look: &SeriesStyle) -> String {
    let said = |word: &str| series.name.to_lowercase().contains(word);
    if look.provenance.is_empty()
        || said(look.provenance)
        || (look.provenance == "target" && (said("predict") || said("law") || said("model")))
    {
        series.name.clone()
    } else {
        format!("{} ({})", series.name, look.provenance)
    }
}

pub(crate) fn needs_legend(series: &[Series], looks: &[SeriesStyle]) -> bool {
    series.len() > 1 || looks.iter().any(|look| !look.provenance.is_empty())
}

pub(crate) fn legend(canvas: &mut Canvas, entries: &[(String, SeriesStyle)], sample: Sample) {
    let em = canvas.em();
    let key = if matches!(sample, Sample::Line | Sample::Plain) { em * 2.0 } else { em };
    let (mut x, mut lines) = (0.0, 1.0);
    let top = canvas.height;
    for (index, (name, look)) in entries.iter().enumerate() {
        canvas.series = Some(index);
        let name = text::shorten(name, em, canvas.format.width - key - em);
        let width = key + em * 0.45 + text::width(&name, em);
        if x > 0.0 && x + width > canvas.format.width {
            (x, lines) = (0.0, lines + 1.0);
        }
        let y = top + lines * em * 1.5 - em * 0.45;
        draw_sample(canvas, look, sample, x, y - em * 0.32, key);
        canvas.text(x + key + em * 0.45, y, Anchor::Start, "", em, &name);
        x += width + em * 1.4;
    }
    canvas.series = None;
    if !entries.is_empty() {
        canvas.height = top + lines * em * 1.5 + em * 0.5;
    }
}

/// Draws one sample of a look, centred on `y`.
pub(crate) fn draw_sample(canvas: &mut Canvas, look: &SeriesStyle, sample: Sample, x: f64, y: f64, width: f64) {
    let em = canvas.em();
    if sample == Sample::Fill {
        let side = em * 0.85;
        fill(canvas, look, (x, y - side / 2.0, width.min(side), side), "");
        return;
    }
    if sample != Sample::Mark {
        let paint = line_paint(canvas, look);
        canvas.path(&format!("{} l", look.class), &paint, &format!("M{} {}h{}", n(x), n(y), n(width)), "");
    }
    if sample == Sample::Mark || (sample == Sample::Line && look.provenance != "target") {
        draw_mark(canvas, look, x + width / 2.0, y, em * 0.27, "");
    }
}

pub(crate) fn line_paint(canvas: &Canvas, look: &SeriesStyle) -> Paint {
    let dashes = look.dash.iter().map(|tenths| f64::from(*tenths) * canvas.em() / 10.0).collect();
    Paint { dashes, ..canvas.stroke(1.4) }
}

pub(crate) fn draw_mark(canvas: &mut Canvas, look: &SeriesStyle, x: f64, y: f64, radius: f64, hover: &str) {
    let class = format!("{} {}", look.class, if look.hollow { "o" } else { "m" });
    let stroke = canvas.stroke(if look.hollow { 1.0 } else { 0.6 });
    let radius = if look.hollow { radius } else { radius + canvas.em() * 0.05 };
    canvas.path(&class, &stroke, &paint::mark_path(look.mark, x, y, radius), hover);
}

/// Draws a rectangle (x, y, width, height) with the look's hatching; published ones are outlined.
pub(crate) fn fill(canvas: &mut Canvas, look: &SeriesStyle, (x, y, width, height): (f64, f64, f64, f64), hover: &str) {
    let em = canvas.em();
    let shape = format!("M{} {}h{}v{}h-{}z", n(x), n(y), n(width), n(height), n(width));
    let paint = match look.provenance {
        "published" => Paint { fill_opacity: Some(0.35), dashes: vec![em * 0.3, em * 0.2], ..canvas.stroke(0.8) },
        _ => Paint::filled(None),
    };
    canvas.path(&look.class, &paint, &shape, hover);
    let stroke = canvas.stroke(0.9);
    canvas.path("hatch", &stroke, &paint::hatch_path(look.hatch, x, y, width, height, em * 0.42), hover);
}

pub(crate) fn hover(series: &Series, index: usize, axes: (&Axis, &Axis)) -> String {
    let (x, y) = series.points[index];
    let place = match axes.0.categories.get(x.round().max(0.0) as usize) {
        Some(name) => name.clone(),
        None => crate::number::axis_value(x, axes.0.bytes),
    };
    let mut text = format!("{} · {place}: {}", series.name, crate::number::axis_value(y, axes.1.bytes));
    if let Some(label) = series.labels.get(index).filter(|label| !label.is_empty()) {
        text += &format!(" ({label})");
    }
    if let Some((low, high)) = interval(series, index) {
        text += &format!(
            " [{} to {}]",
            crate::number::axis_value(low, axes.1.bytes),
            crate::number::axis_value(high, axes.1.bytes)
        );
    }
    text
}

pub(crate) fn interval(series: &Series, index: usize) -> Option<(f64, f64)> {
    series.intervals.get(index).copied().filter(|(low, high)| low.is_finite() && high.is_finite())
}

pub(crate) fn omitted_note(count: usize) -> Vec<String> {
    match count {
        0 => Vec::new(),
        1 => vec!["One value that is zero, negative on a logarithmic axis, or not a number is not drawn.".into()],
        many => vec![format!(
            "{many} values that are zero or negative on a logarithmic axis, or not numbers, are not drawn."
        )],
    }
}
