//! The board of a node that waits, between the one who keeps it and the one who takes over.
//!
//! Promise: what is taken shows the revision that was asked for or a later one, and nothing is applied to it, nor noted in the
//! vault beside it, once it is taken. Nobody waits for it in a loop.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use store::Change;
use store::root::VERSION_KEY;
use store::seal::Vault;
use store::seal::ledger::{LEDGER_ROOT, MARKER_KEY};
use tokio::sync::watch;

use super::followed::{Followed, Turn};
use crate::phase::Phase;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// There is no board, and none is being made now.
    Cold {
        why: String,
    },
    /// So many records are read.
    Loading {
        done: u64,
    },
    Warm {
        revision: u64,
    },
    /// Somebody has it.
    Taken,
}

#[derive(Debug)]
pub struct Warm {
    held: Mutex<Held>,
    moved: watch::Sender<()>,
    taken: watch::Sender<bool>,
    control: watch::Sender<u64>,
}

#[derive(Debug)]
enum Held {
    Cold { why: String },
    Loading { phase: Arc<Phase> },
    Warm { followed: Box<Followed> },
    Taken,
}

impl Default for Warm {
    fn default() -> Self {
        Self {
            held: Mutex::new(Held::Cold { why: "this node has not begun to follow".to_owned() }),
            moved: watch::Sender::default(),
            taken: watch::Sender::default(),
            control: watch::Sender::default(),
        }
    }
}

impl Warm {
    pub fn status(&self) -> Status {
        match &*self.held() {
            Held::Cold { why } => Status::Cold { why: why.clone() },
            Held::Loading { phase } => Status::Loading { done: phase.loaded_records() },
            Held::Warm { followed } => Status::Warm { revision: followed.board.revision },
            Held::Taken => Status::Taken,
        }
    }

    /// Ticks whenever somebody else changed `/version`, `/encryption-key` or a record below `/keys/`, which may change whether
    /// this node can take over.
    pub fn control_changed(&self) -> watch::Receiver<u64> {
        self.control.subscribe()
    }

    /// Ticks whenever the status may be another.
    pub fn moved(&self) -> watch::Receiver<()> {
        self.moved.subscribe()
    }

    /// Takes the board as soon as it shows `revision` or a later one; whoever follows stops then. `None` when there is none
    /// within `limit`, or when it is cold: let the follower end, and load.
    ///
    /// Ask with the newest revision there is, when nobody else can commit any more. Pages of a load may show a moment after
    /// the revision that the board has, but never after that one.
    pub async fn take_at(&self, revision: u64, limit: Duration) -> Option<Followed> {
        let mut moved = self.moved.subscribe();
        let taking = async {
            loop {
                match self.try_take(revision) {
                    Ok(taken) => return taken,
                    Err(NotYet) => moved.changed().await.ok()?,
                }
            }
        };
        tokio::time::timeout(limit, taking).await.ok().flatten()
    }

    fn try_take(&self, revision: u64) -> Result<Option<Followed>, NotYet> {
        let mut held = self.held();
        match &*held {
            Held::Cold { .. } | Held::Taken => return Ok(None),
            Held::Warm { followed } if followed.board.revision >= revision && followed.unsure().is_empty() => {}
            Held::Loading { .. } | Held::Warm { .. } => return Err(NotYet),
        }
        let taken = std::mem::replace(&mut *held, Held::Taken);
        self.taken.send_replace(true);
        match taken {
            Held::Warm { followed } => Ok(Some(*followed)),
            Held::Cold { .. } | Held::Loading { .. } | Held::Taken => Ok(None),
        }
    }

    pub(super) fn taken(&self) -> watch::Receiver<bool> {
        self.taken.subscribe()
    }

    pub(super) fn tick_if_control(&self, change: &Change) {
        let is_control = |key: &str| key == VERSION_KEY || key == MARKER_KEY || key.starts_with(LEDGER_ROOT);
        if change.ops.iter().any(|op| is_control(op.key())) {
            self.control.send_modify(|ticks| *ticks += 1);
        }
    }

    pub(super) fn cool(&self, why: String) {
        self.replace(Held::Cold { why });
    }

    pub(super) fn load(&self, phase: Arc<Phase>) {
        self.replace(Held::Loading { phase });
    }

    pub(super) fn hold(&self, followed: Followed) {
        self.replace(Held::Warm { followed: Box::new(followed) });
    }

    /// Applies a change that lies as it was committed, and has the vault note it. Both or neither.
    pub(super) fn turn(&self, change: &Change, vault: Option<&Vault>) -> Turn {
        let mut held = self.held();
        let Held::Warm { followed } = &mut *held else { return Turn::Reload };
        let turn = match vault {
            Some(vault) => {
                let explain = |key: &str, value: &[u8]| vault.explain(key, value).map(|why| why.to_string());
                followed.apply(&vault.heard(change), &explain)
            }
            None => followed.apply(change, &|_, _| None),
        };
        if turn == Turn::Reload {
            *held = Held::Loading { phase: Phase::new() };
        }
        self.moved.send_replace(());
        turn
    }

    pub(super) fn unsure(&self) -> BTreeSet<String> {
        match &*self.held() {
            Held::Warm { followed } => followed.unsure().clone(),
            Held::Cold { .. } | Held::Loading { .. } | Held::Taken => BTreeSet::new(),
        }
    }

    pub(super) fn settle(&self, key: &str, bytes: Option<Bytes>) {
        if let Held::Warm { followed } = &mut *self.held() {
            followed.settle(key, bytes);
        }
        self.moved.send_replace(());
    }

    /// What is taken stays taken.
    fn replace(&self, next: Held) {
        let mut held = self.held();
        if !matches!(&*held, Held::Taken) {
            *held = next;
        }
        self.moved.send_replace(());
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// There may still be a board.
struct NotYet;
