//! `senesce age`: the main job.

use crate::Exit;
use crate::arguments;
use crate::display::print_plan;
use crate::display::show;
use crate::output::output_failed;
use crate::ranks;
use crate::session::{Session, runs_directory};
use crate::verb_table::Verb;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use senesce_aging::parts::MOST_PARTS;
use senesce_aging::{Churn, Clock, CommitShare, Profile, Truncate};
use senesce_core::Progress;
use senesce_core::interrupt::Interrupt;
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::units::parse_duration;
use senesce_core::{Bytes, ExitCode, Failure, Peers, Seed};
use senesce_exp_aging::age::{
    self, AgeSpec, check_target, parse_shard, parse_until, plan_only, profile_hash, resume, run_by_ranks,
};
use senesce_runner::{Conduct, Outcome, Run, conduct};
use senesce_runs::write_order;
use senesce_volume::{FileSystem, TargetSpec};
use serde_json::Value;
use std::path::PathBuf;

/// A run that goes on has a plan, a target and a place. It takes limits, what may be lost, and how it is shown and shared.
const NOT_WITH_RESUME: [&str; 28] = [
    "target",
    "profile",
    "fullness",
    "size",
    "seed",
    "churn",
    "spread_sizes",
    "truncate_sizes",
    "compress",
    "fs",
    "mkfs_options",
    "mount_options",
    "in_memory",
    "create",
    "data",
    "record_order",
    "fsync_every",
    "commit_share",
    "sync_every",
    "pace",
    "threads",
    "writers",
    "shard",
    "parts",
    "out",
    "again",
    "plan_only",
    "dry_run",
];

