//! `senesce reproduce --list [--claims]` and `senesce reproduce ID --claims`.

use crate::Exit;
use crate::display::{print_table, terminal_width};
use crate::messages::wrapped;
use crate::output::output_failed;
use crate::registry::REGISTRY;
use senesce_claims::{Claim, ClaimSet};
use senesce_core::{ExitCode, Failure, Rows};
use senesce_runner::Reproducible;
use serde_json::{Value, json};
use std::io::Write;

pub(crate) fn experiments(as_json: bool) -> Result<Exit, Failure> {
    if as_json {
        let list: Vec<_> = REGISTRY.experiments().map(described).collect();
        println!("{}", Value::Array(list));
        return Ok(ExitCode::Done.into());
    }
    let table = Rows::of(REGISTRY.experiments())
        .column("id", |experiment| experiment.kind())
        .column("question", |experiment| experiment.title())
        .table("experiments", "");
    print_table(&mut crate::output::stdout(), &table).map_err(output_failed)?;
    println!("\n`senesce help ID` explains one, `senesce reproduce ID --scale quick` runs it.");
    Ok(ExitCode::Done.into())
}

fn described(experiment: &dyn Reproducible) -> Value {
    let parameters: Vec<_> = experiment
        .parameters()
        .into_iter()
        .map(|p| json!({"name": p.name, "help": p.help, "smoke": p.defaults[0], "quick": p.defaults[1], "paper": p.defaults[2]}))
        .collect();
    json!({"id": experiment.kind(), "title": experiment.title(), "parameters": parameters})
}

pub(crate) fn claims_of<'a>(
    experiments: impl IntoIterator<Item = &'a dyn Reproducible>,
    as_json: bool,
) -> Result<Exit, Failure> {
    let mut list: Vec<Value> = Vec::new();
    for experiment in experiments {
        let set = claims(experiment)?;
        list.extend(set.claims.iter().map(|claim| listed(experiment.kind(), claim, &set)));
    }
    if as_json {
        println!("{}", Value::Array(list));
    } else {
        print_claims(&mut std::io::stdout().lock(), &list).map_err(output_failed)?;
    }
    Ok(ExitCode::Done.into())
}

fn listed(experiment: &str, claim: &Claim, set: &ClaimSet) -> Value {
    json!({
        "experiment": experiment,
        "id": claim.id,
        "claim": claim.sentence,
        "source": claim.source.citation(),
        "source_kind": claim.source.kind,
        "published": claim.published.text(&set.rows),
        "drive": claim.drive,
        "fitted": claim.fitted,
        "rule": claim.rule_text(),
        "note": claim.note,
    })
}

fn print_claims(out: &mut impl Write, list: &[Value]) -> std::io::Result<()> {
    let word = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_string();
    let width = terminal_width();
    for one in list {
        let claim = format!("{}/{}: {}", word(one, "experiment"), word(one, "id"), word(one, "claim"));
        writeln!(out, "{}", wrapped(&claim, width, 4))?;
        for name in ["source", "published", "rule", "note"] {
            let text = word(one, name);
            if !text.is_empty() {
                writeln!(out, "{}", wrapped(&format!("    {:<10} {text}", format!("{name}:")), width, 11))?;
            }
        }
    }
    Ok(())
}

fn claims(experiment: &dyn Reproducible) -> Result<ClaimSet, Failure> {
    let read = ClaimSet::parse(experiment.claims(), experiment.published());
    read.map_err(|error| Failure::new(ExitCode::Usage, format!("{}: {error}", experiment.kind())))
}
