//! Where the turns of a target's connections go, as facts: shares of the mean turn by place, and stalls.
//!
//! The surprise: a place at which no turn was is 0 where turns were traced, and unknown where they were not.

use super::{Material, Sheet};
use crate::ledger::{
    is_at_limiter, is_at_mutex, is_in_pool, is_name_server, opening_share, tries_a_file,
    tries_a_lock, waits_for_made_lock,
};
use record::{Examination, Nanos, Place, PlaceTime, TargetTurns, ThreadTime, Told, ToldState};
use std::collections::BTreeMap;

const SOURCE: &str = "turns: sockets and threads, traced";
/// Fewer turns than this tell nothing of shares.
pub(super) const FEWEST: u64 = 20;
/// What the application called so far is its own work; a framework's templates and object mapping lie deeper.
const NEAR: u32 = 4;
/// Fewer looks at a running interpreter than this do not say whose functions run.
const FEWEST_LOOKS: u64 = 30;
const OWN_SHARE: &str = "script.own_share";
/// Runtimes that tell libraries from the application.
const SCRIPTS: [&str; 4] = ["cpython", "php", "perl", "ruby"];
/// Places with their names in facts.
const PLACES: [(&str, Place); 11] = [
    ("listen_queue", Place::ListenQueue),
    ("read_paused", Place::ReadPaused),
    ("run_queue", Place::RunQueue),
    ("other_turns", Place::OtherTurns),
    ("others_blocked", Place::OthersBlocked),
    ("no_free_thread", Place::NoFreeThread),
    ("blocked", Place::Blocked),
    ("upstream", Place::Upstream),
    ("sending", Place::Sending),
    ("hidden", Place::Hidden),
    ("loop", Place::Loop),
];
const GIVEN_UP: [&str; 3] = ["share", "ms", "time_share"];
const ASKING: &str = "upstream.asking_cpu_share";
const CPU: &str = "turn.cpu_share";
const THREADS: &str = "turn.threads";
const THREADS_IDLE: &str = "turn.threads_idle_share";
const OPENING: &str = "turn.opening_share";
const BEHIND_IDLE: &str = "upstream.threads_idle_share";
const ON_THE_WAY: &str = "upstream.path_ms";
const LONGEST: &str = "upstream.longest_turn_share";
/// Fewer turns than this for one request are not many of which one may be the longest.
const SEVERAL_TURNS: f64 = 2.0;
/// Waits that have a name of their own in facts.
const WAITS: [&str; 12] = [
    "pipe",
    "lock",
    "told_lock",
    "tried_lock",
    "sync",
    "sleep",
    "pool",
    "limiter",
    "unix_peer",
    "datagram",
    "name_server",
    "until_timer",
];
/// Waits for other threads of the server: a lock, or a condition that they signal.
const LOCKS: [&str; 4] = ["futex", "flock", "semaphore", "signalled"];
/// Waits for data to be on a disk, or to come from one.
const DISKS: [&str; 2] = ["sync", "disk"];
const STALLS: [&str; 6] = [
    "moments",
    "turns_each",
    "period_s",
    "period_spread",
    "time_share",
    "longest_ms",
];

/// Of the time of a request's turns with the server behind that takes longest in all, the part of the longest one: the
/// slowest of its turns, as many as there were requests.
fn longest_turn(turns: &TargetTurns, behind: Option<(u64, &TargetTurns)>, sheet: &mut Sheet<'_>) {
    let Some((_, behind)) = behind else {
        return sheet.not_applicable(LONGEST, "no server behind was traced");
    };
    if (behind.account.turns as f64) < SEVERAL_TURNS * turns.account.turns as f64 {
        return sheet.not_applicable(LONGEST, "a request asks it once");
    }
    let Some(lengths) = &behind.lengths else {
        return sheet.unknown(LONGEST, "lengths of its turns were not kept");
    };
    let recorded: Vec<_> = lengths.recorded().collect();
    let taken = |ns: Nanos, times: u64| ns.0 as f64 * times as f64;
    let total: f64 = recorded.iter().map(|(ns, times)| taken(*ns, *times)).sum();
    let mut left = turns.account.turns;
    let longest = recorded.iter().rev().map(|(ns, times)| {
        let counted = left.min(*times);
        left -= counted;
        taken(*ns, counted)
    });
    let longest: f64 = longest.sum();
    sheet.divided(
        LONGEST,
        Some(longest),
        Some(total),
        SOURCE,
        "they took no time",
    );
}

