//! The part of `scale` that is Locket: the real service in a process of its own, with its book in memory.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api::client::tls::TlsFiles;
use clap::Args;
use locket::{Config, Desk};

#[derive(Clone, Debug, Args)]
pub struct LocketArgs {
    #[arg(long)]
    pub listen: SocketAddr,
    #[arg(long)]
    pub ca: PathBuf,
    #[arg(long)]
    pub cert: PathBuf,
    #[arg(long)]
    pub key: PathBuf,
}

/// Serves until it is killed, as whoever started it does in the end.
pub async fn serve(args: LocketArgs) -> anyhow::Result<bool> {
    let tls = TlsFiles { ca: args.ca, cert: args.cert, key: args.key, skip_verify: false };
    let config = Config { listen: args.listen, tls };
    locket::serve(config, Arc::new(Desk::default()), std::future::pending(), |_| {}).await?;
    Ok(true)
}
