//! Workload file -> [`Workload`]: requests or steps, values, checks, captures; messages with line and near miss.
//!
//! Pure: the files that a workload names are read where the load is prepared. What only all requests together can tell
//! (names given twice, values that nobody captures) is checked last. The surprise: `[[request]]` and `[[step]]` hold
//! the same keys; which of them stands in a file says whether it is a mix or a session.

use crate::PlanError;
use crate::error::{Fault, Found, Report, unknown};
use crate::node::{self, Entry, Field, Value};
use crate::typed;
use record::workload::{
    Capture, CaptureFrom, Check, Data, Order, Part, Pick, Template, Think, Workload, WorkloadBody,
    WorkloadRequest,
};
use record::{Nanos, parse_duration};
use std::collections::BTreeSet;

const KEYS: [&str; 8] = [
    "seed",
    "think",
    "cookies",
    "headers",
    "body_limit",
    "data",
    "request",
    "step",
];
const REQUEST_KEYS: [&str; 10] = [
    "name",
    "method",
    "url",
    "headers",
    "body",
    "body_file",
    "weight",
    "think",
    "check",
    "capture",
];
const CHECKS: [&str; 5] = ["status", "length", "contains", "json", "sha256"];
const CAPTURES: [&str; 4] = ["header", "regex", "json", "cookie"];
const DATA_KEYS: [&str; 2] = ["file", "pick"];
/// More would be a typing error, and each has a buffer a connection.
const REQUESTS_MAX: usize = 10_000;

/// Reads a workload file. `file` is its name for messages.
///
/// # Errors
/// [`PlanError`] with every problem that was found: place, fact, near miss, remedy.
pub fn parse(text: &str, file: &str) -> Result<Workload, PlanError> {
    let mut report = Report::default();
    let parsed = node::parse(text);
    let read = report.take(parsed).and_then(|entries| {
        let mut draft = Draft::default();
        for entry in &entries {
            let set = draft.set(entry.field(), &mut report);
            report.take(set);
        }
        let made = report.is_empty().then(|| draft.finish());
        made.and_then(|made| report.take(made))
    });
    read.ok_or_else(|| report.into_error(file, text))
}

/// `10ms`, or `exponential:10ms` for a mean.
///
/// # Errors
/// What a think time is.
pub fn think(text: &str) -> Result<Option<Think>, String> {
    let (kind, length): (fn(Nanos) -> Think, &str) = match text.split_once(':') {
        Some(("exponential", mean)) => (Think::Exponential, mean),
        Some(("constant", length)) => (Think::Constant, length),
        Some(_) => return Err(THINK.to_owned()),
        None => (Think::Constant, text),
    };
    let length = parse_duration(length.trim()).map_err(|_| THINK.to_owned())?;
    Ok((length.0 > 0).then(|| kind(length)))
}

const THINK: &str = "a time such as \"10ms\", or \"exponential:10ms\" for a mean";

#[derive(Default)]
struct Draft {
    seed: Option<u64>,
    think: Option<Think>,
    cookies: bool,
    headers: Vec<(String, Template)>,
    body_limit: Option<record::Bytes>,
    data: Vec<Data>,
    /// Where it was said first, and what.
    order: Option<(usize, Order)>,
    /// With their places.
    requests: Vec<(usize, WorkloadRequest)>,
    /// Values that are used, with their places.
    used: Vec<(usize, Part)>,
}

impl Draft {
    fn set(&mut self, field: Field<'_>, report: &mut Report) -> Result<(), Found> {
        match field.name {
            "seed" => self.seed = Some(field.count(0)?),
            "think" => self.think = think_of(field)?,
            "cookies" => self.cookies = field.boolean()?,
            "headers" => self.headers = self.headers(field)?,
            "body_limit" => self.body_limit = Some(field.bytes()?),
            "data" => {
                for entry in field.table()? {
                    let data = data(entry);
                    self.data.extend(report.take(data));
                }
            }
            "request" => self.requests(field, Order::Mix, report)?,
            "step" => self.requests(field, Order::Session, report)?,
            _ => return Err(field.unknown_key("a workload file", &KEYS)),
        }
        Ok(())
    }

