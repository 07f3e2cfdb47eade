//! HAR 1.2 (the browsers' export of a network panel) -> a session: one step a request, time to think from the gaps.
//!
//! Every browser leaves out or adds something, so only what a request needs is asked for. The surprise: a browser sends
//! at once what a session sends in turn, so a gap counts from the end of all that was sent before.

use super::draft::{Call, Draft, name_of};
use super::{Refusal, WorkloadOptions, url_text};
use record::Nanos;
use record::workload::{Template, WorkloadBody};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use url::Url;

/// Shorter gaps are the browser's own work.
const THINK_LEAST_MS: f64 = 1.0;
/// Longer ones lie between two recordings, or a clock was set.
const THINK_MOST_MS: f64 = 86_400_000.0;
/// Host names that one note takes.
const NAMED_MAX: usize = 8;

/// An entry whose request went out.
struct Seen<'a> {
    url: Url,
    entry: &'a Value,
    /// Milliseconds since 1970.
    at_ms: Option<f64>,
    took_ms: f64,
    status: u64,
}

/// Reads an export.
pub(super) fn read(text: &str, options: &WorkloadOptions) -> Result<Draft, Refusal> {
    let document: Value = serde_json::from_str(text).map_err(|e| {
        Refusal::new(
            format!("it is not whole JSON: {e}"),
            "export the HAR again; a file that was cut cannot be read",
        )
    })?;
    let Some(entries) = document.pointer("/log/entries").and_then(Value::as_array) else {
        return Err(Refusal::new(
            "it has no log.entries",
            "give a HAR file, as a browser's network panel saves it (\"Save all as HAR\")",
        ));
    };
    let mut draft = Draft::new(options.secrets);
    draft.is_session = true;
    let mut left_out = BTreeMap::new();
    let mut seen = Vec::new();
    for entry in entries {
        match sent(entry) {
            Ok(one) => seen.push(one),
            Err(why) => *left_out.entry(why).or_insert(0_u32) += 1,
        }
    }
    for (why, n) in left_out {
        draft.note(format!(
            "left out: {n} {} {why}",
            plural(n, "entry", "entries")
        ));
    }
    // Exports are in order as a rule, and some tools' are not.
    if seen.iter().all(|one| one.at_ms.is_some()) {
        seen.sort_by(|a, b| a.at_ms.unwrap_or(0.0).total_cmp(&b.at_ms.unwrap_or(0.0)));
    }
    let seen = of_hosts(seen, options, &mut draft)?;
    add_all(&seen, &mut draft)?;
    Ok(draft.close())
}

fn sent(entry: &Value) -> Result<Seen<'_>, &'static str> {
    let url = entry.pointer("/request/url").and_then(Value::as_str);
    let url = url.and_then(|url| Url::parse(url).ok());
    let url = url.ok_or("without a URL")?;
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err("not of HTTP (data, WebSocket, extensions)");
    }
    if entry.get("_fromCache").is_some_and(|from| !from.is_null()) {
        return Err("answered by the browser's cache");
    }
    let status = entry.pointer("/response/status").and_then(Value::as_u64);
    let status = status.unwrap_or(0);
    if status == 0 {
        return Err("without a response (blocked or broken off)");
    }
    let started = entry.get("startedDateTime").and_then(Value::as_str);
    let took = entry.get("time").and_then(Value::as_f64);
    Ok(Seen {
        url,
        entry,
        at_ms: started.and_then(milliseconds),
        took_ms: took.filter(|t| t.is_finite() && *t > 0.0).unwrap_or(0.0),
        status,
    })
}

