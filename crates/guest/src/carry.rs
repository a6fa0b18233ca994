//! Runs steps of a run in the guest and takes over their records.

mod pool;

pub use pool::{GuestPool, PoolJob, guests_at_a_time};

use crate::{Drive, GuestOutcome, GuestRun, GuestTime, KeptFiles, kernel};
use senesce_core::failure::failed;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Environment, ExitCode, Failure, Record, Seed};
use senesce_runner::{Context, Recorded, Run, new_plan};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder in a run's folder that the first guest may write; it holds the guest's own record.
const SHARE: &str = "guest";
const RECORD: &str = "run";

fn share(run: &Path, number: usize) -> PathBuf {
    match number {
        1 => run.join(SHARE),
        _ => run.join(format!("{SHARE}-{number}")),
    }
}

/// Folders in the run's folder with the records of its guests and the files that their steps left, the latest first.
pub fn guest_records<R: Run>(context: &Context<'_, R>) -> Vec<PathBuf> {
    let numbers = 1..=context.recorded().elsewhere().count();
    numbers.rev().map(|number| share(context.path(), number).join(RECORD)).collect()
}

pub struct GuestSpec {
    /// The kernel, as in `senesce vm run --kernel`; `None`: the newest.
    pub kernel: Option<String>,
    /// Drives, as in `senesce vm run --drive`.
    pub drives: Vec<String>,
    pub memory: Bytes,
    pub time: GuestTime,
    pub time_limit: Duration,
    /// Whether events name the guest that measured them. Otherwise the whole run counts as measured in a guest.
    pub events_name_guest: bool,
}

/// Wall time after which a guest that ages an image counts as hung.
pub const AGING_LIMIT: Duration = Duration::from_secs(3600);

impl GuestSpec {
    /// Creates a guest with a user-mode kernel in virtual time. `limit` is wall time, after which the guest counts as
    /// hung.
    pub fn in_virtual_time(kernel: &str, memory: Bytes, limit: Duration) -> Self {
        Self {
            kernel: Some(kernel.into()),
            drives: Vec::new(),
            memory,
            time: GuestTime::Virtual,
            time_limit: limit,
            events_name_guest: true,
        }
    }

    /// Selects virtual time for programs without a pace.
    pub fn still(self) -> Self {
        Self { time: GuestTime::Still, ..self }
    }
}

/// A guest that ran steps of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestBooted {
    /// Its kernel release.
    pub kernel: String,
    /// `kvm` or `tcg`.
    pub accelerator: String,
    /// Seconds from start to the first instruction of the command.
    pub boot_seconds: f64,
    /// Seconds from start to the end of the guest.
    pub total_seconds: f64,
    /// Number of steps that it completed.
    pub steps: usize,
}

impl GuestBooted {
    pub fn of(outcome: &GuestOutcome) -> Self {
        Self {
            kernel: outcome.kernel.clone(),
            accelerator: outcome.accelerator.word().into(),
            boot_seconds: outcome.boot_seconds,
            total_seconds: outcome.total_seconds,
            steps: 0,
        }
    }

    pub fn all<R: Run>(recorded: &Recorded<R>) -> Vec<Self> {
        recorded.elsewhere().filter_map(|machine| Self::deserialize(machine).ok()).collect()
    }
}

pub struct NotDone<S> {
    each: Vec<(S, String)>,
    others: String,
}

impl<S: PartialEq> NotDone<S> {
    pub fn of(outcome: Result<Vec<(S, String)>, Failure>) -> Self {
        match outcome {
            Ok(each) => Self { each, others: "the guest did not run this step".into() },
            Err(failure) => Self { each: Vec::new(), others: format!("in the guest: {failure}") },
        }
    }

    pub fn reason(&self, step: &S) -> String {
        let own = self.each.iter().find(|(failed, _)| failed == step);
        own.map_or_else(|| self.others.clone(), |(_, reason)| format!("in the guest: {reason}"))
    }
}

/// Runs the whole run of kind `G` specified by `spec` in a guest. Its events are recorded here, with the guest's environment
/// under `guest.`, and its completed steps count as completed here.
///
/// # Errors
/// The guest does not boot, or a step in it fails; nothing is recorded then.
pub fn run_in_guest<G: Run, R: Run<Event = G::Event>>(
    guest: &GuestSpec,
    spec: &G::Spec,
    context: &mut Context<'_, R>,
) -> Result<(), Failure> {
    match in_guest::<G, R>(guest, spec, None, context)?.first() {
        None => Ok(()),
        Some((_, reason)) => Err(Failure::new(ExitCode::RunFailed, format!("in the guest: {reason}"))),
    }
}

/// Runs some steps as [`run_in_guest`] runs all; returns the failed ones with the reasons.
///
/// # Errors
/// The guest does not boot, or a step in it fails and the kind does not continue after failures; nothing is recorded
/// then.
pub fn steps_in_guest<G: Run, R: Run<Event = G::Event>>(
    guest: &GuestSpec,
    spec: &G::Spec,
    steps: &[G::Step],
    context: &mut Context<'_, R>,
) -> Result<Vec<(G::Step, String)>, Failure> {
    let failed = in_guest::<G, R>(guest, spec, Some(steps), context)?;
    // The step that booted the guest may have failed; results of other steps are still valid.
    context.keep_pending()?;
    Ok(failed)
}

