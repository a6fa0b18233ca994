//! Selects the next work of a die.

use super::*;

impl Flash {
    pub(super) fn interrupt(&mut self, now: u64, die: u32, events: &mut EventQueue) {
        let target = &mut self.dies[die as usize];
        let beyond_first = (now - target.segment_start).saturating_sub(target.first);
        let passed = target.first + beyond_first.div_ceil(target.segment) * target.segment;
        if passed >= target.work_left {
            return;
        }
        target.stamp = (target.stamp + 1) & 0xff_ffff;
        events.push_program(target.segment_start + passed, die, target.stamp);
    }

    pub(super) fn dispatch(&mut self, now: u64, die: u32, events: &mut EventQueue) {
        let may_program = now >= self.stopped_until;
        let target = &mut self.dies[die as usize];
        let program_waits = may_program && target.program.is_some() && target.load.is_none();
        let in_gap = !target.interrupted || now < target.gap_start + self.gap;
        if !target.reads.is_empty() && (!program_waits || in_gap) {
            let Some(read) = target.reads.pop_front() else { return };
            let suspending = target.work_left > 0 && !target.interrupted;
            let pulse = if now < self.erasing_until { self.pulse(now, die) } else { 0 };
            let target = &mut self.dies[die as usize];
            let ready = now + pulse + if suspending { self.suspend } else { 0 };
            target.busy = Busy::Reading;
            target.reading = read;
            target.read.0 = ready;
            target.interrupted = true;
            events.push(ready + self.sense[usize::from(read.slow)], EventKind::Sensed, die, 0);
        } else if program_waits {
            self.start_program(now, die, events);
        }
    }

    pub(super) fn start_program(&mut self, now: u64, die: u32, events: &mut EventQueue) {
        let target = &mut self.dies[die as usize];
        if target.work_left == 0 {
            let garbage = target.program == Some(Program::Garbage);
            target.work_left =
                self.noise.near(self.program, self.program_spread) + if garbage { self.garbage_reads } else { 0 };
            target.segment = self.noise.near(self.segment, self.segment_spread).max(1);
            target.first = (self.first_segment * target.segment / self.segment).max(1);
        } else {
            target.first = target.segment;
            target.work_left += if target.interrupted { self.redo } else { 0 };
        }
        target.busy = Busy::Programming;
        target.segment_start = now;
        target.interrupted = false;
        target.stamp = (target.stamp + 1) & 0xff_ffff;
        let run = if target.reads.is_empty() { target.work_left } else { target.work_left.min(target.first) };
        events.push_program(now + run, die, target.stamp);
    }
}
