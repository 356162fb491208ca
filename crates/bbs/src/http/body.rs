//! What an answer consists of: bytes at hand, a list assembled while it is sent, or events and other bytes as they come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Frame, SizeHint};

use super::lists::List;

type Events = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

pub struct Body(Kind);

enum Kind {
    Full(Option<Bytes>),
    List(Box<List>),
    Events(Events),
}

impl Body {
    pub fn empty() -> Self {
        Self(Kind::Full(None))
    }

    pub fn full(bytes: Bytes) -> Self {
        Self(Kind::Full(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    pub(super) fn list(list: List) -> Self {
        Self(Kind::List(Box::new(list)))
    }

    pub(super) fn events(events: Events) -> Self {
        Self(Kind::Events(events))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Kind::Full(_) => "Body(full)",
            Kind::List(_) => "Body(list)",
            Kind::Events(_) => "Body(events)",
        })
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = match &mut self.get_mut().0 {
            Kind::Full(bytes) => bytes.take(),
            Kind::List(list) => list.next_chunk(),
            Kind::Events(events) => std::task::ready!(events.as_mut().poll_next(cx)),
        };
        Poll::Ready(chunk.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Full(bytes) => bytes.is_none(),
            Kind::List(list) => list.remaining_bytes() == 0,
            Kind::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::List(list) => SizeHint::with_exact(list.remaining_bytes()),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}
