//! How a call of gRPC ended (<https://github.com/grpc/grpc>, doc/PROTOCOL-HTTP2.md and doc/statuscodes.md).
//!
//! The surprise: whatever came of a call, the response's HTTP status is 200. How it ended stands in the trailers.

/// The message of a call begins with a flag and its length.
pub(crate) const PREFIX_BYTES: usize = 5;

const WORDS: [&str; 17] = [
    "",
    "grpc-status 1 (CANCELLED)",
    "grpc-status 2 (UNKNOWN)",
    "grpc-status 3 (INVALID_ARGUMENT)",
    "grpc-status 4 (DEADLINE_EXCEEDED)",
    "grpc-status 5 (NOT_FOUND)",
    "grpc-status 6 (ALREADY_EXISTS)",
    "grpc-status 7 (PERMISSION_DENIED)",
    "grpc-status 8 (RESOURCE_EXHAUSTED)",
    "grpc-status 9 (FAILED_PRECONDITION)",
    "grpc-status 10 (ABORTED)",
    "grpc-status 11 (OUT_OF_RANGE)",
    "grpc-status 12 (UNIMPLEMENTED)",
    "grpc-status 13 (INTERNAL)",
    "grpc-status 14 (UNAVAILABLE)",
    "grpc-status 15 (DATA_LOSS)",
    "grpc-status 16 (UNAUTHENTICATED)",
];

/// Why a response is no success, in words: by its code, whoever asked for it, or because it has none where calls were
/// made. A status of HTTP that is an error counts as that.
pub(super) fn refused(status: u16, code: Option<u16>, expected: bool) -> Option<&'static str> {
    match code {
        Some(0) => None,
        Some(code) => Some(
            WORDS
                .get(usize::from(code))
                .unwrap_or(&"a grpc-status above 16"),
        ),
        None => (expected && status < 400)
            .then_some("a response without grpc-status: nothing of gRPC answered"),
    }
}

/// A message as it is sent: not compressed, its length, the message.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = Vec::with_capacity(PREFIX_BYTES + message.len());
    framed.push(0);
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(message);
    framed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_fails_by_its_code_whatever_the_status() {
        assert_eq!(refused(200, Some(0), true), None);
        assert_eq!(
            refused(200, Some(14), false),
            Some("grpc-status 14 (UNAVAILABLE)")
        );
        assert_eq!(refused(200, Some(99), true), Some("a grpc-status above 16"));
        assert!(
            refused(200, None, true)
                .unwrap()
                .contains("without grpc-status")
        );
        // What is no call says nothing of one, and an error of HTTP counts as that.
        assert_eq!(refused(200, None, false), None);
        assert_eq!(refused(502, None, true), None);
    }

    #[test]
    fn a_message_has_its_length_before_it() {
        assert_eq!(framed(b""), [0, 0, 0, 0, 0]);
        assert_eq!(framed(&[7; 300])[..6], [0, 0, 0, 1, 44, 7]);
    }
}
