//! The servers that prony knows how to start, and the configuration that each has when none is given.
//!
//! Only what a plan needs is here; how they are started and stopped is `target`'s business.

use record::Nanos;

/// What a plan knows of an adapter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adapter {
    pub name: &'static str,
    /// Name of the built-in template in messages.
    pub template_name: &'static str,
    pub template: &'static str,
    /// Names that its templates have beside those of every target.
    pub names: &'static [&'static str],
    /// Longest wait for readiness when none is given.
    pub ready_timeout: Nanos,
}

const ORDINARY: Nanos = Nanos::from_secs(10);
/// A Java machine compiles what it runs first, on the one core that it may have.
const SLOW: Nanos = Nanos::from_secs(60);

const ALL: [Adapter; 6] = [
    Adapter {
        name: "nginx",
        template_name: "built-in nginx.conf",
        template: include_str!("adapters/nginx.conf"),
        names: &[],
        ready_timeout: ORDINARY,
    },
    Adapter {
        name: "haproxy",
        template_name: "built-in haproxy.cfg",
        template: include_str!("adapters/haproxy.cfg"),
        names: &[],
        ready_timeout: ORDINARY,
    },
    Adapter {
        name: "apache",
        template_name: "built-in apache.conf",
        template: include_str!("adapters/apache.conf"),
        names: &["modules"],
        ready_timeout: ORDINARY,
    },
    Adapter {
        name: "caddy",
        template_name: "built-in Caddyfile",
        template: include_str!("adapters/Caddyfile"),
        names: &[],
        ready_timeout: ORDINARY,
    },
    Adapter {
        name: "tomcat",
        template_name: "built-in server.xml",
        template: include_str!("adapters/server.xml"),
        names: &["home"],
        ready_timeout: SLOW,
    },
    Adapter {
        name: "naviserver",
        template_name: "built-in nsd.tcl",
        template: include_str!("adapters/nsd.tcl"),
        names: &["home"],
        ready_timeout: ORDINARY,
    },
];

pub(crate) fn find(name: &str) -> Option<Adapter> {
    ALL.into_iter().find(|a| a.name == name)
}

/// Names of the known adapters.
pub fn adapters() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|a| a.name)
}
