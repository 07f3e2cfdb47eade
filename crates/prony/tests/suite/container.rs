//! `prony diagnose --container` with real containers of podman, and what it says where it cannot know which is meant.
//!
//! Containers live in a network namespace of their own, with packet rules that go with it, and in a mount namespace
//! where only one version of control groups is mounted: crun refuses both at once. Images are a root of a few links,
//! with this host's /usr mounted in it, so nothing is fetched.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and it says why it is skipped"
)]

use crate::common::{Finished, finish, finish_child, prony, wait_until};
use crate::wires::has;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const IMAGE: &str = "localhost/host:1";

/// Namespaces for containers, held by a process that waits.
struct Engine {
    home: TempDir,
    holder: Child,
}

impl Engine {
    /// `None`, said, where there is no podman or this is not root.
    fn new() -> Option<Self> {
        if !has("podman") {
            return None;
        }
        let holder = Command::new("unshare")
            .args(["--mount", "--net", "sh", "-c"])
            .arg("umount /sys/fs/cgroup/unified 2>/dev/null; ip link set lo up && echo ready && exec cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut engine = Self {
            home: tempfile::tempdir().unwrap(),
            holder,
        };
        let mut ready = [0; 5];
        let out = engine.holder.stdout.as_mut().unwrap();
        if std::io::Read::read_exact(out, &mut ready).is_err() {
            println!("skipped: making namespaces needs root");
            return None;
        }
        let home = engine.home.path().display().to_string();
        let storage = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{home}/store\"\nrunroot = \"{home}/run\"\n"
        );
        fs::write(engine.home.path().join("storage.conf"), storage).unwrap();
        engine.import();
        Some(engine)
    }

    fn import(&self) {
        let root = self.home.path().join("root");
        for directory in ["usr", "tmp", "etc"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for link in ["bin", "lib", "lib64"] {
            symlink(format!("usr/{link}"), root.join(link)).unwrap();
        }
        fs::write(root.join("etc/passwd"), "root:x:0:0::/:/bin/sh\n").unwrap();
        fs::write(root.join("etc/group"), "root:x:0:\n").unwrap();
        let tar = self.home.path().join("root.tar");
        let (root, tar) = (root.to_str().unwrap(), tar.to_str().unwrap());
        let packed = Command::new("tar")
            .args(["-C", root, "-cf", tar, "."])
            .status();
        assert!(packed.unwrap().success());
        self.podman(&["import", "--quiet", tar, IMAGE]);
    }

    /// A command in the namespaces.
    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args([
                "--target",
                &self.holder.id().to_string(),
                "--mount",
                "--net",
                program,
            ])
            .env(
                "CONTAINERS_STORAGE_CONF",
                self.home.path().join("storage.conf"),
            )
            .env("XDG_STATE_HOME", self.home.path())
            .stdin(Stdio::null());
        command
    }

    fn podman(&self, args: &[&str]) -> Finished {
        let done = finish(self.inside("podman").args(args));
        assert_eq!(
            done.code,
            Some(0),
            "podman {args:?}: {}{}",
            done.stdout,
            done.stderr
        );
        done
    }

    /// Starts a container with this host's programs.
    fn run(&self, name: &str, flags: &[&str], command: &[&str]) {
        let prony = format!("{}:/prony:ro", env!("CARGO_BIN_EXE_prony"));
        // It may not raise limits above this process'.
        let mut args = vec![
            "run",
            "--detach",
            "--name",
            name,
            "--ulimit",
            "nofile=1024:1024",
        ];
        args.extend(["--ulimit", "nproc=1024:1024", "--log-driver", "k8s-file"]);
        args.extend(["--volume", "/usr:/usr:ro", "--volume", &prony]);
        args.extend(flags);
        args.push(IMAGE);
        args.extend(command);
        self.podman(&args);
    }

    fn origin(&self, name: &str, flags: &[&str]) {
        self.run(
            name,
            flags,
            &["/prony", "origin", "--listen", "0.0.0.0:8080"],
        );
        wait_until("the origin listens", || {
            let log = self.podman(&["logs", name]);
            (log.stdout + &log.stderr).contains("http://")
        });
    }

    fn diagnose(&self, name: &str, flags: &[&str]) -> Finished {
        let mut command = self.inside(env!("CARGO_BIN_EXE_prony"));
        command.args(["diagnose", "--container", name]).args(flags);
        finish(&mut command)
    }

    fn pid(&self, name: &str) -> i64 {
        let text = self.podman(&["container", "inspect", "--format", "{{.State.Pid}}", name]);
        text.stdout.trim().parse().unwrap()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = finish(
            self.inside("podman")
                .args(["rm", "--force", "--all", "--time", "0"]),
        );
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

fn stored(record: &Path, file: &str) -> Value {
    let path = record.join("trials/0000").join(file);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_published_port_leads_through_the_kernel_to_a_throttled_server() {
    let Some(engine) = Engine::new() else {
        return;
    };
    engine.origin(
        "web",
        &["--publish", "127.0.0.1:18080:8080", "--cpus", "0.02"],
    );
    let record = engine.home.path().join("record");
    let done = engine.diagnose(
        "web",
        &[
            "-d",
            "1s",
            "-c",
            "8",
            "--json",
            "--out",
            record.to_str().unwrap(),
        ],
    );
    let result = done.json();
    let container = &result["container"];
    assert_eq!(container["engine"], "podman", "{container}");
    assert_eq!(container["pid"], engine.pid("web"));
    assert_eq!(container["published"], "127.0.0.1:18080");
    assert_eq!(
        (&container["inside"], &container["forwarding"]),
        (&8080.into(), &"kernel".into())
    );
    // From this host, at its own address.
    assert_eq!(container["direct"]["within"], false);
    assert!(
        container["direct"]["address"]
            .as_str()
            .unwrap()
            .ends_with(":8080")
    );
    assert_eq!(container["direct"]["pairs"].as_array().unwrap().len(), 6);
    assert_eq!(result["published_path"]["rate"]["pairs"], 6);
    let fact = |name: &str| {
        let mut facts = result["facts"].as_array().unwrap().iter();
        facts
            .find(|f| f["name"] == name && f["target"] == "server")
            .unwrap()["value"]
            .as_f64()
    };
    assert_eq!(fact("cgroup.quota_cores"), Some(0.02));
    // How often is the host's to say: beside other programs a server may not get as far as its quota.
    let throttled = fact("cgroup.throttled_periods_share");
    assert!(throttled.is_some(), "{}", result["facts"]);
    let named = result["diagnosis"][0]["cause"] == "cgroup_cpu_quota";
    assert!(
        named || throttled < Some(0.5),
        "{throttled:?}: {}",
        result["diagnosis"]
    );
    let servers = stored(&record, "examination.json")["servers"].clone();
    assert_eq!(
        servers.as_array().unwrap().len(),
        1,
        "conmon is no server: {servers}"
    );
    assert_eq!(
        (&servers[0]["kind"], &servers[0]["main_pid"]),
        (&"prony".into(), &container["pid"])
    );
    let mut again = engine.inside(env!("CARGO_BIN_EXE_prony"));
    let text = finish(again.arg("diagnose").arg(&record)).stdout;
    for words in [
        "container:   web (podman ",
        "(DNAT)",
        "direct     ",
        "CPU limit  0.02 cores; throttled in",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_program_that_copies_bytes_is_a_target_and_the_server_its_upstream() {
    let Some(engine) = Engine::new() else {
        return;
    };
    if !has("slirp4netns") {
        return;
    }
    engine.origin(
        "web",
        &[
            "--network",
            "slirp4netns",
            "--publish",
            "127.0.0.1:18080:8080",
        ],
    );
    let record = engine.home.path().join("record");
    let done = engine.diagnose(
        "web",
        &["-d", "1s", "-c", "8", "--out", record.to_str().unwrap()],
    );
    assert!(
        done.stdout.contains("copied by rootlessport"),
        "{}{}",
        done.stdout,
        done.stderr
    );
    let examination = stored(&record, "examination.json");
    let container = &examination["container"];
    assert_eq!(
        (&container["forwarding"], &container["forwarder"]),
        (&"program".into(), &"forwarder".into())
    );
    // This host has no way to it but the forwarder's: the load went into its network.
    assert_eq!(container["direct"]["within"], true);
    assert_eq!(container["direct"]["pairs"].as_array().unwrap().len(), 6);
    let servers = &examination["servers"];
    assert_eq!(
        (&servers[0]["target"], &servers[0]["kind"]),
        (&"forwarder".into(), &"rootlessport".into())
    );
    assert_eq!(
        (&servers[1]["target"], &servers[1]["main_pid"]),
        (&"server".into(), &container["pid"])
    );
    assert_eq!(servers[0]["upstreams"][0]["target"], "server");
    let targets = stored(&record, "trial.json")["targets"].clone();
    assert_eq!(
        (&targets[0]["name"], &targets[1]["name"]),
        (&"forwarder".into(), &"server".into())
    );
}

#[test]
fn the_server_behind_an_init_is_found_and_its_configuration_read_in_its_root() {
    let Some(engine) = Engine::new() else {
        return;
    };
    if !has("nginx") {
        return;
    }
    let etc = engine.home.path().join("nginx");
    fs::create_dir_all(&etc).unwrap();
    let config = "user root;\ndaemon off;\npid /tmp/nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\n  access_log off;\n  \
                  client_body_temp_path /tmp; proxy_temp_path /tmp; fastcgi_temp_path /tmp; uwsgi_temp_path /tmp; \
                  scgi_temp_path /tmp;\n  keepalive_requests 77;\n  server { listen 80; }\n  server { listen 81; }\n}\n";
    fs::write(etc.join("nginx.conf"), config).unwrap();
    let mount = format!("{}:/etc/nginx:ro", etc.display());
    let ports = [
        "--publish",
        "127.0.0.1:18080:80",
        "--publish",
        "127.0.0.1:18081:81",
    ];
    let mut flags = vec!["--volume", mount.as_str()];
    flags.extend(ports);
    // The shell stays: a command follows.
    engine.run(
        "web",
        &flags,
        &[
            "/bin/sh",
            "-c",
            "/usr/sbin/nginx -c /etc/nginx/nginx.conf; true",
        ],
    );
    let several = engine.diagnose("web", &[]);
    assert_eq!(several.code, Some(2), "{}", several.stderr);
    let listed = "127.0.0.1:18080 (port 80 inside), 127.0.0.1:18081 (port 81 inside)";
    assert!(several.stderr.contains(listed), "{}", several.stderr);
    assert!(several.stderr.contains("--url"), "{}", several.stderr);
    wait_until("nginx listens", || {
        let path = format!("/proc/{}/net/tcp", engine.pid("web"));
        fs::read_to_string(path).unwrap().contains(":0051 ")
    });
    let record = engine.home.path().join("record");
    let url = ["--url", "http://127.0.0.1:18081/", "-d", "500ms", "-c", "2"];
    let done = engine.diagnose(
        "web",
        &[
            &url[..],
            &["--probes", "proc", "--out", record.to_str().unwrap()],
        ]
        .concat(),
    );
    let examination = stored(&record, "examination.json");
    assert_eq!(
        examination["container"]["inside"], 81,
        "{}{}",
        done.stdout, done.stderr
    );
    let server = &examination["servers"][0];
    assert_eq!(server["kind"], "nginx", "{server}");
    // The shell is the container's first process.
    assert_ne!(server["main_pid"], engine.pid("web"));
    let read = server["directives"].as_array().unwrap().iter();
    let mut read = read.filter(|d| d["name"] == "keepalive_requests");
    assert_eq!(read.next().unwrap()["args"][0], "77", "{server}");
}

/// A kubectl that answers as the real one does for a pod of two containers, the first of which has this id.
fn kubectl(directory: &Path, id: &str) {
    fs::create_dir(directory).unwrap();
    let answer = format!(
        r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "web-0", "namespace": "shop", "labels": {{}}}},
"spec": {{"nodeName": "node-3", "hostNetwork": false, "containers": [{{"name": "app", "image": "shop:2", "ports":
[{{"containerPort": 8080, "hostPort": 18080, "name": "http", "protocol": "TCP"}}], "resources": {{}}}},
{{"name": "logs", "image": "logs:1"}}]}}, "status": {{"phase": "Running", "hostIP": "192.0.2.3", "podIP": "127.0.0.1",
"podIPs": [{{"ip": "127.0.0.1"}}], "qosClass": "BestEffort", "containerStatuses": [{{"name": "app", "ready": true,
"restartCount": 0, "containerID": "containerd://{id}", "state": {{"running": {{"startedAt": "2026-01-01T00:00:00Z"}}}}}},
{{"name": "logs", "ready": false, "containerID": "", "state": {{"waiting": {{"reason": "CrashLoopBackOff"}}}}}}]}}}}"#
    );
    // Of the shell alone: no other program is on its PATH.
    let lines = format!(
        "[ \"$*\" = 'get pod web-0 --output json --namespace shop' ] && echo '{answer}' && exit\n\
         echo 'Error from server (NotFound): pods \"web-1\" not found' >&2\nexit 1\n"
    );
    script(&directory.join("kubectl"), &lines);
}

