//! Results of other tools: what each prints, what pages make of it, what is cut off, and what becomes a record.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use analysis::imported::{compare_reported, reported_tables};
use import::{Format, ImportError, Imported, Making, Options, Source, import};
use plan::Plan;
use record::{MemoryStore, Reported, RunRecord};

/// Every fixture with its format and figures that must come out of it.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, f64)],
);

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("tools/", $name))
    };
}

const CASES: [Case; 25] = [
    (
        "wrk.txt",
        "wrk",
        fixture!("wrk.txt"),
        &[
            ("connections", 20.0),
            ("requests", 47_256.0),
            ("rate_per_s", 42_708.68),
            ("latency_ns.p99", 9.34e6),
            ("latency_ns.max", 18.86e6),
            ("latency_ns.p50", 350e3),
            ("duration_s", 1.11),
        ],
    ),
    (
        "wrk-status-500.txt",
        "wrk",
        fixture!("wrk-status-500.txt"),
        &[("failed.non_2xx", 24_849.0)],
    ),
    (
        "wrk2.txt",
        "wrk2",
        fixture!("wrk2.txt"),
        &[
            ("rate_per_s", 995.04),
            ("latency_ns.p99.9", 198.66e6),
            ("latency_ns.p50", 0.94e6),
            ("latency_ns.mean", 9.12e6),
        ],
    ),
    (
        "ab.txt",
        "ab",
        fixture!("ab.txt"),
        &[
            ("connections", 10.0),
            ("requests", 3_000.0),
            ("rate_per_s", 5_372.65),
            ("latency_ns.p99", 11e6),
            ("latency_ns.max", 16e6),
            ("latency_ns.p50", 1e6),
            ("transfer_bytes_per_s", 5_976.02 * 1024.0),
            ("connect_ns.max", 5e6),
            ("received_bytes", 3_417_000.0),
        ],
    ),
    (
        "weighttp.txt",
        "weighttp",
        fixture!("weighttp.txt"),
        &[
            ("rate_per_s", 28_471.0),
            ("duration_s", 3.512_201),
            ("requests", 100_000.0),
            ("failed.all", 0.0),
        ],
    ),
    (
        "weighttp.json",
        "weighttp",
        fixture!("weighttp.json"),
        &[
            ("rate_per_s", 85_205.5),
            ("latency_ns.p99", 1_204e3),
            ("latency_ns.mean", 745e3),
            ("connect_ns.max", 410e3),
        ],
    ),
    (
        "h2load.txt",
        "h2load",
        fixture!("h2load.txt"),
        &[
            ("rate_per_s", 25_770.10),
            ("latency_ns.mean", 369e3),
            ("latency_ns.max", 8.99e6),
            ("requests", 3_000.0),
            ("received_bytes", 3_360_000.0),
        ],
    ),
    (
        "oha.txt",
        "oha",
        fixture!("oha.txt"),
        &[
            ("rate_per_s", 8104.5414),
            ("latency_ns.p99.9", 10.1e6),
            ("status.200", 16_218.0),
            ("failed.errors", 10.0),
        ],
    ),
    (
        "oha.json",
        "oha",
        fixture!("oha.json"),
        &[
            ("rate_per_s", 8104.5414),
            ("latency_ns.p99", 4.3e6),
            ("status.200", 16_218.0),
        ],
    ),
    (
        "vegeta.txt",
        "vegeta",
        fixture!("vegeta.txt"),
        &[
            ("offered_per_s", 100.11),
            ("rate_per_s", 92.8),
            ("failed.status.0", 72.0),
            ("latency_ns.p95", 10.001e6),
            ("latency_ns.min", 406.5e3),
        ],
    ),
    (
        "vegeta.json",
        "vegeta",
        fixture!("vegeta.json"),
        &[
            ("offered_per_s", 100.11),
            ("latency_ns.p99", 100.2e6),
            ("status.200", 1_000.0),
        ],
    ),
    (
        "k6.txt",
        "k6",
        fixture!("k6.txt"),
        &[
            ("requests", 976.0),
            ("rate_per_s", 97.576_871),
            ("latency_ns.p95", 92.92e6),
            ("dropped", 24.0),
            ("vus_max", 188.0),
            ("failed_share", 0.0),
        ],
    ),
    (
        "k6.json",
        "k6",
        fixture!("k6.json"),
        &[
            ("latency_ns.p50", 87.1e3),
            ("dropped", 24.0),
            ("failed_share", 0.0),
        ],
    ),
    (
        "fortio.txt",
        "fortio",
        fixture!("fortio.txt"),
        &[
            ("rate_per_s", 999.89),
            ("latency_ns.p99", 1.8e6),
            ("latency_ns.mean", 1.09e6),
            ("status.200", 10_000.0),
        ],
    ),
    (
        "fortio.json",
        "fortio",
        fixture!("fortio.json"),
        &[
            ("rate_per_s", 999.89),
            ("offered_per_s", 1_000.0),
            ("latency_ns.max", 201.1e6),
        ],
    ),
    (
        "hey.txt",
        "hey",
        fixture!("hey.txt"),
        &[
            ("rate_per_s", 8111.5495),
            ("latency_ns.p99", 9.7e6),
            ("status.200", 3_000.0),
            ("latency_ns.max", 22.6e6),
        ],
    ),
    (
        "hey-refused.txt",
        "hey",
        fixture!("hey-refused.txt"),
        &[("failed.errors", 20.0)],
    ),
    (
        "bombardier.txt",
        "bombardier",
        fixture!("bombardier.txt"),
        &[
            ("rate_per_s", 76_606.21),
            ("connections", 64.0),
            ("latency_ns.p75", 0.98e6),
            ("status.2xx", 153_212.0),
        ],
    ),
    (
        "bombardier.json",
        "bombardier",
        fixture!("bombardier.json"),
        &[
            ("rate_per_s", 76_606.21),
            ("latency_ns.p99", 2.51e6),
            ("status.2xx", 153_212.0),
        ],
    ),
    (
        "dpdk-httpperf.txt",
        "dpdk-httpperf",
        fixture!("dpdk-httpperf.txt"),
        &[
            ("rate_per_s", 101_420.0),
            ("rate_per_s.max", 103_750.0),
            ("latency_ns.p99", 0.88e6),
            ("generator_cpu.user", 99.0),
            ("server_cpu.system", 2.0),
        ],
    ),
    (
        "hdr-spectrum.txt",
        "hdr",
        fixture!("hdr-spectrum.txt"),
        &[
            ("latency_ns.p99", 176.1e6),
            ("latency_ns.mean", 9.01e6),
            ("latency_ns.max", 200.3e6),
            ("requests", 10_000.0),
        ],
    ),
    (
        "strace.txt",
        "strace",
        fixture!("strace.txt"),
        &[("calls.openat", 34.0), ("calls.all", 145.0)],
    ),
    (
        "vmstat.txt",
        "vmstat",
        fixture!("vmstat.txt"),
        &[("cpu.system", 53.0), ("interrupts_per_s", 1_653.0)],
    ),
    (
        "mpstat.txt",
        "mpstat",
        fixture!("mpstat.txt"),
        &[("cpu.user", 13.44), ("cpu1.softirq", 3.68)],
    ),
    (
        "trex.txt",
        "trex",
        fixture!("trex.txt"),
        &[
            ("rate_per_s", 90_870.0),
            ("packets_per_s", 2.99e6),
            ("tx_per_s", 24.5e9),
            ("cpu.utilization", 69.7),
            ("active_flows", 57_634.0),
            ("duration_s", 19.0),
        ],
    ),
];

