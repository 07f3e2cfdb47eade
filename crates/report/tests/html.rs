//! The page's structure and numbers, without a browser.

mod diagnoses;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod reading;

use reading::{
    assert_numbers_are_of, assert_numbers_are_the_records, assert_origins_exist,
    assert_origins_exist_in, attributes, untraced,
};
use report::html::page;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

#[test]
fn every_number_is_the_records() {
    let (record, analysis) = fixture::run();
    let html = page(&record, &analysis, &BTreeMap::new());
    let numbers = assert_numbers_are_the_records(&html, &record, &analysis, &BTreeMap::new());
    assert!(numbers > 1_000, "only {numbers} numbers");
}

/// Whatever has a digit says where it is from, and the place exists.
#[test]
fn every_number_is_traced_to_a_file_of_the_record() {
    let (mut record, analysis) = fixture::run();
    let diagnoses = diagnoses::examined(&mut record);
    for diagnoses in [&BTreeMap::new(), &diagnoses] {
        let html = page(&record, &analysis, diagnoses);
        assert_eq!(untraced(&html), Vec::<String>::new());
        assert_origins_exist(&html, &record, &analysis, diagnoses);
    }
    // The check sees what it is made for.
    let bare = "<html><body data-from=\"x\"><p>17 of them</p><p data-own>18</p></body></html>";
    assert_eq!(untraced(bare), ["17 of them"]);
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    let (record, analysis) = fixture::run();
    let html = page(&record, &analysis, &BTreeMap::new());
    assert!(html.contains("default-src 'none'"));
    for name in ["src", "href", "action", "srcset", "poster"] {
        for target in attributes(&html, name) {
            assert!(target.starts_with('#'), "{name}={target}");
        }
    }
    for load in [
        "@import",
        "url(",
        "<link",
        "<img",
        "<iframe",
        "fetch(",
        "XMLHttpRequest",
        "import(",
    ] {
        assert!(!html.contains(load), "{load}");
    }
}

#[test]
fn text_of_the_record_cannot_become_markup() {
    let (mut record, mut analysis) = fixture::run();
    let evil = "</script><script>alert(1)</script><b>\"'&";
    record.manifest.question = evil.into();
    record.manifest.command = vec![evil.into()];
    record.trials[0].levels.insert("path".into(), evil.into());
    record.trials[0].stage = evil.into();
    analysis.cells[0].stage = evil.into();
    analysis.cells[0].levels.insert("path".into(), evil.into());
    analysis.verdict.why = evil.into();
    let html = page(&record, &analysis, &BTreeMap::new());
    assert!(!html.contains("<script>alert"));
    // The three scripts and the data block end, and nothing else ends a script.
    assert_eq!(html.matches("</script").count(), 3);
    assert_eq!(html.matches("<script").count(), 3);
}

#[test]
fn every_part_is_there() {
    let (record, analysis) = fixture::run();
    let html = page(&record, &analysis, &BTreeMap::new());
    for want in [
        "Why does nginx &lt;halve&gt; the backend&#39;s throughput?",
        "the rate changes by",
        "server: worker",
        "nginx worker 4711 was busy",
        "thread.utilization{name=nginx,pid=4711}",
        "Baseline: path=direct",
        "Rate against connections",
        "Rate against offered load",
        "Address already in use",
        "free the port, or give <code>listen</code> port 0",
        "No request failed.",
        "502 Bad Gateway",
        "listen_overflow",
        "Permission denied (os error 13)",
        "not known: no cpufreq in ",
        "prony run &#39;experiments",
        "drawn from the seed <span data-value=\"42\"",
        "at most 0.1 % of its requests failed",
        "<noscript>",
    ] {
        assert!(html.contains(want), "missing: {want}");
    }
    // Figures of a failed trial are gaps, never zeros.
    let row = html
        .split("<tr data-row=\"5\"")
        .nth(1)
        .unwrap()
        .split("</tr>")
        .next()
        .unwrap();
    assert!(row.contains("not valid") && row.contains("failed"));
    assert_eq!(row.matches(">–<").count(), 6, "{row}");
}

