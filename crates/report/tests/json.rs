//! The published schemas equal the types, and documents of real shape are valid against them.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;
mod diagnoses;

use analysis::{Aim, Found, RateSearch, SearchPlan};
use common::{golden, loads, run};
use import::{Format, Making, Options, Source, import};
use record::{Arrival, LoadSpec, Nanos};
use report::json::{
    DiagnoseDocument, LoadDocument, OnCopies, compare_document, compare_schema, diagnose_document,
    diagnose_schema, import_document, import_schema, load_document, load_schema, run_document,
    run_schema,
};
use serde_json::Value;
use std::collections::BTreeMap;

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a value has string keys") + "\n"
}

/// Every violation, so that one look at a failure tells all.
fn violations(schema: &Value, document: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).expect("our own schema is a schema");
    validator
        .iter_errors(document)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect()
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    golden("../../schema/load.schema.json", &pretty(&load_schema()));
    golden("../../schema/run.schema.json", &pretty(&run_schema()));
    golden(
        "../../schema/diagnose.schema.json",
        &pretty(&diagnose_schema()),
    );
    golden(
        "../../schema/compare.schema.json",
        &pretty(&compare_schema()),
    );
    golden(
        "../../schema/check.schema.json",
        &pretty(&report::check::schema()),
    );
    golden(
        "../../schema/lab.schema.json",
        &pretty(&report::lab::schema()),
    );
    golden(
        "../../schema/tune.schema.json",
        &pretty(&report::tune::schema()),
    );
    golden(
        "../../schema/gate.schema.json",
        &pretty(&report::gate::schema()),
    );
    golden("../../schema/import.schema.json", &pretty(&import_schema()));
    golden(
        "../../schema/import-workload.schema.json",
        &pretty(&report::workload::schema()),
    );
}

#[test]
fn a_comparison_is_valid_against_the_schema() {
    let change = analysis::CallChange {
        target: "server".into(),
        call: "readv".into(),
        class: record::FdClass::Upstream,
        before: 10.0,
        after: 1.0,
        mean_bytes_before: Some(9_000.0),
        mean_bytes_after: None,
    };
    let one = |median| analysis::Spread {
        median,
        min: 0.99 * median,
        max: 1.01 * median,
    };
    let figure = |figure: &str, unit: &str, before, after, judgement| analysis::FigureCompared {
        figure: figure.into(),
        unit: unit.into(),
        before: one(before),
        after: one(after),
        trials: (6, 6),
        ratio: analysis::Ratio {
            ratio: after / before,
            low: 0.99 * after / before,
            high: 1.01 * after / before,
            pairs: 6,
            coverage: 0.959,
            method: analysis::Method::Rank,
            p: Some(0.002),
            p_adjusted: Some(0.004),
            smallest_effect: Some(0.015),
        },
        judgement,
        regression: judgement == analysis::Judgement::Slower,
    };
    let comparison = analysis::Comparison {
        outcome: analysis::Outcome::Regression,
        why: "response_ns_p99 x1.250 (all) is worse".into(),
        comparisons: 2,
        cells: vec![analysis::CellCompared {
            stage: "diagnose".into(),
            figures: vec![
                figure(
                    "rate_per_s",
                    "1/s",
                    9_000.0,
                    9_000.0,
                    analysis::Judgement::NoDifference,
                ),
                figure(
                    "response_ns_p99",
                    "ns",
                    2e6,
                    2.5e6,
                    analysis::Judgement::Slower,
                ),
            ],
            cpu: vec![analysis::CpuCompared {
                owner: "server".into(),
                mode: "all".into(),
                before: Some(0.8),
                after: None,
            }],
            limits: ("server".into(), "offered_load".into()),
            counted: true,
            changes: vec![change],
            ..analysis::CellCompared::default()
        }],
        refused: vec![analysis::Refused {
            cell: "main c=1".into(),
            why: "another load: connections 1 and 2".into(),
        }],
        unmatched: vec!["other".into()],
        warnings: vec![record::Warning::new("other_host", "two hosts", "use one")],
        threshold: None,
    };
    let document = serde_json::to_value(compare_document(&comparison, Vec::new())).unwrap();
    assert_eq!(
        violations(&compare_schema(), &document),
        Vec::<String>::new()
    );
    assert_eq!(document["same"], serde_json::json!(false));
    let text = report::text::comparison_text(&comparison, report::text::Style::Plain);
    golden("tests/golden/compare.txt", &text);
}

