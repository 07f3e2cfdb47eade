//! What a server's configuration allows.

use super::{Material, Sheet, flag};
use crate::ledger::program_of;
use record::{Directive, Server};

const SOURCE: &str = "configuration";

/// Directives whose first number caps the connections that one server or process holds.
const CAPS: [(&str, &[&str]); 6] = [
    ("nginx", &["worker_connections"]),
    ("haproxy", &["maxconn"]),
    ("apache", &["MaxRequestWorkers", "MaxClients"]),
    ("lighttpd", &["server.max-connections"]),
    ("tomcat", &["maxConnections"]),
    ("php-fpm", &["pm.max_children"]),
];
/// Directives that cap the requests that are served at one time, where a request holds one.
const SLOTS: [(&str, &[&str]); 3] = [
    ("apache", &["MaxRequestWorkers", "MaxClients"]),
    ("tomcat", &["maxThreads"]),
    ("php-fpm", &["pm.max_children"]),
];

/// Programs that keep responses and are of no known kind.
const CACHES: [&str; 3] = ["traffic_server", "polipo", "nuster"];

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>, front: bool) {
    sheet.known("server.is_front", flag(front), "record");
    let server = material.server(&sheet.target);
    for (name, is) in [
        ("server.caches", server.map(caches)),
        ("server.needs_lifetimes", server.map(needs_lifetimes)),
    ] {
        sheet.maybe(name, is.map(flag), SOURCE, "the server was not identified");
    }
    let unread = "its configuration says no such number, or was not read";
    for (name, table) in [
        ("server.connections_limit", &CAPS[..]),
        ("server.slots", &SLOTS),
    ] {
        match server.and_then(|s| capped(s, table)) {
            Some(limit) => sheet.known(name, limit, SOURCE),
            None => sheet.not_applicable(name, unread),
        }
    }
}

/// Whether it keeps responses of its upstreams, by what it is or by what it is told.
fn caches(server: &Server) -> bool {
    let keeps = |d: &Directive| match d.name.as_str() {
        "proxy_cache" | "fastcgi_cache" | "uwsgi_cache" | "scgi_cache" => {
            !d.args.iter().any(|a| a == "off")
        }
        "http-request" => d.args.iter().any(|a| a == "cache-use"),
        name => name.eq_ignore_ascii_case("CacheEnable"),
    };
    matches!(server.kind.as_str(), "varnish" | "squid")
        || CACHES.contains(&program_of(server))
        || server.directives.iter().any(keeps)
}

/// Whether it keeps only responses that say for how long: Varnish keeps others for its `default_ttl`, a cache that is
/// told so for what it is told.
fn needs_lifetimes(server: &Server) -> bool {
    const VALID: [&str; 5] = [
        "proxy_cache_valid",
        "fastcgi_cache_valid",
        "uwsgi_cache_valid",
        "scgi_cache_valid",
        "CacheIgnoreNoLastMod",
    ];
    let told = |d: &Directive| VALID.iter().any(|name| d.name.eq_ignore_ascii_case(name));
    server.kind != "varnish" && !server.directives.iter().any(told)
}

/// The largest of them, times the workers of a server that counts by worker.
fn capped(server: &Server, table: &[(&str, &[&str])]) -> Option<f64> {
    let (_, names) = table.iter().find(|(kind, _)| *kind == server.kind)?;
    if server.kind == "haproxy" {
        return by_frontend(server, names);
    }
    let values = server.directives.iter().filter(|d| {
        let mut names = names.iter();
        names.any(|n| d.name.eq_ignore_ascii_case(n))
    });
    let most = values.filter_map(first_number).reduce(f64::max)?;
    let workers = server.processes.iter().filter(|p| p.role == "worker");
    let by_worker = matches!(server.kind.as_str(), "nginx" | "lighttpd");
    let times = if by_worker { workers.count().max(1) } else { 1 };
    Some(most * times as f64)
}

/// HAProxy counts for each frontend and for the process: what the most generous frontend takes, and no more than the
/// process does. A frontend without a number of its own has that of `defaults`, and without one the process's.
fn by_frontend(server: &Server, names: &[&str]) -> Option<f64> {
    let of = |section: &str| {
        let mut own = server.directives.iter().filter(|d| {
            names.contains(&d.name.as_str()) && d.context.last().is_some_and(|c| c == section)
        });
        own.find_map(first_number)
    };
    let defaults = server.directives.iter().filter_map(|d| d.context.last());
    let defaults = defaults.filter(|c| c.split(' ').next() == Some("defaults"));
    let process = of("global");
    let usual = defaults.filter_map(|c| of(c)).reduce(f64::max).or(process);
    let frontends = server.directives.iter().filter(|d| d.name == "bind");
    let most = frontends
        .filter_map(|d| of(d.context.last()?).or(usual))
        .reduce(f64::max)
        .or(usual)?;
    Some(process.map_or(most, |process| most.min(process)))
}

fn first_number(directive: &Directive) -> Option<f64> {
    directive.args.iter().find_map(|a| number_of(a))
}

/// A number with a size (`k`, `m`, `g`: bytes) or a time (`ms`, `s`, `min`, `h`: seconds) behind it.
pub(crate) fn number_of(text: &str) -> Option<f64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-');
    let (digits, unit) = text.split_at(split.unwrap_or(text.len()));
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "s" | "b" => 1.0,
        "ms" => 1e-3,
        "k" | "kb" | "kib" => 1_024.0,
        "m" | "mb" | "mib" => 1_048_576.0,
        "g" | "gb" | "gib" => 1_073_741_824.0,
        "min" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|n| n * scale)
}

#[cfg(test)]
mod tests {
    use super::{CAPS, capped, number_of};
    use record::{Directive, Server};

    fn haproxy(lines: &[(&str, &str, &str)]) -> Server {
        let directives = lines.iter().map(|(section, name, arg)| Directive {
            name: (*name).into(),
            args: vec![(*arg).into()],
            context: vec![(*section).into()],
            ..Directive::default()
        });
        Server {
            kind: "haproxy".into(),
            directives: directives.collect(),
            ..Server::default()
        }
    }

    #[test]
    fn a_frontend_caps_its_own_connections() {
        let global = ("global", "maxconn", "2000");
        let bind = ("frontend a", "bind", ":80");
        for (lines, expected) in [
            (vec![global, bind], 2_000.0),
            (vec![global, bind, ("frontend a", "maxconn", "2")], 2.0),
            (vec![global, bind, ("defaults", "maxconn", "50")], 50.0),
            (
                vec![global, bind, ("frontend a", "maxconn", "9000")],
                2_000.0,
            ),
            (
                vec![
                    bind,
                    ("frontend b", "bind", ":81"),
                    ("frontend a", "maxconn", "2"),
                    ("frontend b", "maxconn", "30"),
                ],
                30.0,
            ),
        ] {
            assert_eq!(capped(&haproxy(&lines), &CAPS), Some(expected), "{lines:?}");
        }
    }

    #[test]
    fn numbers_with_units() {
        for (text, expected) in [
            ("4k", Some(4_096.0)),
            ("2m", Some(2_097_152.0)),
            ("100ms", Some(0.1)),
            ("30s", Some(30.0)),
            ("512", Some(512.0)),
            ("on", None),
            ("buffer=64k", None),
        ] {
            assert_eq!(number_of(text), expected, "{text}");
        }
    }
}
