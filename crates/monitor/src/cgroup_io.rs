//! What a control group may do with its disks, and what it does: limits of bytes and operations a second, by device.
//!
//! Read by the source of control groups, in either layout, of a process' group and of all above it: each limits for
//! itself. The surprise: the first version's limit holds back who asks the device, so that a write that the kernel puts
//! off until later is not held back, while a read and an fsync are.

use linux::Root;

/// What is limited: key in `io.max` and in `io.stat`; of the first version the file of the limit, of the counter, and
/// the word in it.
const LIMITED: [(&str, &str, &str, &str, &str); 4] = [
    (
        "rbps",
        "rbytes",
        "read_bps_device",
        "io_service_bytes",
        "Read",
    ),
    (
        "wbps",
        "wbytes",
        "write_bps_device",
        "io_service_bytes",
        "Write",
    ),
    ("riops", "rios", "read_iops_device", "io_serviced", "Read"),
    ("wiops", "wios", "write_iops_device", "io_serviced", "Write"),
];

/// One limit of one device, and how much was used of it since the group was made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IoLimit {
    /// `major:minor`.
    pub device: String,
    /// `rbps`, `wbps`, `riops` or `wiops`.
    pub what: &'static str,
    /// Bytes or operations a second.
    pub limit_per_s: f64,
    /// Bytes or operations.
    pub used: f64,
}

/// The limits of the group in a directory; empty where it has none, or has no such controller.
pub(crate) fn limits(root: &Root, directory: &str) -> Vec<IoLimit> {
    let read = |name: &str| root.read(&format!("{directory}/{name}")).ok();
    match read("io.max") {
        Some(max) => second_version(&max, &read("io.stat").unwrap_or_default()),
        None => first_version(&|name| read(&format!("blkio.throttle.{name}"))),
    }
}

/// Lines of a device and `key=number`; `max` is no limit.
fn second_version(max: &str, stat: &str) -> Vec<IoLimit> {
    let number = |line: &str, key: &str| -> Option<f64> {
        let mut words = line.split_ascii_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
    };
    let mut found = Vec::new();
    for line in max.lines() {
        let Some(device) = line.split_ascii_whitespace().next() else {
            continue;
        };
        let of_device = |l: &&str| l.split_ascii_whitespace().next() == Some(device);
        let used = stat.lines().find(of_device).unwrap_or_default();
        for (what, counter, ..) in LIMITED {
            found.extend(number(line, what).map(|limit_per_s| IoLimit {
                device: device.to_owned(),
                what,
                limit_per_s,
                // A device that was not used yet has no line.
                used: number(used, counter).unwrap_or(0.0),
            }));
        }
    }
    found
}

/// A file for each limit, with lines of a device and its number; counters in lines of a device, a word and a number.
fn first_version(read: &dyn Fn(&str) -> Option<String>) -> Vec<IoLimit> {
    let mut found = Vec::new();
    for (what, _, limit, counter, word) in LIMITED {
        let limits = read(limit).unwrap_or_default();
        if limits.trim().is_empty() {
            continue;
        }
        let counters = read(counter).unwrap_or_default();
        for line in limits.lines() {
            let Some((device, number)) = line.split_once(' ') else {
                continue;
            };
            let counted = format!("{device} {word} ");
            let used = counters
                .lines()
                .find_map(|l| l.strip_prefix(&counted)?.trim().parse().ok());
            found.extend(number.trim().parse().ok().map(|limit_per_s| IoLimit {
                device: device.to_owned(),
                what,
                limit_per_s,
                used: used.unwrap_or(0.0),
            }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[(&str, &str, f64, f64)]) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let found = limits(&Root::new(dir.path()), ".");
        let found: Vec<_> = found
            .iter()
            .map(|l| (l.device.as_str(), l.what, l.limit_per_s, l.used))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_second_version() {
        check(
            &[
                (
                    "io.max",
                    "254:0 rbps=max wbps=1048576 riops=max wiops=120\n8:0 rbps=1 wbps=max riops=max wiops=max\n",
                ),
                (
                    "io.stat",
                    "254:0 rbytes=90 wbytes=2097152 rios=1 wios=240 dbytes=0 dios=0\n",
                ),
            ],
            &[
                ("254:0", "wbps", 1_048_576.0, 2_097_152.0),
                ("254:0", "wiops", 120.0, 240.0),
                ("8:0", "rbps", 1.0, 0.0),
            ],
        );
        check(&[("io.max", ""), ("io.stat", "254:0 rbytes=90\n")], &[]);
    }

    #[test]
    fn the_first_version() {
        check(
            &[
                ("blkio.throttle.read_bps_device", "254:0 1048576\n"),
                ("blkio.throttle.write_iops_device", "254:0 50\n"),
                ("blkio.throttle.write_bps_device", ""),
                (
                    "blkio.throttle.io_service_bytes",
                    "254:0 Read 4096\n254:0 Write 9\nTotal 4105\n",
                ),
                (
                    "blkio.throttle.io_serviced",
                    "254:0 Read 1\n254:0 Write 7\nTotal 8\n",
                ),
            ],
            &[
                ("254:0", "rbps", 1_048_576.0, 4_096.0),
                ("254:0", "wiops", 50.0, 7.0),
            ],
        );
        check(&[], &[]);
    }
}
