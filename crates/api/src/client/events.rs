//! Event streams.
//!
//! A stream is one long answer on a connection of its own. It ends in one of two ways, and the difference matters:
//! orderly (`Ok(None)`, the server shuts down or found us too slow) or torn (`Err`). Either way the caller subscribes
//! again, with the last id it saw, and then either misses nothing or is told of a gap.
//!
//! There is no time limit: an idle stream is silent. A peer that vanishes is noticed by TCP keep-alive.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderName, HeaderValue};

use super::error::Failure;
use super::pool::Connection;
use super::{Client, ClientError, failure_text, status_error};
use crate::encode;
use crate::event::{Event, EventError, EventPayload};
use crate::models::EventsByCellId;
use crate::routes::Route;
use crate::sse::{Block, Parser};

const LAST_EVENT_ID_HEADER: HeaderName = HeaderName::from_static("last-event-id");

/// What to subscribe to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// Only actual-LRP events of this cell; desired-LRP events always come. Empty: all cells.
    pub cell_id: String,
    /// Continue after this event. A Diego server ignores it.
    pub last_event_id: Option<String>,
}

/// An open subscription. Dropping it closes the connection.
pub struct EventStream {
    route: Route,
    body: Incoming,
    parser: Parser,
    /// hyper closes the connection when its sender is gone, so the sender lives as long as the stream.
    _connection: Connection,
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream").field("route", &self.route).field("last_id", &self.last_event_id()).finish()
    }
}

impl EventStream {
    /// Waits for the next event. `None` is an orderly end.
    ///
    /// After [`ClientError::Event`] the stream goes on with the event after the one that could not be read; after any
    /// other error it is over. Dropping the future loses nothing: what has arrived stays in the stream.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        let route = self.route;
        loop {
            if let Some(block) = self.parser.next_block().map_err(|source| ClientError::Stream { route, source })? {
                return understand(block).map(Some).map_err(|source| ClientError::Event { route, source });
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(source)) => return Err(Failure::from_error(source).on(route)),
                Some(Ok(frame)) => self.parser.push(frame.data_ref().map_or(&[], Bytes::as_ref)),
            }
        }
    }

    /// The id to continue from on the next subscription. Empty before the first event.
    pub fn last_event_id(&self) -> &str {
        self.parser.last_id()
    }
}

fn understand(block: Block) -> Result<Event, EventError> {
    let bytes = block.payload().map_err(|source| EventError::Base64 { name: block.name.clone(), source })?;
    let payload = EventPayload::decode(&block.name, &bytes)?;
    Ok(Event { id: block.id, name: block.name, payload })
}

impl Client {
    /// Desired LRPs and groups of actual LRPs.
    pub async fn subscribe_to_events(&self, what: Subscription) -> Result<EventStream, ClientError> {
        self.subscribe(Route::EventStream, what).await
    }

    /// The same with desired LRPs in their oldest shape.
    pub async fn subscribe_to_events_r0(&self, what: Subscription) -> Result<EventStream, ClientError> {
        self.subscribe(Route::EventStreamR0, what).await
    }

    /// Desired LRPs and single actual LRPs.
    pub async fn subscribe_to_instance_events(&self, what: Subscription) -> Result<EventStream, ClientError> {
        self.subscribe(Route::LrpInstanceEventStream, what).await
    }

    /// The same with desired LRPs in their oldest shape.
    pub async fn subscribe_to_instance_events_r0(&self, what: Subscription) -> Result<EventStream, ClientError> {
        self.subscribe(Route::LrpInstanceEventStreamR0, what).await
    }

    /// Tasks. The cell of the subscription has no effect.
    pub async fn subscribe_to_task_events(&self, what: Subscription) -> Result<EventStream, ClientError> {
        self.subscribe(Route::TaskEventStream, what).await
    }

    /// The same with tasks in their older shape.
    pub async fn subscribe_to_task_events_r0(&self, what: Subscription) -> Result<EventStream, ClientError> {
        self.subscribe(Route::TaskEventStreamR0, what).await
    }

    /// Returns when the server has accepted, which it does before there is any event.
    async fn subscribe(&self, route: Route, what: Subscription) -> Result<EventStream, ClientError> {
        let mut request = self.request(route, encode(EventsByCellId { cell_id: what.cell_id }));
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = what.last_event_id {
            // Leaving out an id that cannot be sent would lose events silently.
            let id = HeaderValue::try_from(id).map_err(|source| Failure::from_error(source).on(route))?;
            request.headers_mut().insert(LAST_EVENT_ID_HEADER, id);
        }
        let (response, connection) = self.shared.pool.send(request).await.map_err(|failure| failure.on(route))?;
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            let (text, _) = failure_text(body).await;
            return Err(status_error(route, head.status.as_u16(), &head.headers, text));
        }
        Ok(EventStream { route, body, parser: Parser::default(), _connection: connection })
    }
}
