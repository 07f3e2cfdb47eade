//! A copy of Varnish: its command line with other places, and the VCL and parameters that it works with now.
//!
//! What two instances would share stands in the options: addresses, the working directory (`-n`), the management port,
//! files of a storage. The surprise: a copy begins with an empty cache, so it must be warmed before it is measured, and
//! it has no management port, which nobody needs.

use super::copy::{ChangeAction, ConfigChange, Moves, nothing_to_change, refused};
use super::flags::PARAM;
use super::loaded_vcl::{Loaded, loaded};
use super::varnish::{self, Given};
use crate::error::TargetError;
use record::Server;
use std::net::IpAddr;

/// Copies that a proof has at one time, and as much room again.
const ROOM: u64 = 4;

/// Name and text of the file, and the command line.
pub(crate) fn copied(
    server: &Server,
    changes: &[ConfigChange],
    moves: &mut Moves,
) -> Result<(&'static str, String, Vec<String>), TargetError> {
    const NAME: &str = "main.vcl";
    let options = varnish::options(&server.command).map_err(|word| {
        let cause = format!("its option `{word}` is not known");
        refused(
            server,
            &cause,
            "make the change by hand and compare with `prony run`",
        )
    })?;
    can_be_copied(server, &options)?;
    let Loaded { vcl, parameters } = loaded(server, &options, &moves.dir)?;
    let mut given = moved(server, &options, moves)?;
    let is_given = |p: &Given| options.iter().rfind(|o| is_same_parameter(o, p)) == Some(p);
    for parameter in parameters.into_iter().filter(|p| !is_given(p)) {
        given.push(parameter);
    }
    for change in changes {
        if change.context != [PARAM] || !set_parameter(&mut given, change) {
            return Err(nothing_to_change(server, change));
        }
    }
    if vcl.is_some() {
        given.retain(|o| !matches!(o.letter, 'b' | 'f'));
        let file = moves.dir.join(NAME).display().to_string();
        given.push(Given {
            letter: 'f',
            value: file,
        });
    }
    let words = given.iter().flat_map(Given::words);
    let argv = std::iter::once(server.exe.clone()).chain(words).collect();
    Ok((NAME, vcl.unwrap_or_default(), argv))
}

fn can_be_copied(server: &Server, options: &[Given]) -> Result<(), TargetError> {
    for option in options {
        let (cause, remedy) = match option.letter {
            'I' => (
                "it was started with commands of its management port (-I)",
                "load the VCL by -f, and set parameters by -p",
            ),
            'M' => (
                "its management connects to another program (-M)",
                "start it with -T instead",
            ),
            'C' | 'd' | 'V' | 'x' => ("it was not started to serve", "start it with -F"),
            _ => continue,
        };
        return Err(refused(server, cause, remedy));
    }
    Ok(())
}

/// The options with the copy's own places.
fn moved(server: &Server, options: &[Given], moves: &mut Moves) -> Result<Vec<Given>, TargetError> {
    let mut given = vec![Given::new('F', "")];
    let mut listeners: Vec<String> = Vec::new();
    for option in options {
        match option.letter {
            'a' => {
                let listener = listener(&option.value, moves).ok_or_else(|| {
                    let cause = format!("its listener `-a {}` cannot be moved", option.value);
                    refused(server, &cause, "give it as HOST:PORT with a number")
                })?;
                // One address of the copy may stand for several.
                if !listeners.contains(&listener.address) {
                    given.push(Given {
                        letter: 'a',
                        value: listener.written(),
                    });
                    listeners.push(listener.address);
                }
            }
            's' => given.push(Given {
                letter: 's',
                value: storage(server, &option.value, moves)?,
            }),
            // A copy is known by its directory, and managed by nobody.
            'F' | 'n' | 'P' | 'S' | 'T' => {}
            _ => given.push(option.clone()),
        }
    }
    if listeners.is_empty() {
        given.push(Given {
            letter: 'a',
            value: moves.listen.to_string(),
        });
    }
    given.push(Given::new('T', "none"));
    let directory = moves.dir.join("n").display().to_string();
    given.push(Given {
        letter: 'n',
        value: directory,
    });
    Ok(given)
}

