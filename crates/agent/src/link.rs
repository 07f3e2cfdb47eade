//! One end of a conversation: what is sent, and a thread that reads what comes into a channel.

use crate::frame::{FrameError, Receiver, Sender};
use crate::message::{Message, Side};
use linux::clock::monotonic_ns;
use record::Nanos;
use std::io::{self, BufReader, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What came, when it came by our clock; `None` behind the farewell.
pub type Came = (Nanos, Result<Option<Message>, FrameError>);

/// The sending half, shared by whoever has something to say.
#[derive(Clone)]
pub struct Voice(Arc<Mutex<Option<Speech>>>);

type Speech = Sender<Box<dyn Write + Send>>;

impl Voice {
    /// Begins to speak.
    ///
    /// # Errors
    /// Of the stream.
    pub fn begin(to: Box<dyn Write + Send>) -> io::Result<Self> {
        let sender = Sender::begin(to)?;
        Ok(Self(Arc::new(Mutex::new(Some(sender)))))
    }

    /// Of a stream that has ended.
    pub fn closed() -> Self {
        Self(Arc::default())
    }

    /// Sends one message.
    ///
    /// # Errors
    /// Of the stream; `BrokenPipe` once it was closed.
    pub fn say(&self, message: &Message) -> io::Result<()> {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        sender.as_mut().ok_or_else(gone)?.send(message)
    }

    /// Says that it lives, unless something longer is being said at this moment.
    pub fn beat(&self) {
        if let Ok(mut sender) = self.0.try_lock()
            && let Some(sender) = sender.as_mut()
        {
            // Whoever has a real word finds the broken pipe.
            let _ = sender.send(&Message::Beat);
        }
    }

    /// Says farewell, and closes the stream.
    ///
    /// # Errors
    /// Of the stream.
    pub fn end(&self) -> io::Result<()> {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sender.take().map_or(Ok(()), |mut sender| sender.end())
    }
}

/// When the other end was heard last: bytes count, so that a long message over a slow way is no silence.
#[derive(Clone, Debug, Default)]
pub struct Heard(Arc<AtomicU64>);

impl Heard {
    fn now(&self) {
        self.0.store(monotonic_ns(), Relaxed);
    }

    /// How long it has been silent.
    pub fn silence(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.0.load(Relaxed)))
    }
}

struct Listened<R> {
    from: R,
    heard: Heard,
}

impl<R: Read> Read for Listened<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.heard.now();
        Ok(n)
    }
}

/// Reads what `side` says from `from`, in a thread of its own, to its end, and hands it on.
///
/// # Errors
/// When the system refuses a thread.
pub fn listen(
    name: &str,
    side: Side,
    from: impl Read + Send + 'static,
    take: impl Fn(Came) -> bool + Send + 'static,
) -> io::Result<Heard> {
    let heard = Heard::default();
    heard.now();
    let listened = Listened {
        from,
        heard: heard.clone(),
    };
    let read = move || {
        let now = || Nanos(monotonic_ns());
        let mut frames = match Receiver::begin(BufReader::new(listened), side) {
            Ok(frames) => frames,
            Err(error) => {
                take((now(), Err(error)));
                return;
            }
        };
        loop {
            let came = frames.receive();
            let is_last = !matches!(came, Ok(Some(_)));
            if !take((now(), came)) || is_last {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name(format!("from-{name}"))
        .spawn(read)?;
    Ok(heard)
}
