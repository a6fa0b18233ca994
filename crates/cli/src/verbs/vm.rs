//! `senesce vm`: guests that run commands on the host's own files.

use crate::Exit;
use crate::in_the_guest::{Shares, hold};
use crate::output::Output;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, Subcommand};
use rustix::fs::FileType;
use senesce_core::machine::{KERNEL_ADVICE, VIRTUAL_TIME_ADVICE};
use senesce_core::output::Format;
use senesce_core::units::parse_duration;
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_guest::kernel::{Engine, Kernel};
use senesce_guest::{Accelerator, Drive, GuestRun, GuestTime, KeptFiles, KernelSource, cached_kernels, setup, uml};
use serde_json::json;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Guests: user-mode Linux, or QEMU with emulated drives
#[derive(Args)]
pub(crate) struct Vm {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Fetch a kernel for user-mode Linux or QEMU
    Setup(Setup),
    /// Build a user-mode kernel
    Build {
        /// Kernel tree, or a version with a Debian package of its sources
        #[arg(value_name = "DIR|VERSION")]
        source: String,
    },
    /// List QEMU and the kernels
    List {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a command in a guest, and exit with its status
    Run(Run),
}

#[derive(Args)]
struct Setup {
    /// uml or qemu, which root installs on Debian [default: uml]
    #[arg(long, value_name = "ENGINE", value_parser = ["uml", "qemu"], hide_possible_values = true, help_heading = "Kernel")]
    engine: Option<String>,
    /// Kernel image (vmlinuz or vmlinux) instead of Debian's
    #[arg(long, requires = "modules", value_name = "FILE", help_heading = "Kernel")]
    kernel: Option<PathBuf>,
    /// Modules of that kernel (lib/modules/VERSION)
    #[arg(long, requires = "kernel", value_name = "DIR", help_heading = "Kernel")]
    modules: Option<PathBuf>,
    /// Additional kernel module, with dependencies; repeatable
    #[arg(long = "module", value_name = "NAME", help_heading = "Kernel")]
    wanted: Vec<String>,
}

#[derive(Args)]
struct Run {
    /// Drive, such as nvme,size=2G; repeatable
    #[arg(long = "drive", value_name = "DRIVE", help_heading = "Guest")]
    drives: Vec<String>,
    /// Keep the next nvme drive in FILE
    #[arg(long = "keep-drive", value_name = "FILE", help_heading = "Guest")]
    keep: Vec<PathBuf>,
    /// Memory
    #[arg(long, value_name = "SIZE", default_value = "2G", help_heading = "Guest")]
    memory: String,
    /// Processors (qemu only) [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=255), help_heading = "Guest")]
    cpus: Option<u32>,
    /// Directory to share [default: senesce-runs]
    #[arg(long = "share", value_name = "DIR", help_heading = "Guest")]
    shares: Vec<PathBuf>,
    /// Cached kernel [default: the newest]
    #[arg(long, value_name = "RELEASE", help_heading = "Guest",
          add = clap_complete::ArgValueCompleter::new(crate::arguments::complete_kernel))]
    kernel: Option<String>,
    /// uml or qemu [default: uml without drives]
    #[arg(long, value_name = "ENGINE", value_parser = ["uml", "qemu"], hide_possible_values = true, help_heading = "Guest")]
    engine: Option<String>,
    /// Skip idle time (uml)
    #[arg(long, help_heading = "Guest")]
    virtual_time: bool,
    /// kvm or tcg [default: kvm if it works]
    #[arg(long, value_parser = ["kvm", "tcg"], hide_possible_values = true, help_heading = "Guest")]
    accelerator: Option<String>,
    /// Maximum time of the guest
    #[arg(long, value_name = "TIME", help_heading = "Guest")]
    time_limit: Option<String>,
    /// Write boot time, exit status and drives to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Command to run in the guest
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Run {
    /// Returns the engine that the options imply: drives and accelerators are QEMU's, virtual time is that of user-mode
    /// Linux.
    fn engine(&self) -> Option<Engine> {
        match self.engine.as_deref() {
            Some("qemu") => Some(Engine::Qemu),
            Some(_) => Some(Engine::Uml),
            None if self.virtual_time => Some(Engine::Uml),
            None if !self.drives.is_empty() || self.accelerator.is_some() => Some(Engine::Qemu),
            None => None,
        }
    }

    /// Refuses the options of QEMU's machines for a user-mode kernel, which has one processor and no accelerator.
    fn check_engine(&self, is_user_mode: bool) -> Result<(), Failure> {
        let given =
            [("--cpus above 1", self.cpus.is_some_and(|cpus| cpus > 1)), ("--accelerator", self.accelerator.is_some())];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) if is_user_mode => {
                Err(Failure::usage(format!("user-mode Linux does not support {option}\nhint: --engine qemu")))
            }
            _ => Ok(()),
        }
    }
}

