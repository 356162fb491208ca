//! Attempts over real sockets: what the server does, times what is called, gives how often it was asked and what came out.

use std::fmt::Write;
use std::time::Duration;

use api::client::{Client, ClientConfig, ClientError, OperatorError, Question, Repeat, Retry, TlsFiles};
use api::models::{EvacuateRunningActualLrpRequest, StartActualLrpRequest};
use api::version::Version;
use expect_test::expect;
use tokio::net::TcpListener;

use crate::server::{Reply, Server, answer, protobuf};
use crate::tls::Pki;

const PONG: &[u8] = &[0x08, 0x01];
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(100);

/// Three rounds with hardly a pause between them.
fn quick() -> Retry {
    let pause = Duration::from_millis(1);
    Retry { rounds_max: 3, pause_first: pause, pause_max: pause, ..Retry::default() }
}

fn client(urls: Vec<String>) -> Client {
    let config = ClientConfig {
        urls,
        attempt_timeout: Some(ATTEMPT_TIMEOUT),
        retry: quick(),
        name: "my-tool".into(),
        ..ClientConfig::new("")
    };
    Client::new(config).unwrap()
}

/// An address at which nobody listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn status(status: &str, headers: &str) -> Reply {
    answer(status, headers, b"")
}

fn told<T>(outcome: Result<T, ClientError>) -> String {
    match outcome {
        Ok(_) => "ok".into(),
        Err(ClientError::Bbs { error, .. }) => format!("refused: {error}"),
        Err(error) => {
            let made = error.attempts().unwrap().made;
            let doubt = if error.may_have_been_carried_out() { ", perhaps carried out" } else { "" };
            let kind = match error {
                ClientError::Status { status, .. } => format!("status {status}"),
                ClientError::Transport { kind, .. } => format!("{kind:?}"),
                ClientError::Router { .. } => "router".into(),
                ClientError::Decode { .. } => "decode".into(),
                ClientError::Version { .. } => "version".into(),
                other => panic!("{other:?}"),
            };
            format!("{kind} after {made}{doubt}")
        }
    }
}

