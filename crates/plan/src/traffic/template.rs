//! `[[template]]`: what a connection carries, where to, and when.
//!
//! The target's scheme says which keys there are: HTTP has requests and a response, a stream has steps or a capture,
//! UDP has exchanges. A key of another scheme is refused with the scheme that has it.

use super::address::{self, Scheme};
use super::{ReadBytes, arrival, paced, pcap, rate_and_concurrent, replay, steps};
use crate::error::{Fault, Found, Report};
use crate::node::{Entry, Field};
use crate::typed::{self, Process};
use record::traffic::{Data, Expect, Http, Pace, Protocol, Step, Template, TlsSettings};
use record::{Close, Nanos};
use std::net::SocketAddr;

/// A connection that has not done its work for so long has failed.
const TIMEOUT: Nanos = Nanos::from_secs(5);
/// What the server answers when neither the path nor the file says.
const RESPONSE_BYTES: u64 = 1024;

const COMMON: [&str; 10] = [
    "name",
    "target",
    "rate",
    "concurrent",
    "arrival",
    "weight",
    "count",
    "concurrent_max",
    "close",
    "timeout",
];
const HTTP: [&str; 11] = [
    "method",
    "headers",
    "body",
    "requests",
    "response",
    "think",
    "expect_status",
    "expect_bytes",
    "expect_text",
    "expect_file",
    "expect_pattern",
];
const STREAM: [&str; 4] = ["steps", "pcap", "flow", "pauses"];
const UDP: [&str; 4] = ["request", "response", "exchanges", "gap"];
const TLS: [&str; 4] = ["server_name", "insecure", "certificate", "key"];

/// A rate or a number of connections.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Paced {
    Rate(f64),
    Concurrent(u32),
}

impl Paced {
    pub fn key(&self) -> &'static str {
        match self {
            Paced::Rate(_) => "rate",
            Paced::Concurrent(_) => "concurrent",
        }
    }
}

/// Where the body that must come is from.
enum Body {
    Text(String),
    File(String),
    /// What a server side of ours answers.
    Pattern,
}

/// A template without its pace, which may depend on the others.
pub(super) struct Draft {
    pub at: usize,
    pub template: Template,
    pub paced: Option<Paced>,
    pub process: Option<Process>,
    pub weight: f64,
}

