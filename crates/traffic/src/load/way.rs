//! The way of a load that does not go straight to its server: through a forward proxy, or over connections of limited
//! bandwidth.

use super::LoadError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use record::{Carrier, Engine, Http, LoadSpec, Warning};
use std::sync::Arc;
use url::{Position, Url};

/// Whether each connection is a tunnel through a proxy.
pub(super) fn is_tunnel(spec: &LoadSpec) -> bool {
    spec.proxy.is_some() && (spec.is_tls() || spec.is_websocket())
}

/// Whether only epoll drives sockets on this way.
pub(super) fn wants_epoll(spec: &LoadSpec) -> bool {
    spec.unix.is_some() || spec.limit_rate.is_some() || is_tunnel(spec)
}

/// Refuses what does not go together, and warns of what the way changes.
pub(super) fn check(
    url: &Url,
    spec: &LoadSpec,
    warnings: &mut Vec<Warning>,
) -> Result<(), LoadError> {
    check_limit(spec, warnings)?;
    check_proxy(url, spec, warnings)
}

fn check_limit(spec: &LoadSpec, warnings: &mut Vec<Warning>) -> Result<(), LoadError> {
    let Some(rate) = spec.limit_rate else {
        return Ok(());
    };
    let refused = |what, why, remedy| Err(LoadError::Way { what, why, remedy });
    if rate.0 == 0 {
        return refused("--limit-rate 0", "no byte would pass", "leave it out");
    }
    if spec.transport != Carrier::Kernel {
        return refused(
            "--limit-rate over a TCP of prony's own",
            "the limit stands on the kernel's sockets",
            "leave out --transport",
        );
    }
    if spec.engine == Engine::Uring {
        return refused(
            "--engine uring with --limit-rate",
            "io_uring receives before the load loop asks, and a slow client must not",
            "leave it out: epoll drives limited connections",
        );
    }
    warnings.push(Warning::new(
        "limited_rate",
        format!(
            "each connection receives at most {rate}/s and sends at most as much (--limit-rate), driven by epoll: the pauses are part of the response times, and the limit bounds every rate"
        ),
        "load the server without --limit-rate for its capacity",
    ));
    Ok(())
}

fn check_proxy(url: &Url, spec: &LoadSpec, warnings: &mut Vec<Warning>) -> Result<(), LoadError> {
    let refused = |what, why, remedy| Err(LoadError::Way { what, why, remedy });
    let Some(proxy) = &spec.proxy else {
        if spec.proxy_user.is_some() {
            return refused("--proxy-user", "no proxy is named", "add --proxy");
        }
        return Ok(());
    };
    let is_plain = url.scheme() == "http";
    if is_plain && spec.http == Http::Two {
        return refused(
            "HTTP/2 over http:// through a proxy",
            "a proxy takes HTTP/1.1 requests for http:// URLs",
            "use --http 1.1, or an https:// URL, which goes through a tunnel",
        );
    }
    if spec.unix.is_some() || spec.connect_to.is_some() {
        return refused(
            "--unix or --connect-to beside --proxy",
            "the proxy decides where it connects to",
            "leave them out",
        );
    }
    if spec.transport != Carrier::Kernel {
        return refused(
            "a TCP of prony's own through a proxy",
            "only the kernel's sockets lead there",
            "leave out --transport",
        );
    }
    if !is_plain && spec.engine == Engine::Uring {
        return refused(
            "--engine uring through a tunnel",
            "epoll drives tunnels through a proxy",
            "leave it out",
        );
    }
    warnings.push(Warning::new(
        "proxy_in_path",
        format!(
            "the load goes through the proxy {proxy}: its speed is part of every figure, and the processes that are watched are those behind its address, not the server's"
        ),
        "load the server without --proxy for figures of its own",
    ));
    Ok(())
}

/// What stands before the path in a request: all of the URL's beginning where a proxy reads it (RFC 9112 3.2.2).
pub(crate) fn prefix<'a>(spec: &LoadSpec, url: &'a Url) -> &'a str {
    if spec.proxy.is_some() && url.scheme() == "http" {
        &url[..Position::BeforePath]
    } else {
        ""
    }
}

