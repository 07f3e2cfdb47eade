//! Tables of queues, calls, counters and objects: a head of column names, and rows of which the largest are told.
//!
//! One description a tool; the reader is the same for all. Its figures are `NAME.rows`, `NAME.most`, `NAME.sum`,
//! `NAME.top_share` of the column that the rows are sorted by, and those that the description adds. The surprise is
//! where a row has more words than its head: they belong to the column that names it (`php-fpm: pool www`).

use super::events::{WAITS, artefact, told};
use super::jmh;
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// Name of its figures, tool, columns that its head must have, the column that names a row, the one by which rows are
/// sorted (none: rows of a name are counted), what is told behind the name, and further figures: the largest of a
/// column, `COLUMN=TEXT` for the number of cells that begin so, `COLUMN+` for what the last row has more than the
/// first, `COLUMN$` for the last row's.
struct Form {
    name: &'static str,
    tool: &'static str,
    head: &'static [&'static str],
    label: &'static str,
    by: &'static str,
    says: &'static str,
    also: &'static [(&'static str, &'static str)],
}

type Words = &'static [&'static str];
type Further = &'static [(&'static str, &'static str)];

const fn form(
    (name, tool): (&'static str, &'static str),
    head: Words,
    (label, by): (&'static str, &'static str),
    says: &'static str,
    also: Further,
) -> Form {
    Form {
        name,
        tool,
        head,
        label,
        by,
        says,
        also,
    }
}

