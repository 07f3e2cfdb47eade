//! The order of findings, and what is said when no cause is worth a change.
//!
//! Station first, then the bound on the gain times the confidence. A cause whose bound is not known stands behind
//! all that are worth a change. One whose bound is below what could be measured is true and not worth changing: it
//! stands last, and before it `none`, where the facts show that the server is healthy, or `unknown`.

use super::catalogue::{Cause, Condition, Explains, Scope};
use super::expression::{Expression, Format, Template, ungrouped};
use super::fact::{FactSet, FactView, Reading};
use super::rules::{Outcome, Scene, Truth, condition, judge};
use super::station::seen_from;
use super::{Catalogue, Finding, RuledOut, Seen, Station, Status, Unseen, change, work};
use crate::ledger::{self, Account, Basis, Ledger, Row};
use crate::words::percent;
use crate::{Evidence, Verdict};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The smallest share that a proof could see on a small shared machine.
const NOISE_FLOOR: f64 = 0.03;
/// Work below this share of the limiting CPU, or a wait below this share of a request, is the price of a feature, and
/// less than what two machines of one kind differ by.
const SMALL_WORK: f64 = 0.1;

/// What a change would bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// Less than could be measured, or nothing here.
    Nothing,
    /// That is not known.
    Unknown,
    /// Enough to be measured.
    Measurable,
}

/// What the ledger's rows bound of a cause; `None` where no account tells.
#[derive(Clone, Copy)]
struct Bounds {
    /// Its gain.
    rows: Option<f64>,
    /// What waits in line because of it: requests for which there is no free thread while it holds the threads.
    in_line: f64,
    /// Its part of the CPU's account.
    on_cpu: Option<f64>,
}

/// A cause that holds, with what its place depends on.
struct Held<'a> {
    cause: &'a Cause,
    finding: Finding,
    worth: Worth,
    fits: bool,
    score: f64,
    /// The bound on the gain as a share of what limits.
    of_limit: Option<f64>,
    /// It is worth what it costs the servers behind.
    behind: bool,
}

/// What the rules said.
#[derive(Default)]
pub(crate) struct Ranked {
    pub findings: Vec<Finding>,
    pub ruled_out: Vec<RuledOut>,
    pub unseen: Vec<Unseen>,
    pub unexplained: Option<f64>,
    pub ledger: Option<Ledger>,
}

/// What conditions are judged by at one server.
fn scene<'a>(facts: &'a FactSet, station: &'a Station, target: &'a str, front: &str) -> Scene<'a> {
    Scene {
        facts: facts.view(target),
        station: seen_from(station, target, front),
    }
}

/// The catalogue with all the rows that causes explain of these servers.
pub(crate) fn fitted<'a>(
    catalogue: &'a Catalogue,
    facts: &FactSet,
    station: &Station,
) -> Cow<'a, Catalogue> {
    let front = facts.targets.first().map_or("", String::as_str);
    let holds = |when: &Condition| {
        let mut scenes = facts
            .targets
            .iter()
            .map(|t| scene(facts, station, t, front));
        scenes.any(|scene| condition(when, scene).truth == Truth::True)
    };
    let mut fitted = Cow::Borrowed(catalogue);
    for (index, cause) in catalogue.causes.iter().enumerate() {
        if let Some(more) = cause.rows_where.as_ref().filter(|more| holds(&more.when)) {
            let rows = more.rows.iter().cloned();
            fitted.to_mut().causes[index].rows.extend(rows);
        }
    }
    fitted
}

