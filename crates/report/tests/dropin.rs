//! The layouts of ab, wrk, wrk2 and weighttp, and the exports, read back by our own importers: the same figures as
//! in the document of the load.

mod common;

use import::{Format, Making, Options, Source, import};
use record::{Contents, Habits, LoadOutcome, LoadSpec, LoggedRequest, Nanos, Reported};
use report::dropin::{ab, weighttp, wrk};
use report::export::{self, WallTime};
use report::json::{LoadDocument, load_document};

struct Case {
    spec: LoadSpec,
    outcome: LoadOutcome,
    document: LoadDocument,
}

/// 120,000 responses of 7 ms in 10 s, with some of another length and status and some that failed.
fn case() -> Case {
    let mut spec = LoadSpec::new("http://127.0.0.1:8080/a?b");
    spec.connections = 64;
    spec.requests = Some(120_100);
    let mut outcome = common::outcome(120_000, Nanos(7_000_000), 0.5);
    outcome.requests.succeeded = 119_990;
    outcome.status = [(200, 119_990), (404, 10)].into();
    let failed = &mut outcome.requests.failed;
    failed.insert(record::FailureKind::Status4xx, 10);
    failed.insert(record::FailureKind::Reset, 60);
    failed.insert(record::FailureKind::Timeout, 40);
    outcome.contents = Some(Contents {
        body_bytes: 120_000 * 1_024,
        first_body_bytes: Some(1_024),
        other_length: 7,
        server: Some("nginx/1.22.1".to_owned()),
    });
    let verdict = analysis::judge_load(&outcome, &[], &spec, &[], 0.01);
    let document = load_document(&spec, &outcome, &verdict);
    Case {
        spec,
        outcome,
        document,
    }
}

fn read(format: &str, text: &str) -> Reported {
    let (_, format) = (Format::ALL.iter())
        .map(|(f, name)| (name, *f))
        .find(|(name, _)| **name == format)
        .expect("a format of the importers");
    let source = Source {
        file: "pasted",
        bytes: text.as_bytes(),
    };
    let imported = import(format, &[source], &Options::default(), &Making::default())
        .expect("our own layout is read");
    assert_eq!(imported.results.len(), 1, "{text}");
    imported.results[0].reported.clone()
}

/// Each figure within half of its last digit, as the importer knows it from the text.
fn check(reported: &Reported, expected: &[(&str, f64)]) {
    for (name, value) in expected {
        let figure = reported
            .figure(name)
            .unwrap_or_else(|| panic!("no {name}: {reported:?}"));
        let apart = (figure.value - value).abs();
        let slack = figure.rounding * 1.01 + value.abs() * 1e-9;
        assert!(
            apart <= slack,
            "{name}: {} for {value}, {slack}",
            figure.value
        );
    }
}

#[test]
fn abs_layout_is_read_back() {
    let Case {
        spec,
        outcome,
        document,
    } = case();
    let options = ab::Options {
        host: "127.0.0.1".to_owned(),
        port: 8080,
        path: "/a?b".to_owned(),
        ..ab::Options::default()
    };
    let text = ab::text(&spec, &outcome, &options);
    let response = document.latency_ns.response.unwrap();
    check(
        &read("ab", &text),
        &[
            ("connections", 64.0),
            ("duration_s", document.measured_s),
            ("requests", document.requests.completed as f64),
            ("rate_per_s", 12_000.0),
            ("received_bytes", document.bytes.received as f64),
            ("failed.receive", 100.0),
            ("failed.non_2xx", 10.0),
            ("length_differs", 7.0),
            ("latency_ns.p50", response.p50 as f64),
            ("latency_ns.p90", response.p90 as f64),
            ("latency_ns.p99", response.p99 as f64),
            ("latency_ns.max", response.max as f64),
            ("latency_ns.mean", response.mean),
        ],
    );
    assert!(text.contains("Server Software:        nginx/1.22.1\n"));
    assert!(text.contains("HTML transferred:       122880000 bytes\n"));
    let html = ab::text(
        &spec,
        &outcome,
        &ab::Options {
            html: Some(Default::default()),
            ..options
        },
    );
    assert!(html.contains("<th colspan=2 >Complete requests:</th><td colspan=2 >120000</td>"));
}

