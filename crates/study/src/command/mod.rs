//! A workload that is a user's program: run in the mounted volume, measured by its time or its output.

pub(crate) mod files;
pub(crate) mod inputs;
mod job_file;
pub(crate) mod metric;
pub(crate) mod process;
pub(crate) mod ready_job;

use crate::spec::{StateSpec, WorkloadSpec};
use metric::{MetricSpec, NamedMetric};
use process::{CommandEnd, EndedCommand, NO_END};
use senesce_core::analysis::Better;
use senesce_core::failure::errno_message;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, ExitCode, Failure, Measurement, Progress, Seed};
use senesce_volume::{DeviceStat, MountedTarget};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const VOLUME: &str = "SENESCE_MNT";

const SEED: &str = "SENESCE_SEED";

/// Timeout of a program without a `timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Timeout of a program that ages an image.
const DEFAULT_AGING_TIMEOUT: Duration = Duration::from_secs(3600);

const UNKNOWN_SECONDS: f64 = 10.0;

/// A volume with less free space (bytes) counts as full.
const FULL: u64 = 1 << 20;

/// Share of a volume that file systems reserve or cannot use: one with less free space counts as full if the program
/// reports it.
const KEPT_BACK: f64 = 0.1;

/// The message of the C library for ENOSPC in the C locale, which programs get.
const DEVICE_IS_FULL: &str = "No space left on device";

pub(crate) const SAID: &str = "; it said: ";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Program {
    command: Vec<String>,
    prepare: Vec<String>,
    metric: MetricSpec,
    timeout: Duration,
    space: Bytes,
    seconds: Option<f64>,
    folder: Option<PathBuf>,
}

impl Program {
    pub(crate) fn of(spec: &WorkloadSpec) -> Result<Option<Self>, Failure> {
        if spec.command.is_empty() {
            let more = [
                ("metric", spec.metric.is_some()),
                ("prepare", !spec.prepare.is_empty()),
                ("timeout", spec.timeout.is_some()),
                ("space", spec.space.is_some()),
            ];
            return match more.into_iter().find(|(_, said)| *said) {
                Some((key, _)) => Err(Failure::usage(format!("{key} needs command = [...]"))),
                None => Ok(None),
            };
        }
        let more =
            [("scale", spec.scale.is_some()), ("set", !spec.set.is_empty()), ("launcher", !spec.launcher.is_empty())];
        if let Some((key, _)) = more.into_iter().find(|(_, said)| *said) {
            return Err(Failure::usage(format!("{key} does not apply to a command: write it into its arguments")));
        }
        let metric = spec.metric.clone().unwrap_or(MetricSpec::Named(NamedMetric::Time));
        metric.check().map_err(Failure::usage)?;
        if metric == MetricSpec::Named(NamedMetric::Fio) && is_fio(&spec.command[0]) {
            job_file::check(&spec.command).map_err(Failure::usage)?;
        }
        Ok(Some(Self {
            command: for_fio(spec.command.clone(), &metric),
            prepare: spec.prepare.clone(),
            metric,
            timeout: spec.timeout.map_or(DEFAULT_TIMEOUT, |span| span.0),
            space: spec.space.unwrap_or(Bytes(0)),
            seconds: spec.seconds,
            folder: spec.folder.clone(),
        }))
    }

    /// Returns the program that ages an image, if a program does.
    pub(crate) fn of_state(state: &StateSpec) -> Option<Self> {
        (!state.command.is_empty()).then(|| Self {
            command: state.command.clone(),
            prepare: Vec::new(),
            metric: MetricSpec::Named(NamedMetric::Time),
            timeout: state.timeout.map_or(DEFAULT_AGING_TIMEOUT, |span| span.0),
            space: state.space.unwrap_or_default(),
            seconds: None,
            folder: state.folder.clone(),
        })
    }

    pub(crate) fn space(&self) -> Bytes {
        self.space
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(UNKNOWN_SECONDS).min(self.timeout.as_secs_f64())
    }

    pub(crate) fn missing(&self) -> Option<&str> {
        let named = [&self.command, &self.prepare].into_iter().filter_map(|words| words.first()).map(String::as_str);
        // A program with a path may be built in the volume by the previous command.
        named.into_iter().find(|name| !name.contains('/') && !is_installed(name))
    }

