//! A container by its name: its processes, its published ports, and who carries a connection into it.
//!
//! The engine's own command is asked (`podman container inspect NAME`, and so docker and nerdctl), everything else is
//! read from /proc; no engine's socket is opened here. The surprise: who listens on a published port need not be on
//! the path. podman's conmon and dockerd only keep the port taken while the kernel rewrites packets, and docker-proxy
//! takes connections over loopback alone. So one connection is made, and whoever holds its other end is on it.

use super::{Look, SERVER, best, namespace, unit};
use crate::error::TargetError;
use linux::pidfd::PidFd;
use linux::procfs::{self, PROC};
use linux::sockets::{self, ESTABLISHED, LISTEN, Socket};
use record::{Forwarding, Server, Unavailable, UpstreamPeer};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Commands of engines that inspect alike. containerd's own, `ctr`, knows no published ports; nerdctl does.
const ENGINES: [&str; 3] = ["podman", "docker", "nerdctl"];
/// Digits of an id that people tell containers apart by, and the fewest that are taken for one.
const SHORT: usize = 12;
/// Kinds of servers that copy connections into containers.
const FORWARDERS: [&str; 4] = ["docker-proxy", "rootlessport", "slirp4netns", "pasta"];
/// Target of the program that copies connections into the container.
const FORWARDER: &str = "forwarder";
/// How long an engine may take to answer.
const LONGEST: Duration = Duration::from_secs(10);
/// Longest answer that is read, bytes.
const MOST_OUTPUT: u64 = 16 << 20;
/// How long a connection may take to be made, and then to be seen at its other end.
const CONNECTED: Duration = Duration::from_secs(1);
const SEEN: u32 = 50;
const LOOK: Duration = Duration::from_millis(10);

/// A running container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Command of the engine that knows it.
    pub engine: String,
    pub name: String,
    /// As the engine numbers it.
    pub id: String,
    /// Main process, as this host numbers it.
    pub pid: i32,
    /// Published TCP ports; an address is what reaches it from this host.
    pub published: Vec<Published>,
    /// Its addresses in the engine's networks.
    pub addresses: Vec<IpAddr>,
}

/// A port of this host that leads into a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    pub address: SocketAddr,
    /// Port in the container.
    pub inside: u16,
}

/// How a connection comes into a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    pub forwarding: Forwarding,
    /// The program that copies it, as a target of its own.
    pub forwarder: Option<Server>,
    /// Why it is not known.
    pub unavailable: Option<Unavailable>,
}

/// The running container of this name or id, or of `RUNTIME://ID`, as Kubernetes writes it: that is looked for in the
/// control groups, and nobody is asked.
///
/// # Errors
/// [`TargetError::NoEngine`] when no engine's command is installed, [`TargetError::NoContainer`] when none of them
/// knows it, [`TargetError::TwoContainers`] when several do, [`TargetError::NotRunning`],
/// [`TargetError::NotVisible`] when its process is not one of this host.
pub fn container(name: &str) -> Result<Container, TargetError> {
    if let Some((runtime, id)) = name.split_once("://") {
        return by_id(runtime, id).ok_or_else(|| TargetError::NoContainer {
            container: name.to_owned(),
            said: "no control group of a process here has that id".to_owned(),
        });
    }
    let (mut found, mut said) = (Vec::new(), Vec::new());
    for engine in ENGINES {
        match inspect(engine, name) {
            None => {}
            Some(Ok(text)) => match parse(engine, &text) {
                Ok(it) => found.push(it),
                Err(cause) => said.push(format!("{engine}: {cause}")),
            },
            Some(Err(words)) => said.push(format!("{engine}: {words}")),
        }
    }
    let (container, status) = choose(name, found, &said)?;
    if container.pid <= 0 {
        return Err(TargetError::NotRunning {
            container: name.to_owned(),
            engine: container.engine,
            status,
        });
    }
    if !container.is_here() {
        return Err(TargetError::NotVisible {
            container: name.to_owned(),
            engine: container.engine,
            pid: container.pid,
        });
    }
    Ok(container)
}

