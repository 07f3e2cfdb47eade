//! TCP connections of the targets by class, with what the kernel keeps for each: round trip, queues, what limits them.
//!
//! `client` are the connections to the ports that a target listens on, `upstream` those that its processes made. Read
//! by sock_diag at most every [`INTERVAL`], more rarely where that is dear, filtered by port in the kernel. Whose
//! sockets they are is looked up at the slow passes, in `/proc/PID/fd`.
//!
//! The surprise: everything here is a level of the sockets that exist *now*. The kernel counts busy time and
//! retransmissions for each socket and forgets them with it, so the sums fall when connections close: use ratios of
//! one sample (`socket.rwnd_limited_s / socket.busy_s`), never a growth. A connection that lives shorter than the time
//! between two samples is seen by chance; an upstream peer is known once one connection to it was seen at a slow pass,
//! and from then on all connections to its address count, whoever made them.

use crate::recorder::Rows;
use crate::tree::Members;
use crate::{MonitorError, Pass, Recorder, Signal, Source};
use linux::Root;
use linux::sock_diag::{
    AF_UNSPEC, Diag, MOST_PORTS, Message, Port, Question, RECEIVE_QUEUE, SEND_QUEUE, TCP, read_u32,
    read_u64,
};
use record::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Shortest time between two samples.
pub const INTERVAL: Nanos = Nanos::from_millis(250);

/// Sums over the connections of a class, in the order of `Totals::values`.
pub const SUMS: [Signal; 12] = [
    Signal::gauge("socket.connections", "connections", "sock_diag"),
    Signal::gauge("socket.busy_s", "s", "sock_diag"),
    Signal::gauge("socket.rwnd_limited_s", "s", "sock_diag"),
    Signal::gauge("socket.sndbuf_limited_s", "s", "sock_diag"),
    Signal::gauge("socket.retransmits", "segments", "sock_diag"),
    Signal::gauge("socket.unacked", "segments", "sock_diag"),
    Signal::gauge("socket.send_queue_bytes", "bytes", "sock_diag"),
    Signal::gauge("socket.recv_queue_bytes", "bytes", "sock_diag"),
    Signal::gauge("socket.close_wait", "connections", "sock_diag"),
    Signal::gauge("socket.waiting", "connections", "sock_diag"),
    Signal::gauge("socket.syn_sent", "connections", "sock_diag"),
    Signal::gauge("socket.cut", "connections", "sock_diag"),
];

/// Of the established connections, where there are any: medians, a share, and the shortest round trip of all, which is
/// the path's own where some connection was acknowledged at once.
pub const MEDIANS: [Signal; 8] = [
    Signal::gauge("socket.rtt_s", "s", "sock_diag"),
    Signal::gauge("socket.cwnd", "segments", "sock_diag"),
    Signal::gauge("socket.send_buffer_bytes", "bytes", "sock_diag"),
    Signal::gauge("socket.recv_buffer_bytes", "bytes", "sock_diag"),
    Signal::gauge("socket.mss_bytes", "bytes", "sock_diag"),
    Signal::gauge("socket.delivery_bytes_per_s", "bytes/s", "sock_diag"),
    Signal::gauge("socket.app_limited_share", "share", "sock_diag"),
    Signal::gauge("socket.least_rtt_s", "s", "sock_diag"),
];

/// Connections of clients in the middle of something. The kernel keeps for each when data came last and when some was
/// sent last, in ticks of up to 4 ms: data that came later than the last was sent is a request that is open.
pub const OPEN: [Signal; 2] = [
    Signal::gauge("socket.open_requests", "connections", "sock_diag"),
    Signal::gauge("socket.slow_readers", "connections", "sock_diag"),
];

/// Open requests by age: `over_ms` up to twice that.
pub const AGES: [Signal; 1] = [Signal::gauge(
    "socket.open_by_age",
    "connections",
    "sock_diag",
)];
/// Lower ends of the ages that are counted, ms; the last has no upper end.
const AGES_MS: [u32; 12] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];

/// Connections to one upstream peer.
pub const PEER: [Signal; 1] = [Signal::gauge(
    "socket.peer_connections",
    "connections",
    "sock_diag",
)];

