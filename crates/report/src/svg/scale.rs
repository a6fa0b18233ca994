//! Maps values to positions: the range of an axis, its ticks and their labels.

use crate::number;
use senesce_core::analysis::{Axis, Scale};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: String,
}

#[derive(Debug, Clone)]
pub(crate) struct AxisScale {
    scale: Scale,
    low: f64,
    high: f64,
    /// Ascending, all inside the range.
    pub ticks: Vec<Tick>,
}

impl AxisScale {
    /// Fits the range to the values. `zero` makes a linear axis begin at zero; creates about `target` ticks.
    pub(crate) fn fit(axis: &Axis, values: impl Iterator<Item = f64>, zero: bool, target: usize) -> Self {
        if !axis.categories.is_empty() {
            return Self::of_categories(&axis.categories);
        }
        let usable = |value: &f64| value.is_finite() && (axis.scale == Scale::Linear || *value > 0.0);
        let (mut low, mut high, mut whole) = (f64::INFINITY, f64::NEG_INFINITY, true);
        for value in values.filter(usable) {
            (low, high, whole) = (low.min(value), high.max(value), whole && is_whole(value));
        }
        if low > high {
            (low, high) = (1.0, 1.0);
        }
        match axis.scale {
            Scale::Linear => Self::linear(axis, low, high, zero, target, whole),
            Scale::Log2 => Self::logarithmic(axis, low, high, 2.0, zero, target),
            Scale::Log10 => Self::logarithmic(axis, low, high, 10.0, zero, target),
        }
    }

    fn of_categories(names: &[String]) -> Self {
        let ticks =
            names.iter().enumerate().map(|(index, name)| Tick { value: index as f64, label: name.clone() }).collect();
        Self { scale: Scale::Linear, low: -0.5, high: names.len() as f64 - 0.5, ticks }
    }

    /// Fits a linear axis to the values. If all values are `whole`, such as counts, so are the ticks.
    fn linear(axis: &Axis, mut low: f64, mut high: f64, zero: bool, target: usize, whole: bool) -> Self {
        if zero || (low > 0.0 && low < 0.4 * high) {
            low = low.min(0.0);
            high = high.max(0.0);
        }
        if low == high {
            high = if low == 0.0 { 1.0 } else { low + low.abs() * 0.1 };
        }
        low = axis.min.filter(|end| end.is_finite()).unwrap_or(low);
        high = axis.max.filter(|end| end.is_finite()).unwrap_or(high).max(low + f64::MIN_POSITIVE);
        if high <= low {
            high = low + 1.0;
        }
        let span = high - low;
        let step = match nice_step(span / target.max(2) as f64, axis.bytes) {
            part if whole && part < 1.0 => 1.0,
            part if whole && !is_whole(part) => 2.0 * part,
            step => step,
        };
        if axis.min.is_none() {
            low = outward(low, (low / step + 1e-9).floor() * step, low - 0.05 * span, step);
        }
        if axis.max.is_none() {
            high = outward(high, (high / step - 1e-9).ceil() * step, high + 0.05 * span, step);
        }
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        let values: Vec<f64> = (first..=last.min(first + 100)).map(|index| index as f64 * step).collect();
        let ticks = label_linear(&values, step, axis.bytes);
        Self { scale: Scale::Linear, low, high, ticks }
    }

    fn logarithmic(axis: &Axis, low: f64, high: f64, base: f64, whole: bool, target: usize) -> Self {
        let mut from = axis.min.filter(|end| *end > 0.0).unwrap_or(low).log(base);
        let mut to = axis.max.filter(|end| *end > 0.0).unwrap_or(high).log(base);
        let fixed = (axis.min.is_some_and(|end| end > 0.0), axis.max.is_some_and(|end| end > 0.0));
        let wide = whole || to - from > 2.0;
        let padding = ((to - from) * 0.04).max(0.02);
        if !fixed.0 {
            from = if wide { (from + 1e-9).floor() } else { from - padding };
        }
        if !fixed.1 {
            to = if wide { (to - 1e-9).ceil() } else { to + padding };
        }
        if to - from < 1e-6 {
            to = from + 1.0;
        }
        let ticks = logarithmic_ticks(from, to, base, target)
            .into_iter()
            .map(|value| Tick { value, label: label_logarithmic(value, base, axis.bytes) })
            .collect();
        let scale = if base == 2.0 { Scale::Log2 } else { Scale::Log10 };
        Self { scale, low: base.powf(from), high: base.powf(to), ticks }
    }

    /// Returns the position of a value, 0 at the low end and 1 at the high end; `None` if it cannot be drawn.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            _ if value <= 0.0 => return None,
            _ => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
        };
        Some(share)
    }

    /// Returns the position like [`Self::place`], but clamped to the ends.
    pub(crate) fn place_clamped(&self, value: f64) -> f64 {
        match self.place(value) {
            Some(share) => share.clamp(0.0, 1.0),
            None => 0.0,
        }
    }

    /// Returns the base of bars: zero, or the low end of an axis without zero.
    pub(crate) fn base(&self) -> f64 {
        if self.scale == Scale::Linear { self.place_clamped(0.0) } else { 0.0 }
    }
}

/// Returns an end of the range: the next tick, or a margin if the tick is far away; zero stays zero.
fn outward(end: f64, tick: f64, margin: f64, step: f64) -> f64 {
    if end == 0.0 || (tick - end).abs() < 0.4 * step || margin * end <= 0.0 { tick } else { margin }
}

