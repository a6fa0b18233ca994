//! Figures of a study: bars per workload, layout against cost, free space of the images.

use crate::analysis::layout_pairs;
use crate::pair_figures;
use crate::results::{Cell, Results};
use crate::spec::{FileSystemSpec, StudySpec};
use senesce_core::analysis::*;
use senesce_core::machine::has_no_real_times;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn of(results: &Results) -> Vec<Figure> {
    let mut figures = Vec::new();
    for cells in results.by_metric() {
        figures.extend(bars(results, &cells));
        figures.extend(layout(results, &cells));
    }
    figures.extend(pair_figures::of(results));
    figures.extend(free_space(results));
    figures
}

fn slug(text: &str) -> String {
    text.chars().map(|one| if one.is_ascii_alphanumeric() { one.to_ascii_lowercase() } else { '-' }).collect()
}

pub(crate) fn device(results: &Results, cells: &[&Cell]) -> String {
    match cells.first().filter(|cell| Results::is_modelled(cell)) {
        Some(cell) => format!(
            "{}, from the block trace of an image of {}",
            cell.what.metric.rsplit(", ").next().unwrap_or("modelled"),
            results.spec.size
        ),
        None => {
            let systems = cells.iter().map(|cell| cell.id.fs).collect();
            format!("{}{}", places(&results.spec, &systems), in_the_guest(results, cells))
        }
    }
}

pub(crate) fn places(spec: &StudySpec, systems: &BTreeSet<usize>) -> String {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for one in systems.iter().map(|fs| &spec.file_system[*fs]) {
        places.entry(place(spec, one)).or_default().push(&one.name);
    }
    let alone = places.len() == 1;
    let parts =
        places.into_iter().map(|(place, names)| if alone { place } else { format!("{}: {place}", names.join(", ")) });
    parts.collect::<Vec<_>>().join("; ")
}

fn place(spec: &StudySpec, fs: &FileSystemSpec) -> String {
    match &fs.device {
        Some(device) => format!("image of {} copied onto {}", spec.size, device.display()),
        None if fs.is_zoned() => format!("zoned drive of {}", spec.size),
        None => format!("image of {} on a loop device", spec.size),
    }
}

fn reference(results: &Results, cells: &[&Cell]) -> Option<String> {
    let mut first: BTreeMap<usize, usize> = BTreeMap::new();
    for cell in cells {
        let state = first.entry(cell.id.fs).or_insert(cell.id.state);
        *state = cell.id.state.min(*state);
    }
    let states: BTreeSet<usize> = first.into_values().collect();
    match states.len() {
        1 => states.first().map(|state| results.spec.state[*state].name.clone()),
        _ => None,
    }
}

