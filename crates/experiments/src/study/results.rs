//! A study's record, gathered by cell.

use super::conduct::{FailureEvent, RunEvent};
use super::images::ImageFacts;
use super::lab::LabCells;
use super::matrix::{ImageId, RunId, runs};
use super::spec::StudySpec;
use senesce_core::analysis::Better;
use senesce_core::{Failure, Measurement, Record, Seed};
use senesce_stats::{Direction, Judgement, judge, noise_floor};
use std::collections::BTreeMap;

/// One cell under one metric.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Index of the file system.
    pub fs: usize,
    /// Index of the state.
    pub state: usize,
    /// Index of the workload.
    pub workload: usize,
    /// A measurement of the metric: name, unit, direction.
    pub what: Measurement,
    /// Values by image and repetition.
    pub groups: Vec<Vec<f64>>,
    /// The images of the groups.
    pub images: Vec<ImageId>,
    /// All values in the order in which they were taken.
    pub in_order: Vec<f64>,
    /// Against the first state of the same file system; `None` for that state itself.
    pub judgement: Option<Judgement>,
}

/// Noise floors by workload and metric.
pub type Noise = BTreeMap<(usize, String), f64>;

/// Everything that a study measured.
pub struct Results {
    /// The study.
    pub spec: StudySpec,
    /// Cells under their judged metric.
    pub judged: Vec<Cell>,
    /// Cells under all other metrics.
    pub others: Vec<Cell>,
    /// Images.
    pub images: BTreeMap<ImageId, ImageFacts>,
    /// Noise floor (fraction) of each workload and metric.
    pub noise: Noise,
    /// Cells that guests measured.
    pub lab: Vec<LabCells>,
    /// Failed runs.
    pub failed: Vec<FailureEvent>,
    /// Runs done, twins included, and runs planned.
    pub progress: (usize, usize),
    /// Largest overhead between cells, seconds.
    pub overhead_seconds: Vec<f64>,
}

/// Reads a record.
pub fn read(record: &Record) -> Result<Results, Failure> {
    let text = record.plan.settings.get("study").map_or("", String::as_str);
    Ok(read_as(record, super::embedded(text)?))
}

/// Reads a record as that of `spec`, for experiments that derive their study from other settings.
pub fn read_as(record: &Record, spec: StudySpec) -> Results {
    let events: Vec<RunEvent> = record.events_of("run").collect();
    let failed: Vec<FailureEvent> = record.events_of("failed-run").collect();
    let images = record.events_of::<ImageFacts>("image").map(|facts| (facts.id, facts)).collect();
    let planned = runs(&spec).len();
    let names: Vec<&str> = events.iter().filter_map(|event| Some(event.metrics.first()?.metric.as_str())).collect();
    let is_judged = |name: &str| names.contains(&name) || name.contains("modelled");
    let cells = cells(&events);
    let noise = noise(&spec, &events);
    let (mut judged, others): (Vec<Cell>, Vec<Cell>) = cells.into_iter().partition(|cell| is_judged(&cell.what.metric));
    judge_all(&mut judged, &noise);
    let overhead_seconds = events.iter().map(|event| event.overhead_seconds).collect();
    Results {
        spec,
        judged,
        others,
        images,
        noise,
        lab: record.events_of("lab-cells").collect(),
        progress: (events.len() + failed.len(), planned),
        failed,
        overhead_seconds,
    }
}

type Key = (usize, usize, usize, String);

fn key(id: RunId, metric: &str) -> Key {
    (id.workload, id.on.fs, id.on.state, metric.to_string())
}

/// What the runs of one cell gave: by image, and in the order in which they ran.
struct Gathered {
    what: Measurement,
    groups: BTreeMap<ImageId, Vec<f64>>,
    in_order: Vec<f64>,
}

