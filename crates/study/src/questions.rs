//! The comparisons of a study: every cell against the first state of its file system, and every pair of file systems in
//! a state. All answers share one error probability, so the number of questions determines the repetitions.

use crate::spec::{StateKind, StudySpec};
use senesce_stats::Ratio;
use senesce_stats::arm::LEAST_VALUES;
use senesce_stats::verdict::{FAMILY_ERROR, MARGIN};
use serde::{Deserialize, Serialize};

/// The change that the default number of repetitions finds with probability [`POWER`] if values vary by [`VARIATION`].
const CHANGE: f64 = 0.10;
const POWER: f64 = 0.9;

/// Variation between repetitions that plans assume (standard deviation over mean): that of a quiet machine with margin.
const VARIATION: f64 = 0.05;

/// A cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellId {
    /// Index of the workload.
    pub workload: usize,
    /// Index of the file system.
    pub fs: usize,
    /// Index of the state.
    pub state: usize,
}

/// Two cells under one workload; the answer is the first over the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    pub sample: CellId,
    pub reference: CellId,
}

impl Question {
    pub(crate) fn is_pair(&self) -> bool {
        self.sample.fs != self.reference.fs
    }
}

pub(crate) fn questions(spec: &StudySpec) -> Vec<Question> {
    let present = |workload: usize, fs: usize, state: usize| {
        let skip = spec.exception(fs, state, &spec.workload[workload].name).skip;
        (!skip).then_some(CellId { workload, fs, state })
    };
    let (systems, states) = (spec.file_system.len(), spec.state.len());
    let mut all = Vec::new();
    for workload in 0..spec.workload.len() {
        for fs in 0..systems {
            let mut cells = (0..states).filter_map(|state| present(workload, fs, state));
            let Some(reference) = cells.next() else { continue };
            all.extend(cells.map(|sample| Question { sample, reference }));
        }
    }
    for workload in 0..spec.workload.len() {
        for state in 0..states {
            let cells: Vec<CellId> = (0..systems).filter_map(|fs| present(workload, fs, state)).collect();
            for (index, &sample) in cells.iter().enumerate() {
                all.extend(cells[index + 1..].iter().map(|&reference| Question { sample, reference }));
            }
        }
    }
    all
}

/// Returns the error probability of each answer, so that all together are wrong with probability [`FAMILY_ERROR`] at
/// most. Every modelled drive repeats the questions.
pub(crate) fn error_each(spec: &StudySpec) -> f64 {
    FAMILY_ERROR / (questions(spec).len() * (1 + spec.models.len())).max(1) as f64
}

/// Repetitions on each image that find a change of a tenth 9 times in 10 if values vary by 5 %.
pub(crate) fn default_repetitions(spec: &StudySpec) -> u32 {
    let found = Ratio::assumed(VARIATION, LEAST_VALUES).repetitions_to_find(CHANGE, error_each(spec), MARGIN, POWER);
    let values = found.unwrap_or(0).max(LEAST_VALUES as u64);
    u32::try_from(values.div_ceil(u64::from(spec.images.max(1)))).unwrap_or(u32::MAX)
}

fn is_aged(spec: &StudySpec) -> bool {
    spec.state.iter().any(|state| !matches!(state.kind, StateKind::Fresh | StateKind::Image))
}

/// Returns why the number of repetitions is refused: no answer could be decided. A study without questions may have any
/// number.
pub(crate) fn too_few(spec: &StudySpec) -> Option<String> {
    let values = u64::from(spec.repetitions) * u64::from(spec.images);
    if values >= LEAST_VALUES as u64 || spec.numbers_only || questions(spec).is_empty() {
        return None;
    }
    let least = (LEAST_VALUES as u64).div_ceil(u64::from(spec.images.max(1)));
    Some(format!(
        "repetitions = {}: {values} values per cell cannot decide anything, a verdict needs {LEAST_VALUES}. Set at \
         least {least}, or omit it: {} find a change of 10 %. numbers_only = true accepts any number and gives no \
         verdict",
        spec.repetitions,
        default_repetitions(spec)
    ))
}

