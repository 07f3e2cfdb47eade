//! The XDP program that takes what is ours and passes all else to the kernel, made as bytes and loaded by bpf(2).
//!
//! Ours is a packet for an address of our ranges, ARP that speaks of one, and a neighbour solicitation for one. No
//! compiler and no library: the program has no more than some dozens of instructions. It is attached by a link whose
//! descriptor holds it: when the process ends, however it ends, the interface is as it was.

use crate::address::AddressRange;
use crate::device::bpf::{self, *};
use crate::device::interface::owned;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Native in the driver, or in the kernel's generic path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    Native,
    Generic,
}

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const LINK_CREATE: libc::c_int = 28;

fn raw(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd() as u32
}

/// A map from the number of a queue to the socket that takes its packets.
pub fn create_map(queues: u32) -> io::Result<OwnedFd> {
    const XSKMAP: u32 = 17;
    let attributes = Attributes::new(&[(0, XSKMAP), (4, 4), (8, 4), (12, queues)], &[]);
    owned(attributes.call(MAP_CREATE)?)
}

/// Leads a queue's packets to a socket.
pub fn set_socket(map: &OwnedFd, queue: u32, socket: &OwnedFd) -> io::Result<()> {
    let value = raw(socket);
    let large = [(8, &raw const queue as u64), (16, &raw const value as u64)];
    Attributes::new(&[(0, raw(map))], &large).call(MAP_UPDATE)?;
    Ok(())
}

/// Loads the program; `in_pieces` for packets that lie in several buffers.
pub fn load(map: &OwnedFd, own: &[AddressRange], in_pieces: bool) -> io::Result<OwnedFd> {
    const XDP: u32 = 6;
    const HAS_FRAGS: u32 = 1 << 5;
    let flags = if in_pieces { HAS_FRAGS } else { 0 };
    bpf::load(XDP, flags, &assemble(raw(map), own))
}

/// Attaches the program; it is there until the link is closed.
pub fn attach(program: &OwnedFd, interface: u32, how: Attach) -> io::Result<OwnedFd> {
    const XDP: u32 = 37;
    let flags = match how {
        Attach::Generic => 1 << 1,
        Attach::Native => 1 << 2,
    };
    let small = [(0, raw(program)), (4, interface), (8, XDP), (12, flags)];
    owned(Attributes::new(&small, &[]).call(LINK_CREATE)?)
}

/// Registers: 2 the packet, 3 its end, 5 what is looked at, 6 the context.
fn assemble(map: u32, own: &[AddressRange]) -> Vec<u64> {
    const REDIRECT_MAP: u32 = 51;
    const PASS: u32 = 2;
    let mut code = Code::default();
    let [ours, pass, ipv4, arp, ranges, ipv6, destination] = [(); 7].map(|()| code.label());
    code.op(MOVE, 6, 1, 0, 0);
    code.op(LOAD_U32, 2, 1, 0, 0);
    code.op(LOAD_U32, 3, 1, 4, 0);
    code.needs(14, pass);
    code.op(LOAD_U16, 5, 2, 12, 0);
    code.op(TO_BIG_ENDIAN, 5, 0, 0, 16);
    code.jump(JUMP_EQUAL, 5, 0, 0x0800, ipv4);
    code.jump(JUMP_EQUAL, 5, 0, 0x0806, arp);
    code.jump(JUMP_EQUAL, 5, 0, 0x86dd, ipv6);
    code.jump(JUMP, 0, 0, 0, pass);

    code.here(arp);
    code.needs(42, pass);
    code.op(LOAD_U32, 5, 2, 38, 0);
    code.jump(JUMP, 0, 0, 0, ranges);
    code.here(ipv4);
    code.needs(34, pass);
    code.op(LOAD_U32, 5, 2, 30, 0);
    code.here(ranges);
    code.op(TO_BIG_ENDIAN, 5, 0, 0, 32);
    for range in own {
        if let (IpAddr::V4(first), IpAddr::V4(last)) = (range.first(), range.last()) {
            let next = code.label();
            code.jump(JUMP32_BELOW, 5, 0, first.to_bits(), next);
            code.jump(JUMP32_NOT_ABOVE, 5, 0, last.to_bits(), ours);
            code.here(next);
        }
    }
    code.jump(JUMP, 0, 0, 0, pass);

    code.here(ipv6);
    code.needs(54, pass);
    // A neighbour solicitation is for the address that it asks for, 24 bytes behind the destination.
    code.op(LOAD_U8, 5, 2, 20, 0);
    code.jump(JUMP_NOT_EQUAL, 5, 0, 58, destination);
    code.needs(78, destination);
    code.op(LOAD_U8, 5, 2, 54, 0);
    code.jump(JUMP_NOT_EQUAL, 5, 0, 135, destination);
    code.op(ADD_NUMBER, 2, 0, 0, 24);
    code.here(destination);
    code.op(LOAD_U64, 7, 2, 38, 0);
    code.op(TO_BIG_ENDIAN, 7, 0, 0, 64);
    code.op(LOAD_U64, 8, 2, 46, 0);
    code.op(TO_BIG_ENDIAN, 8, 0, 0, 64);
    for range in own {
        if let (IpAddr::V6(first), IpAddr::V6(last)) = (range.first(), range.last()) {
            let halves = |n: u128| ((n >> 64) as u64, n as u64);
            let (first, last) = (halves(first.to_bits()), halves(last.to_bits()));
            let (next, not_below) = (code.label(), code.label());
            code.load(9, 0, first.0);
            code.jump(JUMP_BELOW, 7, 9, 0, next);
            code.jump(JUMP_ABOVE, 7, 9, 0, not_below);
            code.load(9, 0, first.1);
            code.jump(JUMP_BELOW, 8, 9, 0, next);
            code.here(not_below);
            code.load(9, 0, last.0);
            code.jump(JUMP_BELOW, 7, 9, 0, ours);
            code.jump(JUMP_ABOVE, 7, 9, 0, next);
            code.load(9, 0, last.1);
            code.jump(JUMP_NOT_ABOVE, 8, 9, 0, ours);
            code.here(next);
        }
    }
    code.here(pass);
    code.op(MOVE_NUMBER, 0, 0, 0, PASS);
    code.op(EXIT, 0, 0, 0, 0);

    code.here(ours);
    code.load(1, 1, u64::from(map));
    code.op(LOAD_U32, 2, 6, 16, 0);
    // What goes to the kernel after all, when no socket takes the queue.
    code.op(MOVE_NUMBER, 3, 0, 0, PASS);
    code.op(CALL, 0, 0, 0, REDIRECT_MAP);
    code.op(EXIT, 0, 0, 0, 0);
    code.finish()
}
