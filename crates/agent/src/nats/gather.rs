//! The conductor's side: it calls a fleet, and reaches those of its agents that it wants.

use super::broker::{Broker, Came, Publisher};
use super::stream::{Part, Stream};
use super::{
    Access, Answer, BrokerError, Call, Card, Offer, hostname, note, noted, run_and_agent, shown,
};
use crate::carrier::{FIRST_WORD, Link, Program, check};
use crate::conductor::each;
use crate::message::Message;
use crate::{Agent, BEAT, HostError};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Those who are there answer a call within this.
const ANSWERS: Duration = Duration::from_secs(2);
/// As many as were asked for are waited for so long: a lease longer than it takes to start a machine's program.
const AWAITED: Duration = Duration::from_secs(20);

/// An agent by the name that results show it under, or why it could not be had.
pub type Reached = (String, Result<Agent, HostError>);

/// Finds the agents of a fleet and reaches `count` of those that wait, or, without a count, all that are there.
///
/// # Errors
/// [`BrokerError`] when the broker cannot be had, or when too few are there.
pub fn gather(
    access: &Access,
    count: Option<usize>,
    own: &Program,
) -> Result<Vec<Reached>, BrokerError> {
    let run = super::unguessable(access)?;
    let lanes = Arc::new(Lanes::default());
    let (cards, answers) = mpsc::channel();
    let take = {
        let (lanes, access) = (Arc::clone(&lanes), access.clone());
        move |came| lanes.take(&access, came, &cards)
    };
    let place = &access.place;
    let broker = Broker::connect(access, vec![place.up(&run, "*")], Arc::new(take))?;
    let found = find(access, &broker.publisher(), &run, count, &answers)?;
    let broker = Arc::new(broker);
    let agents = each(&found, |(id, host)| {
        let lane = lanes.open(&broker, &place.down(&run, id), id);
        meet(host, lane, own)
    });
    let hosts = found.into_iter().map(|(_, host)| host);
    Ok(hosts.zip(agents).collect())
}

/// Calls until there are enough; ids and names of those that are wanted.
fn find(
    access: &Access,
    publisher: &Publisher,
    run: &str,
    count: Option<usize>,
    answers: &mpsc::Receiver<Found>,
) -> Result<Vec<(String, String)>, BrokerError> {
    let patience = count.map_or(ANSWERS, |_| AWAITED);
    let mut found = BTreeMap::new();
    let since = Instant::now();
    let mut called: Option<Instant> = None;
    let waiting = |found: &BTreeMap<String, Card>| {
        found.values().filter(|card| card.serves.is_none()).count()
    };
    while since.elapsed() < patience && count.is_none_or(|count| waiting(&found) < count) {
        if called.is_none_or(|at| at.elapsed() >= BEAT) {
            let run = run.to_owned();
            publisher.publish(&access.place.call(), note(&Call { run }));
            called = Some(Instant::now());
        }
        match answers.recv_timeout(BEAT / 10) {
            Ok(Ok((id, card))) => drop(found.insert(id, card)),
            Ok(Err(why)) => return Err(access.refused(why, super::PERMIT)),
            Err(_) => {}
        }
    }
    if let Some(error) = too_few(access, &found, waiting(&found), count) {
        return Err(error);
    }
    let mut named = named(found);
    if let Some(count) = count {
        named.retain(|(_, _, card)| card.serves.is_none());
        named.truncate(count);
    }
    Ok(named.into_iter().map(|(id, name, _)| (id, name)).collect())
}

/// By their names, which are told apart by their ids where several hosts have one.
fn named(found: BTreeMap<String, Card>) -> Vec<(String, String, Card)> {
    let mut hosts: BTreeMap<String, usize> = BTreeMap::new();
    for card in found.values() {
        *hosts.entry(card.host.clone()).or_default() += 1;
    }
    let name = |(id, card): (String, Card)| {
        let end = id.floor_char_boundary(6);
        let name = match hosts[&card.host] {
            1 => card.host.clone(),
            _ => format!("{}-{}", card.host, &id[..end]),
        };
        (id, name, card)
    };
    let mut named: Vec<_> = found.into_iter().map(name).collect();
    named.sort_by(|one, other| one.1.cmp(&other.1));
    named
}

fn too_few(
    access: &Access,
    found: &BTreeMap<String, Card>,
    waiting: usize,
    count: Option<usize>,
) -> Option<BrokerError> {
    let place = &access.place;
    if found.is_empty() {
        let remedy = format!("start agents: prony agent --fleet {place}");
        let what = format!("has nobody in fleet {}", place.fleet);
        return Some(access.refused(what, &remedy));
    }
    let count = count.filter(|count| waiting < *count)?;
    let busy = found.values().find_map(|card| card.serves.as_ref());
    let busy = busy.map_or_else(String::new, |serves| {
        let rest = found.len() - waiting;
        format!("; {rest} more are busy: {}", serves.words())
    });
    let what = format!(
        "has {waiting} agents that wait in fleet {}, and {count} were asked for{busy}",
        place.fleet
    );
    let remedy = match waiting {
        0 => "start more, or wait for the end of the other load".to_owned(),
        _ => format!("start more, or ask for fewer with --agents {waiting}"),
    };
    Some(access.refused(what, &remedy))
}

