//! The result in plain words.

use crate::estimate::Prognosis;
use crate::headroom::{self, CreatableFiles, EndsBy, User};
use crate::reading::Order;
use senesce_core::{Bytes, number_of};

/// Minimum share of the read time that a worthwhile remedy saves.
pub(crate) const WORTH: f64 = 0.1;

pub(crate) fn is_worth(now: f64, after: f64) -> bool {
    now > 0.0 && now - after >= WORTH * now
}

pub(crate) fn seconds(value: f64) -> String {
    match value {
        value if value < 0.0095 => format!("{:.1} ms", value * 1e3),
        value if value < 9.95 => format!("{value:.2} s"),
        value if value < 600.0 => format!("{value:.0} s"),
        value if value < 36_000.0 => format!("{:.0} min", value / 60.0),
        value => format!("{:.1} h", value / 3600.0),
    }
}

/// States whether a remedy is worth it, and if known, after how many full reads.
pub(crate) fn verdict(now: f64, after: f64, pays_after_reads: Option<f64>) -> String {
    match pays_after_reads {
        _ if !is_worth(now, after) => "not worth it".into(),
        Some(reads) => format!("worth it after {}", number_of(reads.ceil().max(1.0) as u64, "full read")),
        None => "worth it".into(),
    }
}

pub(crate) fn of(prognosis: &Prognosis) -> String {
    let mut text = reading(prognosis);
    if let Some(space) = space(prognosis) {
        text.push(' ');
        text.push_str(&space);
    }
    text
}

fn reading(prognosis: &Prognosis) -> String {
    let replayed = prognosis.replayed_twin();
    let (now, rewritten) = match replayed {
        Some(twin) => (twin.now_seconds, twin.rewritten_seconds),
        None => (prognosis.now_seconds, prognosis.rewritten_seconds),
    };
    let unwritten = match prognosis.unwritten.bytes {
        0 => String::new(),
        bytes => format!(" {} are preallocated and not written: reading them costs no device I/O.", Bytes(bytes)),
    };
    if prognosis.bytes == 0 && now == 0.0 {
        return format!("Nothing to read.{unwritten}");
    }
    let drive = match prognosis.drive.known {
        true => String::new(),
        false if replayed.is_some() => {
            " on the reference disk (the drive is unknown: name yours with --model)".to_string()
        }
        false => {
            let range = |of: fn(&crate::reading::Seconds) -> f64| {
                let values = prognosis.models.iter().map(|model| of(&model.seconds));
                values.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)))
            };
            let (low, high) = range(|seconds| seconds.now);
            format!(
                " on the reference disk (the drive is unknown: {} to {} over the models, name yours with --model)",
                seconds(low),
                seconds(high)
            )
        }
    };
    let journal = if replayed.is_some() { " with its journal replayed" } else { "" };
    let all = format!("{}{journal}{drive}", whole_read(now, prognosis.order));
    let defragment = defragmentation(prognosis);
    // The remedies of the target do not count the whole content of the twin.
    let copy = prognosis.remedies.last().filter(|_| replayed.is_none());
    let pays = copy.and_then(|remedy| remedy.pays_after_reads);
    let rewrite = format!("copying it out and back in order {}, {}", seconds(rewritten), verdict(now, rewritten, pays));
    format!("{all}; {defragment}; {rewrite}.{unwritten}")
}

/// Names the order too: `age` reads in another one, so its time differs.
fn whole_read(now: f64, order: Order) -> String {
    format!("{} to read it all now in {} order", seconds(now), order.name())
}

fn defragmentation(prognosis: &Prognosis) -> String {
    let advice = &prognosis.defragmenter;
    if let Some(shown) = prognosis.twin.as_ref().and_then(|twin| twin.defragmenter.as_ref()) {
        return match shown.seconds_after {
            Some(after) => format!("{} on the twin {}, {}", shown.tool, seconds(after), shown.verdict),
            None => format!("{} is not advised: {}", shown.tool, shown.verdict),
        };
    }
    // The remedies of the target do not count its whole content.
    if let Some(twin) = prognosis.replayed_twin() {
        return format!("every file in one piece {}", seconds(twin.ideal_seconds));
    }
    let one_piece = format!("every file in one piece {}, but no tool does that here", seconds(prognosis.ideal_seconds));
    match (advice.advised(), prognosis.remedies.first(), &advice.refused) {
        (Some(tool), Some(remedy), _) => {
            format!("{} at best {}, {}", tool.command[0], seconds(remedy.seconds_after), remedy.verdict)
        }
        (_, _, Some(reason)) => format!("{one_piece} ({reason})"),
        _ => one_piece,
    }
}

