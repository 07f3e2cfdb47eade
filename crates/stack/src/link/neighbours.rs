//! Who has which address on the link: asked for, known, doubted, or given up.
//!
//! The times are those of RFC 4861 10, for ARP too. A neighbour that has been known for a while is asked again,
//! itself alone and while packets go on to it, so that a host that has moved is noticed and one that has not costs
//! nothing.

use crate::wire::ethernet::MacAddress;
use std::collections::HashMap;
use std::net::IpAddr;

/// Between two requests (RETRANS_TIMER).
pub const RETRY_NS: u64 = 1_000_000_000;
/// Requests without an answer, after which it is given up (MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT).
pub const TRIES: u32 = 3;
/// How long an answer is believed (REACHABLE_TIME).
const REACHABLE_NS: u64 = 30_000_000_000;
/// How long a failure is told, before the next packet asks anew.
const FAILED_NS: u64 = 3_000_000_000;
/// More neighbours than a link has, and few enough that a flood of made-up ones takes no memory worth the name.
const NEIGHBOURS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Everyone is asked; nothing can be sent.
    Asking { tries: u32, next_at: u64 },
    /// It answered, or spoke to us.
    Known { mac: MacAddress, until: u64 },
    /// Still used, while it alone is asked.
    Doubted {
        mac: MacAddress,
        tries: u32,
        next_at: u64,
    },
    /// Nobody answered.
    Failed { until: u64 },
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Send there.
    Known(MacAddress),
    /// It is being asked for.
    Waiting,
    /// Nobody answered [`TRIES`] requests.
    Failed,
}

/// A request that must be sent: for whom, and to whom alone if not to everyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub address: IpAddr,
    pub mac: Option<MacAddress>,
}

/// The table.
#[derive(Debug, Default)]
pub struct Neighbours {
    states: HashMap<IpAddr, State>,
    /// No request is due before; `None` when none will be.
    next_at: Option<u64>,
}

impl Neighbours {
    /// What is known of `address`; `ask` is called when it must be asked for now.
    pub fn look_up(&mut self, address: IpAddr, now_ns: u64, ask: &mut dyn FnMut(Ask)) -> Lookup {
        let everyone = Ask { address, mac: None };
        let asking = State::Asking {
            tries: 1,
            next_at: now_ns + RETRY_NS,
        };
        let (state, lookup) = match self.states.get(&address).copied() {
            Some(State::Known { mac, until }) if now_ns < until => return Lookup::Known(mac),
            Some(State::Doubted { mac, .. }) => return Lookup::Known(mac),
            Some(State::Asking { .. }) => return Lookup::Waiting,
            Some(State::Failed { until }) if now_ns < until => return Lookup::Failed,
            Some(State::Known { mac, .. }) => {
                ask(Ask {
                    address,
                    mac: Some(mac),
                });
                let next_at = now_ns + RETRY_NS;
                let doubted = State::Doubted {
                    mac,
                    tries: 1,
                    next_at,
                };
                (doubted, Lookup::Known(mac))
            }
            Some(State::Failed { .. }) | None => {
                ask(everyone);
                (asking, Lookup::Waiting)
            }
        };
        self.insert(address, state);
        self.due_at(now_ns + RETRY_NS);
        lookup
    }

    /// `address` has shown that it has `mac`. What was not asked for is only taken when `may_add`.
    pub fn heard(&mut self, address: IpAddr, mac: MacAddress, may_add: bool, now_ns: u64) {
        if may_add || self.states.contains_key(&address) {
            let until = now_ns + REACHABLE_NS;
            self.insert(address, State::Known { mac, until });
        }
    }

    /// The link address that is used for `address`, if any.
    pub fn mac(&self, address: IpAddr) -> Option<MacAddress> {
        match self.states.get(&address)? {
            State::Known { mac, .. } | State::Doubted { mac, .. } => Some(*mac),
            State::Asking { .. } | State::Failed { .. } => None,
        }
    }

    /// When [`Neighbours::poll`] has something to do.
    pub fn next_at(&self) -> Option<u64> {
        self.next_at
    }

