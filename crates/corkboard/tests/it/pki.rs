//! Certificates for one test: an authority, a pair for the server and a pair for a client.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

pub(crate) struct Pki {
    pub(crate) dir: TempDir,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let write = |name: &str, text: String| std::fs::write(dir.path().join(name), text).unwrap();
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        write("ca.crt", ca.self_signed(&ca_key).unwrap().pem());
        let issuer = Issuer::new(ca, ca_key);
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let cert = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
            write(&format!("{name}.crt"), cert.pem());
            write(&format!("{name}.key"), key.serialize_pem());
        }
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// For a configuration file in the same folder.
    pub(crate) const SERVER_TABLE: &str = "[tls]\nca = \"ca.crt\"\ncert = \"server.crt\"\nkey = \"server.key\"\n";

    /// For a command.
    pub(crate) fn client_flags(&self) -> Vec<String> {
        let path = |name: &str| self.path(name).display().to_string();
        let flag = |name: &str| name.to_owned();
        vec![
            flag("--caCertFile"),
            path("ca.crt"),
            flag("--clientCertFile"),
            path("client.crt"),
            flag("--clientKeyFile"),
            path("client.key"),
        ]
    }
}
