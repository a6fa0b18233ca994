//! Questions and witnesses. The guard asks: is it mounted, attached, swap space, open in another process? Each question
//! has several witnesses, and a witness may be silent: its source is missing, covered by a mount, or shows another
//! namespace. One answer closes a question. A question without an answer refuses the write.

pub(crate) mod kernel_files;
pub(crate) mod lease;
pub(crate) mod loops;
pub(crate) mod processes;

use crate::error::TargetError;
use senesce_core::environment::remedy_of_right;
use std::fmt;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnavailableWitness(pub String);

pub(crate) type WitnessResult = Result<(), UnavailableWitness>;

impl fmt::Display for UnavailableWitness {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl UnavailableWitness {
    pub(crate) fn and(self, other: Self) -> Self {
        match self == other {
            true => self,
            false => Self(format!("{self}; {other}")),
        }
    }

    /// Refuses a write because of an open question, for example `whether` it is swap space.
    pub(crate) fn refusal(&self, target: &Path, whether: &str) -> TargetError {
        TargetError::refused(
            target.display(),
            format!("cannot determine whether {whether} ({self})"),
            remedy_of_right(
                "run where the whole machine is visible: /proc of the host (in a container, --pid=host), /sys and /dev; or keep \
                 the image on a local file system, such as a volume of the container",
            ),
        )
    }
}
