//! The right to be the only one, as a lock in Locket.
//!
//! Whatever becomes of whoever waits for it, the calls to Locket are made by a task of their own, one after the other: a wait
//! that is given up in the middle of a call may have got the lock without hearing of it, and the lock is given back then too.
//! [`Turns::end`] waits for that.

use std::sync::Arc;
use std::time::Duration;

use api::locket::{Client, Holder, LockSession, Options, Terms, Waiting};
use api::registry::bus::BoxFuture;
use route_emitter::lock::Held;
use tokio::sync::{mpsc, watch};

use super::Ending;

/// How long giving a lock back may take at the end, with a Locket that does not answer.
const GIVE_BACK_LIMIT: Duration = Duration::from_secs(5);

/// Where turns are asked for.
#[derive(Debug)]
pub(super) struct Turns {
    client: Client,
    terms: Terms,
    /// What Locket refuses for good, and why.
    refused: watch::Sender<Option<String>>,
    /// Held by each turn that is not over.
    open: mpsc::Sender<()>,
    over: mpsc::Receiver<()>,
}

impl Turns {
    /// `key` is the name that all who share the lock use; the owner is `node` and an id that no other process has.
    pub(super) fn new(options: &Options, key: &str, node: &str) -> Result<Self, Ending> {
        let client = Client::new(options)?;
        let terms = Terms::new(key, &format!("{node}-{}", fresh_id()));
        let (open, over) = mpsc::channel(1);
        Ok(Self { client, terms, refused: watch::Sender::new(None), open, over })
    }

    /// Begins to ask for the lock.
    pub(super) fn turn(&self) -> Turn {
        self.source().turn()
    }

    /// For whoever asks again and again.
    pub(super) fn source(&self) -> Source {
        let (client, terms) = (self.client.clone(), self.terms.clone());
        Source { client, terms, refused: self.refused.clone(), open: self.open.clone() }
    }

    /// Returns when asking again would change nothing, and says why. Whoever waits for a turn waits for ever then.
    pub(super) async fn refused(&self) -> Ending {
        let mut refused = self.refused.subscribe();
        let why = refused.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match why {
            Some(why) => Ending::LockRefused { why },
            None => std::future::pending().await,
        }
    }

    /// Waits until every turn that was dropped has been given back.
    pub(super) async fn end(self) {
        let Self { open, mut over, .. } = self;
        drop(open);
        if tokio::time::timeout(GIVE_BACK_LIMIT, over.recv()).await.is_err() {
            tracing::warn!("the lock may not have been given back; others get it when its time is over");
        }
    }
}

/// Asks for one lock, as often as it takes.
#[derive(Clone, Debug)]
pub(super) struct Source {
    client: Client,
    terms: Terms,
    refused: watch::Sender<Option<String>>,
    open: mpsc::Sender<()>,
}

impl Source {
    fn turn(&self) -> Turn {
        let (stop, stopped) = watch::channel(false);
        let (tell, state) = watch::channel(State::Waiting);
        tokio::spawn(take(self.clone(), tell, stopped));
        Turn { state, stop }
    }
}

impl route_emitter::lock::Lock for Source {
    fn acquire(&mut self) -> BoxFuture<'_, Held> {
        Box::pin(async move {
            let turn = self.turn();
            turn.held().await;
            Held::until(async move { drop(turn.gone().await) })
        })
    }
}

#[derive(Clone, Debug)]
enum State {
    Waiting,
    Held,
    Lost(String),
}

/// One attempt to have the lock. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Turn {
    state: watch::Receiver<State>,
    stop: watch::Sender<bool>,
}

impl Turn {
    /// Waits until the lock is held, for ever if it is refused.
    async fn held(&self) {
        let mut state = self.state.clone();
        // One that was lost already is told by `gone`.
        let is_held = state.wait_for(|state| !matches!(state, State::Waiting)).await.is_ok();
        if !is_held {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the lock is ours no longer, and says why.
    async fn gone(&self) -> String {
        let mut state = self.state.clone();
        match state.wait_for(|state| matches!(state, State::Lost(_))).await.as_deref() {
            Ok(State::Lost(why)) => why.clone(),
            _ => "the task that keeps it met a defect".to_owned(),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl auctioneer::Lock for Turn {
    async fn acquire(&self) {
        self.held().await;
    }

    async fn lost(&self) -> String {
        self.gone().await
    }
}

async fn take(source: Source, tell: watch::Sender<State>, mut stop: watch::Receiver<bool>) {
    let Source { client, terms, refused, open } = source;
    let key = terms.key.clone();
    let desk = Arc::new(Desk { tell, seen: watch::Sender::new(Waiting::default()), key });
    match LockSession::acquire(client, terms, desk.clone(), stop.clone()).await {
        Ok(Some(session)) => {
            desk.tell.send_if_modified(|state| {
                let is_new = matches!(state, State::Waiting);
                if is_new {
                    *state = State::Held;
                }
                is_new
            });
            let _ = stop.wait_for(|stop| *stop).await;
            session.release().await;
        }
        Ok(None) => {}
        Err(error) => drop(refused.send_replace(Some(error.to_string()))),
    }
    drop(open);
}

/// What this process tells and hears about its lock.
#[derive(Debug)]
struct Desk {
    tell: watch::Sender<State>,
    seen: watch::Sender<Waiting>,
    key: String,
}

impl Holder for Desk {
    fn uptime_ns(&self) -> u64 {
        store::standing::uptime_ns()
    }

    fn fresh_id(&self) -> Arc<str> {
        fresh_id().into()
    }

    fn waits(&self, waiting: &Waiting) {
        if !self.seen.send_if_modified(|seen| std::mem::replace(seen, waiting.clone()) != *waiting) {
            return;
        }
        match (&waiting.trouble, &waiting.owner) {
            (Some(trouble), _) => {
                tracing::warn!(lock = self.key, trouble, "waiting for the lock, and Locket has trouble");
            }
            (None, Some(owner)) => {
                tracing::info!(lock = self.key, owner, "waiting for the lock, which another one has");
            }
            (None, None) => tracing::info!(lock = self.key, "asking Locket for the lock"),
        }
    }

    fn renewed(&self, _: u64) {}

    fn lost(&self, why: &str) {
        tracing::error!(lock = self.key, why, "the lock in Locket is lost");
        self.tell.send_replace(State::Lost(why.to_owned()));
    }
}

/// A name that nobody has used before.
#[expect(clippy::disallowed_methods, reason = "the edge of the process is where random ids come from")]
pub(super) fn fresh_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
