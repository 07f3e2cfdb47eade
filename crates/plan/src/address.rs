//! URLs whose host names a target, and addresses as a client must write them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A URL cut where prony needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// `http://`, `https://`, `ws://` or `wss://`.
    pub scheme: &'a str,
    /// Host without brackets' removal: `[::1]` stays as typed.
    pub host: &'a str,
    /// Port as typed.
    pub port: Option<&'a str>,
    /// Everything behind the authority.
    pub rest: &'a str,
}

/// Cuts a URL.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn parts(url: &str) -> Result<Parts<'_>, String> {
    let scheme = ["http://", "https://", "ws://", "wss://"]
        .into_iter()
        .find(|s| url.starts_with(s))
        .ok_or("it must start with http://, https://, ws:// or wss://")?;
    let behind = &url[scheme.len()..];
    let end = behind.find(['/', '?', '#']).unwrap_or(behind.len());
    let (authority, rest) = behind.split_at(end);
    let host_end = match authority.find(']') {
        Some(i) => i + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(host_end);
    if host.is_empty() {
        return Err("it has no host".to_owned());
    }
    if authority.contains(|c: char| c == '@' || c.is_whitespace()) {
        return Err("its host may hold neither a user name nor white space".to_owned());
    }
    let port = port.strip_prefix(':');
    if port.is_some_and(|p| p.parse::<u16>().is_err()) {
        return Err("its port is not a number up to 65535".to_owned());
    }
    Ok(Parts {
        scheme,
        host,
        port,
        rest,
    })
}

/// The URL with a target's name as host replaced by the target's address; any other URL as it is.
///
/// ```
/// let addresses = [("backend".to_owned(), "127.0.0.1:9000".parse().unwrap())].into();
/// assert_eq!(plan::resolve_url("http://backend/x?y", &addresses), "http://127.0.0.1:9000/x?y");
/// assert_eq!(plan::resolve_url("http://other/x", &addresses), "http://other/x");
/// ```
pub fn resolve_url(url: &str, addresses: &BTreeMap<String, SocketAddr>) -> String {
    let Ok(p) = parts(url) else {
        return url.to_owned();
    };
    addresses.get(p.host).map_or_else(
        || url.to_owned(),
        |address| format!("{}{}{}", p.scheme, reachable(*address), p.rest),
    )
}

/// The address under which a client on this machine reaches a server that listens on `address`: a
/// server on `0.0.0.0` or `::` is reached over the loopback address.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_urls() {
        let cut = |url| parts(url).map(|p| (p.scheme, p.host, p.port, p.rest));
        for (url, want) in [
            ("http://a", ("http://", "a", None, "")),
            ("https://a:1/b?c:d", ("https://", "a", Some("1"), "/b?c:d")),
            ("http://[::1]:80/x", ("http://", "[::1]", Some("80"), "/x")),
            ("http://a?x", ("http://", "a", None, "?x")),
            ("ws://a/x", ("ws://", "a", None, "/x")),
            ("wss://a:1", ("wss://", "a", Some("1"), "")),
        ] {
            assert_eq!(cut(url), Ok(want), "{url}");
        }
        for url in [
            "ftp://a",
            "a/b",
            "http://",
            "http:///x",
            "http://u@h/",
            "http://a:99999/",
        ] {
            assert!(cut(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_wildcard_listener_is_reached_over_loopback() {
        let addresses = BTreeMap::from([("s".to_owned(), "0.0.0.0:80".parse().unwrap())]);
        assert_eq!(resolve_url("http://s/", &addresses), "http://127.0.0.1:80/");
        assert_eq!(
            reachable("[::]:1".parse().unwrap()),
            "[::1]:1".parse().unwrap()
        );
    }
}
