//! A continued run measures its other repetitions on the target of the first one.

use super::{Bench, Event, Spec};
use senesce_core::Failure;
use senesce_runner::Context;
use senesce_volume::{MountedTarget, TargetError, TargetIdentity};

/// Opens the target, unless another one has been put in its place since the first repetition.
///
/// # Errors
/// A refusal, before the target is changed; those of [`senesce_volume::open()`].
pub(super) fn open(spec: &Spec, context: &mut Context<'_, Bench>) -> Result<MountedTarget, Failure> {
    let options = spec.open_options(context.erase().map(str::to_string));
    let now = TargetIdentity::of(&spec.target, &options);
    let recorded = context.recorded();
    let has_repetition = recorded.has_done_a_step();
    let known = recorded.events().rev().find_map(|event| match event {
        Event::Target(known) => Some(known),
        _ => None,
    });
    if let Some(change) = known.filter(|_| has_repetition).and_then(|known| known.difference(&now)) {
        let remedy = "restore the target, or start another run with --out";
        return Err(TargetError::refused(&spec.target, change, remedy).into());
    }
    let is_new = known.is_none_or(|known| !has_repetition && *known != now);
    let target = senesce_volume::open(&spec.target, &options)?;
    if is_new {
        context.record_now(Event::Target(now))?;
    }
    Ok(target)
}
