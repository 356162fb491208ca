//! Diego's Locket on the store of a board: as a program of its own (`corkboard locket`), or beside a state server.
//!
//! Every node of an etcd cluster may run one, since who holds a key is decided in the store. It needs no election and no
//! records: it reads the same configuration file as the state server for the store, the certificates and nothing else.
//!
//! A store in a directory is used by one process, so there the state server has to serve Locket itself. It begins when the server
//! is ready, and it is the last to end: who holds what is not among the records, and as long as this process has the directory
//! no other one can serve. Its [`ledger`] lets locks outlive the process.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::client::TlsFiles;
use bbs::RunError;
use bbs::config::{Config, Opener, Store};
use bbs::shelf::Shelf;
use locket::{Keeper, Metered, ServeError};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::config;
use crate::failure::Failure;
use crate::server::stop_signal;

mod ledger;
mod on_store;

pub(crate) use on_store::OnStore;

pub(crate) const HELP: &str = "Examples:\n  corkboard locket --config board.toml\n  corkboard locket --config board.toml --listen 10.0.0.5:8891\n\n\
    Any number of them may run on one etcd, beside state servers or without; clients name all, with commas between them. A state \
    server serves Locket itself with the table [serve_locket] in its file, and on the embedded store only so.\n\n\
    Exit codes: 0 stopped in order, 3 wrong use, 5 anything else. What is held stays held, and lasts until its time is over.";

/// What is added to the path of the store to name the file that locks are written to.
const LEDGER_SUFFIX: &str = ".locks";

#[derive(Debug, clap::Args)]
pub(crate) struct Locket {
    /// The configuration file of the board: its store, and its certificates
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Where Locket listens
    #[arg(long, value_name = "ADDRESS", default_value_t = config::DEFAULT_LOCKET)]
    listen: SocketAddr,
    /// Where health and metrics are answered, in plain HTTP; nowhere unless given
    #[arg(long, value_name = "ADDRESS")]
    health: Option<SocketAddr>,
}

pub(crate) async fn serve(args: Locket) -> Result<(), Failure> {
    let config = config::load(&args.config)?;
    let Some(tls) = config.tls else {
        return Err(Failure::Usage(format!(
            "{}: Locket speaks TLS with certificates on both sides, and the file has none; add a table [tls] with ca, cert and key",
            args.config.display()
        )));
    };
    if let Store::Embedded { dir } = &config.store {
        return Err(Failure::Usage(format!(
            "{}: the store in {} is used by one process at a time, so that no Locket beside the state server can use it; let the \
             state server serve Locket itself: add a table [serve_locket] to the file and start `corkboard bbs --config {}`",
            args.config.display(),
            dir.display(),
            args.config.display(),
        )));
    }
    let stop = stop_signal().map_err(|source| Failure::Process { doing: "listening for signals", source })?;
    let place = Place { listen: args.listen, health: args.health, tls, store: config.store };
    place.serve_on_etcd(stop).await.map_err(Failure::Server)
}

/// Where Locket is served, and on which store.
#[derive(Clone, Debug)]
struct Place {
    listen: SocketAddr,
    health: Option<SocketAddr>,
    tls: TlsFiles,
    store: Store,
}

impl Place {
    async fn serve_on_etcd(self, stop: impl Future<Output = ()> + Send) -> Result<(), RunError> {
        let store = self.store.open(Opener::Server).await?;
        tracing::info!(store = store.describe(), "the store of Locket is open");
        let served = self.serve(Arc::new(OnStore(Shelf::new(store.clone()))), stop).await;
        store.close().await;
        served
    }

    async fn serve(self, keeper: Arc<dyn Keeper>, stop: impl Future<Output = ()> + Send) -> Result<(), RunError> {
        let ready = |address| {
            let _ = writeln!(std::io::stdout(), "Locket listens on {address}.");
        };
        let metered = Arc::new(Metered::new(keeper));
        // A set, because dropping it ends the task in it.
        let mut health = JoinSet::new();
        if let Some(address) = self.health {
            let failed = |source| RunError::Listen { port: "health", address, source };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            let bound = listener.local_addr().map_err(failed)?;
            let _ = writeln!(std::io::stdout(), "Locket answers health on {bound}.");
            health.spawn(locket::metrics::health(listener, metered.clone()));
        }
        let served = locket::serve(locket::Config { listen: self.listen, tls: self.tls }, metered, stop, ready).await;
        served.map_err(|error| match error {
            ServeError::Listen { address, source } => RunError::Listen { port: "Locket", address, source },
            ServeError::Tls(error) => RunError::Tls(error),
        })
    }
}

/// Runs a state server with Locket beside it, which listens on `listen`. If Locket cannot be served, the server stops.
pub(crate) async fn beside(
    listen: SocketAddr,
    config: Config,
    stop: impl Future<Output = ()> + Send + 'static,
    announce: impl FnOnce(&bbs::Ready) + Send,
) -> Result<(), RunError> {
    let Some(tls) = config.tls.clone() else { return Err(RunError::PlainOffLoopback { address: listen }) };
    let place = Place { listen, health: None, tls, store: config.store.clone() };
    let (tell_shelf, shelf) = oneshot::channel();
    let (end, ended) = oneshot::channel::<()>();
    let (tell_trouble, trouble) = oneshot::channel::<()>();
    let until_ended = async {
        // Nobody is left who could end it, which is as good.
        let _ = ended.await;
    };
    let locket = tokio::spawn(async move {
        let served = match place.store.clone() {
            Store::Etcd(_) => place.serve_on_etcd(until_ended).await,
            Store::Embedded { dir } => match shelf.await {
                Ok(shelf) => {
                    let keeper = ledger::Lasting::open(OnStore(shelf), beside_store(&dir)).await;
                    place.serve(Arc::new(keeper), until_ended).await
                }
                // The server ended before it was ready.
                Err(_) => Ok(()),
            },
        };
        if served.is_err() {
            let _ = tell_trouble.send(());
        }
        served
    });
    let stop = async {
        tokio::select! {
            () = stop => {}
            Ok(()) = trouble => {}
        }
    };
    let ran = Box::pin(bbs::run(config, stop, |ready| {
        announce(&ready);
        // Nobody hears it where Locket has a store of its own.
        let _ = tell_shelf.send(ready.shelf);
    }))
    .await;
    if ran.is_err() {
        // The server does not stop in order, so nothing of this process does.
        locket.abort();
        return ran;
    }
    let _ = end.send(());
    locket.await.unwrap_or(Err(RunError::Defect))
}

/// Beside the directory, as the copy of its identity.
fn beside_store(dir: &Path) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push(LEDGER_SUFFIX);
    PathBuf::from(name)
}
