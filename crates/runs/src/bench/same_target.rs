//! A continued run measures its remaining repetitions on the target of the earlier ones.

use super::{Bench, Spec};
use senesce_core::{Environment, Failure};
use senesce_runner::Recorded;
use senesce_volume::{TargetError, TargetSpec};

/// Facts of an image or device that do not change between repetitions.
const FIXED: [&str; 2] = ["fs.name", "target.capacity_bytes"];

/// Refuses a target that differs from that of earlier repetitions.
pub(super) fn check(spec: &Spec, found: &Environment, recorded: &Recorded<Bench>) -> Result<(), Failure> {
    // The size of a directory's file system can depend on its content.
    if matches!(spec.target, TargetSpec::Directory(_)) || !recorded.has_done_a_step() {
        return Ok(());
    }
    match changed(&recorded.environment, found) {
        Some(change) => {
            let remedy = "restore the target, or start another run with --out";
            Err(TargetError::refused(&spec.target, change, remedy).into())
        }
        None => Ok(()),
    }
}

fn changed(then: &Environment, now: &Environment) -> Option<String> {
    FIXED.into_iter().find_map(|name| {
        let (then, now) = then.0.get(name).zip(now.0.get(name))?;
        (then != now).then(|| format!("{name} was {then} in earlier repetitions, is {now}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(file_system: &str, target: &str) -> Environment {
        let mut facts = Environment::default();
        facts.put("fs.name", file_system);
        facts.put("target.capacity_bytes", "1073741824");
        facts.put("target.name", target);
        facts
    }

    #[test]
    fn other_file_system_is_another_target() {
        let ext4 = facts("ext4", "image:a.img");
        assert_eq!(changed(&ext4, &facts("ext4", "image:/tmp/a.img")), None);
        assert!(changed(&ext4, &facts("xfs", "image:a.img")).is_some());
        assert_eq!(changed(&Environment::default(), &ext4), None);
    }
}
