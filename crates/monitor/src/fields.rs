//! Sources that are one file of named numbers, one series each, without labels.
//!
//! `tcp`, `memory` and `pressure` are tables of [`Field`]s over this. A number that the kernel does not
//! list is recorded as unavailable at the first sample, the others go on.

use crate::{MonitorError, Pass, Recorder, SeriesId, Signal, Source};
use linux::Reread;
use linux::Root;
use record::Nanos;

/// What one of the file's numbers has to be multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The number is in the signal's unit.
    One,
    /// KiB, which the kernel calls kB, to bytes.
    Kib,
    /// Pages to bytes.
    Pages,
    /// Microseconds to seconds.
    Micros,
}

impl Scale {
    /// The value in the signal's unit.
    pub fn apply(self, value: f64) -> f64 {
        match self {
            Scale::One => value,
            Scale::Kib => value * 1024.0,
            Scale::Pages => value * rustix::param::page_size() as f64,
            Scale::Micros => value / 1e6,
        }
    }
}

/// A number of the file and the signal that it becomes.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The kernel's name of it, in the form that the parser knows.
    pub key: &'static str,
    /// From the file's unit to the signal's.
    pub scale: Scale,
    pub signal: Signal,
}

/// Finds the fields' numbers in the text, in the order of the fields.
pub type Parse = fn(&str, &[Field]) -> Vec<Option<f64>>;

/// A source that reads one file of named numbers.
#[derive(Debug)]
pub struct FieldSource {
    name: &'static str,
    /// What a gap is said of: the name, and where.
    what: String,
    labels: Vec<(&'static str, String)>,
    slow: bool,
    file: Reread,
    fields: &'static [Field],
    parse: Parse,
    /// Of each field; `None` for a number that the kernel does not list. Empty before the first sample.
    ids: Vec<Option<SeriesId>>,
}

impl FieldSource {
    /// A source that takes part in every pass.
    pub fn new(
        name: &'static str,
        root: &Root,
        relative: &str,
        needs: &'static str,
        fields: &'static [Field],
        parse: Parse,
    ) -> Self {
        Self {
            name,
            what: name.to_owned(),
            labels: Vec::new(),
            slow: false,
            file: Reread::new(root, relative, needs),
            fields,
            parse,
            ids: Vec::new(),
        }
    }

    /// The same, left out of the fast passes.
    #[must_use]
    pub fn slow(mut self) -> Self {
        self.slow = true;
        self
    }

    /// The same, with a label on every series.
    #[must_use]
    pub fn labelled(mut self, label: &'static str, value: &str) -> Self {
        self.what = format!("{} of {value}", self.name);
        self.labels.push((label, value.to_owned()));
        self
    }

    fn open_series(&mut self, values: &[Option<f64>], out: &mut Recorder) {
        let labels: Vec<(&str, &str)> = self.labels.iter().map(|(l, v)| (*l, v.as_str())).collect();
        for (field, value) in self.fields.iter().zip(values) {
            let id = value.is_some().then(|| out.series(&field.signal, &labels));
            if id.is_none() {
                let error = MonitorError::NoField {
                    path: self.file.path().to_owned(),
                    field: field.key,
                };
                out.unavailable(field.signal.name, &error);
            }
            self.ids.push(id);
        }
    }
}

impl Source for FieldSource {
    fn name(&self) -> &'static str {
        self.name
    }

    fn due(&self, pass: Pass) -> bool {
        !self.slow || pass != Pass::Fast
    }

    fn sample(&mut self, at: Nanos, _pass: Pass, out: &mut Recorder) {
        let (fields, parse) = (self.fields, self.parse);
        let values = out.value_or_gap(
            &self.what,
            self.file.parse("line", |text| Some(parse(text, fields))),
        );
        let Some(values) = values else { return };
        if self.ids.is_empty() {
            self.open_series(&values, out);
        }
        for ((id, field), value) in self.ids.iter().zip(fields).zip(values) {
            if let (Some(id), Some(value)) = (id, value) {
                out.push(*id, at, field.scale.apply(value));
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use record::{Series, Unavailable};

    /// Samples a source once over a fake root that holds one file.
    pub(crate) fn once(
        relative: &str,
        text: &str,
        source: impl Fn(&Root) -> FieldSource,
    ) -> (Vec<Series>, Vec<Unavailable>) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        std::fs::create_dir_all(root.path(relative).parent().unwrap()).unwrap();
        std::fs::write(root.path(relative), text).unwrap();
        let mut out = Recorder::default();
        source(&root).sample(Nanos(1), Pass::Fast, &mut out);
        out.finish()
    }

    /// The values by the signal's name.
    pub(crate) fn values(series: &[Series]) -> Vec<(&str, f64)> {
        series
            .iter()
            .map(|s| (s.signal.as_str(), s.values[0]))
            .collect()
    }

    const FIELDS: &[Field] = &[
        Field {
            key: "there",
            scale: Scale::Kib,
            signal: Signal::gauge("x.there_bytes", "bytes", "/proc/x"),
        },
        Field {
            key: "absent",
            scale: Scale::One,
            signal: Signal::gauge("x.absent", "calls", "/proc/x"),
        },
    ];

    #[test]
    fn an_absent_number_is_unavailable_and_the_others_go_on() {
        let (series, unavailable) = once("proc/x", "there 3\n", |root| {
            FieldSource::new("x", root, "proc/x", "", FIELDS, |text, fields| {
                fields
                    .iter()
                    .map(|f| text.strip_prefix(f.key)?.trim().parse().ok())
                    .collect()
            })
        });
        assert_eq!(values(&series), [("x.there_bytes", 3072.0)]);
        assert_eq!(unavailable.len(), 1);
        assert_eq!(unavailable[0].what, "x.absent");
        assert!(unavailable[0].reason.contains("does not count `absent`"));
    }
}
