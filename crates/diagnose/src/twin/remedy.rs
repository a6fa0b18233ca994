//! Remedies on a twin: the real tools, pass by pass, with their effect on the layout.

use super::fewest::{self, WholeTrial};
use super::trial::Trial;
use super::{ToolEffect, TrialResult, TrialSetup};
use crate::error::PrognosisError;
use crate::estimate::{CostedLayout, Remedy, pays, place_of_commands, sequential_rate};
use crate::sentence;
use senesce_layout::FileRuns;
use senesce_layout::names::shown;
use senesce_volume::file_system::{Defragmenter, TwinBy, remedy_of_mount_table};
use senesce_volume::{CommandGroup, TargetError, guardian};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The last pass is the one that gains less than this share of the time.
const STILL_PAYS: f64 = 0.01;
const BATCH: usize = 256;

fn defragmenter(setup: &TrialSetup<'_>) -> Result<Defragmenter, PrognosisError> {
    let file_system = setup.file_system;
    file_system.entry().defragmenter.ok_or_else(|| {
        let what = format!("a program that defragments {file_system}");
        TargetError::missing(what, "copy everything out and back instead").into()
    })
}

/// Checks that the table of mounts exists which the `program` reads: a tool that cannot run shows nothing about files.
fn check_mounts(program: &str, table: Option<&Path>) -> Result<(), TargetError> {
    match table.filter(|table| !table.exists()) {
        Some(table) => {
            let what = format!("{}, which {program} reads,", table.display());
            Err(TargetError::missing(what, remedy_of_mount_table(table)))
        }
        None => Ok(()),
    }
}

pub(super) fn try_tool(
    setup: &TrialSetup<'_>,
    target: &str,
    before: &CostedLayout,
    passes: u32,
    tried: &mut TrialResult,
) -> Result<(), PrognosisError> {
    let tool = defragmenter(setup)?;
    check_mounts(tool.command[0], tool.mount_table.map(Path::new))?;
    let whole = setup.within(|trial| passes_of(tool, setup, trial, (target, passes), before, tried))?;
    match whole {
        Some(whole) if whole.gain() >= sentence::WORTH * tried.now_seconds => carry_out(setup, before, &whole, tried),
        _ => Ok(()),
    }
}

/// Lets the tool work until a pass gains nothing more; gives what the first pass moved.
fn passes_of(
    tool: Defragmenter,
    setup: &TrialSetup<'_>,
    trial: &mut Trial,
    (target, passes): (&str, u32),
    before: &CostedLayout,
    tried: &mut TrialResult,
) -> Result<Option<WholeTrial>, PrognosisError> {
    ready_for_data(setup, trial)?;
    let command = format!("{} {}", tool.words().join(" "), place_of_commands(target));
    setup.progress.phase(&format!("{} on the twin", tool.command[0]), u64::from(passes), "passes");
    let rate = sequential_rate(setup.model)?;
    let (mut last, mut whole): (Option<CostedLayout>, Option<WholeTrial>) = (None, None);
    let mut written = 0;
    for pass in 1..=passes {
        setup.check()?;
        let state = last.as_ref().unwrap_or(before);
        let complaint = match run(&tool.words(), &[trial.directory().to_path_buf()], tool) {
            Err(PrognosisError::Ended { status, .. }) if pass == 1 => {
                tried.defragmenter = Some(ToolEffect::none(tool, format!("it ended with {status} on the twin")));
                return Err(PrognosisError::Ended { command, status, output: String::new() });
            }
            other => other?,
        };
        let after = examine(setup, trial.directory())?;
        let bytes = moved_bytes(&state.files, &after.files);
        written += bytes;
        let (earlier, now) = (state.costs[0].seconds, after.costs[0].seconds);
        let mut remedy = remedy(&command, pass, tried.now_seconds, now, written, rate);
        if bytes == 0 && pass == 1 {
            let reason = complaint.map_or_else(String::new, |complaint| format!(": {complaint}"));
            remedy.verdict = format!("the tool moved nothing{reason}");
            tried.defragmenter = Some(ToolEffect::none(tool, format!("it moved nothing on the twin{reason}")));
        } else if tried.defragmenter.as_ref().is_none_or(|shown| shown.seconds_after.is_some()) {
            tried.defragmenter = Some(ToolEffect::of(tool, &remedy));
        }
        tried.remedies.push(remedy);
        if pass == 1 {
            let first = WholeTrial::of(setup.model, before, &after);
            tried.plan = first.steps();
            whole = Some(first);
        }
        last = Some(after);
        setup.progress.position(u64::from(pass), "");
        if earlier - now < STILL_PAYS * earlier {
            break;
        }
    }
    Ok(whole)
}

