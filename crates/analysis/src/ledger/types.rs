//! What the ledger says, as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Unit of an account of a rate that divides the requests in the server.
pub(super) const STANDING: &str = "requests";

/// Two accounts of one trial, each adding up to a measured total, and those of the servers behind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// The time of what limits the rate: of full cores or a full thread; where no CPU was full, of the threads that
    /// serve, when these always had something to do; else of the requests in the server, or, where the load came by a
    /// clock, the CPU time that it took. `null` where nothing of it was seen.
    pub rate: Option<Account>,
    /// The mean response time over places; `null` where turns were not traced.
    pub latency: Option<Account>,
    /// The same of the slowest 1 % of the requests; `null` where there were too few of them.
    pub tail: Option<Account>,
    /// Accounts of the other servers on this host.
    pub servers: Vec<ServerLedger>,
    /// CPU time by function of every target, where nothing of it was full too: what causes that take CPU are held to.
    #[serde(skip)]
    pub cpu: BTreeMap<String, Account>,
    /// What could not be seen, with the reason and what would make it visible.
    pub not_visible: Vec<String>,
}

/// The accounts of a server behind the one that was asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerLedger {
    /// Target's name.
    pub target: String,
    pub rate: Option<Account>,
    pub latency: Option<Account>,
}

/// Rows that add up to a total.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// Target that it is about.
    pub target: String,
    /// What is divided, in words: `the time of core 0`.
    pub of: String,
    /// The measured total, in `unit`.
    pub total: f64,
    pub unit: String,
    /// Mean number of requests that the total stands for, by Little's law; `null` for a rate account.
    pub requests: Option<f64>,
    /// Largest first; at most ten.
    pub rows: Vec<Row>,
    /// Whose time it divides, for scripts.
    #[serde(default)]
    pub basis: Basis,
    /// Below which functions the time is, whatever is done or waited for there. Of an account of CPU the one that has
    /// most of it, where it has a name and is no row by itself; of an account of requests where the calls of the
    /// application part, largest first, by looks at threads whose runtime tells their functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<Branch>,
    /// Of an account of requests: what they ask of servers behind, what is waited for longest first; at most five.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Asked>,
}

/// What a server asks one behind it, again and again: its words without values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// `127.0.0.1:5432 (postgres)`.
    pub server: String,
    /// `PostgreSQL`, `MySQL`, `Redis`, `memcached`, `MongoDB`, `FastCGI`, `HTTP`, `LDAP`.
    pub protocol: String,
    /// `SELECT name FROM orders WHERE customer = ?`, `GET user:?`; `*` stands for words that differ.
    pub text: String,
    /// How often a request asks it; `null` where requests were not counted.
    pub per_request: Option<f64>,
    /// Share of all the time in which answers were waited for, 0 to 1.
    pub share: f64,
    /// Mean time until the first data of the answer was read, ms.
    pub wait_ms: f64,
    /// Share of the answers that found nothing (a miss in a cache, no row), 0 to 1; `null` where they do not tell.
    pub empty_share: Option<f64>,
    /// Mean number of rows or values in an answer; `null` where they do not tell.
    pub rows: Option<f64>,
}

/// A function with all that it calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Branch {
    pub function: String,
    /// Who leads to it, the nearest first; of the functions of one package only the innermost and the outermost.
    pub callers: Vec<String>,
    /// The server behind that it is of; empty for the account's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// The line of the application that it is called at: `shop.py:47: total += price(item)`; empty where that is not
    /// known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub line: String,
    /// Share of the account's total, 0 to 1.
    pub share: f64,
}

impl Branch {
    /// In words: `66 % is below draw < render < handle; at page.py:12: draw(rows)`.
    pub fn words(&self) -> String {
        let names = std::iter::once(&self.function).chain(&self.callers);
        let names: Vec<&str> = names.map(String::as_str).collect();
        let share = crate::words::percent(self.share);
        let said = |how: &str, what: &str| match what {
            "" => String::new(),
            what => format!("{how}{what}"),
        };
        let (server, line) = (said(" in ", &self.server), said("; at ", &self.line));
        format!("{share} is below {}{server}{line}", names.join(" < "))
    }
}

