//! Records that cannot be opened: they keep the marker away and their keys needed, are named, and stand in the way until an
//! operator has decided about them. Records that can be opened and mean nothing do not.

use bytes::Bytes;
use expect_test::expect;
use store::Store;
use store::seal::envelope::key_name;

use super::bench::{Bench, domain, filled, sealed, summary, tamper};
use crate::keys::{KeyAsk, State};
use crate::migrate::tests::seals::{census, ring};
use crate::migrate::tests::world::dump;
use crate::writer::errand::Control;

const DOMAINS: usize = 6;

fn flipped(value: &Bytes) -> Bytes {
    let mut value = value.to_vec();
    *value.last_mut().unwrap() ^= 1;
    value.into()
}

/// Where the record lies when the node starts.
fn places() -> [String; 2] {
    let (_, key, _) = domain(DOMAINS);
    [key.clone(), format!("/quarantine/{:020}{key}", 7)]
}

/// A value that a node with keys A and B cannot open, and the key that it names.
fn unopenable(place: &str) -> Vec<(&'static str, Bytes, Option<&'static str>)> {
    let (_, _, plain) = domain(DOMAINS);
    let (old, active) = (sealed("A", place, &plain), sealed("B", place, &plain));
    vec![
        ("tampered with under the old key", flipped(&old), Some("A")),
        ("tampered with under the active key", flipped(&active), Some("B")),
        ("cut off under the old key", old.slice(..old.len() - 1), Some("A")),
        ("cut off to its head", active.slice(..9), Some("B")),
        ("of another place", sealed("A", "/v1/domain/elsewhere", &plain), Some("A")),
        ("of a key that nobody knows", sealed("D", place, &plain), Some("D")),
        ("without a name", Bytes::from_static(b"0007 and nothing else"), None),
    ]
}

