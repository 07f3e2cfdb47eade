//! Real servers, started beside prony and found by nothing but their address.
//!
//! nginx and HAProxy must be installed (`make test` sees to it); a test of any other server is passed over
//! where that server is not.

use record::Server;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use sut::{config, discover};

/// A server in a process group of its own, which ends with this value.
pub struct Alone {
    child: Child,
    pub address: SocketAddr,
    pub dir: tempfile::TempDir,
}

impl Alone {
    /// Starts `words`, in which `DIR` and `PORT` are filled in, as in the files. `None` when it is not installed.
    pub fn start(words: &[&str], files: &[(&str, &str)]) -> Option<Self> {
        Self::start_with(words, files, &[])
    }

    pub fn start_with(
        words: &[&str],
        files: &[(&str, &str)],
        env: &[(&str, &str)],
    ) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let address = free();
        let fill = |text: &str| {
            text.replace("DIR", &dir.path().display().to_string())
                .replace("PORT", &address.port().to_string())
        };
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("within the directory"))
                .expect("a directory");
            std::fs::write(path, fill(text)).expect("a file");
        }
        let words: Vec<String> = words.iter().map(|w| fill(w)).collect();
        let program = installed(&words[0])?;
        let output = std::fs::File::create(dir.path().join("output")).expect("a file");
        let child = Command::new(program)
            .args(&words[1..])
            .envs(env.iter().map(|(name, value)| (name, fill(value))))
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a descriptor"))
            .stderr(output)
            .process_group(0)
            .spawn()
            .expect("a process");
        let server = Self {
            child,
            address,
            dir,
        };
        server.wait();
        Some(server)
    }

    fn wait(&self) {
        let started = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "{}",
                std::fs::read_to_string(self.dir.path().join("output")).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn found(&self) -> Server {
        let mut server = discover::behind(self.address).expect("it is found");
        config::read(&mut server);
        server
    }

    /// Looks again until it has so many processes: workers come after the socket, and a master that replaces itself has
    /// it in between in no process that can be looked at.
    pub fn found_with(&self, processes: usize) -> Server {
        let started = Instant::now();
        let has_all = |server: &Server| server.processes.len() >= processes;
        while !discover::behind(self.address).is_some_and(|server| has_all(&server))
            && started.elapsed() < Duration::from_secs(30)
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.found()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            // SAFETY: a system call on integers; the child has not been waited for, so the group is its own.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        let _ = self.child.wait();
    }
}

/// A port of its own for each caller, below those that the system gives to whoever asks for any: another test's server
/// may ask so.
pub fn free() -> SocketAddr {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let first = 18_000 + (std::process::id() % 1_000) as u16 * 10;
    let ports = std::iter::repeat_with(|| first + TAKEN.fetch_add(1, Ordering::Relaxed));
    let mut addresses = ports
        .take(2_000)
        .map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let free = addresses.find(|address| TcpListener::bind(address).is_ok());
    free.expect("a free port")
}

fn installed(program: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin:/usr/local/sbin";
    let found = path
        .split(':')
        .map(|dir| Path::new(dir).join(program))
        .find(|p| p.is_file());
    found.map(|p| p.display().to_string())
}

pub fn values(server: &Server, name: &str) -> Vec<String> {
    let of = |d: &record::Directive| d.args.join(" ");
    server
        .directives
        .iter()
        .filter(|d| d.name == name)
        .map(of)
        .collect()
}

fn roles(server: &Server) -> Vec<&str> {
    server.processes.iter().map(|p| p.role.as_str()).collect()
}

pub const NGINX: &str = "daemon off;\nworker_processes 2;\npid DIR/nginx.pid;\nerror_log DIR/error.log;\n\
    events { worker_connections 64; }\nhttp {\n access_log DIR/access.log;\n client_body_temp_path DIR/a; proxy_temp_path DIR/b;\n \
    fastcgi_temp_path DIR/c; uwsgi_temp_path DIR/d; scgi_temp_path DIR/e;\n include DIR/on/*.conf;\n}\n";

