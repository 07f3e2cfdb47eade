//! A traffic file in the laboratory: its sides on the laboratory's wires, and the kernel's TCP where it has no side.
//!
//! The file keeps its addresses, ports and templates; interface and core of each side become the laboratory's, and
//! everybody on its wires is a neighbour. Both sides in the file: a stack at either end of the veth pair. A client
//! alone: nginx on the kernel's TCP has its targets. A server alone: the kernel of the client's namespace reaches it,
//! and whoever the user starts there. The surprise: memory becomes the veth pair, by AF_XDP unless told otherwise.

use super::kernels::{Kernels, Pages};
use super::{cores, of_target};
use crate::exit::{Exit, Failure};
use record::traffic::{Protocol, Side, Template};
use record::{Bytes, Carrier, Nanos, TrafficSpec};
use std::collections::BTreeSet;
use std::net::IpAddr;
use sut::{Lab, LabSide, Launcher, Peers};
use traffic::ends::Places;

/// How long packets may gather, unless it was said.
pub const COALESCE: Nanos = Nanos(50_000);
/// Addresses of a kernel's side that are set one by one.
const TARGETS_MAX: usize = 1_024;
/// The kernel's own addresses where it is the client (RFC 2544 C.2.2, RFC 5180 8).
const CLIENT_V4: &str = "198.18.0.1";
const CLIENT_V6: &str = "2001:2::1";

/// The laboratory with the program's place in it; dropping it takes everything away.
pub struct Placed {
    /// Where the sides are opened.
    pub places: Places,
    /// Why the CPU of a side would not be its own.
    pub uncharged: Option<String>,
    /// What the user must know to go on: how a server without a client is reached.
    pub note: Option<String>,
    // The server ends before its namespace goes.
    _kernels: Option<Kernels>,
    _lab: Lab,
}

/// Makes the laboratory for `spec`, and names its interfaces and cores there. `device` is what the sides are attached
/// to, where it is not what the file says; `initial_window` is of the server, whoever that is.
///
/// # Errors
/// [`Failure`] when the file cannot run there, or the laboratory cannot be made.
pub fn place(
    launcher: &Launcher,
    spec: &mut TrafficSpec,
    device: Option<Carrier>,
    initial_window: Option<u32>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Placed, Failure> {
    if let (Some(server), Some(segments)) = (&mut spec.server, initial_window) {
        server.tcp.initial_window = Some(segments);
    }
    for side in spec.client.iter_mut().chain(&mut spec.server) {
        if side.transport == Carrier::Loopback {
            // The documented value of a device; memory has another.
            side.coalesce = COALESCE;
        }
        side.transport = match (device, side.transport) {
            (Some(device), _) => device,
            (None, Carrier::Loopback | Carrier::Kernel) => Carrier::AfXdp,
            (None, own) => own,
        };
    }
    let pages = refused(spec)?;
    let (client, server) = cores();
    let lab = Lab::create_bare(&launcher.journal, client, server).map_err(|e| of_target(&e))?;
    let mut places = Places::default();
    let mut note = None;
    if let Some(side) = &mut spec.client {
        let wire = Wire::of(side.transport, &lab.client, &lab.server);
        attach(side, wire.interface, client);
        places.client = Some(wire.place.namespace.clone());
    }
    if let Some(side) = &mut spec.server {
        let wire = Wire::of(side.transport, &lab.server, &lab.client);
        attach(side, wire.interface, server);
        places.server = Some(wire.place.namespace.clone());
    }
    let targets = targets(spec);
    let mut kernels = None;
    match (&spec.client, &spec.server) {
        (Some(side), None) => {
            let wire = Wire::of(side.transport, &lab.client, &lab.server);
            let peers = Peers {
                initial_window,
                ..Peers::new(targets.iter().copied())
            };
            lab.everybody_behind(&lab.server, wire.kernels, &peers)
                .map_err(|e| of_target(&e))?;
            let started = Kernels::start(launcher, &lab.server, &pages, interrupted)?;
            kernels = Some(started);
        }
        (None, Some(side)) => {
            let wire = Wire::of(side.transport, &lab.server, &lab.client);
            let own = [CLIENT_V4, CLIENT_V6].map(|ip| ip.parse().expect("an address"));
            lab.everybody_behind(&lab.client, wire.kernels, &Peers::new(own))
                .map_err(|e| of_target(&e))?;
            note = spec.templates.first().and_then(|template| {
                let target = template.targets.first()?;
                let name = lab.client.namespace.name();
                Some(format!(
                    "the server is reached from its client's namespace: `ip netns exec {name} curl http://{target}/`"
                ))
            });
        }
        _ => {}
    }
    Ok(Placed {
        places,
        uncharged: lab.charging.as_ref().err().cloned(),
        note,
        _kernels: kernels,
        _lab: lab,
    })
}

/// What carries the packets of a side with a TCP of prony's own.
struct Wire<'a> {
    /// Where its interface is.
    place: &'a LabSide,
    interface: &'a str,
    /// The interface of the kernel at the other end.
    kernels: &'a str,
}

