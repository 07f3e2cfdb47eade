//! What a load over a TCP of our own needs beside its [`Attachment`]: ports for each thread, flows and room for its
//! requests.
//!
//! In the flow: called by [`super::Load`], which starts the one loop over it like over sockets.

use super::LoadError;
use crate::transport::Setup;
use crate::user_space::{AnyDevice, AttachError, Attachment, Words, networks_of, ranges};
use record::LoadSpec;
use stack::device::queues::{Owners, port_ranges};
use stack::tcp::Settings;
use std::net::SocketAddr;

/// How `prony load` names things.
const WORDS: Words = Words {
    interface: "--interface",
    addresses: "--source",
    transport: "--transport",
};

/// One thread, unless more are asked for: each needs a queue of its own, and connections.
pub(super) fn threads(spec: &LoadSpec) -> u32 {
    spec.threads.map_or(1, |_| super::thread_count(spec, 1))
}

/// A device for each thread, and its set-up: ports of its own, by which answers find their way back to it, numbers of
/// its own, and its share of the flows.
pub(super) fn open(
    spec: &LoadSpec,
    setup: &Setup,
    threads: u32,
) -> Result<Vec<(AnyDevice, Setup)>, LoadError> {
    let ports = port_ranges(setup.settings.ports, threads as usize);
    let owners = Owners::LocalPorts(ports.clone());
    let devices = attachment(spec, setup.server)?.open_queues(threads as usize, &owners)?;
    let setup_of = |(index, ports): (u64, (u16, u16))| {
        let mut own = setup.clone();
        own.seed = setup.seed.wrapping_add(index);
        own.settings.ports = ports;
        own.settings.flows_max = setup.settings.flows_max.div_ceil(threads);
        own
    };
    let setups = (0..).zip(ports).map(setup_of);
    Ok(devices.into_iter().zip(setups).collect())
}

/// The device and the addresses of a load on `server`.
///
/// # Errors
/// [`AttachError::BadRange`], of a network.
pub(super) fn attachment(spec: &LoadSpec, server: SocketAddr) -> Result<Attachment, AttachError> {
    Ok(Attachment {
        transport: spec.transport,
        interface: spec.interface.clone().unwrap_or_default(),
        addresses: ranges(&spec.source),
        networks: networks_of(&spec.network)?,
        gateways: spec.gateway.clone(),
        targets: vec![server.ip()],
        coalesce: spec.gathering().unwrap_or_default(),
        words: WORDS,
    })
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
    let of_other_family = |ip: &&std::net::IpAddr| ip.is_ipv4() != server.is_ipv4();
    if let Some(&address) = spec.source.iter().find(of_other_family) {
        return Err(LoadError::SourceFamily { address, server });
    }
    Ok(Setup {
        server,
        sources: spec.source.clone(),
        link: attachment(spec, server)?.check()?,
        settings: settings(spec),
        coalesce_ns: spec.gathering().unwrap_or_default().0,
        spins: linux::affinity::allowed().len() > 1,
        request_bytes: if is_tls {
            request_bytes.max(TLS_BYTES)
        } else {
            request_bytes
        },
        seed: crate::clock::now_ns() ^ u64::from(std::process::id()) << 32,
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use record::Carrier;
    use std::net::IpAddr;

    #[test]
    fn a_load_over_a_stack_without_what_it_needs_is_refused_with_the_remedy() {
        let server = SocketAddr::from(([127, 9, 0, 1], 80));
        let check = |change: fn(&mut LoadSpec), text: &str, remedy: &str| {
            let mut spec = LoadSpec::new("http://127.9.0.1/");
            spec.transport = Carrier::Tap;
            spec.interface = Some("lo".to_owned());
            spec.source = vec![IpAddr::from([127, 9, 0, 2])];
            change(&mut spec);
            let error = prepare(&spec, server, 100, false).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
            assert!(error.remedy().contains(remedy), "{}", error.remedy());
        };
        check(
            |s| s.interface = None,
            "it has no interface",
            "--interface; there are: lo",
        );
        check(|s| s.source.clear(), "addresses of its own", "--source");
        check(
            |s| s.source = vec!["::2".parse().unwrap()],
            "one is IPv4 and the other IPv6",
            "one family",
        );
    }
}
