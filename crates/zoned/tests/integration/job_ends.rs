//! How jobs end: what may not begin, what a count counts, and what is said of what was not measured.

use super::jobs::{planned, refused};

#[test]
fn what_does_not_end_by_itself_needs_a_time_or_a_count() {
    for op in ["open-close", "write", "randread", "reset\"\noccupancy = 0.5\n#", "finish\"\noccupancy = 0.5\n#"] {
        let actor = format!("[[actor]]\nzones = \"0..4\"\nop = \"{op}\"");
        refused(&actor, &["neither time nor count", "give one of them"]);
        planned(&actor.replace("zones", "count = 4\nzones")).unwrap();
    }
    for op in ["reset", "finish"] {
        planned(&format!("[[actor]]\nzones = \"0..4\"\nop = \"{op}\"")).unwrap();
    }
}
