//! Which kernel interface drives the sockets of a load.

use super::error::LoadError;
use super::way;
use crate::transport::Uring;
use record::{Arrival, Engine, LoadSpec, Warning};

/// From so many connections on a thread there is enough in a round to be handed over at once that io_uring costs less
/// than two system calls a request; with fewer, or for large bodies, epoll does (`bench/peers.py`).
const URING_CONNECTIONS_MIN: u32 = 128;
/// With more, each answer finds the caches cold on either way.
const URING_CONNECTIONS_MAX: u32 = 4_096;

/// Where io_uring costs less of this core than epoll: connections that are many, or opened and closed for each request.
/// An open loop sends one by one as requests fall due, so nothing gathers; beside the arithmetic of a TLS handshake the
/// calls that io_uring spares do not count.
fn is_uring_cheaper(spec: &LoadSpec, threads: u32) -> bool {
    let each = spec.connections.div_ceil(threads);
    let is_many = (URING_CONNECTIONS_MIN..=URING_CONNECTIONS_MAX).contains(&each);
    let is_new = spec.requests_per_connection == Some(1) && !spec.is_tls();
    spec.arrival == Arrival::Closed && (is_many || is_new)
}

/// The engine that a load asks for, or the one that costs less for such a load on this kernel.
///
/// # Errors
/// [`LoadError::Engine`] when io_uring is asked for by name and refused.
pub(super) fn choose(
    spec: &LoadSpec,
    threads: u32,
    warnings: &mut Vec<Warning>,
) -> Result<Engine, LoadError> {
    let refused = || Uring::probe().err();
    match spec.engine {
        Engine::Epoll => Ok(Engine::Epoll),
        Engine::Uring => {
            refused().map_or(Ok(Engine::Uring), |cause| Err(LoadError::Engine { cause }))
        }
        Engine::Auto if way::wants_epoll(spec) => Ok(Engine::Epoll),
        Engine::Auto if !is_uring_cheaper(spec, threads) => Ok(Engine::Epoll),
        Engine::Auto => Ok(match refused() {
            None => Engine::Uring,
            Some(cause) => {
                warnings.push(Warning::new(
                    "io_uring_refused",
                    format!("the kernel refuses io_uring ({cause}), so epoll drives the sockets: a request costs more of this core"),
                    REMEDY,
                ));
                Engine::Epoll
            }
        }),
    }
}

/// What makes io_uring possible.
pub(super) const REMEDY: &str = "nothing is wrong with the figures; for io_uring: Linux 6.1, kernel.io_uring_disabled=0, and a seccomp profile \
     that lets io_uring_setup, io_uring_enter and io_uring_register pass";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_uring_is_for_many_connections_and_for_new_ones() {
        let spec = |url: &str, connections, each| LoadSpec {
            connections,
            requests_per_connection: each,
            ..LoadSpec::new(url)
        };
        let plain = "http://127.0.0.1/";
        for (spec, threads, cheaper) in [
            (spec(plain, 64, None), 1, false),
            (spec(plain, 128, None), 1, true),
            (spec(plain, 256, None), 4, false),
            (spec(plain, 10_000, None), 1, false),
            (spec(plain, 64, Some(1)), 1, true),
            (spec(plain, 64, Some(100)), 1, false),
            (spec("https://127.0.0.1/", 64, Some(1)), 1, false),
            (spec("https://127.0.0.1/", 256, None), 1, true),
        ] {
            assert_eq!(is_uring_cheaper(&spec, threads), cheaper, "{spec:?}");
            let open = LoadSpec {
                arrival: Arrival::Constant { per_s: 1_000.0 },
                ..spec
            };
            assert!(!is_uring_cheaper(&open, threads));
        }
    }
}
