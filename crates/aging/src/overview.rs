//! Describes profiles in words and tables, and their effect on a volume.

use crate::capture::AgeEdge;
use crate::capture::changes::{ObservedChanges, StatedBy};
use crate::error::AgingError;
use crate::plan::{AgingPlan, DEFAULT_FULLNESS, PlanSpec};
use crate::profile::{BUILTIN, Profile};
use senesce_core::{Analysis, Bytes, Table};
use senesce_volume::FileSystem;
use serde_json::{Value, json};
use std::sync::Arc;

pub fn list() -> Result<Table, AgingError> {
    let heads = ["profile", "mean size", "size bins", "depths", "directories", "age bins", "source"];
    let mut table = Table::new("profiles", "Built-in profiles", &heads);
    for (name, _) in BUILTIN {
        let profile = Profile::builtin(name)?;
        let directories = crate::plan::DirectoryTree::new(&profile).count();
        table.row((
            name,
            Bytes(profile.mean_size() as u64).to_string(),
            profile.sizes.len(),
            profile.depths.len(),
            directories,
            profile.ages.len(),
            &profile.source,
        ));
    }
    Ok(table)
}

/// Formats the locality with its evidence: no built-in profile has a measured locality.
fn locality_words(profile: &Profile) -> String {
    match profile.locality {
        None => "not given: 0".into(),
        Some(locality) if Profile::builtin(&profile.name).is_ok_and(|known| known == *profile) => {
            format!("{locality}, assumed: the median of real trees (senesce help choosing)")
        }
        Some(locality) => locality.to_string(),
    }
}

pub fn describe(profile: &Profile, plan: Option<&AgingPlan>) -> Analysis {
    let mean = profile.mean_size();
    let mut analysis = Analysis {
        title: format!("Profile {}", profile.name),
        summary: format!(
            "{}\nmean file size {} ({mean:.0} bytes)\nfullness {}\ntemporal locality {}",
            profile.source,
            Bytes(mean as u64),
            fullness_words(profile),
            locality_words(profile)
        ),
        ..Analysis::default()
    };
    analysis.tables.push(histogram(
        "sizes",
        "Sizes: files of exactly this size",
        &["size", "bytes"],
        profile.sizes.iter().map(|row| (vec![json!(row.bytes.to_string()), json!(row.bytes.0)], row.weight)),
    ));
    analysis.tables.push(histogram(
        "depths",
        "Depths: directories above a file, and subdirectories at that depth",
        &["depth", "subdirectories"],
        profile.depths.iter().map(|row| (vec![json!(row.depth), json!(row.subdirectories)], row.weight)),
    ));
    let oldest = profile.ages[profile.ages.len() - 1].edge;
    analysis.tables.push(histogram(
        "ages",
        "Ages: files up to this age",
        &["edge", "% of the oldest"],
        profile.ages.iter().map(|row| (vec![json!(row.edge), json!(row.edge / oldest * 100.0)], row.weight)),
    ));
    if !profile.changes.is_empty() {
        analysis.tables.push(changes(profile));
    }
    analysis.result = json!({"profile": profile, "mean_size": mean});
    if let Some(plan) = plan {
        let summary = plan.summary();
        let seconds = FileSystem::Ext4.seconds_of_operations(summary.t_end);
        analysis.tables.push(volume_table(plan, seconds));
        analysis.result["plan"] = json!(summary);
        analysis.result["estimated_seconds"] = json!(seconds);
    }
    analysis
}

fn fullness_words(profile: &Profile) -> String {
    match profile.fullness {
        Some(share) => format!("{:.1} %", share * 100.0),
        None => format!("not recorded: {:.0} % by default", DEFAULT_FULLNESS * 100.0),
    }
}

fn changes(profile: &Profile) -> Table {
    let heads = ["size up to", "bytes", "appends", "truncations", "overwrites", "renames", "punches"];
    let mut table = Table::new("changes", "Changes for each created file", &heads);
    for row in &profile.changes {
        let rates = row.rates().map(|rate| json!(rate));
        table.row([json!(row.bytes.to_string()), json!(row.bytes.0)].into_iter().chain(rates).collect::<Vec<_>>());
    }
    table
}

fn volume_table(plan: &AgingPlan, seconds: f64) -> Table {
    let summary = plan.summary();
    let title = format!("On a volume of {} at fullness {}", summary.capacity, summary.fullness);
    let mut table = Table::new("volume", &title, &["what", "value"]);
    let mut row = |what: &str, value: String| table.row((what, value));
    row("live files K", summary.files.to_string());
    row("bound of T (operations)", format!("{:.0}", summary.t_bound));
    row("operations T", summary.t_end.to_string());
    row("bytes created", format!("{} ({:.2} times the volume)", summary.bytes_created, summary.overwrites));
    row("estimated time", format!("{seconds:.1} s on ext4 in memory, without writes of data"));
    let names = |list: Vec<String>| if list.is_empty() { "none".to_string() } else { list.join(", ") };
    let sizes = summary.empty_sizes.iter().map(Bytes::to_string).collect();
    let locality = summary.locality.map_or("none".to_string(), |locality| locality.to_string());
    row("temporal locality", locality);
    row("sizes that round to zero files", names(sizes));
    row("depths that round to zero files", names(summary.empty_depths.iter().map(u32::to_string).collect()));
    row("age edges that round to zero files", names(summary.empty_ages.iter().map(f64::to_string).collect()));
    let truncated = summary
        .truncated
        .iter()
        .map(|cut| format!("{} {}", cut.bytes, if cut.clamped { "clamped" } else { "dropped" }));
    row("sizes that do not fit", names(truncated.collect()));
    table
}

