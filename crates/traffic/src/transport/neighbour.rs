//! ARP (RFC 826) for a stack in user space with one peer: asks for the server's link address, and answers for the
//! stack's own addresses.
//!
//! Sans-IO like the stack: frames go in and wait to be taken out. The surprise: a request of the server's for an
//! address of ours also tells where the server is.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

/// An ARP packet in its frame.
pub(super) type ArpFrame = [u8; 42];

/// From one request to the next.
const ASK_NS: u64 = 200_000_000;
/// Requests before the server counts as not there; a new connection asks anew.
const TRIES: u32 = 10;
/// Answers that wait at most: a flood is answered no faster than the device sends.
const WAITING_MAX: usize = 256;
const REQUEST: u8 = 1;
const REPLY: u8 = 2;

/// What is known of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Its link address.
    Yes([u8; 6]),
    /// It is being asked for.
    NotYet,
    /// It does not answer.
    No,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Neighbour {
    mac: [u8; 6],
    /// Sorted.
    own: Vec<Ipv4Addr>,
    server: Ipv4Addr,
    found: Option<[u8; 6]>,
    tries: u32,
    ask_at: Option<u64>,
    waiting: VecDeque<ArpFrame>,
}

impl Neighbour {
    /// For a stack with this link address and these addresses; `None` for IPv6.
    pub fn new(mac: [u8; 6], own: &[IpAddr], server: IpAddr) -> Option<Self> {
        let v4 = |ip: &IpAddr| match ip {
            IpAddr::V4(ip) => Some(*ip),
            IpAddr::V6(_) => None,
        };
        let mut own = own.iter().map(v4).collect::<Option<Vec<_>>>()?;
        own.sort_unstable();
        Some(Neighbour {
            mac,
            own,
            server: v4(&server)?,
            found: None,
            tries: 0,
            ask_at: None,
            waiting: VecDeque::with_capacity(WAITING_MAX),
        })
    }

    /// The server's link address is needed.
    pub fn look_up(&mut self, now: u64) -> Known {
        if let Some(mac) = self.found {
            return Known::Yes(mac);
        }
        if self.tries == TRIES {
            (self.tries, self.ask_at) = (0, None);
            return Known::No;
        }
        self.ask_at.get_or_insert(now);
        self.poll(now);
        Known::NotYet
    }

    /// Asks again when it is time.
    pub fn poll(&mut self, now: u64) {
        if self.found.is_some() || self.tries == TRIES || self.ask_at.is_none_or(|at| at > now) {
            return;
        }
        self.tries += 1;
        self.ask_at = Some(now + ASK_NS);
        if let Some(source) = self.own.first() {
            let frame = packet(REQUEST, self.mac, *source, [0xff; 6], self.server);
            self.waiting.push_back(frame);
        }
    }

    /// When [`Neighbour::poll`] has something to do.
    pub fn next_at(&self) -> Option<u64> {
        self.ask_at.filter(|_| self.found.is_none())
    }

    /// Looks at a frame that is not TCP for us.
    pub fn receive(&mut self, frame: &[u8]) {
        let Some(arp) = frame.first_chunk::<42>() else {
            return;
        };
        // Ethernet and IPv4, addresses of 6 and 4 bytes.
        if arp[12..14] != [8, 6] || arp[14..20] != [0, 1, 8, 0, 6, 4] {
            return;
        }
        let ip = |at: usize| Ipv4Addr::new(arp[at], arp[at + 1], arp[at + 2], arp[at + 3]);
        let (from, to) = (ip(28), ip(38));
        let mut mac = [0; 6];
        mac.copy_from_slice(&arp[22..28]);
        if from == self.server && mac != self.mac {
            self.found = Some(mac);
            self.tries = 0;
        }
        let is_request = arp[20..22] == [0, REQUEST];
        if is_request && self.own.binary_search(&to).is_ok() && self.waiting.len() < WAITING_MAX {
            self.waiting
                .push_back(packet(REPLY, self.mac, to, mac, from));
        }
    }

    /// The next frame to be sent.
    pub fn front(&self) -> Option<&ArpFrame> {
        self.waiting.front()
    }

    /// It was sent.
    pub fn pop(&mut self) {
        self.waiting.pop_front();
    }
}

fn packet(kind: u8, mac: [u8; 6], from: Ipv4Addr, to_mac: [u8; 6], to: Ipv4Addr) -> ArpFrame {
    let mut frame = [0; 42];
    frame[..6].copy_from_slice(&to_mac);
    frame[6..12].copy_from_slice(&mac);
    frame[12..20].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4]);
    frame[21] = kind;
    frame[22..28].copy_from_slice(&mac);
    frame[28..32].copy_from_slice(&from.octets());
    if kind == REPLY {
        frame[32..38].copy_from_slice(&to_mac);
    }
    frame[38..42].copy_from_slice(&to.octets());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 9];

    fn neighbour() -> Neighbour {
        let own = [[10, 9, 0, 3], [10, 9, 0, 2]].map(IpAddr::from);
        Neighbour::new(OURS, &own, [10, 9, 0, 1].into()).unwrap()
    }

    #[test]
    fn asks_until_it_is_answered() {
        let mut it = neighbour();
        assert_eq!(it.look_up(0), Known::NotYet);
        let request = *it.front().unwrap();
        assert_eq!(
            (&request[..6], request[21], &request[38..]),
            (&[0xff; 6][..], REQUEST, &[10, 9, 0, 1][..])
        );
        it.pop();
        it.poll(ASK_NS - 1);
        assert!(it.front().is_none());
        assert_eq!(it.next_at(), Some(ASK_NS));
        it.poll(ASK_NS);
        assert!(it.front().is_some());
        let (server, us) = (Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2));
        it.receive(&packet(REPLY, THEIRS, server, OURS, us));
        assert_eq!(
            (it.look_up(ASK_NS), it.next_at()),
            (Known::Yes(THEIRS), None)
        );
    }

    #[test]
    fn gives_up_and_begins_anew() {
        let mut it = neighbour();
        let answers: Vec<Known> = (0..=TRIES)
            .map(|i| it.look_up(u64::from(i) * ASK_NS))
            .collect();
        assert_eq!(answers[TRIES as usize - 1..], [Known::NotYet, Known::No]);
        assert_eq!(it.look_up(u64::MAX / 2), Known::NotYet);
    }

    #[test]
    fn answers_for_its_own_addresses_alone() {
        let mut it = neighbour();
        let server = Ipv4Addr::new(10, 9, 0, 1);
        let ask = |to| packet(REQUEST, THEIRS, server, [0xff; 6], to);
        it.receive(&ask(Ipv4Addr::new(10, 9, 0, 4)));
        assert!(it.front().is_none());
        it.receive(&ask(Ipv4Addr::new(10, 9, 0, 3)));
        let reply = it.front().unwrap();
        assert_eq!(
            (&reply[..6], reply[21], &reply[28..32]),
            (&THEIRS[..], REPLY, &[10, 9, 0, 3][..])
        );
        (0..42).for_each(|len| it.receive(&ask(server)[..len]));
    }
}
