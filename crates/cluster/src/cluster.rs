//! A rank from its worker's view.

use crate::coordinator::{Command, Coordinator};
use crate::error::ClusterError;
use crate::hello::{Hello, Member, Timing, difference};
use crate::message::{Message, MessageKind};
use crate::state::{Ending, Halt, State};
use crate::transport::Transport;
use crossbeam_channel::{Sender, bounded, unbounded};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Failure, Peers};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Called by the coordinator of rank 0 before it ends a run, to record the reason.
pub(crate) type LastWords = Box<dyn FnMut(&Ending) + Send>;

/// One of several ranks. All of them call [`Self::gather`] and [`Self::broadcast`] in the same order.
pub struct Cluster {
    rank: u32,
    size: u32,
    host: String,
    state: Arc<State>,
    commands: Sender<Command>,
    coordinator: Option<JoinHandle<()>>,
    step: AtomicU64,
    waited_ns: AtomicU64,
}

impl Peers for Cluster {
    fn have_ended(&self) -> bool {
        self.ending().is_some()
    }
}

impl Cluster {
    /// Starts the transport in its own thread and meets the other ranks.
    pub fn join<T: Transport + 'static>(
        begin: impl FnOnce() -> Result<T, ClusterError> + Send + 'static,
        hello: Hello,
        timing: Timing,
        interrupt: Interrupt,
    ) -> Result<Self, ClusterError> {
        let state = Arc::new(State::new());
        let (commands, orders) = unbounded();
        let (begun, answer) = bounded(1);
        let shared = state.clone();
        let body = move || match begin() {
            Ok(transport) => {
                let _ = begun.send(Ok((transport.rank(), transport.size())));
                Coordinator::new(transport, shared, orders, timing, interrupt).run();
            }
            Err(error) => {
                let _ = begun.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name("coordinator".into()).spawn(body);
        let thread = thread.map_err(|error| ClusterError::Mpi(format!("start a thread: {error}")))?;
        let gone = || ClusterError::Mpi("the MPI thread ended during startup".into());
        let (rank, size) = answer.recv().map_err(|_| gone())??;
        let cluster = Self {
            rank,
            size,
            host: hello.host.clone(),
            state,
            commands,
            coordinator: Some(thread),
            step: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
        };
        cluster.meet(hello)?;
        Ok(cluster)
    }

    /// Checks that all ranks run the same program with the same arguments.
    fn meet(&self, hello: Hello) -> Result<(), ClusterError> {
        let all: Option<Vec<Hello>> = self.gather(&hello)?;
        let verdict = all.map(|all| match difference(&all) {
            Some(difference) => Err(difference),
            None => Ok((0..).zip(all).map(|(rank, hello)| hello.member(rank)).collect::<Vec<Member>>()),
        });
        let verdict = self.broadcast(verdict.as_ref())?;
        let members = match verdict {
            Ok(members) => members,
            Err(difference) => {
                self.leave();
                return Err(ClusterError::Differ { difference, rank: self.rank });
            }
        };
        let _ = self.commands.send(Command::Members(members.clone()));
        self.state.inner().members = members;
        Ok(())
    }

    pub fn rank(&self) -> u32 {
        self.rank
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns whether this is rank 0, which keeps the record.
    pub fn is_first(&self) -> bool {
        self.rank == 0
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn members(&self) -> Vec<Member> {
        self.state.inner().members.clone()
    }

    /// Sets a callback that rank 0 calls if a rank ends the run.
    pub fn on_end(&self, words: LastWords) {
        let _ = self.commands.send(Command::OnEnd(words));
    }

    /// Collects one value per rank, in order, on rank 0; `None` on the others.
    pub fn gather<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<Option<Vec<T>>, ClusterError> {
        let bodies = self.gather_bytes(serde_json::to_vec(value).unwrap_or_default())?;
        bodies.map(|bodies| bodies.iter().map(|body| decode(body)).collect()).transpose()
    }

    /// Collects bytes of every rank, in order, on rank 0; `None` on the others.
    pub fn gather_bytes(&self, bytes: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>, ClusterError> {
        let step = self.next_step();
        if self.rank != 0 {
            self.send(0, step, bytes);
            return Ok(None);
        }
        let mut bodies = vec![bytes];
        for from in 1..self.size {
            bodies.push(self.receive(from, step)?);
        }
        Ok(Some(bodies))
    }

    /// Sends a value of rank 0 to all; the others pass `None`.
    pub fn broadcast<T: Serialize + DeserializeOwned>(&self, value: Option<&T>) -> Result<T, ClusterError> {
        let step = self.next_step();
        if self.rank != 0 {
            return decode(&self.receive(0, step)?);
        }
        let body = serde_json::to_vec(&value).unwrap_or_default();
        for to in 1..self.size {
            self.send(to, step, body.clone());
        }
        decode(&body)
    }

    /// Returns once all ranks have called it.
    pub fn barrier(&self) -> Result<(), ClusterError> {
        self.gather(&())?;
        self.broadcast(Some(&()).filter(|_| self.is_first()))
    }

    /// Sends a message to another rank, independent of collective steps; see [`Self::receive_from`].
    pub(crate) fn send_to(&self, to: u32, bytes: Vec<u8>) {
        self.send(to, BESIDE, bytes);
    }

    /// Receives the next message that `from` sent with [`Self::send_to`].
    pub(crate) fn receive_from(&self, from: u32) -> Result<Vec<u8>, ClusterError> {
        self.receive(from, BESIDE)
    }

    fn next_step(&self) -> u64 {
        self.step.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn send(&self, to: u32, step: u64, body: Vec<u8>) {
        let _ = self.commands.send(Command::Send(to, Message::with(MessageKind::Value, step, body)));
    }

    fn receive(&self, from: u32, step: u64) -> Result<Vec<u8>, ClusterError> {
        self.state.wait_for(|inner| {
            let found = inner.inbox.iter().position(|arrived| arrived.from == from && arrived.step == step);
            if let Some(arrived) = found.and_then(|place| inner.inbox.remove(place)) {
                return Some(Ok(arrived.body));
            }
            inner.ending.clone().map(|ending| Err(ClusterError::Ended(ending)))
        })
    }

    /// Starts operations at `from` with a window of `window` operations over all ranks.
    pub fn begin_operations(&self, from: u64, window: u64) {
        self.state.reached.store(from, Ordering::Release);
        self.state.window.store(window.max(1), Ordering::Release);
        let _ = self.commands.send(Command::Look);
    }

    /// Waits until the operations below `end` may start.
    pub fn permit(&self, end: u64) -> Result<(), Halt> {
        if let Some(Ok(())) = self.state.permits(end) {
            return Ok(());
        }
        let begun = Instant::now();
        let _ = self.commands.send(Command::Look);
        let answer = self.state.wait_for(|inner| {
            if inner.ending.is_some() {
                return Some(Err(Halt::Ended));
            }
            let answer = self.state.permits(end)?;
            Some(answer.map_err(|halt| inner.halt.unwrap_or(halt)))
        });
        self.waited_ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        answer
    }

    /// Reports that every operation of this rank below `position` is done.
    pub fn reached(&self, position: u64) {
        if self.state.reached.fetch_max(position, Ordering::AcqRel) < position {
            let _ = self.commands.send(Command::Look);
        }
    }

    /// Returns whether every operation of every rank below `position` is done, or the run has ended.
    pub fn all_reached(&self, position: u64) -> bool {
        self.reached(position);
        self.floor().is_some_and(|floor| floor >= position) || self.ending().is_some()
    }

    /// Returns the operation below which all ranks are done; `None` until all have started.
    pub fn floor(&self) -> Option<u64> {
        Some(self.state.floor.load(Ordering::Acquire)).filter(|floor| *floor != crate::state::NONE)
    }

    pub fn waited_seconds(&self) -> f64 {
        self.waited_ns.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// Asks all ranks to start no further operations.
    pub fn want_stop(&self) {
        let _ = self.commands.send(Command::WantStop(Halt::Wanted));
    }

    pub fn ending(&self) -> Option<Ending> {
        self.state.inner().ending.clone()
    }

    /// Returns the cluster, if the run has peers.
    pub fn among(peers: Option<&dyn Peers>) -> Option<&Self> {
        let peers: &dyn Any = peers?;
        peers.downcast_ref()
    }

    /// Ends the run on all ranks because it failed on this one. An earlier reason is kept.
    pub fn fail(&self, failure: &Failure) {
        let ending = Ending {
            rank: self.rank,
            host: self.host.clone(),
            reason: failure.to_string(),
            code: failure.exit_code() as u8,
            died: false,
        };
        let _ = self.commands.send(Command::End(ending));
    }

    /// Leaves the other ranks when all are done; after the death of a rank, aborts the others. Call it last.
    pub(crate) fn leave(&self) {
        let _ = self.commands.send(Command::Leave);
        while self.coordinator.as_ref().is_some_and(|coordinator| !coordinator.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Measures the clock of this rank minus that of rank 0, in seconds, for all ranks (on rank 0; otherwise empty).
    /// Uses the shortest of several round trips (Cristian 1989); the second number, half of it, bounds the error.
    pub fn clock_offsets(&self) -> Result<Vec<(f64, f64)>, ClusterError> {
        const TRIPS: usize = 32;
        let hurry = |hurry| self.state.timing.store(hurry, Ordering::Relaxed);
        if self.rank != 0 {
            for _ in 0..TRIPS {
                self.receive_from(0)?;
                hurry(true);
                self.send_to(0, epoch_seconds().to_le_bytes().to_vec());
            }
            hurry(false);
            return Ok(Vec::new());
        }
        hurry(true);
        let mut offsets = vec![(0.0, 0.0)];
        for rank in 1..self.size {
            let mut best = (0.0, f64::INFINITY);
            for _ in 0..TRIPS {
                let (sent, timer) = (epoch_seconds(), Instant::now());
                self.send_to(rank, Vec::new());
                let body = self.receive_from(rank)?;
                let half = timer.elapsed().as_secs_f64() / 2.0;
                let theirs = body.try_into().map(f64::from_le_bytes).unwrap_or(f64::NAN);
                if half < best.1 {
                    best = (theirs - (sent + half), half);
                }
            }
            offsets.push(best);
        }
        hurry(false);
        Ok(offsets)
    }
}

const BESIDE: u64 = 0;

/// Returns the seconds since 1970 by this machine's clock.
pub fn epoch_seconds() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClusterError> {
    serde_json::from_slice(body).map_err(|error| ClusterError::Mpi(format!("a message cannot be read: {error}")))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.leave();
    }
}