async fn blocks(place: &str, what: &str, value: Bytes, key: Option<&str>) {
    let case = format!("{place}: {what}");
    let store = filled("A", DOMAINS).await;
    tamper(&store, |step| step.put(place.to_owned(), value.clone())).await;
    let bench = Bench::start(&store, "BA").await;
    for _ in 0..2 {
        bench.reaches(State::Blocked).await;
        assert_eq!(store.get(place).await.unwrap(), Some(value.clone()), "{case}: it is kept byte for byte");
        let ledger = bench.ledger().await;
        assert_eq!(summary(&ledger), "marker absent; A needed, B needed", "{case}");
        let status = bench.status();
        let named: Vec<_> = status.blocked.iter().map(|broken| (broken.id.as_str(), broken.key.as_deref())).collect();
        assert_eq!(named, [(place, key)], "{case}");
        assert!(status.keys.iter().all(|key| !key.safe_to_remove), "{case}: {:?}", status.keys);
        if let Some(line) = status.keys.iter().find(|line| Some(&*line.name) == key && !line.active) {
            assert_eq!(line.blocked_by, [place], "{case}");
            assert!(line.verdict.contains(place), "{case}: {}", line.verdict);
        }
        // An operator who asks again finds it as it was.
        bench.ask(KeyAsk::Rotate { keep_missing: false }).await.unwrap();
    }
    bench.reaches(State::Blocked).await;
    let mut step = store::Step::default();
    step.delete(place);
    bench.writer.control(Control { steps: vec![step], ..Control::default() }).await.unwrap();
    bench.reaches(State::Settled).await;
    assert_eq!(summary(&bench.ledger().await), "marker B; A free, B needed", "{case}");
    assert_eq!(census(&store).await.into_iter().collect::<Vec<_>>(), [("B".to_owned(), DOMAINS as u64)], "{case}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_opened_keeps_the_marker_away_until_it_is_given_up() {
    for place in places() {
        for (what, value, key) in unopenable(&place) {
            Box::pin(blocks(&place, what, value, key)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_opens_what_was_in_the_way() {
    for place in places() {
        let (_, _, plain) = domain(DOMAINS);
        let store = filled("A", DOMAINS).await;
        tamper(&store, |step| step.put(place.clone(), sealed("D", &place, &plain))).await;
        let bench = Bench::with_later(&store, "BA", Ok(ring("BAD"))).await;
        bench.reaches(State::Blocked).await;
        bench.ask(KeyAsk::Rotate { keep_missing: false }).await.unwrap();
        expect!["marker absent; A needed, B needed, D needed"].assert_eq(&summary(&bench.ledger().await));
        bench.reaches(State::Settled).await;
        expect!["marker B; A free, B needed, D free"].assert_eq(&summary(&bench.ledger().await));
        assert_eq!(bench.opened(&place).await, Some(plain), "{place}");
    }
}

/// The engine looks at seals, not at what is sealed.
#[tokio::test(start_paused = true)]
async fn what_can_be_opened_and_means_nothing_is_sealed_again_as_it_is() {
    const GARBAGE: &[u8] = b"\xFFnothing that was ever written";
    for place in places() {
        let store = filled("A", DOMAINS).await;
        tamper(&store, |step| step.put(place.clone(), sealed("A", &place, GARBAGE))).await;
        let bench = Bench::start(&store, "BA").await;
        assert!(bench.board.load().quarantine.contains_key(&place), "{place}: nobody can read it");
        bench.reaches(State::Settled).await;
        let raw = store.get(&place).await.unwrap().unwrap();
        assert_eq!(key_name(&raw), Some("B"), "{place}");
        assert_eq!(bench.opened(&place).await.as_deref(), Some(GARBAGE), "{place}");
        expect!["marker B; A free, B needed"].assert_eq(&summary(&bench.ledger().await));
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_at_every_record_names_what_cannot_be_opened() {
    let [place, _] = places();
    let (_, _, plain) = domain(DOMAINS);
    let store = filled("A", DOMAINS).await;
    tamper(&store, |step| step.put(place.clone(), flipped(&sealed("A", &place, &plain)))).await;
    let bench = Bench::start(&store, "BA").await;
    bench.reaches(State::Blocked).await;
    let before = dump(&store).await;
    bench.ask(KeyAsk::Verify).await.unwrap();
    bench.until(|bench| bench.status().verification.is_some()).await;
    assert!(before == dump(&store).await);
    let status = bench.status();
    let found = status.verification.unwrap().tally;
    assert_eq!((found.records, found.broken_total, found.broken[0].id.as_str()), (DOMAINS as u64 + 1, 1, &*place));
    assert_eq!((status.state, status.blocked[0].id.as_str()), (State::Blocked, &*place), "it still stands in the way");
}

/// A record of an unknown key lies in place. The key is added, the rotation ends, the key is called safe to remove; then a
/// client needs the place.
#[tokio::test(start_paused = true)]
async fn what_is_moved_aside_later_is_under_the_active_key() {
    let [place, _] = places();
    let (_, _, plain) = domain(DOMAINS);
    let store = filled("A", DOMAINS).await;
    tamper(&store, |step| step.put(place.clone(), sealed("D", &place, &plain))).await;
    let bench = Bench::with_later(&store, "BA", Ok(ring("BAD"))).await;
    bench.reaches(State::Blocked).await;
    bench.ask(KeyAsk::Rotate { keep_missing: false }).await.unwrap();
    bench.reaches(State::Settled).await;
    assert!(bench.status().keys.iter().any(|key| key.name == "D" && key.safe_to_remove));
    bench.upsert(DOMAINS, 900).await;
    crate::migrate::tests::seals::check(&store, "a client took the place").await;
}

#[tokio::test(start_paused = true)]
async fn the_count_of_seals_never_goes_back() {
    let store = filled("B", DOMAINS).await;
    let bench = Bench::start(&store, "B").await;
    let mut step = store::Step::default();
    bench.vault.finish(&mut step);
    bench.upsert(0, 900).await;
    let before = bench.ledger().await.entries["B"].writes;
    bench.writer.control(Control { steps: vec![step], ..Control::default() }).await.unwrap();
    assert_eq!(before, bench.ledger().await.entries["B"].writes);
}

/// Somebody writes to the disk below a server that has called a key free: nobody may remove the key because of that word.
#[tokio::test(start_paused = true)]
async fn a_record_that_was_slipped_in_takes_the_word_back() {
    for (value, key) in [(sealed("A", &places()[0], b"{}"), Some("A")), (Bytes::from_static(b"{}"), None)] {
        let [place, _] = places();
        let store = filled("A", DOMAINS).await;
        let bench = Bench::start(&store, "BA").await;
        bench.reaches(State::Settled).await;
        expect!["marker B; A free, B needed"].assert_eq(&summary(&bench.ledger().await));
        store.slip_in(place.clone(), value);
        bench.ask(KeyAsk::Verify).await.unwrap();
        bench.reaches(State::Blocked).await;
        let status = bench.status();
        assert_eq!(status.marker, None);
        assert!(status.keys.iter().all(|key| !key.safe_to_remove), "{:?}", status.keys);
        let named: Vec<_> = status.blocked.iter().map(|broken| (broken.id.as_str(), broken.key.as_deref())).collect();
        assert_eq!(named, [(&*place, key)]);
        drop(bench);
        // The next start counts again and knows of it.
        let bench = Bench::start(&store, "BA").await;
        bench.reaches(State::Settled).await;
        expect!["marker B; A free, B needed"].assert_eq(&summary(&bench.ledger().await));
    }
}

/// Nobody reads the roots that are not served. What cannot be opened there is found by the rotation, and an operator finds it
/// where all such records are.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_opened_in_another_root_is_named_in_quarantine() {
    const PLACE: &str = "/v1442529338/task/t";
    let store = filled("A", DOMAINS).await;
    let damaged = flipped(&sealed("A", PLACE, b"anything"));
    tamper(&store, |step| step.put(PLACE, damaged.clone())).await;
    let bench = Bench::start(&store, "BA").await;
    assert!(bench.board.load().quarantine.is_empty());
    bench.reaches(State::Blocked).await;
    let board = bench.board.load_full();
    assert_eq!(board.quarantine.get(PLACE).map(|kept| kept.bytes.clone()), Some(damaged));
    let mut step = store::Step::default();
    step.delete(PLACE);
    bench.writer.control(Control { steps: vec![step], ..Control::default() }).await.unwrap();
    bench.reaches(State::Settled).await;
}
