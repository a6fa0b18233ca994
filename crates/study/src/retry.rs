//! Repetition of a run that lost time to other programs or guests.

use senesce_core::Failure;
use senesce_core::heartbeat::LostTime;

/// Maximum attempts. In a run of a second or two, one moment of another guest exceeds the limit; load that lasts
/// invalidates every attempt.
const TRIES: u32 = 3;

/// Measures until no time is lost, at most [`TRIES`] times. Calls `lost` before each further attempt.
pub(crate) fn measured_again<T>(
    mut measure: impl FnMut() -> Result<T, Failure>,
    mut lost: impl FnMut(&Failure) -> Result<(), Failure>,
) -> Result<T, Failure> {
    for _ in 1..TRIES {
        match measure() {
            Err(failure) if LostTime::is_reason(&failure.to_string()) => lost(&failure)?,
            done => return done,
        }
    }
    measure()
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::ExitCode;
    use senesce_core::heartbeat::Cause;

    /// Returns whether a value was measured, and the number of attempts, if the first `failing` attempts fail.
    fn attempts(failing: u32, failure: impl Fn() -> Failure) -> (bool, u32) {
        let mut made = 0;
        let measure = || {
            made += 1;
            if made <= failing { Err(failure()) } else { Ok(()) }
        };
        let measured = measured_again(measure, |_| Ok(()));
        (measured.is_ok(), made)
    }

    #[test]
    fn run_that_lost_time_is_measured_again_at_most_twice() {
        let lost = || Failure::from(LostTime { cause: Cause::Stolen, lost_us: 30_000, length_us: 1_500_000 });
        let named = || Failure::new(ExitCode::RunFailed, format!("the run does not count: {}", lost()));
        assert_eq!(attempts(0, lost), (true, 1));
        assert_eq!(attempts(1, lost), (true, 2));
        assert_eq!(attempts(2, named), (true, 3));
        assert_eq!(attempts(3, lost), (false, 3));
    }

    #[test]
    fn other_failures_are_not_repeated() {
        assert_eq!(attempts(1, || Failure::new(ExitCode::RunFailed, "no space")), (false, 1));
    }

    #[test]
    fn interrupt_ends_the_attempts() {
        let lost = || Failure::from(LostTime { cause: Cause::Stolen, lost_us: 30_000, length_us: 1_500_000 });
        let mut made = 0;
        let measure = || {
            made += 1;
            Err::<(), _>(lost())
        };
        let ended = measured_again(measure, |_| Err(Failure::new(ExitCode::Interrupted, "interrupted")));
        assert_eq!((ended.unwrap_err().exit_code(), made), (ExitCode::Interrupted, 1));
    }
}
