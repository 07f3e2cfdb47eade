//! The cases: some known exactly by arithmetic, and thousands that a seed draws.

use super::timeline::Timeline;
use super::world::{Delay, Machine, Mishap, Server};
use super::{Case, Ended, Share, check, in_flight, same};
use crate::random::Random;
use record::{Arrival, FailureKind, Histogram, Nanos, RatePiece, RatePieces};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn constant(per_s: f64) -> Arrival {
    Arrival::Constant { per_s }
}

/// The histogram holds these values, as exactly as it can.
fn holds(what: &str, histogram: &Histogram, expected: &[u64]) {
    same(
        &format!("{what}: how many"),
        expected.len() as u64,
        histogram.count(),
    );
    let mut sorted = expected.to_vec();
    sorted.sort_unstable();
    for quantile in [0.1, 0.5, 0.99, 1.0] {
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        let Some(&want) = sorted.get(rank.max(1) - 1) else {
            continue;
        };
        let got = histogram.quantile(quantile).map_or(0, |n| n.0);
        // Three significant digits.
        assert!(
            got.abs_diff(want) <= want / 900 + 1,
            "{what}: the quantile {quantile} is {got} ns, by arithmetic {want} ns"
        );
    }
}

/// Response times by the books: from due to received whole, in the order of the schedule.
fn responses(case: &Case, ended: &Ended) -> Vec<u64> {
    let due = case.due(ended.started_at, ended.measured.to);
    let done = ended.books.done.iter();
    due.iter()
        .zip(done)
        .filter(|&(due, done)| ended.measured.contains(*due) && *done > 0)
        .map(|(due, done)| done - due)
        .collect()
}

// ---- By arithmetic ----

#[test]
fn ten_per_second_for_one_second_are_exactly_ten() {
    for threads in 1..=4 {
        let mut sent = 0;
        for index in 0..threads {
            let case = Case {
                share: Share { index, of: threads },
                ..Case::new(constant(10.0), 2, Server::healthy(Delay::Fixed(MS)))
            };
            check(&case, |ended| {
                let tally = &ended.report.tally;
                assert_eq!(
                    (tally.sent, tally.succeeded),
                    (tally.scheduled, tally.scheduled)
                );
                sent += tally.sent;
            });
        }
        assert_eq!(sent, 10, "{threads} threads");
    }
}

#[test]
fn requests_leave_when_they_are_due_to_the_nanosecond() {
    let case = Case::new(constant(1_000.0), 8, Server::healthy(Delay::Fixed(3 * MS)));
    check(&case, |ended| {
        let due = case.due(ended.started_at, ended.measured.to);
        let sent: Vec<u64> = ended.books.sends.iter().map(|&(at, _)| at).collect();
        assert_eq!(sent, due);
        let lag = ended.report.tally.schedule_lag.max();
        assert_eq!(lag.map(|n| n.0), Some(0), "a perfect machine is never late");
    });
}

#[test]
fn a_full_server_responds_by_littles_law() {
    // One request at a time, 100 us each: 10,000/s whatever is asked, and N x 100 us until a response.
    for slots in [1, 4, 64] {
        let server = Server {
            one_at_a_time: true,
            ..Server::healthy(Delay::Fixed(100 * US))
        };
        let case = Case::new(Arrival::Closed, slots, server);
        check(&case, |ended| {
            let tally = &ended.report.tally;
            let (response, service) = (&tally.response, &tally.service);
            let expected = u64::from(slots) * 100 * US;
            let middle = response.quantile(0.5).unwrap().0;
            assert!(middle.abs_diff(expected) <= expected / 900, "{middle}");
            assert_eq!(
                response, service,
                "a closed loop has no schedule to be late for"
            );
            assert!(tally.succeeded.abs_diff(10_000) <= 1, "{}", tally.succeeded);
        });
    }
}

