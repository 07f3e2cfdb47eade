//! From the kernel's maps to signatures.
//!
//! In the flow: the last step of disarming. The programs are detached already, so the maps stand still.
//!
//! The surprise: a thread that was asleep at the end has left the CPU and never come back, so its wait is in no
//! counter. It lies in the map of threads and is added here, up to the end of the window.

use super::allocator::Allocators;
use super::error::{EbpfError, chain};
use super::layout::{
    AllocKey, CallCounts, CallKey, ClassKey, CountKey, FileCounts, FileKey, NO_CALL, Peer,
    PeerCounts, PeerError, ProcessCounts, RefusalKey, SockCounts, Thread, WaitCounts, WaitKey,
    class,
};
use super::{ProbeTarget, asked, calls, heads, proc};
use aya::maps::{HashMap, MapData, PerCpuArray, PerCpuHashMap, PerCpuValues, RingBuf};
use aya::{Ebpf, Pod};
use record::{
    AllocatorStats, Blocked, CallStats, FdClass, FileStats, Refusal, SocketStats, TargetSignature,
    UpstreamStats, WaitState,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const O_APPEND: u64 = libc::O_APPEND as u64;
/// `O_SYNC` holds this bit, too.
const O_DSYNC: u64 = libc::O_DSYNC as u64;
/// Exact sizes that are kept of each call.
const TOP_SIZES: usize = 16;

type Hash<K, V> = HashMap<MapData, K, V>;
type PerCpu<K, V> = PerCpuHashMap<MapData, K, V>;

/// The maps, taken out of the loaded object.
pub(crate) struct Maps {
    threads: Hash<u32, Thread>,
    calls: PerCpu<CallKey, CallCounts>,
    errors: Hash<CountKey, u64>,
    sizes: Hash<CountKey, u64>,
    waits: PerCpu<WaitKey, WaitCounts>,
    files: Hash<FileKey, FileCounts>,
    peers: Hash<Peer, PeerCounts>,
    peer_errors: Hash<PeerError, u64>,
    socks: Hash<ClassKey, SockCounts>,
    taken: Hash<u32, u64>,
    processes: Hash<u32, ProcessCounts>,
    refusals: Hash<RefusalKey, u64>,
    allocs: PerCpu<AllocKey, u64>,
    lost: PerCpuArray<MapData, u64>,
    heads: RingBuf<MapData>,
    answered: RingBuf<MapData>,
}

macro_rules! taken {
    ($bpf:ident, $kind:ident, $name:literal) => {{
        let map = $bpf.take_map($name).ok_or(EbpfError::Missing($name))?;
        $kind::try_from(map).map_err(|error| EbpfError::Map {
            what: $name,
            cause: chain(&error),
        })?
    }};
}

impl Maps {
    /// Takes them.
    pub(crate) fn take(bpf: &mut Ebpf) -> Result<Self, EbpfError> {
        Ok(Self {
            threads: taken!(bpf, HashMap, "THREADS"),
            calls: taken!(bpf, PerCpuHashMap, "CALLS"),
            errors: taken!(bpf, HashMap, "ERRORS"),
            sizes: taken!(bpf, HashMap, "SIZES"),
            waits: taken!(bpf, PerCpuHashMap, "WAITS"),
            files: taken!(bpf, HashMap, "FILES"),
            peers: taken!(bpf, HashMap, "PEERS"),
            peer_errors: taken!(bpf, HashMap, "PEER_ERRORS"),
            socks: taken!(bpf, HashMap, "SOCK_STATS"),
            taken: taken!(bpf, HashMap, "TAKEN"),
            processes: taken!(bpf, HashMap, "PROCESSES"),
            refusals: taken!(bpf, HashMap, "REFUSALS"),
            allocs: taken!(bpf, PerCpuHashMap, "ALLOCS"),
            lost: taken!(bpf, PerCpuArray, "LOST"),
            heads: taken!(bpf, RingBuf, "HEADS"),
            answered: taken!(bpf, RingBuf, "ANSWERED"),
        })
    }

    /// Signatures in the order of the targets, and the events that found a map full.
    pub(crate) fn collect(
        self,
        targets: &[ProbeTarget],
        ended_ns: u64,
        allocators: &Allocators,
    ) -> (Vec<TargetSignature>, u64) {
        let names: BTreeMap<u32, &str> = calls::all().collect();
        let name = |nr: u32| {
            let known = names.get(&nr);
            known.map_or_else(|| format!("call {nr}"), |&name| name.to_owned())
        };
        let mut calls = self.calls(&name);
        let mut blocked = self.blocked(ended_ns, &name);
        let mut files = self.files();
        let mut upstreams = self.upstreams();
        let mut sockets = self.sockets();
        let mut refusals = self.refusals();
        let mut allocs = self.allocators(allocators);
        let processes: BTreeMap<u32, ProcessCounts> = entries(&self.processes).collect();
        let taken: BTreeMap<u32, u64> = entries(&self.taken).collect();
        let lost = self.lost.get(&0, 0).map_or(0, |v| v.iter().sum());
        let mut heads = heads::drain(self.heads);
        let mut asked = asked::drain(self.answered);
        for (&target, upstreams) in &mut upstreams {
            for upstream in upstreams {
                let key = (target, upstream.address.clone());
                upstream.asked = asked.remove(&key).unwrap_or_default();
            }
        }
        let signature = |(index, target): (u32, &ProbeTarget)| {
            let counts = processes.get(&index).copied().unwrap_or_default();
            let upstreams = upstreams.remove(&index).unwrap_or_default();
            let mut sockets = sockets.remove(&index).unwrap_or_default();
            add_connect_errors(&mut sockets, &upstreams);
            let counted = TargetSignature {
                requests_taken: Some(taken.get(&index).copied().unwrap_or(0)),
                calls: Some(calls.remove(&index).unwrap_or_default()),
                files: Some(files.remove(&index).unwrap_or_default()),
                blocked: Some(blocked.remove(&index).unwrap_or_default()),
                sockets: Some(sockets),
                upstreams: Some(upstreams),
                refusals: Some(refusals.remove(&index).unwrap_or_default()),
                heads: Some(heads.remove(&index).unwrap_or_default()),
                allocator: allocs.remove(&index),
                forks: Some(counts.forks),
                execs: Some(counts.execs),
                ..proc::empty(target)
            };
            without_itself(target, counted)
        };
        ((0_u32..).zip(targets).map(signature).collect(), lost)
    }

    fn calls(&self, name: &impl Fn(u32) -> String) -> BTreeMap<u32, Vec<CallStats>> {
        let mut errors: BTreeMap<CallKey, BTreeMap<String, u64>> = BTreeMap::new();
        for (key, n) in entries(&self.errors) {
            let errors = errors.entry(key.call).or_default();
            *errors.entry(calls::error_name(key.value)).or_default() += n;
        }
        let mut sizes: BTreeMap<CallKey, Vec<(u64, u64)>> = BTreeMap::new();
        for (key, n) in entries(&self.sizes) {
            sizes.entry(key.call).or_default().push((key.value, n));
        }
        let mut by_target: BTreeMap<u32, Vec<CallStats>> = BTreeMap::new();
        for (key, values) in per_cpu_entries(&self.calls) {
            let mut total = CallCounts::default();
            values.iter().for_each(|v| total.add(v));
            let mut top_sizes = sizes.remove(&key).unwrap_or_default();
            top_sizes.sort_by_key(|&(size, n)| (std::cmp::Reverse(n), size));
            top_sizes.truncate(TOP_SIZES);
            by_target.entry(key.target).or_default().push(CallStats {
                call: name(u32::from(key.nr)),
                class: class(key.class),
                calls: total.calls,
                errors: errors.remove(&key).unwrap_or_default(),
                time_ns: Some(total.time_ns),
                bytes: total.bytes,
                asked_bytes: total.asked,
                full: total.full,
                partial: total.partial,
                zero: total.zero,
                sizes: trimmed(&total.sizes),
                top_sizes,
            });
        }
        for calls in by_target.values_mut() {
            calls.sort_by(|a, b| (b.calls, &a.call, a.class).cmp(&(a.calls, &b.call, b.class)));
        }
        by_target
    }

    fn blocked(&self, ended_ns: u64, name: &impl Fn(u32) -> String) -> BTreeMap<u32, Vec<Blocked>> {
        let mut totals: BTreeMap<WaitKey, WaitCounts> = BTreeMap::new();
        for (key, values) in per_cpu_entries(&self.waits) {
            let total = totals.entry(key).or_default();
            values.iter().for_each(|v| total.add(v));
        }
        for (_, thread) in entries(&self.threads).filter(|(_, thread)| thread.off_ns != 0) {
            let in_call = thread.nr != NO_CALL;
            let key = WaitKey {
                target: thread.target,
                nr: thread.nr,
                class: if in_call { u16::from(thread.class) } else { 0 },
                state: u16::from(thread.state),
            };
            let wait = ended_ns.saturating_sub(thread.off_ns);
            let mut one = WaitCounts {
                waits: 1,
                total_ns: wait,
                max_ns: wait,
                ..WaitCounts::default()
            };
            one.lengths[(wait / 1000).max(1).ilog2().min(31) as usize] = 1;
            totals.entry(key).or_default().add(&one);
        }
        let mut by_target: BTreeMap<u32, Vec<Blocked>> = BTreeMap::new();
        for (key, total) in totals {
            by_target.entry(key.target).or_default().push(Blocked {
                call: u32::try_from(key.nr).map_or_else(|_| String::new(), name),
                class: class(key.class),
                state: match key.state {
                    0 => WaitState::Sleeping,
                    1 => WaitState::Disk,
                    _ => WaitState::Runnable,
                },
                waits: total.waits,
                total_ns: total.total_ns,
                max_ns: total.max_ns,
                lengths: trimmed(&total.lengths),
            });
        }
        for blocked in by_target.values_mut() {
            blocked.sort_by_key(|wait| std::cmp::Reverse(wait.total_ns));
        }
        by_target
    }

    fn files(&self) -> BTreeMap<u32, Vec<FileStats>> {
        let mut by_target: BTreeMap<u32, Vec<FileStats>> = BTreeMap::new();
        for (key, counts) in entries(&self.files) {
            by_target.entry(key.target).or_default().push(FileStats {
                name: text(&key.name),
                opens: counts.opens,
                missing: counts.missing,
                stats: counts.stats,
                reads: counts.reads,
                read_bytes: counts.read_bytes,
                writes: counts.writes,
                written_bytes: counts.written_bytes,
                syncs: counts.syncs,
                append: counts.flags & O_APPEND != 0,
                synced: counts.flags & O_DSYNC != 0,
            });
        }
        for files in by_target.values_mut() {
            files.sort_by(|a, b| a.name.cmp(&b.name));
        }
        by_target
    }

    fn upstreams(&self) -> BTreeMap<u32, Vec<UpstreamStats>> {
        let mut peers: BTreeMap<Peer, UpstreamStats> = BTreeMap::new();
        for (peer, counts) in entries(&self.peers) {
            let stats = UpstreamStats {
                address: address(&peer),
                connects: counts.connects,
                connect_errors: BTreeMap::new(),
                requests: counts.requests,
                wait_ns: counts.wait_ns,
                waits: trimmed(&counts.waits),
                answered_ns: Some(counts.answered_ns),
                answered: trimmed(&counts.answered),
                written_bytes: counts.written_bytes,
                read_bytes: counts.read_bytes,
                asked: Vec::new(),
            };
            peers.insert(peer, stats);
        }
        for (key, n) in entries(&self.peer_errors) {
            let stats = peers.entry(key.peer).or_insert_with(|| UpstreamStats {
                address: address(&key.peer),
                ..UpstreamStats::default()
            });
            let error = calls::error_name(u64::from(key.error));
            *stats.connect_errors.entry(error).or_default() += n;
        }
        let mut by_target: BTreeMap<u32, Vec<UpstreamStats>> = BTreeMap::new();
        for (peer, stats) in peers {
            by_target.entry(peer.target).or_default().push(stats);
        }
        by_target
    }

    fn refusals(&self) -> BTreeMap<u32, Vec<Refusal>> {
        let mut by_target: BTreeMap<u32, Vec<Refusal>> = BTreeMap::new();
        for (key, answers) in entries(&self.refusals) {
            let refusals = by_target.entry(key.target).or_default();
            refusals.push(refusal(&key, answers));
        }
        for refusals in by_target.values_mut() {
            refusals.sort_by(|a, b| (b.answers, &a.code).cmp(&(a.answers, &b.code)));
        }
        by_target
    }

    fn sockets(&self) -> BTreeMap<u32, Vec<SocketStats>> {
        let mut by_target: BTreeMap<u32, Vec<SocketStats>> = BTreeMap::new();
        for (key, counts) in entries(&self.socks) {
            by_target.entry(key.target).or_default().push(SocketStats {
                class: class(u16::try_from(key.class).unwrap_or(u16::MAX)),
                established: counts.established,
                closed_by_us: counts.closed_by_us,
                closed_by_peer: counts.closed_by_peer,
                resets_sent: counts.resets_sent,
                resets_unused: counts.resets_unused,
                resets_received: counts.resets_received,
                retransmits: counts.retransmits,
                connect_errors: BTreeMap::new(),
            });
        }
        for sockets in by_target.values_mut() {
            sockets.sort_by_key(|socket| socket.class);
        }
        by_target
    }

    fn allocators(&self, allocators: &Allocators) -> BTreeMap<u32, AllocatorStats> {
        let mut by_target = allocators.by_target.clone();
        for (key, values) in per_cpu_entries(&self.allocs) {
            let function = allocators.function(key.site);
            if let (Some(stats), Some(function)) = (by_target.get_mut(&key.target), function) {
                *stats.calls.entry(function.to_owned()).or_default() += values.iter().sum::<u64>();
            }
        }
        by_target
    }
}

/// Leaves out that a target's consumers ask the target: where they take what they do is no upstream. Calls are counted
/// by what they lead to and not by whom, so that they are told apart only where nobody else is asked.
fn without_itself(target: &ProbeTarget, mut counted: TargetSignature) -> TargetSignature {
    if target.consumers.is_empty() {
        return counted;
    }
    let own = |address: &str| {
        let port = address
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse().ok());
        port.is_some_and(|port: u16| target.listens.contains(&port))
    };
    let upstreams = counted.upstreams.get_or_insert_default();
    upstreams.retain(|upstream| !own(&upstream.address));
    if upstreams.is_empty() {
        let other = |class: &mut FdClass| {
            if *class == FdClass::Upstream {
                *class = FdClass::Other;
            }
        };
        let calls = counted.calls.iter_mut().flatten();
        calls.for_each(|call| other(&mut call.class));
        let blocked = counted.blocked.iter_mut().flatten();
        blocked.for_each(|wait| other(&mut wait.class));
        if let Some(sockets) = &mut counted.sockets {
            sockets.retain(|one| one.class != FdClass::Upstream);
        }
        if let Some(heads) = &mut counted.heads {
            heads.retain(|one| one.class != FdClass::Upstream);
        }
    }
    counted
}

