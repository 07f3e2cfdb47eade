//! A [`Workload`] made ready: files read, patterns compiled, every request cut into pieces, every bound known.

use super::cookies::path_of;
use super::json::Pointer;
use super::{CAPTURED_MAX, Compiled, Needs, Piece, Row, Sequence, Source, Table, Taken, Test};
use crate::load::LoadError;
use crate::load::{request, way};
use crate::transport::websocket;
use record::workload::{
    CaptureFrom, Check, Order, Part, Pick, Template, WorkloadBody, WorkloadRequest,
};
use record::{Body, Close, LoadSpec, Workload};
use regex::bytes::Regex;
use std::collections::BTreeMap;
use url::{Position, Url};

/// Checks and captures of one request: each has a bit.
const CHECKS_MAX: usize = 60;
/// A replay of more requests than this is counted as a whole: each would have a histogram on every thread.
const LISTED_APART_MAX: usize = 50;
/// What the cookies of a request may take in its head.
pub(super) const COOKIES_MAX: usize = 10 * 1024;

/// What all load threads share of a workload.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) seed: u64,
    pub(super) order: Order,
    pub(super) cookies: bool,
    pub(super) is_secure: bool,
    /// What a captured URL of this server begins with.
    pub(super) origin: Vec<u8>,
    pub(super) body_limit: usize,
    pub(super) requests: Vec<Compiled>,
    pub(super) tables: Vec<Table>,
    /// How many requests are counted each by itself: all or none.
    counted_apart: usize,
    /// The bodies are sent alone, as messages over WebSocket of this opcode.
    pub(super) message: Option<u8>,
    /// The only path and query, where there is one, and no request has headers of its own.
    only_target: Option<String>,
    /// How many names values are captured under.
    pub(super) captures: usize,
    /// The longest that a request can be.
    pub(super) largest: usize,
    pub(super) sequence: Sequence,
}

/// What can be named in a request.
struct Names {
    tables: Vec<(String, Vec<String>)>,
    captured: BTreeMap<String, usize>,
}

impl Prepared {
    /// Reads the files of a workload and checks all that it says.
    pub fn new(spec: &LoadSpec, workload: &Workload, url: &Url) -> Result<Prepared, LoadError> {
        let mut tables = Vec::new();
        let mut columns = Vec::new();
        for data in &workload.data {
            let (names, rows) = read_table(&data.file)?;
            if data.pick == Pick::PerClient && rows.len() < spec.connections as usize {
                return Err(wrong(
                    &format!("the table `{}`", data.name),
                    format!(
                        "it has {} rows for {} clients",
                        rows.len(),
                        spec.connections
                    ),
                    "use fewer connections, or pick = \"in_order\"",
                ));
            }
            columns.push((data.name.clone(), names));
            tables.push(Table {
                pick: data.pick,
                rows,
            });
        }
        let mut captured = BTreeMap::new();
        for capture in workload.requests.iter().flat_map(|r| &r.captures) {
            let next = captured.len();
            captured.entry(capture.name.clone()).or_insert(next);
        }
        let names = Names {
            tables: columns,
            captured,
        };
        let compile = |request| compile(spec, workload, url, request, &names);
        let requests = workload.requests.iter().map(compile);
        let requests = requests.collect::<Result<Vec<_>, _>>()?;
        let longest = |request: &Compiled| {
            let pieces = request.target.iter().map(|p| 3 * longest(p, &tables));
            let rest = request.head.iter().chain(&request.body);
            let rest = rest.map(|p| longest(p, &tables));
            // With the slash that a value may lack.
            1 + request.method.len() + pieces.sum::<usize>() + rest.sum::<usize>()
        };
        Ok(Prepared {
            seed: workload.seed,
            order: workload.order,
            cookies: workload.cookies,
            origin: url[..Position::BeforePath].as_bytes().to_vec(),
            is_secure: spec.is_tls(),
            body_limit: usize::try_from(workload.body_limit.0).unwrap_or(usize::MAX),
            largest: requests.iter().map(longest).max().unwrap_or(0) + COOKIES_MAX,
            captures: names.captured.len(),
            message: (spec.is_websocket()).then(|| websocket::sending::opcode_of(spec.ws_binary)),
            only_target: only_target(workload, url)?,
            counted_apart: match spec.timetable {
                Some(_) if requests.len() > LISTED_APART_MAX => 0,
                _ => requests.len(),
            },
            requests,
            tables,
            sequence: Sequence::new(0),
        })
    }

    /// Names of the requests that are counted each by itself, with the names of their checks.
    pub fn names(&self) -> impl Iterator<Item = (&str, &[String])> {
        let requests = self.requests.iter().take(self.counted_apart);
        requests.map(|r| (r.name.as_str(), r.check_names.as_slice()))
    }

