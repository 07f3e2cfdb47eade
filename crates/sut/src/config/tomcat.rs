//! Tomcat's `conf/server.xml`: the attributes of each element as directives, the element itself before them.
//!
//! The surprise: an attribute that is not there has a default in the program, and `${name}` comes from a system
//! property of the command line or from `conf/catalina.properties`.

use super::files::{Files, MOST_DIRECTIVES};
use record::{Directive, Server};
use std::path::Path;

pub(crate) fn read(server: &mut Server, files: &mut Files) {
    let property = |name: &str| crate::discover::property(&server.command, name);
    let Some(base) = property("catalina.base").or_else(|| property("catalina.home")) else {
        files.say(
            "conf/server.xml",
            "the command line has no catalina.base",
            "",
        );
        return;
    };
    let conf = Path::new(&base).join("conf");
    let path = conf.join("server.xml");
    let Some(text) = files.text(&path) else {
        return;
    };
    let properties = if text.contains("${") {
        files
            .text(&conf.join("catalina.properties"))
            .unwrap_or_default()
    } else {
        String::new()
    };
    let value = |name: &str| {
        property(name).or_else(|| {
            properties.lines().find_map(|line| {
                let (key, value) = line.split_once('=')?;
                (key.trim() == name).then(|| value.trim().to_owned())
            })
        })
    };
    match directives(&text, &path.display().to_string(), &value) {
        Ok(found) => server.directives.extend(found),
        Err(reason) => files.say(
            &format!("contents of {}", path.display()),
            &reason,
            "correct the file",
        ),
    }
}

fn directives(
    text: &str,
    file: &str,
    property: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Directive>, String> {
    let options = roxmltree::ParsingOptions {
        nodes_limit: MOST_DIRECTIVES as u32,
        allow_dtd: false,
        ..roxmltree::ParsingOptions::default()
    };
    let document =
        roxmltree::Document::parse_with_options(text, options).map_err(|e| e.to_string())?;
    let mut found = Vec::new();
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let mut context: Vec<String> = node
            .ancestors()
            .skip(1)
            .filter(|a| a.is_element())
            .map(label)
            .collect();
        context.reverse();
        let line = |at: usize| document.text_pos_at(at).row;
        found.push(Directive {
            name: node.tag_name().name().to_owned(),
            args: Vec::new(),
            context: context.clone(),
            file: file.to_owned(),
            line: line(node.range().start),
        });
        context.push(label(node));
        found.extend(node.attributes().map(|a| Directive {
            name: a.name().to_owned(),
            args: vec![filled_in(a.value(), property)],
            context: context.clone(),
            file: file.to_owned(),
            line: line(a.range().start),
        }));
    }
    Ok(found)
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
            <!-- <Connector port='1'/> -->\n  <Connector port=\"8080\"\n   maxThreads=\"${n}\" x=\"${m:-7}${q}\"/>\n </Service>\n</Server>";
        let property = |name: &str| (name == "n").then(|| "5".to_owned());
        let found = directives(text, "f", &property).unwrap();
        let found = listed(&found, ",");
        assert_eq!(
            found[4..],
            [
                "Server -1>Service Catalina|Connector||5",
                "Server -1>Service Catalina>Connector 8080|port|8080|5",
                "Server -1>Service Catalina>Connector 8080|maxThreads|5|6",
                "Server -1>Service Catalina>Connector 8080|x|7${q}|6",
            ]
        );
        assert!(directives("<a>", "f", &property).is_err());
    }
}
