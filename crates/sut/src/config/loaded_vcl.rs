//! The VCL and the parameters that a running Varnish works with: asked by `varnishadm`, as the server's user.
//!
//! Files and command line say what it was started with. VCL is loaded and parameters are set while it runs (Debian's
//! `systemctl reload varnish` loads VCL), and only its management process knows. The surprise: a Varnish without a
//! management port (`-T none`) cannot be changed at all, and its command line is the truth.

use super::ask::{Question, Unanswered};
use super::copy::refused;
use super::copy_process::environment;
use super::varnish::{self, Given};
use super::vcl;
use crate::error::TargetError;
use crate::likeness::Conditions;
use record::Server;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What is at work.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// VCL, its own includes by whole paths; `None` where the command line has all that there is (`-b`).
    pub vcl: Option<String>,
    /// Parameters that are not at their default, as `-p` takes them.
    pub parameters: Vec<Given>,
}

/// What is at work in a server with these options.
///
/// # Errors
/// [`TargetError`] where it cannot be had, or not from files as they are today.
pub(crate) fn loaded(
    server: &Server,
    options: &[Given],
    dir: &Path,
) -> Result<Loaded, TargetError> {
    let is_closed = |o: &Given| o.letter == 'T' && o.value == "none";
    if options.iter().any(is_closed) {
        return Ok(Loaded {
            vcl: as_started(server)?,
            parameters: Vec::new(),
        });
    }
    let management = Management::of(server, dir)?;
    let name = active(&management.say("vcl.list")?).map_err(|cause| {
        let remedy = "load one VCL that serves all, then prove; or make the change by hand and compare with `prony run`";
        refused(server, &cause, remedy)
    })?;
    let shown = management.say(&format!("vcl.show -v {name}"))?;
    let files =
        sections(&shown).ok_or_else(|| management.refused("shows its VCL in no known form"))?;
    Ok(Loaded {
        vcl: Some(whole(server, &files)?),
        parameters: parameters(&management.say("param.show changed")?),
    })
}

/// The VCL that the command line names.
fn as_started(server: &Server) -> Result<Option<String>, TargetError> {
    let files = varnish::vcl_files(&server.command);
    let Some(path) = files.last() else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(path).map_err(|e| TargetError::file("reading", path, &e))?;
    Ok(Some(at_home(&text, path)))
}

fn at_home(text: &str, path: &Path) -> String {
    let dir = path.parent().unwrap_or(Path::new("/"));
    vcl::with_whole_includes(text, dir)
}

/// The name of the VCL that serves.
fn active(list: &str) -> Result<String, String> {
    let mut found = None;
    for line in list.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // `auto/warm` is one word in old versions: the name comes behind the number of its users.
        let is_number = |w: &&str| w.chars().all(|c| c.is_ascii_digit());
        let name = words
            .iter()
            .position(is_number)
            .and_then(|at| words.get(at + 1));
        match (words.first(), name) {
            _ if words.iter().skip(1).take(2).any(|w| w.starts_with("label")) => {
                return Err("its VCL calls others by labels".to_owned());
            }
            (Some(&"active"), Some(name)) => found = Some((*name).to_owned()),
            _ => {}
        }
    }
    found.ok_or_else(|| "no VCL is active in it".to_owned())
}

/// A file of a VCL as it was loaded.
#[derive(Debug, PartialEq, Eq)]
struct Section<'a> {
    /// A path, or what it comes from in angle brackets.
    name: &'a str,
    text: &'a str,
}

/// What `vcl.show -v` shows: each file behind a line with its length and name.
fn sections(shown: &str) -> Option<Vec<Section<'_>>> {
    const HEAD: &str = "// VCL.SHOW ";
    let mut found = Vec::new();
    let mut rest = shown.trim_start();
    while let Some(head) = rest.strip_prefix(HEAD) {
        let (head, behind) = head.split_once('\n')?;
        let mut words = head.splitn(3, ' ');
        let _number = words.next()?;
        let length: usize = words.next()?.parse().ok()?;
        let name = words.next()?;
        found.push(Section {
            name,
            text: behind.get(..length)?,
        });
        rest = behind.get(length..)?.trim_start();
    }
    (rest.is_empty() && !found.is_empty()).then_some(found)
}

/// The first file, whose includes a copy reads anew: they must be what was loaded.
fn whole(server: &Server, files: &[Section<'_>]) -> Result<String, TargetError> {
    let is_path = |s: &&Section<'_>| s.name.starts_with('/');
    let includes = files.iter().skip(1).filter(is_path);
    let differs = |s: &Section<'_>| std::fs::read_to_string(s.name).ok().as_deref() != Some(s.text);
    let mut other = includes.filter(|s| differs(s));
    if let Some(section) = other.next() {
        let cause = format!("{} is not what it has loaded", section.name);
        let remedy = "load the VCL anew (systemctl reload varnish), so that a copy reads the same";
        return Err(refused(server, &cause, remedy));
    }
    let main = &files[0];
    Ok(match main.name.starts_with('/') {
        true => at_home(main.text, Path::new(main.name)),
        false => main.text.to_owned(),
    })
}

/// `thread_pool_min   10 [threads]`, one a line.
fn parameters(shown: &str) -> Vec<Given> {
    let parameter = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        let value = value.trim();
        let unit = value.rfind(" [").filter(|_| value.ends_with(']'));
        let value = &value[..unit.unwrap_or(value.len())];
        let is_name = !name.is_empty() && !value.is_empty();
        is_name.then(|| Given::new('p', &format!("{name}={value}")))
    };
    shown.lines().filter_map(parameter).collect()
}

