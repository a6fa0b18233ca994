//! Text of others on its way to a terminal or a page: control characters are shown, not obeyed.
//!
//! A file name, a label of a foreign trace or a line of a guest may hold ESC, BEL or the C1 control characters, which move
//! the cursor, change colours or set the title of a terminal. They become `\u001b`, which is also what JSON calls them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Whether a character would be obeyed: C0 but line end and tab, DEL, C1 (ECMA-48, section 5).
fn is_obeyed(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t')
}

/// Text with its control characters written out; line ends and tabs stay.
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

/// The same for a cell of a table: also its line ends and tabs.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    match visible(text) {
        shown if shown.contains(['\n', '\t']) => Cow::Owned(shown.replace('\n', "\\n").replace('\t', "\\t")),
        shown => shown,
    }
}

/// Writes text to a terminal, a pipe or a log with its control characters written out.
#[derive(Debug)]
pub struct Visible<W> {
    to: W,
    /// The first byte of a character whose second decides: C1 is `C2 80` to `C2 9F` in UTF-8.
    held: bool,
}

impl<W: Write> Visible<W> {
    /// For text in UTF-8.
    pub fn new(to: W) -> Self {
        Self { to, held: false }
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const LEAD: u8 = 0xC2;
        let mut shown = Vec::with_capacity(bytes.len() + 1);
        for byte in bytes {
            let is_c1 = self.held && (0x80..=0x9F).contains(byte);
            if self.held && !is_c1 {
                shown.push(LEAD);
            }
            self.held = *byte == LEAD;
            match byte {
                _ if self.held => {}
                _ if is_c1 => write!(shown, "\\u{byte:04x}")?,
                b'\n' | b'\t' => shown.push(*byte),
                0..=0x1F | 0x7F => write!(shown, "\\u{byte:04x}")?,
                _ => shown.push(*byte),
            }
        }
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

    proptest! {
        #[test]
        fn what_is_written_in_pieces_is_what_is_visible(text in "[a-z\u{0}-\u{20}\u{7f}-\u{a5}é✓]{0,40}", cut: prop::sample::Index) {
            let bytes = text.as_bytes();
            let at = cut.index(bytes.len() + 1);
            let mut writer = Visible::new(Vec::new());
            writer.write_all(&bytes[..at]).unwrap();
            writer.write_all(&bytes[at..]).unwrap();
            prop_assert_eq!(String::from_utf8(writer.to).unwrap(), visible(&text).into_owned());
        }

        #[test]
        fn json_stays_the_same_value(text in ".{0,20}[\u{80}-\u{9f}\u{0}-\u{1f}]{0,3}") {
            let value = serde_json::json!({ "text": text });
            let shown = visible(&value.to_string()).into_owned();
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
