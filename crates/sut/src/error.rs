//! Why a target could not be started, watched or stopped, and what to do about it.

use plan::template::TemplateError;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A process that holds something that a target needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: i32,
    /// Name as the kernel shows it.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} ({})", self.pid, self.name)
    }
}

/// Why a target could not be started, watched or stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The server's program is not there.
    #[error("cannot start target `{target}`: {program} is not installed")]
    NoProgram {
        target: String,
        program: String,
        /// How to get it, when that is known.
        known: Option<&'static str>,
    },
    /// A library that shall be loaded before the server cannot be.
    #[error("cannot start target `{target}`: {library} cannot be preloaded: {words}")]
    NoPreload {
        target: String,
        /// The library as it was asked for.
        library: String,
        /// The dynamic loader's own message.
        words: String,
    },
    /// A limit that cannot be set.
    #[error("cannot limit target `{target}`: {cause}")]
    NoLimit {
        target: String,
        /// What stands in the way.
        cause: String,
        /// What would help.
        remedy: String,
    },
    /// A server that cannot read its configuration again.
    #[error("target `{target}` cannot be reloaded: {cause}")]
    NoReload {
        target: String,
        /// Why not.
        cause: String,
    },
    /// Hosts and links that cannot be made.
    #[error("cannot make the topology: {cause}")]
    NoTopology {
        /// What stands in the way.
        cause: String,
        /// What would help.
        remedy: String,
    },
    /// A NUMA node that is not there.
    #[error("cannot bind target `{target}` to NUMA node {node}: {cause}")]
    NoSuchNode {
        target: String,
        node: u32,
        /// The system's words.
        cause: String,
    },
    /// The plan names an adapter that this version does not have.
    #[error("cannot start target `{target}`: there is no adapter `{adapter}`")]
    NoAdapter { target: String, adapter: String },
    /// Something listens there already.
    #[error("cannot start target `{target}`: {address} is in use{}", by(.holders))]
    PortTaken {
        target: String,
        address: SocketAddr,
        /// Who listens there; empty when this user may not see it.
        holders: Vec<Holder>,
    },
    /// The address cannot be listened on.
    #[error("cannot start target `{target}`: listening on {address}: {cause}")]
    Listen {
        target: String,
        address: SocketAddr,
        /// The system's words.
        cause: String,
    },
    /// CPUs that prony itself may not use.
    #[error("cannot pin target `{target}` to CPU {cpu}: this process may use the CPUs {allowed:?}")]
    NoSuchCpu {
        target: String,
        /// First CPU that is not allowed.
        cpu: u32,
        /// The allowed ones.
        allowed: Vec<u32>,
    },
    /// A template could not be filled in.
    #[error("filling in the configuration of target `{target}`: {cause}")]
    Template {
        target: String,
        /// Which name, which line.
        cause: Box<TemplateError>,
    },
    /// The server refuses its configuration.
    #[error("target `{target}` refuses its configuration: {words}")]
    Configuration {
        target: String,
        /// The server's own message.
        words: String,
    },
    /// The system could not start the process.
    #[error("cannot start target `{target}`: running {program}: {cause}")]
    Spawn {
        target: String,
        program: String,
        /// The system's words.
        cause: String,
    },
    /// It ended before it was ready.
    #[error("target `{target}` ended while it was starting ({how}){}", said(.words))]
    Died {
        target: String,
        /// Exit status or signal.
        how: String,
        /// The end of its output.
        words: String,
    },
    /// It runs but does not serve.
    #[error("target `{target}` was not ready after {waited_ms} ms: {cause}{}", said(.words))]
    NotReady {
        target: String,
        /// How long it was waited for.
        waited_ms: u64,
        /// What was missing at last.
        cause: String,
        /// The end of its output.
        words: String,
    },
    /// A person wanted the end before it was ready.
    #[error("target `{target}` was stopped while it was starting")]
    Interrupted { target: String },
    /// Processes of a target that survive SIGKILL.
    #[error("target `{target}` cannot be stopped: {pids:?} survive SIGKILL")]
    Unstoppable {
        target: String,
        /// The processes.
        pids: Vec<i32>,
    },
    /// A systemd unit or cgroup without processes.
    #[error("there is no process in the unit or cgroup `{unit}`")]
    NoUnit {
        /// As it was asked for.
        unit: String,
        /// A service manager runs that could know the name.
        has_systemd: bool,
    },
    /// No container engine is installed.
    #[error("cannot ask for the container `{container}`: none of {engines} is installed")]
    NoEngine {
        container: String,
        /// Their commands.
        engines: String,
    },
    /// No engine knows the container.
    #[error("no container engine knows `{container}`: {said}")]
    NoContainer {
        container: String,
        /// Each engine with its own words.
        said: String,
    },
    /// More than one engine knows the name.
    #[error("the name `{container}` is known to {}", .engines.join(" and "))]
    TwoContainers {
        container: String,
        /// Their commands.
        engines: Vec<String>,
    },
    /// A container without a process.
    #[error("the container `{container}` of {engine} is {status}, it has no process")]
    NotRunning {
        container: String,
        engine: String,
        /// The engine's word for its state.
        status: String,
    },
    /// A container's process that cannot be seen.
    #[error("process {pid} of the container `{container}` ({engine}) is not visible here")]
    NotVisible {
        container: String,
        engine: String,
        pid: i32,
    },
    /// The cluster does not say where a pod is.
    #[error("where the pod {pod} runs is not known: {said}")]
    NoPod {
        pod: String,
        /// kubectl's words, or why it was not asked.
        said: String,
        is_installed: bool,
    },
    /// A pod of several containers, or without the one that was named.
    #[error("the pod {pod} has the containers {}", .containers.join(", "))]
    WhichContainer {
        pod: String,
        containers: Vec<String>,
    },
    /// A container of a pod that has no process.
    #[error("the container {pod} does not run: it is {status}")]
    PodNotRunning {
        pod: String,
        /// Kubernetes' word for its state.
        status: String,
    },
    /// A pod of another host.
    #[error("no process of the pod {pod} is visible here: it runs on the node {node}")]
    OnNode {
        pod: String,
        node: String,
        /// `RUNTIME://ID` of its container.
        id: String,
    },
    /// Nothing says which port is to be loaded.
    #[error("{}", which_port(.container, .published))]
    WhichPort {
        container: String,
        /// The published ones.
        published: Vec<String>,
    },
    /// A server whose configuration cannot be copied for a second instance.
    #[error("cannot copy {server} (process {pid}): {cause}")]
    CannotCopy {
        /// Its kind.
        server: String,
        /// Its main process.
        pid: i32,
        /// What stands in the way.
        cause: String,
        /// What would help; empty when nothing would.
        remedy: String,
    },
    /// A file or directory of the target or of the journal.
    #[error("{doing} {}: {cause}", .path.display())]
    File {
        /// "creating", "writing", ...
        doing: &'static str,
        path: PathBuf,
        /// The system's words.
        cause: String,
    },
    /// The kernel could not be read or asked.
    #[error("{words}")]
    Kernel {
        /// What was being done, and the system's words.
        words: String,
        /// What would help; may be empty.
        remedy: &'static str,
    },
}

