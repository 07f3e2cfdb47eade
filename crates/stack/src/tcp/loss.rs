//! The block that a flow gets when something was lost, came out of order or met congestion, and gives back afterwards.
//!
//! Sender: the scoreboard of RFC 6675 as ranges instead of segments, and what CUBIC remembers. Receiver: the ranges
//! that came out of order; their bytes are in [`super::reassembly`].

use super::flow::{Flow, NONE, bit};
use super::ranges::Ranges;
use super::seq::{before, distance, earlier, later};

/// The block.
#[derive(Clone, Debug)]
pub struct Loss {
    /// What the peer has beyond `snd_una`.
    pub sacked: Ranges,
    /// Recovery is over when this is acknowledged (RFC 6675 RecoveryPoint, RFC 6582 recover).
    pub recover: u32,
    /// One after the highest number sent again in this recovery (RFC 6675 HighRxt).
    pub high_rxt: u32,
    /// `snd_max` when the oldest hole was last sent again.
    pub head_mark: u32,
    /// What is here beyond `rcv_nxt`.
    pub out_of_order: Ranges,
    /// First byte of the latest segment that came out of order: its range is reported first (RFC 2018 4).
    pub latest: u32,
    /// First chunk of the kept bytes.
    pub chunks_first: u32,
    /// Last chunk.
    pub chunks_last: u32,
    /// Number of the peer's FIN when it has come too early.
    pub fin_at: Option<u32>,
    /// See [`super::congestion`].
    pub cubic: Cubic,
    /// A timeout of which it is not known yet whether it was needed.
    pub doubt: Option<Doubt>,
}

/// What a timeout has taken away, until it is known whether anything was lost (RFC 5682, F-RTO; RFC 3522, Eifel).
#[derive(Clone, Copy, Debug)]
pub struct Doubt {
    /// When, in the clock of timestamps.
    pub at_ms: u32,
    /// One after the highest number that was out.
    pub high: u32,
    /// One after what was sent again; known once payload beyond `high` was sent to find out (RFC 5682 2.1 step 2b).
    pub again_until: Option<u32>,
    /// Congestion window before it.
    pub cwnd: u32,
    /// End of slow start before it.
    pub ssthresh: u32,
    /// CUBIC before it.
    pub cubic: Cubic,
}

/// What CUBIC remembers from one loss to the next (RFC 9438 4.1). Windows in segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cubic {
    /// Window before the last reduction.
    pub w_max: f32,
    /// Seconds from the beginning of the epoch until the window is `w_max` again.
    pub k: f32,
    /// What Reno would have.
    pub w_est: f32,
    /// Window at the beginning of the epoch.
    pub begin: f32,
    /// When the epoch began, microseconds; `None` until the first acknowledgement after a reduction.
    pub epoch_at: Option<u32>,
}

impl Default for Loss {
    fn default() -> Self {
        Loss {
            sacked: Ranges::default(),
            recover: 0,
            high_rxt: 0,
            head_mark: 0,
            out_of_order: Ranges::default(),
            latest: 0,
            chunks_first: NONE,
            chunks_last: NONE,
            fin_at: None,
            cubic: Cubic::default(),
            doubt: None,
        }
    }
}

/// A hole to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Its first number.
    pub from: u32,
    /// One after its last.
    pub to: u32,
}

impl Loss {
    /// Something above `seq` has arrived that makes it lost (RFC 6675 4, IsLost): `threshold` ranges, or more than
    /// `threshold` - 1 segments of bytes.
    fn is_lost(&self, seq: u32, mss: u32, threshold: u32) -> bool {
        let above = self.sacked.all().iter().filter(|(_, b)| before(seq, *b));
        let (ranges, bytes) = above.fold((0, 0u32), |(n, sum), (a, b)| {
            (n + 1, sum + b.wrapping_sub(*a))
        });
        ranges >= threshold || bytes > (threshold - 1) * mss
    }

    /// The oldest byte that is not acknowledged is lost.
    pub fn head_is_lost(&self, flow: &Flow, threshold: u32) -> bool {
        !self.sacked.is_empty() && self.is_lost(flow.snd_una, u32::from(flow.mss), threshold)
    }

    /// The oldest hole was sent again, and what was sent after that arrives without it: it was lost once more. RFC 6675
    /// leaves this to the timeout; the idea is that of RFC 8985 (RACK), with the order of sending in place of times.
    pub fn head_is_lost_again(&self, flow: &Flow, threshold: u32) -> bool {
        let was_sent_again = before(flow.snd_una, self.high_rxt);
        let later_bytes = self
            .sacked
            .all()
            .iter()
            .map(|(a, b)| distance(later(*a, self.head_mark), *b));
        was_sent_again && later_bytes.sum::<u32>() > (threshold - 1) * u32::from(flow.mss)
    }

    /// One after the highest number that is lost: everything not sacked below it is lost as well.
    fn lost_until(&self, una: u32, mss: u32, threshold: u32) -> u32 {
        let (mut ranges, mut bytes) = (0, 0u32);
        for (a, b) in self.sacked.all().iter().rev() {
            ranges += 1;
            bytes += b.wrapping_sub(*a);
            if ranges >= threshold || bytes > (threshold - 1) * mss {
                return *a;
            }
        }
        una
    }