/// A result of another tool in front of one that it failed at.
const FOREIGN: &str = "\
  4 threads and 200 connections
    Latency    51.10ms   94.69ms 864.53ms   86.61%
     50%   12.71ms
     99%  455.04ms
  1291946 requests in 1.00m, 112.23GB read
Requests/sec:  21495.22
Transfer/sec:      1.87GB
  4 threads and 200 connections
";

#[test]
fn an_import_is_valid_against_the_schema() {
    let source = Source {
        file: "wrk.txt",
        bytes: FOREIGN.as_bytes(),
    };
    let (options, making) = (Options::default(), Making::default());
    let imported = import(Format::Auto, &[source], &options, &making).unwrap();
    let analysis = analysis::analyse(&imported.record).unwrap();
    let document = import_document(&imported, &analysis, "results/wrk");
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(violations(&import_schema(), &json), Vec::<String>::new());
    assert_eq!(json["results"][0]["reported"]["tool"], "wrk");
    assert_eq!(json["left_out"][0]["from"], 8);
    let text = report::text::import_text(&document, report::text::Style::Plain);
    for part in [
        "rate_per_s",
        "21,495.22",
        "455.04ms",
        "lines 8 to 8 left out",
        "wrk.txt:1-7",
    ] {
        let part = part.replace("lines 8 to 8", "line 8");
        assert!(text.contains(&part), "{part}: {text}");
    }
    // The page of such a record shows what was reported, and no column of ours.
    let run = report::text::run_text(&imported.record, &analysis, report::text::Style::Plain);
    assert!(
        run.contains("reported by wrk") && !run.contains("CPU/req"),
        "{run}"
    );
    let page = report::html::page(
        &imported.record,
        &analysis,
        &std::collections::BTreeMap::new(),
    );
    assert!(page.contains("Reported by wrk"));
    let nothing = std::collections::BTreeMap::new();
    let run = report::json::run_document(&imported.record, &analysis, "", &nothing);
    let markdown = report::markdown::run_markdown(&imported.record, &run, "");
    assert!(
        markdown.contains("| rate\\_per\\_s | 21,495.22 |"),
        "{markdown}"
    );
    let rows = report::csv::csv(&[report::csv::Run {
        name: "wrk",
        record: &imported.record,
        analysis: &analysis,
    }]);
    assert!(
        rows.contains("reported by wrk,rate_per_s,21495.22,1/s"),
        "{rows}"
    );
    assert!(page.contains("21,495.22"));
}

/// A sweep that tells rates and no latency has knees without one: not known, and no zero.
#[test]
fn what_another_tool_did_not_say_is_no_zero() {
    let source = Source {
        file: "sweep.txt",
        bytes: include_bytes!("../../import/tests/tools/sweep.txt"),
    };
    let (options, making) = (Options::default(), Making::default());
    let imported = import(Format::Auto, &[source], &options, &making).unwrap();
    let analysis = analysis::analyse(&imported.record).unwrap();
    assert!(!analysis.knees.is_empty());
    let nothing = std::collections::BTreeMap::new();
    let document = report::json::run_document(&imported.record, &analysis, "", &nothing);
    let page = report::html::page(&imported.record, &analysis, &nothing);
    let texts = [
        report::text::run_text(&imported.record, &analysis, report::text::Style::Plain),
        report::markdown::run_markdown(&imported.record, &document, ""),
        page,
    ];
    for text in texts {
        assert!(
            !text.contains("p99 0") && !text.contains("no valid trial"),
            "{text}"
        );
    }
    assert!(document.conclusion.iter().all(|s| !s.text.contains("p99")));
}

#[test]
fn a_workload_made_of_requests_is_valid_against_the_schema() {
    let options = import::WorkloadOptions::default();
    let command = b"curl -u ada:pw -k http://127.0.0.1/a";
    let made = import::convert(import::WorkloadFormat::Curl, "c", command, &options).unwrap();
    for file in [None, Some("c.toml")] {
        let document = report::workload::document(&made, file);
        let json = serde_json::to_value(&document).unwrap();
        let schema = report::workload::schema();
        assert_eq!(violations(&schema, &json), Vec::<String>::new());
        assert_eq!(json["server"], "http://127.0.0.1");
        assert_eq!(json["notes"].as_array().map(Vec::len), Some(2));
        assert_eq!(json.get("file").and_then(Value::as_str), file);
    }
}