#[test]
fn a_server_with_room_is_not_made_to_wait() {
    // 64 connections, 1 ms each: 64,000/s, so dense that responses could gather. Nobody has said that the server is
    // full.
    let server = Server::healthy(Delay::Fixed(MS));
    let case = Case::new(Arrival::Closed, 64, server);
    check(&case, |ended| {
        assert_eq!(ended.report.cost.pauses.count, 0);
        let longest = ended.report.tally.response.max().unwrap().0;
        assert!(longest <= MS + MS / 900, "{longest}");
    });
    // The same load does pause when it is taken for full: the word is what counts.
    let mistaken = Case {
        known_full: true,
        ..case
    };
    check(&mistaken, |ended| {
        let pauses = ended.report.cost.pauses;
        assert!(pauses.count > 500, "{pauses:?}");
        assert_eq!(pauses.mean_ns(), Some(50_000.0));
    });
}

/// Asked for, answers gather whatever the server does and however requests arrive, and no request leaves later for it.
#[test]
fn asked_to_let_answers_gather_a_load_does_and_keeps_its_schedule() {
    for arrival in [Arrival::Closed, Arrival::Constant { per_s: 10_000.0 }] {
        let run = |coalesce_ns| {
            let case = Case {
                coalesce_ns,
                ..Case::new(
                    arrival,
                    16,
                    Server::healthy(Delay::Uniform(100 * US, 300 * US)),
                )
            };
            let mut found = (0, 0, 0);
            check(&case, |ended| {
                let tally = &ended.report.tally;
                let lag = tally.schedule_lag.quantile(0.99).map_or(0, |lag| lag.0);
                let pauses = ended.report.cost.pauses.count;
                found = (pauses, tally.response.mean_ns().unwrap() as u64, lag);
            });
            found
        };
        let ((none, at_once, lag), (pauses, gathered, gathered_lag)) =
            (run(Some(0)), run(Some(50 * US)));
        assert_eq!(none, 0);
        assert!(pauses > 1_000, "{pauses}");
        assert!(
            (at_once + 5 * US..=at_once + 50 * US).contains(&gathered),
            "{at_once} {gathered}"
        );
        assert!(gathered_lag <= lag + 2 * US, "{lag} {gathered_lag}");
    }
}

#[test]
fn pauses_change_nothing_while_the_server_is_full() {
    let run = |known_full| {
        let server = Server {
            one_at_a_time: true,
            ..Server::healthy(Delay::Fixed(20 * US))
        };
        let case = Case {
            known_full,
            ..Case::new(Arrival::Closed, 64, server)
        };
        let mut found = (0, 0, 0);
        check(&case, |ended| {
            let tally = &ended.report.tally;
            let mean = tally.response.mean_ns().unwrap() as u64;
            found = (tally.succeeded, mean, ended.report.cost.pauses.count);
        });
        found
    };
    let ((rate, mean, none), (paused_rate, paused_mean, pauses)) = (run(false), run(true));
    assert_eq!(none, 0);
    // What is under way at the stop may differ.
    assert!(rate.abs_diff(paused_rate) <= 64, "{rate} {paused_rate}");
    assert!(pauses > 10_000, "{pauses}");
    // Little's law: 64 x 20 us, wherever a response waits.
    assert!(
        paused_mean.abs_diff(mean) <= mean / 200,
        "{paused_mean} {mean}"
    );
}

#[test]
fn a_stalled_server_has_the_response_times_of_the_stall() {
    // Due every millisecond; nothing leaves the server from 200 to 400 ms, and there are connections enough. What is
    // due at t in the stall waits until its end, whatever the generator does meanwhile.
    let server = Server {
        frozen: Some((200 * MS, 400 * MS)),
        ..Server::healthy(Delay::Fixed(MS / 2))
    };
    let case = Case::new(constant(1_000.0), 250, server);
    check(&case, |ended| {
        let expected: Vec<u64> = (0..1_000)
            .map(|k| k * MS)
            .map(|due| match due + MS / 2 {
                done if (200 * MS..400 * MS).contains(&done) => 400 * MS - due,
                _ => MS / 2,
            })
            .collect();
        holds("response", &ended.report.tally.response, &expected);
        assert_eq!(
            ended.report.tally.late, 0,
            "connections were free all the time"
        );
    });
}

