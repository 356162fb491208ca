//! The bus of a cluster: NATS.
//!
//! Promise: a server that is away is tried again for ever, also the first time, and subscriptions come back with the
//! connection. While there is none, publishing fails at once instead of collecting old news. TLS is used where files are
//! given, with both sides' certificates, and then nothing is sent without it.
//!
//! Addresses may hold a user and a password; they are never shown.

use std::fmt;
use std::time::Duration;

use async_nats::{ConnectOptions, Event, ServerAddr};
use futures_util::StreamExt;
use tokio::sync::watch;

use super::bus::{BoxFuture, Bus, BusError, Message, Subscription};
use crate::client::tls::{self, TlsError, TlsFiles};

/// As Diego's components have it.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Messages that wait for one subscription; what comes when it is full is dropped and reported as a slow consumer.
const SUBSCRIPTION_MESSAGES_MAX: usize = 65_536;
/// Messages on their way to the server; a publisher waits when it is full.
const OUTGOING_MESSAGES_MAX: usize = 4096;

#[derive(Clone)]
pub struct NatsConfig {
    /// `host:port` or `nats://user:password@host:port`; any of them will do.
    pub servers: Vec<String>,
    pub tls: Option<TlsFiles>,
    /// What the server shows for this connection.
    pub name: String,
}

impl fmt::Debug for NatsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsConfig")
            .field("name", &self.name)
            .field("servers", &self.servers.len())
            .finish_non_exhaustive()
    }
}

/// Why the settings cannot be used. Nothing was connected.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    #[error("no NATS server is configured; give at least one address, as nats://HOST:4222")]
    NoServers,
    #[error("the {ordinal}. NATS address cannot be understood; write it as nats://HOST:4222")]
    Address { ordinal: usize },
    #[error("the NATS client cannot be started: {reason}")]
    Start { reason: String },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A client of a NATS cluster.
#[derive(Clone)]
pub struct Nats {
    client: async_nats::Client,
    connected: watch::Receiver<bool>,
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats").field("connected", &*self.connected.borrow()).finish_non_exhaustive()
    }
}

impl Nats {
    /// Reads the TLS files and begins to connect; returns before there is a connection.
    pub async fn start(config: NatsConfig) -> Result<Self, NatsError> {
        if config.servers.is_empty() {
            return Err(NatsError::NoServers);
        }
        let address = |(at, text): (usize, &String)| text.parse().map_err(|_| NatsError::Address { ordinal: at + 1 });
        let servers: Vec<ServerAddr> = config.servers.iter().enumerate().map(address).collect::<Result<_, _>>()?;
        let (sender, connected) = watch::channel(false);
        let mut options = ConnectOptions::new()
            .name(&config.name)
            .ping_interval(PING_INTERVAL)
            .connection_timeout(CONNECT_TIMEOUT)
            .reconnect_delay_callback(|_| RECONNECT_PAUSE)
            .retry_on_initial_connect()
            .max_reconnects(None)
            .subscription_capacity(SUBSCRIPTION_MESSAGES_MAX)
            .client_capacity(OUTGOING_MESSAGES_MAX)
            .event_callback(move |event| {
                note(&sender, &event);
                std::future::ready(())
            });
        // The library leaves a user in an address alone.
        if let Some((user, password)) = servers.iter().find_map(|server| server.username().zip(server.password())) {
            options = options.user_and_password(plain(user), plain(password));
        }
        if let Some(files) = &config.tls {
            let tls = tls::client_config(files)?;
            options = options.require_tls(true).tls_client_config((*tls).clone());
        }
        let client = options.connect(servers).await.map_err(|error| NatsError::Start { reason: error.to_string() })?;
        Ok(Self { client, connected })
    }
}

/// An address writes some characters as numbers.
fn plain(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn note(connected: &watch::Sender<bool>, event: &Event) {
    match event {
        Event::Connected => {
            tracing::info!("connected to NATS");
            connected.send_replace(true);
        }
        Event::Disconnected | Event::Closed => {
            tracing::warn!(
                "the connection to NATS is lost; it is tried again until it is back, and routes stay as they are"
            );
            connected.send_replace(false);
        }
        Event::SlowConsumer(_) => {
            tracing::warn!(
                "messages from NATS came faster than they were read, and some were dropped; they are repeated"
            );
        }
        Event::LameDuckMode | Event::Draining => tracing::info!(%event, "the NATS server says"),
        Event::ServerError(error) => tracing::warn!(%error, "the NATS server refuses"),
        Event::ClientError(error) => tracing::debug!(%error, "a step of the NATS client failed"),
    }
}

impl Bus for Nats {
    fn publish(&self, message: Message) -> BoxFuture<'_, Result<(), BusError>> {
        Box::pin(async move {
            if !*self.connected.borrow() {
                return Err(BusError::Disconnected);
            }
            let sent = match message.reply {
                None => self.client.publish(message.subject, message.payload).await,
                Some(reply) => self.client.publish_with_reply(message.subject, reply, message.payload).await,
            };
            sent.map_err(|error| BusError::Unusable { reason: error.to_string() })
        })
    }

    fn subscribe<'a>(&'a self, subject: &'a str) -> BoxFuture<'a, Result<Subscription, BusError>> {
        Box::pin(async move {
            let subscribed = self.client.subscribe(subject.to_owned()).await;
            let messages = subscribed.map_err(|error| BusError::Unusable { reason: error.to_string() })?;
            Ok(Subscription::new(messages.map(|message| Message {
                subject: message.subject.into_string(),
                reply: message.reply.map(async_nats::Subject::into_string),
                payload: message.payload,
            })))
        })
    }

    fn connected(&self) -> watch::Receiver<bool> {
        self.connected.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settings_are_checked_before_anything_is_sent_and_never_shown() {
        let config = |servers: &[&str]| NatsConfig {
            servers: servers.iter().map(|text| (*text).to_owned()).collect(),
            tls: None,
            name: "test".into(),
        };
        assert!(matches!(Nats::start(config(&[])).await, Err(NatsError::NoServers)));
        let error = Nats::start(config(&["nats://localhost:4222", "nats://u:secret@bad port"])).await.unwrap_err();
        assert_eq!(error.to_string(), "the 2. NATS address cannot be understood; write it as nats://HOST:4222");
        assert!(!format!("{:?}", config(&["nats://u:secret@h"])).contains("secret"));
    }
}
