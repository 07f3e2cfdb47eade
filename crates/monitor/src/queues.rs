//! Packets and bytes of each queue of the network devices, from the drivers' own counters (`ethtool -S`).
//!
//! Only on request ([`crate::Extras`]): most hosts that load their own loopback have no queue. The surprise: these
//! counters have names and no standard. Every driver spells them its own way (`rx_queue_0_packets`, `rx-0.packets`,
//! `rx0_packets`, `queue_0_rx_cnt`), so a name is taken apart, and what does not read as a direction, a number and
//! packets or bytes is left alone.

use crate::recorder::Rows;
use crate::{MonitorError, Pass, Recorder, Signal, Source};
use linux::Root;
use record::Nanos;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const SOURCE: &str = "SIOCETHTOOL";

/// Of one queue.
pub const QUEUE: [Signal; 4] = [
    Signal::counter("nic.queue_rx_packets", "packets", SOURCE),
    Signal::counter("nic.queue_rx_bytes", "bytes", SOURCE),
    Signal::counter("nic.queue_tx_packets", "packets", SOURCE),
    Signal::counter("nic.queue_tx_bytes", "bytes", SOURCE),
];

/// `SIOCETHTOOL` of linux/sockios.h; commands and the string set of linux/ethtool.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const GET_SET_INFO: u32 = 0x37;
const GET_STRINGS: u32 = 0x1b;
const GET_STATS: u32 = 0x1d;
const STATS_STRINGS: u32 = 1;
/// Bytes of one name (`ETH_GSTRING_LEN`).
const NAME_LENGTH: usize = 32;
/// More counters than any driver has; a longer answer is not one.
const MOST_COUNTERS: usize = 8_192;
/// Words that may stand in a name beside its direction, number and kind.
const FILLING: [&str; 3] = ["queue", "q", "ring"];

/// A device's counters that are of queues: place in its list, queue, column of [`QUEUE`].
type Found = Vec<(usize, u32, usize)>;

/// Queue and column of a counter by its name; `None` when it is no queue's packets or bytes.
pub fn parse_name(name: &str) -> Option<(u32, usize)> {
    let (mut sent, mut queue, mut bytes) = (None, None, None);
    for word in words(name) {
        match word.as_str() {
            "rx" | "tx" if sent.is_none() => sent = Some(word == "tx"),
            "packets" | "pkts" | "cnt" if bytes.is_none() => bytes = Some(false),
            "bytes" if bytes.is_none() => bytes = Some(true),
            filling if FILLING.contains(&filling) => {}
            number => {
                let number: u32 = number.parse().ok()?;
                if queue.replace(number).is_some() {
                    return None;
                }
            }
        }
    }
    Some((queue?, usize::from(sent?) * 2 + usize::from(bytes?)))
}

/// Runs of letters and runs of digits.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = ' ';
    for c in name.chars() {
        let goes_on = c.is_ascii_alphanumeric()
            && last.is_ascii_alphanumeric()
            && c.is_ascii_digit() == last.is_ascii_digit();
        match (words.last_mut(), goes_on) {
            (Some(word), true) => word.push(c.to_ascii_lowercase()),
            _ if c.is_ascii_alphanumeric() => words.push(c.to_ascii_lowercase().to_string()),
            _ => {}
        }
        last = c;
    }
    words
}

/// The source.
#[derive(Debug)]
pub struct Queues {
    root: Root,
    wanted: Vec<String>,
    socket: Option<OwnedFd>,
    /// Of each device with queues: the number of all its counters, and those that are of queues.
    devices: BTreeMap<String, (usize, Found)>,
    rows: Rows<(String, u32), 4>,
    looked: bool,
}

impl Queues {
    /// The devices `wanted`; empty: all that the host has.
    pub fn new(root: &Root, wanted: Vec<String>) -> Self {
        Self {
            root: root.clone(),
            wanted,
            socket: None,
            devices: BTreeMap::new(),
            rows: Rows::new(QUEUE),
            looked: false,
        }
    }

