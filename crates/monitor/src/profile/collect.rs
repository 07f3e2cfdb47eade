//! The thread that empties the rings, and what it keeps.
//!
//! In the flow: it runs while the load does, so it copies and nothing more; stacks are followed when the load is
//! over. The surprise: on a busy host most records are of processes that nobody asked about. Those that ran before
//! the profile began are known and are dropped at once; a process that is new is kept until the end, as the record
//! that says who started it may lie in the ring of another CPU.

use super::event::{self, Events};
use super::ring::Ring;
use super::wire::{self, Record, Switch};
use perf_event_open_sys::bindings as sys;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::time::Timespec;
use std::collections::HashSet;

/// Raw samples that are kept at most, bytes; above it every other one is dropped and the rest count twice.
const MOST_SAMPLE_BYTES: usize = 64 << 20;
/// Switches that are kept at most; a switch takes 24 bytes.
const MOST_SWITCHES: usize = 2 << 20;
/// The reader looks at the rings this often even when none is half full.
const LOOK_NS: i64 = 500_000_000;

/// A sample as it came, and how many it stands for.
#[derive(Debug)]
pub struct Kept {
    pub record: Box<[u8]>,
    /// Samples that it stands for since others were dropped.
    pub scale: u64,
}

/// What came out of the rings.
#[derive(Debug, Default)]
pub struct Collected {
    pub samples: Vec<Kept>,
    /// Starts, ends, names and mappings, decoded, ring by ring.
    pub tasks: Vec<Record<'static>>,
    /// Context switches, of every CPU's ring in turn.
    pub switches: Vec<Switch>,
    /// Samples that the kernel or the bound on switches dropped.
    pub lost: u64,
    /// Every this-manieth sample was kept at the end.
    pub stride: u64,
    /// Records handled.
    pub events: u64,
    /// Those of them that carry a stack.
    pub sampled: u64,
    /// CPU time of the reader, ns.
    pub cpu_ns: u64,
    bytes: usize,
    turn: u64,
}

impl Collected {
    fn new() -> Self {
        Self {
            stride: 1,
            ..Self::default()
        }
    }

    fn take(&mut self, record: &[u8], foreign: &HashSet<i32>) {
        self.events += 1;
        if wire::kind(record) == Some(sys::PERF_RECORD_SAMPLE) {
            self.sampled += 1;
            if wire::sample_ids(record).is_some_and(|(pid, _)| pid > 0 && !foreign.contains(&pid)) {
                self.keep(record);
            }
            return;
        }
        match wire::decode(record) {
            Some(Record::Lost(count)) => self.lost += count,
            Some(Record::Switch(switch)) if !foreign.contains(&switch.pid) && switch.pid > 0 => {
                if self.switches.len() < MOST_SWITCHES {
                    self.switches.push(switch);
                } else {
                    self.lost += 1;
                }
            }
            Some(Record::Switch(_) | Record::Sample(_)) | None => {}
            Some(Record::Fork {
                pid,
                parent,
                tid,
                parent_tid,
            }) => {
                if !foreign.contains(&parent) {
                    self.tasks.push(Record::Fork {
                        pid,
                        parent,
                        tid,
                        parent_tid,
                    });
                }
            }
            Some(Record::Exit { pid, tid, time }) => {
                if !foreign.contains(&pid) {
                    self.tasks.push(Record::Exit { pid, tid, time });
                }
            }
            Some(Record::Comm {
                pid,
                tid,
                exec,
                name,
            }) => {
                if !foreign.contains(&pid) {
                    self.tasks.push(Record::Comm {
                        pid,
                        tid,
                        exec,
                        name,
                    });
                }
            }
            Some(Record::Map { pid, mapping }) => {
                if !foreign.contains(&pid) {
                    self.tasks.push(Record::Map { pid, mapping });
                }
            }
        }
    }

    fn keep(&mut self, record: &[u8]) {
        self.turn += 1;
        if !self.turn.is_multiple_of(self.stride) {
            return;
        }
        let record = wire::compact(record);
        self.bytes += record.len();
        self.samples.push(Kept {
            record,
            scale: self.stride,
        });
        if self.bytes > MOST_SAMPLE_BYTES {
            self.thin();
        }
    }

    /// Drops every other sample; the rest stand for two.
    fn thin(&mut self) {
        let mut keep = false;
        self.samples.retain_mut(|kept| {
            keep = !keep;
            kept.scale *= 2;
            keep
        });
        self.bytes = self.samples.iter().map(|kept| kept.record.len()).sum();
        self.stride *= 2;
    }
}

/// Tells the reader, which sleeps, that the profile is over.
#[derive(Debug)]
pub struct Ending(OwnedFd);

impl Ending {
    /// # Errors
    /// What eventfd(2) says.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?))
    }

    /// Wakes the reader for the last time.
    pub fn end(&self) {
        // Only a counter at its end is refused, which wakes as well.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// Empties the rings until `ending`, and once more after that.
pub fn read_until(ending: &Ending, events: &mut Events, foreign: &HashSet<i32>) -> Collected {
    let mut collected = Collected::new();
    // A ring whose threads have all ended reports a hang-up for ever: it is then looked at by the clock alone.
    let mut hung_up = vec![false; events.rings.len()];
    while !wait(ending, &events.rings, &mut hung_up) {
        drain(&mut events.rings, &mut collected, foreign);
    }
    // An event that cannot be stopped ends with its descriptor.
    let _ = event::disable(events);
    drain(&mut events.rings, &mut collected, foreign);
    collected.cpu_ns = linux::clock::thread_cpu_ns();
    collected
}

/// Until a ring is half full or the next look is due; whether it was the end.
fn wait(ending: &Ending, rings: &[Ring], hung_up: &mut [bool]) -> bool {
    let watched: Vec<usize> = (0..rings.len()).filter(|&index| !hung_up[index]).collect();
    let mut fds: Vec<PollFd<'_>> = watched
        .iter()
        .map(|&index| PollFd::new(rings[index].fd(), PollFlags::IN))
        .chain([PollFd::new(&ending.0, PollFlags::IN)])
        .collect();
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK_NS,
    };
    // A signal ends the wait early, which is one look more.
    let _ = poll(&mut fds, Some(&limit));
    for (&index, fd) in watched.iter().zip(&fds) {
        hung_up[index] = fd.revents().contains(PollFlags::HUP);
    }
    fds.last()
        .is_some_and(|ending| ending.revents().contains(PollFlags::IN))
}

fn drain(rings: &mut [Ring], collected: &mut Collected, foreign: &HashSet<i32>) {
    for ring in rings {
        ring.drain(|record| collected.take(record, foreign));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_stood_for() {
        let mut collected = Collected::new();
        for _ in 0..1001 {
            collected.keep(&[0; 64]);
        }
        collected.thin();
        for _ in 0..1000 {
            collected.keep(&[0; 64]);
        }
        assert_eq!(collected.samples.len(), 501 + 500);
        let stood_for: u64 = collected.samples.iter().map(|kept| kept.scale).sum();
        assert_eq!(stood_for, 1002 + 1000);
        assert_eq!(collected.bytes, 1001 * 64);
    }
}