fn imported(
    format: Format,
    file: &str,
    text: &str,
    options: &Options,
) -> Result<Imported, ImportError> {
    let source = Source {
        file,
        bytes: text.as_bytes(),
    };
    import(format, &[source], options, &Making::default())
}

fn auto(text: &str) -> Result<Imported, ImportError> {
    imported(Format::Auto, "results.txt", text, &Options::default())
}

/// What an import of this text must give: a text of the repository is whole.
fn whole(file: &str, text: &str) -> Imported {
    let found = imported(Format::Auto, file, text, &Options::default());
    found.unwrap_or_else(|e| panic!("{file}: {e}"))
}

#[test]
fn every_format_gives_the_figures_that_it_printed_and_is_found_by_its_content() {
    for (file, name, text, figures) in CASES {
        let format = Format::named(name).unwrap();
        for format in [format, Format::Auto] {
            let found = imported(format, file, text, &Options::default());
            let found = found.unwrap_or_else(|e| panic!("{file} as {}: {e}", format.name()));
            let first = &found.results[0].reported;
            for (figure, value) in figures {
                let read = first.value(figure);
                let close = read.is_some_and(|r| (r - value).abs() <= 1e-9 * value.abs());
                assert!(
                    close,
                    "{file}: {figure} is {read:?} and not {value}: {first:#?}"
                );
            }
            assert_eq!(found.left_out, [], "{file}");
        }
    }
}

