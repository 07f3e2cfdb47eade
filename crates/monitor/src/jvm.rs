//! The counters of a HotSpot JVM: collections, time in their pauses, the heap, and the classes that it has loaded.
//!
//! Read at the slow passes from the file that the JVM keeps mapped for `jstat`, `/tmp/hsperfdata_USER/PID` as the
//! process itself sees it, through `/proc/PID/root`. Reading it costs the JVM nothing and needs no agent.
//!
//! The surprise: the file is named by the id that the process has in its own pid namespace. And the levels of the heap
//! are written at collections only, so they say what was left after the last one.

use crate::recorder::Rows;
use crate::tree::Members;
use crate::{Pass, Recorder, Signal, Source};
use linux::Root;
use record::Nanos;
use std::collections::BTreeMap;
use std::path::PathBuf;

const FILE: &str = "/tmp/hsperfdata_USER/PID";

/// Of one JVM, in the order of `Numbers::values`.
pub const JVM: [Signal; 7] = [
    Signal::counter("jvm.gc_s", "s", FILE),
    Signal::counter("jvm.gc_count", "calls", FILE),
    Signal::counter("jvm.full_gc_count", "calls", FILE),
    Signal::gauge("jvm.heap_used_bytes", "bytes", FILE),
    Signal::gauge("jvm.heap_capacity_bytes", "bytes", FILE),
    Signal::gauge("jvm.heap_max_bytes", "bytes", FILE),
    Signal::counter("jvm.classes_loaded", "calls", FILE),
];

/// Names of programs that are a JVM: its launcher, and Tomcat's for services.
const LAUNCHERS: [&str; 2] = ["java", "jsvc"];
/// JVMs that are read; each costs about 30 us.
const MOST: usize = 16;
/// The file is 32 KiB unless asked otherwise (PerfDataMemorySize); more is not meant.
const MOST_BYTES: u64 = 4 << 20;

/// The source.
#[derive(Debug)]
pub struct Jvm {
    root: Root,
    members: Members,
    slow_interval: Nanos,
    targets: Vec<String>,
    files: BTreeMap<i32, PathBuf>,
    rows: Rows<(usize, i32), 7>,
}

impl Jvm {
    /// The JVMs among `members`.
    pub fn new(root: &Root, members: Members, slow_interval: Nanos) -> Self {
        Self {
            root: root.clone(),
            targets: members.targets(),
            members,
            slow_interval,
            files: BTreeMap::new(),
            rows: Rows::new(JVM),
        }
    }

    /// The file of a JVM.
    fn file(&self, pid: i32) -> Result<PathBuf, linux::Error> {
        let own = self.root.read(&format!("proc/{pid}/status"))?;
        let own = innermost_id(&own).unwrap_or(pid);
        let relative = format!("proc/{pid}/root/tmp");
        let users = self.root.list(&relative)?;
        let tmp = self.root.path(&relative);
        let mut files = users
            .iter()
            .filter(|name| name.starts_with("hsperfdata_"))
            .map(|name| tmp.join(name).join(own.to_string()));
        let found = files.find(|file| file.exists());
        found.ok_or_else(|| linux::Error::Read {
            path: tmp.join(format!("hsperfdata_*/{own}")),
            cause: std::io::ErrorKind::NotFound.into(),
            needs: "start the JVM without -XX:-UsePerfData and -XX:+PerfDisableSharedMem",
        })
    }

    fn read(&mut self, pid: i32) -> Result<Numbers, linux::Error> {
        let path = match self.files.get(&pid) {
            Some(path) => path.clone(),
            None => self.file(pid)?,
        };
        let read = || {
            let file = std::fs::File::open(&path)?;
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut std::io::Read::take(file, MOST_BYTES), &mut bytes)?;
            Ok(bytes)
        };
        let bytes: Vec<u8> = read().map_err(|cause| linux::Error::Read {
            path: path.clone(),
            cause,
            needs: "",
        })?;
        let numbers = Numbers::of(&parse(&bytes).unwrap_or_default());
        let numbers = numbers.ok_or_else(|| linux::Error::Malformed {
            path: path.clone(),
            expected: "counters of a HotSpot JVM",
        })?;
        self.files.insert(pid, path);
        Ok(numbers)
    }
}

