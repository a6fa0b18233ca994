//! Cross-checks of a foreign file against itself: a table of rules for each kind of file.

struct Compared {
    what: String,
    stated: f64,
    least: f64,
    most: f64,
}

#[derive(Default)]
pub struct Comparisons(Vec<Compared>);

impl Comparisons {
    /// Compares a number with a range, unless the file lacks it.
    pub fn within(&mut self, what: impl Into<String>, stated: impl Into<Option<f64>>, range: (f64, f64)) -> Option<()> {
        let (what, (least, most)) = (what.into(), range);
        self.0.push(Compared { what, stated: stated.into()?, least, most });
        Some(())
    }

    pub fn equal(&mut self, what: impl Into<String>, stated: impl Into<Option<f64>>, expected: f64) -> Option<()> {
        self.within(what, stated, (expected, expected))
    }
}

pub struct Rule<T: ?Sized> {
    pub name: &'static str,
    witness: &'static str,
    /// Tolerance as a fraction of the nearer end of the range.
    share: f64,
    /// Additional tolerance in the unit of the number.
    rounding: f64,
    compare: Compare<T>,
}

/// Ends early, with `None`, where the file lacks a number.
type Compare<T> = fn(&T, &mut Comparisons) -> Option<()>;

pub const fn rule<T: ?Sized>(
    name: &'static str,
    witness: &'static str,
    share: f64,
    rounding: f64,
    compare: Compare<T>,
) -> Rule<T> {
    Rule { name, witness, share, rounding, compare }
}

impl<T: ?Sized> Rule<T> {
    fn broken(&self, one: &Compared) -> Option<String> {
        let Compared { what, stated, least, most } = one;
        let slack = |limit: f64| if limit.is_finite() { self.share * limit.abs() + self.rounding } else { 0.0 };
        let holds = *stated >= least - slack(*least) && *stated <= most + slack(*most);
        let range = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        // A comparison with NaN does not hold.
        (!holds).then(|| format!("{what} is {stated}, but {} allow {range} (rule '{}')", self.witness, self.name))
    }
}

/// Checks all comparisons; the error is the first one that does not hold.
pub fn check<T: ?Sized>(rules: &[Rule<T>], subject: &T) -> Result<(), String> {
    let broken = |rule: &Rule<T>| {
        let mut all = Comparisons::default();
        let _ = (rule.compare)(subject, &mut all);
        all.0.iter().find_map(|one| rule.broken(one))
    };
    rules.iter().find_map(broken).map_or(Ok(()), Err)
}

/// Returns the range of the mean of `count` values with these extremes.
pub fn mean_range(count: f64, least: f64, most: f64) -> (f64, f64) {
    let step = (most - least) / count.max(1.0);
    if count < 2.0 { (least, most) } else { (least + step, most - step) }
}

/// Returns the range of the sum of squared distances from `mean` of `count` values with these extremes. The upper end
/// is from Bhatia and Davis, American Mathematical Monthly 107:4, 2000.
pub fn squares_range(count: f64, least: f64, mean: f64, most: f64) -> (f64, f64) {
    let others = if count > 2.0 { (count * mean - least - most) / (count - 2.0) - mean } else { 0.0 };
    let lower = (most - mean).powi(2) + (mean - least).powi(2) + (count - 2.0).max(0.0) * others.powi(2);
    let upper = count * ((most - mean) * (mean - least)).max(0.0);
    (if count < 2.0 { 0.0 } else { lower.min(upper) }, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Rule<f64> =
        rule("half", "the others", 0.01, 0.5, |value, all| all.within("value", *value, (10.0, 100.0)));

    #[test]
    fn tolerance_is_share_and_rounding_of_the_nearer_end() {
        for (value, holds) in [(9.5, true), (9.3, false), (101.4, true), (101.6, false), (f64::NAN, false)] {
            assert_eq!(check(&[HALF], &value).is_ok(), holds, "{value}");
        }
        let open =
            rule("open", "the others", 0.0, 0.5, |value, all| all.within("value", *value, (10.0, f64::INFINITY)));
        assert!(check(&[open], &1e300).is_ok());
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
