//! The parts of a prognosis: directories, worst files, caveats and remedies.

use super::*;
use senesce_layout::names::shown;
use senesce_layout::space::FileSystemDetails;

pub(super) fn directories(costed: &CostedLayout) -> Vec<Directory> {
    let mut all: Vec<Directory> = Vec::new();
    let mut places: HashMap<&Path, usize> = HashMap::new();
    let mut last = None;
    for file in (0..costed.files.len()).filter(|file| costed.files.is_known(*file)) {
        // Files are sorted by directory.
        let top = costed.files.top_directory(file);
        let place = match last {
            Some((before, place)) if before == top => place,
            _ => *places.entry(top).or_insert_with(|| {
                all.push(empty(top));
                all.len() - 1
            }),
        };
        last = Some((top, place));
        let entry = &mut all[place];
        let seconds = |cost: &Cost| cost.file_ns[file] as f64 * 1e-9;
        entry.files += 1;
        entry.bytes += costed.bytes(file);
        entry.pieces += costed.files.of(file).len() as u64;
        entry.now_seconds += seconds(&costed.costs[0]);
        entry.ideal_seconds += seconds(&costed.costs[1]);
        entry.rewritten_seconds += seconds(&costed.costs[2]);
    }
    all.sort_by(|one, other| other.now_seconds.total_cmp(&one.now_seconds).then_with(|| one.path.cmp(&other.path)));
    all
}

fn empty(top: &Path) -> Directory {
    Directory {
        path: if top.as_os_str().is_empty() { ".".into() } else { shown(top) },
        files: 0,
        bytes: 0,
        pieces: 0,
        now_seconds: 0.0,
        ideal_seconds: 0.0,
        rewritten_seconds: 0.0,
    }
}

pub(crate) fn worst(costed: &CostedLayout) -> Vec<WorstFile> {
    let [now, ideal, _] = &costed.costs;
    let excess = |file: u32| {
        let file = file as usize;
        cost_of_fragments(costed.files.of(file).len(), now.file_ns[file], ideal.file_ns[file])
    };
    let mut order: Vec<u32> = (0..costed.files.len() as u32).filter(|file| excess(*file) > 0).collect();
    order.par_sort_by_key(|file| std::cmp::Reverse(excess(*file)));
    order.truncate(WORST);
    let one = |file: u32| {
        let file = file as usize;
        WorstFile {
            path: shown(&costed.files.path(file)),
            bytes: costed.bytes(file),
            pieces: costed.files.of(file).len() as u64,
            now_seconds: now.file_ns[file] as f64 * 1e-9,
            ideal_seconds: ideal.file_ns[file] as f64 * 1e-9,
        }
    };
    order.into_iter().map(one).collect()
}

/// Returns the nanoseconds that a file costs because of its fragments. A file in one piece has none: its other costs come from
/// its distance to the previous file.
fn cost_of_fragments(pieces: usize, now_ns: u64, ideal_ns: u64) -> u64 {
    if pieces > 1 { now_ns.saturating_sub(ideal_ns) } else { 0 }
}

pub(super) fn breaks(costed: &CostedLayout) -> SideEffects {
    let mut found = SideEffects { extra_links: costed.summary.extra_links, ..SideEffects::default() };
    for file in 0..costed.files.len() {
        let marks = costed.files.marks(file);
        let SideEffects { shared_files, shared_examples, encoded_files, encoded_examples, .. } = &mut found;
        for (mark, count, examples) in [
            (ExtentKind::SHARED, shared_files, shared_examples),
            (ExtentKind::ENCODED, encoded_files, encoded_examples),
        ] {
            if marks.has(mark) {
                *count += 1;
                if examples.len() < EXAMPLES {
                    examples.push(shown(&costed.files.path(file)));
                }
            }
        }
    }
    found
}

/// Estimates the share of data that was not examined. For a whole file system these are the used bytes outside of the
/// examined files. For a directory it is the share of directories and files that may not be opened.
pub(super) fn unexamined_share(place: &ShownDirectory, costed: &CostedLayout, space: &FileSystemSpace) -> f64 {
    let summary = &costed.summary;
    if summary.denied == 0 {
        return 0.0;
    }
    let is_root = match place {
        ShownDirectory::Visited(_) => true,
        ShownDirectory::Part { .. } => false,
        ShownDirectory::Directory(path) => is_mount_point(path),
    };
    let used = (space.blocks - space.free_blocks.min(space.blocks)) * space.block_size;
    match is_root && used > 0 {
        true => (1.0 - costed.all_bytes() as f64 / used as f64).clamp(0.0, 1.0),
        false => denied_share(summary),
    }
}

fn is_mount_point(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino()));
    match (number(path), number(&path.join(".."))) {
        (Ok((own, inode)), Ok((above, parent))) => own != above || inode == parent,
        _ => false,
    }
}

pub(super) fn changed_share(before: &FileSystemSpace, free_after: u64) -> f64 {
    let used = before.blocks.saturating_sub(before.free_blocks).max(1);
    before.free_blocks.abs_diff(free_after) as f64 / used as f64
}

