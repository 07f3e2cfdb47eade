//! One serving thread on sockets: its own listening socket, its own epoll, its own connections, and nothing that
//! it shares with the others but the counters it alone writes.
//!
//! The loop waits for events, for connections that have not had their full turn, and for timers (delayed
//! answers, lingering ends, a pause after `accept` failed), whichever comes first.
//!
//! The surprise: a freeze is looked up before every event and not by a timer. A thread that sleeps in
//! `epoll_wait` while it is frozen does nothing wrong; it only must not serve when it wakes.

use super::agenda::{Agenda, Due};
use super::connection::{Connection, Tools};
use super::delay::Delay;
use super::freeze::Freeze;
use super::slots::{Slots, Token};
use super::sys::{self, Epoll, Event, NO_EVENT, WakeFlag};
use super::talk::Service;
use super::wire::Socket as Wire;
use record::Nanos;
use socket2::Socket;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Tokens that are not a connection's; [`Slots`] never gives them.
const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

const EVENTS_MAX: usize = 256;

/// Connections accepted before the others have their turn.
const ACCEPTS_PER_EVENT: usize = 64;

/// Pause of `accept` when there was no descriptor or memory for a connection.
const ACCEPT_PAUSE: Nanos = Nanos(100 * Nanos::MILLI.0);

/// Once, for all that can happen to a connection.
const CONNECTION_EVENTS: i32 = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;

/// The part of a worker that differs between origins.
pub struct WorkerSpec {
    /// This thread's own listening socket, not blocking.
    pub listener: Socket,
    /// Up when the origin stops.
    pub stop: Arc<WakeFlag>,
    /// Where answers come from.
    pub service: Service,
    /// Time before an answer.
    pub delay: Option<Delay>,
    /// Pause of the whole server.
    pub freeze: Option<Freeze>,
    /// The origin's start, for all threads the same.
    pub started: Nanos,
}

/// A serving thread.
pub struct Worker {
    listener: Socket,
    stop: Arc<WakeFlag>,
    epoll: Epoll,
    connections: Slots<(Wire, Connection)>,
    agenda: Agenda,
    tools: Tools,
}

impl Worker {
    /// Registers what it needs with the kernel; [`Worker::run`] serves.
    pub fn new(spec: WorkerSpec) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(spec.stop.as_fd(), libc::EPOLLIN, STOP)?;
        epoll.add(spec.listener.as_fd(), libc::EPOLLIN, LISTENER)?;
        let seed = spec.service.thread as u64;
        Ok(Self {
            epoll,
            listener: spec.listener,
            stop: spec.stop,
            connections: Slots::new(),
            agenda: Agenda::new(spec.delay, spec.freeze, spec.started, seed),
            tools: Tools::new(spec.service),
        })
    }

    /// Serves until the stop flag is up.
    pub fn run(mut self) {
        let mut events = [NO_EVENT; EVENTS_MAX];
        loop {
            let n = self.epoll.wait(&mut events, self.timeout());
            for event in &events[..n] {
                self.stand_still_while_frozen();
                match event.u64 {
                    STOP => return,
                    LISTENER => self.accept(),
                    token => self.on_event(Token(token), *event),
                }
            }
            for token in std::mem::take(&mut self.agenda.again) {
                self.turn(token);
            }
            self.do_what_is_due();
        }
    }

    /// How long there is nothing to do; `None` without end.
    fn timeout(&self) -> Option<Nanos> {
        if !self.agenda.again.is_empty() {
            return Some(Nanos(0));
        }
        self.agenda
            .timers
            .next_at()
            .map(|at| at.since(sys::monotonic()))
    }

    /// A stop ends a freeze: it must not wait for it.
    fn stand_still_while_frozen(&self) {
        if let Some(span) = self.agenda.frozen_for(sys::monotonic) {
            sys::sleep_unless(self.stop.as_fd(), span);
        }
    }

    fn do_what_is_due(&mut self) {
        if self.agenda.timers.next_at().is_none() {
            return;
        }
        while let Some(due) = self.agenda.timers.pop_due(sys::monotonic()) {
            self.stand_still_while_frozen();
            match due {
                Due::Answer(token) => self.answer(token),
                Due::LingerEnd(token) => self.close(token),
                Due::AcceptAgain => self.watch_listener(libc::EPOLLIN),
            }
        }
    }

    fn on_event(&mut self, token: Token, event: Event) {
        if let Some((_, connection)) = self.connections.get_mut(token) {
            let ending = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
            let readable = event.events & libc::EPOLLIN as u32 != 0;
            connection.note(readable, event.events & ending != 0);
            self.turn(token);
        }
    }

    fn answer(&mut self, token: Token) {
        if let Some((_, connection)) = self.connections.get_mut(token) {
            connection.answer(&self.tools);
            self.turn(token);
        }
    }

    /// One pass of a connection, and what it asks for afterwards.
    fn turn(&mut self, token: Token) {
        let Some((wire, connection)) = self.connections.get_mut(token) else {
            return;
        };
        let outcome = connection.pass(wire, &mut self.tools);
        if !self.agenda.note(token, outcome, sys::monotonic) {
            self.close(token);
        }
    }

    fn close(&mut self, token: Token) {
        if self.connections.remove(token).is_some() {
            self.tools.service.counters().open.subtract(1);
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_EVENT {
            match sys::accept(self.listener.as_fd()) {
                Ok(Some(socket)) => self.welcome(socket),
                Ok(None) => return,
                // The peer has gone before we came; the next one may still be there.
                Err(e) if is_about_the_peer(&e) => {}
                Err(_) => return self.pause_accepting(),
            }
        }
    }

    /// The request has often come with the connection: a first turn before the kernel is asked to watch.
    fn welcome(&mut self, socket: OwnedFd) {
        let counters = self.tools.service.counters();
        counters.accepted.add(1);
        counters.open.add(1);
        let connection = (Wire::new(socket), Connection::new());
        let token = self.connections.insert(connection);
        self.turn(token);
        if let Some((wire, _)) = self.connections.get_mut(token) {
            let watched = self.epoll.add(wire.as_fd(), CONNECTION_EVENTS, token.0);
            if watched.is_err() {
                // Out of memory or of watches: as if it had not been accepted.
                self.close(token);
                self.pause_accepting();
            }
        }
    }

    /// The listener stays readable while connections wait, so to go on would mean to spin.
    fn pause_accepting(&mut self) {
        self.tools.service.counters().accept_errors.add(1);
        self.watch_listener(0);
        self.agenda
            .timers
            .push(sys::monotonic() + ACCEPT_PAUSE, Due::AcceptAgain);
    }

    fn watch_listener(&mut self, events: i32) {
        self.epoll
            .modify(self.listener.as_fd(), events, LISTENER)
            .expect("the listener was registered at the start and stays open");
    }
}

/// accept(2): pending network errors of the new connection are reported here, and are to be retried.
fn is_about_the_peer(error: &io::Error) -> bool {
    !matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
