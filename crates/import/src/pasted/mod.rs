//! What a person pasted: prompts, comments, several runs in a row.
//!
//! It stands beside `import` and shares its readers. It looks for what it knows, wherever that stands, and keeps the
//! order. The surprise: nothing is left out for being incomplete, because a diagnosis says what it does not see.
//!
//! ```text
//! lines    a number or a message by its wording: netstat -s, sysctl, show info, logs
//! tables   a head of column names and rows: top, iostat, mpstat, sar
//! links    counters of network devices
//! stacks   stacks with a number, a frame a line
//! sockets  a socket a line: ss, netstat -an, lsof
//! unread   what has come in on such connections and was not read
//! profiles functions with shares, and stacks: perf, pprof, folded
//! events   a time a line: access logs, GC logs, strace -T, histograms
//! packets  a packet a line: tcpdump, tshark
//! calls    strace without times: what is called, and by its stamps how long
//! lookups  questions for names among these calls
//! missing  files that these calls look for in vain
//! heads    records that these calls read in two
//! forms    tables of queues, calls and counters, a description each
//! transfers progress of scp, rsync, wget and pv
//! copies   runs of dd
//! fio      sums of fio's runs
//! columns  counters of the kernel as columns of a person's table
//! curl     times of a request, in curl's words or a person's
//! haproxy  `show activity`: a counter a line, with its parts by thread
//! procio   /proc/PID/io, with the time and the files beside it
//! syncs    a person's sum of calls by descriptor
//! losses   questions without an answer
//! labelled wrk's rates with a label before each
//! ghc      what GHC's runtime sums up
//! wakes    how often a program wakes by `perf stat`
//! netperf  netperf's tables
//! usages   memory of the same containers in two lists
//!
//! logs        wordings of messages, for `lines`
//! generators  load generators without fixed wordings, and what a histogram of response times shows
//! h1load      h1load's table
//! commands    what a generator's command asks for
//! failures    errors as load generators list them
//! lengths     what ab counts as failed by its length
//! statuses    statuses of responses as they are counted, and heads of responses
//! databases   slow logs, what runs, plans, counters: redis, MySQL, PostgreSQL, MongoDB, memcached
//! digests     statistics of statements, of any tool that makes them
//! requests    requests a line in JSON and other forms, and what frameworks say of their parts
//! retries     requests that a proxy sent to a second upstream, by its access log
//! dumps       threads with their state and frames
//! beans       threads as JSON, for `dumps`
//! chains      one stack as a person lists it, for `dumps`
//! begun       load generators without a result
//! addresses   what several runs of one ask
//! benchmarks  benchmarks of parts: redis, `openssl speed`
//! benchcmp    benchmarks of two runs as tools compare them
//! gobench     benchmarks of functions in Go
//! jmh         benchmarks of Java under several headings
//! slower      variants as benchmark-ips and benchee compare them
//! hyperfine   commands with how long they take and how much that varies
//! pytest      the longest parts of tests
//! memory      what redis says of its memory
//! doctor      what redis' doctors advise
//! groupmemory what a control group counts as memory
//! filelimits  limits of files of a process and of a shell
//! mongostat   MongoDB a second a line
//! imbalances  begins and ends that a person counted
//! descriptors how many files a process has open
//! interrupts  interrupts and packets by CPU
//! affinity    on which CPUs threads and interrupts may run
//! contended   waits for locks with their times: stacks, `perf lock contention`
//! printed     lines in a tool's own words
//! processes   ps with the CPU time of each
//! busybox     top of BusyBox
//! ended       processes that have ended and that nobody has waited for
//! pools       what is in use of a pool, in any library's words
//! probes      the path and its names: ping, mtr, iperf3, dig; scalers
//! prometheus  histograms of a server's own metrics
//! metrics     counters, gauges and summaries of them
//! trees       trees of calls with their times
//! timings     steps of a request with their statements
//! times       `time CMD`, as shells print it
//! statements  a statement with its time in fields, in any form
//! plans       plans of queries without costs or times
//! executed    plans that were executed, for `databases`
//! dropped     rows that come up through their joins for nothing
//! passed      indexes that a plan does not use
//! costs       costs of plans that were not executed
//! rings       io_uring beside iowait
//! showplan    SQL Server's plan as XML, by what it warns of
//! logical     pages that SQL Server read of each table
//! toolbar     statements of a request by Django's debug toolbar
//! locks       locks with who holds them and who waits
//! slots       replication slots of PostgreSQL
//! plugins     performance data of monitoring plug-ins
//! alike       statements that a log repeats with other values
//!
//! messages    what a log says plainly, where nothing else was found, as all of these
//! records     records of a structured log, whole or cut off
//! factors     times whose names differ by one word
//! sections    parts under a person's own headings, with the same lines in each
//! varied      times by a field of lines that are alike
//! durations   times that lines of a log or of a list name
//! silences    where a log is silent, and where it repeats itself at one distance
//! quantiles   percentiles by period
//! underway    rates with their times, a server a line
//! waited      waits that counters add up
//! counts      how many of a kind there are, line by line, where that grows and stays
//! cells       tables of any tool
//! pairs       two of such a table that belong together by their names
//! rates       rates before and after, a line each
//! amounts     numbers with names
//! kinds       lines that are alike, and lines with a share
//! scaled      rates by how many users or nodes there are
//! crowds      threads counted by their names
//! growths     times by a size or by the latency of the way
//! about       to which part of a system a text belongs
//! said        the most telling lines of any text, what it advises, the settings that it names
//! ```