/// Judges every cause at every target that it is about, and orders what holds.
pub(crate) fn rank(
    catalogue: &Catalogue,
    facts: &FactSet,
    station: &Station,
    verdict: Option<&Verdict>,
    seen: Seen,
) -> Ranked {
    let front = facts.targets.first().map_or("", String::as_str);
    let mut ranked = Ranked::default();
    let (mut ledger, pasted) = match seen {
        Seen::Measured(ledger) => (ledger.map(|l| *l), false),
        Seen::Pasted => (None, true),
    };
    if let Some(ledger) = &mut ledger {
        ledger::open_unjudged(ledger, catalogue);
    }
    // The way to the clients is no part of an account of traffic that was watched.
    let watched = facts.view("").value("traffic.watched") == Some(1.0);
    // Where nobody is full, the requests' own time is what can be spared: work beside them (a collector's) takes CPU
    // that none of them waits for.
    let requests_want = ledger.as_ref().and_then(in_requests);
    let mut held: Vec<Held<'_>> = Vec::new();
    let mut ruled_out: Vec<(f64, RuledOut)> = Vec::new();
    for cause in &catalogue.causes {
        let once = [front.to_owned()];
        let targets = match cause.scope {
            Scope::Target if !facts.targets.is_empty() => facts.targets.as_slice(),
            _ => &once,
        };
        for target in targets {
            let scene = scene(facts, station, target, front);
            let about = if cause.scope == Scope::Target {
                target
            } else {
                ""
            };
            match judge(cause, scene) {
                Outcome::Holds {
                    confidence,
                    status,
                    evidence,
                } => {
                    let bound = ledger.as_ref();
                    let works = cause.explains == Explains::Cpu && !cause.whole;
                    let most = requests_want.filter(|_| works && about == front);
                    let most = most.unwrap_or(1.0);
                    // What a client of watched traffic does is in no account; the client of a server behind is the
                    // server before it.
                    let at_client = watched && (about == front || about.is_empty());
                    let bounds = Bounds {
                        rows: bound
                            .filter(|_| !(at_client && cause.explains == Explains::Quantum))
                            .and_then(|l| ledger::bound(l, cause, about, front))
                            .map(|rows| rows.min(most)),
                        in_line: bound.map_or(0.0, |l| ledger::in_line(l, cause, about, front)),
                        on_cpu: bound.and_then(|l| ledger::on_cpu(l, cause, about, front)),
                    };
                    let seen = (confidence, status, evidence);
                    held.push(hold(cause, scene, about, bounds, seen));
                }
                Outcome::RuledOut { why, near } => {
                    let out = RuledOut {
                        cause: cause.name.clone(),
                        title: cause.title.clone(),
                        target: about.to_owned(),
                        why,
                    };
                    ruled_out.push((near, out));
                }
                Outcome::Unseen { signals, why } => ranked.unseen.push(Unseen {
                    cause: cause.name.clone(),
                    target: about.to_owned(),
                    signals,
                    why,
                }),
                Outcome::Absent => {}
            }
        }
    }
    // The nearest first: what a reader would have thought of.
    ruled_out.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.ruled_out = ruled_out.into_iter().map(|(_, out)| out).collect();
    let (nones, mut held): (Vec<_>, Vec<_>) = held
        .into_iter()
        .partition(|h| h.cause.explains == Explains::Nothing && h.cause.group == "none");
    leave_the_exact(&mut held);
    order(&mut held);
    let worthy = held.iter().any(|h| h.worth == Worth::Measurable);
    let unsure = held.iter().any(|h| h.worth == Worth::Unknown && h.fits);
    let worth: Vec<bool> = held.iter().map(|h| h.worth == Worth::Measurable).collect();
    let bounds = unexplained(&held);
    for held in &mut held {
        let seen = ledger.as_ref().and_then(|ledger| match held.cause {
            cause if cause.tail => in_tail(ledger),
            cause if cause.whole => fills_it(ledger, front),
            cause if cause.rows == ["upstream"] && held.finding.target == front => {
                stands_behind(ledger)
            }
            cause if cause.rows.iter().any(|kind| SAID.contains(&kind.as_str())) => {
                most_of_it(ledger, cause, &held.finding.target, front)
            }
            _ => None,
        });
        if let Some(row) = seen {
            held.finding.why.push_str(&row);
        }
        let of_upstreams =
            held.cause.group == "backend" || held.cause.rows.iter().any(|r| r == "upstream");
        if of_upstreams && held.finding.target == front {
            held.finding.why.push_str(&mostly_asked(ledger.as_ref()));
        }
        if held.cause.rows.iter().any(|kind| kind == "foreign") {
            held.finding.why.push_str(&who_ran_beside(ledger.as_ref()));
        }
    }
    let mut findings: Vec<Finding> = held.into_iter().map(|h| h.finding).collect();
    if let Some(ledger) = &mut ledger {
        ledger::label(ledger, &findings, catalogue, front);
    }
    let account = ledger
        .as_ref()
        .and_then(|l| ledger::deciding(l, station, front));
    ranked.unexplained = match account {
        Some(account) => Some(account.unlabelled()),
        None => worthy.then_some(bounds).flatten(),
    };
    let mut worth = worth;
    if let Some((account, row)) = account.and_then(|a| Some((a, a.largest_open()?))) {
        lead(&mut findings, &mut worth, account, row);
    }
    let row = account.and_then(|a| {
        let one = a.largest_unlabelled(|r| stands_out(a, r)).cloned();
        let together = || {
            let sums = [a.below_one(), a.hidden_at_one()];
            sums.into_iter().flatten().find(|r| stands_out(a, r))
        };
        Some((a, one.or_else(together)?))
    });
    if let Some((account, row)) = row {
        // Whatever else holds: what takes less than half of it stands behind it.
        let less = |(index, f): &(usize, &Finding)| {
            !worth[*index] || f.gain_bound.is_some_and(|bound| bound < row.share / 2.0)
        };
        let at = findings
            .iter()
            .enumerate()
            .find(less)
            .map_or(findings.len(), |(i, _)| i);
        let fails = findings.first().is_some_and(|f| {
            let cause = catalogue.cause(&f.cause);
            cause.is_some_and(|c| c.explains == Explains::Errors)
        });
        let finding = unlabelled_there(ledger.as_ref(), account, &row);
        findings.insert(if fails { at.max(1) } else { at }, finding);
    } else if !worthy && !unsure {
        let none = nones.into_iter().filter(|h| h.fits);
        let specific = |h: &Held<'_>| h.cause.beats.iter().any(|b| b == "none");
        let none = none.max_by(|a, b| {
            let confidence = a.finding.confidence.total_cmp(&b.finding.confidence);
            specific(a).cmp(&specific(b)).then(confidence)
        });
        // What another tool printed shows no more than what it shows; where a server's time could be seen, only the
        // account of it shows that nothing else takes it.
        let shown = account.is_some();
        // Nor is a server healthy by a load that was not valid.
        let measured = verdict.is_none_or(|v| v.valid);
        let none = none.filter(|_| !pasted && shown && measured);
        // Nor where requests wait for something else than the server's own work, whatever is full.
        let latency = ledger.as_ref().and_then(|l| l.latency.as_ref());
        let wait = latency.and_then(|l| Some((l, l.largest_wait()?)));
        let waits = wait.filter(|(account, row)| is_seen(account, row));
        // Nor where it stands still for all of them now and then, at whatever work.
        let stalls = ledger.as_ref().and_then(|l| stands_still(l, facts, front));
        // Nor is CPU that is nearly full, or that most of the requests' time is a line for, the server's own work by
        // what they wait for: its own account says at what.
        let at_work = none.as_ref().zip(ledger.as_ref());
        let at_work = at_work.and_then(|(h, l)| at_work_there(l, h.cause, front));
        let mut first = match (waits, at_work.or(stalls)) {
            (Some((account, row)), _) if none.is_some() => {
                unlabelled_there(ledger.as_ref(), account, row)
            }
            (_, Some(stands)) if none.is_some() => stands,
            _ => nothing(facts, station, verdict, none, account),
        };
        if first.cause == "none" {
            if let Some(price) = price(&findings, catalogue) {
                first.remedy = format!("{} {price}", sentence(&first.remedy));
            }
            // Where the account that decides is that of the requests, it has said so.
            let said = account.is_some_and(|account| account.basis == Basis::Requests);
            let requests = latency.filter(|_| !said).map(for_whom);
            first.why.push_str(&requests.unwrap_or_default());
            let tail = ledger.as_ref().and_then(long_tail);
            first.why.push_str(tail.as_deref().unwrap_or_default());
            let full = account.is_some_and(|a| a.basis == Basis::Cpu);
            let locked = wait.and_then(|(_, row)| behind_the_line(row).filter(|_| full));
            first.why.push_str(locked.as_deref().unwrap_or_default());
            first.why.push_str(unread(facts));
        }
        findings.insert(0, first);
    }
    ranked.findings = findings;
    ranked.ledger = ledger;
    ranked
}

/// What is left of the time of the requests, or of the threads that serve them, without the waits for what takes no CPU
/// of the server, where nobody's CPU is full and the account of the rate is theirs.
fn in_requests(ledger: &Ledger) -> Option<f64> {
    let theirs = |rate: &&Account| matches!(rate.basis, Basis::Requests | Basis::Threads);
    let rate = ledger.rate.as_ref().filter(theirs)?;
    Some(1.0 - rate.share_of(Row::waits_elsewhere))
}

/// A row of a full CPU matters from this share: what is less may be how a program of its kind spends its time.
const LARGE_FUNCTION: f64 = 0.2;
/// A wait matters from this share of a request's time.
const LARGE_WAIT: f64 = 0.3;

/// Whoever has a lock waits for a CPU as others do: of such a line, the part that a lock's may be without a fault.
const LOCKED_IN_LINE: f64 = 0.5;
/// The answer that a server's CPU is full of its own work.
const CPU_BOUND: &str = "healthy_cpu_bound";

/// Rows of those who wait for a CPU, or for a thread that has one.
const LINES: [&str; 3] = ["run_queue", "wake_up", "other_turns"];
/// Of requests' time, the part in such lines from which on what stands before them decides.
const MOSTLY_IN_LINE: f64 = 0.5;

fn is_line(row: &Row) -> bool {
    LINES.contains(&row.kind.as_str())
}

/// What stands out of the CPU's own account where that is nearly full, or most of the requests' time is a line for it.
fn at_work_there(ledger: &Ledger, none: &Cause, front: &str) -> Option<Finding> {
    let latency = ledger.latency.as_ref();
    let line = latency.map(|l| (l.share_of(is_line), l.of.as_str()));
    let line = line.filter(|(share, _)| *share >= MOSTLY_IN_LINE);
    if none.name != CPU_BOUND && line.is_none() {
        return None;
    }
    let cpu = ledger.cpu_of(front, front)?;
    let row = cpu.largest_unlabelled(|r| stands_out(cpu, r))?;
    let mut finding = unlabelled_there(Some(ledger), cpu, row);
    if let Some((share, of)) = line {
        let share = percent(share);
        finding.why += &format!(" {share} of {of} is a line for that CPU.");
    }
    Some(finding)
}

