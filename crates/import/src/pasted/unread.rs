//! Established connections that have received what their program has not read: `Recv-Q` of `ss -tn` and `netstat -an`.
//!
//! The side that serves is the one whose local port several connections share; a client's ports all differ. The
//! surprise is that the kernel completes a handshake and takes a request without the program: a connection that nobody
//! has accepted looks as one whose worker is busy.

use super::events::{artefact, told};
use super::sockets::{Socket, socket};
use record::pasted::{Artefact, Row};

/// One or two with something unread are met at any moment.
const SEVERAL: f64 = 3.0;
/// Of all of a port's connections so large a part stands.
const PART: f64 = 0.25;

/// What is known of a local port.
#[derive(Default)]
struct Port<'a> {
    name: &'a str,
    all: f64,
    unread: f64,
    bytes: f64,
    largest: f64,
}

/// The port with most of them.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("connections with unread data", 0);
    let mut ports: Vec<Port<'_>> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((name, queue)) = socket(&words).as_ref().and_then(established) else {
            continue;
        };
        let at = ports.iter().position(|p| p.name == name);
        let at = at.unwrap_or_else(|| {
            ports.push(Port {
                name,
                ..Port::default()
            });
            ports.len() - 1
        });
        let port = &mut ports[at];
        port.all += 1.0;
        if queue > 0.0 {
            found.begin_at(number);
            port.unread += 1.0;
            port.bytes += queue;
            port.largest = port.largest.max(queue);
        }
    }
    let standing = ports
        .iter()
        .filter(|p| p.unread >= SEVERAL && p.unread >= PART * p.all);
    let most = standing.max_by(|a, b| a.unread.total_cmp(&b.unread))?;
    for (name, n) in [
        ("connections", most.unread),
        ("all", most.all),
        ("bytes", most.bytes),
        ("largest_bytes", most.largest),
        ("rows", 1.0),
    ] {
        found.figures.insert(format!("unread.{name}"), n);
    }
    found.rows.push(Row::new(most.name, most.unread));
    told(found)
}

/// The local port of an established connection, and how many bytes it has to be read. Linux has a colon before the
/// port, the BSDs a dot.
fn established<'a>(socket: &Socket<'a>) -> Option<(&'a str, f64)> {
    let (_, port) = socket.local.rsplit_once([':', '.'])?;
    let queue = socket.receive_queue?;
    (socket.state == "established").then_some((port, queue))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(rows: &[(&str, u32)]) -> Option<(String, f64, f64)> {
        let lines = rows
            .iter()
            .map(|(addresses, n)| format!("tcp4 {n} 0 {addresses} ESTABLISHED"));
        let lines: Vec<String> = lines.collect();
        let found = read(&lines.iter().map(String::as_str).collect::<Vec<_>>())?;
        let n = |name: &str| found.value(name).unwrap_or_default();
        let counted = (n("unread.connections"), n("unread.bytes"));
        Some((found.rows[0].label.clone(), counted.0, counted.1))
    }

    #[test]
    fn several_on_one_local_port_are_the_side_that_serves() {
        let to_one = [
            ("10.0.0.2.9000 10.0.0.7.50001", 90),
            ("10.0.0.2.9000 10.0.0.7.50002", 120),
            ("10.0.0.7.50001 10.0.0.2.9000", 0),
            ("10.0.0.2.9000 10.0.0.7.50003", 90),
        ];
        assert_eq!(connections(&to_one), Some(("9000".to_owned(), 3.0, 300.0)));
        assert_eq!(connections(&to_one[..3]), None);
        let clients: Vec<(String, u32)> = (50001..50005)
            .map(|p| (format!("10.0.0.7.{p} 10.0.0.2.9000"), 700))
            .collect();
        let clients: Vec<(&str, u32)> = clients.iter().map(|(a, n)| (a.as_str(), *n)).collect();
        assert_eq!(connections(&clients), None);
        let mut few = vec![("10.0.0.2.9000 10.0.0.8.1", 0); 10];
        few.extend([("10.0.0.2.9000 10.0.0.8.2", 9); 3]);
        assert_eq!(connections(&few), None);
    }
}