    fn requests(
        &mut self,
        field: Field<'_>,
        order: Order,
        report: &mut Report,
    ) -> Result<(), Found> {
        let Value::List(_) = field.node.value else {
            return Err(field.must_be(format!("written as [[{}]]", field.name)));
        };
        if self.order.is_some() {
            let fault = Fault::Conflict {
                first: "[[request]]".to_owned(),
                second: "[[step]]".to_owned(),
                inside: "one workload".to_owned(),
                why: "requests are drawn by weight, steps follow each other",
            };
            return Err(Found::at(field.name_at, fault));
        }
        self.order = Some((field.name_at, order));
        for item in field.list()? {
            let request = self.request(item, order);
            if let Some(request) = report.take(request) {
                self.requests.push((item.node.at, request));
            }
        }
        Ok(())
    }

    fn request(&mut self, item: Field<'_>, order: Order) -> Result<WorkloadRequest, Found> {
        let inside = format!("[[{}]]", item.name);
        let mut request = WorkloadRequest::get("", Template::default());
        let mut url = None;
        let mut method = None;
        for entry in item.table()? {
            let field = entry.field();
            match field.name {
                "name" => field.text()?.clone_into(&mut request.name),
                "method" => method = Some(field.typed(typed::method)?),
                "url" => url = Some(self.template(field)?),
                "headers" => request.headers = self.headers(field)?,
                "body" | "body_file" if request.body != WorkloadBody::None => {
                    let fault = Fault::Conflict {
                        first: "body".to_owned(),
                        second: "body_file".to_owned(),
                        inside,
                        why: "a request has one body",
                    };
                    return Err(Found::at(field.name_at, fault));
                }
                "body" => request.body = WorkloadBody::Text(self.template(field)?),
                "body_file" => request.body = WorkloadBody::File(field.text()?.to_owned()),
                "weight" if order == Order::Mix => request.weight = weight(field)?,
                "weight" => {
                    let fault = Fault::Misplaced {
                        name: "weight".to_owned(),
                        inside,
                        instead: "[[request]] for a mix; steps are made in turn".to_owned(),
                    };
                    return Err(Found::at(field.name_at, fault));
                }
                "think" => request.think = Some(think_of(field)?.unwrap_or(NO_TIME)),
                "check" => request.checks = checks(field)?,
                "capture" if order == Order::Mix => {
                    let fault = Fault::Misplaced {
                        name: "capture".to_owned(),
                        inside,
                        instead: "[[step]], whose requests follow each other".to_owned(),
                    };
                    return Err(Found::at(field.name_at, fault));
                }
                "capture" => request.captures = captures(field)?,
                _ => return Err(field.unknown_key(&inside, &REQUEST_KEYS)),
            }
        }
        request.target =
            url.ok_or_else(|| Found::missing(item.node.at, "url", &inside, "url = \"/\""))?;
        request.method = method.unwrap_or_else(|| match request.body {
            WorkloadBody::None => "GET".to_owned(),
            _ => "POST".to_owned(),
        });
        if request.name.is_empty() {
            request.name = format!("{} {}", request.method, request.target);
        }
        Ok(request)
    }

    fn template(&mut self, field: Field<'_>) -> Result<Template, Found> {
        let template = Template::parse(&field.plain()?).map_err(|cause| {
            let what = field.name.to_owned();
            let fault = Fault::Unexpected {
                what,
                expected: "text with values such as {{integer 1 100}}".to_owned(),
                found: cause,
            };
            Found::at(field.node.at, fault)
        })?;
        let values = template.0.iter().cloned();
        self.used.extend(values.map(|part| (field.node.at, part)));
        Ok(template)
    }

    fn headers(&mut self, field: Field<'_>) -> Result<Vec<(String, Template)>, Found> {
        let mut headers = Vec::new();
        for entry in field.table()? {
            let field = entry.field();
            let (name, _) = field.fitting(typed::header(&entry.name, &field.plain()?))?;
            headers.push((name, self.template(field)?));
        }
        Ok(headers)
    }

