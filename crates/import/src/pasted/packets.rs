//! A packet a line, as tcpdump and tshark print them: SYNs that came again, silences, closed windows.
//!
//! Both become the same packets, which are then walked once. The surprise is Nagle's algorithm: it shows as data that
//! leaves right behind an acknowledgement that came 40 ms late, and neither of the two alone means anything: an
//! acknowledgement that comes after another time is a late one only where the way is known to be quick.

use super::events::{artefact, clock};
use record::pasted::Artefact;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// From and to, with ports.
type Way = (String, String);

#[derive(Clone, Debug, PartialEq)]
struct Packet {
    /// Seconds, of the day or of the capture.
    at: f64,
    way: Way,
    /// As tcpdump writes them: `S`, `S.`, `P.`, `.`; nothing for a datagram.
    flags: String,
    length: f64,
    zero_window: bool,
    /// The first number of its data, where it is told.
    sequence: Option<u64>,
    /// What a bare acknowledgement confirms.
    acknowledged: Option<u64>,
    /// tshark says itself that it is data again, or an acknowledgement again.
    said_again: bool,
    said_duplicate: bool,
}

/// What the packets so far have left open.
#[derive(Default)]
struct Wire {
    syns: BTreeMap<Way, f64>,
    /// The last packet of a conversation: when, from whom, its length.
    last: BTreeMap<Way, (f64, String, f64)>,
    /// The data that each way has sent, by its first number.
    sent: BTreeMap<Way, BTreeMap<u64, f64>>,
    /// The acknowledgement that each way repeats.
    acked: BTreeMap<Way, u64>,
    /// Whose data was acknowledged late, and when: what it sends at once was held back for that.
    held_back: BTreeMap<Way, (f64, String)>,
    /// The shortest time after which each way followed the other one.
    quickest: BTreeMap<Way, f64>,
}

/// A way there and back that takes longer may be the whole time of an acknowledgement, s.
const QUICK_S: f64 = 0.01;
/// Bytes of a full segment between machines: Nagle's algorithm holds back less (RFC 896).
const FULL: f64 = 1448.0;

/// Whether both ends are one machine: `127.0.0.1.80 > 127.0.0.1.4711`.
fn within_a_host((from, to): &Way) -> bool {
    let host = |end: &str| end.rsplit_once('.').map(|(host, _)| host.to_owned());
    host(from).is_some() && host(from) == host(to)
}

/// All packets of a text, as one artefact.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("tcpdump", 0);
    let mut wire = Wire::default();
    let mut before: Option<Packet> = None;
    for (number, line) in joined(lines) {
        let line = line.as_ref();
        // A router says that a packet is too large for what follows.
        if line.contains("need to frag")
            || line.contains("packet too big")
            || line.contains("Fragmentation needed")
        {
            found.begin_at(number);
            found.add("packets.too_large", 1.0);
        }
        let Some(packet) = dumped(line).or_else(|| sharked(line, before.as_ref())) else {
            continue;
        };
        found.begin_at(number);
        if BAD_CHECKSUMS.iter().any(|bad| line.contains(bad)) {
            found.add("packets.bad_checksums", 1.0);
        }
        if let Some((said, held)) = cut_short(line) {
            found.add("packets.cut_short", 1.0);
            found.largest("packets.cut_said", said);
            found.largest("packets.cut_held", held);
        }
        wire.take(&packet, &mut found);
        before = Some(packet);
    }
    if found.line == 0 {
        return None;
    }
    // What would have been seen in these packets and was not.
    for name in [
        "syn_again",
        "dns_again",
        "zero_windows",
        "resets",
        "nagle",
        "data_again",
        "acks_again",
        "too_large",
        "bad_checksums",
        "cut_short",
    ] {
        let name = format!("packets.{name}");
        found.figures.entry(name).or_insert(0.0);
    }
    Some(found)
}

