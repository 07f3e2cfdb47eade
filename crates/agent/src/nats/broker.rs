//! A connection to a broker, on a thread with the runtime that its client needs. It lives once: the client would
//! connect anew and go on, and a load that was lost would be alive again.

use super::{Access, BrokerError};
use crate::BEAT;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use futures_util::StreamExt;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;

/// What is under way at the end of a connection is waited for so long.
const FLUSH: Duration = Duration::from_secs(1);
/// From the first packet to the broker's word that we may speak.
const CONNECT: Duration = Duration::from_secs(10);
/// The client connects anew after so long, which is never.
const NEVER: Duration = Duration::from_secs(1 << 30);
/// A message smaller than this would be mostly head.
const PAYLOAD_MIN: usize = 1_024;

/// What comes of a connection.
pub(super) enum Came {
    /// A message of a subject that was subscribed to.
    Said { subject: String, payload: Vec<u8> },
    /// Nothing comes any more, and why.
    Gone(String),
}

/// Who takes it, on the connection's own thread: must not wait.
pub(super) type Take = Arc<dyn Fn(Came) + Send + Sync>;

enum Op {
    Publish { subject: String, payload: Vec<u8> },
    End,
}

/// A connection; flushed and ended when it is dropped, which must not be on its own thread.
pub(super) struct Broker {
    ops: mpsc::UnboundedSender<Op>,
    /// Bytes that a message may have.
    pub max_payload: usize,
    thread: Option<JoinHandle<()>>,
}

/// Hands messages to a connection, for as long as it lives.
#[derive(Clone)]
pub(super) struct Publisher(mpsc::UnboundedSender<Op>);

impl Publisher {
    /// Without waiting. What is handed on after the end of the connection is lost, as anything over it may be.
    pub fn publish(&self, subject: &str, payload: Vec<u8>) {
        let subject = subject.to_owned();
        // Whoever waits for an answer hears of the end otherwise.
        let _ = self.0.send(Op::Publish { subject, payload });
    }
}

impl Broker {
    /// Connects, and subscribes to `subjects`.
    ///
    /// # Errors
    /// [`BrokerError`] of the connection; what the broker does not permit is told later.
    pub fn connect(
        access: &Access,
        subjects: Vec<String>,
        take: Take,
    ) -> Result<Self, BrokerError> {
        let refused = |what: String| access.refused(what, "");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| refused(format!("making its thread: {e}")))?;
        let (ops, asked) = mpsc::unbounded_channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let with = access.clone();
        let serve = move || {
            runtime.block_on(async {
                let (gone, was_gone) = mpsc::unbounded_channel();
                match connected(&with, &subjects, &take, gone).await {
                    Ok(client) => {
                        let _ = ready.send(Ok(client.server_info().max_payload));
                        if let Some(why) = carry(&client, asked, was_gone).await {
                            take(Came::Gone(why));
                        }
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                    }
                }
            });
        };
        let thread = std::thread::Builder::new().name("nats".to_owned());
        let thread = thread
            .spawn(serve)
            .map_err(|e| refused(format!("making its thread: {e}")))?;
        let mut broker = Self {
            ops,
            max_payload: 0,
            thread: Some(thread),
        };
        let ended = || refused("the connection ended while it was made".to_owned());
        broker.max_payload = is_ready.recv().map_err(|_| ended())??;
        if broker.max_payload < PAYLOAD_MIN {
            return Err(access.refused(
                format!(
                    "carries messages of {} bytes at most, and {PAYLOAD_MIN} are needed",
                    broker.max_payload
                ),
                "raise max_payload in its configuration",
            ));
        }
        Ok(broker)
    }

    /// What hands messages to it.
    pub fn publisher(&self) -> Publisher {
        Publisher(self.ops.clone())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.ops.send(Op::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn connected(
    access: &Access,
    subjects: &[String],
    take: &Take,
    gone: mpsc::UnboundedSender<String>,
) -> Result<Client, BrokerError> {
    let is_connected = Arc::new(AtomicBool::new(false));
    let was_connected = Arc::clone(&is_connected);
    let options = options(access)?
        .ping_interval(BEAT)
        .connection_timeout(CONNECT)
        // One that the broker names may not be reachable from here.
        .ignore_discovered_servers()
        .reconnect_delay_callback(move |_| match was_connected.load(Relaxed) {
            true => NEVER,
            false => Duration::ZERO,
        })
        .event_callback(move |event| {
            if let Some(why) = ending(&event) {
                let _ = gone.send(why);
            }
            std::future::ready(())
        });
    let client = options.connect(&*access.place.server).await;
    let client = client.map_err(|e| refusal(access, &e))?;
    is_connected.store(true, Relaxed);
    for subject in subjects {
        let subscribed = client.subscribe(subject.clone()).await;
        let mut messages =
            subscribed.map_err(|e| access.refused(format!("subscribing to {subject}: {e}"), ""))?;
        let take = Arc::clone(take);
        tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                take(Came::Said {
                    subject: message.subject.to_string(),
                    payload: message.payload.to_vec(),
                });
            }
        });
    }
    Ok(client)
}

