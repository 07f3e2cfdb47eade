//! Requests that share a connection, as the streams of HTTP/2 and pipelined requests do: the server's side follows
//! connections, so that a turn there holds several of them and is none.
//!
//! What can be told of such a request is the CPU time that it took and its time in servers behind that have a turn for
//! each. The rest of its mean is one row that says that it is not told apart.

use super::latency::{LONG_WAY_NS, LatencyCase, Part, Which, total_ns};
use record::{LoadOutcome, Place, TargetTurns, TurnAccount};
use std::collections::BTreeSet;

/// More requests than turns by this factor are no edge of the window.
const MORE: f64 = 1.25;

impl LatencyCase<'_> {
    /// The load whose requests share connections to a target; `None` where each has its turns for itself.
    pub(super) fn sharing(&self, turns: &TargetTurns) -> Option<&LoadOutcome> {
        let front = self.examination.servers.first()?;
        let load = self.turns.load.as_ref()?;
        let most = (turns.account.turns + self.turns.lost) as f64 * self.one_in() * MORE;
        (front.target == turns.target && load.requests.completed as f64 > most).then_some(load)
    }

    /// Parts of the time of all requests of such a load, and how many requests.
    pub(super) fn shared_parts(&self, turns: &TargetTurns, load: &LoadOutcome) -> (Vec<Part>, f64) {
        let n = load.requests.completed as f64;
        let all_ns = load.response.mean_ns().unwrap_or(0.0) * n;
        let sampled = self.one_in();
        let ran = TurnAccount {
            places: (turns.account.places.iter())
                .filter(|p| p.place == Place::OnCpu)
                .cloned()
                .collect(),
            ..turns.account.clone()
        };
        let mut parts = self.parts(turns, &ran, Which::All, 0);
        let ran_ns = total_ns(&parts);
        let mut behind = self.all_behind(turns);
        // Turns that run side by side take longer together than the request that waits for them.
        let room = (all_ns / sampled - ran_ns).max(0.0) / total_ns(&behind).max(1.0);
        for part in &mut behind {
            part.ns *= room.min(1.0);
        }
        parts.append(&mut behind);
        for part in &mut parts {
            part.ns *= sampled;
        }
        let rest = all_ns - total_ns(&parts);
        if rest > 0.0 {
            let label =
                "not visible: requests that share a connection, in the server and on the way";
            let own = rest / n < LONG_WAY_NS;
            parts.push(Part::outside("shared", label.to_owned(), own, rest));
        }
        (parts, n)
    }

    /// The whole time of the turns of servers behind that were traced.
    fn all_behind(&self, turns: &TargetTurns) -> Vec<Part> {
        let peers = turns.account.places.iter();
        let peers: BTreeSet<&str> = peers
            .filter(|p| p.place == Place::Upstream)
            .map(|p| p.detail.as_str())
            .collect();
        let mut seen = BTreeSet::new();
        let mut parts = Vec::new();
        for address in peers {
            let Some((server, theirs)) = self.traced_at(turns, address) else {
                continue;
            };
            if seen.insert(server.target.as_str()) {
                let ns = theirs.account.total_ns as f64;
                parts.extend(self.behind(turns, address, ns, (Which::All, 0), false));
            }
        }
        parts
    }
}