#[test]
fn a_stall_behind_one_connection_counts_from_the_schedule() {
    // As before over a single connection: what becomes due in the stall queues for it, then leaves one behind the
    // other.
    let service = MS / 2;
    let server = Server {
        frozen: Some((200 * MS, 400 * MS)),
        ..Server::healthy(Delay::Fixed(service))
    };
    let case = Case::new(constant(1_000.0), 1, server);
    check(&case, |ended| {
        let mut free_at = 0;
        let expected = (0..1_000).map(|k| {
            let due = k * MS;
            let mut done = free_at.max(due) + service;
            if (200 * MS..400 * MS).contains(&done) {
                done = 400 * MS;
            }
            free_at = done;
            done - due
        });
        let expected: Vec<u64> = expected.collect();
        holds("response", &ended.report.tally.response, &expected);
        let longest_service = ended.report.tally.service.max().unwrap().0;
        assert!(longest_service >= 199 * MS, "the one that met the stall");
        assert!(ended.report.tally.late > 190, "those that queued");
    });
}

#[test]
fn what_waits_for_longer_than_the_timeout_is_dropped_and_no_burst_follows() {
    // One request in 20 ms over one connection, one due every 10 ms: half of them cannot be sent in time.
    let case = Case {
        timeout_ns: 100 * MS,
        ..Case::new(constant(100.0), 1, Server::healthy(Delay::Fixed(20 * MS)))
    };
    check(&case, |ended| {
        let tally = &ended.report.tally;
        assert_eq!((tally.scheduled, tally.sent + tally.dropped), (100, 100));
        assert!(tally.dropped >= 40, "{}", tally.dropped);
        let longest = tally.response.max().unwrap().0;
        // The timeout, a sixteenth of it until it is noticed, and the service itself.
        assert!(longest <= 100 * MS + 7 * MS + 20 * MS, "{longest}");
        let gaps = ended
            .books
            .sends
            .windows(2)
            .map(|pair| pair[1].0 - pair[0].0);
        assert!(
            gaps.min().unwrap() >= 20 * MS,
            "no faster than the server responds"
        );
    });
}

#[test]
fn a_server_that_never_responds_leaves_nothing_undecided_after_the_grace() {
    let server = Server {
        mishaps: (1.0, vec![Mishap::Stall]),
        ..Server::healthy(Delay::Fixed(0))
    };
    let undisturbed = Case {
        timeout_ns: 50 * MS,
        ..Case::new(constant(200.0), 4, server.clone())
    };
    // Its last request is due right before the stop, with a free connection, and is sent after it.
    let late = |seed| Case {
        seed,
        timeout_ns: 50 * MS,
        machine: Machine {
            oversleep_ns: 2 * MS,
            call_ns: 0,
        },
        ..Case::new(constant(1_000.0), 1_200, server.clone())
    };
    for case in std::iter::once(undisturbed).chain((0..40).map(late)) {
        check(&case, |ended| {
            let tally = &ended.report.tally;
            same("in flight after the grace", in_flight(tally), 0);
            same(
                "failures",
                tally.failed[FailureKind::Timeout as usize],
                tally.sent,
            );
            assert_eq!(tally.completed, 0);
        });
    }
}

#[test]
fn a_server_that_refuses_is_given_up_after_a_second() {
    for arrival in [Arrival::Closed, constant(50.0)] {
        let server = Server {
            refused: 1.0,
            ..Server::healthy(Delay::Fixed(0))
        };
        let case = Case {
            duration_ns: Some(3_600 * SECOND),
            ..Case::new(arrival, 4, server)
        };
        check(&case, |ended| {
            let measured = ended.measured.to - ended.measured.from;
            assert!((SECOND..2 * SECOND).contains(&measured), "{measured}");
            // 10, 20, 40 ... 640 ms: seven attempts of each connection in a second, eight with the first.
            assert!(ended.books.attempts <= 4 * 9, "{}", ended.books.attempts);
        });
    }
}

