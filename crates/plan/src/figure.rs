//! The figures that a `[[table]]` may show: their names, heads and units.
//!
//! Names are the field's words with the unit last, as everywhere; what a figure is made of is in `analysis`, which
//! computes it from a trial's record. The surprise: a figure carries how it is taken over the repeats of a cell
//! (`rate_per_s.min`), because the studies differ in that: min/avg/max here, one median there.

use crate::near_miss;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What one trial can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// Successes per second.
    Rate,
    /// The fastest slice of the measured part, successes per second.
    PeakRate,
    /// Connections opened per second, where each carries a fixed number of requests.
    ConnectionRate,
    /// Bits received per second: payload, heads included.
    ReceivedBits,
    /// Mean response time.
    ResponseMean,
    /// Median response time.
    ResponseP50,
    /// 75th percentile of the response time.
    ResponseP75,
    /// 90th percentile.
    ResponseP90,
    /// 95th percentile.
    ResponseP95,
    /// 99th percentile.
    ResponseP99,
    /// 99.9th percentile.
    ResponseP999,
    /// Largest response time.
    ResponseMax,
    /// Share of failed requests.
    ErrorShare,
    /// Share of the server's cores in user mode.
    ServerUser,
    /// Share of the server's cores in the kernel, interrupts left out.
    ServerSystem,
    /// Share of the server's cores in softirq.
    ServerSoftirq,
    /// Share of the server's cores with nothing to do.
    ServerIdle,
    /// Share of the busiest load thread's time in user mode.
    GeneratorUser,
    /// Share of the busiest load thread's time in the kernel.
    GeneratorSystem,
    /// CPU of the targets' processes per request.
    ServerCpuPerRequest,
    /// User time of the server's cores per request.
    ServerUserPerRequest,
    /// System time of the server's cores per request.
    ServerSystemPerRequest,
    /// Softirq time of the server's cores per request.
    ServerSoftirqPerRequest,
    /// Busy time of the server's cores per connection, where each carries a fixed number of requests.
    ServerCpuPerConnection,
    /// Busy cores of the server per gigabit per second that the client received.
    ServerCoresPerGbit,
    /// CPU of the generator per request.
    GeneratorCpuPerRequest,
    /// Calls that allocate, per request.
    AllocationsPerRequest,
    /// Calls that free, per request.
    FreesPerRequest,
    /// System calls per request.
    CallsPerRequest,
    /// Minor page faults of the targets per request.
    MinorFaultsPerRequest,
    /// Resident memory of the loaded target's processes, at most.
    Rss,
    /// Pages of TCP buffers, at most, both ends of every loopback connection.
    TcpMemory,
    /// Slabs of TCP sockets, at most, likewise.
    TcpSlabs,
    /// Growth of both over the load, per connection that was open at the same time.
    TcpBytesPerConnection,
    /// Connections open at one time, at most.
    ConnectionsPeak,
    /// TCP segments sent per request, by both ends where both are on this host.
    SegmentsPerRequest,
    /// Share of the sent segments that were sent again.
    RetransmitShare,
    /// Data TLB loads per request.
    TlbLoadsPerRequest,
    /// Data TLB loads that missed, per request.
    TlbMissesPerRequest,
    /// Requests (else CPU time) of the busiest worker over those of a fair share.
    WorkerImbalance,
}

