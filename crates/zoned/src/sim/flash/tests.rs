use super::super::model::Model;
use super::*;

/// Runs until a page is sensed or sent; returns when.
fn until(kind: EventKind, flash: &mut Flash, events: &mut EventQueue) -> u64 {
    while let Some(event) = events.pop() {
        match event.kind {
            EventKind::Programmed => flash.programmed(event.time, event.index, event.stamp, events),
            EventKind::Loaded => flash.loaded(event.time, event.index, events),
            EventKind::Sensed => flash.sensed(event.time, event.index, events),
            EventKind::Sent => drop(flash.sent(event.time, event.index, events)),
            _ => {}
        }
        if event.kind == kind {
            return event.time;
        }
    }
    panic!("no {kind:?}")
}

#[test]
fn read_waits_for_current_segment_and_suspension() {
    const US: u64 = 1000;
    let mut model = Model::load("zn540").unwrap();
    model.flash.load_us_per_kib = 0.0;
    (model.flash.segment_spread, model.flash.program_spread) = (0.0, 0.0);
    (model.flash.first_segment_us, model.flash.segment_us) = (300.0, 200.0);
    (model.flash.suspend_us, model.read.sense_fast_us) = (10.0, 47.0);
    let page = PageRead { slot: 0, kib: 4, slow: false };
    for (arrival, segment_end) in [(1, 300), (299, 300), (301, 500), (650, 700)] {
        let mut flash = Flash::new(&model.flash, &model.read, None, (0.0, 0.0), Seed(1));
        let mut events = EventQueue::with_capacity(8);
        flash.program(0, 0, Program::Extra, &mut events);
        flash.read(arrival * US, 0, page, &mut events);
        assert_eq!(until(EventKind::Sensed, &mut flash, &mut events), (segment_end + 57) * US, "arrived at {arrival}");
        // The program continues with a segment that is not its first.
        let resumed = until(EventKind::Sent, &mut flash, &mut events);
        flash.read(resumed + US, 0, page, &mut events);
        assert_eq!(until(EventKind::Sensed, &mut flash, &mut events), resumed + 257 * US);
    }
}

#[test]
fn data_stay_in_the_buffer_while_programs_are_stopped() {
    let model = Model::load("zn540").unwrap();
    let mut flash = Flash::new(&model.flash, &model.read, None, (0.0, 0.0), Seed(1));
    let mut events = EventQueue::with_capacity(8);
    let (unit, second) = (flash.unit(), 1_000_000_000);
    flash.buffered = 4 * unit;
    flash.program(0, 0, Program::Host, &mut events);
    let started = flash.buffered;
    assert!(started < 4 * unit);
    flash.stop_programs(1, second, &mut events);
    (0..3).for_each(|_| flash.program(2, 0, Program::Host, &mut events));
    flash.release_before(second);
    assert_eq!(flash.buffered, started, "no program starts or goes on");
    flash.resume(1 + second, &mut events);
    assert!(flash.buffered < started, "those that came in the meantime start");
    flash.release_before(2 * second);
    assert_eq!(flash.buffered, 0);
}
