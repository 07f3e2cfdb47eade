//! `[client]` and `[server]`: device, addresses, settings of TCP, faults, capture.

use super::address;
use crate::error::{Fault, Found, Report};
use crate::node::{Entry, Field};
use crate::typed;
use record::traffic::{Capture, Congestion, Faults, Order, Side, TcpSettings};
use record::{Carrier, Nanos};
use std::net::IpAddr;

/// How long packets may gather where the file does not say: the same as of `prony load`.
const COALESCE: Nanos = Nanos(50_000);
/// Bytes kept of a frame: the largest one with segmentation offload.
const SNAP_BYTES: u32 = 65_550;

const KEYS: [&str; 14] = [
    "transport",
    "interface",
    "addresses",
    "order",
    "ports",
    "network",
    "gateway",
    "coalesce",
    "threads",
    "cpu",
    "capture",
    "tcp",
    "faults",
    "snap",
];
const TCP_KEYS: [&str; 16] = [
    "mss",
    "initial_window",
    "receive_window",
    "congestion",
    "delayed_ack",
    "nagle",
    "sack",
    "timestamps",
    "window_scaling",
    "ecn",
    "rto_min",
    "time_wait",
    "keep_alive",
    "hop_limit",
    "traffic_class",
    "flows_max",
];
const FAULT_KEYS: [&str; 7] = [
    "loss",
    "duplicate",
    "reorder",
    "corrupt",
    "delay",
    "jitter",
    "rate",
];

/// A side as typed.
#[derive(Default)]
pub(super) struct Draft {
    at: usize,
    pub carrier: Option<Carrier>,
    interface: Option<String>,
    addresses: Option<(usize, Vec<String>)>,
    order: Order,
    ports: Option<(u16, u16)>,
    networks: Vec<String>,
    gateways: Vec<IpAddr>,
    coalesce: Option<Nanos>,
    /// How many, and where that stands.
    pub threads: Option<(usize, u32)>,
    cpus: Vec<u32>,
    tcp: TcpSettings,
    capture: Option<String>,
    snap_bytes: Option<u32>,
    faults: Option<Faults>,
}

/// A side and where its addresses stand in the file.
pub(super) struct Finished {
    pub side: Side,
    at: usize,
}

/// Whose TCP carries the traffic: any but the kernel's.
pub(super) fn carrier(field: Field<'_>) -> Result<Carrier, Found> {
    let all = [
        Carrier::Tap,
        Carrier::AfXdp,
        Carrier::AfPacket,
        Carrier::Dpdk,
        Carrier::Loopback,
    ];
    field.choice(&all.map(|it| (it.name(), it)))
}

/// The section; problems of single keys go to `report`.
pub(super) fn read(field: Field<'_>, is_client: bool, report: &mut Report) -> Result<Draft, Found> {
    let mut draft = Draft {
        at: field.name_at,
        ..Draft::default()
    };
    for entry in field.table()? {
        let set = draft.set(entry.field(), is_client);
        report.take(set);
    }
    Ok(draft)
}

impl Draft {
    fn set(&mut self, field: Field<'_>, is_client: bool) -> Result<(), Found> {
        match field.name {
            "transport" => self.carrier = Some(carrier(field)?),
            "interface" => self.interface = Some(field.typed(typed::interface)?),
            "addresses" => self.addresses = Some((field.node.at, addresses(field)?)),
            "order" => {
                self.order =
                    field.choice(&[("sequential", Order::Sequential), ("random", Order::Random)])?
            }
            "ports" if is_client => {
                let ports = field.plain().ok().and_then(|text| address::ports(&text));
                self.ports =
                    Some(ports.ok_or_else(|| field.must_be("ports such as \"1024-65535\""))?);
            }
            "ports" => {
                return Err(misplaced(
                    field,
                    "[server]",
                    "the port of `target`, which may be a range",
                ));
            }
            "network" => self.networks = field.typed_list(typed::networks)?,
            "gateway" => self.gateways = gateways(field)?,
            "coalesce" => self.coalesce = Some(field.duration()?),
            "threads" => self.threads = Some((field.name_at, field.count32(1)?)),
            "cpu" => self.cpus = field.typed_list(typed::cpus)?,
            "capture" => self.capture = Some(field.text()?.to_owned()),
            "snap" => self.snap_bytes = Some(small(field, field.bytes()?.0)?),
            "tcp" => self.tcp = each(field, TcpSettings::default(), set_tcp)?,
            "faults" => self.faults = Some(each(field, Faults::default(), set_fault)?),
            _ => {
                let inside = if is_client { "[client]" } else { "[server]" };
                return Err(field.unknown_key(inside, &KEYS));
            }
        }
        Ok(())
    }

