//! Hearing of what others commit.
//!
//! Promise: every change of the board after the moment of asking is told, in order, each transaction whole. When the
//! connection is lost it is made again from where it was; when etcd has forgotten what lies between, that is said, and
//! whoever follows reads everything anew.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc;
use tonic::Streaming;

use super::Shared;
use super::links::{Link, Pauses, Trouble};
use super::proto::event::EventType;
use super::proto::watch_request::RequestUnion;
use super::proto::{Event, WatchCreateRequest, WatchRequest, WatchResponse};
use super::requests::{number_of, range};
use crate::error::StoreError;
use crate::kv::{Change, Following, Op};

/// How many changes wait for whoever follows. When it is full, etcd keeps the rest.
const WAITING_MAX: usize = 1_024;
/// How long a member has to begin telling.
const START_TIMEOUT: Duration = Duration::from_secs(2);

/// A stream of what happens to some keys.
pub(super) struct Watching {
    events: Streaming<WatchResponse>,
    link: Link,
    shared: Weak<Shared>,
}

impl Watching {
    /// What happened at etcd's revision `from` and later.
    pub(super) async fn start(
        shared: &Arc<Shared>,
        (key, range_end): (Bytes, Bytes),
        from: i64,
    ) -> Result<Watching, StoreError> {
        let doing = "following the store";
        let unreachable =
            |why: String| StoreError::Unreachable { doing: doing.to_owned(), why, asked: shared.links.asked() };
        let link = shared.links.link(doing).await.map_err(|trouble| match trouble {
            Trouble::Final(error) => error,
            Trouble::Elsewhere(why) => unreachable(why),
        })?;
        let create = WatchCreateRequest { key, range_end, start_revision: from, progress_notify: false };
        let asked = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        // The request stream stays open: when it ends, so does the watch.
        let asked = stream::StreamExt::chain(stream::iter([asked]), stream::pending());
        let started = async {
            let mut events = link.watch().watch(asked).await?.into_inner();
            let first = events.message().await?;
            Ok::<_, tonic::Status>((events, first))
        };
        let failed = |why: String| {
            shared.links.leave_link(&link);
            shared.links.forget_token();
            unreachable(why)
        };
        match tokio::time::timeout(START_TIMEOUT, started).await {
            Ok(Ok((events, Some(first)))) => {
                refused(&first)?;
                Ok(Watching { events, link: link.clone(), shared: Arc::downgrade(shared) })
            }
            Ok(Ok((_, None))) => Err(failed("the connection ended".to_owned())),
            Ok(Err(status)) => Err(failed(super::links::explain(&status))),
            Err(_) => Err(failed("a member did not answer".to_owned())),
        }
    }

    /// The next events, of one or several transactions, each whole.
    pub(super) async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        match self.events.message().await {
            Ok(Some(told)) => {
                refused(&told)?;
                Ok(told.events)
            }
            Ok(None) => Err(self.broken("the connection ended".to_owned())),
            Err(status) => Err(self.broken(super::links::explain(&status))),
        }
    }

    fn broken(&self, why: String) -> StoreError {
        if let Some(shared) = self.shared.upgrade() {
            shared.links.leave_link(&self.link);
        }
        StoreError::Unreachable { doing: "following the store".to_owned(), why, asked: String::new() }
    }
}

fn refused(told: &WatchResponse) -> Result<(), StoreError> {
    if told.compact_revision > 0 {
        return Err(StoreError::Compacted);
    }
    if told.canceled {
        let doing = "following the store".to_owned();
        return Err(StoreError::Unexpected { doing, why: told.cancel_reason.clone() });
    }
    Ok(())
}

pub(super) async fn follow(shared: &Arc<Shared>) -> Result<Following, StoreError> {
    let now = shared.range("following the store", range(shared.keys.revision(), Bytes::new(), 1)).await?;
    let from = now.header.map_or(0, |header| header.revision) + 1;
    shared.revision.fetch_max(number_of(now.kvs.first())?, Ordering::AcqRel);
    let (tell, changes) = mpsc::channel(WAITING_MAX);
    tokio::spawn(tell_all(Arc::downgrade(shared), from, tell));
    Ok(Following { changes })
}

async fn tell_all(shared: Weak<Shared>, mut from: i64, tell: mpsc::Sender<Result<Change, StoreError>>) {
    let mut pauses = Pauses::new();
    while let Some(here) = shared.upgrade() {
        let error = match Watching::start(&here, here.keys.board(), from).await {
            Ok(mut watching) => {
                pauses = Pauses::new();
                drop(here);
                loop {
                    let told = tokio::select! {
                        told = watching.next() => told,
                        () = tell.closed() => return,
                    };
                    match told {
                        Ok(events) => {
                            let Some(shared) = shared.upgrade() else { return };
                            for change in changes(&shared, events, &mut from) {
                                if tell.send(change).await.is_err() {
                                    return;
                                }
                            }
                        }
                        Err(error) => break error,
                    }
                }
            }
            Err(error) => error,
        };
        if !matches!(error, StoreError::Unreachable { .. }) {
            let _ = tell.send(Err(error)).await;
            return;
        }
        tracing::debug!(%error, "the connection to etcd was lost; following goes on from where it was");
        tokio::select! {
            () = pauses.next() => {}
            () = tell.closed() => return,
        }
    }
}

/// One change per transaction.
fn changes(shared: &Shared, events: Vec<Event>, from: &mut i64) -> Vec<Result<Change, StoreError>> {
    let mut all: Vec<Result<Change, StoreError>> = Vec::new();
    let mut open: Option<(i64, Change)> = None;
    for Event { r#type, kv } in events {
        let Some(kv) = kv else { continue };
        if open.as_ref().is_some_and(|(at, _)| *at != kv.mod_revision) {
            all.extend(open.take().map(|(_, change)| Ok(change)));
        }
        *from = (*from).max(kv.mod_revision + 1);
        let known = shared.revision.load(Ordering::Acquire);
        let (_, change) = open.get_or_insert_with(|| (kv.mod_revision, Change { revision: known, ops: Vec::new() }));
        match shared.keys.key_of(&kv.key) {
            Some(key) if r#type == EventType::Delete as i32 => change.ops.push(Op::Delete { key: key.to_owned() }),
            Some(key) => change.ops.push(Op::Put { key: key.to_owned(), value: kv.value }),
            None => match number_of(Some(&kv)) {
                Ok(revision) => {
                    shared.revision.fetch_max(revision, Ordering::AcqRel);
                    change.revision = revision;
                }
                Err(error) => all.push(Err(error)),
            },
        }
    }
    all.extend(open.map(|(_, change)| Ok(change)));
    all
}