/// Requests of the hosts that were asked for, or of the server that the first page came from.
fn of_hosts<'a>(
    seen: Vec<Seen<'a>>,
    options: &WorkloadOptions,
    draft: &mut Draft,
) -> Result<Vec<Seen<'a>>, Refusal> {
    let is_page = |one: &&Seen<'_>| {
        let kind = one.entry.pointer("/response/content/mimeType");
        let kind = kind.and_then(Value::as_str).unwrap_or("");
        one.status < 300 && kind.starts_with("text/html")
    };
    let host = |one: &Seen<'_>| one.url.host_str().unwrap_or("").to_owned();
    let mut known: Vec<String> = seen.iter().map(host).collect();
    known.sort();
    known.dedup();
    let is_asked = |one: &Seen<'_>| {
        let server = url_text::server(&one.url);
        let mut asked = options.hosts.iter();
        asked.any(|asked| *asked == host(one) || server.ends_with(&format!("/{asked}")))
    };
    let first = match options.hosts.is_empty() {
        true => seen.iter().find(is_page).or(seen.first()),
        false => seen.iter().find(|one| is_asked(one)),
    };
    let Some(first) = first else {
        if options.hosts.is_empty() {
            return Ok(Vec::new());
        }
        let near = plan::near_miss(&options.hosts[0], known.iter().map(String::as_str));
        return Err(Refusal::new(
            format!("it has no request to {}", options.hosts.join(", ")),
            match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has requests to {}", some_of(&known)),
            },
        ));
    };
    let server = url_text::server(&first.url);
    let (taken, others): (Vec<_>, Vec<_>) =
        seen.into_iter()
            .partition(|one| match options.hosts.is_empty() {
                true => url_text::server(&one.url) == server,
                false => is_asked(one),
            });
    if !others.is_empty() {
        let servers: BTreeSet<String> = others.iter().map(|o| url_text::server(&o.url)).collect();
        let n = u32::try_from(others.len()).unwrap_or(u32::MAX);
        draft.note(format!(
            "left out: {n} {} to other servers than {server}: {}; --host NAME takes those of one, and several times \
             those of several",
            plural(n, "request", "requests"),
            some_of(&servers.into_iter().collect::<Vec<_>>())
        ));
    }
    draft.server = Some(server);
    Ok(taken)
}

fn some_of(names: &[String]) -> String {
    let some = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>();
    match names.len().saturating_sub(NAMED_MAX) {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

fn plural<'a>(n: u32, one: &'a str, many: &'a str) -> &'a str {
    if n == 1 { one } else { many }
}

fn add_all(seen: &[Seen<'_>], draft: &mut Draft) -> Result<(), Refusal> {
    let mut others = BTreeSet::new();
    let mut without_body = Vec::new();
    let mut thought = Vec::new();
    let mut end_ms = f64::NEG_INFINITY;
    let mut has_login = false;
    for one in seen {
        let Some(mut call) = call_of(one, draft) else {
            without_body.push(name_of(method(one), one.url.path()));
            continue;
        };
        let server = url_text::server(&one.url);
        if draft.server.as_ref() != Some(&server) {
            let host = server.split_once("://").map_or("", |(_, host)| host);
            // Not by `header`, which leaves `Host` to the load.
            call.headers
                .push(("Host".to_owned(), Template::plain(host)));
            others.insert(server);
        }
        has_login |= ["request", "response"]
            .iter()
            .any(|side| headers(one.entry, side).any(|(name, _)| is_cookie(name)));
        if !one.url.username().is_empty() || one.url.password().is_some() {
            draft.note("left out: user and password in a URL");
        }
        if let Some(at_ms) = one.at_ms {
            let gap_ms = at_ms - end_ms;
            if (THINK_LEAST_MS..=THINK_MOST_MS).contains(&gap_ms) {
                let think = Nanos((gap_ms * 1e3).round() as u64 * 1_000);
                if let Some(before) = draft.calls.last_mut() {
                    before.think = Some(think);
                    thought.push(gap_ms);
                }
            }
            end_ms = end_ms.max(at_ms + one.took_ms);
        }
        draft.sent(call)?;
    }
    draft.cookies = has_login && !draft.keeps_secrets;
    say(draft, seen, &thought);
    if !others.is_empty() {
        let others = some_of(&others.into_iter().collect::<Vec<_>>());
        draft.note(format!(
            "requests to {others} go to the one server of the load, with the `Host` that they were sent with"
        ));
    }
    if !without_body.is_empty() {
        draft.note(format!(
            "left out: {}, whose body is not in the file",
            some_of(&without_body)
        ));
    }
    Ok(())
}

fn say(draft: &mut Draft, seen: &[Seen<'_>], thought: &[f64]) {
    if draft.cookies {
        draft.note(
            "`cookies = true`: every client keeps the cookies that the server gives it; those of the recording are not in \
             the file",
        );
    }
    if !thought.is_empty() {
        let longest = thought.iter().fold(0.0_f64, |a, b| a.max(*b));
        draft.note(format!(
            "time to think from {} {} between responses and next requests: {:.1} s in all, the longest {longest:.0} ms",
            thought.len(),
            plural(u32::try_from(thought.len()).unwrap_or(u32::MAX), "gap", "gaps"),
            thought.iter().sum::<f64>() / 1e3,
        ));
    }
    if seen.iter().any(|one| one.at_ms.is_none()) {
        draft.note("some entries have no time: what follows them has no time to think before it");
    }
    let version = |one: &Seen<'_>| {
        let version = one.entry.pointer("/request/httpVersion")?.as_str()?;
        Some(version.to_ascii_lowercase())
    };
    let is_h2 = |one: &&Seen<'_>| {
        version(one).is_some_and(|v| v == "h2" || v == "http/2.0" || v == "http/2")
    };
    if !seen.is_empty() && seen.iter().filter(is_h2).count() * 2 > seen.len() {
        draft.note("recorded over HTTP/2: give --http 2 to load in the same way");
    }
    if seen.len() > 1 {
        draft.note("a browser sends some of these at once; here each client sends them in turn");
    }
}

fn is_cookie(name: &str) -> bool {
    name.eq_ignore_ascii_case("cookie") || name.eq_ignore_ascii_case("set-cookie")
}

fn method<'a>(one: &Seen<'a>) -> &'a str {
    let method = one.entry.pointer("/request/method").and_then(Value::as_str);
    method.unwrap_or("GET")
}

