//! The thread of a rank that communicates with the others, independent of its worker.

use crate::cluster::LastWords;
use crate::hello::{Member, Timing};
use crate::message::{Message, MessageKind};
use crate::state::{Ending, Halt, NONE, ReceivedValue, State};
use crate::transport::Transport;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use senesce_core::interrupt::Interrupt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(crate) enum Command {
    Send(u32, Message),
    Members(Vec<Member>),
    OnEnd(LastWords),
    WantStop(Halt),
    End(Ending),
    Leave,
    Look,
}

/// Interval of the checks of rank 0 for processes on its own machine.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// A rank that does not answer a stop in this time, and whose process is not visible, counts as dead: if one rank is killed,
/// mpirun soon kills the others.
const ROLL_CALL: Duration = Duration::from_millis(500);

pub(crate) struct Coordinator<T: Transport> {
    transport: T,
    state: Arc<State>,
    commands: Receiver<Command>,
    timing: Timing,
    interrupt: Interrupt,
    members: Vec<Member>,
    /// Time of the last message of each rank; on other ranks than 0, only the first counts.
    last_message: Vec<Instant>,
    spoke: Instant,
    /// Last reported value: on rank 0 the floor, otherwise the position.
    stated: u64,
    /// On rank 0: position of each rank.
    positions: Vec<u64>,
    stop: Option<Stop>,
    asked_to_stop: bool,
    /// Processes on this machine that rank 0 can see.
    visible: Vec<(u32, u32)>,
    looked: Instant,
    last_words: Option<LastWords>,
    ended: Option<Instant>,
    leaving: bool,
    gone: Vec<bool>,
    dismissed: bool,
}

struct Stop {
    since: Instant,
    halt: Halt,
    present: Vec<bool>,
}

impl<T: Transport> Coordinator<T> {
    pub(crate) fn new(
        transport: T,
        state: Arc<State>,
        commands: Receiver<Command>,
        timing: Timing,
        interrupt: Interrupt,
    ) -> Self {
        let (size, now) = (transport.size() as usize, Instant::now());
        Self {
            transport,
            state,
            commands,
            timing,
            interrupt,
            members: Vec::new(),
            last_message: vec![now; size],
            spoke: now,
            stated: NONE,
            positions: vec![NONE; size],
            stop: None,
            asked_to_stop: false,
            visible: Vec::new(),
            looked: now,
            last_words: None,
            ended: None,
            leaving: false,
            gone: vec![false; size],
            dismissed: false,
        }
    }

