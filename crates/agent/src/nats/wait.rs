//! The agent's side: it waits in a fleet, and serves one conductor after another, each by a `prony agent` of its own,
//! between whose pipes and the broker it carries bytes. So what holds of an agent behind ssh holds here, and what is
//! left of a run ends with its process.

use super::broker::{Broker, Came, Publisher};
use super::stream::{PART, Part, Stream};
use super::{
    Access, Answer, BrokerError, Call, Card, Offer, Serves, hostname, is_run, note, noted,
    run_and_agent, shown,
};
use crate::carrier::Carrier;
use std::io::{self, Read, Write};
use std::process::{ChildStdin, ChildStdout, Command};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Between two looks at whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// A broker that is gone is looked for so often at first, and at last.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(8);

/// What an agent that waits has to tell.
#[derive(Debug)]
pub enum Told<'a> {
    /// It is in the fleet.
    Waits,
    /// It serves a conductor on this host.
    Serves(&'a str),
    /// It serves it no more; its last words, if any.
    Served(&'a str),
    /// It is not in the fleet any more, and will try to be.
    Lost(&'a str),
}

/// Waits in a fleet until it is told to end. `command` starts an agent on its standard streams.
///
/// # Errors
/// [`BrokerError`] when the broker cannot be had at first, or does not let it in later.
pub fn wait(
    access: &Access,
    command: &dyn Fn() -> Command,
    tell: &mut dyn FnMut(Told),
    is_over: &dyn Fn() -> bool,
) -> Result<(), BrokerError> {
    let mut again = None;
    while !is_over() {
        let lost = match Session::begin(access) {
            Ok(mut session) => {
                tell(Told::Waits);
                again = Some(AGAIN);
                match session.serve(command, tell, is_over) {
                    None => return Ok(()),
                    Some(why) => {
                        session.leave(&access.gone(&why), tell);
                        if why.contains("ermission") {
                            return Err(access.refused(why, super::PERMIT));
                        }
                        access.gone(&why)
                    }
                }
            }
            Err(error) if again.is_none() || error.is_final => return Err(error),
            Err(error) => error.to_string(),
        };
        tell(Told::Lost(&lost));
        let pause = again.unwrap_or(AGAIN);
        again = Some((pause * 2).min(AGAIN_MAX));
        let since = Instant::now();
        while since.elapsed() < pause && !is_over() {
            std::thread::sleep(LOOK);
        }
    }
    Ok(())
}

enum Event {
    Came(Came),
    /// The agent of this run has closed its output, or nobody takes what it says.
    Ended {
        run: String,
        why: String,
    },
}

/// One connection to the broker.
struct Session<'a> {
    access: &'a Access,
    id: String,
    broker: Broker,
    publisher: Publisher,
    events: mpsc::Sender<Event>,
    queue: mpsc::Receiver<Event>,
    work: Option<Work>,
}

/// A conductor that is served.
struct Work {
    run: String,
    from: String,
    since: Instant,
    stream: Arc<Stream>,
    agent: Carrier,
    /// To the agent's input, which closes with it.
    to: mpsc::Sender<Vec<u8>>,
}

impl<'a> Session<'a> {
    fn begin(access: &'a Access) -> Result<Self, BrokerError> {
        let id = super::unguessable(access)?;
        let (events, queue) = mpsc::channel();
        let take = {
            let events = events.clone();
            // Nobody listens when the agent is ending.
            move |came| drop(events.send(Event::Came(came)))
        };
        let place = &access.place;
        let subjects = vec![place.call(), place.down("*", &id)];
        let broker = Broker::connect(access, subjects, Arc::new(take))?;
        Ok(Self {
            access,
            id,
            publisher: broker.publisher(),
            broker,
            events,
            queue,
            work: None,
        })
    }

    /// Until it is told to end; why it ended otherwise.
    fn serve(
        &mut self,
        command: &dyn Fn() -> Command,
        tell: &mut dyn FnMut(Told),
        is_over: &dyn Fn() -> bool,
    ) -> Option<String> {
        loop {
            match self.queue.recv_timeout(LOOK) {
                Ok(Event::Came(Came::Said { subject, payload })) => {
                    self.hear(&subject, &payload, command, tell);
                }
                Ok(Event::Came(Came::Gone(why))) => return Some(why),
                Ok(Event::Ended { run, why }) => {
                    if self.work.as_ref().is_some_and(|work| work.run == run) {
                        self.leave(&why, tell);
                    }
                }
                Err(_) if is_over() => {
                    self.leave("its agent was told to end", tell);
                    return None;
                }
                Err(_) => {}
            }
        }
    }

    fn hear(
        &mut self,
        subject: &str,
        payload: &[u8],
        command: &dyn Fn() -> Command,
        tell: &mut dyn FnMut(Told),
    ) {
        if let Some(Call { run }) = noted(payload).filter(|_| subject == self.access.place.call()) {
            let serves = self.work.as_ref().map(Work::serves);
            let host = hostname();
            self.answer(&run, &Answer::Here(Card { host, serves }));
            return;
        }
        let Some((run, _)) = run_and_agent(subject) else {
            return;
        };
        match (&self.work, noted::<Offer>(payload)) {
            // What is said to a run that is over, or to none, does nothing.
            (Some(work), None) if work.run == run => match work.hear(payload) {
                Ok(()) => {}
                Err(why) => self.leave(&why, tell),
            },
            (Some(work), Some(_)) if work.run != run => {
                self.answer(run, &Answer::Busy(work.serves()));
            }
            (None, Some(offer)) if is_run(run) => match self.begin_work(run, &offer, command()) {
                Ok(work) => {
                    tell(Told::Serves(&work.from));
                    self.work = Some(work);
                }
                // The conductor hears no word, and says so.
                Err(e) => tell(Told::Served(&format!("starting an agent: {e}"))),
            },
            _ => {}
        }
    }

    fn answer(&self, run: &str, answer: &Answer) {
        if is_run(run) {
            let up = self.access.place.up(run, &self.id);
            self.publisher.publish(&up, note(answer));
        }
    }

    fn begin_work(&self, run: &str, offer: &Offer, command: Command) -> io::Result<Work> {
        let up = self.access.place.up(run, &self.id);
        let publisher = self.publisher.clone();
        let publish = Box::new(move |message| publisher.publish(&up, message));
        let stream = Arc::new(Stream::new(publish, self.broker.max_payload));
        let (agent, from, input) = Carrier::start(command)?;
        let (to, parts) = mpsc::channel();
        let speaks = {
            let (stream, events, run) = (Arc::clone(&stream), self.events.clone(), run.to_owned());
            move || {
                let why =
                    carry_up(from, &stream).map_or_else(|e| e.to_string(), |()| String::new());
                let _ = events.send(Event::Ended { run, why });
            }
        };
        let hears = {
            let stream = Arc::clone(&stream);
            move || carry_down(input, &parts, &stream)
        };
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("up").spawn(speaks)?;
        thread("down").spawn(hears)?;
        Ok(Work {
            run: run.to_owned(),
            from: shown(&offer.from),
            since: Instant::now(),
            stream,
            agent,
            to,
        })
    }

    /// Ends the run under way, with its load.
    fn leave(&mut self, why: &str, tell: &mut dyn FnMut(Told)) {
        let Some(work) = self.work.take() else {
            return;
        };
        let Work {
            stream, agent, to, ..
        } = work;
        // Its input closes, and then it ends.
        drop(to);
        if !why.is_empty() {
            stream.end(why);
        }
        let words = agent.end(None);
        stream.end(&words);
        tell(Told::Served(if why.is_empty() { &words } else { why }));
    }
}

impl Work {
    fn serves(&self) -> Serves {
        Serves {
            from: self.from.clone(),
            for_s: self.since.elapsed().as_secs(),
        }
    }

    fn hear(&self, payload: &[u8]) -> Result<(), String> {
        match self.stream.hear(payload)? {
            Part::Bytes(bytes) => {
                // An agent that has ended takes nothing, and is found to have.
                let _ = self.to.send(bytes);
                Ok(())
            }
            Part::End(why) => Err(why),
        }
    }
}

/// What the agent says, to the broker.
fn carry_up(mut from: ChildStdout, stream: &Stream) -> io::Result<()> {
    let mut part = vec![0; PART];
    while let Ok(n @ 1..) = from.read(&mut part) {
        stream.send(&part[..n])?;
    }
    Ok(())
}

/// What came from the broker, to the agent.
fn carry_down(mut to: ChildStdin, parts: &mpsc::Receiver<Vec<u8>>, stream: &Stream) {
    for part in parts {
        if to.write_all(&part).is_err() {
            return;
        }
        stream.took(part.len());
    }
}