mod about;
mod addresses;
mod affinity;
mod alike;
mod amounts;
mod beans;
mod begun;
mod benchcmp;
mod benchmarks;
mod busybox;
mod calls;
mod cells;
mod chains;
mod columns;
mod commands;
mod contended;
mod copies;
mod costs;
mod counts;
mod crowds;
mod curl;
mod databases;
mod descriptors;
mod digests;
mod doctor;
mod dropped;
mod dumps;
mod durations;
mod ended;
mod events;
mod executed;
mod factors;
mod failures;
mod filelimits;
mod fio;
mod forms;
mod generators;
mod ghc;
mod gobench;
mod groupmemory;
mod growths;
mod h1load;
mod haproxy;
mod heads;
mod hyperfine;
mod imbalances;
mod interrupts;
mod jmh;
mod kinds;
mod labelled;
mod lengths;
mod lines;
mod links;
mod locks;
mod logical;
mod logs;
mod lookups;
mod losses;
mod memory;
mod messages;
mod metrics;
mod missing;
mod mongostat;
mod netperf;
mod packets;
mod pairs;
mod passed;
mod pieces;
mod plans;
mod plugins;
mod pools;
mod printed;
mod probes;
mod processes;
mod procio;
mod profiles;
mod prometheus;
mod pytest;
mod quantiles;
mod rates;
mod records;
mod requests;
mod retries;
mod rings;
mod said;
mod scaled;
mod sections;
mod showplan;
mod silences;
mod slots;
mod slower;
mod sockets;
mod stacks;
mod statements;
mod statuses;
mod syncs;
mod tables;
mod times;
mod timings;
mod toolbar;
mod transfers;
mod trees;
mod underway;
mod unread;
mod usages;
mod varied;
mod waited;
mod wakes;

use crate::read::loads;
use crate::text::{plain, words};
use crate::{host, pidstat, strace};
use record::pasted::{Artefact, Pasted};
use std::borrow::Cow;

