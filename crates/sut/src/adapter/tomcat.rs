//! Tomcat: one Java process with a CATALINA_BASE of its own in the working directory.
//!
//! Java is started as `catalina.sh run` would, without the shell: a wrapper and a preload then meet the server itself.
//! `CATALINA_OPTS` and `JAVA_OPTS` of the target's environment become words of the command line as they do there.
//! Tomcat cannot check a configuration without a second Java machine, so a refusal is read from its last words.

use super::{Adapter, Job};
use crate::discover::tomcat_number;
use crate::error::TargetError;
use crate::installed;
use crate::server::{Refusal, Server};
use std::path::{Path, PathBuf};

/// Where distributions and people put it.
const HOMES: [&str; 5] = [
    "/usr/share/tomcat11",
    "/usr/share/tomcat10",
    "/usr/share/tomcat9",
    "/opt/tomcat",
    "/usr/share/tomcat",
];

pub(super) const ADAPTER: Adapter = Adapter {
    program: |target| {
        if home().is_none() {
            return Err(installed::missing(target, "tomcat10"));
        }
        installed::program(target, &["java"])
    },
    values: |_| {
        let home = home().map(|h| h.display().to_string());
        vec![("home", home.unwrap_or_default())]
    },
    prepare,
};

/// `CATALINA_HOME` of prony's own environment, or the first usual place that holds one.
fn home() -> Option<PathBuf> {
    let given = std::env::var_os("CATALINA_HOME").map(PathBuf::from);
    given
        .into_iter()
        .chain(HOMES.map(PathBuf::from))
        .find(|home| home.join("bin/bootstrap.jar").exists())
}

/// What serves files; an experiment that lays out a `conf/web.xml` of its own has that instead.
const WEB_XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0">
  <servlet>
    <servlet-name>default</servlet-name>
    <servlet-class>org.apache.catalina.servlets.DefaultServlet</servlet-class>
    <load-on-startup>1</load-on-startup>
  </servlet>
  <servlet-mapping>
    <servlet-name>default</servlet-name>
    <url-pattern>/</url-pattern>
  </servlet-mapping>
  <welcome-file-list>
    <welcome-file>index.html</welcome-file>
  </welcome-file-list>
</web-app>
"#;

fn prepare(program: &str, job: &Job<'_>) -> Result<Server, TargetError> {
    let home = home().ok_or_else(|| installed::missing(job.target, "tomcat10"))?;
    let path = job.write("conf/server.xml")?;
    for name in ["webapps/ROOT", "temp", "work", "logs"] {
        let dir = job.dir.join(name);
        std::fs::create_dir_all(&dir).map_err(|e| TargetError::file("creating", &dir, &e))?;
    }
    let web = job.dir.join("conf/web.xml");
    if !web.exists() {
        std::fs::write(&web, WEB_XML).map_err(|e| TargetError::file("writing", &web, &e))?;
    }
    Ok(Server {
        kind: "tomcat".to_owned(),
        version: version(&home, Path::new(program)),
        argv: argv(program, &home, job),
        // The connector is bound before the applications are there.
        listens_early: true,
        configuration: [("server.xml".to_owned(), job.text.to_owned())].into(),
        refusal: Some(Refusal {
            path,
            places: job.places.clone(),
            marks: &["SAXParseException", "lineNumber:"],
        }),
        ..Server::default()
    })
}

fn argv(program: &str, home: &Path, job: &Job<'_>) -> Vec<String> {
    let (home, dir) = (home.display(), job.dir.display());
    let mut argv = vec![program.to_owned()];
    for name in ["JAVA_OPTS", "CATALINA_OPTS"] {
        let words = job.env.get(name).map(String::as_str).unwrap_or_default();
        argv.extend(words.split_whitespace().map(str::to_owned));
    }
    argv.extend([
        format!("-Dcatalina.home={home}"),
        format!("-Dcatalina.base={dir}"),
        format!("-Djava.io.tmpdir={dir}/temp"),
        "-cp".to_owned(),
        format!("{home}/bin/bootstrap.jar:{home}/bin/tomcat-juli.jar"),
        "org.apache.catalina.startup.Bootstrap".to_owned(),
        "start".to_owned(),
    ]);
    argv
}

/// `Apache Tomcat 10.1.60, Java 17.0.15`, as far as it can be read without starting Java.
fn version(home: &Path, java: &Path) -> String {
    let number = tomcat_number(home).map(|n| format!("Apache Tomcat {n}"));
    let release = || {
        let java = std::fs::canonicalize(java).ok()?;
        let text = std::fs::read_to_string(java.parent()?.parent()?.join("release")).ok()?;
        let line = text.lines().find_map(|l| l.strip_prefix("JAVA_VERSION="))?;
        Some(format!("Java {}", line.trim_matches('"')))
    };
    let parts: Vec<String> = [number, release()].into_iter().flatten().collect();
    parts.join(", ")
}
