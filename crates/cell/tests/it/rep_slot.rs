//! One index of an app by the rules of a state server: the model itself, behind the messages of a cell.

use std::sync::Arc;

use api::convert;
use api::models::{self, error::Type};
use bytes::Bytes;
use model::slot::{Evacuation, EvacuationPolicy, Outcome, RunningEvacuation, Stamp};
use model::{DefinitionNumber, InstanceKey, Refusal, Slot, UpdateStrategy};

#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) slot: Slot,
    changes: i64,
}

impl Index {
    /// Before any cell has the instance.
    pub(crate) fn wanted() -> Self {
        let mut index = Self::default();
        let key = models::ActualLrpKey { process_guid: "app".into(), index: 0, domain: "d".into() };
        let key = convert::lrp_key(Some(key)).unwrap();
        index.put(Slot::default().create_unclaimed(&key, &index.stamp()).ok());
        index
    }

    pub(crate) fn list(&self) -> Vec<models::ActualLrp> {
        self.slot.rows().filter(|row| row.instance.is_some()).map(|row| convert::actual_lrp(row)).collect()
    }

    /// An update begins to replace the instance.
    pub(crate) fn roll(&mut self) {
        let begun = self.slot.begin_roll(DefinitionNumber(2), &self.stamp());
        self.put(Some(begun.expect("the instance runs")));
    }

    /// The successor has proven itself; nobody asks the cell to stop what leaves.
    pub(crate) fn finish(&mut self) {
        let left = self.slot.let_leave(&self.leaving());
        self.put(Some(left.expect("one leaves")));
    }

    /// What was about to leave stays; nobody asks the cell to stop its successor.
    pub(crate) fn take_back(&mut self) {
        let stays = self.slot.take_back(&self.leaving());
        self.put(Some(stays.expect("one leaves")));
    }

    /// The successor runs on another cell.
    pub(crate) fn run_elsewhere(&mut self) {
        let row = self.slot.ordinary.clone().unwrap();
        let elsewhere = models::ActualLrpInstanceKey { instance_guid: "other".into(), cell_id: "cell-2".into() };
        let (by, report) = (convert::instance_key(Some(elsewhere)).unwrap(), row.report());
        self.put(self.slot.start(&row.key, &by, report, &self.stamp()).ok());
    }

    fn leaving(&self) -> InstanceKey {
        self.slot.leaving().and_then(|row| row.instance.clone()).expect("one leaves")
    }

    fn stamp(&self) -> Stamp {
        Stamp { now_ns: self.changes, epoch: format!("epoch-{}", self.changes).into() }
    }

    fn put(&mut self, outcome: Option<Outcome>) {
        if let Some(outcome) = outcome {
            self.slot = outcome.slot;
            self.changes += 1;
        }
    }

    /// What a state server answers, and whether a draining cell keeps the container.
    pub(crate) fn answer(&mut self, route: &str, body: &Bytes) -> (Option<models::Error>, bool) {
        let stamp = self.stamp();
        let (result, keep) = match route {
            "claim" => {
                let r: models::ClaimActualLrpRequest = api::decode(body).unwrap();
                (self.slot.claim(&by(r.actual_lrp_instance_key), &stamp), false)
            }
            "start" => {
                let mut r: models::StartActualLrpRequest = api::decode(body).unwrap();
                let key = convert::lrp_key(r.actual_lrp_key.take()).unwrap();
                let by = by(r.actual_lrp_instance_key.take());
                (self.slot.start(&key, &by, convert::report_of_start(r, false), &stamp), false)
            }
            "remove" => {
                let r: models::RemoveActualLrpRequest = api::decode(body).unwrap();
                (self.slot.remove(Some(&by(r.actual_lrp_instance_key))), false)
            }
            "crash" => {
                let r: models::CrashActualLrpRequest = api::decode(body).unwrap();
                (self.slot.crash(&by(r.actual_lrp_instance_key), &r.error_message, &stamp), false)
            }
            "remove_evacuating" => {
                let r: models::RemoveEvacuatingActualLrpRequest = api::decode(body).unwrap();
                (self.slot.remove_evacuating(&by(r.actual_lrp_instance_key)), false)
            }
            "evacuate_running" => {
                let mut r: models::EvacuateRunningActualLrpRequest = api::decode(body).unwrap();
                let call = RunningEvacuation {
                    key: convert::lrp_key(r.actual_lrp_key.take()).unwrap(),
                    by: by(r.actual_lrp_instance_key.take()),
                    report: convert::report_of_evacuation(r, false),
                    policy: Some(EvacuationPolicy { strategy: UpdateStrategy::ROLLING, all_running: true }),
                };
                let Evacuation { keep, result } = self.slot.evacuate_running(call, &stamp);
                (result, keep)
            }
            other => panic!("{other} is not played"),
        };
        match result {
            Ok(outcome) => {
                self.put(Some(outcome));
                (None, keep)
            }
            Err(refusal) => (Some(models::Error::new(kind(&refusal), "as the rules say")), keep),
        }
    }
}

fn by(key: Option<models::ActualLrpInstanceKey>) -> InstanceKey {
    convert::instance_key(key).unwrap()
}

fn kind(refusal: &Refusal) -> Type {
    match refusal {
        Refusal::CannotBeClaimed => Type::ActualLrpCannotBeClaimed,
        Refusal::CannotBeStarted => Type::ActualLrpCannotBeStarted,
        Refusal::NotFound => Type::ResourceNotFound,
        _ => Type::UnknownError,
    }
}

/// The rows in words.
pub(crate) fn words(slot: &Slot) -> String {
    let word = |row: &Arc<model::ActualLrp>| {
        let by = row.instance.as_ref().map_or("nobody", |by| by.instance_guid.as_str());
        format!("{:?} {} {by}{}", row.presence, row.state, if row.leaving { ", leaves" } else { "" })
    };
    slot.rows().map(word).collect::<Vec<_>>().join("; ")
}
