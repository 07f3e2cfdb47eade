//! Where a program is told the address that it listens on: the one word of its command line or environment that means
//! it.
//!
//! A copy of a plain process is moved by it. Nothing declares which word that is, so it is found by what it
//! says: an address of the listener, or its port under a name that servers use for one. The surprise: a word that only
//! looks like a port may be anything, so a word of a weaker kind counts only where no stronger one is, and two of the
//! strongest kind are as bad as none.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// The word that means a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub by: By,
    /// Digits of the port in the word or value.
    port: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Word of the command line, by its place.
    Argument(usize),
    /// Variable of the environment.
    Variable(String),
}

/// Why there is no such word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Untold {
    Nowhere,
    /// These could all be meant.
    Several(Vec<String>),
}

impl Told {
    /// The word or value with another port.
    pub fn with_port(&self, text: &str, port: u16) -> String {
        let (before, after) = (&text[..self.port.start], &text[self.port.end..]);
        format!("{before}{port}{after}")
    }
}

/// How surely a word means a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sureness {
    /// A number that stands alone.
    Number,
    /// The port under a name for one: `--port 8080`, `PORT=8080`.
    Named,
    /// Host and port: `127.0.0.1:8080`, `:8080`.
    Address,
}

/// The word by which a program with this command line and environment is told to listen there. The command line goes
/// before the environment, as it does for servers that read both; a number under no known name comes last.
pub(crate) fn told(
    argv: &[String],
    env: &BTreeMap<String, String>,
    listener: SocketAddr,
) -> Result<Told, Untold> {
    let arguments: Vec<(Sureness, Told)> = (1..argv.len())
        .filter_map(|at| argument(argv, at, listener))
        .collect();
    let surely = |wanted: Sureness| -> Vec<Told> {
        let of = arguments.iter().filter(|(sureness, _)| *sureness == wanted);
        of.map(|(_, told)| told.clone()).collect()
    };
    let choices = [
        surely(Sureness::Address),
        surely(Sureness::Named),
        variables(env, listener),
        surely(Sureness::Number),
    ];
    let strongest = choices.into_iter().find(|words| !words.is_empty());
    match strongest.unwrap_or_default().as_slice() {
        [] => Err(Untold::Nowhere),
        [one] => Ok(one.clone()),
        several => Err(Untold::Several(
            several.iter().map(|t| shown(t, argv)).collect(),
        )),
    }
}

fn shown(told: &Told, argv: &[String]) -> String {
    match &told.by {
        By::Argument(at) => argv[*at].clone(),
        By::Variable(name) => format!("{name} in the environment"),
    }
}

fn argument(argv: &[String], at: usize, listener: SocketAddr) -> Option<(Sureness, Told)> {
    let word = &argv[at];
    let (name, begins) = named_within(word).unwrap_or_else(|| {
        let before = argv[..at].last().filter(|_| at > 1);
        let flag = before.filter(|w| w.starts_with('-') && !w.contains('='));
        (flag.map_or("", String::as_str), 0)
    });
    let (sureness, port) = meant(name, &word[begins..], listener)?;
    let told = Told {
        by: By::Argument(at),
        port: port.start + begins..port.end + begins,
    };
    Some((sureness, told))
}

/// The name that a word gives its value itself, and where the value begins: `--port=80`, `-p80`, `-Dserver.port=80`.
fn named_within(word: &str) -> Option<(&str, usize)> {
    if let Some((name, _)) = word.split_once('=') {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        return name.chars().all(is_name).then_some((name, name.len() + 1));
    }
    let mut letters = word.strip_prefix('-')?.chars();
    let is_short = letters.next()?.is_ascii_alphabetic();
    let is_glued = letters
        .next()
        .is_some_and(|c| c.is_ascii_digit() || ":[*".contains(c));
    (is_short && is_glued).then(|| (&word[..2], 2))
}

fn variables(env: &BTreeMap<String, String>, listener: SocketAddr) -> Vec<Told> {
    let mut found: Vec<Told> = Vec::new();
    for (name, value) in env.iter().filter(|(name, _)| may_tell(name)) {
        if let Some((_, port)) = meant(name, value, listener) {
            let told = Told {
                by: By::Variable(name.clone()),
                port,
            };
            if name == "PORT" {
                return vec![told];
            }
            found.push(told);
        }
    }
    found
}

/// Variables that name an address, without those by which container engines tell of other services
/// (`REDIS_SERVICE_PORT`, `REDIS_PORT_6379_TCP_ADDR`).
fn may_tell(variable: &str) -> bool {
    names_an_address(variable) && !variable.contains("SERVICE_") && !variable.contains("_TCP")
}

/// Names that servers give the address or port that they listen on.
fn names_an_address(name: &str) -> bool {
    const LETTERS: [&str; 3] = ["p", "b", "l"];
    const ENDS: [&str; 9] = [
        "port", "bind", "listen", "addr", "address", "socket", "url", "urls", "http",
    ];
    let name = name.trim_start_matches('-').to_ascii_lowercase();
    LETTERS.contains(&name.as_str())
        || ENDS.iter().any(|end| name.ends_with(end))
        || name.starts_with("listen")
        || name.starts_with("bind")
}

/// How surely a value under this name means the listener, and its port in it.
fn meant(name: &str, value: &str, listener: SocketAddr) -> Option<(Sureness, Range<usize>)> {
    let port = listener.port().to_string();
    if value == port {
        let sureness = match names_an_address(name) {
            true => Sureness::Named,
            false => Sureness::Number,
        };
        return Some((sureness, 0..port.len()));
    }
    let begins = value.find("://").map_or(0, |at| at + "://".len());
    let address = &value[begins..];
    let colon = match address.starts_with('[') {
        true => address.find("]:")? + 1,
        false => address.find(':')?,
    };
    let rest = address[colon + 1..].strip_prefix(&port)?;
    let ends = rest.is_empty() || rest.starts_with(['/', '?', ',', ';']);
    let at = begins + colon + 1;
    (ends && is_host_of(&address[..colon], listener.ip()))
        .then(|| (Sureness::Address, at..at + port.len()))
}