impl Figure {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Figure; 40] = [
        Figure::Rate,
        Figure::PeakRate,
        Figure::ConnectionRate,
        Figure::ReceivedBits,
        Figure::ResponseMean,
        Figure::ResponseP50,
        Figure::ResponseP75,
        Figure::ResponseP90,
        Figure::ResponseP95,
        Figure::ResponseP99,
        Figure::ResponseP999,
        Figure::ResponseMax,
        Figure::ErrorShare,
        Figure::ServerUser,
        Figure::ServerSystem,
        Figure::ServerSoftirq,
        Figure::ServerIdle,
        Figure::GeneratorUser,
        Figure::GeneratorSystem,
        Figure::ServerCpuPerRequest,
        Figure::ServerUserPerRequest,
        Figure::ServerSystemPerRequest,
        Figure::ServerSoftirqPerRequest,
        Figure::ServerCpuPerConnection,
        Figure::ServerCoresPerGbit,
        Figure::GeneratorCpuPerRequest,
        Figure::AllocationsPerRequest,
        Figure::FreesPerRequest,
        Figure::CallsPerRequest,
        Figure::MinorFaultsPerRequest,
        Figure::Rss,
        Figure::TcpMemory,
        Figure::TcpSlabs,
        Figure::TcpBytesPerConnection,
        Figure::ConnectionsPeak,
        Figure::SegmentsPerRequest,
        Figure::RetransmitShare,
        Figure::TlbLoadsPerRequest,
        Figure::TlbMissesPerRequest,
        Figure::WorkerImbalance,
    ];

    /// Name in the experiment file, head in tables, unit (`1` for a share or a plain number).
    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Figure::Rate => ("rate_per_s", "rate/s", "1/s"),
            Figure::PeakRate => ("peak_rate_per_s", "peak rate/s", "1/s"),
            Figure::ConnectionRate => ("connections_per_s", "connections/s", "1/s"),
            Figure::ReceivedBits => ("received_bits_per_s", "received", "bit/s"),
            Figure::ResponseMean => ("response_ns_mean", "mean", "ns"),
            Figure::ResponseP50 => ("response_ns_p50", "p50", "ns"),
            Figure::ResponseP75 => ("response_ns_p75", "p75", "ns"),
            Figure::ResponseP90 => ("response_ns_p90", "p90", "ns"),
            Figure::ResponseP95 => ("response_ns_p95", "p95", "ns"),
            Figure::ResponseP99 => ("response_ns_p99", "p99", "ns"),
            Figure::ResponseP999 => ("response_ns_p999", "p99.9", "ns"),
            Figure::ResponseMax => ("response_ns_max", "max", "ns"),
            Figure::ErrorShare => ("error_share", "errors", "share"),
            Figure::ServerUser => ("server_user_share", "server user", "share"),
            Figure::ServerSystem => ("server_system_share", "server system", "share"),
            Figure::ServerSoftirq => ("server_softirq_share", "server softirq", "share"),
            Figure::ServerIdle => ("server_idle_share", "server idle", "share"),
            Figure::GeneratorUser => ("generator_user_share", "client user", "share"),
            Figure::GeneratorSystem => ("generator_system_share", "client system", "share"),
            Figure::ServerCpuPerRequest => ("server_cpu_us_per_request", "CPU/req", "us"),
            Figure::ServerUserPerRequest => ("server_user_us_per_request", "user/req", "us"),
            Figure::ServerSystemPerRequest => ("server_system_us_per_request", "system/req", "us"),
            Figure::ServerSoftirqPerRequest => {
                ("server_softirq_us_per_request", "softirq/req", "us")
            }
            Figure::ServerCpuPerConnection => {
                ("server_cpu_us_per_connection", "CPU/connection", "us")
            }
            Figure::ServerCoresPerGbit => {
                ("server_cores_per_gbit_per_s", "cores per Gbit/s", "cores")
            }
            Figure::GeneratorCpuPerRequest => {
                ("generator_cpu_us_per_request", "client CPU/req", "us")
            }
            Figure::AllocationsPerRequest => ("allocations_per_request", "mallocs/req", "1"),
            Figure::FreesPerRequest => ("frees_per_request", "frees/req", "1"),
            Figure::CallsPerRequest => ("system_calls_per_request", "calls/req", "1"),
            Figure::MinorFaultsPerRequest => ("minor_faults_per_request", "minor faults/req", "1"),
            Figure::Rss => ("rss_bytes", "memory", "bytes"),
            Figure::TcpMemory => ("tcp_memory_bytes", "TCP buffers", "bytes"),
            Figure::TcpSlabs => ("tcp_slab_bytes", "TCP slabs", "bytes"),
            Figure::TcpBytesPerConnection => {
                ("tcp_bytes_per_connection", "TCP memory/connection", "bytes")
            }
            Figure::ConnectionsPeak => ("connections_peak", "open at most", "1"),
            Figure::SegmentsPerRequest => ("segments_per_request", "segments/req", "1"),
            Figure::RetransmitShare => ("retransmit_share", "retransmitted", "share"),
            Figure::TlbLoadsPerRequest => ("dtlb_loads_per_request", "dTLB loads/req", "1"),
            Figure::TlbMissesPerRequest => ("dtlb_misses_per_request", "dTLB misses/req", "1"),
            Figure::WorkerImbalance => ("worker_imbalance", "busiest worker", "fair shares"),
        }
    }

    /// Name in the experiment file and in JSON.
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// Head of its column.
    pub const fn head(self) -> &'static str {
        self.words().1
    }

    /// Unit of its values.
    pub const fn unit(self) -> &'static str {
        self.words().2
    }

    /// It depends on how fast things go, so that only a valid trial may give it. Counts per request of a signature
    /// pass do not.
    pub const fn is_timed(self) -> bool {
        !matches!(
            self,
            Figure::AllocationsPerRequest | Figure::FreesPerRequest | Figure::CallsPerRequest
        )
    }
}

