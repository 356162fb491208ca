//! News from the state server, whatever happens to the stream.
//!
//! Promise: a stream that ends is opened again, for ever, and each time something may have been missed the reader is told to
//! list everything anew. That is so after every interruption: an older server does not continue where a stream ended, and
//! does not say so either.

use std::time::Duration;

use api::client::{Client, ClientError, EventStream, Subscription};
use api::event::EventPayload;
use api::registry::bus::BoxFuture;
use tokio::time::Instant;

const RETRY_PAUSE_MIN: Duration = Duration::from_millis(250);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);
const STREAM_LASTS: Duration = Duration::from_secs(10);

/// What a stream tells.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "an event is moved once, from the stream to the table")]
pub enum News {
    Event(EventPayload),
    /// The stream is open, and what happened before may be unknown.
    Missed,
    /// The stream is interrupted; what is known stays as it is.
    Away,
}

/// Where news comes from.
pub trait Events: Send {
    fn next(&mut self) -> BoxFuture<'_, News>;
}

/// The stream of instances of a server.
#[derive(Debug)]
pub struct Subscribed {
    client: Client,
    cell_id: String,
    stream: Option<EventStream>,
    last_event_id: Option<String>,
    pause: Duration,
    away: bool,
    opened: Instant,
}

impl Subscribed {
    /// All events, or those of one cell.
    pub fn new(client: Client, cell_id: Option<String>) -> Self {
        let cell_id = cell_id.unwrap_or_default();
        let (pause, opened) = (RETRY_PAUSE_MIN, Instant::now());
        Self { client, cell_id, stream: None, last_event_id: None, pause, away: false, opened }
    }

    async fn news(&mut self) -> News {
        loop {
            let Some(stream) = &mut self.stream else {
                if let Some(news) = self.open().await {
                    return news;
                }
                continue;
            };
            let told = stream.next().await;
            match told {
                Ok(Some(event)) => {
                    self.last_event_id = Some(event.id).filter(|id| !id.is_empty());
                    return match event.payload {
                        EventPayload::Gap(_) => News::Missed,
                        payload => News::Event(payload),
                    };
                }
                // The event may concern a route, and the stream goes on without it.
                Err(error @ ClientError::Event { .. }) => {
                    tracing::warn!(%error, "an event cannot be read; everything is listed anew");
                    return News::Missed;
                }
                Ok(None) => {
                    tracing::info!("the event stream has ended; it is opened again, and routes stay as they are");
                }
                Err(error) => {
                    tracing::warn!(%error, "the event stream broke; it is opened again, and routes stay as they are");
                }
            }
            self.stream = None;
            self.away = true;
            // Only a stream that lasted proves that the server is well.
            if self.opened.elapsed() > STREAM_LASTS {
                self.pause = RETRY_PAUSE_MIN;
            }
            return News::Away;
        }
    }

    async fn open(&mut self) -> Option<News> {
        if self.away {
            let pause = self.pause.mul_f64(0.5 + rand::random::<f64>() / 2.0);
            self.pause = (self.pause * 2).min(RETRY_PAUSE_MAX);
            tokio::time::sleep(pause).await;
        }
        let what = Subscription { cell_id: self.cell_id.clone(), last_event_id: self.last_event_id.clone() };
        match self.client.subscribe_to_instance_events(what).await {
            Ok(stream) => {
                self.stream = Some(stream);
                self.opened = Instant::now();
                self.away = false;
                Some(News::Missed)
            }
            Err(error) if self.away => {
                tracing::debug!(%error, "the state server sends no events");
                None
            }
            Err(error) => {
                self.away = true;
                tracing::warn!(%error, "the state server sends no events; it is asked again, and routes stay as they are");
                Some(News::Away)
            }
        }
    }
}

impl Events for Subscribed {
    fn next(&mut self) -> BoxFuture<'_, News> {
        Box::pin(self.news())
    }
}
