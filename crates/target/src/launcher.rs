//! From a target's specification to a running, pinned, ready server, and back to nothing.
//!
//! The order of [`Launcher::start`] is that of the errors that a person should see first: CPUs, port,
//! program, template, the server's own opinion of its configuration, its death, its silence.

use crate::affinity;
use crate::error::TargetError;
use crate::filling;
use crate::journal::{Journal, unique};
use crate::listen;
use crate::nginx::{self, Build};
use crate::process::{Order, Process};
use crate::procfs::{self, PROC, Stat};
use crate::ready;
use crate::workdir::WorkDir;
use plan::template;
use plan::{TargetKind, TargetSpec, reachable};
use record::{ProcessRecord, TargetRecord};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Directories with servers that an ordinary user's `PATH` lacks on Debian.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// Longest pause between two looks at a server that is not ready.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for one answer of a server that is not ready.
const LONGEST_TRY: Duration = Duration::from_secs(1);

/// Starts targets.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// Where changes are noted before they are made.
    pub journal: Journal,
    /// Our own binary, for targets of the kind `origin`.
    pub prony: PathBuf,
    /// Parent of the targets' working directories; created if need be.
    pub work_dir: PathBuf,
}

/// A server that runs and is ready. Dropping it stops it.
pub struct RunningTarget {
    name: String,
    kind: String,
    address: SocketAddr,
    cpus: Vec<u32>,
    version: String,
    argv: Vec<String>,
    /// Configuration as run, by file name.
    configuration: BTreeMap<String, String>,
    workers: usize,
    // Before the directory, so that a drop ends the processes before their directory goes.
    process: Process,
    directory: WorkDir,
}

/// How a kind of target is run.
struct Server {
    kind: String,
    version: String,
    argv: Vec<String>,
    configuration: BTreeMap<String, String>,
    /// Child processes that must be there before it is ready.
    workers: usize,
}

type Values = BTreeMap<String, String>;

impl Launcher {
    /// Starts a target and waits until it is ready. `addresses` are those of the targets that run
    /// already, for its templates.
    ///
    /// The target dies with the thread that called this (`PR_SET_PDEATHSIG` goes by threads): call it
    /// from one that lives as long as the target shall.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is left running then.
    pub fn start(
        &self,
        spec: &TargetSpec,
        addresses: &BTreeMap<String, SocketAddr>,
    ) -> Result<RunningTarget, TargetError> {
        check_cpus(spec)?;
        let address = listen::claim(&spec.name, spec.listen)?;
        let marker = unique();
        let directory = WorkDir::create(&self.journal, &self.work_dir, &marker)?;
        filling::lay_out(directory.path(), &spec.files)?;
        let values = values(spec, address, directory.path(), addresses);
        let server = self.server(spec, address, &values, directory.path())?;
        let argv = wrapped(spec, &values, server.argv)?;
        let env = rendered_env(spec, &values)?;
        let order = Order {
            target: &spec.name,
            argv: &argv,
            env: &env,
            cpus: &spec.cpus,
            directory: directory.path(),
            marker: &marker,
        };
        let process = Process::spawn(&order, &self.journal)?;
        let mut running = RunningTarget {
            name: spec.name.clone(),
            kind: server.kind,
            address,
            cpus: spec.cpus.clone(),
            version: server.version,
            argv,
            configuration: server.configuration,
            workers: server.workers,
            process,
            directory,
        };
        let timeout = Duration::from_nanos(spec.ready_timeout.0);
        running.wait_until_ready(spec.ready_path.as_deref(), timeout)?;
        Ok(running)
    }

    fn server(
        &self,
        spec: &TargetSpec,
        address: SocketAddr,
        values: &Values,
        dir: &Path,
    ) -> Result<Server, TargetError> {
        match &spec.kind {
            TargetKind::Origin { .. } => Ok(self.origin(&spec.kind, address)),
            TargetKind::Command { argv } => command(spec, argv, values),
            TargetKind::Adapter {
                adapter,
                template_name,
                template,
            } if adapter == "nginx" => {
                let rendered = render(spec, template_name, template, values)?;
                nginx(spec, &rendered, template_name, dir)
            }
            TargetKind::Adapter { adapter, .. } => Err(TargetError::NoAdapter {
                target: spec.name.clone(),
                adapter: adapter.clone(),
            }),
        }
    }

    fn origin(&self, kind: &TargetKind, address: SocketAddr) -> Server {
        let mut argv = vec![
            self.prony.display().to_string(),
            "origin".to_owned(),
            "--listen".to_owned(),
            address.to_string(),
        ];
        if let TargetKind::Origin {
            threads,
            delay,
            freeze,
            body,
        } = kind
        {
            let mut flag = |name: &str, value: Option<String>| {
                if let Some(value) = value {
                    argv.extend([name.to_owned(), value]);
                }
            };
            flag("--threads", Some(threads.to_string()));
            flag("--body", Some(body.0.to_string()));
            flag("--delay", delay.clone());
            flag("--freeze", freeze.clone());
        }
        Server {
            kind: "origin".to_owned(),
            // The binary is our own, so its version is.
            version: concat!("prony/", env!("CARGO_PKG_VERSION")).to_owned(),
            argv,
            configuration: BTreeMap::new(),
            workers: 0,
        }
    }
}

