//! Undoing what a process set up after it was killed.

use crate::error::TargetError;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A shell that waits for the end of this process and then undoes one thing if nobody else did. It sees the end, also that
/// by `kill -9`, as the end of its input.
#[derive(Debug)]
pub(crate) struct Guardian(Child);

impl Guardian {
    /// Will unmount `point` and remove it. `lock` stays locked until that is complete.
    pub(crate) fn of_mount(point: &Path, lock: Option<File>) -> Result<Self, TargetError> {
        Self::start(r#"umount -l "$1" 2>/dev/null; rmdir "$1" 2>/dev/null"#, &[point.as_os_str()], lock)
    }

    /// Will remove a directory that a killed process left (an instance of tracefs).
    pub(crate) fn of_directory(path: &Path) -> Result<Self, TargetError> {
        Self::start(
            r#"for try in 1 2 3 4 5; do rmdir "$1" 2>/dev/null && exit; sleep 0.2; done"#,
            &[path.as_os_str()],
            None,
        )
    }

    /// Will move what is left in a control group to the group `before` and remove it.
    pub(crate) fn of_control_group(path: &Path, before: &Path) -> Result<Self, TargetError> {
        let undo = r#"for try in 1 2 3 4 5; do
            for process in $(cat "$1/cgroup.procs" 2>/dev/null); do echo "$process" > "$2/cgroup.procs"; done
            rmdir "$1" 2>/dev/null && exit; sleep 0.2; done"#;
        Self::start(undo, &[path.as_os_str(), before.as_os_str()], None)
    }

    /// Will write `value` to a file of the kernel's, such as a limit of a control group.
    pub(crate) fn of_value(path: &Path, value: &str) -> Result<Self, TargetError> {
        Self::start(r#"echo "$2" > "$1""#, &[path.as_os_str(), OsStr::new(value)], None)
    }

    /// Will remove a directory of this process with everything in it.
    pub(crate) fn of_tree(path: &Path) -> Result<Self, TargetError> {
        Self::start(r#"rm -rf -- "$1""#, &[path.as_os_str()], None)
    }

    fn start(undo: &str, words: &[&OsStr], lock: Option<File>) -> Result<Self, TargetError> {
        let script = format!("trap '' INT TERM HUP; read -r word; [ \"$word\" = dismissed ] && exit 0; {undo}");
        let child = Command::new("/bin/sh")
            .args(["-c", &script, "senesce-guardian"])
            .args(words)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(lock.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(TargetError::io("start", Path::new("/bin/sh")))?;
        Ok(Self(child))
    }

    /// Everything is undone already.
    pub(crate) fn dismiss(&mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            let _ = input.write_all(b"dismissed\n");
        }
        let _ = self.0.wait();
    }
}
