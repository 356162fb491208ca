//! `corkboard demo-app`: a small web app to try a cluster with.
//!
//! It tells which instance answers, and a text that somebody chose, so that one sees where requests go and which definition
//! runs. Promise: a stop loses no request. After SIGTERM it answers for a moment longer, closing connections as it does, so that
//! routers learn to go elsewhere; then it finishes what it has begun and ends with 0.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::duration;
use crate::failure::Failure;
use crate::server::stop_signal;

/// Longer answers than this only block whoever waits.
const SLOW_MS_MAX: u64 = 60_000;
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(crate) struct DemoApp {
    /// The port to listen on
    #[arg(long, env = "PORT", value_name = "NUMBER", default_value_t = 8081, hide_env_values = true)]
    port: u16,
    /// What it says, beside which instance it is
    #[arg(long, env = "MESSAGE", value_name = "TEXT", default_value = "Hello from Corkboard", hide_env_values = true)]
    message: String,
    /// How long it goes on answering when it is asked to stop, so that routers can learn of it
    #[arg(long, env = "LINGER", value_name = "DURATION", default_value = "1s", value_parser = duration::parse, hide_env_values = true)]
    linger: Duration,
}

/// Which instance this is. A process that no cell has started knows none of it.
struct Identity {
    message: String,
    index: String,
    guid: String,
    cell: String,
}

impl Identity {
    fn text(&self) -> String {
        let Self { message, index, guid, cell } = self;
        format!("message: {message}\nindex: {index}\nguid: {guid}\ncell: {cell}\n")
    }
}

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn serve(args: DemoApp, variable: impl Fn(&str) -> Option<String>) -> Result<(), Failure> {
    let stop = stop_signal().map_err(|source| Failure::Process { doing: "listening for signals", source })?;
    let told = |name: &str| variable(name).filter(|value| !value.is_empty()).unwrap_or_else(|| "none".to_owned());
    let identity = Identity {
        message: args.message,
        index: told("INSTANCE_INDEX"),
        guid: told("INSTANCE_GUID"),
        cell: told("CORKBOARD_CELL_ID"),
    };
    let address = SocketAddr::new(address(variable("CF_INSTANCE_IP").as_deref()), args.port);
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| {
        let advice = "choose another one with --port or PORT";
        Failure::Usage(format!("the app cannot listen on {address}: {source}; {advice}"))
    })?;
    let address = listener.local_addr().unwrap_or(address);
    say(&format!("listening on http://{address}, instance {}: {}", identity.index, identity.message));
    let (stopping, is_stopping) = watch::channel(false);
    let (closing, is_closing) = watch::channel(false);
    let app = Arc::new(App { identity, is_stopping });
    let linger = async {
        stop.await;
        stopping.send_replace(true);
        say("asked to stop; answering a moment longer");
        tokio::time::sleep(args.linger).await;
        closing.send_replace(true);
    };
    tokio::join!(linger, accept(listener, app, is_closing));
    say("all requests are answered; ending");
    Ok(())
}

/// Where others look for us: on this machine alone, unless the cell says that it is reached elsewhere.
fn address(instance: Option<&str>) -> IpAddr {
    match instance.and_then(|address| address.parse::<IpAddr>().ok()) {
        // Loopback has more addresses than one, and the cell looks for the app at the one it named.
        Some(address) if address.is_loopback() => address,
        Some(_) => Ipv4Addr::UNSPECIFIED.into(),
        None => Ipv4Addr::LOCALHOST.into(),
    }
}

async fn accept(listener: TcpListener, app: Arc<App>, mut is_closing: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let closed = is_closing.clone();
    loop {
        tokio::select! {
            _ = is_closing.wait_for(|closing| *closing) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream, app.clone(), closed.clone()))),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, app: Arc<App>, mut is_closing: watch::Receiver<bool>) {
    let service = service_fn(|request| {
        let app = app.clone();
        async move { Ok::<_, Infallible>(app.answer(&request).await) }
    });
    let mut http = http1::Builder::new();
    let http = http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    // How a connection ends is the client's business.
    tokio::select! {
        _ = &mut connection => return,
        _ = is_closing.wait_for(|closing| *closing) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

struct App {
    identity: Identity,
    is_stopping: watch::Receiver<bool>,
}

impl App {
    async fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let begun = Instant::now();
        let (status, text) = self.respond(request.uri()).await;
        let (method, path) = (request.method(), request.uri());
        say(&format!("{method} {path} {} in {} ms", status.as_u16(), begun.elapsed().as_millis()));
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if *self.is_stopping.borrow() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn respond(&self, uri: &Uri) -> (StatusCode, String) {
        match uri.path() {
            "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
            "/slow" => match slow_ms(uri.query()) {
                Ok(ms) => {
                    say(&format!("answering in {ms} ms"));
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    (StatusCode::OK, self.identity.text())
                }
                Err(why) => (StatusCode::BAD_REQUEST, why),
            },
            _ => (StatusCode::OK, self.identity.text()),
        }
    }
}

fn slow_ms(query: Option<&str>) -> Result<u64, String> {
    let values = query.unwrap_or_default().split('&').filter_map(|pair| pair.strip_prefix("ms="));
    let ms = match values.collect::<Vec<_>>()[..] {
        [one] => one.parse::<u64>().ok().filter(|ms| *ms <= SLOW_MS_MAX),
        _ => None,
    };
    ms.ok_or_else(|| format!("expected /slow?ms=NUMBER, from 0 to {SLOW_MS_MAX}\n"))
}

/// Whoever closed our output does not want to know; answers are given all the same.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_within_bounds_is_a_time() {
        let check = |query: Option<&str>, expected: Option<u64>| {
            assert_eq!(slow_ms(query).ok(), expected, "{query:?}");
        };
        check(Some("ms=0"), Some(0));
        check(Some("a=b&ms=60000"), Some(60_000));
        for wrong in ["ms=60001", "ms=-1", "ms=", "ms=1s", "ms=1&ms=1", "", "ms"] {
            check(Some(wrong), None);
        }
        check(None, None);
    }

    #[test]
    fn it_listens_where_it_is_looked_for() {
        let check = |instance, expected: &str| assert_eq!(address(instance).to_string(), expected, "{instance:?}");
        check(None, "127.0.0.1");
        check(Some("127.0.0.1"), "127.0.0.1");
        check(Some("127.5.6.7"), "127.5.6.7");
        check(Some("10.0.0.7"), "0.0.0.0");
        check(Some(""), "127.0.0.1");
    }
}
