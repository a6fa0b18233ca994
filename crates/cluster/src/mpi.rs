//! Messages by MPI, from one thread.

use crate::error::ClusterError;
use crate::transport::Transport;
use mpi::environment::Universe;
use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{AsRaw, Communicator, Equivalence, Source};
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Longer messages are split, so that every part fits the eager protocol of common MPI libraries.
const PART: usize = 3000;

/// Time limit for the last messages.
const FINISH_LIMIT: Duration = Duration::from_secs(2);

pub struct Mpi {
    universe: Option<Universe>,
    world: SimpleCommunicator,
    rank: u32,
    size: u32,
    /// Pending sends; their bytes must not move.
    pending: Vec<Pending>,
    parts: Vec<Vec<u8>>,
}

struct Pending {
    request: ffi::MPI_Request,
    _bytes: Box<[u8]>,
}

impl Mpi {
    /// Initialises MPI; only the calling thread may use it.
    pub fn begin() -> Result<Self, ClusterError> {
        if !LAUNCHERS.iter().any(|name| std::env::var_os(name).is_some()) {
            return Err(ClusterError::NotStarted);
        }
        let begun = mpi::initialize_with_threading(mpi::Threading::Funneled);
        let (universe, _) = begun.ok_or_else(|| ClusterError::Mpi("MPI is already initialised".into()))?;
        let world = universe.world();
        // SAFETY: both are handles of an initialised library. Otherwise a lost connection would end the process before it could
        // report the reason.
        unsafe { ffi::MPI_Comm_set_errhandler(world.as_raw(), ffi::RSMPI_ERRORS_RETURN) };
        let (rank, size) = (world.rank() as u32, world.size() as u32);
        let started = std::env::var("SLURM_NTASKS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        let by_slurm = std::env::var_os("SLURM_PROCID").is_some() && std::env::var_os("OMPI_COMM_WORLD_SIZE").is_none();
        if size == 1 && started > 1 && by_slurm {
            return Err(ClusterError::Apart { started });
        }
        Ok(Self {
            universe: Some(universe),
            world,
            rank,
            size,
            pending: Vec::new(),
            parts: vec![Vec::new(); size as usize],
        })
    }

    fn collect(&mut self) {
        self.pending.retain_mut(|pending| {
            let mut done: c_int = 0;
            // SAFETY: the request came from MPI_Isend and its bytes are stored with it.
            unsafe { ffi::MPI_Test(&mut pending.request, &mut done, ffi::RSMPI_STATUS_IGNORE) };
            done == 0
        });
    }

    fn send_part(&mut self, to: u32, last: bool, part: &[u8]) {
        let bytes: Box<[u8]> = std::iter::once(u8::from(last)).chain(part.iter().copied()).collect();
        // SAFETY: a request is plain data that MPI_Isend fills.
        let mut request: ffi::MPI_Request = unsafe { std::mem::zeroed() };
        // SAFETY: the bytes live in `pending` until MPI_Test reports them as sent.
        let result = unsafe {
            ffi::MPI_Isend(
                bytes.as_ptr().cast(),
                bytes.len() as c_int,
                ffi::RSMPI_UINT8_T,
                to as c_int,
                0,
                self.world.as_raw(),
                &mut request,
            )
        };
        // A rank with a lost connection is detected by its silence.
        if result == ffi::MPI_SUCCESS as c_int {
            self.pending.push(Pending { request, _bytes: bytes });
        }
    }
}

/// Environment variables that mpirun of Open MPI and MPICH, PMIx and Slurm set for their processes.
const LAUNCHERS: [&str; 5] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_ID", "SLURM_PROCID"];

impl Transport for Mpi {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn send(&mut self, to: u32, bytes: Vec<u8>) {
        self.collect();
        let parts = bytes.len().div_ceil(PART).max(1);
        for number in 0..parts {
            let part = &bytes[number * PART..bytes.len().min((number + 1) * PART)];
            self.send_part(to, number + 1 == parts, part);
        }
    }

    fn poll(&mut self) -> Option<(u32, Vec<u8>)> {
        self.collect();
        loop {
            let (message, status) = self.world.any_process().immediate_matched_probe()?;
            let from = status.source_rank() as usize;
            let mut bytes = vec![0u8; status.count(u8::equivalent_datatype()) as usize];
            message.matched_receive_into(&mut bytes[..]);
            let (last, part) = bytes.split_first()?;
            self.parts[from].extend(part);
            if *last != 0 {
                return Some((from as u32, std::mem::take(&mut self.parts[from])));
            }
        }
    }

    fn finish(mut self: Box<Self>) {
        let begun = Instant::now();
        while !self.pending.is_empty() && begun.elapsed() < FINISH_LIMIT {
            self.collect();
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(self.universe.take());
    }

    fn abort(&mut self, code: i32) {
        self.world.abort(code);
    }
}

impl Drop for Mpi {
    /// Forgets MPI instead of finalizing it. Without [`Transport::finish`] the others may be gone, and MPI_Finalize
    /// would wait for them.
    fn drop(&mut self) {
        std::mem::forget(self.universe.take());
    }
}
