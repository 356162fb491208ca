//! Event streams over HTTP.

use api::Route;
use api::convert::Stream;
use api::models::EventsByCellId;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue};
use model::CellId;

use super::{Answer, App, Body, Call, intake};
use crate::events::{Ended, EventId, Kind, Subscription, closing_comment, gap_frame};

pub(super) fn subscribe(app: &App, call: &Call) -> Answer {
    let (kind, shape) = match call.route {
        Route::EventStream => (Kind::Group, Stream::Newest),
        Route::EventStreamR0 => (Kind::Group, Stream::Oldest),
        Route::LrpInstanceEventStream => (Kind::Instance, Stream::Newest),
        Route::LrpInstanceEventStreamR0 => (Kind::Instance, Stream::Oldest),
        Route::TaskEventStream => (Kind::Task, Stream::Newest),
        _ => (Kind::Task, Stream::Oldest),
    };
    let cell = if kind == Kind::Task {
        None
    } else {
        match intake::decode::<EventsByCellId>(&call.body) {
            Ok(request) if request.cell_id.is_empty() => None,
            Ok(request) => match CellId::parse(&request.cell_id) {
                Ok(cell) => Some(cell),
                // No cell can have this id. A stream without the filter would be more than was asked for.
                Err(_) => return Answer::NoStream,
            },
            Err(_) => return Answer::NoStream,
        }
    };
    let resume = call.last_event_id.as_deref().and_then(EventId::parse);
    let Some((subscription, gap)) = app.hub.subscribe(kind, shape, cell, resume) else { return Answer::NoStream };
    let cut_off = app.metrics.events_cut_off.clone();
    let state = State { subscription, first: gap.map(gap_frame), over: false, cut_off };
    Answer::Stream(Body::events(Box::pin(stream::unfold(state, State::next))))
}

struct State {
    subscription: Subscription,
    first: Option<Bytes>,
    over: bool,
    cut_off: prometheus_client::metrics::counter::Counter,
}

impl State {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if let Some(first) = self.first.take() {
            return Some((first, self));
        }
        if self.over {
            return None;
        }
        match self.subscription.next().await {
            Ok(frames) => {
                let joined = match <[Bytes; 1]>::try_from(frames) {
                    Ok([single]) => single,
                    Err(frames) => {
                        let mut joined = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
                        frames.iter().for_each(|frame| joined.extend_from_slice(frame));
                        joined.freeze()
                    }
                };
                Some((joined, self))
            }
            Err(Ended::Shutdown) => None,
            Err(Ended::FellBehind) => {
                self.over = true;
                self.cut_off.inc();
                let reason =
                    "you read too slowly and the next event is no longer held; subscribe again and read the state anew";
                Some((closing_comment(reason), self))
            }
        }
    }
}

pub(super) fn response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store, must-revalidate"));
    headers.insert(CONNECTION, HeaderValue::from_static("keep-alive"));
    response
}