fn which_port(container: &str, published: &[String]) -> String {
    match published {
        [] => format!("the container `{container}` publishes no TCP port"),
        all => format!(
            "the container `{container}` publishes several ports: {}",
            all.join(", ")
        ),
    }
}

impl From<linux::Error> for TargetError {
    fn from(error: linux::Error) -> Self {
        Self::Kernel {
            words: error.to_string(),
            remedy: error.remedy(),
        }
    }
}

impl TargetError {
    /// What to do about it; empty when the text says it all.
    pub fn remedy(&self) -> String {
        match self {
            TargetError::NoProgram {
                known: Some(known), ..
            } => (*known).to_owned(),
            TargetError::NoProgram { program, .. } => {
                format!("install it, or give the full path of `{program}`")
            }
            TargetError::NoPreload { library, .. } => {
                crate::installed::remedy(library).map_or_else(
                    || format!("install it, or give the full path of `{library}`"),
                    str::to_owned,
                )
            }
            TargetError::NoLimit { remedy, .. } | TargetError::NoTopology { remedy, .. } => {
                remedy.clone()
            }
            TargetError::NoReload { .. } => "stop it and start it again".to_owned(),
            TargetError::NoSuchNode { .. } => {
                "give the target a `numa` node of this machine (see /sys/devices/system/node), or `cpus`"
                    .to_owned()
            }
            TargetError::NoAdapter { .. } => {
                let known: Vec<&str> = plan::adapters().collect();
                format!("known adapters: {}", known.join(", "))
            }
            TargetError::PortTaken { .. } => {
                "stop that process, or give the target another `listen` address (port 0: a free one)"
                    .to_owned()
            }
            TargetError::Listen { address, .. } if address.port() != 0 && address.port() < 1024 => {
                "use a port of 1024 or more, or run as root".to_owned()
            }
            TargetError::Listen { .. } => {
                "give the target a `listen` address of this machine".to_owned()
            }
            TargetError::NoSuchCpu { .. } => {
                "give the target `cpus` of this machine (see `nproc` and `taskset -p $$`)".to_owned()
            }
            TargetError::Template { cause, .. } => cause.remedy(),
            TargetError::Configuration { .. } => "correct the target's template".to_owned(),
            // How a server that puts itself into the background looks from outside.
            TargetError::Died { how, .. } if how == "exit status: 0" => {
                "a target must stay in the foreground: give it the option for that".to_owned()
            }
            TargetError::Died { .. } => {
                "run the command by hand; its output is above".to_owned()
            }
            TargetError::NotReady { .. } => {
                "raise `ready_timeout`, or correct `listen` and `ready`".to_owned()
            }
            TargetError::Interrupted { .. } => String::new(),
            TargetError::Unstoppable { .. } => {
                "they wait in the kernel (state D): look for a hung device or file system".to_owned()
            }
            TargetError::NoEngine { .. } => {
                "install the command of the engine that runs it, or name its main process with --pid".to_owned()
            }
            TargetError::NoContainer { .. } => {
                "list the containers (`podman ps`, `docker ps`, `nerdctl ps`); those of another user are known to that user alone"
                    .to_owned()
            }
            TargetError::TwoContainers { .. } => {
                "give the container's id in place of its name".to_owned()
            }
            TargetError::NotRunning { engine, container, .. } => {
                format!("start it: {engine} start {container}")
            }
            TargetError::NotVisible { .. } => {
                "run prony as root on the host that runs the container, in the host's PID namespace".to_owned()
            }
            TargetError::NoPod { is_installed: false, .. } => {
                "install kubectl, or name the container on its node: --container RUNTIME://ID, or --pid".to_owned()
            }
            TargetError::NoPod { .. } => {
                "see that `kubectl get pod` finds it with this user's configuration".to_owned()
            }
            TargetError::WhichContainer { pod, .. } => {
                format!("say which: --pod {pod}/CONTAINER")
            }
            TargetError::PodNotRunning { pod, .. } => {
                let mut words = pod.split('/');
                let (namespace, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                format!("kubectl describe pod --namespace {namespace} {name} says why")
            }
            TargetError::OnNode { node, id, .. } => format!(
                "add --server-host root@{node} (or a name of --hosts that leads there), or start prony on the node, as root \
                 and in the host's PID namespace: --container {id}"
            ),
            TargetError::WhichPort { .. } => "say with --url what to load".to_owned(),
            TargetError::NoUnit { has_systemd: true, unit } => {
                format!("systemctl status {unit} says whether it runs; or give --pid")
            }
            TargetError::NoUnit { .. } => {
                "systemd does not run here: give a cgroup's path as /proc/PID/cgroup shows it, or --pid"
                    .to_owned()
            }
            TargetError::CannotCopy { remedy, .. } => remedy.clone(),
            TargetError::Spawn { .. } => "check that the program may be executed".to_owned(),
            TargetError::Kernel { remedy, .. } => (*remedy).to_owned(),
            TargetError::File { .. } => "check the free space and the permissions".to_owned(),
        }
    }

    /// A [`TargetError::File`] from an I/O error.
    pub(crate) fn file(
        doing: &'static str,
        path: impl Into<PathBuf>,
        cause: &std::io::Error,
    ) -> Self {
        Self::File {
            doing,
            path: path.into(),
            cause: cause.to_string(),
        }
    }
}

fn by(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return String::new();
    }
    let names: Vec<String> = holders.iter().map(Holder::to_string).collect();
    format!(" by {}", names.join(", "))
}

fn said(words: &str) -> String {
    if words.is_empty() {
        ", and it said nothing".to_owned()
    } else {
        format!("; it said: {words}")
    }
}