#[test]
fn plots_carry_the_analysis_numbers() {
    let (record, analysis) = fixture::run();
    let html = page(&record, &analysis, &BTreeMap::new());
    let json = html
        .split("id=\"data\">")
        .nth(1)
        .unwrap()
        .split("</script>")
        .next()
        .unwrap();
    let data: Value = serde_json::from_str(json).unwrap();
    let curves = data["curves"].as_array().unwrap();
    assert_eq!(
        curves.len(),
        2,
        "the stage without a varied load has no curve"
    );
    assert_eq!(curves[0]["axis"], "connections");
    assert_eq!(curves[0]["lines"][0]["knee_at"], 50.0);
    assert_eq!(curves[0]["lines"][1]["knee_at"], Value::Null);
    assert_eq!(curves[1]["axis"], "offered_per_s");
    let direct = &curves[0]["lines"][0];
    assert_eq!(direct["name"], "path=direct");
    assert_eq!(
        direct["load"],
        serde_json::json!([10.0, 50.0, 100.0, 250.0])
    );
    assert_eq!(
        direct["rate"][0],
        serde_json::to_value(analysis.cells[0].achieved_per_s).unwrap()
    );
    // The percentile plot passes through the summary's p50 and p99.
    let quantiles = data["spectra"]["quantiles"].as_array().unwrap();
    let trial = data["spectra"]["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|i| i["trial"] == 0)
        .unwrap();
    let summary = analysis.trials[0].response_ns.unwrap();
    for (q, want) in [
        (0.5, summary.p50),
        (0.99, summary.p99),
        (0.999, summary.p999),
    ] {
        let i = quantiles
            .iter()
            .position(|x| (x.as_f64().unwrap() - q).abs() < 1e-9)
            .unwrap();
        assert_eq!(trial["response"][i], want, "{q}");
    }
    // The failed trial has no series.
    assert_eq!(
        data["trials"].as_array().unwrap().len(),
        record.trials.len() - 1
    );
}

#[test]
fn a_large_run_stays_below_a_megabyte() {
    let (record, analysis) = fixture::large_run();
    let html = page(&record, &analysis, &BTreeMap::new());
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
}

#[test]
fn a_run_that_measured_nothing_still_has_a_page() {
    let (mut record, mut analysis) = fixture::run();
    record.trials.clear();
    record.environment.clear();
    record.plan = Value::Null;
    record.experiment.clear();
    record.manifest.ended = None;
    record.manifest.interrupted = true;
    analysis.cells.clear();
    analysis.trials.clear();
    analysis.knees.clear();
    analysis.warnings.clear();
    analysis.capacity_per_s = None;
    analysis.verdict.valid = false;
    analysis.verdict.evidence.clear();
    let html = page(&record, &analysis, &BTreeMap::new());
    assert!(html.contains("not valid"));
    assert!(html.contains("interrupted: partial results"));
    assert!(html.contains("prony started no target in this run."));
    assert!(!html.contains("NaN") && !html.contains("none</"));
}

#[test]
fn the_charting_library_is_the_published_one() {
    let readme = include_str!("../assets/uplot/README.md");
    let published: [(&str, &[u8]); 2] = [
        (
            "uPlot.iife.min.js",
            include_bytes!("../assets/uplot/uPlot.iife.min.js"),
        ),
        (
            "uPlot.min.css",
            include_bytes!("../assets/uplot/uPlot.min.css"),
        ),
    ];
    for (name, bytes) in published {
        let sum: String = Sha256::digest(bytes)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert!(
            readme.contains(&format!("| `{name}` | `{sum}` |")),
            "{name} is {sum}"
        );
    }
    assert!(page_has_version(readme));
}

/// The version that the README states is the one in the file's first line.
fn page_has_version(readme: &str) -> bool {
    let script = include_str!("../assets/uplot/uPlot.iife.min.js");
    let version = script
        .split("(v")
        .nth(1)
        .and_then(|rest| rest.split(')').next());
    version.is_some_and(|v| readme.contains(&format!("`uplot` {v}")))
}

#[test]
fn a_diagnosis_is_on_the_page() {
    let (mut record, analysis) = fixture::run();
    let diagnoses = diagnoses::examined(&mut record);
    let html = page(&record, &analysis, &diagnoses);
    let numbers = assert_numbers_are_the_records(&html, &record, &analysis, &diagnoses);
    assert!(numbers > 1_150, "only {numbers} numbers");
    for want in [
        "What limits it",
        "<code>small_proxy_buffers</code>",
        "<del>- proxy_buffers 8 4k;</del>",
        "<ins>+ proxy_buffers 4 128k;</ins>",
        "/etc/nginx/nginx.conf:31 (http)",
        "71 % is below ngx_event_pipe &lt; ngx_http_upstream_process_upstream",
        "true, but not worth changing",
        "Proof: proved.",
        "class=\"interval\"",
        "class=\"bar-at\"",
        "Healthy: CPU-bound by its own work",
        "Reads from upstream of server, by size; marked: 4,096 bytes 8.00 per request",
        "The system calls of upstream-8081 could not be counted.",
        "ngx_readv_chain (nginx): ",
        "On the CPU, compared with ",
        "class=\"flame difference\"",
        "sock_diag gives tcp_info only",
    ] {
        assert!(html.contains(want), "missing: {want}");
    }
    // Each item of evidence leads to a place that exists.
    for target in attributes(&html, "href") {
        let place = target.trim_start_matches('#');
        assert!(html.contains(&format!("id=\"{place}\"")), "{target}");
    }
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
}

/// What the one load of a diagnosis came to leads its page; where several stand beside each other, none does.
#[test]
fn what_a_diagnosis_found_leads_its_page() {
    let (mut record, mut analysis) = fixture::run();
    let mut diagnoses = diagnoses::examined(&mut record);
    let slow = |d: &analysis::Diagnosis| d.findings[0].cause == "small_proxy_buffers";
    let (&only, _) = diagnoses.iter().find(|(_, d)| slow(d)).unwrap();
    let several = page(&record, &analysis, &diagnoses);
    assert!(!several.contains("What was found"));
    record.trials.retain(|trial| trial.id == only);
    analysis.cells.retain(|cell| cell.trials.contains(&only));
    diagnoses.retain(|id, _| *id == only);
    let html = page(&record, &analysis, &diagnoses);
    let (_, found) = html.split_once("What was found").expect("the finding");
    assert!(found.starts_with("</b> Proxy buffers smaller than the answers"));
    // The remedy of the cause, and not what is said of any server that is full.
    let (first, _) = found.split_once("id=\"limits\"").expect("the details");
    assert_eq!(first.matches("What to do").count(), 1);
}

/// A watch has no load of ours: the page says what was found, when, and at which cost, and calls nothing invalid.
#[test]
fn slow_seconds_and_an_earlier_record_are_on_the_page() {
    for when in ["", "p99>50ms"] {
        let (mut record, _) = fixture::run();
        let diagnoses = diagnoses::watched(&mut record, when);
        let analysis = analysis::analyse(&record).unwrap();
        let document = diagnoses::watched_document(&record, &analysis, &diagnoses);
        let html = report::html::page_of(&record, &analysis, &document);
        assert_eq!(untraced(&html), Vec::<String>::new());
        assert_numbers_are_of(&html, &record, &document);
        assert_origins_exist_in(&html, &record, &document);
        for want in [
            "What was found",
            "Proxy buffers smaller than the answers",
            "Which seconds were slow",
            "class=\"seconds\"",
            "What differs in slow seconds",
            "io pressure",
            "share of the time",
            "What a request takes in slow seconds",
            "Not visible: throttled&gt;5%: `throttled` could not be read in any second.",
            "Against the earlier record",
            "<code>records/monday</code>",
            "readv (upstream)",
            "What changed of server: libssl.so 3.0.15-1~deb12u1 -&gt; 3.0.17-1~deb12u2 (build id 0123456789ab -&gt; ab12cd34ef56)",
            "Not visible: whether libown.so of server changed",
            "versions of server",
            "3.0.17-1~deb12u2, package libssl3, build id ab12cd34ef56ab78",
            "not known: no package note",
            "Held by turns for 1.2s instead of 2s.",
            match when {
                "" => "they differ from the others",
                _ => "<code>p99&gt;50ms</code>",
            },
        ] {
            assert!(html.contains(want), "missing: {want}");
        }
        assert!(!html.contains("the figures may not be used"));
        let seconds = html.split("class=\"seconds\"").nth(1).unwrap();
        let seconds = seconds.split("</svg>").next().unwrap();
        let count = |class: &str| seconds.matches(&format!("class=\"{class}\"")).count();
        assert_eq!(
            (count("slow"), count("probed"), count("normal")),
            (4, 3, 23)
        );
    }
}

#[test]
fn symbols_cannot_become_markup() {
    let (mut record, analysis) = fixture::run();
    let diagnoses = diagnoses::examined(&mut record);
    for examination in record
        .trials
        .iter_mut()
        .filter_map(|t| t.examination.as_mut())
    {
        for frame in examination.profiles.iter_mut().flat_map(|p| &mut p.frames) {
            frame.symbol = "</svg><script>alert(1)</script>\"".into();
            frame.module = "<b>".into();
        }
    }
    let html = page(&record, &analysis, &diagnoses);
    assert!(!html.contains("<script>alert") && !html.contains("<b>)"));
    assert_eq!(html.matches("<script").count(), 3);
}

/// 20,000 different stacks, forty frames deep: what a large JVM shows.
#[test]
fn a_flame_graph_stays_small() {
    let (mut record, analysis) = fixture::run();
    let mut diagnoses = diagnoses::examined(&mut record);
    let one = *diagnoses.keys().next().unwrap();
    diagnoses.retain(|id, _| *id == one);
    let small = page(&record, &analysis, &BTreeMap::new()).len();
    let trial = record.trials.iter_mut().find(|t| t.id == one).unwrap();
    let examination = trial.examination.as_mut().unwrap();
    examination.profiles.truncate(1);
    let profile = &mut examination.profiles[0];
    profile.frames = (0..20_000)
        .map(|i| record::Frame {
            symbol: format!("org.example.Name{i}::a_method_with_a_name_of_length"),
            module: "perf-77.map".into(),
            kernel: false,
        })
        .collect();
    let stack = profile.stacks[0].clone();
    profile.stacks = (0..20_000u32)
        .map(|i| record::Stack {
            frames: (0..40)
                .map(|d| (i % (1 << (d / 2 + 1)) * 41 + d) % 20_000)
                .collect(),
            weight: 1,
            ..stack.clone()
        })
        .collect();
    let grown = page(&record, &analysis, &diagnoses).len() - small;
    assert!(grown < 420_000, "{grown} bytes");
}
