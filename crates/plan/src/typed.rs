//! What people type for a field of a load, and how it is read: by one parser wherever it is typed, on the command line
//! of `prony load` and in an experiment file.
//!
//! A parser takes the text and gives the value, or says in the same words on both sides what it must be. A number of a
//! TOML file is read as the text that it was typed as.

use crate::error::{Fault, unknown_name};
use record::{
    Body, Bytes, Carrier, Close, Engine, Http, Nanos, Precision, RatePiece, RatePieces, UnitError,
    parse_bytes, parse_count, parse_duration,
};
use std::net::{IpAddr, Ipv4Addr};

/// CPUs are numbered below this, so that a typing error does not fill the memory.
const MOST_CPUS: u32 = 4096;
/// Most source addresses that a range may name: with 28,232 ports each they are beyond any load of one machine.
const MOST_SOURCES: u64 = 65_536;

/// Why a text is no value of its field.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Misfit {
    #[error("must be {0}")]
    MustBe(String),
    /// It is none of a few words.
    #[error("{0}")]
    Unknown(Box<Fault>),
}

fn must_be<T>(what: impl Into<String>) -> Result<T, Misfit> {
    Err(Misfit::MustBe(what.into()))
}

fn unit<T>(parsed: Result<T, UnitError>) -> Result<T, Misfit> {
    parsed.or_else(|e| match e {
        UnitError::NoNumber { what, example, .. } => {
            must_be(format!("a {what} such as \"{example}\""))
        }
        UnitError::UnknownUnit { what, known, .. } => {
            must_be(format!("a {what} in one of the units {known}"))
        }
    })
}

/// A rate as it was typed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Requests per second over all connections.
    PerSecond(f64),
    /// Share of the rate that earlier stages found.
    OfCapacity(f64),
}

/// A rate as it was typed, which may change.
#[derive(Clone, Debug, PartialEq)]
pub enum Course {
    /// It stays what it is.
    Steady(Rate),
    /// It changes.
    Changing(RatePieces),
}

/// When requests are scheduled, without the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// A response frees its connection for the next request.
    Closed,
    /// Equal gaps.
    Constant,
    /// Exponential gaps.
    Poisson,
}

/// `http://h/`; without a scheme it is http, as every peer reads it.
pub fn url(text: &str) -> Result<String, Misfit> {
    match text.trim() {
        "" => must_be("a URL such as \"http://127.0.0.1:8080/\""),
        text if text.contains("://") => Ok(text.to_owned()),
        text => Ok(format!("http://{text}")),
    }
}

/// A whole number of at least `least`, which may have an SI suffix: `64`, `10k`.
pub fn count(text: &str, least: u64) -> Result<u64, Misfit> {
    let expected = || must_be(format!("a whole number of at least {least}"));
    let is_broken = |n: f64| n.fract() != 0.0;
    match parse_count(text) {
        _ if text.trim().parse().is_ok_and(is_broken) => expected(),
        Ok(n) if n >= least => Ok(n),
        Ok(_) | Err(UnitError::NoNumber { .. }) => expected(),
        Err(e) => unit(Err(e)),
    }
}

/// The same for what is counted in 32 bits.
pub fn count32(text: &str, least: u64) -> Result<u32, Misfit> {
    let n = count(text, least)?;
    u32::try_from(n).or_else(|_| must_be(format!("at most {}", u32::MAX)))
}

/// `10s`, `500ms`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Nanos, Misfit> {
    unit(parse_duration(text))
}

/// A duration that is longer than nothing.
pub fn duration_above_zero(text: &str) -> Result<Nanos, Misfit> {
    match duration(text)? {
        Nanos(0) => must_be("longer than nothing"),
        duration => Ok(duration),
    }
}

/// `91KiB`, `1M`, `2649`.
pub fn bytes(text: &str) -> Result<Bytes, Misfit> {
    unit(parse_bytes(text))
}