/// Beside a full CPU a wait is a part of the time that more CPU does not take away. What another thread signals may
/// only wait until that thread gets the CPU: it is seen where it is large, and more than the line for the CPU.
fn is_seen(latency: &Account, row: &Row) -> bool {
    let in_line = latency.share_of(is_line);
    let from = match row.kind.as_str() {
        _ if row.may_be_signalled() => LARGE_WAIT.max(in_line),
        "lock" => SMALL_WORK.max(LOCKED_IN_LINE * in_line),
        _ => SMALL_WORK,
    };
    row.share - row.share_error >= from
}

/// Whoever explains the largest row goes before what explains less than half of it.
fn lead(findings: &mut [Finding], worth: &mut [bool], account: &Account, row: &Row) {
    let Some(cause) = row.cause.as_ref().filter(|_| matters(account, row)) else {
        return;
    };
    let explains = |f: &Finding| {
        f.cause == *cause && f.gain_bound.is_some_and(|bound| bound >= row.share / 2.0)
    };
    let at = (findings.iter().zip(&*worth)).position(|(f, worth)| *worth && explains(f));
    let less = |f: &Finding| f.gain_bound.is_some_and(|bound| bound < row.share / 2.0);
    let first = findings.iter().position(less);
    if let Some((at, first)) = at.zip(first).filter(|(at, first)| first < at) {
        findings[first..=at].rotate_right(1);
        worth[first..=at].rotate_right(1);
    }
}

fn matters(account: &Account, row: &Row) -> bool {
    let from = match account.basis {
        Basis::Cpu | Basis::CpuUsed if ledger::is_needless(&row.kind) => SMALL_WORK,
        Basis::Cpu | Basis::CpuUsed => LARGE_FUNCTION,
        Basis::Requests | Basis::Threads => LARGE_WAIT,
    };
    row.share - row.share_error >= from
}

/// Whether a row that no cause explains is more than how a program of its kind serves. One that reads requests, calls
/// its handlers and makes heads of responses spends on that a few times what TCP takes to receive and to send them:
/// 1.4 to 2.4 times in one library (cpp-httplib, POCO), up to 1.7 times in one function (Lwt, measured with handlers
/// that do nothing); a function that was planted to be too slow 5.6 times and more.
fn stands_out(account: &Account, row: &Row) -> bool {
    let (times, most) = match row.kind.as_str() {
        "library" => (4.0, 0.4),
        "function" | "compiled" => (2.5, 0.35),
        // What the load takes there is no place in the server: the verdict says so.
        "generator" => return false,
        _ => return matters(account, row),
    };
    let serving = (times * net(account)).min(most);
    matters(account, row) && row.share - row.share_error >= serving
}

/// The part of a CPU account in which TCP sends and receives, in calls and in softirq.
fn net(account: &Account) -> f64 {
    account.share_of(|row| matches!(row.kind.as_str(), "net_send" | "net_receive" | "softirq"))
}

/// What requests ask of the server behind that a row is about, as a sentence; nothing for rows of the server's own.
fn asked_there(ledger: Option<&Ledger>, row: &Row) -> String {
    let behind = row.kind == "upstream" || !row.server.is_empty();
    mostly_asked(ledger.filter(|_| behind))
}

/// The largest row that no cause explains, as a finding, with what is asked there.
fn unlabelled_there(ledger: Option<&Ledger>, account: &Account, row: &Row) -> Finding {
    let mut finding = unlabelled(account, row);
    finding.why.push_str(&asked_there(ledger, row));
    finding
}

/// The largest row that no cause explains, as a finding.
fn unlabelled(account: &Account, row: &Row) -> Finding {
    let place = if row.place.is_empty() {
        String::new()
    } else {
        format!(": {}", row.place)
    };
    let what = format!(
        "{} of {} is {}{place}",
        percent(row.share),
        account.of,
        row.label
    );
    let rows = account.rows.iter().take(5).map(|r| {
        let signal = format!("ledger.{}{{{}}}", r.kind, r.label);
        Evidence::new(signal, r.share, "1", None, &r.source)
    });
    Finding {
        cause: "unlabelled".to_owned(),
        variant: None,
        title: format!("{} of the time: {}", percent(row.share), row.label),
        target: account.target.clone(),
        confidence: (1.0 - row.share_error / row.share).clamp(0.0, 1.0),
        status: Status::Supported,
        why: format!(
            "{what}. No rule of the catalogue knows it.{}",
            for_whom(account)
        ),
        evidence: rows.collect(),
        remedy: next_step(row),
        changes: Vec::new(),
        gain_bound: Some(row.share),
        gain_unknown: None,
        predicted: None,
        calibrated: None,
        worth_changing: true,
        proof: None,
    }
}

/// Moments of requests that took many times the median, requests in each of them, and their share of all time, from
/// which on a server stands still. Healthy ones have one moment, or one request in each, or less than half of the time.
const STALLS: [(&str, f64); 3] = [
    ("stall.moments", 3.0),
    ("stall.turns_each", 3.0),
    ("stall.time_share", 0.5),
];

/// What is said where most of the time passes in moments in which requests stand together.
fn stands_still(ledger: &Ledger, facts: &FactSet, front: &str) -> Option<Finding> {
    let view = facts.view(front);
    let of = |(name, least): (&str, f64)| view.value(name).filter(|value| *value >= least);
    let [moments, each, share] = STALLS.map(of);
    let (moments, each, share) = (moments?, each?, share?);
    let longest_ms = view.value("stall.longest_ms")?;
    let tail = ledger.tail.as_ref()?;
    let mut finding = unlabelled(tail, tail.rows.first()?);
    finding.title = format!("the server stands still for {} of the time", percent(share));
    finding.why = format!(
        "{} of all time that requests spend in the server is in {moments:.0} moments, in each of which {each:.0} of them \
         take up to {longest_ms:.0} ms.{} No rule of the catalogue knows why.",
        percent(share),
        in_tail(ledger)?,
    );
    finding.gain_bound = Some(share);
    Some(finding)
}

/// What takes most of the CPU of the servers behind, where it is much and no work that every server does.
fn fills_it(ledger: &Ledger, front: &str) -> Option<String> {
    let accounts = ledger.cpu.iter().filter(|(target, _)| *target != front);
    let rows = accounts.flat_map(|(_, account)| account.rows.iter().map(move |row| (account, row)));
    let theirs = |row: &Row| !row.own_work && !matches!(row.kind.as_str(), "foreign" | "steal");
    let seen = rows.filter(|(account, row)| theirs(row) && matters(account, row));
    let (account, row) = seen.max_by(|(_, a), (_, b)| a.share.total_cmp(&b.share))?;
    let share = percent(row.share);
    Some(format!(
        " There {share} of {} is {}.{}",
        account.of,
        placed(row),
        for_whom(account)
    ))
}

