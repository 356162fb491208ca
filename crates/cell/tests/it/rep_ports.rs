//! The two ports: what is there, what is not, and who may come in.

use std::time::Duration;

use api::client::tls::{TlsFiles, client_config};
use cell::rep::ServerTls;
use expect_test::expect;
use rig::pki::Pki;

use crate::rep_board::Board;
use crate::rep_world::{World, call, call_over, config, executor, lrp, until, work};

#[tokio::test]
async fn paths_and_methods() {
    let world = World::new().await;
    let mut table = String::new();
    for (port, address) in [("network", world.ready.network), ("admin", world.ready.admin)] {
        for (method, path) in [
            ("GET", "/state"),
            ("POST", "/state"),
            ("GET", "/work"),
            ("POST", "/work"),
            ("PUT", "/v1/lrps/a/instances/i"),
            ("PUT", "/v3/lrps/a/instances/i"),
            ("PUT", "/v2/lrps/a/instances/"),
            ("POST", "/v1/lrps/a/instances/i/stop"),
            ("POST", "/v2/lrps/a/instances/i/stop"),
            ("POST", "/v1/lrps/a/instances//stop"),
            ("POST", "/v1/tasks/t/cancel"),
            ("GET", "/v1/tasks/t/cancel"),
            ("GET", "/container_metrics"),
            ("POST", "/sim/reset"),
            ("GET", "/ping"),
            ("POST", "/ping"),
            ("GET", "/evacuate"),
            ("GET", "/evacuation"),
            ("GET", "/metrics"),
            ("GET", "/"),
        ] {
            let (status, _) = call(address, method, path, "").await.unwrap();
            table += &format!("{port:<7} {method:<4} {path:<30} {status}\n");
        }
    }
    expect![[r#"
        network GET  /state                         200
        network POST /state                         405
        network GET  /work                          405
        network POST /work                          400
        network PUT  /v1/lrps/a/instances/i         400
        network PUT  /v3/lrps/a/instances/i         404
        network PUT  /v2/lrps/a/instances/          400
        network POST /v1/lrps/a/instances/i/stop    500
        network POST /v2/lrps/a/instances/i/stop    404
        network POST /v1/lrps/a/instances//stop     400
        network POST /v1/tasks/t/cancel             202
        network GET  /v1/tasks/t/cancel             405
        network GET  /container_metrics             200
        network POST /sim/reset                     500
        network GET  /ping                          404
        network POST /ping                          404
        network GET  /evacuate                      404
        network GET  /evacuation                    404
        network GET  /metrics                       404
        network GET  /                              404
        admin   GET  /state                         404
        admin   POST /state                         404
        admin   GET  /work                          404
        admin   POST /work                          404
        admin   PUT  /v1/lrps/a/instances/i         404
        admin   PUT  /v3/lrps/a/instances/i         404
        admin   PUT  /v2/lrps/a/instances/          404
        admin   POST /v1/lrps/a/instances/i/stop    404
        admin   POST /v2/lrps/a/instances/i/stop    404
        admin   POST /v1/lrps/a/instances//stop     404
        admin   POST /v1/tasks/t/cancel             404
        admin   GET  /v1/tasks/t/cancel             404
        admin   GET  /container_metrics             404
        admin   POST /sim/reset                     404
        admin   GET  /ping                          200
        admin   POST /ping                          405
        admin   GET  /evacuate                      405
        admin   GET  /evacuation                    200
        admin   GET  /metrics                       200
        admin   GET  /                              404
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn work_that_is_wrong_is_refused_whole() {
    let world = World::new().await;
    let other = work(&[lrp(0, 1)], &[]).replace("cell-1", "cell-2");
    assert_eq!(world.network("POST", "/work", &other).await.0, 500);
    assert_eq!(world.network("POST", "/work", "nonsense").await.0, 400);
    assert_eq!(world.network("POST", "/work", r#"{"LRPs":null,"Tasks":null}"#).await.0, 200);
    assert!(world.board.log().is_empty());
}

#[tokio::test]
async fn limits_are_kept() {
    let mut config = config();
    config.limits.body_bytes_max = 1000;
    let world = World::with(config, Board::start().await.into(), executor()).await;
    assert_eq!(world.network("POST", "/work", &" ".repeat(1001)).await.0, 413);
}

#[tokio::test]
async fn a_cell_that_cannot_make_containers_says_so_and_shows_its_state() {
    let world = World::new().await;
    world.executor.set_health(Err("no disk".into()));
    let (status, body) = world.network("GET", "/state", "").await;
    assert!(status == 503 && body.contains(r#""cell_id":"cell-1""#), "{status} {body}");
    world.executor.set_health(Ok(()));
    assert_eq!(world.network("GET", "/state", "").await.0, 200);
}

#[tokio::test]
async fn what_containers_use_is_told() {
    let world = World::new().await;
    world.lrps(&[64]).await;
    world.board.hears("start").await;
    let (_, body) = world.network("GET", "/container_metrics", "").await;
    expect![[r#"{"cell_id":"cell-1","lrps":[{"instance_guid":"00000000-0000-4000-8000-0000","process_guid":"app","index":0,"metric_guid":"","cpu_usage_fraction":0.0,"disk_usage_bytes":0,"disk_quota_bytes":1048576,"memory_usage_bytes":0,"memory_quota_bytes":67108864}],"tasks":[]}"#]]
        .assert_eq(&body);
    let (_, metrics) = world.admin("GET", "/metrics").await;
    for line in [
        "corkboard_cell_lrps 1",
        "corkboard_cell_remaining_memory_bytes 1006632960",
        "corkboard_cell_work_accepted_total 1",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} is not in {metrics}");
    }
}

#[tokio::test]
async fn nobody_comes_in_without_a_certificate() {
    let pki = Pki::new();
    let mut config = config();
    config.tls = Some(ServerTls { ca: pki.path("ca.crt"), cert: pki.path("server.crt"), key: pki.path("server.key") });
    let world = World::with(config, Board::start().await.into(), executor()).await;
    let stranger = Pki::new();
    for (port, path) in [(world.ready.network, "/state"), (world.ready.admin, "/ping")] {
        for (identity, comes_in) in [(&pki, true), (&stranger, false)] {
            let (cert, key) = (identity.path("client.crt"), identity.path("client.key"));
            let files = TlsFiles { ca: pki.path("ca.crt"), cert, key, skip_verify: false };
            let tls = client_config(&files).unwrap();
            let answer = call_over(port, Some(tls), "GET", path, "").await;
            assert_eq!(answer.map(|(status, _)| status), comes_in.then_some(200), "{path}");
        }
        let plain = tokio::time::timeout(Duration::from_secs(5), call(port, "GET", path, "")).await.unwrap();
        assert!(plain.is_none());
    }
    let value = world.presence.log.lock().unwrap().first().cloned().unwrap_or_default();
    assert!(value.contains(&format!(r#""rep_url":"https://{}""#, world.ready.network)), "{value}");
}

#[tokio::test]
async fn the_presence_is_announced_again_and_again_also_when_that_fails() {
    let world = World::new().await;
    *world.presence.failing.lock().unwrap() = true;
    until("three announcements", || world.presence.log.lock().unwrap().len() >= 3).await;
    assert_eq!(world.admin("GET", "/ping").await.0, 200);
    let log = world.presence.log.lock().unwrap().clone();
    assert!(log.iter().all(|line| line.starts_with(r#"15 s: {"cell_id":"cell-1","#)), "{log:?}");
}
