//! Pairs are signed by their own authority, name this machine and what was asked for, and keep their keys to themselves.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use rig::pki::Pki;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

fn trust(pki: &Pki) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.path("ca.crt")).unwrap()).unwrap();
    roots
}

fn pair(pki: &Pki, name: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_file(pki.path(&format!("{name}.crt"))).unwrap();
    (vec![certificate], PrivateKeyDer::from_pem_file(pki.path(&format!("{name}.key"))).unwrap())
}

/// One end of a handshake: a folder of certificates and the name of a pair in it.
type End<'a> = (&'a Pki, &'a str);

/// Whether a client that looks for `host` and a server, each asking for the other's certificate, come to terms.
fn handshake(client: End<'_>, server: End<'_>, host: &str) -> Result<(), rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(trust(server.0)), provider.clone()).build();
    let (chain, key) = pair(server.0, server.1);
    let config = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let config = config.with_client_cert_verifier(clients.unwrap()).with_single_cert(chain, key)?;
    let mut server = ServerConnection::new(Arc::new(config))?;

    let (chain, key) = pair(client.0, client.1);
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(trust(client.0)).with_client_auth_cert(chain, key)?;
    let mut client = ClientConnection::new(Arc::new(config), ServerName::try_from(host.to_owned()).unwrap())?;

    while client.wants_write() || server.wants_write() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        feed(&wire, |rest| server.read_tls(rest));
        server.process_new_packets()?;
        wire.clear();
        server.write_tls(&mut wire).unwrap();
        feed(&wire, |rest| client.read_tls(rest));
        client.process_new_packets()?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(())
}

fn feed(mut wire: &[u8], mut read: impl FnMut(&mut dyn std::io::Read) -> std::io::Result<usize>) {
    while !wire.is_empty() {
        read(&mut wire).unwrap();
    }
}

#[test]
fn any_pair_is_server_and_client_under_its_own_authority_only() {
    let (pki, stranger) = (Pki::new(), Pki::new());
    pki.pair("node-1", &[]);
    for (client, server) in [("client", "server"), ("server", "client"), ("node-1", "node-1")] {
        handshake((&pki, client), (&pki, server), "127.0.0.1").unwrap();
    }
    handshake((&stranger, "client"), (&pki, "server"), "127.0.0.1").unwrap_err();
    handshake((&pki, "client"), (&stranger, "server"), "127.0.0.1").unwrap_err();
}

#[test]
fn certificates_name_this_machine_and_what_was_asked_for() {
    let pki = Pki::new();
    pki.pair("node-1", &["bbs.service.internal", "192.0.2.1"]);
    let shown = |server: &str, host: &str| handshake((&pki, "client"), (&pki, server), host).is_ok();
    for host in ["127.0.0.1", "::1", "localhost"] {
        assert!(shown("server", host) && shown("node-1", host), "{host}");
    }
    for host in ["bbs.service.internal", "192.0.2.1"] {
        assert!(!shown("server", host) && shown("node-1", host), "{host}");
    }
}

#[test]
fn a_pair_can_be_replaced_and_keys_are_for_their_owner() {
    let pki = Pki::new();
    let before = std::fs::read(pki.path("server.key")).unwrap();
    pki.pair("server", &["another.name"]);
    assert_ne!(std::fs::read(pki.path("server.key")).unwrap(), before);
    handshake((&pki, "client"), (&pki, "server"), "another.name").unwrap();
    for name in ["server.key", "client.key"] {
        let mode = std::fs::metadata(pki.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn flags_and_table_name_files_that_are_there() {
    let pki = Pki::new();
    let flags = pki.client_flags();
    assert_eq!(flags.iter().step_by(2).collect::<Vec<_>>(), ["--caCertFile", "--clientCertFile", "--clientKeyFile"]);
    assert!(flags.iter().skip(1).step_by(2).all(|path| std::fs::exists(path).unwrap()));
    let named: Vec<_> = Pki::SERVER_TABLE.split('"').skip(1).step_by(2).collect();
    assert_eq!(named, ["ca.crt", "server.crt", "server.key"]);
    assert!(named.iter().all(|name| pki.path(name).exists()));
}
