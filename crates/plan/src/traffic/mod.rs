//! Traffic file -> [`TrafficSpec`]: sides, templates, weights, streams, replays; messages with line and near miss.
//!
//! Pure: captures, certificates and keys are read through a function that the caller gives. The flow within: `node`
//! (TOML with places) -> the sides and the templates as typed -> what only both together can tell (which addresses the
//! server has, how a total is shared by weights). The surprise is what may be left out: a file is a side with an
//! address and a template with a target; everything else has a value that the documents state.

mod address;
mod pcap;
mod replay;
mod side;
mod steps;
mod template;

use crate::PlanError;
use crate::error::{Fault, Found, Report};
use crate::node::{self, Entry, Field, Value};
use crate::typed::{self, Process, Rate};
use record::traffic::{Pace, Side};
use record::{Carrier, Nanos, TrafficSpec};
use template::{Draft, Paced};

/// Where the text of what a traffic file names comes from; relative to the file.
pub type ReadBytes<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// A traffic file as read.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficFile {
    /// What the run is to answer; empty when the file does not say.
    pub question: String,
    /// What is run.
    pub spec: TrafficSpec,
}

/// What is run for how long when the file does not say.
const DURATION: Nanos = Nanos::from_secs(10);
/// How long open connections may take to finish.
const DRAIN: Nanos = Nanos::from_secs(1);

const KEYS: [&str; 12] = [
    "question",
    "transport",
    "duration",
    "ramp",
    "drain",
    "seed",
    "rate",
    "concurrent",
    "arrival",
    "client",
    "server",
    "template",
];

impl TrafficFile {
    /// Reads a traffic file. `file` is its name for messages; `read` gives the bytes of a file that it names.
    ///
    /// # Errors
    /// [`PlanError`] with every problem that was found: place, fact, near miss, remedy.
    pub fn parse(text: &str, file: &str, read: ReadBytes<'_>) -> Result<TrafficFile, PlanError> {
        let mut report = Report::default();
        let parsed = node::parse(text);
        let read = report.take(parsed).and_then(|entries| {
            let typed = Typed::of(&entries, read, &mut report);
            let made = report.is_empty().then(|| typed.finish());
            made.and_then(|made| report.take(made))
        });
        read.ok_or_else(|| report.into_error(file, text))
    }
}

/// The file's sections, each read by itself.
#[derive(Default)]
struct Typed {
    question: String,
    carrier: Option<Carrier>,
    duration: Option<Nanos>,
    ramp: Nanos,
    drain: Option<Nanos>,
    seed: Option<u64>,
    /// Shared among the templates by weight, with its place.
    total: Option<(usize, Paced)>,
    process: Option<Process>,
    client: Option<side::Draft>,
    server: Option<side::Draft>,
    templates: Vec<Draft>,
}

impl Typed {
    fn of(entries: &[Entry], read: ReadBytes<'_>, report: &mut Report) -> Typed {
        let mut typed = Typed::default();
        for entry in entries {
            let set = typed.set(entry.field(), read, report);
            report.take(set);
        }
        typed
    }