#[test]
fn a_wrong_format_is_answered_with_the_right_one() {
    for (file, name, text, _) in CASES {
        let wrong = if name == "ab" {
            Format::Wrk
        } else {
            Format::Ab
        };
        match imported(wrong, file, text, &Options::default()) {
            Err(e @ ImportError::OtherFormat { .. }) => {
                assert!(e.remedy().contains(name), "{file}: {}", e.remedy());
            }
            other => panic!("{file}: {other:?}"),
        }
    }
    let unknown = Format::named("wkr").unwrap_err();
    assert!(
        unknown.to_string().contains("did you mean `wrk"),
        "{unknown}"
    );
}

#[test]
fn what_is_no_result_is_named_with_its_cause() {
    let of = |bytes: &[u8]| {
        let source = Source { file: "f", bytes };
        import(
            Format::Auto,
            &[source],
            &Options::default(),
            &Making::default(),
        )
        .unwrap_err()
    };
    assert!(matches!(of(b" \n\n"), ImportError::Empty { .. }));
    assert!(matches!(
        of(b"wrk\0\x01"),
        ImportError::Binary { at: 3, byte: 0, .. }
    ));
    assert!(matches!(
        of(b"hello\nworld\n"),
        ImportError::Unknown { lines: 2, .. }
    ));
    let (cut, _) = fixture!("wrk.txt").split_once("Requests/sec").unwrap();
    match of(cut.as_bytes()) {
        ImportError::NotWhole { from: 1, why, .. } => assert!(why.contains("rate_per_s"), "{why}"),
        other => panic!("{other}"),
    }
    // A digit lost in the rate contradicts the count over the time.
    let wrong = fixture!("wrk.txt").replace("42708.68", "4270.68");
    match of(wrong.as_bytes()) {
        ImportError::NotWhole { why, .. } => assert!(why.contains("contradicts itself"), "{why}"),
        other => panic!("{other}"),
    }
    let json = &fixture!("vegeta.json")[..200];
    assert!(matches!(of(json.as_bytes()), ImportError::NotWhole { .. }));
}

#[test]
fn what_can_be_read_is_read_and_the_rest_is_left_out_by_its_lines() {
    let (cut, _) = fixture!("wrk.txt").split_once("Requests/sec").unwrap();
    let both = format!("{cut}\n{}", fixture!("ab.txt"));
    let found = auto(&both).unwrap();
    assert_eq!(found.results.len(), 1);
    assert_eq!(found.results[0].reported.tool, "ab");
    assert_eq!((found.left_out.len(), found.left_out[0].from), (1, 1));
}

