//! A node that waits keeps the board of the master beside it, so that it need not read everything when it takes over.
//!
//! Promise: once everything is applied that was committed, the board is the one that a fresh load would give, records that
//! cannot be read included, in every data version and with sealed records. It loads once, beside a master that writes, and
//! applies what was committed since the load began. The pages of that load stem from different moments, and what was read
//! early or late is set right by the changes, in their order: each says what a record is, not how it differs. [`followed`]
//! is that, and pure; [`warm`] holds the board for whoever takes over; this file does the reading and waiting.
//!
//! What makes the board useless (another data version became the current one, the store forgot what lies between, it cannot be
//! reached) makes it start over, after a pause that grows while errors follow each other. Changes that come during a load are
//! kept up to [`WAITING_BYTES_MAX`]; from there on the store keeps them.

pub mod followed;
#[cfg(test)]
mod tests;
pub mod warm;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use store::root::{VERSION_KEY, VersionRecord};
use store::seal::ledger::read_ledger;
use store::{Change, Following, Op, RootError, Store, StoreError, Version};
use tokio::sync::{mpsc, watch};

pub use self::followed::{Followed, Turn};
pub use self::warm::{Status, Warm};
use crate::board::Board;
use crate::keys::open::Unlocked;
use crate::phase::Phase;

