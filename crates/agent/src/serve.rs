//! The agent's side: it does what the conductor asks for, one load after another and targets beside them, for as long
//! as it hears of it.

use crate::frame::FrameError;
use crate::link::{Came, Heard, Voice, listen};
use crate::message::{
    ClockTimes, Done, File, Hello, Message, Prepare, Refusal, Right, Side, Stored,
};
use crate::targets::{Hosting, MakeTargets};
use crate::{BEAT, LEASE};
use linux::clock::monotonic_ns;
use record::Nanos;
use sha2::{Digest, Sha256};
use std::any::Any;
use std::io::{self, Read, Write};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// As much as files of one conductor may take.
const FILES_MAX: u64 = 1 << 30;
/// A load that was told to stop is waited for so long.
const STOPPING: Duration = Duration::from_secs(3);

/// What makes loads.
pub trait Generator: Send + Sync {
    /// Opens the connections of a load, tells [`Message::Ready`], waits at the gate for the time of the start, and
    /// carries the load to its end or to the gate's stop, telling [`Message::Slices`]; `files` is where its files are.
    ///
    /// # Errors
    /// [`Refusal`] when the load cannot start.
    fn carry(
        &self,
        asked: &Prepare,
        files: &Path,
        gate: &Gate,
        tell: &mut dyn FnMut(Message),
    ) -> Result<Done, Refusal>;

    /// What makes that which runs targets on this host.
    fn targets(&self) -> Box<MakeTargets> {
        Box::new(|| {
            Err(Refusal {
                what: "this agent runs no targets".to_owned(),
                remedy: String::new(),
                exit: 4,
            })
        })
    }

    /// Takes a file of the record that the conductor was started for.
    ///
    /// # Errors
    /// Words for a file that nobody waits for, or that cannot be kept.
    fn keep(&self, stored: &Stored) -> Result<(), String> {
        Err(format!("nobody waits for {}", stored.path))
    }

    /// A person wants the end of what the conductor was started for.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// What the conductor says to a load under way.
#[derive(Debug, Default)]
pub struct Gate {
    start: Mutex<Option<Nanos>>,
    told: Condvar,
    stop: AtomicBool,
    server_full: AtomicBool,
}

impl Gate {
    /// Waits for the time of the start, by the agent's clock; `None` when the load is to end instead.
    pub fn start_at(&self) -> Option<Nanos> {
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |start: &mut Option<Nanos>| start.is_none() && !self.is_stopped();
        let start = self.told.wait_while(start, waits);
        let start = *start.unwrap_or_else(PoisonError::into_inner);
        start.filter(|_| !self.is_stopped())
    }

    fn begin_at(&self, at: Nanos) {
        *self.start.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        self.told.notify_all();
    }

    fn end(&self) {
        // Under the lock, or a waiter that has just looked would miss it.
        let _start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.store(true, SeqCst);
        self.told.notify_all();
    }

    /// The load is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(SeqCst)
    }

    /// The server is seen to be full.
    pub fn is_server_full(&self) -> bool {
        self.server_full.load(SeqCst)
    }
}

/// Why an agent ended otherwise than by a farewell.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The stream to or from the conductor.
    #[error("the conductor is gone: {0}")]
    Stream(#[from] FrameError),
    /// The same, when speaking.
    #[error("the conductor is gone: {0}")]
    Speech(#[from] io::Error),
    /// Nothing came for [`LEASE`].
    #[error("the conductor was silent for {} s", LEASE.as_secs())]
    Silent,
    /// A file of the record that it sent.
    #[error("keeping the record: {0}")]
    Record(String),
    /// It said what a conductor does not.
    #[error("the conductor said {0} at a wrong time")]
    Protocol(String),
}

enum Event {
    Came(Came),
    /// By the load.
    Told(Message),
    /// By the targets.
    Said(Message),
}

/// A load under way.
struct Work {
    gate: Arc<Gate>,
    thread: JoinHandle<()>,
}

struct Server<'a> {
    voice: Voice,
    hello: &'a Hello,
    generator: Arc<dyn Generator>,
    files: &'a Path,
    files_bytes: u64,
    events: mpsc::Sender<Event>,
    work: Option<Work>,
    heard: Heard,
    hosting: Option<Hosting>,
    has_interrupted: bool,
}

