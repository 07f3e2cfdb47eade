//! UDP exchanges: the client side asks from an address and port of its own, the server side answers each datagram by
//! the template of its port. What is asked and answered is known bytes, compared on both sides.

use super::flows::Program;
use super::script::{Role, UdpWork, Work};
use super::streams::WRONG_BYTES;
use record::{FailureKind, Nanos};
use stack::udp::{Datagram, Outgoing};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Tags of answers; those of questions are the place and its generation.
const ANSWER: u64 = 1 << 63;
/// Ports that are tried for one exchange.
const TRIES: u32 = 4_096;

/// One exchange of datagrams between two addresses.
struct Exchange {
    from: SocketAddr,
    to: SocketAddr,
    /// When the question was due.
    due_at: u64,
    /// When it left; 0 before.
    sent_at: u64,
    /// Questions answered.
    done: u32,
    generation: u32,
    template: u16,
    is_open: bool,
    /// A question has no answer yet.
    is_asked: bool,
}

/// All exchanges of a side.
pub(super) struct Exchanges {
    list: Vec<Exchange>,
    free: Vec<u32>,
    by_local: HashMap<SocketAddr, u32>,
    locals: Vec<IpAddr>,
    next_ports: Vec<u16>,
    ports: (u16, u16),
    /// Of each template, questions in the order in which they give up: time, place, generation, number.
    deadlines: Vec<VecDeque<(u64, u32, u32, u32)>>,
    /// When exchanges ask again: time, place, generation.
    gaps: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// What waits to be sent.
    pub outbox: Vec<Outgoing>,
}

impl Exchanges {
    /// None yet, for so many templates.
    pub fn new(templates: usize, locals: &[IpAddr], ports: (u16, u16)) -> Self {
        Exchanges {
            list: Vec::new(),
            free: Vec::new(),
            by_local: HashMap::new(),
            locals: locals.to_vec(),
            next_ports: vec![ports.0; locals.len()],
            ports,
            deadlines: vec![VecDeque::new(); templates],
            gaps: BinaryHeap::new(),
            outbox: Vec::with_capacity(1_024),
        }
    }

    /// When the next question is due or given up.
    pub fn next_at(&self) -> u64 {
        let gap = self.gaps.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        let fronts = self.deadlines.iter().filter_map(VecDeque::front);
        fronts.map(|(at, ..)| *at).fold(gap, u64::min)
    }

    fn free_port(&mut self, source: usize) -> Option<SocketAddr> {
        let ip = *self.locals.get(source)?;
        let (low, high) = self.ports;
        for _ in 0..TRIES {
            let port = self.next_ports[source];
            self.next_ports[source] = if port >= high { low } else { port + 1 };
            let local = SocketAddr::new(ip, port);
            if !self.by_local.contains_key(&local) {
                return Some(local);
            }
        }
        None
    }

    /// The exchange that a tag or deadline speaks of, when it still is that one.
    fn current(&mut self, place: u32, generation: u32) -> Option<&mut Exchange> {
        let exchange = self.list.get_mut(place as usize)?;
        (exchange.is_open && exchange.generation == generation).then_some(exchange)
    }
}

impl Program {
    fn udp_work(&self, template: u16) -> Option<&UdpWork> {
        match &self.plan.scripts[usize::from(template)].work {
            Work::Udp(work) => Some(work),
            _ => None,
        }
    }

    // ---- Client ----

    /// Begins an exchange with `to` that was due at `due`.
    pub fn begin_exchange(&mut self, template: u16, to: SocketAddr, due: u64) {
        let source = (self.begins.as_mut()).and_then(|begins| begins.source(to.is_ipv4()));
        self.opened(template);
        let Some(source) = source else {
            self.ended(template);
            return self.not_begun(usize::from(template), FailureKind::ConnectFailed);
        };
        let Some(from) = self.exchanges.free_port(source) else {
            self.ended(template);
            return self.not_begun(usize::from(template), FailureKind::NoLocalPort);
        };
        let all = &mut self.exchanges;
        let place = all.free.pop().unwrap_or(all.list.len() as u32);
        let generation =
            (all.list.get(place as usize)).map_or(0, |old| old.generation.wrapping_add(1));
        let exchange = Exchange {
            from,
            to,
            due_at: due,
            sent_at: 0,
            done: 0,
            generation,
            template,
            is_open: true,
            is_asked: false,
        };
        match all.list.get_mut(place as usize) {
            Some(old) => *old = exchange,
            None => all.list.push(exchange),
        }
        all.by_local.insert(from, place);
        self.ask_datagram(place, due);
    }

    fn ask_datagram(&mut self, place: u32, due: u64) {
        let exchange = &mut self.exchanges.list[place as usize];
        (exchange.due_at, exchange.sent_at) = (due, 0);
        exchange.is_asked = true;
        let (template, generation, done) = (exchange.template, exchange.generation, exchange.done);
        let (from, to) = (exchange.from, exchange.to);
        let script = &self.plan.scripts[usize::from(template)];
        let Work::Udp(work) = &script.work else {
            return;
        };
        let len = work.request.len() as u16;
        let tag = u64::from(generation & 0x7fff_ffff) << 32 | u64::from(place);
        self.exchanges.outbox.push(Outgoing { from, to, len, tag });
        let gives_up = self.now.saturating_add(script.timeout_ns);
        let deadlines = &mut self.exchanges.deadlines[usize::from(template)];
        deadlines.push_back((gives_up, place, generation, done));
        self.tally[usize::from(template)].sent_bytes += u64::from(len);
    }

