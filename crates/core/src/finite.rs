//! Finite numbers.

use crate::failure::{Classify, ExitCode};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A number that is neither NaN nor infinite. Missing measurements cannot be represented.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Finite(f64);

/// Reason why a value is not a measurement.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoValue {
    /// NaN or infinite, for example after a division by zero.
    #[error("{0} is not a measured value")]
    NotFinite(f64),
    /// A rate over zero operations, bytes or time.
    #[error("nothing was measured: a rate over {0} is not defined")]
    Empty(f64),
}

impl Classify for NoValue {
    fn exit_code(&self) -> ExitCode {
        ExitCode::RunFailed
    }
}

impl Finite {
    /// Refuses NaN and infinity.
    ///
    /// # Errors
    /// [`NoValue::NotFinite`].
    pub fn new(value: f64) -> Result<Self, NoValue> {
        if value.is_finite() { Ok(Self(value)) } else { Err(NoValue::NotFinite(value)) }
    }

    /// Divides `amount` by `over`: seconds per GiB, operations per second.
    ///
    /// # Errors
    /// [`NoValue::Empty`] unless `over` is above 0; [`NoValue::NotFinite`].
    pub fn per(amount: f64, over: f64) -> Result<Self, NoValue> {
        if over > 0.0 { Self::new(amount / over) } else { Err(NoValue::Empty(over)) }
    }

    /// Returns the number, which is neither NaN nor infinite.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Finite {
    type Error = NoValue;

    fn try_from(value: f64) -> Result<Self, NoValue> {
        Self::new(value)
    }
}

/// For signatures that take a [`Finite`] or an `f64`.
impl From<std::convert::Infallible> for NoValue {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl From<Finite> for f64 {
    fn from(value: Finite) -> Self {
        value.0
    }
}

impl fmt::Display for Finite {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_and_infinity_are_refused() {
        assert_eq!(Finite::new(-1.5).map(Finite::get), Ok(-1.5));
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(matches!(Finite::new(value), Err(NoValue::NotFinite(_))));
        }
    }

    #[test]
    fn an_empty_reading_gives_no_rate() {
        assert_eq!(Finite::per(3.0, 2.0).map(Finite::get), Ok(1.5));
        assert_eq!(Finite::per(0.0, 2.0).map(Finite::get), Ok(0.0));
        assert_eq!(Finite::per(0.0, 0.0), Err(NoValue::Empty(0.0)));
        assert_eq!(Finite::per(1.0, -1.0), Err(NoValue::Empty(-1.0)));
        assert!(Finite::per(1.0, f64::NAN).is_err() && Finite::per(f64::NAN, 1.0).is_err());
        assert!(Finite::per(f64::MAX, f64::MIN_POSITIVE).is_err(), "overflow");
    }

    #[test]
    fn records_hold_numbers_only() {
        assert_eq!(serde_json::to_string(&Finite::new(2.5).unwrap()).unwrap(), "2.5");
        assert_eq!(serde_json::from_str::<Finite>("2.5").unwrap().get(), 2.5);
        assert!(serde_json::from_str::<Finite>("null").is_err(), "as NaN was written");
        assert!(serde_json::from_str::<Finite>("1e999").is_err());
    }
}
