//! Agings in user-mode kernels.

use crate::Gate;
use crate::run::GateStep;
use crate::spec::GateSpec;
use senesce_guest::carry::{AGING_LIMIT, GuestSpec, PoolJob};

pub(crate) fn job(spec: &GateSpec, step: &GateStep) -> PoolJob<Gate> {
    let kernel = &spec.file_system[step.side].kernel;
    let guest = GuestSpec::in_virtual_time(kernel, spec.gate.memory, AGING_LIMIT);
    PoolJob {
        name: format!("{}-{}{}", step.seed, step.side, if step.sham { "-sham" } else { "" }),
        guest: if spec.aging.operations_per_second.is_none() { guest.still() } else { guest },
        spec: inside(spec),
    }
}

/// Returns the same gate on the kernel of the guest.
fn inside(spec: &GateSpec) -> GateSpec {
    let mut own = spec.clone();
    own.gate.host = true;
    // In the guest, steps of the second analysis are open from the beginning.
    own.gate.pairs = own.gate.max_pairs;
    for one in &mut own.file_system {
        one.kernel.clear();
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::{agings, gate};
    use crate::run::{pairs_needed, steps};

    #[test]
    fn gate_in_the_guest_requires_all_pairs() {
        let own = inside(&gate(8));
        assert_eq!(pairs_needed(&own, &agings(0, &mut |_| 1.0)), 8);
        assert_eq!(steps(8).map(|step| step.seed).max(), Some(7));
        assert!(own.gate.host && own.file_system.iter().all(|fs| fs.kernel.is_empty()));
    }
}
