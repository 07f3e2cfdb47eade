//! How long a busy closed loop lets responses gather before it looks for them.
//!
//! A generator that sleeps in `epoll_wait` is woken by every single response, and the *server* pays for the
//! wake-up: beside nginx on one core each, nginx's own CPU per request was 10 % dearer than under wrk, which
//! hardly sleeps because it is nearly full itself. Sleeping by the clock first lets a few responses gather,
//! and the server works undisturbed. The price is that a response may wait for us.
//!
//! So it is done only while the server is known to be full. Then every request waits for the server, which has others
//! to serve meanwhile: the rate is the server's, and Little's law fixes the mean response time whatever we do. A server
//! with room gets its next request later by as much as its response waited, and looks slower than it is; how densely
//! responses come does not tell one from the other. From this side a full server could be told only by trying (does
//! the rate fall with a pause, does it rise without?), against the noise of a shared machine and for a difference of a
//! few per cent. From outside it is plain: its threads have no time off. So whoever watches the server's processes says
//! it ([`super::Running::set_server_full`]); a server that is not watched, on another host or of another user, is not
//! known to be full, and there is no pause. Even then the pause is a small part of the service time, responses must
//! come densely, and an open loop never pauses. What was paused stands in the result.

/// The longest pause.
const PAUSE_MAX_NS: u64 = 50_000;
/// Shorter than this a sleep costs more than the wake-ups that it saves.
const PAUSE_MIN_NS: u64 = 10_000;
/// A pause is at most this part of the mean service time.
const PART: u64 = 16;
/// With responses further apart on average there is nothing to gather.
const GAP_MAX_NS: u64 = 40_000;
/// Weight of the newest value in the running means is 1/64.
const WEIGHT: u64 = 64;

/// Running means of service time and of the gap between responses, and the pause that follows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coalesce {
    service_ns: u64,
    gap_ns: u64,
    last_at: u64,
}

impl Coalesce {
    /// Takes note of a response at `at` to a request sent at `sent_at`.
    #[inline]
    pub fn observe(&mut self, sent_at: u64, at: u64) {
        mean(&mut self.service_ns, at.saturating_sub(sent_at));
        mean(&mut self.gap_ns, at.saturating_sub(self.last_at));
        self.last_at = at;
    }

    /// How long to pause before the next look; `None` when it is not worth it.
    #[inline]
    pub fn pause_ns(&self) -> Option<u64> {
        let pause = (self.service_ns / PART).min(PAUSE_MAX_NS);
        (pause >= PAUSE_MIN_NS && self.gap_ns <= GAP_MAX_NS).then_some(pause)
    }
}

#[inline]
fn mean(mean: &mut u64, value: u64) {
    *mean = *mean - *mean / WEIGHT + value / WEIGHT;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pause after many responses of `service_ns`, `gap_ns` apart.
    fn after(service_ns: u64, gap_ns: u64) -> Option<u64> {
        let mut coalesce = Coalesce::default();
        for i in 1..=3_000 {
            let at = service_ns + i * gap_ns;
            coalesce.observe(at - service_ns, at);
        }
        coalesce.pause_ns()
    }

    #[test]
    fn a_pause_is_a_small_part_of_the_service_time() {
        let pause = after(400_000, 20_000).unwrap();
        assert!((24_000..=25_000).contains(&pause), "{pause}");
        assert_eq!(after(1_300_000, 20_000), Some(PAUSE_MAX_NS));
    }

    #[test]
    fn no_pause_where_it_would_show() {
        assert_eq!(Coalesce::default().pause_ns(), None);
        // One connection to a fast server: every microsecond is in its latency.
        assert_eq!(after(60_000, 60_000), None);
        // Ten connections to a server that takes a millisecond and is not full.
        assert_eq!(after(1_000_000, 100_000), None);
    }
}
