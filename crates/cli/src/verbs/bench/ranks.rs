//! `senesce bench --mpi`: the part of each rank.

use super::Bench;
use crate::Exit;
use crate::display::print_plan;
use crate::ranks;
use crate::session::{Session, runs_directory};
use senesce_cluster::Cluster;
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure, Progress, Seed, Silent};
use senesce_runner::{Run, default_path};
use senesce_runs::bench::ranks as by_ranks;
use senesce_runs::bench::{self, Ranks, Spec};

impl Bench {
    /// Runs the workload on all ranks. Rank 0 prints and records; the others print nothing.
    pub(super) fn run_by_ranks(&self, session: &Session) -> Result<Exit, Failure> {
        let file = self.workload.as_deref().and_then(|name| bench::workload_text(name).ok().flatten());
        let digest = file.map_or(0, |text| Seed(0).child(&text).0);
        let Some((cluster, interrupt)) = ranks::join(&format!("workload file {digest:016x}"))? else {
            return Ok(ExitCode::Done.into());
        };
        let done = self.run_as_rank(&cluster, &interrupt, session);
        if cluster.is_first() { done } else { Ok(ExitCode::Done.into()) }
    }

    fn run_as_rank(&self, cluster: &Cluster, interrupt: &Interrupt, session: &Session) -> Result<Exit, Failure> {
        let (target, name) = self.names()?;
        let nothing_to_print = Ok(ExitCode::Done.into());
        if self.check {
            by_ranks::accept(&self.subject(&name)?, self.shared)?;
            let target = target.as_deref().filter(|_| self.shared);
            return if cluster.is_first() { self.check(target, &name) } else { nothing_to_print };
        }
        let target = target.ok_or_else(|| Failure::usage("no target given\nhint: senesce bench DIR WORKLOAD --mpi"))?;
        let ranks = Some(Ranks { count: cluster.size(), shared: self.shared });
        let (spec, seed) = (Spec { ranks, ..self.spec(&target, name)? }, self.seed);
        let plan = bench::Bench::plan(&spec, seed)?;
        if self.dry_run {
            return if cluster.is_first() { print_plan(&plan, self.json) } else { nothing_to_print };
        }
        if cluster.is_first() {
            crate::output::create_target(self.create, Some(&spec.target), self.out.as_deref())?;
        }
        let out = self.out.clone().unwrap_or_else(|| default_path(&runs_directory(), &plan, true));
        let progress: &dyn Progress = if cluster.is_first() { session.progress() } else { &Silent };
        match by_ranks::run(&spec, seed, &self.conduct(progress, interrupt), &out, cluster)? {
            Some(outcome) => self.show(&outcome, session),
            None => nothing_to_print,
        }
    }
}
