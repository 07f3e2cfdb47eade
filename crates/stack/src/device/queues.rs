//! Several threads on one interface, a queue each: every frame gets to the stack that owns its flow.
//!
//! Which queue a packet comes in by is the kernel's and the NIC's to say, and may change in the middle of a flow. So a
//! frame whose owner is another thread is handed over, in a batch, and the owner is woken when it sleeps; what belongs
//! to no flow (news of neighbours, ICMP errors) is given to all, and what needs one answer to the first. How many were
//! handed over is counted: where answers come back by their own queue it is next to none. A thread that ends leaves its
//! queue to another one, since packets for the others still come in by it.

use super::batch::Batch;
use super::interface::{checked, owned, wait_any};
use super::{Capabilities, Device, DeviceCounters};
use crate::frame::{Frame, TxMeta};
use crate::wire::ethernet::{self, HEADER_BYTES};
use crate::wire::{icmp, ip, ipv4, ipv6, ndp, tcp, udp};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames that may wait for an owner; more are lost.
const WAITING_MAX: usize = 4_096;

/// Who owns a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owners {
    /// The one whose range of local ports it is in, by the number of the queue: for connections of ours.
    LocalPorts(Vec<(u16, u16)>),
    /// One by the peer's address and port: for connections of peers.
    Peers,
}

/// Cuts a range of local ports into as many as there are queues.
pub fn port_ranges((low, high): (u16, u16), count: usize) -> Vec<(u16, u16)> {
    let ports = usize::from(high - low) + 1;
    let edge = |n: usize| usize::from(low) + ports * n / count;
    (0..count)
        .map(|n| (edge(n) as u16, (edge(n + 1) - 1) as u16))
        .collect()
}

/// To whom a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    One(usize),
    All,
}

