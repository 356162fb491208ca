//! A cell that runs apps in containers of an OCI runtime, where root and a runtime are there; and one that has no runtime.

use std::path::Path;

use rig::oci;
use rig::pki::Pki;

use super::world::World;

/// Lines about containers that have the program of the tests, where it is here.
fn executor(pki: &Pki, more: &str) -> String {
    oci::rootfs(pki.dir.path(), &[Path::new(env!("CARGO_BIN_EXE_corkboard"))]);
    format!("kind = \"oci\"\nrootfs = {{ cflinuxfs4 = \"rootfs\" }}\n{more}")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_runs_in_a_container_and_leaves_nothing() {
    if !oci::is_possible() {
        return;
    }
    let pki = Pki::new();
    let executor = executor(&pki, "");
    let mut world = World::start_in(pki, 1, &executor).await;
    world.run_app(1).await;
    let before = (world.running().await, world.seen(1));
    let instance = before.0[&0].1.clone();
    let processes = oci::processes(&instance);
    assert!(!processes.is_empty() && !oci::groups(&instance).is_empty());
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap();
    assert_ne!(namespace(&processes[0]), namespace("self"));

    world.cells[0].kill();
    assert_eq!(world.seen(1), before.1, "an app outlives the process of its cell");
    world.start_cell(0);
    world.until("the cell is known", async || world.call(&["cells"]).contains("cell-0")).await;
    assert_eq!((world.running().await, world.seen(1)), before);
    assert_eq!(oci::processes(&instance), processes);

    world.call(&["delete-desired-lrp", "app"]);
    let dir = world.dir().to_owned();
    let count = |name: &str| std::fs::read_dir(dir.join("cell-0").join(name)).unwrap().count();
    world.until("the container is deleted", async || count("containers") == 0).await;
    assert_eq!((oci::processes(&instance).len(), oci::groups(&instance).len(), count("oci")), (0, 0, 0));
    assert_eq!(oci::mounts(&dir), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_without_a_runtime_takes_nothing_and_says_why() {
    let pki = Pki::new();
    let executor = executor(&pki, "runtime = \"no-such-runtime\"\n");
    let world = World::start_in(pki, 1, &executor).await;
    let said = world.cells[0].whole_log();
    let is_root = rustix::process::geteuid().is_root();
    let why = if is_root { "no-such-runtime: it is not installed" } else { "need root" };
    assert!(said.contains("containers cannot be run") && said.contains(why), "{said}");
    world.call(&["set-domain", "ring"]);
    let task = r#"{"task_guid":"never","domain":"ring","rootfs":"preloaded:cflinuxfs4","memory_mb":16,"disk_mb":16,
        "action":{"run":{"path":"/bin/sh","user":"root"}}}"#;
    world.call(&["create-task", task]);
    let refused = async || !world.client.task_by_guid("never").await.unwrap().rejection_reason.is_empty();
    world.until("the task is not placed", refused).await;
    assert_eq!(world.running().await.len(), 0);
}
