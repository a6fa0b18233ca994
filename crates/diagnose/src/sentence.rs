//! The result in plain words.

use crate::estimate::Prognosis;
use crate::headroom::{self, CreatableFiles, EndsBy, User};
use crate::reading::Order;
use senesce_core::Bytes;

/// Minimum share of the read time that a worthwhile remedy saves.
pub(crate) const WORTH: f64 = 0.1;

pub(crate) fn seconds(value: f64) -> String {
    match value {
        value if value < 0.0095 => format!("{:.1} ms", value * 1e3),
        value if value < 9.95 => format!("{value:.2} s"),
        value if value < 600.0 => format!("{value:.0} s"),
        value if value < 36_000.0 => format!("{:.0} min", value / 60.0),
        value => format!("{:.1} h", value / 3600.0),
    }
}

pub(crate) fn verdict(now: f64, after: f64) -> &'static str {
    match 1.0 - after / now {
        gain if !gain.is_finite() || gain < WORTH => "not worth it",
        gain if gain < 0.5 => "worth it if you often read everything",
        _ => "worth it",
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
    let rewrite = format!("copying it out and back in order {}, {}", seconds(rewritten), verdict(now, rewritten));
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
        Some(said) if share(one).is_some_and(|share| share < 0.8) => format!(", not the {said} that df suggests"),
        _ => String::new(),
    };
    let number = match one.low == one.high {
        true => one.files.to_string(),
        false => format!("about {} ({} to {})", one.files, one.low, one.high),
    };
    let ends = one.ends_by.text();
    Some(match one.ends_by {
        EndsBy::Bytes => format!("You can still create {number} {size}{df}; it ends by {ends}."),
        _ => format!(
            "You can still create {number} {size}{df}; it ends by {ends}, with about {} free.",
            left(prognosis, one)
        ),
    })
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
        assert_eq!(verdict(34.0, 33.9), "not worth it");
        assert_eq!(verdict(34.0, 6.0), "worth it");
        assert_eq!(verdict(34.0, 20.0), "worth it if you often read everything");
        assert_eq!(verdict(0.0, 0.0), "not worth it");
    }

    #[test]
    fn time_of_a_full_read_names_its_order() {
        for order in [Order::Readdir, Order::Path] {
            let words = whole_read(51.0, order);
            assert!(words.ends_with(&format!("in {} order", order.name())), "{words}");
        }
    }

    #[test]
    fn seconds_are_printed_in_readable_units() {
        assert_eq!(seconds(0.0012), "1.2 ms");
        assert_eq!(seconds(6.04), "6.04 s");
        assert_eq!(seconds(34.2), "34 s");
        assert_eq!(seconds(1200.0), "20 min");
    }
}
