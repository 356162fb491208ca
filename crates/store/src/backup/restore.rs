//! From a backup to a store.
//!
//! Promise: only a store without records is written to, or one that an earlier restore left half done. Until the last record
//! is durable the store says that it is being restored, and no server takes it for a whole one; the step that ends this is the
//! one that writes `/version`. A restore that was interrupted is begun again, with the same file or, by force, with another.
//!
//! A restored store begins [`REVISIONS_AHEAD`] of its backup. The original may have announced revisions after the backup was
//! taken; a client that asks to go on from one of those gets a gap event and reads the state anew, because the restored store
//! has already counted past all of them. It would otherwise go on in another history without noticing.

use std::io::{self, Read, Seek};

use thiserror::Error;

use super::parse::read_into;
use super::{BackupError, Contents, Parser, Part};
use crate::error::StoreError;
use crate::kv::{Mastership, Op, STORED_BYTES_MAX, STORED_OPS_MAX, Step, Store};
use crate::root::{CLUSTER_ID_KEY, RESTORING_KEY, Restoring, RootError, VERSION_KEY, put_restoring, read_restoring};

/// How far behind the revision of its backup a restored store begins: more steps than a server makes in the months between a
/// backup and its use.
pub const REVISIONS_AHEAD: u64 = 1_000_000_000_000;
/// One commit carries about this much.
const COMMIT_BYTES: usize = 8 * 1024 * 1024;
const PAGE_RECORDS: usize = 4_096;

#[derive(Debug, Error)]
pub enum RestoreError {
    #[error(
        "the store is not empty: it holds {what}. Nothing was changed. A backup is restored into an empty store only: configure \
         an empty directory, or a prefix in etcd that is not in use"
    )]
    NotEmpty { what: String },
    #[error(
        "another backup (SHA-256 {theirs}) is being restored into this store, and has not been finished. Nothing was changed. \
         Give that file, or add --force to start over with this one"
    )]
    OtherBackup { theirs: String },
    #[error(
        "the store has no records, but it was used before: it is at revision {revision}, and this backup needs one that never \
         was. Nothing was changed. Configure an empty directory, or a prefix in etcd that was never used"
    )]
    Used { revision: u64 },
    #[error(
        "the file is not the one that was checked a moment ago. The store is marked as half restored, and no server will use it. \
         Give the same command again, with a file that nobody writes to"
    )]
    FileChanged { found: BackupError },
    #[error(transparent)]
    Root(#[from] RootError),
    #[error("the restore did not come to its end. No server will use the store as it is. Give the same command again")]
    Interrupted {
        #[source]
        source: StoreError,
    },
}

/// What a restore writes to. The store is the bare one: records of a backup are sealed already.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub store: &'a dyn Store,
    pub held: &'a Mastership,
    /// What the file was found to hold.
    pub contents: &'a Contents,
    /// Start over although another file was begun with.
    pub force: bool,
    pub now_ns: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    pub revision: u64,
    /// Whether an earlier attempt had left records there.
    pub started_over: bool,
}

/// Restores a file that was checked. It is read and checked once more on the way.
pub async fn restore(
    target: Target<'_>,
    file: &mut (impl Read + Seek),
    mut progress: impl FnMut(u64),
) -> Result<Restored, RestoreError> {
    let Target { store, held, contents, now_ns, .. } = target;
    let started_over = look(target).await?;
    let first = contents.header.revision.saturating_add(REVISIONS_AHEAD);
    match store.revision() {
        0 => store.begin_after(held, first).await.map_err(|source| RootError::Store { source })?,
        revision if revision < first => return Err(RestoreError::Used { revision }),
        _ => {}
    }
    let mut batch = Batch { store, held, steps: Vec::new(), bytes: 0 };
    let mut mark = Step::default();
    put_restoring(&mut mark, &Restoring::new(&contents.summary.sha256, now_ns));
    batch.steps.push(mark);
    batch.flush().await.map_err(interrupted)?;
    if started_over {
        clear(&mut batch).await.map_err(interrupted)?;
    }
    let version = copy(&mut batch, contents, file, &mut progress).await?;
    let mut last = Step::default();
    last.delete(RESTORING_KEY);
    last.ops.push(version);
    batch.steps.push(last);
    batch.flush().await.map_err(interrupted)?;
    Ok(Restored { revision: store.revision(), started_over })
}

