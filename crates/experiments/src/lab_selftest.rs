//! Every file system and drive that the lab promises, tried in one boot: make, mount, write, remount, compare, unmount.

use senesce_core::{
    Analysis, Experiment, Failure, Finding, Parameter, ParameterKind, Plan, Record, RunContext, RunKind, Settings,
    Table, Verdict,
};
use senesce_lab::{Drive, LabRun, kernel};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

/// The experiment.
pub struct LabSelftest;

const FILE_SYSTEMS: &[&str] = &["ext4", "xfs", "btrfs", "f2fs", "nilfs2", "zoned-btrfs", "zoned-f2fs"];
const DRIVES: [&str; 3] = ["nvme,size=512M", "nvme,size=128M", "zns,size=2G,zone=64M,cap=64M,open=14,active=14"];

/// Makes one file system, writes 2 MiB, and compares them after a remount. The drives are told apart by what they are.
const SCRIPT: &str = include_str!("../../../data/lab/selftest.sh");

#[derive(Debug, Serialize, Deserialize)]
struct Tried {
    file_system: String,
    works: bool,
    seconds: f64,
    said: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Booted {
    boot_seconds: f64,
    total_seconds: f64,
    kernel: String,
    accelerator: String,
}

impl RunKind for LabSelftest {
    fn kind(&self) -> &'static str {
        "lab-selftest"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let tried: Vec<Tried> = record.events_of("tried").collect();
        let booted: Option<Booted> = record.events_of("booted").last();
        let mut table =
            Table::new("file-systems", "File systems in the guest", &["file system", "works", "time (s)", "said"]);
        for one in &tried {
            table.row(vec![json!(one.file_system), json!(one.works), json!(one.seconds), json!(one.said)]);
        }
        let working = tried.iter().filter(|one| one.works).count();
        let measured = format!("{working} of {} work", tried.len());
        Ok(Analysis {
            title: "Self-test of the lab".into(),
            summary: booted.as_ref().map_or_else(String::new, |boot| {
                format!("Kernel {} under {}: booted in {:.1} s.", boot.kernel, boot.accelerator, boot.boot_seconds)
            }),
            tables: vec![table],
            findings: vec![Finding {
                claim: "every file system that was asked for is made, mounted, written, read back and unmounted in the guest".into(),
                published: String::new(),
                measured: measured.clone(),
                verdict: if working == tried.len() && working > 0 { Verdict::Seen } else { Verdict::NotSeen },
                note: String::new(),
            }],
            result: json!({"file_systems": tried, "boot": booted, "working": working, "tried": tried.len()}),
            ..Analysis::default()
        })
    }
}

impl Experiment for LabSelftest {
    fn title(&self) -> &'static str {
        "Do the guest, its drives and its file systems work on this machine?"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[
            Parameter {
                name: "file-systems",
                help: "what to try in the guest",
                kind: ParameterKind::Choices(FILE_SYSTEMS),
                defaults: [
                    "ext4,f2fs",
                    "ext4,xfs,btrfs,f2fs,nilfs2,zoned-btrfs,zoned-f2fs",
                    "ext4,xfs,btrfs,f2fs,nilfs2,zoned-btrfs,zoned-f2fs",
                ],
            },
            Parameter {
                name: "time-limit",
                help: "ends the guest",
                kind: ParameterKind::Duration,
                defaults: ["60s", "5min", "5min"],
            },
        ]
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/lab-selftest.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/lab-selftest.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        settings.duration("time-limit")?;
        kernel::choose(None)?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        for name in settings.list("file-systems") {
            plan.step(format!("make {name}, write, remount, compare"), "emulated drives of the guest");
        }
        plan.estimated_seconds = 5.0 + 3.0 * plan.steps.len() as f64;
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let names = settings.list("file-systems");
        context.progress.phase("lab self-test", 0, "file systems");
        let lab = lab(&names, settings.duration("time-limit")?)?;
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let outcome = lab.run(context.interrupt, &mut out, &mut errors)?;
        for line in String::from_utf8_lossy(&out).lines() {
            if let Some(tried) = parse(line) {
                context.directory.append("tried", &tried)?;
            }
        }
        let booted = Booted {
            boot_seconds: outcome.boot_seconds,
            total_seconds: outcome.total_seconds,
            kernel: outcome.kernel,
            accelerator: outcome.accelerator.word().into(),
        };
        context.directory.append("booted", &booted)?;
        Ok(())
    }
}

fn lab(names: &[String], limit: Duration) -> Result<LabRun, Failure> {
    let mut command: Vec<String> = ["bash", "-c", SCRIPT, "selftest"].map(str::to_string).to_vec();
    command.extend_from_slice(names);
    Ok(LabRun {
        kernel: kernel::choose(None)?,
        drives: DRIVES.iter().map(|text| Drive::parse(text)).collect::<Result<_, _>>()?,
        memory: senesce_core::Bytes::gib(1),
        cpus: 2,
        accelerator: None,
        command,
        shares: Vec::new(),
        time_limit: Some(limit),
    })
}

/// A line of the script: `FILE_SYSTEM ok|failed SECONDS words ...`.
fn parse(line: &str) -> Option<Tried> {
    let mut words = line.splitn(4, ' ');
    let file_system = words.next()?.to_string();
    let works = match words.next()? {
        "ok" => true,
        "failed" => false,
        _ => return None,
    };
    let seconds = words.next()?.parse().ok()?;
    Some(Tried { file_system, works, seconds, said: words.next().unwrap_or_default().trim().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_script_are_read_and_others_left_out() {
        let tried = parse("f2fs failed 1.25 mount: unknown file system").unwrap();
        assert!(!tried.works);
        assert_eq!(tried.said, "mount: unknown file system");
        assert!(parse("xfs ok 0.5").unwrap().works);
        assert!(parse("NOTE: several default settings have changed").is_none());
    }
}
