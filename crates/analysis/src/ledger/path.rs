//! The way to the client: one round trip of it is the distance, which no server shortens.
//!
//! The surprise: a row of nothing but the client and the path looks like a fault of either, and on a far path is
//! neither. What is beyond one round trip stays without an owner: a window, an acknowledgement, a packet that was lost.

use super::latency::LONG_WAY_NS;
use super::types::{Account, Row};

/// Takes one round trip out of the row of the client and the path, where that is a large part of it.
pub(super) fn divide(account: &mut Account, round_trip_us: f64) {
    let total_us = account.total;
    let Some(row) = account.rows.iter_mut().find(|r| r.kind == "client") else {
        return;
    };
    let all_us = row.share * total_us;
    let way_us = round_trip_us.min(all_us);
    if all_us <= 0.0 || way_us < 0.5 * all_us {
        return;
    }
    let part = way_us / all_us;
    let way = Row {
        kind: "path".to_owned(),
        label: "one round trip of the path to the client".to_owned(),
        share: row.share * part,
        share_error: row.share_error * part,
        requests: row.requests.map(|n| n * part),
        own_work: true,
        source: format!("{}; shortest round trip of its sockets", row.source),
        ..row.clone()
    };
    row.share -= way.share;
    row.share_error -= way.share_error;
    row.requests = row.requests.map(|n| n * (1.0 - part));
    row.own_work |= (all_us - way_us) * 1e3 < LONG_WAY_NS;
    account.rows.push(way);
}

#[cfg(test)]
mod tests {
    use super::{Account, Row, divide};

    fn account(total_us: f64, client: f64) -> Account {
        let row = |kind: &str, share, own_work| Row {
            kind: kind.to_owned(),
            share,
            own_work,
            ..Row::default()
        };
        Account {
            total: total_us,
            rows: vec![
                row("client", client, false),
                row("sending", 1.0 - client, false),
            ],
            ..Account::default()
        }
    }

    fn check(total_us: f64, round_trip_us: f64, expected: &[(&str, f64, bool)]) {
        let mut account = account(total_us, 0.9);
        divide(&mut account, round_trip_us);
        assert!((account.closed() - 1.0).abs() < 1e-9, "{account:?}");
        let rows = account.rows.iter();
        let rows: Vec<_> = rows
            .map(|r| (r.kind.as_str(), (r.share * 1e3).round() / 1e3, r.own_work))
            .collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn one_round_trip_is_the_distance_and_the_rest_has_no_owner() {
        let (far, sending) = (30_000.0, ("sending", 0.1, false));
        // All but a few milliseconds is the way.
        check(
            35_000.0,
            far,
            &[("client", 0.043, true), sending, ("path", 0.857, true)],
        );
        // As long again waits for something.
        check(
            60_000.0,
            far,
            &[("client", 0.4, false), sending, ("path", 0.5, true)],
        );
        // Far beyond the way, and nothing known of it: one row, without an owner.
        check(600_000.0, far, &[("client", 0.9, false), sending]);
        check(35_000.0, 0.0, &[("client", 0.9, false), sending]);
    }
}