fn carry_out(
    setup: &TrialSetup<'_>,
    before: &CostedLayout,
    whole: &WholeTrial,
    tried: &mut TrialResult,
) -> Result<(), PrognosisError> {
    setup.progress.phase("carry out plans on the twin", u64::from(fewest::TRIALS), "plans");
    let mut done = 0;
    let (found, files) = whole.fewest(|files| {
        let after = move_files(setup, before, files)?;
        done += 1;
        setup.progress.position(done, "");
        Ok((after.costs[0].seconds, moved_bytes(&before.files, &after.files)))
    })?;
    // In the order of reading: each file gets a new position after the previous one, as the reader needs it.
    let path = |file: &u32| shown(&before.files.path(*file as usize));
    tried.plan_files = files.iter().map(path).collect();
    tried.executed = Some(found);
    Ok(())
}

fn move_files(setup: &TrialSetup<'_>, before: &CostedLayout, files: &[u32]) -> Result<CostedLayout, PrognosisError> {
    setup.within(|trial| {
        ready_for_data(setup, trial)?;
        let paths: Vec<PathBuf> =
            files.iter().map(|file| trial.directory().join(before.files.path(*file as usize))).collect();
        let tool = defragmenter(setup)?;
        for batch in paths.chunks(BATCH) {
            setup.check()?;
            run(tool.command, batch, tool)?;
            setup.check()?;
        }
        examine(setup, trial.directory())
    })
}

pub(super) fn try_command(
    setup: &TrialSetup<'_>,
    before: &CostedLayout,
    command: &[String],
    tried: &mut TrialResult,
) -> Result<(), PrognosisError> {
    setup.check()?;
    let after = setup.within(|trial| after_command(setup, trial, command))?;
    let bytes = match after.files.len() == before.files.len() {
        true => moved_bytes(&before.files, &after.files),
        // Files appeared or disappeared: all current data counts.
        false => after.all_bytes(),
    };
    let rate = sequential_rate(setup.model)?;
    let now = after.costs[0].seconds;
    tried.remedies.push(remedy(&command.join(" "), 1, tried.now_seconds, now, bytes, rate));
    Ok(())
}

/// Measures the layout after a command on the twin.
fn after_command(
    setup: &TrialSetup<'_>,
    trial: &mut Trial,
    command: &[String],
) -> Result<CostedLayout, PrognosisError> {
    ready_for_data(setup, trial)?;
    let place = trial.directory().to_string_lossy().into_owned();
    let arguments: Vec<String> = command.iter().map(|word| word.replace("{}", &place)).collect();
    let group = CommandGroup::of(trial.directory())?;
    let mut process = Command::new(&arguments[0]);
    process.args(&arguments[1..]).current_dir(trial.directory()).env("SENESCE_TWIN", &place);
    process.stdin(Stdio::null()).stdout(Stdio::null());
    let status = group.run(&mut process).map_err(PrognosisError::io("run", &arguments[0]))?;
    group.end().map_err(PrognosisError::io("end the processes of", &arguments[0]))?;
    setup.check()?;
    if !status.success() {
        return Err(PrognosisError::Ended { command: command.join(" "), status, output: String::new() });
    }
    examine(setup, trial.directory())
}

fn remedy(command: &str, pass: u32, before: f64, after: f64, bytes: u64, rate: f64) -> Remedy {
    let pays_after_reads = pays(before, after, 2.0 * bytes as f64 / rate);
    Remedy {
        command: command.into(),
        pass,
        seconds_after: after,
        bytes_written: bytes,
        bound: false,
        pays_after_reads,
        verdict: sentence::verdict(before, after, pays_after_reads),
    }
}

