//! How much of a row the load asked for: what goes beyond that is no work of the server's own.
//!
//! Any server sends, receives and takes connections for what is asked of it. But what was asked has a size: a
//! response of 91 KiB leaves in two writes as well as in eleven. A row whose calls are several times what their bytes
//! need says how many there are, and stays open until a cause explains it. The surprise: no rule takes part in this,
//! so that a waste that no rule knows is still a row with the number that shows it.

use super::types::Row;
use crate::diagnosis::FactView;

/// The kernel takes this much from one call as one packet that is cut as late as possible (GSO), bytes.
const PIECE_BYTES: f64 = 65_536.0;
/// Buffers of 16 KiB are usual, and TLS records are as long: what moves about that much a call is not in small pieces,
/// bytes.
const USUAL_BYTES: f64 = 12_000.0;
/// Calls beyond this many times what is needed are a way of working and not what was asked for.
const BEYOND: f64 = 3.5;
/// Fewer calls than this a request are the usual parts of one: a head, a body, a farewell.
const FEWEST: f64 = 8.0;
/// Connections a request from which opening them is a habit. One in ten requests costs about what a request costs in
/// ten.
const OPENED: f64 = 0.1;
/// Parts of an exchange that wait for each other are each a call: they are turns, and judged as such.
const ANSWERED: f64 = 0.5;

/// Calls on one class of descriptors a request, and how many would do.
struct Moved {
    /// `writes`, `reads`.
    noun: &'static str,
    /// `to the client`, `from upstreams`.
    whom: &'static str,
    calls: f64,
    needed: f64,
    mean_bytes: f64,
}

impl Moved {
    fn of(facts: &FactView<'_>, way: &'static str, class: &'static str) -> Option<Self> {
        let value = |what: &str| facts.value(&format!("{way}.{class}.{what}"));
        let calls = value("useful_per_request")?;
        let turns = match class {
            "client" => 1.0,
            _ => facts
                .value("upstream.requests_per_request")
                .unwrap_or(1.0)
                .max(1.0),
        };
        let pieces = value("bytes_per_request").unwrap_or(0.0) / PIECE_BYTES;
        let (noun, whom) = match (way, class) {
            ("write", "client") => ("writes", "to the client"),
            ("write", _) => ("writes", "to upstreams"),
            (_, "client") => ("reads", "from the client"),
            _ => ("reads", "from upstreams"),
        };
        Some(Self {
            noun,
            whom,
            calls,
            needed: pieces.max(turns),
            mean_bytes: value("mean_bytes").unwrap_or(0.0),
        })
    }

    fn beyond(&self) -> bool {
        let small = self.mean_bytes < USUAL_BYTES;
        small && self.calls >= FEWEST && self.calls >= BEYOND * self.needed
    }

    /// `in 11.0 writes of 8.3 KiB a request to the client`.
    fn words(&self) -> String {
        let size = match self.mean_bytes {
            bytes if bytes >= 1024.0 => format!("{:.1} KiB", bytes / 1024.0),
            bytes => format!("{bytes:.0} bytes"),
        };
        let Self {
            noun, whom, calls, ..
        } = self;
        format!("in {calls:.1} {noun} of {size} a request {whom}")
    }
}

/// The class of descriptors on which the calls of one way go furthest beyond what is needed.
fn worst(facts: &FactView<'_>, way: &'static str) -> Option<Moved> {
    let classes = ["client", "upstream"].into_iter();
    let moved = classes.filter_map(|class| Moved::of(facts, way, class));
    let beyond = moved.filter(Moved::beyond);
    beyond.max_by(|a, b| (a.calls / a.needed).total_cmp(&(b.calls / b.needed)))
}

/// Whether the client sends a part and waits for an answer to it, over and over in one request.
fn is_a_conversation(facts: &FactView<'_>) -> bool {
    let calls = |way: &str| facts.value(&format!("{way}.client.useful_per_request"));
    let of = calls("read").zip(calls("write"));
    of.is_some_and(|(read, write)| read.min(write) >= ANSWERED * read.max(write) && read >= FEWEST)
}

/// Connections that are opened for a request and that nobody asked for, in words.
fn opened(facts: &FactView<'_>) -> Option<String> {
    let of = |name: &str| facts.value(name).unwrap_or(0.0);
    let upstreams = of("upstream.connects_per_request");
    let clients = match of("client.asked_keepalive") >= 1.0 {
        true => of("client.connects_per_request").min(of("client.closed_by_server_per_request")),
        false => 0.0,
    };
    let said = [
        (upstreams, "to upstreams"),
        (clients, "of clients that would keep theirs"),
    ];
    let beyond = said.into_iter().filter(|(number, _)| *number >= OPENED);
    let words: Vec<String> = beyond
        .map(|(number, whose)| format!("{number:.1} {whose}"))
        .collect();
    (!words.is_empty()).then(|| format!("{} a request", words.join(" and ")))
}

