//! Events that go on: a subscription that comes back after whatever ended it.
//!
//! The promise: between two items that a [`Feed`] gives nothing is missing and nothing comes twice, unless the item is a
//! [`FeedItem::Gap`]. Then something was lost, and the reader lists everything anew.
//!
//! A feed continues with the id of the last whole event; the server sends what came after it, or a gap when it no longer has
//! that. Where the server cannot be trusted with it the feed makes up the gap itself: before the first event there is no id to
//! continue from, and a server that does not name its version (Diego's) has ids that mean nothing on another connection.
//!
//! [`Retry`](super::Retry) bounds one outage, not the feed. What it does not sit out is an error, and the next call of
//! [`Feed::next`] goes on trying from the same place. So a reader may stop, or log it and go on.
//!
//! ```no_run
//! use corkboard_api::client::{Client, ClientConfig, FeedItem};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(ClientConfig::new("http://127.0.0.1:8889"))?;
//! let mut feed = client.follow_task_events().await?;
//! let mut tasks = client.tasks(Default::default()).await?;
//! loop {
//!     match feed.next().await? {
//!         FeedItem::Event(event) => println!("{} {:?}", event.name, event.payload),
//!         FeedItem::Gap(_) => tasks = client.tasks(Default::default()).await?,
//!     }
//! #   drop(tasks.pop());
//! }
//! # }
//! ```

use std::pin::Pin;

use tokio::time::Instant;

use super::events::{EventStream, Subscription};
use super::retry::chance;
use super::{Attempts, CarriedOut, Client, ClientError, TransportKind};
use crate::event::{Event, EventPayload, Gap};
use crate::routes::Route;

const NO_ID: &str = "the connection ended before the first event, so there is nothing to continue from";
const NO_HISTORY: &str = "the server does not keep events for those who come back";

/// What a feed gives.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "gaps are rare, and an item is moved once")]
pub enum FeedItem {
    Event(Event),
    /// Something was lost between the item before and the item after: list everything anew. Where the feed noticed it and not the
    /// server, both revisions are 0.
    Gap(Gap),
}

/// A subscription that reconnects by itself.
pub struct Feed {
    client: Client,
    route: Route,
    cell_id: String,
    connection: Link,
    /// Empty before the first event.
    last_id: String,
    trials: Trials,
}

type Comeback = Pin<Box<dyn Future<Output = Result<EventStream, ClientError>> + Send>>;

enum Link {
    Open(Box<EventStream>),
    Gone,
    /// On its way back. It is kept here and not in the future of `next`, so that a reader who often stops waiting arrives too.
    Opening(Comeback),
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").field("route", &self.route).field("last_id", &self.last_id).finish_non_exhaustive()
    }
}

/// Connections that were accepted and ended soon after, without a single event, one after the other.
#[derive(Debug)]
struct Trials {
    made: u32,
    /// When the first of them began.
    began: Instant,
    /// When the last of them began.
    connected: Instant,
}

impl Trials {
    fn none() -> Self {
        Self { made: 0, began: Instant::now(), connected: Instant::now() }
    }
}

impl Client {
    /// Desired LRPs, and actual LRPs of one cell, or of all if `cell_id` is empty.
    ///
    /// When this returns, the feed has begun: subscribe first, then list, and no change falls between the two.
    pub async fn follow_instance_events(&self, cell_id: &str) -> Result<Feed, ClientError> {
        self.follow(Route::LrpInstanceEventStream, cell_id).await
    }

    /// Tasks. When this returns, the feed has begun: subscribe first, then list, and no change falls between the two.
    pub async fn follow_task_events(&self) -> Result<Feed, ClientError> {
        self.follow(Route::TaskEventStream, "").await
    }

    async fn follow(&self, route: Route, cell_id: &str) -> Result<Feed, ClientError> {
        let what = Subscription { cell_id: cell_id.to_owned(), last_event_id: None };
        let connection = Link::Open(Box::new(self.subscribe(route, what).await?));
        let (client, cell_id) = (self.clone(), cell_id.to_owned());
        Ok(Feed { client, route, cell_id, connection, last_id: String::new(), trials: Trials::none() })
    }
}

