//! The page and its figures as files: reproducible, well formed, safe, and complete.

#[path = "../../../../fuzz/shared/bundle.rs"]
mod bundle;
#[path = "../../../../fuzz/shared/page.rs"]
mod page;

use proptest::prelude::*;
use senesce_core::analysis::*;
use senesce_report::{render_html, render_pdf, render_svg};
use std::process::Command;

fn html(finished: bool) -> String {
    let directory = tempfile::tempdir().unwrap();
    render_html(&crate::common::analysis(), &crate::common::record(&directory.path().join("run"), finished))
}

#[test]
fn copied_run_gives_an_identical_report() {
    let directory = tempfile::tempdir().unwrap();
    let record = crate::common::record(&directory.path().join("run"), true);
    let copied =
        Command::new("cp").arg("-r").args([directory.path().join("run"), directory.path().join("elsewhere")]).status();
    assert!(copied.unwrap().success());
    let other = senesce_core::Record::open(&directory.path().join("elsewhere")).unwrap();
    assert!(render_html(&crate::common::analysis(), &record) == render_html(&crate::common::analysis(), &other));
}

#[test]
fn page_is_self_contained() {
    let page = html(true).replace("http://www.w3.org/2000/svg", "").replacen(senesce_report::SCRIPT, "", 1);
    assert_eq!(page.matches("<script>").count(), 1, "our own");
    let page = page.replace("<script></script>", "");
    for word in ["http:", "https:", "//cdn", "<script", "@import", "url(", " src="] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn partial_record_and_caveats_come_before_the_findings() {
    let (partial, whole) = (html(false), html(true));
    assert!(partial.find("Partial record").unwrap() < partial.find("id=\"findings\"").unwrap());
    assert!(!whole.contains("Partial record"));
    assert!(whole.find("Measured without O_DIRECT").unwrap() < whole.find("id=\"findings\"").unwrap());
}

#[test]
fn every_figure_shows_direction_device_and_data() {
    let page = html(true);
    let figures: Vec<&str> = page.split("<figure ").skip(1).collect();
    assert_eq!(figures.len(), crate::common::all_figures().len());
    for figure in figures {
        assert!(figure.contains("ext4 on a 1 GiB image in memory"));
        assert!(figure.contains("is better"));
        assert!(figure.contains("role=\"img\" aria-label=\""));
        assert!(figure.contains("<title>"));
        assert!(figure.contains("<summary>Data</summary>") && figure.contains("</tbody>"));
    }
}

#[test]
fn foreign_text_is_escaped() {
    let directory = tempfile::tempdir().unwrap();
    let record = crate::common::record(&directory.path().join("run"), true);
    let evil = "</title><script>alert('x')</script>&\u{0}";
    let mut analysis = crate::common::analysis();
    analysis.title = evil.into();
    analysis.caveats.push(evil.into());
    analysis.findings[0].claim = evil.into();
    analysis.tables[0].rows[0][0] = serde_json::json!(evil);
    analysis.figures[0].title = evil.into();
    let page = render_html(&analysis, &record);
    assert_eq!(page.matches("<script").count(), 1, "our own");
    assert!(page.contains("script-src &#39;sha256-") || page.contains("script-src 'sha256-"));
    assert!(render_svg(&analysis.figures[0]).contains("&lt;script&gt;"));
}

#[test]
fn empty_analysis_renders_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let record = crate::common::record(&directory.path().join("run"), false);
    assert!(render_html(&Analysis::default(), &record).contains("aged-fileserver"));
}

#[test]
fn drawing_of_bars_matches_the_snapshot() {
    insta::assert_snapshot!(render_svg(&crate::common::bars()));
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => -1e6f64..1e9,
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(0.0),
        1 => Just(1e-300),
        1 => Just(-1e300),
    ]
}

fn axis() -> impl Strategy<Value = Axis> {
    (any::<bool>(), 0usize..3, prop::collection::vec("[ -~]{0,12}", 0..5)).prop_map(|(bytes, scale, categories)| Axis {
        label: "a (b)".into(),
        scale: [Scale::Linear, Scale::Log2, Scale::Log10][scale],
        categories,
        min: None,
        max: None,
        bytes,
    })
}

