//! Ways back: before finalization by starting the former release, after it by rolling back.

use std::time::Duration;

use store::Version;

use super::load::{Load, stock};
use super::site::{Release, Site, done};
use super::{FORMER, MANUALLY, QUIETLY, SLOWLY};
use crate::durability::dice::Dice;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_finalization_the_releases_take_turns() {
    let mut dice = Dice::from_environment();
    let mut site = Site::new();
    site.start(Release::Former, QUIETLY).await;
    let stock = stock(&site).await;
    let load = Load::start(&site, &mut dice);
    load.more(60).await;
    site.terminate().await;

    site.start(Release::Newest, MANUALLY).await;
    site.until_state("ready").await;
    load.more(60).await;
    refuses_what_the_older_version_cannot_hold(&site).await;
    load.more(dice.below(30)).await;
    site.kill();

    site.start(Release::Former, QUIETLY).await;
    load.more(60).await;
    assert_eq!(site.state().await, "none", "to the former release there is nothing to migrate");
    site.terminate().await;

    site.start(Release::Newest, MANUALLY).await;
    site.until_state("ready").await;
    load.more(60).await;
    let finalized = site.run(&["migrate", "finalize", "--yes", "--wait"]);
    assert!(done(&finalized).contains("the older data is gone"), "{finalized:?}");
    assert_eq!(site.state().await, "none");
    accepts_a_new_definition(&site);
    load.more(30).await;
    done(&site.run(&["delete-desired-lrp", "gate"]));
    load.check(&site, &stock).await;
}

const NEW_DEFINITION: &str = r#"{"desired_lrp":{"rootfs":"preloaded:cflinuxfs4","action":{"run":{"path":"/bin/new","user":"vcap"}},"metric_tags":{"source_id":{"static":"gate"}}},"update_identifier":"v2"}"#;

async fn refuses_what_the_older_version_cannot_hold(site: &Site) {
    let lrp = r#"{"process_guid":"gate","domain":"apps","rootfs":"preloaded:cflinuxfs4","instances":0,"action":{"run":{"path":"/bin/old","user":"vcap"}},"metric_tags":{"source_id":{"static":"gate"}}}"#;
    done(&site.run(&["create-desired-lrp", lrp]));
    let before = site.run(&["desired-lrp", "gate", "--json"]);
    let refused = site.run(&["update-desired-lrp", "gate", NEW_DEFINITION]);
    assert_eq!(refused.code, 4, "{refused:?}");
    let latest = Version::LATEST;
    for said in [latest.number().to_string().as_str(), latest.name(), "corkboard migrate finalize"] {
        assert!(refused.stderr.contains(said), "{said} is missing: {}", refused.stderr);
    }
    assert_eq!(done(&site.run(&["desired-lrp", "gate", "--json"])), done(&before), "nothing was changed");
}

fn accepts_a_new_definition(site: &Site) {
    done(&site.run(&["update-desired-lrp", "gate", NEW_DEFINITION]));
    assert!(done(&site.run(&["desired-lrp", "gate", "--json"])).contains("/bin/new"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_finalization_a_rollback_leaves_everything_to_the_former_release() {
    let mut dice = Dice::from_environment();
    let mut site = Site::new();
    site.start(Release::Newest, QUIETLY).await;
    let stock = stock(&site).await;
    let load = Load::start(&site, &mut dice);
    load.more(60).await;

    site.leave();
    let asked = site.run(&["migrate", "rollback", "--to", FORMER.name(), "--yes"]);
    assert!(done(&asked).contains("rolling back"), "{asked:?}");
    assert_eq!(site.ended().await, 0, "{}", site.logged());
    let status = site.run_on_store(&["migrate", "status", "--json"]);
    assert!(status.stdout.contains(&format!(r#""current":{{"number":{}"#, FORMER.number())), "{status:?}");

    site.start(Release::Former, QUIETLY).await;
    load.more(60).await;
    site.terminate().await;

    // The newest release does not undo it by itself.
    let drain = format!("[migration]\nrollback_on_drain_to_version = \"{}\"\n{QUIETLY}", FORMER.name());
    site.start(Release::Newest, &drain).await;
    assert_eq!(site.state().await, "held");
    load.more(30).await;
    assert_eq!(site.state().await, "held");
    done(&site.run(&["migrate", "start"]));
    site.until_state("none").await;
    load.more(30).await;

    // The same on the way out.
    assert_eq!(site.terminate().await, 0, "{}", site.logged());
    site.start(Release::Former, QUIETLY).await;
    load.more(30).await;
    load.check(&site, &stock).await;
}

const KILLS: usize = 3;
/// Less than a rollback takes at that pace.
const KILL_DELAY_MAX_MS: u64 = 600;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_that_is_killed_has_not_happened() {
    let mut dice = Dice::from_environment();
    let mut site = Site::new();
    site.start(Release::Newest, SLOWLY).await;
    let stock = stock(&site).await;
    let load = Load::start(&site, &mut dice);
    for _ in 0..KILLS {
        load.more(1 + dice.below(40)).await;
        site.leave();
        done(&site.run(&["migrate", "rollback", "--to", FORMER.name(), "--yes"]));
        tokio::time::sleep(Duration::from_millis(dice.below(KILL_DELAY_MAX_MS))).await;
        site.kill();
        site.start(Release::Newest, SLOWLY).await;
    }
    site.until_state("none").await;
    load.more(30).await;
    let history = site.history().await;
    assert_eq!(history.iter().filter(|what| *what == "rollback_begun").count(), KILLS, "{history:?}");
    assert!(!history.contains(&"rolled_back".to_owned()), "{history:?}");
    load.check(&site, &stock).await;
    site.terminate().await;
    assert_eq!(site.versions().await, (Version::LATEST.number(), Version::LATEST.number()));
}
