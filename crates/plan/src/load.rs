//! `[load]`: the fields of a load, their short forms, and fields that depend on a factor's level.
//!
//! A field is set by `[load]`, by a stage's `load.X`, or by a factor of the same name. Any field may be
//! a table with one value for each level of one factor: `url = { direct = "...", proxied = "..." }`. What a value may
//! be is said in [`typed`], for the command line too.
//! The surprise: such a table names no factor; the factor is the one whose levels are the table's keys.

use crate::error::{Fault, Found};
use crate::levels::Cell;
use crate::node::{Entry, Field, Value};
use crate::typed::{self, Course, Process, Rate};
use record::{Arrival, Body, LoadSpec};

/// Names of the fields of `[load]`, and so of the factors that set one.
pub const FIELDS: [&str; 40] = [
    "url",
    "connections",
    "threads",
    "rate",
    "arrival",
    "precision",
    "requests_per_connection",
    "close",
    "pipeline",
    "http",
    "streams",
    "grpc",
    "ws_binary",
    "sse",
    "engine",
    "transport",
    "interface",
    "coalesce",
    "source",
    "network",
    "gateway",
    "cpus",
    "hosts",
    "timeout",
    "method",
    "headers",
    "body",
    "body_file",
    "insecure",
    "no_resumption",
    "cacert",
    "cert",
    "key",
    "sni",
    "connect_to",
    "unix",
    "proxy",
    "proxy_user",
    "limit_rate",
    "think",
];

/// A load under construction.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub spec: LoadSpec,
    /// Where the URL stands in the file.
    pub url_at: usize,
    rate: Option<(usize, Course)>,
    process: Option<(usize, Process)>,
}

/// What a draft becomes.
pub(crate) struct Load {
    pub spec: LoadSpec,
    pub rate_of_capacity: Option<f64>,
    /// Where the rate stands in the file.
    pub rate_at: usize,
}

impl Draft {
    pub fn new() -> Self {
        Self {
            spec: LoadSpec::new(String::new()),
            url_at: 0,
            rate: None,
            process: None,
        }
    }

    /// Sets one field; `inside` is the section for messages.
    pub fn set(&mut self, field: Field<'_>, inside: &str) -> Result<(), Found> {
        let spec = &mut self.spec;
        match field.name {
            "url" => {
                self.url_at = field.node.at;
                spec.url = field.fitting(typed::url(field.text()?))?;
            }
            "connections" => spec.connections = field.count32(1)?,
            "threads" => spec.threads = Some(field.count32(1)?),
            "rate" => self.rate = Some((field.node.at, field.typed(typed::course)?)),
            "arrival" => self.process = Some((field.node.at, field.typed(typed::process)?)),
            "precision" => spec.precision = field.typed(typed::precision)?,
            "requests_per_connection" => {
                spec.requests_per_connection = Some(field.count(0)?).filter(|n| *n > 0);
            }
            "close" => spec.close = field.typed(typed::close)?,
            "pipeline" => spec.pipeline = field.count32(1)?,
            "http" => spec.http = field.typed(typed::http)?,
            "streams" => spec.streams = field.count32(1)?,
            "grpc" => {
                if field.boolean()? {
                    spec.call_grpc();
                }
            }
            "ws_binary" => spec.ws_binary = field.boolean()?,
            "sse" => spec.sse = field.boolean()?,
            "engine" => spec.engine = field.typed(typed::engine)?,
            "transport" => spec.transport = field.typed(typed::transport)?,
            "interface" => spec.interface = Some(field.typed(typed::interface)?),
            "coalesce" => spec.coalesce = Some(field.duration()?),
            "source" => spec.source = field.typed_list(typed::sources)?,
            "network" => spec.network = field.typed_list(typed::networks)?,
            "gateway" => spec.gateway = field.typed_list(typed::gateways)?,
            "cpus" => spec.cpus = field.typed_list(typed::cpus)?,
            "hosts" => spec.hosts = field.typed_list(typed::host_names)?,
            "timeout" => spec.timeout = field.duration_above_zero()?,
            "method" => spec.method = field.typed(typed::method)?,
            "headers" => spec.headers = headers(field)?,
            "body" => self.set_body(typed::body(field.text()?), field, inside)?,
            "body_file" => self.set_body(Body::File(field.text()?.to_owned()), field, inside)?,
            "insecure" => spec.insecure = field.boolean()?,
            "no_resumption" => spec.no_resumption = field.boolean()?,
            "cacert" => spec.cacert = Some(field.text()?.to_owned()),
            "cert" => spec.cert = Some(field.text()?.to_owned()),
            "key" => spec.key = Some(field.text()?.to_owned()),
            "sni" => spec.sni = Some(field.text()?.to_owned()),
            "connect_to" => spec.connect_to = Some(field.typed(typed::connect_to)?),
            "unix" => spec.unix = Some(field.typed(typed::unix)?),
            "proxy" => spec.proxy = Some(field.typed(typed::proxy)?),
            "proxy_user" => spec.proxy_user = Some(field.typed(typed::proxy_user)?),
            "limit_rate" => spec.limit_rate = Some(field.typed(typed::limit_rate)?),
            "think" => spec.think = crate::workload::think_of(field)?,
            _ => return Err(field.unknown_key(inside, &FIELDS)),
        }
        Ok(())
    }

