//! Another key is rolled out node by node while a migration runs and masters are killed: nothing is lost, nobody who lacks it
//! takes over, and in the end the old one is free.

use std::time::Duration;

use serde_json::{Value, json};

use super::fleet::{Fleet, Setup, Way};
use crate::upgrade::site::done;

const PACE: &str = "records_per_s_max = 60";
const KILLS: usize = 3;
const CALLS_PER_LIFE_MAX: u64 = 60;
const DELAY_MAX_MS: u64 = 1_500;
/// So many calls are answered in a fraction of a second.
const FEW_CALLS: u64 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_rolled_out_during_a_migration_and_whoever_lacks_it_waits() {
    let newest = Setup::newest(PACE).with_keys("AB", PACE);
    let mut fleet = Fleet::start(&Setup::former()).await;
    fleet.until("keys", &["settled"]).await;
    let (first, lacking) = fleet.master_is_of(&newest).await;
    let second = fleet.nodes.all().find(|at| *at != first && *at != lacking).unwrap();
    let says_so = |card: &Value| card["cannot_take_over"].as_str().is_some_and(|why| why.contains("key B"));
    fleet.until_card(lacking, says_so).await;
    fleet.end(second, Way::Killed).await;

    // Nobody is left who may.
    fleet.crowd.more(1 + fleet.dice.below(CALLS_PER_LIFE_MAX)).await;
    fleet.end(first, Way::Killed).await;
    fleet.goes_on_waiting(lacking).await;
    for at in [first, second] {
        fleet.set(at, &newest);
        fleet.nodes.restart(at);
    }
    for _ in 0..KILLS {
        fleet.crowd.more(1 + fleet.dice.below(CALLS_PER_LIFE_MAX)).await;
        tokio::time::sleep(Duration::from_millis(fleet.dice.below(DELAY_MAX_MS))).await;
        let master = fleet.nodes.master().await;
        assert_ne!(master, lacking, "{}", fleet.nodes.logs());
        fleet.replace(master, Way::Killed, &newest).await;
    }
    assert_eq!(fleet.nodes.epoch(lacking, fleet.nodes.life(lacking)), None, "{}", fleet.nodes.logs());

    // With the key it can.
    fleet.replace(lacking, Way::Stopped, &newest).await;
    for at in [first, second] {
        fleet.end(at, Way::Killed).await;
    }
    assert_eq!(fleet.nodes.master().await, lacking);
    for at in [first, second] {
        fleet.nodes.restart(at);
    }
    let status = fleet.until("keys", &["settled"]).await;
    assert_eq!((&status["marker"], &status["plain_records"]), (&json!("B"), &json!(0)), "{status:#}");
    let old = status["keys"].as_array().unwrap().iter().find(|key| key["name"] == "A").unwrap();
    assert_eq!(old["safe_to_remove"], true, "{status:#}");
    fleet.until_state(&["none"]).await;
    let verified = fleet.run(&["keys", "verify"]).await;
    done(&verified);
    // What it says holds for somebody without the old key.
    let without = Setup::newest("").with_keys("B", "");
    for at in fleet.nodes.all() {
        fleet.replace(at, Way::Stopped, &without).await;
    }
    let asked = fleet.run_on_store(0, &["keys", "status"]);
    assert!(done(&asked).contains("B:"), "{asked:?}");
    fleet.check().await;
}

/// A node looks only now and then whether it still has all keys, and a master that stops hands over in no time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_needed_from_its_first_record_on() {
    let (before, after) = (Setup::newest(""), Setup::newest("").with_keys("AB", PACE));
    let mut fleet = Fleet::start(&before).await;
    fleet.until("keys", &["settled"]).await;
    let (master, first, lacking) = fleet.handed_over(&after).await;
    fleet.crowd.more(FEW_CALLS).await;
    fleet.end(first, Way::Stopped).await;
    fleet.goes_on_waiting(lacking).await;

    for at in [first, master] {
        fleet.set(at, &after);
        fleet.nodes.restart(at);
    }
    assert_ne!(fleet.nodes.master().await, lacking);
    fleet.check().await;
}