/// A small generator: the test must be the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }
}

/// What pages, mails and editors do to a text, by name.
const MANGLINGS: [&str; 10] = [
    "indent",
    "nbsp",
    "dashes",
    "crlf",
    "quoted",
    "joined",
    "wrapped",
    "thousands",
    "around",
    "coloured",
];

fn mangled(how: &str, text: &str, random: &mut Random) -> String {
    let lines = || text.lines();
    match how {
        "indent" => lines().map(|l| format!("{}\n", l.trim())).collect(),
        "nbsp" => text.replace(' ', "\u{a0}"),
        "dashes" => text.replace('-', "–").replace('"', "”").replace("+/–", "±"),
        "crlf" => text.replace('\n', "\r\n"),
        "quoted" => lines().map(|l| format!("> {l}\n")).collect(),
        "joined" => lines().map(|l| format!("{} ", l.trim())).collect(),
        "wrapped" => {
            let mut out = String::new();
            for c in text.chars() {
                let wraps = c == ' ' && random.below(4) == 0;
                out.push(if wraps { '\n' } else { c });
            }
            out
        }
        "thousands" => with_thousands(text),
        "around" => format!(
            "$ date\nSome words before it, 12 of them.\n\n```\n{text}\n```\nAnd words behind.\n"
        ),
        _ => lines()
            .map(|l| format!("\u{1b}[1m{l}\u{1b}[0m\n"))
            .collect(),
    }
}

/// `47256` as `47,256`, where five digits or more stand alone.
fn with_thousands(text: &str) -> String {
    let mut out = String::new();
    for piece in text.split_inclusive([' ', '\n']) {
        let word = piece.trim_end();
        let count = word.len() >= 5 && word.bytes().all(|b| b.is_ascii_digit());
        let digits: Vec<char> = word.chars().collect();
        for (i, c) in digits.iter().enumerate() {
            if count && i > 0 && (digits.len() - i).is_multiple_of(3) {
                out.push(',');
            }
            out.push(*c);
        }
        out += &piece[word.len()..];
    }
    out
}

fn figures(reported: &Reported) -> Vec<(String, f64)> {
    reported
        .figures
        .iter()
        .map(|f| (f.name.clone(), f.value))
        .collect()
}

#[test]
fn a_page_may_mangle_every_result_and_changes_no_number() {
    let mut random = Random(7);
    for (file, _, text, _) in CASES {
        let clean = whole(file, text);
        for how in MANGLINGS {
            // A quotation mark in front of its lines makes JSON something else.
            if file.ends_with(".json") && how == "quoted" {
                continue;
            }
            let changed = mangled(how, text, &mut random);
            let found = auto(&changed).unwrap_or_else(|e| panic!("{file} {how}: {e}\n{changed}"));
            assert_eq!(
                found.results.len(),
                clean.results.len(),
                "{file} {how}\n{changed}"
            );
            for (a, b) in clean.results.iter().zip(&found.results) {
                assert_eq!(a.reported.tool, b.reported.tool, "{file} {how}");
                assert_eq!(
                    figures(&a.reported),
                    figures(&b.reported),
                    "{file} {how}\n{changed}"
                );
            }
        }
    }
}

#[test]
fn several_results_in_one_file_stay_apart() {
    for (file, _, text, _) in CASES {
        let once = whole(file, text);
        let twice = whole(file, &format!("{text}\nagain:\n{text}"));
        assert_eq!(twice.results.len(), 2 * once.results.len(), "{file}");
        for (i, result) in twice.results.iter().enumerate() {
            let same = &once.results[i % once.results.len()].reported;
            assert_eq!(figures(&result.reported), figures(same), "{file}");
        }
    }
}

