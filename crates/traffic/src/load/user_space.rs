//! What a TCP of our own needs before a load: an interface that exists, addresses that no kernel answers for, a target
//! in the interface's own network, and a device.
//!
//! In the flow: called by [`super::Load`], which starts the one loop over it like over sockets.

use super::LoadError;
use crate::transport::Setup;
use linux::routes;
use record::{Carrier, LoadSpec};
use stack::address::{AddressRange, Network};
use stack::device::Device;
use stack::device::af_xdp::{self, AfXdp};
use stack::device::interface::{Interface, refuse_host_addresses};
use stack::device::tap::{self, Tap};
use stack::error::Error;
use stack::link::{self, Link};
use stack::tcp::Settings;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The device of a load thread.
pub(super) type AnyDevice = Box<dyn Device + Send>;

/// What the stack's link or device refuses.
pub(super) fn refused(spec: &LoadSpec, cause: Error) -> LoadError {
    LoadError::Stack {
        transport: spec.transport.name(),
        cause,
    }
}

/// One thread, since each needs a queue of its own.
pub(super) fn threads(spec: &LoadSpec) -> Result<u32, LoadError> {
    match spec.threads {
        None | Some(1) => Ok(1),
        Some(threads) => Err(LoadError::OneQueue {
            transport: spec.transport.name(),
            threads,
        }),
    }
}

/// Checks interface, addresses and target, and sets the stack up.
pub(super) fn prepare(
    spec: &LoadSpec,
    server: SocketAddr,
    request_bytes: usize,
    is_tls: bool,
) -> Result<Setup, LoadError> {
    /// Several TLS records, so that a handshake does not stand still.
    const TLS_BYTES: usize = 16 * 1024;
    let (proc_root, transport) = (Path::new("/proc"), spec.transport.name());
    if matches!(
        spec.transport,
        Carrier::Kernel | Carrier::AfPacket | Carrier::Loopback
    ) {
        return Err(LoadError::NoDevice { transport });
    }
    let Some(interface) = spec.interface.clone() else {
        let known = routes::interfaces(proc_root);
        return Err(LoadError::NoInterface { transport, known });
    };
    // A TAP that does not exist would be made, with no address for the server to be at.
    Interface::named(&interface).map_err(|cause| refused(spec, cause))?;
    let networks: Vec<Network> = routes::attached(proc_root, &interface)
        .into_iter()
        .filter_map(|it| Network::new(it.address, it.prefix_bits))
        .collect();
    if spec.source.is_empty() {
        let network = networks.first().map(ToString::to_string);
        let network = network.unwrap_or_default();
        return Err(LoadError::NoSource { transport, network });
    }
    if let Some(&address) = spec
        .source
        .iter()
        .find(|ip| ip.is_ipv4() != server.is_ipv4())
    {
        return Err(LoadError::SourceFamily { address, server });
    }
    let own = ranges(&spec.source);
    refuse_host_addresses(&own).map_err(|cause| refused(spec, cause))?;
    let link = link::Settings {
        interface,
        // The device's, when it is open.
        mac: [2, 0, 0, 0, 0, 1],
        own,
        networks,
        gateways: Vec::new(),
    };
    // A target outside the interface's networks is refused before anything is opened.
    Link::new(link.clone())
        .and_then(|mut link| link.resolve(server.ip(), 0))
        .map_err(|cause| refused(spec, cause))?;
    Ok(Setup {
        server,
        sources: spec.source.clone(),
        link,
        settings: settings(spec),
        coalesce_ns: spec.coalesce.0,
        request_bytes: if is_tls {
            request_bytes.max(TLS_BYTES)
        } else {
            request_bytes
        },
        seed: crate::clock::now_ns() ^ u64::from(std::process::id()) << 32,
    })
}

