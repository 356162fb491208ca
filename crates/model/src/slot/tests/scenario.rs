//! Slots to begin with, and every call that can be made on one, as data. Tests of events and convergence use it too.

use std::sync::Arc;

use crate::slot::{Cause, Evacuation, EvacuationPolicy, Outcome, RunningEvacuation, Slot, Stamp};
use crate::{
    ActualLrp, ActualLrpKey, ActualState, CellId, DomainName, InstanceGuid, InstanceKey, ModificationTag,
    NANOS_PER_SECOND, Nanos, NetInfo, Presence, ProcessGuid, Refusal, Report, UpdateStrategy,
};

pub(crate) const NOW_NS: Nanos = 1_000_000 * NANOS_PER_SECOND;
/// What a row knows about its container before a call, and what a call that brings news says.
pub(crate) const KEPT: u8 = 1;
pub(crate) const NEWS: u8 = 2;

pub(crate) fn key() -> ActualLrpKey {
    key_at(0)
}

pub(crate) fn key_at(index: i32) -> ActualLrpKey {
    let (process_guid, domain) = (ProcessGuid::parse("app").unwrap(), DomainName::parse("domain").unwrap());
    ActualLrpKey { process_guid, index, domain }
}

/// A container and its cell, both called by one name.
pub(crate) fn held_by(name: &str) -> InstanceKey {
    InstanceKey { instance_guid: InstanceGuid::parse(name).unwrap(), cell_id: CellId::parse(name).unwrap() }
}

/// Two reports with different numbers differ in every part.
pub(crate) fn report(number: u8) -> Report {
    Report {
        net_info: NetInfo { address: number.to_string(), ..NetInfo::default() },
        internal_routes: vec![format!("{number}.internal")],
        metric_tags: Some([("number".to_owned(), number.to_string())].into()),
        routable: number % 2 == 1,
        availability_zone: format!("z{number}"),
    }
}

/// A row five changes old that is in its state for a minute.
pub(crate) fn row(presence: Presence, state: ActualState, holder: &str) -> ActualLrp {
    let epoch = match presence {
        Presence::Ordinary => "o",
        Presence::Evacuating => "e",
        Presence::Suspect => "s",
    };
    let since_ns = NOW_NS - 60 * NANOS_PER_SECOND;
    let base = ActualLrp {
        state,
        presence,
        tag: ModificationTag { epoch: epoch.into(), index: 5 },
        ..ActualLrp::unclaimed(key(), "".into(), since_ns)
    };
    match state {
        ActualState::Unclaimed | ActualState::Crashed => base,
        ActualState::Claimed => ActualLrp { instance: Some(held_by(holder)), ..base },
        ActualState::Running => {
            ActualLrp::running(key(), held_by(holder), report(KEPT), presence, base.tag.clone(), since_ns)
        }
    }
}

/// Who holds a row, seen by the caller, whose name is `me`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Me,
    Another,
}

impl Holder {
    fn name(self, another: &'static str) -> &'static str {
        match self {
            Self::Me => "me",
            Self::Another => another,
        }
    }
}

/// Every ordinary row with every evacuating one and with every suspect; with both of them only where an instance waits.
/// A container is never ordinary and suspect at once.
pub(crate) fn slots() -> Vec<Slot> {
    use ActualState::{Claimed, Crashed, Running, Unclaimed};
    use Holder::{Another, Me};
    let ordinaries = [
        None,
        Some((Unclaimed, Another)),
        Some((Claimed, Me)),
        Some((Claimed, Another)),
        Some((Running, Me)),
        Some((Running, Another)),
        Some((Crashed, Another)),
    ];
    let holders = [None, Some(Me), Some(Another)];
    let mut slots = Vec::new();
    for suspect in holders {
        for evacuating in holders {
            for ordinary in ordinaries {
                let both = suspect.is_some() && evacuating.is_some();
                let waits = matches!(ordinary, Some((Unclaimed, _)));
                let ordinary_and_suspect = suspect == Some(Me) && matches!(ordinary, Some((_, Me)));
                if ordinary_and_suspect || (both && !waits) {
                    continue;
                }
                slots.push(Slot {
                    ordinary: ordinary
                        .map(|(state, holder)| Arc::new(row(Presence::Ordinary, state, holder.name("ann")))),
                    evacuating: evacuating
                        .map(|holder| Arc::new(row(Presence::Evacuating, Running, holder.name("eve")))),
                    suspect: suspect.map(|holder| Arc::new(row(Presence::Suspect, Running, holder.name("sue")))),
                });
            }
        }
    }
    slots
}

/// What a rollout makes of a slot: one container leaves, and its successor is on its way.
fn rolling_slots() -> impl Iterator<Item = (&'static str, Slot)> {
    use ActualState::{Claimed, Crashed, Running, Unclaimed};
    let leaving =
        |name| Some(Arc::new(ActualLrp { leaving: true, ..row(Presence::Evacuating, ActualState::Running, name) }));
    let successor = |(state, name): (_, &str)| Some(Arc::new(row(Presence::Ordinary, state, name)));
    let mine = [None, Some((Unclaimed, "")), Some((Claimed, "ann")), Some((Running, "ann")), Some((Crashed, ""))];
    let mine = mine.map(|ordinary| {
        let slot = Slot { ordinary: ordinary.and_then(successor), evacuating: leaving("me"), suspect: None };
        ("my container leaves", slot)
    });
    let theirs = [(Unclaimed, ""), (Claimed, "me"), (Running, "me")].map(|ordinary| {
        let slot = Slot { ordinary: successor(ordinary), evacuating: leaving("eve"), suspect: None };
        ("the container of another leaves", slot)
    });
    mine.into_iter().chain(theirs)
}

/// Slots in which something other than the combination of rows matters.
pub(crate) fn special_slots() -> Vec<(&'static str, Slot)> {
    let crashed_twice = |state| Some(Arc::new(ActualLrp { crash_count: 2, ..row(Presence::Ordinary, state, "me") }));
    let only = |ordinary| Slot { ordinary, ..Slot::default() };
    let unclaimed = || Some(Arc::new(row(Presence::Ordinary, ActualState::Unclaimed, "")));
    let claimed_suspect = |name| Some(Arc::new(row(Presence::Suspect, ActualState::Claimed, name)));
    let mut slots = vec![
        ("running, crashed twice before", only(crashed_twice(ActualState::Running))),
        (
            "crashed twice before, masked by a suspect that is only claimed",
            Slot { suspect: claimed_suspect("sue"), ..only(crashed_twice(ActualState::Claimed)) },
        ),
        ("my suspect is only claimed", Slot { suspect: claimed_suspect("me"), ..only(unclaimed()) }),
    ];
    slots.extend(rolling_slots());
    slots
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Rolling,
    RecreateAllRunning,
    RecreateSomeDown,
    DesiredGone,
}

impl Policy {
    pub(crate) const ALL: [Self; 4] =
        [Self::Rolling, Self::RecreateAllRunning, Self::RecreateSomeDown, Self::DesiredGone];

