//! Deduplication over versions.

use super::{Deduplicated, Request};
use senesce_core::failure::errno_words;
use senesce_core::{ExitCode, Failure, RunContext, Settings};
use senesce_objstore::dedup::Deduplicator;
use senesce_objstore::versions::{Project, files_below};

/// Text files of the made-up project.
const FILES: usize = 600;

pub(super) fn run(request: &Request, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
    let done = context.directory.earlier_events().iter().any(|event| event.kind == "deduplicated");
    if request.history_chunkers.is_empty() || done {
        return Ok(());
    }
    let mut counts: Vec<Deduplicator> = request.history_chunkers.iter().map(|spec| Deduplicator::new(*spec)).collect();
    let versions = if request.data.is_empty() {
        generated(request, settings, context, &mut counts)?
    } else {
        directories(request, context, &mut counts)?
    };
    for (chunker, count) in request.history_chunkers.iter().zip(&counts) {
        let (data, totals) = (request.history_name(), count.totals());
        context.directory.append("deduplicated", &Deduplicated { chunker: *chunker, data, versions, totals })?;
    }
    Ok(())
}

fn generated(
    request: &Request,
    settings: &Settings,
    context: &mut RunContext<'_>,
    counts: &mut [Deduplicator],
) -> Result<u64, Failure> {
    context.progress.phase("deduplicate", request.versions, "versions");
    let mut project = Project::new(settings.seed().child("chunk-size/history"), FILES, request.large.0 as usize);
    for version in 0..request.versions {
        context.check_interrupt()?;
        context.progress.position(version, "");
        for (_, data) in project.version() {
            counts.iter_mut().for_each(|count| count.add(&data));
        }
        project.edit();
    }
    Ok(request.versions)
}

fn directories(request: &Request, context: &mut RunContext<'_>, counts: &mut [Deduplicator]) -> Result<u64, Failure> {
    context.progress.phase("deduplicate", request.data.len() as u64, "versions");
    for (version, root) in request.data.iter().enumerate() {
        context.progress.position(version as u64, &root.display().to_string());
        for path in files_below(root)? {
            context.check_interrupt()?;
            let data = std::fs::read(&path).map_err(|error| {
                Failure::new(ExitCode::RunFailed, format!("read {}: {}", path.display(), errno_words(&error)))
            })?;
            counts.iter_mut().for_each(|count| count.add(&data));
        }
    }
    Ok(request.data.len() as u64)
}
