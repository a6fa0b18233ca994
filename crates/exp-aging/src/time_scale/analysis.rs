//! Tables and figures of the time scale.

use super::{Aged, CommitPolicy, Spec, VALUES, commit_policies, words};
use crate::aged_image::AgedImage;
use senesce_core::Rows;
use senesce_core::analysis::*;
use senesce_stats::{Mean, Ratio, Unit, mean};
use senesce_volume::FileSystem;
use serde::Serialize;
use serde_json::{Value, json};

/// Probability that an interval does not hold the ratio, and that different layouts are declared equal.
const ERROR: f64 = 0.05;
/// Layouts whose values differ by less than this factor count as equal.
const EQUAL: f64 = 1.1;

/// All agings of one profile on one file system with one commit policy.
#[derive(Debug, Serialize)]
struct Cell {
    profile: String,
    file_system: String,
    pace: String,
    #[serde(skip)]
    way: CommitPolicy,
    agings: usize,
    /// Agings that kept their pace.
    kept_pace: usize,
    /// Means, in the order of [`VALUES`].
    values: [f64; VALUES.len()],
    /// Ratios to the slowest rate by seed, with their intervals.
    ratios: [Option<Interval>; VALUES.len()],
    /// Whether every value is proven equal to the slowest rate within 10 %; `null` if too few agings were compared.
    equal: Option<bool>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Interval {
    ratio: f64,
    low: f64,
    high: f64,
}

impl Interval {
    /// Formats `1.02 (0.98 to 1.06)`.
    fn text(&self) -> String {
        let Self { ratio: value, low, high } = *self;
        let whole = senesce_stats::Interval { value, low, high, confidence: 1.0 - ERROR };
        format!("{value:.2} ({})", whole.ends_text(|end| format!("{end:.2}")))
    }
}

/// Results of the rates of one profile on one file system.
#[derive(Debug, Serialize)]
struct RateAnswer {
    profile: String,
    file_system: String,
    slowest: f64,
    /// Fastest rate up to which no value differs from that of the slowest.
    unchanged_to: Option<f64>,
    /// For each commit share: the rate whose layout is nearest, and their largest ratio of a value.
    nearest: Vec<(String, f64, f64)>,
}

struct Group<'a> {
    agings: Vec<&'a Aged>,
}

impl<'a> Group<'a> {
    fn of(agings: &'a [Aged], profile: &str, fs: FileSystem, way: CommitPolicy) -> Self {
        let here = |aged: &&Aged| aged.step.profile == profile && aged.step.fs == fs && aged.step.way == way;
        Self { agings: agings.iter().filter(here).collect() }
    }

    fn means(&self) -> Option<[f64; VALUES.len()]> {
        let of = |of: fn(&AgedImage) -> f64| mean(&self.agings.iter().map(|aged| of(&aged.image)).collect::<Vec<_>>());
        let means: Option<Vec<f64>> = VALUES.iter().map(|value| of(value.of)).collect();
        means?.try_into().ok()
    }

    /// Returns the ratio of a value to that with another commit policy, paired by seed.
    fn ratio(&self, other: &Self, of: fn(&AgedImage) -> f64) -> Option<Ratio> {
        let partner = |aged: &&Aged| other.agings.iter().find(|one| one.step.seed == aged.step.seed).copied();
        let pairs: Vec<(f64, f64)> =
            self.agings.iter().filter_map(|aged| Some((of(&aged.image), of(&partner(aged)?.image)))).collect();
        Ratio::paired(&pairs, Mean::Geometric, Unit::Image).ok()
    }
}

fn slowest(spec: &Spec) -> Option<f64> {
    spec.rates.iter().copied().min_by(f64::total_cmp)
}

fn cell(spec: &Spec, agings: &[Aged], profile: &str, fs: FileSystem, way: CommitPolicy) -> Option<Cell> {
    let group = Group::of(agings, profile, fs, way);
    let values = group.means()?;
    let reference = slowest(spec).filter(|slowest| way != CommitPolicy::Rate(*slowest));
    let reference = reference.map(|slowest| Group::of(agings, profile, fs, CommitPolicy::Rate(slowest)));
    let ratio = |of| reference.as_ref().and_then(|other| group.ratio(other, of));
    let ratios = VALUES.map(|value| ratio(value.of));
    let shown = |ratio: &Ratio| {
        let interval = ratio.interval(ERROR);
        Interval { ratio: interval.value, low: interval.low, high: interval.high }
    };
    let all: Option<Vec<&Ratio>> = ratios.iter().map(Option::as_ref).collect();
    Some(Cell {
        profile: profile.into(),
        file_system: fs.name().into(),
        pace: words(way),
        way,
        agings: group.agings.len(),
        kept_pace: group.agings.iter().filter(|aged| aged.kept_pace()).count(),
        values,
        equal: all.map(|all| all.iter().all(|ratio| is_equal(ratio))),
        ratios: ratios.each_ref().map(|ratio| ratio.as_ref().map(shown)),
    })
}

