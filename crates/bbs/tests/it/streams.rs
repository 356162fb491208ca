//! Event streams: framing, filters, order, and how they end.

use std::collections::BTreeMap;
use std::net::TcpListener;

use api::Route;
use api::client::{Client, ClientConfig, Feed, FeedItem, Retry, Subscription};
use api::event::EventPayload;
use api::models::{DesiredLrp, DesiredLrpUpdate, EnvironmentVariable};
use base64::Engine;
use bbs::events::RingLimits;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::assembled::{Assembled, Parts};
use crate::harness::{PATIENCE, Server, until};
use crate::{narrate, raw, samples};

async fn open(address: std::net::SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> TcpStream {
    let mut stream = raw::connect(address).await;
    stream.write_all(&raw::request(method, path, headers, body)).await.unwrap();
    let head = raw::read_until(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    stream
}

#[tokio::test]
async fn an_event_is_three_lines_in_a_chunk() {
    let server = Server::start().await;
    let client = server.client();
    let mut stream = open(server.ready.api, "GET", "/v1/events.r1", "", b"").await;
    client.desire_lrp(samples::lrp("p", 0)).await.unwrap();
    let chunk = raw::read_until(&mut stream, "\n\n\r\n").await;
    let (size, rest) = chunk.split_once("\r\n").unwrap();
    let block = rest.strip_suffix("\r\n").unwrap();
    assert_eq!(usize::from_str_radix(size, 16).unwrap(), block.len());
    let lines: Vec<_> = block.split('\n').collect();
    let [id, event, data, "", ""] = lines.as_slice() else { panic!("{block:?}") };
    assert!(id.strip_prefix("id: ").unwrap().parse::<u64>().unwrap() > 0, "{id}");
    assert_eq!(*event, "event: desired_lrp_created");
    let data = base64::engine::general_purpose::STANDARD.decode(data.strip_prefix("data: ").unwrap()).unwrap();
    let EventPayload::DesiredLrpCreated(created) = EventPayload::decode("desired_lrp_created", &data).unwrap() else {
        panic!("{data:?}")
    };
    let shown = created.desired_lrp.unwrap();
    assert_eq!(shown.modification_tag.unwrap().index, 0);
    assert_eq!(DesiredLrp { modification_tag: None, routes: None, ..shown }, samples::lrp("p", 0));

    server.stop().await;
    assert_eq!(raw::read_to_end(&mut stream).await, b"0\r\n\r\n", "a server that stops ends its streams in order");
}

#[tokio::test]
async fn the_oldest_streams_show_the_oldest_shape() {
    let server = Server::start().await;
    let client = server.client();
    let mut streams = [
        client.subscribe(Route::EventStreamR0, Default::default()).await.unwrap(),
        client.subscribe(Route::LrpInstanceEventStreamR0, Default::default()).await.unwrap(),
    ];
    let lrp = DesiredLrp { start_timeout_ms: 90_500, ..samples::lrp("p", 0) };
    client.desire_lrp(lrp).await.unwrap();
    for stream in &mut streams {
        let EventPayload::DesiredLrpCreated(created) = stream.next().await.unwrap().unwrap().payload else { panic!() };
        let shown = created.desired_lrp.unwrap();
        assert_eq!((shown.start_timeout_ms, shown.deprecated_start_timeout_s), (90_500, 90));
    }
    let mut tasks = client.subscribe(Route::TaskEventStreamR0, Default::default()).await.unwrap();
    client.desire_task("t", "d", samples::task()).await.unwrap();
    assert_eq!(tasks.next().await.unwrap().unwrap().name, "task_created");
}

#[tokio::test]
async fn a_cell_hears_of_its_own_instances_and_of_all_that_is_wanted() {
    let server = Server::start().await;
    let client = server.client();
    let what = Subscription { cell_id: "cell-a".into(), last_event_id: None };
    let mut groups = client.subscribe_to_events(what.clone()).await.unwrap();
    let mut instances = client.subscribe_to_instance_events(what).await.unwrap();
    client.desire_lrp(samples::lrp("p", 2)).await.unwrap();
    client.start_actual_lrp(samples::start("p", 0, "b")).await.unwrap();
    client.claim_actual_lrp("p", 1, samples::instance("a")).await.unwrap();
    client.crash_actual_lrp(samples::key("p", 0), samples::instance("b"), "why").await.unwrap();
    client.start_actual_lrp(samples::start("p", 1, "c")).await.unwrap();
    client.start_actual_lrp(samples::start("p", 0, "a")).await.unwrap();
    client.remove_desired_lrp("p").await.unwrap();
    let mut heard = [String::new(), String::new()];
    for (stream, heard) in [&mut groups, &mut instances].into_iter().zip(&mut heard) {
        loop {
            let payload = stream.next().await.unwrap().unwrap().payload;
            *heard += &(narrate::event(&payload) + "\n");
            if matches!(payload, EventPayload::DesiredLrpRemoved(_)) {
                break;
            }
        }
    }
    expect_test::expect![[r#"
        desired_lrp_created p x2
        actual_lrp_changed p/1 UNCLAIMED -> p/1 CLAIMED a@cell-a
        actual_lrp_removed p/1 CLAIMED a@cell-a
        actual_lrp_changed p/0 UNCLAIMED -> p/0 RUNNING a@cell-a
        desired_lrp_removed p x2
    "#]]
    .assert_eq(&heard[0]);
    expect_test::expect![[r#"
        desired_lrp_created p x2
        actual_lrp_instance_changed p/1 a@cell-a: UNCLAIMED -> CLAIMED
        actual_lrp_instance_changed p/0 a@cell-a: UNCLAIMED -> RUNNING
        desired_lrp_removed p x2
    "#]]
    .assert_eq(&heard[1]);
}

#[tokio::test]
async fn a_client_that_hangs_up_is_noticed() {
    let world = Assembled::new().await;
    let open_streams = || world.app.hub.subscribers();
    let streams = [
        open(world.api, "GET", "/v1/events", "", b"").await,
        open(world.api, "POST", "/v1/events/tasks.r1", "", b"").await,
    ];
    assert_eq!(open_streams(), 2);
    drop(streams);
    until("the subscriptions are freed", || async { open_streams() == 0 }).await;
}

/// Many writers on few records, and one subscriber that is torn away again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resuming_under_load_loses_nothing_and_repeats_nothing() {
    const WRITERS: usize = 32;
    const RECORDS: usize = 8;
    const UPDATES: usize = 25;
    let server = Server::start().await;
    let client = server.client();
    for record in 0..RECORDS {
        client.desire_lrp(samples::lrp(&format!("p{record}"), 0)).await.unwrap();
    }
    let mut stream = client.subscribe_to_instance_events(Default::default()).await.unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let client = server.client();
            tokio::spawn(async move {
                for update in 0..UPDATES {
                    let annotation = Some(format!("{writer} {update}"));
                    let update = DesiredLrpUpdate { annotation, ..Default::default() };
                    client.update_desired_lrp(&format!("p{}", writer % RECORDS), update).await.unwrap();
                }
            })
        })
        .collect();
    let mut tags: BTreeMap<String, u32> = BTreeMap::new();
    let mut last_id = None;
    let (mut seen, mut torn) = (0, 0);
    while seen < WRITERS * UPDATES {
        let event = stream.next().await.unwrap().unwrap();
        let EventPayload::DesiredLrpChanged(changed) = event.payload else { panic!("{}", event.name) };
        let (before, after) = (changed.before.unwrap(), changed.after.unwrap());
        let tag = after.modification_tag.unwrap().index;
        assert_eq!(before.modification_tag.unwrap().index + 1, tag);
        let known = tags.entry(after.process_guid).or_default();
        assert_eq!(tag, *known + 1, "neither lost nor repeated nor out of order");
        *known = tag;
        seen += 1;
        last_id = Some(event.id);
        if seen % 7 == 0 {
            // Whatever else of this connection was on its way is lost with it.
            drop(stream);
            torn += 1;
            let what = Subscription { cell_id: String::new(), last_event_id: last_id.clone() };
            stream = client.subscribe_to_instance_events(what).await.unwrap();
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(torn > 100, "{torn}");
    assert_eq!(tags.len(), RECORDS);

    // Who saw everything resumes without a gap, also on the server's next life.
    let server = server.restart().await;
    let client = server.client();
    let what = |id: &str| Subscription { cell_id: String::new(), last_event_id: Some(id.to_owned()) };
    let mut resumed = client.subscribe_to_instance_events(what(&last_id.unwrap())).await.unwrap();
    let mut gapped = client.subscribe_to_instance_events(what("1")).await.unwrap();
    client.remove_desired_lrp("p0").await.unwrap();
    assert_eq!(resumed.next().await.unwrap().unwrap().name, "desired_lrp_removed");
    let gap = gapped.next().await.unwrap().unwrap();
    assert!(matches!(gap.payload, EventPayload::Gap(_)), "what happened before the restart is not held: {gap:?}");
    let next = gapped.next().await.unwrap().unwrap();
    assert_eq!(next.name, "desired_lrp_removed", "and the stream goes on");
    assert_ne!(gap.id, next.id);
}

#[tokio::test]
async fn steps_of_one_change_can_be_resumed_in_between() {
    let server = Server::start().await;
    let client = server.client();
    let mut whole = client.subscribe_to_instance_events(Default::default()).await.unwrap();
    client.desire_lrp(samples::lrp("p", 200)).await.unwrap();
    let mut events = Vec::new();
    for _ in 0..201 {
        events.push(whole.next().await.unwrap().unwrap());
    }
    for at in (0..201).step_by(13) {
        let what = Subscription { cell_id: String::new(), last_event_id: Some(events[at].id.clone()) };
        let mut rest = client.subscribe_to_instance_events(what).await.unwrap();
        for expected in &events[at + 1..] {
            assert_eq!(rest.next().await.unwrap().as_ref(), Some(expected), "after {}", events[at].id);
        }
    }
}

#[tokio::test]
async fn who_does_not_read_is_cut_off_with_a_reason() {
    let ring = RingLimits { events_max: 4, ..Default::default() };
    let world = Assembled::with(Parts { ring, ..Default::default() }).await;
    let client = world.client();
    let value = "x".repeat(512 * 1024);
    let large = EnvironmentVariable { name: "LARGE".into(), value };
    client.desire_lrp(DesiredLrp { environment_variables: vec![large], ..samples::lrp("p", 0) }).await.unwrap();
    let mut slow = open(world.api, "POST", "/v1/events/lrp_instances.r1", "", b"").await;
    let mut quick = client.subscribe_to_instance_events(Default::default()).await.unwrap();
    // Each of these is more than a megabyte on the wire, so the sockets in between are soon full.
    for annotation in 0..24 {
        let update = DesiredLrpUpdate { annotation: Some(annotation.to_string()), ..Default::default() };
        client.update_desired_lrp("p", update).await.unwrap();
        assert_eq!(quick.next().await.unwrap().unwrap().name, "desired_lrp_changed");
    }
    let all = String::from_utf8(raw::read_to_end(&mut slow).await).unwrap();
    let events = all.matches("event: desired_lrp_changed").count();
    assert!(events < 24, "{events}");
    let end = &all[all.len() - 200.min(all.len())..];
    assert!(end.contains(": closed: you read too slowly") && end.ends_with("\n\n\r\n0\r\n\r\n"), "{end}");
    until("it is counted", || async { world.app.metrics.events_cut_off.get() == 1 }).await;

    let what = Subscription { cell_id: String::new(), last_event_id: Some("2".into()) };
    let mut late = client.subscribe_to_instance_events(what).await.unwrap();
    let gap = late.next().await.unwrap().unwrap();
    assert!(matches!(gap.payload, EventPayload::Gap(_)), "{}", gap.name);
}

#[tokio::test]
async fn an_id_that_is_not_ours_is_ignored() {
    let server = Server::start().await;
    let client = server.client();
    let mut stream = open(server.ready.api, "POST", "/v1/events/tasks", "Last-Event-Id: what?\r\n", b"\xff").await;
    client.desire_task("t", "d", samples::task()).await.unwrap();
    let first = raw::read_until(&mut stream, "\n\n").await;
    assert!(first.contains("event: task_created"), "{first}");
}

/// What a feed says of the desired LRPs that come and go; a gap is a star.
async fn next_guid(feed: &mut Feed) -> String {
    let item = tokio::time::timeout(PATIENCE, feed.next()).await.expect("something comes").unwrap();
    match item {
        FeedItem::Event(event) => match event.payload {
            EventPayload::DesiredLrpCreated(created) => created.desired_lrp.unwrap().process_guid,
            other => panic!("{other:?}"),
        },
        FeedItem::Gap(_) => "*".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_outlives_its_server_and_misses_nothing() {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (nobody, address) = (free(), free());
    let server = Server::with(|config| config.listen = address).await;
    let urls = vec![format!("http://{nobody}"), format!("http://{address}")];
    let client = Client::new(ClientConfig { urls, retry: Retry::forever(), ..ClientConfig::new("") }).unwrap();
    let mut feed = client.follow_instance_events("").await.unwrap();
    client.desire_lrp(samples::lrp("before", 0)).await.unwrap();
    assert_eq!(next_guid(&mut feed).await, "before");

    let server = server.restart().await;
    client.desire_lrp(samples::lrp("after", 0)).await.unwrap();
    assert_eq!(next_guid(&mut feed).await, "after", "nothing was lost, so there is no gap");

    // A feed comes back when it is asked. What happened meanwhile, and is forgotten since another restart, is a gap.
    let server = server.restart().await;
    server.client().desire_lrp(samples::lrp("unseen", 0)).await.unwrap();
    let server = server.restart().await;
    assert_eq!(next_guid(&mut feed).await, "*");
    client.desire_lrp(samples::lrp("later", 0)).await.unwrap();
    assert_eq!(next_guid(&mut feed).await, "later");
    server.stop().await;
}
