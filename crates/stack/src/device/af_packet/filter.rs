//! Programs of classic BPF, which a socket takes without a privilege: which frames are ours, and for whose queue.

use super::super::queues::Owners;
use crate::address::AddressRange;
use std::net::IpAddr;

/// Instructions that a socket takes (BPF_MAXINSNS).
const LEN_MAX: usize = 4_096;

// Operations and addressing of linux/filter.h and bpf_common.h.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_INDEXED: u16 = 0x48;
const INDEX_IP_HEADER: u16 = 0xb1;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_ABOVE: u16 = 0x25;
const JUMP_NOT_BELOW: u16 = 0x35;
const RETURN: u16 = 0x06;
/// Loads count from the IP header (SKF_NET_OFF).
const NETWORK: u32 = 0xfff0_0000;
/// The type of the frame (SKF_AD_OFF + SKF_AD_PROTOCOL).
const PROTOCOL: u32 = 0xffff_f000;

#[derive(Default)]
struct Code(Vec<libc::sock_filter>);

impl Code {
    fn op(&mut self, code: u16, k: u32) {
        self.jump(code, k, 0, 0);
    }

    /// Skips so many instructions when it holds, or does not.
    fn jump(&mut self, code: u16, k: u32, jt: u8, jf: u8) {
        self.0.push(libc::sock_filter { code, jt, jf, k });
    }

    /// A jump whose distance is known when [`Code::lands`] is called.
    fn leap(&mut self) -> usize {
        self.op(JUMP, 0);
        self.0.len() - 1
    }

    fn lands(&mut self, leap: usize) {
        self.0[leap].k = (self.0.len() - leap - 1) as u32;
    }

    /// Jumps to where the returned leap will land unless the type of the frame is `ether_type`.
    fn unless_type(&mut self, ether_type: u32) -> usize {
        self.op(LOAD_HALF, PROTOCOL);
        self.jump(JUMP_EQUAL, ether_type, 1, 0);
        self.leap()
    }

    /// Accepts when the words at these places are in a range of the same length.
    fn accept_between(&mut self, at: &[u32], first: &[u32], last: &[u32]) {
        let mut past = Vec::new();
        for (bound, is_first) in [(first, true), (last, false)] {
            // Word by word: the first that differs decides.
            let mut decided = Vec::new();
            for (at, bound) in at.iter().zip(bound) {
                self.op(LOAD_WORD, *at);
                self.jump(JUMP_EQUAL, *bound, 3, 0);
                // Above the first is good, above the last is not.
                self.jump(JUMP_ABOVE, *bound, 0, 1);
                if is_first {
                    decided.push(self.leap());
                    past.push(self.leap());
                } else {
                    past.push(self.leap());
                    decided.push(self.leap());
                }
                // `JUMP_EQUAL` lands here, by one more than the two leaps.
            }
            for leap in decided {
                self.lands(leap);
            }
        }
        self.op(RETURN, u32::MAX);
        for leap in past {
            self.lands(leap);
        }
    }
}

fn words(ip: IpAddr) -> Vec<u32> {
    match ip {
        IpAddr::V4(ip) => vec![ip.to_bits()],
        IpAddr::V6(ip) => [96, 64, 32, 0]
            .map(|shift| (ip.to_bits() >> shift) as u32)
            .to_vec(),
    }
}

/// Takes packets for our addresses, ARP that speaks of one, and neighbour solicitations for one; nothing at all, when
/// that would be too long a program: then the link looks at everything.
pub fn ours(own: &[AddressRange]) -> Vec<libc::sock_filter> {
    let mut code = Code::default();
    let of = |is_ipv4: bool| {
        own.iter()
            .filter(move |range| range.first().is_ipv4() == is_ipv4)
    };
    for (ether_type, at) in [(0x0800, 16), (0x0806, 24)] {
        let other = code.unless_type(ether_type);
        for range in of(true) {
            let (first, last) = (words(range.first()), words(range.last()));
            code.accept_between(&[NETWORK + at], &first, &last);
        }
        code.op(RETURN, 0);
        code.lands(other);
    }
    let other = code.unless_type(0x86dd);
    let mut all = |at: u32| {
        for range in of(false) {
            let (first, last) = (words(range.first()), words(range.last()));
            let places = [0, 4, 8, 12].map(|word| NETWORK + at + word);
            code.accept_between(&places, &first, &last);
        }
    };
    all(24);
    // A solicitation is sent to many; whom it asks for stands behind.
    all(48);
    code.lands(other);
    code.op(RETURN, 0);
    if code.0.len() > LEN_MAX {
        code.0.clear();
    }
    code.0
}