impl Verb for Vm {
    const NAME: &'static str = "vm";
    const ABOUT: &'static str = "Run commands in a guest: user-mode Linux or QEMU";
    const EXAMPLES: &'static [&'static str] =
        &["senesce vm build 6.12", "senesce vm setup --engine qemu", "senesce vm run -- uname -r"];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self.action {
            Action::Setup(options) => set_up(options, session),
            Action::Build { source } => {
                let kernel = uml::build(&source, session.progress())?;
                session.clear();
                Ok(show_kernel(&kernel))
            }
            Action::List { json } => list(json),
            Action::Run(options) => run(options, session),
        }
    }
}

/// An empty guest takes half a second.
const BOOT_LIMIT: Duration = Duration::from_secs(120);

/// Processors of QEMU's machines by default.
const CPUS: u32 = 2;

fn set_up(options: Setup, session: &Session) -> Result<Exit, Failure> {
    let for_qemu = options.kernel.is_some() || !options.wanted.is_empty();
    if !for_qemu && options.engine.as_deref() != Some("qemu") {
        let cached = senesce_guest::kernel::choose(None, Some(Engine::Uml));
        let kernel = cached.or_else(|_| uml::fetch(&|message| session.progress().say(message)))?;
        let booted = boot(kernel.clone(), session);
        // Debian's, which can be fetched again. Without it, `demo` and `age` take what does run here.
        if booted.is_err() && !kernel.has_virtual_time() {
            let _ = std::fs::remove_dir_all(&kernel.folder);
        }
        return booted.map(|()| show_kernel(&kernel));
    }
    senesce_guest::qemu::install(&|message| session.progress().say(message))?;
    let source = match (options.kernel, options.modules) {
        (Some(image), Some(modules)) => KernelSource::Files { image, modules },
        _ => KernelSource::Debian,
    };
    let kernel = setup(&source, &options.wanted, false, &|message| session.progress().say(message))?;
    Ok(show_kernel(&kernel))
}

/// Boots a kernel once.
///
/// # Errors
/// It does not run on this machine.
fn boot(kernel: Kernel, session: &Session) -> Result<(), Failure> {
    let guest = GuestRun {
        kernel,
        drives: Vec::new(),
        keep: KeptFiles::default(),
        memory: Bytes::mib(256),
        cpus: 1,
        accelerator: None,
        time: GuestTime::Real,
        command: vec!["true".into()],
        shares: Vec::new(),
        time_limit: Some(BOOT_LIMIT),
        columns: None,
    };
    guest.run(&session.interrupt()?, &mut std::io::sink(), &mut std::io::sink())?;
    Ok(())
}

fn show_kernel(kernel: &Kernel) -> Exit {
    println!("kernel {} in {}", kernel.version, kernel.folder.display());
    if kernel.is_user_mode() && !kernel.has_virtual_time() {
        println!("It has no virtual time.\nhint: {VIRTUAL_TIME_ADVICE}");
    }
    ExitCode::Done.into()
}

fn list(as_json: bool) -> Result<Exit, Failure> {
    let kernels = cached_kernels()?;
    let qemu = senesce_guest::qemu::version();
    if as_json {
        let list = kernels
            .iter()
            .map(|kernel| json!({"release": kernel.version, "engine": engine_name(kernel), "virtual_time": kernel.has_virtual_time(), "folder": kernel.folder}));
        let list: Vec<_> = list.collect();
        println!("{}", json!({"qemu": qemu, "kernels": list}));
        return Ok(ExitCode::Done.into());
    }
    println!("qemu:    {}", qemu.as_deref().unwrap_or("not installed; apt-get install qemu-system-x86"));
    for kernel in &kernels {
        let clock = if kernel.has_virtual_time() { " with virtual time" } else { "" };
        println!("kernel:  {} for {}{clock} in {}", kernel.version, engine_name(kernel), kernel.folder.display());
    }
    if kernels.is_empty() {
        println!("kernel:  none\nhint: {KERNEL_ADVICE}");
    }
    Ok(ExitCode::Done.into())
}

fn engine_name(kernel: &Kernel) -> &'static str {
    if kernel.is_user_mode() { "uml" } else { "qemu" }
}

