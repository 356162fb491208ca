//! Stores that something happened to: a record that nobody can read, and a store that is gone.

use std::net::SocketAddr;
use std::time::Duration;

use api::models::{ActualLrpInstanceKey, ActualLrpKey, ActualLrpNetInfo, StartActualLrpRequest};
use serde_json::json;
use store::{Step, Store, Version};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::load::stock;
use super::site::{PATIENCE, Release, Site, done};
use super::{FORMER, QUIETLY};
use crate::durability::census::Census;
use crate::program::{LRP, utf8};

const POISON: &[u8] = b"00031442529338:\xff\xff\xff no message at all";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poisoned_record_is_served_around_and_stands_in_the_way_of_cleaning_up() {
    let mut site = Site::new();
    site.start(Release::Former, QUIETLY).await;
    let stock = stock(&site).await;
    site.terminate().await;
    let key = format!("{}task/poisoned", FORMER.root());
    let store = site.store();
    let held = store.campaign("test").await.unwrap();
    let mut step = Step::default();
    step.put(key.as_str(), POISON);
    store.commit(&held, &[step]).await.unwrap();
    store.resign(held).await.unwrap();
    drop(store);

    site.start(Release::Newest, QUIETLY).await;
    site.until_state("blocked").await;
    assert_eq!(Census::take(&site.client()).await.world_of("stock"), stock);
    let status = site.run(&["migrate", "status"]);
    assert_eq!(status.code, 12, "{status:?}");
    assert!(status.stdout.ends_with("Next: corkboard quarantine list\n"), "{}", status.stdout);
    let migration = site.ask("migration").await.unwrap();
    assert_eq!(migration["current"]["number"], Version::LATEST.number().0);
    assert_eq!(migration["leftover_roots"][0]["number"], FORMER.number().0);

    let list = site.run(&["quarantine", "list", "--json"]);
    let record: serde_json::Value = serde_json::from_str(done(&list)).unwrap();
    let id = record["id"].as_str().unwrap();
    assert!(id.ends_with(&key), "{record}");
    let file = site.dir.path().join("kept");
    done(&site.run(&["quarantine", "export", id, "-o", utf8(&file)]));
    assert_eq!(std::fs::read(&file).unwrap(), POISON);
    let retried = site.run(&["quarantine", "retry", id]);
    assert_eq!(retried.code, 7, "{retried:?}");
    done(&site.run(&["quarantine", "discard", id, "--yes"]));
    site.until_state("none").await;
    assert_eq!(site.ask("migration").await.unwrap()["leftover_roots"], json!([]));
    assert_eq!(Census::take(&site.client()).await.world_of("stock"), stock);
    site.terminate().await;
    let left = site.store().scan(FORMER.root(), None, 1).await.unwrap();
    assert!(left.records.is_empty(), "the older data is gone");
}

/// Convergence looks often, so that the test need not wait for it. There is one cell.
const CONVERGE: &str = "[timing]\nconverge_interval = \"100ms\"\n[cells]\nfile = \"cells.jsonl\"";
/// Enough for a pass that began before something changed to be over, and another one to have seen it.
const PASSES: u64 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_store_is_noticed_and_nothing_is_stopped_until_it_is_confirmed() {
    let mut site = Site::new();
    let cell = TcpListener::bind("127.0.0.1:0").await.unwrap();
    std::fs::write(site.dir.path().join("cells.jsonl"), presence(cell.local_addr().unwrap())).unwrap();
    site.start(Release::Newest, CONVERGE).await;
    done(&site.run(&["create-desired-lrp", LRP]));
    site.terminate().await;
    std::fs::remove_dir_all(site.store_dir()).unwrap();

    site.start(Release::Newest, CONVERGE).await;
    let guard = site.ask("status").await.unwrap()["store_guard"].clone();
    assert_eq!(guard["state"], "wiped", "{guard}");
    // The cell reports what it runs, and the domain is fresh: if the store were trusted, the instance would be stopped.
    done(&site.run(&["set-domain", "demo"]));
    start_instance(&site).await;
    site.passes(PASSES).await;
    let called = tokio::time::timeout(Duration::ZERO, cell.accept()).await;
    assert!(called.is_err(), "the cell was told to stop something");

    let wrong = site.run(&["store", "confirm", "--cluster-id", "another", "--yes"]);
    assert_eq!(wrong.code, 4, "{wrong:?}");
    let found = guard["found_cluster_id"].as_str().unwrap();
    done(&site.run(&["store", "confirm", "--cluster-id", found, "--yes"]));
    assert_eq!(site.ask("status").await.unwrap()["store_guard"]["state"], "ok");
    let (mut call, _) = tokio::time::timeout(PATIENCE, cell.accept()).await.unwrap().unwrap();
    let mut line = [0; 32];
    call.read_exact(&mut line).await.unwrap();
    assert!(line.starts_with(b"POST /v1/lrps/hello/instances/i/"), "{}", String::from_utf8_lossy(&line));
}

fn presence(cell: SocketAddr) -> String {
    let presence = json!({
        "cell_id": "cell-1", "rep_address": format!("http://{cell}"), "zone": "z1", "rep_url": "",
        "capacity": {"memory_mb": 1024, "disk_mb": 2048, "containers": 10},
        "rootfs_provider_list": [{"name": "preloaded", "properties": ["cflinuxfs4"]}],
    });
    format!("{presence}\n")
}

async fn start_instance(site: &Site) {
    let request = StartActualLrpRequest {
        actual_lrp_key: Some(ActualLrpKey { process_guid: "hello".into(), index: 0, domain: "demo".into() }),
        actual_lrp_instance_key: Some(ActualLrpInstanceKey { instance_guid: "i".into(), cell_id: "cell-1".into() }),
        actual_lrp_net_info: Some(ActualLrpNetInfo { address: "10.0.0.1".into(), ..ActualLrpNetInfo::default() }),
        ..StartActualLrpRequest::default()
    };
    site.client().start_actual_lrp(request).await.unwrap();
}
