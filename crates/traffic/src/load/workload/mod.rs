//! Workloads: which request a client sends next, its bytes, and whether the response is what it must be.
//!
//! [`Prepared`] is made once and shared, [`Script`] is one load thread's. The loop asks a script for three things:
//! the next request of a slot ([`Script::draw`]), its bytes ([`Script::render`]), and what a whole response is
//! ([`Script::judge`]). A slot is a client: its place in a session, its row of a table, its captured values and its
//! cookies outlive its connections. All of it is allocated before the load.

mod cookies;
mod json;
mod prepare;

use super::tally::CheckCounts;
use crate::random::Random;
use crate::transport::Slot;
use crate::transport::websocket::sending::put_head;
use cookies::Jar;
use json::Pointer;
pub(crate) use prepare::{Prepared, single};
use record::workload::{Order, Pick};
use record::{FailureKind, Think};
use regex::bytes::{CaptureLocations, Regex};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest value that is captured.
pub(super) const CAPTURED_MAX: usize = 4096;

/// A piece of a request.
#[derive(Clone, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Sequence,
    Integer {
        from: i64,
        span: u64,
    },
    Letters(u32),
    Uuid,
    Column {
        table: usize,
        column: usize,
    },
    Captured(usize),
    /// The `Cookie` field.
    Cookies,
    /// The length of the body that follows.
    BodyLength,
}

/// One kind of request, ready to be filled in.
#[derive(Debug)]
struct Compiled {
    name: String,
    /// The request target.
    target: Vec<Piece>,
    /// What stands before it.
    method: Vec<u8>,
    /// What stands behind it, up to the empty line.
    head: Vec<Piece>,
    body: Vec<Piece>,
    weight: f64,
    think: Option<Think>,
    is_head: bool,
    announces_close: bool,
    needs: Needs,
    status: Option<Vec<(u16, u16)>>,
    checks: Vec<Test>,
    captures: Vec<Taken>,
    /// Of the checks that the counts are kept for: the status, the tests, the captures.
    check_names: Vec<String>,
}

/// What of a response is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Needs {
    head: bool,
    /// Its bytes pass by.
    body: bool,
    /// Its bytes are kept.
    kept: bool,
    hash: bool,
}

#[derive(Debug)]
enum Test {
    Length(u64, u64),
    Contains(Box<memchr::memmem::Finder<'static>>),
    Json(Pointer, Vec<u8>),
    Sha256([u8; 32]),
}

#[derive(Debug)]
struct Taken {
    into: usize,
    from: Source,
}

#[derive(Debug)]
enum Source {
    Header(String),
    Regex(Regex),
    Json(Pointer),
    Cookie(String),
}

#[derive(Debug)]
struct Table {
    pick: Pick,
    rows: Vec<Row>,
}

/// The cells of a row.
type Row = Vec<Vec<u8>>;

/// What came of a response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judged {
    /// Not as it must be.
    pub failed: Option<FailureKind>,
    /// The client waits for so long, ns.
    pub think_ns: u64,
}

/// One client.
struct Client {
    step: u32,
    /// The row of each table.
    rows: Vec<u32>,
    captured: Vec<Vec<u8>>,
    jar: Option<Jar>,
    seen: Seen,
}

/// What has been seen of the response under way.
#[derive(Default)]
struct Seen {
    length: u64,
    /// Some is missing from the buffer.
    overflown: bool,
    hash: Option<Sha256>,
    body: Vec<u8>,
    /// A value of the head that is captured was not there.
    head_lacks: bool,
}

/// The requests of one load thread.
pub(crate) struct Script {
    work: Arc<Prepared>,
    random: Random,
    /// Smooth weighted round-robin: what each request is owed.
    owed: Vec<f64>,
    total: f64,
    /// Where each table stands that is read in order.
    next_rows: Vec<u32>,
    /// Where each pattern's matches are put: by request and capture.
    locations: Vec<Vec<Option<CaptureLocations>>>,
    clients: Vec<Client>,
    /// Unsent and outstanding requests of each slot.
    buffers: Vec<Vec<u8>>,
    body: Vec<u8>,
    cookies: Vec<u8>,
    threads: u32,
}