fn script(path: &Path, lines: &str) {
    let mut file = fs::File::create(path).unwrap();
    write!(file, "#!/bin/sh\n{lines}").unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o755))
        .unwrap();
}

#[test]
fn a_pod_on_this_node_is_found_by_the_id_that_the_cluster_gives() {
    let Some(engine) = Engine::new() else {
        return;
    };
    // In the network of its host, as some pods are: its address is the node's.
    engine.origin("web", &["--network", "host"]);
    let inspected = engine.podman(&["container", "inspect", "--format", "{{.Id}}", "web"]);
    let bin = engine.home.path().join("bin");
    kubectl(&bin, inspected.stdout.trim());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let record = engine.home.path().join("record");
    let mut command = engine.inside(env!("CARGO_BIN_EXE_prony"));
    command
        .args([
            "diagnose",
            "--pod",
            "shop/web-0/app",
            "-d",
            "500ms",
            "-c",
            "2",
        ])
        .args(["--probes", "proc", "--out", record.to_str().unwrap()])
        .env("PATH", path);
    let done = finish(&mut command);
    assert!(
        done.stdout
            .contains("container:   shop/web-0/app (containerd "),
        "{}{}",
        done.stdout,
        done.stderr
    );
    let examination = stored(&record, "examination.json");
    let container = &examination["container"];
    assert_eq!(container["pid"], engine.pid("web"), "{container}");
    assert_eq!(container["published"], "127.0.0.1:8080");
    assert_eq!(container["forwarding"], "none");
    let server = &examination["servers"][0];
    assert_eq!(
        (&server["kind"], &server["main_pid"]),
        (&"prony".into(), &container["pid"])
    );
}

