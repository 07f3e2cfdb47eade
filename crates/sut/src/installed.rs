//! What a target needs of the host: its program, its wrapper, its preload libraries; and which package has them.
//!
//! The surprise: whether a library can be preloaded is asked of the dynamic loader itself, by running `true` with it.
//! The loader only complains when it cannot and goes on without, so a server would run, and be measured, as if
//! nothing had been asked.

use crate::adapter;
use crate::cgroup;
use crate::error::TargetError;
use crate::launcher;
use crate::rlimits;
use crate::server::{self, Values};
use plan::{TargetKind, TargetSpec, template};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories with servers that an ordinary user's `PATH` lacks on Debian.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Stands for the working directory, which exists only once a target starts.
const NO_DIRECTORY: &str = "/nonexistent/prony";

/// How to get what is known to be in a package of Debian, or not to be in any.
const REMEDIES: [(&str, &str); 18] = [
    ("nginx", "apt-get install nginx"),
    ("haproxy", "apt-get install haproxy"),
    ("apache2", "apt-get install apache2-bin"),
    ("caddy", "apt-get install caddy"),
    ("tomcat10", "apt-get install tomcat10"),
    ("java", "apt-get install default-jre-headless"),
    (
        "nsd",
        "no Debian package has NaviServer: build it from https://github.com/naviserver-project/naviserver, \
         or put `nsd` on the PATH",
    ),
    (
        "onload",
        "no Debian package has Onload, and it needs a network card that it drives: build it from \
         https://github.com/Xilinx-CNS/onload",
    ),
    ("numactl", "apt-get install numactl"),
    ("taskset", "apt-get install util-linux"),
    ("chrt", "apt-get install util-linux"),
    ("strace", "apt-get install strace"),
    ("ltrace", "apt-get install ltrace"),
    ("perf", "apt-get install linux-perf"),
    ("valgrind", "apt-get install valgrind"),
    ("libjemalloc", "apt-get install libjemalloc2"),
    ("libtcmalloc", "apt-get install libtcmalloc-minimal4"),
    ("libmimalloc", "apt-get install libmimalloc2.0"),
];

/// How to get a program or library.
pub(crate) fn remedy(name: &str) -> Option<&'static str> {
    let base = name.rsplit('/').next().unwrap_or(name);
    let stem = base.split(['.', '_']).next().unwrap_or(base);
    let known = REMEDIES
        .iter()
        .find(|(known, _)| *known == base || *known == stem);
    known.map(|(_, remedy)| *remedy)
}

/// What the target needs and this host does not have, found without starting anything; `None` when it has all.
/// What depends on the running target (its directory, other targets' addresses) is only found when it starts.
pub fn lacks(spec: &TargetSpec) -> Option<TargetError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let dir = Path::new(NO_DIRECTORY);
    let mut values = server::values(spec, address, dir, &[].into());
    let names = spec.wrap.iter().chain(spec.env.values());
    for name in names
        .filter_map(|t| template::names(&spec.name, t).ok())
        .flatten()
    {
        values
            .entry(name)
            .or_insert_with(|| NO_DIRECTORY.to_owned());
    }
    let program = server_program(spec).err();
    let wrapper = || server::wrapper(spec, &values).err();
    let preload = || {
        let env = server::environment(spec, &values).ok()?;
        preloads(&spec.name, &env).err()
    };
    let limits = || {
        let files = || rlimits::check(&spec.name, spec.limits.open_files);
        cgroup::check(&spec.name, spec.limits)
            .and_then(|()| files())
            .err()
    };
    let node = || launcher::on_its_node(spec).err();
    program
        .or_else(wrapper)
        .or_else(preload)
        .or_else(limits)
        .or_else(node)
        .filter(|e| !e.to_string().contains(NO_DIRECTORY))
}

/// The server's own program.
fn server_program(spec: &TargetSpec) -> Result<(), TargetError> {
    match &spec.kind {
        TargetKind::Adapter { adapter, .. } => match adapter::find(adapter) {
            Some(adapter) => (adapter.program)(&spec.name).map(|_| ()),
            None => Ok(()),
        },
        TargetKind::Command { argv } => match argv.first() {
            // One that is a template may be the target's own file.
            Some(word) if !word.contains("{{") => find_program(&spec.name, word).map(|_| ()),
            _ => Ok(()),
        },
        TargetKind::Origin { .. } => Ok(()),
    }
}

