//! One look at a port: does it take a connection, or answer a request with 200.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::super::{Later, Port};

/// How many looks one cell takes at the same time; the others wait for their turn.
const PROBES_AT_ONCE_MAX: usize = 64;

/// What is looked at. Ports are those of the definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) port: u16,
    /// With a path it is a request, without one a connection.
    pub(crate) path: Option<String>,
    pub(crate) timeout: Duration,
}

pub(crate) trait Prober: Send + Sync {
    /// The error says what was tried and what came of it.
    fn probe<'a>(&'a self, probe: &'a Probe) -> Later<'a, Result<(), String>>;
}

/// Looks at the ports of one container over the network, where everybody else reaches it too: an app that listens on loopback
/// alone is not well.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) address: IpAddr,
    pub(crate) ports: Vec<Port>,
    pub(crate) turns: Arc<Semaphore>,
}

impl Network {
    pub(crate) fn turns() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(PROBES_AT_ONCE_MAX))
    }

    fn host_port(&self, port: u16) -> u16 {
        self.ports.iter().find(|known| known.container == port).map_or(port, |known| known.host)
    }
}

impl Prober for Network {
    fn probe<'a>(&'a self, probe: &'a Probe) -> Later<'a, Result<(), String>> {
        Box::pin(async move {
            let _turn = self.turns.acquire().await;
            let at = (self.address, self.host_port(probe.port));
            let began = Instant::now();
            match &probe.path {
                None => {
                    let connected = tokio::time::timeout(probe.timeout, TcpStream::connect(at)).await;
                    let why = match connected {
                        Ok(Ok(_)) => return Ok(()),
                        Ok(Err(error)) => error.to_string(),
                        Err(_) => timed_out(probe.timeout),
                    };
                    Err(format!("failed to make TCP connection to {}:{}: {why}", at.0, at.1))
                }
                Some(path) => {
                    let why = match tokio::time::timeout(probe.timeout, get(at, path)).await {
                        Ok(Ok(200)) => return Ok(()),
                        Ok(Ok(status)) => {
                            format!("received status code {status} in {}ms", began.elapsed().as_millis())
                        }
                        Ok(Err(_)) => "connection refused".to_owned(),
                        Err(_) => timed_out(probe.timeout),
                    };
                    Err(format!("failed to make HTTP request to '{path}' on port {}: {why}", probe.port))
                }
            }
        })
    }
}

fn timed_out(timeout: Duration) -> String {
    format!("timed out after {:.2} seconds", timeout.as_secs_f64())
}

/// The status of an answer, after all of it was read: a server that is cut off would complain in its log.
async fn get(at: (IpAddr, u16), path: &str) -> Result<u16, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(at).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path)
        .header("host", format!("{}:{}", at.0, at.1))
        .header("user-agent", "diego-healthcheck")
        .header("x-forwarded-proto", "https")
        .body(Empty::<Bytes>::new())?;
    let exchange = async {
        let mut response = sender.send_request(request).await?;
        while let Some(frame) = response.body_mut().frame().await {
            frame?;
        }
        Ok(response.status().as_u16())
    };
    let drive = async {
        // Whether it ended well is told by the exchange, which may still have an answer to read.
        let _ = connection.await;
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        status = exchange => status,
        never = drive => match never {},
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn server(answer: Option<&'static str>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let mut open = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 1024];
                let _ = stream.read(&mut head).await;
                if let Some(answer) = answer {
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
                open.push(stream);
            }
        });
        port
    }

    async fn probe(host: u16, path: Option<&str>) -> String {
        let ports = vec![Port { container: 8080, host, ..Port::default() }];
        let network = Network { address: [127, 0, 0, 1].into(), ports, turns: Network::turns() };
        let probe = Probe { port: 8080, path: path.map(ToOwned::to_owned), timeout: Duration::from_millis(250) };
        match network.probe(&probe).await {
            Ok(()) => "passes".to_owned(),
            Err(why) => why.replace(&host.to_string(), "<host port>"),
        }
    }

    #[tokio::test]
    async fn ports_are_looked_at_where_others_reach_them() {
        let well = server(Some("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")).await;
        let ill = server(Some("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n")).await;
        let mute = server(None).await;
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        assert_eq!(probe(well, None).await, "passes");
        assert_eq!(probe(well, Some("/")).await, "passes");
        let status = probe(ill, Some("/up")).await;
        assert!(
            status.starts_with("failed to make HTTP request to '/up' on port 8080: received status code 503 in "),
            "{status}"
        );
        assert_eq!(
            probe(mute, Some("/")).await,
            "failed to make HTTP request to '/' on port 8080: timed out after 0.25 seconds"
        );
        let refused = probe(closed, None).await;
        assert!(refused.starts_with("failed to make TCP connection to 127.0.0.1:<host port>: "), "{refused}");
        assert!(probe(closed, Some("/")).await.ends_with("connection refused"));
    }
}