/// Hands on what is to be published; why the connection ended, unless it was asked to.
async fn carry(
    client: &Client,
    mut asked: mpsc::UnboundedReceiver<Op>,
    mut gone: mpsc::UnboundedReceiver<String>,
) -> Option<String> {
    let publish = async {
        while let Some(Op::Publish { subject, payload }) = asked.recv().await {
            if let Err(e) = client.publish(subject, payload.into()).await {
                return Some(e.to_string());
            }
        }
        let _ = tokio::time::timeout(FLUSH, client.flush()).await;
        None
    };
    tokio::select! {
        biased;
        why = gone.recv() => Some(why.unwrap_or_else(|| "is gone".to_owned())),
        ended = publish => ended,
    }
}

/// Words for an event after which nothing can be relied upon.
fn ending(event: &Event) -> Option<String> {
    match event {
        Event::Disconnected | Event::Closed => {
            Some("is gone, or does not answer any more".to_owned())
        }
        Event::ServerError(error) => Some(format!("says: {error}")),
        Event::SlowConsumer(_) => Some("sent more than was taken".to_owned()),
        Event::Connected | Event::LameDuckMode | Event::Draining | Event::ClientError(_) => None,
    }
}

fn options(access: &Access) -> Result<ConnectOptions, BrokerError> {
    let mut options = ConnectOptions::new()
        .name("prony")
        .require_tls(!access.is_plain());
    if let Some(file) = &access.creds {
        let name = file.display();
        let unread = |what: String| {
            let remedy = "give a .creds file, or a file that holds an NKEY seed";
            access.refused(format!("needs the credentials of {name}: {what}"), remedy)
        };
        let text = std::fs::read_to_string(file).map_err(|e| unread(e.to_string()))?;
        let seed = text
            .lines()
            .map(str::trim)
            .find(|line| line.starts_with("SU"));
        options = match (text.contains("USER JWT"), seed) {
            (true, _) => options
                .credentials(&text)
                .map_err(|e| unread(e.to_string()))?,
            (false, Some(seed)) => options.nkey(seed.to_owned()),
            (false, None) => return Err(unread("it holds neither a JWT nor a seed".to_owned())),
        };
    }
    if let Some(ca) = &access.ca {
        options = options.add_root_certificates(ca.clone());
    }
    if let Some((cert, key)) = &access.cert {
        options = options.add_client_certificate(cert.clone(), key.clone());
    }
    Ok(options)
}

/// Why there is no connection, down to the first cause.
fn refusal(access: &Access, error: &async_nats::ConnectError) -> BrokerError {
    let kind = error.kind();
    if matches!(
        kind,
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication
    ) {
        let what = match access.creds {
            Some(_) => "refuses these credentials",
            None => "asks for credentials",
        };
        let remedy = "give those of an account that may be in the fleet: --nats-creds FILE";
        return BrokerError {
            is_final: true,
            ..access.refused(what.to_owned(), remedy)
        };
    }
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let remedy = match access.is_plain() {
        true => "see that a nats-server listens there",
        false => {
            "see that a nats-server listens there and has TLS, by an authority of --nats-ca; for one without, --nats-plain"
        }
    };
    access.refused(format!("cannot be reached: {cause}"), remedy)
}
