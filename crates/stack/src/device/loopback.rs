//! Two devices in memory that are each other's wire, for two stacks in one program: on two threads, or in turns on one.
//!
//! What one end sends is copied once, into a batch that the other end takes whole: the lock between them is held for an
//! exchange of two pointers, once for many frames. Frames arrive with [`Device::flush`], as on every device. The rings
//! are bounded: what finds no room is lost and counted by the receiver, as on a wire, or waits, by setting.

use super::batch::Batch;
use super::{Capabilities, Device, DeviceCounters};
use crate::frame::{Checksum, Frame, RxMeta, TxMeta};
use crate::wire::ethernet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Frames that are gathered before the other end sees them without being asked to.
const BATCH: usize = 64;

/// What both ends can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Largest IP packet.
    pub mtu_bytes: u16,
    /// Super-segments, both ways.
    pub segments: bool,
    /// Unfinished checksums, both ways: nothing is summed, and nothing can be damaged.
    pub checksums: bool,
    /// Frames that may wait for an end; those that it has begun to take are not counted.
    pub ring_frames: usize,
    /// A full ring makes the sender wait; else the frame is lost.
    pub is_lossless: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mtu_bytes: 1_500,
            segments: true,
            checksums: true,
            ring_frames: 1_024,
            is_lossless: false,
        }
    }
}

/// What waits for one end.
#[derive(Debug, Default)]
struct Ring {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    batch: Batch,
    /// The end waits for frames.
    is_awaited: bool,
    /// Frames that found no room.
    dropped: u64,
    /// Nobody will take any.
    is_gone: bool,
}

impl Ring {
    /// A thread that has panicked leaves whole frames behind.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One end.
#[derive(Debug)]
pub struct Loopback {
    capabilities: Capabilities,
    settings: Settings,
    counters: DeviceCounters,
    to: Arc<Ring>,
    from: Arc<Ring>,
    writing: Batch,
    /// Frames that may be written before the ring must be asked again.
    room: usize,
    reading: Batch,
    next: usize,
    /// The other end is no more.
    is_alone: bool,
}

/// Both ends of a wire; their link addresses end with 1 and 2.
pub fn pair(settings: &Settings) -> (Loopback, Loopback) {
    let rings = [Arc::<Ring>::default(), Arc::<Ring>::default()];
    let end = |last: u8, to: &Arc<Ring>, from: &Arc<Ring>| Loopback {
        capabilities: Capabilities {
            name: "loopback".to_owned(),
            mac: [2, 0, 0, 0, 0, last],
            mtu_bytes: settings.mtu_bytes,
            frame_max_bytes: if settings.segments {
                ethernet::HEADER_BYTES as u32 + u32::from(u16::MAX)
            } else {
                ethernet::HEADER_BYTES as u32 + u32::from(settings.mtu_bytes)
            },
            segments: settings.segments,
            checksums: settings.checksums,
        },
        settings: settings.clone(),
        counters: DeviceCounters::default(),
        to: Arc::clone(to),
        from: Arc::clone(from),
        writing: Batch::default(),
        room: settings.ring_frames,
        reading: Batch::default(),
        next: 0,
        is_alone: false,
    };
    let [one, two] = &rings;
    (end(1, two, one), end(2, one, two))
}

/// What the receiver is told of what the sender has left undone.
fn arriving(meta: &TxMeta) -> RxMeta {
    RxMeta {
        checksum: match meta.checksum {
            Some(_) => Checksum::Partial,
            None => Checksum::Unknown,
        },
        segment_bytes: meta.segment_bytes,
        at_ns: 0,
    }
}

impl Loopback {
    /// Hands over what was written, as far as there is room, and asks how much room is left.
    fn hand_over(&mut self) {
        let mut there = self.to.lock();
        self.is_alone = there.is_gone;
        if self.is_alone {
            self.counters.tx_dropped += self.writing.len() as u64;
            self.writing.clear();
            self.room = self.settings.ring_frames;
            return;
        }
        if there.batch.len() == 0 {
            std::mem::swap(&mut there.batch, &mut self.writing);
        } else {
            there.batch.append(&mut self.writing);
        }
        self.room = self.settings.ring_frames.saturating_sub(there.batch.len());
        if there.is_awaited && there.batch.len() > 0 {
            there.is_awaited = false;
            drop(there);
            self.counters.syscalls += 1;
            self.to.arrived.notify_one();
        }
    }