impl Source for Jvm {
    fn name(&self) -> &'static str {
        "jvm"
    }

    fn due(&self, pass: Pass) -> bool {
        pass != Pass::Fast
    }

    fn sample(&mut self, at: Nanos, _pass: Pass, out: &mut Recorder) {
        let members = match self.members.at(at, self.slow_interval) {
            Ok(members) => members,
            Err(error) => return out.unavailable("jvm.*", &error),
        };
        let mut jvms = members;
        jvms.retain(|(pid, _)| self.files.contains_key(pid) || is_launcher(&self.root, *pid));
        for (pid, target) in jvms.into_iter().take(MOST) {
            let name = self.targets[target].clone();
            match self.read(pid) {
                Ok(numbers) => {
                    let labels = || vec![("target", name), ("pid", pid.to_string())];
                    let key = (target, pid);
                    self.rows.push(&key, labels, at, numbers.values(), out);
                }
                Err(error) if !self.root.path(&format!("proc/{pid}")).exists() => {
                    // It has ended; its id may become another's.
                    drop(error);
                    self.files.remove(&pid);
                }
                Err(error) => out.unavailable(&format!("jvm.* of {name}"), &error.into()),
            }
        }
    }
}

/// Whether a process is a JVM by its name.
pub(crate) fn is_launcher(root: &Root, pid: i32) -> bool {
    let name = root.read(&format!("proc/{pid}/comm"));
    name.is_ok_and(|name| LAUNCHERS.contains(&name.trim()))
}

/// The id in the innermost pid namespace, from the text of `status`.
pub(crate) fn innermost_id(status: &str) -> Option<i32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// A counter's value.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Long(i64),
    Text(String),
}

type Counters = BTreeMap<String, Value>;

/// Reads the file (`PerfDataPrologue` and `PerfDataEntry` in hotspot's perfMemory.hpp), of version 2; `None` when it
/// has another form.
fn parse(bytes: &[u8]) -> Option<Counters> {
    let magic = bytes.get(..4)?;
    if magic != [0xca, 0xfe, 0xc0, 0xc0] || *bytes.get(5)? != 2 {
        return None;
    }
    let little = *bytes.get(4)? == 1;
    let number = |at: usize| -> Option<usize> {
        let raw: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        let number = if little {
            i32::from_le_bytes(raw)
        } else {
            i32::from_be_bytes(raw)
        };
        usize::try_from(number).ok()
    };
    let mut at = number(24)?;
    let mut counters = Counters::new();
    for _ in 0..number(28)? {
        let entry = bytes.get(at..at.checked_add(number(at)?)?)?;
        // Fixed part of an entry; one without a length would be met for ever.
        if entry.len() < 20 {
            return None;
        }
        let name = text(entry.get(number(at + 4)?..)?);
        let length = number(at + 8)?;
        let data = entry.get(number(at + 16)?..)?;
        let value = match (entry[12], length) {
            (b'J', 0) => {
                let raw: [u8; 8] = data.get(..8)?.try_into().ok()?;
                let long = if little {
                    i64::from_le_bytes(raw)
                } else {
                    i64::from_be_bytes(raw)
                };
                Some(Value::Long(long))
            }
            (b'B', length) if length > 0 => Some(Value::Text(text(data.get(..length)?))),
            _ => None,
        };
        counters.extend(value.map(|value| (name, value)));
        at += entry.len();
    }
    Some(counters)
}

/// Up to the first zero byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// What is taken from the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Numbers {
    gc_s: f64,
    gc_count: f64,
    full_gc_count: f64,
    heap_used_bytes: f64,
    heap_capacity_bytes: f64,
    heap_max_bytes: f64,
    classes_loaded: f64,
}

