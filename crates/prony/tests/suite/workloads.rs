//! Workloads end to end: mixes by weight, sessions with values, cookies and checks, and what is refused. The servers
//! are `prony origin`, and a small one that knows logins.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, helpers included, a panic is the report"
)]

use crate::common::{Finished, Origin, finish, prony};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/workloads");

fn load(state: &Path, flags: &[&str]) -> Finished {
    finish(prony(state).args(["--quiet", "load", "--json"]).args(flags))
}

fn written(state: &Path, name: &str, text: &str) -> String {
    let path = state.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn named<'a>(document: &'a Value, name: &str) -> &'a Value {
    let all = document["by_request"].as_array().unwrap();
    all.iter().find(|r| r["name"] == name).unwrap()
}

/// What the server of logins has been asked.
#[derive(Default)]
struct Asked {
    requests: u64,
    users: BTreeSet<String>,
    /// What was not as a browser would have sent it.
    wrong: Vec<String>,
}

/// Answers `/login` with a token, a cookie and a page in a body of JSON, in two pieces; the page must come with both.
fn logins() -> (String, Arc<Mutex<Asked>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Asked::default()));
    let shared = Arc::clone(&asked);
    thread::spawn(move || {
        for (n, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let asked = Arc::clone(&shared);
            thread::spawn(move || log_in(stream, n, &asked));
        }
    });
    (url, asked)
}

fn log_in(stream: TcpStream, n: usize, asked: &Mutex<Asked>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    let mut token = String::new();
    for turn in 0.. {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(1..) if line == "\r\n" => break,
                Ok(1..) => head.push(line.trim_end().to_owned()),
                _ => return,
            }
        }
        let field = |name: &str| {
            let lines = head.iter().skip(1);
            let mut fields = lines.filter_map(|l| l.split_once(": "));
            fields.find(|(n, _)| *n == name).map(|(_, v)| v.to_owned())
        };
        let length = field("Content-Length").map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mut asked = asked.lock().unwrap();
        asked.requests += 1;
        let target = head[0].split(' ').nth(1).unwrap().to_owned();
        let answer = if target == "/login" {
            let body: Value = serde_json::from_slice(&body).unwrap();
            asked
                .users
                .insert(body["user"].as_str().unwrap().to_owned());
            token = format!("t\u{e9}-{n}-{turn}");
            format!(r#"{{"ok": true, "token": "t\u00e9-{n}-{turn}", "page": "/page/{turn}"}}"#)
        } else {
            let expected = [
                (format!("/page/{}", turn - 1), Some(target)),
                (format!("Bearer {token}"), field("Authorization")),
                (format!("id={n}x{}; theme=dark", turn - 1), field("Cookie")),
            ];
            for (expected, got) in expected {
                if got.as_ref() != Some(&expected) {
                    asked.wrong.push(format!("{expected} and not {got:?}"));
                }
            }
            "you are welcome".to_owned()
        };
        drop(asked);
        let head = format!(
            "HTTP/1.1 200 OK\r\nSet-Cookie: id={n}x{turn}; Path=/\r\nSet-Cookie: theme=dark; Path=/page\r\n\
             Set-Cookie: old=1; Path=/; Max-Age=0\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        let (first, rest) = answer.as_bytes().split_at(answer.len() / 2);
        for piece in [head.as_bytes(), first, rest] {
            if stream.write_all(piece).is_err() {
                return;
            }
        }
    }
}

