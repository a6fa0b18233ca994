//! Effects of aged files and of aged free space, under the agings whose states are proven.

use super::Spec;
use super::contrast::{Block, ERROR, Effect, Factor, MARGIN, Metric, Workload, blocks, metrics};
use super::proof::{Proof, Proven, prove};
use super::work::MeasuredState;
use senesce_core::analysis::{Analysis, Axis, Better, Figure, FigureKind, Mark, Series, Table};
use senesce_core::{Measurement, Rows, Size};
use senesce_stats::spearman;
use serde_json::json;

pub(super) fn analyse(spec: &Spec, states: &[MeasuredState]) -> Analysis {
    let proven: Vec<Proven<'_>> = blocks(states).into_iter().map(prove).collect();
    let effects: Vec<Effect> = proven.iter().flat_map(effects).collect();
    let proofs: Vec<&Proof> = proven.iter().map(|one| &one.proof).collect();
    let reasons = |proof: &&Proof| {
        let aging = proof.aging.clone();
        proof.reasons.clone().into_iter().map(move |reason| format!("left out, {aging}: {reason}"))
    };
    Analysis {
        title: "Do aged files or aged free space cost time?".into(),
        summary: summary(&effects, &proofs),
        figures: figures(spec, &effects),
        tables: vec![table(&effects), proof_table(&proofs)],
        findings: Vec::new(),
        caveats: proofs.iter().flat_map(reasons).chain(proven.iter().flat_map(|one| too_large(spec, one))).collect(),
        result: json!({"margin": MARGIN, "error": ERROR, "size_correlation": size_correlation(&effects), "effects": effects, "proofs": proofs}),
    }
}

/// Names the new files that took more than half of the free space.
fn too_large<'a>(spec: &'a Spec, proven: &'a Proven<'_>) -> impl Iterator<Item = String> + 'a {
    let states: Vec<&MeasuredState> = proven.blocks.iter().flat_map(Block::all).collect();
    let lacks = move |size: &&Size| states.iter().any(|one| one.new_files.iter().all(|new| new.size != **size));
    let name = |size: &Size| format!("left out, {}: new files of {size} do not fit", proven.aging);
    spec.file_sizes.iter().filter(lacks).map(name)
}

fn effects(proven: &Proven<'_>) -> Vec<Effect> {
    let states = proven.blocks.iter().flat_map(Block::all);
    let Some(largest) = states.max_by_key(|one| one.new_files.len()) else { return Vec::new() };
    let mut all = Vec::new();
    for metric in metrics(largest) {
        let allowed = Factor::ALL.into_iter().filter(|factor| proven.proof.allows(*factor));
        all.extend(allowed.map(|factor| effect(proven, &metric, factor)));
    }
    all
}

fn effect(proven: &Proven<'_>, metric: &Metric, factor: Factor) -> Effect {
    let (decision, seeds) = factor.decide(&proven.blocks, &*metric.value);
    let over = |size: u64| Some(size as f64 / proven.proof.mean_free_extent?);
    Effect {
        aging: proven.aging.to_string(),
        factor,
        metric: metric.name(),
        is_write_to_disk: metric.is_write_to_disk(),
        is_ssd: metric.value_name == "SSD",
        size_over_extent: metric.workload.1.and_then(|size| over(size.bytes())),
        verdict: decision.verdict.word(),
        interval: decision.interval,
        seeds,
    }
}

/// Returns Spearman's coefficient of the cost of aged free space for writes with the size of a new file over the mean
/// free extent. Sizes of one aging depend on each other, so it has no interval.
fn size_correlation(effects: &[Effect]) -> Option<f64> {
    let shown = effects.iter().filter(|effect| effect.factor == Factor::FreeSpace && effect.is_write_to_disk);
    let (over, cost): (Vec<f64>, Vec<f64>) =
        shown.filter_map(|effect| Some((effect.size_over_extent?, effect.interval.as_ref()?.value))).unzip();
    spearman(&over, &cost).map(|found| found.value)
}

