//! The vault over the store in memory: what is sealed, what is counted, what comes up when it cannot be opened.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::memory::Memory;
use crate::seal::ledger::{Finding, judge, read_ledger};
use crate::seal::{KeyName, Secret};

#[derive(Debug, Default)]
struct Counted(AtomicU64);

impl Stamps for Counted {
    fn stamp(&self) -> Stamp {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        Stamp { sealed_ns: i64::try_from(number).unwrap() * 1_000_000_000, nonce }
    }
}

fn ring(keys: &[&str]) -> Arc<Keyring> {
    let name = |text: &str| KeyName::parse(text).unwrap();
    let key = |key: &&str| (name(key), Secret::new(format!("bytes of {key}").into_bytes()));
    Arc::new(Keyring::new(keys.iter().map(key).collect(), &name(keys[0])).unwrap())
}

async fn vault(store: &Memory, keys: &[&str]) -> Vault {
    let ledger = read_ledger(store).await.unwrap();
    Vault::new(Arc::new(store.clone()), ring(keys), ledger, Arc::new(Counted::default()))
}

async fn begun(store: &Memory, keys: &[&str]) -> (Vault, Mastership) {
    let vault = vault(store, keys).await;
    let held = vault.campaign("n").await.unwrap();
    let mut step = Step::default();
    vault.begin(&mut step, &vault.keyring(), 7);
    vault.commit(&held, &[step]).await.unwrap();
    (vault, held)
}

fn put(records: &[(&str, &str)]) -> Step {
    let mut step = Step::default();
    records.iter().for_each(|(key, value)| step.put(*key, value.to_string()));
    step
}

#[tokio::test]
async fn records_are_sealed_below_and_plain_above_and_the_root_is_plain_in_both() {
    let store = Memory::new();
    let (vault, held) = begun(&store, &["A"]).await;
    vault.commit(&held, &[put(&[("/v1/task/t", "{secret}"), ("/version", "{}")])]).await.unwrap();
    let below = store.get("/v1/task/t").await.unwrap().unwrap();
    assert!(below.starts_with(b"0007A:") && !below.windows(8).any(|window| window == b"{secret}"));
    assert_eq!(store.get("/version").await.unwrap().unwrap(), "{}");
    assert_eq!(vault.get("/v1/task/t").await.unwrap().unwrap(), "{secret}");
    let page = vault.scan("/v", None, 10).await.unwrap();
    assert_eq!(page.records, [("/v1/task/t".to_owned(), "{secret}".into()), ("/version".to_owned(), "{}".into())]);
}

#[tokio::test]
async fn the_ledger_counts_every_seal_and_forgets_none_over_a_restart() {
    let store = Memory::new();
    let (one, held) = begun(&store, &["A"]).await;
    for _ in 0..3 {
        one.commit(&held, &[put(&[("/v1/a", "{}"), ("/v1/b", "{}")])]).await.unwrap();
    }
    assert_eq!(one.ledger().entries["A"].writes, 6);
    drop((one, held));
    let other = vault(&store, &["A"]).await;
    assert_eq!(other.ledger().entries["A"].writes, 6);
    let held = other.campaign("n").await.unwrap();
    other.commit(&held, &[put(&[("/v1/a", "{}")])]).await.unwrap();
    assert_eq!(read_ledger(&store).await.unwrap().entries["A"].writes, 7);
    other.commit(&held, &[put(&[("/version", "{}")])]).await.unwrap();
    assert_eq!(other.ledger().entries["A"].writes, 7, "the root is not sealed");
}

#[tokio::test]
async fn a_full_step_leaves_the_number_to_the_next_commit() {
    let store = Memory::new();
    let (vault, held) = begun(&store, &["A"]).await;
    let mut full = Step::default();
    (0..STORED_OPS_MAX).for_each(|n| full.put(format!("/v1/{n}"), "{}"));
    vault.commit(&held, &[full]).await.unwrap();
    assert_eq!(read_ledger(&store).await.unwrap().entries["A"].writes, 0);
    vault.commit(&held, &[put(&[("/v1/a", "{}")])]).await.unwrap();
    assert_eq!(read_ledger(&store).await.unwrap().entries["A"].writes, STORED_OPS_MAX as u64 + 1);
}

#[tokio::test]
async fn a_rotation_from_plain_to_sealed_to_the_next_key() {
    let store = Memory::new();
    let held = store.campaign("n").await.unwrap();
    store.commit(&held, &[put(&[("/v1/a", "{a}"), ("/v1/b", "{b}")])]).await.unwrap();
    store.resign(held).await.unwrap();
    for (keys, before) in [(vec!["A"], None), (vec!["B", "A"], Some("A"))] {
        let (vault, held) = begun(&store, &keys).await;
        vault.count_what_is_read();
        vault.scan("/v", None, 10).await.unwrap();
        vault.counted();
        assert_eq!((vault.stale(), vault.ledger().marker), (2, None));
        assert!(vault.counts().contains(&Count {
            key: before.map(ToOwned::to_owned),
            records: 2,
            oldest_ns: before.map(|_| 0)
        }));
        let mut step = Step::default();
        for (key, value) in vault.inner().scan("/v", None, 10).await.unwrap().records {
            assert!(vault.is_stale(&key));
            step.put(key.clone(), vault.reseal(&key, &value).unwrap().unwrap());
        }
        vault.commit(&held, &[step]).await.unwrap();
        assert_eq!(vault.stale(), 0);
        assert_eq!(vault.get("/v1/b").await.unwrap().unwrap(), "{b}", "a sealed value is not sealed twice");
        let mut step = Step::default();
        vault.finish(&mut step);
        vault.commit(&held, &[step]).await.unwrap();
        assert_eq!(vault.ledger().marker.as_deref(), Some(keys[0]));
        assert_eq!(judge(&vault.ledger(), Some(&vault.keyring())), Ok(Finding::Settled));
    }
    let ledger = read_ledger(&store).await.unwrap();
    assert_eq!((ledger.entries["A"].needed, ledger.entries["B"].needed), (false, true));
    assert_eq!((ledger.entries["A"].writes, ledger.entries["B"].writes), (2, 2));
    assert_eq!(judge(&ledger, Some(&ring(&["B"]))), Ok(Finding::Settled));
}

