//! TLS on both sides: who is accepted and how a refusal looks.

use std::sync::Arc;

use api::client::tls::{TlsFiles, client_config, server_config};
use api::client::{Client, ClientConfig, ClientError, OperatorError, Question, TransportKind};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CipherSuite, HandshakeKind};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::server::{Reply, Server, protobuf};

/// Two authorities, `good` and `other`, each with a certificate for a server and one for a client.
pub(crate) struct Pki {
    dir: TempDir,
}

impl Pki {
    pub(crate) fn new() -> Self {
        Self::with_keys(|| KeyPair::generate().unwrap())
    }

    fn with_keys(generate: impl Fn() -> KeyPair) -> Self {
        let dir = TempDir::new().unwrap();
        for name in ["good", "other"] {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let ca = CertifiedIssuer::self_signed(params, generate()).unwrap();
            std::fs::write(dir.path().join(format!("{name}-ca.crt")), ca.pem()).unwrap();
            for (role, usage) in
                [("server", ExtendedKeyUsagePurpose::ServerAuth), ("client", ExtendedKeyUsagePurpose::ClientAuth)]
            {
                let key = generate();
                let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
                params.extended_key_usages = vec![usage];
                let cert = params.signed_by(&key, &ca).unwrap();
                std::fs::write(dir.path().join(format!("{name}-{role}.crt")), cert.pem()).unwrap();
                std::fs::write(dir.path().join(format!("{name}-{role}.key")), key.serialize_pem()).unwrap();
            }
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) async fn server(&self) -> Server {
        self.server_with(vec![protobuf(&[0x08, 0x01])]).await
    }

    pub(crate) async fn server_with(&self, replies: Vec<Reply>) -> Server {
        let (ca, cert, key) = (self.path("good-ca.crt"), self.path("good-server.crt"), self.path("good-server.key"));
        let config = server_config(&ca, &cert, &key).unwrap();
        assert!(config.alpn_protocols.is_empty());
        Server::start_with(replies, Some(TlsAcceptor::from(config))).await
    }

    pub(crate) fn files(&self, who: &str, trusts: &str, skip_verify: bool) -> TlsFiles {
        TlsFiles {
            ca: self.path(&format!("{trusts}-ca.crt")),
            cert: self.path(&format!("{who}.crt")),
            key: self.path(&format!("{who}.key")),
            skip_verify,
        }
    }

    fn client(&self, server: &Server, host: &str, who: &str, trusts: &str, skip_verify: bool) -> Client {
        let tls = Some(self.files(who, trusts, skip_verify));
        let url = format!("https://{host}:{}", server.port);
        Client::new(ClientConfig { tls, ..ClientConfig::once(url, None) }).unwrap()
    }
}

async fn is_refused(client: &Client) {
    match client.ping().await.unwrap_err() {
        ClientError::Transport { kind: TransportKind::Tls, .. } => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_right_certificates_are_accepted_and_the_connection_kept() {
    let pki = Pki::new();
    let server = pki.server().await;
    let client = pki.client(&server, "localhost", "good-client", "good", false);
    assert!(client.ping().await.unwrap());
    assert!(client.ping().await.unwrap());
    assert_eq!(server.connections(), 1);
}

/// Questions of the operator go the same way as calls, and show the same certificate.
#[tokio::test]
async fn operators_are_known_by_the_same_certificate() {
    let pki = Pki::new();
    let server = pki.server().await;
    let question = Question::get("/corkboard/v1/status", &[]);
    let known = pki.client(&server, "localhost", "good-client", "good", false);
    assert!(known.ping().await.unwrap());
    known.ask(&question).await.unwrap();
    assert_eq!(server.connections(), 1);
    let stranger = pki.client(&server, "localhost", "other-client", "good", false);
    let error = stranger.ask(&question).await.unwrap_err();
    assert!(matches!(error, OperatorError::Transport { kind: TransportKind::Tls, .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_we_do_not_trust_is_refused_unless_told_otherwise() {
    let pki = Pki::new();
    let server = pki.server().await;
    is_refused(&pki.client(&server, "localhost", "good-client", "other", false)).await;
    is_refused(&pki.client(&server, "127.0.0.1", "good-client", "good", false)).await;
    assert!(pki.client(&server, "127.0.0.1", "good-client", "other", true).ping().await.unwrap());
}

#[tokio::test]
async fn a_client_that_the_server_does_not_trust_is_refused() {
    let pki = Pki::new();
    let server = pki.server().await;
    is_refused(&pki.client(&server, "localhost", "other-client", "good", false)).await;
    is_refused(&pki.client(&server, "localhost", "good-server", "good", false)).await;
    assert_eq!(server.requests().len(), 0, "not one request was read");
}

/// Connects, makes a call by hand so that the session tickets are read too, and says how the handshake went.
async fn handshake(config: &Arc<rustls::ClientConfig>, server: &Server) -> (HandshakeKind, CipherSuite) {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await.unwrap();
    stream.write_all(b"POST /v1/ping HTTP/1.1\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    stream.read_u8().await.unwrap();
    let connection = stream.get_ref().1;
    (connection.handshake_kind().unwrap(), connection.negotiated_cipher_suite().unwrap().suite())
}

#[tokio::test]
async fn sessions_are_resumed() {
    let pki = Pki::new();
    let server = pki.server().await;
    let config = client_config(&pki.files("good-client", "good", false)).unwrap();
    assert_eq!(handshake(&config, &server).await.0, HandshakeKind::Full);
    assert_eq!(handshake(&config, &server).await.0, HandshakeKind::Resumed);
}

#[tokio::test]
async fn a_peer_that_knows_only_tls_1_2_is_served_with_diegos_suites() {
    let pki = Pki::with_keys(|| KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap());
    let server = pki.server().await;
    let mut config = Arc::unwrap_or_clone(client_config(&pki.files("good-client", "good", false)).unwrap());
    config.resumption = rustls::client::Resumption::disabled();
    let newest = handshake(&Arc::new(config.clone()), &server).await.1;
    assert_eq!(newest.as_str().map(|name| name.starts_with("TLS13_")), Some(true), "{newest:?}");

    let builder = rustls::ClientConfig::builder_with_provider(rustls::crypto::aws_lc_rs::default_provider().into())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.path("good-ca.crt")).unwrap()).unwrap();
    let cert = CertificateDer::from_pem_file(pki.path("good-client.crt")).unwrap();
    let key = PrivateKeyDer::from_pem_file(pki.path("good-client.key")).unwrap();
    let config = builder.with_root_certificates(roots).with_client_auth_cert(vec![cert], key).unwrap();
    let oldest = handshake(&Arc::new(config), &server).await.1;
    assert!(
        [CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
            .contains(&oldest),
        "{oldest:?}"
    );
}

#[tokio::test]
async fn without_tls_a_tls_server_cannot_be_reached() {
    let pki = Pki::new();
    let server = pki.server().await;
    assert!(matches!(server.client().ping().await, Err(ClientError::Transport { .. })));
}
