//! An executor without processes: containers that only go through their states, as fast or as slowly as they are told.
//!
//! For tests, and for a thousand cells in one process: a container is an entry in a map and one in a timetable, and a single
//! task moves all containers of an executor along. Time is tokio's, so a test may stop it. Containers outlive the rep that
//! uses the executor, as those of a real one do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use model::Nanos;
use tokio::sync::{Notify, broadcast};
use tokio::time::{Instant, sleep_until};

use super::{
    Container, ContainerGuid, Ending, Event, Executor, ExecutorError, KeptLines, Later, LogConfig, LogLine, LogsWanted,
    Owner, Port, Reservation, Room, RunSpec, State, Update, Usage,
};

/// Events that a listener may be behind before it hears that it missed some.
const EVENTS_BEHIND_MAX: usize = 4096;
const LINES_BEHIND_MAX: usize = 64;
/// Of all containers together; older lines are forgotten.
const LINES_KEPT_MAX: usize = 20_000;
/// Host ports are given out from here on and come round again: nobody listens there.
const HOST_PORT_FIRST: u16 = 61_000;
const HOST_PORTS: u16 = 4_000;
const ADDRESS: &str = "10.255.0.1";
const BYTES_PER_MB: u64 = 1024 * 1024;

/// How containers behave. Of those that are already on their way, what was drawn up stays.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// From the call to run until the container is made.
    pub create: Duration,
    /// From then until it runs, for an instance until its health check passed.
    pub start: Duration,
    /// From then until it is routable. Zero: at once.
    pub ready: Duration,
    /// How long a task runs.
    pub task: Duration,
    /// What is in the result file of a task.
    pub result: Bytes,
    /// After how long an instance crashes, if it does.
    pub crash_after: Option<Duration>,
    /// How long something takes to end when it is asked to.
    pub stop: Duration,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            create: Duration::from_millis(50),
            start: Duration::from_millis(50),
            ready: Duration::ZERO,
            task: Duration::from_millis(200),
            result: Bytes::from_static(b"done"),
            crash_after: None,
            stop: Duration::from_millis(10),
        }
    }
}

pub struct SimulatedExecutor {
    total: Room,
    stacks: Vec<String>,
    inside: Mutex<Inside>,
    changed: Arc<Notify>,
    events: broadcast::Sender<Event>,
    logs: broadcast::Sender<LogLine>,
    /// What the time is counted from.
    started: (Instant, Nanos),
}

struct Inside {
    behaviour: Behaviour,
    health: Result<(), String>,
    containers: HashMap<ContainerGuid, Simulated>,
    timetable: BinaryHeap<Reverse<(Instant, u64, ContainerGuid)>>,
    moves: HashMap<u64, Move>,
    move_last: u64,
    next_port: u16,
    runs: HashMap<ContainerGuid, usize>,
    lines: VecDeque<LogLine>,
}

struct Simulated {
    container: Arc<Container>,
    result: Bytes,
}

/// What happens to a container when its time has come.
#[derive(Clone, Debug)]
enum Move {
    Create,
    Run,
    Ready,
    End(Ending),
}

impl fmt::Debug for SimulatedExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedExecutor").field("containers", &self.inside().containers.len()).finish_non_exhaustive()
    }
}

impl SimulatedExecutor {
    /// Must be called in a runtime of tokio. `now_ns` is the time of day at this moment.
    pub fn new(total: Room, stacks: &[&str], behaviour: Behaviour, now_ns: Nanos) -> Arc<Self> {
        let inside = Inside {
            behaviour,
            health: Ok(()),
            containers: HashMap::new(),
            timetable: BinaryHeap::new(),
            moves: HashMap::new(),
            move_last: 0,
            next_port: 0,
            runs: HashMap::new(),
            lines: VecDeque::new(),
        };
        let executor = Arc::new(Self {
            total,
            stacks: stacks.iter().map(ToString::to_string).collect(),
            inside: Mutex::new(inside),
            changed: Arc::default(),
            events: broadcast::Sender::new(EVENTS_BEHIND_MAX),
            logs: broadcast::Sender::new(LINES_BEHIND_MAX),
            started: (Instant::now(), now_ns),
        });
        tokio::spawn(drive(Arc::downgrade(&executor), executor.changed.clone()));
        executor
    }

