//! Printed numbers with their rounding.

/// A number with half of the unit of its last digit, the possible rounding error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PrintedNumber {
    pub value: f64,
    pub rounding: f64,
}

impl PrintedNumber {
    pub(crate) fn of(word: &str) -> Option<Self> {
        let value = word.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)?;
        let digits = word.split_once('.').map_or(0, |(_, digits)| digits.len());
        let plain = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let rounding = if plain { 0.5 * 10f64.powi(-(digits.min(300) as i32)) } else { value * 1e-3 };
        Some(Self { value, rounding })
    }

    pub(crate) fn least(self) -> f64 {
        (self.value - self.rounding).max(0.0)
    }

    pub(crate) fn most(self) -> f64 {
        self.value + self.rounding
    }

    pub(crate) fn times(self, other: Self) -> (f64, f64) {
        (self.least() * other.least(), self.most() * other.most())
    }
}