fn nice_step(rough: f64, bytes: bool) -> f64 {
    if bytes {
        return 2f64.powf(rough.max(1.0).log2().ceil());
    }
    let power = 10f64.powf(rough.log10().floor());
    let share = rough / power;
    let nice = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|nice| share <= nice + 1e-9).unwrap_or(10.0);
    nice * power
}

fn label_linear(values: &[f64], step: f64, bytes: bool) -> Vec<Tick> {
    if bytes {
        return values.iter().map(|&value| Tick { value, label: number::size(value) }).collect();
    }
    let largest = values.iter().fold(0f64, |largest, value| largest.max(value.abs()));
    let (divisor, suffix) = match largest {
        large if large >= 1e15 => return exponents(values),
        large if large >= 1e10 => (1e9, "G"),
        large if large >= 1e7 => (1e6, "M"),
        large if large >= 2e4 => (1e3, "k"),
        small if small < 1e-4 && small > 0.0 => return exponents(values),
        _ => (1.0, ""),
    };
    let decimals = (0..6).find(|&places| is_whole(step / divisor * 10f64.powi(places))).unwrap_or(6) as usize;
    values
        .iter()
        .map(|&value| Tick {
            value,
            label: match format!("{:.decimals$}", value / divisor) {
                _ if value == 0.0 => "0".into(),
                text => text.replace('-', "\u{2212}") + suffix,
            },
        })
        .collect()
}

fn exponents(values: &[f64]) -> Vec<Tick> {
    values.iter().map(|&value| Tick { value, label: number::value(value) }).collect()
}

fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() < 1e-6 * value.abs().max(1.0)
}

fn logarithmic_ticks(from: f64, to: f64, base: f64, target: usize) -> Vec<f64> {
    let (first, last) = ((from - 1e-9).ceil() as i32, (to + 1e-9).floor() as i32);
    let span = to - from;
    if base == 10.0 && span < 2.5 {
        let steps: &[f64] = if span < 0.6 { &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0] } else { &[1.0, 2.0, 5.0] };
        return (from.floor() as i32..=to.ceil() as i32)
            .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
            .filter(|value| (from - 1e-9..=to + 1e-9).contains(&value.log10()))
            .collect();
    }
    // Somewhat more ticks than requested are better than every second decade.
    let stride = (f64::from(last - first + 1) / (1.6 * target.max(2) as f64)).ceil().max(1.0) as i32;
    (first..=last).filter(|power| power.rem_euclid(stride) == 0).map(|power| base.powi(power)).collect()
}

fn label_logarithmic(value: f64, base: f64, bytes: bool) -> String {
    if bytes {
        return number::size(value);
    }
    if base == 2.0 {
        return number::value(value);
    }
    match value {
        large if large >= 1e12 => format!("10{}", number::superscript(large.log10().round() as i32)),
        large if large >= 1e9 => number::value(large / 1e9) + "G",
        large if large >= 1e6 => number::value(large / 1e6) + "M",
        large if large >= 1e4 => number::value(large / 1e3) + "k",
        small if small < 9e-4 => number::value(small),
        plain => number::value(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        let scale = AxisScale::fit(axis, values.iter().copied(), false, 5);
        scale.ticks.into_iter().map(|tick| tick.label.replace('\u{2009}', " ")).collect()
    }

    #[test]
    fn whole_numbers_have_whole_ticks() {
        assert_eq!(labels(&Axis::linear("run"), &[1.0, 2.0]), ["1", "2"]);
        assert_eq!(labels(&Axis::linear("run"), &[1.0, 3.0, 11.0]), ["0", "5", "10"]);
        assert_eq!(labels(&Axis::linear("run"), &[1.0, 1.5, 2.0])[1], "1.2");
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(&Axis::linear("x"), &[0.0, 93.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&Axis::linear("x"), &[0.0, 48_000.0]), ["0", "10k", "20k", "30k", "40k", "50k"]);
        assert_eq!(labels(&Axis::linear("x").log10(), &[1.0, 90_000.0]), ["1", "10", "100", "1000", "10k", "100k"]);
        assert_eq!(
            labels(&Axis::linear("x").log2().in_bytes(), &[4096.0, 1048576.0]),
            ["4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"]
        );
    }

    #[test]
    fn nonpositive_values_have_no_position_on_a_logarithmic_axis() {
        let scale = AxisScale::fit(&Axis::linear("x").log10(), [0.0, 1.0, 10.0].into_iter(), false, 5);
        assert_eq!(scale.place(0.0), None);
        assert!(scale.place(1.0).is_some());
    }

    proptest! {
        #[test]
        fn every_value_fits_and_every_tick_is_inside(
            values in prop::collection::vec(-1e12f64..1e12, 1..20), log in any::<bool>(), bytes in any::<bool>(), target in 2usize..9,
        ) {
            let mut axis = Axis::linear("x");
            axis.bytes = bytes;
            if log { axis = axis.log10(); }
            let scale = AxisScale::fit(&axis, values.iter().copied(), false, target);
            for value in values {
                if let Some(place) = scale.place(value) {
                    prop_assert!((-1e-6..=1.0 + 1e-6).contains(&place), "{value} at {place}");
                }
            }
            for tick in &scale.ticks {
                let place = scale.place(tick.value).unwrap();
                prop_assert!((-1e-6..=1.0 + 1e-6).contains(&place));
            }
            prop_assert!(scale.ticks.len() <= 110);
        }
    }
}