    /// Some request announces the end of its connection.
    pub fn announces_close(&self) -> bool {
        self.requests.iter().any(|r| r.announces_close)
    }

    /// Whether clients have a state that only one request at a time may change.
    pub fn is_stateful(&self) -> bool {
        let thinks = self.requests.iter().any(|r| r.think.is_some());
        self.order == Order::Session || self.cookies || self.captures > 0 || thinks
    }

    /// More of some answer is looked at than its status.
    pub fn reads_answers(&self) -> bool {
        let reads = |r: &Compiled| !r.checks.is_empty() || !r.captures.is_empty();
        self.cookies || self.requests.iter().any(reads)
    }

    /// Every request is for this path and query, and none has headers of its own.
    pub fn is_all_at(&self, target: &str) -> bool {
        self.only_target.as_deref() == Some(target)
    }

    /// Some client waits between requests.
    pub fn thinks(&self) -> bool {
        self.requests.iter().any(|r| r.think.is_some())
    }

    /// The longest that a request can be.
    pub fn largest(&self) -> usize {
        self.largest
    }
}

/// The one request of a load as a workload: its clients have a state.
pub(crate) fn single(spec: &LoadSpec, url: &Url) -> Workload {
    let target = &url[Position::BeforePath..Position::AfterQuery];
    Workload::mix(vec![WorkloadRequest {
        method: spec.method.clone(),
        body: match &spec.body {
            Body::None => WorkloadBody::None,
            Body::Text(text) => WorkloadBody::Text(Template::plain(text)),
            Body::File(file) => WorkloadBody::File(file.clone()),
        },
        ..WorkloadRequest::get(format!("{} {target}", spec.method), Template::plain(target))
    }])
}

fn wrong(what: &str, cause: impl Into<String>, remedy: &str) -> LoadError {
    LoadError::Workload {
        what: what.to_owned(),
        cause: cause.into(),
        remedy: remedy.to_owned(),
    }
}

fn read_table(file: &str) -> Result<(Vec<String>, Vec<Row>), LoadError> {
    let failed = |cause: String| {
        wrong(
            &format!("the table in `{file}`"),
            cause,
            "give a file of comma-separated values whose first line names the columns",
        )
    };
    let mut reader = csv::Reader::from_path(file).map_err(|e| failed(e.to_string()))?;
    let names = reader.headers().map_err(|e| failed(e.to_string()))?.clone();
    let mut rows = Vec::new();
    for record in reader.byte_records() {
        let record = record.map_err(|e| failed(e.to_string()))?;
        rows.push(record.iter().map(<[u8]>::to_vec).collect());
    }
    if rows.is_empty() {
        return Err(failed("it has no row".to_owned()));
    }
    let names = names.iter().map(|name| name.trim().to_owned()).collect();
    Ok((names, rows))
}

/// The most bytes that a piece becomes.
fn longest(piece: &Piece, tables: &[Table]) -> usize {
    match piece {
        Piece::Bytes(bytes) => bytes.len(),
        Piece::Sequence | Piece::Integer { .. } | Piece::BodyLength => 20,
        Piece::Letters(n) => *n as usize,
        Piece::Uuid => 36,
        Piece::Column { table, column } => {
            let cells = tables[*table].rows.iter().map(|row| row[*column].len());
            cells.max().unwrap_or(0)
        }
        Piece::Captured(_) => CAPTURED_MAX,
        Piece::Cookies => COOKIES_MAX,
    }
}