    pub(crate) fn run(mut self) {
        loop {
            match self.commands.recv_timeout(self.nap()) {
                Ok(command) => {
                    self.execute(command);
                    while let Ok(command) = self.commands.try_recv() {
                        self.execute(command);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.leaving = true,
            }
            while let Some((from, bytes)) = self.transport.poll() {
                if let Some(message) = Message::decode(&bytes) {
                    self.receive(from, message);
                }
            }
            self.watch();
            self.announce();
            if self.may_go() {
                Box::new(self.transport).finish();
                return;
            }
        }
    }

    fn first(&self) -> bool {
        self.transport.rank() == 0
    }

    fn others(&self) -> std::ops::Range<u32> {
        1..self.transport.size()
    }

    fn nap(&self) -> Duration {
        if self.state.timing.load(Ordering::Relaxed) {
            return self.timing.nap / 100;
        }
        let eager = self.first() || self.leaving;
        match self.state.waiting.load(Ordering::Relaxed) {
            true => self.timing.nap / 4,
            false if eager => self.timing.nap / 2,
            false => self.timing.nap,
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Send(to, message) => self.send(to, &message),
            Command::Members(members) => {
                let here = members.first().map(|member| member.host.clone()).unwrap_or_default();
                let near = members.iter().filter(|member| member.host == here && member.rank > 0);
                self.visible =
                    near.map(|member| (member.rank, member.process)).filter(|(_, process)| lives(*process)).collect();
                self.members = members;
            }
            Command::OnEnd(words) => self.last_words = Some(words),
            Command::WantStop(halt) => self.want_stop(halt),
            Command::End(ending) if self.first() => self.end(ending),
            Command::End(ending) => self.send(0, &Message::with(MessageKind::End, 0, pack(&ending))),
            Command::Leave if !self.leaving => {
                self.leaving = true;
                if !self.first() {
                    self.send(0, &Message::new(MessageKind::Goodbye, 0));
                }
            }
            Command::Leave | Command::Look => {}
        }
    }

    fn send(&mut self, to: u32, message: &Message) {
        self.spoke = Instant::now();
        self.transport.send(to, message.encode());
    }

    fn send_all(&mut self, message: &Message) {
        for to in self.others() {
            self.send(to, message);
        }
    }

    fn receive(&mut self, from: u32, message: Message) {
        self.last_message[from as usize] = Instant::now();
        let Message { kind, number, body } = message;
        match kind {
            MessageKind::Value => self.state.inner().inbox.push_back(ReceivedValue { from, step: number, body }),
            MessageKind::Reached => self.positions[from as usize] = number,
            MessageKind::Floor => self.state.floor.store(number, Ordering::Release),
            MessageKind::WantStop => self.want_stop(if number == 0 { Halt::Interrupted } else { Halt::Wanted }),
            MessageKind::StopAt => {
                self.halt_at(number, if body.is_empty() { Halt::Interrupted } else { Halt::Wanted });
                self.send(0, &Message::new(MessageKind::Present, 0));
            }
            MessageKind::Present => {
                if let Some(stop) = &mut self.stop {
                    stop.present[from as usize] = true;
                }
            }
            MessageKind::End => {
                if let Ok(ending) = serde_json::from_slice(&body) {
                    self.end(ending);
                }
            }
            MessageKind::Goodbye if self.first() => self.gone[from as usize] = true,
            MessageKind::Goodbye => self.dismissed = true,
            MessageKind::Beat => {}
        }
        self.state.notify();
    }

    /// Requests a stop. Rank 0 stops after the operations that are already permitted. Every rank can complete these, so
    /// that all stop at the same operation. Other ranks ask rank 0.
    fn want_stop(&mut self, halt: Halt) {
        if !self.first() {
            let number = u64::from(halt != Halt::Interrupted);
            return self.send(0, &Message::new(MessageKind::WantStop, number));
        }
        if self.stop.is_some() {
            return;
        }
        let window = self.state.window.load(Ordering::Acquire);
        let most = if self.stated == NONE { 0 } else { self.stated.saturating_add(window) };
        let present = vec![false; self.last_message.len()];
        self.stop = Some(Stop { since: Instant::now(), halt, present });
        let body = if halt == Halt::Interrupted { Vec::new() } else { vec![1] };
        self.send_all(&Message::with(MessageKind::StopAt, most, body));
        self.halt_at(most, halt);
    }

    fn halt_at(&mut self, position: u64, halt: Halt) {
        self.state.inner().halt = Some(halt);
        self.state.stop_at.store(position, Ordering::Release);
        if halt == Halt::Interrupted {
            self.asked_to_stop = true;
            self.interrupt.request();
        }
        self.state.notify();
    }

    fn end(&mut self, ending: Ending) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(Instant::now());
        if self.first() {
            if let Some(words) = &mut self.last_words {
                words(&ending);
            }
            self.send_all(&Message::with(MessageKind::End, 0, pack(&ending)));
        }
        self.state.inner().ending = Some(ending);
        self.state.notify();
    }

    fn announce(&mut self) {
        if self.state.window.load(Ordering::Acquire) > 0 {
            self.positions[self.transport.rank() as usize] = self.state.reached.load(Ordering::Acquire);
            if self.first() { self.send_floor() } else { self.send_position() }
        }
        if self.spoke.elapsed() > self.timing.silence / 5 {
            let beat = Message::new(MessageKind::Beat, 0);
            if self.first() {
                self.send_all(&beat)
            } else {
                self.send(0, &beat)
            }
            self.spoke = Instant::now();
        }
    }

    fn send_position(&mut self) {
        let position = self.positions[self.transport.rank() as usize];
        if position != self.stated {
            self.stated = position;
            self.send(0, &Message::new(MessageKind::Reached, position));
        }
    }

    fn send_floor(&mut self) {
        let floor = self.positions.iter().copied().min().unwrap_or(NONE);
        let begun = self.positions.iter().all(|position| *position != NONE);
        let stays = self.stop.is_some() && self.stated == NONE;
        if begun && floor != self.stated && !stays {
            self.stated = floor;
            self.state.floor.store(floor, Ordering::Release);
            self.send_all(&Message::new(MessageKind::Floor, floor));
            self.state.notify();
        }
    }

    fn watch(&mut self) {
        if self.interrupt.requested() && !self.asked_to_stop {
            self.asked_to_stop = true;
            self.want_stop(Halt::Interrupted);
        }
        if let Some(since) = self.ended {
            let died = self.state.inner().ending.clone().filter(|ending| ending.died);
            // Dead ranks do not leave.
            if since.elapsed() > self.timing.grace || (died.is_some() && self.leaving && self.first()) {
                self.force();
            }
            return;
        }
        let limit = if self.members.is_empty() { self.timing.join } else { self.timing.silence };
        let watched = if self.first() { self.others() } else { 0..1 };
        for rank in watched.filter(|rank| *rank != self.transport.rank()) {
            if self.last_message[rank as usize].elapsed() > limit {
                let reason =
                    format!("no message from it for {:.0} s: it died, hangs or lost its network", limit.as_secs_f64());
                return self.bury(rank, reason);
            }
        }
        if self.first() {
            self.check_ranks();
        }
    }

    /// Checks, on rank 0, for terminated processes, and for ranks that do not answer a stop.
    fn check_ranks(&mut self) {
        let absent =
            self.stop.as_ref().filter(|stop| stop.halt == Halt::Interrupted && stop.since.elapsed() > ROLL_CALL);
        let missing = absent.and_then(|stop| {
            let unseen = |rank: &u32| !self.visible.iter().any(|(known, _)| known == rank);
            self.others().find(|rank| unseen(rank) && !stop.present[*rank as usize] && !self.gone[*rank as usize])
        });
        if let Some(rank) = missing {
            return self.bury(rank, "it did not answer the request to stop, so it is assumed dead".into());
        }
        let stopping = self.stop.is_some();
        if self.looked.elapsed() < if stopping { self.timing.nap } else { BETWEEN_LOOKS } {
            return;
        }
        self.looked = Instant::now();
        let lost = self.visible.iter().copied().find(|(rank, process)| !self.gone[*rank as usize] && !lives(*process));
        if let Some((rank, process)) = lost {
            self.bury(rank, format!("its process {process} died"));
        }
    }

    fn bury(&mut self, rank: u32, reason: String) {
        let known = self.members.get(rank as usize);
        let host = known.map_or_else(|| "an unknown host".to_string(), |member| member.host.clone());
        let ending = Ending { rank, host, reason, code: senesce_core::ExitCode::RunFailed as u8, died: true };
        if !self.first() {
            eprintln!("senesce: {ending}");
        }
        self.end(ending);
    }

    fn force(&mut self) {
        let ending = self.state.inner().ending.clone();
        let code = ending.as_ref().map_or(5, |ending| i32::from(ending.code));
        if let Some(ending) = ending.filter(|_| self.first()) {
            eprintln!("senesce: {ending}");
        }
        self.transport.abort(code);
        self.dismissed = true;
        self.leaving = true;
    }

    fn may_go(&mut self) -> bool {
        if !self.leaving || self.dismissed {
            return self.dismissed && self.leaving;
        }
        if self.first() && self.others().all(|rank| self.gone[rank as usize]) {
            self.send_all(&Message::new(MessageKind::Goodbye, 0));
            return true;
        }
        false
    }
}

fn pack(ending: &Ending) -> Vec<u8> {
    serde_json::to_vec(ending).unwrap_or_default()
}

/// Returns whether a process of this machine exists and has not ended (proc_pid_stat(5): state Z or X).
fn lives(process: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = text.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}