    /// The side with what the rest of the file tells of it: the file's transport, and the addresses of `targets`.
    pub fn finish(
        self,
        is_client: bool,
        carrier: Option<Carrier>,
        loopback: bool,
        targets: &[IpAddr],
    ) -> Result<Finished, Found> {
        let inside = if is_client { "[client]" } else { "[server]" };
        let implied = loopback.then_some(Carrier::Loopback);
        let Some(transport) = self.carrier.or(carrier).or(implied) else {
            return Err(Found::missing(
                self.at,
                "transport",
                inside,
                "transport = \"tap\"",
            ));
        };
        if loopback != (transport == Carrier::Loopback) {
            let fault = Fault::Conflict {
                first: "transport = \"loopback\"".to_owned(),
                second: format!("transport = \"{}\"", transport.name()),
                inside: "one file".to_owned(),
                why: "over memory both sides are ours, and neither has an interface",
            };
            return Err(Found::at(self.at, fault));
        }
        let interface = match (self.interface, loopback) {
            (None, false) => {
                return Err(Found::missing(
                    self.at,
                    "interface",
                    inside,
                    "interface = \"tap0\"",
                ));
            }
            (interface, _) => interface.unwrap_or_default(),
        };
        let (at, typed) = self.addresses.unwrap_or_default();
        let ranges: Vec<_> = typed
            .iter()
            .filter_map(|text| address::range(text))
            .collect();
        let addresses = match (typed.is_empty(), is_client) {
            (false, _) => typed,
            (true, false) => of_targets(targets),
            (true, true) if loopback => beside(self.at, targets)?,
            (true, true) => {
                return Err(Found::missing(
                    self.at,
                    "addresses",
                    inside,
                    "addresses = \"10.9.0.2-10.9.0.250\", which no host has",
                ));
            }
        };
        check_targets(is_client, at, &ranges, targets)?;
        Ok(Finished {
            at: self.at,
            side: Side {
                transport,
                interface,
                addresses,
                order: self.order,
                ports: self.ports,
                networks: self.networks,
                gateways: self.gateways,
                // Nothing gathers in memory: the other side has been looked at by then.
                coalesce: self
                    .coalesce
                    .unwrap_or(if loopback { Nanos(0) } else { COALESCE }),
                threads: self.threads.map_or(1, |(_, count)| count),
                cpu: self.cpus.first().copied(),
                cpus: if self.cpus.len() > 1 {
                    self.cpus
                } else {
                    Vec::new()
                },
                tcp: self.tcp,
                capture: self.capture.map(|path| Capture {
                    path,
                    snap_bytes: self.snap_bytes.unwrap_or(SNAP_BYTES),
                }),
                faults: self.faults,
            },
        })
    }
}

