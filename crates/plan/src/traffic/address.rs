//! Addresses of traffic: ranges of a side, and targets with their scheme, host range, port range and path.
//!
//! Names are not taken: a TCP in user space asks no resolver, and the result has to say which address was loaded.

use std::net::{IpAddr, SocketAddr};

/// More targets of one template than that are a typing error.
const MOST_TARGETS: u64 = 65_536;

/// What a target speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
    Tcp,
    /// A stream over TLS.
    Tls,
    Udp,
}

impl Scheme {
    pub const ALL: [(&'static str, Scheme); 5] = [
        ("http", Scheme::Http),
        ("https", Scheme::Https),
        ("tcp", Scheme::Tcp),
        ("tls", Scheme::Tls),
        ("udp", Scheme::Udp),
    ];

    pub fn name(self) -> &'static str {
        let all = Self::ALL.iter();
        let mut found = all.filter(|(_, scheme)| *scheme == self);
        found.next().map_or("", |(name, _)| name)
    }

    pub fn is_http(self) -> bool {
        matches!(self, Scheme::Http | Scheme::Https)
    }

    pub fn is_tls(self) -> bool {
        matches!(self, Scheme::Https | Scheme::Tls)
    }

    fn port(self) -> Option<u16> {
        match self {
            Scheme::Http => Some(80),
            Scheme::Https => Some(443),
            Scheme::Tcp | Scheme::Tls | Scheme::Udp => None,
        }
    }
}

/// A target as typed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub scheme: Scheme,
    pub addresses: Vec<SocketAddr>,
    /// Host and port as typed, for a `Host` field.
    pub authority: String,
    /// Path and query; `/` where none was typed.
    pub path: String,
}

/// First and last address of `10.9.0.0/24` (its hosts), `10.9.0.5-10.9.0.9` or one address; both families.
pub(super) fn range(text: &str) -> Option<(IpAddr, IpAddr)> {
    let text = text.trim();
    if let Some((first, last)) = text.split_once('-') {
        let (first, last): (IpAddr, IpAddr) =
            (first.trim().parse().ok()?, last.trim().parse().ok()?);
        return (first.is_ipv4() == last.is_ipv4() && first <= last).then_some((first, last));
    }
    if let Some((base, bits)) = text.split_once('/') {
        let (base, bits): (IpAddr, u32) = (base.trim().parse().ok()?, bits.trim().parse().ok()?);
        let width = if base.is_ipv4() { 32 } else { 128 };
        let host_bits = width - Some(bits).filter(|b| (1..=width).contains(b))?;
        let mask = 1_u128
            .checked_shl(host_bits)
            .map_or(u128::MAX, |size| size - 1);
        let network = number(base) & !mask;
        // The network's own address and the broadcast address are no hosts (RFC 3021: but of /31).
        let edge = u128::from(base.is_ipv4() && host_bits > 1);
        return Some((
            address(network + edge, base.is_ipv4()),
            address(network + mask - edge, base.is_ipv4()),
        ));
    }
    let one: IpAddr = text.parse().ok()?;
    Some((one, one))
}

/// Whether an address is in one of the ranges.
pub(super) fn is_within(ranges: &[(IpAddr, IpAddr)], address: IpAddr) -> bool {
    let holds = |(first, last): &(IpAddr, IpAddr)| {
        first.is_ipv4() == address.is_ipv4() && (*first..=*last).contains(&address)
    };
    ranges.iter().any(holds)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    }
}

fn address(number: u128, is_v4: bool) -> IpAddr {
    match is_v4 {
        true => IpAddr::V4((number as u32).into()),
        false => IpAddr::V6(number.into()),
    }
}

/// Hosts 2 to 250 of an address's /24 (IPv4) or /120 (IPv6): what a client has where nothing was said.
pub(super) fn beside(target: IpAddr) -> (IpAddr, IpAddr) {
    let network = number(target) & !0xff;
    let at = |host| address(network + host, target.is_ipv4());
    (at(2), at(250))
}

/// `80` or `8000-8003`.
pub(super) fn ports(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first > 0 && first <= last).then_some((first, last))
}