#[test]
fn a_slow_handshake_is_waited_for_asleep() {
    // A connection for each request, and 50 ms until it is open: what is due waits for connections on their way.
    let server = Server {
        connect: Delay::Fixed(50 * MS),
        ..Server::healthy(Delay::Fixed(MS))
    };
    let case = Case {
        per_connection: 1,
        ..Case::new(constant(100.0), 20, server)
    };
    check(&case, |ended| {
        // Those due in the last 50 ms had no connection by the stop; the one due at its start had, at the stop itself.
        let tally = &ended.report.tally;
        assert_eq!((tally.succeeded, tally.dropped), (96, 4));
        holds("response", &tally.response, &[51 * MS; 96]);
        let calls = ended.report.syscalls;
        assert!(calls < 2_000, "{calls} calls for 100 requests");
    });
}

// ---- By seed ----

fn draw_delay(random: &mut Random) -> Delay {
    let mean = 10 * US + random.bits() % (20 * MS);
    match random.bits() % 3 {
        0 => Delay::Fixed(mean),
        1 => Delay::Exponential(mean),
        _ => Delay::Uniform(mean / 2, mean * 2),
    }
}

fn one_of<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.bits() as usize % choices.len()]
}

/// Half of the loads have a rate that changes, once down to nothing.
fn draw_pieces(per_s: f64, seed: u64) -> RatePieces {
    let random = &mut Random::seeded(!seed);
    let mut piece = |rates: &[f64]| RatePiece {
        from_per_s: per_s * one_of(random, rates),
        to_per_s: per_s * one_of(random, rates),
        duration: Nanos(10 * MS + random.bits() % (80 * MS)),
    };
    let pieces = [
        piece(&[0.0, 1.0, 2.0]),
        piece(&[0.0, 0.5]),
        piece(&[0.3, 1.0]),
    ];
    match seed % 2 {
        0 => RatePieces::default(),
        _ => RatePieces(pieces.to_vec()),
    }
}

/// A load and a healthy server, on a machine that may be slow.
fn draw(seed: u64) -> Case {
    let random = &mut Random::seeded(seed);
    let per_s = one_of(random, &[10.0, 37.0, 100.0, 400.0, 999.0]);
    let arrival = match random.bits() % 5 {
        0 | 1 => Arrival::Closed,
        2 => Arrival::Poisson { per_s, seed },
        _ => constant(per_s),
    };
    let of = one_of(random, &[1, 1, 2, 3]);
    let index = (random.bits() % u64::from(of)) as u32;
    let pieces = match arrival {
        Arrival::Closed => RatePieces::default(),
        _ => draw_pieces(per_s, seed),
    };
    let mut server = Server::healthy(draw_delay(random));
    server.connect = draw_delay(random);
    server.one_at_a_time = random.bits().is_multiple_of(4);
    server.body = one_of(random, &[0, 5, 5, 5, 3_000, 40_000]);
    let spin_ns = one_of(random, &[0, 0, 0, 80 * US]);
    let by_count = random.bits().is_multiple_of(4);
    Case {
        seed,
        pieces,
        share: Share { index, of },
        warmup_ns: one_of(random, &[0, 0, 30 * MS]),
        duration_ns: (!by_count).then(|| 50 * MS + random.bits() % (200 * MS)),
        budget: match by_count {
            true => 1 + random.bits() % 60,
            false => u64::MAX,
        },
        timeout_ns: one_of(random, &[20 * MS, 100 * MS, 2_000 * MS]),
        per_connection: one_of(random, &[u64::MAX, u64::MAX, 1, 3, 10]),
        known_full: random.bits().is_multiple_of(2),
        spin_ns: if arrival == Arrival::Closed {
            0
        } else {
            spin_ns
        },
        machine: Machine {
            oversleep_ns: one_of(random, &[0, 0, 60 * US, 2 * MS]),
            call_ns: one_of(random, &[0, 0, 2 * US, 30 * US]),
        },
        ..Case::new(arrival, 1 + (random.bits() % 12) as u32, server)
    }
}

fn with_pipeline(mut case: Case, random: &mut Random) -> Case {
    case.depth = one_of(random, &[1, 1, 1, 2, 5]).min(case.per_connection as usize);
    case
}

