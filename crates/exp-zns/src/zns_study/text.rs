//! Parses the study's plain formats: `op,ns[,index]` lines of its state-machine programs, and fio's bandwidth logs.

use std::collections::BTreeMap;

/// Minimum share of valid lines; the programs print up to one message per two results.
const GOOD_SHARE: f64 = 0.5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operations<'a> {
    pub timed: Vec<(&'a str, u64)>,
    /// Lines with 0 ns, which the programs print for failed commands.
    pub zeros: usize,
    pub other_lines: usize,
    /// Whether the text ends within a line. That line is ignored because its number may be incomplete.
    pub is_cut: bool,
}

/// Reads `op,ns[,index]`; `None` for another format. Lines with 0 ns and malformed lines are dropped and counted.
pub fn operations(text: &str) -> Option<Operations<'_>> {
    let (mut timed, mut zeros, mut other_lines) = (Vec::new(), 0, 0);
    let (whole, cut) = text.rsplit_once('\n').unwrap_or(("", text));
    for line in whole.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match operation(line) {
            Some((_, 0)) => zeros += 1,
            Some(pair) => timed.push(pair),
            None => other_lines += 1,
        }
    }
    let good = timed.len() + zeros;
    let share = GOOD_SHARE * (good + other_lines) as f64;
    let is_cut = !cut.trim().is_empty();
    (good as f64 >= share && !timed.is_empty()).then_some(Operations { timed, zeros, other_lines, is_cut })
}

fn operation(line: &str) -> Option<(&str, u64)> {
    let mut fields = line.split(',').map(str::trim);
    let (op, ns, index) = (fields.next()?, fields.next()?, fields.next());
    let word = op.starts_with(|c: char| c.is_ascii_alphabetic()) && op.len() <= 64;
    let ns: f64 = ns.parse().ok().filter(|ns: &f64| (0.0..1e15).contains(ns))?;
    let index_fits = index.is_none_or(|index| index.parse::<f64>().is_ok());
    (word && index_fits && fields.next().is_none()).then_some((op, ns as u64))
}

/// MiB/s by second, from 0.
pub(crate) type BySecond = BTreeMap<u64, f64>;

/// Reads a fio bandwidth log (`msec, KiB/s, direction, block size, ...`) into MiB/s by second, separately for reads and
/// writes. `None` for another format. fio's time stamps are slightly late, so a second may be missing: its bandwidth is
/// unknown.
pub fn bandwidth_log(text: &str) -> Option<[BySecond; 2]> {
    let mut sums: [BTreeMap<u64, (f64, u32)>; 2] = [BTreeMap::new(), BTreeMap::new()];
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut fields = line.split(',').map(str::trim);
        let ms: u64 = fields.next()?.parse().ok()?;
        let kib: f64 = fields.next()?.parse().ok()?;
        let direction: usize = fields.next()?.parse().ok()?;
        fields.next()?.parse::<u64>().ok()?;
        let second = ms.saturating_sub(1) / 1000;
        // More than a day is a damaged time stamp.
        if direction > 1 || second > 86_400 || !kib.is_finite() {
            return None;
        }
        let (sum, count) = sums[direction].entry(second).or_default();
        *sum += kib / 1024.0;
        *count += 1;
    }
    if sums.iter().all(BTreeMap::is_empty) {
        return None;
    }
    // Several entries of one second are samples of the same rate, not parts of it.
    let mean = |(second, (sum, count)): (u64, (f64, u32))| (second, sum / f64::from(count));
    Some(sums.map(|series| series.into_iter().map(mean).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn operations_are_read_and_zeros_dropped() {
        let text = "reset_1,1600000\nreset_1,0\nreset_1,1700000,5\n";
        let timed = vec![("reset_1", 1_600_000), ("reset_1", 1_700_000)];
        assert_eq!(operations(text), Some(Operations { timed, zeros: 1, other_lines: 0, is_cut: false }));
        let messages = "close,900\nfilled zone\nclose_write,9000\n";
        let timed = vec![("close", 900), ("close_write", 9000)];
        assert_eq!(operations(messages), Some(Operations { timed, zeros: 0, other_lines: 1, is_cut: false }));
        assert_eq!(operations("# a note\nhello world\n"), None);
        assert_eq!(operations("1,2,3\n"), None, "an operation has a name");
    }

    #[test]
    fn truncated_line_has_no_time() {
        let timed = vec![("reset", 1_600_000)];
        let found = Some(Operations { timed, zeros: 0, other_lines: 0, is_cut: true });
        assert_eq!(operations("reset,1600000\nreset,1"), found);
        assert_eq!(operations("reset,1"), None);
    }

    #[test]
    fn bandwidth_is_averaged_within_a_second() {
        let text = "500, 1024, 1, 4096, 0\n1000, 3072, 1, 4096, 0\n2000, 1024, 1, 4096, 0\n";
        assert_eq!(bandwidth_log(text), Some([BySecond::new(), BySecond::from([(0, 2.0), (1, 1.0)])]));
        assert_eq!(bandwidth_log("reset,100\n"), None);
    }

    #[test]
    fn second_without_sample_is_unknown_not_zero() {
        let text = "1000, 1024, 1, 4096, 0\n2001, 1024, 1, 4096, 0\n";
        assert_eq!(bandwidth_log(text), Some([BySecond::new(), BySecond::from([(0, 1.0), (2, 1.0)])]));
    }

    #[test]
    fn parsing_the_committed_corpus_never_panics() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/zns_study");
        for entry in std::fs::read_dir(corpus).unwrap().flatten() {
            let text = std::fs::read(entry.path()).unwrap();
            let text = String::from_utf8_lossy(&text);
            let _ = (operations(&text), bandwidth_log(&text));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_read_or_refused(text in "([a-z]{0,5}[-,.0-9e ]{0,12}\n?){0,20}") {
            let _ = (operations(&text), bandwidth_log(&text));
        }
    }
}