/// What the repeats of a cell become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Over {
    /// The middle one.
    #[default]
    Median,
    /// The smallest.
    Min,
    /// The arithmetic mean.
    Mean,
    /// The largest.
    Max,
}

impl Over {
    /// All of them.
    pub const ALL: [Over; 4] = [Over::Median, Over::Min, Over::Mean, Over::Max];

    /// Name behind the dot.
    pub const fn name(self) -> &'static str {
        match self {
            Over::Median => "median",
            Over::Min => "min",
            Over::Mean => "mean",
            Over::Max => "max",
        }
    }
}

/// A figure and how it is taken over repeats: `rate_per_s`, `rate_per_s.min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FigureOver {
    pub figure: Figure,
    /// Over the repeats.
    pub over: Over,
}

impl FigureOver {
    /// Head of its column: the figure's, with how it was taken unless that is the median.
    pub fn head(self) -> String {
        match self.over {
            Over::Median => self.figure.head().to_owned(),
            over => format!("{} {}", over.name(), self.figure.head()),
        }
    }
}

impl fmt::Display for FigureOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.over {
            Over::Median => f.write_str(self.figure.name()),
            over => write!(f, "{}.{}", self.figure.name(), over.name()),
        }
    }
}

impl From<FigureOver> for String {
    fn from(figure: FigureOver) -> Self {
        figure.to_string()
    }
}

/// A text that names no figure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown figure `{name}`{}", near.as_ref().map_or_else(String::new, |n| format!("; did you mean `{n}`?")))]
pub struct UnknownFigure {
    /// As typed.
    pub name: String,
    /// The known name that it resembles.
    pub near: Option<String>,
}

impl FromStr for FigureOver {
    type Err = UnknownFigure;

    fn from_str(text: &str) -> Result<Self, UnknownFigure> {
        let (name, over) = text.split_once('.').unwrap_or((text, Over::Median.name()));
        let figure = Figure::ALL.into_iter().find(|f| f.name() == name);
        let over = Over::ALL.into_iter().find(|o| o.name() == over);
        match (figure, over) {
            (Some(figure), Some(over)) => Ok(Self { figure, over }),
            _ => Err(UnknownFigure {
                name: text.to_owned(),
                near: match figure {
                    Some(figure) => Some(format!("{}.max", figure.name())),
                    None => near_miss(name, Figure::ALL.map(Figure::name)),
                },
            }),
        }
    }
}

impl TryFrom<String> for FigureOver {
    type Error = UnknownFigure;

    fn try_from(text: String) -> Result<Self, UnknownFigure> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_figure_has_a_name_of_its_own_and_reads_back() {
        let names: BTreeSet<&str> = Figure::ALL.map(Figure::name).into();
        assert_eq!(names.len(), Figure::ALL.len());
        for figure in Figure::ALL {
            for over in Over::ALL {
                let both = FigureOver { figure, over };
                assert_eq!(both.to_string().parse(), Ok(both));
            }
        }
    }

    #[test]
    fn a_slip_is_answered_with_the_name_that_was_meant() {
        for (typed, near) in [
            ("rate_pers_s", Some("rate_per_s")),
            ("rate_per_s.most", Some("rate_per_s.max")),
            ("response_ns_p98", Some("response_ns_p99")),
            ("zebra", None),
        ] {
            let unknown = typed.parse::<FigureOver>().unwrap_err();
            // Several figures differ in one digit: any of them is a help.
            let same = unknown.near.as_deref() == near
                || (typed.starts_with("response")
                    && unknown
                        .near
                        .is_some_and(|n| n.starts_with("response_ns_p9")));
            assert!(same, "{typed}");
        }
    }
}
