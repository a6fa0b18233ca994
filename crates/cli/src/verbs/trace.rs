//! `senesce trace TARGET -- COMMAND`.

use crate::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::Args;
use senesce_core::output::Format;
use senesce_core::{Environment, ExitCode, Failure, RunDirectory};
use senesce_devmodel::DeviceModel;
use senesce_runs::trace::{self, CommandLine, TraceRequest, TracedCommand};
use senesce_volume::trace::blkparse;
use senesce_volume::{BlockTrace, TargetSpec};
use std::path::{Path, PathBuf};

/// Trace the requests of a device while a command runs
#[derive(Args)]
pub(crate) struct Trace {
    /// Image, block device or directory of a mounted file system
    target: String,
    /// Mount options of an image or a device
    #[arg(long, default_value = "", hide_default_value = true, value_name = "OPTIONS")]
    mount_options: String,
    /// Mount without writing, not even the journal
    #[arg(long)]
    read_only: bool,
    /// Keep caches warm
    #[arg(long)]
    keep_caches: bool,
    /// Also time the requests on a drive model; repeatable
    #[arg(long = "model", value_name = "NAME|FILE")]
    models: Vec<String>,
    /// Write the trace to FILE, 16 bytes per request
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    save: Option<PathBuf>,
    /// Write the trace to FILE as blkparse prints it
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    text: Option<PathBuf>,
    /// Write the result to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run directory for trace and result
    #[arg(long, short, value_name = "RUNDIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Command to trace; {} and $SENESCE_MNT are the mount point
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Verb for Trace {
    const NAME: &'static str = "trace";
    const ABOUT: &'static str = "Record the block requests of a command";
    const EXAMPLES: &'static [&'static str] = &[
        "sudo senesce trace old.img --json=result.json -- grep -r needle {}",
        "sudo senesce trace /mnt/data --text - -- ls -lR {}",
    ];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        let target = TargetSpec::existing(&self.target)?;
        let output_to_stderr = self.text.as_deref() == Some(Path::new("-"));
        self.check_paths()?;
        let model = |name: &String| DeviceModel::load(name).map(|model| (name.clone(), model));
        let models = self.models.iter().map(model).collect::<Result<Vec<_>, _>>()?;
        let interrupt = session.interrupt()?;
        let request = TraceRequest {
            target,
            mount_options: self.mount_options.clone(),
            read_only: self.read_only,
            warm: self.keep_caches,
            command: CommandLine { words: self.command.clone(), output_to_stderr, spares: false },
            models,
        };
        let traced = trace::trace_command(&request)?;
        self.write(&traced)?;
        traced.summary.reservations().iter().for_each(|reason| eprintln!("note: {reason}"));
        if !self.has_own_mount()? {
            eprintln!(
                "note: the counts include requests of other programs; their share is unknown, because the kernel names \
                 the issuing thread, not the program that caused a request\nhint: trace an image or an unmounted device"
            );
        }
        let invalid = traced.trace.valid().err();
        match &invalid {
            Some(invalid) if self.json.is_some() => eprintln!("{invalid}"),
            // The text of the result has the reasons.
            Some(_) => eprintln!("hint: trace again, if possible without other tracers"),
            None => {}
        }
        traced.closed?;
        Ok(match (interrupt.requested(), traced.exit_status, invalid) {
            (true, ..) => ExitCode::Interrupted.into(),
            (_, 0, Some(_)) => ExitCode::RunFailed.into(),
            (_, status, _) => Exit::Command(status),
        })
    }
}

impl Trace {
    /// Checks the outputs before the command runs. The device number at the start of the text is not known yet.
    fn check_paths(&self) -> Result<(), Failure> {
        if let Some(out) = &self.out {
            trace::refuse_record(out)?;
            RunDirectory::check(out)?;
        }
        crate::output::check_distinct(
            [&self.json, &self.save, &self.text].into_iter().filter_map(|file| file.as_deref()),
        )?;
        self.output.check_kind(self.text.as_deref(), Format::Text)?;
        self.check_outputs(None)
    }

    /// Checks the outputs before anything is written; the text is checked as far as it is known.
    fn check_outputs(&self, text: Option<&[u8]>) -> Result<(), Failure> {
        let trace = BlockTrace::new("", 0).to_bytes();
        let text_file = self.text.as_deref().filter(|_| text.is_some());
        self.output.check_all(&[
            (self.json.as_deref(), Format::Json, b""),
            (self.save.as_deref(), Format::Text, &trace),
            (text_file, Format::Text, text.unwrap_or_default()),
        ])
    }

    fn write(&self, traced: &TracedCommand) -> Result<(), Failure> {
        let mut result = traced.summary.to_json();
        result["exit_status"] = traced.exit_status.into();
        result["only_command"] = self.has_own_mount()?.into();
        let valid = self.text.as_deref().filter(|_| traced.trace.is_valid());
        let text = valid.map(|path| text_of(traced, path)).transpose()?;
        self.check_outputs(text.as_deref())?;
        if let Some(path) = &self.json {
            self.output.write(path, Format::Json, format!("{result:#}\n").as_bytes())?;
        } else {
            eprintln!("{}", traced.summary.text());
        }
        if let Some(path) = &self.save {
            self.output.write(path, Format::Text, &traced.trace.to_bytes())?;
        }
        match (&self.text, &text) {
            (Some(path), Some(text)) => self.output.write(path, Format::Text, text)?,
            // The text has no field for this.
            (Some(path), None) => eprintln!("{} not written: the trace is invalid", path.display()),
            (None, _) => {}
        }
        if let Some(out) = &self.out {
            let mut facts = Environment::capture();
            facts.0.extend(traced.environment.0.clone());
            trace::record(&traced.trace, &traced.summary, self.spec(), &facts, Vec::new(), out)?;
            eprintln!("{}", out.display());
        }
        Ok(())
    }

    /// Returns whether senesce mounts the target for the command, so that no other program uses it.
    fn has_own_mount(&self) -> Result<bool, Failure> {
        Ok(!matches!(TargetSpec::existing(&self.target)?, TargetSpec::Directory(_)))
    }

    fn spec(&self) -> trace::Spec {
        trace::Spec::Command {
            target: self.target.clone(),
            command: self.command.clone(),
            mount_options: self.mount_options.clone(),
            read_only: self.read_only,
            warm: self.keep_caches,
        }
    }
}

fn text_of(traced: &TracedCommand, path: &Path) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let failed = |error| Failure::new(ExitCode::RunFailed, format!("cannot write {}: {error}", path.display()));
    blkparse::export(&traced.trace, traced.device_number, &mut text).map_err(failed)?;
    Ok(text)
}
