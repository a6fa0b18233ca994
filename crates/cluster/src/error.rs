//! Errors between ranks.

use crate::state::Ending;
use senesce_core::{Classify, ExitCode};

/// Why ranks could not start, or did not end together.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "--mpi: this senesce was built without MPI\nhint: install openmpi-bin, libopenmpi-dev and libclang-dev and build it with \
         `make mpi` (or cargo build --release -p senesce-cli --features mpi)"
    )]
    WithoutMpi,
    #[error(
        "--mpi: this process was not started by mpirun or a batch system\nhint: start it as `mpirun -n 4 senesce ... --mpi` \
         (Slurm: `srun --mpi=pmix -n 4 senesce ... --mpi`)"
    )]
    NotStarted,
    #[error(
        "--mpi: the batch system started {started} tasks, but MPI sees a single rank\nhint: start them with an interface that \
         this MPI supports (Slurm: `srun --mpi=pmix` or `--mpi=pmi2`, see `srun --mpi=list`), or with mpirun"
    )]
    Apart { started: u32 },
    #[error("--mpi: {0}")]
    Mpi(String),
    #[error("the ranks differ: {difference}\nhint: start all of them with the same program and the same arguments")]
    Differ { difference: String, rank: u32 },
    #[error("{0}")]
    Ended(Ending),
}

impl ClusterError {
    /// Returns whether rank 0 reports the same, so that this rank need not.
    pub fn is_reported_by_rank_0(&self) -> bool {
        matches!(self, Self::Differ { rank, .. } if *rank > 0)
    }
}

impl Classify for ClusterError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::WithoutMpi => ExitCode::Missing,
            Self::NotStarted | Self::Apart { .. } | Self::Differ { .. } => ExitCode::Usage,
            Self::Mpi(_) => ExitCode::RunFailed,
            Self::Ended(ending) => ending.exit_code(),
        }
    }
}