fn in_guest<G: Run, R: Run<Event = G::Event>>(
    guest: &GuestSpec,
    spec: &G::Spec,
    steps: Option<&[G::Step]>,
    context: &mut Context<'_, R>,
) -> Result<Vec<(G::Step, String)>, Failure> {
    let share = share(context.path(), context.recorded().elsewhere().count() + 1);
    let job = GuestJob { spec, seed: context.seed, steps, share };
    let (recorded, outcome) = record_of_guest::<G>(guest, &job, context.interrupt)?;
    let booted = GuestBooted { steps: recorded.steps_done(), ..GuestBooted::of(&outcome) };
    let failures = recorded.failures().into_iter();
    let failed = failures.filter_map(|(step, reason)| Some((step?, reason.to_string()))).collect();
    take_over::<G, R>(recorded, booted, guest.events_name_guest, context)?;
    Ok(failed)
}

pub struct GuestJob<'a, G: Run> {
    pub spec: &'a G::Spec,
    pub seed: Seed,
    /// `None`: all steps.
    pub steps: Option<&'a [G::Step]>,
    /// Folder for the guest's record; an existing one is replaced.
    pub share: PathBuf,
}

/// Does a run, or some of its steps, in a guest of its own. Several may run at the same time.
///
/// # Errors
/// The guest does not boot, or a step in it fails and the kind does not continue after failures.
pub fn record_of_guest<G: Run>(
    guest: &GuestSpec,
    job: &GuestJob<'_, G>,
    interrupt: &Interrupt,
) -> Result<(Recorded<G>, GuestOutcome), Failure> {
    let share = fresh_share(job.share.clone())?;
    // The guest plans for itself, because it has its own kernel and programs.
    let plan = new_plan::<G>(job.spec, job.seed)?;
    let text = toml::to_string_pretty(&plan).map_err(|error| Failure::usage(error.to_string()))?;
    let (plan_file, inside) = (share.join("plan.toml"), share.join(RECORD));
    fs::write(&plan_file, text).map_err(failed("write", &plan_file))?;
    let mut command =
        vec![own_program()?, "-q".into(), "runs".into(), "repeat".into(), plan_file.display().to_string()];
    if let Some(steps) = job.steps {
        let file = share.join("steps.json");
        let text = serde_json::to_string(steps).map_err(|error| Failure::usage(error.to_string()))?;
        fs::write(&file, text).map_err(failed("write", &file))?;
        command.extend(["--steps".into(), file.display().to_string()]);
    }
    command.extend(["--out".into(), inside.display().to_string()]);
    let run = GuestRun {
        kernel: kernel::choose(guest.kernel.as_deref(), (!guest.drives.is_empty()).then_some(kernel::Engine::Qemu))?,
        drives: guest.drives.iter().map(|text| Drive::parse(text)).collect::<Result<_, _>>()?,
        keep: KeptFiles::default(),
        memory: guest.memory,
        cpus: 2,
        accelerator: None,
        time: guest.time,
        command,
        shares: vec![share],
        time_limit: Some(guest.time_limit),
        columns: None,
    };
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let outcome = run.run(interrupt, &mut out, &mut errors)?;
    // A part of a run may have failed steps, or no verdict.
    let is_kept = [ExitCode::RunFailed, ExitCode::CannotTell, ExitCode::Negative].map(|code| code as u8);
    if outcome.exit_status != 0 && !(G::GOES_ON && is_kept.contains(&outcome.exit_status)) {
        let said = String::from_utf8_lossy(&errors);
        let tail: Vec<&str> = said.lines().rev().take(3).collect();
        let words = tail.into_iter().rev().collect::<Vec<_>>().join("; ");
        let words = format!("in the guest, exit status {}: {words}", outcome.exit_status);
        return Err(Failure::new(ExitCode::RunFailed, words));
    }
    if inside.is_symlink() {
        let words =
            format!("the guest replaced its record {} with a link; senesce does not follow links", inside.display());
        return Err(Failure::new(ExitCode::RunFailed, words));
    }
    Ok((Recorded::<G>::of(&Record::open(&inside)?)?, outcome))
}

/// Makes an empty folder that the guest may write. Files of an interrupted guest are deleted, because its drives are
/// gone.
fn fresh_share(share: PathBuf) -> Result<PathBuf, Failure> {
    let _ = fs::remove_dir_all(&share);
    fs::create_dir_all(&share).map_err(failed("make folder", &share))?;
    share.canonicalize().map_err(failed("find", &share))
}

fn take_over<G: Run, R: Run<Event = G::Event>>(
    recorded: Recorded<G>,
    booted: GuestBooted,
    events_name_guest: bool,
    context: &mut Context<'_, R>,
) -> Result<(), Failure> {
    let mut environment = Environment::default();
    environment.extend("guest", &recorded.environment);
    if !events_name_guest {
        environment.put("vm.accelerator", &booted.accelerator);
    }
    context.add_environment(&environment)?;
    context.take_over(recorded, json!(booted));
    Ok(())
}

/// Returns the path of this program in the guest, independent of its name: the guest sees the host's files at their
/// paths.
pub fn own_program() -> Result<String, Failure> {
    let path = std::env::current_exe().map_err(failed("find", Path::new("/proc/self/exe")))?;
    Ok(path.to_string_lossy().into_owned())
}

pub fn read_steps(path: &Path) -> Result<Vec<Value>, Failure> {
    let text = fs::read_to_string(path).map_err(failed("read", path))?;
    serde_json::from_str(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}
