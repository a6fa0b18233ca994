//! How wide text will be, without a font: the widths of Helvetica, which the usual sans-serif faces share.

/// Advance widths of the characters from space to `~` in thousandths of the font size (Adobe Font Metrics of
/// Helvetica).
const HELVETICA: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
];

/// Room for faces somewhat wider than Helvetica.
const ALLOWANCE: f64 = 1.04;

/// Estimated width of one line of text.
pub fn width(text: &str, font: f64) -> f64 {
    let units: u32 = text
        .chars()
        .map(|character| match character {
            ' '..='~' => u32::from(HELVETICA[character as usize - 32]),
            '\u{2009}' => 200,
            '⁰'..='⁹' | '¹' | '²' | '³' | '⁻' => 333,
            '\u{2e80}'.. => 1000,
            _ => 600,
        })
        .sum();
    f64::from(units) / 1000.0 * font * ALLOWANCE
}

/// Breaks text at spaces into lines no wider than `limit`; a longer word is cut.
pub fn wrap(text: &str, font: f64, limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, font) + width(" ", font) + width(word, font) <= limit => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.extend(cut(word, font, limit)),
        }
    }
    lines
}

fn cut(word: &str, font: f64, limit: f64) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for character in word.chars() {
        let last = pieces.len() - 1;
        if !pieces[last].is_empty() && width(&pieces[last], font) + width(&character.to_string(), font) > limit {
            pieces.push(String::new());
        }
        let last = pieces.len() - 1;
        pieces[last].push(character);
    }
    pieces
}

/// Shortens text to `limit` with an ellipsis.
pub fn shorten(text: &str, font: f64, limit: f64) -> String {
    if width(text, font) <= limit {
        return text.to_string();
    }
    let mut short = String::new();
    for character in text.chars() {
        if width(&short, font) + width("…", font) + width(&character.to_string(), font) > limit {
            break;
        }
        short.push(character);
    }
    short.trim_end().to_string() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn wrapped_lines_fit_and_lose_no_letter(text in "[a-zA-Z0-9 ]{0,80}", limit in 40.0f64..300.0) {
            let lines = wrap(&text, 10.0, limit);
            for line in &lines {
                prop_assert!(width(line, 10.0) <= limit + 1e-9);
            }
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }

        #[test]
        fn shortened_text_fits(text in "\\PC{0,60}", limit in 30.0f64..300.0) {
            prop_assert!(width(&shorten(&text, 10.0, limit), 10.0) <= limit + 1e-9);
        }
    }
}
