//! What carries the messages: a command line that starts `prony agent` somewhere and joins its streams to ours. `ssh`
//! is one, and so are `sudo`, `ip netns exec`, `podman exec -i`.

use crate::frame::FrameError;
use crate::link::{Came, Heard, Voice, listen};
use crate::message::{Hello, Message, Right, Side};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From the start of a carrier to the agent's first word.
pub(crate) const FIRST_WORD: Duration = Duration::from_secs(20);
/// A carrier that was told the end is waited for so long before it is killed.
const ENDING: Duration = Duration::from_secs(5);
/// sshd drops connections by chance while many are being made (`MaxStartups`).
const TRIES: u32 = 3;
/// What a child that has ended still had to say is waited for so long.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// What a carrier prints on standard error is kept up to here.
const WORDS_MAX: usize = 4_096;
/// What the other side prints when it has no agent of this build, before its system and its processor.
const ABSENT: &str = "prony-agent absent ";

/// Options that a carrier of ours needs: no question to a person, an end when the way is cut, nothing shared.
const SSH: [&str; 13] = [
    "ssh",
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=2",
    "-o",
    "ServerAliveCountMax=3",
    "-o",
    "ControlMaster=no",
    "-oCompression=no",
];

/// A host on which an agent can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Under which results show it.
    pub name: String,
    /// How to get there.
    pub way: Way,
    /// prony on that host; `None` puts a copy of this program there, below the user's cache directory.
    pub binary: Option<String>,
    /// The agent runs as root, by `sudo -n`.
    pub sudo: bool,
    /// Load threads on that host; `None` for as many as on any other.
    pub threads: Option<u32>,
}

/// How to get to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// `ssh DESTINATION`, with the person's own configuration.
    Ssh(String),
    /// A command that runs what is appended to it, with its streams joined to ours.
    Via(Vec<String>),
}

impl Host {
    /// Through `ssh`, to a destination that is also its name.
    pub fn ssh(destination: &str) -> Self {
        Self {
            name: destination.to_owned(),
            way: Way::Ssh(destination.to_owned()),
            binary: None,
            sudo: false,
            threads: None,
        }
    }

    /// The command that runs a script of the Bourne shell there; a login shell of any kind may read it first.
    fn script(&self, script: &str) -> Command {
        let argv = match &self.way {
            Way::Ssh(destination) => {
                let mut argv = SSH.map(str::to_owned).to_vec();
                argv.extend(["--".to_owned(), destination.clone()]);
                argv.push(format!("exec sh -c {}", quoted(script)));
                argv
            }
            Way::Via(via) => {
                let shell = ["sh", "-c", script].map(str::to_owned);
                via.iter().cloned().chain(shell).collect()
            }
        };
        command(&argv)
    }

    /// The command that starts an agent that allows this.
    fn agent(&self, build: &str, rights: &[Right]) -> Command {
        match rights {
            // What it does unasked.
            [Right::Load] => self.prony(build, "agent"),
            rights => {
                let rights: Vec<&str> = rights.iter().map(|right| right.name()).collect();
                self.prony(build, &format!("agent --allow {}", rights.join(",")))
            }
        }
    }

    /// The command that starts a prony of this build with these words of the shell.
    fn prony(&self, build: &str, words: &str) -> Command {
        let sudo = if self.sudo { "sudo -n " } else { "" };
        match &self.binary {
            Some(binary) => self.script(&format!("exec {sudo}{} {words}", quoted(binary))),
            None => self.script(&format!(
                "{}; if [ -x \"$d/prony\" ]; then exec {sudo}\"$d/prony\" {words}; fi; \
                 echo \"{ABSENT}$(uname -s) $(uname -m)\"",
                directory(build)
            )),
        }
    }

    /// Starts prony there with these arguments, on a host that an agent of `own` build was reached on: its standard
    /// input and output are ours to speak through, its standard error is that of this process.
    ///
    /// # Errors
    /// When the carrier cannot be started.
    pub fn start(&self, own: &Program, arguments: &[String]) -> io::Result<Child> {
        let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
        self.prony(&own.build, &words.join(" "))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is told in words: what was measured until then is still to come.
            .process_group(0)
            .spawn()
    }

