//! The record of a study, grouped by cell.

use crate::adaptive;
use crate::controls::{self, Control};
use crate::images::ImageFacts;
use crate::made;
use crate::matrix::{ImageId, RunId, runs};
use crate::matrix_run::{ESTIMATED, Event, RunEvent, TOOK};
use crate::past_events::{self, PastEvent};
use crate::questions::CellId;
use crate::spec::StudySpec;
use crate::subject::{DRIVE_TIME, modelled_by};
use crate::verdicts::{self, Answer, Change, Order};
use senesce_core::Measurement;
use senesce_core::machine::has_no_real_times;
use senesce_guest::carry::GuestBooted;
use senesce_runner::{Recorded, Run};
use senesce_runs::measurements::{MODELLED, THROUGHPUT};
use senesce_stats::verdict::FAMILY_ERROR;
use senesce_stats::{Arm, Decision, Interval, Mean, mean_of_means};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
pub struct Cell {
    pub id: CellId,
    pub what: Measurement,
    pub groups: Vec<Vec<f64>>,
    pub images: Vec<ImageId>,
    pub in_order: Vec<f64>,
    pub in_guest: bool,
    pub emulated: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FailedRun {
    pub id: RunId,
    pub reason: String,
}

pub struct Results {
    pub spec: StudySpec,
    pub judged: Vec<Cell>,
    pub others: Vec<Cell>,
    pub images: Vec<ImageFacts>,
    pub remade: BTreeSet<ImageId>,
    pub controls: Vec<Control>,
    pub answers: Vec<Answer>,
    pub orders: Vec<Order>,
    pub changes: Vec<Change>,
    /// Models of drives that were never slower than the CPU, by workload.
    pub idle_models: BTreeSet<(usize, String)>,
    pub guests: Vec<GuestCells>,
    pub failed: Vec<FailedRun>,
    pub progress: (usize, usize),
    /// Whether the user ended it early.
    pub interrupted: bool,
    /// Seconds of restoring, mounting and making cold before each run.
    pub overhead_seconds: Vec<f64>,
    pub times: Option<(f64, f64)>,
}

/// Returns the measured values, without controls and without times under emulation.
pub fn measurements<R: Run<Event = Event, Step = RunId>>(recorded: &Recorded<R>) -> Vec<Measurement> {
    let runs = runs_of(recorded).filter(|event| !event.id.twin);
    let kept = |event: &RunEvent, one: &Measurement| !(event.is_emulated() && one.is_timing());
    runs.flat_map(|event| event.metrics.iter().filter(move |one| kept(event, one)).cloned()).collect()
}

pub(crate) fn runs_of<R: Run<Event = Event, Step = RunId>>(recorded: &Recorded<R>) -> impl Iterator<Item = &RunEvent> {
    recorded.events().filter_map(|event| match event {
        Event::Run(run) => Some(run),
        Event::Image(_) | Event::Look(_) => None,
    })
}

#[derive(Debug, Clone, PartialEq)]
pub struct GuestCells {
    pub kernel: String,
    /// `kvm`, or `tcg` for emulation.
    pub accelerator: String,
    pub runs: usize,
}

impl Results {
    pub fn of<R: Run<Event = Event, Step = RunId>>(recorded: &Recorded<R>, spec: StudySpec) -> Self {
        let past = past_events::of(&spec, recorded);
        let (images, remade) = (made::images(&spec, recorded.events()), made::remade(&spec, recorded.events()));
        let guests = GuestBooted::all(recorded).into_iter().map(|guest| GuestCells {
            kernel: guest.kernel,
            accelerator: guest.accelerator,
            runs: guest.steps,
        });
        let fact = |name: &str| recorded.environment.0.get(name).and_then(serde_json::Value::as_f64);
        let times = fact(ESTIMATED).zip(fact(TOOK));
        let interrupted = recorded.was_interrupted();
        Self { times, remade, interrupted, ..Self::gather(spec, &past, images, guests.collect()) }
    }

