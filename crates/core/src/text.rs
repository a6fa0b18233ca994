//! Escapes control characters in untrusted text for a terminal or a page, and splits text into words.
//!
//! A file name, a label of a foreign trace or a line of a guest may contain ESC, BEL or C1 control characters. They can move the
//! cursor, change colours or set the title of a terminal. They become `\u001b`, as in JSON. Characters that change the direction
//! of text are escaped too, because they disguise names.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;

/// Returns whether a character must be escaped. These are C0 except line feed and tab, DEL, C1 (ECMA-48, section 5),
/// and those with the property Bidi_Control (Unicode Standard Annex 9).
pub fn is_obeyed(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        other => other.is_control(),
    }
}

/// Returns whether these bytes begin a non-ASCII character (UTF-8) whose next byte decides whether it is escaped.
fn is_beginning(bytes: &[u8]) -> bool {
    matches!(bytes, [0xC2 | 0xD8 | 0xE2] | [0xE2, 0x80 | 0x81])
}

/// Escapes control characters, except line feeds and tabs.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_obeyed(character) {
            let _ = write!(shown, "\\u{:04x}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Escapes control characters for a table cell, line feeds and tabs too.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    match visible(text) {
        shown if shown.contains(['\n', '\t']) => Cow::Owned(shown.replace('\n', "\\n").replace('\t', "\\t")),
        shown => shown,
    }
}

/// Units that stay on the line of their number.
const UNITS: [&str; 20] = [
    "%", "ns", "us", "µs", "ms", "s", "min", "h", "B", "kB", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB",
    "MB/s", "MiB/s",
];

/// Splits text at spaces into words that are not broken. A number and its unit are one word if it `fits` into a line.
pub fn words(text: &str, fits: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for piece in text.split(' ') {
        let end = start + piece.len();
        match words.last_mut() {
            Some(last) if is_unit(piece) && ends_in_digit(&text[last.clone()]) && fits(&text[last.start..end]) => {
                last.end = end;
            }
            _ => words.push(start..end),
        }
        start = end + 1;
    }
    words.into_iter().map(|word| &text[word]).collect()
}

fn is_unit(piece: &str) -> bool {
    UNITS.contains(&piece.trim_end_matches([',', '.', ';', ':', ')', ']']))
}

fn ends_in_digit(word: &str) -> bool {
    word.ends_with(|last: char| last.is_ascii_digit())
}

/// Writer that escapes control characters, for a terminal, a pipe or a log.
#[derive(Debug)]
pub struct Visible<W> {
    to: W,
    /// First bytes of an incomplete character.
    held: Vec<u8>,
}

impl<W: Write> Visible<W> {
    /// Wraps a writer of UTF-8 text.
    pub fn new(to: W) -> Self {
        Self { to, held: Vec::new() }
    }

    fn show(&mut self, byte: u8, shown: &mut Vec<u8>) {
        self.held.push(byte);
        if is_beginning(&self.held) {
            return;
        }
        match std::str::from_utf8(&self.held) {
            Ok(character) => shown.extend_from_slice(visible(character).as_bytes()),
            // The held bytes were not a character; this byte may begin one.
            Err(_) if self.held.len() > 1 => {
                shown.extend_from_slice(&self.held[..self.held.len() - 1]);
                self.held.clear();
                return self.show(byte, shown);
            }
            Err(_) => shown.push(byte),
        }
        self.held.clear();
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut shown = Vec::with_capacity(bytes.len() + 2);
        bytes.iter().for_each(|byte| self.show(*byte, &mut shown));
        self.to.write_all(&shown)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(visible("\u{1b}[31mred\u{7}\u{9b}2J\u{7f}\r"), "\\u001b[31mred\\u0007\\u009b2J\\u007f\\u000d");
        assert!(matches!(visible("plain: ä ✓\n\tline"), Cow::Borrowed(_)));
        assert_eq!(visible_line("a\nb\tc\u{1b}"), "a\\nb\\tc\\u001b");
    }

    #[test]
    fn number_and_unit_are_one_word_if_they_fit() {
        let text = "grew by 2.0 % (4 KiB), in 12 files";
        assert_eq!(words(text, |_| true), ["grew", "by", "2.0 %", "(4 KiB),", "in", "12", "files"]);
        assert_eq!(words("2.0 %  s", |word| word.len() < 5), ["2.0", "%", "", "s"]);
        assert_eq!(words("", |_| true), [""]);
    }

    #[test]
    fn bidi_controls_are_escaped() {
        assert_eq!(
            visible("report\u{202e}fdp.exe\u{2066}\u{200f}\u{61c}"),
            "report\\u202efdp.exe\\u2066\\u200f\\u061c"
        );
        assert!(matches!(visible("– ‐ ‘ … שלום"), Cow::Borrowed(_)));
    }

    #[test]
    fn invalid_utf8_does_not_hide_control_characters() {
        let mut writer = Visible::new(Vec::new());
        writer.write_all(b"\xC2\x1b\xE2\x80\x1b\xE2\x82\xC2\x9b\xE2\xE2\x80\xAE\xff").unwrap();
        assert_eq!(writer.to, b"\xC2\\u001b\xE2\x80\\u001b\xE2\x82\\u009b\xE2\\u202e\xff");
    }

    proptest! {
        #[test]
        fn writing_in_pieces_gives_the_same_output(
            text in "[a-z\u{0}-\u{20}\u{7f}-\u{a5}é✓\u{61b}-\u{61d}\u{200d}-\u{202f}\u{2065}-\u{206a}€]{0,40}",
            cut: prop::sample::Index,
        ) {
            let bytes = text.as_bytes();
            let at = cut.index(bytes.len() + 1);
            let mut writer = Visible::new(Vec::new());
            writer.write_all(&bytes[..at]).unwrap();
            writer.write_all(&bytes[at..]).unwrap();
            prop_assert_eq!(String::from_utf8(writer.to).unwrap(), visible(&text).into_owned());
        }

        #[test]
        fn escaped_json_has_the_same_value(text in ".{0,20}[\u{80}-\u{9f}\u{0}-\u{1f}\u{202a}-\u{202e}]{0,3}") {
            let value = serde_json::json!({ "text": text });
            let shown = visible(&value.to_string()).into_owned();
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