/// What the keys of one template say, before the protocol puts them together.
#[derive(Default)]
struct Keys {
    name: Option<String>,
    targets: Option<(Scheme, Vec<SocketAddr>, String, String)>,
    paced: Option<Paced>,
    process: Option<Process>,
    weight: Option<f64>,
    count: Option<u64>,
    concurrent_max: Option<u32>,
    close: Close,
    timeout: Option<Nanos>,
    method: Option<String>,
    headers: Vec<(String, String)>,
    request_bytes: Option<u64>,
    requests: Option<u64>,
    response_bytes: Option<u64>,
    think: Nanos,
    expect: Expect,
    /// A body that must come: how it is named, and where.
    expect_body: Option<(usize, &'static str, Body)>,
    steps: Option<Vec<Step>>,
    capture: Option<(usize, String)>,
    flow: Option<replay::Choice>,
    pauses: bool,
    gap: Nanos,
    tls: TlsSettings,
    certificate: Option<(usize, String)>,
    key: Option<(usize, String)>,
}

/// One template; what is wrong with it goes to `report`.
pub(super) fn read(
    field: Field<'_>,
    number: usize,
    read: ReadBytes<'_>,
    report: &mut Report,
) -> Option<Draft> {
    let entries = report.take(field.table())?;
    let mut keys = Keys::default();
    // The scheme says which keys belong here, so the target is read first.
    let is_target = |e: &&Entry| e.name == "target";
    let target = entries.iter().find(is_target).ok_or_else(|| {
        Found::missing(
            field.node.at,
            "target",
            "[[template]]",
            "target = \"http://10.9.0.1/bytes/1024\"",
        )
    });
    let scheme = report.take(target.and_then(|target| keys.set_target(target.field())))?;
    let mut all = true;
    for entry in entries.iter().filter(|e| !is_target(e)) {
        let set = belongs(entry.field(), scheme).and_then(|()| keys.set(entry.field()));
        all &= report.take(set).is_some();
    }
    let made = all.then(|| keys.finish(field.node.at, number, read))?;
    report.take(made)
}

/// Two templates of one name could not be told apart in a table.
pub(super) fn check_names(drafts: &[Draft]) -> Result<(), Found> {
    for (i, draft) in drafts.iter().enumerate() {
        let name = &draft.template.name;
        if drafts[..i].iter().any(|other| other.template.name == *name) {
            let fault = Fault::Name {
                kind: "template",
                name: name.clone(),
                why: "another template has it".to_owned(),
            };
            return Err(Found::at(draft.at, fault));
        }
    }
    Ok(())
}

fn status(field: Field<'_>) -> Result<u16, Found> {
    match field.count(0)? {
        code @ 200..=599 => Ok(code as u16),
        _ => Err(field.must_be("a status from 200 to 599")),
    }
}

/// Refuses a key of another scheme.
fn belongs(field: Field<'_>, scheme: Scheme) -> Result<(), Found> {
    let own: &[&str] = match scheme {
        Scheme::Http | Scheme::Https => &HTTP,
        Scheme::Tcp | Scheme::Tls => &STREAM,
        Scheme::Udp => &UDP,
    };
    let tls: &[&str] = if scheme.is_tls() { &TLS } else { &[] };
    let name = field.name;
    if COMMON.contains(&name) || own.contains(&name) || tls.contains(&name) {
        return Ok(());
    }
    let inside = format!("a template of {}://", scheme.name());
    let elsewhere: &[(&[&str], &str)] = &[
        (&HTTP, "a target of http:// or https://"),
        (&STREAM, "a target of tcp:// or tls://"),
        (&UDP, "a target of udp://"),
        (&TLS, "a target of https:// or tls://"),
    ];
    if let Some((_, instead)) = elsewhere.iter().find(|(keys, _)| keys.contains(&name)) {
        let fault = Fault::Misplaced {
            name: name.to_owned(),
            inside,
            instead: (*instead).to_owned(),
        };
        return Err(Found::at(field.name_at, fault));
    }
    let known: Vec<&str> = COMMON.iter().chain(own).chain(tls).copied().collect();
    Err(field.unknown_key(&inside, &known))
}

impl Keys {
    /// The scheme of the targets.
    fn set_target(&mut self, field: Field<'_>) -> Result<Scheme, Found> {
        let one = |field: Field<'_>| {
            let text = field.text()?.trim();
            address::target(text).map_err(|cause| {
                let url = text.to_owned();
                Found::at(field.node.at, Fault::Url { url, cause })
            })
        };
        let targets = match field.text() {
            Ok(_) => vec![one(field)?],
            Err(_) => field.list()?.map(one).collect::<Result<_, _>>()?,
        };
        let Some(first) = targets.first().cloned() else {
            return Err(field.must_be("at least one target"));
        };
        let alike = |t: &address::Target| t.scheme == first.scheme && t.path == first.path;
        if !targets.iter().all(alike) {
            return Err(field.must_be(
                "targets of one scheme and one path; others need a [[template]] of their own",
            ));
        }
        let addresses = targets.into_iter().flat_map(|t| t.addresses).collect();
        self.targets = Some((first.scheme, addresses, first.authority, first.path));
        Ok(first.scheme)
    }