/// `UDP, bad length 1272 > 1168`: what the head of a datagram says, and what of it is there.
fn cut_short(line: &str) -> Option<(f64, f64)> {
    let (_, rest) = line.split_once("bad length ")?;
    let (said, held) = rest.split_once(" > ")?;
    let held = held.split([' ', ',']).next()?;
    let (said, held): (f64, f64) = (said.parse().ok()?, held.parse().ok()?);
    (said > held).then_some((said, held))
}

/// How tcpdump says that a checksum does not fit, with `-v` and more.
const BAD_CHECKSUMS: [&str; 3] = ["bad udp cksum", "bad cksum", "(incorrect"];

/// A packet a line. With `-v` tcpdump prints the head of IP and its contents in two, and inside of a tunnel another
/// packet without a stamp, which has that of the outer one.
fn joined<'a>(lines: &[&'a str]) -> Vec<(u32, Cow<'a, str>)> {
    let mut done: Vec<(u32, Cow<'a, str>)> = Vec::with_capacity(lines.len());
    let mut stamp = "";
    let mut head: Option<(u32, String)> = None;
    for (number, line) in (1_u32..).zip(lines) {
        if let Some((at, head)) = head.take() {
            done.push((at, Cow::Owned(format!("{head} {}", line.trim()))));
            continue;
        }
        let ip = ["IP (", "IP6 ("].iter().find_map(|ip| line.find(ip));
        match ip.filter(|_| !line.contains(" > ")) {
            Some(at) => {
                let before = line[..at].split_whitespace().last().unwrap_or_default();
                if clock(before).is_some() {
                    stamp = before;
                }
                head = Some((number, format!("{stamp} {}", &line[at..])));
            }
            None => done.push((number, Cow::Borrowed(*line))),
        }
    }
    done
}

impl Wire {
    fn take(&mut self, packet: &Packet, found: &mut Artefact) {
        found.add("packets.seen", 1.0);
        if packet.flags == "S" {
            if let Some(before) = self.syns.get(&packet.way) {
                found.add("packets.syn_again", 1.0);
                found.largest("packets.syn_wait_s", packet.at - before);
            }
            self.syns.insert(packet.way.clone(), packet.at);
        }
        if packet.flags.contains('R') {
            found.add("packets.resets", 1.0);
        }
        // An answer to a SYN may open with nothing (a proxy does); a window closes later.
        if packet.zero_window && !packet.flags.contains(['S', 'R']) {
            found.add("packets.zero_windows", 1.0);
        }
        if !packet.flags.contains('S') {
            self.again(packet, found);
        }
        if packet.flags.is_empty() {
            self.datagram(packet, found);
        } else {
            self.segment(packet, found);
        }
    }

    /// Data that was sent before, and acknowledgements that confirm nothing new.
    fn again(&mut self, packet: &Packet, found: &mut Artefact) {
        let mut again = packet.said_again;
        if let Some(sequence) = packet.sequence.filter(|_| packet.length > 0.0) {
            let sent = self.sent.entry(packet.way.clone()).or_default();
            if let Some(before) = sent.insert(sequence, packet.at) {
                again = true;
                found.largest("packets.data_wait_s", packet.at - before);
            }
        }
        found.add("packets.data_again", f64::from(u8::from(again)));
        let bare =
            packet.length == 0.0 && !packet.flags.contains(['F', 'R']) && !packet.zero_window;
        let mut repeated = packet.said_duplicate;
        if let Some(n) = packet.acknowledged.filter(|_| bare) {
            repeated |= self.acked.insert(packet.way.clone(), n) == Some(n);
        }
        found.add("packets.acks_again", f64::from(u8::from(repeated)));
    }

    fn datagram(&mut self, packet: &Packet, found: &mut Artefact) {
        if let Some((before, _, length)) = self.last.get(&packet.way) {
            let wait = packet.at - before;
            // The resolver's own time before it asks again.
            if (4.9..5.2).contains(&wait) && *length == packet.length {
                found.add("packets.dns_again", 1.0);
            }
        }
        let kept = (packet.at, String::new(), packet.length);
        self.last.insert(packet.way.clone(), kept);
    }

    fn segment(&mut self, packet: &Packet, found: &mut Artefact) {
        let (from, to) = &packet.way;
        // Both directions are one conversation.
        let key = match from < to {
            true => packet.way.clone(),
            false => (to.clone(), from.clone()),
        };
        if let Some((before, who, length)) = self.last.get(&key) {
            let wait = packet.at - before;
            let idle_ack = packet.length == 0.0 && packet.flags == "." && *length > 0.0;
            let quickest = self.quickest.get(&packet.way);
            let local = within_a_host(&packet.way);
            let quick = local || quickest.is_some_and(|s| *s < QUICK_S);
            // Linux delays for 40 ms less a tick or two of its clock, others for 200.
            let long = (0.19..0.25).contains(&wait);
            let late =
                (0.038..0.06).contains(&wait) || quick && ((0.03..0.06).contains(&wait) || long);
            if idle_ack && who != from && (late || long) {
                found.largest("packets.delayed_ack_s", wait);
            }
            if idle_ack && who != from && late {
                found.add("packets.delayed_acks", 1.0);
                self.held_back.insert(key.clone(), (packet.at, who.clone()));
            } else if let Some((acked, who)) = self.held_back.remove(&key)
                && packet.length > 0.0
                && (packet.length < FULL || local)
                && who == *from
                && packet.at - acked < 0.005
            {
                found.add("packets.nagle", 1.0);
            }
            if packet.length > 0.0 && who != from {
                found.largest("packets.answer_wait_s", wait);
            }
            if who != from {
                let least = quickest.map_or(wait, |s| s.min(wait));
                self.quickest.insert(packet.way.clone(), least);
            }
        }
        self.last
            .insert(key, (packet.at, from.clone(), packet.length));
    }
}

/// `19:31:37.438631 IP 10.0.0.1.5 > 10.0.0.2.80: Flags [S], seq 1, win 43690, length 0`.
fn dumped(line: &str) -> Option<Packet> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ip = words.iter().position(|w| *w == "IP" || *w == "IP6")?;
    let at = clock(words[..ip].last()?)?;
    let arrow = words.iter().position(|w| *w == ">").filter(|a| *a > ip)?;
    let behind = |name: &str| {
        let at = words.iter().position(|w| *w == name)?;
        words.get(at + 1).copied()
    };
    let way = (
        (*words.get(arrow - 1)?).to_owned(),
        words.get(arrow + 1)?.trim_end_matches(':').to_owned(),
    );
    let flags = behind("Flags").map_or("", |w| w.trim_matches(['[', ']', ',']));
    // Before the contents of `-v` stands the length of the whole packet, with a bracket.
    let mut lengths = words.windows(2).filter(|pair| pair[0] == "length");
    let length = lengths.find_map(|pair| pair[1].trim_end_matches(':').parse().ok());
    let datagram = is_dns(&way) || line.contains("UDP");
    // Where a line is cut off, the numbers of its data tell how long it is.
    let numbers = || {
        let (from, to) = behind("seq")?.trim_end_matches(',').split_once(':')?;
        let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        to.checked_sub(from).map(|n| n as f64)
    };
    Some(Packet {
        at,
        way,
        // A segment whose flags are cut off is a segment.
        flags: match flags {
            "" if !datagram => "?",
            flags => flags,
        }
        .to_owned(),
        length: length.or_else(numbers).unwrap_or(0.0),
        zero_window: line.contains(" win 0,"),
        sequence: behind("seq").and_then(|w| w.split(':').next()?.parse().ok()),
        // Behind a selective one it says what is missing.
        acknowledged: behind("ack")
            .filter(|_| line.contains("sack "))
            .and_then(|w| w.trim_end_matches(',').parse().ok()),
        said_again: false,
        said_duplicate: false,
    })
}