/// The one that all engines mean. `docker` may be podman's under another name: one id is one container.
fn choose(
    name: &str,
    mut found: Vec<(Container, String)>,
    said: &[String],
) -> Result<(Container, String), TargetError> {
    let mut ids = BTreeSet::new();
    found.retain(|(container, _)| ids.insert(container.id.clone()));
    if found.len() > 1 {
        return Err(TargetError::TwoContainers {
            container: name.to_owned(),
            engines: found.into_iter().map(|(c, _)| c.engine).collect(),
        });
    }
    match found.pop() {
        Some(one) => Ok(one),
        None if said.is_empty() => Err(TargetError::NoEngine {
            container: name.to_owned(),
            engines: ENGINES.join(", "),
        }),
        None => Err(TargetError::NoContainer {
            container: name.to_owned(),
            said: said.join("; "),
        }),
    }
}

/// The container whose processes have its id in the names of their control groups. Ids are long: nothing else is
/// called so but the runtime's own monitor of it.
pub(super) fn by_id(runtime: &str, id: &str) -> Option<Container> {
    if id.len() < SHORT || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let is_its = |segment: &str| {
        let name = segment.strip_suffix(".scope").unwrap_or(segment);
        name.ends_with(id) && !name.contains("conmon")
    };
    let is_in = |pid: i32| {
        let groups = std::fs::read_to_string(format!("{PROC}/{pid}/cgroup")).unwrap_or_default();
        let mut paths = groups.lines().filter_map(|l| l.splitn(3, ':').nth(2));
        paths.any(|path| path.split('/').any(is_its))
    };
    let all = procfs::living(Path::new(PROC)).into_iter();
    // Its first process is the oldest; others may have been adopted, or put there by `exec`.
    let main = all.filter(|p| is_in(p.pid)).min_by_key(|p| p.start_ticks)?;
    Some(Container {
        engine: runtime.to_owned(),
        name: id[..SHORT].to_owned(),
        id: id.to_owned(),
        pid: main.pid,
        ..Container::default()
    })
}

/// What an engine says of a name, or the last line of its refusal; `None` where it is not installed.
fn inspect(engine: &str, name: &str) -> Option<Result<String, String>> {
    ask(engine, &["container", "inspect", "--", name])
}

/// What a command prints, or the last line of its refusal; `None` where it is not installed.
pub(super) fn ask(program: &str, args: &[&str]) -> Option<Result<String, String>> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    // Read while it writes: a long answer would fill the pipe, and it would wait for ever.
    let readers = [
        child.stdout.take().map(reading),
        child.stderr.take().map(reading),
    ];
    let pid = i32::try_from(child.id()).ok()?;
    let ended = PidFd::open(pid).is_ok_and(|pidfd| pidfd.wait(LONGEST));
    if !ended {
        let _ = child.kill();
    }
    let status = child.wait();
    let [out, err] = readers.map(|reader| reader.and_then(|r| r.join().ok()).unwrap_or_default());
    if !ended {
        return Some(Err(format!("no answer within {} s", LONGEST.as_secs())));
    }
    if status.is_ok_and(|status| status.success()) {
        return Some(Ok(out));
    }
    let last = err.lines().rev().find(|line| !line.trim().is_empty());
    Some(Err(last.unwrap_or("it failed without a word").to_owned()))
}

