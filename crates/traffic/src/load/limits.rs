//! What the host must have for a load: open files, local ports, source addresses, CPUs. Checked, and
//! where possible raised, before anything starts.

use super::LoadError;
use crate::sys::{self, RawAddress};
use record::{Close, LoadSpec, Nanos, Warning};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Open files of the process besides the connections: monitors, record, standard streams.
const RESERVED: u64 = 128;

/// How long the kernel keeps a connection in TIME_WAIT (`TCP_TIMEWAIT_LEN` in `net/tcp.h`).
const TIME_WAIT: Nanos = Nanos::from_secs(60);

/// The local ports of a host, and how many of them connections to one server are waiting out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalPorts {
    pub range: u64,
    /// Connections to this server in TIME_WAIT whose ports cannot be used for it now.
    pub time_wait: u64,
    /// A connection in TIME_WAIT may be replaced by a new one to the same server.
    pub reused: bool,
}

impl LocalPorts {
    /// Reads them below a root (`/proc`); a host without these files is not held to them.
    pub fn read(proc_root: &Path, server: SocketAddr) -> Self {
        let read = |name: &str| std::fs::read_to_string(proc_root.join(name)).unwrap_or_default();
        let reused = may_reuse(&read("sys/net/ipv4/tcp_tw_reuse"), server);
        let anywhere = time_wait(&read("net/sockstat")).unwrap_or(0);
        // The list has a line for every socket of the host: it is read only when it can matter.
        let time_wait = match (reused, anywhere) {
            (true, _) | (_, 0) => 0,
            _ => {
                let waiting = linux::sockets::tcp_table(proc_root, linux::sockets::TIME_WAIT);
                waiting.iter().filter(|s| s.remote == server).count() as u64
            }
        };
        LocalPorts {
            range: port_range(&read("sys/net/ipv4/ip_local_port_range")).unwrap_or(u64::MAX),
            time_wait,
            reused,
        }
    }
}

/// `net.ipv4.tcp_tw_reuse`: 1 is everywhere, 2 (the default since Linux 4.19) on loopback only.
fn may_reuse(text: &str, server: SocketAddr) -> bool {
    match text.trim() {
        "1" => true,
        "2" => server.ip().is_loopback(),
        _ => false,
    }
}

fn port_range(text: &str) -> Option<u64> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (low, high) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((high + 1).saturating_sub(low))
}

/// `TCP: inuse 5 orphan 0 tw 9000 alloc 7 mem 1`
fn time_wait(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("TCP:"))?;
    let mut words = line.split_whitespace().skip_while(|&word| word != "tw");
    words.nth(1)?.parse().ok()
}

/// Are there ports for the connections? All of them at once must fit. Those that the load leaves behind in
/// TIME_WAIT, or finds there, are worth a warning: how many there will be is an estimate.
pub(crate) fn check_ports(
    spec: &LoadSpec,
    server: SocketAddr,
    ports: LocalPorts,
) -> Result<Option<Warning>, LoadError> {
    let sources = spec.source.len().max(1);
    let room = ports.range.saturating_mul(sources as u64);
    if u64::from(spec.connections) > room {
        return Err(LoadError::LocalPorts {
            connections: spec.connections,
            server,
            ports: ports.range,
            sources,
            time_wait: ports.time_wait,
        });
    }
    let needed = ports_needed(spec, ports.reused);
    let taken = ports.time_wait.min(room);
    Ok((needed > room - taken).then(|| {
        Warning::new(
            "local_ports_in_time_wait",
            format!(
                "the load may need {needed} local ports within a minute; of {room}, connections to {server} in TIME_WAIT hold {taken}"
            ),
            "wait a minute, close with --close rst, use more requests per connection, or add source addresses with --source",
        )
    }))
}

/// Local ports that the load holds at one time, those in TIME_WAIT included; what is not known beforehand
/// (how fast a closed loop will be) is left out.
fn ports_needed(spec: &LoadSpec, reused: bool) -> u64 {
    let open = u64::from(spec.connections);
    let leaves_time_wait = !reused && spec.close == Close::Fin;
    let Some(each) = spec.requests_per_connection.filter(|_| leaves_time_wait) else {
        return open;
    };
    let span = spec.duration.map_or(TIME_WAIT, |d| d.min(TIME_WAIT));
    let by_rate = spec.busiest(span).map(|requests| requests as u64);
    let requests = [by_rate, spec.requests].into_iter().flatten().min();
    requests.unwrap_or(0).div_ceil(each.max(1)).max(open)
}

/// Raises the limit of open files as far as it goes and checks that the connections fit.
pub(crate) fn check_descriptors(connections: u32) -> Result<(), LoadError> {
    let limit = sys::raise_descriptor_limit().unwrap_or(u64::MAX);
    descriptors_suffice(connections, limit)
}

fn descriptors_suffice(connections: u32, limit: u64) -> Result<(), LoadError> {
    if u64::from(connections).saturating_add(RESERVED) > limit {
        return Err(LoadError::DescriptorLimit {
            connections,
            limit,
            reserved: RESERVED,
        });
    }
    Ok(())
}

/// Each source must be of the server's family and an address of this host.
pub(crate) fn check_sources(sources: &[IpAddr], server: SocketAddr) -> Result<(), LoadError> {
    for &address in sources {
        if address.is_ipv4() != server.is_ipv4() {
            return Err(LoadError::SourceFamily { address, server });
        }
        let raw = RawAddress::from(SocketAddr::new(address, 0));
        sys::stream_socket(raw.family(), sys::Blocking::No)
            .and_then(|socket| {
                sys::set_bind_address_no_port(socket.raw())?;
                sys::bind(socket.raw(), &raw)
            })
            .map_err(|errno| LoadError::Source {
                address,
                cause: errno.to_io(),
            })?;
    }
    Ok(())
}

