//! A side of the spec as the stack wants it: settings of TCP, and the addresses one by one.

use super::ProgramError;
use super::part::Threads;
use super::script::Role;
use crate::user_space::{ADDRESSES_MAX, count, each, ranges_of};
use record::TrafficSpec;
use record::traffic::{Congestion, Order, Pace, Side};
use stack::device::queues::port_ranges;
use stack::tcp::{CongestionControl, PortOrder, Settings};
use std::net::IpAddr;

/// Connections for which there is room where the spec does not say how many there will be.
const FLOWS: u64 = 1 << 18;

/// The addresses of a side, in the order of its ranges.
pub(super) fn addresses(side: &Side, role: Role) -> Result<Vec<IpAddr>, ProgramError> {
    let side_name = role.name();
    let ranges = ranges_of(side).map_err(|cause| ProgramError::Addresses {
        side: side_name,
        cause,
    })?;
    count(&ranges).map_err(|count| ProgramError::TooMany {
        what: format!("addresses of the {side_name} side"),
        count,
        most: ADDRESSES_MAX,
    })?;
    Ok(each(&ranges).collect())
}

/// First and last local port of a side.
fn ports(side: &Side) -> (u16, u16) {
    side.ports.unwrap_or(Settings::default().ports)
}

/// The same, where each of so many threads can have some.
///
/// # Errors
/// [`ProgramError::FewPorts`].
pub(crate) fn ports_for(side: &Side, threads: u32) -> Result<(u16, u16), ProgramError> {
    let range = ports(side);
    let ports = u32::from(range.1.saturating_sub(range.0)) + 1;
    match threads > ports {
        true => Err(ProgramError::FewPorts { threads, ports }),
        false => Ok(range),
    }
}

/// The settings of the TCP of one of a side's threads: it has ports of its own, and a part of the room for connections.
pub(super) fn tcp(side: &Side, role: Role, spec: &TrafficSpec, threads: Threads) -> Settings {
    let asked = &side.tcp;
    let mut settings = Settings::default();
    set(&mut settings.mss_bytes, asked.mss_bytes);
    set(&mut settings.initial_window_segments, asked.initial_window);
    set(
        &mut settings.receive_window_bytes,
        asked.receive_window_bytes,
    );
    set(&mut settings.delayed_ack_ms, asked.delayed_ack_ms);
    set(&mut settings.nagle, asked.nagle);
    set(&mut settings.sack, asked.sack);
    set(&mut settings.timestamps, asked.timestamps);
    set(&mut settings.window_scaling, asked.window_scaling);
    set(&mut settings.ecn, asked.ecn);
    set(&mut settings.rto_min_ms, asked.rto_min_ms);
    set(&mut settings.time_wait_ms, asked.time_wait_ms);
    set(&mut settings.keep_alive_idle_ms, asked.keep_alive_ms);
    set(&mut settings.hop_limit, asked.hop_limit);
    set(&mut settings.traffic_class, asked.traffic_class);
    settings.ports = port_ranges(ports(side), threads.count)[threads.thread];
    if let Some(congestion) = asked.congestion {
        settings.congestion_control = match congestion {
            Congestion::Cubic => CongestionControl::Cubic,
            Congestion::NewReno => CongestionControl::NewReno,
        };
    }
    settings.port_order = match side.order {
        Order::Sequential => PortOrder::Sequential,
        Order::Random => PortOrder::Random,
    };
    let count = threads.count as u32;
    settings.flows_max = match (asked.flows_max, role) {
        (Some(asked), _) => asked.div_ceil(count),
        (None, Role::Client) => flows_max(spec).div_ceil(count),
        // Peers choose which thread has their connections.
        (None, Role::Server) => flows_max(spec),
    };
    settings.syn_received_max = settings.flows_max;
    settings
}

fn set<T>(field: &mut T, asked: Option<T>) {
    if let Some(asked) = asked {
        *field = asked;
    }
}

/// Room for all that may be open at one time, and as many that wait out their end.
fn flows_max(spec: &TrafficSpec) -> u32 {
    let most = spec.templates.iter().map(|template| match template.pace {
        Pace::Concurrent(n) => u64::from(n),
        _ => template.concurrent_max.map_or(0, u64::from),
    });
    let most = most.fold(0, u64::saturating_add).saturating_mul(2);
    u32::try_from(most.max(FLOWS)).unwrap_or(u32::MAX >> 2)
}