#[test]
fn nginx_with_its_workers_and_included_files() {
    let site = "server { listen 127.0.0.1:PORT; location / { return 200 ok; } }\n";
    let server = Alone::start(
        &["nginx", "-p", "DIR", "-c", "nginx.conf"],
        &[("nginx.conf", NGINX), ("on/a.conf", site)],
    )
    .expect("nginx is installed");
    let found = server.found_with(3);
    assert_eq!(
        (found.kind.as_str(), found.target.as_str()),
        ("nginx", "server")
    );
    assert!(found.version.starts_with("nginx/"), "{found:?}");
    assert_eq!(roles(&found), ["main", "worker", "worker"]);
    assert_eq!(found.main_pid, i32::try_from(server.child.id()).unwrap());
    assert_eq!(found.listens, [server.address.to_string()]);
    assert_eq!(values(&found, "worker_processes"), ["2"]);
    let returned = found
        .directives
        .iter()
        .find(|d| d.name == "return")
        .unwrap();
    assert_eq!(returned.context, ["http", "server", "location /"]);
    assert!(
        returned.file.ends_with("/on/a.conf") && returned.line == 1,
        "{returned:?}"
    );
    assert_eq!(found.config_files.len(), 2);
    let worker = &found.processes[1];
    assert!(worker.open_files_limit.is_some() && !worker.cpus.is_empty());
    // By a worker's number as well as by the address.
    assert_eq!(
        discover::of_pids(&[worker.pid], "s").main_pid,
        found.main_pid
    );
}

#[test]
fn haproxy_and_the_server_behind_it() {
    let site = "server { listen 127.0.0.1:PORT; location / { return 200 ok; } }\n";
    let behind = Alone::start(
        &["nginx", "-p", "DIR", "-c", "nginx.conf"],
        &[("nginx.conf", NGINX), ("on/a.conf", site)],
    )
    .expect("nginx is installed");
    let conf = format!(
        "global\n maxconn 100\ndefaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 50s\n\
         frontend f\n bind 127.0.0.1:PORT\n default_backend b\nbackend b\n http-reuse always\n server s {}\n",
        behind.address
    );
    let front = Alone::start(&["haproxy", "-W", "-f", "h.cfg"], &[("h.cfg", &conf)])
        .expect("haproxy is installed");
    let found = front.found_with(2);
    assert_eq!(found.kind, "haproxy");
    assert!(
        found.version.to_lowercase().contains("haproxy"),
        "{found:?}"
    );
    assert_eq!(roles(&found), ["main", "worker"]);
    let context = ["frontend f".to_owned()];
    let timeouts = config::effective(&found.directives, "timeout", &context);
    assert_eq!(timeouts.len(), 3);
    // One connection is kept open to the proxy and by it to the server behind.
    let mut client = TcpStream::connect(front.address).unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut first = [0; 12];
    client.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let upstreams = discover::upstreams(std::slice::from_ref(&found));
    let name = format!("upstream-{}", behind.address.port());
    assert_eq!(upstreams.len(), 1, "{upstreams:?}");
    let (peer, server) = &upstreams[0];
    assert_eq!(
        (peer.address.as_str(), peer.connections),
        (behind.address.to_string().as_str(), 1)
    );
    assert_eq!(peer.target.as_deref(), Some(name.as_str()));
    assert_eq!(
        server
            .as_ref()
            .map(|s| (s.kind.as_str(), s.target.as_str())),
        Some(("nginx", name.as_str()))
    );
}