fn run(options: Run, session: &Session) -> Result<Exit, Failure> {
    let drives = options.drives.iter().map(|text| Drive::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let memory: Bytes = options.memory.parse()?;
    let time_limit = options.time_limit.as_deref().map(parse_duration).transpose()?;
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    if let Some(folder) = options.json.as_deref().and_then(Path::parent).filter(|folder| !here.join(folder).is_dir()) {
        return Err(Failure::usage(format!("cannot write --json: directory {} not found", folder.display())));
    }
    options.output.check(options.json.as_deref(), Format::Json, b"")?;
    let _held = hold(&options.command, None, &here)?;
    let kernel = senesce_guest::kernel::choose(options.kernel.as_deref(), options.engine())?;
    options.check_engine(kernel.is_user_mode())?;
    let shares = Shares::named(&options.shares, &here)?;
    let guest = GuestRun {
        kernel,
        drives,
        keep: KeptFiles { files: options.keep, foreign: options.output.replaces() },
        memory,
        cpus: options.cpus.unwrap_or(CPUS),
        accelerator: options.accelerator.map(|word| if word == "kvm" { Accelerator::Kvm } else { Accelerator::Tcg }),
        time: if options.virtual_time { GuestTime::Virtual } else { GuestTime::Real },
        command: options.command,
        shares: shares.folders.clone(),
        time_limit,
        columns: None,
    };
    session.clear();
    let outcome = guest.run(&session.interrupt()?, &mut std::io::stdout(), &mut std::io::stderr());
    let outcome = outcome.map_err(Failure::from);
    // Only now, because the writer of a pipe may start after senesce.
    if outcome.as_ref().err().is_none_or(is_after_start) && has_data(std::io::stdin()) {
        eprintln!("note: the guest does not read standard input");
    }
    let outcome = outcome?;
    if let Some(file) = options.json {
        let text = serde_json::to_vec_pretty(&outcome).map_err(|error| Failure::usage(error.to_string()))?;
        options.output.write(&file, Format::Json, &text)?;
    }
    Ok(Exit::Command(outcome.exit_status))
}

/// Returns whether the guest ran before this failure, so that the user may expect that it has read its input.
fn is_after_start(failure: &Failure) -> bool {
    matches!(failure.exit_code(), ExitCode::CannotTell | ExitCode::Interrupted | ExitCode::RunFailed)
}

/// Returns whether it has data to read. A terminal always may.
fn has_data(input: impl AsFd) -> bool {
    const NULL: (u32, u32) = (1, 3);
    let Ok(found) = rustix::fs::fstat(&input) else { return false };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => rustix::fs::tell(&input).is_ok_and(|position| position < found.st_size as u64),
        FileType::Fifo | FileType::Socket => rustix::io::ioctl_fionread(&input).is_ok_and(|bytes| bytes > 0),
        FileType::CharacterDevice => {
            let number = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
            number != NULL && !rustix::termios::isatty(&input)
        }
        FileType::BlockDevice => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;
    use std::io::{Read, Seek, Write};

    #[test]
    fn user_mode_kernel_has_one_processor_and_no_accelerator() {
        for (words, is_supported) in
            [(&["--cpus", "1"][..], true), (&[], true), (&["--cpus", "4"], false), (&["--accelerator", "tcg"], false)]
        {
            let words = [&["senesce", "vm", "run"], words, &["--", "true"]].concat();
            let matches = crate::command().try_get_matches_from(words.clone()).unwrap();
            let (_, arguments) = matches.subcommand().and_then(|(_, vm)| vm.subcommand()).unwrap();
            let run = Run::from_arg_matches(arguments).unwrap();
            let refused = run.check_engine(true).err().map(|failure| failure.exit_code());
            assert_eq!(refused, (!is_supported).then_some(ExitCode::Usage), "{words:?}");
            assert!(run.check_engine(false).is_ok(), "{words:?}");
        }
    }

    #[test]
    fn input_is_noted_after_a_guest_that_failed_but_not_without_a_guest() {
        let is_noted = |code| is_after_start(&Failure::new(code, ""));
        assert!([ExitCode::CannotTell, ExitCode::Interrupted].into_iter().all(is_noted));
        assert!(![ExitCode::Usage, ExitCode::Missing, ExitCode::Refused].into_iter().any(is_noted));
    }

    #[test]
    fn only_input_with_data_is_noted() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        assert!(!has_data(&reader), "empty");
        writer.write_all(b"hello").unwrap();
        assert!(has_data(&reader));
        reader.read_exact(&mut [0; 5]).unwrap();
        assert!(!has_data(&reader), "read");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"hello").unwrap();
        assert!(!has_data(&file), "at its end");
        file.rewind().unwrap();
        assert!(has_data(&file));
        let has_device = |path| has_data(std::fs::File::open(path).unwrap());
        assert_eq!(["/dev/null", "/dev/zero"].map(has_device), [false, true]);
    }
}
