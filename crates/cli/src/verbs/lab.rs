//! `senesce lab`: a QEMU guest on the host's own files.

use crate::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::table::Verb;
use clap::{Args, Subcommand};
use senesce_core::output::{self, Format};
use senesce_core::units::parse_duration;
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_lab::{Accelerator, Drive, Keep, KernelSource, LabRun, cached_kernels, setup};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Boot a guest with emulated drives and run a command in it
#[derive(Args)]
pub struct Lab {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Fetch a kernel (installing nothing) and QEMU (as root on Debian)
    Setup(Setup),
    /// Say what is set up
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a command in a guest; its exit status becomes ours
    Run(Run),
}

#[derive(Args)]
struct Setup {
    /// Kernel image (vmlinuz or vmlinux) instead of Debian's
    #[arg(long, requires = "modules", value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Its modules (lib/modules/VERSION)
    #[arg(long, requires = "kernel", value_name = "DIR")]
    modules: Option<PathBuf>,
    /// One more module of that kernel that the guest can load, with those it depends on; may be repeated
    #[arg(long = "module", value_name = "NAME")]
    wanted: Vec<String>,
    /// Fetch anew although a kernel is in the cache
    #[arg(long)]
    again: bool,
}

#[derive(Args)]
struct Run {
    /// Emulated drive: zns,size=4G,zone=64M,cap=62M,open=14,active=14,lba=4096 or nvme,size=2G,latency=2ms
    #[arg(long = "drive", value_name = "KIND,KEY=VALUE")]
    drives: Vec<String>,
    /// Keep the first conventional drive in FILE, and go on with what is there; given again, the second, and so on
    #[arg(long = "keep-drive", value_name = "FILE")]
    keep: Vec<PathBuf>,
    /// Guest memory
    #[arg(long, default_value = "2G")]
    memory: String,
    /// Virtual processors
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=255))]
    cpus: u32,
    /// Folder that the guest may write, at the same path
    #[arg(
        long = "share",
        value_name = "DIR",
        help = "Folder that the guest may write, seen at the same path [default: ./senesce-runs]"
    )]
    shares: Vec<PathBuf>,
    /// Kernel release from the cache
    #[arg(
        long,
        value_name = "RELEASE",
        add = clap_complete::ArgValueCompleter::new(crate::arguments::complete_kernel),
        help = "Kernel release from the cache [default: the newest]"
    )]
    kernel: Option<String>,
    /// kvm or tcg instead of probing
    #[arg(long, value_parser = ["kvm", "tcg"])]
    accelerator: Option<String>,
    /// End the guest after this long
    #[arg(long, value_name = "DURATION")]
    time_limit: Option<String>,
    /// Write boot time, exit status and drives to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Verb for Lab {
    const NAME: &'static str = "lab";
    const ABOUT: &'static str =
        "Run any command in a QEMU guest with emulated NVMe and ZNS drives, on the host's own files";

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self.action {
            Action::Setup(options) => set_up(options, session),
            Action::Status { json } => status(json),
            Action::Run(options) => run(options, session),
        }
    }
}

fn set_up(options: Setup, session: &Session) -> Result<Exit, Failure> {
    senesce_lab::qemu::install(&|message| session.progress().say(message))?;
    let source = match (options.kernel, options.modules) {
        (Some(image), Some(modules)) => KernelSource::Files { image, modules },
        _ => KernelSource::Debian,
    };
    let kernel = setup(&source, &options.wanted, options.again, &|message| session.progress().say(message))?;
    println!("kernel {} in {}", kernel.version, kernel.folder.display());
    Ok(ExitCode::Done.into())
}

fn status(as_json: bool) -> Result<Exit, Failure> {
    let kernels = cached_kernels()?;
    let qemu = senesce_lab::qemu::version();
    if as_json {
        let list: Vec<_> =
            kernels.iter().map(|kernel| json!({"release": kernel.version, "folder": kernel.folder})).collect();
        println!("{}", json!({"qemu": qemu, "kernels": list}));
        return Ok(ExitCode::Done.into());
    }
    println!("qemu:    {}", qemu.as_deref().unwrap_or("not installed; apt-get install qemu-system-x86"));
    for kernel in &kernels {
        println!("kernel:  {} in {}", kernel.version, kernel.folder.display());
    }
    if kernels.is_empty() {
        println!("kernel:  none; senesce lab setup");
    }
    Ok(ExitCode::Done.into())
}

/// Where runs are kept, made as any verb that leaves a record makes it.
fn runs_folder(here: &Path) -> Result<PathBuf, Failure> {
    let folder = here.join(crate::session::runs_directory());
    output::directory(&folder)?;
    Ok(folder)
}

fn run(options: Run, session: &Session) -> Result<Exit, Failure> {
    let drives = options.drives.iter().map(|text| Drive::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let memory: Bytes = options.memory.parse()?;
    let time_limit = options.time_limit.as_deref().map(parse_duration).transpose()?;
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    if let Some(folder) = options.json.as_deref().and_then(Path::parent).filter(|folder| !here.join(folder).is_dir()) {
        return Err(Failure::usage(format!("--json: there is no folder {}; make it first", folder.display())));
    }
    options.output.check(options.json.as_deref(), Format::Json, b"")?;
    let kernel = senesce_lab::kernel::choose(options.kernel.as_deref())?;
    // Made last: what is refused leaves no folder.
    let shares = match options.shares.is_empty() {
        true => vec![runs_folder(&here)?],
        false => senesce_lab::share::existing(&options.shares, &here)?,
    };
    let lab = LabRun {
        kernel,
        drives,
        keep: Keep { files: options.keep, foreign: options.output.replaces() },
        memory,
        cpus: options.cpus,
        accelerator: options.accelerator.map(|word| if word == "kvm" { Accelerator::Kvm } else { Accelerator::Tcg }),
        command: options.command,
        shares,
        time_limit,
    };
    session.clear();
    let outcome = lab.run(&session.interrupt()?, &mut std::io::stdout(), &mut std::io::stderr())?;
    if let Some(file) = options.json {
        let text = serde_json::to_vec_pretty(&outcome).map_err(|error| Failure::usage(error.to_string()))?;
        options.output.write(&file, Format::Json, &text)?;
    }
    Ok(Exit::Command(outcome.exit_status))
}
