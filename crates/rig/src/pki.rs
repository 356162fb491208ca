//! Certificates for one test: an authority, a pair for the server, a pair for a client, and as many more as it asks for.
//!
//! Promise: every pair is signed by the authority of its folder and by no other, serves as a server and as a client alike,
//! and names this machine (127.0.0.1, ::1, localhost). Keys can be read by their owner only, as programs that care demand.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;

const THIS_MACHINE: [&str; 3] = ["127.0.0.1", "::1", "localhost"];
const KEY_MODE: u32 = 0o600;
const CERT_MODE: u32 = 0o644;

pub struct Pki {
    /// Holds `ca.crt`, and `NAME.crt` and `NAME.key` of every pair. May be taken, to keep the files without the authority.
    pub dir: TempDir,
    authority: Issuer<'static, KeyPair>,
}

impl Pki {
    /// For a configuration file in the same folder.
    pub const SERVER_TABLE: &str = "[tls]\nca = \"ca.crt\"\ncert = \"server.crt\"\nkey = \"server.key\"\n";

    /// An authority with the pairs `server` and `client`.
    pub fn new() -> Self {
        let dir = TempDir::new().expect("a temporary folder can be made");
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = params("corkboard test authority", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).expect("an authority signs itself");
        let pki = Self { dir, authority: Issuer::new(params, key) };
        pki.write("ca.crt", &certificate.pem(), CERT_MODE);
        pki.pair("server", &[]);
        pki.pair("client", &[]);
        pki
    }

    /// Adds `NAME.crt` and `NAME.key` for this machine and for the further subject names, or replaces them.
    pub fn pair(&self, name: &str, subject_names: &[&str]) {
        let key = KeyPair::generate().expect("a key can be made");
        let names: Vec<&str> = THIS_MACHINE.iter().chain(subject_names).copied().collect();
        let certificate = params(name, &names).signed_by(&key, &self.authority).expect("the authority signs");
        self.write(&format!("{name}.crt"), &certificate.pem(), CERT_MODE);
        self.write(&format!("{name}.key"), &key.serialize_pem(), KEY_MODE);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// For a command of Corkboard or `cfdot`.
    pub fn client_flags(&self) -> Vec<String> {
        [("--caCertFile", "ca.crt"), ("--clientCertFile", "client.crt"), ("--clientKeyFile", "client.key")]
            .into_iter()
            .flat_map(|(flag, file)| [flag.to_owned(), self.path(file).display().to_string()])
            .collect()
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.path(name);
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(mode).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
}

impl Default for Pki {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Pki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pki").field("dir", &self.dir.path()).finish_non_exhaustive()
    }
}

/// The common name differs from pair to pair: etcd takes it for a user's name, and programs take a certificate whose
/// subject is its issuer for an authority.
fn params(common_name: &str, subject_names: &[&str]) -> CertificateParams {
    let names: Vec<String> = subject_names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("subject names are addresses or names of machines");
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.use_authority_key_identifier_extension = true;
    params
}
