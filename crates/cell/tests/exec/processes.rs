//! Processes in containers: how they are started, what they are told, how they end, and that nothing is left of them.

use std::fs;
use std::time::Duration;

use api::models;
use corkboard_cell::executor::{Executor, ExecutorError, Room, RunSpec, State};

use crate::cell::{Cell, is_alive, is_root, reservation, run_as, serial, shell, spec, task, wait_for};

const ROOM: Room = Room { memory_mb: 256, disk_mb: 64, containers: 1 };

#[tokio::test]
async fn a_process_writes_and_ends() {
    let mut cell = Cell::new();
    let mut lines = cell.executor.logs();
    let guid = cell.run("one", spec(shell("echo out; echo err >&2; printf 'no newline'; exit 3"))).await;
    assert_eq!(cell.end(&guid).await, "failed APP: Exited with status 3");
    let mut log = cell.log(&guid);
    // The two pipes are read side by side.
    log.sort();
    assert_eq!(log, ["[APP/3] ERR err", "[APP/3] OUT Exit status 3", "[APP/3] OUT no newline", "[APP/3] OUT out"],);
    let heard = lines.recv().await.unwrap();
    assert!(heard.container == guid && heard.source.as_ref() == "APP" && heard.at_ns > 0);
    cell.delete(&guid).await;
    assert_eq!(cell.log(&guid).len(), 4);
    assert!(!cell.root(&guid).exists());
}

#[tokio::test]
async fn success_and_killing_signals_are_told_apart() {
    let mut cell = Cell::new();
    for (name, script, ending) in [
        ("well", "exit 0", ""),
        ("killed", "kill -9 $$", "failed APP: Exited with status 137"),
        ("segv", "kill -SEGV $$", "failed APP: Exited with status 139"),
    ] {
        let guid = cell.run(name, spec(shell(script))).await;
        assert_eq!(cell.end(&guid).await, ending);
    }
    let missing = models::RunAction { path: "/no/such/program".to_owned(), ..Default::default() };
    let missing = models::Action { run_action: Some(missing), ..Default::default() };
    let guid = cell.run("missing", spec(missing)).await;
    let ending = cell.end(&guid).await;
    assert!(ending.starts_with("failed /no/such/program in ") && ending.contains("No such file"), "{ending}");
    // A shim that is done is not left behind as a zombie.
    wait_for(|| (zombies() == 0).then_some(())).await;
}

#[tokio::test]
async fn the_environment_tells_who_and_where_it_is() {
    let mut cell = Cell::new();
    let variable = |name: &str, value: &str| models::EnvironmentVariable { name: name.into(), value: value.into() };
    let mut action = shell("env | sort > env; pwd >> env; echo >> env");
    let run = action.run_action.as_mut().unwrap();
    run.env = vec![variable("WHO", "action"), variable("PORT", "8080")];
    run.dir = "/home/app".to_owned();
    let mut given = RunSpec { ports: vec![8080, 2222], ..spec(action) };
    given.env = vec![variable("WHO", "container"), variable("ONLY", "container")];
    let guid = cell.run("env", given).await;
    cell.state(&guid, State::Completed).await;
    let container = cell.executor.get(&guid).unwrap();
    let [http, ssh] = &container.ports[..] else { panic!("{:?}", container.ports) };
    assert_eq!((http.container, ssh.container), (8080, 2222));
    let root = fs::canonicalize(cell.root(&guid)).unwrap();
    let written = fs::read_to_string(root.join("home/app/env")).unwrap();
    let expected = [
        "CF_INSTANCE_GUID=env".to_owned(),
        "CF_INSTANCE_INDEX=3".to_owned(),
        "CF_INSTANCE_IP=127.0.0.1".to_owned(),
        format!("CF_INSTANCE_ADDR=127.0.0.1:{}", http.host),
        format!("CF_INSTANCE_PORT={}", http.host),
        format!(
            r#"CF_INSTANCE_PORTS=[{{"external":{},"internal":8080}},{{"external":{},"internal":2222}}]"#,
            http.host, ssh.host
        ),
        "INSTANCE_GUID=env".to_owned(),
        "INSTANCE_INDEX=3".to_owned(),
        "ONLY=container".to_owned(),
        "WHO=action".to_owned(),
        format!("PORT={}", http.host),
        format!("PORT_2222={}", ssh.host),
        root.join("home/app").display().to_string(),
    ];
    for line in expected {
        assert!(written.lines().any(|found| found == line), "{line} is not in:\n{written}");
    }
    // Nothing of the cell's own environment comes through.
    assert!(!written.contains("CARGO"));
}