/// Open files that are looked through for sockets at one slow pass: 1.5 us each.
const MOST_FILES: usize = 4096;
/// Of one process: its listening sockets are among the first.
const MOST_FILES_OF_PROCESS: usize = 1024;
/// Connections of one sample that are taken in full; more are only counted, as `socket.cut`.
const MOST_SOCKETS: usize = 8192;
/// Peers that are told apart.
const MOST_PEERS: usize = 64;

// include/net/tcp_states.h.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const CLOSE_WAIT: u8 = 8;
const LISTEN: u8 = 10;
/// All that have data, waiting or under way: not TIME_WAIT, CLOSE, LISTEN and half-open ones.
const LIVE: u32 =
    1 << ESTABLISHED | 1 << SYN_SENT | 1 << 4 | 1 << 5 | 1 << CLOSE_WAIT | 1 << 9 | 1 << 11;

const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_SKMEMINFO: u16 = 7;
const EXTENSIONS: u8 = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_SKMEMINFO - 1);

const CLIENT: &str = "client";
const UPSTREAM: &str = "upstream";

/// What the kernel keeps for one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Connection {
    state: u8,
    /// A process holds it: until it is accepted it has no inode.
    accepted: bool,
    send_queue: u32,
    receive_queue: u32,
    info: Option<Info>,
    send_buffer: Option<u32>,
    receive_buffer: Option<u32>,
}

/// The part of `struct tcp_info` (include/uapi/linux/tcp.h) that is used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Info {
    app_limited: bool,
    mss: u32,
    unacked: u32,
    /// Time since data was sent, and since some came, ms.
    sent_ago_ms: u32,
    came_ago_ms: u32,
    /// Written and not sent yet: the peer's window, or the path's, holds it back.
    unsent_bytes: u32,
    rtt_us: u32,
    /// Shortest of the last five minutes (net.ipv4.tcp_min_rtt_wlen); the kernel says `u32::MAX` before the first.
    least_rtt_us: u32,
    cwnd: u32,
    retransmits: u32,
    delivery_bytes_per_s: u64,
    busy_us: u64,
    rwnd_limited_us: u64,
    sndbuf_limited_us: u64,
}

impl Connection {
    fn read(message: &Message<'_>) -> Option<Self> {
        let memory = message.attribute(INET_DIAG_SKMEMINFO);
        Some(Self {
            state: message.state()?,
            accepted: message.inode()? != 0,
            send_queue: message.u32_at(SEND_QUEUE)?,
            receive_queue: message.u32_at(RECEIVE_QUEUE)?,
            info: message.attribute(INET_DIAG_INFO).and_then(Info::read),
            // SK_MEMINFO_RCVBUF is the second number, SK_MEMINFO_SNDBUF the fourth.
            send_buffer: memory.and_then(|memory| read_u32(memory, 12)),
            receive_buffer: memory.and_then(|memory| read_u32(memory, 4)),
        })
    }
}

impl Info {
    /// `None` for a kernel before 4.10, which does not keep the times.
    fn read(bytes: &[u8]) -> Option<Self> {
        let app_limited_bit = if cfg!(target_endian = "little") {
            1
        } else {
            0x80
        };
        Some(Self {
            app_limited: bytes.get(7)? & app_limited_bit != 0,
            mss: read_u32(bytes, 16)?,
            unacked: read_u32(bytes, 24)?,
            sent_ago_ms: read_u32(bytes, 44)?,
            came_ago_ms: read_u32(bytes, 52)?,
            unsent_bytes: read_u32(bytes, 144)?,
            rtt_us: read_u32(bytes, 68)?,
            least_rtt_us: read_u32(bytes, 148)?,
            cwnd: read_u32(bytes, 80)?,
            retransmits: read_u32(bytes, 100)?,
            delivery_bytes_per_s: read_u64(bytes, 160)?,
            busy_us: read_u64(bytes, 168)?,
            rwnd_limited_us: read_u64(bytes, 176)?,
            sndbuf_limited_us: read_u64(bytes, 184)?,
        })
    }
}

impl Info {
    /// Before the first sample the smoothed round trip, which is the kernel's guess.
    fn shortest_rtt_us(&self) -> u32 {
        if self.least_rtt_us == u32::MAX {
            return self.rtt_us;
        }
        self.least_rtt_us
    }

    /// Data came, and nothing was sent since.
    fn is_open(&self) -> bool {
        self.came_ago_ms < self.sent_ago_ms
    }
}