#[test]
fn what_is_not_known_of_a_pod_is_said_with_a_remedy() {
    let home = tempfile::tempdir().unwrap();
    let diagnose = |path: &Path, name: &str| {
        let mut command = prony(home.path());
        command.args(["diagnose", "--pod", name]).env("PATH", path);
        let done = finish(&mut command);
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        done.stderr
    };
    let bin = home.path().join("bin");
    // Of no process anywhere.
    kubectl(&bin, &"ab12".repeat(16));
    for (name, words) in [
        ("shop/web-1", "pods \"web-1\" not found"),
        ("shop/web-1", "`kubectl get pod`"),
        ("shop/web-0", "has the containers app, logs"),
        ("shop/web-0", "--pod shop/web-0/CONTAINER"),
        ("shop/web-0/logs", "it is waiting"),
        (
            "shop/web-0/logs",
            "kubectl describe pod --namespace shop web-0",
        ),
        ("shop/web-0/app", "it runs on the node node-3"),
        ("shop/web-0/app", "--server-host root@node-3"),
        ("shop/--all", "is not NAMESPACE/NAME"),
        ("Shop/web", "is not NAMESPACE/NAME"),
    ] {
        let said = diagnose(&bin, name);
        assert!(said.contains(words), "{words}: {said}");
    }
    let none = diagnose(&home.path().join("none"), "shop/web-0");
    assert!(none.contains("kubectl is not installed"), "{none}");
}