#[test]
fn apache_with_its_children() {
    let conf = "ServerRoot DIR\nPidFile DIR/pid\nErrorLog DIR/error.log\nListen 127.0.0.1:PORT\nServerName x\n\
        LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n\
        LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
        <IfModule mpm_event_module>\nThreadsPerChild ${PRONY_TEST_THREADS}\nMaxRequestWorkers 10\n</IfModule>\nDefaultRuntimeDir DIR\nMutex file:DIR\nUser www-data\nGroup www-data\n";
    let Some(server) = Alone::start_with(
        &["apache2", "-d", "DIR", "-f", "a.conf", "-DFOREGROUND"],
        &[("a.conf", conf)],
        &[("PRONY_TEST_THREADS", "5")],
    ) else {
        return;
    };
    let found = server.found_with(2);
    assert_eq!(found.kind, "apache");
    assert!(found.version.starts_with("Apache/"), "{}", found.version);
    assert_eq!(found.main_pid, i32::try_from(server.child.id()).unwrap());
    assert_eq!(values(&found, "ThreadsPerChild"), ["5"]);
    assert_eq!(roles(&found)[..2], ["main", "worker"]);
}

#[test]
fn lighttpd_alone() {
    let conf = "server.document-root = \"DIR\"\nserver.port = PORT\nserver.bind = \"127.0.0.1\"\nserver.max-connections = 50\n";
    let Some(server) = Alone::start(&["lighttpd", "-D", "-f", "l.conf"], &[("l.conf", conf)])
    else {
        return;
    };
    let found = server.found();
    assert_eq!(
        (found.kind.as_str(), roles(&found)),
        ("lighttpd", vec!["main"])
    );
    assert!(found.version.starts_with("lighttpd/"), "{}", found.version);
    assert_eq!(values(&found, "server.max-connections"), ["50"]);
}

#[test]
fn varnish_with_its_child() {
    let vcl = "vcl 4.0;\nbackend default { .host = \"127.0.0.1\"; .port = \"1\"; .max_connections = 7; }\n";
    let words = [
        "varnishd",
        "-F",
        "-n",
        "DIR/n",
        "-a",
        "127.0.0.1:PORT",
        "-f",
        "DIR/v.vcl",
        "-p",
        "thread_pools=1",
        "-s",
        "malloc,16m",
        "-j",
        "none",
    ];
    let Some(server) = Alone::start(&words, &[("v.vcl", vcl)]) else {
        return;
    };
    let found = server.found_with(2);
    assert_eq!(
        (found.kind.as_str(), roles(&found)),
        ("varnish", vec!["main", "worker"])
    );
    assert!(found.version.contains("varnish-"), "{}", found.version);
    assert_eq!(values(&found, "thread_pools"), ["1"]);
    assert_eq!(values(&found, ".max_connections"), ["7"]);
    assert_eq!(values(&found, "-s"), ["malloc,16m"]);
}

#[test]
fn php_fpm_with_its_pool() {
    let Some(program) = (0..10)
        .map(|n| format!("php-fpm8.{n}"))
        .find(|p| installed(p).is_some())
    else {
        return;
    };
    let conf = "[global]\nerror_log = DIR/log\ninclude = DIR/pool/*.conf\n";
    let pool = "[www]\nuser = www-data\ngroup = www-data\nlisten = 127.0.0.1:PORT\npm = static\npm.max_children = 2\n";
    let server = Alone::start(
        &[&program, "-F", "-y", "DIR/f.conf"],
        &[("f.conf", conf), ("pool/w.conf", pool)],
    )
    .expect("it was found above");
    let found = server.found_with(3);
    assert_eq!(
        (found.kind.as_str(), roles(&found)),
        ("php-fpm", vec!["main", "worker", "worker"])
    );
    assert!(found.version.starts_with("PHP "), "{}", found.version);
    assert_eq!(values(&found, "pm.max_children"), ["2"]);
}

#[test]
fn gunicorn_is_python_with_workers() {
    let app = "def x(environ, start):\n    start('200 OK', [])\n    return [b'ok']\n";
    let words = [
        "gunicorn",
        "--workers",
        "2",
        "--bind",
        "127.0.0.1:PORT",
        "app:x",
    ];
    let Some(server) = Alone::start(&words, &[("app.py", app)]) else {
        return;
    };
    let found = server.found_with(3);
    assert_eq!(
        (found.kind.as_str(), roles(&found)),
        ("python", vec!["main", "worker", "worker"])
    );
    assert!(
        found.version.starts_with("gunicorn, Python 3"),
        "{}",
        found.version
    );
}

