//! The functions of an application below which the time of its requests is, waiting or working, by looks at the threads
//! that have them.
//!
//! Rows say what is done or waited for, each by its kind; a person asks next which call of the handler that is, where a
//! client that is opened for each request has its part in ten rows. The surprise: no function is told apart by a rule.
//! All looks lie on one tree of calls; where its time parts, each branch is one answer, as far in as it still has
//! enough. Libraries end it: their innermost functions say how and not for whom.

use super::names;
use super::told::{self, Line};
use super::types::{Account, Branch, ServerLedger};
use record::{ThreadLooks, Told};
use std::collections::{BTreeMap, BTreeSet};

/// A branch has at least this part of the time.
const LEAST: f64 = 0.1;
/// Fewer looks say nothing of it.
const FEWEST: u64 = 50;
/// Branches that are kept, and callers that each names.
const KEPT: usize = 5;
const CALLERS: usize = 3;
/// Parts of a name that say whose library a function is of: `org.apache.activemq`.
const PACKAGE: usize = 3;

/// A step inwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step<'a> {
    Function(&'a str),
    /// The line that the function before it is at.
    Line(Line<'a>),
}

/// Looks that passed here.
#[derive(Default)]
struct Node<'a> {
    looks: u64,
    inner: BTreeMap<Step<'a>, Node<'a>>,
}

impl<'a> Node<'a> {
    fn add(&mut self, path: &[Step<'a>], looks: u64) {
        self.looks += looks;
        if let [first, rest @ ..] = path {
            self.inner.entry(*first).or_default().add(rest, looks);
        }
    }

    /// The innermost paths that `least` looks passed, each with its looks.
    fn ends(&self, least: f64, path: &mut Vec<Step<'a>>, ends: &mut Vec<(Vec<Step<'a>>, u64)>) {
        let large = self
            .inner
            .iter()
            .filter(|(_, node)| node.looks as f64 >= least);
        let mut is_end = true;
        for (step, node) in large {
            is_end = false;
            path.push(*step);
            node.ends(least, path, ends);
            path.pop();
        }
        if is_end {
            ends.push((path.clone(), self.looks));
        }
    }
}

/// The branches of the time of some turns, as shares of it, largest first. `all`: what looks lead to.
pub(super) fn branches(looks: &ThreadLooks, all: &[Told]) -> Vec<Branch> {
    let met = || {
        let met = looks.met.iter();
        met.filter_map(|one| Some((all.get(one.told as usize)?, one.looks)))
    };
    let seen: u64 = met().map(|(_, looks)| looks).sum();
    if seen < FEWEST || looks.open == 0 {
        return Vec::new();
    }
    let files: BTreeSet<&str> = met().filter_map(|(told, _)| told::own_file(told)).collect();
    let mut root = Node::default();
    for (told, looks) in met() {
        root.add(&path(told, &files), looks);
    }
    // Who was met more often than turns were open had been looked at while it was not.
    let open = looks.open.max(seen) as f64;
    let mut ends = Vec::new();
    root.ends(LEAST * open, &mut Vec::new(), &mut ends);
    let mut branches: Vec<Branch> = Vec::new();
    for (path, looks) in &ends {
        let Some(one) = branch(path, *looks as f64 / open) else {
            continue;
        };
        let alike = |b: &&mut Branch| {
            (&b.function, &b.callers, &b.line) == (&one.function, &one.callers, &one.line)
        };
        // Ways that part further out than is told are one.
        match branches.iter_mut().find(alike) {
            Some(known) => known.share += one.share,
            None => branches.push(one),
        }
    }
    branches.sort_by(|a, b| {
        b.share
            .total_cmp(&a.share)
            .then(a.function.cmp(&b.function))
    });
    branches.truncate(KEPT);
    branches
}

/// Gives an account of requests whose own threads tell nothing the branches of the server behind that has most of it.
pub(super) fn of_behind(account: &mut Account, servers: &[ServerLedger]) {
    if !account.branches.is_empty() {
        return;
    }
    let there = servers.iter().map(|server| {
        let share = account.share_of(|row| row.server == server.target);
        (share, server)
    });
    let Some((share, server)) = there.max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return;
    };
    let theirs = server.latency.iter().flat_map(|latency| &latency.branches);
    let theirs = theirs.map(|branch| Branch {
        server: server.target.clone(),
        share: branch.share * share,
        ..branch.clone()
    });
    account.branches = theirs.filter(|branch| branch.share >= LEAST).collect();
}

/// The share of the time of some turns in which their threads open connections of clients or end them, by the names of
/// the functions that they are in; `None` for too few looks.
pub(super) fn opening_share(looks: &ThreadLooks, all: &[Told]) -> Option<f64> {
    let (mut opening, mut seen) = (0, 0);
    for one in &looks.met {
        let told = all.get(one.told as usize)?;
        seen += one.looks;
        if told.frames.iter().any(|frame| names::opens_or_ends(frame)) {
            opening += one.looks;
        }
    }
    let open = looks.open.max(seen);
    (seen >= FEWEST).then(|| opening as f64 / open as f64)
}

