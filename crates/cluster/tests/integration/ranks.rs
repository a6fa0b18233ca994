//! Ranks in one process: values, the window, stops, deaths.

use senesce_cluster::{Cluster, ClusterError, Halt, Hello, Simulated, Timing, simulated};
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

const QUICK: Timing = Timing {
    silence: Duration::from_millis(1500),
    join: Duration::from_secs(20),
    grace: Duration::from_millis(500),
    nap: Duration::from_millis(2),
};

/// Returns a rank on a separate host, so that processes are not checked.
fn hello(rank: u32) -> Hello {
    Hello { version: "1".into(), arguments: "age".into(), host: format!("node{rank}"), process: 1 }
}

fn start<T: Send + 'static>(
    ranks: Vec<Simulated>,
    hello: fn(u32) -> Hello,
    interrupts: &[Interrupt],
    body: impl Fn(Result<Cluster, ClusterError>) -> T + Send + Sync + 'static,
) -> Vec<JoinHandle<T>> {
    let body = Arc::new(body);
    let begin = |(rank, transport): (usize, Simulated)| {
        let (body, interrupt) = (body.clone(), interrupts.get(rank).cloned().unwrap_or_default());
        spawn(move || body(Cluster::join(move || Ok(transport), hello(rank as u32), QUICK, interrupt)))
    };
    ranks.into_iter().enumerate().map(begin).collect()
}

fn all<T>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn values_are_gathered_and_broadcast() {
    for size in [1, 2, 7, 33] {
        let sums = all(start(simulated(size), hello, &[], |cluster| {
            let cluster = cluster.unwrap();
            let mut stated = 0;
            for round in 0..20u64 {
                let all = cluster.gather(&(u64::from(cluster.rank()) + round)).unwrap();
                assert_eq!(all.is_some(), cluster.is_first());
                let sum: Option<u64> = all.map(|all| all.iter().sum());
                stated += cluster.broadcast(sum.as_ref()).unwrap();
            }
            cluster.barrier().unwrap();
            stated
        }));
        let once: u64 = (0..u64::from(size)).sum::<u64>() * 20 + (0..20).sum::<u64>() * u64::from(size);
        assert_eq!(sums, vec![once; size as usize]);
    }
}

#[test]
fn long_values_arrive_whole() {
    let long = vec![7u8; 1 << 20];
    let expected = long.clone();
    let got = all(start(simulated(3), hello, &[], move |cluster| {
        let cluster = cluster.unwrap();
        cluster.gather_bytes(long.clone()).unwrap()
    }));
    assert_eq!(got[0], Some(vec![expected; 3]));
}

#[test]
fn different_programs_and_arguments_are_refused_everywhere() {
    for (change, message) in [(0, "is senesce 1, rank 2"), (1, "'age', rank 2 on node2 has 'age2'")] {
        fn version(rank: u32) -> Hello {
            let version = if rank == 2 { "2" } else { "1" };
            Hello { version: version.into(), ..hello(rank) }
        }
        fn arguments(rank: u32) -> Hello {
            let arguments = if rank == 2 { "age2" } else { "age" };
            Hello { arguments: arguments.into(), ..hello(rank) }
        }
        let other: fn(u32) -> Hello = if change == 0 { version } else { arguments };
        let errors = all(start(simulated(4), other, &[], |cluster| cluster.err().unwrap()));
        for error in errors {
            assert!(error.to_string().contains(message), "{error}");
            assert_eq!(Failure::from(error).exit_code(), ExitCode::Usage);
        }
    }
}

struct Positions {
    reached: Mutex<Vec<u64>>,
    changed: Condvar,
}

impl Positions {
    fn new(ranks: usize) -> Arc<Self> {
        Arc::new(Self { reached: Mutex::new(vec![0; ranks]), changed: Condvar::new() })
    }

    fn set(&self, rank: u32, position: u64) {
        self.reached.lock().unwrap()[rank as usize] = position;
        self.changed.notify_all();
    }

    fn slowest(&self) -> u64 {
        *self.reached.lock().unwrap().iter().min().unwrap()
    }

    fn wait_for_all(&self, position: u64, except: Option<u32>) {
        let missing = |reached: &mut Vec<u64>| {
            (0..).zip(reached).any(|(rank, reached)| Some(rank) != except && *reached < position)
        };
        drop(self.changed.wait_while(self.reached.lock().unwrap(), missing).unwrap());
    }
}

/// Runs rounds of `half` operations until `end`; returns where and why it stopped.
fn play(cluster: &Cluster, half: u64, end: u64) -> (u64, Option<Halt>) {
    let mut at = 0;
    cluster.begin_operations(0, 2 * half);
    while at < end {
        if let Err(halt) = cluster.permit((at + half).min(end)) {
            return (at, Some(halt));
        }
        at = (at + half).min(end);
        cluster.reached(at);
    }
    (at, None)
}

#[test]
fn no_rank_is_more_than_a_window_ahead_of_another() {
    let positions = Positions::new(5);
    let worst = all(start(simulated(5), hello, &[], move |cluster| {
        let cluster = cluster.unwrap();
        let rank = cluster.rank();
        let (mut at, mut worst) = (0u64, 0);
        cluster.begin_operations(0, 200);
        while at < 20_000 {
            cluster.permit(at + 100).unwrap();
            // This round's operations end below its end; the slowest rank has done everything below its position.
            worst = worst.max(at + 100 - positions.slowest());
            // In every other round one rank lets the others run as far as the window.
            if at.is_multiple_of(200) && (at / 200) % 5 == u64::from(rank) {
                positions.wait_for_all(at + 200, Some(rank));
            }
            at += 100;
            positions.set(rank, at);
            cluster.reached(at);
        }
        worst
    }));
    assert_eq!(worst, [200; 5]);
}

