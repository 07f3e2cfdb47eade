//! Tables with a line of column names: top, ps, iostat, mpstat, sar, pidstat -d, ss of HAProxy's functions.
//!
//! One description a tool: which names its head has, which column names a row, which gives its share, and which
//! figures are made of the others. The surprise is alignment: a head and its rows differ in length where the name is
//! several words or the head begins with a word of its own (`avg-cpu:`), so cells are counted from one end.

use super::busybox;
use super::events::{artefact, told};
use super::pieces::{parts, seconds, value};
use record::pasted::{Artefact, Row};

/// What a figure is of its column.
#[derive(Clone, Copy)]
enum Of {
    Largest,
    Mean,
    /// Rows whose cell begins with this.
    Rows(char),
    /// Largest of 100 less the cell: a core's work from its idle time.
    Busiest,
    /// The row of this name alone.
    Row(&'static str),
}

/// From which end cells are counted.
#[derive(Clone, Copy, PartialEq)]
enum Align {
    Left,
    Right,
}

struct Spec {
    tool: &'static str,
    /// Names that must be in the head.
    head: &'static [&'static str],
    align: Align,
    /// Columns that name a row and give its share, and what that is divided by; 0 divides by the sum.
    label: Option<(&'static str, &'static str, f64)>,
    figures: &'static [(&'static str, &'static str, Of)],
}

const MODES: &[(&str, &str, Of)] = &[
    ("%user", "cpu.user", Of::Mean),
    ("%system", "cpu.system", Of::Mean),
    ("%iowait", "cpu.iowait", Of::Mean),
    ("%steal", "cpu.steal", Of::Mean),
    ("%idle", "cpu.idle", Of::Mean),
];

const PROFILING: &str = "show profiling";
const IOSTAT_TOOL: &str = "iostat";

