//! Makes measurements from a rule: data for which it is true, false or undecidable.

use senesce_claims::{Claim, ClaimSet, Condition, ConditionScope, Pattern, Rule, Selection, TrendShape};
use senesce_core::{Better, Measurement};
use std::collections::{BTreeMap, HashSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    True,
    False,
    Noisy,
}

/// Number of systems if a claim is about a share of them and names none.
const SYSTEMS: usize = 4;
/// Stands for the points `greatest` and `least`.
const GREATEST: &str = "1000000";
const LEAST: &str = "-1000000";

struct Maker<'a> {
    world: World,
    unit: String,
    set: &'a ClaimSet,
    made: Vec<Measurement>,
    known: HashSet<(String, Condition)>,
    /// The systems of a claim about a share of them.
    systems: Vec<String>,
}

pub fn measurements(claim: &Claim, set: &ClaimSet, world: World) -> Vec<Measurement> {
    let of_value = matches!(&claim.rule, Rule::Value { within, .. } if within.of_published());
    let unit = claim.published.unit(&set.rows);
    let unit = if of_value && !unit.is_empty() { unit } else { "s".into() };
    let systems = claim.rule.selections().first().map_or(Vec::new(), |of| systems(of, &claim.holds));
    let mut maker = Maker { world, unit, set, made: Vec::new(), known: HashSet::new(), systems };
    let published = claim.published.numbers(&set.rows);
    // A false result is certainly unlike the claim.
    let rule = match claim.unclear.filter(|_| world == World::False) {
        Some(bounds) => &claim.rule.with_bounds(bounds),
        None => &claim.rule,
    };
    match rule {
        Rule::Value { of, within } => {
            let bounds = within.resolve(&published).unwrap();
            maker.each(of, &claim.holds, |holds| match world {
                World::Noisy => edge(bounds),
                _ => additive(bounds, holds),
            });
        }
        Rule::Ratio { of, to, within } => {
            maker.quotients(of, to, &claim.holds, within.resolve(&published).unwrap());
        }
        Rule::Change { of, to, within } => {
            let (low, high) = within.resolve(&published).unwrap();
            maker.quotients(of, to, &claim.holds, (1.0 + low / 100.0, 1.0 + high / 100.0));
        }
        Rule::Interaction { of, to, than_of, than_to, within } => {
            maker.quotients(of, to, &claim.holds, within.resolve(&published).unwrap());
            for selection in [than_of, than_to] {
                maker.each(selection, &claim.holds, |_| 100.0);
            }
        }
        Rule::Order { of, by } => {
            for (index, selection) in of.iter().enumerate() {
                let power = (of.len() - index) as i32;
                maker
                    .each(selection, &claim.holds, |holds| 100.0 * (by * 1.5).powi(if holds { power } else { -power }));
            }
        }
        Rule::Trend { of, along, shape, by } => maker.trend(of, along, &claim.holds, *shape, *by),
        Rule::Step { of, along, from, to, by, share } => {
            maker.step(of, along, &claim.holds, (*from, *to), (*by, *share));
        }
        Rule::Linear { of, along, shape, .. } => maker.line(of, along, *shape, &claim.holds),
        Rule::Correlation { of, with, each, within } => {
            maker.cloud(of, with, each, within.resolve(&published).unwrap(), published.first().copied());
        }
        Rule::Rank { from, to, systems, changes } => maker.ranks(from, to, systems, *changes),
        Rule::Table { rows, ignore, mean_error, worst_error } => maker.table(rows, ignore, *mean_error, *worst_error),
        Rule::NotTestable { .. } => {}
    }
    maker.made
}

fn edge((low, high): (f64, f64)) -> f64 {
    if low.is_finite() { low } else { high }
}

fn additive((low, high): (f64, f64), inside: bool) -> f64 {
    match (low.is_finite(), high.is_finite(), inside) {
        (true, true, true) => low.midpoint(high),
        (true, false, true) => low + low.abs() + 1.0,
        (false, true, true) => high - high.abs() - 1.0,
        (_, true, false) => high + 3.0 * high.abs() + 1.0,
        (_, false, false) => low - 3.0 * low.abs() - 1.0,
        (false, false, true) => 1.0,
    }
}