/// Has an agent say who it is.
fn meet(
    host: &str,
    lane: io::Result<(Incoming, Outgoing)>,
    own: &Program,
) -> Result<Agent, HostError> {
    // That it is busy may be known before, or after, the first word to it.
    let refused = |what: String| HostError {
        host: host.to_owned(),
        remedy: match what.starts_with("it has served") {
            true => "wait for the end of that load, or take those that wait: --agents N",
            false => "look at what its agent printed",
        }
        .to_owned(),
        what,
    };
    let begun = lane.and_then(|(from, to)| Link::over(host, from, Box::new(to), || ()));
    let link = begun.map_err(|e| refused(e.to_string()))?;
    let hello = match link.came.recv_timeout(FIRST_WORD) {
        Ok((_, Ok(Some(Message::Hello(hello))))) => hello,
        Ok((_, Err(error))) => return Err(refused(error.to_string())),
        Ok((_, Ok(other))) => {
            let what = format!("it did not say who it is first, but {other:?}");
            return Err(refused(what));
        }
        Err(_) => {
            let what = format!("no word in {} s", FIRST_WORD.as_secs());
            return Err(refused(what));
        }
    };
    let remedy = "install the same on both: a fleet is given no copy";
    check(host, own, &hello, remedy)?;
    Agent::met(host.to_owned(), None, link, hello)
}

/// An answer to a call, or why there is none any more.
type Found = Result<(String, Card), String>;

/// The agents that were reached, by their ids.
#[derive(Default)]
struct Lanes(Mutex<BTreeMap<String, Lane>>);

struct Lane {
    stream: Arc<Stream>,
    /// To whoever reads; `None` once nothing more comes.
    to: Option<mpsc::Sender<Result<Vec<u8>, String>>>,
}

impl Lanes {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Lane>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers our run to an agent; what it will say, and what it will hear.
    fn open(&self, broker: &Arc<Broker>, down: &str, id: &str) -> io::Result<(Incoming, Outgoing)> {
        let publisher = broker.publisher();
        let publish = {
            let (publisher, down) = (publisher.clone(), down.to_owned());
            Box::new(move |message| publisher.publish(&down, message))
        };
        let stream = Arc::new(Stream::new(publish, broker.max_payload));
        let (to, came) = mpsc::channel();
        let lane = Lane {
            stream: Arc::clone(&stream),
            to: Some(to),
        };
        self.all().insert(id.to_owned(), lane);
        // Not before there is who hears the answer, which may come at once.
        let offer = Offer { from: hostname() };
        publisher.publish(down, note(&offer));
        let incoming = Incoming {
            stream: Arc::clone(&stream),
            came,
            part: Vec::new(),
            read: 0,
        };
        let outgoing = Outgoing {
            stream,
            frame: Vec::new(),
            _broker: Arc::clone(broker),
        };
        Ok((incoming, outgoing))
    }

    /// What comes of the connection, on its thread.
    fn take(&self, access: &Access, came: Came, cards: &mpsc::Sender<Found>) {
        let mut lanes = self.all();
        let (subject, payload) = match came {
            Came::Said { subject, payload } => (subject, payload),
            Came::Gone(why) => {
                for lane in lanes.values_mut() {
                    lane.end(access.gone(&why));
                }
                // Nobody listens once all were found.
                let _ = cards.send(Err(why));
                return;
            }
        };
        let Some((_, id)) = run_and_agent(&subject) else {
            return;
        };
        match (noted::<Answer>(&payload), lanes.get_mut(id)) {
            (Some(Answer::Here(mut card)), None) => {
                card.host = shown(&card.host);
                let _ = cards.send(Ok((id.to_owned(), card)));
            }
            (Some(Answer::Busy(serves)), Some(lane)) => lane.end(serves.words()),
            (None, Some(lane)) => lane.hear(&payload),
            // An answer that comes late.
            (Some(_), _) | (None, None) => {}
        }
    }
}

impl Lane {
    fn hear(&mut self, payload: &[u8]) {
        match self.stream.hear(payload) {
            Ok(Part::Bytes(bytes)) => {
                if let Some(to) = self.to.as_ref().filter(|_| !bytes.is_empty()) {
                    // Nobody reads on when the conversation has ended.
                    let _ = to.send(Ok(bytes));
                }
            }
            Ok(Part::End(why)) => self.end(shown(&why)),
            Err(fault) => self.end(fault),
        }
    }

    /// Nothing more comes; without a reason as at the end of a pipe.
    fn end(&mut self, why: String) {
        self.stream.close(&why);
        if let Some(to) = self.to.take().filter(|_| !why.is_empty()) {
            let _ = to.send(Err(why));
        }
    }
}

/// What an agent says.
struct Incoming {
    stream: Arc<Stream>,
    came: mpsc::Receiver<Result<Vec<u8>, String>>,
    part: Vec<u8>,
    /// Of `part`.
    read: usize,
}

impl Read for Incoming {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.read == self.part.len() {
            self.part = match self.came.recv() {
                Ok(Ok(part)) => part,
                Ok(Err(why)) => return Err(io::Error::other(why)),
                Err(_) => return Ok(0),
            };
            self.read = 0;
            self.stream.took(self.part.len());
        }
        let n = to.len().min(self.part.len() - self.read);
        to[..n].copy_from_slice(&self.part[self.read..self.read + n]);
        self.read += n;
        Ok(n)
    }
}

/// What an agent hears: a frame is a message, where it fits into one.
struct Outgoing {
    stream: Arc<Stream>,
    frame: Vec<u8>,
    /// Ended with the last of them.
    _broker: Arc<Broker>,
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.frame.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let frame = std::mem::take(&mut self.frame);
        self.stream.send(&frame)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.stream.end("");
    }
}
