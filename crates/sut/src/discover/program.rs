//! Which program a process runs: by its executable, command line, mapped libraries and ELF sections.
//!
//! The name of the executable says it for most servers. Interpreters and virtual machines are asked further:
//! what serves is in the command line. A program that nobody knows by name is told by how it was
//! built: Go leaves a section of its own. The surprise: a server may overwrite its command line with a
//! title, and nginx and PHP-FPM do; then the words behind the title are what is left of it.

use std::path::{Path, PathBuf};

/// Longest command line, mapping list or environment that is read, bytes.
const MOST_BYTES: u64 = 16 << 20;

/// What is known of a process's program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Program {
    /// Executable, as the process sees its path; empty when this user may not know.
    pub exe: String,
    /// Command line, or the title.
    pub argv: Vec<String>,
    /// Paths of the files that are mapped, each once.
    pub mapped: Vec<String>,
}

/// A file of `/proc`, cut at a length that none of them honestly has.
pub(crate) fn read_bounded(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The words of a NUL-separated file: `cmdline`, `environ`.
pub(crate) fn words(root: &Path, pid: i32, file: &str) -> Vec<String> {
    let bytes = read_bounded(&root.join(pid.to_string()).join(file)).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let trimmed = text.trim_end_matches('\0');
    if trimmed.is_empty() {
        return Vec::new();
    }
    trimmed.split('\0').map(str::to_owned).collect()
}

impl Program {
    pub fn of(root: &Path, pid: i32) -> Self {
        let dir = root.join(pid.to_string());
        let exe = std::fs::read_link(dir.join("exe"))
            .map(|p| p.display().to_string())
            .unwrap_or_default();
        let maps = read_bounded(&dir.join("maps")).unwrap_or_default();
        Self {
            exe: exe.strip_suffix(" (deleted)").unwrap_or(&exe).to_owned(),
            argv: words(root, pid, "cmdline"),
            mapped: mapped(&String::from_utf8_lossy(&maps)),
        }
    }

    /// File name of the executable; of the first word where the executable is hidden.
    pub fn base(&self) -> &str {
        let path = if self.exe.is_empty() {
            self.argv
                .first()
                .map_or("", |a| a.split_whitespace().next().unwrap_or_default())
        } else {
            &self.exe
        };
        path.rsplit('/').next().unwrap_or_default()
    }

    /// An interpreter: processes that share it need have nothing else in common.
    pub fn is_interpreter(&self) -> bool {
        const NAMES: [&str; 15] = [
            "python", "pypy", "perl", "ruby", "node", "java", "bash", "dash", "sh", "zsh",
            "busybox", "php", "deno", "bun", "dotnet",
        ];
        let base = self.base().to_ascii_lowercase();
        NAMES.iter().any(|name| is_versioned(&base, name))
    }

    /// The kind of server, as [`record::Server::kind`] lists them. `exe_bytes` reads the executable, and is
    /// asked only when nothing else tells.
    pub fn kind<'a>(&self, exe_bytes: impl FnOnce() -> Option<&'a [u8]>) -> &'static str {
        let base = self.base().to_ascii_lowercase();
        let is = |name: &str| is_versioned(&base, name);
        let argument = |word: &str| self.argv.iter().any(|a| a == word);
        // By name: (file name of the executable, kind).
        const NAMED: [(&str, &str); 23] = [
            ("nginx", "nginx"),
            ("openresty", "nginx"),
            ("angie", "nginx"),
            ("haproxy", "haproxy"),
            ("apache2", "apache"),
            ("httpd", "apache"),
            ("lighttpd", "lighttpd"),
            ("varnishd", "varnish"),
            ("squid", "squid"),
            ("caddy", "caddy"),
            ("traefik", "traefik"),
            ("envoy", "envoy"),
            ("h2o", "h2o"),
            ("node", "node"),
            ("nodejs", "node"),
            ("ruby", "ruby"),
            ("puma", "ruby"),
            ("python", "python"),
            ("pypy", "python"),
            ("docker-proxy", "docker-proxy"),
            ("rootlessport", "rootlessport"),
            ("slirp4netns", "slirp4netns"),
            ("pasta", "pasta"),
        ];
        if is("prony") && argument("origin") {
            return "prony";
        }
        if is("java") || self.maps("libjvm.so") {
            return self.java();
        }
        // One program under two names, built for several processors: passt, pasta.avx2.
        if base.starts_with("passt") || base.starts_with("pasta.") {
            return "pasta";
        }
        if base.starts_with("php-fpm") {
            return "php-fpm";
        }
        if base.starts_with("uwsgi") && !self.maps("libruby") {
            return "python";
        }
        if let Some((_, kind)) = NAMED.iter().find(|(name, _)| is(name)) {
            return kind;
        }
        const LIBRARIES: [(&str, &str); 4] = [
            ("libnode.so", "node"),
            ("libpython", "python"),
            ("libruby", "ruby"),
            ("libphp", "php-fpm"),
        ];
        if let Some((_, kind)) = LIBRARIES.iter().find(|(library, _)| self.maps(library)) {
            return kind;
        }
        match exe_bytes().and_then(super::elf::go_version) {
            Some(_) => "go",
            None => "generic",
        }
    }

    /// Tomcat is a class library on a virtual machine: it is known by its main class or its base directory.
    fn java(&self) -> &'static str {
        let is_tomcat =
            |a: &String| a.starts_with("org.apache.catalina.") || a.starts_with("-Dcatalina.base=");
        if self.argv.iter().any(is_tomcat) {
            "tomcat"
        } else {
            "java"
        }
    }

    /// The framework that an interpreter or virtual machine runs, as far as the command line says.
    pub fn framework(&self) -> Option<&'static str> {
        const NAMES: [(&str, &str); 13] = [
            ("gunicorn", "gunicorn"),
            ("uwsgi", "uwsgi"),
            ("uvicorn", "uvicorn"),
            ("hypercorn", "hypercorn"),
            ("daphne", "daphne"),
            ("waitress", "waitress"),
            ("puma", "puma"),
            ("unicorn", "unicorn"),
            ("passenger", "passenger"),
            ("jetty", "Jetty"),
            ("org.springframework.boot", "Spring Boot"),
            ("next-server", "Next.js"),
            ("http.server", "http.server"),
        ];
        // What names a framework is the script or module, which comes early; later words are its data.
        let early: Vec<&str> = self
            .argv
            .iter()
            .flat_map(|a| a.split_whitespace())
            .take(64)
            .map(|word| word.rsplit('/').next().unwrap_or(word))
            .collect();
        NAMES
            .iter()
            .find(|(word, _)| early.iter().any(|e| e.starts_with(word)))
            .map(|(_, name)| *name)
    }

    /// Is a library of this name mapped?
    fn maps(&self, name: &str) -> bool {
        self.mapped
            .iter()
            .any(|path| path.rsplit('/').next().is_some_and(|f| f.starts_with(name)))
    }

    /// The allocator in use. A preloaded one is mapped beside the C library and wins, as it does when symbols are
    /// bound.
    pub fn allocator<'a>(
        &self,
        kind: &str,
        exe_bytes: impl FnOnce() -> Option<&'a [u8]>,
    ) -> String {
        const LIBRARIES: [(&str, &str); 4] = [
            ("libjemalloc", "jemalloc"),
            ("libtcmalloc", "tcmalloc"),
            ("libmimalloc", "mimalloc"),
            ("ld-musl", "musl"),
        ];
        if let Some((_, name)) = LIBRARIES.iter().find(|(library, _)| self.maps(library)) {
            return (*name).to_owned();
        }
        if kind == "go" || self.mapped.is_empty() {
            return if kind == "go" { "own" } else { "" }.to_owned();
        }
        // One that is linked in shows by the words that it can print. They stand here with their case swapped: prony
        // may be examined as well, and must not be taken for what it looks for.
        const WORDS: [(&str, &str); 3] = [
            ("<JEMALLOC>", "jemalloc"),
            ("malloc: ------", "tcmalloc"),
            ("MIMALLOC: ", "mimalloc"),
        ];
        let bytes = exe_bytes().unwrap_or_default();
        let holds = |word: &str| memchr::memmem::find(bytes, &swapped(word)).is_some();
        if let Some((_, name)) = WORDS.iter().find(|(word, _)| holds(word)) {
            return (*name).to_owned();
        }
        if self.maps("libc.so.6") || self.maps("libc-2.") {
            "glibc".to_owned()
        } else {
            "own".to_owned()
        }
    }
}

