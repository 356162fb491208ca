//! A router, a bus, and what emitters would say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::registry::bus::{Bus, InProcess, Message};
use api::registry::{ROUTER, RegistryMessage};
use corkboard_router::metrics::Metrics;
use corkboard_router::{Config, Limits, Parts, run};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::backend::Backend;
use crate::client;

const PATIENCE: Duration = Duration::from_secs(20);
const POLL_PAUSE: Duration = Duration::from_millis(5);

pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) health: SocketAddr,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) metrics: Arc<Metrics>,
    stop: watch::Sender<bool>,
    pub(crate) router: JoinHandle<()>,
}

pub(crate) fn config() -> Config {
    let limits = Limits { drain_wait: Duration::from_millis(50), ..Limits::default() };
    Config { limits, ..Config::default() }
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(config(), Arc::new(InProcess::new())).await
    }

    pub(crate) async fn with(config: Config, bus: Arc<dyn Bus>) -> Self {
        Self::behind(config, bus, None).await
    }

    /// With a port for clients that speak TLS, too.
    pub(crate) async fn behind(
        config: Config,
        bus: Arc<dyn Bus>,
        tls: Option<(TcpListener, Arc<rustls::ServerConfig>)>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let health = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, health_address) = (listener.local_addr().unwrap(), health.local_addr().unwrap());
        let metrics = Arc::new(Metrics::new());
        let (stop, stopping) = watch::channel(false);
        let parts = Parts { listener, tls, health: Some(health), bus: bus.clone(), metrics: metrics.clone() };
        let router = tokio::spawn(run(config, parts, stopping));
        Self { address, health: health_address, bus, metrics, stop, router }
    }

    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Registers until the router has heard it: it may not listen yet.
    pub(crate) async fn register(&self, host: &str, backend: &Backend) {
        let before = self.metrics.registered.get();
        let told = || async {
            self.say(ROUTER.register, &message(host, backend)).await;
            self.metrics.registered.get() > before
        };
        eventually(told).await;
    }

    pub(crate) async fn unregister(&self, host: &str, backend: &Backend) {
        let before = self.metrics.unregistered.get();
        self.say(ROUTER.unregister, &message(host, backend)).await;
        eventually(|| async { self.metrics.unregistered.get() > before }).await;
    }

    pub(crate) async fn say(&self, subject: &str, message: &RegistryMessage) {
        let message = Message { subject: subject.to_owned(), reply: None, payload: message.encode() };
        // A bus that is away is what some tests are about.
        let _ = self.bus.publish(message).await;
    }

    pub(crate) async fn get(&self, host: &str, path: &str) -> client::Answer {
        client::get(self.address, host, path).await
    }
}

pub(crate) fn message(host: &str, backend: &Backend) -> RegistryMessage {
    RegistryMessage {
        host: backend.address.ip().to_string(),
        port: backend.address.port(),
        uris: vec![host.to_owned()],
        app: "app-1".into(),
        private_instance_id: backend.name.clone(),
        private_instance_index: "0".into(),
        ..RegistryMessage::default()
    }
}

pub(crate) async fn eventually<F: Future<Output = bool>>(holds: impl Fn() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "it did not come true within {PATIENCE:?}");
        tokio::time::sleep(POLL_PAUSE).await;
    }
}
