//! Built-in workloads other than personalities: everyday work of programs.

mod append;
mod build;
mod database;
mod layers;
mod log;
mod objects;
mod pgbench;

pub use append::slow_append;

use crate::command::is_installed;
use crate::command::process::{self, CommandEnd, NO_END};
use crate::spec::WorkloadSpec;
use senesce_core::failure::errno_message;
use senesce_core::interrupt::Interrupt;
use senesce_core::parameter::suggest;
use senesce_core::{ExitCode, Failure, Measurement, Progress};
use senesce_volume::MountedTarget;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ReadyWorkload {
    kind: ReadyKind,
    scale: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadyKind {
    Build,
    Database,
    ContainerLayers,
    FsyncLog,
    Objects,
    Pgbench,
    SlowAppend,
}

/// Name, kind, and rough bytes written and seconds at scale 1.
const KINDS: [(&str, ReadyKind, u64, f64); 7] = [
    ("build", ReadyKind::Build, 24 << 20, 5.0),
    ("database", ReadyKind::Database, 16 << 20, 4.0),
    ("container-layers", ReadyKind::ContainerLayers, 96 << 20, 3.0),
    ("fsync-log", ReadyKind::FsyncLog, 16 << 20, 2.0),
    ("objects", ReadyKind::Objects, 32 << 20, 3.0),
    ("pgbench", ReadyKind::Pgbench, 160 << 20, 10.0),
    ("slow-append", ReadyKind::SlowAppend, 17 << 20, 1.0),
];

const FOLDER: &str = "senesce-ready";

const LIMIT: Duration = Duration::from_secs(1800);

struct ReadySetup<'a> {
    folder: &'a Path,
    scale: f64,
    progress: &'a dyn Progress,
    interrupt: &'a Interrupt,
}

impl ReadyWorkload {
    pub(crate) fn of(spec: &WorkloadSpec) -> Result<Option<Self>, Failure> {
        if spec.ready.is_empty() {
            return Ok(None);
        }
        let names = KINDS.map(|(name, ..)| name);
        let Some((_, kind, ..)) = KINDS.iter().find(|(name, ..)| *name == spec.ready) else {
            let hint = suggest(&spec.ready, names);
            return Err(Failure::usage(format!(
                "unknown ready workload '{}'{hint}; choose from {}",
                spec.ready,
                names.join(", ")
            )));
        };
        let more = [
            ("seconds", spec.seconds.is_some()),
            ("set", !spec.set.is_empty()),
            ("launcher", !spec.launcher.is_empty()),
        ];
        match more.into_iter().find(|(_, said)| *said) {
            Some((key, _)) => {
                Err(Failure::usage(format!("{key} does not apply to a ready workload; scale makes it larger")))
            }
            None => Ok(Some(Self { kind: *kind, scale: spec.scale.unwrap_or(1.0) })),
        }
    }

    pub(crate) fn needs(&self) -> (u64, f64) {
        let of = KINDS.iter().find(|(_, kind, ..)| *kind == self.kind);
        of.map_or((0, 0.0), |(_, _, bytes, seconds)| ((*bytes as f64 * self.scale) as u64, seconds * self.scale))
    }

    pub(crate) fn missing(&self) -> Option<(&'static str, &'static str)> {
        let (here, needed) = match self.kind {
            ReadyKind::Build => (is_installed("cc"), ("cc", "gcc")),
            ReadyKind::Database => (is_installed("sqlite3"), ("sqlite3", "sqlite3")),
            ReadyKind::Pgbench => (pgbench::programs().is_some(), ("pgbench", "postgresql")),
            ReadyKind::ContainerLayers | ReadyKind::FsyncLog | ReadyKind::Objects | ReadyKind::SlowAppend => {
                return None;
            }
        };
        (!here).then_some(needed)
    }

    /// Runs it in the volume; `ready` is called before the measured part. The first metric is compared.
    pub(crate) fn run(
        &self,
        target: &mut MountedTarget,
        progress: &dyn Progress,
        interrupt: &Interrupt,
        ready: impl FnOnce(&mut MountedTarget) -> Result<(), Failure>,
    ) -> Result<Vec<Measurement>, Failure> {
        if let Some((program, package)) = self.missing() {
            let words = format!("not testable here: {program} is not installed (apt-get install {package})");
            return Err(Failure::new(ExitCode::Missing, words));
        }
        ready(target)?;
        let folder = target.mount_point().join(FOLDER);
        std::fs::create_dir(&folder).map_err(failed("make directory", &folder))?;
        let place = ReadySetup { folder: &folder, scale: self.scale, progress, interrupt };
        match self.kind {
            ReadyKind::Build => build::run(&place),
            ReadyKind::Database => database::run(&place),
            ReadyKind::ContainerLayers => layers::run(&place),
            ReadyKind::FsyncLog => log::run(&place),
            ReadyKind::Objects => objects::run(&place),
            ReadyKind::Pgbench => pgbench::run(&place),
            ReadyKind::SlowAppend => append::run(&place),
        }
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    senesce_core::failure::failed(what, path)
}

fn wrong(message: String) -> Failure {
    Failure::new(ExitCode::RunFailed, message)
}

impl ReadySetup<'_> {
    fn count(&self, at_one: f64, least: u32) -> u32 {
        ((at_one * self.scale) as u32).max(least)
    }

    fn check_interrupt(&self) -> Result<(), Failure> {
        match self.interrupt.requested() {
            true => Err(Failure::new(ExitCode::Interrupted, "interrupted")),
            false => Ok(()),
        }
    }

    fn program(&self, name: &str, arguments: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new(name);
        command.args(arguments).current_dir(self.folder).env("LC_ALL", "C");
        let ended = process::run(&mut command, LIMIT, self.interrupt, &mut |_| ())
            .map_err(|error| wrong(format!("start {name}: {}", errno_message(&error))))?;
        match (ended.how, ended.trouble()) {
            (CommandEnd::Interrupted, _) => Err(Failure::new(ExitCode::Interrupted, "interrupted")),
            (CommandEnd::TimedOut, _) => Err(wrong(format!("{name} {NO_END} {} s", LIMIT.as_secs()))),
            (_, Some(trouble)) => Err(wrong(format!("{name}: {trouble}; it said: {}", ended.last_lines()))),
            (_, None) => Ok(ended.out),
        }
    }
}
