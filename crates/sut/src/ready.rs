//! Is the server ready? It accepts connections and, when a path is given, answers it below 400.
//!
//! The request is HTTP/1.0, so that the server closes behind its response; the surprise: nothing but the head is read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A head that is longer is no server's that is measured here.
const LONGEST_HEAD: usize = 64 << 10;

/// One try; `longest` bounds the connect, and each write and read.
///
/// # Errors
/// What is missing, in words.
pub(crate) fn try_once(
    address: SocketAddr,
    path: Option<&str>,
    longest: Duration,
) -> Result<(), String> {
    let stream = connect(address, longest)?;
    match path {
        None => Ok(()),
        Some(path) => match status_of(stream, address, path, longest)? {
            status if status < 400 => Ok(()),
            status => Err(format!("{path} responds with status {status}")),
        },
    }
}

/// One try of a server that listens long before it serves: whatever it answers, it answers.
///
/// # Errors
/// What is missing, in words.
pub(crate) fn answers(address: SocketAddr, longest: Duration) -> Result<(), String> {
    let stream = connect(address, longest)?;
    status_of(stream, address, "/", longest).map(|_| ())
}

fn connect(address: SocketAddr, longest: Duration) -> Result<TcpStream, String> {
    TcpStream::connect_timeout(&address, longest)
        .map_err(|e| format!("connecting to {address}: {e}"))
}

fn status_of(
    stream: TcpStream,
    address: SocketAddr,
    path: &str,
    longest: Duration,
) -> Result<u16, String> {
    ask(stream, address, path, longest)
        .map_err(|e| format!("asking {address} for {path}: {e}"))?
        .ok_or_else(|| format!("the response to {path} is not HTTP"))
}

fn ask(
    mut stream: TcpStream,
    address: SocketAddr,
    path: &str,
    longest: Duration,
) -> std::io::Result<Option<u16>> {
    stream.set_read_timeout(Some(longest))?;
    stream.set_write_timeout(Some(longest))?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while head.len() < LONGEST_HEAD {
        match stream.read(&mut buffer)? {
            0 => break,
            n => head.extend_from_slice(&buffer[..n]),
        }
        match http1::parse_response(&head, false) {
            Ok(Some(head)) => return Ok(Some(head.status)),
            Ok(None) => {}
            Err(_) => break,
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What is said of a server that gives `answer`.
    fn said(answer: &'static str) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let n = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..n]).into_owned()
        });
        let result = try_once(address, Some("/up"), Duration::from_secs(5));
        assert!(
            server
                .join()
                .unwrap()
                .starts_with("GET /up HTTP/1.0\r\nHost: 127.")
        );
        result
    }

    #[test]
    fn a_status_below_400_is_ready() {
        assert_eq!(said("HTTP/1.1 204 No Content\r\n\r\n"), Ok(()));
        assert_eq!(said("HTTP/1.0 301\r\n\r\n"), Ok(()));
        assert_eq!(
            said("HTTP/1.1 503 Busy\r\n\r\n"),
            Err("/up responds with status 503".to_owned())
        );
        for answer in [
            "",
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/1.1",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        ] {
            assert_eq!(
                said(answer),
                Err("the response to /up is not HTTP".to_owned()),
                "{answer}"
            );
        }
    }

    #[test]
    fn a_closed_port_is_named() {
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let error = try_once(address, None, Duration::from_secs(5)).unwrap_err();
        assert!(
            error.starts_with(&format!("connecting to {address}: Connection refused")),
            "{error}"
        );
    }
}
