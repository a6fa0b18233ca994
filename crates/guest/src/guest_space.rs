//! Watches the space for a guest's writes while it runs.

use crate::error::{GuestEnd, GuestError};
use crate::run::GuestOutcome;
use crate::space;
use std::io::Write;
use std::path::PathBuf;

/// Locations where drives and output of the guests grow, and whether one was full at some time.
pub(crate) struct GuestSpace<'a> {
    pub places: &'a [PathBuf],
    pub was_full: Option<PathBuf>,
}

/// Images are sparse, and other programs may have filled the disk meanwhile: the guest saw an error of its drive, or could not
/// write its output.
pub(crate) fn with_full_path(
    ended: Result<GuestOutcome, GuestError>,
    room: &GuestSpace<'_>,
    errors: &mut dyn Write,
) -> Result<GuestOutcome, GuestError> {
    let now = || space::full(room.places.iter().map(PathBuf::as_path));
    let Some(place) = room.was_full.as_deref().or_else(now) else { return ended };
    let stated = format!(
        "{} was full, and drives and output of the guest grow there: free some space and try again",
        place.display()
    );
    match ended {
        Err(GuestError::Guest { end, what, console, .. }) => {
            Err(GuestError::Guest { end, what, console, remedy: stated })
        }
        Ok(outcome) if outcome.exit_status == 0 => Err(GuestError::Guest {
            end: GuestEnd::Other,
            what: "may not have written all output of its command, although the command ended with status 0".into(),
            console: String::new(),
            remedy: stated,
        }),
        Ok(outcome) => {
            let _ = writeln!(errors, "senesce: {stated}");
            Ok(outcome)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qemu::Accelerator;
    use std::path::Path;

    #[test]
    fn success_is_not_reported_if_output_may_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().to_path_buf()];
        let ended = |exit_status, was_full: Option<&Path>| {
            let outcome = GuestOutcome {
                boot_seconds: 1.0,
                total_seconds: 2.0,
                exit_status,
                accelerator: Accelerator::Tcg,
                kernel: "6.1".into(),
                drives: Vec::new(),
                kept: Vec::new(),
            };
            let (room, mut said) =
                (GuestSpace { places: &places, was_full: was_full.map(Path::to_path_buf) }, Vec::new());
            let ended = with_full_path(Ok(outcome), &room, &mut said);
            (
                ended.map(|outcome| outcome.exit_status).map_err(|error| error.to_string()),
                String::from_utf8(said).unwrap(),
            )
        };
        assert_eq!(ended(0, None), (Ok(0), String::new()));
        let (error, _) = ended(0, Some(Path::new("/tm")));
        assert!(error.as_ref().is_err_and(|error| error.contains("/tm was full")), "{error:?}");
        let (status, said) = ended(7, Some(Path::new("/tm")));
        assert!(status == Ok(7) && said.contains("/tm was full"), "{said}");
    }
}
