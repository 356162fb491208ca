//! What is known about a cluster: filled by lists, kept up to date by events, and drawn by others.
//!
//! Promise: a list replaces all of its kind, and an event changes one record; events older than a list may be applied after
//! it, since those that follow bring the record to where it is. Memory is bounded: of records beyond [`RECORDS_MAX`] only the
//! number is kept, and of events the last [`EVENTS_MAX`]. What comes from a server is made printable here, once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use api::event::EventPayload;
use api::models::actual_lrp::Presence;
use api::models::task::State as TaskState;
use api::models::{ActualLrp, CellPresence, DesiredLrp, DesiredLrpSchedulingInfo, Task};
use bbs::nodes::NodeList;
use serde::{Deserialize, Serialize};

use super::words;
use crate::commands::migrate::or_default;

/// Instances, apps and tasks together.
const RECORDS_MAX: usize = 1_000_000;
/// More than anybody scrolls back.
const EVENTS_MAX: usize = 500;
/// Longer sentences are cut: a row is a line.
const SENTENCE_CHARS_MAX: usize = 300;

/// Everything that [`super::screens`] draws.
#[derive(Debug, Default)]
pub(super) struct Picture {
    pub(super) apps: BTreeMap<Arc<str>, App>,
    pub(super) cells: BTreeMap<Arc<str>, Cell>,
    pub(super) tasks: BTreeMap<Box<str>, Job>,
    /// The newest last.
    pub(super) events: VecDeque<Happening>,
    pub(super) server: Server,
    pub(super) line: Line,
    /// Records for which there was no room.
    pub(super) left_out: usize,
    /// So that the ids of cells exist once, however many instances name them.
    cell_ids: BTreeSet<Arc<str>>,
    records: usize,
}

/// How well the picture is known to be true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing has come yet.
    #[default]
    Connecting,
    Live,
    Away {
        since_ns: i64,
        why: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct App {
    /// `None` when only instances are left of it.
    pub(super) desired: Option<Desired>,
    pub(super) instances: BTreeMap<Place, Instance>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    pub(super) domain: Box<str>,
    pub(super) instances: i32,
    pub(super) memory_mb: i32,
    pub(super) disk_mb: i32,
}

/// Which record of an app. An ordinary one may stand beside one that evacuates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) index: i32,
    pub(super) presence: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) state: State,
    /// Empty while it is nowhere.
    pub(super) cell_id: Arc<str>,
    pub(super) instance_guid: Box<str>,
    pub(super) address: Box<str>,
    pub(super) crash_count: i32,
    pub(super) since_ns: i64,
    /// Why it is not placed, or why it crashed.
    pub(super) trouble: Box<str>,
    pub(super) is_placement_error: bool,
    /// Counted from 1.
    pub(super) definition: u32,
    /// An update replaces it.
    pub(super) is_leaving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Unclaimed,
    Claimed,
    Running,
    Crashed,
    /// Of a newer server.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) zone: Box<str>,
    pub(super) memory_mb: i32,
    pub(super) disk_mb: i32,
    pub(super) containers: i32,
    pub(super) address: Box<str>,
}

/// A task, as far as it takes room on a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) state: TaskState,
    pub(super) cell_id: Arc<str>,
    pub(super) memory_mb: i32,
    pub(super) disk_mb: i32,
}

/// One row of the list of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Happening {
    pub(super) at_ns: i64,
    pub(super) kind: &'static str,
    pub(super) what: String,
    pub(super) detail: String,
    pub(super) is_bad: bool,
}

/// What the operator's API says. An error is a sentence.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Server {
    pub(super) nodes: Option<Result<NodeList, String>>,
    pub(super) migration: Option<Result<Standing, String>>,
    pub(super) keys: Option<Result<Standing, String>>,
}

/// A migration or a rotation: what both documents have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Standing {
    pub(super) state: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) explanation: String,
    pub(super) next: Option<String>,
    pub(super) done: Option<u64>,
    pub(super) total: Option<u64>,
    pub(super) eta_s: Option<f64>,
}

/// All that is listed at once.
#[derive(Debug, Default)]
pub(super) struct Everything {
    pub(super) desired: Vec<DesiredLrpSchedulingInfo>,
    pub(super) actual: Vec<ActualLrp>,
    pub(super) tasks: Vec<Task>,
}

/// What a source tells a picture.
#[derive(Debug)]
pub(super) enum Update {
    Everything(Box<Everything>),
    Cells(Vec<CellPresence>),
    Event(Box<EventPayload>),
    Server(Box<Server>),
    Away(String),
}

impl Picture {
    pub(super) fn take(&mut self, update: Update, now_ns: i64) {
        match update {
            Update::Everything(all) => {
                self.replace(*all);
                self.line = Line::Live;
            }
            Update::Cells(cells) => {
                self.cells = cells.into_iter().map(|cell| (self.cell_id(&cell.cell_id), Cell::from(cell))).collect();
            }
            Update::Event(event) => self.follow(*event, now_ns),
            Update::Server(server) => self.server.take(*server),
            Update::Away(why) => {
                let since_ns = match self.line {
                    Line::Away { since_ns, .. } => since_ns,
                    _ => now_ns,
                };
                self.line = Line::Away { since_ns, why: printable(&why) };
            }
        }
    }