impl Owners {
    fn of(&self, frame: &[u8], count: usize) -> To {
        let Some((peer, peer_port, local_port)) = tuple(frame) else {
            // One answer is enough.
            return if is_question(frame) {
                To::One(0)
            } else {
                To::All
            };
        };
        match self {
            Owners::LocalPorts(ranges) => {
                let is_in = |(low, high): &(u16, u16)| (*low..=*high).contains(&local_port);
                // Ours is no such port; whoever gets it says so to the peer.
                To::One(ranges.iter().position(is_in).unwrap_or(0))
            }
            Owners::Peers => {
                let bits = match peer {
                    IpAddr::V4(ip) => u64::from(ip.to_bits()),
                    IpAddr::V6(ip) => (ip.to_bits() ^ ip.to_bits() >> 64) as u64,
                };
                let mixed = (bits << 16 ^ u64::from(peer_port)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                To::One(((u128::from(mixed) * count as u128) >> 64) as usize)
            }
        }
    }
}

/// The peer's address and port, and our port, of a TCP or UDP packet.
fn tuple(frame: &[u8]) -> Option<(IpAddr, u16, u16)> {
    let kind = frame.get(12..HEADER_BYTES)?;
    let packet = &frame[HEADER_BYTES..];
    let ip = ip::read(u16::from_be_bytes([kind[0], kind[1]]), packet);
    let ip = ip.filter(|ip| !ip.is_fragment)?;
    let ports = packet.get(ip.header_bytes..ip.header_bytes + 4)?;
    let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    matches!(ip.protocol, tcp::PROTOCOL | udp::PROTOCOL).then(|| (ip.source, port(0), port(2)))
}

/// It is an ARP request, a neighbour solicitation or an echo request.
fn is_question(frame: &[u8]) -> bool {
    const ECHO: u8 = 8;
    const ECHO_V6: u8 = 128;
    const SOLICITATION: u8 = 135;
    let (Some(kind), Some(packet)) = (frame.get(12..HEADER_BYTES), frame.get(HEADER_BYTES..))
    else {
        return false;
    };
    match u16::from_be_bytes([kind[0], kind[1]]) {
        ethernet::ARP => packet.get(6..8) == Some(&[0, 1]),
        ethernet::IPV4 => ipv4::read(packet).is_some_and(|ip| {
            ip.protocol == icmp::ICMP && packet.get(ip.header_bytes) == Some(&ECHO)
        }),
        ethernet::IPV6 => ipv6::read(packet).is_some_and(|ip| {
            let kind = packet.get(ip.header_bytes);
            ip.protocol == ndp::ICMPV6 && matches!(kind, Some(&(ECHO_V6 | SOLICITATION)))
        }),
        _ => false,
    }
}

/// What was handed over to one queue's thread.
#[derive(Debug)]
struct Inbox<D> {
    waiting: Mutex<Waiting<D>>,
    /// Readable when something was handed over to a thread that sleeps.
    wake: OwnedFd,
}

#[derive(Debug)]
struct Waiting<D> {
    batch: Batch,
    /// Devices of threads that have ended.
    left_behind: Vec<D>,
    is_awaited: bool,
    dropped: u64,
    is_gone: bool,
}

impl<D> Inbox<D> {
    fn new() -> io::Result<Self> {
        // SAFETY: the call takes integers only.
        let wake = owned(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        Ok(Inbox {
            waiting: Mutex::new(Waiting {
                batch: Batch::default(),
                left_behind: Vec::new(),
                is_awaited: false,
                dropped: 0,
                is_gone: false,
            }),
            wake,
        })
    }

    /// A thread that has panicked leaves whole frames behind.
    fn lock(&self) -> MutexGuard<'_, Waiting<D>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts frames in, and says how many system calls that took; `None`, and they stay, when nobody will take them.
    fn hand_over(&self, batch: &mut Batch) -> io::Result<Option<u64>> {
        let mut waiting = self.lock();
        if waiting.is_gone {
            return Ok(None);
        }
        if waiting.batch.len() + batch.len() > WAITING_MAX {
            waiting.dropped += batch.len() as u64;
            batch.clear();
            return Ok(Some(0));
        }
        waiting.batch.append(batch);
        self.wake(waiting).map(Some)
    }

    fn wake(&self, mut waiting: MutexGuard<'_, Waiting<D>>) -> io::Result<u64> {
        if !std::mem::take(&mut waiting.is_awaited) {
            return Ok(0);
        }
        drop(waiting);
        let one = 1u64;
        // SAFETY: the call reads eight bytes, which live through it.
        checked(unsafe { libc::write(self.wake.as_raw_fd(), (&raw const one).cast(), 8) } as i32)?;
        Ok(1)
    }
}

/// One thread's queue of an interface; see the module.
#[derive(Debug)]
pub struct Queue<D> {
    /// Its own, and those that were left to it.
    devices: Vec<D>,
    /// Of each that was left to it, what its own thread has counted.
    before: Vec<DeviceCounters>,
    own: usize,
    inboxes: Arc<[Inbox<D>]>,
    owners: Owners,
    /// For each of the others, what is to be handed over.
    leaving: Vec<Batch>,
    reading: Batch,
    next: usize,
    handed_over: u64,
    syscalls: u64,
}

/// Joins the queues of one interface, one device each, in the order of [`Owners`].
///
/// # Errors
/// The kernel's, when it has no descriptor left.
pub fn join<D: Device>(devices: Vec<D>, owners: &Owners) -> io::Result<Vec<Queue<D>>> {
    let inboxes: io::Result<Vec<Inbox<D>>> = devices.iter().map(|_| Inbox::new()).collect();
    let inboxes: Arc<[Inbox<D>]> = inboxes?.into();
    let queue = |(own, device)| Queue {
        devices: vec![device],
        before: Vec::new(),
        own,
        owners: owners.clone(),
        leaving: inboxes.iter().map(|_| Batch::default()).collect(),
        inboxes: Arc::clone(&inboxes),
        reading: Batch::default(),
        next: 0,
        handed_over: 0,
        syscalls: 0,
    };
    Ok(devices.into_iter().enumerate().map(queue).collect())
}

impl<D: Device> Queue<D> {
    /// Frames that came in here and were another's.
    pub fn handed_over(&self) -> u64 {
        self.handed_over
    }