/// The connections of one class.
#[derive(Debug, Default)]
struct Totals {
    connections: Vec<Connection>,
    cut: u64,
}

impl Totals {
    fn take(&mut self, connection: Connection) {
        if self.connections.len() < MOST_SOCKETS {
            self.connections.push(connection);
        } else {
            self.cut += 1;
        }
    }

    /// The values of [`SUMS`].
    fn values(&self) -> [f64; 12] {
        let count = |state| self.connections.iter().filter(|c| c.state == state).count() as f64;
        let held = |state, accepted| {
            let all = self.connections.iter();
            let held = all.filter(|c| c.state == state && c.accepted == accepted);
            held.count() as f64
        };
        let sum = |value: fn(&Info) -> f64| -> f64 {
            let infos = self.connections.iter().filter_map(|c| c.info.as_ref());
            infos.map(value).sum()
        };
        let bytes = |value: fn(&Connection) -> u32| -> f64 {
            self.connections.iter().map(|c| f64::from(value(c))).sum()
        };
        [
            count(ESTABLISHED),
            sum(|info| info.busy_us as f64 / 1e6),
            sum(|info| info.rwnd_limited_us as f64 / 1e6),
            sum(|info| info.sndbuf_limited_us as f64 / 1e6),
            sum(|info| f64::from(info.retransmits)),
            sum(|info| f64::from(info.unacked)),
            bytes(|c| c.send_queue),
            bytes(|c| c.receive_queue),
            // The peer has closed it, and the program has not.
            held(CLOSE_WAIT, true),
            // Nobody has accepted it, and its client has not given up.
            held(ESTABLISHED, false),
            count(SYN_SENT),
            self.cut as f64,
        ]
    }

    fn established(&self) -> impl Iterator<Item = &Info> {
        let all = self.connections.iter();
        let established = all.filter(|c| c.state == ESTABLISHED);
        established.filter_map(|c| c.info.as_ref())
    }

    /// The values of [`OPEN`].
    fn open(&self) -> [f64; 2] {
        let open = self.established().filter(|info| info.is_open()).count();
        let held = self.established().filter(|info| info.unsent_bytes > 0);
        [open as f64, held.count() as f64]
    }

    /// Open requests in the class of ages that begins at `AGES_MS[i]`.
    fn open_by_age(&self, i: usize) -> f64 {
        let to = AGES_MS.get(i + 1).copied().unwrap_or(u32::MAX);
        let open = self.established().filter(|info| info.is_open());
        let aged = open.filter(|info| (AGES_MS[i]..to).contains(&info.came_ago_ms));
        aged.count() as f64
    }

    /// The values of [`MEDIANS`]; `None` when no connection is established.
    fn medians(&self) -> Option<[f64; 8]> {
        let established = || self.connections.iter().filter(|c| c.state == ESTABLISHED);
        let infos = || established().filter_map(|c| c.info.as_ref());
        let app_limited = infos().filter(|info| info.app_limited).count() as f64;
        Some([
            median(infos().map(|info| info.rtt_us).collect())? / 1e6,
            median(infos().map(|info| info.cwnd).collect())?,
            median(established().filter_map(|c| c.send_buffer).collect())?,
            median(established().filter_map(|c| c.receive_buffer).collect())?,
            median(infos().map(|info| info.mss).collect())?,
            median(infos().map(|info| info.delivery_bytes_per_s).collect())?,
            app_limited / infos().count() as f64,
            f64::from(infos().map(Info::shortest_rtt_us).min()?) / 1e6,
        ])
    }
}

fn median(mut values: Vec<impl Into<u64> + Ord + Copy>) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| (*values.select_nth_unstable(middle).1).into() as f64)
}

/// Whose sockets are whose.
#[derive(Debug, Default)]
struct Owners {
    /// Target of each port that is listened on.
    listens: BTreeMap<u16, usize>,
    /// Target of each upstream peer.
    peers: BTreeMap<SocketAddr, usize>,
}

impl Owners {
    /// What the kernel is asked for.
    fn filter(&self) -> Vec<Port> {
        let listens = self.listens.keys().map(|port| Port::Local(*port));
        let peers: BTreeSet<u16> = self.peers.keys().map(SocketAddr::port).collect();
        let peers = peers.into_iter().map(Port::Remote);
        listens.chain(peers).take(MOST_PORTS).collect()
    }