#[test]
fn loads_are_valid_against_the_schema() {
    for load in loads() {
        let document = load_document(&load.spec, &load.outcome, &load.verdict());
        let json = serde_json::to_value(&document).unwrap();
        assert_eq!(
            violations(&load_schema(), &json),
            Vec::<String>::new(),
            "{}",
            load.name
        );
        assert_eq!(
            serde_json::from_value::<report::json::LoadDocument>(json).unwrap(),
            document
        );
    }
}

/// A search whose second step had a p99 above its level and whose third the generator limited.
fn searched() -> (LoadDocument, RateSearch) {
    let aim = Aim {
        slo: "p99<5ms".parse().ok(),
        knee: false,
    };
    let times = (Nanos::from_secs(2), Nanos::from_secs(10));
    let plan = SearchPlan::new(&aim, 10, Some(500.0), times, None).unwrap();
    let mut search = RateSearch::new(plan, None);
    let mut document = None;
    for (per_s, service, generator) in [(500, 1, 0.3), (1_000, 9, 0.3), (2_000, 1, 0.97)] {
        let outcome = common::outcome(per_s * 10, Nanos::from_millis(service), generator);
        let arrival = Arrival::Constant {
            per_s: per_s as f64,
        };
        let spec = LoadSpec {
            arrival,
            ..common::spec()
        };
        let verdict = analysis::judge_load(&outcome, &[], &spec, &[], 0.01);
        search.add(&aim, per_s as f64, &outcome, &verdict);
        document.get_or_insert_with(|| load_document(&spec, &outcome, &verdict));
    }
    let document = LoadDocument {
        search: Some(search.clone()),
        ..document.unwrap()
    };
    (document, search)
}

#[test]
fn a_search_is_valid_against_the_schema_and_reads_as_a_page() {
    let (document, search) = searched();
    assert_eq!(search.found, Found::Between, "{search:?}");
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(violations(&load_schema(), &json), Vec::<String>::new());
    assert_eq!(json["search"]["steps"][1]["held"], false);
    assert_eq!(json["search"]["highest_held_per_s"], 500.0);
    let page = report::html::load_page(&document);
    let marks = |class: &str| page.matches(&format!("<circle class=\"{class}\"")).count();
    assert_eq!((marks("held"), marks("failed"), marks("silent")), (1, 1, 1));
    assert!(page.contains("<rect class=\"edge\"") && page.contains(">limit of the generator<"));
    assert!(page.contains("p99&lt;5.00ms holds up to"), "{page}");
    assert!(!page.contains("<script") && !page.contains("http-equiv=\"refresh"));
    // Without a search it is the load alone, with a verdict that says why.
    for load in loads() {
        let page =
            report::html::load_page(&load_document(&load.spec, &load.outcome, &load.verdict()));
        assert!(!page.contains("class=\"steps\"") && page.contains("<h2>Result</h2>"));
        assert_eq!(
            page.contains("badge valid"),
            load.verdict().valid,
            "{}",
            load.name
        );
    }
}

#[test]
fn a_document_of_another_shape_is_not_valid() {
    let load = &loads()[0];
    let document = load_document(&load.spec, &load.outcome, &load.verdict());
    let mut json = serde_json::to_value(document).unwrap();
    json["rate_per_s"]["achieved"] = "fast".into();
    json.as_object_mut().unwrap().remove("verdict");
    assert_eq!(violations(&load_schema(), &json).len(), 2);
}

/// The names of DESIGN that scripts may rely on.
#[test]
fn the_names_that_scripts_rely_on() {
    let open = &loads()[3];
    let document = load_document(&open.spec, &open.outcome, &open.verdict());
    let json = serde_json::to_value(document).unwrap();
    for path in [
        "/verdict/valid",
        "/verdict/limit",
        "/verdict/why",
        "/requests/scheduled",
        "/requests/sent",
        "/requests/completed",
        "/requests/succeeded",
        "/requests/late",
        "/requests/dropped",
        "/requests/failed/status5xx",
        "/status/200",
        "/rate_per_s/offered",
        "/rate_per_s/achieved",
        "/bytes/received",
        "/bytes/sent",
        "/latency_ns/response/p9999",
        "/latency_ns/response/stddev",
        "/latency_ns/service/p50",
        "/latency_ns/connect/p50",
        "/latency_ns/first_byte/p50",
        "/connections/asked",
        "/connections/opened",
        "/connections/peak_open",
        "/generator/threads",
        "/generator/cpu_user_s",
        "/generator/cpu_system_s",
        "/generator/utilization",
        "/generator/syscalls_per_request",
        "/generator/peak_rss_bytes",
        "/generator/schedule_lag_ns/p50",
        "/generator/schedule_lag_ns/p99",
        "/generator/schedule_lag_ns/max",
        "/histogram",
    ] {
        let found = json.pointer(path);
        assert!(found.is_some_and(|v| !v.is_null()), "{path}: {found:?}");
    }
    assert_eq!(json["verdict"]["limit"], "offered_load");
}

