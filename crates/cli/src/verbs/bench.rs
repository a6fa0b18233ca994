//! `senesce bench TARGET WORKLOAD`: workloads, microbenchmarks, cold reads.

mod ranks;

use crate::Exit;
use crate::display::{Rerun, print_plan, show_record, show_whole, terminal_width};
use crate::messages::wrapped;
use crate::output::output_failed;
use crate::session::{Session, runs_directory};
use crate::verb_table::Verb;
use clap::{Args, ValueEnum};
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure, Progress, Seed, number_of};
use senesce_exp_aging::age::words;
use senesce_runner::{Conduct, Outcome, Run, conduct};
use senesce_runs::bench::{self, Spec, Subject, results};
use senesce_volume::TargetSpec;
use senesce_workload::{Bench as Workbench, PERSONALITIES, check_trusted, draw};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables
    Table,
    /// Filebench's own breakdown and summary lines
    Filebench,
}

/// Measure a workload, file operations, writes by size, or a cold read
#[derive(Args)]
pub(crate) struct Bench {
    /// Directory, block device, image:FILE[,size=1G] or memory:1G
    target: Option<String>,
    /// Built-in workload or benchmark (--list), or a workload FILE.f
    workload: Option<String>,
    #[command(flatten)]
    how: bench::spec::BenchOptions,
    /// Root seed of the workload
    #[arg(long, value_name = "N", default_value = words::SEED, value_parser = words::seed())]
    seed: Seed,
    /// Confirm data loss: path or serial number
    #[arg(long, value_name = "IDENTITY")]
    erase: Option<String>,
    /// Create the directory if it does not exist
    #[arg(long)]
    create: bool,
    /// Run on the ranks of mpirun, each with its own files
    #[arg(long, help_heading = "Measurement")]
    mpi: bool,
    /// Share one file set among all ranks
    #[arg(long, requires = "mpi", help_heading = "Measurement")]
    shared: bool,
    /// List the built-in workloads
    #[arg(long, help_heading = "Output")]
    list: bool,
    /// Check the workload only
    #[arg(long, help_heading = "Output")]
    check: bool,
    /// Print the plan only
    #[arg(long)]
    dry_run: bool,
    /// Run directory [default: a new one in senesce-runs]
    #[arg(long, short, value_name = "RUNDIR")]
    out: Option<PathBuf>,
    /// table or filebench
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Table, hide_possible_values = true)]
    format: Format,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Verb for Bench {
    const NAME: &'static str = "bench";
    const ABOUT: &'static str = "Measure a workload, file operations, or a cold read";
    const EXAMPLES: &'static [&'static str] = &[
        "senesce bench DIR varmail --time 30s --reps 3",
        "sudo senesce bench memory:1G cold-read",
        "senesce bench --list",
    ];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        if self.list {
            return self.print_list();
        }
        if self.mpi {
            return self.run_by_ranks(session);
        }
        let interrupt = session.interrupt()?;
        let (target, name) = self.names()?;
        if self.check {
            return self.check(target.as_deref(), &name);
        }
        let target = target.ok_or_else(|| Failure::usage("no target given\nhint: senesce bench TARGET WORKLOAD"))?;
        let (spec, seed) = (self.spec(&target, name)?, self.seed);
        if self.dry_run {
            return print_plan(&bench::Bench::plan(&spec, seed)?, self.json);
        }
        crate::output::create_target(self.create, Some(&spec.target), self.out.as_deref())?;
        let how = self.conduct(session.progress(), &interrupt);
        let outcome = conduct::<bench::Bench>(&spec, seed, &how)?;
        self.show(&outcome, session)
    }
}

impl Bench {
    fn spec(&self, target: &str, workload: String) -> Result<Spec, Failure> {
        let text = bench::workload_text(&workload)?;
        Ok(Spec { target: target.parse()?, workload, text, ranks: None, how: self.how.clone() })
    }

    fn subject(&self, workload: &str) -> Result<Subject, Failure> {
        self.how.subject(workload, bench::workload_text(workload)?.as_deref(), self.seed)
    }

