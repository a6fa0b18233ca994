//! A figure as PDF at column width, with an embedded font.
//!
//! The font is part of the program (a subset of DejaVu Sans Condensed), so that a figure gives the same file on a machine without
//! fonts.

mod font;
mod outline;

use crate::svg::item::{Item, Paint};
use crate::svg::paint::{self, Colour};
use crate::svg::{self, Anchor, Format};
use font::Font;
use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect, Ref, Str};
use senesce_core::analysis::Figure;
use senesce_core::failure::{Classify, ExitCode};
use std::collections::BTreeSet;

const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);
/// The font uses this number and the next four.
const FONT: Ref = Ref::new(5);
const FONT_NAME: Name<'_> = Name(b"F");

#[derive(Debug, thiserror::Error)]
#[error("cannot draw figure '{figure}' as PDF: {problem}; its SVG form is not affected")]
pub struct PdfError {
    figure: String,
    problem: String,
}

impl Classify for PdfError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::RunFailed
    }
}

/// Renders a one-page PDF of width [`Format::COLUMN`].
pub fn render_pdf(figure: &Figure) -> Result<Vec<u8>, PdfError> {
    let error = |problem: String| PdfError { figure: figure.id.clone(), problem };
    let canvas = svg::compose(figure, Format::COLUMN);
    let font = Font::new().map_err(error)?;
    let page = Page::draw(&canvas.items, canvas.height.ceil(), font).map_err(error)?;
    Ok(page.file(canvas.format.width, canvas.height.ceil()))
}

struct Page {
    content: Content,
    font: Font,
    opacities: BTreeSet<u8>,
}

impl Page {
    fn draw(items: &[Item], height: f64, font: Font) -> Result<Self, String> {
        let mut page = Self { content: Content::new(), font, opacities: BTreeSet::new() };
        // The drawing's y axis points downwards, that of a page upwards.
        page.content.transform([1.0, 0.0, 0.0, -1.0, 0.0, height as f32]);
        for item in items {
            match item {
                Item::Path { class, paint, path, .. } => page.path(class, paint, path)?,
                Item::Text { x, y, anchor, degrees, class, size, text } => {
                    page.text((*x, *y), *anchor, degrees.unwrap_or(0.0), (class, *size), text);
                }
            }
        }
        Ok(page)
    }

    fn path(&mut self, class: &str, paint: &Paint, path: &str) -> Result<(), String> {
        let colours = paint::colours(class);
        let stroke = colours.stroke.filter(|_| !paint.no_stroke);
        if colours.fill.is_none() && stroke.is_none() {
            return Ok(());
        }
        let content = &mut self.content;
        content.save_state();
        if let Some(opacity) = paint.fill_opacity {
            let percent = (opacity * 100.0).round() as u8;
            self.opacities.insert(percent);
            content.set_parameters(Name(opacity_name(percent).as_bytes()));
        }
        if let Some(fill) = colours.fill {
            let [red, green, blue] = parts(fill);
            content.set_fill_rgb(red, green, blue);
        }
        if let Some(stroke) = stroke {
            let [red, green, blue] = parts(stroke);
            content.set_stroke_rgb(red, green, blue);
            content.set_line_width(paint.width.unwrap_or(1.0) as f32);
            if !paint.dashes.is_empty() {
                content.set_dash_pattern(paint.dashes.iter().map(|length| *length as f32), 0.0);
            }
            if colours.round {
                content.set_line_cap(LineCapStyle::RoundCap).set_line_join(LineJoinStyle::RoundJoin);
            }
        }
        outline::trace(path, content)?;
        match (colours.fill.is_some(), stroke.is_some()) {
            (true, true) => content.fill_nonzero_and_stroke(),
            (true, false) => content.fill_nonzero(),
            _ => content.stroke(),
        };
        content.restore_state();
        Ok(())
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, degrees: f64, (class, size): (&str, f64), text: &str) {
        let glyphs = self.font.glyphs(text);
        let before = self.font.width(&glyphs, size)
            * match anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => 0.5,
                Anchor::End => 1.0,
            };
        let (sin, cos) = degrees.to_radians().sin_cos();
        let (x, y) = (x - before * cos, y - before * sin);
        let [red, green, blue] = parts(paint::text_colour(class));
        let encoded: Vec<u8> = glyphs.iter().flat_map(|glyph| glyph.to_be_bytes()).collect();
        self.content.set_fill_rgb(red, green, blue);
        self.content.begin_text().set_font(FONT_NAME, size as f32);
        // Letters are upright although y points downwards.
        self.content.set_text_matrix([cos as f32, sin as f32, sin as f32, -cos as f32, x as f32, y as f32]);
        self.content.show(Str(&encoded)).end_text();
    }

    fn file(self, width: f64, height: f64) -> Vec<u8> {
        let mut pdf = Pdf::new();
        pdf.catalog(CATALOG).pages(PAGES);
        pdf.pages(PAGES).kids([PAGE]).count(1);
        let mut page = pdf.page(PAGE);
        page.media_box(Rect::new(0.0, 0.0, width as f32, height as f32)).parent(PAGES).contents(CONTENT);
        let mut resources = page.resources();
        resources.fonts().pair(FONT_NAME, FONT);
        let mut states = resources.ext_g_states();
        for percent in &self.opacities {
            let name = opacity_name(*percent);
            let mut state = states.insert(Name(name.as_bytes())).start::<pdf_writer::writers::ExtGraphicsState<'_>>();
            state.non_stroking_alpha(f32::from(*percent) / 100.0);
        }
        states.finish();
        resources.finish();
        page.finish();
        pdf.stream(CONTENT, &compress(&self.content.finish())).filter(Filter::FlateDecode);
        self.font.write(&mut pdf, FONT);
        pdf.finish()
    }
}

fn opacity_name(percent: u8) -> String {
    format!("O{percent}")
}

fn parts(colour: Colour) -> [f32; 3] {
    colour.map(|part| f32::from(part) / 255.0)
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes every byte")
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::analysis::{Axis, Better, FigureKind, Mark, Series};

    fn figure() -> Figure {
        let series = vec![Series::new("ext4", Mark::Measured, vec![(1.0, 2.0), (2.0, 3.0)])];
        let kind = FigureKind::Lines { x: Axis::linear("Overwrites"), y: Axis::linear("Operations/s"), series };
        Figure {
            id: "f".into(),
            title: "F".into(),
            caption: String::new(),
            device: "a device".into(),
            better: Better::Higher,
            kind,
        }
    }

    #[test]
    fn pdf_embeds_its_font_and_is_reproducible() {
        let first = render_pdf(&figure()).unwrap();
        assert!(first.starts_with(b"%PDF-"));
        assert!(first.windows(9).any(|bytes| bytes == b"FontFile2"));
        assert_eq!(first, render_pdf(&figure()).unwrap());
    }

    #[test]
    fn every_item_of_the_drawing_is_on_the_page() {
        let canvas = svg::compose(&figure(), Format::COLUMN);
        let page = Page::draw(&canvas.items, 100.0, Font::new().unwrap()).unwrap();
        let content = String::from_utf8_lossy(&page.content.finish()).into_owned();
        let is_shown = |item: &&Item| match item {
            Item::Path { class, .. } => class != "hit",
            Item::Text { .. } => true,
        };
        let drawn = content.lines().filter(|line| matches!(*line, "f" | "S" | "B") || line.ends_with("Tj")).count();
        assert_eq!(drawn, canvas.items.iter().filter(is_shown).count(), "{content}");
    }
}