/// `name=address,PROXY,user=x`.
struct Listener {
    name: Option<String>,
    address: String,
    rest: Option<String>,
}

impl Listener {
    fn written(&self) -> String {
        let name = self.name.iter().map(|name| format!("{name}="));
        let rest = self.rest.iter().map(|rest| format!(",{rest}"));
        name.chain([self.address.clone()]).chain(rest).collect()
    }
}

/// A listener where the copy has it; `None` where it is not known, or no port is free.
fn listener(value: &str, moves: &mut Moves) -> Option<Listener> {
    let (address, rest) = match value.split_once(',') {
        Some((address, rest)) => (address, Some(rest.to_owned())),
        None => (value, None),
    };
    let (name, address) = match address.split_once('=') {
        Some((name, address)) => (Some(name.to_owned()), address),
        None => (None, address),
    };
    let address = match address.starts_with('/') {
        true => moves.path(address),
        false => {
            let (host, port) = host_and_port(address)?;
            moves.address_of(host, port)?.to_string()
        }
    };
    Some(Listener {
        name,
        address,
        rest,
    })
}

/// An address as varnishd reads it: `host:port`, `:port`, `host`, `[::1]:port`.
fn host_and_port(address: &str) -> Option<(&str, u16)> {
    const HTTP: u16 = 80;
    let is_bare = address.parse::<IpAddr>().is_ok() || address.ends_with(']');
    Some(match address.rsplit_once(':').filter(|_| !is_bare) {
        Some((host, "http")) => (host, HTTP),
        Some((host, port)) => (host, port.parse().ok()?),
        None => (address, HTTP),
    })
}

/// `name=kind,options` with a file of the copy's own.
fn storage(server: &Server, value: &str, moves: &mut Moves) -> Result<String, TargetError> {
    let begins = value.split(',').next().and_then(|kind| kind.find('='));
    let begins = begins.map_or(0, |at| at + 1);
    let (name, spec) = value.split_at(begins);
    let words: Vec<&str> = spec.split(',').collect();
    match words.as_slice() {
        ["default" | "malloc" | "umem", ..] => Ok(value.to_owned()),
        ["file", path, size, rest @ ..] if room_for(size, moves) => {
            let own = moves.path(path);
            moves.notes.push(format!("the storage {path} is at {own}"));
            let words = ["file", &own, size].into_iter().chain(rest.iter().copied());
            Ok(format!("{name}{}", words.collect::<Vec<_>>().join(",")))
        }
        ["file", ..] => {
            let dir = moves.dir.display();
            let cause = format!("{dir} has no room for three copies of its storage `{value}`");
            let remedy = "give it a size (-s file,PATH,SIZE) of which four times are free there";
            Err(refused(server, &cause, remedy))
        }
        _ => {
            let cause =
                format!("its storage `{value}` is not known to be one that a copy may have");
            Err(refused(
                server,
                &cause,
                "start it with -s malloc or -s file",
            ))
        }
    }
}

