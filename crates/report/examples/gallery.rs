//! Writes a report with every kind of figure for inspection: `cargo run -p senesce-report --example gallery -- DIR`.

#[path = "../tests/integration/common/mod.rs"]
mod common;

fn main() -> std::io::Result<()> {
    let directory = std::path::PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "gallery".into()));
    let record = common::record(&directory.join("run"), false);
    std::fs::write(directory.join("gallery.html"), senesce_report::render_html(&common::analysis(), &record))?;
    for figure in common::all_figures() {
        std::fs::write(directory.join(format!("{}.svg", figure.id)), senesce_report::render_svg(&figure))?;
    }
    for figure in common::all_figures() {
        let bytes = senesce_report::render_pdf(&figure).map_err(std::io::Error::other)?;
        std::fs::write(directory.join(format!("{}.pdf", figure.id)), bytes)?;
    }
    eprintln!("{}", directory.join("gallery.html").display());
    Ok(())
}