    fn set(&mut self, field: Field<'_>) -> Result<(), Found> {
        match field.name {
            "name" => self.name = Some(name(field)?),
            "rate" | "concurrent" => {
                if let Some(before) = &self.paced {
                    return Err(rate_and_concurrent(field, before, "one template"));
                }
                self.paced = Some(paced(field)?);
            }
            "arrival" => self.process = Some(arrival(field)?),
            "weight" => self.weight = Some(weight(field)?),
            "count" => self.count = Some(field.count(1)?),
            "concurrent_max" => self.concurrent_max = Some(field.count32(1)?),
            "close" => self.close = field.typed(typed::close)?,
            "timeout" => self.timeout = Some(field.duration_above_zero()?),
            "method" => self.method = Some(field.typed(typed::method)?),
            "headers" => self.headers = headers(field)?,
            "body" | "request" => self.request_bytes = Some(field.bytes()?.0),
            "requests" | "exchanges" => self.requests = Some(field.count(1)?),
            "response" => self.response_bytes = Some(field.bytes()?.0),
            "think" => self.think = field.duration()?,
            "expect_status" => self.expect.status = Some(status(field)?),
            "expect_bytes" => self.expect.bytes = Some(field.bytes()?.0),
            "expect_text" => {
                let text = field.text()?.to_owned();
                self.set_expected(field, "expect_text", Body::Text(text))?;
            }
            "expect_file" => {
                let path = field.text()?.to_owned();
                self.set_expected(field, "expect_file", Body::File(path))?;
            }
            "expect_pattern" if field.boolean()? => {
                self.set_expected(field, "expect_pattern", Body::Pattern)?;
            }
            "expect_pattern" => {}
            "steps" => self.steps = Some(steps::read(field)?),
            "pcap" => self.capture = Some((field.node.at, field.text()?.to_owned())),
            "flow" => self.flow = Some(flow(field)?),
            "pauses" => self.pauses = field.boolean()?,
            "gap" => self.gap = field.duration()?,
            "server_name" => self.tls.server_name = Some(field.text()?.to_owned()),
            "insecure" => self.tls.insecure = field.boolean()?,
            "certificate" => self.certificate = Some((field.node.at, field.text()?.to_owned())),
            "key" => self.key = Some((field.node.at, field.text()?.to_owned())),
            _ => return Err(field.unknown_key("[[template]]", &COMMON)),
        }
        Ok(())
    }

    fn finish(mut self, at: usize, number: usize, read: ReadBytes<'_>) -> Result<Draft, Found> {
        let name = self
            .name
            .take()
            .unwrap_or_else(|| format!("template{number}"));
        let (scheme, targets, authority, path) =
            self.targets
                .take()
                .unwrap_or((Scheme::Tcp, Vec::new(), String::new(), String::new()));
        let inside = format!("[[template]] `{name}`");
        if self.weight.is_some() && self.paced.is_some() {
            let fault = Fault::Conflict {
                first: "weight".to_owned(),
                second: self.paced.as_ref().map_or("rate", Paced::key).to_owned(),
                inside,
                why: "a weight is a part of the file's own `rate` or `concurrent`",
            };
            return Err(Found::at(at, fault));
        }
        let tls = match scheme.is_tls() {
            true => Some(self.tls(&inside, read)?),
            false => None,
        };
        let protocol = match scheme {
            Scheme::Http | Scheme::Https => self.http(&authority, path, read)?,
            Scheme::Tcp | Scheme::Tls => Protocol::Stream(self.stream(at, &inside, read)?),
            Scheme::Udp => self.udp(at)?,
        };
        Ok(Draft {
            at,
            paced: self.paced,
            process: self.process,
            weight: self.weight.unwrap_or(1.0),
            template: Template {
                name,
                targets,
                pace: Pace::Concurrent(1),
                concurrent_max: self.concurrent_max,
                count: self.count,
                protocol,
                close: self.close,
                timeout: self.timeout.unwrap_or(TIMEOUT),
                tls,
            },
        })
    }

    fn set_expected(
        &mut self,
        field: Field<'_>,
        key: &'static str,
        body: Body,
    ) -> Result<(), Found> {
        if let Some((_, before, _)) = &self.expect_body {
            let fault = Fault::Conflict {
                first: (*before).to_owned(),
                second: key.to_owned(),
                inside: "one template".to_owned(),
                why: "a response has one body",
            };
            return Err(Found::at(field.name_at, fault));
        }
        self.expect_body = Some((field.node.at, key, body));
        Ok(())
    }

