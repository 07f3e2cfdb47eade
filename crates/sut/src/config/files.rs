//! Reading configuration files as the server sees them: within its root directory, bounded in size and number.
//!
//! The surprise: a server in a container has a root of its own, and a symbolic link there means a path
//! within that root. `/proc/PID/root` leads in but does not hold links back, so they are followed here.

use crate::discover::read_bounded;
use record::Unavailable;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Files of one configuration.
const MOST_FILES: usize = 2_000;
/// Includes within includes.
pub(crate) const MOST_DEPTH: usize = 32;
/// Directives of one configuration; the rest is named as not read.
pub(crate) const MOST_DIRECTIVES: usize = 200_000;
/// Longest file, bytes.
const MOST_BYTES: u64 = 8 << 20;
/// Links on the way to one file, as the kernel bounds them.
const MOST_LINKS: usize = 40;

/// Files of one server.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Where the server's `/` is; empty when it is ours.
    root: PathBuf,
    /// Files that were read, in order, as the server names them.
    pub read: Vec<String>,
    /// What could not be read.
    pub unavailable: Vec<Unavailable>,
    said: BTreeSet<String>,
}

impl Files {
    /// For the process `pid`.
    pub fn of(pid: i32) -> Self {
        let root = |pid: &str| std::fs::read_link(format!("/proc/{pid}/root")).ok();
        let mounts = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let text = pid.to_string();
        let differs = |theirs: Option<PathBuf>, ours: Option<PathBuf>| {
            theirs.is_some_and(|theirs| ours.is_some_and(|ours| theirs != ours))
        };
        let is_apart = differs(root(&text), root("self")) || differs(mounts(&text), mounts("self"));
        Self {
            root: if is_apart {
                PathBuf::from(format!("/proc/{pid}/root"))
            } else {
                PathBuf::new()
            },
            ..Self::default()
        }
    }

    /// Our own files.
    #[cfg(test)]
    pub fn ours() -> Self {
        Self::default()
    }

    /// The server's root is not ours.
    pub fn is_apart(&self) -> bool {
        !self.root.as_os_str().is_empty()
    }

    /// Where prony finds the server's `path`.
    pub fn outside(&self, path: &Path) -> PathBuf {
        if self.root.as_os_str().is_empty() {
            return path.to_owned();
        }
        self.follow(path)
    }

    /// Follows links within the root.
    fn follow(&self, path: &Path) -> PathBuf {
        let mut links = 0;
        let mut left: Vec<std::ffi::OsString> = parts(path);
        let mut at = PathBuf::from("/");
        while !left.is_empty() {
            let part = left.remove(0);
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            let real = self.root.join(next.strip_prefix("/").unwrap_or(&next));
            match std::fs::read_link(&real) {
                Ok(link) if links < MOST_LINKS => {
                    links += 1;
                    if link.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    left.splice(..0, parts(&link));
                }
                _ => at = next,
            }
        }
        self.root.join(at.strip_prefix("/").unwrap_or(&at))
    }

    /// Text of a file; bytes that are not UTF-8 become replacement characters. `None` is noted as unavailable.
    pub fn text(&mut self, path: &Path) -> Option<String> {
        if self.read.len() >= MOST_FILES {
            self.say(
                "further configuration files",
                &format!("more than {MOST_FILES} are included"),
                "",
            );
            return None;
        }
        let outside = self.outside(path);
        let name = path.display().to_string();
        let what = format!("configuration file {name}");
        match std::fs::metadata(&outside) {
            Ok(m) if !m.is_file() => {
                self.say(&what, "it is not a regular file", "");
                return None;
            }
            Ok(m) if m.len() > MOST_BYTES => {
                self.say(&what, &format!("it has {} bytes", m.len()), "");
                return None;
            }
            Err(e) => {
                self.say(&what, &e.to_string(), remedy(&e));
                return None;
            }
            Ok(_) => {}
        }
        if let Err(e) = std::fs::File::open(&outside) {
            self.say(&what, &e.to_string(), remedy(&e));
            return None;
        }
        let Some(bytes) = read_bounded(&outside) else {
            self.say(&what, "reading it failed", "");
            return None;
        };
        self.read.push(name);
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Takes note of what is missing, each once.
    pub fn say(&mut self, what: &str, reason: &str, remedy: &str) {
        if self.said.insert(what.to_owned()) {
            self.unavailable.push(Unavailable {
                what: what.to_owned(),
                reason: reason.to_owned(),
                remedy: remedy.to_owned(),
            });
        }
    }

    pub fn is_dir(&self, path: &Path) -> bool {
        self.outside(path).is_dir()
    }

    /// Paths that match a shell pattern, sorted; the pattern itself when it has no wildcard.
    pub fn glob(&self, pattern: &Path) -> Vec<PathBuf> {
        let is_wild = |text: &str| text.contains(['*', '?', '[']);
        if !is_wild(&pattern.to_string_lossy()) {
            return vec![pattern.to_owned()];
        }
        let mut found = vec![PathBuf::from("/")];
        for part in pattern.components() {
            let Component::Normal(part) = part else {
                continue;
            };
            let text = part.to_string_lossy();
            found = if is_wild(&text) {
                found
                    .iter()
                    .flat_map(|dir| self.matching(dir, &text))
                    .take(MOST_FILES)
                    .collect()
            } else {
                found.into_iter().map(|dir| dir.join(part)).collect()
            };
        }
        found.retain(|path| self.outside(path).exists());
        found
    }

    fn matching(&self, dir: &Path, pattern: &str) -> Vec<PathBuf> {
        let is_hidden = |name: &str| name.starts_with('.') && !pattern.starts_with('.');
        let mut names: Vec<String> = self
            .entries(dir)
            .into_iter()
            .filter(|name| !is_hidden(name) && matches(pattern, name))
            .collect();
        names.sort_unstable();
        names.into_iter().map(|name| dir.join(name)).collect()
    }

    /// Names in a directory, sorted.
    pub fn entries(&self, dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.outside(dir))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }
}