#[test]
fn what_is_cut_off_gives_the_same_numbers_or_none() {
    let mut random = Random(3);
    for (file, _, text, _) in CASES {
        // Means over what is left of a series are other means.
        if ["vmstat.txt", "mpstat.txt"].contains(&file) {
            continue;
        }
        let clean = whole(file, text);
        // Every third word, from another one on in each text.
        let spaces: Vec<usize> = text
            .char_indices()
            .filter(|(_, c)| c.is_whitespace())
            .map(|(i, _)| i)
            .collect();
        let ends = spaces.into_iter().skip(random.below(3)).step_by(3);
        for end in ends {
            let Ok(found) = auto(&text[..end]) else {
                continue;
            };
            for (result, original) in found.results.iter().zip(&clean.results) {
                for figure in &result.reported.figures {
                    let same = original.reported.value(&figure.name);
                    // The frame of wrk2 is that of wrk until it says more; the largest total is ab's slowest request.
                    assert_eq!(
                        same,
                        Some(figure.value),
                        "{file} cut at {end}: {}",
                        figure.name
                    );
                }
            }
        }
    }
}

#[test]
fn any_damage_gives_numbers_or_an_error_and_never_a_panic() {
    let mut random = Random(11);
    let marks: Vec<char> = "09.,:%-+ \n\tkmsGB[]{}\"|#é\u{202f}".chars().collect();
    for (file, _, text, _) in CASES.into_iter().chain([
        (
            "study.md",
            "auto",
            fixture!("study.md"),
            &[] as &[(&str, f64)],
        ),
        ("sweep.txt", "auto", fixture!("sweep.txt"), &[]),
        ("tables.txt", "auto", fixture!("tables.txt"), &[]),
    ]) {
        let original: Vec<char> = text.chars().collect();
        for _ in 0..20 {
            let mut damaged = original.clone();
            for _ in 0..=random.below(6) {
                let at = random.below(damaged.len());
                match random.below(4) {
                    0 => damaged[at] = marks[random.below(marks.len())],
                    1 => damaged.insert(at, marks[random.below(marks.len())]),
                    2 => {
                        damaged.remove(at);
                    }
                    _ => damaged.truncate(at + 1),
                }
                if damaged.is_empty() {
                    break;
                }
            }
            let damaged: String = damaged.into_iter().collect();
            if let Ok(found) = auto(&damaged) {
                for figure in found.results.iter().flat_map(|r| &r.reported.figures) {
                    let sane =
                        figure.value.is_finite() && figure.value >= 0.0 && figure.rounding >= 0.0;
                    assert!(sane, "{file}: {figure:?}\n{damaged}");
                }
                analysis::analyse(&found.record).unwrap();
            }
        }
    }
}

fn tables(found: &Imported) -> Vec<analysis::imported::ReportedTable> {
    let plan: Plan = serde_json::from_value(found.record.plan.clone()).unwrap();
    reported_tables(&plan, &analysis::analyse(&found.record).unwrap())
}

