//! A rotation before anybody is served: clients are told why they wait, and who is answered is answered under the new key.

use std::sync::atomic::Ordering;
use std::time::Duration;

use api::client::ClientError;
use serde_json::Value;

use super::audit::Audit;
use super::keys::{self, site, table, until_settled};
use super::{CRAWLING_PER_S, UNLIMITED, WALKING_PER_S};
use crate::durability::dice::Dice;
use crate::upgrade::QUIETLY;
use crate::upgrade::load::{Load, stock};
use crate::upgrade::site::{LOOK_AGAIN, PATIENCE, Release, Site};

const STOP_DELAY_MAX_MS: u64 = 1_000;

fn offline(active: &str, names: &str, pace: u32) -> String {
    let table = table(active, names, pace).replace("[encryption]", "[encryption]\nmode = \"offline\"");
    format!("{QUIETLY}\n{table}")
}

/// Calls until somebody is told that some records have been brought under another key, and that the rest is on its way.
async fn until_under_way(site: &Site) {
    let calling = async {
        loop {
            match site.client().ping().await {
                Ok(_) => panic!("nobody is served before all records are under the key"),
                Err(ClientError::Status { status: 503, phase: Some(phase), retry_after_s, body, .. })
                    if phase == "reencrypting" =>
                {
                    let body: Value = serde_json::from_str(&body).unwrap();
                    assert!(retry_after_s.is_some() && body["phase"] == "reencrypting", "{body}");
                    if body["done"].as_u64().unwrap() > 0 {
                        break;
                    }
                }
                Err(_) => {}
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, calling).await.is_ok(), "nobody was told: {}", site.logged());
    assert_eq!(keys::status(site).await["state"], "rotating");
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

    // From none to A, and from A to B, each killed and stopped in the middle.
    for (active, names) in [("A", "A"), ("B", "AB")] {
        let acknowledged = load.tally.acknowledged.load(Ordering::Relaxed);
        for kills in [true, false] {
            site.spawn(Release::Newest, &offline(active, names, CRAWLING_PER_S));
            until_under_way(&site).await;
            tokio::time::sleep(Duration::from_millis(dice.below(STOP_DELAY_MAX_MS))).await;
            if kills {
                site.kill();
            } else {
                assert_eq!(site.terminate().await, 0, "{}", site.logged());
            }
            let audit = Audit::unsettled(&site).await;
            assert_eq!((audit.records.len(), audit.under(active) > 0), (2, true), "{audit:#?}");
        }
        assert_eq!(load.tally.acknowledged.load(Ordering::Relaxed), acknowledged, "nobody was served");

        // Whoever is answered is answered after the end.
        site.start(Release::Newest, &offline(active, names, WALKING_PER_S)).await;
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