    pub(crate) fn gather(
        spec: StudySpec,
        past: &[PastEvent],
        images: Vec<ImageFacts>,
        guests: Vec<GuestCells>,
    ) -> Self {
        let events: Vec<RunEvent> = past_events::runs(past).cloned().collect();
        let failed = past_events::failed(past);
        let idle_models = idle_models(&spec, &events);
        let (judged, others) = primary_and_other_cells(&events, &idle_models);
        let answers = match spec.until_decided {
            true => adaptive::answers(&spec, past),
            false => verdicts::judge_all(&spec, &judged, &verdicts::censored(&failed)),
        };
        let planned = if spec.until_decided { events.len() + failed.len() } else { runs(&spec).len() };
        let overhead_seconds = events.iter().map(|event| event.overhead_seconds).collect();
        Self {
            controls: controls::of(&events),
            orders: verdicts::orders(&answers),
            changes: verdicts::changes(&answers),
            answers,
            judged,
            others,
            images,
            idle_models,
            guests,
            progress: (events.len() + failed.len(), planned),
            interrupted: false,
            failed,
            overhead_seconds,
            times: None,
            remade: BTreeSet::new(),
            spec,
        }
    }
}

pub(crate) fn primary_and_other_cells(events: &[RunEvent], idle: &BTreeSet<(usize, String)>) -> (Vec<Cell>, Vec<Cell>) {
    // By workload: the main metric of one may be a further metric of another.
    let first = |event: &RunEvent| Some((event.id.workload, event.metrics.first()?.metric.clone()));
    let judged: BTreeSet<(usize, String)> = events.iter().filter_map(first).collect();
    let is_judged = |cell: &Cell| match modelled_by(&cell.what.metric) {
        None => judged.contains(&(cell.id.workload, cell.what.metric.clone())),
        Some(model) => depends_on_drive(&cell.what.metric, idle.contains(&(cell.id.workload, model.to_string()))),
    };
    cells(events).into_iter().partition(is_judged)
}

/// Returns whether a metric contains information about the drive. Throughput on a modelled drive that keeps up with the
/// CPU equals the measured one and does not. The drive time per operation does.
fn depends_on_drive(metric: &str, idle: bool) -> bool {
    match metric.split(MODELLED).next() {
        Some(THROUGHPUT) => !idle,
        Some(DRIVE_TIME) => idle,
        _ => true,
    }
}

/// Models under which no run of a workload is slower than measured.
fn idle_models(spec: &StudySpec, events: &[RunEvent]) -> BTreeSet<(usize, String)> {
    let pairs = (0..spec.workload.len()).flat_map(|workload| spec.models.iter().map(move |model| (workload, model)));
    let is_slower = |event: &RunEvent, model: &str| {
        let value = |name: &str| event.metrics.iter().find(|one| one.metric == name).map(|one| one.value.get());
        match (value(THROUGHPUT), value(&format!("{THROUGHPUT}{MODELLED}{model}"))) {
            (Some(measured), Some(modelled)) => modelled < measured * 0.99,
            _ => true,
        }
    };
    let idle = |(workload, model): &(usize, &String)| {
        let mut of = events.iter().filter(|event| event.id.workload == *workload).peekable();
        of.peek().is_some() && !of.any(|event| is_slower(event, model))
    };
    pairs.filter(idle).map(|(workload, model)| (workload, model.clone())).collect()
}

type Key = (usize, usize, usize, String);

fn key(id: RunId, metric: &str) -> Key {
    (id.workload, id.on.fs, id.on.state, metric.to_string())
}

fn cells(events: &[RunEvent]) -> Vec<Cell> {
    let mut all: BTreeMap<Key, Cell> = BTreeMap::new();
    for event in events.iter().filter(|event| !event.id.twin) {
        for one in &event.metrics {
            all.entry(key(event.id, &one.metric))
                .or_insert_with(|| Cell::empty(event.id, one))
                .add(event, one.value.get());
        }
    }
    all.into_values().collect()
}

impl RunEvent {
    pub(crate) fn is_emulated(&self) -> bool {
        self.guest.as_deref().is_some_and(has_no_real_times)
    }
}

impl Cell {
    /// Returns whether a figure may show a bar: a single value, or an emulator's time, has no bar.
    pub fn has_bar(&self) -> bool {
        self.in_order.len() > 1 && !(self.emulated && self.what.is_timing())
    }

    /// Returns the geometric mean over the images with its own 95 % interval. It is the arithmetic mean if there are
    /// too few values, or values without a logarithm.
    pub fn middle(&self) -> Option<(f64, Option<Interval>)> {
        match Arm::of(&self.groups, Mean::Geometric) {
            Ok(arm) => {
                let interval = arm.interval(FAMILY_ERROR);
                Some((interval.value, Some(interval)))
            }
            Err(_) => Some((mean_of_means(&self.groups)?, None)),
        }
    }

    fn empty(id: RunId, what: &Measurement) -> Self {
        let id = CellId { workload: id.workload, fs: id.on.fs, state: id.on.state };
        let (groups, images, in_order) = Default::default();
        Self { id, what: what.clone(), groups, images, in_order, in_guest: false, emulated: false }
    }

    fn add(&mut self, event: &RunEvent, value: f64) {
        let image = event.id.on;
        self.in_order.push(value);
        self.in_guest |= event.guest.is_some();
        self.emulated |= event.is_emulated();
        match self.images.binary_search(&image) {
            Ok(place) => self.groups[place].push(value),
            Err(place) => {
                self.images.insert(place, image);
                self.groups.insert(place, vec![value]);
            }
        }
    }
}

impl Results {
    pub fn age_of(&self, cell: &Cell) -> Option<&Decision> {
        let is_it = |answer: &&Answer| {
            !answer.question.is_pair() && answer.question.sample == cell.id && answer.what.metric == cell.what.metric
        };
        self.answers.iter().find(is_it).map(|answer| &answer.decision)
    }

    pub(crate) fn image_of(&self, cell: &Cell, id: ImageId) -> Option<&ImageFacts> {
        let (fs, state, workload) = (cell.id.fs, cell.id.state, &self.spec.workload[cell.id.workload].name);
        let kernel = self.spec.guest_kernel(fs, state, workload);
        let is_it = |facts: &&ImageFacts| facts.id == id && facts.guest.is_some() == cell.in_guest;
        self.images.iter().filter(is_it).max_by_key(|facts| facts.guest == kernel)
    }

    pub(crate) fn names(&self, cell: &Cell) -> (&str, &str, &str) {
        self.spec.names((cell.id.fs, cell.id.state, cell.id.workload))
    }

    pub fn is_modelled(cell: &Cell) -> bool {
        modelled_by(&cell.what.metric).is_some()
    }

    pub fn by_metric(&self) -> Vec<Vec<&Cell>> {
        let mut groups: BTreeMap<(usize, bool, &str), Vec<&Cell>> = BTreeMap::new();
        for cell in &self.judged {
            groups.entry((cell.id.workload, Self::is_modelled(cell), &cell.what.metric)).or_default().push(cell);
        }
        groups.into_values().collect()
    }
}

#[cfg(test)]
mod tests;