#[tokio::test]
async fn stopping_asks_first_and_kills_later() {
    let mut cell = Cell::new();
    let polite = cell
        .run("polite", spec(shell("trap 'echo bye; exit 0' TERM; echo $$ > pid; while :; do sleep 0.05; done")))
        .await;
    let rude = cell.run("rude", spec(shell("trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"))).await;
    let [polite_pid, rude_pid] = [cell.file(&polite, "pid").await, cell.file(&rude, "pid").await];
    for guid in [&polite, &rude] {
        cell.executor.stop(guid).await.unwrap();
        cell.executor.stop(guid).await.unwrap();
    }
    assert_eq!(cell.end(&polite).await, "failed stopped cancelled");
    assert!(cell.log(&polite).contains(&"[APP/3] OUT bye".to_owned()));
    assert_eq!(cell.end(&rude).await, "failed stopped exceeded graceful shutdown interval");
    let last = cell.log(&rude).pop().unwrap();
    assert_eq!(last, "[APP/3] OUT Exit status 137 (exceeded 500ms graceful shutdown interval)");
    assert!(!is_alive(&polite_pid) && !is_alive(&rude_pid));
}

#[tokio::test]
async fn nothing_outlives_its_container() {
    let mut cell = Cell::new();
    let script = "
        (trap '' TERM HUP; echo $$ > /dev/null; sh -c 'echo $$ > child; exec sleep 1000') &
        setsid sh -c 'trap \"\" TERM HUP; setsid sleep 1000 & echo $! > grandchild; exec sleep 1000' &
        while :; do sleep 0.05; done";
    let guid = cell.run("family", spec(shell(script))).await;
    let pids = [cell.file(&guid, "child").await, cell.file(&guid, "grandchild").await];
    assert!(pids.iter().all(|pid| is_alive(pid)));
    cell.delete(&guid).await;
    assert!(!pids.iter().any(|pid| is_alive(pid)), "{pids:?}");

    let guid = cell.run("left", spec(shell("setsid sleep 1000 & echo $! > daemon"))).await;
    let daemon = cell.file(&guid, "daemon").await;
    assert_eq!(cell.end(&guid).await, "");
    assert!(!is_alive(&daemon));
}

#[tokio::test]
async fn setup_then_action_and_monitor() {
    let mut cell = Cell::new();
    let given = RunSpec {
        setup: Some(serial(vec![shell("echo 1 > order"), shell("echo 2 >> order")])),
        monitor: Some(shell("test -f healthy || { echo not yet; exit 1; }")),
        ..spec(shell("echo 3 >> order; sleep 0.2; echo 4 >> order; touch healthy; while :; do sleep 0.05; done"))
    };
    let guid = cell.run("app", given).await;
    let container = cell.state(&guid, State::Running).await;
    assert!(container.is_routable);
    assert_eq!(fs::read_to_string(cell.root(&guid).join("order")).unwrap(), "1\n2\n3\n4\n");
    fs::remove_file(cell.root(&guid).join("healthy")).unwrap();
    assert_eq!(cell.end(&guid).await, "failed Instance became unhealthy: not yet");
    let steps = fs::read_dir(cell.root(&guid).with_file_name("steps")).unwrap();
    let names: Vec<String> = steps.map(|step| step.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.starts_with("monitor")), "{names:?}");
}