fn command(spec: &TargetSpec, argv: &[String], values: &Values) -> Result<Server, TargetError> {
    let words: Result<Vec<String>, _> = argv
        .iter()
        .map(|word| render(spec, "command", word, values))
        .collect();
    let mut argv = words?;
    if let Some(program) = argv.first_mut() {
        *program = find_program(&spec.name, program, None)?;
    }
    Ok(Server {
        kind: "command".to_owned(),
        // There is no way to ask that all programs understand.
        version: String::new(),
        argv,
        configuration: BTreeMap::new(),
        workers: 0,
    })
}

fn nginx(
    spec: &TargetSpec,
    rendered: &str,
    template_name: &str,
    dir: &Path,
) -> Result<Server, TargetError> {
    let program = find_program(&spec.name, "nginx", Some("nginx"))?;
    let build = Build::ask(&spec.name, &program)?;
    let prepared = nginx::prepare(&spec.name, &program, &build, rendered, template_name, dir)?;
    Ok(Server {
        kind: "nginx".to_owned(),
        version: build.version,
        argv: prepared.argv,
        configuration: BTreeMap::from([("nginx.conf".to_owned(), prepared.configuration)]),
        workers: prepared.workers,
    })
}

fn check_cpus(spec: &TargetSpec) -> Result<(), TargetError> {
    // Unreadable, the CPUs are left to the kernel to refuse.
    let Ok(allowed) = affinity::of(0) else {
        return Ok(());
    };
    match spec.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        None => Ok(()),
        Some(cpu) => Err(TargetError::NoSuchCpu {
            target: spec.name.clone(),
            cpu: *cpu,
            allowed,
        }),
    }
}

/// What the target's templates may name; see `plan::TargetSpec`.
fn values(
    spec: &TargetSpec,
    address: SocketAddr,
    dir: &Path,
    addresses: &BTreeMap<String, SocketAddr>,
) -> Values {
    let workers = spec.cpus.len().max(1).to_string();
    let mut values = Values::from([("workers".to_owned(), workers)]);
    values.extend(spec.values.clone());
    for (name, address) in addresses {
        values.insert(name.clone(), reachable(*address).to_string());
    }
    let mut own = |name: &str, value: String| values.insert(name.to_owned(), value);
    own(&spec.name, reachable(address).to_string());
    own("listen", address.to_string());
    own("address", address.ip().to_string());
    own("port", address.port().to_string());
    own("root", dir.display().to_string());
    values
}

fn render(
    spec: &TargetSpec,
    file: &str,
    text: &str,
    values: &Values,
) -> Result<String, TargetError> {
    template::render(file, text, values).map_err(|cause| TargetError::Template {
        target: spec.name.clone(),
        cause: Box::new(cause),
    })
}

/// The wrapper's words before the server's. A word is split at white space once it is filled in, so
/// that a level may hold a whole wrapper, and an empty level none.
fn wrapped(
    spec: &TargetSpec,
    values: &Values,
    argv: Vec<String>,
) -> Result<Vec<String>, TargetError> {
    let mut words = Vec::new();
    for word in &spec.wrap {
        let rendered = render(spec, "wrap", word, values)?;
        words.extend(rendered.split_whitespace().map(str::to_owned));
    }
    if let Some(program) = words.first_mut() {
        *program = find_program(&spec.name, program, None)?;
    }
    words.extend(argv);
    Ok(words)
}

fn rendered_env(spec: &TargetSpec, values: &Values) -> Result<Values, TargetError> {
    spec.env
        .iter()
        .map(|(name, value)| Ok((name.clone(), render(spec, "env", value, values)?)))
        .collect()
}

/// The absolute path of a program, since the target runs in another directory.
fn find_program(
    target: &str,
    program: &str,
    package: Option<&'static str>,
) -> Result<String, TargetError> {
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
        .ok_or_else(|| TargetError::NoProgram {
            target: target.to_owned(),
            program: program.to_owned(),
            package,
        })
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

impl RunningTarget {
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
        } else if self.kind != "nginx" || title().starts_with("nginx: worker process") {
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
            kind: self.kind.clone(),
            address: self.address.to_string(),
            version: self.version.clone(),
            command: self.argv.clone(),
            cpus: self.cpus.clone(),
            processes: self.processes(),
            ..TargetRecord::default()
        }
    }

    /// Configuration as run and the end of its output, by file name, the target's name in front.
    /// Empty output is left out.
    pub fn files(&self) -> BTreeMap<String, String> {
        let output = ["stdout", "stderr"].map(|name| (name.to_owned(), self.process.output(name)));
        self.configuration
            .clone()
            .into_iter()
            .chain(output)
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (format!("{}.{name}", self.name), text))
            .collect()
    }

    /// Directory that it runs in; gone when it is stopped.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Stops it with all that it has started, and removes its working directory.
    ///
    /// # Errors
    /// [`TargetError::Unstoppable`], or a journal that cannot be written.
    pub fn stop(mut self) -> Result<(), TargetError> {
        self.process.stop()
    }

    /// Looks again and again, with growing pauses that the process's death cuts short.
    fn wait_until_ready(
        &mut self,
        path: Option<&str>,
        timeout: Duration,
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
                return Err(TargetError::Died {
                    target: self.name.clone(),
                    how: how.to_string(),
                    words: self.process.last_words(),
                });
            }
            if started.elapsed() >= timeout {
                return Err(self.not_ready(started.elapsed(), cause));
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
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
        ready::try_once(reachable(self.address), path, longest)?;
        let workers = self
            .processes()
            .iter()
            .filter(|p| p.role == "worker")
            .count();
        if workers < self.workers {
            return Err(format!("{workers} of {} workers run", self.workers));
        }
        Ok(())
    }
}
