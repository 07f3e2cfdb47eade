//! A target while it runs: is it ready, does it live, which processes is it, what did it say.

use crate::cgroup::Group;
use crate::error::TargetError;
use crate::process::Process;
use crate::ready;
use crate::server::{Reload, Server};
use crate::workdir::WorkDir;
use linux::affinity;
use linux::procfs::{self, PROC, Stat};
use plan::{TargetSpec, reachable};
use record::{ProcessRecord, TargetRecord};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest pause between two looks at a server that is not ready.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for one answer of a server that is not ready.
const LONGEST_TRY: Duration = Duration::from_secs(1);

/// A server that runs and is ready. Dropping it stops it.
pub struct RunningTarget {
    name: String,
    address: SocketAddr,
    cpus: Vec<u32>,
    server: Server,
    // Before what it holds, so that a drop ends the processes before their group and directory go.
    process: Process,
    holds: Holds,
    missing: Vec<String>,
}

/// What is there for a target's processes, and goes after them.
pub(crate) struct Holds {
    pub _group: Option<Group>,
    pub directory: WorkDir,
}

impl RunningTarget {
    /// A target whose process has just been started.
    pub(crate) fn new(
        spec: &TargetSpec,
        address: SocketAddr,
        server: Server,
        process: Process,
        holds: Holds,
    ) -> Self {
        Self {
            name: spec.name.clone(),
            address,
            cpus: spec.cpus.clone(),
            server,
            process,
            holds,
            missing: Vec::new(),
        }
    }

    /// It is a copy: what it lacks of its original's conditions, and the control groups that were made for it.
    pub(crate) fn likened(&mut self, missing: Vec<String>, group: Option<Group>) {
        self.missing = missing;
        self.holds._group = group;
    }

    /// What a copy could not be given of the conditions that its original runs under, one text each: `nice value -5
    /// (it has 0)`. Empty for what is no copy.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Address that it listens on, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its processes at this moment: the main one first, then its workers and helpers by pid.
    pub fn processes(&self) -> Vec<ProcessRecord> {
        let family = self.process.family();
        family.iter().map(|s| self.process_record(s)).collect()
    }

    fn process_record(&self, stat: &Stat) -> ProcessRecord {
        ProcessRecord {
            pid: stat.pid,
            role: self.role(stat).to_owned(),
            name: stat.name.clone(),
            cpus: affinity::of(stat.pid).unwrap_or_default(),
        }
    }

    /// nginx's other children (cache manager and loader) say what they are in their titles.
    fn role(&self, stat: &Stat) -> &'static str {
        let title = || procfs::command_line(Path::new(PROC), stat.pid).unwrap_or_default();
        if stat.pid == self.process.pid() {
            "main"
        } else if self.server.kind != "nginx" || title().starts_with("nginx: worker process") {
            "worker"
        } else {
            "helper"
        }
    }

    /// Does its main process still run?
    ///
    /// # Errors
    /// How it ended, and its last words.
    pub fn check_alive(&mut self) -> Result<(), String> {
        match self.process.wait(Duration::ZERO) {
            None => Ok(()),
            Some(how) => match self.process.last_words() {
                words if words.is_empty() => Err(format!("{how}, and it said nothing")),
                words => Err(format!("{how}; it said: {words}")),
            },
        }
    }

    /// What the trial's record says of it. The requests that it counted are for the caller to add.
    pub fn record(&self) -> TargetRecord {
        TargetRecord {
            name: self.name.clone(),
            kind: self.server.kind.clone(),
            address: self.address.to_string(),
            version: self.server.version.clone(),
            command: self.server.argv.clone(),
            cpus: self.cpus.clone(),
            processes: self.processes(),
            ..TargetRecord::default()
        }
    }

    /// Configuration as run and the end of its output, by file name, the target's name in front.
    /// Empty output is left out.
    pub fn files(&self) -> BTreeMap<String, String> {
        let output = ["stdout", "stderr"].map(|name| (name.to_owned(), self.process.output(name)));
        self.server
            .configuration
            .clone()
            .into_iter()
            .chain(output)
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (format!("{}.{name}", self.name), text))
            .collect()
    }

    /// Directory that it runs in; gone when it is stopped.
    pub fn directory(&self) -> &Path {
        self.holds.directory.path()
    }

    /// Stops it with all that it has started, and removes its working directory.
    ///
    /// # Errors
    /// [`TargetError::Unstoppable`], or a journal that cannot be written.
    pub fn stop(mut self) -> Result<(), TargetError> {
        self.process.stop()
    }

    /// Looks again and again, with growing pauses that the process's death cuts short.
    pub(crate) fn wait_until_ready(
        &mut self,
        path: Option<&str>,
        timeout: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), TargetError> {
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let left = timeout.saturating_sub(started.elapsed());
            let longest = left.clamp(Duration::from_millis(1), LONGEST_TRY);
            let Err(cause) = self.try_ready(path, longest) else {
                return Ok(());
            };
            if let Some(how) = self.process.wait(pause) {
                if let Some(words) = self.refusal() {
                    let target = self.name.clone();
                    return Err(TargetError::Configuration { target, words });
                }
                return Err(TargetError::Died {
                    target: self.name.clone(),
                    how: how.to_string(),
                    words: self.process.last_words(),
                });
            }
            if interrupted() {
                return Err(TargetError::Interrupted {
                    target: self.name.clone(),
                });
            }
            if started.elapsed() >= timeout {
                return Err(self.not_ready(started.elapsed(), cause));
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// What its output says of a configuration that it refuses.
    fn refusal(&self) -> Option<String> {
        let refusal = self.server.refusal.as_ref()?;
        ["stderr", "stdout"]
            .iter()
            .find_map(|name| refusal.of(&self.process.output(name)))
    }

    /// Lets it read its configuration again, as it stands in its working directory by now, without ending.
    ///
    /// # Errors
    /// [`TargetError::NoReload`] when it cannot, or did not.
    pub fn reload(&self) -> Result<(), TargetError> {
        let failed = |cause: String| TargetError::NoReload {
            target: self.name.clone(),
            cause,
        };
        match &self.server.reload {
            Reload::Never => Err(failed(format!(
                "{} has no way to do that",
                self.server.kind
            ))),
            Reload::Signal(signal) => self
                .process
                .signal(*signal)
                .map_err(|e| failed(e.to_string())),
            Reload::Command(argv) => {
                let (program, arguments) = argv.split_first().expect("an adapter's own command");
                let output = Command::new(program)
                    .args(arguments)
                    .envs(&self.server.env)
                    .current_dir(self.directory())
                    .output()
                    .map_err(|e| failed(e.to_string()))?;
                match output.status.success() {
                    true => Ok(()),
                    false => Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())),
                }
            }
        }
    }

    fn not_ready(&self, waited: Duration, cause: String) -> TargetError {
        TargetError::NotReady {
            target: self.name.clone(),
            waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            cause,
            words: self.process.last_words(),
        }
    }

    /// A listening socket is there before the workers are: connecting alone would be too early.
    fn try_ready(&self, path: Option<&str>, longest: Duration) -> Result<(), String> {
        let address = reachable(self.address);
        match path {
            None if self.server.listens_early => ready::answers(address, longest)?,
            path => ready::try_once(address, path, longest)?,
        }
        let workers = self
            .processes()
            .iter()
            .filter(|p| p.role == "worker")
            .count();
        if workers < self.server.workers {
            return Err(format!("{workers} of {} workers run", self.server.workers));
        }
        Ok(())
    }
}
