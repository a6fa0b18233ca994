//! Output formats, recognised by their first bytes.

/// Format of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An HTML page.
    Html,
    /// A figure.
    Svg,
    /// A page for print.
    Pdf,
    /// XML of another kind (JUnit).
    Xml,
    /// One JSON value, or one in each line.
    Json,
    /// A zip archive.
    Zip,
    /// Comma-separated values. Has no magic number, so the first column must have the same heading.
    Csv,
    /// Text, or a format of senesce without an entry here: the first word must be the same.
    Text,
    /// A growing text without a fixed first word.
    Log,
}

impl Format {
    /// Returns the name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Html => "HTML",
            Self::Svg => "SVG",
            Self::Pdf => "PDF",
            Self::Xml => "XML",
            Self::Json => "JSON",
            Self::Zip => "zip archive",
            Self::Csv => "CSV table with the same first column",
            Self::Text => "text that begins with the same word",
            Self::Log => "log",
        }
    }

    /// Returns the remedy if another format exists.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::Log => "choose another name",
            _ => "choose another name, or overwrite it with --force",
        }
    }

    /// Returns whether the `old` first bytes are of this format. `new` are the first bytes of the replacement.
    pub(super) fn is_same(self, old: &[u8], new: &[u8]) -> bool {
        let text = String::from_utf8_lossy(old.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(old));
        let text = text.trim_start().to_ascii_lowercase();
        let is_html = text.starts_with("<!doctype html") || text.starts_with("<html");
        let is_svg = text.starts_with("<svg") || text.starts_with("<?xml") && text.contains("<svg");
        match self {
            Self::Html => is_html,
            Self::Svg => is_svg,
            Self::Xml => text.starts_with("<?xml") && !is_svg && !text.contains("<html"),
            // ISO 32000-1, 7.5.2; APPNOTE.TXT 4.3.7 and 4.3.16 (an archive without members).
            Self::Pdf => old.starts_with(b"%PDF-"),
            Self::Zip => old.starts_with(b"PK\x03\x04") || old.starts_with(b"PK\x05\x06"),
            Self::Json => is_json(&text),
            Self::Log => {
                let cut = std::str::from_utf8(old).or_else(|error| std::str::from_utf8(&old[..error.valid_up_to()]));
                cut.is_ok_and(|text| {
                    text.len() + 3 >= old.len() && !text.contains(|c: char| c.is_control() && !c.is_whitespace())
                })
            }
            Self::Csv | Self::Text => first_word(old).is_some_and(|word| first_word(new).as_ref() == Some(&word)),
        }
    }
}

/// Returns whether the text is an object or an array of JSON values (RFC 8259): not every text in brackets.
fn is_json(text: &str) -> bool {
    let mut characters = text.chars().filter(|c| !c.is_whitespace());
    match (characters.next(), characters.next()) {
        (Some('{'), second) => matches!(second, Some('"' | '}')),
        (Some('['), second) => matches!(second, Some('{' | '[' | ']' | '"' | '-' | '0'..='9' | 't' | 'f' | 'n')),
        _ => false,
    }
}

/// Returns the text up to the first separator after a letter or digit: `# Comparison`, `run`, `name`.
fn first_word(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(&bytes[..bytes.len().min(256)]);
    // The last character may be incomplete.
    let text = text.or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()])).ok()?.trim_start();
    let begin = text.find(|c: char| c.is_alphanumeric())?;
    let length = text[begin..].find(|c: char| c.is_whitespace() || ",;=|".contains(c)).unwrap_or(text.len() - begin);
    Some(text[..begin + length].to_string())
}

pub(super) fn describe(beginning: &[u8]) -> String {
    const SHOWN: usize = 24;
    let shown = &beginning[..beginning.len().min(SHOWN)];
    if beginning.iter().all(|byte| *byte == 0) {
        return "it begins with zeros".into();
    }
    match String::from_utf8_lossy(shown) {
        text if text.chars().all(|c| c != '\u{FFFD}' && (!c.is_control() || c.is_whitespace())) => {
            format!("it begins with {text:?}")
        }
        _ => {
            let bytes: Vec<String> = shown.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("it begins with the bytes {}", bytes.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_recognise_only_themselves() {
        let samples: [(Format, &[u8]); 8] = [
            (Format::Html, b"<!DOCTYPE html>\n<html>"),
            (Format::Svg, b"<svg xmlns=\"http://www.w3.org/2000/svg\">"),
            (Format::Pdf, b"%PDF-1.7\n"),
            (Format::Xml, b"<?xml version=\"1.0\"?>\n<testsuites>"),
            (Format::Json, b"{\n  \"runs\": []}"),
            (Format::Zip, b"PK\x03\x04...."),
            (Format::Csv, b"run,kind,value\nage,score,1\n"),
            (Format::Text, b"# Comparison of two runs\n"),
        ];
        for (format, new) in samples {
            for (other, old) in samples {
                assert_eq!(format.is_same(old, new), format == other, "{format:?} over {other:?}");
            }
            assert!(!format.is_same(b"Dear diary, today", new), "{format:?}");
            assert!(!format.is_same(&[0; 100], new), "{format:?}");
        }
    }

    #[test]
    fn text_is_recognised_by_its_first_word() {
        assert!(Format::Csv.is_same(b"run,other\n", b"run,kind\n"));
        assert!(!Format::Csv.is_same(b"name,phone\n", b"run,kind\n"));
        assert!(Format::Text.is_same(b"name = \"a\"", b"name = \"b\""));
        assert!(!Format::Text.is_same(b"", b"name = \"b\""));
        assert!(!Format::Json.is_same(b"[section]\n", b"{}"));
    }

    #[test]
    fn descriptions_escape_control_characters() {
        assert_eq!(describe(&[0; 9]), "it begins with zeros");
        assert_eq!(describe(b"Dear diary"), "it begins with \"Dear diary\"");
        assert_eq!(describe(b"\x1b[31m"), "it begins with the bytes 1b 5b 33 31 6d");
    }
}