/// What most of the wait for a server behind is there, where that was traced and it is no work that every server does.
fn stands_behind(ledger: &Ledger) -> Option<String> {
    let account = ledger.latency.as_ref()?;
    let behind = account.rows.iter();
    let behind = behind.filter(|row| !row.server.is_empty() && row.kind != "rest");
    let row = behind.max_by(|a, b| a.share.total_cmp(&b.share))?;
    let told = !row.own_work && matters(account, row);
    told.then(|| {
        format!(
            " Of {} {} is {}.",
            account.of,
            percent(row.share),
            placed(row)
        )
    })
}

/// What requests ask of servers behind and wait for longest, as a sentence; empty where nothing of it was seen.
fn mostly_asked(ledger: Option<&Ledger>) -> String {
    let requests = ledger.and_then(|ledger| ledger.latency.as_ref());
    let most = requests.and_then(|account| account.asked.first());
    most.map_or(String::new(), |asked| format!(" {}.", asked.words()))
}

/// Which program ran longest while requests waited for a CPU, of those that are none of the servers', as a sentence;
/// empty where none was seen.
fn who_ran_beside(ledger: Option<&Ledger>) -> String {
    let accounts = ledger.iter().flat_map(|ledger| &ledger.latency);
    let rows = accounts.flat_map(|account| &account.rows);
    let rows = rows.flat_map(|row| std::iter::once(row).chain(&row.smaller));
    let beside = rows.filter_map(|row| {
        let waits = row.kind == "run_queue" && row.server.is_empty();
        let ran = ledger::process_that_ran(&row.place)?;
        waits.then_some((row.share, ran))
    });
    let longest = beside.max_by(|a, b| a.0.total_cmp(&b.0));
    longest.map_or(String::new(), |(_, name)| {
        format!(" Of these `{name}` ran longest while requests waited for a CPU.")
    })
}

/// The function that most of an account is for, as a sentence.
fn for_whom(account: &Account) -> String {
    let branch = account.branches.first();
    branch.map_or(String::new(), |branch| {
        format!(" Of {}, {}.", account.of, branch.words())
    })
}

/// Functions of a cause's own rows that are named, and from which share of the account on.
const FUNCTIONS: usize = 3;
const NAMED_FROM: f64 = 0.05;
/// Kinds of rows whose place is the answer to what a cause asks: which function that is.
const SAID: [&str; 2] = ["compiled", "making"];

/// The largest of the rows that a cause is about, with their shares.
fn most_of_it(ledger: &Ledger, cause: &Cause, target: &str, front: &str) -> Option<String> {
    let account = ledger.cpu_of(target, front)?;
    let rows = account.rows.iter();
    let its = rows.filter(|row| cause.rows.contains(&row.kind) && row.share >= NAMED_FROM);
    let told = its.take(FUNCTIONS);
    let told: Vec<String> = told
        .map(|row| format!("{} {}", placed(row), percent(row.share)))
        .collect();
    (!told.is_empty()).then(|| format!(" Of {}: {}.", account.of, told.join(", ")))
}

/// A row's label with its place in brackets, where that is known.
fn placed(row: &Row) -> String {
    match row.place.as_str() {
        "" => row.label.clone(),
        place => format!("{} ({place})", row.label),
    }
}

/// What the slowest requests wait for most.
fn in_tail(ledger: &Ledger) -> Option<String> {
    let row = ledger.tail.as_ref()?.rows.first()?;
    let share = percent(row.share);
    Some(format!(
        " Of the slowest 1 % of the requests {share} is {}.",
        placed(row)
    ))
}

/// What takes this part of a healthy server's CPU is told with its price.
const DEAR: f64 = 0.3;

/// What would spare most of a healthy server's CPU though nothing is wrong: what was asked for is dear.
fn price(findings: &[Finding], catalogue: &Catalogue) -> Option<String> {
    let of_cpu = |finding: &&Finding| {
        let cause = catalogue.cause(&finding.cause);
        cause.is_some_and(|cause| cause.explains == Explains::Cpu)
    };
    let dear = findings
        .iter()
        .filter(|f| f.gain_bound >= Some(DEAR) && f.status == Status::Supported);
    let bound = |finding: &&Finding| finding.gain_bound.unwrap_or_default();
    let most = dear
        .filter(of_cpu)
        .max_by(|a, b| bound(a).total_cmp(&bound(b)))?;
    Some(format!(
        "At most {} is the price of what it was asked for ({}), and could be less: {}",
        percent(bound(&most)),
        most.cause,
        most.remedy
    ))
}

/// What is not known of the responses of a healthy server whose statuses nobody but its clients could read.
fn unread(facts: &FactSet) -> &'static str {
    let of = |name| facts.view("").value(name);
    match (of("traffic.watched"), of("client.errors_share")) {
        (Some(watched), None) if watched > 0.0 => {
            " Whether its responses are errors was not seen: their heads could not be read (TLS, HTTP/2)."
        }
        _ => "",
    }
}

/// The slowest requests of a healthy server are worth a sentence from so many times the mean on.
const LONG_TAIL: f64 = 5.0;

/// How much longer the slowest requests take than the mean, and what most of that is.
fn long_tail(ledger: &Ledger) -> Option<String> {
    let (tail, mean) = (ledger.tail.as_ref()?, ledger.latency.as_ref()?);
    let row = tail.rows.first().filter(|row| row.share >= 0.5)?;
    let times = tail.total / mean.total;
    (mean.total > 0.0 && times >= LONG_TAIL).then(|| {
        format!(
            " The slowest 1 % take {times:.0} times as long as the mean: {} of it is {}.",
            percent(row.share),
            placed(row),
        )
    })
}

/// What is to be known of a lock at which requests of a healthy server stand whose cores are full.
fn behind_the_line(row: &Row) -> Option<String> {
    (row.kind == "lock" && row.share >= LARGE_FUNCTION).then(|| {
        format!(
            " {} of the response time is {}: with the CPU full, whoever stands there would mostly wait for that without it; \
             with more cores it may be what limits.",
            percent(row.share),
            placed(row),
        )
    })
}

/// What a person does about a row that no rule knows.
fn next_step(row: &Row) -> String {
    let place = if row.place.is_empty() {
        &row.label
    } else {
        &row.place
    };
    match row.kind.as_str() {
        "function" | "library" | "compiled" | "interpreter" => format!(
            "Make it cheaper, call it less often, or give it more cores: {place}. The flame graph of the report (`--out DIR`) shows who calls it."
        ),
        "call" => format!("Look at who makes this call, and how often for each request: {place}."),
        "upstream" if row.label.ends_with(ledger::BRINGS) => {
            "Look at what that process does meanwhile (`perf record -g -p PID`, `strace -f -p PID`), and whether there are \
             enough of its kind for the requests that wait: a queue hands an element to one that is free."
                .to_owned()
        }
        "upstream" => format!(
            "Look at what answers there: `prony diagnose` on its host, with the same load, says where its time goes. {}",
            row.label
        ),
        "lock" => format!(
            "Look at who holds it while others wait ({place}): hold it for less work, or divide it."
        ),
        "sleep" => format!("Look at what sleeps while requests wait: {place}."),
        "disk" | "sync" => format!("Look at which file it is and on which disk: {place}."),
        "client" => "Look at what happens after the server's last write: a small last segment that is held back \
                     (Nagle), a window that is full, loss, or the round trip itself. `ss -ti` on its host shows it."
            .to_owned(),
        "read_paused" => "Look at what the server has a fixed number of for requests (tables, buffers, slots, a limit of \
                          streams or requests at a time): its loop sleeps while these wait."
            .to_owned(),
        "unanswered" => "Look at who reads only some of the connections: a server that serves one at a time, or whose \
                         threads each hold one. More threads, or a loop over all connections, serve the others."
            .to_owned(),
        "no_free_thread" => {
            "Look at what the pool's threads wait for meanwhile, then at their number.".to_owned()
        }
        _ => format!("Look at it in the program: {place}."),
    }
}

