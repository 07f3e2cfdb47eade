//! A server that stamps when each request arrives, to see a generator's schedule from the other side.
//!
//! `cargo run --release --example arrivals -- STAMPS` prints its address, answers every request on one
//! thread until its standard input ends, and then writes the stamps to standard output: `CLOCK_MONOTONIC`
//! in nanoseconds, little-endian u64, in order of arrival. At most STAMPS of them; later ones are answered
//! and not stamped. `bench/schedule.py` evaluates them.
//!
//! It takes a request for one that has no body and comes whole in one segment, as the bench sends it.

use record::Clock;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use traffic::MonotonicClock;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

fn main() -> io::Result<()> {
    let asked = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    let mut stamps = Stamps(Vec::with_capacity(asked.unwrap_or(1_000_000)));
    serve(&listener, &mut stamps)?;
    let bytes: Vec<u8> = stamps.0.iter().flat_map(|at| at.to_le_bytes()).collect();
    io::stdout().write_all(&bytes)
}

/// Arrival times; memory is set aside before the first, so that a stamp costs no allocation.
struct Stamps(Vec<u64>);

impl Stamps {
    fn push(&mut self, at_ns: u64) {
        if self.0.len() < self.0.capacity() {
            self.0.push(at_ns);
        }
    }
}

/// Answers until standard input ends.
fn serve(listener: &TcpListener, stamps: &mut Stamps) -> io::Result<()> {
    let epoll = Epoll::new()?;
    let (control, door) = (io::stdin().as_raw_fd(), listener.as_raw_fd());
    epoll.add(control)?;
    epoll.add(door)?;
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    let mut ready = [libc::epoll_event { events: 0, u64: 0 }; 64];
    loop {
        let n = epoll.wait(&mut ready)?;
        // One stamp for all that one look found: they arrived before it.
        let at_ns = MonotonicClock.now().0;
        for fd in ready[..n].iter().map(|event| event.u64 as RawFd) {
            if fd == control {
                if io::stdin().read(&mut [0; 64])? == 0 {
                    return Ok(());
                }
            } else if fd == door {
                accept(listener, &epoll, &mut streams)?;
            } else {
                answer(&mut streams[fd as usize], at_ns, stamps);
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    epoll: &Epoll,
    streams: &mut Vec<Option<TcpStream>>,
) -> io::Result<()> {
    while let Ok((stream, _)) = listener.accept() {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let fd = stream.as_raw_fd();
        epoll.add(fd)?;
        if streams.len() <= fd as usize {
            streams.resize_with(fd as usize + 1, || None);
        }
        streams[fd as usize] = Some(stream);
    }
    Ok(())
}

/// Reads what has come, stamps and answers each request; forgets a connection that has ended.
fn answer(slot: &mut Option<TcpStream>, at_ns: u64, stamps: &mut Stamps) {
    let mut bytes = [0; 16 * 1024];
    let Some(stream) = slot else { return };
    let len = match stream.read(&mut bytes) {
        Ok(len) if len > 0 => len,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
        Ok(_) | Err(_) => {
            *slot = None;
            return;
        }
    };
    let heads = bytes[..len].windows(END_OF_HEAD.len());
    for _ in heads.filter(|&four| four == END_OF_HEAD) {
        stamps.push(at_ns);
        if stream.write_all(ANSWER).is_err() {
            *slot = None;
            return;
        }
    }
}

/// A level-triggered epoll instance whose event data is the descriptor. It lives as long as the program.
struct Epoll(RawFd);

impl Epoll {
    fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(|fd| Epoll(fd as RawFd))
    }

    fn add(&self, fd: RawFd) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: fd as u64,
        };
        // SAFETY: `event` is a valid epoll_event for the length of the call.
        check(unsafe { libc::epoll_ctl(self.0, libc::EPOLL_CTL_ADD, fd, &mut event) }).map(drop)
    }

    fn wait(&self, ready: &mut [libc::epoll_event]) -> io::Result<usize> {
        // SAFETY: the pointer and length are those of a live, writable slice.
        let n = unsafe { libc::epoll_wait(self.0, ready.as_mut_ptr(), ready.len() as i32, -1) };
        check(n)
    }
}

fn check(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
