//! A pod by its name: `kubectl` says on which node it is, which container of it is meant and what it listens on.
//! Everything else is read on that node, of the container with that id, and the cluster is asked for nothing more.

use super::container::{Container, Published, ask, by_id};
use crate::error::TargetError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

const KUBECTL: &str = "kubectl";
/// The annotation by which `kubectl logs` and `exec` choose a container too.
const DEFAULT: &str = "kubectl.kubernetes.io/default-container";

/// `NAMESPACE/NAME`, `NAMESPACE/NAME/CONTAINER`, or a name in the namespace that kubectl is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    namespace: Option<String>,
    name: String,
    container: Option<String>,
}

impl FromStr for PodName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // What Kubernetes calls DNS labels and subdomains; also no flag of kubectl.
        let is_name = |word: &str| {
            let is_inner =
                |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
            !word.is_empty() && word.bytes().all(is_inner) && !word.starts_with(['-', '.'])
        };
        let words: Vec<&str> = text.split('/').collect();
        if !words.iter().all(|word| is_name(word)) {
            return Err(format!(
                "`{text}` is not NAMESPACE/NAME or NAMESPACE/NAME/CONTAINER"
            ));
        }
        let (namespace, name, container) = match *words {
            [name] => (None, name, None),
            [namespace, name] => (Some(namespace), name, None),
            [namespace, name, container] => (Some(namespace), name, Some(container)),
            _ => {
                return Err(format!(
                    "`{text}` has more than namespace, pod and container"
                ));
            }
        };
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            container: container.map(str::to_owned),
        })
    }
}

impl std::fmt::Display for PodName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            self.namespace.as_ref(),
            Some(&self.name),
            self.container.as_ref(),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().map(String::as_str).collect();
        f.write_str(&parts.join("/"))
    }
}

/// A running container of a pod, wherever it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// With its namespace and the container.
    pub name: PodName,
    /// `RUNTIME://ID`.
    pub id: String,
    /// As the cluster calls its host.
    pub node: String,
    /// The pod's.
    pub addresses: Vec<IpAddr>,
    /// TCP ports that the container declares.
    pub ports: Vec<u16>,
}

/// The container that a name means.
///
/// # Errors
/// [`TargetError::NoPod`] when kubectl is not installed or does not know it, [`TargetError::WhichContainer`] when it
/// has several and none is named, [`TargetError::PodNotRunning`].
pub fn pod(name: &PodName) -> Result<Pod, TargetError> {
    let unknown = |said: String, is_installed| TargetError::NoPod {
        pod: name.to_string(),
        said,
        is_installed,
    };
    let mut args = vec!["get", "pod", &name.name, "--output", "json"];
    args.extend(name.namespace.iter().flat_map(|it| ["--namespace", it]));
    let answer =
        ask(KUBECTL, &args).ok_or_else(|| unknown(format!("{KUBECTL} is not installed"), false))?;
    let answer = answer.map_err(|said| unknown(said, true))?;
    let answer: Answer = serde_json::from_str(&answer)
        .map_err(|e| unknown(format!("its answer is no pod: {e}"), true))?;
    chosen(name, answer)
}

/// What is read of `kubectl get pod --output json`.
#[derive(Deserialize)]
struct Answer {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    namespace: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(rename = "nodeName", default)]
    node: String,
    containers: Vec<Declared>,
}

#[derive(Deserialize)]
struct Declared {
    name: String,
    #[serde(default)]
    ports: Vec<Port>,
}

#[derive(Deserialize)]
struct Port {
    #[serde(rename = "containerPort")]
    number: u16,
    protocol: Option<String>,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    phase: String,
    #[serde(rename = "podIP")]
    address: Option<IpAddr>,
    #[serde(rename = "podIPs", default)]
    addresses: Vec<Address>,
    #[serde(rename = "containerStatuses", default)]
    containers: Vec<Started>,
}

#[derive(Deserialize)]
struct Address {
    ip: IpAddr,
}

#[derive(Deserialize)]
struct Started {
    name: String,
    #[serde(rename = "containerID", default)]
    id: String,
    #[serde(default)]
    state: BTreeMap<String, serde_json::Value>,
}

fn chosen(asked: &PodName, answer: Answer) -> Result<Pod, TargetError> {
    let Answer {
        metadata,
        spec,
        status,
    } = answer;
    let named = asked
        .container
        .as_ref()
        .or_else(|| metadata.annotations.get(DEFAULT));
    let declared = match (named, spec.containers.as_slice()) {
        (None, [one]) => Some(one),
        (None, _) => None,
        (Some(named), all) => all.iter().find(|it| it.name == *named),
    };
    let declared = declared.ok_or_else(|| TargetError::WhichContainer {
        pod: format!("{}/{}", metadata.namespace, metadata.name),
        containers: spec.containers.iter().map(|it| it.name.clone()).collect(),
    })?;
    let name = PodName {
        namespace: Some(metadata.namespace),
        name: metadata.name,
        container: Some(declared.name.clone()),
    };
    let started = status.containers.iter().find(|it| it.name == declared.name);
    let running = started.filter(|it| it.state.contains_key("running") && it.id.contains("://"));
    let Some(running) = running else {
        let state = started.and_then(|it| it.state.keys().next()).cloned();
        return Err(TargetError::PodNotRunning {
            pod: name.to_string(),
            status: state.unwrap_or(status.phase),
        });
    };
    let is_tcp = |port: &&Port| port.protocol.as_deref().is_none_or(|it| it == "TCP");
    let mut addresses: Vec<IpAddr> = status.addresses.iter().map(|it| it.ip).collect();
    if addresses.is_empty() {
        addresses.extend(status.address);
    }
    Ok(Pod {
        name,
        id: running.id.clone(),
        node: spec.node,
        addresses,
        ports: declared
            .ports
            .iter()
            .filter(is_tcp)
            .map(|it| it.number)
            .collect(),
    })
}

