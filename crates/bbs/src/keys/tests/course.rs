//! From one key to the next, without anything going wrong beside it.

use expect_test::{Expect, expect};
use store::memory::Memory;
use store::root::read_history;
use store::seal::Secret;
use store::seal::ledger::{MARKER_KEY, read_ledger};
use store::{Store, StoreError};

use super::bench::{Bench, domain, filled, sealed, summary, tamper};
use crate::keys::{KeyAsk, State};
use crate::migrate::tests::seals::{census, check, ring, ring_of};
use crate::migrate::tests::world::dump;

const DOMAINS: usize = 12;

/// What the store says in the end, and what operators are told.
async fn settles(bench: &Bench, expected: &Expect) {
    bench.reaches(State::Settled).await;
    check(&bench.store, "settled").await;
    for (_, key, value) in (0..DOMAINS).map(domain) {
        assert_eq!(bench.opened(&key).await, Some(value), "{key}");
    }
    let ledger = bench.ledger().await;
    let verdicts: Vec<String> = bench.status().keys.into_iter().map(|key| key.verdict).collect();
    expected.assert_eq(&format!("{}; {}", summary(&ledger), verdicts.join("; ")));
}

#[tokio::test(start_paused = true)]
async fn a_plain_store_is_encrypted() {
    let store = filled("", DOMAINS).await;
    let bench = Bench::start(&store, "A").await;
    assert_eq!(bench.status().plain_records, DOMAINS as u64);
    settles(&bench, &expect!["marker A; A needed; A: 12 records, active"]).await;
    assert_eq!(bench.status().plain_records, 0);
    let told: Vec<String> =
        read_history(&store, 10).await.unwrap().into_iter().map(|(_, entry)| entry.detail).collect();
    assert_eq!(told, ["to key A", "all 12 records are under key A"]);
}

#[tokio::test(start_paused = true)]
async fn from_one_key_to_the_next_every_seal_is_counted() {
    let store = filled("A", DOMAINS).await;
    let bench = Bench::start(&store, "BA").await;
    let expected = expect!["marker B; A free, B needed; A: 0 records, safe to remove; B: 12 records, active"];
    settles(&bench, &expected).await;
    let ledger = bench.ledger().await;
    assert_eq!((ledger.entries["A"].writes, ledger.entries["B"].writes), (DOMAINS as u64, DOMAINS as u64));
    for at in 0..3 {
        bench.upsert(at, 900).await;
    }
    assert_eq!((bench.ledger().await.entries["B"].writes, bench.seals()), (DOMAINS as u64 + 3, DOMAINS as u64 + 3));
    drop(bench);
    let bench = Bench::start(&store, "BA").await;
    assert_eq!(bench.tracker.state(), State::Settled, "a restart has nothing to do");
    bench.upsert(0, 901).await;
    assert_eq!(bench.ledger().await.entries["B"].writes, DOMAINS as u64 + 4, "it goes on counting");
}

#[tokio::test(start_paused = true)]
async fn seals_of_clients_during_a_rotation_are_counted() {
    let store = filled("A", DOMAINS).await;
    let bench = Bench::start(&store, "BA").await;
    let mut at = 0;
    while bench.tracker.state() == State::Rotating {
        bench.upsert(at % (2 * DOMAINS), 900).await;
        at += 1;
        bench
            .until(|bench| bench.tracker.progress().1.done >= at as u64 || bench.tracker.state() != State::Rotating)
            .await;
    }
    bench.reaches(State::Settled).await;
    bench.upsert(0, 901).await;
    assert_eq!(bench.ledger().await.entries["B"].writes, bench.seals());
}

