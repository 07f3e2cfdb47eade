//! What a server says of its version, without touching the server that runs.
//!
//! Well-known programs are started once more with the flag that prints the version and nothing else: it
//! reads no configuration and opens no log. It is done as the user that the server runs as, only for a
//! program that nobody but its owner may write, and only where the program's path means the same file to
//! prony. The version of a Java runtime stands in a file beside it, that of Go in the program itself.

use super::elf;
use super::program::{self, Program};
use linux::pidfd::PidFd;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longest that a program may take to print its version.
const LONGEST: Duration = Duration::from_secs(3);
/// Most of its output that is read, bytes. It fits into a pipe, so a program is never held up by writing it.
const MOST_OUTPUT: u64 = 16 << 10;

/// Flag by kind.
const FLAGS: [(&str, &[&str]); 12] = [
    ("nginx", &["-v"]),
    ("haproxy", &["-v"]),
    ("apache", &["-v"]),
    ("lighttpd", &["-v"]),
    ("varnish", &["-V"]),
    ("squid", &["-v"]),
    ("php-fpm", &["-v"]),
    ("node", &["-v"]),
    ("caddy", &["version"]),
    ("envoy", &["--version"]),
    ("python", &["--version"]),
    ("ruby", &["--version"]),
];

/// The version; empty when it cannot be told.
pub(crate) fn of<'a>(
    root: &Path,
    pid: i32,
    kind: &str,
    program: &Program,
    exe_bytes: impl FnOnce() -> Option<&'a [u8]>,
) -> String {
    let runtime = match kind {
        "tomcat" => return tomcat(root, pid, program),
        "java" => java(root, pid, program),
        "go" | "traefik" => exe_bytes().and_then(elf::go_version).unwrap_or_default(),
        "prony" => concat!("prony/", env!("CARGO_PKG_VERSION")).to_owned(),
        _ => asked(root, pid, kind, &program.exe),
    };
    match program.framework() {
        Some(name) if matches!(kind, "python" | "ruby" | "java") => format!("{name}, {runtime}")
            .trim_end_matches([',', ' '])
            .to_owned(),
        _ => runtime,
    }
}

fn asked(root: &Path, pid: i32, kind: &str, exe: &str) -> String {
    let Some((_, flags)) = FLAGS.iter().find(|(name, _)| *name == kind) else {
        return String::new();
    };
    output(root, pid, exe, flags)
        .and_then(|text| first_line(kind, &text))
        .unwrap_or_default()
}

/// What `exe flags` prints on either stream; `None` when it must not be run or says nothing.
pub(crate) fn output(root: &Path, pid: i32, exe: &str, flags: &[&str]) -> Option<String> {
    let dir = root.join(pid.to_string());
    let process = std::fs::metadata(&dir).ok()?;
    let running = std::fs::metadata(dir.join("exe")).ok()?;
    let file = std::fs::metadata(exe).ok()?;
    let is_same = (running.dev(), running.ino()) == (file.dev(), file.ino());
    // SAFETY: the call takes nothing and cannot fail.
    let me = unsafe { libc::geteuid() };
    let is_trusted = file.mode() & 0o022 == 0 && (file.uid() == 0 || file.uid() == process.uid());
    if !is_same || !is_trusted {
        return None;
    }
    let mut command = Command::new(exe);
    command
        .args(flags)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if me == 0 {
        command.uid(process.uid()).gid(process.gid());
    }
    let mut child = command.spawn().ok()?;
    let ended = PidFd::open(i32::try_from(child.id()).ok()?).is_ok_and(|pidfd| pidfd.wait(LONGEST));
    if !ended {
        // It has not been waited for, so its number is still its own.
        let _ = child.kill();
    }
    let mut text = String::new();
    if ended {
        let mut add = |stream: &mut dyn Read| {
            let mut bytes = Vec::new();
            let _ = stream.take(MOST_OUTPUT).read_to_end(&mut bytes);
            text.push_str(&String::from_utf8_lossy(&bytes));
        };
        child.stdout.take().iter_mut().for_each(|s| add(s));
        child.stderr.take().iter_mut().for_each(|s| add(s));
    }
    let _ = child.wait();
    (!text.trim().is_empty()).then_some(text)
}

