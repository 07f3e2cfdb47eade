//! Two stacks and the wire between them: a loopback pair, each end behind a `Fault`, on a clock that the test moves.

use super::{Program, Talk};
use stack::device::Device as _;
use stack::device::fault::{Fault, Faults};
use stack::device::loopback::{self, Loopback};
use stack::tcp::{Ended, Settings, Stack};
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

type Clock = Rc<Cell<u64>>;
pub type Device = Fault<Loopback, Box<dyn FnMut() -> u64>>;

pub struct Side {
    pub stack: Stack,
    pub device: Device,
    pub program: Program,
}

impl Side {
    fn new(settings: &Settings, device: Device, ip: IpAddr, seed: u64) -> Self {
        Side {
            stack: Stack::new(settings.clone(), device.capabilities(), &[ip], seed, 0),
            device,
            program: Program::default(),
        }
    }
}

pub struct World {
    pub now: u64,
    clock: Clock,
    /// [client, server]
    pub sides: [Side; 2],
}

const SERVER_IP: [u8; 4] = [10, 0, 0, 2];

impl World {
    /// A client and a listening server; each end's faults are those of what it sends.
    pub fn new(
        client: &Settings,
        server: &Settings,
        weather: Faults,
        segments: bool,
        seed: u64,
    ) -> Self {
        let ips: [IpAddr; 2] = [[10, 0, 0, 1].into(), SERVER_IP.into()];
        let (a, b) = loopback::pair(&loopback::Settings {
            segments,
            checksums: false,
            ring_frames: usize::MAX,
            ..loopback::Settings::default()
        });
        let clock = Clock::default();
        let faulty = |end, seed| {
            let clock = Rc::clone(&clock);
            let read: Box<dyn FnMut() -> u64> = Box::new(move || clock.get());
            Fault::new(end, weather, Faults::default(), seed, read)
        };
        let devices = [faulty(a, seed ^ 0xabcd), faulty(b, seed ^ 0xef01)];
        let [a, b] = devices;
        let mut world = World {
            now: 0,
            sides: [
                Side::new(client, a, ips[0], seed),
                Side::new(server, b, ips[1], seed + 1),
            ],
            clock,
        };
        world.sides[1].stack.listen(80);
        world.sides[1].program.answer = 0;
        world
    }

    pub fn connect(&mut self, bytes: u64) {
        let side = &mut self.sides[0];
        let user = side.program.talks.len() as u32;
        side.program.talks.push(Talk {
            to_send: bytes,
            ..Talk::default()
        });
        let to = SocketAddr::from((SERVER_IP, 80));
        side.stack.connect(self.now, 0, to, user).unwrap();
    }

    pub fn poll(&mut self) {
        self.clock.set(self.now);
        for (side, peer) in self.sides.iter_mut().zip([2, 1]) {
            let (device, program) = (&mut side.device, &mut side.program);
            side.stack.poll(self.now, device, program).unwrap();
            for ip in side.stack.take_unresolved() {
                side.stack.set_link_address(ip, [2, 0, 0, 0, 0, peer]);
            }
            side.stack.poll(self.now, device, program).unwrap();
        }
    }

    /// Takes what has arrived; false when nothing has.
    pub fn receive(&mut self) -> bool {
        let mut frames = 0;
        for side in &mut self.sides {
            let (stack, program, now) = (&mut side.stack, &mut side.program, self.now);
            let mut sink = |frame: stack::frame::Frame<'_>| {
                stack.input(now, frame, program);
            };
            frames += side.device.receive(usize::MAX, &mut sink).unwrap();
        }
        frames > 0
    }

    /// Runs until `done` or `until`; false when the time was over first.
    pub fn run(&mut self, until: u64, mut done: impl FnMut(&mut World) -> bool) -> bool {
        loop {
            self.poll();
            if done(self) {
                return true;
            }
            if self.receive() {
                continue;
            }
            let sides = self.sides.iter();
            let due = sides.flat_map(|it| [it.stack.next_deadline_ns(), it.device.next_at_ns()]);
            let Some(next) = due.flatten().min() else {
                return false;
            };
            self.now = self.now.max(next);
            if self.now > until {
                return false;
            }
        }
    }

    pub fn is_done(&mut self) -> bool {
        let opened = self.sides[0].program.is_done();
        opened && self.sides[1].program.is_done()
    }

    pub fn check_ends(&self) {
        let [client, server] = &self.sides;
        assert_eq!(client.program.talks.len(), server.program.talks.len());
        for (mine, theirs) in [(client, server), (server, client)] {
            let sent: u64 = mine.program.talks.iter().map(|talk| talk.to_send).sum();
            let received: u64 = theirs.program.talks.iter().map(|talk| talk.received).sum();
            assert_eq!(sent, received);
            let orderly = |talk: &Talk| talk.ended == Some(Ended::Orderly);
            assert!(mine.program.talks.iter().all(orderly));
        }
    }

    pub fn check_empty(&mut self) {
        let until = self.now + 400_000_000_000;
        self.run(until, |_| false);
        assert!(
            self.sides.iter_mut().all(|side| side.stack.is_empty()),
            "something is left"
        );
    }
}

/// Those of the tests, with a change.
pub fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings {
        flows_max: 2_048,
        receive_window_bytes: 512 * 1_024,
        ..Settings::default()
    };
    change(&mut settings);
    settings
}