fn is_dns(way: &Way) -> bool {
    let dns = |address: &str| address.ends_with(".53") || address.ends_with(".domain");
    dns(&way.0) || dns(&way.1)
}

/// `5 17.5206 10.0.0.1 -> 10.0.0.2 TCP 76 54386 -> 80 [SYN] Seq=0 Win=29200 Len=0`. A repetition whose rest is cut off
/// is one of the packet before it, where that went the same way.
fn sharked(line: &str, before: Option<&Packet>) -> Option<Packet> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let arrows: Vec<usize> = (0..words.len())
        .filter(|i| ["→", "->"].contains(&words[*i]))
        .collect();
    let first = *arrows.first().filter(|a| **a >= 2)?;
    let at: f64 = words[first - 2].parse().ok()?;
    let (from, to) = (words[first - 1], *words.get(first + 1)?);
    let number = |name: &str| {
        words
            .iter()
            .find_map(|w| w.strip_prefix(name)?.parse().ok())
    };
    if let (Some(second), Some(&"TCP")) = (arrows.get(1), words.get(first + 2)) {
        let port = |i: usize| words.get(i).filter(|w| w.parse::<u16>().is_ok());
        return Some(Packet {
            at,
            way: (
                format!("{from}.{}", port(second - 1)?),
                format!("{to}.{}", port(second + 1)?),
            ),
            flags: flags_of(line),
            length: number("Len=").unwrap_or(0.0),
            zero_window: number("Win=") == Some(0.0),
            sequence: None,
            acknowledged: None,
            said_again: line.contains("Retransmission]"),
            said_duplicate: line.contains("[TCP Dup ACK"),
        });
    }
    let same = |packet: &&Packet| {
        let (its, theirs) = &packet.way;
        its.starts_with(&format!("{from}.")) && theirs.starts_with(&format!("{to}."))
    };
    let again = before
        .filter(|_| line.contains("Retransmission"))
        .filter(same)?;
    Some(Packet {
        at,
        ..again.clone()
    })
}

