//! Segments of a captured flow back to what both sides sent: retransmissions dropped, disorder undone, in turns.
//!
//! The surprise: a capture may show an answer before the last segment of its question, because it was taken on several
//! queues. What a segment acknowledges was received before it was sent, so turns follow the acknowledgements first and
//! the clock second. A flow without its handshake, its end or some of its bytes is refused: a replay of half a flow
//! would wait for what never comes.

use super::pcap::{Capture, Segment};
use record::traffic::{Data, Step};
use record::{Close, Nanos};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Pauses below this are the network's and not the programs'.
const SHORTEST_PAUSE_NS: u64 = 1_000_000;
/// Flows that a message lists.
const LISTED: usize = 6;

/// Bytes that were new when they came, or the end of a side.
struct Piece {
    /// Time, and place in the file where the clock was too coarse.
    at: (u64, usize),
    /// Bytes of the other side that had arrived before these were sent.
    needs: u64,
    what: What,
}

enum What {
    Bytes(Vec<u8>),
    Closes(Close),
}

/// One direction while it is put together.
#[derive(Default)]
struct Direction {
    /// Sequence number of its first byte, when its SYN was seen.
    first: Option<u32>,
    /// Bytes that are there without a gap.
    next: u64,
    /// What came before its turn, by offset: bytes, the needs and the end that stood with it.
    early: BTreeMap<u64, (Vec<u8>, u64, bool)>,
    pieces: Vec<Piece>,
    is_closed: bool,
    /// Bytes that the other side has acknowledged.
    acknowledged: u64,
}

/// A flow under its two ends.
struct Flow {
    client: SocketAddr,
    server: SocketAddr,
    /// What the client sent, and the server.
    sides: [Direction; 2],
    is_cut: bool,
}

/// Which flow is replayed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Choice {
    /// The only whole one.
    Only,
    /// By its place among all, from 1.
    Number(usize),
    /// The first whole one with this end.
    End(SocketAddr),
}

/// The steps of the chosen flow.
///
/// # Errors
/// Why the capture has no such flow, with the flows that it has.
pub(super) fn steps(
    capture: &Capture,
    choice: &Choice,
    with_pauses: bool,
) -> Result<Vec<Step>, String> {
    let flows = flows(capture);
    if flows.is_empty() {
        return Err(match capture.others {
            0 => "it holds no frame".to_owned(),
            others => format!("it holds no TCP: {others} other frames"),
        });
    }
    let whole = |flow: &&Flow| flow.missing().is_none();
    let chosen = match choice {
        Choice::Number(n) => flows
            .get(n.wrapping_sub(1))
            .ok_or_else(|| format!("it has no flow {n}: {}", listed(&flows)))?,
        Choice::End(end) => {
            let with_it = || {
                flows
                    .iter()
                    .filter(|f| f.client == *end || f.server == *end)
            };
            with_it()
                .find(whole)
                .or_else(|| with_it().next())
                .ok_or_else(|| format!("no flow has the end {end}: {}", listed(&flows)))?
        }
        Choice::Only => {
            let mut all = flows.iter().filter(whole);
            match (all.next(), all.next()) {
                (Some(only), None) => only,
                (None, _) => return Err(format!("it has no whole flow: {}", listed(&flows))),
                (Some(_), Some(_)) => {
                    return Err(format!(
                        "it has several whole flows, choose one with `flow`: {}",
                        listed(&flows)
                    ));
                }
            }
        }
    };
    if let Some(missing) = chosen.missing() {
        return Err(format!("{chosen}: {missing}"));
    }
    Ok(chosen.turns(with_pauses))
}

impl std::fmt::Display for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} > {}", self.client, self.server)
    }
}

