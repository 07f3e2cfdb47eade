//! Tomcat's `conf/server.xml`: the attributes of each element as directives, the element itself before them.
//!
//! The surprise: an attribute that is not there has a default in the program, and `${name}` comes from a system
//! property of the command line or from `conf/catalina.properties`.

use super::files::{Files, MOST_DIRECTIVES};
use record::{Directive, Server};
use std::path::{Path, PathBuf};

pub(crate) fn read(server: &mut Server, files: &mut Files) {
    let Some(source) = Source::of(server, files) else {
        return;
    };
    match source.directives() {
        Ok(found) => server.directives.extend(found),
        Err(reason) => files.say(
            &format!("contents of {}", source.path.display()),
            &reason,
            "correct the file",
        ),
    }
}

/// `conf/server.xml` of a running Tomcat, and what its `${name}` stand for.
pub(crate) struct Source {
    /// CATALINA_BASE.
    pub base: PathBuf,
    pub path: PathBuf,
    pub text: String,
    /// Command line of the server.
    command: Vec<String>,
    /// `conf/catalina.properties`, where a name is used.
    properties: String,
}

impl Source {
    /// `None` is said in `files`.
    pub fn of(server: &Server, files: &mut Files) -> Option<Self> {
        let property = |name: &str| crate::discover::property(&server.command, name);
        let Some(base) = property("catalina.base").or_else(|| property("catalina.home")) else {
            files.say(
                "conf/server.xml",
                "the command line has no catalina.base",
                "",
            );
            return None;
        };
        let base = Path::new(&super::working_directory(server.main_pid)).join(base);
        let conf = base.join("conf");
        let path = conf.join("server.xml");
        let text = files.text(&path)?;
        // Without that file Tomcat has one of its own.
        let properties = conf.join("catalina.properties");
        let is_used = text.contains("${") && files.outside(&properties).exists();
        let properties = is_used.then(|| files.text(&properties)).flatten();
        Some(Self {
            base,
            path,
            text,
            command: server.command.clone(),
            properties: properties.unwrap_or_default(),
        })
    }

    /// The elements of the file.
    ///
    /// # Errors
    /// What makes it no XML.
    pub fn document(&self) -> Result<roxmltree::Document<'_>, String> {
        let options = roxmltree::ParsingOptions {
            nodes_limit: MOST_DIRECTIVES as u32,
            allow_dtd: false,
            ..roxmltree::ParsingOptions::default()
        };
        roxmltree::Document::parse_with_options(&self.text, options).map_err(|e| e.to_string())
    }

    fn directives(&self) -> Result<Vec<Directive>, String> {
        let document = self.document()?;
        let file = self.path.display().to_string();
        let mut found = Vec::new();
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            let mut context = path_of(node);
            context.pop();
            let line = |at: usize| document.text_pos_at(at).row;
            found.push(Directive {
                name: node.tag_name().name().to_owned(),
                args: Vec::new(),
                context,
                file: file.clone(),
                line: line(node.range().start),
            });
            found.extend(node.attributes().map(|a| Directive {
                name: a.name().to_owned(),
                args: vec![self.filled_in(a.value())],
                context: path_of(node),
                file: file.clone(),
                line: line(a.range().start),
            }));
        }
        Ok(found)
    }

    /// An attribute with the values of its `${name}`.
    pub fn value(&self, node: roxmltree::Node<'_, '_>, name: &str) -> Option<String> {
        node.attribute(name).map(|value| self.filled_in(value))
    }

    fn filled_in(&self, value: &str) -> String {
        filled_in(value, &|name| {
            crate::discover::property(&self.command, name).or_else(|| {
                self.properties.lines().find_map(|line| {
                    let (key, value) = line.split_once('=')?;
                    (key.trim() == name).then(|| value.trim().to_owned())
                })
            })
        })
    }
}

/// An element by its ancestors and itself, outermost first.
pub(crate) fn path_of(node: roxmltree::Node<'_, '_>) -> Vec<String> {
    let elements = node.ancestors().filter(roxmltree::Node::is_element);
    let mut path: Vec<String> = elements.map(label).collect();
    path.reverse();
    path
}

/// An element by what tells it from its like: a connector by its port, others by their name or class.
fn label(node: roxmltree::Node<'_, '_>) -> String {
    let name = node.tag_name().name();
    let distinct = ["port", "name", "className"]
        .iter()
        .find_map(|a| node.attribute(*a));
    match distinct {
        Some(value) => format!("{name} {value}"),
        None => name.to_owned(),
    }
}

fn filled_in(value: &str, property: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some((before, inside)) = rest.split_once("${") {
        let Some((name, after)) = inside.split_once('}') else {
            break;
        };
        out.push_str(before);
        let (name, default) = name.split_once(":-").unwrap_or((name, ""));
        match property(name) {
            Some(value) => out.push_str(&value),
            None if !default.is_empty() => out.push_str(default),
            None => out.push_str(&format!("${{{name}}}")),
        }
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::listed;

    #[test]
    fn attributes_with_their_elements() {
        let text = "<?xml version='1.0'?>\n<Server port=\"-1\">\n <Service name=\"Catalina\">\n  \
            <!-- <Connector port='1'/> -->\n  <Connector port=\"8080\"\n   maxThreads=\"${n}\" x=\"${m:-7}${q}${k}\"/>\n </Service>\n</Server>";
        let source = |text: &str| Source {
            base: "/b".into(),
            path: "/b/conf/server.xml".into(),
            text: text.to_owned(),
            command: vec!["java".to_owned(), "-Dn=5".to_owned()],
            properties: "k = 6\n".to_owned(),
        };
        let found = source(text).directives().unwrap();
        let found = listed(&found, ",");
        assert_eq!(
            found[4..],
            [
                "Server -1>Service Catalina|Connector||5",
                "Server -1>Service Catalina>Connector 8080|port|8080|5",
                "Server -1>Service Catalina>Connector 8080|maxThreads|5|6",
                "Server -1>Service Catalina>Connector 8080|x|7${q}6|6",
            ]
        );
        assert!(source("<a>").directives().is_err());
    }
}