    fn conduct<'a>(&self, progress: &'a dyn Progress, interrupt: &'a Interrupt) -> Conduct<'a> {
        Conduct {
            out: self.out.clone(),
            runs: runs_directory(),
            again: self.out.is_none(),
            erase: self.erase.clone(),
            scale: None,
            only: None,
            progress,
            interrupt,
            peers: None,
        }
    }

    fn show(&self, outcome: &Outcome, session: &Session) -> Result<Exit, Failure> {
        let repetitions = results::read(&outcome.path)?.repetitions;
        // The text of the result names the reasons.
        let is_text = self.format == Format::Table && !self.json;
        let reasons = repetitions.iter().map(|repetition| &repetition.reason).enumerate().filter(|_| !is_text);
        for (number, reason) in reasons {
            if let Some(reason) = reason {
                session.progress().say(&format!("repetition {}: {reason}", number + 1));
            }
        }
        if self.format == Format::Filebench && !self.json {
            session.clear();
            for repetition in &repetitions {
                writeln!(crate::output::stdout(), "{}", repetition.filebench_lines()).map_err(output_failed)?;
            }
            return Ok(show_record(outcome));
        }
        show_whole(outcome, Rerun::OtherDirectory, self.json, session)
    }

    /// Returns target and workload. With `--check`, the workload is enough.
    fn names(&self) -> Result<(Option<String>, String), Failure> {
        match (&self.target, &self.workload) {
            (target, Some(workload)) => Ok((target.clone(), workload.clone())),
            (Some(workload), None) if self.check => Ok((None, workload.clone())),
            _ => Err(Failure::usage(
                "no workload given\nhint: senesce bench TARGET WORKLOAD; senesce bench --list shows the workloads",
            )),
        }
    }

    fn print_list(&self) -> Result<Exit, Failure> {
        let micro = [
            ("file-ops", "36 single file operations, timed separately"),
            ("append", "latency of appends by size"),
            ("random-write", "latency of random writes by size"),
            ("cold-read", "read all existing files with cold caches (the grep test)"),
        ];
        let list = PERSONALITIES.iter().map(|personality| (personality.name, personality.summary)).chain(micro);
        let mut out = crate::output::stdout();
        if self.json {
            let value: Vec<_> = list.map(|(name, summary)| json!({ "name": name, "summary": summary })).collect();
            writeln!(out, "{:#}", json!(value)).map_err(output_failed)?;
            return Ok(ExitCode::Done.into());
        }
        let width = terminal_width();
        for (name, summary) in list {
            writeln!(out, "{}", wrapped(&format!("{name:<14} {summary}"), width, 15)).map_err(output_failed)?;
        }
        Ok(ExitCode::Done.into())
    }

    fn check(&self, target: Option<&str>, name: &str) -> Result<Exit, Failure> {
        let Subject::Workload(workload, options) = self.subject(name)? else {
            return Ok(ExitCode::Done.into());
        };
        let directory = match target.map(str::parse).transpose()? {
            Some(TargetSpec::Directory(path)) => Some(path),
            _ => None,
        };
        check_trusted(&workload, &options, directory.as_deref())?;
        let filesets = draw(&workload, &options)?;
        let warnings: Vec<String> = Workbench::directio_warning(&workload).into_iter().collect();
        let mut out = crate::output::stdout();
        if self.json {
            let value = json!({
                "workload": workload.name,
                "valid": true,
                "threads": workload.thread_count(),
                "filesets": filesets,
                "variables": workload.variables,
                "warnings": warnings,
            });
            writeln!(out, "{value:#}").map_err(output_failed)?;
            return Ok(ExitCode::Done.into());
        }
        writeln!(out, "{}: valid, {}", workload.name, number_of(workload.thread_count(), "thread"))
            .map_err(output_failed)?;
        for set in filesets {
            let megabytes = set.bytes as f64 / 1_048_576.0;
            let (files, directories) = (number_of(set.files, "file"), number_of(set.directories, "directory"));
            writeln!(out, "  {}: {files}, {directories}, {megabytes:.3} MB", set.name).map_err(output_failed)?;
        }
        for (name, value) in &workload.variables {
            writeln!(out, "  ${name} = {value}").map_err(output_failed)?;
        }
        for warning in warnings {
            writeln!(out, "warning: {warning}").map_err(output_failed)?;
        }
        Ok(ExitCode::Done.into())
    }
}
