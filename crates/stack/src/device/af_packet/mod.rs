//! A packet socket: frames by a ring that is shared with the kernel in, by one system call for many out, where AF_XDP
//! is not to be had.
//!
//! Each frame stands behind a header that says what is left to do (PACKET_VNET_HDR), so that super-segments and
//! unfinished checksums go both ways: the interface, or the kernel before it, cuts and sums. The surprise: the kernel
//! sees every packet too. It does nothing with those that are for none of its addresses, unless it forwards; then it is
//! refused. A ring to send by was not taken: a veth pair hands its memory to the receiver, who may read it after the
//! kernel has called it free.

mod filter;

use super::interface::{
    Interface, checked, owned, refuse_host_addresses, refuse_small, wait_readable,
};
use super::mapping::Mapping;
use super::queues::Owners;
use super::{Capabilities, Device, DeviceCounters, option, vnet};
use crate::address::AddressRange;
use crate::error::Error;
use crate::frame::{Frame, TxMeta};
use crate::wire::ethernet;
use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Largest IP packet and its link header.
const FRAME_BYTES: usize = ethernet::HEADER_BYTES + 65_535;
/// A slot of the ring: its header, and the largest frame.
const SLOT_BYTES: usize = 69_632;
/// Slots lie in blocks of so many bytes.
const BLOCK_BYTES: usize = 1 << 20;
const SLOTS_A_BLOCK: usize = BLOCK_BYTES / SLOT_BYTES;
const BLOCKS: usize = 64;
const SLOTS: usize = BLOCKS * SLOTS_A_BLOCK;
/// Frames that are gathered for one call.
const BATCH: usize = 64;
/// What may lie in the socket before it leaves the interface.
const SEND_BUFFER_BYTES: libc::c_int = 16 << 20;

/// Which interface, and what of it is ours.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name.
    pub interface: String,
    /// Our addresses; packets for them are taken.
    pub own: Vec<AddressRange>,
    /// Super-segments and unfinished checksums, both ways. Without, each frame that is sent is a packet as on a wire.
    pub is_offloaded: bool,
}

/// A packet socket with its ring.
#[derive(Debug)]
pub struct AfPacket {
    socket: OwnedFd,
    ring: Mapping,
    /// The slot that is filled next.
    slot: usize,
    capabilities: Capabilities,
    counters: DeviceCounters,
    /// The kernel forgets its count when it is asked.
    dropped: Cell<u64>,
    /// Frames to be sent, each behind its header, and their ends.
    gathered: Vec<u8>,
    ends: Vec<usize>,
    /// Of them, how many have been sent.
    sent: usize,
}

fn unsupported(interface: &str, cause: &str, remedy: &str) -> Error {
    Error::Unsupported {
        device: "af_packet",
        interface: interface.to_owned(),
        cause: cause.to_owned(),
        remedy: remedy.to_owned(),
    }
}

