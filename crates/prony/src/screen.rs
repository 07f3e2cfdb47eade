//! The live screen: a few lines at the bottom of a terminal that show how things go.
//!
//! In the flow: whoever measures leaves lines here, which costs a lock and no system call; a thread of its own draws
//! them, at most twice a second and never on a CPU that a load thread is pinned to. The surprise: whatever else is
//! written to the terminal goes through [`beside`], which takes the lines away, writes, and puts them back.

use console::{Term, truncate_str};
use linux::affinity::CpuSet;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// Shortest time between two drawings.
const REDRAW_EVERY: Duration = Duration::from_millis(500);

static SCREEN: Mutex<Screen> = Mutex::new(Screen::new());
static CHANGED: Condvar = Condvar::new();
static QUIET: AtomicBool = AtomicBool::new(false);

/// What is to be seen, and what is.
struct Screen {
    /// How the whole goes: progress, end, cells.
    head: Vec<String>,
    /// What runs now.
    now: Option<String>,
    /// Lines that stand on the terminal.
    drawn: usize,
    /// Something has changed since.
    dirty: bool,
    /// CPUs that the drawing thread keeps off.
    avoid: Vec<u32>,
}

/// Shows nothing but results, warnings and errors from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether only results, warnings and errors are wanted.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Whether there is a terminal to draw on.
pub fn is_live() -> bool {
    !is_quiet() && std::io::stderr().is_terminal()
}

impl Screen {
    const fn new() -> Self {
        Self {
            head: Vec::new(),
            now: None,
            drawn: 0,
            dirty: false,
            avoid: Vec::new(),
        }
    }

    /// Takes the lines off the terminal.
    fn erase(&mut self, term: &Term) {
        if self.drawn > 0 {
            // There is nobody left to tell when the terminal is gone.
            let _ = term.clear_last_lines(self.drawn);
            self.drawn = 0;
        }
    }

    /// Draws all lines, in one write.
    fn draw(&mut self) {
        let term = Term::buffered_stderr();
        self.erase(&term);
        let (rows, columns) = term.size();
        let rows = usize::from(rows.max(2)) - 1;
        let lines: Vec<&String> = self.head.iter().chain(&self.now).collect();
        // What runs now stands last, so a low terminal loses cells and not that.
        let skip_from = 1.min(lines.len());
        let skipped = lines.len().saturating_sub(rows);
        let kept = lines[..skip_from]
            .iter()
            .chain(&lines[(skip_from + skipped).min(lines.len())..]);
        for line in kept.take(rows) {
            let line = truncate_str(line, usize::from(columns.max(20)) - 1, "~");
            let _ = term.write_line(&line);
            self.drawn += 1;
        }
        let _ = term.flush();
        self.dirty = false;
    }
}

fn lock() -> MutexGuard<'static, Screen> {
    // A panic while it was held leaves whole lines.
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the drawing thread, once.
fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // Without the thread nothing is drawn, and everything else goes on.
        let _ = std::thread::Builder::new()
            .name("screen".to_owned())
            .spawn(draw_when_changed);
    });
}

fn draw_when_changed() {
    let mut kept_off: Vec<u32> = Vec::new();
    let mut screen = lock();
    loop {
        while !screen.dirty {
            screen = CHANGED.wait(screen).unwrap_or_else(PoisonError::into_inner);
        }
        if screen.avoid != kept_off {
            kept_off.clone_from(&screen.avoid);
            keep_off(&kept_off);
        }
        screen.draw();
        drop(screen);
        let drawn_at = Instant::now();
        while let Some(left) = REDRAW_EVERY.checked_sub(drawn_at.elapsed()) {
            std::thread::sleep(left);
        }
        screen = lock();
    }
}

/// Moves this thread off those CPUs, if any other is left to it.
fn keep_off(cpus: &[u32]) {
    let all = crate::host::allowed_cpus_at_start();
    let left: Vec<u32> = all
        .iter()
        .copied()
        .filter(|cpu| !cpus.contains(cpu))
        .collect();
    let wanted = if left.is_empty() { all } else { &left };
    // Where the system refuses, it stays where it is.
    let _ = CpuSet::new(wanted).pin_this_thread();
}

/// Changes the screen; it is drawn soon, unless it is as it was.
fn change<T: PartialEq>(new: T, of: impl FnOnce(&mut Screen) -> &mut T) {
    if !is_live() {
        return;
    }
    start();
    let mut screen = lock();
    let place = of(&mut screen);
    if *place == new {
        return;
    }
    *place = new;
    screen.dirty = true;
    drop(screen);
    CHANGED.notify_one();
}

/// How the whole goes, above what runs now.
pub fn head(lines: Vec<String>) {
    change(lines, |screen| &mut screen.head);
}

/// What runs now; nothing is drawn here.
pub fn now(line: &str) {
    change(Some(line.to_owned()), |screen| &mut screen.now);
}

/// CPUs of load threads, which drawing keeps off.
pub fn avoid(cpus: &[u32]) {
    change(cpus.to_vec(), |screen| &mut screen.avoid);
}

/// Nothing runs any more: its line goes at once.
pub fn now_is_over() {
    at_once(|screen| screen.now = None);
}

/// The terminal is as it was, at once.
pub fn close() {
    at_once(|screen| {
        screen.now = None;
        screen.head.clear();
    });
}

fn at_once(with: impl FnOnce(&mut Screen)) {
    let mut screen = lock();
    with(&mut screen);
    if screen.drawn > 0 {
        screen.draw();
    }
    screen.dirty = false;
}

/// Writes something else to the terminal: the lines go, `write` runs, the lines come back.
pub fn beside(write: impl FnOnce()) {
    let mut screen = lock();
    if screen.drawn == 0 {
        // Held all the same, so that nothing is drawn in between.
        write();
        return;
    }
    let term = Term::stderr();
    screen.erase(&term);
    write();
    screen.draw();
}