/// The header by which a request says who asks, where the proxy reads it; else nothing.
pub(crate) fn authorization(spec: &LoadSpec, url: &Url) -> String {
    match url.scheme() {
        "http" => basic(spec),
        _ => String::new(),
    }
}

fn basic(spec: &LoadSpec) -> String {
    let user = spec.proxy.as_ref().and(spec.proxy_user.as_ref());
    user.map_or_else(String::new, |user| {
        format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(user))
    })
}

/// The request for a tunnel; `None` where there is none.
pub(super) fn connect_request(spec: &LoadSpec, url: &Url) -> Option<Arc<[u8]>> {
    let host = url.host_str().filter(|_| is_tunnel(spec))?;
    let port = url.port_or_known_default()?;
    let authorization = basic(spec);
    let request =
        format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{authorization}\r\n");
    Some(request.into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::super::request;
    use super::*;

    fn through(url: &str, change: fn(&mut LoadSpec)) -> (LoadSpec, Url) {
        let mut spec = LoadSpec::new(url);
        spec.proxy = Some("127.0.0.1:3128".to_owned());
        change(&mut spec);
        (spec, request::parse_url(url).unwrap())
    }

    fn refusal(url: &str, change: fn(&mut LoadSpec)) -> String {
        let (spec, url) = through(url, change);
        let checked = check(&url, &spec, &mut Vec::new());
        checked.map_or_else(|refused| refused.to_string(), |()| String::new())
    }

    #[test]
    fn a_proxy_is_asked_for_whole_urls_or_for_a_tunnel() {
        let user = |s: &mut LoadSpec| s.proxy_user = Some("me:secret".to_owned());
        let (spec, url) = through("http://[::1]:81/a?b#c", user);
        let built = request::build(&spec, &url).unwrap().bytes;
        let auth = "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n";
        let asked = format!("GET http://[::1]:81/a?b HTTP/1.1\r\nHost: [::1]:81\r\n{auth}\r\n");
        assert_eq!(String::from_utf8(built).unwrap(), asked);
        assert_eq!(connect_request(&spec, &url), None);
        let (spec, url) = through("https://[::1]/a", user);
        let built = request::build(&spec, &url).unwrap().bytes;
        assert_eq!(built, b"GET /a HTTP/1.1\r\nHost: [::1]\r\n\r\n");
        let asked = format!("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n{auth}\r\n");
        assert_eq!(connect_request(&spec, &url).unwrap()[..], *asked.as_bytes());
    }

    #[test]
    fn what_does_not_go_through_a_proxy_is_refused() {
        let (plain, tunnel) = ("http://a/", "https://a/");
        assert_eq!(refusal(plain, |s| s.engine = Engine::Uring), "");
        assert_eq!(refusal(tunnel, |s| s.http = Http::Two), "");
        assert!(refusal(plain, |s| s.http = Http::Two).contains("HTTP/2 over http://"));
        assert!(refusal(tunnel, |s| s.engine = Engine::Uring).contains("--engine uring"));
        assert!(refusal(plain, |s| s.transport = Carrier::Tap).contains("prony's own"));
        assert!(refusal(plain, |s| s.unix = Some("/a".to_owned())).contains("--unix"));
        let elsewhere = |s: &mut LoadSpec| s.connect_to = Some("b:1".to_owned());
        assert!(refusal(plain, elsewhere).contains("--connect-to"));
        let nowhere = |s: &mut LoadSpec| (s.proxy, s.proxy_user) = (None, Some("a:b".to_owned()));
        assert!(refusal(plain, nowhere).contains("no proxy"));
        let (spec, url) = through(plain, |_| {});
        let mut warnings = Vec::new();
        check(&url, &spec, &mut warnings).unwrap();
        assert_eq!(warnings[0].name, "proxy_in_path");
    }
}