#[tokio::test]
async fn checks_reach_the_port_that_the_app_was_told() {
    let mut cell = Cell::new();
    let http = models::HttpCheck { port: 8080, path: "/".to_owned(), ..Default::default() };
    let check = models::Check { http_check: Some(http), tcp_check: None };
    let ready = models::HttpCheck { port: 8080, path: "/ready".to_owned(), interval_ms: 50, ..Default::default() };
    let ready = models::Check { http_check: Some(ready), tcp_check: None };
    let checks = models::CheckDefinition { checks: vec![check], readiness_checks: vec![ready], ..Default::default() };
    let given = RunSpec {
        ports: vec![8080],
        check_definition: Some(checks),
        start_timeout_ms: 20_000,
        ..spec(shell("exec python3 -m http.server --bind 127.0.0.1 $PORT"))
    };
    let guid = cell.run("web", given).await;
    assert!(!cell.state(&guid, State::Running).await.is_routable);
    fs::write(cell.root(&guid).join("ready"), "").unwrap();
    cell.until(&guid, |container| container.is_routable).await;
    fs::remove_file(cell.root(&guid).join("ready")).unwrap();
    cell.until(&guid, |container| !container.is_routable && container.state == State::Running).await;
    cell.executor.stop(&guid).await.unwrap();
    assert_eq!(cell.end(&guid).await, "stopped");
}

#[tokio::test]
async fn processes_run_as_who_the_action_says() {
    let mut cell = Cell::new();
    let as_user = |user: &str| {
        let mut action = shell("id -u > uid; id -G >> uid; echo >> uid");
        action.run_action.as_mut().unwrap().user = user.to_owned();
        spec(action)
    };
    let nobody = cell.run("nobody", as_user("nobody")).await;
    assert_eq!(cell.end(&nobody).await, "");
    let uid = cell.file(&nobody, "uid").await;
    let stranger = cell.run("stranger", as_user("no-such-user")).await;
    let ending = cell.end(&stranger).await;
    if is_root() {
        assert_eq!(uid, "65534\n65534");
        assert!(
            ending.contains("there is no user no-such-user on this machine; create it (useradd --system no-such-user)"),
            "{ending}"
        );
        let mut other = Cell::with(|config| run_as(config, "nobody"));
        let guid = other.run("any", as_user("no-such-user")).await;
        assert_eq!(other.end(&guid).await, "");
        assert_eq!(other.file(&guid, "uid").await, "65534\n65534");
    } else {
        // A cell that is not root can be nobody else, and says so by being itself.
        assert_eq!(uid.lines().next(), Some(rustix::process::geteuid().as_raw().to_string().as_str()));
        assert_eq!(ending, "");
    }
}

#[tokio::test]
async fn open_files_are_limited() {
    let mut cell = Cell::new();
    let mut action = shell("ulimit -n > limit");
    let limits = models::ResourceLimits { nofile: Some(123), ..Default::default() };
    action.run_action.as_mut().unwrap().resource_limits = Some(limits);
    let guid = cell.run("few", spec(action)).await;
    assert_eq!(cell.end(&guid).await, "");
    assert_eq!(cell.file(&guid, "limit").await, "123");
}

#[tokio::test]
async fn results_are_read_from_the_container_and_nowhere_else() {
    let mut cell = Cell::new();
    let reservation = task("task/with a slash");
    let guid = reservation.owner.container();
    cell.executor.reserve(reservation).unwrap();
    cell.executor
        .run(&guid, spec(shell("echo result > r; ln -s /etc/passwd link; mkfifo pipe; sleep 0.3")))
        .await
        .unwrap();
    let early = cell.executor.file(&guid, "r", 100).await;
    assert!(matches!(early, Err(ExecutorError::WrongState { .. })), "{early:?}");
    assert_eq!(cell.end(&guid).await, "");
    assert_eq!(cell.executor.file(&guid, "/r", 100).await.unwrap(), "result\n");
    for (path, why) in [("/r", "longer"), ("/link", "No such file"), ("/pipe", "not a file"), ("/missing", "No such")] {
        let bytes_max = if why == "longer" { 3 } else { 100 };
        let error = cell.executor.file(&guid, path, bytes_max).await.unwrap_err().to_string();
        assert!(error.contains(why), "{path}: {error}");
    }
    cell.delete(&guid).await;
}

