//! From the arguments of `senesce bench` to what is to be run.

use super::Bench;
use senesce_core::{Bytes, Failure, Seed};
use senesce_experiments::verbs::bench::{ColdReadOptions, Request, Subject};
use senesce_target::{FileSystem, Limits, OpenOptions, TargetSpec};
use senesce_workload::micro::{CallOptions, FileOpsOptions, SyncMode, WriteMode};
use senesce_workload::{Execution, Length, Options, Workload, builtin};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

impl Bench {
    /// What is to be run.
    pub(super) fn request(&self, target: &str, name: &str) -> Result<Request, Failure> {
        let subject = self.subject(name)?;
        let keep_existing = self.keep || matches!(subject, Subject::ColdRead(_));
        Ok(Request {
            target: target.parse::<TargetSpec>()?,
            open: OpenOptions {
                file_system: self.fs,
                mkfs_options: self.mkfs_options.clone(),
                mount_options: self.mount_options.clone(),
                in_memory: self.in_memory,
                erase: self.erase.clone(),
                keep_existing,
                ..OpenOptions::default()
            },
            subject,
            repetitions: self.reps,
            keep_caches: self.keep_caches,
            limits: Limits { memory: self.memory, cpus: self.cpus },
            populate_only: self.populate_only,
            settings: self.settings(name)?,
            seed: Seed(self.seed),
            out: self.out.clone().unwrap_or_default(),
            ranks: None,
        })
    }

    /// What tells one run from another, as the user gave it.
    fn settings(&self, name: &str) -> Result<BTreeMap<String, String>, Failure> {
        let mut settings = BTreeMap::new();
        let mut put = |name: &str, value: String| {
            if !value.is_empty() {
                settings.insert(name.to_string(), value);
            }
        };
        put("length", self.length_in_words());
        put("warm-up", in_words(self.warm_up));
        put("reps", self.reps.to_string());
        put("set", self.set.join(" "));
        put("scale", self.scale.to_string());
        put("choice", self.choice.clone());
        put("populate-seed", self.populate_seed.map(|seed| seed.to_string()).unwrap_or_default());
        put("memory", self.memory.map(|size| size.to_string()).unwrap_or_default());
        put("cpus", self.cpus.map(|cpus| cpus.to_string()).unwrap_or_default());
        put("caches", if self.keep_caches { "kept" } else { "cold" }.into());
        put("fs", self.fs.map_or("as it is, or ext4", FileSystem::name).into());
        put("mkfs-options", self.mkfs_options.clone());
        put("mount-options", self.mount_options.clone());
        put("execution", if self.null { "null" } else { "system" }.into());
        put("populate-only", self.populate_only.to_string());
        match name {
            "cold-read" => {
                put("settle", in_words(self.settle));
                put("read-ahead", self.read_ahead.clone().unwrap_or_default());
                put("trace", self.trace.to_string());
            }
            "file-ops" | "append" | "random-write" => {
                put("sync", self.sync.clone());
                put("ops", self.ops.join(","));
                put("macros", self.macros.to_string());
                put("sizes", self.sizes.iter().map(Bytes::to_string).collect::<Vec<_>>().join(","));
                put("calls", self.calls.to_string());
            }
            _ => {}
        }
        if let Some(text) = self.file_text(name)? {
            put("file-digest", format!("{:016x}", Seed(0).child(&text).0));
        }
        Ok(settings)
    }

    fn length_in_words(&self) -> String {
        match (self.time, self.operations, self.steady) {
            (Some(time), _, _) => in_words(time),
            (_, Some(count), _) => format!("{count} operations"),
            (_, _, Some(most)) => format!("until steady, at most {}", in_words(most)),
            _ => "as the workload says".into(),
        }
    }

    fn file_text(&self, name: &str) -> Result<Option<String>, Failure> {
        if !name.ends_with(".f") && !name.contains('/') {
            return Ok(None);
        }
        let text = std::fs::read_to_string(Path::new(name));
        text.map(Some).map_err(|error| Failure::usage(format!("read workload file {name}: {error}")))
    }

    /// What is to be measured.
    pub(super) fn subject(&self, name: &str) -> Result<Subject, Failure> {
        let calls = |mode| -> Result<Subject, Failure> {
            let mut options = CallOptions { calls: self.calls, seed: Seed(self.seed), ..CallOptions::new(mode) };
            options.sync = self.sync.parse::<SyncMode>()?;
            if !self.sizes.is_empty() {
                options.sizes.clone_from(&self.sizes);
            }
            Ok(Subject::Calls(options))
        };
        match name {
            "append" => calls(WriteMode::Append),
            "random-write" => calls(WriteMode::RandomWrite),
            "file-ops" => {
                let sync = if self.sync == "none" { vec![false] } else { vec![false, true] };
                let (operations, seed) = (self.ops.clone(), Seed(self.seed));
                let default = FileOpsOptions::default();
                let time = self.time.unwrap_or(default.time);
                Ok(Subject::FileOps(FileOpsOptions { operations, sync, time, macros: self.macros, seed }))
            }
            "cold-read" => Ok(Subject::ColdRead(ColdReadOptions {
                settle: self.settle,
                read_ahead_kib: self.read_ahead.as_deref().map(read_ahead).transpose()?,
                trace: self.trace,
            })),
            _ => Ok(Subject::Workload(Box::new(self.model(name)?), self.options())),
        }
    }

    fn model(&self, name: &str) -> Result<Workload, Failure> {
        let mut variables = BTreeMap::new();
        for pair in &self.set {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                Failure::usage(format!("--set {pair}: write NAME=VALUE, for example --set nfiles=1000"))
            })?;
            variables.insert(name.trim_start_matches('$').to_string(), value.to_string());
        }
        match self.file_text(name)? {
            Some(_) if self.scale != 1.0 => {
                Err(Failure::usage("--scale is for built-in workloads; set the file's own variables with --set"))
            }
            Some(text) => Ok(Workload::parse(name, &text, &variables)?),
            None => Ok(builtin(name, self.scale, &variables)?),
        }
    }

    fn options(&self) -> Options {
        let default = Options::default();
        let length = match (self.time, self.operations, self.steady) {
            (Some(time), _, _) => Some(Length::Time(time)),
            (_, Some(count), _) => Some(Length::Operations(count)),
            (_, _, Some(most)) => Some(Length::Steady(most)),
            _ => None,
        };
        Options {
            seed: Seed(self.seed),
            populate_seed: self.populate_seed,
            length,
            warm_up: self.warm_up,
            interval: self.interval,
            random_choice: self.choice == "random",
            populate_threads: self.populate_threads.unwrap_or(default.populate_threads),
            stuck_after: self.stuck_after,
            execution: if self.null { Execution::Null } else { Execution::System },
        }
    }
}

fn in_words(time: Duration) -> String {
    format!("{time:?}")
}

fn read_ahead(text: &str) -> Result<u64, Failure> {
    match text {
        "off" => Ok(0),
        number => {
            number.parse().map_err(|_| Failure::usage(format!("--read-ahead {text}: write off or a number of KiB")))
        }
    }
}
