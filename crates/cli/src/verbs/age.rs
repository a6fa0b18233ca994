//! `senesce age`: ages a file system.

use crate::Exit;
use crate::arguments::{self, Eligible};
use crate::display::{Rerun, print_plan, show_brief};
use crate::output::output_failed;
use crate::ranks;
use crate::session::{Session, runs_directory};
use crate::verb_table::Verb;
use clap::{Arg, Args, Command};
use clap_complete::ArgValueCompleter;
use senesce_aging::plan::DEFAULT_FULLNESS;
use senesce_aging::{CaptureOptions, Profile, capture};
use senesce_core::Progress;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, ExitCode, Failure, Peers, number_of, significant};
use senesce_exp_aging::age::{self, AgeSpec, Limits, check_target, plan_only, profile_hash, resume, run_by_ranks};
use senesce_runner::{Conduct, Outcome, Run, conduct};
use senesce_runs::write_order;
use senesce_volume::{ScratchDirectory, TargetSpec};
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Age a file system to a profile
#[derive(Args)]
#[command(mut_arg("resume", not_with_resume))]
#[command(mut_arg("profile", |arg| arg.add(ArgValueCompleter::new(arguments::complete_profile))))]
#[command(mut_arg("file_system", |arg| arg.add(ArgValueCompleter::new(arguments::complete_file_system))))]
pub(crate) struct Age {
    #[command(flatten)]
    spec: AgeSpec,
    #[command(flatten)]
    start: Start,
    /// Confirm data loss: path or serial number
    #[arg(long, value_name = "IDENTITY", help_heading = "Target")]
    erase: Option<String>,
    /// Share the work among the ranks that mpirun started
    #[arg(long, help_heading = "Execution",
          conflicts_with_all = ["shard", "writers", "record_order", "plan_only", "dry_run"])]
    mpi: bool,
    /// Continue a stopped run, with new limits if given
    #[arg(long, value_name = "RUN", help_heading = "Run",
          value_parser = arguments::run_among(Eligible::AGINGS),
          add = ArgValueCompleter::new(arguments::complete_run))]
    resume: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The flags of a run that starts and shape no result.
#[derive(Args)]
struct Start {
    /// Directory, block device, image:FILE[,size=1G] or memory:1G
    #[arg(required_unless_present_any = ["resume", "plan_only"])]
    target: Option<String>,
    /// Use profile, fullness and size of files in DIR
    #[arg(long, value_name = "DIR", conflicts_with = "profile", help_heading = "Aged state")]
    like: Option<PathBuf>,
    /// Create the directory if it does not exist
    #[arg(long, help_heading = "Target")]
    create: bool,
    /// Run directory [default: senesce-runs/age-HASH]
    #[arg(long, short, value_name = "RUNDIR", help_heading = "Run")]
    out: Option<PathBuf>,
    /// Run again in a new directory; --out must be one
    #[arg(long, help_heading = "Run")]
    again: bool,
    /// Plan and measure without a target
    #[arg(long, conflicts_with = "record_order", help_heading = "Output")]
    plan_only: bool,
    /// Print the plan only
    #[arg(long, help_heading = "Output")]
    dry_run: bool,
}

fn ids<A: Args>() -> impl Iterator<Item = String> {
    let command = A::augment_args(Command::new(""));
    command.get_arguments().map(|arg| arg.get_id().to_string()).collect::<Vec<_>>().into_iter()
}

/// Refuses the specification together with `--resume`, because a resumed run has its own. Only its [`Limits`] may
/// change.
fn not_with_resume(resume: Arg) -> Arg {
    let limits: Vec<String> = ids::<Limits>().collect();
    let fixed = ids::<Start>().chain(ids::<AgeSpec>()).filter(|id| !limits.contains(id));
    resume.conflicts_with_all(fixed)
}

impl Verb for Age {
    const NAME: &'static str = "age";
    const ABOUT: &'static str = "Age a file system to a profile, and prove the result";
    const EXAMPLES: &'static [&'static str] = &[
        "senesce age image:old.img,size=1G --out run",
        "senesce age image:old.img,size=1G --fs xfs --profile meyer --truncate-sizes",
        "senesce age DIR --create --size 10G",
    ];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        if self.mpi {
            return self.run_by_ranks(session);
        }
        let interrupt = session.interrupt()?;
        let how = self.conduct(session.progress(), &interrupt, None);
        if let Some(path) = &self.resume {
            return show_brief(&resume(path, &self.spec.limits, &how)?, self.rerun(), self.json, session);
        }
        if self.start.dry_run {
            return self.print_plan(session);
        }
        let spec = self.specification(&runs_directory(), session)?.on(self.target()?)?;
        if self.start.plan_only {
            let value = plan_only(&spec, session.progress(), &interrupt)?;
            session.clear();
            match self.json {
                true => {
                    println!("{}", serde_json::to_string_pretty(&value).map_err(|error| output_failed(error.into()))?)
                }
                false => print!("{}", numbers_of(&value)),
            }
            return Ok(ExitCode::Done.into());
        }
        show_brief(&self.start(&spec, &how)?, self.rerun(), self.json, session)
    }
}