/// The management process, spoken to by `varnishadm`.
struct Management<'a> {
    server: &'a Server,
    program: PathBuf,
    user: (u32, u32),
    /// Its working directory, by which it is found (`-n`).
    name: String,
    dir: &'a Path,
}

impl<'a> Management<'a> {
    fn of(server: &'a Server, dir: &'a Path) -> Result<Self, TargetError> {
        let conditions = Conditions::of(server.main_pid);
        let conditions =
            conditions.ok_or_else(|| refused(server, "it has ended", "start it again"))?;
        let program = beside(Path::new(&server.exe)).ok_or_else(|| {
            let cause =
                "varnishadm, which tells the VCL that it has loaded, is not installed beside it";
            refused(server, cause, "install it, or start varnishd with -T none")
        })?;
        Ok(Self {
            server,
            program,
            // It goes about as another user, and is root's all the same.
            user: (conditions.users[0], conditions.groups[0]),
            name: super::working_directory(server.main_pid),
            dir,
        })
    }

    fn say(&self, words: &str) -> Result<String, TargetError> {
        let program = self.program.display().to_string();
        let mut args = vec!["-n", self.name.as_str()];
        args.extend(words.split(' '));
        let question = Question {
            program: &program,
            args: &args,
            user: self.user,
            env: &environment(self.server.main_pid),
            directory: Path::new("/"),
            dir: self.dir,
        };
        question.ask(Stdio::null()).map_err(|why| match why {
            Unanswered::Cause(cause) => self.refused(&cause),
            Unanswered::Failed(errors) => {
                // It prints a dot for each second that it waits.
                let said = errors.lines().map(|l| l.trim_matches('.').trim());
                let said = said.filter(|l| !l.is_empty()).collect::<Vec<_>>().join(" ");
                self.refused(&format!("fails: {said}"))
            }
            Unanswered::File(error) => error,
        })
    }

    fn refused(&self, cause: &str) -> TargetError {
        let asked = format!("{} -n {}", self.program.display(), self.name);
        let cause = format!("`{asked}`, which tells the VCL that it has loaded, {cause}");
        let remedy = format!(
            "see that `{asked} vcl.list` works as user {}: it needs the management port and its secret file (-T, -S)",
            self.user.0
        );
        refused(self.server, &cause, &remedy)
    }
}

/// `varnishadm` of the same installation, that nobody else may write.
fn beside(exe: &Path) -> Option<PathBuf> {
    let dir = exe.parent()?;
    let prefix = dir.parent().unwrap_or(dir);
    let candidates = [dir.join("varnishadm"), prefix.join("bin/varnishadm")];
    let is_fit = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.mode() & 0o022 == 0)
    };
    candidates.into_iter().find(is_fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_active_vcl_among_all() {
        for (list, want) in [
            ("active   auto    warm         1    boot\n\n", Ok("boot")),
            (
                "available auto/warm 0 boot\nactive auto/warm 3 r_1\n",
                Ok("r_1"),
            ),
            (
                "active auto warm 0 boot <- (1 label)\navailable label warm 0 l -> boot\n",
                Err("labels"),
            ),
            ("available auto cold 0 boot\n", Err("no VCL is active")),
            ("", Err("no VCL is active")),
        ] {
            match (active(list), want) {
                (Ok(name), Ok(want)) => assert_eq!(name, want),
                (Err(cause), Err(part)) => assert!(cause.contains(part), "{cause}"),
                (got, want) => panic!("{got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn files_of_a_vcl_are_told_apart_by_their_lengths() {
        let shown = "// VCL.SHOW 0 9 /etc/v a.vcl\nvcl 4.1;\n\n// VCL.SHOW 1 24 <builtin>\n// VCL.SHOW 9 9 nothing\n\n";
        let found = sections(shown).unwrap();
        let want = [
            ("/etc/v a.vcl", "vcl 4.1;\n"),
            ("<builtin>", "// VCL.SHOW 9 9 nothing\n"),
        ];
        assert_eq!(found, want.map(|(name, text)| Section { name, text }));
        for other in [
            "",
            "no VCL",
            "// VCL.SHOW 0 99 /x\nvcl",
            "// VCL.SHOW 0 x /x\nvcl",
        ] {
            assert_eq!(sections(other), None, "{other}");
        }
    }

    #[test]
    fn parameters_without_their_units() {
        let shown = "feature                       +http2,+validate_headers\nfetch_chunksize               64k [bytes]\n\n";
        let want = ["feature=+http2,+validate_headers", "fetch_chunksize=64k"];
        assert_eq!(parameters(shown), want.map(|p| Given::new('p', p)));
    }
}