/// Requests per second (`0.5`, `300`, `20k`), or a share of what earlier stages found (`80%`).
pub fn rate(text: &str) -> Result<Rate, Misfit> {
    let rate = match text.trim().parse::<f64>() {
        _ if text.trim_end().ends_with('%') => percent(text).map(Rate::OfCapacity),
        // A plain number may have a fraction: 0.5 is one request every two seconds.
        Ok(per_s) => Some(Rate::PerSecond(per_s)),
        Err(_) => Some(Rate::PerSecond(unit(parse_count(text))? as f64)),
    };
    let is_rate = |rate: &Rate| {
        let (Rate::PerSecond(x) | Rate::OfCapacity(x)) = rate;
        x.is_finite() && *x > 0.0
    };
    rate.filter(is_rate).map_or_else(
        || must_be("above 0: requests per second (\"10k\") or a share of the capacity (\"80%\")"),
        Ok,
    )
}

/// A rate that may change: `300`; `1k..10k` over the whole load; `1k:10s,5k:10s,1k..5k:20s`, pieces in turn.
pub fn course(text: &str) -> Result<Course, Misfit> {
    if !text.contains([',', ':']) && !text.contains("..") {
        return rate(text).map(Course::Steady);
    }
    let pieces: Option<Vec<RatePiece>> = text.split(',').map(|p| piece(p.trim())).collect();
    let pieces = RatePieces(pieces.unwrap_or_default());
    // The rest of a load is one length: it cannot be shared among pieces.
    let is_timed = pieces.total().is_some() || pieces.0.len() == 1;
    match is_timed && pieces.peak_per_s() > 0.0 {
        true => Ok(Course::Changing(pieces)),
        false => must_be(
            "a change over the whole load (\"1k..10k\") or pieces with their times (\"1k:10s,1k..5k:20s\")",
        ),
    }
}

/// `1k`, `1k..5k`, either with `:10s`. A piece without requests is a pause.
fn piece(text: &str) -> Option<RatePiece> {
    let per_s = |text: &str| {
        let plain = text.trim().parse::<f64>().ok();
        let per_s = plain.or_else(|| parse_count(text).ok().map(|n| n as f64))?;
        (per_s.is_finite() && per_s >= 0.0).then_some(per_s)
    };
    let (rates, duration) = match text.split_once(':') {
        Some((rates, time)) => (rates, duration_above_zero(time).ok()?),
        None => (text, Nanos(0)),
    };
    let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
    Some(RatePiece {
        from_per_s: per_s(from)?,
        to_per_s: per_s(to)?,
        duration,
    })
}

/// When requests are scheduled.
pub fn process(text: &str) -> Result<Process, Misfit> {
    let known = [
        ("constant", Process::Constant),
        ("poisson", Process::Poisson),
        ("closed", Process::Closed),
    ];
    choice("arrival", text, &known)
}

/// How the client ends a connection.
pub fn close(text: &str) -> Result<Close, Misfit> {
    choice("close", text, &[("fin", Close::Fin), ("rst", Close::Rst)])
}

/// Which kernel interface drives the sockets.
pub fn engine(text: &str) -> Result<Engine, Misfit> {
    let known = [
        ("auto", Engine::Auto),
        ("uring", Engine::Uring),
        ("epoll", Engine::Epoll),
    ];
    choice("engine", text, &known)
}

/// Which HTTP the load speaks.
pub fn http(text: &str) -> Result<Http, Misfit> {
    match text {
        "2.0" | "h2" | "h2c" => Ok(Http::Two),
        "1" | "h1" => Ok(Http::One),
        "3" | "h3" => must_be("1.1 or 2: HTTP/3 needs QUIC, which this build does not have"),
        _ => choice(
            "HTTP version",
            text,
            &[Http::One, Http::Two].map(|it| (it.name(), it)),
        ),
    }
}

