//! The API port: taken when the server starts, opened when there is somebody to answer.
//!
//! Promise: a port that is not open refuses connections, so that clients move on to the next address at once; and it is
//! already ours, so that a take-over cannot fail because somebody else has it.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::RunError;
use crate::http::{Front, listener};

/// How many connections wait to be accepted.
const BACKLOG: u32 = 1_024;

pub(super) struct Door {
    /// `None` once it is open.
    socket: Option<TcpSocket>,
    address: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
    front: Arc<Front>,
    stop: watch::Receiver<bool>,
    serving: Option<JoinHandle<()>>,
}

impl Door {
    pub(super) fn reserve(
        address: SocketAddr,
        tls: Option<Arc<rustls::ServerConfig>>,
        front: Arc<Front>,
        stop: watch::Receiver<bool>,
    ) -> Result<Door, RunError> {
        let failed = |source| RunError::Listen { port: "API", address, source };
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(failed)?;
        // A port whose former connections are still on their way out can be taken again.
        socket.set_reuseaddr(true).map_err(failed)?;
        socket.bind(address).map_err(failed)?;
        // While we hold it without listening, others who would share it the same way could listen first.
        socket.set_reuseaddr(false).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Door { socket: Some(socket), address, tls, front, stop, serving: None })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets connections in. Once is enough.
    pub(super) fn open(&mut self) -> Result<(), RunError> {
        let Some(socket) = self.socket.take() else { return Ok(()) };
        let address = self.address;
        let failed = |source| RunError::Listen { port: "API", address, source };
        socket.set_reuseaddr(true).map_err(failed)?;
        let listener = socket.listen(BACKLOG).map_err(failed)?;
        let serving = listener::serve(listener, self.tls.clone(), self.front.clone(), self.stop.clone());
        self.serving = Some(tokio::spawn(serving));
        Ok(())
    }

    /// The task that serves, to wait for its end.
    pub(super) fn into_task(mut self) -> JoinHandle<()> {
        self.serving.take().unwrap_or_else(|| tokio::spawn(async {}))
    }
}

impl Drop for Door {
    /// A server that ends before it is ready answers nobody any more.
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }
}
