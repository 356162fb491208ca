//! What an operator may do with a record that cannot be read: try again, or give it up.
//!
//! Trying again reads the bytes with the code of this release. If they make an entity that the board does not hold, it is
//! stored like any other and the kept bytes go in the same step; if the board holds one of the same name, the newer one
//! stays and the operator decides. Giving up deletes the bytes, one record at a time, by its id.

use std::sync::Arc;

use bytes::Bytes;
use model::Slot;
use store::root::{HistoryEvent, original_key};
use store::{Entity, Forms, Loader, Step, Version};

use super::ask::{Answer, Did, Refused, Still};
use super::{Migrator, Outcome, Task, Trouble};
use crate::board::{Board, Kept, Place, SlotKey};
use crate::writer::errand::{Check, Control, Edit};

const LIST: Option<&str> = Some("corkboard quarantine list");

impl Migrator {
    pub(super) async fn discard_record(&mut self, id: &str) -> Answer {
        let board = self.parts.board.load_full();
        if !board.quarantine.contains_key(id) {
            return Err(no_such_record(id));
        }
        let mut step = Step::default();
        step.delete(id);
        let gone = id.to_owned();
        let edit: Edit = Arc::new(move |board| {
            board.quarantine.remove(&gone);
        });
        let control = Control { edit: Some(edit), ..Control::default() };
        let stored = self.record(control, step, HistoryEvent::QuarantineDiscarded, None, id).await;
        stored.map_err(|_| Refused::not_master())?;
        self.look_again_at_cleaning();
        Ok(Did::new(format!("{id} was discarded")))
    }