#[tokio::test]
async fn what_cannot_be_opened_comes_up_as_it_lies_there_and_is_explained() {
    let store = Memory::new();
    let (vault, held) = begun(&store, &["A"]).await;
    vault.commit(&held, &[put(&[("/v1/a", "{a}"), ("/v1/b", "{b}")])]).await.unwrap();
    let swapped = store.get("/v1/a").await.unwrap().unwrap();
    let mut step = Step::default();
    step.put("/v1/b", swapped.clone());
    step.put("/v1/c", &b"0007C:"[..]);
    step.put("/v1/d", swapped.slice(..20));
    vault.commit(&held, &[step]).await.unwrap();
    let why = async |key: &str| {
        let value = vault.get(key).await.unwrap().unwrap();
        vault.explain(key, &value)
    };
    assert_eq!(vault.get("/v1/b").await.unwrap().unwrap(), swapped);
    assert_eq!(why("/v1/b").await, Some(Unopened::Damaged { name: "A".into() }));
    assert_eq!(why("/v1/c").await, Some(Unopened::UnknownKey { name: "C".into() }));
    assert_eq!(why("/v1/d").await, Some(Unopened::CutOff { name: "A".into() }));
    assert_eq!(why("/v1/a").await, None);
    assert!(vault.reseal("/v1/c", &Bytes::from_static(b"0007C:")).is_err());
}

#[tokio::test]
async fn what_others_commit_is_opened_and_known_as_if_it_were_ones_own() {
    let store = Memory::new();
    let (master, held) = begun(&store, &["A"]).await;
    master.commit(&held, &[put(&[("/v1/a", "{a}"), ("/v1/b", "{b}")])]).await.unwrap();
    let standby = vault(&store, &["A", "B"]).await;
    standby.count_what_is_read();
    standby.scan("/v", None, 10).await.unwrap();
    standby.counted();

    let aside = "/quarantine/00000000000000000007/v1/d";
    let mut step = put(&[("/v1/a", "{new}"), ("/v1/c", "0007C:"), (aside, "{d}"), ("/version", "{}")]);
    step.delete("/v1/b");
    master.commit(&held, &[step]).await.unwrap();
    let mut done = Step::default();
    master.finish(&mut done);
    done.put("/keys/old", master.ledger().entries["A"].to_json());
    master.commit(&held, &[done]).await.unwrap();
    let below = async |key: &str| store.get(key).await.unwrap().unwrap();
    let put = async |key: &str| Op::Put { key: key.into(), value: below(key).await };
    let mut ops = vec![Op::Delete { key: "/v1/b".into() }];
    for key in ["/v1/a", "/v1/c", aside, "/version", "/encryption-key", "/keys/A", "/keys/old"] {
        ops.push(put(key).await);
    }
    let heard = standby.heard(&Change { revision: 9, ops });
    let value = |key: &str| {
        heard.ops.iter().find_map(|op| match op {
            Op::Put { key: put, value } if put == key => Some(value.clone()),
            _ => None,
        })
    };
    assert_eq!((heard.revision, &heard.ops[0]), (9, &Op::Delete { key: "/v1/b".into() }));
    let values = ["/v1/a", "/v1/c", aside, "/version"].map(|key| value(key).unwrap());
    assert_eq!(values, ["{new}", "0007C:", "{d}", "{}"]);
    let counted = |vault: &Vault| {
        let mut counts: Vec<Count> = vault.counts().into_iter().filter(|count| count.records > 0).collect();
        counts.sort_by(|a, b| a.key.cmp(&b.key));
        counts
    };
    assert_eq!(counted(&standby), counted(&master));
    assert_eq!(standby.ledger(), read_ledger(&store).await.unwrap());

    standby.heard(&Change {
        revision: 10,
        ops: ["/keys/old", "/encryption-key"].map(|key| Op::Delete { key: key.into() }).into(),
    });
    assert_eq!((standby.ledger().marker, standby.ledger().entries.len()), (None, 1));
    standby.learn(read_ledger(&store).await.unwrap());
    assert_eq!(standby.ledger(), read_ledger(&store).await.unwrap(), "what is read anew replaces what was known");
}

#[tokio::test]
async fn what_was_moved_aside_still_opens_there() {
    let store = Memory::new();
    let (vault, held) = begun(&store, &["A"]).await;
    vault.commit(&held, &[put(&[("/v1/a", "{a}")])]).await.unwrap();
    let aside = crate::root::displaced_key(7, "/v1/a");
    let mut step = Step::default();
    step.put(aside.clone(), store.get("/v1/a").await.unwrap().unwrap());
    step.delete("/v1/a");
    vault.commit(&held, &[step, put(&[("/quarantine/00000000000000000008/v1/b", "{b}")])]).await.unwrap();
    assert_eq!(vault.get(&aside).await.unwrap().unwrap(), "{a}");
    assert_eq!(vault.get("/quarantine/00000000000000000008/v1/b").await.unwrap().unwrap(), "{b}");
    assert_eq!(vault.counts()[1].records, 2);
}
