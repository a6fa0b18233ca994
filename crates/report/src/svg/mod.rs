//! Figures as SVG: no script, no external font, no ids, the same bytes for the same figure.

mod bars;
mod cells;
mod frame;
pub(crate) mod item;
mod lines;
pub(crate) mod paint;
pub(crate) mod scale;
mod steps;
pub(crate) mod text;

use item::{Item, Paint};
use senesce_core::analysis::{Better, Figure, FigureKind};
use senesce_core::text::{is_obeyed, visible};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Format {
    /// Width of the drawing in pixels (points in print).
    pub width: f64,
    /// Font size in the same unit; marks, gaps and strokes scale with it.
    pub font: f64,
    /// Height of the plotting area over the width of the drawing.
    pub aspect: f64,
    /// Whether the drawing stands alone and must show its device.
    pub alone: bool,
    pub title: bool,
}

impl Format {
    pub(crate) const WIDE: Self = Self { width: 760.0, font: 13.0, aspect: 0.46, alone: false, title: false };
    /// For a page of 400 pixels.
    pub(crate) const NARROW: Self = Self { width: 360.0, font: 12.0, aspect: 0.62, alone: false, title: false };
    pub(crate) const FILE: Self = Self { alone: true, title: true, ..Self::WIDE };
    /// One column of a two-column paper: 3.33 inches (ACM and USENIX styles), 7.5 point text.
    pub(crate) const COLUMN: Self = Self { width: 240.0, font: 7.5, aspect: 0.55, alone: true, title: false };
}

pub fn render_svg(figure: &Figure) -> String {
    let style = format!("<style>{}{}</style>", paint::properties(), paint::rules());
    draw(figure, Format::FILE, &style)
}

/// Draws a figure as SVG. `style` is embedded; it is empty if the page defines the rules.
pub(crate) fn draw(figure: &Figure, format: Format, style: &str) -> String {
    compose(figure, format).finish(figure, style)
}

pub(crate) fn compose(figure: &Figure, format: Format) -> Canvas {
    let mut canvas = Canvas::new(format);
    if format.title {
        canvas.heading(&figure.title);
    }
    let foot = match &figure.kind {
        FigureKind::Lines { x, y, series } => lines::draw(&mut canvas, figure, x, y, series, true),
        FigureKind::Scatter { x, y, series } => lines::draw(&mut canvas, figure, x, y, series, false),
        FigureKind::Bars { x, y, series } => bars::draw(&mut canvas, figure, x, y, series),
        FigureKind::Steps { x, y, series } => steps::draw(&mut canvas, figure, x, y, series),
        FigureKind::Cells { rows, heads, legend, unit } => cells::draw(&mut canvas, rows, heads, legend, unit),
    };
    canvas.foot(if format.alone { &figure.device } else { "" }, foot);
    canvas
}

pub(crate) fn better_text(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
        Better::Neither => "description, neither direction is better",
    }
}

/// Returns which direction is better, with an arrow, for labels.
pub(crate) fn better_mark(better: Better) -> &'static str {
    match better {
        Better::Higher => "↑ higher is better",
        Better::Lower => "↓ lower is better",
        Better::Neither => "",
    }
}

/// Formats a coordinate with at most one decimal.
pub(crate) fn n(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded == 0.0 { "0".into() } else { format!("{rounded}") }
}

pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' | '\n' | '\r' => safe.push(' '),
            control if is_obeyed(control) => safe.push_str(&visible(control.encode_utf8(&mut [0; 4]))),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

pub(crate) struct Canvas {
    pub format: Format,
    pub items: Vec<Item>,
    pub height: f64,
    /// The current series; `None` for common parts.
    pub series: Option<usize>,
    owners: Vec<Option<usize>>,
}

impl Canvas {
    fn new(format: Format) -> Self {
        Self { format, items: Vec::new(), height: 0.0, series: None, owners: Vec::new() }
    }

    fn put(&mut self, item: Item) {
        self.items.push(item);
        self.owners.push(self.series);
    }

    /// Makes all items so far common to all series.
    fn disown(&mut self) {
        self.owners.fill(None);
    }

    fn markup(&self) -> String {
        let mut text = String::new();
        let mut open = None;
        for (item, owner) in self.items.iter().zip(&self.owners) {
            if *owner != open {
                text += if open.is_some() { "</g>" } else { "" };
                text += &owner.map_or_else(String::new, |series| format!("<g data-s=\"{series}\">"));
                open = *owner;
            }
            text += &item.markup();
        }
        text + if open.is_some() { "</g>" } else { "" }
    }

    pub(crate) fn em(&self) -> f64 {
        self.format.font
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &'static str, size: f64, text: &str) {
        self.put(Item::Text { x, y, anchor, degrees: None, class, size, text: text.into() });
    }

    /// Adds text rotated by `degrees` around its anchor.
    pub(crate) fn turned_text(&mut self, x: f64, y: f64, anchor: Anchor, degrees: f64, size: f64, text: &str) {
        self.put(Item::Text { x, y, anchor, degrees: Some(degrees), class: "", size, text: text.into() });
    }

    /// Adds a path, with a tooltip unless `hover` is empty.
    pub(crate) fn path(&mut self, class: &str, paint: &Paint, path: &str, hover: &str) {
        if !path.is_empty() {
            let (class, paint) = (class.into(), paint.clone());
            self.put(Item::Path { class, paint, path: path.into(), hover: hover.into() });
        }
    }

    /// Returns a stroke of `tenths` of the font size.
    pub(crate) fn stroke(&self, tenths: f64) -> Paint {
        Paint { width: Some((tenths * self.em() * 10.0).round() / 100.0), ..Paint::default() }
    }

    fn heading(&mut self, title: &str) {
        let size = self.em() * 1.2;
        for line in text::wrap(title, size, self.format.width - 4.0) {
            self.height += size * 1.3;
            self.text(0.0, self.height - size * 0.25, Anchor::Start, "title", size, &line);
        }
        self.height += size * 0.4;
    }

    /// Adds the last lines: notes about omitted values, and the device.
    fn foot(&mut self, device: &str, notes: Vec<String>) {
        let size = self.em() * 0.88;
        let device = if device.is_empty() { Vec::new() } else { vec![device.to_string()] };
        for text in notes.into_iter().chain(device) {
            for line in text::wrap(&text, size, self.format.width) {
                self.height += size * 1.35;
                self.text(0.0, self.height - size * 0.3, Anchor::Start, "soft", size, &line);
            }
        }
        self.height += size * 0.2;
    }

    fn finish(self, figure: &Figure, style: &str) -> String {
        let label = [figure.title.as_str(), better_text(figure.better), figure.device.as_str()]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join("; ");
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fig\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\">{style}{}</svg>",
            escape(&label),
            self.markup(),
            w = n(self.format.width),
            h = n(self.height.ceil()),
        )
    }
}
