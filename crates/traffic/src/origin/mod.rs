//! The built-in server: a backend of known cost, and the other end of the generator's calibration.
//!
//! ```text
//! /                     the configured body, or index.html of the given files
//! /bytes/SIZE           so many bytes: 2649, 91k, 91KiB
//! /status/CODE          an answer with this status, 200 to 599
//! /upload               reads a body of any framing, answers {"upload_bytes": n}
//! /stats                counters of every thread as JSON (OriginStats)
//! any given file        by its path below the directory
//! ```
//! Each thread is a server of its own, with its own `SO_REUSEPORT` socket: the kernel deals the
//! connections out. Bytes flow `connection` -> `talk` -> `content`, `answer`, and nowhere are they waited
//! for: `worker` comes back when the kernel or a timer says so.
//!
//! The surprise: every method is answered alike on every path, and a request's body is read and counted
//! wherever it is sent to.

mod agenda;
mod answer;
mod connection;
mod content;
mod delay;
mod freeze;
mod slots;
mod stack_wire;
mod stack_worker;
mod stats;
mod store;
mod sys;
mod talk;
mod timers;
mod wire;
mod worker;

pub use content::FILES_BYTES_MAX;
pub use delay::Delay;
pub use freeze::Freeze;
pub use stats::{Counts, OriginStats, Responses, ThreadStats};

use crate::user_space::{AttachError, Attachment};
use content::Content;
use record::Bytes;
use socket2::{Domain, Protocol, Socket, Type};
use stack_worker::{StackSpec, StackWorker};
use stats::Board;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, atomic::Ordering, mpsc};
use std::thread::JoinHandle;
use sys::WakeFlag;
use talk::Service;
use worker::{Worker, WorkerSpec};

/// Connections that may wait to be accepted, per thread; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// What to serve, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginSpec {
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Serving threads, at least one.
    pub threads: u32,
    /// Thread `i` is pinned to `cpus[i % len]`; empty does not pin.
    pub cpus: Vec<u32>,
    /// Size of the answer to `/`.
    pub body: Bytes,
    /// Directory whose files are served from memory; at most [`FILES_BYTES_MAX`] together.
    pub files: Option<PathBuf>,
    /// Time between a request and its answer.
    pub delay: Option<Delay>,
    /// Pause of all threads at once.
    pub freeze: Option<Freeze>,
    /// Answers on one connection before the server closes it.
    pub close_after: Option<u64>,
    /// A TCP of our own answers on all of its addresses, at the port of `listen`; without, the kernel's does.
    pub attachment: Option<Attachment>,
    /// Segments that a TCP of our own sends before the first acknowledgement; `None` is its default.
    pub initial_window: Option<u32>,
}

impl OriginSpec {
    /// One thread, 1 KiB at `/`, no files, no delay, no freeze; connections stay.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            threads: 1,
            cpus: Vec::new(),
            body: Bytes(1024),
            files: None,
            delay: None,
            freeze: None,
            close_after: None,
            attachment: None,
            initial_window: None,
        }
    }

    fn cpu_of(&self, thread: usize) -> Option<u32> {
        (!self.cpus.is_empty()).then(|| self.cpus[thread % self.cpus.len()])
    }
}

/// Why an origin does not serve.
#[derive(Debug, thiserror::Error)]
pub enum OriginError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {}", Cause(cause))]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The system's words.
        cause: io::Error,
    },
    /// There are no threads to serve.
    #[error("cannot serve with 0 threads")]
    NoThreads,
    /// More threads than the device has queues.
    #[error("cannot serve with {threads} threads: the transport `{transport}` has one queue")]
    OneQueue {
        /// Threads asked for.
        threads: u32,
        /// The transport's name.
        transport: &'static str,
    },
    /// There is no port to accept connections on.
    #[error("cannot accept connections on port 0: a TCP of our own has no kernel that chooses one")]
    NoPort,
    /// A TCP of our own cannot attach.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A thread could not be made ready.
    #[error("cannot start serving thread {thread}: {cause}")]
    Thread {
        /// Its index.
        thread: usize,
        /// The system's words.
        cause: io::Error,
    },
    /// A thread could not be pinned.
    #[error("cannot pin serving thread {thread} to CPU {cpu}: {cause}")]
    Pin {
        /// Its index.
        thread: usize,
        /// The CPU asked for.
        cpu: u32,
        /// The system's words.
        cause: io::Error,
    },
    /// A given file or directory cannot be read.
    #[error("cannot read {path} to serve it: {}", Cause(cause))]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
    /// The given files do not fit.
    #[error(
        "cannot serve {directory}: its files take more than {}",
        Bytes(FILES_BYTES_MAX)
    )]
    FilesTooLarge { directory: PathBuf },
    /// There is no memory for the bodies.
    #[error("cannot hold the bodies to serve in memory: {cause}")]
    Store {
        /// The system's words.
        cause: io::Error,
    },
    /// A delay was not understood.
    #[error("reading the delay `{text}`: {cause}")]
    Delay {
        /// What was typed.
        text: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A freeze was not understood.
    #[error("reading the freeze `{text}`: {cause}")]
    Freeze {
        /// What was typed.
        text: String,
        /// What is wrong with it.
        cause: String,
    },
}