pub(super) fn notes(summary: &LayoutSummary, space: &FileSystemSpace) -> Vec<String> {
    let counts = [
        (
            summary.denied,
            "directories and files may not be opened by this user and were left out; root can read all of them",
        ),
        (summary.vanished, "files or directories were deleted during the examination or are damaged"),
        (summary.other_file_systems, "mount points or subvolumes inside the target were not entered"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}"));
    let free_space = (!summary.free_space_note.is_empty()).then(|| format!("free space: {}", summary.free_space_note));
    let counts = free_space.into_iter().chain(counts);
    let counts = summary.reservations().into_iter().chain(unwritten(summary)).chain(counts);
    counts.chain(limits(space).map(String::from)).collect()
}

fn unwritten(summary: &LayoutSummary) -> Option<String> {
    let Tally { extents, bytes, .. } = summary.unwritten;
    (extents > 0).then(|| {
        format!(
            "{} in {extents} extents are preallocated and not written: reading them costs no device I/O, and no time is modelled \
             for them",
            senesce_core::Bytes(bytes)
        )
    })
}

fn limits(space: &FileSystemSpace) -> Option<&'static str> {
    match &space.kind {
        FileSystemDetails::Ext(ext) if !ext.extents => {
            Some("files are mapped block by block (no extents): none can be preallocated, and e4defrag moves none")
        }
        _ => crate::headroom::without_rule(space),
    }
}

/// Returns a caveat if the data does not fit on the modelled drive, which maps addresses beyond its end to others.
pub(super) fn beyond(reach: u64, drive: &str, model: &DeviceModel) -> Option<String> {
    let capacity = model.capacity_bytes();
    (reach > capacity && model.depends_on_capacity()).then(|| {
        format!(
            "the files reach byte {reach} of the file system, but the modelled drive {drive} has {capacity} bytes: the \
             modelled times and gains are those of a smaller drive; name a larger one with --model"
        )
    })
}

pub(super) fn remedies(
    found: &Prognosis,
    costed: &CostedLayout,
    model: &DeviceModel,
) -> Result<Vec<Remedy>, ModelError> {
    let advice = &found.defragmenter;
    let is_moved = |file: usize| costed.files.of(file).len() > 1 && advice.moves(file);
    let moved: u64 = (0..costed.files.len()).filter(|file| is_moved(*file)).map(|file| costed.bytes(file)).sum();
    let rate = sequential_rate(model)?;
    let one = |command: String, after: f64, bytes: u64, passes: f64| {
        let pays_after_reads = pays(found.now_seconds, after, bytes as f64 * passes / rate);
        let verdict = sentence::verdict(found.now_seconds, after, pays_after_reads);
        Remedy { command, pass: 1, seconds_after: after, bytes_written: bytes, bound: true, pays_after_reads, verdict }
    };
    let mut remedies = Vec::new();
    if let Some(tool) = advice.advised() {
        // Everything that is moved is read and written.
        let place = place_of_commands(&found.target);
        let after = match advice.immovable.is_empty() {
            true => found.ideal_seconds,
            false => reading::cost(model, &costed.files, &costed.order, is_moved).seconds,
        };
        remedies.push(one(format!("{} {place}", tool.words().join(" ")), after, moved, 2.0));
    }
    let copy = format!("copy everything out of {} and back, in the order of reading", found.target);
    remedies.push(one(copy, found.rewritten_seconds, found.bytes, 4.0));
    Ok(remedies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fragments_cost_what_defragmentation_saves() {
        assert_eq!(cost_of_fragments(2, 50, 20), 30);
        assert_eq!(cost_of_fragments(1, 50, 20), 0, "in one piece far from the previous file");
        assert_eq!(cost_of_fragments(2, 20, 20), 0);
        assert_eq!(cost_of_fragments(2, 20, 50), 0, "faster than in one piece");
    }

    #[test]
    fn commands_name_the_target_as_one_word() {
        let directory = tempfile::tempdir().unwrap();
        let odd = directory.path().join("my disk; it's");
        std::fs::create_dir(&odd).unwrap();
        let text = odd.display().to_string();
        assert_eq!(place_of_commands(&text), format!("'{}/my disk; it'\\''s'", directory.path().display()));
        assert_eq!(place_of_commands(&format!("{text}.img")), "MOUNTPOINT");
    }

    /// Expects caveats because no tool moves files of ext2 and ext3.
    #[test]
    fn ext_without_extents_gives_caveats() {
        let with = |extents| {
            let kind = FileSystemDetails::Ext(senesce_layout::space::Ext {
                extents,
                inline_data: false,
                cluster_blocks: 1,
                held_back_blocks: 0,
                dir_index: true,
                large_dir: false,
                metadata_checksums: true,
                uniform_hash: true,
            });
            let here = FileSystemSpace::of(&std::env::temp_dir()).unwrap();
            FileSystemSpace { kind, ..here }
        };
        assert!(limits(&with(false)).unwrap().contains("e4defrag moves none"));
        assert_eq!(limits(&with(true)), None);
    }

    #[test]
    fn data_beyond_the_modelled_drive_gives_a_caveat() {
        let model = DeviceModel::builtin(RANGE[0]).unwrap();
        let capacity = model.capacity_bytes();
        assert_eq!(beyond(capacity, RANGE[0], &model), None);
        let note = beyond(capacity + 1, RANGE[0], &model).unwrap();
        assert!(note.contains(&(capacity + 1).to_string()) && note.contains(&capacity.to_string()), "{note}");
        assert_eq!(
            beyond(u64::MAX, "850-evo", &DeviceModel::reference_ssd().unwrap()),
            None,
            "the same times at any capacity"
        );
    }
}