/// The request; `None` when it had a body that is not there.
fn call_of(one: &Seen<'_>, draft: &mut Draft) -> Option<Call> {
    let target = url_text::target(&one.url);
    let mut call = Call {
        method: method(one).to_owned(),
        target: Template::plain(target),
        name: name_of(method(one), target),
        status: Some(expected(one.status)),
        ..Call::default()
    };
    for (name, value) in headers(one.entry, "request") {
        draft.header(&mut call, name, &Template::plain(value));
    }
    let posted = one.entry.pointer("/request/postData");
    let kind = posted
        .and_then(|p| p.get("mimeType")?.as_str())
        .unwrap_or("");
    let body = match posted {
        Some(posted) => body(posted, kind),
        None => None,
    };
    let size = one
        .entry
        .pointer("/request/bodySize")
        .and_then(Value::as_i64);
    match body {
        // Bytes that were no text are not in the file as they were.
        Some(body) if body.contains('\u{fffd}') => return None,
        Some(body) if !body.is_empty() => {
            if call.header("content-type").is_none() && !kind.is_empty() {
                draft.header(&mut call, "Content-Type", &Template::plain(kind));
            }
            call.body = WorkloadBody::Text(Template::plain(body));
        }
        Some(_) => {}
        None if posted.is_some() || size.is_some_and(|size| size > 0) => return None,
        None => {}
    }
    Some(call)
}

fn headers<'a>(entry: &'a Value, side: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let headers = entry.get(side).and_then(|s| s.get("headers")?.as_array());
    headers.into_iter().flatten().filter_map(|header| {
        let text = |key: &str| header.get(key).and_then(Value::as_str);
        Some((text("name")?, text("value")?))
    })
}

