//! Claims as tables of a page: one per outcome or reason.

use crate::answer::{self, Block};
use crate::markup::{MEASURED, Markup, Pages};
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
    /// HTML.
    pub measured: String,
    /// HTML.
    pub note: String,
    /// Empty if nothing was measured.
    pub rule: &'a str,
    pub verdict: &'static str,
    pub symbol: &'static str,
    pub class: &'static str,
}

/// Groups claims by outcome. The experiment at the beginning of a note links to its page.
pub(crate) fn claims<'a>(findings: &'a [Finding], pages: &Pages) -> Vec<BlockView<'a>> {
    answer::blocks(findings).into_iter().map(|block| BlockView::of(block, pages)).collect()
}

impl<'a> BlockView<'a> {
    fn of(block: Block<'a>, pages: &Pages) -> Self {
        let view = |finding: &'a Finding| FindingView::of(finding, pages);
        let group = |group: answer::Group<'a>| (group.source, group.findings.into_iter().map(view).collect());
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
    fn of(finding: &'a Finding, pages: &Pages) -> Self {
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
            measured: Markup::Html.measured(finding, MEASURED),
            note: Markup::Html.note(&finding.note, pages),
            rule: if finding.measured.is_empty() { "" } else { &finding.rule_text },
            verdict: finding.verdict.text(),
            symbol,
            class,
        }
    }
}