#[rustfmt::skip]
const FORMS: &[Form] = &[
    form(("queues", "rabbitmqctl list_queues"), &["name", "messages"], ("name", "messages"), "{messages} messages", &[]),
    form(("queues", "rabbitmqctl list_queues"), &["name", "messages_ready"], ("name", "messages_ready"), "{messages_ready} ready, {messages_unacknowledged} not acknowledged", &[("held", "messages_unacknowledged")]),
    form(("jobs", "queues of jobs"), &["NAME", "SIZE", "LATENCY"], ("NAME", "SIZE"), "{SIZE} jobs, the oldest {LATENCY} s old", &[]),
    form(("lag", "kafka-consumer-groups"), &["TOPIC", "PARTITION", "LAG"], ("TOPIC", "LAG"), "partition {PARTITION}: {LAG} behind", &[]),
    form(("slices", "systemd-cgtop"), &["Control Group", "%CPU", "Memory"], ("Control Group", "%CPU"), "{%CPU} % of a core, {Memory}", &[]),
    form(("slab", "slabtop"), &["OBJS", "OBJ SIZE", "CACHE SIZE", "NAME"], ("NAME", "CACHE SIZE"), "{CACHE SIZE} in {OBJS} objects", &[]),
    form(("traffic", "nethogs"), &["PROGRAM", "SENT", "RECEIVED"], ("PROGRAM", "RECEIVED"), "receives {RECEIVED} KB/s, sends {SENT} KB/s", &[("sent", "SENT")]),
    form(("ipvs", "ipvsadm"), &["RemoteAddress:Port", "Weight", "ActiveConn", "InActConn"], ("RemoteAddress:Port", "ActiveConn"), "{ActiveConn} connections at weight {Weight}", &[]),
    form(("uwsgi", "uwsgitop"), &["WID", "REQ", "STATUS", "AVG"], ("PID", "AVG"), "{STATUS}, {AVG} a request", &[("busy", "STATUS=busy")]),
    form(("traced", "perf trace -s"), &["syscall", "calls", "total", "avg", "max"], ("syscall", "total"), "{total} ms in {calls} calls, at most {max} ms", &[]),
    form(("syscount", "syscount"), &["SYSCALL", "COUNT"], ("SYSCALL", "COUNT"), "{COUNT} calls", &[]),
    form(("functions", "ltrace -c"), &["% time", "usecs/call", "calls", "function"], ("function", "seconds"), "{seconds} s in {calls} calls", &[]),
    form(("functions", "cProfile"), &["ncalls", "tottime", "cumtime", "filename:lineno(function)"], ("filename:lineno(function)", "tottime"), "{tottime} s itself, {cumtime} s with what it calls, {ncalls} calls", &[]),
    form(("functions", "XHProf"), &["Function Name", "Excl. Wall Time (microsec)"], ("Function Name", "Excl. Wall Time (microsec)"), "{Excl. Wall Time (microsec)} us itself, {Calls} calls", &[]),
    form(("functions", "py-spy top"), &["%Own", "OwnTime", "Function (filename)"], ("Function (filename)", "%Own"), "{%Own} itself", &[]),
    form(("functions", "stackprof"), &["TOTAL", "SAMPLES", "FRAME"], ("FRAME", "SAMPLES"), "{SAMPLES} samples itself", &[]),
    form(("functions", "async-profiler"), &["percent", "samples", "top"], ("top", "samples"), "{percent}", &[]),
    form(("functions", "line_profiler"), &["Line #", "Hits", "Per Hit", "% Time", "Line Contents"], ("Line Contents", "% Time"), "{% Time} % of the time, {Hits} times", &[]),
    form(("steps", "SHOW PROFILE"), &["Status", "Duration"], ("Status", "Duration"), "{Duration} s", &[]),
    form(("scanned", "pg_stat_user_tables"), &["relname", "seq_scan", "seq_tup_read"], ("relname", "seq_tup_read"), "{seq_tup_read} rows read by {seq_scan} scans of the whole table", &[]),
    form(("functions", "StopWatch"), &["%", "Task name"], ("Task name", "%"), "{%}", &[]),
    form(("recorded", "jfr summary"), &["Event Type", "Count", "Size (bytes)"], ("Event Type", "Count"), "{Count} times", &[]),
    form(("objects", "jmap -histo"), &["#instances", "#bytes", "class name"], ("class name", "#bytes"), "{#bytes} bytes in {#instances}", &[]),
    form(("jstat", "jstat -gcutil"), &["E", "O", "YGC", "FGC", "GCT"], ("", "O"), "", &[("full", "FGC"), ("full_s", "FGCT"), ("grown", "FGC+"), ("now", "O$")]),
    form(("pools", "thread pools"), &["name", "active", "queue", "rejected"], ("name", "rejected"), "{active} active, {queue} queued, {rejected} rejected", &[("queued", "queue")]),
    form(("stages", "nodetool tpstats"), &["Pool Name", "Active", "Pending"], ("Pool Name", "Pending"), "{Active} active, {Pending} pending", &[]),
    form(("slow", "slow operations of a file system"), &["BYTES", "LAT(ms)", "FILENAME"], ("FILENAME", "LAT(ms)"), "{T} by {COMM}, {LAT(ms)} ms", &[]),
    form(("connects", "tcpconnlat"), &["DADDR", "DPORT", "LAT(ms)"], ("DADDR", "LAT(ms)"), "port {DPORT} from {COMM}, {LAT(ms)} ms", &[]),
    form(("blocks", "biosnoop"), &["COMM", "DISK", "LAT(ms)"], ("COMM", "LAT(ms)"), "{T} on {DISK}, {LAT(ms)} ms", &[]),
    form(("names", "gethostlatency"), &["COMM", "LATms", "HOST"], ("HOST", "LATms"), "{LATms} ms for {COMM}", &[]),
    form(("lives", "tcplife"), &["LPORT", "RADDR", "RPORT", "MS"], ("RADDR", "MS"), "local port {LPORT}, {MS} ms, {TX_KB} KB sent", &[]),
    form(("resent", "tcpretrans"), &["LADDR:LPORT", "T>", "RADDR:RPORT", "STATE"], ("STATE", ""), "", &[("syn", "STATE=SYN")]),
    form(("dropped", "tcpdrop"), &["SADDR:SPORT", "DADDR:DPORT", "STATE (FLAGS)"], ("STATE (FLAGS)", ""), "", &[]),
    form(("locks", "pg_locks"), &["mode", "granted"], ("mode", ""), "", &[("waiting", "granted=f")]),
    form(("cached", "cachestat"), &["HITS", "MISSES", "HITRATIO"], ("", "MISSES"), "", &[("hits_percent", "HITRATIO")]),
    form(("nfs", "nfsstat"), &["calls", "retrans", "authrefrsh"], ("", "calls"), "", &[("retrans", "retrans")]),
    form(("inodes", "df -i"), &["Filesystem", "IUse%", "Mounted on"], ("Mounted on", "IUse%"), "{IUse%} of the inodes", &[]),
    form(("samples", "JMeter's samples"), &["timeStamp", "elapsed", "label", "responseCode"], ("label", "elapsed"), "{elapsed} ms, {responseCode}", &[("connect_ms", "Connect"), ("fine", "success=true")]),
    form(("labels", "JMeter's report"), &["Label", "# Samples", "Average", "Error %"], ("Label", "Average"), "{Average} ms on average, {Error %} errors, {# Samples} samples", &[]),
    form(("labels", "locust's statistics"), &["Name", "Request Count", "Failure Count", "Average Response Time"], ("Name", "Average Response Time"), "{Average Response Time} ms on average, {Failure Count} of {Request Count} failed", &[("failed", "Failure Count")]),
    form(("sleeps", "ps -o wchan"), &["PID", "WCHAN"], ("WCHAN", ""), "", &[]),
    form(("space", "df"), &["Filesystem", "Use%", "Mounted on"], ("Mounted on", "Use%"), "{Use%} of {Filesystem}", &[]),
    form(("mailbox", "queues of Erlang's processes"), &["Name or Initial Call", "Reds", "MsgQ", "Current Function"], ("Current Function", "MsgQ"), "{MsgQ} messages", &[]),
    form(("hostgroups", "ProxySQL"), &["srv_host", "ConnUsed", "ConnFree", "ConnERR"], ("srv_host", "ConnUsed"), "{ConnUsed} in use, {ConnFree} free, {ConnERR} errors", &[("errors", "ConnERR"), ("free", "ConnFree")]),
    form(("waits", "waits of SQL Server"), &["wait_type", "wait_time_s"], ("wait_type", "wait_time_s"), "{wait_time_s} s", &[]),
    form(("waits", "waits of SQL Server"), &["wait_type", "wait_time_ms"], ("wait_type", "wait_time_ms"), "{wait_time_ms} ms", &[]),
    form(("bench", "JMH"), &["Benchmark", "Mode", "Score", "Units"], ("Benchmark", "Score"), "{Score} {Units}", &[]),
    form(("slots", "slots of server-status"), &["PID", "Acc", "M", "SS", "Request"], ("Request", "SS"), "state {M} for {SS} s", &[("writing", "M=W"), ("reading", "M=R"), ("kept", "M=K"), ("logging", "M=L")]),
    form(("devices", "netstat -i"), &["Iface", "RX-OK", "RX-DRP", "RX-OVR"], ("Iface", "RX-DRP"), "{RX-DRP} dropped, {RX-OVR} overruns, {RX-OK} received", &[]),
    form(("proxied", "HAProxy's statistics"), &["# pxname", "svname", "qcur", "qmax", "scur"], ("svname", "qcur"), "{qcur} wait, {scur} at work of {slim}, status {status}", &[("longest", "qmax")]),
];