/// The server behind that is waited for longest, whoever found it, and for how long, ns; `None` where its turns were
/// not traced.
fn waited_for<'a>(material: &Material<'a>, turns: &TargetTurns) -> Option<(u64, &'a TargetTurns)> {
    let mut waits: BTreeMap<&str, u64> = BTreeMap::new();
    for place in &turns.account.places {
        if place.place == Place::Upstream {
            *waits.entry(&place.detail).or_default() += place.total_ns;
        }
    }
    let (address, ns) = waits.into_iter().max_by_key(|(_, ns)| *ns)?;
    let theirs = material.turns(material.target_at(address)?)?;
    (theirs.account.turns >= FEWEST).then_some((ns, theirs))
}

/// The server behind that is waited for longest: what of the waits was over before its turn or after it, on the way
/// there and back, and how long its threads rest.
fn longest_waited(behind: Option<(u64, &TargetTurns)>, sheet: &mut Sheet<'_>) {
    let Some((ns, theirs)) = behind else {
        return not_behind(sheet, "no server behind was traced");
    };
    let way = ns.saturating_sub(theirs.account.total_ns) as f64 / 1e6;
    sheet.known(ON_THE_WAY, way / theirs.account.turns as f64, SOURCE);
    match theirs.threads.as_ref().and_then(ThreadTime::idle_share) {
        Some(share) => sheet.known(BEHIND_IDLE, share, SOURCE),
        None => sheet.not_applicable(BEHIND_IDLE, "no thread was seen there that reads requests"),
    }
}