fn hold<'a>(
    cause: &'a Cause,
    scene: Scene<'_>,
    about: &str,
    bounds: Bounds,
    (confidence, status, evidence): (f64, Status, Vec<Evidence>),
) -> Held<'a> {
    let facts = &scene.facts;
    let (gain_bound, gain_unknown) = gain(cause, facts);
    let gain_bound = gain_bound.map(|gain| (gain + bounds.in_line).min(1.0));
    // Removing a cause brings no more than the rows that it explains.
    let gain_bound = match (gain_bound, bounds.rows) {
        (Some(gain), Some(rows)) => Some(gain.min(rows)),
        (gain, rows) => gain.or(rows),
    };
    let text = |template: &str| match Template::parse(template) {
        Ok(parsed) => parsed.text(facts),
        Err(_) => template.to_owned(),
    };
    let own_worth = worth(cause, scene, gain_bound, bounds.on_cpu);
    // What costs both ends is worth what it costs them together.
    let here = gain_bound.filter(|_| cause.explains == Explains::Cpu);
    let here = here.map_or(0.0, |bound| bound * busy(scene));
    let behind = behind(cause, scene).and_then(|bound| {
        let both = (here + bound * busy_behind(cause, scene)).min(1.0);
        (both >= SMALL_WORK && own_worth < Worth::Measurable).then_some(both)
    });
    let (gain_bound, worth) = match behind {
        Some(_) => (behind, Worth::Measurable),
        None => (gain_bound, own_worth),
    };
    let of_limit = match behind {
        Some(_) => behind,
        None => gain_bound.map(|bound| bound * part_of_limit(cause, scene)),
    };
    let fits = cause.station.is_empty()
        || scene.station == "unknown"
        || cause.station.iter().any(|s| s == scene.station);
    Held {
        fits,
        behind: behind.is_some(),
        of_limit,
        worth,
        score: gain_bound.unwrap_or(usual_gain(cause.explains)) * confidence,
        finding: Finding {
            cause: cause.name.clone(),
            variant: None,
            title: cause.title.clone(),
            target: about.to_owned(),
            confidence,
            status,
            why: text(&cause.why),
            evidence,
            // Remedies are copied into configurations.
            remedy: ungrouped(&text(remedy(cause, facts))),
            changes: change::changes(cause, scene),
            gain_bound,
            gain_unknown: gain_unknown.filter(|_| worth == Worth::Unknown),
            worth_changing: worth == Worth::Measurable,
            predicted: None,
            calibrated: None,
            proof: None,
        },
        cause,
    }
}

/// The bound on the gain, or why it is not known.
fn gain(cause: &Cause, facts: &FactView<'_>) -> (Option<f64>, Option<String>) {
    let Some(text) = &cause.gain else {
        return (None, Some("nothing bounds it".to_owned()));
    };
    match Expression::parse(text).map(|gain| gain.reading(facts)) {
        Ok(Reading::Known(gain)) => (Some(gain.clamp(0.0, 1.0)), None),
        Ok(Reading::NotApplicable(why) | Reading::Unknown(why)) | Err(why) => (None, Some(why)),
    }
}

/// What it would bring at the servers behind, where this one and the load leave them the limit.
fn behind(cause: &Cause, scene: Scene<'_>) -> Option<f64> {
    // Whoever is full elsewhere may be the one that this target asks, or share its cores.
    let theirs = matches!(scene.station, "upstream" | "core" | "none" | "unknown")
        || scene.station == "elsewhere" && cause.explains == Explains::Cpu
        || cause.station.iter().any(|station| station == scene.station);
    let text = cause.peer_gain.as_ref().filter(|_| theirs)?;
    match Expression::parse(text).ok()?.reading(&scene.facts) {
        Reading::Known(gain) => Some(gain.clamp(0.0, 1.0)),
        Reading::NotApplicable(_) | Reading::Unknown(_) => None,
    }
}

/// The part of their CPU that the servers behind use, of which a cause spares a share; 1 where the bound is of the
/// whole.
fn busy_behind(cause: &Cause, scene: Scene<'_>) -> f64 {
    if cause.explains != Explains::Cpu || cause.whole {
        return 1.0;
    }
    let names = ["core.own_peers_share", "upstream.use_of_allowed"];
    let known = names.iter().filter_map(|name| scene.facts.value(name));
    known.reduce(f64::max).unwrap_or(1.0)
}

/// Where no bound is known: what fails or waits for a constant outweighs what costs CPU.
fn usual_gain(explains: Explains) -> f64 {
    match explains {
        Explains::Errors | Explains::Quantum => 0.5,
        Explains::Cap => 0.3,
        Explains::Wait => 0.2,
        Explains::Cpu => 0.1,
        Explains::Nothing => 0.0,
    }
}

/// A bound below the noise floor cannot be shown. CPU that is spared where a CPU is not the limit is worth no
/// more than the part of the time in which the worker runs, and on full cores no more than the server's own part of
/// them; a wait that is spared where a CPU is the limit, no
/// more than the part in which it does not.
fn worth(cause: &Cause, scene: Scene<'_>, gain_bound: Option<f64>, on_cpu: Option<f64>) -> Worth {
    let unasked = |c| condition(c, scene).truth == Truth::False;
    if cause.explains == Explains::Nothing || cause.worth_when.iter().any(unasked) {
        return Worth::Nothing;
    }
    let part = part_of_limit(cause, scene);
    let floor = match cause.explains {
        Explains::Cpu | Explains::Wait | Explains::Cap => SMALL_WORK,
        _ => NOISE_FLOOR,
    };
    let bound = gain_bound.map(|bound| bound * part);
    // Some of what waits elsewhere is work here: to sync to a disk that is memory, to take a lock.
    let worked = on_cpu.filter(|_| cause.explains == Explains::Wait && full(scene));
    let bound = bound.map(|bound| bound.max(worked.unwrap_or(0.0)));
    let measurable = match scene.station {
        // The generator was full: what only spares the server's CPU could not be seen. A connection that is opened
        // costs the generator as much.
        "generator" => {
            cause.group == "connections" || !matches!(cause.explains, Explains::Cpu | Explains::Cap)
        }
        // Another server is full: waits and caps of this one do not set the rate.
        "elsewhere" => !matches!(
            cause.explains,
            Explains::Wait | Explains::Cap | Explains::Quantum
        ),
        _ => true,
    };
    let floor = cause.worth_from.unwrap_or(floor);
    match bound {
        _ if !measurable => Worth::Nothing,
        // Whatever the bound is, it is a share of a part that is too small.
        None if part * MOST_LIKELY < floor => Worth::Nothing,
        None => Worth::Unknown,
        Some(bound) if bound >= floor => Worth::Measurable,
        Some(_) => Worth::Nothing,
    }
}

