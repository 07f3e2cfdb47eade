//! Requests a line in forms that are no combined log: JSON with any names, the balancers of AWS, Envoy's flags, uWSGI,
//! and what frameworks say of a request's parts.
//!
//! The first three become lines of the access log; a framework's parts (views, database) are an artefact of their own.
//! The surprise of JSON is the unit: `duration` is seconds in one server and milliseconds in the next, and only a name
//! that says it, or one that always means the same, is taken for a time.

use super::events::{artefact, told};
use super::pieces::{METHODS, seconds, short};
use record::pasted::{Artefact, Row};

/// One request, as far as its line tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Request {
    pub path: String,
    pub status: u16,
    pub took_s: Option<f64>,
    pub upstream_s: Option<f64>,
}

/// A request in one of these forms.
pub(super) fn read_line(line: &str) -> Option<Request> {
    json(line)
        .or_else(|| logfmt(line))
        .or_else(|| balancer(line))
        .or_else(|| uwsgi(line))
        .or_else(|| finished(line))
        .or_else(|| squid(line))
        .or_else(|| milliseconds(line))
}

/// Names of what is told in JSON, with what a number of it is in seconds.
const STATUS: [&str; 7] = [
    "status",
    "response_code",
    "status_code",
    "statuscode",
    "downstreamstatus",
    "code",
    "http_status",
];
const PATH: [&str; 10] = [
    "request_uri",
    "uri",
    "path",
    "url",
    "requestpath",
    "request",
    "http_path",
    "requesturl",
    "target",
    "message",
];
const TOOK: [(&str, f64); 25] = [
    ("request_time", 1.0),
    ("requesttime", 1.0),
    ("upstream_request_time", 1.0),
    ("duration_s", 1.0),
    ("duration_seconds", 1.0),
    ("duration_ms", 1e-3),
    ("latency_ms", 1e-3),
    ("elapsed_ms", 1e-3),
    ("took_ms", 1e-3),
    ("response_time_ms", 1e-3),
    ("responsetime", 1e-3),
    ("total_time_ms", 1e-3),
    ("tt", 1e-3),
    ("ta", 1e-3),
    ("latency_human", 1.0),
    ("duration", f64::NAN),
    ("latency", f64::NAN),
    ("elapsed", f64::NAN),
    ("elapsedmilliseconds", 1e-3),
    ("durationmillis", 1e-3),
    ("durationms", 1e-3),
    ("took", f64::NAN),
    ("request_duration", f64::NAN),
    ("service", f64::NAN),
    ("response_time", f64::NAN),
];
const UPSTREAM: [(&str, f64); 6] = [
    ("upstream_response_time", 1.0),
    ("upstreamresponsetime", 1.0),
    ("upstream_service_time", 1e-3),
    ("upstream_ms", 1e-3),
    ("tr", 1e-3),
    ("originduration", f64::NAN),
];
/// Servers that write a plain number without its unit: a name that only they have, and what it is in seconds.
const UNITS: [(&str, f64); 6] = [
    // Envoy's whole milliseconds, Traefik's nanoseconds, the seconds of Caddy and others of zap, Serilog's
    // milliseconds, and those of the loggers of Node (pino, bunyan).
    ("response_flags", 1e-3),
    ("downstreamstatus", 1e-9),
    ("remote_ip", 1.0),
    ("ts", 1.0),
    ("requestpath", 1e-3),
    ("pid", 1e-3),
];

/// One object a line.
fn json(line: &str) -> Option<Request> {
    let at = line.find('{')?;
    let parsed: serde_json::Value =
        serde_json::from_str(line[at..].trim_end_matches([',', ' '])).ok()?;
    let mut fields = Vec::new();
    flat(&parsed, &mut fields, 0);
    (fields.len() >= 3).then(|| of_fields(&fields))?
}

