//! The ends of a traffic program: devices opened, wires joined, faults and captures put around them as the spec asks.
//!
//! In the flow: [`crate::program`] runs a spec over what this makes. All that can be known beforehand (interface,
//! addresses, targets) is checked before the first device is opened. The surprise is the order of the decorators: a
//! capture stands between the stack and the faults, so a file shows what the stack said and what it heard.

use crate::arrival::Share;
use crate::clock::now_ns;
use crate::program::{self, End, Ends};
use crate::user_space::{AnyDevice, AttachError, Attachment, Words};
use linux::namespace::Namespace;
use record::traffic::{Faults, Side};
use record::{Carrier, TrafficSpec};
use stack::address::{AddressRange, Network};
use stack::device::Device;
use stack::device::capture::Capture;
use stack::device::fault::{self, Fault};
use stack::device::loopback;
use stack::device::queues::{Owners, port_ranges};
use stack::link;
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Why an end cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    /// The side cannot attach.
    #[error("the {side} side: {cause}")]
    Attach {
        /// `client` or `server`.
        side: &'static str,
        /// Why not.
        cause: AttachError,
    },
    /// Ports that cannot be divided among the threads.
    #[error(transparent)]
    Ports(program::ProgramError),
    /// The sides of a wire in memory have different numbers of threads.
    #[error(
        "the client side has {client} threads and the server side {server}, and in memory each faces one of the other"
    )]
    UnlikeThreads {
        /// Of the client side.
        client: u32,
        /// Of the server side.
        server: u32,
    },
    /// The namespace of the side cannot be entered.
    #[error("the {side} side: {cause}")]
    Namespace {
        /// `client` or `server`.
        side: &'static str,
        /// Why not.
        cause: linux::Error,
    },
    /// The file that the frames are to be written to cannot be made.
    #[error("the {side} side: writing frames to `{}`: {cause}", path.display())]
    Capture {
        /// `client` or `server`.
        side: &'static str,
        /// Where to.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
}

impl EndError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            EndError::Attach { cause, .. } => cause.remedy(),
            EndError::Ports(cause) => cause.remedy(),
            EndError::UnlikeThreads { .. } => "give both sides the same `threads`".to_owned(),
            EndError::Namespace { .. } => {
                "run it again; a container may have to be privileged".to_owned()
            }
            EndError::Capture { .. } => {
                "name a file in a directory that exists with `capture`".to_owned()
            }
        }
    }
}

/// How a traffic file names things.
const WORDS: Words = Words {
    interface: "`interface`",
    addresses: "`addresses`",
    transport: "`transport`:",
};

/// Namespaces of the sides, where these are not the process's own. On a wire of such a namespace everybody is a
/// neighbour.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Of the client side's interface.
    pub client: Option<Namespace>,
    /// Of the server side's.
    pub server: Option<Namespace>,
}

impl Places {
    fn of(&self, side: &str) -> Option<&Namespace> {
        match side {
            "client" => self.client.as_ref(),
            _ => self.server.as_ref(),
        }
    }

    /// Does `work` where the side is.
    fn within<T>(
        &self,
        side: &'static str,
        work: impl FnOnce() -> Result<T, AttachError>,
    ) -> Result<T, EndError> {
        let done = match self.of(side) {
            Some(namespace) => namespace
                .within(work)
                .map_err(|cause| EndError::Namespace { side, cause })?,
            None => work(),
        };
        done.map_err(|cause| EndError::Attach { side, cause })
    }
}

/// Opens what `spec` needs; names of captures are relative to `base`.
///
/// # Errors
/// [`EndError`], before anything has been sent.
pub fn open(spec: &TrafficSpec, base: &Path, places: &Places) -> Result<Ends, EndError> {
    let targets = spec.templates.iter().flat_map(|t| &t.targets);
    let mut targets: Vec<IpAddr> = targets.map(std::net::SocketAddr::ip).collect();
    targets.sort_unstable();
    targets.dedup();
    let sides = [("client", &spec.client), ("server", &spec.server)];
    // Both are checked before either is opened.
    let mut checked = Vec::new();
    for (name, side) in sides {
        let Some(side) = side else { continue };
        let targets = if name == "client" {
            targets.clone()
        } else {
            Vec::new()
        };
        let failed = |cause| EndError::Attach { side: name, cause };
        let mut attachment = Attachment::of_side(side, targets, WORDS).map_err(failed)?;
        if places.of(name).is_some() {
            attachment.networks = everywhere();
        }
        let link = match side.transport {
            Carrier::Loopback => in_memory(&attachment.addresses),
            _ => places.within(name, || attachment.check())?,
        };
        checked.push((name, side, attachment, link));
    }
    let threads = |side: &Option<Side>| side.as_ref().map_or(0, |side| side.threads.max(1));
    let (client, server) = (threads(&spec.client), threads(&spec.server));
    let is_in_memory = (checked.iter()).any(|(_, side, ..)| side.transport == Carrier::Loopback);
    if is_in_memory && client != server {
        return Err(EndError::UnlikeThreads { client, server });
    }
    let damages = |side: &Side| side.faults.is_some_and(|f| f.corrupt > 0.0);
    let whole = !checked.iter().any(|(_, side, ..)| damages(side));
    let mut wires = in_memory_wires(if is_in_memory { client } else { 0 }, whole);
    let mut ends = Ends::default();
    for (name, side, attachment, link) in checked {
        let is_client = name == "client";
        let devices = match side.transport {
            Carrier::Loopback => std::mem::take(&mut wires[usize::from(!is_client)]),
            _ => {
                let count = side.threads.max(1);
                let owners = match is_client {
                    true => {
                        let ports = program::ports_for(side, count).map_err(EndError::Ports)?;
                        Owners::LocalPorts(port_ranges(ports, count as usize))
                    }
                    false => Owners::Peers,
                };
                let count = count as usize;
                places.within(name, || attachment.open_queues(count, &owners))?
            }
        };
        let devices = faulty(devices, side.faults, spec.seed);
        let devices = captured(devices, name, side, base)?;
        let end = Some(End { devices, link });
        match is_client {
            true => ends.client = end,
            false => ends.server = end,
        }
    }
    Ok(ends)
}

