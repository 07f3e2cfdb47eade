//! Servers behind that run on the cores of the one in front: what of the cores' time is theirs, and at what.
//!
//! A database beside its application fills the core as much as the application does, and neither of them alone. So
//! the account of the front's cores goes on into theirs: what is no work of their own there is a row here. The
//! surprise: their account divides the CPU that they used, whatever of it was on these cores, and only its shares are
//! taken.

use super::types::{Account, Row};
use std::collections::BTreeMap;

/// The kind of such a row.
const KIND: &str = "beside";
/// Rows of an account of cores in which the server itself does nothing.
const NOT_WORK: [&str; 6] = ["idle", "throttled", "steal", KIND, "foreign", "generator"];
/// A part below this share of the cores stays with the rest.
const SMALL: f64 = 0.03;

/// A server behind that took a share of the cores.
pub(super) fn row(server: &str, share: f64) -> Row {
    Row {
        kind: KIND.to_owned(),
        label: format!("{server}, a server behind on the same cores"),
        share,
        share_error: 0.01,
        source: "/proc/PID/task/TID/schedstat".to_owned(),
        own_work: true,
        server: server.to_owned(),
        ..Row::default()
    }
}

/// Takes what is no work of their own out of the rows of servers behind, by their accounts of CPU.
pub(super) fn divide(account: &mut Account, cpu: &BTreeMap<String, Account>) {
    let mut parts = Vec::new();
    for row in account.rows.iter_mut().filter(|row| row.kind == KIND) {
        let Some(theirs) = cpu.get(&row.server) else {
            continue;
        };
        let ran = theirs.share_of(|part| !NOT_WORK.contains(&part.kind.as_str()));
        if ran <= 0.0 {
            continue;
        }
        let scale = row.share / ran;
        let open = theirs.rows.iter().filter(|part| {
            let works = !part.own_work && !NOT_WORK.contains(&part.kind.as_str());
            works && part.share * scale >= SMALL
        });
        for part in open {
            row.share -= part.share * scale;
            parts.push(Row {
                label: format!("in {}: {}", row.server, part.label),
                share: part.share * scale,
                share_error: part.share_error * scale,
                cause: None,
                server: row.server.clone(),
                ..part.clone()
            });
        }
        row.share = row.share.max(0.0);
    }
    account.rows.append(&mut parts);
}

#[cfg(test)]
mod tests {
    use super::{Account, BTreeMap, Row, divide, row};

    fn part(kind: &str, share: f64, own_work: bool) -> Row {
        Row {
            kind: kind.to_owned(),
            label: kind.to_owned(),
            share,
            own_work,
            ..Row::default()
        }
    }

    fn account(rows: Vec<Row>) -> Account {
        Account {
            rows,
            ..Account::default()
        }
    }

    #[test]
    fn what_a_database_does_beside_its_application_is_told() {
        let mut front = account(vec![part("interpreter", 0.5, true), row("db", 0.5)]);
        // Half of its core was idle: of what it ran four fifths were one function.
        let theirs = account(vec![
            part("idle", 0.5, true),
            part("function", 0.4, false),
            part("library", 0.02, false),
            part("net_send", 0.08, true),
        ]);
        divide(&mut front, &BTreeMap::from([("db".to_owned(), theirs)]));
        let told: Vec<(&str, &str, bool)> = (front.rows.iter())
            .map(|r| (r.kind.as_str(), r.server.as_str(), r.own_work))
            .collect();
        let expected = [
            ("interpreter", "", true),
            ("beside", "db", true),
            ("function", "db", false),
        ];
        assert_eq!(told, expected);
        assert!((front.rows[2].share - 0.4).abs() < 1e-9, "{front:?}");
        assert!((front.closed() - 1.0).abs() < 1e-9, "{front:?}");
    }

    #[test]
    fn a_server_without_an_account_stays_whole() {
        let mut front = account(vec![row("db", 0.5)]);
        divide(&mut front, &BTreeMap::new());
        assert_eq!(front.rows, [row("db", 0.5)]);
    }
}
