//! TLS by rustls, as a transport over a transport.
//!
//! The handshake belongs to opening: the loop hears of [`Event::Opened`] when requests can be sent. Each
//! load thread has its own session cache, so that threads share no lock. rustls allocates records and
//! handshakes; the rule that a load thread allocates nothing holds for plain connections.

use super::{
    Detail, Event, Failure, Generation, Handshakes, Received, Slot, Tagged, Transport, Want,
};
use record::{Close, FailureKind};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, HandshakeKind, RootCertStore, SignatureScheme};
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

/// Ciphertext that is taken in at once: a full record.
const CIPHER_BYTES: usize = 16 * 1024;
/// Plaintext is lent out of one buffer of this size: what is taken in at once, and a record that was
/// nearly complete before, fit easily.
const PLAIN_BYTES: usize = 64 * 1024;
/// Sessions that a thread remembers for one server.
const SESSIONS: usize = 256;

/// What was found of the system's root certificates.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    /// Certificates that can be used.
    pub found: usize,
    /// Why others cannot.
    pub complaints: Vec<String>,
}

/// Whom a client trusts, and who it is.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    /// Any certificate will do.
    pub insecure: bool,
    /// In place of the system's.
    pub authorities: Option<Vec<CertificateDer<'static>>>,
    /// The client's own certificates and key.
    pub identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
}

/// A client's configuration: ALPN `http/1.1`, the system's roots unless it is told otherwise.
pub(crate) fn client_config(trust: Trust) -> Result<(ClientConfig, Roots), rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let mut system = Roots::default();
    let builder = if trust.insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustAnyone(provider)))
    } else {
        let certificates = trust.authorities.unwrap_or_else(|| {
            let found = rustls_native_certs::load_native_certs();
            system.complaints = found.errors.iter().map(ToString::to_string).collect();
            found.certs
        });
        let mut roots = RootCertStore::empty();
        (system.found, _) = roots.add_parsable_certificates(certificates);
        builder.with_root_certificates(roots)
    };
    let mut config = match trust.identity {
        Some((certificates, key)) => builder.with_client_auth_cert(certificates, key)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((config, system))
}

/// The verifier of `--insecure`: any certificate will do, but the handshake's signature must still fit
/// it, which costs the same as in a real load.
#[derive(Debug)]
struct TrustAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

struct Session {
    tls: ClientConnection,
    opened: bool,
    /// The transport below may have more, by its own word.
    more_below: bool,
}

/// The transport; see the module.
pub(crate) struct Tls<T> {
    inner: T,
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
    sessions: Vec<Option<Session>>,
    plain: Box<[u8]>,
    /// Gathers the records of one flight, so that they leave in one call.
    flight: Vec<u8>,
    /// Events of the transport below, kept between calls for its capacity.
    below: Vec<Tagged>,
    handshakes: Handshakes,
}

impl<T: Transport> Tls<T> {
    /// TLS over `inner`; where sessions are to be resumed, with a cache of its own.
    pub fn new(
        inner: T,
        slots: u32,
        config: &ClientConfig,
        server: ServerName<'static>,
        resumes: bool,
    ) -> Self {
        let mut config = config.clone();
        config.resumption = if resumes {
            Resumption::in_memory_sessions(SESSIONS)
        } else {
            Resumption::disabled()
        };
        Tls {
            inner,
            config: Arc::new(config),
            server,
            sessions: (0..slots).map(|_| None).collect(),
            plain: vec![0; PLAIN_BYTES].into_boxed_slice(),
            flight: Vec::with_capacity(32 * 1024),
            below: Vec::with_capacity(1024),
            handshakes: Handshakes::default(),
        }
    }

    fn session(&mut self, slot: Slot) -> Result<&mut Session, Failure> {
        self.sessions[slot as usize]
            .as_mut()
            .ok_or_else(|| Failure::text(FailureKind::Io, "TLS: no session in this slot"))
    }