/// Over memory each thread of a side has a wire to one of the other: where one side says how many, the other has as
/// many.
pub(super) fn share_threads(sides: &mut [Option<Draft>; 2]) -> Result<(), Found> {
    let [Some(client), Some(server)] = sides else {
        return Ok(());
    };
    match (client.threads, server.threads) {
        (Some((_, one)), Some((at, other))) if one != other => {
            let fault = Fault::Conflict {
                first: format!("threads = {one} of [client]"),
                second: format!("threads = {other} of [server]"),
                inside: "one file over transport = \"loopback\"".to_owned(),
                why: "in memory each thread of a side faces one thread of the other",
            };
            Err(Found::at(at, fault))
        }
        (one, other) => {
            client.threads = one.or(other);
            server.threads = other.or(one);
            Ok(())
        }
    }
}

/// Both over one interface would answer each other's packets.
pub(super) fn check_pair(
    client: Option<&Finished>,
    server: Option<&Finished>,
) -> Result<(), Found> {
    let (Some(client), Some(server)) = (client, server) else {
        return Ok(());
    };
    if client.side.interface != server.side.interface {
        return Ok(());
    }
    let fault = Fault::Conflict {
        first: "interface of [client]".to_owned(),
        second: "interface of [server]".to_owned(),
        inside: "one file".to_owned(),
        why: "each side takes a whole interface; give each its own, or transport = \"loopback\" to both",
    };
    Err(Found::at(server.at, fault))
}

/// The server has every target; the client has none, and one of the same family.
fn check_targets(
    is_client: bool,
    at: usize,
    ranges: &[(IpAddr, IpAddr)],
    targets: &[IpAddr],
) -> Result<(), Found> {
    let unexpected = |expected: String, found: String| {
        let what = "addresses".to_owned();
        Err(Found::at(
            at,
            Fault::Unexpected {
                what,
                expected,
                found,
            },
        ))
    };
    if ranges.is_empty() {
        return Ok(());
    }
    for target in targets {
        let is_within = address::is_within(ranges, *target);
        let family = if target.is_ipv4() { "IPv4" } else { "IPv6" };
        let has_family = ranges
            .iter()
            .any(|(first, _)| first.is_ipv4() == target.is_ipv4());
        if is_client && is_within {
            return unexpected(
                "addresses of the client alone".to_owned(),
                format!("the target {target} too"),
            );
        }
        if is_client && !has_family {
            return unexpected(
                format!("{family} too, as the target {target} is"),
                "the other family alone".to_owned(),
            );
        }
        if !is_client && !is_within {
            return unexpected(
                "all targets of the templates".to_owned(),
                format!("all but {target}"),
            );
        }
    }
    Ok(())
}

fn of_targets(targets: &[IpAddr]) -> Vec<String> {
    let mut all: Vec<IpAddr> = targets.to_vec();
    all.sort_unstable();
    all.dedup();
    all.iter().map(ToString::to_string).collect()
}

/// Addresses beside the targets, of each family that they have.
fn beside(at: usize, targets: &[IpAddr]) -> Result<Vec<String>, Found> {
    let mut found = Vec::new();
    for is_v4 in [true, false] {
        let Some(first) = targets.iter().find(|t| t.is_ipv4() == is_v4) else {
            continue;
        };
        let range = address::beside(*first);
        if targets.iter().any(|t| address::is_within(&[range], *t)) {
            return Err(Found::missing(
                at,
                "addresses",
                "[client]",
                "addresses = \"10.9.1.2-10.9.1.250\", none of them a target",
            ));
        }
        found.push(format!("{}-{}", range.0, range.1));
    }
    Ok(found)
}

fn addresses(field: Field<'_>) -> Result<Vec<String>, Found> {
    let one = |field: Field<'_>, text: &str| match address::range(text) {
        Some(_) => Ok(text.trim().to_owned()),
        None => Err(field
            .must_be("addresses such as \"10.9.0.2-10.9.0.250\", \"10.9.0.0/24\" or \"fd00::2\"")),
    };
    if let Ok(text) = field.text() {
        return text.split(',').map(|part| one(field, part)).collect();
    }
    field.list()?.map(|item| one(item, item.text()?)).collect()
}

