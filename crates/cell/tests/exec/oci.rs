//! Containers of an OCI runtime, where this machine allows them; a clear refusal where it does not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use corkboard_cell::executor::{Executor, RunSpec, Sandbox, State};

use crate::cell::{Cell, is_root, shell, spec, wait_for};

/// A root file system with a shell and a few programs of this machine.
fn rootfs(folder: &Path) -> PathBuf {
    let root = folder.join("rootfs");
    for name in ["bin", "etc", "tmp", "proc", "dev", "sys"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0::/:/bin/sh\nvcap:x:2000:2000::/home/vcap:/bin/sh\n").unwrap();
    for name in ["sh", "sleep", "cat", "id", "ls", "touch"] {
        let program =
            [Path::new("/bin").join(name), Path::new("/usr/bin").join(name)].into_iter().find(|path| path.exists());
        copy(&root, &fs::canonicalize(program.unwrap()).unwrap(), &Path::new("/bin").join(name));
    }
    root
}

fn copy(root: &Path, program: &Path, to: &Path) {
    fs::copy(program, root.join(to.strip_prefix("/").unwrap())).unwrap();
    let output = Command::new("ldd").arg(program).output().unwrap();
    for word in String::from_utf8_lossy(&output.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
        let inside = root.join(word.strip_prefix('/').unwrap());
        fs::create_dir_all(inside.parent().unwrap()).unwrap();
        fs::copy(word, inside).unwrap();
    }
}

fn cell(runtimes: &[&str]) -> Cell {
    let folder = tempfile::tempdir().unwrap();
    let stacks = BTreeMap::from([("cflinuxfs4".to_owned(), rootfs(folder.path()))]);
    let runtimes = runtimes.iter().map(ToString::to_string).collect();
    Cell::open(folder, |config| config.sandbox = Sandbox::Oci { stacks, runtimes })
}

#[tokio::test]
async fn a_machine_without_a_runtime_says_so() {
    let mut cell = cell(&["no-such-runtime"]);
    let why = cell.executor.health().unwrap_err();
    let expected =
        if is_root() { "no OCI runtime works on this machine (no-such-runtime: No such file" } else { "need root" };
    assert!(why.contains(expected), "{why}");
    assert_eq!(cell.executor.stacks(), ["cflinuxfs4"]);
    let guid = cell.run("never", spec(shell("true"))).await;
    assert!(cell.end(&guid).await.starts_with("failed retryable failed to create container: "));
}

#[tokio::test]
async fn containers_have_a_file_system_and_processes_of_their_own() {
    let mut cell = cell(&["crun", "runc"]);
    if let Err(why) = cell.executor.health() {
        // Nothing else can be checked here, and whoever reads this must be able to tell why.
        assert!(why.contains("need root") || why.contains("no OCI runtime works on this machine ("), "{why}");
        let guid = cell.run("refused", spec(shell("true"))).await;
        assert!(cell.end(&guid).await.contains(&why));
        return;
    }
    let mut action = shell(
        "echo pid $$; id -u; ls /; echo kept > /home/file; echo err >&2; \
         trap 'exit 9' TERM; while [ ! -f /home/end ]; do sleep 0.05; done; exit 4",
    );
    let run = action.run_action.as_mut().unwrap();
    (run.user, run.dir) = ("vcap".to_owned(), "/home".to_owned());
    let monitor = shell("test -f /home/file && test -d /proc/1");
    let guid = cell.run("app", RunSpec { monitor: Some(monitor), ..spec(action) }).await;
    cell.state(&guid, State::Running).await;
    let log = cell.log(&guid);
    for line in ["[APP/3] OUT pid 1", "[APP/3] OUT 2000", "[APP/3] OUT proc", "[APP/3] ERR err"] {
        assert!(log.iter().any(|found| found == line), "{line} is not in {log:?}");
    }
    assert!(!cell.folder.path().join("rootfs/home").exists());

    // It goes on without the cell.
    let stacks = BTreeMap::from([("cflinuxfs4".to_owned(), cell.folder.path().join("rootfs"))]);
    let runtimes = vec!["crun".to_owned(), "runc".to_owned()];
    let folder = cell.close().await;
    let mut cell = Cell::open(folder, |config| config.sandbox = Sandbox::Oci { stacks, runtimes });
    assert_eq!(cell.executor.get(&guid).unwrap().state, State::Running);
    fs::write(cell.root(&guid).join("home/end"), "").unwrap();
    assert_eq!(cell.end(&guid).await, "failed APP: Exited with status 4");
    let root = cell.root(&guid);
    cell.delete(&guid).await;
    assert!(!root.exists());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&root.display().to_string()));
    let state = cell.folder.path().join("cell/oci/app-action");
    wait_for(|| (!state.exists()).then_some(())).await;
}

#[tokio::test]
async fn a_container_that_is_deleted_leaves_no_process() {
    let mut cell = cell(&["crun", "runc"]);
    if cell.executor.health().is_err() {
        return;
    }
    // The first process of a container ignores what it does not expect, so that it has to be killed.
    let guid = cell.run("stubborn", spec(shell("while :; do sleep 0.05; done"))).await;
    cell.state(&guid, State::Running).await;
    cell.executor.stop(&guid).await.unwrap();
    assert_eq!(cell.end(&guid).await, "failed stopped exceeded graceful shutdown interval");
    cell.delete(&guid).await;
    let mine = fs::read_dir(cell.folder.path().join("cell/containers")).unwrap().count();
    assert_eq!(mine, 0);
}
