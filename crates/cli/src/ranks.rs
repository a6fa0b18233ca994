//! `--mpi`: joins the ranks that were started together.

use senesce_cluster::{Cluster, HAS_MPI, Hello, join_mpi};
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure};

/// Version of the program, the commit of the build with its date, and whether it supports `--mpi`.
pub const VERSION: &str = if HAS_MPI {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("SENESCE_BUILT"), " with MPI)")
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("SENESCE_BUILT"), " without MPI)")
};

/// Joins the ranks, which must have the same arguments and the same `facts` (contents of files in the arguments). `None`: they
/// differ, and rank 0 reports it.
pub(crate) fn join(facts: &str) -> Result<Option<(Cluster, Interrupt)>, Failure> {
    let signals = Interrupt::on_signals_of_a_launcher();
    let interrupt = signals
        .map_err(|error| Failure::new(ExitCode::RunFailed, format!("cannot install signal handlers: {error}")))?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let hello = Hello::of_this_process(VERSION, format!("{} ({facts})", words.join(" ")));
    match join_mpi(hello, &interrupt) {
        Ok(cluster) => Ok(Some((cluster, interrupt))),
        Err(error) if error.is_reported_by_rank_0() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