    fn known(self) -> Option<EvacuationPolicy> {
        let recreate = |all_running| EvacuationPolicy { strategy: UpdateStrategy::RECREATE, all_running };
        match self {
            Self::Rolling => Some(EvacuationPolicy { strategy: UpdateStrategy::ROLLING, all_running: true }),
            Self::RecreateAllRunning => Some(recreate(true)),
            Self::RecreateSomeDown => Some(recreate(false)),
            Self::DesiredGone => None,
        }
    }
}

/// A call on a slot, by the container of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    CreateUnclaimed,
    Claim(&'static str),
    Start(&'static str, u8),
    Crash(&'static str),
    Fail,
    Remove(Option<&'static str>),
    RemoveUnheld,
    EvacuateClaimed(&'static str),
    EvacuateCrashed(&'static str),
    EvacuateStopped(&'static str),
    EvacuateRunning(&'static str, u8, Policy),
    RemoveEvacuating(&'static str),
    /// The calls of convergence name whom they saw; here that is whoever holds the row.
    LoseCell,
    PromoteSuspect,
    RetireSuspect,
    DropEvacuating,
    RestartCrashed,
    AuctionAgain,
}

/// What a call answered. `outcome` is `None` when convergence found that it was overtaken.
pub(crate) struct Answer {
    pub(crate) keep: Option<bool>,
    pub(crate) outcome: Result<Option<Outcome>, Refusal>,
}

impl Answer {
    /// The slot after the call, and why it changed.
    pub(crate) fn after(&self, before: &Slot) -> (Slot, Cause) {
        match &self.outcome {
            Ok(Some(outcome)) => (outcome.slot.clone(), outcome.cause),
            _ => (before.clone(), Cause::Plain),
        }
    }
}

impl From<Result<Outcome, Refusal>> for Answer {
    fn from(result: Result<Outcome, Refusal>) -> Self {
        Self { keep: None, outcome: result.map(Some) }
    }
}

impl From<Option<Outcome>> for Answer {
    fn from(outcome: Option<Outcome>) -> Self {
        Self { keep: None, outcome: Ok(outcome) }
    }
}

impl From<Evacuation> for Answer {
    fn from(evacuation: Evacuation) -> Self {
        Self { keep: Some(evacuation.keep), outcome: evacuation.result.map(Some) }
    }
}

impl Call {
    /// Every call once, made by `me`.
    pub(crate) fn all_by_me() -> Vec<Self> {
        let mut calls = vec![
            Self::CreateUnclaimed,
            Self::Claim("me"),
            Self::Start("me", KEPT),
            Self::Start("me", NEWS),
            Self::Crash("me"),
            Self::Fail,
            Self::Remove(Some("me")),
            Self::Remove(None),
            Self::RemoveUnheld,
            Self::EvacuateClaimed("me"),
            Self::EvacuateCrashed("me"),
            Self::EvacuateStopped("me"),
        ];
        calls.extend(Policy::ALL.map(|policy| Self::EvacuateRunning("me", NEWS, policy)));
        calls.extend([
            Self::RemoveEvacuating("me"),
            Self::LoseCell,
            Self::PromoteSuspect,
            Self::RetireSuspect,
            Self::DropEvacuating,
            Self::RestartCrashed,
            Self::AuctionAgain,
        ]);
        calls
    }

    pub(crate) fn make(self, slot: &Slot, stamp: &Stamp) -> Answer {
        let holder = |presence| slot.get(presence).and_then(|row| row.instance.clone());
        match self {
            Self::CreateUnclaimed => slot.create_unclaimed(&key(), stamp).into(),
            Self::Claim(by) => slot.claim(&held_by(by), stamp).into(),
            Self::Start(by, number) => slot.start(&key(), &held_by(by), report(number), stamp).into(),
            Self::Crash(by) => slot.crash(&held_by(by), "boom", stamp).into(),
            Self::Fail => slot.fail("no room", stamp).into(),
            Self::Remove(by) => slot.remove(by.map(held_by).as_ref()).into(),
            Self::RemoveUnheld => slot.remove_unheld().into(),
            Self::EvacuateClaimed(by) => slot.evacuate_claimed(&held_by(by), stamp).into(),
            Self::EvacuateCrashed(by) => slot.evacuate_crashed(&held_by(by), "boom", stamp).into(),
            Self::EvacuateStopped(by) => slot.evacuate_stopped(&held_by(by)).into(),
            Self::EvacuateRunning(by, number, policy) => {
                let (report, policy) = (report(number), policy.known());
                slot.evacuate_running(RunningEvacuation { key: key(), by: held_by(by), report, policy }, stamp).into()
            }
            Self::RemoveEvacuating(by) => slot.remove_evacuating(&held_by(by)).into(),
            Self::LoseCell => holder(Presence::Ordinary).and_then(|by| slot.lose_cell(&by, stamp)).into(),
            Self::PromoteSuspect => holder(Presence::Suspect).and_then(|by| slot.promote_suspect(&by)).into(),
            Self::RetireSuspect => holder(Presence::Suspect).and_then(|by| slot.retire_suspect(&by)).into(),
            Self::DropEvacuating => holder(Presence::Evacuating).and_then(|by| slot.drop_evacuating(&by)).into(),
            Self::RestartCrashed => slot.restart_crashed(stamp).into(),
            Self::AuctionAgain => slot.auction_again().into(),
        }
    }
}

/// As the golden files call it.
impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::CreateUnclaimed => "create_unclaimed",
            Self::Claim(_) => "claim",
            Self::Start(_, NEWS) => "start+news",
            Self::Start(..) => "start",
            Self::Crash(_) => "crash",
            Self::Fail => "fail",
            Self::Remove(Some(_)) => "remove(me)",
            Self::Remove(None) => "remove(any)",
            Self::RemoveUnheld => "remove_unheld",
            Self::EvacuateClaimed(_) => "evacuate_claimed",
            Self::EvacuateCrashed(_) => "evacuate_crashed",
            Self::EvacuateStopped(_) => "evacuate_stopped",
            Self::EvacuateRunning(.., Policy::Rolling) => "evacuate_running/rolling",
            Self::EvacuateRunning(.., Policy::RecreateAllRunning) => "evacuate_running/recreate",
            Self::EvacuateRunning(.., Policy::RecreateSomeDown) => "evacuate_running/recreate_some_down",
            Self::EvacuateRunning(.., Policy::DesiredGone) => "evacuate_running/desired_gone",
            Self::RemoveEvacuating(_) => "remove_evacuating",
            Self::LoseCell => "lose_cell",
            Self::PromoteSuspect => "promote_suspect",
            Self::RetireSuspect => "retire_suspect",
            Self::DropEvacuating => "drop_evacuating",
            Self::RestartCrashed => "restart_crashed",
            Self::AuctionAgain => "auction_again",
        })
    }
}

/// A row in one word: presence (with a comma if it leaves), state, holder, tag, and which report it keeps if it has one.
pub(crate) fn word(row: &ActualLrp) -> String {
    let presence = match row.presence {
        Presence::Ordinary => "O",
        Presence::Evacuating => "E",
        Presence::Suspect => "S",
    };
    let holder = row.instance.as_ref().map_or("-", |by| by.instance_guid.as_str());
    let address = match row.net_info.address.as_str() {
        "" => String::new(),
        number => format!("@{number}"),
    };
    let crashes = match row.crash_count {
        0 => String::new(),
        count => format!("!{count}"),
    };
    let leaves = if row.leaving { "," } else { "" };
    format!("{presence}{leaves}:{}:{holder}:{:?}{address}{crashes}", row.state, row.tag)
}

pub(crate) fn words(slot: &Slot) -> String {
    match slot.is_empty() {
        true => "nothing".to_owned(),
        false => slot.rows().map(|row| word(row)).collect::<Vec<_>>().join(" "),
    }
}
