//! A cell in a folder of its own, and short words for what runs in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::models;
use corkboard_cell::executor::{
    CheckTimes, Container, ContainerGuid, Event, Executor, LocalConfig, LocalExecutor, LogConfig, Owner, Reservation,
    Room, RunSpec, Sandbox, State, recent,
};
use model::{ActualLrpKey, DomainName, InstanceGuid, ProcessGuid, TaskGuid};
use tokio::sync::broadcast::Receiver;

/// Nothing here takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Cell {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) executor: LocalExecutor,
    events: Receiver<Event>,
}

pub(crate) fn config(folder: &Path) -> LocalConfig {
    let total = Room { memory_mb: 1_024, disk_mb: 1_024, containers: 10 };
    let shim = vec![env!("CARGO_BIN_EXE_corkboard-shim").to_owned()];
    // Tests run beside each other, so that each has ports of its own.
    let first = 20_000 + (std::process::id() % 400) as u16 * 50;
    LocalConfig {
        host_ports: first..=first + 49,
        grace: Duration::from_millis(500),
        checks: CheckTimes {
            unhealthy_interval: Duration::from_millis(50),
            healthy_interval: Duration::from_millis(200),
            timeout: Duration::from_secs(1),
        },
        guard_interval: Duration::from_millis(50),
        ..LocalConfig::new(folder.join("cell"), total, shim)
    }
}

impl Cell {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut LocalConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Users that processes run as must come through.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
        Self::open(folder, change)
    }

    pub(crate) fn open(folder: tempfile::TempDir, change: impl FnOnce(&mut LocalConfig)) -> Self {
        let mut config = config(folder.path());
        change(&mut config);
        let executor = LocalExecutor::open(config).unwrap();
        let events = executor.events();
        Self { folder, executor, events }
    }

    /// The cell ends, and its containers go on.
    pub(crate) async fn close(self) -> tempfile::TempDir {
        self.executor.close().await;
        self.folder
    }

    pub(crate) async fn run(&mut self, name: &str, spec: RunSpec) -> ContainerGuid {
        self.run_in(name, Room { memory_mb: 256, disk_mb: 64, containers: 1 }, spec).await
    }

    pub(crate) async fn run_in(&mut self, name: &str, room: Room, spec: RunSpec) -> ContainerGuid {
        let reservation = reservation(name, room);
        let guid = reservation.owner.container();
        self.executor.reserve(reservation).unwrap();
        self.executor.run(&guid, spec).await.unwrap();
        guid
    }

    /// Waits until a container is as wanted, and gives it.
    pub(crate) async fn until(&mut self, guid: &ContainerGuid, wanted: impl Fn(&Container) -> bool) -> Arc<Container> {
        let wait = async {
            loop {
                if let Some(container) = self.executor.get(guid).filter(|container| wanted(container)) {
                    return container;
                }
                self.events.recv().await.unwrap();
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(container) => container,
            Err(_) => panic!("it is {:?}\n{}", self.executor.get(guid), self.log(guid).join("\n")),
        }
    }

    pub(crate) async fn state(&mut self, guid: &ContainerGuid, state: State) -> Arc<Container> {
        self.until(guid, |container| container.state == state).await
    }

    /// How it ended: whether it failed, was stopped, and the reason.
    pub(crate) async fn end(&mut self, guid: &ContainerGuid) -> String {
        let ending = self.state(guid, State::Completed).await.ending.clone().unwrap();
        let word = |is: bool, word: &str| if is { format!("{word} ") } else { String::new() };
        let words = word(ending.failed, "failed") + &word(ending.stopped, "stopped");
        format!("{words}{}{}", word(ending.retryable, "retryable"), ending.reason).trim().to_owned()
    }

    pub(crate) async fn delete(&mut self, guid: &ContainerGuid) {
        self.executor.delete(guid).await.unwrap();
        let wait = async {
            while self.executor.get(guid).is_some() {
                self.events.recv().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap();
    }

    /// What was written, as `<source> <text>`, without lines of the cell itself.
    pub(crate) fn log(&self, guid: &ContainerGuid) -> Vec<String> {
        let lines = recent(&self.folder.path().join("cell"), guid, 1_000).unwrap();
        let short = |line: &String| line.split_once(' ').unwrap().1.to_owned();
        lines.iter().map(short).collect()
    }

    /// Waits for a file in a container, and gives what is in it.
    pub(crate) async fn file(&self, guid: &ContainerGuid, path: &str) -> String {
        let path = self.root(guid).join(path);
        wait_for(|| fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))).await.trim().to_owned()
    }

    pub(crate) fn root(&self, guid: &ContainerGuid) -> PathBuf {
        self.folder.path().join("cell/containers").join(guid.as_str()).join("root")
    }
}

/// For what has no event: other processes and their files.
pub(crate) async fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap()
}

pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn reservation(name: &str, room: Room) -> Reservation {
    let owner = Owner::Lrp {
        key: ActualLrpKey {
            process_guid: ProcessGuid::parse("process").unwrap(),
            index: 3,
            domain: DomainName::parse("domain").unwrap(),
        },
        instance: InstanceGuid::parse(name).unwrap(),
    };
    Reservation {
        owner,
        room,
        max_pids: 0,
        rootfs: "preloaded:cflinuxfs4".to_owned(),
        placement_tags: Vec::new(),
        volume_drivers: Vec::new(),
    }
}

pub(crate) fn task(name: &str) -> Reservation {
    let guid = TaskGuid::parse(name).unwrap();
    let owner = Owner::Task { guid, domain: DomainName::parse("domain").unwrap() };
    Reservation { owner, ..reservation("x", Room { memory_mb: 10, disk_mb: 10, containers: 1 }) }
}

pub(crate) fn shell(script: &str) -> models::Action {
    let run_action = models::RunAction {
        path: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        ..Default::default()
    };
    models::Action { run_action: Some(run_action), ..Default::default() }
}

pub(crate) fn serial(actions: Vec<models::Action>) -> models::Action {
    let serial = models::SerialAction { actions, log_source: String::new() };
    models::Action { serial_action: Some(serial), ..Default::default() }
}

pub(crate) fn spec(action: models::Action) -> RunSpec {
    RunSpec {
        env: Vec::new(),
        setup: None,
        action: Some(action),
        monitor: None,
        check_definition: None,
        sidecars: Vec::new(),
        start_timeout_ms: 0,
        ports: Vec::new(),
        privileged: false,
        cpu_weight: 0,
        log: LogConfig { source: "APP".to_owned(), index: 3, bytes_per_s_max: -1, ..LogConfig::default() },
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

pub(crate) fn run_as(config: &mut LocalConfig, user: &str) {
    let run_as = Some(user.to_owned());
    config.sandbox = Sandbox::Process { stacks: vec!["cflinuxfs4".to_owned()], run_as };
}
