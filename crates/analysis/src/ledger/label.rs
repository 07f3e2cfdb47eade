//! Labels: which rows a cause explains, what it can gain at most, and which account decides.

use super::types::{Account, Basis, Ledger};
use crate::diagnosis::{Catalogue, Cause, Explains, Finding, Station};

impl Ledger {
    /// The account of a target's CPU.
    fn cpu_of(&self, target: &str, front: &str) -> Option<&Account> {
        self.cpu.get(if target.is_empty() { front } else { target })
    }

    /// The account of the time of requests: that of the whole way where the target is a part of it.
    fn latency_of(&self, target: &str, front: &str) -> Option<&Account> {
        let behind = self
            .servers
            .iter()
            .find(|s| s.target == target && target != front);
        let own = behind.and_then(|s| s.latency.as_ref());
        own.or(self.latency.as_ref())
    }
}

/// The account of what limits: CPU where a core or a thread is full, else the time of the threads that serve where
/// these were full, else that of requests.
pub(crate) fn deciding<'a>(
    ledger: &'a Ledger,
    station: &Station,
    front: &str,
) -> Option<&'a Account> {
    match station.name.as_str() {
        "worker" | "core" => ledger.cpu_of(front, front),
        "upstream" if !station.target.is_empty() => ledger.cpu_of(&station.target, front),
        "generator" => None,
        _ => {
            let serving = ledger.rate.as_ref();
            let serving = serving.filter(|a| a.basis == Basis::Threads);
            serving.or(ledger.latency.as_ref())
        }
    }
}

/// The most that a cause can gain by the rows that it names; `None` where no account tells.
pub(crate) fn bound(ledger: &Ledger, cause: &Cause, target: &str, front: &str) -> Option<f64> {
    if cause.rows.is_empty() {
        return None;
    }
    let share = |account: &Account| account.share_of(|r| cause.rows.contains(&r.kind));
    match cause.explains {
        Explains::Cpu => ledger.cpu_of(target, front).map(share),
        // A wait may hide where no thread shows it: only what is seen bounds.
        _ => ledger
            .latency_of(target, front)
            .map(share)
            .filter(|s| *s > 0.0),
    }
}

/// Writes the first finding that explains a row beside it.
pub(crate) fn label(ledger: &mut Ledger, findings: &[Finding], catalogue: &Catalogue, front: &str) {
    for finding in findings {
        let Some(cause) = catalogue.cause(&finding.cause) else {
            continue;
        };
        let accounts = [
            ledger.rate.as_mut(),
            ledger.latency.as_mut(),
            ledger.tail.as_mut(),
        ];
        let own = finding.target.is_empty() || finding.target == front;
        let behind = ledger
            .servers
            .iter_mut()
            .filter(|s| s.target == finding.target)
            .flat_map(|s| [s.rate.as_mut(), s.latency.as_mut()]);
        // The way of a request leads through all servers: the front's latency holds theirs as well.
        let accounts = accounts.into_iter().enumerate();
        let accounts = accounts
            .filter(|(index, _)| own || *index > 0)
            .map(|(_, a)| a);
        let cpu = ledger
            .cpu
            .get_mut(if own { front } else { finding.target.as_str() });
        for account in accounts.chain(behind).chain([cpu]).flatten() {
            for row in &mut account.rows {
                if row.cause.is_none() && cause.rows.contains(&row.kind) {
                    row.cause = Some(cause.name.clone());
                }
            }
        }
    }
}
