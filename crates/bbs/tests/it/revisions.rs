//! Older revisions: what their clients send and get, byte for byte, and that they show the same data as the newest.

mod bytes;
mod halves;
pub(crate) mod samples;

use api::models::{
    CellPresence, DesireLrpRequest, DesireTaskRequest, DesiredLrPsRequest, DesiredLrPsResponse, DesiredLrp,
    DesiredLrpLifecycleResponse, Task, TasksRequest, TasksResponse,
};
use api::{Response, Route, Wire, decode, encode, revision};

use crate::assembled::Assembled;
use crate::raw::{self, Reply};
use crate::samples as plain;

/// Calls a route with a message and reads its answer, which must not be an error.
async fn ask<M: Wire>(world: &Assembled, route: Route, request: impl Wire) -> M {
    let reply = raw::call(world.api, route, &encode(request)).await;
    assert_eq!(reply.status, 200, "{route}");
    decode(&reply.body).unwrap()
}

/// The text of the refusal, or nothing.
async fn refusal(world: &Assembled, route: Route, body: &[u8]) -> String {
    let mut answer: DesiredLrpLifecycleResponse = decode(raw::call(world.api, route, body).await.body).unwrap();
    answer.take_error().map(|error| error.message).unwrap_or_default()
}

async fn lrps(world: &Assembled, route: Route, filter: DesiredLrPsRequest) -> Vec<DesiredLrp> {
    ask::<DesiredLrPsResponse>(world, route, filter).await.desired_lrps
}

async fn tasks(world: &Assembled, route: Route, filter: TasksRequest) -> Vec<Task> {
    ask::<TasksResponse>(world, route, filter).await.tasks
}

#[tokio::test]
async fn cells_are_read_with_both_methods() {
    let world = Assembled::new().await;
    world.hear("cell-1");
    let [post, get] = [Route::Cells, Route::CellsByGet].map(|route| raw::call(world.api, route, b"not read"));
    let (post, get) = (post.await, get.await);
    assert_eq!((get.status, get.body), (200, post.body.clone()));
    let cells = decode::<api::models::CellsResponse>(post.body).unwrap().cells;
    assert_eq!(cells, [CellPresence { cell_id: "cell-1".into(), ..cells[0].clone() }]);
}

#[tokio::test]
async fn the_oldest_lists_know_no_filter_but_the_domain() {
    let world = Assembled::new().await;
    let client = world.client();
    for (guid, domain) in [("a", "d1"), ("b", "d2"), ("c", "d1")] {
        client.desire_lrp(DesiredLrp { domain: domain.into(), ..plain::lrp(guid, 0) }).await.unwrap();
        client.desire_task(guid, domain, plain::task()).await.unwrap();
    }
    client.start_task("a", "cell").await.unwrap();
    for route in [Route::DesiredLrpsR1, Route::DesiredLrpsR0] {
        for (domain, expected) in [("", "a b c"), ("d1", "a c"), ("nowhere", "")] {
            let guids = vec!["b".to_owned()];
            let filter = DesiredLrPsRequest { domain: domain.into(), process_guids: guids.clone(), app_guids: guids };
            let found: Vec<_> = lrps(&world, route, filter).await.into_iter().map(|lrp| lrp.process_guid).collect();
            assert_eq!(found.join(" "), expected, "{route} {domain:?}");
        }
    }
    for route in [Route::TasksR1, Route::TasksR0] {
        for (domain, cell, expected) in [("", "", "a b c"), ("d1", "", "a c"), ("", "cell", "a"), ("d2", "cell", "")] {
            let filter = TasksRequest { domain: domain.into(), cell_id: cell.into() };
            let found: Vec<_> = tasks(&world, route, filter).await.into_iter().map(|task| task.task_guid).collect();
            assert_eq!(found.join(" "), expected, "{route} {domain:?} {cell:?}");
        }
    }
}

