//! The remaining gain, against the prediction from the moved files that survive.

use super::arm::Arm;
use super::image::{ImageState, SurvivingFiles};
use super::{ImageHistory, Spec};
use senesce_core::analysis::{Analysis, Axis, Better, Figure, FigureKind, Mark, Series, Table};
use senesce_core::{Measurement, Rows, number_of};
use senesce_stats::{mean, standard_deviation, student};
use serde::Serialize;
use serde_json::json;

/// Systems with a smaller gain than this share of the reading time are left out: their shares are noise.
const LEAST_GAIN: f64 = 0.1;
/// The law holds if this share of points is within [`NEAR`] of the prediction.
const MOST: f64 = 0.9;
const NEAR: f64 = 0.15;
/// With fewer systems, the law is undecided.
const LEAST_SYSTEMS: usize = 5;
const ERROR: f64 = 0.05;

/// A file system with a profile and a treatment: the unit of the law.
#[derive(Debug, Clone, Serialize)]
struct System {
    fs: String,
    profile: String,
    arm: String,
    images: usize,
    /// Mean gain right after the treatment, a share of the reading time.
    gain: f64,
    points: Vec<Point>,
}

/// A system at a moment.
#[derive(Debug, Clone, Serialize)]
struct Point {
    overwrites: f64,
    /// Share of the first gain that is left: mean over images, with its interval if there are several.
    left: f64,
    interval: Option<(f64, f64)>,
    surviving: SurvivingFiles,
}

impl Point {
    /// Returns the predicted share of the gain that is left. Nothing is fitted.
    fn predicted(&self) -> f64 {
        (self.surviving.files + self.surviving.pairs) / 2.0
    }

    fn error(&self) -> f64 {
        self.left - self.predicted()
    }

    /// Returns the error of the second prediction, which uses only the files.
    fn error_of_files(&self) -> f64 {
        self.left - self.surviving.files
    }
}

impl System {
    fn is_tested(&self) -> bool {
        self.gain >= LEAST_GAIN
    }
}

/// How well each prediction fits the points of all systems.
#[derive(Debug, Clone, Serialize)]
struct PredictionAnswers {
    systems: usize,
    points: usize,
    near: usize,
    /// Root mean square error of the first prediction.
    rms: f64,
    /// Points near the second prediction, which uses only the files, and its root mean square error.
    files_near: usize,
    files_rms: f64,
    /// Root mean square error of exponential decay with one half-life, fitted to all points; the half-life is in overwrites.
    half_life_rms: f64,
    half_life: f64,
}

impl PredictionAnswers {
    fn of(systems: &[System]) -> Option<Self> {
        let tested: Vec<&System> = systems.iter().filter(|system| system.is_tested()).collect();
        let points: Vec<&Point> = tested.iter().flat_map(|system| &system.points).collect();
        let rms = |error: &dyn Fn(&Point) -> f64| {
            Some(mean(&points.iter().map(|point| error(point).powi(2)).collect::<Vec<_>>())?.sqrt())
        };
        let decayed = |half: f64| rms(&|point| point.left - 0.5_f64.powf(point.overwrites / half));
        let tried = (1..=400).map(|step| f64::from(step) * 0.01).filter_map(|half| Some((half, decayed(half)?)));
        let (half_life, half_life_rms) = tried.min_by(|one, other| one.1.total_cmp(&other.1))?;
        let near = |error: &dyn Fn(&Point) -> f64| points.iter().filter(|point| error(point).abs() <= NEAR).count();
        Some(Self {
            systems: tested.len(),
            points: points.len(),
            near: near(&Point::error),
            rms: rms(&Point::error)?,
            files_near: near(&Point::error_of_files),
            files_rms: rms(&Point::error_of_files)?,
            half_life_rms,
            half_life,
        })
    }

    /// Returns whether the law holds; `None` if undecided.
    fn holds(&self) -> Option<bool> {
        self.decide(self.near, self.rms)
    }

    /// Returns whether the second prediction holds; `None` if undecided.
    fn files_hold(&self) -> Option<bool> {
        self.decide(self.files_near, self.files_rms)
    }

    fn decide(&self, near: usize, rms: f64) -> Option<bool> {
        let holds = near as f64 >= MOST * self.points as f64 && rms < self.half_life_rms;
        (self.systems >= LEAST_SYSTEMS).then_some(holds)
    }
}

