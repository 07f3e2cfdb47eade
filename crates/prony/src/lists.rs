//! Lists as people type them: CPUs (`0,2-4`) and source addresses (`127.0.0.2-127.0.0.9`, `127.0.1.0/28`).

use std::net::{IpAddr, Ipv4Addr};

/// Most source addresses that a range may name: a load uses them in turn, and each holds ports of its own.
const MOST_SOURCES: u32 = 4096;

/// Reads `0,2-4` as `[0, 2, 3, 4]`.
///
/// # Errors
/// A sentence that names the part that was not understood.
pub fn parse_cpus(text: &str) -> Result<Vec<u32>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim) {
        let number = |t: &str| {
            t.parse::<u32>()
                .map_err(|_| format!("`{part}` is not a CPU or a range of CPUs such as 0 or 2-4"))
        };
        match part.split_once('-') {
            None => cpus.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first || last > 4095 {
                    return Err(format!("`{part}` is not a rising range of CPUs below 4096"));
                }
                cpus.extend(first..=last);
            }
        }
    }
    Ok(cpus)
}

/// Reads `127.0.0.2-127.0.0.9`, `127.0.1.0/28` (host addresses only), single addresses, and comma lists.
///
/// # Errors
/// A sentence that names the part that was not understood.
pub fn parse_sources(text: &str) -> Result<Vec<IpAddr>, String> {
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        if let Some((first, last)) = part.split_once('-') {
            all.extend(v4_range(v4(first)?, v4(last)?, part)?);
        } else if let Some((base, bits)) = part.split_once('/') {
            let bits: u32 = bits
                .parse()
                .map_err(|_| format!("`{part}` is not a network"))?;
            if bits > 32 {
                return Err(format!("`{part}`: a prefix has at most 32 bits"));
            }
            let size = 1u64 << (32 - bits);
            let network = u64::from(u32::from(v4(base)?)) & !(size - 1);
            // Network and broadcast address are no hosts, except in /31 and /32 (RFC 3021).
            let (skip, hosts) = if size > 2 { (1, size - 2) } else { (0, size) };
            let first = Ipv4Addr::from((network + skip) as u32);
            let last = Ipv4Addr::from((network + skip + hosts - 1) as u32);
            all.extend(v4_range(first, last, part)?);
        } else {
            all.push(
                part.parse()
                    .map_err(|_| format!("`{part}` is not an IP address"))?,
            );
        }
    }
    Ok(all)
}

fn v4(text: &str) -> Result<Ipv4Addr, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("`{text}` is not an IPv4 address"))
}

fn v4_range(first: Ipv4Addr, last: Ipv4Addr, part: &str) -> Result<Vec<IpAddr>, String> {
    let (first, last) = (u32::from(first), u32::from(last));
    if last < first || last - first >= MOST_SOURCES {
        return Err(format!(
            "`{part}` is not a rising range of at most {MOST_SOURCES} addresses"
        ));
    }
    Ok((first..=last)
        .map(|a| IpAddr::V4(Ipv4Addr::from(a)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpus("0,2-4"), Ok(vec![0, 2, 3, 4]));
        for bad in ["", "a", "4-2", "0-99999999"] {
            assert!(parse_cpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn source_ranges() {
        let count = |text| parse_sources(text).map(|all| all.len());
        assert_eq!(count("127.0.0.2-127.0.0.9"), Ok(8));
        assert_eq!(count("127.0.1.0/28"), Ok(14));
        assert_eq!(count("127.0.0.1/32"), Ok(1));
        assert_eq!(count("::1, 127.0.0.3"), Ok(2));
        assert_eq!(
            parse_sources("127.0.1.7/30").unwrap()[0].to_string(),
            "127.0.1.5"
        );
        for bad in [
            "127.0.0.9-127.0.0.2",
            "10.0.0.0/0",
            "10.0.0.0/33",
            "here",
            "0.0.0.0/8",
        ] {
            assert!(parse_sources(bad).is_err(), "{bad}");
        }
    }
}
