//! Keeps a user-mode kernel on one processor. The kernel and each program of its guest are processes of the host that wake
//! each other at every system call; across processors that costs two to three times the processor time.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use senesce_sys::process::current_processor;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Guests on one processor that are still kept apart from other processors.
const SHARERS: usize = 64;

/// A processor that other guests avoid until this is dropped, or until its process ends.
pub(crate) struct OwnProcessor {
    pub number: usize,
    _name: UnixDatagram,
}

/// Takes the allowed processor with the fewest guests. `None`: the processors are unknown, or all names are taken.
pub(super) fn take() -> Option<OwnProcessor> {
    let set = sched_getaffinity(None).ok()?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number)).collect();
    // Guests in other network namespaces, such as those of containers, do not see these names. The host's scheduler has
    // spread their processes.
    take_of("senesce-vm", &beginning_with(current_processor(), allowed))
}

/// Moves a processor and those after it to the front.
fn beginning_with(first: Option<usize>, mut all: Vec<usize>) -> Vec<usize> {
    let at = all.iter().position(|number| Some(*number) == first).unwrap_or(0);
    all.rotate_left(at);
    all
}

/// Names without a file end with their process, and users cannot remove those of others.
fn take_of(prefix: &str, allowed: &[usize]) -> Option<OwnProcessor> {
    let places = (0..SHARERS).flat_map(|sharer| allowed.iter().map(move |number| (sharer, *number)));
    places.into_iter().find_map(|(sharer, number)| {
        let name = SocketAddr::from_abstract_name(format!("{prefix}-{number}-{sharer}")).ok()?;
        let _name = UnixDatagram::bind_addr(&name).ok()?;
        Some(OwnProcessor { number, _name })
    })
}

/// Keeps this process and its future children on a processor. One that is no longer allowed changes nothing.
pub(super) fn stay_on(number: usize) {
    let mut set = CpuSet::new();
    set.set(number);
    let _ = sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_take_processors_in_turn() {
        let prefix = format!("senesce-test-{}", std::process::id());
        let next = || take_of(&prefix, &[2, 5]).unwrap();
        let guests: Vec<OwnProcessor> = (0..4).map(|_| next()).collect();
        assert_eq!(guests.iter().map(|guest| guest.number).collect::<Vec<_>>(), [2, 5, 2, 5]);
        assert!(take_of(&prefix, &[]).is_none());
    }

    #[test]
    fn processor_of_an_ended_guest_is_taken_next() {
        let prefix = format!("senesce-test-ended-{}", std::process::id());
        let next = || take_of(&prefix, &[2, 5]).unwrap();
        let (_first, second, _third) = (next(), next(), next());
        drop(second);
        assert_eq!(next().number, 5);
    }

    #[test]
    fn first_choice_is_the_current_processor() {
        assert_eq!(beginning_with(Some(5), vec![2, 5, 7]), [5, 7, 2]);
        for unknown in [None, Some(9)] {
            assert_eq!(beginning_with(unknown, vec![2, 5]), [2, 5]);
        }
        assert!(beginning_with(None, Vec::new()).is_empty());
    }

    #[test]
    fn thread_stays_on_a_processor() {
        // With one test thread, other tests run on this one.
        let stays = || {
            let number = take().unwrap().number;
            stay_on(number);
            let set = sched_getaffinity(None).unwrap();
            set.is_set(number) && set.count() == 1
        };
        assert!(std::thread::spawn(stays).join().unwrap());
    }
}