    fn end_exchange(&mut self, place: u32) {
        let exchange = &mut self.exchanges.list[place as usize];
        exchange.is_open = false;
        let (from, template) = (exchange.from, exchange.template);
        self.exchanges.by_local.remove(&from);
        self.exchanges.free.push(place);
        self.ended(template);
    }

    fn fail_exchange(&mut self, place: u32, kind: &str) {
        let template = self.exchanges.list[place as usize].template;
        self.count_failure(template, kind);
        self.end_exchange(place);
    }

    /// Asks what is due and gives up what was not answered.
    pub fn udp_turn(&mut self) {
        let now = self.now;
        while let Some(&Reverse((at, place, generation))) = self.exchanges.gaps.peek() {
            if at > now {
                break;
            }
            self.exchanges.gaps.pop();
            if self.exchanges.current(place, generation).is_some() {
                self.ask_datagram(place, at);
            }
        }
        for template in 0..self.exchanges.deadlines.len() {
            while let Some(&(at, place, generation, number)) =
                self.exchanges.deadlines[template].front()
            {
                let exchange = self.exchanges.current(place, generation);
                let waits = exchange.is_some_and(|it| it.is_asked && it.done == number);
                if waits && at > now {
                    break;
                }
                self.exchanges.deadlines[template].pop_front();
                if waits {
                    self.fail_exchange(place, FailureKind::Timeout.name());
                }
            }
        }
    }

    /// Fills in what a datagram carries.
    pub fn fill_datagram(&mut self, tag: u64, into: &mut [u8]) {
        if tag & ANSWER != 0 {
            if let Some(work) = self.udp_work(tag as u16) {
                work.response.fill(0, into);
            }
            return;
        }
        let (place, generation) = (tag as u32, (tag >> 32) as u32);
        let now = self.time();
        let Some(exchange) = self.exchanges.list.get_mut(place as usize) else {
            return;
        };
        if exchange.generation & 0x7fff_ffff == generation && exchange.sent_at == 0 {
            exchange.sent_at = now;
        }
        let template = exchange.template;
        if let Some(work) = self.udp_work(template) {
            work.request.fill(0, into);
        }
    }

    /// A datagram of ours did not arrive.
    pub fn on_undelivered(&mut self, from: SocketAddr) {
        if let Some(&place) = self.exchanges.by_local.get(&from) {
            self.fail_exchange(place, FailureKind::ConnectRefused.name());
        }
    }

    /// Takes a datagram: a question or an answer.
    pub fn on_datagram(&mut self, datagram: Datagram<'_>) {
        match self.role {
            Role::Client => self.on_answer(datagram),
            Role::Server => self.on_question(datagram),
        }
    }

    fn on_answer(&mut self, datagram: Datagram<'_>) {
        let Some(&place) = self.exchanges.by_local.get(&datagram.to) else {
            return;
        };
        let exchange = &mut self.exchanges.list[place as usize];
        if exchange.to != datagram.from || !exchange.is_asked {
            return;
        }
        exchange.is_asked = false;
        exchange.done += 1;
        let (done, generation, template) = (exchange.done, exchange.generation, exchange.template);
        let (due, sent) = (exchange.due_at, exchange.sent_at);
        let Work::Udp(work) = &self.plan.scripts[usize::from(template)].work else {
            return;
        };
        let (exchanges, gap_ns) = (work.exchanges, work.gap_ns);
        let is_right = is_expected(&work.response, datagram.bytes);
        let tally = &mut self.tally[usize::from(template)];
        tally.received_bytes += datagram.bytes.len() as u64;
        if !is_right {
            return self.fail_exchange(place, WRONG_BYTES);
        }
        if done == 1 {
            tally.connected += 1;
        }
        tally.exchanges += 1;
        tally
            .first_byte
            .record(Nanos(self.now.saturating_sub(sent)));
        tally.response.record(Nanos(self.now.saturating_sub(due)));
        if done >= exchanges {
            tally.completed += 1;
            return self.end_exchange(place);
        }
        match due.saturating_add(gap_ns) {
            at if gap_ns > 0 && at > self.now => {
                self.exchanges.gaps.push(Reverse((at, place, generation)));
            }
            // The answer took longer than the gap: the question is asked at once, and counts from its due time.
            at if gap_ns > 0 => self.ask_datagram(place, at),
            _ => self.ask_datagram(place, self.now),
        }
    }

    /// Exchanges that are open when all is over.
    pub fn count_unfinished_exchanges(&mut self) {
        for exchange in self.exchanges.list.iter().filter(|it| it.is_open) {
            self.tally[usize::from(exchange.template)].unfinished += 1;
        }
    }

    // ---- Server ----

    fn on_question(&mut self, datagram: Datagram<'_>) {
        let plan = &self.plan;
        let Some(template) = plan.script_at(true, &datagram.to) else {
            return;
        };
        let Work::Udp(work) = &plan.scripts[usize::from(template)].work else {
            return;
        };
        let is_right = is_expected(&work.request, datagram.bytes);
        let len = work.response.len() as u16;
        let tally = &mut self.tally[usize::from(template)];
        tally.received_bytes += datagram.bytes.len() as u64;
        if !is_right {
            return self.count_failure(template, WRONG_BYTES);
        }
        tally.exchanges += 1;
        tally.sent_bytes += u64::from(len);
        self.exchanges.outbox.push(Outgoing {
            from: datagram.to,
            to: datagram.from,
            len,
            tag: ANSWER | u64::from(template),
        });
    }
}

/// Exactly these bytes; a template that names none takes any.
fn is_expected(content: &super::content::Content, bytes: &[u8]) -> bool {
    content.len() == 0 || content.len() == bytes.len() as u64 && content.matches(0, bytes)
}
