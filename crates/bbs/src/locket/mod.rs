//! This node among Diego's own components, where Locket knows who may serve and which cells there are.
//!
//! Promise: while [`Lock::standing`] is certain, no other node has the lock. How it is kept, and when it is lost, is in
//! [`api::locket::session`]; [`leased`] lets everybody who asks the store for its standing hear of it, and [`presences`] reads
//! the cells.
//!
//! The lock decides who opens the store. That two nodes never both write rests on the store, as everywhere.

use std::sync::Arc;

use api::locket::{Client, Holder, LockSession, LocketError, Options, Terms, Waiting};
use store::Standing;
use store::standing::{Term, uptime_ns};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::config;
use crate::phase::{LockStatus, Phase};

pub(crate) mod leased;
pub(crate) mod presences;

/// Diego's name for the lock of the state server.
const LOCK: &str = "bbs";

/// The lock of the state server, held by this node.
#[derive(Debug)]
pub(crate) struct Lock {
    client: Client,
    session: LockSession,
    term: Arc<Term>,
}

impl Lock {
    /// Waits until this node has the lock. Returns `None` if it was asked to stop before.
    pub(crate) async fn take(
        config: &config::Locket,
        phase: Arc<Phase>,
        clock: Arc<dyn Clock>,
        stop: watch::Receiver<bool>,
    ) -> Result<Option<Self>, LocketError> {
        let options = Options { address: config.address.clone(), tls: config.tls.clone(), keepalive: config.keepalive };
        let term = Term::new();
        let office = Arc::new(Office { term: term.clone(), phase, clock, address: config.address.clone() });
        office.waits(&Waiting::default());
        let mut stopped = stop.clone();
        let client = tokio::select! {
            connected = Client::connect(&options) => connected?,
            _ = stopped.wait_for(|stop| *stop) => return Ok(None),
        };
        let terms = Terms::new(LOCK, &config.owner);
        let Some(session) = LockSession::acquire(client.clone(), terms, office.clone(), stop).await? else {
            return Ok(None);
        };
        office.phase.waits_for_lock(None);
        tracing::info!(lock = LOCK, owner = config.owner, locket = config.address, "this node has the lock in Locket");
        Ok(Some(Self { client, session, term }))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn standing(&self) -> Standing {
        Standing::of(self.term.clone())
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.term.is_lost()
    }

    /// So that the next node need not wait until its time is over.
    pub(crate) async fn release(self) {
        self.session.release().await;
    }
}

/// What this node tells and hears about its lock.
#[derive(Debug)]
struct Office {
    term: Arc<Term>,
    phase: Arc<Phase>,
    clock: Arc<dyn Clock>,
    address: String,
}

impl Holder for Office {
    fn uptime_ns(&self) -> u64 {
        uptime_ns()
    }

    fn fresh_id(&self) -> Arc<str> {
        self.clock.fresh_id()
    }

    fn waits(&self, Waiting { owner, trouble }: &Waiting) {
        let status = LockStatus {
            name: LOCK.to_owned(),
            locket: self.address.clone(),
            owner: owner.clone(),
            trouble: trouble.clone(),
        };
        let before = self.phase.lock_waited_for();
        if before.as_deref() == Some(&status) {
            return;
        }
        match (trouble, owner) {
            (Some(trouble), _) => tracing::warn!(trouble, "this node waits for its lock, and Locket has trouble"),
            (None, Some(owner)) => tracing::info!(owner, "this node waits for its lock, which another node has"),
            (None, None) => tracing::info!(locket = self.address, "this node asks Locket for its lock"),
        }
        self.phase.waits_for_lock(Some(status));
    }

    fn renewed(&self, sent_ns: u64) {
        self.term.renewed(sent_ns, api::locket::session::TTL);
    }

    fn lost(&self, why: &str) {
        tracing::error!(why, "the lock in Locket is lost");
        self.term.lose(why);
    }
}
