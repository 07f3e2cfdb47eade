//! What another host's prony asks an agent for: a part of a load, driven as a load of our own and told on as it goes,
//! and targets (see [`super::hosted`]).

use super::drive::{Driven, Instrumentation, UnderWay, drive_any};
use super::hosted::Hosted;
use crate::exit::Failure;
use crate::terminal::Progress;
use crate::verbs;
use agent::message::{Message, Slice};
use agent::{Done, Gate, Generator, MakeTargets, Prepare, Refusal};
use record::{Interval, LoadOutcome, LoadSpec, Nanos};
use std::path::Path;
use std::time::{Duration, Instant};
use traffic::{Load, Running};

/// Slices are told so often.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Between two looks at what the load or the conductor is doing.
const LOOK: Duration = Duration::from_millis(1);

/// Loads of this process.
pub struct Loads;

impl Generator for Loads {
    fn carry(
        &self,
        asked: &Prepare,
        files: &Path,
        gate: &Gate,
        tell: &mut dyn FnMut(Message),
    ) -> Result<Done, Refusal> {
        let spec = here(asked, files)?;
        let load = Load::prepare_part(&spec, Some(asked.part));
        let load = load.map_err(|e| refusal(&verbs::load_failure(&e)))?;
        let address = load.address();
        let mut progress = Progress::silent();
        let Driven {
            outcome, watched, ..
        } = drive_any(
            address,
            || start(load, gate, tell),
            &spec,
            &Instrumentation::watching(Vec::new()),
            &mut progress,
            &mut || gate.is_stopped(),
        )?;
        Ok(Done {
            outcome,
            series: watched.series,
            unavailable: watched.unavailable,
        })
    }

    fn targets(&self) -> Box<MakeTargets> {
        Box::new(|| Ok(Box::new(Hosted::open()?)))
    }
}

pub(super) fn refusal(failure: &Failure) -> Refusal {
    Refusal {
        what: failure.message.clone(),
        remedy: failure.remedy.clone(),
        exit: failure.exit.code(),
    }
}

/// The load that was asked for, with its files where they are on this host. A name that is none of a sent file's could
/// be any file of this host's, whose content would go to the server.
fn here(asked: &Prepare, files: &Path) -> Result<LoadSpec, Refusal> {
    let mut spec = asked.spec.clone();
    spec.timetable.clone_from(&asked.timetable);
    spec.proxy_user.clone_from(&asked.proxy_user);
    for name in spec.files_mut() {
        let is_hash = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let file = files.join(&*name);
        if !is_hash || !file.is_file() {
            return Err(Refusal {
                what: format!("the load names the file `{name}`, which was not sent"),
                remedy: "name files of the host on which prony was started".to_owned(),
                exit: 2,
            });
        }
        *name = file.display().to_string();
    }
    Ok(spec)
}

/// Opens the connections, says so, and begins when the conductor says when.
fn start<'a>(
    load: Load,
    gate: &'a Gate,
    tell: &'a mut dyn FnMut(Message),
) -> Result<Told<'a>, Refusal> {
    let running = load.start_held();
    let running = running.map_err(|e| refusal(&verbs::load_failure(&e)))?;
    let stopped = || Refusal {
        what: "it was stopped before its start".to_owned(),
        remedy: String::new(),
        exit: 3,
    };
    while !running.is_ready() {
        if gate.is_stopped() {
            return Err(stopped());
        }
        std::thread::sleep(LOOK);
    }
    tell(Message::Ready);
    let at = gate.start_at().ok_or_else(stopped)?;
    running.begin_at(at);
    Ok(Told {
        running,
        gate,
        tell,
        start: at,
        slices: Vec::new(),
        told_at: Instant::now(),
    })
}

/// A load whose slices are told on.
struct Told<'a> {
    running: Running,
    gate: &'a Gate,
    tell: &'a mut dyn FnMut(Message),
    /// Of the load, by our clock.
    start: Nanos,
    slices: Vec<Slice>,
    told_at: Instant,
}

impl Told<'_> {
    fn hand_on(&mut self) {
        if !self.slices.is_empty() {
            (self.tell)(Message::Slices(std::mem::take(&mut self.slices)));
        }
        self.told_at = Instant::now();
    }
}

impl UnderWay for Told<'_> {
    type Outcome = LoadOutcome;

    fn next_interval(&mut self) -> Option<Interval> {
        // The conductor watches the server, and says whether it is full.
        self.running.set_server_full(self.gate.is_server_full());
        let Some(interval) = UnderWay::next_interval(&mut self.running) else {
            self.hand_on();
            return None;
        };
        let since = |at: Nanos| at.since(self.start);
        self.slices.push(Slice {
            interval: Interval {
                from: since(interval.from),
                to: since(interval.to),
                ..interval
            },
            response: self.running.slice_response().to_base64(),
        });
        if self.told_at.elapsed() >= TELL_EVERY {
            self.hand_on();
        }
        Some(interval)
    }

    fn stop(&mut self) {
        UnderWay::stop(&mut self.running);
    }

    fn set_server_full(&mut self, _: bool) {
        // What is seen from here is not the server's host.
    }

    fn finish(self) -> LoadOutcome {
        self.running.finish()
    }
}
