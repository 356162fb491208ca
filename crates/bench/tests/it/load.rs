//! Every phase counts what it should, and takes no failure for a success.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::models::{
    ActualLrPsRequest, ActualLrPsResponse, ActualLrp, ActualLrpLifecycleResponse, DesiredLrPsResponse, DesiredLrp,
    DesiredLrpResponse, DesiredLrpSchedulingInfo, DesiredLrpSchedulingInfosResponse, Error,
};
use corkboard_bench::fleet::Fleet;
use corkboard_bench::load::events::{ALONE, DELIVERED, WATCHED};
use corkboard_bench::load::reads::{ALL_ACTUAL, ALL_DESIRED, ONE_CELL};
use corkboard_bench::load::{Load, Phase, Settings};
use prost::Message;

use crate::scripted::{PROTOBUF, Script, Scripted};

const FLEET: Fleet = Fleet { lrps: 40, cells: 10 };
const SUBSCRIBERS: u64 = 3;

fn settings() -> Settings {
    Settings {
        clients: 4,
        alone: 10,
        subscribers: SUBSCRIBERS,
        duration: Duration::from_millis(300),
        bulk_rounds: 2,
        small_rounds: 20,
    }
}

/// A server on which everything went well: 50 instances on 10 cells.
fn healthy(path: &str, body: &[u8]) -> Vec<u8> {
    match path {
        "/v1/actual_lrps/list" => {
            let cell = ActualLrPsRequest::decode(body).unwrap().cell_id;
            let count = if cell.is_empty() { 50 } else { 5 };
            ActualLrPsResponse { error: None, actual_lrps: vec![ActualLrp::default(); count] }.encode_to_vec()
        }
        "/v1/desired_lrps/list.r3" => {
            DesiredLrPsResponse { error: None, desired_lrps: vec![DesiredLrp::default(); 40] }.encode_to_vec()
        }
        "/v1/desired_lrp_scheduling_infos/list" => DesiredLrpSchedulingInfosResponse {
            error: None,
            desired_lrp_scheduling_infos: vec![DesiredLrpSchedulingInfo::default(); 40],
        }
        .encode_to_vec(),
        "/v1/desired_lrps/get_by_process_guid.r3" => {
            DesiredLrpResponse { error: None, desired_lrp: Some(DesiredLrp::default()) }.encode_to_vec()
        }
        _ => Vec::new(),
    }
}

async fn load(events_per_crash: u64, script: Arc<Script>) -> (Scripted, Load) {
    let server = Scripted::start(events_per_crash, script).await;
    let load = Load::new(server.target.clone(), FLEET, settings(), None);
    (server, load)
}

fn well() -> Arc<Script> {
    Arc::new(|path, body| (200, PROTOBUF, healthy(path, body)))
}

#[tokio::test]
async fn populate_and_claim_start_make_each_call_once() {
    let (server, load) = load(0, well()).await;
    let populate = load.run(Phase::Populate).await;
    assert!(!populate.failed(), "{populate:?}");
    assert_eq!(populate.measures[0].calls, 40);
    assert_eq!(server.requests.load(Ordering::Relaxed), 41, "the domain, and every LRP");
    let claims = load.run(Phase::ClaimStart).await;
    assert!(!claims.failed(), "{claims:?}");
    let calls = |what| claims.measure(what).unwrap().calls;
    assert_eq!((calls("claim"), calls("start"), calls("claim alone"), calls("start alone")), (40, 40, 10, 10));
    assert_eq!(calls("claim + start"), 80);
    assert!(claims.measures[0].per_second > 0.0 && claims.measures[0].latency.p50_ms > 0.0);
}

