//! Ranks in one process, to test without mpirun.

use crate::transport::Transport;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

type Parcel = (u32, Vec<u8>);

#[derive(Debug)]
pub struct Simulated {
    rank: u32,
    outgoing: Vec<Sender<Parcel>>,
    incoming: Receiver<Parcel>,
    dead: Arc<AtomicBool>,
    aborted: Arc<AtomicI32>,
}

impl Simulated {
    /// Returns a flag that silences this rank, as after the loss of its machine.
    pub fn dead(&self) -> Arc<AtomicBool> {
        self.dead.clone()
    }

    /// Returns the code with which a rank aborted all ranks; -1 if none did.
    pub fn aborted(&self) -> Arc<AtomicI32> {
        self.aborted.clone()
    }
}

/// Makes `size` connected ranks.
pub fn simulated(size: u32) -> Vec<Simulated> {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..size).map(|_| unbounded()).unzip();
    let aborted = Arc::new(AtomicI32::new(-1));
    let rank = |(rank, incoming): (usize, Receiver<Parcel>)| Simulated {
        rank: rank as u32,
        outgoing: senders.clone(),
        incoming,
        dead: Arc::new(AtomicBool::new(false)),
        aborted: aborted.clone(),
    };
    receivers.into_iter().enumerate().map(rank).collect()
}

impl Transport for Simulated {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.outgoing.len() as u32
    }

    fn send(&mut self, to: u32, bytes: Vec<u8>) {
        if !self.dead.load(Ordering::Relaxed) {
            // A rank that has left receives nothing.
            let _ = self.outgoing[to as usize].send((self.rank, bytes));
        }
    }

    fn poll(&mut self) -> Option<Parcel> {
        if self.dead.load(Ordering::Relaxed) {
            return None;
        }
        self.incoming.try_recv().ok()
    }

    fn finish(self: Box<Self>) {}

    fn abort(&mut self, code: i32) {
        if !self.dead.load(Ordering::Relaxed) {
            self.aborted.store(code, Ordering::SeqCst);
        }
    }
}