    /// What a response must be, when anything is said of it; a server side answers `response_bytes`.
    fn expected(
        &mut self,
        response_bytes: u64,
        read: ReadBytes<'_>,
    ) -> Result<Option<Expect>, Found> {
        let mut expect = std::mem::take(&mut self.expect);
        if let Some((at, key, body)) = self.expect_body.take() {
            let body = match body {
                Body::Text(text) => Data::Bytes(text.into_bytes()),
                Body::File(path) => Data::Bytes(contents(at, &path, read)?),
                Body::Pattern => Data::Pattern(expect.bytes.unwrap_or(response_bytes)),
            };
            let len = match &body {
                Data::Bytes(bytes) => bytes.len() as u64,
                Data::Pattern(len) => *len,
            };
            if expect.bytes.is_some_and(|bytes| bytes != len) {
                let fault = Fault::Conflict {
                    first: "expect_bytes".to_owned(),
                    second: key.to_owned(),
                    inside: "one template".to_owned(),
                    why: "the body that is named has another length",
                };
                return Err(Found::at(at, fault));
            }
            expect.bytes = Some(len);
            expect.body = Some(body);
        }
        Ok((expect != Expect::default()).then_some(expect))
    }

    fn http(
        &mut self,
        authority: &str,
        path: String,
        read: ReadBytes<'_>,
    ) -> Result<Protocol, Found> {
        let mut headers = std::mem::take(&mut self.headers);
        let has_host = headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("host"));
        // A range of hosts or ports is no host: then the program writes the one that it connects to.
        if !has_host && !authority.contains('-') {
            headers.insert(0, ("Host".to_owned(), authority.to_owned()));
        }
        // `prony origin` answers `/bytes/SIZE` with so many; a server side of ours does the same.
        let of_path = path
            .split('?')
            .next()
            .and_then(|p| p.strip_prefix("/bytes/"));
        let of_path = of_path
            .and_then(|size| typed::bytes(size).ok())
            .map(|b| b.0);
        let response_bytes = self.response_bytes.or(of_path).unwrap_or(RESPONSE_BYTES);
        let expect = self.expected(response_bytes, read)?;
        Ok(Protocol::Http(Http {
            response_bytes,
            path,
            method: self.method.take().unwrap_or_else(|| "GET".to_owned()),
            headers,
            body_bytes: self.request_bytes.unwrap_or(0),
            requests: self.requests.unwrap_or(1),
            think: self.think,
            expect,
        }))
    }

    fn stream(&mut self, at: usize, inside: &str, read: ReadBytes<'_>) -> Result<Vec<Step>, Found> {
        let conflict = |why| {
            let fault = Fault::Conflict {
                first: "steps".to_owned(),
                second: "pcap".to_owned(),
                inside: inside.to_owned(),
                why,
            };
            Err(Found::at(at, fault))
        };
        match (self.steps.take(), self.capture.take()) {
            (Some(_), Some(_)) => conflict("a stream is written down or taken from a capture"),
            (Some(_), None) if self.flow.is_some() || self.pauses => {
                conflict("`flow` and `pauses` say what is taken from a capture")
            }
            (Some(steps), None) => Ok(steps),
            (None, Some((at, path))) => {
                let bytes = contents(at, &path, read)?;
                let choice = self.flow.take().unwrap_or(replay::Choice::Only);
                pcap::read(&bytes)
                    .and_then(|capture| replay::steps(&capture, &choice, self.pauses))
                    .map_err(|cause| Found::at(at, Fault::Capture { path, cause }))
            }
            (None, None) => Err(Found::missing(
                at,
                "steps or pcap",
                inside,
                "steps = [\"client 100\", \"server 32KiB\"]",
            )),
        }
    }

    fn udp(&self, at: usize) -> Result<Protocol, Found> {
        // What one datagram carries: 65,535 less the headers of IPv4 and UDP.
        const MOST: u64 = 65_507;
        let size = |what: &str, bytes: Option<u64>, default| match bytes.unwrap_or(default) {
            bytes @ 0..=MOST => Ok(bytes as u32),
            bytes => {
                let fault = Fault::Unexpected {
                    what: what.to_owned(),
                    expected: format!("at most {MOST} bytes, which is what a datagram carries"),
                    found: bytes.to_string(),
                };
                Err(Found::at(at, fault))
            }
        };
        Ok(Protocol::Udp {
            request_bytes: size("request", self.request_bytes, 64)?,
            response_bytes: size("response", self.response_bytes, 64)?,
            exchanges: u32::try_from(self.requests.unwrap_or(1)).unwrap_or(u32::MAX),
            gap: self.gap,
        })
    }

    fn tls(&mut self, inside: &str, read: ReadBytes<'_>) -> Result<TlsSettings, Found> {
        let mut tls = std::mem::take(&mut self.tls);
        tls.certificate = match (self.certificate.take(), self.key.take()) {
            (None, None) => None,
            (Some((at, chain)), Some((key_at, key))) => Some((
                pem(at, &chain, "CERTIFICATE", read)?,
                pem(key_at, &key, "PRIVATE KEY", read)?,
            )),
            (Some((at, _)), None) => {
                return Err(Found::missing(
                    at,
                    "key",
                    inside,
                    "key = \"server.key\", which belongs to the certificate",
                ));
            }
            (None, Some((at, _))) => {
                return Err(Found::missing(
                    at,
                    "certificate",
                    inside,
                    "certificate = \"server.pem\", which belongs to the key",
                ));
            }
        };
        // A certificate that is made for the run is nobody's to verify.
        tls.insecure |= tls.certificate.is_none() && tls.server_name.is_none();
        Ok(tls)
    }
}