impl OriginError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            OriginError::Listen { address, cause } => listen_remedy(*address, cause.kind()),
            OriginError::NoThreads => "ask for at least one thread".to_owned(),
            OriginError::OneQueue { .. } => "ask for one thread".to_owned(),
            OriginError::NoPort => "give a port, for example 80".to_owned(),
            OriginError::Attach(cause) => cause.remedy(),
            OriginError::Thread { .. } => {
                "raise the limits of open files and processes (`ulimit -n`, `ulimit -u`)".to_owned()
            }
            OriginError::Pin { .. } => {
                "give CPUs that are online and allowed to this process: `taskset -pc $$` lists them"
                    .to_owned()
            }
            OriginError::File { .. } => {
                "give a directory that exists and whose files this user may read".to_owned()
            }
            OriginError::FilesTooLarge { .. } => {
                "give a directory with less in it, or use /bytes/SIZE, which needs no memory".to_owned()
            }
            OriginError::Store { .. } => {
                "free memory, or serve fewer and smaller files".to_owned()
            }
            OriginError::Delay { .. } => {
                "write 5ms, constant:5ms, exponential:5ms (mean) or lognormal:5ms,0.5 (median, sigma)"
                    .to_owned()
            }
            OriginError::Freeze { .. } => {
                "write LENGTH/PERIOD, for example 200ms/2s: nothing is served for the last 200 ms of every 2 s"
                    .to_owned()
            }
        }
    }
}

fn listen_remedy(address: SocketAddr, kind: io::ErrorKind) -> String {
    let port = address.port();
    match kind {
        io::ErrorKind::AddrInUse => format!(
            "stop the server that holds it (`ss -ltnp sport = :{port}` names it), or give another port; port 0 takes a free one"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("give a port of 1024 or above: {port} is kept for root")
        }
        io::ErrorKind::AddrNotAvailable => format!(
            "give an address of this machine (`ip address` lists them): {} is none",
            address.ip()
        ),
        _ => "give another address".to_owned(),
    }
}

/// The plain words for the usual causes, without the error number.
struct Cause<'a>(&'a io::Error);

impl std::fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.kind() {
            kind @ (io::ErrorKind::AddrInUse
            | io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotFound) => kind.fmt(f),
            _ => self.0.fmt(f),
        }
    }
}

/// A server that serves until it is stopped or dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    board: Arc<Board>,
    stop: Arc<WakeFlag>,
    threads: Vec<JoinHandle<()>>,
}

impl Origin {
    /// Starts to serve; when it returns, every thread listens.
    ///
    /// # Errors
    /// [`OriginError::Listen`] when the address cannot be had, [`OriginError::Pin`] and
    /// [`OriginError::Thread`] when a thread cannot be made ready, [`OriginError::File`] and
    /// [`OriginError::FilesTooLarge`] when the files cannot be served, [`OriginError::Store`] when memory
    /// is short.
    pub fn start(spec: &OriginSpec) -> Result<Self, OriginError> {
        // As many connections as the host lets it have: who starts a server leaves the soft limit as it was.
        let _ = crate::sys::raise_descriptor_limit();
        let content = Arc::new(Content::new(spec.body, spec.files.as_deref())?);
        match &spec.attachment {
            None => Self::on_sockets(spec, &content),
            Some(attachment) => Self::on_stack(spec, attachment, &content),
        }
    }

    fn on_sockets(spec: &OriginSpec, content: &Arc<Content>) -> Result<Self, OriginError> {
        let threads = spec.threads as usize;
        let (address, listeners) = listen(spec.listen, threads)?;
        let mut origin = Self::without_threads(spec, address)?;
        let started = sys::monotonic();
        for (thread, listener) in listeners.into_iter().enumerate() {
            let worker = WorkerSpec {
                listener,
                stop: origin.stop.clone(),
                service: origin.service(spec, content, thread),
                delay: spec.delay,
                freeze: spec.freeze,
                started,
            };
            let make = |thread| {
                sys::ignore_broken_pipes();
                let worker = Worker::new(worker);
                worker.map_err(|cause| OriginError::Thread { thread, cause })
            };
            origin.start_thread(thread, spec.cpu_of(thread), make, Worker::run)?;
        }
        Ok(origin)
    }

