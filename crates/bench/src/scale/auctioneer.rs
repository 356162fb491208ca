//! The part of `scale` that is the auctioneer: the real one, in a process of its own.

use std::net::SocketAddr;
use std::path::PathBuf;

use api::client::tls::TlsFiles;
use api::client::{Client, ClientConfig};
use auctioneer::{AlwaysMine, Config, ServerTls};
use clap::Args;

#[derive(Clone, Debug, Args)]
pub struct AuctioneerArgs {
    #[arg(long)]
    pub listen: SocketAddr,
    #[arg(long)]
    pub bbs: String,
    #[arg(long)]
    pub ca: PathBuf,
    /// For its own port
    #[arg(long, num_args = 2)]
    pub server: Vec<PathBuf>,
    /// For cells and the state server
    #[arg(long, num_args = 2)]
    pub client: Vec<PathBuf>,
}

/// Serves until it is killed, as whoever started it does in the end.
pub async fn serve(args: AuctioneerArgs) -> anyhow::Result<bool> {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let (Ok([server_cert, server_key]), Ok([cert, key])) =
        (<[PathBuf; 2]>::try_from(args.server), <[PathBuf; 2]>::try_from(args.client))
    else {
        anyhow::bail!("an identity is a certificate and a key");
    };
    let client = TlsFiles { ca: args.ca.clone(), cert, key, skip_verify: false };
    let config = Config {
        listen: args.listen,
        tls: Some(ServerTls { ca: args.ca, cert: server_cert, key: server_key }),
        cell_tls: Some(client.clone()),
        cell_require_tls: true,
        ..Config::default()
    };
    let bbs = Client::new(ClientConfig { tls: Some(client), ..ClientConfig::new(args.bbs) })?;
    auctioneer::run(config, bbs, AlwaysMine, std::future::pending(), |_| {}).await?;
    Ok(true)
}