pub(crate) fn reach_text(spec: &StudySpec) -> String {
    let asked = questions(spec).len() * (1 + spec.models.len());
    let values = (spec.repetitions * spec.images) as usize;
    if asked == 0 {
        return "one cell: there is nothing to compare it with".into();
    }
    if values < LEAST_VALUES {
        return format!(
            "nothing: a verdict needs {LEAST_VALUES} values per cell, but there will be only {values}; raise \
             repetitions"
        );
    }
    let (units, noun) = match spec.images {
        1 => (values, "repetitions"),
        images => (images as usize, "images"),
    };
    let found = Ratio::assumed(VARIATION, units).detectable_at(error_each(spec), MARGIN, POWER);
    let alone = match spec.images {
        1 if is_aged(spec) => "; with one image per state, an answer holds for that image only",
        _ => "",
    };
    format!(
        "changes of {:.0} % and more, 9 times in 10, if {noun} vary by {:.0} % ({units} {noun} per cell, {asked} \
         comparisons that hold together with 95 %){alone}",
        (found - 1.0) * 100.0,
        VARIATION * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(systems: &[&str], states: usize, workloads: usize, head: &str) -> StudySpec {
        let mut text = format!("name = 't'\nsize = '1G'\n{head}\n");
        systems.iter().for_each(|kind| text += &format!("[[file_system]]\nkind = '{kind}'\n"));
        text += "[[state]]\nkind = 'fresh'\n";
        for state in 1..states {
            text += &format!("[[state]]\nkind = 'aged'\nname = 'aged {state}'\nprofile = 'agrawal'\nfullness = 0.5\n");
        }
        for workload in 0..workloads {
            text += &format!("[[workload]]\nname = 'w{workload}'\npersonality = 'webserver'\nscale = 0.1\n");
        }
        StudySpec::parse("t", &text).unwrap()
    }

    #[test]
    fn every_pair_and_every_age_is_asked() {
        let all = questions(&spec(&["ext4", "xfs", "btrfs", "f2fs"], 2, 3, ""));
        let pairs = all.iter().filter(|question| question.is_pair()).count();
        assert_eq!((pairs, all.len()), (36, 48));
        assert!(questions(&spec(&["ext4"], 1, 1, "")).is_empty());
        let skipped = spec(&["ext4", "xfs"], 2, 1, "[[cell]]\nstate = 'fresh'\nskip = true\n");
        assert_eq!(questions(&skipped).len(), 1, "one state is left, and its pair");
    }

    #[test]
    fn default_repetitions_grow_with_questions() {
        assert_eq!(spec(&["ext4"], 2, 1, "").repetitions, 7);
        let large = spec(&["ext4", "xfs", "btrfs", "f2fs"], 2, 3, "");
        assert!((14..=15).contains(&large.repetitions), "{}", large.repetitions);
        assert_eq!(spec(&["ext4"], 2, 1, "images = 4").repetitions, 2);
        assert_eq!(spec(&["ext4"], 2, 1, "repetitions = 6").repetitions, 6);
    }

    #[test]
    fn too_few_repetitions_are_refused() {
        let text = |head: &str, states: &str| {
            format!(
                "name = 't'\nsize = '1G'\n{head}\n[[file_system]]\nkind = 'ext4'\n[[state]]\nkind = 'fresh'\n{states}\n\
                 [[workload]]\npersonality = 'webserver'\nscale = 0.1\n"
            )
        };
        let write_once = "[[state]]\nkind = 'write-once'\nprofile = 'agrawal'\nfullness = 0.5";
        let is_valid = |head: &str, states| StudySpec::parse("t", &text(head, states)).is_ok();
        assert!(!is_valid("repetitions = 4", write_once) && is_valid("repetitions = 5", write_once));
        assert!(
            !is_valid("repetitions = 2\nimages = 2", write_once) && is_valid("repetitions = 3\nimages = 2", write_once)
        );
        assert!(is_valid("repetitions = 1", ""), "one cell asks nothing");
        assert!(is_valid("repetitions = 1\nnumbers_only = true", write_once));
    }

    #[test]
    fn detectable_change_is_reported() {
        let message = reach_text(&spec(&["ext4"], 2, 1, ""));
        assert!(message.starts_with("changes of 9 %") || message.starts_with("changes of 10 %"), "{message}");
        assert!(message.contains("that image only"), "{message}");
        let few = StudySpec { repetitions: 3, ..spec(&["ext4"], 2, 1, "") };
        assert!(reach_text(&few).starts_with("nothing"));
        assert!(!reach_text(&spec(&["ext4"], 2, 1, "images = 8")).contains("alone"));
    }
}