impl Pod {
    /// The ports that it declares, at its own address.
    fn published(&self) -> Vec<Published> {
        let at = |ip: &IpAddr| {
            let published = |port: &u16| Published {
                address: SocketAddr::new(*ip, *port),
                inside: *port,
            };
            self.ports.iter().map(published).collect()
        };
        self.addresses.first().map(at).unwrap_or_default()
    }

    /// The container as it would be on this host, with `pid` 0: what the cluster knows of it.
    pub fn declared(&self) -> Container {
        let (runtime, id) = self.id.split_once("://").unwrap_or_default();
        Container {
            engine: runtime.to_owned(),
            name: self.name.to_string(),
            id: id.to_owned(),
            pid: 0,
            published: self.published(),
            addresses: self.addresses.clone(),
        }
    }

    /// The container on this host.
    ///
    /// # Errors
    /// [`TargetError::OnNode`] when it runs on another one.
    pub fn here(&self) -> Result<Container, TargetError> {
        let declared = self.declared();
        let here = by_id(&declared.engine, &declared.id).ok_or_else(|| TargetError::OnNode {
            pod: self.name.to_string(),
            node: self.node.clone(),
            id: self.id.clone(),
        })?;
        Ok(Container {
            pid: here.pid,
            ..declared
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kubectl 1.29 prints it, without what is not read.
    const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": "shop"},
        "spec": {"nodeName": "node-3", "containers": [{"name": "app", "image": "shop:2", "ports": [
        {"containerPort": 8080, "name": "http", "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]},
        {"name": "logs"}]}, "status": {"phase": "Running", "podIP": "10.42.1.7", "podIPs": [{"ip": "10.42.1.7"},
        {"ip": "fd00::7"}], "containerStatuses": [{"name": "app", "containerID":
        "containerd://824394fdbe5f0000", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
        {"name": "logs", "containerID": "", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}"#;

    fn read(name: &str, text: &str) -> Result<Pod, TargetError> {
        chosen(&name.parse().unwrap(), serde_json::from_str(text).unwrap())
    }

    #[test]
    fn the_container_that_is_meant_is_read_of_the_clusters_answer() {
        let pod = read("shop/web-0/app", POD).unwrap();
        assert_eq!(pod.name.to_string(), "shop/web-0/app");
        assert_eq!(pod.node, "node-3");
        let declared = pod.declared();
        assert_eq!(
            (&*declared.engine, &*declared.id),
            ("containerd", "824394fdbe5f0000")
        );
        let port = declared.only_port().unwrap();
        assert_eq!(
            (port.address.to_string(), port.inside),
            ("10.42.1.7:8080".to_owned(), 8080)
        );
        assert_eq!(declared.addresses.len(), 2);
        // It runs on no node that this test is on.
        let error = pod.here().unwrap_err();
        assert!(error.to_string().contains("node-3"), "{error}");
        assert!(
            error.remedy().contains("--server-host"),
            "{}",
            error.remedy()
        );
    }

    #[test]
    fn one_of_several_containers_is_not_guessed() {
        let error = read("web-0", POD).unwrap_err().to_string();
        assert!(error.contains("app, logs"), "{error}");
        let annotated = POD.replace(
            r#""namespace": "shop""#,
            r#""namespace": "shop", "annotations": {"kubectl.kubernetes.io/default-container": "app"}"#,
        );
        assert_eq!(
            read("shop/web-0", &annotated)
                .unwrap()
                .name
                .container
                .unwrap(),
            "app"
        );
        let error = read("shop/web-0/web", POD).unwrap_err().to_string();
        assert!(error.contains("app, logs"), "{error}");
    }

    #[test]
    fn a_container_without_a_process_is_said_with_its_state() {
        let error = read("shop/web-0/logs", POD).unwrap_err();
        assert!(error.to_string().contains("waiting"), "{error}");
        assert!(
            error.remedy().contains("kubectl describe pod"),
            "{}",
            error.remedy()
        );
        let pending = r#"{"metadata": {"name": "a", "namespace": "b"}, "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": "Pending"}}"#;
        let error = read("b/a", pending).unwrap_err().to_string();
        assert!(error.contains("Pending"), "{error}");
    }

    #[test]
    fn names_are_those_of_kubernetes() {
        for good in ["web-0", "shop/web-0", "shop/web-0/app"] {
            assert_eq!(good.parse::<PodName>().unwrap().to_string(), good);
        }
        for bad in [
            "", "/", "shop/", "--all", "shop/-A", "a/b/c/d", "Shop/web", "a b",
        ] {
            assert!(bad.parse::<PodName>().is_err(), "{bad}");
        }
    }
}
