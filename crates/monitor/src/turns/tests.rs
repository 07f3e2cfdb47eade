//! Traces that were made up, whose accounts are known to the nanosecond.

use super::looks::{AtLook, Looks};
use super::wire::{CAME, Class, Event, KERNEL, Kind, LEFT, PREEMPTED, UNACCEPTED, UNFOLLOWED};
use super::{Located, Stacks, Traced, When};
use crate::goroutines::TaskLook;
use crate::probe::calls;
use record::{Place, PlaceSamples, TargetTurns, Told, ToldState};
use std::collections::{HashMap, HashSet};

/// The server's process; its threads have numbers from here on.
const SERVER: u32 = 10;
/// A process that is nobody's.
const FOREIGN: u32 = 900;
const BRINGER: u32 = 977;
/// A process that takes its work from the server as a client.
const CONSUMER: u32 = 80;
const INTERRUPTIBLE: u32 = 1;
const UNINTERRUPTIBLE: u32 = 2;

/// A trace being made up.
#[derive(Default)]
struct Tape {
    events: Vec<Event>,
    stacks: Stacks,
    green: bool,
    /// Where threads come and leave from now on.
    cpu: u16,
    to: u64,
}

fn number(call: &str) -> i32 {
    let found = calls::all().find(|&(_, name)| name == call);
    found.map_or(-1, |(number, _)| number.cast_signed())
}

fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

/// The process of a thread.
fn process_of(tid: u32) -> u32 {
    match tid {
        0 | CONSUMER | FOREIGN.. => tid,
        _ => SERVER,
    }
}

impl Tape {
    fn put(&mut self, event: Event) {
        self.to = self.to.max(event.at_ns + 1_000);
        self.events.push(event);
    }

    fn socket(&mut self, at: u64, kind: Kind, class: Class, sk: u64, tid: u32, flags: u8) {
        self.put(Event {
            at_ns: at,
            sk,
            tid,
            tgid: SERVER,
            value: 100,
            kind: kind as u8,
            class: class as u8,
            flags,
            ..Event::default()
        });
    }

    fn arrive(&mut self, at: u64, sk: u64) {
        self.socket(at, Kind::Arrived, Class::Client, sk, 0, 0);
    }

    fn read(&mut self, at: u64, tid: u32, sk: u64) {
        self.socket(at, Kind::Received, Class::Client, sk, tid, 0);
    }

    fn write(&mut self, at: u64, tid: u32, sk: u64) {
        self.socket(at, Kind::Sent, Class::Client, sk, tid, 0);
    }

    fn write_much(&mut self, at: u64, tid: u32, sk: u64) {
        self.write(at, tid, sk);
        self.events.last_mut().expect("it was just put").value = 65_536;
    }

    /// A request on connection 1 wakes the server, which reads it 10 ns later.
    fn request(&mut self, at: u64) {
        self.arrive(at, 1);
        self.wake(at, SERVER, FOREIGN, "sendto");
        self.on(at, SERVER, 0);
        self.read(at + 10, SERVER, 1);
    }

    fn ask(&mut self, at: u64, tid: u32, sk: u64) {
        self.socket(at, Kind::Sent, Class::Upstream, sk, tid, 0);
    }

    fn answer(&mut self, at: u64, sk: u64) {
        self.socket(at, Kind::Arrived, Class::Upstream, sk, 0, 0);
    }

    fn take(&mut self, at: u64, tid: u32, sk: u64) {
        self.socket(at, Kind::Received, Class::Upstream, sk, tid, 0);
    }

    fn switch(&mut self, at: u64, left: u32, came: u32, event: Event) {
        self.put(Event {
            at_ns: at,
            tid: left,
            tgid: process_of(left),
            other_tid: came,
            other_tgid: process_of(came),
            kind: Kind::Switched as u8,
            port: self.cpu,
            name: name(if left >= FOREIGN || came >= FOREIGN {
                "other/1"
            } else {
                ""
            }),
            ..event
        });
    }

    /// The thread goes to wait in a call; the CPU is idle then.
    fn off(&mut self, at: u64, tid: u32, call: &str, state: u32, class: Class) {
        let event = Event {
            nr: number(call),
            value: state,
            class: class as u8,
            flags: LEFT,
            ..Event::default()
        };
        self.switch(at, tid, 0, event);
    }

    /// The thread comes onto a CPU that somebody leaves, 0 for an idle one.
    fn on(&mut self, at: u64, tid: u32, after: u32) {
        let event = Event {
            flags: CAME,
            ..Event::default()
        };
        self.switch(at, after, tid, event);
    }

    /// Three samples met a thread at stack 7.
    fn ran(&mut self, at: u64, tid: u32) {
        self.stacks.samples.push(Located {
            tid,
            at_ns: at,
            stack: 7,
            count: 3,
        });
    }

    /// A process starts another one.
    fn fork(&mut self, at: u64, parent: u32, child: u32) {
        self.put(Event {
            at_ns: at,
            tid: child,
            tgid: child,
            other_tid: parent,
            other_tgid: parent,
            kind: Kind::Forked as u8,
            ..Event::default()
        });
    }

    fn preempt(&mut self, at: u64, tid: u32) {
        let event = Event {
            flags: LEFT | PREEMPTED,
            ..Event::default()
        };
        self.switch(at, tid, FOREIGN, event);
    }

    fn wake(&mut self, at: u64, tid: u32, waker: u32, call: &str) {
        self.put(Event {
            at_ns: at,
            tid,
            tgid: process_of(tid),
            other_tid: waker,
            other_tgid: process_of(waker),
            nr: number(call),
            kind: Kind::Waking as u8,
            flags: if waker == 0 { KERNEL } else { 0 },
            name: name(if waker == BRINGER {
                "worker"
            } else {
                "other/1"
            }),
            ..Event::default()
        });
    }

    fn traced(self) -> (Traced, Stacks) {
        let traced = Traced {
            targets: vec!["server".to_owned()],
            members: HashMap::from([(SERVER, 0)]),
            ports: HashMap::new(),
            green: if self.green {
                HashSet::from([SERVER])
            } else {
                HashSet::new()
            },
            names: (SERVER..SERVER + 9)
                .map(|tid| (tid, format!("t{tid}")))
                .collect(),
            peers: (500..520)
                .map(|sk| (sk, 0, format!("10.0.0.1:{sk}")))
                .collect(),
            from_ns: 0,
            begin_ns: 0,
            to_ns: self.to,
            one_in: 1,
            lost: 3,
            events: self.events,
            ..Traced::default()
        };
        (traced, self.stacks)
    }

    fn account(self) -> TargetTurns {
        let (traced, stacks) = self.traced();
        let turns = traced.account(&stacks);
        assert_eq!(turns.lost, 3);
        let target = turns.targets.into_iter().next().unwrap();
        adds_up(&target);
        target
    }
}

fn adds_up(target: &TargetTurns) {
    let tail = target.tail.as_ref().map(|t| &t.account);
    let threads = target.threads.as_ref().map(|t| &t.account);
    for account in [&target.account].into_iter().chain(tail).chain(threads) {
        let sum: u64 = account.places.iter().map(|place| place.total_ns).sum();
        assert_eq!(sum, account.total_ns, "{account:?}");
    }
}

/// Time at a place, over all turns.
fn at(target: &TargetTurns, place: Place, detail: &str, waker: &str) -> u64 {
    let rows = target.account.places.iter();
    let rows = rows.filter(|p| p.place == place && p.detail == detail && p.waker == waker);
    rows.map(|row| row.total_ns).sum()
}

fn placed(samples: &[PlaceSamples]) -> Vec<(Place, u32, u64)> {
    let samples = samples.iter();
    samples.map(|s| (s.place, s.stack, s.samples)).collect()
}

/// Whatever for.
fn time_at(target: &TargetTurns, place: Place) -> u64 {
    let rows = target.account.places.iter();
    let rows = rows.filter(|p| p.place == place);
    rows.map(|row| row.total_ns).sum()
}

#[track_caller]
fn check(tape: Tape, turns: u64, expected: &[(Place, &str, &str, u64)]) -> TargetTurns {
    let target = tape.account();
    for &(place, detail, waker, ns) in expected {
        let found = at(&target, place, detail, waker);
        assert_eq!(
            found, ns,
            "{place:?} {detail} {waker}: {:#?}",
            target.account.places
        );
    }
    let total: u64 = expected.iter().map(|row| row.3).sum();
    assert_eq!(
        target.account.total_ns, total,
        "{:#?}",
        target.account.places
    );
    assert_eq!(target.account.turns, turns);
    target
}

/// An event loop that sleeps in epoll until it is woken.
fn asleep(at: u64) -> Tape {
    let mut tape = Tape::default();
    tape.off(at, SERVER, "epoll_wait", INTERRUPTIBLE, Class::None);
    if tape.events[0].nr < 0 {
        // Some architectures have only the newer call.
        tape.events[0].nr = number("epoll_pwait");
    }
    tape
}

fn epoll() -> &'static str {
    if number("epoll_wait") < 0 {
        "epoll_pwait"
    } else {
        "epoll_wait"
    }
}

#[test]
fn in_an_event_loop_a_request_waits_for_the_one_before() {
    let mut tape = asleep(10);
    tape.arrive(1_000, 1);
    tape.wake(1_050, SERVER, FOREIGN, "sendto");
    tape.arrive(1_100, 2);
    tape.on(1_150, SERVER, FOREIGN);
    tape.read(1_200, SERVER, 1);
    tape.write(1_500, SERVER, 1);
    tape.read(1_510, SERVER, 2);
    tape.write(1_800, SERVER, 2);
    check(
        tape,
        2,
        &[
            (Place::WakeUp, "", "", 50),
            (Place::RunQueue, "process other", "", 100 + 50),
            (Place::OtherTurns, "", "", 350),
            (Place::Loop, "", "", 10),
            (Place::OnCpu, "", "", 350 + 290),
        ],
    );
}