/// What the kernel's side numbers, in words.
fn refusal(key: &RefusalKey, answers: u64) -> Refusal {
    let number = || u16::from_le_bytes([key.code[0], key.code[1]]);
    let (protocol, code) = match key.protocol {
        1 => ("PostgreSQL", text(&key.code)),
        2 => ("MySQL", number().to_string()),
        3 => ("Redis", text(&key.code)),
        _ => ("memcached", text(&key.code)),
    };
    Refusal {
        protocol: protocol.to_owned(),
        code,
        answers,
    }
}

/// The upstream sockets' connect errors are those of all their peers with an IP address.
fn add_connect_errors(sockets: &mut Vec<SocketStats>, upstreams: &[UpstreamStats]) {
    let tcp = upstreams
        .iter()
        .filter(|u| u.address.parse::<SocketAddr>().is_ok() && !u.connect_errors.is_empty());
    for upstream in tcp {
        let found = sockets.iter().position(|s| s.class == FdClass::Upstream);
        let at = found.unwrap_or_else(|| {
            sockets.push(SocketStats {
                class: FdClass::Upstream,
                ..SocketStats::default()
            });
            sockets.len() - 1
        });
        for (error, n) in &upstream.connect_errors {
            *sockets[at].connect_errors.entry(error.clone()).or_default() += n;
        }
    }
}

