//! Ctrl-C and SIGTERM as a flag: the first asks for an orderly end that keeps partial results, a second
//! ends the process at once.

use crate::exit::{Exit, Failure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once a person or a supervisor wants the end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the handlers.
    ///
    /// # Errors
    /// A [`Failure`] of the environment, when the system refuses a handler.
    pub fn install() -> Result<Self, Failure> {
        Self::with_handlers().map_err(|e| {
            let what = format!("installing the Ctrl-C handler: {e}");
            Failure::new(Exit::Environment, what, "")
        })
    }

    fn with_handlers() -> std::io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // `nohup prony run &` must outlive the terminal that started it.
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            // In this order: the second signal finds the flag set and ends the process with 130.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                i32::from(Exit::Interrupted.code()),
                Arc::clone(&flag),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Self(flag))
    }

    /// Blocks until the end was asked for, or until `look` finds something.
    pub fn wait_unless<T>(&self, look: impl Fn() -> Option<T>) -> Option<T> {
        while !self.asked() {
            if let found @ Some(_) = look() {
                return found;
            }
            // A signal does not end this sleep (the standard library waits on after EINTR): the next look sees it.
            std::thread::park_timeout(std::time::Duration::from_millis(100));
        }
        None
    }

    /// Asks for the end.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the end was asked for.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether the process was started with `signal` ignored.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is plain data for which all zero bytes are valid; a null new action only asks.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0
            && now.sa_sigaction == libc::SIG_IGN
    }
}