#[tokio::test]
async fn room_is_reserved_and_given_back() {
    let mut cell = Cell::with(|config| {
        config.total = Room { memory_mb: 100, disk_mb: 100, containers: 2 };
        config.reservation_max = Duration::from_millis(300);
    });
    let room = |memory_mb, disk_mb| Room { memory_mb, disk_mb, containers: 1 };
    let refusal = |cell: &Cell, name, room| cell.executor.reserve(reservation(name, room)).unwrap_err().to_string();
    cell.executor.reserve(reservation("a", room(60, 60))).unwrap();
    assert_eq!(cell.executor.remaining(), Room { memory_mb: 40, disk_mb: 40, containers: 1 });
    assert_eq!(refusal(&cell, "a", room(1, 1)), "there is a container a already");
    assert_eq!(refusal(&cell, "b", room(41, 1)), "there is not room enough: memory");
    assert_eq!(refusal(&cell, "b", room(1, 41)), "there is not room enough: disk");
    cell.executor.reserve(reservation("b", room(0, 0))).unwrap();
    assert_eq!(refusal(&cell, "c", room(0, 0)), "there is not room enough: containers");
    let guid = reservation("a", ROOM).owner.container();
    assert_eq!(cell.end(&guid).await, "failed expired container");
    let late = cell.executor.run(&guid, spec(shell("true"))).await.unwrap_err().to_string();
    assert_eq!(late, "container a is Completed, so that it cannot be run");
    cell.delete(&guid).await;
    assert_eq!(cell.executor.remaining().memory_mb, 100);
    assert!(matches!(cell.executor.stop(&guid).await, Err(ExecutorError::Unknown { .. })));
    let other = reservation("b", ROOM).owner.container();
    cell.delete(&other).await;
}

#[tokio::test]
async fn one_that_is_stopped_before_it_runs_never_does() {
    let mut cell = Cell::new();
    cell.executor.reserve(reservation("early", ROOM)).unwrap();
    let guid = reservation("early", ROOM).owner.container();
    cell.executor.stop(&guid).await.unwrap();
    assert_eq!(cell.end(&guid).await, "failed stopped stopped-before-running");
}

#[tokio::test]
async fn who_writes_too_much_is_silenced() {
    let mut cell = Cell::new();
    let mut given = spec(shell("i=0; while [ $i -lt 100 ]; do echo 0123456789; i=$((i+1)); done"));
    given.log.bytes_per_s_max = 100;
    let guid = cell.run("loud", given).await;
    assert_eq!(cell.end(&guid).await, "");
    let log = cell.log(&guid);
    assert_eq!(log.iter().filter(|line| line.ends_with("0123456789")).count(), 10);
    assert_eq!(log.iter().filter(|line| line.contains("exceeded log rate limit (100 bytes/sec)")).count(), 1);
}

#[tokio::test]
async fn output_that_nobody_reads_does_not_stop_the_app() {
    let mut cell = Cell::new();
    let script = "i=0; while [ $i -lt 40000 ]; do echo a line that is long enough to fill the files of the shim soon; \
                  i=$((i+1)); done; echo done > done; while :; do sleep 0.05; done";
    let guid = cell.run("chatty", spec(shell(script))).await;
    cell.state(&guid, State::Running).await;
    let folder = cell.close().await;
    let done = folder.path().join("cell/containers/chatty/root/done");
    wait_for(|| done.exists().then_some(())).await;
    let bytes = |name| fs::metadata(done.with_file_name("../steps/action").join(name)).unwrap().len();
    assert!(bytes("output") < 1_200_000 && bytes("output.old") < 1_200_000);
    let mut cell = Cell::open(folder, |_| {});
    cell.delete(&guid).await;
}

/// Children of this very process that ended and that nobody asked for.
fn zombies() -> usize {
    let own = format!(" Z {} ", std::process::id());
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    processes.filter(|stat| stat.contains(&own)).count()
}
