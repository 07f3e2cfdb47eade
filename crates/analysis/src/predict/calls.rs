//! How much of a target's CPU time stays when a request makes fewer calls: the account of its calls.
//!
//! ```text
//! data calls     a message needs one call, and one more for every 64 KiB (a record of TLS holds 16 KiB)
//! connections    what is called once for each of them goes: accept, close, options, the read that finds the end
//! ```
//! Time follows the calls: sends by their share of the profile, other calls by theirs, and what the program does beside
//! calls by their number. Of connections the kernel's own work for them and TLS handshakes have rows in the profile:
//! they go, and of the rest what belongs to the calls. The surprise: it is taken off per call and not per row. A row of
//! `send` alone would leave the program's own work around each call standing, and that goes too.

use crate::diagnosis::FactSet;

/// What one call moves at most where buffers are large.
const PER_CALL_BYTES: f64 = 65_536.0;
/// What a record of TLS holds at most (RFC 8446 5.1).
const PER_RECORD_BYTES: f64 = 16_384.0;
/// Fewer calls of a kind than this are noise.
const FEW: f64 = 0.02;

/// Which calls there are fewer of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fewer {
    /// Reads and writes: the same bytes in larger pieces.
    Data,
    /// Everything that belongs to a connection of this class.
    Connections(&'static str),
}

impl Fewer {
    /// By the signal that a proof of the change watches; `None` where it counts no such calls.
    pub(crate) fn of(mechanism: &str) -> Option<Self> {
        let (class, what) = (
            mechanism.split('.').nth(1)?,
            mechanism.split('.').next_back()?,
        );
        match (mechanism.split('.').next()?, what) {
            ("read" | "write", "useful_per_request" | "per_request") => Some(Fewer::Data),
            ("client", _) if class == "connects_per_request" => Some(Fewer::Connections("client")),
            ("upstream", _) if class == "connects_per_request" || class == "http10_share" => {
                Some(Fewer::Connections("upstream"))
            }
            _ => None,
        }
    }
}

/// A kind of calls of a target.
struct Call<'a> {
    class: &'a str,
    name: &'a str,
    per_request: f64,
}

impl Call<'_> {
    fn is_read(&self) -> bool {
        let reads = ["read", "readv", "pread64", "preadv", "recvfrom", "recvmsg"];
        reads.contains(&self.name)
    }

    fn is_write(&self) -> bool {
        let writes = [
            "write", "writev", "pwrite64", "sendto", "sendmsg", "sendfile", "splice",
        ];
        writes.contains(&self.name)
    }

    /// It hands bytes to a socket.
    fn is_send(&self) -> bool {
        self.is_write() && matches!(self.class, "client" | "upstream" | "unix")
    }

    /// It waits for work, or wakes who does: as often as there is something else to do.
    fn follows(&self) -> bool {
        let names = [
            "epoll_wait",
            "epoll_pwait",
            "poll",
            "ppoll",
            "select",
            "pselect6",
            "futex",
        ];
        names.contains(&self.name)
    }

    /// How often it is called for each connection; 0 where that is not what it is for.
    fn per_connection(&self) -> f64 {
        if self.class == "file" {
            return 0.0;
        }
        match self.name {
            "accept" | "accept4" | "close" | "shutdown" | "socket" | "connect" | "bind"
            | "setsockopt" | "getsockopt" | "getsockname" | "getpeername" | "ioctl" => 1.0,
            "epoll_ctl" | "fcntl" => 2.0,
            _ => 0.0,
        }
    }
}