    /// Repeats the requests that are due, and gives up those that were repeated often enough.
    pub fn poll(&mut self, now_ns: u64, ask: &mut dyn FnMut(Ask)) {
        if self.next_at.is_none_or(|at| now_ns < at) {
            return;
        }
        self.next_at = None;
        let mut next: Option<u64> = None;
        for (&address, state) in &mut self.states {
            let (tries, next_at, mac) = match state {
                State::Asking { tries, next_at } => (tries, next_at, None),
                State::Doubted {
                    mac,
                    tries,
                    next_at,
                } => (tries, next_at, Some(*mac)),
                State::Known { .. } | State::Failed { .. } => continue,
            };
            if now_ns >= *next_at {
                if *tries < TRIES {
                    *tries += 1;
                    *next_at = now_ns + RETRY_NS;
                    ask(Ask { address, mac });
                } else if mac.is_some() {
                    // It may have moved to another station: everyone is asked.
                    let next_at = now_ns + RETRY_NS;
                    *state = State::Asking { tries: 1, next_at };
                    ask(Ask { address, mac: None });
                } else {
                    let until = now_ns + FAILED_NS;
                    *state = State::Failed { until };
                    continue;
                }
            }
            if let State::Asking { next_at, .. } | State::Doubted { next_at, .. } = state {
                next = Some(next.map_or(*next_at, |n| n.min(*next_at)));
            }
        }
        self.next_at = next;
    }

    fn due_at(&mut self, at: u64) {
        self.next_at = Some(self.next_at.map_or(at, |n| n.min(at)));
    }

    fn insert(&mut self, address: IpAddr, state: State) {
        if self.states.len() >= NEIGHBOURS_MAX && !self.states.contains_key(&address) {
            // Any one may go: who is still needed is asked for again.
            if let Some(other) = self.states.keys().next().copied() {
                self.states.remove(&other);
            }
        }
        self.states.insert(address, state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const MAC: MacAddress = [2, 0, 0, 0, 0, 7];
    const SECOND: u64 = 1_000_000_000;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 9, 0, last).into()
    }

    /// A table with its requests written down.
    #[derive(Default)]
    struct Script {
        table: Neighbours,
        asked: Vec<Ask>,
    }

    impl Script {
        fn look_up(&mut self, at: u64) -> Lookup {
            self.table
                .look_up(address(1), at, &mut |ask| self.asked.push(ask))
        }

        fn poll(&mut self, at: u64) {
            self.table.poll(at, &mut |ask| self.asked.push(ask));
        }

        fn asked(&mut self) -> Vec<Option<MacAddress>> {
            self.asked.drain(..).map(|ask| ask.mac).collect()
        }
    }

    #[test]
    fn nobody_answers_three_requests_and_it_is_told_and_asked_anew_later() {
        let mut s = Script::default();
        assert_eq!(s.look_up(0), Lookup::Waiting);
        assert_eq!(s.look_up(1), Lookup::Waiting);
        assert_eq!(s.asked(), [None], "asked once, not with every packet");
        assert_eq!(s.table.next_at(), Some(SECOND));
        s.poll(SECOND - 1);
        assert_eq!(s.asked(), []);
        s.poll(SECOND);
        s.poll(2 * SECOND);
        assert_eq!(s.asked(), [None, None]);
        assert_eq!(s.look_up(3 * SECOND - 1), Lookup::Waiting);
        s.poll(3 * SECOND);
        assert_eq!(s.look_up(3 * SECOND), Lookup::Failed);
        assert_eq!((s.asked(), s.table.next_at()), (vec![], None));
        assert_eq!(s.look_up(6 * SECOND), Lookup::Waiting);
        assert_eq!(s.asked(), [None]);
    }

    #[test]
    fn a_known_one_is_asked_alone_after_a_while_and_then_everyone() {
        let mut s = Script::default();
        s.table.heard(address(1), MAC, true, 0);
        assert_eq!(s.look_up(29 * SECOND), Lookup::Known(MAC));
        assert_eq!(s.asked(), []);
        assert_eq!(s.look_up(30 * SECOND), Lookup::Known(MAC));
        s.poll(31 * SECOND);
        s.poll(32 * SECOND);
        assert_eq!(s.look_up(32 * SECOND), Lookup::Known(MAC));
        assert_eq!(s.asked(), [Some(MAC), Some(MAC), Some(MAC)]);
        s.poll(33 * SECOND);
        assert_eq!(s.look_up(33 * SECOND), Lookup::Waiting);
        assert_eq!(s.asked(), [None]);
        let moved = [2, 0, 0, 0, 0, 8];
        s.table.heard(address(1), moved, false, 33 * SECOND);
        assert_eq!(s.look_up(34 * SECOND), Lookup::Known(moved));
        s.poll(40 * SECOND);
        assert_eq!(s.asked(), []);
    }

    #[test]
    fn strangers_are_not_learned_and_a_flood_of_them_is_bounded() {
        let mut s = Script::default();
        s.table.heard(address(1), MAC, false, 0);
        assert_eq!(s.table.mac(address(1)), None);
        for number in 0..100_000 {
            let address = Ipv4Addr::from_bits(number).into();
            s.table.heard(address, MAC, true, 0);
        }
        assert_eq!(s.table.states.len(), NEIGHBOURS_MAX);
    }
}
