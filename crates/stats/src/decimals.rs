//! Decimal places with which a number does not look like a bound that it does not reach, or that it exceeds.

/// Numbers that differ by less are equal: the difference comes from the conversion to percent.
const ROUNDING: f64 = 1e-9;

/// Maximum number of further places.
const MOST_FURTHER: usize = 3;

/// Returns the number of decimal places, at least `least`, with which `value` looks different from the `bounds` that it is
/// not equal to: 3.02 needs two next to a bound of 3. There are at most three more than `least`.
pub fn places(value: f64, bounds: &[f64], least: usize) -> usize {
    let is_apart = |places: &usize| {
        let shown = |number: f64| format!("{number:.places$}", places = *places);
        bounds.iter().all(|bound| (bound - value).abs() < ROUNDING || shown(*bound) != shown(value))
    };
    (least..least + MOST_FURTHER).find(is_apart).unwrap_or(least + MOST_FURTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_near_a_bound_has_more_places() {
        let near_three = |value| places(value, &[-3.0, 3.0], 1);
        assert_eq!([3.0, 3.2, 23.4, 0.0, (1.03 - 1.0) * 100.0].map(near_three), [1; 5]);
        assert_eq!([3.04, -2.96, 2.999, -3.0004].map(near_three), [2, 2, 3, 4]);
        assert_eq!(near_three(3.000_001), 4, "no more");
        assert_eq!(places(1.0203, &[1.02], 3), 4);
    }
}