/// Returns the tool's error messages. Its exit status also reports files that it skipped, so the layout shows its
/// success. A killed tool has failed.
fn run(arguments: &[&str], targets: &[PathBuf], tool: Defragmenter) -> Result<Option<String>, PrognosisError> {
    let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(arguments[0]);
    command.args(&arguments[1..]).args(targets).env("LC_ALL", "C").env("PATH", search);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    match guardian::output(&mut command) {
        Ok(ran) if ran.status.success() => Ok(None),
        Ok(ran) => {
            let said = String::from_utf8_lossy(&ran.stderr);
            let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_string();
            match ran.status.signal() {
                None => Ok(Some(format!("{}{}", ran.status, if last.is_empty() { last } else { format!(", {last}") }))),
                Some(_) => {
                    Err(PrognosisError::Ended { command: arguments.join(" "), status: ran.status, output: last })
                }
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let remedy = format!("install the package {0} (apt-get install {0})", tool.package);
            Err(TargetError::missing(format!("the program {}", arguments[0]), remedy).into())
        }
        Err(error) => Err(PrognosisError::io("run", arguments[0])(error)),
    }
}

fn examine(setup: &TrialSetup<'_>, directory: &Path) -> Result<CostedLayout, PrognosisError> {
    CostedLayout::of(directory, setup.model, setup.options)
}

/// Prepares the twin for tools that read data. Data of a twin read as zeros, so the checksums of btrfs must be
/// recomputed.
fn ready_for_data(setup: &TrialSetup<'_>, trial: &mut Trial) -> Result<(), PrognosisError> {
    if setup.file_system.entry().twin != Some(TwinBy::Chunks) {
        return Ok(());
    }
    trial.forget_checksums()
}

/// Counts the bytes of data at other positions than before. The files must be the same, in the same order.
fn moved_bytes(before: &FileRuns, after: &FileRuns) -> u64 {
    (0..after.len().min(before.len())).map(|file| moved_bytes_of(before, after, file)).sum()
}

pub(super) fn moved_bytes_of(before: &FileRuns, after: &FileRuns, file: usize) -> u64 {
    not_in(after.of(file), before.of(file))
}

fn not_in(runs: &[senesce_layout::Run], others: &[senesce_layout::Run]) -> u64 {
    if runs == others {
        return 0;
    }
    let mut others: Vec<_> = others.to_vec();
    others.sort_unstable_by_key(|run| run.start);
    let kept = |run: &senesce_layout::Run| {
        let first = others.partition_point(|other| other.end() <= run.start);
        let overlap =
            |other: &senesce_layout::Run| other.end().min(run.end()).saturating_sub(other.start.max(run.start));
        others[first..].iter().take_while(|other| other.start < run.end()).map(overlap).sum::<u64>()
    };
    runs.iter().map(|run| run.length.saturating_sub(kept(run))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_layout::Run;
    use senesce_volume::FileSystem;

    #[test]
    fn tool_without_its_table_of_mounts_is_not_tried() {
        let folder = tempfile::tempdir().unwrap();
        let mounts = folder.path().join("mtab");
        let check = |fs: FileSystem| {
            let tool = fs.entry().defragmenter.unwrap();
            check_mounts(tool.command[0], tool.mount_table.map(|_| mounts.as_path()))
        };
        let refused = check(FileSystem::Ext4).unwrap_err();
        assert!(matches!(refused, TargetError::Missing { ref remedy, .. } if remedy.starts_with("ln -s")), "{refused}");
        assert!(check(FileSystem::Xfs).is_ok());
        std::fs::write(&mounts, "").unwrap();
        assert!(check(FileSystem::Ext4).is_ok());
    }

    #[test]
    fn moved_bytes_are_those_at_new_positions() {
        let run = |start, length| Run { start, length };
        assert_eq!(not_in(&[run(0, 10)], &[run(0, 4), run(20, 6)]), 6);
        assert_eq!(not_in(&[run(0, 10)], &[run(0, 10)]), 0);
        assert_eq!(not_in(&[run(5, 10)], &[run(100, 1), run(0, 7), run(12, 2)]), 6);
    }
}