/// Text, or the fields of a form where only those are given.
fn body(posted: &Value, kind: &str) -> Option<String> {
    let text = posted.get("text").and_then(Value::as_str);
    let params = posted.get("params").and_then(Value::as_array);
    match (text, params) {
        (Some(text), _) if !text.is_empty() => Some(text.to_owned()),
        (_, Some(params)) if !params.is_empty() && kind.starts_with("application/x-www-form") => {
            let pairs = params.iter().map(|param| {
                let name = param.get("name")?.as_str()?;
                let value = param.get("value").and_then(Value::as_str).unwrap_or("");
                // HAR 1.2 leaves open whether these are encoded; what is, stays.
                let as_sent = |text: &str| match text.contains('%') {
                    true => text.to_owned(),
                    false => url_text::encoded(text),
                };
                Some(format!("{}={}", as_sent(name), as_sent(value)))
            });
            Some(pairs.collect::<Option<Vec<_>>>()?.join("&"))
        }
        (_, Some(params)) if !params.is_empty() => None,
        (Some(text), _) => Some(text.to_owned()),
        (None, _) => None,
    }
}

/// What a response must have: another page than the recorded one, such as a login, is a failure.
fn expected(status: u64) -> String {
    match status {
        200..=299 | 304 => "200-299,304".to_owned(),
        300..=399 => "300-399".to_owned(),
        100..=999 => status.to_string(),
        _ => "200-299".to_owned(),
    }
}

