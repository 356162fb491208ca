//! A sealed record with one wrong bit: everything else is served and sealed anew, and its key stays needed until an operator
//! has decided about it.

use serde_json::{Value, json};
use store::{Step, Store, Version};

use super::UNLIMITED;
use super::audit::{Audit, records};
use super::keys::{self, site, table, until, until_settled};
use crate::durability::census::Census;
use crate::durability::world::{Op, World};
use crate::upgrade::QUIETLY;
use crate::upgrade::load::stock;
use crate::upgrade::site::{LOOK_AGAIN, PATIENCE, Release, Site, done};

const TASK: &str = "stock-7";

/// Changes the last bit of a record in the store.
async fn flip(site: &Site, id: &str) {
    let store = site.store();
    let (_, value) = records(&store).await.into_iter().find(|(key, _)| key == id).unwrap();
    let mut value = value.to_vec();
    *value.last_mut().unwrap() ^= 1;
    let held = store.campaign("test").await.unwrap();
    let mut step = Step::default();
    step.put(id, value);
    store.commit(&held, &[step]).await.unwrap();
    store.resign(held).await.unwrap();
}

async fn in_quarantine(site: &Site) -> Vec<Value> {
    site.ask("quarantine").await.unwrap()["records"].as_array().unwrap().clone()
}

/// A rotation that has ended but for one record, which is named together with the key that it needs.
fn blocked_by(status: &Value, id: &str) {
    assert_eq!((&status["marker"], &status["active"]), (&Value::Null, &json!("B")), "{status:#}");
    let blocked = status["blocked"].as_array().unwrap();
    assert_eq!(blocked.len(), 1, "{status:#}");
    assert_eq!((&blocked[0]["id"], &blocked[0]["key"]), (&json!(id), &json!("A")), "{status:#}");
    let old = status["keys"].as_array().unwrap().iter().find(|key| key["name"] == "A").unwrap();
    assert_eq!((&old["safe_to_remove"], &old["needed"]), (&json!(false), &json!(true)), "{status:#}");
    assert_eq!(old["blocked_by"], json!([id]), "{status:#}");
}

/// Until the rotation is blocked by this record and no other.
async fn until_blocked_by(site: &Site, id: &str) -> Value {
    let looking = async {
        loop {
            let status = until(site, "blocked").await;
            if status["blocked"][0]["id"] == id {
                break status;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("{id} is not named: {}", site.logged()))
}

async fn check_world(site: &Site, expected: &World) {
    assert_eq!(&Census::take(&site.client()).await.world_of("stock"), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_cannot_be_opened_keeps_its_key_needed_until_it_is_discarded() {
    let mut site = site();
    site.start(Release::Newest, &format!("{QUIETLY}\n{}", table("A", "A", UNLIMITED))).await;
    let stock = stock(&site).await;
    until_settled(&site, "A").await;
    assert_eq!(site.terminate().await, 0);
    let id = format!("{}task/{TASK}", Version::LATEST.root());
    flip(&site, &id).await;

    let both = format!("{QUIETLY}\n{}", table("B", "AB", UNLIMITED));
    site.start(Release::Newest, &both).await;
    let without = stock.after(&Op::DeleteTask { guid: TASK.to_owned() });
    check_world(&site, &without).await;
    let kept = in_quarantine(&site).await;
    assert_eq!((kept.len(), &kept[0]["id"]), (1, &json!(id)), "{kept:#?}");
    let why = kept[0]["why"].as_str().unwrap();
    assert!(why.contains("sealed with key A") && why.contains("damaged"), "{why}");
    blocked_by(&until(&site, "blocked").await, &id);
    assert_eq!(done(&site.run(&["quarantine", "list", "--json"])).lines().count(), 1);
    site.kill();
    let audit = Audit::unsettled(&site).await;
    assert_eq!((audit.unopened.as_slice(), audit.under("A")), ([id.clone()].as_slice(), 1), "{audit:#?}");
    let refused = site.refused(Release::Newest, &format!("{QUIETLY}\n{}", table("B", "B", UNLIMITED)));
    assert_eq!(refused.code, 8, "{refused:?}");

    // A client who makes the record anew moves the old one aside, where it is still in the way.
    site.start(Release::Newest, &both).await;
    Op::DesireTask { guid: TASK.to_owned() }.send(&site.client()).await.unwrap();
    check_world(&site, &stock).await;
    let aside = in_quarantine(&site).await[0]["id"].as_str().unwrap().to_owned();
    assert!(aside.starts_with("/quarantine/") && aside.ends_with(&id), "{aside}");
    blocked_by(&until_blocked_by(&site, &aside).await, &aside);

    done(&site.run(&["quarantine", "discard", &aside, "--yes"]));
    until_settled(&site, "B").await;
    assert_eq!(keys::status(&site).await["blocked"], json!([]));
    check_world(&site, &stock).await;
    assert_eq!(site.terminate().await, 0);
    Audit::settled(&site, "B").await;
}
