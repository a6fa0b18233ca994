//! Figures and the HTML report, from analyses and records only.
//!
//! A report is one file: inline styles and SVG, no network access, the same bytes for the same record on every machine. Its only
//! script is allowed by its hash, and the page is complete without it.

pub mod answer;
pub mod bundle;
mod claim_tables;
pub mod csv;
pub mod data;
pub mod junit;
pub mod ktap;
pub mod markdown;
mod markup;
mod number;
mod page;
mod pdf;
pub mod result_page;
pub mod scoreboard;
pub mod site;
pub mod statements;
mod svg;

pub use markup::Pages;
pub use page::{SCRIPT, render_html, render_page};
pub use pdf::render_pdf;
pub use svg::render_svg;
