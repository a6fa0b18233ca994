//! State that `compare --until-decided` keeps next to its rounds. Without it a later call would perform other interim
//! analyses than those that were corrected for.

use super::until_decided::run_name;
use senesce_core::failure::errno_message;
use senesce_core::{Failure, Span};
use senesce_stats::arm::LEAST_VALUES;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// The parameters of the planned analyses: other analyses of the same rounds would spend the whole error probability
/// once more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AnalysisParameters {
    max_time: Span,
    /// The limit of the gate, in full.
    gate: Option<String>,
}

impl AnalysisParameters {
    const FILE: &str = "asked.json";

    pub(super) fn of(max_time: Duration, gate: Option<f64>) -> Self {
        Self { max_time: Span(max_time), gate: gate.map(|limit| limit.to_string()) }
    }

    /// Refuses to continue rounds that were analysed with other parameters. Before the first analysis all parameters
    /// are allowed.
    pub(super) fn check(&self, directory: &Path, times: &RoundTimes) -> Result<(), Failure> {
        if times.seconds.len() < LEAST_VALUES {
            return Ok(());
        }
        let file = directory.join(Self::FILE);
        let refuse = |problem: String| Err(Failure::usage(format!("{}: {problem}", file.display())));
        let remedy = "name another --out and measure again";
        let text = match senesce_core::input::within(directory, Self::FILE) {
            Ok(text) => text,
            Err(error) => {
                let why = errno_message(&error);
                return refuse(format!(
                    "{why}; it has the parameters of the interim analyses of these rounds: restore the file, or \
                     {remedy}"
                ));
            }
        };
        match serde_json::from_slice::<Self>(&text) {
            Ok(kept) if kept == *self => Ok(()),
            Ok(kept) => refuse(format!(
                "the interim analyses of these rounds were planned for {kept}, and a plan for {self} could double the \
                 false-alarm rate: continue with {kept}, or {remedy}"
            )),
            Err(error) => refuse(format!("it is damaged ({error}): restore the file, or {remedy}")),
        }
    }

    pub(super) fn keep(&self, directory: &Path) -> Result<(), Failure> {
        let text = json!(self).to_string();
        Ok(senesce_core::record::write_atomically(&directory.join(Self::FILE), text.as_bytes())?)
    }
}

impl fmt::Display for AnalysisParameters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "--max-time '{}'", self.max_time)?;
        match &self.gate {
            Some(limit) => match limit.parse::<f64>() {
                Ok(large) if large >= 1.0 => write!(formatter, " --fail-on-regression {}%", large * 100.0),
                _ => write!(formatter, " --fail-on-regression {limit}"),
            },
            None => write!(formatter, " without a gate"),
        }
    }
}

/// The duration of each round, kept next to the rounds. Interim analyses are planned by it, and a repeated call must
/// plan the same ones: others would need other corrections.
pub(super) struct RoundTimes {
    seconds: Vec<f64>,
}

impl RoundTimes {
    const FILE: &str = "round-seconds.json";

    const LONGEST: f64 = 1e8;

    pub(super) fn read(directory: &Path) -> Result<Self, Failure> {
        let file = directory.join(Self::FILE);
        let refuse = |problem: &str| {
            Err(Failure::usage(format!(
                "{}: {problem}; without it the interim analyses of these rounds cannot be repeated: restore the file, \
                 or name another --out and measure again",
                file.display()
            )))
        };
        // The duration is written after the round: the last one lacks it if it was cut off.
        let is_begun =
            |round| ["reference", "sample"].iter().any(|side| directory.join(run_name(side, round)).exists());
        let text = match senesce_core::input::within(directory, Self::FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && !is_begun(1) => {
                return Ok(Self { seconds: Vec::new() });
            }
            Err(error) => return refuse(&errno_message(&error)),
        };
        match serde_json::from_slice::<Vec<f64>>(&text) {
            Ok(seconds) if is_begun(seconds.len() + 1) => refuse("it has fewer times than there are rounds"),
            Ok(seconds) if seconds.iter().all(|one| (0.0..=Self::LONGEST).contains(one)) => Ok(Self { seconds }),
            Ok(_) => refuse("it holds an invalid duration of a round"),
            Err(error) => refuse(&format!("it is damaged ({error})")),
        }
    }