fn in_the_guest(results: &Results, cells: &[&Cell]) -> String {
    let spec = &results.spec;
    let is_there =
        |cell: &&&Cell| spec.guest_kernel(cell.id.fs, cell.id.state, &spec.workload[cell.id.workload].name).is_some();
    let names: BTreeSet<&str> =
        cells.iter().filter(is_there).map(|cell| spec.file_system[cell.id.fs].name.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    let emulated = results.guests.iter().any(|cells| has_no_real_times(&cells.accelerator));
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    format!("; {names}: in the guest{}", if emulated { ", whose times are the emulator's" } else { "" })
}

fn bars(results: &Results, cells: &[&Cell]) -> Option<Figure> {
    if !cells.iter().any(|cell| cell.has_bar()) {
        return None;
    }
    let what = &cells[0].what;
    let workload = &results.spec.workload[cells[0].id.workload].name;
    let mark = if Results::is_modelled(cells[0]) { Mark::Modelled } else { Mark::Measured };
    let mut series = Vec::new();
    for (state, spec) in results.spec.state.iter().enumerate() {
        let mut one = Series::new(&spec.name, mark, Vec::new());
        for cell in cells.iter().filter(|cell| cell.id.state == state && cell.has_bar()) {
            let Some((value, interval)) = cell.middle() else { continue };
            one.points.push((cell.id.fs as f64, value));
            one.values.push(cell.in_order.clone());
            one.intervals.push(interval.map_or((f64::NAN, f64::NAN), |interval| (interval.low, interval.high)));
        }
        if !one.points.is_empty() {
            series.push(one);
        }
    }
    let names = results.spec.file_system.iter().map(|one| one.name.clone()).collect();
    Some(Figure {
        id: format!("{}-{}", slug(workload), slug(&what.metric)),
        title: format!("{workload}: {} by file system and state", what.metric),
        caption: "Geometric means over images and repetitions. From 5 values on, each has its own 95 % interval, not \
                  corrected for the others. Dots show single values if there are few."
            .into(),
        device: device(results, cells),
        better: what.better,
        kind: FigureKind::Bars {
            x: Axis::categories("File system", names),
            y: Axis::linear(&format!("{} ({})", capitalised(&what.metric), what.unit)),
            series,
        },
    })
}

pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn layout(results: &Results, cells: &[&Cell]) -> Option<Figure> {
    let pairs = layout_pairs(results, cells);
    let distinct = pairs.iter().any(|(_, score, _)| (score - pairs[0].1).abs() > 1e-9);
    if pairs.len() < 3 || !distinct {
        return None;
    }
    let what = &cells[0].what;
    let workload = &results.spec.workload[cells[0].id.workload].name;
    let series = results.spec.file_system.iter().enumerate().map(|(fs, spec)| {
        let of = pairs.iter().filter(|pair| pair.0 == fs).map(|(_, score, ratio)| (*score, *ratio));
        Series::new(
            &spec.name,
            if Results::is_modelled(cells[0]) { Mark::Modelled } else { Mark::Measured },
            of.collect(),
        )
    });
    Some(Figure {
        id: format!("layout-{}-{}", slug(workload), slug(&what.metric)),
        title: format!("{workload}: {} against layout", what.metric),
        caption: format!(
            "One mark per image: its tree layout score (1: no jump between any two blocks) and its {} relative to the first \
             state of its file system.",
            what.metric
        ),
        device: device(results, cells),
        better: what.better,
        kind: FigureKind::Scatter {
            x: Axis::linear("Tree layout score"),
            y: Axis::linear(&format!(
                "{} relative to {}",
                capitalised(&what.metric),
                reference(results, cells).map_or_else(|| "the first state of each".into(), |name| format!("'{name}'"))
            )),
            series: series.filter(|one| !one.points.is_empty()).collect(),
        },
    })
}

fn free_space(results: &Results) -> Option<Figure> {
    let states: Vec<_> = results
        .images
        .iter()
        .filter(|facts| facts.id.image == 0)
        .filter_map(|facts| {
            let (fs, state) = (&results.spec.file_system[facts.id.fs].name, &results.spec.state[facts.id.state].name);
            let is_alone = results.images.iter().filter(|other| other.id == facts.id).count() == 1;
            let kernel = facts.guest.as_ref().filter(|_| !is_alone).map_or(String::new(), |guest| format!(", {guest}"));
            Some((format!("{fs} {state}{kernel}"), facts.free_space.clone()?))
        })
        .collect();
    (!states.is_empty())
        .then(|| senesce_layout::analysis::free_space_figure(&states, &format!("images of {}", results.spec.size)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::runs;
    use crate::matrix_run::RunEvent;
    use crate::past_events::PastEvent;
    use senesce_core::Measurement;

    fn results(changes: &str) -> Results {
        let text = format!(
            "name = 't'\nsize = '1G'\nrepetitions = 5\n[[file_system]]\nkind = 'ext4'\ndevice = '/dev/sdx'\n[[file_system]]\n\
             kind = 'xfs'\n[[state]]\nkind = 'fresh'\n[[state]]\nkind = 'write-once'\nprofile = 'agrawal'\n[[state]]\n\
             kind = 'aged'\nprofile = 'agrawal'\n[[workload]]\npersonality = 'webserver'\nscale = 0.1\n{changes}"
        );
        let spec = StudySpec::parse("t", &text).unwrap();
        let event = |id: crate::matrix::RunId| {
            let value = f64::from(1 << id.on.state) * (1.0 + 0.01 * f64::from(id.repetition));
            let metrics = vec![Measurement::new("throughput", "operations/s", Better::Higher, value).unwrap()];
            RunEvent { id, metrics, overhead_seconds: 0.0, seconds: 1.0, guest: None }
        };
        let past: Vec<PastEvent> = runs(&spec).into_iter().map(event).map(PastEvent::Run).collect();
        Results::gather(spec, &past, Vec::new(), Vec::new())
    }

    #[test]
    fn figures_name_the_measured_devices() {
        let figures = of(&results(""));
        let text = "ext4: image of 1 GiB copied onto /dev/sdx; xfs: image of 1 GiB on a loop device";
        for id in ["webserver-throughput", "pairs-0"] {
            assert_eq!(figures.iter().find(|figure| figure.id == id).unwrap().device, text, "{id}");
        }
    }

    #[test]
    fn reference_is_the_first_existing_state() {
        let skipped = results("[[cell]]\nstate = 'fresh'\nskip = true\n");
        let cells: Vec<&Cell> = skipped.judged.iter().collect();
        assert_eq!(reference(&skipped, &cells).as_deref(), Some("write-once"));
        let changes = crate::answer::changes_table(&skipped);
        assert!(!changes.title.contains("fresh") && changes.rows[0][4] == "write-once", "{changes:?}");
        let mixed = results("[[cell]]\nfile_system = 'xfs'\nstate = 'fresh'\nskip = true\n");
        assert_eq!(reference(&mixed, &mixed.judged.iter().collect::<Vec<_>>()), None);
    }
}