/// Reads a target.
///
/// # Errors
/// What is wrong, in words that follow "`TEXT` cannot be loaded: ".
pub(super) fn target(text: &str) -> Result<Target, String> {
    let schemes = Scheme::ALL.map(|(name, _)| format!("{name}://")).join(", ");
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(format!("it has no scheme; one of {schemes}"));
    };
    let known = Scheme::ALL.iter().find(|(name, _)| *name == scheme);
    let Some((_, scheme)) = known else {
        let near = crate::near_miss(scheme, Scheme::ALL.iter().map(|(name, _)| *name));
        let near = near.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
        return Err(format!("the scheme is none of {schemes}{near}"));
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if !path.is_empty() && path != "/" && !scheme.is_http() {
        return Err(format!("{}:// has no path", scheme.name()));
    }
    if path.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#') {
        return Err("its path has a blank, a control character or `#`".to_owned());
    }
    let (hosts, ports_typed) = host_and_port(authority);
    let ports = match (ports_typed, scheme.port()) {
        (Some(typed), _) => {
            ports(typed).ok_or_else(|| format!("`{typed}` is no port and no range of ports"))?
        }
        (None, Some(port)) => (port, port),
        (None, None) => {
            return Err(format!(
                "{}:// needs a port behind the address",
                scheme.name()
            ));
        }
    };
    let Some(hosts) = range(hosts).filter(|_| !hosts.contains('/')) else {
        return Err(format!(
            "`{hosts}` is no address: user-space TCP asks no resolver, so give the address and the name as \
             headers = {{ Host = \"...\" }} or `server_name`"
        ));
    };
    let count =
        (number(hosts.1) - number(hosts.0) + 1).saturating_mul(u128::from(ports.1 - ports.0) + 1);
    if count > u128::from(MOST_TARGETS) {
        return Err(format!(
            "it stands for {count} targets; at most {MOST_TARGETS}"
        ));
    }
    let addresses = (number(hosts.0)..=number(hosts.1))
        .flat_map(|host| {
            let host = address(host, hosts.0.is_ipv4());
            (ports.0..=ports.1).map(move |port| SocketAddr::new(host, port))
        })
        .collect();
    Ok(Target {
        scheme: *scheme,
        addresses,
        authority: authority.to_owned(),
        path: match path {
            "" => "/".to_owned(),
            path if path.starts_with('?') => format!("/{path}"),
            path => path.to_owned(),
        },
    })
}

/// `[::1]:80`, `10.9.0.1:80`, `10.9.0.1-10.9.0.4:80-83`; the port as typed.
fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    if let Some(inside) = authority.strip_prefix('[') {
        let (host, behind) = inside.split_once(']').unwrap_or((inside, ""));
        return (host, behind.strip_prefix(':'));
    }
    match authority.split_once(':') {
        // A bare IPv6 address has several colons and no port.
        Some((_, port)) if port.contains(':') => (authority, None),
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_both_families() {
        let shown = |text| range(text).map(|(a, b)| format!("{a} {b}"));
        for (text, want) in [
            ("10.9.0.7", "10.9.0.7 10.9.0.7"),
            ("10.9.0.0/24", "10.9.0.1 10.9.0.254"),
            ("10.9.0.0/31", "10.9.0.0 10.9.0.1"),
            ("10.9.0.2-10.9.0.250", "10.9.0.2 10.9.0.250"),
            ("fd00::/126", "fd00:: fd00::3"),
            ("fd00::2-fd00::9", "fd00::2 fd00::9"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(want), "{text}");
        }
        for bad in [
            "",
            "host",
            "10.9.0.9-10.9.0.2",
            "10.9.0.0/0",
            "10.9.0.0/33",
            "10.0.0.1-fd00::1",
        ] {
            assert_eq!(shown(bad), None, "{bad}");
        }
    }

    #[test]
    fn targets_as_they_are_typed() {
        let shown = |text: &str| {
            let t = target(text)?;
            let (first, last) = (t.addresses[0], t.addresses[t.addresses.len() - 1]);
            Ok::<_, String>(format!(
                "{} {first} {last} {} {}",
                t.scheme.name(),
                t.addresses.len(),
                t.path
            ))
        };
        for (text, want) in [
            ("http://10.9.0.1", "http 10.9.0.1:80 10.9.0.1:80 1 /"),
            (
                "https://10.9.0.1/a?b",
                "https 10.9.0.1:443 10.9.0.1:443 1 /a?b",
            ),
            (
                "tcp://10.9.0.1-10.9.0.2:80-83",
                "tcp 10.9.0.1:80 10.9.0.2:83 8 /",
            ),
            ("udp://[fd00::1]:53", "udp [fd00::1]:53 [fd00::1]:53 1 /"),
            ("http://[fd00::1]/", "http [fd00::1]:80 [fd00::1]:80 1 /"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(want), "{text}");
        }
        for (bad, why) in [
            ("10.9.0.1:80", "no scheme"),
            ("htp://10.9.0.1", "did you mean `http`"),
            ("tcp://10.9.0.1", "needs a port"),
            ("tcp://10.9.0.1:80/x", "has no path"),
            ("http://example.org/", "`example.org` is no address"),
            ("http://10.9.0.1:http/", "is no port"),
            ("http://10.0.0.1-10.9.0.1/", "targets; at most"),
            ("http://10.9.0.1/a b", "blank"),
        ] {
            assert!(
                shown(bad).unwrap_err().contains(why),
                "{bad}: {:?}",
                shown(bad)
            );
        }
    }
}