impl Numbers {
    /// `None` when the counters are not those of a JVM with a collector.
    fn of(counters: &Counters) -> Option<Self> {
        let long = |name: &str| match counters.get(name) {
            Some(Value::Long(value)) => Some(*value as f64),
            _ => None,
        };
        let ticks_per_s = long("sun.os.hrt.frequency").filter(|ticks| *ticks > 0.0)?;
        // Those of the archive that the JDK brings are counted for themselves.
        let classes = ["java.cls.loadedClasses", "java.cls.sharedLoadedClasses"];
        let mut numbers = Self {
            classes_loaded: classes.iter().filter_map(|name| long(name)).sum(),
            ..Self::default()
        };
        let mut one_heap = false;
        for index in 0..8 {
            let prefix = format!("sun.gc.collector.{index}");
            let Some(Value::Text(name)) = counters.get(&format!("{prefix}.name")) else {
                break;
            };
            one_heap |= name.starts_with("G1") || name.starts_with('Z');
            // Cycles beside the program stop nobody; their pauses are a collector of their own.
            if name.contains("concurrent") || name.ends_with("cycles") {
                continue;
            }
            let calls = long(&format!("{prefix}.invocations"))?;
            numbers.gc_count += calls;
            numbers.gc_s += long(&format!("{prefix}.time"))? / ticks_per_s;
            // HotSpot's first collector is that of the young generation, its second that of the whole heap.
            if index == 1 && !name.starts_with('Z') {
                numbers.full_gc_count = calls;
            }
        }
        for generation in 0..2 {
            let prefix = format!("sun.gc.generation.{generation}");
            let Some(most) = long(&format!("{prefix}.maxCapacity")) else {
                break;
            };
            // Where generations are no fixed parts of the heap, each of them may become all of it.
            numbers.heap_max_bytes = if one_heap {
                numbers.heap_max_bytes.max(most)
            } else {
                numbers.heap_max_bytes + most
            };
            for space in 0..3 {
                let of = |last: &str| long(&format!("{prefix}.space.{space}.{last}"));
                numbers.heap_used_bytes += of("used").unwrap_or(0.0);
                numbers.heap_capacity_bytes += of("capacity").unwrap_or(0.0);
            }
        }
        (numbers.heap_max_bytes > 0.0).then_some(numbers)
    }