/// Serves one conductor until it says farewell. Files that it sends are kept below `files`, which is the agent's own.
///
/// A conductor that is stopped reads nothing, and whoever speaks to it hangs in a full pipe. So `give_up` is called by
/// another thread when the lease is over and this one has not returned: it has to end the process, with the load.
///
/// # Errors
/// [`ServeError`] when the conductor is gone, silent or talks nonsense; the load has then been stopped.
pub fn serve(
    input: impl Read + Send + 'static,
    output: Box<dyn Write + Send>,
    hello: &Hello,
    files: &Path,
    generator: Arc<dyn Generator>,
    give_up: impl FnOnce() + Send + 'static,
) -> Result<(), ServeError> {
    let (events, queue) = mpsc::channel();
    let voice = Voice::begin(output)?;
    voice.say(&Message::Hello(hello.clone()))?;
    let from = events.clone();
    let heard = listen("conductor", Side::Conductor, input, move |came| {
        from.send(Event::Came(came)).is_ok()
    })?;
    let _guard = guard(heard.clone(), give_up)?;
    let mut server = Server {
        voice,
        hello,
        generator,
        files,
        files_bytes: 0,
        events,
        work: None,
        heard: heard.clone(),
        hosting: None,
        has_interrupted: false,
    };
    let mut beaten = Instant::now();
    let ended = loop {
        match queue.recv_timeout(BEAT.saturating_sub(beaten.elapsed())) {
            Ok(Event::Came((at, came))) => match server.hear(at, came) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            },
            Ok(Event::Told(message)) => {
                if let Err(error) = server.tell(&message) {
                    break Err(error.into());
                }
            }
            Ok(Event::Said(message)) => {
                if let Err(error) = server.voice.say(&message) {
                    break Err(error.into());
                }
            }
            Err(_) => {
                beaten = Instant::now();
                if let Err(error) = server.voice.say(&Message::Beat) {
                    break Err(error.into());
                }
            }
        }
        if heard.silence() > LEASE {
            break Err(ServeError::Silent);
        }
        if !server.has_interrupted && server.generator.is_interrupted() {
            server.has_interrupted = true;
            if let Err(error) = server.voice.say(&Message::Interrupt) {
                break Err(error.into());
            }
        }
    };
    server.stop();
    match ended {
        Err(ServeError::Speech(_)) if says_farewell(&queue) => Ok(()),
        Ok(()) => {
            // A conductor that has said its farewell need not wait for this one.
            let _ = server.voice.end();
            Ok(())
        }
        lost => lost,
    }
}

