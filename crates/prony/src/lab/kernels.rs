//! The laboratory's server on the kernel's TCP: nginx with one worker, or `prony origin` where nginx is missing.

use super::{inside, of_target};
use crate::exit::Failure;
use plan::{FileContent, Limits, TargetKind, TargetSpec};
use record::{Bytes, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use sut::{LabSide, Launcher, RunningTarget};

/// How long it may take to get ready.
const READY: Nanos = Nanos(20 * Nanos::SECOND.0);

/// What is served.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// The ports, on every address of the side.
    pub ports: BTreeSet<u16>,
    /// Bodies by path.
    pub bodies: BTreeMap<String, Bytes>,
    /// On IPv6 as well.
    pub is_v6: bool,
}

impl Pages {
    /// One body at one port.
    pub fn one(port: u16, path: &str, body: Bytes) -> Self {
        Pages {
            ports: BTreeSet::from([port]),
            bodies: BTreeMap::from([(path.to_owned(), body)]),
            is_v6: false,
        }
    }

    /// What `prony origin` answers as well: one port, bodies whose size is in the path.
    fn are_origins(&self) -> bool {
        let is_sized = |(path, body): (&String, &Bytes)| *path == format!("/bytes/{}", body.0);
        self.ports.len() == 1 && !self.is_v6 && self.bodies.iter().all(is_sized)
    }

    /// One worker, every connection it is given, no log.
    fn nginx(&self) -> String {
        let mut listen = "listen {{listen}} backlog=65000;".to_owned();
        // Writing to a string does not fail.
        for port in self.ports.iter().skip(1) {
            let _ = write!(listen, " listen 0.0.0.0:{port} backlog=65000;");
        }
        for port in self.ports.iter().filter(|_| self.is_v6) {
            let _ = write!(listen, " listen [::]:{port} backlog=65000;");
        }
        format!(
            "worker_processes 1;
worker_rlimit_nofile 65536;
events {{ worker_connections 65000; }}
http {{
    default_type application/octet-stream;
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    server {{ {listen} root {{{{root}}}}/html; }}
}}
"
        )
    }
}

/// The server; it ends with this value.
pub struct Kernels {
    /// `nginx` or `origin`.
    pub name: &'static str,
    _running: RunningTarget,
}

impl Kernels {
    /// Starts it on a side's core, on all of the side's addresses.
    ///
    /// # Errors
    /// [`Failure`] when there is no program for it, or it does not answer.
    pub fn start(
        launcher: &Launcher,
        side: &LabSide,
        pages: &Pages,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, Failure> {
        let adapter = TargetKind::Adapter {
            adapter: "nginx".to_owned(),
            template_name: "lab".to_owned(),
            template: pages.nginx(),
        };
        let file = |(path, body): (&String, &Bytes)| {
            let index = if path.ends_with('/') {
                "index.html"
            } else {
                ""
            };
            (format!("html{path}{index}"), FileContent::Size(*body))
        };
        let port = pages.ports.first().copied().unwrap_or_default();
        let spec = TargetSpec {
            name: "lab".to_owned(),
            kind: adapter,
            listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            host: None,
            cpus: vec![side.cpu],
            numa: None,
            limits: Limits::default(),
            env: BTreeMap::new(),
            wrap: Vec::new(),
            ready_path: pages.bodies.keys().next().cloned(),
            ready_timeout: READY,
            status_path: None,
            files: pages.bodies.iter().map(file).collect(),
            values: BTreeMap::new(),
        };
        let (name, spec) = match sut::lacks(&spec) {
            Some(_) if pages.are_origins() => (
                "origin",
                TargetSpec {
                    kind: TargetKind::Origin {
                        threads: 1,
                        delay: None,
                        freeze: None,
                        body: Bytes(1_024),
                    },
                    files: BTreeMap::new(),
                    ..spec
                },
            ),
            _ => ("nginx", spec),
        };
        let start = || launcher.start(&spec, &BTreeMap::new(), interrupted);
        let running = inside(&side.namespace, start)?.map_err(|e| of_target(&e))?;
        Ok(Self {
            name,
            _running: running,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nginx_listens_on_every_port_and_the_origin_stands_in_where_it_can() {
        let one = Pages::one(8080, "/bytes/1024", Bytes(1_024));
        assert!(one.are_origins());
        assert!(
            one.nginx()
                .contains("server { listen {{listen}} backlog=65000; root")
        );
        let two = Pages {
            ports: BTreeSet::from([80, 81]),
            is_v6: true,
            ..one.clone()
        };
        assert!(!two.are_origins());
        let text = two.nginx();
        for listen in ["0.0.0.0:81", "[::]:80", "[::]:81"] {
            assert!(text.contains(&format!("listen {listen} backlog")), "{text}");
        }
        assert!(!Pages::one(80, "/", Bytes(5)).are_origins());
    }
}
