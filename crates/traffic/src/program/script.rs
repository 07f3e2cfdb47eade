//! Templates, compiled: everything that connections of one kind have in common, made once and shared by both sides.

use super::ProgramError;
use super::content::Content;
use super::tls::Tls;
use crate::load::request;
use record::traffic::{Data, Expect, Http, Pace, Protocol, Step, Template};
use record::{Close, LoadSpec, TrafficSpec};
use std::collections::HashMap;
use std::net::SocketAddr;

/// Templates and targets are counted in 16 bits, which keeps a connection small.
const MANY: usize = u16::MAX as usize;
/// Longest pause of the client side that is not given: `Nanos(0)` waits for ever.
const FOR_EVER_NS: u64 = u64::MAX / 4;

/// Who is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Begins connections.
    Client,
    /// Answers them.
    Server,
}

impl Role {
    /// As the record says it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Server => "server",
        }
    }
}

/// All templates of a run.
#[derive(Debug)]
pub(super) struct Plan {
    /// In the order of the spec.
    pub scripts: Vec<Script>,
    /// Which template answers there, UDP apart from TCP.
    pub at: HashMap<(bool, SocketAddr), u16>,
    /// Which template answers at a port of any address; the first that has it.
    pub at_port: HashMap<(bool, u16), u16>,
}

/// One template.
#[derive(Debug)]
pub(super) struct Script {
    pub name: String,
    pub targets: Vec<SocketAddr>,
    pub pace: Pace,
    pub concurrent_max: u64,
    pub count: u64,
    pub timeout_ns: u64,
    pub close: Close,
    pub work: Work,
    pub tls: Option<Tls>,
}

/// What a connection does.
#[derive(Debug)]
pub(super) enum Work {
    Http(HttpWork),
    Stream(StreamWork),
    Udp(UdpWork),
}

/// HTTP of a template.
#[derive(Debug)]
pub(super) struct HttpWork {
    /// The request to each target.
    pub requests: Vec<Content>,
    /// Requests of one connection.
    pub count: u64,
    pub think_ns: u64,
    pub is_head: bool,
    /// What a response must be.
    pub expected: Option<Expected>,
    /// What the server side answers while the connection stays.
    pub response: Content,
    /// And when it does not, and to HEAD, and to what is no request.
    pub last: [Content; 3],
}

/// What a response must be; what is `None` is not compared.
#[derive(Debug)]
pub(super) struct Expected {
    pub status: Option<u16>,
    pub bytes: Option<u64>,
    pub body: Option<Content>,
}

impl Expected {
    fn new(expect: &Expect) -> Self {
        Expected {
            status: expect.status,
            bytes: expect.bytes,
            body: expect.body.as_ref().map(|body| match body {
                Data::Bytes(bytes) => Content::of(bytes, 0, 0),
                Data::Pattern(bytes) => Content::body(*bytes),
            }),
        }
    }
}

/// Which of [`HttpWork::last`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// With its body.
    Whole = 0,
    /// The head alone.
    Head = 1,
    /// 400.
    Refusal = 2,
}

/// A stream of a template.
#[derive(Debug)]
pub(super) struct StreamWork {
    pub turns: Vec<Turn>,
    /// How much client and server have sent before each turn, and at the end.
    before: Vec<[u64; 2]>,
    /// From client to server.
    pub up: Content,
    /// From server to client.
    pub down: Content,
}

/// A step, as both sides see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// All before `end` of the direction of `by` is sent.
    Send { by: Role, end: u64 },
    /// `by`, whose turn is next, waits.
    Pause { by: Role, ns: u64 },
    /// `by` closes its side.
    Close { by: Role, how: Close },
}

/// UDP of a template.
#[derive(Debug)]
pub(super) struct UdpWork {
    pub request: Content,
    pub response: Content,
    pub exchanges: u32,
    pub gap_ns: u64,
}

impl Plan {
    /// Compiles the templates of `spec`.
    pub fn new(spec: &TrafficSpec) -> Result<Plan, ProgramError> {
        if spec.templates.is_empty() {
            return Err(ProgramError::NoTemplate);
        }
        few("templates", spec.templates.len())?;
        let scripts = spec.templates.iter().map(|template| {
            let is_client = spec.client.is_some();
            Script::new(template, is_client, spec.server.is_some())
        });
        let scripts: Vec<Script> = scripts.collect::<Result<_, _>>()?;
        let (mut at, mut at_port) = (HashMap::new(), HashMap::new());
        for (script, index) in scripts.iter().zip(0u16..) {
            let is_udp = matches!(script.work, Work::Udp(_));
            for target in &script.targets {
                at_port.entry((is_udp, target.port())).or_insert(index);
                let Some(other) = at.insert((is_udp, *target), index) else {
                    continue;
                };
                if other != index && spec.server.is_some() {
                    return Err(ProgramError::SameTarget {
                        one: scripts[usize::from(other)].name.clone(),
                        other: script.name.clone(),
                        target: *target,
                    });
                }
            }
        }
        Ok(Plan {
            scripts,
            at,
            at_port,
        })
    }