/// Reads texts, each with its file's name, in order.
pub fn read_pasted(texts: &[(String, String)]) -> Pasted {
    let mut all = Pasted::default();
    let plain = texts.iter().map(|(_, text)| without_endless(plain(text)));
    let plain: Vec<String> = plain.collect();
    for ((name, _), text) in texts.iter().zip(&plain) {
        let lines: Vec<&str> = text.lines().collect();
        let words = words(text);
        let straces = host::straces(&words).into_iter();
        all.straces.extend(straces.map(|(summary, _)| summary));
        all.sizes.extend(strace::sizes(name, &lines));
        let vmstats = host::vmstats(&words).into_iter();
        all.vmstats.extend(vmstats.map(|(table, _)| table));
        if all.vmstats.is_empty() {
            all.vmstats.extend(tables::vmstat(&lines));
        }
        all.pidstats.extend(pidstat::pidstats(&lines));
        let loads = loads(text);
        let whole = !loads.is_empty();
        all.loads.extend(loads);
        let others = artefacts(&lines).into_iter();
        // The generator's own reader has said it all.
        all.artefacts
            .extend(others.filter(|a| !whole || a.tool != lines::LOAD));
        let of_a_load = |a: &Artefact| a.figures.keys().any(|name| name.starts_with("load."));
        if whole || all.artefacts.iter().any(of_a_load) {
            all.artefacts.extend(commands::users(&lines));
        }
    }
    let unknown = only(&all, |a| SETTINGS.contains(&a.tool.as_str()));
    if unknown {
        let said = plain.iter().flat_map(|text| plainly(text));
        all.artefacts.extend(said);
    } else if only(&all, |a| a.tool == "log") {
        // Beside a message that is known a request's own line may say how long it took.
        let long = |a: &Artefact| a.value("times.most_s") >= Some(durations::LONG_S);
        let times = plain.iter().map(|text| durations::read(&lines_of(text)));
        all.artefacts.extend(times.flatten().filter(long));
    }
    let readable: Vec<&String> = plain.iter().filter(|text| is_text(text)).collect();
    all.said = said::of(&readable);
    // Who knows the tool has told what its output shows.
    all.said.known = !unknown;
    all
}

/// Bytes of a line that is read; dozens of readers look at each.
const ENDLESS: usize = 64 << 10;

/// A text of which lines that no person reads to their end have only their begin.
fn without_endless(text: String) -> String {
    if text.lines().all(|line| line.len() <= ENDLESS) {
        return text;
    }
    let begins = text
        .lines()
        .map(|line| &line[..line.floor_char_boundary(ENDLESS)]);
    begins.collect::<Vec<_>>().join("\n")
}

/// Tools that print what is set, and nothing of what happens.
const SETTINGS: [&str; 3] = ["limits", "sysctl", filelimits::TOOL];

/// Whether artefacts of that kind are all that was found, or nothing was.
fn only(all: &Pasted, kind: fn(&Artefact) -> bool) -> bool {
    let others = all.straces.is_empty()
        && all.sizes.is_empty()
        && all.vmstats.is_empty()
        && all.pidstats.is_empty()
        && all.loads.is_empty();
    others && all.artefacts.iter().all(kind)
}

/// Of so many characters one that was no text makes it data.
const PER_UNREADABLE: usize = 50;

/// Whether a person could have written or copied it: hardly any bytes that are no text.
fn is_text(text: &str) -> bool {
    let unreadable = text.matches(char::REPLACEMENT_CHARACTER).count();
    unreadable * PER_UNREADABLE <= text.chars().count()
}

/// What anybody reads in a text of a tool that nobody knows: messages and silences of a log, times, a table, numbers.
fn plainly(text: &str) -> Vec<Artefact> {
    if !is_text(text) {
        return Vec::new();
    }
    let lines = lines_of(text);
    let joined = records::in_one_line(&lines);
    let joined: Vec<&str> = joined.iter().map(|l| &**l).collect();
    let mut found: Vec<Artefact> = messages::read(&joined).into_iter().collect();
    if found.is_empty() {
        found.extend(records::read(&lines));
    }
    for read in [
        records::refused,
        growths::by_latency,
        growths::by_size,
        sections::read,
        factors::read,
        quantiles::read,
        underway::read,
        scaled::read,
        crowds::read,
        counts::read,
        waited::read,
    ] {
        if found.is_empty() {
            found.extend(read(&lines));
        }
    }
    if found.is_empty() {
        found = cells::read(&lines);
    }
    let readers = [
        rates::read,
        rates::in_a_sentence,
        varied::read,
        kinds::shares_of_times,
        waits,
        kinds::shares,
        amounts::read,
        statements::untimed,
        silences::beats,
        kinds::read,
        said::read,
    ];
    for read in readers {
        if found.is_empty() {
            found.extend(read(&lines));
        }
    }
    if found.is_empty() {
        found.extend(said::quoted_by_a_person(text));
    }
    found
}