impl<'a> Wire<'a> {
    /// Of the side that is at `own`. A TAP's other end is the kernel of its own namespace.
    fn of(transport: Carrier, own: &'a LabSide, other: &'a LabSide) -> Self {
        let (place, interface, kernels) = match transport {
            Carrier::Tap => (other, &other.tap, &other.tap),
            _ => (own, &own.veth, &other.veth),
        };
        Wire {
            place,
            interface,
            kernels,
        }
    }
}

fn attach(side: &mut Side, interface: &str, cpu: u32) {
    interface.clone_into(&mut side.interface);
    side.gateways.clear();
    (side.cpu, side.cpus) = (Some(cpu), Vec::new());
}

fn targets(spec: &TrafficSpec) -> BTreeSet<IpAddr> {
    let targets = spec.templates.iter().flat_map(|t| &t.targets);
    targets.map(std::net::SocketAddr::ip).collect()
}

/// What cannot run there, before anything is made; else what a kernel's server must have for a client alone.
fn refused(spec: &TrafficSpec) -> Result<Pages, Failure> {
    let usage = |cause: String, remedy: &str| Err(Failure::new(Exit::Usage, cause, remedy));
    let is_tap = |side: &Option<Side>| side.as_ref().is_some_and(|s| s.transport == Carrier::Tap);
    let both = spec.client.is_some() && spec.server.is_some();
    if both && (is_tap(&spec.client) || is_tap(&spec.server)) {
        return usage(
            "a TAP in the laboratory leads to a kernel, and the file has both sides".to_owned(),
            "choose --lab-over af_xdp or af_packet, or leave [server] out of the file: nginx answers then",
        );
    }
    let mut pages = Pages::default();
    if spec.server.is_some() {
        return Ok(pages);
    }
    if targets(spec).len() > TARGETS_MAX {
        return usage(
            format!(
                "the file has more than {TARGETS_MAX} targets, and the kernel's server has an address for each"
            ),
            "add [server] to the file, or name fewer targets",
        );
    }
    for template in &spec.templates {
        let Some((path, body)) = page(template) else {
            return usage(
                format!(
                    "nobody in the laboratory answers [[template]] `{}`: a kernel's server there has HTTP by GET, without TLS",
                    template.name
                ),
                "add [server] to the file: prony's own answers all of it",
            );
        };
        let before = pages.bodies.insert(path.to_owned(), body);
        if before.is_some_and(|before| before != body) {
            return usage(
                format!("two templates ask for {path} with responses of different length"),
                "give them different paths",
            );
        }
        pages
            .ports
            .extend(template.targets.iter().map(std::net::SocketAddr::port));
        pages.is_v6 |= template.targets.iter().any(std::net::SocketAddr::is_ipv6);
    }
    Ok(pages)
}

/// Path and body of what a kernel's server can answer.
fn page(template: &Template) -> Option<(&str, Bytes)> {
    let Protocol::Http(http) = &template.protocol else {
        return None;
    };
    let path = http.path.split('?').next().unwrap_or(&http.path);
    let is_plain = template.tls.is_none() && http.method == "GET" && http.body_bytes == 0;
    (is_plain && !path.contains("..")).then_some((path, Bytes(http.response_bytes)))
}
