//! `prony tune` and `[design] tune` end to end: a fake root, `kill -9` in the middle, and real sysctls in a network
//! namespace of the test's own.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::common::{Finished, finish, prony, signal, wait_until};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A root with sysctls, a profile for them, and the journal's place.
struct Host {
    dir: tempfile::TempDir,
}

const PROFILE: &str = r#"
about = "Two settings of a test."
[[set]]
sysctl = "net.core.somaxconn"
at_least = 4096
why = "Because."
[[set]]
sysctl = "net.ipv4.tcp_rmem"
value = "4096 131072 16777216"
why = "Because."
[[set]]
sysctl = "net.ipv4.tcp_tw_recycle"
value = 1
why = "The past."
"#;

impl Host {
    fn new() -> Self {
        let host = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for dir in ["net/core", "net/ipv4"] {
            fs::create_dir_all(host.sysctl(dir)).unwrap();
        }
        fs::write(host.sysctl("net/core/somaxconn"), "128\n").unwrap();
        fs::write(host.sysctl("net/ipv4/tcp_rmem"), "4096\t131072\t6291456\n").unwrap();
        fs::write(host.profile(), PROFILE).unwrap();
        host
    }

    fn sysctl(&self, path: &str) -> PathBuf {
        self.dir.path().join("root/proc/sys").join(path)
    }

    fn profile(&self) -> PathBuf {
        self.dir.path().join("mine.toml")
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = prony(&self.state());
        command
            .args(["tune", "--root"])
            .arg(self.dir.path().join("root"))
            .args(args);
        command
    }

    fn tune(&self, args: &[&str]) -> Finished {
        finish(&mut self.command(args))
    }

    fn values(&self) -> (String, String) {
        let read = |path: &str| fs::read_to_string(self.sysctl(path)).unwrap();
        (read("net/core/somaxconn"), read("net/ipv4/tcp_rmem"))
    }

    fn journals(&self) -> usize {
        fs::read_dir(self.state().join("prony")).map_or(0, Iterator::count)
    }
}

fn before() -> (String, String) {
    ("128\n".to_owned(), "4096\t131072\t6291456\n".to_owned())
}

