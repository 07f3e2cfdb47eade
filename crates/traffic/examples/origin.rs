//! The origin by hand: `cargo run --release -p traffic --example origin -- LISTEN [KEY=VALUE]...`, where
//! the keys are `threads`, `cpu` (repeatable), `body`, `files`, `delay`, `freeze` and `close_after`.
//! It serves until its input ends and prints its counters then.

// An example talks to a person; only the `prony` crate does so in the product.
#![allow(clippy::print_stdout)]

use record::parse_bytes;
use std::error::Error;
use std::io::Read;
use traffic::origin::{Origin, OriginSpec};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let listen = words.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let mut spec = OriginSpec::new(listen.parse()?);
    for word in words {
        set(&mut spec, &word)?;
    }
    let origin = Origin::start(&spec)?;
    println!("listening on {}", origin.address());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{}", serde_json::to_string_pretty(&origin.stop())?);
    Ok(())
}

fn set(spec: &mut OriginSpec, word: &str) -> Result<(), Box<dyn Error>> {
    let (key, value) = word.split_once('=').ok_or("an option is KEY=VALUE")?;
    match key {
        "threads" => spec.threads = value.parse()?,
        "cpu" => spec.cpus.push(value.parse()?),
        "body" => spec.body = parse_bytes(value)?,
        "files" => spec.files = Some(value.into()),
        "delay" => spec.delay = Some(value.parse()?),
        "freeze" => spec.freeze = Some(value.parse()?),
        "close_after" => spec.close_after = Some(value.parse()?),
        _ => return Err(format!("unknown option `{key}`").into()),
    }
    Ok(())
}