#[tokio::test(start_paused = true)]
async fn a_third_key_after_a_restart_halfway() {
    let store = filled("A", DOMAINS).await;
    let bench = Bench::start(&store, "BA").await;
    bench.is_halfway().await;
    drop(bench);
    let mixed = census(&store).await;
    assert!(mixed["A"] > 0 && mixed["B"] > 0, "{mixed:?}");
    expect!["marker absent; A needed, B needed"].assert_eq(&summary(&read_ledger(&store).await.unwrap()));
    let bench = Bench::start(&store, "CBA").await;
    expect!["marker absent; A needed, B needed, C needed"].assert_eq(&summary(&bench.ledger().await));
    let expected = expect![[
        "marker C; A free, B free, C needed; A: 0 records, safe to remove; B: 0 records, safe to remove; C: 12 records, active"
    ]];
    settles(&bench, &expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_third_key_at_the_word_of_an_operator_halfway() {
    let store = filled("A", DOMAINS).await;
    let bench = Bench::with_later(&store, "BA", Ok(ring("CAB"))).await;
    bench.is_halfway().await;
    let did = bench.ask(KeyAsk::Rotate { keep_missing: false }).await.unwrap();
    assert_eq!(did.message, "records are being brought under key C");
    let mixed = census(&store).await;
    assert!(mixed["A"] > 0 && mixed["B"] > 0, "{mixed:?}");
    expect!["marker absent; A needed, B needed, C needed"].assert_eq(&summary(&bench.ledger().await));
    let expected = expect![[
        "marker C; A free, B free, C needed; A: 0 records, safe to remove; B: 0 records, safe to remove; C: 12 records, active"
    ]];
    settles(&bench, &expected).await;
    let did = bench.ask(KeyAsk::Rotate { keep_missing: false }).await.unwrap();
    assert_eq!(did.message, "all records are under key C already; there is nothing to do");
}

/// Keys that an operator must not be given while half of the records are under A and half under B.
#[tokio::test(start_paused = true)]
async fn keys_that_would_leave_a_record_closed_are_refused() {
    let other = |name: &str| (name.to_owned(), Secret::new(b"other bytes".to_vec()));
    let same = |name: &str| (name.to_owned(), Secret::new(format!("the bytes of {name}").into_bytes()));
    let check = async |later, expected: &Expect| {
        let store = filled("A", DOMAINS).await;
        let bench = Bench::with_later(&store, "BA", later).await;
        bench.is_halfway().await;
        let refused = bench.ask(KeyAsk::Rotate { keep_missing: false }).await.unwrap_err();
        expected.assert_eq(&format!("{}: {}", refused.code, refused.message));
        assert_eq!(bench.vault.keyring().names().map(ToString::to_string).collect::<Vec<_>>(), ["B", "A"]);
        bench.reaches(State::Settled).await;
        assert_eq!(summary(&bench.ledger().await), "marker B; A free, B needed", "it goes on as before");
    };
    check(Ok(ring("CB")), &expect!["key-missing: 2 records are sealed with key A, and the configuration no longer has it. The keys in use stay as they are. Put the key back, and give the command again"]).await;
    check(Ok(ring("CA")), &expect!["key-missing: 10 records are sealed with key B, and the configuration no longer has it. The keys in use stay as they are. Put the key back, and give the command again"]).await;
    check(Ok(ring_of(&[same("C"), same("B"), other("A")])), &expect!["key-missing: key A has other bytes in the configuration than in the store, and records are sealed with it. The keys in use stay as they are"]).await;
    check(Ok(ring_of(&[same("C"), other("B"), same("A")])), &expect!["key-missing: key B has other bytes in the configuration than in the store, and records are sealed with it. The keys in use stay as they are"]).await;
    check(
        Err("line 3: that is no key".to_owned()),
        &expect![[r#"
        bad-keys: line 3: that is no key
        The keys in use stay as they are."#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_free_name_may_get_other_bytes_and_a_free_key_may_go() {
    let store = filled("A", DOMAINS).await;
    Bench::start(&store, "BA").await.reaches(State::Settled).await;
    let other = ("A".to_owned(), Secret::new(b"other bytes".to_vec()));
    let bench = Bench::with_later(
        &store,
        "BA",
        Ok(ring_of(&[other, ("B".to_owned(), Secret::new(b"the bytes of B".to_vec()))])),
    )
    .await;
    bench.ask(KeyAsk::Rotate { keep_missing: false }).await.unwrap();
    bench.reaches(State::Settled).await;
    expect!["marker A; A needed, B free"].assert_eq(&summary(&bench.ledger().await));
    assert_eq!(bench.ledger().await.entries["A"].writes, DOMAINS as u64, "the count is that of the new bytes");
    drop(bench);
    let store = filled("A", DOMAINS).await;
    let bench = Bench::with_later(&store, "AB", Ok(ring("A"))).await;
    let writes = store.writes();
    let did = bench.ask(KeyAsk::Rotate { keep_missing: false }).await.unwrap();
    assert_eq!(did.message, "all records are under key A already; there is nothing to do");
    assert_eq!((store.writes(), bench.vault.keyring().has("B")), (writes, false));
}

#[tokio::test(start_paused = true)]
async fn a_free_key_that_becomes_active_again_is_needed_before_it_seals() {
    let store = filled("A", DOMAINS).await;
    Bench::start(&store, "BA").await.reaches(State::Settled).await;
    expect!["marker B; A free, B needed"].assert_eq(&summary(&read_ledger(&store).await.unwrap()));
    let bench = Bench::start(&store, "AB").await;
    assert_eq!(bench.seals(), 0);
    expect!["marker absent; A needed, B needed"].assert_eq(&summary(&bench.ledger().await));
    settles(&bench, &expect!["marker A; A needed, B free; A: 12 records, active; B: 0 records, safe to remove"]).await;
    assert_eq!(bench.ledger().await.entries["A"].writes, 2 * DOMAINS as u64, "the same bytes, so the same count");
}

/// The marker lies: somebody wrote to the store without a server.
#[tokio::test(start_paused = true)]
async fn a_marker_that_lies_is_taken_away_before_anything_else() {
    let (_, key, plain) = domain(3);
    for stray in [plain.clone(), sealed("A", &key, &plain), sealed("D", &key, &plain)] {
        let store = filled("B", DOMAINS).await;
        tamper(&store, |step| step.put(key.clone(), stray.clone())).await;
        let store = store.copy();
        let bench = Bench::start(&store, "BAD").await;
        assert_eq!(store.writes(), 1, "one write, before anything is sealed");
        assert_eq!(store.get(MARKER_KEY).await.unwrap(), None);
        assert_eq!(store.get(&key).await.unwrap(), Some(stray));
        bench.reaches(State::Settled).await;
        check(&store, "settled").await;
        assert_eq!(bench.opened(&key).await, Some(plain.clone()));
        assert_eq!(census(&store).await.into_iter().collect::<Vec<_>>(), [("B".to_owned(), DOMAINS as u64)]);
    }
}

/// At every write in turn, the store has no room for a while.
#[tokio::test(start_paused = true)]
async fn a_full_disk_is_waited_out() {
    let full = |store: &Memory, write| {
        store.fail_before_with(write, StoreError::NoSpace { doing: "test".into() });
    };
    let store = filled("A", DOMAINS).await;
    let bench = Bench::start(&store, "BA").await;
    bench.reaches(State::Settled).await;
    let writes = store.writes();
    drop(bench);
    assert!(writes > 3, "{writes}");
    for write in 2..=writes {
        let store = filled("A", DOMAINS).await;
        // Twice in a row.
        full(&store, write);
        full(&store, write + 1);
        let bench = Bench::start(&store, "BA").await;
        bench.reaches(State::Settled).await;
        check(&store, "settled").await;
        assert_eq!(bench.ledger().await.marker.as_deref(), Some("B"), "write {write}");
        assert_eq!(census(&store).await["B"], DOMAINS as u64);
    }
}

/// While the engine looks for what is left to do, and while it proves that nothing is.
#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_read_for_a_while_is_waited_out() {
    for state in [State::Rotating, State::Verifying] {
        let store = filled("A", DOMAINS).await;
        let bench = Bench::start(&store, "BA").await;
        bench.reaches(state).await;
        bench.faults.fail_reads(2);
        bench.until(|bench| bench.faults.reads_left() == 0).await;
        assert_eq!(bench.ledger().await.marker, None, "{state:?}");
        bench.reaches(State::Settled).await;
        check(&store, "settled").await;
        assert_eq!(bench.ledger().await.marker.as_deref(), Some("B"), "{state:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_that_the_disk_has_no_room_for_changes_nothing() {
    let store = filled("A", DOMAINS).await;
    let bench = Bench::with_later(&store, "A", Ok(ring("BA"))).await;
    store.fail_before_with(1, StoreError::NoSpace { doing: "test".into() });
    let refused = bench.ask(KeyAsk::Rotate { keep_missing: false }).await.unwrap_err();
    assert_eq!(refused.code, "not-stored");
    assert_eq!((bench.vault.keyring().active().as_str(), bench.tracker.state()), ("A", State::Settled));
    expect!["marker A; A needed"].assert_eq(&summary(&bench.ledger().await));
    bench.ask(KeyAsk::Rotate { keep_missing: false }).await.unwrap();
    bench.reaches(State::Settled).await;
    expect!["marker B; A free, B needed"].assert_eq(&summary(&bench.ledger().await));
}

#[tokio::test(start_paused = true)]
async fn a_look_at_every_record_changes_nothing_and_waits_its_turn() {
    let store = filled("A", DOMAINS).await;
    let bench = Bench::start(&store, "BA").await;
    bench.is_halfway().await;
    assert_eq!(bench.ask(KeyAsk::Verify).await.unwrap_err().code, "rotating");
    bench.reaches(State::Settled).await;
    let before = dump(&store).await;
    bench.ask(KeyAsk::Verify).await.unwrap();
    bench.until(|bench| bench.status().verification.is_some()).await;
    let found = bench.status().verification.unwrap().tally;
    assert_eq!((found.records, found.broken_total, found.keys["B"].records), (DOMAINS as u64, 0, DOMAINS as u64));
    assert!(before == dump(&store).await);
    assert_eq!(bench.tracker.state(), State::Settled);
}