/// Maximum time to count the files of `--like`.
const LIKE_TIME: Duration = Duration::from_secs(60);

/// Returns the specification with the profile of the files below `top`, which is written to the directory `runs`. A new
/// image is as large as these files need. No names are kept.
fn like(
    top: &Path,
    spec: AgeSpec,
    target: Option<&TargetSpec>,
    runs: &Path,
    progress: &dyn Progress,
) -> Result<AgeSpec, Failure> {
    let options = CaptureOptions { name: "like".into(), most_time: Some(LIKE_TIME), ..CaptureOptions::default() };
    let captured = capture(top, &options)?;
    let profile = &captured.profile;
    let path = runs.join(format!("like-{}.toml", profile_hash(profile)));
    let failed =
        |error: io::Error| Failure::new(ExitCode::RunFailed, format!("cannot write {}: {error}", path.display()));
    std::fs::create_dir_all(runs).and_then(|()| std::fs::write(&path, profile.to_toml())).map_err(failed)?;
    let fullness = spec.fullness.or(profile.fullness).unwrap_or(DEFAULT_FULLNESS);
    let needed = Bytes(((captured.bytes as f64 / fullness) as u64).next_multiple_of(1 << 20));
    let size = match target {
        Some(TargetSpec::Image { size: None, path }) if !path.exists() => spec.size.or(Some(needed)),
        None => spec.size.or(Some(needed)),
        Some(_) => spec.size,
    };
    let locality = profile.locality.map_or("not measured".into(), |locality| format!("{locality:.2}"));
    // In a dry run, the file is removed.
    let kept = if runs == runs_directory() { format!(", in {}", path.display()) } else { String::new() };
    progress.say(&format!(
        "profile of {}, {}{kept}: fullness {fullness:.2}, temporal locality {locality}",
        number_of(captured.files, "file"),
        Bytes(captured.bytes)
    ));
    if captured.locality_by_inode {
        progress.say("note: some files have no time of birth; the locality is that of the inode numbers");
    }
    Ok(AgeSpec { profile: path.to_string_lossy().into_owned(), size, ..spec })
}

/// Keys of the result whose words are not those of the glossary.
const TERMS: [(&str, &str); 12] = [
    ("changes_under_way", "unfinished changes"),
    ("created_size_tv", "total variation distance of created sizes"),
    ("files_live", "live files K"),
    ("namespace_sha256", "SHA-256 of names and sizes"),
    ("peak_rss_bytes", "maximum resident set size (bytes)"),
    ("plan_cpu_seconds", "CPU time of planning (s)"),
    ("plan_ops_per_cpu_second", "planned operations per CPU second"),
    ("saved_factor", "times fewer operations by compression"),
    ("stopped_by", "planned end"),
    ("t_bound", "bound T: minimum operations for exact ages"),
    ("t_end", "operations of the whole plan"),
    ("virtual_t", "operations that the plan represents"),
];

fn term(key: &str) -> String {
    let term = TERMS.iter().find(|(known, _)| *known == key);
    term.map_or_else(|| key.replace('_', " "), |(_, term)| (*term).to_string())
}

