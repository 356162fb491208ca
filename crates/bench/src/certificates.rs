//! Certificates for one run: an authority, a server on the loopback address, a client. They are thrown away with their
//! directory. Elliptic curves, because handshakes are not what is measured.

use std::fs;
use std::path::{Path, PathBuf};

use api::client::tls::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};

#[derive(Clone, Debug)]
pub struct Certificates {
    dir: PathBuf,
}

impl Certificates {
    /// Writes them into a directory that exists.
    pub fn create(dir: &Path) -> anyhow::Result<Self> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        fs::write(dir.join("ca.crt"), authority.self_signed(&key)?.pem())?;
        let issuer = Issuer::new(authority, key);
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let ends = [("server", ExtendedKeyUsagePurpose::ServerAuth), ("client", ExtendedKeyUsagePurpose::ClientAuth)];
        for (name, usage) in ends {
            let mut params = CertificateParams::new(names.clone())?;
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate()?;
            fs::write(dir.join(format!("{name}.crt")), params.signed_by(&key, &issuer)?.pem())?;
            fs::write(dir.join(format!("{name}.key")), key.serialize_pem())?;
        }
        Ok(Self { dir: dir.to_owned() })
    }

    pub fn ca(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub fn server(&self) -> (PathBuf, PathBuf) {
        (self.dir.join("server.crt"), self.dir.join("server.key"))
    }

    pub fn client(&self) -> TlsFiles {
        let (cert, key) = (self.dir.join("client.crt"), self.dir.join("client.key"));
        TlsFiles { ca: self.ca(), cert, key, skip_verify: false }
    }
}
