use super::*;
use std::io::Read;
use std::process::Stdio;

fn begun(group: &CommandGroup, script: &str) -> (Child, std::process::ChildStdout) {
    let mut command = Command::new("sh");
    let mut child = group.start(command.args(["-c", script]).stdout(Stdio::piped())).unwrap();
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0; 6]).unwrap();
    (child, output)
}

fn is_closed(mut output: impl Read) -> bool {
    output.read(&mut [0; 6]).unwrap() == 0
}

fn control_group() -> (CommandGroup, PathBuf) {
    let group = CommandGroup::of(Path::new("/")).unwrap();
    let folder = group.members.control_group.clone().expect("a control group");
    (group, folder)
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A child that ignores signals, a stopped one, and one that left session and parent.
const MANY: &str =
    "trap '' TERM INT HUP; sleep 600 & sleep 600 & kill -STOP $!; (setsid sleep 600 &); echo begun; wait";

#[test]
fn marked_command_ends_with_all_children() {
    let group = CommandGroup::marked().unwrap();
    let (mut child, output) = begun(&group, MANY);
    group.end().unwrap();
    assert!(!child.wait().unwrap().success() && is_closed(output));
}

#[test]
fn released_marked_process_outlives_group() {
    let group = CommandGroup::marked().unwrap();
    let (mut child, _output) = begun(&group, "echo begun; exec sleep 600");
    drop(group);
    assert!(child.try_wait().unwrap().is_none());
    end(child);
}

#[test]
#[ignore = "needs control groups"]
fn control_group_holds_process_without_mark() {
    let (group, folder) = control_group();
    let (mut child, output) = begun(&group, "env -i setsid sleep 600 & echo begun; wait");
    assert!(members_of(&folder).len() >= 2);
    group.end().unwrap();
    child.wait().unwrap();
    assert!(is_closed(output) && !folder.exists());
}

#[test]
#[ignore = "needs control groups"]
fn released_process_continues_outside() {
    let (group, folder) = control_group();
    let (mut child, _output) = begun(&group, "echo begun; exec sleep 600");
    group.release().unwrap();
    assert!(!folder.exists() && child.try_wait().unwrap().is_none());
    end(child);
}

#[test]
#[ignore = "needs control groups"]
fn exempt_command_is_not_a_member() {
    let (group, folder) = control_group();
    let mut command = Command::new("sleep");
    enter(&mut command, File::options().write(true).open(folder.join("cgroup.procs")).unwrap());
    enter(&mut command, File::options().write(true).open(folder.parent().unwrap().join("cgroup.procs")).unwrap());
    let mut child = command.arg("600").spawn().unwrap();
    group.end().unwrap();
    assert!(child.try_wait().unwrap().is_none());
    end(child);
}

#[test]
#[ignore = "needs root"]
fn without_a_control_group_users_of_the_mount_end_too() {
    let directory = crate::scratch_directory::ScratchDirectory::small("test").unwrap();
    rustix::mount::mount("test", directory.path(), "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
    let group = CommandGroup::new(None, Some(directory.path().into())).unwrap();
    let script = format!("cd {}; env -i setsid sleep 600 & echo begun; wait", directory.path().display());
    let (mut child, output) = begun(&group, &script);
    group.end().unwrap();
    child.wait().unwrap();
    assert!(is_closed(output));
}
