//! Targets on the agent's side: one thread starts, watches and stops them, for as long as the conductor is heard of.
//!
//! It is a thread of its own because a target ends with the thread that started it, and because it must see the end of
//! the lease while the thread that speaks to the conductor hangs in a pipe that nobody reads.

use crate::LEASE;
use crate::link::Heard;
use crate::message::{Kind, Message, Refusal, Seen, StartTarget, Started, Stopped, WatchAsked};
use plan::{FileContent, TargetSpec};
use record::Unavailable;
use std::any::Any;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a message has beside its content, bytes, with what is said of thinned samples.
const ENVELOPE: usize = 1 << 10;
/// Between two looks at whether the targets live.
const LOOK: Duration = Duration::from_millis(50);

/// What runs targets on a host. Dropping it stops them.
pub trait Targets {
    /// What the target needs and this host does not have.
    fn lack(&mut self, spec: &TargetSpec) -> Option<Refusal>;

    /// Starts a target and waits until it is ready; `interrupted` is asked meanwhile.
    ///
    /// # Errors
    /// [`Refusal`] when it cannot be started; nothing is left running then.
    fn start(
        &mut self,
        asked: &StartTarget,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Started, Refusal>;

    /// Targets that have ended by themselves since it was last asked: name, and how.
    fn died(&mut self) -> Vec<(String, String)>;

    /// Takes the first sample of the host and its targets, and begins to take others.
    fn watch(&mut self, asked: WatchAsked);

    /// Takes the last sample.
    fn end_watch(&mut self) -> Seen;

    /// Stops a target. One that is not there has nothing to stop.
    fn stop(&mut self, target: &str) -> Stopped;
}

/// Makes what runs targets, in the thread that they live with.
pub type MakeTargets = dyn FnOnce() -> Result<Box<dyn Targets>, Refusal> + Send;

/// The thread of the targets.
pub(crate) struct Hosting {
    /// Dropped to end it.
    words: Option<mpsc::Sender<Message>>,
    /// A start is given up.
    cancelled: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hosting {
    /// Begins; `tell` takes what is to be said to the conductor.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn begin(
        make: Box<MakeTargets>,
        files: &Path,
        heard: Heard,
        tell: impl Fn(Message) + Send + 'static,
    ) -> io::Result<Self> {
        let (words, came) = mpsc::channel();
        let cancelled = Arc::new(AtomicBool::new(false));
        let host = Host {
            files: files.to_owned(),
            cancelled: Arc::clone(&cancelled),
            heard,
        };
        let thread = std::thread::Builder::new()
            .name("targets".to_owned())
            .spawn(move || host.serve(make, &came, &tell))?;
        Ok(Self {
            words: Some(words),
            cancelled,
            thread: Some(thread),
        })
    }

    /// Hands on a word of the conductor's.
    pub fn hear(&self, word: Message) {
        if matches!(word, Message::StartTarget(_)) {
            self.cancelled.store(false, SeqCst);
        }
        if let Some(words) = &self.words {
            // It ends by itself only with the lease, and then the agent ends too.
            let _ = words.send(word);
        }
    }

    /// Gives up the start of a target.
    pub fn cancel(&self) {
        self.cancelled.store(true, SeqCst);
    }
}

impl Drop for Hosting {
    fn drop(&mut self) {
        self.cancel();
        self.words = None;
        if let Some(thread) = self.thread.take() {
            // A panic has stopped the targets as well.
            let _ = thread.join();
        }
    }
}

/// What the thread knows.
struct Host {
    files: PathBuf,
    cancelled: Arc<AtomicBool>,
    heard: Heard,
}

impl Host {
    fn is_alone(&self) -> bool {
        self.heard.silence() > LEASE
    }