/// The number of the queue that owns a packet, as far as that can be said without state; the rest goes to the first.
pub fn owner(owners: &Owners) -> Vec<libc::sock_filter> {
    let mut code = Code::default();
    let Owners::LocalPorts(ranges) = owners else {
        return Vec::new();
    };
    let by_port = |code: &mut Code| {
        for ((low, high), number) in ranges.iter().zip(0..) {
            code.jump(JUMP_NOT_BELOW, u32::from(*low), 0, 2);
            code.jump(JUMP_ABOVE, u32::from(*high), 1, 0);
            code.op(RETURN, number);
        }
        code.op(RETURN, 0);
    };
    let other = code.unless_type(0x0800);
    code.op(LOAD_BYTE, NETWORK + 9);
    code.jump(JUMP_EQUAL, 6, 2, 0);
    code.jump(JUMP_EQUAL, 17, 1, 0);
    code.op(RETURN, 0);
    code.op(INDEX_IP_HEADER, NETWORK);
    code.op(LOAD_HALF_INDEXED, NETWORK + 2);
    by_port(&mut code);
    code.lands(other);
    let other = code.unless_type(0x86dd);
    code.op(LOAD_BYTE, NETWORK + 6);
    code.jump(JUMP_EQUAL, 6, 2, 0);
    code.jump(JUMP_EQUAL, 17, 1, 0);
    code.op(RETURN, 0);
    code.op(LOAD_HALF, NETWORK + 42);
    by_port(&mut code);
    code.lands(other);
    code.op(RETURN, 0);
    code.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program over a packet (without link header) of a type, as the kernel does.
    fn run(code: &[libc::sock_filter], ether_type: u32, packet: &[u8]) -> u32 {
        let (mut a, mut x, mut at) = (0u32, 0u32, 0);
        loop {
            let it = code[at];
            at += 1;
            let load = |k: u32, len: usize| {
                let from = k.wrapping_sub(NETWORK) as usize;
                let bytes = packet.get(from..from + len)?;
                Some(bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
            };
            let loaded = match it.code {
                LOAD_HALF if it.k == PROTOCOL => Some(ether_type),
                LOAD_WORD => load(it.k, 4),
                LOAD_HALF => load(it.k, 2),
                LOAD_BYTE => load(it.k, 1),
                LOAD_HALF_INDEXED => load(it.k.wrapping_add(x), 2),
                INDEX_IP_HEADER => {
                    x = load(it.k, 1).map_or(0, |byte| (byte & 15) * 4);
                    continue;
                }
                JUMP => {
                    at += it.k as usize;
                    continue;
                }
                RETURN => return it.k,
                compare => {
                    let holds = match compare {
                        JUMP_EQUAL => a == it.k,
                        JUMP_ABOVE => a > it.k,
                        JUMP_NOT_BELOW => a >= it.k,
                        other => panic!("no operation {other:#x}"),
                    };
                    at += usize::from(if holds { it.jt } else { it.jf });
                    continue;
                }
            };
            match loaded {
                Some(value) => a = value,
                None => return 0,
            }
        }
    }

    fn v4(to: [u8; 4], protocol: u8, port: u16) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x46;
        packet[9] = protocol;
        packet[16..20].copy_from_slice(&to);
        packet[26..28].copy_from_slice(&port.to_be_bytes());
        packet
    }

    fn v6(to: &str, asked: &str) -> Vec<u8> {
        let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().expect("v6").octets();
        let mut packet = vec![0; 72];
        packet[6] = 6;
        packet[24..40].copy_from_slice(&octets(to));
        packet[42..44].copy_from_slice(&20_000u16.to_be_bytes());
        packet[48..64].copy_from_slice(&octets(asked));
        packet
    }

    #[test]
    fn only_packets_for_our_addresses_are_taken() {
        let own = ["10.9.0.5-10.9.1.2", "10.8.0.1", "fd00::5-fd00:0:0:1::3"];
        let own: Vec<AddressRange> = own
            .iter()
            .map(|text| text.parse().expect("range"))
            .collect();
        let code = ours(&own);
        let taken = |kind, packet: &[u8]| run(&code, kind, packet) > 0;
        for (to, is_ours) in [
            ([10, 9, 0, 4], false),
            ([10, 9, 0, 5], true),
            ([10, 9, 0, 255], true),
            ([10, 9, 1, 2], true),
            ([10, 9, 1, 3], false),
            ([10, 8, 0, 1], true),
            ([250, 8, 0, 1], false),
        ] {
            assert_eq!(taken(0x0800, &v4(to, 6, 1)), is_ours, "{to:?}");
            let mut arp = vec![0; 28];
            arp[24..].copy_from_slice(&to);
            assert_eq!(taken(0x0806, &arp), is_ours, "{to:?}");
        }
        let other = "ff02::1";
        for (to, is_ours) in [
            ("fd00::4", false),
            ("fd00::5", true),
            ("fd00::1:0:0:1", true),
            ("fd00:0:0:1::3", true),
            ("fd00:0:0:1::4", false),
            ("fd00:0:1::", false),
            ("fe00::6", false),
        ] {
            assert_eq!(taken(0x86dd, &v6(to, other)), is_ours, "{to}");
            assert_eq!(taken(0x86dd, &v6(other, to)), is_ours, "asks for {to}");
        }
        assert!(!taken(0x88cc, &v4([10, 9, 0, 5], 6, 1)), "LLDP");
        assert!(!taken(0x0800, &[0x45; 8]), "short");
        let many = vec![own[2]; 100];
        assert_eq!(ours(&many).len(), 0, "too long: everything is taken");
    }

    #[test]
    fn a_packet_is_given_to_the_owner_of_its_port() {
        let ranges = vec![(10_000, 19_999), (20_000, 29_999), (30_000, 39_999)];
        let code = owner(&Owners::LocalPorts(ranges));
        for (port, queue) in [
            (9_999, 0),
            (10_000, 0),
            (20_000, 1),
            (39_999, 2),
            (40_000, 0),
        ] {
            assert_eq!(run(&code, 0x0800, &v4([1; 4], 6, port)), queue, "{port}");
            assert_eq!(run(&code, 0x0800, &v4([1; 4], 17, port)), queue, "{port}");
            assert_eq!(run(&code, 0x0800, &v4([1; 4], 1, port)), 0, "ICMP");
        }
        assert_eq!(run(&code, 0x86dd, &v6("::1", "::1")), 1);
        assert_eq!(run(&code, 0x0806, &[0; 28]), 0);
    }
}
