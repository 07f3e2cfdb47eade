//! The streams of a load of server-sent events: whether a response is one, what has come on each, and when.
//!
//! To the loop a request is one event that is awaited. The first of a connection carries the bytes that ask for the
//! stream, those behind it carry none: [`super::exchange`] awaits the next event as soon as one has come. An event has
//! no latency, because only its server knows when it was sent; what is counted here is the gap between two of a stream.

use super::LoadError;
use crate::event_stream::{Came, Reader};
use crate::transport::{Detail, Failure, Slot};
use http1::{Excerpt, for_each_field};
use record::{EventStreams, FailureKind, Http, LoadSpec, Nanos};

pub(super) const MEDIA_TYPE: &str = "text/event-stream";

/// Refuses what has no sense for a load of server-sent events, or is not there yet.
pub(super) fn check_spec(spec: &LoadSpec) -> Result<(), LoadError> {
    let refused = |what, why, remedy| Err(LoadError::Sse { what, why, remedy });
    match spec {
        LoadSpec { sse: false, .. } => Ok(()),
        spec if spec.is_websocket() => refused(
            "a ws:// URL",
            "a WebSocket carries messages and no stream of events",
            "give an http:// or https:// URL, or leave out --sse",
        ),
        LoadSpec {
            http: Http::Two, ..
        } => refused(
            "HTTP/2",
            "this version reads streams of events over HTTP/1.1 alone",
            "leave out --http 2 and --grpc: a server of HTTP/2 nearly always takes HTTP/1.1 too",
        ),
        spec if spec.arrival.offered_per_s().is_some() => refused(
            "a rate",
            "its server says when an event comes, and no clock of the generator's",
            "leave out --rate, --replay and --arrivals: -c says how many streams are open",
        ),
        LoadSpec { pipeline: 2.., .. } => refused(
            "pipelined requests",
            "the first response does not end",
            "use more --connections in place of --pipeline",
        ),
        LoadSpec {
            requests_per_connection: Some(_),
            ..
        } => refused(
            "a number of requests per connection",
            "a connection has one, and its stream lasts for as long as the server lets it",
            "leave out --requests-per-connection",
        ),
        spec if spec.workload.is_some() || spec.think.is_some() => refused(
            "a workload, several URLs or time to think",
            "every connection asks for the same stream, once",
            "give one URL, and headers by -H",
        ),
        spec if spec.method == "HEAD" => refused(
            "the method HEAD",
            "its response has no content, and events are content",
            "leave out --method",
        ),
        spec if !spec.habits.is_none() => refused(
            "another tool's place",
            "that tool does not await events",
            "use prony load",
        ),
        _ => Ok(()),
    }
}

/// One connection's stream.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    reader: Reader,
    /// The response has said that it is a stream of events.
    is_open: bool,
    /// The slot has had a stream.
    had_one: bool,
    /// When the last event came; 0 before the first.
    last_at: u64,
}

/// All of a load thread's streams; see the module.
pub(super) struct Streams {
    lines: Vec<Line>,
    counted: EventStreams,
}

impl Streams {
    /// None open on so many slots.
    pub fn new(slots: u32) -> Self {
        Streams {
            lines: vec![Line::default(); slots as usize],
            counted: EventStreams::default(),
        }
    }

    /// The slot has a new connection.
    pub fn renew(&mut self, slot: Slot) {
        let line = &mut self.lines[slot as usize];
        *line = Line {
            had_one: line.had_one,
            ..Line::default()
        };
    }

    /// A piece of a response's content; what it holds is added to `came`.
    #[inline]
    pub fn feed(&mut self, slot: Slot, piece: &[u8], came: &mut Came) {
        let fed = self.lines[slot as usize].reader.feed(piece);
        came.events += fed.events;
        came.comments += fed.comments;
    }

    /// A response's head has come.
    ///
    /// # Errors
    /// Why it is no stream of events.
    pub fn open(&mut self, slot: Slot, status: u16, head: &[u8]) -> Result<(), Failure> {
        check(status, head)?;
        let line = &mut self.lines[slot as usize];
        self.counted.opened += 1;
        self.counted.reopened += u64::from(line.had_one);
        (line.is_open, line.had_one) = (true, true);
        Ok(())
    }

    /// An event came at `at` that was awaited since `since`; `counts`: in the measured part.
    #[inline]
    pub fn note_event(&mut self, slot: Slot, since: u64, at: u64, counts: bool) {
        let line = &mut self.lines[slot as usize];
        match std::mem::replace(&mut line.last_at, at) {
            0 => (self.counted.first_event).record(Nanos(at.saturating_sub(since))),
            last if counts => self.counted.gap.record(Nanos(at.saturating_sub(last))),
            _ => {}
        }
    }

