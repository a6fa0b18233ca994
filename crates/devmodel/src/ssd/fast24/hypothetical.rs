//! The hypothetical workloads: append_maker.cpp and overwrite_maker.cpp of the artifact.

use super::glibc::GlibcRand;
use super::{File, MIB, Rates, State, Volume, Workload};
use crate::ssd::Flash;

const FILE_BYTES: u64 = 8 << 20;
const PIECE_BYTES: u64 = 32 << 10;
const STRIPE_BYTES: u64 = 256 << 10;
/// Size of the O_DIRECT reads of the programs.
const READ_BYTES: u64 = 1 << 20;
/// The programs fill 200 MiB of buffer with rand() first.
const CALLS_BEFORE: u64 = 200 << 20;

pub(super) fn rates(flash: &Flash, workload: Workload, offset: u32) -> Rates {
    let published = workload.published()[0];
    let reads = (FILE_BYTES / READ_BYTES) as f64;
    let mut contiguous = written(flash, workload, State::Contiguous, offset);
    let device_ns = read(&mut contiguous, 0.0);
    let host_ns = (FILE_BYTES as f64 / MIB / published * 1e9 - device_ns) / reads;
    let rate = |ns: f64| FILE_BYTES as f64 / MIB / ns * 1e9;
    let states = [State::Contiguous, State::Fragmented, State::Placed].map(|state| {
        let mut written = written(flash, workload, state, offset);
        (rate(read(&mut written, host_ns)), written.0.drive.collision_index())
    });
    Rates { mib_per_s: states.map(|state| state.0), host_ns, collision_index: states.map(|state| state.1) }
}

fn written(flash: &Flash, workload: Workload, state: State, offset: u32) -> (Volume, File) {
    let mut volume = Volume::new(flash, state, offset);
    let mut file = File::default();
    let overwrites = matches!(workload, Workload::OverwriteWorst | Workload::OverwriteRandom);
    if overwrites || state == State::Contiguous {
        volume.append(&mut file, FILE_BYTES);
    }
    if state == State::Contiguous {
        return (volume, file);
    }
    let mut random =
        matches!(workload, Workload::AppendRandom | Workload::OverwriteRandom).then(|| GlibcRand::after(CALLS_BEFORE));
    for piece in 0..FILE_BYTES / PIECE_BYTES {
        if overwrites {
            volume.overwrite(&file, piece * PIECE_BYTES, PIECE_BYTES);
        } else {
            volume.append(&mut file, PIECE_BYTES);
        }
        let dummy = match &mut random {
            Some(random) => u64::from(random.rand() % 32 + 1) * PIECE_BYTES,
            None => STRIPE_BYTES - PIECE_BYTES,
        };
        volume.append(&mut File::default(), dummy);
    }
    (volume, file)
}

/// Reads the file sequentially; returns the nanoseconds.
fn read((volume, file): &mut (Volume, File), host_ns: f64) -> f64 {
    let mut now = 0.0;
    for offset in (0..FILE_BYTES).step_by(READ_BYTES as usize) {
        now = volume.read(file, offset, READ_BYTES, now as u64) as f64 + host_ns;
    }
    now
}
