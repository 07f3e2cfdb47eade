//! A server's own metrics a line, as Prometheus reads them: counters, gauges and summaries; histograms are read beside.
//!
//! Names that every library has become the figures that they mean: descriptors, goroutines, pools, quotas, statuses.
//! The surprise is what the others say: nothing of now, because a counter counts from the start on.

use super::events::{artefact, told};
use super::pools;
use record::pasted::{Artefact, Row};

/// Fewer series without a name that is known are another tool's lines.
const FEWEST: usize = 2;

struct Sample<'a> {
    line: u32,
    name: &'a str,
    labels: &'a str,
    value: f64,
}

impl Sample<'_> {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.split(',').find_map(|l| {
            let (key, value) = l.trim().split_once('=')?;
            (key == name).then(|| value.trim_matches('"'))
        })
    }
}

/// How names of metrics begin.
const OWN: [&str; 8] = [
    "process_",
    "go_",
    "node_",
    "container_",
    "jvm_",
    "hikaricp_",
    "http_",
    "tomcat_",
];
/// Names of metrics and ours.
const KNOWN: [(&str, &str); 9] = [
    ("process_open_fds", "metrics.files"),
    ("process_max_fds", "metrics.files_limit"),
    ("go_goroutines", "go.goroutines"),
    ("container_cpu_cfs_periods_total", "throttle.periods"),
    (
        "container_cpu_cfs_throttled_periods_total",
        "throttle.throttled",
    ),
    ("node_nf_conntrack_entries", "conntrack.count"),
    ("node_nf_conntrack_entries_limit", "conntrack.max"),
    (
        "node_netstat_TcpExt_ListenOverflows",
        "netstat.listen_overflows",
    ),
    ("node_netstat_TcpExt_ListenDrops", "netstat.listen_drops"),
];
/// Ends of names of a pool's gauges, and the words that `pools` reads.
const POOLS: [(&str, &str); 17] = [
    ("connections_active", "active"),
    ("connections_max", "max"),
    ("connections_idle", "idle"),
    ("connections_pending", "waiting"),
    ("connections_in_use", "inuse"),
    ("connections_max_open", "maxopen"),
    ("connections_usage_used", "active"),
    ("threads_busy_threads", "active"),
    ("threads_config_max_threads", "max"),
    ("threads_busy", "active"),
    ("threads_config_max", "max"),
    ("executor_active_threads", "active"),
    ("executor_pool_max_threads", "max"),
    ("executor_queued_tasks", "waiting"),
    ("puma_backlog", "waiting"),
    ("puma_running", "active"),
    ("puma_max_threads", "max"),
];

/// The series of a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let all: Vec<Sample<'_>> = (1_u32..)
        .zip(lines)
        .filter_map(|(n, l)| sample(l, n))
        .collect();
    // Without labels and heads only names that begin as metrics do are any: other tools print a name and a number too.
    let sure = lines.iter().any(|l| {
        l.contains("=\"") && l.contains('{') || l.starts_with("# TYPE") || l.starts_with("# HELP")
    });
    let all: Vec<Sample<'_>> = all
        .into_iter()
        .filter(|s| sure || OWN.iter().any(|p| s.name.starts_with(p)))
        .collect();
    let mut found = artefact("metrics", 0);
    let mut pool = String::new();
    let mut statuses = artefact("counts of statuses", 0);
    let mut tail = artefact("summary of metrics", 0);
    for sample in &all {
        found.begin_at(sample.line);
        found.add("metrics.series", 1.0);
        if let Some((_, ours)) = KNOWN.iter().find(|(theirs, _)| *theirs == sample.name) {
            found.add(ours, sample.value);
        }
        if sample.name == "controller_runtime_reconcile_total" {
            let result = sample.label("result").unwrap_or_default();
            found.add("reconciles.all", sample.value);
            match result {
                "error" => found.add("reconciles.failed", sample.value),
                _ if result.starts_with("requeue") => found.add("reconciles.again", sample.value),
                _ => {}
            }
        }
        if sample.name == "container_cpu_cfs_throttled_seconds_total" {
            found.add("throttle.time_us", sample.value * 1e6);
        }
        if let Some((_, word)) = POOLS.iter().find(|(end, _)| sample.name.ends_with(end)) {
            pool += &format!("{word}={} ", sample.value);
        }
        let status = ["code", "status", "status_code"]
            .iter()
            .find_map(|l| sample.label(l)?.parse::<u16>().ok());
        let of_requests = sample.name.contains("request")
            && (sample.name.ends_with("_total") || sample.name.ends_with("_count"));
        if let Some(code) = status.filter(|s| of_requests && (100..600).contains(s)) {
            statuses.begin_at(sample.line);
            statuses.add(&format!("status.{code}"), sample.value);
            statuses.add(&format!("status.{}xx", code / 100), sample.value);
            statuses.add("status.all", sample.value);
            statuses.rows.push(Row::new(code.to_string(), sample.value));
        }
        if let Some(quantile) = sample
            .label("quantile")
            .filter(|_| sample.value.is_finite())
        {
            let largest = tail.rows.first().map_or(0.0, |r| r.share);
            if quantile.starts_with("0.9") && sample.value >= largest {
                tail.begin_at(sample.line);
                tail.rows = vec![Row::new(
                    format!("{} at {quantile}", sample.name),
                    sample.value,
                )];
                tail.figures.insert("metrics.tail".into(), sample.value);
            }
        }
        if !sample.name.ends_with("_bucket") {
            found.rows.push(Row::new(sample.name, sample.value));
        }
    }
    let known = found.figures.len() > 1 || !pool.is_empty() || statuses.line > 0 || tail.line > 0;
    if !known && (all.len() < FEWEST || all.iter().all(|s| s.name.ends_with("_bucket"))) {
        return Vec::new();
    }
    found.settle();
    statuses.settle();
    let used = found
        .value("metrics.files")
        .zip(found.value("metrics.files_limit"));
    if let Some((n, limit)) = used.filter(|(_, l)| *l > 0.0) {
        found
            .figures
            .insert("metrics.files_share".into(), n / limit);
    }
    let line = format!("pool {pool}");
    let pools = pools::read(&[line.as_str()]);
    [told(found), told(statuses), told(tail), pools]
        .into_iter()
        .flatten()
        .collect()
}

/// `name{label="value",} 12.5`, or without labels.
fn sample(line: &str, number: u32) -> Option<Sample<'_>> {
    let line = line.trim();
    let (name, labels, rest) = match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, rest) = rest.rsplit_once('}')?;
            (name, labels, rest)
        }
        None => {
            let (name, rest) = line.split_once(' ')?;
            (name, "", rest)
        }
    };
    let named = name.contains('_')
        && !name.ends_with(':')
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':');
    // A stamp may stand behind.
    let words: Vec<&str> = rest.split_whitespace().collect();
    let labelled = labels.is_empty() || labels.contains("=\"");
    (named && labelled && matches!(words.len(), 1 | 2)).then_some(())?;
    Some(Sample {
        line: number,
        name,
        labels,
        value: words.first()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_and_its_limit_are_two_series() {
        let text = "\
hikaricp_connections_active{pool=\"p\",} 10.0
hikaricp_connections_max{pool=\"p\",} 10.0
hikaricp_connections_idle{pool=\"p\",} 0.0
hikaricp_connections_pending{pool=\"p\",} 45.0";
        let found = read(&text.lines().collect::<Vec<_>>());
        let full = found.iter().find_map(|a| a.value("pool.full"));
        assert_eq!(full, Some(1.0));
        assert!(read(&["max_conns 12"]).is_empty());
    }
}
