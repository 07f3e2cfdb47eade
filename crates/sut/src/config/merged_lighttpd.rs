//! What lighttpd makes of its configuration, in one text: `lighttpd -p`.
//!
//! Settings of lighttpd are computed: from variables, from the environment, by `+=`, and by programs (`include_shell`,
//! of which Debian's own file has two). Only lighttpd computes all of that as it does when it starts. It is asked as
//! the server's user, with its environment and in its directory, so that whoever owns the configuration gains nothing
//! by prony's rights. The surprise: what it prints is not always what it reads. Conditions are printed without
//! escapes, so the text is given back to it, and must be printed the same.

use super::ask::{Question, Unanswered};
use super::copy::{Moves, refused};
use super::copy_process::environment;
use super::files;
use crate::error::TargetError;
use linux::procfs::PROC;
use record::Server;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What it knows by itself, and takes from nobody.
const ITS_OWN: [&str; 2] = ["var.CWD", "var.PID"];

/// The configuration as it would be read today, without includes, variables and programs.
///
/// # Errors
/// [`TargetError`] where it cannot be had, or loses something when printed.
pub(crate) fn merged(server: &Server, moves: &mut Moves) -> Result<String, TargetError> {
    let Some(conf) = super::values_of(&server.command, "-f").pop() else {
        let cause = "its command line names no configuration file (`-f`)";
        return Err(refused(server, cause, "start it with -f FILE"));
    };
    let directory = PathBuf::from(super::working_directory(server.main_pid));
    let program = Program {
        server,
        directory,
        dir: &moves.dir,
    };
    let conf = files::join(&program.directory.display().to_string(), &conf);
    let text = program.prints(&conf, Stdio::null())?;
    let again = program.prints(Path::new("/dev/stdin"), given(&text, &moves.dir)?)?;
    if let Some(line) = differs(&text, &again) {
        let cause = format!("lighttpd prints its setting `{line}` otherwise than it reads it");
        let remedy = "write that condition without quotes and backslashes in its text";
        return Err(refused(server, &cause, remedy));
    }
    let runs = |what: &&record::Unavailable| what.what.contains("include_shell");
    if server.unavailable.iter().any(|u| runs(&u)) {
        let note = "what include_shell runs was run once more, to read the configuration";
        moves.notes.push(note.to_owned());
    }
    Ok(text)
}

/// The text as a file that no path leads to, for the program to read.
fn given(text: &str, dir: &Path) -> Result<Stdio, TargetError> {
    let path = dir.join("merged.conf");
    let written = || {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        // It is opened again by its user, through /proc.
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        std::fs::remove_file(&path)?;
        Ok(file)
    };
    written()
        .map(Stdio::from)
        .map_err(|e: std::io::Error| TargetError::file("writing", &path, &e))
}

/// The first line that is not the same.
fn differs(text: &str, again: &str) -> Option<String> {
    let (mut one, mut other) = (text.lines(), again.lines());
    loop {
        match (one.next(), other.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => return Some(a.or(b).unwrap_or_default().trim().to_owned()),
        }
    }
}

/// What stands in `config { }`, without what lighttpd adds.
fn body(printed: &str) -> Option<String> {
    let inner = printed.trim().strip_prefix("config {")?.strip_suffix('}')?;
    let own = |line: &&str| {
        let name = line.split('=').next().unwrap_or_default();
        ITS_OWN.contains(&name.trim())
    };
    let lines = inner.lines().filter(|l| !own(l));
    Some(lines.map(|l| format!("{}\n", l.trim_end())).collect())
}

/// The server's program, to be asked.
struct Program<'a> {
    server: &'a Server,
    directory: PathBuf,
    /// For what it prints.
    dir: &'a Path,
}

impl Program<'_> {
    fn prints(&self, conf: &Path, input: Stdio) -> Result<String, TargetError> {
        let process = std::fs::metadata(format!("{PROC}/{}", self.server.main_pid));
        let owner = process.map_err(|e| self.refused(&format!("has no user to run as: {e}")))?;
        let question = Question {
            program: &self.server.exe,
            args: &["-p", "-f", &conf.display().to_string()],
            // Whoever may change the server's configuration may say what it runs, and must not say it to root.
            user: (owner.uid(), owner.gid()),
            env: &environment(self.server.main_pid),
            directory: &self.directory,
            dir: self.dir,
        };
        let printed = question.ask(input).map_err(|why| match why {
            Unanswered::Cause(cause) => self.refused(&cause),
            Unanswered::Failed(errors) => self.refused(&format!("fails: {}", told(&errors))),
            Unanswered::File(error) => error,
        })?;
        body(&printed).ok_or_else(|| self.refused("prints no configuration"))
    }

    fn refused(&self, cause: &str) -> TargetError {
        let user = std::fs::metadata(format!("{PROC}/{}", self.server.main_pid));
        let user = user.map_or(String::new(), |m| format!(" as user {}", m.uid()));
        let exe = &self.server.exe;
        let cause = format!("`{exe} -p`, which tells its configuration, {cause}");
        let remedy = format!(
            "see that `{exe} -p -f FILE`{user} prints it, in its directory and environment"
        );
        refused(self.server, &cause, &remedy)
    }
}

/// What it says of its failure, without time and place in its source.
fn told(errors: &str) -> &str {
    let is_error = |l: &&str| !l.trim().is_empty() && !l.to_ascii_lowercase().contains("warning");
    let line = errors.lines().find(is_error).unwrap_or("without a word");
    line.split_once(") ").map_or(line, |(_, said)| said).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_without_what_lighttpd_adds() {
        let printed =
            "config {\n    var.CWD = \"/\"\n    var.PID     = 7\n    server.port = 80 \n\n}\n";
        assert_eq!(body(printed).as_deref(), Some("\n    server.port = 80\n\n"));
        for other in ["", "config {", "server.port = 80\n"] {
            assert_eq!(body(other), None, "{other}");
        }
    }

    #[test]
    fn a_line_that_is_printed_otherwise_is_named() {
        for (again, want) in [
            ("a\n b \n", None),
            ("a\nc\n", Some("b")),
            ("a\n", Some("b")),
            ("a\n b \nc\n", Some("c")),
        ] {
            assert_eq!(differs("a\n b \n", again).as_deref(), want, "{again}");
        }
    }

    #[test]
    fn a_failure_is_told_without_its_place() {
        for (errors, want) in [
            (
                "2026-01-01 00:00:00: (configfile.c.279) Warning: please add x\n2026-01-01 00:00:00: (configfile.c.2) command \"x\" exited non-zero: 1\n",
                "command \"x\" exited non-zero: 1",
            ),
            ("no such file\n", "no such file"),
            ("", "without a word"),
        ] {
            assert_eq!(told(errors), want);
        }
    }
}
