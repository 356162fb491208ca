//! What containers use, and the end of those that use too much.

use std::time::Duration;

use corkboard_cell::executor::{Executor, Room, State};

use crate::cell::{Cell, reservation, shell, spec, wait_for};

#[tokio::test]
async fn too_much_memory_is_the_end() {
    let mut cell = Cell::with(|config| config.control_groups = false);
    let room = Room { memory_mb: 48, disk_mb: 64, containers: 1 };
    let hungry = "exec python3 -c 'import time\nx = bytearray(100 * 1024 * 1024)\ntime.sleep(60)'";
    let guid = cell.run_in("hungry", room, spec(shell(hungry))).await;
    assert_eq!(cell.end(&guid).await, "failed APP: Exited with status 137 (out of memory)");
    let modest = "exec python3 -c 'x = bytearray(10 * 1024 * 1024)\nimport time\ntime.sleep(0.3)'";
    let guid = cell.run_in("modest", room, spec(shell(modest))).await;
    assert_eq!(cell.end(&guid).await, "");
}

#[tokio::test]
async fn the_kernel_keeps_limits_where_it_can() {
    let never = Duration::from_secs(3_600);
    let mut cell = Cell::with(|config| config.guard_interval = never);
    if let Err(why) = cell.executor.control_groups() {
        assert!(why.contains("control group"), "{why}");
        return;
    }
    let mut reservation = reservation("within", Room { memory_mb: 48, disk_mb: 64, containers: 1 });
    reservation.max_pids = 4;
    let guid = reservation.owner.container();
    cell.executor.reserve(reservation).unwrap();
    let script = "(for i in 1 2 3 4 5 6; do sleep 0.2 & done) 2>/dev/null || echo no more processes
        exec python3 -c 'x = bytearray(100 * 1024 * 1024)'";
    cell.executor.run(&guid, spec(shell(script))).await.unwrap();
    assert_eq!(cell.end(&guid).await, "failed APP: Exited with status 137 (out of memory)");
    assert!(cell.log(&guid).contains(&"[APP/3] OUT no more processes".to_owned()));
    cell.delete(&guid).await;
    let groups = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mut folders =
        groups.lines().filter(|line| line.contains(" cgroup")).map(|line| line.split(' ').nth(1).unwrap());
    assert!(!folders.any(|folder| holds(folder.as_ref(), "-within")));
}

/// Whether there is a folder whose name ends so somewhere below another.
fn holds(folder: &std::path::Path, name: &str) -> bool {
    let below = std::fs::read_dir(folder).into_iter().flatten().flatten();
    below
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .any(|entry| entry.file_name().to_string_lossy().ends_with(name) || holds(&entry.path(), name))
}

#[tokio::test]
async fn too_much_disk_is_the_end() {
    let mut cell = Cell::new();
    let room = Room { memory_mb: 48, disk_mb: 1, containers: 1 };
    let guid = cell.run_in("fat", room, spec(shell("head -c 5000000 /dev/zero > fat; sleep 60"))).await;
    let ending = cell.end(&guid).await;
    assert!(ending.starts_with("failed it had 4 MB on its disk and may have 1 MB"), "{ending}");
}

#[tokio::test]
async fn too_many_processes_are_the_end() {
    let mut cell = Cell::with(|config| config.control_groups = false);
    let mut reservation = reservation("many", Room { memory_mb: 48, disk_mb: 10, containers: 1 });
    reservation.max_pids = 5;
    let guid = reservation.owner.container();
    cell.executor.reserve(reservation).unwrap();
    let many = "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait";
    cell.executor.run(&guid, spec(shell(many))).await.unwrap();
    let ending = cell.end(&guid).await;
    assert!(ending.starts_with("failed it had ") && ending.ends_with(" processes and may have 5"), "{ending}");
}

#[tokio::test]
async fn usage_is_of_everything_in_the_container() {
    let mut cell = Cell::new();
    let busy =
        "exec python3 -c 'x = bytearray(20 * 1024 * 1024)\nopen(\"ready\", \"w\").write(\"1\\n\")\nwhile True: pass'";
    let guid = cell.run("busy", spec(shell(busy))).await;
    cell.state(&guid, State::Running).await;
    cell.file(&guid, "ready").await;
    let mut most = 0.0_f64;
    let usage = loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let usage = cell.executor.usage().await.remove(&guid).unwrap();
        most = most.max(usage.cpu_fraction);
        if most > 0.1 && usage.disk_bytes > 0 {
            break usage;
        }
    };
    assert!(usage.memory_bytes > 20 << 20 && usage.memory_bytes < 100 << 20, "{usage:?}");
    assert_eq!((usage.memory_quota_bytes, usage.disk_quota_bytes), (256 << 20, 64 << 20));
    cell.delete(&guid).await;
    wait_for(|| Some(())).await;
    assert!(cell.executor.usage().await.is_empty());
}