    /// One thread, since each needs a queue of its own.
    fn on_stack(
        spec: &OriginSpec,
        attachment: &Attachment,
        content: &Arc<Content>,
    ) -> Result<Self, OriginError> {
        let (threads, transport) = (spec.threads, attachment.transport.name());
        match threads {
            0 => return Err(OriginError::NoThreads),
            1 => {}
            _ => return Err(OriginError::OneQueue { threads, transport }),
        }
        let port = spec.listen.port();
        if port == 0 {
            return Err(OriginError::NoPort);
        }
        let link = attachment.check()?;
        let locals = attachment.locals();
        let first = locals.first().map_or(spec.listen.ip(), |ip| *ip);
        let mut origin = Self::without_threads(spec, SocketAddr::new(first, port))?;
        let worker = StackSpec {
            device: attachment.open()?,
            link,
            locals,
            port,
            coalesce: attachment.coalesce,
            stop: origin.stop.clone(),
            service: origin.service(spec, content, 0),
            delay: spec.delay,
            freeze: spec.freeze,
            initial_window: spec.initial_window,
            started: sys::monotonic(),
        };
        let refused = attachment.clone();
        let make = move |_| {
            let worker = StackWorker::new(worker);
            worker.map_err(|cause| refused.refused(cause).into())
        };
        origin.start_thread(0, spec.cpu_of(0), make, StackWorker::run)?;
        Ok(origin)
    }

    fn without_threads(spec: &OriginSpec, address: SocketAddr) -> Result<Self, OriginError> {
        let threads = spec.threads as usize;
        Ok(Self {
            address,
            board: Arc::new(Board::new((0..threads).map(|i| spec.cpu_of(i)))),
            stop: Arc::new(
                WakeFlag::new().map_err(|cause| OriginError::Thread { thread: 0, cause })?,
            ),
            threads: Vec::with_capacity(threads),
        })
    }

    fn service(&self, spec: &OriginSpec, content: &Arc<Content>, thread: usize) -> Service {
        Service {
            content: content.clone(),
            board: self.board.clone(),
            thread,
            delays: spec.delay.is_some(),
            close_after: spec.close_after,
        }
    }

    /// The address that it listens on, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the threads have counted so far.
    pub fn stats(&self) -> OriginStats {
        self.board.read()
    }

    /// Why it serves no more although nobody has stopped it: the device of a TCP of our own has gone.
    pub fn gone(&self) -> Option<String> {
        self.board.gone()
    }

    /// Stops serving, closes all connections and frees the port; the final counts.
    pub fn stop(mut self) -> OriginStats {
        self.join();
        self.stats()
    }

    /// Starts a thread and waits until it is ready, so that its failure is the start's. The worker is made on the new
    /// thread itself: pinning and timeouts belong to the thread that asks for them.
    fn start_thread<W: 'static>(
        &mut self,
        thread: usize,
        cpu: Option<u32>,
        make: impl FnOnce(usize) -> Result<W, OriginError> + Send + 'static,
        run: fn(W),
    ) -> Result<(), OriginError> {
        let failed = |cause| OriginError::Thread { thread, cause };
        let (ready, readiness) = mpsc::sync_channel(1);
        let board = self.board.clone();
        let prepare = move || {
            if let Some(cpu) = cpu {
                linux::affinity::pin_to(cpu).map_err(|cause| OriginError::Pin {
                    thread,
                    cpu,
                    cause,
                })?;
            }
            crate::sys::set_precise_timers();
            let tid = crate::sys::thread_id();
            board.counters(thread).tid.store(tid, Ordering::Relaxed);
            make(thread)
        };
        let handle = std::thread::Builder::new()
            .name(format!("origin-{thread}"))
            .spawn(move || match prepare() {
                Ok(worker) => {
                    let _ = ready.send(Ok(()));
                    run(worker);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            })
            .map_err(failed)?;
        self.threads.push(handle);
        readiness
            .recv()
            .unwrap_or_else(|_| Err(failed(io::Error::other("it ended before it was ready"))))
    }

    fn join(&mut self) {
        self.stop.raise();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself; the others must still be joined.
            let _ = thread.join();
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.join();
    }
}

/// One listening socket a thread, all on the same port.
fn listen(asked: SocketAddr, threads: usize) -> Result<(SocketAddr, Vec<Socket>), OriginError> {
    if threads == 0 {
        return Err(OriginError::NoThreads);
    }
    let failed = |cause| OriginError::Listen {
        address: asked,
        cause,
    };
    refuse_if_taken(asked).map_err(failed)?;
    let first = listener(asked).map_err(failed)?;
    let address = local_address(&first).map_err(failed)?;
    let mut listeners = vec![first];
    for _ in 1..threads {
        listeners.push(listener(address).map_err(failed)?);
    }
    Ok((address, listeners))
}

/// `SO_REUSEPORT` lets a second server of the same user onto a port without a word, and the kernel
/// would deal the connections out between the two. A socket without it finds out.
fn refuse_if_taken(address: SocketAddr) -> io::Result<()> {
    let probe = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    probe.set_reuse_address(true)?;
    probe.bind(&address.into())
}

fn listener(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    // Accepted sockets inherit it: the last segment of a large body must not wait for an acknowledgement.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

fn local_address(socket: &Socket) -> io::Result<SocketAddr> {
    socket
        .local_addr()?
        .as_socket()
        .ok_or_else(|| io::Error::other("the socket has no IP address"))
}

#[cfg(test)]
mod tests;