    /// The rate of a step is what the search is about: 0 until the step begins. A rate of the top level gives way.
    pub fn search_rate(&mut self, at: usize) {
        self.rate = Some((at, Course::Steady(Rate::PerSecond(0.0))));
    }

    fn set_body(&mut self, body: Body, field: Field<'_>, inside: &str) -> Result<(), Found> {
        if self.spec.body != Body::None {
            let fault = Fault::Conflict {
                first: "body".to_owned(),
                second: "body_file".to_owned(),
                inside: inside.to_owned(),
                why: "a request has one body",
            };
            return Err(Found::at(field.name_at, fault));
        }
        self.spec.body = body;
        Ok(())
    }

    /// Brings rate and arrival process together. A rate that is a share of the capacity stands in
    /// [`LoadSpec::arrival`] as 0 until the capacity is known; Poisson's seed is set by the caller.
    pub fn finish(mut self) -> Result<Load, Found> {
        let process = self.process.map(|(_, process)| process);
        let Some((rate_at, rate)) = self.rate else {
            return match self.process {
                Some((at, Process::Constant)) => Err(no_rate(at, "constant")),
                Some((at, Process::Poisson)) => Err(no_rate(at, "poisson")),
                None | Some((_, Process::Closed)) => Ok(Load {
                    spec: self.spec,
                    rate_of_capacity: None,
                    rate_at: 0,
                }),
            };
        };
        let (per_s, rate_of_capacity, pieces) = match rate {
            Course::Steady(Rate::PerSecond(per_s)) => (per_s, None, None),
            Course::Steady(Rate::OfCapacity(share)) => (0.0, Some(share), None),
            Course::Changing(pieces) => (0.0, None, Some(pieces)),
        };
        self.spec.arrival = match process {
            None | Some(Process::Constant) => Arrival::Constant { per_s },
            Some(Process::Poisson) => Arrival::Poisson { per_s, seed: 0 },
            Some(Process::Closed) => return Err(closed_with_rate(rate_at)),
        };
        if let Some(pieces) = pieces {
            self.spec.change_rate(pieces);
        }
        Ok(Load {
            spec: self.spec,
            rate_of_capacity,
            rate_at,
        })
    }
}

fn no_rate(at: usize, arrival: &str) -> Found {
    let arrival = arrival.to_owned();
    Found::at(at, Fault::NoRate { arrival })
}

fn closed_with_rate(at: usize) -> Found {
    let fault = Fault::Conflict {
        first: "rate".to_owned(),
        second: "arrival = \"closed\"".to_owned(),
        inside: "one load".to_owned(),
        why: "a closed loop sends when a response has arrived, not at a rate",
    };
    Found::at(at, fault)
}

fn headers(field: Field<'_>) -> Result<Vec<(String, String)>, Found> {
    let header = |e: &Entry| {
        let value = e.field().plain()?;
        e.field().fitting(typed::header(&e.name, &value))
    };
    field.table()?.iter().map(header).collect()
}