impl AfPacket {
    /// Opens a socket that takes what is for our addresses.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::HostAddress`], [`Error::NotPermitted`], [`Error::Unsupported`] with what is
    /// missing, [`Error::Device`].
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let mut devices = Self::open_queues(settings, 1, &Owners::Peers)?;
        devices
            .pop()
            .ok_or_else(|| unsupported(&settings.interface, "there is no socket", "ask for one"))
    }

    /// As [`AfPacket::open`], with a socket for each of `count` threads; a packet is given to the one that owns its
    /// local port, where the kernel can say so.
    ///
    /// # Errors
    /// As [`AfPacket::open`].
    pub fn open_queues(
        settings: &Settings,
        count: usize,
        owners: &Owners,
    ) -> Result<Vec<Self>, Error> {
        let name = &settings.interface;
        let interface = Interface::named(name)?;
        let failed = |doing| move |cause| Error::device(doing, name, cause);
        let mtu = interface
            .mtu_bytes()
            .map_err(failed("reading the MTU of"))?;
        refuse_host_addresses(&settings.own)?;
        refuse_small("af_packet", name, mtu, &settings.own)?;
        refuse_forwarding(name, &settings.own)?;
        if !interface.is_up().map_err(failed("reading the state of"))? {
            let remedy = format!("switch it on: `ip link set {name} up`");
            return Err(unsupported(name, "it is down", &remedy));
        }
        let mtu_bytes = u16::try_from(mtu).unwrap_or(u16::MAX);
        let capabilities = Capabilities {
            name: if settings.is_offloaded {
                "af_packet (segments)"
            } else {
                "af_packet"
            }
            .to_owned(),
            mac: interface.mac().map_err(failed("reading the address of"))?,
            mtu_bytes,
            frame_max_bytes: if settings.is_offloaded {
                FRAME_BYTES as u32
            } else {
                u32::from(mtu_bytes) + ethernet::HEADER_BYTES as u32
            },
            segments: settings.is_offloaded,
            checksums: settings.is_offloaded,
        };
        let index = interface.index().map_err(failed("reading the number of"))?;
        let filter = filter::ours(&settings.own);
        let open = |_| Self::open_one(name, index, &filter, capabilities.clone());
        let devices: Vec<Self> = (0..count).map(open).collect::<Result<_, _>>()?;
        if count > 1 {
            share(&devices, owners).map_err(failed("sharing out packets of"))?;
        }
        Ok(devices)
    }

    fn open_one(
        name: &str,
        index: u32,
        filter: &[libc::sock_filter],
        capabilities: Capabilities,
    ) -> Result<Self, Error> {
        let failed = |doing| move |cause| Error::device(doing, name, cause);
        // Protocol 0: nothing is taken before it is bound, with its filter.
        // SAFETY: the call takes integers only.
        let socket =
            owned(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })
                .map_err(|cause| {
                    Error::privileged("opening a packet socket for", name, "CAP_NET_RAW", cause)
                })?;
        let yes: libc::c_int = 1;
        let options = failed("setting up a packet socket for");
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        option::set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version).map_err(options)?;
        option::set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &yes).map_err(options)?;
        option::set(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            &yes,
        )
        .map_err(options)?;
        option::set(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &yes).map_err(options)?;
        // More than a socket may have is refused, and less serves too.
        let bytes = SEND_BUFFER_BYTES;
        let _ = option::set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes);
        if !filter.is_empty() {
            attach(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, filter).map_err(options)?;
        }
        let ring = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: SLOT_BYTES as u32,
            tp_frame_nr: SLOTS as u32,
        };
        option::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &ring).map_err(|cause| {
            match cause.raw_os_error() {
                Some(libc::ENOMEM) => unsupported(
                    name,
                    &format!("the kernel has no {BLOCKS} MiB for its ring"),
                    "free memory, or use fewer threads",
                ),
                _ => Error::device("making the ring of", name, cause),
            }
        })?;
        let ring = Mapping::new(Some(&socket), BLOCKS * BLOCK_BYTES, 0)
            .map_err(failed("mapping the ring of"))?;
        // SAFETY: all of it are integers, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as libc::c_int;
        // SAFETY: the address lives through the call and has the size that is said.
        checked(unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        })
        .map_err(failed("binding a packet socket to"))?;
        // Neighbour solicitations come to groups that the interface has not joined.
        let all = libc::packet_mreq {
            mr_ifindex: index as libc::c_int,
            mr_type: libc::PACKET_MR_ALLMULTI as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        option::set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &all)
            .map_err(options)?;
        Ok(Self {
            socket,
            ring,
            slot: 0,
            capabilities,
            counters: DeviceCounters::default(),
            dropped: Cell::new(0),
            gathered: Vec::new(),
            ends: Vec::with_capacity(BATCH),
            sent: 0,
        })
    }

    /// Where a slot begins.
    fn slot_at(slot: usize) -> usize {
        slot / SLOTS_A_BLOCK * BLOCK_BYTES + slot % SLOTS_A_BLOCK * SLOT_BYTES
    }

    /// Whose a slot is: the first word of its header.
    fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: a slot is within the mapping and begins on a boundary of 16 bytes; both sides touch its first word
        // as a whole.
        unsafe {
            &*self
                .ring
                .start()
                .add(Self::slot_at(slot))
                .cast::<AtomicU32>()
        }
    }

    fn send_gathered(&mut self) -> io::Result<()> {
        while self.sent < self.ends.len() {
            let begin = |n: usize| n.checked_sub(1).map_or(0, |n| self.ends[n]);
            let mut pieces: Vec<libc::iovec> = (self.sent..self.ends.len())
                .map(|n| libc::iovec {
                    iov_base: self.gathered[begin(n)..].as_ptr().cast_mut().cast(),
                    iov_len: self.ends[n] - begin(n),
                })
                .collect();
            let mut messages: Vec<libc::mmsghdr> = pieces
                .iter_mut()
                .map(|piece| {
                    // SAFETY: all of it are integers and pointers, for which zero is a value.
                    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                    message.msg_hdr.msg_iov = piece;
                    message.msg_hdr.msg_iovlen = 1;
                    message
                })
                .collect();
            self.counters.syscalls += 1;
            // SAFETY: messages, pieces and the bytes that they point to live through the call, which only reads them.
            let done = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    messages.as_mut_ptr(),
                    messages.len() as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                )
            };
            match checked(done) {
                Ok(done) => {
                    for n in self.sent..self.sent + done as usize {
                        let begin = n.checked_sub(1).map_or(0, |n| self.ends[n]);
                        self.counters.tx_frames += 1;
                        self.counters.tx_bytes += (self.ends[n] - begin - vnet::BYTES) as u64;
                    }
                    self.sent += done as usize;
                }
                Err(cause) => match cause.raw_os_error() {
                    // The socket is full, what waits keeps waiting.
                    Some(libc::EAGAIN) => {
                        self.counters.tx_full += 1;
                        return Ok(());
                    }
                    // The interface's queue is full, or it cannot take this one: lost as on a wire.
                    Some(libc::ENOBUFS | libc::EINVAL | libc::EMSGSIZE | libc::ENOMEM) => {
                        self.counters.tx_dropped += 1;
                        self.sent += 1;
                    }
                    Some(libc::EINTR) => {}
                    _ => return Err(cause),
                },
            }
        }
        self.gathered.clear();
        self.ends.clear();
        self.sent = 0;
        Ok(())
    }
}