fn answer(spec: &Spec, cells: &[Cell], profile: &str, fs: FileSystem) -> Option<RateAnswer> {
    let own: Vec<&Cell> =
        cells.iter().filter(|cell| cell.profile == profile && cell.file_system == fs.name()).collect();
    let slowest = slowest(spec)?;
    let mut rates: Vec<(f64, &Cell)> = own.iter().filter_map(|cell| Some((rate(cell)?, *cell))).collect();
    rates.sort_by(|one, other| one.0.total_cmp(&other.0));
    let is_unchanged = |cell: &Cell| cell.equal == Some(true) && cell.kept_pace == cell.agings;
    let unchanged = rates.iter().skip(1).take_while(|(_, cell)| is_unchanged(cell)).last();
    let nearest = own.iter().filter(|cell| rate(cell).is_none()).filter_map(|share| {
        let far = |cell: &Cell| {
            cell.values.iter().zip(share.values).map(|(one, other)| factor(*one, other)).fold(1.0, f64::max)
        };
        let (rate, distance) =
            rates.iter().map(|(rate, cell)| (*rate, far(cell))).min_by(|one, other| one.1.total_cmp(&other.1))?;
        Some((share.pace.clone(), rate, distance))
    });
    Some(RateAnswer {
        profile: profile.into(),
        file_system: fs.name().into(),
        slowest,
        unchanged_to: unchanged.map(|(rate, _)| *rate),
        nearest: nearest.collect(),
    })
}

/// Tests equality by two one-sided tests (Schuirmann 1987): the interval that is wrong with twice the error lies within
/// the factor.
fn is_equal(ratio: &Ratio) -> bool {
    let interval = ratio.interval(2.0 * ERROR);
    1.0 / EQUAL < interval.low && interval.high < EQUAL
}

fn rate(cell: &Cell) -> Option<f64> {
    match cell.way {
        CommitPolicy::Rate(rate) => Some(rate),
        CommitPolicy::Share(_) => None,
    }
}

/// Returns the larger value over the smaller one.
fn factor(one: f64, other: f64) -> f64 {
    (one / other).max(other / one)
}

pub(super) fn analyse(spec: &Spec, agings: &[Aged]) -> Analysis {
    let (mut cells, mut answers) = (Vec::new(), Vec::new());
    for profile in &spec.profiles {
        for fs in &spec.fs {
            cells.extend(commit_policies(spec).filter_map(|way| cell(spec, agings, profile, *fs, way)));
            answers.extend(answer(spec, &cells, profile, *fs));
        }
    }
    let late = agings.iter().filter(|aged| !aged.kept_pace()).count();
    let mut caveats = Vec::new();
    if late > 0 {
        caveats.push(format!(
            "{late} agings took over 1 % longer than their rate implies, because the file system itself waited in virtual time"
        ));
    }
    Analysis {
        title: "The time scale of an aging".into(),
        summary: format!(
            "{} agings of {} at {:.0} % fullness, {:.1} overwrites, in virtual time. {}",
            agings.len(),
            spec.size,
            spec.fullness * 100.0,
            spec.overwrites,
            sentences(&answers)
        ),
        figures: spec.profiles.iter().flat_map(|profile| figures(spec, &cells, profile)).collect(),
        tables: vec![answers_table(&answers), table(&cells)],
        findings: Vec::new(),
        caveats,
        result: json!({"cells": cells, "answers": answers}),
    }
}

fn sentences(answers: &[RateAnswer]) -> String {
    let sentence = |answer: &RateAnswer| {
        let RateAnswer { profile, file_system, slowest, unchanged_to, .. } = answer;
        unchanged_to.map(|rate| {
            format!("{file_system} by {profile}: no value changes by 10 % between {slowest} and {rate} operations per second.")
        })
    };
    let mut all: Vec<String> = answers.iter().filter_map(sentence).collect();
    let others = answers.len() - all.len();
    if others > 0 {
        all.push(format!(
            "In {others} of {} pairs of file system and profile, the rate after the slowest is not proven equal to it.",
            answers.len()
        ));
    }
    all.join(" ")
}

/// Draws one line per file system over the rate.
fn figures(spec: &Spec, cells: &[Cell], profile: &str) -> Vec<Figure> {
    let figure = |index: usize, id: &str| {
        let value = &VALUES[index];
        let series = spec.fs.iter().map(|fs| {
            let own = cells.iter().filter(|cell| cell.profile == profile && cell.file_system == fs.name());
            let mut points: Vec<(f64, f64)> = own.filter_map(|cell| Some((rate(cell)?, cell.values[index]))).collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            Series::new(fs.name(), Mark::Measured, points)
        });
        Figure {
            id: format!("{id}-{profile}"),
            title: format!("{}, {profile}", value.name),
            caption: format!("Means of {} seeds.", spec.seeds),
            device: format!("images of {} in the memory of a user-mode kernel", spec.size),
            better: Better::Neither,
            kind: FigureKind::Lines {
                x: Axis::linear("Operations per second of virtual time").log10(),
                y: Axis::linear(&value.with_unit()).from_zero(),
                series: series.collect(),
            },
        }
    };
    vec![figure(1, "free-extents"), figure(2, "read")]
}