const SPECS: &[Spec] = &[
    Spec {
        tool: "top",
        head: &["PID", "%CPU", "COMMAND"],
        align: Align::Left,
        label: Some(("COMMAND", "%CPU", 100.0)),
        figures: &[
            ("%CPU", "top.busiest", Of::Largest),
            ("S", "top.in_disk_wait", Of::Rows('D')),
            ("STAT", "top.in_disk_wait", Of::Rows('D')),
            ("S", "top.running", Of::Rows('R')),
        ],
    },
    Spec {
        tool: "top",
        head: &["PID", "CPU%", "COMMAND"],
        align: Align::Left,
        label: Some(("COMMAND", "CPU%", 100.0)),
        figures: &[
            ("CPU%", "top.busiest", Of::Largest),
            ("S", "top.in_disk_wait", Of::Rows('D')),
            ("S", "top.running", Of::Rows('R')),
        ],
    },
    Spec {
        tool: "dstat",
        head: &["usr", "sys", "idl", "wai"],
        align: Align::Left,
        label: None,
        figures: &[
            ("usr", "cpu.user", Of::Mean),
            ("sys", "cpu.system", Of::Mean),
            ("wai", "cpu.iowait", Of::Mean),
            ("idl", "cpu.idle", Of::Mean),
            ("stl", "cpu.steal", Of::Mean),
        ],
    },
    Spec {
        tool: IOSTAT_TOOL,
        head: &["Device", "%util"],
        align: Align::Right,
        label: Some(("Device", "%util", 100.0)),
        figures: &[
            ("%util", "disk.busy", Of::Largest),
            ("await", "disk.await_ms", Of::Largest),
            ("r_await", "disk.await_ms", Of::Largest),
            ("w_await", "disk.await_ms", Of::Largest),
            ("avgqu-sz", "disk.queue", Of::Largest),
            ("aqu-sz", "disk.queue", Of::Largest),
            ("w/s", "disk.writes_per_s", Of::Largest),
            ("wMB/s", "disk.written_mb_per_s", Of::Largest),
            ("wkB/s", "disk.written_kb_each_s", Of::Largest),
        ],
    },
    Spec {
        tool: "mpstat",
        head: &["CPU", "%usr", "%sys", "%idle"],
        align: Align::Right,
        label: None,
        figures: &[
            ("%usr", "cpu.user", Of::Row("all")),
            ("%sys", "cpu.system", Of::Row("all")),
            ("%iowait", "cpu.iowait", Of::Row("all")),
            ("%steal", "cpu.steal", Of::Row("all")),
            ("%soft", "cpu.softirq", Of::Row("all")),
            ("%idle", "cpu.idle", Of::Row("all")),
            ("%soft", "cpu.softirq_busiest", Of::Largest),
            ("%idle", "cpu.busiest", Of::Busiest),
        ],
    },
    Spec {
        tool: "sar",
        head: &["CPU", "%user", "%system", "%iowait", "%idle"],
        align: Align::Right,
        label: None,
        figures: MODES,
    },
    Spec {
        tool: IOSTAT_TOOL,
        head: &["avg-cpu", "%user", "%system", "%iowait", "%idle"],
        align: Align::Right,
        label: None,
        figures: MODES,
    },
    Spec {
        tool: "sar -n DEV",
        head: &["IFACE", "rxpck/s", "txpck/s"],
        align: Align::Right,
        label: None,
        figures: &[
            ("rxpck/s", "net.received_packets_per_s", Of::Largest),
            ("txpck/s", "net.sent_packets_per_s", Of::Largest),
            ("rxkB/s", "net.received_kb_per_s", Of::Largest),
            ("txkB/s", "net.sent_kb_per_s", Of::Largest),
            ("%ifutil", "net.used", Of::Largest),
        ],
    },
    Spec {
        tool: "sar -n EDEV",
        head: &["IFACE", "rxerr/s", "rxdrop/s"],
        align: Align::Right,
        label: None,
        figures: &[
            ("rxdrop/s", "net.dropped_per_s", Of::Largest),
            ("rxfifo/s", "net.overrun_per_s", Of::Largest),
        ],
    },
    Spec {
        tool: "sar -n TCP",
        head: &["active/s", "passive/s", "oseg/s"],
        align: Align::Right,
        label: None,
        figures: &[
            ("active/s", "net.opens_per_s", Of::Largest),
            ("passive/s", "net.accepts_per_s", Of::Largest),
        ],
    },
    Spec {
        tool: "sar -n ETCP",
        head: &["atmptf/s", "estres/s", "retrans/s"],
        align: Align::Right,
        label: None,
        figures: &[
            ("atmptf/s", "net.failed_opens_per_s", Of::Largest),
            ("retrans/s", "net.retransmits_per_s", Of::Largest),
        ],
    },
    Spec {
        tool: "sar -w",
        head: &["proc/s", "cswch/s"],
        align: Align::Right,
        label: None,
        figures: &[("cswch/s", "vmstat.cs", Of::Mean)],
    },
    Spec {
        tool: "sar -r",
        head: &["kbmemfree", "%memused"],
        align: Align::Right,
        label: None,
        figures: &[("%memused", "memory.used_percent", Of::Mean)],
    },
    Spec {
        tool: "sar -W",
        head: &["pswpin/s", "pswpout/s"],
        align: Align::Right,
        label: None,
        figures: &[
            ("pswpin/s", "swap.in_per_s", Of::Mean),
            ("pswpout/s", "swap.out_per_s", Of::Mean),
        ],
    },
    Spec {
        tool: "sar -S",
        head: &["kbswpfree", "kbswpused"],
        align: Align::Right,
        label: None,
        figures: &[
            ("kbswpused", "swap.used_kb", Of::Largest),
            ("%swpused", "swap.used_percent", Of::Largest),
        ],
    },
    Spec {
        tool: "pidstat -t",
        head: &["TGID", "TID", "%CPU", "Command"],
        align: Align::Left,
        label: Some(("Command", "%CPU", 100.0)),
        figures: &[("%CPU", "top.busiest_thread", Of::Largest)],
    },
    Spec {
        tool: "sar -q",
        head: &["runq-sz", "ldavg-1"],
        align: Align::Right,
        label: None,
        figures: &[
            ("runq-sz", "load.run_queue", Of::Mean),
            ("ldavg-1", "load.one", Of::Mean),
            ("blocked", "top.in_disk_wait", Of::Mean),
        ],
    },
    Spec {
        tool: "pidstat -d",
        head: &["UID", "PID", "kB_rd/s", "Command"],
        align: Align::Right,
        label: Some(("Command", "kB_rd/s", 0.0)),
        figures: &[
            ("kB_rd/s", "disk.read_kb_per_s", Of::Largest),
            ("kB_wr/s", "disk.written_kb_per_s", Of::Largest),
            ("iodelay", "disk.delay", Of::Largest),
        ],
    },
    Spec {
        tool: "pidstat -w",
        head: &["PID", "cswch/s", "nvcswch/s"],
        align: Align::Right,
        label: Some(("Command", "cswch/s", 0.0)),
        figures: &[
            ("cswch/s", "switches.voluntary_per_s", Of::Largest),
            ("nvcswch/s", "switches.forced_per_s", Of::Largest),
        ],
    },
    Spec {
        tool: "SHOW POOLS",
        head: &["cl_active", "cl_waiting", "sv_active", "sv_idle"],
        align: Align::Left,
        label: None,
        figures: &[
            ("cl_waiting", "pool.waiting", Of::Largest),
            ("sv_active", "pool.used", Of::Largest),
            ("sv_idle", "pool.idle", Of::Largest),
        ],
    },
    Spec {
        tool: PROFILING,
        head: &["function", "calls", "cpu_tot"],
        align: Align::Left,
        label: Some(("function", "cpu_tot", 0.0)),
        figures: &[
            ("calls", "haproxy.task_calls", Of::Largest),
            ("lat_avg", "haproxy.latency_s", Of::Largest),
        ],
    },
];

