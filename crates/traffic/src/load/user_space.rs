//! What a TCP of our own needs before a load: an interface that exists, addresses that no kernel answers for, a target
//! in the interface's own network, and a device.
//!
//! In the flow: called by [`super::Load`], which starts the one loop over it like over sockets.

use super::LoadError;
use crate::sys::{self, RawAddress};
use crate::transport::Setup;
use linux::routes::{self, Attached};
use record::{Carrier, LoadSpec};
use stack::device::{Device, Tap};
use stack::tcp::Settings;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The device of a load thread.
pub(super) type AnyDevice = Box<dyn Device + Send>;

fn shown(network: &Attached) -> String {
    format!("{}/{}", network.address, network.prefix_bits)
}

fn contains(network: &Attached, ip: IpAddr) -> bool {
    let prefix = |bits: u128, width: u32| {
        bits.checked_shr(width - u32::from(network.prefix_bits))
            .unwrap_or(0)
    };
    match (network.address, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            prefix(u128::from(a.to_bits()), 32) == prefix(u128::from(b.to_bits()), 32)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => prefix(a.to_bits(), 128) == prefix(b.to_bits(), 128),
        _ => false,
    }
}

/// A locally administered address. The last bytes are this process' own, so that two loads on one network differ.
fn own_mac() -> [u8; 6] {
    let [a, b, c, d] = std::process::id().to_be_bytes();
    [0x02, 0x70, a, b, c, d]
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
    let proc_root = Path::new("/proc");
    let (transport, known) = (spec.transport.name(), routes::interfaces(proc_root));
    let Some(interface) = spec.interface.clone() else {
        return Err(LoadError::NoInterface { transport, known });
    };
    if !known.contains(&interface) {
        return Err(LoadError::UnknownInterface { interface, known });
    }
    let networks = routes::attached(proc_root, &interface);
    if spec.source.is_empty() {
        let network = networks.first().map(shown).unwrap_or_default();
        return Err(LoadError::NoSource { transport, network });
    }
    check_sources(&spec.source, server)?;
    if !networks
        .iter()
        .any(|network| contains(network, server.ip()))
    {
        let networks: Vec<String> = networks.iter().map(shown).collect();
        return Err(LoadError::OutsideNetwork {
            server,
            interface,
            networks: if networks.is_empty() {
                "none".to_owned()
            } else {
                networks.join(", ")
            },
        });
    }
    if server.is_ipv6() {
        return Err(LoadError::NoIpv6 { transport, server });
    }
    Ok(Setup {
        server,
        sources: spec.source.clone(),
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

/// Room for the connections, and for those that wait out their end: no more than there are ports, and no more than a quarter
/// of a million, of which the stack takes one again when it needs it.
fn settings(spec: &LoadSpec) -> Settings {
    let default = Settings::default();
    let ports = u32::from(default.ports.1 - default.ports.0) + 1;
    let waiting = ports.saturating_mul(spec.source.len() as u32).min(1 << 18);
    Settings {
        flows_max: spec.connections.saturating_mul(2).saturating_add(waiting),
        ..default
    }
}

/// Of the server's family, and not an address of this host.
fn check_sources(sources: &[IpAddr], server: SocketAddr) -> Result<(), LoadError> {
    for &address in sources {
        if address.is_ipv4() != server.is_ipv4() {
            return Err(LoadError::SourceFamily { address, server });
        }
        let raw = RawAddress::from(SocketAddr::new(address, 0));
        let bound = sys::tcp_socket(raw.family()).and_then(|socket| sys::bind(socket.raw(), &raw));
        if bound.is_ok() {
            return Err(LoadError::SourceIsHosts { address });
        }
    }
    Ok(())
}

/// Opens the device.
pub(super) fn open_device(spec: &LoadSpec) -> Result<AnyDevice, LoadError> {
    /// What the kernel gives a TAP; segments of this length are cut by it, so that it limits no frame.
    const MTU_BYTES: u16 = 1_500;
    let transport = spec.transport.name();
    let interface = spec.interface.clone().unwrap_or_default();
    match spec.transport {
        Carrier::Tap => match Tap::open(&interface, own_mac(), MTU_BYTES) {
            Ok(tap) => Ok(Box::new(tap)),
            Err(cause) => Err(LoadError::Device {
                transport,
                interface,
                cause,
            }),
        },
        Carrier::Kernel | Carrier::AfXdp | Carrier::AfPacket => {
            Err(LoadError::NoDevice { transport })
        }
    }
}
