//! The seam below a conversation: what a connection needs of whatever carries its bytes.
//!
//! There are two: [`Socket`] here, on the kernel's TCP, and a flow of a stack in user space (`stack_wire`). Nothing
//! blocks; what cannot be done now says so with `None`.

use super::content::Content;
use super::sys;
use super::talk::Output;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes to drop or to send in one call.
pub const CALL_BYTES_MAX: usize = 1024 * 1024;

/// What carries a connection's bytes.
pub trait Wire {
    /// Takes what it can of `output`, which is not empty, and says how much that was.
    ///
    /// # Errors
    /// The connection is no more.
    fn send(&mut self, output: &mut Output, content: &Content) -> io::Result<Option<usize>>;

    /// Gives what has come, at most as much as there is room; `Some(0)` at its end.
    ///
    /// # Errors
    /// The connection is no more.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>>;

    /// Drops up to `length` of what has come, unseen.
    ///
    /// # Errors
    /// The connection is no more.
    fn discard(&mut self, length: usize) -> io::Result<Option<usize>>;

    /// Ends our direction after what it has taken.
    fn end(&mut self);
}

/// A connection of the kernel's.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// One that was just accepted.
    pub fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Wire for Socket {
    fn send(&mut self, output: &mut Output, content: &Content) -> io::Result<Option<usize>> {
        let bytes = &output.bytes[output.sent..];
        let sent = match output.tail {
            None => sys::send(self.as_fd(), bytes)?,
            Some(_) if !bytes.is_empty() => sys::send_with_more_to_come(self.as_fd(), bytes)?,
            Some(tail) => {
                let (offset, length) = tail.next();
                // The minimum is at most CALL_BYTES_MAX, a usize.
                let asked = length.min(CALL_BYTES_MAX as u64) as usize;
                sys::send_file(self.as_fd(), content.store(), offset, asked)?
            }
        };
        if let Some(n) = sent {
            output.took(n);
        }
        Ok(sent)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        sys::receive(self.as_fd(), into)
    }

    fn discard(&mut self, length: usize) -> io::Result<Option<usize>> {
        sys::discard(self.as_fd(), length)
    }

    fn end(&mut self) {
        sys::shutdown_write(self.as_fd());
    }
}
