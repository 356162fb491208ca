//! One emitter at a time.

use std::sync::Arc;

use api::registry::bus::{BoxFuture, InProcess};
use corkboard_route_emitter::lock::{Held, Lock};
use tokio::sync::watch;

use crate::board::{desired, running};
use crate::world::{World, config, eventually};

/// A lock that the test gives and takes.
struct Given(watch::Receiver<bool>);

impl Lock for Given {
    fn acquire(&mut self) -> BoxFuture<'_, Held> {
        Box::pin(async {
            self.0.wait_for(|given| *given).await.unwrap();
            let mut given = self.0.clone();
            Held::until(async move {
                given.wait_for(|given| !*given).await.unwrap();
            })
        })
    }
}

#[tokio::test]
async fn nothing_is_said_without_the_lock() {
    let (give, given) = watch::channel(false);
    let world = World::with(config(), Arc::new(InProcess::new()), Box::new(Given(given)), |board| {
        board.state().desired.push(desired("p", "x.com"));
        board.state().actual.push(running("p", 0, "a", 1001));
    })
    .await;
    tokio::task::yield_now().await;
    assert!(world.board.state().asked.is_empty());
    give.send_replace(true);
    world.heard.wait("+ x.com:1001", 2).await;
    give.send_replace(false);
    eventually("lost lock", || world.metrics.lock_held.get() == 0).await;
    world.heard.forget();
    let asked = world.board.state().asked.len();
    world.board.run_instance(running("p", 1, "b", 1002));
    tokio::time::sleep(config().register_interval * 3).await;
    assert_eq!((world.heard.registrations(), world.heard.unregistrations()), (0, 0));
    assert_eq!(world.board.state().asked.len(), asked);
    give.send_replace(true);
    world.heard.wait("+ x.com:1002", 1).await;
    assert_eq!(world.heard.unregistrations(), 0);
}
