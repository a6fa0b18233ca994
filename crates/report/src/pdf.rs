//! A figure as PDF at column width, with its font embedded.
//!
//! The font is part of the program (a subset of DejaVu Sans Condensed), so that the same figure is the same file on a
//! machine without fonts.

use crate::svg::{self, Format, paint};
use senesce_core::analysis::Figure;
use senesce_core::failure::{Classify, ExitCode};
use std::sync::{Arc, OnceLock};
use svg2pdf::usvg;

const FONT: &[u8] = include_bytes!("../fonts/DejaVuSansCondensed-subset.ttf");
const FAMILY: &str = "DejaVu Sans";

/// A figure could not be turned into PDF.
#[derive(Debug, thiserror::Error)]
#[error("draw figure '{figure}' as PDF: {problem}; its SVG form is not affected")]
pub struct PdfError {
    figure: String,
    problem: String,
}

impl Classify for PdfError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::RunFailed
    }
}

/// The figure, [`Format::COLUMN`] wide, as a one-page PDF.
pub fn render_pdf(figure: &Figure) -> Result<Vec<u8>, PdfError> {
    let error = |problem: String| PdfError { figure: figure.id.clone(), problem };
    let style = format!("<style>{}svg.fig text{{font-family:'{FAMILY}'}}</style>", paint::literal_rules());
    let drawing = svg::draw(figure, Format::COLUMN, &style);
    let options = usvg::Options { fontdb: fonts(), font_family: FAMILY.into(), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(&drawing, &options).map_err(|problem| error(problem.to_string()))?;
    let page = svg2pdf::PageOptions { dpi: 72.0 };
    svg2pdf::to_pdf(&tree, svg2pdf::ConversionOptions::default(), page)
        .map(with_sorted_resources)
        .map_err(|problem| error(problem.to_string()))
}

/// Resource dictionaries whose entries svg2pdf writes in the order of a hash map.
const DICTIONARIES: [&[u8]; 6] =
    [b"/ExtGState <<", b"/XObject <<", b"/Pattern <<", b"/Shading <<", b"/Font <<", b"/ColorSpace <<"];

/// The same file with the entries of every resource dictionary in the order of their names, so that equal figures are
/// equal files. Entries are whole lines and only change places: lengths and the offsets of objects stay.
fn with_sorted_resources(pdf: Vec<u8>) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = pdf.split(|byte| *byte == b'\n').collect();
    let mut first = 0;
    while first < lines.len() {
        let begins = DICTIONARIES.iter().any(|head| lines[first].ends_with(head));
        first += 1;
        if begins {
            let entries = lines[first..].iter().take_while(|line| line.ends_with(b" 0 R")).count();
            lines[first..first + entries].sort_unstable();
            first += entries;
        }
    }
    lines.join(&b'\n')
}

fn fonts() -> Arc<usvg::fontdb::Database> {
    static FONTS: OnceLock<Arc<usvg::fontdb::Database>> = OnceLock::new();
    FONTS
        .get_or_init(|| {
            let mut database = usvg::fontdb::Database::new();
            database.load_font_data(FONT.to_vec());
            Arc::new(database)
        })
        .clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::analysis::{Axis, Better, FigureKind, Mark, Series};

    #[test]
    fn a_figure_is_one_page_with_its_font_and_always_the_same() {
        let series = vec![Series::new("ext4", Mark::Measured, vec![(1.0, 2.0), (2.0, 3.0)])];
        let kind = FigureKind::Lines { x: Axis::linear("Overwrites"), y: Axis::linear("Operations/s"), series };
        let figure = Figure {
            id: "f".into(),
            title: "F".into(),
            caption: String::new(),
            device: "a device".into(),
            better: Better::Higher,
            kind,
        };
        let first = render_pdf(&figure).unwrap();
        assert!(first.starts_with(b"%PDF-"));
        assert!(
            first.windows(9).any(|bytes| bytes == b"FontFile2") || first.windows(9).any(|bytes| bytes == b"FontFile3")
        );
        assert_eq!(first, render_pdf(&figure).unwrap());
    }

    #[test]
    fn entries_of_resource_dictionaries_are_sorted_and_nothing_else_moves() {
        let one = b"<<\n /ExtGState <<\n  /gs1 4 0 R\n  /gs0 7 0 R\n >>\n /B 2 0 R\n /A 1 0 R\n>>\n\xff".to_vec();
        let sorted = b"<<\n /ExtGState <<\n  /gs0 7 0 R\n  /gs1 4 0 R\n >>\n /B 2 0 R\n /A 1 0 R\n>>\n\xff".to_vec();
        assert_eq!(with_sorted_resources(one), sorted);
    }
}
