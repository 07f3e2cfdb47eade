//! What happened in a simulated case, for the message of a failed one: a line for each event with its time and its
//! connection.

use crate::transport::Slot;
use std::fmt::{self, Write};

/// Lines that a message shows: the last ones, which lead to what broke.
const SHOWN: usize = 60;

/// What happened on a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// The loop starts to open it.
    Open,
    /// The system has no port for it.
    NoPort,
    /// It is established.
    Opened,
    /// The server refuses it.
    Refused,
    /// The loop sends these bytes of these offered, in which this many requests begin.
    Sent(usize, usize, u64),
    /// The connection is broken: nothing can be sent.
    SendFailed,
    /// The server can take more.
    Writable,
    /// These bytes of a response arrive.
    Arrived(usize),
    /// The server's end arrives.
    End,
    /// The server's reset arrives.
    Reset,
    /// The loop receives these bytes, the last of this many responses among them.
    Received(usize, u64),
    /// The loop receives the end.
    SawEnd,
    /// The loop receives the reset.
    SawReset,
    /// The loop closes it, with so many requests outstanding.
    Closed(u64),
    /// Request number so much is due.
    Due(u64),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            What::Open => f.write_str("loop    opens it"),
            What::NoPort => f.write_str("system  has no local port"),
            What::Opened => f.write_str("server  accepts"),
            What::Refused => f.write_str("server  refuses"),
            What::Sent(taken, offered, requests) => {
                write!(
                    f,
                    "loop    sends {taken} of {offered} bytes, {requests} request(s)"
                )
            }
            What::SendFailed => f.write_str("loop    cannot send: reset by the server"),
            What::Writable => f.write_str("server  takes more"),
            What::Arrived(bytes) => write!(f, "server  responds with {bytes} bytes"),
            What::End => f.write_str("server  closes"),
            What::Reset => f.write_str("server  resets"),
            What::Received(bytes, 0) => write!(f, "loop    receives {bytes} bytes"),
            What::Received(bytes, responses) => {
                write!(
                    f,
                    "loop    receives {bytes} bytes, {responses} response(s) complete"
                )
            }
            What::SawEnd => f.write_str("loop    receives the end"),
            What::SawReset => f.write_str("loop    receives the reset"),
            What::Closed(0) => f.write_str("loop    closes it"),
            What::Closed(outstanding) => {
                write!(
                    f,
                    "loop    closes it with {outstanding} request(s) outstanding"
                )
            }
            What::Due(number) => write!(f, "request {number} is due"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    /// Slot and generation; the schedule's entries have none.
    connection: Option<(Slot, u32)>,
    what: What,
}

/// The events of one case, in order.
#[derive(Debug, Default)]
pub(super) struct Timeline(Vec<Entry>);

impl Timeline {
    pub fn note(&mut self, at: u64, slot: Slot, generation: u32, what: What) {
        self.0.push(Entry {
            at,
            connection: Some((slot, generation)),
            what,
        });
    }

    /// The last events, with the due times among them, counted from `origin`.
    pub fn show(&self, origin: u64, due: &[u64]) -> String {
        let mut entries = self.0.clone();
        entries.extend((1..).zip(due).map(|(number, &at)| Entry {
            at,
            connection: None,
            what: What::Due(number),
        }));
        let reached = self.0.last().map_or(0, |last| last.at);
        entries.retain(|entry| entry.at <= reached);
        // What is due at the time of an event was due before it.
        entries.sort_by_key(|entry| (entry.at, entry.connection.is_some()));
        let left_out = entries.len().saturating_sub(SHOWN);
        let mut text = match left_out {
            0 => String::new(),
            n => format!("  ({n} earlier events)\n"),
        };
        for entry in &entries[left_out..] {
            let name = entry.connection.map_or_else(
                || "schedule".to_owned(),
                |(slot, generation)| format!("c{slot}.{generation}"),
            );
            let ms = (entry.at as f64 - origin as f64) / 1e6;
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {ms:12.6} ms  {name:<8}  {}", entry.what);
        }
        text
    }
}
