//! A server of events of a few lines, over real sockets: it reads a request and plays what a test wants.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// What a response that is a stream in chunks begins with.
pub const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Calls `play` with each connection and the head of its request, in a thread of its own; returns the URL.
pub fn serve(play: impl Fn(TcpStream, &str) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let play = Arc::new(play);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let play = Arc::clone(&play);
            thread::spawn(move || {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read_exact(&mut byte).is_err() {
                        return;
                    }
                    head.push(byte[0]);
                }
                play(stream, &String::from_utf8(head).unwrap());
            });
        }
    });
    url
}

/// `content` as one chunk.
pub fn chunk(content: &str) -> String {
    format!("{:x}\r\n{content}\r\n", content.len())
}

/// Sends events for as long as somebody reads them.
pub fn endless(mut stream: TcpStream, _: &str) {
    let mut out = CHUNKED.to_owned();
    while stream.write_all(out.as_bytes()).is_ok() {
        out = chunk("id: 1\ndata: hello\n\n").repeat(10);
    }
}