#[test]
fn wrks_layout_is_read_back() {
    let Case {
        spec,
        outcome,
        document,
    } = case();
    let options = wrk::Options {
        latency: true,
        ..wrk::Options::default()
    };
    let response = document.latency_ns.response.unwrap();
    let figures = [
        ("connections", 64.0),
        ("threads", 2.0),
        ("requests", document.requests.completed as f64),
        ("duration_s", document.measured_s),
        ("rate_per_s", 12_000.0),
        ("received_bytes", document.bytes.received as f64),
        ("failed.read", 60.0),
        ("failed.timeout", 40.0),
        ("failed.non_2xx", 10.0),
        ("latency_ns.mean", response.mean),
        ("latency_ns.stddev", response.stddev),
        ("latency_ns.max", response.max as f64),
        ("latency_ns.p50", response.p50 as f64),
        ("latency_ns.p99", response.p99 as f64),
    ];
    check(
        &read("wrk", &wrk::text(&spec, &outcome, 2, options)),
        &figures,
    );
    let options = wrk::Options {
        wrk2: true,
        uncorrected: true,
        ..options
    };
    let read = read("wrk2", &wrk::text(&spec, &outcome, 2, options));
    check(&read, &figures);
    check(
        &read,
        &[
            ("latency_ns.p99.9", response.p999 as f64),
            (
                "uncorrected_latency_ns.p50",
                document.latency_ns.service.unwrap().p50 as f64,
            ),
        ],
    );
    assert_eq!(read.tool, "wrk2");
}

#[test]
fn weighttps_layouts_are_read_back() {
    let Case {
        spec,
        outcome,
        document,
    } = case();
    let same = [
        ("requests", 120_100.0),
        ("duration_s", document.measured_s),
        ("rate_per_s", 12_000.0),
        ("received_bytes", document.bytes.received as f64),
    ];
    let text = read("weighttp", &weighttp::text(&spec, &outcome, 2));
    check(&text, &same);
    check(&text, &[("succeeded", 119_990.0), ("status.4xx", 10.0)]);
    let json = read("weighttp", &weighttp::json(&outcome, true));
    check(&json, &same[1..]);
    let response = document.latency_ns.response.unwrap();
    let us = |ns: u64| (ns as f64 / 1e3).round() * 1e3;
    check(
        &json,
        &[
            ("failed.errors", 100.0),
            ("latency_ns.p50", us(response.p50)),
            ("latency_ns.p99", us(response.p99)),
            ("latency_ns.max", us(response.max)),
        ],
    );
}

#[test]
fn abs_files_hold_every_per_cent_and_every_request() {
    let Case {
        outcome, document, ..
    } = case();
    let csv = ab::csv(&outcome);
    let p99 = document.latency_ns.response.unwrap().p99 as f64 / 1e6;
    assert_eq!(csv.lines().count(), 102);
    assert!(csv.contains(&format!("\n99,{p99:.3}\n")));
    let request = |sent: u64, done: u64, connect_ns| LoggedRequest {
        scheduled_at: Nanos(sent),
        sent_at: Nanos(sent),
        first_byte_at: Nanos(done - 1_000_000),
        done_at: Nanos(done),
        connect_ns,
        status: 200,
    };
    let log = [
        request(9_000_000, 18_000_000, 0),
        request(2_000_000, 5_000_000, 2_000_000),
    ];
    let date = |at: Nanos| (format!("at {}", at.0), 7);
    assert_eq!(
        ab::gnuplot(&log, &date),
        "starttime\tseconds\tctime\tdtime\tttime\twait\nat 0\t7\t2\t3\t5\t2\nat 9000000\t7\t0\t9\t9\t8\n"
    );
    assert!(Habits::default().is_none());
}

fn exported(format: export::Format) -> (Case, String) {
    let case = case();
    let at = WallTime {
        from: 1_700_000_000_000_000_000,
        to: 1_700_000_010_000_000_000,
    };
    let text = export::load(format, &case.document, &case.outcome, at);
    (case, text)
}

