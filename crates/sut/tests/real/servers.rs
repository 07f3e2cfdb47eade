//! Real servers: started, pinned, asked, stopped, and the ways in which they fail to start.
//!
//! nginx must be installed (`make test` sees to it): without it these tests fail with the remedy.

use crate::bench::{Bench, lives, spec};
use plan::{Plan, TargetKind, TargetSpec};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;
use sut::{RunningTarget, TargetError};

/// Head and body of the answer to one request.
pub fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connecting to the target");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a read timeout");
    let request = format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("asking");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

pub fn started(bench: &Bench, spec: &TargetSpec) -> RunningTarget {
    bench
        .start(spec)
        .unwrap_or_else(|e| panic!("{e}\nremedy: {}", e.remedy()))
}

/// `server` of the shipped nginx experiment.
fn nginx_static() -> TargetSpec {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let text = std::fs::read_to_string(dir.join("nginx-static.toml")).expect("the experiment");
    let read = |path: &str| std::fs::read_to_string(dir.join(path)).map_err(|e| e.to_string());
    let plan = Plan::parse(&text, "nginx-static.toml", &read).expect("a valid experiment");
    plan.trials[0].targets[0].clone()
}

#[test]
fn nginx_serves_pinned_and_leaves_nothing() {
    let bench = Bench::new();
    let mut server = started(&bench, &nginx_static());
    let address = server.address();
    let (head, _) = get(address, "/index.html")
        .split_once("\r\n\r\n")
        .map(|(h, b)| (h.to_owned(), b.len()))
        .unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("Content-Length: 2649"), "{head}");
    assert!(get(address, "/stub_status").contains("server accepts handled requests"));

    let record = server.record();
    assert!(record.version.starts_with("nginx/"), "{}", record.version);
    assert_eq!(
        (record.kind.as_str(), record.address.as_str()),
        ("nginx", address.to_string().as_str())
    );
    let roles: Vec<&str> = record.processes.iter().map(|p| p.role.as_str()).collect();
    assert_eq!(roles, ["main", "worker"]);
    assert!(
        record
            .processes
            .iter()
            .all(|p| p.cpus == [0] && p.name == "nginx"),
        "{record:?}"
    );
    let files = server.files();
    let as_run = format!("listen {address};");
    assert!(files["server.nginx.conf"].contains(&as_run), "{files:?}");
    assert_eq!(server.check_alive(), Ok(()));

    server.stop().unwrap();
    assert!(record.processes.iter().all(|p| !lives(p.pid)));
    assert_eq!(bench.left(), Vec::<String>::new());
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn nginx_with_the_built_in_template_starts_a_worker_for_each_value() {
    let bench = Bench::new();
    let files = "files = { \"html/index.html\" = { text = \"hello\" } }";
    let server = started(
        &bench,
        &spec(
            &format!("adapter = \"nginx\"\n{files}\nvalues = {{ workers = 3 }}"),
            "",
        ),
    );
    assert_eq!(server.record().processes.len(), 4);
    assert!(get(server.address(), "/").ends_with("\r\n\r\nhello"));
    let pids: Vec<i32> = server.processes().iter().map(|p| p.pid).collect();
    drop(server);
    assert!(!pids.into_iter().any(lives), "dropping stops it");
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// A template that leaves every path to nginx's defaults, which belong to the system's own nginx.
#[test]
fn a_proxy_finds_its_backend_and_keeps_its_logs_to_itself() {
    let bench = Bench::new();
    let backend = started(
        &bench,
        &spec(
            "command = [\"python3\", \"-m\", \"http.server\", \"{{port}}\", \"--bind\", \"{{address}}\"]\n\
        ready = \"/hello\"\nready_timeout = \"60s\"\nfiles = { hello = { text = \"from behind\" } }",
            "",
        ),
    );
    let mut proxy = spec(
        "adapter = \"nginx\"\ntemplate = \"t\"",
        "events {}\nhttp { server { listen {{listen}}; location / { proxy_pass http://{{s}}; } } }\n",
    );
    proxy.name = "proxy".to_owned();
    let addresses = [("s".to_owned(), backend.address())].into();
    let proxy = bench.launcher.start(&proxy, &addresses, &|| false).unwrap();
    assert!(get(proxy.address(), "/hello").ends_with("\r\n\r\nfrom behind"));
    assert!(proxy.directory().join("access.log").exists());
    assert!(
        backend.files()["s.stderr"].contains("GET /hello"),
        "{:?}",
        backend.files()
    );
    assert_eq!(backend.record().processes[0].role, "main");
    proxy.stop().unwrap();
    backend.stop().unwrap();
}

#[test]
fn nginx_explains_a_bad_configuration_itself() {
    let bench = Bench::new();
    let template = "events {}\nhttp {\n  lisen {{listen}};\n}\n";
    let (text, remedy) = bench.complaint(&spec(
        "adapter = \"nginx\"\ntemplate = \"my.conf\"",
        template,
    ));
    assert_eq!(
        text,
        "target `s` refuses its configuration: [emerg] unknown directive \"lisen\" in my.conf:3"
    );
    assert_eq!(remedy, "correct the target's template");
}

#[test]
fn a_name_without_a_value_is_found_in_the_template() {
    let bench = Bench::new();
    let mut spec = spec("adapter = \"nginx\"", "");
    spec.values.insert("buffers".to_owned(), "8 4k".to_owned());
    spec.kind = TargetKind::Adapter {
        adapter: "nginx".to_owned(),
        template_name: "my.conf".to_owned(),
        template: "events {}\nproxy_buffers {{bufers}};\n".to_owned(),
    };
    let (text, remedy) = bench.complaint(&spec);
    assert_eq!(
        text,
        "filling in the configuration of target `s`: my.conf:2: unknown name `bufers`; did you mean `buffers`?"
    );
    assert!(
        remedy.ends_with("address, buffers, cpu_mask, listen, port, root, s, workers"),
        "{remedy}"
    );
}

#[test]
fn a_taken_port_is_named_with_its_holder() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (text, remedy) = bench.complaint(&spec(
        &format!("adapter = \"nginx\"\nlisten = \"{address}\""),
        "",
    ));
    let want = format!(
        "cannot start target `s`: {address} is in use by pid {} (",
        std::process::id()
    );
    assert!(text.starts_with(&want), "{text}");
    assert!(remedy.starts_with("stop that process"), "{remedy}");
}