/// A table that is being read.
struct Open<'a> {
    spec: &'static Spec,
    columns: Vec<&'a str>,
    artefact: Artefact,
    /// Cells of the column means: name, sum, count.
    means: Vec<(&'static str, f64, f64)>,
    /// Lines since the last row.
    idle: u32,
    /// The rows so far are iostat's first report: means since the start of the machine.
    since_boot: bool,
}

impl Open<'_> {
    /// Forgets what was read.
    fn restart(&mut self, line: u32) {
        self.artefact = artefact(self.spec.tool, line);
        self.means.clear();
        self.since_boot = false;
    }
}

/// All tables of a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    // Artefacts, and whether each is a mean since the start of the machine.
    let mut done: Vec<(Artefact, bool)> = Vec::new();
    let mut open: Option<Open<'_>> = None;
    let mut reported: Vec<&[&str]> = Vec::new();
    // iostat's own first line, below which its first report stands.
    let mut begun = false;
    for (number, line) in (1_u32..).zip(lines) {
        begun |= line.starts_with("Linux ") && line.contains(" CPU)");
        let cells: Vec<&str> = line
            .split(|c: char| c.is_whitespace() || c == '|')
            .filter(|c| !c.is_empty())
            .collect();
        if let Some(spec) = spec_of(&cells) {
            // sar and mpstat repeat their head with every interval.
            let same = open
                .as_ref()
                .is_some_and(|o| std::ptr::eq(o.spec, spec) && o.columns == cells);
            if let Some(table) = open.as_mut().filter(|o| same && o.since_boot) {
                table.restart(number);
            }
            if !same {
                let first = begun && spec.tool == IOSTAT_TOOL && !reported.contains(&spec.head);
                reported.extend(first.then_some(spec.head));
                close(open.take(), &mut done);
                open = Some(Open {
                    spec,
                    columns: cells,
                    artefact: Artefact {
                        tool: spec.tool.to_owned(),
                        line: number,
                        ..Artefact::default()
                    },
                    means: Vec::new(),
                    idle: 0,
                    since_boot: first,
                });
            }
            continue;
        }
        if let Some(table) = open.as_mut() {
            if row(table, &cells) {
                table.idle = 0;
            } else {
                table.idle += 1;
            }
            if table.idle > 2 {
                close(open.take(), &mut done);
            }
        }
    }
    close(open, &mut done);
    // Where intervals follow, what was since the start of the machine is none of them.
    let kept = |(at, (artefact, since_boot)): (usize, &(Artefact, bool))| {
        let alike = |(a, _): &(Artefact, bool)| {
            a.tool == artefact.tool && a.figures.keys().eq(artefact.figures.keys())
        };
        let left_out = artefact.is_empty() || *since_boot && done[at + 1..].iter().any(alike);
        (!left_out).then(|| artefact.clone())
    };
    done.iter().enumerate().filter_map(kept).collect()
}

