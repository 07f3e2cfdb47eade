//! The formats that can be imported, by the names of their tools.

/// A format that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Everything below, by content.
    Auto,
    /// ApacheBench.
    Ab,
    Wrk,
    Wrk2,
    /// weighttp, old text or JSON.
    Weighttp,
    H2load,
    /// oha, text or JSON.
    Oha,
    /// `vegeta report`, text or JSON.
    Vegeta,
    /// k6's summary, text or JSON.
    K6,
    /// fortio, text or JSON.
    Fortio,
    Hey,
    /// bombardier, text or JSON.
    Bombardier,
    /// dpdk-httpperf's table.
    DpdkHttpperf,
    /// An HdrHistogram log or percentile spectrum.
    Hdr,
    /// `strace -c`, and sizes counted by `uniq -c`.
    Strace,
    Vmstat,
    Mpstat,
    /// TRex's stateful mode: global figures, ports, counters.
    Trex,
    /// Tables of numbers in a text.
    Table,
}

impl Format {
    /// All of them with their names.
    pub const ALL: [(Format, &'static str); 19] = [
        (Format::Auto, "auto"),
        (Format::Ab, "ab"),
        (Format::Wrk, "wrk"),
        (Format::Wrk2, "wrk2"),
        (Format::Weighttp, "weighttp"),
        (Format::H2load, "h2load"),
        (Format::Oha, "oha"),
        (Format::Vegeta, "vegeta"),
        (Format::K6, "k6"),
        (Format::Fortio, "fortio"),
        (Format::Hey, "hey"),
        (Format::Bombardier, "bombardier"),
        (Format::DpdkHttpperf, "dpdk-httpperf"),
        (Format::Hdr, "hdr"),
        (Format::Strace, "strace"),
        (Format::Vmstat, "vmstat"),
        (Format::Mpstat, "mpstat"),
        (Format::Trex, "trex"),
        (Format::Table, "table"),
    ];

    /// Names, in order.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|(_, name)| *name).collect()
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(format, _)| *format == self);
        named.map_or("auto", |(_, name)| name)
    }
}