/// The line that says it, without what every line of its kind begins with.
fn first_line(kind: &str, text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|l| !l.is_empty())?;
    let line = match kind {
        "nginx" => line.strip_prefix("nginx version:").unwrap_or(line),
        "apache" => line.strip_prefix("Server version:").unwrap_or(line),
        _ => line,
    };
    Some(line.trim().chars().take(200).collect())
}

/// The Java runtime's `release` file, two directories above `bin/java`.
fn java(root: &Path, pid: i32, program: &Program) -> String {
    let home = Path::new(&program.exe).parent().and_then(Path::parent);
    let text = home.and_then(|home| inside(root, pid, &home.join("release")));
    text.and_then(|text| quoted(&text, "JAVA_VERSION="))
        .map(|version| format!("Java {version}"))
        .unwrap_or_default()
}

fn quoted(text: &str, label: &str) -> Option<String> {
    let line = text.lines().find_map(|l| l.strip_prefix(label))?;
    Some(line.trim().trim_matches('"').to_owned())
}

/// Tomcat by its home, and the Java runtime that it runs on.
fn tomcat(root: &Path, pid: i32, program: &Program) -> String {
    let number = super::property(&program.argv, "catalina.home").and_then(|home| {
        let home = root
            .join(format!("{pid}/root"))
            .join(home.trim_start_matches('/'));
        tomcat_number(&home)
    });
    let java = java(root, pid, program);
    match number {
        Some(number) => format!("Apache Tomcat {number}, {java}"),
        None => java,
    }
    .trim_end_matches([',', ' '])
    .to_owned()
}

/// Tomcat's number from its release notes, or from the name of the JAR that its library directory links to.
pub(crate) fn tomcat_number(home: &Path) -> Option<String> {
    let notes = program::read_bounded(&home.join("RELEASE-NOTES")).unwrap_or_default();
    let label = "Apache Tomcat Version ";
    let stated = String::from_utf8_lossy(&notes)
        .lines()
        .find_map(|l| l.trim().strip_prefix(label).map(|n| n.trim().to_owned()));
    stated.or_else(|| number_of_jar(home.join("lib/catalina.jar")))
}

/// Debian links the JAR to a name without a number, and that to one with. Each link is followed by itself: a path
/// made whole would leave the process's own root.
fn number_of_jar(mut path: PathBuf) -> Option<String> {
    const MOST_LINKS: u32 = 4;
    for _ in 0..MOST_LINKS {
        path = path.parent()?.join(std::fs::read_link(&path).ok()?);
        let name = path.file_name()?.to_str()?.strip_suffix(".jar")?;
        let number = name.rsplit_once('-').map(|(_, number)| number);
        let number = number.filter(|n| n.starts_with(|c: char| c.is_ascii_digit()));
        if number.is_some() {
            return number.map(str::to_owned);
        }
    }
    None
}

/// A text file as the process sees it.
fn inside(root: &Path, pid: i32, path: &Path) -> Option<String> {
    let path = root
        .join(format!("{pid}/root"))
        .join(path.strip_prefix("/").unwrap_or(path));
    let bytes = program::read_bounded(&path)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_says_it() {
        for (kind, text, want) in [
            ("nginx", "nginx version: nginx/1.22.1\n", "nginx/1.22.1"),
            (
                "apache",
                "Server version: Apache/2.4.71 (Debian)\nServer built: x\n",
                "Apache/2.4.71 (Debian)",
            ),
            ("node", "\nv20.1.0\n", "v20.1.0"),
        ] {
            assert_eq!(first_line(kind, text).as_deref(), Some(want));
        }
        assert_eq!(first_line("node", "\n \n"), None);
        assert_eq!(
            quoted("A=1\nJAVA_VERSION=\"17.0.15\"\n", "JAVA_VERSION=").as_deref(),
            Some("17.0.15")
        );
    }

    #[test]
    fn only_the_program_that_runs_is_started() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert_eq!(output(Path::new("/proc"), me, "/bin/echo", &["hi"]), None);
    }
}
