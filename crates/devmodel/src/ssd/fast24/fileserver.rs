//! Filebench's file server: fileserver_append.f, fileserver_read.f of the artifact.
//!
//! Each of ten threads repeatedly goes through all files in order (fileset_pick of Filebench keeps a rotor for each thread).
//! Assumptions where the artifact gives no details: files grow for 30 s at the drive's program rate; appended pieces reach the
//! drive in the order of the appends, with a random thread each time; the host's copying, shared by all threads, limits reads of
//! contiguous files. A tenth of the study's 10,000 files is written.

use super::{File, MIB, Rates, State, Volume, Workload};
use crate::ssd::Flash;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use senesce_core::Seed;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const FILES: usize = 1000;
/// Files of the study, over which the appends of 30 s are spread.
const FILES_OF_THE_STUDY: u64 = 10_000;
const FILE_BYTES: u64 = 128 << 10;
const APPEND_SECONDS: f64 = 30.0;
const THREADS: usize = 10;
const READ_BYTES: u64 = 1 << 20;
const READS: usize = 400;

pub(super) fn rates(flash: &Flash, append: u64, offset: u32) -> Rates {
    let workload = if append == 16 << 10 { Workload::FileserverSmall } else { Workload::Fileserver };
    let published = workload.published()[0];
    let mut contiguous = written(flash, State::Contiguous, append, offset);
    let (mut low, mut high) = (0.0, READ_BYTES as f64 / MIB / published * 1e9);
    for _ in 0..16 {
        let middle = (low + high) / 2.0;
        match read(&mut contiguous, middle) > published {
            true => low = middle,
            false => high = middle,
        }
        contiguous.0.drive.rest();
    }
    let host_ns = low;
    let states = [State::Contiguous, State::Fragmented, State::Placed].map(|state| {
        let mut written = written(flash, state, append, offset);
        (read(&mut written, host_ns), written.0.drive.collision_index())
    });
    Rates { mib_per_s: states.map(|state| state.0), host_ns, collision_index: states.map(|state| state.1) }
}

/// Appends to each file: data that the drive programs in 30 s, divided by the study's files.
fn appends_per_file(flash: &Flash, append: u64) -> u64 {
    let timing = &flash.timing;
    let carried_us = flash.program_bytes() as f64 / (timing.channel_mib_per_s * MIB) * 1e6;
    let programs = APPEND_SECONDS * 1e6 / (timing.program_us + carried_us) * f64::from(flash.geometry.dies());
    (programs * flash.program_bytes() as f64) as u64 / FILES_OF_THE_STUDY / append
}

fn uniform(random: &mut Pcg64, below: usize) -> usize {
    (random.next_u64() % below as u64) as usize
}

fn written(flash: &Flash, state: State, append: u64, offset: u32) -> (Volume, Vec<File>) {
    let mut volume = Volume::new(flash, state, offset);
    let appends = appends_per_file(flash, append);
    let mut files = vec![File::default(); FILES];
    if state == State::Contiguous {
        // A copy of the aged files, with the same size.
        files.iter_mut().for_each(|file| volume.append(file, FILE_BYTES + appends * append));
        return (volume, files);
    }
    files.iter_mut().for_each(|file| volume.append(file, FILE_BYTES));
    let mut random = Seed(24).stream("devmodel/fast24/fileserver/appends");
    let mut rotors = [0; THREADS];
    for _ in 0..appends * FILES as u64 {
        let rotor = &mut rotors[uniform(&mut random, THREADS)];
        volume.append(&mut files[*rotor % FILES], append);
        *rotor += 1;
    }
    (volume, files)
}

/// Reads whole files by ten threads that take turns; the host copies the data, in `host_ns` per MiB. Returns MiB/s.
fn read((volume, files): &mut (Volume, Vec<File>), host_ns: f64) -> f64 {
    let mut threads: BinaryHeap<Reverse<(u64, usize)>> = (0..THREADS).map(|thread| Reverse((0, thread))).collect();
    let mut at: Vec<(usize, u64)> = (0..THREADS).map(|_| (0, 0)).collect();
    let (mut whole, mut bytes, mut end, mut host_free) = (0, 0u64, 0u64, 0.0f64);
    while let Some(Reverse((now, thread))) = threads.pop() {
        let (number, offset) = at[thread];
        let file = &files[number];
        let read = READ_BYTES.min(file.bytes() - offset);
        let there = volume.read(file, offset, read, now);
        host_free = host_free.max(there as f64) + host_ns * read as f64 / READ_BYTES as f64;
        let done = host_free as u64;
        bytes += read;
        end = end.max(done);
        at[thread].1 += READ_BYTES;
        if at[thread].1 >= file.bytes() {
            at[thread] = ((number + 1) % files.len(), 0);
            whole += 1;
        }
        if whole < READS {
            threads.push(Reverse((done, thread)));
        }
    }
    bytes as f64 / MIB / end as f64 * 1e9
}