/// `level=info method=GET path=/orders status=200 duration=12.4s`, of logrus, structlog, Heroku's router and others;
/// without a time that is told in a unit it is left to others.
fn logfmt(line: &str) -> Option<Request> {
    if !line.contains("status=") && !line.contains("code=") {
        return None;
    }
    let mut fields = Vec::new();
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once('=') {
        let name = before.rsplit([' ', '\t', '{', ',']).next()?;
        let mark = behind.chars().next().filter(|c| ['"', '\''].contains(c));
        let end = match mark {
            Some(mark) => behind[1..].find(mark).map(|at| at + 2),
            None => behind.find([' ', '\t', ',', '}']),
        };
        let (value, after) = behind.split_at(end.unwrap_or(behind.len()));
        let value = value.trim_matches(['"', '\'']);
        fields.push((
            name.to_ascii_lowercase().replace('-', "_"),
            value.to_owned(),
        ));
        rest = after;
    }
    (fields.len() >= 3)
        .then(|| of_fields(&fields))?
        .filter(|r| r.took_s.is_some())
}

/// A number with its unit behind it, in seconds: `12.4s`, `1.41ms`, `312\u{b5}s`.
fn with_unit(text: &str) -> Option<f64> {
    text.ends_with('s').then(|| seconds(text))?
}

fn of_fields(fields: &[(String, String)]) -> Option<Request> {
    let text = |names: &[&str]| {
        let found = |name: &&str| fields.iter().find(|(n, _)| n == name);
        names
            .iter()
            .find_map(found)
            .map(|(_, value)| value.as_str())
    };
    let status: u16 = text(&STATUS)?.parse().ok()?;
    let own = UNITS.iter().find(|(name, _)| text(&[name]).is_some());
    let time = |names: &[(&str, f64)]| {
        names.iter().find_map(|(name, unit)| {
            let raw = text(&[name])?;
            // Several upstreams were asked one after the other.
            let sum = raw
                .split([',', ':'])
                .map(|part| part.trim().parse::<f64>())
                .sum::<Result<f64, _>>();
            let Some(n) = sum.ok().filter(|n| *n >= 0.0) else {
                return with_unit(raw);
            };
            match unit.is_nan() {
                true => own.map(|(_, unit)| n * unit),
                false => Some(n * unit),
            }
        })
    };
    (status < 600).then(|| Request {
        path: text(&PATH)
            .map(|p| p.chars().take(120).collect())
            .unwrap_or_default(),
        status,
        took_s: time(&TOOK),
        upstream_s: time(&UPSTREAM),
    })
}

/// Where a log of W3C's extended form (IIS, CloudFront) has what a request is told by.
pub(super) struct Columns {
    path: usize,
    status: usize,
    took: Option<(usize, f64)>,
}

/// `#Fields: date time cs-method cs-uri-stem sc-status time-taken`.
pub(super) fn columns(line: &str) -> Option<Columns> {
    let names: Vec<&str> = line
        .trim()
        .strip_prefix("#Fields:")?
        .split_whitespace()
        .collect();
    let at = |name: &str| names.iter().position(|n| *n == name);
    // CloudFront writes seconds, IIS milliseconds.
    let unit = if at("x-edge-location").is_some() {
        1.0
    } else {
        1e-3
    };
    Some(Columns {
        path: at("cs-uri-stem").or_else(|| at("cs-uri"))?,
        status: at("sc-status")?,
        took: at("time-taken").map(|at| (at, unit)),
    })
}

/// A request by such columns.
pub(super) fn by_columns(columns: &Columns, line: &str) -> Option<Request> {
    let cells: Vec<&str> = line.split_whitespace().collect();
    let status = cells.get(columns.status)?.parse().ok()?;
    let path = cells.get(columns.path).filter(|p| p.starts_with('/'))?;
    let took = columns.took.and_then(|(at, unit)| {
        let n: f64 = cells.get(at)?.parse().ok()?;
        Some(n * unit)
    });
    Some(Request {
        path: (*path).to_owned(),
        status,
        took_s: took.filter(|s| *s >= 0.0),
        upstream_s: None,
    })
}

