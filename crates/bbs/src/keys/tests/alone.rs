//! A rotation that nobody is served beside, at full speed: several batches are under way at a time, in no fixed order.

use std::sync::Arc;

use store::Store;
use store::memory::Memory;
use store::root::next_history_number;
use store::seal::ledger::read_ledger;

use super::bench::{SealClock, filled, sealed, summary, tamper};
use crate::clock::Clock;
use crate::config::{Encryption, KeySource, Rotation, RotationMode};
use crate::keys::alone::{AloneError, Settings, rotate, verify};
use crate::keys::open::unlock;
use crate::keys::{KeyAsk, KeyTracker, KeysStatus, State};
use crate::migrate::tests::seals::{census, check, ring};
use crate::migrate::tests::world::dump;

/// More than two batches.
const DOMAINS: usize = 2_500;

/// As an errand does it, or a server that lets nobody in.
async fn work(store: &Memory, keys: &str, ask: KeyAsk) -> Result<KeysStatus, AloneError> {
    let store = store.reopen();
    let held = store.campaign("test").await.unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SealClock::default());
    let rotation = Rotation { mode: RotationMode::Offline, ..Rotation::default() };
    let source = KeySource::new(|| Err("nobody reads them again".to_owned()));
    let encryption = Encryption { keyring: ring(keys), rotation, source };
    let unlocked = unlock(Arc::new(store.clone()), Some(&encryption), &clock).await.unwrap();
    let vault = unlocked.vault.clone().unwrap();
    unlocked.count().await.unwrap();
    let history = next_history_number(&store).await.unwrap().into();
    let (_never, stop) = tokio::sync::watch::channel(false);
    let settings = Settings { clock, node: "test".into(), rotation, history, stop };
    let tracker = Arc::new(KeyTracker::new(rotation.mode));
    match ask {
        KeyAsk::Rotate { .. } => rotate(&vault, held, settings, tracker.clone()).await?,
        KeyAsk::Verify => verify(&vault, held, settings, tracker.clone()).await?,
    };
    Ok(tracker.status(&vault))
}

#[tokio::test]
async fn a_crash_with_several_batches_under_way_leaves_what_the_next_one_finishes() {
    let store = filled("A", DOMAINS).await;
    let whole = store.copy();
    assert_eq!(work(&whole, "BA", KeyAsk::Rotate { keep_missing: false }).await.unwrap().state, State::Settled);
    assert!(whole.writes() > 10, "{}", whole.writes());
    for write in 1..=whole.writes() {
        let store = store.copy();
        store.fail_after(write);
        work(&store, "BA", KeyAsk::Rotate { keep_missing: false }).await.unwrap_err();
        check(&store, &format!("crash after write {write}")).await;
        let status = work(&store, "BA", KeyAsk::Rotate { keep_missing: false }).await.unwrap();
        assert_eq!((status.state, status.marker.as_deref()), (State::Settled, Some("B")), "write {write}");
        check(&store, &format!("crash after write {write}, then to its end")).await;
        assert_eq!(census(&store).await["B"], DOMAINS as u64);
    }
}

#[tokio::test]
async fn it_ends_when_nothing_more_can_be_done_and_says_what_stands_in_the_way() {
    let store = filled("A", 10).await;
    let place = "/v1/task/stray";
    tamper(&store, |step| step.put(place, sealed("D", place, b"plain"))).await;
    let status = work(&store, "BA", KeyAsk::Rotate { keep_missing: false }).await.unwrap();
    assert_eq!((status.state, status.blocked[0].id.as_str()), (State::Blocked, place));
    assert_eq!(summary(&read_ledger(&store).await.unwrap()), "marker absent; A needed, B needed");
    let before = dump(&store).await;
    let found = work(&store, "BA", KeyAsk::Verify).await.unwrap().verification.unwrap().tally;
    assert_eq!((found.records, found.broken_total, found.keys["B"].records), (11, 1, 10));
    assert!(before == dump(&store).await);
    let status = work(&store, "BAD", KeyAsk::Rotate { keep_missing: false }).await.unwrap();
    assert_eq!((status.state, status.marker.as_deref()), (State::Settled, Some("B")));
}
