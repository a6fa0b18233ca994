//! Caveats for readers of the result of an aging.

use super::events::ExecutionEnd;
use super::recorded_aging::RecordedAging;
use super::spec::AgeSpec;
use super::unrequested_commits::UnrequestedCommits;
use super::{whole, words};
use senesce_aging::plan::PlannedLocality;
use senesce_aging::{Clock, Data};

pub(super) fn caveats(spec: &AgeSpec, found: &RecordedAging<'_>) -> Vec<String> {
    let mut caveats: Vec<String> =
        found.warnings.iter().map(|line| format!("the kernel warned during the run: {line}")).collect();
    let lost = found.executed.and_then(|executed| executed.lost);
    caveats.extend(lost.map(|lost| format!("seconds and operations per second of the execution are invalid: {lost}")));
    match spec.data {
        Data::Fallocate => caveats.push(
            "files were preallocated, not written: reading them costs no device I/O; use --data write for an \
             image that will be read"
                .into(),
        ),
        Data::Sparse => caveats.push("files are sparse: only names and sizes are aged, not extents".into()),
        Data::Write => {}
    }
    if spec.writers > 1 && spec.data == Data::Write {
        caveats.push(
            "data of several writers waited in the page cache, and a file system with delayed allocation received \
             whole files, as from a single writer; use --data fallocate for fragmented files"
                .into(),
        );
    }
    if let Some(executed) = found.executed.filter(|executed| executed.has_settled()) {
        let overwrites = executed.measures.overwrites;
        caveats.push(format!(
            "ended after {overwrites:.1} overwrites, when the extents of files had settled; ages, sizes and depths match the \
             profile only at the end of the plan"
        ));
    }
    if found.is_continued && found.layout.is_some_and(|examined| examined.digest.is_some()) {
        caveats.push("the run was resumed: an uninterrupted run of this plan can have another layout digest".into());
    }
    if let Some(examined) = found.layout.filter(|examined| !examined.problem.is_empty()) {
        caveats.push(format!("measured without layout: {}", examined.problem.lines().next().unwrap_or_default()));
    }
    let locality = found.rehearsal.and_then(|rehearsal| rehearsal.summary.locality);
    caveats.extend(locality.and_then(PlannedLocality::limited));
    caveats.extend(spec.compression.map(|_| compressed_words(whole(found.executed)).into()));
    if spec.shard.is_none() {
        let examined = found.layout.and_then(|examined| examined.layout.as_ref());
        let both = found.executed.zip(examined);
        caveats.extend(both.and_then(|(executed, examined)| other_files(executed.measures.files_live, examined.files)));
    }
    if let Some((part, parts)) = spec.shard {
        caveats.push(format!(
            "only the directories of shard {part}/{parts} were executed here; the values are those of the whole plan"
        ));
    }
    caveats
}

pub(super) fn compressed_words(ended: Option<&ExecutionEnd>) -> &'static str {
    match ended {
        Some(_) => {
            "compressed: the layout is proven equal to that of a full aging on the measured volumes (senesce help \
             compressed-aging), not on this one"
        }
        None => "compressed and not complete: an intermediate layout was never compared with that of a full aging",
    }
}

/// Returns a warning if the layout covers other files than the plan's `made` files and our marker.
pub(super) fn other_files(made: u64, examined: u64) -> Option<String> {
    (examined != made + 1).then(|| {
        format!(
            "{made} files of the plan and the marker of the directory are expected, but {examined} files were found: \
             the layout includes other files (senesce verify lists them)"
        )
    })
}

pub(super) const RANDOM_ADDRESSES: &str = "the host forbids fixed addresses (as Docker does), and this kernel does not fix those of its memory: \
                                another aging may give another layout (senesce vm build 6.12 makes one that does)";

pub(super) fn clock_words(clock: Clock, spec: &AgeSpec, unasked: UnrequestedCommits) -> Option<String> {
    if !clock.is_none() {
        return unasked.caveat();
    }
    let bursts = if spec.burst() > 1 { format!(" in bursts of {}", spec.burst()) } else { String::new() };
    if let Some(pace) = spec.time_scale {
        return Some(format!(
            "aged at {} of virtual time{bursts}: freed blocks became available when the file system committed by its own timers \
             (see --time-scale)",
            words::rate(pace)
        ));
    }
    Some(match spec.pace {
        Some(pace) => format!(
            "aged at {pace} operations per second or fewer{bursts}: freed blocks became available when the file system \
             committed by its own timers; the layout depends on this pace and these timers, and block addresses \
             need not repeat (see --pace)"
        ),
        None => "aged without a clock: freed blocks became available when the file system committed by itself; \
            the layout resembles that of a fuller volume, depends on the speed of the machine and does not repeat \
            (see --commit-share)"
            .into(),
    })
}