fn close(open: Option<Open<'_>>, done: &mut Vec<(Artefact, bool)>) {
    let closed = open.map(|table| {
        let since_boot = table.since_boot;
        (finished(table), since_boot)
    });
    done.extend(closed);
}

fn bare(cell: &str) -> &str {
    cell.trim_end_matches(':')
}

fn spec_of(cells: &[&str]) -> Option<&'static Spec> {
    let has = |name: &&str| cells.iter().any(|c| bare(c).eq_ignore_ascii_case(name));
    // Its shares are of the whole machine.
    if busybox::is_head(cells) {
        return None;
    }
    SPECS.iter().find(|s| s.head.iter().all(has))
}

/// The cell of a column, counted from the end that the tool keeps straight.
fn cell<'a>(table: &Open<'_>, cells: &[&'a str], column: &str) -> Option<&'a str> {
    let at = table
        .columns
        .iter()
        .position(|c| bare(c).eq_ignore_ascii_case(column))?;
    match table.spec.align {
        Align::Left => cells.get(at).copied(),
        Align::Right => {
            let from_end = table.columns.len() - at;
            let at = cells.len().checked_sub(from_end)?;
            cells.get(at).copied()
        }
    }
}

fn cell_value(text: &str) -> Option<f64> {
    value(text)
        .or_else(|| seconds(text))
        .or_else(|| long_time(text))
}

/// `5.180m` and `14.92h` as HAProxy writes minutes and hours, in seconds.
fn long_time(text: &str) -> Option<f64> {
    let (number, factor) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60.0),
        None => (text.strip_suffix('h')?, 3_600.0),
    };
    let long: f64 = number.parse().ok()?;
    (number.contains('.') && long.is_finite()).then_some(long * factor)
}

fn row(table: &mut Open<'_>, cells: &[&str]) -> bool {
    let spec = table.spec;
    // A task that took no time that the clock shows has a dash there.
    let dash = |cell: &str| (spec.tool == PROFILING && cell == "-").then_some(0.0);
    let numeric =
        |name: &str| cell(table, cells, name).and_then(|c| cell_value(c).or_else(|| dash(c)));
    // A row has its numbers: all columns that figures are made of, as far as the head has them.
    let mut read = Vec::new();
    for (column, name, of) in spec.figures {
        if !table
            .columns
            .iter()
            .any(|c| bare(c).eq_ignore_ascii_case(column))
        {
            continue;
        }
        if let Of::Rows(letter) = of {
            let state = cell(table, cells, column).unwrap_or_default();
            read.push((*name, *of, f64::from(u8::from(state.starts_with(*letter)))));
            continue;
        }
        match numeric(column) {
            Some(n) => read.push((*name, *of, n)),
            None => return false,
        }
    }
    let labelled = spec.label.map(|(label, share, whole)| {
        let share = numeric(share)?;
        let label = cell(table, cells, label)?;
        Some((label.to_owned(), share, whole))
    });
    let labelled = match labelled {
        Some(None) => return false,
        Some(found) => found,
        None => None,
    };
    let calls = numeric("calls").unwrap_or(0.0);
    if read.is_empty() && labelled.is_none() {
        return false;
    }
    let first = if spec.tool == "mpstat" {
        cell(table, cells, "CPU").unwrap_or_default()
    } else {
        ""
    };
    let single = first != "all";
    for (name, of, n) in read {
        match of {
            Of::Largest if single => table.artefact.largest(name, n),
            Of::Busiest if single => table.artefact.largest(name, 100.0 - n),
            Of::Rows(_) => table.artefact.add(name, n),
            Of::Row(wanted) if first == wanted => mean(&mut table.means, name, n),
            Of::Mean => mean(&mut table.means, name, n),
            _ => {}
        }
    }
    if let Some((label, share, whole)) = labelled {
        if spec.tool == PROFILING && label.starts_with("process_stream") {
            table.artefact.add("haproxy.stream_calls", calls);
        }
        let share = if whole > 0.0 { share / whole } else { share };
        table.artefact.rows.push(Row {
            label,
            place: String::new(),
            share,
        });
    }
    true
}