fn cells(events: &[RunEvent]) -> Vec<Cell> {
    let mut all: BTreeMap<Key, Gathered> = BTreeMap::new();
    for event in events.iter().filter(|event| !event.id.twin) {
        for one in &event.metrics {
            let cell = all.entry(key(event.id, &one.metric)).or_insert_with(|| Gathered {
                what: one.clone(),
                groups: BTreeMap::new(),
                in_order: Vec::new(),
            });
            cell.groups.entry(event.id.on).or_default().push(one.value);
            cell.in_order.push(one.value);
        }
    }
    let cell = |((workload, fs, state, _), Gathered { what, groups, in_order }): (Key, Gathered)| {
        let (images, groups) = groups.into_iter().unzip();
        Cell { fs, state, workload, what, groups, images, in_order, judgement: None }
    };
    all.into_iter().map(cell).collect()
}

/// Twins against the same cell's own runs on the same image.
fn noise(spec: &StudySpec, events: &[RunEvent]) -> Noise {
    type Pairs = BTreeMap<ImageId, (Vec<f64>, Vec<f64>)>;
    let mut pairs: BTreeMap<(usize, String), Pairs> = BTreeMap::new();
    let twins: Vec<(ImageId, usize)> =
        events.iter().filter(|event| event.id.twin).map(|event| (event.id.on, event.id.workload)).collect();
    for event in events.iter().filter(|event| twins.contains(&(event.id.on, event.id.workload))) {
        for one in &event.metrics {
            let pair =
                pairs.entry((event.id.workload, one.metric.clone())).or_default().entry(event.id.on).or_default();
            if event.id.twin { pair.1.push(one.value) } else { pair.0.push(one.value) }
        }
    }
    let floor = |pairs: Pairs| noise_floor(&pairs.into_values().collect::<Vec<_>>());
    pairs
        .into_iter()
        .filter(|((workload, _), _)| *workload < spec.workload.len())
        .filter_map(|(key, pairs)| Some((key, floor(pairs)?)))
        .collect()
}

fn judge_all(cells: &mut [Cell], noise: &Noise) {
    let reference: BTreeMap<Key, Vec<Vec<f64>>> = {
        let mut first: BTreeMap<Key, &Cell> = BTreeMap::new();
        for cell in cells.iter() {
            let key = (cell.workload, cell.fs, 0, cell.what.metric.clone());
            let known = first.entry(key).or_insert(cell);
            if cell.state < known.state {
                *known = cell;
            }
        }
        first
            .into_iter()
            .map(|((workload, fs, _, metric), cell)| ((workload, fs, cell.state, metric), cell.groups.clone()))
            .collect()
    };
    for cell in cells {
        let mut rng = Seed(0).stream(&format!("study/judge/{}/{}/{}", cell.workload, cell.fs, cell.state));
        let of = reference.iter().find(|((workload, fs, _, metric), _)| {
            *workload == cell.workload && *fs == cell.fs && *metric == cell.what.metric
        });
        let Some(((_, _, state, _), groups)) = of else { continue };
        if *state == cell.state {
            continue;
        }
        let direction = match cell.what.better {
            Better::Lower => Direction::LowerIsBetter,
            _ => Direction::HigherIsBetter,
        };
        let floor = noise.get(&(cell.workload, cell.what.metric.clone())).copied().unwrap_or(0.0);
        cell.judgement = Some(judge(&cell.groups, groups, direction, floor, &mut rng));
    }
}

impl Results {
    /// Names of file system, state and workload of a cell.
    pub fn names(&self, cell: &Cell) -> (&str, &str, &str) {
        (
            &self.spec.file_system[cell.fs].name,
            &self.spec.state[cell.state].name,
            &self.spec.workload[cell.workload].name,
        )
    }

    /// Whether a metric comes from a device model.
    pub fn is_modelled(cell: &Cell) -> bool {
        cell.what.metric.contains("modelled")
    }

    /// Judged cells by workload and metric, in the order of the study.
    pub fn by_metric(&self) -> Vec<Vec<&Cell>> {
        let mut groups: BTreeMap<(usize, bool, &str), Vec<&Cell>> = BTreeMap::new();
        for cell in &self.judged {
            groups.entry((cell.workload, Self::is_modelled(cell), &cell.what.metric)).or_default().push(cell);
        }
        groups.into_values().collect()
    }
}
