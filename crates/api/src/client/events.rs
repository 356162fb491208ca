//! Event streams, one connection each.
//!
//! A stream is one long answer on a connection of its own. It ends in one of two ways, and the difference matters:
//! orderly (`Ok(None)`, the server shuts down or found us too slow) or torn (`Err`). Either way the caller subscribes
//! again, with the last id it saw, and then either misses nothing or is told of a gap. A [`Feed`](super::Feed) does all that.
//!
//! There is no time limit: an idle stream is silent. A peer that vanishes is noticed by TCP keep-alive.

use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderName, HeaderValue};

use super::address::Address;
use super::attempts::{Plan, Trouble, travel};
use super::call::{refusal, send, version_or_status, within};
use super::error::Failure;
use super::pool::Connection;
use super::retry::Nature;
use super::{Client, ClientError};
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
    /// Of the last event that was whole. The parser knows the id of one that is still on its way, too.
    last_id: String,
    keeps_history: bool,
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
                self.last_id.clone_from(&block.id);
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
        &self.last_id
    }

    /// Whether the server continues where a client left off, or tells it of a gap. Diego's servers do neither.
    pub(super) fn keeps_history(&self) -> bool {
        self.keeps_history
    }
}

fn understand(block: Block) -> Result<Event, EventError> {
    let bytes = block.payload().map_err(|source| EventError::Base64 { name: block.name.clone(), source })?;
    let payload = EventPayload::decode(&block.name, &bytes)?;
    Ok(Event { id: block.id, name: block.name, payload })
}

impl Client {
    /// Deprecated: desired LRPs and groups of actual LRPs. Groups hide suspect records.
    pub async fn subscribe_to_events(&self, what: Subscription) -> Result<EventStream, ClientError> {
        self.subscribe(Route::EventStream, what).await
    }

    /// Desired LRPs and single actual LRPs.
    pub async fn subscribe_to_instance_events(&self, what: Subscription) -> Result<EventStream, ClientError> {
        self.subscribe(Route::LrpInstanceEventStream, what).await
    }

    /// Tasks. The cell of the subscription has no effect.
    pub async fn subscribe_to_task_events(&self, what: Subscription) -> Result<EventStream, ClientError> {
        self.subscribe(Route::TaskEventStream, what).await
    }

    /// Any stream of the table of routes; the methods for the single streams are made of it. Returns when a server has
    /// accepted, which it does before there is any event.
    pub async fn subscribe(&self, route: Route, what: Subscription) -> Result<EventStream, ClientError> {
        let body = encode(EventsByCellId { cell_id: what.cell_id });
        // Leaving out an id that cannot be sent would lose events silently.
        let last_id = what.last_event_id.map(HeaderValue::try_from).transpose();
        let last_id = last_id.map_err(|source| Failure::from_error(source).on(route))?;
        let plan = Plan { timeout: None, ..self.plan(Nature::Read, route.path()) };
        let outcome = travel(&self.shared.addresses, &plan, |address, limit| {
            let (body, last_id) = (body.clone(), last_id.clone());
            async move {
                let sent = AtomicBool::new(false);
                within(limit, &sent, self.open(&address, route, body, last_id, &sent)).await
            }
        });
        Box::pin(outcome).await.map(|(stream, _)| stream).map_err(|lost| lost.on(route))
    }

    async fn open(
        &self,
        address: &Address,
        route: Route,
        body: Bytes,
        last_id: Option<HeaderValue>,
        sent: &AtomicBool,
    ) -> Result<EventStream, Trouble> {
        let mut request = self.request(address, route, body);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = last_id {
            request.headers_mut().insert(LAST_EVENT_ID_HEADER, id);
        }
        let (response, connection) = send(address, request, sent).await?;
        let (head, body) = response.into_parts();
        let server = self.note_server(&head.headers);
        if head.status != StatusCode::OK {
            let answer = refusal(address, head.status.as_u16(), &head.headers, body, connection).await;
            return Err(version_or_status(server, answer));
        }
        let (parser, last_id) = (Parser::default(), String::new());
        Ok(EventStream { route, body, parser, last_id, keeps_history: server.is_some(), _connection: connection })
    }
}
