//! The packet scripts of `scripts.rs` played with the kernel's TCP as the side under test, by a peer that speaks raw
//! segments through a TAP: the same script, the same answer. Where the kernel answers otherwise, the difference and its
//! reason stand in a golden file (`BLESS=1` rewrites it); one without a reason fails.
//!
//! Only what is on the wire is compared: which segments, how long they are, their numbers and flags, and roughly when.
//! Each script has a namespace of its own, with what RFCs leave open set as ours has it.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that is skipped says why, and one that cannot go on ends"
)]

mod lab;
#[path = "scripts.rs"]
mod scripts;

use lab::{in_namespace, ip};
use scripts::common::byte;
use scripts::common::script::{Kept, OURS, PEERS, Tuple, kept, standard};
use stack::device::Device as _;
use stack::device::tap::{self, Tap};
use stack::tcp::Settings;
use stack::wire::tcp::{PROTOCOL, flag, read};
use stack::wire::{ipv4, tcp};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Longer ones are for a clock that can be moved.
const LONGEST_MS: u64 = 8_000;
/// How much later than a script says, on a machine that does other work too; the kernel's timers have 4 ms.
const LATE: Duration = Duration::from_millis(90);
const EARLY: Duration = Duration::from_millis(15);

/// What the kernel has and we have not, or what an RFC leaves open: as ours.
const SYSCTLS: [(&str, &str); 7] = [
    ("tcp_early_retrans", "0"),
    ("tcp_frto", "0"),
    ("tcp_dsack", "0"),
    ("tcp_no_metrics_save", "1"),
    ("tcp_invalid_ratelimit", "0"),
    ("tcp_challenge_ack_limit", "1000"),
    ("tcp_congestion_control", "cubic"),
];

/// Why the kernel answers otherwise, by the name of the script.
const REASONS: &[(&str, &str)] = &[
    (
        "a stray acknowledgement of an earlier life is reset (RFC 9293 figure 9)",
        "it retransmits its SYN at once when it has reset an earlier connection; RFC 9293 leaves that to the timer",
    ),
    (
        "both begin at once (RFC 9293 figure 7)",
        "it acknowledges the peer's SYN once more; that was done by the SYN-ACK before, and ours leaves it at that",
    ),
    (
        "a lost SYN-ACK comes again for a repeated SYN, and by its timer",
        "its timer begins anew when it has answered a repeated SYN",
    ),
    (
        "payload with the last segment of the handshake",
        "the first payload is acknowledged at once, before its program could have that switched off",
    ),
    (
        "nobody is there any more: bytes are reset (RFC 1122 4.2.2.13)",
        "its reset has no acknowledgement, as in RFC 9293 3.5.2; ours has one too, and a peer takes either",
    ),
    (
        "a FIN behind a hole waits for it",
        "its block counts the FIN; ours names payload only",
    ),
    (
        "what SACK reported is passed over after a timeout",
        "it finds a loss by time (RACK, RFC 8985) after one later segment, which cannot be switched off any more",
    ),
    (
        "without SACK: three duplicates, and a partial acknowledgement (RFC 6582)",
        "three duplicates do not make it retransmit; it waits for its timeout and counts TCPRenoFailures",
    ),
    (
        "a closed window is probed, and its opening used (RFC 9293 3.8.6.1)",
        "its probe is an old number without payload; RFC 9293 asks for a byte beyond the window, as ours sends",
    ),
    (
        "ECN: agreed, echoed until heard, and a window reduced once (RFC 3168)",
        "it acknowledges at once while it reports congestion; RFC 3168 asks for the echo only",
    ),
];

/// A frame of the kernel's, when it came.
struct Came {
    at: Instant,
    bytes: Vec<u8>,
}

struct Stage {
    tap: Tap,
    came: VecDeque<Came>,
    tuple: Tuple,
    start: Instant,
    listener: Option<TcpListener>,
    stream: Option<TcpStream>,
    sent: u64,
    got: u64,
    nagle: bool,
}