    /// Runs it in the volume and returns its metrics with the seconds of the measured part. Calls `ready` between
    /// preparation and measurement.
    pub(crate) fn run(
        &self,
        target: &mut MountedTarget,
        seed: Seed,
        progress: &dyn Progress,
        interrupt: &Interrupt,
        ready: impl FnOnce(&mut MountedTarget) -> Result<(), Failure>,
    ) -> Result<(Vec<Measurement>, f64), Failure> {
        if !self.prepare.is_empty() {
            self.one(&self.prepare, target, seed, progress, interrupt)?;
        }
        ready(target)?;
        let device = target.block_device_info();
        let counted = || device.as_ref().and_then(|device| DeviceStat::of(device).ok());
        let (before, space_before) = (counted(), Space::of(target)?);
        let begun = Instant::now();
        let ended = self.one(&self.command, target, seed, progress, interrupt)?;
        target.sync()?;
        let synced = begun.elapsed().as_secs_f64();
        let failed = |message: String| self.failure(&self.command, &message, None);
        let mut metrics = self.metric.read(ended.seconds, &ended.out, &ended.errors).map_err(failed)?;
        let mut add = |name: &str, unit: &str, value: f64| -> Result<(), Failure> {
            metrics.push(Measurement::new(name, unit, Better::Neither, value)?);
            Ok(())
        };
        add(metric::TIME_WITH_SYNC, "s", synced)?;
        if let (Some(before), Some(after)) = (before, counted()) {
            add(metric::WRITTEN, "bytes", after.since(&before).write_bytes as f64)?;
            add(metric::READ, "bytes", after.since(&before).read_bytes as f64)?;
        }
        if let (Some(before), Some(after)) = (space_before, Space::of(target)?) {
            add(metric::GROWTH, "bytes", after.used as f64 - before.used as f64)?;
        }
        Ok((metrics, synced))
    }

    /// Runs it in a new volume, which it ages.
    pub(crate) fn age(
        &self,
        target: &MountedTarget,
        seed: Seed,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        self.one(&self.command, target, seed, progress, interrupt).map(drop)
    }

    fn one(
        &self,
        words: &[String],
        target: &MountedTarget,
        seed: Seed,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<EndedCommand, Failure> {
        progress.phase(&words.join(" "), 0, "seconds");
        let written = ready_job::written(words)?;
        let mut command = self.started(&written.words, target.mount_point(), seed);
        let mut tick = |elapsed: Duration| progress.position(elapsed.as_secs(), "");
        let ended = process::run(&mut command, self.timeout, interrupt, &mut tick).map_err(|error| {
            let code =
                if error.kind() == std::io::ErrorKind::NotFound { ExitCode::Missing } else { ExitCode::RunFailed };
            Failure::new(code, format!("start {}: {}; is it installed?", words[0], errno_message(&error)))
        })?;
        if ended.how == CommandEnd::Interrupted {
            return Err(Failure::new(ExitCode::Interrupted, "interrupted"));
        }
        if let Some(trouble) = self.trouble(&ended, Space::of(target)?) {
            return Err(self.failure(words, &trouble, Some(&ended)));
        }
        if !ended.left.is_empty() {
            let trouble = format!(
                "it left processes behind, which were ended: {}; let it wait for its children",
                ended.left.join(", ")
            );
            return Err(self.failure(words, &trouble, None));
        }
        Ok(ended)
    }

    /// Prepares a program in a defined environment: its output and its files do not depend on who started senesce.
    fn started(&self, words: &[String], point: &Path, seed: Seed) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(point);
        command.env(VOLUME, point).env(SEED, seed.0.to_string()).env("LC_ALL", "C");
        match &self.folder {
            Some(folder) => command.env(files::FOLDER, folder),
            None => command.env_remove(files::FOLDER),
        };
        command
    }

    fn trouble(&self, ended: &EndedCommand, space: Option<Space>) -> Option<String> {
        let trouble = match ended.how {
            CommandEnd::TimedOut => {
                let seconds = self.timeout.as_secs_f64();
                Some(format!("it {NO_END} {seconds} s and was ended; raise its timeout if it needs longer"))
            }
            _ => ended.trouble(),
        };
        // Another device may be full, and a program that continues may only print a warning.
        let says_full = trouble.is_some() && ended.errors.contains(DEVICE_IS_FULL);
        let is_full = space.is_some_and(|space| space.free < FULL || says_full && space.is_nearly_full());
        match trouble {
            trouble if is_full => {
                let more = trouble.unwrap_or_else(|| "make the study's size larger".into());
                Some(format!("it filled the volume (ENOSPC); {more}"))
            }
            Some(trouble) if says_full => {
                Some(format!("{trouble} and reported a full device, but the volume was not full at the end"))
            }
            trouble => trouble,
        }
    }

    fn failure(&self, words: &[String], trouble: &str, ended: Option<&EndedCommand>) -> Failure {
        let said = ended.map(EndedCommand::last_lines).filter(|said| !said.is_empty());
        let said = said.map_or_else(String::new, |said| format!("{SAID}{said}"));
        Failure::new(ExitCode::RunFailed, format!("{}: {trouble}{said}", words.join(" ")))
    }
}

pub(crate) fn is_installed(name: &str) -> bool {
    installed(name).is_some()
}

fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn for_fio(mut command: Vec<String>, metric: &MetricSpec) -> Vec<String> {
    let is_told = command.iter().any(|word| word.starts_with("--output-format"));
    if *metric == MetricSpec::Named(NamedMetric::Fio) && is_fio(&command[0]) && !is_told {
        command.insert(1, "--output-format=json".into());
    }
    command
}

