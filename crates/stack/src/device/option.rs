//! Socket options by level and number, as the kernel's headers give them: set, and read.

use super::interface::checked;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Sets an option; the kernel copies the value.
pub fn set<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the value lives through the call and has the size that is said.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// What the kernel may write to.
///
/// # Safety
///
/// Any bytes are a value of the type: integers, and what is made of nothing else.
pub unsafe trait Plain: Default {}

// SAFETY: an integer.
unsafe impl Plain for u32 {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}
// SAFETY: an array is its values and nothing between them.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] where [T; N]: Default {}

/// What an option is; what the kernel does not fill stays at its default.
pub fn get<T: Plain>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, and any bytes are a value of this type.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_mut(&mut value).cast(),
            &mut len,
        )
    })?;
    Ok(value)
}
