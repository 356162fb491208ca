//! Mutual TLS: who gets in, and that those who do not leave the others alone.

use std::sync::Arc;
use std::time::Duration;

use api::client::tls::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, PKCS_RSA_SHA256};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use crate::harness::{Server, client};
use crate::{raw, samples};

/// An authority with RSA keys: the two TLS 1.2 suites of the protocol need one on the server.
struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
        std::fs::write(dir.path().join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { dir, issuer: Issuer::new(params, key) }
    }

    fn files(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> TlsFiles {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
        let path = |suffix: &str| self.dir.path().join(format!("{name}{suffix}"));
        std::fs::write(path(".crt"), params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        std::fs::write(path(".key"), key.serialize_pem()).unwrap();
        TlsFiles { ca: self.dir.path().join("ca.crt"), cert: path(".crt"), key: path(".key"), skip_verify: false }
    }
}

struct Guarded {
    server: Server,
    authority: Authority,
    known: TlsFiles,
}

impl Guarded {
    async fn new() -> Self {
        let authority = Authority::new();
        let files = authority.files("server", ExtendedKeyUsagePurpose::ServerAuth);
        let known = authority.files("client", ExtendedKeyUsagePurpose::ClientAuth);
        let server = Server::with(|config| {
            config.tls = Some(files);
            config.limits.handshake_timeout = Duration::from_millis(500);
        })
        .await;
        Self { server, authority, known }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.server.ready.api.port())
    }

    async fn still_serves(&self) {
        assert!(client(&self.url(), Some(self.known.clone())).ping().await.unwrap());
    }

    /// One ping by hand under the given configuration.
    async fn ping(&self, config: rustls::ClientConfig) -> std::io::Result<String> {
        let stream = raw::connect(self.server.ready.api).await;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.write_all(&raw::request("POST", "/v1/ping", "", b"")).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(String::from_utf8(answer).unwrap())
    }

    fn config(&self, version: &'static rustls::SupportedProtocolVersion, known: bool) -> rustls::ClientConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(rustls::pki_types::CertificateDer::from_pem_file(&self.known.ca).unwrap()).unwrap();
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        if !known {
            return builder.with_no_client_auth();
        }
        let cert = rustls::pki_types::CertificateDer::from_pem_file(&self.known.cert).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::from_pem_file(&self.known.key).unwrap();
        builder.with_client_auth_cert(vec![cert], key).unwrap()
    }
}

#[tokio::test]
async fn a_known_client_calls_and_subscribes() {
    let guarded = Guarded::new().await;
    assert!(guarded.server.ready.tls);
    let client = client(&guarded.url(), Some(guarded.known.clone()));
    let mut events = client.subscribe_to_task_events(Default::default()).await.unwrap();
    client.desire_task("t", "d", samples::task()).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().name, "task_created");
    assert_eq!(client.tasks(Default::default()).await.unwrap().len(), 1);
    guarded.server.stop().await;
    assert!(events.next().await.unwrap().is_none(), "an orderly end");
}

#[tokio::test]
async fn both_versions_are_spoken_and_no_protocol_is_negotiated() {
    let guarded = Guarded::new().await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut config = guarded.config(version, true);
        let answer = guarded.ping(config.clone()).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\x08\x01"), "{answer}");
        config.alpn_protocols = vec![b"h2".to_vec()];
        let answer = guarded.ping(config).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "HTTP/2 is not offered, whoever asks for it");
    }
}

#[tokio::test]
async fn strangers_are_refused() {
    let guarded = Guarded::new().await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        assert!(guarded.ping(guarded.config(version, false)).await.is_err(), "without a certificate");
    }
    let other = Authority::new();
    let mut forged = other.files("forged", ExtendedKeyUsagePurpose::ClientAuth);
    forged.ca = guarded.known.ca.clone();
    assert!(client(&guarded.url(), Some(forged)).ping().await.is_err(), "signed by somebody else");
    let wrong_use = guarded.authority.files("wrong-use", ExtendedKeyUsagePurpose::ServerAuth);
    assert!(client(&guarded.url(), Some(wrong_use)).ping().await.is_err(), "a certificate for servers only");
    guarded.still_serves().await;
}

/// A client hello that offers at most the given version, with one old suite.
fn hello(version: [u8; 2]) -> Vec<u8> {
    let body = [&version[..], &[7; 32], &[0], &[0, 2, 0xc0, 0x14], &[1, 0]].concat();
    let handshake = [&[1, 0, 0, u8::try_from(body.len()).unwrap()][..], &body].concat();
    [&[0x16, 3, 1, 0, u8::try_from(handshake.len()).unwrap()][..], &handshake].concat()
}

#[tokio::test]
async fn old_versions_plain_text_and_noise_get_nowhere() {
    const ALERT: u8 = 0x15;
    let guarded = Guarded::new().await;
    let plain = raw::request("POST", "/v1/ping", "", b"");
    for (what, bytes) in [
        ("SSL 3.0", hello([3, 0])),
        ("TLS 1.0", hello([3, 1])),
        ("TLS 1.1", hello([3, 2])),
        ("plain HTTP", plain),
        ("noise", vec![0xff; 4096]),
    ] {
        let mut stream = raw::connect(guarded.server.ready.api).await;
        stream.write_all(&bytes).await.unwrap();
        let answer = raw::read_to_end(&mut stream).await;
        assert!(answer.first().is_none_or(|first| *first == ALERT), "{what}: {answer:?}");
    }
    // Says nothing at all: given up after the time for a handshake.
    assert_eq!(raw::read_to_end(&mut raw::connect(guarded.server.ready.api).await).await, b"");
    guarded.still_serves().await;
}
