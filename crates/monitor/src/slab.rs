//! `/proc/slabinfo`: the kernel's memory for TCP sockets, by cache.
//!
//! What `slabtop` shows of a loaded server: a socket takes about 2.5 KiB before its first byte. Read at the slow
//! passes, because the kernel walks the lists of every cache to write the file. The surprise: it is readable by root
//! alone, and a kernel may merge a cache with another of the same object size, which then has no line.

use crate::recorder::Rows;
use crate::{Pass, Recorder, Signal, Source};
use linux::Reread;
use linux::Root;
use record::Nanos;

const FILE: &str = "/proc/slabinfo";

/// Of one cache.
pub const SLAB: [Signal; 1] = [Signal::gauge("slab.tcp_bytes", "bytes", FILE)];

/// Caches of TCP connections: established ones, requests that wait for their handshake, and TIME_WAIT.
const CACHES: [&str; 6] = [
    "TCP",
    "TCPv6",
    "request_sock_TCP",
    "request_sock_TCPv6",
    "tw_sock_TCP",
    "tw_sock_TCPv6",
];

/// The source.
#[derive(Debug)]
pub struct Slab {
    file: Reread,
    rows: Rows<String, 1>,
}

impl Slab {
    /// Reads under `root`.
    pub fn new(root: &Root) -> Self {
        Self {
            file: Reread::new(root, "proc/slabinfo", "run prony as root"),
            rows: Rows::new(SLAB),
        }
    }
}

/// Bytes of the slabs of each cache of TCP; `None` when there is none of them. slabinfo(5): name, objects in use,
/// objects, size of one, then after a colon the slabs; what the cache holds is the objects times their size, used or
/// not.
pub fn parse(text: &str) -> Option<Vec<(String, f64)>> {
    let caches: Vec<(String, f64)> = text.lines().filter_map(cache).collect();
    (!caches.is_empty()).then_some(caches)
}

fn cache(line: &str) -> Option<(String, f64)> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next().filter(|name| CACHES.contains(name))?;
    let mut number = |skipped: usize| words.nth(skipped)?.parse::<f64>().ok();
    let (objects, size) = (number(1)?, number(0)?);
    Some((name.to_owned(), objects * size))
}

impl Source for Slab {
    fn name(&self) -> &'static str {
        "slab"
    }

    fn due(&self, pass: Pass) -> bool {
        pass != Pass::Fast
    }

    fn sample(&mut self, at: Nanos, _pass: Pass, out: &mut Recorder) {
        let Some(caches) = out.value_or_gap(
            "slab.tcp_bytes",
            self.file.parse("line of a TCP cache", parse),
        ) else {
            return;
        };
        for (cache, bytes) in caches {
            let labels = || vec![("cache", cache.clone())];
            self.rows.push(&cache, labels, at, [bytes], out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "slabinfo - version: 2.1\n\
        # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>\n\
        MPTCP                  0      0   1984   16    8 : tunables    0    0    0 : slabdata      0      0      0\n\
        tw_sock_TCP         3184   3200    256   16    1 : tunables    0    0    0 : slabdata    200    200      0\n\
        TCP                   80    130   2368   13    8 : tunables    0    0    0 : slabdata     10     10      0\n";

    #[test]
    fn objects_times_their_size() {
        assert_eq!(
            parse(TEXT),
            Some(vec![
                ("tw_sock_TCP".to_owned(), 819_200.0),
                ("TCP".to_owned(), 307_840.0)
            ])
        );
        for text in ["", "TCP\n", "TCP 1 x 3\n", "kmalloc-8 1 2 3\n"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn one_series_a_cache_at_the_slow_passes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/slabinfo"), TEXT).unwrap();
        let mut source = Slab::new(&Root::new(dir.path()));
        assert!(!source.due(Pass::Fast) && source.due(Pass::Edge));
        let mut out = Recorder::default();
        for at in 1..=2 {
            source.sample(Nanos(at), Pass::Slow, &mut out);
        }
        let (series, unavailable) = out.finish();
        assert_eq!((series.len(), unavailable.len()), (2, 0));
        assert_eq!(series[1].label("cache"), Some("TCP"));
        assert_eq!(series[1].values, [307_840.0, 307_840.0]);
    }
}
