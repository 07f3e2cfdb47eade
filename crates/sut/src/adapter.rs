//! The servers that prony knows: how each is started in the foreground, checked, reloaded, and what it says of itself.
//!
//! An adapter turns a filled-in template into a [`Server`]: a command line that needs nothing outside the target's
//! working directory, for root and for an ordinary user alike. What it refuses comes back in the server's own words
//! with the template's lines. The surprise: only half of them can check a configuration without serving it; of the
//! others what they say when they die is read.

mod apache;
mod caddy;
mod haproxy;
mod naviserver;
mod nginx;
mod tomcat;

pub use nginx::stub_status_requests;

use crate::error::TargetError;
use crate::installed;
use crate::places::Places;
use crate::server::{Server, Values};
use std::path::Path;
use std::process::{Command, Output};

/// A configuration to be run.
pub(crate) struct Job<'a> {
    pub target: &'a str,
    /// The template, filled in.
    pub text: &'a str,
    pub places: Places,
    /// The target's working directory.
    pub dir: &'a Path,
    /// The target's environment, filled in: what checks a configuration must see it too.
    pub env: &'a Values,
}

/// An adapter's parts.
#[derive(Clone, Copy)]
pub(crate) struct Adapter {
    /// Its program; an error names the package that has it.
    pub program: fn(&str) -> Result<String, TargetError>,
    /// Values that its templates have beside those of every target.
    pub values: fn(program: &str) -> Vec<(&'static str, String)>,
    /// How it is run.
    pub prepare: fn(program: &str, job: &Job<'_>) -> Result<Server, TargetError>,
}

/// The adapter of this name.
pub(crate) fn find(name: &str) -> Option<Adapter> {
    Some(match name {
        "nginx" => nginx::ADAPTER,
        "haproxy" => haproxy::ADAPTER,
        "apache" => apache::ADAPTER,
        "caddy" => caddy::ADAPTER,
        "tomcat" => tomcat::ADAPTER,
        "naviserver" => naviserver::ADAPTER,
        _ => return None,
    })
}

fn nothing(_program: &str) -> Vec<(&'static str, String)> {
    Vec::new()
}

impl Job<'_> {
    /// Writes the configuration into the working directory and returns its path.
    fn write(&self, name: &str) -> Result<std::path::PathBuf, TargetError> {
        let path = self.dir.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|e| TargetError::file("creating", parent, &e))?;
        }
        std::fs::write(&path, self.text).map_err(|e| TargetError::file("writing", &path, &e))?;
        Ok(path)
    }

    /// Runs the server's own check of its configuration. `said` picks from its output what a person needs.
    ///
    /// # Errors
    /// [`TargetError::Configuration`] with the server's words, its lines being those of the template.
    fn check(
        &self,
        path: &Path,
        argv: &[String],
        env: &Values,
        said: fn(&str) -> String,
    ) -> Result<Output, TargetError> {
        let output = self.run(argv, env)?;
        if output.status.success() {
            return Ok(output);
        }
        let text = text_of(&output);
        let words = match said(&text) {
            words if words.is_empty() => text,
            words => words,
        };
        Err(TargetError::Configuration {
            target: self.target.to_owned(),
            words: self.places.placed(words.trim(), path),
        })
    }

    fn run(&self, argv: &[String], env: &Values) -> Result<Output, TargetError> {
        let (program, arguments) = argv.split_first().expect("an adapter's own command");
        Command::new(program)
            .args(arguments)
            .envs(env)
            .envs(self.env)
            .current_dir(self.dir)
            .output()
            .map_err(|e| installed::spawn_error(self.target, program, &e))
    }
}

/// Both streams of an ended program: some complain on the one, some on the other.
fn text_of(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stdout));
    text
}

/// What `program flags` prints; empty when it cannot be run, as a version is worth no failure.
fn asked(program: &str, flags: &[&str]) -> String {
    let output = Command::new(program).args(flags).output();
    output.map(|o| text_of(&o)).unwrap_or_default()
}

/// The lines that hold.
fn lines(text: &str, holds: impl Fn(&str) -> bool) -> String {
    let kept: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && holds(l))
        .collect();
    kept.join("\n")
}

fn is_root() -> bool {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