/// How much of what is committed during a load is kept here.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Runs until it is told to stop, or somebody has taken the board. `store` has the records as they lie there, below the vault
/// of `unlocked`, which nobody else may use meanwhile. When it returns it reads and changes nothing any more.
pub async fn follow(store: Arc<dyn Store>, unlocked: Unlocked, warm: Arc<Warm>, stop: watch::Receiver<bool>) {
    let mut follower = Follower { store, unlocked, over: Over { stop, taken: warm.taken() }, warm, pause: FIRST_PAUSE };
    loop {
        match follower.round().await {
            Round::Over => break,
            Round::Again => {}
            Round::Failed(why) => {
                let pause = follower.pause;
                tracing::warn!(why, ?pause, "following the master was interrupted; it begins anew after a pause");
                follower.warm.cool(why);
                tokio::select! {
                    () = follower.over.wait() => break,
                    () = tokio::time::sleep(pause) => {}
                }
                follower.pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
    follower.warm.cool("this node does not follow any more".to_owned());
}

/// How it ended that the board was kept.
enum Round {
    /// Told to stop, or the board was taken.
    Over,
    /// Everything has to be read again, and can be.
    Again,
    Failed(String),
}

#[derive(Debug, thiserror::Error)]
enum Interrupted {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Root(#[from] RootError),
    #[error("the store does not tell any more what is committed")]
    Silent,
    #[error("reading the records failed inside this server; please report what the log says")]
    Panicked,
}

impl From<Result<Round, Interrupted>> for Round {
    fn from(round: Result<Self, Interrupted>) -> Self {
        round.unwrap_or_else(|why| Self::Failed(why.to_string()))
    }
}

#[derive(Clone)]
struct Over {
    stop: watch::Receiver<bool>,
    taken: watch::Receiver<bool>,
}

impl Over {
    /// Whoever is gone cannot want it to go on.
    async fn wait(&mut self) {
        tokio::select! {
            _ = self.stop.wait_for(|stop| *stop) => {}
            _ = self.taken.wait_for(|taken| *taken) => {}
        }
    }
}

type Changes = mpsc::Receiver<Result<Change, StoreError>>;

/// What this release makes of the version that the store says it has.
enum Current {
    Readable(Version),
    /// Nothing to load until it says something else.
    Unreadable {
        why: String,
    },
}

struct Follower {
    store: Arc<dyn Store>,
    unlocked: Unlocked,
    warm: Arc<Warm>,
    over: Over,
    /// Before the next attempt, if this one fails.
    pause: Duration,
}

impl Follower {
    async fn round(&mut self) -> Round {
        let mut over = self.over.clone();
        let begun = tokio::select! {
            biased;
            () = over.wait() => return Round::Over,
            begun = self.begin() => begun,
        };
        let (current, mut changes) = match begun {
            Ok(Some(begun)) => begun,
            Ok(None) => {
                self.warm.cool("nobody else can commit to this store".to_owned());
                over.wait().await;
                return Round::Over;
            }
            Err(why) => return Round::Failed(why.to_string()),
        };
        match current {
            Current::Readable(version) => match self.load(version, &mut changes).await {
                Ok(Some((board, waiting))) => {
                    // Whatever is under way when it is over may be let go of: the board is held by `warm`.
                    tokio::select! {
                        biased;
                        () = over.wait() => Round::Over,
                        round = self.keep(Followed::new(board, version), waiting, &mut changes) => round.into(),
                    }
                }
                Ok(None) => Round::Over,
                Err(why) => Round::Failed(why.to_string()),
            },
            Current::Unreadable { why } => {
                self.warm.cool(why);
                tokio::select! {
                    biased;
                    () = over.wait() => Round::Over,
                    round = self.await_another_version(&mut changes) => round.into(),
                }
            }
        }
    }

    /// Listens first and looks then, so that nothing happens in between.
    async fn begin(&self) -> Result<Option<(Current, Changes)>, Interrupted> {
        let Some(Following { changes }) = self.store.follow().await? else { return Ok(None) };
        Ok(Some((self.current().await?, changes)))
    }

    async fn current(&self) -> Result<Current, StoreError> {
        let Some(json) = self.store.get(VERSION_KEY).await? else {
            return Ok(Current::Unreadable { why: "the store is empty".to_owned() });
        };
        Ok(match VersionRecord::parse(&json) {
            Err(error) => Current::Unreadable { why: error.to_string() },
            Ok(VersionRecord { current, .. }) => match Version::of(current) {
                Some(version) => Current::Readable(version),
                None => {
                    let why = format!("the store has data version {current}, which this release does not read");
                    Current::Unreadable { why }
                }
            },
        })
    }

    async fn await_another_version(&self, changes: &mut Changes) -> Result<Round, Interrupted> {
        loop {
            let change = told(changes.recv().await)?;
            self.warm.tick_if_control(&change);
            if change.ops.iter().any(|op| op.key() == VERSION_KEY) {
                return Ok(Round::Again);
            }
        }
    }

    /// Reads everything, and keeps what is told meanwhile. `None` when it is over.
    async fn load(
        &mut self,
        version: Version,
        changes: &mut Changes,
    ) -> Result<Option<(Board, VecDeque<Change>)>, Interrupted> {
        let phase = Phase::new();
        self.warm.load(phase.clone());
        let (go_on, mut let_go) = watch::channel(());
        let unlocked = self.unlocked.clone();
        // In a task of its own, so that a panic in there ends nothing else.
        let mut loading = tokio::spawn(async move {
            let stop = async move { while let_go.changed().await.is_ok() {} };
            unlocked.load_until(version, &phase, stop).await
        });
        let mut waiting = VecDeque::new();
        let mut waiting_bytes = 0;
        let interrupted = loop {
            tokio::select! {
                biased;
                () = self.over.wait() => break Ok(None),
                loaded = &mut loading => {
                    let board = loaded.map_err(|_| Interrupted::Panicked)??;
                    return Ok(board.map(|board| (board, waiting)));
                }
                change = changes.recv(), if waiting_bytes < WAITING_BYTES_MAX => match told(change) {
                    Ok(change) => {
                        self.warm.tick_if_control(&change);
                        waiting_bytes += change.ops.iter().map(Op::bytes).sum::<usize>();
                        waiting.push_back(change);
                    }
                    Err(why) => break Err(why),
                },
            }
        };
        drop(go_on);
        let _ = loading.await;
        interrupted
    }

    /// Applies what was told and what is told, until the board is of no use any more.
    async fn keep(
        &mut self,
        followed: Followed,
        mut waiting: VecDeque<Change>,
        changes: &mut Changes,
    ) -> Result<Round, Interrupted> {
        // The board shows at least what was there when it began to be read. What was asked before that is asked again, so that
        // all of it can be taken as it is then, with changes still waiting that change nothing any more.
        if !matches!(self.current().await?, Current::Readable(version) if version == followed.version) {
            return Ok(Round::Again);
        }
        if let Some(vault) = &self.unlocked.vault {
            vault.learn(read_ledger(&*self.store).await?);
        }
        tracing::info!(
            revision = followed.board.revision,
            version = followed.version.name(),
            "this node follows the master"
        );
        self.warm.hold(followed);
        self.pause = FIRST_PAUSE;
        loop {
            let change = match waiting.pop_front() {
                Some(change) => change,
                None => {
                    let change = told(changes.recv().await)?;
                    self.warm.tick_if_control(&change);
                    change
                }
            };
            if self.warm.turn(&change, self.unlocked.vault.as_deref()) == Turn::Reload {
                return Ok(Round::Again);
            }
            for key in self.warm.unsure() {
                self.warm.settle(&key, self.unlocked.store.get(&key).await?);
            }
            // Many changes in a row would otherwise keep others from their turn.
            tokio::task::yield_now().await;
        }
    }
}

fn told(change: Option<Result<Change, StoreError>>) -> Result<Change, Interrupted> {
    Ok(change.ok_or(Interrupted::Silent)??)
}
