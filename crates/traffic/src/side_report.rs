//! What a stack in user space says at its end: how it looked for packets, what it counted, what its thread took. One
//! for a load, an origin and a traffic program, so that their records have the same names.

use crate::clock::now_ns;
use crate::load::cost::{Cost, Snapshot};
use record::traffic::SideOutcome;
use record::{Nanos, Pauses};
use stack::device::Device;
use stack::host::Host;
use std::collections::BTreeMap;

/// The device as it describes itself, and how packets are looked for: after a pause that lets them gather, again and
/// again without one, or as soon as the kernel says that they are there.
pub(crate) fn transport<D: Device>(host: &Host<D>, coalesce: Nanos, spins: bool) -> String {
    let name = &host.device.capabilities().name;
    match coalesce.0 {
        0 if spins => format!("stack over {name}, spinning"),
        0 => format!("stack over {name}"),
        ns => format!("stack over {name}, coalesce {} us", ns / 1_000),
    }
}

/// What a host counted, in the names of a record. `halves` are [`stack::tcp::CLIENT`], [`stack::tcp::SERVER`], or both
/// where what belongs to no connection counts too: that stands with a client's.
pub(crate) fn counted<D: Device>(host: &Host<D>, halves: &[usize]) -> SideOutcome {
    let owned = |(name, n): (&str, u64)| (name.to_owned(), n);
    let mut tcp = BTreeMap::new();
    for (name, n) in halves
        .iter()
        .flat_map(|&half| host.stack.counters(half).named())
    {
        *tcp.entry(name.to_owned()).or_default() += n;
    }
    let mut device = BTreeMap::new();
    host.device
        .named(&mut |name, n| device.extend([owned((name, n))]));
    SideOutcome {
        tcp,
        link: host.link.counters().named().map(owned).into(),
        device,
        flow_bytes: host.stack.flow_bytes(),
        ..SideOutcome::default()
    }
}

/// What a host counted, and what its thread took meanwhile.
pub(crate) fn with_cost<D: Device>(host: &Host<D>, halves: &[usize], cost: &Cost) -> SideOutcome {
    SideOutcome {
        cpu_user_ns: cost.user_ns,
        cpu_system_ns: cost.system_ns,
        spun_ns: cost.spin_ns,
        ..counted(host, halves)
    }
}

/// The same for a thread that never spins and keeps no snapshots of its own.
#[derive(Debug, Default)]
pub(crate) struct SideReport {
    from: Snapshot,
    peak_flows: u32,
}

impl SideReport {
    /// Begins to count, on the thread itself.
    pub fn begin() -> Self {
        Self {
            from: snapshot(),
            peak_flows: 0,
        }
    }

    /// So many flows exist now.
    pub fn note_flows(&mut self, flows: u32) {
        self.peak_flows = self.peak_flows.max(flows);
    }

    /// The end, on the same thread.
    pub fn finish<D: Device>(&self, host: &Host<D>, halves: &[usize]) -> SideOutcome {
        SideOutcome {
            peak_flows: u64::from(self.peak_flows),
            ..with_cost(host, halves, &Cost::between(&self.from, &snapshot()))
        }
    }
}

fn snapshot() -> Snapshot {
    Snapshot::take(now_ns(), 0, Pauses::default(), 0)
}
