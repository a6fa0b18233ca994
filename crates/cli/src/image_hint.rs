//! The hint to read an image in a guest, for a user without root.

use crate::in_the_guest::names_device;
use senesce_core::environment::{USE_SUDO, is_root};
use senesce_core::{ExitCode, Failure};
use senesce_guest::kernel::{Engine, choose};

/// Verbs that only read an image.
const READERS: [&str; 3] = ["diagnose", "layout", "verify"];

/// Adds the hint to the refusal of an image, if this user can start a user-mode kernel. Only root sees all users of an image.
pub fn hinted(verb: &str, failure: Failure) -> Failure {
    let is_wanted = !is_root() && is_refusal_without_root(verb, &failure) && !names_device(std::env::args_os());
    if is_wanted && choose(None, Some(Engine::Uml)).is_ok() { with_hint(verb, &failure) } else { failure }
}

fn is_refusal_without_root(verb: &str, failure: &Failure) -> bool {
    let text = failure.to_string();
    let wants_root = failure.exit_code() == ExitCode::Refused && text.contains(USE_SUDO);
    wants_root && READERS.contains(&verb) && !text.contains("\nhint: ")
}

fn with_hint(verb: &str, failure: &Failure) -> Failure {
    Failure::new(failure.exit_code(), format!("{failure}\nhint: run it in a guest: senesce --vm {verb} ..."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_volume::TargetError;

    #[test]
    fn only_refusals_of_readers_that_want_root_get_the_hint() {
        let refused = |remedy: &str| Failure::from(TargetError::refused("old.img", "it may be in use", remedy));
        assert!(is_refusal_without_root("layout", &refused(USE_SUDO)));
        assert!(!is_refusal_without_root("age", &refused(USE_SUDO)), "it writes");
        assert!(!is_refusal_without_root("layout", &refused("end that process")));
        assert!(!is_refusal_without_root("layout", &Failure::usage(USE_SUDO)));
        let hinted = with_hint("layout", &refused(USE_SUDO));
        assert_eq!(hinted.exit_code(), ExitCode::Refused);
        assert!(!is_refusal_without_root("layout", &hinted), "one hint is enough");
    }
}