#[test]
fn a_signal_on_any_rank_stops_all_at_the_same_operation() {
    for asked in 0..4usize {
        let interrupts: Vec<Interrupt> = (0..4).map(|_| Interrupt::new()).collect();
        let positions = Positions::new(4);
        let seen = positions.clone();
        let threads = start(simulated(4), hello, &interrupts, move |cluster| {
            let cluster = cluster.unwrap();
            let mut at = 0;
            cluster.begin_operations(0, 64);
            loop {
                if let Err(halt) = cluster.permit(at + 32) {
                    return (at, halt);
                }
                at += 32;
                seen.set(cluster.rank(), at);
                cluster.reached(at);
            }
        });
        positions.wait_for_all(320, None);
        interrupts[asked].request();
        let ends = all(threads);
        assert!(ends.iter().all(|end| *end == (ends[0].0, Halt::Interrupted)), "{ends:?}");
        assert!(interrupts.iter().all(Interrupt::requested));
    }
}

#[test]
fn stop_requested_by_the_run_stops_all() {
    let ends = all(start(simulated(3), hello, &[], |cluster| {
        let cluster = cluster.unwrap();
        if cluster.is_first() {
            cluster.want_stop();
        }
        play(&cluster, 10, 1_000_000_000)
    }));
    assert!(ends.iter().all(|end| *end == (ends[0].0, Some(Halt::Wanted))), "{ends:?}");
}

struct Death {
    ends: Vec<(u64, Option<Halt>)>,
    aborted: Arc<AtomicI32>,
    words: Vec<String>,
}

fn one_dies(rank: usize) -> Death {
    let ranks = simulated(4);
    let (dead, aborted) = (ranks[rank].dead(), ranks[0].aborted());
    let silent = dead.clone();
    let words: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = words.clone();
    let threads = start(ranks, hello, &[], move |cluster| {
        let cluster = cluster.unwrap();
        let kept = kept.clone();
        cluster.on_end(Box::new(move |ending| {
            kept.lock().unwrap().push(ending.to_string());
        }));
        let mut at = 0;
        cluster.begin_operations(0, 64);
        loop {
            if let Err(halt) = cluster.permit(at + 32) {
                return (at, Some(halt));
            }
            if cluster.rank() as usize == rank && at >= 3200 {
                silent.store(true, Ordering::SeqCst);
                // It is never joined, and ends with the test process.
                loop {
                    std::thread::park();
                }
            }
            at += 32;
            cluster.reached(at);
        }
    });
    // The dead one cannot be joined before the others have ended.
    let mut threads: Vec<Option<JoinHandle<_>>> = threads.into_iter().map(Some).collect();
    let rest: Vec<JoinHandle<_>> =
        (0..4).filter(|other| *other != rank).filter_map(|other| threads[other].take()).collect();
    let ends = all(rest);
    let words = words.lock().unwrap().clone();
    Death { ends, aborted, words }
}

#[test]
fn silent_rank_ends_all_and_is_named() {
    let death = one_dies(2);
    assert!(death.ends.iter().all(|(_, halt)| *halt == Some(Halt::Ended)), "{:?}", death.ends);
    assert_eq!(death.aborted.load(Ordering::SeqCst), ExitCode::RunFailed as i32);
    assert_eq!(death.words.len(), 1, "{:?}", death.words);
    assert!(death.words[0].starts_with("rank 2 on node2: no message"), "{:?}", death.words);
}

#[test]
fn the_death_of_rank_0_ends_the_others() {
    let death = one_dies(0);
    assert!(death.ends.iter().all(|(_, halt)| *halt == Some(Halt::Ended)), "{:?}", death.ends);
    assert_eq!(death.aborted.load(Ordering::SeqCst), ExitCode::RunFailed as i32);
}

#[test]
fn a_failure_of_one_rank_reaches_all_in_order() {
    for failing in 0..3u32 {
        let ranks = simulated(3);
        let aborted = ranks[0].aborted();
        let errors = all(start(ranks, hello, &[], move |cluster| {
            let cluster = cluster.unwrap();
            if cluster.rank() == failing {
                cluster.fail(&Failure::new(ExitCode::Refused, "it is not ours"));
            }
            let error = cluster.barrier().and_then(|()| cluster.barrier()).unwrap_err();
            Failure::from(error)
        }));
        for error in errors {
            assert_eq!(error.to_string(), format!("rank {failing} on node{failing}: it is not ours"));
            assert_eq!(error.exit_code(), ExitCode::Refused);
        }
        assert_eq!(aborted.load(Ordering::SeqCst), -1);
    }
}

#[test]
fn clocks_of_one_machine_agree() {
    let offsets = all(start(simulated(3), hello, &[], |cluster| cluster.unwrap().clock_offsets().unwrap()));
    assert_eq!(offsets[0].len(), 3);
    for (offset, error) in &offsets[0] {
        assert!(offset.abs() <= error + 0.001, "{offset} {error}");
    }
}