#[test]
fn an_hdr_log_and_a_spectrum_are_read_back() {
    let (case, text) = exported(export::Format::Hdr);
    let response = case.document.latency_ns.response.unwrap();
    let log = read("hdr", &text);
    let near = |name: &str, value: f64| {
        let found = log.value(name).unwrap();
        assert!(
            (found / value - 1.0).abs() < 1e-3,
            "{name}: {found} for {value}"
        );
    };
    near("latency_ns.p99", response.p99 as f64);
    near("latency_ns.max", response.max as f64);
    near("requests", case.outcome.response.count() as f64);
    near("duration_s", case.document.measured_s);
    assert!(text.contains("Tag=service,0.000,10.000,"));
    let (case, text) = exported(export::Format::Spectrum);
    let response = case.document.latency_ns.response.unwrap();
    check(
        &read("hdr", &text),
        &[
            ("latency_ns.mean", response.mean),
            ("latency_ns.max", response.max as f64),
            ("requests", case.outcome.response.count() as f64),
        ],
    );
}

#[test]
fn tables_and_metrics_hold_the_documents_figures() {
    let (case, csv) = exported(export::Format::Csv);
    let lines: Vec<Vec<&str>> = csv.lines().map(|l| l.split(',').collect()).collect();
    let column = |name: &str| {
        let at = lines[0].iter().position(|n| *n == name).unwrap();
        lines[1][at].to_owned()
    };
    assert_eq!(column("succeeded"), "119990");
    assert_eq!(column("offered_per_s"), "", "a closed loop offers no rate");
    let p99 = case.document.latency_ns.response.unwrap().p99;
    assert_eq!(column("response_ns_p99"), p99.to_string());
    let (_, series) = exported(export::Format::Series);
    let row = series.lines().nth(1).unwrap();
    assert!(
        row.starts_with("2.500000,3.000000,true,30010,30000,2,60000.000,"),
        "{row}"
    );
    let (_, text) = exported(export::Format::Prometheus);
    assert!(
        text.contains(
            "prony_requests{url=\"http://127.0.0.1:8080/a?b\",fate=\"succeeded\"} 119990\n"
        )
    );
    assert!(text.contains("prony_failed{url=\"http://127.0.0.1:8080/a?b\",kind=\"timeout\"} 40\n"));
    let quantile = format!("quantile=\"0.99\"}} {}\n", p99 as f64 / 1e9);
    assert!(text.contains(&quantile), "{text}");
    assert!(text.contains("prony_response_seconds_count{url="));
}

#[test]
fn otlp_buckets_hold_every_value() {
    let (case, text) = exported(export::Format::Otlp);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let metrics = &document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let find = |name: &str| {
        let all = metrics.as_array().unwrap();
        all.iter().find(|m| m["name"] == name).unwrap()
    };
    let point = &find("prony.response.duration")["exponentialHistogram"]["dataPoints"][0];
    let number = |v: &serde_json::Value| v.as_str().unwrap().parse::<u64>().unwrap();
    let counts = point["positive"]["bucketCounts"].as_array().unwrap();
    let total: u64 = counts.iter().map(number).sum();
    assert_eq!(total, case.outcome.response.count());
    assert_eq!(number(&point["count"]), total);
    // The bucket of the median holds it.
    let base = 2_f64.powf(2_f64.powi(-(point["scale"].as_i64().unwrap() as i32)));
    let mut below = 0;
    let at = counts.iter().position(|c| {
        below += number(c);
        below * 2 >= total
    });
    let index = at.unwrap() as i64 + point["positive"]["offset"].as_i64().unwrap();
    let p50 = case.document.latency_ns.response.unwrap().p50 as f64 / 1e9;
    assert!(base.powf(index as f64) < p50 * 1.001 && p50 <= base.powf(index as f64 + 1.0) * 1.001);
    assert_eq!(
        number(&find("prony.requests")["sum"]["dataPoints"][3]["asInt"]),
        119_990
    );
}