    /// Hands on what others have handed over.
    fn take(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> usize {
        let mut done = 0;
        while done < budget {
            let Some(frame) = self.reading.frame(self.next) else {
                self.reading.clear();
                self.next = 0;
                let mut waiting = self.inboxes[self.own].lock();
                self.before
                    .extend(waiting.left_behind.iter().map(Device::counters));
                self.devices.append(&mut waiting.left_behind);
                if waiting.batch.len() == 0 {
                    break;
                }
                std::mem::swap(&mut waiting.batch, &mut self.reading);
                continue;
            };
            sink(frame);
            self.next += 1;
            done += 1;
        }
        done
    }
}

impl<D: Device> Device for Queue<D> {
    fn capabilities(&self) -> &Capabilities {
        self.devices[0].capabilities()
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        let mut done = self.take(budget, sink);
        let (own, owners, leaving) = (self.own, &self.owners, &mut self.leaving);
        let count = leaving.len();
        let before = done;
        for device in &mut self.devices {
            done += device.receive(
                budget - done,
                &mut |frame| match owners.of(frame.head, count) {
                    To::One(at) if at != own => leaving[at].copy(&frame),
                    To::One(_) => sink(frame),
                    To::All => {
                        let others = leaving.iter_mut().enumerate().filter(|(at, _)| *at != own);
                        others.for_each(|(_, batch)| batch.copy(&frame));
                        sink(frame);
                    }
                },
            )?;
        }
        if done == before {
            return Ok(done);
        }
        for (inbox, batch) in self.inboxes.iter().zip(&mut self.leaving) {
            if batch.len() == 0 {
                continue;
            }
            let frames = batch.len();
            match inbox.hand_over(batch)? {
                Some(syscalls) => {
                    self.handed_over += frames as u64;
                    self.syscalls += syscalls;
                }
                // Its owner is no more: this stack says so to the peer.
                None => {
                    (0..frames)
                        .filter_map(|n| batch.frame(n))
                        .for_each(&mut *sink);
                    batch.clear();
                }
            }
        }
        Ok(done)
    }

    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        self.devices[0].transmit(len_max, fill)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.devices[0].flush()
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        let inbox = &self.inboxes[self.own];
        let mut waiting = inbox.lock();
        let has_news = waiting.batch.len() > 0 || !waiting.left_behind.is_empty();
        if has_news || self.next < self.reading.len() {
            return Ok(());
        }
        if self.devices.iter().any(Device::is_polled) {
            // Nothing to sleep on: looks for a moment, and then at what the others hand over.
            const MOMENT_NS: u64 = 5_000;
            drop(waiting);
            let mut devices = self.devices.iter_mut();
            return devices.try_for_each(|device| device.wait(timeout_ns.min(MOMENT_NS)));
        }
        waiting.is_awaited = true;
        drop(waiting);
        let polled = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut fds = vec![polled(inbox.wake.as_raw_fd())];
        for device in &self.devices {
            device.descriptors(&mut |fd| fds.push(polled(fd)));
        }
        self.syscalls += 1;
        wait_any(&mut fds, timeout_ns)?;
        let was_awaited = std::mem::take(&mut inbox.lock().is_awaited);
        if !was_awaited || fds[0].revents != 0 {
            let mut word = 0u64;
            self.syscalls += 1;
            // SAFETY: the call writes eight bytes, which live through it; without any there it fails, which is fine.
            unsafe { libc::read(inbox.wake.as_raw_fd(), (&raw mut word).cast(), 8) };
        }
        Ok(())
    }

    /// Of its own device, and of those that were left to it from then on.
    fn counters(&self) -> DeviceCounters {
        let mut counters = self.devices[0].counters();
        for (device, before) in self.devices[1..].iter().zip(&self.before) {
            counters.add_between(before, &device.counters());
        }
        counters.rx_dropped += self.inboxes[self.own].lock().dropped;
        counters.syscalls += self.syscalls;
        counters
    }

    fn named(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        // The sums, and of its own device what that has beside them.
        let sums = self.counters().named();
        self.devices[0].named(&mut |name, value| {
            let sum = sums.iter().find(|(of, _)| *of == name);
            tell(name, sum.map_or(value, |(_, sum)| *sum));
        });
        tell("rx_handed_over", self.handed_over);
    }

    fn sync(&mut self) {
        self.devices[0].sync();
    }

    fn trouble(&self) -> Option<String> {
        self.devices[0].trouble()
    }

