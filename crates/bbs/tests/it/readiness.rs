//! What clients hear before and after the board is there, and when a request meets a defect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::Route;
use bbs::clock::{Clock, SystemClock};
use bbs::phase::Stage;

use crate::assembled::{Assembled, Parts};
use crate::harness::verdict;
use crate::{raw, samples};

async fn check_unavailable(world: &Assembled, phase: &str) {
    for route in Route::ALL {
        let request = raw::request(route.method().as_str(), route.path(), "X-Vcap-Request-Id: id\r\n", b"\x0a");
        let reply = raw::exchange(world.api, &request).await.unwrap();
        assert_eq!(reply.status, 503, "{route}");
        assert_eq!(reply.header("content-type"), Some("application/json"), "never protobuf: {route}");
        assert_eq!(reply.header("retry-after"), Some("1"));
        assert_eq!(reply.header("x-corkboard-phase"), Some(phase));
        assert_eq!(reply.header("x-vcap-request-id"), Some("id"));
        let json: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((json["code"].as_str(), json["phase"].as_str()), (Some("not-ready"), Some(phase)), "{json}");
        assert!(json["message"].as_str().unwrap().contains("nothing was changed"), "{json}");
        assert!(json["done"].is_u64() && json["total"].is_u64() && json["eta_s"].is_u64(), "{json}");
    }
    // Paths that do not exist do not exist in any phase.
    assert_eq!(raw::post(world.api, "/v1/nothing", b"").await.status, 404);
}

#[tokio::test]
async fn while_there_is_no_board_every_route_says_so() {
    let world = Assembled::not_ready(Parts::default()).await;
    check_unavailable(&world, "waiting").await;
    world.phase.enter(Stage::Loading);
    check_unavailable(&world, "loading").await;
    world.phase.serve(world.app.clone());
    assert!(world.client().ping().await.unwrap());
    world.phase.close(Stage::Stopping);
    check_unavailable(&world, "stopping").await;
}

/// A clock that can be made to panic, in a handler and in the writer.
#[derive(Debug, Default)]
struct Trap {
    time: AtomicBool,
    ids: AtomicBool,
}

impl Clock for Trap {
    fn now_ns(&self) -> model::Nanos {
        assert!(!self.time.load(Ordering::SeqCst), "a defect in a handler");
        SystemClock.now_ns()
    }

    fn fresh_id(&self) -> Arc<str> {
        assert!(!self.ids.load(Ordering::SeqCst), "a defect in a command");
        SystemClock.fresh_id()
    }
}

#[tokio::test]
async fn a_panic_stays_in_its_request() {
    let trap = Arc::new(Trap::default());
    let world = Assembled::with(Parts { clock: Some(trap.clone()), ..Default::default() }).await;
    let client = world.client();
    client.desire_lrp(samples::lrp("p", 1)).await.unwrap();
    let before = crate::harness::shown(&client).await;

    trap.time.store(true, Ordering::SeqCst);
    let reply = raw::post(world.api, Route::Domains.path(), b"").await;
    assert_eq!((reply.status, reply.header("content-type")), (500, Some("text/plain; charset=utf-8")));
    trap.time.store(false, Ordering::SeqCst);
    assert_eq!(world.app.metrics.panics.get(), 1);

    trap.ids.store(true, Ordering::SeqCst);
    assert_eq!(
        verdict(client.claim_actual_lrp("p", 0, samples::instance("a")).await),
        "UnknownError: the server met a defect while applying this request; nothing was changed"
    );
    trap.ids.store(false, Ordering::SeqCst);

    assert_eq!(crate::harness::shown(&client).await, before);
    client.claim_actual_lrp("p", 0, samples::instance("a")).await.unwrap();
}

#[tokio::test]
async fn a_store_that_is_away_for_a_moment_is_a_503_and_nothing_is_changed() {
    let world = Assembled::new().await;
    let client = world.client();
    client.desire_lrp(samples::lrp("p", 1)).await.unwrap();
    let before = crate::harness::shown(&client).await;
    world.store.fail_before(world.store.writes() + 1);
    let error = client.claim_actual_lrp("p", 0, samples::instance("a")).await.unwrap_err();
    let api::client::ClientError::Status { status: 503, phase: Some(phase), body, .. } = error else {
        panic!("{error:?}")
    };
    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((json["code"].as_str(), phase.as_str()), (Some("store"), "serving"), "{json}");
    assert_eq!(crate::harness::shown(&client).await, before);
    client.claim_actual_lrp("p", 0, samples::instance("a")).await.unwrap();
}