    /// Finds the devices whose drivers count by queue.
    fn look(&mut self) -> Result<(), MonitorError> {
        let names = match self.wanted.is_empty() {
            true => self.root.list("sys/class/net")?,
            false => self.wanted.clone(),
        };
        // Names come from the root, counters from the running kernel.
        if self.root.is_live() {
            let socket = socket().map_err(|cause| linux::Error::Read {
                path: self.root.path("sys/class/net"),
                cause,
                needs: "",
            })?;
            for name in &names {
                // A driver without counters refuses; that is an answer, and no failure.
                if let Ok(found) = queues_of(&socket, name)
                    && !found.1.is_empty()
                {
                    self.devices.insert(name.clone(), found);
                }
            }
            self.socket = Some(socket);
        }
        match self.devices.is_empty() {
            true => Err(MonitorError::NoQueues {
                devices: names.join(", "),
            }),
            false => Ok(()),
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: the call takes plain numbers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends `words`, whose first one is the command, to the device; the kernel's answer replaces them.
fn ask(socket: &OwnedFd, device: &str, words: &mut [u32]) -> io::Result<()> {
    // SAFETY: ifreq is plain data for which all zero bytes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = device.as_bytes();
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: `request` lives until the call returns and points to `words`. The kernel writes at most the structure
    // of the command, and of a list as many entries as its length says, which the callers have asked for before.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    match answer < 0 {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

/// The number of a device's counters: `struct ethtool_sset_info` is command, reserved, a mask of two words, lengths.
fn counters(socket: &OwnedFd, device: &str) -> io::Result<usize> {
    let mut info = [GET_SET_INFO, 0, 1 << STATS_STRINGS, 0, 0];
    ask(socket, device, &mut info)?;
    // The kernel clears the bit of a set that the driver does not have.
    Ok(if info[2] == 0 { 0 } else { info[4] as usize })
}

fn queues_of(socket: &OwnedFd, device: &str) -> io::Result<(usize, Found)> {
    let count = counters(socket, device)?;
    if count == 0 || count > MOST_COUNTERS {
        return Ok((count, Found::new()));
    }
    // `struct ethtool_gstrings`: command, set, length, then the names. Room for twice as many: a device that gets
    // more queues between the two calls must not write past the end.
    let mut words = vec![0u32; 3 + 2 * count * NAME_LENGTH / 4];
    words[..3].copy_from_slice(&[GET_STRINGS, STATS_STRINGS, 0]);
    ask(socket, device, &mut words)?;
    let bytes: Vec<u8> = words[3..].iter().flat_map(|w| w.to_ne_bytes()).collect();
    let names = bytes.chunks_exact(NAME_LENGTH).take(words[2] as usize);
    let found = names.enumerate().filter_map(|(i, name)| {
        let end = name.iter().position(|b| *b == 0).unwrap_or(NAME_LENGTH);
        let (queue, column) = parse_name(&String::from_utf8_lossy(&name[..end]))?;
        Some((i, queue, column))
    });
    Ok((count, found.collect()))
}

/// All counters of a device: `struct ethtool_stats` is command, length, then one 64-bit word each.
fn read(socket: &OwnedFd, device: &str, count: usize) -> io::Result<Vec<u64>> {
    if counters(socket, device)? != count {
        // The device was given another number of queues: its counters have other places now.
        return Err(io::Error::from_raw_os_error(libc::EAGAIN));
    }
    let mut words = vec![0u32; 2 + 2 * 2 * count];
    words[..2].copy_from_slice(&[GET_STATS, count as u32]);
    ask(socket, device, &mut words)?;
    let pairs = words[2..2 + 2 * count].chunks_exact(2);
    Ok(pairs
        .map(|pair| {
            let (a, b) = (pair[0].to_ne_bytes(), pair[1].to_ne_bytes());
            u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
        })
        .collect())
}

/// The columns of each queue; a column that the driver does not have stays zero only if another of the queue is there.
fn by_queue(found: &Found, values: &[u64]) -> BTreeMap<u32, [f64; 4]> {
    let mut queues: BTreeMap<u32, [f64; 4]> = BTreeMap::new();
    for (place, queue, column) in found {
        if let Some(value) = values.get(*place) {
            queues.entry(*queue).or_default()[*column] = *value as f64;
        }
    }
    queues
}

impl Source for Queues {
    fn name(&self) -> &'static str {
        "queues"
    }

    fn due(&self, pass: Pass) -> bool {
        pass != Pass::Fast
    }

    fn sample(&mut self, at: Nanos, _pass: Pass, out: &mut Recorder) {
        if !self.looked {
            self.looked = true;
            if let Err(error) = self.look() {
                out.unavailable("nic.queue", &error);
            }
        }
        let Some(socket) = &self.socket else { return };
        for (device, (count, found)) in &self.devices {
            let Ok(values) = read(socket, device, *count) else {
                continue;
            };
            for (queue, values) in by_queue(found, &values) {
                let key = (device.clone(), queue);
                let labels = || vec![("device", device.clone()), ("queue", queue.to_string())];
                self.rows.push(&key, labels, at, values, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_drivers_spell_them() {
        for (name, want) in [
            ("rx_queue_0_packets", Some((0, 0))), // virtio_net, igb, ixgbe
            ("tx_queue_11_bytes", Some((11, 3))),
            ("rx-3.packets", Some((3, 0))),   // i40e
            ("tx7_packets", Some((7, 2))),    // mlx5
            ("queue_2_rx_cnt", Some((2, 0))), // ena
            ("queue_2_tx_bytes", Some((2, 3))),
            ("rx_packets", None),             // of the whole device
            ("rx_queue_0_xdp_packets", None), // a part of them
            ("rx_queue_0_drops", None),
            ("tx_queue_0_1_bytes", None),
            ("", None),
        ] {
            assert_eq!(parse_name(name), want, "{name}");
        }
    }

    #[test]
    fn counters_find_their_queues() {
        let found = vec![(0, 0, 0), (2, 0, 1), (3, 1, 2), (9, 1, 3)];
        let queues = by_queue(&found, &[10, 99, 20, 30]);
        assert_eq!(queues[&0], [10.0, 20.0, 0.0, 0.0]);
        assert_eq!(queues[&1], [0.0, 0.0, 30.0, 0.0]);
    }

    #[test]
    fn a_host_without_queues_says_so_once() {
        let mut out = Recorder::default();
        let mut source = Queues::new(&Root::default(), vec!["lo".to_owned()]);
        for at in 1..=2 {
            source.sample(Nanos(at), Pass::Edge, &mut out);
        }
        let (series, unavailable) = out.finish();
        assert_eq!((series.len(), unavailable.len()), (0, 1));
        assert_eq!(unavailable[0].reason, "no driver of lo counts by queue");
    }
}