    fn descriptors(&self, add: &mut dyn FnMut(RawFd)) {
        for device in &self.devices {
            device.descriptors(add);
        }
        add(self.inboxes[self.own].wake.as_raw_fd());
    }
}

impl<D> Drop for Queue<D> {
    fn drop(&mut self) {
        let mut waiting = self.inboxes[self.own].lock();
        waiting.is_gone = true;
        waiting.batch.clear();
        self.devices.append(&mut waiting.left_behind);
        drop(waiting);
        // The first that is still there.
        for inbox in self.inboxes.iter() {
            let mut waiting = inbox.lock();
            if !waiting.is_gone {
                waiting.left_behind.append(&mut self.devices);
                // Without it the other wakes by itself, later.
                let _ = inbox.wake(waiting);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::loopback::{self, Loopback};
    use super::super::packets::tests::sample;
    use super::*;

    #[test]
    fn ports_are_cut_into_ranges_without_a_gap() {
        for count in 1..9 {
            let ranges = port_ranges((10_000, 65_535), count);
            assert_eq!((ranges[0].0, ranges[count - 1].1), (10_000, 65_535));
            assert!(ranges.windows(2).all(|two| two[0].1 + 1 == two[1].0));
        }
    }

    fn queues(owners: &Owners) -> (Vec<Loopback>, Vec<Queue<Loopback>>) {
        let pairs = (0..2).map(|_| loopback::pair(&loopback::Settings::default()));
        let (there, here) = pairs.unzip();
        (there, join::<Loopback>(here, owners).expect("descriptors"))
    }

    fn send(end: &mut Loopback, frame: &[u8]) {
        let meta = TxMeta::default();
        end.transmit(frame.len(), &mut |room| {
            room.copy_from_slice(frame);
            Some((frame.len(), meta))
        })
        .expect("there");
        end.flush().expect("there");
    }

    fn to_port(port: u16) -> Vec<u8> {
        let (mut frame, _) = sample(false, 0, 0);
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        frame
    }

    fn taken(queue: &mut Queue<Loopback>) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut sink = |frame: Frame<'_>| all.push(frame.head.to_vec());
        queue.receive(100, &mut sink).expect("there");
        all
    }

    #[test]
    fn a_frame_gets_to_its_owner_by_whatever_queue_it_came() {
        let owners = Owners::LocalPorts(port_ranges((10_000, 10_999), 2));
        let (mut there, mut here) = queues(&owners);
        let (low, high) = (to_port(10_499), to_port(10_500));
        for end in &mut there {
            send(end, &low);
            send(end, &high);
        }
        assert_eq!(taken(&mut here[0]), std::slice::from_ref(&low));
        assert_eq!(taken(&mut here[1]), [high.clone(), high]);
        assert_eq!(taken(&mut here[0]), [low]);
        assert_eq!((here[0].handed_over(), here[1].handed_over()), (1, 1));
    }

    #[test]
    fn what_belongs_to_no_flow_is_given_to_all() {
        let (mut there, mut here) = queues(&Owners::Peers);
        let arp = |operation| [vec![0xff; 12], vec![8, 6], vec![operation; 46]].concat();
        let reply = arp(2);
        send(&mut there[1], &reply);
        assert_eq!(taken(&mut here[1]), std::slice::from_ref(&reply));
        assert_eq!(taken(&mut here[0]), [reply]);
        let mut request = arp(0);
        request[21] = 1;
        send(&mut there[1], &request);
        assert_eq!(taken(&mut here[1]), [[0; 0]; 0]);
        assert_eq!(taken(&mut here[0]), [request], "one answer is enough");
    }

    #[test]
    fn a_peer_has_one_owner_and_peers_are_shared_out() {
        let mut counts = [0; 4];
        for port in 1_000..5_000u16 {
            let (mut frame, _) = sample(true, 0, 0);
            frame[54..56].copy_from_slice(&port.to_be_bytes());
            let To::One(owner) = Owners::Peers.of(&frame, 4) else {
                panic!("TCP has an owner");
            };
            assert_eq!(Owners::Peers.of(&frame, 4), To::One(owner));
            counts[owner] += 1;
        }
        assert!(counts.iter().all(|count| *count > 700), "{counts:?}");
    }

    #[test]
    fn a_queue_whose_thread_has_ended_is_served_by_another() {
        let owners = Owners::LocalPorts(port_ranges((10_000, 10_999), 2));
        let (mut there, mut here) = queues(&owners);
        let (low, high) = (to_port(10_000), to_port(10_999));
        send(&mut there[0], &low);
        assert_eq!(taken(&mut here[0]).len(), 1);
        let first = here.remove(0);
        let counted = first.counters().rx_frames;
        drop(first);
        for end in &mut there {
            send(end, &high);
        }
        send(&mut there[1], &low);
        let all = taken(&mut here[0]);
        assert_eq!(all, [high.clone(), high, low], "nobody else answers it");
        let mut told = 0;
        here[0].named(&mut |name, n| told += u64::from(name == "rx_frames") * n);
        assert_eq!(counted + told, 4, "each frame is counted once");
    }

    #[test]
    fn an_owner_that_sleeps_is_woken() {
        let owners = Owners::LocalPorts(port_ranges((10_000, 10_999), 2));
        let (mut there, mut here) = queues(&owners);
        let mut second = here.pop().expect("two");
        let mut first = here.pop().expect("two");
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(move || {
                let began = std::time::Instant::now();
                second.wait(60_000_000_000).expect("there");
                assert!(began.elapsed().as_secs() < 60);
                taken(&mut second).len()
            });
            while !first.inboxes[1].lock().is_awaited {
                std::thread::yield_now();
            }
            send(&mut there[0], &to_port(10_999));
            assert_eq!(taken(&mut first).len(), 0);
            assert_eq!(sleeper.join().expect("no panic"), 1);
        });
    }
}
