//! Copies of plain processes: a second instance listens elsewhere, changed, and what would be shared is refused.

use crate::discover::free;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use sut::config::{ChangeAction, ConfigChange};
use sut::{Journal, Launcher, RunningTarget, discover};

/// Answers with what it was started with. What it does beside that is in MORE.
const SERVER: &str = "\
import http.server, os, resource, sys
address = os.environ.get('BIND') or sys.argv[sys.argv.index('--bind') + 1]
MORE
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        said = [sys.argv[1:], os.environ.get('GOGC'), os.environ.get('ADDED'), os.getpriority(0, 0), files]
        self.wfile.write(repr(said).encode())
    def log_message(self, *ignored):
        pass
host, port = address.split(':')
http.server.HTTPServer((host, int(port)), Handler).serve_forever()
";

struct Server {
    child: Child,
    address: SocketAddr,
    state: tempfile::TempDir,
}

impl Server {
    /// Runs it with `args` and `env`, in which ADDRESS is its own; `None` where Python is not installed.
    fn start(more: &str, args: &[&str], env: &[(&str, &str)]) -> Option<Self> {
        let state = tempfile::tempdir().expect("a temporary directory");
        let address = free();
        let script = state.path().join("server.py");
        std::fs::write(&script, SERVER.replace("MORE", more)).expect("a script");
        let fill = |text: &str| text.replace("ADDRESS", &address.to_string());
        let child = Command::new("python3")
            .arg(&script)
            .args(args.iter().map(|a| fill(a)))
            .envs(env.iter().map(|(name, value)| (*name, fill(value))))
            .current_dir(state.path())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let server = Self {
            child,
            address,
            state,
        };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no server");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(server)
    }

    fn copy(&self, changes: &[ConfigChange]) -> Result<RunningTarget, String> {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        let launcher = Launcher {
            journal: Journal::open(self.state.path()).expect("a journal"),
            prony: "/nonexistent/prony".into(),
            work_dir: std::env::temp_dir(),
        };
        let found = discover::of_pids(&[pid], "server");
        let ip = self.address.ip();
        let copy = launcher.start_copy("copy", &found, changes, self.address, ip, &|| false);
        copy.map_err(|e| format!("{e}; {}", e.remedy()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn set(section: &[&str], name: &str, args: &[&str]) -> ConfigChange {
    let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
    ConfigChange {
        action: ChangeAction::Set,
        context: owned(section),
        name: name.to_owned(),
        args: owned(args),
        from: Vec::new(),
    }
}

fn get(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("connecting");
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("asking");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.rsplit("\r\n").next().unwrap_or_default().to_owned()
}

#[test]
fn a_changed_process_beside_the_first() {
    let args = ["--bind", "ADDRESS"];
    let Some(server) = Server::start("", &args, &[("GOGC", "1")]) else {
        return;
    };
    let before = get(server.address);
    let changes = [
        set(&["environment"], "GOGC=400", &[]),
        set(&["environment"], "ADDED=yes", &[]),
        set(&[], "--threads", &["8"]),
        set(&["limits"], "Nice=5", &[]),
    ];
    let copy = server.copy(&changes).unwrap_or_else(|e| panic!("{e}"));
    let files = before.rsplit(' ').next().unwrap();
    let want = format!(
        "[['--bind', '{}', '--threads', '8'], '400', 'yes', 5, {files}",
        copy.address()
    );
    assert_eq!(get(copy.address()), want);
    assert_ne!(copy.address(), server.address);
    assert_eq!(get(server.address), before, "the first is as it was");
    copy.stop().unwrap();
    assert!(TcpStream::connect(server.address).is_ok());
}

#[test]
fn a_process_is_told_by_its_environment_and_keeps_its_files_apart() {
    let more = "held = open(sys.argv[1], 'a')\nopen('pid', 'w').write(str(os.getpid()))";
    let args = ["app.log", "--pid", "pid"];
    let Some(server) = Server::start(more, &args, &[("BIND", "ADDRESS")]) else {
        return;
    };
    let copy = server.copy(&[]).unwrap_or_else(|e| panic!("{e}"));
    let said = get(copy.address());
    assert!(
        said.contains("app.log'") && !said.contains("['app.log'"),
        "{said}"
    );
    assert!(!said.contains("'--pid', 'pid'"), "{said}");
    copy.stop().unwrap();
}

#[test]
fn more_open_files_are_had_by_a_copy() {
    let more = "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 1024))";
    // The limit is the program's own here, and the copy of the program sets it again: said, and not hidden.
    let Some(server) = Server::start(more, &["--bind", "ADDRESS"], &[]) else {
        return;
    };
    let copy = server
        .copy(&[set(&["limits"], "LimitNOFILE=128", &[])])
        .unwrap_or_else(|e| panic!("{e}"));
    let missing = copy.missing().join("; ");
    assert!(
        missing.contains("limit of open files 128:1024 (it has 64:1024)"),
        "{missing}"
    );
    copy.stop().unwrap();
}

#[test]
fn what_would_be_shared_is_refused_with_its_remedy() {
    let second = "import socket\nsecond = socket.create_server(('127.0.0.1', 0))";
    let title = "\
import ctypes
held = open('/proc/self/stat').read().rsplit(')', 1)[1].split()
begins, ends = int(held[45]), int(held[46])
title = b'server: main'
ctypes.memset(begins, 0, ends - begins)
ctypes.memmove(begins, title, len(title))";
    for (more, args, env, changes, cause, remedy) in [
        (
            "held = open('app.log', 'a')",
            &["--bind", "ADDRESS"][..],
            &[][..],
            vec![],
            "it writes to ",
            "give the file by an argument",
        ),
        (
            second,
            &["--bind", "ADDRESS"],
            &[],
            vec![],
            "neither its command line nor its environment says that it listens on 127.0.0.1:",
            "--bind HOST:PORT",
        ),
        (
            "",
            &["--bind", "ADDRESS", "--also", "ADDRESS"],
            &[],
            vec![],
            "several words could tell it",
            "HOST:PORT",
        ),
        (
            title,
            &["--bind", "ADDRESS"],
            &[],
            vec![],
            "it has written a title over its command line",
            "setproctitle",
        ),
        (
            "",
            &["--bind", "ADDRESS"],
            &[],
            vec![set(&["limits"], "TasksMax=5", &[])],
            "`TasksMax=5` is no limit that a copy can have",
            "by hand",
        ),
        (
            "",
            &["--bind", "ADDRESS"],
            &[],
            vec![set(&["limits"], "CPUQuota=200%", &[])],
            "",
            "change the limit where it is set",
        ),
        (
            "",
            &["--bind", "ADDRESS"],
            &[],
            vec![set(&["http"], "gzip", &["on"])],
            "there is no `gzip` to change",
            "",
        ),
        // It says that it listens elsewhere than it does: the copy cannot have the address.
        (
            "address = os.environ['REAL']",
            &["--bind", "127.0.0.1:1"],
            &[("REAL", "ADDRESS")],
            vec![],
            "neither its command line nor its environment",
            "--port N",
        ),
    ] {
        let Some(server) = Server::start(more, args, env) else {
            return;
        };
        let before = get(server.address);
        let refused = server.copy(&changes).err().unwrap_or_default();
        assert!(
            refused.starts_with("cannot copy")
                && refused.contains(cause)
                && refused.contains(remedy),
            "{cause}: {refused}"
        );
        assert_eq!(get(server.address), before, "{cause}");
    }
}