/// Age a file system to a profile
#[derive(Args)]
pub struct Age {
    /// What to age: image:FILE[,size=1G], memory:1G, a block device (in the guest auto: its only NVMe drive), or a directory (with --size)
    #[arg(required_unless_present_any = ["resume", "plan_only"])]
    target: Option<String>,
    /// Built-in profile (see `senesce profile list`) or a TOML file
    #[arg(long, default_value = "agrawal", add = ArgValueCompleter::new(arguments::complete_profile))]
    profile: String,
    /// Allocated bytes of files over the raw size
    #[arg(
        long,
        value_name = "SHARE",
        value_parser = arguments::share,
        help = "Allocated bytes of files over the raw size, 80% or 0.8 [default: the profile's own, else 80%]"
    )]
    fullness: Option<f64>,
    /// Raw size of the volume; needed for a directory and for --plan-only
    #[arg(long)]
    size: Option<String>,
    /// Root seed
    #[arg(long, default_value_t = DEFAULT_SEED.0, value_parser = crate::arguments::seed())]
    seed: u64,
    /// Which files are replaced
    #[arg(long, value_enum, default_value_t = ChurnWord::Profile)]
    churn: ChurnWord,
    /// Draw sizes inside their bin, log-uniformly
    #[arg(long)]
    spread_sizes: bool,
    /// What becomes of sizes that cannot fit
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "clamp", default_value_t = TruncateWord::Refuse)]
    truncate_sizes: TruncateWord,
    /// Age for this many overwrites (bytes created over raw size), as near as whole files come to it
    #[arg(long, value_name = "N", conflicts_with_all = ["until", "max_overwrites", "max_operations"], help_heading = "Limits")]
    overwrites: Option<f64>,
    /// At most this many overwrites
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_overwrites: Option<f64>,
    /// At most this many creates and deletes
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_operations: Option<u64>,
    /// Stop after this long
    #[arg(long, value_name = "DURATION", help_heading = "Limits")]
    max_time: Option<String>,
    /// Stop as soon as chi-square tests find all histograms with this p: confidence=0.95
    #[arg(long, value_name = "confidence=P", help_heading = "Limits")]
    until: Option<String>,
    /// Play fewer operations for the same ages, as far as it was measured that the layout stays the same
    #[arg(long, conflicts_with_all = ["overwrites", "until", "max_overwrites", "max_operations"], help_heading = "Limits")]
    compress: bool,
    /// File system to make on an image or device
    #[arg(
        long,
        value_name = "NAME",
        add = ArgValueCompleter::new(arguments::complete_file_system),
        help_heading = "Target",
        help = "File system to make on an image or device [default: ext4]"
    )]
    fs: Option<String>,
    /// More options for mkfs
    #[arg(long, default_value = "", allow_hyphen_values = true, help_heading = "Target")]
    mkfs_options: String,
    /// Mount options
    #[arg(long, default_value = "", help_heading = "Target")]
    mount_options: String,
    /// Hold the image in memory while aging; it is written to its file at the end
    #[arg(long, help_heading = "Target")]
    in_memory: bool,
    /// Repeat the path or serial number of what may be lost
    #[arg(long, value_name = "IDENTITY", help_heading = "Target")]
    erase: Option<String>,
    /// Make the directory if it is missing
    #[arg(long, help_heading = "Target")]
    create: bool,
    /// How files get their content
    #[arg(long, value_parser = ["fallocate", "write", "sparse"], default_value = "fallocate", help_heading = "Execution")]
    data: String,
    /// Record in which order the blocks of an image were last written, for `image copy --order last-write`
    #[arg(long, help_heading = "Execution", conflicts_with_all = ["mpi", "plan_only"],
          help = "Record in which order the blocks of an image were last written, in IMAGE.order, for `image copy --order last-write`; \
                  with --data write")]
    record_order: bool,
    /// fsync after every N creates; 0: never
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Execution")]
    fsync_every: u64,
    /// Have the file system commit whenever this share of the free space was freed: 5%, 0.05 or none
    #[arg(
        long,
        value_name = "SHARE",
        help_heading = "Clock",
        help = "Have the file system commit whenever this share of the free space was freed: 5%, 0.05 or none [default: 5%]"
    )]
    commit_share: Option<CommitShare>,
    /// Have it commit after every N operations, instead of a share or beside one that is given
    #[arg(long, value_name = "N", help_heading = "Clock", value_parser = clap::value_parser!(u64).range(1..))]
    sync_every: Option<u64>,
    /// At most N operations per second, so that the file system's own timers are the clock
    #[arg(long, value_name = "N", help_heading = "Clock", value_parser = parse_pace)]
    pace: Option<f64>,
    /// Worker threads
    #[arg(long, default_value_t = 1, help_heading = "Execution", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Files held open that grow side by side in small pieces
    #[arg(long, value_name = "W", default_value_t = 1, help_heading = "Execution", conflicts_with = "mpi",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    writers: u32,
    /// This machine's part of the directories: I/N with I from 0
    #[arg(long, value_name = "I/N", help_heading = "Execution")]
    shard: Option<String>,
    /// Divide the plan into N plans in directories part-NNNN, so that each of many ranks holds only its own in memory
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Execution", conflicts_with = "shard",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_PARTS)))]
    parts: u32,
    /// Share the work among the ranks that mpirun started; the target is a directory that all of them see
    #[arg(long, help_heading = "Execution", conflicts_with_all = ["shard", "plan_only", "dry_run"])]
    mpi: bool,
    /// Run directory
    #[arg(
        long,
        short,
        value_name = "RUNDIR",
        help = "Run directory [default: senesce-runs/age-HASH, so the same command continues or reprints]"
    )]
    out: Option<PathBuf>,
    /// Run anew although it was run before
    #[arg(long, conflicts_with = "out")]
    again: bool,
    /// Continue an interrupted run; limits given here replace its own
    #[arg(long, value_name = "RUN", conflicts_with_all = NOT_WITH_RESUME,
          value_parser = arguments::run(), add = ArgValueCompleter::new(arguments::complete_run))]
    resume: Option<PathBuf>,
    /// Plan and measure without any target
    #[arg(long)]
    plan_only: bool,
    /// Print what would be done and stop
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn parse_pace(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(pace) if pace >= 0.01 && pace.is_finite() => Ok(pace),
        _ => Err("write operations per second, at least 0.01".into()),
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum ChurnWord {
    /// As frequent as the profile says
    Profile,
    /// Every size bin equally often
    Bins,
}

#[derive(Clone, Copy, ValueEnum)]
enum TruncateWord {
    /// Refuse the plan
    Refuse,
    /// Leave them out
    Drop,
    /// Give their share to the largest size that fits
    Clamp,
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
            return show(&resume(path, &self.limits()?, &how)?, self.json, session);
        }
        let spec = self.spec()?;
        if self.dry_run {
            return print_plan(&age::Age::plan(&spec, spec.seed)?, self.json);
        }
        if self.plan_only {
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
        show(&self.begin(&spec, &how)?, self.json, session)
    }
}

fn numbers_of(plan: &Value) -> String {
    let single = |(_, value): &(&String, &Value)| value.is_number() || value.is_string() || value.is_boolean();
    let lines = plan.as_object().into_iter().flatten().filter(single);
    lines.map(|(name, value)| format!("{:<26} {value}\n", name.replace('_', " "))).collect()
}

impl Age {
    /// Ages as the options say; the record is kept in `out`, or where it belongs. Prints nothing.
    pub fn conducted_into(self, out: Option<PathBuf>, session: &Session) -> Result<Outcome, Failure> {
        let interrupt = session.interrupt()?;
        let age = Self { out, ..self };
        age.begin(&age.spec()?, &age.conduct(session.progress(), &interrupt, None))
    }