#[test]
fn node_with_its_variables() {
    let script = "require('http').createServer((q, a) => a.end('ok')).listen(PORT, '127.0.0.1')";
    let Some(server) = Alone::start_with(
        &["node", "a.js"],
        &[("a.js", script)],
        &[("UV_THREADPOOL_SIZE", "2")],
    ) else {
        return;
    };
    let found = server.found();
    assert_eq!((found.kind.as_str(), roles(&found)), ("node", vec!["main"]));
    assert!(found.version.starts_with('v'), "{}", found.version);
    assert_eq!(values(&found, "UV_THREADPOOL_SIZE"), ["2"]);
}

#[test]
fn python_is_not_mistaken_for_the_python_that_started_it() {
    let script = "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'http.server', 'PORT', '--bind', '127.0.0.1'])\n";
    let server =
        Alone::start(&["python3", "a.py"], &[("a.py", script)]).expect("python3 is installed");
    let found = server.found();
    assert_eq!(
        (found.kind.as_str(), roles(&found)),
        ("python", vec!["main"])
    );
    assert_ne!(found.main_pid, i32::try_from(server.child.id()).unwrap());
    assert!(found.version.contains("Python 3"), "{}", found.version);
}

#[test]
fn go_is_known_by_what_its_linker_left() {
    if installed("go").is_none() {
        return;
    }
    let build = tempfile::tempdir().unwrap();
    let source = build.path().join("a.go");
    let text = "package main\nimport (\"net/http\"; \"os\")\nfunc main() { http.ListenAndServe(\"127.0.0.1:\"+os.Args[1], nil) }\n";
    std::fs::write(&source, text).unwrap();
    let program = build.path().join("served");
    let built = Command::new(installed("go").unwrap())
        .args(["build", "-ldflags=-s -w", "-o"])
        .args([&program, &source])
        .env("GO111MODULE", "off")
        .status()
        .unwrap();
    assert!(built.success());
    let program = program.display().to_string();
    let server = Alone::start_with(&[&program, "PORT"], &[], &[("GOMAXPROCS", "1")]).unwrap();
    let found = server.found();
    assert_eq!(
        (found.kind.as_str(), found.processes[0].allocator.as_str()),
        ("go", "own")
    );
    assert!(found.version.starts_with("go1."), "{}", found.version);
    assert_eq!(values(&found, "GOMAXPROCS"), ["1"]);
}

#[test]
fn tomcat_with_its_connector_and_its_machine() {
    let home = Path::new("/usr/share/tomcat10");
    if installed("java").is_none() || !home.is_dir() {
        return;
    }
    let xml = "<Server port=\"-1\">\n <Service name=\"Catalina\">\n  <Connector address=\"127.0.0.1\" port=\"PORT\" maxThreads=\"7\"/>\n\
        <Engine name=\"Catalina\" defaultHost=\"localhost\"><Host name=\"localhost\" appBase=\"webapps\"/></Engine>\n </Service>\n</Server>\n";
    let words = [
        "java",
        "-Xmx64m",
        "-XX:+UseSerialGC",
        "-cp",
        "/usr/share/tomcat10/bin/bootstrap.jar:/usr/share/tomcat10/bin/tomcat-juli.jar",
        "-Dcatalina.home=/usr/share/tomcat10",
        "-Dcatalina.base=DIR",
        "-Djava.io.tmpdir=DIR",
        "org.apache.catalina.startup.Bootstrap",
        "start",
    ];
    let Some(server) = Alone::start(&words, &[("conf/server.xml", xml), ("webapps/x", "")]) else {
        return;
    };
    let found = server.found();
    assert_eq!(
        (found.kind.as_str(), roles(&found)),
        ("tomcat", vec!["main"])
    );
    assert!(found.version.contains("Java "), "{}", found.version);
    assert_eq!(values(&found, "maxThreads"), ["7"]);
    assert_eq!(values(&found, "-Xmx"), ["64m"]);
    assert!(
        found
            .directives
            .iter()
            .any(|d| d.name == "-XX:+UseSerialGC")
    );
}
