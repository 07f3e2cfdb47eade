//! Requests of a browser, of curl and of a description end to end: imported, and loaded as the file was written.

#![allow(
    clippy::unwrap_used,
    reason = "in a test, helpers included, a panic is the report"
)]

use crate::common::{Finished, Origin, finish, prony};
use serde_json::{Value, json};
use std::path::Path;

fn run(directory: &Path, args: &[&str]) -> Finished {
    finish(prony(directory).current_dir(directory).args(args))
}

/// The source as a file, imported into `w.toml`.
fn imported(directory: &Path, format: &str, source: &str, flags: &[&str]) -> Finished {
    std::fs::write(directory.join("source"), source).unwrap();
    let args = ["import", format, "source", "--out", "w.toml"];
    let done = run(directory, &[&args[..], flags].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    done
}

/// Every request of `w.toml` so often, all of them as they should be.
fn loaded(directory: &Path, requests: u64, url: &[&str]) -> Value {
    let n = requests.to_string();
    let args = ["--quiet", "load", "--json", "-c", "2", "-t", "1", "-n", &n];
    let done = run(
        directory,
        &[&args[..], &["--workload", "w.toml"], url].concat(),
    );
    let document = done.json();
    assert_eq!(document["requests"]["succeeded"], requests, "{document}");
    document
}

fn sent(document: &Value) -> Vec<(String, u64)> {
    let rows = document["by_request"].as_array().unwrap().iter();
    let named = rows.map(|row| {
        let name = row["name"].as_str().unwrap().to_owned();
        (name, row["succeeded"].as_u64().unwrap())
    });
    named.collect()
}

fn entry(at: &str, method: &str, url: &str, status: u16, body: Option<&str>) -> Value {
    let posted = body.map(|text| json!({"mimeType": "application/json", "text": text}));
    let mut request = json!({
        "method": method, "url": url, "httpVersion": "HTTP/1.1", "headersSize": 200, "bodySize": -1,
        "headers": [
            {"name": "Host", "value": "shop.example.test"}, {"name": "Connection", "value": "keep-alive"},
            {"name": "Accept", "value": "*/*"}, {"name": "Cookie", "value": "sid=s3cret"},
        ],
        "cookies": [], "queryString": [],
    });
    if let Some(posted) = posted {
        request["postData"] = posted;
    }
    json!({
        "startedDateTime": format!("2024-05-06T07:08:{at}+02:00"), "time": 1.5, "request": request,
        "response": {"status": status, "content": {"size": 1, "mimeType": "text/html"}, "headers": []},
        "cache": {}, "timings": {"send": 0, "wait": 1.5, "receive": 0},
    })
}

#[test]
fn a_recorded_session_is_loaded_from_another_server() {
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let shop = "https://shop.example.test";
    let entries = json!([
        entry("09.000", "GET", &format!("{shop}/bytes/4KiB"), 200, None),
        entry("09.002", "GET", "https://ads.example.org/pixel", 200, None),
        entry("09.004", "GET", &format!("{shop}/status/404"), 404, None),
        entry(
            "09.008",
            "POST",
            &format!("{shop}/upload?n=1"),
            200,
            Some("{\"a\": \"{{b}}\"}")
        ),
    ]);
    let har = json!({"log": {"version": "1.2", "creator": {"name": "x", "version": "1"}, "entries": entries}});
    let done = imported(dir.path(), "har", &har.to_string(), &[]);
    assert!(
        done.stderr.contains("https://ads.example.org"),
        "{}",
        done.stderr
    );
    let text = std::fs::read_to_string(dir.path().join("w.toml")).unwrap();
    assert!(!text.contains("s3cret"), "{text}");
    assert!(text.contains("think = \"2500us\""), "{text}");
    let document = loaded(dir.path(), 60, &[&origin.url]);
    let sent = sent(&document);
    let names: Vec<&str> = sent.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["GET /bytes/4KiB", "GET /status/404", "POST /upload"]
    );
    assert!(sent.iter().all(|(_, n)| n.abs_diff(20) <= 2), "{sent:?}");
    // A file that somebody may have edited is not written over.
    let again = run(dir.path(), &["import", "har", "source", "--out", "w.toml"]);
    assert_eq!(again.code, Some(2));
    assert!(
        again.stderr.contains("is there already"),
        "{}",
        again.stderr
    );
}

#[test]
fn a_copied_command_is_loaded_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let url = origin.url.trim_end_matches('/');
    std::fs::write(dir.path().join("order.json"), "{\"a\": 1}").unwrap();
    let source = format!(
        "curl '{url}/upload' \\\n  -H 'Content-Type: application/json' --data-binary @order.json -sS | jq . ;\n\
         curl -u ada:pw $'{url}/bytes/1KiB?a=it\\'s' --compressed -o /dev/null"
    );
    imported(dir.path(), "curl", &source, &["--secrets"]);
    let document = loaded(dir.path(), 40, &[]);
    let names: Vec<String> = sent(&document).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["POST /upload", "GET /bytes/1KiB"]);
    let text = std::fs::read_to_string(dir.path().join("w.toml")).unwrap();
    assert!(text.contains("Basic YWRhOnB3"), "{text}");
    // To standard output as a document.
    let done = run(
        dir.path(),
        &["--quiet", "import", "curl", "source", "--json"],
    );
    let document = done.json();
    assert_eq!(document["server"], url);
    assert_eq!(
        document["requests"],
        json!(["POST /upload", "GET /bytes/1KiB"])
    );
    assert!(!document["workload"].as_str().unwrap().contains("YWRhOnB3"));
}

#[test]
fn a_described_interface_is_loaded_as_a_mix() {
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let size = json!({"name": "size", "in": "path", "required": true, "schema": {"type": "integer", "minimum": 10}});
    let description = json!({
        "openapi": "3.1.0", "info": {"title": "origin", "version": "1"}, "servers": [{"url": origin.url}],
        "paths": {
            "/bytes/{size}": {"get": {"operationId": "bytes", "parameters": [size], "responses": {"200": {}}}},
            "/upload": {"post": {"operationId": "upload", "security": [{"key": []}], "responses": {"200": {}},
                "requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": {
                    "id": {"type": "string", "format": "uuid"}, "n": {"type": "integer"}}}}}}}},
        },
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    });
    let done = imported(dir.path(), "openapi", &description.to_string(), &[]);
    assert!(done.stderr.contains("the header X-Key"), "{}", done.stderr);
    let document = loaded(dir.path(), 40, &[]);
    assert_eq!(
        sent(&document),
        [("bytes".to_owned(), 20), ("upload".to_owned(), 20)]
    );
}

#[test]
fn what_does_not_go_together_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("c"), "curl --frob h").unwrap();
    for (args, said) in [
        (&["import", "curl", "c"][..], "--frob"),
        (&["import", "curl", "c", "c"], "one by one"),
        (
            &["import", "har", "c", "--baseline", "x"],
            "--baseline is of results",
        ),
        (
            &["import", "wrk", "c", "--secrets"],
            "--secrets is of a workload file",
        ),
        (&["import", "openapi", "c"], "not JSON"),
        (&["import", "haar", "c"], "unknown format"),
    ] {
        let done = run(dir.path(), args);
        assert_eq!(done.code, Some(2), "{args:?}: {}", done.stdout);
        assert!(done.stderr.contains(said), "{args:?}: {}", done.stderr);
    }
}
