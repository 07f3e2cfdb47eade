//! Collects the items, each with a value or a reason.

use linux::Root;
use record::EnvironmentItem;

/// The items so far, and where they are read.
pub struct Facts<'a> {
    root: &'a Root,
    items: Vec<EnvironmentItem>,
}

impl<'a> Facts<'a> {
    /// Nothing yet.
    pub fn new(root: &'a Root) -> Self {
        Self {
            root,
            items: Vec::new(),
        }
    }

    /// Where the facts are read.
    pub fn root(&self) -> &'a Root {
        self.root
    }

    /// What was collected.
    pub fn into_items(self) -> Vec<EnvironmentItem> {
        self.items
    }

    /// Adds a fact, or the reason why it is not known.
    pub fn add(&mut self, group: &str, name: &str, fact: Result<String, String>) {
        let (value, reason) = match fact {
            Ok(value) => (Some(value), None),
            Err(reason) => (None, Some(reason)),
        };
        self.items.push(EnvironmentItem {
            group: group.to_owned(),
            name: name.to_owned(),
            value,
            reason,
        });
    }

    /// Adds the whole content of a small file, blanks and line ends as single blanks. A sysctl without
    /// a value is an empty file: that is a value, too.
    pub fn file(&mut self, group: &str, name: &str, relative: &str) {
        self.find(group, name, relative, "text", |text| {
            let line = one_line(text);
            Some(if line.is_empty() {
                "(empty)".to_owned()
            } else {
                line
            })
        });
    }

    /// Adds what `find` sees in a file; `expected` names what it looks for.
    pub fn find(
        &mut self,
        group: &str,
        name: &str,
        relative: &str,
        expected: &'static str,
        find: impl FnOnce(&str) -> Option<String>,
    ) {
        let fact = self.read(relative, expected, find);
        self.add(group, name, fact);
    }

    /// What `find` sees in a file, or the reason.
    pub fn read<T>(
        &self,
        relative: &str,
        expected: &'static str,
        find: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, String> {
        let text = self
            .root
            .read(relative)
            .map_err(|error| error.to_string())?;
        find(&text).ok_or_else(|| {
            let path = self.root.path(relative);
            linux::Error::Malformed { path, expected }.to_string()
        })
    }
}

/// The text's words with single blanks between them.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The rest of the line that starts with `key` and the separator, trimmed.
pub fn after(text: &str, key: &str, separator: char) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, rest) = line.split_once(separator)?;
        (name.trim() == key).then(|| rest.trim().to_owned())
    })
}

/// The choice in brackets: `madvise` of `always [madvise] never`.
pub fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_texts() {
        assert_eq!(one_line("4096\t131072\t6291456\n"), "4096 131072 6291456");
        assert_eq!(chosen("always [madvise] never"), Some("madvise".to_owned()));
        assert_eq!(chosen("always"), None);
        let text = "model name\t: Some CPU\nmodel\t: 7\n";
        assert_eq!(after(text, "model", ':'), Some("7".to_owned()));
        assert_eq!(after(text, "flags", ':'), None);
    }

    #[test]
    fn an_empty_file_has_a_value_and_a_missing_one_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("empty"), "\n").unwrap();
        let root = Root::new(dir.path());
        let mut facts = Facts::new(&root);
        facts.file("g", "a", "empty");
        facts.file("g", "b", "missing");
        facts.find("g", "c", "empty", "number", |text| {
            Some(text.trim().parse::<u64>().ok()?.to_string())
        });
        let items = facts.into_items();
        assert_eq!(items[0].value.as_deref(), Some("(empty)"));
        for (item, reason) in [(&items[1], "No such file"), (&items[2], "no number in it")] {
            assert_eq!(item.value, None);
            assert!(
                item.reason.as_ref().is_some_and(|r| r.contains(reason)),
                "{item:?}"
            );
        }
    }
}