    fn count_sent(&mut self, len: usize) {
        self.counters.tx_frames += 1;
        self.counters.tx_bytes += len as u64;
    }
}

impl Device for Loopback {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        let mut done = 0;
        while done < budget {
            let Some(frame) = self.reading.frame(self.next) else {
                self.reading.clear();
                self.next = 0;
                let mut waiting = self.from.lock();
                if waiting.batch.len() == 0 {
                    break;
                }
                std::mem::swap(&mut waiting.batch, &mut self.reading);
                continue;
            };
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += frame.head.len() as u64;
            sink(frame);
            self.next += 1;
            done += 1;
        }
        Ok(done)
    }

    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        if self.writing.len() >= self.room {
            self.hand_over();
        }
        let is_full = self.room == 0;
        if is_full && self.settings.is_lossless {
            self.counters.tx_full += 1;
            return Ok(false);
        }
        let Some((len, meta)) = fill(self.writing.room(len_max)) else {
            return Ok(true);
        };
        self.count_sent(len);
        if is_full {
            self.to.lock().dropped += 1;
            return Ok(true);
        }
        self.writing.push(len, arriving(&meta));
        if self.writing.len() >= BATCH {
            self.hand_over();
        }
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.writing.len() > 0 {
            self.hand_over();
        }
        Ok(())
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        if self.next < self.reading.len() {
            return Ok(());
        }
        let until = Instant::now().checked_add(Duration::from_nanos(timeout_ns));
        let mut waiting = self.from.lock();
        while waiting.batch.len() == 0 {
            let left = match until {
                Some(until) => until.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if left.is_zero() {
                break;
            }
            waiting.is_awaited = true;
            self.counters.syscalls += 1;
            let woken = self.from.arrived.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        waiting.is_awaited = false;
        Ok(())
    }

    fn counters(&self) -> DeviceCounters {
        DeviceCounters {
            rx_dropped: self.from.lock().dropped,
            ..self.counters
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        // Last words, such as the resets of a stack that ends.
        self.hand_over();
        let mut waiting = self.from.lock();
        waiting.is_gone = true;
        waiting.batch.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(end: &mut Loopback, byte: u8, len: usize) -> bool {
        let meta = TxMeta::default();
        end.transmit(len, &mut |room| {
            room[..len].fill(byte);
            Some((len, meta))
        })
        .expect("there")
    }

    fn take(end: &mut Loopback, budget: usize) -> Vec<(u8, usize)> {
        let mut taken = Vec::new();
        end.receive(budget, &mut |frame| {
            taken.push((frame.head[0], frame.len()))
        })
        .expect("there");
        taken
    }

    #[test]
    fn frames_arrive_in_order_once_flushed() {
        let (mut a, mut b) = pair(&Settings::default());
        assert!(send(&mut a, 1, 60) && send(&mut a, 2, 1_514));
        assert_eq!(take(&mut b, 9), []);
        a.flush().expect("there");
        assert!(send(&mut a, 3, 70));
        a.flush().expect("there");
        assert_eq!(take(&mut b, 1), [(1, 60)]);
        assert_eq!(take(&mut b, 9), [(2, 1_514), (3, 70)]);
        assert_eq!((a.counters().tx_frames, b.counters().rx_bytes), (3, 1_644));
    }

    #[test]
    fn a_full_ring_loses_frames_or_makes_the_sender_wait() {
        for is_lossless in [false, true] {
            let (mut a, mut b) = pair(&Settings {
                ring_frames: 3,
                is_lossless,
                ..Settings::default()
            });
            let sent: Vec<bool> = (0..5).map(|byte| send(&mut a, byte, 60)).collect();
            assert_eq!(sent, [true, true, true, !is_lossless, !is_lossless]);
            a.flush().expect("there");
            assert_eq!(take(&mut b, 9).len(), 3);
            let dropped = b.counters().rx_dropped;
            assert_eq!(dropped, if is_lossless { 0 } else { 2 });
            assert!(send(&mut a, 9, 60), "there is room again");
            a.flush().expect("there");
            assert_eq!(take(&mut b, 9), [(9, 60)]);
        }
    }

    #[test]
    fn an_end_that_has_gone_takes_frames_for_ever() {
        let (mut a, b) = pair(&Settings {
            ring_frames: 2,
            is_lossless: true,
            ..Settings::default()
        });
        drop(b);
        assert!((0..9).all(|_| {
            let taken = send(&mut a, 1, 60);
            a.flush().expect("there");
            taken
        }));
        assert_eq!(a.counters().tx_dropped, 9);
        a.wait(1_000).expect("it ends after its time");
    }

    #[test]
    fn what_is_left_undone_is_told() {
        let (mut a, mut b) = pair(&Settings::default());
        let meta = TxMeta {
            checksum: Some(crate::frame::PartialChecksum {
                start: 34,
                offset: 16,
            }),
            segment_bytes: 1_448,
            ..TxMeta::default()
        };
        a.transmit(9_000, &mut |_| Some((9_000, meta)))
            .expect("there");
        a.flush().expect("there");
        b.receive(1, &mut |frame| {
            assert_eq!(frame.meta.checksum, Checksum::Partial);
            assert_eq!((frame.meta.segment_bytes, frame.len()), (1_448, 9_000));
        })
        .expect("there");
    }

    #[test]
    fn a_frame_wakes_the_other_thread() {
        let (mut a, mut b) = pair(&Settings::default());
        const MINUTE_NS: u64 = 60_000_000_000;
        let began = Instant::now();
        std::thread::scope(|scope| {
            // Each answers what it gets until a hundred have gone round.
            scope.spawn(move || {
                for byte in 0..100 {
                    assert!(send(&mut a, byte, 60));
                    a.flush().expect("there");
                    a.wait(MINUTE_NS).expect("there");
                    assert_eq!(take(&mut a, 9), [(byte, 61)]);
                }
            });
            scope.spawn(move || {
                for byte in 0..100 {
                    b.wait(MINUTE_NS).expect("there");
                    assert_eq!(take(&mut b, 9), [(byte, 60)]);
                    assert!(send(&mut b, byte, 61));
                    b.flush().expect("there");
                }
            });
        });
        assert!(
            began.elapsed().as_nanos() < u128::from(MINUTE_NS),
            "nobody waited in vain"
        );
    }
}
