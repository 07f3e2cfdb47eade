//! Servers behind that are alike: copies of one program that requests are spread over.
//!
//! In the flow: asked before the parts of a latency account become rows. Each of ten copies has a tenth of every wait
//! there, a row that nobody looks at; as one row they are as large as one server would be. The surprise: parts of which
//! one stands out stay apart, as which copy it is is the answer then.

use record::{Examination, Server};

/// The largest of like parts is at most so many times their mean.
const EVEN: f64 = 2.0;

/// Copies of one program.
pub(super) struct Alike<'a> {
    copies: Vec<One<'a>>,
}

struct One<'a> {
    target: &'a str,
    addresses: Vec<&'a str>,
}

/// All groups of copies among the servers, each in the order of the record.
pub(super) fn groups(examination: &Examination) -> Vec<Alike<'_>> {
    let mut groups: Vec<(String, Alike<'_>)> = Vec::new();
    for server in examination.servers.iter().skip(1) {
        let copy = One {
            target: &server.target,
            addresses: addresses_of(examination, server),
        };
        let run = without_numbers(server);
        match groups.iter_mut().find(|(of, _)| *of == run) {
            Some((_, alike)) => alike.copies.push(copy),
            None => {
                let copies = vec![copy];
                groups.push((run, Alike { copies }));
            }
        }
    }
    let several = groups
        .into_iter()
        .filter(|(run, alike)| alike.copies.len() > 1 && !run.is_empty());
    several.map(|(_, alike)| alike).collect()
}

/// How a server was started, without the ports and numbers that tell one copy from another; empty where nobody knows.
fn without_numbers(server: &Server) -> String {
    if server.command.is_empty() {
        return String::new();
    }
    let line = format!("{} {}", server.exe, server.command.join(" "));
    line.split(|c: char| c.is_ascii_digit())
        .filter(|piece| !piece.is_empty())
        .collect::<Vec<_>>()
        .join("#")
}

fn addresses_of<'a>(examination: &'a Examination, server: &'a Server) -> Vec<&'a str> {
    let asked = examination.servers.iter().flat_map(|s| &s.upstreams);
    let asked = asked.filter(|peer| peer.target.as_deref() == Some(&server.target));
    let asked = asked.map(|peer| peer.address.as_str());
    asked
        .chain(server.listens.iter().map(String::as_str))
        .collect()
}

impl Alike<'_> {
    /// The copy that stands for all of them.
    pub(super) fn first(&self) -> &str {
        self.copies[0].target
    }

    /// Words about a copy as they are of the first one; `None` where they are about none of them.
    pub(super) fn of_first(&self, words: &str) -> Option<String> {
        let copy = self.copies.iter().find(|copy| {
            let addresses = copy.addresses.iter().copied();
            let mut names = std::iter::once(copy.target).chain(addresses);
            names.any(|name| begins_of(words, name).next().is_some())
        })?;
        let first = &self.copies[0];
        let mut words = replaced(words, copy.target, first.target);
        for (address, of_first) in copy.addresses.iter().zip(&first.addresses) {
            words = replaced(&words, address, of_first);
        }
        Some(words)
    }

    /// The words about the first one, as they are of it and `others` like it.
    pub(super) fn of_all(&self, words: &str, others: usize) -> String {
        let all = format!("{} and {others} like it", self.first());
        replaced(words, self.first(), &all)
    }
}

/// Whether none of some parts stands out.
pub(super) fn are_even(ns: &[f64]) -> bool {
    let mean = ns.iter().sum::<f64>() / ns.len().max(1) as f64;
    ns.iter().all(|one| *one <= EVEN * mean)
}

/// Where a name stands in words that is no part of a longer one.
fn begins_of<'w>(words: &'w str, name: &'w str) -> impl Iterator<Item = usize> + 'w {
    let part = |c: char| c.is_ascii_alphanumeric();
    words
        .match_indices(name)
        .map(|(at, _)| at)
        .filter(move |at| {
            let before = words[..*at].chars().next_back();
            let behind = words[at + name.len()..].chars().next();
            !before.is_some_and(part) && !behind.is_some_and(part)
        })
}

fn replaced(words: &str, name: &str, by: &str) -> String {
    let mut text = String::new();
    let mut from = 0;
    for at in begins_of(words, name) {
        text.push_str(&words[from..at]);
        text.push_str(by);
        from = at + name.len();
    }
    text + &words[from..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::UpstreamPeer;

    fn server(target: &str, command: &str) -> Server {
        Server {
            target: target.to_owned(),
            exe: "/usr/bin/app".to_owned(),
            command: command.split_whitespace().map(str::to_owned).collect(),
            ..Server::default()
        }
    }

    #[test]
    fn copies_are_those_of_one_command_but_for_its_numbers() {
        let peer = |port: u32| UpstreamPeer {
            address: format!("127.0.0.1:{port}"),
            target: Some(format!("upstream-{port}")),
            ..UpstreamPeer::default()
        };
        let examination = Examination {
            servers: vec![
                Server {
                    upstreams: [9001, 9002, 90021, 5432].map(peer).to_vec(),
                    ..server("server", "app serve 80")
                },
                server("upstream-9001", "app hall --port 9001"),
                server("upstream-9002", "app hall --port 9002"),
                server("upstream-90021", "app yard --port 90021"),
                server("upstream-5432", ""),
                server("upstream-5433", ""),
            ],
            ..Examination::default()
        };
        let groups = groups(&examination);
        assert_eq!(groups.len(), 1);
        let alike = &groups[0];
        assert_eq!(alike.first(), "upstream-9001");
        let of = |words: &str| alike.of_first(words);
        assert_eq!(
            of("answer of 127.0.0.1:9002 (app upstream-9002) there, not yet read").as_deref(),
            Some("answer of 127.0.0.1:9001 (app upstream-9001) there, not yet read")
        );
        assert_eq!(of("in app upstream-90021: asleep"), None);
        assert_eq!(of("waiting for a CPU"), None);
        assert_eq!(
            alike.of_all("in app upstream-9001: asleep", 1),
            "in app upstream-9001 and 1 like it: asleep"
        );
    }

    #[test]
    fn one_that_stands_out_is_not_even() {
        assert!(are_even(&[3.0, 2.0, 4.0]));
        assert!(!are_even(&[40.0, 1.0, 1.0]));
    }
}