    fn replace(&mut self, all: Everything) {
        (self.records, self.left_out) = (0, 0);
        self.apps.clear();
        self.tasks.clear();
        let in_use: BTreeSet<Arc<str>> = self.cells.keys().cloned().collect();
        self.cell_ids = in_use;
        for info in all.desired {
            let (key, resource) =
                (info.desired_lrp_key.unwrap_or_default(), info.desired_lrp_resource.unwrap_or_default());
            let desired = Desired {
                domain: printable(&key.domain).into(),
                instances: info.instances,
                memory_mb: resource.memory_mb,
                disk_mb: resource.disk_mb,
            };
            self.desire(&key.process_guid, desired);
        }
        for lrp in all.actual {
            self.put(lrp);
        }
        for task in all.tasks {
            self.put_task(task);
        }
    }

    fn follow(&mut self, event: EventPayload, now_ns: i64) {
        if let Some(happening) = words::of(&event, now_ns) {
            if self.events.len() == EVENTS_MAX {
                self.events.pop_front();
            }
            self.events.push_back(happening);
        }
        match event {
            EventPayload::DesiredLrpCreated(event) => self.desire_all(event.desired_lrp),
            EventPayload::DesiredLrpChanged(event) => self.desire_all(event.after),
            EventPayload::DesiredLrpRemoved(event) => {
                let guid = event.desired_lrp.unwrap_or_default().process_guid;
                self.leave(&guid, |app| app.desired.take().is_some());
            }
            EventPayload::ActualLrpInstanceCreated(event) => {
                event.actual_lrp.into_iter().for_each(|lrp| self.put(lrp));
            }
            EventPayload::ActualLrpInstanceChanged(event) => {
                let Some(after) = event.after else { return };
                // A record that became a suspect, or the other way round, is the same record in another place.
                let before = event.before.map(|before| before.presence).filter(|before| *before != after.presence);
                let key = event.actual_lrp_key.unwrap_or_default();
                if let Some(presence) = before {
                    let place = Place { index: key.index, presence };
                    self.leave(&key.process_guid, |app| app.instances.remove(&place).is_some());
                }
                self.put(ActualLrp {
                    actual_lrp_key: Some(key),
                    actual_lrp_instance_key: event.actual_lrp_instance_key,
                    actual_lrp_net_info: after.actual_lrp_net_info,
                    crash_count: after.crash_count,
                    crash_reason: after.crash_reason,
                    state: after.state,
                    placement_error: after.placement_error,
                    since: after.since,
                    presence: after.presence,
                    definition_number: after.definition_number,
                    leaving: after.leaving,
                    ..ActualLrp::default()
                });
            }
            EventPayload::ActualLrpInstanceRemoved(event) => {
                let lrp = event.actual_lrp.unwrap_or_default();
                let key = lrp.actual_lrp_key.unwrap_or_default();
                let place = Place { index: key.index, presence: lrp.presence };
                self.leave(&key.process_guid, |app| app.instances.remove(&place).is_some());
            }
            EventPayload::TaskCreated(event) => event.task.into_iter().for_each(|task| self.put_task(task)),
            EventPayload::TaskChanged(event) => event.after.into_iter().for_each(|task| self.put_task(task)),
            EventPayload::TaskRemoved(event) => {
                let guid = event.task.unwrap_or_default().task_guid;
                self.records -= usize::from(self.tasks.remove(guid.as_str()).is_some());
            }
            // The older kind of stream is not followed, and a crash also comes as a change.
            EventPayload::ActualLrpCreated(_)
            | EventPayload::ActualLrpChanged(_)
            | EventPayload::ActualLrpRemoved(_)
            | EventPayload::ActualLrpCrashed(_)
            | EventPayload::Gap(_) => {}
        }
    }

    fn desire_all(&mut self, desired: Option<DesiredLrp>) {
        let Some(lrp) = desired else { return };
        let desired = Desired {
            domain: printable(&lrp.domain).into(),
            instances: lrp.instances,
            memory_mb: lrp.memory_mb,
            disk_mb: lrp.disk_mb,
        };
        self.desire(&lrp.process_guid, desired);
    }

    fn desire(&mut self, guid: &str, desired: Desired) {
        if let Some(app) = self.app(guid) {
            let is_new = app.desired.replace(desired).is_none();
            self.records += usize::from(is_new);
        }
    }

