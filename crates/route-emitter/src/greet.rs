//! Finds the routers: greets until one answers, and listens for those that start later.
//!
//! Diego's emitter ends itself after thirty greetings without an answer. This one goes on, ever more slowly: whoever runs it
//! beside a router, in one process perhaps, wants it to be there when the router comes, and an emitter that ends takes
//! nothing away from the routers that do not answer. Whether a router has answered can be seen in the metrics.

use std::time::Duration;

use api::registry::bus::{Bus, BusError, Message};
use api::registry::{RouterStart, Subjects};
use bytes::Bytes;
use tokio::sync::watch;

const GREET_PAUSE_MIN: Duration = Duration::from_secs(1);
const GREET_PAUSE_MAX: Duration = Duration::from_secs(10);
/// A router that asks for less would be flooded by its own wish.
const REGISTER_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// What routers have said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// How many times a router introduced itself.
    pub(crate) starts: u64,
    /// How often it wants to hear of everything.
    pub(crate) interval: Option<Duration>,
}

/// Goes on until it is dropped. It ends by itself only if the bus is gone for good.
pub(crate) async fn greet(bus: &dyn Bus, subjects: Subjects, heard: &watch::Sender<Heard>) -> Result<(), BusError> {
    let inbox = format!("{:032x}", rand::random::<u128>());
    let mut starts = bus.subscribe(subjects.start).await?;
    let mut answers = bus.subscribe(&inbox).await?;
    let mut connected = bus.connected();
    loop {
        let mut pause = GREET_PAUSE_MIN;
        let mut answered = false;
        // A server that was away may have lost its routers, or found others.
        connected.mark_unchanged();
        while !connected.has_changed().unwrap_or(false) {
            if !answered {
                let greeting =
                    Message { subject: subjects.greet.to_owned(), reply: Some(inbox.clone()), payload: Bytes::new() };
                if let Err(error) = bus.publish(greeting).await {
                    tracing::debug!(%error, "no greeting to the routers");
                }
            }
            let message = tokio::select! {
                message = starts.next() => message,
                message = answers.next() => message,
                _ = connected.changed() => break,
                () = tokio::time::sleep(pause), if !answered => {
                    pause = (pause * 2).min(GREET_PAUSE_MAX);
                    continue;
                }
            };
            let Some(message) = message else {
                return Err(BusError::Unusable { reason: "its subscriptions have ended".to_owned() });
            };
            match RouterStart::decode(&message.payload) {
                Ok(start) => {
                    answered = true;
                    note(&start, subjects, heard);
                }
                Err(error) => {
                    tracing::warn!(%error, subject = subjects.start, "a router says something that cannot be read");
                }
            }
        }
    }
}

fn note(start: &RouterStart, subjects: Subjects, heard: &watch::Sender<Heard>) {
    let seconds = start.minimum_register_interval_in_seconds;
    let interval = (seconds > 0).then(|| Duration::from_secs(seconds).max(REGISTER_INTERVAL_MIN));
    tracing::info!(subject = subjects.start, interval_s = seconds, "a router is there");
    heard.send_modify(|heard| *heard = Heard { starts: heard.starts + 1, interval: interval.or(heard.interval) });
}
