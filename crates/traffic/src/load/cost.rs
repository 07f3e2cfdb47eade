//! What a load thread costs: CPU time by mode, spin, system calls, between two snapshots.
//!
//! The total is `CLOCK_THREAD_CPUTIME_ID`, exact to the nanosecond. The kernel splits it into user and
//! system by sampling at its tick (4 ms on many hosts), so that only the ratio of `getrusage` is taken,
//! and short windows have a coarse ratio of an exact total.

use crate::sys;
use linux::clock::thread_cpu_ns;
use record::Pauses;

/// A thread's counters at one time; taken by that thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Snapshot {
    at: u64,
    cpu_ns: u64,
    user_ns: u64,
    system_ns: u64,
    spun_ns: u64,
    pauses: Pauses,
    syscalls: u64,
}

impl Snapshot {
    /// Reads the calling thread's counters at `at`; spin, pauses and system calls are the loop's own counts.
    pub fn take(at: u64, spun_ns: u64, pauses: Pauses, syscalls: u64) -> Self {
        let usage = sys::thread_usage();
        Snapshot {
            at,
            cpu_ns: thread_cpu_ns(),
            user_ns: usage.user_ns,
            system_ns: usage.system_ns,
            spun_ns,
            pauses,
            syscalls,
        }
    }

    /// CPU time without spin since an earlier snapshot.
    pub fn busy_ns_since(&self, earlier: &Snapshot) -> u64 {
        (self.cpu_ns - earlier.cpu_ns).saturating_sub(self.spun_ns - earlier.spun_ns)
    }

    /// System calls since an earlier snapshot.
    pub fn syscalls_since(&self, earlier: &Snapshot) -> u64 {
        self.syscalls - earlier.syscalls
    }
}

/// The cost between two snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// User mode.
    pub user_ns: u64,
    /// Kernel.
    pub system_ns: u64,
    /// Length of the time between.
    pub wall_ns: u64,
    /// Deliberate spin, at most the CPU time.
    pub spin_ns: u64,
    /// Pauses that let responses gather.
    pub pauses: Pauses,
}

impl Cost {
    /// The cost from one snapshot to a later one.
    pub fn between(from: &Snapshot, to: &Snapshot) -> Self {
        let total = to.cpu_ns - from.cpu_ns;
        let (user, system) = (to.user_ns - from.user_ns, to.system_ns - from.system_ns);
        let share = user as f64 / (user + system).max(1) as f64;
        let user_ns = (total as f64 * share) as u64;
        Cost {
            user_ns,
            system_ns: total - user_ns,
            wall_ns: to.at - from.at,
            // The spin is read from the wall clock: a thread put aside while spinning did not burn it.
            spin_ns: (to.spun_ns - from.spun_ns).min(total),
            pauses: Pauses {
                count: to.pauses.count - from.pauses.count,
                total_ns: to.pauses.total_ns - from.pauses.total_ns,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_exact_and_the_split_sampled() {
        let from = Snapshot::default();
        let to = Snapshot {
            at: 100,
            cpu_ns: 90,
            user_ns: 10,
            system_ns: 30,
            spun_ns: 200,
            pauses: Pauses {
                count: 3,
                total_ns: 30,
            },
            syscalls: 7,
        };
        let cost = Cost::between(&from, &to);
        assert_eq!((cost.user_ns, cost.system_ns), (22, 68));
        assert_eq!((cost.wall_ns, cost.spin_ns), (100, 90));
        assert_eq!((cost.pauses.count, cost.pauses.total_ns), (3, 30));
        assert_eq!(to.busy_ns_since(&from), 0, "all of it was spin");
        assert_eq!(to.syscalls_since(&from), 7);
    }
}
