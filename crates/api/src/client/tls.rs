//! TLS as Diego's components use it: certificates on both sides, versions 1.2 and 1.3 only.
//!
//! Other programs of the workspace build their TLS here too, so that the choice of suites is made once. TLS 1.2 is
//! limited to the two suites that Diego offers; TLS 1.3 is not limited. The crypto provider is passed explicitly: a
//! process-wide default would depend on who came first. No ALPN is offered, because the protocol is HTTP/1.1.
//!
//! Files are read when a configuration is built; a program that wants new certificates builds a new configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{CipherSuite, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

/// Sessions that a server remembers for resumption; the oldest is forgotten first.
const SESSIONS_REMEMBERED_MAX: usize = 1024;

const TLS12_SUITES: [CipherSuite; 2] =
    [CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256];

/// Where a client finds its certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authority that must have signed the server's certificate. May hold several.
    pub ca: PathBuf,
    /// Our certificate, followed by intermediate ones.
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Do not check who the server is. The traffic is still encrypted, but anybody may be at the other end.
    pub skip_verify: bool,
}

/// What is wrong with the TLS files. Nothing was started or changed; correct the file and try again.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} is not a well-formed PEM file")]
    Pem {
        path: PathBuf,
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    #[error("{path} holds no certificate; expected a PEM section BEGIN CERTIFICATE")]
    NoCertificate { path: PathBuf },
    #[error("{path} holds no private key; expected a PEM section BEGIN PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY")]
    NoKey { path: PathBuf },
    #[error("{path} holds a certificate authority that cannot be used")]
    Authority {
        path: PathBuf,
        #[source]
        source: rustls::Error,
    },
    #[error("the key in {key} does not belong to the certificate in {cert}")]
    KeyMismatch { cert: PathBuf, key: PathBuf },
    #[error("the certificate in {cert} or the key in {key} cannot be used")]
    Unusable {
        cert: PathBuf,
        key: PathBuf,
        #[source]
        source: rustls::Error,
    },
    #[error("clients cannot be verified with the authority in {path}")]
    Verifier {
        path: PathBuf,
        #[source]
        source: rustls::server::VerifierBuilderError,
    },
    #[error("this build of the TLS library lacks a protocol version that is needed")]
    Library(#[source] rustls::Error),
}

/// The client's side: presents our certificate, verifies the server's chain and name.
pub fn client_config(files: &TlsFiles) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(TlsError::Library)?;
    // The authority is read even when it is not used, so that a wrong path does not stay hidden.
    let roots = authorities(&files.ca)?;
    let builder = if files.skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
    } else {
        builder.with_root_certificates(roots)
    };
    let config = builder
        .with_client_auth_cert(certificates(&files.cert)?, private_key(&files.key)?)
        .map_err(|source| pair_error(&files.cert, &files.key, source))?;
    Ok(Arc::new(config))
}

/// The server's side: a client certificate signed by the authority is required.
pub fn server_config(ca: &Path, cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = provider();
    let verifier = WebPkiClientVerifier::builder_with_provider(authorities(ca)?.into(), Arc::clone(&provider))
        .build()
        .map_err(|source| TlsError::Verifier { path: ca.to_owned(), source })?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(TlsError::Library)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(cert)?, private_key(key)?)
        .map_err(|source| pair_error(cert, key, source))?;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS_REMEMBERED_MAX);
    Ok(Arc::new(config))
}

/// The side of a server that is for everybody: it shows a certificate and asks for none.
pub fn public_server_config(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(TlsError::Library)?
        .with_no_client_auth()
        .with_single_cert(certificates(cert)?, private_key(key)?)
        .map_err(|source| pair_error(cert, key, source))?;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS_REMEMBERED_MAX);
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| suite.tls13().is_some() || TLS12_SUITES.contains(&suite.suite()));
    Arc::new(provider)
}

/// The certificates of those that a file says are to be trusted.
pub fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|source| TlsError::Authority { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|source| TlsError::Pem { path: path.to_owned(), source })?;
    if found.is_empty() { Err(TlsError::NoCertificate { path: path.to_owned() }) } else { Ok(found) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|source| match source {
        rustls::pki_types::pem::Error::NoItemsFound => TlsError::NoKey { path: path.to_owned() },
        source => TlsError::Pem { path: path.to_owned(), source },
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

fn pair_error(cert: &Path, key: &Path, source: rustls::Error) -> TlsError {
    let (cert, key) = (cert.to_owned(), key.to_owned());
    match source {
        rustls::Error::InconsistentKeys(_) => TlsError::KeyMismatch { cert, key },
        source => TlsError::Unusable { cert, key, source },
    }
}

/// Accepts whatever certificate the server shows, but still checks that the server holds its key.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::*;

    struct Pki {
        dir: TempDir,
    }

    impl Pki {
        /// Two self-signed pairs, `a` and `b`.
        fn new() -> Self {
            let dir = TempDir::new().unwrap();
            for name in ["a", "b"] {
                let key = KeyPair::generate().unwrap();
                let cert = CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
                std::fs::write(dir.path().join(format!("{name}.crt")), cert.pem()).unwrap();
                std::fs::write(dir.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
            }
            std::fs::write(dir.path().join("empty"), "").unwrap();
            std::fs::write(dir.path().join("cut"), "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
            Self { dir }
        }

        fn complaint(&self, ca: &str, cert: &str, key: &str) -> String {
            let path = |name: &str| self.dir.path().join(name);
            let files = TlsFiles { ca: path(ca), cert: path(cert), key: path(key), skip_verify: false };
            let client = client_config(&files).map(|_| ()).map_err(|error| error.to_string());
            let server =
                server_config(&files.ca, &files.cert, &files.key).map(|_| ()).map_err(|error| error.to_string());
            assert_eq!(client, server, "both sides complain alike");
            client.map_or_else(|text| text.replace(&format!("{}/", self.dir.path().display()), ""), |()| "fine".into())
        }
    }

    #[test]
    fn errors_name_the_file_and_what_is_wrong_with_it() {
        let pki = Pki::new();
        assert_eq!(pki.complaint("a.crt", "a.crt", "a.key"), "fine");
        assert_eq!(pki.complaint("none", "a.crt", "a.key"), "cannot read none");
        assert_eq!(
            pki.complaint("a.crt", "empty", "a.key"),
            "empty holds no certificate; expected a PEM section BEGIN CERTIFICATE"
        );
        assert!(pki.complaint("a.crt", "a.crt", "a.crt").starts_with("a.crt holds no private key"));
        assert_eq!(pki.complaint("cut", "a.crt", "a.key"), "cut is not a well-formed PEM file");
        assert_eq!(
            pki.complaint("a.crt", "a.crt", "b.key"),
            "the key in b.key does not belong to the certificate in a.crt"
        );
    }

    #[test]
    fn the_suites_are_diegos() {
        let mut old: Vec<_> =
            provider().cipher_suites.iter().filter(|s| s.tls13().is_none()).map(|s| s.suite()).collect();
        old.sort_by_key(|suite| u16::from(*suite));
        assert_eq!(
            old,
            [CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]
        );
        assert!(provider().cipher_suites.iter().any(|suite| suite.tls13().is_some()));
    }
}
