//! Elements of a drawing, before they are written as SVG or PDF.

use super::{Anchor, escape, n};
use std::fmt::Write;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Paint {
    pub no_stroke: bool,
    /// Opacity of the fill, 0 to 1; `None`: 1.
    pub fill_opacity: Option<f64>,
    /// Width of the outline; `None`: 1.
    pub width: Option<f64>,
    /// Lengths of dashes and gaps; empty: a solid line.
    pub dashes: Vec<f64>,
}

impl Paint {
    pub(crate) fn filled(opacity: Option<f64>) -> Self {
        Self { no_stroke: true, fill_opacity: opacity, ..Self::default() }
    }

    fn attributes(&self) -> String {
        let mut text = String::new();
        if self.no_stroke {
            text += " style=\"stroke:none\"";
        }
        if let Some(opacity) = self.fill_opacity {
            let _ = write!(text, " fill-opacity=\"{opacity}\"");
        }
        if let Some(width) = self.width {
            let _ = write!(text, " stroke-width=\"{width}\"");
        }
        if !self.dashes.is_empty() {
            let dashes: Vec<String> = self.dashes.iter().copied().map(n).collect();
            let _ = write!(text, " stroke-dasharray=\"{}\"", dashes.join(" "));
        }
        text
    }
}

/// One element; lengths in drawing units, y downwards.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    Text {
        x: f64,
        y: f64,
        anchor: Anchor,
        /// Clockwise rotation around the anchor; `None`: level.
        degrees: Option<f64>,
        /// Class of its colour; empty: ink.
        class: &'static str,
        size: f64,
        text: String,
    },
    Path {
        class: String,
        paint: Paint,
        path: String,
        /// Tooltip; may be empty.
        hover: String,
    },
}

impl Item {
    pub(crate) fn markup(&self) -> String {
        match self {
            Self::Text { x, y, anchor, degrees: None, class, size, text } => {
                let anchor = match anchor {
                    Anchor::Start => "",
                    Anchor::Middle => " text-anchor=\"middle\"",
                    Anchor::End => " text-anchor=\"end\"",
                };
                let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
                let (x, y, size, text) = (n(*x), n(*y), n(*size), escape(text));
                format!("<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}{class}>{text}</text>")
            }
            Self::Text { x, y, anchor, degrees: Some(degrees), size, text, .. } => {
                let anchor = if *anchor == Anchor::End { "end" } else { "start" };
                let (x, y, degrees, size, text) = (n(*x), n(*y), n(*degrees), n(*size), escape(text));
                format!(
                    "<text transform=\"translate({x} {y}) rotate({degrees})\" font-size=\"{size}\" text-anchor=\"{anchor}\">{text}</text>"
                )
            }
            Self::Path { class, paint, path, hover } => {
                let attributes = paint.attributes();
                match hover.is_empty() {
                    true => format!("<path class=\"{class}\"{attributes} d=\"{path}\"/>"),
                    false => {
                        let hover = escape(hover);
                        format!("<path class=\"{class}\"{attributes} d=\"{path}\"><title>{hover}</title></path>")
                    }
                }
            }
        }
    }
}