fn contents(at: usize, path: &str, read: ReadBytes<'_>) -> Result<Vec<u8>, Found> {
    read(path).map_err(|cause| {
        let path = path.to_owned();
        Found::at(at, Fault::Unreadable { path, cause })
    })
}

/// Text of a PEM file that holds what it should.
fn pem(at: usize, path: &str, label: &str, read: ReadBytes<'_>) -> Result<String, Found> {
    let text = String::from_utf8(contents(at, path, read)?).ok();
    let holds =
        |text: &String| text.contains("-----BEGIN ") && text.contains(&format!("{label}-----"));
    text.filter(holds).ok_or_else(|| {
        let cause = format!("it holds no PEM block `{label}`");
        let path = path.to_owned();
        Found::at(at, Fault::Unreadable { path, cause })
    })
}

fn name(field: Field<'_>) -> Result<String, Found> {
    let text = field.text()?;
    let fits = (1..=40).contains(&text.chars().count()) && !text.contains(char::is_control);
    match fits {
        true => Ok(text.to_owned()),
        false => Err(field.must_be("a name of 1 to 40 characters")),
    }
}

fn weight(field: Field<'_>) -> Result<f64, Found> {
    let text = field.plain()?;
    let weight: Option<f64> = text.trim().parse().ok();
    weight
        .filter(|w| w.is_finite() && *w > 0.0)
        .ok_or_else(|| field.must_be("a weight above 0, such as 3"))
}

fn headers(field: Field<'_>) -> Result<Vec<(String, String)>, Found> {
    let header = |e: &Entry| {
        let value = e.field().plain()?;
        e.field().fitting(typed::header(&e.name, &value))
    };
    field.table()?.iter().map(header).collect()
}

/// `2`, or one end of the flow: `"10.0.0.1:40000"`.
fn flow(field: Field<'_>) -> Result<replay::Choice, Found> {
    if let Ok(end) = field.text().unwrap_or("").trim().parse::<SocketAddr>() {
        return Ok(replay::Choice::End(end));
    }
    match field.count(1) {
        Ok(n) => Ok(replay::Choice::Number(
            usize::try_from(n).unwrap_or(usize::MAX),
        )),
        Err(_) => Err(field
            .must_be("the number of a flow such as 1, or an end of it such as \"10.0.0.1:40000\"")),
    }
}
