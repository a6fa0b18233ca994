//! A prognosis as metrics in the text format of Prometheus (the "text-based format", version 0.0.4).

use crate::estimate::Prognosis;
use senesce_core::prometheus::{gauge as metric, quoted};

pub fn text(found: &Prognosis) -> String {
    let target = format!("target={},file_system={}", quoted(&found.target), quoted(&found.file_system));
    let mut text = String::new();
    let states = [("now", found.now_seconds), ("ideal", found.ideal_seconds), ("rewritten", found.rewritten_seconds)];
    let seconds: Vec<_> =
        states.iter().map(|(state, value)| (format!("{target},state={}", quoted(state)), *value)).collect();
    metric(&mut text, "read_seconds", "Modelled seconds of one full read.", &seconds);
    let one = |value: f64| vec![(target.clone(), value)];
    metric(&mut text, "files", "Examined files.", &one(found.files as f64));
    metric(&mut text, "pieces", "Contiguous pieces of files.", &one(found.pieces as f64));
    metric(&mut text, "unseen_share", "Share that was not accessible.", &one(found.unseen_share));
    let free = (found.space.free_blocks * found.space.block_size) as f64;
    metric(&mut text, "free_bytes", "Free bytes, including the space reserved for root.", &one(free));
    let creatable = |number: fn(&crate::headroom::CreatableFiles) -> u64| {
        let sample = |one: &crate::headroom::CreatableFiles| {
            let user = if one.user == crate::headroom::User::Root { "root" } else { "user" };
            (format!("{target},size=\"{}\",as=\"{user}\"", one.size), number(one) as f64)
        };
        found.creatable.iter().map(sample).collect::<Vec<_>>()
    };
    metric(&mut text, "creatable_files", "Files that can still be created.", &creatable(|one| one.files));
    metric(&mut text, "creatable_files_at_least", "Lower bound of creatable_files.", &creatable(|one| one.low));
    text
}
