//! Auctions between real sockets: who is asked, what is sent, what is reported.

use std::sync::atomic::Ordering;
use std::time::Duration;

use api::rep::{Lrp, Task, Work};
use auctioneer::{AlwaysMine, Config};
use rig::pki::Pki;

use crate::cell::{Cell, Taking};
use crate::world::{World, config};

#[tokio::test]
async fn work_reaches_the_cell_as_diego_sends_it() {
    let mut cell = Cell::start("cell-1").await;
    let world = World::with(&[&cell]).await;
    let body = r#"[{"process_guid":"pg-1","domain":"my-domain","indices":[0],"PlacementTags":null,"VolumeDrivers":[],"RootFs":"preloaded:s","MemoryMB":64,"DiskMB":128,"MaxPids":100}]"#;
    assert_eq!(world.post("/v1/lrps", "an-id", body).await, "202 {}");
    let expected = r#"{"LRPs":[{"instance_guid":"","process_guid":"pg-1","index":0,"domain":"my-domain","PlacementTags":null,"VolumeDrivers":[],"RootFs":"preloaded:s","MemoryMB":64,"DiskMB":128,"MaxPids":100,"state":""}],"Tasks":null,"cell_id":"cell-1"}"#;
    assert_eq!(cell.work().await, ("an-id".to_owned(), expected.to_owned()));
}

#[tokio::test]
async fn cells_with_and_without_tls_are_served() {
    let pki = Pki::new();
    let path = |name: &str| pki.path(name);
    let tls = api::client::tls::server_config(&path("ca.crt"), &path("server.crt"), &path("server.key")).unwrap();
    let mut plain = Cell::start("plain").await;
    let mut sealed = Cell::start_with("sealed", Some(tls)).await;
    let cell_tls = api::client::TlsFiles {
        ca: path("ca.crt"),
        cert: path("client.crt"),
        key: path("client.key"),
        skip_verify: false,
    };
    let config = Config { cell_tls: Some(cell_tls), ..config() };
    let world = World::start(config.clone(), &[&plain, &sealed], AlwaysMine).await;
    let body = r#"[{"process_guid":"app","domain":"d","indices":[1,0],"RootFs":"preloaded:s"}]"#;
    world.post("/v1/lrps", "", body).await;
    let both = [plain.started().await, sealed.started().await];
    assert!(both == ["app/0", "app/1"] || both == ["app/1", "app/0"], "{both:?}");

    // Where TLS is required, a cell without it is not called at all.
    let asked = plain.times_asked();
    let strict = World::start(Config { cell_require_tls: true, ..config }, &[&plain, &sealed], AlwaysMine).await;
    strict.post("/v1/lrps", "", body).await;
    assert_eq!(sealed.started().await, "app/0 app/1");
    assert_eq!(plain.times_asked(), asked);
}

#[tokio::test]
async fn what_finds_no_place_is_reported_with_its_reason_and_its_id() {
    let mut cell = Cell::start("cell-1").await;
    let mut world = World::with(&[&cell]).await;
    world.ask("large/3:5000").await;
    let reason = "insufficient resources: memory";
    assert_eq!(world.bbs.heard().await, format!("fail large/3 in d (id-of-large-3): {reason}"));
    world.ask("huge:5000").await;
    assert_eq!(world.bbs.heard().await, format!("reject huge (id-of-huge): {reason}"));
    world.ask("small/0").await;
    assert_eq!(cell.started().await, "small/0");
}

#[tokio::test]
async fn auctions_are_counted() {
    let mut cell = Cell::start("cell-1").await;
    let mut world = World::with(&[&cell]).await;
    world.ask("app/0").await;
    assert_eq!(cell.started().await, "app/0");
    world.ask("task").await;
    assert_eq!(cell.started().await, "task");
    // Its report tells that the auctions before it have ended.
    world.ask("large:5000 large/0:5000").await;
    let mut reports = [world.bbs.heard().await, world.bbs.heard().await];
    reports.sort_unstable();
    assert!(reports[0].starts_with("fail large/0") && reports[1].starts_with("reject large"), "{reports:?}");
    for (name, value) in [
        ("lrp_auctions_started_total", "1"),
        ("lrp_auctions_failed_total", "1"),
        ("task_auctions_started_total", "1"),
        ("task_auctions_failed_total", "1"),
        ("cell_state_failures_total", "0"),
        ("requests_total", "4"),
        ("lock_held", "1"),
        ("starts_waiting", "0"),
    ] {
        assert_eq!(world.metric(name).await, value, "{name}");
    }
    let auctions: usize = world.metric("auctions_total").await.parse().unwrap();
    assert!((3..=4).contains(&auctions), "{auctions}");
    assert_eq!(world.metric("fetch_states_duration_seconds_count").await, auctions.to_string());
}

