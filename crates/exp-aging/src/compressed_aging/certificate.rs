//! Limits of compression for a profile on a file system, only from measurements of `reproduce compressed-aging`.

use crate::equal_layouts::Comparison;
use senesce_aging::{Compression, Profile};
use senesce_core::{Bytes, Failure};
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};

/// Measurements of one profile on one file system at one maximum: an entry of `cells` in the experiment's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub profile: String,
    pub file_system: String,
    /// Size of the images.
    pub size: Bytes,
    /// Fullness of the images.
    pub fullness: f64,
    /// Worker threads of an aging.
    pub threads: u32,
    /// Maximum turnovers of the live files in each age class.
    pub turnovers: f64,
    /// Operations that a compressed aging represents over those that it executes.
    pub saved_factor: f64,
    /// Agings of each kind; if their numbers differ, the smaller one.
    pub agings: usize,
    /// Whether a reference that was not executed to its end has the same layout at half of its length.
    pub stationary: Option<bool>,
    /// Whether every layout value is proven equal; `None` if too few agings were compared.
    pub equivalent: Option<bool>,
    /// Whether this holds here and at all higher maxima.
    pub certified: bool,
    /// Comparison of each layout value.
    pub numbers: Vec<Comparison>,
}

/// The measured cells for this version, as printed by the experiment.
const MEASURED: &str = include_str!("../../data/compressed-aging.json");
/// A certificate covers this distance from the measured fullness.
const FULLNESS_REACH: f64 = 0.05;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CertificateRequest<'a> {
    pub profile: &'a str,
    pub file_system: FileSystem,
    pub size: Bytes,
    pub fullness: f64,
    pub threads: u32,
    /// Whether clock, churn, sizes and content are those of the measured agings.
    pub as_measured: bool,
}

/// Returns the strongest certified compression for these agings.
pub(crate) fn certified(wanted: &CertificateRequest<'_>) -> Result<Compression, Failure> {
    let cells: Vec<Cell> = serde_json::from_str(MEASURED)
        .map_err(|error| Failure::usage(format!("data/compressed-aging.json: {error}")))?;
    choose(&cells, wanted)
}

pub(super) fn hands(threads: u32) -> String {
    senesce_core::number_of(threads as usize, "thread")
}

fn choose(cells: &[Cell], wanted: &CertificateRequest<'_>) -> Result<Compression, Failure> {
    let (profile, fs) = (wanted.profile, wanted.file_system);
    let refuse = |why: String| Err(Failure::usage(format!("--compress: {profile} on {fs} {why}; age it in full")));
    if Profile::builtin(profile).is_err() {
        return refuse("is not certified: only built-in profiles were measured".into());
    }
    if !wanted.as_measured {
        return refuse(
            "was measured only with the default clock, churn by profile, sizes of the bins, --data fallocate and no \
             options of mkfs and mount"
                .into(),
        );
    }
    let own: Vec<&Cell> =
        cells.iter().filter(|cell| cell.profile == profile && cell.file_system == fs.name()).collect();
    if own.is_empty() {
        return refuse("is not certified: it was not measured".into());
    }
    let near = |cell: &&&Cell| {
        cell.threads == wanted.threads
            && cell.size <= wanted.size
            && (cell.fullness - wanted.fullness).abs() <= FULLNESS_REACH + 1e-9
    };
    let near: Vec<&Cell> = own.iter().filter(near).copied().collect();
    if near.is_empty() {
        let words = |cell: &&Cell| format!("{} at {} by {}", cell.size, cell.fullness, hands(cell.threads));
        let mut measured: Vec<String> = own.iter().map(words).collect();
        measured.dedup();
        return refuse(format!(
            "was measured at another fullness, with another number of threads or on larger volumes ({}), not on {}, \
             {:.2} full, by {}",
            measured.join(", "),
            wanted.size,
            wanted.fullness,
            hands(wanted.threads)
        ));
    }
    let largest = near.iter().map(|cell| cell.size).max();
    let best = near.into_iter().filter(|cell| Some(cell.size) == largest && cell.certified);
    match best.max_by(|a, b| a.saved_factor.total_cmp(&b.saved_factor)) {
        Some(cell) => Ok(Compression { turnovers: cell.turnovers }),
        None => refuse("is not certified: no compressed aging that was tried left an equal layout".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(mib: u64, turnovers: f64, saved_factor: f64, certified: bool) -> Cell {
        Cell {
            profile: "agrawal".into(),
            file_system: "ext4".into(),
            size: Bytes::mib(mib),
            fullness: 0.8,
            threads: 1,
            turnovers,
            saved_factor,
            agings: 8,
            stationary: None,
            equivalent: Some(certified),
            certified,
            numbers: Vec::new(),
        }
    }

    fn request() -> CertificateRequest<'static> {
        let (profile, file_system) = ("agrawal", FileSystem::Ext4);
        CertificateRequest { profile, file_system, size: Bytes::gib(4), fullness: 0.8, threads: 1, as_measured: true }
    }

    #[test]
    fn strongest_certified_compression_of_the_largest_size_is_used() {
        let cells = [cell(512, 1.0, 7.5, true), cell(1024, 4.0, 2.9, true), cell(1024, 2.0, 4.7, false)];
        assert_eq!(choose(&cells, &request()).unwrap().turnovers, 4.0);
        let parallel = [Cell { threads: 2, ..cell(1024, 2.0, 4.7, true) }, cell(1024, 4.0, 2.9, true)];
        for (threads, turnovers) in [(1, 4.0), (2, 2.0)] {
            assert_eq!(choose(&parallel, &CertificateRequest { threads, ..request() }).unwrap().turnovers, turnovers);
        }
        let small = CertificateRequest { size: Bytes::mib(512), ..request() };
        assert_eq!(choose(&cells, &small).unwrap().turnovers, 1.0);
    }

    #[test]
    fn unmeasured_cases_are_refused_with_the_reason() {
        let cells = [cell(512, 4.0, 2.9, true), cell(2048, 4.0, 2.9, false)];
        let refused = |wanted: CertificateRequest<'_>| choose(&cells, &wanted).unwrap_err().to_string();
        assert!(refused(request()).contains("not certified"));
        assert!(refused(CertificateRequest { file_system: FileSystem::Xfs, ..request() }).contains("not measured"));
        assert!(refused(CertificateRequest { fullness: 0.6, ..request() }).contains("fullness"));
        assert!(refused(CertificateRequest { size: Bytes::mib(100), ..request() }).contains("larger volumes"));
        assert!(refused(CertificateRequest { threads: 2, ..request() }).contains("by 1 thread),"));
        assert!(refused(CertificateRequest { profile: "./mine.toml", ..request() }).contains("built-in"));
        assert!(refused(CertificateRequest { as_measured: false, ..request() }).contains("clock"));
    }

    #[test]
    fn committed_cells_are_readable_and_consistent() {
        let cells: Vec<Cell> = serde_json::from_str(MEASURED).unwrap();
        for cell in cells {
            assert!(Profile::builtin(&cell.profile).is_ok());
            assert!(cell.file_system.parse::<FileSystem>().is_ok());
            if cell.certified {
                assert_eq!((cell.equivalent, cell.stationary.unwrap_or(true)), (Some(true), true));
                assert!(cell.agings >= 8 && cell.saved_factor > 1.0 && cell.numbers.iter().all(|one| one.equal));
            }
        }
    }
}