/// Rules that these rule out hold without them.
fn not_behind(sheet: &mut Sheet<'_>, why: &str) {
    for name in [ON_THE_WAY, BEHIND_IDLE] {
        sheet.not_applicable(name, why);
    }
}

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let reason = material.reason(&["turns"], "its turns were not traced");
    let traced = material.turns(&sheet.target);
    let Some(turns) = traced.filter(|t| t.account.turns >= FEWEST && t.account.total_ns > 0) else {
        for (name, _) in PLACES {
            sheet.unknown(&format!("turn.{name}_share"), &reason);
        }
        for name in WAITS {
            sheet.unknown(&format!("turn.{name}_share"), &reason);
        }
        sheet.unknown(ASKING, &reason);
        sheet.unknown(CPU, &reason);
        for name in [THREADS, THREADS_IDLE, OPENING] {
            sheet.unknown(name, &reason);
        }
        not_behind(sheet, &reason);
        for name in STALLS {
            sheet.unknown(&format!("stall.{name}"), &reason);
        }
        for name in GIVEN_UP {
            sheet.unknown(&format!("upstream.given_up_{name}"), &reason);
        }
        sheet.unknown(OWN_SHARE, &reason);
        sheet.unknown(LONGEST, &reason);
        return;
    };
    let behind = waited_for(material, turns);
    longest_turn(turns, behind, sheet);
    longest_waited(behind, sheet);
    let traced = material.examination().and_then(|e| e.turns.as_ref());
    let all_told = traced.map_or(&[][..], |t| &t.told);
    own_share(turns, all_told, sheet);
    let total = turns.account.total_ns as f64;
    let share = |test: &dyn Fn(&PlaceTime) -> bool| {
        let places = turns.account.places.iter().filter(|p| test(p));
        places.map(|p| p.total_ns as f64).sum::<f64>() / total
    };
    // A thread that waits in a call for no request keeps those of its connections, as one that waits for a request.
    let place_of = |p: &PlaceTime| match p.place {
        Place::Loop if !p.detail.is_empty() => Place::OthersBlocked,
        place => place,
    };
    for (name, place) in PLACES {
        let part = share(&|p| place_of(p) == place);
        sheet.known(&format!("turn.{name}_share"), part, SOURCE);
    }
    let cpu = share(&|p| matches!(p.place, Place::OnCpu | Place::RunQueue));
    sheet.known(CPU, cpu, SOURCE);
    let blocked = |p: &PlaceTime| matches!(p.place, Place::Blocked | Place::OthersBlocked);
    let pipe = share(&|p| blocked(p) && matches!(p.detail.as_str(), "pipe" | "pipe_write"));
    sheet.known("turn.pipe_share", pipe, SOURCE);
    // What the ledger says of who is blocked at a place.
    let stands = |p: &PlaceTime, there: fn(&Examination, &PlaceTime) -> bool| {
        let examination = material.examination();
        p.place == Place::Blocked && examination.is_some_and(|examination| there(examination, p))
    };
    let tried = |p: &PlaceTime| stands(p, tries_a_lock);
    let lock = share(&|p| {
        let locks = LOCKS.contains(&p.detail.as_str()) && p.waker != "timer";
        p.place == Place::Blocked && (locks || tried(p))
    });
    sheet.known("turn.lock_share", lock, SOURCE);
    let file = |p: &PlaceTime| stands(p, tries_a_file);
    sheet.known("turn.tried_lock_share", share(&file), SOURCE);
    let sync = share(&|p| p.place == Place::Blocked && DISKS.contains(&p.detail.as_str()));
    sheet.known("turn.sync_share", sync, SOURCE);
    let asleep = share(&|p| p.place == Place::Blocked && p.detail == "sleep" && !tried(p));
    sheet.known("turn.sleep_share", asleep, SOURCE);
    let held = share(&|p| p.place == Place::Hidden && p.waker == "timer");
    sheet.known("turn.until_timer_share", held, SOURCE);
    let in_pool = |p: &PlaceTime| stands(p, is_in_pool);
    sheet.known("turn.pool_share", share(&in_pool), SOURCE);
    let limiter = share(&|p| stands(p, is_at_limiter));
    sheet.known("turn.limiter_share", limiter, SOURCE);
    let told_lock = share(&|p| {
        let told = p.told.and_then(|told| all_told.get(told as usize));
        // A latch that another one opens is a lock that nobody calls so.
        let locked = |told: &Told| {
            matches!(told.state, ToldState::Lock | ToldState::Result) || waits_for_made_lock(told)
        };
        let locked = told.is_some_and(locked);
        p.place == Place::Blocked && (locked || stands(p, is_at_mutex)) && !in_pool(p)
    });
    sheet.known("turn.told_lock_share", told_lock, SOURCE);
    // A thread that waits, or a loop that goes on meanwhile.
    let by_datagrams = |p: &PlaceTime, whom: fn(&str) -> bool| {
        let peer = p.detail.strip_prefix("udp");
        let fits = peer.is_some_and(|address| whom(address.trim_start()));
        matches!(p.place, Place::Blocked | Place::Upstream) && fits
    };
    let datagram = share(&|p| by_datagrams(p, |_| true));
    sheet.known("turn.datagram_share", datagram, SOURCE);
    let named = share(&|p| by_datagrams(p, is_name_server));
    sheet.known("turn.name_server_share", named, SOURCE);
    let unix = share(&|p| {
        let is_unix = p.place == Place::Upstream && p.detail.starts_with("unix:");
        is_unix && material.target_at(&p.detail).is_some()
    });
    sheet.known("turn.unix_peer_share", unix, SOURCE);
    match &turns.threads {
        Some(threads) => {
            sheet.known(THREADS, threads.threads as f64, SOURCE);
            match threads.idle_share() {
                Some(share) => sheet.known(THREADS_IDLE, share, SOURCE),
                None => sheet.not_applicable(THREADS_IDLE, "no time of them"),
            }
        }
        None => {
            for name in [THREADS, THREADS_IDLE] {
                sheet.unknown(name, "no thread was seen that reads requests");
            }
        }
    }
    let asking = turns.asking.map(|a| (a.cpu_ns as f64, a.of_ns as f64));
    let (among, of) = asking.unzip();
    sheet.divided(ASKING, among, of, SOURCE, "its requests took no CPU");
    match opening_share(turns, all_told) {
        Some(share) => sheet.known(OPENING, share, SOURCE),
        None => sheet.not_applicable(OPENING, "no runtime told the functions of its threads"),
    }
    stalls(turns, sheet);
    given_up(turns, traced.map_or(1, |turns| turns.sampled_one_in), sheet);
}