    fn begin(&self, spec: &AgeSpec, how: &Conduct<'_>) -> Result<Outcome, Failure> {
        how.progress.say(&format!("seed {}", spec.seed.0));
        spec.summary()?;
        if let (true, Some(Ok(TargetSpec::Image { path, .. }))) =
            (spec.record_order, spec.target.as_deref().map(str::parse))
        {
            write_order::check(&path)?;
        }
        crate::output::create_target(self.create, &spec.target, how.out.as_deref())?;
        conduct::<age::Age>(spec, spec.seed, how)
    }

    fn conduct<'a>(
        &self,
        progress: &'a dyn Progress,
        interrupt: &'a Interrupt,
        peers: Option<&'a dyn Peers>,
    ) -> Conduct<'a> {
        Conduct {
            out: self.resume.clone().or_else(|| self.out.clone()),
            runs: runs_directory(),
            again: self.again,
            erase: self.erase.clone(),
            scale: None,
            only: None,
            progress,
            interrupt,
            peers,
        }
    }

    /// Rank 0 does as any process would, with the others; these print nothing.
    fn run_by_ranks(&self, session: &Session) -> Result<Exit, Failure> {
        let profile = Profile::load(&self.profile).ok().map(|profile| profile_hash(&profile));
        let Some((cluster, interrupt)) = ranks::join(&format!("profile {}", profile.unwrap_or_default()))? else {
            return Ok(ExitCode::Done.into());
        };
        let how = self.conduct(session.progress(), &interrupt, Some(&cluster));
        let led = run_by_ranks(&cluster, || match &self.resume {
            Some(path) => resume(path, &self.limits()?, &how),
            None => {
                check_target(self.target.as_deref())?;
                let spec = self.spec()?;
                self.begin(&spec, &how)
            }
        });
        match led {
            Ok(Some(outcome)) => show(&outcome, self.json, session),
            Err(failure) if cluster.is_first() => Err(failure),
            _ => Ok(ExitCode::Done.into()),
        }
    }

    fn spec(&self) -> Result<AgeSpec, Failure> {
        let profile = Profile::load(&self.profile)?;
        let limits = self.limits()?;
        let is_directory = matches!(self.target.as_deref().map(str::parse), Some(Ok(TargetSpec::Directory(_))));
        let file_system = match &self.fs {
            Some(_) if is_directory => {
                return Err(Failure::usage(
                    "--fs is for images and devices; a directory is aged on the file system it lies on",
                ));
            }
            Some(name) => Some(name.parse::<FileSystem>()?),
            None if is_directory || self.target.is_none() => None,
            None => Some(FileSystem::Ext4),
        };
        let spec = AgeSpec {
            target: self.target.clone(),
            profile: self.profile.clone(),
            profile_hash: profile_hash(&profile),
            size: self.size.as_deref().map(str::parse::<Bytes>).transpose()?,
            fullness: self.fullness,
            seed: Seed(self.seed),
            churn: match self.churn {
                ChurnWord::Profile => Churn::Profile,
                ChurnWord::Bins => Churn::Bins,
            },
            spread_sizes: self.spread_sizes,
            truncate: match self.truncate_sizes {
                TruncateWord::Refuse => Truncate::Refuse,
                TruncateWord::Drop => Truncate::Drop,
                TruncateWord::Clamp => Truncate::Clamp,
            },
            compression: None,
            limits,
            file_system,
            mkfs_options: self.mkfs_options.clone(),
            mount_options: self.mount_options.clone(),
            in_memory: self.in_memory,
            data: self.data.clone(),
            record_order: self.record_order,
            fsync_every: self.fsync_every,
            clock: self.clock(),
            pace: self.pace,
            threads: usize::from(self.threads),
            writers: self.writers,
            shard: self.shard.as_deref().map(parse_shard).transpose()?,
            parts: self.parts,
        };
        if self.compress { spec.compressed() } else { Ok(spec) }
    }

    /// Whoever names a time scale gets that one alone.
    fn clock(&self) -> Clock {
        let other = self.sync_every.is_some() || self.pace.is_some();
        let unnamed = if other { CommitShare::NONE } else { CommitShare::DEFAULT };
        Clock { commit_share: self.commit_share.unwrap_or(unnamed), sync_every: self.sync_every.unwrap_or(0) }
    }

    fn limits(&self) -> Result<senesce_exp_aging::age::Limits, Failure> {
        Ok(senesce_exp_aging::age::Limits {
            overwrites: self.overwrites,
            confidence: self.until.as_deref().map(parse_until).transpose()?,
            max_overwrites: self.max_overwrites,
            max_operations: self.max_operations,
            max_seconds: self.max_time.as_deref().map(parse_duration).transpose()?.map(|time| time.as_secs_f64()),
        })
    }
}
