//! A server with tiny_http and SQLite with one habit, given by name: tinyhttp_app PORT HABIT STORE [SERVICE_PORT].

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rusqlite::{params, Connection};
use socket2::SockRef;
use tiny_http::{Header, Response, Server};

/// Threads that answer: a few, as in the example of the documentation, and one for each connection of the load.
const FEW: usize = 2;
const MANY: usize = 16;
struct App {
    habit: String,
    service: String,
    store: Mutex<Connection>,
}

type Said = Result<String, Box<dyn std::error::Error>>;

impl App {
    /// Counts a visit in a transaction of its own.
    fn visit(&self) -> Said {
        let store = self.store.lock().unwrap();
        let mut statement = store.prepare_cached("insert into visits (page) values (?)")?;
        statement.execute(params!["valve 17"])?;
        Ok("x".repeat(1024))
    }

    /// What the service has in stock, asked on the connection that this thread keeps.
    fn stock(&self, kept: &mut Option<TcpStream>) -> Said {
        if kept.is_none() {
            *kept = Some(TcpStream::connect(format!("127.0.0.1:{}", self.service))?);
        }
        let connection = kept.as_mut().unwrap();
        connection.write_all(b"GET /bytes/64 HTTP/1.1\r\nHost: service\r\n\r\n")?;
        let mut answer = [0; 4096];
        let length = connection.read(&mut answer)?;
        Ok(format!("{length} {}", "x".repeat(1024)))
    }

    fn answer(&self, kept: &mut Option<TcpStream>) -> Said {
        match self.habit.as_str() {
            "visit" | "visit-waited" => self.visit(),
            "stock" | "stock-of-few" => self.stock(kept),
            _ => Ok("x".repeat(1024)),
        }
    }
}

fn open(path: &str, habit: &str) -> rusqlite::Result<Connection> {
    let store = Connection::open(path)?;
    if habit == "visit" {
        store.query_row("pragma journal_mode = wal", [], |_| Ok(()))?;
        store.execute_batch("pragma synchronous = normal")?;
    }
    store.execute_batch("create table visits (id integer primary key, page text)")?;
    Ok(store)
}

fn serve(server: &Server, app: &App) {
    let mut kept = None;
    while let Ok(request) = server.recv() {
        let (status, text) = match app.answer(&mut kept) {
            Ok(text) => (200, text),
            Err(error) => (500, error.to_string()),
        };
        let kind = Header::from_bytes("Content-Type", "text/plain").unwrap();
        // Whoever has gone meanwhile gets no answer.
        let _ = request.respond(Response::from_string(text).with_status_code(status).with_header(kind));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let args: Vec<String> = std::env::args().collect();
    let app = Arc::new(App {
        habit: args[2].clone(),
        service: args.get(4).cloned().unwrap_or_default(),
        store: Mutex::new(open(&args[3], &args[2])?),
    });
    let listener = TcpListener::bind(format!("127.0.0.1:{}", args[1]))?;
    // Head and body are written apart where they are more than 1 KiB, and connections inherit this.
    SockRef::from(&listener).set_nodelay(args[2] != "plain-as-it-is")?;
    let server = Arc::new(Server::from_listener(listener, None)?);
    let threads = if args[2] == "stock-of-few" { FEW } else { MANY };
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (server, app) = (server.clone(), app.clone());
            thread::spawn(move || serve(&server, &app))
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| "a worker has panicked")?;
    }
    Ok(())
}
