//! Listens to emitters, keeps the table, and lets emitters know that somebody listens.
//!
//! Registrations and unregistrations come through one subscription, so they are applied in the order in which they were sent.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use api::registry::bus::{Bus, BusError, Message};
use api::registry::{ROUTER, RegistryMessage, RouterStart};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::config::Config;
use crate::metrics::Metrics;
use crate::silence::Silence;
use crate::table::Table;

const PRUNE_PAUSE_MAX: Duration = Duration::from_secs(10);
const RESUBSCRIBE_PAUSE: Duration = Duration::from_secs(1);

/// Listens until it is dropped.
pub(crate) async fn listen(config: &Config, bus: &dyn Bus, table: &RwLock<Table>, metrics: &Arc<Metrics>) {
    loop {
        let mut feed = Feed { config, bus, table, metrics, silence: silence(config, bus) };
        if let Err(error) = feed.run().await {
            tracing::warn!(%error, "the emitters cannot be listened to; trying again, and routes stay as they are");
        }
        tokio::time::sleep(RESUBSCRIBE_PAUSE).await;
    }
}

fn silence(config: &Config, bus: &dyn Bus) -> Silence {
    Silence::new(config.prune_threshold, *bus.connected().borrow(), Instant::now())
}

struct Feed<'a> {
    config: &'a Config,
    bus: &'a dyn Bus,
    table: &'a RwLock<Table>,
    metrics: &'a Metrics,
    silence: Silence,
}

impl Feed<'_> {
    async fn run(&mut self) -> Result<(), BusError> {
        let mut messages = self.bus.subscribe(ROUTER.all).await?;
        let mut connected = self.bus.connected();
        connected.mark_unchanged();
        self.announce(ROUTER.start.to_owned()).await;
        let pause = (self.config.prune_threshold / 4).clamp(Duration::from_millis(1), PRUNE_PAUSE_MAX);
        let mut prune = interval(pause);
        prune.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => self.take(message).await,
                    None => return Err(BusError::Unusable { reason: "its subscription has ended".to_owned() }),
                },
                _ = prune.tick() => self.prune(),
                Ok(()) = connected.changed() => {
                    let connected = *connected.borrow_and_update();
                    // What was missed meanwhile is said again to one who introduces himself. That the line is back does
                    // not end the silence; the first registration does.
                    if connected {
                        self.announce(ROUTER.start.to_owned()).await;
                    } else {
                        self.silence.connected(false);
                    }
                }
            }
        }
    }

    async fn take(&mut self, message: Message) {
        match message.subject.as_str() {
            subject if subject == ROUTER.register => self.register(&message),
            subject if subject == ROUTER.unregister => self.unregister(&message),
            subject if subject == ROUTER.greet => {
                if let Some(reply) = message.reply {
                    self.announce(reply).await;
                }
            }
            _ => {}
        }
    }

    fn register(&mut self, message: &Message) {
        let Some(message) = self.read(message) else { return };
        let now = Instant::now();
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if self.silence.heard(now) {
            tracing::info!("emitters are heard again; every route is given its full time anew");
            table.refresh(now);
        }
        table.register(&message, now);
        self.metrics.registered.inc();
    }

    fn unregister(&mut self, message: &Message) {
        let Some(message) = self.read(message) else { return };
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.unregister(&message, Instant::now());
        self.metrics.unregistered.inc();
    }

    fn read(&self, message: &Message) -> Option<RegistryMessage> {
        RegistryMessage::decode_with_port(&message.payload)
            .inspect_err(|error| {
                self.metrics.bad_messages.inc();
                tracing::debug!(%error, subject = message.subject, "an emitter says something that cannot be used");
            })
            .ok()
    }

    fn prune(&mut self) {
        let now = Instant::now();
        let silent = self.silence.lasts(now);
        self.metrics.prune_suspended.set(i64::from(silent));
        self.metrics.bus_connected.set(i64::from(*self.bus.connected().borrow()));
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let pruned = if silent { 0 } else { table.prune(now) };
        self.metrics.show(&table);
        if pruned > 0 {
            self.metrics.pruned.inc_by(pruned as u64);
            tracing::info!(pruned, "endpoints that were not registered again are forgotten");
        }
    }

    /// Says who we are and what we would like to hear.
    async fn announce(&self, subject: String) {
        let start = RouterStart {
            id: self.config.id.clone(),
            hosts: Vec::new(),
            minimum_register_interval_in_seconds: self.config.register_interval.as_secs().max(1),
            prune_threshold_in_seconds: self.config.prune_threshold.as_secs().max(1),
        };
        let said = self.bus.publish(Message { subject, reply: None, payload: start.encode() }).await;
        if let Err(error) = said {
            tracing::debug!(%error, "no word to the emitters");
        }
    }
}