fn mean(means: &mut Vec<(&'static str, f64, f64)>, name: &'static str, n: f64) {
    match means.iter_mut().find(|(held, ..)| *held == name) {
        Some((_, sum, count)) => {
            *sum += n;
            *count += 1.0;
        }
        None => means.push((name, n, 1.0)),
    }
}

fn finished(table: Open<'_>) -> Artefact {
    let mut artefact = table.artefact;
    for (name, sum, count) in table.means {
        artefact.figures.insert(name.to_owned(), sum / count);
    }
    if table.spec.label.is_some_and(|(.., whole)| whole == 0.0) {
        let all: f64 = artefact.rows.iter().map(|r| r.share).sum();
        if all > 0.0 {
            artefact.rows.iter_mut().for_each(|r| r.share /= all);
        }
    }
    if table.spec.tool == PROFILING {
        // One function has a row for each caller that wakes it.
        artefact.settle();
        let streams = artefact.value("haproxy.stream_calls").filter(|n| *n > 0.0);
        if let Some((calls, streams)) = artefact.value("haproxy.task_calls").zip(streams) {
            let each = calls / streams;
            artefact
                .figures
                .insert("haproxy.calls_each_stream".into(), each);
        }
    }
    artefact.largest_first();
    artefact
}

/// Heads of tables of which people paste the rows alone, by what a row must be.
type Headless = (&'static str, fn(&[&str]) -> bool);

const IOSTAT: &str =
    "Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util";
const MPSTAT: &str = "CPU %usr %nice %sys %iowait %irq %soft %steal %guest %gnice %idle";
const PIDSTAT: &str = "UID PID %usr %system %guest %wait %CPU CPU COMMAND";
const HEADLESS: [Headless; 3] = [
    (IOSTAT, |w| {
        w.len() == 14 && is_disk(w[0]) && numbers(&w[1..])
    }),
    (MPSTAT, |w| {
        let Some(at) = w.len().checked_sub(11) else {
            return false;
        };
        let all: f64 = w[at + 1..].iter().filter_map(|n| value(n)).sum();
        at <= 2
            && (w[at] == "all" || w[at].parse::<u16>().is_ok())
            && numbers(&w[at + 1..])
            && (99.0..101.0).contains(&all)
    }),
    (PIDSTAT, |w| {
        let Some(at) = w.len().checked_sub(9) else {
            return false;
        };
        let shares = &w[at + 2..at + 7];
        at <= 2
            && numbers(&w[at..at + 8])
            && shares.iter().all(|n| n.contains('.'))
            && !w[at].contains('.')
            && !w[at + 1].contains('.')
    }),
];

fn numbers(words: &[&str]) -> bool {
    words.iter().all(|w| w.parse::<f64>().is_ok())
}

fn is_disk(word: &str) -> bool {
    ["sd", "nvme", "vd", "xvd", "dm-", "md", "hd"]
        .iter()
        .any(|d| word.starts_with(d))
}

/// Rows of iostat, mpstat and pidstat whose head is cut off.
pub(super) fn headless(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    let headed = |l: &&str| {
        ["%util", "%idle", "%CPU"]
            .iter()
            .any(|name| l.contains(name))
    };
    if lines.iter().any(headed) {
        return done;
    }
    for (head, is_row) in HEADLESS {
        let mut rows = vec![head.to_owned()];
        let width = head.split_whitespace().count();
        let mut first = 0;
        for (number, line) in (1_u32..).zip(lines) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if is_row(&words) {
                first = if first == 0 { number } else { first };
                rows.push(words[words.len() - width..].join(" "));
            }
        }
        if rows.len() > 1 {
            let text: Vec<&str> = rows.iter().map(String::as_str).collect();
            let mut found = read(&text);
            found.iter_mut().for_each(|a| a.line = first);
            done.extend(found);
        }
    }
    done
}

/// Rows of vmstat without their head.
pub(super) fn vmstat(lines: &[&str]) -> Option<record::pasted::Table> {
    const COLUMNS: &str = "r b swpd free buff cache si so bi bo in cs us sy id wa st";
    let rows = lines.iter().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Option<Vec<f64>> = words
            .iter()
            .map(|w| w.parse::<u64>().ok().map(|n| n as f64))
            .collect();
        let numbers = numbers.filter(|n| matches!(n.len(), 16 | 17))?;
        let all: f64 = numbers[12..].iter().sum();
        (99.0..=101.0).contains(&all).then_some(numbers)
    });
    let rows: Vec<Vec<f64>> = rows.collect();
    let width = rows.first()?.len();
    Some(record::pasted::Table {
        columns: COLUMNS.split(' ').take(width).map(str::to_owned).collect(),
        rows: rows.into_iter().filter(|r| r.len() == width).collect(),
    })
}

