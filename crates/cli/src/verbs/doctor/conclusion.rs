//! The conclusion of `senesce doctor`: the features that are ready, and the missing checks of the others.

use senesce_guest::qemu::QEMU;
use senesce_guest::uml::{BUILD_PROGRAMS, SOURCE_PROGRAMS};
use senesce_runs::doctor::{Check, ROOT, State};
use serde::Serialize;

pub(super) const KERNEL: &str = "user-mode kernel";
pub(super) const VIRTUAL_TIME: &str = "virtual time";
const IMAGES: &[&str] = &[ROOT, "/dev/loop-control", "mkfs.ext4"];

/// A feature that needs all of its programs, so that all missing ones are named.
const VM_BUILD: &str = "vm build";

/// Features, each with lists of checks: all checks of one list must pass. The check of a drive is named by its purpose.
const FEATURES: [(&str, &[&[&str]]); 8] = [
    ("age and bench of directories", &[&[]]),
    ("demo and age of images", &[IMAGES, &[KERNEL, "mkfs.ext4"]]),
    ("gates (study) in a guest", &[&[KERNEL, VIRTUAL_TIME, "mkfs.ext4"]]),
    ("study on the host", &[IMAGES]),
    ("cold reads", &[&[ROOT, "self-test: cold read"]]),
    ("block traces", &[&[ROOT, "self-test: block trace"]]),
    ("tiered file system", &[&["/dev/fuse", ROOT], &["/dev/fuse", "fusermount3"]]),
    ("zoned drives", &[&["a zoned drive", ROOT], &[QEMU]]),
];

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Conclusion {
    #[serde(skip)]
    is_root: bool,
    ready: Vec<&'static str>,
    not_ready: Vec<Unready>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Unready {
    feature: &'static str,
    /// The first missing check of each list; of [`VM_BUILD`] all.
    missing: Vec<&'static str>,
}

impl Conclusion {
    /// Derives the conclusion from the checks. Guests have the programs in `packaged` even if this machine lacks them.
    pub(super) fn of(checks: &[Check], packaged: &[String]) -> Self {
        let is_named = |check: &Check, name: &str| check.what == name || check.needed_for == name;
        let works = |name: &str| checks.iter().any(|check| is_named(check, name) && check.state == State::Works);
        let is_packaged = |name: &str| packaged.iter().any(|program| program == name);
        let mut conclusion = Self { is_root: works(ROOT), ready: Vec::new(), not_ready: Vec::new() };
        for (feature, lists) in FEATURES {
            let mut missing = Vec::new();
            for list in lists {
                let in_guest = list.contains(&KERNEL);
                missing.push(list.iter().copied().find(|name| !(works(name) || in_guest && is_packaged(name))));
            }
            if missing.contains(&None) {
                conclusion.ready.push(feature);
                continue;
            }
            // An absent drive has no check.
            let is_listed = |name: &&str| checks.iter().any(|check| check.what == *name);
            let mut missing: Vec<&str> = missing.into_iter().flatten().filter(is_listed).collect();
            missing.dedup();
            conclusion.not_ready.push(Unready { feature, missing });
        }
        let programs = BUILD_PROGRAMS.iter().chain(&SOURCE_PROGRAMS).map(|(program, _)| *program);
        let missing: Vec<&str> = programs.filter(|program| !works(program)).collect();
        match missing.is_empty() {
            true => conclusion.ready.push(VM_BUILD),
            false => conclusion.not_ready.push(Unready { feature: VM_BUILD, missing }),
        }
        conclusion
    }

    pub(super) fn line(&self) -> String {
        let begin = if self.is_root { "Ready" } else { "Ready without root" };
        let ready = format!("{begin}: {}.", self.ready.join(", "));
        let groups = self.not_ready.chunk_by(|one, other| one.missing == other.missing);
        let groups: Vec<String> = groups.map(words).collect();
        if groups.is_empty() { ready } else { format!("{ready} Not ready: {}.", groups.join("; ")) }
    }
}

/// Formats features that miss the same checks: `study on the host, cold reads (missing: root)`.
fn words(group: &[Unready]) -> String {
    let features: Vec<&str> = group.iter().map(|one| one.feature).collect();
    let missing = group.iter().take(1).flat_map(|one| &one.missing);
    let missing: Vec<&str> = missing.map(|name| shown(name)).collect();
    let between = if features == [VM_BUILD] { ", " } else { " or " };
    format!("{} (missing: {})", features.join(", "), missing.join(between))
}

fn shown(check: &'static str) -> &'static str {
    if check.starts_with("self-test: ") { "a passed self-test" } else { check }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAMS: [&str; 3] = ["mkfs.ext4", "fusermount3", QEMU];

    fn build_programs() -> impl Iterator<Item = &'static str> {
        BUILD_PROGRAMS.iter().chain(&SOURCE_PROGRAMS).map(|(program, _)| *program)
    }

    /// Returns the checks of a machine on which only these pass, and all programs that build a kernel.
    fn checks(passed: &[&str]) -> Vec<Check> {
        let own = [KERNEL, VIRTUAL_TIME];
        let names = [ROOT, "/dev/loop-control", "/dev/fuse", "self-test: cold read", "self-test: block trace"];
        let check = |name: &str| Check {
            what: name.into(),
            needed_for: "something".into(),
            state: match passed.contains(&name) || build_programs().any(|program| program == name) {
                true => State::Works,
                false => State::Missing,
            },
            found: String::new(),
            remedy: String::new(),
        };
        names.into_iter().chain(own).chain(PROGRAMS).chain(build_programs()).map(check).collect()
    }

    fn missing<'a>(conclusion: &'a Conclusion, feature: &str) -> &'a [&'static str] {
        &conclusion.not_ready.iter().find(|one| one.feature == feature).unwrap().missing
    }

    #[test]
    fn user_with_a_user_mode_kernel_lacks_only_what_needs_root() {
        let found = checks(&[KERNEL, VIRTUAL_TIME, "mkfs.ext4", "/dev/fuse", "fusermount3", QEMU]);
        let conclusion = Conclusion::of(&found, &[]);
        let not_ready: Vec<&str> = conclusion.not_ready.iter().map(|one| one.feature).collect();
        assert_eq!(not_ready, ["study on the host", "cold reads", "block traces"]);
        assert!(conclusion.not_ready.iter().all(|one| one.missing == [ROOT]));
        assert_eq!(conclusion.ready.len() + not_ready.len(), FEATURES.len() + 1);
        assert!(!conclusion.is_root && conclusion.line().matches("missing").count() == 1, "{}", conclusion.line());
    }

    #[test]
    fn one_missing_check_of_each_list_is_named() {
        let bare = Conclusion::of(&checks(&[]), &[]);
        assert_eq!(bare.ready, ["age and bench of directories", VM_BUILD]);
        assert_eq!(missing(&bare, "demo and age of images"), [ROOT, KERNEL]);
        assert_eq!(missing(&bare, "tiered file system"), ["/dev/fuse"], "once");
        assert_eq!(missing(&bare, "zoned drives"), [QEMU], "an absent drive has no check");
    }

    #[test]
    fn all_missing_programs_of_a_build_are_named() {
        let mut found = checks(&[]);
        for check in found.iter_mut().filter(|check| ["gcc", "flex", "xz"].contains(&check.what.as_str())) {
            check.state = State::Missing;
        }
        let conclusion = Conclusion::of(&found, &[]);
        assert_eq!(missing(&conclusion, VM_BUILD), ["gcc", "flex", "xz"]);
        assert!(conclusion.line().contains("gcc, flex, xz"), "{}", conclusion.line());
    }

    #[test]
    fn program_of_the_guest_counts() {
        let found = checks(&[KERNEL, VIRTUAL_TIME]);
        let conclusion = Conclusion::of(&found, &["mkfs.ext4".into()]);
        let ready = ["age and bench of directories", "demo and age of images", "gates (study) in a guest", VM_BUILD];
        assert_eq!(conclusion.ready, ready);
        let of_debian = Conclusion::of(&checks(&[KERNEL]), &["mkfs.ext4".into()]);
        assert_eq!(of_debian.ready, [ready[0], ready[1], VM_BUILD]);
        assert_eq!(missing(&of_debian, "gates (study) in a guest"), [VIRTUAL_TIME]);
        let without = Conclusion::of(&found, &[]);
        assert_eq!(missing(&without, "demo and age of images"), [ROOT, "mkfs.ext4"]);
    }

    #[test]
    fn zoned_drive_of_the_machine_needs_root() {
        let with_drive = |passed: &[&str]| {
            let (what, needed_for) = ("/dev/nvme0n1".into(), "a zoned drive".into());
            let (found, remedy) = (String::new(), String::new());
            let drive = Check { what, needed_for, state: State::Works, found, remedy };
            Conclusion::of(&[checks(passed), vec![drive]].concat(), &[])
        };
        assert!(with_drive(&[ROOT]).ready.contains(&"zoned drives"));
        assert_eq!(missing(&with_drive(&[]), "zoned drives"), [ROOT, QEMU]);
    }

    #[test]
    fn line_of_a_complete_machine_names_nothing_missing() {
        let names: Vec<String> = checks(&[]).into_iter().map(|check| check.what).collect();
        let conclusion = Conclusion::of(&checks(&names.iter().map(String::as_str).collect::<Vec<_>>()), &[]);
        assert!(conclusion.is_root && conclusion.not_ready.is_empty());
        assert_eq!(conclusion.line().matches(". ").count(), 0, "one sentence");
    }
}
