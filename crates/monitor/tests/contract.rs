//! The table of signals in ARCHITECTURE.md and the signals of this crate are the same.

use monitor::fields::Field;
use monitor::{
    Signal, cgroup, conntrack, cpu, jvm, listen, memory, nic, pressure, process, queues, slab,
    sockets, softirq, tcp, thread, tlb,
};
use record::Kind;
use std::collections::BTreeMap;

const ARCHITECTURE: &str = include_str!("../../../ARCHITECTURE.md");

/// What a row of the table says of each of its signals: its second cell (kind and units) and its source.
fn documented() -> BTreeMap<String, (String, String)> {
    let section = ARCHITECTURE
        .split("## Signals")
        .nth(1)
        .expect("the section exists");
    let section = section.split("\n## ").next().unwrap_or(section);
    let mut signals = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        for name in cells[0].split_whitespace() {
            let name = name.trim_matches('`').to_owned();
            signals.insert(name, (cells[1].to_owned(), cells[3].to_owned()));
        }
    }
    signals
}

fn ours() -> Vec<Signal> {
    let plain: [&[Signal]; 41] = [
        &cpu::CORE,
        &[cpu::FREQUENCY],
        &cpu::HOST,
        &softirq::SOFTIRQ,
        &softirq::SOFTNET,
        &nic::DEVICE,
        &process::STAT,
        &process::IO,
        &[process::OPEN_FILES],
        &thread::STAT,
        &thread::SCHEDSTAT,
        &thread::STATUS,
        &listen::QUEUE,
        &sockets::SUMS,
        &sockets::MEDIANS,
        &sockets::PEER,
        &sockets::OPEN,
        &sockets::AGES,
        &[process::OPEN_FILES_LIMIT],
        &[process::NICE],
        &conntrack::CONNTRACK,
        &cgroup::THROTTLING,
        &cgroup::QUOTA,
        &cgroup::MEMORY,
        &cgroup::MEMORY_LIMIT,
        &cgroup::LIMIT_HITS,
        &cgroup::OOM_KILLS,
        &cgroup::CPU,
        &cgroup::SHARES,
        &cgroup::HIGH_EVENTS,
        &cgroup::RECLAIMED,
        &cgroup::PIDS,
        &cgroup::PIDS_LIMIT,
        &cgroup::IO_USED,
        &cgroup::IO_LIMIT,
        &conntrack::DROPS,
        &process::SWAP,
        &jvm::JVM,
        &slab::SLAB,
        &tlb::TLB,
        &queues::QUEUE,
    ];
    let fields: [&[Field]; 8] = [
        tcp::SNMP,
        tcp::NETSTAT,
        tcp::SOCKSTAT,
        memory::MEMINFO,
        memory::VMSTAT,
        pressure::CPU,
        pressure::MEMORY,
        pressure::IO,
    ];
    let plain = plain.into_iter().flatten().copied();
    plain
        .chain(fields.into_iter().flatten().map(|field| field.signal))
        .collect()
}

#[test]
fn names_units_and_sources_are_those_of_the_table() {
    let mut documented = documented();
    for signal in ours() {
        let (kind_and_units, source) = documented
            .remove(signal.name)
            .unwrap_or_else(|| panic!("{} is not in the table, or twice ours", signal.name));
        let (kind, units) = kind_and_units.split_once(", ").unwrap();
        let expected = match signal.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        assert_eq!(kind, expected, "{}", signal.name);
        let mut units = units.split(" or ");
        assert!(
            units.any(|unit| unit == signal.unit),
            "{}: {}",
            signal.name,
            signal.unit
        );
        assert!(
            source.starts_with(signal.source),
            "{}: {source}",
            signal.name
        );
    }
    assert!(
        documented.is_empty(),
        "in the table, but not read: {:?}",
        documented.keys()
    );
}
