//! What registry messages travel on: publish and subscribe by subject, as NATS has it.
//!
//! Promise: messages of one publisher on one subject arrive in order, or not at all. Nothing is kept for a subscriber that
//! comes later, and nothing is repeated: emitters repeat themselves.
//!
//! [`InProcess`] connects programs that run in one process. Its queues are bounded, and a publisher waits for a subscriber
//! whose queue is full: nothing is lost between two halves of one process.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::sync::{mpsc, watch};

/// Messages that wait for one subscriber in this process.
pub const QUEUE_MESSAGES_MAX: usize = 4096;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub subject: String,
    /// Where an answer should go.
    pub reply: Option<String>,
    pub payload: Bytes,
}

/// Why a message did not leave, or a subscription was not made.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    #[error("the message bus is not connected; it is tried again and again, and everything is sent when it is back")]
    Disconnected,
    #[error("the message bus cannot be used: {reason}")]
    Unusable { reason: String },
}

/// A message bus. Whoever holds one shares its connection.
pub trait Bus: fmt::Debug + Send + Sync {
    /// Hands a message over. It fails at once while there is no connection: a message that waits for one would be old news.
    fn publish(&self, message: Message) -> BoxFuture<'_, Result<(), BusError>>;

    /// Listens from now on, also after the connection was lost and made again. A subject may end in `.*`, which is any one
    /// word.
    fn subscribe<'a>(&'a self, subject: &'a str) -> BoxFuture<'a, Result<Subscription, BusError>>;

    /// Whether there is a connection; changes are signalled.
    fn connected(&self) -> watch::Receiver<bool>;
}

/// Messages of one subject.
pub struct Subscription(Pin<Box<dyn Stream<Item = Message> + Send>>);

impl Subscription {
    pub(crate) fn new(stream: impl Stream<Item = Message> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// The next message; `None` when the bus is gone for good.
    pub async fn next(&mut self) -> Option<Message> {
        self.0.next().await
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}

/// The bus of a single process.
#[derive(Clone, Debug)]
pub struct InProcess {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    subscribers: Mutex<HashMap<String, Vec<mpsc::Sender<Message>>>>,
    connected: watch::Sender<bool>,
}

impl InProcess {
    pub fn new() -> Self {
        let connected = watch::Sender::new(true);
        Self { shared: Arc::new(Shared { subscribers: Mutex::default(), connected }) }
    }

    fn subscribers_of(&self, subject: &str) -> Vec<mpsc::Sender<Message>> {
        let mut all = self.shared.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(subscribers) = all.get_mut(subject) else { return Vec::new() };
        subscribers.retain(|subscriber| !subscriber.is_closed());
        if subscribers.is_empty() {
            all.remove(subject);
            return Vec::new();
        }
        subscribers.clone()
    }
}

impl Default for InProcess {
    fn default() -> Self {
        Self::new()
    }
}

impl Bus for InProcess {
    fn publish(&self, message: Message) -> BoxFuture<'_, Result<(), BusError>> {
        Box::pin(async move {
            let family = message.subject.rsplit_once('.').map(|(family, _)| format!("{family}.*"));
            let of_family = family.map(|family| self.subscribers_of(&family)).unwrap_or_default();
            for subscriber in self.subscribers_of(&message.subject).into_iter().chain(of_family) {
                // It fails only for a subscriber that has gone meanwhile.
                let _ = subscriber.send(message.clone()).await;
            }
            Ok(())
        })
    }

    fn subscribe<'a>(&'a self, subject: &'a str) -> BoxFuture<'a, Result<Subscription, BusError>> {
        let (sender, mut receiver) = mpsc::channel(QUEUE_MESSAGES_MAX);
        let mut all = self.shared.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(subject.to_owned()).or_default().push(sender);
        let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
        Box::pin(std::future::ready(Ok(Subscription::new(stream))))
    }

    fn connected(&self) -> watch::Receiver<bool> {
        self.shared.connected.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(subject: &str, number: usize) -> Message {
        Message { subject: subject.to_owned(), reply: None, payload: number.to_string().into() }
    }

    #[tokio::test]
    async fn every_subscriber_of_a_subject_gets_its_messages_in_order() {
        let bus = InProcess::new();
        bus.publish(message("s", 0)).await.unwrap();
        let (mut one, mut two) = (bus.subscribe("s").await.unwrap(), bus.subscribe("s").await.unwrap());
        let mut other = bus.subscribe("t").await.unwrap();
        for number in 1..4 {
            bus.publish(message("s", number)).await.unwrap();
        }
        bus.publish(message("t", 9)).await.unwrap();
        for number in 1..4 {
            assert_eq!(one.next().await.unwrap(), message("s", number));
            assert_eq!(two.next().await.unwrap(), message("s", number));
        }
        assert_eq!(other.next().await.unwrap(), message("t", 9));
        let mut family = bus.subscribe("a.*").await.unwrap();
        for subject in ["a.one", "b.one", "a", "a.b.c", "a.two"] {
            bus.publish(message(subject, 1)).await.unwrap();
        }
        assert_eq!(family.next().await.unwrap().subject, "a.one");
        assert_eq!(family.next().await.unwrap().subject, "a.two");
        assert!(*bus.connected().borrow());
    }

    #[tokio::test]
    async fn a_publisher_waits_for_a_full_queue_and_not_for_one_that_is_gone() {
        let bus = InProcess::new();
        let mut slow = bus.subscribe("s").await.unwrap();
        drop(bus.subscribe("s").await.unwrap());
        for number in 0..QUEUE_MESSAGES_MAX {
            bus.publish(message("s", number)).await.unwrap();
        }
        let mut waits = bus.publish(message("s", QUEUE_MESSAGES_MAX));
        assert!(futures_util::FutureExt::now_or_never(&mut waits).is_none());
        assert_eq!(slow.next().await.unwrap().payload, "0");
        waits.await.unwrap();
        drop(slow);
        assert!(bus.subscribers_of("s").is_empty());
        assert!(bus.shared.subscribers.lock().unwrap().is_empty());
    }
}