/// Returns the images of one system, each with its control, which had the same layout before the treatment.
fn pairs<'a>(images: &'a [ImageHistory], one: &'a ImageHistory) -> Vec<(&'a ImageHistory, &'a ImageHistory)> {
    let is_alike = |image: &&ImageHistory| {
        (image.step.fs, &image.step.profile, image.step.arm) == (one.step.fs, &one.step.profile, one.step.arm)
    };
    let control = |image: &ImageHistory| {
        images.iter().find(|other| {
            other.step.arm == Arm::None
                && other.before.is_some()
                && other.before == image.before
                && (other.step.fs, &other.step.profile, other.step.seed)
                    == (image.step.fs, &image.step.profile, image.step.seed)
        })
    };
    images.iter().filter(is_alike).filter_map(|image| Some((image, control(image)?))).collect()
}

fn systems(images: &[ImageHistory]) -> Vec<System> {
    let mut systems: Vec<System> = Vec::new();
    for one in images.iter().filter(|image| image.step.arm != Arm::None) {
        let (fs, profile, arm) = (one.step.fs.to_string(), one.step.profile.clone(), one.step.arm.to_string());
        let is_known = |system: &System| (&system.fs, &system.profile, &system.arm) == (&fs, &profile, &arm);
        if systems.iter().any(is_known) {
            continue;
        }
        let pairs = pairs(images, one);
        let Some(gain) = mean(&pairs.iter().filter_map(|(image, control)| gain(image, control, 0)).collect::<Vec<_>>())
        else {
            continue;
        };
        let mut system = System { fs, profile, arm, images: pairs.len(), gain, points: Vec::new() };
        if system.is_tested() {
            system.points = (1..one.moments.len()).filter_map(|at| point(&pairs, at)).collect();
        }
        systems.push(system);
    }
    systems
}

/// Returns the reading time that the treatment saves at a moment, as a share of the control's.
fn gain(image: &ImageHistory, control: &ImageHistory, at: usize) -> Option<f64> {
    let (now, untreated) = (image.moments.get(at)?.disk_seconds, control.moments.get(at)?.disk_seconds);
    (untreated > 0.0).then(|| (untreated - now) / untreated)
}

fn seconds_saved(image: &ImageHistory, control: &ImageHistory, at: usize) -> Option<f64> {
    Some(control.moments.get(at)?.disk_seconds - image.moments.get(at)?.disk_seconds)
}

/// Returns the values of a system at a moment; `None` if a value of an image is missing.
fn point(pairs: &[(&ImageHistory, &ImageHistory)], at: usize) -> Option<Point> {
    let left = |(image, control): &(&ImageHistory, &ImageHistory)| {
        let left = seconds_saved(image, control, at)? / seconds_saved(image, control, 0)?;
        left.is_finite().then_some(left)
    };
    let left: Vec<f64> = pairs.iter().map(left).collect::<Option<_>>()?;
    let surviving: Vec<SurvivingFiles> =
        pairs.iter().map(|(image, _)| image.moments.get(at)?.surviving).collect::<Option<_>>()?;
    let of = |value: fn(&SurvivingFiles) -> f64| mean(&surviving.iter().map(value).collect::<Vec<_>>());
    let centre = mean(&left)?;
    let reach = standard_deviation(&left).filter(|_| left.len() > 1).map(|deviation| {
        student::quantile(ERROR / 2.0, left.len() as f64 - 1.0) * deviation / (left.len() as f64).sqrt()
    });
    Some(Point {
        overwrites: pairs.first()?.0.moments.get(at)?.overwrites,
        left: centre,
        interval: reach.map(|reach| (centre - reach, centre + reach)),
        surviving: SurvivingFiles { files: of(|left| left.files)?, pairs: of(|left| left.pairs)? },
    })
}

pub(super) fn analyse(spec: &Spec, images: &[ImageHistory]) -> Analysis {
    let systems = systems(images);
    let law = PredictionAnswers::of(&systems);
    let treated = images.iter().filter(|image| image.step.arm != Arm::None).count();
    let without = treated - systems.iter().map(|system| system.images).sum::<usize>();
    let mut caveats = Vec::new();
    if without > 0 {
        caveats.push(format!(
            "left out: {}, because no control had the same layout before the treatment",
            number_of(without, "image")
        ));
    }
    Analysis {
        title: "How long does a defragmentation last?".into(),
        summary: summary(&systems, law.as_ref()),
        figures: figures(spec, &systems),
        tables: vec![points(&systems), gains(&systems)],
        findings: Vec::new(),
        caveats,
        result: json!({
            "systems": systems,
            "law": law,
            "holds": law.as_ref().and_then(PredictionAnswers::holds),
            "files_hold": law.as_ref().and_then(PredictionAnswers::files_hold),
            "images": images,
        }),
    }
}

