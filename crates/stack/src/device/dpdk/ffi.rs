//! The functions of `shim.c`, and the structures that they share with it.

use std::ffi::{c_char, c_int};

/// A frame in DPDK's memory (`struct rte_mbuf`).
#[repr(C)]
pub struct Buffer {
    _opaque: [u8; 0],
}

/// Where buffers come from (`struct rte_mempool`).
#[repr(C)]
pub struct Pool {
    _opaque: [u8; 0],
}

/// What a port is and can do.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Info {
    pub driver: [u8; 32],
    pub mac: [u8; 6],
    pub mtu_bytes: u16,
    pub queues_max: u16,
    /// Buffers of one frame, 0 when the driver has no limit.
    pub segments_max: u16,
    /// What a frame may have of a buffer.
    pub room_bytes: u32,
    pub checksums: u8,
    pub cuts: u8,
    pub chains: u8,
    pub is_up: u8,
}

/// A part of a received frame.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Piece {
    pub bytes: *const u8,
    pub len: usize,
}

unsafe extern "C" {
    pub fn prony_dpdk_printed(into: *mut c_char, len: usize) -> usize;
    pub fn prony_dpdk_start(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub fn prony_dpdk_probe(device: *const c_char) -> c_int;
    pub fn prony_dpdk_look(port: u16, info: *mut Info) -> c_int;
    pub fn prony_dpdk_open(
        port: u16,
        queues: u16,
        entries: u16,
        wanted_room: u32,
        info: *mut Info,
        pools: *mut *mut Pool,
    ) -> c_int;
    pub fn prony_dpdk_close(port: u16, queues: u16, pools: *mut *mut Pool);
    pub fn prony_dpdk_lost(port: u16, inwards: *mut u64, outwards: *mut u64);
    pub fn prony_dpdk_enter() -> c_int;
    pub fn prony_dpdk_leave();
    pub fn prony_dpdk_receive(port: u16, queue: u16, into: *mut *mut Buffer, count: u16) -> u16;
    pub fn prony_dpdk_look_at(
        frame: *const Buffer,
        pieces: *mut Piece,
        max: u32,
        checksum: *mut u32,
    ) -> u32;
    pub fn prony_dpdk_free(frames: *mut *mut Buffer, count: u32);
    pub fn prony_dpdk_room(pool: *mut Pool, bytes: *mut *mut u8) -> *mut Buffer;
    pub fn prony_dpdk_chain(pool: *mut Pool, room: u32, bytes: *const u8, len: u32) -> *mut Buffer;
    pub fn prony_dpdk_set_len(frame: *mut Buffer, len: u32);
    pub fn prony_dpdk_offload(
        frame: *mut Buffer,
        is_ipv6: c_int,
        is_udp: c_int,
        l3_bytes: u16,
        l4_bytes: u16,
        segment: u16,
    );
    pub fn prony_dpdk_send(
        port: u16,
        queue: u16,
        frames: *mut *mut Buffer,
        count: u16,
        refused: *mut u16,
    ) -> u16;
}