/// Lines behind the last row after which a table is over.
const GAP: u32 = 3;
/// A longer line is data.
const LONGEST: usize = 2_000;
/// Names of rows that are sums of others.
const SUMS: [&str; 5] = ["Aggregated", "total", "TOTAL", "BACKEND", "FRONTEND"];

/// How the cells of a table are kept apart.
#[derive(Clone, Copy, PartialEq)]
enum Apart {
    By(char),
    Spaces,
}

/// A table that is being read.
struct Open {
    form: &'static Form,
    apart: Apart,
    columns: Vec<String>,
    found: Artefact,
    first: BTreeMap<&'static str, f64>,
    /// Lines since the last row.
    idle: u32,
}

/// All such tables of a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    let mut open: Option<Open> = None;
    for (number, line) in (1_u32..).zip(lines).filter(|(_, l)| l.len() < LONGEST) {
        if let Some((form, apart, columns)) = head(line) {
            let same = open.as_ref().is_some_and(|o| o.columns == columns);
            if !same {
                done.extend(open.take().and_then(finished));
                open = Some(Open {
                    form,
                    apart,
                    columns,
                    found: artefact(form.tool, number),
                    first: BTreeMap::new(),
                    idle: 0,
                });
            }
            continue;
        }
        let Some(table) = open.as_mut() else { continue };
        let is_row = row(table, line).is_some();
        table.idle = if is_row { 0 } else { table.idle + 1 };
        if table.idle > GAP {
            done.extend(open.take().and_then(finished));
        }
    }
    done.extend(open.and_then(finished));
    done
}

/// `-  Thread (reserved=2712MB, committed=2712MB)` of `jcmd PID VM.native_memory`: kinds of memory by what is in use.
pub(super) fn native(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("jcmd VM.native_memory", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some((name, sizes)) = line.split_once("(reserved=") else {
            continue;
        };
        let name = name.trim_start_matches(['-', ' ']).trim();
        let committed = sizes.split_once("committed=").map(|(_, rest)| rest);
        let committed = committed.and_then(|rest| rest.split([')', ',']).next());
        let Some((committed, n)) = committed.and_then(|c| Some((c, value(c)?))) else {
            continue;
        };
        if name.is_empty() {
            continue;
        }
        found.begin_at(number);
        found.add("native.rows", 1.0);
        found.largest("native.most", n);
        found.rows.push(Row {
            label: name.to_owned(),
            place: committed.to_owned(),
            share: n,
        });
    }
    found.largest_first();
    told(found)
}

