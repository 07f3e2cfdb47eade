//! Apache httpd: a parent in the foreground and its children.
//!
//! The surprise: what the template leaves open (pid file, error log, the children's user) is given by `-C`, which the
//! server reads before the file, so that the file has the last word. As root its children cannot stay root, unlike
//! nginx's: they become Debian's `www-data`, or `nobody`, who must be able to read the working directory.

use super::{Adapter, Job, asked, is_root, lines};
use crate::error::TargetError;
use crate::installed;
use crate::server::{Reload, Server, Values};
use std::path::Path;

/// Directories of modules: Debian, Red Hat, from source.
const MODULES: [&str; 4] = [
    "/usr/lib/apache2/modules",
    "/usr/lib64/httpd/modules",
    "/usr/lib/httpd/modules",
    "/usr/local/apache2/modules",
];

pub(super) const ADAPTER: Adapter = Adapter {
    program: |target| installed::program(target, &["apache2", "httpd"]),
    values: |_| vec![("modules", modules())],
    prepare,
};

fn modules() -> String {
    let found = MODULES.into_iter().find(|dir| Path::new(dir).is_dir());
    found.unwrap_or(MODULES[0]).to_owned()
}

fn prepare(program: &str, job: &Job<'_>) -> Result<Server, TargetError> {
    let path = job.write("apache.conf")?;
    let dir = job.dir.display();
    let mut before = vec![
        format!("PidFile {dir}/apache.pid"),
        "ErrorLog /dev/stderr".to_owned(),
        format!("DefaultRuntimeDir {dir}"),
    ];
    // Elsewhere the directive's module is loaded by the file, and unknown before it.
    if is_root() && asked(program, &["-l"]).contains("mod_unixd.c") {
        before.extend(children());
    }
    let mut common = vec!["-d".to_owned(), dir.to_string()];
    for directive in before {
        common.extend(["-C".to_owned(), directive]);
    }
    common.extend(["-f".to_owned(), path.display().to_string()]);
    let argv = |flag: &str| -> Vec<String> {
        let first = [program.to_owned(), flag.to_owned()];
        first.into_iter().chain(common.clone()).collect()
    };
    job.check(&path, &argv("-t"), &Values::new(), said)?;
    Ok(Server {
        kind: "apache".to_owned(),
        version: version(&asked(program, &["-v"])),
        argv: argv("-DFOREGROUND"),
        configuration: [("apache.conf".to_owned(), job.text.to_owned())].into(),
        workers: 1,
        reload: Reload::Signal(libc::SIGUSR1),
        ..Server::default()
    })
}

/// The first of the usual users without rights that this host has, with the group of the same right.
fn children() -> Vec<String> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let has = |list: &str, name: &str| {
        list.lines()
            .any(|l| l.strip_prefix(name).is_some_and(|l| l.starts_with(':')))
    };
    [
        ("www-data", "www-data"),
        ("apache", "apache"),
        ("nobody", "nogroup"),
        ("nobody", "nobody"),
    ]
    .into_iter()
    .find(|(user, group)| has(&users, user) && has(&groups, group))
    .map(|(user, group)| vec![format!("User {user}"), format!("Group {group}")])
    .unwrap_or_default()
}

/// `Server version: Apache/2.4.71 (Debian)`.
fn version(text: &str) -> String {
    let line = text.lines().find_map(|l| l.strip_prefix("Server version:"));
    line.unwrap_or_default().trim().to_owned()
}

/// Without what is said of every start.
fn said(text: &str) -> String {
    lines(text, |l| {
        !l.starts_with("Action '")
            && !l.starts_with("The Apache error log")
            && !l.starts_with("AH00558")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaint_and_version() {
        let text = "AH00526: Syntax error on line 4 of /w/apache.conf:\nInvalid command 'X'\n\
            Action '-t' failed.\nThe Apache error log may have more information.\n";
        assert_eq!(
            said(text),
            "AH00526: Syntax error on line 4 of /w/apache.conf:\nInvalid command 'X'"
        );
        assert_eq!(
            version("Server version: Apache/2.4.71 (Debian)\nServer built: x\n"),
            "Apache/2.4.71 (Debian)"
        );
    }
}
