//! The little of ELF that tells a Go program from others: the section `.go.buildinfo`.
//!
//! Since Go 1.18 it holds the version as text behind a fixed header (package debug/buildinfo), in stripped
//! programs too. The surprise: a program that was packed or built with its sections removed keeps the
//! bytes all the same, so the header is looked for, not the section table.

/// Begins the header, which is aligned to 16 bytes. It stands here with its case swapped: prony may be examined as
/// well, and one time in sixteen the linker aligns a constant like a header.
const SWAPPED_MAGIC: &[u8] = b"\xff gO BUILDINF:";
/// Offset of the flags in the header, and the flag for inline text.
const FLAGS: usize = 15;
const INLINE: u8 = 2;
/// Length of the header.
const HEADER: usize = 32;

/// `go1.22.1`; `None` when it was not built by Go. Empty when it was built by a Go before 1.18.
pub(crate) fn go_version(bytes: &[u8]) -> Option<String> {
    if !bytes.starts_with(b"\x7fELF") {
        return None;
    }
    let header = memchr::memmem::find_iter(bytes, &magic())
        .filter(|at| at % 16 == 0)
        .find_map(|at| bytes.get(at..))?;
    if header.get(FLAGS)? & INLINE == 0 {
        return Some(String::new());
    }
    let (length, used) = varint(header.get(HEADER..)?)?;
    let text = header.get(HEADER + used..)?.get(..length)?;
    let text = std::str::from_utf8(text).ok()?;
    // The magic alone may also stand in a program that reads such headers, as Go's own tools do.
    (text.starts_with("go") || text.starts_with("devel")).then(|| text.to_owned())
}

fn magic() -> Vec<u8> {
    let swapped = |b: &u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' => b ^ 0x20,
        other => *other,
    };
    SWAPPED_MAGIC.iter().map(swapped).collect()
}

/// A length in the varint encoding, and the bytes that it took; at most four, as versions are short.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0usize;
    for (i, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((value, i + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version_and_survives_cuts() {
        let mut bytes = b"\x7fELF............".to_vec();
        bytes.resize(64, 0);
        bytes.extend(magic());
        bytes.extend([8, INLINE]);
        bytes.resize(64 + HEADER, 0);
        bytes.push(8);
        bytes.extend(b"go1.22.1");
        assert_eq!(go_version(&bytes).as_deref(), Some("go1.22.1"));
        for end in 0..bytes.len() {
            assert_eq!(go_version(&bytes[..end]), None, "{end}");
        }
        bytes[64 + FLAGS] = 0;
        assert_eq!(go_version(&bytes).as_deref(), Some(""));
        assert_eq!(go_version(b"#!/bin/sh"), None);
    }
}
