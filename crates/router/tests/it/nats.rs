//! A real NATS server: greetings, order, silence, and a server that dies under the router.

use std::sync::Arc;
use std::time::Duration;

use api::client::TlsFiles;
use api::registry::bus::{Bus, Message};
use api::registry::nats::{Nats, NatsConfig};
use api::registry::{ROUTER, RouterStart};
use corkboard_router::Config;
use rig::nats::{Options, Server};

use crate::backend::Backend;
use crate::world::{World, config, eventually, message};

async fn client(server: &Server, tls: bool) -> Arc<dyn Bus> {
    let files = || TlsFiles {
        ca: server.pki().path("ca.crt"),
        cert: server.pki().path("client.crt"),
        key: server.pki().path("client.key"),
        skip_verify: false,
    };
    let nats = NatsConfig { servers: vec![server.url()], tls: tls.then(files), name: "test".into() };
    Arc::new(Nats::start(nats).await.unwrap())
}

async fn connected(bus: &dyn Bus) {
    bus.connected().wait_for(|connected| *connected).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn greetings_are_answered_and_a_start_is_announced() {
    let server = Server::start(Options::default());
    let emitter = client(&server, false).await;
    connected(emitter.as_ref()).await;
    let mut starts = emitter.subscribe(ROUTER.start).await.unwrap();
    let mut answers = emitter.subscribe("inbox").await.unwrap();
    let _world = World::with(config(), client(&server, false).await).await;
    let start = RouterStart::decode(&starts.next().await.unwrap().payload).unwrap();
    assert_eq!((start.minimum_register_interval_in_seconds, start.prune_threshold_in_seconds), (20, 120));
    let greeting = Message { subject: ROUTER.greet.into(), reply: Some("inbox".into()), payload: "".into() };
    emitter.publish(greeting).await.unwrap();
    assert_eq!(RouterStart::decode(&answers.next().await.unwrap().payload).unwrap(), start);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tls_and_a_password_everything_is_the_same() {
    let user = Some(("router".to_owned(), "se@cret".to_owned()));
    let server = Server::start(Options { tls: true, user });
    let world = World::with(config(), client(&server, true).await).await;
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    assert_eq!(world.get("x.com", "/").await.body, "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_stay_while_nats_is_away_and_news_comes_when_it_is_back() {
    let server = Server::start(Options::default());
    let short = Config { prune_threshold: Duration::from_millis(400), ..config() };
    let world = World::with(short, client(&server, false).await).await;
    let (one, two) = (Backend::start("one").await, Backend::start("two").await);
    world.register("x.com", &one).await;
    server.kill();
    world.bus.connected().wait_for(|connected| !*connected).await.unwrap();
    // Several times as long as an endpoint lives without news.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.get("x.com", "/").await.body, "one");
    server.restart();
    connected(world.bus.as_ref()).await;
    world.register("y.com", &two).await;
    assert_eq!(world.get("y.com", "/").await.body, "two");
    assert_eq!(world.get("x.com", "/").await.body, "one", "everything was given its full time anew");
    // Now that somebody speaks, who does not is forgotten.
    let spoken = || async {
        world.say(ROUTER.register, &message("y.com", &two)).await;
        world.get("x.com", "/").await.verdict() == "503 no_endpoints"
    };
    eventually(spoken).await;
    assert_eq!(world.get("y.com", "/").await.body, "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_forgotten_when_every_emitter_falls_silent() {
    let server = Server::start(Options::default());
    let short = Config { prune_threshold: Duration::from_millis(400), ..config() };
    let world = World::with(short, client(&server, false).await).await;
    let one = Backend::start("one").await;
    world.register("x.com", &one).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.get("x.com", "/").await.body, "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nats_that_hangs_takes_no_route_away() {
    let server = Server::start(Options::default());
    let short = Config { prune_threshold: Duration::from_millis(400), ..config() };
    let world = World::with(short, client(&server, false).await).await;
    let (one, two) = (Backend::start("one").await, Backend::start("two").await);
    world.register("x.com", &one).await;
    server.pause();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.get("x.com", "/").await.body, "one");
    server.resume();
    world.register("y.com", &two).await;
    assert_eq!(world.get("x.com", "/").await.body, "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_late_is_waited_for() {
    let server = Server::start(Options::default());
    server.kill();
    let bus = client(&server, false).await;
    let world = World::with(config(), bus).await;
    let one = Backend::start("one").await;
    server.restart();
    world.register("x.com", &one).await;
    assert_eq!(world.get("x.com", "/").await.body, "one");
}
