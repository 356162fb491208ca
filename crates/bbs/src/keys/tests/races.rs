//! A batch was read, and before it is stored something else happens to its records. Nothing comes back from the dead, and
//! nothing newer is written over.

use bytes::Bytes;
use store::seal::envelope::key_name;
use store::{Op, Step, Store, Version};

use super::bench::{Bench, domain, filled, summary};
use crate::commands::{Command, UpsertDomain};
use crate::keys::{State, Tally};
use crate::migrate::tests::seals::census;
use crate::writer::errand::{Control, Rewrite, Seen};

const DOMAINS: usize = 5;

/// What happens to the record of the first domain.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    ClientChanges,
    Deleted,
    CleanedUp,
}

/// When it does.
#[derive(Clone, Copy, Debug)]
enum When {
    /// In a group of its own, which is durable before the batch arrives.
    GroupBefore,
    /// In the same group, before the batch.
    SameGroupBefore,
    /// In the same group, after the batch.
    SameGroupAfter,
}

/// All records as they are, sealed again, as the engine hands them to the writer.
async fn batch(bench: &Bench) -> Vec<Op> {
    let page = bench.store.scan(Version::LATEST.root(), None, usize::MAX).await.unwrap();
    let seal = |(key, value): (String, Bytes)| {
        let value = bench.vault.reseal(&key, &value).unwrap().expect("it is under another key");
        Op::Put { key, value }
    };
    page.records.into_iter().map(seal).collect()
}

async fn happen(bench: &Bench, what: Meanwhile) {
    let (name, key, _) = domain(0);
    match what {
        Meanwhile::ClientChanges => {
            let command = Command::UpsertDomain(UpsertDomain { name, ttl_s: 900 });
            bench.writer.submit(command, "trace".into()).await.map(|_| ()).unwrap();
        }
        // As an operator gives up a record.
        Meanwhile::Deleted => {
            let mut step = Step::default();
            step.delete(key);
            bench.writer.control(Control { steps: vec![step], ..Control::default() }).await.unwrap();
        }
        // As a migration takes away a root.
        Meanwhile::CleanedUp => {
            let delete = Rewrite { seen: Seen::Nothing, form: Version::LATEST, ops: vec![Op::Delete { key }] };
            bench.writer.rewrite(vec![delete]).await.unwrap();
        }
    }
}

async fn check(what: Meanwhile, when: When) {
    let case = format!("{what:?} {when:?}");
    let store = filled("A", DOMAINS).await;
    let bench = Bench::start(&store, "BA").await;
    let (_, key, before) = domain(0);
    let sealed = batch(&bench).await;
    let writes = store.writes();
    let reseal = async || bench.writer.reseal(sealed.clone()).await.unwrap();
    // Both are in the queue before the writer is polled, in this order; so they are one group.
    match when {
        When::GroupBefore => {
            happen(&bench, what).await;
            reseal().await;
        }
        When::SameGroupBefore => drop(tokio::join!(biased; happen(&bench, what), reseal())),
        When::SameGroupAfter => drop(tokio::join!(biased; reseal(), happen(&bench, what))),
    }
    assert_eq!(store.writes(), writes + 2, "{case}: a step for each");
    let found = bench.opened(&key).await;
    match what {
        Meanwhile::ClientChanges => {
            assert!(found.is_some_and(|found| found != before), "{case}: the change of a client is written over");
            let raw = store.get(&key).await.unwrap().unwrap();
            assert_eq!(key_name(&raw), Some("B"), "{case}");
        }
        Meanwhile::Deleted | Meanwhile::CleanedUp => assert_eq!(found, None, "{case}: it is back from the dead"),
    }
    let others = DOMAINS as u64 - u64::from(!matches!(what, Meanwhile::ClientChanges));
    assert_eq!(census(&store).await.into_iter().collect::<Vec<_>>(), [("B".to_owned(), others)], "{case}");
    assert_eq!(bench.vault.stale(), 0, "{case}: the count agrees");
    assert_eq!(bench.vault.census().total(), others, "{case}");
    bench.reaches(State::Settled).await;
}

#[tokio::test(start_paused = true)]
async fn what_happened_since_a_batch_was_read_stays_as_it_is() {
    use Meanwhile::{CleanedUp, ClientChanges, Deleted};
    use When::{GroupBefore, SameGroupAfter, SameGroupBefore};
    for when in [GroupBefore, SameGroupBefore, SameGroupAfter] {
        check(ClientChanges, when).await;
        check(CleanedUp, when).await;
    }
    // An operator's word has a commit of its own in any case.
    check(Deleted, GroupBefore).await;
    check(Deleted, SameGroupBefore).await;
}

/// Every record was opened under the active key; then one came up that is not, before the marker is written.
#[tokio::test(start_paused = true)]
async fn a_proof_that_is_out_of_date_is_not_written_down() {
    let store = filled("A", 2 * DOMAINS).await;
    let bench = Bench::start(&store, "BA").await;
    let mut engine = bench.another_engine();
    assert!(!engine.finish(&Tally::default()).await.unwrap());
    assert!(bench.vault.stale() > 0);
    assert_eq!(summary(&bench.ledger().await), "marker absent; A needed, B needed");
    bench.reaches(State::Settled).await;
    assert!(engine.finish(&Tally::default()).await.unwrap());
    assert_eq!(summary(&bench.ledger().await), "marker B; A free, B needed");
}
