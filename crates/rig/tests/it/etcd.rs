//! Clusters live as long as their value and not a moment longer; what is done to a member is done to that member.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rig::etcd::{Cluster, Options};
use tokio::time::Instant;

use crate::{PATIENCE, eventually, is_alive};

/// Set for the process that a test starts in order to kill it.
const VICTIM: &str = "CORKBOARD_RIG_VICTIM";

fn three() -> Cluster {
    Cluster::start(Options { members: 3, ..Options::default() })
}

#[test]
fn a_member_that_was_killed_comes_back_with_its_data_and_its_address() {
    let cluster = Cluster::start(Options::default());
    let endpoints = cluster.endpoints();
    assert_eq!(endpoints, [format!("http://{}", cluster.address(0))]);
    cluster.ctl(&["put", "a", "1"]);
    let pid = cluster.pid(0).unwrap();
    assert!(is_alive(pid));

    cluster.kill(0);
    assert!(!cluster.is_running(0) && cluster.pid(0).is_none());
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "killed and reaped");
    assert!(std::net::TcpStream::connect(cluster.address(0)).is_err());
    cluster.kill(0);

    cluster.restart(0);
    cluster.wait_until_ready(PATIENCE);
    assert_eq!(cluster.endpoints(), endpoints);
    assert_eq!(cluster.ctl(&["get", "a", "--print-value-only"]), "1\n");
}

#[test]
fn three_members_elect_another_leader_when_one_is_killed_or_paused() {
    let cluster = three();
    let first = cluster.leader();
    cluster.kill(first);
    let second = cluster.leader();
    assert_ne!(second, first);
    cluster.restart(first);
    cluster.wait_until_ready(PATIENCE);

    cluster.pause(second);
    assert!(cluster.is_running(second));
    let third = cluster.leader();
    assert_ne!(third, second);
    assert_eq!(cluster.ctl(&["put", "while", "paused"]), "OK\n");
    cluster.resume(second);
    cluster.wait_until_ready(PATIENCE);
    assert_eq!(cluster.ctl_on(second, &["get", "while", "--print-value-only"]), "paused\n");
}

/// The threads of a process, each with one letter for what it does.
fn states(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap());
    stats.map(|stat| stat.rsplit(") ").next().unwrap().chars().next().unwrap()).collect()
}

#[test]
fn a_paused_member_stands_still_when_the_call_returns_again_and_again() {
    let cluster = Cluster::start(Options::default());
    let pid = cluster.pid(0).unwrap();
    for _ in 0..50 {
        cluster.pause(0);
        let paused = states(pid);
        assert!(paused.len() > 1 && paused.chars().all(|state| state == 'T'), "{paused}");
        cluster.resume(0);
    }
    cluster.wait_until_ready(PATIENCE);
}

#[test]
fn a_member_that_does_not_start_is_reported_at_once_with_its_log() {
    let refused = Options { heartbeat_ms: 100, election_timeout_ms: 200, ..Options::default() };
    let started = Instant::now();
    let reason = std::panic::catch_unwind(|| Cluster::start(refused)).unwrap_err().downcast::<String>().unwrap();
    assert!(reason.contains("etcd member 0 ended by itself") && reason.contains("election-timeout"), "{reason}");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

#[test]
fn a_member_that_ended_by_itself_is_missed() {
    let cluster = Cluster::start(Options::default());
    let pid = cluster.pid(0).unwrap().to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    eventually("the member is gone", || !cluster.is_running(0));
    let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cluster.wait_until_ready(PATIENCE)));
    let reason = waited.unwrap_err().downcast::<String>().unwrap();
    assert!(reason.contains("etcd member 0 ended by itself"), "{reason}");
}

#[test]
fn tls_and_users_are_demanded_and_etcdctl_has_both() {
    let user = Some(("corkboard".to_owned(), "a password: with a colon".to_owned()));
    let cluster = Cluster::start(Options { tls: true, user, ..Options::default() });
    assert!(cluster.endpoints()[0].starts_with("https://"));
    cluster.wait_until_ready(PATIENCE);
    cluster.ctl(&["put", "a", "1"]);
    assert_eq!(cluster.leader(), 0);

    let without = |flags: &[&str]| {
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args([&format!("--endpoints={}", cluster.endpoints()[0]), "--command-timeout=2s", "--dial-timeout=2s"])
            .arg(format!("--cacert={}", cluster.ca().display()))
            .args(flags)
            .args(["get", "a"])
            .output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let pair = [format!("--cert={}", cluster.cert().display()), format!("--key={}", cluster.key().display())];
    let (accepted, _) = without(&["--user=corkboard:a password: with a colon"]);
    assert!(!accepted, "without a certificate");
    let (accepted, reason) = without(&[&pair[0], &pair[1]]);
    assert!(!accepted && reason.contains("etcdserver"), "without a user: {reason}");
    let (accepted, reason) = without(&[&pair[0], &pair[1], "--user=corkboard:a password: with a colon"]);
    assert!(accepted, "{reason}");
}

#[test]
fn three_members_with_tls_between_them_agree() {
    let cluster = Cluster::start(Options { members: 3, tls: true, ..Options::default() });
    cluster.ctl_on(0, &["put", "a", "1"]);
    assert_eq!(cluster.ctl_on(2, &["get", "a", "--print-value-only"]), "1\n");
}

#[test]
fn a_full_database_raises_the_alarm() {
    let cluster = Cluster::start(Options { quota_bytes: Some(64 * 1024), ..Options::default() });
    let value = "x".repeat(60 * 1024);
    let full = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for key in ["a", "b", "c", "d"] {
            cluster.ctl(&["put", key, &value]);
        }
    }));
    let reason = full.unwrap_err().downcast::<String>().unwrap();
    assert!(reason.contains("database space exceeded"), "{reason}");
    assert!(cluster.ctl(&["alarm", "list"]).contains("NOSPACE"));
}

#[test]
fn dropping_a_cluster_ends_its_members_paused_ones_too_and_so_does_a_panic() {
    for panics in [false, true] {
        let cluster = three();
        cluster.pause(1);
        let pids: Vec<_> = (0..3).map(|member| cluster.pid(member).unwrap()).collect();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = cluster;
            assert!(!panics, "on purpose");
        }));
        assert_eq!(ended.is_err(), panics);
        assert!(pids.iter().all(|pid| !is_alive(*pid)), "panics: {panics}");
    }
}

/// Plays both parts: the test, and the process that the test kills.
#[test]
fn no_member_outlives_a_test_that_is_killed() {
    if std::env::var_os(VICTIM).is_some() {
        let cluster = three();
        cluster.pause(2);
        let pids: Vec<_> = (0..3).map(|member| cluster.pid(member).unwrap().to_string()).collect();
        println!("\npids {}", pids.join(" "));
        std::thread::park();
        unreachable!("nobody wakes the victim");
    }
    // A process that is killed leaves its files, so they are kept where this one cleans up.
    let left = tempfile::TempDir::new().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "etcd::no_member_outlives_a_test_that_is_killed", "--nocapture"])
        .env(VICTIM, "1")
        .env("TMPDIR", left.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let pids =
        lines.find_map(|line| line.strip_prefix("pids ").map(str::to_owned)).expect("the victim names its children");
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("all members are gone", || pids.iter().all(|pid| !is_alive(*pid)));
}
