//! Targets on hosts of their own that are there already: `host` of a target, where no `[topology]` makes hosts.
//!
//! Such a target is started by an agent on a `[host.NAME]`. What is checked here is what can be seen from the file:
//! that the host is known, and that each address is one that the others can reach.

use crate::error::{Fault, Found, unknown};
use crate::hosts::HostSpec;
use crate::targets::Resolved;
use crate::{Plan, TargetSpec, TrialPlan};
use record::Warning;

impl TrialPlan {
    /// The reached host that a target of this trial runs on; `None` for one that runs where prony does, or on a host of
    /// the topology.
    pub fn reached_host<'a>(&self, target: &'a TargetSpec) -> Option<&'a str> {
        target.host.as_deref().filter(|_| self.topology.is_none())
    }

    /// The reached hosts of its targets, each as often as a target names it.
    fn reached_hosts(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().filter_map(|t| self.reached_host(t))
    }
}

impl Plan {
    /// The hosts that loads are sent from, in the order in which the trials name them.
    pub fn load_hosts(&self) -> Vec<&HostSpec> {
        let named = self.trials.iter().flat_map(|trial| &trial.load.hosts);
        self.described(named.map(String::as_str))
    }

    /// The hosts that targets run on, in the order in which the trials name them.
    pub fn target_hosts(&self) -> Vec<&HostSpec> {
        self.described(self.trials.iter().flat_map(TrialPlan::reached_hosts))
    }

    fn described<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<&HostSpec> {
        let mut hosts: Vec<&HostSpec> = Vec::new();
        for name in names {
            if hosts.iter().all(|host| host.name != name) {
                hosts.extend(self.hosts.iter().find(|host| host.name == name));
            }
        }
        hosts
    }
}

/// Checks the targets of a cell that has no topology, in the order in which they start.
///
/// # Errors
/// A host without a section, or an address that means another host to whoever uses it.
pub(crate) fn check(targets: &[&Resolved], hosts: &[HostSpec]) -> Result<(), Found> {
    for target in targets {
        if let Some(name) = target.spec.host.as_deref() {
            let known = || hosts.iter().map(|host| host.name.as_str());
            if !known().any(|known| known == name) {
                let inside = format!(
                    "[target.{}] (a [host.NAME], or [topology])",
                    target.spec.name
                );
                return Err(unknown(target.at, "host", name, &inside, known()));
            }
            if is_own(&target.spec) {
                let why = "that address is of whichever host it is used on: listen on the one under which the others \
                           reach this host, such as \"10.0.0.3:8080\"";
                return Err(conflict(target, why));
            }
        }
        // Its template, or its environment, gives it the address of another.
        let mut used = targets
            .iter()
            .filter(|other| target.names.contains_key(&other.spec.name));
        if let Some(other) = used.find(|o| o.spec.host != target.spec.host && is_own(&o.spec)) {
            let why = "a target on another host uses the address: listen on one that it reaches";
            return Err(conflict(other, why));
        }
    }
    Ok(())
}

/// A loopback address, or every address of the host.
fn is_own(target: &TargetSpec) -> bool {
    target.listen.ip().is_loopback() || target.listen.ip().is_unspecified()
}

fn conflict(target: &Resolved, why: &'static str) -> Found {
    let TargetSpec {
        name, listen, host, ..
    } = &target.spec;
    let fault = Fault::Conflict {
        first: format!("listen = {listen}"),
        second: match host {
            Some(host) => format!("host = {host}"),
            None => "a target on another host".to_owned(),
        },
        inside: format!("[target.{name}]"),
        why,
    };
    Found::at(target.at, fault)
}

/// That settings of the host are made on this one alone.
pub(crate) fn untuned(plan: &Plan) -> Option<Warning> {
    let hosts: Vec<&str> = plan
        .target_hosts()
        .iter()
        .map(|h| h.name.as_str())
        .collect();
    (plan.tune.is_some() && !hosts.is_empty()).then(|| {
        Warning::new(
            "not_tuned_there",
            format!(
                "the settings of `tune` are made on this host alone, and targets run on {}",
                hosts.join(", ")
            ),
            "make them there before the run: prony tune apply",
        )
    })
}