#[tokio::test]
async fn a_refusal_names_the_cell() {
    let mut cell = Cell::start("cell-1").await;
    cell.take(Taking::Nothing);
    let mut world = World::with(&[&cell]).await;
    let refused = "refused by cell cell-1, which may have become full or begun to evacuate";
    world.ask("app/0").await;
    assert_eq!(world.bbs.heard().await, format!("fail app/0 in d (id-of-app-0): {refused}"));
    world.ask("task").await;
    assert_eq!(world.bbs.heard().await, format!("reject task (id-of-task): {refused}"));
    assert_eq!(world.metric("refused_by_cells_total").await, "2");

    // Twice the same, and what was never sent.
    let lrp = |guid: &str, index| Lrp { process_guid: guid.into(), index, ..Lrp::default() };
    let foreign = Work {
        lrps: vec![lrp("app", 0), lrp("app", 0), lrp("app", 7), lrp("stranger", 0)],
        tasks: vec![Task { task_guid: "app".into(), ..Task::default() }],
        cell_id: String::new(),
    };
    cell.take(Taking::Refusing(foreign));
    let body = r#"[{"process_guid":"app","domain":"d","indices":[0,1],"RootFs":"preloaded:s"}]"#;
    world.post("/v1/lrps", "", body).await;
    assert_eq!(world.bbs.heard().await, format!("fail app/0 in d: {refused}"));
    world.stop().await.unwrap();
    assert_eq!(world.bbs.heard_so_far(), Vec::<String>::new());
    drop(cell.work().await);
}