    fn set(
        &mut self,
        field: Field<'_>,
        read: ReadBytes<'_>,
        report: &mut Report,
    ) -> Result<(), Found> {
        match field.name {
            "question" => field.text()?.clone_into(&mut self.question),
            "transport" => self.carrier = Some(side::carrier(field)?),
            "duration" => self.duration = Some(field.duration_above_zero()?),
            "ramp" => self.ramp = field.duration()?,
            "drain" => self.drain = Some(field.duration()?),
            "seed" => self.seed = Some(field.count(0)?),
            "rate" | "concurrent" => {
                let paced = paced(field)?;
                if let Some((_, before)) = &self.total {
                    return Err(rate_and_concurrent(field, before, "one file"));
                }
                self.total = Some((field.name_at, paced));
            }
            "arrival" => self.process = Some(arrival(field)?),
            "client" => self.client = Some(side::read(field, true, report)?),
            "server" => self.server = Some(side::read(field, false, report)?),
            "template" => {
                let Value::List(_) = field.node.value else {
                    return Err(field.must_be("written as [[template]]"));
                };
                for item in field.list()? {
                    let number = self.templates.len() + 1;
                    let draft = template::read(item, number, read, report);
                    self.templates.extend(draft);
                }
            }
            _ => return Err(field.unknown_key("a traffic file", &KEYS)),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<TrafficFile, Found> {
        if self.templates.is_empty() {
            return Err(Found::missing(
                0,
                "[[template]]",
                "the file",
                "[[template]] with target = \"http://10.9.0.1/\"",
            ));
        }
        template::check_names(&self.templates)?;
        self.share()?;
        let (client, server) = self.sides()?;
        let counted = self.templates.iter().all(|t| t.template.count.is_some());
        Ok(TrafficFile {
            question: self.question,
            spec: TrafficSpec {
                duration: self.duration.or((!counted).then_some(DURATION)),
                ramp: self.ramp,
                drain: self.drain.unwrap_or(DRAIN),
                seed: self.seed.unwrap_or(1),
                client,
                server,
                templates: self.templates.into_iter().map(|t| t.template).collect(),
            },
        })
    }

    /// Gives every template its pace: its own, or its share of the file's total.
    fn share(&mut self) -> Result<(), Found> {
        let (process, total) = (self.process, self.total.clone());
        let weights: Vec<f64> = self
            .templates
            .iter()
            .map(|t| if t.paced.is_none() { t.weight } else { 0.0 })
            .collect();
        let sum: f64 = weights.iter().sum();
        if let (Some((at, total)), true) = (&total, sum == 0.0) {
            let fault = Fault::Conflict {
                first: total.key().to_owned(),
                second: "rate and concurrent of every [[template]]".to_owned(),
                inside: "one file".to_owned(),
                why: "no template is left that the total could be shared among",
            };
            return Err(Found::at(*at, fault));
        }
        let counts = match &total {
            Some((at, Paced::Concurrent(n))) => shares(*n, &weights).ok_or_else(|| {
                Found::at(
                    *at,
                    too_few(*n, weights.iter().filter(|w| **w > 0.0).count()),
                )
            })?,
            _ => Vec::new(),
        };
        for (i, draft) in self.templates.iter_mut().enumerate() {
            let process = draft.process.or(process);
            let paced = match (&draft.paced, &total) {
                (Some(own), _) => own.clone(),
                (None, Some((_, Paced::Rate(total)))) => Paced::Rate(total * weights[i] / sum),
                (None, Some((_, Paced::Concurrent(_)))) => Paced::Concurrent(counts[i]),
                (None, None) => {
                    let inside = format!("[[template]] `{}`", draft.template.name);
                    return Err(Found::missing(
                        draft.at,
                        "rate or concurrent",
                        &inside,
                        "rate = 2000, or concurrent = 256",
                    ));
                }
            };
            draft.template.pace = match (paced, process) {
                (Paced::Concurrent(n), _) => Pace::Concurrent(n),
                (Paced::Rate(per_s), Some(Process::Poisson)) => Pace::Poisson(per_s),
                (Paced::Rate(per_s), _) => Pace::Constant(per_s),
            };
        }
        Ok(())
    }

    /// Both sides, with what the templates and the other side tell of them.
    fn sides(&mut self) -> Result<(Option<Side>, Option<Side>), Found> {
        let targets: Vec<_> = self
            .templates
            .iter()
            .flat_map(|t| &t.template.targets)
            .map(std::net::SocketAddr::ip)
            .collect();
        let mut sides = [self.client.take(), self.server.take()];
        let is_loopback = |draft: &side::Draft| draft.carrier == Some(Carrier::Loopback);
        let loopback = self.carrier == Some(Carrier::Loopback)
            || (self.carrier.is_none() && sides.iter().flatten().any(is_loopback));
        if loopback {
            // Over memory both ends are ours, whether they have a section or not.
            for draft in &mut sides {
                draft.get_or_insert_default();
            }
            side::share_threads(&mut sides)?;
        }
        if sides.iter().all(Option::is_none) {
            return Err(Found::missing(
                0,
                "[client] or [server]",
                "the file",
                "[client] with transport, interface and addresses",
            ));
        }
        let [client, server] = sides;
        let finish = |draft: Option<side::Draft>, is_client| {
            draft
                .map(|d| d.finish(is_client, self.carrier, loopback, &targets))
                .transpose()
        };
        let (client, server) = (finish(client, true)?, finish(server, false)?);
        if client.is_some() && server.is_some() && !loopback {
            side::check_pair(client.as_ref(), server.as_ref())?;
        }
        Ok((client.map(|s| s.side), server.map(|s| s.side)))
    }
}

/// `rate` or `concurrent`.
fn paced(field: Field<'_>) -> Result<Paced, Found> {
    if field.name == "concurrent" {
        return Ok(Paced::Concurrent(field.count32(1)?));
    }
    match field.typed(typed::rate)? {
        Rate::PerSecond(per_s) => Ok(Paced::Rate(per_s)),
        Rate::OfCapacity(_) => Err(field.must_be("connections per second such as \"10k\"")),
    }
}

fn arrival(field: Field<'_>) -> Result<Process, Found> {
    field.choice(&[
        ("constant", Process::Constant),
        ("poisson", Process::Poisson),
    ])
}

fn rate_and_concurrent(field: Field<'_>, before: &Paced, inside: &str) -> Found {
    let fault = Fault::Conflict {
        first: before.key().to_owned(),
        second: field.name.to_owned(),
        inside: inside.to_owned(),
        why: "connections begin at a rate or are kept at a number; a rate is bounded with `concurrent_max`",
    };
    Found::at(field.name_at, fault)
}

fn too_few(total: u32, templates: usize) -> Fault {
    Fault::Unexpected {
        what: "concurrent".to_owned(),
        expected: format!("at least {templates}, one for each template that shares it"),
        found: total.to_string(),
    }
}

/// A number in whole parts by weight, each of a weight at least one: the largest remainders get what is left.
fn shares(total: u32, weights: &[f64]) -> Option<Vec<u32>> {
    let sum: f64 = weights.iter().sum();
    let exact = |w: &f64| f64::from(total) * w / sum;
    let least = |w: &f64| u32::from(*w > 0.0);
    let mut parts: Vec<u32> = weights
        .iter()
        .map(|w| (exact(w).floor() as u32).max(least(w)))
        .collect();
    while parts.iter().sum::<u32>() > total {
        let largest = (0..parts.len())
            .filter(|&i| parts[i] > 1)
            .max_by_key(|&i| parts[i])?;
        parts[largest] -= 1;
    }
    while parts.iter().sum::<u32>() < total {
        let lacks = |i: &usize| exact(&weights[*i]) - f64::from(parts[*i]);
        let next = (0..parts.len())
            .filter(|&i| weights[i] > 0.0)
            .max_by(|a, b| lacks(a).total_cmp(&lacks(b)))?;
        parts[next] += 1;
    }
    Some(parts)
}

#[cfg(test)]
mod tests;
