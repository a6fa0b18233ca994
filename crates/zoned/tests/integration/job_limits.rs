//! Open and active zones of a job, checked before its first command.

use super::jobs::{job, planned, refused, run_on};
use senesce_core::Seed;
use senesce_core::failure::{Classify, ExitCode};
use senesce_zoned::ZonedError;
use senesce_zoned::run::{check_on, open_sim};
use senesce_zoned::sim::model::Model;

fn with_limits(max_open: u32, max_active: u32, text: &str) -> Result<(), ZonedError> {
    let mut model = Model::load("zn540").unwrap();
    (model.geometry.max_open, model.geometry.max_active) = (max_open, max_active);
    let job = job(text);
    let planned = check_on(&mut open_sim(&model, &job, Seed(1)).unwrap(), &job).map(|_| ());
    let ran = run_on(&model, text);
    match &planned {
        Ok(()) => {
            let result = ran?;
            let errors: u64 = result.actors.iter().map(|actor| actor.tally.error_count()).sum();
            assert_eq!(errors, 0, "what was planned runs: {text}");
        }
        Err(error) => assert_eq!(error.to_string(), ran.unwrap_err().to_string(), "{text}"),
    }
    planned
}

const OPENED: &str = "[[prepare]]\nstep = 'open'\nzones = '4..5'\n";
const WRITER: &str = "[[actor]]\nop = 'write'\nzones = '2..3'\ncount = 5\n";

#[test]
fn preparation_and_workers_share_zone_limits() {
    let error = with_limits(1, 14, &format!("{OPENED}{WRITER}")).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Usage);
    assert!(error.to_string().contains("need 2 open zones") && error.to_string().contains("allows 1"), "{error}");
    let closed = format!("{OPENED}{}{WRITER}", OPENED.replace("open", "close"));
    let error = with_limits(1, 1, &closed).unwrap_err().to_string();
    assert!(error.contains("need 2 active zones"), "{error}");
    with_limits(1, 2, &closed).unwrap();
    with_limits(2, 2, &format!("{OPENED}{WRITER}")).unwrap();
    // The worker uses the zone that was opened for it.
    with_limits(1, 1, &format!("{OPENED}{}", WRITER.replace("2..3", "4..5"))).unwrap();
    for actor in ["op = 'open-close'\ncount = 3", "op = 'reset'\noccupancy = 0.5\ncount = 3"] {
        let text = format!("{OPENED}[[actor]]\nzones = '2..3'\n{actor}\n");
        assert!(with_limits(1, 14, &text).is_err() && with_limits(2, 14, &text).is_ok(), "{actor}");
    }
    let full = format!("{OPENED}[[actor]]\nzones = '2..3'\nop = 'reset'\noccupancy = 1.0\ncount = 3\n");
    with_limits(1, 1, &full).unwrap();
}

#[test]
fn zones_released_by_other_actors_are_available() {
    let (opened, late) = (OPENED.replace("4..5", "4..6"), format!("{WRITER}start = '1s'\n"));
    let reset = "[[actor]]\nop = 'reset'\nzones = '4..6'\n";
    with_limits(2, 2, &format!("{opened}{reset}{late}")).unwrap();
    let error = with_limits(2, 2, &format!("{opened}{late}")).unwrap_err().to_string();
    assert!(error.contains("need 3 active zones"), "no actor releases a zone: {error}");
}

#[test]
fn steps_that_a_zone_would_refuse_are_refused_before_the_first_command() {
    let reader = "[[actor]]\nop = 'randread'\nzones = '0..1'\ncount = 5\n";
    let fill = format!("[[prepare]]\nstep = 'fill'\nzones = '0..20'\nto = 0.01\n{reader}");
    refused(&fill, &["prepare fill", "zone 14", "too many zones are active", "14 active"]);
    planned(&fill.replace("0..20", "0..14")).unwrap();
    planned(&fill.replace("0.01", "1.0")).unwrap();
    let finished = "[[prepare]]\nstep = 'finish'\nzones = '0..14'\n";
    let twice = fill.replace("0..20", "0..14") + &format!("{finished}{}", fill.replace("0..20", "14..28"));
    let twice = twice.replacen(reader, "", 1);
    planned(&twice).unwrap();
    for step in ["open", "close"] {
        let prepare =
            format!("[[prepare]]\nstep = 'finish'\nzones = '0..1'\n[[prepare]]\nstep = '{step}'\nzones = '0..1'\n");
        refused(&format!("{prepare}{reader}"), &[&format!("prepare {step}"), "zone 0", "does not allow"]);
    }
}

#[test]
fn zones_are_opened_and_closed_from_their_start() {
    let actor = "[[actor]]\nop = 'open-close'\nzones = '0..2'\ncount = 100\n";
    for share in ["0.5", "1.0"] {
        let text = format!("[[prepare]]\nstep = 'fill'\nzones = '1..2'\nto = {share}\n{actor}");
        refused(&text, &["zone 1 will hold data", "reset"]);
    }
    planned(&format!("prepare = []\n{actor}")).unwrap();
}
