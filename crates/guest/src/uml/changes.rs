//! Changes to Debian's kernel sources before they are compiled. Trees of the user are never changed.

use crate::error::{GuestError, io_error};
use std::fs;
use std::path::Path;

/// A text of a source file and its replacement.
pub(super) struct Change {
    pub file: &'static str,
    pub from: &'static str,
    to: &'static str,
}

/// ptrace(2) restores all registers of the processor or none. Kernels before 6.13 have space for fixed registers, so they do not run
/// on processors with AMX.
pub(super) const REGISTERS: Change = Change {
    file: "arch/x86/um/user-offsets.c",
    from: "DEFINE_LONGS(HOST_FP_SIZE, 2696);",
    to: "DEFINE_LONGS(HOST_FP_SIZE, 12288);",
};

/// F2FS's discard thread takes a finished discard again and again while a writer that waits for it has not run. On one processor without
/// preemption the writer never runs, and virtual time stands still. The changed thread sleeps for a tick if it meets the same discard twice.
const DISCARDS: Change = Change {
    file: "fs/f2fs/segment.c",
    from: "\t\ttrimmed += __wait_one_discard_bio(sbi, dc);\n\t\tgoto next;\n",
    to: "\t\tif (dc == waited_for)\n\t\t\tschedule_timeout_uninterruptible(1);\n\t\twaited_for = dc;\n\
         \t\ttrimmed += __wait_one_discard_bio(sbi, dc);\n\t\tgoto next;\n",
};
const DISCARDS_VARIABLE: Change = Change {
    file: DISCARDS.file,
    from: "\tstruct discard_cmd *dc = NULL, *iter, *tmp;\n\tunsigned int trimmed = 0;\n",
    to: "\tstruct discard_cmd *dc = NULL, *waited_for = NULL, *iter, *tmp;\n\tunsigned int trimmed = 0;\n",
};

impl Change {
    pub(super) fn is_applied(&self, tree: &Path) -> bool {
        fs::read_to_string(tree.join(self.file)).is_ok_and(|text| text.contains(self.to))
    }
}

/// Applies all changes whose text is there, once. Kernels since 6.13 need no change of the registers.
pub(super) fn apply(tree: &Path, announce: &dyn Fn(&str)) -> Result<(), GuestError> {
    for changes in [[REGISTERS].as_slice(), &[DISCARDS, DISCARDS_VARIABLE]] {
        apply_together(tree, changes)?;
    }
    if !DISCARDS.is_applied(tree) {
        announce("the discard thread of F2FS could not be corrected in these sources, so agings of F2FS may hang");
    }
    Ok(())
}

/// Applies the changes of one file if all are possible.
fn apply_together(tree: &Path, changes: &[Change]) -> Result<(), GuestError> {
    let Some(path) = changes.first().map(|change| tree.join(change.file)) else { return Ok(()) };
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(io_error("read", &path))?,
    };
    let is_possible = |change: &Change| text.contains(change.from) && !text.contains(change.to);
    if !changes.iter().all(is_possible) {
        return Ok(());
    }
    let changed = changes.iter().fold(text.clone(), |text, change| text.replace(change.from, change.to));
    fs::write(&path, changed).map_err(io_error("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(changes: &[Change]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let path = tree.path().join(changes[0].file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, changes.iter().map(|change| change.from).collect::<String>()).unwrap();
        tree
    }

    #[test]
    fn changes_are_applied_once() {
        for changes in [[REGISTERS].as_slice(), &[DISCARDS_VARIABLE, DISCARDS]] {
            let tree = tree(changes);
            assert!(changes.iter().all(|change| !change.is_applied(tree.path())));
            apply(tree.path(), &|_| {}).unwrap();
            assert!(changes.iter().all(|change| change.is_applied(tree.path())), "{}", changes[0].file);
            let once = fs::read_to_string(tree.path().join(changes[0].file)).unwrap();
            apply(tree.path(), &|_| {}).unwrap();
            assert_eq!(fs::read_to_string(tree.path().join(changes[0].file)).unwrap(), once);
        }
    }

    #[test]
    fn half_of_a_change_is_announced_and_not_applied() {
        let tree = tree(&[DISCARDS]);
        let announced = std::cell::Cell::new(0);
        apply(tree.path(), &|_| announced.set(announced.get() + 1)).unwrap();
        assert_eq!((DISCARDS.is_applied(tree.path()), announced.get()), (false, 1));
    }
}
