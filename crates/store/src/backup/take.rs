//! From a store to a backup: a snapshot, read page by page.
//!
//! Promise: what comes out is the state of one revision, with every step whole, and whoever writes meanwhile is not held up.
//! A store that is empty, half restored or not whole is refused: its backup would be worth nothing on the day it is needed.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use thiserror::Error;

use super::{Encoder, Header, Summary};
use crate::error::StoreError;
use crate::kv::{Snapshot, Store};
use crate::root::{CLUSTER_ID_KEY, RESTORING_KEY, RootError, VERSION_KEY, VersionRecord, read_restoring};
use crate::seal::LedgerEntry;
use crate::seal::ledger::{LEDGER_ROOT, MARKER_KEY};

const PAGE_RECORDS: usize = 4_096;

#[derive(Debug, Error)]
pub enum TakeError {
    #[error("the store is empty, so there is nothing to back up. Is the right one configured?")]
    Empty,
    #[error(transparent)]
    Root(#[from] RootError),
    #[error(
        "etcd was told to forget the state that the backup was reading, because much was written since it began. Nothing was \
         changed. Take the backup through the server, which keeps etcd from that: `corkboard backup FILE` without --config"
    )]
    Forgotten,
    #[error("the store could not be read for the backup")]
    Store {
        #[source]
        source: StoreError,
    },
}

impl From<StoreError> for TakeError {
    fn from(source: StoreError) -> TakeError {
        match source {
            StoreError::Compacted => TakeError::Forgotten,
            source => TakeError::Store { source },
        }
    }
}

/// A backup that is being taken.
#[derive(Debug)]
pub struct Taking {
    snapshot: Arc<dyn Snapshot>,
    header: Header,
    /// The first bytes, until they are given out.
    first: Option<Bytes>,
    encoder: Option<Encoder>,
    after: Option<String>,
    summary: Option<Summary>,
    /// So that nobody else opens it meanwhile.
    _store: Arc<dyn Store>,
}

impl Taking {
    pub async fn begin(store: Arc<dyn Store>, release: &str, now_ns: i64) -> Result<Taking, TakeError> {
        let snapshot = store.snapshot().await?;
        let header = header_of(&*snapshot, release, now_ns).await?;
        let (encoder, first) = Encoder::begin(&header);
        Ok(Taking {
            snapshot,
            header,
            first: Some(first),
            encoder: Some(encoder),
            after: None,
            summary: None,
            _store: store,
        })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many records were given out.
    pub fn records(&self) -> u64 {
        match (&self.summary, &self.encoder) {
            (Some(summary), _) => summary.records,
            (None, encoder) => encoder.as_ref().map_or(0, Encoder::records),
        }
    }

    /// What the whole file is, once its last bytes were given out.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// The next bytes of the file; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<Bytes>, TakeError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        while let Some(mut encoder) = self.encoder.take() {
            let page = self.snapshot.scan("", self.after.as_deref(), PAGE_RECORDS).await?;
            let mut bytes = BytesMut::new();
            for (key, value) in &page.records {
                encoder.push(key, value).into_iter().for_each(|block| bytes.extend_from_slice(&block));
            }
            self.after = page.next;
            if self.after.is_some() {
                self.encoder = Some(encoder);
            } else {
                let (last, summary) = encoder.finish();
                bytes.extend_from_slice(&last);
                self.summary = Some(summary);
            }
            if !bytes.is_empty() {
                return Ok(Some(bytes.freeze()));
            }
        }
        Ok(None)
    }
}

async fn header_of(snapshot: &dyn Snapshot, release: &str, now_ns: i64) -> Result<Header, TakeError> {
    let Some((example, _)) = snapshot.scan("", None, 1).await?.records.pop() else { return Err(TakeError::Empty) };
    if let Some(json) = get(snapshot, RESTORING_KEY).await? {
        return Err(RootError::from(read_restoring(&json)?).into());
    }
    let version = get(snapshot, VERSION_KEY).await?;
    let version = version.ok_or(RootError::Incomplete { missing: VERSION_KEY, example })?;
    let version = VersionRecord::parse(&version)?;
    let cluster_id = get(snapshot, CLUSTER_ID_KEY).await?;
    Ok(Header {
        release: release.to_owned(),
        taken_ns: now_ns,
        cluster_id: cluster_id.map(|id| String::from_utf8_lossy(&id).into_owned()),
        revision: snapshot.revision(),
        data_version: version.current,
        target_version: version.target,
        keys: key_names(snapshot).await?,
        records: snapshot.records(),
    })
}

/// The keys that a record may need, as the store knows them. An entry that cannot be read is better named than left out.
async fn key_names(snapshot: &dyn Snapshot) -> Result<Vec<String>, StoreError> {
    let mut names = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = snapshot.scan(LEDGER_ROOT, after.as_deref(), PAGE_RECORDS).await?;
        let is_needed = |value: &[u8]| serde_json::from_slice::<LedgerEntry>(value).map_or(true, |entry| entry.needed);
        let needed = page.records.iter().filter(|(_, value)| is_needed(value));
        names.extend(needed.map(|(key, _)| key[LEDGER_ROOT.len()..].to_owned()));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    if let Some(marker) = get(snapshot, MARKER_KEY).await? {
        names.push(String::from_utf8_lossy(&marker).into_owned());
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

async fn get(snapshot: &dyn Snapshot, key: &str) -> Result<Option<Bytes>, StoreError> {
    let found = snapshot.scan(key, None, 1).await?.records.pop();
    Ok(found.filter(|(found, _)| found == key).map(|(_, value)| value))
}
