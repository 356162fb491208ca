//! The one who follows, in virtual time: when it is warm, what makes it begin anew, and who gets the board.

use std::sync::Arc;
use std::time::Duration;

use store::record::DataVersion;
use store::root::{VersionRecord, put_version};
use store::{Forms, Step, Store, StoreError, Version};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::acts::{Act, Keys, Master};
use super::{Standby, WHOLE, assert_same, counts, unlocked};
use crate::follow::{Followed, Status, Warm, follow};
use crate::keys::open::Unlocked;

const PATIENCE: Duration = Duration::from_secs(60);

struct Node {
    warm: Arc<Warm>,
    unlocked: Unlocked,
    stop: watch::Sender<bool>,
    following: JoinHandle<()>,
}

impl Node {
    async fn start(master: &Master, keys: &str) -> Self {
        let store: Arc<dyn Store> = master.store.clone();
        let unlocked = unlocked(store.clone(), keys).await;
        let warm = Arc::new(Warm::default());
        let (stop, stopped) = watch::channel(false);
        let following = tokio::spawn(follow(store, unlocked.clone(), warm.clone(), stopped));
        Self { warm, unlocked, stop, following }
    }

    /// Waits for the status to be this one. Whoever follows ticks whenever it may be another.
    async fn becomes(&self, wanted: impl Fn(&Status) -> bool) {
        let mut moved = self.warm.moved();
        let waiting = async {
            while !wanted(&self.warm.status()) {
                moved.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("still {:?}", self.warm.status()));
    }

    async fn is_warm_at(&self, revision: u64) {
        self.becomes(|status| *status == Status::Warm { revision }).await;
    }

    /// Takes the board, which must be the one that a load gives, with all that belongs to it.
    async fn take(self, master: &Master, keys: &str) -> Followed {
        let followed = self.warm.take_at(master.store.revision(), PATIENCE).await.expect("it is warm");
        self.following.await.unwrap();
        assert_eq!(self.warm.status(), Status::Taken);
        let node = Standby { unlocked: self.unlocked, followed };
        node.compare(&master.store.memory, keys, "taken").await;
        node.followed
    }
}

fn act(kind: u8) -> Act {
    Act::Command { kind, process: 0, index: 0, other: 0 }
}

async fn master() -> Master {
    Master::create(Forms::only(Version::LATEST), WHOLE).await
}

async fn put(master: &Master, current: DataVersion) {
    let mut step = Step::default();
    put_version(&mut step, &VersionRecord::new(current, current));
    master.reach_in(step).await;
}

#[tokio::test(start_paused = true)]
async fn it_is_warm_after_a_load_and_stays_at_the_newest_revision() {
    let mut master = master().await;
    let node = Node::start(&master, "").await;
    node.is_warm_at(master.store.revision()).await;
    for kind in [3, 7, 12, 16, 2] {
        master.act(&act(kind)).await;
    }
    node.is_warm_at(master.store.revision()).await;
    node.take(&master, "").await;
    assert_eq!(*master.store.follows.borrow(), 1, "nothing was read twice");
}

#[tokio::test(start_paused = true)]
async fn what_is_committed_during_the_load_is_applied_after_it() {
    let mut master = master().await;
    master.store.shut.send_replace(true);
    let node = Node::start(&master, "").await;
    node.becomes(|status| matches!(status, Status::Loading { .. })).await;
    for kind in [3, 16, 7] {
        master.act(&act(kind)).await;
    }
    master.store.shut.send_replace(false);
    node.take(&master, "").await;
}

#[tokio::test(start_paused = true)]
async fn a_rotation_is_followed_down_to_the_counts() {
    let mut master = master().await;
    let node = Node::start(&master, "AB").await;
    node.is_warm_at(master.store.revision()).await;
    let mut control = node.warm.control_changed();
    for keys in [Keys::Begin("A"), Keys::Finish, Keys::Begin("BA")] {
        master.act(&Act::Keys(keys)).await;
        tokio::time::timeout(PATIENCE, control.changed()).await.unwrap().unwrap();
        master.act(&act(3)).await;
    }
    let vault = node.unlocked.vault.clone().unwrap();
    node.take(&master, "AB").await;
    assert!(counts(&vault).iter().any(|count| count.key.as_deref() == Some("B")));
}

/// The ledger that the node had was read before it began to listen.
#[tokio::test(start_paused = true)]
async fn a_ledger_that_changed_before_it_listened_is_known() {
    let mut master = master().await;
    let store: Arc<dyn Store> = master.store.clone();
    let early = unlocked(store.clone(), "A").await;
    master.act(&Act::Keys(Keys::Begin("A"))).await;
    let warm = Arc::new(Warm::default());
    let (stop, stopped) = watch::channel(false);
    let following = tokio::spawn(follow(store, early.clone(), warm.clone(), stopped));
    let node = Node { warm, unlocked: early, stop, following };
    node.is_warm_at(master.store.revision()).await;
    node.take(&master, "A").await;
}

#[tokio::test(start_paused = true)]
async fn another_version_is_loaded_anew_and_one_that_nobody_reads_is_waited_out() {
    let mut master = Master::create(Forms::both(Version::SplitDesiredLrp, Version::LATEST), WHOLE).await;
    let node = Node::start(&master, "").await;
    node.is_warm_at(master.store.revision()).await;
    let mut control = node.warm.control_changed();
    put(&master, DataVersion(9)).await;
    node.becomes(|status| matches!(status, Status::Cold { why } if why.contains("data version 9"))).await;
    assert!(control.has_changed().unwrap());
    control.mark_unchanged();
    let begun = tokio::time::Instant::now();
    assert!(node.warm.take_at(0, PATIENCE).await.is_none());
    assert_eq!(begun.elapsed(), Duration::ZERO, "a cold board is not waited for");
    master.act(&act(3)).await;
    put(&master, Version::LATEST.number()).await;
    node.is_warm_at(master.store.revision()).await;
    assert!(control.has_changed().unwrap());
    assert_eq!(node.take(&master, "").await.version, Version::LATEST);
}

#[tokio::test(start_paused = true)]
async fn errors_make_it_begin_anew_after_pauses_that_grow() {
    let master = master().await;
    let node = Node::start(&master, "").await;
    node.is_warm_at(master.store.revision()).await;
    let begun = tokio::time::Instant::now();
    master.store.failing.send_replace(3);
    master.store.break_off(|| StoreError::Compacted);
    node.becomes(|status| matches!(status, Status::Cold { .. })).await;
    node.is_warm_at(master.store.revision()).await;
    assert_eq!(*master.store.follows.borrow(), 5);
    assert_eq!(begun.elapsed(), Duration::from_millis(100 + 200 + 400 + 800));
    master.store.break_off(|| StoreError::Compacted);
    node.becomes(|status| matches!(status, Status::Cold { .. })).await;
    node.is_warm_at(master.store.revision()).await;
    assert_eq!(begun.elapsed(), Duration::from_millis(1500 + 100), "after a success the first pause is short again");
    node.take(&master, "").await;
}

#[tokio::test(start_paused = true)]
async fn an_error_during_the_load_ends_the_load() {
    let master = master().await;
    let node = Node::start(&master, "A").await;
    master.store.shut.send_replace(true);
    node.becomes(|status| matches!(status, Status::Loading { .. })).await;
    master.store.break_off(|| StoreError::Compacted);
    node.becomes(|status| matches!(status, Status::Cold { .. })).await;
    master.store.shut.send_replace(false);
    node.is_warm_at(master.store.revision()).await;
    node.take(&master, "A").await;
}

#[tokio::test(start_paused = true)]
async fn it_stops_when_told_also_during_a_load_and_leaves_nothing_behind() {
    for loading in [false, true] {
        let master = master().await;
        let node = Node::start(&master, "A").await;
        master.store.shut.send_replace(loading);
        let wanted = |status: &Status| {
            matches!((loading, status), (true, Status::Loading { .. }) | (false, Status::Warm { .. }))
        };
        node.becomes(wanted).await;
        node.stop.send_replace(true);
        node.following.await.unwrap();
        assert!(matches!(node.warm.status(), Status::Cold { .. }));
        assert!(node.warm.take_at(0, PATIENCE).await.is_none());
        assert_eq!(Arc::strong_count(node.unlocked.vault.as_ref().unwrap()), 2, "nobody reads any more");
    }
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_does_not_come_is_not_waited_for_longer_than_said() {
    let mut master = master().await;
    let node = Node::start(&master, "").await;
    let newest = master.store.revision();
    node.is_warm_at(newest).await;
    let begun = tokio::time::Instant::now();
    assert!(node.warm.take_at(newest + 1, Duration::from_secs(3)).await.is_none());
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    let update = act(3);
    let (taken, ()) = tokio::join!(node.warm.take_at(newest + 1, PATIENCE), master.act(&update));
    assert_eq!(taken.unwrap().board.revision, newest + 1);
    assert!(node.warm.take_at(0, PATIENCE).await.is_none(), "there is one board");
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_it_reads_is_an_error_like_others() {
    let master = master().await;
    let node = Node::start(&master, "A").await;
    let mut panics = 1;
    master.store.on_read(move || {
        if panics > 0 {
            panics -= 1;
            panic!("a defect, on purpose");
        }
    });
    node.becomes(|status| matches!(status, Status::Cold { why } if why.contains("report"))).await;
    node.is_warm_at(master.store.revision()).await;
    node.take(&master, "A").await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_nobody_shares_is_not_followed() {
    let master = master().await;
    let alone: Arc<dyn Store> = Arc::new(master.store.memory.clone());
    let unlocked = unlocked(alone.clone(), "").await;
    let warm = Arc::new(Warm::default());
    let (stop, stopped) = watch::channel(false);
    let following = tokio::spawn(follow(alone, unlocked.clone(), warm.clone(), stopped));
    let node = Node { warm, unlocked, stop, following };
    node.becomes(|status| matches!(status, Status::Cold { why } if why.contains("nobody else"))).await;
    drop(node.stop);
    node.following.await.unwrap();
}

/// A record that somebody tore apart is read in the store before the board can be taken.
#[tokio::test(start_paused = true)]
async fn what_is_torn_is_settled_before_the_board_is_taken() {
    let master = master().await;
    let node = Node::start(&master, "A").await;
    node.is_warm_at(master.store.revision()).await;
    let mut step = Step::default();
    step.delete(format!("{}desired/schedule/p", Version::LATEST.root()));
    master.reach_in(step).await;
    let followed = node.take(&master, "A").await;
    let fresh = Standby::load(master.store.clone(), Version::LATEST, "A").await;
    assert_same(&followed.board, &fresh.followed.board, "torn");
    assert_eq!(followed.board.quarantine.len(), 1);
}
