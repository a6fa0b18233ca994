//! Claims as tables of a page: one per outcome or reason.

use crate::answer::{self, Block};
use senesce_core::analysis::{Finding, Verdict};

pub(crate) struct BlockView<'a> {
    pub title: String,
    pub shows_verdicts: bool,
    pub shows_measured: bool,
    pub columns: usize,
    pub groups: Vec<(String, Vec<FindingView<'a>>)>,
}

pub(crate) struct FindingView<'a> {
    pub claim: &'a str,
    pub published: &'a str,
    pub measured: &'a str,
    pub note: &'a str,
    pub verdict: &'static str,
    pub symbol: &'static str,
    pub class: &'static str,
}

pub(crate) fn claims(findings: &[Finding]) -> Vec<BlockView<'_>> {
    answer::blocks(findings).into_iter().map(BlockView::of).collect()
}

impl<'a> BlockView<'a> {
    fn of(block: Block<'a>) -> Self {
        let group =
            |group: answer::Group<'a>| (group.source, group.findings.into_iter().map(FindingView::of).collect());
        let shows_measured =
            block.groups.iter().any(|group| group.findings.iter().any(|finding| !finding.measured.is_empty()));
        Self {
            title: block.title,
            shows_verdicts: block.shows_verdicts,
            shows_measured,
            columns: 2 + usize::from(shows_measured) + usize::from(block.shows_verdicts),
            groups: block.groups.into_iter().map(group).collect(),
        }
    }
}

impl<'a> FindingView<'a> {
    fn of(finding: &'a Finding) -> Self {
        let (symbol, class) = match finding.verdict {
            Verdict::Supported => ("✓", "good"),
            Verdict::NotSupported => ("✗", "bad"),
            Verdict::Undecided => ("?", "open"),
            Verdict::NotTestable => ("○", "open"),
            Verdict::ModelAgrees => ("≈", "open"),
            Verdict::ModelDiffers => ("≠", "bad"),
            Verdict::NotRun => ("·", "open"),
        };
        Self {
            claim: &finding.claim,
            published: &finding.published,
            measured: &finding.measured,
            note: &finding.note,
            verdict: finding.verdict.text(),
            symbol,
            class,
        }
    }
}
