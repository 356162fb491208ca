//! `corkboard bbs`: a state server from a configuration file. `up` starts the same without a file.
//!
//! It runs until SIGTERM or SIGINT. The first signal stops in order: no new connections, streams are ended, requests in
//! flight are answered, the store is closed. A second one ends the process at once; what was acknowledged is durable anyway.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use bbs::config::Config;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::config::{self, Account};
use crate::data_version::resolve_known_version;
use crate::failure::Failure;
use crate::locket;

/// What a shell reports for a process that a signal ended: 128 and the number of the signal.
const EXIT_SIGNALLED: i32 = 128;

/// What happens when the server is stopped.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Drain {
    /// When stopped, go back to this data version first (a number or a name), for the former release to take over
    #[arg(long, value_name = "V", value_parser = resolve_known_version)]
    pub(crate) rollback_on_drain_to_version: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Bbs {
    /// The configuration file, in TOML (`corkboard config example` prints one), or that of Diego's own BBS
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Where the records are kept, under a file of Diego's; wins over its key corkboard_store
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    #[command(flatten)]
    drain: Drain,
}

impl Bbs {
    /// Before anything else, since it says how the log shall look.
    pub(crate) fn file(&self) -> Result<config::File, Failure> {
        Ok(config::File::read(&self.config)?)
    }
}

pub(crate) async fn serve(args: Bbs, file: config::File) -> Result<(), Failure> {
    if !file.is_diego() {
        return serve_file(args, file).await;
    }
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "starting under a configuration file of Diego's");
    let outcome = serve_file(args, file).await;
    match &outcome {
        Ok(()) => tracing::info!("the server has stopped"),
        Err(failure @ Failure::Config(_)) => tracing::error!(error = %failure, "the configuration cannot be used"),
        Err(failure) => tracing::error!(error = failure.report().trim_end(), "the server ended with an error"),
    }
    outcome
}

async fn serve_file(args: Bbs, file: config::File) -> Result<(), Failure> {
    let config::Settings { mut config, account, serve_locket } = file.check(args.store.as_deref())?;
    // It may hold keys, and nobody needs it any more.
    drop(file);
    config.rollback_on_drain_to = args.drain.rollback_on_drain_to_version.or(config.rollback_on_drain_to);
    let Some(account) = account else {
        return run(config, serve_locket, |ready| {
            let _ = writeln!(io::stdout(), "The API listens on {}, health on {}.", ready.api, ready.health);
        })
        .await;
    };
    tell(&account, &config);
    run(config, serve_locket, |ready| {
        let (api, health) = (ready.api, ready.health);
        let (records, quarantined) = (ready.records, ready.quarantined);
        tracing::info!(%api, %health, records, quarantined, "the server is ready");
    })
    .await
}

/// Each reason with its keys, in few words: Diego's logs may be set to cut long texts.
fn by_reason(ignored: &[(&str, &str)]) -> String {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, why) in ignored {
        reasons.entry(why).or_default().push(key);
    }
    let listed: Vec<String> = reasons.iter().map(|(why, keys)| format!("{why}: {}", keys.join(", "))).collect();
    listed.join("; ")
}

/// What an operator of Diego would otherwise find out later.
fn tell(account: &Account, config: &Config) {
    tracing::info!(
        asked_for = account.database,
        used = %config.store,
        "the SQL database is not touched; records are kept in a directory of this machine"
    );
    if !account.ignored.is_empty() {
        tracing::info!(keys = by_reason(&account.ignored), "some keys of the configuration mean nothing here");
    }
    if !account.unknown.is_empty() {
        tracing::info!(keys = account.unknown.join(", "), "some keys of the configuration are unknown");
    }
    for remark in &account.remarks {
        tracing::warn!("{remark}");
    }
}

pub(crate) async fn run(
    config: Config,
    serve_locket: Option<SocketAddr>,
    announce: impl FnOnce(&bbs::Ready) + Send,
) -> Result<(), Failure> {
    refuse_huge_pages();
    let stop = stop_signal().map_err(|source| Failure::Process { doing: "listening for signals", source })?;
    let ran = match serve_locket {
        Some(listen) => Box::pin(locket::beside(listen, config, stop, announce)).await,
        None => Box::pin(bbs::run(config, stop, |ready| announce(&ready))).await,
    };
    ran.map_err(Failure::Server)
}

/// The board is millions of small records. A huge page is cleared whole when its first byte is touched, which made loading
/// 450,000 records take nearly twice as long; nothing else that we measured gained from them.
pub(crate) fn refuse_huge_pages() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages stay as the system has them");
    }
}

/// Completes at the first signal, and from then on watches for the second.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (first, stop) = oneshot::channel();
    tokio::spawn(async move {
        let kind = either(&mut terminate, &mut interrupt).await;
        tracing::info!(signal = kind.as_raw_value(), "stopping; a second signal ends the process at once");
        // The server may have ended by itself in the meantime.
        let _ = first.send(());
        let kind = either(&mut terminate, &mut interrupt).await;
        tracing::warn!(signal = kind.as_raw_value(), "second signal: ending at once, requests in flight are cut off");
        std::process::exit(EXIT_SIGNALLED + kind.as_raw_value());
    });
    Ok(async move {
        if stop.await.is_err() {
            // The watcher is gone without a signal, which happens only when the runtime shuts down.
            std::future::pending::<()>().await;
        }
    })
}

/// Counts signals. The third ends the process at once: whoever counts has its own use for the second.
pub(crate) fn stop_signals() -> io::Result<watch::Receiver<u32>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (heard, signals) = watch::channel(0);
    tokio::spawn(async move {
        for count in 1.. {
            let kind = either(&mut terminate, &mut interrupt).await;
            tracing::info!(signal = kind.as_raw_value(), count, "a signal to stop");
            if count > 2 {
                std::process::exit(EXIT_SIGNALLED + kind.as_raw_value());
            }
            heard.send_replace(count);
        }
    });
    Ok(signals)
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> SignalKind {
    tokio::select! {
        _ = terminate.recv() => SignalKind::terminate(),
        _ = interrupt.recv() => SignalKind::interrupt(),
    }
}