/// What containers use: `docker stats` and `kubectl top`.
pub(super) fn containers(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("containers", 0);
    let by_pod = in_pods(lines);
    for (number, line) in (1_u32..).zip(lines) {
        // Beside its containers a pod, and what has no name in it, is none.
        let first = line.split_whitespace().next().unwrap_or_default();
        let of_whole = line.split_whitespace().count() == 3;
        if of_whole && by_pod.iter().any(|c| c.pod == first) {
            continue;
        }
        if !line.contains('%') && !line.trim_end().ends_with('i') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let percent = |w: &&str| w.strip_suffix('%')?.parse::<f64>().ok();
        let of_docker = || {
            let slash = words.iter().position(|w| *w == "/")?;
            let cpu = percent(words.get(slash.checked_sub(2)?)?)?;
            let memory = percent(words.get(slash + 2)?)?;
            Some((
                words.get(slash.checked_sub(3)?)?.to_string(),
                cpu / 100.0,
                Some(memory / 100.0),
            ))
        };
        let of_kubernetes = || {
            // A node has its shares of both behind the numbers.
            let (name, cpu, memory) = match words.as_slice() {
                [name, cpu, share, memory, _] if share.ends_with('%') => {
                    found.largest("containers.node_share", percent(share)? / 100.0);
                    found.largest(
                        "containers.node_memory_share",
                        percent(words.last()?)? / 100.0,
                    );
                    (name, cpu, memory)
                }
                [.., name, cpu, memory] if words.len() <= 4 => (name, cpu, memory),
                _ => return None,
            };
            let cores: f64 = match cpu.strip_suffix('m') {
                Some(cores) => cores.parse::<f64>().ok()? / 1e3,
                None => f64::from(cpu.parse::<u16>().ok()?),
            };
            ["Mi", "Gi", "Ki"]
                .iter()
                .any(|u| memory.ends_with(u))
                .then_some(())?;
            Some(((*name).to_owned(), cores, None))
        };
        let Some((name, cores, memory)) = of_docker().or_else(of_kubernetes) else {
            continue;
        };
        found.begin_at(number);
        found.largest("containers.busiest", cores);
        found.add("containers.count", 1.0);
        found.largest("containers.memory_share", memory.unwrap_or(0.0));
        found.rows.push(Row::new(name, cores));
    }
    found.settle();
    told(found)
}

/// A line of `kubectl top pod --containers`.
struct InPod<'a> {
    line: u32,
    pod: &'a str,
    /// Empty where the column is.
    name: &'a str,
    cores: f64,
    bytes: f64,
    written: String,
}

