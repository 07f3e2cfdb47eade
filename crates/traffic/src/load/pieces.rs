//! Counts of one load thread by the pieces of a rate that changes: a request belongs to the piece that it was due in.
//!
//! [`super::tally::Tally`] asks only where it counts by name, so that a load at one rate does not pay for it.

use super::outcome::by_kind;
use super::tally::{Counts, LATE_NS, Request};
use record::{FailureKind, LoadSpec, Nanos, PieceOutcome};

/// One thread's counts by piece; empty for a rate that does not change.
#[derive(Clone, Default)]
pub(crate) struct Pieces {
    /// The measured part begins.
    from: u64,
    pieces: Vec<Piece>,
}

#[derive(Clone)]
struct Piece {
    /// Its end, from the begin of the measured part on.
    until: u64,
    late: u64,
    dropped: u64,
    counts: Counts,
}

impl Pieces {
    /// All zero.
    pub fn of(spec: &LoadSpec) -> Self {
        let mut until = 0_u64;
        let pieces = spec.rate_pieces.0.iter().map(|piece| {
            until = until.saturating_add(piece.duration.0);
            Piece {
                until,
                late: 0,
                dropped: 0,
                counts: Counts::default(),
            }
        });
        Pieces {
            from: 0,
            pieces: pieces.collect(),
        }
    }

    /// Nothing is counted.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The measured part begins at this time.
    pub fn begin(&mut self, from: u64) {
        self.from = from;
    }

    /// The piece that is under way at a time; behind the last one it is still that.
    fn at(&mut self, scheduled_at: u64) -> Option<&mut Piece> {
        let since = scheduled_at.saturating_sub(self.from);
        let at = self.pieces.partition_point(|piece| piece.until <= since);
        let last = self.pieces.len().checked_sub(1)?;
        self.pieces.get_mut(at.min(last))
    }

    /// A measured request was sent.
    pub fn sent(&mut self, request: Request) {
        if let Some(piece) = self.at(request.scheduled_at) {
            piece.counts.sent += 1;
            piece.late += u64::from(request.sent_at > request.scheduled_at + LATE_NS);
        }
    }

    /// A measured request that was due at this time was given up unsent.
    pub fn dropped(&mut self, scheduled_at: u64) {
        if let Some(piece) = self.at(scheduled_at) {
            piece.dropped += 1;
        }
    }

    /// A measured request was answered after `response`.
    pub fn answered(&mut self, request: Request, failed: Option<FailureKind>, response: Nanos) {
        if let Some(piece) = self.at(request.scheduled_at) {
            piece.counts.answered(failed, response);
        }
    }

    /// A measured request failed without a response.
    pub fn failed(&mut self, request: Request, kind: FailureKind) {
        if let Some(piece) = self.at(request.scheduled_at) {
            piece.counts.failed[kind as usize] += 1;
        }
    }

    /// Adds another thread's counts.
    pub fn merge(&mut self, other: &Pieces) {
        if self.pieces.is_empty() {
            self.clone_from(other);
            return;
        }
        for (ours, theirs) in self.pieces.iter_mut().zip(&other.pieces) {
            ours.late += theirs.late;
            ours.dropped += theirs.dropped;
            ours.counts.merge(&theirs.counts);
        }
    }

    /// The pieces that began within a measured part of this length.
    pub fn outcomes(self, measured: Nanos) -> Vec<PieceOutcome> {
        let mut from = 0;
        let last = self.pieces.len().saturating_sub(1);
        let outcomes = self.pieces.into_iter().enumerate().map(|(i, piece)| {
            let to = match i == last {
                true => measured.0,
                false => piece.until.min(measured.0),
            };
            let begins = std::mem::replace(&mut from, piece.until);
            let counts = piece.counts;
            PieceOutcome {
                from: Nanos(begins),
                to: Nanos(to),
                sent: counts.sent,
                late: piece.late,
                dropped: piece.dropped,
                completed: counts.completed,
                succeeded: counts.succeeded,
                failed: by_kind(&counts.failed),
                response: counts.response,
            }
        });
        outcomes.filter(|piece| piece.from < piece.to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{RatePiece, RatePieces};

    #[test]
    fn a_request_belongs_to_the_piece_that_it_was_due_in() {
        let piece = |per_s, ns| RatePiece {
            from_per_s: per_s,
            to_per_s: per_s,
            duration: Nanos(ns),
        };
        let mut spec = LoadSpec::new("");
        spec.rate_pieces = RatePieces(vec![piece(1.0, 100), piece(2.0, 50), piece(3.0, 10)]);
        let mut pieces = Pieces::of(&spec);
        pieces.begin(1_000);
        let due = |scheduled_at, sent_at| Request {
            scheduled_at,
            sent_at,
            ..Request::default()
        };
        for at in [1_000, 1_099, 1_100, 1_149, 1_150, 9_000] {
            pieces.sent(due(at, at + LATE_NS + u64::from(at == 1_100)));
        }
        pieces.answered(due(1_099, 1_099), None, Nanos(7));
        pieces.answered(due(1_100, 1_100), Some(FailureKind::Status5xx), Nanos(7));
        pieces.failed(due(1_149, 1_149), FailureKind::Timeout);
        pieces.dropped(1_120);
        let mut both = Pieces::default();
        both.merge(&pieces);
        both.merge(&pieces);
        let found = both.clone().outcomes(Nanos(500));
        let sent: Vec<_> = found.iter().map(|p| (p.from.0, p.to.0, p.sent)).collect();
        assert_eq!(sent, [(0, 100, 4), (100, 150, 4), (150, 500, 4)]);
        assert_eq!((found[0].succeeded, found[0].response.count()), (2, 2));
        assert_eq!(
            (found[1].late, found[1].dropped, found[1].failures()),
            (2, 2, 4)
        );
        assert_eq!(found[1].achieved_per_s(), None);
        assert_eq!(found[0].achieved_per_s(), Some(2.0 / 100e-9));
        let short = both.outcomes(Nanos(120));
        assert_eq!(short.len(), 2, "the third never began");
        assert_eq!(short[1].to, Nanos(120));
    }
}