fn set(fd: &impl std::os::fd::AsRawFd, level: i32, name: i32, value: i32) {
    // SAFETY: the value lives through the call and has the size that is said.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

impl Stage {
    fn new(settings: &Settings) -> Self {
        let name = "pronytap0";
        let tap = Tap::open(&tap::Settings {
            name: name.to_owned(),
            mtu_bytes: Some(1_500),
            is_offloaded: false,
        })
        .unwrap();
        ip(&format!("link set {name} address 02:00:00:00:00:01"));
        ip(&format!("addr add {OURS}/24 dev {name}"));
        ip(&format!(
            "neigh add {PEERS} lladdr 02:00:00:00:00:02 dev {name}"
        ));
        let flag = |is_on| if is_on { "1" } else { "0" };
        let ours = [
            ("tcp_timestamps", flag(settings.timestamps)),
            ("tcp_window_scaling", flag(settings.window_scaling)),
            ("tcp_sack", flag(settings.sack)),
            ("tcp_ecn", flag(settings.ecn)),
        ];
        for (name, value) in SYSCTLS.iter().chain(&ours) {
            // Not every kernel has every one of them.
            let _ = std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value);
        }
        Stage {
            tap,
            came: VecDeque::new(),
            tuple: Tuple {
                iss: None,
                our_port: 80,
                peer_port: 80,
            },
            start: Instant::now(),
            listener: None,
            stream: None,
            sent: 0,
            got: 0,
            nagle: settings.nagle,
        }
    }

    /// Takes what the kernel has sent, and waits for more until `until` when there is none.
    fn look(&mut self, until: Instant) {
        loop {
            let (came, tuple) = (&mut self.came, self.tuple);
            self.tap
                .receive(64, &mut |frame| {
                    if is_of(frame.head, &tuple) {
                        came.push_back(Came {
                            at: Instant::now(),
                            bytes: frame.head.to_vec(),
                        });
                    }
                })
                .unwrap();
            let left = until.saturating_duration_since(Instant::now());
            if !self.came.is_empty() || left.is_zero() {
                return;
            }
            self.tap.wait(left.as_nanos() as u64).unwrap();
        }
    }

    /// The oldest frame as a script writes it.
    fn take(&mut self, like: &str) -> Option<(Instant, String)> {
        let came = self.came.pop_front()?;
        let header = ipv4::read(&came.bytes[14..]).unwrap();
        let at = 14 + header.header_bytes;
        let end = 14 + header.total_bytes;
        let (segment, len) = read(&came.bytes[at..end]).unwrap();
        if segment.has(flag::SYN) && self.tuple.iss.is_none() {
            self.tuple.iss = Some(segment.seq);
            self.tuple.our_port = segment.source_port;
        }
        let payload = end - at - len;
        let class = header.traffic_class;
        Some((came.at, self.tuple.show(&segment, payload, class, like)))
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// One line; an answer that differs from it is the error.
    fn step(&mut self, ms: u64, what: &str) -> Result<(), String> {
        let due = self.at(ms);
        if let Some(expected) = what.strip_prefix("> ") {
            let expected = without_window(expected);
            self.look(due + LATE + Duration::from_millis(ms / 50));
            let Some((at, shown)) = self.take(&expected) else {
                return Err("nothing".to_owned());
            };
            let (shown, expected) = (comparable(&shown), comparable(&expected));
            if shown != expected {
                return Err(shown);
            }
            if at + EARLY < due {
                return Err(format!("{shown}, earlier"));
            }
            return Ok(());
        }
        self.look(due.checked_sub(Duration::from_millis(2)).unwrap_or(due));
        if let Some((_, shown)) = self.take("") {
            return Err(format!("before it {shown}"));
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if let Some(segment) = what.strip_prefix("<+ ").or(what.strip_prefix("< ")) {
            let frame = self.tuple.frame(segment);
            let sent = self.tap.transmit(frame.len(), &mut |room| {
                room.copy_from_slice(&frame);
                Some((frame.len(), Default::default()))
            });
            assert!(sent.unwrap());
            return Ok(());
        }
        self.command(what)
    }

    fn command(&mut self, what: &str) -> Result<(), String> {
        let (verb, rest) = what.split_once(' ').unwrap_or((what, ""));
        match verb {
            "connect" => self.stream = Some(connect(self.nagle)),
            "listen" => {
                self.tuple.peer_port = 4_000;
                let listener = TcpListener::bind((OURS, 80)).unwrap();
                listener.set_nonblocking(true).unwrap();
                self.listener = Some(listener);
            }
            "send" => {
                let end = self.sent + rest.parse::<u64>().unwrap();
                let bytes: Vec<u8> = (self.sent..end).map(|at| byte(7, at)).collect();
                self.stream().write_all(&bytes).unwrap();
                self.sent = end;
            }
            "close" => drop(self.stream().shutdown(std::net::Shutdown::Write)),
            "forget" => {
                self.stream();
                self.stream = None;
            }
            "abort" => {
                reset_at_close(self.stream());
                self.stream = None;
            }
            "got" => {
                let expected: u64 = rest.parse().unwrap();
                let until = Instant::now() + LATE;
                let mut buffer = vec![0; 1 << 16];
                while self.got < expected && Instant::now() < until {
                    match self.stream().read(&mut buffer) {
                        Ok(len) => {
                            for got in &buffer[..len] {
                                assert_eq!(*got, byte(9, self.got));
                                self.got += 1;
                            }
                        }
                        Err(_) => std::thread::yield_now(),
                    }
                }
                if self.got != expected {
                    return Err(format!("got {}", self.got));
                }
            }
            "new" => self.tuple.iss = None,
            // Acknowledgements are delayed from the first one on, as ours are.
            "event" if matches!(rest, "Accepted" | "Connected") => {
                set(self.stream(), libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0);
            }
            // What a program of ours hears, and what we count.
            "event" | "silent" | "count" | "empty" | "gone" | "is" | "quiet" => {}
            other => panic!("no command {other}"),
        }
        Ok(())
    }

    fn stream(&mut self) -> &mut TcpStream {
        if self.stream.is_none() {
            let (stream, _) = self.listener.as_ref().unwrap().accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(!self.nagle).unwrap();
            self.stream = Some(stream);
        }
        self.stream.as_mut().unwrap()
    }
}

/// The kernel begins a connection and does not wait for it.
fn connect(nagle: bool) -> TcpStream {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes integers only.
    let fd = unsafe { libc::socket(libc::AF_INET, kind, 0) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: it was opened just now and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    set(&fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, i32::from(!nagle));
    // SAFETY: all of it are integers, for which zero is a value.
    let mut to: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    to.sin_family = libc::AF_INET as u16;
    to.sin_port = 80u16.to_be();
    to.sin_addr.s_addr = PEERS.to_bits().to_be();
    // SAFETY: the address lives through the call and has the size that is said.
    let result = unsafe {
        libc::connect(
            fd.as_raw_fd(),
            (&raw const to).cast(),
            size_of::<libc::sockaddr_in>() as libc::socklen_t,
        )
    };
    let error = io::Error::last_os_error();
    assert!(
        result < 0 && error.raw_os_error() == Some(libc::EINPROGRESS),
        "{error}"
    );
    TcpStream::from(fd)
}

fn reset_at_close(stream: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the value lives through the call and has the size that is said.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        );
    }
}

/// TCP of the connection, from the kernel.
fn is_of(frame: &[u8], tuple: &Tuple) -> bool {
    let is_ipv4 = frame.get(12..14) == Some(&[8, 0]);
    let Some(header) = frame.get(14..).filter(|_| is_ipv4).and_then(ipv4::read) else {
        return false;
    };
    let at = 14 + header.header_bytes;
    header.protocol == PROTOCOL
        && header.destination == PEERS
        && frame
            .get(at..at + tcp::HEADER_BYTES)
            .is_some_and(|tcp| u16::from_be_bytes([tcp[2], tcp[3]]) == tuple.peer_port)
}

/// How large a window is, and what is pushed, is everybody's own affair (RFC 9293 3.9.1).
fn without_window(text: &str) -> String {
    let mut words = text.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if word == "win" {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// Without the PSH flag.
fn comparable(text: &str) -> String {
    let (flags, rest) = text.split_once(' ').unwrap_or((text, ""));
    format!("{} {rest}", flags.replace('P', ""))
}

/// What a script needs that a socket has not.
fn hindrance(kept: &Kept) -> Option<String> {
    let known = Settings {
        timestamps: kept.settings.timestamps,
        window_scaling: kept.settings.window_scaling,
        sack: kept.settings.sack,
        ecn: kept.settings.ecn,
        nagle: kept.settings.nagle,
        ..standard()
    };
    if kept.settings.timestamps {
        return Some("the kernel's clock of timestamps begins anywhere".to_owned());
    }
    if known != kept.settings {
        return Some("a setting that a socket has not".to_owned());
    }
    let mut last = 0;
    for line in lines(&kept.script) {
        let (ms, what) = line;
        last = last.max(ms);
        let verb = what.split(' ').next().unwrap_or("");
        if matches!(verb, "window" | "too_big" | "unreachable" | "end") {
            return Some(format!("no program of the kernel can `{verb}`"));
        }
    }
    (last > LONGEST_MS).then(|| format!("it takes {last} ms"))
}

fn lines(script: &str) -> impl Iterator<Item = (u64, &str)> {
    let lines = script.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .map(|line| {
            let (at, what) = line.split_once(char::is_whitespace).unwrap();
            (at.parse().unwrap(), what.trim())
        })
}

/// `same`, or the first line at which the kernel does otherwise, and what.
fn play(kept: &Kept) -> Option<String> {
    let mut verdict = None;
    in_namespace(|| {
        let mut stage = Stage::new(&kept.settings);
        let difference = lines(&kept.script).find_map(|(ms, what)| {
            let other = stage.step(ms, what).err()?;
            Some(format!("at {ms} ms `{what}`, the kernel: {other}"))
        });
        verdict = Some(difference.unwrap_or_else(|| "same".to_owned()));
    });
    verdict
}

/// A machine that stands still for a moment is no answer of the kernel's: what is not the same is played again.
fn verdict_of(kept: &Kept) -> Option<String> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..4 {
        let verdict = play(kept)?;
        if verdict == "same" {
            return Some(verdict);
        }
        let times = seen.entry(verdict.clone()).or_default();
        *times += 1;
        if *times == 2 {
            return Some(verdict);
        }
    }
    seen.into_iter()
        .max_by_key(|(_, times)| *times)
        .map(|(verdict, _)| verdict)
}

#[test]
fn the_kernel_answers_the_same_scripts_alike() {
    const AT_ONCE: usize = 6;
    let all = kept(|| scripts::ALL.iter().for_each(|scripts| scripts()));
    let work = Mutex::new((0..all.len()).collect::<VecDeque<_>>());
    let verdicts = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(number) = work.lock().unwrap().pop_front() else {
                        return;
                    };
                    let kept = &all[number];
                    let verdict = match hindrance(kept) {
                        Some(why) => Some(format!("not played: {why}")),
                        None => verdict_of(kept),
                    };
                    verdicts.lock().unwrap().insert(number, verdict);
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().unwrap();
    if verdicts.values().any(Option::is_none) {
        // Why was said.
        return;
    }
    let count = |what: &str| {
        let begins = |v: &&Option<String>| v.as_ref().is_some_and(|v| v.starts_with(what));
        verdicts.values().filter(begins).count()
    };
    let (same, not_played) = (count("same"), count("not played"));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let release: Vec<&str> = release.split('.').take(2).collect();
    let mut table = format!(
        "Packet scripts with the TCP of Linux {} under test: {same} of {} the same, {not_played} not played\n",
        release.join("."),
        all.len()
    );
    let mut unexplained = Vec::new();
    for (kept, verdict) in all.iter().zip(verdicts.values()) {
        let verdict = verdict.as_deref().unwrap_or_default();
        let _ = writeln!(table, "\n{}\n    {verdict}", kept.name);
        if verdict != "same" && !verdict.starts_with("not played") {
            let mut reasons = REASONS.iter();
            match reasons.find(|(name, _)| *name == kept.name) {
                Some((_, why)) => {
                    let _ = writeln!(table, "    because {why}");
                }
                None => unexplained.push(format!("{}: {verdict}", kept.name)),
            }
        }
    }
    let path = format!(
        "{}/tests/golden/kernel_scripts.txt",
        env!("CARGO_MANIFEST_DIR")
    );
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let of_this = format!(
        "Packet scripts with the TCP of Linux {} ",
        release.join(".")
    );
    if !known.starts_with(&of_this) {
        eprintln!("not compared: the table is of another kernel\n{table}");
        return;
    }
    assert_eq!(unexplained, [""; 0], "differences without a reason");
    assert_eq!(known, table, "BLESS=1 takes the new table over");
}