#[test]
fn a_missing_program_is_named() {
    let bench = Bench::new();
    for (section, want) in [
        (
            "command = [\"no-such-server\"]",
            "cannot start target `s`: no-such-server is not installed",
        ),
        (
            "command = [\"./no-such-server\"]",
            "cannot start target `s`: ./no-such-server is not installed",
        ),
        (
            "command = [\"sleep\", \"1\"]\nwrap = [\"no-such-wrapper\", \"-x\"]",
            "cannot start target `s`: no-such-wrapper is not installed",
        ),
        (
            "origin = {}",
            "cannot start target `s`: running /nonexistent/prony: No such file or directory (os error 2)",
        ),
    ] {
        assert_eq!(bench.complaint(&spec(section, "")).0, want);
    }
}

#[test]
fn a_cpu_that_is_not_there_is_named() {
    let bench = Bench::new();
    let (text, _) = bench.complaint(&spec("command = [\"sleep\", \"1\"]\ncpus = [1023]", ""));
    assert!(
        text.starts_with("cannot pin target `s` to CPU 1023: this process may use the CPUs [0"),
        "{text}"
    );
}

#[test]
fn a_server_that_dies_is_quoted() {
    let bench = Bench::new();
    let dying =
        "command = [\"sh\", \"-c\", \"echo on port {{port}}; echo no such table >&2; exit 3\"]";
    let (text, _) = bench.complaint(&spec(dying, ""));
    assert_eq!(
        text,
        "target `s` ended while it was starting (exit status: 3); it said: no such table"
    );
    let silent = bench.complaint(&spec("command = [\"false\"]", "")).0;
    assert_eq!(
        silent,
        "target `s` ended while it was starting (exit status: 1), and it said nothing"
    );
}

