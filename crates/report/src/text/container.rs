//! A container that was named: the way into it, what that costs, and the limit of its control group.

use super::wrap::wrapped;
use analysis::words::{percent, rate};
use analysis::{Diagnosis, PublishedPath};
use record::{ContainerPath, Examination, Forwarding};

/// Lines of it, each behind a name.
pub(super) fn container(
    container: &ContainerPath,
    examination: Option<&Examination>,
    diagnosis: &Diagnosis,
) -> String {
    let id: String = container.id.chars().take(12).collect();
    let what = format!(
        "{} ({} {id}, process {})",
        container.name, container.engine, container.pid
    );
    let mut text = wrapped("container:   ", &what, 13);
    if !container.published.is_empty() {
        text += &wrapped("  port       ", &port(container, examination), 13);
    }
    let direct = container.direct.as_ref();
    if let Some((direct, path)) = direct.and_then(|d| Some((d, analysis::published_path(d)?))) {
        let place = match direct.within {
            true => format!("{} in its network namespace", direct.address),
            false => direct.address.clone(),
        };
        text += &wrapped("  direct     ", &against(&place, &path), 13);
    }
    text + &wrapped("  CPU limit  ", &limit(diagnosis), 13)
}

fn port(container: &ContainerPath, examination: Option<&Examination>) -> String {
    let way = match container.forwarding {
        Forwarding::Unknown => "who forwards it was not seen".to_owned(),
        Forwarding::None => "not forwarded by anything".to_owned(),
        Forwarding::Kernel => "forwarded by the kernel, which rewrites addresses (DNAT)".to_owned(),
        Forwarding::Program => {
            let servers = examination.map_or(&[][..], |e| &e.servers);
            let program = servers.iter().find(|s| s.target == container.forwarder);
            let who = program.map_or_else(String::new, |s| {
                format!(" by {} (process {})", s.kind, s.main_pid)
            });
            format!(
                "every byte is copied{who}, which is the target `{}`",
                container.forwarder
            )
        }
    };
    format!(
        "{} to {} inside: {way}",
        container.published, container.inside
    )
}

/// `1,000/s against 2,000/s at 10.88.0.6:80: x0.50 (0.49 to 0.52), p50 x2.0 (1.9 to 2.1)`.
fn against(place: &str, path: &PublishedPath) -> String {
    format!(
        "{}/s over the published port against {}/s at {place}: rate {}, p50 {}",
        rate(path.rate_per_s),
        rate(path.direct_rate_per_s),
        times(path.rate),
        times(path.response_p50),
    )
}

fn times(ratio: analysis::Ratio) -> String {
    match ratio.interval() {
        Some((low, high)) => format!("x{:.2} ({low:.2} to {high:.2})", ratio.ratio),
        None => format!("x{:.2} (too few pairs for an interval)", ratio.ratio),
    }
}

fn limit(diagnosis: &Diagnosis) -> String {
    let fact = |name: &str| {
        let mut facts = diagnosis.facts.iter();
        facts
            .find(|f| f.target == "server" && f.name == name)
            .and_then(|f| f.value)
    };
    let Some(cores) = fact("cgroup.quota_cores") else {
        return "none was seen".to_owned();
    };
    let throttled = fact("cgroup.throttled_periods_share").zip(fact("cgroup.throttled_share"));
    let throttled = throttled.map_or_else(
        || "whether it was throttled is not known".to_owned(),
        |(periods, time)| {
            format!(
                "throttled in {} of the periods, {} of the time",
                percent(periods),
                percent(time)
            )
        },
    );
    format!("{cores} cores; {throttled}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::{FactSet, FactValue};
    use record::{DirectPath, PathFigures, PathPair, Server};

    fn diagnosis(facts: &[(&str, f64)]) -> Diagnosis {
        let mut diagnosis = analysis::diagnose_facts(&FactSet::default(), "proc");
        diagnosis.facts = (facts.iter())
            .map(|(name, value)| FactValue {
                name: (*name).to_owned(),
                target: "server".to_owned(),
                value: Some(*value),
                unit: "1".to_owned(),
                source: "cgroup cpu.stat".to_owned(),
            })
            .collect();
        diagnosis
    }

    fn web() -> ContainerPath {
        ContainerPath {
            engine: "podman".to_owned(),
            name: "web".to_owned(),
            id: "824394fdbe5ffafaf0adc5a9".to_owned(),
            pid: 20034,
            ..ContainerPath::default()
        }
    }

    #[test]
    fn a_forwarder_its_price_and_a_throttled_server() {
        let figures = |rate_per_s: f64| PathFigures {
            rate_per_s,
            response_ns_p50: (1e10 / rate_per_s) as u64,
        };
        let pair = |n: usize| PathPair {
            published: figures(8000.0 + 50.0 * n as f64),
            direct: figures(20000.0),
        };
        let path = ContainerPath {
            published: "127.0.0.1:18080".to_owned(),
            inside: 8080,
            forwarding: Forwarding::Program,
            forwarder: "forwarder".to_owned(),
            direct: Some(DirectPath {
                address: "127.0.0.1:8080".to_owned(),
                within: true,
                pairs: (0..6).map(pair).collect(),
            }),
            ..web()
        };
        let examination = Examination {
            servers: vec![Server {
                target: "forwarder".to_owned(),
                kind: "rootlessport".to_owned(),
                main_pid: 20826,
                ..Server::default()
            }],
            ..Examination::default()
        };
        let facts = [
            ("cgroup.quota_cores", 0.5),
            ("cgroup.throttled_periods_share", 0.97),
            ("cgroup.throttled_share", 0.45),
        ];
        let want = "\
container:   web (podman 824394fdbe5f, process 20034)
  port       127.0.0.1:18080 to 8080 inside: every byte is copied by rootlessport (process 20826),
             which is the target `forwarder`
  direct     8,125/s over the published port against 20,000/s at 127.0.0.1:8080 in its network
             namespace: rate x0.41 (0.40 to 0.41), p50 x2.46 (2.42 to 2.50)
  CPU limit  0.5 cores; throttled in 97 % of the periods, 45 % of the time
";
        assert_eq!(
            container(&path, Some(&examination), &diagnosis(&facts)),
            want
        );
    }

    #[test]
    fn what_was_not_seen_is_not_said() {
        let watched = "\
container:   web (podman 824394fdbe5f, process 20034)
  CPU limit  none was seen
";
        assert_eq!(container(&web(), None, &diagnosis(&[])), watched);
        let path = ContainerPath {
            published: "127.0.0.1:18080".to_owned(),
            inside: 80,
            ..web()
        };
        let text = container(&path, None, &diagnosis(&[("cgroup.quota_cores", 2.0)]));
        let unknown = "\
  port       127.0.0.1:18080 to 80 inside: who forwards it was not seen
  CPU limit  2 cores; whether it was throttled is not known
";
        assert!(text.ends_with(unknown), "{text}");
    }
}
