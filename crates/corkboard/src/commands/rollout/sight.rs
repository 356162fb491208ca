//! What is known of the update of an app at one moment, which is also the document of `rollout status --json`.
//!
//! It is made of the desired LRP and its instances. They are asked for one after the other, the desired LRP first, so an
//! instance may be newer than the update it belongs to, and never older.

use std::collections::BTreeMap;

use api::client::{Client, ClientError};
use api::models::actual_lrp::Presence;
use api::models::{ActualLrPsRequest, ActualLrp, DesiredLrp, Rollout, RolloutTerms};
use bbs::clock::{Clock as _, SystemClock};
use serde::Serialize;

use super::{EXIT_DONE, EXIT_HALTED, EXIT_TAKEN_BACK, EXIT_UNDER_WAY, EXIT_WAITS};
use crate::commands::logs::harmless::harmless;

/// On the wire the first definition has no number.
const FIRST: u32 = 1;
const UNTIL_RESUMED_MS: i64 = -1;
pub(super) const NANOS_PER_S: f64 = 1e9;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Sight {
    pub(crate) process_guid: String,
    pub(crate) phase: Phase,
    /// It takes another update back.
    pub(crate) reverts: bool,
    /// Why it takes one back, or does not go on.
    pub(crate) why: String,
    pub(super) from: Option<Named>,
    /// The definition in use.
    pub(super) to: Named,
    pub(crate) started_at: i64,
    pub(super) phase_since: i64,
    /// Of the instances that are wanted, how many have the definition and are no longer watched.
    pub(super) done: usize,
    pub(super) total: usize,
    pub(super) rate_per_s: Option<f64>,
    pub(super) eta_s: Option<f64>,
    pub(super) terms: Option<RolloutTerms>,
    pub(super) instances: Vec<Row>,
    pub(super) next: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// There was no update.
    None,
    Rolling,
    Canary,
    Paused,
    Halted,
    Done,
    /// Of a newer server.
    Unknown,
}

/// A definition, as people know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Named {
    pub(super) number: u32,
    /// Empty for the first, and for one that is not kept any more.
    pub(super) identifier: String,
}

impl Named {
    pub(super) fn shown(&self) -> String {
        match self.identifier.as_str() {
            "" => self.number.to_string(),
            identifier => format!("{} ({})", self.number, harmless(identifier)),
        }
    }
}

/// One row of an instance: during its replacement an index has two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    pub(super) index: i32,
    pub(super) definition: Named,
    pub(super) state: String,
    pub(super) cell_id: String,
    pub(super) instance_guid: String,
    pub(super) since: i64,
    pub(super) role: Role,
    pub(super) crash_count: i32,
    /// Why it is not placed, or why it crashed.
    pub(super) problem: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    Ordinary,
    /// An update replaces it; it goes when its successor has proven itself.
    Leaving,
    Successor,
    Evacuating,
    Suspect,
}

/// Looks at one app again and again.
pub(crate) struct Look<'a> {
    client: &'a Client,
    guid: &'a str,
    /// What definitions are called, as far as they are kept. They never change, so each is asked for once.
    names: BTreeMap<u32, String>,
}

impl<'a> Look<'a> {
    pub(crate) fn at(client: &'a Client, guid: &'a str) -> Self {
        Self { client, guid, names: BTreeMap::new() }
    }

    pub(crate) async fn now(&mut self) -> Result<Sight, ClientError> {
        let lrp = self.client.desired_lrp_by_process_guid(self.guid).await?;
        let filter = ActualLrPsRequest { process_guid: self.guid.to_owned(), ..ActualLrPsRequest::default() };
        let rows = self.client.actual_lrps(filter).await?;
        self.names.insert(number(lrp.definition_number), lrp.definition_identifier.clone());
        if lrp.previous_definition_number > 0 {
            self.names.insert(lrp.previous_definition_number, lrp.previous_definition_identifier.clone());
        }
        if let Some(from) = lrp.rollout.as_ref().map(|rollout| number(rollout.from_definition))
            && !self.names.contains_key(&from)
        {
            for kept in self.client.desired_lrp_definitions(self.guid).await? {
                self.names.insert(number(kept.definition_number), kept.definition_identifier);
            }
            self.names.entry(from).or_default();
        }
        Ok(sight(&lrp, &rows, &self.names, SystemClock.now_ns()))
    }
}

pub(super) fn number(wire: u32) -> u32 {
    wire.max(FIRST)
}