fn flat(value: &serde_json::Value, into: &mut Vec<(String, String)>, depth: u8) {
    let serde_json::Value::Object(map) = value else {
        return;
    };
    for (name, inner) in map {
        if inner.is_object() && depth < 3 {
            flat(inner, into, depth + 1);
        } else {
            // HAProxy's times differ by the case alone: the request was received in TR, the response came in Tr.
            let ours = match name.as_str() {
                "TR" | "tR" => "t_received".to_owned(),
                name => name.to_ascii_lowercase().replace('-', "_"),
            };
            let text = match inner {
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            into.push((ours, text));
        }
    }
}

/// AWS: `https TIME app/NAME CLIENT TARGET 0.001 12.048 0.000 200 200 34 366 "GET ..."`.
fn balancer(line: &str) -> Option<Request> {
    let (before, rest) = line.split_once(" \"")?;
    let words: Vec<&str> = before.split_whitespace().collect();
    let [.., first, second, third, status, _, _, _] = words.as_slice() else {
        return None;
    };
    let times: Option<Vec<f64>> = [first, second, third]
        .iter()
        .map(|w| w.parse().ok().filter(|_| w.contains('.') || **w == "-1"))
        .collect();
    let times = times?;
    let status: u16 = status.parse().ok()?;
    words
        .iter()
        .any(|w| w.contains("-") && w.contains("T") && w.ends_with('Z'))
        .then_some(())?;
    let known = times.iter().all(|t| *t >= 0.0);
    Some(Request {
        path: rest.split(' ').nth(1).unwrap_or_default().to_owned(),
        status,
        took_s: known.then(|| times.iter().sum()),
        upstream_s: known.then_some(times[1]),
    })
}

/// `... GET /orders => generated 5123 bytes in 4312 msecs (HTTP/1.1 200) ...`.
fn uwsgi(line: &str) -> Option<Request> {
    let (before, rest) = line.split_once(" => generated ")?;
    let (_, rest) = rest.split_once(" bytes in ")?;
    let (n, rest) = rest.split_once(' ')?;
    let n: f64 = n.parse().ok()?;
    let unit = match rest.split_whitespace().next()? {
        "msecs" => 1e-3,
        "micros" | "usecs" => 1e-6,
        "secs" => 1.0,
        _ => return None,
    };
    let (_, status) = rest.split_once("(HTTP/")?;
    let status = status.split([' ', ')']).nth(1)?.parse().ok()?;
    Some(Request {
        path: before.rsplit(' ').next().unwrap_or_default().to_owned(),
        status,
        took_s: Some(n * unit),
        upstream_s: None,
    })
}

/// ASP.NET: `Request finished HTTP/1.1 GET http://a/orders - 200 812 text/html 12412.1234ms`, and Phoenix: `Sent 200 in
/// 12412ms`, which does not say of what.
fn finished(line: &str) -> Option<Request> {
    let whole = |w: &&str| w.len() == 3 && w.parse::<u16>().is_ok();
    if let Some((_, rest)) = line.split_once("Request finished HTTP/") {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let last = words.last().and_then(|w| with_unit(w))?;
        return Some(Request {
            path: (*words.get(2)?).to_owned(),
            status: words.iter().skip(3).copied().find(whole)?.parse().ok()?,
            took_s: Some(last),
            upstream_s: None,
        });
    }
    let (status, took) = line.split_once("Sent ")?.1.split_once(" in ")?;
    Some(Request {
        path: String::new(),
        status: Some(status).filter(whole)?.parse().ok()?,
        took_s: Some(with_unit(took.trim())?),
        upstream_s: None,
    })
}

/// Squid: `1768039200.123  12412 10.0.0.9 TCP_MISS/200 812 GET http://a/orders - HIER_DIRECT/10.0.0.7 text/html`.
fn squid(line: &str) -> Option<Request> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, ms, _, result, _, method, path, ..] = words.as_slice() else {
        return None;
    };
    let (how, status) = result.split_once('/')?;
    (how.contains('_') && METHODS.contains(method)).then_some(())?;
    Some(Request {
        path: (*path).to_owned(),
        status: status.parse().ok()?,
        took_s: Some(ms.parse::<f64>().ok()? / 1e3),
        upstream_s: None,
    })
}

/// `GET /orders 200 4312.123 ms - 51` of Express' morgan, `"GET /orders" 200 4312ms`, and Go's
/// `| 200 | 4.3s | ... GET "/a"`.
fn milliseconds(line: &str) -> Option<Request> {
    if !line.contains('/') || !METHODS.iter().any(|m| line.contains(m)) {
        return None;
    }
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || "|\"".contains(c))
        .filter(|w| !w.is_empty())
        .collect();
    let method = words.iter().position(|w| METHODS.contains(w))?;
    let path = words.get(method + 1).filter(|p| p.starts_with('/'))?;
    if line.contains(" HTTP/") {
        return None;
    }
    let status = words.iter().find_map(|w| {
        w.parse::<u16>()
            .ok()
            .filter(|s| w.len() == 3 && (100..600).contains(s))
    })?;
    let took = words
        .iter()
        .enumerate()
        .find_map(|(i, w)| match words.get(i + 1) {
            Some(&"ms") => w.parse::<f64>().ok().map(|ms| ms / 1e3),
            _ => w.ends_with('s').then(|| seconds(w)).flatten(),
        })?;
    Some(Request {
        path: (*path).to_owned(),
        status,
        took_s: Some(took),
        upstream_s: None,
    })
}