    pub(super) fn of(&self, rounds: usize) -> Duration {
        Duration::from_secs_f64(self.seconds.iter().take(rounds).sum())
    }

    /// Adds the time of a round. A round that was measured before keeps its time.
    pub(super) fn add(&mut self, number: usize, time: Duration, directory: &Path) -> Result<(), Failure> {
        if number < self.seconds.len() {
            return Ok(());
        }
        self.seconds.push(time.as_secs_f64());
        Ok(senesce_core::record::write_atomically(
            &directory.join(Self::FILE),
            json!(self.seconds).to_string().as_bytes(),
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_round_times_are_not_measured_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut times = RoundTimes::read(directory.path()).unwrap();
        times.add(0, Duration::from_secs(3), directory.path()).unwrap();
        times.add(1, Duration::from_secs(4), directory.path()).unwrap();
        let mut again = RoundTimes::read(directory.path()).unwrap();
        again.add(0, Duration::from_millis(1), directory.path()).unwrap();
        assert_eq!([0, 1, 2].map(|rounds| again.of(rounds).as_secs()), [0, 3, 7]);
    }

    #[test]
    fn damaged_or_missing_times_do_not_restart_analyses() {
        let directory = tempfile::tempdir().unwrap();
        let refused =
            || RoundTimes::read(directory.path()).err().map(|failure| failure.to_string()).unwrap_or_default();
        for text in ["[1.0, -2.0]", "[1e300]", "[3.0, ", "{}"] {
            std::fs::write(directory.path().join(RoundTimes::FILE), text).unwrap();
            assert!(refused().contains("another --out"), "{text}: {}", refused());
        }
        std::fs::write(directory.path().join(RoundTimes::FILE), "[1.0]").unwrap();
        std::fs::create_dir(directory.path().join("sample-0001")).unwrap();
        assert_eq!(refused(), "", "the second round was cut off");
        std::fs::create_dir(directory.path().join("sample-0002")).unwrap();
        assert!(refused().contains("fewer times"), "{}", refused());
        std::fs::remove_dir(directory.path().join("sample-0001")).unwrap();
        std::fs::remove_file(directory.path().join(RoundTimes::FILE)).unwrap();
        assert_eq!(refused(), "", "nothing was measured yet");
        std::fs::create_dir(directory.path().join("reference-0001")).unwrap();
        assert!(refused().contains("another --out"), "{}", refused());
    }

    #[test]
    fn analysed_rounds_refuse_other_parameters() {
        let directory = tempfile::tempdir().unwrap();
        let hour = Duration::from_secs(3600);
        let asked = AnalysisParameters::of(hour, Some(0.1 + 0.2));
        let refused = |asked: &AnalysisParameters| {
            let times = RoundTimes::read(directory.path()).unwrap();
            asked.check(directory.path(), &times).err().map(|failure| failure.to_string()).unwrap_or_default()
        };
        let mut times = RoundTimes::read(directory.path()).unwrap();
        for round in 0..LEAST_VALUES {
            assert_eq!(refused(&AnalysisParameters::of(2 * hour, None)), "", "no analysis after {round} rounds");
            asked.keep(directory.path()).unwrap();
            times.add(round, Duration::from_secs(1), directory.path()).unwrap();
        }
        assert_eq!(refused(&asked), "");
        let longer = refused(&AnalysisParameters::of(2 * hour, Some(0.1 + 0.2)));
        assert!(
            longer.contains("continue with --max-time '1h' --fail-on-regression 0.3") && longer.contains("--out"),
            "{longer}"
        );
        assert!(
            refused(&AnalysisParameters::of(hour, None)).contains("a plan for --max-time '1h' without a gate could")
        );
        std::fs::write(directory.path().join(AnalysisParameters::FILE), "{").unwrap();
        assert!(refused(&asked).contains("damaged"), "{}", refused(&asked));
        std::fs::remove_file(directory.path().join(AnalysisParameters::FILE)).unwrap();
        assert!(refused(&asked).contains("restore the file"), "{}", refused(&asked));
    }
}
