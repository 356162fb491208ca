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
use tokio::time::sleep;
use tonic::Streaming;

use super::Shared;
use super::links::{LOGINS_MAX, Link, Pauses, Trouble};
use super::proto::event::EventType;
use super::proto::watch_request::RequestUnion;
use super::proto::{Event, WatchCreateRequest, WatchRequest, WatchResponse};
use super::requests::{number_of, range};
use crate::error::StoreError;
use crate::kv::{Change, Following, Op};

/// How many changes wait for whoever follows, each as large as a step at most. When it is full, etcd keeps the rest.
const WAITING_MAX: usize = 128;
/// After this long without news it is asked whether there is any: a member that hangs says nothing, and neither does a board
/// on which nothing happens.
const QUIET_MAX: Duration = Duration::from_secs(2);
/// How long news of which another member knows may take.
const LATE_MAX: Duration = Duration::from_millis(500);
const QUESTION_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a member has to begin telling.
const START_TIMEOUT: Duration = Duration::from_secs(2);

/// A stream of what happens to some keys.
pub(super) struct Watching {
    events: Streaming<WatchResponse>,
    /// Of a transaction of which the rest is still to come.
    begun: Vec<Event>,
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
        let create = WatchCreateRequest { key, range_end, start_revision: from, fragment: true };
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
            // That is what a token comes to which is not known any more, too.
            Ok(Ok((_, Some(first)))) if first.canceled && first.cancel_reason.contains("permission denied") => {
                shared.links.forget_token();
                Err(StoreError::NotAllowed { doing: doing.to_owned(), why: first.cancel_reason })
            }
            Ok(Ok((events, Some(first)))) => {
                refused(&first)?;
                Ok(Watching { events, begun: Vec::new(), link: link.clone(), shared: Arc::downgrade(shared) })
            }
            Ok(Ok((_, None))) => Err(failed("the connection ended".to_owned())),
            Ok(Err(status)) => Err(failed(super::links::explain(&status))),
            Err(_) => Err(failed("a member did not answer".to_owned())),
        }
    }

    /// The next events, of one or several transactions, each whole.
    pub(super) async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        loop {
            let told = match self.events.message().await {
                Ok(Some(told)) => told,
                Ok(None) => return Err(self.broken("the connection ended".to_owned())),
                Err(status) => return Err(self.broken(super::links::explain(&status))),
            };
            refused(&told)?;
            self.begun.extend(told.events);
            let whole = if told.fragment { whole(&self.begun) } else { self.begun.len() };
            if whole > 0 || !told.fragment {
                let rest = self.begun.split_off(whole);
                return Ok(std::mem::replace(&mut self.begun, rest));
            }
        }
    }

    fn broken(&self, why: String) -> StoreError {
        if let Some(shared) = self.shared.upgrade() {
            shared.links.leave_link(&self.link);
        }
        StoreError::Unreachable { doing: "following the store".to_owned(), why, asked: String::new() }
    }
}

/// How many of the events are of transactions that have ended: all but those of the last one.
fn whole(events: &[Event]) -> usize {
    let at = |event: &Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
    let Some(last) = events.last().map(at) else { return 0 };
    events.iter().rposition(|event| at(event) != last).map_or(0, |before| before + 1)
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
    let (mut pauses, mut refusals) = (Pauses::new(), 0);
    while let Some(here) = shared.upgrade() {
        let started = Watching::start(&here, here.keys.board(), from).await;
        drop(here);
        let error = match started {
            Ok(watching) => {
                (pauses, refusals) = (Pauses::new(), 0);
                match tell_from(watching, &shared, &mut from, &tell).await {
                    Some(error) => error,
                    None => return,
                }
            }
            Err(error) => error,
        };
        refusals += u32::from(matches!(error, StoreError::NotAllowed { .. }));
        let is_passing = match error {
            StoreError::Unreachable { .. } => true,
            StoreError::NotAllowed { .. } => refusals < LOGINS_MAX,
            _ => false,
        };
        if !is_passing {
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

/// Tells what one member tells, until it does no more. `None` when nobody listens.
async fn tell_from(
    mut watching: Watching,
    shared: &Weak<Shared>,
    from: &mut i64,
    tell: &mpsc::Sender<Result<Change, StoreError>>,
) -> Option<StoreError> {
    let mut quiet_max = QUIET_MAX;
    loop {
        let told = tokio::select! {
            told = watching.next() => told,
            () = tell.closed() => return None,
            () = sleep(quiet_max) => {
                if quiet_max == LATE_MAX {
                    return Some(watching.broken("a member does not tell what has happened".to_owned()));
                }
                if shared.upgrade()?.has_news(&watching.link, *from).await {
                    quiet_max = LATE_MAX;
                }
                continue;
            }
        };
        quiet_max = QUIET_MAX;
        match told {
            Ok(events) => {
                for change in changes(&*shared.upgrade()?, events, from) {
                    tell.send(change).await.ok()?;
                }
            }
            Err(error) => return Some(error),
        }
    }
}

impl Shared {
    /// Whether something was committed at etcd's revision `from` or later; or whether `link` is not worth listening to.
    async fn has_news(&self, link: &Link, from: i64) -> bool {
        let asked = range(self.keys.revision(), Bytes::new(), 1);
        let found = self.links.ask_within(QUESTION_TIMEOUT, "following the store", |link| {
            let asked = asked.clone();
            async move { link.kv().range(asked).await }
        });
        match found.await {
            Ok(found) => found.kvs.first().is_some_and(|newest| newest.mod_revision >= from),
            Err(_) => !self.links.is_in_use(link),
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

#[cfg(test)]
mod tests {
    use super::super::proto::KeyValue;
    use super::*;

    #[test]
    fn the_last_transaction_of_a_fragment_is_not_whole() {
        let event = |at: &i64| Event { r#type: 0, kv: Some(KeyValue { mod_revision: *at, ..KeyValue::default() }) };
        let rows: [(&[i64], usize); 5] = [(&[], 0), (&[4], 0), (&[4, 4], 0), (&[3, 4], 1), (&[3, 3, 4, 5, 5], 3)];
        for (revisions, expected) in rows {
            let events: Vec<Event> = revisions.iter().map(event).collect();
            assert_eq!(whole(&events), expected, "{revisions:?}");
        }
    }
}
