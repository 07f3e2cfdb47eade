//! TLS of a template: rustls on both sides, without sockets.
//!
//! Ciphertext cannot be made again from its offset, so here, and only here, a connection holds what the peer has not
//! acknowledged. Where no certificate is given one is made for the run, and a client side of the same run trusts it.

use crate::transport::tls::{Trust, client_config};
use record::traffic::TlsSettings;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

/// Plaintext that becomes records at a time.
pub(super) const PLAIN_BYTES: usize = 16 * 1024;
/// Ciphertext of a connection that may wait for its acknowledgement; twice this with the last record.
const HELD_BYTES: usize = 256 * 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Tls {
    client: Option<Arc<ClientConfig>>,
    server: Option<Arc<ServerConfig>>,
    name: ServerName<'static>,
}

impl Tls {
    /// The configurations of the sides that there are.
    pub fn new(
        settings: &TlsSettings,
        target: IpAddr,
        has_client: bool,
        has_server: bool,
        is_http: bool,
    ) -> Result<Self, String> {
        let name = match &settings.server_name {
            Some(name) => ServerName::try_from(name.clone()).map_err(|e| format!("{name}: {e}"))?,
            None => ServerName::IpAddress(target.into()),
        };
        let alpn = if is_http {
            vec![b"http/1.1".to_vec()]
        } else {
            Vec::new()
        };
        let mut made = None;
        let server = has_server.then(|| {
            let (chain, key) = match &settings.certificate {
                Some((chain, key)) => read(chain, key)?,
                None => {
                    let (certificate, key) = self_signed(&name.to_str())?;
                    made = Some(certificate.clone());
                    (vec![certificate], key)
                }
            };
            let mut config = ServerConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .map_err(shown)?
                .with_no_client_auth()
                .with_single_cert(chain, key)
                .map_err(shown)?;
            config.alpn_protocols.clone_from(&alpn);
            Ok::<_, String>(Arc::new(config))
        });
        let server = server.transpose()?;
        let client = has_client.then(|| {
            let mut config = match made {
                Some(certificate) if !settings.insecure => {
                    let mut roots = RootCertStore::empty();
                    roots.add(certificate).map_err(shown)?;
                    ClientConfig::builder_with_provider(provider())
                        .with_safe_default_protocol_versions()
                        .map_err(shown)?
                        .with_root_certificates(roots)
                        .with_no_client_auth()
                }
                _ => {
                    client_config(Trust {
                        insecure: settings.insecure,
                        ..Trust::default()
                    })
                    .map_err(shown)?
                    .0
                }
            };
            config.alpn_protocols.clone_from(&alpn);
            Ok::<_, String>(Arc::new(config))
        });
        Ok(Tls {
            client: client.transpose()?,
            server,
            name,
        })
    }

    /// A new session of a client; `None` where the run has no client side.
    pub fn client(&self) -> Option<Session> {
        let config = Arc::clone(self.client.as_ref()?);
        let tls = ClientConnection::new(config, self.name.clone()).ok()?;
        Some(Session::new(tls.into()))
    }

    /// A new session of a server; `None` where the run has no server side.
    pub fn server(&self) -> Option<Session> {
        let config = Arc::clone(self.server.as_ref()?);
        Some(Session::new(ServerConnection::new(config).ok()?.into()))
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it is what `map_err` hands over"
)]
fn shown(error: rustls::Error) -> String {
    error.to_string()
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read(chain: &str, key: &str) -> Result<Identity, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let chain = chain.map_err(|e| format!("reading the certificate chain: {e}"))?;
    if chain.is_empty() {
        return Err("reading the certificate chain: there is no certificate in it".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
    Ok((chain, key.map_err(|e| format!("reading the key: {e}"))?))
}

fn self_signed(name: &str) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), String> {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]);
    let made = made.map_err(|e| format!("making a certificate: {e}"))?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    Ok((made.cert.der().clone(), key))
}

/// One connection's TLS.
pub(super) struct Session {
    tls: Connection,
    /// Ciphertext that was not acknowledged yet, and where it begins in the stream.
    held: VecDeque<u8>,
    held_from: u64,
    /// Where the ciphertext ends that the stack was told of.
    pub promised: u64,
    /// The program above knows that the handshake is done.
    pub is_told: bool,
    /// The peer has said that it sends no more.
    pub has_ended: bool,
}

impl Session {
    fn new(mut tls: Connection) -> Self {
        tls.set_buffer_limit(None);
        Session {
            tls,
            held: VecDeque::new(),
            held_from: 0,
            promised: 0,
            is_told: false,
            has_ended: false,
        }
    }

    /// The handshake goes on.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Where the ciphertext ends that there is.
    pub fn end(&self) -> u64 {
        self.held_from + self.held.len() as u64
    }

    /// More plaintext may be taken.
    pub fn has_room(&self) -> bool {
        self.held.len() < HELD_BYTES
    }

    /// Takes ciphertext; `plain` gets what it says, as far as it fits, and how many bytes that were. What is left of
    /// `bytes` comes with the next call.
    pub fn receive(&mut self, bytes: &mut &[u8], plain: &mut [u8]) -> Result<usize, rustls::Error> {
        if !bytes.is_empty() && self.tls.wants_read() {
            // Reading from a slice cannot fail; 0 is an end that TLS does not accept yet.
            let _ = self.tls.read_tls(bytes);
        }
        let state = self.tls.process_new_packets();
        self.take_records();
        let state = state?;
        self.has_ended |= state.peer_has_closed();
        Ok(self.tls.reader().read(plain).unwrap_or(0))
    }

    /// Makes records of plaintext.
    pub fn send(&mut self, plain: &[u8]) {
        // Without a limit all of it is taken.
        let _ = self.tls.writer().write_all(plain);
        self.take_records();
    }

    /// Says that we send no more.
    pub fn end_sending(&mut self) {
        self.tls.send_close_notify();
        self.take_records();
    }

    fn take_records(&mut self) {
        while self.tls.wants_write() {
            if !matches!(self.tls.write_tls(&mut self.held), Ok(1..)) {
                return;
            }
        }
    }

    /// Lets go of what was acknowledged.
    pub fn acknowledged(&mut self, offset: u64) {
        let done = offset.saturating_sub(self.held_from);
        let done = done.min(self.held.len() as u64);
        self.held.drain(..done as usize);
        self.held_from += done;
    }

    /// Begins the handshake: the client's first flight.
    pub fn begin(&mut self) {
        self.take_records();
    }

    /// Copies ciphertext from `offset` on.
    pub fn fill(&self, offset: u64, into: &mut [u8]) {
        let at = offset.saturating_sub(self.held_from) as usize;
        let (a, b) = self.held.as_slices();
        let first = a.get(at..).unwrap_or_default();
        let len = first.len().min(into.len());
        into[..len].copy_from_slice(&first[..len]);
        let rest = &mut into[len..];
        let from = at.saturating_sub(a.len()).min(b.len());
        let len = rest.len().min(b.len() - from);
        rest[..len].copy_from_slice(&b[from..from + len]);
    }
}