fn listed(flows: &[Flow]) -> String {
    let shown = flows.iter().enumerate().take(LISTED).map(|(i, flow)| {
        let state = flow.missing().unwrap_or_else(|| "whole".to_owned());
        format!("{} is {flow} ({state})", i + 1)
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if flows.len() > LISTED {
        text += &format!(", and {} more", flows.len() - LISTED);
    }
    text
}

/// The flows in the order of their first segment. Ports that are used again begin another one.
fn flows(capture: &Capture) -> Vec<Flow> {
    let mut flows: Vec<Flow> = Vec::new();
    let mut by_ends: BTreeMap<(SocketAddr, SocketAddr), usize> = BTreeMap::new();
    for (order, segment) in capture.segments.iter().enumerate() {
        let known = by_ends
            .get(&(segment.from, segment.to))
            .or_else(|| by_ends.get(&(segment.to, segment.from)))
            .copied();
        let begins = segment.syn && segment.acknowledged.is_none();
        let index = match known.filter(|&i| !(begins && flows[i].is_another(segment))) {
            Some(index) => index,
            None => {
                // Without its SYN the side with the smaller port passes for the server.
                let is_server = segment.syn && !begins
                    || !segment.syn && segment.from.port() < segment.to.port();
                let (client, server) = match is_server {
                    true => (segment.to, segment.from),
                    false => (segment.from, segment.to),
                };
                by_ends.remove(&(server, client));
                by_ends.insert((client, server), flows.len());
                flows.push(Flow {
                    client,
                    server,
                    sides: [Direction::default(), Direction::default()],
                    is_cut: false,
                });
                flows.len() - 1
            }
        };
        flows[index].take(order, segment);
    }
    flows
}

impl Flow {
    /// Whether a SYN begins another connection on the same ports, and is not sent again.
    fn is_another(&self, syn: &Segment) -> bool {
        self.sides[usize::from(syn.from == self.server)]
            .first
            .is_none_or(|first| first != syn.sequence.wrapping_add(1))
    }

    fn take(&mut self, order: usize, segment: &Segment) {
        let side = usize::from(segment.from == self.server);
        self.is_cut |= segment.is_cut;
        if let (Some(ack), Some(first)) = (segment.acknowledged, self.sides[1 - side].first) {
            let of_other = &mut self.sides[1 - side];
            let ack = offset(ack, first, of_other.next);
            // The acknowledgement of a FIN counts one more than there are bytes.
            of_other.acknowledged = of_other.acknowledged.max(ack);
        }
        let needs = self.sides[1 - side].first.zip(segment.acknowledged);
        let needs = needs.map_or(0, |(first, ack)| {
            offset(ack, first, self.sides[1 - side].next)
        });
        let direction = &mut self.sides[side];
        if segment.syn {
            direction.first = Some(segment.sequence.wrapping_add(1));
        }
        let Some(first) = direction.first else {
            return;
        };
        let at = segment.sequence.wrapping_add(u32::from(segment.syn));
        if segment.rst {
            direction.close((segment.at_ns, order), needs, Close::Rst);
            return;
        }
        let at = offset(at, first, direction.next);
        direction.put(at, (segment.at_ns, order), segment, needs);
    }

    /// What a replay would lack; `None` for a whole flow.
    fn missing(&self) -> Option<String> {
        let [client, server] = &self.sides;
        let gap = |side: &Direction| side.acknowledged > side.next + u64::from(side.is_closed);
        if self.is_cut {
            return Some("its frames were cut; capture whole ones with `tcpdump -s 0`".to_owned());
        }
        if client.first.is_none() || server.first.is_none() {
            return Some("its handshake is not in the capture".to_owned());
        }
        for (side, whose) in [(client, "client"), (server, "server")] {
            if gap(side) || !side.early.is_empty() {
                return Some(format!("bytes of the {whose} are not in the capture"));
            }
        }
        (!client.is_closed && !server.is_closed).then(|| "its end is not in the capture".to_owned())
    }

    /// Both directions as one list of turns.
    fn turns(&self, with_pauses: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        let (mut at, mut delivered) = ([0_usize; 2], [0_u64; 2]);
        let mut before_ns: Option<u64> = None;
        loop {
            let head = |side: usize| self.sides[side].pieces.get(at[side]);
            let side = match (head(0), head(1)) {
                (None, None) => return steps,
                (Some(_), None) => 0,
                (None, Some(_)) => 1,
                (Some(client), Some(server)) => {
                    let waits = [client.needs > delivered[1], server.needs > delivered[0]];
                    match waits {
                        [true, false] => 1,
                        [false, true] => 0,
                        _ => usize::from(server.at < client.at),
                    }
                }
            };
            let piece = &self.sides[side].pieces[at[side]];
            at[side] += 1;
            let pause_ns = before_ns.map_or(0, |before| piece.at.0.saturating_sub(before));
            before_ns = Some(before_ns.unwrap_or(0).max(piece.at.0));
            if with_pauses && pause_ns >= SHORTEST_PAUSE_NS {
                steps.push(Step::Pause(Nanos(pause_ns)));
            }
            match &piece.what {
                What::Bytes(bytes) => {
                    delivered[side] += bytes.len() as u64;
                    say(&mut steps, side, bytes);
                }
                What::Closes(close) => steps.push(match side {
                    0 => Step::ClientCloses(*close),
                    _ => Step::ServerCloses(*close),
                }),
            }
        }
    }
}

/// Bytes that follow others of the same side belong to them.
fn say(steps: &mut Vec<Step>, side: usize, bytes: &[u8]) {
    match (steps.last_mut(), side) {
        (Some(Step::ClientSends(Data::Bytes(before))), 0)
        | (Some(Step::ServerSends(Data::Bytes(before))), 1) => before.extend_from_slice(bytes),
        (_, 0) => steps.push(Step::ClientSends(Data::Bytes(bytes.to_vec()))),
        _ => steps.push(Step::ServerSends(Data::Bytes(bytes.to_vec()))),
    }
}

/// Bytes from the first one to `sequence`, which is within 2 GiB of the byte `near` (RFC 9293 3.4: modulo 2^32).
fn offset(sequence: u32, first: u32, near: u64) -> u64 {
    let expected = first.wrapping_add(near as u32);
    let distance = i64::from(sequence.wrapping_sub(expected) as i32);
    near.saturating_add_signed(distance)
}

impl Direction {
    fn put(&mut self, at: u64, when: (u64, usize), segment: &Segment, needs: u64) {
        if segment.payload.is_empty() && !segment.fin {
            return;
        }
        // What is there already came again; only what is new counts.
        let known = self
            .next
            .saturating_sub(at)
            .min(segment.payload.len() as u64);
        let (at, bytes) = (at + known, &segment.payload[known as usize..]);
        if at > self.next {
            let held = self.early.entry(at).or_default();
            if bytes.len() >= held.0.len() {
                *held = (bytes.to_vec(), needs, held.2 || segment.fin);
            }
            return;
        }
        self.deliver(
            when,
            needs,
            bytes,
            segment.fin && at + bytes.len() as u64 >= self.next,
        );
        while let Some((&at, _)) = self.early.first_key_value() {
            if at > self.next {
                break;
            }
            let Some((at, (bytes, needs, fin))) = self.early.pop_first() else {
                break;
            };
            let known = (self.next - at).min(bytes.len() as u64) as usize;
            self.deliver(when, needs, &bytes[known..], fin);
        }
    }

    fn deliver(&mut self, at: (u64, usize), needs: u64, bytes: &[u8], fin: bool) {
        if !bytes.is_empty() && !self.is_closed {
            self.next += bytes.len() as u64;
            let what = What::Bytes(bytes.to_vec());
            self.pieces.push(Piece { at, needs, what });
        }
        if fin {
            self.close(at, needs, Close::Fin);
        }
    }

    fn close(&mut self, at: (u64, usize), needs: u64, close: Close) {
        if !self.is_closed {
            self.is_closed = true;
            let what = What::Closes(close);
            self.pieces.push(Piece { at, needs, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pcap::{made, read};
    use super::*;
    use made::Frame;

    fn replay(frames: &[Frame<'_>], with_pauses: bool) -> Result<Vec<Step>, String> {
        steps(
            &read(&made::pcap(frames)).unwrap(),
            &Choice::Only,
            with_pauses,
        )
    }

    fn client(text: &str) -> Step {
        Step::ClientSends(Data::Bytes(text.as_bytes().to_vec()))
    }

    fn server(text: &str) -> Step {
        Step::ServerSends(Data::Bytes(text.as_bytes().to_vec()))
    }

    const OPEN: [Frame<'static>; 3] = [
        (0, true, 0, 0, "S", b""),
        (0, false, 0, 1, "SA", b""),
        (1, true, 1, 1, "A", b""),
    ];

    fn opened(frames: &[Frame<'static>]) -> Vec<Frame<'static>> {
        OPEN.into_iter().chain(frames.iter().copied()).collect()
    }

    #[test]
    fn retransmissions_and_disorder_leave_the_bytes_that_were_said() {
        // The client's sequence numbers pass zero within the question.
        let frames = opened(&[
            (2, true, 1, 1, "A", b"GET /a "),
            (2, true, 1, 1, "A", b"GET /a "),
            (3, true, 16, 1, "A", b"\r\n\r\n"),
            (3, true, 8, 1, "A", b"HTTP/1.1"),
            (5, false, 1, 20, "A", b"HTTP/1.1 "),
            (6, false, 7, 20, "A", b".1 200 OK"),
            (7, true, 20, 16, "FA", b""),
            (7, true, 20, 16, "FA", b""),
            (8, false, 16, 21, "FA", b""),
        ]);
        let said = replay(&frames, false).unwrap();
        assert_eq!(
            said,
            [
                client("GET /a HTTP/1.1\r\n\r\n"),
                server("HTTP/1.1 200 OK"),
                Step::ClientCloses(Close::Fin),
                Step::ServerCloses(Close::Fin),
            ]
        );
    }

    #[test]
    fn an_answer_that_was_captured_before_its_question_follows_it() {
        let frames = opened(&[
            (4, false, 1, 5, "A", b"pong"),
            (4, true, 1, 1, "A", b"ping"),
            (5, false, 5, 5, "FA", b""),
        ]);
        let said = replay(&frames, false).unwrap();
        assert_eq!(said[..2], [client("ping"), server("pong")]);
    }

    #[test]
    fn pauses_are_kept_when_they_are_asked_for() {
        let frames = opened(&[
            (10, true, 1, 1, "A", b"ping"),
            (35, false, 1, 5, "A", b"pong"),
            (35, true, 5, 5, "R", b""),
        ]);
        let said = replay(&frames, true).unwrap();
        assert_eq!(
            said,
            [
                client("ping"),
                Step::Pause(Nanos(25_000_000)),
                server("pong"),
                Step::ClientCloses(Close::Rst),
            ]
        );
    }

    #[test]
    fn half_a_flow_is_refused_with_the_reason() {
        let end: Frame<'static> = (9, true, 5, 5, "FA", b"");
        let data: Frame<'static> = (2, true, 1, 1, "A", b"ping");
        let cases: [(Vec<Frame<'static>>, &str); 4] = [
            (vec![data, end], "its handshake is not in the capture"),
            (opened(&[data]), "its end is not in the capture"),
            (opened(&[end]), "bytes of the client are not in the capture"),
            // The server acknowledges more than the capture has.
            (
                opened(&[data, (3, false, 1, 9, "FA", b"")]),
                "bytes of the client are not in the capture",
            ),
        ];
        for (frames, why) in cases {
            let refused = replay(&frames, false).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert!(
                refused.contains("10.0.0.1:40000 > 10.0.0.2:80"),
                "{refused}"
            );
        }
        assert_eq!(replay(&[], false).unwrap_err(), "it holds no frame");
    }

    #[test]
    fn one_of_several_flows_is_chosen() {
        let whole: Vec<Frame<'static>> = opened(&[(9, true, 1, 1, "FA", b"")]);
        // The same ports again with another initial number.
        let again: Vec<Frame<'static>> = vec![
            (20, true, 7_000, 0, "S", b""),
            (20, false, 7_000, 7_001, "SA", b""),
            (21, true, 7_001, 7_001, "A", b"second"),
            (22, true, 7_007, 7_001, "FA", b""),
        ];
        let frames: Vec<Frame<'static>> = whole.into_iter().chain(again).collect();
        let capture = read(&made::pcap(&frames)).unwrap();
        let refused = steps(&capture, &Choice::Only, false).unwrap_err();
        assert!(refused.contains("several whole flows"), "{refused}");
        let second = steps(&capture, &Choice::Number(2), false).unwrap();
        assert_eq!(second, [client("second"), Step::ClientCloses(Close::Fin)]);
        let end = "10.0.0.2:80".parse().unwrap();
        let first = steps(&capture, &Choice::End(end), false).unwrap();
        assert_eq!(first, [Step::ClientCloses(Close::Fin)]);
        assert!(
            steps(&capture, &Choice::Number(3), false)
                .unwrap_err()
                .contains("no flow 3")
        );
    }
}
