//! Caddy: one process, and an administration socket in the working directory instead of port 2019.
//!
//! The surprise: it is not the Caddyfile that is run, but what Caddy itself makes of it. Older versions can be told
//! only there where to administer them, and two of them on one port would not start.

use super::{Adapter, Job, asked, lines, nothing};
use crate::error::TargetError;
use crate::installed;
use crate::server::{Reload, Server, Values};
use serde_json::{Value, json};

pub(super) const ADAPTER: Adapter = Adapter {
    program: |target| installed::program(target, &["caddy"]),
    values: nothing,
    prepare,
};

fn prepare(program: &str, job: &Job<'_>) -> Result<Server, TargetError> {
    let path = job.write("Caddyfile")?;
    let dir = job.dir.display().to_string();
    let admin = format!("unix/{dir}/admin.sock");
    // Certificates and the last configuration would go to the user's home.
    let env = Values::from([
        ("HOME".to_owned(), dir.clone()),
        ("XDG_DATA_HOME".to_owned(), format!("{dir}/data")),
        ("XDG_CONFIG_HOME".to_owned(), format!("{dir}/config")),
    ]);
    let command = |words: &[&str]| -> Vec<String> {
        std::iter::once(&program)
            .chain(words)
            .map(|w| (*w).to_owned())
            .collect()
    };
    let file = path.display().to_string();
    let adapt = command(&["adapt", "--adapter", "caddyfile", "--config", &file]);
    let adapted = job.check(&path, &adapt, &env, said)?;
    let as_run = administered(&String::from_utf8_lossy(&adapted.stdout), &admin);
    let run = job.dir.join("caddy.json");
    std::fs::write(&run, &as_run).map_err(|e| TargetError::file("writing", &run, &e))?;
    let run = run.display().to_string();
    job.check(&path, &command(&["validate", "--config", &run]), &env, said)?;
    Ok(Server {
        kind: "caddy".to_owned(),
        version: version(&asked(program, &["version"])),
        argv: command(&["run", "--config", &run]),
        env,
        configuration: [
            ("Caddyfile".to_owned(), job.text.to_owned()),
            ("caddy.json".to_owned(), as_run),
        ]
        .into(),
        reload: Reload::Command(command(&["reload", "--config", &run, "--address", &admin])),
        ..Server::default()
    })
}

fn said(text: &str) -> String {
    lines(text, |l| l.starts_with("Error:"))
}

/// The configuration with its administration at `admin`, unless it says where or that there is none.
fn administered(adapted: &str, admin: &str) -> String {
    let Ok(mut config) = serde_json::from_str::<Value>(adapted) else {
        return adapted.to_owned(); // Caddy will say what is wrong with it.
    };
    if let Some(config) = config.as_object_mut() {
        let own = config.entry("admin").or_insert_with(|| json!({}));
        if own.get("listen").is_none() && own.get("disabled").is_none() {
            own["listen"] = json!(admin);
        }
    }
    config.to_string()
}

/// `v2.6.2 h1:...` or `2.6.2`.
fn version(text: &str) -> String {
    match text.split_whitespace().next() {
        Some(number) => format!("Caddy/{}", number.trim_start_matches('v')),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn administration_is_ours_unless_the_file_says_otherwise() {
        for (config, want) in [
            ("{}", r#"{"admin":{"listen":"unix//a"}}"#),
            (
                r#"{"admin":{"disabled":true}}"#,
                r#"{"admin":{"disabled":true}}"#,
            ),
            (r#"{"admin":{"listen":"x"}}"#, r#"{"admin":{"listen":"x"}}"#),
            ("no json", "no json"),
        ] {
            assert_eq!(super::administered(config, "unix//a"), want);
        }
    }

    #[test]
    fn versions() {
        for (text, want) in [
            ("v2.8.4 h1:abc=\n", "Caddy/2.8.4"),
            ("2.6.2\n", "Caddy/2.6.2"),
            ("", ""),
        ] {
            assert_eq!(super::version(text), want);
        }
    }
}
