//! Event streams, byte for byte as they were seen on the wire.

use api::client::{ClientError, EventStream, Subscription, TransportKind};
use api::event::{Event, EventPayload, Gap};
use api::sse;

use crate::server::{Reply, Server, answer};

const HEAD: &str = "HTTP/1.1 200 OK\r\nCache-Control: no-cache, no-store, must-revalidate\r\nConnection: keep-alive\r\n\
    Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Two events with the chunk headers that Diego's server writes, which end in an empty extension.
const TWO_EVENTS: &str = "39;\r\nid: 0\nevent: desired_lrp_created\ndata: CgQKAnBnEgJ0cg==\n\n\r\n\
    49;\r\nid: 1\nevent: actual_lrp_instance_created\ndata: Cg8KBwoCcGcaAWQSABoASgA=\n\n\r\n";

const END: &str = "0\r\n\r\n";

async fn open(body: &str) -> EventStream {
    let server = Server::start(vec![Reply::BytesThenClose([HEAD, body].concat().into_bytes())]).await;
    server.client().subscribe_to_instance_events(Subscription::default()).await.unwrap()
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

async fn event(stream: &mut EventStream) -> Event {
    stream.next().await.unwrap().expect("the stream has another event")
}

#[tokio::test]
async fn diegos_stream_is_read_to_its_orderly_end() {
    let mut stream = open(&[TWO_EVENTS, END].concat()).await;
    assert_eq!(stream.last_event_id(), "");

    let first = event(&mut stream).await;
    assert_eq!((first.id.as_str(), first.name.as_str()), ("0", "desired_lrp_created"));
    let EventPayload::DesiredLrpCreated(created) = first.payload else { panic!("{first:?}") };
    assert_eq!((created.desired_lrp.unwrap().process_guid.as_str(), created.trace_id.as_str()), ("pg", "tr"));

    let second = event(&mut stream).await;
    let EventPayload::ActualLrpInstanceCreated(created) = second.payload else { panic!("{second:?}") };
    let key = created.actual_lrp.unwrap().actual_lrp_key.unwrap();
    assert_eq!((key.process_guid.as_str(), key.domain.as_str()), ("pg", "d"));
    assert_eq!(stream.last_event_id(), "1");

    assert!(stream.next().await.unwrap().is_none());
    assert!(stream.next().await.unwrap().is_none(), "the end stays the end");
}

#[tokio::test]
async fn our_frames_are_diegos_frames() {
    let mut stream = open(&[TWO_EVENTS, END].concat()).await;
    let mut again = String::new();
    while let Some(event) = stream.next().await.unwrap() {
        let frame = sse::frame(&event.id, &event.name, &event.payload.encode());
        let text = std::str::from_utf8(&frame).unwrap();
        again += &format!("{:x};\r\n{text}\r\n", text.len());
    }
    assert_eq!(again, TWO_EVENTS);
}

#[tokio::test]
async fn a_torn_stream_is_not_an_orderly_end() {
    let mut stream = open(TWO_EVENTS).await;
    event(&mut stream).await;
    event(&mut stream).await;
    match stream.next().await.unwrap_err() {
        ClientError::Transport { kind: TransportKind::Closed, .. } => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(stream.last_event_id(), "1", "from where to continue");
}

#[tokio::test]
async fn events_may_be_cut_anywhere_and_end_in_crlf() {
    let text = ": hello\r\n\r\nid: 5\r\nevent: task_removed\r\ndata: CgMSAXQ=\r\n\r\n";
    let cut: String = text.chars().map(|character| chunk(&character.to_string())).collect();
    let mut stream = open(&[&cut, END].concat()).await;
    let event = event(&mut stream).await;
    let EventPayload::TaskRemoved(removed) = event.payload else { panic!("{event:?}") };
    assert_eq!(removed.task.unwrap().task_guid, "t");
}

#[tokio::test]
async fn an_event_that_cannot_be_read_does_not_end_the_stream() {
    let bad = chunk("event: lrp_teleported\ndata: CgA=\n\n")
        + &chunk("event: task_removed\ndata: !!!\n\n")
        + &chunk("event: task_removed\ndata: Cg==\n\n")
        + &chunk("event: task_removed\ndata: CgMSAXQ=\n\n");
    let mut stream = open(&[&bad, END].concat()).await;
    for expected in ["the event name \"lrp_teleported\"", "the event task_removed is not base64", "cannot be read"] {
        match stream.next().await.unwrap_err() {
            ClientError::Event { source, .. } => assert!(source.to_string().contains(expected), "{source}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(event(&mut stream).await.name, "task_removed");
}

#[tokio::test]
async fn a_gap_is_told() {
    let gap = EventPayload::Gap(Gap { reason: "the ring holds 10 events".into(), oldest: 90, newest: 99 });
    let frame = sse::frame(89, gap.name(), &gap.clone().encode());
    let mut stream = open(&[&chunk(std::str::from_utf8(&frame).unwrap()), END].concat()).await;
    let event = event(&mut stream).await;
    assert_eq!((event.name.as_str(), event.id.as_str(), event.payload), ("gap", "89", gap));
}

#[tokio::test]
async fn a_block_too_large_ends_the_stream() {
    let line = "x".repeat(1024 * 1024);
    let body: String = std::iter::repeat_n(chunk(&line), 17).collect();
    let mut stream = open(&body).await;
    assert!(matches!(stream.next().await, Err(ClientError::Stream { .. })));
}

#[tokio::test]
async fn a_subscription_is_what_diego_sends() {
    let server = Server::start(vec![Reply::Bytes([HEAD, END].concat().into_bytes())]).await;
    let client = server.client_with(|config| config.trace_id = Some("t".into()));
    let cell = Subscription { cell_id: "cell".into(), last_event_id: Some("41".into()) };
    client.subscribe_to_events(cell).await.unwrap();
    client.subscribe_to_events(Subscription::default()).await.unwrap();

    let seen = server.requests();
    assert_eq!(seen[0].line(), "GET /v1/events.r1 HTTP/1.1", "with a body, although it is a GET");
    assert_eq!(seen[0].body, b"\x0a\x04cell");
    assert_eq!(seen[0].header("content-length"), Some("6"));
    assert_eq!(seen[0].header("last-event-id"), Some("41"));
    assert_eq!(seen[0].header("content-type"), None);
    assert_eq!(seen[0].header("x-vcap-request-id"), None);
    assert_eq!((seen[1].body.as_slice(), seen[1].header("last-event-id")), (&b""[..], None));
}

#[tokio::test]
async fn headers_arrive_before_any_event() {
    let server = Server::start(vec![Reply::Bytes(HEAD.into())]).await;
    let mut stream = server.client().subscribe_to_task_events(Subscription::default()).await.unwrap();
    // The future is dropped while it waits; nothing is lost by that.
    tokio::select! {
        biased;
        event = stream.next() => panic!("{event:?}"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn only_status_200_is_a_stream() {
    let server = Server::start(vec![answer("500 Internal Server Error", "", b"")]).await;
    let error = server.client().subscribe_to_events(Subscription::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::Status { status: 500, .. }), "{error:?}");
}