    /// Target and class of a connection.
    fn class(&self, local: SocketAddr, remote: SocketAddr) -> Option<(usize, &'static str)> {
        if let Some(target) = self.listens.get(&local.port()) {
            return Some((*target, CLIENT));
        }
        Some((*self.peers.get(&canonical(remote))?, UPSTREAM))
    }

    /// Takes note of the ports that the owners of `inodes` listen on.
    fn note_listener(
        &mut self,
        message: &Message<'_>,
        inodes: &BTreeMap<u32, usize>,
    ) -> Option<()> {
        let local = message.local()?;
        if let Some(target) = inodes.get(&message.inode()?) {
            self.listens.entry(local.port()).or_insert(*target);
        }
        Some(())
    }

    /// Takes note of the peers that they connected to.
    fn note_peer(&mut self, message: &Message<'_>, inodes: &BTreeMap<u32, usize>) -> Option<()> {
        let (local, remote) = (message.local()?, message.remote()?);
        let target = inodes.get(&message.inode()?);
        if let Some(target) = target
            && !self.listens.contains_key(&local.port())
            && self.peers.len() < MOST_PEERS
        {
            self.peers.entry(canonical(remote)).or_insert(*target);
        }
        Some(())
    }
}

/// An IPv4 peer of a socket of IPv6 is the same peer.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The source. It asks the running kernel about prony's own network namespace.
#[derive(Debug)]
pub struct Sockets {
    root: Root,
    members: Members,
    slow_interval: Nanos,
    /// Share of a core that its samples may take: the kernel walks the whole table of connections, however few there
    /// are, and with 256 Ki buckets that takes 6 ms.
    share: f64,
    targets: Vec<String>,
    diag: Diag,
    owners: Owners,
    /// Fast passes before it take no sample.
    next_at: Nanos,
    sums: Rows<(usize, &'static str), 12>,
    medians: Rows<(usize, &'static str), 8>,
    peers: Rows<(usize, SocketAddr), 1>,
    open: Rows<usize, 2>,
    ages: Rows<(usize, usize), 1>,
    gave_up: bool,
}

impl Sockets {
    /// The connections of `members`. The ports of `listens` are the only target's, where its own cannot be looked up.
    /// Then how often slow passes come, and the share of a core that samples may take.
    pub fn new(
        root: &Root,
        members: Members,
        diag: Diag,
        listens: &[SocketAddr],
        (slow_interval, share): (Nanos, f64),
    ) -> Self {
        let targets = members.targets();
        let mut owners = Owners::default();
        if targets.len() == 1 {
            owners
                .listens
                .extend(listens.iter().map(|address| (address.port(), 0)));
        }
        Self {
            root: root.clone(),
            targets,
            members,
            slow_interval,
            share,
            diag,
            owners,
            next_at: Nanos(0),
            sums: Rows::new(SUMS),
            medians: Rows::new(MEDIANS),
            peers: Rows::new(PEER),
            open: Rows::new(OPEN),
            ages: Rows::new(AGES),
            gave_up: false,
        }
    }

    /// Looks up which ports the targets listen on and which peers they connected to.
    fn look_up(&mut self, at: Nanos, out: &mut Recorder) -> Result<(), MonitorError> {
        let inodes = self.inodes(at, out)?;
        let owners = &mut self.owners;
        let question = |states| Question {
            family: AF_UNSPEC,
            protocol: TCP,
            states,
            extensions: 0,
            filter: &[],
        };
        self.diag
            .ask(&question(1 << LISTEN), "the listening sockets", |message| {
                owners.note_listener(&message, &inodes)
            })?;
        self.diag
            .ask(&question(LIVE), "the connections", |message| {
                owners.note_peer(&message, &inodes)
            })?;
        Ok(())
    }

    /// The target of each socket among the first open files of the members.
    fn inodes(&self, at: Nanos, out: &mut Recorder) -> Result<BTreeMap<u32, usize>, MonitorError> {
        let mut inodes = BTreeMap::new();
        let mut left = MOST_FILES;
        for (pid, target) in self.members.at(at, self.slow_interval)? {
            let path = self.root.path(&format!("proc/{pid}/fd"));
            let files = match std::fs::read_dir(&path) {
                Ok(files) => files,
                Err(cause) => {
                    let error = linux::Error::Read {
                        path,
                        cause,
                        needs: "",
                    };
                    if !error.says_gone() {
                        let target = &self.targets[target];
                        out.unavailable(
                            &format!("socket.* of class {UPSTREAM} of {target}"),
                            &error.into(),
                        );
                    }
                    continue;
                }
            };
            for file in files.flatten().take(left.min(MOST_FILES_OF_PROCESS)) {
                left -= 1;
                let link = std::fs::read_link(file.path()).unwrap_or_default();
                if let Some(inode) = link.to_str().and_then(socket_inode) {
                    inodes.insert(inode, target);
                }
            }
        }
        Ok(inodes)
    }

    fn read(&mut self) -> Result<Seen, MonitorError> {
        let owners = &self.owners;
        let mut seen = Seen::default();
        let filter = owners.filter();
        // Without a port there is nothing to look for, and an empty filter would mean all.
        if !filter.is_empty() {
            let question = Question {
                family: AF_UNSPEC,
                protocol: TCP,
                states: LIVE,
                extensions: EXTENSIONS,
                filter: &filter,
            };
            self.diag.ask(&question, "the connections", |message| {
                let (local, remote) = (message.local()?, message.remote()?);
                if let Some((target, class)) = owners.class(local, remote) {
                    let connection = Connection::read(&message)?;
                    seen.classes
                        .entry((target, class))
                        .or_default()
                        .take(connection);
                    if class == UPSTREAM && connection.state == ESTABLISHED {
                        *seen.peers.entry((target, canonical(remote))).or_default() += 1.0;
                    }
                }
                Some(())
            })?;
        }
        // What is known and has no connection now has zero of them.
        for &target in owners.listens.values() {
            seen.classes.entry((target, CLIENT)).or_default();
        }
        for (&peer, &target) in &owners.peers {
            seen.classes.entry((target, UPSTREAM)).or_default();
            seen.peers.entry((target, peer)).or_default();
        }
        Ok(seen)
    }

    fn push(&mut self, seen: &Seen, at: Nanos, out: &mut Recorder) {
        let targets = &self.targets;
        for (key, totals) in &seen.classes {
            let labels = || {
                vec![
                    ("target", targets[key.0].clone()),
                    ("class", key.1.to_owned()),
                ]
            };
            self.sums.push(key, labels, at, totals.values(), out);
            if let Some(medians) = totals.medians() {
                self.medians.push(key, labels, at, medians, out);
            }
            if key.1 == CLIENT {
                self.open.push(&key.0, labels, at, totals.open(), out);
                for (i, over_ms) in AGES_MS.iter().enumerate() {
                    let labels = || {
                        let mut all = labels();
                        all.push(("over_ms", over_ms.to_string()));
                        all
                    };
                    let open = totals.open_by_age(i);
                    self.ages.push(&(key.0, i), labels, at, [open], out);
                }
            }
        }
        for (key, count) in &seen.peers {
            let labels = || {
                vec![
                    ("target", targets[key.0].clone()),
                    ("peer", key.1.to_string()),
                ]
            };
            self.peers.push(key, labels, at, [*count], out);
        }
    }
}

/// The connections of one sample.
#[derive(Debug, Default)]
struct Seen {
    classes: BTreeMap<(usize, &'static str), Totals>,
    peers: BTreeMap<(usize, SocketAddr), f64>,
}

/// When the next sample may be taken after one at `at`, which may take a share of a core.
fn next_after(at: Nanos, took_ns: u64, share: f64) -> Nanos {
    at + Nanos((took_ns as f64 / share.max(f64::MIN_POSITIVE)) as u64).max(INTERVAL)
}

/// `socket:[4711]`.
fn socket_inode(link: &str) -> Option<u32> {
    link.strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

impl Source for Sockets {
    fn name(&self) -> &'static str {
        "sockets"
    }

    fn paces_itself(&self) -> bool {
        true
    }

    fn sample(&mut self, at: Nanos, pass: Pass, out: &mut Recorder) {
        if self.gave_up || (pass == Pass::Fast && at < self.next_at) {
            return;
        }
        let before = linux::clock::thread_cpu_ns();
        let known = match pass {
            Pass::Fast => Ok(()),
            Pass::Slow | Pass::Edge => self.look_up(at, out),
        };
        match known.and_then(|()| self.read()) {
            Ok(seen) => self.push(&seen, at, out),
            Err(error) => {
                self.gave_up = true;
                out.unavailable("socket.*", &error);
            }
        }
        // A window begins with an edge, and one shorter than the distance would have no sample within.
        let took_ns = match pass {
            Pass::Edge => 0,
            Pass::Fast | Pass::Slow => linux::clock::thread_cpu_ns().saturating_sub(before),
        };
        self.next_at = next_after(at, took_ns, self.share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Watched;
    use record::Series;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    fn value(series: &[Series], signal: &str, class: &str) -> f64 {
        let found = series
            .iter()
            .find(|s| s.signal == signal && s.label("class") == Some(class));
        *found
            .unwrap_or_else(|| panic!("{signal} {class}"))
            .values
            .last()
            .unwrap()
    }

    #[test]
    fn medians_and_sums() {
        let connection = |rtt_us, state| Connection {
            state,
            accepted: rtt_us != 6 && rtt_us != 70,
            send_queue: 10,
            receive_queue: 1,
            info: Some(Info {
                rtt_us,
                least_rtt_us: if rtt_us == 50 {
                    u32::MAX
                } else {
                    rtt_us.saturating_sub(10)
                },
                cwnd: 10,
                app_limited: rtt_us > 100,
                busy_us: 2_000_000,
                mss: 1448,
                delivery_bytes_per_s: 5_000_000_000,
                ..Info::default()
            }),
            send_buffer: Some(87_040),
            receive_buffer: Some(131_072),
        };
        let mut totals = Totals::default();
        assert_eq!(totals.medians(), None);
        for (rtt_us, state) in [
            (50, ESTABLISHED),
            (900, ESTABLISHED),
            (70, ESTABLISHED),
            (5, CLOSE_WAIT),
            (6, CLOSE_WAIT),
        ] {
            totals.take(connection(rtt_us, state));
        }
        let medians = totals.medians().unwrap();
        let expected = [70e-6, 10.0, 87_040.0, 131_072.0, 1448.0, 5e9];
        assert_eq!(medians[..6], expected);
        assert!((medians[6] - 1.0 / 3.0).abs() < 1e-9);
        // One has no sample yet, and the one that the peer has closed does not count.
        assert_eq!(medians[7], 50e-6);
        let sums = [3.0, 10.0, 0.0, 0.0, 0.0, 0.0, 50.0, 5.0, 1.0, 1.0, 0.0, 0.0];
        assert_eq!(totals.values(), sums);
    }

    #[test]
    fn inodes_of_links() {
        assert_eq!(socket_inode("socket:[4711]"), Some(4711));
        for link in ["pipe:[4711]", "socket:[x]", "/dev/null", ""] {
            assert_eq!(socket_inode(link), None);
        }
    }

    /// A process of its own for each side: ownership goes by process.
    #[test]
    fn clients_and_upstreams_of_a_real_process() {
        // This process is the server: it listens, and it connects to a peer that is not watched.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut clients: Vec<TcpStream> = (0..3)
            .map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap())
            .collect();
        let accepted: Vec<TcpStream> = clients
            .iter()
            .map(|_| listener.accept().unwrap().0)
            .collect();
        clients[0].write_all(b"12345").unwrap();
        let watched = Watched {
            target: "web".to_owned(),
            pids: vec![std::process::id() as i32],
        };
        let members = Members::new(&Root::default(), &[watched], None);
        let mut sockets = Sockets::new(
            &Root::default(),
            members,
            Diag::default(),
            &[],
            (Nanos::SECOND, 0.01),
        );
        let mut out = Recorder::default();
        sockets.sample(Nanos(1), Pass::Edge, &mut out);
        assert_eq!(
            sockets
                .owners
                .listens
                .get(&listener.local_addr().unwrap().port()),
            Some(&0)
        );
        // Other tests of this process have connections, too: only this listener's are looked at from here on.
        let port = listener.local_addr().unwrap().port();
        sockets.owners.listens.retain(|p, _| *p == port);
        sockets.owners.peers.retain(|p, _| p.port() == port);
        let seen = sockets.read().unwrap();
        let mut out = Recorder::default();
        sockets.sums = Rows::new(SUMS);
        sockets.medians = Rows::new(MEDIANS);
        sockets.peers = Rows::new(PEER);
        sockets.open = Rows::new(OPEN);
        sockets.ages = Rows::new(AGES);
        sockets.push(&seen, Nanos(2), &mut out);
        let (series, unavailable) = out.finish();
        assert_eq!(unavailable, []);
        assert_eq!(value(&series, "socket.connections", CLIENT), 3.0);
        assert_eq!(value(&series, "socket.recv_queue_bytes", CLIENT), 5.0);
        assert_eq!(value(&series, "socket.connections", UPSTREAM), 3.0);
        assert!(value(&series, "socket.rtt_s", CLIENT) > 0.0);
        assert!(value(&series, "socket.send_buffer_bytes", CLIENT) > 1000.0);
        assert!(value(&series, "socket.recv_buffer_bytes", CLIENT) > 1000.0);
        assert!(value(&series, "socket.mss_bytes", CLIENT) >= 500.0);
        let peer = series
            .iter()
            .find(|s| s.signal == "socket.peer_connections")
            .unwrap();
        assert_eq!(peer.values, [3.0]);
        drop(accepted);
    }

    #[test]
    fn a_request_is_open_until_something_is_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let mut server = listener.accept().unwrap().0;
        let members = Members::new(&Root::default(), &[], None);
        let slow = Nanos::SECOND;
        let mut sockets = Sockets::new(
            &Root::default(),
            members,
            Diag::default(),
            &[],
            (slow, 0.01),
        );
        sockets.targets = vec!["web".to_owned()];
        sockets.owners.listens.insert(address.port(), 0);
        let mut open = || sockets.read().unwrap().classes[&(0, CLIENT)].open()[0];
        assert_eq!(open(), 0.0, "a new connection has no request");
        // The kernel's times have ticks of some ms: what happens within one has no order.
        let mut until = |turn: &mut TcpStream, wanted: f64| {
            let began = std::time::Instant::now();
            while open() != wanted {
                assert!(began.elapsed().as_secs() < 10, "never {wanted} open");
                turn.write_all(b"x").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        };
        until(&mut client, 1.0);
        until(&mut server, 0.0);
        until(&mut client, 1.0);
    }

    #[test]
    fn open_requests_are_counted_by_age() {
        let connection = |sent_ago_ms, came_ago_ms| Connection {
            state: ESTABLISHED,
            accepted: true,
            send_queue: 0,
            receive_queue: 0,
            info: Some(Info {
                sent_ago_ms,
                came_ago_ms,
                ..Info::default()
            }),
            send_buffer: None,
            receive_buffer: None,
        };
        let mut totals = Totals::default();
        for (sent, came) in [
            (9, 9),
            (9, 8),
            (90, 15),
            (90, 70),
            (10, 70),
            (99_999, 99_998),
        ] {
            totals.take(connection(sent, came));
        }
        assert_eq!(totals.open()[0], 4.0);
        let by_age: Vec<f64> = (0..AGES_MS.len()).map(|i| totals.open_by_age(i)).collect();
        assert_eq!(
            by_age,
            [2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        );
    }

    #[test]
    fn a_dear_sample_is_taken_more_rarely() {
        let at = Nanos::SECOND;
        assert_eq!(next_after(at, 100_000, 0.01), Nanos::from_millis(1_250));
        assert_eq!(next_after(at, 6_000_000, 0.01), Nanos::from_millis(1_600));
    }

    #[test]
    fn a_fast_pass_keeps_its_distance() {
        let members = Members::new(&Root::default(), &[], None);
        let mut sockets = Sockets::new(
            &Root::default(),
            members,
            Diag::default(),
            &[],
            (Nanos::SECOND, 0.01),
        );
        let mut out = Recorder::default();
        for (ms, is_taken) in [(1, true), (100, false), (11_251, true), (11_400, false)] {
            let (at, before) = (Nanos::from_millis(ms), sockets.next_at);
            sockets.sample(at, Pass::Fast, &mut out);
            assert_eq!(sockets.next_at != before, is_taken, "{ms} ms");
            assert!(sockets.next_at >= Nanos::from_millis(251));
        }
        assert_eq!(out.finish().1, []);
    }
}
