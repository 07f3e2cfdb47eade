//! Hosts as network namespaces: made, used, removed, and removed after a crash. They take root; as an ordinary user
//! the tests hold that this is said.

use crate::bench::{Bench, spec};
use crate::servers::get;
use linux::namespace::Namespace;
use plan::{Link, Topology};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use sut::{Journal, Network, TargetError};

fn topology(link: Link) -> Topology {
    Topology {
        network: Ipv4Addr::new(10, 83, 0, 0),
        clients: 3,
        hosts: ["client", "backend", "proxy"].map(str::to_owned).to_vec(),
        all: link,
        links: BTreeMap::new(),
    }
}

/// The network; `None` where namespaces cannot be made, which must be said with a remedy.
fn made(journal: &Journal, topology: &Topology) -> Option<Network> {
    match Network::create(journal, topology) {
        Ok(network) => Some(network),
        Err(TargetError::NoTopology { cause, remedy }) => {
            assert!(!cause.is_empty() && !remedy.is_empty());
            None
        }
        Err(other) => panic!("{other}"),
    }
}

fn exists(name: &str) -> bool {
    Path::new("/run/netns").join(name).exists()
}

/// The namespace of the calling thread.
fn own_namespace() -> std::path::PathBuf {
    std::fs::read_link("/proc/thread-self/ns/net").expect("every thread has one")
}

/// What `ip` says in a namespace.
fn ip(host: &Namespace, words: &[&str]) -> String {
    let output = std::process::Command::new("ip")
        .args(["-n", host.name()])
        .args(words)
        .output()
        .expect("ip was there to make it");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn three_hosts_serve_each_other_over_their_links() {
    let bench = Bench::new();
    let link = Link {
        mtu: Some(1400),
        initcwnd: Some(2),
        rate_bits_per_s: Some(1_000_000_000),
    };
    let Some(network) = made(&bench.launcher.journal, &topology(link)) else {
        return;
    };
    let host = |name: &str| network.host(name).expect("it was asked for");
    let mut backend = spec(
        "adapter = \"nginx\"\nfiles = { \"html/x\" = { text = \"from behind\" } }",
        "",
    );
    backend.listen = "10.83.128.1:0".parse().expect("an address");
    let outside = own_namespace();
    let inside = network
        .client()
        .expect("it was asked for")
        .enter()
        .expect("root may");
    let running = bench
        .launcher
        .start_on(&backend, &[].into(), Some(host("backend")), &|| false)
        .unwrap_or_else(|e| panic!("{e}"));
    let mut proxy = spec(
        "adapter = \"nginx\"\ntemplate = \"t\"",
        "events {}\nhttp { server { listen {{listen}}; location / { proxy_pass http://{{s}}; } } }\n",
    );
    proxy.name = "proxy".to_owned();
    proxy.listen = "10.83.129.1:8080".parse().expect("an address");
    let addresses = [("s".to_owned(), running.address())].into();
    let front = bench
        .launcher
        .start_on(&proxy, &addresses, Some(host("proxy")), &|| false)
        .unwrap_or_else(|e| panic!("{e}"));
    assert_ne!(own_namespace(), outside);
    assert!(get(front.address(), "/x").ends_with("from behind"));
    let routes = ip(host("client"), &["route"]);
    assert_eq!(routes.matches("initcwnd 2").count(), 2, "{routes}");
    assert_eq!(ip(host("client"), &["link"]).matches("mtu 1400").count(), 2);
    assert_eq!(
        ip(host("client"), &["addr", "show", "lo"])
            .matches("10.83.0.")
            .count(),
        3
    );
    assert_eq!(ip(host("proxy"), &["link"]).matches("qdisc tbf").count(), 2);
    drop(inside);
    assert_eq!(own_namespace(), outside, "this thread is back where it was");
    drop((front, running));
    let names: Vec<String> = ["client", "backend", "proxy"]
        .map(|h| host(h).name().to_owned())
        .to_vec();
    assert!(names.iter().all(|n| exists(n)));
    drop(network);
    assert!(!names.iter().any(|n| exists(n)));
}

#[test]
fn what_ip_refuses_leaves_nothing() {
    let bench = Bench::new();
    let twice = Topology {
        hosts: ["client", "twin", "twin"].map(str::to_owned).to_vec(),
        ..topology(Link::default())
    };
    let Err(error) = Network::create(&bench.launcher.journal, &twice) else {
        panic!("two hosts of one name")
    };
    assert!(matches!(error, TargetError::NoTopology { .. }), "{error}");
    let own = format!("prony-{}-", std::process::id());
    let left: Vec<String> = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(&own) && name.ends_with("-twin"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}