/// Whose time an account divides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Requests in the server.
    #[default]
    Requests,
    /// The threads that serve, working or waiting.
    Threads,
    /// Cores, or a thread on one, that had no time off.
    Cpu,
    /// The CPU time that was used, where none was full.
    CpuUsed,
}

/// A part of an account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Stable name of its kind, for scripts: `net_send`, `function`, `upstream`, `lock`.
    pub kind: String,
    /// In words: `sending over TCP`, `waiting for 127.0.0.1:5432 (postgres)`.
    pub label: String,
    /// Share of the account's total, 0 to 1.
    pub share: f64,
    /// Two standard errors of that share.
    pub share_error: f64,
    /// Function, call or peer with its callers; empty where there is nothing more to say than the label.
    #[serde(rename = "where")]
    pub place: String,
    /// Where the number is from.
    pub source: String,
    /// Causes of the catalogue that label it, the first finding first; `null` for none.
    pub cause: Option<String>,
    /// Requests that stand here, by Little's law; `null` in a rate account.
    pub requests: Option<f64>,
    /// It is what a server of this kind does for what was asked, and no loss by itself.
    pub own_work: bool,
    /// The server behind that the requests are in, where they are not in the account's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// Of a row that sums up smaller ones: each of them, as a share of the account's total too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub smaller: Vec<Row>,
    /// Of a function: the one below which nearly all that the program itself does is, if that is on no request's way.
    #[serde(skip)]
    pub below: String,
}

/// Functions that are named of those that one calls.
const MOST_PARTS: usize = 3;

impl Account {
    /// Sum of the shares: 1 up to rounding, or the account does not close.
    pub fn closed(&self) -> f64 {
        self.share_of(|_| true)
    }

    /// Sum of the shares of some rows; 0 of none.
    pub fn share_of(&self, chosen: impl Fn(&Row) -> bool) -> f64 {
        let rows = self.rows.iter().filter(|r| chosen(r));
        rows.fold(0.0, |sum, row| sum + row.share)
    }

    /// The largest row that is not the server's own work.
    pub fn largest_open(&self) -> Option<&Row> {
        let open = self.rows.iter().filter(|r| !r.own_work);
        open.max_by(|a, b| a.share.total_cmp(&b.share))
    }

    /// The largest of these rows that is neither the server's own work nor labelled by a cause.
    pub fn largest_unlabelled(&self, chosen: impl Fn(&Row) -> bool) -> Option<&Row> {
        let open = self.rows.iter().filter(|r| r.is_unlabelled() && chosen(r));
        open.max_by(|a, b| a.share.total_cmp(&b.share))
    }

    /// What one function of the program does with those that it calls, where no cause labels them and not many share
    /// it: each may be small, and all of them are for the one.
    pub(crate) fn below_one(&self) -> Option<Row> {
        let rows = self
            .rows
            .iter()
            .filter(|r| r.kind == "function" && r.is_unlabelled());
        let mut rows: Vec<&Row> = rows.filter(|r| !r.below.is_empty()).collect();
        rows.sort_by(|a, b| b.share.total_cmp(&a.share));
        let [largest, _, ..] = rows.as_slice() else {
            return None;
        };
        let share: f64 = rows.iter().map(|r| r.share).sum();
        let error = rows
            .iter()
            .map(|r| r.share_error.powi(2))
            .sum::<f64>()
            .sqrt();
        let parts = rows.iter().take(MOST_PARTS);
        let parts = parts.map(|r| format!("{} {}", r.label, crate::words::percent(r.share)));
        let parts = parts.collect::<Vec<_>>().join(", ");
        (largest.share >= super::cpu::ONE_OF_MANY * share).then(|| Row {
            label: largest.below.clone(),
            share,
            share_error: error,
            place: format!("{} and what it calls: {parts}", largest.below),
            ..(*largest).clone()
        })
    }

