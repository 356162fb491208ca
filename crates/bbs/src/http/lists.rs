//! Lists are assembled from records that are already encoded, piece by piece, while they are being sent.
//!
//! A list holds its snapshot and the id of the last record it sent. It needs one piece of memory however long it is, it never
//! blocks the writer, and it knows its length before its first byte. Views that convert every record are the exception: to know
//! their length they would have to convert everything twice, the first time in one go. A long list of those is sent without.

use std::sync::Arc;

use api::convert::Item;
use api::revision;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use model::{ActualLrp, DomainName, ProcessGuid};

use super::Body;
use crate::board::{Board, DesiredEntry, SlotKey};

/// How much is assembled at a time.
const CHUNK_BYTES: usize = 256 * 1024;

pub(super) struct List {
    board: Arc<Board>,
    what: What,
    /// Bytes that are still to come. `None`: nobody has counted.
    remaining: Option<u64>,
}

enum What {
    Actual { domain: Option<DomainName>, last: Option<SlotKey> },
    Desired { view: View, domain: Option<DomainName>, last: Option<ProcessGuid> },
}

/// How a desired LRP is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Newest,
    R2,
    R1,
    R0,
    Scheduling,
    Routing,
    Mutable,
    Immutable,
}

impl View {
    pub(super) fn put(self, entry: &DesiredEntry, buf: &mut BytesMut) {
        match self {
            Self::Newest => entry.wire.put(buf),
            Self::R2 if entry.wire.differs_in_r2() => buf.put_slice(entry.wire.r2_item().framed()),
            Self::R2 => entry.wire.put(buf),
            Self::Scheduling => buf.put_slice(entry.wire.scheduling().framed()),
            Self::Routing => entry.wire.put_routing(buf),
            Self::R1 => buf.put_slice(entry.wire.item_in(revision::desired_lrp_v3_to_v1).framed()),
            Self::R0 => buf.put_slice(entry.wire.item_in(revision::desired_lrp_v3_to_v0).framed()),
            Self::Mutable => buf.put_slice(Item::of(&revision::mutable_half(&entry.lrp)).framed()),
            Self::Immutable => buf.put_slice(entry.wire.item_in(revision::immutable_half).framed()),
        }
    }

    /// The length of one record, where it is known without converting it.
    fn len(self, entry: &DesiredEntry) -> Option<u64> {
        let len = match self {
            Self::Newest => entry.wire.framed_len(),
            Self::R2 if entry.wire.differs_in_r2() => entry.wire.r2_item().framed().len(),
            Self::R2 => entry.wire.framed_len(),
            Self::Scheduling => entry.wire.scheduling().framed().len(),
            Self::Routing => entry.wire.routing_framed_len(),
            Self::R1 | Self::R0 | Self::Mutable | Self::Immutable => return None,
        };
        Some(len as u64)
    }
}

impl List {
    /// All rows, or those of one domain.
    pub(super) fn actual(board: Arc<Board>, domain: Option<DomainName>) -> Self {
        let remaining = match &domain {
            None => board.totals().actual_list_bytes,
            Some(domain) => board
                .slots_in(domain)
                .flat_map(|entry| entry.rows())
                .filter(|(row, _)| row.key.domain == *domain)
                .map(|(_, item)| item.framed().len() as u64)
                .sum(),
        };
        Self { board, what: What::Actual { domain, last: None }, remaining: Some(remaining) }
    }

    /// All desired LRPs, or those of one domain.
    pub(super) fn desired(board: Arc<Board>, view: View, domain: Option<DomainName>) -> Self {
        let totals = board.totals();
        let remaining = match (&domain, view) {
            (None, View::Newest) => Some(totals.desired_list_bytes),
            (None, View::Scheduling) => Some(totals.scheduling_list_bytes),
            (None, View::Routing) => Some(totals.routing_list_bytes),
            (None, view) => board.desired.values().map(|entry| view.len(entry)).sum(),
            (Some(domain), view) => board.desired_in(domain).map(|entry| view.len(entry)).sum(),
        };
        Self { board, what: What::Desired { view, domain, last: None }, remaining }
    }

    /// As an answer. What fits into one piece has a length in any case.
    pub(super) fn into_body(mut self) -> Body {
        if self.remaining.is_some() {
            return Body::list(self);
        }
        let first = self.next_chunk().unwrap_or_default();
        match self.next_chunk() {
            None => Body::full(first),
            Some(second) => {
                let rest = std::iter::from_fn(move || self.next_chunk());
                Body::events(Box::pin(stream::iter([first, second].into_iter().chain(rest))))
            }
        }
    }

    /// Of a list that knows its length.
    pub(super) fn remaining_bytes(&self) -> u64 {
        self.remaining.unwrap_or_default()
    }

    pub(super) fn next_chunk(&mut self) -> Option<Bytes> {
        if self.remaining == Some(0) {
            return None;
        }
        let expected = usize::try_from(self.remaining_bytes()).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let mut buf = BytesMut::with_capacity(expected + expected / 8);
        match &mut self.what {
            What::Actual { domain, last } => fill_actual(&self.board, domain.as_ref(), last, &mut buf),
            What::Desired { view, domain, last } => fill_desired(&self.board, *view, domain.as_ref(), last, &mut buf),
        }
        if buf.is_empty() {
            self.remaining = Some(0);
            return None;
        }
        self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(buf.len() as u64));
        Some(buf.freeze())
    }
}

fn fill_actual(board: &Board, domain: Option<&DomainName>, last: &mut Option<SlotKey>, buf: &mut BytesMut) {
    let mut reached = None;
    for (key, entry) in board.slots_after(last.as_ref()) {
        for (row, item) in entry.rows() {
            if is_in(row, domain) {
                buf.put_slice(item.framed());
            }
        }
        reached = Some(key);
        if buf.len() >= CHUNK_BYTES {
            break;
        }
    }
    *last = reached.cloned();
}

fn fill_desired(
    board: &Board,
    view: View,
    domain: Option<&DomainName>,
    last: &mut Option<ProcessGuid>,
    buf: &mut BytesMut,
) {
    let mut reached = None;
    for (guid, entry) in board.desired_after(last.as_ref()) {
        if domain.is_none_or(|domain| entry.lrp.domain == *domain) {
            view.put(entry, buf);
        }
        reached = Some(guid);
        if buf.len() >= CHUNK_BYTES {
            break;
        }
    }
    *last = reached.cloned();
}

pub(super) fn is_in(row: &ActualLrp, domain: Option<&DomainName>) -> bool {
    domain.is_none_or(|domain| row.key.domain == *domain)
}

/// A short list, put together at once.
pub(super) fn concat<'a>(items: impl IntoIterator<Item = &'a Item>) -> Bytes {
    let mut buf = BytesMut::new();
    for item in items {
        buf.put_slice(item.framed());
    }
    buf.freeze()
}
