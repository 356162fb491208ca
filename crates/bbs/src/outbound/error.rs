//! What can go wrong with an outbound call, and with setting one up.

use api::client::{TlsError, TransportKind};

/// A call that did not succeed. What it asked for is not lost: convergence notices and asks again.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    // The first two texts are Diego's, word for word, because operators search for them.
    #[error("https scheme is required but none of the addresses support it")]
    TlsRequired,
    #[error("https scheme not supported since certificates aren't provided")]
    NoCertificates,
    /// The address itself is not shown: it may hold a password.
    #[error("the address is not an http or https URL that names a host; nothing was sent")]
    Address,
    #[error("the answer has status {status}")]
    Status { status: u16 },
    #[error("the call failed: {kind}")]
    Transport {
        kind: TransportKind,
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl CallError {
    /// Whether the same call may succeed later without anybody changing a configuration.
    pub fn retryable(&self) -> bool {
        match self {
            Self::TlsRequired | Self::NoCertificates | Self::Address => false,
            Self::Status { .. } | Self::Transport { .. } => true,
        }
    }
}

/// Why outbound calls cannot be set up. Nothing was sent; correct the configuration and start again.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the certificates for calls to {whom} cannot be used")]
    Tls {
        whom: &'static str,
        #[source]
        source: Box<TlsError>,
    },
    #[error("the auctioneer's address {url:?} is not an http or https URL that names a host")]
    AuctioneerUrl { url: String },
    #[error("the auctioneer's address {url:?} needs a CA file, a certificate and a key; use http:// without TLS")]
    AuctioneerCertificates { url: String },
    #[error("TLS is required for the auctioneer, but its address {url:?} is without; use https://")]
    AuctioneerPlain { url: String },
}
