//! Replication slots of PostgreSQL (`pg_replication_slots`): who reads them, how old the transaction is that each holds
//! on to, and from where it keeps the WAL.
//!
//! The surprise is a slot that is active and harmful: a standby that sends its oldest transaction
//! (`hot_standby_feedback`) keeps vacuum on the primary from rows that died since.

use super::events::{artefact, told};
use record::pasted::{Artefact, Row};

/// A slot of a row.
struct Slot {
    name: String,
    active: bool,
    /// The older of `xmin` and `catalog_xmin`.
    xmin: Option<u32>,
    lsn: Option<u64>,
    told: String,
}

/// The slots of a text; `wide` has those that were printed a column a line.
pub(super) fn read(lines: &[&str], wide: &[&str]) -> Option<Artefact> {
    of_table(lines).or_else(|| of_table(wide))
}

fn cells(line: &str) -> Vec<&str> {
    let line = line.trim();
    let cells: Vec<&str> = match line {
        _ if line.contains('|') => line.trim_matches('|').split('|').collect(),
        _ if line.contains('\t') => line.split('\t').collect(),
        _ => line.split_whitespace().collect(),
    };
    cells.into_iter().map(str::trim).collect()
}

fn of_table(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("replication slots", 0);
    let mut head: Vec<&str> = Vec::new();
    let mut slots: Vec<Slot> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let row = cells(line);
        if row.contains(&"slot_name") && row.contains(&"active") {
            head = row;
            continue;
        }
        if row.len() != head.len() || head.is_empty() {
            continue;
        }
        let slot = slot(&head, &row);
        if slot.is_some() {
            found.begin_at(number);
        }
        slots.extend(slot);
    }
    let idle = slots.iter().filter(|s| !s.active).count();
    let xmins: Vec<u32> = slots.iter().filter_map(|s| s.xmin).collect();
    let newest = xmins.iter().copied().max().unwrap_or(0);
    // Numbers of transactions wrap around.
    let behind = |xmin: u32| Some(f64::from(newest - xmin)).filter(|n| *n < 2_f64.powi(31));
    let most = xmins.iter().filter_map(|x| behind(*x)).fold(0.0, f64::max);
    let last = slots.iter().filter_map(|s| s.lsn).max().unwrap_or(0);
    let kept = |s: &Slot| s.lsn.map_or(0.0, |lsn| (last - lsn) as f64);
    let kept_bytes = slots.iter().map(kept).fold(0.0, f64::max);
    for slot in &slots {
        let age = slot.xmin.and_then(behind).unwrap_or(0.0);
        found.rows.push(Row {
            label: slot.name.clone(),
            place: slot.told.clone(),
            share: age + if slot.active { 0.0 } else { 2_f64.powi(32) },
        });
    }
    found.largest_first();
    for (name, n) in [
        ("rows", slots.len() as f64),
        ("idle", idle as f64),
        ("behind", most),
        ("kept_bytes", kept_bytes),
    ] {
        found.figures.insert(format!("replslots.{name}"), n);
    }
    told(found)
}

fn slot(head: &[&str], row: &[&str]) -> Option<Slot> {
    let cell = |name: &str| {
        let at = head.iter().position(|h| *h == name)?;
        Some(row[at]).filter(|c| !c.is_empty())
    };
    let active = match cell("active")?.to_ascii_lowercase().as_str() {
        "t" | "true" => true,
        "f" | "false" => false,
        _ => return None,
    };
    let number = |name: &str| cell(name)?.parse::<u32>().ok();
    let mut told = vec![if active { "active" } else { "not active" }.to_owned()];
    for name in ["xmin", "catalog_xmin", "restart_lsn", "wal_status"] {
        told.extend(cell(name).map(|c| format!("{name} {c}")));
    }
    Some(Slot {
        name: cell("slot_name")?.to_owned(),
        active,
        xmin: [number("xmin"), number("catalog_xmin")]
            .into_iter()
            .flatten()
            .min(),
        lsn: cell("restart_lsn").and_then(position),
        told: told.join(", "),
    })
}

/// `A/2493B440` in bytes.
fn position(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let part = |hex: &str| u32::from_str_radix(hex, 16).ok().map(u64::from);
    Some(part(high)? << 32 | part(low)?)
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn slots_are_told_idle_ones_first_with_what_they_hold() {
        let text = " slot_name | plugin | slot_type | active | active_pid | xmin | catalog_xmin | restart_lsn \n-----------+--------+-----------+--------+------------+------+--------------+-------------\n one       |        | physical  | t      |       4211 | 9000 |              | 1/20000000\n two       |        | physical  | t      |       4212 | 1000 |              | 1/20000000\n old       | pgoutput | logical | f      |            |      |         8000 | 1/10000000\n(3 rows)\n";
        let found = read(&text.lines().collect::<Vec<_>>(), &[]).unwrap();
        assert_eq!(
            written(&found),
            [
                "old: not active, catalog_xmin 8000, restart_lsn 1/10000000",
                "two: active, xmin 1000, restart_lsn 1/20000000",
                "one: active, xmin 9000, restart_lsn 1/20000000"
            ]
        );
        assert_eq!(found.value("replslots.idle"), Some(1.0));
        assert_eq!(found.value("replslots.behind"), Some(8000.0));
        assert_eq!(found.value("replslots.kept_bytes"), Some(268_435_456.0));
        let wide = ["slot_name | active | restart_lsn", "a | f | 0/10"];
        assert!(read(&["nothing"], &wide).is_some());
        assert!(read(&["slot_name and active are columns"], &[]).is_none());
    }
}
