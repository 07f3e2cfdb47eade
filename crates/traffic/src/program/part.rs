//! Which part of a side's work a thread has: connections a second, connections at one time, counts and ports are
//! divided so that the parts are the whole, to the last connection.
//!
//! A thread has every n-th connection of a template, so the due times of all together are those of one thread alone.
//! The surprise: a template that keeps fewer connections open than there are threads is not cut; it has that many
//! threads, and the next template begins with the thread after them.

use super::script::{Plan, Script};
use crate::arrival::Share;
use record::traffic::Pace;

/// One of several threads of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Threads {
    /// From 0 on.
    pub thread: usize,
    /// How many there are.
    pub count: usize,
}

impl Threads {
    /// A number of its own, 0 of the first, by which what it draws differs from what the others draw.
    pub fn salt(self) -> u64 {
        salt(self.thread)
    }

    /// Its part of the connections of a template, whose number is `template`; `None` when it has none of them.
    pub fn share(self, template: usize, script: &Script) -> Option<Share> {
        let most = match script.pace {
            Pace::Concurrent(n) => script.concurrent_max.min(u64::from(n)),
            _ => script.concurrent_max,
        };
        // Whoever has no connection, or may have none open, has no part.
        let most = most.min(script.count).min(self.count as u64).max(1) as usize;
        let first = template % self.count;
        let index = (self.thread + self.count - first) % self.count;
        (index < most).then_some(Share {
            index: index as u32,
            of: most as u32,
        })
    }
}

/// A number for the `thread`-th of several, 0 for the first, by which what is drawn for it differs.
pub(crate) fn salt(thread: usize) -> u64 {
    (thread as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// How many of `threads` have connections to begin.
pub(super) fn busy(plan: &Plan, threads: u32) -> u32 {
    let count = threads as usize;
    let has_work = |thread: &usize| {
        let own = Threads {
            thread: *thread,
            count,
        };
        let mut scripts = plan.scripts.iter().enumerate();
        scripts.any(|(number, script)| own.share(number, script).is_some())
    };
    (0..count).filter(has_work).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::flows::{Beginning, Begins, begins};
    use record::traffic::{Data, Order, Protocol, Step, Template};
    use record::{Close, Nanos, TrafficSpec};
    use std::net::SocketAddr;

    const SECOND: u64 = 1_000_000_000;

    fn plan(templates: &[(Pace, Option<u64>, Option<u32>)]) -> Plan {
        let template =
            |(number, (pace, count, cap)): (u16, &(Pace, Option<u64>, Option<u32>))| Template {
                name: number.to_string(),
                targets: (0..5)
                    .map(|port| SocketAddr::from(([10, 9, 2, 1], 1_000 + 10 * number + port)))
                    .collect(),
                pace: *pace,
                concurrent_max: *cap,
                count: *count,
                protocol: Protocol::Stream(vec![Step::ClientSends(Data::Pattern(1))]),
                close: Close::Fin,
                timeout: Nanos(SECOND),
                tls: None,
            };
        let spec = TrafficSpec {
            templates: (0..).zip(templates).map(template).collect(),
            ..TrafficSpec::default()
        };
        Plan::new(&spec).unwrap()
    }

    fn threads(plan: &Plan, count: usize, ramp_ns: u64) -> Vec<Begins> {
        let of = |thread| {
            let from = Beginning {
                locals: &[[10, 9, 1, 1].into(), [10, 9, 1, 2].into()],
                order: Order::Sequential,
                ports: (1_000, 2_000),
                seed: 3,
                threads: Threads { thread, count },
                begin_ns: 0,
                until_ns: 10 * SECOND,
                ramp_ns,
                clock: || 0,
            };
            begins(plan, &from)
        };
        (0..count).map(of).collect()
    }

    /// Due times and targets of all connections of a template that begin until `now`, in the order of time.
    fn begun(all: &mut [Begins], plan: &Plan, template: usize, now: u64) -> Vec<(u64, u16)> {
        let script = &plan.scripts[template];
        let mut begun = Vec::new();
        for begins in all {
            while let Some(due) = begins.arrivals[template].take(now) {
                begun.push((due, begins.target(template, script)));
            }
        }
        begun.sort_unstable();
        begun
    }

    #[test]
    fn threads_begin_together_what_one_begins_alone() {
        let plan = plan(&[
            (Pace::Constant(997.0), None, None),
            (Pace::Constant(50.0), Some(23), None),
            (Pace::Constant(50.0), Some(2), None),
            (Pace::Constant(70.0), None, Some(1)),
        ]);
        for ramp_ns in [0, 3 * SECOND] {
            for template in 0..4 {
                let mut alone = threads(&plan, 1, ramp_ns);
                let alone = begun(&mut alone, &plan, template, 20 * SECOND);
                assert!(!alone.is_empty());
                for count in [2, 3, 7] {
                    let mut all = threads(&plan, count, ramp_ns);
                    let all = begun(&mut all, &plan, template, 20 * SECOND);
                    assert!(all == alone, "{count} threads, template {template}");
                }
            }
        }
    }

    #[test]
    fn counts_caps_and_numbers_kept_open_add_up() {
        let plan = plan(&[
            (Pace::Concurrent(256), Some(1_001), None),
            (Pace::Concurrent(3), Some(100), None),
            (Pace::Concurrent(10), Some(2), None),
            (Pace::Poisson(5_000.0), Some(997), Some(5)),
            (Pace::Concurrent(8), None, Some(6)),
        ]);
        let room = |all: &[Begins], template: usize, now| {
            let script = &plan.scripts[template];
            let each = all.iter().map(|begins| begins.room(template, script, now));
            each.sum::<u64>()
        };
        for count in 1..9 {
            let mut all = threads(&plan, count, 0);
            // Of ten with a count of two only two are ever begun, by as many threads as there are for them.
            let open: Vec<u64> = (0..5).map(|it| room(&all, it, SECOND)).collect();
            assert_eq!(open, [256, 3, 10, 5, 6], "{count} threads");
            for (template, expected) in [(0, 1_001), (1, 100), (2, 2), (3, 997)] {
                let script = &plan.scripts[template];
                let mut total = 0;
                for begins in &mut all {
                    // As soon as one has ended the next one may begin.
                    while begins.arrivals[template].take(9 * SECOND).is_some() {
                        assert!(begins.room(template, script, 9 * SECOND) > 0);
                        begins.arrivals[template].freed();
                        total += 1;
                    }
                    assert!(begins.arrivals[template].is_exhausted(9 * SECOND));
                }
                assert_eq!(total, expected, "{count} threads, template {template}");
            }
            // A ramp lets in what it would let in for one thread.
            let all = threads(&plan, count, 4 * SECOND);
            for now in [0, 1, SECOND, 3 * SECOND, 4 * SECOND] {
                let alone = threads(&plan, 1, 4 * SECOND);
                assert_eq!(room(&all, 0, now), room(&alone, 0, now));
            }
        }
    }

    #[test]
    fn small_templates_lie_on_different_threads() {
        let one = (Pace::Concurrent(1), None, None);
        let small = plan(&[one, one, one]);
        assert_eq!(
            (busy(&small, 2), busy(&small, 3), busy(&small, 4)),
            (2, 3, 3)
        );
        let large = plan(&[(Pace::Constant(1.0), None, None)]);
        assert_eq!(busy(&large, 64), 64);
        assert_eq!(salt(0), 0);
        assert!(salt(1) != salt(2));
    }
}