    fn put(&mut self, lrp: ActualLrp) {
        let key = lrp.actual_lrp_key.unwrap_or_default();
        let holder = lrp.actual_lrp_instance_key.unwrap_or_default();
        let (cell_id, net) = (self.cell_id(&holder.cell_id), lrp.actual_lrp_net_info.unwrap_or_default());
        let address = match net.ports.first() {
            Some(port) => format!("{}:{}", net.address, port.host_port),
            None => net.address,
        };
        let state = State::of(&lrp.state);
        let is_placement_error = state == State::Unclaimed && !lrp.placement_error.is_empty();
        let trouble = if is_placement_error { &lrp.placement_error } else { &lrp.crash_reason };
        let instance = Instance {
            state,
            cell_id,
            instance_guid: printable(&holder.instance_guid).into(),
            address: printable(&address).into(),
            crash_count: lrp.crash_count,
            since_ns: lrp.since,
            trouble: printable(trouble).into(),
            is_placement_error,
            // The first is not sent.
            definition: lrp.definition_number.max(1),
            is_leaving: lrp.leaving,
        };
        if let Some(app) = self.app(&key.process_guid) {
            let is_new = app.instances.insert(Place { index: key.index, presence: lrp.presence }, instance).is_none();
            self.records += usize::from(is_new);
        }
    }

    fn put_task(&mut self, task: Task) {
        let (state, cell_id) = (task.state(), self.cell_id(&task.cell_id));
        let definition = task.task_definition.unwrap_or_default();
        let job = Job { state, cell_id, memory_mb: definition.memory_mb, disk_mb: definition.disk_mb };
        let guid = printable(&task.task_guid);
        if self.records >= RECORDS_MAX && !self.tasks.contains_key(guid.as_str()) {
            self.left_out += 1;
        } else {
            self.records += usize::from(self.tasks.insert(guid.into(), job).is_none());
        }
    }

    /// `None` when there is no room for another one.
    fn app(&mut self, guid: &str) -> Option<&mut App> {
        let guid = printable(guid);
        if self.records >= RECORDS_MAX {
            let known = self.apps.get_mut(guid.as_str());
            self.left_out += usize::from(known.is_none());
            return known;
        }
        Some(self.apps.entry(guid.into()).or_default())
    }

    /// An app of which nothing is left is forgotten.
    fn leave(&mut self, guid: &str, go: impl FnOnce(&mut App) -> bool) {
        let guid = printable(guid);
        let Some(app) = self.apps.get_mut(guid.as_str()) else { return };
        self.records -= usize::from(go(app));
        if app.desired.is_none() && app.instances.is_empty() {
            self.apps.remove(guid.as_str());
        }
    }

    fn cell_id(&mut self, id: &str) -> Arc<str> {
        let id = printable(id);
        match self.cell_ids.get(id.as_str()) {
            Some(known) => known.clone(),
            None => {
                let new: Arc<str> = id.into();
                self.cell_ids.insert(new.clone());
                new
            }
        }
    }
}

impl Server {
    /// An error leaves the last good answer in place: the line to the server says that it is old.
    fn take(&mut self, new: Self) {
        fn better<T>(old: &mut Option<Result<T, String>>, new: Option<Result<T, String>>) {
            if matches!(new, Some(Ok(_))) || (new.is_some() && !matches!(old, Some(Ok(_)))) {
                *old = new;
            }
        }
        better(&mut self.nodes, new.nodes);
        better(&mut self.migration, new.migration);
        better(&mut self.keys, new.keys);
    }
}

impl App {
    /// During an update instances have two definitions.
    pub(super) fn has_two_definitions(&self) -> bool {
        let mut numbers = self.instances.values().map(|instance| instance.definition);
        let first = numbers.next();
        numbers.any(|number| Some(number) != first)
    }
}

impl State {
    fn of(text: &str) -> Self {
        match text {
            "UNCLAIMED" => Self::Unclaimed,
            "CLAIMED" => Self::Claimed,
            "RUNNING" => Self::Running,
            "CRASHED" => Self::Crashed,
            _ => Self::Other,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Unclaimed => "unclaimed",
            Self::Claimed => "claimed",
            Self::Running => "running",
            Self::Crashed => "crashed",
            Self::Other => "unknown",
        }
    }
}

impl Place {
    pub(super) fn is(self, presence: Presence) -> bool {
        self.presence == presence as i32
    }

    pub(super) fn presence_word(self) -> &'static str {
        match Presence::try_from(self.presence) {
            Ok(Presence::Ordinary) => "ordinary",
            Ok(Presence::Evacuating) => "evacuating",
            Ok(Presence::Suspect) => "suspect",
            Err(_) => "unknown",
        }
    }
}

impl From<CellPresence> for Cell {
    fn from(cell: CellPresence) -> Self {
        let capacity = cell.capacity.unwrap_or_default();
        let address = if cell.rep_url.is_empty() { &cell.rep_address } else { &cell.rep_url };
        Self {
            zone: printable(&cell.zone).into(),
            memory_mb: capacity.memory_mb,
            disk_mb: capacity.disk_mb,
            containers: capacity.containers,
            address: printable(address).into(),
        }
    }
}

/// Text of others on our terminal: one line, of bounded length, with nothing in it that a terminal would obey.
pub(super) fn printable(text: &str) -> String {
    text.chars().take(SENTENCE_CHARS_MAX).map(|c| if is_obeyed(c) { ' ' } else { c }).collect()
}

/// Control characters, and those that turn the direction of writing.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