fn gateways(field: Field<'_>) -> Result<Vec<IpAddr>, Found> {
    let one = |field: Field<'_>| {
        let address = field.text()?.trim().parse();
        address.map_err(|_| field.must_be("the address of a router such as \"10.9.0.1\""))
    };
    match field.text() {
        Ok(_) => Ok(vec![one(field)?]),
        Err(_) => field.list()?.map(one).collect(),
    }
}

fn each<T>(
    field: Field<'_>,
    mut of: T,
    set: fn(&mut T, Field<'_>) -> Result<(), Found>,
) -> Result<T, Found> {
    field
        .table()?
        .iter()
        .map(Entry::field)
        .try_for_each(|f| set(&mut of, f))?;
    Ok(of)
}

/// Whole milliseconds.
fn milliseconds(field: Field<'_>) -> Result<u32, Found> {
    let Nanos(ns) = field.duration()?;
    match ns.is_multiple_of(1_000_000) {
        true => small(field, ns / 1_000_000),
        false => Err(field.must_be("whole milliseconds such as \"100ms\"")),
    }
}

/// A number that fits where it goes.
fn small<T: TryFrom<u64>>(field: Field<'_>, n: u64) -> Result<T, Found> {
    let most = (1_u128 << (8 * size_of::<T>())) - 1;
    T::try_from(n).map_err(|_| field.must_be(format!("at most {most}")))
}

fn set_tcp(tcp: &mut TcpSettings, field: Field<'_>) -> Result<(), Found> {
    match field.name {
        "mss" => tcp.mss_bytes = Some(small(field, field.bytes()?.0)?),
        "initial_window" => tcp.initial_window = Some(field.count32(1)?),
        "receive_window" => tcp.receive_window_bytes = Some(small(field, field.bytes()?.0)?),
        "congestion" => {
            let known = [
                ("cubic", Congestion::Cubic),
                ("new_reno", Congestion::NewReno),
            ];
            tcp.congestion = Some(field.choice(&known)?);
        }
        "delayed_ack" => tcp.delayed_ack_ms = Some(milliseconds(field)?),
        "nagle" => tcp.nagle = Some(field.boolean()?),
        "sack" => tcp.sack = Some(field.boolean()?),
        "timestamps" => tcp.timestamps = Some(field.boolean()?),
        "window_scaling" => tcp.window_scaling = Some(field.boolean()?),
        "ecn" => tcp.ecn = Some(field.boolean()?),
        "rto_min" => tcp.rto_min_ms = Some(milliseconds(field)?),
        "time_wait" => tcp.time_wait_ms = Some(milliseconds(field)?),
        "keep_alive" => tcp.keep_alive_ms = Some(milliseconds(field)?),
        "hop_limit" => tcp.hop_limit = Some(small(field, field.count(1)?)?),
        "traffic_class" => tcp.traffic_class = Some(small(field, field.count(0)?)?),
        "flows_max" => tcp.flows_max = Some(field.count32(1)?),
        _ => return Err(field.unknown_key("the settings of TCP", &TCP_KEYS)),
    }
    Ok(())
}

fn set_fault(faults: &mut Faults, field: Field<'_>) -> Result<(), Found> {
    match field.name {
        "loss" => faults.loss = field.share()?,
        "duplicate" => faults.duplicate = field.share()?,
        "reorder" => faults.reorder = field.share()?,
        "corrupt" => faults.corrupt = field.share()?,
        "delay" => faults.delay = field.duration()?,
        "jitter" => faults.jitter = field.duration()?,
        "rate" => faults.rate_bits_per_s = field.bit_rate()?,
        _ => return Err(field.unknown_key("the faults of a wire", &FAULT_KEYS)),
    }
    Ok(())
}

fn misplaced(field: Field<'_>, inside: &str, instead: &str) -> Found {
    let fault = Fault::Misplaced {
        name: field.name.to_owned(),
        inside: inside.to_owned(),
        instead: instead.to_owned(),
    };
    Found::at(field.name_at, fault)
}