    /// Reads the kept bytes from the store again: a key that was added since may open them.
    async fn fetch_again(&self) -> Outcome {
        let kept = self.parts.board.load().quarantine.clone();
        let mut fresh = Vec::new();
        for (id, kept) in &kept {
            let bytes = self.parts.store.get(id).await.map_err(Trouble::Store)?;
            if let Some(bytes) = bytes.filter(|bytes| *bytes != kept.bytes) {
                fresh.push((id.clone(), Arc::new(Kept { bytes, ..Kept::clone(kept) })));
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let edit: Edit = Arc::new(move |board| {
            for (id, kept) in &fresh {
                if let Some(old) = board.quarantine.get_mut(id) {
                    *old = kept.clone();
                }
            }
        });
        self.control(Control { edit: Some(edit), ..Control::default() }).await
    }

    pub(super) async fn retry(&mut self, id: Option<String>) -> Answer {
        self.fetch_again().await.map_err(|_| Refused::not_master())?;
        let board = self.parts.board.load_full();
        let ids: Vec<String> = match id {
            Some(id) if !board.quarantine.contains_key(&id) => return Err(no_such_record(&id)),
            // Halves of one entity come back together, so all are fed and the rest is left.
            Some(id) => vec![id],
            None => board.quarantine.keys().cloned().collect(),
        };
        let mut did = Did::default();
        for (entity, from) in readable(&board) {
            if !from.iter().any(|id| ids.contains(id)) {
                continue;
            }
            match self.take_back(entity, &from).await {
                Ok(()) => did.recovered.extend(from),
                Err(why) => did.still.extend(from.into_iter().map(|id| Still { id, why: why.clone() })),
            }
        }
        let board = self.parts.board.load_full();
        for id in ids {
            let known = did.recovered.contains(&id) || did.still.iter().any(|still| still.id == id);
            if let Some(kept) = board.quarantine.get(&id).filter(|_| !known) {
                did.still.push(Still { id, why: kept.why.clone() });
            }
        }
        did.message = format!("{} records recovered, {} remain in quarantine", did.recovered.len(), did.still.len());
        self.look_again_at_cleaning();
        Ok(did)
    }

    async fn take_back(&mut self, entity: Entity, from: &[String]) -> Result<(), String> {
        if is_on(&self.parts.board.load(), &entity) {
            return Err(
                "it can be read, but a newer record of the same name exists; export it, compare, and discard it"
                    .to_owned(),
            );
        }
        let mut step = Step::default();
        from.iter().for_each(|id| step.delete(id.clone()));
        let mut lost = Vec::new();
        self.forms().change(&mut step, None, Some(entity.as_ref()), &mut lost);
        if let Some(lost) = lost.pop() {
            return Err(format!("the data version in use has no room for {}", lost.what));
        }
        let gone = from.to_vec();
        let label = entity.as_ref().label();
        let entity = Arc::new(entity);
        let awaited = entity.clone();
        let check: Check = Arc::new(move |board| !is_on(board, &awaited));
        let edit: Edit = Arc::new(move |board| {
            gone.iter().for_each(|id| {
                board.quarantine.remove(id);
            });
            put(board, Entity::clone(&entity));
        });
        let control = Control { check: Some(check), edit: Some(edit), ..Control::default() };
        let stored = self.record(control, step, HistoryEvent::QuarantineRetried, None, &label).await;
        stored.map_err(|_| "it could not be stored; the server is stopping".to_owned())
    }

    /// The forms that the writer stores at the moment.
    fn forms(&self) -> Forms {
        match self.task {
            Task::Migrate | Task::Ready => Forms::both(self.current, self.parts.newest),
            Task::Failed if self.current < self.parts.newest => Forms::both(self.current, self.parts.newest),
            Task::Rollback { to } => Forms::both(self.current, to),
            _ => Forms::only(self.current),
        }
    }

    /// An empty quarantine may be what cleaning up waited for: the task changes to itself, which wakes it.
    fn look_again_at_cleaning(&mut self) {
        if self.task == Task::Nothing && self.parts.board.load().quarantine.is_empty() {
            self.task = Task::CleanUp;
        }
    }
}

fn no_such_record(id: &str) -> Refused {
    Refused::new("no-such-record", format!("{id} is not in quarantine"), LIST)
}

/// Entities that the kept records make now, with the ids of the records each is made of.
fn readable(board: &Board) -> Vec<(Entity, Vec<String>)> {
    let mut found = Vec::new();
    for version in Version::ALL {
        let mut loader = Loader::new(*version);
        let mut open: Vec<(String, String)> = Vec::new();
        for (id, kept) in &board.quarantine {
            let key = key_of(id, kept);
            if !key.starts_with(version.root()) {
                continue;
            }
            open.push((key.to_owned(), id.clone()));
            if let Some(entity) = loader.feed(key, &kept.bytes) {
                let made_of = keys(*version, &entity);
                let ids = open.iter().filter(|(key, _)| made_of.contains(key)).map(|(_, id)| id.clone()).collect();
                found.push((entity, ids));
            }
        }
    }
    found
}

fn key_of<'a>(id: &'a str, kept: &Kept) -> &'a str {
    match kept.place {
        Place::InPlace => id,
        Place::Displaced => original_key(id).unwrap_or(id),
    }
}

fn keys(version: Version, entity: &Entity) -> Vec<String> {
    store::versions::records(version, entity.as_ref()).0.into_iter().map(|(key, _): (String, Bytes)| key).collect()
}

fn is_on(board: &Board, entity: &Entity) -> bool {
    match entity {
        Entity::Desired(lrp) => board.desired.contains_key(&lrp.process_guid),
        Entity::Actual(row) => board.slot(&row.key.process_guid, row.key.index).get(row.presence).is_some(),
        Entity::Task(task) => board.tasks.contains_key(&task.guid),
        Entity::Domain(domain) => board.domains.contains_key(&domain.name),
    }
}

fn put(board: &mut Board, entity: Entity) {
    match entity {
        Entity::Desired(lrp) => board.put_desired(Arc::new(lrp)),
        Entity::Actual(row) => {
            let key = SlotKey { process_guid: row.key.process_guid.clone(), index: row.key.index };
            let mut slot: Slot = board.slot(&key.process_guid, key.index);
            slot.set(row.presence, Some(Arc::new(row)));
            board.put_slot(key, slot);
        }
        Entity::Task(task) => board.put_task(Arc::new(task)),
        Entity::Domain(domain) => board.put_domain(domain),
    }
}
