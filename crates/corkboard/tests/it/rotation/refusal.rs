//! A node without a key that the store needs, or with other bytes under its name, keeps its hands off and says which.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::audit::Audit;
use super::keys::{bytes_of, put_key, site, table, until_settled, until_under_way};
use super::{CRAWLING_PER_S, UNLIMITED};
use crate::durability::census::Census;
use crate::durability::world::World;
use crate::upgrade::QUIETLY;
use crate::upgrade::load::stock;
use crate::upgrade::site::{Release, Site};

/// Who had the lock last, and how often it was taken: whoever has had it, if only for a moment, is in there.
const ABOUT_THE_LOCK: [&str; 2] = ["LOCK", "HIGH"];

/// Every file that the store is made of, byte for byte.
fn files(site: &Site) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(site.store_dir()).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| ABOUT_THE_LOCK.iter().all(|name| !path.ends_with(name)));
    files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// `said` is what names the key.
fn check(site: &Site, encryption: &str, said: &str) {
    let before = files(site);
    assert!(before.values().any(|bytes| bytes.len() > 1_000), "there is something to keep");
    let refused = site.refused(Release::Newest, &format!("{QUIETLY}\n{encryption}"));
    assert_eq!(refused.code, 8, "{refused:?}");
    for said in [said, "Nothing was changed"] {
        assert!(refused.stderr.contains(said), "{said:?} is missing: {}", refused.stderr);
    }
    assert!(!refused.stderr.contains("of the tests"), "a key is shown: {}", refused.stderr);
    let after = files(site);
    let changed: Vec<_> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(changed.is_empty(), "a node that was refused has changed {changed:?}");
}

async fn serves(site: &mut Site, encryption: &str, stock: &World) {
    site.start(Release::Newest, &format!("{QUIETLY}\n{encryption}")).await;
    assert_eq!(&Census::take(&site.client()).await.world_of("stock"), stock);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_keys_of_the_store_is_refused_by_name() {
    let mut site = site();
    site.start(Release::Newest, &format!("{QUIETLY}\n{}", table("A", "A", UNLIMITED))).await;
    let stock = stock(&site).await;
    until_settled(&site, "A").await;
    site.kill();

    // All records are under A.
    check(&site, &table("B", "BC", UNLIMITED), "sealed with key A, and this node has only B, C");
    check(&site, "", "sealed with key A, and this node has no key at all");
    put_key(&site, 'A', "other bytes of the tests under the same name");
    check(&site, &table("A", "A", UNLIMITED), "key A of this node is not key A of the store");
    check(&site, &table("B", "AB", UNLIMITED), "key A of this node is not key A of the store");
    put_key(&site, 'A', &bytes_of('A'));
    serves(&mut site, &table("B", "AB", CRAWLING_PER_S), &stock).await;
    until_under_way(&site).await;
    site.kill();

    // Some are under B now.
    let audit = Audit::unsettled(&site).await;
    assert!(audit.under("A") > 0 && audit.under("B") > 0, "{audit:#?}");
    check(&site, &table("A", "A", UNLIMITED), "still sealed with key B, and this node has only A");
    check(&site, &table("B", "B", UNLIMITED), "still sealed with key A, and this node has only B");
    check(&site, &table("C", "C", UNLIMITED), "still sealed with key A and key B, and this node has only C");
    check(&site, "", "still sealed with key A and key B, and this node has no key at all");
    put_key(&site, 'B', "other bytes of the tests under the same name");
    check(&site, &table("A", "AB", UNLIMITED), "key B of this node is not key B of the store");
    put_key(&site, 'B', &bytes_of('B'));
    serves(&mut site, &table("B", "AB", UNLIMITED), &stock).await;
    until_settled(&site, "B").await;
    site.kill();
    Audit::settled(&site, "B").await;

    // A is free, so nobody minds what it is, or whether it is there.
    put_key(&site, 'A', "other bytes of the tests under the same name");
    serves(&mut site, &table("B", "AB", UNLIMITED), &stock).await;
    until_settled(&site, "B").await;
    assert_eq!(site.terminate().await, 0);
    serves(&mut site, &table("B", "B", UNLIMITED), &stock).await;
    assert_eq!(site.terminate().await, 0);
    Audit::settled(&site, "B").await;
}
