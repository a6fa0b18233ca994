//! Estimates text width without a font, by the widths of DejaVu Sans: the widest of the usual sans-serif fonts and the default of
//! Linux, so that text fits in all of them.

use senesce_core::text::words;

/// Advance widths of the characters from space to `~` in thousandths of the font size (table `hmtx` of DejaVu Sans 2.37).
const DEJAVU_SANS: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636,
    636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863,
    748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635,
    615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636,
    337, 636, 838,
];

pub(crate) fn width(text: &str, font: f64) -> f64 {
    let units: u32 = text
        .chars()
        .map(|character| match character {
            ' '..='~' => u32::from(DEJAVU_SANS[character as usize - 32]),
            '\u{2009}' => 200,
            '⁰'..='⁹' | '¹' | '²' | '³' | '⁻' => 528,
            '…' | '\u{2e80}'.. => 1000,
            _ => 838,
        })
        .sum();
    f64::from(units) / 1000.0 * font
}

/// Wraps text at spaces into lines no wider than `limit`, not between a number and its unit; longer words are split.
pub(crate) fn wrap(text: &str, font: f64, limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words(&text, |word| width(word, font) <= limit).into_iter().filter(|word| !word.is_empty()) {
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
pub(crate) fn shorten(text: &str, font: f64, limit: f64) -> String {
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

    #[test]
    fn number_and_percent_sign_stay_on_one_line() {
        let limit = width("slower by 2.0", 10.0);
        assert_eq!(wrap("slower by 2.0 %", 10.0, limit), ["slower by", "2.0 %"]);
    }

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
