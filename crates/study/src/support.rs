//! Checks that this machine supports a study.

use crate::spec::StudySpec;
use senesce_cluster::HAS_MPI;
use senesce_core::{ExitCode, Failure};
use senesce_runner::Needs;

/// Requires root if there are cells for this machine, because these attach loop devices and mount. The guest does not
/// require it.
pub fn needs(spec: &StudySpec) -> Needs {
    let here = |(fs, state, workload): (usize, usize, usize)| {
        let name = &spec.workload[workload].name;
        !spec.exception(fs, state, name).skip && spec.guest_kernel(fs, state, name).is_none()
    };
    match spec.combinations().any(here) {
        false => Needs::default(),
        true => Needs::root("a study attaches loop devices and mounts, which needs root"),
    }
}

pub(crate) fn check(spec: &StudySpec) -> Result<(), Failure> {
    for (fs, state, workload) in spec.combinations() {
        let name = &spec.workload[workload].name;
        if spec.exception(fs, state, name).skip {
            continue;
        }
        // The guest runs this same program.
        if !HAS_MPI && !spec.workload[workload].launcher.is_empty() {
            let words =
                format!("workload '{name}': launcher: this senesce was built without MPI; build it with `make mpi`");
            return Err(Failure::new(ExitCode::Missing, words));
        }
        if spec.guest_kernel(fs, state, name).is_some() {
            continue;
        }
        crate::zoned::ZonedDrives::of(&spec.file_system[fs])?;
        if spec.file_system[fs].custom().is_some() {
            continue;
        }
        let kind = spec.file_system[fs].kind().map_err(Failure::usage)?;
        kind.mkfs_version()?;
        if !kind.is_supported() {
            return Err(Failure::new(
                ExitCode::Missing,
                format!(
                    "cell {} / {} / {name}: this kernel has no {}; run its cells in the guest: [[cell]] file_system = \"{}\", \
                     vm = true",
                    spec.file_system[fs].name,
                    spec.state[state].name,
                    kind.name(),
                    spec.file_system[fs].name
                ),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_guest_measures_for_an_ordinary_user() {
        let mut text = "name = 't'\nsize = '64M'\n[[file_system]]\nkind = 'ext4'\n[[state]]\nkind = 'fresh'\n\
                        [[workload]]\npersonality = 'webserver'\n"
            .to_string();
        let spec = StudySpec::parse("t", &text).unwrap();
        assert!(needs(&spec).root.is_some());
        text += "[[cell]]\nvm = true\n";
        assert!(needs(&StudySpec::parse("t", &text).unwrap()).root.is_none());
    }
}
