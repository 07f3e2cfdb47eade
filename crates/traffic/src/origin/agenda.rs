//! What a serving thread still has to do, and when: connections that have not had their full turn, delayed answers,
//! lingering ends. The same for every wire.

use super::connection::Outcome;
use super::delay::Delay;
use super::freeze::Freeze;
use super::slots::Token;
use super::timers::Timers;
use crate::random::Random;
use record::Nanos;

/// Longest wait for a peer to close after our last answer.
const LINGER: Nanos = Nanos(2 * Nanos::SECOND.0);

/// What a thread does when a time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// The delayed answer of a connection.
    Answer(Token),
    /// The peer has not closed in time.
    LingerEnd(Token),
    /// Accepting has paused for long enough.
    AcceptAgain,
}

/// See the module.
#[derive(Debug)]
pub struct Agenda {
    /// Those that used up their share of the last turn.
    pub again: Vec<Token>,
    /// What is due at a time.
    pub timers: Timers<Due>,
    delay: Option<Delay>,
    random: Random,
    freeze: Option<Freeze>,
    /// The origin's start, for all threads the same.
    started: Nanos,
}

impl Agenda {
    /// An empty one.
    pub fn new(delay: Option<Delay>, freeze: Option<Freeze>, started: Nanos, seed: u64) -> Self {
        Self {
            again: Vec::new(),
            timers: Timers::new(),
            delay,
            random: Random::seeded(seed),
            freeze,
            started,
        }
    }

    /// How long everything still has to stand still; `None` while it serves.
    pub fn frozen_for(&self, now: impl FnOnce() -> Nanos) -> Option<Nanos> {
        let freeze = self.freeze?;
        let now = now();
        let until = freeze.frozen_until(self.started, now)?;
        Some(until.since(now))
    }

    /// Notes what a pass of a connection has asked for; false when it asked to be forgotten.
    pub fn note(&mut self, token: Token, outcome: Outcome, now: impl Fn() -> Nanos) -> bool {
        match outcome {
            Outcome::Idle => {}
            Outcome::Again => self.again.push(token),
            Outcome::Delay => {
                let sample = |delay: Delay| delay.sample(&mut self.random);
                let delay = self.delay.map_or(Nanos(0), sample);
                self.timers.push(now() + delay, Due::Answer(token));
            }
            Outcome::Linger => {
                self.timers.push(now() + LINGER, Due::LingerEnd(token));
                self.again.push(token);
            }
            Outcome::Closed => return false,
        }
        true
    }
}
