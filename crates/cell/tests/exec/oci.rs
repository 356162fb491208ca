//! Containers of an OCI runtime.
//!
//! They are tested where root runs the tests and a runtime works. Whether it does is found out with a bundle that no code of the
//! cell had a part in: a cell that refuses then is at fault. Where it does not, the tests say so and what to do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use std::time::Duration;

use api::models;
use corkboard_cell::executor::{ContainerGuid, Executor, LocalConfig, LocalExecutor, Room, RunSpec, Sandbox, State};

use rig::oci::{RUNTIMES, is_possible, rootfs};

use crate::cell::{Cell, config, is_alive, is_root, reservation, serial, shell, spec, wait_for};

fn sandboxed(folder: &Path) -> impl Fn(&mut LocalConfig) + use<> {
    let stacks = BTreeMap::from([("cflinuxfs4".to_owned(), folder.join("rootfs"))]);
    let runtimes = RUNTIMES.map(ToOwned::to_owned).to_vec();
    move |config| config.sandbox = Sandbox::Oci { stacks: stacks.clone(), runtimes: runtimes.clone() }
}

/// A cell that must be able to run containers, changed as the test wants it.
fn able_with(change: impl FnOnce(&mut LocalConfig)) -> Option<Cell> {
    if !is_possible() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    rootfs(folder.path(), &[]);
    let sandboxed = sandboxed(folder.path());
    let cell = Cell::open(folder, |config| {
        sandboxed(config);
        change(config);
    });
    assert_eq!(cell.executor.health(), Ok(()), "a runtime works on this machine and the cell does not think so");
    Some(cell)
}

fn able() -> Option<Cell> {
    able_with(|_| {})
}

fn reopen(folder: tempfile::TempDir) -> Cell {
    let sandboxed = sandboxed(folder.path());
    Cell::open(folder, sandboxed)
}

/// A name that is nobody else's on this machine, so that what is left of it can be looked for everywhere.
fn unique(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

async fn lines(cell: &Cell, guid: &ContainerGuid, wanted: &[&str]) {
    for line in wanted {
        let line = format!("[APP/3] {line}");
        let wait = wait_for(|| cell.log(guid).contains(&line).then_some(()));
        if tokio::time::timeout(Duration::from_secs(20), wait).await.is_err() {
            panic!("{line} is not in {:?}", cell.log(guid));
        }
    }
}

fn processes(guid: &ContainerGuid) -> Vec<String> {
    rig::oci::processes(guid.as_str())
}

fn groups(guid: &ContainerGuid) -> Vec<PathBuf> {
    rig::oci::groups(guid.as_str())
}

/// Nothing of a container is left, anywhere.
fn check_nothing_left(cell: &Cell, guid: &ContainerGuid) {
    let folder = cell.folder.path().join("cell");
    assert_eq!(processes(guid), [""; 0]);
    assert_eq!(groups(guid), Vec::<PathBuf>::new());
    let count = |path: PathBuf| fs::read_dir(path).map_or(0, Iterator::count);
    assert_eq!((count(folder.join("oci")), count(folder.join("containers"))), (0, 0));
    assert_eq!(rig::oci::mounts(&folder), [""; 0]);
    assert!(!folder.join("oci.probe").exists());
}

async fn check_removed(cell: &mut Cell, guid: &ContainerGuid) {
    cell.delete(guid).await;
    check_nothing_left(cell, guid);
}

#[tokio::test]
async fn a_machine_without_a_runtime_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let stacks = BTreeMap::from([("cflinuxfs4".to_owned(), rootfs(folder.path(), &[]))]);
    let runtimes = ["no-such-runtime", "true"].map(ToOwned::to_owned).to_vec();
    let mut cell = Cell::open(folder, |config| config.sandbox = Sandbox::Oci { stacks, runtimes });
    let why = cell.executor.health().unwrap_err();
    let expected = if is_root() {
        "no OCI runtime works on this machine (no-such-runtime: it is not installed; true: it ended with exit status: 0 \
         and said nothing); install crun or runc"
    } else {
        "need root"
    };
    assert!(why.contains(expected), "{why}");
    assert_eq!(cell.executor.stacks(), ["cflinuxfs4"]);
    let guid = cell.run("never", spec(shell("true"))).await;
    assert_eq!(cell.end(&guid).await, format!("failed retryable failed to create container: {why}"));
}