    pub fn set_behaviour(&self, behaviour: Behaviour) {
        self.inside().behaviour = behaviour;
    }

    /// Lets something in a container write a line. Times of lines are their numbers.
    pub fn say(&self, guid: &ContainerGuid, text: &str) {
        let mut inside = self.inside();
        let Some(owner) = inside.containers.get(guid).map(|simulated| simulated.container.owner.clone()) else {
            return;
        };
        let index = if let Owner::Lrp { key, .. } = &owner { key.index } else { 0 };
        let line = LogLine {
            container: guid.clone(),
            owner: Arc::new(owner),
            log: Arc::new(LogConfig { index, ..LogConfig::default() }),
            source: "APP".into(),
            is_error: false,
            at_ns: inside.lines.back().map_or(0, |line| line.at_ns) + 1,
            text: text.to_owned(),
        };
        if inside.lines.len() == LINES_KEPT_MAX {
            inside.lines.pop_front();
        }
        inside.lines.push_back(line.clone());
        let _ = self.logs.send(line);
    }

    pub fn set_health(&self, health: Result<(), String>) {
        self.inside().health = health;
    }

    /// Ends a container now, in any way. What is not there cannot be ended.
    pub fn end(&self, guid: &ContainerGuid, ending: Ending) {
        self.schedule(guid, Duration::ZERO, Move::End(ending));
    }

    /// Whether an instance is routable, from now on.
    pub fn set_routable(&self, guid: &ContainerGuid, is_routable: bool) {
        let mut inside = self.inside();
        if let Some(simulated) = inside.containers.get_mut(guid) {
            let container = Arc::make_mut(&mut simulated.container);
            container.is_routable = is_routable;
            self.tell(&simulated.container);
        }
    }

    /// How often a container was run, deleted ones included. More than once is a mistake of whoever ran it.
    pub fn runs(&self) -> BTreeMap<ContainerGuid, usize> {
        self.inside().runs.clone().into_iter().collect()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> Nanos {
        let (at, ns) = self.started;
        ns.saturating_add(Nanos::try_from(at.elapsed().as_nanos()).unwrap_or(Nanos::MAX))
    }

    fn tell(&self, container: &Arc<Container>) {
        // Nobody listens: then nobody is told.
        let _ = self.events.send(Event::Changed(container.clone()));
    }

    fn schedule(&self, guid: &ContainerGuid, after: Duration, what: Move) {
        self.inside().schedule(guid, after, what);
        self.changed.notify_one();
    }

    /// Makes all moves whose time has come; returns when the next one is due.
    fn advance(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut inside = self.inside();
        loop {
            let due = inside.timetable.peek().map(|Reverse((due, ..))| *due)?;
            if due > now {
                return Some(due);
            }
            if let Some(Reverse((_, number, guid))) = inside.timetable.pop()
                && let Some(what) = inside.moves.remove(&number)
                && let Some(container) = inside.make(&guid, what, self.now_ns())
            {
                self.tell(&container);
            }
        }
    }
}

/// Ends with the executor.
async fn drive(executor: Weak<SimulatedExecutor>, changed: Arc<Notify>) {
    while let Some(due) = executor.upgrade().map(|executor| executor.advance()) {
        match due {
            Some(due) => tokio::select! { () = changed.notified() => {}, () = sleep_until(due) => {} },
            None => changed.notified().await,
        }
    }
}

impl Drop for SimulatedExecutor {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

impl Inside {
    fn schedule(&mut self, guid: &ContainerGuid, after: Duration, what: Move) {
        self.move_last += 1;
        let number = self.move_last;
        self.moves.insert(number, what);
        self.timetable.push(Reverse((Instant::now() + after, number, guid.clone())));
    }

