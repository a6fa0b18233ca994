//! Values of a cell under the conditions that its claims name.

use super::cell::{CellEnd, CellKind, MeasuredCell};
use senesce_core::{Better, Measurement};

const STEPS: [&str; 4] = ["commit1", "commit2", "status1", "status2"];

impl MeasuredCell {
    pub(crate) fn is_valid(&self) -> bool {
        self.verified != Some(false)
    }

    /// Returns times and sizes if the store holds the committed data, and whether it does.
    pub(crate) fn measurements(&self) -> Vec<Measurement> {
        let mut found = Vec::new();
        let mut put = |metric: &str, unit: &str, better, value: f64| {
            found.extend(Measurement::new(metric, unit, better, value).ok().map(|one| self.under_condition(one)));
        };
        if self.is_valid() {
            for step in STEPS.iter().filter_map(|name| self.step(name)) {
                put(&step.step, "s", Better::Lower, step.seconds);
            }
            for (commit, size) in [("commit1", "size1"), ("commit2", "size2")] {
                let Some(bytes) = self.size(commit) else { continue };
                put(size, "bytes", Better::Lower, bytes as f64);
                put(&format!("{size} over data"), "times", Better::Lower, bytes as f64 / self.kind.bytes() as f64);
            }
        }
        if let Some(share) = self.commits_that_succeed() {
            put("commits that succeed", "%", Better::Higher, share);
        }
        if let Some(held) = self.verified {
            put("commits that hold the data", "%", Better::Higher, if held { 100.0 } else { 0.0 });
        }
        found
    }

    /// Returns the percentage of commits that succeed. A cell ended by the time limit, a signal or a full file system
    /// does not count.
    fn commits_that_succeed(&self) -> Option<f64> {
        match self.ended {
            Some(CellEnd::Rejected) => Some(0.0),
            _ => self.step("commit2").map(|_| 100.0),
        }
    }

    fn under_condition(&self, one: Measurement) -> Measurement {
        let one = Measurement { repetition: self.repeat as u32, ..one.under("system", &*self.system) };
        match self.kind {
            CellKind::ManyFiles(count) => one.under("files", count.to_string()),
            CellKind::FileSize(bytes) => one.under("size", (bytes as f64 / f64::from(1 << 30)).to_string()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::vcs_scaling::VcsScaling;
    use crate::vcs_scaling::cell::StepTime;
    use senesce_claims::{ClaimSet, Facts, decide, untested};
    use senesce_core::{Level, Verdict};
    use senesce_runner::Run;

    pub(crate) fn cell(system: &str, kind: CellKind, repeat: u64) -> MeasuredCell {
        let step = |step: &str| StepTime {
            step: step.into(),
            seconds: 1.0,
            user_seconds: 0.5,
            system_seconds: 0.5,
            peak_bytes: 1,
            sync_seconds: 0.0,
        };
        MeasuredCell {
            system: system.into(),
            kind,
            repeat,
            steps: STEPS.map(step).to_vec(),
            sizes: vec![("commit1".into(), 4096), ("commit2".into(), 8192)],
            verified: Some(true),
            problem: None,
            ended: None,
        }
    }

    fn set() -> ClaimSet {
        ClaimSet::parse(VcsScaling::CLAIMS, VcsScaling::PUBLISHED).unwrap()
    }

    fn values(cells: &[MeasuredCell]) -> Vec<Measurement> {
        cells.iter().flat_map(MeasuredCell::measurements).collect()
    }

    #[test]
    fn every_claim_finds_its_values() {
        let files = [10_000, 100_000, 1_000_000, 5_000_000].map(CellKind::ManyFiles);
        let sizes = [2, 12, 64].map(|gib: u64| CellKind::FileSize(gib << 30));
        let mut cells = Vec::new();
        for system in ["git", "hg", "bup", "copy", "own-pack", "own-2x1"] {
            for kind in files.iter().chain(&sizes) {
                cells.extend((0..5).map(|repeat| cell(system, *kind, repeat)));
            }
        }
        assert_eq!(untested(&set(), &values(&cells)), Vec::<String>::new());
    }

    fn verdict(id: &str, cells: &[MeasuredCell]) -> Verdict {
        let found = decide(&set(), &values(cells), &Facts::of(Level::Quick));
        found.into_iter().find(|finding| finding.id == id).unwrap().verdict
    }

    #[test]
    fn cell_cut_by_the_time_limit_does_not_count() {
        let whole = cell("git", CellKind::ManyFiles(100), 0);
        let cut = MeasuredCell { verified: None, ended: Some(CellEnd::Cut), ..cell("hg", CellKind::ManyFiles(100), 0) };
        let lost = MeasuredCell { verified: Some(false), ..cell("hg", CellKind::ManyFiles(100), 0) };
        let of = |cells: &[MeasuredCell]| verdict("every-commit-holds-its-data", cells);
        assert_eq!(of(&[whole.clone(), cut.clone()]), Verdict::Supported);
        assert_eq!(of(&[whole, lost]), Verdict::NotSupported);
        assert_eq!(of(&[cut]), Verdict::NotTestable);
    }

    #[test]
    fn store_that_lost_data_has_no_times() {
        let lost = MeasuredCell { verified: Some(false), ..cell("hg", CellKind::ManyFiles(100), 0) };
        let names: Vec<String> = lost.measurements().into_iter().map(|one| one.metric).collect();
        assert_eq!(names, ["commits that succeed", "commits that hold the data"]);
    }

    #[test]
    fn rejected_commit_can_still_hold_the_data() {
        let large = CellKind::FileSize(12 << 30);
        let mut rejected = MeasuredCell { ended: Some(CellEnd::Rejected), ..cell("git", large, 0) };
        rejected.steps.retain(|step| step.step != "commit2");
        assert_eq!(verdict("git-errs-at-12g", &[rejected.clone()]), Verdict::Supported);
        assert_eq!(verdict("data-intact", &[rejected]), Verdict::Supported);
    }
}