/// Formats a line for each single value of a plan.
fn numbers_of(plan: &Value) -> String {
    let shown = |value: &Value| match value {
        Value::Number(number) if number.is_f64() => number.as_f64().map(significant),
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    let values = plan.as_object().into_iter().flatten().filter_map(|(key, value)| Some((term(key), shown(value)?)));
    values.map(|(term, value)| format!("{term:<42} {value}\n")).collect()
}

impl Age {
    fn target(&self) -> Result<Option<TargetSpec>, Failure> {
        Ok(self.start.target.as_deref().map(str::parse).transpose()?)
    }

    fn rerun(&self) -> Rerun {
        match (&self.resume, &self.start.out) {
            (Some(_), _) => Rerun::NewLimits,
            (None, out) => Rerun::of(out.as_deref()),
        }
    }

    /// Returns the specification; a profile of `--like` is kept in `runs`.
    fn specification(&self, runs: &Path, session: &Session) -> Result<AgeSpec, Failure> {
        match &self.start.like {
            None => Ok(self.spec.clone()),
            Some(top) => like(top, self.spec.clone(), self.target()?.as_ref(), runs, session.progress()),
        }
    }

    /// Prints the plan, and keeps no file: a profile of `--like` exists only meanwhile.
    fn print_plan(&self, session: &Session) -> Result<Exit, Failure> {
        let scratch = self.start.like.as_ref().map(|_| ScratchDirectory::small("like")).transpose()?;
        let runs = scratch.as_ref().map_or_else(runs_directory, |scratch| scratch.path().into());
        let spec = self.specification(&runs, session)?.on(self.target()?)?;
        let mut plan = age::Age::plan(&spec, spec.seed)?;
        if let (true, Some(name)) = (scratch.is_some(), Path::new(&spec.profile).file_name()) {
            let path = runs_directory().join(name).to_string_lossy().into_owned();
            plan.spec.insert("profile".into(), path.into());
        }
        print_plan(&plan, self.json)
    }

    fn start(&self, spec: &AgeSpec, how: &Conduct<'_>) -> Result<Outcome, Failure> {
        how.progress.say(&format!("seed {}", spec.seed.0));
        spec.check_clock()?;
        spec.summary()?;
        if let (true, Some(TargetSpec::Image { path, .. })) = (spec.record_order, &spec.target) {
            write_order::check(path)?;
        }
        crate::output::create_target(self.start.create, spec.target.as_ref(), how.out.as_deref())?;
        conduct::<age::Age>(spec, spec.seed, how)
    }

    fn conduct<'a>(
        &self,
        progress: &'a dyn Progress,
        interrupt: &'a Interrupt,
        peers: Option<&'a dyn Peers>,
    ) -> Conduct<'a> {
        Conduct {
            out: self.resume.clone().or_else(|| self.start.out.clone()),
            runs: runs_directory(),
            again: self.start.again,
            erase: self.erase.clone(),
            scale: None,
            only: None,
            progress,
            interrupt,
            peers,
        }
    }

    /// Runs the aging on all ranks. Rank 0 does what a single process would do, with the others, which print nothing.
    fn run_by_ranks(&self, session: &Session) -> Result<Exit, Failure> {
        let profile = Profile::load(&self.spec.profile).ok().map(|profile| profile_hash(&profile));
        let Some((cluster, interrupt)) = ranks::join(&format!("profile {}", profile.unwrap_or_default()))? else {
            return Ok(ExitCode::Done.into());
        };
        let how = self.conduct(session.progress(), &interrupt, Some(&cluster));
        let led = run_by_ranks(&cluster, || match &self.resume {
            Some(path) => resume(path, &self.spec.limits, &how),
            None => {
                let target = self.target()?;
                check_target(target.as_ref())?;
                self.start(&self.specification(&runs_directory(), session)?.on(target)?, &how)
            }
        });
        match led {
            Ok(Some(outcome)) => show_brief(&outcome, self.rerun(), self.json, session),
            Err(failure) if cluster.is_first() => Err(failure),
            _ => Ok(ExitCode::Done.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;
    use serde_json::json;

    #[test]
    fn hint_for_a_complete_run_fits_the_options() {
        let refuses = |line: &str| crate::command().try_get_matches_from(line.split(' ')).is_err();
        for (line, rerun, added, excluded) in [
            ("senesce age memory:1G", Rerun::Again, " --again", ""),
            ("senesce age memory:1G", Rerun::Again, " --out other", ""),
            ("senesce age memory:1G --out run", Rerun::OtherDirectory, " --again", ""),
            ("senesce age --resume run", Rerun::NewLimits, " --overwrites 5", " --again"),
            ("senesce age --resume run", Rerun::NewLimits, " --overwrites 5", " --out other"),
        ] {
            let matches = crate::command().try_get_matches_from(line.split(' ')).unwrap();
            let age = Age::from_arg_matches(matches.subcommand().unwrap().1).unwrap();
            assert_eq!(age.rerun(), rerun, "{line}");
            assert!(!refuses(&format!("{line}{added}")), "{line}{added}");
            assert!(excluded.is_empty() || refuses(&format!("{line}{excluded}")), "{line}{excluded}");
        }
    }

    #[test]
    fn plan_has_terms_of_the_glossary_and_rounded_values() {
        let plan = json!({"files_live": 1727, "rmse": {"age": 0.1}, "sync_every": 0, "t_bound": 41447.9});
        let text = numbers_of(&plan);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
        let values: Vec<(&str, &str)> = lines.iter().map(|parts| (parts[0], parts[parts.len() - 1])).collect();
        assert_eq!(values[0], ("live files K", "1727"));
        assert_eq!(values[1], ("sync every", "0"));
        assert!(text.contains("bound T: minimum operations for exact ages 41448\n"), "{text}");
        assert_eq!(values.len(), 3);
    }
}
