//! Programs that tell a configuration: run as the server's user, within a time, with their output in files of the copy.
//!
//! Whoever may write a server's configuration may say what is run to read it, so nothing is asked with more rights than
//! the server has. The surprise: output goes to files and not to pipes, because what a program starts may keep
//! a pipe open long after it has ended itself.

use crate::discover::read_bounded;
use crate::error::TargetError;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// They answer at once; what a configuration runs may take a while.
const LONGEST: Duration = Duration::from_secs(10);

/// A program to be run to its end.
pub(crate) struct Question<'a> {
    pub program: &'a str,
    pub args: &'a [&'a str],
    /// User and group that it runs as; ours where they are the same.
    pub user: (u32, u32),
    pub env: &'a BTreeMap<String, String>,
    /// Where it runs.
    pub directory: &'a Path,
    /// For what it prints.
    pub dir: &'a Path,
}

/// Why there is no answer.
pub(crate) enum Unanswered {
    /// In words that go on after the program's name.
    Cause(String),
    /// It failed, and said this on its standard error.
    Failed(String),
    /// The copy's directory could not be written.
    File(TargetError),
}

impl Question<'_> {
    /// What it prints.
    ///
    /// # Errors
    /// [`Unanswered`] where it does not start, does not end in time, fails, or prints what is no text.
    pub fn ask(&self, input: Stdio) -> Result<String, Unanswered> {
        let (out, err) = (self.dir.join("printed"), self.dir.join("errors"));
        let status = self.run(input, (&out, &err));
        let (out, err) = (taken(&out), taken(&err).unwrap_or_default());
        match status? {
            Some(status) if status.success() => {
                out.ok_or_else(|| Unanswered::Cause("prints what is no text".to_owned()))
            }
            Some(_) => Err(Unanswered::Failed(err)),
            None => {
                let cause = format!("does not end within {} s", LONGEST.as_secs());
                Err(Unanswered::Cause(cause))
            }
        }
    }

    /// Runs it to its end; `None` when it had to be ended.
    fn run(
        &self,
        input: Stdio,
        (out, err): (&Path, &Path),
    ) -> Result<Option<ExitStatus>, Unanswered> {
        let create = |path: &Path| {
            let failed = |e| Unanswered::File(TargetError::file("creating", path, &e));
            File::create(path).map_err(failed)
        };
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .env_clear()
            .envs(self.env)
            .current_dir(self.directory)
            .stdin(input)
            .stdout(create(out)?)
            .stderr(create(err)?)
            .process_group(0);
        // SAFETY: the call takes nothing and cannot fail.
        if self.user.0 != unsafe { libc::geteuid() } {
            command.gid(self.user.1).uid(self.user.0);
        }
        let child = command.spawn();
        let child = child.map_err(|e| Unanswered::Cause(format!("does not start: {e}")))?;
        wait(child).map_err(|e| Unanswered::Cause(e.to_string()))
    }
}

/// The text of a file, which is then in the way of the next question.
fn taken(path: &Path) -> Option<String> {
    let text = read_bounded(path).unwrap_or_default();
    let _gone = std::fs::remove_file(path);
    String::from_utf8(text).ok()
}

/// Waits for its end; `None` when it was ended after [`LONGEST`].
fn wait(mut child: Child) -> std::io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = i32::try_from(child.id()).unwrap_or(i32::MAX);
    // SAFETY: a system call on integers; the child has not been waited for, so the group is its own.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    child.wait()?;
    Ok(None)
}