fn histogram(id: &str, title: &str, heads: &[&str], rows: impl Iterator<Item = (Vec<Value>, f64)>) -> Table {
    let rows: Vec<(Vec<Value>, f64)> = rows.collect();
    let total: f64 = rows.iter().map(|(_, weight)| weight).sum();
    let most = rows.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
    let heads: Vec<&str> = heads.iter().copied().chain(["% of files", ""]).collect();
    let mut table = Table::new(id, title, &heads);
    for (mut cells, weight) in rows {
        let bar = (weight / most * 40.0).round() as usize;
        cells.push(json!(weight / total * 100.0));
        cells.push(json!("#".repeat(if weight > 0.0 { bar.max(1) } else { 0 })));
        table.row(cells);
    }
    table
}

/// Plans every built-in profile to its bound on a volume and measures the end. `cpu_seconds` returns the CPU time of this
/// process.
///
/// # Errors
/// Those of [`AgingPlan::new`] for the first profile that cannot be planned.
pub fn planned(make: impl Fn(Profile) -> PlanSpec, cpu_seconds: impl Fn() -> f64) -> Result<Table, AgingError> {
    let heads = [
        "profile",
        "K",
        "T",
        "T / bound",
        "overwrites",
        "RMSE age (%)",
        "RMSE size (%)",
        "RMSE depth (%)",
        "fullness min",
        "fullness max",
        "created-size TV",
        "CPU-seconds",
        "M operations / CPU-s",
    ];
    let mut table = Table::new("planned", "Built-in profiles, planned to the bound", &heads);
    for (name, _) in BUILTIN {
        let begun = cpu_seconds();
        let plan = Arc::new(AgingPlan::new(&make(Profile::builtin(name)?))?);
        let mut planner = plan.operations();
        planner.skip_to(u64::MAX);
        let spent = cpu_seconds() - begun;
        let (summary, measured) = (plan.summary(), planner.measures());
        table.row((
            name,
            &summary.files,
            &summary.t_end,
            summary.t_end as f64 / summary.t_bound,
            &measured.overwrites,
            measured.rmse.age * 100.0,
            measured.rmse.size * 100.0,
            measured.rmse.depth * 100.0,
            &measured.fullness.min,
            &measured.fullness.max,
            measured.created_size_tv,
            spent,
            summary.t_end as f64 / spent / 1e6,
        ));
    }
    Ok(table)
}

pub fn edge_costs(edges: &[AgeEdge]) -> Table {
    let heads = ["age up to (s)", "files", "operations per live file", "kept"];
    let mut table = Table::new("edges", "Age edges and their costs", &heads);
    for edge in edges {
        let kept = if edge.kept { "yes" } else { "no, merged with its neighbour" };
        table.row((&edge.seconds, &edge.files, &edge.operations_per_file, kept));
    }
    table
}

pub fn observed_changes(observed: &ObservedChanges) -> Table {
    let heads = ["size up to", "created", "deleted", "kept", "appends", "truncations", "overwrites", "renames"];
    let mut table = Table::new("observed", "Files between the two snapshots", &heads);
    for class in &observed.classes {
        let counts = [class.created, class.deleted, class.kept, class.appends, class.truncations, class.overwrites];
        let cells = counts.into_iter().chain([class.renames]).map(|count| json!(count));
        table.row(std::iter::once(json!(Bytes(class.bytes).to_string())).chain(cells).collect::<Vec<_>>());
    }
    table
}

pub fn match_description(told_by: StatedBy) -> &'static str {
    match told_by {
        StatedBy::Inode => "changes: files matched by inode and time of birth",
        StatedBy::Path => {
            "changes: no file has the same inode and time of birth in both trees, so files are matched by path: a \
             rename counts as a delete and a create, and a replaced file as overwritten; ages are those of last \
             modifications, because births are those of the copies"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locality_of_a_built_in_profile_is_an_assumption() {
        let built_in = Profile::builtin("agrawal").unwrap();
        let measured = Profile { locality: Some(0.3), ..built_in.clone() };
        assert!(locality_words(&built_in).contains("assumed"));
        assert_eq!(locality_words(&measured), "0.3");
    }

    #[test]
    fn recorded_fullness_is_shown() {
        let built_in = Profile::builtin("agrawal").unwrap();
        let recorded = Profile { fullness: Some(0.613), ..built_in.clone() };
        assert!(describe(&recorded, None).summary.contains(" 61.3 %"));
        assert!(describe(&Profile { fullness: None, ..built_in }, None).summary.contains(" 80 %"));
    }
}