/// The value of `field` for a cell: itself, or the entry of a keyed table for the cell's level.
pub(crate) fn pick<'a>(field: Field<'a>, cell: Cell<'_>) -> Result<Field<'a>, Found> {
    match keyed_table(field) {
        Some(entries) => cell.choose(field, entries),
        None => Ok(field),
    }
}

/// The entries of a table that chooses by level. `headers` is a table itself: it is keyed when its values are tables.
fn keyed_table(field: Field<'_>) -> Option<&[Entry]> {
    let entries = field.table().ok()?;
    let nested = |e: &Entry| matches!(e.node.value, Value::Table(_));
    (field.name != "headers" || (!entries.is_empty() && entries.iter().all(nested)))
        .then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::parse;

    fn draft(text: &str) -> Result<Load, Found> {
        let mut draft = Draft::new();
        for entry in parse(text).unwrap() {
            draft.set(entry.field(), "[load]")?;
        }
        draft.finish()
    }

    /// One valid value for every field: none is listed without being understood.
    #[test]
    fn every_listed_field_is_understood() {
        let values = [
            "\"http://a/\"",
            "10",
            "2",
            "\"10k\"",
            "\"poisson\"",
            "\"spin\"",
            "1",
            "\"rst\"",
            "4",
            "\"2\"",
            "8",
            "true",
            "true",
            "true",
            "\"epoll\"",
            "\"tap\"",
            "\"tap0\"",
            "\"20us\"",
            "\"127.0.0.2-127.0.0.4\"",
            "\"10.9.0.0/24\"",
            "\"10.9.0.1\"",
            "\"0-1\"",
            "[\"gen1\", \"gen2\"]",
            "\"500ms\"",
            "\"POST\"",
            "{ Host = \"x\", N = 1 }",
            "\"text\"",
            "\"file\"",
            "true",
            "true",
            "\"ca.pem\"",
            "\"c.pem\"",
            "\"k.pem\"",
            "\"name\"",
            "\"127.0.0.1:80\"",
            "\"/run/a.sock\"",
            "\"http://127.0.0.1:3128\"",
            "\"me:secret\"",
            "\"256KiB\"",
            "\"10ms\"",
        ];
        for (name, value) in FIELDS.iter().zip(values) {
            let mut draft = Draft::new();
            let entries = parse(&format!("{name} = {value}")).unwrap();
            assert_eq!(draft.set(entries[0].field(), "[load]"), Ok(()), "{name}");
            let unchanged = Draft::new();
            assert!(
                draft.spec != unchanged.spec
                    || draft.rate != unchanged.rate
                    || draft.process != unchanged.process
                    || *name == "connections",
                "{name} = {value} changed nothing"
            );
        }
    }

    #[test]
    fn rates() {
        for (text, arrival, share) in [
            ("rate = 5000", Arrival::Constant { per_s: 5e3 }, None),
            ("rate = \"10k\"", Arrival::Constant { per_s: 1e4 }, None),
            ("rate = 0.5", Arrival::Constant { per_s: 0.5 }, None),
            (
                "rate = \"80%\"",
                Arrival::Constant { per_s: 0.0 },
                Some(0.8),
            ),
            (
                "rate = 7\narrival = \"poisson\"",
                Arrival::Poisson {
                    per_s: 7.0,
                    seed: 0,
                },
                None,
            ),
        ] {
            let load = draft(text).ok().unwrap();
            assert_eq!(
                (load.spec.arrival, load.rate_of_capacity),
                (arrival, share),
                "{text}"
            );
        }
        for text in [
            "rate = 0",
            "rate = -1",
            "rate = \"0%\"",
            "rate = \"fast\"",
            "rate = nan",
            "arrival = \"poisson\"",
            "rate = 1\narrival = \"closed\"",
            "body = \"x\"\nbody_file = \"y\"",
            "method = \"GET /\"",
            "headers = { A = \"x\\r\\ny\" }",
        ] {
            assert!(draft(text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_limit_is_zero_requests_per_connection() {
        let limit = |text| draft(text).ok().unwrap().spec.requests_per_connection;
        assert_eq!(limit("requests_per_connection = 0"), None);
        assert_eq!(limit("requests_per_connection = 1"), Some(1));
    }
}