/// `[SYN, ACK]` as tcpdump writes it: `S.`.
fn flags_of(line: &str) -> String {
    let names = [
        ("SYN", 'S'),
        ("FIN", 'F'),
        ("RST", 'R'),
        ("PSH", 'P'),
        ("ACK", '.'),
    ];
    let inside = line.split('[').skip(1).filter_map(|p| p.split_once(']'));
    let lists: Vec<Vec<&str>> = inside.map(|(list, _)| list.split(", ").collect()).collect();
    let is_flags = |list: &&Vec<&str>| list.iter().all(|w| names.iter().any(|(n, _)| n == w));
    let Some(list) = lists.iter().find(is_flags) else {
        return "?".to_owned();
    };
    let written = names.iter().filter(|(name, _)| list.contains(name));
    written.map(|(_, letter)| *letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(text: &str, name: &str) -> Option<f64> {
        let lines: Vec<&str> = text.lines().collect();
        read(&lines).and_then(|a| a.value(&format!("packets.{name}")))
    }

    const SHARK: &str = "\
1 0.000 10.0.0.1 → 10.0.0.2 TCP 76 54386 → 80 [SYN] Seq=0 Win=29200 Len=0 MSS=1460
2 1.027 10.0.0.1 → 10.0.0.2 TCP 76 [TCP Retransmission] 54386 → 80 [SYN] Seq=0 Win=29200 Len=0
3 1.028 10.0.0.2 → 10.0.0.1 TCP 76 80 → 54386 [SYN, ACK] Seq=0 Ack=1 Win=0 Len=0
4 1.029 10.0.0.1 → 10.0.0.2 TCP 120 54386 → 80 [PSH, ACK] Seq=1 Ack=1 Win=229 Len=54
5 1.900 10.0.0.2 → 10.0.0.1 TCP 66 80 → 54386 [ACK] Seq=1 Ack=55 Win=0 Len=0
";

    #[test]
    fn packets_of_tshark_are_packets_of_tcpdump() {
        assert_eq!(figure(SHARK, "seen"), Some(5.0));
        assert_eq!(figure(SHARK, "syn_again"), Some(1.0));
        assert_eq!(figure(SHARK, "syn_wait_s"), Some(1.027));
        // The window of the SYN's answer does not count.
        assert_eq!(figure(SHARK, "zero_windows"), Some(1.0));
        assert_eq!(figure(SHARK, "resets"), Some(0.0));
    }

    #[test]
    fn a_datagram_that_says_more_than_is_there_is_cut_short() {
        let text = "09:00:01.000001 IP 192.0.2.1.4500 > 192.0.2.9.5000: UDP, bad length 1452 > 1372\n\
            09:00:01.000090 IP 192.0.2.1.4500 > 192.0.2.9.5000: UDP, length 90\n";
        assert_eq!(figure(text, "seen"), Some(2.0));
        assert_eq!(figure(text, "cut_short"), Some(1.0));
        assert_eq!(figure(text, "cut_said"), Some(1452.0));
        assert_eq!(figure(text, "cut_held"), Some(1372.0));
        let whole = text.replace("bad length 1452 > 1372", "length 1452");
        assert_eq!(figure(&whole, "cut_short"), Some(0.0));
    }

    #[test]
    fn a_repetition_that_is_cut_off_repeats_what_went_the_same_way() {
        let first = SHARK.lines().next().unwrap();
        let again = |from: &str| {
            let cut = format!("2 1.027 {from} → 10.0.0.2 TCP 76 [TCP Retransmission]\n");
            figure(&format!("{first}\n{cut}"), "syn_again")
        };
        assert_eq!(again("10.0.0.1"), Some(1.0));
        assert_eq!(again("10.0.0.9"), Some(0.0));
    }

    #[test]
    fn data_behind_a_late_acknowledgement_was_held_back() {
        let line =
            |at: &str, way: &str, rest: &str| format!("10:00:00.{at} IP {way}: Flags {rest}\n");
        let (there, back) = ("10.0.0.1.80 > 10.0.0.2.9", "10.0.0.2.9 > 10.0.0.1.80");
        let nagle = line("000100", there, "[P.], seq 1:9, win 1, length 8")
            + &line("040200", back, "[.], ack 9, win 1, length 0")
            + &line("040300", there, "[P.], seq 9:17, win 1, length 8");
        assert_eq!(figure(&nagle, "nagle"), Some(1.0));
        let prompt = nagle
            .replace("040200", "000200")
            .replace("040300", "000300");
        assert_eq!(figure(&prompt, "nagle"), Some(0.0));
        // A full segment is held back by a congestion window.
        let full = nagle.replace("9:17, win 1, length 8", "9:1457, win 1, length 1448");
        assert_eq!(figure(&full, "nagle"), Some(0.0));
    }

    #[test]
    fn another_delay_is_one_where_the_way_is_quick() {
        let packets = |first: &str, acked: &str, host: &str| {
            let line = |at: &str, from: &str, to: &str, rest: &str| {
                format!("10:00:00.{at} IP {from} > {to}: Flags {rest}\n")
            };
            let (there, back) = ("10.0.0.1.80".to_owned(), format!("{host}.9"));
            first.to_owned()
                + &line("000100", &there, &back, "[P.], seq 1:9, win 1, length 8")
                + &line(
                    &format!("{acked}200"),
                    &back,
                    &there,
                    "[.], ack 9, win 1, length 0",
                )
                + &line(&format!("{acked}300"), &there, &back, "[P.], seq 9:17, ack")
        };
        let prompt = "10:00:00.000010 IP 10.0.0.1.80 > 10.0.0.2.9: Flags [P.], seq 0:1, win 1, length 1\n\
                      10:00:00.000020 IP 10.0.0.2.9 > 10.0.0.1.80: Flags [.], ack 1, win 1, length 0\n";
        for (first, acked, host, nagle) in [
            ("", "032", "10.0.0.1", 1.0),
            ("", "032", "10.0.0.2", 0.0),
            (prompt, "032", "10.0.0.2", 1.0),
            ("", "200", "10.0.0.2", 0.0),
            (prompt, "200", "10.0.0.2", 1.0),
            (prompt, "100", "10.0.0.2", 0.0),
        ] {
            let text = packets(first, acked, host);
            assert_eq!(figure(&text, "nagle"), Some(nagle), "{text}");
        }
    }
}
