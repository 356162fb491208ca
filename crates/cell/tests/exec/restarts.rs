//! A cell that starts again finds its containers as they are.

use std::fs;

use api::models;
use corkboard_cell::executor::{Executor, LocalExecutor, OpenError, RunSpec, State};

use crate::cell::{Cell, config, is_alive, serial, shell, spec, wait_for};

const FOREVER: &str = "echo $$ > pid; echo begin; while [ ! -f end ]; do sleep 0.02; done; echo end; exit 7";

#[tokio::test]
async fn apps_do_not_notice() {
    let mut cell = Cell::new();
    let guid = cell.run("app", RunSpec { ports: vec![8080], ..spec(shell(FOREVER)) }).await;
    let before = cell.state(&guid, State::Running).await;
    let pid = cell.file(&guid, "pid").await;
    // What was handed on already must not be handed on again.
    wait_for(|| (!cell.log(&guid).is_empty()).then_some(())).await;
    let folder = cell.close().await;
    assert!(is_alive(&pid));

    let mut cell = Cell::open(folder, |_| {});
    let after = cell.executor.get(&guid).unwrap();
    assert_eq!((after.state, &after.ports, after.is_routable), (State::Running, &before.ports, true));
    assert_eq!(after.since_ns, before.since_ns);
    assert_eq!(cell.executor.remaining().containers, 9);
    fs::write(cell.root(&guid).join("end"), "").unwrap();
    assert_eq!(cell.end(&guid).await, "failed APP: Exited with status 7");
    assert_eq!(cell.log(&guid), ["[APP/3] OUT begin", "[APP/3] OUT end", "[APP/3] OUT Exit status 7"]);
    assert_eq!(cell.file(&guid, "pid").await, pid);
    cell.delete(&guid).await;
}

/// In this variable the test below tells another process of this program which folder to be a cell in.
const VICTIM: &str = "CORKBOARD_TEST_VICTIM";

#[tokio::test]
async fn a_cell_that_is_killed_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "restarts::victim", "--nocapture"])
        .env(VICTIM, folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let path = folder.path().join("cell/containers/app/root/pid");
    let pid = wait_for(|| fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))).await;
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(is_alive(pid.trim()));

    let mut cell = Cell::open(folder, |_| {});
    let [container] = &cell.executor.list()[..] else { panic!("{:?}", cell.executor.list()) };
    let guid = container.guid.clone();
    fs::write(cell.root(&guid).join("end"), "").unwrap();
    assert_eq!(cell.end(&guid).await, "failed APP: Exited with status 7");
    assert_eq!(cell.file(&guid, "pid").await, pid.trim());
    let mut log = cell.log(&guid);
    // A line may be there twice: it was handed on, and the cell was killed before it could note that.
    log.dedup();
    assert_eq!(log, ["[APP/3] OUT begin", "[APP/3] OUT end", "[APP/3] OUT Exit status 7"]);
}

