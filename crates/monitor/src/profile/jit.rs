//! Names of code that a JIT compiler has made.
//!
//! In the flow: `/tmp/perf-PID.map` of a process, which Node (`--perf-basic-prof`) and agents in a JVM write for
//! profilers, is read when the profile ends. The surprise: in a container the file carries the pid that the process
//! has in there.

/// Module of such code.
pub const MODULE: &str = "jit";
/// Symbol of such code without a name.
pub const UNNAMED: &str = "[jit]";

/// Functions by rising address.
#[derive(Debug, Default)]
pub struct JitSymbols(Vec<(u64, u64, String)>);

impl JitSymbols {
    /// Those of a process; none when it says nothing.
    pub fn of_process(pid: i32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let inner = inner_pid(&status).unwrap_or(pid);
        let map = std::fs::read(format!("/proc/{pid}/root/tmp/perf-{inner}.map"));
        Self::parse(&String::from_utf8_lossy(&map.unwrap_or_default()))
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

/// The pid in the innermost namespace.
fn inner_pid(status: &str) -> Option<i32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
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
    fn the_innermost_pid_names_the_file() {
        assert_eq!(inner_pid("Name:\tx\nNSpid:\t4711\t12\t3\n"), Some(3));
        assert_eq!(inner_pid("Name:\tx\n"), None);
    }
}
