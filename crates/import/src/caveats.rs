//! What each tool cannot tell, as warnings that stand beside its figures.

use record::{LatencyBase, Reported, Warning};

/// What no foreign result tells.
const NOBODY: &str = "no tool but prony says whether its own threads were the limit, or what the server did meanwhile";

/// What a reader of this result must know.
pub(crate) fn caveats(reported: &Reported) -> Vec<Warning> {
    let tool = reported.tool.split(" + ").next().unwrap_or_default();
    let own = match tool {
        "wrk" => {
            "wrk counts answers with any status in its rate and its latencies, and fills its latencies up afterwards \
             for requests that a stall kept it from sending"
        }
        "wrk2" => {
            "wrk2 counts answers with any status; its latencies count from the scheduled send, in steps of its \
             1 ms timer, and its first 10 s calibrate"
        }
        "ab" => {
            "ab is a closed loop in HTTP/1.0 that prints whole milliseconds and counts a stall of the server once \
             for each connection; its latency contains the connect"
        }
        "weighttp" => "weighttp is a closed loop; its text says nothing of latency",
        "h2load" => "h2load prints no percentiles, and its --rps sends in lumps",
        "hey" => {
            "hey is a closed loop even with -q; its rate counts failed requests as well, even where nothing responded"
        }
        "oha" => {
            "oha's latencies count from the actual send unless it was run with --latency-correction"
        }
        "bombardier" => {
            "bombardier prints the mean of its intervals' rates, and with -r it sends less than asked without a word"
        }
        "vegeta" => {
            "vegeta opens as many connections as it needs, whatever was asked, and failed dials count as fast requests \
             in its latencies"
        }
        "k6" => {
            "k6's latencies leave out connecting and the wait for a free virtual user, and its own CPU is often the \
             limit"
        }
        "fortio" => {
            "fortio interpolates percentiles in buckets of 1 ms by default, and catches up after a stall"
        }
        "dpdk-httpperf" => {
            "the table does not say whether its rate is that of one process or of all"
        }
        _ => "",
    };
    let mut found = Vec::new();
    if !own.is_empty() {
        found.push(Warning::new(
            &format!("reported_by_{}", name(tool)),
            format!("{own}; {NOBODY}"),
            "repeat the load with `prony load` where that matters",
        ));
    }
    let latencies = reported
        .figures
        .iter()
        .any(|f| f.name.starts_with("latency_ns"));
    if latencies && reported.latency_base == LatencyBase::Unknown {
        found.push(Warning::new(
            "latency_base_unknown",
            format!("{tool} does not say whether its latencies count from the scheduled send or from the actual one"),
            "compare them with each other only",
        ));
    }
    found
}

fn name(tool: &str) -> String {
    let lower = tool.to_lowercase();
    lower
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '_' })
        .collect()
}