    /// What requests wait for at one server where no thread was seen, where several rows share it and no cause labels
    /// them: they differ by what comes next.
    pub(crate) fn hidden_at_one(&self) -> Option<Row> {
        let hidden = |r: &&Row| r.kind == super::label::HIDDEN && r.is_unlabelled();
        let mut of_each: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        for row in self.rows.iter().filter(hidden) {
            of_each.entry(&row.server).or_default().push(row);
        }
        let several = of_each.into_values().filter(|rows| rows.len() > 1);
        let several = several.map(|rows| {
            let largest = rows.iter().max_by(|a, b| a.share.total_cmp(&b.share));
            let errors = rows.iter().map(|r| r.share_error.powi(2));
            let requests = rows.iter().map(|r| r.requests);
            Row {
                share: rows.iter().map(|r| r.share).sum(),
                share_error: errors.sum::<f64>().sqrt(),
                requests: requests.sum(),
                ..(**largest.expect("several rows")).clone()
            }
        });
        several.max_by(|a, b| a.share.total_cmp(&b.share))
    }

    /// The largest wait that has a name of its own (a lock, a sleep, a disk, a pipe, another process) and no label:
    /// queues for a CPU, a thread or an interpreter, and what was not seen, are none.
    pub fn largest_wait(&self) -> Option<&Row> {
        let waits = self.rows.iter().filter(|r| r.is_unlabelled());
        let waits = waits.filter(|r| super::label::LEAVES.contains(&r.kind.as_str()));
        let ran = |r: &&Row| r.label.starts_with(super::latency::ON_CPU);
        let waits = waits.filter(|r| !ran(r) && !super::label::is_for_interpreter(r));
        waits.max_by(|a, b| a.share.total_cmp(&b.share))
    }

    /// Whether it divides what limits the rate as the account of the latency does once more: what that says beside its
    /// rows need not be said again.
    pub fn is_of_latency(&self) -> bool {
        self.unit == STANDING
    }

    /// Share without a label that is not the server's own work either.
    pub fn unlabelled(&self) -> f64 {
        self.share_of(Row::is_unlabelled)
    }
}

impl Row {
    /// A wait for what another thread of the server signals, or that may be one: no stack told which.
    pub(crate) fn may_be_signalled(&self) -> bool {
        use super::{latency, told};
        let words = [
            latency::LOCK_OR_CONDITION,
            told::UNTIL_SIGNALLED,
            told::UNTIL_RESULT,
        ];
        words.iter().any(|words| self.label.contains(words))
    }

    /// A request waits for what takes no CPU of its server: a lock, a timer, a message, a server behind, its client.
    pub(crate) fn waits_elsewhere(&self) -> bool {
        const MESSAGES: [&str; 3] = ["channel", "condition", "upstream_unread"];
        let kind = self.kind.as_str();
        let is_wait = super::label::LEAVES.contains(&kind)
            || super::label::ON_THE_WAY.contains(&kind)
            || MESSAGES.contains(&kind);
        let ran = self.label.starts_with(super::latency::ON_CPU);
        is_wait && !ran && !super::label::is_for_interpreter(self)
    }

    /// Work whose purpose nothing tells: a function of a stripped program, or of the kernel below no call.
    pub(super) fn is_nameless(&self) -> bool {
        match self.kind.as_str() {
            "function" => self.label.contains(super::cpu::ADDRESS),
            "kernel" | "functions" | "library" => true,
            _ => false,
        }
    }

    fn is_unlabelled(&self) -> bool {
        !self.own_work && self.cause.is_none()
    }
}

impl Ledger {
    /// The accounts that are shown, with their names and where they stand in the document: those of the server that
    /// was asked, then the rate of each behind it.
    pub fn accounts(&self) -> Vec<(String, String, &Account)> {
        let own = [
            ("rate", "rate", &self.rate),
            ("latency", "latency", &self.latency),
            ("slowest 1 %", "tail", &self.tail),
        ];
        let own = own.into_iter().filter_map(|(name, at, account)| {
            Some((name.to_owned(), at.to_owned(), account.as_ref()?))
        });
        let behind = self.servers.iter().enumerate().filter_map(|(n, server)| {
            let name = format!("rate of {}", server.target);
            Some((name, format!("servers/{n}/rate"), server.rate.as_ref()?))
        });
        own.chain(behind).collect()
    }
}
