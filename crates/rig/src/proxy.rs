//! A line between two programs that a test can cut.
//!
//! Promise: bytes pass in order, whole, in both directions, as fast as loopback allows, until the test says otherwise; and
//! once [`Proxy::cut`] has returned, the line delivers nothing more. What was on its way is kept and arrives after
//! [`Proxy::heal`], as a network that comes back sends it again. An end that is closed while the line is cut looks open from
//! the other end, as it would after a power cut.
//!
//! Two things differ from a real network. A connection is accepted before the target was asked, so a target that is down
//! shows as a connection that closes at once. And the kernel on our side acknowledges what it was sent, so keep-alives of
//! TCP succeed on a line that is cut; those of a protocol above, such as pings of HTTP/2, do not.
//!
//! The line is carried by one thread with a runtime of its own, so calls are short and may come from anywhere. In each direction of a
//! connection it holds at most [`QUEUE_CHUNKS_MAX`] chunks, and then stops reading: the sender waits.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::port::Port;

const CHUNK_BYTES_MAX: usize = 16 * 1024;
const QUEUE_CHUNKS_MAX: usize = 64;

pub struct Proxy {
    address: SocketAddr,
    orders: Mutex<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// What should change, and whom to tell that it has.
type Order = (Change, SyncSender<()>);

#[derive(Clone, Copy, Debug)]
enum Change {
    State(State),
    Delay(Duration),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Cut,
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    state: State,
    delay: Duration,
}

impl Proxy {
    /// A line from a loopback address of its own to the target, such as `127.0.0.1:8080` or the address of a member.
    pub fn to(target: impl ToSocketAddrs) -> Self {
        let target = target.to_socket_addrs().ok().and_then(|mut all| all.next()).expect("a target is ADDRESS:PORT");
        let port = Port::reserve().expect("loopback has a free port");
        let address = port.address();
        let (orders, received) = mpsc::channel(1);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
        let serve = move || runtime.block_on(serve(&port, target, received));
        let thread = thread::Builder::new().name("rig-proxy".to_owned()).spawn(serve).expect("a thread can be started");
        let proxy = Self { address, orders: Mutex::new(orders), thread: Some(thread) };
        proxy.heal();
        proxy
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a URL, for example with the scheme `https`.
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address)
    }

    /// Delivers nothing more and closes nothing: connections stall, and new ones are accepted and stall too.
    pub fn cut(&self) {
        self.order(Change::State(State::Cut));
    }

    /// Closes all connections and refuses new ones, as a machine does on which nobody listens.
    pub fn refuse(&self) {
        self.order(Change::State(State::Refused));
    }

    /// Undoes [`Proxy::cut`] and [`Proxy::refuse`]; a delay stays. Stalled connections go on where they stopped.
    pub fn heal(&self) {
        self.order(Change::State(State::Open));
    }

    /// What is sent from now on arrives this much later, in each direction, however much of it there is.
    pub fn delay(&self, delay: Duration) {
        self.order(Change::Delay(delay));
    }

    /// Returns when the change has taken effect. The lock is held until then, so the queue has room for the one order.
    #[track_caller]
    fn order(&self, change: Change) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        let taken = orders.try_send((change, done)).is_ok() && wait.recv().is_ok();
        assert!(taken, "the thread of the proxy at {} has ended: its panic is above", self.address);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let (done, _) = std::sync::mpsc::sync_channel(1);
        // Both fail only if the thread has ended by a panic, which has been shown.
        let orders = self.orders.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = orders.try_send((Change::End, done));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("address", &self.address).finish_non_exhaustive()
    }
}

/// All connections live on the thread that takes the orders, so none of them is in the middle of a write when one is carried out.
async fn serve(port: &Port, target: SocketAddr, mut orders: mpsc::Receiver<Order>) {
    let line = watch::Sender::new(Line { state: State::Refused, delay: Duration::ZERO });
    let mut listener = None;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            order = orders.recv() => {
                let Some((change, done)) = order else { return };
                match change {
                    Change::End => return,
                    Change::Delay(delay) => line.send_modify(|line| line.delay = delay),
                    Change::State(state) => line.send_modify(|line| line.state = state),
                }
                if line.borrow().state == State::Refused {
                    listener = None;
                    connections.shutdown().await;
                } else if listener.is_none() {
                    listener = Some(port.listen().expect("the port is ours"));
                }
                // Whoever gave the order waits for this, unless it was killed.
                let _ = done.send(());
            }
            client = accept(listener.as_ref()) => {
                connections.spawn(carry(client, target, line.subscribe()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// The next connection; never, while nobody listens.
async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        // A connection that was given up before it was accepted is no loss.
        if let Ok((client, _)) = listener.accept().await {
            return client;
        }
    }
}

/// One connection: until both directions have ended, or one has broken.
async fn carry(client: TcpStream, target: SocketAddr, mut line: watch::Receiver<Line>) -> io::Result<()> {
    opened(&mut line).await;
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::try_join!(pump(from_client, to_server, line.clone()), pump(from_server, to_client, line))?;
    Ok(())
}

async fn pump(from: OwnedReadHalf, to: OwnedWriteHalf, line: watch::Receiver<Line>) -> io::Result<()> {
    let (queue, queued) = mpsc::channel(QUEUE_CHUNKS_MAX);
    let collected = async {
        collect(from, queue, line.clone()).await;
        // What was collected is still to be delivered.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        delivered = deliver(queued, to, line.clone()) => delivered,
        () = collected => Ok(()),
    }
}

/// What one end sent and when it is due at the other. Nothing means that it closed its side; both that and a broken
/// connection travel down the line like bytes.
type Chunk = (Instant, io::Result<Vec<u8>>);

async fn collect(mut from: OwnedReadHalf, queue: mpsc::Sender<Chunk>, line: watch::Receiver<Line>) {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES_MAX];
        let read = from.read(&mut chunk).await;
        let is_last = !matches!(read, Ok(1..));
        let chunk = read.map(|length| {
            chunk.truncate(length);
            chunk
        });
        let due = Instant::now() + line.borrow().delay;
        if queue.send((due, chunk)).await.is_err() || is_last {
            return;
        }
    }
}

async fn deliver(
    mut queued: mpsc::Receiver<Chunk>,
    mut to: OwnedWriteHalf,
    mut line: watch::Receiver<Line>,
) -> io::Result<()> {
    while let Some((due, chunk)) = queued.recv().await {
        // A timer rounds up to a millisecond, which would be a delay that nobody asked for.
        if due > Instant::now() {
            tokio::time::sleep_until(due).await;
        }
        opened(&mut line).await;
        let chunk = chunk?;
        if chunk.is_empty() {
            return to.shutdown().await;
        }
        let mut rest = chunk.as_slice();
        while !rest.is_empty() {
            opened(&mut line).await;
            tokio::select! {
                biased;
                _ = line.changed() => {}
                written = to.write(rest) => rest = &rest[written?..],
            }
        }
    }
    Ok(())
}

/// Returns while the line is open. When the proxy is dropped, whoever waits here is dropped with it.
async fn opened(line: &mut watch::Receiver<Line>) {
    if line.wait_for(|line| line.state == State::Open).await.is_err() {
        std::future::pending::<()>().await;
    }
}