/// The part of the limit that a cause's kind of gain can be taken from.
fn part_of_limit(cause: &Cause, scene: Scene<'_>) -> f64 {
    match cause.explains {
        // What others take of its cores is no part of what the server uses.
        Explains::Cpu if cause.rows.iter().any(|row| row == "foreign") => 1.0,
        Explains::Cpu => busy(scene),
        Explains::Wait if full(scene) => idle(scene),
        _ => 1.0,
    }
}

/// A bound that is not known is hardly ever more than this.
const MOST_LIKELY: f64 = 0.5;

fn full(scene: Scene<'_>) -> bool {
    matches!(scene.station, "worker" | "core")
}

/// What the target, and whoever shares its cores, leave of the CPU that it may use.
fn idle(scene: Scene<'_>) -> f64 {
    let view = &scene.facts;
    let unused = view.value("cpu.use_of_allowed").map(|share| 1.0 - share);
    let cores = view.value("cpu.cores_allowed").filter(|n| *n > 0.0);
    let left = view.value("cpu.idle_allowed").zip(cores);
    // A program outside the test can be stopped: what it takes is not the server's limit.
    let foreign = view.value("core.own_foreign_share").unwrap_or(0.0);
    let left = left.map(|(idle, cores)| idle / cores + foreign);
    let least = unused.into_iter().chain(left).reduce(f64::min);
    least.map_or(1.0, |share| share.max(0.0))
}

/// From this busy share on a core is what limits, whoever runs there.
const FULL_CORES: f64 = 0.9;

fn busy(scene: Scene<'_>) -> f64 {
    match scene.station {
        "worker" | "core" => {
            let of = |name| scene.facts.value(name);
            let whole = of("core.own_mean").filter(|share| *share >= FULL_CORES);
            let own = of("cpu.use_of_allowed")
                .map(|used| used + of("core.own_softirq_share").unwrap_or(0.0));
            // Servers that share full cores: what one of them spares is a part of its own part.
            own.zip(whole)
                .map_or(1.0, |(own, whole)| (own / whole).min(1.0))
        }
        "limit" | "unknown" => 1.0,
        _ => {
            let view = &scene.facts;
            let used = view.value("worker.busiest").into_iter();
            let used = used
                .chain(view.value("cpu.use_of_allowed"))
                .reduce(f64::max);
            used.map_or(1.0, |share| share.min(1.0))
        }
    }
}

/// The remedy in the server's own words.
fn remedy<'a>(cause: &'a Cause, facts: &FactView<'_>) -> &'a str {
    let kind = facts.server().map_or("generic", |s| s.kind.as_str());
    let own = cause.remedy.get(kind);
    own.or_else(|| cause.remedy.get("generic"))
        .map_or("", String::as_str)
}

/// Total order, so that the same facts always give the same list.
fn order(held: &mut Vec<Held<'_>>) {
    held.sort_by(|a, b| {
        (b.worth.cmp(&a.worth))
            .then(b.fits.cmp(&a.fits))
            .then(b.score.total_cmp(&a.score))
            .then(b.finding.confidence.total_cmp(&a.finding.confidence))
            .then(a.cause.name.cmp(&b.cause.name))
            .then(a.finding.target.cmp(&b.finding.target))
    });
    // A specific cause goes before the general one that it beats, wherever their scores put them. Each pass moves
    // one; two causes that beat each other must not turn in circles, so passes are bounded.
    for _ in 0..held.len() {
        let Some((specific, general)) = out_of_order(held) else {
            return;
        };
        let moved = held.remove(specific);
        held.insert(general, moved);
    }
}

/// Takes out general causes where another one explains CPU of the same target.
fn leave_the_exact(held: &mut Vec<Held<'_>>) {
    let explains = |h: &Held<'_>| {
        !h.cause.general && h.cause.explains == Explains::Cpu && h.worth == Worth::Measurable
    };
    let exact: BTreeSet<String> = (held.iter().filter(|h| explains(h)))
        .map(|h| h.finding.target.clone())
        .collect();
    held.retain(|h| !h.cause.general || !exact.contains(&h.finding.target));
}

fn out_of_order(held: &[Held<'_>]) -> Option<(usize, usize)> {
    for (general, g) in held.iter().enumerate() {
        for (specific, s) in held.iter().enumerate().skip(general + 1) {
            // A name for what fills the server behind is more exact than that it is full.
            let within = g.behind && g.cause.whole && s.cause.explains == Explains::Cpu;
            let larger = s.finding.gain_bound >= g.finding.gain_bound.map(|bound| bound / 2.0);
            if within && larger && !s.behind && s.worth == g.worth && s.fits {
                return Some((specific, general));
            }
            let same = s.finding.target == g.finding.target
                || s.finding.target.is_empty()
                || g.finding.target.is_empty();
            // What fills the server behind is why it is waited for.
            let waits_for_it = s.behind && g.cause.rows.iter().any(|row| row == "upstream");
            let beats = s.cause.beats.contains(&g.cause.name) || waits_for_it;
            let mutual = g.cause.beats.contains(&s.cause.name);
            let worth = s.worth == g.worth;
            if same && beats && !mutual && worth && names_the_same(s, g) {
                return Some((specific, general));
            }
        }
    }
    None
}

/// Of two waits the more exact name is that of the same time, and not of another, smaller wait beside it. What caps is
/// known by a wait, too, and a constant is one. What costs CPU names a wait as far as that CPU is of what limits.
fn names_the_same(specific: &Held<'_>, general: &Held<'_>) -> bool {
    let wait = |h: &Held<'_>| {
        let waits = matches!(
            h.cause.explains,
            Explains::Wait | Explains::Cap | Explains::Quantum
        );
        waits && !h.cause.rows.is_empty()
    };
    let (s, g) = (specific.finding.gain_bound, general.finding.gain_bound);
    match (s, g) {
        (Some(s), Some(g)) if wait(specific) && wait(general) => s >= g / 2.0,
        _ if specific.cause.explains == Explains::Cpu && wait(general) => {
            let of_limit = specific.of_limit.zip(general.of_limit);
            of_limit.is_none_or(|(s, g)| s >= g / 2.0)
        }
        _ => true,
    }
}