/// An engine that knows one container.
fn engine(directory: &Path, name: &str, id: &str, pid: u32) {
    let answer = format!(
        r#"[{{"Id": "{id}", "Name": "/web", "State": {{"Status": "exited", "Pid": {pid}}}}}]"#
    );
    let lines = format!(
        "[ \"$4\" = web ] && echo '{answer}' && exit\necho 'no such container' >&2\nexit 1\n"
    );
    script(&directory.join(name), &lines);
}

#[test]
fn what_is_not_known_of_a_container_is_said_with_a_remedy() {
    let home = tempfile::tempdir().unwrap();
    let diagnose = |path: &Path, name: &str| {
        let child = prony(home.path())
            .args(["diagnose", "--container", name])
            .env("PATH", path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let done = finish_child(child.unwrap());
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        done.stderr
    };
    let check = |said: String, words: &[&str]| {
        for words in words {
            assert!(said.contains(words), "{words}: {said}");
        }
    };
    let none = home.path().join("none");
    check(
        diagnose(&none, "web"),
        &["none of podman, docker, nerdctl is installed", "--pid"],
    );
    let one = home.path().join("one");
    fs::create_dir(&one).unwrap();
    engine(&one, "podman", "a", 0);
    check(
        diagnose(&one, "other"),
        &[
            "no container engine knows `other`: podman: no such container",
            "podman ps",
        ],
    );
    check(
        diagnose(&one, "web"),
        &[
            "the container `web` of podman is exited",
            "podman start web",
        ],
    );
    let two = home.path().join("two");
    fs::create_dir(&two).unwrap();
    engine(&two, "podman", "a", 0);
    engine(&two, "docker", "b", 0);
    check(
        diagnose(&two, "web"),
        &["known to podman and docker", "id in place of its name"],
    );
    // An engine on another host numbers its own processes: here that number is somebody else.
    let away = home.path().join("away");
    fs::create_dir(&away).unwrap();
    engine(&away, "docker", "b0b1b2b3b4b5", std::process::id());
    check(
        diagnose(&away, "web"),
        &["is not visible here", "on the host that runs the container"],
    );
}
