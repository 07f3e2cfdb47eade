//! Names of code that a JIT compiler has made.
//!
//! In the flow: `/tmp/perf-PID.map` of a process, which Node (`--perf-basic-prof`) and agents in a JVM write for
//! profilers, is read when the profile ends; what a runtime was asked for ([`CodeNames`]) comes before it. The
//! surprise:
//! in a container the file carries the pid that the process has in there, and it outlives the process, so that another
//! one with that pid finds names that are not its own.

use crate::attach::is_stale;
use crate::jvm::innermost_id;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

/// Module of such code.
pub const MODULE: &str = "jit";
/// Symbol of such code without a name.
pub const UNNAMED: &str = "[jit]";

/// Symbol of what a library of regular expressions made of one.
pub const PATTERN: &str = "[pattern]";
/// Libraries that compile regular expressions.
const PATTERN_LIBRARIES: [&str; 2] = ["libpcre.so", "libpcre2-"];
/// Parts of names of what compiles programs: then code without a file may be of that. PHP's own code lies in memory
/// that its processes share, which has a file.
const COMPILERS: [&str; 19] = [
    "jvm",
    "node",
    "v8",
    "luajit",
    "mozjs",
    "javascriptcore",
    "coreclr",
    "clrjit",
    "mono",
    "beam",
    "pypy",
    "ruby",
    "LLVM",
    "gccjit",
    "python",
    "guile",
    "wasm",
    "julia",
    "sbcl",
];

/// The library whose compiled patterns a process's code without a file is, where it has one and nothing else that
/// compiles.
pub fn patterns<'a>(modules: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let is = |module: &str, parts: &[&str]| parts.iter().any(|part| module.contains(part));
    let library = modules.clone().find(|m| is(m, &PATTERN_LIBRARIES))?;
    (!modules.into_iter().any(|m| is(m, &COMPILERS))).then(|| library.to_owned())
}

/// A map is not read beyond this.
const MOST_BYTES: u64 = 256 << 20;

/// Names that runtimes were asked for, by process.
#[derive(Clone, Debug, Default)]
pub struct CodeNames(HashMap<i32, Vec<JitSymbols>>);

impl CodeNames {
    /// Adds what a JVM said of its compiled code, later than what was added before.
    pub fn add_java(&mut self, pid: i32, map: &str) {
        let mut symbols = JitSymbols::parse(map);
        for (.., name) in &mut symbols.0 {
            *name = java_function(name);
        }
        self.0.entry(pid).or_default().push(symbols);
    }

    /// Those of a process, the latest first; what it wrote by itself where it was not asked.
    pub(super) fn of_process(&self, pid: i32) -> Vec<JitSymbols> {
        match self.0.get(&pid) {
            Some(asked) => asked.iter().rev().cloned().collect(),
            None => vec![JitSymbols::of_process(pid)],
        }
    }
}

/// `void java.lang.System.arraycopy(java.lang.Object, int)` without types: the class and the function. Other code of
/// the virtual machine has plain names.
fn java_function(name: &str) -> String {
    let head = name.split('(').next().unwrap_or(name).trim_end();
    let function = if name.ends_with(')') {
        head.rsplit(' ').next().unwrap_or(head)
    } else {
        head
    };
    // Hidden classes carry an address.
    match function.split_once("/0x") {
        Some((class, rest)) => {
            let method = rest.rsplit_once('.').map_or("", |(_, method)| method);
            format!("{class}.{method}")
        }
        None => function.to_owned(),
    }
}

/// Functions by rising address.
#[derive(Clone, Debug, Default)]
pub struct JitSymbols(Vec<(u64, u64, String)>);

impl JitSymbols {
    /// Those that a process wrote by itself; none when it says nothing, or another process with its id did.
    pub fn of_process(pid: i32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let inner = innermost_id(&status).unwrap_or(pid);
        let Ok(file) = File::open(format!("/proc/{pid}/root/tmp/perf-{inner}.map")) else {
            return Self::default();
        };
        if file
            .metadata()
            .map_or(true, |found| !found.is_file() || is_stale(&found, pid))
        {
            return Self::default();
        }
        let mut map = Vec::new();
        // What was read before an error is as good as the rest.
        let _ = file.take(MOST_BYTES).read_to_end(&mut map);
        Self::parse(&String::from_utf8_lossy(&map))
    }

