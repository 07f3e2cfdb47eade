//! Changes of what a server is held to, made to a copy of it: CPU quota and weight, open files, priority.
//!
//! They are named as a unit of systemd names them (systemd.resource-control(5), systemd.exec(5)), whoever set them:
//! that is how most people would make the change. The surprise: a limit can only be changed where it is set. One that a
//! group above the server's holds, or one that prony itself lives under, is refused.

use crate::config::{self, ConfigChange};
use crate::error::TargetError;
use record::Server;

/// Section of these among the changes of a configuration.
pub(crate) const LIMITS: &str = "limits";

/// What is to be other than on the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Relimits {
    /// Cores.
    pub quota_cores: Option<f64>,
    /// In the scale of cpu.weight: 100 is the usual one.
    pub cpu_weight: Option<u64>,
    pub open_files: Option<u64>,
    pub nice: Option<i32>,
}

impl Relimits {
    /// Those among the changes.
    ///
    /// # Errors
    /// [`TargetError::CannotCopy`] for one that is not known.
    pub fn among(server: &Server, changes: &[ConfigChange]) -> Result<Self, TargetError> {
        let mut all = Self::default();
        for change in changes.iter().filter(|c| c.is_of_limits()) {
            if !all.take(&change.name) {
                let cause = format!("`{}` is no limit that a copy can have", change.name);
                return Err(config::refused(server, &cause, "change it by hand"));
            }
        }
        all.open_files = all.open_files.max(raised_by_itself(server, changes));
        Ok(all)
    }

    fn take(&mut self, setting: &str) -> bool {
        let Some((name, value)) = setting.split_once('=') else {
            return false;
        };
        match name {
            "CPUQuota" => {
                let percent = value.strip_suffix('%').and_then(|v| v.parse().ok());
                self.quota_cores = percent.map(|p: f64| p / 100.0).filter(|c| *c > 0.0);
                self.quota_cores.is_some()
            }
            "CPUWeight" => set(&mut self.cpu_weight, value),
            "LimitNOFILE" => set(&mut self.open_files, value),
            "Nice" => set(&mut self.nice, value),
            _ => false,
        }
    }
}

/// Open files that the server raises its limit to as root, and then gives root away: its copy is never root.
fn raised_by_itself(server: &Server, changes: &[ConfigChange]) -> Option<u64> {
    let raises = |c: &&ConfigChange| server.kind == "lighttpd" && c.name == "server.max-fds";
    changes.iter().find(raises)?.args.last()?.parse().ok()
}

fn set<T: std::str::FromStr>(field: &mut Option<T>, value: &str) -> bool {
    *field = value.parse().ok();
    field.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ChangeAction;

    fn among(settings: &[&str]) -> Result<Relimits, String> {
        let changes: Vec<ConfigChange> = settings
            .iter()
            .map(|name| ConfigChange {
                action: ChangeAction::Set,
                context: vec![LIMITS.to_owned()],
                name: (*name).to_owned(),
                args: Vec::new(),
                from: Vec::new(),
            })
            .collect();
        Relimits::among(&Server::default(), &changes).map_err(|e| e.to_string())
    }

    #[test]
    fn limits_are_read_as_a_unit_names_them() {
        let all = among(&[
            "CPUQuota=150%",
            "CPUWeight=100",
            "LimitNOFILE=4096",
            "Nice=-5",
        ]);
        let want = Relimits {
            quota_cores: Some(1.5),
            cpu_weight: Some(100),
            open_files: Some(4096),
            nice: Some(-5),
        };
        assert_eq!(all, Ok(want));
        assert_eq!(among(&[]), Ok(Relimits::default()));
        let mut raised = ConfigChange {
            action: ChangeAction::Set,
            context: Vec::new(),
            name: "server.max-fds".to_owned(),
            args: vec!["=".to_owned(), "8192".to_owned()],
            from: Vec::new(),
        };
        let mut server = Server::default();
        let open_files = |server: &Server, raised: &ConfigChange| {
            let all = Relimits::among(server, std::slice::from_ref(raised));
            all.unwrap().open_files
        };
        assert_eq!(open_files(&server, &raised), None);
        server.kind = "lighttpd".to_owned();
        assert_eq!(open_files(&server, &raised), Some(8192));
        raised.action = ChangeAction::Remove;
        raised.args.clear();
        assert_eq!(open_files(&server, &raised), None);
        for unknown in [
            "CPUQuota=0%",
            "MemoryMax=1",
            "CPUQuota=2",
            "Nice=x",
            "TasksMax=5",
            "Nice",
        ] {
            let error = among(&[unknown]).unwrap_err();
            assert!(error.contains(unknown), "{error}");
        }
    }
}