fn sight(lrp: &DesiredLrp, rows: &[ActualLrp], names: &BTreeMap<u32, String>, now_ns: i64) -> Sight {
    let named = |number: u32| Named { number, identifier: names.get(&number).cloned().unwrap_or_default() };
    let rollout = lrp.rollout.clone().unwrap_or_default();
    let phase = if lrp.rollout.is_none() { Phase::None } else { phase(&rollout.phase) };
    let to = number(lrp.definition_number);
    let mut instances: Vec<Row> = rows.iter().map(|row| instance(row, &rollout, phase, &named)).collect();
    instances.sort_by_key(|row| (row.index, row.role == Role::Leaving));
    let total = usize::try_from(lrp.instances).unwrap_or(0);
    let has_landed = |row: &&Row| {
        row.role == Role::Ordinary && row.definition.number == to && (0..lrp.instances).contains(&row.index)
    };
    let landed = instances.iter().filter(has_landed).count();
    let done = if phase == Phase::Done { total } else { landed };
    let mut sight = Sight {
        process_guid: lrp.process_guid.clone(),
        phase,
        reverts: rollout.reverts,
        why: rollout.why.clone(),
        from: lrp.rollout.is_some().then(|| named(number(rollout.from_definition))),
        to: named(to),
        started_at: rollout.started_at,
        phase_since: rollout.phase_since,
        done,
        total,
        rate_per_s: None,
        eta_s: None,
        terms: rollout.terms,
        instances,
        next: None,
    };
    // One that was held, or found instances that already had the definition, has another pace than this would say.
    if !sight.reverts && sight.phase_since == sight.started_at {
        sight.pace(sight.started_at, 0, now_ns);
    }
    sight.next = sight.next_command();
    sight
}

fn phase(word: &str) -> Phase {
    match word {
        "rolling" => Phase::Rolling,
        "canary" => Phase::Canary,
        "paused" => Phase::Paused,
        "halted" => Phase::Halted,
        "done" => Phase::Done,
        _ => Phase::Unknown,
    }
}

fn instance(row: &ActualLrp, rollout: &Rollout, phase: Phase, named: &impl Fn(u32) -> Named) -> Row {
    let index = row.actual_lrp_key.as_ref().map_or(0, |key| key.index);
    let holder = row.actual_lrp_instance_key.clone().unwrap_or_default();
    let is_watched = phase != Phase::Done && rollout.in_flight.contains(&index);
    let role = match row.presence() {
        Presence::Evacuating if row.leaving => Role::Leaving,
        Presence::Evacuating => Role::Evacuating,
        Presence::Suspect => Role::Suspect,
        Presence::Ordinary if is_watched => Role::Successor,
        Presence::Ordinary => Role::Ordinary,
    };
    let problem = match row.state.as_str() {
        "RUNNING" => "",
        _ if row.placement_error.is_empty() => &row.crash_reason,
        _ => &row.placement_error,
    };
    Row {
        index,
        definition: named(number(row.definition_number)),
        state: row.state.clone(),
        cell_id: holder.cell_id,
        instance_guid: holder.instance_guid,
        since: row.since,
        role,
        crash_count: row.crash_count,
        problem: problem.to_owned(),
    }
}

impl Sight {
    /// Says how fast it goes, from what was done at another moment.
    pub(super) fn pace(&mut self, then_ns: i64, done_then: usize, now_ns: i64) {
        let seconds = now_ns.saturating_sub(then_ns) as f64 / NANOS_PER_S;
        let progress = self.done.saturating_sub(done_then);
        let is_known = self.phase == Phase::Rolling && progress > 0 && seconds > 0.0;
        self.rate_per_s = is_known.then(|| progress as f64 / seconds);
        self.eta_s = self.rate_per_s.map(|rate| self.total.saturating_sub(self.done) as f64 / rate);
    }

    /// Without what changes by the mere passing of time.
    pub(super) fn lasting(&self) -> Self {
        Self { rate_per_s: None, eta_s: None, ..self.clone() }
    }

    pub(crate) fn is_under_way(&self) -> bool {
        !matches!(self.phase, Phase::None | Phase::Done)
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self.phase {
            Phase::Done if self.reverts => EXIT_TAKEN_BACK,
            Phase::None | Phase::Done => EXIT_DONE,
            Phase::Canary if self.waits_for_somebody() => EXIT_WAITS,
            Phase::Rolling | Phase::Canary | Phase::Unknown => EXIT_UNDER_WAY,
            Phase::Paused => EXIT_WAITS,
            Phase::Halted => EXIT_HALTED,
        }
    }

    /// Something happens without anybody.
    pub(crate) fn is_moving(&self) -> bool {
        self.exit_code() == EXIT_UNDER_WAY
    }

    pub(super) fn canary_pause_ms(&self) -> i64 {
        self.terms.as_ref().and_then(|terms| terms.canary_pause_ms).unwrap_or(0)
    }

    fn waits_for_somebody(&self) -> bool {
        self.canary_pause_ms() == UNTIL_RESUMED_MS
    }

    /// What comes first is what is usually wanted.
    fn next_command(&self) -> Option<String> {
        let guid = &self.process_guid;
        let on = format!("`corkboard rollout resume {guid}` goes on");
        let back = format!("`corkboard rollout cancel {guid}` takes it back");
        match self.phase {
            Phase::None | Phase::Done => None,
            Phase::Rolling | Phase::Unknown => Some(format!("`corkboard rollout status {guid} --watch` follows it")),
            Phase::Halted if !self.reverts => Some(format!("{back}, {on}")),
            _ if self.reverts => Some(on),
            Phase::Canary | Phase::Paused | Phase::Halted => Some(format!("{on}, {back}")),
        }
    }
}