/// A host that forwards would send our packets on, ask for us by ARP and tell the peer that we are unreachable.
fn refuse_forwarding(interface: &str, own: &[AddressRange]) -> Result<(), Error> {
    for (version, is_ipv4) in [("ipv4", true), ("ipv6", false)] {
        let path = format!("/proc/sys/net/{version}/conf/{interface}/forwarding");
        let forwards = std::fs::read_to_string(path).is_ok_and(|text| text.trim() != "0");
        if forwards && own.iter().any(|range| range.first().is_ipv4() == is_ipv4) {
            return Err(unsupported(
                interface,
                "this host forwards packets, and would forward those for our addresses",
                &format!(
                    "use --transport af_xdp, which takes them before, or switch it off: \
                     `sysctl -w net.{version}.conf.{interface}.forwarding=0`"
                ),
            ));
        }
    }
    Ok(())
}

/// Gives a socket a program, which the kernel copies.
fn attach(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    code: &[libc::sock_filter],
) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: code.len() as libc::c_ushort,
        filter: code.as_ptr().cast_mut(),
    };
    option::set(socket, level, name, &program)
}

/// Makes the sockets a group of which each packet goes to one.
fn share(devices: &[AfPacket], owners: &Owners) -> io::Result<()> {
    let by_program = filter::owner(owners);
    let kind = if by_program.is_empty() {
        libc::PACKET_FANOUT_HASH
    } else {
        libc::PACKET_FANOUT_CBPF
    };
    let mut group = 0u32;
    for (number, device) in devices.iter().enumerate() {
        // The first makes a group with a number that nobody has, the others join it.
        let unique = libc::PACKET_FANOUT_FLAG_UNIQUEID;
        let flags = if number == 0 { kind | unique } else { kind };
        option::set(
            &device.socket,
            libc::SOL_PACKET,
            libc::PACKET_FANOUT,
            &(group | flags << 16),
        )?;
        if number == 0 {
            group =
                option::get::<u32>(&device.socket, libc::SOL_PACKET, libc::PACKET_FANOUT)? & 0xffff;
            if !by_program.is_empty() {
                let data = libc::PACKET_FANOUT_DATA;
                attach(&device.socket, libc::SOL_PACKET, data, &by_program)?;
            }
        }
    }
    Ok(())
}