/// The first of several names of a program that is installed.
pub(crate) fn program(target: &str, names: &[&str]) -> Result<String, TargetError> {
    let found = names
        .iter()
        .find_map(|name| find_program(target, name).ok());
    found.ok_or_else(|| missing(target, names[0]))
}

pub(crate) fn missing(target: &str, program: &str) -> TargetError {
    TargetError::NoProgram {
        target: target.to_owned(),
        program: program.to_owned(),
        known: remedy(program),
    }
}

/// The absolute path of a program, since the target runs in another directory.
pub(crate) fn find_program(target: &str, program: &str) -> Result<String, TargetError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from));
    let found = if program.contains('/') {
        std::path::absolute(program)
            .ok()
            .filter(|p| is_executable(p))
    } else {
        directories
            .map(|dir| dir.join(program))
            .find(|p| is_executable(p))
    };
    found
        .map(|p| p.display().to_string())
        .ok_or_else(|| missing(target, program))
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Asks the dynamic loader whether it can preload what the environment asks for.
///
/// # Errors
/// [`TargetError::NoPreload`] in the loader's own words.
pub(crate) fn preloads(target: &str, env: &Values) -> Result<(), TargetError> {
    const PRELOAD: &str = "LD_PRELOAD";
    let Some(asked) = env.get(PRELOAD).filter(|v| !v.trim().is_empty()) else {
        return Ok(());
    };
    // Without a `true` nobody can be asked; the server's own loader will have to.
    let Ok(neutral) = find_program(target, "true") else {
        return Ok(());
    };
    let mut command = Command::new(neutral);
    command.env(PRELOAD, asked);
    if let Some(path) = env.get("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", path);
    }
    let output = command
        .output()
        .map_err(|e| spawn_error(target, "true", &e))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let complaint = said
        .lines()
        .find(|l| l.contains(PRELOAD) || !output.status.success());
    match complaint {
        None if output.status.success() => Ok(()),
        complaint => {
            // glibc names the object in quotes and the cause in brackets; with several asked for only that one is
            // missing.
            let named = complaint.and_then(|l| l.split('\'').nth(1));
            let cause = complaint.and_then(|l| Some(l.rsplit_once('(')?.1.split_once(')')?.0));
            let words = cause
                .or(complaint)
                .unwrap_or("its start ends every program");
            Err(TargetError::NoPreload {
                target: target.to_owned(),
                library: named.unwrap_or(asked).to_owned(),
                words: words.trim().to_owned(),
            })
        }
    }
}

pub(crate) fn spawn_error(target: &str, program: &str, e: &std::io::Error) -> TargetError {
    TargetError::Spawn {
        target: target.to_owned(),
        program: program.to_owned(),
        cause: e.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preload_is_judged_by_the_loader() {
        let check = |library: &str| {
            let env = Values::from([("LD_PRELOAD".to_owned(), library.to_owned())]);
            preloads("s", &env)
        };
        assert_eq!(check(""), Ok(()));
        assert_eq!(check("libc.so.6"), Ok(()));
        let error = check("libc.so.6:libno-such-thing.so.9").unwrap_err();
        let TargetError::NoPreload { library, words, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(library, "libno-such-thing.so.9");
        assert!(words.contains("cannot"), "{words}");
        assert!(check("/etc/hostname").is_err(), "a file that is no library");
    }

    #[test]
    fn remedies_by_name_and_by_file() {
        for (name, want) in [
            ("libjemalloc.so.2", Some("apt-get install libjemalloc2")),
            (
                "/opt/x/libtcmalloc_minimal.so.4",
                Some("apt-get install libtcmalloc-minimal4"),
            ),
            ("/usr/sbin/nginx", Some("apt-get install nginx")),
            ("my-own-wrapper", None),
        ] {
            assert_eq!(remedy(name), want, "{name}");
        }
    }
}
