//! Cross-checks of a foreign file against itself: a table of rules for each kind of file.

#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    pub what: String,
    pub stated: f64,
    pub least: f64,
    pub most: f64,
}

impl Compared {
    pub fn within(what: impl Into<String>, stated: f64, least: f64, most: f64) -> Self {
        Self { what: what.into(), stated, least, most }
    }

    pub fn equal(what: impl Into<String>, stated: f64, expected: f64) -> Self {
        Self::within(what, stated, expected, expected)
    }
}

pub struct Rule<T: ?Sized> {
    pub name: &'static str,
    pub witness: &'static str,
    /// Tolerance as a fraction of the nearer end of the range.
    pub share: f64,
    /// Additional tolerance in the unit of the number.
    pub rounding: f64,
    pub of: fn(&T) -> Vec<Compared>,
}

impl<T: ?Sized> Rule<T> {
    fn broken(&self, one: &Compared) -> Option<String> {
        let slack = |limit: f64| if limit.is_finite() { self.share * limit.abs() + self.rounding } else { 0.0 };
        let holds = one.stated >= one.least - slack(one.least) && one.stated <= one.most + slack(one.most);
        let range = match one.least == one.most {
            true => format!("{}", one.least),
            false => format!("{} to {}", one.least, one.most),
        };
        let Compared { what, stated, .. } = one;
        // A comparison with NaN does not hold.
        (!holds).then(|| format!("{what} is {stated}, but {} allow {range} (rule '{}')", self.witness, self.name))
    }
}

pub fn check<T: ?Sized>(rules: &[Rule<T>], subject: &T) -> Result<(), String> {
    let broken = |rule: &Rule<T>| (rule.of)(subject).iter().find_map(|one| rule.broken(one));
    rules.iter().find_map(broken).map_or(Ok(()), Err)
}

/// The range of the mean of `count` values with these extremes.
pub fn mean_range(count: f64, least: f64, most: f64) -> (f64, f64) {
    let step = (most - least) / count.max(1.0);
    if count < 2.0 { (least, most) } else { (least + step, most - step) }
}

/// The range of the sum of squared distances from `mean` of `count` values with these extremes (upper end: Bhatia and
/// Davis, American Mathematical Monthly 107:4, 2000).
pub fn squares_range(count: f64, least: f64, mean: f64, most: f64) -> (f64, f64) {
    let others = if count > 2.0 { (count * mean - least - most) / (count - 2.0) - mean } else { 0.0 };
    let lower = (most - mean).powi(2) + (mean - least).powi(2) + (count - 2.0).max(0.0) * others.powi(2);
    let upper = count * ((most - mean) * (mean - least)).max(0.0);
    (if count < 2.0 { 0.0 } else { lower.min(upper) }, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: [Rule<f64>; 1] = [Rule {
        name: "half",
        witness: "the others",
        share: 0.01,
        rounding: 0.5,
        of: |value| vec![Compared::within("value", *value, 10.0, 100.0)],
    }];

    #[test]
    fn tolerance_is_share_and_rounding_of_the_nearer_end() {
        for (value, holds) in [(9.5, true), (9.3, false), (101.4, true), (101.6, false), (f64::NAN, false)] {
            assert_eq!(check(&RULES, &value).is_ok(), holds, "{value}");
        }
        let open = |value: &f64| vec![Compared::within("value", *value, 10.0, f64::INFINITY)];
        assert!(check(&[Rule { share: 0.0, of: open, ..RULES[0] }], &1e300).is_ok());
    }

    #[test]
    fn ranges_hold_for_real_values() {
        for values in [[1.0, 1.0, 9.0], [1.0, 5.0, 9.0], [1.0, 9.0, 9.0]] {
            let mean = values.iter().sum::<f64>() / 3.0;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let (low, high) = mean_range(3.0, 1.0, 9.0);
            assert!(low <= mean && mean <= high);
            let (low, high) = squares_range(3.0, 1.0, mean, 9.0);
            assert!(low <= squares + 1e-9 && squares <= high + 1e-9, "{low} {squares} {high}");
        }
    }
}