/// Small letters for capital ones and the other way round.
fn swapped(word: &str) -> Vec<u8> {
    let swap = |b: u8| if b.is_ascii_alphabetic() { b ^ 0x20 } else { b };
    word.bytes().map(swap).collect()
}

/// `python3.11` is `python`, `php8.2` is `php`; `nginx-exporter` is not `nginx`.
fn is_versioned(base: &str, name: &str) -> bool {
    base.strip_prefix(name).is_some_and(|rest| {
        rest.chars()
            .all(|c| c.is_ascii_digit() || c == '.' || c == '-')
    })
}

fn mapped(maps: &str) -> Vec<String> {
    let mut found: Vec<String> = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| line[at..].to_owned()))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The executable's bytes, through `/proc`, so that it is the one that runs, whatever its path leads to now.
pub(crate) fn exe_bytes(root: &Path, pid: i32) -> Option<Vec<u8>> {
    use std::io::Read;
    const MOST: u64 = 128 << 20;
    let path: PathBuf = root.join(pid.to_string()).join("exe");
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    // Where it ends is known: a buffer that grows is copied over and over.
    let size = file.metadata().map_or(0, |about| about.len().min(MOST));
    bytes.reserve(size as usize + 1);
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(exe: &str, argv: &[&str], mapped: &[&str]) -> Program {
        let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        Program {
            exe: exe.to_owned(),
            argv: owned(argv),
            mapped: owned(mapped),
        }
    }

    #[test]
    fn kinds_by_mechanism() {
        for (exe, argv, mapped, want) in [
            (
                "/usr/sbin/nginx",
                &["nginx: master process nginx"][..],
                &[][..],
                "nginx",
            ),
            ("/opt/x/nginx-1.27.0", &[], &[], "nginx"),
            ("/usr/bin/nginx-exporter", &[], &[], "generic"),
            ("/usr/sbin/apache2", &[], &[], "apache"),
            ("/usr/sbin/php-fpm8.2", &[], &[], "php-fpm"),
            (
                "/usr/bin/python3.11",
                &["python3", "/usr/bin/gunicorn"],
                &[],
                "python",
            ),
            ("/usr/bin/uwsgi-core", &[], &[], "python"),
            (
                "/usr/lib/jvm/java/bin/java",
                &[
                    "java",
                    "-Dcatalina.base=/b",
                    "org.apache.catalina.startup.Bootstrap",
                    "start",
                ],
                &[],
                "tomcat",
            ),
            (
                "/usr/lib/jvm/java/bin/java",
                &["java", "-jar", "a.jar"],
                &[],
                "java",
            ),
            ("/opt/launcher", &[], &["/opt/lib/server/libjvm.so"], "java"),
            ("/opt/app", &[], &["/usr/lib/libnode.so.108"], "node"),
            ("/x/prony", &["prony", "origin"], &[], "prony"),
            ("/x/prony", &["prony", "run"], &[], "generic"),
            ("", &["nginx: worker process"], &[], "generic"),
            ("", &["/usr/sbin/haproxy", "-f", "x"], &[], "haproxy"),
        ] {
            assert_eq!(
                program(exe, argv, mapped).kind(|| None),
                want,
                "{exe} {argv:?}"
            );
        }
    }

    #[test]
    fn frameworks_and_interpreters() {
        let gunicorn = program("/usr/bin/python3", &["gunicorn: master [a:b]"], &[]);
        assert_eq!(gunicorn.framework(), Some("gunicorn"));
        let module = program(
            "/usr/bin/python3",
            &["python3", "-m", "uvicorn", "a:b"],
            &[],
        );
        assert_eq!(module.framework(), Some("uvicorn"));
        assert_eq!(
            program("/usr/bin/node", &["node", "a.js"], &[]).framework(),
            None
        );
        assert!(gunicorn.is_interpreter());
        assert!(!program("/usr/sbin/nginx", &[], &[]).is_interpreter());
    }

    #[test]
    fn a_preloaded_allocator_wins() {
        let printed = swapped("..<JEMALLOC>: ..");
        let libc = "/usr/lib/libc.so.6";
        let jemalloc = "/usr/lib/libjemalloc.so.2";
        let of = |mapped: &[&str], kind, bytes: &[u8]| {
            program("/x", &[], mapped).allocator(kind, || Some(bytes))
        };
        assert_eq!(of(&[libc, jemalloc], "nginx", b""), "jemalloc");
        assert_eq!(of(&[libc], "nginx", b""), "glibc");
        assert_eq!(of(&[libc], "generic", &printed), "jemalloc");
        assert_eq!(of(&["/x"], "go", b""), "own");
        assert_eq!(of(&[], "generic", b""), "", "not ours to see");
    }
}