#[tokio::test]
async fn containers_have_a_file_system_and_processes_of_their_own() {
    let Some(mut cell) = able() else { return };
    let mut action = shell(
        "echo pid $$; id -u; ls /; echo kept > /home/file; echo err >&2; echo $WORD $PORT_8080; cat /proc/sys/kernel/hostname; \
         cat /tmp/setup; cat /proc/self/status; echo > /dev/shm/mark; while [ ! -f /home/end ]; do sleep 0.05; done; exit 4",
    );
    let run = action.run_action.as_mut().unwrap();
    (run.user, run.dir) = ("vcap".to_owned(), "/home".to_owned());
    let env = vec![models::EnvironmentVariable { name: "WORD".to_owned(), value: "told".to_owned() }];
    let setup = Some(serial(vec![shell("echo first > /tmp/setup"), shell("echo second >> /tmp/setup")]));
    // The mark is in memory that only this container has.
    let monitor = Some(shell("test -f /home/file && test -f /dev/shm/mark"));
    let spec = RunSpec { monitor, env, setup, ports: vec![8080], ..spec(action) };
    let guid = cell.run(&unique("app"), spec).await;
    let port = cell.state(&guid, State::Running).await.ports[0].host;
    let told = format!("OUT told {port}");
    lines(
        &cell,
        &guid,
        &[
            "OUT pid 1",
            "OUT 2000",
            "OUT proc",
            "ERR err",
            &told,
            "OUT cell",
            "OUT first",
            "OUT second",
            "OUT CapEff:\t0000000000000000",
        ],
    )
    .await;
    assert!(!cell.folder.path().join("rootfs/home").exists());
    let usage = cell.executor.usage().await.remove(&guid).unwrap();
    assert!((1..64 << 20).contains(&usage.memory_bytes), "{usage:?}");

    // It goes on without the cell.
    let before = processes(&guid);
    let mut cell = reopen(cell.close().await);
    assert_eq!(cell.executor.get(&guid).unwrap().state, State::Running);
    assert!(before.iter().any(|pid| is_alive(pid)));
    fs::write(cell.root(&guid).join("home/end"), "").unwrap();
    assert_eq!(cell.end(&guid).await, "failed APP: Exited with status 4");
    // What it wrote can be read until it is deleted; nothing else is left.
    assert_eq!(cell.executor.file(&guid, "/home/file", 100).await.unwrap(), "kept\n");
    assert_eq!((processes(&guid).len(), groups(&guid).len()), (0, 0));
    check_removed(&mut cell, &guid).await;
}

#[tokio::test]
async fn a_monitor_is_a_look_into_the_container() {
    let Some(mut cell) = able() else { return };
    let action = shell("echo > /dev/shm/mark; while [ ! -f /end ]; do sleep 0.05; done; echo > /gone; sleep 600");
    let monitor = Some(shell("test -f /dev/shm/mark && test ! -f /gone || exit 6"));
    let guid = cell.run(&unique("watched"), RunSpec { monitor, ..spec(action) }).await;
    cell.state(&guid, State::Running).await;
    fs::write(cell.root(&guid).join("end"), "").unwrap();
    let ending = cell.end(&guid).await;
    assert!(ending.contains("Exited with status 6"), "{ending}");
    check_removed(&mut cell, &guid).await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let Some(mut cell) = able() else { return };
    let mut action = shell("");
    action.run_action.as_mut().unwrap().path = "/bin/nowhere".to_owned();
    let guid = cell.run(&unique("nowhere"), spec(action)).await;
    let ending = cell.end(&guid).await.to_lowercase();
    assert!(ending.contains("/bin/nowhere") && ending.contains("no such file"), "{ending}");
    check_removed(&mut cell, &guid).await;
}

#[tokio::test]
async fn the_kernel_keeps_the_limits() {
    let Some(mut cell) = able_with(|config| config.guard_interval = Duration::from_secs(3_600)) else { return };
    let mut reservation = reservation(&unique("hungry"), Room { memory_mb: 32, disk_mb: 64, containers: 1 });
    reservation.max_pids = 8;
    let guid = reservation.owner.container();
    cell.executor.reserve(reservation).unwrap();
    let script = "(for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2 & done) 2>/dev/null || echo no more processes
        x=0123456789abcdef; while :; do x=$x$x; done";
    cell.executor.run(&guid, spec(shell(script))).await.unwrap();
    assert_eq!(cell.end(&guid).await, "failed APP: Exited with status 137 (out of memory)");
    lines(&cell, &guid, &["OUT no more processes"]).await;
    check_removed(&mut cell, &guid).await;
}