/// A loop with room for one request at a time: it answers that of connection 1 after a timer, and does not poll for 2.
#[test]
fn a_loop_that_sleeps_though_data_is_there_does_not_ask_for_it() {
    let mut tape = asleep(10);
    tape.request(1_000);
    tape.arrive(10_000, 2);
    for (off, on) in [(20_000, 300_000), (320_000, 600_000)] {
        tape.off(off, SERVER, epoll(), INTERRUPTIBLE, Class::None);
        tape.wake(on, SERVER, 0, "");
        tape.on(on, SERVER, 0);
    }
    tape.write(610_000, SERVER, 1);
    tape.read(620_000, SERVER, 2);
    tape.write(650_000, SERVER, 2);
    let target = tape.account();
    assert_eq!(time_at(&target, Place::ReadPaused), 590_000);
    assert_eq!(time_at(&target, Place::WakeUp), 0);
    // The loop has just gone to sleep: what comes then ends that.
    let mut tape = asleep(10);
    tape.request(1_000);
    tape.write(5_000, SERVER, 1);
    tape.arrive(9_000, 2);
    tape.off(10_000, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    tape.wake(30_000, SERVER, 0, "");
    tape.on(40_000, SERVER, 0);
    tape.read(41_000, SERVER, 2);
    tape.write(50_000, SERVER, 2);
    let target = tape.account();
    assert_eq!(time_at(&target, Place::ReadPaused), 0);
    assert_eq!(time_at(&target, Place::WakeUp), 30_000);
}

#[test]
fn what_ended_before_the_part_that_is_asked_for_is_left_out() {
    let mut tape = asleep(10);
    for (sk, at) in [(1, 1_000), (2, 3_000)] {
        tape.arrive(at, sk);
        tape.wake(at + 50, SERVER, FOREIGN, "sendto");
        tape.on(at + 150, SERVER, FOREIGN);
        tape.read(at + 200, SERVER, sk);
        tape.write(at + 500, SERVER, sk);
        tape.off(at + 600, SERVER, "epoll_wait", INTERRUPTIBLE, Class::None);
    }
    // It waited to be accepted since before, as all do that are opened at once.
    tape.socket(1_800, Kind::Arrived, Class::Client, 3, 0, UNACCEPTED);
    tape.on(3_800, SERVER, 0);
    tape.read(3_900, SERVER, 3);
    tape.write(3_950, SERVER, 3);
    let to = tape.to;
    let (mut traced, stacks) = tape.traced();
    traced.only(2_000, u64::MAX);
    let turns = traced.account(&stacks);
    let target = &turns.targets[0];
    assert_eq!((turns.window_ns, turns.traced_ns), (to - 2_000, to));
    adds_up(target);
    assert_eq!(
        (target.account.turns, target.account.total_ns),
        (1, 500),
        "{:#?}",
        target.account
    );
    let serving = target.threads.as_ref().unwrap();
    assert_eq!(serving.account.total_ns, to - 2_000);
}

#[test]
fn a_loop_that_puts_work_off_makes_a_request_wait_for_others_and_not_out_of_sight() {
    let mut tape = asleep(10);
    tape.arrive(1_000, 1);
    tape.wake(1_050, SERVER, FOREIGN, "sendto");
    tape.arrive(1_100, 2);
    tape.on(1_150, SERVER, FOREIGN);
    // Both are read before the first is answered, as by a server that queues tasks.
    tape.read(1_200, SERVER, 1);
    tape.read(1_300, SERVER, 2);
    tape.write(1_500, SERVER, 1);
    tape.write(1_700, SERVER, 2);
    check(
        tape,
        2,
        &[
            (Place::WakeUp, "", "", 50),
            (Place::RunQueue, "process other", "", 100 + 50),
            (Place::OnCpu, "", "", 150 + 200),
            (Place::OtherTurns, "", "", 200 + 350),
            (Place::Hidden, "", "", 0),
        ],
    );
}

#[test]
fn an_event_loop_that_serves_nobody_is_the_loop_itself() {
    let mut tape = asleep(10);
    tape.wake(900, SERVER, 0, "");
    tape.on(1_000, SERVER, 0);
    tape.arrive(1_500, 1);
    tape.off(2_000, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    tape.wake(2_005, SERVER, 0, "");
    tape.on(2_010, SERVER, 0);
    tape.read(2_020, SERVER, 1);
    tape.write(2_030, SERVER, 1);
    check(
        tape,
        1,
        &[
            (Place::Loop, "", "", 500),
            (Place::WakeUp, "", "", 10),
            (Place::OnCpu, "", "", 20),
        ],
    );
}

#[test]
fn a_blocked_event_loop_blocks_the_others_too() {
    let mut tape = asleep(10);
    tape.wake(1_000, SERVER, FOREIGN, "sendto");
    tape.on(1_000, SERVER, 0);
    tape.arrive(1_100, 1);
    tape.read(1_200, SERVER, 1);
    tape.arrive(1_250, 2);
    tape.off(1_300, SERVER, "openat", UNINTERRUPTIBLE, Class::None);
    tape.wake(2_300, SERVER, 0, "");
    tape.on(2_310, SERVER, 0);
    tape.write(2_400, SERVER, 1);
    tape.read(2_500, SERVER, 2);
    tape.write(2_600, SERVER, 2);
    check(
        tape,
        2,
        &[
            (Place::OnCpu, "", "", 100 + 100 + 90 + 100),
            // With the way back onto the CPU.
            (Place::Blocked, "disk", "interrupt", 1_010),
            (Place::OthersBlocked, "disk", "interrupt", 1_010),
            (Place::OtherTurns, "", "", 50 + 90),
            (Place::Loop, "", "", 100),
        ],
    );
}

#[test]
fn what_blocks_the_loop_after_an_answer_is_no_requests() {
    let mut tape = asleep(10);
    tape.wake(1_000, SERVER, FOREIGN, "sendto");
    tape.on(1_000, SERVER, 0);
    tape.arrive(1_100, 1);
    tape.read(1_200, SERVER, 1);
    tape.write(1_300, SERVER, 1);
    tape.arrive(1_350, 2);
    tape.off(1_400, SERVER, "clock_nanosleep", INTERRUPTIBLE, Class::None);
    tape.wake(9_400, SERVER, 0, "");
    tape.on(9_410, SERVER, 0);
    tape.read(9_500, SERVER, 2);
    tape.write(9_600, SERVER, 2);
    let places = [
        (Place::OnCpu, "", "", 100 + 100 + 100),
        (Place::Loop, "", "", 50 + 90),
        (Place::Loop, "sleep", "timer", 8_010),
    ];
    let turns = check(tape, 2, &places);
    // The thread's own time: asleep until 1,000, then 600 at work, and what is left of the window.
    let threads = turns.threads.expect("one thread reads");
    assert_eq!(threads.threads, 1);
    let of = |place: Place| -> u64 {
        let places = threads.account.places.iter();
        places
            .filter(|p| p.place == place)
            .map(|p| p.total_ns)
            .sum()
    };
    assert_eq!((of(Place::Idle), of(Place::Loop)), (990, 8_010));
    let sum: u64 = threads.account.places.iter().map(|p| p.total_ns).sum();
    assert_eq!(sum, threads.account.total_ns);
}

/// Of a connection on which one request is followed and the next is not: the stamp of the answer comes too late to be
/// seen, and the turn ends no later than where the next request begins.
#[test]
fn a_turn_ends_where_its_connection_goes_on_with_what_is_not_followed() {
    let mut tape = asleep(0);
    tape.request(1_000);
    tape.socket(1_400, Kind::Arrived, Class::Client, 1, 0, UNFOLLOWED);
    tape.socket(1_500, Kind::Received, Class::Client, 0, SERVER, UNFOLLOWED);
    tape.off(2_000, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    tape.request(5_000);
    tape.write(5_300, SERVER, 1);
    tape.off(5_400, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    let target = tape.account();
    assert_eq!(target.account.turns, 2);
    assert_eq!(target.account.total_ns, 400 + 300);
    assert_eq!(target.irregular, 0);
}

#[test]
fn a_loop_that_sleeps_before_it_reads_sleeps_for_no_request() {
    let mut tape = asleep(10);
    tape.arrive(1_000, 1);
    tape.wake(1_000, SERVER, FOREIGN, "sendto");
    tape.on(1_010, SERVER, 0);
    tape.arrive(2_000, 2);
    // A timer was due as well, and what it begins sleeps.
    tape.off(5_000, SERVER, "clock_nanosleep", INTERRUPTIBLE, Class::None);
    tape.wake(9_000, SERVER, 0, "");
    tape.on(9_010, SERVER, 0);
    tape.read(9_100, SERVER, 1);
    tape.write(9_200, SERVER, 1);
    tape.read(9_300, SERVER, 2);
    tape.write(9_400, SERVER, 2);
    let places = [
        (Place::WakeUp, "", "", 10),
        (Place::OnCpu, "", "", 3_990 + 90 + 100 + 100),
        (Place::Loop, "", "", 100),
        (Place::Loop, "sleep", "timer", 2 * 4_010),
        (Place::OtherTurns, "", "", 3_000 + 90 + 100),
    ];
    check(tape, 2, &places);
}

#[test]
fn an_event_loop_that_waits_for_its_upstream_holds_the_others_up_there() {
    let mut tape = asleep(10);
    tape.wake(1_000, SERVER, FOREIGN, "sendto");
    tape.on(1_000, SERVER, 0);
    tape.arrive(1_100, 1);
    tape.arrive(1_150, 2);
    tape.read(1_200, SERVER, 1);
    tape.ask(1_300, SERVER, 500);
    let wait = Event {
        nr: number("recvfrom"),
        value: INTERRUPTIBLE,
        class: Class::Upstream as u8,
        flags: LEFT,
        sk: 500,
        ..Event::default()
    };
    tape.switch(1_400, SERVER, 0, wait);
    tape.answer(5_400, 500);
    tape.wake(5_400, SERVER, 0, "");
    tape.on(5_410, SERVER, 0);
    tape.take(5_500, SERVER, 500);
    tape.write(5_600, SERVER, 1);
    tape.read(5_700, SERVER, 2);
    tape.write(5_800, SERVER, 2);
    let turns = tape.account();
    let peer = "upstream 10.0.0.1:500";
    assert_eq!(at(&turns, Place::OthersBlocked, peer, "interrupt"), 4_000);
    let threads = turns.threads.expect("one thread reads");
    let waited = threads
        .account
        .places
        .iter()
        .find(|p| p.place == Place::Upstream);
    assert_eq!(waited.map(|p| p.total_ns), Some(4_000));
}

#[test]
fn a_lock_is_blocked_until_its_holder_wakes() {
    let mut tape = Tape::default();
    let (one, holder) = (SERVER + 2, SERVER + 3);
    tape.off(10, one, "recvfrom", INTERRUPTIBLE, Class::Client);
    tape.arrive(900, 1);
    tape.wake(910, one, FOREIGN, "sendto");
    tape.on(920, one, 0);
    tape.read(1_000, one, 1);
    tape.off(1_100, one, "futex", INTERRUPTIBLE, Class::None);
    tape.wake(3_000, one, holder, "futex");
    tape.on(3_050, one, holder);
    tape.write(3_100, one, 1);
    tape.stacks.waits.push(Located {
        tid: one,
        at_ns: 1_105,
        stack: 7,
        count: 1,
    });
    let target = check(
        tape,
        1,
        &[
            (Place::WakeUp, "", "", 10 + 10),
            (Place::OnCpu, "", "", 80 + 100 + 50),
            (Place::Blocked, "futex", "thread t13", 1_900),
            (Place::RunQueue, "thread t13", "", 50),
        ],
    );
    let stack = target.account.places.iter().find_map(|place| place.stack);
    assert_eq!(stack, Some(7));
}

#[test]
fn who_waits_for_a_cpu_waits_for_who_ran_there_longest() {
    let (busy, brief, elsewhere) = (SERVER + 1, SERVER + 2, SERVER + 3);
    let mut tape = asleep(10);
    tape.cpu = 1;
    tape.on(20, elsewhere, 0);
    tape.cpu = 0;
    tape.on(30, busy, 0);
    tape.arrive(1_000, 1);
    tape.wake(1_000, SERVER, FOREIGN, "sendto");
    // The one that leaves it the CPU had it for a moment.
    let over = |flags| Event {
        flags,
        ..Event::default()
    };
    tape.switch(1_900, busy, brief, over(LEFT | CAME | PREEMPTED));
    tape.switch(1_950, brief, SERVER, over(LEFT | CAME | PREEMPTED));
    tape.read(1_960, SERVER, 1);
    // Whoever takes the CPU away from it is not who has it for most of the time.
    tape.switch(2_000, SERVER, brief, over(LEFT | CAME | PREEMPTED));
    tape.switch(2_100, brief, busy, over(LEFT | CAME | PREEMPTED));
    tape.switch(2_800, busy, SERVER, over(LEFT | CAME | PREEMPTED));
    tape.write(2_900, SERVER, 1);
    tape.cpu = 1;
    tape.off(3_000, elsewhere, "futex", INTERRUPTIBLE, Class::None);
    check(
        tape,
        1,
        &[
            (Place::RunQueue, "thread t11", "", 950 + 800),
            (Place::OnCpu, "", "", 10 + 40 + 100),
        ],
    );
}

/// Two processes of a database, each with a connection of its own; `waker` ends the poll of the first, in the midst of
/// its request, in a call.
fn in_a_poll_behind(waker: u32, call: &str) -> TargetTurns {
    let mut tape = Tape::default();
    let (one, other) = (SERVER + 2, SERVER + 3);
    for (at, tid, sk) in [(10, one, 1), (20, other, 2)] {
        tape.off(at, tid, epoll(), INTERRUPTIBLE, Class::None);
        tape.arrive(900, sk);
        tape.wake(910 + at, tid, FOREIGN, "sendto");
        tape.on(920 + at, tid, 0);
        tape.read(1_000 + at, tid, sk);
    }
    tape.off(1_100, one, epoll(), INTERRUPTIBLE, Class::None);
    let sibling = SERVER + 1;
    tape.put(Event {
        at_ns: 500_000,
        tid: one,
        tgid: SERVER,
        other_tid: waker,
        other_tgid: sibling,
        nr: number(call),
        kind: Kind::Waking as u8,
        ..Event::default()
    });
    tape.on(500_000, one, 0);
    tape.write(500_050, one, 1);
    tape.write(500_100, other, 2);
    let (mut traced, stacks) = tape.traced();
    traced.members.insert(sibling, 0);
    let target = traced.account(&stacks).targets.into_iter().next().unwrap();
    adds_up(&target);
    target
}

#[test]
fn a_process_that_another_one_signals_stood_behind_it() {
    let target = in_a_poll_behind(SERVER + 3, "kill");
    assert_eq!(
        at(&target, Place::Blocked, "signalled", "thread t13"),
        498_900
    );
    assert_eq!(at(&target, Place::Hidden, "", "timer"), 0);
    // Who serves no connection is a helper, and what it does is shared out.
    let target = in_a_poll_behind(SERVER + 4, "kill");
    assert_eq!(at(&target, Place::Blocked, "signalled", "thread t14"), 0);
    // An interrupt meets a process in any other call.
    let target = in_a_poll_behind(SERVER + 3, "read");
    assert_eq!(at(&target, Place::Hidden, "", "timer"), 498_900);
}

/// A thread hands its question to a client library, whose reactor asks and reads, and whose pool signals. `signals`:
/// the reactor wakes the pool, or another thread does.
fn asked_by_a_library(signals: bool) -> Tape {
    let (reactor, pool) = (SERVER + 2, SERVER + 3);
    let mut tape = asleep(10);
    tape.off(20, reactor, epoll(), INTERRUPTIBLE, Class::None);
    tape.off(30, pool, "futex", INTERRUPTIBLE, Class::None);
    tape.request(1_000);
    tape.wake(1_100, reactor, SERVER, "write");
    tape.on(1_100, reactor, 0);
    tape.off(1_120, SERVER, "futex", INTERRUPTIBLE, Class::None);
    tape.ask(1_150, reactor, 500);
    tape.off(1_200, reactor, epoll(), INTERRUPTIBLE, Class::None);
    tape.answer(3_000, 500);
    tape.wake(3_000, reactor, 0, "");
    tape.on(3_010, reactor, 0);
    tape.take(3_020, reactor, 500);
    let waker = if signals { reactor } else { SERVER + 4 };
    tape.wake(3_030, pool, waker, "futex");
    tape.on(3_030, pool, 0);
    tape.wake(3_080, SERVER, pool, "futex");
    tape.on(3_090, SERVER, 0);
    tape.write(3_200, SERVER, 1);
    tape
}

#[test]
fn who_waits_for_a_reactor_of_its_own_server_waits_for_what_that_one_asked() {
    let target = asked_by_a_library(true).account();
    let peer = "10.0.0.1:500";
    assert_eq!(at(&target, Place::Upstream, peer, ""), 1_850);
    // Through the hands of two threads, and back onto the CPU.
    assert_eq!(at(&target, Place::UpstreamUnread, peer, ""), 90);
    assert_eq!(time_at(&target, Place::Blocked), 30);
    // Whoever signals without an answer has a lock or a condition, from when it was itself woken on.
    let target = asked_by_a_library(false).account();
    assert_eq!(time_at(&target, Place::Upstream), 0);
    assert_eq!(time_at(&target, Place::Blocked), 1_970 - 60);
}

/// The same, by a thread whose runtime tells; `says`: it has told the reactor over a connection that nobody answers.
fn asked_by_a_told_thread(says: bool) -> TargetTurns {
    let mut tape = asked_by_a_library(true);
    if says {
        tape.ask(1_090, SERVER, 501);
    }
    tape.events.sort_by_key(|event| event.at_ns);
    let waits = told("cpython", ToldState::Signal, "Future.result");
    tape.stacks.told.add(SERVER, When::of_holder(500), waits);
    tape.account()
}

#[test]
fn who_has_told_a_reactor_to_ask_waits_for_what_that_one_asked() {
    let peer = "10.0.0.1:500";
    let target = asked_by_a_told_thread(true);
    assert_eq!(at(&target, Place::Upstream, peer, ""), 1_850);
    assert_eq!(at(&target, Place::UpstreamUnread, peer, ""), 90);
    // Else it may have waited for the lock of the interpreter, which the reactor had.
    let target = asked_by_a_told_thread(false);
    assert_eq!(time_at(&target, Place::Upstream), 0);
    assert_eq!(time_at(&target, Place::Blocked), 1_970);
}

#[test]
fn what_nobody_answers_is_a_question_of_each() {
    let (one, other, by, wakes) = (SERVER + 1, SERVER + 2, SERVER + 3, 500);
    let mut tape = Tape::default();
    for (tid, sk) in [(one, 1), (other, 2)] {
        tape.off(10, tid, "read", INTERRUPTIBLE, Class::Client);
        tape.arrive(1_000, sk);
        tape.wake(1_000, tid, FOREIGN, "sendto");
        tape.on(1_000, tid, 0);
        tape.read(1_000, tid, sk);
    }
    // Both wake the same thread through one connection, and wait for its signal.
    for tid in [one, other] {
        tape.ask(1_100, tid, wakes);
        tape.off(1_100, tid, "futex", INTERRUPTIBLE, Class::None);
    }
    for (tid, sk, end) in [(other, 2, 3_100), (one, 1, 5_100)] {
        tape.wake(end, tid, by, "futex");
        tape.on(end, tid, 0);
        tape.write(end + 100, tid, sk);
    }
    let target = tape.account();
    assert_eq!(time_at(&target, Place::Blocked), 2_000 + 4_000);
    assert_eq!(time_at(&target, Place::Hidden), 0);
}

/// A thread waits for another one, which sleeps, reads a file and signals; `other` is with a request of its own then.
fn until_signalled(other: bool) -> TargetTurns {
    let (one, by) = (SERVER + 2, SERVER + 3);
    let mut tape = Tape {
        cpu: 1,
        ..Tape::default()
    };
    tape.on(5, by, 0);
    if other {
        tape.arrive(500, 2);
        tape.read(510, by, 2);
    }
    tape.cpu = 0;
    tape.off(10, one, "read", INTERRUPTIBLE, Class::Client);
    tape.arrive(1_000, 1);
    tape.wake(1_000, one, FOREIGN, "sendto");
    tape.on(1_000, one, 0);
    tape.read(1_000, one, 1);
    tape.off(1_100, one, "futex", INTERRUPTIBLE, Class::None);
    tape.cpu = 1;
    tape.off(1_200, by, "nanosleep", INTERRUPTIBLE, Class::None);
    tape.wake(2_200, by, 0, "");
    tape.on(2_200, by, 0);
    tape.off(2_300, by, "pread64", UNINTERRUPTIBLE, Class::None);
    tape.wake(2_700, by, 0, "");
    tape.on(2_700, by, 0);
    tape.wake(3_000, one, by, "futex");
    tape.cpu = 0;
    tape.on(3_000, one, 0);
    tape.write(3_100, one, 1);
    if other {
        tape.write(3_200, by, 2);
    }
    tape.account()
}

#[test]
fn who_waits_for_a_thread_that_serves_nobody_waits_for_what_that_one_waits_for() {
    let target = until_signalled(false);
    assert_eq!(at(&target, Place::Blocked, "sleep", "timer"), 1_000);
    assert_eq!(at(&target, Place::Blocked, "disk", "interrupt"), 400);
    let of_it = |place: &record::PlaceTime| place.helper == "thread t13";
    let blocked = |place: &&record::PlaceTime| place.place == Place::Blocked;
    let mut waits = target.account.places.iter().filter(blocked);
    assert!(waits.all(of_it), "a thread's own sleep is another row");
    assert_eq!(time_at(&target, Place::OnCpu), 100 + 100 + 100 + 300 + 100);
    assert_eq!(at(&target, Place::Blocked, "futex", "thread t13"), 0);
    // One that serves another request meanwhile has a lock.
    let target = until_signalled(true);
    assert_eq!(at(&target, Place::Blocked, "futex", "thread t13"), 1_900);
}

#[test]
fn a_loop_asks_for_whom_it_opened_the_connection() {
    let mut tape = Tape::default();
    let (loops, one, other) = (SERVER + 2, 11, 12);
    tape.off(10, loops, epoll(), INTERRUPTIBLE, Class::None);
    tape.arrive(900, 1);
    tape.arrive(900, 2);
    tape.wake(900, loops, FOREIGN, "sendto");
    tape.on(1_000, loops, 0);
    let connect = |tape: &mut Tape, at: u64, sk: u64| {
        tape.socket(at, Kind::Connecting, Class::Upstream, sk, loops, 0);
    };
    tape.read(1_000, loops, 1);
    connect(&mut tape, 1_100, one);
    tape.read(1_200, loops, 2);
    connect(&mut tape, 1_300, other);
    tape.off(1_400, loops, epoll(), INTERRUPTIBLE, Class::None);
    tape.wake(2_000, loops, FOREIGN, "sendto");
    tape.on(2_000, loops, 0);
    // It may write to both, to the last one first.
    tape.ask(2_100, loops, other);
    tape.ask(2_200, loops, one);
    tape.off(2_300, loops, epoll(), INTERRUPTIBLE, Class::None);
    tape.answer(10_000, one);
    tape.wake(10_000, loops, FOREIGN, "sendto");
    tape.on(10_000, loops, 0);
    tape.take(10_000, loops, one);
    tape.write(10_100, loops, 1);
    tape.off(10_200, loops, epoll(), INTERRUPTIBLE, Class::None);
    tape.answer(20_000, other);
    tape.wake(20_000, loops, FOREIGN, "sendto");
    tape.on(20_000, loops, 0);
    tape.take(20_000, loops, other);
    tape.write(20_100, loops, 2);
    let (traced, stacks) = tape.traced();
    let target = traced.account(&stacks).targets.into_iter().next().unwrap();
    adds_up(&target);
    let waits = target
        .account
        .places
        .iter()
        .filter(|p| p.place == Place::Upstream);
    let waited: u64 = waits.map(|p| p.total_ns).sum();
    assert!(
        (26_000..28_000).contains(&waited),
        "{:#?}",
        target.account.places
    );
    assert_eq!(at(&target, Place::Hidden, "", ""), 0);
}

#[test]
fn a_thread_without_work_is_parked_and_not_blocked() {
    let mut tape = Tape::default();
    let one = SERVER + 2;
    tape.arrive(900, 1);
    tape.read(1_000, one, 1);
    tape.write(1_100, one, 1);
    tape.off(1_200, one, "futex", INTERRUPTIBLE, Class::None);
    tape.arrive(5_000, 2);
    tape.wake(5_100, one, SERVER, "futex");
    tape.on(5_110, one, 0);
    tape.read(5_200, one, 2);
    tape.write(5_300, one, 2);
    check(
        tape,
        2,
        &[
            (Place::OnCpu, "", "", 200 + 190),
            (Place::WakeUp, "", "", 100 + 10),
        ],
    );
}

#[test]
fn a_proxy_waits_for_its_upstream_and_its_upstream_for_it() {
    let mut tape = asleep(10);
    tape.wake(900, SERVER, FOREIGN, "sendto");
    tape.on(900, SERVER, 0);
    tape.arrive(950, 1);
    tape.read(1_000, SERVER, 1);
    tape.ask(1_100, SERVER, 500);
    tape.off(1_150, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    tape.arrive(1_400, 2);
    tape.wake(1_400, SERVER, FOREIGN, "sendto");
    tape.on(1_410, SERVER, 0);
    tape.read(1_450, SERVER, 2);
    tape.answer(2_000, 500);
    tape.write(2_500, SERVER, 2);
    tape.take(2_600, SERVER, 500);
    tape.write(2_700, SERVER, 1);
    check(
        tape,
        2,
        &[
            (Place::OnCpu, "", "", 50 + 100 + 50 + 100 + 40 + 1_050),
            (Place::Upstream, "10.0.0.1:500", "", 850),
            (Place::UpstreamUnread, "10.0.0.1:500", "", 600),
            (Place::WakeUp, "", "", 10),
        ],
    );
}

#[test]
fn a_thread_that_waits_for_a_database_is_at_the_upstream() {
    let mut tape = Tape::default();
    let one = SERVER + 1;
    tape.arrive(900, 1);
    tape.read(1_000, one, 1);
    for turn in 0..3_u64 {
        let from = 1_000 + turn * 1_000;
        tape.ask(from + 100, one, 501);
        tape.off(from + 110, one, "recvfrom", INTERRUPTIBLE, Class::Upstream);
        tape.answer(from + 800, 501);
        tape.wake(from + 800, one, FOREIGN, "sendto");
        tape.on(from + 820, one, 0);
        tape.take(from + 830, one, 501);
    }
    tape.write(4_000, one, 1);
    check(
        tape,
        1,
        &[
            (Place::OnCpu, "", "", 100 + 3 * (100 + 10 + 10 + 170)),
            (Place::Upstream, "10.0.0.1:501", "", 3 * 690),
            (Place::WakeUp, "", "", 3 * 20),
        ],
    );
}

#[test]
fn where_all_threads_are_busy_a_request_waits_for_a_free_one() {
    let mut tape = Tape::default();
    let (one, two) = (SERVER + 1, SERVER + 2);
    tape.arrive(1_000, 1);
    tape.arrive(1_000, 2);
    tape.read(1_010, one, 1);
    tape.read(1_020, two, 2);
    tape.arrive(1_100, 3);
    tape.write(2_000, one, 1);
    tape.read(2_010, one, 3);
    tape.write(2_100, one, 3);
    tape.write(3_000, two, 2);
    check(
        tape,
        3,
        &[
            (Place::OnCpu, "", "", 1_000 + 2_000 + 90),
            (Place::NoFreeThread, "", "", 910),
        ],
    );
}

/// Two threads of three have a request for 900 us each, in turn; the third only polls, and hands over.
fn one_polls_for_all(rests: &'static str) -> TargetTurns {
    let mut tape = Tape::default();
    let (one, two, three) = (SERVER + 1, SERVER + 2, SERVER + 3);
    let mut thread = [one, two, three];
    for tid in thread {
        tape.off(10, tid, rests, INTERRUPTIBLE, Class::None);
    }
    for round in 0..6 {
        let at = 1_000_000 + round * 1_000_000;
        for (connection, tid) in thread.into_iter().enumerate() {
            tape.arrive(at, 1 + connection as u64);
            if connection < 2 {
                tape.wake(at, tid, FOREIGN, "sendto");
                tape.on(at, tid, 0);
                tape.read(at + 100, tid, 1 + connection as u64);
            }
        }
        for (connection, tid) in (1..).zip(&thread[..2]) {
            let tid = *tid;
            tape.write(at + 900_000, tid, connection);
            if connection == 1 {
                tape.read(at + 900_100, tid, 3);
                tape.write(at + 900_200, tid, 3);
            }
            tape.off(at + 900_300, tid, rests, INTERRUPTIBLE, Class::None);
        }
        thread.rotate_left(1);
    }
    tape.account()
}

#[test]
fn a_thread_that_polls_while_a_request_stands_unread_is_not_free_for_it() {
    let slack = 6 * 1_000;
    let polls = one_polls_for_all(epoll());
    let waited = at(&polls, Place::NoFreeThread, "", "");
    assert!(
        waited.abs_diff(6 * 900_000) <= slack,
        "{:#?}",
        polls.account
    );
    // A wait in a futex before a thread's first request is taken for that request's.
    let rests = one_polls_for_all("futex");
    let unseen = at(&rests, Place::Hidden, "not yet read", "");
    assert!(
        unseen.abs_diff(5 * 900_000) <= slack,
        "{:#?}",
        rests.account
    );
}

#[test]
fn the_next_request_of_a_connection_waits_until_the_log_of_the_one_before_is_written() {
    let mut tape = Tape::default();
    let threads = [SERVER + 1, SERVER + 2];
    for tid in threads {
        tape.off(10, tid, "futex", INTERRUPTIBLE, Class::None);
    }
    for round in 0..6 {
        let at = 1_000 + round * 10_000;
        let tid = threads[round as usize % 2];
        tape.wake(at - 10, tid, FOREIGN, "futex");
        tape.on(at - 10, tid, 0);
        tape.read(at, tid, 1);
        tape.write(at + 100, tid, 1);
        tape.arrive(at + 150, 1);
        tape.off(at + 200, tid, "write", INTERRUPTIBLE, Class::Pipe);
        tape.wake(at + 9_200, tid, FOREIGN, "read");
        tape.on(at + 9_200, tid, 0);
        tape.off(at + 9_250, tid, "futex", INTERRUPTIBLE, Class::None);
    }
    let target = tape.account();
    // Nothing came before the first of the five that were answered.
    let log = at(&target, Place::Loop, "pipe_write", "process other");
    assert_eq!(log, 4 * 9_000, "{:#?}", target.account);
    let tidies = at(&target, Place::Loop, "", "");
    assert_eq!(tidies, 4 * 100, "{:#?}", target.account);
}

/// A loop that reads all requests and writes all responses, and one thread that it hands them to: three requests that
/// take 1 us each on the thread, one after another.
fn behind_a_loop(call: &str, class: Class, helper: u32) -> Tape {
    let mut tape = asleep(10);
    tape.off(20, helper, call, INTERRUPTIBLE, class);
    tape.wake(900, SERVER, FOREIGN, "sendto");
    tape.on(900, SERVER, 0);
    for turn in 0..3 {
        tape.arrive(900, 1 + turn);
        tape.read(1_000 + turn, SERVER, 1 + turn);
    }
    tape
}

/// They are handed to a thread of a pool: a fifth of its work is its own, the rest a wait from one time to another.
fn handed_over_to(pool: u32, wait: impl Fn(&mut Tape, u64, u64)) -> Tape {
    let mut tape = behind_a_loop("futex", Class::None, pool);
    tape.wake(1_100, pool, SERVER, "futex");
    tape.off(1_100, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    tape.on(1_100, pool, 0);
    for turn in 0..3 {
        let from = 1_100 + turn * 1_000;
        wait(&mut tape, from + 200, from + 1_000);
        tape.on(from + 1_000, pool, 0);
        tape.wake(from + 1_000, SERVER, pool, "write");
        tape.on(from + 1_000, SERVER, 0);
        tape.write(from + 1_000, SERVER, 1 + turn);
        tape.off(from + 1_000, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    }
    tape
}

/// It sleeps.
fn handed_over(pool: u32) -> Tape {
    handed_over_to(pool, |tape, from, to| {
        tape.off(from, pool, "nanosleep", INTERRUPTIBLE, Class::None);
        tape.wake(to, pool, 0, "");
    })
}

#[test]
fn behind_an_event_loop_a_request_is_with_a_thread_of_the_pool_or_waits_for_one() {
    let tape = handed_over(SERVER + 4);
    let target = tape.account();
    let seen = |place, detail, waker| at(&target, place, detail, waker);
    // One of three is with the thread, the next two wait for it; and so on until one is left.
    let near = |found: u64, expected: u64| {
        let off = found.abs_diff(expected);
        assert!(
            off <= 10,
            "{found} {expected}: {:#?}",
            target.account.places
        );
    };
    near(seen(Place::Blocked, "sleep", "timer"), 3 * 800);
    near(seen(Place::NoFreeThread, "", ""), 2_000 + 1_000);
    // Until the thread was woken nobody had the other two.
    near(seen(Place::Hidden, "", ""), 200);
    let threads = target.threads.unwrap();
    assert_eq!((threads.threads, threads.name.as_str()), (1, "t14"));
    let asleep = threads.account.places.iter().find(|p| p.detail == "sleep");
    assert_eq!(asleep.map(|p| p.total_ns), Some(3 * 800));
}

#[test]
fn who_waits_at_a_semaphore_of_processes_waits_for_another_one() {
    let mut tape = asleep(10);
    tape.wake(900, SERVER, FOREIGN, "sendto");
    tape.on(900, SERVER, 0);
    tape.arrive(900, 1);
    tape.read(1_000, SERVER, 1);
    tape.off(1_100, SERVER, "semop", INTERRUPTIBLE, Class::None);
    tape.wake(5_000, SERVER, FOREIGN, "semop");
    tape.on(5_000, SERVER, 0);
    tape.write(5_100, SERVER, 1);
    let places = tape.account().account.places;
    let waited = places.iter().find(|place| place.detail == "semaphore");
    let waited = waited.map(|place| (place.place, place.total_ns, place.waker.as_str()));
    assert!(
        matches!(waited, Some((Place::Blocked, 3_900, waker)) if waker.starts_with("process")),
        "{places:#?}"
    );
}

/// A thread that closes idle connections is woken now and then and sleeps, while requests wait for a lock.
#[test]
fn who_only_sleeps_while_requests_wait_took_none_of_them() {
    let (sleeper, holder) = (SERVER + 4, SERVER + 5);
    let mut tape = asleep(10);
    tape.off(20, sleeper, "futex", INTERRUPTIBLE, Class::None);
    let others = SERVER + 6..SERVER + 20;
    for other in others.clone() {
        tape.off(20, other, "futex", INTERRUPTIBLE, Class::None);
    }
    for turn in 0..300 {
        let from = 2_000 + turn * 1_000;
        tape.arrive(from - 20, 1 + turn);
        tape.wake(from - 20, SERVER, FOREIGN, "sendto");
        tape.on(from - 20, SERVER, 0);
        tape.read(from - 10, SERVER, 1 + turn);
        let of_sleep = turn % 100;
        if of_sleep == 0 {
            tape.wake(from - 5, sleeper, SERVER, "futex");
            tape.on(from - 5, sleeper, 0);
            tape.off(from - 4, sleeper, "nanosleep", INTERRUPTIBLE, Class::None);
        }
        tape.off(from, SERVER, "futex", INTERRUPTIBLE, Class::None);
        if of_sleep == 99 {
            tape.wake(from + 800, sleeper, 0, "");
            tape.on(from + 800, sleeper, 0);
            tape.off(from + 801, sleeper, "futex", INTERRUPTIBLE, Class::None);
        }
        tape.wake(from + 900, SERVER, holder, "futex");
        tape.on(from + 900, SERVER, 0);
        tape.write(from + 910, SERVER, 1 + turn);
        tape.off(from + 920, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    }
    let (mut traced, stacks) = tape.traced();
    traced.names.insert(sleeper, "keep-alive".to_owned());
    for other in others {
        traced.names.insert(other, "worker".to_owned());
    }
    let turns = traced.account(&stacks);
    let threads = turns.targets[0].threads.as_ref().expect("threads");
    assert_eq!(threads.name, "t10", "{:#?}", threads.account.places);
}

#[test]
fn a_pool_that_waits_for_a_reactor_of_its_own_server_waits_for_what_that_one_asked() {
    let (pool, reactor) = (SERVER + 4, SERVER + 5);
    let tape = handed_over_to(pool, |tape, from, to| {
        tape.wake(from - 100, reactor, pool, "write");
        tape.on(from - 100, reactor, 0);
        tape.ask(from - 90, reactor, 500);
        tape.off(from - 80, reactor, epoll(), INTERRUPTIBLE, Class::None);
        tape.off(from, pool, "futex", INTERRUPTIBLE, Class::None);
        tape.answer(to - 50, 500);
        tape.wake(to - 50, reactor, 0, "");
        tape.on(to - 50, reactor, 0);
        tape.take(to - 40, reactor, 500);
        tape.wake(to, pool, reactor, "futex");
        tape.off(to, reactor, epoll(), INTERRUPTIBLE, Class::None);
    });
    let threads = tape.account().threads.unwrap();
    assert_eq!((threads.threads, threads.name.as_str()), (1, "t14"));
    let places = &threads.account.places;
    let upstream = places.iter().find(|p| p.place == Place::Upstream);
    assert_eq!(upstream.map(|p| p.total_ns), Some(3 * 800), "{places:#?}");
}

/// A loop reads two requests, four times, then asks a store for both on these connections, and responds when it has the
/// answers, 50 us later.
fn asks_for_two(connections: &[u64]) -> TargetTurns {
    let mut tape = asleep(10);
    for round in 0..4 {
        let at = 1_000_000 + round * 100_000;
        tape.arrive(at, 1);
        tape.arrive(at, 2);
        tape.wake(at, SERVER, FOREIGN, "sendto");
        tape.on(at, SERVER, 0);
        tape.read(at + 100, SERVER, 1);
        tape.read(at + 200, SERVER, 2);
        for (later, &connection) in (300..).step_by(10).zip(connections) {
            tape.ask(at + later, SERVER, connection);
        }
        tape.off(at + 400, SERVER, epoll(), INTERRUPTIBLE, Class::None);
        for &connection in connections {
            tape.answer(at + 50_000, connection);
        }
        tape.wake(at + 50_000, SERVER, FOREIGN, "sendto");
        tape.on(at + 50_000, SERVER, 0);
        for (later, &connection) in (50_100..).step_by(10).zip(connections) {
            tape.take(at + later, SERVER, connection);
        }
        tape.write(at + 50_200, SERVER, 1);
        tape.write(at + 50_300, SERVER, 2);
        tape.off(at + 50_400, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    }
    let target = tape.account();
    adds_up(&target);
    target
}

/// Two requests are asked for in one write on the only connection to a store, and one read brings both answers.
#[test]
fn requests_that_share_a_connection_wait_for_its_upstream() {
    let target = asks_for_two(&[7]);
    let upstream = time_at(&target, Place::Upstream);
    assert!(upstream >= 8 * 49_000, "{:#?}", target.account);
    let hidden = time_at(&target, Place::Hidden);
    assert!(hidden < 8 * 500, "{:#?}", target.account);
}

/// A resolver asks for both on one socket: each datagram is a question, and the first answer is not that of all.
#[test]
fn questions_by_datagram_are_waited_for_each_by_itself() {
    let mut tape = asleep(10);
    let udp = |tape: &mut Tape, at, kind| {
        let tid = if kind == Kind::Arrived { 0 } else { SERVER };
        tape.socket(at, kind, Class::Udp, 7, tid, 0);
    };
    for round in 0..4 {
        let at = 1_000_000 + round * 200_000;
        for (connection, asked) in [(1, at), (2, at + 20_000)] {
            tape.arrive(asked, connection);
            tape.wake(asked, SERVER, FOREIGN, "sendto");
            tape.on(asked, SERVER, 0);
            tape.read(asked + 100, SERVER, connection);
            udp(&mut tape, asked + 200, Kind::Sent);
            tape.off(asked + 300, SERVER, epoll(), INTERRUPTIBLE, Class::None);
        }
        for (connection, answered) in [(1, at + 50_000), (2, at + 70_000)] {
            udp(&mut tape, answered, Kind::Arrived);
            tape.wake(answered, SERVER, FOREIGN, "sendto");
            tape.on(answered, SERVER, 0);
            udp(&mut tape, answered + 100, Kind::Received);
            tape.write(answered + 200, SERVER, connection);
            tape.off(answered + 300, SERVER, epoll(), INTERRUPTIBLE, Class::None);
        }
    }
    let target = tape.account();
    adds_up(&target);
    let upstream = time_at(&target, Place::Upstream);
    assert!(upstream >= 8 * 49_000, "{:#?}", target.account);
    let hidden = time_at(&target, Place::Hidden);
    assert!(hidden < 8 * 500, "{:#?}", target.account);
}

/// They are asked for on connections of their own: whose answer is whose nothing tells, but both wait for the store.
#[test]
fn what_a_loop_asks_after_it_has_read_several_requests_is_for_all_of_them() {
    let target = asks_for_two(&[7, 8]);
    let upstream = time_at(&target, Place::Upstream);
    assert!(upstream >= 8 * 49_000, "{:#?}", target.account);
}

/// A thread that has a connection to itself is woken by a request, and wants a lock before it reads it.
#[test]
fn a_lock_before_the_request_is_read_is_waited_for() {
    let mut tape = asleep(10);
    let other = SERVER + 1;
    for round in 0..4 {
        let at = 1_000_000 + round * 100_000;
        tape.arrive(at, 1);
        tape.wake(at, SERVER, FOREIGN, "sendto");
        tape.on(at, SERVER, 0);
        tape.off(at + 100, SERVER, "futex", INTERRUPTIBLE, Class::None);
        tape.wake(at + 50_000, SERVER, other, "futex");
        tape.on(at + 50_000, SERVER, 0);
        tape.read(at + 50_100, SERVER, 1);
        tape.write(at + 50_200, SERVER, 1);
        tape.off(at + 50_300, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    }
    let target = tape.account();
    let places = target.account.places.iter();
    let locked = places.filter(|p| p.place == Place::Blocked && p.detail == "futex");
    let locked: u64 = locked.map(|p| p.total_ns).sum();
    assert!(locked >= 3 * 49_000, "{:#?}", target.account);
}

/// The thread of a pool that answers for a loop asks a store three times for each request.
#[test]
fn a_helpers_work_among_its_questions_is_told() {
    let pool = SERVER + 4;
    let store = 7;
    let mut tape = behind_a_loop("futex", Class::None, pool);
    tape.wake(1_100, pool, SERVER, "futex");
    tape.off(1_100, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    tape.on(1_100, pool, 0);
    for turn in 0..3 {
        let from = 1_100 + turn * 10_000;
        for question in 0..3 {
            let at = from + 1_000 + question * 2_000;
            tape.ask(at, pool, store);
            tape.off(at + 100, pool, "recvfrom", INTERRUPTIBLE, Class::Upstream);
            tape.answer(at + 1_000, store);
            tape.wake(at + 1_000, pool, FOREIGN, "sendto");
            tape.on(at + 1_000, pool, 0);
            tape.take(at + 1_100, pool, store);
        }
        let end = from + 10_000;
        tape.wake(end, SERVER, pool, "write");
        tape.on(end, SERVER, 0);
        tape.write(end, SERVER, 1 + turn);
        tape.off(end, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    }
    tape.off(31_200, pool, "futex", INTERRUPTIBLE, Class::None);
    let asking = tape.account().asking.unwrap();
    assert!(asking.cpu_ns > asking.of_ns / 4, "{asking:?}");
    assert!(asking.cpu_ns < asking.of_ns, "{asking:?}");
}

/// Three questions, one after the other: the work between them is told from that before and after.
#[test]
fn work_among_questions_to_an_upstream() {
    let mut tape = asleep(10);
    let store = 7;
    let mut at = 1_000_000;
    tape.arrive(at, 1);
    tape.wake(at, SERVER, FOREIGN, "sendto");
    tape.on(at, SERVER, 0);
    tape.read(at + 100, SERVER, 1);
    at += 5_000;
    for _ in 0..3 {
        tape.ask(at, SERVER, store);
        tape.off(at + 100, SERVER, epoll(), INTERRUPTIBLE, Class::None);
        tape.answer(at + 10_000, store);
        tape.wake(at + 10_000, SERVER, FOREIGN, "sendto");
        tape.on(at + 10_000, SERVER, 0);
        tape.take(at + 10_100, SERVER, store);
        at += 13_000;
    }
    tape.write(at, SERVER, 1);
    tape.off(at + 200, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    let (traced, stacks) = tape.traced();
    let target = &traced.account(&stacks).targets[0];
    adds_up(target);
    // Three times 100 before the wait and 100 after it, and twice 2,900 between an answer and the next question.
    let asking = target.asking.unwrap().cpu_ns;
    assert!(asking.abs_diff(3 * 200 + 2 * 2_900) <= 200, "{asking}");
}

/// After 20 ms without a request the server closes an idle connection, over TLS with a farewell, and the client its end
/// sooner or later; what is sent last of a response in parts is as late, and no farewell.
#[test]
fn a_farewell_is_no_part_of_the_response() {
    const MS: u64 = 1_000_000;
    for (bytes, then, lasts) in [
        (24, Some(Kind::Closed), 400),
        (31, Some(Kind::Established), 400),
        (24, None, 400),
        (25, Some(Kind::Closed), 20 * MS + 100),
    ] {
        let mut tape = asleep(10);
        tape.request(1_000);
        tape.write(1_400, SERVER, 1);
        tape.off(1_500, SERVER, epoll(), INTERRUPTIBLE, Class::None);
        let late = 1_000 + 20 * MS;
        tape.wake(late, SERVER, 0, "");
        tape.on(late, SERVER, 0);
        tape.write(late + 100, SERVER, 1);
        tape.events.last_mut().expect("it was just put").value = bytes;
        tape.off(late + 300, SERVER, epoll(), INTERRUPTIBLE, Class::None);
        // The next connection may lie at the same address.
        if let Some(kind) = then {
            tape.socket(late + MS, kind, Class::Client, 1, 0, 0);
        }
        let target = tape.account();
        let account = &target.account;
        assert_eq!((account.turns, account.total_ns), (1, lasts), "{bytes}");
        let ended = u64::from(then == Some(Kind::Closed));
        let rested = late + MS - 1_000 - lasts;
        assert_eq!((target.closed, target.rested), (ended, ended), "{bytes}");
        assert_eq!(target.rested_ns, ended * rested, "{bytes}");
    }
}

/// An answer that is taken byte by byte is its first byte and its last; one that comes in two parts is waited for
/// twice.
#[test]
fn an_answer_taken_byte_by_byte_is_two_takes() {
    const MS: u64 = 1_000_000;
    let account = |pieces: u64, comes_again: bool| {
        let mut tape = asleep(10);
        tape.arrive(MS, 1);
        tape.wake(MS, SERVER, FOREIGN, "sendto");
        tape.on(MS, SERVER, 0);
        tape.read(MS + 100, SERVER, 1);
        tape.ask(MS + 200, SERVER, 7);
        tape.off(MS + 300, SERVER, epoll(), INTERRUPTIBLE, Class::None);
        tape.answer(2 * MS, 7);
        tape.wake(2 * MS, SERVER, FOREIGN, "sendto");
        tape.on(2 * MS, SERVER, 0);
        for piece in 0..pieces {
            if comes_again && piece == pieces / 2 {
                tape.answer(2 * MS + piece * 1_000, 7);
            }
            tape.take(2 * MS + piece * 1_000 + 100, SERVER, 7);
        }
        tape.write(3 * MS, SERVER, 1);
        tape.off(3 * MS + 100, SERVER, epoll(), INTERRUPTIBLE, Class::None);
        let (traced, stacks) = tape.traced();
        let takes = super::sockets::Sockets::build(
            &traced,
            &|_| false,
            &super::threads::Threads::default(),
        );
        let takes = takes.ops.iter();
        let takes = takes.filter(|op| matches!(op.act, super::sockets::Act::Take { .. }));
        let takes: Vec<u64> = takes.map(|op| op.at).collect();
        let target = traced.account(&stacks).targets[0].clone();
        adds_up(&target);
        (takes, target.account)
    };
    let (few, plain) = account(2, false);
    let (many, same) = account(300, false);
    assert_eq!(few.len(), 2);
    assert_eq!(many, [2 * MS + 100, 2 * MS + 299_100]);
    assert_eq!(plain.places, same.places);
    let (parted, _) = account(300, true);
    assert_eq!(parted.len(), 4, "{parted:?}");
}

/// A loop hangs up after 5 ms, asks another one, and says farewell to a third, for whose end it has no CPU for 2 ms.
#[test]
fn what_is_given_up_was_waited_for() {
    const MS: u64 = 1_000_000;
    let mut tape = asleep(10);
    let (slow, other, third) = (7, 8, 9);
    for turn in 0..3 {
        let from = MS + turn * 10 * MS;
        tape.arrive(from, 1);
        tape.wake(from, SERVER, FOREIGN, "sendto");
        tape.on(from, SERVER, 0);
        tape.read(from + 100, SERVER, 1);
        tape.ask(from + 200, SERVER, slow);
        tape.off(from + 300, SERVER, epoll(), INTERRUPTIBLE, Class::None);
        tape.socket(from + 5 * MS, Kind::Closed, Class::Upstream, slow, 0, 0);
        tape.wake(from + 5 * MS, SERVER, 0, "");
        tape.on(from + 5 * MS, SERVER, 0);
        tape.ask(from + 5 * MS + 200, SERVER, other);
        tape.off(
            from + 5 * MS + 300,
            SERVER,
            epoll(),
            INTERRUPTIBLE,
            Class::None,
        );
        tape.answer(from + 6 * MS, other);
        tape.wake(from + 6 * MS, SERVER, FOREIGN, "sendto");
        tape.on(from + 6 * MS, SERVER, 0);
        tape.take(from + 6 * MS + 100, SERVER, other);
        tape.write(from + 6 * MS + 200, SERVER, 1);
        tape.ask(from + 6 * MS + 300, SERVER, third);
        tape.preempt(from + 6 * MS + 350, SERVER);
        tape.on(from + 8 * MS + 350, SERVER, 0);
        tape.socket(
            from + 8 * MS + 400,
            Kind::Closed,
            Class::Upstream,
            third,
            0,
            0,
        );
        tape.off(
            from + 8 * MS + 500,
            SERVER,
            epoll(),
            INTERRUPTIBLE,
            Class::None,
        );
    }
    let (traced, stacks) = tape.traced();
    let target = &traced.account(&stacks).targets[0];
    adds_up(target);
    let given_up = target.given_up.as_ref().unwrap();
    assert_eq!((given_up.count(), target.answers), (3, 3));
    let waited = given_up.quantile(0.5).unwrap().0;
    assert!(waited.abs_diff(5 * MS) < MS / 20, "{waited}");
    let waited = time_at(target, Place::Upstream);
    assert!(
        waited.abs_diff(3 * 6 * MS) < MS / 10,
        "{:#?}",
        target.account
    );
}

/// A JVM's thread that answers `jcmd` answers no request, and is none of those that do.
#[test]
fn what_a_runtime_is_asked_of_itself_is_no_request() {
    for (path, turns) in [("/tmp/.java_pid7", 3), ("/run/app.sock", 6)] {
        let (listener, asked) = (SERVER + 4, 502);
        let mut tape = asleep(10);
        tape.off(20, listener, "accept4", INTERRUPTIBLE, Class::None);
        for turn in 0..3 {
            let from = 1_000 + turn * 10_000;
            tape.request(from);
            tape.write(from + 300, SERVER, 1);
            tape.off(from + 310, SERVER, epoll(), INTERRUPTIBLE, Class::None);
            for (at, kind, tid) in [
                (from + 400, Kind::Arrived, 0),
                (from + 430, Kind::Received, listener),
                (from + 500, Kind::Sent, listener),
            ] {
                tape.socket(at, kind, Class::UnixClient, asked, tid, 0);
            }
        }
        let (mut traced, stacks) = tape.traced();
        traced.peers.retain(|(sk, ..)| *sk != asked);
        traced.peers.push((asked, 0, format!("unix:{path}")));
        let target = &traced.account(&stacks).targets[0];
        assert_eq!(target.account.turns, turns, "{path}");
    }
}

/// A process of the same server answers over a Unix socket with a name, as a daemon of mod_wsgi does.
#[test]
fn what_a_servers_own_process_is_asked_is_a_part_of_the_turn() {
    let (daemon, asking, asked) = (SERVER + 4, 501, 502);
    let mut tape = asleep(10);
    tape.off(20, daemon, "accept4", INTERRUPTIBLE, Class::None);
    for turn in 0..3 {
        let from = 1_000 + turn * 10_000;
        tape.request(from);
        tape.socket(
            from + 100,
            Kind::Sent,
            Class::UnixUpstream,
            asking,
            SERVER,
            0,
        );
        tape.off(
            from + 110,
            SERVER,
            "read",
            INTERRUPTIBLE,
            Class::UnixUpstream,
        );
        tape.socket(from + 105, Kind::Arrived, Class::UnixClient, asked, 0, 0);
        tape.wake(from + 110, daemon, SERVER, "write");
        tape.on(from + 120, daemon, 0);
        tape.socket(
            from + 130,
            Kind::Received,
            Class::UnixClient,
            asked,
            daemon,
            0,
        );
        tape.socket(
            from + 5_130,
            Kind::Received,
            Class::UnixClient,
            asked,
            daemon,
            0,
        );
        tape.socket(
            from + 5_200,
            Kind::Sent,
            Class::UnixClient,
            asked,
            daemon,
            0,
        );
        tape.wake(from + 5_200, SERVER, daemon, "write");
        tape.off(from + 5_210, daemon, "accept4", INTERRUPTIBLE, Class::None);
        tape.on(from + 5_220, SERVER, 0);
        tape.socket(
            from + 5_230,
            Kind::Received,
            Class::UnixUpstream,
            asking,
            SERVER,
            0,
        );
        tape.write(from + 5_300, SERVER, 1);
        tape.off(from + 5_310, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    }
    let (mut traced, stacks) = tape.traced();
    traced
        .peers
        .retain(|(sk, ..)| ![asking, asked].contains(sk));
    let path = || "unix:/run/daemon.sock".to_owned();
    traced
        .peers
        .extend([(asking, 0, path()), (asked, 0, path())]);
    let turns = traced.account(&stacks);
    let target = &turns.targets[0];
    adds_up(target);
    assert_eq!(target.account.turns, 3);
    let places = target.account.places.iter();
    let upstream = places.filter(|p| matches!(p.place, Place::Upstream | Place::UpstreamUnread));
    let waited: u64 = upstream.map(|p| p.total_ns).sum();
    assert!(waited.abs_diff(3 * 5_100) <= 100, "{:#?}", target.account);
}

#[test]
fn a_compiler_thread_of_a_runtime_is_no_pool_whoever_wakes_it() {
    let (mut traced, stacks) = handed_over(SERVER + 4).traced();
    let compiler = "C2 CompilerThre".to_owned();
    traced.names.insert(SERVER + 4, compiler);
    let turns = traced.account(&stacks);
    let target = &turns.targets[0];
    assert_eq!(at(target, Place::NoFreeThread, "", ""), 0);
    let threads = target.threads.as_ref().map(|time| time.name.as_str());
    assert_eq!(threads, Some("t10"));
}

#[test]
fn a_thread_that_no_reader_knows_helps_nobody() {
    let house = SERVER + 4;
    let mut tape = behind_a_loop("nanosleep", Class::None, house);
    tape.off(1_100, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    for turn in 0..3 {
        let from = 1_100 + turn * 1_000;
        tape.wake(from + 1_000, house, 0, "");
        tape.on(from + 1_000, house, 0);
        tape.off(from + 1_010, house, "nanosleep", INTERRUPTIBLE, Class::None);
        tape.wake(from + 1_020, SERVER, 0, "");
        tape.on(from + 1_020, SERVER, 0);
        tape.write(from + 1_030, SERVER, 1 + turn);
        tape.off(from + 1_040, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    }
    let target = tape.account();
    assert_eq!(at(&target, Place::Blocked, "sleep", "timer"), 0);
    assert_eq!(at(&target, Place::NoFreeThread, "", ""), 0);
}

/// A thread of the house wakes; a request that is read meanwhile waits for its lock until `freed` after `from`, and
/// goes on, while the thread sleeps again.
fn behind_its_lock(tape: &mut Tape, house: u32, (from, freed): (u64, u64), socket: u64) {
    tape.wake(from, house, 0, "");
    tape.on(from, house, 0);
    tape.arrive(from + 100, socket);
    tape.wake(from + 100, SERVER, FOREIGN, "sendto");
    tape.on(from + 110, SERVER, 0);
    tape.read(from + 200, SERVER, socket);
    tape.off(from + 300, SERVER, "futex", INTERRUPTIBLE, Class::None);
    let freed = from + freed;
    tape.wake(freed, SERVER, house, "futex");
    tape.off(freed + 10, house, "nanosleep", INTERRUPTIBLE, Class::None);
    tape.on(freed + 20, SERVER, 0);
}

#[test]
fn a_thread_that_only_shares_a_lock_does_not_serve() {
    let house = SERVER + 4;
    let mut tape = asleep(10);
    tape.off(20, house, "nanosleep", INTERRUPTIBLE, Class::None);
    for turn in 0..4 {
        let from = 1_000 + turn * 100_000;
        behind_its_lock(&mut tape, house, (from, 400), 1 + turn);
        tape.write(from + 500, SERVER, 1 + turn);
        tape.off(from + 600, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    }
    let threads = tape.account().threads.expect("one thread reads");
    assert_eq!((threads.threads, threads.name.as_str()), (1, "t10"));
}

#[test]
fn a_thread_for_which_many_wait_at_times_does_not_serve() {
    let house = SERVER + 8;
    let threads: Vec<u32> = (SERVER..SERVER + 4).collect();
    let mut tape = asleep(10);
    for &thread in &threads[1..] {
        tape.off(20, thread, "recvfrom", INTERRUPTIBLE, Class::None);
    }
    tape.off(20, house, "nanosleep", INTERRUPTIBLE, Class::None);
    let mut socket = 0;
    for turn in 0..4 {
        let from = 1_000 + turn * 100_000;
        tape.wake(from, house, 0, "");
        tape.on(from, house, 0);
        for (n, &thread) in threads.iter().enumerate() {
            let at = from + 10 + 10 * n as u64;
            socket += 1;
            tape.arrive(at, socket);
            tape.wake(at, thread, FOREIGN, "sendto");
            tape.on(at + 1, thread, 0);
            tape.read(at + 2, thread, socket);
            tape.off(at + 3, thread, "futex", INTERRUPTIBLE, Class::None);
        }
        // Together they wait for longer than it sleeps, and each moment of its sleep but a third waits nobody.
        let freed = from + 33_000;
        for &thread in &threads {
            tape.wake(freed, thread, house, "futex");
        }
        tape.off(freed + 10, house, "nanosleep", INTERRUPTIBLE, Class::None);
        for (n, &thread) in threads.iter().enumerate() {
            let at = freed + 20 + 10 * n as u64;
            tape.on(at, thread, 0);
            tape.write(at + 1, thread, socket - 3 + n as u64);
            tape.off(at + 2, thread, "recvfrom", INTERRUPTIBLE, Class::None);
        }
    }
    let serving = tape.account().threads.expect("four threads read");
    assert_eq!(serving.threads, 4, "{serving:#?}");
}

/// A runtime may make a sleep of a futex: requests that sleep are in nobody's hands.
#[test]
fn a_thread_that_sleeps_while_requests_sleep_does_not_serve() {
    let house = SERVER + 8;
    let mut tape = asleep(10);
    tape.off(20, house, "nanosleep", INTERRUPTIBLE, Class::None);
    for turn in 0..4 {
        let from = 1_000 + turn * 100_000;
        behind_its_lock(&mut tape, house, (from, 10_000), 1 + turn);
        let (asleep, on) = (from + 10_100, from + 98_000);
        tape.off(asleep, SERVER, "futex", INTERRUPTIBLE, Class::None);
        tape.wake(on, SERVER, 0, "");
        tape.on(on, SERVER, 0);
        tape.write(on + 100, SERVER, 1 + turn);
        tape.off(on + 200, SERVER, "recvfrom", INTERRUPTIBLE, Class::None);
    }
    let serving = tape.account().threads.expect("one thread reads");
    assert_eq!(serving.name, "t10", "{serving:#?}");
}

#[test]
fn a_helper_process_is_named_and_what_it_does_is_the_wait() {
    let helper = FOREIGN - 5;
    let mut tape = behind_a_loop("read", Class::UnixUpstream, helper);
    let ours = |event: &mut Event| {
        if event.tid == helper {
            event.tgid = helper;
        }
    };
    tape.off(1_100, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    for turn in 0..3 {
        let from = 1_100 + turn * 1_000;
        tape.wake(from, helper, SERVER, "write");
        tape.on(from, helper, 0);
        tape.off(from + 100, helper, "nanosleep", INTERRUPTIBLE, Class::None);
        tape.wake(from + 900, helper, 0, "");
        tape.on(from + 900, helper, 0);
        tape.off(
            from + 990,
            helper,
            "read",
            INTERRUPTIBLE,
            Class::UnixUpstream,
        );
        tape.wake(from + 990, SERVER, helper, "write");
        tape.on(from + 1_000, SERVER, 0);
        tape.write(from + 1_000, SERVER, 1 + turn);
        tape.off(from + 1_000, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    }
    for event in &mut tape.events {
        ours(event);
        if event.other_tid == helper {
            event.other_tgid = helper;
        }
    }
    let (mut traced, stacks) = tape.traced();
    traced.members.insert(helper, 0);
    traced.names.insert(helper, "rewriter".to_owned());
    let turns = traced.account(&stacks);
    let target = &turns.targets[0];
    adds_up(target);
    let of = |place: Place| {
        let rows = target.account.places.iter();
        let rows = rows.filter(|p| p.place == place && p.helper == "rewriter");
        rows.map(|p| p.total_ns).sum::<u64>()
    };
    assert!(
        of(Place::Blocked).abs_diff(3 * 800) <= 10,
        "{:#?}",
        target.account
    );
    assert!(of(Place::NoFreeThread) > 2_000, "{:#?}", target.account);
}

#[test]
fn a_wait_until_a_timer_is_a_part_of_the_turn_that_was_handed_over() {
    let (reader, worker) = (SERVER, SERVER + 4);
    let mut tape = behind_a_loop("futex", Class::None, worker);
    tape.wake(1_100, worker, reader, "futex");
    tape.off(1_100, reader, epoll(), INTERRUPTIBLE, Class::None);
    tape.on(1_100, worker, 0);
    for turn in 0..3 {
        let from = 1_100 + turn * 1_000;
        tape.off(from + 200, worker, "futex", INTERRUPTIBLE, Class::None);
        tape.wake(from + 900, worker, 0, "");
        tape.on(from + 900, worker, 0);
        tape.write(from + 1_000, worker, 1 + turn);
    }
    let target = tape.account();
    assert_eq!(at(&target, Place::Blocked, "futex", "timer"), 3 * 700);
    let queued = at(&target, Place::NoFreeThread, "", "");
    // 100 of them from the hand-over to the worker's beginning.
    assert!(queued.abs_diff(3_100) <= 10, "{:#?}", target.account.places);
}

#[test]
fn a_wait_behind_the_hand_over_is_for_a_lock_and_a_part_of_the_turn() {
    let (reader, worker, other) = (SERVER, SERVER + 4, SERVER + 5);
    let mut tape = asleep(10);
    tape.off(700, worker, "futex", INTERRUPTIBLE, Class::None);
    for turn in 0..3 {
        let from = 1_000 + turn * 2_000;
        tape.arrive(from, 1);
        tape.wake(from, reader, FOREIGN, "sendto");
        tape.on(from, reader, 0);
        tape.read(from + 100, reader, 1);
        // The queue is not empty any more.
        tape.wake(from + 200, worker, reader, "futex");
        tape.off(from + 200, reader, epoll(), INTERRUPTIBLE, Class::None);
        tape.on(from + 200, worker, 0);
        tape.off(from + 300, worker, "futex", INTERRUPTIBLE, Class::None);
        tape.wake(from + 1_000, worker, other, "futex");
        tape.on(from + 1_000, worker, 0);
        tape.write(from + 1_100, worker, 1);
        tape.off(from + 1_200, worker, "futex", INTERRUPTIBLE, Class::None);
    }
    let target = tape.account();
    let locked = (target.account.places.iter()).filter(|p| p.place == Place::Blocked);
    let locked: u64 = locked.map(|p| p.total_ns).sum();
    assert_eq!(locked, 3 * 700, "{:#?}", target.account);
}

#[test]
fn between_two_parts_of_a_response_it_is_sending() {
    let mut tape = asleep(10);
    tape.arrive(900, 1);
    tape.wake(950, SERVER, FOREIGN, "sendto");
    tape.on(950, SERVER, 0);
    tape.read(1_000, SERVER, 1);
    tape.write_much(1_100, SERVER, 1);
    tape.off(1_150, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    tape.wake(2_000, SERVER, FOREIGN, "recvfrom");
    tape.on(2_010, SERVER, 0);
    tape.write(2_050, SERVER, 1);
    tape.off(2_060, SERVER, "sendto", INTERRUPTIBLE, Class::Client);
    tape.wake(4_060, SERVER, FOREIGN, "recvfrom");
    tape.on(4_060, SERVER, 0);
    tape.write(4_100, SERVER, 1);
    check(
        tape,
        1,
        &[
            (Place::WakeUp, "", "", 50 + 10),
            (Place::OnCpu, "", "", 200 + 40 + 10 + 40),
            (Place::Sending, "", "", 850 + 2_000),
        ],
    );
}

/// A queue answers who waits for an element when somebody else brings one: at once that it waits, and later with the
/// element. Nothing is held back by the client meanwhile, which had room for a hundred bytes.
#[test]
fn what_another_client_brings_is_waited_for_and_not_sent() {
    let mut tape = asleep(10);
    tape.request(1_000);
    tape.write(1_100, SERVER, 1);
    tape.off(1_150, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    tape.arrive(4_950, 2);
    tape.wake(5_000, SERVER, BRINGER, "sendto");
    tape.on(5_000, SERVER, 0);
    tape.read(5_020, SERVER, 2);
    tape.write(5_100, SERVER, 1);
    tape.write(5_150, SERVER, 2);
    tape.off(5_200, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    let target = tape.account();
    let brought = at(&target, Place::Hidden, "", "process worker");
    assert_eq!(brought, 3_850, "{:#?}", target.account.places);
    assert_eq!(at(&target, Place::Sending, "", ""), 0);
}

/// The same where one thread reads what is brought, and wakes the one that answers.
#[test]
fn what_is_brought_to_another_thread_is_waited_for_at_whoever_brings_it() {
    const OTHER: u32 = SERVER + 1;
    let brought = |woken_at: u64| {
        let mut tape = asleep(10);
        tape.off(20, OTHER, epoll(), INTERRUPTIBLE, Class::None);
        tape.request(1_000);
        tape.off(1_150, SERVER, epoll(), INTERRUPTIBLE, Class::None);
        tape.wake(woken_at, OTHER, BRINGER, "sendto");
        tape.on(woken_at, OTHER, 0);
        tape.wake(5_100, SERVER, OTHER, "write");
        tape.on(5_100, SERVER, 0);
        tape.write(5_200, SERVER, 1);
        tape.off(5_250, SERVER, epoll(), INTERRUPTIBLE, Class::None);
        tape.events.sort_by_key(|event| event.at_ns);
        let target = tape.account();
        at(&target, Place::Hidden, "", "process worker")
    };
    assert_eq!(brought(5_000), 3_950);
    // What came before the request brought it nothing.
    assert_eq!(brought(900), 0);
}

/// A broker answers when its consumer has done what it took: two requests stand there, and one of them is done.
#[test]
fn what_a_consumer_does_is_a_part_of_the_request_and_others_wait_for_it() {
    let mut tape = asleep(10);
    tape.off(20, CONSUMER, "recvfrom", INTERRUPTIBLE, Class::Upstream);
    tape.events.last_mut().expect("it was just put").sk = 70;
    for at in (1..=6).map(|n| n * 10_000) {
        tape.arrive(at, at);
        tape.arrive(at, at + 1);
        tape.wake(at, SERVER, FOREIGN, "sendto");
        tape.on(at, SERVER, 0);
        tape.read(at + 10, SERVER, at);
        tape.read(at + 20, SERVER, at + 1);
        let work = |tape: &mut Tape, from: u64| {
            tape.wake(from, CONSUMER, SERVER, "sendto");
            tape.on(from, CONSUMER, 0);
            tape.off(from + 50, SERVER, epoll(), INTERRUPTIBLE, Class::None);
            tape.off(
                from + 100,
                CONSUMER,
                "nanosleep",
                INTERRUPTIBLE,
                Class::None,
            );
            tape.wake(from + 3_100, CONSUMER, 0, "");
            tape.on(from + 3_100, CONSUMER, 0);
            tape.wake(from + 3_200, SERVER, CONSUMER, "sendto");
            tape.on(from + 3_200, SERVER, 0);
            tape.off(
                from + 3_250,
                CONSUMER,
                "recvfrom",
                INTERRUPTIBLE,
                Class::Upstream,
            );
            tape.events.last_mut().expect("it was just put").sk = 70;
        };
        work(&mut tape, at + 50);
        tape.write(at + 3_290, SERVER, at);
        work(&mut tape, at + 3_300);
        tape.write(at + 6_600, SERVER, at + 1);
        tape.off(at + 6_700, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    }
    // It says at once where it asks, and asks, for which nobody is to take it.
    let mut named = Vec::new();
    for (at, kind) in [
        (15, Kind::Named),
        (16, Kind::Sent),
        (40_060, Kind::Received),
    ] {
        named.push(Event {
            at_ns: at,
            sk: 70,
            tid: CONSUMER,
            tgid: CONSUMER,
            value: 100,
            kind: kind as u8,
            class: Class::Upstream as u8,
            port: 5_000,
            peer_port: 4_730,
            ..Event::default()
        });
    }
    tape.events.extend(named);
    tape.events.sort_by_key(|event| event.at_ns);
    let (mut traced, stacks) = tape.traced();
    traced.members.insert(CONSUMER, 0);
    traced.consumers.insert(CONSUMER);
    traced.ports.insert(4_730, 0);
    traced.names.insert(CONSUMER, "php".to_owned());
    let turns = traced.account(&stacks);
    let target = &turns.targets[0];
    adds_up(target);
    let rows = target.account.places.iter();
    let of = |place: Place, detail: &str| {
        let rows = rows
            .clone()
            .filter(|p| p.place == place && p.detail == detail && p.helper == "php");
        rows.map(|row| row.total_ns).sum::<u64>()
    };
    // Each of six pairs: two times 3,000 ns of sleep, and the second waits while the first is done.
    assert_eq!(
        of(Place::Blocked, "sleep"),
        6 * 6_000,
        "{:#?}",
        target.account.places
    );
    let waits = of(Place::NoFreeThread, "");
    assert!(
        (6 * 3_000..6 * 3_300).contains(&waits),
        "{waits}: {:#?}",
        target.account.places
    );
    assert_eq!(target.account.turns, 12);
}

/// Two requests of a runtime's tasks ask a broker as they are read, and are answered as its answers come, in whatever
/// order; two others stand in line for a place before they ask.
#[test]
fn what_a_task_hands_on_is_told_apart_from_a_place_that_is_free() {
    let bus = |asked_at_once: bool| {
        let mut tape = asleep(10);
        tape.green = true;
        for (at, sk) in [(1_000, 1), (2_000, 2)] {
            tape.arrive(at, sk);
            tape.read(at + 10, SERVER, sk);
            if asked_at_once {
                tape.ask(at + 20, SERVER, 500);
            }
        }
        for (at, sk) in [(8_000, 2), (9_000, 1)] {
            if !asked_at_once {
                tape.ask(at - 500, SERVER, 500);
            }
            tape.answer(at, 500);
            tape.take(at + 10, SERVER, 500);
            // The task that read it says that it has.
            tape.ask(at + 20, SERVER, 500);
            tape.write(at + 30, SERVER, sk);
        }
        tape.account().relayed
    };
    assert_eq!(bus(true), [("10.0.0.1:500".to_owned(), 2)].into());
    // The second that was read asks first, and is the first that is answered.
    assert_eq!(bus(false), [("10.0.0.1:500".to_owned(), 1)].into());
}

#[test]
fn a_timer_that_others_came_before_is_what_a_request_waits_for() {
    let mut tape = asleep(10);
    for (turn, at) in [(1, 1_000), (2, 2_000)] {
        tape.arrive(at, turn);
        tape.wake(at, SERVER, FOREIGN, "sendto");
        tape.on(at, SERVER, 0);
        tape.read(at + 10, SERVER, turn);
        tape.off(at + 50, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    }
    // On an idle CPU.
    tape.wake(900_000, SERVER, 0, "");
    tape.on(900_000, SERVER, 0);
    tape.write(900_050, SERVER, 1);
    tape.write(900_100, SERVER, 2);
    tape.off(900_150, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    let target = tape.account();
    // The first from 1,050 on, the other from 2,050.
    let timed = at(&target, Place::Hidden, "", "timer");
    assert_eq!(timed, 898_950 + 897_950, "{:#?}", target.account);
}

#[test]
fn a_timer_of_an_event_loop_is_hidden_and_said() {
    let mut tape = asleep(10);
    tape.arrive(900, 1);
    tape.wake(950, SERVER, FOREIGN, "sendto");
    tape.on(950, SERVER, 0);
    tape.read(1_000, SERVER, 1);
    tape.off(1_100, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    tape.wake(900_000, SERVER, FOREIGN, "");
    tape.on(900_000, SERVER, 0);
    tape.write(900_100, SERVER, 1);
    check(
        tape,
        1,
        &[
            (Place::WakeUp, "", "", 50),
            (Place::OnCpu, "", "", 150 + 100),
            (Place::Hidden, "", "timer", 898_900),
        ],
    );
}

#[test]
fn before_it_is_accepted_a_request_is_in_the_listen_queue() {
    let mut tape = Tape::default();
    let one = SERVER + 1;
    tape.arrive(500, 1);
    tape.read(1_000, one, 1);
    tape.socket(1_500, Kind::Arrived, Class::Client, 2, 0, UNACCEPTED);
    tape.preempt(2_000, one);
    tape.on(2_300, one, FOREIGN);
    tape.write(3_000, one, 1);
    tape.off(3_100, one, "accept4", INTERRUPTIBLE, Class::Other);
    tape.wake(3_110, one, FOREIGN, "sendto");
    tape.on(3_120, one, 0);
    tape.read(3_200, one, 2);
    tape.write(3_300, one, 2);
    check(
        tape,
        2,
        &[
            (Place::OnCpu, "", "", 500 + 1_000 + 700 + 80 + 100),
            (Place::RunQueue, "process other", "", 300),
            (Place::ListenQueue, "", "", 1_610),
            (Place::WakeUp, "", "", 10),
        ],
    );
}

#[test]
fn until_a_process_is_started_that_accepts_it_a_request_waits_for_that() {
    const CHILD: u32 = SERVER + 40;
    let mut tape = Tape::default();
    tape.socket(1_500, Kind::Arrived, Class::Client, 2, 0, UNACCEPTED);
    tape.fork(2_000, SERVER, CHILD);
    tape.on(2_100, CHILD, 0);
    tape.read(3_200, CHILD, 2);
    // The next one waits for the process itself.
    tape.socket(3_250, Kind::Arrived, Class::Client, 3, 0, UNACCEPTED);
    tape.write(3_300, CHILD, 2);
    tape.read(3_400, CHILD, 3);
    tape.write(3_500, CHILD, 3);
    check(
        tape,
        2,
        &[
            (Place::OnCpu, "", "", 1_100 + 100 + 100),
            (Place::Starting, "", "", 500),
            (Place::WakeUp, "", "", 100),
            (Place::ListenQueue, "", "", 150),
        ],
    );
}

/// Two threads of a runtime with tasks: one does what is no request's, and the other reads a request when that is over.
/// `polled`: a third one waits for sockets meanwhile.
fn behind_a_task(polled: bool) -> Tape {
    let mut tape = Tape {
        green: true,
        ..Tape::default()
    };
    let (reader, other, third) = (SERVER + 1, SERVER + 2, SERVER + 3);
    tape.off(50, reader, "futex", INTERRUPTIBLE, Class::None);
    if polled {
        tape.off(60, third, epoll(), INTERRUPTIBLE, Class::None);
    }
    tape.cpu = 1;
    tape.on(100, other, 0);
    tape.arrive(900, 1);
    tape.wake(1_950, reader, other, "futex");
    tape.off(2_000, other, "futex", INTERRUPTIBLE, Class::None);
    tape.cpu = 0;
    tape.on(2_050, reader, 0);
    tape.read(2_060, reader, 1);
    tape.write(2_200, reader, 1);
    tape.ran(1_500, other);
    tape
}

#[test]
fn a_request_that_nobody_polls_for_stands_behind_what_the_runtime_runs() {
    // From when it is woken on, the reader is late by itself.
    let (on_cpu, late) = (10 + 140, 50 + 50);
    let target = check(
        behind_a_task(false),
        1,
        &[
            (Place::Loop, "", "", 1_050),
            (Place::WakeUp, "", "", late),
            (Place::OnCpu, "", "", on_cpu),
        ],
    );
    let samples = placed(&target.account.cpu_samples);
    assert_eq!(samples, [(Place::Loop, 7, 3)]);
    // Who polls would have seen it: then it is the runtime that is slow.
    let target = check(
        behind_a_task(true),
        1,
        &[
            (Place::WakeUp, "", "", 1_050 + late),
            (Place::OnCpu, "", "", on_cpu),
        ],
    );
    assert!(target.account.cpu_samples.is_empty());
}

#[test]
fn an_answer_that_is_not_read_says_what_the_loop_runs() {
    let mut tape = asleep(10);
    tape.request(1_000);
    tape.ask(1_100, SERVER, 502);
    tape.arrive(1_150, 2);
    tape.read(1_200, SERVER, 2);
    tape.answer(1_300, 502);
    tape.write(1_800, SERVER, 2);
    tape.take(1_810, SERVER, 502);
    tape.write(1_900, SERVER, 1);
    tape.ran(1_500, SERVER);
    let target = tape.account();
    let detail = "10.0.0.1:502";
    assert_eq!(at(&target, Place::UpstreamUnread, detail, ""), 510);
    let samples = placed(&target.account.cpu_samples);
    assert_eq!(
        samples,
        [(Place::OnCpu, 7, 3), (Place::UpstreamUnread, 7, 3)]
    );
}

#[test]
fn what_runs_while_tasks_stand_ready_is_weighted_by_them() {
    let look = |at_ns, ready| TaskLook {
        at_ns,
        target: "server".to_owned(),
        tasks: Vec::new(),
        ready,
    };
    let every: Vec<TaskLook> = (0..12).map(|n| look(1_000 + 100 * n, 0)).collect();
    let mut some = every.clone();
    (some[3].ready, some[4].ready) = (4, 1);
    let sample = |at_ns, stack| Located {
        tid: 1,
        at_ns,
        stack,
        count: 2,
    };
    // Before the first look, next to the fourth and the fifth, next to one without such tasks, after the last.
    let samples = [
        (10, 5),
        (1_260, 5),
        (1_349, 6),
        (1_350, 5),
        (1_800, 6),
        (9_000, 6),
    ];
    let samples = samples.map(|(at_ns, stack)| sample(at_ns, stack));
    let behind = |looks: &[TaskLook], one_in, hidden: f64| {
        let mut looks = Looks::within(looks.iter().collect(), (0, 10_000), 1, one_in);
        let hide = |hidden| AtLook {
            hidden,
            ..AtLook::default()
        };
        looks.all = vec![hide(2.0); looks.looks.len()];
        looks.ran = samples.to_vec();
        placed(&looks.behind(&vec![hide(hidden); looks.looks.len()]))
    };
    let at = Place::RunQueue;
    assert_eq!(behind(&some, 1, 2.0), [(at, 5, 2 * 4 + 2), (at, 6, 2 * 4)]);
    // A half of the turns stood behind a half of it; one connection in two is followed.
    assert_eq!(behind(&some, 1, 1.0), [(at, 5, 5), (at, 6, 4)]);
    assert_eq!(behind(&some, 2, 2.0), [(at, 5, 5), (at, 6, 4)]);
    assert!(behind(&every, 1, 2.0).is_empty());
}

#[test]
fn an_upstream_that_no_request_can_be_told_for_is_shared_out() {
    let mut tape = Tape {
        green: true,
        ..Tape::default()
    };
    let (one, two, three) = (SERVER + 1, SERVER + 2, SERVER + 3);
    tape.arrive(900, 1);
    tape.read(1_000, one, 1);
    tape.off(1_050, one, "futex", INTERRUPTIBLE, Class::None);
    tape.ask(1_100, two, 502);
    tape.answer(2_000, 502);
    tape.take(2_100, three, 502);
    tape.wake(2_150, one, three, "futex");
    tape.on(2_150, one, 0);
    tape.write(2_200, one, 1);
    check(
        tape,
        1,
        &[
            (Place::OnCpu, "", "", 100 + 50 + 50),
            (Place::Upstream, "10.0.0.1:502", "", 900),
            (Place::UpstreamUnread, "10.0.0.1:502", "", 100),
            (Place::Hidden, "", "", 50 + 50),
        ],
    );
}

#[test]
fn what_a_gateway_asks_of_its_own_program_is_no_request_of_its_own() {
    let mut tape = Tape {
        green: true,
        ..Tape::default()
    };
    let (one, two, three) = (SERVER + 1, SERVER + 2, SERVER + 3);
    let (listener, own) = (2_379, 40_000);
    tape.put(Event {
        at_ns: 100,
        sk: 502,
        tid: two,
        tgid: SERVER,
        kind: Kind::Named as u8,
        class: Class::Upstream as u8,
        port: own,
        peer_port: listener,
        ..Event::default()
    });
    tape.arrive(900, 1);
    tape.read(1_000, one, 1);
    tape.ask(1_100, one, 502);
    // The other end of that connection is the program's too.
    for (at, kind) in [
        (1_150, Kind::Arrived),
        (1_200, Kind::Received),
        (1_900, Kind::Sent),
    ] {
        tape.put(Event {
            at_ns: at,
            sk: 2,
            tid: three,
            tgid: SERVER,
            value: 100,
            kind: kind as u8,
            class: Class::Client as u8,
            port: listener,
            peer_port: own,
            ..Event::default()
        });
    }
    tape.answer(2_000, 502);
    tape.take(2_100, one, 502);
    tape.write(2_200, one, 1);
    let (mut traced, stacks) = tape.traced();
    traced.ports = HashMap::from([(listener, 0)]);
    let turns = traced.account(&stacks);
    assert_eq!(turns.targets[0].account.turns, 1, "{:#?}", turns.targets[0]);
}

#[test]
fn what_a_server_asks_on_its_own_account_is_no_requests_wait() {
    let mut tape = Tape {
        green: true,
        ..Tape::default()
    };
    let (one, two) = (SERVER + 1, SERVER + 2);
    tape.ask(100, two, 503);
    tape.arrive(900, 1);
    tape.read(1_000, one, 1);
    tape.off(1_050, one, "futex", INTERRUPTIBLE, Class::None);
    tape.wake(2_150, one, two, "futex");
    tape.on(2_150, one, 0);
    tape.write(2_200, one, 1);
    tape.answer(9_000, 503);
    tape.take(9_100, two, 503);
    check(
        tape,
        1,
        &[
            (Place::OnCpu, "", "", 100 + 50 + 50),
            (Place::Hidden, "", "", 1_100),
        ],
    );
}

#[test]
fn a_stall_that_comes_again_shows_in_the_tail() {
    let mut tape = Tape::default();
    let mut now = 1_000_000;
    for round in 0..40_000_u64 {
        let stall = round % 5_000 == 4_999;
        tape.arrive(now, 1 + round % 50);
        tape.read(now + 1_000, SERVER, 1 + round % 50);
        if stall {
            for sk in 100..160 {
                tape.arrive(now + 2_000, sk);
            }
            tape.off(
                now + 3_000,
                SERVER,
                "clock_nanosleep",
                INTERRUPTIBLE,
                Class::None,
            );
            tape.wake(now + 50_003_000, SERVER, 0, "");
            tape.on(now + 50_003_000, SERVER, 0);
            now += 50_000_000;
        }
        tape.write(now + 20_000, SERVER, 1 + round % 50);
        if stall {
            for sk in 100..160 {
                tape.read(now + 21_000, SERVER, sk);
                tape.write(now + 22_000, SERVER, sk);
                now += 2_000;
            }
        }
        now += 50_000;
    }
    let target = tape.account();
    let tail = target.tail.unwrap();
    assert_eq!(tail.bursts, 8);
    let period = tail.period_ns.unwrap();
    assert!((290_000_000..310_000_000).contains(&period), "{period}");
    let first = &tail.account.places[0];
    assert_eq!(
        first.place,
        Place::OthersBlocked,
        "{:#?}",
        tail.account.places
    );
    assert_eq!(
        (first.detail.as_str(), first.waker.as_str()),
        ("sleep", "timer")
    );
    assert!(first.total_ns * 10 > tail.account.total_ns * 9);
    let stalls = target.stalls.unwrap();
    assert_eq!((stalls.moments, stalls.turns), (8, 8 * 61));
    assert!(stalls.period_spread.unwrap() < 0.05, "{stalls:?}");
}

#[test]
fn samples_fall_on_the_turn_that_ran_and_on_those_that_waited() {
    let mut tape = asleep(10);
    tape.wake(900, SERVER, 0, "");
    tape.on(900, SERVER, 0);
    for sk in 1..5 {
        tape.arrive(1_000, sk);
    }
    tape.read(1_100, SERVER, 1);
    tape.stacks.samples.push(Located {
        tid: SERVER,
        at_ns: 1_500,
        stack: 4,
        count: 1,
    });
    tape.write(2_000, SERVER, 1);
    for sk in 2..5 {
        tape.read(2_000 + sk, SERVER, sk);
        tape.write(2_001 + sk, SERVER, sk);
    }
    let target = tape.account();
    let samples = target.account.cpu_samples;
    let of = |place| {
        samples
            .iter()
            .find(|s| s.place == place)
            .map(|s| (s.stack, s.samples))
    };
    assert_eq!(of(Place::OnCpu), Some((4, 1)));
    assert_eq!(of(Place::OtherTurns), Some((4, 3)));
}

#[test]
fn a_request_before_the_end_of_the_send_ends_the_turn_there() {
    let mut tape = Tape::default();
    tape.arrive(1_000, 1);
    tape.read(1_100, SERVER, 1);
    tape.arrive(1_900, 1);
    tape.write(2_000, SERVER, 1);
    tape.read(2_100, SERVER, 1);
    tape.write(2_200, SERVER, 1);
    let target = tape.account();
    assert_eq!(target.account.total_ns, 900 + 300);
    assert_eq!((target.irregular, target.account.turns), (0, 2));
}

/// As php-fpm does on a connection that is kept: the record that ends the input is read behind the response, whether
/// it came with the request (nginx) or after it (Apache).
#[test]
fn the_end_of_a_request_that_is_read_behind_its_response_begins_no_turn() {
    for late in [false, true] {
        let mut tape = Tape::default();
        for from in [1_000_000, 51_000_000, 101_000_000] {
            tape.arrive(from, 1);
            tape.read(from + 100, SERVER, 1);
            if late {
                tape.arrive(from + 200, 1);
            }
            tape.write(from + 1_000_000, SERVER, 1);
            tape.read(from + 1_000_010, SERVER, 1);
        }
        let target = tape.account();
        assert_eq!(target.account.turns, 3, "{late}");
        assert_eq!(target.account.total_ns, 3 * 1_000_000, "{late}");
        assert_eq!(target.irregular, 1, "{late}");
        assert!(target.between_ns.abs_diff(2 * 49_000_000) <= 20, "{late}");
    }
}

/// The same where each request has a connection, whose data comes before it is accepted, at an address that was
/// another's before.
#[test]
fn what_is_read_before_a_thread_rests_is_no_part_of_the_next_request() {
    let mut tape = Tape::default();
    tape.arrive(1_000_000, 1);
    for from in [1_000_000, 51_000_000, 101_000_000] {
        tape.on(from, SERVER, 0);
        tape.read(from + 100, SERVER, 1);
        tape.write(from + 1_000_000, SERVER, 1);
        tape.read(from + 1_000_010, SERVER, 1);
        tape.off(
            from + 1_000_020,
            SERVER,
            "accept4",
            INTERRUPTIBLE,
            Class::None,
        );
    }
    let target = tape.account();
    assert_eq!(target.account.turns, 3);
    assert!(
        target.account.total_ns.abs_diff(3 * 1_000_000) <= 300,
        "{}",
        target.account.total_ns
    );
}

/// Whatever the events are, in whatever order: nothing panics and every account adds up.
#[test]
fn any_events_add_up() {
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let names = [
        "futex",
        epoll(),
        "recvfrom",
        "openat",
        "accept4",
        "clock_nanosleep",
        "sendto",
        "",
    ];
    let mut turns = 0;
    for round in 0..400 {
        let mut tape = Tape {
            green: round % 7 == 0,
            ..Tape::default()
        };
        let mut now = 0;
        for _ in 0..random(300) {
            now += random(5_000);
            let tid = SERVER + random(4) as u32;
            let (sk, up) = (1 + random(6), 500 + random(3));
            match random(13) {
                0 | 1 => tape.arrive(now, sk),
                2 | 3 => tape.read(now, tid, sk),
                4 | 5 => tape.write(now, tid, sk),
                6 => tape.ask(now, tid, up),
                7 => tape.answer(now, up),
                8 => tape.take(now, tid, up),
                9 => tape.on(now, tid, [0, FOREIGN][random(2) as usize]),
                10 => tape.preempt(now, tid),
                11 => tape.wake(
                    now,
                    tid,
                    SERVER + random(4) as u32,
                    names[random(8) as usize],
                ),
                _ => {
                    let class = [Class::None, Class::Client, Class::Upstream][random(3) as usize];
                    tape.off(
                        now,
                        tid,
                        names[random(8) as usize],
                        1 + random(2) as u32,
                        class,
                    );
                }
            }
        }
        let target = tape.account();
        turns += target.account.turns;
        let lengths = target.lengths.map_or(0, |lengths| lengths.count());
        assert_eq!(lengths, target.account.turns);
    }
    assert!(turns > 1_000, "{turns}");
}

#[test]
fn a_cut_event_is_none() {
    assert_eq!(Event::read(&[0; 63]), None);
    assert!(Event::read(&[0; 64]).is_some());
}

/// What a runtime tells of a thread.
fn told(runtime: &str, state: ToldState, function: &str) -> Told {
    Told {
        runtime: runtime.to_owned(),
        state,
        frames: vec![function.to_owned()],
        ..Told::default()
    }
}

/// Time that is named by a function.
fn named(target: &TargetTurns, all: &[Told], function: &str) -> u64 {
    let places = target.account.places.iter();
    let own = places.filter(|p| {
        p.told
            .is_some_and(|t| all[t as usize].frames[0] == function)
    });
    own.map(|place| place.total_ns).sum()
}

/// A thread that serves requests of which each waits in a futex, and how long.
fn waits_of(lengths: &[u64]) -> (Tape, Vec<(u64, u64)>) {
    let mut tape = asleep(10);
    let (mut at, mut waits) = (1_000, Vec::new());
    for &length in lengths {
        tape.arrive(at, 1);
        tape.wake(at + 10, SERVER, FOREIGN, "sendto");
        tape.on(at + 20, SERVER, 0);
        tape.read(at + 30, SERVER, 1);
        tape.off(at + 100, SERVER, "futex", INTERRUPTIBLE, Class::None);
        tape.wake(at + 100 + length, SERVER, SERVER + 1, "futex");
        tape.on(at + 100 + length, SERVER, 0);
        tape.write(at + 200 + length, SERVER, 1);
        tape.off(
            at + 300 + length,
            SERVER,
            epoll(),
            INTERRUPTIBLE,
            Class::None,
        );
        waits.push((at + 100, at + 100 + length));
        at += length + 1_000;
    }
    (tape, waits)
}

#[test]
fn a_sample_counts_for_time_and_not_for_the_wait_that_it_met() {
    // Every tenth wait is a hundred times as long, and elsewhere: half of the waits' time is 91 %.
    let lengths: Vec<u64> = (0..200)
        .map(|i| if i % 10 == 0 { 1_000_000 } else { 10_000 })
        .collect();
    let (mut tape, waits) = waits_of(&lengths);
    let end = waits.last().unwrap().1;
    let mut step = 7_919_u64;
    let mut at = 1_000;
    while at < end {
        if let Some((from, to)) = waits.iter().find(|(from, to)| (*from..*to).contains(&at)) {
            let function = if to - from > 100_000 {
                "Pool.getConnection"
            } else {
                "Cache.get"
            };
            tape.stacks
                .told
                .add(SERVER, When::at(at), told("jvm", ToldState::Lock, function));
        }
        step = step
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        at += 5_000 + (step >> 33) % 10_000;
    }
    let (traced, stacks) = tape.traced();
    let turns = traced.account(&stacks);
    let target = &turns.targets[0];
    adds_up(target);
    let [long, short] =
        ["Pool.getConnection", "Cache.get"].map(|f| named(target, &turns.told, f) as f64);
    let whole: u64 = lengths.iter().sum();
    assert_eq!((long + short) as u64, whole);
    let share = long / whole as f64;
    assert!((share - 20.0 / 21.8).abs() < 0.02, "{share}");
}

#[test]
fn shares_of_what_was_told_add_up_whatever_was_told() {
    let mut seed = 17_u64;
    let mut random = |below: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..50 {
        let lengths: Vec<u64> = (0..1 + random(40)).map(|_| 1 + random(1_000_000)).collect();
        let (mut tape, waits) = waits_of(&lengths);
        let end = waits.last().unwrap().1;
        for _ in 0..random(60) {
            let function = format!("F{}.f", random(7));
            let state = [ToldState::Lock, ToldState::Sleep, ToldState::Running][random(3) as usize];
            let at = random(end + 5_000);
            let runtime = ["jvm", "cpython"][random(2) as usize];
            // Some of a thread that nobody knows.
            let tid = SERVER + random(2) as u32 * 7;
            tape.stacks
                .told
                .add(tid, When::at(at), told(runtime, state, &function));
        }
        let (traced, stacks) = tape.traced();
        let turns = traced.account(&stacks);
        let target = &turns.targets[0];
        adds_up(target);
        let blocked: u64 = (target.account.places.iter())
            .filter(|p| p.place == Place::Blocked)
            .map(|p| p.total_ns)
            .sum();
        assert_eq!(blocked, lengths.iter().sum::<u64>());
    }
}

#[test]
fn looks_at_all_threads_meet_those_with_a_turn_as_long_as_they_have_it() {
    let (mut tape, waits) = waits_of(&[50_000; 30]);
    let mut add = |tid: u32, when: When, function: &str| {
        let told = told("cpython", ToldState::Running, function);
        tape.stacks.told.add(tid, when, told);
    };
    for (from, to) in &waits {
        add(SERVER, When::at(from - 20), "read");
        add(SERVER, When::at(from + 30_000), "wait");
        // Between two requests, and of a thread that serves none.
        add(SERVER, When::at(to + 500), "rest");
        add(SERVER + 7, When::at(from + 30_000), "tick");
        // Who has a lock is looked at more often than others.
        add(SERVER, When::of_holder(from + 20_000), "hold");
    }
    let (traced, stacks) = tape.traced();
    let turns = traced.account(&stacks);
    let threads = turns.targets[0].account.threads.as_ref().unwrap();
    assert_eq!(threads.open, 60);
    let met = threads.met.iter();
    let met = met.map(|one| (turns.told[one.told as usize].frames[0].as_str(), one.looks));
    assert_eq!(met.collect::<Vec<_>>(), [("read", 30), ("wait", 30)]);
}

#[test]
fn a_thread_that_the_dump_itself_stops_waits_for_nothing() {
    let (mut tape, waits) = waits_of(&[50_000; 30]);
    for (from, _) in &waits {
        let running = told("jvm", ToldState::Running, "App.work");
        tape.stacks.told.add(SERVER, When::at(from + 9), running);
    }
    let (traced, stacks) = tape.traced();
    let turns = traced.account(&stacks);
    assert_eq!(named(&turns.targets[0], &turns.told, "App.work"), 0);
}

#[test]
fn a_dump_is_of_the_time_in_which_its_maker_ran() {
    let (mut tape, waits) = waits_of(&[100_000; 4]);
    // The maker is asked while the thread waits, and answers when it does so again; it looked in the first wait.
    let stopper = SERVER + 3;
    let (from, to) = waits[1];
    for (on, off) in [
        (from + 10, from + 20),
        (from + 1_000, from + 60_000),
        (to + 30, to + 50),
    ] {
        tape.on(on, stopper, 0);
        tape.off(off, stopper, "futex", INTERRUPTIBLE, Class::None);
        tape.wake(off + 5, stopper, SERVER, "futex");
    }
    tape.events.sort_by_key(|event| event.at_ns);
    let when = When {
        from_ns: from + 5,
        to_ns: waits[2].1,
        by: stopper,
        all: true,
    };
    for _ in 0..2 {
        tape.stacks
            .told
            .add(SERVER, when, told("jvm", ToldState::Lock, "App.enter"));
    }
    let (traced, stacks) = tape.traced();
    let turns = traced.account(&stacks);
    // All waits are alike: what was met in one of them names them all.
    assert_eq!(named(&turns.targets[0], &turns.told, "App.enter"), 400_000);
    let late = Stacks {
        told: {
            let mut late = super::TimeSamples::default();
            for _ in 0..2 {
                let nobody = When { by: 0, ..when };
                late.add(SERVER, nobody, told("jvm", ToldState::Lock, "App.enter"));
            }
            late
        },
        ..Stacks::default()
    };
    let (tape, _) = waits_of(&[100_000; 4]);
    let turns = tape.traced().0.account(&late);
    // Without its maker it is of the end of the answer, when the thread ran.
    assert_eq!(named(&turns.targets[0], &turns.told, "App.enter"), 0);
}

/// A server that starts a program for a request and polls its output: the turn is where the program is, and so is what
/// ran there.
#[test]
fn a_program_that_is_started_for_a_request_has_its_time() {
    const SHELL: u32 = SERVER + 40;
    const FILTER: u32 = SERVER + 41;
    let mut tape = asleep(0);
    tape.request(1_000);
    tape.fork(1_100, SERVER, SHELL);
    tape.off(1_200, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    tape.cpu = 1;
    tape.on(1_300, SHELL, 0);
    tape.fork(1_400, SHELL, FILTER);
    // The shell waits for its filter, which works, waits for the disk and works again.
    tape.off(1_500, SHELL, "wait4", INTERRUPTIBLE, Class::None);
    tape.cpu = 2;
    tape.on(1_600, FILTER, 0);
    tape.off(2_600, FILTER, "pread64", UNINTERRUPTIBLE, Class::None);
    tape.wake(3_000, FILTER, 0, "");
    tape.on(3_000, FILTER, 0);
    // It writes, and the server goes on.
    tape.wake(4_000, SERVER, FILTER, "write");
    tape.on(4_000, SERVER, 0);
    tape.write(4_100, SERVER, 1);
    tape.off(4_200, SERVER, epoll(), INTERRUPTIBLE, Class::None);
    tape.stacks.samples = vec![Located {
        tid: FILTER,
        at_ns: 2_000,
        stack: 7,
        count: 3,
    }];
    let target = check(
        tape,
        1,
        &[
            // Its own, the shell's and the filter's.
            (Place::OnCpu, "", "", 200 + 200 + 1_000 + 1_000 + 100),
            // Both began on an idle CPU.
            (Place::WakeUp, "", "", 100 + 100),
            (Place::Blocked, "disk", "interrupt", 400),
        ],
    );
    let ran = &target.account.cpu_samples;
    assert_eq!(
        (ran[0].place, ran[0].stack, ran[0].samples),
        (Place::OnCpu, 7, 3)
    );
}