    /// The container afterwards, unless it did not change.
    fn make(&mut self, guid: &ContainerGuid, what: Move, now_ns: Nanos) -> Option<Arc<Container>> {
        let behaviour = self.behaviour.clone();
        let simulated = self.containers.get_mut(guid)?;
        let is_task = matches!(simulated.container.owner, Owner::Task { .. });
        let mut next = Vec::new();
        let container = Arc::make_mut(&mut simulated.container);
        match (what, container.state) {
            (Move::Create, State::Initializing) => {
                container.state = State::Created;
                next.push((behaviour.start, Move::Run));
            }
            (Move::Run, State::Created) => {
                container.state = State::Running;
                container.is_routable = behaviour.ready.is_zero();
                if !container.is_routable {
                    next.push((behaviour.ready, Move::Ready));
                }
                match (is_task, behaviour.crash_after) {
                    (true, _) => next.push((behaviour.task, Move::End(Ending::default()))),
                    (false, Some(after)) => {
                        let reason = "APP/PROC/WEB: Exited with status 1 (simulated)".to_owned();
                        let ending = Ending { failed: true, reason, ..Ending::default() };
                        next.push((after, Move::End(ending)));
                    }
                    (false, None) => {}
                }
            }
            (Move::Ready, State::Running) if !container.is_routable => container.is_routable = true,
            (Move::End(ending), state) if state != State::Completed => {
                container.state = State::Completed;
                container.is_routable = false;
                container.ending = Some(ending);
                simulated.result = behaviour.result;
            }
            _ => return None,
        }
        container.since_ns = now_ns;
        let container = simulated.container.clone();
        for (after, what) in next {
            self.schedule(guid, after, what);
        }
        Some(container)
    }

    /// A port of the host for each port of the container.
    fn ports(&mut self, ports: &[u16]) -> Vec<Port> {
        let mut give = |container: &u16| {
            let host = HOST_PORT_FIRST + self.next_port;
            self.next_port = (self.next_port + 1) % HOST_PORTS;
            Port { container: *container, host, ..Port::default() }
        };
        ports.iter().map(&mut give).collect()
    }

    fn get(&mut self, guid: &ContainerGuid) -> Result<&mut Simulated, ExecutorError> {
        self.containers.get_mut(guid).ok_or_else(|| ExecutorError::Unknown { guid: guid.clone() })
    }

    fn used(&self) -> Room {
        let rooms = self.containers.values().map(|simulated| simulated.container.reservation.room);
        rooms.fold(Room::default(), |sum, room| Room {
            memory_mb: sum.memory_mb.saturating_add(room.memory_mb),
            disk_mb: sum.disk_mb.saturating_add(room.disk_mb),
            containers: sum.containers.saturating_add(1),
        })
    }

    fn remaining(&self, total: Room) -> Room {
        let used = self.used();
        Room {
            memory_mb: total.memory_mb - used.memory_mb,
            disk_mb: total.disk_mb - used.disk_mb,
            containers: total.containers - used.containers,
        }
    }
}

impl Executor for SimulatedExecutor {
    fn total(&self) -> Room {
        self.total
    }

    fn remaining(&self) -> Room {
        self.inside().remaining(self.total)
    }

    fn stacks(&self) -> Vec<String> {
        self.stacks.clone()
    }

    fn health(&self) -> Result<(), String> {
        self.inside().health.clone()
    }

    fn reserve(&self, reservation: Reservation) -> Result<(), ExecutorError> {
        let mut inside = self.inside();
        let guid = reservation.owner.container();
        if inside.containers.contains_key(&guid) {
            return Err(ExecutorError::Exists { guid });
        }
        let remaining = inside.remaining(self.total);
        let room = [
            ("memory", reservation.room.memory_mb <= remaining.memory_mb),
            ("disk", reservation.room.disk_mb <= remaining.disk_mb),
            ("containers", remaining.containers >= 1),
        ];
        if let Some((what, _)) = room.into_iter().find(|(_, fits)| !fits) {
            return Err(ExecutorError::NoRoom { what });
        }
        let container = Arc::new(Container {
            guid: guid.clone(),
            owner: reservation.owner.clone(),
            reservation,
            state: State::Reserved,
            ending: None,
            ports: Vec::new(),
            address: ADDRESS.to_owned(),
            instance_address: ADDRESS.to_owned(),
            is_routable: false,
            internal_routes: Vec::new(),
            metric_tags: BTreeMap::new(),
            definition: None,
            since_ns: self.now_ns(),
        });
        inside.containers.insert(guid, Simulated { container: container.clone(), result: Bytes::new() });
        self.tell(&container);
        Ok(())
    }

