//! Both forms are kept until an operator says so, and nodes of both releases take turns meanwhile.

use store::Version;

use super::fleet::{Fleet, Setup, Way};
use crate::cluster::say;
use crate::upgrade::FORMER;
use crate::upgrade::site::{Release, done};

const TURNS: usize = 6;
const CALLS_PER_TURN_MAX: u64 = 80;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_finalization_the_releases_take_turns_on_three_nodes() {
    let (former, newest) = (Setup::former(), Setup::newest("finalization = \"manual\""));
    let mut fleet = Fleet::start(&former).await;
    fleet.master_is_of(&newest).await;
    for turn in 0..TURNS {
        fleet.crowd.more(1 + fleet.dice.below(CALLS_PER_TURN_MAX)).await;
        let master = fleet.nodes.master().await;
        let release = fleet.nodes.node(master).release;
        if release == Release::Newest {
            fleet.until_state(&["ready"]).await;
        } else {
            assert_eq!(fleet.ask("migration").await["state"], "none");
        }
        say(&format!("turn {turn}: n{master} ({release:?})"));
        assert_eq!(fleet.versions(), (FORMER.number(), Version::LATEST.number()));
        // Whoever leaves comes back as the other release, so that both are there all the time.
        let other = if release == Release::Newest { &former } else { &newest };
        let way = Way::any(&mut fleet.dice);
        fleet.replace(master, way, other).await;
    }
    for at in fleet.nodes.all() {
        let way = Way::any(&mut fleet.dice);
        fleet.replace(at, way, &newest).await;
    }
    fleet.until_state(&["ready"]).await;
    fleet.crowd.more(CALLS_PER_TURN_MAX).await;
    let finalized = fleet.run(&["migrate", "finalize", "--yes", "--wait"]).await;
    assert!(done(&finalized).contains("the older data is gone"), "{finalized:?}");
    assert_eq!(fleet.versions(), (Version::LATEST.number(), Version::LATEST.number()));
    fleet.until_state(&["none"]).await;
    fleet.check().await;
}