/// Where to connect in place of the URL's host and port.
pub fn connect_to(text: &str) -> Result<String, Misfit> {
    let parts = text.rsplit_once(':');
    match parts.map(|(host, port)| (host, port.parse::<u16>())) {
        Some((host, Ok(1..))) if !host.is_empty() => Ok(text.to_owned()),
        _ => must_be("a host and a port: 127.0.0.1:8080, name:443 or [::1]:80"),
    }
}

/// Bytes a second: `256KiB`, `256KiB/s`.
pub fn limit_rate(text: &str) -> Result<Bytes, Misfit> {
    match bytes(text.strip_suffix("/s").unwrap_or(text))? {
        Bytes(0) => must_be("above 0: bytes per second and connection (\"256KiB\")"),
        rate => Ok(rate),
    }
}

/// Where a forward proxy listens: `http://host:port`, the scheme may be left out.
pub fn proxy(text: &str) -> Result<String, Misfit> {
    let place = text.strip_prefix("http://").unwrap_or(text);
    let place = place.strip_suffix('/').unwrap_or(place);
    match connect_to(place) {
        Ok(place) if !place.contains(['/', '@']) => Ok(place),
        _ => must_be("an HTTP proxy by host and port: http://127.0.0.1:3128"),
    }
}

/// Who asks a proxy.
pub fn proxy_user(text: &str) -> Result<String, Misfit> {
    match text.split_once(':') {
        Some((user, _)) if !user.is_empty() => Ok(text.to_owned()),
        _ => must_be("a user and a password: USER:PASS"),
    }
}

/// The path of a Unix socket, which the kernel takes up to 107 bytes of (unix(7)).
pub fn unix(text: &str) -> Result<String, Misfit> {
    match (1..=107).contains(&text.len()) && !text.contains('\0') {
        true => Ok(text.to_owned()),
        false => must_be("the path of a Unix socket, at most 107 bytes: /run/app.sock"),
    }
}

/// How the load threads wait for a scheduled send.
pub fn precision(text: &str) -> Result<Precision, Misfit> {
    let all = [Precision::Sleep, Precision::Hybrid, Precision::Spin];
    choice("precision", text, &all.map(|it| (it.name(), it)))
}

/// Whose TCP carries the load.
pub fn transport(text: &str) -> Result<Carrier, Misfit> {
    let all = [
        Carrier::Kernel,
        Carrier::Tap,
        Carrier::AfXdp,
        Carrier::AfPacket,
        Carrier::Dpdk,
    ];
    choice("transport", text, &all.map(|it| (it.name(), it)))
}

/// The name of an interface, as the kernel takes it: 1 to 15 bytes (`IFNAMSIZ`) without blanks and slashes. Or a device
/// as DPDK takes it: a PCI address, or a virtual device of a driver, with its arguments.
pub fn interface(text: &str) -> Result<String, Misfit> {
    let is_name = !text.contains(|c: char| c.is_whitespace() || c == '/' || c == ':');
    let of_dpdk = text.starts_with("net_") || text.split([' ', ',']).next().is_some_and(is_pci);
    match of_dpdk || is_name && (1..=15).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => must_be("the name of an interface such as \"tap0\""),
    }
}

/// `0000:01:00.0`, or without the domain.
fn is_pci(text: &str) -> bool {
    let is_hex = |part: &str| part.len() >= 2 && part.chars().all(|c| c.is_ascii_hexdigit());
    let (bus, function) = text.split_once('.').unwrap_or((text, ""));
    function.len() == 1 && (2..=3).contains(&bus.split(':').count()) && bus.split(':').all(is_hex)
}

/// A method is a token of RFC 9110 5.6.2; only the letters and the hyphen of real methods are taken.
pub fn method(text: &str) -> Result<String, Misfit> {
    let is_method = |c: char| c.is_ascii_alphabetic() || c == '-';
    match !text.is_empty() && text.chars().all(is_method) {
        true => Ok(text.to_owned()),
        false => must_be("a method such as \"GET\""),
    }
}