/// Whether a host, as it is written, is where somebody listens at this address. A socket of both families shows an
/// address of IPv4 within one of IPv6.
fn is_host_of(host: &str, listens: IpAddr) -> bool {
    let listens = listens.to_canonical();
    match host {
        "" | "*" | "+" => listens.is_unspecified(),
        "localhost" => listens.is_loopback(),
        host => host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|ip: IpAddr| {
                ip == listens || (ip.is_unspecified() && listens.is_unspecified())
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words with the port 8080 moved to 9; or what could be meant.
    fn moved(command: &str, env: &[(&str, &str)], listener: &str) -> String {
        let mut argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let mut env: BTreeMap<String, String> = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        match told(&argv, &env, listener.parse().unwrap()) {
            Err(Untold::Nowhere) => "nowhere".to_owned(),
            Err(Untold::Several(words)) => format!("several: {}", words.join(" ")),
            Ok(told) => match &told.by {
                By::Argument(at) => {
                    argv[*at] = told.with_port(&argv[*at], 9);
                    argv.join(" ")
                }
                By::Variable(name) => {
                    let value = env.get_mut(name).unwrap();
                    *value = told.with_port(value, 9);
                    format!("{name}={value}")
                }
            },
        }
    }

    #[test]
    fn an_address_is_found_in_the_ways_that_servers_are_told_it() {
        for (command, want) in [
            ("s --port 8080", "s --port 9"),
            ("s --port=8080 -n 8080", "s --port=9 -n 8080"),
            ("s -p8080", "s -p9"),
            ("s -b127.0.0.1:8080", "s -b127.0.0.1:9"),
            (
                "gunicorn -w 1 -b 127.0.0.1:8080 a:b",
                "gunicorn -w 1 -b 127.0.0.1:9 a:b",
            ),
            ("s --bind localhost:8080", "s --bind localhost:9"),
            (
                "puma -b tcp://127.0.0.1:8080?backlog=5",
                "puma -b tcp://127.0.0.1:9?backlog=5",
            ),
            ("java -Dserver.port=8080 M", "java -Dserver.port=9 M"),
            ("node s.js 8080", "node s.js 9"),
            (
                "python3 -m http.server --bind 127.0.0.1 8080",
                "python3 -m http.server --bind 127.0.0.1 9",
            ),
            // The address goes before a number that may be anything.
            (
                "s 8080 --listen 127.0.0.1:8080",
                "s 8080 --listen 127.0.0.1:9",
            ),
            // Another host's port is not this listener's.
            ("s --upstream 10.0.0.5:8080", "nowhere"),
            ("s --upstream shop:8080", "nowhere"),
            ("s --root /srv/8080 --log a-8080.log -n 18080", "nowhere"),
            ("s --port 8080 --bind 8080", "several: 8080 8080"),
            ("s 8080 -n 8080", "several: 8080 8080"),
            // The program's own name tells nothing.
            ("8080", "nowhere"),
        ] {
            assert_eq!(moved(command, &[], "127.0.0.1:8080"), want, "{command}");
        }
    }

    #[test]
    fn hosts_are_the_listeners_own() {
        for (command, listener, want) in [
            ("s :8080", "[::]:8080", "s :9"),
            ("s :8080", "127.0.0.1:8080", "nowhere"),
            ("s *:8080", "0.0.0.0:8080", "s *:9"),
            ("s http://+:8080/", "[::]:8080", "s http://+:9/"),
            ("s 0.0.0.0:8080", "[::]:8080", "s 0.0.0.0:9"),
            ("s [::1]:8080", "[::1]:8080", "s [::1]:9"),
            (
                "java M 127.0.0.1:8080",
                "[::ffff:127.0.0.1]:8080",
                "java M 127.0.0.1:9",
            ),
            ("s 127.0.0.1:8080", "[::1]:8080", "nowhere"),
            (
                "s -b 127.0.0.1:8080 -b [::1]:8080",
                "[::1]:8080",
                "s -b 127.0.0.1:8080 -b [::1]:9",
            ),
        ] {
            assert_eq!(moved(command, &[], listener), want, "{command}");
        }
    }

    #[test]
    fn the_environment_is_asked_where_the_command_line_does_not_say_it() {
        for (command, env, want) in [
            ("s", &[("PORT", "8080")][..], "PORT=9"),
            ("s", &[("BIND", "127.0.0.1:8080")], "BIND=127.0.0.1:9"),
            (
                "s",
                &[("ASPNETCORE_URLS", "http://127.0.0.1:8080")],
                "ASPNETCORE_URLS=http://127.0.0.1:9",
            ),
            ("s --port 8080", &[("PORT", "8080")], "s --port 9"),
            (
                "s",
                &[("BASE_URL", "http://localhost:8080/"), ("PORT", "8080")],
                "PORT=9",
            ),
            (
                "s",
                &[("A_PORT", "8080"), ("B_PORT", "8080")],
                "several: A_PORT in the environment B_PORT in the environment",
            ),
            // Other services, and numbers that are none of a port's.
            ("s", &[("SHOP_SERVICE_PORT", "8080")], "nowhere"),
            ("s", &[("ITEMS", "8080")], "nowhere"),
        ] {
            assert_eq!(moved(command, env, "127.0.0.1:8080"), want, "{env:?}");
        }
    }
}