fn multiplicative((low, high): (f64, f64), inside: bool) -> f64 {
    match (low > 0.0, high.is_finite(), inside) {
        (true, true, true) => (low * high).sqrt(),
        (true, false, true) => low * 2.0,
        (false, true, true) => high / 2.0,
        (false, false, true) => 1.0,
        (_, true, false) => high * 5.0,
        (_, false, false) => low / 5.0,
    }
}

impl Maker<'_> {
    /// Adds five repetitions of a value, with little or much noise.
    fn put(&mut self, metric: &str, condition: &Condition, value: f64) {
        if !self.known.insert((metric.into(), condition.clone())) {
            return;
        }
        let repetitions: Vec<f64> = if self.set.exact.contains(metric) {
            vec![value]
        } else if self.world == World::Noisy {
            let spread = if value == 0.0 {
                [-20.0, -3.0, 0.0, 4.0, 19.0]
            } else {
                [0.02, 0.3, 1.0, 3.0, 50.0].map(|one| one * value)
            };
            // Each cell has its noise in a different order, so that it does not cancel within repetitions.
            let cell = self.known.len();
            let (stride, start) = (1 + cell % 4, cell / 4);
            (0..spread.len()).map(|place| spread[(start + stride * place) % spread.len()]).collect()
        } else {
            let reach = if value == 0.0 { 1e-7 } else { value * 1e-5 };
            [-2.0, -1.0, 0.0, 1.0, 2.0].iter().map(|step| value + step * reach).collect()
        };
        for (repetition, value) in (0..).zip(repetitions) {
            let one = Measurement::new(metric, &self.unit, Better::Neither, value).unwrap();
            self.made.push(Measurement { condition: condition.clone(), repetition, ..one });
        }
    }

    fn holds(&self, holds: &ConditionScope, condition: &Condition, index: usize) -> bool {
        match (holds, self.world) {
            (_, World::Noisy) => true,
            (ConditionScope::Every, world) => world == World::True,
            (ConditionScope::Any, world) => world == World::True && index == 0,
            (ConditionScope::Share { over, .. }, world) => {
                let number = self.systems.iter().position(|one| *one == condition[over]).unwrap();
                let total = self.systems.len();
                let wanted = |count: &usize| holds.admits(*count, total) == (world == World::True);
                number < (0..=total).find(wanted).expect("a share that can be met and missed")
            }
        }
    }

    fn each(&mut self, of: &Selection, holds: &ConditionScope, value: impl Fn(bool) -> f64) {
        for (index, condition) in conditions(of, holds).into_iter().enumerate() {
            let value = value(self.holds(holds, &condition, index));
            self.put(&of.metric, &condition, value);
        }
    }

    fn quotients(&mut self, of: &Selection, to: &Selection, holds: &ConditionScope, bounds: (f64, f64)) {
        let world = self.world;
        self.each(of, holds, |inside| match world {
            World::Noisy => 100.0 * edge(bounds).max(1e-3),
            _ => 100.0 * multiplicative(bounds, inside),
        });
        self.each(to, holds, |_| 100.0);
    }

    fn along(
        &mut self,
        of: &Selection,
        along: &str,
        holds: &ConditionScope,
        places: &[f64],
        value: impl Fn(bool, f64, f64) -> f64,
    ) {
        let (first, last) = (places[0], places[places.len() - 1]);
        let mut rest = of.clone();
        rest.when.remove(along);
        for (index, condition) in conditions(&rest, holds).into_iter().enumerate() {
            let inside = self.holds(holds, &condition, index);
            for place in places {
                let at = Condition::from([(along.to_string(), place.to_string())]);
                let condition = condition.clone().into_iter().chain(at).collect();
                self.put(&of.metric, &condition, value(inside, *place, (place - first) / (last - first)));
            }
        }
    }

    fn trend(&mut self, of: &Selection, along: &str, holds: &ConditionScope, shape: TrendShape, by: f64) {
        let places = places(of, along, &[1.0, 2.0, 3.0, 4.0, 5.0]);
        self.along(of, along, holds, &places, |inside, _, way| match shape {
            TrendShape::Rises => 100.0 * (by * 2.0).powf(if inside { way } else { -way }),
            TrendShape::Falls => 100.0 * (by * 2.0).powf(if inside { -way } else { way }),
            TrendShape::Level => 100.0 * (by * by).powf(if inside { 0.0 } else { way }),
            TrendShape::BendsUp => 100.0 + if inside { way * way } else { way.sqrt() } * 100.0,
            TrendShape::BendsDown => 100.0 + if inside { way.sqrt() } else { way * way } * 100.0,
        });
    }

    fn step(
        &mut self,
        of: &Selection,
        along: &str,
        holds: &ConditionScope,
        (from, to): (f64, f64),
        (by, share): (f64, f64),
    ) {
        let width = to - from;
        let all = places(of, along, &[from, to, to + width, to + 2.0 * width]);
        // After the step comes half of what its share leaves of the whole change.
        let rest = if share < 1.0 && share > 0.0 { 0.5 * (1.0 / share - 1.0) } else { 0.0 };
        self.along(of, along, holds, &all, |inside, place, way| match (inside, place > from) {
            (true, true) => 100.0 * (by * by).powf(1.0 + rest * way),
            _ => 100.0,
        });
    }

    fn line(&mut self, of: &Selection, along: &str, shape: TrendShape, holds: &ConditionScope) {
        let few: &[f64] = &[1.0, 2.0, 3.0, 4.0];
        let many: Vec<f64> = (1..=40u8).map(f64::from).collect();
        let places = places(of, along, if self.world == World::Noisy { few } else { &many });
        let noisy = self.world == World::Noisy;
        let way = |way: f64| if shape == TrendShape::Falls { 1.0 - way } else { way };
        self.along(of, along, holds, &places, |inside, place, along| match (inside, noisy) {
            (_, true) => 100.0 * (way(along) + if (place as u64).is_multiple_of(2) { 0.4 } else { 0.0 }) + 1.0,
            (true, _) => 100.0 * way(along) + 1.0,
            (false, _) => {
                if (place as u64).is_multiple_of(2) {
                    200.0
                } else {
                    100.0
                }
            }
        });
    }

    /// Pairs with the wanted sample correlation, many or few.
    fn cloud(&mut self, of: &Selection, with: &Selection, each: &[String], bounds: (f64, f64), published: Option<f64>) {
        let inside = published.filter(|number| *number >= bounds.0 && *number <= bounds.1);
        let (low, high) = (bounds.0.max(-0.99), bounds.1.min(0.99));
        let wanted = match self.world {
            World::True => inside.unwrap_or(low.midpoint(high)),
            World::Noisy => {
                if bounds.0 > -0.97 {
                    low
                } else {
                    high
                }
            }
            World::False => {
                let away = |r: &f64| (low - r).max(r - high);
                [-0.95, 0.0, 0.95].into_iter().max_by(|a, b| away(a).total_cmp(&away(b))).unwrap()
            }
        };
        let count = if self.world == World::Noisy { 5 } else { 300 };
        let x: Vec<f64> = standard((0..count).map(|i| i as f64));
        let flip: Vec<f64> = standard((0..count).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }));
        let shared = dot(&x, &flip);
        let apart = standard(flip.iter().zip(&x).map(|(flip, x)| flip - shared * x));
        let y: Vec<f64> = x.iter().zip(&apart).map(|(x, z)| wanted * x + (1.0 - wanted * wanted).sqrt() * z).collect();
        let named = |selection: &Selection| {
            let mut selection = selection.clone();
            for key in each {
                selection.when.entry(key.clone()).or_insert(Pattern::Any);
            }
            selection
        };
        for (selection, values) in [(named(of), x), (named(with), y)] {
            let all = conditions(&selection, &ConditionScope::Every);
            let mut groups: BTreeMap<Vec<Option<&String>>, Vec<&Condition>> = BTreeMap::new();
            for condition in &all {
                groups.entry(each.iter().map(|key| condition.get(key)).collect()).or_default().push(condition);
            }
            // In a group, each condition has its part of the points.
            for (group, (point, value)) in
                groups.values().flat_map(|group| values.iter().enumerate().map(move |one| (group, one)))
            {
                let mut condition = group[point % group.len()].clone();
                condition.insert("point".into(), point.to_string());
                let one = Measurement::new(&selection.metric, "s", Better::Neither, *value).unwrap();
                self.made.push(Measurement { condition, ..one });
            }
        }
    }

    fn ranks(&mut self, from: &Selection, to: &Selection, systems: &str, changes: bool) {
        let mut named = [from.clone(), to.clone()];
        for selection in &mut named {
            selection.when.entry(systems.into()).or_insert(Pattern::OneOf(vec![
                "one".into(),
                "two".into(),
                "three".into(),
            ]));
        }
        let turned = changes == (self.world == World::True);
        let mut known: Vec<String> = Vec::new();
        for (after, selection) in named.iter().enumerate() {
            for condition in conditions(selection, &ConditionScope::Every) {
                let name = &condition[systems];
                if !known.contains(name) {
                    known.push(name.clone());
                }
                let place = known.iter().position(|other| other == name).unwrap() as i32;
                let power = if after == 1 && turned { -place } else { place };
                self.put(&selection.metric, &condition, 100.0 * 2f64.powi(power));
            }
        }
    }

    fn table(&mut self, pattern: &Selection, ignore: &[String], mean_error: f64, worst_error: f64) {
        let off = if self.world == World::False { 5.0 * worst_error } else { mean_error / 2.0 };
        let mut points: BTreeMap<(&str, &str, Condition), Vec<f64>> = BTreeMap::new();
        for row in self.set.rows.iter().filter(|row| pattern.admits(&row.published.metric, &row.conditions())) {
            let condition = row.condition.clone().into_iter().filter(|(key, _)| !ignore.contains(key)).collect();
            let key = (row.published.metric.as_str(), row.published.unit.as_str(), condition);
            points.entry(key).or_default().push(row.published.value);
        }
        for ((metric, unit, condition), values) in points {
            self.unit = unit.into();
            self.put(metric, &condition, values.iter().sum::<f64>() / values.len() as f64 * (1.0 + off));
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn standard(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let length = dot(&centred, &centred).sqrt();
    centred.into_iter().map(|value| value / length).collect()
}

/// Points of a series: those of the pattern, else the given ones shifted to its start.
fn places(of: &Selection, along: &str, usual: &[f64]) -> Vec<f64> {
    match of.when.get(along) {
        Some(Pattern::OneOf(words)) => words.iter().map(|word| word.parse().unwrap()).collect(),
        Some(Pattern::AtLeast(first)) => usual.iter().map(|place| first + place - usual[0]).collect(),
        Some(Pattern::AtMost(last)) => usual.iter().map(|place| last - usual[usual.len() - 1] + place).collect(),
        Some(Pattern::Is(_) | Pattern::Minimum | Pattern::Maximum) => panic!("{along} is pinned in a rule along it"),
        Some(Pattern::Any) | None => usual.to_vec(),
    }
}

fn systems(of: &Selection, holds: &ConditionScope) -> Vec<String> {
    match holds {
        ConditionScope::Share { over, .. } => match of.when.get(over) {
            Some(Pattern::OneOf(words)) => words.clone(),
            _ => (0..SYSTEMS).map(|number| format!("system{number}")).collect(),
        },
        _ => Vec::new(),
    }
}

fn conditions(of: &Selection, holds: &ConditionScope) -> Vec<Condition> {
    let mut when = of.when.clone();
    if let ConditionScope::Share { over, .. } = holds {
        when.insert(over.clone(), Pattern::OneOf(systems(of, holds)));
    }
    let mut all = vec![Condition::new()];
    for (key, pattern) in &when {
        let words = match pattern {
            Pattern::Is(word) => vec![word.clone()],
            Pattern::OneOf(words) => words.clone(),
            Pattern::Any => vec!["1".into(), "2".into()],
            Pattern::Minimum => vec![LEAST.into()],
            Pattern::Maximum => vec![GREATEST.into()],
            Pattern::AtLeast(number) => vec![number.to_string(), (number + 1.0).to_string()],
            Pattern::AtMost(number) => vec![number.to_string(), (number - 1.0).to_string()],
        };
        all = all
            .iter()
            .flat_map(|known| words.iter().map(|word| (known.clone(), word.clone())))
            .map(|(mut known, word)| {
                known.insert(key.clone(), word);
                known
            })
            .collect();
    }
    all
}