    /// The template that answers at `local`.
    pub fn script_at(&self, is_udp: bool, local: &SocketAddr) -> Option<u16> {
        let exact = self.at.get(&(is_udp, *local));
        let by_port = || self.at_port.get(&(is_udp, local.port()));
        exact.or_else(by_port).copied()
    }
}

fn few(what: &str, count: usize) -> Result<(), ProgramError> {
    if count <= MANY {
        return Ok(());
    }
    Err(ProgramError::TooMany {
        what: what.to_owned(),
        count: count as u64,
        most: MANY as u64,
    })
}

impl Script {
    fn new(template: &Template, has_client: bool, has_server: bool) -> Result<Self, ProgramError> {
        let name = || template.name.clone();
        let bad = |cause: &str| ProgramError::Template {
            template: name(),
            cause: cause.to_owned(),
        };
        if template.targets.is_empty() {
            return Err(ProgramError::NoTarget { template: name() });
        }
        few(
            &format!("targets of `{}`", template.name),
            template.targets.len(),
        )?;
        let concurrent_max = match template.pace {
            Pace::Constant(per_s) | Pace::Poisson(per_s) => {
                if !(per_s.is_finite() && per_s > 0.0) {
                    let template = name();
                    return Err(ProgramError::Rate { template, per_s });
                }
                u64::MAX
            }
            Pace::Concurrent(0) => return Err(bad("0 connections at one time carry nothing")),
            Pace::Concurrent(n) => u64::from(n),
        };
        let cap = template.concurrent_max.map_or(u64::MAX, u64::from);
        if cap == 0 {
            return Err(bad("at most 0 connections at one time carry nothing"));
        }
        let work = match &template.protocol {
            Protocol::Http(http) => Work::Http(HttpWork::new(template, http)?),
            Protocol::Stream(steps) => Work::Stream(StreamWork::new(steps).map_err(bad)?),
            Protocol::Udp {
                request_bytes,
                response_bytes,
                exchanges,
                gap,
            } => {
                if template.tls.is_some() {
                    return Err(bad("TLS needs a stream, and UDP has none"));
                }
                Work::Udp(UdpWork {
                    request: Content::of(&[], u64::from(*request_bytes), 0),
                    response: Content::of(&[], u64::from(*response_bytes), 1),
                    exchanges: (*exchanges).max(1),
                    gap_ns: gap.0,
                })
            }
        };
        let tls = template.tls.as_ref().map(|settings| {
            Tls::new(
                settings,
                template.targets[0].ip(),
                has_client,
                has_server,
                matches!(work, Work::Http(_)),
            )
            .map_err(|cause| ProgramError::Tls {
                template: name(),
                cause,
            })
        });
        Ok(Script {
            name: name(),
            targets: template.targets.clone(),
            pace: template.pace,
            concurrent_max: concurrent_max.min(cap),
            count: template.count.unwrap_or(u64::MAX),
            timeout_ns: match template.timeout.0 {
                0 => FOR_EVER_NS,
                ns => ns,
            },
            close: template.close,
            tls: tls.transpose()?,
            work,
        })
    }

    /// Silence after which the server side gives a connection up: longer than any client of the template is silent.
    pub fn patience_ns(&self) -> u64 {
        const MORE_NS: u64 = 10_000_000_000;
        let pause = match &self.work {
            Work::Http(work) => work.think_ns,
            Work::Stream(work) => work.longest_pause_ns(),
            Work::Udp(_) => 0,
        };
        self.timeout_ns
            .saturating_add(pause)
            .saturating_add(MORE_NS)
    }
}

