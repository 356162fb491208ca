//! A stop that loses nothing: requests in flight finish, nobody new gets in, and the next life sees the data.

use std::time::Duration;

use api::client::{ClientError, TransportKind};
use tokio::io::AsyncWriteExt;

use crate::harness::{Server, shown, until};
use crate::{raw, samples};

#[tokio::test]
async fn requests_in_flight_finish_and_nobody_new_gets_in() {
    let server = Server::start().await;
    let client = server.client();
    client.ping().await.unwrap();
    let address = server.ready.api;
    // Half a request: its head is there, its body is not.
    let mut half = raw::connect(address).await;
    let body = api::encode(api::models::UpsertDomainRequest { domain: "late".into(), ttl: 0 });
    let request = raw::request("POST", "/v1/domains/upsert", "", &body);
    half.write_all(&request[..request.len() - 3]).await.unwrap();
    let mut idle = raw::connect(address).await;
    let mut events = client.subscribe_to_task_events(Default::default()).await.unwrap();
    client.desire_task("t", "d", samples::task()).await.unwrap();
    let fresh = server.client();

    let stopping = server.begin_to_stop();
    assert_eq!(events.next().await.unwrap().unwrap().name, "task_created", "what was announced is still delivered");
    assert!(events.next().await.unwrap().is_none(), "and the stream ends in order");
    until("new connections are refused", || async {
        matches!(fresh.ping().await, Err(ClientError::Transport { kind: TransportKind::Refused, .. }))
    })
    .await;
    assert_eq!(raw::read_to_end(&mut idle).await, b"", "idle connections are closed at once");

    half.write_all(&request[request.len() - 3..]).await.unwrap();
    let reply = raw::Reply::parse(&raw::read_to_end(&mut half).await).unwrap();
    assert_eq!((reply.status, reply.body.as_slice()), (200, &b""[..]));

    let server = stopping.wait().await.start().await;
    assert_eq!(server.client().domains().await.unwrap(), ["late"], "what was acknowledged is there");
}

#[tokio::test]
async fn a_restart_shows_the_same_board() {
    let server = Server::start().await;
    let client = server.client();
    client.upsert_domain("d", 0).await.unwrap();
    for at in 0..20 {
        client.desire_lrp(samples::lrp(&format!("p{at}"), 3)).await.unwrap();
        client.desire_task(&format!("t{at}"), "d", samples::task()).await.unwrap();
    }
    client.start_actual_lrp(samples::start("p1", 0, "a")).await.unwrap();
    client.claim_actual_lrp("p1", 1, samples::instance("b")).await.unwrap();
    client.fail_actual_lrp(samples::key("p2", 2), "no room").await.unwrap();
    client.start_actual_lrp(samples::start("p3", 0, "c")).await.unwrap();
    assert!(client.evacuate_running_actual_lrp(samples::evacuate_running("p3", 0, "c")).await.keep_container);
    client.start_actual_lrp(samples::start("p4", 0, "d")).await.unwrap();
    client.crash_actual_lrp(samples::key("p4", 0), samples::instance("d"), "why").await.unwrap();
    client.start_task("t3", "cell").await.unwrap();
    client.cancel_task("t4").await.unwrap();
    client.remove_desired_lrp("p19").await.unwrap();
    let before = shown(&client).await;
    let server = server.restart().await;
    assert_eq!(shown(&server.client()).await, before);
    let server = server.restart().await;
    assert_eq!(shown(&server.client()).await, before);
}

#[tokio::test]
async fn a_client_that_never_finishes_does_not_hold_the_stop_up_for_ever() {
    let server = Server::with(|config| config.limits.drain_timeout = Duration::from_millis(300)).await;
    let mut stuck = raw::connect(server.ready.api).await;
    stuck.write_all(b"POST /v1/domains/upsert HTTP/1.1\r\nHost: bbs\r\nContent-Length: 100\r\n\r\n").await.unwrap();
    server.client().ping().await.unwrap();
    server.stop().await;
    assert_eq!(raw::read_to_end(&mut stuck).await, b"");
}

#[tokio::test]
async fn stopping_under_load_keeps_what_was_acknowledged() {
    let server = Server::start().await;
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let client = server.client();
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for at in 0.. {
                    let guid = format!("t{writer}-{at}");
                    match client.desire_task(&guid, "d", samples::task()).await {
                        Ok(()) => acknowledged.push(guid),
                        Err(error) => {
                            assert!(error.bbs().is_none(), "{error:?}");
                            break;
                        }
                    }
                }
                acknowledged
            })
        })
        .collect();
    let client = server.client();
    until("there is some load", || async { client.tasks(Default::default()).await.unwrap().len() > 50 }).await;
    let stopped = server.stop().await;
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    let client = stopped.start().await;
    let tasks = client.client().tasks(Default::default()).await.unwrap();
    let stored: std::collections::BTreeSet<_> = tasks.into_iter().map(|task| task.task_guid).collect();
    let lost: Vec<_> = acknowledged.iter().filter(|guid| !stored.contains(*guid)).collect();
    assert!(lost.is_empty() && acknowledged.len() > 50, "{lost:?}");
}