fn reading(stream: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read of a stream that breaks off is its text.
        let _ = stream.take(MOST_OUTPUT).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// What is read of an engine's answer. podman and nerdctl give docker's names.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    id: String,
    name: String,
    state: State,
    #[serde(default)]
    network_settings: NetworkSettings,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    #[serde(default)]
    status: String,
    #[serde(default)]
    pid: i32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct NetworkSettings {
    ports: Option<BTreeMap<String, Option<Vec<Binding>>>>,
    networks: Option<BTreeMap<String, Network>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Binding {
    #[serde(default)]
    host_ip: String,
    host_port: String,
}

#[derive(Deserialize)]
struct Network {
    #[serde(rename = "IPAddress", default)]
    address: String,
}

/// The container of an engine's answer, and its state in the engine's word.
fn parse(engine: &str, text: &str) -> Result<(Container, String), String> {
    let all: Vec<Inspected> = serde_json::from_str(text)
        .map_err(|e| format!("its answer is not that of `{engine} container inspect`: {e}"))?;
    let one = all
        .into_iter()
        .next()
        .ok_or("its answer is empty".to_owned())?;
    let ports = one.network_settings.ports.unwrap_or_default();
    let mut published: Vec<Published> = Vec::new();
    for (inside, bindings) in &ports {
        let Some(inside) = inside.strip_suffix("/tcp").and_then(|p| p.parse().ok()) else {
            continue;
        };
        for binding in bindings.iter().flatten() {
            let Ok(port) = binding.host_port.parse() else {
                continue;
            };
            let address = SocketAddr::new(reachable(&binding.host_ip), port);
            // docker lists a port that is open to all addresses once for each family.
            if !published
                .iter()
                .any(|p| p.address.port() == port && p.inside == inside)
            {
                published.push(Published { address, inside });
            }
        }
    }
    let networks = one.network_settings.networks.unwrap_or_default();
    let container = Container {
        engine: engine.to_owned(),
        name: one.name.trim_start_matches('/').to_owned(),
        id: one.id,
        pid: one.state.pid,
        published,
        addresses: networks
            .values()
            .filter_map(|n| n.address.parse().ok())
            .collect(),
    };
    Ok((container, one.state.status))
}

/// The address to go to for one that a port is published at; nothing or all addresses: loopback.
fn reachable(host_ip: &str) -> IpAddr {
    match host_ip.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        Ok(ip) if !ip.is_unspecified() => ip,
        _ => Ipv4Addr::LOCALHOST.into(),
    }
}

impl Container {
    /// The engine may be on another host (DOCKER_HOST), whose process numbers mean others here. A process of a
    /// container has another mount namespace than this one, or the container's number in its control group.
    fn is_here(&self) -> bool {
        let link = |of: &str, what: &str| std::fs::read_link(format!("{PROC}/{of}/ns/{what}")).ok();
        let pid = self.pid.to_string();
        let (its, own) = (link(&pid, "mnt"), link("self", "mnt"));
        let groups = std::fs::read_to_string(format!("{PROC}/{pid}/cgroup")).unwrap_or_default();
        // Shorter, it could stand there by chance.
        its.is_some() && its != own || self.id.len() >= SHORT && groups.contains(&self.id)
    }

    /// Its processes: those of its PID namespace, or of its control group where it has the host's.
    fn pids(&self, look: &Look) -> Vec<i32> {
        let namespace = |of: &str| std::fs::read_link(format!("{PROC}/{of}/ns/pid")).ok();
        let its = namespace(&self.pid.to_string());
        if its.is_some() && its != namespace("self") {
            let is_in = |pid: &i32| namespace(&pid.to_string()) == its;
            return look.processes.keys().copied().filter(is_in).collect();
        }
        let groups =
            std::fs::read_to_string(format!("{PROC}/{}/cgroup", self.pid)).unwrap_or_default();
        let paths = groups.lines().filter_map(|l| l.splitn(3, ':').nth(2));
        let own = paths.max_by_key(|path| path.len()).unwrap_or("/");
        // In the root of all groups are others too.
        match unit::pids(Path::new(PROC), own) {
            Ok(pids) if own != "/" => pids,
            _ => vec![self.pid],
        }
    }

    /// The port inside that an address of this host leads to; the same where none is published there, as for the
    /// container's own address.
    pub fn inside(&self, port: u16) -> u16 {
        let published = self.published.iter();
        let mut to = published.filter(|p| p.address.port() == port);
        to.next().map_or(port, |p| p.inside)
    }

    /// The only published port.
    ///
    /// # Errors
    /// [`TargetError::WhichPort`] when there is none, or several.
    pub fn only_port(&self) -> Result<Published, TargetError> {
        match self.published.as_slice() {
            [one] => Ok(*one),
            all => Err(TargetError::WhichPort {
                container: self.name.clone(),
                published: all
                    .iter()
                    .map(|p| format!("{} (port {} inside)", p.address, p.inside))
                    .collect(),
            }),
        }
    }

    /// The server in it: who listens on that port inside, with all children; all of its processes where nobody does,
    /// or no port is given. An init process and programs beside the server do not belong to it.
    pub fn server(&self, inside: Option<u16>) -> Server {
        let look = Look::take();
        let pids = self.pids(&look);
        let holders = inside.map_or_else(Vec::new, |port| self.listeners(port, &pids));
        let pids = if holders.is_empty() { pids } else { holders };
        match namespace::is_another(self.pid) {
            true => look.in_namespace(&pids, SERVER),
            false => look.server(&pids, SERVER),
        }
    }

    fn listeners(&self, port: u16, pids: &[i32]) -> Vec<i32> {
        let root = Path::new(PROC);
        let inodes = sockets::tcp_table(&root.join(self.pid.to_string()), LISTEN)
            .iter()
            .filter(|s| s.local.port() == port)
            .map(|s| s.inode)
            .collect();
        let held = sockets::holders(root, &inodes, pids);
        let pids: BTreeSet<i32> = held.into_values().flatten().collect();
        pids.into_iter().collect()
    }

    /// Who carries a connection to `address` into it, by making one; nothing is sent over it.
    pub fn way(&self, address: SocketAddr) -> Way {
        let way = |forwarding| Way {
            forwarding,
            ..Way::default()
        };
        if !namespace::is_another(self.pid) || self.addresses.contains(&address.ip()) {
            return way(Forwarding::None);
        }
        let unknown = |reason: String| Way {
            unavailable: Some(Unavailable {
                what: "who carries connections into the container".to_owned(),
                reason,
                remedy: "run prony as root on the container's host".to_owned(),
            }),
            ..Way::default()
        };
        let connected = TcpStream::connect_timeout(&address, CONNECTED);
        let ends = connected.and_then(|c| Ok((c.local_addr()?, c.peer_addr()?, c)));
        let (local, peer, _connection) = match ends {
            Ok(ends) => ends,
            Err(cause) => return unknown(format!("connecting to {address}: {cause}")),
        };
        let root = Path::new(PROC);
        for _ in 0..SEEN {
            let here = sockets::tcp(root, ESTABLISHED);
            if let Some(end) = here.iter().find(|s| is_other_end(s, local, peer)) {
                let look = Look::take();
                let all: Vec<i32> = look.processes.keys().copied().collect();
                let held = sockets::holders(root, &BTreeSet::from([end.inode]), &all);
                let pids: Vec<i32> = held.into_values().flatten().collect();
                // Until it is accepted nobody holds it.
                if end.inode != 0 && !pids.is_empty() {
                    return self.forwarded(&look, &pids, self.inside(address.port()));
                }
            } else if sockets::tcp_table(&root.join(self.pid.to_string()), ESTABLISHED)
                .iter()
                .any(|s| s.remote.port() == local.port())
            {
                return way(Forwarding::Kernel);
            }
            std::thread::sleep(LOOK);
        }
        unknown(format!(
            "the other end of a connection to {address} was seen neither on this host nor in the container"
        ))
    }

    fn forwarded(&self, look: &Look, pids: &[i32], inside: u16) -> Way {
        let mut forwarder = look.server(pids, FORWARDER);
        let to = self
            .addresses
            .first()
            .map(|ip| SocketAddr::new(*ip, inside));
        forwarder.upstreams.push(UpstreamPeer {
            address: to.map_or_else(|| format!("{}:{inside}", self.name), |to| to.to_string()),
            connections: 1,
            target: Some(SERVER.to_owned()),
        });
        Way {
            forwarding: Forwarding::Program,
            forwarder: Some(forwarder),
            unavailable: None,
        }
    }

    /// The program that copies connections into it, by its name: what is known where none may be made. Whether clients
    /// come by it is not.
    pub fn forwarder(&self) -> Option<Server> {
        let look = Look::take();
        let servers = self.published.iter().filter_map(|published| {
            let listeners = best(&look.listeners, published.address);
            let holders = look.holders_of(listeners.iter().map(|s| s.inode));
            (!holders.is_empty()).then(|| look.server(&holders, FORWARDER))
        });
        servers
            .into_iter()
            .find(|s| FORWARDERS.contains(&s.kind.as_str()))
    }
}

fn is_other_end(socket: &Socket, local: SocketAddr, peer: SocketAddr) -> bool {
    let plain = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
    (socket.local, socket.remote) == (plain(peer), plain(local))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As podman 4.3 prints it, without what is not read.
    const PODMAN: &str = r#"[{"Id": "824394fdbe5f", "Name": "web", "Path": "/prony", "State": {"Status": "running",
        "Running": true, "Pid": 20034, "ConmonPid": 20032}, "NetworkSettings": {"IPAddress": "10.88.0.6", "Ports":
        {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "18080"}], "53/udp": [{"HostIp": "", "HostPort": "53"}],
        "9090/tcp": null}, "Networks": {"podman": {"IPAddress": "10.88.0.6", "Links": null}}}}]"#;

    fn parsed(text: &str) -> Container {
        parse("podman", text).unwrap().0
    }

    #[test]
    fn an_engines_answer_is_read() {
        let (container, status) = parse("podman", PODMAN).unwrap();
        let published = Published {
            address: "127.0.0.1:18080".parse().unwrap(),
            inside: 8080,
        };
        let want = Container {
            engine: "podman".to_owned(),
            name: "web".to_owned(),
            id: "824394fdbe5f".to_owned(),
            pid: 20034,
            published: vec![published],
            addresses: vec!["10.88.0.6".parse().unwrap()],
        };
        assert_eq!((container, status.as_str()), (want, "running"));
        assert!(parse("podman", "[]").is_err() && parse("podman", "json").is_err());
    }

    #[test]
    fn a_port_open_to_all_addresses_is_one_port_at_loopback() {
        let docker = PODMAN.replace(
            r#"[{"HostIp": "127.0.0.1", "HostPort": "18080"}]"#,
            r#"[{"HostIp": "0.0.0.0", "HostPort": "80"}, {"HostIp": "::", "HostPort": "80"}]"#,
        );
        let container = parsed(&docker);
        assert_eq!(
            container.only_port().unwrap().address.to_string(),
            "127.0.0.1:80"
        );
        assert_eq!((container.inside(80), container.inside(8080)), (8080, 8080));
        assert_eq!(reachable("::").to_string(), "::1");
        assert_eq!(reachable("").to_string(), "127.0.0.1");
        assert_eq!(reachable("192.0.2.1").to_string(), "192.0.2.1");
    }

    #[test]
    fn several_ports_are_listed_and_none_is_said() {
        let two = PODMAN.replace(
            r#""9090/tcp": null"#,
            r#""9090/tcp": [{"HostPort": "19090"}]"#,
        );
        let error = parsed(&two).only_port().unwrap_err().to_string();
        assert!(
            error.contains("127.0.0.1:18080 (port 8080 inside)"),
            "{error}"
        );
        assert!(
            error.contains("127.0.0.1:19090 (port 9090 inside)"),
            "{error}"
        );
        let none = parsed(&PODMAN.replace("/tcp", "/sctp")).only_port();
        let error = none.unwrap_err();
        assert!(
            error.to_string().contains("publishes no TCP port"),
            "{error}"
        );
        assert!(error.remedy().contains("--url"));
    }

    #[test]
    fn one_name_known_to_two_engines_is_not_guessed() {
        let one = |engine: &str, id: &str| {
            let container = Container {
                engine: engine.to_owned(),
                id: id.to_owned(),
                ..Container::default()
            };
            (container, String::new())
        };
        let both = vec![one("podman", "a"), one("docker", "b")];
        let error = choose("web", both, &[]).unwrap_err().to_string();
        assert!(error.contains("podman and docker"), "{error}");
        // podman under docker's name.
        let same = vec![one("podman", "a"), one("docker", "a")];
        assert_eq!(choose("web", same, &[]).unwrap().0.engine, "podman");
        let none = choose("web", Vec::new(), &[]).unwrap_err().to_string();
        assert!(none.contains("podman, docker, nerdctl"), "{none}");
        let said = ["podman: no such container web".to_owned()];
        let none = choose("web", Vec::new(), &said).unwrap_err().to_string();
        assert!(none.contains("no such container web"), "{none}");
    }

    #[test]
    fn a_process_of_this_namespace_is_no_container() {
        let own = Container {
            id: "no-such-id".to_owned(),
            pid: i32::try_from(std::process::id()).unwrap(),
            ..Container::default()
        };
        assert!(!own.is_here());
    }
}
