//! From the former release to the newest one, node by node, under load.

use std::time::Duration;

use store::Version;
use tokio::time::Instant;

use super::fleet::{Fleet, Setup, Way};
use crate::cluster::say;
use crate::upgrade::FORMER;
use crate::upgrade::site::LOOK_AGAIN;

/// Slow enough that the clients and whoever waits see the migration for a while.
const SLOWLY: &str = "records_per_s_max = 100";
const CALLS_BETWEEN: u64 = 60;
const FAILOVERS: usize = 4;
/// How soon a node says that it cannot take over any more.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_goes_node_by_node_and_whoever_is_older_waits() {
    let newest = Setup::newest(SLOWLY);
    let mut fleet = Fleet::start(&Setup::former()).await;
    let (first, last) = fleet.master_is_of(&newest).await;
    let history = fleet.history().await;
    assert!(history.contains(&"begun".to_owned()), "{history:?}");

    // The older one could still take over, and says nothing else.
    let (current, _) = fleet.versions();
    let card = fleet.until_card(last, |_| true).await;
    let still = fleet.versions().0;
    assert!(current != FORMER.number() || still != FORMER.number() || card["cannot_take_over"].is_null(), "{card:#}");
    fleet.until_state(&["none"]).await;
    let finalized = Instant::now();
    assert_eq!(fleet.versions(), (Version::LATEST.number(), Version::LATEST.number()));
    let card = fleet.until_card(last, |card| card["cannot_take_over"].is_string()).await;
    say(&format!("n{last} said {:?} after the end: {}", finalized.elapsed(), card["cannot_take_over"]));
    assert!(finalized.elapsed() < TOLD_WITHIN);
    assert!(card["cannot_take_over"].as_str().unwrap().contains("The data is newer than this server"), "{card:#}");

    for round in 0..FAILOVERS {
        fleet.crowd.more(CALLS_BETWEEN).await;
        let master = fleet.nodes.master().await;
        assert_ne!(master, last, "the older release took over\n{}", fleet.nodes.logs());
        fleet.replace(master, if round % 2 == 0 { Way::Killed } else { Way::Stopped }, &newest).await;
    }
    assert_eq!(fleet.nodes.epoch(last, fleet.nodes.life(last)), None, "{}", fleet.nodes.logs());
    fleet.replace(last, Way::Stopped, &newest).await;
    let card = fleet.until_card(last, |card| card["is_warm"] == true).await;
    assert!(card["cannot_take_over"].is_null(), "{card:#}");

    // Now it can.
    for at in fleet.nodes.all().filter(|at| *at != last) {
        fleet.end(at, Way::Stopped).await;
    }
    assert_eq!(fleet.nodes.master().await, last);
    fleet.crowd.more(CALLS_BETWEEN).await;
    fleet.nodes.all().filter(|at| *at != last).for_each(|at| fleet.nodes.restart(at));
    say(&format!("n{first} migrated: {:?}", fleet.history().await));
    fleet.check().await;
}

/// A node looks only now and then which data version there is, and a master that stops hands over in no time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_the_end_of_a_migration_on_the_former_release_waits() {
    let newest = Setup::newest("");
    let mut fleet = Fleet::start(&Setup::former()).await;
    let (master, first, older) = fleet.handed_over(&newest).await;
    while fleet.versions().0 != Version::LATEST.number() {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    fleet.end(first, Way::Stopped).await;
    fleet.goes_on_waiting(older).await;

    for at in [first, master] {
        fleet.set(at, &newest);
        fleet.nodes.restart(at);
    }
    assert_ne!(fleet.nodes.master().await, older);
    fleet.until_state(&["none"]).await;
    fleet.check().await;
}