fn interrupted(source: StoreError) -> RestoreError {
    RestoreError::Interrupted { source }
}

/// Whether an earlier restore is being started over. Anything else that is there is a reason not to begin.
async fn look(target: Target<'_>) -> Result<bool, RestoreError> {
    let Target { store, contents, force, .. } = target;
    let root_error = |source| RestoreError::Root(RootError::Store { source });
    if let Some(json) = store.get(RESTORING_KEY).await.map_err(root_error)? {
        let theirs = read_restoring(&json)?.sha256;
        if theirs != contents.summary.sha256 && !force {
            return Err(RestoreError::OtherBackup { theirs });
        }
        return Ok(true);
    }
    let Some((example, _)) = store.scan("", None, 1).await.map_err(root_error)?.records.pop() else { return Ok(false) };
    let id = store.get(CLUSTER_ID_KEY).await.map_err(root_error)?;
    let what = match id {
        Some(id) => format!("the records of cluster {}, for example {example}", String::from_utf8_lossy(&id)),
        None => format!("records, for example {example}"),
    };
    Err(RestoreError::NotEmpty { what })
}

/// Removes what an earlier attempt wrote. The mark stays.
async fn clear(batch: &mut Batch<'_>) -> Result<(), StoreError> {
    let mut after: Option<String> = None;
    loop {
        let page = batch.store.scan("", after.as_deref(), PAGE_RECORDS).await?;
        for (key, _) in page.records {
            if key != RESTORING_KEY {
                batch.add(Op::Delete { key }).await?;
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return batch.flush().await,
        }
    }
}

/// Commits all records but the version, which is returned.
async fn copy(
    batch: &mut Batch<'_>,
    contents: &Contents,
    file: &mut (impl Read + Seek),
    progress: &mut impl FnMut(u64),
) -> Result<Op, RestoreError> {
    let changed = |found: BackupError| RestoreError::FileChanged { found };
    let failed = |error: io::Error| changed(error.into());
    file.rewind().map_err(failed)?;
    let (mut parser, mut version, mut done) = (Parser::default(), None, 0);
    while read_into(file, &mut parser).map_err(failed)? {
        while let Some(part) = parser.part().map_err(changed)? {
            let Part::Records(records) = part else { continue };
            done += records.len() as u64;
            for (key, value) in records {
                if key == VERSION_KEY {
                    version = Some(Op::Put { key, value });
                } else {
                    batch.add(Op::Put { key, value }).await.map_err(interrupted)?;
                }
            }
            progress(done);
        }
    }
    batch.flush().await.map_err(interrupted)?;
    let summary = parser.finish().map_err(changed)?;
    let other = || changed(BackupError::Damaged { at: 0, what: "it is not the file that was checked a moment ago" });
    version.filter(|_| summary == contents.summary).ok_or_else(other)
}

/// Operations, gathered into full steps and those into commits.
struct Batch<'a> {
    store: &'a dyn Store,
    held: &'a Mastership,
    steps: Vec<Step>,
    bytes: usize,
}

impl Batch<'_> {
    async fn add(&mut self, op: Op) -> Result<(), StoreError> {
        self.bytes += op.bytes();
        match self.steps.last_mut() {
            Some(step) if step.ops.len() < STORED_OPS_MAX && step.bytes() + op.bytes() <= STORED_BYTES_MAX => {
                step.ops.push(op);
            }
            _ => self.steps.push(Step { ops: vec![op] }),
        }
        if self.bytes >= COMMIT_BYTES { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), StoreError> {
        if !self.steps.is_empty() {
            self.store.commit(self.held, &self.steps).await?;
            self.steps.clear();
            self.bytes = 0;
        }
        Ok(())
    }
}