impl CallCounts {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.time_ns += other.time_ns;
        self.bytes += other.bytes;
        self.asked += other.asked;
        self.full += other.full;
        self.partial += other.partial;
        self.zero += other.zero;
        add_all(&mut self.sizes, &other.sizes);
    }
}

impl WaitCounts {
    fn add(&mut self, other: &Self) {
        self.waits += other.waits;
        self.total_ns += other.total_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        add_all(&mut self.lengths, &other.lengths);
    }
}

fn add_all(to: &mut [u64], from: &[u64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

fn entries<K: Pod, V: Pod>(map: &Hash<K, V>) -> impl Iterator<Item = (K, V)> {
    map.iter().filter_map(Result::ok)
}

fn per_cpu_entries<K: Pod, V: Pod>(
    map: &PerCpu<K, V>,
) -> impl Iterator<Item = (K, PerCpuValues<V>)> {
    map.iter().filter_map(Result::ok)
}

/// Without the empty classes at the end.
fn trimmed(counts: &[u64]) -> Vec<u64> {
    let length = counts
        .iter()
        .rposition(|&n| n != 0)
        .map_or(0, |last| last + 1);
    counts[..length].to_vec()
}

/// Text up to the first zero byte.
fn text(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// Where a peer is: `address:port`, or a path.
pub(super) fn address(peer: &Peer) -> String {
    let ip = match i32::from(peer.family) {
        libc::AF_INET => {
            let [a, b, c, d, ..] = peer.address;
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        libc::AF_INET6 => {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&peer.address[..16]);
            // One that reaches IPv4 through an IPv6 socket is the same peer.
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return text(&peer.address),
    };
    SocketAddr::new(ip, peer.port).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_asks_nobody_where_its_consumers_ask_it() {
        let upstream = |address: &str| UpstreamStats {
            address: address.to_owned(),
            ..UpstreamStats::default()
        };
        let of = |consumers: &[i32], peers: &[&str]| {
            let target = ProbeTarget {
                consumers: consumers.to_vec(),
                listens: vec![5672],
                ..ProbeTarget::default()
            };
            let call = CallStats {
                class: FdClass::Upstream,
                ..CallStats::default()
            };
            let counted = TargetSignature {
                upstreams: Some(peers.iter().map(|peer| upstream(peer)).collect()),
                calls: Some(vec![call]),
                ..TargetSignature::default()
            };
            let left = without_itself(&target, counted);
            let peers = left.upstreams.unwrap().into_iter().map(|peer| peer.address);
            (peers.collect::<Vec<_>>(), left.calls.unwrap()[0].class)
        };
        let itself = "127.0.0.1:5672";
        assert_eq!(of(&[7], &[itself]), (Vec::new(), FdClass::Other));
        // They ask a database as well, and whoever has no consumers may ask itself.
        let database = "127.0.0.1:5432".to_owned();
        let both = of(&[7], &[itself, &database]);
        assert_eq!(both, (vec![database], FdClass::Upstream));
        assert_eq!(of(&[], &[itself]).1, FdClass::Upstream);
    }

    #[test]
    fn peers_are_written_as_addresses() {
        let mut mapped = [0; 108];
        mapped[10..16].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
        let mut local = [0; 108];
        local[15] = 1;
        let mut path = [0; 108];
        path[..6].copy_from_slice(b"/run/a");
        for (family, bytes, expected) in [
            (libc::AF_INET6, mapped, "127.0.0.1:80"),
            (libc::AF_INET6, local, "[::1]:80"),
            (libc::AF_UNIX, path, "/run/a"),
        ] {
            let peer = Peer {
                target: 0,
                family: u16::try_from(family).unwrap(),
                port: 80,
                address: bytes,
            };
            assert_eq!(address(&peer), expected);
        }
    }

    #[test]
    fn empty_classes_at_the_end_are_left_out() {
        assert_eq!(trimmed(&[0, 3, 0, 0]), [0, 3]);
        assert_eq!(trimmed(&[0, 0]), [] as [u64; 0]);
    }
}
