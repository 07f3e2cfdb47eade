//! The servers that prony knows how to start, and the configuration that each has when none is given.
//!
//! Only what a plan needs is here; how they are started and stopped is `target`'s business.

/// What a plan knows of an adapter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adapter {
    pub name: &'static str,
    /// Name of the built-in template in messages.
    pub template_name: &'static str,
    pub template: &'static str,
}

const ALL: [Adapter; 1] = [Adapter {
    name: "nginx",
    template_name: "built-in nginx.conf",
    template: include_str!("adapters/nginx.conf"),
}];

pub(crate) fn find(name: &str) -> Option<Adapter> {
    ALL.into_iter().find(|a| a.name == name)
}

/// Names of the known adapters.
pub fn adapters() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|a| a.name)
}
