//! A port on loopback that stays ours: nobody else gets it, also while nothing listens on it.
//!
//! The port is held by a socket that is bound and never listens. A listener that allows the reuse of addresses, as those of
//! Go, of std and of tokio do, can be opened beside it again and again; the kernel gives the port to nobody who asks for any
//! port, and not to an outgoing connection either. So a process that was killed finds its port free when it comes back, and
//! a client that keeps trying meanwhile cannot end up connected to itself. While nobody listens, connections are refused.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

const BACKLOG_CONNECTIONS_MAX: u32 = 1024;

#[derive(Debug)]
pub(crate) struct Port {
    address: SocketAddr,
    _held: TcpSocket,
}

impl Port {
    pub(crate) fn reserve() -> io::Result<Self> {
        let held = reusable()?;
        held.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self { address: held.local_addr()?, _held: held })
    }

    /// Opens a listener; the one before it must be gone. Needs a runtime of tokio around it.
    pub(crate) fn listen(&self) -> io::Result<TcpListener> {
        let socket = reusable()?;
        socket.bind(self.address)?;
        socket.listen(BACKLOG_CONNECTIONS_MAX)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

fn reusable() -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_port_is_listened_on_again_and_again_and_never_anybody_elses() {
        let port = Port::reserve().unwrap();
        let check_ours = || {
            let taken = TcpSocket::new_v4().unwrap().bind(port.address());
            assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        };
        for _ in 0..3 {
            check_ours();
            let refused = TcpStream::connect(port.address()).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);

            let listener = port.listen().unwrap();
            let (near, far) = tokio::join!(TcpStream::connect(port.address()), listener.accept());
            check_ours();
            drop((near.unwrap(), far.unwrap()));
        }
    }
}