/// Addresses that follow each other, as ranges.
fn ranges(sources: &[IpAddr]) -> Vec<AddressRange> {
    let number = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let mut sorted = sources.to_vec();
    sorted.sort_unstable();
    let runs = sorted.chunk_by(|a, b| a.is_ipv4() == b.is_ipv4() && number(*b) - number(*a) <= 1);
    runs.filter_map(|run| AddressRange::new(*run.first()?, *run.last()?))
        .collect()
}

/// Room for the connections, and for those that wait out their end: no more than there are ports, and no more than a
/// quarter of a million, of which the stack takes one again when it needs it.
fn settings(spec: &LoadSpec) -> Settings {
    let default = Settings::default();
    let ports = u32::from(default.ports.1 - default.ports.0) + 1;
    let waiting = ports.saturating_mul(spec.source.len() as u32).min(1 << 18);
    Settings {
        flows_max: spec.connections.saturating_mul(2).saturating_add(waiting),
        ..default
    }
}

/// Opens the device.
pub(super) fn open_device(spec: &LoadSpec) -> Result<AnyDevice, LoadError> {
    let name = spec.interface.clone().unwrap_or_default();
    match spec.transport {
        Carrier::Tap => {
            let settings = tap::Settings {
                name,
                mtu_bytes: None,
                is_offloaded: true,
            };
            let tap = Tap::open(&settings).map_err(|cause| refused(spec, cause))?;
            Ok(Box::new(tap))
        }
        Carrier::AfXdp => {
            let settings = af_xdp::Settings {
                interface: name,
                own: ranges(&spec.source),
                mode: af_xdp::Mode::Best,
            };
            let sockets = AfXdp::open(&settings).map_err(|cause| refused(spec, cause))?;
            Ok(Box::new(sockets))
        }
        Carrier::Kernel | Carrier::AfPacket | Carrier::Loopback => Err(LoadError::NoDevice {
            transport: spec.transport.name(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_follow_each_other_are_one_range() {
        let ip = |last| IpAddr::from([10, 9, 0, last]);
        let shown = |sources: &[IpAddr]| {
            let ranges = ranges(sources);
            ranges
                .iter()
                .map(|range| (range.first(), range.last()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            shown(&[ip(4), ip(2), ip(3), ip(9)]),
            [(ip(2), ip(4)), (ip(9), ip(9))]
        );
        let v6 = "fd00::1".parse().unwrap();
        assert_eq!(shown(&[v6, ip(2)]), [(ip(2), ip(2)), (v6, v6)]);
    }

    #[test]
    fn a_stack_without_what_it_needs_is_refused_with_the_remedy() {
        let server = SocketAddr::from(([127, 9, 0, 1], 80));
        let check = |change: fn(&mut LoadSpec), text: &str, remedy: &str| {
            let mut spec = LoadSpec::new("http://127.9.0.1/");
            spec.transport = Carrier::Tap;
            spec.interface = Some("lo".to_owned());
            spec.source = vec![IpAddr::from([127, 9, 0, 2])];
            change(&mut spec);
            let error = threads(&spec)
                .and_then(|_| prepare(&spec, server, 100, false))
                .unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
            assert!(error.remedy().contains(remedy), "{}", error.remedy());
        };
        check(
            |s| s.interface = None,
            "it has no interface",
            "--interface; there are: lo",
        );
        check(
            |s| s.interface = Some("tpa0".to_owned()),
            "no network interface `tpa0`",
            "",
        );
        check(|s| s.source.clear(), "addresses of its own", "--source");
        check(
            |s| s.source = vec!["::2".parse().unwrap()],
            "one is IPv4 and the other IPv6",
            "one family",
        );
        check(
            |s| s.source = vec![IpAddr::from([127, 0, 0, 1])],
            "this host has 127.0.0.1",
            "",
        );
        check(|_| (), "127.9.0.1 is outside the networks of lo", "");
        check(|s| s.threads = Some(2), "one queue", "-t 1");
        check(
            |s| s.transport = Carrier::AfPacket,
            "no such device",
            "--transport tap",
        );
    }
}
