//! Several processes, on one machine or many, that do one run together: the ranks of an MPI program.
//!
//! MPI only carries messages here ([`Transport`]). Everything else - values from all to one and from one to all, the
//! window of operations, stops, the end when a rank dies - is done by the [`Cluster`] of each rank, whose coordinator (a thread)
//! answers even while the rank hangs in a system call. Collective calls of MPI are not used: they wait for ever when a rank
//! has died, and they wait busily.

mod cluster;
mod coordinator;
mod error;
mod hello;
mod message;
#[cfg(feature = "mpi")]
mod mpi;
pub mod scaling;
mod simulated;
mod state;
mod transport;

pub use cluster::{Cluster, LastWords, epoch_seconds};
pub use error::ClusterError;
pub use hello::{Hello, Member, Timing};
pub use simulated::{Simulated, simulated};
pub use state::{Ending, Halt};
pub use transport::Transport;

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
