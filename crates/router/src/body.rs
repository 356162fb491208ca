//! Bodies on their way through: never held, only handed on, frame by frame.
//!
//! A frame is asked for when the other side has taken the one before, so a slow reader slows the writer down and memory
//! stays constant, however large the body. A side that is silent for too long ends the exchange.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::endpoint::InFlight;
use crate::upstream::Sender;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body with a limit on silence.
struct Patient {
    body: Incoming,
    limit: Duration,
    /// Runs while a frame is waited for.
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
}

impl Patient {
    fn new(body: Incoming, limit: Duration) -> Self {
        Self { body, limit, deadline: Box::pin(tokio::time::sleep(limit)), waiting: false }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                self.waiting = false;
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => {
                if !self.waiting {
                    self.waiting = true;
                    self.deadline.as_mut().reset(Instant::now() + self.limit);
                }
                match self.deadline.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Some(Err("nothing came for too long".into()))),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }
}

/// The body of a request, on its way to a backend.
pub(crate) struct Upload(Option<Patient>);

impl Upload {
    pub(crate) fn new(body: Incoming, limit: Duration) -> Self {
        Self((!body.is_end_stream()).then(|| Patient::new(body, limit)))
    }

    pub(crate) fn empty() -> Self {
        Self(None)
    }
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.as_mut().map_or(Poll::Ready(None), |body| body.poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|patient| patient.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), |patient| patient.body.size_hint())
    }
}

/// The body of an answer.
pub(crate) struct Body(Kind);

enum Kind {
    Text(Full<Bytes>),
    Relay(Relay),
}

/// An answer of a backend. When it has ended, its connection serves the next request.
struct Relay {
    body: Patient,
    sender: Option<Sender>,
    in_flight: InFlight,
    idle_max: usize,
}

impl Body {
    pub(crate) fn text(text: String) -> Self {
        Self(Kind::Text(Full::new(text.into())))
    }

    pub(crate) fn relay(
        body: Incoming,
        sender: Option<Sender>,
        in_flight: InFlight,
        limit: Duration,
        idle_max: usize,
    ) -> Self {
        let mut relay = Relay { body: Patient::new(body, limit), sender, in_flight, idle_max };
        if relay.body.body.is_end_stream() {
            relay.give_back();
        }
        Self(Kind::Relay(relay))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}

impl Relay {
    fn give_back(&mut self) {
        if let Some(sender) = self.sender.take() {
            self.in_flight.endpoint().idle.put(sender, self.idle_max);
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Text(text) => Pin::new(text).poll_frame(cx).map_err(|never| match never {}),
            Kind::Relay(relay) => {
                let frame = relay.body.poll_frame(cx);
                match &frame {
                    Poll::Ready(None) => relay.give_back(),
                    Poll::Ready(Some(Ok(_))) if relay.body.body.is_end_stream() => relay.give_back(),
                    _ => {}
                }
                frame
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Text(text) => text.is_end_stream(),
            Kind::Relay(relay) => relay.body.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Text(text) => text.size_hint(),
            Kind::Relay(relay) => relay.body.body.size_hint(),
        }
    }
}