/// Formats the number of effects that are costs, out of all.
fn costs<'a>(effects: impl Iterator<Item = &'a Effect>) -> String {
    let all: Vec<&Effect> = effects.collect();
    format!("{} of {}", all.iter().filter(|effect| effect.is_cost()).count(), all.len())
}

/// Returns whether a write also takes more requests. If not, it is only at another address, because ballast and filler
/// have different addresses.
fn has_more_requests(effects: &[Effect], write: &Effect) -> bool {
    let requests = write.metric.replace(", disk", ", requests");
    let is_it = |one: &&Effect| (&one.aging, one.factor, &one.metric) == (&write.aging, write.factor, &requests);
    effects.iter().find(is_it).is_some_and(Effect::is_cost)
}

fn summary(effects: &[Effect], proofs: &[&Proof]) -> String {
    let of = |factor| effects.iter().filter(move |effect| effect.factor == factor);
    let is_larger = |effect: &&Effect| effect.size_over_extent.is_some_and(|over| over > 1.0);
    let writes = |larger: bool| {
        let all = of(Factor::FreeSpace).filter(|effect| effect.is_write_to_disk);
        let all: Vec<&Effect> = all.filter(|effect| is_larger(effect) == larger).collect();
        let slower = all.iter().filter(|effect| effect.is_cost() && has_more_requests(effects, effect)).count();
        format!("{slower} of {}", all.len())
    };
    let proven = proofs.iter().filter(|proof| proof.allows(Factor::Interaction)).count();
    if effects.is_empty() {
        return format!("Undecided: of {} agings, none has proven states of five seeds.", proofs.len());
    }
    format!(
        "Aged files slow a cold read from the disk in {} agings; aged free space slows writes to it by more requests in {} \
         cases with new files larger than the mean free extent, and in {} with smaller ones.\n\nThe rank correlation of the \
         write time with the size of the file over the extent is {}. On the SSD, aged files cost time in {} cases, and aged \
         free space in {}. Both factors are proven to differ in {proven} of {} agings. A cost is a ratio of at least {:.2} \
         whose interval is above 1.",
        costs(of(Factor::Files).filter(|effect| effect.metric == "cold read, disk")),
        writes(true),
        writes(false),
        size_correlation(effects).map_or_else(|| "unknown".into(), |value| format!("{value:.2}")),
        costs(of(Factor::Files).filter(|effect| effect.is_ssd)),
        costs(of(Factor::FreeSpace).filter(|effect| effect.is_ssd)),
        proofs.len(),
        1.0 + MARGIN
    )
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn table(effects: &[Effect]) -> Table {
    let end = |effect: &Effect, of: fn(&senesce_stats::Interval) -> f64| effect.interval.as_ref().map(of).map(round);
    Rows::of(effects)
        .column("aging", |effect| &effect.aging)
        .column("metric", |effect| &effect.metric)
        .column("factor", |effect| effect.factor.name())
        .column("aged over young", |effect| end(effect, |interval| interval.value))
        .column("from", |effect| end(effect, |interval| interval.low))
        .column("to", |effect| end(effect, |interval| interval.high))
        .column("verdict", |effect| effect.verdict)
        .column("file size over free extent", |effect| effect.size_over_extent.map(round))
        .column("seeds", |effect| effect.seeds)
        .table("effects", "Effects of age")
        .leading()
}

fn proof_table(proofs: &[&Proof]) -> Table {
    Rows::of(proofs)
        .column("aging", |proof| &proof.aging)
        .column("seeds", |proof| format!("{} of {}", proof.proven, proof.seeds))
        .column("identical files", |proof| proof.identical_files)
        .column("identical free space", |proof| proof.identical_free)
        .column("free extents where held, at most", |proof| proof.held_free_extents.map(round))
        .column("files", |proof| &proof.files_moved)
        .column("gaps, aged over young", |proof| proof.gaps.map(round))
        .column("free space", |proof| &proof.free_moved)
        .column("free extents, aged over young", |proof| proof.free_extents.map(round))
        .column("live share", |proof| proof.live_share.map(round))
        .column("fullness while aging", |proof| proof.aging_fullness.map(round))
        .column("free share", |proof| proof.free_share.map(round))
        .column("mean free extent, KiB", |proof| proof.mean_free_extent.map(|bytes| round(bytes / 1024.0)))
        .table("proofs", "Proofs of the states")
}

/// Draws the effect of aged free space on writes, by size of the new file over the mean free extent.
fn figures(spec: &Spec, effects: &[Effect]) -> Vec<Figure> {
    let shown = effects.iter().filter(|effect| effect.factor == Factor::FreeSpace && effect.is_write_to_disk);
    let mut agings: Vec<&str> = shown.clone().map(|effect| effect.aging.as_str()).collect();
    agings.dedup();
    let series = |aging: &str| {
        let own = shown.clone().filter(|effect| effect.aging == aging);
        let points: Vec<_> =
            own.filter_map(|effect| Some((effect.size_over_extent?, effect.interval.as_ref()?))).collect();
        Series {
            intervals: points.iter().map(|(_, interval)| interval.drawn_ends()).collect(),
            ..Series::new(aging, Mark::Measured, points.iter().map(|(over, one)| (*over, one.value)).collect())
        }
    };
    vec![Figure {
        id: "free-space".into(),
        title: "Write time in aged free space over young".into(),
        caption: "1: as fast as in young free space. Lines are 95 % intervals, blocked by seed.".into(),
        device: format!("modelled disk; images of {} aged in virtual time", spec.size),
        better: Better::Lower,
        kind: FigureKind::Lines {
            x: Axis::linear("size of a new file over the mean free extent").log10(),
            y: Axis::linear("ratio").log10(),
            series: agings.into_iter().map(series).collect(),
        },
    }]
}

pub(super) fn measurements(one: &MeasuredState) -> Vec<Measurement> {
    let of = |metric: Metric| {
        let step = &one.step;
        let Workload(workload, size) = metric.workload;
        let name = format!("{workload}, {}", metric.value_name);
        let measured = Measurement::new(&name, metric.unit, Better::Lower, (metric.value)(one)?).ok()?;
        let measured = measured.under("fs", step.aging.fs.name()).under("profile", &*step.aging.profile);
        let measured = measured.under("fullness", step.aging.fullness.to_string());
        let measured = measured.under("overwrites", step.aging.overwrites.to_string());
        let measured = measured.under("files", step.files.to_string()).under("free", step.free.to_string());
        let measured = size.into_iter().fold(measured, |one, size| one.under("size", size.to_string()));
        Some(Measurement { image: step.seed, ..measured })
    };
    metrics(one).into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Aging, FilesOrFreeSpace, LayoutAge, Step};
    use super::*;
    use senesce_claims::{ClaimSet, untested};
    use senesce_core::{Bytes, Level};
    use senesce_runner::{Experiment, Run};
    use senesce_volume::FileSystem;
    use serde_json::Value;

    fn state(seed: u32, files: LayoutAge, free: LayoutAge) -> MeasuredState {
        let aging = Aging { fs: FileSystem::Ext4, profile: "agrawal".into(), fullness: 0.85, overwrites: 4.0 };
        let noise = 1.0 + 0.01 * f64::from(seed % 3);
        let (old_files, old_free) = (files == LayoutAge::Aged, free == LayoutAge::Aged);
        let pick = |is_old: bool, old: f64, young: f64| noise * if is_old { old } else { young };
        let seconds = |of: f64| json!({"disk": of, "ssd": 1.0});
        let written = |of: f64| json!({"requests": (100.0 * of) as u64, "bytes": 1, "seconds": seconds(of)});
        let new = |size: &str, of: f64| {
            let (written, read_back) = (written(of), seconds(of));
            json!({"size": size, "files": 1, "extents": 1, "written": written, "read_back": read_back})
        };
        let measured = json!({
            "step": Step { kernel: "6.12".into(), aging, seed, files, free },
            "base": seed.to_string(),
            "usable": 100_000_000,
            "tree": {
                "files": 100, "bytes": 70_000_000, "extents": 100, "gaps": pick(old_files, 900.0, 100.0) as u64,
                "hash": u64::from(seed) * 2 + u64::from(old_files),
            },
            "free": {
                "bytes": 15_000_000, "extents": pick(old_free, 500.0, 5.0) as u64,
                "mean_extent": if old_free { 1e5 } else { 1e7 }, "places": u64::from(seed) * 2 + u64::from(old_free),
            },
            "cold_read": seconds(pick(old_files, 2.0, 1.0)),
            "new_files": [new("16K", noise), new("64K", pick(old_free, 1.5, 1.0)), new("4M", pick(old_free, 3.0, 1.0))],
            "overwrite": written(noise),
            "append": new("0", pick(old_free, 1.5, 1.0) * if old_files && old_free { 2.0 } else { 1.0 }),
        });
        serde_json::from_value(measured).expect("a state")
    }

    fn states(seeds: u32) -> Vec<MeasuredState> {
        let of = |seed| {
            LayoutAge::ALL.into_iter().flat_map(move |files| LayoutAge::ALL.map(|free| state(seed, files, free)))
        };
        (0..seeds).flat_map(of).collect()
    }

    fn analysed(states: &[MeasuredState]) -> Analysis {
        let file_sizes = [16, 64, 4096].map(|kib| Size(Bytes::kib(kib))).to_vec();
        analyse(&Spec { file_sizes, ..FilesOrFreeSpace::defaults(Level::Quick) }, states)
    }

    /// Returns the ratio, rounded to tenths, and the verdict of an effect.
    fn found(result: &Value, factor: &str, metric: &str) -> Option<(f64, String)> {
        let all = result["effects"].as_array().expect("effects");
        let one = all.iter().find(|one| one["factor"] == factor && one["metric"] == metric)?;
        let ratio = one["interval"]["value"].as_f64().expect("a ratio");
        Some(((ratio * 10.0).round() / 10.0, one["verdict"].as_str().expect("a word").into()))
    }

    #[test]
    fn injected_effects_are_found() {
        let analysis = analysed(&states(6));
        let is = |factor, metric: &str, ratio: f64, word: &str| {
            assert_eq!(found(&analysis.result, factor, metric), Some((ratio, word.to_string())), "{factor} {metric}");
        };
        is("files", "cold read, disk", 2.0, "worse");
        is("free-space", "cold read, disk", 1.0, "equivalent");
        is("free-space", "write 4M, disk", 3.0, "worse");
        is("free-space", "write 16K, disk", 1.0, "equivalent");
        is("files", "write 4M, disk", 1.0, "equivalent");
        is("interaction", "write 4M, disk", 1.0, "equivalent");
        // 1.5 with young files, and 3 with aged ones.
        is("interaction", "append, disk", 2.0, "worse");
        is("free-space", "append, disk", 2.1, "worse");
        assert!(analysis.caveats.is_empty(), "{:?}", analysis.caveats);
        assert_eq!(analysis.result["size_correlation"], 1.0);
        let writes = "in 1 of 1 cases with new files larger than the mean free extent, and in 1 of 2 with smaller ones";
        assert!(analysis.summary.contains(writes), "{}", analysis.summary);
    }

    #[test]
    fn relocated_writes_without_more_requests_have_no_cost() {
        let mut all = states(6);
        all.iter_mut().flat_map(|one| &mut one.new_files).for_each(|new| new.written.requests = 100);
        let summary = analysed(&all).summary;
        assert!(summary.contains("in 0 of 1 cases with new files larger than"), "{summary}");
    }

    #[test]
    fn seed_with_a_failed_proof_is_named_and_left_out() {
        type Change = fn(&mut MeasuredState);
        let all = states(6);
        let changed = |change: Change| {
            let mut all = all.clone();
            change(&mut all[0]);
            analysed(&all)
        };
        let changes: [(Change, &str); 5] = [
            (|one| one.base = Some("other".into()), "different layouts"),
            (|one| one.tree.files += 1, "different files"),
            (|one| one.free.bytes = one.free.bytes * 11 / 10, "free bytes"),
            (|one| one.tree.gaps = one.tree.gaps * 11 / 10, "files differ"),
            (|one| one.free.mean_extent *= 1.1, "free space differs"),
        ];
        for (change, reason) in changes {
            let analysis = changed(change);
            assert_eq!(analysis.result["proofs"][0]["proven"], 5, "{reason}");
            assert!(analysis.caveats.len() == 1 && analysis.caveats[0].contains(reason), "{:?}", analysis.caveats);
            assert_eq!(analysis.result["effects"][0]["seeds"], 5);
        }
        assert_eq!(changed(|one| one.tree.hash += 1).result["proofs"][0]["identical_files"], 5);
    }

    #[test]
    fn sizes_that_do_not_fit_are_named() {
        let mut all = states(6);
        all[0].new_files.pop();
        let analysis = analysed(&all);
        assert_eq!(analysis.caveats.len(), 1);
        assert!(analysis.caveats[0].contains("new files of 4M do not fit"), "{:?}", analysis.caveats);
        let write = analysis.result["effects"].as_array().unwrap().iter().find(|one| one["metric"] == "write 4M, disk");
        assert_eq!(write.unwrap()["seeds"], 5);
    }

    #[test]
    fn factor_that_was_not_changed_has_no_effects() {
        let mut all = states(6);
        all.iter_mut().for_each(|one| one.free.extents = 5);
        let analysis = analysed(&all);
        assert_eq!(analysis.caveats.len(), 1, "{:?}", analysis.caveats);
        assert_eq!(found(&analysis.result, "free-space", "write 4M, disk"), None);
        assert_eq!(found(&analysis.result, "interaction", "write 4M, disk"), None);
        assert!(found(&analysis.result, "files", "cold read, disk").is_some());
    }

    #[test]
    fn missing_states_and_few_seeds_decide_nothing() {
        let without = analysed(&states(6)[1..]);
        assert_eq!(
            (&without.result["proofs"][0]["seeds"], &without.result["proofs"][0]["proven"]),
            (&6.into(), &5.into())
        );
        for few in [states(4), Vec::new()] {
            let analysis = analysed(&few);
            assert!(analysis.summary.starts_with("Undecided"), "{}", analysis.summary);
            assert_eq!(analysis.result["effects"], json!([]));
        }
    }

    #[test]
    fn every_claim_finds_its_values() {
        let set = ClaimSet::parse(FilesOrFreeSpace::CLAIMS, FilesOrFreeSpace::PUBLISHED).unwrap();
        let all: Vec<Measurement> = states(1).iter().flat_map(measurements).collect();
        assert_eq!(untested(&set, &all), Vec::<String>::new());
    }

    #[test]
    fn measurements_name_their_state_and_size() {
        let all = measurements(&state(3, LayoutAge::Young, LayoutAge::Aged));
        let sizes: Vec<Size> =
            state(3, LayoutAge::Young, LayoutAge::Aged).new_files.iter().map(|new| new.size).collect();
        assert_eq!(all.iter().filter(|one| one.metric == "write, disk").count(), sizes.len());
        assert!(all.iter().all(|one| one.image == 3 && one.condition["free"] == "aged"));
    }
}