/// Lines below a head with a pod and the name of a container.
fn in_pods<'a>(lines: &[&'a str]) -> Vec<InPod<'a>> {
    let mut done = Vec::new();
    let mut below = false;
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (pod, name, cpu, memory) = match words.as_slice() {
            [.., cpu, memory] if cpu.starts_with("CPU(") && memory.starts_with("MEMORY(") => {
                below = words.starts_with(&["POD", "NAME"]);
                continue;
            }
            [pod, name, cpu, memory] if below => (*pod, *name, *cpu, *memory),
            [pod, cpu, memory] if below => (*pod, "", *cpu, *memory),
            _ => {
                below = false;
                continue;
            }
        };
        let cores = match cpu.strip_suffix('m') {
            Some(cores) => cores.parse::<f64>().map(|n| n / 1e3),
            None => cpu.parse(),
        };
        if let (Ok(cores), Some(bytes)) = (cores, value(memory)) {
            done.push(InPod {
                line: number,
                pod,
                name,
                cores,
                bytes,
                written: format!("{cpu} and {memory}"),
            });
        }
    }
    done
}

/// What a container without a name has is as much as all others of its pod have together within this.
const AS_MUCH: f64 = 0.5;

/// A container without a name that has as much as all others of its pod: the pod's own control group, which counts
/// them already.
pub(super) fn counted_twice(lines: &[&str]) -> Option<Artefact> {
    let all = in_pods(lines);
    let mut found = artefact("a container without a name", 0);
    for nameless in all.iter().filter(|c| c.name.is_empty()) {
        let of = |c: &&InPod<'_>| c.pod == nameless.pod && !c.name.is_empty();
        let named = || all.iter().filter(of);
        let bytes: f64 = named().map(|c| c.bytes).sum();
        let cores: f64 = named().map(|c| c.cores).sum();
        let alike = |a: f64, b: f64| (a - b).abs() <= AS_MUCH * b;
        if bytes > 0.0 && alike(nameless.bytes, bytes) && alike(nameless.cores, cores) {
            found.begin_at(nameless.line);
            found.add("nameless.rows", 1.0);
            found.rows.push(Row {
                label: nameless.pod.to_owned(),
                place: format!(
                    "{} without a name, {:.0}m and {:.0}Mi by the {} with one",
                    nameless.written,
                    cores * 1e3,
                    bytes / f64::from(1 << 20),
                    named().count()
                ),
                share: nameless.bytes,
            });
        }
    }
    found.largest_first();
    told(found)
}

/// The lines of top above its processes, per CPU or for all, and iotop's processes; both have no head of columns.
pub(super) fn summaries(lines: &[&str]) -> Vec<Artefact> {
    let mut done: Vec<Artefact> = Vec::new();
    let mut last = 0;
    for (number, line) in (1_u32..).zip(lines) {
        if let Some((core, modes)) = cpu_line(line) {
            let fresh = done.last().is_none_or(|a| {
                a.tool != "top" || (number > last + 12) || (!core && a.value("cpu.idle").is_some())
            });
            if fresh {
                done.push(artefact("top", number));
            }
            last = number;
            let Some(open) = done.last_mut() else {
                continue;
            };
            for (name, n) in &modes {
                if core {
                    mean_of_cores(open, name, *n);
                } else {
                    open.figures.insert(format!("cpu.{name}"), *n);
                }
            }
            if core {
                open.add("cpu.cores", 1.0);
                let of = |wanted: &str| modes.iter().find(|(n, _)| *n == wanted).map(|m| m.1);
                if let Some(idle) = of("idle") {
                    open.largest("cpu.busiest", 100.0 - idle);
                }
                if let Some(softirq) = of("softirq") {
                    open.largest("cpu.softirq_busiest", softirq);
                }
            }
        } else if let Some((io, command)) = iotop_line(line) {
            let fresh = done.last().is_none_or(|a| a.tool != "iotop");
            if fresh {
                done.push(artefact("iotop", number));
            }
            if let Some(open) = done.last_mut() {
                open.largest("iotop.waiting", io);
                open.add("iotop.waiting_sum", io);
                open.rows.push(Row::new(command, io / 100.0));
            }
        }
    }
    for artefact in &mut done {
        artefact.largest_first();
    }
    done.extend(iotop_rates(lines));
    done
}