/// Each CPU must be one that this process may use.
pub(crate) fn check_cpus(cpus: &[u32], allowed: &[u32]) -> Result<(), LoadError> {
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(&cpu) => Err(LoadError::Cpu {
            cpu,
            allowed: allowed.to_vec(),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 8080))
    }

    fn spec(connections: u32, sources: u8) -> LoadSpec {
        LoadSpec {
            connections,
            source: (1..=sources)
                .map(|i| IpAddr::from([127, 0, 0, i]))
                .collect(),
            ..LoadSpec::new("http://127.0.0.1:8080/")
        }
    }

    #[test]
    fn ports_are_read_from_proc() {
        let root = tempfile::tempdir().unwrap();
        let read = || LocalPorts::read(root.path(), server());
        assert_eq!((read().range, read().time_wait), (u64::MAX, 0));
        std::fs::create_dir_all(root.path().join("sys/net/ipv4")).unwrap();
        std::fs::create_dir_all(root.path().join("net")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.path().join(name), text).unwrap();
        write("sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
        write(
            "net/sockstat",
            "sockets: used 9\nTCP: inuse 5 orphan 0 tw 9000 alloc 7 mem 1\nUDP: inuse 0\n",
        );
        // Towards the server and waiting; waiting elsewhere; towards it and open; the server's own end.
        let table = "  sl  local_address rem_address   st\n\
            0: 0100007F:833D 0100007F:1F90 06 00000000:00000000 00:00000000 00000000 0 0 7\n\
            1: 0100007F:833E 0100007F:1F91 06 00000000:00000000 00:00000000 00000000 0 0 7\n\
            2: 0100007F:833F 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 0 0 7\n\
            3: 0100007F:1F90 0100007F:8340 06 00000000:00000000 00:00000000 00000000 0 0 7\n";
        write("net/tcp", table);
        assert_eq!((read().range, read().time_wait), (28_232, 1));
        write("sys/net/ipv4/tcp_tw_reuse", "2\n");
        assert_eq!((read().reused, read().time_wait), (true, 0));
    }

    #[test]
    fn too_many_connections_for_the_ports_are_refused_with_the_remedy() {
        let ports = LocalPorts {
            range: 28_232,
            time_wait: 9_000,
            reused: false,
        };
        let error = check_ports(&spec(40_000, 0), server(), ports).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot open 40000 connections to 127.0.0.1:8080: the local port range has 28232 ports for each of 1 source address(es) and 9000 are in TIME_WAIT"
        );
        assert!(error.remedy().contains("--source 127.0.0.2-127.0.0.9"));
        assert_eq!(
            check_ports(&spec(40_000, 2), server(), ports).unwrap(),
            None
        );
    }

    #[test]
    fn ports_in_time_wait_are_worth_a_warning_only_when_the_load_may_lack_them() {
        let ports = LocalPorts {
            range: 28_232,
            time_wait: 9_000,
            reused: false,
        };
        let warns = |spec: &LoadSpec, ports| check_ports(spec, server(), ports).unwrap();
        assert_eq!(warns(&spec(50, 0), ports), None, "kept connections");
        assert!(warns(&spec(20_000, 0), ports).is_some());
        // More than there are, as the other ends of a server's connections can be.
        let full = LocalPorts {
            time_wait: 30_066,
            ..ports
        };
        let seen = warns(&spec(50, 0), full).unwrap().seen;
        assert!(seen.ends_with("of 28232, connections to 127.0.0.1:8080 in TIME_WAIT hold 28232"));
        let each = LoadSpec {
            requests_per_connection: Some(1),
            requests: Some(25_000),
            ..spec(50, 0)
        };
        assert!(
            warns(&each, ports).is_some(),
            "every request leaves one behind"
        );
        let reset = LoadSpec {
            close: Close::Rst,
            ..each.clone()
        };
        assert_eq!(warns(&reset, ports), None);
        let reused = LocalPorts {
            reused: true,
            time_wait: 0,
            ..ports
        };
        assert_eq!(warns(&each, reused), None);
    }

    #[test]
    fn too_many_connections_for_the_open_files_are_refused() {
        assert!(descriptors_suffice(1_000, 20_000).is_ok());
        let error = descriptors_suffice(20_000, 20_000).unwrap_err();
        assert!(error.to_string().contains("20000 open files"));
    }

    #[test]
    fn sources_must_be_ours_and_of_the_same_family() {
        assert!(check_sources(&[IpAddr::from([127, 0, 0, 9])], server()).is_ok());
        // TEST-NET-1 (RFC 5737) is nobody's.
        let foreign = check_sources(&[IpAddr::from([192, 0, 2, 1])], server());
        assert!(matches!(foreign, Err(LoadError::Source { .. })));
        let v6 = check_sources(&["::1".parse().unwrap()], server());
        assert!(matches!(v6, Err(LoadError::SourceFamily { .. })));
    }

    #[test]
    fn cpus_must_be_allowed() {
        assert!(check_cpus(&[0, 1], &[0, 1]).is_ok());
        let error = check_cpus(&[7], &[0, 1]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "pinning a load thread to CPU 7: this process may use 0, 1"
        );
    }
}
