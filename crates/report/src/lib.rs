//! Figures and the HTML report, from analyses and records alone.
//!
//! A report is one file: inline styles and SVG, no script, no network, the same bytes for the same record on every machine.

pub mod bundle;
pub mod csv;
pub mod data;
pub mod junit;
pub mod markdown;
mod number;
mod page;
pub mod pdf;
pub mod svg;

pub use page::render_html;
pub use pdf::render_pdf;
pub use svg::render_svg;
