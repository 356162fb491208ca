//! Masters are killed in the middle of a migration, and nodes of both releases wait: whoever takes over has everything.

use std::time::Duration;

use store::Version;

use super::fleet::{Fleet, Setup, Way};
use crate::cluster::say;
use crate::upgrade::FORMER;
use crate::upgrade::site::Release;

const KILLS: usize = 5;
/// At another pace, so that they hit the end of a migration and the time after it too.
const LATE_KILLS: usize = 3;
/// A migration at this pace takes longer than anybody lives.
const CRAWLING: &str = "records_per_s_max = 15";
const WALKING: &str = "records_per_s_max = 400";
const DELAY_MAX_MS: u64 = 2_500;
const LATE_DELAY_MAX_MS: u64 = 1_200;
const CALLS_PER_LIFE_MAX: u64 = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_takes_over_in_the_middle_of_a_migration_has_everything() {
    let (former, newest) = (Setup::former(), Setup::newest(CRAWLING));
    let mut fleet = Fleet::start(&former).await;
    let (_, older) = fleet.master_is_of(&newest).await;
    let mut by_former = 0;
    for round in 0..KILLS {
        fleet.crowd.more(1 + fleet.dice.below(CALLS_PER_LIFE_MAX)).await;
        tokio::time::sleep(Duration::from_millis(fleet.dice.below(DELAY_MAX_MS))).await;
        let master = fleet.nodes.master().await;
        // Once at least it is the turn of the older one, and once it is not.
        let newer = fleet.nodes.all().find(|at| *at != older && *at != master).unwrap();
        let held_back = match round {
            1 if master != older => Some(newer),
            _ => None,
        };
        held_back.into_iter().for_each(|at| fleet.nodes.pause(at));
        fleet.nodes.kill(master);
        let next = fleet.nodes.master().await;
        held_back.into_iter().for_each(|at| fleet.nodes.resume(at));
        let release = fleet.nodes.node(next).release;
        let state = fleet.ask("migration").await["state"].clone();
        say(&format!("round {round}: n{next} ({release:?}) took over from n{master}: {state}"));
        // Before the end nothing but the target may have been changed.
        assert_eq!(fleet.versions(), (FORMER.number(), Version::LATEST.number()));
        if release == Release::Former {
            by_former += 1;
            assert_eq!(state, "none", "to the former release there is nothing to migrate");
        }
        let setup = if master == older { &former } else { &newest };
        fleet.set(master, setup);
        fleet.nodes.restart(master);
        fleet.until_taking_part(master).await;
    }
    assert!(by_former > 0, "the former release had its turn");
    fleet.check_stock().await;

    let faster = Setup::newest(WALKING);
    for at in fleet.nodes.all() {
        let way = Way::any(&mut fleet.dice);
        fleet.replace(at, way, &faster).await;
    }
    for _ in 0..LATE_KILLS {
        let master = fleet.nodes.master().await;
        tokio::time::sleep(Duration::from_millis(fleet.dice.below(LATE_DELAY_MAX_MS))).await;
        say(&format!("n{master} is killed at {:?}", fleet.versions()));
        fleet.replace(master, Way::Killed, &faster).await;
    }
    let status = fleet.until_state(&["none"]).await;
    assert_eq!(status["leftover_roots"], serde_json::json!([]), "{status:#}");
    assert_eq!(fleet.versions(), (Version::LATEST.number(), Version::LATEST.number()));
    let history = fleet.history().await;
    assert!(history.contains(&"restarted".to_owned()), "{history:?}");
    fleet.check().await;
}