impl Device for AfPacket {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        let mut done = 0;
        while done < budget {
            let status = self.status(self.slot).load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                break;
            }
            let at = Self::slot_at(self.slot);
            let header = self.ring.bytes(at, size_of::<libc::tpacket2_hdr>());
            let word = |at: usize| {
                header[at..]
                    .first_chunk()
                    .map_or(0, |b| u32::from_ne_bytes(*b))
            };
            let half = |at: usize| {
                header[at..]
                    .first_chunk()
                    .map_or(0, |b| u16::from_ne_bytes(*b))
            };
            let (len, kept) = (word(4) as usize, word(8) as usize);
            let frame_at = at + usize::from(half(12));
            let before = self.ring.bytes(frame_at - vnet::BYTES, vnet::BYTES);
            let head = self.ring.bytes(frame_at, kept);
            let is_tagged = status & libc::TP_STATUS_VLAN_VALID != 0;
            match before.first_chunk::<{ vnet::BYTES }>() {
                Some(before) if kept == len && !is_tagged && !head.is_empty() => {
                    self.counters.rx_frames += 1;
                    self.counters.rx_bytes += len as u64;
                    let meta = vnet::read(before);
                    let rest = &[];
                    sink(Frame { head, rest, meta });
                    done += 1;
                }
                // Cut off, or of another network.
                _ => self.counters.rx_dropped += u64::from(!is_tagged),
            }
            let free = libc::TP_STATUS_KERNEL;
            self.status(self.slot).store(free, Ordering::Release);
            self.slot = (self.slot + 1) % SLOTS;
        }
        Ok(done)
    }

    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        if self.ends.len() >= BATCH {
            self.send_gathered()?;
            if !self.ends.is_empty() {
                return Ok(false);
            }
        }
        let begin = self.ends.last().copied().unwrap_or(0);
        let at = begin + vnet::BYTES;
        let len_max = len_max.min(FRAME_BYTES);
        if self.gathered.len() < at + len_max {
            self.gathered.resize(at + len_max, 0);
        }
        if let Some((len, meta)) = fill(&mut self.gathered[at..at + len_max]) {
            self.gathered[begin..at].copy_from_slice(&vnet::write(&meta));
            self.ends.push(at + len);
        }
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_gathered()
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        self.counters.syscalls += 1;
        wait_readable(&self.socket, timeout_ns)
    }

    fn counters(&self) -> DeviceCounters {
        // Packets, then those of them for which the ring was full.
        let statistics: [u32; 2] =
            option::get(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)
                .unwrap_or_default();
        self.dropped
            .set(self.dropped.get() + u64::from(statistics[1]));
        DeviceCounters {
            rx_dropped: self.counters.rx_dropped + self.dropped.get(),
            ..self.counters
        }
    }

    fn descriptors(&self, add: &mut dyn FnMut(RawFd)) {
        add(self.socket.as_raw_fd());
    }
}
