//! The promises of an executor, and what only this one can be told.

use model::{DomainName, TaskGuid};

use super::*;

const ROOM: Room = Room { memory_mb: 100, disk_mb: 100, containers: 3 };

fn reservation(guid: &str, memory_mb: i32) -> Reservation {
    let owner = Owner::Task { guid: TaskGuid::parse(guid).unwrap(), domain: DomainName::parse("d").unwrap() };
    let room = Room { memory_mb, disk_mb: 10, containers: 1 };
    let (placement_tags, volume_drivers) = (Vec::new(), Vec::new());
    Reservation { owner, room, max_pids: 0, rootfs: "preloaded:s".into(), placement_tags, volume_drivers }
}

fn guid(name: &str) -> ContainerGuid {
    ContainerGuid::of_task(&TaskGuid::parse(name).unwrap())
}

fn spec() -> RunSpec {
    RunSpec {
        env: Vec::new(),
        setup: None,
        action: None,
        monitor: None,
        check_definition: None,
        sidecars: Vec::new(),
        start_timeout_ms: 0,
        ports: vec![8080],
        privileged: false,
        cpu_weight: 0,
        log: Default::default(),
        cached_dependencies: Vec::new(),
        image_layers: Vec::new(),
        legacy_download_user: String::new(),
        egress_rules: Vec::new(),
        volume_mounts: Vec::new(),
        volume_mounted_files: Vec::new(),
        image_username: String::new(),
        image_password: String::new(),
        result_file: String::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn states_come_in_order_and_each_is_told() {
    let executor = SimulatedExecutor::new(ROOM, &["s"], Behaviour::default(), 0);
    let mut events = executor.events();
    executor.reserve(reservation("t", 10)).unwrap();
    executor.run(&guid("t"), spec()).await.unwrap();
    let mut states = Vec::new();
    while states.last() != Some(&State::Completed) {
        if let Event::Changed(container) = events.recv().await.unwrap() {
            states.push(container.state);
        }
    }
    let ordered = [State::Reserved, State::Initializing, State::Created, State::Running, State::Completed];
    assert_eq!(states, ordered);
    assert_eq!(executor.file(&guid("t"), "/result", 10).await.unwrap(), "done");
    assert!(executor.file(&guid("t"), "/result", 3).await.is_err());
    executor.delete(&guid("t")).await.unwrap();
    assert_eq!(events.recv().await.unwrap(), Event::Deleted(guid("t")));
    assert_eq!((executor.list().len(), executor.remaining()), (0, ROOM));
}

#[tokio::test(start_paused = true)]
async fn room_is_never_given_twice() {
    let executor = SimulatedExecutor::new(ROOM, &[], Behaviour::default(), 0);
    executor.reserve(reservation("a", 60)).unwrap();
    let refused = |name: &str, memory| executor.reserve(reservation(name, memory)).unwrap_err().to_string();
    assert_eq!(refused("b", 50), "there is not room enough: memory");
    assert_eq!(refused("a", 1), "there is a container a already");
    executor.reserve(reservation("b", 20)).unwrap();
    executor.reserve(reservation("c", 20)).unwrap();
    assert_eq!(refused("d", 0), "there is not room enough: containers");
    assert_eq!(executor.remaining(), Room { memory_mb: 0, disk_mb: 70, containers: 0 });
}

#[tokio::test(start_paused = true)]
async fn what_was_run_is_not_run_again_and_a_stop_ends_it_once() {
    let executor = SimulatedExecutor::new(ROOM, &[], Behaviour::default(), 0);
    executor.reserve(reservation("a", 1)).unwrap();
    executor.run(&guid("a"), spec()).await.unwrap();
    assert!(matches!(executor.run(&guid("a"), spec()).await, Err(ExecutorError::WrongState { .. })));
    executor.stop(&guid("a")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let ending = executor.get(&guid("a")).unwrap().ending.clone().unwrap();
    assert_eq!((ending.stopped, ending.failed), (true, false));
    assert!(matches!(executor.stop(&guid("b")).await, Err(ExecutorError::Unknown { .. })));
}

/// What makes a thousand cells in one process possible: a container costs an entry, not a task.
#[tokio::test(start_paused = true)]
async fn a_thousand_executors_run_twenty_thousand_containers_with_a_task_each() {
    let room = Room { memory_mb: 1000, disk_mb: 1000, containers: 20 };
    let executors: Vec<_> = (0..1000).map(|_| SimulatedExecutor::new(room, &[], Behaviour::default(), 0)).collect();
    for executor in &executors {
        for number in 0..20 {
            let name = format!("t-{number}");
            executor.reserve(reservation(&name, 1)).unwrap();
            executor.run(&guid(&name), spec()).await.unwrap();
        }
    }
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(tasks <= 1001, "{tasks} tasks");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let completed = |executor: &Arc<SimulatedExecutor>| {
        executor.list().iter().filter(|container| container.state == State::Completed).count()
    };
    assert_eq!(executors.iter().map(completed).sum::<usize>(), 20_000);
    drop(executors);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}