#[test]
fn what_was_not_measured_is_null() {
    let refused = &loads()[2];
    let document = load_document(&refused.spec, &refused.outcome, &refused.verdict());
    let json = serde_json::to_value(document).unwrap();
    for path in [
        "/rate_per_s/offered",
        "/rate_per_s/achieved",
        "/latency_ns/response",
        "/latency_ns/service",
        "/latency_ns/connect",
        "/generator/syscalls_per_request",
        "/generator/schedule_lag_ns",
    ] {
        assert_eq!(json.pointer(path), Some(&Value::Null), "{path}");
    }
    assert_eq!(
        json["requests"]["failed"],
        serde_json::json!({ "connect_refused": 64 })
    );
}

#[test]
fn the_histogram_can_be_merged() {
    let load = &loads()[0];
    let document = load_document(&load.spec, &load.outcome, &load.verdict());
    let read = record::Histogram::from_base64(&document.histogram).unwrap();
    assert_eq!(read.count(), load.outcome.response.count());
    assert_eq!(
        read.quantile(0.99).unwrap().0,
        document.latency_ns.response.unwrap().p99
    );
}

#[test]
fn a_run_is_valid_against_the_schema() {
    let record = run();
    let analysis = analysis::analyse(&record).unwrap();
    let document = run_document(&record, &analysis, "out/run", &BTreeMap::new());
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(violations(&run_schema(), &json), Vec::<String>::new());
    assert_eq!(
        json["trials"].as_array().unwrap().len(),
        record.trials.len()
    );
    assert_eq!(json["comparisons"].as_array().unwrap().len(), 8);
    assert!(json["capacity_per_s"].as_f64().unwrap() > 50_000.0);
    assert_eq!(json["record"], "out/run");
    let off = &json["comparisons"].as_array().unwrap()[4];
    assert!(off["rate_ratio"]["ratio"].as_f64().unwrap() < 1.0, "{off}");
}

#[test]
fn diagnoses_are_valid_against_the_schema() {
    let load = &loads()[0];
    let verdict = load.verdict();
    let ours = Some((&load.spec, &load.outcome, &verdict));
    let examination = diagnoses::examination();
    for (load, examination, diagnosis) in [
        (ours, Some(&examination), diagnoses::healthy()),
        (ours, Some(&examination), diagnoses::one_cause()),
        (ours, Some(&examination), diagnoses::many_causes()),
        (None, None, diagnoses::nothing_visible()),
    ] {
        let document = diagnose_document(load, examination, &diagnosis, OnCopies::default());
        let json = serde_json::to_value(&document).unwrap();
        assert_eq!(violations(&diagnose_schema(), &json), Vec::<String>::new());
        assert_eq!(
            serde_json::from_value::<DiagnoseDocument>(json).unwrap(),
            document
        );
    }
    let mut json = serde_json::to_value(diagnose_document(
        None,
        None,
        &diagnoses::one_cause(),
        OnCopies::default(),
    ))
    .unwrap();
    json["diagnosis"][0]["confidence"] = "high".into();
    assert_eq!(violations(&diagnose_schema(), &json).len(), 1);
}