/// Whether the disk that copies are on has room for files of that size.
fn room_for(size: &str, moves: &Moves) -> bool {
    let Ok(disk) = rustix::fs::statvfs(&moves.dir) else {
        return false;
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    bytes(size).is_some_and(|bytes| bytes.saturating_mul(ROOM) <= free)
}

/// A size as varnishd writes it: `512m`, `1.5G`, `100000`.
fn bytes(size: &str) -> Option<u64> {
    let size = size.trim_end_matches(['b', 'B']);
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match size[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    Some((number * f64::from(1024).powi(power)) as u64)
}

fn is_same_parameter(one: &Given, other: &Given) -> bool {
    let name = |o: &Given| o.parameter().map(|(name, _)| name.to_owned());
    name(one).is_some() && name(one) == name(other)
}

/// `-p name=value`: where it stands last, since that one counts.
fn set_parameter(given: &mut Vec<Given>, change: &ConfigChange) -> bool {
    let [value] = change.args.as_slice() else {
        return false;
    };
    let new = Given::new('p', value);
    if change.name != "-p" || new.parameter().is_none() {
        return false;
    }
    let standing = given.iter().rposition(|o| is_same_parameter(o, &new));
    match (change.action, standing) {
        (ChangeAction::Remove, Some(_)) => given.retain(|o| !is_same_parameter(o, &new)),
        (ChangeAction::Set | ChangeAction::Replace, Some(at)) => given[at] = new,
        (ChangeAction::Set | ChangeAction::Add, _) => given.push(new),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves() -> Moves {
        Moves::sample("/tmp", "127.0.0.1:6081", "127.0.0.1:7")
    }

    #[test]
    fn listeners_of_all_forms_are_moved() {
        for (value, want) in [
            (":6081", "127.0.0.1:7"),
            ("127.0.0.1:6081", "127.0.0.1:7"),
            ("localhost:6081", "127.0.0.1:7"),
            ("0.0.0.0:6081", "127.0.0.1:7"),
            ("a=:6081,PROXY", "a=127.0.0.1:7,PROXY"),
            ("[::]:6081", "127.0.0.1:7"),
            (
                "u=/run/v.sock,HTTP,mode=666",
                "u=/tmp/run_v.sock,HTTP,mode=666",
            ),
        ] {
            let got = listener(value, &mut moves()).map(|l| l.written());
            assert_eq!(got.as_deref(), Some(want), "{value}");
        }
        for other in [":a", "@x:y", "no-such-host.invalid:80"] {
            assert!(listener(other, &mut moves()).is_none(), "{other}");
        }
        // Other ports go to free ones.
        let moved = listener("127.0.0.1", &mut moves()).unwrap().address;
        assert!(
            !["127.0.0.1:7", "127.0.0.1:80"].contains(&moved.as_str()),
            "{moved}"
        );
    }

    #[test]
    fn storages_get_files_of_their_own() {
        let server = Server::default();
        let got = |value: &str| storage(&server, value, &mut moves()).map_err(|e| e.to_string());
        for value in ["malloc,256m", "Transient=malloc,1m", "default"] {
            assert_eq!(got(value).as_deref(), Ok(value));
        }
        assert_eq!(
            got("a=file,/var/v.bin,64k,4k").as_deref(),
            Ok("a=file,/tmp/var_v.bin,64k,4k")
        );
        for (value, cause) in [
            ("file,/var/v.bin", "no room"),
            ("file,/var/v.bin,900000T", "no room"),
            ("file,/var/v.bin,50%", "no room"),
            ("deprecated_persistent,/x,1g", "not known"),
        ] {
            let error = got(value).unwrap_err();
            assert!(error.contains(cause), "{value}: {error}");
        }
    }

    #[test]
    fn sizes_as_varnishd_writes_them() {
        for (size, want) in [
            ("100", Some(100)),
            ("1.5k", Some(1536)),
            ("2MB", Some(2 << 20)),
            ("1x", None),
            ("", None),
        ] {
            assert_eq!(bytes(size), want, "{size}");
        }
    }

    #[test]
    fn the_last_of_several_parameters_is_changed() {
        let change = |action, value: &str| ConfigChange {
            action,
            context: vec![PARAM.to_owned()],
            name: "-p".to_owned(),
            args: vec![value.to_owned()],
            from: Vec::new(),
        };
        let after = |action, value: &str| {
            let mut given = ["a=1", "b=2", "a=3"].map(|p| Given::new('p', p)).to_vec();
            let made = set_parameter(&mut given, &change(action, value));
            let words: Vec<String> = given.into_iter().map(|o| o.value).collect();
            made.then(|| words.join(" "))
        };
        use ChangeAction::{Remove, Replace, Set};
        for (action, value, want) in [
            (Set, "a=9", Some("a=1 b=2 a=9")),
            (Set, "c=9", Some("a=1 b=2 a=3 c=9")),
            (Replace, "c=9", None),
            (Remove, "a=3", Some("b=2")),
            (Remove, "c=3", None),
            (Set, "a", None),
        ] {
            assert_eq!(after(action, value).as_deref(), want, "{value}");
        }
    }
}