#[tokio::test]
async fn reads_count_records_and_a_list_with_a_hole_is_a_failure() {
    let (_server, complete) = load(0, well()).await;
    let reads = complete.run(Phase::Reads).await;
    assert!(!reads.failed(), "{reads:?}");
    let all = reads.measure(ALL_ACTUAL).unwrap();
    assert_eq!((all.calls, all.records as u64), (2, 50));
    assert!(all.first_byte_ms.is_some());
    assert_eq!(reads.measure(ONE_CELL).unwrap().calls, 20);

    let holed: Arc<Script> = Arc::new(|path, body| {
        let mut answer = healthy(path, body);
        if path == "/v1/desired_lrps/list.r3" {
            answer = DesiredLrPsResponse { error: None, desired_lrps: vec![DesiredLrp::default(); 39] }.encode_to_vec();
        }
        (200, PROTOBUF, answer)
    });
    let (_server, incomplete) = load(0, holed).await;
    let reads = incomplete.run(Phase::Reads).await;
    let found = reads.measure(ALL_DESIRED).unwrap().first_failure.as_deref();
    assert_eq!(found, Some("39 records, and 40 are there"));
    assert!(reads.failed());
}

#[tokio::test]
async fn a_refusal_is_counted_and_the_connection_goes_on() {
    let refusing: Arc<Script> = Arc::new(|path, body| {
        let error = Error { r#type: 15, message: "no".into() };
        match path {
            "/v1/actual_lrps/claim" => {
                (200, PROTOBUF, ActualLrpLifecycleResponse { error: Some(error) }.encode_to_vec())
            }
            _ => (200, PROTOBUF, healthy(path, body)),
        }
    });
    let (_server, load) = load(0, refusing).await;
    let claims = load.run(Phase::ClaimStart).await;
    assert!(claims.failed());
    let claim = claims.measure("claim").unwrap();
    assert_eq!((claim.calls, claim.failures), (0, 40));
    assert_eq!(claim.first_failure.as_deref(), Some("the server answered ActualLRPCannotBeClaimed: no"));
    assert_eq!(claims.measure("start").unwrap().calls, 40, "the start after a refused claim is still made");
}

#[tokio::test]
async fn an_answer_that_is_not_the_protocol_is_a_failure() {
    for (status, content_type) in [(503, "application/json"), (200, "text/html"), (404, "text/plain")] {
        let script: Arc<Script> = Arc::new(move |_, _| (status, content_type, b"{}".to_vec()));
        let (_server, load) = load(0, script).await;
        let claims = load.run(Phase::ClaimStart).await;
        assert!(claims.failed(), "{status} {content_type}");
        let why = claims.measure("claim").unwrap().first_failure.clone().unwrap();
        assert!(why.contains(&status.to_string()) && why.contains(content_type), "{why}");
    }
}

#[tokio::test]
async fn events_are_expected_by_everybody() {
    let (_server, complete) = load(5, well()).await;
    let events = complete.run(Phase::Events).await;
    assert!(!events.failed(), "{events:?}");
    let cycles = events.measure(WATCHED).unwrap().calls / 3;
    assert!(cycles > 0 && events.measure(ALONE).unwrap().calls > 0);
    assert_eq!(events.measure(DELIVERED).unwrap().calls, cycles * 5 * SUBSCRIBERS);

    let (_server, lossy) = load(4, well()).await;
    let events = lossy.run(Phase::Events).await;
    let delivered = events.measure(DELIVERED).unwrap();
    assert_eq!(delivered.failures, SUBSCRIBERS, "{delivered:?}");
    assert!(events.failed());
}

#[tokio::test]
async fn instances_crash_at_most_twice() {
    let (server, load) = load(5, well()).await;
    // A busy machine needs more rounds than an idle one.
    let (mut crashes, mut rounds) = (0, 0);
    while crashes < 2 * FLEET.instances() {
        rounds += 1;
        assert!(rounds < 100, "{crashes} crashes in so many rounds");
        crashes += load.run(Phase::Mixed).await.measure("crash").unwrap().calls;
    }
    assert_eq!(crashes, 2 * FLEET.instances());
    let mixed = load.run(Phase::Mixed).await;
    assert_eq!(mixed.measure("crash").unwrap().calls, 0, "all crashes are used up");
    assert!(mixed.failed(), "a phase that does nothing does not count");
    drop(server);
}

#[tokio::test]
async fn polls_keep_their_pace() {
    let (_server, load) = load(0, well()).await;
    let poll = load.run(Phase::Poll).await;
    // Ten cells poll every 30 s: the first poll of each poller comes at once or much later.
    let cells = poll.measure("polls of cells").unwrap();
    assert!((1..=8).contains(&cells.calls), "{cells:?}");
    assert_eq!(cells.failures, 0);
}
