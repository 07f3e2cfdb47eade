//! `prony man`: manual pages in roff, from the definition of the command line and its help texts.
//!
//! Beside the flow. The surprise: examples and exit codes are laid out in columns, which roff would fill into
//! paragraphs; so they are sections of their own here, and `clap_mangen` writes only the others.

use super::write_file;
use crate::cli::{Cli, ManArgs};
use crate::exit::{Exit, Failure};
use crate::terminal;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use plan::near_miss;
use std::path::Path;

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when there is no such verb, or a page cannot be written.
pub fn run(args: &ManArgs) -> Result<Exit, Failure> {
    let root = definition();
    if let Some(dir) = &args.out {
        std::fs::create_dir_all(dir).map_err(|e| {
            Failure::new(
                Exit::Environment,
                format!("making {}: {e}", dir.display()),
                "choose a directory that can be written",
            )
        })?;
        write_all(&root, dir)?;
    } else {
        terminal::result(&page(find(&root, &args.verb)?))?;
    }
    Ok(Exit::Valid)
}

/// The whole command line, with every flag that a verb takes from above it. `help` has no page: it shows others'.
fn definition() -> Command {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    root
}

/// The verb that `words` name, from `command` downwards.
fn find<'a>(command: &'a Command, words: &[String]) -> Result<&'a Command, Failure> {
    let Some((word, rest)) = words.split_first() else {
        return Ok(command);
    };
    let names = || command.get_subcommands().map(Command::get_name);
    match command.find_subcommand(word) {
        Some(verb) => find(verb, rest),
        None => {
            let near = near_miss(word, names())
                .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            Err(Failure::new(
                Exit::Usage,
                format!("`{}` has no verb `{word}`{near}", name(command)),
                "`prony --help` lists the verbs",
            ))
        }
    }
}

/// Writes the page of `command` and of every verb below it that its help lists.
fn write_all(command: &Command, dir: &Path) -> Result<(), Failure> {
    write_file(&dir.join(format!("{}.1", name(command))), &page(command))?;
    let mut listed = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    listed.try_for_each(|verb| write_all(verb, dir))
}

/// `prony-tune-apply`.
fn name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

/// The page in roff.
fn page(command: &Command) -> String {
    let man = Man::new(command.clone())
        // Not empty, or its place in the title is taken by what follows; no date, so that a page is reproducible.
        .date(" ")
        .source(concat!("prony ", env!("CARGO_PKG_VERSION")))
        .manual("prony manual");
    let mut roff = Vec::new();
    let mut sections = vec![
        Man::render_title,
        Man::render_name_section,
        Man::render_synopsis_section,
        Man::render_description_section,
        Man::render_options_section,
    ];
    if command.has_subcommands() {
        sections.push(Man::render_subcommands_section);
    }
    for section in sections {
        section(&man, &mut roff).expect("a vector takes what is written");
    }
    let after = command.get_after_help().map(ToString::to_string);
    laid_out(&after.unwrap_or_default())
        .to_writer(&mut roff)
        .expect("a vector takes what is written");
    String::from_utf8_lossy(&roff).into_owned()
}

/// The text below the flags of a help, its lines as they are; a heading is a line of its own that ends in a colon.
fn laid_out(text: &str) -> Roff {
    let mut roff = Roff::new();
    let is_heading = |line: &str| line.ends_with(':') && !line.starts_with(' ');
    let blocks = text.split("\n\n").filter(|block| !block.is_empty());
    for block in blocks {
        let (heading, lines) = match block.split_once('\n') {
            Some((first, rest)) if is_heading(first) => (Some(first), rest),
            _ => (None, block),
        };
        match heading {
            Some(heading) => {
                let heading = heading.trim_end_matches(':').to_uppercase();
                roff.control("SH", [heading.as_str()]);
            }
            None => drop(roff.control("PP", [])),
        }
        roff.control("nf", []);
        lines.lines().for_each(|line| {
            roff.text([roman(line)]);
        });
        roff.control("fi", []);
    }
    roff
}