fn summary(systems: &[System], law: Option<&PredictionAnswers>) -> String {
    let Some(law) = law else {
        let gained = systems.iter().filter(|system| system.is_tested()).count();
        return match gained {
            0 => format!("No system of {} gained {:.0} % by its treatment.", systems.len(), LEAST_GAIN * 100.0),
            _ => format!("Undecided: {gained} systems gained enough, and values of all their images are missing."),
        };
    };
    let PredictionAnswers { systems, points, near, rms, files_near, files_rms, half_life_rms, half_life } = law;
    let verdict = match law.holds() {
        Some(true) => "The gain of a defragmentation lasts as long as the files that it moved.".into(),
        Some(false) => "The survival of the moved files does not predict how long the gain lasts.".into(),
        None => format!("Undecided: {systems} systems gained enough, and {LEAST_SYSTEMS} are needed."),
    };
    format!(
        "{verdict} {near} of {points} points of {systems} systems are within {NEAR} of the prediction (required: {:.0} %); rms \
         error {rms:.3}. The share of surviving files alone: {files_near} of {points}, {files_rms:.3}. A single \
         fitted half-life ({half_life:.2} overwrites) has {half_life_rms:.3}.",
        MOST * 100.0
    )
}

fn points(systems: &[System]) -> Table {
    let all: Vec<(&System, &Point)> =
        systems.iter().flat_map(|system| system.points.iter().map(move |point| (system, point))).collect();
    let interval = |point: &Point| {
        point.interval.map_or_else(|| "one value".into(), |(low, high)| format!("{low:.2} to {high:.2}"))
    };
    Rows::of(&all)
        .column("file system", |(system, _)| &system.fs)
        .column("profile", |(system, _)| &system.profile)
        .column("treatment", |(system, _)| &system.arm)
        .column("overwrites later", |(_, point)| point.overwrites)
        .column("gain left", |(_, point)| round(point.left))
        .column("interval", |(_, point)| interval(point))
        .column("predicted", |(_, point)| round(point.predicted()))
        .column("surviving files", |(_, point)| round(point.surviving.files))
        .column("surviving neighbours", |(_, point)| round(point.surviving.pairs))
        .table("points", "Remaining share of the gain")
        .leading()
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn gains(systems: &[System]) -> Table {
    Rows::of(systems)
        .column("file system", |system| &system.fs)
        .column("profile", |system| &system.profile)
        .column("treatment", |system| &system.arm)
        .column("images", |system| &system.images)
        .column("reading time saved at first", |system| round(system.gain))
        .column("tests the law", |system| if system.is_tested() { "yes" } else { "no, small gain" })
        .table("gains", "Gain of the treatment")
}

fn figures(spec: &Spec, systems: &[System]) -> Vec<Figure> {
    let tested = systems.iter().filter(|system| system.is_tested());
    let series = |system: &System| {
        let points = system.points.iter().map(|point| (point.predicted(), point.left)).collect();
        Series::new(format!("{} {} {}", system.fs, system.profile, system.arm), Mark::Measured, points)
    };
    let mut series: Vec<Series> = tested.map(series).collect();
    series.push(Series::new("prediction", Mark::Predicted, vec![(0.0, 0.0), (1.0, 1.0)]));
    vec![Figure {
        id: "law".into(),
        title: "Remaining gain over the survival of files".into(),
        caption: "Each point is a system at a moment, the mean of its images. On the line, the prediction is exact."
            .into(),
        device: format!("modelled disk; images of {} aged in virtual time", spec.size),
        better: Better::Neither,
        kind: FigureKind::Lines {
            x: Axis::linear("mean of surviving files and neighbours").from_zero(),
            y: Axis::linear("share of the gain that is left"),
            series,
        },
    }]
}

pub(super) fn measurements(_spec: &Spec, image: &ImageHistory) -> Vec<Measurement> {
    let of = |moment: &ImageState| -> Vec<Measurement> {
        let (files, pairs) = (moment.surviving.map(|left| left.files), moment.surviving.map(|left| left.pairs));
        let values = [
            ("disk read", "s", Some(moment.disk_seconds)),
            ("surviving files", "", files),
            ("surviving neighbours", "", pairs),
        ];
        let one = |(name, unit, value): (_, _, Option<f64>)| measurement(image, moment, (name, unit, value?));
        values.into_iter().filter_map(one).collect()
    };
    image.moments.iter().flat_map(of).collect()
}

fn measurement(
    image: &ImageHistory,
    moment: &ImageState,
    (name, unit, value): (&str, &str, f64),
) -> Option<Measurement> {
    let step = &image.step;
    let measured = Measurement::new(name, unit, Better::Neither, value).ok()?;
    let measured = measured.under("fs", step.fs.name()).under("profile", &*step.profile);
    let measured = measured.under("arm", step.arm.to_string()).under("overwrites", moment.overwrites.to_string());
    Some(Measurement { image: step.seed, ..measured })
}

#[cfg(test)]
mod tests;