impl Feed {
    /// Waits for the next item, over as many connections as it takes.
    ///
    /// [`ClientError::Event`] is an event that cannot be understood, which only the caller can judge: it may be of a newer
    /// server. Every other error is an outage that outlasted the client's patience. After any error the feed can be asked again
    /// and loses nothing. Dropping the future loses nothing either.
    pub async fn next(&mut self) -> Result<FeedItem, ClientError> {
        loop {
            let stream = match &mut self.connection {
                Link::Open(stream) => stream,
                Link::Gone => {
                    self.connection = Link::Opening(self.comeback()?);
                    continue;
                }
                Link::Opening(comeback) => {
                    let stream = comeback.as_mut().await;
                    self.connection = Link::Gone;
                    if let Some(gap) = self.resume(stream?) {
                        return Ok(FeedItem::Gap(gap));
                    }
                    continue;
                }
            };
            let outcome = stream.next().await;
            if matches!(outcome, Ok(Some(_)) | Err(ClientError::Event { .. })) {
                self.trials = Trials::none();
                self.last_id = if stream.keeps_history() { stream.last_event_id().to_owned() } else { String::new() };
            }
            match outcome {
                Ok(Some(Event { payload: EventPayload::Gap(gap), .. })) => return Ok(FeedItem::Gap(gap)),
                Ok(Some(event)) => return Ok(FeedItem::Event(event)),
                Err(error @ ClientError::Event { .. }) => return Err(error),
                Err(error @ ClientError::Stream { .. }) => {
                    self.connection = Link::Gone;
                    return Err(error);
                }
                Ok(None) | Err(_) => self.connection = Link::Gone,
            }
        }
    }

    /// What leads to the next connection: a pause, and a subscription with the last id.
    fn comeback(&mut self) -> Result<Comeback, ClientError> {
        let retry = self.client.retry;
        // A stream that lived for a while is no trial, however silent it was.
        if self.trials.connected.elapsed() > retry.pause_max {
            self.trials = Trials::none();
        }
        if self.trials.made >= retry.rounds_max {
            return Err(self.gives_up());
        }
        let pause = retry.pause(self.trials.made + 1, None, chance());
        let last_event_id = Some(self.last_id.clone()).filter(|id| !id.is_empty());
        let what = Subscription { cell_id: self.cell_id.clone(), last_event_id };
        let (client, route) = (self.client.clone(), self.route);
        Ok(Box::pin(async move {
            tokio::time::sleep(pause).await;
            client.subscribe(route, what).await
        }))
    }

    /// Takes up a new connection, and says what the server cannot say: that something may be lost.
    fn resume(&mut self, stream: EventStream) -> Option<Gap> {
        let reason = match (self.last_id.is_empty(), stream.keeps_history()) {
            (false, true) => None,
            (true, _) => Some(NO_ID),
            (false, false) => Some(NO_HISTORY),
        };
        self.trials.made += 1;
        self.trials.connected = Instant::now();
        self.connection = Link::Open(Box::new(stream));
        let reason = reason?;
        self.last_id.clear();
        Some(Gap { reason: reason.to_owned(), oldest: 0, newest: 0 })
    }

    /// The servers accept, and end the stream at once, again and again.
    fn gives_up(&mut self) -> ClientError {
        let trials = std::mem::replace(&mut self.trials, Trials::none());
        let addresses = self.client.shared.addresses.given().iter().map(|address| address.shown.clone()).collect();
        let took = trials.began.elapsed();
        let attempts = Attempts { made: trials.made, addresses, took, carried_out: CarriedOut::No };
        let (kind, attempts) = (TransportKind::Closed, Box::new(attempts));
        ClientError::Transport { route: self.route, kind, source: None, attempts }
    }
}