/// Envoy's flags behind the status, `503 UO 0 81 0 -`: the flags, and its time and the upstream's in ms.
pub(super) fn flags(rest: &str) -> Option<(&str, Option<f64>, Option<f64>)> {
    let mut words = rest.split_whitespace().skip(1);
    let flags = words.next()?;
    let is_flag = |f: &str| (2..=5).contains(&f.len()) && f.bytes().all(|b| b.is_ascii_uppercase());
    if flags != "-" && !flags.split(',').all(is_flag) {
        return None;
    }
    // Details and a reason in quotes may stand between.
    let rest: Vec<&str> = words.collect();
    let number = |w: &&str| w.parse::<u64>().is_ok();
    let at = rest.windows(3).position(|w| w.iter().all(number))?;
    if at > 3 {
        return None;
    }
    let ms = |i: usize| rest.get(at + i)?.parse::<f64>().ok().map(|ms| ms / 1e3);
    Some((flags, ms(2), ms(3)))
}

/// Meanings of Envoy's flags.
const FLAGS: [(&str, &str); 15] = [
    (
        "UO",
        "the limit of a circuit breaker (connections, pending requests) refused it",
    ),
    ("UF", "the connection to the upstream failed"),
    ("UH", "no healthy upstream"),
    ("UT", "the upstream did not respond in time"),
    ("UC", "the upstream closed the connection"),
    ("UR", "the upstream reset the stream"),
    ("URX", "its retries or connects are used up"),
    ("LR", "Envoy reset it itself"),
    ("NR", "no route"),
    ("NC", "no such cluster"),
    ("DC", "the client closed the connection"),
    ("DPE", "the client's message is broken"),
    ("RL", "the service that limits rates refused it"),
    ("DT", "it ran longer than it may"),
    ("SI", "no byte came for the idle time"),
];

/// All of Envoy's flags in a text, with what they mean.
fn envoy(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("Envoy's flags", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let in_json = || {
            let (_, rest) = line.split_once("\"response_flags\"")?;
            rest.trim_start_matches([':', ' ', '"']).split('"').next()
        };
        let in_text = || {
            let (_, rest) = line.split_once(" HTTP/")?;
            let (_, rest) = rest.split_once('"')?;
            flags(rest).map(|f| f.0)
        };
        let Some(flags) = in_json().or_else(in_text).filter(|f| *f != "-") else {
            continue;
        };
        for flag in flags.split(',') {
            let Some((_, meaning)) = FLAGS.iter().find(|(f, _)| *f == flag) else {
                continue;
            };
            found.begin_at(number);
            found.add(&format!("envoy.{flag}"), 1.0);
            found.add("envoy.flagged", 1.0);
            found.rows.push(Row {
                label: flag.to_owned(),
                place: (*meaning).to_owned(),
                share: 1.0,
            });
        }
    }
    found.settle();
    told(found)
}

/// What is said beside the lines of an access log.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    done.extend(envoy(lines));
    done.extend(frameworks(lines));
    done
}

/// Rails: `Completed 200 OK in 4312ms (Views: 312.1ms | ActiveRecord: 3801.4ms | ...)`, and lograge's one line.
fn frameworks(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("the framework's log", 0);
    let mut longest = 0.0;
    let mut started = String::new();
    for (number, line) in (1_u32..).zip(lines) {
        if let Some((_, rest)) = line.split_once("Started ") {
            started = short(rest.split(" for ").next().unwrap_or(rest));
        }
        let Some((all, view, database, label)) = parts(line, &started) else {
            continue;
        };
        found.begin_at(number);
        found.add("framework.requests", 1.0);
        for (name, n) in [("all_s", all), ("views_s", view), ("database_s", database)] {
            found.add(&format!("framework.{name}"), n);
        }
        if all > longest {
            longest = all;
            found.rows = vec![Row::new(label, all)];
        }
        found.largest("framework.longest_s", all);
    }
    let all = found.value("framework.all_s").filter(|s| *s > 0.0)?;
    for (name, part) in [("views_share", "views_s"), ("database_share", "database_s")] {
        let share = found.value(&format!("framework.{part}")).unwrap_or(0.0) / all;
        found
            .figures
            .insert(format!("framework.{name}"), share.min(1.0));
    }
    told(found)
}