/// The times that a text names, or a silence between its lines that is longer than most of them.
fn waits(lines: &[&str]) -> Option<Artefact> {
    let named = durations::read(lines);
    let silent = silences::read(lines);
    let s = |found: &Option<Artefact>, name: &str| found.as_ref().and_then(|a| a.value(name));
    match s(&named, "times.most_s") >= s(&silent, "silence.longest_s").map(|s| s / 2.0) {
        true => named,
        false => silent,
    }
}

/// What all readers find in one text, in its order.
fn artefacts(lines: &[&str]) -> Vec<Artefact> {
    // Mails and forums quote with a mark before each line.
    let lines: Vec<&str> = lines.iter().map(|l| unquoted(l)).collect();
    let lines = lines.as_slice();
    let named = named(lines);
    let own = failures::own_lines(lines);
    // A futex that times out is a timer of the program and no message of it.
    let own = own.into_iter().zip(&named);
    let own = own.map(|(own, line)| own || line.contains("futex("));
    let split = named.iter().zip(own).map(|(line, own)| match own {
        true => Vec::new(),
        false => pieces::pieces(line),
    });
    let split: Vec<_> = split.collect();
    let mut found = lines::read(&split, lines);
    found.extend(columns::read(lines));
    found.extend(tables::read(lines));
    found.extend(tables::headless(lines));
    found.extend(tables::summaries(lines));
    found.extend(tables::containers(lines));
    found.extend(tables::counted_twice(lines));
    found.extend(forms::read(lines));
    found.extend(forms::native(lines));
    found.extend(links::read(lines));
    found.extend(links::speeds(lines));
    found.extend(stacks::read(lines));
    found.extend(sockets::read(lines));
    found.extend(sockets::held(lines));
    found.extend(unread::read(lines));
    found.extend(profiles::read(lines));
    found.extend(events::read(lines));
    found.extend(packets::read(lines));
    found.extend(calls::read(lines));
    found.extend(curl::read(lines));
    found.extend(curl::connections(lines));
    found.extend(curl::announced(lines));
    found.extend(curl::meters(lines));
    found.extend(transfers::read(lines));
    found.extend(copies::read(lines));
    found.extend(fio::read(lines));
    found.extend(haproxy::read(lines));
    let results = generators::without_intervals(lines);
    let results = results.as_slice();
    found.extend(generators::read(results));
    found.extend(h1load::read(results));
    found.extend(printed::of_a_generator(results));
    found.extend(printed::of_sockets(lines));
    found.extend(begun::read(results));
    found.extend(addresses::read(results));
    found.extend(benchmarks::read(lines));
    found.extend(benchcmp::read(lines));
    found.extend(gobench::read(lines));
    found.extend(jmh::read(lines));
    found.extend(slower::read(lines));
    found.extend(hyperfine::read(lines));
    found.extend(pytest::read(lines));
    found.extend(failures::read(results));
    found.extend(lengths::read(results));
    found.extend(statuses::read(results));
    let wide = databases::horizontal(lines);
    let wide: Vec<&str> = wide.iter().map(String::as_str).collect();
    found.extend(databases::read(lines, &wide));
    found.extend(passed::read(lines, &wide));
    found.extend(passed::casts(lines));
    found.extend(costs::read(lines));
    found.extend(dropped::read(lines));
    found.extend(memory::read(lines));
    found.extend(doctor::read(lines));
    found.extend(groupmemory::read(&named));
    found.extend(slots::read(lines, &wide));
    found.extend(digests::read(lines, &wide));
    let timed =
        |a: &Artefact| a.value("database.longest_s").is_some() || a.value("digest.count").is_some();
    // One that the databases' own readers know has its time from them.
    if !found.iter().any(timed) {
        found.extend(statements::read(lines));
    }
    if !found.iter().any(|a| a.value("plan.steps").is_some()) {
        found.extend(plans::read(lines));
    }
    found.extend(showplan::read(lines));
    found.extend(logical::read(lines));
    found.extend(toolbar::read(lines));
    found.extend(locks::read(lines));
    found.extend(plugins::read(lines));
    found.extend(alike::read(lines));
    found.extend(requests::read(lines));
    found.extend(mongostat::read(lines));
    found.extend(descriptors::read(lines));
    found.extend(filelimits::read(lines));
    found.extend(dumps::read(lines));
    found.extend(interrupts::read(lines));
    found.extend(affinity::read(lines));
    found.extend(contended::read(lines));
    found.extend(pools::read(lines));
    found.extend(probes::read(lines));
    found.extend(prometheus::read(lines));
    found.extend(metrics::read(lines));
    found.extend(times::read(lines));
    found.extend(times::numbered(lines));
    found.extend(trees::read(lines));
    found.extend(timings::read(lines));
    found.extend(processes::read(lines));
    found.extend(busybox::read(lines));
    found.extend(ended::read(lines));
    found.extend(imbalances::read(lines));
    found.extend(rings::read(lines));
    found.extend(procio::read(lines));
    found.extend(syncs::read(lines));
    found.extend(losses::read(lines));
    found.extend(labelled::read(lines));
    found.extend(ghc::read(lines));
    found.extend(wakes::read(lines));
    found.extend(netperf::read(lines));
    found.extend(usages::read(lines));
    found.retain(|a| !a.is_empty());
    found.sort_by_key(|a| a.line);
    found
}