    /// In the order of [`JVM`].
    fn values(&self) -> [f64; 7] {
        [
            self.gc_s,
            self.gc_count,
            self.full_gc_count,
            self.heap_used_bytes,
            self.heap_capacity_bytes,
            self.heap_max_bytes,
            self.classes_loaded,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Watched;

    /// A file as a JVM writes it.
    fn file(counters: &[(&str, Value)], little: bool) -> Vec<u8> {
        let int = |n: usize| {
            let n = n as i32;
            if little {
                n.to_le_bytes()
            } else {
                n.to_be_bytes()
            }
        };
        let mut entries = Vec::new();
        for (name, value) in counters {
            let (kind, length, data) = match value {
                Value::Long(n) if little => (b'J', 0, n.to_le_bytes().to_vec()),
                Value::Long(n) => (b'J', 0, n.to_be_bytes().to_vec()),
                Value::Text(text) => {
                    let mut data = text.as_bytes().to_vec();
                    data.resize(data.len() + 5, 0);
                    (b'B', data.len(), data)
                }
            };
            let offset = 20 + (name.len() + 1).next_multiple_of(8);
            let size = (offset + data.len()).next_multiple_of(4);
            let mut entry = Vec::new();
            for number in [size, 20, length] {
                entry.extend(int(number));
            }
            entry.extend([kind, 0, 1, 1]);
            entry.extend(int(offset));
            entry.extend(name.as_bytes());
            entry.resize(offset, 0);
            entry.extend(data);
            entry.resize(size, 0);
            entries.extend(entry);
        }
        let mut bytes = vec![0xca, 0xfe, 0xc0, 0xc0, u8::from(little), 2, 0, 1];
        bytes.extend([0; 16]);
        bytes.extend(int(32));
        bytes.extend(int(counters.len()));
        bytes.extend(entries);
        bytes
    }

    fn counters(collectors: &[(&str, i64, i64)], maximum: [i64; 2]) -> Vec<(String, Value)> {
        let long = |name: &str, value| (name.to_owned(), Value::Long(value));
        let mut all = vec![
            long("sun.os.hrt.frequency", 1_000),
            long("java.cls.loadedClasses", 300),
            long("java.cls.sharedLoadedClasses", 50),
        ];
        for (i, (name, calls, time)) in collectors.iter().enumerate() {
            let prefix = format!("sun.gc.collector.{i}");
            all.push((format!("{prefix}.name"), Value::Text((*name).to_owned())));
            all.push((format!("{prefix}.invocations"), Value::Long(*calls)));
            all.push((format!("{prefix}.time"), Value::Long(*time)));
        }
        for (i, most) in maximum.into_iter().enumerate() {
            let prefix = format!("sun.gc.generation.{i}");
            all.push((format!("{prefix}.maxCapacity"), Value::Long(most)));
            all.push((format!("{prefix}.space.0.used"), Value::Long(10)));
            all.push((format!("{prefix}.space.0.capacity"), Value::Long(20)));
        }
        all
    }

    fn written(all: &[(String, Value)], little: bool) -> Vec<u8> {
        let all: Vec<_> = all.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
        file(&all, little)
    }

    #[test]
    fn collectors_with_generations_of_their_own_and_with_one_heap() {
        let serial = counters(&[("Copy", 5, 2_000), ("MSC", 2, 500)], [100, 300]);
        let regions = counters(
            &[
                ("G1 young collection pauses", 5, 2_000),
                ("G1 full collection pauses", 2, 500),
                ("G1 concurrent cycle pauses", 9, 9_000),
            ],
            [400, 400],
        );
        let mut cycles = counters(&[("ZGC major cycles", 3, 9_000)], [400, 400]);
        cycles.push(("x".to_owned(), Value::Long(1)));
        for little in [true, false] {
            let numbers = |all| Numbers::of(&parse(&written(all, little)).unwrap()).unwrap();
            assert_eq!(
                numbers(&serial).values(),
                [2.5, 7.0, 2.0, 20.0, 40.0, 400.0, 350.0]
            );
            assert_eq!(numbers(&regions).heap_max_bytes, 400.0);
            assert_eq!(numbers(&regions).full_gc_count, 2.0);
            assert_eq!(numbers(&cycles).gc_count, 0.0);
        }
    }

    #[test]
    fn what_is_cut_or_something_else_is_no_jvm() {
        let whole = written(&counters(&[("Copy", 5, 2_000)], [100, 300]), true);
        for length in 0..whole.len() {
            // Whatever a JVM that starts has written so far: no panic, and no half of a number.
            assert_eq!(parse(&whole[..length]), None, "{length}");
        }
        let mut other = whole.clone();
        other[5] = 1;
        assert_eq!(parse(&other), None);
        let none: &[(&str, Value)] = &[];
        assert_eq!(Numbers::of(&parse(&file(none, true)).unwrap()), None);
    }

    #[test]
    fn a_jvm_in_a_container_and_one_without_counters() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let put = |relative: &str, bytes: &[u8]| {
            let path = root.path(relative);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        for pid in [7, 8, 9] {
            let stat = format!("{pid} (x) S 1 {}", "0 ".repeat(25));
            put(&format!("proc/{pid}/stat"), stat.as_bytes());
            let name: &[u8] = if pid == 9 { b"nginx\n" } else { b"java\n" };
            put(&format!("proc/{pid}/comm"), name);
            let status = format!("Name:\tx\nNSpid:\t{pid}\t1\n");
            put(&format!("proc/{pid}/status"), status.as_bytes());
            put(&format!("proc/{pid}/root/tmp/other"), b"");
        }
        let bytes = written(&counters(&[("Copy", 5, 2_000)], [100, 300]), true);
        put("proc/7/root/tmp/hsperfdata_app/1", &bytes);
        let watched = Watched {
            target: "web".to_owned(),
            pids: vec![7, 8, 9],
        };
        let members = Members::new(&root, &[watched], None);
        let mut source = Jvm::new(&root, members, Nanos::SECOND);
        let mut out = Recorder::default();
        source.sample(Nanos(1), Pass::Edge, &mut out);
        let (series, unavailable) = out.finish();
        assert_eq!(series.len(), JVM.len());
        assert!(series.iter().all(|s| s.label("pid") == Some("7")));
        assert_eq!(unavailable.len(), 1);
        assert_eq!(unavailable[0].what, "jvm.* of web");
        assert!(unavailable[0].remedy.contains("UsePerfData"));
    }
}