/// A request that was written down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rendered {
    /// Length of all that is unsent.
    pub unsent: usize,
    /// Length of the request.
    pub len: u32,
}

impl Script {
    /// The script of one of `of` threads, with so many clients, the first of which is the load's `first`.
    pub fn new(work: Arc<Prepared>, index: u32, of: u32, slots: u32, depth: usize) -> Self {
        let seed = work
            .seed
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(u64::from(index));
        let mut random = Random::seeded(seed);
        let locations = work.requests.iter().map(Compiled::locations).collect();
        let most = work.largest * depth;
        let kept = work.requests.iter().any(|r| r.needs.kept);
        let hashes = work.requests.iter().any(|r| r.needs.hash);
        let clients = (0..slots).map(|slot| Client {
            step: 0,
            // Clients are dealt out like cards: every row is one client's in the whole load.
            rows: vec![slot * of + index; work.tables.len()],
            captured: vec![Vec::with_capacity(CAPTURED_MAX); work.captures],
            jar: work.cookies.then(Jar::new),
            seen: Seen {
                hash: hashes.then(Sha256::new),
                body: Vec::with_capacity(if kept { work.body_limit } else { 0 }),
                ..Seen::default()
            },
        });
        Script {
            owed: work
                .requests
                .iter()
                .map(|r| random.unit() * r.weight)
                .collect(),
            total: work.requests.iter().map(|r| r.weight).sum(),
            next_rows: vec![index; work.tables.len()],
            locations,
            clients: clients.collect(),
            buffers: vec![Vec::with_capacity(most); slots as usize],
            body: Vec::with_capacity(work.largest),
            random,
            cookies: Vec::with_capacity(if work.cookies {
                prepare::COOKIES_MAX
            } else {
                0
            }),
            threads: of,
            work,
        }
    }

    /// The request that a slot sends next.
    pub fn draw(&mut self, slot: Slot) -> u32 {
        if self.work.order == Order::Session {
            return self.clients[slot as usize].step;
        }
        // Each is owed its weight a turn; whoever is owed most gets the turn and pays for all.
        let mut best = 0;
        for (i, request) in self.work.requests.iter().enumerate() {
            self.owed[i] += request.weight;
            if self.owed[i] > self.owed[best] {
                best = i;
            }
        }
        self.owed[best] -= self.total;
        best as u32
    }

    /// Responses to a request of this kind have no body.
    pub fn is_head(&self, which: u32) -> bool {
        self.work.requests[which as usize].is_head
    }

    /// The body of a response to this request must not be thrown away unseen.
    #[inline]
    pub fn needs_body(&self, which: u32) -> bool {
        self.work.requests[which as usize].needs.body
    }

    /// Writes a request behind those of the slot; `first` when nothing of them is unsent.
    pub fn render(&mut self, slot: Slot, which: u32, first: bool, now: u64) -> Rendered {
        let work = Arc::clone(&self.work);
        let request = &work.requests[which as usize];
        self.pick_rows(slot, which);
        if first {
            self.buffers[slot as usize].clear();
        }
        let mut out = std::mem::take(&mut self.buffers[slot as usize]);
        let mut body = std::mem::take(&mut self.body);
        let from = out.len();
        body.clear();
        self.write(&request.body, slot, &mut body, false);
        match work.message {
            Some(opcode) => put_head(&mut out, opcode, body.len()),
            None => self.write_head(request, slot, &mut out, body.len(), now),
        }
        out.extend_from_slice(&body);
        let rendered = Rendered {
            unsent: out.len(),
            len: (out.len() - from) as u32,
        };
        self.buffers[slot as usize] = out;
        self.body = body;
        rendered
    }

    /// All of a request of HTTP before its body of `body_len` bytes.
    fn write_head(
        &mut self,
        request: &Compiled,
        slot: Slot,
        out: &mut Vec<u8>,
        body_len: usize,
        now: u64,
    ) {
        out.extend_from_slice(&request.method);
        let target_from = out.len();
        self.write(&request.target, slot, out, true);
        let origin = &self.work.origin;
        if out[target_from..].starts_with(origin) {
            out.drain(target_from..target_from + origin.len());
        }
        if out.get(target_from) != Some(&b'/') {
            out.insert(target_from, b'/');
        }
        let target_to = out.len();
        for piece in &request.head {
            match piece {
                Piece::BodyLength => drop(write!(out, "{body_len}")),
                Piece::Cookies => self.write_cookies(slot, out, target_from..target_to, now),
                piece => self.write(std::slice::from_ref(piece), slot, out, false),
            }
        }
    }

