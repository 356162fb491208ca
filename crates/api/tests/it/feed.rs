//! Feeds of events over connections that end in every way: nothing is lost or repeated without being told.

use std::time::Duration;

use api::client::{Client, ClientConfig, ClientError, Feed, FeedItem, Retry};
use api::event::{EventPayload, Gap};
use api::models::{Task, TaskCreatedEvent};
use api::sse;

use crate::server::{Reply, Server, answer};
use crate::tls::Pki;

const OURS: &str = "X-Corkboard-Server: 0.1.0\r\n";
const DIEGOS: &str = "";
const END: &str = "0\r\n\r\n";
/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

fn head(headers: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\n{headers}Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// The event that creates the task of that name.
fn frame(id: u64) -> String {
    let task = Task { task_guid: format!("t{id}"), ..Default::default() };
    let payload = EventPayload::TaskCreated(TaskCreatedEvent { task: Some(task) });
    String::from_utf8(sse::frame(id, payload.name(), &payload.encode()).to_vec()).unwrap()
}

fn event(id: u64) -> String {
    chunk(&frame(id))
}

fn gap(id: u64) -> String {
    let payload = EventPayload::Gap(Gap { reason: "too old".into(), oldest: 5, newest: id });
    chunk(std::str::from_utf8(&sse::frame(id, payload.name(), &payload.encode())).unwrap())
}

/// A connection of the server: these chunks, then it closes, in order only if they end with [`END`].
fn stream(headers: &str, chunks: &[String]) -> Reply {
    Reply::BytesThenClose((head(headers) + &chunks.concat()).into_bytes())
}

/// A connection that stays open and silent after these chunks.
fn idle(headers: &str, chunks: &[String]) -> Reply {
    Reply::Bytes((head(headers) + &chunks.concat()).into_bytes())
}

fn client(urls: Vec<String>) -> Client {
    let (pause_first, pause_max) = (Duration::from_millis(1), Duration::from_millis(20));
    let retry = Retry { rounds_max: 4, pause_first, pause_max, ..Retry::default() };
    Client::new(ClientConfig { urls, retry, ..ClientConfig::new("") }).unwrap()
}

async fn told(feed: &mut Feed) -> String {
    match tokio::time::timeout(PATIENCE, feed.next()).await.expect("something comes") {
        Ok(FeedItem::Event(event)) => event.id,
        Ok(FeedItem::Gap(gap)) if gap.newest == 0 => format!("gap: {}", gap.reason),
        Ok(FeedItem::Gap(gap)) => format!("gap up to {}", gap.newest),
        Err(error) => format!("error: {error}"),
    }
}

/// What a feed gives over these connections, and with which ids it came back.
async fn check(replies: Vec<Reply>, items: &[&str], last_ids: &[Option<&str>]) {
    let server = Server::start(replies).await;
    let mut feed = client(vec![server.url()]).follow_task_events().await.unwrap();
    for expected in items {
        assert_eq!(told(&mut feed).await, *expected);
    }
    let seen = server.requests();
    let ids: Vec<_> = seen.iter().map(|request| request.header("last-event-id")).collect();
    assert_eq!(ids, last_ids);
}

#[tokio::test]
async fn a_torn_stream_is_continued() {
    let replies = vec![stream(OURS, &[event(7), event(8)]), idle(OURS, &[event(9)])];
    check(replies, &["7", "8", "9"], &[None, Some("8")]).await;
}

#[tokio::test]
async fn so_is_one_that_ended_in_order() {
    let replies = vec![stream(OURS, &[event(7), END.into()]), idle(OURS, &[event(8)])];
    check(replies, &["7", "8"], &[None, Some("7")]).await;
}

/// Wherever it is cut, the half event is not an event, and its id is not where the feed continues.
#[tokio::test]
async fn an_event_that_is_cut_comes_whole_on_the_next_connection() {
    let second = frame(8);
    for cut in [1, 6, second.find("event").unwrap(), second.find("data").unwrap() + 9, second.len() - 1] {
        let replies = vec![stream(OURS, &[event(7), chunk(&second[..cut])]), idle(OURS, &[event(8), event(9)])];
        check(replies, &["7", "8", "9"], &[None, Some("7")]).await;
    }
}

#[tokio::test]
async fn a_gap_is_told_and_the_feed_goes_on_behind_it() {
    let replies = vec![stream(OURS, &[event(7)]), stream(OURS, &[gap(99), event(100)]), idle(OURS, &[event(101)])];
    check(replies, &["7", "gap up to 99", "100", "101"], &[None, Some("7"), Some("100")]).await;
}

#[tokio::test]
async fn a_gap_alone_is_where_it_continues_too() {
    let replies = vec![stream(OURS, &[event(7)]), stream(OURS, &[gap(99)]), idle(OURS, &[event(100)])];
    check(replies, &["7", "gap up to 99", "100"], &[None, Some("7"), Some("99")]).await;
}

#[tokio::test]
async fn before_the_first_event_there_is_nothing_to_continue_from() {
    let nothing = "gap: the connection ended before the first event, so there is nothing to continue from";
    let replies = vec![stream(OURS, &[]), idle(OURS, &[event(7)])];
    check(replies, &[nothing, "7"], &[None, None]).await;
}

#[tokio::test]
async fn ids_of_diegos_servers_mean_nothing_on_the_next_connection() {
    let lost = "gap: the server does not keep events for those who come back";
    let nothing = "gap: the connection ended before the first event, so there is nothing to continue from";
    let replies = vec![stream(DIEGOS, &[event(0), event(1)]), idle(DIEGOS, &[event(0)])];
    check(replies, &["0", "1", nothing, "0"], &[None, None]).await;
    let replies = vec![stream(OURS, &[event(7)]), stream(DIEGOS, &[event(0)]), idle(OURS, &[event(8)])];
    check(replies, &["7", lost, "0", nothing, "8"], &[None, Some("7"), None]).await;
}

#[tokio::test]
async fn a_server_that_restarts_is_waited_for() {
    let busy = answer("503 Service Unavailable", "X-Corkboard-Phase: loading\r\n", b"{}");
    let replies =
        vec![stream(OURS, &[event(7)]), busy.clone(), Reply::BytesThenClose(Vec::new()), busy, idle(OURS, &[event(8)])];
    check(replies, &["7", "8"], &[None, Some("7"), Some("7"), Some("7"), Some("7")]).await;
}

#[tokio::test]
async fn the_next_address_continues() {
    let refusing = answer("503 Service Unavailable", "X-Corkboard-Phase: waiting\r\n", b"{}");
    let first = Server::start(vec![stream(OURS, &[event(7)]), refusing]).await;
    let second = Server::start(vec![idle(OURS, &[event(8)])]).await;
    let mut feed = client(vec![first.url(), second.url()]).follow_instance_events("cell-1").await.unwrap();
    assert_eq!(told(&mut feed).await, "7");
    assert_eq!(told(&mut feed).await, "8");
    let seen = second.requests();
    assert_eq!(seen[0].line(), "POST /v1/events/lrp_instances.r1 HTTP/1.1");
    assert_eq!(seen[0].header("last-event-id"), Some("7"));
    assert_eq!(seen[0].body, b"\x0a\x06cell-1", "the cell is asked for again");
}

#[tokio::test]
async fn over_tls_too() {
    let pki = Pki::new();
    let busy = answer("503 Service Unavailable", "X-Corkboard-Phase: stopping\r\n", b"{}");
    let first = pki.server_with(vec![stream(OURS, &[event(7), chunk("id: 8\nevent: task")]), busy]).await;
    let second = pki.server_with(vec![idle(OURS, &[event(8)])]).await;
    let urls = [&first, &second].map(|server| format!("https://localhost:{}", server.port)).to_vec();
    let tls = Some(pki.files("good-client", "good", false));
    let client = Client::new(ClientConfig { urls, tls, ..ClientConfig::new("") }).unwrap();
    let mut feed = client.follow_task_events().await.unwrap();
    assert_eq!(told(&mut feed).await, "7");
    assert_eq!(told(&mut feed).await, "8");
    assert_eq!(second.requests()[0].header("last-event-id"), Some("7"));
}

#[tokio::test]
async fn an_event_of_a_newer_server_is_told_and_passed() {
    let unknown = chunk("id: 8\nevent: task_teleported\ndata: CgA=\n\n");
    let replies = vec![stream(OURS, &[event(7), unknown]), idle(OURS, &[event(9)])];
    check(replies, &["7", "error: an event on POST /v1/events/tasks.r1 cannot be read", "9"], &[None, Some("8")]).await;
}

#[tokio::test]
async fn an_outage_that_lasts_is_told_and_the_feed_can_be_asked_again() {
    let busy = answer("503 Service Unavailable", "X-Corkboard-Phase: loading\r\n", b"{}");
    let mut replies = vec![stream(OURS, &[event(7)])];
    replies.extend(std::iter::repeat_n(busy, 4));
    replies.push(idle(OURS, &[event(8)]));
    let server = Server::start(replies).await;
    let mut feed = client(vec![server.url()]).follow_task_events().await.unwrap();
    assert_eq!(told(&mut feed).await, "7");
    let outage = told(&mut feed).await;
    assert!(outage.contains("with status 503 (phase: loading) (4 attempts in "), "{outage}");
    assert_eq!(told(&mut feed).await, "8");
    assert_eq!(server.requests().last().unwrap().header("last-event-id"), Some("7"));
}

#[tokio::test]
async fn a_server_that_accepts_and_ends_at_once_does_not_keep_us_busy() {
    let server = Server::start(vec![stream(OURS, &[event(7)]), stream(OURS, &[END.into()])]).await;
    let mut feed = client(vec![server.url()]).follow_task_events().await.unwrap();
    assert_eq!(told(&mut feed).await, "7");
    match tokio::time::timeout(PATIENCE, feed.next()).await.expect("it ends") {
        Err(ClientError::Transport { attempts, .. }) => assert_eq!(attempts.made, 4),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn a_reader_that_stops_waiting_loses_nothing() {
    let server = Server::start(vec![stream(OURS, &[event(7), event(8)]), idle(OURS, &[event(9)])]).await;
    let mut feed = client(vec![server.url()]).follow_task_events().await.unwrap();
    let mut seen = Vec::new();
    let reading = async {
        while seen.len() < 3 {
            tokio::select! {
                biased;
                item = feed.next() => match item.unwrap() {
                    FeedItem::Event(event) => seen.push(event.id),
                    FeedItem::Gap(gap) => panic!("{gap:?}"),
                },
                () = tokio::task::yield_now() => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("it arrives");
    assert_eq!(seen, ["7", "8", "9"]);
}
