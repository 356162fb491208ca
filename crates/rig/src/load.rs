//! Requests to a web server at a fixed rate, whatever becomes of them.
//!
//! Promise: the next request is due when its time has come and not when the one before has been answered, so that a server
//! that stands still is met by as many requests as one that does not. Every request has a connection kind, a deadline of its
//! own, and exactly one [`Sample`]; nothing is tried again. Half of them use connections that were used before, as browsers and
//! load balancers do, and half open one for themselves, as scripts do.
//!
//! A kept connection that the server has closed while nobody used it is not counted against it: every client opens another.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONNECTION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// More than this of an answer that was not expected is not kept.
const QUOTED_BYTES_MAX: usize = 120;
/// Of an answer as a whole.
const BODY_BYTES_MAX: usize = 1024 * 1024;

#[derive(Clone, Debug)]
pub struct Options {
    pub server: SocketAddr,
    /// What the server is called in the request.
    pub host: String,
    pub path: String,
    pub rate_per_s: u32,
    /// For each request, from the moment it is due to the last byte of its answer.
    pub deadline: Duration,
    /// What a good answer contains, beside its status 200.
    pub contains: String,
}

/// What became of one request.
#[derive(Clone, Debug)]
pub struct Sample {
    pub due: Instant,
    pub took: Duration,
    pub kept: bool,
    /// What went wrong.
    pub failure: Option<String>,
}

/// A client that goes on until it is stopped.
#[derive(Debug)]
pub struct Load {
    samples: Arc<Mutex<Vec<Sample>>>,
    end: watch::Sender<bool>,
    going: JoinHandle<()>,
}

impl Load {
    /// Must be called within a tokio runtime.
    pub fn start(options: Options) -> Self {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let (end, ending) = watch::channel(false);
        let going = tokio::spawn(go(Arc::new(options), samples.clone(), ending));
        Self { samples, end, going }
    }

    /// All requests that have ended so far, in the order in which they ended.
    pub fn samples(&self) -> Vec<Sample> {
        lock(&self.samples).clone()
    }

    /// How many have ended, and how many of them have failed.
    pub fn tally(&self) -> (usize, usize) {
        let samples = lock(&self.samples);
        (samples.len(), samples.iter().filter(|sample| sample.failure.is_some()).count())
    }

