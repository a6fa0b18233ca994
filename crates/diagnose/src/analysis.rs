//! Tables and figures of a prognosis.

use crate::estimate::Prognosis;
use crate::headroom::CreatableFiles;
use crate::twin::FAILED;
use senesce_core::{Analysis, Bytes, Rows, Table, number_of};
use serde_json::json;

const ROWS: usize = 20;

pub fn analysis(found: &Prognosis) -> Analysis {
    let mut tables = vec![reading(found)];
    if !found.models.is_empty() {
        tables.push(models(found));
    }
    tables.push(remedies(found));
    if !found.creatable.is_empty() {
        tables.push(creatable(found));
    }
    if !found.longest_free.is_empty() {
        tables.push(longest_free(found));
    }
    tables.push(directories(found));
    tables.extend((!found.worst.is_empty()).then(|| worst(found)));
    tables.push(plan(found));
    Analysis {
        title: format!("Prognosis of {} ({})", found.target, found.file_system),
        summary: found.sentence.clone(),
        caveats: caveats(found),
        tables,
        result: json!(found),
        ..Analysis::default()
    }
}

fn caveats(found: &Prognosis) -> Vec<String> {
    let mut notes = found.notes.clone();
    if !found.drive.known {
        notes.push(format!("the drive is not known: {}", found.drive.reason));
    }
    if found.unseen_share > 0.0 {
        notes.push(format!("{:.1} % was not accessible", found.unseen_share * 100.0));
    }
    if found.twin.is_none() && !found.creatable.is_empty() {
        notes.push("rules predict the files that can be created; --try lets the kernel create them on a twin".into());
    }
    if found.worst.is_empty() {
        notes.push("no file costs more because of its fragments".into());
    }
    let advice = &found.defragmenter;
    notes.extend(
        advice
            .immovable
            .iter()
            .map(|(reason, files)| format!("{} in pieces cannot be moved: {reason}", number_of(*files, "file"))),
    );
    let breaks = &found.breaks;
    let counts = [
        (breaks.shared_files, "files share extents (reflinks, snapshots): moved extents take new space"),
        (breaks.encoded_files, "files are compressed or encrypted: a remedy may write them in another form"),
        (breaks.extra_links, "hard links would become separate files in a copy"),
    ];
    notes.extend(counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}")));
    notes
}

fn reading(found: &Prognosis) -> Table {
    let title = format!(
        "Reading {} ({}{}) once in {} order on the modelled drive {}",
        number_of(found.files, "file"),
        Bytes(found.bytes),
        match found.unwritten.bytes {
            0 => String::new(),
            bytes => format!(" written, {} preallocated", Bytes(bytes)),
        },
        found.order.name(),
        found.drive.name
    );
    let mut table = Table::new("reading", &title, &["state", "seconds"]);
    table.row(("as they lie", found.now_seconds));
    table.row(("after an ideal defragmentation of files (no tool beats it)", found.ideal_seconds));
    table.row(("copied out and back in this order", found.rewritten_seconds));
    table
}

fn models(found: &Prognosis) -> Table {
    Rows::of(&found.models)
        .column("model", |model| &model.model)
        .column("now (s)", |model| &model.seconds.now)
        .column("ideal (s)", |model| model.seconds.ideal)
        .column("rewritten (s)", |model| model.seconds.rewritten)
        .table("models", "The same on other drives")
}

fn remedies(found: &Prognosis) -> Table {
    let columns = ["command (not run)", "pass", "seconds after", "written", "pays after reads", ""];
    let mut table = Table::new("remedies", "Remedies", &columns);
    let tried = found.twin.iter().flat_map(|twin| &twin.remedies);
    for remedy in found.remedies.iter().chain(tried) {
        let text = match remedy.bound {
            true if remedy.verdict == FAILED => FAILED.to_string(),
            true => format!("at best; {}", remedy.verdict),
            false => format!("tried; {}", remedy.verdict),
        };
        let written = Bytes(remedy.bytes_written).to_string();
        let after = json!(remedy.seconds_after);
        table.row((&remedy.command, &remedy.pass, after, written, remedy.pays_after_reads, text));
    }
    table
}

fn creatable(found: &Prognosis) -> Table {
    let columns = ["size", "as", "files", "at least", "at most", "ends by", "df suggests", "tried on the twin"];
    let title =
        format!("Files that can still be created in a new directory, with names of {} bytes", found.name_length);
    let mut table = Table::new("creatable", &title, &columns);
    for one in &found.creatable {
        let same = |other: &&CreatableFiles| other.size == one.size && other.user == one.user;
        let tried = found.twin.as_ref().and_then(|twin| twin.creatable.iter().find(same));
        table.row((
            Bytes(one.size).to_string(),
            &one.user,
            &one.files,
            &one.low,
            &one.high,
            one.ends_text(),
            found.suggested_by_df(one.size, one.user),
            tried.map(|tried| format!("{}, {}", tried.files, tried.ends_text())),
        ));
    }
    table
}

fn longest_free(found: &Prognosis) -> Table {
    Rows::of(&found.longest_free)
        .column("free extents", |one| &one.extents)
        .column("bytes together", |one| Bytes(one.bytes).to_string())
        .table("longest-free", "Longest free extents")
}

fn directories(found: &Prognosis) -> Table {
    let columns = ["directory", "files", "size", "pieces", "now (s)", "ideal (s)", "rewritten (s)"];
    let mut table = Table::new("directories", "By directory, the most expensive first", &columns);
    for one in found.directories.iter().take(ROWS) {
        let seconds = [one.now_seconds, one.ideal_seconds, one.rewritten_seconds].map(|seconds| json!(seconds));
        let mut row = vec![json!(one.path), json!(one.files), json!(Bytes(one.bytes).to_string()), json!(one.pieces)];
        row.extend(seconds);
        table.row(row);
    }
    table
}

fn worst(found: &Prognosis) -> Table {
    Rows::of(found.worst.iter().take(ROWS))
        .column("file", |one| &one.path)
        .column("size", |one| Bytes(one.bytes).to_string())
        .column("pieces", |one| &one.pieces)
        .column("now (s)", |one| one.now_seconds)
        .column("in one piece (s)", |one| one.ideal_seconds)
        .table("worst", "The files that cost most because of their fragments")
}

fn plan(found: &Prognosis) -> Table {
    let (steps, title) = match &found.twin {
        Some(twin) if !twin.plan.is_empty() => {
            (&twin.plan, "The fewest files worth moving, by the tool's result on the twin")
        }
        _ => (&found.plan, "The fewest files worth moving, at best"),
    };
    Rows::of(steps)
        .column("share of the gain", |step| &step.share_of_gain)
        .column("files", |step| &step.files)
        .column("bytes", |step| Bytes(step.bytes).to_string())
        .column("saves (s)", |step| &step.seconds)
        .table("plan", title)
}