    /// The last bytes that were written for a slot.
    pub fn tail(&self, slot: Slot, len: usize) -> &[u8] {
        let buffer = &self.buffers[slot as usize];
        &buffer[buffer.len() - len..]
    }

    /// A request of a mix, and the first of a session, gets new rows.
    fn pick_rows(&mut self, slot: Slot, which: u32) {
        if self.work.order == Order::Session && which != 0 {
            return;
        }
        for (i, table) in self.work.tables.iter().enumerate() {
            let rows = table.rows.len() as u32;
            let row = &mut self.clients[slot as usize].rows[i];
            match table.pick {
                Pick::PerClient => {}
                Pick::Random => *row = (self.random.bits() % u64::from(rows)) as u32,
                Pick::InOrder => {
                    *row = self.next_rows[i] % rows;
                    self.next_rows[i] = (self.next_rows[i] + self.threads) % rows;
                }
            }
        }
    }

    fn write(&mut self, pieces: &[Piece], slot: Slot, out: &mut Vec<u8>, in_target: bool) {
        const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Sequence => {
                    let n = 1 + self.work.sequence.fetch_add(1, Ordering::Relaxed);
                    drop(write!(out, "{n}"));
                }
                Piece::Integer { from, span } => {
                    let drawn = match span {
                        0 => self.random.bits(),
                        span => {
                            let product = u128::from(self.random.bits()) * u128::from(*span);
                            (product >> 64) as u64
                        }
                    };
                    drop(write!(out, "{}", from.wrapping_add(drawn.cast_signed())));
                }
                Piece::Letters(n) => {
                    let mut bits = 0;
                    for i in 0..*n {
                        if i % 12 == 0 {
                            bits = self.random.bits();
                        }
                        out.push(ALPHABET[(bits & 31) as usize]);
                        bits >>= 5;
                    }
                }
                Piece::Uuid => {
                    let (a, b) = (self.random.bits(), self.random.bits());
                    let (a, b) = (a & !0xf000 | 0x4000, b & !(3 << 62) | 1 << 63);
                    drop(write!(
                        out,
                        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                        a >> 32,
                        a >> 16 & 0xffff,
                        a & 0xffff,
                        b >> 48,
                        b & 0xffff_ffff_ffff
                    ));
                }
                Piece::Column { table, column } => {
                    let row = self.clients[slot as usize].rows[*table] as usize;
                    put(&self.work.tables[*table].rows[row][*column], out, in_target);
                }
                Piece::Captured(i) => {
                    put(&self.clients[slot as usize].captured[*i], out, in_target);
                }
                // Written where the whole request is known.
                Piece::Cookies | Piece::BodyLength => {}
            }
        }
    }

    fn write_cookies(
        &mut self,
        slot: Slot,
        out: &mut Vec<u8>,
        target: std::ops::Range<usize>,
        now: u64,
    ) {
        let Some(jar) = &self.clients[slot as usize].jar else {
            return;
        };
        // The path is in the buffer that is written to: copied behind it for the moment.
        let behind = out.len();
        out.extend_from_within(target);
        let (written, path) = (behind, out.len());
        let line = &mut self.cookies;
        line.clear();
        for cookie in jar.matching(cookies::path_of(&out[written..path]), now) {
            line.extend_from_slice(if line.is_empty() {
                b"Cookie: ".as_slice()
            } else {
                b"; "
            });
            line.extend_from_slice(cookie.name);
            line.push(b'=');
            line.extend_from_slice(cookie.value);
        }
        out.truncate(behind);
        if !line.is_empty() {
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
    }

    // ---- Responses ----

    /// A response begins.
    pub fn begin(&mut self, slot: Slot) {
        let seen = &mut self.clients[slot as usize].seen;
        seen.length = 0;
        seen.overflown = false;
        seen.head_lacks = false;
        seen.body.clear();
        if let Some(hash) = &mut seen.hash {
            hash.reset();
        }
    }

    /// A piece of the content of a body.
    pub fn body(&mut self, slot: Slot, which: u32, piece: &[u8]) {
        let needs = self.work.requests[which as usize].needs;
        let limit = self.work.body_limit;
        let seen = &mut self.clients[slot as usize].seen;
        seen.length += piece.len() as u64;
        if needs.kept {
            let room = limit - seen.body.len();
            seen.overflown |= piece.len() > room;
            seen.body.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        if let (true, Some(hash)) = (needs.hash, &mut seen.hash) {
            hash.update(piece);
        }
    }

    /// The head of a response: cookies, and captures from its fields.
    pub fn head(&mut self, slot: Slot, which: u32, head: &[u8], now: u64) {
        let work = Arc::clone(&self.work);
        let request = &work.requests[which as usize];
        if !request.needs.head {
            return;
        }
        for capture in &request.captures {
            let value = match &capture.from {
                Source::Header(name) => fields(head).find_map(|(field, value)| {
                    field.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
                }),
                Source::Cookie(name) => set_cookies(head).find_map(|field| {
                    let cookie = cookies::read_field(field, b"/", None, true, now)?;
                    (cookie.name == name.as_bytes()).then_some(cookie.value)
                }),
                _ => continue,
            };
            let client = &mut self.clients[slot as usize];
            client.seen.head_lacks |= !keep(&mut client.captured[capture.into], value);
        }
        let client = &mut self.clients[slot as usize];
        if let Some(jar) = &mut client.jar {
            let date = fields(head).find(|(name, _)| name.eq_ignore_ascii_case(b"date"));
            let date = date.map(|(_, value)| value);
            let target = target_of(&self.buffers[slot as usize]);
            // A proxy is given whole URLs.
            let target = target
                .strip_prefix(work.origin.as_slice())
                .unwrap_or(target);
            let path = cookies::path_of(target);
            for field in set_cookies(head) {
                if let Some(cookie) = cookies::read_field(field, path, date, work.is_secure, now) {
                    jar.set(cookie, now);
                }
            }
        }
    }

    /// A response is whole: whether it is as it must be, and what follows for the client. Failed checks are counted
    /// where there are counts.
    pub fn judge(
        &mut self,
        slot: Slot,
        which: u32,
        status: u16,
        by_status: Option<FailureKind>,
        counts: Option<&mut CheckCounts>,
    ) -> Judged {
        let work = Arc::clone(&self.work);
        let request = &work.requests[which as usize];
        let mut failed_checks = 0_u64;
        let mut failed = None;
        match &request.status {
            Some(ranges) => {
                if !ranges
                    .iter()
                    .any(|&(from, to)| (from..=to).contains(&status))
                {
                    failed_checks |= 1;
                    failed = by_status.or(Some(FailureKind::Check));
                }
            }
            None => failed = by_status,
        }
        let client = &mut self.clients[slot as usize];
        if failed.is_none() && client.seen.overflown {
            failed = Some(FailureKind::BodyTooLarge);
        }
        if failed.is_none() {
            for (i, test) in request.checks.iter().enumerate() {
                if !test.holds(&mut client.seen) {
                    failed_checks |= 2 << i;
                    failed = Some(FailureKind::Check);
                }
            }
            let first = 2 << request.checks.len();
            let locations = &mut self.locations[which as usize];
            for (i, capture) in request.captures.iter().enumerate() {
                let found = match &capture.from {
                    Source::Header(_) | Source::Cookie(_) => !client.seen.head_lacks,
                    Source::Json(pointer) => take_json(
                        &mut client.captured[capture.into],
                        pointer.find(&client.seen.body),
                    ),
                    Source::Regex(regex) => {
                        let body = &client.seen.body;
                        let value = (locations[i].as_mut()).and_then(|locations| {
                            regex.captures_read(locations, body)?;
                            let (from, to) = locations.get(1).or_else(|| locations.get(0))?;
                            Some(&body[from..to])
                        });
                        keep(&mut client.captured[capture.into], value)
                    }
                };
                if !found {
                    failed_checks |= first << i;
                    failed = failed.or(Some(FailureKind::Capture));
                }
            }
        }
        if let Some(counts) = counts {
            counts.note(failed_checks);
        }
        if failed.is_some() {
            self.restart(slot);
        } else {
            self.advance(slot);
        }
        Judged {
            failed,
            think_ns: self.think_ns(request.think),
        }
    }

    /// A request failed without a response: a session begins again.
    pub fn restart(&mut self, slot: Slot) {
        if self.work.order == Order::Mix {
            return;
        }
        let client = &mut self.clients[slot as usize];
        client.step = 0;
        forget(client);
    }

    fn advance(&mut self, slot: Slot) {
        if self.work.order == Order::Mix {
            return;
        }
        let client = &mut self.clients[slot as usize];
        client.step += 1;
        if client.step as usize == self.work.requests.len() {
            client.step = 0;
            forget(client);
        }
    }

    fn think_ns(&mut self, think: Option<Think>) -> u64 {
        match think {
            None => 0,
            Some(Think::Constant(time)) => time.0,
            Some(Think::Exponential(mean)) => (self.random.exponential() * mean.0 as f64) as u64,
        }
    }
}

/// A session ends, and the next is somebody else's.
fn forget(client: &mut Client) {
    client.captured.iter_mut().for_each(Vec::clear);
    if let Some(jar) = &mut client.jar {
        jar.clear();
    }
}

impl Compiled {
    fn locations(&self) -> Vec<Option<CaptureLocations>> {
        let of = |capture: &Taken| match &capture.from {
            Source::Regex(regex) => Some(regex.capture_locations()),
            _ => None,
        };
        self.captures.iter().map(of).collect()
    }
}

impl Test {
    fn holds(&self, seen: &mut Seen) -> bool {
        match self {
            Test::Length(least, most) => (*least..=*most).contains(&seen.length),
            Test::Contains(finder) => finder.find(&seen.body).is_some(),
            Test::Json(pointer, expected) => {
                (pointer.find(&seen.body)).is_some_and(|found| json::is_equal(found, expected))
            }
            Test::Sha256(expected) => {
                let hash = seen.hash.as_mut().map(Digest::finalize_reset);
                hash.is_some_and(|hash| hash.as_slice() == expected)
            }
        }
    }
}

/// Keeps a value that can be sent again; whether there was one.
fn keep(into: &mut Vec<u8>, value: Option<&[u8]>) -> bool {
    into.clear();
    let fits =
        |value: &&[u8]| value.len() <= CAPTURED_MAX && !value.iter().any(u8::is_ascii_control);
    let value = value.filter(fits);
    into.extend_from_slice(value.unwrap_or_default());
    value.is_some()
}

/// Keeps a JSON value: a text without its quotes, anything else as it stands.
fn take_json(into: &mut Vec<u8>, value: Option<&[u8]>) -> bool {
    let Some([b'"', inside @ .., b'"']) = value else {
        return keep(into, value);
    };
    into.clear();
    for byte in json::unescaped(inside) {
        if into.len() == CAPTURED_MAX || byte.is_ascii_control() {
            into.clear();
            return false;
        }
        into.push(byte);
    }
    true
}

/// A value, in a request target with all that cannot stand there as `%XX`.
fn put(value: &[u8], out: &mut Vec<u8>, in_target: bool) {
    if !in_target {
        out.extend_from_slice(value);
        return;
    }
    for &byte in value {
        if byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte) {
            out.push(byte);
        } else {
            drop(write!(out, "%{byte:02X}"));
        }
    }
}

/// The fields of a head, names and values.
fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = head.split(|&b| b == b'\n').skip(1);
    lines.filter_map(|line| {
        let at = line.iter().position(|&b| b == b':')?;
        Some((&line[..at], line[at + 1..].trim_ascii()))
    })
}

fn set_cookies(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let cookies = fields(head).filter(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie"));
    cookies.map(|(_, value)| value)
}

/// The target of the first request in a buffer.
fn target_of(request: &[u8]) -> &[u8] {
    request.split(|&b| b == b' ').nth(1).unwrap_or(b"/")
}

/// So many numbers have been given out by `{{sequence}}`.
type Sequence = AtomicU64;