/// From the outermost function of the application to the innermost, the line of that, and what it calls. Recursion is
/// one function.
fn path<'a>(told: &'a Told, files: &BTreeSet<&str>) -> Vec<Step<'a>> {
    let own = |frame: &str| told::is_own(told, frame, files);
    let Some(innermost) = told.frames.iter().position(|frame| own(frame)) else {
        return Vec::new();
    };
    let mut met = BTreeSet::new();
    let outward = told.frames[innermost..].iter().rev();
    let outward = outward.filter(|frame| own(frame) && met.insert(frame.as_str()));
    let mut path: Vec<Step<'_>> = outward.map(|frame| Step::Function(frame)).collect();
    path.extend(told::at_line(told).map(Step::Line));
    let called = innermost.checked_sub(1).map(|at| &told.frames[at]);
    path.extend(called.map(|frame| Step::Function(frame)));
    path
}

/// `None` for the function that all requests pass, of which no more is known.
fn branch(path: &[Step<'_>], share: f64) -> Option<Branch> {
    let functions = path.iter().rev().filter_map(|step| match step {
        Step::Function(name) => Some((*name).to_owned()),
        Step::Line(_) => None,
    });
    let functions: Vec<String> = functions.collect();
    let mut functions = without_the_inside(functions);
    functions.truncate(1 + CALLERS);
    let line = path.iter().rev().find_map(|step| match step {
        Step::Line(line) => Some(told::words_of(*line)),
        Step::Function(_) => None,
    });
    if functions.len() < 2 && line.is_none() {
        return None;
    }
    Some(Branch {
        callers: functions.split_off(1),
        function: functions.pop()?,
        server: String::new(),
        line: line.unwrap_or_default(),
        share,
    })
}

/// Functions that lead to one another, innermost first, without those between the innermost and the outermost of one
/// package: who calls a library, and for what, is told within few. Scripts have only the application's own here.
fn without_the_inside(functions: Vec<String>) -> Vec<String> {
    let packages: Vec<Option<&str>> = functions.iter().map(|name| package_of(name)).collect();
    let is_inside = |at: usize| {
        let own = packages[at];
        own.is_some() && at > 0 && packages[at - 1] == own && packages.get(at + 1) == Some(&own)
    };
    let inside: Vec<bool> = (0..functions.len()).map(is_inside).collect();
    let kept = functions.into_iter().zip(inside);
    kept.filter_map(|(name, inside)| (!inside).then_some(name))
        .collect()
}

/// `org.apache.activemq` of `org.apache.activemq.transport.Channel.dequeue`; `None` for scripts and what is in none.
fn package_of(function: &str) -> Option<&str> {
    let dots: Vec<usize> = function.match_indices('.').map(|(at, _)| at).collect();
    // The last two parts are the class and its method.
    let parts = dots.len().saturating_sub(1).min(PACKAGE);
    let end = *dots.get(parts.checked_sub(1)?)?;
    (!function.contains(" (")).then_some(&function[..end])
}

#[cfg(test)]
mod tests {
    use super::super::types::Row;
    use super::*;
    use record::{MetTold, SourceLine, ToldState};

    /// A look at functions, the innermost first, of which number `own` is the application's, at a line.
    fn look(frames: &[&str], own: Option<u32>, line: u32, text: &str) -> Told {
        Told {
            runtime: "cpython".to_owned(),
            state: ToldState::Signal,
            frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
            own,
            line: Some(SourceLine {
                number: line,
                text: text.to_owned(),
            }),
            ..Told::default()
        }
    }

    fn looks(open: u64, met: &[u64]) -> ThreadLooks {
        let met = (0..).zip(met);
        ThreadLooks {
            open,
            met: met.map(|(told, &looks)| MetTold { told, looks }).collect(),
        }
    }

    /// What an application does in a client of a store: begins it at one line, asks at another, by two functions.
    fn of_a_client() -> Vec<Told> {
        let handler = [
            "show (shop.py:40)",
            "app (shop.py:60)",
            "serve (server/core.py:9)",
        ];
        let below = |inner: &[&'static str]| [inner, &handler[..]].concat();
        let begin = "client.start()";
        let ask = "client.get(key)";
        vec![
            look(
                &below(&["wait (threading.py:1)", "Client.start (store/client.py:7)"]),
                Some(2),
                41,
                begin,
            ),
            look(
                &below(&["send (store/wire.py:3)", "Client.start (store/client.py:7)"]),
                Some(2),
                41,
                begin,
            ),
            look(
                &below(&["Client.get (store/client.py:90)"]),
                Some(1),
                42,
                ask,
            ),
            look(
                &below(&["Client.check (store/client.py:80)"]),
                Some(1),
                42,
                ask,
            ),
            look(
                &["read (server/core.py:30)", "serve (server/core.py:9)"],
                None,
                31,
                "",
            ),
        ]
    }

    #[test]
    fn time_parts_where_the_application_calls_several() {
        let all = of_a_client();
        let said = branches(&looks(200, &[60, 20, 40, 30, 10]), &all);
        let said: Vec<String> = said.iter().map(Branch::words).collect();
        let way = "show (shop.py:40) < app (shop.py:60)";
        // However many ways a library goes on; a line with two calls is two branches.
        assert_eq!(
            said,
            [
                format!(
                    "40 % is below Client.start (store/client.py:7) < {way}; at shop.py:41: client.start()"
                ),
                format!(
                    "20 % is below Client.get (store/client.py:90) < {way}; at shop.py:42: client.get(key)"
                ),
                format!(
                    "15 % is below Client.check (store/client.py:80) < {way}; at shop.py:42: client.get(key)"
                ),
            ]
        );
        // What has less than a tenth joins the line that it is at.
        let said = branches(&looks(200, &[100, 0, 12, 12, 0]), &all);
        assert_eq!(said.len(), 2);
        assert_eq!(said[1].function, "show (shop.py:40)");
        assert_eq!(
            (said[1].line.as_str(), said[1].share),
            ("shop.py:42: client.get(key)", 0.12)
        );
        assert!(
            branches(&looks(200, &[20, 9, 20, 0, 0]), &all).is_empty(),
            "too few looks"
        );
    }

    #[test]
    fn recursion_is_one_function_and_a_runtime_without_files_has_its_libraries() {
        let jvm = |frames: &[&str]| Told {
            runtime: "jvm".to_owned(),
            ..look(frames, None, 0, "")
        };
        let mut all = vec![
            jvm(&[
                "java.lang.Object.wait",
                "shop.Tree.walk",
                "shop.Tree.walk",
                "shop.Page.show",
            ]),
            jvm(&["java.lang.Object.wait", "shop.Tree.walk", "shop.Page.show"]),
        ];
        all.iter_mut().for_each(|told| told.line = None);
        let said = branches(&looks(100, &[50, 50]), &all);
        let words: Vec<String> = said.iter().map(Branch::words).collect();
        assert_eq!(
            words,
            ["100 % is below java.lang.Object.wait < shop.Tree.walk < shop.Page.show"]
        );
    }

    #[test]
    fn an_account_that_tells_nothing_has_the_branches_of_the_server_with_most_of_it() {
        let row = |server: &str, share| Row {
            server: server.to_owned(),
            share,
            ..Row::default()
        };
        let branches = branches(&looks(200, &[60, 20, 40, 30, 10]), &of_a_client());
        let of = |target: &str, branches: &[Branch]| ServerLedger {
            target: target.to_owned(),
            latency: Some(Account {
                branches: branches.to_vec(),
                ..Account::default()
            }),
            ..ServerLedger::default()
        };
        let mut account = Account {
            rows: vec![
                row("", 0.2),
                row("app", 0.3),
                row("app", 0.2),
                row("store", 0.3),
            ],
            ..Account::default()
        };
        of_behind(
            &mut account,
            &[of("app", &branches), of("store", &branches[1..])],
        );
        let said: Vec<(&str, f64)> = (account.branches.iter())
            .map(|branch| (branch.server.as_str(), branch.share))
            .collect();
        assert_eq!(said, [("app", 0.2), ("app", 0.1)]);
        assert!(
            account.branches[0]
                .words()
                .contains(" in app; at shop.py:41")
        );
        // Its own say more.
        of_behind(&mut account, &[of("store", &branches)]);
        assert_eq!(account.branches.len(), 2);
    }

    #[test]
    fn who_calls_a_library_is_told_and_not_its_inside_and_ways_that_look_alike_are_one() {
        let look = |way: &str| Told {
            runtime: "jvm".to_owned(),
            state: ToldState::Signal,
            frames: [
                "java.lang.Object.wait",
                "org.apache.queue.Channel.dequeue",
                "org.apache.queue.Consumer.dequeue",
                "org.apache.queue.Consumer.receive",
                "Desk.ask",
                "Pages.page",
                "org.web.server.Handler.handle",
                way,
            ]
            .map(str::to_owned)
            .to_vec(),
            ..Told::default()
        };
        let all = [
            look("org.web.server.One.run"),
            look("org.web.server.Other.run"),
        ];
        let found = branches(&looks(200, &[80, 60]), &all);
        let said: Vec<(String, f64)> = (found.iter())
            .map(|branch| (branch.words(), branch.share))
            .collect();
        let way = "70 % is below java.lang.Object.wait < org.apache.queue.Channel.dequeue < \
                   org.apache.queue.Consumer.receive < Desk.ask";
        assert_eq!(said, [(way.to_owned(), 0.7)]);
    }

    #[test]
    fn the_share_of_opening_is_that_of_the_functions_that_do_it() {
        let all = of_a_client();
        let share = opening_share(&looks(200, &[60, 20, 40, 30, 10]), &all);
        assert_eq!(share, Some(0.4));
        // Looks that came while no turn was open tell no more than all of the time.
        assert_eq!(
            opening_share(&looks(40, &[60, 0, 0, 0, 0]), &all),
            Some(1.0)
        );
        assert_eq!(opening_share(&looks(200, &[30, 0, 0, 0, 0]), &all), None);
    }
}