    /// Lines of `START SIZE name`, in hexadecimal. Code moves and is replaced: a later line at the same address holds.
    fn parse(text: &str) -> Self {
        let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        let entries = text.lines().rev().filter_map(|line| {
            let mut words = line.splitn(3, ' ');
            let (start, bytes) = (hex(words.next()?)?, hex(words.next()?)?);
            Some((start, bytes, words.next()?.to_owned()))
        });
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by_key(|(start, ..)| *start);
        entries.dedup_by_key(|(start, ..)| *start);
        Self(entries)
    }

    /// The function at an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|(start, ..)| *start <= address);
        let (start, bytes, name) = self.0[..after].last()?;
        (address - start < *bytes).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_code_at_an_address_holds() {
        let symbols = JitSymbols::parse(
            "1000 20 old\n2000 10 JS:*handler /srv/app.js:3\nbroken\n1000 40 new\n",
        );
        for (address, name) in [
            (0x1000, Some("new")),
            (0x103f, Some("new")),
            (0x1040, None),
            (0x2004, Some("JS:*handler /srv/app.js:3")),
            (0x10, None),
        ] {
            assert_eq!(symbols.name(address), name, "{address:#x}");
        }
    }

    #[test]
    fn code_without_a_file_is_of_patterns_where_nothing_else_compiles() {
        for (modules, library) in [
            (
                &["privoxy", "libpcre.so.3.13.3", "libc.so.6"][..],
                Some("libpcre.so.3.13.3"),
            ),
            (
                &["php-fpm8.2", "libpcre2-8.so.0.11.2"],
                Some("libpcre2-8.so.0.11.2"),
            ),
            (
                &["nginx", "libpcre2-8.so.0.11.2", "libluajit-5.1.so.2"],
                None,
            ),
            (&["java", "libjvm.so", "libpcre2-8.so.0.11.2"], None),
            (&["own", "libc.so.6"], None),
        ] {
            let found = patterns(modules.iter().copied());
            assert_eq!(found.as_deref(), library, "{modules:?}");
        }
    }

    #[test]
    fn the_innermost_pid_names_the_file() {
        assert_eq!(innermost_id("Name:\tx\nNSpid:\t4711\t12\t3\n"), Some(3));
        assert_eq!(innermost_id("Name:\tx\n"), None);
    }

    #[test]
    fn names_of_java_are_classes_and_functions() {
        for (name, function) in [
            ("void L.burn()", "L.burn"),
            (
                "java.lang.String java.lang.module.ModuleDescriptor.name(int[], byte)",
                "java.lang.module.ModuleDescriptor.name",
            ),
            ("void L$$Lambda$4/0x00007f5541001c48.r()", "L$$Lambda$4.r"),
            ("Interpreter", "Interpreter"),
            ("vtable stub", "vtable stub"),
            ("I2C/C2I adapters", "I2C/C2I adapters"),
        ] {
            assert_eq!(java_function(name), function);
        }
    }

    #[test]
    fn what_was_asked_for_last_comes_first_and_both_are_known() {
        let mut names = CodeNames::default();
        names.add_java(7, "0x10 0x10 void A.first()\n0x40 0x10 void A.gone()\n");
        names.add_java(7, "0x10 0x10 void A.second()\n");
        let maps = names.of_process(7);
        let name = |address| maps.iter().find_map(|map| map.name(address));
        assert_eq!(name(0x18), Some("A.second"));
        assert_eq!(name(0x48), Some("A.gone"));
        assert!(names.of_process(-1)[0].name(0x18).is_none());
    }

    #[test]
    fn the_map_of_a_process_that_had_the_id_before_is_not_used() {
        let mut sleeper = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let pid = i32::try_from(sleeper.id()).unwrap();
        let path = format!("/tmp/perf-{pid}.map");
        std::fs::write(&path, "1000 20 function\n").unwrap();
        let named = || JitSymbols::of_process(pid).name(0x1010).is_some();
        let fresh = named();
        let file = File::options().write(true).open(&path).unwrap();
        let hour = std::time::Duration::from_secs(3_600);
        file.set_modified(std::time::SystemTime::now() - hour)
            .unwrap();
        let stale = named();
        std::fs::remove_file(&path).unwrap();
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert_eq!((fresh, stale), (true, false));
    }
}