fn valid(document: &Value) {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/tune.schema.json");
    let schema: Value = serde_json::from_slice(&fs::read(schema).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn applied_shown_and_restored_exactly() {
    let host = Host::new();
    let profile = host.profile().display().to_string();
    let dry = host.tune(&["apply", &profile, "--dry-run"]);
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    assert_eq!((host.values(), host.journals()), (before(), 0));

    let applied = host.tune(&["apply", &profile, "--json"]);
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    let document = applied.json();
    valid(&document);
    let states: Vec<_> = document["settings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["state"])
        .collect();
    assert_eq!(states, ["set", "set", "gone"]);
    assert_eq!(
        host.values(),
        ("4096\n".into(), "4096 131072 16777216\n".into())
    );

    // It outlives the process and every later start.
    let shown = host.tune(&["show", &profile]);
    assert!(
        shown.stdout.contains("as wanted already"),
        "{}",
        shown.stdout
    );
    assert!(shown.stdout.contains("applied: "), "{}", shown.stdout);
    assert_eq!(host.values().0, "4096\n");

    let restored = host.tune(&["restore", "--json"]);
    assert_eq!(restored.code, Some(0), "{}", restored.stderr);
    valid(&restored.json());
    assert_eq!((host.values(), host.journals()), (before(), 0));
    let again = host.tune(&["restore"]);
    assert_eq!(again.code, Some(0));
    assert!(
        again.stdout.contains("nothing to restore"),
        "{}",
        again.stdout
    );
    assert_eq!(host.values(), before());
}

#[test]
fn what_somebody_else_changed_is_not_overwritten_in_silence() {
    let host = Host::new();
    let profile = host.profile().display().to_string();
    assert_eq!(host.tune(&["apply", &profile]).code, Some(0));
    fs::write(host.sysctl("net/core/somaxconn"), "512\n").unwrap();
    let restored = host.tune(&["restore"]);
    assert_eq!(restored.code, Some(1), "{}", restored.stderr);
    assert!(
        restored.stdout.contains("somebody else"),
        "{}",
        restored.stdout
    );
    assert_eq!(host.values(), ("512\n".into(), before().1));
    assert_eq!(host.tune(&["restore", "--force"]).code, Some(0));
    assert_eq!((host.values(), host.journals()), (before(), 0));
}

#[test]
fn after_kill_9_in_the_middle_of_apply_the_next_start_undoes_it() {
    let host = Host::new();
    // The second setting is a pipe that nobody writes to: prony waits there, with the first one made.
    let pipe = host.sysctl("net/ipv4/tcp_rmem");
    fs::remove_file(&pipe).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let mut child = host
        .command(&["apply", &host.profile().display().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let first = host.sysctl("net/core/somaxconn");
    wait_until("the first setting is made", || {
        fs::read_to_string(&first).unwrap() == "4096\n"
    });
    signal(child.id(), "KILL");
    child.wait().unwrap();
    assert_eq!(host.journals(), 1, "the change is in the journal");
    fs::remove_file(&pipe).unwrap();
    fs::write(&pipe, before().1).unwrap();

    let next = host.tune(&["show"]);
    assert!(
        next.stderr.contains("net.core.somaxconn = 128"),
        "{}",
        next.stderr
    );
    assert!(next.stdout.contains("applied: nothing"), "{}", next.stdout);
    assert_eq!((host.values(), host.journals()), (before(), 0));
}

#[test]
fn a_profile_that_is_not_there_is_named_with_the_near_miss() {
    let host = Host::new();
    let finished = host.tune(&["apply", "conection-rate"]);
    assert_eq!(finished.code, Some(2));
    assert!(
        finished.stderr.contains("`connection-rate`"),
        "{}",
        finished.stderr
    );
    let finished = host.tune(&["apply", "none.toml"]);
    assert_eq!(finished.code, Some(2));
    let list = host.tune(&["show", "--json"]).json();
    valid(&list);
    assert_eq!(list["profiles"].as_array().unwrap().len(), 6);
}

#[test]
fn a_read_only_proc_sys_is_named_and_the_rest_continues() {
    let host = Host::new();
    // As in a container: its own network namespace, and sysctls that can be read only.
    let script = format!(
        "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && '{}' tune apply '{}'",
        env!("CARGO_BIN_EXE_prony"),
        host.profile().display()
    );
    let finished = finish(
        Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "--net",
                "sh",
                "-c",
                &script,
            ])
            .env("XDG_STATE_HOME", host.state()),
    );
    assert_eq!(
        finished.code,
        Some(4),
        "{}{}",
        finished.stdout,
        finished.stderr
    );
    let said = finished.stdout;
    assert!(said.contains("mounted read-only"), "{said}");
    assert!(said.contains("could not be set, 1 gone"), "{said}");
    assert_eq!(host.journals(), 0, "nothing was changed");
}

/// An experiment that tunes; the sysctl is one of the namespace that the test makes.
const TUNED: &str = r#"
question = "Does the run put back what it set?"
[target.server]
origin = { threads = 1, body = "1KiB" }
[load]
url = "http://server/"
connections = 1
[design]
repeats = 3
measure = "400ms"
warmup = "0s"
tune = "mine.toml"
"#;

/// Runs `script` in a network namespace of its own, with loopback up and `$P` for prony.
fn in_namespace(host: &Host, script: &str) -> Finished {
    fs::write(host.dir.path().join("tuned.toml"), TUNED).unwrap();
    fs::write(
        host.profile(),
        "about = \"x\"\n[[set]]\nsysctl = \"net.core.somaxconn\"\nvalue = 777\n",
    )
    .unwrap();
    let head = "ip link set lo up\nnow() { cat /proc/sys/net/core/somaxconn; }\nbefore=$(now)\n";
    finish(
        Command::new("unshare")
            .args(["--net", "sh", "-c", &format!("{head}{script}")])
            .env("P", env!("CARGO_BIN_EXE_prony"))
            .env("XDG_STATE_HOME", host.state())
            .env("TMPDIR", host.dir.path())
            .current_dir(host.dir.path()),
    )
}

/// Namespaces need root; where that is missing, the fake root above has to do.
fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

#[test]
fn a_run_sets_a_real_sysctl_and_puts_it_back() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    let finished = in_namespace(
        &host,
        "$P run tuned.toml --out out >/dev/null; [ $(now) = $before ] && echo back; grep -c '777 (before: ' out/environment.json",
    );
    assert!(
        finished.stdout.contains("back\n1\n"),
        "{}{}",
        finished.stdout,
        finished.stderr
    );
    assert!(
        finished.stderr.contains("settings changed: 1"),
        "{}",
        finished.stderr
    );
}

#[test]
fn ctrl_c_and_kill_9_in_a_tuned_run_leave_the_old_value() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    let script = "
        until_tuned() { i=0; while [ $(now) != 777 ] && [ $i -lt 2000 ]; do i=$((i+1)); sleep 0.01; done; }
        $P run tuned.toml --out a >/dev/null 2>&1 & until_tuned; kill -INT $!; wait $!
        echo code $?; [ $(now) = $before ] && echo interrupted and back
        $P run tuned.toml --out b >/dev/null 2>&1 & until_tuned; kill -KILL $!; wait $!
        [ $(now) = 777 ] && echo killed and still set
        $P tune show >/dev/null; [ $(now) = $before ] && echo next start and back";
    let finished = in_namespace(&host, script);
    let expected = "code 130\ninterrupted and back\nkilled and still set\nnext start and back\n";
    assert_eq!(finished.stdout, expected, "{}", finished.stderr);
}
