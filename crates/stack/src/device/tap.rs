//! A TAP interface: the other end of its wire is this host's kernel.
//!
//! With `vnet_hdr` a frame carries what is left to do, both ways: one system call moves up to 64 KiB of payload with
//! one TCP header, and checksums are never made. That is the fastest way to a server on the same host. The interface
//! is made by opening it and goes with the process, or belongs to somebody who made it persistent; then it stays.

use super::interface::{Interface, checked, request, wait_readable};
use super::{Capabilities, Device, DeviceCounters, vnet};
use crate::error::Error;
use crate::frame::{Frame, TxMeta};
use crate::wire::ethernet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;

const DEVICE: &str = "/dev/net/tun";

/// The largest IP packet and its link header.
const FRAME_BYTES: usize = ethernet::HEADER_BYTES + 65_535;

/// Which interface, and how it is set when it is opened.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name; it is made when it is not there.
    pub name: String,
    /// MTU to set, or the one that it has.
    pub mtu_bytes: Option<u32>,
    /// Super-segments and unfinished checksums, both ways. Without, each frame is a packet as on a wire.
    pub is_offloaded: bool,
}

/// A TAP interface.
#[derive(Debug)]
pub struct Tap {
    file: File,
    capabilities: Capabilities,
    counters: DeviceCounters,
    received: Box<[u8]>,
    /// Room for the frame that is being written.
    room: Box<[u8]>,
}

impl Tap {
    /// Makes the interface or attaches to it, and switches it on.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], [`Error::Busy`], [`Error::Unsupported`] without the driver or for another kind of
    /// interface, [`Error::Device`].
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let file = match queue(&settings.name, 0) {
            // It was made for several queues, of which one is enough.
            Err(cause @ Error::Unsupported { .. }) => {
                queue(&settings.name, libc::IFF_MULTI_QUEUE).map_err(|_| cause)?
            }
            other => other?,
        };
        Self::set_up(file, settings)
    }

    /// As [`Tap::open`], with several queues. Packets come back on the queue by which their flow's last one went, as
    /// long as the kernel remembers that; [`super::queues`] takes care of the others.
    ///
    /// # Errors
    /// As [`Tap::open`]; [`Error::Unsupported`] too when the interface was made for one queue.
    pub fn open_queues(settings: &Settings, count: usize) -> Result<Vec<Self>, Error> {
        if count == 1 {
            return Ok(vec![Self::open(settings)?]);
        }
        let open = |_| Self::set_up(queue(&settings.name, libc::IFF_MULTI_QUEUE)?, settings);
        (0..count).map(open).collect()
    }

    fn set_up(file: File, settings: &Settings) -> Result<Self, Error> {
        let name = &settings.name;
        let failed = |doing| move |cause| Error::device(doing, name, cause);
        set_headers(&file).map_err(failed("setting the header of"))?;
        let offloads = if settings.is_offloaded {
            libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN
        } else {
            0
        };
        // SAFETY: the call takes integers only.
        checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) })
            .map_err(failed("setting the offloads of"))?;
        let interface = Interface::named(name)?;
        if let Some(bytes) = settings.mtu_bytes {
            interface
                .set_mtu(bytes)
                .map_err(failed("setting the MTU of"))?;
        }
        // One that is up already may be used by whoever it belongs to.
        if !matches!(interface.is_up(), Ok(true)) {
            let refused = |e| Error::privileged("switching on", name, "CAP_NET_ADMIN", e);
            interface.set_up().map_err(refused)?;
        }
        let mtu = interface
            .mtu_bytes()
            .map_err(failed("reading the MTU of"))?;
        let kernels = interface.mac().map_err(failed("reading the address of"))?;
        let mtu_bytes = u16::try_from(mtu).unwrap_or(u16::MAX);
        let capabilities = Capabilities {
            name: if settings.is_offloaded {
                "tap (segments)"
            } else {
                "tap"
            }
            .to_owned(),
            mac: other_end(kernels),
            mtu_bytes,
            frame_max_bytes: if settings.is_offloaded {
                FRAME_BYTES as u32
            } else {
                u32::from(mtu_bytes) + ethernet::HEADER_BYTES as u32
            },
            segments: settings.is_offloaded,
            checksums: settings.is_offloaded,
        };
        let room = || vec![0; vnet::BYTES + FRAME_BYTES].into_boxed_slice();
        Ok(Self {
            file,
            capabilities,
            counters: DeviceCounters::default(),
            received: room(),
            room: room(),
        })
    }
}

