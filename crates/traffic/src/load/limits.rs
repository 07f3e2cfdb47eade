//! What the host must have for a load: open files, local ports, source addresses, CPUs. Checked, and
//! where possible raised, before anything starts.

use super::LoadError;
use crate::sys::{self, RawAddress};
use record::{LoadSpec, Warning};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Open files of the process besides the connections: monitors, record, standard streams.
const RESERVED: u64 = 128;

/// The local ports of a host and how many of them are being waited out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalPorts {
    /// In the range.
    pub range: u64,
    /// Sockets in TIME_WAIT, whatever their address and port.
    pub time_wait: u64,
}

impl LocalPorts {
    /// Reads them below a root (`/proc`); a host without these files is not held to them.
    pub fn read(proc_root: &Path) -> Self {
        let read = |name: &str| std::fs::read_to_string(proc_root.join(name)).unwrap_or_default();
        LocalPorts {
            range: port_range(&read("sys/net/ipv4/ip_local_port_range")).unwrap_or(u64::MAX),
            time_wait: time_wait(&read("net/sockstat")).unwrap_or(0),
        }
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

/// Are there ports for the connections? All of them at once must fit; sockets in TIME_WAIT may belong
/// to other addresses or be reused, so that they are worth a warning only.
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
    let tight = u64::from(spec.connections) > room.saturating_sub(ports.time_wait);
    Ok(tight.then(|| {
        Warning::new(
            "local_ports_in_time_wait",
            format!(
                "{} of the {room} local ports may still be in TIME_WAIT, and {} connections are asked for",
                ports.time_wait, spec.connections
            ),
            "wait a minute, or add source addresses with --source",
        )
    }))
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
        sys::tcp_socket(raw.family())
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
        let ports = LocalPorts::read(root.path());
        assert_eq!((ports.range, ports.time_wait), (u64::MAX, 0));
        std::fs::create_dir_all(root.path().join("sys/net/ipv4")).unwrap();
        std::fs::create_dir_all(root.path().join("net")).unwrap();
        let range = root.path().join("sys/net/ipv4/ip_local_port_range");
        std::fs::write(range, "32768\t60999\n").unwrap();
        let sockstat =
            "sockets: used 9\nTCP: inuse 5 orphan 0 tw 9000 alloc 7 mem 1\nUDP: inuse 0\n";
        std::fs::write(root.path().join("net/sockstat"), sockstat).unwrap();
        let ports = LocalPorts::read(root.path());
        assert_eq!((ports.range, ports.time_wait), (28_232, 9_000));
    }

    #[test]
    fn too_many_connections_for_the_ports_are_refused_with_the_remedy() {
        let ports = LocalPorts {
            range: 28_232,
            time_wait: 9_000,
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
        assert_eq!(check_ports(&spec(100, 0), server(), ports).unwrap(), None);
        let tight = check_ports(&spec(20_000, 0), server(), ports).unwrap();
        assert_eq!(tight.unwrap().name, "local_ports_in_time_wait");
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
