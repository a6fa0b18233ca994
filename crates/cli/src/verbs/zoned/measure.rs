//! `senesce zoned measure DEVICE [JOB.toml]`.

use crate::Exit;
use crate::display::print_plan;
use crate::display::{Rerun, show_whole};
use crate::session::Session;
use clap::Args;
use senesce_core::units::parse_duration;
use senesce_core::{Failure, Seed};
use senesce_exp_aging::age::words;
use senesce_exp_zns::job::{Spec, ZnsJob};
use senesce_runner::{Conduct, Run, conduct};
use senesce_zoned::job::{Activity, ActorSpec, Job, Rate, Span, Zones};
use senesce_zoned::run::DeviceName;
use senesce_zoned::sim::HostPath;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Measure {
    /// sim:MODEL, null, /dev/ng0n1, /dev/nvme0n1, or auto (the only zoned drive)
    device: String,
    /// Job file; flags add to it
    job: Option<PathBuf>,
    /// Activity, such as write, append, randread, reset
    #[arg(long, help_heading = "Workload")]
    op: Option<String>,
    /// Bytes per request [default: 4k]
    #[arg(long, value_name = "SIZE", help_heading = "Workload")]
    bs: Option<String>,
    /// Commands in flight per zone [default: 1]
    #[arg(long, value_name = "N", help_heading = "Workload")]
    qd: Option<u32>,
    /// Zones, such as 8 or 0..8 [default: 1]
    #[arg(long, help_heading = "Workload")]
    zones: Option<String>,
    /// Limit of each worker, such as 100MiB/s
    #[arg(long, help_heading = "Workload")]
    rate: Option<String>,
    /// Fill level of zones before reset and finish, 0 to 1
    #[arg(long, value_name = "SHARE", help_heading = "Workload")]
    occupancy: Option<f64>,
    /// Concurrent actor, such as op=append; repeatable
    #[arg(long, value_name = "ACTOR", help_heading = "Workload")]
    with: Vec<String>,
    /// Bytes per logical block: 512 or 4096
    #[arg(long, value_name = "BYTES", help_heading = "Target")]
    lbaf: Option<u32>,
    /// direct, passthrough, none or mq-deadline
    #[arg(long, value_parser = ["direct", "passthrough", "none", "mq-deadline"], hide_possible_values = true,
          help_heading = "Target")]
    path: Option<String>,
    /// Confirm data loss: path or serial number
    #[arg(long, value_name = "IDENTITY")]
    erase: Option<String>,
    /// Time to measure [default: 10s, or until --count]
    #[arg(long, value_name = "TIME", help_heading = "Measurement")]
    time: Option<String>,
    /// Commands per worker
    #[arg(long, value_name = "N", help_heading = "Measurement")]
    count: Option<u64>,
    /// Time before counting starts
    #[arg(long, value_name = "TIME")]
    warm_up: Option<String>,
    /// Root seed
    #[arg(long, value_name = "N", default_value = words::SEED, value_parser = words::seed())]
    seed: Seed,
    /// Run directory [default: senesce-runs/zoned-measure-HASH-N]
    #[arg(long, short, value_name = "RUNDIR")]
    out: Option<PathBuf>,
    /// Print the plan only
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Measure {
    pub(crate) fn run(self, session: &Session) -> Result<Exit, Failure> {
        self.device.parse::<DeviceName>()?;
        let spec = Spec { device: self.device.clone(), job: self.to_job()? };
        let seed = self.seed;
        if self.dry_run {
            return print_plan(&ZnsJob::plan(&spec, seed)?, self.json);
        }
        let interrupt = session.interrupt()?;
        let how =
            Conduct { again: self.out.is_none(), out: self.out, erase: self.erase, ..session.conduct(&interrupt) };
        show_whole(&conduct::<ZnsJob>(&spec, seed, &how)?, Rerun::OtherDirectory, self.json, session)
    }

    fn to_job(&self) -> Result<Job, Failure> {
        let mut job = match &self.job {
            None => Job::of(Vec::new()),
            Some(path) => {
                let text = senesce_core::input::text(path).map_err(|error| {
                    let message = senesce_core::failure::errno_message(&error);
                    Failure::usage(format!("cannot read job {}: {message}", path.display()))
                })?;
                Job::parse(&text)?
            }
        };
        job.lbaf = self.lbaf.or(job.lbaf);
        if let Some(path) = self.path.as_deref().and_then(HostPath::from_name) {
            job.path = path;
        }
        if let Some(time) = &self.warm_up {
            job.ramp = Span(parse_duration(time)?);
        }
        if let Some(op) = &self.op {
            job.actors.push(self.actor(op.parse()?)?);
        } else if self.has_actor_flags() {
            let message = "--bs, --qd, --zones, --rate, --count, --time and --occupancy need --op";
            return Err(Failure::usage(message));
        }
        let time = match job.actors.first() {
            Some(first) => first.time,
            None => self.time()?,
        };
        for actor in &self.with {
            let mut actor = ActorSpec::parse_words(actor)?;
            if actor.time.is_none() && actor.count.is_none() {
                actor.time = time.or(Some(Span::seconds(10.0)));
            }
            job.actors.push(actor);
        }
        Ok(job)
    }

    fn has_actor_flags(&self) -> bool {
        let texts = [&self.bs, &self.zones, &self.rate].iter().any(|flag| flag.is_some());
        texts
            || self.qd.is_some()
            || self.count.is_some()
            || self.occupancy.is_some()
            || (self.time.is_some() && self.with.is_empty())
    }

    fn time(&self) -> Result<Option<Span>, Failure> {
        let time = self.time.as_deref().map(parse_duration).transpose()?;
        match time {
            Some(none) if none.is_zero() => Err(Failure::usage("--time must be longer than 0s")),
            time => Ok(time.map(Span)),
        }
    }

    fn actor(&self, op: Activity) -> Result<ActorSpec, Failure> {
        let mut actor = ActorSpec::new(op);
        if let Some(bs) = &self.bs {
            actor.bs = bs.parse()?;
        }
        if let Some(rate) = &self.rate {
            actor.rate = Some(rate.parse::<Rate>()?);
        }
        actor.qd = self.qd.unwrap_or(1);
        if self.count == Some(0) {
            return Err(Failure::usage("--count must be at least 1"));
        }
        actor.occupancy = self.occupancy;
        actor.count = self.count;
        actor.zones = match &self.zones {
            Some(zones) => zones.parse()?,
            // Zone commands that cycle through several zones wear each of them less.
            None if op.manages() => Zones::Count(16),
            None => Zones::Count(1),
        };
        actor.jobs = (!op.manages()).then(|| actor.zones.count());
        let once = op.manages() && self.occupancy.is_none() && op != Activity::OpenClose;
        actor.time = match self.time()? {
            Some(time) => Some(time),
            None if self.count.is_some() || once => None,
            None => Some(Span::seconds(10.0)),
        };
        Ok(actor)
    }
}