/// Calls `give_up` when the conductor was silent for longer than the thread that speaks to it would wait, unless what
/// is returned is dropped before.
fn guard(heard: Heard, give_up: impl FnOnce() + Send + 'static) -> io::Result<mpsc::Sender<()>> {
    let (alive, ended) = mpsc::channel::<()>();
    let watch = move || {
        while ended.recv_timeout(BEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
            if heard.silence() > LEASE + STOPPING {
                give_up();
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("lease".to_owned())
        .spawn(watch)?;
    Ok(alive)
}

/// The conductor listened no more because it has ended in order: its farewell is on the way.
fn says_farewell(queue: &mpsc::Receiver<Event>) -> bool {
    let since = Instant::now();
    while let Some(left) = BEAT.checked_sub(since.elapsed()) {
        match queue.recv_timeout(left) {
            Ok(Event::Came((_, Ok(None)))) => return true,
            Ok(Event::Came((_, Err(_)))) | Err(_) => return false,
            Ok(_) => {}
        }
    }
    false
}

impl Server<'_> {
    /// Does what the conductor says; false after its farewell.
    fn hear(
        &mut self,
        at: Nanos,
        came: Result<Option<Message>, FrameError>,
    ) -> Result<bool, ServeError> {
        let Some(message) = came? else {
            return Ok(false);
        };
        match message {
            Message::Beat => {}
            Message::ClockAsk { asked } => {
                let times = ClockTimes {
                    asked,
                    received: at,
                    answered: Nanos(monotonic_ns()),
                };
                self.voice.say(&Message::ClockAnswer(times))?;
            }
            Message::File(file) => self.keep(&file)?,
            Message::Prepare(asked) => self.prepare(*asked)?,
            Message::Start { at: start } => self.start(start)?,
            Message::Stop => {
                self.told(Gate::end);
                self.hosting.iter().for_each(Hosting::cancel);
            }
            Message::ServerFull { is_full } => {
                self.told(|gate| gate.server_full.store(is_full, SeqCst));
            }
            Message::CheckTarget(_)
            | Message::StartTarget(_)
            | Message::Watch(_)
            | Message::EndWatch
            | Message::StopTarget { .. } => self.host(message)?,
            Message::Stored(stored) => {
                let kept = self.generator.keep(&stored);
                kept.map_err(ServeError::Record)?;
            }
            // No conductor's, and not read; here for who adds a kind.
            other => return Err(ServeError::Protocol(format!("{:?}", other.kind()))),
        }
        Ok(true)
    }

    /// A word to the load under way; without one it is late, and of no harm.
    fn told(&self, word: impl Fn(&Gate)) {
        if let Some(work) = &self.work {
            word(&work.gate);
        }
    }

    fn keep(&mut self, file: &File) -> io::Result<()> {
        let hash = hash(&file.content);
        self.files_bytes += file.content.len() as u64;
        if hash != file.hash || self.files_bytes > FILES_MAX {
            let what = if hash == file.hash {
                format!("the files of this load are more than {FILES_MAX} bytes")
            } else {
                "a file came otherwise than it was sent".to_owned()
            };
            return self.refuse(&what, "send less, or put the files into smaller ones", 4);
        }
        match std::fs::write(self.files.join(&hash), &file.content) {
            Ok(()) => Ok(()),
            Err(e) => self.refuse(
                &format!(
                    "writing a file of the load below {}: {e}",
                    self.files.display()
                ),
                "make room there, or set TMPDIR on that host",
                4,
            ),
        }
    }

    fn refuse(&self, what: &str, remedy: &str, exit: u8) -> io::Result<()> {
        self.voice.say(&Message::Refused(Refusal {
            what: what.to_owned(),
            remedy: remedy.to_owned(),
            exit,
        }))
    }

    fn prepare(&mut self, asked: Prepare) -> Result<(), ServeError> {
        if self.work.is_some() {
            return Err(ServeError::Protocol("Prepare".to_owned()));
        }
        if !self.hello.rights.contains(&Right::Load) {
            let remedy = "start it with --allow load";
            return Ok(self.refuse("this agent may not send a load", remedy, 4)?);
        }
        let gate = Arc::new(Gate::default());
        let (generator, at) = (Arc::clone(&self.generator), Arc::clone(&gate));
        let (events, files) = (self.events.clone(), self.files.to_owned());
        let carry = move || {
            let tell = |message| {
                // Nobody listens when the agent is ending.
                let _ = events.send(Event::Told(message));
            };
            let carry = || generator.carry(&asked, &files, &at, &mut { tell });
            // The conductor waits for the end, whatever it is.
            let ended = std::panic::catch_unwind(AssertUnwindSafe(carry));
            tell(match ended {
                Ok(Ok(done)) => Message::Done(Box::new(done)),
                Ok(Err(refusal)) => Message::Refused(refusal),
                Err(panic) => Message::Refused(Refusal {
                    what: format!(
                        "the load ended by a fault of prony's: {}",
                        words_of(&*panic)
                    ),
                    remedy: "report it, with the command that made it".to_owned(),
                    exit: 3,
                }),
            });
        };
        let thread = std::thread::Builder::new().name("load".to_owned());
        let thread = thread.spawn(carry)?;
        self.work = Some(Work { gate, thread });
        Ok(())
    }

    /// Hands a word about targets to their thread, which answers it.
    fn host(&mut self, word: Message) -> io::Result<()> {
        if !self.hello.rights.contains(&Right::Target) {
            let remedy = "start it with --allow load,target";
            return self.refuse("this agent may not run targets", remedy, 4);
        }
        if self.hosting.is_none() {
            let events = self.events.clone();
            let tell = move |message| {
                // Nobody listens when the agent is ending.
                let _ = events.send(Event::Said(message));
            };
            let make = self.generator.targets();
            let hosting = Hosting::begin(make, self.files, self.heard.clone(), tell)?;
            self.hosting = Some(hosting);
        }
        if let Some(hosting) = &self.hosting {
            hosting.hear(word);
        }
        Ok(())
    }

    /// A start that has passed is refused: the others are under way already.
    fn start(&mut self, at: Nanos) -> io::Result<()> {
        let now = monotonic_ns();
        if at.0 > now {
            self.told(|gate| gate.begin_at(at));
            return Ok(());
        }
        self.told(Gate::end);
        let late = Nanos(now - at.0);
        self.refuse(
            &format!("the word to start came {late} after the time of the start"),
            "repeat it; if it happens again, look for what delays the connection to this host",
            3,
        )
    }

    /// Hands on what the load tells.
    fn tell(&mut self, message: &Message) -> io::Result<()> {
        let is_last = matches!(message, Message::Done(_) | Message::Refused(_));
        if is_last && let Some(work) = self.work.take() {
            // It has told its last.
            let _ = work.thread.join();
        }
        self.voice.say(message)
    }

    /// Ends the load under way, whose outcome nobody waits for, and then the targets.
    fn stop(&mut self) {
        self.stop_load();
        self.hosting = None;
    }

    fn stop_load(&mut self) {
        let Some(work) = self.work.take() else {
            return;
        };
        work.gate.end();
        let since = Instant::now();
        while !work.thread.is_finished() && since.elapsed() < STOPPING {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What a panic said.
pub(crate) fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let owned = || panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(owned).unwrap_or("it does not say which")
}

/// The name of a content.
pub(crate) fn hash(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