fn space(prognosis: &Prognosis) -> Option<String> {
    let user = |one: &&CreatableFiles| one.user == User::User;
    let tried = prognosis.twin.as_ref().filter(|twin| !twin.creatable.is_empty());
    let all = tried.map_or(&prognosis.creatable, |twin| &twin.creatable).iter().filter(user);
    // Without the replay, df is stale too.
    let df = |one: &CreatableFiles| match prognosis.replayed_twin() {
        Some(_) => None,
        None => prognosis.suggested_by_df(one.size, one.user),
    };
    // The size at which df is most wrong; 4 KiB if it is right for all.
    let share = |one: &CreatableFiles| {
        let said = df(one)?;
        (said > 0).then(|| one.files as f64 / said as f64)
    };
    let off = all.clone().filter(|one| one.size > 0 && share(one).is_some_and(|share| share < 0.8));
    let worst = off.min_by(|one, other| share(one).partial_cmp(&share(other)).unwrap_or(std::cmp::Ordering::Equal));
    let one = worst.or_else(|| all.clone().find(|one| one.size == 4096))?;
    let size = if one.size == 0 { "empty files".to_string() } else { format!("files of {}", Bytes(one.size)) };
    let size = format!("{size} with names of {} bytes", prognosis.name_length);
    let df = match df(one) {
        Some(said) if share(one).is_some_and(|share| share < 0.8) => {
            format!(", not the {} that df suggests", count(said))
        }
        _ => String::new(),
    };
    let number = match one.low == one.high {
        true if one.files >= MILLION => format!("about {}", count(one.files)),
        true => count(one.files),
        false => format!("about {} ({})", count(one.files), interval(one.low, one.high)),
    };
    let end = end(one.ends_by, left(prognosis, one));
    Some(format!("You can still create {number} {size}{df}; then {end}."))
}

/// The state after the last file, of which `left` is free.
fn end(ends_by: EndsBy, left: Bytes) -> String {
    let left = short(left);
    match ends_by {
        EndsBy::Bytes => "no block is free".into(),
        EndsBy::RootReserve => format!("only the reserve of root is left ({left})"),
        EndsBy::Inodes => format!("no inode is free, with about {left} left"),
        EndsBy::InodeChunks => {
            format!("no free space is aligned and long enough for more inodes, with about {left} left")
        }
        EndsBy::Metadata => format!("no space for metadata is free, with about {left} left"),
        EndsBy::DirectoryIndex => format!("the index of the directory is full, with about {left} left"),
    }
}

/// Formats a large number of files as millions.
fn count(files: u64) -> String {
    if files < MILLION { files.to_string() } else { format!("{:.1} million", millions(files)) }
}

fn interval(low: u64, high: u64) -> String {
    match low < MILLION {
        true => format!("{} to {}", count(low), count(high)),
        false => format!("{:.1} to {}", millions(low), count(high)),
    }
}

const MILLION: u64 = 1_000_000;

fn millions(files: u64) -> f64 {
    files as f64 / MILLION as f64
}

/// Formats bytes with at most three digits before the point, or two after it.
fn short(bytes: Bytes) -> String {
    let text = bytes.to_string();
    match text.split_once(' ').map(|(number, unit)| (number.parse::<f64>(), unit)) {
        Some((Ok(number), unit)) if number >= 100.0 => format!("{number:.0} {unit}"),
        _ => bytes.to_string(),
    }
}

/// Returns the free bytes when the last file is made, without inodes and directories.
fn left(prognosis: &Prognosis, one: &CreatableFiles) -> Bytes {
    let space = &prognosis.space;
    let fills = prognosis.twin.iter().flat_map(|twin| &twin.fills).filter(|filled| filled.size == one.size);
    if let Some(filled) = fills.clone().find(|filled| filled.user == one.user).or(fills.clone().next()) {
        return Bytes(filled.free_bytes);
    }
    let free = space.free_blocks.saturating_sub(headroom::not_set_aside(space)) * space.block_size;
    Bytes(free.saturating_sub(one.files * one.size.div_ceil(space.block_size) * space.block_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gain_below_ten_percent_is_not_worth_it() {
        let pays = |now, after| crate::estimate::pays(now, after, 14.0);
        let shown = |now, after| verdict(now, after, pays(now, after));
        assert_eq!((shown(34.0, 33.9).as_str(), pays(34.0, 33.9)), ("not worth it", None));
        assert_eq!((shown(34.0, 6.0).as_str(), pays(34.0, 6.0)), ("worth it after 1 full read", Some(0.5)));
        assert_eq!(shown(34.0, 28.0), "worth it after 3 full reads");
        assert_eq!((shown(0.0, 0.0).as_str(), pays(0.0, 0.0)), ("not worth it", None));
        assert_eq!(verdict(34.0, 6.0, None), "worth it");
    }

    #[test]
    fn time_of_a_full_read_names_its_order() {
        for order in [Order::Readdir, Order::Path] {
            let words = whole_read(51.0, order);
            assert!(words.ends_with(&format!("in {} order", order.name())), "{words}");
        }
    }

    #[test]
    fn large_numbers_of_files_are_rounded_to_millions() {
        assert_eq!(count(14_422_409), "14.4 million");
        assert_eq!(interval(14_274_916, 14_569_903), "14.3 to 14.6 million");
        assert_eq!(interval(999_999, 1_100_000), "999999 to 1.1 million");
        assert_eq!(interval(1800, 1855), "1800 to 1855");
    }

    #[test]
    fn every_end_but_that_of_the_blocks_names_what_is_left() {
        use EndsBy::{Bytes as Blocks, DirectoryIndex, InodeChunks, Inodes, Metadata, RootReserve};
        let left = Bytes::mib(165_079);
        assert_eq!(short(left), "161 GiB");
        assert_eq!(short(Bytes::mib(2)), "2 MiB");
        let ends = [RootReserve, Inodes, InodeChunks, Metadata, DirectoryIndex];
        assert!(ends.iter().all(|ends_by| end(*ends_by, left).contains("161 GiB")));
        assert!(!end(Blocks, left).contains("GiB"));
    }

    #[test]
    fn seconds_are_printed_in_readable_units() {
        assert_eq!(seconds(0.0012), "1.2 ms");
        assert_eq!(seconds(6.04), "6.04 s");
        assert_eq!(seconds(34.2), "34 s");
        assert_eq!(seconds(1200.0), "20 min");
    }
}
