//! The page in a browser at two widths: nothing overflows, text is legible, the console is empty, and there are no network
//! requests.

use std::path::Path;
use std::process::Command;

/// Measures the page in a frame of each width and writes the results into the document.
const PROBE: &str = r#"<!doctype html><body><script>
const page = PAGE;
const found = [];
for (const width of [400, 1400]) {
  const frame = document.createElement('iframe');
  frame.style.width = width + 'px';
  frame.style.height = '3000px';
  frame.onload = () => {
    const inner = frame.contentDocument;
    const shown = [...inner.querySelectorAll('svg.fig')].filter(one => one.getBoundingClientRect().width > 0);
    const sizes = shown.flatMap(one => {
      const zoom = one.getBoundingClientRect().width / one.viewBox.baseVal.width;
      return [...one.querySelectorAll('text')].map(text => parseFloat(text.getAttribute('font-size')) * zoom);
    });
    const out = shown.flatMap(one => {
      const edge = one.getBoundingClientRect();
      return [...one.querySelectorAll('text')].filter(text => {
        const place = text.getBoundingClientRect();
        return place.left < edge.left - 3 || place.right > edge.right + 3 || place.bottom > edge.bottom + 3;
      }).map(text => text.textContent);
    });
    found.push({ width, overflow: inner.documentElement.scrollWidth - inner.documentElement.clientWidth,
      figures: shown.length, smallest: Math.min(...sizes), out });
    if (found.length == 2) document.body.innerHTML = '<pre>' + JSON.stringify(found) + '</pre>';
  };
  frame.srcdoc = page;
  document.body.append(frame);
}
</script></body>"#;

#[test]
#[ignore = "needs chromium"]
fn page_fits_both_widths_without_requests() {
    let browser = browser();
    let directory = tempfile::tempdir().unwrap();
    let html = senesce_report::render_html(
        &crate::common::analysis(),
        &crate::common::record(&directory.path().join("run"), false),
    );
    let quoted = serde_json::to_string(&html).unwrap().replace("</", "<\\/");
    let probe = directory.path().join("probe.html");
    std::fs::write(&probe, PROBE.replace("PAGE", &quoted)).unwrap();
    let (dom, console) = visit(browser, directory.path(), &probe);

    let start = dom.find("<pre>").unwrap_or_else(|| panic!("the probe did not finish: {console}")) + 5;
    let found: serde_json::Value = serde_json::from_str(&dom[start..dom.find("</pre>").unwrap()]).unwrap();
    for view in found.as_array().unwrap() {
        assert_eq!(view["overflow"], 0, "{view}");
        assert_eq!(view["figures"], crate::common::all_figures().len(), "{view}");
        assert!(view["smallest"].as_f64().unwrap() >= 9.5, "{view}");
        assert_eq!(view["out"].as_array().unwrap().len(), 0, "{view}");
    }
    assert!(!console.contains(":CONSOLE"), "{console}");
    assert_eq!(requests_of_pages(directory.path()), Vec::<String>::new());

    let greedy = directory.path().join("greedy.html");
    std::fs::write(&greedy, "<img src='http://127.0.0.1:9/x.png'>").unwrap();
    visit(browser, directory.path(), &greedy);
    assert_ne!(requests_of_pages(directory.path()), Vec::<String>::new(), "this test would see a request");
}

/// Collapsed or scrolled content is printed: every text of the page except the table of contents.
#[test]
#[ignore = "needs chromium, pdftotext"]
fn printed_page_contains_all_text() {
    let browser = browser();
    let directory = tempfile::tempdir().unwrap();
    let html = senesce_report::render_html(
        &crate::common::analysis(),
        &crate::common::record(&directory.path().join("run"), false),
    );
    let (page, pdf) = (directory.path().join("page.html"), directory.path().join("page.pdf"));
    std::fs::write(&page, &html).unwrap();
    let printed = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--no-pdf-header-footer", &format!("--print-to-pdf={}", pdf.display())])
        .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(pdf.exists(), "{}", String::from_utf8_lossy(&printed.stderr));
    let text = Command::new("pdftotext").args(["-raw"]).arg(&pdf).arg("-").output().unwrap().stdout;
    let paper = bare(&String::from_utf8_lossy(&text));
    let texts = texts(&html);
    assert!(texts.len() > 100, "{}", texts.len());
    let lost: Vec<&String> = texts.iter().filter(|text| !paper.contains(&bare(text))).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// The page's policy allows only the built-in script, by its hash.
#[test]
#[ignore = "needs chromium"]
fn only_the_built_in_script_runs() {
    let browser = browser();
    let directory = tempfile::tempdir().unwrap();
    let html = senesce_report::render_html(
        &crate::common::analysis(),
        &crate::common::record(&directory.path().join("run"), false),
    );
    let page = directory.path().join("page.html");
    std::fs::write(&page, &html).unwrap();
    let (dom, console) = visit(browser, directory.path(), &page);
    for made in ["<button class=\"sort\"", "role=\"checkbox\"", "<div class=\"tip\""] {
        assert!(dom.contains(made), "{made}: {console}");
    }
    assert!(!console.contains(":CONSOLE"), "{console}");
    std::fs::write(&page, html.replace("</body>", "<script>document.body.className = 'taken'</script></body>"))
        .unwrap();
    let (dom, console) = visit(browser, directory.path(), &page);
    assert!(!dom.contains("class=\"taken\"") && console.contains("Content Security Policy"), "{console}");
}

/// Removes blanks, line ends and soft hyphens, which differ in print.
fn bare(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace() && *letter != '\u{ad}').collect()
}

/// Returns the texts between the tags of the page's body, without drawings and the table of contents.
fn texts(html: &str) -> Vec<String> {
    let mut body = html.split_once("<body>").unwrap().1.to_string();
    for tag in ["svg", "nav", "script"] {
        while let Some(begin) = body.find(&format!("<{tag}")) {
            let end = body[begin..].find(&format!("</{tag}>")).unwrap() + begin;
            body.replace_range(begin..end + tag.len() + 3, "");
        }
    }
    let parts = body.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let plain = |text: &str| {
        let names = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\"")];
        let names = names.into_iter().chain([("&#39;", "'"), ("&amp;", "&"), ("&#38;", "&")]);
        names.fold(text.to_string(), |text, (name, letter)| text.replace(name, letter))
    };
    parts.map(plain).filter(|text| !text.trim().is_empty()).collect()
}

/// Returns the requests in the network log that come from a page; the browser's own have no origin.
fn requests_of_pages(directory: &Path) -> Vec<String> {
    let network = std::fs::read_to_string(directory.join("network.json")).unwrap();
    let initiators = network.split("\"initiator\":\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_string());
    initiators.filter(|origin| origin != "not an origin").collect()
}

fn browser() -> &'static str {
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| runs(name)).unwrap()
}

fn runs(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn visit(browser: &str, directory: &Path, page: &Path) -> (String, String) {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"])
        .args(["--virtual-time-budget=8000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .arg(format!("--log-net-log={}", directory.join("network.json").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}
