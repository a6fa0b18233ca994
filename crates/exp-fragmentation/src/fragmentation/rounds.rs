//! One round: lays out the files on a volume, reads them, and reads an unaged copy on another volume.

use super::experiment::{Event, Fragmentation, RoundStep, Step};
use super::parameters::{Common, Spec, seed_of_image};
use super::point::{Clock, measured};
use super::read::{Reads, State, read};
use super::sketch::Sketch;
use super::volume::{self, Volume};
use super::{Procedure, figures};
use senesce_core::analysis::Better;
use senesce_core::failure::failed;
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_core::{Bytes, Environment, ExitCode, Failure, Finite, machine};
use senesce_runner::{Context, Run};
use senesce_runs::cold;
use senesce_runs::tree::{Tree, Writer};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Maximum number of rounds with figures of their own.
const DRAWN: usize = 11;

/// Read speed of one large contiguous file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sequential {
    /// File system.
    pub fs: String,
    /// Wall-clock seconds per GiB.
    pub seconds_per_gib: Finite,
}

pub(crate) struct Aging<S> {
    pub(super) volume: Volume,
    state: S,
    reached: Option<u64>,
}

impl<P: Procedure> Fragmentation<P> {
    /// Measures the best case of the volume, one large contiguous file, and describes the volume.
    pub(super) fn sequential(&self, common: &Common, fs: &str, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let mut volume = Volume::fresh(&self.place, fs, common.draw(fs, "sequential", context.seed), context)?;
        self.describe(common, &volume, context)?;
        let path = volume.folder().join("large");
        let piece = vec![0xa5u8; 1 << 20];
        let mut file = File::create(&path).map_err(failed("create", &path))?;
        for _ in 0..large_file(common).0 >> 20 {
            file.write_all(&piece).map_err(failed("write", &path))?;
        }
        drop(file);
        volume.make_cold()?;
        let (cold, account) = cold::read(volume.target(), volume.folder(), &Silent, context.interrupt)?;
        volume.close()?;
        let mut costs = figures::modelled_sequential(&common.models()).to_vec();
        match (account.judge(&cold), cold.seconds_per_gib) {
            (Ok(message), Some(seconds_per_gib)) => {
                if let Some(message) = message {
                    context.caveat(message);
                }
                if !machine::is_emulated() {
                    context.record(Event::Sequential(Sequential { fs: fs.into(), seconds_per_gib }));
                }
                costs.push((Clock::Wall, Some(seconds_per_gib.get())));
            }
            (Err(reason), _) => context.caveat(format!("measured without the sequential bandwidth of {fs}: {reason}")),
            (Ok(_), None) => {
                context.caveat(format!("measured without the sequential bandwidth of {fs}: it reports no allocation"));
            }
        }
        for (clock, cost) in costs {
            let one = measured(&format!("sequential read, {}", clock.key()), "s/GiB", Better::Lower, cost);
            clock.stated(one).into_iter().for_each(|one| context.measure(one.under("fs", fs)));
        }
        Ok(())
    }

    fn describe(&self, common: &Common, volume: &Volume, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        if context.recorded().events().next().is_none() {
            context.record(Event::VolumeSource(self.place.text(common.size.0)));
        }
        if !volume::mounting().are_met() {
            context.caveat(
                "measured without root: in a directory instead of fresh file systems, with the trace-free layout score",
            );
        }
        if let Some(message) = self.procedure.without() {
            context.caveat(message);
        }
        let mut facts = Environment::default();
        facts.extend(&volume.file_system(), &volume.environment());
        context.add_environment(&facts)
    }

    /// Lays out a round and reads it, then its copy. If the aging of a volume was interrupted, the volume is lost and aged
    /// again.
    pub(super) fn round(
        &mut self,
        spec: &Spec<P::Parameters>,
        step: &RoundStep,
        context: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        let (common, interrupt) = (&spec.common, context.interrupt);
        let RoundStep { fs, round, image, mode } = step;
        let (fs, round, image, mode) = (fs.as_str(), *round, *image, mode.as_deref());
        let rounds: Vec<u64> = P::rounds(&spec.own, context.seed)?.iter().map(|round| round.number).collect();
        let is_last = rounds.last() == Some(&round);
        let mut begun = Instant::now();
        let mut aging = match self.aging.take() {
            Some(aging) => aging,
            None => self.fresh(common, step, context)?,
        };
        if P::AGES_ON {
            // Also in rounds of an earlier part of the run the volume was made cold.
            let reached = aging.reached;
            for earlier in rounds.iter().filter(|earlier| reached < Some(**earlier) && **earlier < round) {
                context.check_interrupt()?;
                self.advance(&mut aging, *earlier, interrupt)?;
                aging.volume.make_cold()?;
            }
            begun = Instant::now();
        }
        self.advance(&mut aging, round, interrupt)?;
        let state = State { fs, round, image, mode, aged: true, write_seconds: begun.elapsed().as_secs_f64() };
        let data = read(&mut aging.volume, &state, common, interrupt)?;
        let is_drawn = image == 0 && mode == first_mode::<P>(&spec.own) && (P::AGES_ON || is_drawn(&rounds, round));
        let drawn = is_drawn.then(|| Sketch::of(&aging.volume, &data)).transpose()?;
        let files = Tree::below(aging.volume.folder())?.contents(aging.volume.folder())?;
        match P::AGES_ON && !is_last {
            true => self.aging = Some(aging),
            false => aging.volume.close()?,
        }
        let counted = [
            self.record(data, drawn, context),
            self.copy(&files, is_drawn, common, &State { aged: false, ..state }, context)?,
        ];
        let is_any = counted.contains(&true) || context.recorded().events().any(|one| matches!(one, Event::Point(_)));
        let is_end = Self::steps(spec, context.seed)?.into_iter().map(|planned| planned.step).rfind(is_round)
            == Some(Step::Round(step.clone()));
        match &self.invalid {
            Some(reason) if !is_any && is_end && common.guest.0.is_empty() => Err(Failure::new(
                ExitCode::RunFailed,
                format!("this run has no valid cold read; reason of the last one: {reason}"),
            )),
            _ => Ok(()),
        }
    }