/// What a watch and an earlier record say stands in both documents under the same names.
#[test]
fn a_watch_is_valid_against_the_schemas() {
    let mut record = run();
    let diagnoses = diagnoses::watched(&mut record, "p99>50ms");
    let analysis = analysis::analyse(&record).unwrap();
    let run = diagnoses::watched_document(&record, &analysis, &diagnoses);
    let mut one = diagnose_document(
        None,
        record.trials[0].examination.as_ref(),
        &diagnoses[&record.trials[0].id],
        OnCopies::default(),
    );
    one.watched = run.watched.clone();
    one.against = run.against.clone();
    let of_run = serde_json::to_value(&run).unwrap();
    let of_one = serde_json::to_value(&one).unwrap();
    assert_eq!(violations(&run_schema(), &of_run), Vec::<String>::new());
    assert_eq!(
        violations(&diagnose_schema(), &of_one),
        Vec::<String>::new()
    );
    for json in [of_run, of_one.clone()] {
        for (path, want) in [
            ("/watched/overhead/budget", Some(0.01)),
            ("/watched/overhead/share", Some(0.0083)),
            ("/watched/slow_seconds/seconds", Some(30.0)),
            ("/watched/slow_seconds/slow", Some(4.0)),
            ("/watched/slow_seconds/probed", Some(3.0)),
            ("/watched/slow_seconds/timeline/29/at_s", Some(29.0)),
            ("/watched/slow_seconds/listed/3/at_s", Some(27.0)),
            (
                "/watched/slow_seconds/listed/3/values/io_pressure",
                Some(0.82),
            ),
            ("/watched/slow_seconds/differs/0/interval/0", None),
            ("/watched/slow_seconds/rows/0/row", None),
            ("/watched/slow_seconds/not_visible/0/reason", None),
            ("/against/record", None),
            ("/against/rows/0/differs", None),
            ("/against/versions/0/build_id_after", None),
            ("/against/not_visible/0/reason", None),
        ] {
            let found = json.pointer(path);
            assert!(found.is_some_and(|v| !v.is_null()), "{path}: {found:?}");
            assert!(
                want.is_none_or(|want| found.unwrap().as_f64() == Some(want)),
                "{path}: {found:?}"
            );
        }
    }
    assert_eq!(
        serde_json::from_value::<DiagnoseDocument>(of_one).unwrap(),
        one
    );
}

/// The names of DESIGN that scripts may rely on, those of the load among them.
#[test]
fn the_names_of_a_diagnosis() {
    let load = &loads()[0];
    let verdict = load.verdict();
    let document = diagnose_document(
        Some((&load.spec, &load.outcome, &verdict)),
        Some(&diagnoses::examination()),
        &diagnoses::many_causes(),
        OnCopies::default(),
    );
    let json = serde_json::to_value(document).unwrap();
    for path in [
        "/format",
        "/verdict/limit",
        "/rate_per_s/achieved",
        "/diagnosis/0/cause",
        "/diagnosis/0/confidence",
        "/diagnosis/0/evidence/0/signal",
        "/diagnosis/0/evidence/0/value",
        "/diagnosis/0/evidence/0/unit",
        "/diagnosis/0/evidence/0/threshold",
        "/diagnosis/0/evidence/0/source",
        "/diagnosis/0/remedy",
        "/diagnosis/0/proof/evidence/0/interval",
        "/diagnosis/0/changes/0/place",
        "/diagnosis/0/gain_bound",
        "/ruled_out/0/why",
        "/unseen/0/signals",
        "/station/name",
        "/unexplained",
        "/facts/0/name",
        "/tier",
    ] {
        let found = json.pointer(path);
        assert!(found.is_some_and(|v| !v.is_null()), "{path}: {found:?}");
    }
    let calls = json["signature"]["targets"][0]["calls"].as_array().unwrap();
    let per_request = |call: &str, class: &str| {
        let mut rows = calls.iter();
        let row = rows
            .find(|r| r["call"] == call && r["class"] == class)
            .unwrap();
        row["per_request"].as_f64().unwrap()
    };
    assert_eq!(per_request("readv", "upstream"), 10.0);
    assert_eq!(per_request("writev", "client"), 12.0);
    assert_eq!(json["signature"]["targets"][2]["calls"], Value::Null);
}

#[test]
fn a_run_carries_the_diagnoses_of_its_cells() {
    let mut record = run();
    let analysis = analysis::analyse(&record).unwrap();
    let slow = analysis.cells[0].valid[0];
    let best = analysis.cells[1].valid[0];
    for trial in &mut record.trials {
        if trial.id == slow {
            trial.examination = Some(diagnoses::examination());
        }
    }
    let diagnoses = BTreeMap::from([(slow, diagnoses::one_cause()), (best, diagnoses::healthy())]);
    let document = run_document(&record, &analysis, "out/run", &diagnoses);
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(violations(&run_schema(), &json), Vec::<String>::new());
    assert_eq!(json["diagnosis"][0]["cause"], "none");
    assert_eq!(json["diagnosed"].as_array().unwrap().len(), 2);
    assert_eq!(
        json["diagnosed"][0]["diagnosis"][0]["cause"],
        "small_proxy_buffers"
    );
    assert_eq!(json["diagnosed"][0]["signature"]["requests"], 3_000);
    assert_eq!(json["diagnosed"][1]["signature"], Value::Null);
}

