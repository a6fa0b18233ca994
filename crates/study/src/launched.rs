//! A cell that many ranks measure: `senesce bench --mpi`, started by a launcher such as `mpirun -n 4`.

use crate::spec::WorkloadSpec;
use senesce_core::failure::errno_message;
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure, Seed};
use senesce_volume::{CommandGroup, MountedTarget, ScratchDirectory};
use senesce_workload::Repetition;
use serde::Deserialize;
use serde_json::Value;
use std::io;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaunchedWorkload {
    launcher: Vec<String>,
    workload: Vec<String>,
}

/// Below the mount point: the ranks do not work among the files of the image.
const DIRECTORY: &str = "ranks";

impl LaunchedWorkload {
    pub(crate) fn of(spec: &WorkloadSpec) -> Result<Option<Self>, Failure> {
        let launcher: Vec<String> = spec.launcher.split_whitespace().map(str::to_string).collect();
        if launcher.is_empty() {
            return Ok(None);
        }
        if spec.cold_read || !spec.microbenchmark.is_empty() {
            return Err(Failure::usage(
                "launcher applies to a personality or a file: other workloads run in one process",
            ));
        }
        let what = if spec.file.is_empty() { &spec.personality } else { &spec.file };
        let mut workload = vec![what.clone()];
        if let Some(scale) = spec.scale {
            workload.extend(["--scale".into(), scale.to_string()]);
        }
        for (name, value) in &spec.set {
            workload.extend(["--set".into(), format!("{name}={value}")]);
        }
        Ok(Some(Self { launcher, workload }))
    }

    pub(crate) fn run(
        &self,
        target: &MountedTarget,
        seed: Seed,
        time: Duration,
        interrupt: &Interrupt,
    ) -> Result<Repetition, Failure> {
        let directory = ScratchDirectory::large("launched")?;
        let program = std::env::current_exe().map_err(|error| self.failed(&error))?;
        let mut command = Command::new(&self.launcher[0]);
        command
            .args(&self.launcher[1..])
            .arg(program)
            .arg("bench")
            .arg(target.mount_point().join(DIRECTORY))
            .args(&self.workload)
            .args([
                "--time",
                &format!("{}ms", time.as_millis()),
                "--seed",
                &seed.0.to_string(),
                "--mpi",
                "--create",
                "--json",
            ])
            .arg("--out")
            .arg(directory.path().join("run"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let group = CommandGroup::of(target.mount_point())?;
        let output = group.output(&mut command).map_err(|error| self.failed(&error))?;
        group.end().map_err(|error| self.failed(&error))?;
        // A terminal sends its Ctrl-C to the launcher too.
        if interrupt.requested() {
            return Err(Failure::new(ExitCode::Interrupted, "interrupted"));
        }
        self.read(&output)
    }

    fn read(&self, output: &Output) -> Result<Repetition, Failure> {
        let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let first = result.pointer("/repetitions/0").and_then(|one| Repetition::deserialize(one).ok());
        // A repetition that does not count has a reason.
        first.filter(|one| output.status.success() || !one.valid).ok_or_else(|| {
            let stated = String::from_utf8_lossy(&output.stderr);
            let reason = stated.lines().find(|line| line.starts_with("senesce: ")).or_else(|| stated.lines().next());
            let message = format!("{}: {}: {}", self.launcher.join(" "), output.status, reason.unwrap_or("no message"));
            Failure::new(ExitCode::RunFailed, message)
        })
    }

    fn failed(&self, error: &io::Error) -> Failure {
        let message = format!("start {}: {}; is it installed?", self.launcher.join(" "), errno_message(error));
        Failure::new(ExitCode::Missing, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn spec(launcher: &str) -> WorkloadSpec {
        let text = format!("personality = 'webserver'\nscale = 0.5\nset = {{ a = '1' }}\nlauncher = '{launcher}'");
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn launcher_requires_a_workload() {
        assert_eq!(LaunchedWorkload::of(&spec("")).unwrap(), None);
        let found = LaunchedWorkload::of(&spec("mpirun -n 4")).unwrap().unwrap();
        assert_eq!(found.launcher, ["mpirun", "-n", "4"]);
        assert_eq!(found.workload, ["webserver", "--scale", "0.5", "--set", "a=1"]);
        let cold = WorkloadSpec { cold_read: true, personality: String::new(), ..spec("mpirun") };
        assert_eq!(LaunchedWorkload::of(&cold).unwrap_err().exit_code(), ExitCode::Usage);
    }

    #[test]
    fn failure_quotes_the_message_of_senesce() {
        let launched = LaunchedWorkload { launcher: vec!["mpirun".into()], workload: Vec::new() };
        let stderr = b"mpirun noticed\nsenesce: rank 1 on a: its process 7 died\n-----\n".to_vec();
        let output = Output { status: ExitStatus::from_raw(5 << 8), stdout: b"{}".to_vec(), stderr };
        let failure = launched.read(&output).unwrap_err();
        assert_eq!(failure.to_string(), "mpirun: exit status: 5: senesce: rank 1 on a: its process 7 died");
        let stdout = format!("{{\"repetitions\": [{}]}}", serde_json::to_string(&Repetition::default()).unwrap());
        for status in [0, 5 << 8] {
            let status = ExitStatus::from_raw(status);
            let output = Output { status, stdout: stdout.clone().into_bytes(), stderr: Vec::new() };
            assert_eq!(launched.read(&output).unwrap(), Repetition::default());
        }
    }
}
