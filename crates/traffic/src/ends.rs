//! The ends of a traffic program: devices opened, wires joined, faults and captures put around them as the spec asks.
//!
//! In the flow: [`crate::program`] runs a spec over what this makes. All that can be known beforehand (interface,
//! addresses, targets) is checked before the first device is opened. The surprise is the order of the decorators: a
//! capture stands between the stack and the faults, so a file shows what the stack said and what it heard.

use crate::clock::now_ns;
use crate::program::{End, Ends};
use crate::user_space::{AnyDevice, AttachError, Attachment, Words};
use linux::namespace::Namespace;
use record::traffic::{Faults, Side};
use record::{Carrier, TrafficSpec};
use stack::address::{AddressRange, Network};
use stack::device::capture::Capture;
use stack::device::fault::{self, Fault};
use stack::device::loopback;
use stack::link;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
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
    let damages = |side: &Side| side.faults.is_some_and(|f| f.corrupt > 0.0);
    let mut wire = {
        let whole = !checked.iter().any(|(_, side, ..)| damages(side));
        let settings = loopback::Settings {
            // What is summed by nobody cannot be found to be damaged.
            checksums: whole,
            is_lossless: true,
            ..loopback::Settings::default()
        };
        let (one, two) = loopback::pair(&settings);
        vec![two, one]
    };
    let mut ends = Ends::default();
    for (name, side, attachment, link) in checked {
        let device: AnyDevice = match (side.transport, wire.pop()) {
            (Carrier::Loopback, Some(end)) => Box::new(end),
            _ => places.within(name, || attachment.open())?,
        };
        let device = faulty(device, side.faults, spec.seed);
        let device = captured(device, name, side, base)?;
        let end = Some(End { device, link });
        match name {
            "client" => ends.client = end,
            _ => ends.server = end,
        }
    }
    Ok(ends)
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

/// Both directions of the wire have the same faults.
fn faulty(device: AnyDevice, faults: Option<Faults>, seed: u64) -> AnyDevice {
    let Some(faults) = faults else {
        return device;
    };
    let of_wire = fault::Faults {
        loss: faults.loss,
        duplicate: faults.duplicate,
        reorder: faults.reorder,
        corrupt: faults.corrupt,
        delay_ns: faults.delay.0,
        jitter_ns: faults.jitter.0,
        rate_bits_per_s: faults.rate_bits_per_s,
        ..fault::Faults::default()
    };
    Box::new(Fault::new(device, of_wire, of_wire, seed, now_ns))
}

fn captured(
    device: AnyDevice,
    name: &'static str,
    side: &Side,
    base: &Path,
) -> Result<AnyDevice, EndError> {
    let Some(capture) = &side.capture else {
        return Ok(device);
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
    Ok(Box::new(Capture::new(
        device,
        file,
        capture.snap_bytes,
        clock,
    )))
}