/// `2024-05-06T07:08:09.123Z` (ISO 8601, RFC 3339) in milliseconds since 1970.
fn milliseconds(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once(['T', ' '])?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (time, zone) = rest.split_at_checked(zone_at)?;
    let mut time = time.splitn(3, ':');
    let hours: f64 = time.next()?.parse().ok()?;
    let minutes: f64 = time.next()?.parse().ok()?;
    let seconds: f64 = time.next().unwrap_or("0").parse().ok()?;
    let ahead_min = match zone.chars().next() {
        Some(sign @ ('+' | '-')) => {
            let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
            let (h, m) = (digits.get(..2)?, digits.get(2..4).unwrap_or("00"));
            let ahead = h.parse::<f64>().ok()? * 60.0 + m.parse::<f64>().ok()?;
            if sign == '-' { -ahead } else { ahead }
        }
        _ => 0.0,
    };
    // Days of the civil calendar, years beginning in March so that a leap day is a year's last.
    let shifted = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year - 719_468;
    let at = ((days as f64 * 24.0 + hours) * 60.0 + minutes - ahead_min) * 60_000.0;
    let at = at + seconds * 1_000.0;
    at.is_finite().then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{ConvertedWorkload, WorkloadFormat, convert};
    use record::workload::{Check, Order, Think};

    const SHOP: &str = include_str!("../../tests/workload/shop.har");

    fn made(text: &str, options: &WorkloadOptions) -> ConvertedWorkload {
        convert(WorkloadFormat::Har, "shop.har", text.as_bytes(), options).unwrap()
    }

    fn has(made: &ConvertedWorkload, said: &str) -> bool {
        made.notes.iter().any(|note| note.contains(said))
    }

    #[test]
    fn a_browsers_export_becomes_a_session_of_its_page() {
        let made = made(SHOP, &WorkloadOptions::default());
        let workload = plan::workload::parse(&made.text, "w").unwrap();
        assert_eq!(workload.order, Order::Session);
        assert!(workload.cookies);
        assert_eq!(made.server.as_deref(), Some("https://shop.example.test"));
        assert_eq!(
            made.requests,
            [
                "GET /",
                "GET /assets/app.js",
                "GET /api/items",
                "POST /login",
                "POST /api/cart",
                "GET /missing.png",
            ]
        );
        let step = |n: usize| &workload.requests[n];
        assert_eq!(step(0).target.to_string(), "https://shop.example.test/");
        assert_eq!(
            step(2).target.to_string(),
            "/api/items?page=2&access_token=FILL_IN"
        );
        let ms = |ms| Some(Think::Constant(Nanos::from_millis(ms)));
        // From the end of all that came before, not of the one before.
        assert_eq!((step(0).think, step(1).think), (ms(30), None));
        assert_eq!(step(2).think, ms(2_500));
        assert_eq!(
            step(0).checks,
            [Check::Status(vec![(200, 299), (304, 304)])]
        );
        assert_eq!(step(3).checks, [Check::Status(vec![(300, 399)])]);
        assert_eq!(step(5).checks, [Check::Status(vec![(404, 404)])]);
        assert_eq!(
            step(3).body,
            WorkloadBody::Text(Template::plain("user=ada&password=FILL_IN"))
        );
        assert_eq!(
            step(4).body,
            WorkloadBody::Text(Template::plain(
                r#"{"item": 7, "note": "{{x}} \"quoted\""}"#
            ))
        );
        for request in &workload.requests {
            for name in ["cookie", "authorization", ":path", "host", "content-length"] {
                let mut names = request.headers.iter().map(|(name, _)| name);
                assert!(!names.any(|n| n.eq_ignore_ascii_case(name)), "{name}");
            }
        }
        for said in [
            "2 requests to other servers than https://shop.example.test: http://shop.example.test, https://cdn.example.net",
            "1 entry answered by the browser's cache",
            "1 entry without a response",
            "1 entry not of HTTP",
            "POST /upload, whose body is not in the file",
            "left out as credentials: authorization, cookie",
            "replaced by FILL_IN as credentials: access_token, password",
            "recorded over HTTP/2",
        ] {
            assert!(has(&made, said), "{said}: {:#?}", made.notes);
        }
        assert!(!made.text.contains("s3cret") && !made.text.contains("eyJ"));
    }

    #[test]
    fn credentials_and_other_hosts_are_kept_where_asked_for() {
        let options = WorkloadOptions {
            secrets: true,
            hosts: vec!["shop.example.test".to_owned(), "cdn.example.net".to_owned()],
        };
        let made = made(SHOP, &options);
        assert!(made.text.contains("s3cret") && made.text.contains("Bearer eyJ"));
        assert!(made.text.contains("Host = \"cdn.example.net\""));
        assert!(has(&made, "holds credentials"));
        assert!(!made.text.contains("cookies = true"));
        let unknown = WorkloadOptions {
            hosts: vec!["cdn.example.ent".to_owned()],
            ..WorkloadOptions::default()
        };
        let error = convert(WorkloadFormat::Har, "s", SHOP.as_bytes(), &unknown).unwrap_err();
        assert!(error.remedy().contains("cdn.example.net"), "{error}");
    }

    #[test]
    fn what_is_no_har_is_said() {
        for (text, said) in [
            ("{\"log\": {\"entries\": [{\"request\"", "not whole JSON"),
            ("{}", "no log.entries"),
            ("{\"log\": {\"entries\": []}}", "no request"),
            ("[]", "no log.entries"),
        ] {
            let options = WorkloadOptions::default();
            let error = convert(WorkloadFormat::Har, "x", text.as_bytes(), &options).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    /// Found by fuzzing: a gap of millennia had no length in ns.
    #[test]
    fn a_gap_of_millennia_is_no_time_to_think() {
        let changed = SHOP.replace("2024-05-06T07:08:11.900Z", "9024-05-06T07:08:11.900Z");
        assert_ne!(changed, SHOP);
        let made = made(&changed, &WorkloadOptions::default());
        let workload = plan::workload::parse(&made.text, "w").unwrap();
        let days = Nanos::from_secs(86_400);
        let thinks = workload.requests.iter().filter_map(|r| r.think);
        assert!(thinks.into_iter().all(|think| think.mean() <= days));
    }

    #[test]
    fn times_of_any_zone_are_one_clock() {
        let at = |text: &str| milliseconds(text).unwrap();
        assert_eq!(at("1970-01-01T00:00:00.000Z"), 0.0);
        assert_eq!(at("2024-02-29T12:00:00Z"), 1_709_208_000_000.0);
        assert_eq!(at("2024-02-29T14:00:00.5+02:00"), 1_709_208_000_500.0);
        assert_eq!(at("2024-02-29T06:30:00-0530"), 1_709_208_000_000.0);
        for text in [
            "",
            "2024",
            "2024-13-01T00:00:00Z",
            "2024-01-01Tx",
            "2024-01-01T00:00:00+é",
        ] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
