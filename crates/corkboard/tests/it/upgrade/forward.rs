//! From the former release to the newest one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use store::Version;

use super::load::{Load, stock};
use super::site::{Release, Site};
use super::{QUIETLY, SLOWLY};
use crate::durability::dice::Dice;

const KILLS: usize = 8;
const CALLS_PER_LIFE_MAX: u64 = 60;
const FIRST_PACE_PER_S: u64 = 300;
const KILL_DELAY_MAX_MS: u64 = 1_500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_under_load_and_under_fire_loses_nothing() {
    let mut dice = Dice::from_environment();
    let mut site = Site::new();
    site.start(Release::Former, QUIETLY).await;
    let stock = stock(&site).await;
    let load = Load::start(&site, &mut dice);
    load.more(100).await;
    assert_eq!(site.terminate().await, 0);
    for kill in 0..KILLS {
        // Faster and faster, so that later kills hit the end of a migration and the time after it.
        let pace = FIRST_PACE_PER_S << (kill / 2);
        site.spawn(Release::Newest, &format!("[migration]\nrecords_per_s_max = {pace}\n{QUIETLY}"));
        load.more(1 + dice.below(CALLS_PER_LIFE_MAX)).await;
        tokio::time::sleep(Duration::from_millis(dice.below(KILL_DELAY_MAX_MS))).await;
        site.kill();
    }
    site.start(Release::Newest, SLOWLY).await;
    site.until_state("none").await;
    load.more(50).await;
    let migration = site.ask("migration").await.unwrap();
    assert_eq!(migration["current"]["number"], Version::LATEST.number().0);
    assert_eq!(migration["leftover_roots"], serde_json::json!([]));
    let history = site.history().await;
    println!("{history:?}, {:?}", load.tally);
    assert!(history.contains(&"begun".to_owned()), "{history:?}");
    assert!(history.contains(&"restarted".to_owned()), "no kill met a migration: {history:?}");
    assert!(load.tally.turned_away.load(Ordering::Relaxed) > 0, "clients called while no server was there");
    load.check(&site, &stock).await;
    assert_eq!(site.terminate().await, 0);
}
