//! One address for several servers of which one accepts connections, as a name with several addresses is for a client.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Passes every connection on to the first server that accepts it, and closes it where none does. Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Switch(JoinHandle<()>);

impl Switch {
    pub(crate) async fn open(address: SocketAddr, servers: Vec<SocketAddr>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((mut client, _)) = listener.accept().await else { continue };
                let servers = servers.clone();
                connections.spawn(async move {
                    for server in servers {
                        if let Ok(mut server) = TcpStream::connect(server).await {
                            // Whatever ends it is for both sides to notice.
                            let _ = copy_bidirectional(&mut client, &mut server).await;
                            return;
                        }
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        })))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.0.abort();
    }
}
