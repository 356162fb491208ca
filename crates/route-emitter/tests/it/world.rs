//! An emitter, a state server, and a router that writes down what it hears.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::client::{Client, ClientConfig, Retry};
use api::registry::bus::{Bus, InProcess, Message};
use api::registry::{ROUTER, RegistryMessage, RouterStart};
use corkboard_route_emitter::config::Config;
use corkboard_route_emitter::events::Subscribed;
use corkboard_route_emitter::lock::{Alone, Lock};
use corkboard_route_emitter::metrics::Metrics;
use corkboard_route_emitter::{Parts, run};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::board::Board;

const PATIENCE: Duration = Duration::from_secs(20);
const POLL_PAUSE: Duration = Duration::from_millis(5);

pub(crate) struct World {
    pub(crate) board: Board,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) heard: Heard,
    stop: watch::Sender<bool>,
}

/// `+ host:port` and `- host:port`, in the order in which they came.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    /// Listens to everything from now on.
    pub(crate) async fn on(bus: &dyn Bus) -> Self {
        let heard = Self::default();
        let mut messages = bus.subscribe(ROUTER.all).await.unwrap();
        let shared = heard.clone();
        tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                let sign = match message.subject.as_str() {
                    "router.register" => '+',
                    "router.unregister" => '-',
                    "router.greet" => {
                        shared.0.lock().unwrap().push("greet".to_owned());
                        continue;
                    }
                    _ => continue,
                };
                let said = RegistryMessage::decode_with_port(&message.payload).unwrap();
                shared.0.lock().unwrap().push(format!("{sign} {}:{}", said.uris[0], said.port));
            }
        });
        heard
    }

    pub(crate) fn count(&self, line: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|heard| *heard == line).count()
    }

    pub(crate) fn unregistrations(&self) -> usize {
        self.0.lock().unwrap().iter().filter(|heard| heard.starts_with('-')).count()
    }

    pub(crate) fn registrations(&self) -> usize {
        self.0.lock().unwrap().iter().filter(|heard| heard.starts_with('+')).count()
    }

    pub(crate) fn forget(&self) {
        self.0.lock().unwrap().clear();
    }

    /// Returns when this was heard so many times in all.
    pub(crate) async fn wait(&self, line: &str, times: usize) {
        eventually(&format!("{line} {times} times"), || self.count(line) >= times).await;
    }
}

/// Everything happens soon.
pub(crate) fn config() -> Config {
    let short = Duration::from_millis(100);
    Config {
        sync_interval: Duration::from_millis(200),
        register_interval: short,
        unregister_interval: short,
        unregister_repeats: 3,
        ..Config::default()
    }
}

impl World {
    pub(crate) async fn start(config: Config) -> Self {
        Self::with(config, Arc::new(InProcess::new()), Box::new(Alone), |_| {}).await
    }

    pub(crate) async fn with(
        config: Config,
        bus: Arc<dyn Bus>,
        lock: Box<dyn Lock>,
        fill: impl FnOnce(&Board),
    ) -> Self {
        let board = Board::start().await;
        fill(&board);
        let client = ClientConfig { retry: Retry::once(), ..ClientConfig::new(format!("http://{}", board.address)) };
        let client = Client::new(client).unwrap();
        let heard = Heard::on(bus.as_ref()).await;
        let metrics = Arc::new(Metrics::new());
        let events = Box::new(Subscribed::new(client.clone(), config.cell_id.clone()));
        let parts = Parts { client, events, bus: bus.clone(), lock, metrics: metrics.clone() };
        let (stop, stopping) = watch::channel(false);
        tokio::spawn(run(config, parts, stopping));
        Self { board, bus, metrics, heard, stop }
    }

    /// Returns when the emitter listens to events.
    pub(crate) async fn followed(&self) {
        eventually("a listener to events", || self.board.listeners() > 0).await;
    }

    pub(crate) async fn synced(&self) {
        let before = self.metrics.syncs.get();
        eventually("two more listings", || self.metrics.syncs.get() > before + 1).await;
    }

    pub(crate) async fn router_starts(&self, interval_s: u64) {
        let start = RouterStart { minimum_register_interval_in_seconds: interval_s, ..RouterStart::default() };
        let message = Message { subject: ROUTER.start.into(), reply: None, payload: start.encode() };
        self.bus.publish(message).await.unwrap();
    }

    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }
}

pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "no {what} within {PATIENCE:?}");
        tokio::time::sleep(POLL_PAUSE).await;
    }
}
