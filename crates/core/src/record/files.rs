//! Names of the files of a run directory.

/// Version of its format.
pub(super) const FORMAT: &str = "format";
pub(super) const PLAN: &str = "plan.toml";
pub(super) const ENVIRONMENT: &str = "env.json";
/// Events, one per line.
pub const EVENTS: &str = "events.jsonl";
pub(super) const SUMMARY: &str = "summary.json";
pub(super) const LOCK: &str = "lock";

/// Folder of the histograms.
pub(super) const HISTOGRAMS: &str = "histograms";

/// All files outside the folder of histograms, in the order in which a run makes them.
pub const FILES: [&str; 6] = [LOCK, FORMAT, ENVIRONMENT, EVENTS, PLAN, SUMMARY];

/// Files of every run, also of one that is incomplete.
pub const MARKS: [&str; 3] = [FORMAT, PLAN, EVENTS];