fn compile(
    spec: &LoadSpec,
    workload: &Workload,
    url: &Url,
    request: &WorkloadRequest,
    names: &Names,
) -> Result<Compiled, LoadError> {
    let what = format!("the request `{}`", request.name);
    request::check_method(&request.method)?;
    let target = names.pieces(&target(url, &request.target, &what)?, &what)?;
    let body = match &request.body {
        WorkloadBody::None => Vec::new(),
        WorkloadBody::Text(template) => names.pieces(template, &what)?,
        WorkloadBody::File(path) => {
            let bytes = std::fs::read(path).map_err(|cause| LoadError::BodyFile {
                path: path.clone(),
                cause,
            })?;
            vec![Piece::Bytes(bytes)]
        }
    };
    let mut head = Head::default();
    head.text(" HTTP/1.1\r\n");
    // What the command line says holds for every request that does not say it itself.
    let common = spec.headers.iter();
    let common = common.map(|(name, value)| (name.clone(), Template::plain(value)));
    let own = |name: &str| {
        let mut own = request.headers.iter();
        own.any(|(given, _)| given.eq_ignore_ascii_case(name))
    };
    let mut headers: Vec<(String, Template)> = request.headers.clone();
    headers.extend(common.filter(|(name, _)| !own(name)));
    let given = |name: &str| headers.iter().find(|(g, _)| g.eq_ignore_ascii_case(name));
    if given("host").is_none() {
        head.text(&format!(
            "Host: {}\r\n",
            &url[Position::BeforeHost..Position::AfterPort]
        ));
    }
    head.text(&way::authorization(spec, url));
    for (name, value) in &headers {
        request::check_header(name, &value.to_string())?;
        head.text(&format!("{name}: "));
        let pieces = names.pieces(value, &what)?;
        names.check_lines(&pieces, workload, &what)?;
        head.0.extend(pieces);
        head.text("\r\n");
    }
    if workload.cookies && given("cookie").is_none() {
        head.0.push(Piece::Cookies);
    }
    let is_framed = given("content-length")
        .or(given("transfer-encoding"))
        .is_some();
    if !is_framed && (!body.is_empty() || request::expects_body(&request.method)) {
        head.text("Content-Length: ");
        head.0.push(Piece::BodyLength);
        head.text("\r\n");
    }
    let mut announces_close = given("connection")
        .and_then(|(_, value)| value.literal())
        .is_some_and(|value| {
            value
                .split(',')
                .any(|option| option.trim().eq_ignore_ascii_case("close"))
        });
    if spec.requests_per_connection == Some(1)
        && spec.close == Close::Fin
        && given("connection").is_none()
    {
        head.text("Connection: close\r\n");
        announces_close = true;
    }
    head.text("\r\n");
    let mut compiled = Compiled {
        name: request.name.clone(),
        method: format!("{} {}", request.method, way::prefix(spec, url)).into_bytes(),
        target,
        head: head.0,
        body,
        weight: request.weight,
        think: request
            .think
            .or(spec.think)
            .filter(|think| think.mean().0 > 0),
        is_head: request.method == "HEAD",
        announces_close,
        needs: Needs {
            head: workload.cookies,
            ..Needs::default()
        },
        status: None,
        checks: Vec::new(),
        captures: Vec::new(),
        check_names: vec!["status".to_owned()],
    };
    add_checks(&mut compiled, request);
    add_captures(&mut compiled, request, names, &what)?;
    if compiled.checks.len() + compiled.captures.len() > CHECKS_MAX {
        return Err(wrong(
            &what,
            format!("it has more than {CHECKS_MAX} checks and captures"),
            "leave some out",
        ));
    }
    Ok(compiled)
}

fn add_checks(compiled: &mut Compiled, request: &WorkloadRequest) {
    for check in &request.checks {
        let needs = &mut compiled.needs;
        needs.body |= !matches!(check, Check::Status(_));
        needs.kept |= matches!(check, Check::Contains(_) | Check::Json { .. });
        needs.hash |= matches!(check, Check::Sha256(_));
        compiled.checks.push(match check {
            Check::Status(ranges) => {
                compiled.status = Some(ranges.clone());
                continue;
            }
            Check::Length(least, most) => Test::Length(*least, *most),
            Check::Contains(text) => Test::Contains(
                memchr::memmem::Finder::new(text.as_bytes())
                    .into_owned()
                    .into(),
            ),
            Check::Json { pointer, equals } => {
                Test::Json(Pointer::new(pointer), equals.clone().into_bytes())
            }
            Check::Sha256(digits) => Test::Sha256(digest(digits)),
        });
        compiled.check_names.push(check.name());
    }
}

fn add_captures(
    compiled: &mut Compiled,
    request: &WorkloadRequest,
    names: &Names,
    what: &str,
) -> Result<(), LoadError> {
    for capture in &request.captures {
        let is_body = matches!(capture.from, CaptureFrom::Regex(_) | CaptureFrom::Json(_));
        compiled.needs.body |= is_body;
        compiled.needs.kept |= is_body;
        compiled.needs.head |= !is_body;
        let from = match &capture.from {
            CaptureFrom::Header(name) => Source::Header(name.clone()),
            CaptureFrom::Cookie(name) => Source::Cookie(name.clone()),
            CaptureFrom::Json(pointer) => Source::Json(Pointer::new(pointer)),
            CaptureFrom::Regex(pattern) => Source::Regex(Regex::new(pattern).map_err(|cause| {
                wrong(
                    &format!("{what}, the capture `{}`", capture.name),
                    cause.to_string(),
                    "write the pattern in single quotes, so that TOML leaves its backslashes alone",
                )
            })?),
        };
        compiled.captures.push(Taken {
            into: names.captured[&capture.name],
            from,
        });
        compiled
            .check_names
            .push(format!("capture {}", capture.name));
    }
    Ok(())
}

