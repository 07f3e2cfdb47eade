//! Copies of real configurations: a second instance runs beside the first, changed, and leaves it alone.

use crate::discover::{Alone, NGINX, free, values};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use sut::config::{self, ChangeAction, ConfigChange, CopiedConfig};
use sut::{Journal, Launcher, RunningTarget, TargetError, discover};

fn change(action: ChangeAction, context: &[&str], name: &str, args: &[&str]) -> ConfigChange {
    let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
    ConfigChange {
        action,
        context: owned(context),
        name: name.to_owned(),
        args: owned(args),
        from: Vec::new(),
    }
}

/// Runs a copy; ended by [`end`].
fn run(copied: &CopiedConfig, address: SocketAddr) -> Child {
    let mut command = Command::new(&copied.argv[0]);
    command.args(&copied.argv[1..]);
    listening(command.current_dir(&copied.directory), address)
}

fn listening(command: &mut Command, address: SocketAddr) -> Child {
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .spawn()
        .expect("the copy starts");
    let started = Instant::now();
    while TcpStream::connect(address).is_err() {
        let ended = child.try_wait().expect("a child");
        assert!(
            ended.is_none() && started.elapsed() < Duration::from_secs(60),
            "{ended:?}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn end(mut child: Child) {
    let pid = i32::try_from(child.id()).expect("a process id");
    // SAFETY: a system call on integers; the child has not been waited for.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    child.wait().expect("a child");
}

fn get(address: SocketAddr) -> String {
    ask_for(address, "/")
}

fn ask_for(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connecting");
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("asking");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = std::fs::read_dir(dir)
        .expect("a directory")
        .filter_map(|e| {
            let path = e.expect("an entry").path();
            Some((path.display().to_string(), std::fs::read(&path).ok()?))
        })
        .collect();
    all.sort();
    all
}

#[test]
fn a_changed_nginx_beside_the_first() {
    let site = "server { listen 127.0.0.1:PORT; listen unix:DIR/u.sock; location / { return 200 $gzip; } }\n\
        map $host $gzip { default \"a b\"; }\n";
    let first = Alone::start(
        &["nginx", "-p", "DIR", "-c", "nginx.conf"],
        &[("nginx.conf", NGINX), ("on/a.conf", site)],
    )
    .expect("nginx is installed");
    let found = first.found_with(3);
    let dir = tempfile::tempdir().unwrap();
    let listen = free();
    let changes = [
        change(ChangeAction::Set, &[], "worker_processes", &["1"]),
        change(
            ChangeAction::Set,
            &["http", "server", "location /"],
            "add_header",
            &["X-Changed", "yes it is"],
        ),
    ];
    let before = contents(first.dir.path());
    let copied = config::copy(&found, &changes, dir.path(), first.address, listen).unwrap();
    let child = run(&copied, listen);
    let answer = get(listen);
    assert!(
        answer.contains("X-Changed: yes it is\r\n") && answer.ends_with("\r\n\r\na b"),
        "{answer}"
    );
    let mut second = discover::behind(listen).unwrap();
    config::read(&mut second);
    assert_eq!(values(&second, "worker_processes"), ["1"]);
    assert_eq!(second.exe, found.exe);
    end(child);
    assert_eq!(
        contents(first.dir.path()),
        before,
        "its files are as they were"
    );
    assert!(get(first.address).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_change_without_a_place_is_refused() {
    let site = "server { listen 127.0.0.1:PORT; }\n";
    let first = Alone::start(
        &["nginx", "-p", "DIR", "-c", "nginx.conf"],
        &[("nginx.conf", NGINX), ("on/a.conf", site)],
    )
    .expect("nginx is installed");
    let dir = tempfile::tempdir().unwrap();
    let nowhere = [change(
        ChangeAction::Set,
        &["http", "upstream b"],
        "keepalive",
        &["8"],
    )];
    let error =
        config::copy(&first.found(), &nowhere, dir.path(), first.address, free()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no `keepalive` to change in `http > upstream b`"),
        "{error}"
    );
    let mut other = first.found();
    other.kind = "generic".to_owned();
    let error = config::copy(&other, &[], dir.path(), first.address, free()).unwrap_err();
    assert!(matches!(error, TargetError::CannotCopy { .. }) && !error.remedy().is_empty());
}

#[test]
fn a_changed_haproxy_beside_the_first() {
    let conf = "global\n stats socket DIR/stats\n pidfile DIR/pid\ndefaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
        frontend f\n bind 127.0.0.1:PORT,DIR/u.sock\n http-request return status 200 content-type \"text/plain\" string \"first\"\n";
    let first = Alone::start(&["haproxy", "-W", "-f", "h.cfg"], &[("h.cfg", conf)])
        .expect("haproxy is installed");
    let found = first.found_with(2);
    let dir = tempfile::tempdir().unwrap();
    let listen = free();
    let changes = [
        change(
            ChangeAction::Replace,
            &["frontend f"],
            "http-request",
            &[
                "return",
                "status",
                "200",
                "content-type",
                "text/plain",
                "string",
                "the second",
            ],
        ),
        change(
            ChangeAction::Set,
            &["defaults"],
            "timeout",
            &["client", "7s"],
        ),
    ];
    let before = std::fs::read_to_string(first.dir.path().join("h.cfg")).unwrap();
    let copied = config::copy(&found, &changes, dir.path(), first.address, listen).unwrap();
    let child = run(&copied, listen);
    assert!(get(listen).ends_with("the second"));
    let mut second = discover::behind(listen).unwrap();
    config::read(&mut second);
    assert_eq!(
        values(&second, "timeout"),
        ["connect 5s", "client 7s", "server 5s"]
    );
    end(child);
    assert!(get(first.address).ends_with("first"));
    assert_eq!(
        std::fs::read_to_string(first.dir.path().join("h.cfg")).unwrap(),
        before
    );
    assert!(first.dir.path().join("u.sock").exists());
}

/// As Debian lays it out: ports, modules and sites in files of their own, paths from the environment.
const APACHE: &str = "ServerRoot DIR\nServerName x\nPidFile ${APACHE_RUN}/pid\nMutex file:${APACHE_RUN} default\n\
    DefaultRuntimeDir ${APACHE_RUN}\nErrorLog logs/e.log\nKeepAlive Off\n\
    IncludeOptional mods/*.load\nInclude ports.conf\nIncludeOptional sites/*.conf\nIncludeOptional none.conf\n";
const APACHE_MODULES: &str = "LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n\
    LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n";
/// The default site is another one: who asks the copy must get the one that is asked for.
const APACHE_SITES: &str = "<VirtualHost *:80>\nDocumentRoot DIR/none\n</VirtualHost>\n\
    <VirtualHost 127.0.0.1:PORT>\nDocumentRoot DIR/site\n CustomLog ${APACHE_RUN}/a.log \"%h \\\"%r\\\"\"\n\
    <Directory DIR/site>\nRequire all granted\n</Directory>\n</VirtualHost>\n";

#[test]
fn a_changed_apache_beside_the_first() {
    let first = Alone::start_with(
        &["apache2", "-f", "DIR/a.conf", "-DFOREGROUND"],
        &[
            ("a.conf", APACHE),
            ("ports.conf", "Listen PORT\n"),
            ("mods/a.load", APACHE_MODULES),
            ("sites/a.conf", APACHE_SITES),
            ("site/index.html", "first"),
            ("logs/none", ""),
        ],
        &[("APACHE_RUN", "DIR")],
    )
    .expect("apache2 is installed");
    let found = first.found_with(2);
    let dir = tempfile::tempdir().unwrap();
    let listen = free();
    let mut on = change(ChangeAction::Set, &[], "KeepAlive", &["On"]);
    on.from = vec!["Off".to_owned()];
    assert!(get(first.address).contains("Connection: close"));
    let before = contents(first.dir.path());
    let copied = config::copy(&found, &[on], dir.path(), first.address, listen).unwrap();
    let child = run(&copied, listen);
    let asked = "GET /index.html HTTP/1.0\r\nConnection: keep-alive\r\nKeep-Alive: 1\r\n\r\n";
    let mut stream = TcpStream::connect(listen).unwrap();
    stream.write_all(asked.as_bytes()).unwrap();
    let mut answer = [0; 4096];
    let length = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert!(
        answer.contains("200 OK") && answer.contains("Connection: Keep-Alive"),
        "{answer}"
    );
    drop(stream);
    let mut second = discover::behind(listen).unwrap();
    config::read(&mut second);
    assert_eq!(values(&second, "KeepAlive"), ["On"]);
    assert_eq!((&second.exe, &second.kind), (&found.exe, &found.kind));
    end(child);
    assert_eq!(
        contents(first.dir.path()),
        before,
        "its files are as they were"
    );
    assert!(get(first.address).starts_with("HTTP/1.1 "));
}

/// As Debian lays it out: a part is what a program prints, another what a directory holds; a port is computed.
const LIGHTTPD: &str = "server.modules = ( \"mod_accesslog\" )\nserver.document-root = \"DIR/site\"\nserver.bind = \"127.0.0.1\"\n\
    server.port = env.L_AT\nserver.pid-file = \"DIR/pid\"\nserver.errorlog = \"DIR/e.log\"\nvar.logs = \"DIR\"\n\
    include_shell \"cat DIR/printed.conf; echo \" + \"ran >> DIR/ran\"\ninclude \"on/*.conf\"\n";
const LIGHTTPD_ON: &str = "accesslog.filename = logs + \"/a.log\"\nindex-file.names += ( \"a.txt\" )\n\
    $SERVER[\"socket\"] == \"127.0.0.2:PORT\" { server.tag = \"other\" }\n$SERVER[\"socket\"] == \"DIR/u.sock\" { }\n\
    $HTTP[\"url\"] =~ \"^/\" {\n server.tag = \"first\"\n} else $HTTP[\"url\"] =~ \"^/b\\.c*$\" { server.tag = \"none\" }\n";

fn lighttpd(printed: &str) -> Alone {
    Alone::start_with(
        &["lighttpd", "-D", "-f", "l.conf"],
        &[
            ("l.conf", LIGHTTPD),
            ("printed.conf", printed),
            ("on/a.conf", LIGHTTPD_ON),
            ("site/a.txt", "ok"),
        ],
        &[("L_AT", "PORT")],
    )
    .expect("lighttpd is installed")
}

#[test]
fn a_changed_lighttpd_beside_the_first() {
    let first = lighttpd("server.max-keep-alive-requests = 0\n");
    let found = first.found();
    let dir = tempfile::tempdir().unwrap();
    let listen = free();
    let on = change(
        ChangeAction::Set,
        &[],
        "server.max-keep-alive-requests",
        &["=", "100"],
    );
    let tag = change(
        ChangeAction::Set,
        &["$HTTP[\"url\"] =~ \"^/\""],
        "server.tag",
        &["=", "the second"],
    );
    let copied = config::copy(&found, &[on, tag], dir.path(), first.address, listen).unwrap();
    let noted = |text: &str| copied.notes.iter().any(|n| n.contains(text));
    assert!(
        noted("include_shell") && noted("listener at port"),
        "{:?}",
        copied.notes
    );
    let before = contents(first.dir.path());
    let child = run(&copied, listen);
    let mut stream = TcpStream::connect(listen).unwrap();
    let asked = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    stream.write_all(asked.as_bytes()).unwrap();
    let mut answer = [0; 4096];
    let length = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    drop(stream);
    assert!(
        answer.contains("200 OK")
            && answer.contains("Connection: keep-alive")
            && answer.contains("Server: the second"),
        "{answer}"
    );
    let mut second = discover::behind(listen).unwrap();
    config::read(&mut second);
    assert_eq!(values(&second, "server.max-keep-alive-requests"), ["100"]);
    assert_eq!((&second.exe, &second.kind), (&found.exe, &found.kind));
    assert_eq!(second.listens.len(), found.listens.len());
    assert!(second.listens.iter().all(|l| !found.listens.contains(l)));
    end(child);
    assert_eq!(
        contents(first.dir.path()),
        before,
        "its files are as they were"
    );
    let answer = get(first.address);
    assert!(
        answer.contains("Server: first") && answer.ends_with("ok"),
        "{answer}"
    );
}

/// Whoever may write the configuration says what `include_shell` runs: root asks as that user.
#[test]
fn a_lighttpd_that_gave_root_away_is_asked_as_its_user() {
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let conf = "server.document-root = \"DIR\"\nserver.bind = \"127.0.0.1\"\nserver.port = PORT\nserver.username = \"nobody\"\n\
        server.groupname = \"nogroup\"\ninclude_shell \"chmod 755 DIR; touch DIR/ran; chmod 666 DIR/ran; id -u >> DIR/ran; id -G >> DIR/ran\"\n";
    let first = Alone::start(&["lighttpd", "-D", "-f", "DIR/l.conf"], &[("l.conf", conf)])
        .expect("lighttpd is installed");
    let dir = tempfile::tempdir().unwrap();
    let copied = config::copy(&first.found(), &[], dir.path(), first.address, free());
    copied.unwrap_or_else(|e| panic!("{e}"));
    let ran = std::fs::read_to_string(first.dir.path().join("ran")).unwrap();
    let who: Vec<&str> = ran.lines().collect();
    assert_eq!((who[0], &who[2..]), ("0", &["65534", "65534"][..]), "{ran}");
}

#[test]
fn a_lighttpd_that_cannot_be_asked_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (printed, then, cause) in [
        // Printed as a text that ends early.
        (
            "$HTTP[\"url\"] =~ \"a\\\"b\" { }\n",
            None,
            "otherwise than it reads it",
        ),
        ("a = 1\n", Some("b = ("), "`/usr/sbin/lighttpd -p`"),
    ] {
        let first = lighttpd(printed);
        if let Some(then) = then {
            std::fs::write(first.dir.path().join("printed.conf"), then).unwrap();
        }
        let error = config::copy(&first.found(), &[], dir.path(), first.address, free());
        let error = error.unwrap_err();
        assert!(error.to_string().contains(cause), "{error}");
        assert!(!error.remedy().is_empty());
    }
}

/// A server that answers `ok`.
const SITE: &str = "server { listen 127.0.0.1:PORT; location / { return 200 ok; } }\n";

/// nginx, started by a shell with `before` in front of it, and a copy as a proof makes it.
fn copy_of_nginx_under(before: &str) -> (Alone, RunningTarget, tempfile::TempDir) {
    let script = format!("{before} nginx -p DIR -c nginx.conf");
    let first = Alone::start(
        &["sh", "-c", &script],
        &[("nginx.conf", NGINX), ("on/a.conf", SITE)],
    )
    .expect("a shell");
    let state = tempfile::tempdir().expect("a temporary directory");
    let launcher = Launcher {
        journal: Journal::open(state.path()).expect("a journal"),
        prony: "/nonexistent/prony".into(),
        // Another user must be able to reach it.
        work_dir: std::env::temp_dir(),
    };
    let found = first.found_with(3);
    let copy = launcher
        .start_copy(
            "copy",
            &found,
            &[],
            first.address,
            first.address.ip(),
            &|| false,
        )
        .unwrap_or_else(|e| panic!("{e}"));
    (first, copy, state)
}

/// Everything of a process that a copy takes over, as /proc prints it.
fn conditions(pid: i32) -> Vec<String> {
    let read =
        |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("it runs");
    let of_user = [
        "Uid:",
        "Gid:",
        "Groups:",
        "CapInh:",
        "CapBnd:",
        "CapAmb:",
        "Cpus_allowed:",
    ];
    let status = read("status");
    let lines = status
        .lines()
        .filter(|l| of_user.iter().any(|o| l.starts_with(o)));
    let stat = read("stat");
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let nice = fields
        .split_whitespace()
        .nth(16)
        .expect("a nice value")
        .to_owned();
    lines
        .chain(read("limits").lines())
        .map(str::to_owned)
        .chain([nice])
        .collect()
}

#[test]
fn a_copy_runs_under_the_conditions_of_its_original() {
    let cpus = linux::affinity::of(0).unwrap();
    let limits = format!(
        "exec prlimit --nofile=700:900 --memlock=65536:65536 nice -n 3 taskset -c {}",
        cpus.last().unwrap()
    );
    // SAFETY: the call takes nothing and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let before = match is_root {
        true => format!(
            "chown -R 65534:65534 DIR; {limits} setpriv --reuid=65534 --regid=65534 --groups=4,24 \
             --bounding-set=-sys_boot --inh-caps=-all,+net_bind_service --ambient-caps=+net_bind_service"
        ),
        false => limits,
    };
    let (first, copy, _state) = copy_of_nginx_under(&before);
    let original = conditions(first.found().main_pid);
    assert!(
        original
            .iter()
            .any(|l| l.starts_with("Max open files            700 "))
    );
    assert!(!is_root || original.iter().any(|l| l.starts_with("Uid:\t65534")));
    assert_eq!(conditions(copy.processes()[0].pid), original);
    assert_eq!(copy.missing(), [""; 0]);
    assert!(get(copy.address()).ends_with("ok"));
}

#[test]
fn a_copy_is_held_to_what_holds_its_original() {
    let own = format!("prony-test-{}", std::process::id());
    let places = [
        ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "50000"),
        ("/sys/fs/cgroup", "cpu.max", "50000 100000"),
    ];
    let made = places.into_iter().find_map(|(hierarchy, file, value)| {
        let dir = Path::new(hierarchy).join(&own);
        std::fs::create_dir(&dir).ok()?;
        match std::fs::write(dir.join(file), value) {
            Ok(()) => Some((dir, file)),
            Err(_) => std::fs::remove_dir(dir).ok().and(None),
        }
    });
    let Some((theirs, file)) = made else {
        eprintln!("this user cannot make a control group with a limit: not tested");
        return;
    };
    let before = format!("echo $$ > {}/cgroup.procs; exec", theirs.display());
    let (first, copy, _state) = copy_of_nginx_under(&before);
    let hierarchy = theirs.parent().unwrap();
    let group_of = |pid: i32| {
        let lines = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        let mut groups = lines.lines().filter_map(|l| l.splitn(3, ':').nth(2));
        groups.find(|g| g.contains("prony-")).map(str::to_owned)
    };
    let group = group_of(copy.processes()[0].pid).expect("a group of its own");
    assert_eq!(copy.missing(), [""; 0]);
    assert_ne!(Some(&group), group_of(first.found().main_pid).as_ref());
    let ours = hierarchy.join(group.trim_start_matches('/'));
    let limit = |dir: &Path| std::fs::read_to_string(dir.join(file)).unwrap();
    assert_eq!(limit(&ours), limit(&theirs));
    copy.stop().unwrap();
    assert!(!ours.exists(), "the copy's group goes with it");
    drop(first);
    while theirs.exists() && std::fs::remove_dir(&theirs).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// As a service starts it: as root, from where it becomes other users; a part of its VCL is included.
const VARNISH: &str = "chmod 755 DIR; exec varnishd -F -a 127.0.0.1:PORT -a DIR/u.sock -n DIR/n -P DIR/pid -S DIR/secret \
    -T 127.0.0.1:0 -s file,DIR/store,1m -p thread_pool_min=10 -f DIR/v.vcl";
const VCL: &str =
    "vcl 4.1;\ninclude \"./part.vcl\";\nsub vcl_recv { return (synth(200, \"first\")); }\n";

fn varnish() -> Option<Alone> {
    let files = [
        ("v.vcl", VCL),
        ("part.vcl", "vcl 4.1;\nbackend default none;\n"),
        ("secret", "s"),
    ];
    let is_installed = Path::new("/usr/sbin/varnishd").exists();
    is_installed.then(|| Alone::start(&["sh", "-c", VARNISH], &files).expect("a shell"))
}

/// Asks its management process.
fn managed(first: &Alone, words: &[&str]) {
    let directory = first.dir.path().join("n");
    let out = Command::new("varnishadm")
        .arg("-n")
        .arg(directory)
        .args(words)
        .output()
        .expect("varnishadm is installed with varnishd");
    assert!(out.status.success(), "{out:?}");
}

#[test]
fn a_changed_varnish_beside_the_first() {
    let Some(first) = varnish() else {
        return;
    };
    let found = first.found_with(2);
    // What is loaded and set while it runs is what it works with.
    let later = first.dir.path().join("later.vcl");
    std::fs::write(&later, VCL.replace("first", "later")).unwrap();
    managed(&first, &["vcl.load", "later", later.to_str().unwrap()]);
    managed(&first, &["vcl.use", "later"]);
    managed(&first, &["param.set", "timeout_idle", "33"]);
    let changes = [
        change(ChangeAction::Set, &["param"], "-p", &["listen_depth=4096"]),
        change(ChangeAction::Set, &["param"], "-p", &["thread_pool_min=12"]),
    ];
    let before = contents(first.dir.path());
    let state = tempfile::tempdir().unwrap();
    let launcher = Launcher {
        journal: Journal::open(state.path()).unwrap(),
        prony: "/nonexistent/prony".into(),
        work_dir: std::env::temp_dir(),
    };
    let ip = first.address.ip();
    let copy = launcher.start_copy("copy", &found, &changes, first.address, ip, &|| false);
    let copy = copy.unwrap_or_else(|e| panic!("{e}"));
    assert!(get(copy.address()).starts_with("HTTP/1.1 200 later"));
    let mut second = discover::behind(copy.address()).unwrap();
    config::read(&mut second);
    for (name, want) in [
        ("listen_depth", "4096"),
        ("thread_pool_min", "12"),
        ("timeout_idle", "33.000"),
        ("-T", "none"),
    ] {
        assert_eq!(values(&second, name), [want], "{name}");
    }
    assert_eq!(copy.missing(), [""; 0]);
    assert!(second.listens.iter().all(|l| !found.listens.contains(l)));
    let worker = |server: &record::Server| {
        let worker = server
            .processes
            .iter()
            .find(|p| p.role == "worker")
            .unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid)).unwrap();
        let is_user = |l: &&str| l.starts_with("Uid:") || l.starts_with("Gid:");
        status
            .lines()
            .filter(is_user)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(worker(&second), worker(&found));
    drop(copy);
    assert_eq!(
        contents(first.dir.path()),
        before,
        "its files are as they were"
    );
    assert!(get(first.address).starts_with("HTTP/1.1 200 later"));
}

#[test]
fn a_varnish_whose_vcl_is_not_in_its_files_is_refused() {
    let Some(first) = varnish() else {
        return;
    };
    let mut found = first.found_with(2);
    let dir = tempfile::tempdir().unwrap();
    let refused = |found: &record::Server, cause: &str| {
        let error = config::copy(found, &[], dir.path(), first.address, free()).unwrap_err();
        assert!(error.to_string().contains(cause), "{error}");
        assert!(!error.remedy().is_empty());
    };
    let part = first.dir.path().join("part.vcl");
    let text = std::fs::read_to_string(&part).unwrap();
    std::fs::write(&part, format!("{text}# changed\n")).unwrap();
    refused(&found, "part.vcl is not what it has loaded");
    std::fs::write(&part, text).unwrap();
    managed(&first, &["vcl.label", "l", "boot"]);
    refused(&found, "labels");
    found.command.extend(["-I", "x"].map(str::to_owned));
    refused(&found, "(-I)");
}

/// A Caddyfile, and a configuration that is loaded later: only the admin endpoint knows of it.
fn caddy(more: &str) -> Option<(Alone, SocketAddr)> {
    let admin = free();
    let file = format!(
        "{{\n admin localhost:{}\n debug\n}}\n:PORT {{\n log {{\n output file DIR/a.log\n }}\n encode {{\n gzip 9\n }}\n \
         respond \"first {{env.WORD}}\"\n}}\n{more}",
        admin.port()
    );
    let words = ["caddy", "run", "--config", "Caddyfile"];
    let env = [
        ("XDG_DATA_HOME", "DIR/data"),
        ("XDG_CONFIG_HOME", "DIR/conf"),
        ("WORD", "word"),
    ];
    let first = Alone::start_with(&words, &[("Caddyfile", &file)], &env)?;
    Some((first, admin))
}

#[test]
fn a_changed_caddy_beside_the_first() {
    let Some((first, admin)) = caddy("") else {
        return;
    };
    let found = first.found();
    let file = first.dir.path().join("Caddyfile");
    let later = std::fs::read_to_string(&file)
        .unwrap()
        .replace("first", "later");
    let path = first.dir.path().join("later");
    std::fs::write(&path, later).unwrap();
    let loaded = Command::new("caddy")
        .args(["reload", "--adapter", "caddyfile", "--config"])
        .arg(&path)
        .args(["--address", &format!("localhost:{}", admin.port())])
        .output()
        .unwrap();
    assert!(loaded.status.success(), "{loaded:?}");
    let changes = [
        change(ChangeAction::Set, &["log"], "level", &["INFO"]),
        change(ChangeAction::Set, &["encode"], "gzip", &["1"]),
        change(ChangeAction::Set, &["environment"], "GOGC=400", &[]),
    ];
    // It says on its standard error that it was asked.
    let files = |all: Vec<(String, Vec<u8>)>| {
        let is_output = |(path, _): &(String, Vec<u8>)| path.ends_with("/output");
        all.into_iter()
            .filter(|f| !is_output(f))
            .collect::<Vec<_>>()
    };
    let before = files(contents(first.dir.path()));
    let dir = tempfile::tempdir().unwrap();
    let listen = free();
    let copied = config::copy(&found, &changes, dir.path(), first.address, listen).unwrap();
    assert_eq!(copied.env["GOGC"], "400");
    let text = std::fs::read_to_string(&copied.file).unwrap();
    assert!(
        text.contains("\"gzip\":{\"level\":1}") && !text.contains("DEBUG"),
        "{text}"
    );
    let mut command = Command::new(&copied.argv[0]);
    command
        .args(&copied.argv[1..])
        .env_clear()
        .envs(&copied.env);
    let child = listening(command.current_dir(&copied.directory), listen);
    assert!(get(listen).ends_with("later word"));
    let second = discover::behind(listen).unwrap();
    assert!(second.listens.iter().all(|l| !found.listens.contains(l)));
    end(child);
    assert_eq!(
        files(contents(first.dir.path())),
        before,
        "its files are as they were"
    );
    assert!(get(first.address).ends_with("later word"));
}

#[test]
fn a_caddy_that_orders_certificates_is_refused() {
    let Some((first, _)) = caddy("a.test:8443 {\n tls internal\n respond ok\n}\n") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let error = config::copy(&first.found(), &[], dir.path(), first.address, free()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("orders certificates itself (a.test)"),
        "{error}"
    );
    assert!(!error.remedy().is_empty());
}

/// A Tomcat with an application among those of its host, and one that is somewhere else.
fn tomcat() -> Option<Alone> {
    const HOME: &str = "/usr/share/tomcat10";
    if !Path::new(HOME).join("bin/bootstrap.jar").exists() {
        return None;
    }
    const XML: &str = "<Server port=\"-1\">\n <!-- <Connector port=\"1\"/> -->\n <Service name=\"Catalina\">\n  <Connector port=\"${port}\" \
         address=\"localhost\" maxThreads=\"3\"/>\n  <Engine name=\"Catalina\" defaultHost=\"h\">\n   \
         <Host name=\"h\" appBase=\"apps\">\n    <Valve className=\"org.apache.catalina.valves.AccessLogValve\" \
         directory=\"DIR/access\" buffered=\"false\"/>\n    <Context path=\"/beside\" docBase=\"../beside\"/>\n   </Host>\n  \
         </Engine>\n </Service>\n</Server>\n";
    let web = "<web-app xmlns=\"https://jakarta.ee/xml/ns/jakartaee\" version=\"5.0\"><servlet>\
        <servlet-name>d</servlet-name><servlet-class>org.apache.catalina.servlets.DefaultServlet</servlet-class></servlet>\
        <servlet-mapping><servlet-name>d</servlet-name><url-pattern>/</url-pattern></servlet-mapping>\
        <welcome-file-list><welcome-file>a.txt</welcome-file></welcome-file-list></web-app>";
    let words = [
        "java",
        "-Xmx64m",
        "-Dport=PORT",
        "-Dcatalina.home=/usr/share/tomcat10",
        "-Dcatalina.base=DIR",
        "-Djava.io.tmpdir=DIR/temp",
        "-cp",
        "/usr/share/tomcat10/bin/bootstrap.jar:/usr/share/tomcat10/bin/tomcat-juli.jar",
        "org.apache.catalina.startup.Bootstrap",
        "start",
    ];
    let files = [
        ("conf/server.xml", XML),
        ("conf/web.xml", web),
        ("conf/secret", "s"),
        ("apps/ROOT/a.txt", "first"),
        ("beside/a.txt", "beside"),
        ("temp/t", ""),
    ];
    Alone::start(&words, &files)
}

/// All files below a directory with their contents.
fn tree(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let directories = std::fs::read_dir(dir).expect("a directory");
    let directories = directories.map(|e| e.expect("an entry").path());
    let below = directories
        .filter(|path| path.is_dir())
        .flat_map(|path| tree(&path));
    let mut all: Vec<(String, Vec<u8>)> = contents(dir).into_iter().chain(below).collect();
    all.sort();
    all
}

#[test]
fn a_changed_tomcat_beside_the_first() {
    use std::os::unix::fs::PermissionsExt;
    let Some(first) = tomcat() else {
        return;
    };
    let base = first.dir.path();
    let secret = |dir: &Path| dir.join("conf/secret");
    std::fs::set_permissions(secret(base), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(get(first.address).ends_with("first"));
    let found = first.found();
    let connector = ["Server -1", "Service Catalina", "Connector ${port}"];
    let changes = [
        change(ChangeAction::Set, &connector, "maxThreads=7", &[]),
        change(ChangeAction::Set, &connector, "acceptCount=9", &[]),
        change(ChangeAction::Set, &["jvm"], "-Xmx72m", &[]),
    ];
    // What it was asked is in its log.
    let files = || {
        let is_log = |(path, _): &(String, Vec<u8>)| path.contains("/access/");
        tree(base)
            .into_iter()
            .filter(|f| !is_log(f))
            .collect::<Vec<_>>()
    };
    let before = files();
    let dir = tempfile::tempdir().unwrap();
    let listen = free();
    let copied = config::copy(&found, &changes, dir.path(), first.address, listen).unwrap();
    let mode = std::fs::metadata(secret(dir.path()))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let child = run(&copied, listen);
    assert!(get(listen).ends_with("first"));
    assert!(ask_for(listen, "/beside/a.txt").ends_with("beside"));
    let mut second = discover::behind(listen).unwrap();
    config::read(&mut second);
    for (name, want) in [("maxThreads", "7"), ("acceptCount", "9"), ("-Xmx", "72m")] {
        assert_eq!(values(&second, name), [want], "{name}");
    }
    assert!(second.listens.iter().all(|l| !found.listens.contains(l)));
    end(child);
    assert_eq!(files(), before, "its files are as they were");
    assert!(get(first.address).ends_with("first"));
}
