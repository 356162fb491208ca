//! Keys and certificates: an authority that is made or found again, and the pairs that it signs.
//!
//! All keys are RSA: with TLS 1.2 Diego's programs speak only suites that need it, and with TLS 1.3 it does no harm. Every
//! certificate serves a server and a client alike, since each program is both.
//!
//! The name of an authority follows from its key. So it can be found again from its two files without reading the
//! certificate, and each new pair is checked against that certificate, as every program would do it.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_RSA_SHA256, PublicKeyData as _, RsaKeySize, SanType, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use zeroize::Zeroizing;

use super::expiry;

/// Of the digest of its key, in the name of an authority.
const NAME_BYTES: usize = 4;

#[derive(Debug, thiserror::Error)]
pub(super) enum IssueError {
    #[error("a certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
    #[error("its certificate is not one in PEM")]
    Certificate,
    #[error("its key is not one in PEM")]
    Key,
    #[error(
        "what it signs is not accepted under its own certificate ({0}); it must be one that dev-certs made, with ca.crt and \
         ca.key of the same time"
    )]
    Stranger(rustls::Error),
    #[error("it ends before the new certificates would; choose fewer --days, or make a new authority")]
    EndsSooner,
}

pub(super) struct Authority {
    pub(super) certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// In PEM.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: Zeroizing<String>,
}

impl Authority {
    pub(super) fn new(from: Duration, until: Duration) -> Result<Self, IssueError> {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072)?;
        let mut params = named(&key);
        valid(&mut params, from, until);
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    /// One that was made before.
    pub(super) fn of(certificate: &str, key: &str) -> Result<Self, IssueError> {
        CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|_| IssueError::Certificate)?;
        let key = KeyPair::from_pem(key).map_err(|_| IssueError::Key)?;
        Ok(Self { certificate: certificate.to_owned(), issuer: Issuer::new(named(&key), key) })
    }

    pub(super) fn key_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(self.issuer.key().serialize_pem())
    }

    pub(super) fn pair(
        &self,
        name: &str,
        hosts: &[String],
        from: Duration,
        until: Duration,
    ) -> Result<Pair, IssueError> {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        let mut params = CertificateParams::default();
        params.subject_alt_names = hosts.iter().map(|host| subject_name(host)).collect::<Result<_, _>>()?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        valid(&mut params, from, until);
        let certificate = params.signed_by(&key, &self.issuer)?;
        self.check(certificate.der(), from, until)?;
        Ok(Pair { certificate: certificate.pem(), key: Zeroizing::new(key.serialize_pem()) })
    }

    /// As a server would, when a program comes with it: at its first moment and at its last.
    fn check(&self, new: &CertificateDer<'_>, from: Duration, until: Duration) -> Result<(), IssueError> {
        let own = CertificateDer::from_pem_slice(self.certificate.as_bytes()).map_err(|_| IssueError::Certificate)?;
        let last = expiry::not_after(&own).ok_or(IssueError::Certificate)?;
        if last.as_secs() < until.as_secs() {
            return Err(IssueError::EndsSooner);
        }
        let mut roots = RootCertStore::empty();
        roots.add(own).map_err(IssueError::Stranger)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| IssueError::Stranger(rustls::Error::General(error.to_string())))?;
        let at = |moment: Duration| verifier.verify_client_cert(new, &[], UnixTime::since_unix_epoch(moment));
        // Not `from`: the authority may be a few minutes younger than that.
        let begins = from + super::BACKDATED;
        at(begins).map_err(IssueError::Stranger)?;
        at(until).map_err(IssueError::Stranger)?;
        Ok(())
    }
}

/// What of an authority follows from its key.
fn named(key: &KeyPair) -> CertificateParams {
    let digest = digest(&SHA256, &key.subject_public_key_info());
    let id: String = digest.as_ref().iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("corkboard dev-certs {id}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Moments are times since 1970.
fn valid(params: &mut CertificateParams, from: Duration, until: Duration) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(from.as_secs());
    params.not_after = epoch + Duration::from_secs(until.as_secs());
}

fn subject_name(host: &str) -> Result<SanType, IssueError> {
    Ok(match host.parse() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => SanType::DnsName(host.try_into()?),
    })
}