/// Lines of which those that hold only the numbers of a file or a sysctl have its name before them: `cat /proc/sys/...`
/// prints none.
fn named<'a>(lines: &[&'a str]) -> Vec<Cow<'a, str>> {
    let mut done: Vec<Cow<'a, str>> = Vec::with_capacity(lines.len());
    let mut before = "";
    for line in lines {
        let bare =
            !line.trim().is_empty() && line.split_whitespace().all(|w| w.parse::<f64>().is_ok());
        let name = before.split_whitespace().last().unwrap_or_default();
        let is_name = name.starts_with("/proc/")
            || name.starts_with("/sys/")
            || before.contains("sysctl -n ");
        done.push(match bare && is_name {
            true => Cow::Owned(format!("{name} {line}")),
            false => Cow::Borrowed(*line),
        });
        before = line;
    }
    done
}

/// The lines of a text without the marks of a quotation.
fn lines_of(text: &str) -> Vec<&str> {
    text.lines().map(unquoted).collect()
}

/// A line without the marks of a quotation.
fn unquoted(line: &str) -> &str {
    let mut line = line;
    while let Some(rest) = line.strip_prefix('>') {
        line = rest.strip_prefix(' ').unwrap_or(rest);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_endless_line_the_begin_is_read() {
        let line = format!("42 connections open {}", "\u{e9}9 ".repeat(ENDLESS));
        let text = format!("{line}\nRequests/sec: 12.5\n");
        let kept = without_endless(text);
        assert!(kept.len() < ENDLESS + 40 && kept.starts_with("42 conn"));
        assert!(kept.ends_with("\nRequests/sec: 12.5"));
        assert_eq!(without_endless("a\nb\n".to_owned()), "a\nb\n");
    }

    #[test]
    fn nothing_known_is_nothing() {
        let pasted = read_pasted(&[("notes.txt".into(), "hello\n\n1 2 3\n% time\n".into())]);
        assert!(pasted.is_empty(), "{pasted:?}");
    }
}
