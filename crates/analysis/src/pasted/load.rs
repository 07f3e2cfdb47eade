//! Results of load generators: wrk (and wrk2), ab.

/// What a load generator printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadResult {
    /// `wrk` or `ab`.
    pub tool: String,
    /// Connections, when it says.
    pub connections: Option<f64>,
    /// Answers.
    pub requests: Option<f64>,
    /// Answers per second.
    pub rate_per_s: Option<f64>,
    /// Answers that are not successes, and requests that failed.
    pub errors: f64,
    /// Percentile (50, 99, ...) and response time, ms.
    pub percentiles_ms: Vec<(f64, f64)>,
    /// Bytes received for each answer.
    pub bytes_per_request: Option<f64>,
}

/// All results in these lines; a result ends with its rate (wrk) or begins with its server (ab).
pub(super) fn results(lines: &[&str]) -> Vec<LoadResult> {
    let mut found = Vec::new();
    let mut wrk = LoadResult::default();
    let mut ab: Option<LoadResult> = None;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "threads", "and", n, "connections"] => {
                wrk = LoadResult {
                    tool: "wrk".to_owned(),
                    connections: n.parse().ok(),
                    ..LoadResult::default()
                };
            }
            [n, "requests", "in", _, bytes, "read"] => {
                wrk.requests = n.parse().ok();
                wrk.bytes_per_request = size(bytes).zip(wrk.requests).map(|(b, n)| b / n);
            }
            ["Non-2xx", "or", "3xx", "responses:", n] => wrk.errors += n.parse().unwrap_or(0.0),
            ["Requests/sec:", rate] => {
                wrk.tool = "wrk".to_owned();
                wrk.rate_per_s = rate.parse().ok();
                found.push(std::mem::take(&mut wrk));
            }
            ["Concurrency", "Level:", n] => {
                found.extend(ab.take());
                ab = Some(LoadResult {
                    tool: "ab".to_owned(),
                    connections: n.parse().ok(),
                    ..LoadResult::default()
                });
            }
            [share, time] if share.ends_with('%') => {
                let percentile = share.trim_end_matches('%').parse().ok();
                match (percentile, time.parse::<f64>(), ab.as_mut()) {
                    (Some(p), Ok(ms), Some(ab)) => ab.percentiles_ms.push((p, ms)),
                    (Some(p), Err(_), _) => {
                        wrk.percentiles_ms
                            .extend(milliseconds(time).map(|ms| (p, ms)));
                    }
                    _ => {}
                }
            }
            _ => {
                if let Some(ab) = ab.as_mut() {
                    ab_line(ab, &words);
                }
            }
        }
    }
    found.extend(ab);
    found.retain(|result| result.rate_per_s.is_some());
    found
}

fn ab_line(ab: &mut LoadResult, words: &[&str]) {
    match words {
        ["Complete", "requests:", n] => ab.requests = n.parse().ok(),
        ["Failed", "requests:", n] | ["Non-2xx", "responses:", n] => {
            ab.errors += n.parse().unwrap_or(0.0);
        }
        ["Total", "transferred:", n, "bytes"] => {
            let bytes = n.parse::<f64>().ok();
            ab.bytes_per_request = bytes.zip(ab.requests).map(|(b, n)| b / n);
        }
        ["Requests", "per", "second:", rate, ..] => ab.rate_per_s = rate.parse().ok(),
        _ => {}
    }
}

/// `13.71ms`, `1.11s`, `820.00us`.
fn milliseconds(text: &str) -> Option<f64> {
    let (number, scale) = if let Some(n) = text.strip_suffix("ms") {
        (n, 1.0)
    } else if let Some(n) = text.strip_suffix("us") {
        (n, 1e-3)
    } else {
        (text.strip_suffix('s')?, 1e3)
    };
    number.parse::<f64>().ok().map(|n| n * scale)
}

/// `66.43GB`: wrk's units are powers of 1024.
fn size(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let scale = match &text[at..] {
        "B" => 1.0,
        "KB" => 1024.0,
        "MB" => 1024.0 * 1024.0,
        "GB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    text[..at].parse::<f64>().ok().map(|n| n * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrk_and_ab() {
        let text = "  4 threads and 500 connections\n     50%   37.20ms\n     99%  232.57ms\n  764342 requests in 1.00m, 66.43GB read\n  Non-2xx or 3xx responses: 1\nRequests/sec:  12722.92\n";
        let found = results(&text.lines().collect::<Vec<_>>());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].rate_per_s, Some(12722.92));
        assert_eq!(found[0].percentiles_ms[1], (99.0, 232.57));
        assert!((found[0].bytes_per_request.unwrap() - 93_321.0).abs() < 10.0);
        assert_eq!(found[0].errors, 1.0);
        let text = "Concurrency Level:      10\nComplete requests:      100\nFailed requests:        3\nTotal transferred:      1000 bytes\nRequests per second:    5000.00 [#/sec] (mean)\n  50%      2\n 100%      9 (longest request)\n";
        let found = results(&text.lines().collect::<Vec<_>>());
        assert_eq!((found[0].tool.as_str(), found[0].errors), ("ab", 3.0));
        assert_eq!(found[0].percentiles_ms, [(50.0, 2.0)]);
        assert_eq!(found[0].bytes_per_request, Some(10.0));
    }
}