impl HttpWork {
    fn new(template: &Template, http: &Http) -> Result<Self, ProgramError> {
        let scheme = if template.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let named = template
            .tls
            .as_ref()
            .and_then(|tls| tls.server_name.clone());
        let given = |name: &str| {
            let mut headers = http.headers.iter();
            headers.any(|(given, _)| given.eq_ignore_ascii_case(name))
        };
        // One request does for all targets where none of its bytes depends on the target.
        let targets = match named.is_some() || given("host") {
            true => &template.targets[..1],
            false => &template.targets[..],
        };
        let build = |target: &SocketAddr| {
            let host = match &named {
                Some(name) => format!("{name}:{}", target.port()),
                None => target.to_string(),
            };
            let slash = if http.path.starts_with('/') { "" } else { "/" };
            let mut spec = LoadSpec::new(format!("{scheme}://{host}{slash}{}", http.path));
            spec.method = http.method.clone();
            spec.headers = http.headers.clone();
            spec.close = template.close;
            spec.requests_per_connection = Some(http.requests.max(1));
            if http.body_bytes > 0 && !given("content-length") {
                let field = ("Content-Length".to_owned(), http.body_bytes.to_string());
                spec.headers.push(field);
            }
            let made = request::parse_url(&spec.url).and_then(|url| request::build(&spec, &url));
            made.map(|request| Content::of(&request.bytes, http.body_bytes, 0))
                .map_err(|cause| ProgramError::Request {
                    template: template.name.clone(),
                    cause: Box::new(cause),
                })
        };
        let requests = targets.iter().map(build).collect::<Result<_, _>>()?;
        let head = |status: &str, close: &str, len: u64| {
            format!(
                "HTTP/1.1 {status}\r\nServer: prony\r\nContent-Type: application/octet-stream\r\n\
                 Content-Length: {len}\r\n{close}\r\n"
            )
        };
        const CLOSE: &str = "Connection: close\r\n";
        let len = http.response_bytes;
        let last = head("200 OK", CLOSE, len);
        let refusal = head("400 Bad Request", CLOSE, 0);
        Ok(HttpWork {
            requests,
            count: http.requests.max(1),
            think_ns: http.think.0,
            is_head: http.method == "HEAD",
            expected: http.expect.as_ref().map(Expected::new),
            response: Content::message(head("200 OK", "", len).as_bytes(), len),
            last: [
                Content::message(last.as_bytes(), len),
                Content::message(last.as_bytes(), 0),
                Content::message(refusal.as_bytes(), 0),
            ],
        })
    }

    /// What a side has sent when so many exchanges are done and nothing more was asked.
    #[inline]
    pub fn sent(&self, role: Role, target: u16, step: u32) -> u64 {
        let each = match role {
            Role::Client => self.request(target).len(),
            Role::Server => self.response.len(),
        };
        u64::from(step) * each
    }

    /// The request to a target.
    #[inline]
    pub fn request(&self, target: u16) -> &Content {
        match self.requests.as_slice() {
            [only] => only,
            all => &all[usize::from(target)],
        }
    }
}

impl StreamWork {
    fn new(steps: &[Step]) -> Result<Self, &'static str> {
        let (mut up, mut down) = (Content::new(0), Content::new(32_749));
        let mut turns = Vec::new();
        let mut before = vec![[0; 2]];
        let (mut open, mut is_reset) = ([true; 2], false);
        for (at, step) in steps.iter().enumerate() {
            if is_reset {
                return Err("a step follows the reset of the connection");
            }
            let turn = match step {
                Step::ClientSends(data) => Turn::Send {
                    by: Role::Client,
                    end: up.push(data),
                },
                Step::ServerSends(data) => Turn::Send {
                    by: Role::Server,
                    end: down.push(data),
                },
                Step::Pause(ns) => match next_actor(&steps[at + 1..]) {
                    Some(by) => Turn::Pause { by, ns: ns.0 },
                    // At the end the client closes.
                    None => Turn::Pause {
                        by: Role::Client,
                        ns: ns.0,
                    },
                },
                Step::ClientCloses(how) => Turn::Close {
                    by: Role::Client,
                    how: *how,
                },
                Step::ServerCloses(how) => Turn::Close {
                    by: Role::Server,
                    how: *how,
                },
            };
            if let Turn::Send { by, .. } | Turn::Close { by, .. } = turn {
                if !open[by as usize] {
                    return Err("a side sends or closes after it has closed");
                }
                if let Turn::Close { how, .. } = turn {
                    open[by as usize] = false;
                    is_reset = how == Close::Rst;
                }
            }
            turns.push(turn);
            before.push([up.len(), down.len()]);
        }
        Ok(StreamWork {
            turns,
            before,
            up,
            down,
        })
    }

    /// What a side has sent and received when so many turns are done.
    #[inline]
    pub fn done(&self, role: Role, step: u32) -> (u64, u64) {
        let last = self.before.len() - 1;
        let [up, down] = self.before[last.min(step as usize)];
        match role {
            Role::Client => (up, down),
            Role::Server => (down, up),
        }
    }

    /// What a side sends.
    #[inline]
    pub fn sent_by(&self, role: Role) -> &Content {
        match role {
            Role::Client => &self.up,
            Role::Server => &self.down,
        }
    }

    /// What a side receives.
    #[inline]
    pub fn received_by(&self, role: Role) -> &Content {
        match role {
            Role::Client => &self.down,
            Role::Server => &self.up,
        }
    }

    fn longest_pause_ns(&self) -> u64 {
        let pauses = self.turns.iter().filter_map(|turn| match turn {
            Turn::Pause { ns, .. } => Some(*ns),
            _ => None,
        });
        pauses.sum()
    }
}

fn next_actor(steps: &[Step]) -> Option<Role> {
    steps.iter().find_map(|step| match step {
        Step::ClientSends(_) | Step::ClientCloses(_) => Some(Role::Client),
        Step::ServerSends(_) | Step::ServerCloses(_) => Some(Role::Server),
        Step::Pause(_) => None,
    })
}