    /// What a person types to try the way.
    fn by_hand(&self) -> String {
        match &self.way {
            Way::Ssh(destination) => format!("ssh -o BatchMode=yes {destination} true"),
            Way::Via(via) => format!("{} true", via.join(" ")),
        }
    }
}

fn command(argv: &[String]) -> Command {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]);
    command
}

/// One word of the Bourne shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Where a copy of a build lies.
fn directory(build: &str) -> String {
    format!("d=\"${{XDG_CACHE_HOME:-$HOME/.cache}}/prony/{build}\"")
}

/// Why no agent could be had on a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reaching host {host}: {what}")]
pub struct HostError {
    pub host: String,
    pub what: String,
    pub remedy: String,
}

/// A program that can be sent, and what it is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// Of the file; see [`Hello::build`].
    pub build: String,
}

/// A conversation with an agent.
pub(crate) struct Link {
    pub voice: Voice,
    pub heard: Heard,
    pub came: mpsc::Receiver<Came>,
    carrier: Option<Carrier>,
}

/// The other end is gone, or a person there wants the end.
fn is_end(came: &Came) -> bool {
    !matches!(&came.1, Ok(Some(message)) if *message != Message::Interrupt)
}

/// The child that carries it.
pub(crate) struct Carrier {
    child: Child,
    words: Words,
}

/// The last of what a child printed, and the thread that reads it.
struct Words {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Link {
    /// Over two streams, without a carrier of ours. `on_end` is called when the other end is gone, or
    /// says that a person wants the end.
    ///
    /// # Errors
    /// Of the streams.
    pub fn over(
        name: &str,
        from: impl Read + Send + 'static,
        to: Box<dyn Write + Send>,
        on_end: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, came) = mpsc::channel();
        let heard = listen(name, Side::Agent, from, move |one| {
            if is_end(&one) {
                on_end();
            }
            sender.send(one).is_ok()
        })?;
        let voice = match Voice::begin(to) {
            // Nobody hears us any more: what it said, and why it ended, comes the other way.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Voice::closed(),
            begun => begun?,
        };
        Ok(Self {
            voice,
            heard,
            came,
            carrier: None,
        })
    }

    fn start(name: &str, command: Command) -> io::Result<Self> {
        let (carrier, from, to) = Carrier::start(command)?;
        match Self::over(name, from, Box::new(to), || ()) {
            Ok(mut link) => {
                link.carrier = Some(carrier);
                Ok(link)
            }
            Err(e) => Err(io::Error::new(e.kind(), carrier.end(Some(e.to_string())))),
        }
    }

    /// What the carrier last said on standard error.
    fn words(&self) -> String {
        self.carrier
            .as_ref()
            .map_or_else(String::new, |carrier| carrier.words.so_far())
    }

    /// Ends the conversation: farewell if there is somebody to hear it, and then the carrier.
    pub fn end(&mut self) {
        // A dead stream needs no farewell.
        let _ = self.voice.end();
        if let Some(carrier) = self.carrier.take() {
            carrier.end(None);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end();
    }
}

impl Carrier {
    /// Starts the command; it, what it says, and what it hears.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for the conductor: a carrier that it ended could not say what came of the load.
            .process_group(0)
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(to), Some(from), Some(error)) = pipes else {
            unreachable!("all three were asked for");
        };
        let words = Words::of(error);
        Ok((Self { child, words }, from, to))
    }

    /// Waits for its end, which a closed stream brings about, and helps when it does not; its last words, or others.
    pub fn end(mut self, otherwise: Option<String>) -> String {
        let since = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if since.elapsed() > ENDING {
                // It may have ended in this moment.
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        match self.words.last() {
            words if words.is_empty() => otherwise.unwrap_or_default(),
            words => words,
        }
    }
}

