//! Runs one job in several processes, on one machine or many: the ranks of an MPI program.
//!
//! MPI only carries messages ([`transport::Transport`]). The [`Cluster`] of each rank gathers and broadcasts values, limits the window of
//! operations, and ends the run after a stop or the death of a rank. Its coordinator, a thread, answers even while the rank hangs
//! in a system call. MPI collectives are not used, because they wait forever after the death of
//! a rank, and they busy-wait.

mod cluster;
mod coordinator;
mod error;
mod hello;
mod message;
#[cfg(feature = "mpi")]
mod mpi;
mod simulated;
mod state;
mod transport;

pub use cluster::{Cluster, epoch_seconds};
pub use error::ClusterError;
pub use hello::{Hello, Member, Timing};
pub use simulated::{Simulated, simulated};
pub use state::Halt;

pub const HAS_MPI: bool = cfg!(feature = "mpi");

/// Joins the ranks that mpirun or the batch system started together with this process.
pub fn join_mpi(hello: Hello, interrupt: &senesce_core::interrupt::Interrupt) -> Result<Cluster, ClusterError> {
    #[cfg(feature = "mpi")]
    {
        Cluster::join(mpi::Mpi::begin, hello, Timing::default(), interrupt.clone())
    }
    #[cfg(not(feature = "mpi"))]
    {
        let _ = (hello, interrupt);
        Err(ClusterError::WithoutMpi)
    }
}
