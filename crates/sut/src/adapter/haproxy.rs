//! HAProxy: a master that stays in the foreground and one worker, so that a reload works.

use super::{Adapter, Job, asked, lines, nothing};
use crate::error::TargetError;
use crate::installed;
use crate::server::{Reload, Server, Values};

pub(super) const ADAPTER: Adapter = Adapter {
    program: |target| installed::program(target, &["haproxy"]),
    values: nothing,
    prepare,
};

fn prepare(program: &str, job: &Job<'_>) -> Result<Server, TargetError> {
    let path = job.write("haproxy.cfg")?;
    let file = path.display().to_string();
    let argv = |flags: &[&str]| -> Vec<String> {
        let flags = flags.iter().map(|f| (*f).to_owned());
        std::iter::once(program.to_owned())
            .chain(flags)
            .chain(["-f".to_owned(), file.clone()])
            .collect()
    };
    job.check(&path, &argv(&["-c"]), &Values::new(), said)?;
    Ok(Server {
        kind: "haproxy".to_owned(),
        version: version(&asked(program, &["-v"])),
        argv: argv(&["-W", "-db"]),
        configuration: [("haproxy.cfg".to_owned(), job.text.to_owned())].into(),
        workers: 1,
        reload: Reload::Signal(libc::SIGUSR2),
        ..Server::default()
    })
}

/// `HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://...`: the first three words.
fn version(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    words.join(" ")
}

/// The alerts, without process number and summary.
fn said(text: &str) -> String {
    let alerts = lines(text, |l| {
        l.starts_with("[ALERT]")
            && !l.contains("(s) found in configuration")
            && !l.contains("Fatal errors")
    });
    let plain: Vec<&str> = alerts
        .lines()
        .map(|l| l.split_once("config : ").map_or(l, |(_, words)| words))
        .collect();
    plain.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_and_version() {
        let text = "[NOTICE]   (77) : haproxy version is 2.6.12\n\
            [ALERT]    (77) : config : parsing [/w/haproxy.cfg:3] : unknown keyword 'x' in 'global' section\n\
            [ALERT]    (77) : config : Error(s) found in configuration file : /w/haproxy.cfg\n\
            [ALERT]    (77) : config : Fatal errors found in configuration.\n";
        assert_eq!(
            said(text),
            "parsing [/w/haproxy.cfg:3] : unknown keyword 'x' in 'global' section"
        );
        assert_eq!(
            version("HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/\nStatus:"),
            "HAProxy version 2.6.12-1+deb12u4"
        );
    }
}
