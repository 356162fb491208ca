//! What the port answers, and what it keeps.

use auctioneer::{AlwaysMine, Config, Limits, ServerTls};
use expect_test::expect;
use rig::pki::Pki;

use crate::cell::Cell;
use crate::peer::call;
use crate::world::{World, config, patiently};

#[tokio::test]
async fn answers_are_diegos() {
    let cell = Cell::start("cell-1").await;
    let world = World::with(&[&cell]).await;
    let mut answers = String::new();
    for (path, body) in [
        ("/v1/lrps", "[]"),
        ("/v1/lrps", "null"),
        ("/v1/tasks", "[]"),
        ("/v1/lrps", ""),
        ("/v1/lrps", "{}"),
        ("/v1/tasks", "[{"),
        ("/v1/tasks", r#"[{"TaskGuid":"t","RootFs":"a:b","state":"Gone"}]"#),
        ("/v1/other", "[]"),
    ] {
        answers += &format!("{path} {body} -> {}\n", world.post(path, "", body).await.trim_end());
    }
    expect![[r#"
        /v1/lrps [] -> 202 {}
        /v1/lrps null -> 202 {}
        /v1/tasks [] -> 202 {}
        /v1/lrps  -> 400 {"error":"EOF while parsing a value at line 1 column 0"}
        /v1/lrps {} -> 400 {"error":"invalid type: map, expected a sequence at line 1 column 0"}
        /v1/tasks [{ -> 400 {"error":"EOF while parsing an object at line 1 column 2"}
        /v1/tasks [{"TaskGuid":"t","RootFs":"a:b","state":"Gone"}] -> 400 {"error":"unknown variant `Gone`, expected one of `Invalid`, `Pending`, `Running`, `Completed`, `Resolving` at line 1 column 46"}
        /v1/other [] -> 404 404 page not found
    "#]]
    .assert_eq(&answers);
    let (status, headers, _) =
        patiently(call(world.api, None, hyper::Request::get("/v1/lrps"), "")).await.expect("an answer");
    assert_eq!((status, headers["allow"].to_str().unwrap()), (405, "POST"));
    let request = hyper::Request::post("/v1/lrps");
    let (_, headers, _) = patiently(call(world.api, None, request, "[]")).await.expect("an answer");
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["content-length"], "2");
    assert_eq!(cell.times_asked(), 0);
}

#[tokio::test]
async fn invalid_elements_are_dropped_and_the_others_count() {
    let mut cell = Cell::start("cell-1").await;
    let world = World::with(&[&cell]).await;
    let lrps = r#"[null, {"process_guid":"no-index","domain":"d","indices":[],"RootFs":"preloaded:s"},
        {"process_guid":"no-domain","indices":[0],"RootFs":"preloaded:s"},
        {"process_guid":"negative","domain":"d","indices":[0],"RootFs":"preloaded:s","DiskMB":-1},
        {"process_guid":"good","domain":"d","indices":[0],"RootFs":"preloaded:s"}]"#;
    assert_eq!(world.post("/v1/lrps", "", lrps).await, "202 {}");
    assert_eq!(cell.started().await, "good/0");
    let tasks = r#"[{"TaskGuid":"no-rootfs"}, {"TaskGuid":"good","RootFs":"preloaded:s"}, {"RootFs":"preloaded:s"}]"#;
    assert_eq!(world.post("/v1/tasks", "", tasks).await, "202 {}");
    assert_eq!(cell.started().await, "good");
    assert_eq!(world.metric("invalid_starts_total").await, "6");
}

#[tokio::test]
async fn beyond_the_limits_nothing_is_kept() {
    let mut cell = Cell::start("cell-1").await;
    cell.hold_answers();
    let limits = Limits { starts_waiting_max: 3, body_bytes_max: 4096, bodies_bytes_max: 2048, ..Limits::default() };
    let world = World::start(Config { limits, ..config() }, &[&cell], AlwaysMine).await;
    world.ask("a/0 b/0").await;
    cell.asked().await;
    let body = |indices: &str| {
        format!(r#"[{{"process_guid":"c","domain":"d","indices":[{indices}],"RootFs":"preloaded:s"}}]"#)
    };
    let full = r#"503 {"error":"2 starts wait already; nothing of this request was kept, send it again later"}"#;
    assert_eq!(world.post("/v1/lrps", "", body("0,1")).await, full);
    let many = r#"413 {"error":"the request is larger than 3 starts; send it in parts"}"#;
    assert_eq!(world.post("/v1/lrps", "", body("0,1,2,3")).await, many);
    let large = r#"413 {"error":"the request is larger than 4096 bytes; send it in parts"}"#;
    assert_eq!(world.post("/v1/lrps", "", " ".repeat(4097)).await, large);
    let crowded = world.post("/v1/lrps", "", " ".repeat(3000)).await;
    assert!(crowded.starts_with("503") && crowded.contains("arrive at once"), "{crowded}");
    assert_eq!(world.metric("requests_refused_total").await, "2");
    let request = hyper::Request::post("/v1/lrps");
    let (_, headers, _) = patiently(call(world.api, None, request, body("0,1"))).await.expect("an answer");
    assert_eq!(headers["retry-after"], "1");
    // What fits is still taken, and what was refused left no trace.
    assert_eq!(world.post("/v1/lrps", "", body("1")).await, "202 {}");
    cell.played.answers.add_permits(10);
    assert_eq!(cell.started().await, "a/0 b/0 c/1");
}

#[tokio::test]
async fn with_tls_only_those_with_a_certificate_are_heard() {
    let (pki, strangers) = (Pki::new(), Pki::new());
    let mut cell = Cell::start("cell-1").await;
    let tls = ServerTls { ca: pki.path("ca.crt"), cert: pki.path("server.crt"), key: pki.path("server.key") };
    let world = World::start(Config { tls: Some(tls), ..config() }, &[&cell], AlwaysMine).await;
    let identity = |of: &Pki| {
        let files = api::client::TlsFiles {
            ca: pki.path("ca.crt"),
            cert: of.path("client.crt"),
            key: of.path("client.key"),
            skip_verify: false,
        };
        api::client::tls::client_config(&files).unwrap()
    };
    let body = r#"[{"process_guid":"app","domain":"d","indices":[0],"RootFs":"preloaded:s"}]"#;
    let post = || hyper::Request::post("/v1/lrps");
    assert!(patiently(call(world.api, None, post(), body)).await.is_none());
    assert!(patiently(call(world.api, Some(identity(&strangers)), post(), body)).await.is_none());
    assert_eq!(cell.times_asked(), 0);
    let (status, ..) = patiently(call(world.api, Some(identity(&pki)), post(), body)).await.expect("an answer");
    assert_eq!(status, 202);
    assert_eq!(cell.started().await, "app/0");
}