/// Of 64 hexadecimal digits; others are zero, which no body hashes to.
fn digest(digits: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).unwrap_or_default();
        *byte = u8::from_str_radix(pair, 16).unwrap_or(0);
    }
    bytes
}

/// The path and query of all requests; `None` when they differ, are made up anew each time, or come with headers.
fn only_target(workload: &Workload, url: &Url) -> Result<Option<String>, LoadError> {
    let mut only: Option<String> = None;
    for request in &workload.requests {
        let target = target(url, &request.target, &request.name)?;
        match target.literal() {
            Some(text)
                if request.headers.is_empty() && only.as_deref().is_none_or(|o| o == text) =>
            {
                only = Some(text.to_owned());
            }
            _ => return Ok(None),
        }
    }
    Ok(only)
}

/// Path and query of a request. A URL must be one of the load's server.
fn target(url: &Url, target: &Template, what: &str) -> Result<Template, LoadError> {
    let origin = &url[..Position::BeforePath];
    let mut target = target.clone();
    let Some(Part::Text(first)) = target.0.first_mut() else {
        // What it begins with is known when it is written.
        return Ok(target);
    };
    if !first.starts_with('/') {
        let full = Url::parse(first)
            .ok()
            .filter(|u| u[..Position::BeforePath] == *origin);
        let Some(full) = full else {
            return Err(wrong(
                what,
                format!("its URL `{first}` is not one of {origin}"),
                "write a path that begins with /; a load has one server",
            ));
        };
        *first = full[Position::BeforePath..Position::AfterQuery].to_owned();
    }
    if let Some((before, _)) = first.split_once('#') {
        *first = before.to_owned();
    }
    if path_of(first.as_bytes()).is_empty() || first.bytes().any(|b| b <= b' ' || b == 127) {
        return Err(wrong(
            what,
            format!(
                "its path `{}` has a blank or a control character",
                first.escape_debug()
            ),
            "write a blank as %20",
        ));
    }
    Ok(target)
}

#[derive(Default)]
struct Head(Vec<Piece>);

impl Head {
    fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Piece::Bytes(bytes)) => bytes.extend_from_slice(text.as_bytes()),
            _ => self.0.push(Piece::Bytes(text.as_bytes().to_vec())),
        }
    }
}

impl Names {
    fn pieces(&self, template: &Template, what: &str) -> Result<Vec<Piece>, LoadError> {
        template
            .0
            .iter()
            .map(|part| self.piece(part, what))
            .collect()
    }

    fn piece(&self, part: &Part, what: &str) -> Result<Piece, LoadError> {
        Ok(match part {
            Part::Text(text) => Piece::Bytes(text.as_bytes().to_vec()),
            Part::Sequence => Piece::Sequence,
            Part::Integer { from, to } => Piece::Integer {
                from: *from,
                // All 2^64 are 0.
                span: (to.wrapping_sub(*from)).cast_unsigned().wrapping_add(1),
            },
            Part::Letters(n) => Piece::Letters(*n),
            Part::Uuid => Piece::Uuid,
            Part::Column { data, column } => {
                let table = self.tables.iter().position(|(name, _)| name == data);
                let found = table.and_then(|table| {
                    let columns = &self.tables[table].1;
                    let column = columns.iter().position(|name| name == column)?;
                    Some(Piece::Column { table, column })
                });
                let known = table.map_or_else(String::new, |t| self.tables[t].1.join(", "));
                found.ok_or_else(|| {
                    wrong(
                        what,
                        format!("there is no `{data}.{column}`"),
                        &format!("name a column of the table: {known}"),
                    )
                })?
            }
            Part::Captured(name) => match self.captured.get(name) {
                Some(i) => Piece::Captured(*i),
                None => {
                    return Err(wrong(
                        what,
                        format!("nothing captures `{name}`"),
                        "add it to the `capture` of an earlier step",
                    ));
                }
            },
        })
    }

    /// A line end in a header would send a request that nobody counts.
    fn check_lines(
        &self,
        pieces: &[Piece],
        workload: &Workload,
        what: &str,
    ) -> Result<(), LoadError> {
        for piece in pieces {
            let Piece::Column { table, column } = piece else {
                continue;
            };
            let data = &workload.data[*table];
            let (_, rows) = read_table(&data.file)?;
            let has_control = |row: &&Row| row[*column].iter().any(u8::is_ascii_control);
            if rows.iter().any(|row| has_control(&row)) {
                return Err(wrong(
                    what,
                    format!(
                        "a header holds {}.{}, of which a row has a control character",
                        data.name, self.tables[*table].1[*column]
                    ),
                    "take it out of the file",
                ));
            }
        }
        Ok(())
    }
}