fn answers_table(answers: &[RateAnswer]) -> Table {
    let nearest = |answer: &RateAnswer| {
        let one = |(share, rate, factor): &(String, f64, f64)| format!("{share}: {rate}/s (within {factor:.2} times)");
        answer.nearest.iter().map(one).collect::<Vec<_>>().join("; ")
    };
    Rows::of(answers)
        .column("profile", |answer| &answer.profile)
        .column("file system", |answer| &answer.file_system)
        .column("unchanged up to (per second)", |answer| answer.unchanged_to)
        .column("nearest rate to each commit share", nearest)
        .table("answers", "What the time scale changes")
        .leading()
}

fn table(cells: &[Cell]) -> Table {
    let mut rows = Rows::of(cells)
        .column("profile", |cell| &cell.profile)
        .column("file system", |cell| &cell.file_system)
        .column("pace", |cell| &cell.pace)
        .column("agings", |cell| &cell.agings);
    for (index, value) in VALUES.iter().enumerate() {
        let head = value.with_unit();
        rows =
            rows.column(head, move |cell: &Cell| cell.values[index]).column("over the slowest", move |cell: &Cell| {
                cell.ratios[index].map_or(Value::Null, |ratio| json!(ratio.text()))
            });
    }
    rows.column("equal to the slowest", |cell| match cell.equal {
        Some(true) => "yes",
        Some(false) => "not proven",
        None => "",
    })
    .column("kept its pace", |cell| if cell.kept_pace == cell.agings { "yes" } else { "no" })
    .table("cells", "Layout by pace")
}

#[cfg(test)]
mod tests {
    use super::super::{Step, TimeScale};
    use super::*;
    use crate::aged_image::ImageLayout;
    use senesce_aging::CommitShare;
    use senesce_core::Level;
    use senesce_runner::Experiment;

    fn aged(way: CommitPolicy, seed: u32, extents: u64, seconds: f64) -> Aged {
        let layout = ImageLayout {
            files: 1000,
            extents: extents + u64::from(seed),
            fragmented_files: 10,
            static_layout_score: 0.9,
            tree_layout_score: 0.9,
            free_extents: 500 + u64::from(seed),
            largest_free_bytes: 1 << 20,
            read_seconds: 1.0,
            free_blocks: vec![10.0],
            files_by_extents: vec![100.0],
        };
        let image =
            AgedImage { operations: 1000, commits: 0, unasked_commits: None, seconds, cpu_seconds: 0.1, layout };
        let step = Step { kernel: String::new(), profile: "agrawal".into(), fs: FileSystem::Ext4, way, seed };
        Aged { step, image }
    }

    fn spec() -> Spec {
        Spec { rates: vec![100.0, 1.0, 10.0], shares: vec![CommitShare::NONE], ..TimeScale::defaults(Level::Smoke) }
    }

    fn agings(fast: u64, late: f64) -> Vec<Aged> {
        let each = |seed| {
            [
                aged(CommitPolicy::Rate(1.0), seed, 2000, 1000.0),
                aged(CommitPolicy::Rate(10.0), seed, 2010, 100.0 * late),
                aged(CommitPolicy::Rate(100.0), seed, fast, 10.0),
                aged(CommitPolicy::Share(CommitShare::NONE), seed, fast, 0.01),
            ]
        };
        (0..6).flat_map(each).collect()
    }

    fn answered(agings: &[Aged]) -> Value {
        analyse(&spec(), agings).result["answers"][0].clone()
    }

    #[test]
    fn layout_is_unchanged_up_to_the_first_rate_that_differs() {
        assert_eq!(answered(&agings(2005, 1.0))["unchanged_to"], 100.0);
        assert_eq!(answered(&agings(2900, 1.0))["unchanged_to"], 10.0);
        assert_eq!(answered(&agings(2005, 1.05))["unchanged_to"], Value::Null, "10 per second did not keep its pace");
        assert_eq!(answered(&agings(2005, 1.0)[..4])["unchanged_to"], Value::Null, "one seed proves nothing");
    }

    #[test]
    fn commit_share_is_compared_with_the_nearest_rate() {
        let nearest = answered(&agings(2900, 1.0))["nearest"][0].clone();
        assert_eq!((&nearest[1], nearest[2].as_f64().unwrap()), (&json!(100.0), 1.0));
    }
}