    /// Does what is asked for until nobody asks any more.
    fn serve(
        &self,
        make: Box<MakeTargets>,
        came: &mpsc::Receiver<Message>,
        tell: &dyn Fn(Message),
    ) {
        let mut made = make();
        while !self.is_alone() {
            match came.recv_timeout(LOOK) {
                Ok(word) => {
                    let targets = made.as_deref_mut().map_err(|refusal| refusal.clone());
                    let answered = targets.map(|targets| {
                        let answer = || self.answer(word, targets);
                        std::panic::catch_unwind(AssertUnwindSafe(answer))
                    });
                    tell(match answered {
                        Ok(Ok(answer)) => answer,
                        Ok(Err(panic)) => Message::Refused(fault(&*panic)),
                        Err(refusal) => Message::Refused(refusal),
                    });
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let died = made.as_deref_mut().map(Targets::died);
                    for (target, how) in died.unwrap_or_default() {
                        tell(Message::Died { target, how });
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn answer(&self, word: Message, targets: &mut dyn Targets) -> Message {
        match word {
            Message::CheckTarget(spec) => Message::Lack(targets.lack(&spec)),
            Message::StartTarget(mut asked) => {
                let interrupted = || self.cancelled.load(SeqCst) || self.is_alone();
                let started = self.with_files(&mut asked.spec);
                match started.and_then(|()| targets.start(&asked, &interrupted)) {
                    Ok(started) => Message::Started(Box::new(started)),
                    Err(refusal) => Message::Refused(refusal),
                }
            }
            Message::Watch(asked) => {
                targets.watch(asked);
                Message::Watching
            }
            Message::EndWatch => {
                let most = Kind::Seen.limit() as usize - ENVELOPE;
                Message::Seen(Box::new(bounded(targets.end_watch(), most)))
            }
            Message::StopTarget { target } => Message::Stopped(Box::new(targets.stop(&target))),
            other => Message::Refused(Refusal {
                what: format!("{:?} is nothing about a target", other.kind()),
                remedy: String::new(),
                exit: 3,
            }),
        }
    }

    /// Puts the texts in place of their hashes.
    fn with_files(&self, spec: &mut TargetSpec) -> Result<(), Refusal> {
        for (name, content) in &mut spec.files {
            let FileContent::Text(text) = content else {
                continue;
            };
            let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            let read = is_hash.then(|| std::fs::read_to_string(self.files.join(&*text)));
            *text = read.and_then(Result::ok).ok_or_else(|| Refusal {
                what: format!("the file `{name}` of target `{}` was not sent", spec.name),
                remedy: "repeat the run".to_owned(),
                exit: 3,
            })?;
        }
        Ok(())
    }
}

/// What a panic means for whoever asked.
fn fault(panic: &(dyn Any + Send)) -> Refusal {
    Refusal {
        what: format!("a fault of prony's: {}", crate::serve::words_of(panic)),
        remedy: "report it, with the command that made it".to_owned(),
        exit: 3,
    }
}

/// At most so many bytes, as one message may hold: every second sample is left out until it does. Counters lose
/// nothing by that, the first and the last sample stay.
fn bounded(mut seen: Seen, most: usize) -> Seen {
    let size = |seen: &Seen| serde_json::to_vec(seen).map_or(0, |body| body.len());
    let mut thinned = 1_u64;
    while size(&seen) > most && seen.series.iter().any(|s| s.at_ns.len() > 2) {
        thinned *= 2;
        for series in &mut seen.series {
            let last = series.at_ns.len().saturating_sub(1);
            let keeps = |i: usize| i.is_multiple_of(2) || i == last;
            let mut at = 0..;
            series.at_ns.retain(|_| at.next().is_some_and(keeps));
            let mut at = 0..;
            series.values.retain(|_| at.next().is_some_and(keeps));
        }
    }
    if thinned > 1 {
        seen.unavailable.push(Unavailable {
            what: "all samples of the host".to_owned(),
            reason: format!("there were more than one message holds: one in {thinned} is kept"),
            remedy: "measure for a shorter time".to_owned(),
        });
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Nanos, Series};

    #[test]
    fn what_is_too_much_for_a_message_is_thinned_and_grows_by_as_much() {
        let mut series = Series::new("thread.run_s", "s", "/proc", record::Kind::Counter);
        (1..=1_000).for_each(|n| series.push(Nanos(n), n as f64));
        let seen = Seen {
            series: vec![series.clone(); 6],
            ..Seen::default()
        };
        let whole = serde_json::to_vec(&seen).unwrap().len();
        assert_eq!(bounded(seen.clone(), whole), seen);
        let thinned = bounded(seen, whole / 2);
        assert!(serde_json::to_vec(&thinned).unwrap().len() < whole / 2 + ENVELOPE);
        let kept = &thinned.series[5];
        assert!(kept.at_ns.len() < 600, "{}", kept.at_ns.len());
        let grown = |series: &Series| series.delta(Nanos(1), Nanos(1_000));
        assert_eq!(grown(kept), grown(&series));
        let gap = &thinned.unavailable[0];
        assert!(gap.reason.contains("one in"), "{gap:?}");
    }
}
