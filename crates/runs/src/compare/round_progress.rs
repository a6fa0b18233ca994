//! Names round and side in the progress of a run.

use senesce_core::Progress;
use senesce_runner::Conduct;

pub(super) struct RoundProgress<'a> {
    pub words: String,
    pub shown: &'a dyn Progress,
}

impl RoundProgress<'_> {
    pub(super) fn within<'a>(&'a self, how: &Conduct<'a>) -> Conduct<'a> {
        Conduct {
            out: how.out.clone(),
            runs: how.runs.clone(),
            again: how.again,
            erase: how.erase.clone(),
            scale: how.scale,
            only: how.only.clone(),
            progress: self,
            interrupt: how.interrupt,
            peers: how.peers,
        }
    }
}

impl Progress for RoundProgress<'_> {
    fn phase(&self, name: &str, total: u64, unit: &str) {
        self.shown.phase(&format!("{}: {name}", self.words), total, unit);
    }

    fn position(&self, done: u64, note: &str) {
        self.shown.position(done, note);
    }

    fn step(&self, number: usize, count: usize, text: &str, seconds_left: f64) {
        self.shown.step(number, count, &format!("{}: {text}", self.words), seconds_left);
    }

    fn say(&self, message: &str) {
        self.shown.say(message);
    }

    fn shows(&self) -> bool {
        self.shown.shows()
    }
}
