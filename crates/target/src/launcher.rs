//! From a target's specification to a running, pinned, ready server.
//!
//! The order of [`Launcher::start`] is that of the errors that a person should see first: CPUs, port,
//! program, template, the server's own opinion of its configuration, its death, its silence.

use crate::affinity;
use crate::error::TargetError;
use crate::filling;
use crate::journal::{Journal, unique};
use crate::listen;
use crate::process::{Order, Process};
use crate::running::RunningTarget;
use crate::server::{self, Server};
use crate::workdir::WorkDir;
use plan::TargetSpec;
use std::collections::BTreeMap;
use std::net::SocketAddr;
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
        check_cpus(spec)?;
        let address = listen::claim(&spec.name, spec.listen)?;
        let marker = unique();
        let directory = WorkDir::create(&self.journal, &self.work_dir, &marker)?;
        filling::lay_out(directory.path(), &spec.files)?;
        let values = server::values(spec, address, directory.path(), addresses);
        let server = Server::prepare(spec, address, &values, directory.path(), &self.prony)?;
        let order = Order {
            target: &spec.name,
            argv: &server.argv,
            env: &server::environment(spec, &values)?,
            cpus: &spec.cpus,
            directory: directory.path(),
            marker: &marker,
        };
        let process = Process::spawn(&order, &self.journal)?;
        let mut running = RunningTarget::new(spec, address, server, process, directory);
        let timeout = Duration::from_nanos(spec.ready_timeout.0);
        running.wait_until_ready(spec.ready_path.as_deref(), timeout, interrupted)?;
        Ok(running)
    }
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