/// Seconds in all, in views and in the database, and the request.
fn parts(line: &str, started: &str) -> Option<(f64, f64, f64, String)> {
    let of = |rest: &str, name: &str| {
        let (_, rest) = rest.split_once(name)?;
        let end = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(rest.len());
        rest[..end].parse::<f64>().ok().map(|ms| ms / 1e3)
    };
    if let Some((_, rest)) = line.split_once("Completed ") {
        let all = of(rest, " in ").filter(|_| rest.contains("ms"))?;
        let label = match started {
            "" => short(rest.split(" in ").next()?),
            started => started.to_owned(),
        };
        let views = of(rest, "Views: ").unwrap_or(0.0);
        return Some((all, views, of(rest, "ActiveRecord: ").unwrap_or(0.0), label));
    }
    // A time with its unit is that of another logger.
    let unit = line.split_once(" duration=")?.1;
    let unit = unit.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let plain = !unit.starts_with(|c: char| c.is_alphabetic());
    let keyed =
        plain && line.contains(" status=") && line.contains(" duration=") && line.contains("path=");
    let all = of(line, " duration=").filter(|_| keyed)?;
    let path = line.split_once("path=")?.1.split_whitespace().next()?;
    Some((
        all,
        of(line, " view=").unwrap_or(0.0),
        of(line, " db=").unwrap_or(0.0),
        path.to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_unit_is_no_time() {
        let bare = json(r#"{"status":200,"duration":12.5,"uri":"/a"}"#).unwrap();
        assert_eq!(bare.took_s, None);
        let traefik =
            r#"{"DownstreamStatus":200,"Duration":1500000000,"OriginDuration":900000000}"#;
        let traefik = json(traefik).unwrap();
        assert_eq!((traefik.took_s, traefik.upstream_s), (Some(1.5), Some(0.9)));
        let zap = json(r#"x {"status":200,"latency":"1.5ms","path":"/a"}"#).unwrap();
        assert_eq!(zap.took_s, Some(0.0015));
        let nginx = r#"{"status":"504","request_time":"60.001","upstream_response_time":"60.000, 1.0","uri":"/a"}"#;
        let nginx = json(nginx).unwrap();
        assert_eq!(
            (nginx.status, nginx.took_s, nginx.upstream_s),
            (504, Some(60.001), Some(61.0))
        );
        let envoy = r#"{"response_code":503,"response_flags":"UH","duration":12,"path":"/api"}"#;
        assert_eq!(json(envoy).unwrap().took_s, Some(0.012));
        assert_eq!(json("{\"a\": 1}"), None);
    }

    #[test]
    fn a_balancer_that_got_no_response_has_no_times() {
        let line = |times: &str| {
            format!(
                "h2 2023-01-01T10:00:00.1Z app/a/5 10.0.0.1:2 10.0.0.5:80 {times} 34 366 \"GET https://a/ HTTP/2.0\" \"c\""
            )
        };
        let whole = balancer(&line("0.001 12.048 0.000 200 200")).unwrap();
        assert_eq!((whole.status, whole.upstream_s), (200, Some(12.048)));
        let none = balancer(&line("0.001 -1 -1 504 -")).unwrap();
        assert_eq!((none.status, none.took_s), (504, None));
    }

    #[test]
    fn flags_stand_before_the_numbers_of_their_line() {
        assert_eq!(
            flags(" 503 UO 0 81 0 - \"a\""),
            Some(("UO", Some(0.0), None))
        );
        assert_eq!(
            flags(" 200 - via_upstream - \"-\" 0 1024 2310 2309 \"c\""),
            Some(("-", Some(2.31), Some(2.309)))
        );
        assert_eq!(flags(" 200 512 \"-\" \"agent\" 0.123"), None);
    }
}