    /// Sends what rustls has ready, as far as the transport takes it.
    fn flush(&mut self, slot: Slot) -> Result<(), Failure> {
        let Some(session) = &mut self.sessions[slot as usize] else {
            return Ok(());
        };
        let mut failure = None;
        while session.tls.wants_write() && failure.is_none() {
            let mut pipe = Pipe {
                inner: &mut self.inner,
                slot,
                flight: &mut self.flight,
                failure: &mut failure,
            };
            // Pipe never fails; it keeps the failure and says that nothing was taken.
            if !matches!(session.tls.write_tls(&mut pipe), Ok(1..)) {
                break;
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Feeds what has arrived to rustls, and says what there was to feed. With `plain_len` the plaintext is
    /// moved to the front of the lending buffer as it comes: rustls holds no more than a record of it, and
    /// refuses input beyond that.
    fn feed(&mut self, slot: Slot, mut plain_len: Option<&mut usize>) -> Result<Fed, Failure> {
        let Some(session) = &mut self.sessions[slot as usize] else {
            return Ok(Fed::Blocked);
        };
        let (mut bytes, more) = match self.inner.recv(slot, Want::Bytes(CIPHER_BYTES))? {
            Received::Data { bytes, more } => (bytes, more),
            Received::Discarded { more, .. } => (&[][..], more),
            Received::Blocked | Received::Answer { .. } | Received::Unprocessed(_) => {
                return Ok(Fed::Blocked);
            }
            Received::End { .. } => return Ok(Fed::End),
        };
        session.more_below = more;
        while !bytes.is_empty() {
            if !matches!(session.tls.read_tls(&mut bytes), Ok(1..)) {
                return Err(Failure::text(
                    FailureKind::Tls,
                    "TLS: more data in one flight than the library holds",
                ));
            }
            session.tls.process_new_packets().map_err(refused)?;
            if let Some(len) = &mut plain_len {
                let read = session.tls.reader().read(&mut self.plain[**len..]);
                **len += read.unwrap_or(0);
            }
        }
        Ok(if more { Fed::More } else { Fed::Drained })
    }

    /// Goes on with a handshake; true when it is complete.
    fn shake_hands(&mut self, slot: Slot) -> Result<bool, Failure> {
        loop {
            self.flush(slot)?;
            let fed = match self.feed(slot, None) {
                Ok(fed) => fed,
                Err(failure) => {
                    // The alert that tells the server why.
                    let _ = self.flush(slot);
                    return Err(failure);
                }
            };
            if !self.session(slot)?.tls.is_handshaking() {
                self.flush(slot)?;
                self.note_handshake(slot);
                return Ok(true);
            }
            match fed {
                Fed::End => {
                    return Err(Failure::text(
                        FailureKind::Tls,
                        "TLS: the server closed the connection during the handshake",
                    ));
                }
                Fed::Blocked => return Ok(false),
                Fed::Drained | Fed::More => {}
            }
        }
    }

    fn note_handshake(&mut self, slot: Slot) {
        let Some(session) = &mut self.sessions[slot as usize] else {
            return;
        };
        session.opened = true;
        match session.tls.handshake_kind() {
            Some(HandshakeKind::Resumed) => self.handshakes.resumed += 1,
            _ => self.handshakes.full += 1,
        }
        if let Some(alpn) = session.tls.alpn_protocol()
            && self.handshakes.alpn.as_bytes() != alpn
        {
            self.handshakes.alpn = String::from_utf8_lossy(alpn).into_owned();
        }
    }

    /// What an event of the transport below means above; `None` when the handshake goes on.
    fn translate(&mut self, slot: Slot, event: Event) -> Option<Event> {
        let opened = self.sessions[slot as usize]
            .as_ref()
            .is_some_and(|session| session.opened);
        match event {
            Event::OpenFailed(_) => {
                self.sessions[slot as usize] = None;
                Some(event)
            }
            Event::Ready { writable, .. } if opened => {
                if writable && let Err(failure) = self.flush(slot) {
                    // The receive that follows reports the same broken connection with its cause.
                    debug_assert_ne!(failure.kind, FailureKind::Tls);
                }
                Some(event)
            }
            Event::Joined | Event::Parked => Some(event),
            Event::Opened | Event::Ready { .. } => match self.shake_hands(slot) {
                Ok(true) => Some(Event::Opened),
                Ok(false) => None,
                Err(failure) => {
                    self.inner.close(slot, Close::Fin);
                    self.sessions[slot as usize] = None;
                    Some(Event::OpenFailed(failure))
                }
            },
        }
    }
}

/// What became of an attempt to feed rustls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fed {
    /// Fed; more may be waiting below.
    More,
    /// Fed, nothing more waits.
    Drained,
    Blocked,
    End,
}

fn refused(error: rustls::Error) -> Failure {
    Failure {
        kind: FailureKind::Tls,
        detail: Detail::Tls(Box::new(error)),
    }
}

/// What rustls writes to: one flight, one send.
struct Pipe<'a, T> {
    inner: &'a mut T,
    slot: Slot,
    flight: &'a mut Vec<u8>,
    failure: &'a mut Option<Failure>,
}

impl<T: Transport> Write for Pipe<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.inner.send(self.slot, bytes).unwrap_or_else(|failure| {
            *self.failure = Some(failure);
            0
        }))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if let [one] = parts {
            return self.write(one);
        }
        let mut flight = std::mem::take(self.flight);
        flight.clear();
        for part in parts {
            flight.extend_from_slice(part);
        }
        let written = self.write(&flight);
        *self.flight = flight;
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<T: Transport> Transport for Tls<T> {
    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure> {
        let tls = ClientConnection::new(Arc::clone(&self.config), self.server.clone())
            .map_err(refused)?;
        self.sessions[slot as usize] = Some(Session {
            tls,
            opened: false,
            more_below: false,
        });
        self.inner.open(slot, generation)
    }

    /// rustls takes as much as its buffer has room for. As long as the transport below takes all of that,
    /// no event will come, so this goes on.
    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        let mut sent = 0;
        while sent < bytes.len() {
            let tls = &mut self.session(slot)?.tls;
            let taken = tls.writer().write(&bytes[sent..]).unwrap_or(0);
            sent += taken;
            self.flush(slot)?;
            if taken == 0 || self.session(slot)?.tls.wants_write() {
                break;
            }
        }
        Ok(sent)
    }

    /// The amount wanted is a hint: a record comes whole.
    fn recv(&mut self, slot: Slot, _: Want) -> Result<Received<'_>, Failure> {
        let mut fed = Fed::More;
        let mut len = 0;
        while len == 0 {
            let session = self.sessions[slot as usize]
                .as_mut()
                .ok_or_else(|| Failure::text(FailureKind::Io, "TLS: no session in this slot"))?;
            match session.tls.reader().read(&mut self.plain) {
                Ok(0) => return Ok(Received::End { orderly: true }),
                Ok(held) => len = held,
                Err(_) if fed == Fed::End => return Ok(Received::End { orderly: false }),
                Err(_) if fed != Fed::More => return Ok(Received::Blocked),
                Err(_) => fed = self.feed(slot, Some(&mut len))?,
            }
        }
        let more = self.session(slot)?.more_below;
        let bytes = &self.plain[..len];
        Ok(Received::Data { bytes, more })
    }

    fn close(&mut self, slot: Slot, how: Close) {
        if let Some(session) = &mut self.sessions[slot as usize]
            && session.opened
            && how == Close::Fin
        {
            session.tls.send_close_notify();
            // The connection ends whether or not the server hears of it.
            let _ = self.flush(slot);
        }
        self.sessions[slot as usize] = None;
        self.inner.close(slot, how);
    }

    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure> {
        let mut below = std::mem::take(&mut self.below);
        let waited = self.inner.wait(&mut below, timeout_ns);
        for tagged in below.drain(..) {
            let Tagged {
                slot,
                generation,
                event,
            } = tagged;
            let tag = |event| Tagged {
                slot,
                generation,
                event,
            };
            let translated = self.translate(slot, event);
            let opened = matches!(translated, Some(Event::Opened));
            events.extend(translated.map(tag));
            if opened {
                // Plaintext may have come with the last flight of the handshake.
                let readable = Event::Ready {
                    readable: true,
                    writable: false,
                    hangup: false,
                };
                events.push(tag(readable));
            }
        }
        self.below = below;
        waited
    }

    fn syscalls(&self) -> u64 {
        self.inner.syscalls()
    }

    fn came_at(&self, slot: Slot) -> Option<u64> {
        self.inner.came_at(slot)
    }

    fn spun_ns(&self) -> u64 {
        self.inner.spun_ns()
    }

    fn name(&self) -> String {
        format!("{}+tls", self.inner.name())
    }

    fn counted(&self) -> Option<record::traffic::SideOutcome> {
        self.inner.counted()
    }

    fn alpn(&self, slot: Slot) -> Option<&[u8]> {
        let session = self.sessions[slot as usize].as_ref()?;
        Some(session.tls.alpn_protocol().unwrap_or_default())
    }

    fn handshakes(&self) -> Handshakes {
        self.handshakes.clone()
    }
}