#[tokio::test]
async fn absent_records_and_unnamed_ones() {
    let world = Assembled::new().await;
    let not_found = "the requested resource could not be found";
    for (route, field) in [
        (Route::DesiredLrpByProcessGuidR1, "process_guid"),
        (Route::DesiredLrpByProcessGuidR0, "process_guid"),
        (Route::TaskByGuidR1, "task_guid"),
        (Route::TaskByGuidR0, "task_guid"),
    ] {
        assert_eq!(refusal(&world, route, b"\x0a\x06nobody").await, not_found, "{route}");
        assert_eq!(refusal(&world, route, b"").await, format!("Invalid field: {field}"), "{route}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_said_after_the_conversion() {
    let world = Assembled::new().await;
    let lrp = |lrp: DesiredLrp| encode(DesireLrpRequest { desired_lrp: Some(lrp) });
    for route in [Route::DesireDesiredLrpR1, Route::DesireDesiredLrpR0] {
        assert_eq!(refusal(&world, route, b"").await, "Invalid field: desired_lrp");
        let text = refusal(&world, route, &lrp(DesiredLrp { domain: String::new(), ..plain::lrp("p", 1) })).await;
        assert_eq!(text, "Invalid field: domain, Invalid field: domain", "{route}");
        let empty_mount = api::models::VolumeMount { driver: "nfs".into(), ..Default::default() };
        let text =
            refusal(&world, route, &lrp(DesiredLrp { volume_mounts: vec![empty_mount], ..plain::lrp("p", 1) })).await;
        assert_eq!(text, "invalid volume_mount volume id", "read-only, and of no volume: {route}");
    }
    for route in [Route::DesireTaskR1, Route::DesireTaskR0] {
        let without = DesireTaskRequest { task_guid: "t".into(), domain: "d".into(), task_definition: None };
        assert_eq!(refusal(&world, route, &encode(without)).await, "Invalid field: task_definition");
    }
    assert_eq!(lrps(&world, Route::DesiredLrps, Default::default()).await, []);
    assert_eq!(tasks(&world, Route::Tasks, Default::default()).await, []);
}

#[tokio::test]
async fn a_client_that_knows_no_metric_tags_may_desire() {
    let world = Assembled::new().await;
    let mut shown = String::new();
    let routes =
        [Route::DesireDesiredLrp, Route::DesireDesiredLrpR1, Route::DesireDesiredLrpR0, Route::CreateDesiredLrp09];
    for (at, route) in routes.into_iter().enumerate() {
        for (metrics_guid, log_guid) in [("m", "l"), ("", "l"), ("", "")] {
            let guid = format!("p{at}-{metrics_guid}{log_guid}");
            let (metrics_guid, log_guid) = (metrics_guid.into(), log_guid.into());
            let lrp = DesiredLrp { metrics_guid, log_guid, metric_tags: [].into(), ..plain::lrp(&guid, 1) };
            let request = encode(DesireLrpRequest { desired_lrp: Some(lrp) });
            assert_eq!(refusal(&world, route, &request).await, "", "{route}");
        }
    }
    for lrp in lrps(&world, Route::DesiredLrps, Default::default()).await {
        shown += &format!("{}: {} {:?}\n", lrp.process_guid, lrp.metrics_guid, lrp.metric_tags["source_id"].r#static);
    }
    expect_test::expect![[r#"
        p0-: p0- "p0-"
        p0-l: l "l"
        p0-ml: m "m"
        p1-: p1- "p1-"
        p1-l: l "l"
        p1-ml: m "m"
        p2-: p2- "p2-"
        p2-l: l "l"
        p2-ml: m "m"
        p3-: p3- "p3-"
        p3-l: l "l"
        p3-ml: m "m"
    "#]]
    .assert_eq(&shown);
}

/// Takes the pieces of a chunked answer out of their frames, and says how many there were.
fn dechunked(reply: &Reply) -> (usize, Vec<u8>) {
    let (mut rest, mut whole, mut pieces) = (&reply.body[..], Vec::new(), 0);
    loop {
        let at = rest.windows(2).position(|window| window == b"\r\n").unwrap();
        let len = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
        if len == 0 {
            return (pieces, whole);
        }
        whole.extend_from_slice(&rest[at + 2..][..len]);
        rest = &rest[at + 2 + len + 2..];
        pieces += 1;
    }
}

#[tokio::test]
async fn a_long_list_is_converted_piece_by_piece() {
    let world = Assembled::new().await;
    let client = world.client();
    for number in 0..120 {
        let domain = if number % 2 == 0 { "even" } else { "odd" }.to_owned();
        let lrp = samples::everything(&format!("p{number:03}"));
        client.desire_lrp(DesiredLrp { domain, annotation: "x".repeat(10_000), ..lrp }).await.unwrap();
    }
    let newest = lrps(&world, Route::DesiredLrps, Default::default()).await;
    let conversions = [
        (Route::DesiredLrpsR1, revision::desired_lrp_v3_to_v1 as fn(DesiredLrp) -> DesiredLrp),
        (Route::DesiredLrpsR0, revision::desired_lrp_v3_to_v0),
    ];
    for (route, convert) in conversions {
        for domain in ["", "odd"] {
            let filter = DesiredLrPsRequest { domain: domain.into(), ..Default::default() };
            let reply = raw::call(world.api, route, &encode(filter)).await;
            assert_eq!(reply.header("content-type"), Some("application/x-protobuf"));
            assert_eq!((reply.header("transfer-encoding"), reply.header("content-length")), (Some("chunked"), None));
            let (pieces, body) = dechunked(&reply);
            assert!(pieces > 2, "{pieces} pieces");
            let expected = newest.iter().filter(|lrp| domain.is_empty() || lrp.domain == domain).cloned().map(convert);
            let shown = decode::<DesiredLrPsResponse>(body).unwrap().desired_lrps;
            assert!(shown == expected.collect::<Vec<_>>(), "{route} in {domain:?}");
        }
    }
}