/// Opens the rows of a target's CPU that hold more than what was asked for, and says how much more.
pub(super) fn measure(rows: &mut [Row], facts: &FactView<'_>) {
    let talks = is_a_conversation(facts);
    let written = worst(facts, "write").filter(|_| !talks);
    let read = worst(facts, "read").filter(|_| !talks);
    let opened = opened(facts);
    for row in rows {
        let more = match row.kind.as_str() {
            "net_send" => written.as_ref().map(Moved::words),
            "net_receive" => read.as_ref().map(Moved::words),
            // Packets follow the writes of either end.
            "softirq" => written.as_ref().or(read.as_ref()).map(Moved::words),
            "connections" => opened.clone(),
            _ => None,
        };
        if let Some(more) = more {
            row.own_work = false;
            row.label = format!("{}, {more}", row.label);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, measure};
    use crate::diagnosis::FactSet;

    /// The labels of the rows of a server of which these facts are known that are open, one a line.
    fn open(facts: &[(&str, f64)]) -> Vec<String> {
        let mut set = FactSet::default();
        set.targets.push("web".to_owned());
        for (name, value) in facts {
            let about = if name.starts_with("client.") {
                ""
            } else {
                "web"
            };
            set.known(about, name, *value, "test");
        }
        let row = |kind: &str| Row {
            kind: kind.to_owned(),
            label: kind.to_owned(),
            own_work: true,
            ..Row::default()
        };
        let mut rows = ["net_send", "net_receive", "softirq", "connections"].map(row);
        measure(&mut rows, &set.view("web"));
        let open = rows.into_iter().filter(|row| !row.own_work);
        open.map(|row| row.label).collect()
    }

    #[test]
    fn what_was_asked_for_is_the_servers_own_work() {
        let large = |calls: f64| {
            open(&[
                ("write.client.useful_per_request", calls),
                ("write.client.bytes_per_request", 93_000.0),
                ("write.client.mean_bytes", 93_000.0 / calls),
            ])
        };
        assert_eq!(large(2.0), [""; 0]);
        // Buffers of 16 KiB.
        assert_eq!(large(5.7), [""; 0]);
        assert_eq!(
            large(11.0),
            [
                "net_send, in 11.0 writes of 8.3 KiB a request to the client",
                "softirq, in 11.0 writes of 8.3 KiB a request to the client"
            ]
        );
    }

    #[test]
    fn turns_are_needed_and_pieces_are_not() {
        let reads = |calls: f64, turns: f64| {
            open(&[
                ("read.upstream.useful_per_request", calls),
                ("read.upstream.bytes_per_request", 4_000.0),
                ("read.upstream.mean_bytes", 4_000.0 / calls),
                ("upstream.requests_per_request", turns),
            ])
        };
        assert_eq!(reads(20.0, 20.0), [""; 0]);
        assert_eq!(
            reads(20.0, 1.0),
            [
                "net_receive, in 20.0 reads of 200 bytes a request from upstreams",
                "softirq, in 20.0 reads of 200 bytes a request from upstreams"
            ]
        );
    }

    #[test]
    fn a_conversation_is_no_waste() {
        let both = |written: f64| {
            open(&[
                ("read.client.useful_per_request", 30.0),
                ("read.client.bytes_per_request", 900.0),
                ("write.client.useful_per_request", written),
                ("write.client.bytes_per_request", 900.0),
            ])
        };
        assert_eq!(both(30.0), [""; 0]);
        assert_eq!(both(1.0).len(), 2);
    }

    #[test]
    fn connections_that_nobody_asked_for() {
        let of = |upstream: f64, kept: f64, closed: f64| {
            open(&[
                ("upstream.connects_per_request", upstream),
                ("client.asked_keepalive", kept),
                ("client.connects_per_request", 1.0),
                ("client.closed_by_server_per_request", closed),
            ])
        };
        // A client that opens one for each request by its own choice gets what it asks for.
        assert_eq!(of(0.0, 0.0, 1.0), [""; 0]);
        assert_eq!(of(0.0, 1.0, 0.0), [""; 0]);
        assert_eq!(
            of(1.0, 0.0, 1.0),
            ["connections, 1.0 to upstreams a request"]
        );
        assert_eq!(
            of(0.5, 1.0, 1.0),
            ["connections, 0.5 to upstreams and 1.0 of clients that would keep theirs a request"]
        );
    }
}