    /// Bytes in the network (RFC 6675 4, SetPipe).
    pub fn pipe(&self, flow: &Flow, threshold: u32) -> u32 {
        let lost_until = self.lost_until(flow.snd_una, u32::from(flow.mss), threshold);
        let mut pipe = 0;
        let mut from = flow.snd_una;
        let ends = [(flow.snd_max, flow.snd_max)];
        for (a, b) in self.sacked.all().iter().chain(&ends) {
            // The hole [from, a): what is not lost is out there, and what was sent again is so as well.
            pipe += distance(later(from, lost_until), *a);
            pipe += distance(from, earlier(self.high_rxt, *a));
            from = *b;
        }
        pipe
    }

    /// What to send again next (RFC 6675 4, NextSeg rule 1).
    pub fn next_hole(&self, flow: &Flow, threshold: u32) -> Option<Hole> {
        let mut from = later(self.high_rxt, flow.snd_una);
        if let Some((_, end)) = self.sacked.holding(from) {
            from = end;
        }
        let (to, _) = self.sacked.after(from)?;
        let is_lost = self.is_lost(from, u32::from(flow.mss), threshold);
        is_lost.then_some(Hole { from, to })
    }

    /// Nothing in it is needed any more.
    pub fn is_idle(&self, flow: &Flow, keeps_cubic: bool) -> bool {
        self.sacked.is_empty()
            && self.out_of_order.is_empty()
            && self.fin_at.is_none()
            && self.doubt.is_none()
            && !flow.has(bit::RECOVERY)
            && !before(flow.snd_una, self.recover)
            && !keeps_cubic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow {
            snd_una: 1_000,
            snd_nxt: 11_000,
            snd_max: 11_000,
            mss: 1_000,
            ..Flow::default()
        }
    }

    fn board(sacked: &[(u32, u32)], high_rxt: u32) -> Loss {
        let mut loss = Loss {
            high_rxt,
            ..Loss::default()
        };
        for (a, b) in sacked {
            loss.sacked.insert(*a, *b);
        }
        loss
    }

    #[test]
    fn pipe_counts_what_is_neither_lost_nor_here() {
        let check = |sacked: &[(u32, u32)], high_rxt, expected| {
            assert_eq!(
                board(sacked, high_rxt).pipe(&flow(), 3),
                expected,
                "{sacked:?}"
            );
        };
        check(&[], 1_000, 10_000);
        // Two segments above: nothing is lost yet.
        check(&[(2_000, 4_000)], 1_000, 8_000);
        // Three: the first is lost, and in the network again once it was sent again.
        check(&[(2_000, 5_000)], 1_000, 6_000);
        check(&[(2_000, 5_000)], 2_000, 7_000);
        // By ranges: 1000, 3000 and 5000 lost below three ranges; the hole below two is not.
        check(
            &[(2_000, 2_500), (4_000, 4_500), (6_000, 6_500)],
            1_000,
            7_500,
        );
    }

    #[test]
    fn holes_come_in_order_and_only_when_lost() {
        let next = |sacked: &[(u32, u32)], high_rxt| {
            board(sacked, high_rxt)
                .next_hole(&flow(), 3)
                .map(|hole| (hole.from, hole.to))
        };
        assert_eq!(next(&[(2_000, 4_000)], 1_000), None);
        assert_eq!(next(&[(2_000, 5_000)], 1_000), Some((1_000, 2_000)));
        assert_eq!(next(&[(2_000, 5_000)], 2_000), None);
        let two = [(2_000, 3_000), (4_000, 8_000)];
        assert_eq!(next(&two, 1_000), Some((1_000, 2_000)));
        assert_eq!(next(&two, 2_000), Some((3_000, 4_000)));
        assert_eq!(next(&two, 4_000), None);
    }

    /// The scoreboard of ranges against one of single bytes, as RFC 6675 words it.
    #[test]
    fn pipe_is_that_of_a_scoreboard_of_bytes() {
        let mut random = crate::random::Random::new(99);
        for round in 0..20_000 {
            let base = random.next_u32();
            let at = |n: u32| base.wrapping_add(n);
            let (len, mss, threshold) = (40, 1 + random.below(4) as u16, 3);
            let mut sacked = [false; 40];
            let mut loss = Loss::default();
            for _ in 0..random.below(6) {
                let a = 1 + random.below(38);
                let b = (a + 1 + random.below(6)).min(40);
                sacked[a as usize..b as usize].fill(true);
                loss.sacked.insert(at(a), at(b));
            }
            let rxt = random.below(40);
            loss.high_rxt = at(rxt);
            let flow = Flow {
                snd_una: base,
                snd_max: at(len),
                mss,
                ..Flow::default()
            };
            let mut pipe = 0;
            for n in (0..40usize).filter(|n| !sacked[*n]) {
                let above = &sacked[n..];
                let bytes = above.iter().filter(|s| **s).count() as u32;
                let ranges = above.windows(2).filter(|w| !w[0] && w[1]).count() as u32;
                let is_lost = ranges >= threshold || bytes > (threshold - 1) * u32::from(mss);
                pipe += u32::from(!is_lost) + u32::from((n as u32) < rxt);
            }
            assert_eq!(loss.pipe(&flow, threshold), pipe, "round {round}");
        }
    }
}
