use super::{Event, F2fsBandwidth, MEAN, OnModel, Recorded};
use crate::on_model::{Host, HostSpeed, MachineRole, OVERWRITING, hosts, time};
use senesce_core::{ExitCode, Failure};
use senesce_guest::carry::guest_records;
use senesce_runner::Context;

/// Returns the metric of a mean with a host. Published hosts keep the drive busy, so a host that takes no time is
/// compared with them.
pub(crate) fn metric(host: Host) -> Option<&'static str> {
    match host {
        Host::None => Some(MEAN),
        Host::Scaled => Some("mean write bandwidth with this machine's time"),
        Host::Guest => None,
    }
}

pub(crate) fn time_all(context: &mut Context<'_, F2fsBandwidth>) -> Result<(), Failure> {
    let speed = HostSpeed::of_overwriting(MachineRole::Host)?;
    context.record(Event::Speed(speed.clone()));
    let events: Vec<Event> = context.recorded().events().cloned().collect();
    let speeds = events.iter().filter_map(|event| match event {
        Event::Speed(speed) => Some(speed.clone()),
        _ => None,
    });
    let hosts = hosts(HostSpeed::share(&speeds.chain([speed]).collect::<Vec<_>>(), OVERWRITING));
    let recordings: Vec<&Recorded> = events
        .iter()
        .filter_map(|event| match event {
            Event::Recorded(recorded) => Some(recorded),
            _ => None,
        })
        .collect();
    if recordings.is_empty() {
        return Err(Failure::new(ExitCode::RunFailed, "the guest recorded no requests to its drives"));
    }
    for recorded in recordings {
        context.check_interrupt()?;
        let folder = recorded.traced.folder(guest_records(context))?;
        let ends = ends_of(recorded, &events);
        let bytes = events.iter().find_map(|event| match event {
            Event::Drive(result) if (&result.drive, result.repeat) == (&recorded.drive, recorded.repeat) => {
                Some((result.bytes, result.laid_bytes))
            }
            _ => None,
        });
        let (bytes, laid_bytes) =
            bytes.ok_or_else(|| Failure::new(ExitCode::RunFailed, "the guest did not report its writes"))?;
        for timed in time(&recorded.traced, &folder, &hosts, &ends, context.seed)? {
            timed
                .problems
                .iter()
                .for_each(|problem| context.caveat(format!("{} on the model: {problem}", recorded.drive)));
            context.record(Event::OnModel(OnModel {
                drive: recorded.drive.clone(),
                repeat: recorded.repeat,
                bytes,
                mean_mib_s: timed.rate(bytes as f64 / 1_048_576.0),
                write_amplification: timed.write_amplification(laid_bytes + bytes),
                timed,
            }));
        }
    }
    Ok(())
}

/// Returns when each stretch ended, in nanoseconds of the recording's clock.
fn ends_of(recorded: &Recorded, events: &[Event]) -> Vec<u64> {
    let end = |event: &Event| match event {
        Event::Sample(sample) if (&sample.drive, sample.repeat) == (&recorded.drive, recorded.repeat) => {
            Some(recorded.traced.begin_ns.saturating_add((sample.elapsed * 1e9) as u64))
        }
        _ => None,
    };
    events.iter().filter_map(end).collect()
}