/// A header as one line: `Accept: text/html`.
pub fn header_line(text: &str) -> Result<(String, String), Misfit> {
    match text.split_once(':') {
        Some((name, value)) => header(name, value),
        None => must_be(HEADER),
    }
}

const HEADER: &str = "one header line such as \"Accept: text/html\"";

/// A header by its name and value. A line end in it would send a request that nobody counts.
pub fn header(name: &str, value: &str) -> Result<(String, String), Misfit> {
    let (name, value) = (name.trim(), value.trim());
    let is_line = !value.contains(['\r', '\n']) && !name.contains(['\r', '\n', ':', ' ']);
    match is_line && !name.is_empty() {
        true => Ok((name.to_owned(), value.to_owned())),
        false => must_be(HEADER),
    }
}

/// A request's body; `@FILE` is the content of a file.
pub fn body(text: &str) -> Body {
    match text.strip_prefix('@') {
        Some(file) => Body::File(file.to_owned()),
        None => Body::Text(text.to_owned()),
    }
}

/// A share of one: `1%` or `0.01`.
pub fn share(text: &str) -> Result<f64, Misfit> {
    let share = percent(text).or_else(|| text.trim().parse().ok());
    share
        .filter(|s| (0.0..=1.0).contains(s))
        .map_or_else(|| must_be("a share such as \"1%\", from 0 to 100 %"), Ok)
}

/// `"80%"` -> 0.8.
pub fn percent(text: &str) -> Option<f64> {
    let number: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number / 100.0)
}

/// CPUs in the kernel's list format, in the order in which they were typed: `0,2-4`.
pub fn cpus(text: &str) -> Result<Vec<u32>, Misfit> {
    cpu_list(text).map_or_else(|| must_be("CPUs such as \"0-3,6\""), Ok)
}

fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Networks, with commas between them: `10.9.0.0/24,fd00::/64`.
pub fn networks(text: &str) -> Result<Vec<String>, Misfit> {
    let is_network = |part: &str| {
        let (address, bits) = part.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        bits.parse::<u8>().ok().filter(|bits| *bits <= most)
    };
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    match parts.iter().all(|part| is_network(part).is_some()) {
        true => Ok(parts.into_iter().map(str::to_owned).collect()),
        false => must_be("networks such as \"10.9.0.0/24\" or \"fd00::/64\""),
    }
}

/// Addresses of routers, with commas between them.
pub fn gateways(text: &str) -> Result<Vec<IpAddr>, Misfit> {
    let each = text.split(',').map(|part| part.trim().parse().ok());
    let all: Option<Vec<IpAddr>> = each.collect();
    all.map_or_else(|| must_be("a router's address such as \"10.9.0.1\""), Ok)
}

/// Names of hosts, with commas between them; each once.
pub fn host_names(text: &str) -> Result<Vec<String>, Misfit> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_name = |name: &&str| !name.is_empty() && !name.starts_with('-');
    match names.iter().all(is_name) {
        true => Ok(names.into_iter().map(str::to_owned).collect()),
        false => must_be("names of [host.NAME] sections, or destinations of ssh"),
    }
}

/// Addresses to connect from: `127.0.0.2-127.0.0.9`, `127.0.1.0/28` (its hosts), single ones, and comma lists.
pub fn sources(text: &str) -> Result<Vec<IpAddr>, Misfit> {
    address_list(text).map_or_else(
        || {
            must_be(format!(
                "addresses such as \"127.0.0.2-127.0.0.9\" or \"127.0.1.0/28\", at most {MOST_SOURCES}"
            ))
        },
        Ok,
    )
}

fn address_list(text: &str) -> Option<Vec<IpAddr>> {
    let v4 = |text: &str| text.trim().parse::<Ipv4Addr>().ok().map(u32::from);
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = if let Some((first, last)) = part.split_once('-') {
            (v4(first)?, v4(last)?)
        } else if let Some((base, bits)) = part.split_once('/') {
            hosts(v4(base)?, bits.parse().ok()?)?
        } else {
            all.push(part.parse().ok()?);
            continue;
        };
        if last < first || u64::from(last - first) >= MOST_SOURCES {
            return None;
        }
        all.extend((first..=last).map(|a| IpAddr::V4(a.into())));
    }
    Some(all)
}