    fn fresh(
        &self,
        common: &Common,
        step: &RoundStep,
        context: &mut Context<'_, Self>,
    ) -> Result<Aging<P::State>, Failure> {
        let state = if P::AGES_ON { "aged".to_string() } else { format!("aged/{}", step.round) };
        let draw = common.draw(&step.fs, &state, seed_of_image(context.seed, step.image));
        let volume = Volume::fresh(&self.place, &step.fs, draw, context)?;
        Ok(Aging { volume, state: self.procedure.start(step.mode.as_deref()), reached: None })
    }

    fn advance(&self, aging: &mut Aging<P::State>, round: u64, interrupt: &Interrupt) -> Result<(), Failure> {
        let state = &mut aging.state;
        aging.volume.write(|folder| self.procedure.advance(state, folder, round, interrupt))?;
        aging.reached = Some(round);
        Ok(())
    }

    /// Copies files in their order to a fresh volume and reads it; returns whether a reading is valid.
    fn copy(
        &mut self,
        files: &[(PathBuf, Vec<u8>)],
        is_drawn: bool,
        common: &Common,
        state: &State<'_>,
        context: &mut Context<'_, Self>,
    ) -> Result<bool, Failure> {
        let begun = Instant::now();
        let place = if P::AGES_ON { self.place.second(context.path())? } else { self.place.clone() };
        let seed = seed_of_image(context.seed, state.image);
        let draw = common.draw(state.fs, &format!("unaged/{}", state.round), seed);
        let mut volume = Volume::fresh(&place, state.fs, draw, context)?;
        volume.write(|folder| {
            let mut writer = Writer::new(folder, context.interrupt);
            files.iter().try_for_each(|(path, content)| writer.write(path, content))
        })?;
        let state = State { write_seconds: begun.elapsed().as_secs_f64(), ..*state };
        let data = read(&mut volume, &state, common, context.interrupt)?;
        let drawn = is_drawn.then(|| Sketch::of(&volume, &data)).transpose()?;
        volume.close()?;
        Ok(self.record(data, drawn, context))
    }

    /// Records a point if it has a valid reading; returns whether it has.
    fn record(&mut self, data: Reads, drawn: Option<Sketch>, context: &mut Context<'_, Self>) -> bool {
        data.without.into_iter().for_each(|message| context.caveat(message));
        self.invalid = data.invalid.or(self.invalid.take());
        if data.point.readings.is_empty() {
            return false;
        }
        let condition = self.procedure.condition(data.point.mode.as_deref());
        for one in data.point.measurements() {
            context.measure(match &condition {
                Some((name, word)) => one.under(name, word),
                None => one,
            });
        }
        drawn.into_iter().for_each(|drawn| context.record(Event::Sketch(drawn)));
        context.record(Event::Point(data.point));
        true
    }
}

pub(crate) fn first_mode<P: Procedure>(own: &P::Parameters) -> Option<&'static str> {
    P::modes(own).first().copied()
}

fn is_round(step: &Step) -> bool {
    matches!(step, Step::Round(_))
}

fn is_drawn(rounds: &[u64], round: u64) -> bool {
    let every = rounds.len().div_ceil(DRAWN).max(1);
    rounds.iter().step_by(every).chain(rounds.last()).any(|drawn| *drawn == round)
}

pub(crate) fn large_file(common: &Common) -> Bytes {
    Bytes((common.size.bytes() / 8).min(64 << 20) >> 20 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragmentation::numbers;

    #[test]
    fn some_of_many_rounds_are_drawn_including_the_last() {
        let of = |last, step| {
            let rounds = numbers(last, step);
            let drawn = rounds.iter().filter(|round| is_drawn(&rounds, **round)).count();
            (rounds.len(), drawn, is_drawn(&rounds, last))
        };
        assert_eq!(of(100, 10), (11, 11, true));
        assert_eq!(of(100, 1), (101, 11, true));
        assert_eq!(of(99, 1), (100, 11, true));
        assert_eq!(of(1, 1), (2, 2, true));
    }
}