    /// Begins no more requests and waits for those under way.
    pub async fn finish(mut self) -> Vec<Sample> {
        self.end.send_replace(true);
        // It ends by itself, and a defect in it is one of the test.
        (&mut self.going).await.expect("the load goes on until it is ended");
        self.samples()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.going.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Kept = Arc<Mutex<Vec<SendRequest<Empty<Bytes>>>>>;

async fn go(options: Arc<Options>, samples: Arc<Mutex<Vec<Sample>>>, mut ending: watch::Receiver<bool>) {
    let idle = Kept::default();
    let mut clock = interval(Duration::from_secs(1) / options.rate_per_s);
    // What is late is made up for: the rate is fixed.
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut under_way = JoinSet::new();
    let mut kept = false;
    loop {
        let due = tokio::select! {
            _ = ending.wait_for(|ending| *ending) => break,
            due = clock.tick() => due,
        };
        kept = !kept;
        let (options, idle, samples) = (options.clone(), kept.then(|| idle.clone()), samples.clone());
        under_way.spawn(async move {
            let outcome = timeout(options.deadline, once(&options, idle.as_ref())).await;
            let failure = match outcome {
                Ok(Ok(())) => None,
                Ok(Err(cause)) => Some(cause),
                Err(_) => Some(format!("no answer within {:?}", options.deadline)),
            };
            lock(&samples).push(Sample { due, took: due.elapsed(), kept: idle.is_some(), failure });
        });
        while under_way.try_join_next().is_some() {}
    }
    while under_way.join_next().await.is_some() {}
}

async fn once(options: &Options, idle: Option<&Kept>) -> Result<(), String> {
    let reused = idle.and_then(take);
    let way = if reused.is_some() { "on a connection used before" } else { "on a new connection" };
    let mut connection = match reused {
        Some(connection) => connection,
        None => connect(options.server).await?,
    };
    let mut request = Request::get(options.path.as_str()).header(HOST, options.host.as_str());
    if idle.is_none() {
        request = request.header(CONNECTION, "close");
    }
    let request = request.body(Empty::new()).map_err(|error| error.to_string())?;
    let failed = |error: hyper::Error| format!("{}, {way}", told(&error));
    let answer = connection.send_request(request).await.map_err(failed)?;
    let status = answer.status();
    let body = http_body_util::Limited::new(answer.into_body(), BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| format!("the answer broke off: {error}, {way}"))?.to_bytes();
    let body = String::from_utf8_lossy(&body);
    if status != StatusCode::OK || !body.contains(&options.contains) {
        let quoted: String = body.chars().take(QUOTED_BYTES_MAX).collect();
        return Err(format!("{status}: {quoted:?}, {way}"));
    }
    if let Some(idle) = idle {
        lock(idle).push(connection);
    }
    Ok(())
}

/// One that is open, the longest unused last, so that as few as possible are in use.
fn take(idle: &Kept) -> Option<SendRequest<Empty<Bytes>>> {
    let mut idle = lock(idle);
    idle.retain(|connection| !connection.is_closed());
    let ready = idle.iter().rposition(SendRequest::is_ready)?;
    Some(idle.swap_remove(ready))
}

async fn connect(server: SocketAddr) -> Result<SendRequest<Empty<Bytes>>, String> {
    let stream = TcpStream::connect(server).await.map_err(|error| format!("cannot connect: {error}"))?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| told(&error))?;
    tokio::spawn(connection);
    Ok(sender)
}

/// With what is behind it.
fn told(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const RATE_PER_S: u32 = 200;

    /// Answers every request with `answer`, on as many connections as there are.
    async fn server(answer: &'static str) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.spawn(async move {
                    let mut head = [0; 1024];
                    while stream.read(&mut head).await.is_ok_and(|bytes| bytes > 0) {
                        if stream.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        (address, serving)
    }

    fn options(server: SocketAddr) -> Options {
        Options {
            server,
            host: "app.example".into(),
            path: "/".into(),
            rate_per_s: RATE_PER_S,
            deadline: Duration::from_millis(500),
            contains: "hello".into(),
        }
    }

    async fn until(load: &Load, enough: impl Fn(&[Sample]) -> bool) -> Vec<Sample> {
        loop {
            let samples = load.samples();
            if enough(&samples) {
                return samples;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn every_request_counts_once_and_a_server_that_goes_away_is_noticed() {
        let (address, serving) = server("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await;
        let load = Load::start(options(address));
        let samples = until(&load, |samples| samples.len() >= 40).await;
        assert!(samples.iter().all(|sample| sample.failure.is_none()), "{samples:?}");
        assert!(samples.iter().any(|sample| sample.kept) && samples.iter().any(|sample| !sample.kept));
        serving.abort();
        let failed = |samples: &[Sample]| samples.iter().rev().take(20).all(|sample| sample.failure.is_some());
        let samples = until(&load, failed).await;
        let cause = samples.last().unwrap().failure.clone().unwrap();
        assert!(cause.starts_with("cannot connect: Connection refused"), "{cause}");
        let (ended, failed) = load.tally();
        let samples = load.finish().await;
        assert!(samples.len() >= ended && samples.iter().filter(|sample| sample.failure.is_some()).count() >= failed);
    }

    #[tokio::test]
    async fn another_answer_and_no_answer_are_failures_and_the_rate_stays() {
        let began = Instant::now();
        let (wrong, _serving) = server("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\noh!").await;
        let load = Load::start(options(wrong));
        let samples = until(&load, |samples| samples.len() >= 10).await;
        let cause = samples[0].failure.clone().unwrap();
        assert!(cause.starts_with("502 Bad Gateway: \"oh!\", on a new connection"), "{cause}");

        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let load = Load::start(options(silent.local_addr().unwrap()));
        let samples = until(&load, |samples| samples.len() >= 10).await;
        assert_eq!(samples[0].failure.as_deref(), Some("no answer within 500ms"));
        // Nobody waited for an answer before the next request: 20 deadlines would take ten seconds.
        let due: Vec<_> = samples.iter().map(|sample| sample.due).collect();
        assert!(due.is_sorted() && began.elapsed() < Duration::from_secs(8), "{due:?}");
    }
}
