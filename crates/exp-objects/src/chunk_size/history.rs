use super::{ChunkSize, Deduplicated, Event, Spec};
use senesce_core::Failure;
use senesce_core::failure::failed;
use senesce_objstore::dedup::Deduplicator;
use senesce_objstore::versions::{Project, files_below};
use senesce_runner::Context;

const FILES: usize = 600;

pub(super) fn run(spec: &Spec, context: &mut Context<'_, ChunkSize>) -> Result<(), Failure> {
    let chunkers = spec.history_chunkers()?;
    let mut counts: Vec<Deduplicator> = chunkers.iter().map(|chunker| Deduplicator::new(*chunker)).collect();
    let versions = match spec.directories().is_empty() {
        true => generated(spec, context, &mut counts)?,
        false => directories(spec, context, &mut counts)?,
    };
    for (chunker, count) in chunkers.into_iter().zip(&counts) {
        let (data, totals) = (spec.history_name(), count.totals());
        context.record(Event::Deduplicated(Deduplicated { chunker, data, versions, totals }));
    }
    Ok(())
}

fn generated(spec: &Spec, context: &Context<'_, ChunkSize>, counts: &mut [Deduplicator]) -> Result<u64, Failure> {
    context.progress.phase("deduplicate", spec.versions, "versions");
    let mut project = Project::new(context.seed.child("chunk-size/history"), FILES, spec.large.bytes() as usize);
    for version in 0..spec.versions {
        context.check_interrupt()?;
        context.progress.position(version, "");
        for (_, data) in project.version() {
            counts.iter_mut().for_each(|count| count.add(&data));
        }
        project.edit();
    }
    Ok(spec.versions)
}

fn directories(spec: &Spec, context: &Context<'_, ChunkSize>, counts: &mut [Deduplicator]) -> Result<u64, Failure> {
    let roots = spec.directories();
    context.progress.phase("deduplicate", roots.len() as u64, "versions");
    for (version, root) in roots.iter().enumerate() {
        context.progress.position(version as u64, &root.display().to_string());
        for path in files_below(root)? {
            context.check_interrupt()?;
            let data = std::fs::read(&path).map_err(failed("read", &path))?;
            counts.iter_mut().for_each(|count| count.add(&data));
        }
    }
    Ok(roots.len() as u64)
}
