//! A real NATS server, which is killed and comes back.

use std::sync::Arc;
use std::time::Duration;

use api::registry::bus::{Bus, Message};
use api::registry::nats::{Nats, NatsConfig};
use api::registry::{ROUTER, RouterStart};
use corkboard_route_emitter::config::Config;
use corkboard_route_emitter::lock::Alone;
use rig::nats::{Options, Server};

use crate::board::{desired, running};
use crate::world::{Heard, World, config, eventually};

async fn client(server: &Server) -> Arc<dyn Bus> {
    let nats = NatsConfig { servers: vec![server.url()], tls: None, name: "test".into() };
    Arc::new(Nats::start(nats).await.unwrap())
}

/// What a router says when it is connected, or connected again.
async fn announce(router: &dyn Bus) {
    router.connected().wait_for(|connected| *connected).await.unwrap();
    let start = RouterStart { minimum_register_interval_in_seconds: 1, ..RouterStart::default() };
    router.publish(Message { subject: ROUTER.start.into(), reply: None, payload: start.encode() }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_said_again_as_soon_as_nats_is_back() {
    let server = Server::start(Options::default());
    let router = client(&server).await;
    router.connected().wait_for(|connected| *connected).await.unwrap();
    let heard = Heard::on(router.as_ref()).await;
    let slow = Config { register_interval: Duration::from_secs(3600), ..config() };
    let world = World::with(slow, client(&server).await, Box::new(Alone), |board| {
        board.state().desired.push(desired("p", "x.com"));
        board.state().actual.push(running("p", 0, "a", 1001));
    })
    .await;
    announce(router.as_ref()).await;
    heard.wait("+ x.com:1001", 1).await;
    server.kill();
    world.bus.connected().wait_for(|connected| !*connected).await.unwrap();
    let failures = world.metrics.publish_failures.get();
    world.board.run_instance(running("p", 1, "b", 1002));
    eventually("message that did not leave", || world.metrics.publish_failures.get() > failures).await;
    heard.forget();
    server.restart();
    announce(router.as_ref()).await;
    heard.wait("+ x.com:1001", 1).await;
    heard.wait("+ x.com:1002", 1).await;
    assert_eq!(heard.unregistrations(), 0);
}