#[tokio::test]
async fn what_the_server_does_times_what_is_called() {
    let refusal = b"\x0a\x06\x08\x0c\x12\x02no";
    let too_old = b"\x0a\x0b\x08\x04\x12\x07too old";
    let of_server = "Content-Type: application/x-protobuf\r\nX-Corkboard-Server: 9.1.0\r\n";
    let replies = [
        ("closes without an answer", Reply::BytesThenClose(Vec::new())),
        ("closes within the answer", Reply::BytesThenClose(b"HTTP/1.1 200 OK\r\nContent-Le".to_vec())),
        ("reads and is silent", Reply::Silence),
        ("503 with a phase", status("503 Service Unavailable", "X-Corkboard-Phase: loading\r\n")),
        ("503 with Retry-After: 0", status("503 Service Unavailable", "Retry-After: 0\r\n")),
        ("503", status("503 Service Unavailable", "")),
        ("502", status("502 Bad Gateway", "")),
        ("a router's error", status("502 Bad Gateway", "X-Cf-Routererror: endpoint_failure\r\n")),
        ("500", status("500 Internal Server Error", "")),
        ("404", status("404 Not Found", "")),
        ("no message", protobuf(&[0x0a, 0x7f])),
        ("a refusal", protobuf(refusal)),
        ("a version it does not serve", answer("400 Bad Request", of_server, too_old)),
    ];
    let mut table = String::new();
    for (what, reply) in replies {
        writeln!(table, "{what}").unwrap();
        // The answer after the second attempt would be good.
        let replies = vec![reply.clone(), reply, protobuf(&[])];
        for call in ["domains", "upsert_domain", "remove_desired_lrp", "remove_desired_lrp always"] {
            let server = Server::start(replies.clone()).await;
            let client = client(vec![server.url()]);
            let outcome = match call {
                "domains" => told(client.domains().await),
                "upsert_domain" => told(client.upsert_domain("d", 0).await),
                "remove_desired_lrp" => told(client.remove_desired_lrp("p").await),
                _ => {
                    let retry = Retry { repeat: Repeat::Always, ..quick() };
                    told(client.with_retry(retry).remove_desired_lrp("p").await)
                }
            };
            writeln!(table, "    {call:27}{} requests, {outcome}", server.requests().len()).unwrap();
        }
    }
    expect![[r#"
        closes without an answer
            domains                    3 requests, ok
            upsert_domain              3 requests, ok
            remove_desired_lrp         1 requests, Closed after 1, perhaps carried out
            remove_desired_lrp always  3 requests, ok
        closes within the answer
            domains                    3 requests, ok
            upsert_domain              3 requests, ok
            remove_desired_lrp         1 requests, Closed after 1, perhaps carried out
            remove_desired_lrp always  3 requests, ok
        reads and is silent
            domains                    3 requests, ok
            upsert_domain              3 requests, ok
            remove_desired_lrp         1 requests, Timeout after 1, perhaps carried out
            remove_desired_lrp always  3 requests, ok
        503 with a phase
            domains                    3 requests, ok
            upsert_domain              3 requests, ok
            remove_desired_lrp         3 requests, ok
            remove_desired_lrp always  3 requests, ok
        503 with Retry-After: 0
            domains                    3 requests, ok
            upsert_domain              3 requests, ok
            remove_desired_lrp         3 requests, ok
            remove_desired_lrp always  3 requests, ok
        503
            domains                    3 requests, ok
            upsert_domain              3 requests, ok
            remove_desired_lrp         1 requests, status 503 after 1, perhaps carried out
            remove_desired_lrp always  3 requests, ok
        502
            domains                    3 requests, ok
            upsert_domain              3 requests, ok
            remove_desired_lrp         1 requests, status 502 after 1, perhaps carried out
            remove_desired_lrp always  3 requests, ok
        a router's error
            domains                    3 requests, ok
            upsert_domain              3 requests, ok
            remove_desired_lrp         1 requests, router after 1, perhaps carried out
            remove_desired_lrp always  3 requests, ok
        500
            domains                    3 requests, ok
            upsert_domain              3 requests, ok
            remove_desired_lrp         1 requests, status 500 after 1, perhaps carried out
            remove_desired_lrp always  3 requests, ok
        404
            domains                    1 requests, status 404 after 1
            upsert_domain              1 requests, status 404 after 1
            remove_desired_lrp         1 requests, status 404 after 1
            remove_desired_lrp always  1 requests, status 404 after 1
        no message
            domains                    1 requests, decode after 1
            upsert_domain              1 requests, decode after 1, perhaps carried out
            remove_desired_lrp         1 requests, decode after 1, perhaps carried out
            remove_desired_lrp always  1 requests, decode after 1, perhaps carried out
        a refusal
            domains                    1 requests, refused: ResourceExists: no
            upsert_domain              1 requests, refused: ResourceExists: no
            remove_desired_lrp         1 requests, refused: ResourceExists: no
            remove_desired_lrp always  1 requests, refused: ResourceExists: no
        a version it does not serve
            domains                    1 requests, version after 1
            upsert_domain              1 requests, version after 1
            remove_desired_lrp         1 requests, version after 1
            remove_desired_lrp always  1 requests, version after 1
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn nobody_there_is_tried_as_often_as_allowed() {
    let urls = vec![nobody(), nobody()];
    let error = client(urls.clone()).remove_desired_lrp("p").await.unwrap_err();
    let attempts = error.attempts().unwrap();
    assert_eq!((attempts.made, &attempts.addresses), (6, &urls));
    assert!(!error.may_have_been_carried_out());
    let text = error.to_string();
    assert!(text.contains("on standby (6 attempts in ") && text.ends_with(&(urls.join(", ") + ")")), "{text}");
}

#[tokio::test]
async fn the_next_address_is_asked_and_the_one_that_answers_remembered() {
    let busy = Server::start(vec![status("503 Service Unavailable", "X-Corkboard-Phase: waiting\r\n")]).await;
    let master = Server::start(vec![protobuf(PONG)]).await;
    let client = client(vec![nobody(), "http://no-such-name.invalid".into(), busy.url(), master.url()]);
    for _ in 0..3 {
        assert!(client.ping().await.unwrap());
    }
    assert_eq!((busy.requests().len(), master.requests().len()), (1, 3));
}

/// What a node that waits answers: the same call, on the master.
async fn waiting(master: &str, path: &str) -> Server {
    let headers = format!("Location: {master}{path}\r\nX-Corkboard-Phase: waiting\r\n");
    Server::start(vec![status("307 Temporary Redirect", &headers)]).await
}

#[tokio::test]
async fn a_redirect_leads_to_the_master() {
    let master = Server::start(vec![protobuf(&[])]).await;
    let standby = waiting(&master.url(), "/v1/tasks/delete").await;
    let client = client(vec![standby.url()]);
    client.delete_task("t").await.unwrap();
    let (seen, first) = (master.requests(), standby.requests());
    assert_eq!((seen[0].line(), &seen[0].body), ("POST /v1/tasks/delete HTTP/1.1", &first[0].body));
    assert_eq!(seen[0].header("host"), master.url().strip_prefix("http://"));
    client.cancel_task("t").await.unwrap();
    assert_eq!((standby.requests().len(), master.requests().len()), (1, 2), "the master is remembered");

    let stays = self::client(vec![standby.url()]).with_retry(Retry { redirects_max: 0, ..Retry::once() });
    assert_eq!(told(stays.delete_task("t").await), "status 307 after 1");
}

#[tokio::test]
async fn a_call_arrives_as_itself_or_not_at_all() {
    let master = Server::start(vec![protobuf(&[])]).await;
    for location in [format!("{}/v1/tasks/cancel", master.url()), "https://127.0.0.1/v1/tasks/delete".into()] {
        let standby = waiting(&location, "").await;
        let outcome = client(vec![standby.url()]).delete_task("t").await;
        assert_eq!(told(outcome), "status 307 after 1", "{location}");
    }
    assert_eq!(master.requests().len(), 0);
}

#[tokio::test]
async fn the_limit_of_the_call_is_over_all_attempts() {
    let server = Server::start(vec![Reply::Silence]).await;
    let client = client(vec![server.url()]).with_retry(Retry { rounds_max: 1000, ..quick() });
    let error = client.with_timeout(Some(ATTEMPT_TIMEOUT * 5 / 2)).domains().await.unwrap_err();
    assert_eq!(told::<()>(Err(error)), "Timeout after 3");
}

#[tokio::test]
async fn the_client_names_itself_and_knows_the_server() {
    let of_server = "Content-Type: application/x-protobuf\r\nX-Corkboard-Server: 1.2.3\r\n";
    let server = Server::start(vec![answer("200 OK", of_server, PONG), protobuf(PONG)]).await;
    let client = client(vec![server.url()]);
    assert_eq!(client.server_version(), None);
    assert!(client.ping().await.unwrap());
    assert_eq!(client.server_version(), Some(Version { major: 1, minor: 2, patch: 3 }));
    assert!(client.ping().await.unwrap());
    assert_eq!(client.server_version(), None, "a server of Diego's");
    let named = format!("my-tool/{}", api::version::CURRENT);
    assert_eq!(server.requests()[0].header("x-corkboard-client"), Some(named.as_str()));
}

#[tokio::test]
async fn versions_that_do_not_fit_are_told_in_the_servers_words() {
    let text = "Content-Type: text/plain; charset=utf-8\r\nX-Corkboard-Server: 9.1.0\r\n";
    let server = Server::start(vec![answer("400 Bad Request", text, b"my-tool/0.1.0 is too old\n")]).await;
    let client = client(vec![server.url(), server.url()]);
    for error in [client.ping().await.unwrap_err(), client.follow_task_events().await.unwrap_err()] {
        assert!(!error.retryable() && !error.may_have_been_carried_out());
        match error {
            ClientError::Version { server, message, .. } => {
                assert_eq!((server.to_string().as_str(), message.as_str()), ("9.1.0", "my-tool/0.1.0 is too old"));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(server.requests().len(), 2, "nobody else is asked");
    let stranger = Server::start(vec![status("400 Bad Request", "")]).await;
    assert_eq!(told(self::client(vec![stranger.url()]).ping().await), "status 400 after 1");
}

#[tokio::test]
async fn a_server_that_does_not_know_the_newest_revision_is_called_with_the_one_before() {
    let unknown = status("404 Not Found", "");
    let server = Server::start(vec![unknown.clone(), protobuf(&[]), unknown, protobuf(b"\x10\x01")]).await;
    let client = client(vec![server.url()]);
    let start = StartActualLrpRequest {
        actual_lrp_key: Some(Default::default()),
        routable: Some(false),
        availability_zone: "z1".into(),
        ..Default::default()
    };
    client.start_actual_lrp(start).await.unwrap();
    let running = EvacuateRunningActualLrpRequest { routable: Some(false), ..Default::default() };
    assert!(client.evacuate_running_actual_lrp(running).await.keep_container);
    let seen = server.requests();
    let lines: Vec<_> = seen.iter().map(|request| request.line().split(' ').nth(1).unwrap()).collect();
    assert_eq!(
        lines,
        [
            "/v1/actual_lrps/start.r1",
            "/v1/actual_lrps/start",
            "/v1/actual_lrps/evacuate_running.r1",
            "/v1/actual_lrps/evacuate_running"
        ]
    );
    assert_eq!(seen[1].body, b"\x0a\x00", "keys and addresses only");
}

#[tokio::test]
async fn questions_of_operators_are_tried_like_calls() {
    let not_master = br#"{"code":"not-master","message":"m"}"#;
    let busy = answer("503 Service Unavailable", "", not_master);
    let server =
        Server::start(vec![busy.clone(), Reply::BytesThenClose(Vec::new()), answer("200 OK", "", b"{}")]).await;
    assert_eq!(client(vec![server.url()]).ask(&Question::get("/a", &[])).await.unwrap(), "{}");
    assert_eq!(server.requests().len(), 3);

    let server = Server::start(vec![busy, Reply::BytesThenClose(Vec::new()), answer("200 OK", "", b"{}")]).await;
    let error = client(vec![server.url()]).ask(&Question::post("/a", &serde_json::json!({}))).await.unwrap_err();
    assert_eq!(server.requests().len(), 2);
    match error {
        OperatorError::Transport { attempts, .. } => assert_eq!(attempts.made, 2),
        other => panic!("{other:?}"),
    }
    let other = Server::start(vec![answer("503 Service Unavailable", "", not_master)]).await;
    let master = Server::start(vec![answer("200 OK", "", b"abc")]).await;
    let mut download = client(vec![other.url(), master.url()]).download(&Question::get("/backup", &[])).await.unwrap();
    assert_eq!(download.next().await.unwrap().unwrap(), "abc");
}

fn with_tls(urls: Vec<String>, tls: TlsFiles) -> Client {
    let config = ClientConfig { urls, tls: Some(tls), retry: quick(), ..ClientConfig::new("") };
    Client::new(config).unwrap()
}

#[tokio::test]
async fn over_tls_what_is_not_trusted_is_asked_once_and_the_next_one_serves() {
    let (pki, stranger) = (Pki::new(), Pki::new());
    let (good, other) = (pki.server().await, stranger.server().await);
    let url = |server: &Server| format!("https://localhost:{}", server.port);
    let tls = pki.files("good-client", "good", false);
    let client = with_tls(vec![url(&other), url(&good)], tls.clone());
    assert!(client.ping().await.unwrap());
    let client = with_tls(vec![url(&other)], tls);
    assert_eq!(told(client.remove_desired_lrp("p").await), "Tls after 1");
    let unknown = with_tls(vec![url(&good)], pki.files("other-client", "good", false));
    assert_eq!(told(unknown.remove_desired_lrp("p").await), "Tls after 1", "the server read nothing");
}

#[tokio::test]
async fn over_tls_a_redirect_leads_to_the_master_if_its_certificate_bears_the_name() {
    let pki = Pki::new();
    let master = pki.server_with(vec![protobuf(&[])]).await;
    for (host, expected) in [("localhost", "ok"), ("127.0.0.1", "Tls after 2")] {
        let location = format!("Location: https://{host}:{}/v1/tasks/delete\r\n", master.port);
        let standby = pki.server_with(vec![status("307 Temporary Redirect", &location)]).await;
        let tls = pki.files("good-client", "good", false);
        let client = with_tls(vec![format!("https://localhost:{}", standby.port)], tls).with_retry(Retry::once());
        assert_eq!(told(client.delete_task("t").await), expected, "{host}");
    }
}

#[tokio::test]
async fn a_handshake_that_breaks_off_is_begun_again() {
    let pki = Pki::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let accepted = tokio::spawn(async move {
        for _ in 0..3 {
            drop(listener.accept().await.unwrap());
        }
    });
    let client = with_tls(vec![url], pki.files("good-client", "good", false));
    let error = client.remove_desired_lrp("p").await.unwrap_err();
    assert_eq!(error.attempts().unwrap().made, 3);
    assert!(!error.may_have_been_carried_out(), "{error}");
    accepted.await.unwrap();
}