/// What each program reads and writes a second by iotop, whatever columns stand behind: `103.13 K/s 10.34 M/s nginx`.
fn iotop_rates(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("rates of iotop", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some((read, written, command)) = rates_line(line) else {
            continue;
        };
        found.begin_at(number);
        found.add("iotop.read_bytes", read);
        found.add("iotop.written_bytes", written);
        found.rows.push(Row::new(command, read + written));
    }
    let all: f64 = found.rows.iter().map(|r| r.share).sum();
    if all > 0.0 {
        found.rows.iter_mut().for_each(|r| r.share /= all);
    }
    found.settle();
    told(found)
}

/// Bytes read and written a second, and the program.
fn rates_line(line: &str) -> Option<(f64, f64, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    is_class(words.get(1)?).then_some(())?;
    let rate = |at: usize| -> Option<f64> {
        let factor = match *words.get(at + 1)? {
            "B/s" => 1.0,
            "K/s" => 1024.0,
            "M/s" => 1_048_576.0,
            "G/s" => 1_073_741_824.0,
            _ => return None,
        };
        Some(words[at].parse::<f64>().ok()? * factor)
    };
    // The user, then the rates; shares of swapping and waiting may follow.
    let (read, written) = (rate(3)?, rate(5)?);
    let mut rest = words.get(7..)?;
    while let [first, behind @ ..] = rest {
        let filler = *first == "%" || *first == "?unavailable?" || first.parse::<f64>().is_ok();
        if !filler {
            break;
        }
        rest = behind;
    }
    let command = rest.first()?.trim_end_matches(':');
    Some((read, written, command.to_owned()))
}

/// iotop's class of a process.
fn is_class(word: &str) -> bool {
    ["be/", "rt/", "id/"].iter().any(|c| word.starts_with(c))
}

/// The running mean over cores: `cpu.cores` counts those before this one.
fn mean_of_cores(open: &mut Artefact, name: &str, n: f64) {
    let before = open.value("cpu.cores").unwrap_or(0.0);
    let name = format!("cpu.{name}");
    let held = open.value(&name).unwrap_or(0.0);
    open.figures
        .insert(name, (held * before + n) / (before + 1.0));
}

const MODES_OF_TOP: [(&str, &str); 8] = [
    ("us", "user"),
    ("sy", "system"),
    ("ni", "nice"),
    ("id", "idle"),
    ("wa", "iowait"),
    ("hi", "irq"),
    ("si", "softirq"),
    ("st", "steal"),
];

/// `%Cpu3 : 1.0 us, 2.0 sy, ...` or `Cpu(s): 1.0%us, ...`: whether it is one core, and the modes.
fn cpu_line(line: &str) -> Option<(bool, Vec<(&'static str, f64)>)> {
    let at = line.find("Cpu")?;
    let rest = &line[at + 3..];
    let (name, modes) = rest.split_once(':')?;
    let name = name.trim();
    let core = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    if !core && name != "(s)" {
        return None;
    }
    let mut found = Vec::new();
    for part in parts(modes) {
        let part = part.trim().trim_start_matches(':').trim();
        let split = part.find(|c: char| c.is_ascii_alphabetic())?;
        let mode = part[split..].split_whitespace().next()?;
        let n = part[..split].trim().trim_end_matches('%').trim();
        let ours = MODES_OF_TOP.iter().find(|(theirs, _)| *theirs == mode);
        if let (Some((_, ours)), Some(n)) = (ours, value(n)) {
            found.push((*ours, n));
        }
    }
    found
        .iter()
        .any(|(n, _)| *n == "idle")
        .then_some((core, found))
}

/// `4807 be/4 daemon 0.00 B/s 0.00 B/s 0.00 % 21.66 % httpd -k restart`.
fn iotop_line(line: &str) -> Option<(f64, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let class = words.get(1)?;
    if !is_class(class) {
        return None;
    }
    let last = words.iter().rposition(|w| *w == "%")?;
    let io: f64 = value(words.get(last.checked_sub(1)?)?)?;
    Some((io, words.get(last + 1)?.to_string()))
}
