//! Whole rollouts of an app with three instances, and how they end if nothing gets in between.

use bytes::Bytes;
use model::rollout::{Pause, Terms};
use model::{
    DefinitionNumber, DesiredLrp, DesiredUpdate, DomainName, ImageCredentials, ModificationTag, NANOS_PER_SECOND,
    NewDefinition, Packed, ProcessGuid, Resources, Unknown, UpdateStrategy,
};

use crate::commands::{Ask, Command, DesireLrp, Steer, UpdateLrp, UpsertDomain};

pub(super) const INSTANCES: i32 = 3;
/// What all instances run when a story begins; `v1` and `v2` are kept.
pub(super) const OLD: &str = "v3";
const NEW: &str = "v4";

/// What becomes of containers of the new definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum New {
    Runs,
    /// So late that whoever was silent meanwhile is heard again before.
    RunsLate,
    Crashes,
    /// It is never ready.
    Hangs,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Story {
    pub(super) terms: Terms,
    pub(super) to: &'static str,
    /// To a definition that is kept.
    pub(super) is_rollback: bool,
    pub(super) new: New,
    /// Somebody cancels it after so many decisions.
    pub(super) cancelled_after: Option<usize>,
    /// Somebody cancels it when it does not go on.
    pub(super) cancelled_when_halted: bool,
}

impl Story {
    pub(super) const fn plain(terms: Terms) -> Self {
        Self { terms, to: NEW, is_rollback: false, new: New::Runs, cancelled_after: None, cancelled_when_halted: false }
    }

    pub(super) fn with(terms: Terms, new: New) -> Self {
        Self { new, ..Self::plain(terms) }
    }

    pub(super) fn halts() -> Self {
        let terms = Terms { reverts: false, ..Terms::default() };
        Self { cancelled_when_halted: true, ..Self::with(terms, New::Crashes) }
    }

    pub(super) fn cancelled(terms: Terms, after: usize) -> Self {
        Self { cancelled_after: Some(after), ..Self::plain(terms) }
    }

    pub(super) fn rollback(terms: Terms) -> Self {
        Self { to: "v1", is_rollback: true, ..Self::plain(terms) }
    }

    pub(super) fn begin(&self) -> Command {
        if self.is_rollback {
            return steer(Ask::Rollback { to: Some(self.to.to_owned()), terms: self.terms });
        }
        update_to(self.to, self.terms)
    }

    /// What all instances have at the end.
    pub(super) fn ends_at(&self, was_cancelled: bool) -> &'static str {
        let fails = matches!(self.new, New::Crashes | New::Hangs);
        if was_cancelled || fails { OLD } else { self.to }
    }
}

/// Short enough for a test: an index that does not get there fails after a minute.
pub(super) fn impatient() -> Terms {
    Terms { instance_deadline_ns: 60 * NANOS_PER_SECOND, ..Terms::default() }
}

pub(super) fn canary() -> Terms {
    Terms { canaries: 1, canary_pause: Pause::For(20 * NANOS_PER_SECOND), ..Terms::default() }
}

pub(super) fn app() -> ProcessGuid {
    ProcessGuid::parse("app").unwrap()
}

fn domain() -> DomainName {
    DomainName::parse("domain").unwrap()
}

pub(super) fn steer(ask: Ask) -> Command {
    Command::Steer(Box::new(Steer { process_guid: app(), ask }))
}

pub(super) fn update(update: DesiredUpdate) -> Command {
    Command::UpdateLrp(Box::new(UpdateLrp { process_guid: app(), update }))
}

pub(super) fn update_to(identifier: &str, terms: Terms) -> Command {
    let definition = NewDefinition {
        identifier: identifier.into(),
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        log_guid: String::new(),
        metrics_guid: String::new(),
        run_info: Bytes::copy_from_slice(identifier.as_bytes()),
    };
    update(DesiredUpdate { definition: Some(definition), terms, ..DesiredUpdate::default() })
}

/// Somebody vouches for the domain, so that what nobody wants may be stopped.
pub(super) fn vouch() -> Command {
    Command::UpsertDomain(UpsertDomain { name: domain(), ttl_s: 0 })
}

pub(super) fn desire() -> Command {
    let lrp = DesiredLrp {
        process_guid: app(),
        domain: domain(),
        log_guid: String::new(),
        annotation: String::new(),
        instances: INSTANCES,
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        routes: Packed::default(),
        metric_tags: Packed::default(),
        metrics_guid: String::new(),
        update_strategy: UpdateStrategy::ROLLING,
        image_credentials: ImageCredentials::default(),
        tag: ModificationTag::first("epoch".into()),
        run_info: Bytes::from_static(b"v1"),
        definition: DefinitionNumber::FIRST,
        definition_identifier: "v1".into(),
        previous: None,
        history: None,
        unknown: Unknown::default(),
    };
    Command::DesireLrp(Box::new(DesireLrp { lrp }))
}
