//! Connections that end at the very moment they are used again.

use std::time::Duration;

use api::client::pool::{Pool, Request, Target};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The moment is short, so it is tried often.
const CALLERS: usize = 8;
const CALLS: usize = 2_000;
/// A call on loopback that takes this long has been forgotten.
const FORGOTTEN: Duration = Duration::from_secs(20);

/// Answers one request on each connection as if more were welcome, and closes it.
async fn close_after_each(listener: TcpListener) {
    for call in 0_usize.. {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut request = [0; 1024];
            if stream.read(&mut request).await.is_ok_and(|bytes| bytes > 0) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
                // The end comes about when the next request does.
                for _ in 0..call % 64 {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
}

fn request() -> Request {
    let mut request = hyper::Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = "/".parse().unwrap();
    request.headers_mut().insert("host", "a".parse().unwrap());
    request
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_is_never_forgotten_in_a_connection_that_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(close_after_each(listener));
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(call_on_and_on(port))).collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

async fn call_on_and_on(port: u16) {
    let pool = Pool::new(Target { host: "127.0.0.1".into(), port, tls: None });
    for call in 0..CALLS {
        // Whether it succeeds is the server's to say; that it ends is ours.
        let sent = tokio::time::timeout(FORGOTTEN, pool.send(request())).await;
        let Ok(sent) = sent else { panic!("call {call} was forgotten") };
        if let Ok((response, connection)) = sent {
            let _ = response.into_body().collect().await;
            pool.put(connection);
        }
    }
}