#[test]
fn loads_of_healthy_servers_are_counted_exactly() {
    for seed in 0..1_500 {
        let case = Case {
            timeout_ns: 5_000 * MS,
            ..draw(seed)
        };
        check(&case, |ended| {
            let tally = &ended.report.tally;
            let failed: u64 = tally.failed.iter().sum();
            assert_eq!((failed, tally.retried), (0, 0));
            if case.arrival != Arrival::Closed && tally.dropped == 0 && in_flight(tally) == 0 {
                holds("response", &tally.response, &responses(&case, ended));
            }
        });
    }
}

#[test]
fn loads_of_failing_servers_are_counted_exactly() {
    for seed in 10_000..13_000 {
        let random = &mut Random::seeded(!seed);
        let mut case = with_pipeline(draw(seed), random);
        let server = &mut case.server;
        let of_attempts = [0.0, 0.0, 0.1, 0.5];
        server.refused = one_of(random, &of_attempts);
        server.ignored = one_of(random, &of_attempts);
        server.no_port = one_of(random, &[0.0, 0.0, 0.1]);
        server.in_pieces = one_of(random, &[0.0, 0.2, 1.0]);
        let first = random.bits() as usize % Mishap::ALL.len();
        let kinds = Mishap::ALL.iter().cycle().skip(first);
        let kinds = kinds.take(1 + random.bits() as usize % Mishap::ALL.len());
        server.mishaps = (
            one_of(random, &[0.02, 0.1, 0.5, 1.0]),
            kinds.copied().collect(),
        );
        if random.bits().is_multiple_of(4) {
            server.frozen = Some((20 * MS, 20 * MS + random.bits() % (100 * MS)));
        }
        check(&case, |ended| {
            let tally = &ended.report.tally;
            let resent = tally.retried > 0;
            assert!(
                !resent || ended.books.lost > 0,
                "nothing was lost, yet sent again"
            );
        });
    }
}

/// A connection that the server resets while another has news: the loop finds the reset when it sends, closes the slot
/// and opens it again, all before it comes to the reset's own event in the same batch.
#[test]
fn an_event_of_an_earlier_connection_does_not_reach_the_next_one_in_its_slot() {
    for seed in 20_000..20_300 {
        let server = Server {
            mishaps: (0.5, vec![Mishap::ResetAfter]),
            ..Server::healthy(Delay::Uniform(10 * US, 600 * US))
        };
        let case = Case {
            seed,
            duration_ns: Some(50 * MS),
            machine: Machine {
                oversleep_ns: 500 * US,
                call_ns: 2 * US,
            },
            ..Case::new(constant(4_000.0), 4, server)
        };
        check(&case, |_| {});
    }
}

#[test]
fn a_case_repeats() {
    let shape = |seed| {
        let mut shape = (0, 0, 0);
        let case = draw(seed);
        check(&case, |ended| {
            let tally = &ended.report.tally;
            shape = (tally.sent, tally.received_bytes, ended.ended_at);
        });
        shape
    };
    assert_eq!(shape(3), shape(3));
    assert_ne!(shape(3), shape(4));
}

// ---- The message ----

#[test]
fn a_broken_case_shows_its_seed_and_its_timeline() {
    let case = Case {
        seed: 77,
        ..Case::new(constant(10.0), 1, Server::healthy(Delay::Fixed(MS)))
    };
    let broken = std::panic::catch_unwind(|| check(&case, |_| panic!("on purpose")));
    let message = *broken.unwrap_err().downcast::<String>().unwrap();
    assert!(message.starts_with("seed 77: on purpose\n"), "{message}");
    for line in [
        "  900.000000 ms  schedule  request 10 is due\n",
        "  900.000000 ms  c0.1      loop    sends 35 of 35 bytes, 1 request(s)\n",
        "  901.000000 ms  c0.1      server  responds with 43 bytes\n",
        "  901.000000 ms  c0.1      loop    receives 43 bytes, 1 response(s) complete\n",
    ] {
        assert!(message.contains(line), "{message}");
    }
    assert_eq!(Timeline::default().show(0, &[]), "");
}