/// Is a cell until it is killed, when the test above asks for one.
#[tokio::test]
async fn victim() {
    let Some(folder) = std::env::var_os(VICTIM) else { return };
    let executor = LocalExecutor::open(config(folder.as_ref())).unwrap();
    let reservation = crate::cell::reservation("app", corkboard_cell::executor::Room::default());
    let guid = reservation.owner.container();
    executor.reserve(reservation).unwrap();
    executor.run(&guid, spec(shell(FOREVER))).await.unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn what_ended_meanwhile_ended_as_it_did() {
    let mut cell = Cell::new();
    let guid = cell.run("app", spec(shell(FOREVER))).await;
    cell.state(&guid, State::Running).await;
    let pid = cell.file(&guid, "pid").await;
    let folder = cell.close().await;
    fs::write(folder.path().join("cell/containers/app/root/end"), "").unwrap();
    wait_for(|| (!is_alive(&pid)).then_some(())).await;

    let mut cell = Cell::open(folder, |_| {});
    assert_eq!(cell.end(&guid).await, "failed APP: Exited with status 7");
    assert_eq!(cell.log(&guid).iter().filter(|line| line.ends_with(" end")).count(), 1);
    let folder = cell.close().await;
    // A completed container stays until it is deleted, with its reason.
    let mut cell = Cell::open(folder, |_| {});
    assert_eq!(cell.end(&guid).await, "failed APP: Exited with status 7");
}

#[tokio::test]
async fn a_tree_goes_on_where_it_was() {
    let mut cell = Cell::new();
    let tree = serial(vec![
        shell("echo 1 >> order"),
        shell("echo 2 >> order; while [ ! -f end ]; do sleep 0.02; done"),
        shell("echo 3 >> order"),
    ]);
    let guid = cell.run("tree", RunSpec { setup: Some(shell("echo 0 >> order")), ..spec(tree) }).await;
    let order = cell.root(&guid).join("order");
    wait_for(|| fs::read_to_string(&order).ok().filter(|text| text == "0\n1\n2\n")).await;
    let folder = cell.close().await;
    let mut cell = Cell::open(folder, |_| {});
    fs::write(cell.root(&guid).join("end"), "").unwrap();
    assert_eq!(cell.end(&guid).await, "");
    assert_eq!(fs::read_to_string(&order).unwrap(), "0\n1\n2\n3\n");
}

#[tokio::test]
async fn timeouts_count_from_the_beginning() {
    let mut cell = Cell::new();
    let action = Some(Box::new(shell("echo $$ > pid; while :; do sleep 0.02; done")));
    let timeout = models::TimeoutAction { action, timeout_ms: 1_000, ..Default::default() };
    let timeout = models::Action { timeout_action: Some(Box::new(timeout)), ..Default::default() };
    let guid = cell.run("slow", spec(timeout)).await;
    cell.file(&guid, "pid").await;
    let began = cell.root(&guid).with_file_name("steps/action/begun.json");
    let long_ago: i64 = fs::read_to_string(&began).unwrap().parse::<i64>().unwrap() - 3_600_000_000_000;
    let folder = cell.close().await;
    fs::write(&began, long_ago.to_string()).unwrap();
    let mut cell = Cell::open(folder, |_| {});
    assert_eq!(cell.end(&guid).await, "failed exceeded 1s timeout");
}

#[tokio::test]
async fn a_stop_and_a_delete_are_not_forgotten() {
    let mut cell = Cell::with(|config| config.grace = std::time::Duration::from_secs(20));
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let stopped = cell.run("stopped", spec(shell(script))).await;
    let deleted = cell.run("deleted", spec(shell(script))).await;
    let pids = [cell.file(&stopped, "pid").await, cell.file(&deleted, "pid").await];
    cell.executor.stop(&stopped).await.unwrap();
    cell.executor.delete(&deleted).await.unwrap();
    let folder = cell.close().await;
    assert!(pids.iter().all(|pid| is_alive(pid)));

    let mut cell = Cell::open(folder, |_| {});
    assert!(cell.end(&stopped).await.starts_with("failed stopped"));
    wait_for(|| cell.executor.get(&deleted).is_none().then_some(())).await;
    assert!(!pids.iter().any(|pid| is_alive(pid)));
}

#[tokio::test]
async fn a_shim_that_is_killed_takes_its_process_with_it() {
    let mut cell = Cell::new();
    let guid = cell.run("orphan", spec(shell(FOREVER))).await;
    cell.state(&guid, State::Running).await;
    let pid = cell.file(&guid, "pid").await;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let shim: i32 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(shim).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    let ending = cell.end(&guid).await;
    assert!(ending.starts_with("failed the process is gone and nobody knows how it ended"), "{ending}");
    assert!(!is_alive(&pid));
}

/// Ids of processes are used again, after a while and after every boot. Whoever has them then is not touched.
#[tokio::test]
async fn a_process_is_not_taken_for_another() {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let changes: [(&str, String, &str); 2] = [
        ("boot", boot.trim().to_owned(), "another-boot"),
        ("ticks", "\"start_ticks\":".to_owned(), "\"start_ticks\":1"),
    ];
    for (name, from, to) in changes {
        let mut cell = Cell::new();
        let guid = cell.run(name, spec(shell(FOREVER))).await;
        cell.state(&guid, State::Running).await;
        let pid = cell.file(&guid, "pid").await;
        let identity = cell.root(&guid).with_file_name("steps/action/identity.json");
        let folder = cell.close().await;
        let text = fs::read_to_string(&identity).unwrap();
        fs::write(&identity, text.replace(&from, to)).unwrap();
        let mut cell = Cell::open(folder, |_| {});
        let ending = cell.end(&guid).await;
        assert!(ending.contains("the machine was started again"), "{name}: {ending}");
        assert!(is_alive(&pid), "{name}");
        fs::write(cell.root(&guid).join("end"), "").unwrap();
        wait_for(|| (!is_alive(&pid)).then_some(())).await;
        cell.delete(&guid).await;
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_removed_and_the_others_stay() {
    let mut cell = Cell::new();
    let guid = cell.run("good", spec(shell(FOREVER))).await;
    cell.state(&guid, State::Running).await;
    let bad = cell.root(&guid).with_file_name("../bad");
    let folder = cell.close().await;
    fs::create_dir(&bad).unwrap();
    fs::write(bad.join("record.json"), "{").unwrap();
    let mut cell = Cell::open(folder, |_| {});
    assert!(!bad.exists());
    assert_eq!(cell.executor.list().len(), 1);
    cell.delete(&guid).await;
}

#[tokio::test]
async fn two_cells_do_not_share_a_folder() {
    let cell = Cell::new();
    let second = LocalExecutor::open(config(cell.folder.path())).unwrap_err();
    assert!(matches!(second, OpenError::Taken { .. }));
    assert!(second.to_string().contains("end it first"));
}
