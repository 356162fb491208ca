//! Releases that must not touch a store say so in one sentence, write nothing, and say what to do.

use std::collections::BTreeMap;

use bytes::Bytes;
use store::root::{VersionRecord, put_version};
use store::{Step, Store, Version};

use super::load::stock;
use super::site::{Release, Site};
use super::{FORMER, QUIETLY};
use crate::durability::census::Census;

/// Everything that a store holds, and how often it was written to.
#[derive(Debug, PartialEq)]
struct Content {
    records: BTreeMap<String, Bytes>,
    revision: u64,
    logs: BTreeMap<String, Vec<u8>>,
}

async fn content(site: &Site) -> Content {
    let store = site.store();
    let mut records = BTreeMap::new();
    let mut after: Option<String> = None;
    loop {
        let page = store.scan("", after.as_deref(), 1_000).await.unwrap();
        records.extend(page.records);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let revision = store.revision();
    drop(store);
    let files = std::fs::read_dir(site.store_dir()).unwrap().map(|file| file.unwrap().path());
    let logs = files.filter(|path| path.extension().is_some_and(|kind| kind == "log" || kind == "ckpt"));
    let read = |path: std::path::PathBuf| (path.display().to_string(), std::fs::read(&path).unwrap());
    Content { records, revision, logs: logs.map(read).collect() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_former_release_keeps_its_hands_off_newer_data() {
    let mut site = Site::new();
    site.start(Release::Newest, QUIETLY).await;
    stock(&site).await;
    site.terminate().await;
    let before = content(&site).await;
    let refused = site.refused(Release::Former, QUIETLY);
    assert_eq!(refused.code, 6, "{refused:?}");
    let latest = Version::LATEST.number().to_string();
    for said in
        ["The data is newer than this server", latest.as_str(), "nothing was changed", "start the newer release"]
    {
        assert!(refused.stderr.contains(said), "{said} is missing: {}", refused.stderr);
    }
    assert_eq!(content(&site).await, before);
}

/// As a server leaves it that dies between the last two writes of a rollback, which is too short a time to hit.
async fn interrupt_a_rollback(site: &mut Site) {
    site.terminate().await;
    let store = site.store();
    let held = store.campaign("test").await.unwrap();
    let mut step = Step::default();
    put_version(&mut step, &VersionRecord::new(Version::LATEST.number(), FORMER.number()));
    store.commit(&held, &[step]).await.unwrap();
    store.resign(held).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_rollback_is_finished_or_undone_by_the_operator() {
    let mut site = Site::new();
    site.start(Release::Newest, QUIETLY).await;
    let stock = stock(&site).await;
    interrupt_a_rollback(&mut site).await;
    let former = FORMER.number().to_string();
    let finish = format!("corkboard migrate rollback --to {former} --config");
    for release in [Release::Newest, Release::Former] {
        let before = content(&site).await;
        let refused = site.refused(release, QUIETLY);
        assert_eq!(refused.code, 6, "{refused:?}");
        assert!(refused.stderr.contains(&finish), "{}", refused.stderr);
        let undo = refused.stderr.contains("corkboard migrate abort --config");
        assert!(undo || release == Release::Former, "{}", refused.stderr);
        assert_eq!(content(&site).await, before);
    }

    let undone = site.run_on_store(&["migrate", "abort"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    site.start(Release::Newest, QUIETLY).await;
    assert_eq!(Census::take(&site.client()).await.world_of("stock"), stock);

    interrupt_a_rollback(&mut site).await;
    let finished = site.run_on_store(&["migrate", "rollback", "--to", &former, "--yes"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_eq!(site.versions().await, (FORMER.number(), FORMER.number()));
    site.start(Release::Former, QUIETLY).await;
    assert_eq!(Census::take(&site.client()).await.world_of("stock"), stock);
}