/// So many wires in memory: the client side's ends, and the server side's.
fn in_memory_wires(count: u32, checksums: bool) -> [Vec<AnyDevice>; 2] {
    let settings = loopback::Settings {
        // What is summed by nobody cannot be found to be damaged.
        checksums,
        is_lossless: true,
        ..loopback::Settings::default()
    };
    let mut wires = [Vec::new(), Vec::new()];
    for _ in 0..count {
        let (one, two) = loopback::pair(&settings);
        wires[0].push(Box::new(one) as AnyDevice);
        wires[1].push(Box::new(two) as AnyDevice);
    }
    wires
}

/// Over memory everybody is a neighbour.
fn in_memory(own: &[AddressRange]) -> link::Settings {
    link::Settings {
        interface: "memory".to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        own: own.to_vec(),
        networks: everywhere(),
        gateways: Vec::new(),
    }
}

/// Every address of both families.
fn everywhere() -> Vec<Network> {
    let all: [IpAddr; 2] = [[0; 4].into(), [0_u16; 8].into()];
    all.iter().filter_map(|ip| Network::new(*ip, 0)).collect()
}

/// Both directions of a wire have the same faults. Each thread's has faults of its own, drawn by the run's seed, and
/// its part of the rate.
fn faulty(devices: Vec<AnyDevice>, faults: Option<Faults>, seed: u64) -> Vec<AnyDevice> {
    let Some(faults) = faults else {
        return devices;
    };
    let of = devices.len() as u32;
    let wrapped = devices.into_iter().enumerate().map(|(thread, device)| {
        let share = Share {
            index: thread as u32,
            of,
        };
        let of_wire = fault::Faults {
            loss: faults.loss,
            duplicate: faults.duplicate,
            reorder: faults.reorder,
            corrupt: faults.corrupt,
            delay_ns: faults.delay.0,
            jitter_ns: faults.jitter.0,
            // 0 is no limit, and a part is at least one bit.
            rate_bits_per_s: match faults.rate_bits_per_s {
                0 => 0,
                all => share.of_count(all).max(1),
            },
            ..fault::Faults::default()
        };
        let seed = seed.wrapping_add(program::salt(thread));
        Box::new(Fault::new(device, of_wire, of_wire, seed, now_ns)) as AnyDevice
    });
    wrapped.collect()
}

/// A file that several threads write to, whole packets at a time.
#[derive(Clone)]
struct Shared(Arc<Mutex<File>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Whoever has panicked in it has left whole packets or the cause of an error.
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All threads of a side write into one file.
fn captured(
    devices: Vec<AnyDevice>,
    name: &'static str,
    side: &Side,
    base: &Path,
) -> Result<Vec<AnyDevice>, EndError> {
    let Some(capture) = &side.capture else {
        return Ok(devices);
    };
    let path = base.join(&capture.path);
    let file = File::create(&path).map_err(|cause| EndError::Capture {
        side: name,
        path,
        cause,
    })?;
    let clock = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX))
    };
    let file = Shared(Arc::new(Mutex::new(file)));
    let wrapped = devices.into_iter().enumerate().map(|(thread, device)| {
        let (file, snap) = (file.clone(), capture.snap_bytes);
        let mut capture = match thread {
            0 => Capture::new(device, file, snap, clock),
            _ => Capture::joining(device, file, snap, clock),
        };
        // The file's head comes before any other thread's packets.
        capture.sync();
        Box::new(capture) as AnyDevice
    });
    Ok(wrapped.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stack::frame::TxMeta;

    #[test]
    fn threads_write_whole_packets_into_one_file() {
        let directory = std::env::temp_dir().join(format!("prony-ends-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let text = r#"{"transport":"loopback","interface":"","addresses":[],"order":"sequential","ports":null,
            "gateways":[],"coalesce":0,"cpu":null,"tcp":{},
            "capture":{"path":"frames.pcap","snap_bytes":2000},"faults":null}"#;
        let side: Side = serde_json::from_str(text).unwrap();
        let [clients, servers] = in_memory_wires(3, true);
        let devices = captured(clients, "client", &side, &directory).unwrap();
        std::thread::scope(|scope| {
            for (number, mut device) in (1u8..).zip(devices) {
                scope.spawn(move || {
                    for _ in 0..1_000 {
                        let mut fill = |room: &mut [u8]| {
                            room.fill(number);
                            Some((room.len(), TxMeta::default()))
                        };
                        // With nobody to take it a frame finds no room after a while; it is captured all the same.
                        let _ = device.transmit(900 + usize::from(number), &mut fill);
                        let _ = device.flush();
                    }
                });
            }
            drop(servers);
        });
        let bytes = std::fs::read(directory.join("frames.pcap")).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        let (mut rest, mut counts) = (&bytes[24..], [0; 3]);
        while let Some((head, more)) = rest.split_first_chunk::<16>() {
            let len = u32::from_ne_bytes(head[8..12].try_into().unwrap()) as usize;
            let (packet, more) = more.split_at(len);
            let number = packet[0];
            assert_eq!(len, 900 + usize::from(number));
            assert!(packet.iter().all(|byte| *byte == number));
            counts[usize::from(number) - 1] += 1;
            rest = more;
        }
        assert!(rest.is_empty());
        assert_eq!(counts, [1_000; 3]);
    }
}
