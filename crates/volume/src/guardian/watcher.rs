//! The guardian process: this program started again, which waits for the end of its parent and cleans up.

use super::ledger::{self, undo_all};
use super::owner::{Life, Owner};
use crate::command_group;
use senesce_core::machine::time_is_virtual;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The first word of its command line; no verb has this name.
const WORD: &str = "__guardian";

const END_LIMIT: Duration = Duration::from_secs(60);

/// Whether this program can be started as a guardian: its `main` calls [`enter_if_guardian`]. Other programs that use
/// this crate, such as its tests, rely on the next sweep.
static IS_POSSIBLE: AtomicBool = AtomicBool::new(false);

/// Runs the guardian and does not return, if the program was started as a guardian. To be called first in `main`.
pub fn enter_if_guardian() {
    let mut words = std::env::args_os().skip(1);
    match (words.next(), words.next()) {
        (Some(word), Some(owner)) if word == OsStr::new(WORD) => {
            if let Some(owner) = owner.to_str().and_then(|text| text.parse().ok()) {
                guard(&owner);
            }
            std::process::exit(0);
        }
        _ => IS_POSSIBLE.store(true, Ordering::Relaxed),
    }
}

fn guard(owner: &Owner) {
    // The pipe closes when the process ends, however it ends. Only the parent may have started the guardian.
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32);
    if parent.is_some_and(|parent| parent != owner.process && owner.life() == Life::Alive) {
        return;
    }
    let Ok(folder) = ledger::folder().map(|ledger| ledger.join(owner.to_string())) else { return };
    wait_for_end_of_input(|| {
        if owner.life() == Life::Ending {
            ledger::see_end(&folder, owner);
        }
    });
    let deadline = Instant::now() + END_LIMIT;
    while owner.life() != Life::Dead && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    if owner.life() == Life::Dead {
        undo_all(&folder, owner);
    }
}

/// Calls `look` about once a second, or once an hour of virtual time: a killed process that cannot end keeps its end of the
/// pipe.
fn wait_for_end_of_input(look: impl Fn()) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let input = std::io::stdin();
    let pause = Timespec { tv_sec: if time_is_virtual() { 3600 } else { 1 }, tv_nsec: 0 };
    loop {
        let mut ready = [PollFd::new(&input, PollFlags::IN)];
        match poll(&mut ready, Some(&pause)) {
            Ok(0) => look(),
            Err(rustix::io::Errno::INTR) => {}
            // Nothing is ever written to the pipe: readable means closed.
            _ => return,
        }
    }
}

/// Starts the guardian once per process. Without it the next start of senesce cleans up.
pub(super) fn start_once() {
    static GUARDIAN: OnceLock<Option<Child>> = OnceLock::new();
    if IS_POSSIBLE.load(Ordering::Relaxed) {
        GUARDIAN.get_or_init(|| start().inspect_err(|error| tracing::debug!("no guardian: {error}")).ok());
    }
}

fn start() -> std::io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("senesce-guardian")
        .arg(WORD)
        .arg(Owner::current().to_string())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command_group::exempt(&mut command);
    // SAFETY: setsid and signal may be called between fork and exec (signal-safety(7)). Ignored signals stay ignored
    // over exec.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
                libc::signal(signal, libc::SIG_IGN);
            }
            Ok(())
        });
    }
    command.spawn()
}
