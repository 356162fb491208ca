//! Two releases with different active keys on one store: a migration and a rotation do not know of each other.

use std::time::Duration;

use store::Version;

use super::audit::Audit;
use super::keys::{site, table, until_settled, until_under_way};
use super::{CRAWLING_PER_S, UNLIMITED, WALKING_PER_S};
use crate::durability::dice::Dice;
use crate::upgrade::load::{Load, stock};
use crate::upgrade::site::{Release, done};
use crate::upgrade::{FORMER, MANUALLY, QUIETLY};

/// At these paces the newest release is killed on its way to both forms and another key.
const PACES_PER_S: [u32; 3] = [CRAWLING_PER_S, WALKING_PER_S, WALKING_PER_S];
const CALLS_PER_LIFE_MAX: u64 = 30;
const KILL_DELAY_MAX_MS: u64 = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_and_a_rotation_go_together_forth_and_back_and_forth() {
    let mut dice = Dice::from_environment();
    let mut site = site();
    let former = |pace: u32| format!("{QUIETLY}\n{}", table("A", "AB", pace));
    let newest = |pace: u32| format!("{MANUALLY}\n{}", table("B", "AB", pace));
    site.start(Release::Former, &former(UNLIMITED)).await;
    let stock = stock(&site).await;
    let load = Load::start(&site, &mut dice);
    load.more(60).await;
    until_settled(&site, "A").await;
    site.kill();
    Audit::settled(&site, "A").await;

    for pace in PACES_PER_S {
        site.spawn(Release::Newest, &newest(pace));
        load.more(1 + dice.below(CALLS_PER_LIFE_MAX)).await;
        tokio::time::sleep(Duration::from_millis(dice.below(KILL_DELAY_MAX_MS))).await;
        site.kill();
        let audit = Audit::of(&site).await;
        assert!(audit.under("B") > 0, "what was written since is under the new key: {audit:#?}");
    }
    site.start(Release::Newest, &newest(CRAWLING_PER_S)).await;
    site.until_state("ready").await;
    load.more(30).await;
    site.kill();
    let audit = Audit::of(&site).await;
    assert_eq!(audit.roots.len(), 2, "both forms are there: {audit:#?}");

    // The former release takes over and goes back to its own key, with what it does not know of included.
    site.start(Release::Former, &former(CRAWLING_PER_S)).await;
    until_under_way(&site).await;
    load.more(1 + dice.below(CALLS_PER_LIFE_MAX)).await;
    site.kill();
    Audit::unsettled(&site).await;
    site.start(Release::Former, &former(UNLIMITED)).await;
    load.more(30).await;
    until_settled(&site, "A").await;
    assert_eq!(site.state().await, "none");
    site.kill();
    Audit::settled(&site, "A").await;

    site.start(Release::Newest, &newest(WALKING_PER_S)).await;
    site.until_state("ready").await;
    load.more(30).await;
    let finalized = site.run(&["migrate", "finalize", "--yes", "--wait"]);
    assert!(done(&finalized).contains("the older data is gone"), "{finalized:?}");
    until_settled(&site, "B").await;
    load.more(30).await;
    load.check(&site, &stock).await;
    assert_eq!(site.terminate().await, 0);
    let audit = Audit::settled(&site, "B").await;
    assert_eq!(audit.roots.keys().collect::<Vec<_>>(), [&root(Version::LATEST)], "{audit:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_on_drain_does_not_wait_for_a_rotation() {
    let mut dice = Dice::from_environment();
    let mut site = site();
    site.start(Release::Newest, &format!("{QUIETLY}\n{}", table("A", "A", UNLIMITED))).await;
    let stock = stock(&site).await;
    let load = Load::start(&site, &mut dice);
    load.more(30).await;
    until_settled(&site, "A").await;
    assert_eq!(site.terminate().await, 0);
    Audit::settled(&site, "A").await;

    let drain = format!("[migration]\nrollback_on_drain_to_version = \"{}\"\n{QUIETLY}", FORMER.name());
    site.start(Release::Newest, &format!("{drain}\n{}", table("B", "AB", CRAWLING_PER_S))).await;
    until_under_way(&site).await;
    load.more(1 + dice.below(CALLS_PER_LIFE_MAX)).await;
    assert_eq!(site.terminate().await, 0, "{}", site.logged());
    assert_eq!(site.versions().await, (FORMER.number(), FORMER.number()));
    let audit = Audit::unsettled(&site).await;
    assert!(audit.roots.contains_key(&root(FORMER)), "{audit:#?}");

    site.start(Release::Former, &format!("{QUIETLY}\n{}", table("B", "AB", UNLIMITED))).await;
    load.more(30).await;
    until_settled(&site, "B").await;
    load.check(&site, &stock).await;
    assert_eq!(site.terminate().await, 0);
    Audit::settled(&site, "B").await;
}

fn root(version: Version) -> String {
    version.root().trim_matches('/').to_owned()
}