#[test]
fn a_study_becomes_cases_named_by_its_words() {
    let options = Options {
        map: vec![("Search".into(), "Through the proxy".into())],
        factor: Some("path".into()),
        ..Options::default()
    };
    let found = imported(Format::Auto, "study.md", fixture!("study.md"), &options).unwrap();
    let cases: Vec<&str> = found
        .results
        .iter()
        .map(|r| r.levels["path"].as_str())
        .collect();
    assert_eq!(cases, ["Directly", "Through the proxy", "Larger buffers"]);
    // The figure in a sentence belongs to no result.
    assert_eq!(found.left_out.len(), 1);
    let proxied = &found.results[1].reported;
    assert_eq!(proxied.tool, "wrk + vmstat + strace -c + sizes of calls");
    assert_eq!(proxied.value("calls.readv"), Some(285_123.0));
    assert_eq!(proxied.value("typical_bytes.readv"), Some(4_096.0));
    assert_eq!(
        found.results[0].reported.command,
        "./wrk -c 200 -t 4 -d 1m --latency http://backend/page"
    );
    let table = &tables(&found)[0];
    assert_eq!(
        (table.factor.as_str(), table.columns[0].as_str()),
        ("path", "Directly")
    );
    let row = |name: &str| table.rows.iter().find(|r| r.head == [name]).unwrap();
    let gain = |name: &str, column: usize| row(name).cells[column].as_ref().unwrap().gain.unwrap();
    assert!((gain("rate_per_s", 1).value - (10_887.19 / 21_495.22 - 1.0)).abs() < 1e-12);
    let max = gain("latency_ns.max", 1);
    assert!(max.low < max.value && max.value < max.high && max.high - max.low > 0.01);
    // What nobody counted without the proxy is absent, and so is its gain.
    assert_eq!(row("calls.readv").cells[0], None);
    assert_eq!(row("calls.readv").cells[1].as_ref().unwrap().gain, None);
    // The record reads back, and its signature counts per request.
    let mut store = MemoryStore::default();
    found.record.save(&mut store).unwrap();
    let read = RunRecord::load(&store).unwrap();
    assert_eq!(read, found.record);
    let signature = read.trials[1]
        .examination
        .as_ref()
        .unwrap()
        .signature
        .as_ref()
        .unwrap();
    assert!(
        (28_400..28_600).contains(&signature.requests),
        "{}",
        signature.requests
    );
}

#[test]
fn both_sides_of_trex_stand_in_one_table_under_its_own_names() {
    let found = whole("trex.txt", fixture!("trex.txt"));
    let tables = tables(&found);
    let of = |stage: &str| tables.iter().find(|t| t.stage == stage).unwrap();
    let counters = of("counters");
    assert_eq!(counters.columns, ["client", "server"]);
    let row = |name: &str| {
        let row = counters
            .rows
            .iter()
            .find(|r| r.head.iter().any(|h| h == name))
            .unwrap();
        let cells = row.cells.iter().map(|c| c.as_ref().unwrap());
        cells
            .map(|c| (c.figure.value, c.figure.unit.as_str()))
            .collect::<Vec<_>>()
    };
    assert_eq!(row("tcps_connattempt"), [(512_253.0, "1"), (0.0, "1")]);
    assert_eq!(row("tcps_sndbyte")[1].0, 16_056_068_765.0);
    assert_eq!(
        row("m_tx_bw_l7_r"),
        [(75.80e6, "bit/s"), (21.57e9, "bit/s")]
    );
    assert_eq!(row("err_rx_throttled")[1].0, 42.0);
    assert_eq!(of("ports").columns, ["0", "1", "2", "3"]);
    let all = tables.iter().flat_map(|t| &t.rows).flat_map(|r| &r.cells);
    let gains = all.flatten().filter(|c| c.gain.is_some()).count();
    assert_eq!(gains, 0, "a server is no gain over a client");
}

#[test]
fn a_sweep_becomes_curves_with_its_range_even_on_one_line() {
    let joined: String = fixture!("sweep.txt")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for text in [fixture!("sweep.txt"), &joined] {
        let found = auto(text).unwrap();
        assert_eq!(found.results.len(), 6);
        let levels = &found.results[4].levels;
        assert_eq!(
            (levels["listeners"].as_str(), levels["clients"].as_str()),
            ("4", "20")
        );
        let analysis = analysis::analyse(&found.record).unwrap();
        let cell = &analysis.cells[4];
        let rate = cell.achieved_per_s.unwrap();
        assert_eq!(
            (rate.min, rate.median, rate.max),
            (39_760.0, 40_160.0, 40_510.0)
        );
        assert_eq!(found.record.trials[4].load.connections, 20);
        // One result a cell: what the tool reported has no pairs, and so no ratio with an interval.
        assert_eq!(
            (cell.rate_ratio, cell.no_ratio.as_deref()),
            (None, Some("1 pair of 3"))
        );
    }
}