#[test]
fn a_mix_is_drawn_exactly_by_weight_and_shown_by_name() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let file = format!("{EXAMPLES}/mix.toml");
    let done = load(
        state.path(),
        &["-c", "4", "-n", "1400", "--workload", &file, &origin.url],
    );
    let document = done.json();
    assert_eq!(document["requests"]["succeeded"], 1400, "{document}");
    for (name, n) in [("page", 1000), ("item", 300), ("order", 100)] {
        let named = named(&document, name);
        assert_eq!(named["sent"], n, "{named}");
        assert_eq!(named["succeeded"], n, "{named}");
        assert!(named["response_ns"]["p99"].as_u64().unwrap() > 0);
    }
    let table = finish(prony(state.path()).args([
        "--quiet",
        "load",
        "-c",
        "1",
        "-n",
        "14",
        "--workload",
        &file,
        &origin.url,
    ]));
    assert!(
        table.stdout.contains("3 kinds of requests to"),
        "{}",
        table.stdout
    );
    assert!(table.stdout.contains("\nrequest  sent"), "{}", table.stdout);
}

#[test]
fn several_urls_on_the_command_line_are_a_mix() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let [good, missing] =
        ["/bytes/64KiB", "/status/404"].map(|p| format!("{}{p}", origin.url.trim_end_matches('/')));
    let done = load(
        state.path(),
        &["-c", "2", "-n", "90", &good, &missing, &good],
    );
    let document = done.json();
    assert_eq!(done.code, Some(3));
    assert_eq!(named(&document, &good)["succeeded"], 60, "{document}");
    assert_eq!(named(&document, &missing)["failed"]["status4xx"], 30);
    assert_eq!(document["requests"]["failed"]["status4xx"], 30);
    let elsewhere = load(state.path(), &["-n", "1", &good, "http://127.0.0.1:1/"]);
    assert_eq!(elsewhere.code, Some(2), "{}", elsewhere.stderr);
    assert!(
        elsewhere.stderr.contains("a load has one server"),
        "{}",
        elsewhere.stderr
    );
}

#[test]
fn a_session_carries_values_and_cookies_from_step_to_step() {
    let state = tempfile::tempdir().unwrap();
    let (url, asked) = logins();
    let file = format!("{EXAMPLES}/session.toml");
    let done = load(
        state.path(),
        &["-c", "3", "-n", "120", "-t", "1", "--workload", &file, &url],
    );
    let document = done.json();
    assert_eq!(document["requests"]["succeeded"], 120, "{document}");
    let asked = asked.lock().unwrap();
    assert_eq!(asked.wrong, Vec::<String>::new());
    assert_eq!(asked.requests, 120);
    let users: Vec<&str> = asked.users.iter().map(String::as_str).collect();
    assert_eq!(users, ["ada", "edsger", "grace"]);
    let sent = ["login", "page"].map(|name| named(&document, name)["sent"].as_u64().unwrap());
    assert_eq!(sent.iter().sum::<u64>(), 120);
    assert!(sent[0].abs_diff(sent[1]) <= 3, "{sent:?}");
}

#[test]
fn checks_that_fail_are_failures_under_their_names_and_no_latencies() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let zeroes = "0".repeat(64);
    let file = written(
        state.path(),
        "checks.toml",
        &format!(
            "body_limit = \"8KiB\"\n\
             [[request]]\nname = \"good\"\nurl = \"/bytes/16KiB\"\ncheck = {{ status = \"200-299\", length = \"16KiB\" }}\n\
             [[request]]\nname = \"length\"\nurl = \"/bytes/16KiB\"\ncheck = {{ length = \"1-100\" }}\n\
             [[request]]\nname = \"contains\"\nurl = \"/\"\ncheck = {{ contains = \"no such text\" }}\n\
             [[request]]\nname = \"hash\"\nurl = \"/\"\ncheck = {{ sha256 = \"{zeroes}\" }}\n\
             [[request]]\nname = \"large\"\nurl = \"/bytes/16KiB\"\ncheck = {{ contains = \"x\" }}\n\
             [[request]]\nname = \"missing\"\nurl = \"/status/404\"\ncheck = {{ status = 404 }}\n\
             [[request]]\nname = \"head\"\nmethod = \"HEAD\"\nurl = \"/bytes/16KiB\"\n"
        ),
    );
    let done = load(
        state.path(),
        &["-c", "2", "-n", "70", "--workload", &file, &origin.url],
    );
    let document = done.json();
    assert_eq!(done.code, Some(3), "{document}");
    for (name, kind, check) in [
        ("length", "check", "length"),
        ("contains", "check", "contains \"no such text\""),
        ("hash", "check", "sha256"),
    ] {
        let named = named(&document, name);
        assert_eq!(named["failed"][kind], 10, "{named}");
        assert_eq!(named["failed_checks"][check], 10, "{named}");
        assert_eq!(named["completed"], 10);
        assert_eq!(named["response_ns"], Value::Null);
    }
    assert_eq!(named(&document, "large")["failed"]["body_too_large"], 10);
    for name in ["good", "missing", "head"] {
        assert_eq!(named(&document, name)["succeeded"], 10, "{document}");
    }
    assert_eq!(document["requests"]["succeeded"], 30);
}

