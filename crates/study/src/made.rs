//! Tracks the images of a study, and those that were replaced under the same name.

use crate::images::ImageFacts;
use crate::matrix::ImageId;
use crate::matrix_run::Event;
use crate::spec::StudySpec;
use crate::verdicts::varies;
use std::collections::{BTreeMap, BTreeSet};

/// Returns whether a record must add the facts of an image: it is new, or the last recorded one differs.
pub(crate) fn is_new<'a>(recorded: impl DoubleEndedIterator<Item = &'a Event>, facts: &ImageFacts) -> bool {
    let last = recorded.rev().find_map(|event| match event {
        Event::Image(known) if known.place() == facts.place() => Some(&known.key),
        _ => None,
    });
    !facts.from_store || last != Some(&facts.key)
}

pub(crate) fn images<'a>(spec: &StudySpec, recorded: impl Iterator<Item = &'a Event>) -> Vec<ImageFacts> {
    let made = recorded.filter_map(|event| match event {
        Event::Image(facts) if spec.holds_image(facts.id) => Some((facts.place(), facts)),
        _ => None,
    });
    made.collect::<BTreeMap<_, _>>().into_values().cloned().collect()
}

pub(crate) fn remade<'a>(spec: &StudySpec, recorded: impl Iterator<Item = &'a Event>) -> BTreeSet<ImageId> {
    // A run records whether a guest did it, and its guest was the last that made the image.
    let mut now: BTreeMap<(ImageId, bool), &ImageFacts> = BTreeMap::new();
    let mut first: BTreeMap<(ImageId, Option<&str>), &ImageFacts> = BTreeMap::new();
    let mut remade = BTreeSet::new();
    for event in recorded {
        match event {
            Event::Image(facts) if spec.holds_image(facts.id) => {
                now.insert((facts.id, facts.guest.is_some()), facts);
            }
            Event::Run(run) => {
                let Some(facts) = now.get(&(run.id.on, run.guest.is_some())).copied() else { continue };
                if is_another(spec, first.entry(facts.place()).or_insert(facts), facts) {
                    remade.insert(facts.id);
                }
            }
            _ => {}
        }
    }
    remade
}

/// Returns whether an image differs from the one `before`. A reproducible image is equal when it is made again, if the
/// same program made it.
fn is_another(spec: &StudySpec, before: &ImageFacts, now: &ImageFacts) -> bool {
    let can_differ = varies(spec, now.id.state) || spec.file_system[now.id.fs].custom().is_some();
    let was_made_again = !std::ptr::eq(before, now) && !now.from_store;
    before.key != now.key || was_made_again && can_differ
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::RunId;
    use crate::matrix_run::RunEvent;

    const FRESH: usize = 0;
    const AGED: usize = 1;
    const CUSTOM: usize = 1;

    fn spec() -> StudySpec {
        let text = "name = 't'\nsize = '64M'\nnumbers_only = true\n[[file_system]]\nkind = 'ext4'\n[[file_system]]\n\
                    kind = 'custom'\nmkfs = 'mkfs $DEVICE'\nmount = 'mount $DEVICE $MNT'\n[[state]]\nkind = 'fresh'\n\
                    [[state]]\nkind = 'aged'\nprofile = 'wang_os'\nfullness = 0.4\ntruncate = 'drop'\n[[workload]]\n\
                    ready = 'fsync-log'\n";
        StudySpec::parse("t", text).unwrap()
    }

    fn image(fs: usize, state: usize, key: &str, from_store: bool, guest: Option<&str>) -> ImageFacts {
        let (key, guest) = (key.into(), guest.map(str::to_string));
        ImageFacts { key, from_store, guest, ..ImageFacts::unexamined(ImageId { fs, state, image: 0 }) }
    }

    fn run(fs: usize, state: usize, guest: Option<&str>) -> Event {
        let id = RunId { on: ImageId { fs, state, image: 0 }, workload: 0, repetition: 0, twin: false };
        let guest = guest.map(str::to_string);
        Event::Run(RunEvent { id, metrics: Vec::new(), overhead_seconds: 0.0, seconds: 1.0, guest })
    }

    #[test]
    fn new_or_replaced_image_is_recorded() {
        let record = [image(0, 0, "a", false, None), image(1, 0, "b", true, None), image(0, 0, "c", false, None)];
        let record = record.map(Event::Image);
        let is_new = |fs: usize, key: &str, from_store| is_new(record.iter(), &image(fs, 0, key, from_store, None));
        assert!(!is_new(0, "c", true) && !is_new(1, "b", true), "they were fetched unchanged");
        assert!(is_new(0, "a", true) && is_new(1, "c", true), "its facts are those of another image");
        assert!(is_new(0, "c", false), "made again under its key");
    }

    #[test]
    fn guest_image_differs_from_image_of_this_machine() {
        let (here, there) = (image(0, AGED, "a", true, None), image(0, AGED, "b", false, Some("6.12")));
        let record = [Event::Image(here.clone()), run(0, AGED, None), Event::Image(there), run(0, AGED, Some("kvm"))];
        assert!(!is_new(record.iter(), &here), "no change here");
        let again = [record[0].clone(), run(0, AGED, None)];
        let all: Vec<Event> = record.iter().chain(&again).cloned().collect();
        assert!(remade(&spec(), all.iter()).is_empty());
        assert_eq!(images(&spec(), all.iter()).len(), 2);
    }

    #[test]
    fn runs_of_two_images_under_one_key_are_named() {
        let of = |fs: usize, state: usize, again: ImageFacts, runs: usize| {
            let mut record = vec![Event::Image(image(fs, state, "a", false, None)), run(fs, state, None)];
            record.push(Event::Image(again));
            record.extend((0..runs).map(|_| run(fs, state, None)));
            !remade(&spec(), record.iter()).is_empty()
        };
        assert!(of(0, AGED, image(0, AGED, "a", false, None), 1), "aged again by two threads");
        assert!(of(CUSTOM, FRESH, image(CUSTOM, FRESH, "a", false, None), 1), "the versions of its mkfs are unknown");
        assert!(of(0, FRESH, image(0, FRESH, "b", true, None), 1), "made otherwise");
        assert!(!of(0, FRESH, image(0, FRESH, "a", false, None), 1), "a fresh one is always the same");
        assert!(!of(0, AGED, image(0, AGED, "a", false, None), 0), "no run was done on it");
    }
}
