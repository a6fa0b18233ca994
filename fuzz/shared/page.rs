//! Any words in a report, on every kind of page: whatever they say, the page has our tags and our attributes alone, and no
//! character that a terminal obeys.

use senesce_core::analysis::{Analysis, Axis, Better, Figure, FigureKind, Finding, Mark, Series, Table, Verdict};
use senesce_core::{Environment, Plan, Record, RunDirectory, Seed};
use senesce_report::junit::{Case, Status};
use senesce_report::site::SiteEntry;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::OnceLock;

const TAGS: &[&str] = &[
    "!doctype",
    "html",
    "head",
    "meta",
    "link",
    "title",
    "style",
    "body",
    "header",
    "p",
    "strong",
    "h1",
    "h2",
    "h3",
    "dl",
    "div",
    "dt",
    "dd",
    "main",
    "aside",
    "ul",
    "li",
    "nav",
    "details",
    "summary",
    "ol",
    "a",
    "section",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "span",
    "figure",
    "figcaption",
    "br",
    "pre",
    "code",
    "footer",
    "svg",
    "desc",
    "g",
    "rect",
    "circle",
    "path",
    "line",
    "text",
    "tspan",
    "polyline",
    "polygon",
    "defs",
    "pattern",
    "clippath",
    "use",
    "?xml",
    "testsuites",
    "testsuite",
    "testcase",
    "failure",
    "skipped",
    "system-out",
    "caption",
    "colgroup",
    "col",
    "small",
    "em",
    "b",
    "i",
    "!--",
    "mask",
    "lineargradient",
    "stop",
];

/// The texts in `bytes`, separated by zero bytes; at least one.
fn texts(bytes: &[u8]) -> Vec<String> {
    bytes.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

/// A record in memory whose words come from somebody else.
pub fn record(words: &[String]) -> Record {
    let word = |at: usize| words[at % words.len()].clone();
    let mut record = sound().clone();
    record.plan.kind = word(0);
    record.plan.spec.insert(word(6), toml::Value::String(word(1)));
    record.plan.command = word(2);
    record.plan.program_version = word(3);
    record.plan.step(word(7), word(8));
    record.environment.0.insert(word(4), json!(word(5)));
    record
}

fn sound() -> &'static Record {
    static RECORD: OnceLock<Record> = OnceLock::new();
    RECORD.get_or_init(|| {
        let room = tempfile::tempdir().expect("a directory");
        let plan = Plan::of_spec("age", Seed(1), &BTreeMap::from([("size", "1G")])).expect("a plan");
        drop(RunDirectory::open(&room.path().join("run"), &plan, &Environment::default()).expect("a run"));
        Record::open(&room.path().join("run")).expect("a record")
    })
}

pub fn analysis(words: &[String]) -> Analysis {
    let word = |at: usize| words[at % words.len()].clone();
    let mut table = Table::new(&word(0), &word(1), &[&word(2), "number"]);
    words.iter().for_each(|word| table.row(vec![json!(word), json!(word.len())]));
    let mut series = Series::new(word(3), Mark::Measured, vec![(0.0, 1.0), (1.0, 2.0)]);
    series.labels = vec![word(4), word(5)];
    let x = Axis::categories(&word(6), vec![word(7), word(8)]);
    let kind = FigureKind::Bars { x, y: Axis::linear(&word(9)), series: vec![series] };
    let (id, title, caption, device) = (word(10), word(11), word(12), word(13));
    let finding = Finding {
        claim: word(14),
        published: word(15),
        measured: word(16),
        source: word(17),
        note: word(18),
        verdict: Verdict::Supported,
        ..Finding::default()
    };
    Analysis {
        title: word(19),
        summary: word(20),
        caveats: vec![word(21)],
        tables: vec![table],
        figures: vec![Figure { id, title, caption, device, better: Better::Higher, kind }],
        findings: vec![finding],
        ..Analysis::default()
    }
}

/// Lays the words of `bytes` out on a page and a drawing, and looks at both.
pub fn exercise(bytes: &[u8]) {
    let words = texts(bytes);
    let analysis = analysis(&words);
    look_at(&without_script(&senesce_report::render_html(&analysis, &record(&words))));
    look_at(&without_script(&senesce_report::render_page(&analysis)));
    let word = |at: usize| words[at % words.len()].clone();
    let (name, page, date, kind, label, host, verdict) =
        (word(0), word(1), word(2), word(3), word(4), word(5), word(6));
    let listed = SiteEntry { name, page, date, kind, label, host, verdict };
    look_at(&without_script(&senesce_report::site::index(&word(7), &[listed])));
    look_at(&senesce_report::render_svg(&analysis.figures[0]));
    let status = Status::Failed(words[0].clone());
    let case = Case { class: analysis.title.clone(), name: analysis.summary.clone(), status, details: words.concat() };
    look_at(&senesce_report::junit::render(&words[0], &[case]));
    let plain = senesce_report::markdown::render(&analysis);
    assert!(!plain.chars().any(is_obeyed), "a control character in the table for readers of text");
}

fn without_script(page: &str) -> String {
    let ours = format!("<script>{}</script>", senesce_report::SCRIPT);
    assert_eq!(page.matches(&ours).count(), 1, "our script, once");
    page.replacen(&ours, "", 1)
}

fn is_obeyed(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t')
}

fn look_at(page: &str) {
    assert!(!page.chars().any(is_obeyed), "a control character");
    // The style sheet is ours and has no tag in it.
    let mut rest = page;
    while let Some((_, behind)) = rest.split_once('<') {
        let name: String = behind.trim_start_matches('/').chars().take_while(|sign| !" />\n".contains(*sign)).collect();
        let name = name.to_ascii_lowercase();
        assert!(TAGS.contains(&name.as_str()), "a tag <{name} that no template has");
        let Some((inside, after)) = split_tag(behind) else { panic!("a tag <{name} without an end") };
        for attribute in attributes(inside) {
            assert!(!attribute.to_ascii_lowercase().starts_with("on"), "<{name} has the attribute {attribute}");
        }
        rest = after;
    }
}

/// The inside of a tag and what follows it; `>` may be in quotes.
fn split_tag(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, sign) in text.char_indices() {
        match (quote, sign) {
            (None, '>') => return Some((&text[..at], &text[at + 1..])),
            (None, '"' | '\'') => quote = Some(sign),
            (Some(open), sign) if open == sign => quote = None,
            _ => {}
        }
    }
    None
}

/// Names of attributes: what stands in front of `=` outside of quotes.
fn attributes(inside: &str) -> Vec<String> {
    let mut quote = None;
    let mut bare = String::new();
    for sign in inside.chars() {
        match (quote, sign) {
            (None, '"' | '\'') => quote = Some(sign),
            (Some(open), sign) if open == sign => {
                quote = None;
                bare.push(' ');
            }
            (None, sign) => bare.push(sign),
            _ => {}
        }
    }
    bare.split_whitespace().skip(1).map(|word| word.split('=').next().unwrap_or_default().to_string()).collect()
}
