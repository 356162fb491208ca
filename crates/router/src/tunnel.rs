//! An upgraded connection, WebSocket for instance: bytes in both directions until one side ends or both are silent.

use std::io;
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::Instant;

const BUFFER_BYTES: usize = 16 * 1024;
/// Both sides agreed to change; the change itself takes no time.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// `held` is what the connection keeps: its place, its instance.
pub(crate) async fn run<H>(near: OnUpgrade, far: OnUpgrade, idle: Duration, held: H) {
    let both = tokio::time::timeout(UPGRADE_TIMEOUT, async { tokio::try_join!(near, far) }).await;
    match both {
        Ok(Ok((near, far))) => {
            if let Err(error) = relay(TokioIo::new(near), TokioIo::new(far), idle).await {
                tracing::debug!(%error, "an upgraded connection ended badly");
            }
        }
        Ok(Err(error)) => tracing::debug!(%error, "a connection could not be upgraded"),
        Err(_) => tracing::debug!("a connection took too long to be upgraded"),
    }
    drop(held);
}

async fn relay<A, B>(near: A, far: B, idle: Duration) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let (near_reader, near_writer) = tokio::io::split(near);
    let (far_reader, far_writer) = tokio::io::split(far);
    let (moved, last) = watch::channel(Instant::now());
    tokio::select! {
        both = async { tokio::try_join!(copy(near_reader, far_writer, &moved), copy(far_reader, near_writer, &moved)) } => {
            both.map(|_| ())
        }
        () = silence(last, idle) => Err(io::Error::new(io::ErrorKind::TimedOut, "nothing was said for too long")),
    }
}

/// One direction. When its source ends, its target is told so.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &watch::Sender<Instant>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        moved.send_replace(Instant::now());
    }
}

async fn silence(last: watch::Receiver<Instant>, limit: Duration) {
    loop {
        let until = *last.borrow() + limit;
        if until <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(until).await;
    }
}
