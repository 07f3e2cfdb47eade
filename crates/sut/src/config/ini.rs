//! Files of sections and pairs: PHP-FPM's pools and uWSGI's options.
//!
//! The surprise: PHP-FPM names its file in the title of its main process, and a pool is a section of any
//! name in any of the included files.

use super::files::{self, Files, MOST_DEPTH, MOST_DIRECTIVES};
use record::{Directive, Server};
use std::path::Path;

/// PHP-FPM: the file of `-y`/`--fpm-config`, or the one in brackets in the title.
pub(crate) fn read_fpm(server: &mut Server, files: &mut Files) {
    let title = server.command.join(" ");
    let in_title = title
        .split_once("master process (")
        .and_then(|(_, rest)| rest.split_once(')'))
        .map(|(path, _)| path.to_owned());
    let given = || {
        super::values_of(&server.command, "-y")
            .into_iter()
            .chain(super::values_of(&server.command, "--fpm-config"))
            .map(|v| v.trim_start_matches('=').to_owned())
            .next_back()
    };
    let Some(path) = in_title.or_else(given) else {
        files.say(
            "configuration of PHP-FPM",
            "its command line names no file",
            "",
        );
        return;
    };
    let cwd = super::working_directory(server.main_pid);
    let path = files::join(&cwd, &path).display().to_string();
    file(&path, files, &mut server.directives, 0);
}

/// uWSGI: every `--ini FILE`, and every argument that ends in `.ini`.
pub(crate) fn read_uwsgi(server: &mut Server, files: &mut Files) {
    let cwd = super::working_directory(server.main_pid);
    let named: Vec<String> = server
        .command
        .iter()
        .skip(1)
        .map(|a| a.strip_prefix("--ini=").unwrap_or(a))
        .filter(|a| a.ends_with(".ini"))
        .map(|a| files::join(&cwd, a).display().to_string())
        .collect();
    for path in named {
        file(&path, files, &mut server.directives, 0);
    }
}

fn file(path: &str, files: &mut Files, out: &mut Vec<Directive>, depth: usize) {
    let Some(text) = files.text(Path::new(path)) else {
        return;
    };
    let base = Path::new(path)
        .parent()
        .map_or(String::new(), |p| p.display().to_string());
    let mut context = Vec::new();
    for (line, text) in (1u32..).zip(text.lines()) {
        let text = text.trim();
        if let Some(section) = text.strip_prefix('[') {
            context = vec![section.trim_end_matches(']').trim().to_owned()];
            continue;
        }
        if text.starts_with([';', '#']) || out.len() >= MOST_DIRECTIVES {
            continue;
        }
        let Some((name, value)) = text.split_once('=') else {
            continue;
        };
        let (name, value) = (name.trim(), value_of(value));
        if name == "include" {
            if depth >= MOST_DEPTH {
                files.say(
                    "deeply nested includes",
                    &format!("{path}:{line} is {depth} includes deep"),
                    "look for a file that includes itself",
                );
                continue;
            }
            for found in files.glob(&files::join(&base, &value)) {
                file(&found.display().to_string(), files, out, depth + 1);
            }
            continue;
        }
        out.push(Directive {
            name: name.to_owned(),
            args: vec![value],
            context: context.clone(),
            file: path.to_owned(),
            line,
        });
    }
}

/// Without quotes, and without a comment behind it.
fn value_of(text: &str) -> String {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('"') {
        return inner.split('"').next().unwrap_or_default().to_owned();
    }
    let end = text.find(" ;").unwrap_or(text.len());
    text[..end].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::listed;

    #[test]
    fn pools_of_included_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(
            path("f.conf"),
            "; c\n[global]\npid = /run/x ; why\ninclude=*.pool\n",
        )
        .unwrap();
        std::fs::write(path("w.pool"), "[www]\npm = dynamic\nenv[A] = \"b;c\"\n").unwrap();
        let mut files = Files::ours();
        let mut out = Vec::new();
        file(&path("f.conf"), &mut files, &mut out, 0);
        let found = listed(&out, ",");
        assert_eq!(
            found,
            [
                "global|pid|/run/x|3",
                "www|pm|dynamic|2",
                "www|env[A]|b;c|3"
            ]
        );
    }
}