    /// Comments came in the measured part.
    #[inline]
    pub fn note_comments(&mut self, comments: u64) {
        self.counted.comments += comments;
    }

    /// The response is whole, or the server has ended it; `awaited`: an event is.
    ///
    /// # Errors
    /// Why that is not the proper end of a stream.
    pub fn end(&mut self, slot: Slot, awaited: bool) -> Result<(), Failure> {
        let line = &self.lines[slot as usize];
        if line.reader.is_mid_event() && awaited {
            let text = "the server ended the stream in the middle of an event";
            return Err(Failure::text(FailureKind::Truncated, text));
        }
        if line.last_at == 0 {
            let text = "the server ended the stream before its first event";
            return Err(Failure::text(FailureKind::ClosedEarly, text));
        }
        self.counted.ended += 1;
        Ok(())
    }

    /// The connection is closed; returns how long the server wants its stream to stay away, ns.
    pub fn close(&mut self, slot: Slot) -> u64 {
        let line = &mut self.lines[slot as usize];
        line.is_open = false;
        let retry_ms = line.reader.retry_ms().unwrap_or(0);
        retry_ms.saturating_mul(Nanos::MILLI.0)
    }

    /// What was counted, with the streams that are open now.
    pub fn counted(&self) -> EventStreams {
        EventStreams {
            open: self.lines.iter().filter(|line| line.is_open).count() as u64,
            ..self.counted.clone()
        }
    }
}

/// Whether a response is a stream of events (WHATWG HTML 9.2.3): the status is 200 and the type `text/event-stream`. A
/// compressed one is not read, and was not asked for.
fn check(status: u16, head: &[u8]) -> Result<(), Failure> {
    let refused = |kind, detail| Err(Failure { kind, detail });
    match status {
        200 => {}
        400..500 => return refused(FailureKind::Status4xx, Detail::Status(status)),
        500.. => return refused(FailureKind::Status5xx, Detail::Status(status)),
        _ => return refused(FailureKind::NotEventStream, Detail::Status(status)),
    }
    // Of several the last counts, as for a browser. It has just been read as a head.
    let mut wrong = Some(Detail::Text("the response has no content type"));
    let mut coded = None;
    let _ = for_each_field(head, |name, value| {
        let said = |what| Some(Detail::Header(what, Excerpt::of(value)));
        if name.eq_ignore_ascii_case("content-type") {
            let end = value.iter().position(|byte| *byte == b';');
            let media = value[..end.unwrap_or(value.len())].trim_ascii();
            let is_events = media.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes());
            wrong = said("content type").filter(|_| !is_events);
        }
        if name.eq_ignore_ascii_case("content-encoding") {
            let is_none = value.eq_ignore_ascii_case(b"identity");
            coded = said("content encoding").filter(|_| !is_none);
        }
    });
    match wrong.or(coded) {
        Some(detail) => refused(FailureKind::NotEventStream, detail),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_status_200_its_type_and_no_coding() {
        for (status, fields, expected) in [
            (200, "Content-Type: text/event-stream", None),
            (200, "content-type: TEXT/Event-Stream ; charset=utf-8", None),
            (
                200,
                "Content-Type: text/event-stream\r\nContent-Encoding: identity",
                None,
            ),
            (
                200,
                "Content-Type: text/event-streams",
                Some("content type"),
            ),
            (200, "Content-Type: text/html", Some("text/html")),
            (200, "X: y", Some("no content type")),
            (
                200,
                "Content-Encoding: gzip\r\nContent-Type: text/event-stream",
                Some("content encoding is gzip"),
            ),
            (204, "Content-Type: text/event-stream", Some("204")),
            (302, "Content-Type: text/event-stream", Some("302")),
        ] {
            let head = format!("HTTP/1.1 {status} X\r\n{fields}\r\n\r\n");
            let failure = check(status, head.as_bytes()).err();
            assert_eq!(failure.is_some(), expected.is_some(), "{head}");
            if let (Some(failure), Some(words)) = (failure, expected) {
                let said = failure.detail.to_string();
                assert_eq!(failure.kind, FailureKind::NotEventStream);
                assert!(said.contains(words), "{said}");
            }
        }
        let kind = |status| check(status, b"").unwrap_err().kind;
        assert_eq!(kind(404), FailureKind::Status4xx);
        assert_eq!(kind(503), FailureKind::Status5xx);
    }
}