impl Words {
    /// Reads `from` in a thread of its own. Without a thread there are no words, and no harm.
    fn of(mut from: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&text);
        let read = move || {
            let mut part = [0; 1_024];
            while let Ok(n @ 1..) = from.read(&mut part) {
                let mut words = kept.lock().unwrap_or_else(PoisonError::into_inner);
                words.push_str(&String::from_utf8_lossy(&part[..n]));
                let surplus = words.len().saturating_sub(WORDS_MAX);
                let cut = words.ceil_char_boundary(surplus);
                words.drain(..cut);
            }
        };
        let reader = std::thread::Builder::new()
            .name("words".to_owned())
            .spawn(read);
        Self {
            text,
            reader: reader.ok(),
        }
    }

    fn so_far(&self) -> String {
        let words = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        words.trim().to_owned()
    }

    /// All of a child that has ended; what it started may hold the stream open, and is not waited for.
    fn last(self) -> String {
        let since = Instant::now();
        let reads = |reader: &JoinHandle<()>| !reader.is_finished();
        while self.reader.as_ref().is_some_and(reads) && since.elapsed() < LAST_WORDS {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.so_far()
    }
}

/// Starts an agent of `own` build on a host, after a copy of the program was put there if need be. It is asked to allow
/// `rights`; what it does allow it says itself.
pub(crate) fn reach(
    host: &Host,
    own: &Program,
    rights: &[Right],
) -> Result<(Link, Hello), HostError> {
    let refused = |what: String, remedy: String| HostError {
        host: host.name.clone(),
        what,
        remedy,
    };
    let mut tries = 0;
    let mut is_sent = false;
    loop {
        tries += 1;
        let link = Link::start(&host.name, host.agent(&own.build, rights));
        let link =
            link.map_err(|e| refused(e.to_string(), format!("try by hand: {}", host.by_hand())))?;
        let first = link.came.recv_timeout(FIRST_WORD);
        match first {
            Ok((_, Ok(Some(Message::Hello(hello))))) => {
                let remedy = "install the same on both, or leave `binary` out, so that this one is copied there";
                return check(&host.name, own, &hello, remedy).map(|()| (link, hello));
            }
            Ok((_, Err(FrameError::NoMagic(said)))) => {
                if let Some((_, machine)) = said.split_once(ABSENT)
                    && !is_sent
                {
                    drop(link);
                    send(host, own, machine.trim())?;
                    is_sent = true;
                    continue;
                }
                let words = last_words(link, &said);
                if tries < TRIES && is_dropped(&words) {
                    std::thread::sleep(Duration::from_millis(300) * tries);
                    continue;
                }
                return Err(refused(words, remedy(host)));
            }
            Ok((_, Ok(other))) => {
                return Err(refused(
                    format!("it did not say who it is first, but {other:?}"),
                    remedy(host),
                ));
            }
            Ok((_, Err(error))) => return Err(refused(error.to_string(), remedy(host))),
            Err(_) => {
                let words = link.words();
                let silent = format!("no word in {} s {words}", FIRST_WORD.as_secs());
                return Err(refused(silent.trim().to_owned(), remedy(host)));
            }
        }
    }
}

fn remedy(host: &Host) -> String {
    let by_hand = host.by_hand();
    match (&host.way, &host.binary) {
        (Way::Ssh(_), None) => format!("try by hand, it must need no answer: {by_hand}"),
        (_, Some(binary)) => format!("see that {binary} is there, and try by hand: {by_hand}"),
        (Way::Via(_), None) => format!("try by hand: {by_hand}"),
    }
}

/// What a carrier that brought no agent said of it.
fn last_words(mut link: Link, said: &str) -> String {
    let said = said.trim().to_owned();
    match link.carrier.take() {
        Some(carrier) => carrier.end(Some(if said.is_empty() {
            "it ended without a word".to_owned()
        } else {
            format!("it said: {said}")
        })),
        None => said,
    }
}

/// sshd, or a bastion before it, had too many connections in the making.
fn is_dropped(words: &str) -> bool {
    [
        "kex_exchange_identification",
        "Connection closed by",
        "Connection reset by",
    ]
    .iter()
    .any(|known| words.contains(known))
}

/// The agent is of the same build, or it would count and name things otherwise.
pub(crate) fn check(
    host: &str,
    own: &Program,
    hello: &Hello,
    remedy: &str,
) -> Result<(), HostError> {
    if hello.build == own.build {
        return Ok(());
    }
    Err(HostError {
        host: host.to_owned(),
        what: format!(
            "its prony is another build: {} ({}), and this one is {} ({})",
            hello.version,
            hello.build,
            env!("CARGO_PKG_VERSION"),
            own.build
        ),
        remedy: remedy.to_owned(),
    })
}

