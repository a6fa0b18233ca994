//! Formats numbers and sizes for readers.

const THIN_SPACE: char = '\u{2009}';

/// Formats a value with up to four significant digits, grouped by thin spaces. Very large and very small values have
/// the form `1.234×10⁵`. Integers below 10^15 keep all their digits.
pub(crate) fn value(number: f64) -> String {
    if !number.is_finite() {
        return "n/a".into();
    }
    let magnitude = number.abs();
    if number == 0.0 {
        return "0".into();
    }
    if number.fract() == 0.0 && magnitude < 1e15 {
        return grouped(&format!("{number:.0}"));
    }
    if !(1e-4..1e15).contains(&magnitude) {
        return scientific(number);
    }
    let decimals = (3 - magnitude.log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{number:.decimals$}");
    grouped(if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text })
}

/// Formats a value on an axis, in bytes (`1.5 MiB`) or plain.
pub(crate) fn axis_value(number: f64, bytes: bool) -> String {
    if bytes { size(number) } else { value(number) }
}

/// Formats a number of bytes in binary units.
pub(crate) fn size(bytes: f64) -> String {
    if !bytes.is_finite() {
        return "n/a".into();
    }
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = if bytes.abs() < 1.0 { 0 } else { ((bytes.abs().log2() / 10.0).floor() as usize).min(6) };
    let scaled = bytes / 1024f64.powi(power as i32);
    let rounded = if scaled.fract() == 0.0 { format!("{scaled:.0}") } else { value((scaled * 100.0).round() / 100.0) };
    format!("{rounded}{THIN_SPACE}{}", UNITS[power])
}

fn scientific(number: f64) -> String {
    let exponent = number.abs().log10().floor() as i32;
    let mantissa = number / 10f64.powi(exponent);
    format!("{}×10{}", format!("{mantissa:.2}").trim_end_matches('0').trim_end_matches('.'), superscript(exponent))
}

pub(crate) fn superscript(exponent: i32) -> String {
    exponent
        .to_string()
        .chars()
        .map(|character| match character {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            digit => char::from_u32('⁰' as u32 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
        })
        .collect()
}

/// Groups the integer digits by three if there are five or more.
fn grouped(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("\u{2212}", rest));
    let (whole, fraction) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    let mut result = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && whole.len() > 4 && (whole.len() - index) % 3 == 0 {
            result.push(THIN_SPACE);
        }
        result.push(digit);
    }
    result + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short_and_exact_if_possible() {
        let plain = |number| value(number).replace(THIN_SPACE, " ");
        for (number, text) in [
            (0.0, "0"),
            (1234.0, "1234"),
            (12345.0, "12 345"),
            (-1234567.0, "−1 234 567"),
            (0.123456, "0.1235"),
            (12.5, "12.5"),
            (99.999, "100"),
            (123456.78, "123 457"),
            (0.00001234, "1.23×10⁻⁵"),
            (f64::NAN, "n/a"),
        ] {
            assert_eq!(plain(number), text);
        }
    }

    #[test]
    fn sizes_are_binary() {
        let plain = |number| size(number).replace(THIN_SPACE, " ");
        assert_eq!(plain(4096.0), "4 KiB");
        assert_eq!(plain(1.5 * 1048576.0), "1.5 MiB");
        assert_eq!(plain(0.0), "0 B");
    }
}