/// What is left of the limiting resource's time when everything worth changing is taken off, one bound after
/// the other; `None` when no bound is known.
fn unexplained(held: &[Held<'_>]) -> Option<f64> {
    let worthy = held
        .iter()
        .filter(|h| h.worth == Worth::Measurable && h.fits);
    let bounds: Vec<f64> = worthy.filter_map(|h| h.finding.gain_bound).collect();
    let rest = bounds.iter().map(|b| 1.0 - b).product::<f64>();
    (!bounds.is_empty()).then_some(rest)
}

/// What is said when no cause is worth a change: which kind of healthy, or that it cannot be told.
fn nothing(
    facts: &FactSet,
    station: &Station,
    verdict: Option<&Verdict>,
    healthy: Option<Held<'_>>,
    account: Option<&Account>,
) -> Finding {
    let front = facts.targets.first().map_or("", String::as_str);
    let view = facts.view(front);
    let mut finding = match healthy {
        Some(held) => Finding {
            cause: "none".to_owned(),
            variant: Some(held.cause.name.clone()),
            target: front.to_owned(),
            status: Status::Supported,
            gain_unknown: None,
            ..held.finding
        },
        None => untold(front, station, verdict),
    };
    let hidden = account.and_then(|account| {
        let cold = compiling(account).map(|share| not_warm(front, share));
        cold.or_else(|| nameless(account).map(|share| not_named(front, share)))
    });
    if let Some(unclear) = hidden.filter(|_| finding.cause == "none") {
        finding = unclear;
    }
    finding.evidence.extend(busy_with(&view));
    let kinds = || {
        let kinds = busy_kinds(&view).into_iter();
        kinds
            .map(|(kind, share)| format!("{} {}", kind.replace('_', " "), percent(share)))
            .collect()
    };
    let (of, doing): (&str, Vec<String>) = match account {
        Some(account) => {
            let rows = account.rows.iter().filter(|r| r.kind != "rest").take(5);
            let rows = rows.map(|r| format!("{} {}", r.label, percent(r.share)));
            (account.of.as_str(), rows.collect())
        }
        None => ("its CPU time", kinds()),
    };
    if !doing.is_empty() {
        finding.why = format!(
            "{} Of {of}: {}.{}",
            sentence(&finding.why),
            doing.join(", "),
            account.map(for_whom).unwrap_or_default()
        );
    }
    finding
}

/// From this share on, compiling hides what limits later: less makes no other row larger by more than a third when it
/// is gone.
const MUCH_COMPILING: f64 = 0.25;

/// What a runtime takes for compiling, where that is much: a share that is gone when it is warm, and hides what limits
/// it then.
fn compiling(account: &Account) -> Option<f64> {
    let mut rows = account.rows.iter();
    let row = rows.find(|row| row.kind == "compiling" && row.share >= MUCH_COMPILING)?;
    Some(row.share)
}

/// Where the cause `interpreter_time` asks whose functions run: from this share on, and so many times what sending and
/// receiving take, which is more than a bare handler's.
const MUCH_CODE: f64 = 0.4;
const BARE_HANDLER: f64 = 9.0;

/// Code without names, where it is more than a framework takes for a bare handler.
fn nameless(account: &Account) -> Option<f64> {
    let share = account.share_of(|row| row.label.ends_with(ledger::NAMELESS));
    (share >= MUCH_CODE && share >= BARE_HANDLER * net(account).max(0.005)).then_some(share)
}

/// Nobody can tell what a server does by code that has no names.
fn not_named(front: &str, share: f64) -> Finding {
    Finding {
        title: "What the server's code does cannot be told: it has no names".to_owned(),
        why: format!(
            "{} of the time goes into code that a runtime compiled and gives no names for: more than a bare handler takes, and \
             nothing says for what.",
            percent(share)
        ),
        remedy: format!(
            "Let it write {}, or use its own profiler (`sb-sprof`, `eprof`), and diagnose again.",
            ledger::PERF_MAP
        ),
        ..unknown(front)
    }
}

/// A server that is not warm is not healthy by what it does meanwhile.
fn not_warm(front: &str, share: f64) -> Finding {
    Finding {
        title: "What limits the server when it is warm cannot be told".to_owned(),
        why: format!(
            "Its runtime still takes {} of the time for compiling code, which ends as it gets warm.",
            percent(share)
        ),
        remedy: "Load it for longer (`prony load URL -d 30s`) and diagnose again. Where the share stays, code is made \
                 anew all the time, or has no room: on a JVM `jcmd PID Compiler.codecache` says how full its cache is."
            .to_owned(),
        ..unknown(front)
    }
}

/// Neither a cause nor a sign that the server is healthy.
fn untold(front: &str, station: &Station, verdict: Option<&Verdict>) -> Finding {
    let remedy = verdict.map(|v| v.remedy.as_str()).unwrap_or_default();
    let why = match verdict.filter(|v| !v.valid) {
        Some(verdict) => format!("The load was not valid: {}", verdict.why),
        None => station.why.clone(),
    };
    let next = "Repeat with more load and all probes; what could not be judged, and why, is listed as unseen.";
    Finding {
        why,
        remedy: if remedy.is_empty() { next } else { remedy }.to_owned(),
        ..unknown(front)
    }
}

fn unknown(front: &str) -> Finding {
    Finding {
        cause: "unknown".to_owned(),
        variant: None,
        title: "What limits the server cannot be told".to_owned(),
        target: front.to_owned(),
        confidence: 0.0,
        status: Status::Suspected,
        why: String::new(),
        evidence: Vec::new(),
        remedy: String::new(),
        changes: Vec::new(),
        gain_bound: None,
        gain_unknown: None,
        worth_changing: false,
        predicted: None,
        calibrated: None,
        proof: None,
    }
}

fn sentence(text: &str) -> String {
    match text.chars().last() {
        None | Some('.') => text.to_owned(),
        Some(_) => format!("{text}."),
    }
}

fn busy_with(view: &FactView<'_>) -> Vec<Evidence> {
    let names = [
        "client.rate_per_s",
        "worker.busiest",
        "cpu.us_per_request",
        "call.total_per_request",
    ];
    let kinds = busy_kinds(view);
    let kinds = kinds
        .iter()
        .map(|(kind, _)| format!("profile.{kind}_share"));
    let names = names.into_iter().map(str::to_owned).chain(kinds);
    let evidence = names.filter_map(|name| {
        let value = view.value(&name)?;
        let unit = super::catalogue().unit_of(&name);
        Some(Evidence::new(
            name.as_str(),
            value,
            unit,
            None,
            view.source(&name),
        ))
    });
    evidence.collect()
}

/// The kinds of work that take most, at most five of at least 3 %.
fn busy_kinds(view: &FactView<'_>) -> Vec<(&'static str, f64)> {
    let kinds = work::works().kinds().into_iter();
    let mut shares: Vec<(&'static str, f64)> = kinds
        .filter_map(|kind| Some((kind, view.value(&format!("profile.{kind}_share"))?)))
        .filter(|(_, share)| *share >= NOISE_FLOOR)
        .collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares.truncate(5);
    shares
}

/// A finding that stands for the load as a whole, when nothing succeeded.
pub(crate) fn nothing_answered(verdict: &Verdict, share: f64) -> Finding {
    Finding {
        cause: "nothing_answered".to_owned(),
        variant: None,
        title: "No request succeeded".to_owned(),
        target: String::new(),
        confidence: 1.0,
        status: Status::Supported,
        why: verdict.why.clone(),
        evidence: vec![Evidence::new(
            "client.errors_share",
            share,
            "1",
            None,
            "load",
        )],
        remedy: verdict.remedy.clone(),
        changes: Vec::new(),
        gain_bound: None,
        gain_unknown: None,
        worth_changing: true,
        predicted: None,
        calibrated: None,
        proof: None,
    }
}

/// A number as findings print it; for callers that show single facts.
pub fn fact_text(value: f64, unit: &str) -> String {
    Format::Unit.text(value, unit)
}

#[cfg(test)]
mod tests {
    use super::{
        Account, Finding, Ledger, Row, Status, asked_there, in_requests, lead, price,
        stands_behind, stands_out, untold, who_ran_beside,
    };
    use crate::diagnosis::{Station, catalogue};
    use crate::ledger::{Asked, Basis};

    fn station() -> Station {
        Station {
            name: "blocked".to_owned(),
            target: "web".to_owned(),
            why: String::new(),
        }
    }

    /// The order of two causes with bounds on what they gain, where the second one explains a row of 80 %.
    fn order(first: f64, second: f64, worth: bool) -> [String; 2] {
        let finding = |cause: &str, bound: f64| Finding {
            cause: cause.to_owned(),
            gain_bound: Some(bound),
            ..untold("web", &station(), None)
        };
        let mut findings = vec![finding("queue", first), finding("sleep", second)];
        let mut worths = vec![true, worth];
        let row = Row {
            kind: "sleep".to_owned(),
            share: 0.8,
            cause: Some("sleep".to_owned()),
            ..Row::default()
        };
        let account = Account {
            basis: Basis::Threads,
            rows: vec![row.clone()],
            ..Account::default()
        };
        lead(&mut findings, &mut worths, &account, &row);
        assert_eq!(
            worths.iter().filter(|w| **w).count(),
            1 + usize::from(worth)
        );
        let names: Vec<String> = findings.into_iter().map(|f| f.cause).collect();
        [names[0].clone(), names[1].clone()]
    }

    #[test]
    fn who_explains_the_largest_row_goes_before_what_explains_less_than_half_of_it() {
        assert_eq!(order(0.3, 0.8, true), ["sleep", "queue"]);
        assert_eq!(order(0.5, 0.8, true), ["queue", "sleep"]);
        // What is worth no change leads nobody, nor what explains only a part of the row.
        assert_eq!(order(0.3, 0.8, false), ["queue", "sleep"]);
        assert_eq!(order(0.3, 0.35, true), ["queue", "sleep"]);
    }

    #[test]
    fn a_wait_for_a_server_behind_says_what_most_of_it_is_there() {
        let told = |share: f64, own_work: bool| {
            let row = |server: &str, share: f64, own_work: bool| Row {
                kind: "disk".to_owned(),
                label: format!("in {server}: waiting for the disk"),
                place: "write (store.py:9)".to_owned(),
                server: server.to_owned(),
                share,
                own_work,
                ..Row::default()
            };
            stands_behind(&Ledger {
                latency: Some(Account {
                    of: "the mean response time".to_owned(),
                    rows: vec![row("", 0.9, false), row("app", share, own_work)],
                    ..Account::default()
                }),
                ..Ledger::default()
            })
        };
        let text =
            " Of the mean response time 60 % is in app: waiting for the disk (write (store.py:9)).";
        assert_eq!(told(0.6, false).as_deref(), Some(text));
        assert_eq!(told(0.6, true), None);
        assert_eq!(told(0.2, false), None);
    }

    #[test]
    fn work_is_held_to_what_is_no_wait_where_no_cpu_is_full() {
        let left = |basis| {
            let row = |kind: &str, share: f64| Row {
                kind: kind.to_owned(),
                share,
                ..Row::default()
            };
            in_requests(&Ledger {
                rate: Some(Account {
                    basis,
                    rows: vec![
                        row("sleep", 0.75),
                        row("run_queue", 0.125),
                        row("search", 0.125),
                    ],
                    ..Account::default()
                }),
                ..Ledger::default()
            })
        };
        assert_eq!(left(Basis::Threads), Some(0.25));
        assert_eq!(left(Basis::Requests), Some(0.25));
        assert_eq!(left(Basis::Cpu), None);
    }

    #[test]
    fn a_function_stands_out_beside_all_that_tcp_takes() {
        let row = |kind: &str, share| Row {
            kind: kind.to_owned(),
            share,
            ..Row::default()
        };
        let function = row("function", 0.27);
        let account = |softirq| Account {
            basis: Basis::Cpu,
            rows: vec![
                function.clone(),
                row("net_send", 0.03),
                row("softirq", softirq),
            ],
            ..Account::default()
        };
        assert!(stands_out(&account(0.0), &function));
        assert!(!stands_out(&account(0.13), &function));
    }

    #[test]
    fn a_neighbour_is_named_by_what_ran_while_requests_waited() {
        let row = |kind: &str, place: &str, share| Row {
            kind: kind.to_owned(),
            place: place.to_owned(),
            share,
            ..Row::default()
        };
        let rest = Row {
            smaller: vec![
                row("run_queue", "while process cc1 ran", 0.04),
                row("run_queue", "while process cron ran", 0.01),
            ],
            ..row("rest", "", 0.05)
        };
        let of = |rows: Vec<Row>| {
            let latency = Some(Account {
                rows,
                ..Account::default()
            });
            who_ran_beside(Some(&Ledger {
                latency,
                ..Ledger::default()
            }))
        };
        let own = row("run_queue", "while thread worker ran", 0.3);
        assert_eq!(
            of(vec![own.clone(), rest]),
            " Of these `cc1` ran longest while requests waited for a CPU."
        );
        assert_eq!(of(vec![own]), "");
    }

    #[test]
    fn a_row_of_a_server_behind_says_what_is_asked_there() {
        let ledger = Ledger {
            latency: Some(Account {
                asked: vec![Asked {
                    server: "db".to_owned(),
                    text: "SELECT ?".to_owned(),
                    share: 0.9,
                    wait_ms: 2.0,
                    ..Asked::default()
                }],
                ..Account::default()
            }),
            ..Ledger::default()
        };
        let of = |kind: &str, server: &str| {
            let row = Row {
                kind: kind.to_owned(),
                server: server.to_owned(),
                ..Row::default()
            };
            asked_there(Some(&ledger), &row)
        };
        let text = " db is asked 2.00 ms each, 90 % of the wait for answers: SELECT ?.";
        assert_eq!([of("upstream", ""), of("function", "db")], [text; 2]);
        assert_eq!(of("function", ""), "");
    }

    #[test]
    fn a_healthy_server_says_what_it_was_asked_for_and_is_dear() {
        let of = |cause: &str, bound: f64, status| {
            let finding = Finding {
                cause: cause.to_owned(),
                gain_bound: Some(bound),
                remedy: "Level 1.".to_owned(),
                status,
                ..untold("web", &station(), None)
            };
            price(&[finding], catalogue())
        };
        let text = "At most 68 % is the price of what it was asked for (compression_level), and could be less: Level 1.";
        let supported = of("compression_level", 0.68, Status::Supported);
        assert_eq!(supported.as_deref(), Some(text));
        assert_eq!(of("compression_level", 0.29, Status::Supported), None);
        assert_eq!(of("compression_level", 0.68, Status::Suspected), None);
        // A wait is no price.
        assert_eq!(of("lock_contention", 0.68, Status::Supported), None);
    }
}