    fn finish(self) -> Result<Workload, Found> {
        let Some((at, order)) = self.order.filter(|_| !self.requests.is_empty()) else {
            return Err(Found::missing(
                0,
                "[[request]]",
                "the file",
                "[[request]] with url = \"/\"",
            ));
        };
        if self.requests.len() > REQUESTS_MAX {
            return Err(Found::at(
                at,
                Fault::Unexpected {
                    what: "[[request]]".to_owned(),
                    expected: format!("at most {REQUESTS_MAX} times in a file"),
                    found: self.requests.len().to_string(),
                },
            ));
        }
        self.check_names()?;
        self.check_values()?;
        let (think, common) = (self.think, self.headers);
        let requests = self.requests.into_iter().map(|(_, mut request)| {
            request.think = request.think.or(think);
            for (name, value) in &common {
                let given = |(other, _): &(String, Template)| other.eq_ignore_ascii_case(name);
                if !request.headers.iter().any(given) {
                    request.headers.push((name.clone(), value.clone()));
                }
            }
            request
        });
        Ok(Workload {
            seed: self.seed.unwrap_or(1),
            order,
            cookies: self.cookies,
            body_limit: self.body_limit.unwrap_or(Workload::BODY_LIMIT),
            data: self.data,
            requests: requests.collect(),
        })
    }

    fn check_names(&self) -> Result<(), Found> {
        let mut names = BTreeSet::new();
        for (at, request) in &self.requests {
            if !names.insert(&request.name) {
                let fault = Fault::Conflict {
                    first: format!("name = {:?}", request.name),
                    second: "another of this name".to_owned(),
                    inside: "one workload".to_owned(),
                    why: "results are shown by name",
                };
                return Err(Found::at(*at, fault));
            }
        }
        Ok(())
    }

    /// Every value that is used comes from somewhere.
    fn check_values(&self) -> Result<(), Found> {
        let captures = self.requests.iter().flat_map(|(_, r)| &r.captures);
        let captured: BTreeSet<&str> = captures.map(|c| c.name.as_str()).collect();
        let tables: Vec<&str> = self.data.iter().map(|d| d.name.as_str()).collect();
        for (at, part) in &self.used {
            match part {
                Part::Captured(name) if !captured.contains(name.as_str()) => {
                    let known = ["sequence", "integer", "letters", "uuid", "open"];
                    let known = known.into_iter().chain(captured.iter().copied());
                    return Err(unknown(*at, "value", name, "a workload", known));
                }
                Part::Column { data, .. } if !tables.contains(&data.as_str()) => {
                    let known = tables.iter().copied();
                    return Err(unknown(*at, "table", data, "a workload", known));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

const NO_TIME: Think = Think::Constant(Nanos(0));

pub(crate) fn think_of(field: Field<'_>) -> Result<Option<Think>, Found> {
    think(&field.plain()?).map_err(|expected| field.must_be(expected))
}

fn weight(field: Field<'_>) -> Result<f64, Found> {
    let weight = match field.node.value {
        Value::Integer(n) => n as f64,
        Value::Float(x) => x,
        _ => f64::NAN,
    };
    let fits = weight > 0.0 && weight <= 1e9;
    fits.then_some(weight)
        .ok_or_else(|| field.must_be("a number above 0, such as 3"))
}

fn data(entry: &Entry) -> Result<Data, Found> {
    let inside = format!("[data.{}]", entry.name);
    let mut file = None;
    let mut pick = Pick::InOrder;
    for entry in entry.field().table()? {
        let field = entry.field();
        match field.name {
            "file" => file = Some(field.text()?.to_owned()),
            "pick" => {
                pick = field.choice(&[
                    ("in_order", Pick::InOrder),
                    ("random", Pick::Random),
                    ("per_client", Pick::PerClient),
                ])?;
            }
            _ => return Err(field.unknown_key(&inside, &DATA_KEYS)),
        }
    }
    let file =
        file.ok_or_else(|| Found::missing(entry.at, "file", &inside, "file = \"users.csv\""))?;
    Ok(Data {
        name: entry.name.clone(),
        file,
        pick,
    })
}

fn checks(field: Field<'_>) -> Result<Vec<Check>, Found> {
    let mut checks = Vec::new();
    for entry in field.table()? {
        let field = entry.field();
        match field.name {
            "status" => checks.push(Check::Status(statuses(field)?)),
            "length" => {
                let (least, most) = length(&field.plain()?)
                    .ok_or_else(|| field.must_be("bytes such as 1024, or a range \"1-1024\""))?;
                checks.push(Check::Length(least, most));
            }
            "contains" => match &field.node.value {
                Value::List(_) => {
                    checks.extend(field.words()?.into_iter().map(Check::Contains));
                }
                _ => checks.push(Check::Contains(field.text()?.to_owned())),
            },
            "json" => {
                for entry in field.table()? {
                    checks.push(Check::Json {
                        pointer: pointer(entry.field(), &entry.name)?,
                        equals: json(entry.field())?,
                    });
                }
            }
            "sha256" => {
                let digits = field.text()?.to_ascii_lowercase();
                let is_hash = digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
                if !is_hash {
                    return Err(field.must_be("64 hexadecimal digits, as sha256sum prints them"));
                }
                checks.push(Check::Sha256(digits));
            }
            _ => return Err(field.unknown_key("check", &CHECKS)),
        }
    }
    Ok(checks)
}

/// `200`, `"200-299,304"`, `[200, 204]`.
fn statuses(field: Field<'_>) -> Result<Vec<(u16, u16)>, Found> {
    let one = |text: &str| {
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        (100 <= from && from <= to && to <= 999).then_some((from, to))
    };
    let texts = match field.node.value {
        Value::List(_) => {
            (field.list()?.map(|item| item.plain())).collect::<Result<Vec<_>, _>>()?
        }
        _ => field.plain()?.split(',').map(str::to_owned).collect(),
    };
    let ranges: Option<Vec<(u16, u16)>> = texts.iter().map(|text| one(text)).collect();
    ranges
        .filter(|ranges| !ranges.is_empty())
        .ok_or_else(|| field.must_be("a status such as 200, or \"200-299,304\""))
}

fn length(text: &str) -> Option<(u64, u64)> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let least = record::parse_bytes(least.trim()).ok()?.0;
    let most = record::parse_bytes(most.trim()).ok()?.0;
    (least <= most).then_some((least, most))
}

fn pointer(field: Field<'_>, text: &str) -> Result<String, Found> {
    match text.is_empty() || text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err(field.must_be("named by a JSON pointer such as \"/user/id\"")),
    }
}

/// A plain value as JSON.
fn json(field: Field<'_>) -> Result<String, Found> {
    match &field.node.value {
        Value::Text(text) => Ok(quoted(text)),
        _ => field.plain(),
    }
}

/// RFC 8259 7.
fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if u32::from(c) < 0x20 => json += &format!("\\u{:04x}", u32::from(c)),
            c => json.push(c),
        }
    }
    json + "\""
}