/// The share of a target's CPU time that stays; `None` where its calls were not counted.
pub(crate) fn stays(facts: &FactSet, target: &str, fewer: Fewer) -> Option<f64> {
    let calls = calls(facts, target);
    let all: f64 = calls.iter().map(|c| c.per_request).sum();
    if all <= 0.0 {
        return None;
    }
    let left: Vec<f64> = left(facts, target, &calls, fewer);
    let part = |chosen: &dyn Fn(&Call<'_>) -> bool| {
        let of = calls.iter().zip(&left).filter(|(c, _)| chosen(c));
        let (before, after) = of.fold((0.0, 0.0), |(b, a), (c, l)| (b + c.per_request, a + l));
        (before > 0.0).then(|| after / before)
    };
    let whole = part(&|_| true)?;
    let view = facts.view(target);
    let known = |kind: &str| view.value(&format!("profile.{kind}_share"));
    if let Fewer::Connections(side) = fewer {
        let opened = opened(facts, target, side);
        let of = |kind: &str| known(kind).unwrap_or(0.0);
        // What libraries without names do outside of sending and receiving is the handshakes' work.
        let handshakes = of("tls_handshake").max(of("tls") - of("tls_io"));
        let started = view.value("thread_start.per_request").unwrap_or(0.0);
        let threads = of("spawn") * started.min(1.0);
        let rows = of("connection") + of("connect") + handshakes + threads;
        return Some(whole * (1.0 - (rows * opened.ceil()).min(1.0)));
    }
    let Some((sends, calling)) = known("net_send").zip(known("syscall")) else {
        return Some(whole);
    };
    let sends = sends.min(calling);
    let of_sends = part(&|c| c.is_send()).unwrap_or(1.0);
    let of_others = part(&|c| !c.is_send()).unwrap_or(1.0);
    Some(sends * of_sends + (calling - sends) * of_others + (1.0 - calling) * whole)
}

/// Connections for each request, at most one.
fn opened(facts: &FactSet, target: &str, side: &str) -> f64 {
    let name = format!("{side}.connects_per_request");
    facts
        .view(target)
        .value(&name)
        .unwrap_or(0.0)
        .clamp(0.0, 1.0)
}

fn calls<'a>(facts: &'a FactSet, target: &'a str) -> Vec<Call<'a>> {
    let named = facts
        .beginning(target, "call.")
        .filter_map(|(name, per_request)| {
            let mut parts = name.split('.');
            let (class, name) = (parts.next()?, parts.next()?);
            let counted = parts.next() == Some("per_request") && parts.next().is_none();
            (counted && class != "any" && per_request >= FEW).then_some(Call {
                class,
                name,
                per_request,
            })
        });
    named.collect()
}