/// Puts a copy of the program on the host.
fn send(host: &Host, own: &Program, machine: &str) -> Result<(), HostError> {
    let refused = |what: String, remedy: &str| HostError {
        host: host.name.clone(),
        what,
        remedy: remedy.to_owned(),
    };
    let here = format!("Linux {}", std::env::consts::ARCH);
    if machine != here {
        return Err(refused(
            format!("it is {machine}, and this program is for {here}"),
            "put a prony of the same version for that machine there, and name it by `binary`",
        ));
    }
    let content = std::fs::read(&own.path).map_err(|e| {
        refused(
            format!("reading {}: {e}", own.path.display()),
            "install prony anew",
        )
    })?;
    let script = format!(
        "{}; umask 077; mkdir -p \"$d\" && cat > \"$d/.new.$$\" && chmod 700 \"$d/.new.$$\" && mv \"$d/.new.$$\" \"$d/prony\"",
        directory(&own.build)
    );
    let copied = copy(host.script(&script), &content);
    copied.map_err(|what| {
        refused(
            format!("putting a copy of prony there: {what}"),
            "make room in its cache directory (XDG_CACHE_HOME or ~/.cache), or install prony there and name it by `binary`",
        )
    })
}

/// Runs a command with `content` on its standard input.
fn copy(mut command: Command, content: &[u8]) -> Result<(), String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|e| e.to_string())?;
    let words = child.stderr.take().map(Words::of);
    let mut input = child.stdin.take();
    let written = input.as_mut().map_or(Ok(()), |to| to.write_all(content));
    drop(input);
    let status = child.wait().map_err(|e| e.to_string())?;
    if status.success() && written.is_ok() {
        return Ok(());
    }
    let words = words.map(Words::last).unwrap_or_default();
    Err(format!("{words} ({status})"))
}

impl Program {
    /// The program that runs.
    ///
    /// # Errors
    /// When it cannot be read, or does not say of which build it is.
    pub fn own() -> io::Result<Self> {
        let path = std::env::current_exe()?;
        // What runs may have been replaced since.
        let build = build_id(Path::new("/proc/self/exe"))?;
        Ok(Self { path, build })
    }
}

/// The linker's id of a program, hexadecimal; the hash of the whole where the linker gave none.
fn build_id(path: &Path) -> io::Result<String> {
    /// The note lies behind the program headers, long before this.
    const HEAD: u64 = 4_096;
    let mut head = Vec::new();
    std::fs::File::open(path)?
        .take(HEAD)
        .read_to_end(&mut head)?;
    // A note of GNU's: length of the name 4, length of the id 20, type 3, the name.
    let mark = [&[4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0][..], b"GNU\0"].concat();
    let at = head.windows(mark.len()).position(|window| window == mark);
    let id = at.and_then(|at| head.get(at + mark.len()..at + mark.len() + 20));
    match id {
        Some(id) => Ok(id.iter().map(|byte| format!("{byte:02x}")).collect()),
        None => Ok(crate::serve::hash(&std::fs::read(path)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reaches_the_other_shell_whole() {
        let host = Host {
            name: "here".to_owned(),
            way: Way::Via(vec!["env".to_owned()]),
            binary: None,
            sudo: false,
            threads: None,
        };
        let said = host.script("echo \"it's $((1 + 1))\"").output().unwrap();
        assert_eq!(said.stdout, b"it's 2\n");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn the_build_is_told_by_the_program_itself() {
        let own = Program::own().unwrap();
        assert!(own.build.len() >= 40, "{own:?}");
        assert_eq!(Program::own().unwrap(), own);
    }

    #[test]
    fn a_host_without_a_way_says_why() {
        let host = Host {
            name: "nowhere".to_owned(),
            way: Way::Via(
                ["sh", "-c", "echo no such host >&2; exit 255"]
                    .map(str::to_owned)
                    .to_vec(),
            ),
            binary: None,
            sudo: false,
            threads: None,
        };
        let own = Program::own().unwrap();
        let error = reach(&host, &own, &[Right::Load]).err().unwrap();
        assert_eq!(error.to_string(), "reaching host nowhere: no such host");
    }
}