/// Requests to upstreams whose connections ended before the answer. Upstreams are followed for all clients, turns for
/// one in so many.
fn given_up(turns: &TargetTurns, one_in: u32, sheet: &mut Sheet<'_>) {
    let waits = turns.given_up.as_ref();
    let ended = waits.map_or(0, |waits| waits.count()) as f64;
    let asked = ended + turns.answers as f64;
    if asked > 0.0 {
        sheet.known("upstream.given_up_share", ended / asked, SOURCE);
    } else {
        sheet.not_applicable("upstream.given_up_share", "no upstream was asked");
    }
    let median = waits.and_then(|waits| Some(waits.quantile(0.5)?.0 as f64));
    let lost = waits.and_then(|waits| Some(waits.mean_ns()? * ended));
    let total = turns.account.total_ns as f64 * f64::from(one_in);
    for (name, value) in [
        ("ms", median.map(|ns| ns / 1e6)),
        ("time_share", lost.map(|ns| ns / total)),
    ] {
        let name = format!("upstream.given_up_{name}");
        match value {
            Some(value) => sheet.known(&name, value, SOURCE),
            None => sheet.not_applicable(&name, "every request to an upstream was answered"),
        }
    }
}

/// How often, of the looks at an interpreter that ran, a function of the application's own was being run or had just
/// called what ran.
fn own_share(turns: &TargetTurns, told: &[Told], sheet: &mut Sheet<'_>) {
    let (mut own, mut looks) = (0, 0);
    let here = |place| matches!(place, Place::OnCpu | Place::Loop);
    for one in turns.ran.iter().filter(|one| here(one.place)) {
        let told = one.running(told);
        let told = told.filter(|told| SCRIPTS.contains(&told.runtime.as_str()));
        if let Some(told) = told {
            looks += one.samples;
            let near = told.own.is_some_and(|own| own <= NEAR);
            own += if near { one.samples } else { 0 };
        }
    }
    if looks < FEWEST_LOOKS {
        let reason = format!(
            "{looks} looks at a running interpreter of scripts, and no other runtime tells it"
        );
        sheet.not_applicable(OWN_SHARE, &reason);
    } else if told.iter().all(|told| told.own.is_none()) {
        // Older records do not say; nor does a program whose handlers are installed like a library.
        let reason = "no function was seen that is the application's own";
        sheet.not_applicable(OWN_SHARE, reason);
    } else {
        sheet.known(OWN_SHARE, own as f64 / looks as f64, SOURCE);
    }
}

fn stalls(turns: &TargetTurns, sheet: &mut Sheet<'_>) {
    let Some(stalls) = &turns.stalls else {
        for name in STALLS {
            sheet.unknown(
                &format!("stall.{name}"),
                "an older version traced these turns",
            );
        }
        return;
    };
    let few = "turns far above the median came in fewer than three moments";
    sheet.known("stall.moments", stalls.moments as f64, SOURCE);
    let share = stalls.total_ns as f64 / turns.account.total_ns as f64;
    sheet.known("stall.time_share", share, SOURCE);
    let longest = stalls.longest_ns as f64 / 1e6;
    sheet.known("stall.longest_ms", longest, SOURCE);
    for (name, value) in [
        (
            "turns_each",
            stalls
                .period_ns
                .map(|_| stalls.turns as f64 / stalls.moments as f64),
        ),
        ("period_s", stalls.period_ns.map(|ns| ns as f64 / 1e9)),
        ("period_spread", stalls.period_spread),
    ] {
        let name = format!("stall.{name}");
        match value {
            Some(value) => sheet.known(&name, value, SOURCE),
            None => sheet.not_applicable(&name, few),
        }
    }
}