#[tokio::test]
async fn a_container_is_asked_to_end_and_then_killed() {
    let Some(mut cell) = able() else { return };
    let polite = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    // The first process of a container ignores what it does not expect, so that it has to be killed.
    let stubborn = "sleep 600 & echo ready; while :; do sleep 0.05; done";
    let cases = [
        ("polite", polite, "failed stopped cancelled", "OUT bye"),
        (
            "stubborn",
            stubborn,
            "failed stopped exceeded graceful shutdown interval",
            "OUT Exit status 137 (exceeded 500ms graceful shutdown interval)",
        ),
    ];
    for (name, script, ending, last) in cases {
        let guid = cell.run(&unique(name), spec(shell(script))).await;
        lines(&cell, &guid, &["OUT ready"]).await;
        cell.executor.stop(&guid).await.unwrap();
        assert_eq!(cell.end(&guid).await, ending);
        lines(&cell, &guid, &[last]).await;
        assert_eq!(processes(&guid), [""; 0]);
        check_removed(&mut cell, &guid).await;
    }
}

#[tokio::test]
async fn a_container_may_be_deleted_at_any_moment() {
    let Some(mut cell) = able() else { return };
    for wait_ms in [0, 20, 50, 80, 120, 200] {
        let name = unique(&format!("short-{wait_ms}"));
        let monitor = Some(shell("sleep 0.2"));
        let action = shell("while :; do sleep 0.05; done");
        let guid = cell.run(&name, RunSpec { monitor, ..spec(action) }).await;
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        check_removed(&mut cell, &guid).await;
    }
}

#[tokio::test]
async fn a_shim_that_is_killed_leaves_no_container() {
    let Some(mut cell) = able() else { return };
    let guid = cell.run(&unique("orphan"), spec(shell("sleep 600 & echo ready; while :; do sleep 0.05; done"))).await;
    lines(&cell, &guid, &["OUT ready"]).await;
    let identity = cell.root(&guid).with_file_name("steps/action/identity.json");
    let identity: serde_json::Value = serde_json::from_slice(&fs::read(identity).unwrap()).unwrap();
    let shim = i32::try_from(identity["shim"]["pid"].as_i64().unwrap()).unwrap();
    let shim = rustix::process::Pid::from_raw(shim).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    let ending = cell.end(&guid).await;
    assert!(ending.starts_with("failed the process is gone and nobody knows how it ended"), "{ending}");
    assert_eq!(processes(&guid), [""; 0]);
    assert_eq!(groups(&guid), Vec::<PathBuf>::new());
    check_removed(&mut cell, &guid).await;
}

/// In this variable the test below tells another process of this program which folder to be a cell in.
const VICTIM: &str = "CORKBOARD_TEST_OCI_VICTIM";

const FOREVER: &str = "echo begin; echo > /begun; while [ ! -f /end ]; do sleep 0.05; done; echo end; exit 7";

#[tokio::test]
async fn a_cell_that_is_killed_finds_its_containers() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    rootfs(folder.path(), &[]);
    let names = ["goes-on", "is-deleted"].map(unique);
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "oci::victim", "--nocapture"])
        .env(VICTIM, format!("{}:{}", folder.path().display(), names.join(":")))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    for name in &names {
        let begun = folder.path().join("cell/containers").join(name).join("root/begun");
        wait_for(|| begun.exists().then_some(())).await;
    }
    victim.kill().unwrap();
    victim.wait().unwrap();

    let mut cell = reopen(folder);
    let guid = |name: &String| reservation(name, Room::default()).owner.container();
    let [goes_on, is_deleted] = [guid(&names[0]), guid(&names[1])];
    assert_eq!(cell.executor.list().len(), 2);
    let ports = cell.executor.get(&goes_on).unwrap().ports.clone();
    assert_eq!(ports.len(), 1);
    assert!(!processes(&goes_on).is_empty() && !processes(&is_deleted).is_empty());
    fs::write(cell.root(&goes_on).join("end"), "").unwrap();
    assert_eq!(cell.end(&goes_on).await, "failed APP: Exited with status 7");
    lines(&cell, &goes_on, &["OUT begin", "OUT end"]).await;
    cell.delete(&goes_on).await;
    assert_eq!((processes(&goes_on).len(), groups(&goes_on).len()), (0, 0));
    assert!(!processes(&is_deleted).is_empty(), "one container is not the other");
    check_removed(&mut cell, &is_deleted).await;
    check_nothing_left(&cell, &goes_on);
}

/// Is a cell until it is killed, when the test above asks for one.
#[tokio::test]
async fn victim() {
    let Ok(asked) = std::env::var(VICTIM) else { return };
    let (folder, names) = asked.split_once(':').unwrap();
    let folder = Path::new(folder);
    let mut config = config(folder);
    sandboxed(folder)(&mut config);
    let executor = LocalExecutor::open(config).unwrap();
    for name in names.split(':') {
        let reservation = reservation(name, Room { memory_mb: 64, disk_mb: 64, containers: 1 });
        let guid = reservation.owner.container();
        executor.reserve(reservation).unwrap();
        executor.run(&guid, RunSpec { ports: vec![8080], ..spec(shell(FOREVER)) }).await.unwrap();
    }
    std::future::pending::<()>().await;
}
