//! A rotation before anybody is served: clients are told why they wait, and who is answered is answered under the new key.

use std::sync::atomic::Ordering;

use api::client::ClientError;

use super::audit::Audit;
use super::keys::{self, site, table, until_settled};
use super::{CRAWLING_PER_S, UNLIMITED, WALKING_PER_S};
use crate::durability::dice::Dice;
use crate::upgrade::QUIETLY;
use crate::upgrade::load::{Load, stock};
use crate::upgrade::site::{LOOK_AGAIN, PATIENCE, Release, Site};

fn offline(active: &str, names: &str, pace: u32) -> String {
    let table = table(active, names, pace).replace("[encryption]", "[encryption]\nmode = \"offline\"");
    format!("{QUIETLY}\n{table}")
}

/// Calls until somebody is told that records are brought under another key.
async fn until_told(site: &Site) {
    let calling = async {
        loop {
            match site.client().ping().await {
                Ok(_) => panic!("nobody is served before all records are under the key"),
                Err(ClientError::Status { status: 503, phase: Some(phase), retry_after_s, body, .. })
                    if phase == "reencrypting" =>
                {
                    assert!(retry_after_s.is_some() && body.contains(r#""phase":"reencrypting""#), "{body}");
                    break;
                }
                Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    };
    assert!(tokio::time::timeout(PATIENCE, calling).await.is_ok(), "nobody was told: {}", site.logged());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offline_nobody_is_served_until_all_records_are_under_the_key() {
    let mut dice = Dice::from_environment();
    let mut site = site();
    site.start(Release::Newest, QUIETLY).await;
    let stock = stock(&site).await;
    let load = Load::start(&site, &mut dice);
    load.more(30).await;
    assert_eq!(site.terminate().await, 0);
    Audit::plain(&site).await;

    // From none to A, and from A to B, each killed in the middle.
    for (active, names) in [("A", "A"), ("B", "AB")] {
        let acknowledged = load.tally.acknowledged.load(Ordering::Relaxed);
        site.spawn(Release::Newest, &offline(active, names, CRAWLING_PER_S));
        until_told(&site).await;
        tokio::time::sleep(std::time::Duration::from_millis(dice.below(1_000))).await;
        site.kill();
        let audit = Audit::unsettled(&site).await;
        assert!(audit.records.len() == 2 || audit.under(active) == 0, "{audit:#?}");
        assert_eq!(load.tally.acknowledged.load(Ordering::Relaxed), acknowledged, "nobody was served");

        site.spawn(Release::Newest, &offline(active, names, WALKING_PER_S));
        until_told(&site).await;
        site.until_served().await;
        let status = keys::status(&site).await;
        assert_eq!((&status["state"], &status["marker"]), (&"settled".into(), &active.into()), "{status:#}");
        load.more(30).await;
        site.kill();
        Audit::settled(&site, active).await;
    }

    site.start(Release::Newest, &offline("B", "B", UNLIMITED)).await;
    until_settled(&site, "B").await;
    load.more(30).await;
    load.check(&site, &stock).await;
    assert_eq!(site.terminate().await, 0);
    Audit::settled(&site, "B").await;
}
