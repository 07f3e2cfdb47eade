//! `/proc/net/dev`: bytes, packets, errors and drops of each network device.
//!
//! The surprise: on a host with containers there are hundreds of virtual devices, so without a choice
//! only the first [`MOST_DEVICES`] are watched, and the rest is recorded as a gap.

use crate::recorder::Rows;
use crate::{MonitorError, Pass, Recorder, Signal, Source};
use linux::Reread;
use linux::Root;
use record::Nanos;

/// Devices watched at most when none are named.
pub const MOST_DEVICES: usize = 32;

const FILE: &str = "/proc/net/dev";

/// Signals of a device.
pub const DEVICE: [Signal; 8] = [
    Signal::counter("nic.rx_bytes", "bytes", FILE),
    Signal::counter("nic.rx_packets", "packets", FILE),
    Signal::counter("nic.rx_errors", "packets", FILE),
    Signal::counter("nic.rx_dropped", "packets", FILE),
    Signal::counter("nic.tx_bytes", "bytes", FILE),
    Signal::counter("nic.tx_packets", "packets", FILE),
    Signal::counter("nic.tx_errors", "packets", FILE),
    Signal::counter("nic.tx_dropped", "packets", FILE),
];

/// Columns of the file that [`DEVICE`] takes: eight columns received come before those sent.
const COLUMNS: [usize; 8] = [0, 1, 2, 3, 8, 9, 10, 11];

/// Reads the text: each device with its counters in the order of [`DEVICE`]; `None` when it has none.
pub fn parse(text: &str) -> Option<Vec<(String, [f64; 8])>> {
    let mut devices = Vec::new();
    for line in text.lines().skip(2) {
        // Large counters touch the colon, and an alias has a colon of its own: split at the last.
        let (name, counters) = line.rsplit_once(':')?;
        let counters: Vec<f64> = counters
            .split_ascii_whitespace()
            .map(|word| word.parse().ok())
            .collect::<Option<_>>()?;
        let mut values = [0.0; 8];
        for (value, column) in values.iter_mut().zip(COLUMNS) {
            *value = *counters.get(column)?;
        }
        devices.push((name.trim().to_owned(), values));
    }
    (!devices.is_empty()).then_some(devices)
}

/// The source.
#[derive(Debug)]
pub struct Nic {
    file: Reread,
    /// Devices of interest; empty: the first ones.
    wanted: Vec<String>,
    rows: Rows<String, 8>,
}

impl Nic {
    /// Reads under `root`; `wanted` empty takes all devices up to [`MOST_DEVICES`].
    pub fn new(root: &Root, wanted: Vec<String>) -> Self {
        Self {
            file: Reread::new(root, "proc/net/dev", "use a kernel with CONFIG_NET"),
            wanted,
            rows: Rows::new(DEVICE),
        }
    }

    fn choose(&self, devices: &mut Vec<(String, [f64; 8])>, out: &mut Recorder) {
        if !self.wanted.is_empty() {
            for name in absent(&self.wanted, devices) {
                let known: Vec<&str> = devices.iter().map(|(name, _)| name.as_str()).collect();
                let error = MonitorError::NoDevice {
                    name: name.clone(),
                    known: known.join(", "),
                };
                out.unavailable(&format!("nic.* of {name}"), &error);
            }
            devices.retain(|(name, _)| self.wanted.contains(name));
        }
        let found = devices.len();
        if found > MOST_DEVICES {
            devices.truncate(MOST_DEVICES);
            let error = MonitorError::TooMany {
                what: "network devices",
                found,
                watched: MOST_DEVICES,
            };
            out.unavailable("nic of the other devices", &error);
        }
    }
}

/// Names that are looked for and not there.
fn absent<'a>(wanted: &'a [String], devices: &[(String, [f64; 8])]) -> Vec<&'a String> {
    let is_absent = |wanted: &&String| devices.iter().all(|(name, _)| name != *wanted);
    wanted.iter().filter(is_absent).collect()
}

impl Source for Nic {
    fn name(&self) -> &'static str {
        "nic"
    }

    fn sample(&mut self, at: Nanos, _pass: Pass, out: &mut Recorder) {
        let read = self.file.parse("line of a device", parse);
        let Some(mut devices) = out.value_or_gap("nic", read) else {
            return;
        };
        self.choose(&mut devices, out);
        for (device, values) in devices {
            let labels = || vec![("device", device.clone())];
            self.rows.push(&device, labels, at, values, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "Inter-|   Receive |  Transmit\n face |bytes packets errs drop\n";

    #[test]
    fn takes_the_right_columns_of_each_device() {
        let text = format!(
            "{HEAD}    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0\n\
             eth0:265507738    9272    1    2    0     0          0         0   657017    6103    3    4    0     0       0          0\n"
        );
        let devices = parse(&text).unwrap();
        assert_eq!(devices[0].0, "lo");
        let counters = [265_507_738.0, 9272.0, 1.0, 2.0, 657_017.0, 6103.0, 3.0, 4.0];
        assert_eq!(devices[1], ("eth0".to_owned(), counters));
    }

    #[test]
    fn what_is_not_such_a_table_is_refused() {
        for rest in [
            "",
            "eth0 1 2 3\n",
            "eth0: 1 2 3\n",
            "eth0: a b c d e f g h i j k l\n",
        ] {
            assert_eq!(parse(&format!("{HEAD}{rest}")), None, "{rest:?}");
        }
    }

    #[test]
    fn named_devices_only_or_a_bounded_number() {
        let mut text = HEAD.to_owned();
        for i in 0..40 {
            text.push_str(&format!(
                "veth{i}: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
            ));
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/net")).unwrap();
        std::fs::write(dir.path().join("proc/net/dev"), text).unwrap();
        let root = Root::new(dir.path());
        let named = |name: &str| vec![name.to_owned()];
        for (wanted, watched, gaps) in [
            (vec![], 32, 1),
            (named("veth39"), 1, 0),
            (named("eth0"), 0, 1),
        ] {
            let mut out = Recorder::default();
            Nic::new(&root, wanted).sample(Nanos(1), Pass::Fast, &mut out);
            let (series, unavailable) = out.finish();
            assert_eq!(series.len(), watched * 8);
            assert_eq!(unavailable.len(), gaps);
        }
    }
}
