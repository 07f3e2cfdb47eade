//! Processes of a systemd unit or a cgroup.
//!
//! The surprise: no service manager is asked. A unit is a cgroup whose path ends with its name, and
//! `/proc/PID/cgroup` says which process is in it, in either version of cgroups and inside nested groups.

use super::program::read_bounded;
use crate::error::TargetError;
use linux::procfs;
use std::path::Path;

/// By pid.
///
/// # Errors
/// [`TargetError::NoUnit`] when no process is in it.
pub(crate) fn pids(root: &Path, name: &str) -> Result<Vec<i32>, TargetError> {
    let is_in = |pid: i32| {
        let bytes = read_bounded(&root.join(format!("{pid}/cgroup"))).unwrap_or_default();
        String::from_utf8_lossy(&bytes)
            .lines()
            // hierarchy:controllers:path
            .filter_map(|line| line.splitn(3, ':').nth(2))
            .any(|path| matches(path, name))
    };
    let found: Vec<i32> = procfs::living(root)
        .iter()
        .map(|s| s.pid)
        .filter(|pid| is_in(*pid))
        .collect();
    if found.is_empty() {
        return Err(TargetError::NoUnit {
            unit: name.to_owned(),
            has_systemd: Path::new("/run/systemd/system").is_dir(),
        });
    }
    Ok(found)
}

/// A path names its group and all below; a unit's name is one component, `.service` understood.
fn matches(path: &str, name: &str) -> bool {
    let path = path.trim_end_matches('/');
    if name.starts_with('/') {
        let wanted = name.trim_end_matches('/');
        return !wanted.is_empty()
            && path
                .strip_prefix(wanted)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    }
    let service = format!("{name}.service");
    !name.is_empty() && path.split('/').any(|part| part == name || part == service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_a_component_and_a_path_a_prefix() {
        for (path, name, want) in [
            ("/system.slice/nginx.service", "nginx", true),
            ("/system.slice/nginx.service", "nginx.service", true),
            ("/system.slice/nginx.service/sub", "nginx", true),
            ("/system.slice/nginx-a.service", "nginx", false),
            ("/a/b/c", "/a/b", true),
            ("/a/bc", "/a/b", false),
            ("/a", "/", false),
            ("/", "", false),
        ] {
            assert_eq!(matches(path, name), want, "{path} {name}");
        }
    }

    #[test]
    fn an_unknown_unit_is_an_error_with_a_remedy() {
        let error = pids(Path::new("/proc"), "no-such-unit").unwrap_err();
        assert!(error.to_string().contains("`no-such-unit`"), "{error}");
        assert!(!error.remedy().is_empty());
    }
}
