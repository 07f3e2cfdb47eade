//! From a target's specification to a running, pinned, ready server.
//!
//! The order of [`Launcher::start`] is that of the errors that a person should see first: CPUs, port,
//! libraries, program, template, the server's own opinion of its configuration, its death, its silence.

use crate::cgroup::Group;
use crate::config::{self, ConfigChange};
use crate::discover;
use crate::error::TargetError;
use crate::filling;
use crate::installed;
use crate::journal::{Journal, unique};
use crate::likeness::Likeness;
use crate::listen;
use crate::process::{Order, Process, Surroundings, Under};
use crate::relimit::Relimits;
use crate::rlimits::Rlimits;
use crate::running::{Holds, RunningTarget};
use crate::server::{self, Server};
use crate::workdir::WorkDir;
use linux::affinity;
use linux::namespace::Namespace;
use plan::{Limits, TargetKind, TargetSpec};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

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

impl Launcher {
    /// Starts a target and waits until it is ready. `addresses` are those of the targets that run
    /// already, for its templates. `interrupted` is asked while it gets ready.
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
        interrupted: &dyn Fn() -> bool,
    ) -> Result<RunningTarget, TargetError> {
        self.start_on(spec, addresses, None, interrupted)
    }

    /// The same on a host of a topology.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is left running then.
    pub fn start_on(
        &self,
        spec: &TargetSpec,
        addresses: &BTreeMap<String, SocketAddr>,
        host: Option<&Namespace>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<RunningTarget, TargetError> {
        let spec = &on_its_node(spec)?;
        check_cpus(spec)?;
        let claim = || listen::claim(&spec.name, spec.listen);
        let address = match host {
            Some(host) => host.within(claim)??,
            None => claim()?,
        };
        let marker = unique();
        let directory = WorkDir::create(&self.journal, &self.work_dir, &marker)?;
        filling::lay_out(directory.path(), &spec.files)?;
        let values = server::values(spec, address, directory.path(), addresses);
        let mut env = server::environment(spec, &values)?;
        installed::preloads(&spec.name, &env)?;
        let path = directory.path();
        // A server that checks its configuration binds its address, which only its host has.
        let prepare = || Server::prepare(spec, address, &values, &env, path, &self.prony);
        let server = match host {
            Some(host) => host.within(prepare)??,
            None => prepare()?,
        };
        for (name, value) in &server.env {
            env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        let group = Group::create(&self.journal, &spec.name, &marker, spec.limits)?;
        let limits = Rlimits::kept().with_open_files(spec.limits.open_files);
        let order = Order {
            target: &spec.name,
            argv: &server.argv,
            env: &env,
            cpus: &spec.cpus,
            directory: path,
            start_in: path,
            marker: &marker,
            places: Surroundings {
                groups: match &group {
                    Some(group) => group.doors(&spec.name)?,
                    None => Vec::new(),
                },
                network: host.map(Namespace::open).transpose()?,
                memory_node: spec.numa,
            },
            under: Under::Limits(Box::new(limits)),
        };
        let process = Process::spawn(order, &self.journal)?;
        let holds = Holds {
            _group: group,
            directory,
        };
        let mut running = RunningTarget::new(spec, address, server, process, holds);
        let timeout = Duration::from_nanos(spec.ready_timeout.0);
        running.wait_until_ready(spec.ready_path.as_deref(), timeout, interrupted)?;
        Ok(running)
    }

    /// Starts a copy of a server that runs: the same program and environment, its user, limits, control groups, nice
    /// value and CPUs as far as they can be had ([`RunningTarget::missing`] says what could not), its configuration
    /// with `changes` in a directory of its own; the listener that serves `serves` is moved to a free port of the
    /// loopback interface, or of the one address that a plain process listens on. The running server and its files are
    /// only read. The copy ends like any target.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is left running then.
    pub fn start_copy(
        &self,
        name: &str,
        server: &record::Server,
        changes: &[ConfigChange],
        serves: SocketAddr,
        at: IpAddr,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<RunningTarget, TargetError> {
        let at = config::bound_at(server, serves).unwrap_or(at);
        let address = listen::claim(name, SocketAddr::from((at, 0)))?;
        let marker = unique();
        let directory = WorkDir::create(&self.journal, &self.work_dir, &marker)?;
        let limits = Relimits::among(server, changes)?;
        let changes: Vec<ConfigChange> = changes
            .iter()
            .filter(|c| !c.is_of_limits())
            .cloned()
            .collect();
        let copy = config::copy(server, &changes, directory.path(), serves, address)?;
        let mut likeness = Likeness::of(server.main_pid, &self.journal, &marker)
            .ok_or_else(|| config::refused(server, "it has ended", "start it again"))?;
        likeness.relimit(server, &limits)?;
        if server.kind == "varnish" {
            likeness.started_by_its_real_user();
        }
        directory.give_to(likeness.owner())?;
        let main = server.processes.iter().find(|p| p.pid == server.main_pid);
        let spec = TargetSpec {
            name: name.to_owned(),
            kind: TargetKind::Command { argv: Vec::new() },
            listen: address,
            host: None,
            cpus: main.map(|p| p.cpus.clone()).unwrap_or_default(),
            numa: None,
            limits: Limits::default(),
            env: BTreeMap::new(),
            wrap: Vec::new(),
            ready_path: None,
            ready_timeout: COPY_READY,
            status_path: None,
            files: BTreeMap::new(),
            values: BTreeMap::new(),
        };
        let order = Order {
            target: name,
            argv: &copy.argv,
            env: &copy.env,
            cpus: &[],
            directory: directory.path(),
            start_in: &copy.directory,
            marker: &marker,
            places: Surroundings::default(),
            under: Under::Conditions(Box::new(likeness.to_take_on())),
        };
        let process = Process::spawn(order, &self.journal)?;
        let prepared = Server {
            kind: format!("copy of {}", server.kind),
            version: server.version.clone(),
            argv: copy.argv.clone(),
            workers: usize::from(server.processes.len() > 1),
            ..Server::default()
        };
        let pid = process.pid();
        let holds = Holds {
            _group: None,
            directory,
        };
        let mut running = RunningTarget::new(&spec, address, prepared, process, holds);
        running.wait_until_ready(None, Duration::from_nanos(COPY_READY.0), interrupted)?;
        listens_apart(server, pid)?;
        // Only now: a server may change its own limits while it starts, and the copy does the same.
        running.likened(likeness.missing_in(pid), likeness.group);
        Ok(running)
    }
}

/// A copy that listens where the server does takes its clients.
fn listens_apart(server: &record::Server, copy: i32) -> Result<(), TargetError> {
    let listens = discover::of_pids(&[copy], "copy").listens;
    match listens.iter().find(|l| server.listens.contains(l)) {
        None => Ok(()),
        Some(shared) => Err(config::refused(
            server,
            &format!("a copy of it listens on {shared} as well, whatever its words say"),
            "start it so that an argument alone says where it listens",
        )),
    }
}

/// Longest wait for a copy.
const COPY_READY: record::Nanos = record::Nanos::from_secs(10);

/// A target that is bound to a node has that node's CPUs.
pub(crate) fn on_its_node(spec: &TargetSpec) -> Result<TargetSpec, TargetError> {
    let mut spec = spec.clone();
    if let Some(node) = spec.numa {
        spec.cpus = affinity::of_node(node).map_err(|e| TargetError::NoSuchNode {
            target: spec.name.clone(),
            node,
            cause: e.to_string(),
        })?;
    }
    Ok(spec)
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
