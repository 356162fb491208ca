//! An actual LRP: one row for one instance index in one presence, and the moves a row may make.
//!
//! [`table`] decides, the functions here build the row that follows. Callers go through [`crate::slot`], which knows the
//! other rows of the same index.

use std::fmt;
use std::sync::Arc;

use crate::{
    CellId, DefinitionNumber, DomainName, InstanceGuid, ModificationTag, Nanos, Packed, ProcessGuid, Unknown, crash,
    truncate_reason,
};

pub mod table;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActualLrp {
    pub key: ActualLrpKey,
    /// Who holds the instance. `None` exactly when the row is unclaimed or crashed.
    pub instance: Option<InstanceKey>,
    pub net_info: NetInfo,
    pub crash_count: i32,
    pub crash_reason: String,
    pub state: ActualState,
    pub placement_error: String,
    pub since_ns: Nanos,
    pub tag: ModificationTag,
    pub presence: Presence,
    pub internal_routes: Vec<String>,
    /// `None` when the cell never reported any (an older cell): such rows are left alone by convergence.
    pub metric_tags: Option<Packed<String>>,
    pub routable: bool,
    pub availability_zone: String,
    /// The definition of the desired LRP that this instance is made from.
    pub definition: DefinitionNumber,
    /// An update replaces it: it stays as the evacuating row until its successor has proven itself. Its cell does not drain.
    pub leaving: bool,
    pub unknown: Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActualLrpKey {
    pub process_guid: ProcessGuid,
    pub index: i32,
    pub domain: DomainName,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceKey {
    pub instance_guid: InstanceGuid,
    pub cell_id: CellId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActualState {
    Unclaimed,
    Claimed,
    Running,
    Crashed,
}

impl ActualState {
    pub const ALL: [Self; 4] = [Self::Unclaimed, Self::Claimed, Self::Running, Self::Crashed];

    /// As it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unclaimed => "UNCLAIMED",
            Self::Claimed => "CLAIMED",
            Self::Running => "RUNNING",
            Self::Crashed => "CRASHED",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl fmt::Display for ActualState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Presence {
    /// The authoritative instance of the index.
    Ordinary,
    /// A container on a draining cell, kept for routing until its replacement runs.
    Evacuating,
    /// A container on a cell that fell silent, kept for routing until a replacement runs or the cell returns.
    Suspect,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetInfo {
    pub address: String,
    pub ports: Vec<PortMapping>,
    pub instance_address: String,
    /// The wire's number; unknown ones are kept.
    pub preferred_address: i32,
    pub instance_ipv6_address: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortMapping {
    pub container_port: u32,
    pub host_port: u32,
    pub container_tls_proxy_port: u32,
    pub host_tls_proxy_port: u32,
}

/// What a cell reports about a container that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub net_info: NetInfo,
    pub internal_routes: Vec<String>,
    pub metric_tags: Option<Packed<String>>,
    pub routable: bool,
    pub availability_zone: String,
}

impl ActualLrp {
    pub fn unclaimed(key: ActualLrpKey, epoch: Arc<str>, now_ns: Nanos) -> Self {
        Self {
            key,
            instance: None,
            net_info: NetInfo::default(),
            crash_count: 0,
            crash_reason: String::new(),
            state: ActualState::Unclaimed,
            placement_error: String::new(),
            since_ns: now_ns,
            tag: ModificationTag::first(epoch),
            presence: Presence::Ordinary,
            internal_routes: Vec::new(),
            metric_tags: Some(Packed::default()),
            routable: false,
            availability_zone: String::new(),
            definition: DefinitionNumber::FIRST,
            leaving: false,
            unknown: Unknown::default(),
        }
    }

    /// A row that begins its life running: a start without a row, or an evacuating container.
    pub fn running(
        key: ActualLrpKey,
        by: InstanceKey,
        report: Report,
        presence: Presence,
        tag: ModificationTag,
        now_ns: Nanos,
    ) -> Self {
        Self {
            instance: Some(by),
            state: ActualState::Running,
            presence,
            tag,
            ..Self::unclaimed(key, Arc::from(""), now_ns)
        }
        .with_report(report)
    }

    fn with_report(mut self, report: Report) -> Self {
        self.net_info = report.net_info;
        self.internal_routes = report.internal_routes;
        self.metric_tags = report.metric_tags;
        self.routable = report.routable;
        self.availability_zone = report.availability_zone;
        self
    }

    /// The row with what its cell says now.
    pub(crate) fn told(self: &Arc<Self>, report: Report) -> Arc<Self> {
        match self.says_the_same(&report) {
            true => self.clone(),
            false => Arc::new(Self { tag: self.tag.next(), ..Self::clone(self) }.with_report(report)),
        }
    }

    pub fn report(&self) -> Report {
        Report {
            net_info: self.net_info.clone(),
            internal_routes: self.internal_routes.clone(),
            metric_tags: self.metric_tags.clone(),
            routable: self.routable,
            availability_zone: self.availability_zone.clone(),
        }
    }

    pub fn says_the_same(&self, report: &Report) -> bool {
        self.net_info == report.net_info
            && self.internal_routes == report.internal_routes
            && self.metric_tags == report.metric_tags
            && self.routable == report.routable
            && self.availability_zone == report.availability_zone
    }

    pub fn is_held_by(&self, by: &InstanceKey) -> bool {
        self.instance.as_ref() == Some(by)
    }

    pub fn cell_id(&self) -> Option<&CellId> {
        self.instance.as_ref().map(|instance| &instance.cell_id)
    }

    /// Claimed or running: a cell has this instance.
    pub fn is_held(&self) -> bool {
        matches!(self.state, ActualState::Claimed | ActualState::Running)
    }

    #[must_use]
    pub fn claimed(&self, by: &InstanceKey, now_ns: Nanos) -> Self {
        Self {
            instance: Some(by.clone()),
            state: ActualState::Claimed,
            net_info: NetInfo::default(),
            placement_error: String::new(),
            ..self.changed(now_ns)
        }
    }

    #[must_use]
    pub fn started(&self, by: &InstanceKey, report: Report, now_ns: Nanos) -> Self {
        Self {
            instance: Some(by.clone()),
            state: ActualState::Running,
            placement_error: String::new(),
            ..self.changed(now_ns)
        }
        .with_report(report)
    }

    /// The row after a crash: unclaimed if it restarts at once, crashed if it has to wait.
    #[must_use]
    pub fn crashed(&self, reason: &str, now_ns: Nanos) -> Self {
        let crash_count = crash::count_after_crash(self, now_ns);
        let state = if crash::restarts_at_once(crash_count) { ActualState::Unclaimed } else { ActualState::Crashed };
        Self {
            instance: None,
            net_info: NetInfo::default(),
            crash_count,
            crash_reason: truncate_reason(reason),
            state,
            ..self.changed(now_ns)
        }
    }

    #[must_use]
    pub fn failed(&self, reason: &str, now_ns: Nanos) -> Self {
        Self { placement_error: truncate_reason(reason), ..self.changed(now_ns) }
    }

    /// Back to unclaimed. Crash count and reason, placement error, routes, tags, routability and zone stay.
    #[must_use]
    pub fn returned(&self, now_ns: Nanos) -> Self {
        Self { instance: None, net_info: NetInfo::default(), state: ActualState::Unclaimed, ..self.changed(now_ns) }
    }

    /// The same container under another presence. The tag grows, so that consumers can order the flip.
    #[must_use]
    pub fn with_presence(&self, presence: Presence) -> Self {
        Self { presence, tag: self.tag.next(), ..self.clone() }
    }

    fn changed(&self, now_ns: Nanos) -> Self {
        Self { since_ns: now_ns, tag: self.tag.next(), ..self.clone() }
    }
}
