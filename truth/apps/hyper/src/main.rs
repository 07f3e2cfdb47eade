//! The habits of the hyper cases: hyper_app PORT HABIT [PORT OF A BACKEND].

use hyper::service::{make_service_fn, service_fn};
use hyper::{body, Body, Client, Response, Server, Uri};
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::RwLock;

const VALVES: u32 = 3000;
const SHOWN: usize = 5;
const REFRESHED_EVERY: Duration = Duration::from_millis(300);

#[derive(Clone)]
struct Valve {
    number: u32,
    name: String,
    hall: String,
    notes: Vec<String>,
}

type Prices = RwLock<Vec<u8>>;

struct Shop {
    habit: String,
    backend: Uri,
    backend_port: u16,
    client: Client<hyper::client::HttpConnector>,
    /// What the habit `list-copied` guards and copies; `list` shares what does not change.
    guarded: Mutex<Vec<Valve>>,
    shared: Arc<Vec<Valve>>,
    /// Connections of the client that blocks, to be used again.
    idle: Mutex<Vec<TcpStream>>,
    prices: Prices,
}

fn valves() -> Vec<Valve> {
    let one = |number| Valve {
        number,
        name: format!("valve {number}"),
        hall: format!("hall {}", number % 12),
        notes: vec!["open and shut".into(), format!("looked at in turn {}", number % 90)],
    };
    (0..VALVES).map(one).collect()
}

fn shown(valves: &[Valve]) -> String {
    let line = |valve: &Valve| format!("{} {} {} {}\n", valve.number, valve.name, valve.hall, valve.notes.join(", "));
    valves.iter().step_by(valves.len() / SHOWN).map(line).collect()
}

/// A copy of the list, so that the lock is not held while the page is made.
fn catalogue(shop: &Shop) -> Vec<Valve> {
    shop.guarded.lock().unwrap().clone()
}

/// Asks the price service through a client that waits in its thread.
fn price_blocking(shop: &Shop) -> std::io::Result<String> {
    let kept = shop.idle.lock().unwrap().pop();
    let mut stream = match kept {
        Some(stream) => stream,
        None => TcpStream::connect(("127.0.0.1", shop.backend_port))?,
    };
    stream.write_all(b"GET / HTTP/1.1\r\nHost: prices\r\n\r\n")?;
    let mut answer = [0; 16 << 10];
    let got = stream.read(&mut answer)?;
    shop.idle.lock().unwrap().push(stream);
    Ok(format!("price of {got} bytes\n"))
}

async fn price(shop: &Shop) -> hyper::Result<String> {
    let got = fetch(shop).await?.len();
    Ok(format!("price of {got} bytes\n"))
}

async fn fetch(shop: &Shop) -> hyper::Result<Vec<u8>> {
    let answer = shop.client.get(shop.backend.clone()).await?;
    Ok(body::to_bytes(answer.into_body()).await?.to_vec())
}

/// Keeps the prices new. The habit `prices-locked` asks for them while it holds the lock that every page reads under.
async fn refresh(shop: Arc<Shop>) {
    loop {
        tokio::time::sleep(REFRESHED_EVERY).await;
        if shop.habit == "prices-locked" {
            let mut prices = shop.prices.write().await;
            if let Ok(new) = fetch(&shop).await {
                *prices = new;
            }
        } else if let Ok(new) = fetch(&shop).await {
            *shop.prices.write().await = new;
        }
    }
}

async fn page(shop: Arc<Shop>) -> Result<Response<Body>, Infallible> {
    let text = match shop.habit.as_str() {
        "list-copied" => shown(&catalogue(&shop)),
        "list" => shown(&shop.shared),
        "price-blocking" => price_blocking(&shop).unwrap_or_else(|error| error.to_string()),
        "price" => price(&shop).await.unwrap_or_else(|error| error.to_string()),
        "prices-locked" | "prices" => format!("{} bytes of prices\n", shop.prices.read().await.len()),
        _ => "open and shut\n".to_owned(),
    };
    Ok(Response::new(Body::from(text)))
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |at: usize| args.get(at).map_or(0, |text| text.parse().expect("a port"));
    let backend_port: u16 = number(3);
    let shop = Arc::new(Shop {
        habit: args[2].clone(),
        backend: format!("http://127.0.0.1:{backend_port}/").parse().unwrap(),
        backend_port,
        client: Client::new(),
        guarded: Mutex::new(valves()),
        shared: Arc::new(valves()),
        idle: Mutex::default(),
        prices: Prices::default(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        if shop.habit.starts_with("prices") {
            tokio::spawn(refresh(shop.clone()));
        }
        let service = make_service_fn(move |_| {
            let shop = shop.clone();
            async move { Ok::<_, Infallible>(service_fn(move |_| page(shop.clone()))) }
        });
        let address: SocketAddr = ([127, 0, 0, 1], number(1)).into();
        Server::bind(&address).tcp_nodelay(true).serve(service).await.unwrap();
    });
}