/// To place it once more could start it twice.
#[tokio::test]
async fn work_that_is_not_confirmed_counts_as_placed() {
    for taking in [Taking::HangUp, Taking::Status(500), Taking::Garbage] {
        let mut cell = Cell::start("cell-1").await;
        cell.take(taking);
        let mut world = World::with(&[&cell]).await;
        world.ask("app/0").await;
        assert_eq!(cell.started().await, "app/0");
        cell.take(Taking::All);
        world.ask("large:5000").await;
        assert!(world.bbs.heard().await.starts_with("reject large"));
        assert_eq!(world.metric("unconfirmed_starts_total").await, "1");
        assert_eq!(world.metric("lrp_auctions_started_total").await, "1");
        world.stop().await.unwrap();
        assert_eq!(world.bbs.heard_so_far(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn cells_that_cannot_take_part_are_left_out() {
    let (mut good, sick, leaving) =
        (Cell::start("good").await, Cell::start("sick").await, Cell::start("leaving").await);
    let (stranger, silent) = (Cell::start("stranger").await, Cell::start("silent").await);
    good.change(|state| state.available.memory_mb = 100);
    *sick.played.state_status.lock().unwrap() = 503;
    leaving.change(|state| state.evacuating = true);
    stranger.change(|state| state.cell_id = "somebody".into());
    silent.hold_answers();
    let config = Config { cell_state_timeout: Duration::from_millis(300), ..config() };
    let world = World::start(config, &[&sick, &good, &silent, &leaving, &stranger], AlwaysMine).await;
    let body = r#"[{"process_guid":"app","domain":"d","indices":[0,1,2],"RootFs":"preloaded:s"}]"#;
    world.post("/v1/lrps", "", body).await;
    assert_eq!(good.started().await, "app/0 app/1 app/2");
    // A cell that an older Diego runs has no name in its state.
    good.change(|state| state.cell_id.clear());
    world.ask("app/3").await;
    assert_eq!(good.started().await, "app/3");
}

#[tokio::test]
async fn when_no_cell_takes_part_all_are_asked_four_times() {
    let (sick, leaving) = (Cell::start("sick").await, Cell::start("leaving").await);
    *sick.played.state_status.lock().unwrap() = 503;
    leaving.change(|state| state.evacuating = true);
    let mut world = World::with(&[&sick, &leaving]).await;
    world.ask("app/0").await;
    let expected = "fail app/0 in d (id-of-app-0): unable to communicate to compatible cells";
    assert_eq!(world.bbs.heard().await, expected);
    assert_eq!((sick.times_asked(), leaving.times_asked()), (4, 4));

    // One that recovers in between takes part.
    *sick.played.state_status.lock().unwrap() = 200;
    let mut sick = sick;
    world.ask("app/0").await;
    assert_eq!(sick.started().await, "app/0");
    world.bbs.played.cells.lock().unwrap().clear();
    world.ask("app/1").await;
    assert!(world.bbs.heard().await.ends_with("unable to communicate to compatible cells"));
}

/// What arrives while the cells are asked is decided in the same auction, once.
#[tokio::test]
async fn late_and_repeated_wishes_join_the_auction_under_way() {
    let mut cell = Cell::start("cell-1").await;
    cell.hold_answers();
    let world = World::with(&[&cell]).await;
    world.ask("first/0").await;
    cell.asked().await;
    world.ask("late/0 first/0 late/0 task task").await;
    assert_eq!(cell.times_asked(), 1);
    assert_eq!(world.metric("starts_waiting").await, "3");
    cell.played.answers.add_permits(1);
    let (trace, body) = cell.work().await;
    // The id of the request that called the auction.
    assert_eq!(trace, "id-of-first-0");
    let work: Work = serde_json::from_str(&body).unwrap();
    assert_eq!((work.lrps.len(), work.tasks.len()), (2, 1));
    // Nothing is left for another auction.
    cell.played.answers.add_permits(1);
    world.ask("next/0").await;
    assert_eq!(cell.started().await, "next/0");
    assert_eq!(cell.played.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_state_server_that_does_not_list_its_cells_is_asked_again() {
    let mut cell = Cell::start("cell-1").await;
    let world = World::with(&[&cell]).await;
    *world.bbs.played.unavailable.lock().unwrap() = 1;
    world.ask("app/0").await;
    assert_eq!(cell.started().await, "app/0");
}

/// Requests and auctions at the same time, and a stop in the middle: every start is sent to one cell, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_in_a_crowd() {
    const REQUESTS: i32 = 40;
    let mut cells = Vec::new();
    for at in 0..12 {
        let cell = Cell::start(&format!("cell-{at}")).await;
        cell.change(|state| (state.zone, state.available.containers) = (format!("z{}", at % 3), 100_000));
        cells.push(cell);
    }
    let mut world = World::with(&cells.iter().collect::<Vec<_>>()).await;
    let client = |app: usize| {
        let world = &world;
        async move {
            for request in 0..REQUESTS {
                let (first, second) = (2 * request, 2 * request + 1);
                let body = format!(
                    r#"[{{"process_guid":"app-{app}","domain":"d","indices":[{first},{second}],"RootFs":"preloaded:s"}}]"#
                );
                assert_eq!(world.post("/v1/lrps", "", body).await, "202 {}");
            }
        }
    };
    futures_util::future::join_all((0..8).map(client)).await;
    world.stop().await.unwrap();
    let mut sent: Vec<String> = Vec::new();
    for cell in &mut cells {
        while let Some(starts) = cell.started_so_far() {
            sent.extend(starts.split(' ').map(str::to_owned));
        }
    }
    sent.sort_unstable();
    let mut asked: Vec<String> =
        (0..8).flat_map(|app| (0..2 * REQUESTS).map(move |index| format!("app-{app}/{index}"))).collect();
    asked.sort_unstable();
    assert_eq!(sent, asked);
    assert_eq!(world.bbs.heard_so_far(), Vec::<String>::new());
}

/// Thousands of reports to a server that does not answer would hold up the next auction for nothing.
#[tokio::test]
async fn a_state_server_that_takes_no_reports_is_not_told_everything() {
    let mut cell = Cell::start("cell-1").await;
    let mut world = World::with(&[&cell]).await;
    *world.bbs.played.deaf.lock().unwrap() = true;
    let indices: Vec<String> = (0..3000).map(|index| index.to_string()).collect();
    let body = format!(
        r#"[{{"process_guid":"app","domain":"d","indices":[{}],"RootFs":"preloaded:s","MemoryMB":9999}}]"#,
        indices.join(",")
    );
    world.post("/v1/lrps", "", body).await;
    world.bbs.heard().await;
    world.ask("small/0").await;
    assert_eq!(cell.started().await, "small/0");
    assert_eq!(world.metric("unreported_failures_total").await, "3000");
    assert!(world.bbs.heard_so_far().len() < 1000);
}

/// The instance may have been claimed meanwhile, or is not wanted any more: all is well.
#[tokio::test]
async fn a_report_that_is_refused_is_no_failure() {
    let mut cell = Cell::start("cell-1").await;
    let mut world = World::with(&[&cell]).await;
    *world.bbs.played.refusing.lock().unwrap() = true;
    world.ask("app/0:9999 task:9999").await;
    world.bbs.heard().await;
    world.bbs.heard().await;
    world.ask("small/0").await;
    assert_eq!(cell.started().await, "small/0");
    assert_eq!(world.metric("unreported_failures_total").await, "0");
}
