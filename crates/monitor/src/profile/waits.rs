//! How long a thread stayed off the CPU after each stack, and why.
//!
//! In the flow: a stack is taken when a thread leaves its CPU, a switch record when it comes back, perhaps on another
//! CPU, so that both are brought together by thread and time when the profile ends. The surprise: a thread that never
//! leaves a CPU while the profile runs, because it slept all along, has no stack and no wait here.

use super::wire::Switch;
use record::WaitState;
use std::collections::HashMap;

/// Time off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Length, ns.
    pub ns: u64,
    /// The thread was still ready to run.
    pub preempted: bool,
}

/// Switches by thread, by rising time.
#[derive(Debug)]
pub struct Waits {
    by_thread: HashMap<i32, Vec<Switch>>,
    end: u64,
}

impl Waits {
    /// Sorts the switches; waits that have not ended are cut at `end`, ns.
    pub fn new(switches: Vec<Switch>, end: u64) -> Self {
        let mut by_thread: HashMap<i32, Vec<Switch>> = HashMap::new();
        for switch in switches {
            by_thread.entry(switch.tid).or_default().push(switch);
        }
        for switches in by_thread.values_mut() {
            switches.sort_by_key(|switch| switch.time);
        }
        Self { by_thread, end }
    }

    /// The wait that began at `time` for a thread that ended at `ended`; `None` when it ended there instead.
    pub fn after(&self, tid: i32, time: u64, ended: Option<u64>) -> Option<Wait> {
        if ended.is_some_and(|ended| ended <= time) {
            return None;
        }
        let switches = self.by_thread.get(&tid).map_or(&[][..], Vec::as_slice);
        let later = &switches[switches.partition_point(|switch| switch.time < time)..];
        // The kernel takes the stack first and records the switch right after it.
        let preempted = later
            .first()
            .is_some_and(|switch| switch.out && switch.preempted);
        let back = later.iter().find(|switch| !switch.out);
        let back = back.map_or(self.end, |switch| switch.time);
        Some(Wait {
            ns: back.saturating_sub(time),
            preempted,
        })
    }
}

/// Kernel functions that wait for a device or a page (`TASK_UNINTERRUPTIBLE`), by how their names begin.
const DISK: [&str; 4] = ["io_schedule", "blk_", "folio_wait_bit", "jbd2_"];
/// Kernel functions that wait for an event (`TASK_INTERRUPTIBLE`).
const SLEEPING: [&str; 19] = [
    "ep_poll",
    "do_epoll_wait",
    "do_poll",
    "do_select",
    "do_sys_poll",
    "futex_wait",
    "__futex_wait",
    "hrtimer_nanosleep",
    "do_nanosleep",
    "pipe_read",
    "anon_pipe_read",
    "anon_pipe_write",
    "sk_wait_data",
    "inet_csk_accept",
    "wait_for_connect",
    "unix_stream_read",
    "do_wait",
    "sigsuspend",
    "do_sigtimedwait",
];

/// The state that a thread waited in, by its kernel stack; `None` when the stack does not tell.
pub fn state<'a>(preempted: bool, kernel: impl Iterator<Item = &'a str>) -> Option<WaitState> {
    if preempted {
        return Some(WaitState::Runnable);
    }
    for symbol in kernel {
        let begins = |names: &[&str]| names.iter().any(|name| symbol.starts_with(name));
        if begins(&DISK) {
            return Some(WaitState::Disk);
        }
        if begins(&SLEEPING) {
            return Some(WaitState::Sleeping);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(tid: i32, time: u64, out: bool, preempted: bool) -> Switch {
        Switch {
            pid: tid,
            tid,
            time,
            out,
            preempted,
        }
    }

    #[test]
    fn a_wait_lasts_until_the_thread_is_back() {
        let waits = Waits::new(
            vec![
                switch(1, 101, true, false),
                switch(1, 350, true, true),
                // Back on another CPU, whose ring was read earlier.
                switch(1, 300, false, false),
                switch(1, 360, false, false),
                switch(2, 200, false, false),
                switch(1, 401, true, false),
            ],
            1000,
        );
        let wait = |ns, preempted| Some(Wait { ns, preempted });
        assert_eq!(waits.after(1, 100, None), wait(200, false));
        assert_eq!(waits.after(1, 349, None), wait(11, true));
        assert_eq!(waits.after(1, 400, None), wait(600, false));
        assert_eq!(waits.after(1, 400, Some(390)), None);
        assert_eq!(waits.after(3, 990, None), wait(10, false));
    }

    #[test]
    fn the_kernel_stack_tells_the_state() {
        let of = |preempted, stack: &[&str]| state(preempted, stack.iter().copied());
        assert_eq!(of(true, &["ep_poll"]), Some(WaitState::Runnable));
        assert_eq!(
            of(false, &["schedule", "io_schedule", "do_wait"]),
            Some(WaitState::Disk)
        );
        assert_eq!(
            of(false, &["schedule", "ep_poll"]),
            Some(WaitState::Sleeping)
        );
        assert_eq!(of(false, &["schedule", "mutex_lock"]), None);
    }
}