    fn run<'a>(&'a self, guid: &'a ContainerGuid, spec: RunSpec) -> Later<'a, Result<(), ExecutorError>> {
        Box::pin(async move {
            let mut inside = self.inside();
            let ports = inside.ports(&spec.ports);
            let simulated = inside.get(guid)?;
            let state = simulated.container.state;
            if state != State::Reserved {
                return Err(ExecutorError::WrongState { guid: guid.clone(), state, what: "run" });
            }
            let container = Arc::make_mut(&mut simulated.container);
            (container.state, container.ports, container.since_ns) = (State::Initializing, ports, self.now_ns());
            let container = simulated.container.clone();
            *inside.runs.entry(guid.clone()).or_default() += 1;
            let create = inside.behaviour.create;
            inside.schedule(guid, create, Move::Create);
            self.tell(&container);
            self.changed.notify_one();
            Ok(())
        })
    }

    fn stop<'a>(&'a self, guid: &'a ContainerGuid) -> Later<'a, Result<(), ExecutorError>> {
        Box::pin(async move {
            let mut inside = self.inside();
            inside.get(guid)?;
            let after = inside.behaviour.stop;
            inside.schedule(guid, after, Move::End(Ending { stopped: true, ..Ending::default() }));
            self.changed.notify_one();
            Ok(())
        })
    }

    fn delete<'a>(&'a self, guid: &'a ContainerGuid) -> Later<'a, Result<(), ExecutorError>> {
        Box::pin(async move {
            let mut inside = self.inside();
            inside.get(guid)?;
            inside.containers.remove(guid);
            let _ = self.events.send(Event::Deleted(guid.clone()));
            Ok(())
        })
    }

    fn update<'a>(&'a self, guid: &'a ContainerGuid, update: Update) -> Later<'a, Result<(), ExecutorError>> {
        Box::pin(async move {
            let mut inside = self.inside();
            let container = Arc::make_mut(&mut inside.get(guid)?.container);
            if let Some(routes) = update.internal_routes {
                container.internal_routes = routes;
            }
            if let Some(tags) = update.metric_tags {
                container.metric_tags = tags;
            }
            container.definition = update.definition.or(container.definition);
            Ok(())
        })
    }

    fn get(&self, guid: &ContainerGuid) -> Option<Arc<Container>> {
        self.inside().containers.get(guid).map(|simulated| simulated.container.clone())
    }

    fn list(&self) -> Vec<Arc<Container>> {
        self.inside().containers.values().map(|simulated| simulated.container.clone()).collect()
    }

    fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    fn file<'a>(
        &'a self,
        guid: &'a ContainerGuid,
        path: &'a str,
        bytes_max: usize,
    ) -> Later<'a, Result<Bytes, ExecutorError>> {
        Box::pin(async move {
            let result = self.inside().get(guid)?.result.clone();
            if result.len() > bytes_max {
                let why = format!("it has {} bytes, and {bytes_max} are allowed", result.len());
                return Err(ExecutorError::File { guid: guid.clone(), path: path.to_owned(), why });
            }
            Ok(result)
        })
    }

    fn usage(&self) -> Later<'_, BTreeMap<ContainerGuid, Usage>> {
        let megabytes = |amount: i32| u64::try_from(amount).unwrap_or_default() * BYTES_PER_MB;
        let usage = |container: &Container| Usage {
            memory_quota_bytes: megabytes(container.reservation.room.memory_mb),
            disk_quota_bytes: megabytes(container.reservation.room.disk_mb),
            ..Usage::default()
        };
        let all = self.list();
        let running = all.iter().filter(|container| container.state == State::Running);
        let usage = running.map(|container| (container.guid.clone(), usage(container))).collect();
        Box::pin(std::future::ready(usage))
    }

    fn logs(&self) -> broadcast::Receiver<LogLine> {
        self.logs.subscribe()
    }

    fn kept_logs(&self, wanted: LogsWanted) -> Later<'_, io::Result<KeptLines>> {
        let inside = self.inside();
        let is_wanted = |line: &&LogLine| wanted.of.is(&line.owner) && line.at_ns > wanted.after_ns;
        let mut lines: Vec<LogLine> = inside.lines.iter().filter(is_wanted).cloned().collect();
        lines.drain(..lines.len().saturating_sub(wanted.lines_max));
        let now_ns = inside.lines.back().map_or(0, |line| line.at_ns);
        Box::pin(std::future::ready(Ok(KeptLines { now_ns, lines, left_out: 0 })))
    }

    fn close(&self) -> Later<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests;
