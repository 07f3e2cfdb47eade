//! A WebSocket server of a few lines, over real sockets: it agrees to each upgrade and plays what a test wants.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Calls `play` with each connection once its upgrade is agreed to, in a thread of its own; returns the URL.
pub fn serve(play: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let play = Arc::new(play);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let play = Arc::clone(&play);
            thread::spawn(move || {
                if let Some(stream) = agree(stream) {
                    play(stream);
                }
            });
        }
    });
    url
}

fn agree(mut stream: TcpStream) -> Option<TcpStream> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        request.push(byte[0]);
    }
    let request = String::from_utf8(request).ok()?;
    let (_, key) = request.split_once("Sec-WebSocket-Key: ")?;
    let key = key.split_once("\r\n")?.0.to_owned();
    let text = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()));
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(response.as_bytes()).ok()?;
    Some(stream)
}

/// First byte and payload of the client's next frame; `None` at the end. A frame without a mask is an end, too.
pub fn frame(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    let mut length = [0; 8];
    let bytes = match head[1].checked_sub(0x80)? {
        126 => 2,
        127 => 8,
        len => {
            length[7] = len;
            0
        }
    };
    stream.read_exact(&mut length[8 - bytes..]).ok()?;
    let mut mask = [0; 4];
    stream.read_exact(&mut mask).ok()?;
    let mut payload = vec![0; u64::from_be_bytes(length) as usize];
    stream.read_exact(&mut payload).ok()?;
    for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    Some((head[0], payload))
}

/// Sends every message back, in one frame.
pub fn echo(mut stream: TcpStream) {
    while let Some((first, payload)) = frame(&mut stream) {
        if first == 0x88 {
            // The client may have gone already.
            let _ = stream.write_all(b"\x88\x00");
            return;
        }
        let len = payload.len();
        let mut out = match len {
            0..126 => vec![first, len as u8],
            126..0x10000 => [&[first, 126][..], &(len as u16).to_be_bytes()].concat(),
            _ => [&[first, 127][..], &(len as u64).to_be_bytes()].concat(),
        };
        out.extend(payload);
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}
