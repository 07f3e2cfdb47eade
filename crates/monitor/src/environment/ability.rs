//! What prony itself can do on this host: which probes, io_uring, sockets of others, root.

use super::facts::Facts;
use crate::probe::{ProbeConfig, Probes};
use linux::Root;
use record::EnvironmentItem;

const GROUP: &str = "prony";

/// Tries what only a try can tell; takes up to a second, most of it for loading the probes.
pub fn abilities(root: &Root) -> Vec<EnvironmentItem> {
    let mut facts = Facts::new(root);
    facts.find(GROUP, "root", "proc/self/status", "line of Uid", |text| {
        let uids = super::facts::after(text, "Uid", ':')?;
        let is_root = uids.split_whitespace().nth(1)? == "0";
        Some(if is_root { "yes" } else { "no" }.to_owned())
    });
    let btf = root.path("sys/kernel/btf/vmlinux").exists();
    let no_btf = "the kernel is built without CONFIG_DEBUG_INFO_BTF".to_owned();
    facts.add(
        GROUP,
        "btf",
        if btf {
            Ok("yes".to_owned())
        } else {
            Err(no_btf)
        },
    );
    if root.is_live() {
        facts.add(GROUP, "probe_tier", Ok(probe_tier()));
        facts.add(GROUP, "io_uring", io_uring());
    }
    facts.into_items()
}

/// The best tier of probes that can be armed, with the reason why no better one can.
fn probe_tier() -> String {
    let probes = Probes::arm(&ProbeConfig::default());
    let tier = probes.tier();
    let refused = probes.disarm().unavailable;
    match refused.first() {
        Some(reason) if tier != record::Tier::Ebpf => {
            format!("{} ({})", tier.name(), reason.reason)
        }
        _ => tier.name().to_owned(),
    }
}

/// Whether a ring can be made; it is closed at once.
fn io_uring() -> Result<String, String> {
    // SAFETY: io_uring_params is 120 bytes of plain data (linux/io_uring.h) for which all zero bytes are valid; the
    // kernel writes at most its size.
    let fd = unsafe {
        let mut params = [0_u64; 15];
        libc::syscall(libc::SYS_io_uring_setup, 2, params.as_mut_ptr())
    };
    if fd < 0 {
        return Err(format!(
            "io_uring_setup: {}",
            std::io::Error::last_os_error()
        ));
    }
    // SAFETY: `fd` was just opened and nobody else has it.
    unsafe { libc::close(fd as libc::c_int) };
    Ok("yes".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abilities_of_this_host_have_a_value_or_a_reason() {
        let items = abilities(&Root::default());
        let names: Vec<_> = items.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["root", "btf", "probe_tier", "io_uring"]);
        for item in &items {
            assert!(item.value.is_some() != item.reason.is_some(), "{item:?}");
        }
    }
}