fn parts(path: &Path) -> Vec<std::ffi::OsString> {
    path.components()
        .filter_map(|c| match c {
            Component::Normal(part) => Some(part.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

fn remedy(e: &std::io::Error) -> &'static str {
    match e.kind() {
        std::io::ErrorKind::PermissionDenied => "run as root, or as a user that may read it",
        std::io::ErrorKind::NotFound => "it was moved or removed after the server read it",
        _ => "",
    }
}

/// `path`, relative to `base` when it is not absolute.
pub(crate) fn join(base: &str, path: &str) -> PathBuf {
    Path::new(base).join(path)
}

/// Shell pattern against one name: `*`, `?`, `[a-z]`, `[!a]`. Linear with one step back, so no input makes it slow.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => class(&pattern[p..], name[n]),
            Some('\\') if p + 1 < pattern.len() => (pattern[p + 1] == name[n]).then_some(2),
            Some(c) => (*c == name[n]).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(step), _) => {
                p += step;
                n += 1;
            }
            (None, Some((at, from))) => {
                p = at + 1;
                n = from + 1;
                star = Some((at, n));
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Length of the class that `pattern` begins with when it holds `c`.
fn class(pattern: &[char], c: char) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let start = if negated { 2 } else { 1 };
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|x| *x == ']')?;
    let inner = &pattern[start..end];
    let mut holds = false;
    let mut i = 0;
    while i < inner.len() {
        if inner.get(i + 1) == Some(&'-') && i + 2 < inner.len() {
            holds |= inner[i] <= c && c <= inner[i + 2];
            i += 3;
        } else {
            holds |= inner[i] == c;
            i += 1;
        }
    }
    (holds != negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, want) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf~", false),
            ("a?c*", "abcdef", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[a", "[a", false),
            ("*a*a*a*a*a*a*b", &"a".repeat(200), false),
            ("**", "", true),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn globs_are_sorted_and_links_stay_inside_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let etc = dir.path().join("etc/on");
        std::fs::create_dir_all(&etc).unwrap();
        std::fs::write(dir.path().join("etc/a"), "inside").unwrap();
        std::os::unix::fs::symlink("/etc/a", etc.join("b.conf")).unwrap();
        std::fs::write(etc.join("a.conf"), "first").unwrap();
        std::fs::write(etc.join(".hidden.conf"), "").unwrap();
        let mut files = Files {
            root: dir.path().to_owned(),
            ..Files::default()
        };
        let found = files.glob(Path::new("/etc/o?/*.conf"));
        assert_eq!(
            found,
            [Path::new("/etc/on/a.conf"), Path::new("/etc/on/b.conf")]
        );
        assert_eq!(files.text(&found[1]).as_deref(), Some("inside"));
        assert_eq!(files.read, ["/etc/on/b.conf"]);
        assert_eq!(files.text(Path::new("/etc/none")), None);
        assert_eq!(files.text(Path::new("/etc/on")), None);
        assert_eq!(files.unavailable.len(), 2);
        assert_eq!(
            files.outside(Path::new("/../../etc/a")),
            dir.path().join("etc/a")
        );
    }
}
