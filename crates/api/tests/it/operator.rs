//! Questions of the operator's API: what is sent, and how each kind of answer is understood.

use std::time::Duration;

use api::client::{OperatorError, Question, TransportKind};
use serde_json::json;

use crate::server::{Reply, Server, answer};

async fn failure(reply: Reply) -> OperatorError {
    let server = Server::start(vec![reply]).await;
    server.client().ask(&Question::get("/a", &[])).await.expect_err("the question must fail")
}

#[tokio::test]
async fn a_question_is_json_over_the_same_connection_as_all_else() {
    let server = Server::start(vec![answer("200 OK", "", b"{}"), answer("200 OK", "", b"\x00\xff")]).await;
    let client = server.client_with(|config| config.trace_id = Some("abc-123".into()));
    assert_eq!(client.ask(&Question::post("/corkboard/v1/x", &json!({"to": 7}))).await.unwrap(), "{}");
    assert_eq!(client.ask(&Question::get("/y", &[("id", "/a b")])).await.unwrap().as_ref(), b"\x00\xff");
    let seen = server.requests();
    assert_eq!(seen[0].line(), "POST /corkboard/v1/x HTTP/1.1");
    assert_eq!(seen[0].body, br#"{"to":7}"#);
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    assert_eq!(seen[0].header("x-vcap-request-id"), Some("abc-123"));
    assert!(seen[0].header("x-corkboard-client").unwrap().starts_with("corkboard/"));
    assert_eq!(seen[1].line(), "GET /y?id=%2Fa+b HTTP/1.1");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_refusal_is_told_in_words_and_kept_whole() {
    let body = br#"{"code":"busy","message":"It works.","next":"corkboard migrate status","more":1}"#;
    match failure(answer("409 Conflict", "", body)).await {
        OperatorError::Refused { status: 409, refusal } => {
            assert_eq!((refusal.code.as_str(), refusal.message.as_str()), ("busy", "It works."));
            assert_eq!(refusal.next.as_deref(), Some("corkboard migrate status"));
            assert_eq!(refusal.document.as_bytes(), body);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn failures_without_words_are_told_apart() {
    let shown = |error: OperatorError| error.to_string();
    assert_eq!(
        shown(failure(answer("404 Not Found", "", b"404 page not found")).await),
        "the server answered GET /a with status 404; is it of an older release, or another program?"
    );
    let loading =
        answer("503 Service Unavailable", "X-Corkboard-Phase: loading\r\n", br#"{"code":"x","phase":"loading"}"#);
    assert_eq!(
        shown(failure(loading).await),
        "the server answered GET /a with status 503 (phase: loading); nothing was changed, try again"
    );
    let closed = failure(Reply::BytesThenClose(Vec::new())).await;
    assert!(matches!(closed, OperatorError::Transport { kind: TransportKind::Closed, .. }), "{closed:?}");
}

#[tokio::test]
async fn the_time_limit_of_calls_holds() {
    let server = Server::start(vec![Reply::Silence]).await;
    let client = server.client_with(|config| config.timeout = Some(Duration::from_millis(50)));
    let error = client.ask(&Question::get("/a", &[])).await.unwrap_err();
    assert!(matches!(error, OperatorError::Transport { kind: TransportKind::Timeout, .. }), "{error:?}");
}