fn captures(field: Field<'_>) -> Result<Vec<Capture>, Found> {
    let mut captures = Vec::new();
    for entry in field.table()? {
        let inside = format!("capture.{}", entry.name);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let reserved = ["sequence", "integer", "letters", "uuid", "open"];
        if !entry.name.chars().all(is_name) || reserved.contains(&entry.name.as_str()) {
            return Err(entry.field().must_be(
                "named by letters, digits, _ and -, and not as a value that has a meaning",
            ));
        }
        let [source] = entry.field().table()? else {
            return Err(entry
                .field()
                .must_be("one source, such as { json = \"/token\" }"));
        };
        let field = source.field();
        let text = || field.text().map(str::to_owned);
        let from = match field.name {
            "header" => CaptureFrom::Header(text()?),
            "regex" => CaptureFrom::Regex(text()?),
            "json" => CaptureFrom::Json(pointer(field, field.text()?)?),
            "cookie" => CaptureFrom::Cookie(text()?),
            _ => return Err(field.unknown_key(&inside, &CAPTURES)),
        };
        captures.push(Capture {
            name: entry.name.clone(),
            from,
        });
    }
    Ok(captures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text, "w.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_mix_with_all_that_a_request_can_say() {
        let workload = parse(
            r#"
            seed = 7
            headers = { Accept = "*/*" }
            [data.users]
            file = "users.csv"
            pick = "per_client"
            [[request]]
            url = "/"
            weight = 3
            check = { status = "200-299,304", length = "1-1KiB", contains = "ok", json = { "/a" = "b\"c", "/n" = 1 } }
            [[request]]
            name = "order"
            url = "/orders/{{integer 1 9}}"
            headers = { Accept = "text/plain", X = "{{users.name}}" }
            body = "{{uuid}}"
            think = "exponential:5ms"
            "#,
            "w.toml",
        )
        .unwrap();
        assert_eq!((workload.seed, workload.order), (7, Order::Mix));
        let [first, second] = workload.requests.as_slice() else {
            panic!("{workload:?}")
        };
        assert_eq!((first.name.as_str(), first.weight), ("GET /", 3.0));
        assert_eq!(
            first.checks,
            [
                Check::Status(vec![(200, 299), (304, 304)]),
                Check::Length(1, 1024),
                Check::Contains("ok".to_owned()),
                Check::Json {
                    pointer: "/a".to_owned(),
                    equals: r#""b\"c""#.to_owned()
                },
                Check::Json {
                    pointer: "/n".to_owned(),
                    equals: "1".to_owned()
                },
            ]
        );
        assert_eq!(first.headers.len(), 1);
        assert_eq!((second.method.as_str(), second.headers.len()), ("POST", 2));
        assert_eq!(
            second.think,
            Some(Think::Exponential(Nanos::from_millis(5)))
        );
        assert_eq!(workload.data[0].pick, Pick::PerClient);
    }

    #[test]
    fn steps_take_values_from_earlier_ones() {
        let workload = parse(
            r#"
            cookies = true
            think = "10ms"
            [[step]]
            url = "/login"
            body_file = "login.json"
            capture = { token = { json = "/token" }, id = { regex = "id=(\\d+)" } }
            [[step]]
            url = "/me"
            headers = { Authorization = "Bearer {{token}}" }
            think = "0s"
            "#,
            "w.toml",
        )
        .unwrap();
        assert_eq!(workload.order, Order::Session);
        assert_eq!(workload.requests[0].captures.len(), 2);
        assert_eq!(workload.requests[1].think, Some(NO_TIME));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_near_miss() {
        for (text, said) in [
            ("", "[[request]]"),
            ("[[request]]\n", "w.toml:1"),
            (
                "[[request]]\nurl = \"/\"\nwieght = 2",
                "did you mean `weight`",
            ),
            ("[[step]]\nurl = \"/\"\nweight = 2", "does not belong"),
            ("[[request]]\nurl = \"/{{tokn}}\"", "unknown value `tokn`"),
            ("[[request]]\nurl = \"/{{u.name}}\"", "unknown table `u`"),
            (
                "[[request]]\nurl = \"/{{integer 2 1}}\"",
                "the smaller first",
            ),
            (
                "[[request]]\nurl = \"/\"\n[[request]]\nurl = \"/\"",
                "results are shown by name",
            ),
            (
                "[[request]]\nurl = \"/\"\n[[step]]\nurl = \"/\"",
                "cannot both",
            ),
            (
                "[[request]]\nurl = \"/\"\ncheck = { status = \"20\" }",
                "a status such as",
            ),
            (
                "[[request]]\nurl = \"/\"\ncheck = { json = { a = 1 } }",
                "JSON pointer",
            ),
            (
                "[[request]]\nurl = \"/\"\ncheck = { sha256 = \"ab\" }",
                "64 hexadecimal",
            ),
            (
                "[[step]]\nurl = \"/\"\ncapture = { uuid = { json = \"/a\" } }",
                "letters, digits",
            ),
            (
                "[[request]]\nurl = \"/\"\nbody = \"\"\nheaders = { A = \"x\\r\\ny\" }",
                "header",
            ),
            (
                "think = \"soon\"\n[[request]]\nurl = \"/\"",
                "exponential:10ms",
            ),
        ] {
            let error = error(text);
            assert!(error.contains(said), "{text}\n{error}");
        }
    }

    /// Files that are cut or changed anywhere are read or refused, and never anything else.
    #[test]
    fn fuzz_like_files_are_read_or_refused() {
        let whole = "seed = 1\n[data.u]\nfile = \"u.csv\"\n[[step]]\nurl = \"/{{u.a}}/{{integer 1 2}}\"\n\
                     check = { status = 200, json = { \"/a\" = 1 } }\ncapture = { t = { regex = \"(a)\" } }\n\
                     think = \"1ms\"\n[[step]]\nurl = \"/{{t}}\"\nbody = \"{{letters 3}}\"\n";
        assert!(parse(whole, "w").is_ok());
        let mut state = 1_u64;
        let mut random = |n: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % n
        };
        for _ in 0..2_000 {
            let mut bytes = whole.as_bytes().to_vec();
            for _ in 0..=random(4) {
                let at = random(bytes.len());
                match random(3) {
                    0 => bytes.truncate(at.max(1)),
                    1 => bytes[at] = b"{}[]\"=\n.x1"[random(10)],
                    _ => bytes.insert(at, b"{}[]\"=\n.x1"[random(10)]),
                }
            }
            if let Ok(workload) = parse(&String::from_utf8_lossy(&bytes), "w") {
                assert!(!workload.requests.is_empty());
            }
        }
    }
}
