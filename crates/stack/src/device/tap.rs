//! A TAP interface with `vnet_hdr`: the kernel on this host is the peer, segmentation and checksums are left undone
//! both ways (`Documentation/networking/tuntap.rst`, virtio 1.2 5.1.6).
//!
//! One system call a frame; a frame is up to 64 KiB of payload. The surprise: an interface that does not exist would be
//! made by the kernel without a word, so whoever opens one asks first.

use super::{Capabilities, Device, DeviceCounters};
use crate::frame::{Checksum, Frame, RxMeta, TxMeta};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

const HEADER_BYTES: usize = 10;
const FRAME_BYTES: usize = 65_550;
const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const IFF_TAP: i16 = 0x0002;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const TUN_F_CSUM: libc::c_ulong = 1;
const TUN_F_TSO4: libc::c_ulong = 2;
const TUN_F_TSO6: libc::c_ulong = 4;

/// The device.
pub struct Tap {
    file: File,
    capabilities: Capabilities,
    counters: DeviceCounters,
    rx: Box<[u8]>,
    tx: Box<[u8]>,
}

impl Tap {
    /// Attaches to an interface.
    ///
    /// # Errors
    /// The system's.
    pub fn open(interface: &str, mac: [u8; 6], mtu_bytes: u16) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        // SAFETY: all bytes zero is a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(15)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
        // SAFETY: the kernel reads and writes one `ifreq`, which lives through the call.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &mut request) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the argument is a number.
        let done = unsafe {
            libc::ioctl(
                file.as_raw_fd(),
                TUNSETOFFLOAD,
                TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6,
            )
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Tap {
            file,
            capabilities: Capabilities {
                name: "tap".to_owned(),
                mac,
                mtu_bytes,
                frame_max_bytes: 65_535,
                segments: true,
                checksums: true,
            },
            counters: DeviceCounters::default(),
            rx: vec![0; HEADER_BYTES + FRAME_BYTES].into_boxed_slice(),
            tx: vec![0; HEADER_BYTES + FRAME_BYTES].into_boxed_slice(),
        })
    }
}

impl Device for Tap {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        for done in 0..budget {
            self.counters.syscalls += 1;
            let len = match self.file.read(&mut self.rx) {
                Ok(len) if len > HEADER_BYTES => len,
                Ok(_) => return Ok(done),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(done),
                Err(e) => return Err(e),
            };
            let (header, frame) = self.rx[..len].split_at(HEADER_BYTES);
            let checksum = match header[0] {
                flags if flags & NEEDS_CSUM != 0 => Checksum::Partial,
                flags if flags & DATA_VALID != 0 => Checksum::Valid,
                _ => Checksum::Unknown,
            };
            let segment_bytes = if header[1] == 0 {
                0
            } else {
                u16::from_ne_bytes([header[4], header[5]])
            };
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += frame.len() as u64;
            sink(Frame {
                head: frame,
                rest: &[],
                meta: RxMeta {
                    checksum,
                    segment_bytes,
                    at_ns: 0,
                },
            });
        }
        Ok(budget)
    }

    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        let (header, frame) = self.tx.split_at_mut(HEADER_BYTES);
        let Some((len, meta)) = fill(&mut frame[..len_max]) else {
            return Ok(true);
        };
        header.fill(0);
        if let Some(partial) = meta.checksum {
            header[0] = NEEDS_CSUM;
            header[6..8].copy_from_slice(&partial.start.to_ne_bytes());
            header[8..10].copy_from_slice(&partial.offset.to_ne_bytes());
        }
        if meta.segment_bytes > 0 {
            header[1] = if meta.is_ipv6 { GSO_TCPV6 } else { GSO_TCPV4 };
            header[2..4].copy_from_slice(&meta.header_bytes.to_ne_bytes());
            header[4..6].copy_from_slice(&meta.segment_bytes.to_ne_bytes());
        }
        self.counters.syscalls += 1;
        match self.file.write(&self.tx[..HEADER_BYTES + len]) {
            Ok(_) => {
                self.counters.tx_frames += 1;
                self.counters.tx_bytes += len as u64;
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.counters.tx_full += 1;
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        self.counters.syscalls += 1;
        let mut fd = libc::pollfd {
            fd: self.file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let time = libc::timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as i64,
            tv_nsec: (timeout_ns % 1_000_000_000) as i64,
        };
        // SAFETY: one descriptor and one time, both of which live through the call; no signal mask.
        let done = unsafe { libc::ppoll(&mut fd, 1, &time, std::ptr::null()) };
        match done {
            -1 => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => Ok(()),
                e => Err(e),
            },
            _ => Ok(()),
        }
    }

    fn counters(&self) -> DeviceCounters {
        self.counters
    }
}
