//! Memory of other processes, read while they run: process_vm_readv(2), which stops nobody.
//!
//! In the flow: readers of managed runtimes. The surprise: what is read may change meanwhile. One call for many pieces
//! is no snapshot, so whoever reads checks what came back before believing it.

use std::io;

/// Pieces that one call may name (`IOV_MAX`).
const MOST_PIECES: usize = 1024;

/// A piece of another process' memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub address: u64,
    pub bytes: usize,
}

/// Reads the pieces one after another into `buffer`, which becomes as long as they are together. `read` gets whether
/// each could be read; what could not is zero.
///
/// # Errors
/// That the process is gone or may not be read; a piece that is not mapped is no error.
pub fn read(
    pid: i32,
    pieces: &[Piece],
    buffer: &mut Vec<u8>,
    read: &mut Vec<bool>,
) -> io::Result<()> {
    let whole = pieces.iter().map(|piece| piece.bytes).sum();
    buffer.clear();
    buffer.resize(whole, 0);
    read.clear();
    let mut from = 0;
    let mut remote = Vec::with_capacity(pieces.len().min(MOST_PIECES));
    while read.len() < pieces.len() {
        let some = &pieces[read.len()..pieces.len().min(read.len() + MOST_PIECES)];
        remote.clear();
        remote.extend(some.iter().map(|piece| libc::iovec {
            iov_base: piece.address as *mut libc::c_void,
            iov_len: piece.bytes,
        }));
        let mut left = call(pid, &mut buffer[from..], &remote)?;
        for piece in some {
            if left < piece.bytes {
                // The kernel stopped here; what follows is asked for again.
                read.push(false);
                from += piece.bytes;
                break;
            }
            read.push(true);
            left -= piece.bytes;
            from += piece.bytes;
        }
    }
    Ok(())
}

/// Reads bytes from an address on, all or none.
///
/// # Errors
/// That the process is gone or may not be read, or that not all of it is mapped.
pub fn read_exact(pid: i32, address: u64, into: &mut [u8]) -> io::Result<()> {
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: into.len(),
    };
    if call(pid, into, &[remote])? < into.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Bytes that were read; 0 where the first piece is not mapped.
fn call(pid: i32, buffer: &mut [u8], remote: &[libc::iovec]) -> io::Result<usize> {
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: `local` spans `buffer`, which is writable and borrowed for the call; `remote` has as many entries as are
    // named, and its addresses are of the other process: the kernel checks them.
    let got = unsafe {
        libc::process_vm_readv(
            pid,
            &raw const local,
            1,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    if got >= 0 {
        return Ok(got as usize);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EFAULT) => Ok(0),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<T>(of: &T) -> Piece {
        Piece {
            address: std::ptr::from_ref(of) as u64,
            bytes: size_of::<T>(),
        }
    }

    #[test]
    fn pieces_come_in_order_and_what_is_not_mapped_is_said() {
        let (first, second) = (0x1122_3344_u32, 7_u64);
        let nowhere = Piece {
            address: 8,
            bytes: 16,
        };
        let mut pieces = vec![at(&first), nowhere, at(&second)];
        pieces.extend(std::iter::repeat_n(at(&first), 3 * MOST_PIECES));
        let (mut buffer, mut seen) = (Vec::new(), Vec::new());
        let own = std::process::id().cast_signed();
        read(own, &pieces, &mut buffer, &mut seen).unwrap();
        assert_eq!(seen.len(), pieces.len());
        assert_eq!(seen.iter().filter(|seen| !**seen).count(), 1);
        assert!(!seen[1]);
        assert_eq!(buffer[..4], first.to_ne_bytes());
        assert_eq!(buffer[4..20], [0; 16]);
        assert_eq!(buffer[20..28], second.to_ne_bytes());
        assert_eq!(buffer[buffer.len() - 4..], first.to_ne_bytes());
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let gone = read(i32::MAX - 1, &[at(&1_u8)], &mut Vec::new(), &mut Vec::new());
        assert_eq!(gone.unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
