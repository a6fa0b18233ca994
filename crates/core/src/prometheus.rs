//! Prometheus text format (the "text-based format", version 0.0.4).

use std::fmt::Write;

/// Appends one gauge: its name after `senesce_`, its help text, and a value per set of labels. Appends nothing without samples.
pub fn gauge(text: &mut String, name: &str, help: &str, samples: &[(String, f64)]) {
    if samples.is_empty() {
        return;
    }
    let _ = writeln!(text, "# HELP senesce_{name} {help}\n# TYPE senesce_{name} gauge");
    for (labels, value) in samples {
        let _ = writeln!(text, "senesce_{name}{{{labels}}} {value}");
    }
}

/// Quotes a label's value: escapes backslash, quote and line feed.
pub fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
    }

    #[test]
    fn a_gauge_has_a_head_and_its_values() {
        let mut text = String::new();
        gauge(&mut text, "none", "Nothing.", &[]);
        gauge(&mut text, "runs", "Runs.", &[("state=\"complete\"".into(), 3.0)]);
        assert_eq!(text, "# HELP senesce_runs Runs.\n# TYPE senesce_runs gauge\nsenesce_runs{state=\"complete\"} 3\n");
    }
}