#[test]
fn a_value_that_is_not_there_ends_the_session_and_is_counted() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let file = written(
        state.path(),
        "lost.toml",
        "[[step]]\nname = \"first\"\nurl = \"/\"\ncapture = { token = { json = \"/token\" } }\n\
         [[step]]\nname = \"second\"\nurl = \"/bytes/{{token}}\"\n",
    );
    let done = load(
        state.path(),
        &["-c", "1", "-n", "20", "--workload", &file, &origin.url],
    );
    let document = done.json();
    let first = named(&document, "first");
    assert_eq!(first["failed"]["capture"], 20, "{document}");
    assert_eq!(first["failed_checks"]["capture token"], 20);
    assert_eq!(named(&document, "second")["sent"], 0);
}

#[test]
fn clients_that_think_send_no_faster() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let done = load(
        state.path(),
        &["-c", "2", "-n", "20", "--think", "20ms", &origin.url],
    );
    let document = done.json();
    // Nine pauses between the ten requests of each; more on a busy machine.
    assert!(
        document["measured_s"].as_f64().unwrap() >= 0.18,
        "{document}"
    );
    assert_eq!(document["requests"]["succeeded"], 20);
    assert_eq!(document["by_request"].as_array().unwrap().len(), 0);
}

#[test]
fn what_cannot_work_together_is_refused_before_anything_is_sent() {
    let state = tempfile::tempdir().unwrap();
    let mix = format!("{EXAMPLES}/mix.toml");
    let session = format!("{EXAMPLES}/session.toml");
    let broken = written(
        state.path(),
        "b.toml",
        "[[request]]\nurl = \"/\"\nwieght = 2\n",
    );
    let column = written(
        state.path(),
        "c.toml",
        &format!(
            "[data.u]\nfile = \"{EXAMPLES}/users.csv\"\npick = \"per_client\"\n[[request]]\nurl = \"/{{{{u.nam}}}}\"\n"
        ),
    );
    let url = "http://127.0.0.1:1/";
    for (flags, said) in [
        (
            vec!["--workload", &session, "--pipeline", "4", url],
            "one request at a time",
        ),
        (
            vec!["--think", "1ms", "-R", "10", url],
            "when requests are due",
        ),
        (vec!["--workload", &mix], "no request names a server"),
        (vec!["--workload", &mix, url, url], "cannot both be given"),
        (vec!["--workload", &broken, url], "did you mean `weight`"),
        (
            vec!["--workload", &column, "-c", "2", url],
            "there is no `u.nam`",
        ),
        (
            vec!["--workload", &column, "-c", "4", url],
            "3 rows for 4 clients",
        ),
        (vec!["--workload", "none.toml", url], "docs/workloads.md"),
    ] {
        let done = load(state.path(), &flags);
        assert_eq!(done.code, Some(2), "{flags:?}: {}", done.stderr);
        assert!(done.stderr.contains(said), "{flags:?}: {}", done.stderr);
        assert!(done.stderr.contains("remedy"), "{flags:?}: {}", done.stderr);
    }
}