/// First and last host of a network. Its own and the broadcast address are none, but in /31 and /32 (RFC 3021).
fn hosts(base: u32, bits: u32) -> Option<(u32, u32)> {
    let size = 1u64 << 32u32.checked_sub(bits)?;
    let network = u64::from(base) & !(size - 1);
    let edge = u64::from(size > 2);
    let address = |a: u64| u32::try_from(a).ok();
    Some((
        address(network + edge)?,
        address(network + size - 1 - edge)?,
    ))
}

/// One of a few words.
pub(crate) fn choice<T: Copy>(name: &str, typed: &str, choices: &[(&str, T)]) -> Result<T, Misfit> {
    let found = choices.iter().find(|(word, _)| *word == typed);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known = choices.iter().map(|(word, _)| *word);
        Misfit::Unknown(Box::new(unknown_name("value", typed, name, known)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_as_taskset_writes_them() {
        assert_eq!(cpus("0"), Ok(vec![0]));
        assert_eq!(cpus("5, 0-2"), Ok(vec![5, 0, 1, 2]));
        for bad in ["", "a", "4-2", "0-99999999"] {
            assert!(cpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn source_ranges() {
        let count = |text| sources(text).map(|all| all.len());
        assert_eq!(count("127.0.0.2-127.0.0.9"), Ok(8));
        assert_eq!(count("127.0.1.0/28"), Ok(14));
        assert_eq!(count("127.0.0.1/32"), Ok(1));
        assert_eq!(count("::1, 127.0.0.3"), Ok(2));
        assert_eq!(sources("127.0.1.7/30").unwrap()[0].to_string(), "127.0.1.5");
        for bad in [
            "127.0.0.9-127.0.0.2",
            "10.0.0.0/0",
            "10.0.0.0/33",
            "here",
            "0.0.0.0/8",
        ] {
            assert!(sources(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(count("10k", 1), Ok(10_000));
        assert_eq!(count("1.5k", 1), Ok(1_500));
        assert_eq!(rate("0.5"), Ok(Rate::PerSecond(0.5)));
        assert_eq!(rate("80%"), Ok(Rate::OfCapacity(0.8)));
        assert_eq!((share("1%"), share("0.01")), (Ok(0.01), Ok(0.01)));
        for bad in ["0", "1.5", "-1", "nan", "many", "5 lots"] {
            assert!(count(bad, 1).is_err(), "{bad}");
        }
        for bad in ["0", "-1", "0%", "nan", "inf", "fast", "1x"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        for bad in ["101%", "1.5", "-1%", "nan", ""] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_that_change() {
        let shown = |text| match course(text) {
            Ok(Course::Changing(pieces)) => pieces.to_string(),
            other => format!("{other:?}"),
        };
        for text in [
            "1k..10k",
            "0..2.5k:1.5s",
            "1k:10s,5k:10s,1k..5k:20s",
            "5:1s,0:0.1s",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(shown("10000 .. 1e3 : 1m"), "10k..1k:60s");
        assert_eq!(course("80%"), Ok(Course::Steady(Rate::OfCapacity(0.8))));
        for bad in [
            "1k..",
            "..",
            "0..0",
            "1k:",
            "1k,2k",
            "1k:0s,2k:1s",
            "-1..5",
            "1k:1s,",
            "10%..20%",
            "nan..1",
        ] {
            assert!(course(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_header_is_one_line() {
        let line = Ok(("A".to_owned(), "b:c".to_owned()));
        assert_eq!(header_line("A: b:c"), line);
        for bad in ["A", ": b", "A b: c", "A: b\r\nX: y"] {
            assert!(header_line(bad).is_err(), "{bad}");
        }
    }
}