fn series() -> impl Strategy<Value = Vec<Series>> {
    let one = (prop::collection::vec((number(), number()), 0..12), "[ -~]{0,8}", 0usize..4).prop_map(
        |(points, name, mark)| {
            let mark = [Mark::Measured, Mark::Modelled, Mark::Published, Mark::Predicted][mark];
            Series { intervals: points.iter().map(|&(x, y)| (x, y)).collect(), ..Series::new(name, mark, points) }
        },
    );
    prop::collection::vec(one, 0..10)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_numbers_make_a_well_formed_drawing(x in axis(), y in axis(), series in series(), kind in 0..4) {
        let kind = match kind {
            0 => FigureKind::Lines { x, y, series },
            1 => FigureKind::Scatter { x, y, series },
            2 => FigureKind::Bars { x, y, series },
            _ => FigureKind::Steps { x, y, series },
        };
        let figure = crate::common::figure("f", "F & <g>", Better::Lower, kind);
        let drawing = render_svg(&figure);
        prop_assert!(!drawing.contains("NaN") && !drawing.contains("inf"));
        prop_assert!(render_pdf(&figure).is_ok());
    }

    #[test]
    fn any_cells_make_a_well_formed_drawing(rows in prop::collection::vec(prop::collection::vec(-1i32..30, 0..400), 0..6), names in 0usize..12) {
        let rows = rows.into_iter().map(|cells| CellRow { name: "row".into(), fill: vec![0.5; cells.len() / 2], cells }).collect();
        let legend = (0..names).map(|index| format!("kind {index}")).collect();
        let figure = crate::common::figure("f", "F", Better::Neither, FigureKind::Cells { rows, heads: Vec::new(), legend, unit: "a block".into() });
        prop_assert!(render_pdf(&figure).is_ok());
    }
}

#[test]
fn bundle_is_complete_and_reproducible() {
    let directory = tempfile::tempdir().unwrap();
    let record = crate::common::record(&directory.path().join("run"), true);
    let make = || {
        let mut bytes = std::io::Cursor::new(Vec::new());
        let table = Table::new("measurements", "", &["metric", "value"]);
        senesce_report::bundle::write(&record, &crate::common::analysis(), &table, &mut bytes).unwrap();
        bytes.into_inner()
    };
    let bundle = make();
    for _ in 0..3 {
        assert!(bundle == make());
    }
    let archive = zip::ZipArchive::new(std::io::Cursor::new(&bundle)).unwrap();
    let names: Vec<String> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
    for name in [
        "README.txt",
        "report.html",
        "repeat.sh",
        "SHA256SUMS",
        "run/plan.toml",
        "run/env.json",
        "run/summary.json",
        "figures/bars.pdf",
        "tables/summary.csv",
    ] {
        assert!(names.iter().any(|known| known == name), "{name} of {names:?}");
    }
    assert!(!names.iter().any(|name| name == "run/lock"));
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let found: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path())).collect();
    assert!(!found.is_empty());
    found.into_iter().map(Result::unwrap).collect()
}

#[test]
fn corpus_text_is_escaped() {
    corpus("page").iter().for_each(|bytes| page::exercise(bytes));
}

#[test]
fn corpus_bundles_are_complete() {
    let directory = tempfile::tempdir().unwrap();
    let made = corpus("bundle").iter().filter(|bytes| bundle::exercise(directory.path(), bytes)).count();
    assert!(made > 0, "the sound run is in the corpus");
}

#[test]
fn names_that_lead_out_of_a_bundle_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a\nb", "..\\x", "c:x", "\u{1b}[31m"] {
        assert!(!bundle::exercise(directory.path(), &[b"\x80", name.as_bytes()].concat()), "{name:?}");
    }
    assert!(bundle::exercise(directory.path(), b"\x80plain name"));
    assert!(bundle::exercise(directory.path(), b"\xc0link"), "links are left out");
}

#[test]
fn bundle_size_is_limited() {
    let directory = tempfile::tempdir().unwrap();
    let record = crate::common::record(&directory.path().join("run"), true);
    let large = std::fs::File::create(record.path.join("large")).unwrap();
    large.set_len(senesce_report::bundle::MOST_BYTES.0 * 100).unwrap();
    let table = Table::new("measurements", "", &["metric", "value"]);
    let made =
        senesce_report::bundle::write(&record, &crate::common::analysis(), &table, std::io::Cursor::new(Vec::new()));
    assert!(made.unwrap_err().to_string().contains("the limit of a bundle"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_text_is_escaped(bytes in prop::collection::vec("[<>\"'&;a-z\u{0}\u{1b}\u{9b}=/!-]{0,12}", 1..12)) {
        page::exercise(bytes.concat().as_bytes());
    }

    #[test]
    fn any_run_directory_is_bundled_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let directory = tempfile::tempdir().unwrap();
        bundle::exercise(directory.path(), &bytes);
    }
}

#[test]
#[ignore = "long: a thousand bundles of damaged run directories"]
fn a_thousand_damaged_run_directories_are_bundled_or_refused() {
    use proptest::strategy::ValueTree;
    let directory = tempfile::tempdir().unwrap();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let bytes = prop::collection::vec(any::<u8>(), 0..60);
    let made = (0..1000)
        .filter(|_| bundle::exercise(directory.path(), &bytes.new_tree(&mut runner).unwrap().current()))
        .count();
    assert!((1..1000).contains(&made), "{made} of 1000 could be bundled");
}