#[test]
fn a_server_that_never_listens_is_given_up_and_stopped() {
    let bench = Bench::new();
    let spec = spec(
        "command = [\"sleep\", \"600\"]\nready_timeout = \"50ms\"",
        "",
    );
    let (text, _) = bench.complaint(&spec);
    assert!(
        text.starts_with("target `s` was not ready after "),
        "{text}"
    );
    assert!(text.contains("Connection refused"), "{text}");
}

/// `sh` hands its ignored SIGTERM down to `sleep`, which so outlives the group's end.
const STUBBORN: &str = "command = [\"sh\", \"-c\", \"(trap '' TERM; exec sleep 600) & exec python3 -m http.server {{port}} --bind {{address}}\"]\n\
    ready_timeout = \"60s\"\nenv = { GREETING = \"{{greeting}}\" }\nvalues = { greeting = \"hi\" }\nwrap = [\"nice -n 1\"]";

#[test]
fn what_a_server_has_started_ends_with_it() {
    let bench = Bench::new();
    let server = started(&bench, &spec(STUBBORN, ""));
    let record = server.record();
    assert!(
        record.command[0].ends_with("/nice") && record.command[1..3] == ["-n", "1"],
        "{record:?}"
    );
    let environ =
        std::fs::read_to_string(format!("/proc/{}/environ", record.processes[0].pid)).unwrap();
    assert!(environ.contains("GREETING=hi\0"), "{environ}");
    assert_eq!(record.processes.len(), 2, "{record:?}");
    server.stop().unwrap();
    assert!(record.processes.iter().all(|p| !lives(p.pid)), "{record:?}");
}

#[test]
fn a_server_killed_while_it_runs_says_how() {
    let bench = Bench::new();
    let mut server = started(&bench, &nginx_static());
    let processes = server.processes();
    // SAFETY: a system call on integers; the pid is that of our own child.
    unsafe { libc::kill(processes[0].pid, libc::SIGKILL) };
    while server.check_alive().is_ok() {
        std::thread::yield_now();
    }
    let how = server.check_alive().unwrap_err();
    assert!(how.starts_with("signal: 9 (SIGKILL)"), "{how}");
    server.stop().unwrap();
    assert!(
        !lives(processes[1].pid),
        "its worker has lost its master and is stopped all the same"
    );
}

#[test]
fn holders_are_found_by_their_address() {
    let bench = Bench::new();
    let server = started(&bench, &nginx_static());
    let pids: Vec<i32> = server.processes().iter().map(|p| p.pid).collect();
    assert_eq!(sut::holder_of(server.address()), pids);
    let second = spec(
        &format!("adapter = \"nginx\"\nlisten = \"{}\"", server.address()),
        "",
    );
    let Err(TargetError::PortTaken { holders, .. }) = bench.start(&second) else {
        panic!("it started")
    };
    assert_eq!(holders[0].to_string(), format!("pid {} (nginx)", pids[0]));
}

/// The flags are the contract with `prony origin`; here a script stands in for it and shows them.
#[test]
fn an_origin_is_our_own_binary_with_flags() {
    let mut bench = Bench::new();
    bench.launcher.prony = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/origin.sh");
    let section = "origin = { body = \"1KiB\", threads = 2, delay = \"{{delay}}\", freeze = \"{{freeze}}\" }\n\
        ready_timeout = \"60s\"\nvalues = { delay = \"5ms\", freeze = \"\" }";
    let server = started(&bench, &spec(section, ""));
    let want = format!(
        "origin --listen {} --threads 2 --body 1024 --delay 5ms\n",
        server.address()
    );
    assert!(
        server.files()["s.stderr"].starts_with(&want),
        "{:?}",
        server.files()
    );
    let record = server.record();
    assert_eq!(record.kind, "origin");
    assert!(record.version.starts_with("prony/"), "{}", record.version);
    server.stop().unwrap();
}
