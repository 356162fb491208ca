//! Random histories, compared with a plain map.

use std::collections::BTreeMap;

use proptest::prelude::*;
use store::embedded::{Embedded, Options};
use store::{Step, Store};

use crate::files::{records, small};

#[derive(Clone, Debug)]
enum Action {
    Commit(Vec<Vec<(u8, Option<Vec<u8>>)>>),
    Checkpoint,
    Reopen,
}

fn action() -> impl Strategy<Value = Action> {
    let op = (0..12u8, prop::option::weighted(0.7, prop::collection::vec(any::<u8>(), 0..60)));
    let steps = prop::collection::vec(prop::collection::vec(op, 0..5), 1..4);
    prop_oneof![6 => steps.prop_map(Action::Commit), 1 => Just(Action::Checkpoint), 1 => Just(Action::Reopen)]
}

async fn check(actions: Vec<Action>, options: Options) {
    let temporary = tempfile::tempdir().unwrap();
    let open = || Embedded::open(temporary.path(), options.clone()).unwrap();
    let mut store = open();
    let mut held = store.campaign("test").await.unwrap();
    let mut model = BTreeMap::new();
    let mut revision = 0;
    for action in actions {
        match action {
            Action::Commit(group) => {
                let mut steps = Vec::new();
                for ops in group {
                    let mut step = Step::default();
                    for (key, value) in ops {
                        let key = format!("/{key}");
                        match value {
                            Some(value) => {
                                step.put(key.clone(), value.clone());
                                model.insert(key, value);
                            }
                            None => {
                                step.delete(key.clone());
                                model.remove(&key);
                            }
                        }
                    }
                    steps.push(step);
                }
                revision += steps.len() as u64;
                assert_eq!(store.commit(&held, &steps).await.unwrap(), revision);
            }
            Action::Checkpoint => assert_eq!(store.checkpoint().await.unwrap(), revision),
            Action::Reopen => {
                drop(store);
                store = open();
                held = store.campaign("test").await.unwrap();
            }
        }
        assert_eq!(store.revision(), revision);
        assert_eq!(records(&store).await, model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_random_history_ends_as_in_a_map(
        actions in prop::collection::vec(action(), 1..30),
        segment_bytes in 100u64..2_000,
        checkpoint_min_bytes in prop_oneof![Just(1u64), Just(500), Just(u64::MAX)],
    ) {
        let options = Options { segment_bytes, checkpoint_min_bytes, ..small() };
        tokio::runtime::Runtime::new().unwrap().block_on(check(actions, options));
    }
}
