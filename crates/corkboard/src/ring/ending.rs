//! Why a program ended, other than being asked to.

use std::io;
use std::net::SocketAddr;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Ending {
    #[error(transparent)]
    Auctioneer(#[from] auctioneer::RunError),
    #[error(transparent)]
    Cell(#[from] cell::rep::RunError),
    #[error(transparent)]
    Executor(#[from] cell::executor::OpenError),
    #[error("cannot listen on {address} ({port}); is another process there?")]
    Listen {
        port: &'static str,
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("{doing}")]
    Process {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Bbs(#[from] api::client::ConfigError),
    #[error(transparent)]
    Nats(#[from] api::registry::nats::NatsError),
    #[error(transparent)]
    Tls(#[from] api::client::TlsError),
    #[error(transparent)]
    Locket(#[from] api::locket::LocketError),
    #[error("Locket does not give this program its lock, and asking again would not change that: {why}")]
    LockRefused { why: String },
}

impl Ending {
    /// Whether another one may be active now; whoever watches the process starts it again, and it waits for its turn.
    pub(crate) fn is_lost_lock(&self) -> bool {
        matches!(self, Self::Auctioneer(auctioneer::RunError::LockLost { .. }))
    }
}