fn is_fio(program: &str) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == "fio")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Space {
    used: u64,
    free: u64,
}

impl Space {
    fn of(target: &MountedTarget) -> Result<Option<Self>, Failure> {
        let path = target.mount_point();
        let found = rustix::fs::statvfs(path)
            .map_err(|errno| senesce_core::failure::failed("check the space of", path)(errno.into()))?;
        Ok(Self::from_blocks(found.f_blocks, found.f_bfree, found.f_frsize))
    }

    fn is_nearly_full(self) -> bool {
        (self.free as f64) < (self.used + self.free) as f64 * KEPT_BACK
    }

    /// Returns `None` if the file system does not report its space: a FUSE file system without statfs answers zeros.
    fn from_blocks(blocks: u64, free: u64, size: u64) -> Option<Self> {
        let used = blocks.checked_sub(free).filter(|_| blocks > 0)?;
        Some(Self { used: used.checked_mul(size)?, free: free.checked_mul(size)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> WorkloadSpec {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn command_accepts_only_its_own_keys() {
        assert_eq!(Program::of(&spec("cold_read = true")).unwrap(), None);
        let pattern = "command = ['true']\nmetric = { regex = '(', unit = 's', better = 'lower' }";
        for text in ["cold_read = true\ntimeout = '1m'", "command = ['true']\nscale = 2.0", pattern] {
            assert!(Program::of(&spec(text)).is_err(), "{text}");
        }
        let program = Program::of(&spec("command = ['no-such-program-here']\ntimeout = '2m'")).unwrap().unwrap();
        assert_eq!((program.timeout, program.missing()), (Duration::from_secs(120), Some("no-such-program-here")));
    }

    #[test]
    fn fio_is_run_with_json_output() {
        let command = |text: &str| Program::of(&spec(text)).unwrap().unwrap().command;
        assert_eq!(command("command = ['fio', 'job.fio']\nmetric = 'fio'"), ["fio", "--output-format=json", "job.fio"]);
        assert_eq!(command("command = ['fio', 'job.fio']"), ["fio", "job.fio"]);
    }

    fn trouble(script: &str, used: u64, free: u64) -> Option<String> {
        let program = Program::of(&spec("command = ['true']")).unwrap().unwrap();
        let mut command = program.started(&["sh".into(), "-c".into(), script.into()], Path::new("/"), Seed(1));
        let ended = process::run(&mut command, DEFAULT_TIMEOUT, &Interrupt::new(), &mut |_| ()).unwrap();
        program.trouble(&ended, Some(Space { used: used << 20, free: free << 20 }))
    }

    #[test]
    fn full_device_error_counts_only_for_a_full_volume() {
        let says = "echo 'cp: No space left on device' >&2; exit";
        assert_eq!(trouble(&format!("{says} 0"), 10, 90), None, "it continued");
        let elsewhere = trouble(&format!("{says} 3"), 10, 90).unwrap();
        assert!(elsewhere.starts_with("it failed with exit code 3 and reported a full device"), "{elsewhere}");
        assert!(!elsewhere.contains("ENOSPC"), "{elsewhere}");
        assert!(trouble(&format!("{says} 3"), 95, 5).unwrap().contains("it filled the volume (ENOSPC); it failed"));
        assert_eq!(trouble("exit 3", 95, 5).unwrap(), "it failed with exit code 3");
        assert!(trouble("exit 0", 100, 0).unwrap().contains("(ENOSPC); make the study's size larger"));
    }

    #[test]
    fn program_runs_in_c_locale_with_requested_folder() {
        let (point, message) = (Path::new("/mnt"), ["true".to_string()]);
        let folder =
            Program { folder: Some("/studies".into()), ..Program::of(&spec("command = ['true']")).unwrap().unwrap() };
        let without = Program { folder: None, ..folder.clone() };
        let value = |program: &Program, name: &str| {
            let command = program.started(&message, point, Seed(1));
            let found = command.get_envs().find(|(found, _)| *found == name).expect("it is set or removed");
            found.1.map(|value| value.to_string_lossy().into_owned())
        };
        assert_eq!(value(&folder, "LC_ALL").as_deref(), Some("C"));
        assert_eq!(value(&folder, "SENESCE_STUDY").as_deref(), Some("/studies"));
        assert_eq!(value(&without, "SENESCE_STUDY"), None, "not that of the caller of senesce");
    }

    #[test]
    fn volume_without_statfs_is_not_full() {
        assert_eq!(Space::from_blocks(0, 0, 0), None);
        assert_eq!(Space::from_blocks(10, 12, 4096), None, "more free than there is");
        assert_eq!(Space::from_blocks(u64::MAX, 0, 4096), None);
        assert_eq!(Space::from_blocks(10, 4, 512), Some(Space { used: 3072, free: 2048 }));
    }
}