#[test]
fn gains_of_a_table_are_computed_again_in_its_own_way() {
    let found = auto(fixture!("tables.txt")).unwrap();
    assert_eq!(found.notes.len(), 2);
    assert!(found.notes[0].contains("3 agree"), "{:?}", found.notes);
    assert!(
        found.notes[1].contains("first column / value - 1: 2 agree"),
        "{:?}",
        found.notes
    );
    let tables = tables(&found);
    assert_eq!(
        (tables[0].stage.as_str(), tables[1].stage.as_str()),
        ("Requests per second", "Latency (us)")
    );
    let gain = |table: usize, row: usize| {
        let cell = tables[table].rows[row].cells[1].as_ref().unwrap();
        cell.gain.unwrap().value
    };
    assert!((gain(0, 2) - (420_000.0 / 150_000.25 - 1.0)).abs() < 1e-12);
    assert!((gain(1, 0) - (3_100.0 / 2_070.0 - 1.0)).abs() < 1e-12);
    assert_eq!(found.results[6].reported.value("latency_ns"), Some(3.1e6));
}

#[test]
fn records_of_one_result_each_are_compared_whatever_their_levels() {
    let of = |select: u32| {
        let options = Options {
            select: vec![select],
            ..Options::default()
        };
        let found = imported(Format::Auto, "study.md", fixture!("study.md"), &options).unwrap();
        analysis::analyse(&found.record).unwrap()
    };
    let compared = compare_reported(&of(1), &of(2));
    assert_eq!(compared.len(), 1);
    assert_eq!(compared[0].columns, ["before", "after"]);
    let rate = compared[0]
        .rows
        .iter()
        .find(|r| r.head == ["rate_per_s"])
        .unwrap();
    let gain = rate.cells[1].as_ref().unwrap().gain.unwrap();
    assert!((gain.value - (10_887.19 / 21_495.22 - 1.0)).abs() < 1e-12);
}

#[test]
fn options_that_name_nothing_are_answered_with_what_there_is() {
    let with = |options: Options| {
        imported(Format::Auto, "study.md", fixture!("study.md"), &options).unwrap_err()
    };
    let map = with(Options {
        map: vec![("Directli".into(), "x".into())],
        ..Options::default()
    });
    assert!(
        map.remedy().contains("`Directly`"),
        "{map}: {}",
        map.remedy()
    );
    let baseline = with(Options {
        baseline: Some("y".into()),
        ..Options::default()
    });
    assert!(
        baseline.to_string().contains("Through the proxy"),
        "{baseline}"
    );
    let select = with(Options {
        select: vec![99],
        ..Options::default()
    });
    assert!(matches!(select, ImportError::NoSuch { .. }));
}

#[test]
fn connections_that_wrk_drops_are_not_counted() {
    let text = fixture!("wrk.txt").replace("2 threads and 20", "7 threads and 20");
    let found = auto(&text).unwrap();
    assert_eq!(found.results[0].reported.value("connections"), Some(14.0));
    assert!(
        found.record.trials[0]
            .warnings
            .iter()
            .any(|w| w.seen.contains("opened 14"))
    );
}

#[test]
fn an_hdr_log_is_decoded_and_merged() {
    let mut histogram = record::Histogram::new();
    for ms in 1..=100u64 {
        histogram.record(record::Nanos::from_millis(ms));
    }
    let line = |at: f64| format!("{at:.3},1.000,100.000,{}\n", histogram.to_base64());
    let text = format!(
        "#[Histogram log format version 1.2]\n\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n{}{}",
        line(0.0),
        line(1.0)
    );
    let found = auto(&text).unwrap();
    let reported = &found.results[0].reported;
    assert_eq!(reported.value("requests"), Some(200.0));
    assert_eq!(reported.value("rate_per_s"), Some(100.0));
    let p99 = reported.value("latency_ns.p99").unwrap();
    assert!((p99 / 99e6 - 1.0).abs() < 2e-3, "{p99}");
}