/// A link address that differs from the kernel's on the same wire, and is the same each time.
fn other_end(mut kernels: ethernet::MacAddress) -> ethernet::MacAddress {
    kernels[0] = (kernels[0] | 2) & !1;
    kernels[5] ^= 1;
    kernels
}

/// A queue of the interface, with `more` flags than one alone needs.
fn queue(name: &str, more: libc::c_int) -> Result<File, Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(DEVICE)
        .map_err(|e| not_opened(name, e))?;
    attach(&file, name, more).map_err(|e| not_attached(name, e, more != 0))?;
    Ok(file)
}

fn attach(file: &File, name: &str, more: libc::c_int) -> io::Result<()> {
    let mut request = request(name).ok_or(io::ErrorKind::InvalidInput)?;
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | more;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the request is an `ifreq`, which outlives the call.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) })?;
    Ok(())
}

fn set_headers(file: &File) -> io::Result<()> {
    let len = vnet::BYTES as libc::c_int;
    // SAFETY: the request reads an int, which outlives the call.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &len) })?;
    let little_endian: libc::c_int = 1;
    // SAFETY: as above.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETLE, &little_endian) })?;
    Ok(())
}

fn not_opened(name: &str, cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::NotFound => Error::Unsupported {
            device: "tap",
            interface: name.to_owned(),
            cause: format!("there is no {DEVICE}"),
            remedy: "load the module tun, or give the container that device".to_owned(),
        },
        _ => Error::privileged("opening the TAP interface", name, "CAP_NET_ADMIN", cause),
    }
}

fn not_attached(name: &str, cause: io::Error, several: bool) -> Error {
    match (cause.raw_os_error(), cause.kind()) {
        (Some(libc::EBUSY), _) => Error::Busy {
            interface: name.to_owned(),
            cause: "another program is attached to it".to_owned(),
            remedy: "end that program, or name another interface".to_owned(),
        },
        (Some(libc::EINVAL), _) if several => Error::Unsupported {
            device: "tap",
            interface: name.to_owned(),
            cause: "it was not made for several queues, and each thread needs one".to_owned(),
            remedy: format!(
                "make it so: `ip tuntap add dev {name} mode tap multi_queue`, or use one thread"
            ),
        },
        (Some(libc::EINVAL), _) => Error::Unsupported {
            device: "tap",
            interface: name.to_owned(),
            cause: "there is an interface of that name that is no TAP".to_owned(),
            remedy: "name another one; it is made when it is not there".to_owned(),
        },
        (None, io::ErrorKind::InvalidInput) => Error::Unsupported {
            device: "tap",
            interface: name.to_owned(),
            cause: "the name of an interface has 1 to 15 characters".to_owned(),
            remedy: "shorten it".to_owned(),
        },
        _ => Error::privileged("making the TAP interface", name, "CAP_NET_ADMIN", cause),
    }
}

impl Device for Tap {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        for done in 0..budget {
            self.counters.syscalls += 1;
            let len = match self.file.read(&mut self.received) {
                Ok(len) => len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(done),
                Err(e) => return Err(e),
            };
            let read = &self.received[..len];
            let Some((header, head)) = read.split_first_chunk::<{ vnet::BYTES }>() else {
                continue;
            };
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += head.len() as u64;
            sink(Frame {
                head,
                rest: &[],
                meta: vnet::read(header),
            });
        }
        Ok(budget)
    }

    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        let room = &mut self.room[vnet::BYTES..];
        let len_max = len_max.min(room.len());
        let Some((len, meta)) = fill(&mut room[..len_max]) else {
            return Ok(true);
        };
        self.room[..vnet::BYTES].copy_from_slice(&vnet::write(&meta));
        self.counters.syscalls += 1;
        match self.file.write(&self.room[..vnet::BYTES + len]) {
            Ok(_) => {
                self.counters.tx_frames += 1;
                self.counters.tx_bytes += len as u64;
            }
            // The kernel takes a frame or drops it; `fill` has been called, so it is lost as on a wire.
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::EINVAL | libc::ENOMEM)
                ) =>
            {
                self.counters.tx_dropped += 1;
            }
            Err(e) => return Err(e),
        }
        Ok(true)
    }

    /// Every frame has left already.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        self.counters.syscalls += 1;
        wait_readable(&self.file, timeout_ns)
    }

    fn counters(&self) -> DeviceCounters {
        self.counters
    }

    fn descriptors(&self, add: &mut dyn FnMut(RawFd)) {
        add(self.file.as_raw_fd());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_has_another_address_of_one_station() {
        let ours = other_end([0xaa, 1, 2, 3, 4, 5]);
        assert_eq!(ours, [0xaa, 1, 2, 3, 4, 4]);
        assert!(!ethernet::is_group(ours));
    }
}
