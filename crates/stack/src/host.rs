//! One host on one device: the link layer and TCP side by side, and the turns in which frames go in and out.
//!
//! A program loops over [`Host::send`], [`Host::receive`] and, when both brought nothing, [`Host::wait`] until
//! [`Host::next_deadline_ns`]. Nothing leaves or arrives outside these calls. Every thread has a host of its own.

use crate::device::Device;
use crate::error::Error;
use crate::frame::Frame;
use crate::link::{self, Link, Resolution};
use crate::tcp::{App, Input, Settings, Stack};
use crate::udp::Udp;
use crate::wire::icmp::Problem;
use crate::wire::udp::PROTOCOL as UDP;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// A device, its link layer and the TCP above it.
pub struct Host<D: Device> {
    /// What carries the frames.
    pub device: D,
    /// Neighbours, and what is answered for us.
    pub link: Link,
    /// Connections.
    pub stack: Stack,
    /// Datagrams.
    pub udp: Udp,
    /// The device had no room for all that was to be sent.
    is_full: bool,
}

impl<D: Device> Host<D> {
    /// A host with the addresses `locals`, in the order in which [`Stack::connect`] numbers them. The link address is
    /// the device's.
    ///
    /// # Errors
    /// The addresses do not fit the link.
    pub fn new(
        device: D,
        link: &link::Settings,
        settings: Settings,
        locals: &[IpAddr],
        seed: u64,
        now_ns: u64,
    ) -> Result<Self, Error> {
        let capabilities = device.capabilities();
        let link = Link::new(link::Settings {
            mac: capabilities.mac,
            ..link.clone()
        })?;
        Ok(Host {
            udp: Udp::new(settings.hop_limit, settings.traffic_class),
            stack: Stack::new(settings, capabilities, locals, seed, now_ns),
            link,
            device,
            is_full: false,
        })
    }

    /// Lets due timers run and everything out that waits.
    ///
    /// # Errors
    /// The device has gone.
    pub fn send<A: App>(&mut self, now_ns: u64, app: &mut A) -> io::Result<()> {
        self.link.poll(now_ns);
        self.is_full = !self.stack.poll(now_ns, &mut self.device, app)?;
        let mut found = false;
        for ip in self.stack.take_unresolved() {
            match self.link.resolve(ip, now_ns) {
                Ok(Resolution::Known(mac)) => {
                    self.stack.set_link_address(ip, mac);
                    found = true;
                }
                Ok(Resolution::Waiting) => self.stack.still_unresolved(ip),
                Err(_) => self.stack.set_unreachable(ip, app),
            }
        }
        if found {
            self.is_full = !self.stack.poll(now_ns, &mut self.device, app)?;
        }
        if self.udp.has_datagrams() {
            let sent = self
                .udp
                .send(now_ns, &mut self.device, &mut self.link, app)?;
            self.is_full |= !sent;
            self.device.flush()?;
        }
        if self.link.has_frames() {
            self.link.send(&mut self.device)?;
            self.device.flush()?;
        }
        Ok(())
    }

    /// Takes at most `budget` frames, and says how many there were.
    ///
    /// # Errors
    /// The device has gone.
    pub fn receive<A: App>(
        &mut self,
        now_ns: u64,
        budget: usize,
        app: &mut A,
    ) -> io::Result<usize> {
        let (stack, link, udp) = (&mut self.stack, &mut self.link, &mut self.udp);
        self.device.receive(budget, &mut |frame: Frame<'_>| {
            if stack.input(now_ns, frame, app) == Input::Foreign {
                foreign(stack, link, udp, app, frame, now_ns);
            }
        })
    }

    /// When [`Host::send`] has something to do, on the clock of its argument.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let deadlines = [self.stack.next_deadline_ns(), self.link.next_at()];
        deadlines.into_iter().flatten().min()
    }

    /// Waits until a frame may be received, at most `timeout_ns`; not at all while something waits for room.
    ///
    /// # Errors
    /// The device has gone.
    pub fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        if timeout_ns > 0 && !self.is_full {
            self.device.wait(timeout_ns)?;
        }
        Ok(())
    }

    /// Resets what is open, for the end of a program; see [`Stack::abort_all`].
    pub fn end<A: App>(&mut self, now_ns: u64, app: &mut A) {
        self.stack.abort_all();
        // The device may have gone; then nobody is there to be told.
        let _ = self.send(now_ns, app);
    }
}

/// A frame that is not TCP for us: a datagram, the link's affair, or news of a flow.
fn foreign<A: App>(
    stack: &mut Stack,
    link: &mut Link,
    udp: &mut Udp,
    app: &mut A,
    frame: Frame<'_>,
    now_ns: u64,
) {
    let (flow, problem) = match link.receive(&frame, now_ns) {
        link::Received::Error { flow, problem } => (flow, problem),
        link::Received::Packet { is_ipv6 } => {
            udp.receive(&frame, is_ipv6, app);
            return;
        }
        link::Received::Done => return,
    };
    let local = SocketAddr::new(flow.source, flow.source_port);
    let remote = SocketAddr::new(flow.destination, flow.destination_port);
    if flow.protocol == UDP {
        if matches!(problem, Problem::Refused { .. }) {
            udp.refused(local, remote, app);
        }
        return;
    }
    let Some(seq) = flow.sequence else {
        return;
    };
    match problem {
        Problem::TooBig { mtu_bytes } => {
            let mtu = u16::try_from(mtu_bytes).unwrap_or(u16::MAX);
            stack.too_big(now_ns, local, remote, seq, mtu);
        }
        Problem::Unreachable { .. } | Problem::Refused { .. } => {
            stack.unreachable(now_ns, local, remote, seq, app);
        }
        Problem::TimeExceeded | Problem::BadHeader => {}
    }
}
