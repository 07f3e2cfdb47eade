//! Network namespaces by name or process: entered by a thread for a while, opened for a process, removed.
//!
//! The surprise: a namespace belongs to a thread, not to a process (setns(2)); what a thread starts inherits it. So a
//! load whose threads are started within one runs in it, and the rest of prony does not.

use crate::{Error, Root};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Where ip-netns(8) keeps them.
const DIRECTORY: &str = "/run/netns";

/// The calling thread's.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    name: String,
    file: PathBuf,
}

/// A thread within a namespace; back where it was when dropped. It cannot go to another thread.
pub struct Inside {
    before: File,
    _of_this_thread: PhantomData<*const ()>,
}

/// Where a thread belongs. It cannot go to another thread.
pub struct Home {
    namespace: PathBuf,
    _of_this_thread: PhantomData<*const ()>,
}

impl Home {
    /// The namespace that the calling thread is in.
    ///
    /// # Errors
    /// [`Error::Namespace`] when the kernel does not tell.
    pub fn here() -> Result<Self, Error> {
        Ok(Self {
            namespace: of_this_thread()?,
            _of_this_thread: PhantomData,
        })
    }

    /// The thread is there, wherever it was in between. Dropping an [`Inside`] cannot say that it found no way back:
    /// who goes on afterwards asks here.
    ///
    /// # Errors
    /// [`Error::Stranded`].
    pub fn check(&self) -> Result<(), Error> {
        let now = of_this_thread()?;
        if now == self.namespace {
            return Ok(());
        }
        Err(Error::Stranded {
            now: now.display().to_string(),
            home: self.namespace.display().to_string(),
        })
    }
}

/// The network namespace that a process is in, as the kernel names it (`net:[4026531840]`); `self` is the calling one.
/// `None` when it is gone or not ours to see.
pub fn of(root: &Root, process: &str) -> Option<PathBuf> {
    std::fs::read_link(root.path(&format!("proc/{process}/ns/net"))).ok()
}

/// That of the calling thread.
fn of_this_thread() -> Result<PathBuf, Error> {
    std::fs::read_link(OWN).map_err(failed("reading", OWN.into()))
}

impl Namespace {
    /// The one with that name; whether it exists shows when it is opened.
    pub fn named(name: String) -> Self {
        Self {
            file: path(&name),
            name,
        }
    }

    /// The one that a process is in, for as long as the process lives.
    pub fn of_process(pid: i32) -> Self {
        Self {
            name: format!("that of process {pid}"),
            file: format!("/proc/{pid}/ns/net").into(),
        }
    }

    /// Its name, as `ip netns` lists it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its file, for a process that is to enter it.
    ///
    /// # Errors
    /// [`Error::Namespace`] when it is gone.
    pub fn open(&self) -> Result<File, Error> {
        File::open(&self.file).map_err(failed("opening", self.file.clone()))
    }

    /// Takes the calling thread into the namespace, and what it starts from now on.
    ///
    /// # Errors
    /// [`Error::Namespace`] when the namespace is gone or may not be entered.
    pub fn enter(&self) -> Result<Inside, Error> {
        let before = File::open(OWN).map_err(failed("opening", OWN.into()))?;
        let namespace = self.open()?;
        set(&namespace).map_err(failed("entering", self.file.clone()))?;
        Ok(Inside {
            before,
            _of_this_thread: PhantomData,
        })
    }

    /// Does some work within the namespace.
    ///
    /// # Errors
    /// As [`Namespace::enter`].
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        let inside = self.enter()?;
        let result = work();
        drop(inside);
        Ok(result)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // The descriptor is open, so its namespace lives, and who could enter one may return; `Home` shows it if not.
        let _ = set(&self.before);
    }
}

fn set(namespace: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call; the call takes integers only.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn failed(doing: &'static str, path: PathBuf) -> impl FnOnce(io::Error) -> Error {
    move |cause| Error::Namespace { doing, path, cause }
}

fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Removes a namespace, and with it its links; one that is gone is fine. It ends when the last process in it does.
///
/// # Errors
/// The system's words.
pub fn remove(name: &str) -> io::Result<()> {
    let path = path(name);
    let text = CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: the path is a C string that lives through the call. One that is not mounted is an error to pass over:
    // the file alone may be left.
    unsafe { libc::umount2(text.as_ptr(), libc::MNT_DETACH) };
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `test` on a thread that has left its namespace for a new one; without the right to, it is not run.
    fn in_a_new_namespace(test: impl FnOnce(Home) + Send) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let home = Home::here().unwrap();
                home.check().unwrap();
                // SAFETY: the call takes an integer only and concerns this thread, which ends here.
                if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
                    test(home);
                }
            });
        });
    }

    #[test]
    fn a_thread_that_did_not_come_back_is_noticed() {
        in_a_new_namespace(|home| {
            // No namespace is behind this file, so the way back fails.
            drop(Inside {
                before: File::open("/dev/null").unwrap(),
                _of_this_thread: PhantomData,
            });
            let error = home.check().unwrap_err();
            assert!(matches!(error, Error::Stranded { .. }), "{error}");
        });
    }

    #[test]
    fn one_that_is_gone_is_removed_and_cannot_be_entered() {
        assert!(remove("prony-no-such-namespace").is_ok());
        let missing = Namespace::named("prony-no-such-namespace".to_owned());
        assert!(missing.enter().is_err());
    }
}