/// How many of each are left.
fn left(facts: &FactSet, target: &str, calls: &[Call<'_>], fewer: Fewer) -> Vec<f64> {
    let view = facts.view(target);
    let value = |name: &str| view.value(name).unwrap_or(0.0);
    let mut left: Vec<f64> = match fewer {
        Fewer::Data => {
            let tls = value("client.tls") >= 1.0;
            let turns = |class: &str| match class {
                "upstream" => value("upstream.requests_per_request").max(1.0),
                _ => 1.0,
            };
            let of = |c: &Call<'_>| {
                let side = if c.is_read() { "read" } else { "write" };
                let bytes = match c.name {
                    "sendfile" => value("sendfile.mean_bytes") * c.per_request,
                    _ => value(&format!("{side}.{}.bytes_per_request", c.class)),
                };
                let piece = match tls && c.class == "client" {
                    true => PER_RECORD_BYTES,
                    false => PER_CALL_BYTES,
                };
                match c.is_read() || c.is_write() {
                    true => c.per_request.min(turns(c.class) + bytes / piece),
                    false => c.per_request,
                }
            };
            calls.iter().map(of).collect()
        }
        Fewer::Connections(side) => {
            let opened = opened(facts, target, side);
            // A name is called once for a connection, whatever its descriptor was known as by then.
            let named = |name: &str| -> f64 {
                let same = calls.iter().filter(|c| c.name == name && c.class != "file");
                same.map(|c| c.per_request).sum()
            };
            let of = |c: &Call<'_>| {
                let goes = (c.per_connection() * opened).min(named(c.name));
                let share = goes / named(c.name).max(c.per_request);
                let reads = c.is_read() && c.class == side;
                let useful = value(&format!("read.{side}.useful_per_request")).max(1.0);
                match reads {
                    // The read that finds nothing, or the end.
                    true => c.per_request.min(useful),
                    false => c.per_request * (1.0 - share),
                }
            };
            calls.iter().map(of).collect()
        }
    };
    let work = |c: &&Call<'_>| !c.follows();
    let before: f64 = calls.iter().filter(work).map(|c| c.per_request).sum();
    let after: f64 = (calls.iter().zip(&left))
        .filter(|(c, _)| work(c))
        .map(|(_, l)| l)
        .sum();
    if before > 0.0 {
        for (call, left) in calls.iter().zip(&mut left) {
            if call.follows() {
                *left = call.per_request * (after / before).min(1.0);
            }
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(calls: &[(&str, f64)]) -> FactSet {
        let mut facts = FactSet::default();
        for (call, n) in calls {
            facts.known("web", &format!("call.{call}.per_request"), *n, "probe");
        }
        facts
    }

    #[test]
    fn what_belongs_to_a_connection_goes_with_it() {
        let mut facts = counted(&[
            ("listener.accept4", 1.0),
            ("client.close", 1.0),
            ("client.recvfrom", 2.0),
            ("client.writev", 1.0),
            ("poll.epoll_ctl", 1.0),
            ("poll.epoll_wait", 2.0),
            ("file.close", 1.0),
            ("any.close", 2.0),
        ]);
        facts.known("web", "client.connects_per_request", 1.0, "load");
        facts.known("web", "read.client.useful_per_request", 1.0, "probe");
        // recvfrom, writev and the file's close stay, and 3 of 7 of the waits.
        let stays = stays(&facts, "web", Fewer::Connections("client")).unwrap();
        assert!(
            (stays - (3.0 + 2.0 * 3.0 / 7.0) / 9.0).abs() < 1e-9,
            "{stays}"
        );
        // Without connections there is nothing to take.
        facts.known("web", "client.connects_per_request", 0.0, "load");
        facts.known("web", "read.client.useful_per_request", 2.0, "probe");
        let none = super::stays(&facts, "web", Fewer::Connections("client")).unwrap();
        assert!((none - 1.0).abs() < 1e-9, "{none}");
        // A quarter of the profile is the kernel's work for connections: that goes, and of the rest what calls tell.
        facts.known("web", "client.connects_per_request", 1.0, "load");
        facts.known("web", "read.client.useful_per_request", 1.0, "probe");
        facts.known("web", "profile.connection_share", 0.25, "profile");
        let with_row = super::stays(&facts, "web", Fewer::Connections("client")).unwrap();
        assert!((with_row - 0.75 * stays).abs() < 1e-9, "{with_row}");
    }

    #[test]
    fn the_same_bytes_take_fewer_calls() {
        let mut facts = counted(&[("client.writev", 100.0), ("client.recvfrom", 1.0)]);
        facts.known("web", "write.client.bytes_per_request", 65_536.0, "probe");
        let by_number = stays(&facts, "web", Fewer::Data).unwrap();
        assert!((by_number - 3.0 / 101.0).abs() < 1e-9, "{by_number}");
        // With a profile: 80 % in sends, 10 % in other calls, 10 % beside them.
        facts.known("web", "profile.net_send_share", 0.8, "profile");
        facts.known("web", "profile.syscall_share", 0.9, "profile");
        let by_time = stays(&facts, "web", Fewer::Data).unwrap();
        let expected = 0.8 * 0.02 + 0.1 + 0.1 * 3.0 / 101.0;
        assert!((by_time - expected).abs() < 1e-9, "{by_time}");
        // Records of TLS end earlier.
        facts.known("web", "client.tls", 1.0, "load");
        assert!(stays(&facts, "web", Fewer::Data).unwrap() > by_time);
        assert_eq!(stays(&FactSet::default(), "web", Fewer::Data), None);
    }

    #[test]
    fn signals_tell_which_calls() {
        let of = Fewer::of;
        assert_eq!(of("read.upstream.useful_per_request"), Some(Fewer::Data));
        assert_eq!(
            of("client.connects_per_request"),
            Some(Fewer::Connections("client"))
        );
        assert_eq!(
            of("upstream.http10_share"),
            Some(Fewer::Connections("upstream"))
        );
        assert_eq!(of("profile.regex_share"), None);
        assert_eq!(of("read.file.bytes_per_request"), None);
    }
}
