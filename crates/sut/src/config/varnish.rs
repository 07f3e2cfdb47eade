//! Command line of varnishd, taken apart as its `getopt` does: letters may stand together (`-Fa :80`), values be glued
//! (`-p`, `-px=y`).
//!
//! The surprise: a file that `-f` names without a `/` before it is not looked for where varnishd was started, but where
//! it looks for VCL (`vcl_path`).

use std::path::{Path, PathBuf};

/// Options with a value, of all versions since 4.0 (`varnishd -x optstring`).
const WITH_VALUE: &str = "abEfhIijlMnPprSsTtWx";
/// Options without one.
const ALONE: &str = "CdFV";
/// Where VCL is looked for.
const VCL_PATH: [&str; 2] = ["/etc/varnish", "/usr/share/varnish/vcl"];

/// An option as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub letter: char,
    /// Empty for one that takes none.
    pub value: String,
}

impl Given {
    pub fn new(letter: char, value: &str) -> Self {
        Self {
            letter,
            value: value.to_owned(),
        }
    }

    /// The parameter and its value, of `-p`.
    pub fn parameter(&self) -> Option<(&str, &str)> {
        match self.letter {
            'p' => self.value.split_once('='),
            _ => None,
        }
    }

    /// As words of a command line.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec![format!("-{}", self.letter)];
        if WITH_VALUE.contains(self.letter) {
            words.push(self.value.clone());
        }
        words
    }
}

/// The options of a command line.
///
/// # Errors
/// The word that is none.
pub(crate) fn options(command: &[String]) -> Result<Vec<Given>, String> {
    let mut found = Vec::new();
    let mut words = command.iter().skip(1);
    while let Some(word) = words.next() {
        let letters = word.strip_prefix('-').filter(|l| !l.is_empty());
        let mut rest = letters.ok_or_else(|| word.clone())?;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            if WITH_VALUE.contains(letter) {
                let glued = Some(rest.to_owned()).filter(|r| !r.is_empty());
                let value = glued.or_else(|| words.next().cloned());
                let value = value.ok_or_else(|| word.clone())?;
                found.push(Given { letter, value });
                break;
            }
            if !ALONE.contains(letter) {
                return Err(word.clone());
            }
            found.push(Given::new(letter, ""));
        }
    }
    Ok(found)
}

/// Files that `-f` names, by their paths.
pub(crate) fn vcl_files(command: &[String]) -> Vec<PathBuf> {
    let given = options(command).unwrap_or_default();
    let files = given.iter().filter(|o| o.letter == 'f');
    let files = files.filter(|o| !o.value.is_empty());
    files.map(|o| found(Path::new(&o.value))).collect()
}

fn found(path: &Path) -> PathBuf {
    let within = |dir: &&str| Path::new(dir).join(path);
    let mut places = VCL_PATH.iter().map(&within);
    let there = places.find(|place| place.exists());
    there.unwrap_or_else(|| within(&VCL_PATH[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_as_getopt_takes_them() {
        let listed = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let given = options(&words)?;
            let one = |o: &Given| format!("{}={}", o.letter, o.value);
            Ok::<_, String>(given.iter().map(one).collect::<Vec<_>>().join(" "))
        };
        for (command, want) in [
            ("v -a :80 -F -px=1 -p y=2", Ok("a=:80 F= p=x=1 p=y=2")),
            ("v -Fa :80 -Fa:81", Ok("F= a=:80 F= a=:81")),
            ("v", Ok("")),
            ("v -a", Err("-a")),
            ("v -Z", Err("-Z")),
            ("v x", Err("x")),
        ] {
            let want = want.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(listed(command), want, "{command}");
        }
    }

    #[test]
    fn files_of_vcl_are_found_where_varnishd_looks() {
        let command = |file: &str| ["v", "-f", file].map(str::to_owned);
        assert_eq!(vcl_files(&command("/a/b.vcl")), [Path::new("/a/b.vcl")]);
        let other = vcl_files(&command("no-such.vcl"));
        assert_eq!(other, [Path::new("/etc/varnish/no-such.vcl")]);
        assert!(vcl_files(&command("")).is_empty());
    }
}