/// A form whose head this line is, and its columns.
fn head(line: &str) -> Option<(&'static Form, Apart, Vec<String>)> {
    FORMS.iter().find_map(|form| {
        if !form.head.iter().all(|name| line.contains(name)) {
            return None;
        }
        let ways = [
            Apart::By('|'),
            Apart::By('\t'),
            Apart::By(','),
            Apart::Spaces,
        ];
        ways.into_iter().find_map(|apart| {
            let columns = match apart {
                // A name of two words is one cell.
                Apart::Spaces => {
                    let names = form.head.iter().filter(|n| n.contains(' '));
                    let joined = names.fold(line.to_owned(), |line, name| {
                        line.replace(name, &name.replace(' ', "\u{1}"))
                    });
                    let cells = joined.split_whitespace();
                    cells.map(|c| c.replace('\u{1}', " ")).collect()
                }
                apart => cells(line, apart, 0, 0),
            };
            let has = |name: &&&str| columns.iter().any(|c| c == **name);
            let all = form.head.iter().filter(has).count() == form.head.len();
            all.then_some((form, apart, columns))
        })
    })
}

/// The cells of a line; of more words than columns those that are too many belong to the column at `label`.
fn cells(line: &str, apart: Apart, columns: usize, label: usize) -> Vec<String> {
    let Apart::By(mark) = apart else {
        let words: Vec<&str> = line
            .split_whitespace()
            .filter(|w| *w != "+/-" && *w != "KB/sec")
            .collect();
        let more = words.len().saturating_sub(columns);
        let until = label + more + 1;
        let mut all: Vec<String> = words.iter().take(label).map(|w| (*w).to_owned()).collect();
        all.extend(words.get(label..until).map(|w| w.join(" ")));
        all.extend(words.iter().skip(until).map(|w| (*w).to_owned()));
        return all;
    };
    let inner = line.trim().trim_matches('|');
    inner.split(mark).map(|c| c.trim().to_owned()).collect()
}

/// Reads a row of an open table.
fn row(table: &mut Open, line: &str) -> Option<()> {
    let form = table.form;
    let at = |name: &str| table.columns.iter().position(|c| c == name);
    let label_at = at(form.label);
    let width = table.columns.len();
    let cells = cells(line, table.apart, width, label_at.unwrap_or(width));
    let cell = |name: &str| cells.get(at(name)?).map(String::as_str);
    let amount = |name: &str| cell(name).and_then(value);
    let counted = form.by.is_empty();
    if counted && cells.len() < width || cells.iter().all(String::is_empty) {
        return None;
    }
    let n = if counted { 1.0 } else { amount(form.by)? };
    let label = match label_at {
        Some(_) => cell(form.label).filter(|l| !l.is_empty())?,
        None => "",
    };
    let letters = |text: &str| text.chars().any(char::is_alphanumeric);
    // JMH's samples have no name in their first line, whose columns are others then.
    if counted && !letters(label) || form.tool == "JMH" && jmh::MODES.contains(&label) {
        return None;
    }
    let slice = label == "/" || label.ends_with(".slice");
    let is_sum = SUMS.contains(&label) || slice && form.name == "slices";
    if is_sum || form.tool == "perf trace -s" && WAITS.contains(&label) {
        return Some(());
    }
    let told = table
        .columns
        .iter()
        .fold(form.says.to_owned(), |told, column| {
            told.replace(&format!("{{{column}}}"), cell(column).unwrap_or("-"))
        });
    let told = match told.split_once('{') {
        Some((before, _)) => before.trim_end_matches([' ', ',']).to_owned(),
        None => told,
    };
    let figure = |name: &str| format!("{}.{name}", form.name);
    for (name, column) in form.also {
        if let Some((column, text)) = column.split_once('=') {
            let is = cell(column).is_some_and(|c| c.starts_with(text));
            table.found.add(&figure(name), f64::from(u8::from(is)));
            continue;
        }
        let Some(n) = amount(column.trim_end_matches(['+', '$'])) else {
            continue;
        };
        match column.chars().next_back() {
            Some('+') => {
                let first = *table.first.entry(*name).or_insert(n);
                table.found.figures.insert(figure(name), n - first);
            }
            Some('$') => {
                table.found.figures.insert(figure(name), n);
            }
            _ => table.found.largest(&figure(name), n),
        }
    }
    table.found.add(&figure("rows"), 1.0);
    table.found.add(&figure("sum"), n);
    table.found.largest(&figure("most"), n);
    let label = short(label);
    let same = table
        .found
        .rows
        .iter_mut()
        .find(|r| counted && r.label == label);
    match same {
        Some(row) => row.share += 1.0,
        None => table.found.rows.push(Row {
            label,
            place: told,
            share: n,
        }),
    }
    Some(())
}

fn finished(table: Open) -> Option<Artefact> {
    let (form, mut found) = (table.form, table.found);
    let figure = |name: &str| format!("{}.{name}", form.name);
    found.largest_first();
    let sum = found.value(&figure("sum"))?;
    let first = found.rows.first()?.share;
    if sum > 0.0 {
        found.figures.insert(figure("top_share"), first / sum);
    }
    for row in found.rows.iter_mut().filter(|_| form.by.is_empty()) {
        row.place = format!("{:.0} times", row.share);
    }
    Some(found)
}