/// Zeros in a document of a run that nothing can have measured: in a trial without a load of ours, and in a cell that
/// is not measured, no figure may be 0. What another tool printed is that tool's.
fn unmeasured_zeros(document: &Value) -> Vec<String> {
    const NO_FIGURES: [&str; 11] = [
        "id",
        "block",
        "levels",
        "reported",
        "replaced_by",
        "planned",
        "trials",
        "valid",
        "replaced",
        "stage",
        "threshold",
    ];
    fn zeros(at: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Number(n) if n.as_f64() == Some(0.0) => found.push(at.to_owned()),
            Value::Object(fields) => {
                for (name, value) in fields
                    .iter()
                    .filter(|(n, _)| !NO_FIGURES.contains(&n.as_str()))
                {
                    zeros(&format!("{at}/{name}"), value, found);
                }
            }
            Value::Array(items) => {
                for (i, value) in items.iter().enumerate() {
                    zeros(&format!("{at}/{i}"), value, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for (i, trial) in document["trials"].as_array().unwrap().iter().enumerate() {
        if trial["response_ns"].is_null() {
            let mut trial = trial.clone();
            // What is evidence of an imported trial was printed, as its error share where it was.
            if let Ok(reported) =
                serde_json::from_value::<record::Reported>(trial["reported"].clone())
            {
                trial["verdict"]["evidence"] = Value::Null;
                if reported.error_share() == Some(0.0) {
                    trial["error_share"] = Value::Null;
                }
            }
            zeros(&format!("/trials/{i}"), &trial, &mut found);
        }
    }
    for (i, cell) in document["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        if !cell["not_measured"].is_null() {
            let mut cell = cell.clone();
            // That of a trial, where it is looked at.
            cell["verdict"] = Value::Null;
            zeros(&format!("/comparisons/{i}"), &cell, &mut found);
        }
    }
    found
}

/// The documents of a run with a trial that failed, and of everything that other tools printed in this repository.
fn documents() -> Vec<(String, Value)> {
    let document = |record: &record::RunRecord| {
        let analysis = analysis::analyse(record).unwrap();
        serde_json::to_value(run_document(record, &analysis, "", &BTreeMap::new())).unwrap()
    };
    let mut all = vec![("run".to_owned(), document(&run()))];
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/tools");
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        let (file, bytes) = (path.display().to_string(), std::fs::read(&path).unwrap());
        let source = Source {
            file: &file,
            bytes: &bytes,
        };
        let (options, making) = (Options::default(), Making::default());
        if let Ok(imported) = import(Format::Auto, &[source], &options, &making) {
            all.push((file.clone(), document(&imported.record)));
        }
    }
    all
}

/// A failed or imported trial once had a generator at 0 % and no errors.
#[test]
fn no_zero_stands_for_what_was_not_measured() {
    let documents = documents();
    let unloaded = |d: &Value| {
        let trials = d["trials"].as_array().unwrap();
        trials.iter().filter(|t| t["response_ns"].is_null()).count()
    };
    assert!(unloaded(&documents[0].1) > 0 && documents.len() > 10);
    for (name, document) in &documents {
        assert_eq!(unmeasured_zeros(document), Vec::<String>::new(), "{name}");
    }
    // The check finds what it is for.
    let mut wrong = documents[0].1.clone();
    let trials = wrong["trials"].as_array().unwrap();
    let failed = trials
        .iter()
        .position(|t| t["response_ns"].is_null())
        .unwrap();
    wrong["trials"][failed]["generator_utilization"] = 0.0.into();
    wrong["trials"][failed]["verdict"]["evidence"] =
        serde_json::json!([{"signal": "requests", "value": 0, "unit": "1", "source": "x"}]);
    assert_eq!(
        unmeasured_zeros(&wrong).len(),
        2,
        "{:?}",
        unmeasured_zeros(&wrong)
    );
    let mut silent = documents[0].1.clone();
    silent["comparisons"][0]["not_measured"] = "none of 3 trials is valid".into();
    silent["comparisons"][0]["achieved_per_s"] =
        serde_json::json!({"median": 0.0, "min": 0.0, "max": 0.0});
    assert!(!unmeasured_zeros(&silent).is_empty());
}
